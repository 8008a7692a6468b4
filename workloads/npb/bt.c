/*
 * BT, "block tridiagonal", of the NAS Parallel Benchmarks: the implicit scheme of alternating
 * directions for the flow of flow.h (Bailey et al., RNR-94-007, chapter 3; Beam and Warming, AIAA
 * Journal 16(4), 1978). Each factor is a set of block tridiagonal systems, one a line: with the
 * Jacobians A of the convective and N of the viscous flux along the line and the diffusion d, the
 * increments g_i of the conserved variables at its interior points obey
 *
 *     (1 + 2 d' + 2 N'_i) g_i - (A'_i-1 + N'_i-1 + d') g_i-1 + (A'_i+1 - N'_i+1 - d') g_i+1 = r_i,
 *
 * A' = dt A / 2h, N' = dt N / h^2, d' = dt d / h^2.
 *
 * The blocks become sparser, and the work less, in primitive variables. With g = S w, where w are
 * density times the increments of (log density, the velocities, internal energy per mass),
 *
 *     S = [1, 0, 0; v, I, 0; E, v, 1]   with velocities v and energy per mass E at the point,
 *
 * and with row i multiplied by S^-1 of the point before, the block of that point has 10 entries
 * instead of 18. A point has one S in all directions: right sides are multiplied by S^-1 once
 * before the lines along x, increments by S once after those along z.
 *
 * FLOW_LANES neighbouring lines are solved at once, from both ends to the middle, so that there are
 * two chains of dependent divisions to work on. One pass over planes computes dt R(U) and solves
 * along x and y while a plane is in cache, another solves along z and updates U. Meanwhile what the
 * next lines need is prefetched, as a line takes long and touches memory in short pieces.
 */
#include "flow.h"

#include <string.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

static const char CLASS_NAMES[] = "SWABCD";
static const struct flow_class CLASSES[] = {
    {12,
     60,
     0.01,
     {{1.7034283709541311e-01, 1.2975252070034097e-02, 3.2527926989486055e-02,
       2.6436421275166801e-02, 1.9211784131744430e-01},
      {4.9976913345811579e-04, 4.5195666782961927e-05, 7.3973765172921357e-05,
       7.3821238632439731e-05, 8.9269630987491446e-04}}},
    {24,
     200,
     0.0008,
     {{0.1125590409344e+03, 0.1180007595731e+02, 0.2710329767846e+02, 0.2469174937669e+02,
       0.2638427874317e+03},
      {0.4419655736008e+01, 0.4638531260002e+00, 0.1011551749967e+01, 0.9235878729944e+00,
       0.1018045837718e+02}}},
    {64,
     200,
     0.0008,
     {{1.0806346714637264e+02, 1.1319730901220813e+01, 2.5974354511582465e+01,
       2.3665622544678910e+01, 2.5278963211748344e+02},
      {4.2348416040525025e+00, 4.4390282496995698e-01, 9.6692480136345650e-01,
       8.8302063039765474e-01, 9.7379901770829278e+00}}},
    {102,
     200,
     0.0003,
     {{1.4233597229287254e+03, 9.9330522590150238e+01, 3.5646025644535285e+02,
       3.2485447959084092e+02, 3.2707541254659363e+03},
      {5.2969847140936856e+01, 4.4632896115670668e+00, 1.3122573342210174e+01,
       1.2006925323559144e+01, 1.2459576151035986e+02}}},
    {162,
     200,
     0.0001,
     {{0.62398116551764615e+04, 0.50793239190423964e+03, 0.15423530093013596e+04,
       0.13302387929291190e+04, 0.11604087428436455e+05},
      {0.16462008369091265e+03, 0.11497107903824313e+02, 0.41207446207461508e+02,
       0.37087651059694167e+02, 0.36211053051841265e+03}}},
    {408,
     250,
     0.00002,
     {{0.2533188551738e+05, 0.2346393716980e+04, 0.6294554366904e+04, 0.5352565376030e+04,
       0.3905864038618e+05},
      {0.3100009377557e+03, 0.2424086324913e+02, 0.7782212022645e+02, 0.6835623860116e+02,
       0.6065737200368e+03}}},
};

