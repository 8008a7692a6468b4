/*
 * LU of the NAS Parallel Benchmarks: steps towards the steady flow by symmetric successive
 * over-relaxation (SSOR). A step solves
 *     (D + omega L) D^-1 (D + omega U) dU = omega (2 - omega) dt R(U)
 * for the change of the flow, where L and U couple a point with its neighbours before and after it
 * in x, y and z (Bailey et al., RNR-94-007, chapter 3; Yoon and Jameson, AIAA Journal 26(9),
 * 1988). The lower sweep goes through the grid with rising indices, the upper sweep back. It
 * measures what a machine does with a recurrence in three directions at once.
 *
 * Fronts. The rows of a plane are cut into blocks of LANES rows. Front f of a block is
 * slanted: lane l, on the block's row l, is at i = 1 + f - l. The neighbours that a lane needs are
 * then in the same lane (x) or the next (y) one front before, and in the same lane and front of the
 * plane before (z): a sweep is one stream of whole vectors.
 *
 * No blocks of 5 x 5. A point sends its neighbours the products of their blocks with its own
 * change: those blocks are functions of the sender's state, so all three directions share what is
 * derived from it. Nothing else of a point is needed by any other, and U is updated at once.
 *
 * Threads own ranges of blocks and go through the planes one behind the other. Every plane counts
 * the blocks that have passed it, and whoever needs them waits for that count only. When there are
 * more threads than blocks, several share each: they compute R(U) first, and then each goes through
 * all planes with a range of fronts, behind the range before and the block before.
 */
#include "flow.h"
#include "front.h"
#include "memory.h"
#include "progress.h"
#include "seat.h"
#include "surface.h"
#include "team.h"

#include <omp.h>
#include <stdbool.h>
#include <string.h>

static const double OMEGA = 1.2;
static const double TOLERANCE = 1.0e-8;

struct class {
    struct flow_class flow;
    double surface_integral; /* the official value */
};

static const struct class CLASSES[] = {
#include "lu_classes.inc"
};

static struct coefficients coefficients_of(const struct flow *flow, double dt) {
    const double t = 1.0 / (flow->h * flow->h);
    struct coefficients c = {
        .dt = dt,
        .diagonal = 1.0,
        .momentum = 2.0 * dt * t * FLOW_C3C4 * (4.0 / 3.0 + 1.0 + 1.0),
        .heat = 2.0 * dt * t * FLOW_C3C4 * 3.0 * FLOW_C1C5,
        .convection = OMEGA * dt / (2.0 * flow->h),
        .viscosity = OMEGA * dt * t * FLOW_C3C4,
        .relaxation = 1.0 / (OMEGA * (2.0 - OMEGA)),
    };
    for (int d = 0; d < 3; d++) {
        c.diagonal += 2.0 * dt * t * FLOW_DIFFUSION[d];
        c.diffusion[d] = OMEGA * dt * t * FLOW_DIFFUSION[d];
    }
    c.inverse_diagonal = 1.0 / c.diagonal;
    return c;
}

/* What a thread sends on to the fronts behind its own. */
struct handover {
    struct front sent[2];
};

/* What a run works on. */
struct lu {
    struct flow_run frame;
    struct coefficients coefficients;
    int blocks, fronts;         /* blocks of a plane, fronts of a block */
    struct front *change;       /* w, from the lower sweep for the upper: [k - 1][block][front] */
    struct front *across;       /* what is sent to the next plane: [block][front] */
    double *edge;               /* what is sent to the next block: [k][i + LANES - 2][m] */
    lanes *inside[2];           /* 1 in lanes in the grid: [front]; the second for last blocks */
    struct progress *progress;  /* of each plane or of each thread: see the sweeps */
    struct handover *handovers; /* [k][thread], when threads share blocks */
};

static int blocks_of(int n) { return (n - 2 + LANES - 1) / LANES; }

static int fronts_of(int n) { return n - 2 + LANES - 1; }

