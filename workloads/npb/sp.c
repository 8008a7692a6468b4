/*
 * SP, "scalar pentadiagonal", of the NAS Parallel Benchmarks: the implicit scheme of alternating
 * directions for the flow of flow.h, whose factors are made diagonal in the five components, so
 * that each line is five scalar systems with five diagonals (Bailey et al., RNR-94-007, section
 * 3.6; Pulliam and Chaussee, J. Comput. Phys. 39, 1981).
 *
 * One pass over planes computes dt R(U) and solves along x and y while a plane is in cache, another
 * solves along z and updates U. FLOW_LANES neighbouring lines are solved at once; for lines along x
 * that takes a transposition, tile by tile.
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

/* With one root and one division: s = sqrt(c1 c2 (rho E - momentum^2 / 2)) is rho times the speed.
 */
ALWAYS_INLINE struct gas gas_of(const flow_lanes u[FLOW_COMPONENTS]) {
    const flow_lanes square = u[1] * u[1] + u[2] * u[2] + u[3] * u[3];
    const flow_lanes density_sound_square = FLOW_C1 * FLOW_C2 * (u[0] * u[4] - 0.5 * square);
    flow_lanes s;
    for (int lane = 0; lane < FLOW_LANES; lane++)
        s[lane] = __builtin_sqrt(density_sound_square[lane]);
    const flow_lanes inverse = 1.0 / (u[0] * s);
    struct gas gas = {.density = u[0], .inverse_density = s * inverse};
    for (int d = 0; d < 3; d++)
        gas.velocity[d] = u[1 + d] * gas.inverse_density;
    gas.sound = s * gas.inverse_density;
    gas.inverse_sound = u[0] * u[0] * inverse;
    return gas;
}

ALWAYS_INLINE flow_lanes half_square(const flow_lanes velocity[3]) {
    return 0.5 *
           (velocity[0] * velocity[0] + velocity[1] * velocity[1] + velocity[2] * velocity[2]);
}

/*
 * The changes of basis, in place: from conserved variables to the eigenvectors along x, from there
 * to those along y, those along z, and back. Always in this order: three waves that travel with the
 * flow, one with the sound, one against it.
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

/* The three matrices of a line: waves with the flow (three components), with and against sound. */
enum { MATRICES = 3 };
static const int MATRIX_OF[FLOW_COMPONENTS] = {0, 0, 0, 1, 2};
static const double SOUND_SIGN[MATRICES] = {0, 1, -1};

/* A point of a line as the elimination needs it. */
struct waves {
    flow_lanes velocity, sound, inverse_density;
};

/*
 * A row of the eliminated systems: g + near g[+1] + far g[+2] = right side. After the back
 * substitution the right side is the solution.
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
 * Forms and eliminates row i of a line's systems. `row` is its place, with right sides on entry,
 * and follows those of the points before.
 */
ALWAYS_INLINE void eliminate(const struct factor *factor, int i, const struct waves *before,
                             const struct waves *own, const struct waves *after,
                             struct eliminated *row) {
    const double *dissipation = factor->dissipation[i];
    const flow_lanes lower =
        dissipation[1] - factor->convection * before->velocity - diffusion_at(factor, before);
    const flow_lanes upper =
        dissipation[3] + factor->convection * after->velocity - diffusion_at(factor, after);
    const flow_lanes diagonal = 1.0 + dissipation[2] + 2.0 * diffusion_at(factor, own);
    const double far_lower = dissipation[0], far_upper = dissipation[4];
    const struct eliminated *one_before = row - 1, *two_before = row - 2;

    flow_lanes reduced_lower[MATRICES], pivot[MATRICES];
    for (int m = 0; m < MATRICES; m++) {
        reduced_lower[m] = lower - SOUND_SIGN[m] * factor->convection * before->sound -
                           far_lower * two_before->near[m];
        pivot[m] =
            diagonal - far_lower * two_before->far[m] - reduced_lower[m] * one_before->near[m];
    }
    /* One division for three: it is what takes longest. */
    const flow_lanes product01 = pivot[0] * pivot[1];
    const flow_lanes inverse_product = 1.0 / (product01 * pivot[2]);
    const flow_lanes inverse01 = inverse_product * pivot[2];
    const flow_lanes inverse_pivot[MATRICES] = {inverse01 * pivot[1], inverse01 * pivot[0],
                                                inverse_product * product01};
    for (int m = 0; m < MATRICES; m++) {
        const flow_lanes upper_m = upper + SOUND_SIGN[m] * factor->convection * after->sound;
        row->near[m] = (upper_m - reduced_lower[m] * one_before->far[m]) * inverse_pivot[m];
        row->far[m] = far_upper * inverse_pivot[m];
    }
    for (int c = 0; c < FLOW_COMPONENTS; c++) {
        const int m = MATRIX_OF[c];
        row->right[c] = (row->right[c] - far_lower * two_before->right[c] -
                         reduced_lower[m] * one_before->right[c]) *
                        inverse_pivot[m];
    }
}

