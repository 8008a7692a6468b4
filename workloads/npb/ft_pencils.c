/*
 * FT for ranks: the transform of npb/ft.c by pencils. The ranks are a grid of `along` x `across`.
 * Each holds whole lines along one direction at a time, of a part of the planes that the other two
 * directions span, and ranks exchange parts of their lines between transforms:
 *
 *     along x   planes z by `along`     blocks of y by `across`
 *       |       exchanged among those with the same planes
 *     along y   planes z by `along`     blocks of x by `across`
 *       |       exchanged among those with the same blocks of x
 *     along z   rows y by `along`       blocks of x by `across`
 *
 * Forward goes down, backward up. With a side of one rank there is nothing to exchange on it, and
 * the pointers to both buffers change places instead.
 *
 * The arithmetic is that of npb/ft.c, line by line, with the same vectors of neighbouring lines, so
 * that the checksums are the same bits for any number of ranks and threads. An element is LANES
 * neighbours along y while lines along x are transformed, else along x; squares of numbers are
 * transposed on the way into the exchange of those two, and out of it.
 *
 * Real and imaginary part are exchanged on the way back, as there.
 */
#include "diffusion.h"
#include "fft.h"
#include "memory.h"
#include "program.h"
#include "ranks.h"
#include "seat.h"
#include "team.h"

#include <complex.h>
#include <omp.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

/* What a rank has of the grid. Blocks are LANES lines wide. */
struct share {
    struct range z;        /* planes, of lines along x and y */
    struct range y_blocks; /* of lines along x */
    struct range x_blocks; /* of lines along y and z */
    struct range y;        /* of lines along z */
};

struct problem {
    const struct class *class;
    int along, across;             /* sides of the grid of ranks */
    struct share mine;             /* this rank's */
    struct fft_element *spectrum;  /* [x block][y][z] */
    struct fft_element *to, *from; /* what is sent, and what was received */
    struct fft_plan along_x, along_y, along_z;
    struct diffusion_powers powers;
    double complex point[CHECKSUM_POINTS]; /* those of the present step; 0 where others have them */
    double complex checksum[DIFFUSION_STEPS]; /* rank 0's */
    struct ranks_message *sent, *received;    /* one for each rank of a side */
    struct result *result;
};

struct worker {
    struct problem *problem;
    struct member member;
    struct fft_element *line, *work; /* for the longest transform */
    double decay_x[FFT_LONGEST], decay_y[FFT_LONGEST], decay_z[FFT_LONGEST];
};

static size_t size_of(struct range range) { return (size_t)(range.end - range.begin); }

/* The parts of the `of` ranks of a side of the grid. */
static struct range z_of(const struct problem *problem, int rank) {
    return range_of((int)problem->class->nz, rank, problem->along);
}

static struct range y_of(const struct problem *problem, int rank) {
    return range_of((int)problem->class->ny, rank, problem->along);
}

static struct range y_blocks_of(const struct problem *problem, int rank) {
    return range_of((int)problem->class->ny / LANES, rank, problem->across);
}

static struct range x_blocks_of(const struct problem *problem, int rank) {
    return range_of((int)problem->class->nx / LANES, rank, problem->across);
}

/* Each rank has a line or more of each direction. */
static bool grid_fits(const struct class *class, int along, int across) {
    const size_t narrow = class->nx < class->ny ? class->nx : class->ny;
    const size_t flat = class->ny < class->nz ? class->ny : class->nz;
    return (size_t)across <= narrow / LANES && (size_t)along <= flat;
}

/* The sides of the grid of ranks, as nearly equal as may be. False where there is no such grid. */
static bool choose_grid(struct problem *problem, int ranks) {
    int side = 1;
    while ((side + 1) * (side + 1) <= ranks)
        side++;
    for (; side > 0; side--)
        for (int turned = 0; turned < 2 && ranks % side == 0; turned++) {
            problem->across = turned ? ranks / side : side;
            problem->along = ranks / problem->across;
            if (grid_fits(problem->class, problem->along, problem->across))
                return true;
        }
    return false;
}

