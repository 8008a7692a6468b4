#include "flow.h"

#include "memory.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

static const double TOLERANCE = 1.0e-8;

/*
 * The exact solution's polynomials, component by component: a constant, then the coefficients of x,
 * y, z, x^2, y^2, z^2, ... up to the fourth power (RNR-94-007, chapter 3).
 */
static const double EXACT[FLOW_COMPONENTS][13] = {
    {2.0, 0.0, 0.0, 4.0, 5.0, 3.0, 0.5, 0.02, 0.01, 0.03, 0.5, 0.4, 0.3},
    {1.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 0.01, 0.03, 0.02, 0.4, 0.3, 0.5},
    {2.0, 2.0, 0.0, 0.0, 0.0, 2.0, 3.0, 0.04, 0.03, 0.05, 0.3, 0.5, 0.4},
    {2.0, 2.0, 0.0, 0.0, 0.0, 2.0, 3.0, 0.03, 0.05, 0.04, 0.2, 0.1, 0.3},
    {5.0, 4.0, 3.0, 2.0, 0.1, 0.4, 0.3, 0.05, 0.04, 0.03, 0.1, 0.3, 0.2},
};

static size_t rounded_up(size_t count, size_t multiple) {
    return (count + multiple - 1) / multiple * multiple;
}

/* The least odd number of cache lines that holds so many doubles. */
static size_t odd_lines(size_t doubles) {
    return rounded_up(doubles + FLOW_CACHE_LINE, 2 * FLOW_CACHE_LINE) - FLOW_CACHE_LINE;
}

struct flow flow_shape(int n) {
    struct flow flow = {.n = n, .h = 1.0 / (n - 1)};
    flow.component = rounded_up((size_t)n, FLOW_CACHE_LINE);
    flow.row = odd_lines(FLOW_COMPONENTS * flow.component);
    flow.plane = odd_lines((size_t)n * flow.row);
    return flow;
}

size_t flow_field_doubles(const struct flow *flow) { return (size_t)flow->n * flow->plane; }

static const double *row_of(const struct flow *flow, int j, int k) {
    return flow->u + (size_t)k * flow->plane + (size_t)j * flow->row;
}

/* What the coordinate x (direction 0), y or z adds to component m of the exact solution. */
static double exact_along(int direction, int m, double coordinate) {
    const double *c = &EXACT[m][1 + direction];
    return coordinate * (c[0] + coordinate * (c[3] + coordinate * (c[6] + coordinate * c[9])));
}

/* A row of the exact solution of component m, padding included (by the last point's value). */
static void exact_row(const struct flow *flow, int m, int j, int k, double *value) {
    const double along_yz =
        EXACT[m][0] + exact_along(1, m, j * flow->h) + exact_along(2, m, k * flow->h);
    for (int i = 0; i < (int)flow->component; i++)
        value[i] = along_yz + exact_along(0, m, (i < flow->n ? i : flow->n - 1) * flow->h);
}

/*
 * Initial values of an interior row: with Px, Py and Pz interpolated between the exact values on
 * the two faces across x, y and z, 1 - (1 - Px) (1 - Py) (1 - Pz) multiplied out.
 */
static void initial_row(const struct flow *flow, int m, int j, int k, double *value) {
    const int last = flow->n - 1;
    const double y = j * flow->h, z = k * flow->h;
    double y0[FLOW_POINTS_MAX], y1[FLOW_POINTS_MAX], z0[FLOW_POINTS_MAX], z1[FLOW_POINTS_MAX];
    exact_row(flow, m, 0, k, y0);
    exact_row(flow, m, last, k, y1);
    exact_row(flow, m, j, 0, z0);
    exact_row(flow, m, j, last, z1);
    exact_row(flow, m, j, k, value); /* for both ends and the padding */
    const double x0 = value[0], x1 = value[last];
    for (int i = 1; i < last; i++) {
        const double x = i * flow->h;
        const double px = (1 - x) * x0 + x * x1;
        const double py = (1 - y) * y0[i] + y * y1[i];
        const double pz = (1 - z) * z0[i] + z * z1[i];
        value[i] = px + py + pz - px * py - px * pz - py * pz + px * py * pz;
    }
}

