/*
 * The Cholesky factor of a sparse matrix, supernode by supernode (E. G. Ng and B. W. Peyton, SIAM
 * J. Sci. Comput. 14 (1993) 1034-1056), by threads that take panels from a queue.
 *
 * A panel takes from the supernodes in front of it and from the panels on its left what they have
 * for it, always in the same order, and as far as they are ready; then it is factored. So the
 * factor is the same bits with any number of threads.
 */
#pragma once

#include "supernodes.h"
#include "team.h"

struct factor;

/* Bytes that factor_create takes. */
double factor_bytes(const struct supernodes *supernodes);

/* NULL when memory was refused. */
struct factor *factor_create(const struct supernodes *supernodes);

/* Threads that can all begin with a panel of their own. */
uint64_t factor_useful_threads(const struct supernodes *supernodes);

/* What is left of the last time is forgotten. One thread, before all call factor_compute. */
void factor_reset(struct factor *factor);

/* All threads of a team compute the factor. Returns whether this one was handed a panel. */
bool factor_compute(struct factor *factor, const struct member *me);

/* The first row of the matrix whose pivot isn't positive, so that there is no factor, or -1. */
int32_t factor_failed_row(const struct factor *factor, double *pivot);

/* Element (row, column) of the factor in the order of elimination, 0 where it has none. */
double factor_at(const struct factor *factor, int32_t row, int32_t column);

/* Solves A x = b. */
void factor_solve(const struct factor *factor, const double *b, double *x);