static size_t edge_doubles(const struct lu *lu) {
    return (size_t)(lu->fronts + EDGE_MARGIN) * FLOW_COMPONENTS;
}

/* A block of a plane, the work between two looks at the progress of others. */
struct task {
    int block, k;
};

/* Rows behind the grid's last are that row again, whose density can be divided by. */
static struct rows rows_of(const struct flow *flow, struct task task) {
    const int j_first = 1 + task.block * LANES, last = flow->n - 1;
    const int left = last - j_first;
    struct rows rows = {.component = flow->component, .count = left < LANES ? left : LANES};
    for (int l = 0; l < LANES; l++) {
        const int j = j_first + l < last ? j_first + l : last;
        rows.lane[l] = flow->u + (size_t)task.k * flow->plane + (size_t)j * flow->row;
    }
    return rows;
}

/* R(U) of a block's rows, which the thread's scratch memory has room for. */
static struct rows residual_rows(const struct flow *flow, struct task task, double *scratch) {
    struct rows residual = rows_of(flow, task);
    for (int l = 0; l < LANES; l++)
        residual.lane[l] = scratch + LANES + (size_t)l * flow->row;
    const int j_first = 1 + task.block * LANES;
    flow_residual(flow, task.k, j_first, j_first + residual.count, residual.lane[0]);
    return residual;
}

static void lower_block(const struct lu *lu, const struct passage *passage, struct task task,
                        double *scratch) {
    const struct rows state = rows_of(&lu->frame.flow, task);
    const struct rows residual = residual_rows(&lu->frame.flow, task, scratch);
    struct front sent[3] = {0};
    pass_fronts(passage, &state, &residual, 0, lu->fronts, sent, WHOLE, LOWER);
}

static void upper_block(const struct lu *lu, const struct passage *passage, struct task task) {
    const struct rows state = rows_of(&lu->frame.flow, task);
    struct front sent[3] = {0};
    pass_fronts(passage, &state, NULL, 0, lu->fronts, sent, WHOLE, UPPER);
}

/* As many as a plane has rows: with more, parts would be passed faster than messages. */
static int threads_with_work(int n) { return n - 2; }

/* Threads that sweep; the others would not find anything to do. */
static int workers_of(const struct lu *lu) {
    const int most = threads_with_work(lu->frame.flow.n);
    return lu->frame.threads < most ? lu->frame.threads : most;
}

/* Whether blocks have to be shared, since there are too few for a block or more each. */
static bool shares_blocks(const struct lu *lu) { return workers_of(lu) > lu->blocks; }

/*
 * A thread's first block of a plane. The remainder of the division goes to other threads from
 * plane to plane, so that all have the same number of blocks in the end.
 */
static int first_block(const struct lu *lu, int thread, int k) {
    const int workers = workers_of(lu);
    return thread < workers ? (thread * lu->blocks + k % workers) / workers : lu->blocks;
}

/* A thread's first task of a plane, and the task after a given one. */
static struct task first_task(const struct lu *lu, int thread, int k, enum sweep sweep) {
    const int block =
        sweep == LOWER ? first_block(lu, thread, k) : first_block(lu, thread + 1, k) - 1;
    return (struct task){block, k};
}

static struct task next_task(const struct lu *lu, int thread, struct task task, enum sweep sweep) {
    const struct task next = {task.block + sweep, task.k};
    const bool same_plane = next.block >= first_block(lu, thread, task.k) &&
                            next.block < first_block(lu, thread + 1, task.k);
    return same_plane ? next : first_task(lu, thread, task.k + sweep, sweep);
}

static bool in_grid(const struct lu *lu, struct task task) {
    return task.k >= 1 && task.k <= lu->frame.flow.n - 2;
}

static struct front *change_of(const struct lu *lu, struct task task) {
    return lu->change +
           ((size_t)(task.k - 1) * (size_t)lu->blocks + (size_t)task.block) * (size_t)lu->fronts;
}

