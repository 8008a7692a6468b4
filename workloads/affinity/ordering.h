/*
 * In which order a sparse matrix is eliminated, so that few elements of the factor are not 0.
 * Orders are lists: the row at place i is eliminated as number i.
 */
#pragma once

#include "sparse.h"

/*
 * Nested dissection of a grid: a line of nodes across its longer side comes last, behind both
 * halves, which are dissected in turn (A. George, SIAM J. Numer. Anal. 10 (1973) 345-363).
 */
void order_grid(struct grid grid, int32_t *order);

/*
 * Of any matrix, by approximate minimum degree in its quotient graph (P. R. Amestoy, T. A. Davis
 * and I. S. Duff, SIAM J. Matrix Anal. Appl. 17 (1996) 886-905). False when memory was refused.
 */
bool order_by_degree(const struct sparse *matrix, int32_t *order);
