/*
 * A scheme of alternating directions, the frame of BT and SP around their line solvers.
 */
#ifndef STAYPUT_NPB_SCHEME_H
#define STAYPUT_NPB_SCHEME_H

#include "flow.h"
#include "program.h"

#include <stddef.h>
#include <stdint.h>

/*
 * A step solves
 *     X Y Z dU = dt R(U),  U += dU
 * for the factors X, Y and Z, each of which couples points along lines of one direction only.
 * `increment` is a field like u that takes what the planes leave for the columns.
 */
struct scheme {
    /* Doubles of scratch memory that each thread needs; it starts on a page. */
    size_t (*scratch_doubles)(const struct flow *flow);
    /* In interior plane k: sets the whole rows of `increment`, j interior, to Y^-1 X^-1 dt R(U);
       that is 0 at both ends of a row and in the padding. */
    void (*solve_plane)(const struct flow *flow, double dt, int k, double *increment,
                        double *scratch);
    /* In interior row j of all planes: U += Z^-1 increment. */
    void (*solve_columns)(const struct flow *flow, double dt, int j, const double *increment,
                          double *scratch);
};

/* Bytes that scheme_run allocates. */
uint64_t scheme_bytes(const struct scheme *scheme, int n, int threads);

/* Runs the benchmark. Fills the result but for the number of operations. */
void scheme_run(const struct scheme *scheme, const struct flow_class *class, struct result *result);

#endif
