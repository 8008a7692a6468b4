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
 * the blocks that have passed it, and whoever needs them waits for that count only.
 */
#include "flow.h"
#include "memory.h"
#include "progress.h"
#include "team.h"

#include <math.h>
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

/* Five components, of a change of the flow say, at the points of a front. */
struct front {
    lanes m[FLOW_COMPONENTS];
};

/* The sign is that of the steps through the grid. */
enum sweep { LOWER = 1, UPPER = -1 };

/*
 * What D and the products with L and U are made of. With t = 1/h^2, kappa = c3 c4, the Jacobians
 * J_d of the convective and kappa N_d of the viscous flux, and the diffusion d_d along direction d:
 *     D = I + 2 dt t sum_d (kappa N_d + d_d I)
 *     -omega L_d = omega dt (J_d / 2h + t (kappa N_d + d_d I)), U_d with -J_d.
 */
struct coefficients {
    double dt;
    double diagonal; /* D's multiple of the identity */
    double inverse_diagonal;
    double momentum;     /* D adds momentum / rho to it for the velocities, and */
    double heat;         /* heat / rho for the internal energy */
    double convection;   /* omega dt / 2h */
    double viscosity;    /* omega dt t kappa */
    double diffusion[3]; /* omega dt t d_d */
    double relaxation;   /* 1 / (omega (2 - omega)) */
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

/*
 * The flow at the points of a front, and D there. A change v of the conserved variables is also
 * written in primitive ones,
 *     w = (d rho, rho d velocity, rho d internal energy) = P^-1 v,
 * where D is diagonal: velocities and temperature diffuse independently of each other.
 */
struct local {
    lanes velocity[3];
    lanes square;   /* of the velocity */
    lanes total;    /* energy per mass */
    lanes internal; /* that without the kinetic energy */
    lanes per_density;
    /* P^-1 D^-1 P; all velocities have the same. 0 at points outside the grid. */
    lanes inverse_density, inverse_momentum, inverse_energy;
};

/* `inside` is 1 in lanes that are at an interior point, else 0. */
ALWAYS_INLINE void local_flow(struct local *at, const struct front *u, const lanes *inside,
                              const struct coefficients *c) {
    const lanes in = *inside;
    const lanes rho = u->m[0] * in + (1.0 - in);
    const lanes momentum = c->diagonal * rho + c->momentum;
    const lanes heat = c->diagonal * rho + c->heat;
    /* One division for three: it is slow. */
    const lanes momentum_heat = momentum * heat;
    const lanes reciprocal = 1.0 / (rho * momentum_heat);
    const lanes scaled = reciprocal * in * (rho * rho);
    at->per_density = reciprocal * momentum_heat;
    at->inverse_density = in * c->inverse_diagonal;
    at->inverse_momentum = scaled * heat;
    at->inverse_energy = scaled * momentum;
    for (int d = 0; d < 3; d++)
        at->velocity[d] = u->m[1 + d] * at->per_density;
    at->square = at->velocity[0] * at->velocity[0] + at->velocity[1] * at->velocity[1] +
                 at->velocity[2] * at->velocity[2];
    at->total = u->m[4] * at->per_density;
    at->internal = at->total - 0.5 * at->square;
}

/* A change of the flow, and how much of its energy changes the velocity. */
struct change {
    struct front w;
    lanes kinetic;
};

ALWAYS_INLINE lanes dot(const lanes velocity[3], const struct front *change) {
    return velocity[0] * change->m[1] + (velocity[1] * change->m[2] + velocity[2] * change->m[3]);
}

/*
 * w += P^-1 D^-1 r. Every front waits for this on the one before, which is why the kinetic energy
 * is found from r instead of w: no chain of operations is to be long.
 */
ALWAYS_INLINE void add_solution(struct change *change, const struct local *at,
                                const struct front *r) {
    const lanes kinetic = dot(at->velocity, r) - at->square * r->m[0];
    const lanes internal = r->m[4] - at->total * r->m[0] - kinetic;
    struct front *w = &change->w;
    w->m[0] += at->inverse_density * r->m[0];
    for (int d = 0; d < 3; d++)
        w->m[1 + d] += at->inverse_momentum * (r->m[1 + d] - at->velocity[d] * r->m[0]);
    w->m[4] += at->inverse_energy * internal;
    change->kinetic += at->inverse_momentum * kinetic;
}

/* v = P w. */
ALWAYS_INLINE void conserved(struct front *v, const struct local *at, const struct change *change) {
    const struct front *w = &change->w;
    v->m[0] = w->m[0];
    for (int d = 0; d < 3; d++)
        v->m[1 + d] = w->m[1 + d] + at->velocity[d] * w->m[0];
    v->m[4] = w->m[4] + (change->kinetic + at->total * w->m[0]);
}

/*
 * to[d] = -omega L_d v or -omega U_d v along the three directions: what a point adds to the
 * right-hand side of its neighbours. With dp = c2 (w5 + v1 internal energy), rows 1, 1 + m and 5
 * are of J_d v:  v_1+d,  u_d v_1+m + u_m w_1+d (+ dp if m = d),  u_d (v5 + dp) + enthalpy w_1+d of
 * N_d v:  0,  s w_1+m / rho,  (sum_m s u_m w_1+m + c1 c5 w5) / rho where s is 4/3 for m = d, else
 * 1, and the enthalpy is total + c2 internal energy.
 */
ALWAYS_INLINE void spread(struct front to[3], const struct local *at, const struct change *change,
                          const struct front *v, const struct coefficients *c, enum sweep sweep) {
    const struct front *w = &change->w;
    const double convection = sweep * c->convection;
    const lanes viscosity = c->viscosity * at->per_density;
    const lanes pressure =
        (convection * FLOW_C2) * w->m[4] + (convection * FLOW_C2) * at->internal * v->m[0];
    const lanes enthalpy = convection * at->total + (convection * FLOW_C2) * at->internal;
    const lanes viscous_energy = viscosity * change->kinetic + FLOW_C1C5 * viscosity * w->m[4];
    lanes viscous[3];
    for (int d = 0; d < 3; d++)
        viscous[d] = viscosity * w->m[1 + d];

    for (int d = 0; d < 3; d++) {
        const lanes speed = convection * at->velocity[d];
        const lanes carried = speed + c->diffusion[d];
        to[d].m[0] = convection * v->m[1 + d] + c->diffusion[d] * v->m[0];
        for (int m = 0; m < 3; m++)
            to[d].m[1 + m] =
                carried * v->m[1 + m] + (convection * at->velocity[m] * w->m[1 + d] + viscous[m]);
        to[d].m[1 + d] += (1.0 / 3.0) * viscous[d] + pressure;
        to[d].m[4] = carried * v->m[4] +
                     (at->velocity[d] * pressure +
                      ((enthalpy + (1.0 / 3.0) * viscosity * at->velocity[d]) * w->m[1 + d] +
                       viscous_energy));
    }
}

/* What a run works on. */
struct lu {
    struct flow_run frame;
    struct coefficients coefficients;
    int blocks, fronts;        /* blocks of a plane, fronts of a block */
    struct front *change;      /* w, from the lower sweep for the upper: [k - 1][block][front] */
    struct front *across;      /* what is sent to the next plane: [block][front] */
    double *edge;              /* what is sent to the next block: [k][i + LANES - 2][m] */
    lanes *inside[2];          /* 1 in lanes in the grid: [front]; the second for last blocks */
    struct progress *progress; /* how many blocks have passed each plane since the first step */
};

enum { EDGE_MARGIN = LANES - 1 };

static int blocks_of(int n) { return (n - 2 + LANES - 1) / LANES; }

static int fronts_of(int n) { return n - 2 + LANES - 1; }

static size_t edge_doubles(const struct lu *lu) {
    return (size_t)(lu->fronts + EDGE_MARGIN) * FLOW_COMPONENTS;
}

/* A block of a plane, the work between two looks at the progress of others. */
struct task {
    int block, k;
};

/* The rows of a block. */
struct rows {
    double *lane[LANES];
    size_t component; /* stride */
    int count;        /* of lanes that are in the grid */
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

/* Fronts first .. first + LANES - 1 of a block. Outside the rows they are any number. */
ALWAYS_INLINE void load_fronts(struct front to[LANES], const struct rows *rows, int first) {
    for (int m = 0; m < FLOW_COMPONENTS; m++) {
        lanes square[LANES];
        for (int l = 0; l < LANES; l++)
            square[l] = lanes_load(rows->lane[l] + (size_t)m * rows->component + 1 + first - l);
        lanes_transpose(square);
        for (int s = 0; s < LANES; s++)
            to[s].m[m] = square[s];
    }
}

/* Undoes load_fronts. What is outside the rows gets back what it had. */
ALWAYS_INLINE void store_fronts(const struct front from[LANES], const struct rows *rows,
                                int first) {
    for (int m = 0; m < FLOW_COMPONENTS; m++) {
        lanes square[LANES];
        for (int s = 0; s < LANES; s++)
            square[s] = from[s].m[m];
        lanes_transpose(square);
        for (int l = 0; l < LANES; l++)
            if (l < rows->count)
                lanes_store(rows->lane[l] + (size_t)m * rows->component + 1 + first - l, square[l]);
    }
}

/* A block on its way: what its fronts read and write, by front. */
struct passage {
    const struct coefficients *coefficients;
    const lanes *inside;
    struct front *change, *across;
    double *edge;
    /* What the thread will need after this block: of `change`, and rows of u. */
    const struct front *next_change;
    const double *next_rows;
};

enum { FRONT_DOUBLES = FLOW_COMPONENTS * LANES, CACHE_LINE_DOUBLES = 8 };

/*
 * Asks for as much of the next block as a front uses: the rows are too many streams for the
 * hardware to follow. The lower sweep has its rows in the cache, since R(U) was computed from them.
 */
ALWAYS_INLINE void prefetch_next(const struct passage *passage, int f, enum sweep sweep) {
    const double *change = (const double *)(passage->next_change + f);
    const double *rows = passage->next_rows + (size_t)f * FRONT_DOUBLES;
    for (int line = 0; line < FRONT_DOUBLES; line += CACHE_LINE_DOUBLES) {
        if (sweep == LOWER) {
            __builtin_prefetch(change + line, 1, 2);
        } else {
            __builtin_prefetch(change + line, 0, 2);
            __builtin_prefetch(rows + line, 0, 2);
        }
    }
}

/*
 * Front f. `sent` is what the front before has sent along x and y, and becomes what this one sends
 * along x, y and z. The lower sweep reads the residual, the upper updates u.
 */
ALWAYS_INLINE void pass_front(const struct passage *passage, int f, const struct local *at,
                              struct front *u, const struct front *residual, struct front sent[3],
                              enum sweep sweep) {
    const struct coefficients *c = passage->coefficients;
    double *lower_edge = passage->edge + (size_t)f * FLOW_COMPONENTS;
    double *upper_edge = lower_edge + EDGE_MARGIN * FLOW_COMPONENTS;
    struct front r = passage->across[f], v;
    for (int m = 0; m < FLOW_COMPONENTS; m++) {
        if (sweep == LOWER)
            r.m[m] += c->dt * residual->m[m];
        r.m[m] =
            (r.m[m] + sent[0].m[m]) + (sweep == LOWER ? lanes_up(sent[1].m[m], upper_edge[m])
                                                      : lanes_down(sent[1].m[m], lower_edge[m]));
    }