static struct share share_of(const struct problem *problem, int rank) {
    const int row = rank / problem->across, column = rank % problem->across;
    return (struct share){z_of(problem, row), y_blocks_of(problem, column),
                          x_blocks_of(problem, column), y_of(problem, row)};
}

/*
 * Where the parts of lines lie in the buffers. Those for, or from, one rank are in one piece, and
 * the pieces are in the order of ranks.
 *
 * Between x and y: [z][x block][y], of the y of one rank and the blocks of x of the other.
 */
static size_t at_x_line(const struct problem *problem, size_t z, int rank, size_t y) {
    const struct share *mine = &problem->mine;
    const struct range x_blocks = x_blocks_of(problem, rank);
    const size_t width = size_of(mine->y_blocks) * LANES;
    return size_of(mine->z) * (size_t)x_blocks.begin * width + z * size_of(x_blocks) * width + y;
}

static size_t at_y_line(const struct problem *problem, size_t z, size_t x_block, int rank) {
    const struct share *mine = &problem->mine;
    const struct range y_blocks = y_blocks_of(problem, rank);
    const size_t width = size_of(y_blocks) * LANES, x_blocks = size_of(mine->x_blocks);
    return size_of(mine->z) * x_blocks * (size_t)y_blocks.begin * LANES +
           (z * x_blocks + x_block) * width;
}

/* Between y and z: [x block][y][z], of the z of one rank and the y of the other. */
static size_t at_y_column(const struct problem *problem, size_t z, size_t x_block, int rank) {
    const struct share *mine = &problem->mine;
    const struct range y = y_of(problem, rank);
    const size_t planes = size_of(mine->z);
    return size_of(mine->x_blocks) * (size_t)y.begin * planes + x_block * size_of(y) * planes + z;
}

static size_t at_z_line(const struct problem *problem, size_t x_block, size_t y, int rank) {
    const struct share *mine = &problem->mine;
    const struct range z = z_of(problem, rank);
    const size_t rows = size_of(mine->y);
    return size_of(mine->x_blocks) * rows * (size_t)z.begin + (x_block * rows + y) * size_of(z);
}

static struct ranks_message message(int with, struct fft_element *first, size_t elements) {
    return (struct ranks_message){
        .with = with, .numbers = (double *)first, .count = elements * 2 * LANES};
}

static void swap_buffers(struct problem *problem) {
    struct fft_element *const sent = problem->to;
    problem->to = problem->from;
    problem->from = sent;
}

/* Among the ranks with the same planes, between lines along x and along y; `up` is back to x. */
static void exchange_across(struct problem *problem, bool up) {
    if (problem->across == 1) {
        swap_buffers(problem);
        return;
    }
    const struct share *mine = &problem->mine;
    const int row = ranks_mine() / problem->across;
    for (int other = 0; other < problem->across; other++) {
        const int with = row * problem->across + other;
        const size_t x_side = at_x_line(problem, 0, other, 0);
        const size_t y_side = at_y_line(problem, 0, 0, other);
        const size_t x_elements = size_of(mine->z) * size_of(mine->y_blocks) * LANES *
                                  size_of(x_blocks_of(problem, other));
        const size_t y_elements = size_of(mine->z) * size_of(mine->x_blocks) *
                                  size_of(y_blocks_of(problem, other)) * LANES;
        problem->sent[other] = up ? message(with, problem->to + y_side, y_elements)
                                  : message(with, problem->to + x_side, x_elements);
        problem->received[other] = up ? message(with, problem->from + x_side, x_elements)
                                      : message(with, problem->from + y_side, y_elements);
    }
    ranks_exchange(problem->sent, problem->across, problem->received, problem->across);
}

/* Among the ranks with the same blocks of x, between lines along y and along z; `up` is back to y.
 */
