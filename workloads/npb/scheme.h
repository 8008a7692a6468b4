/*
 * A scheme of alternating directions: what BT and SP have around their line solvers.
 */
#pragma once

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
    const struct flow_class *classes;
    /* Of a step with n points in each direction, as NPB counts. */
    double (*operations)(double n);
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

/* The scheme of this executable. */
extern const struct scheme SCHEME;

/* A program's `bytes_needed` and `run`. */
uint64_t scheme_bytes_needed(size_t class_index, int threads);
void scheme_run(size_t class_index, struct result *result);