static struct passage passage_of(const struct lu *lu, struct task task, struct task next) {
    if (!in_grid(lu, next)) /* the other sweep begins where this one ends */
        next = task;
    return (struct passage){
        .coefficients = &lu->coefficients,
        .fronts = lu->fronts,
        .inside = lu->inside[task.block == lu->blocks - 1],
        .change = change_of(lu, task),
        .across = lu->across + (size_t)task.block * (size_t)lu->fronts,
        .edge = lu->edge + (size_t)task.k * edge_doubles(lu),
        .next_change = change_of(lu, next),
        .next_rows = rows_of(&lu->frame.flow, next).lane[0],
    };
}

/*
 * A thread's part of a sweep, whole blocks. All sweeps are numbered, and each lets every block pass
 * every plane: that makes the count which a plane must have reached. The number of blocks that the
 * thread has passed is returned.
 *
 * A block needs the block before in its plane and itself in the plane before. Through these it
 * follows on all that it needs to see: the first block of a lower sweep on the end of the upper
 * sweep, hence R(U) on all updates of U, and those on all uses of the U before.
 */
static int sweep_blocks(const struct lu *lu, int thread, uint32_t number, enum sweep sweep,
                        double *scratch) {
    const int k_first = sweep == LOWER ? 1 : lu->frame.flow.n - 2;
    struct task task = first_task(lu, thread, k_first, sweep);
    int tasks = 0;
    while (in_grid(lu, task)) {
        const struct task next = next_task(lu, thread, task, sweep);
        const struct passage passage = passage_of(lu, task, next);
        const int before = sweep == LOWER ? task.block : lu->blocks - 1 - task.block;
        const uint32_t passed = number * (uint32_t)lu->blocks + (uint32_t)before;
        progress_await(&lu->progress[task.k], passed);
        if (task.k == k_first)
            memset(passage.across, 0, (size_t)lu->fronts * sizeof *passage.across);
        else
            progress_await(&lu->progress[task.k - sweep], passed + 1);
        if (before == 0)
            memset(passage.edge, 0, edge_doubles(lu) * sizeof *passage.edge);

        if (sweep == LOWER)
            lower_block(lu, &passage, task, scratch);
        else
            upper_block(lu, &passage, task);
        progress_announce(&lu->progress[task.k], passed + 1);
        task = next;
        tasks++;
    }
    return tasks;
}

/*
 * More threads than blocks. The fronts of all blocks, one block behind the other, are shared out:
 * about as many to every thread, or, where that leaves little over, to the threads of a block,
 * since a thread that has fronts of two blocks follows on one and is followed on in the other.
 */
static bool keeps_to_blocks(const struct lu *lu) {
    const int workers = workers_of(lu);
    return workers / lu->blocks * lu->blocks >= 0.9 * workers;
}

/* A thread's share when there are `of_block` things of every block: the first's, the next's ... */
static struct range share_of(const struct lu *lu, int of_block, int thread) {
    const int workers = workers_of(lu);
    if (!keeps_to_blocks(lu))
        return range_of(lu->blocks * of_block, thread, workers);
    const struct seat seat = seat_of(lu->blocks, workers, thread);
    const struct range range = range_of(of_block, seat.number, seat.of);
    return (struct range){seat.group * of_block + range.begin, seat.group * of_block + range.end};
}

/* The thread that has this front of a block. */
static int thread_at(const struct lu *lu, int block, int front) {
    int thread = 0;
    while (share_of(lu, lu->fronts, thread).end <= block * lu->fronts + front)
        thread++;
    return thread;
}

/* A thread's fronts of one block, and whom it has to follow on in every plane; or -1. */
struct part {
    int block;
    struct range fronts;
    int before; /* the thread with the fronts before these */
    int beside; /* that with the last front of the block before that sends to these, along y */
};