static void exchange_along(struct problem *problem, bool up) {
    if (problem->along == 1) {
        swap_buffers(problem);
        return;
    }
    const struct share *mine = &problem->mine;
    const int column = ranks_mine() % problem->across;
    for (int other = 0; other < problem->along; other++) {
        const int with = other * problem->across + column;
        const size_t y_side = at_y_column(problem, 0, 0, other);
        const size_t z_side = at_z_line(problem, 0, 0, other);
        const size_t y_elements =
            size_of(mine->x_blocks) * size_of(y_of(problem, other)) * size_of(mine->z);
        const size_t z_elements =
            size_of(mine->x_blocks) * size_of(mine->y) * size_of(z_of(problem, other));
        problem->sent[other] = up ? message(with, problem->to + z_side, z_elements)
                                  : message(with, problem->to + y_side, y_elements);
        problem->received[other] = up ? message(with, problem->from + y_side, y_elements)
                                      : message(with, problem->from + z_side, z_elements);
    }
    ranks_exchange(problem->sent, problem->along, problem->received, problem->along);
}

typedef void exchange_function(struct problem *problem, bool up);

/* When all threads have filled the buffer that is sent. */
static void exchange(const struct worker *me, exchange_function *among, bool up) {
    team_barrier(me->member.team);
    if (me->member.thread == 0)
        among(me->problem, up);
    team_barrier(me->member.team);
}

static void transform(const struct worker *me, const struct fft_plan *plan) {
    fft_transform(plan, fft_equidistant(me->line, 1), me->work, fft_equidistant(me->line, 1));
}

/* LANES lines along x: into the buffer as squares of lines along y, and out of it. */
static void put_x_line(const struct worker *me, size_t z, size_t y_block) {
    const struct problem *problem = me->problem;
    const size_t width = size_of(problem->mine.y_blocks) * LANES;
    for (int rank = 0; rank < problem->across; rank++) {
        const struct range blocks = x_blocks_of(problem, rank);
        struct fft_element *to = problem->to + at_x_line(problem, z, rank, y_block * LANES);
        for (size_t block = (size_t)blocks.begin; block < (size_t)blocks.end; block++, to += width)
            fft_transpose(me->line + block * LANES, to);
    }
}

static void get_x_line(const struct worker *me, size_t z, size_t y_block) {
    const struct problem *problem = me->problem;
    const size_t width = size_of(problem->mine.y_blocks) * LANES;
    for (int rank = 0; rank < problem->across; rank++) {
        const struct range blocks = x_blocks_of(problem, rank);
        const struct fft_element *from =
            problem->from + at_x_line(problem, z, rank, y_block * LANES);
        for (size_t block = (size_t)blocks.begin; block < (size_t)blocks.end;
             block++, from += width)
            fft_transpose(from, me->line + block * LANES);
    }
}

/* A line along y, as ranks have it that transform along x. */
static void put_y_line(const struct worker *me, size_t z, size_t x_block) {
    const struct problem *problem = me->problem;
    for (int rank = 0; rank < problem->across; rank++) {
        const struct range blocks = y_blocks_of(problem, rank);
        memcpy(problem->to + at_y_line(problem, z, x_block, rank),
               me->line + (size_t)blocks.begin * LANES, size_of(blocks) * LANES * sizeof *me->line);
    }
}

static void get_y_line(const struct worker *me, size_t z, size_t x_block) {
    const struct problem *problem = me->problem;
    for (int rank = 0; rank < problem->across; rank++) {
        const struct range blocks = y_blocks_of(problem, rank);
        memcpy(me->line + (size_t)blocks.begin * LANES,
               problem->from + at_y_line(problem, z, x_block, rank),
               size_of(blocks) * LANES * sizeof *me->line);
    }
}

/* A line along y, as ranks have it that transform along z. */
static void put_y_column(const struct worker *me, size_t z, size_t x_block) {
    const struct problem *problem = me->problem;
    const size_t planes = size_of(problem->mine.z);
    for (int rank = 0; rank < problem->along; rank++) {
        const struct range rows = y_of(problem, rank);
        struct fft_element *to = problem->to + at_y_column(problem, z, x_block, rank);
        for (size_t y = (size_t)rows.begin; y < (size_t)rows.end; y++, to += planes)
            *to = me->line[y];
    }
}

