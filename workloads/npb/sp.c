/*
 * SP, "scalar pentadiagonal", of the NAS Parallel Benchmarks: the implicit
 * scheme of alternating directions for the flow of flow.h, whose factors are
 * made diagonal in the five components, so that each line is five scalar
 * systems with five diagonals (Bailey et al., RNR-94-007, section 3.6; Pulliam
 * and Chaussee, J. Comput. Phys. 39, 1981).
 *
 * One pass over planes computes dt R(U) and solves along x and y while a plane
 * is in cache, another solves along z and updates U. FLOW_LANES neighbouring
 * lines are solved at once; for lines along x that takes a transposition, tile
 * by tile.
 */
#include "flow.h"

#include <string.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

static const double SQRT_HALF = 0.70710678118654752440;

static const char CLASS_NAMES[] = "SWABCD";
static const struct flow_class CLASSES[] = {
    {12,
     100,
     0.015,
     {{2.7470315451339479e-02, 1.0360746705285417e-02, 1.6235745065095532e-02,
       1.5840557224455615e-02, 3.4849040609362460e-02},
      {2.7289258557377227e-05, 1.0364446640837285e-05, 1.6154798287166471e-05,
       1.5750704994480102e-05, 3.4177666183390531e-05}}},
    {36,
     400,
     0.0015,
     {{0.1893253733584e-02, 0.1717075447775e-03, 0.2778153350936e-03, 0.2887475409984e-03,
       0.3143611161242e-02},
      {0.7542088599534e-04, 0.6512852253086e-05, 0.1049092285688e-04, 0.1128838671535e-04,
       0.1212845639773e-03}}},
    {64,
     400,
     0.0015,
     {{2.4799822399300195, 1.1276337964368832, 1.5028977888770491, 1.4217816211695179,
       2.1292113035138280},
      {1.0900140297820550e-04, 3.7343951769282091e-05, 5.0092785406541633e-05,
       4.7671093939528255e-05, 1.3621613399213001e-04}}},
    {102,
     400,
     0.001,
     {{0.6903293579998e+02, 0.3095134488084e+02, 0.4103336647017e+02, 0.3864769009604e+02,
       0.5643482272596e+02},
      {0.9810006190188e-02, 0.1022827905670e-02, 0.1720597911692e-02, 0.1694479428231e-02,
       0.1847456263981e-01}}},
    {162,
     400,
     0.00067,
     {{0.5881691581829e+03, 0.2454417603569e+03, 0.3293829191851e+03, 0.3081924971891e+03,
       0.4597223799176e+03},
      {0.2598120500183e+00, 0.2590888922315e-01, 0.5132886416320e-01, 0.4806073419454e-01,
       0.5483377491301e+00}}},
    {408,
     500,
     0.00030,
     {{0.1044696216887e+05, 0.3204427762578e+04, 0.4648680733032e+04, 0.4238923283697e+04,
       0.7588412036136e+04},
      {0.5089471423669e+01, 0.5323514855894e+00, 0.1187051008971e+01, 0.1083734951938e+01,
       0.1164108338568e+02}}},
};

/* The gas at a point as the eigenvectors of the flux Jacobians need it. */
struct gas {
    flow_lanes density, inverse_density;
    flow_lanes velocity[3];
    flow_lanes sound, inverse_sound; /* the speed of sound */
};

/*
 * 1 / sqrt(x) for a normal x, to the last digits, in operations that every
 * vector unit does twice a cycle: halving the exponent's bits gives a
 * twentieth, each Newton step twice the digits.
 */
ALWAYS_INLINE flow_lanes inverse_sqrt(flow_lanes x) {
    typedef int64_t bits __attribute__((vector_size(sizeof(flow_lanes))));
    flow_lanes root = (flow_lanes)(INT64_C(0x5fe6eb50c7b537a9) - ((bits)x >> 1));
#pragma GCC unroll 4
    for (int step = 0; step < 4; step++)
        root += root * (0.5 - 0.5 * x * root * root);
    return root;
}

