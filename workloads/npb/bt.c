/*
 * BT, "block tridiagonal", of the NAS Parallel Benchmarks: the implicit scheme of alternating
 * directions for the flow of flow.h (Bailey et al., RNR-94-007, chapter 3; Beam and Warming, AIAA
 * Journal 16(4), 1978). Each factor is a set of block tridiagonal systems, one a line: with the
 * Jacobians A of the convective and N of the viscous flux along the line, and the diffusion d, the
 * increments g_i of the conserved variables at the interior points i of the line obey
 *
 *   -(A'_i-1 + N'_i-1 + d') g_i-1 + (1 + 2 N'_i + 2 d') g_i + (A'_i+1 - N'_i+1 - d') g_i+1 = r_i
 *
 * with A' = dt A / 2h, N' = dt N / h^2 and d' = dt d / h^2.
 *
 * In primitive variables the blocks are sparser and the work is less. Let g = S w, where w is the
 * density times the increments of log density, velocities v and internal energy per mass:
 *
 *     S = [ 1  0  0 ]
 *         [ v  I  0 ]     with v and the total energy E per mass at the point.
 *         [ E  v  1 ]
 *
 * Row i is multiplied by S^-1 of the point before it, whose block then has 9 entries instead of 18,
 * and it is that block which the elimination multiplies by full ones. Since S of a point is the
 * same in all directions, right sides are multiplied by S^-1 once, ahead of the lines along x, and
 * increments by S once, after those along z.
 *
 * LANES neighbouring lines are solved at once, from both ends to the middle: two chains of
 * divisions that wait for each other take no longer than one. One pass over planes computes
 * dt R(U) and solves along x and y while a plane is in cache, another solves along z and updates U.
 */
#include "scheme.h"

#include <string.h>

static const struct flow_class CLASSES[] = {
#include "bt_classes.inc"
};

/*
 * The components in the order of their elimination: mass, the two momenta across the line, the
 * momentum along it, energy. It lets the columns of the block of the point after, which are sparse,
 * begin with as many zeros as they can.
 */
enum { MASS, CROSS_1, CROSS_2, ALONG, HEAT, COMPONENTS };

/* The components of flow.h in this order, for lines along x, y and z. */
static const int ORDER[3][COMPONENTS] = {{0, 2, 3, 1, 4}, {0, 1, 3, 2, 4}, {0, 1, 2, 3, 4}};

typedef lanes vector[COMPONENTS];
typedef lanes matrix[COMPONENTS][COMPONENTS]; /* by columns */

/* A point of LANES lines. */
struct point {
    vector state;     /* 1 / density, the velocities, internal energy per mass */
    vector increment; /* in primitive variables; the right side before */
    matrix next; /* the increment here is `increment` minus this times that of the next point */
};

/* What the blocks along a direction are made of, all equations being divided by 1 + 2 d'. */
struct factor {
    double convection, diffusion, viscosity;
};

static double scaled_diffusion(const struct flow *flow, double dt, int direction) {
    return dt / (flow->h * flow->h) * FLOW_DIFFUSION[direction];
}

static struct factor factor_along(const struct flow *flow, double dt, int direction) {
    const double diffusion = scaled_diffusion(flow, dt, direction);
    const double scale = 1 / (1 + 2 * diffusion);
    return (struct factor){
        .convection = scale * dt / (2 * flow->h),
        .diffusion = scale * diffusion,
        .viscosity = scale * dt / (flow->h * flow->h) * FLOW_C3C4,
    };
}

/* R(U) times this is the right side of equations divided so in all three directions. */
static double residual_scale(const struct flow *flow, double dt) {
    double scale = dt;
    for (int d = 0; d < 3; d++)
        scale /= 1 + 2 * scaled_diffusion(flow, dt, d);
    return scale;
}

ALWAYS_INLINE lanes kinetic_energy(const vector state) {
    return 0.5 * (state[CROSS_1] * state[CROSS_1] + state[CROSS_2] * state[CROSS_2] +
                  state[ALONG] * state[ALONG]);
}