static void get_y_column(const struct worker *me, size_t z, size_t x_block) {
    const struct problem *problem = me->problem;
    const size_t planes = size_of(problem->mine.z);
    for (int rank = 0; rank < problem->along; rank++) {
        const struct range rows = y_of(problem, rank);
        const struct fft_element *from = problem->from + at_y_column(problem, z, x_block, rank);
        for (size_t y = (size_t)rows.begin; y < (size_t)rows.end; y++, from += planes)
            me->line[y] = *from;
    }
}

static void put_z_line(const struct worker *me, size_t x_block, size_t y) {
    const struct problem *problem = me->problem;
    for (int rank = 0; rank < problem->along; rank++) {
        const struct range planes = z_of(problem, rank);
        memcpy(problem->to + at_z_line(problem, x_block, y, rank), me->line + planes.begin,
               size_of(planes) * sizeof *me->line);
    }
}

static void get_z_line(const struct worker *me, size_t x_block, size_t y) {
    const struct problem *problem = me->problem;
    for (int rank = 0; rank < problem->along; rank++) {
        const struct range planes = z_of(problem, rank);
        memcpy(me->line + planes.begin, problem->from + at_z_line(problem, x_block, y, rank),
               size_of(planes) * sizeof *me->line);
    }
}

/* A thread's part of as many tasks as there are. */
static struct range part(const struct worker *me, size_t tasks) {
    return range_of((int)tasks, me->member.thread, me->member.team->threads);
}

/* The tasks of each direction: LANES lines side by side. */
static size_t x_tasks(const struct share *mine) {
    return size_of(mine->z) * size_of(mine->y_blocks);
}

static size_t y_tasks(const struct share *mine) {
    return size_of(mine->x_blocks) * size_of(mine->z);
}

static size_t z_tasks(const struct share *mine) {
    return size_of(mine->x_blocks) * size_of(mine->y);
}

/* Makes the tables once; they are the threads' of all that follows. */
static void make_tables(struct problem *problem) {
    const struct class *class = problem->class;
    fft_plan_make(&problem->along_x, class->nx);
    fft_plan_make(&problem->along_y, class->ny);
    fft_plan_make(&problem->along_z, class->nz);
    diffusion_powers_make(&problem->powers, class->nx);
}

/* From nothing to the spectrum of the initial data. */
static void forward(struct worker *me) {
    struct problem *problem = me->problem;
    const struct share *mine = &problem->mine;
    const struct class *class = problem->class;
    if (me->member.thread == 0)
        make_tables(problem);
    team_barrier(me->member.team);
    const size_t y_blocks = size_of(mine->y_blocks), planes = size_of(mine->z),
                 rows = size_of(mine->y);

    struct range tasks = part(me, x_tasks(mine));
    for (size_t task = (size_t)tasks.begin; task < (size_t)tasks.end; task++) {
        const size_t z = task / y_blocks, y_block = task % y_blocks;
        const size_t y = ((size_t)mine->y_blocks.begin + y_block) * LANES;
        const size_t number = class->ny * ((size_t)mine->z.begin + z) + y;
        diffusion_begin_lines(&problem->powers, class->nx, diffusion_states(class, number),
                              me->line);
        transform(me, &problem->along_x);
        put_x_line(me, z, y_block);
    }
    exchange(me, exchange_across, false);

    tasks = part(me, y_tasks(mine));
    for (size_t task = (size_t)tasks.begin; task < (size_t)tasks.end; task++) {
        const size_t x_block = task / planes, z = task % planes;
        get_y_line(me, z, x_block);
        transform(me, &problem->along_y);
        put_y_column(me, z, x_block);
    }
    exchange(me, exchange_along, false);

    tasks = part(me, z_tasks(mine));
    for (size_t task = (size_t)tasks.begin; task < (size_t)tasks.end; task++) {
        get_z_line(me, task / rows, task % rows);
        struct fft_lines to = fft_equidistant(problem->spectrum + task * class->nz, 1);
        to.streamed = true;
        fft_transform(&problem->along_z, fft_equidistant(me->line, 1), me->work, to);
    }
    fft_stream_end();
    team_barrier(me->member.team);
}

