/*
 * Symmetric sparse matrices: the lower triangle by columns. They are generated, or read from a
 * file in NIST's Matrix Market form (R. F. Boisvert, R. Pozo and K. A. Remington, NISTIR 5935,
 * 1996).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sparse {
    size_t rows;
    size_t *begin; /* of each column, and the end of the last one */
    int32_t *row;  /* of each element: the diagonal first, then downwards */
    double *value;
};

/* An element on the diagonal or below it. */
struct element {
    int32_t row, column;
    double value;
};

/* A grid of nodes with some unknowns each, every one coupled to all of its node and of nodes beside
   and diagonally across, but for some of the latter. */
struct grid {
    int width, height, unknowns;
};

/* How many of its diagonal couplings a grid lacks: DROPPED of every COUPLINGS, evenly spread. With
   them 40 x 50 nodes of 5 unknowns have 200,000 elements below the diagonal and no other number. */
enum { DROPPED = 38, COUPLINGS = 273 };

/* What a sparse matrix may look like. */
enum structure { GRID, RANDOM, ARROW, BANDED, BLOCKS, STRUCTURES };

/* Every matrix that is made here has random elements by `seed` below the diagonal, and a diagonal
   that exceeds their sum by 1, so that it is positive definite. False when memory was refused. */
bool sparse_make_grid(struct sparse *matrix, struct grid grid, uint64_t seed);

/* A small one, of about 240 rows. */
bool sparse_make(struct sparse *matrix, enum structure structure, uint64_t seed);

/* The small grid of sparse_make. */
extern const struct grid SMALL_GRID;

/*
 * Reads a file: `coordinate`, `symmetric`, and `real`, `integer` or `pattern`. A pattern becomes
 * -1 where it has an element, with a diagonal that makes each row's sum 1. False, and a sentence
 * in `why`, when the file isn't such a matrix.
 */
bool sparse_read(struct sparse *matrix, const char *path, char *why, size_t why_size);

/*
 * The matrix with its rows and columns in another order: the one at `order[i]` becomes number i.
 * `place` is the inverse of `order`. False when memory was refused.
 */
bool sparse_reorder(const struct sparse *from, const int32_t *order, const int32_t *place,
                    struct sparse *to);

/* The rows' elements in front of the diagonal: those of row i are columns[begin[i]] and so on. */
bool sparse_rows(const struct sparse *matrix, size_t **begin, int32_t **columns);

/* y = A x. */
void sparse_multiply(const struct sparse *matrix, const double *x, double *y);

/* The largest sum of a row's absolute values. `sums` has room for a vector. */
double sparse_norm(const struct sparse *matrix, double *sums);

static inline size_t sparse_below_diagonal(const struct sparse *matrix) {
    return matrix->begin[matrix->rows] - matrix->rows;
}