/* Makes a point's state of the conserved variables, in place. */
ALWAYS_INLINE void describe(vector state) {
    state[MASS] = 1.0 / state[MASS];
    for (int c = CROSS_1; c <= ALONG; c++)
        state[c] *= state[MASS];
    state[HEAT] = state[HEAT] * state[MASS] - kinetic_energy(state);
}

/* v = S^-1 v */
ALWAYS_INLINE void to_primitive(const vector state, vector v) {
    v[HEAT] -= (state[HEAT] + kinetic_energy(state)) * v[MASS];
    for (int c = CROSS_1; c <= ALONG; c++) {
        v[c] -= state[c] * v[MASS];
        v[HEAT] -= state[c] * v[c];
    }
}

/* v = S v */
ALWAYS_INLINE void to_conserved(const vector state, vector v) {
    v[HEAT] += (state[HEAT] + kinetic_energy(state)) * v[MASS];
    for (int c = CROSS_1; c <= ALONG; c++) {
        v[HEAT] += state[c] * v[c];
        v[c] += state[c] * v[MASS];
    }
}

/*
 * S^-1 of one point times S of another: ones on the diagonal and, like S, entries in the column of
 * mass and the row of energy.
 */
struct shift {
    lanes velocity[COMPONENTS]; /* stands in both; CROSS_1 to ALONG are used */
    lanes energy;               /* where they meet */
};

ALWAYS_INLINE struct shift shift_between(const vector inverse_of, const vector of) {
    struct shift shift;
    lanes square = {0};
    for (int c = CROSS_1; c <= ALONG; c++) {
        shift.velocity[c] = of[c] - inverse_of[c];
        square += shift.velocity[c] * shift.velocity[c];
    }
    shift.energy = of[HEAT] - inverse_of[HEAT] + 0.5 * square;
    return shift;
}

ALWAYS_INLINE void apply_shift(const struct shift *shift, vector v) {
    v[HEAT] += shift->energy * v[MASS];
    for (int c = CROSS_1; c <= ALONG; c++) {
        v[HEAT] += shift->velocity[c] * v[c];
        v[c] += shift->velocity[c] * v[MASS];
    }
}

/* S^-1 (A' + N' + d') S, all of one point: 9 entries. */
struct coupling {
    vector diagonal;
    lanes pressure;       /* of the momentum along by mass, of energy by the momentum along */
    double convection;    /* of mass by the momentum along */
    double pressure_heat; /* of the momentum along by energy */
};

ALWAYS_INLINE struct coupling coupling_of(double convection, double diffusion, double viscosity,
                                          const vector state) {
    const lanes moved = convection * state[ALONG] + diffusion;
    const lanes viscous = viscosity * state[MASS];
    return (struct coupling){
        .diagonal = {moved, moved + viscous, moved + viscous, moved + 4.0 / 3 * viscous,
                     moved + FLOW_C1C5 * viscous},
        .pressure = convection * FLOW_C2 * state[HEAT],
        .convection = convection,
        .pressure_heat = convection * FLOW_C2,
    };
}

/* sum += coupling v */
ALWAYS_INLINE void add_coupled(const struct coupling *coupling, const vector v, vector sum) {
    for (int c = 0; c < COMPONENTS; c++)
        sum[c] += coupling->diagonal[c] * v[c];
    sum[MASS] += coupling->convection * v[ALONG];
    sum[ALONG] += coupling->pressure * v[MASS];
    sum[ALONG] += coupling->pressure_heat * v[HEAT];
    sum[HEAT] += coupling->pressure * v[ALONG];
}

/* The inverse of a 2 x 2 matrix, but for the sign of what is off its diagonal. */
struct inverse {
    lanes diagonal[2], off_diagonal[2];
};

/* Of the diagonal block of `matrix` that starts at component `first`. */
ALWAYS_INLINE struct inverse inverse_of(const matrix matrix, int first) {
    const lanes *left = matrix[first] + first, *right = matrix[first + 1] + first;
    const lanes inverse_determinant = 1.0 / (left[0] * right[1] - right[0] * left[1]);
    return (struct inverse){
        .diagonal = {inverse_determinant * right[1], inverse_determinant * left[0]},
        .off_diagonal = {inverse_determinant * right[0], inverse_determinant * left[1]},
    };
}