/* Lets a column of the spectrum decay. */
static void decay_column(const struct worker *me, size_t x_block, size_t y) {
    const struct problem *problem = me->problem;
    const struct share *mine = &problem->mine;
    const size_t nz = problem->class->nz;
    const struct fft_element *from = problem->spectrum + (x_block * size_of(mine->y) + y) * nz;
    const size_t x = ((size_t)mine->x_blocks.begin + x_block) * LANES;
    lanes decay_xy;
    for (size_t lane = 0; lane < LANES; lane++)
        decay_xy[lane] = me->decay_x[x + lane] * me->decay_y[(size_t)mine->y.begin + y];
    for (size_t z = 0; z < nz; z++) {
        const lanes decay = decay_xy * me->decay_z[z];
        me->line[z] = (struct fft_element){.re = from[z].im * decay, .im = from[z].re * decay};
    }
}

static bool holds(struct range range, size_t number) {
    return number >= (size_t)range.begin && number < (size_t)range.end;
}

/* Picks the points of the checksum out of the field, [z][y block][x]. */
static void take_points(const struct worker *me) {
    struct problem *problem = me->problem;
    const struct share *mine = &problem->mine;
    const struct class *class = problem->class;
    const struct range points = part(me, CHECKSUM_POINTS);
    for (size_t j = (size_t)points.begin; j < (size_t)points.end; j++) {
        const struct diffusion_point at = diffusion_point(class, j + 1);
        problem->point[j] = 0;
        if (!holds(mine->z, at.z) || !holds(mine->y_blocks, at.y / LANES))
            continue;
        const size_t line = (at.z - (size_t)mine->z.begin) * size_of(mine->y_blocks) +
                            (at.y / LANES - (size_t)mine->y_blocks.begin);
        const struct fft_element *element = problem->to + line * class->nx + at.x;
        problem->point[j] = element->im[at.y % LANES] + element->re[at.y % LANES] * I;
    }
}

/* From the spectrum to the field after `steps` steps, and its checksum. */
static void backward(struct worker *me, int steps) {
    struct problem *problem = me->problem;
    const struct share *mine = &problem->mine;
    const struct class *class = problem->class;
    const size_t y_blocks = size_of(mine->y_blocks), planes = size_of(mine->z),
                 rows = size_of(mine->y);
    diffusion_decay(me->decay_x, class->nx, steps);
    diffusion_decay(me->decay_y, class->ny, steps);
    diffusion_decay(me->decay_z, class->nz, steps);

    struct range tasks = part(me, z_tasks(mine));
    for (size_t task = (size_t)tasks.begin; task < (size_t)tasks.end; task++) {
        decay_column(me, task / rows, task % rows);
        transform(me, &problem->along_z);
        put_z_line(me, task / rows, task % rows);
    }
    exchange(me, exchange_along, true);

    tasks = part(me, y_tasks(mine));
    for (size_t task = (size_t)tasks.begin; task < (size_t)tasks.end; task++) {
        const size_t x_block = task / planes, z = task % planes;
        get_y_column(me, z, x_block);
        transform(me, &problem->along_y);
        put_y_line(me, z, x_block);
    }
    exchange(me, exchange_across, true);

    tasks = part(me, x_tasks(mine));
    for (size_t task = (size_t)tasks.begin; task < (size_t)tasks.end; task++) {
        get_x_line(me, task / y_blocks, task % y_blocks);
        struct fft_lines to = fft_equidistant(problem->to + task * class->nx, 1);
        fft_transform(&problem->along_x, fft_equidistant(me->line, 1), me->work, to);
    }
    team_barrier(me->member.team);
    take_points(me);
    team_barrier(me->member.team);
    if (me->member.thread == 0) {
        ranks_add_to_first((double *)problem->point, 2 * CHECKSUM_POINTS);
        problem->checksum[steps - 1] = diffusion_checksum(class, problem->point);
    }
    /* The next points are written behind another barrier. */
}