/*
 * All from one root instead of a root and two divisions: with s = sqrt(c1 c2
 * (rho E - momentum^2 / 2)), which is rho times the speed of sound, it is 1 /
 * (rho s).
 */
ALWAYS_INLINE struct gas gas_of(const flow_lanes u[FLOW_COMPONENTS]) {
    const flow_lanes momentum_square = u[1] * u[1] + u[2] * u[2] + u[3] * u[3];
    const flow_lanes s_square = FLOW_C1 * FLOW_C2 * (u[0] * u[4] - 0.5 * momentum_square);
    const flow_lanes density_square = u[0] * u[0];
    const flow_lanes inverse = inverse_sqrt(density_square * s_square);
    const flow_lanes s = u[0] * s_square * inverse;
    struct gas gas = {.density = u[0], .inverse_density = s * inverse};
#pragma GCC unroll 3
    for (int d = 0; d < 3; d++)
        gas.velocity[d] = u[1 + d] * gas.inverse_density;
    gas.sound = s * gas.inverse_density;
    gas.inverse_sound = density_square * inverse;
    return gas;
}

ALWAYS_INLINE flow_lanes half_square(const flow_lanes velocity[3]) {
    return 0.5 *
           (velocity[0] * velocity[0] + velocity[1] * velocity[1] + velocity[2] * velocity[2]);
}

/*
 * The changes of basis, in place: from conserved variables to the eigenvectors
 * along x, from there to those along y, those along z, and back. Always in this
 * order: three waves that travel with the flow, one with the sound, one against
 * it.
 */
ALWAYS_INLINE void conserved_to_x(flow_lanes r[FLOW_COMPONENTS], const struct gas *gas) {
    const flow_lanes *v = gas->velocity;
    const flow_lanes t1 = FLOW_C2 * gas->inverse_sound * gas->inverse_sound *
                          (half_square(v) * r[0] - v[0] * r[1] - v[1] * r[2] - v[2] * r[3] + r[4]);
    const flow_lanes t2 = SQRT_HALF * gas->inverse_density * (v[0] * r[0] - r[1]);
    const flow_lanes t3 = SQRT_HALF * gas->inverse_density * gas->sound * t1;
    const flow_lanes along_y = gas->inverse_density * (v[1] * r[0] - r[2]);
    r[1] = gas->inverse_density * (r[3] - v[2] * r[0]);
    r[2] = along_y;
    r[0] -= t1;
    r[3] = t3 - t2;
    r[4] = t3 + t2;
}

ALWAYS_INLINE void x_to_y(flow_lanes r[FLOW_COMPONENTS]) {
    const flow_lanes t1 = SQRT_HALF * r[2], t2 = 0.5 * (r[3] + r[4]), r0 = r[0];
    r[0] = -r[1];
    r[1] = r0;
    r[2] = SQRT_HALF * (r[3] - r[4]);
    r[3] = t2 - t1;
    r[4] = t2 + t1;
}

ALWAYS_INLINE void y_to_z(flow_lanes r[FLOW_COMPONENTS]) {
    const flow_lanes t1 = SQRT_HALF * r[0], t2 = 0.5 * (r[3] + r[4]), r1 = r[1];
    r[0] = SQRT_HALF * (r[3] - r[4]);
    r[1] = -r[2];
    r[2] = r1;
    r[3] = t2 - t1;
    r[4] = t2 + t1;
}

ALWAYS_INLINE void z_to_conserved(flow_lanes r[FLOW_COMPONENTS], const struct gas *gas) {
    const flow_lanes *v = gas->velocity;
    const flow_lanes sum = SQRT_HALF * gas->density * (r[3] + r[4]);
    const flow_lanes t2 = r[2] + gas->inverse_sound * sum;
    const flow_lanes t3 = SQRT_HALF * gas->density * (r[3] - r[4]);
    const flow_lanes along_x = gas->density * r[1], along_y = gas->density * r[0];
    r[0] = t2;
    r[1] = v[0] * t2 - along_x;
    r[2] = v[1] * t2 + along_y;
    r[3] = v[2] * t2 + t3;
    r[4] = v[1] * along_y - v[0] * along_x + half_square(v) * t2 +
           (1 / FLOW_C2) * gas->sound * sum + v[2] * t3;
}