/* Solves for row i, the next two being solved. */
ALWAYS_INLINE void substitute(struct eliminated *row) {
    for (int c = 0; c < FLOW_COMPONENTS; c++) {
        const int m = MATRIX_OF[c];
        row->right[c] -= row->near[m] * row[1].right[c] + row->far[m] * row[2].right[c];
    }
}

/* A thread's scratch memory: a plane of right sides between x and y, a line, rows of R(U). */
enum { PLANE_QUANTITIES = FLOW_COMPONENTS + 3 };
struct scratch {
    size_t row;    /* stride of the plane's rows, in doubles: an odd number of cache lines */
    double *plane; /* [j * row + q * component + i]: right sides, then waves along y */
    double *residual;
    struct eliminated *line; /* of the points -1 .. component */
};

static size_t plane_row(const struct flow *flow) {
    return PLANE_QUANTITIES * flow->component + FLOW_CACHE_LINE;
}

static size_t line_doubles(const struct flow *flow) {
    return (flow->component + 2) * sizeof(struct eliminated) / sizeof(double);
}

static size_t scratch_doubles(const struct flow *flow) {
    return (size_t)flow->n * plane_row(flow) + FLOW_LANES * flow->row + line_doubles(flow);
}

static struct scratch scratch_at(const struct flow *flow, double *memory) {
    struct scratch scratch = {.row = plane_row(flow), .plane = memory};
    scratch.residual = memory + (size_t)flow->n * scratch.row;
    scratch.line = (struct eliminated *)(scratch.residual + FLOW_LANES * flow->row) + 1;
    /* What stands beyond the ends of a line is multiplied by 0 and never written. */
    const struct eliminated zero = {0};
    scratch.line[-1] = scratch.line[0] = zero;
    scratch.line[flow->n - 1] = scratch.line[flow->n] = zero;
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
    int j[FLOW_LANES];
    const double *u[FLOW_LANES]; /* where the rows of u start */
    const double *r[FLOW_LANES]; /* of R(U) */
    double *plane[FLOW_LANES];   /* and of the plane */
};

/*
 * Brings a bundle's right sides and waves to its line, and leaves the waves along y in the plane.
 * Until a row is eliminated its `near` holds the waves.
 */
ALWAYS_INLINE void gather_x(const struct flow *flow, double dt, const struct bundle *bundle,
                            struct eliminated *line) {
    for (size_t i = 0; i < flow->component; i += FLOW_LANES) {
        flow_lanes right[FLOW_COMPONENTS][FLOW_LANES], waves[MATRICES][FLOW_LANES];
        for (int lane = 0; lane < FLOW_LANES; lane++) {
            flow_lanes u[FLOW_COMPONENTS], r[FLOW_COMPONENTS];
            load_components(flow, bundle->u[lane] + i, u);
            load_components(flow, bundle->r[lane] + i, r);
            const struct gas gas = gas_of(u);
            for (int c = 0; c < FLOW_COMPONENTS; c++)
                r[c] *= dt;
            conserved_to_x(r, &gas);
            for (int c = 0; c < FLOW_COMPONENTS; c++)
                right[c][lane] = r[c];
            waves[0][lane] = gas.velocity[0];
            waves[1][lane] = gas.sound;
            waves[2][lane] = gas.inverse_density;
            double *along_y = bundle->plane[lane] + FLOW_COMPONENTS * flow->component + i;
            flow_store(along_y, gas.velocity[1]);
            flow_store(along_y + flow->component, gas.sound);
            flow_store(along_y + 2 * flow->component, gas.inverse_density);
        }
        for (int c = 0; c < FLOW_COMPONENTS; c++) {
            flow_transpose(right[c]);
            for (int t = 0; t < FLOW_LANES; t++)
                line[i + (size_t)t].right[c] = right[c][t];
        }
        for (int m = 0; m < MATRICES; m++) {
            flow_transpose(waves[m]);
            for (int t = 0; t < FLOW_LANES; t++)
                line[i + (size_t)t].near[m] = waves[m][t];
        }
    }
}

/* Brings a line's solution to the bundle's rows of the plane. */
ALWAYS_INLINE void scatter_x(const struct flow *flow, const struct eliminated *line,
                             const struct bundle *bundle) {
    for (size_t i = 0; i < flow->component; i += FLOW_LANES)
        for (int c = 0; c < FLOW_COMPONENTS; c++) {
            flow_lanes tile[FLOW_LANES];
            for (int t = 0; t < FLOW_LANES; t++)
                tile[t] = line[i + (size_t)t].right[c];
            flow_transpose(tile);
            for (int lane = 0; lane < FLOW_LANES; lane++)
                flow_store(bundle->plane[lane] + (size_t)c * flow->component + i, tile[lane]);
        }
}