/*
 * The components in the order of their elimination: mass, the two momenta across the line, the
 * momentum along it, energy. So the sparse columns of the block of the point after, whose first
 * entries are zero, stay so for longest.
 */
enum { MASS, CROSS_1, CROSS_2, ALONG, HEAT, COMPONENTS };
/* Which components of the flow these are, for lines along x, y and z. */
static const int FLOW_COMPONENT[3][COMPONENTS] = {
    {0, 2, 3, 1, 4}, {0, 1, 3, 2, 4}, {0, 1, 2, 3, 4}};

typedef flow_lanes vector[COMPONENTS];
typedef flow_lanes matrix[COMPONENTS][COMPONENTS];

/* A point of FLOW_LANES lines. */
struct point {
    vector state;     /* 1 / density, the velocities, internal energy per mass */
    vector increment; /* right side, then increment in primitive variables */
    matrix next;      /* by columns: increment + next . (increment of the next point) = known */
};

/* What the blocks along a direction are made of, after division by 1 + 2 d'. */
struct factor {
    double convection, diffusion, viscosity;
};

static double scaled_diffusion(const struct flow *flow, double dt, int direction) {
    return dt / (flow->h * flow->h) * FLOW_DIFFUSION[direction];
}

static struct factor factor_along_direction(const struct flow *flow, double dt, int direction) {
    const double diffusion = scaled_diffusion(flow, dt, direction);
    const double scale = 1 / (1 + 2 * diffusion);
    return (struct factor){
        .convection = scale * dt / (2 * flow->h),
        .diffusion = scale * diffusion,
        .viscosity = scale * dt / (flow->h * flow->h) * FLOW_C3C4,
    };
}

/* What R(U) is multiplied by for its systems along x, y and z to be divided so. */
static double residual_scale(const struct flow *flow, double dt) {
    double scale = dt;
    for (int d = 0; d < 3; d++)
        scale /= 1 + 2 * scaled_diffusion(flow, dt, d);
    return scale;
}

ALWAYS_INLINE flow_lanes kinetic_energy(const vector state) {
    return 0.5 * (state[CROSS_1] * state[CROSS_1] + state[CROSS_2] * state[CROSS_2] +
                  state[ALONG] * state[ALONG]);
}

/* Turns conserved variables into a point's state. */
ALWAYS_INLINE void describe(vector state) {
    state[MASS] = 1.0 / state[MASS];
    for (int c = CROSS_1; c <= ALONG; c++)
        state[c] *= state[MASS];
    state[HEAT] = state[HEAT] * state[MASS] - kinetic_energy(state);
}

/* Multiplies a vector by S^-1. */
ALWAYS_INLINE void to_primitive(const vector state, vector v) {
    v[HEAT] -= (state[HEAT] + kinetic_energy(state)) * v[MASS];
    for (int c = CROSS_1; c <= ALONG; c++) {
        v[c] -= state[c] * v[MASS];
        v[HEAT] -= state[c] * v[c];
    }
}

/* Multiplies a vector by S. */
ALWAYS_INLINE void to_conserved(const vector state, vector v) {
    v[HEAT] += (state[HEAT] + kinetic_energy(state)) * v[MASS];
    for (int c = CROSS_1; c <= ALONG; c++) {
        v[HEAT] += state[c] * v[c];
        v[c] += state[c] * v[MASS];
    }
}

/* The entries of (S at one point)^-1 (S at another) below a diagonal of ones. */
struct shift {
    flow_lanes velocity[COMPONENTS]; /* in the column of mass and again in the row of energy */
    flow_lanes energy;               /* in the column of mass, row of energy */
};

ALWAYS_INLINE struct shift shift_between(const vector from, const vector to) {
    struct shift shift;
    flow_lanes square = {0};
    for (int c = CROSS_1; c <= ALONG; c++) {
        shift.velocity[c] = to[c] - from[c];
        square += shift.velocity[c] * shift.velocity[c];
    }
    shift.energy = to[HEAT] - from[HEAT] + 0.5 * square;
    return shift;
}

