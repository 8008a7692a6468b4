/*
 * SP, "scalar pentadiagonal", of the NAS Parallel Benchmarks: the implicit scheme of alternating
 * directions for the flow of flow.h, whose factors are made diagonal in the five components, so
 * that each line is five scalar systems with five diagonals (Bailey et al., RNR-94-007, chapter 3;
 * Pulliam and Chaussee, J. Comput. Phys. 39, 1981).
 *
 * One pass over planes computes dt R(U) and solves along x and y while a plane is in cache, another
 * solves along z and updates U. LANES neighbouring lines are solved at once; for lines along x
 * that takes a transposition, tile by tile.
 */
#include "scheme.h"

#include <string.h>

static const double SQRT_HALF = 0.70710678118654752440;

static const struct flow_class CLASSES[] = {
#include "sp_classes.inc"
};

/* The gas at a point as the eigenvectors of the flux Jacobians need it. */
struct gas {
    lanes density, inverse_density;
    lanes velocity[3];
    lanes sound, inverse_sound; /* the speed of sound */
};

/*
 * 1 / sqrt(x) for a normal x, to the last digits, in operations of which a vector unit does one or
 * two a cycle: half the exponent's bits give the first digit, each Newton step twice as many.
 */
ALWAYS_INLINE lanes inverse_sqrt(lanes x) {
    typedef int64_t bits __attribute__((vector_size(sizeof(lanes))));
    lanes root = (lanes)(INT64_C(0x5fe6eb50c7b537a9) - ((bits)x >> 1));
#pragma GCC unroll 4
    for (int step = 0; step < 4; step++)
        root += root * (0.5 - 0.5 * x * root * root);
    return root;
}

/*
 * All from one inverse root, 1 / (rho s), instead of a root and two divisions: s = sqrt(c1 c2 (rho
 * E - momentum^2 / 2)) is rho times the speed of sound.
 */
ALWAYS_INLINE struct gas gas_of(const lanes u[FLOW_COMPONENTS]) {
    const lanes momentum_square = u[1] * u[1] + u[2] * u[2] + u[3] * u[3];
    const lanes s_square = FLOW_C1 * FLOW_C2 * (u[0] * u[4] - 0.5 * momentum_square);
    const lanes density_square = u[0] * u[0];
    const lanes inverse = inverse_sqrt(density_square * s_square);
    const lanes s = u[0] * s_square * inverse;
    struct gas gas = {.density = u[0], .inverse_density = s * inverse};
#pragma GCC unroll 3
    for (int d = 0; d < 3; d++)
        gas.velocity[d] = u[1 + d] * gas.inverse_density;
    gas.sound = s * gas.inverse_density;
    gas.inverse_sound = density_square * inverse;
    return gas;
}

