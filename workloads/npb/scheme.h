/*
 * A scheme of alternating directions: what BT and SP have around their line solvers.
 */
#pragma once

#include "flow.h"
#include "program.h"
#include "seat.h"

#include <stddef.h>
#include <stdint.h>

/* LANES interior rows of a plane as the lanes of lines along x; the last row may repeat. */
struct bundle {
    int j[LANES];
    const double *u[LANES]; /* where the rows of u start */
    const double *r[LANES]; /* of R(U) */
};

/* Bundle `number` of plane k. Computes R(U) in it, for which `residual` has room for LANES rows. */
ALWAYS_INLINE struct bundle bundle_of(const struct flow *flow, int k, int number,
                                      double *residual) {
    const int j_first = 1 + number * LANES, j_most = j_first + LANES;
    const int j_end = j_most < flow->n - 1 ? j_most : flow->n - 1;
    flow_residual(flow, k, j_first, j_end, residual);
    struct bundle bundle;
    for (int lane = 0; lane < LANES; lane++) {
        const int j = j_first + lane < j_end ? j_first + lane : j_end - 1;
        bundle.j[lane] = j;
        bundle.u[lane] = flow->u + (size_t)k * flow->plane + (size_t)j * flow->row;
        bundle.r[lane] = residual + (size_t)(j - j_first) * flow->row;
    }
    return bundle;
}

/* All bundles of rows of a plane, and all vectors of a row. */
static inline struct range scheme_bundles(int n) {
    return (struct range){0, (n - 2 + LANES - 1) / LANES};
}

static inline struct range scheme_vectors(int n) {
    return (struct range){0, (n + LANES - 1) / LANES};
}

/*
 * A step solves
 *     X Y Z dU = dt R(U),  U += dU
 * for the factors X, Y and Z, each of which couples points along lines of one direction only.
 * `increment` is a field like u that takes what the planes leave for the columns.
 */
struct scheme {
    const struct flow_class *classes;
    /* Of a step with n points in each direction, as NPB counts. */
    double (*operations)(double n);
    /* Doubles of scratch memory that each thread needs; it starts on a page. */
    size_t (*scratch_doubles)(const struct flow *flow);
    /* In interior plane k: X^-1 dt R(U) for bundles of rows, each LANES of the interior ones.
       `plane` is scratch memory of a thread, for this plane, which may be shared. */
    void (*solve_rows)(const struct flow *flow, double dt, int k, struct range bundles,
                       double *increment, double *plane, double *scratch);
    /* Then, in as many vectors of a row: sets `increment`, j interior, to Y^-1 X^-1 dt R(U), which
       is 0 at both ends of a row and in the padding. */
    void (*solve_across)(const struct flow *flow, double dt, int k, struct range vectors,
                         double *increment, double *plane, double *scratch);
    /* Both for a whole plane. */
    void (*solve_plane)(const struct flow *flow, double dt, int k, double *increment,
                        double *scratch);
    /* In these vectors of interior row j of all planes: U += Z^-1 increment. */
    void (*solve_columns)(const struct flow *flow, double dt, int j, struct range vectors,
                          const double *increment, double *scratch);
};

/* The scheme of this executable. */
extern const struct scheme SCHEME;

/* A program's `bytes_needed`, `useful_threads` and `run`. */
uint64_t scheme_bytes_needed(size_t class_index, int threads);
uint64_t scheme_useful_threads(size_t class_index);
void scheme_run(size_t class_index, struct result *result);