ALWAYS_INLINE void multiply_inverse(const struct inverse *inverse, int first, vector v) {
    const lanes v0 = v[first], v1 = v[first + 1];
    v[first] = inverse->diagonal[0] * v0 - inverse->off_diagonal[0] * v1;
    v[first + 1] = inverse->diagonal[1] * v1 - inverse->off_diagonal[1] * v0;
}

/* v -= matrix v for columns first .. last, in other rows row_first .. row_last. */
ALWAYS_INLINE void subtract_columns(const matrix matrix, int first, int last, int row_first,
                                    int row_last, vector v) {
    for (int c = first; c <= last; c++)
        for (int r = row_first; r <= row_last; r++)
            v[r] -= matrix[c][r] * v[c];
}

/*
 * The diagonal block of a row, then its factors. Mass is a pivot of its own, the momenta across are
 * one of 2 x 2, the other two another: three divisions that wait for each other instead of five.
 */
struct pivots {
    matrix block;
    lanes inverse_mass;
    struct inverse inverse_cross, inverse_along;
};

ALWAYS_INLINE void eliminate_mass(const struct pivots *pivots, vector v) {
    v[MASS] *= pivots->inverse_mass;
    subtract_columns(pivots->block, MASS, MASS, CROSS_1, HEAT, v);
}

ALWAYS_INLINE void eliminate_cross(const struct pivots *pivots, vector v) {
    multiply_inverse(&pivots->inverse_cross, CROSS_1, v);
    subtract_columns(pivots->block, CROSS_1, CROSS_2, ALONG, HEAT, v);
}

ALWAYS_INLINE void factor_mass(struct pivots *pivots) {
    pivots->inverse_mass = 1.0 / pivots->block[MASS][MASS];
    for (int c = CROSS_1; c <= HEAT; c++)
        eliminate_mass(pivots, pivots->block[c]);
}

ALWAYS_INLINE void factor_cross(struct pivots *pivots) {
    pivots->inverse_cross = inverse_of(pivots->block, CROSS_1);
    for (int c = ALONG; c <= HEAT; c++)
        eliminate_cross(pivots, pivots->block[c]);
}

ALWAYS_INLINE void factor_last(struct pivots *pivots) {
    pivots->inverse_along = inverse_of(pivots->block, ALONG);
}

/* Divides by the factored block a vector whose components before `first` are 0. */
ALWAYS_INLINE void divide(const struct pivots *pivots, int first, vector v) {
    if (first == MASS)
        eliminate_mass(pivots, v);
    if (first <= CROSS_1)
        eliminate_cross(pivots, v);
    multiply_inverse(&pivots->inverse_along, ALONG, v);
    subtract_columns(pivots->block, ALONG, HEAT, MASS, CROSS_2, v);
    subtract_columns(pivots->block, CROSS_1, CROSS_2, MASS, MASS, v);
}

/* Forms the row at `own`, multiplied by S^-1 of the point before, and eliminates that point. */
ALWAYS_INLINE void form_row(const struct factor *factor, const struct point *before,
                            struct point *own, struct pivots *pivots) {
    const struct coupling coupling =
        coupling_of(factor->convection, factor->diffusion, factor->viscosity, before->state);
    const struct shift shift = shift_between(before->state, own->state);
    const lanes *velocity = shift.velocity;
    const lanes zero = {0}, viscous = 2 * factor->viscosity * own->state[MASS];
    const lanes cross = 1.0 + viscous, along = 1.0 + 4.0 / 3 * viscous;
    const matrix block = {
        [MASS] = {1.0 + zero, velocity[CROSS_1], velocity[CROSS_2], velocity[ALONG], shift.energy},
        [CROSS_1] = {zero, cross, zero, zero, velocity[CROSS_1] * cross},
        [CROSS_2] = {zero, zero, cross, zero, velocity[CROSS_2] * cross},
        [ALONG] = {zero, zero, zero, along, velocity[ALONG] * along},
        [HEAT] = {zero, zero, zero, zero, 1.0 + FLOW_C1C5 * viscous},
    };
    for (int c = 0; c < COMPONENTS; c++) {
        for (int r = 0; r < COMPONENTS; r++)
            pivots->block[c][r] = block[c][r];
        add_coupled(&coupling, before->next[c], pivots->block[c]);
    }
    apply_shift(&shift, own->increment);
    add_coupled(&coupling, before->increment, own->increment);
}