/* Fronts are slanted: those that send to others along y are ahead of them by this much. */
static int front_beside(const struct lu *lu, const struct part *part, enum sweep sweep) {
    const int ahead =
        sweep == LOWER ? part->fronts.end - 1 + EDGE_MARGIN : part->fronts.begin - EDGE_MARGIN;
    return ahead < 0 ? 0 : ahead < lu->fronts ? ahead : lu->fronts - 1;
}

static struct part part_of(const struct lu *lu, int thread, int block, enum sweep sweep) {
    const struct range share = share_of(lu, lu->fronts, thread);
    const int begin = share.begin - block * lu->fronts, end = share.end - block * lu->fronts;
    const int next = block - sweep;
    struct part part = {
        .block = block,
        .fronts = {begin > 0 ? begin : 0, end < lu->fronts ? end : lu->fronts},
        .before = -1,
        .beside = -1,
    };
    if (sweep == LOWER ? begin > 0 : end < lu->fronts)
        part.before = thread - sweep;
    if (next >= 0 && next < lu->blocks)
        part.beside = thread_at(lu, next, front_beside(lu, &part, sweep));
    return part;
}

/* A thread's parts, which are of one block or two, in the order of a sweep. */
static int parts_of(const struct lu *lu, int thread, enum sweep sweep, struct part parts[2]) {
    const struct range share = share_of(lu, lu->fronts, thread);
    const int first = share.begin / lu->fronts, last = (share.end - 1) / lu->fronts;
    parts[0] = part_of(lu, thread, sweep == LOWER ? first : last, sweep);
    if (first == last)
        return 1;
    parts[1] = part_of(lu, thread, sweep == LOWER ? last : first, sweep);
    return 2;
}

/* What a part of the first block of a sweep receives along y, from the boundary. */
static void clear_edge(double *edge, struct range fronts, enum sweep sweep) {
    const int place = fronts.begin + (sweep == LOWER ? EDGE_MARGIN : 0);
    memset(edge + (size_t)place * FLOW_COMPONENTS, 0,
           (size_t)(fronts.end - fronts.begin) * FLOW_COMPONENTS * sizeof *edge);
}

/* R(U) of a thread's share of blocks and planes, to where the sweep will read it: as fronts. */
static void place_residual(const struct lu *lu, int thread, double *scratch) {
    const int planes = lu->frame.flow.n - 2;
    const struct range share = share_of(lu, planes, thread);
    for (int at = share.begin; at < share.end; at++) {
        const struct task task = {at / planes, 1 + at % planes};
        const struct rows rows = residual_rows(&lu->frame.flow, task, scratch);
        struct front *to = change_of(lu, task);
        for (int first = 0; first < lu->fronts; first += LANES) {
            struct front r[LANES];
            load_fronts(r, &rows, first);
            for (int f = first; f < first + LANES && f < lu->fronts; f++)
                to[f] = r[f - first];
        }
    }
}

/* Lets a part pass plane k, for the `count`th time that this thread passes one. */
static void pass_part(const struct lu *lu, int thread, const struct part *part, int k,
                      uint32_t count, enum sweep sweep) {
    const struct task task = {part->block, k};
    const struct passage passage = passage_of(lu, task, task);
    const struct rows state = rows_of(&lu->frame.flow, task);
    const int begin = part->fronts.begin, end = part->fronts.end;
    struct handover *handovers = lu->handovers + (size_t)k * (size_t)workers_of(lu);
    struct front sent[3] = {0};
    if (k == (sweep == LOWER ? 1 : lu->frame.flow.n - 2))
        memset(passage.across + begin, 0, (size_t)(end - begin) * sizeof *passage.across);
    if (part->beside < 0)
        clear_edge(passage.edge, part->fronts, sweep);
    else if (part->beside != thread)
        progress_await(&lu->progress[part->beside], count);
    if (part->before >= 0) {
        progress_await(&lu->progress[part->before], count);
        memcpy(sent, handovers[part->before].sent, sizeof handovers[part->before].sent);
    }
    if (sweep == LOWER)
        pass_fronts(&passage, &state, NULL, begin, end, sent, PART, LOWER);
    else
        pass_fronts(&passage, &state, NULL, begin, end, sent, PART, UPPER);
    memcpy(handovers[thread].sent, sent, sizeof handovers[thread].sent);
}

