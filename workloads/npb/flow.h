/*
 * What BT, SP and LU share: the flow's state on a grid of n x n x n points of the unit cube, the
 * exact solution that it is compared with, its initial values, and the steady operator
 * R(U) = L(U) + f, whose forcing f makes the exact solution steady (RNR-94-007, chapter 3).
 */
#pragma once

#include "lanes.h"
#include "program.h"
#include "team.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The conserved variables: density, three momenta, total energy. */
enum { FLOW_COMPONENTS = 5 };

/* Physical and numerical constants, the same in all classes. */
#define FLOW_C1 1.4
#define FLOW_C2 0.4
#define FLOW_C3C4 0.1
#define FLOW_C1C5 1.96
#define FLOW_DISSIPATION 0.25

/* Diffusion along x, y and z, the same for all components. */
static const double FLOW_DIFFUSION[3] = {0.75, 0.75, 1.0};

/*
 * The fourth difference at a position of a line of n points: its weight of the point `offset` away,
 * -2 .. 2. Near the ends it makes do without the boundary points (RNR-94-007, chapter 3).
 */
static inline double flow_fourth_difference(int n, int position, int offset) {
    const int point = position + offset;
    if (point < 1 || point > n - 2)
        return 0;
    if (offset == 0)
        return position == 1 || position == n - 2 ? 5 : 6;
    return offset == -1 || offset == 1 ? -4 : 1;
}

/*
 * A flow: fields are indexed [k * plane + j * row + m * component + i]. The five components of a
 * row follow one another, so that a line along y or z touches few pages. Each starts on a cache
 * line and is padded to whole ones (`component` doubles). Rows and planes are an odd number of
 * cache lines apart, so that lines along y and z spread over a cache's sets.
 */
struct flow {
    int n;                        /* points in each direction, at most FLOW_POINTS_MAX */
    double h;                     /* between two of them: 1 / (n - 1) */
    size_t component, row, plane; /* strides of m, j and k, in doubles */
    double *u;                    /* the state */
    double *forcing;              /* f: 0 on the boundary */
};

enum { FLOW_POINTS_MAX = 408, FLOW_CACHE_LINE = 64 / sizeof(double) };

/* Sizes and strides only, without fields; and how many doubles a field has. */
struct flow flow_shape(int n);
size_t flow_field_doubles(const struct flow *flow);

/*
 * R(U) at the rows j_first .. j_end - 1 of plane k, all interior: to r[(j - j_first) * row +
 * m * component + i], for all i of a component: 0 at both ends of the row and in the padding.
 */
void flow_residual(const struct flow *flow, int k, int j_first, int j_end, double *r);

/* Root mean squares of residual and error, component by component. */
struct flow_norms {
    double residual[FLOW_COMPONENTS], error[FLOW_COMPONENTS];
};

/* The components at LANES points of a row from `at` on. */
ALWAYS_INLINE void flow_load(const struct flow *flow, const double *at, lanes u[FLOW_COMPONENTS]) {
#pragma GCC unroll 5
    for (int m = 0; m < FLOW_COMPONENTS; m++)
        u[m] = lanes_load(at + (size_t)m * flow->component);
}

ALWAYS_INLINE void flow_store(const struct flow *flow, double *at, const lanes u[FLOW_COMPONENTS]) {
#pragma GCC unroll 5
    for (int m = 0; m < FLOW_COMPONENTS; m++)
        lanes_store(at + (size_t)m * flow->component, u[m]);
}

/* A class of a benchmark, with its reference values. */
struct flow_class {
    int n, steps;
    double dt;
    struct flow_norms norms;
};

/* One run of a benchmark: what is the same for all of them, and how theirs takes a step. */
struct flow_run {
    const struct flow_class *class;
    struct flow flow;
    size_t scratch_doubles; /* at least, for each thread; they start on a page and with 0 */
    bool times_residual;    /* whether the timed part includes R(U) at the end */
    const void *solver;
    /* Places the memory of a thread's part of u and forcing; NULL where it is a range of planes. */
    void (*place)(const void *solver, int thread);
    /* A thread's part of step `number`, from 0, of which only the later ones are timed: whether it
       found work in all of it. */
    bool (*step)(const void *solver, struct member *me, int number, double *scratch);

    struct flow_norms *plane_squares; /* of each plane, added up in their order */
    int threads;                      /* known once threads run */
    struct result *result;
};

/* A run that allocates what is the same for all, but nothing of its solver's. */
struct flow_run flow_run_create(const struct flow_class *class, struct result *result);

/* Bytes that such a run needs, without its solver's. */
uint64_t flow_run_bytes(int n, int threads, size_t scratch_doubles);

/*
 * Runs the benchmark: a step that is not timed, the initial values again, the timed steps, and the
 * check of the norms. Fills the result but for the number of operations.
 */
void flow_solve(struct flow_run *run);