/* Divides that row by its diagonal block: the right side and the block of the point after. */
ALWAYS_INLINE void divide_row(const struct factor *factor, const struct pivots *pivots,
                              const struct point *before, struct point *own,
                              const struct point *after) {
    divide(pivots, MASS, own->increment);

    const struct coupling coupling =
        coupling_of(factor->convection, -factor->diffusion, -factor->viscosity, after->state);
    const struct shift shift = shift_between(before->state, after->state);
    const lanes *velocity = shift.velocity, *diagonal = coupling.diagonal;
    const lanes zero = {0}, convection = coupling.convection + zero;
    const matrix block = {
        [MASS] = {diagonal[MASS], velocity[CROSS_1] * diagonal[MASS],
                  velocity[CROSS_2] * diagonal[MASS],
                  velocity[ALONG] * diagonal[MASS] + coupling.pressure,
                  shift.energy * diagonal[MASS] + velocity[ALONG] * coupling.pressure},
        [CROSS_1] = {zero, diagonal[CROSS_1], zero, zero, velocity[CROSS_1] * diagonal[CROSS_1]},
        [CROSS_2] = {zero, zero, diagonal[CROSS_2], zero, velocity[CROSS_2] * diagonal[CROSS_2]},
        [ALONG] = {convection, velocity[CROSS_1] * convection, velocity[CROSS_2] * convection,
                   velocity[ALONG] * convection + diagonal[ALONG],
                   shift.energy * convection + velocity[ALONG] * diagonal[ALONG] +
                       coupling.pressure},
        [HEAT] = {zero, zero, zero, coupling.pressure_heat + zero,
                  velocity[ALONG] * coupling.pressure_heat + diagonal[HEAT]},
    };
    static const int first[COMPONENTS] = {MASS, CROSS_1, CROSS_1, MASS, ALONG};
    for (int c = 0; c < COMPONENTS; c++) {
        vector column;
        for (int r = 0; r < COMPONENTS; r++)
            column[r] = block[c][r];
        divide(pivots, first[c], column);
        for (int r = 0; r < COMPONENTS; r++)
            own->next[c][r] = column[r];
    }
}

/* sum -= matrix v */
ALWAYS_INLINE void subtract_product(const matrix matrix, const vector v, vector sum) {
    for (int c = 0; c < COMPONENTS; c++)
        for (int r = 0; r < COMPONENTS; r++)
            sum[r] -= matrix[c][r] * v[c];
}

/*
 * Where the eliminations meet, the rows of both sides hold each other's increment: x + P y = a and
 * y + Q x = b, so (1 - P Q) x = a - P b.
 */
static void join(struct point *x, struct point *y) {
    struct pivots pivots = {0};
    for (int c = 0; c < COMPONENTS; c++) {
        pivots.block[c][c] += 1.0;
        subtract_product(x->next, y->next[c], pivots.block[c]);
    }
    factor_mass(&pivots);
    factor_cross(&pivots);
    factor_last(&pivots);
    subtract_product(x->next, y->increment, x->increment);
    divide(&pivots, MASS, x->increment);
    subtract_product(y->next, x->increment, y->increment);
}

/* Where the next lines are, when points of a line are too far apart for prefetching by hardware. */
struct ahead {
    const double *u, *increment;
    size_t component, plane; /* strides as in a flow */
};