ALWAYS_INLINE lanes half_square(const lanes v[3]) {
    return 0.5 * (v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
}

/*
 * The changes of basis, in place: from conserved variables to the eigenvectors along x, from there
 * to those along y, those along z, and back. Their order is always the same: three waves that
 * travel with the flow, one with the sound, one against it.
 */
ALWAYS_INLINE void conserved_to_x(lanes r[FLOW_COMPONENTS], const struct gas *gas) {
    const lanes *v = gas->velocity;
    const lanes t1 = FLOW_C2 * gas->inverse_sound * gas->inverse_sound *
                     (half_square(v) * r[0] - v[0] * r[1] - v[1] * r[2] - v[2] * r[3] + r[4]);
    const lanes t2 = SQRT_HALF * gas->inverse_density * (v[0] * r[0] - r[1]);
    const lanes t3 = SQRT_HALF * gas->inverse_density * gas->sound * t1;
    const lanes along_y = gas->inverse_density * (v[1] * r[0] - r[2]);
    r[1] = gas->inverse_density * (r[3] - v[2] * r[0]);
    r[2] = along_y;
    r[0] -= t1;
    r[3] = t3 - t2;
    r[4] = t3 + t2;
}

ALWAYS_INLINE void x_to_y(lanes r[FLOW_COMPONENTS]) {
    const lanes t1 = SQRT_HALF * r[2], t2 = 0.5 * (r[3] + r[4]), r0 = r[0];
    r[0] = -r[1];
    r[1] = r0;
    r[2] = SQRT_HALF * (r[3] - r[4]);
    r[3] = t2 - t1;
    r[4] = t2 + t1;
}

ALWAYS_INLINE void y_to_z(lanes r[FLOW_COMPONENTS]) {
    const lanes t1 = SQRT_HALF * r[0], t2 = 0.5 * (r[3] + r[4]), r1 = r[1];
    r[0] = SQRT_HALF * (r[3] - r[4]);
    r[1] = -r[2];
    r[2] = r1;
    r[3] = t2 - t1;
    r[4] = t2 + t1;
}

ALWAYS_INLINE void z_to_conserved(lanes r[FLOW_COMPONENTS], const struct gas *gas) {
    const lanes *v = gas->velocity;
    const lanes sum = SQRT_HALF * gas->density * (r[3] + r[4]);
    const lanes t2 = r[2] + gas->inverse_sound * sum;
    const lanes t3 = SQRT_HALF * gas->density * (r[3] - r[4]);
    const lanes along_x = gas->density * r[1], along_y = gas->density * r[0];
    r[0] = t2;
    r[1] = v[0] * t2 - along_x;
    r[2] = v[1] * t2 + along_y;
    r[3] = v[2] * t2 + t3;
    r[4] = v[1] * along_y - v[0] * along_x + half_square(v) * t2 +
           (1 / FLOW_C2) * gas->sound * sum + v[2] * t3;
}

/* The three matrices of a line: waves with the flow (three components), with and against sound. */
enum { MATRICES = 3 };
static const int MATRIX_OF[FLOW_COMPONENTS] = {0, 0, 0, 1, 2};

/* What matrix m has of terms that all three have and of the term of the speed of sound. */
ALWAYS_INLINE lanes with_sound(int m, lanes common, lanes sound) {
    return m == 0 ? common : m == 1 ? common + sound : common - sound;
}

/* A factor of the scheme: what the matrices of its lines are made of. */
struct factor {
    int n;
    double convection;              /* dt / (2 h) */
    double diffusion, conduction;   /* dt / h^2 times d, and times c1 c5 c3 c4 */
    const double (*dissipation)[5]; /* by row: dt eps times the fourth difference */
};

static struct factor factor_along(int direction, const struct flow *flow, double dt,
                                  const double (*dissipation)[5]) {
    const double dt_h2 = dt / (flow->h * flow->h);
    return (struct factor){
        .n = flow->n,
        .convection = dt / (2 * flow->h),
        .diffusion = dt_h2 * FLOW_DIFFUSION[direction],
        .conduction = dt_h2 * FLOW_C1C5 * FLOW_C3C4,
        .dissipation = dissipation,
    };
}

static void dissipation_at(const struct flow *flow, double dt, int i, double dissipation[5]) {
    for (int s = 0; s < 5; s++)
        dissipation[s] = dt * FLOW_DISSIPATION * flow_fourth_difference(flow->n, i, s - 2);
}

/* The same in all rows but two at either end: this is done anew for every plane. */
static void compute_dissipation(const struct flow *flow, double dt, double (*dissipation)[5]) {
    double inside[5];
    dissipation_at(flow, dt, flow->n / 2, inside);
    for (int i = 3; i < flow->n - 3; i++)
        memcpy(dissipation[i], inside, sizeof inside);
    const int near_ends[4] = {1, 2, flow->n - 3, flow->n - 2};
    for (int e = 0; e < 4; e++)
        dissipation_at(flow, dt, near_ends[e], dissipation[near_ends[e]]);
}

/* A point of a line as the elimination needs it. */
struct waves {
    lanes velocity, sound;
    lanes diffusion; /* the largest of any component: that of the energy */
};

ALWAYS_INLINE struct waves waves_along(int direction, const struct factor *factor,
                                       const struct gas *gas) {
    return (struct waves){
        .velocity = gas->velocity[direction],
        .sound = gas->sound,
        .diffusion = factor->diffusion + factor->conduction * gas->inverse_density,
    };
}

/*
 * A row of the eliminated systems: g + near g[+1] + far g[+2] = right side, or with g[-1] and g[-2]
 * in the second half of a line. After the substitution the right side is the solution.
 */
struct eliminated {
    lanes near[MATRICES], far[MATRICES];
    lanes right[FLOW_COMPONENTS];
};

/* The waves at three neighbouring points of a line, in the direction of its elimination. */
struct stencil {
    struct waves before, own, after;
};

ALWAYS_INLINE void advance(struct stencil *stencil, struct waves after) {
    stencil->before = stencil->own;
    stencil->own = stencil->after;
    stencil->after = after;
}

/*
 * Forms and eliminates row i of a line's systems, to `row`, which follows the rows that are already
 * eliminated in the direction of `step`, 1 or -1.
 */
ALWAYS_INLINE void eliminate(const struct factor *factor, int i, int step,
                             const struct stencil *waves, const lanes right[FLOW_COMPONENTS],
                             struct eliminated *row) {
    const struct eliminated *one_before = row - step, *two_before = row - 2 * step;
    const double *dissipation = factor->dissipation[i] + 2;
    const double far_before = dissipation[-2 * step], far_after = dissipation[2 * step];
    const double convection = step * factor->convection;
    const lanes near_before =
        dissipation[-step] - convection * waves->before.velocity - waves->before.diffusion;
    const lanes near_after =
        dissipation[step] + convection * waves->after.velocity - waves->after.diffusion;
    const lanes diagonal = 1.0 + dissipation[0] + 2.0 * waves->own.diffusion;

    lanes reduced[MATRICES], pivot[MATRICES];
#pragma GCC unroll 3
    for (int m = 0; m < MATRICES; m++) {
        reduced[m] = with_sound(m, near_before, -convection * waves->before.sound) -
                     far_before * two_before->near[m];
        pivot[m] = diagonal - far_before * two_before->far[m] - reduced[m] * one_before->near[m];
    }
    /* One division for three: nothing takes longer. */
    const lanes product01 = pivot[0] * pivot[1];
    const lanes inverse_product = 1.0 / (product01 * pivot[2]);
    const lanes inverse01 = inverse_product * pivot[2];
    const lanes inverse_pivot[MATRICES] = {inverse01 * pivot[1], inverse01 * pivot[0],
                                           inverse_product * product01};
#pragma GCC unroll 3
    for (int m = 0; m < MATRICES; m++) {
        row->near[m] = (with_sound(m, near_after, convection * waves->after.sound) -
                        reduced[m] * one_before->far[m]) *
                       inverse_pivot[m];
        row->far[m] = far_after * inverse_pivot[m];
    }
#pragma GCC unroll 5
    for (int c = 0; c < FLOW_COMPONENTS; c++) {
        const int m = MATRIX_OF[c];
        row->right[c] =
            (right[c] - far_before * two_before->right[c] - reduced[m] * one_before->right[c]) *
            inverse_pivot[m];
    }
}

/* The middle of a line of an even number of points: its row and the next are eliminated last. */
ALWAYS_INLINE int middle_of(const struct factor *factor) { return factor->n / 2 - 1; }

/*
 * Lines are eliminated from both ends at once: two chains of dependent operations, at which a
 * processor works at the same time. This eliminates row i and the one as far from the other end.
 */
ALWAYS_INLINE void eliminate_both(const struct factor *factor, int i, const struct stencil *up,
                                  const struct stencil *down, const lanes right[FLOW_COMPONENTS],
                                  const lanes mirrored_right[FLOW_COMPONENTS],
                                  struct eliminated *line) {
    const int mirrored = factor->n - 1 - i;
    eliminate(factor, i, 1, up, right, &line[i]);
    eliminate(factor, mirrored, -1, down, mirrored_right, &line[mirrored]);
}

/*
 * Solves for the two rows in the middle, `left` eliminated from one end and the next one from the
 * other: with their outer neighbours substituted they are two equations in two unknowns.
 */
ALWAYS_INLINE void solve_middle(struct eliminated *left) {
    const struct eliminated *outer_left = left - 1, *outer_right = left + 2;
    struct eliminated *right = left + 1;
    lanes own_left[MATRICES], own_right[MATRICES], left_by_right[MATRICES], right_by_left[MATRICES],
        inverse[MATRICES];
#pragma GCC unroll 3
    for (int m = 0; m < MATRICES; m++) {
        own_left[m] = 1.0 - left->far[m] * outer_right->far[m];
        own_right[m] = 1.0 - right->far[m] * outer_left->far[m];
        left_by_right[m] = left->near[m] - left->far[m] * outer_right->near[m];
        right_by_left[m] = right->near[m] - right->far[m] * outer_left->near[m];
        inverse[m] = 1.0 / (own_left[m] * own_right[m] - left_by_right[m] * right_by_left[m]);
    }
#pragma GCC unroll 5
    for (int c = 0; c < FLOW_COMPONENTS; c++) {
        const int m = MATRIX_OF[c];
        const lanes l = left->right[c] - left->far[m] * outer_right->right[c];
        const lanes r = right->right[c] - right->far[m] * outer_left->right[c];
        left->right[c] = (own_right[m] * l - left_by_right[m] * r) * inverse[m];
        right->right[c] = (own_left[m] * r - right_by_left[m] * l) * inverse[m];
    }
}

/* Solves for a row, the next two in the direction of `step` being solved. */
ALWAYS_INLINE void substitute(struct eliminated *row, int step) {
#pragma GCC unroll 5
    for (int c = 0; c < FLOW_COMPONENTS; c++) {
        const int m = MATRIX_OF[c];
        row->right[c] -= row->near[m] * row[step].right[c] + row->far[m] * row[2 * step].right[c];
    }
}

/* What the lines along x leave at a point for the lines along y. */
struct point {
    struct waves waves;
    lanes right[FLOW_COMPONENTS];
};

/* Of a plane, the point of row j that begins at i. Lines along y stand one after the other. */
ALWAYS_INLINE struct point *point_of(const struct flow *flow, struct point *plane, int j,
                                     size_t i) {
    return plane + i / LANES * (size_t)flow->n + j;
}

/* A thread's scratch memory. */
struct scratch {
    struct point *plane;     /* its lines along y one after the other */
    struct eliminated *line; /* a line, from the point -1 to component */
    double *residual;        /* rows of R(U) for LANES lines along x */
};

static size_t plane_points(const struct flow *flow) {
    return (size_t)flow->n * (flow->component / LANES);
}

static size_t line_points(const struct flow *flow) { return flow->component + 2; }

/* For vectors of a cache line, whatever the machine's: all machines ask for the same. */
static size_t scratch_doubles(const struct flow *flow) {
    const size_t vectors =
        plane_points(flow) * sizeof(struct point) / sizeof(lanes) * LANES / FLOW_CACHE_LINE +
        line_points(flow) * sizeof(struct eliminated) / sizeof(lanes);
    return FLOW_CACHE_LINE * (flow->row + vectors);
}

static struct scratch scratch_at(const struct flow *flow, double *memory) {
    struct scratch scratch = {.plane = (struct point *)memory};
    struct eliminated *line = (struct eliminated *)(scratch.plane + plane_points(flow));
    scratch.residual = (double *)(line + line_points(flow));
    scratch.line = line + 1;
    /* What stands two points before the first row is multiplied by 0: let it be a number. */
    scratch.line[-1] = scratch.line[flow->n] = (struct eliminated){0};
    return scratch;
}

/* The solution is 0 at a line's ends, whose rows are eliminated already. */
ALWAYS_INLINE void clear_ends(const struct factor *factor, struct eliminated *line) {
    line[0] = line[factor->n - 1] = (struct eliminated){0};
}

/*
 * Brings a bundle's right sides and waves to its line, and leaves the waves along y in the plane
 * of `points`. Until a row is eliminated its `near` holds the waves.
 */
ALWAYS_INLINE void gather_x(const struct flow *flow, double dt, const struct factor *along_x,
                            const struct factor *along_y, const struct bundle *bundle,
                            struct point *points, struct eliminated *line) {
    for (size_t i = 0; i < flow->component; i += LANES) {
        lanes right[FLOW_COMPONENTS][LANES], waves[MATRICES][LANES];
#pragma GCC unroll 8
        for (int lane = 0; lane < LANES; lane++) {
            lanes u[FLOW_COMPONENTS], r[FLOW_COMPONENTS];
            flow_load(flow, bundle->u[lane] + i, u);
            flow_load(flow, bundle->r[lane] + i, r);
            const struct gas gas = gas_of(u);
            conserved_to_x(r, &gas);
#pragma GCC unroll 5
            for (int c = 0; c < FLOW_COMPONENTS; c++)
                right[c][lane] = dt * r[c];
            const struct waves x = waves_along(0, along_x, &gas);
            waves[0][lane] = x.velocity;
            waves[1][lane] = x.sound;
            waves[2][lane] = x.diffusion;
            point_of(flow, points, bundle->j[lane], i)->waves = waves_along(1, along_y, &gas);
        }
#pragma GCC unroll 5
        for (int c = 0; c < FLOW_COMPONENTS; c++) {
            lanes_transpose(right[c]);
#pragma GCC unroll 8
            for (int t = 0; t < LANES; t++)
                line[i + (size_t)t].right[c] = right[c][t];
        }
#pragma GCC unroll 3
        for (int m = 0; m < MATRICES; m++) {
            lanes_transpose(waves[m]);
#pragma GCC unroll 8
            for (int t = 0; t < LANES; t++)
                line[i + (size_t)t].near[m] = waves[m][t];
        }
    }
}

/* Brings a line's solution to the bundle's points of the plane, as waves along y. */
ALWAYS_INLINE void scatter_x(const struct flow *flow, const struct eliminated *line,
                             const struct bundle *bundle, struct point *points) {
    for (size_t i = 0; i < flow->component; i += LANES) {
        lanes tile[FLOW_COMPONENTS][LANES];
#pragma GCC unroll 8
        for (int t = 0; t < LANES; t++) {
            lanes r[FLOW_COMPONENTS];
            memcpy(r, line[i + (size_t)t].right, sizeof r);
            x_to_y(r);
#pragma GCC unroll 5
            for (int c = 0; c < FLOW_COMPONENTS; c++)
                tile[c][t] = r[c];
        }
#pragma GCC unroll 5
        for (int c = 0; c < FLOW_COMPONENTS; c++) {
            lanes_transpose(tile[c]);
#pragma GCC unroll 8
            for (int lane = 0; lane < LANES; lane++)
                point_of(flow, points, bundle->j[lane], i)->right[c] = tile[c][lane];
        }
    }
}

ALWAYS_INLINE struct waves gathered_waves(const struct eliminated *row) {
    return (struct waves){row->near[0], row->near[1], row->near[2]};
}

static void solve_along_x(const struct factor *factor, struct eliminated *line) {
    const int last = factor->n - 1, middle = middle_of(factor);
    struct stencil up, down;
    up.own = up.after = gathered_waves(&line[1]);
    down.own = down.after = gathered_waves(&line[last - 1]);
    clear_ends(factor, line);
    for (int i = 1; i <= middle; i++) {
        advance(&up, gathered_waves(&line[i + 1]));
        advance(&down, gathered_waves(&line[last - i - 1]));
        eliminate_both(factor, i, &up, &down, line[i].right, line[last - i].right, line);
    }
    solve_middle(&line[middle]);
    for (int i = middle - 1; i >= 1; i--) {
        substitute(&line[i], 1);
        substitute(&line[last - i], -1);
    }
}

ALWAYS_INLINE void finish_y(const struct flow *flow, const struct eliminated *row, double *to) {
    lanes r[FLOW_COMPONENTS];
    memcpy(r, row->right, sizeof r);
    y_to_z(r);
    flow_store(flow, to, r);
}

/* Solves along y for a plane's line of points; the result goes to the rows at `to`. */
static void solve_along_y(const struct flow *flow, const struct factor *factor,
                          const struct point *points, struct eliminated *line, double *to) {
    const int last = factor->n - 1, middle = middle_of(factor);
    struct stencil up, down;
    up.own = up.after = points[1].waves;
    down.own = down.after = points[last - 1].waves;
    clear_ends(factor, line);
    for (int j = 1; j <= middle; j++) {
        const int mirrored = last - j;
        advance(&up, points[j + 1].waves);
        advance(&down, points[mirrored - 1].waves);
        eliminate_both(factor, j, &up, &down, points[j].right, points[mirrored].right, line);
#pragma GCC unroll 5
        for (int c = 0; c < FLOW_COMPONENTS; c++) {
            double *component = to + (size_t)c * flow->component;
            __builtin_prefetch(component + (size_t)j * flow->row, 1);
            __builtin_prefetch(component + (size_t)mirrored * flow->row, 1);
        }
    }
    solve_middle(&line[middle]);
    finish_y(flow, &line[middle], to + (size_t)middle * flow->row);
    finish_y(flow, &line[middle + 1], to + (size_t)(middle + 1) * flow->row);
    for (int j = middle - 1; j >= 1; j--) {
        const int mirrored = last - j;
        substitute(&line[j], 1);
        finish_y(flow, &line[j], to + (size_t)j * flow->row);
        substitute(&line[mirrored], -1);
        finish_y(flow, &line[mirrored], to + (size_t)mirrored * flow->row);
    }
}

ALWAYS_INLINE void solve_rows(const struct flow *flow, double dt, int k, struct range bundles,
                              double *increment, double *plane, double *memory) {
    (void)increment;
    const struct scratch scratch = scratch_at(flow, memory);
    struct point *points = (struct point *)plane; /* where that memory begins */
    double dissipation[FLOW_POINTS_MAX][5];
    compute_dissipation(flow, dt, dissipation);
    const struct factor along_x = factor_along(0, flow, dt, dissipation);
    const struct factor along_y = factor_along(1, flow, dt, dissipation);

    for (int number = bundles.begin; number < bundles.end; number++) {
        const struct bundle bundle = bundle_of(flow, k, number, scratch.residual);
        gather_x(flow, dt, &along_x, &along_y, &bundle, points, scratch.line);
        solve_along_x(&along_x, scratch.line);
        scatter_x(flow, scratch.line, &bundle, points);
    }
}

ALWAYS_INLINE void solve_across(const struct flow *flow, double dt, int k, struct range vectors,
                                double *increment, double *plane, double *memory) {
    const struct scratch scratch = scratch_at(flow, memory);
    const struct point *points = (const struct point *)plane;
    double dissipation[FLOW_POINTS_MAX][5];
    compute_dissipation(flow, dt, dissipation);
    const struct factor along_y = factor_along(1, flow, dt, dissipation);
    for (int vector = vectors.begin; vector < vectors.end; vector++)
        solve_along_y(flow, &along_y, points + (size_t)vector * (size_t)flow->n, scratch.line,
                      increment + (size_t)k * flow->plane + (size_t)vector * LANES);
}

ALWAYS_INLINE struct waves waves_along_z(const struct flow *flow, const struct factor *factor,
                                         const double *at) {
    lanes u[FLOW_COMPONENTS];
    flow_load(flow, at, u);
    const struct gas gas = gas_of(u);
    return waves_along(2, factor, &gas);
}

ALWAYS_INLINE void finish_z(const struct flow *flow, const struct eliminated *row, double *at) {
    lanes u[FLOW_COMPONENTS], r[FLOW_COMPONENTS];
    flow_load(flow, at, u);
    memcpy(r, row->right, sizeof r);
    const struct gas gas = gas_of(u);
    z_to_conserved(r, &gas);
#pragma GCC unroll 5
    for (int c = 0; c < FLOW_COMPONENTS; c++)
        u[c] += r[c];
    flow_store(flow, at, u);
}

/* Asks for the components at two points of a field. */
ALWAYS_INLINE void prefetch_pair(const struct flow *flow, const double *one, const double *other) {
#pragma GCC unroll 5
    for (int c = 0; c < FLOW_COMPONENTS; c++) {
        __builtin_prefetch(one + (size_t)c * flow->component, 0, 2);
        __builtin_prefetch(other + (size_t)c * flow->component, 0, 2);
    }
}

/*
 * Solves along z for the lines of which `u` and `increment` are the starts, and updates u. Planes
 * are too far apart for the hardware to prefetch, so this asks for the lines that come next, which
 * are `ahead` doubles away: the increments while it reads, u while it writes.
 */
static void solve_along_z(const struct flow *flow, const struct factor *factor, double *u,
                          const double *increment, size_t ahead, struct eliminated *line) {
    const int last = factor->n - 1, middle = middle_of(factor);
    const size_t plane = flow->plane;
    struct stencil up, down;
    up.own = up.after = waves_along_z(flow, factor, u + plane);
    down.own = down.after = waves_along_z(flow, factor, u + (size_t)(last - 1) * plane);
    clear_ends(factor, line);
    for (int k = 1; k <= middle; k++) {
        const size_t at = (size_t)k * plane, mirrored = (size_t)(last - k) * plane;
        advance(&up, waves_along_z(flow, factor, u + at + plane));
        advance(&down, waves_along_z(flow, factor, u + mirrored - plane));
        lanes right[FLOW_COMPONENTS], mirrored_right[FLOW_COMPONENTS];
        flow_load(flow, increment + at, right);
        flow_load(flow, increment + mirrored, mirrored_right);
        eliminate_both(factor, k, &up, &down, right, mirrored_right, line);
        prefetch_pair(flow, increment + at + ahead, increment + mirrored + ahead);
    }
    solve_middle(&line[middle]);
    finish_z(flow, &line[middle], u + (size_t)middle * plane);
    finish_z(flow, &line[middle + 1], u + (size_t)(middle + 1) * plane);
    for (int k = middle - 1; k >= 1; k--) {
        substitute(&line[k], 1);
        finish_z(flow, &line[k], u + (size_t)k * plane);
        substitute(&line[last - k], -1);
        finish_z(flow, &line[last - k], u + (size_t)(last - k) * plane);
        /* What is needed first, first: from the ends. */
        const size_t at = (size_t)(middle - k) * plane;
        prefetch_pair(flow, u + at + ahead, u + (size_t)last * plane - at + ahead);
    }
    prefetch_pair(flow, u + (size_t)middle * plane + ahead,
                  u + (size_t)(middle + 1) * plane + ahead);
}

/* Both as one function, in which all is known that they share: SP is slower by 3 % in two. */
static void solve_plane(const struct flow *flow, double dt, int k, double *increment,
                        double *scratch) {
    solve_rows(flow, dt, k, scheme_bundles(flow->n), increment, scratch, scratch);
    solve_across(flow, dt, k, scheme_vectors(flow->n), increment, scratch, scratch);
}

static void solve_columns(const struct flow *flow, double dt, int j, struct range vectors,
                          const double *increment, double *memory) {
    const struct scratch scratch = scratch_at(flow, memory);
    double dissipation[FLOW_POINTS_MAX][5];
    compute_dissipation(flow, dt, dissipation);
    const struct factor along_z = factor_along(2, flow, dt, dissipation);
    for (int vector = vectors.begin; vector < vectors.end; vector++) {
        const size_t i = (size_t)vector * LANES, start = (size_t)j * flow->row + i;
        const size_t ahead = vector + 1 < vectors.end ? LANES : flow->row - i;
        solve_along_z(flow, &along_z, flow->u + start, increment + start, ahead, scratch.line);
    }
}

static double operations(double n) { return ((881.174 * n - 4683.91) * n + 11484.5) * n - 19272.4; }

const struct scheme SCHEME = {
    .classes = CLASSES,
    .operations = operations,
    .scratch_doubles = scratch_doubles,
    .solve_plane = solve_plane,
    .solve_rows = solve_rows,
    .solve_across = solve_across,
    .solve_columns = solve_columns,
};

const struct program PROGRAM = {
    .name = "npb-sp",
    .title = "flow by scalar pentadiagonal systems (NAS Parallel Benchmarks)",
    .bytes_needed = scheme_bytes_needed,
    .useful_threads = scheme_useful_threads,
    .run = scheme_run,
};