    struct change change = {0};
    if (sweep == UPPER) {
        change.w = passage->change[f];
        change.kinetic = dot(at->velocity, &change.w);
    }
    add_solution(&change, at, &r);
    conserved(&v, at, &change);
    if (sweep == LOWER)
        passage->change[f] = change.w;
    else
        for (int m = 0; m < FLOW_COMPONENTS; m++)
            u->m[m] += c->relaxation * v.m[m];

    spread(sent, at, &change, &v, c, sweep);
    passage->across[f] = sent[2];
    for (int m = 0; m < FLOW_COMPONENTS; m++)
        if (sweep == LOWER)
            lower_edge[m] = sent[1].m[m][LANES - 1];
        else
            upper_edge[m] = sent[1].m[m][0];
}

/*
 * All fronts of a block, as many at a time as a transposition yields. What follows from the state
 * alone is computed before the recurrence, for all of these at once.
 */
ALWAYS_INLINE void pass_block(const struct lu *lu, const struct passage *passage,
                              const struct rows *state, const struct rows *residual,
                              enum sweep sweep) {
    struct front sent[3] = {0};
    const int chunks = (lu->fronts + LANES - 1) / LANES;
    for (int chunk = 0; chunk < chunks; chunk++) {
        const int first = (sweep == LOWER ? chunk : chunks - 1 - chunk) * LANES;
        const int left = lu->fronts - first, count = left < LANES ? left : LANES;
        struct front u[LANES], r[LANES];
        struct local at[LANES];
        load_fronts(u, state, first);
        if (sweep == LOWER)
            load_fronts(r, residual, first);
        for (int c = 0; c < count; c++)
            local_flow(&at[c], &u[c], &passage->inside[first + c], passage->coefficients);
        for (int c = 0; c < count; c++) {
            const int f = sweep == LOWER ? c : count - 1 - c;
            prefetch_next(passage, first + f, sweep);
            pass_front(passage, first + f, &at[f], &u[f], &r[f], sent, sweep);
        }
        if (sweep == UPPER)
            store_fronts(u, state, first);
    }
}

/* R(U) of a block's rows, then the lower sweep through them. */
static void lower_block(const struct lu *lu, const struct passage *passage, struct task task,
                        double *scratch) {
    const struct flow *flow = &lu->frame.flow;
    const struct rows state = rows_of(flow, task);
    struct rows residual = state;
    for (int l = 0; l < LANES; l++)
        residual.lane[l] = scratch + LANES + (size_t)l * flow->row;
    const int j_first = 1 + task.block * LANES;
    flow_residual(flow, task.k, j_first, j_first + state.count, residual.lane[0]);
    pass_block(lu, passage, &state, &residual, LOWER);
}

static void upper_block(const struct lu *lu, const struct passage *passage, struct task task) {
    const struct rows state = rows_of(&lu->frame.flow, task);
    pass_block(lu, passage, &state, NULL, UPPER);
}

/* Threads that sweep: more than there are blocks would not find anything to do. */
static int workers_of(const struct lu *lu) {
    return lu->frame.threads < lu->blocks ? lu->frame.threads : lu->blocks;
}

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
        .inside = lu->inside[task.block == lu->blocks - 1],
        .change = change_of(lu, task),
        .across = lu->across + (size_t)task.block * (size_t)lu->fronts,
        .edge = lu->edge + (size_t)task.k * edge_doubles(lu),
        .next_change = change_of(lu, next),
        .next_rows = rows_of(&lu->frame.flow, next).lane[0],
    };
}