ALWAYS_INLINE void apply_shift(const struct shift *shift, vector v) {
    v[HEAT] += shift->energy * v[MASS];
    for (int c = CROSS_1; c <= ALONG; c++) {
        v[HEAT] += shift->velocity[c] * v[c];
        v[c] += shift->velocity[c] * v[MASS];
    }
}

/* S^-1 (A' + N' + d') S at one point, for positive or negative factors: its 10 entries. */
struct coupling {
    flow_lanes diagonal[COMPONENTS];
    flow_lanes pressure;  /* (ALONG, MASS) and (HEAT, ALONG): the pressure's share of convection */
    double convection;    /* (MASS, ALONG) */
    double pressure_heat; /* (ALONG, HEAT) */
};

ALWAYS_INLINE struct coupling coupling_of(double convection, double diffusion, double viscosity,
                                          const vector state) {
    const flow_lanes moved = convection * state[ALONG] + diffusion;
    const flow_lanes viscous = viscosity * state[MASS];
    return (struct coupling){
        .diagonal = {moved, moved + viscous, moved + viscous, moved + 4.0 / 3 * viscous,
                     moved + FLOW_C1C5 * viscous},
        .pressure = convection * FLOW_C2 * state[HEAT],
        .convection = convection,
        .pressure_heat = convection * FLOW_C2,
    };
}

/* Adds the coupling times a vector. */
ALWAYS_INLINE void add_coupled(const struct coupling *coupling, const vector v, vector sum) {
    for (int c = 0; c < COMPONENTS; c++)
        sum[c] += coupling->diagonal[c] * v[c];
    sum[MASS] += coupling->convection * v[ALONG];
    sum[ALONG] += coupling->pressure * v[MASS];
    sum[ALONG] += coupling->pressure_heat * v[HEAT];
    sum[HEAT] += coupling->pressure * v[ALONG];
}

/* The inverse of a 2 x 2 matrix, with both entries off its diagonal negated. */
struct inverse {
    flow_lanes diagonal[2], off_diagonal[2];
};

/*
 * A row of the systems under elimination, and then the factors of its diagonal block: mass alone,
 * the momenta across and the remaining two as 2 x 2 blocks. That takes three divisions in sequence
 * instead of five.
 */
struct row {
    matrix block; /* by rows */
    flow_lanes inverse_mass;
    struct inverse inverse_cross, inverse_along;
};

/* sum -= block . v, limited to the components first_row .. and first .. last of v. */
ALWAYS_INLINE void subtract_block(const matrix block, int row_first, int row_last, int first,
                                  int last, const vector v, vector sum) {
    for (int r = row_first; r <= row_last; r++)
        for (int c = first; c <= last; c++)
            sum[r] -= block[r][c] * v[c];
}

/*
 * Forms the diagonal block and right side of the row at `own`, multiplied by S^-1 of the point
 * before, and eliminates the increment of that point.
 */
ALWAYS_INLINE void form_row(const struct factor *factor, double convection,
                            const struct point *before, struct point *own, struct row *row) {
    const struct coupling coupling =
        coupling_of(convection, factor->diffusion, factor->viscosity, before->state);
    const struct shift shift = shift_between(before->state, own->state);
    const flow_lanes zero = {0}, viscous = 2 * factor->viscosity * own->state[MASS];
    const flow_lanes diagonal[COMPONENTS] = {zero + 1.0, 1.0 + viscous, 1.0 + viscous,
                                             1.0 + 4.0 / 3 * viscous, 1.0 + FLOW_C1C5 * viscous};
    apply_shift(&shift, own->increment);
    add_coupled(&coupling, before->increment, own->increment);
    for (int c = 0; c < COMPONENTS; c++) {
        vector column = {0};
        column[c] = diagonal[c];
        if (c == MASS)
            column[HEAT] = shift.energy;
        else if (c != HEAT)
            column[HEAT] = shift.velocity[c] * diagonal[c];
        if (c == MASS)
            for (int r = CROSS_1; r <= ALONG; r++)
                column[r] = shift.velocity[r];
        add_coupled(&coupling, before->next[c], column);
        for (int r = 0; r < COMPONENTS; r++)
            row->block[r][c] = column[r];
    }
}