ALWAYS_INLINE struct waves gathered_waves(const struct eliminated *row) {
    return (struct waves){row->near[0], row->near[1], row->near[2]};
}

static void solve_along_x(const struct factor *factor, struct eliminated *line) {
    struct waves before = gathered_waves(&line[0]), own = gathered_waves(&line[1]);
    memset(line[0].near, 0, sizeof line[0].near);
    for (int i = 1; i < factor->n - 1; i++) {
        const struct waves after = gathered_waves(&line[i + 1]);
        eliminate(factor, i, &before, &own, &after, &line[i]);
        before = own;
        own = after;
    }
    for (int i = factor->n - 2; i >= 1; i--) {
        substitute(&line[i]);
    }
    for (int i = factor->n - 2; i >= 1; i--) {
        x_to_y(line[i].right);
    }
}

ALWAYS_INLINE struct waves plane_waves(const struct flow *flow, const double *at) {
    const double *along_y = at + FLOW_COMPONENTS * flow->component;
    return (struct waves){flow_load(along_y), flow_load(along_y + flow->component),
                          flow_load(along_y + 2 * flow->component)};
}

/* Solves along y for the lines that start at `from` in the plane; the result goes to `to`. */
static void solve_along_y(const struct flow *flow, const struct factor *factor, const double *from,
                          size_t from_row, struct eliminated *line, double *to) {
    struct waves before, own = plane_waves(flow, from + from_row);
    before = own;
    for (int j = 1; j < factor->n - 1; j++) {
        const double *at = from + (size_t)j * from_row;
        const struct waves after = j < factor->n - 2 ? plane_waves(flow, at + from_row) : own;
        load_components(flow, at, line[j].right);
        eliminate(factor, j, &before, &own, &after, &line[j]);
        before = own;
        own = after;
    }
    for (int j = factor->n - 2; j >= 1; j--) {
        substitute(&line[j]);
        flow_lanes r[FLOW_COMPONENTS];
        memcpy(r, line[j].right, sizeof r);
        y_to_z(r);
        store_components(flow, to + (size_t)j * flow->row, r);
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
            bundle.plane[lane] = scratch.plane + (size_t)j * scratch.row;
        }
        gather_x(flow, dt, &bundle, scratch.line);
        solve_along_x(&factor, scratch.line);
        scatter_x(flow, scratch.line, &bundle);
    }

    factor_along(&factor, flow, dt, 1);
    const struct eliminated zero = {0};
    scratch.line[flow->n - 1] = scratch.line[flow->n] = zero;
    for (size_t i = 0; i < flow->component; i += FLOW_LANES)
        solve_along_y(flow, &factor, scratch.plane + i, scratch.row, scratch.line,
                      increment + (size_t)k * flow->plane + i);
}

/* Solves along z for the lines of row j that start at i, and updates u. */
static void solve_along_z(const struct flow *flow, const struct factor *factor, size_t start,
                          const double *increment, struct eliminated *line) {
    flow_lanes u[FLOW_COMPONENTS];
    load_components(flow, flow->u + start, u);
    struct gas gas = gas_of(u);
    struct waves before = {gas.velocity[2], gas.sound, gas.inverse_density};
    load_components(flow, flow->u + flow->plane + start, u);
    gas = gas_of(u);
    struct waves own = {gas.velocity[2], gas.sound, gas.inverse_density};
    for (int k = 1; k < factor->n - 1; k++) {
        const size_t at = start + (size_t)k * flow->plane;
        load_components(flow, flow->u + at + flow->plane, u);
        gas = gas_of(u);
        const struct waves after = {gas.velocity[2], gas.sound, gas.inverse_density};
        load_components(flow, increment + at, line[k].right);
        eliminate(factor, k, &before, &own, &after, &line[k]);
        before = own;
        own = after;
    }
    for (int k = factor->n - 2; k >= 1; k--) {
        double *at = flow->u + start + (size_t)k * flow->plane;
        substitute(&line[k]);
        load_components(flow, at, u);
        gas = gas_of(u);
        flow_lanes r[FLOW_COMPONENTS];
        memcpy(r, line[k].right, sizeof r);
        z_to_conserved(r, &gas);
        for (int c = 0; c < FLOW_COMPONENTS; c++)
            u[c] += r[c];
        store_components(flow, at, u);
    }
}

static void solve_columns(const struct flow *flow, double dt, int j, const double *increment,
                          double *memory) {
    const struct scratch scratch = scratch_at(flow, memory);
    struct factor factor;
    factor_along(&factor, flow, dt, 2);
    for (size_t i = 0; i < flow->component; i += FLOW_LANES)
        solve_along_z(flow, &factor, (size_t)j * flow->row + i, increment, scratch.line);
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