ALWAYS_INLINE void prefetch(const struct ahead *ahead, int point) {
    for (int m = 0; m < FLOW_COMPONENTS; m++) {
        const size_t at = (size_t)point * ahead->plane + (size_t)m * ahead->component;
        __builtin_prefetch(ahead->u + at, 1, 2);
        __builtin_prefetch(ahead->increment + at, 0, 2);
    }
}

ALWAYS_INLINE void set_end(struct point *end) {
    memset(end->increment, 0, sizeof end->increment);
    memset(end->next, 0, sizeof end->next);
}

/*
 * Solves a line of n points, an even number as in all classes. At its ends there are no increments.
 * `ahead` may be NULL.
 */
static void solve_line(const struct factor *factor, struct point *line, int n,
                       const struct ahead *ahead) {
    const struct factor rightward = *factor;
    const struct factor leftward = {-factor->convection, factor->diffusion, factor->viscosity};
    struct point *left = line, *right = line + n - 1;
    set_end(left);
    set_end(right);
    for (int i = 1; i < n / 2; i++) {
        left++;
        right--;
        if (ahead != NULL) {
            prefetch(ahead, i);
            prefetch(ahead, n - 1 - i);
        }
        struct pivots left_pivots, right_pivots;
        form_row(&rightward, left - 1, left, &left_pivots);
        form_row(&leftward, right + 1, right, &right_pivots);
        /* In step, so that while one waits for a division the other has work. */
        factor_mass(&left_pivots);
        factor_mass(&right_pivots);
        factor_cross(&left_pivots);
        factor_cross(&right_pivots);
        factor_last(&left_pivots);
        factor_last(&right_pivots);
        divide_row(&rightward, &left_pivots, left - 1, left, left + 1);
        divide_row(&leftward, &right_pivots, right + 1, right, right - 1);
    }
    join(left, right);
    for (int i = n / 2 - 1; i > 1; i--) {
        left--;
        right++;
        subtract_product(left->next, left[1].increment, left->increment);
        subtract_product(right->next, right[-1].increment, right->increment);
    }
}

/* `increment` is where the bundle's rows of that start. */
static void gather_x(const struct flow *flow, double dt, const struct bundle *bundle,
                     double *const increment[LANES], struct point *line) {
    const double scale = residual_scale(flow, dt);
    for (size_t i = 0; i < flow->component; i += LANES) {
        for (int c = 0; c < COMPONENTS; c++) {
            const size_t at = (size_t)ORDER[0][c] * flow->component + i;
            lanes u[LANES], r[LANES];
            for (int lane = 0; lane < LANES; lane++) {
                u[lane] = lanes_load(bundle->u[lane] + at);
                r[lane] = lanes_load(bundle->r[lane] + at);
                /* To be written when the lines are solved. */
                __builtin_prefetch(increment[lane] + at, 1, 2);
            }
            lanes_transpose(u);
            lanes_transpose(r);
            for (int t = 0; t < LANES; t++) {
                line[i + (size_t)t].state[c] = u[t];
                line[i + (size_t)t].increment[c] = scale * r[t];
            }
        }
        for (int t = 0; t < LANES; t++) {
            struct point *point = line + i + t;
            describe(point->state);
            to_primitive(point->state, point->increment);
        }
    }
}

static void scatter_x(const struct flow *flow, const struct point *line,
                      double *const increment[LANES]) {
    for (size_t i = 0; i < flow->component; i += LANES)
        for (int c = 0; c < COMPONENTS; c++) {
            const size_t at = (size_t)ORDER[0][c] * flow->component + i;
            lanes tile[LANES];
            for (int t = 0; t < LANES; t++)
                tile[t] = line[i + (size_t)t].increment[c];
            lanes_transpose(tile);
            for (int lane = 0; lane < LANES; lane++)
                lanes_store(increment[lane] + at, tile[lane]);
        }
}

/* Brings in lines along y or z, whose points are `stride` doubles apart. */
static void gather(const struct flow *flow, int direction, size_t stride, const double *u,
                   const double *increment, struct point *line) {
    for (struct point *point = line; point < line + flow->n; point++) {
        for (int c = 0; c < COMPONENTS; c++) {
            const size_t component = (size_t)ORDER[direction][c] * flow->component;
            point->state[c] = lanes_load(u + component);
            point->increment[c] = lanes_load(increment + component);
        }
        describe(point->state);
        u += stride;
        increment += stride;
    }
}