/* Sets a row of u by `component_row`, and what stands between its end and the next row to 0. */
static void set_row(const struct flow *flow, int j, int k,
                    void (*component_row)(const struct flow *, int, int, int, double *)) {
    double *row = flow->u + (size_t)k * flow->plane + (size_t)j * flow->row;
    for (int m = 0; m < FLOW_COMPONENTS; m++)
        component_row(flow, m, j, k, row + (size_t)m * flow->component);
    for (size_t end = FLOW_COMPONENTS * flow->component; end < flow->row; end++)
        row[end] = 0;
}

/* Sets the planes k_first .. k_end - 1 of u: exact on the boundary, inside by `interior_row`. */
static void set_planes(const struct flow *flow, int k_first, int k_end,
                       void (*interior_row)(const struct flow *, int, int, int, double *)) {
    const int last = flow->n - 1;
    for (int k = k_first; k < k_end; k++)
        for (int j = 0; j <= last; j++) {
            const bool boundary = j == 0 || j == last || k == 0 || k == last;
            set_row(flow, j, k, boundary ? exact_row : interior_row);
        }
}

/*
 * Computes the forcing and sets u to boundary and initial values, padding included (it holds
 * densities that can be divided by). Called by all threads of the team, each with planes
 * k_first .. k_end - 1 of its own, whose memory it places; returns when all are ready.
 */
static void prepare(const struct flow *flow, struct team *team, int k_first, int k_end) {
    set_planes(flow, k_first, k_end, exact_row);
    const size_t begin = (size_t)k_first * flow->plane, end = (size_t)k_end * flow->plane;
    memset(flow->forcing + begin, 0, (end - begin) * sizeof *flow->forcing);
    team_barrier(team);
    /* R(Uex) with no forcing yet is L(Uex), which the forcing balances. */
    for (int k = k_first; k < k_end; k++)
        if (k > 0 && k < flow->n - 1)
            flow_residual(flow, k, 1, flow->n - 1,
                          flow->forcing + (size_t)k * flow->plane + flow->row);
    for (size_t point = begin; point < end; point++)
        flow->forcing[point] = -flow->forcing[point];
    team_barrier(team);
    set_planes(flow, k_first, k_end, initial_row);
    team_barrier(team);
}

/* What the fluxes are made of beside the conserved variables. */
struct gas {
    lanes velocity[3];
    lanes pressure;
    lanes heat; /* of the energy's diffusion, what is the same in all directions */
};

ALWAYS_INLINE struct gas gas_of(const lanes u[FLOW_COMPONENTS]) {
    struct gas gas;
    const lanes inverse_density = 1.0 / u[0];
    lanes square = {0};
#pragma GCC unroll 3
    for (int d = 0; d < 3; d++) {
        gas.velocity[d] = u[1 + d] * inverse_density;
        square += gas.velocity[d] * gas.velocity[d];
    }
    gas.pressure = FLOW_C2 * (u[4] - 0.5 * square * u[0]);
    gas.heat = (0.5 * (1.0 - FLOW_C1C5)) * square + FLOW_C1C5 * (u[4] * inverse_density);
    return gas;
}

/* The gas along a row, with room for a vector on either side. */
struct gas_row {
    _Alignas(64) double quantity[5][LANES + FLOW_POINTS_MAX + LANES];
};

/*
 * Clears what vectors take in from beyond both ends of a row. It does not count, but what happens
 * to lie there may be denormal numbers, which take processors a hundred times longer.
 */
static void clear_beyond(const struct flow *flow, struct gas_row *row) {
    for (int q = 0; q < 5; q++)
        row->quantity[q][LANES - 1] = row->quantity[q][LANES + flow->component] = 0;
}