/* A thread's whole part: all up to the spectrum once to warm up, then everything. */
static void work(struct member *member, void *shared) {
    struct problem *problem = shared;
    const size_t longest = diffusion_longest(problem->class);
    struct worker me = {
        .problem = problem,
        .member = *member,
        .line = memory_pages(longest, sizeof *me.line),
        .work = memory_pages(longest, sizeof *me.work),
    };
    team_barrier(member->team);
    if (memory_refused())
        return;
    forward(&me);
    team_meet(member);
    const double start = omp_get_wtime();
    forward(&me);
    for (int steps = 1; steps <= problem->class->steps; steps++)
        backward(&me, steps);
    team_barrier(member->team);
    result_time(problem->result, member, start);
    const size_t tasks[] = {x_tasks(&problem->mine), y_tasks(&problem->mine),
                            z_tasks(&problem->mine)};
    bool has_work = true;
    for (int i = 0; i < 3; i++)
        has_work = has_work && size_of(part(&me, tasks[i])) > 0;
    result_worked(problem->result, has_work);
}

/* An array of elements, in huge pages where the system gives them. */
static struct fft_element *elements_allocate(size_t elements) {
    struct fft_element *all = memory_pages(elements, sizeof *all);
#ifdef MADV_HUGEPAGE
    if (all != NULL)
        madvise(all, elements * sizeof *all, MADV_HUGEPAGE); /* if not, it is only slower */
#endif
    return all;
}

static size_t spectrum_elements(const struct problem *problem) {
    return z_tasks(&problem->mine) * problem->class->nz;
}

/* The most that the lines of any direction take. */
static size_t buffer_elements(const struct problem *problem) {
    const struct share *mine = &problem->mine;
    const size_t x = x_tasks(mine) * problem->class->nx, y = y_tasks(mine) * problem->class->ny,
                 z = z_tasks(mine) * problem->class->nz;
    const size_t xy = x > y ? x : y;
    return xy > z ? xy : z;
}

static void run(size_t class_index, struct result *result) {
    static struct problem problem; /* too large for a stack */
    problem.class = &DIFFUSION_CLASSES[class_index];
    problem.result = result;
    if (!choose_grid(&problem, ranks_count())) {
        result_refuse(result,
                      "%d ranks can't share the %zu x %zu x %zu points of this class as pencils; "
                      "take a number of ranks with smaller factors, as a power of two",
                      ranks_count(), problem.class->nx, problem.class->ny, problem.class->nz);
        return;
    }
    problem.mine = share_of(&problem, ranks_mine());
    problem.spectrum = elements_allocate(spectrum_elements(&problem));
    problem.to = elements_allocate(buffer_elements(&problem));
    problem.from = elements_allocate(buffer_elements(&problem));
    problem.sent = memory_pages((size_t)ranks_count(), sizeof *problem.sent);
    problem.received = memory_pages((size_t)ranks_count(), sizeof *problem.received);
    team_run(work, &problem);
    if (ranks_mine() == 0)
        diffusion_check(problem.class, problem.checksum, result);
}

static uint64_t bytes_needed(size_t class_index, int threads) {
    struct problem problem = {.class = &DIFFUSION_CLASSES[class_index]};
    if (!choose_grid(&problem, ranks_count()))
        return 0; /* it will be refused */
    problem.mine = share_of(&problem, ranks_mine());
    const uint64_t elements = spectrum_elements(&problem) + 2 * buffer_elements(&problem);
    const uint64_t a_thread =
        2 * diffusion_longest(problem.class) * sizeof(struct fft_element) + sizeof(struct worker);
    return elements * sizeof(struct fft_element) + sizeof(struct problem) +
           (uint64_t)threads * a_thread;
}

static uint64_t useful_threads(size_t class_index) {
    const struct class *class = &DIFFUSION_CLASSES[class_index];
    return class->nz * diffusion_threads_a_plane(class);
}

const struct program PROGRAM = {
    .name = "npb-ft",
    .title = "three-dimensional Fourier transform (NAS Parallel Benchmarks)",
    .bytes_needed = bytes_needed,
    .useful_threads = useful_threads,
    .run = run,
};