ALWAYS_INLINE void multiply_inverse(const struct inverse *inverse, vector v, int first) {
    const flow_lanes v0 = v[first], v1 = v[first + 1];
    v[first] = inverse->diagonal[0] * v0 - inverse->off_diagonal[0] * v1;
    v[first + 1] = inverse->diagonal[1] * v1 - inverse->off_diagonal[1] * v0;
}

ALWAYS_INLINE struct inverse inverse_of(const matrix block, int first) {
    const int second = first + 1;
    const flow_lanes inverse_determinant = 1.0 / (block[first][first] * block[second][second] -
                                                  block[first][second] * block[second][first]);
    return (struct inverse){
        {inverse_determinant * block[second][second], inverse_determinant * block[first][first]},
        {inverse_determinant * block[first][second], inverse_determinant * block[second][first]},
    };
}

/* The three steps of the factorisation of a row's diagonal block. */
ALWAYS_INLINE void factor_mass(struct row *row) {
    row->inverse_mass = 1.0 / row->block[MASS][MASS];
    for (int c = CROSS_1; c <= HEAT; c++) {
        row->block[MASS][c] *= row->inverse_mass;
        for (int r = CROSS_1; r <= HEAT; r++)
            row->block[r][c] -= row->block[r][MASS] * row->block[MASS][c];
    }
}

ALWAYS_INLINE void factor_cross(struct row *row) {
    row->inverse_cross = inverse_of(row->block, CROSS_1);
    for (int c = ALONG; c <= HEAT; c++) {
        vector column;
        for (int r = CROSS_1; r <= HEAT; r++)
            column[r] = row->block[r][c];
        multiply_inverse(&row->inverse_cross, column, CROSS_1);
        subtract_block(row->block, ALONG, HEAT, CROSS_1, CROSS_2, column, column);
        for (int r = CROSS_1; r <= HEAT; r++)
            row->block[r][c] = column[r];
    }
}

ALWAYS_INLINE void factor_along(struct row *row) {
    row->inverse_along = inverse_of(row->block, ALONG);
}

/* Divides by a factored diagonal block a vector whose components before `first` are 0. */
ALWAYS_INLINE void divide(const struct row *row, int first, vector v) {
    if (first == MASS) {
        v[MASS] *= row->inverse_mass;
        subtract_block(row->block, CROSS_1, HEAT, MASS, MASS, v, v);
    }
    if (first <= CROSS_1) {
        multiply_inverse(&row->inverse_cross, v, CROSS_1);
        subtract_block(row->block, ALONG, HEAT, CROSS_1, CROSS_2, v, v);
    }
    multiply_inverse(&row->inverse_along, v, ALONG);
    subtract_block(row->block, MASS, CROSS_2, ALONG, HEAT, v, v);
    subtract_block(row->block, MASS, MASS, CROSS_1, CROSS_2, v, v);
}

/*
 * Divides right side and the block of the point after by the diagonal block. The columns of that
 * block are few numbers that are shifted to the S of the point before.
 */
ALWAYS_INLINE void finish_row(const struct factor *factor, double convection,
                              const struct point *before, struct point *own,
                              const struct point *after, const struct row *row) {
    divide(row, MASS, own->increment);

    const flow_lanes zero = {0};
    const struct coupling coupling =
        coupling_of(convection, -factor->diffusion, -factor->viscosity, after->state);
    const struct shift shift = shift_between(before->state, after->state);
    const flow_lanes *velocity = shift.velocity;
    const flow_lanes mass = coupling.diagonal[MASS], along = coupling.diagonal[ALONG];
    const matrix block = {
        [MASS] = {mass, velocity[CROSS_1] * mass, velocity[CROSS_2] * mass,
                  velocity[ALONG] * mass + coupling.pressure,
                  shift.energy * mass + velocity[ALONG] * coupling.pressure},
        [CROSS_1] = {zero, coupling.diagonal[CROSS_1], zero, zero,
                     velocity[CROSS_1] * coupling.diagonal[CROSS_1]},
        [CROSS_2] = {zero, zero, coupling.diagonal[CROSS_2], zero,
                     velocity[CROSS_2] * coupling.diagonal[CROSS_2]},
        [ALONG] = {zero + convection, velocity[CROSS_1] * convection,
                   velocity[CROSS_2] * convection, velocity[ALONG] * convection + along,
                   shift.energy * convection + velocity[ALONG] * along + coupling.pressure},
        [HEAT] = {zero, zero, zero, zero + coupling.pressure_heat,
                  velocity[ALONG] * coupling.pressure_heat + coupling.diagonal[HEAT]},
    };
    static const int first[COMPONENTS] = {MASS, CROSS_1, CROSS_1, MASS, ALONG};
    for (int c = 0; c < COMPONENTS; c++) {
        vector column;
        for (int r = 0; r < COMPONENTS; r++)
            column[r] = block[c][r];
        divide(row, first[c], column);
        for (int r = 0; r < COMPONENTS; r++)
            own->next[c][r] = column[r];
    }
}