ALWAYS_INLINE struct gas gas_at(const struct gas_row *row, ptrdiff_t i) {
    struct gas gas;
#pragma GCC unroll 3
    for (int d = 0; d < 3; d++)
        gas.velocity[d] = lanes_load(row->quantity[d] + LANES + i);
    gas.pressure = lanes_load(row->quantity[3] + LANES + i);
    gas.heat = lanes_load(row->quantity[4] + LANES + i);
    return gas;
}

static void compute_gas_row(const struct flow *flow, const double *row, struct gas_row *gas_row) {
    for (size_t i = 0; i < flow->component; i += LANES) {
        lanes u[FLOW_COMPONENTS];
        flow_load(flow, row + i, u);
        const struct gas gas = gas_of(u);
#pragma GCC unroll 3
        for (int d = 0; d < 3; d++)
            lanes_store(gas_row->quantity[d] + LANES + i, gas.velocity[d]);
        lanes_store(gas_row->quantity[3] + LANES + i, gas.pressure);
        lanes_store(gas_row->quantity[4] + LANES + i, gas.heat);
    }
}

/*
 * Adds what a neighbour in `direction` gives to R: convective and viscous fluxes. `convection` is
 * -1 / (2 h) for the next point, 1 / (2 h) for the one before; `viscosity` is c3 c4 / h^2.
 */
ALWAYS_INLINE void add_neighbour(lanes r[FLOW_COMPONENTS], const lanes u[FLOW_COMPONENTS],
                                 const struct gas *gas, int direction, double convection,
                                 double viscosity) {
    const lanes *v = gas->velocity;
    const lanes convected = convection * u[1 + direction];
    r[0] += convected;
#pragma GCC unroll 3
    for (int d = 0; d < 3; d++)
        r[1 + d] += (convected + (d == direction ? 4.0 / 3 * viscosity : viscosity)) * v[d];
    r[1 + direction] += convection * gas->pressure;
    r[4] += viscosity * gas->heat +
            (convection * (u[4] + gas->pressure) + viscosity / 6 * v[direction]) * v[direction];
}

/* Adds the point's own part of the viscous second differences along all three directions. */
ALWAYS_INLINE void add_own(lanes r[FLOW_COMPONENTS], const struct gas *gas, double viscosity) {
    lanes square = {0};
#pragma GCC unroll 3
    for (int d = 0; d < 3; d++) {
        r[1 + d] -= (2 * (4.0 / 3 + 1 + 1) * viscosity) * gas->velocity[d];
        square += gas->velocity[d] * gas->velocity[d];
    }
    r[4] -= 6 * viscosity * gas->heat + viscosity / 3 * square;
}

/*
 * The weights of U in R at five neighbours along a direction: second difference for diffusion minus
 * fourth difference for dissipation.
 */
static inline void linear_weights(const struct flow *flow, int direction, int position,
                                  double weight[5]) {
    const double diffusion = FLOW_DIFFUSION[direction] / (flow->h * flow->h);
    static const double second_difference[5] = {0, 1, -2, 1, 0};
    for (int s = 0; s < 5; s++)
        weight[s] = diffusion * second_difference[s] -
                    FLOW_DISSIPATION * flow_fourth_difference(flow->n, position, s - 2);
}

/* The weights along x, for whole rows. */
struct row_weights {
    _Alignas(64) double weight[5][FLOW_POINTS_MAX];
};

static void compute_row_weights(const struct flow *flow, struct row_weights *row_weights) {
    double weight[5];
    linear_weights(flow, 0, flow->n / 2, weight);
    for (int s = 0; s < 5; s++)
        for (size_t i = 0; i < flow->component; i++)
            row_weights->weight[s][i] = weight[s];
    const int near_ends[4] = {1, 2, flow->n - 3, flow->n - 2};
    for (int e = 0; e < 4; e++) {
        linear_weights(flow, 0, near_ends[e], weight);
        for (int s = 0; s < 5; s++)
            row_weights->weight[s][near_ends[e]] = weight[s];
    }
}

/*
 * What the linear part needs along y or z: the weights, the distance in doubles to the points one
 * away, and to those two away. Where their weight is 0 they may not exist; 0 stands in for that.
 */