/* A thread's scratch memory: a line, its last tile filled up, and rows of R(U). */
static size_t scratch_doubles(const struct flow *flow) {
    return flow->component * (sizeof(struct point) / sizeof(double)) + LANES * flow->row;
}

ALWAYS_INLINE void solve_rows(const struct flow *flow, double dt, int k, struct range bundles,
                              double *increment, double *plane, double *scratch) {
    (void)plane;
    struct point *line = (struct point *)scratch;
    double *residual = (double *)(line + flow->component);
    const struct factor factor = factor_along(flow, dt, 0);
    for (int number = bundles.begin; number < bundles.end; number++) {
        const struct bundle bundle = bundle_of(flow, k, number, residual);
        double *rows[LANES];
        for (int lane = 0; lane < LANES; lane++)
            rows[lane] = increment + (size_t)k * flow->plane + (size_t)bundle.j[lane] * flow->row;
        gather_x(flow, dt, &bundle, rows, line);
        solve_line(&factor, line, flow->n, NULL);
        scatter_x(flow, line, rows);
    }
}

ALWAYS_INLINE void solve_across(const struct flow *flow, double dt, int k, struct range vectors,
                                double *increment, double *plane, double *scratch) {
    (void)plane;
    struct point *line = (struct point *)scratch;
    const int inner_end = flow->n - 1;
    const struct factor factor = factor_along(flow, dt, 1);
    for (int vector = vectors.begin; vector < vectors.end; vector++) {
        const size_t start = (size_t)k * flow->plane + (size_t)vector * LANES;
        gather(flow, 1, flow->row, flow->u + start, increment + start, line);
        solve_line(&factor, line, flow->n, NULL);
        for (int j = 1; j < inner_end; j++)
            for (int c = 0; c < COMPONENTS; c++)
                lanes_store(increment + start + (size_t)j * flow->row +
                                (size_t)ORDER[1][c] * flow->component,
                            line[j].increment[c]);
    }
}

static void solve_plane(const struct flow *flow, double dt, int k, double *increment,
                        double *scratch) {
    solve_rows(flow, dt, k, scheme_bundles(flow->n), increment, scratch, scratch);
    solve_across(flow, dt, k, scheme_vectors(flow->n), increment, scratch, scratch);
}

static void solve_columns(const struct flow *flow, double dt, int j, struct range vectors,
                          const double *increment, double *scratch) {
    struct point *line = (struct point *)scratch;
    const struct factor factor = factor_along(flow, dt, 2);
    for (int vector = vectors.begin; vector < vectors.end; vector++) {
        const size_t start = (size_t)j * flow->row + (size_t)vector * LANES;
        const bool last = vector + 1 == vectors.end;
        const size_t next = last ? (size_t)(j + 1) * flow->row : start + LANES;
        const struct ahead ahead = {flow->u + next, increment + next, flow->component, flow->plane};
        gather(flow, 2, flow->plane, flow->u + start, increment + start, line);
        solve_line(&factor, line, flow->n, &ahead);
        for (int k = 1; k < flow->n - 1; k++) {
            double *u = flow->u + start + (size_t)k * flow->plane;
            to_conserved(line[k].state, line[k].increment);
            for (int c = 0; c < COMPONENTS; c++) {
                double *to = u + (size_t)ORDER[2][c] * flow->component;
                lanes_store(to, lanes_load(to) + line[k].increment[c]);
            }
        }
    }
}

static double operations(double n) { return ((3478.8 * n - 17655.7) * n + 28023.7) * n; }

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
    .name = "npb-bt",
    .title = "flow by block tridiagonal systems (NAS Parallel Benchmarks)",
    .bytes_needed = scheme_bytes_needed,
    .useful_threads = scheme_useful_threads,
    .run = scheme_run,
};