/*
 * A thread's part of a sweep when blocks are shared: it announces the planes that it has passed
 * since the first step. Everybody is followed on, directly or not, by the last in a plane, so that
 * an upper sweep begins when all have ended the lower one. Returns the number of parts passed.
 */
static int sweep_parts(const struct lu *lu, int thread, uint32_t number, enum sweep sweep) {
    const int planes = lu->frame.flow.n - 2;
    struct part parts[2];
    const int count = parts_of(lu, thread, sweep, parts);
    uint32_t passed = number * (uint32_t)planes;
    for (int plane = 0; plane < planes; plane++) {
        const int k = sweep == LOWER ? 1 + plane : planes - plane;
        passed++;
        for (int part = 0; part < count; part++)
            pass_part(lu, thread, &parts[part], k, passed, sweep);
        progress_announce(&lu->progress[thread], passed);
    }
    return planes * count;
}

/* A thread's part of a step when blocks are shared: whether it found work. */
static bool step_parts(const struct lu *lu, struct member *me, uint32_t number, double *scratch) {
    const bool works = me->thread < workers_of(lu);
    int passed = 0;
    if (works)
        place_residual(lu, me->thread, scratch);
    team_barrier(me->team);
    if (works)
        passed = sweep_parts(lu, me->thread, 2 * number, LOWER) +
                 sweep_parts(lu, me->thread, 2 * number + 1, UPPER);
    team_barrier(me->team);
    return passed > 0;
}

static bool step(const void *solver, struct member *me, int number, double *scratch) {
    const struct lu *lu = solver;
    const uint32_t lower = 2 * (uint32_t)number, upper = lower + 1;
    if (shares_blocks(lu))
        return step_parts(lu, me, (uint32_t)number, scratch);
    return sweep_blocks(lu, me->thread, lower, LOWER, scratch) > 0 &&
           sweep_blocks(lu, me->thread, upper, UPPER, scratch) > 0;
}

/* Places rows in memory: those of blocks begin .. end - 1 with the boundary beside them. */
static void place_rows_of(const struct lu *lu, int k, int begin, int end) {
    const struct flow *flow = &lu->frame.flow;
    const int j_begin = begin == 0 ? 0 : 1 + begin * LANES;
    const int j_end = end == lu->blocks ? flow->n : 1 + end * LANES;
    const size_t at = (size_t)k * flow->plane + (size_t)j_begin * flow->row;
    const size_t bytes = (size_t)(j_end - j_begin) * flow->row * sizeof(double);
    memset(flow->u + at, 0, bytes);
    memset(flow->forcing + at, 0, bytes);
}

static void place_rows(const void *solver, int thread) {
    const struct lu *lu = solver;
    const int last = lu->frame.flow.n - 1;
    if (thread >= workers_of(lu))
        return;
    if (!shares_blocks(lu)) {
        for (int k = 0; k <= last; k++) {
            const int begin = first_block(lu, thread, k), end = first_block(lu, thread + 1, k);
            if (begin < end)
                place_rows_of(lu, k, begin, end);
        }
        return;
    }
    const struct range share = share_of(lu, last - 1, thread);
    for (int at = share.begin; at < share.end; at++) {
        const int block = at / (last - 1), k = 1 + at % (last - 1);
        place_rows_of(lu, k, block, block + 1);
        if (k == 1)
            place_rows_of(lu, 0, block, block + 1);
        if (k == last - 1)
            place_rows_of(lu, last, block, block + 1);
    }
}

/* For R(U) of a block of rows, with a vector on either side. */
static size_t scratch_doubles(const struct flow *flow) { return LANES * flow->row + 4 * LANES; }