struct cross {
    double weight[5];
    ptrdiff_t stride, before, after;
};

static struct cross cross_along(const struct flow *flow, int direction, int position) {
    struct cross cross = {.stride = (ptrdiff_t)(direction == 1 ? flow->row : flow->plane)};
    linear_weights(flow, direction, position, cross.weight);
    cross.before = cross.weight[0] == 0 ? 0 : -2 * cross.stride;
    cross.after = cross.weight[4] == 0 ? 0 : 2 * cross.stride;
    return cross;
}

/* The neighbours' part along y or z. */
ALWAYS_INLINE lanes linear_across(const struct cross *cross, const double *at) {
    return cross->weight[0] * lanes_load(at + cross->before) +
           cross->weight[1] * lanes_load(at - cross->stride) +
           cross->weight[3] * lanes_load(at + cross->stride) +
           cross->weight[4] * lanes_load(at + cross->after);
}

/* The part along x and the point's own part for all directions. */
ALWAYS_INLINE lanes linear_along(const lanes weight[5], const double *at) {
    return weight[0] * lanes_load(at - 2) + weight[1] * lanes_load(at - 1) +
           weight[2] * lanes_load(at) + weight[3] * lanes_load(at + 1) +
           weight[4] * lanes_load(at + 2);
}

/* Adds the fluxes of the neighbours on one side, -1 or 1, along all three directions. */
ALWAYS_INLINE void add_side(const struct flow *flow, const struct gas_row *const gas[3],
                            const double *at, size_t i, int side, double convection,
                            double viscosity, lanes r[FLOW_COMPONENTS]) {
    lanes u[FLOW_COMPONENTS];
    flow_load(flow, at + side, u);
    struct gas neighbour = gas_at(gas[1], (ptrdiff_t)i + side);
    add_neighbour(r, u, &neighbour, 0, -side * convection, viscosity);
    flow_load(flow, at + side * (ptrdiff_t)flow->row, u);
    neighbour = gas_at(gas[1 + side], (ptrdiff_t)i);
    add_neighbour(r, u, &neighbour, 1, -side * convection, viscosity);
    flow_load(flow, at + side * (ptrdiff_t)flow->plane, u);
    neighbour = gas_of(u);
    add_neighbour(r, u, &neighbour, 2, -side * convection, viscosity);
}

/* What is the same for all rows of a plane. */
struct plane {
    struct row_weights along_x;
    struct cross across_z;
};

/* R(U) at a row; gas[0], gas[1] and gas[2] are the gas of the row before, the row, the next. */
static void residual_row(const struct flow *flow, const struct plane *plane,
                         const struct cross *across_y, const struct gas_row *const gas[3],
                         const double *u, const double *forcing, double *to) {
    const double convection = 1 / (2 * flow->h);
    const double viscosity = FLOW_C3C4 / (flow->h * flow->h);
    const struct cross *across_z = &plane->across_z;
    const double own_yz = across_y->weight[2] + across_z->weight[2];

    for (size_t i = 0; i < flow->component; i += LANES) {
        lanes weight_x[5];
#pragma GCC unroll 5
        for (int s = 0; s < 5; s++)
            weight_x[s] = lanes_load(plane->along_x.weight[s] + i);
        weight_x[2] += own_yz;

        lanes r[FLOW_COMPONENTS];
#pragma GCC unroll 5
        for (int m = 0; m < FLOW_COMPONENTS; m++) {
            const size_t at = (size_t)m * flow->component + i;
            /* The next row of what this plane is the first to touch. */
            __builtin_prefetch(u + at + across_z->after + flow->row);
            __builtin_prefetch(forcing + at + flow->row);
            r[m] = lanes_load(forcing + at) +
                   (linear_along(weight_x, u + at) + linear_across(across_y, u + at) +
                    linear_across(across_z, u + at));
        }
        const struct gas own = gas_at(gas[1], (ptrdiff_t)i);
        add_own(r, &own, viscosity);
        add_side(flow, gas, u + i, i, -1, convection, viscosity, r);
        add_side(flow, gas, u + i, i, 1, convection, viscosity, r);
        flow_store(flow, to + i, r);
    }
    /* At the ends the vectors took in what is not of this row. */
    for (int m = 0; m < FLOW_COMPONENTS; m++) {
        double *component = to + (size_t)m * flow->component;
        component[0] = 0;
        for (size_t i = (size_t)flow->n - 1; i < flow->component; i++)
            component[i] = 0;
    }
}