/* The three matrices of a line: waves with the flow (three components), with
 * and against sound. */
enum { MATRICES = 3 };
static const int MATRIX_OF[FLOW_COMPONENTS] = {0, 0, 0, 1, 2};
static const double SOUND_SIGN[MATRICES] = {0, 1, -1};

/* A point of a line as the elimination needs it. */
struct waves {
    flow_lanes velocity, sound, inverse_density;
};

/*
 * A row of the eliminated systems: g + near g[+1] + far g[+2] = right side, or
 * with g[-1] and g[-2] in the second half of a line. After the substitution the
 * right side is the solution.
 */
struct eliminated {
    flow_lanes near[MATRICES], far[MATRICES];
    flow_lanes right[FLOW_COMPONENTS];
};

/* What the matrices along a direction are made of. */
struct factor {
    int n;
    double convection;                      /* dt / (2 h) */
    double diffusion, conduction;           /* dt / h^2 times d, and times c1 c5 c3 c4 */
    double dissipation[FLOW_POINTS_MAX][5]; /* dt eps times the fourth difference */
};

static void factor_along(struct factor *factor, const struct flow *flow, double dt, int direction) {
    const double diffusion = dt / (flow->h * flow->h);
    factor->n = flow->n;
    factor->convection = dt / (2 * flow->h);
    factor->diffusion = diffusion * FLOW_DIFFUSION[direction];
    factor->conduction = diffusion * FLOW_C1C5 * FLOW_C3C4;
    for (int i = 1; i < flow->n - 1; i++) {
        flow_fourth_difference(flow->n, i, factor->dissipation[i]);
        for (int s = 0; s < 5; s++)
            factor->dissipation[i][s] *= dt * FLOW_DISSIPATION;
    }
}

/* The largest diffusion of any component at a point: that of the energy. */
ALWAYS_INLINE flow_lanes diffusion_at(const struct factor *factor, const struct waves *waves) {
    return factor->diffusion + factor->conduction * waves->inverse_density;
}

/*
 * Forms and eliminates row i of a line's systems. `row` is its place, with
 * right sides on entry; `before` is the point at i - step, whose row and the
 * one before that are eliminated.
 */