ALWAYS_INLINE void subtract_next(const matrix next, const vector v, vector sum) {
    for (int c = 0; c < COMPONENTS; c++)
        for (int r = 0; r < COMPONENTS; r++)
            sum[r] -= next[c][r] * v[c];
}

/*
 * Where the last rows of both eliminations meet, each knows the other's increment:
 * x + P y = a and y + Q x = b, so (1 - P Q) x = a - P b.
 */
static void join(struct point *x, struct point *y) {
    struct row row;
    for (int c = 0; c < COMPONENTS; c++) {
        vector column = {0};
        column[c] += 1.0;
        subtract_next(x->next, y->next[c], column);
        for (int r = 0; r < COMPONENTS; r++)
            row.block[r][c] = column[r];
    }
    factor_mass(&row);
    factor_cross(&row);
    factor_along(&row);
    subtract_next(x->next, y->increment, x->increment);
    divide(&row, MASS, x->increment);
    subtract_next(y->next, x->increment, y->increment);
}

/* What later lines need from memory: for each point of a line some cache lines of each stream. */
struct ahead {
    int streams, lines;
    size_t point_stride, line_stride; /* in doubles */
    const double *stream[3];
};

ALWAYS_INLINE void prefetch(const struct ahead *ahead, int point) {
    for (int s = 0; s < ahead->streams; s++)
        for (int l = 0; l < ahead->lines; l++)
            __builtin_prefetch(ahead->stream[s] + (size_t)point * ahead->point_stride +
                                   (size_t)l * ahead->line_stride,
                               0, 2);
}

/*
 * Solves a line's systems. Their points are all there is of the line: n, an even number in all
 * classes. The increments of the first and the last are 0.
 */
static void solve_line(const struct factor *factor, struct point *line, int n,
                       const struct ahead *ahead) {
    const struct point *const last = line + n - 1;
    for (struct point *end = line; end <= last; end += n - 1) {
        memset(end->increment, 0, sizeof end->increment);
        memset(end->next, 0, sizeof end->next);
    }
    const int inner = n / 2 - 1;
    struct point *left = line, *right = line + n - 1;
    for (int i = 1; i <= inner; i++) {
        left++;
        right--;
        struct row left_row, right_row;
        prefetch(ahead, i);
        prefetch(ahead, n - 1 - i);
        form_row(factor, factor->convection, left - 1, left, &left_row);
        form_row(factor, -factor->convection, right + 1, right, &right_row);
        /* In step, so that one division is under way while the other's result is used. */
        factor_mass(&left_row);
        factor_mass(&right_row);
        factor_cross(&left_row);
        factor_cross(&right_row);
        factor_along(&left_row);
        factor_along(&right_row);
        finish_row(factor, factor->convection, left - 1, left, left + 1, &left_row);
        finish_row(factor, -factor->convection, right + 1, right, right - 1, &right_row);
    }
    join(left, right);
    for (int i = 1; i < inner; i++) {
        left--;
        right++;
        subtract_next(left->next, left[1].increment, left->increment);
        subtract_next(right->next, right[-1].increment, right->increment);
    }
}