void flow_residual(const struct flow *flow, int k, int j_first, int j_end, double *r) {
    struct plane plane = {.across_z = cross_along(flow, 2, k)};
    compute_row_weights(flow, &plane.along_x);
    const struct cross inside = cross_along(flow, 1, flow->n / 2);
    struct gas_row window[3];
    for (int row = 0; row < 3; row++)
        clear_beyond(flow, &window[row]);
    compute_gas_row(flow, row_of(flow, j_first - 1, k), &window[(j_first - 1) % 3]);
    compute_gas_row(flow, row_of(flow, j_first, k), &window[j_first % 3]);
    for (int j = j_first; j < j_end; j++) {
        compute_gas_row(flow, row_of(flow, j + 1, k), &window[(j + 1) % 3]);
        const struct gas_row *const gas[3] = {&window[(j - 1) % 3], &window[j % 3],
                                              &window[(j + 1) % 3]};
        /* Made anew only where it differs: a row should not wait for its weights. */
        struct cross near_end;
        const struct cross *across_y = &inside;
        if (j <= 2 || j >= flow->n - 3) {
            near_end = cross_along(flow, 1, j);
            across_y = &near_end;
        }
        const size_t row = (size_t)k * flow->plane + (size_t)j * flow->row;
        residual_row(flow, &plane, across_y, gas, flow->u + row, flow->forcing + row,
                     r + (size_t)(j - j_first) * flow->row);
    }
}

/* Sum of squares of a - b over the interior of a row. */
static double row_squares(const struct flow *flow, const double *a, const double *b) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int i = 1; i < flow->n - 1; i++)
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum;
}

/*
 * Sums over the interior of plane k, component by component: squares of R(U), for which `scratch`
 * has room for a plane, and of U - Uex.
 */
static void plane_residual_squares(const struct flow *flow, int k, double *scratch,
                                   double squares[FLOW_COMPONENTS]) {
    static const double zero[FLOW_POINTS_MAX];
    flow_residual(flow, k, 1, flow->n - 1, scratch);
    for (int m = 0; m < FLOW_COMPONENTS; m++) {
        squares[m] = 0;
        for (int j = 0; j < flow->n - 2; j++)
            squares[m] += row_squares(
                flow, scratch + (size_t)j * flow->row + (size_t)m * flow->component, zero);
    }
}

static void plane_error_squares(const struct flow *flow, int k, double squares[FLOW_COMPONENTS]) {
    double exact[FLOW_POINTS_MAX];
    for (int m = 0; m < FLOW_COMPONENTS; m++) {
        squares[m] = 0;
        for (int j = 1; j < flow->n - 1; j++) {
            exact_row(flow, m, j, k, exact);
            squares[m] +=
                row_squares(flow, row_of(flow, j, k) + (size_t)m * flow->component, exact);
        }
    }
}

/* The norms, from the sums over each of n planes, added up in their order. */
static struct flow_norms norms_of(const struct flow_norms *plane_squares, int n) {
    const double points = (double)(n - 2) * (n - 2) * (n - 2);
    struct flow_norms norms = {0};
    for (int m = 0; m < FLOW_COMPONENTS; m++) {
        for (int k = 1; k < n - 1; k++) {
            norms.residual[m] += plane_squares[k].residual[m];
            norms.error[m] += plane_squares[k].error[m];
        }
        norms.residual[m] = sqrt(norms.residual[m] / points);
        norms.error[m] = sqrt(norms.error[m] / points);
    }
    return norms;
}