ALWAYS_INLINE void eliminate(const struct factor *factor, int i, int step,
                             const struct waves *before, const struct waves *own,
                             const struct waves *after, const flow_lanes right[FLOW_COMPONENTS],
                             struct eliminated *row) {
    const double *dissipation = factor->dissipation[i] + 2;
    const double far_before = dissipation[-2 * step], far_after = dissipation[2 * step];
    const double convection = step * factor->convection;
    const flow_lanes near_before =
        dissipation[-step] - convection * before->velocity - diffusion_at(factor, before);
    const flow_lanes near_after =
        dissipation[step] + convection * after->velocity - diffusion_at(factor, after);
    const flow_lanes diagonal = 1.0 + dissipation[0] + 2.0 * diffusion_at(factor, own);
    const struct eliminated *one_before = row - step, *two_before = row - 2 * step;

    flow_lanes reduced[MATRICES], pivot[MATRICES];
#pragma GCC unroll 3
    for (int m = 0; m < MATRICES; m++) {
        reduced[m] = near_before - SOUND_SIGN[m] * convection * before->sound -
                     far_before * two_before->near[m];
        pivot[m] = diagonal - far_before * two_before->far[m] - reduced[m] * one_before->near[m];
    }
    /* One division for three: it is what takes longest. */
    const flow_lanes product01 = pivot[0] * pivot[1];
    const flow_lanes inverse_product = 1.0 / (product01 * pivot[2]);
    const flow_lanes inverse01 = inverse_product * pivot[2];
    const flow_lanes inverse_pivot[MATRICES] = {inverse01 * pivot[1], inverse01 * pivot[0],
                                                inverse_product * product01};
#pragma GCC unroll 3
    for (int m = 0; m < MATRICES; m++) {
        const flow_lanes near = near_after + SOUND_SIGN[m] * convection * after->sound;
        row->near[m] = (near - reduced[m] * one_before->far[m]) * inverse_pivot[m];
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

/*
 * Solves for the two rows in the middle, `left` eliminated from one end and the
 * next one from the other: with their outer neighbours substituted they are two
 * equations in two unknowns.
 */
ALWAYS_INLINE void solve_middle(struct eliminated *left) {
    const struct eliminated *outer_left = left - 1, *outer_right = left + 2;
    struct eliminated *right = left + 1;
    flow_lanes own_left[MATRICES], own_right[MATRICES], left_by_right[MATRICES],
        right_by_left[MATRICES], inverse[MATRICES];
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
        const flow_lanes l = left->right[c] - left->far[m] * outer_right->right[c];
        const flow_lanes r = right->right[c] - right->far[m] * outer_left->right[c];
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
    flow_lanes right[FLOW_COMPONENTS];
};

/* A thread's scratch memory. */
struct scratch {
    struct point *plane;     /* its lines along y one after the other */
    struct eliminated *line; /* a line, from the point -1 to component */
    double *residual;        /* rows of R(U) for FLOW_LANES lines along x */
};

static size_t plane_points(const struct flow *flow) {
    return (size_t)flow->n * (flow->component / FLOW_LANES);
}

static size_t line_points(const struct flow *flow) { return flow->component + 2; }

static size_t scratch_doubles(const struct flow *flow) {
    return FLOW_LANES * flow->row + (plane_points(flow) * sizeof(struct point) +
                                     line_points(flow) * sizeof(struct eliminated)) /
                                        sizeof(double);
}

static struct scratch scratch_at(const struct flow *flow, double *memory) {
    struct scratch scratch = {.plane = (struct point *)memory};
    struct eliminated *line = (struct eliminated *)(scratch.plane + plane_points(flow));
    scratch.residual = (double *)(line + line_points(flow));
    scratch.line = line + 1;
    /* What stands beyond the ends of a line is multiplied by 0 and never written. */
    scratch.line[-1] = scratch.line[flow->n] = (struct eliminated){0};
    return scratch;
}

ALWAYS_INLINE void load_components(const struct flow *flow, const double *at,
                                   flow_lanes r[FLOW_COMPONENTS]) {
    for (int c = 0; c < FLOW_COMPONENTS; c++)
        r[c] = flow_load(at + (size_t)c * flow->component);
}

ALWAYS_INLINE void store_components(const struct flow *flow, double *at,
                                    const flow_lanes r[FLOW_COMPONENTS]) {
    for (int c = 0; c < FLOW_COMPONENTS; c++)
        flow_store(at + (size_t)c * flow->component, r[c]);
}

/* FLOW_LANES rows of interior points as the lanes of lines along x; the last may repeat. */
struct bundle {
    const double *u[FLOW_LANES]; /* where the rows of u start */
    const double *r[FLOW_LANES]; /* of R(U) */
    struct point *y[FLOW_LANES]; /* their points of the first lines along y */
};

/*
 * Brings a bundle's right sides and waves to its line, and leaves the waves along y in the plane.
 * Until a row is eliminated its `near` holds the waves.
 */
ALWAYS_INLINE void gather_x(const struct flow *flow, double dt, const struct bundle *bundle,
                            struct eliminated *line) {
    for (size_t i = 0; i < flow->component; i += FLOW_LANES) {
        flow_lanes right[FLOW_COMPONENTS][FLOW_LANES], waves[MATRICES][FLOW_LANES];
#pragma GCC unroll 8
        for (int lane = 0; lane < FLOW_LANES; lane++) {
            flow_lanes u[FLOW_COMPONENTS], r[FLOW_COMPONENTS];
            load_components(flow, bundle->u[lane] + i, u);
            load_components(flow, bundle->r[lane] + i, r);
            const struct gas gas = gas_of(u);
            conserved_to_x(r, &gas);
#pragma GCC unroll 5
            for (int c = 0; c < FLOW_COMPONENTS; c++)
                right[c][lane] = dt * r[c];
            waves[0][lane] = gas.velocity[0];
            waves[1][lane] = gas.sound;
            waves[2][lane] = gas.inverse_density;
            bundle->y[lane][i / FLOW_LANES * (size_t)flow->n].waves =
                (struct waves){gas.velocity[1], gas.sound, gas.inverse_density};
        }
#pragma GCC unroll 5
        for (int c = 0; c < FLOW_COMPONENTS; c++) {
            flow_transpose(right[c]);
#pragma GCC unroll 8
            for (int t = 0; t < FLOW_LANES; t++)
                line[i + (size_t)t].right[c] = right[c][t];
        }
#pragma GCC unroll 3
        for (int m = 0; m < MATRICES; m++) {
            flow_transpose(waves[m]);
#pragma GCC unroll 8
            for (int t = 0; t < FLOW_LANES; t++)
                line[i + (size_t)t].near[m] = waves[m][t];
        }
    }
}

/* Brings a line's solution to the bundle's points of the plane, as waves along y. */
ALWAYS_INLINE void scatter_x(const struct flow *flow, const struct eliminated *line,
                             const struct bundle *bundle) {
    for (size_t i = 0; i < flow->component; i += FLOW_LANES) {
        flow_lanes tile[FLOW_COMPONENTS][FLOW_LANES];
#pragma GCC unroll 8
        for (int t = 0; t < FLOW_LANES; t++) {
            flow_lanes r[FLOW_COMPONENTS];
            memcpy(r, line[i + (size_t)t].right, sizeof r);
            x_to_y(r);
#pragma GCC unroll 5
            for (int c = 0; c < FLOW_COMPONENTS; c++)
                tile[c][t] = r[c];
        }
#pragma GCC unroll 5
        for (int c = 0; c < FLOW_COMPONENTS; c++) {
            flow_transpose(tile[c]);
#pragma GCC unroll 8
            for (int lane = 0; lane < FLOW_LANES; lane++)
                bundle->y[lane][i / FLOW_LANES * (size_t)flow->n].right[c] = tile[c][lane];
        }
    }
}

/* The waves at three neighbouring points of a line, in the direction of its
 * elimination. */
struct stencil {
    struct waves before, own, after;
};

ALWAYS_INLINE void advance(struct stencil *stencil, struct waves after) {
    stencil->before = stencil->own;
    stencil->own = stencil->after;
    stencil->after = after;
}

/*
 * Lines are eliminated from both ends, to the rows `middle` and the next: two
 * chains of dependent operations that a processor works on at the same time.
 * The number of points is even.
 */
ALWAYS_INLINE void eliminate_both(const struct factor *factor, int i, const struct stencil *up,
                                  const struct stencil *down,
                                  const flow_lanes right[FLOW_COMPONENTS],
                                  const flow_lanes mirrored_right[FLOW_COMPONENTS],
                                  struct eliminated *line) {
    const int mirrored = factor->n - 1 - i;
    eliminate(factor, i, 1, &up->before, &up->own, &up->after, right, &line[i]);
    eliminate(factor, mirrored, -1, &down->before, &down->own, &down->after, mirrored_right,
              &line[mirrored]);
}

ALWAYS_INLINE struct waves gathered_waves(const struct eliminated *row) {
    return (struct waves){row->near[0], row->near[1], row->near[2]};
}

static void solve_along_x(const struct factor *factor, struct eliminated *line) {
    const int last = factor->n - 1, middle = last / 2;
    struct stencil up = {.own = gathered_waves(&line[0]), .after = gathered_waves(&line[1])};
    struct stencil down = {.own = gathered_waves(&line[last]),
                           .after = gathered_waves(&line[last - 1])};
    line[0] = line[last] = (struct eliminated){0};
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
    flow_lanes r[FLOW_COMPONENTS];
    memcpy(r, row->right, sizeof r);
    y_to_z(r);
    store_components(flow, to, r);
}

/* Solves along y for a plane's line of points; the result goes to the rows at `to`. */
static void solve_along_y(const struct flow *flow, const struct factor *factor,
                          const struct point *points, struct eliminated *line, double *to) {
    const int last = factor->n - 1, middle = last / 2;
    struct stencil up, down;
    up.own = up.after = points[1].waves;
    down.own = down.after = points[last - 1].waves;
    line[0] = line[last] = (struct eliminated){0};
    for (int j = 1; j <= middle; j++) {
        advance(&up, points[j + 1].waves);
        advance(&down, points[last - j - 1].waves);
        eliminate_both(factor, j, &up, &down, points[j].right, points[last - j].right, line);
#pragma GCC unroll 5
        for (int c = 0; c < FLOW_COMPONENTS; c++) {
            double *component = to + (size_t)c * flow->component;
            __builtin_prefetch(component + (size_t)j * flow->row, 1);
            __builtin_prefetch(component + (size_t)(last - j) * flow->row, 1);
        }
    }
    solve_middle(&line[middle]);
    finish_y(flow, &line[middle], to + (size_t)middle * flow->row);
    finish_y(flow, &line[middle + 1], to + (size_t)(middle + 1) * flow->row);
    for (int j = middle - 1; j >= 1; j--) {
        substitute(&line[j], 1);
        finish_y(flow, &line[j], to + (size_t)j * flow->row);
        substitute(&line[last - j], -1);
        finish_y(flow, &line[last - j], to + (size_t)(last - j) * flow->row);
    }
}

static void solve_plane(const struct flow *flow, double dt, int k, double *increment,
                        double *memory) {
    const struct scratch scratch = scratch_at(flow, memory);
    struct factor factor;
    factor_along(&factor, flow, dt, 0);
    const int inner_end = flow->n - 1;
    for (int j_first = 1; j_first < inner_end; j_first += FLOW_LANES) {
        const int j_end = j_first + FLOW_LANES < inner_end ? j_first + FLOW_LANES : inner_end;
        flow_residual(flow, k, j_first, j_end, scratch.residual);
        struct bundle bundle;
        for (int lane = 0; lane < FLOW_LANES; lane++) {
            const int j = j_first + lane < j_end ? j_first + lane : j_end - 1;
            bundle.u[lane] = flow->u + (size_t)k * flow->plane + (size_t)j * flow->row;
            bundle.r[lane] = scratch.residual + (size_t)(j - j_first) * flow->row;
            bundle.y[lane] = scratch.plane + j;
        }
        gather_x(flow, dt, &bundle, scratch.line);
        solve_along_x(&factor, scratch.line);
        scatter_x(flow, scratch.line, &bundle);
    }

    factor_along(&factor, flow, dt, 1);
    for (size_t i = 0; i < flow->component; i += FLOW_LANES)
        solve_along_y(flow, &factor, scratch.plane + i / FLOW_LANES * (size_t)flow->n, scratch.line,
                      increment + (size_t)k * flow->plane + i);
}

ALWAYS_INLINE struct waves z_waves(const struct flow *flow, const double *at) {
    flow_lanes u[FLOW_COMPONENTS];
    load_components(flow, at, u);
    const struct gas gas = gas_of(u);
    return (struct waves){gas.velocity[2], gas.sound, gas.inverse_density};
}

ALWAYS_INLINE void finish_z(const struct flow *flow, const struct eliminated *row, double *at) {
    flow_lanes u[FLOW_COMPONENTS], r[FLOW_COMPONENTS];
    load_components(flow, at, u);
    memcpy(r, row->right, sizeof r);
    const struct gas gas = gas_of(u);
    z_to_conserved(r, &gas);
#pragma GCC unroll 5
    for (int c = 0; c < FLOW_COMPONENTS; c++)
        u[c] += r[c];
    store_components(flow, at, u);
}

/*
 * Solves along z for the lines of which `u` and `increment` are the starts, and
 * updates u. The lines that come next are `ahead` doubles away.
 */
static void solve_along_z(const struct flow *flow, const struct factor *factor, double *u,
                          const double *increment, size_t ahead, struct eliminated *line) {
    const int last = factor->n - 1, middle = last / 2;
    struct stencil up, down;
    up.own = up.after = z_waves(flow, u + flow->plane);
    down.own = down.after = z_waves(flow, u + (size_t)(last - 1) * flow->plane);
    line[0] = line[last] = (struct eliminated){0};
    for (int k = 1; k <= middle; k++) {
        const size_t at = (size_t)k * flow->plane, at_mirrored = (size_t)(last - k) * flow->plane;
        advance(&up, z_waves(flow, u + at + flow->plane));
        advance(&down, z_waves(flow, u + at_mirrored - flow->plane));
        flow_lanes right[FLOW_COMPONENTS], mirrored_right[FLOW_COMPONENTS];
        load_components(flow, increment + at, right);
        load_components(flow, increment + at_mirrored, mirrored_right);
        eliminate_both(factor, k, &up, &down, right, mirrored_right, line);
#pragma GCC unroll 5
        for (int c = 0; c < FLOW_COMPONENTS; c++) {
            const size_t next = ahead + (size_t)c * flow->component;
            __builtin_prefetch(increment + at + next, 0, 2);
            __builtin_prefetch(increment + at_mirrored + next, 0, 2);
        }
    }
    solve_middle(&line[middle]);
    finish_z(flow, &line[middle], u + (size_t)middle * flow->plane);
    finish_z(flow, &line[middle + 1], u + (size_t)(middle + 1) * flow->plane);
    for (int k = middle - 1; k >= 1; k--) {
        const size_t at = (size_t)(middle - k) * flow->plane;
        const size_t at_mirrored = (size_t)(last - middle + k) * flow->plane;
#pragma GCC unroll 5
        for (int c = 0; c < FLOW_COMPONENTS; c++) {
            const size_t next = ahead + (size_t)c * flow->component;
            __builtin_prefetch(u + at + next, 0, 2);
            __builtin_prefetch(u + at_mirrored + next, 0, 2);
        }
        substitute(&line[k], 1);
        finish_z(flow, &line[k], u + (size_t)k * flow->plane);
        substitute(&line[last - k], -1);
        finish_z(flow, &line[last - k], u + (size_t)(last - k) * flow->plane);
    }
}

static void solve_columns(const struct flow *flow, double dt, int j, const double *increment,
                          double *memory) {
    const struct scratch scratch = scratch_at(flow, memory);
    struct factor factor;
    factor_along(&factor, flow, dt, 2);
    for (size_t i = 0; i < flow->component; i += FLOW_LANES) {
        const size_t start = (size_t)j * flow->row + i;
        const size_t ahead = i + FLOW_LANES < flow->component ? FLOW_LANES : flow->row - i;
        solve_along_z(flow, &factor, flow->u + start, increment + start, ahead, scratch.line);
    }
}

static const struct flow_scheme SCHEME = {scratch_doubles, solve_plane, solve_columns};

static void run(size_t class_index, struct result *result) {
    const struct flow_class *class = &CLASSES[class_index];
    const double n = class->n;
    flow_run(&SCHEME, class, result);
    /* NPB's count. */
    result->operations = class->steps * (((881.174 * n - 4683.91) * n + 11484.5) * n - 19272.4);
}

static uint64_t bytes_needed(size_t class_index, int threads) {
    return flow_run_bytes(&SCHEME, CLASSES[class_index].n, threads);
}

int main(int argc, char **argv) {
    const struct program sp = {
        .name = "npb-sp",
        .title = "scalar pentadiagonal flow solver (NAS Parallel Benchmarks)",
        .classes = CLASS_NAMES,
        .bytes_needed = bytes_needed,
        .run = run,
    };
    return program_main(&sp, argc, argv);
}