/* None when every thread has a block. */
static size_t handovers_of(int n, int threads) {
    const int most = threads_with_work(n), workers = threads < most ? threads : most;
    return workers > blocks_of(n) ? (size_t)n * (size_t)workers : 0;
}

static size_t fronts_of_plane(int n) { return (size_t)blocks_of(n) * (size_t)fronts_of(n); }

static struct lu lu_create(const struct flow_class *class, struct result *result) {
    struct lu lu = {
        .frame = flow_run_create(class, result),
        .blocks = blocks_of(class->n),
        .fronts = fronts_of(class->n),
    };
    const size_t n = (size_t) class->n, fronts = fronts_of_plane(class->n);
    lu.coefficients = coefficients_of(&lu.frame.flow, class->dt);
    lu.change = memory_pages((n - 2) * fronts, sizeof *lu.change);
    lu.across = memory_pages(fronts, sizeof *lu.across);
    lu.edge = memory_pages(n * edge_doubles(&lu), sizeof *lu.edge);
    lu.inside[0] = memory_pages(2 * (size_t)lu.fronts, sizeof *lu.inside[0]);
    lu.inside[1] = lu.inside[0] + lu.fronts;
    lu.progress = memory_pages(n, sizeof *lu.progress);
    lu.handovers =
        memory_pages(handovers_of(class->n, omp_get_max_threads()), sizeof *lu.handovers);
    lu.frame.scratch_doubles = scratch_doubles(&lu.frame.flow);
    lu.frame.times_residual = true;
    lu.frame.place = place_rows;
    lu.frame.step = step;
    return lu;
}

static void lu_prepare(const struct lu *lu) {
    const int n = lu->frame.flow.n, rows_of_last_block = n - 2 - (lu->blocks - 1) * LANES;
    for (int s = 0; s < lu->fronts; s++)
        for (int l = 0; l < LANES; l++) {
            const int i = 1 + s - l;
            const bool in_row = i >= 1 && i <= n - 2;
            lu->inside[0][s][l] = in_row;
            lu->inside[1][s][l] = in_row && l < rows_of_last_block;
        }
    for (int k = 0; k < n; k++)
        progress_init(&lu->progress[k]);
}

static uint64_t bytes_needed(size_t class, int threads) {
    const int n = CLASSES[class].flow.n;
    const struct flow shape = flow_shape(n);
    const struct lu lu = {.fronts = fronts_of(n)};
    return flow_run_bytes(n, threads, scratch_doubles(&shape)) +
           (uint64_t)(n - 1) * fronts_of_plane(n) * sizeof(struct front) +
           (uint64_t)n * (edge_doubles(&lu) * sizeof(double) + sizeof(struct progress)) +
           2 * (uint64_t)lu.fronts * sizeof(lanes) +
           (uint64_t)handovers_of(n, threads) * sizeof(struct handover);
}

static uint64_t useful_threads(size_t class) {
    return (uint64_t)threads_with_work(CLASSES[class].flow.n);
}

static void run(size_t class_index, struct result *result) {
    const struct class *class = &CLASSES[class_index];
    struct lu lu = lu_create(&class->flow, result);
    if (memory_refused())
        return;
    lu.frame.solver = &lu;
    lu_prepare(&lu);
    flow_solve(&lu.frame);
    if (memory_refused())
        return;
    const double n = class->flow.n;
    result->operations =
        class->flow.steps * (1984.77 * n * n * n - 10923.3 * n * n + 27770.9 * n - 144010.0);
    result_check(result, "surface integral", surface_integral(&lu.frame.flow),
                 class->surface_integral, TOLERANCE);
}

const struct program PROGRAM = {
    .name = "npb-lu",
    .title = "steady flow by symmetric over-relaxation (NAS Parallel Benchmarks)",
    .bytes_needed = bytes_needed,
    .useful_threads = useful_threads,
    .run = run,
};