/* Compares the norms with the class's, component by component. */
static void check(struct result *result, const struct flow_norms *norms,
                  const struct flow_norms *reference) {
    static const char *const names[FLOW_COMPONENTS] = {"density", "x momentum", "y momentum",
                                                       "z momentum", "energy"};
    char name[64];
    for (int m = 0; m < FLOW_COMPONENTS; m++) {
        snprintf(name, sizeof name, "residual of %s", names[m]);
        result_check(result, name, norms->residual[m], reference->residual[m], TOLERANCE);
    }
    for (int m = 0; m < FLOW_COMPONENTS; m++) {
        snprintf(name, sizeof name, "error of %s", names[m]);
        result_check(result, name, norms->error[m], reference->error[m], TOLERANCE);
    }
}

struct flow_run flow_run_create(const struct flow_class *class, struct result *result) {
    const struct flow shape = flow_shape(class->n);
    struct flow_run run = {.class = class, .flow = shape, .result = result};
    run.flow.u = memory_pages(flow_field_doubles(&shape), sizeof *run.flow.u);
    run.flow.forcing = memory_pages(flow_field_doubles(&shape), sizeof *run.flow.forcing);
    run.plane_squares = memory_pages((size_t) class->n, sizeof *run.plane_squares);
    return run;
}

/* Of each thread: what the solver needs, or a plane for R(U). */
static size_t scratch_size(const struct flow *flow, size_t scratch_doubles) {
    return scratch_doubles > flow->plane ? scratch_doubles : flow->plane;
}

uint64_t flow_run_bytes(int n, int threads, size_t scratch_doubles) {
    const struct flow shape = flow_shape(n);
    const uint64_t doubles = 2 * (uint64_t)flow_field_doubles(&shape) +
                             (uint64_t)threads * scratch_size(&shape, scratch_doubles);
    return doubles * sizeof(double) + (uint64_t)n * sizeof(struct flow_norms);
}

/* A thread's whole part. */
static void run_thread(struct member *me, void *shared) {
    struct flow_run *run = shared;
    struct team *team = me->team;
    const struct flow *flow = &run->flow;
    const int inner = flow->n - 2, thread = me->thread;
    const size_t scratch_doubles = scratch_size(flow, run->scratch_doubles);
    double *scratch = memory_pages(scratch_doubles, sizeof *scratch);
    if (thread == 0)
        run->threads = team->threads;
    team_barrier(team);
    if (memory_refused())
        return;
    memset(scratch, 0, scratch_doubles * sizeof *scratch);

    const int k_first = 1 + inner * thread / team->threads;
    const int k_end = 1 + inner * (thread + 1) / team->threads;
    const int with_first = thread == 0 ? 0 : k_first;
    const int with_last = thread == team->threads - 1 ? flow->n : k_end;
    if (run->place != NULL) {
        run->place(run->solver, thread);
        team_barrier(team);
    }
    prepare(flow, team, with_first, with_last);
    run->step(run->solver, me, 0, scratch);
    team_barrier(team);
    set_planes(flow, with_first, with_last, initial_row);
    team_barrier(team);

    const double start = omp_get_wtime();
    bool worked = true;
    for (int number = 1; number <= run->class->steps; number++)
        worked &= run->step(run->solver, me, number, scratch);
    team_barrier(team);
    if (!run->times_residual)
        result_time(run->result, me, start);
    for (int k = k_first; k < k_end; k++)
        plane_residual_squares(flow, k, scratch, run->plane_squares[k].residual);
    team_barrier(team);
    if (run->times_residual)
        result_time(run->result, me, start);
    for (int k = k_first; k < k_end; k++)
        plane_error_squares(flow, k, run->plane_squares[k].error);
    result_worked(run->result, worked);
}

void flow_solve(struct flow_run *run) {
    team_run(run_thread, run);
    if (memory_refused())
        return;
    const struct flow_norms norms = norms_of(run->plane_squares, run->class->n);
    check(run->result, &norms, &run->class->norms);
}