static size_t scratch_doubles(const struct flow *flow) {
    return flow->component * (sizeof(struct point) / sizeof(double)) + FLOW_LANES * flow->row;
}

/* FLOW_LANES rows of interior points as the lanes of lines along x; the last may repeat. */
struct bundle {
    const double *u[FLOW_LANES]; /* where the rows of u start */
    const double *r[FLOW_LANES]; /* of R(U) */
    double *increment[FLOW_LANES];
};

/* Transposes a tile of component c of all rows. */
ALWAYS_INLINE void load_tile(const struct flow *flow, const double *const rows[FLOW_LANES], int c,
                             size_t i, flow_lanes tile[FLOW_LANES]) {
    for (int lane = 0; lane < FLOW_LANES; lane++)
        tile[lane] = flow_load(rows[lane] + (size_t)FLOW_COMPONENT[0][c] * flow->component + i);
    flow_transpose(tile);
}

static void gather_x(const struct flow *flow, double dt, const struct bundle *bundle,
                     struct point *line) {
    const double scale = residual_scale(flow, dt);
    for (size_t i = 0; i < flow->component; i += FLOW_LANES) {
        struct point *points = line + i;
        for (int c = 0; c < COMPONENTS; c++) {
            flow_lanes tile[FLOW_LANES];
            load_tile(flow, bundle->u, c, i, tile);
            for (int t = 0; t < FLOW_LANES; t++)
                points[t].state[c] = tile[t];
            load_tile(flow, bundle->r, c, i, tile);
            for (int t = 0; t < FLOW_LANES; t++)
                points[t].increment[c] = scale * tile[t];
        }
        for (int t = 0; t < FLOW_LANES; t++) {
            describe(points[t].state);
            to_primitive(points[t].state, points[t].increment);
        }
    }
}

static void scatter_x(const struct flow *flow, const struct point *line,
                      const struct bundle *bundle) {
    for (size_t i = 0; i < flow->component; i += FLOW_LANES)
        for (int c = 0; c < COMPONENTS; c++) {
            flow_lanes tile[FLOW_LANES];
            for (int t = 0; t < FLOW_LANES; t++)
                tile[t] = line[i + (size_t)t].increment[c];
            flow_transpose(tile);
            for (int lane = 0; lane < FLOW_LANES; lane++)
                flow_store(bundle->increment[lane] +
                               (size_t)FLOW_COMPONENT[0][c] * flow->component + i,
                           tile[lane]);
        }
}

/* Neighbours in x as the lanes of lines along y or z, whose points are `stride` doubles apart. */
static void gather_yz(const struct flow *flow, int direction, size_t stride, const double *u,
                      const double *increment, struct point *line) {
    for (int p = 0; p < flow->n; p++) {
        const size_t at = (size_t)p * stride;
        for (int c = 0; c < COMPONENTS; c++) {
            const size_t component = (size_t)FLOW_COMPONENT[direction][c] * flow->component;
            line[p].state[c] = flow_load(u + at + component);
            line[p].increment[c] = flow_load(increment + at + component);
        }
        describe(line[p].state);
    }
}

/* Computes R(U) in rows j_first .. j_end - 1 of plane k and solves along x. */
static void solve_rows(const struct flow *flow, double dt, int k, int j_first, int j_end,
                       double *increment, struct point *line, double *residual) {
    const size_t plane = (size_t)k * flow->plane;
    flow_residual(flow, k, j_first, j_end, residual);
    struct bundle bundle;
    for (int lane = 0; lane < FLOW_LANES; lane++) {
        const int j = j_first + lane < j_end ? j_first + lane : j_end - 1;
        bundle.u[lane] = flow->u + plane + (size_t)j * flow->row;
        bundle.r[lane] = residual + (size_t)(j - j_first) * flow->row;
        bundle.increment[lane] = increment + plane + (size_t)j * flow->row;
    }
    /* The next rows: what comes into cache with them for the first time. */
    const size_t next = plane + (size_t)(j_first + FLOW_LANES) * flow->row;
    const int farthest = k + 2 < flow->n ? 2 : 1;
    const int lines = (int)(FLOW_LANES * flow->row / FLOW_CACHE_LINE) / (flow->n - 2) + 1;
    const struct ahead ahead = {
        .streams = 3,
        .lines = lines,
        .point_stride = (size_t)lines * FLOW_CACHE_LINE,
        .line_stride = FLOW_CACHE_LINE,
        .stream = {flow->u + next + (size_t)farthest * flow->plane, flow->forcing + next,
                   increment + next},
    };
    const struct factor factor = factor_along_direction(flow, dt, 0);
    gather_x(flow, dt, &bundle, line);
    solve_line(&factor, line, flow->n, &ahead);
    scatter_x(flow, line, &bundle);
}