/*
 * A thread's part of a sweep. All sweeps are numbered, and each lets every block pass every plane:
 * that makes the count which a plane must have reached.
 *
 * A block needs the block before in its plane and itself in the plane before. Through these it
 * follows on all that it needs to see: the first block of a lower sweep on the end of the upper
 * sweep, hence R(U) on all updates of U, and those on all uses of the U before.
 */
static void sweep_planes(const struct lu *lu, int thread, uint32_t number, enum sweep sweep,
                         double *scratch) {
    const int k_first = sweep == LOWER ? 1 : lu->frame.flow.n - 2;
    struct task task = first_task(lu, thread, k_first, sweep);
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
    }
}

static void step(const void *solver, struct member *me, int number, double *scratch) {
    const struct lu *lu = solver;
    if (me->thread < workers_of(lu)) {
        sweep_planes(lu, me->thread, 2 * (uint32_t)number, LOWER, scratch);
        sweep_planes(lu, me->thread, 2 * (uint32_t)number + 1, UPPER, scratch);
    }
}

/* Places a thread's rows in memory, with those of the boundary beside them. */
static void place_rows(const void *solver, int thread) {
    const struct lu *lu = solver;
    const struct flow *flow = &lu->frame.flow;
    for (int k = 0; k < flow->n; k++) {
        const int begin = first_block(lu, thread, k), end = first_block(lu, thread + 1, k);
        const int j_begin = begin == 0 ? 0 : 1 + begin * LANES;
        const int j_end = end == lu->blocks ? flow->n : 1 + end * LANES;
        const size_t at = (size_t)k * flow->plane + (size_t)j_begin * flow->row;
        if (begin < end) {
            const size_t bytes = (size_t)(j_end - j_begin) * flow->row * sizeof(double);
            memset(flow->u + at, 0, bytes);
            memset(flow->forcing + at, 0, bytes);
        }
    }
}

