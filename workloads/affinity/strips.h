/*
 * Products of dense blocks that are kept as strips: as many rows as a vector has lanes, column by
 * column. The strips of the left factor are read as vectors, those of the right one, whose rows are
 * the columns of the product, number by number.
 */
#pragma once

#include "lanes.h"

#include <stddef.h>

/* Strips whose product with one other fits into registers: 24 sums of 32, or 12 of 16. */
enum { STRIPS_AT_ONCE = 3 };

/*
 * The product of strips of `a`, `stride` doubles apart, and the transpose of strip `b`, all `depth`
 * columns wide, added `times` times to `product`: strips that are `product_stride` doubles apart.
 * The count of strips is a constant, and `times` is 1 or -1.
 */
ALWAYS_INLINE void strips_multiply(const int strips, const double times, const double *a,
                                   size_t stride, const double *b, size_t depth, double *product,
                                   size_t product_stride) {
    lanes sum[STRIPS_AT_ONCE][LANES];
#pragma GCC unroll 3
    for (int s = 0; s < STRIPS_AT_ONCE; s++)
#pragma GCC unroll 8
        for (int j = 0; j < LANES; j++)
            sum[s][j] = (lanes){0};
    for (size_t k = 0; k < depth; k++) {
        lanes column[STRIPS_AT_ONCE];
#pragma GCC unroll 3
        for (int s = 0; s < STRIPS_AT_ONCE; s++)
            if (s < strips)
                column[s] = lanes_keep(lanes_load(a + (size_t)s * stride + k * LANES));
#pragma GCC unroll 8
        for (int j = 0; j < LANES; j++)
#pragma GCC unroll 3
            for (int s = 0; s < STRIPS_AT_ONCE; s++)
                if (s < strips)
                    sum[s][j] += column[s] * b[k * LANES + (size_t)j];
    }
#pragma GCC unroll 3
    for (int s = 0; s < STRIPS_AT_ONCE; s++)
#pragma GCC unroll 8
        for (int j = 0; j < LANES; j++)
            if (s < strips) {
                double *to = product + (size_t)s * product_stride + j * LANES;
                lanes_store(to, lanes_load(to) + times * sum[s][j]);
            }
}