static void solve_plane(const struct flow *flow, double dt, int k, double *increment,
                        double *scratch) {
    struct point *line = (struct point *)scratch;
    double *residual = (double *)(line + flow->component);
    const int inner_end = flow->n - 1;
    for (int j = 1; j < inner_end; j += FLOW_LANES) {
        const int j_end = j + FLOW_LANES < inner_end ? j + FLOW_LANES : inner_end;
        solve_rows(flow, dt, k, j, j_end, increment, line, residual);
    }

    const struct factor factor = factor_along_direction(flow, dt, 1);
    const struct ahead nothing = {0};
    for (size_t i = 0; i < (size_t)flow->n; i += FLOW_LANES) {
        const size_t start = (size_t)k * flow->plane + i;
        gather_yz(flow, 1, flow->row, flow->u + start, increment + start, line);
        solve_line(&factor, line, flow->n, &nothing);
        for (int j = 1; j < inner_end; j++)
            for (int c = 0; c < COMPONENTS; c++)
                flow_store(increment + start + (size_t)j * flow->row +
                               (size_t)FLOW_COMPONENT[1][c] * flow->component,
                           line[j].increment[c]);
    }
}

static void solve_columns(const struct flow *flow, double dt, int j, const double *increment,
                          double *scratch) {
    struct point *line = (struct point *)scratch;
    const struct factor factor = factor_along_direction(flow, dt, 2);
    for (size_t i = 0; i < (size_t)flow->n; i += FLOW_LANES) {
        const size_t start = (size_t)j * flow->row + i;
        const size_t next =
            i + FLOW_LANES < (size_t)flow->n ? start + FLOW_LANES : (size_t)(j + 1) * flow->row;
        const struct ahead ahead = {
            .streams = 2,
            .lines = COMPONENTS,
            .point_stride = flow->plane,
            .line_stride = flow->component,
            .stream = {flow->u + next, increment + next},
        };
        gather_yz(flow, 2, flow->plane, flow->u + start, increment + start, line);
        solve_line(&factor, line, flow->n, &ahead);
        for (int k = 1; k < flow->n - 1; k++) {
            double *u = flow->u + start + (size_t)k * flow->plane;
            to_conserved(line[k].state, line[k].increment);
            for (int c = 0; c < COMPONENTS; c++) {
                double *to = u + (size_t)FLOW_COMPONENT[2][c] * flow->component;
                flow_store(to, flow_load(to) + line[k].increment[c]);
            }
        }
    }
}

static const struct flow_scheme BT = {
    .scratch_doubles = scratch_doubles,
    .solve_plane = solve_plane,
    .solve_columns = solve_columns,
};

static void run(size_t class_index, struct result *result) {
    const struct flow_class *class = &CLASSES[class_index];
    flow_run(&BT, class, result);
    /* NPB's count, of the reference's algorithm. */
    const double n = class->n;
    result->operations = class->steps * ((3478.8 * n - 17655.7) * n + 28023.7) * n;
}

static uint64_t bytes_needed(size_t class, int threads) {
    return flow_run_bytes(&BT, CLASSES[class].n, threads);
}

int main(int argc, char **argv) {
    const struct program bt = {
        .name = "npb-bt",
        .title = "flow by block tridiagonal systems (NAS Parallel Benchmarks)",
        .classes = CLASS_NAMES,
        .bytes_needed = bytes_needed,
        .run = run,
    };
    return program_main(&bt, argc, argv);
}