/* For R(U) of a block of rows, with a vector on either side. */
static size_t scratch_doubles(const struct flow *flow) { return LANES * flow->row + 4 * LANES; }

/* Points first .. last of a direction; one alone is a face. */
struct extent {
    int first, last;
};

static double pressure(const struct flow *flow, int i, int j, int k) {
    double u[FLOW_COMPONENTS];
    for (int m = 0; m < FLOW_COMPONENTS; m++)
        u[m] = flow->u[(size_t)k * flow->plane + (size_t)j * flow->row +
                       (size_t)m * flow->component + (size_t)i];
    return FLOW_C2 * (u[4] - 0.5 * (u[1] * u[1] + u[2] * u[2] + u[3] * u[3]) / u[0]);
}

/* 1/2 at the ends of a direction that is integrated over, by the trapezoidal rule. */
static double trapezoidal(struct extent extent, int index) {
    const bool end = index == extent.first || index == extent.last;
    return end && extent.first != extent.last ? 0.5 : 1.0;
}

static double integral(const struct flow *flow, struct extent x, struct extent y, struct extent z) {
    double sum = 0;
    for (int k = z.first; k <= z.last; k++)
        for (int j = y.first; j <= y.last; j++)
            for (int i = x.first; i <= x.last; i++)
                sum += trapezoidal(x, i) * trapezoidal(y, j) * trapezoidal(z, k) *
                       pressure(flow, i, j, k);
    return sum * flow->h * flow->h;
}

/*
 * The pressure integrated over the faces of a box, opposite faces added up. The box is not
 * symmetric: it ends a point earlier in y and begins one later in z, as the references have it.
 */
static double surface_integral(const struct flow *flow) {
    const int last = flow->n - 2;
    const struct extent x = {1, last}, y = {1, last - 1}, z = {2, last};
    const struct extent x_ends[2] = {{x.first, x.first}, {x.last, x.last}};
    const struct extent y_ends[2] = {{y.first, y.first}, {y.last, y.last}};
    const struct extent z_ends[2] = {{z.first, z.first}, {z.last, z.last}};
    double sum = 0;
    for (int end = 0; end < 2; end++)
        sum += integral(flow, x_ends[end], y, z) + integral(flow, x, y_ends[end], z) +
               integral(flow, x, y, z_ends[end]);
    return sum;
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
           2 * (uint64_t)lu.fronts * sizeof(lanes);
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
    .run = run,
};
