/*
 * Matrices whose elements are small integers, so that every product is exact in whatever order it
 * is summed, and verification can ask for equality.
 */
#pragma once

#include "random.h"

#include <stddef.h>

/* Elements are integers from -INTEGERS_LARGEST to INTEGERS_LARGEST. */
enum { INTEGERS_LARGEST = 8 };

static inline double integers_draw(random_state *state) {
    *state *= RANDOM_MULTIPLIER;
    return (double)(int)(random_uniform(*state) * (2 * INTEGERS_LARGEST + 1)) - INTEGERS_LARGEST;
}

/*
 * Fills what stands at one place of A, B and C, `count` elements each, the first time that they are
 * touched: numbers drawn from the place's own part of the sequence that begins at `seed`, and 0.
 */
static inline void integers_fill(uint64_t seed, size_t place, size_t count, double *a, double *b,
                                 double *c) {
    random_state state = random_seed(seed) * random_jump(2 * place * count);
    for (size_t i = 0; i < count; i++) {
        a[i] = integers_draw(&state);
        b[i] = integers_draw(&state);
        c[i] = 0.0;
    }
}

/*
 * Three square matrices, by element: A, B, and C, which is to be their product. Matrices are kept
 * in ways that only their programs know.
 */
struct integers {
    size_t size;
    double (*a)(const void *matrices, size_t row, size_t column);
    double (*b)(const void *matrices, size_t row, size_t column);
    double (*c)(const void *matrices, size_t row, size_t column);
    const void *matrices;
};

/*
 * The rows in which A (B v) is not C v for a random v (R. Freivalds, IFIP Congress 1977). With
 * integers up to 2^15 in v, a wrong row is missed in one of 2^16 cases. No number that occurs
 * exceeds 2^53 up to 2^14 rows: 2^15 x 8 x 2^14 for B v, and 8 x 2^14 times that. `vectors` has
 * room for four.
 */
static inline size_t integers_wrong_rows(const struct integers *product, uint64_t seed,
                                         double *vectors) {
    const size_t size = product->size;
    double *const v = vectors, *const bv = v + size, *const abv = bv + size, *const cv = abv + size;
    random_state state = random_seed(seed);
    for (size_t i = 0; i < size; i++) {
        state *= RANDOM_MULTIPLIER;
        v[i] = (double)(int)(65536.0 * random_uniform(state)) - 32768.0;
    }
#pragma omp parallel for schedule(static)
    for (size_t row = 0; row < size; row++) {
        bv[row] = cv[row] = 0.0;
        for (size_t k = 0; k < size; k++) {
            bv[row] += product->b(product->matrices, row, k) * v[k];
            cv[row] += product->c(product->matrices, row, k) * v[k];
        }
    }
#pragma omp parallel for schedule(static)
    for (size_t row = 0; row < size; row++) {
        abv[row] = 0.0;
        for (size_t k = 0; k < size; k++)
            abv[row] += product->a(product->matrices, row, k) * bv[k];
    }
    size_t wrong = 0;
    for (size_t row = 0; row < size; row++)
        wrong += !(abv[row] == cv[row]);
    return wrong;
}

/* The elements of a row of C that are not the sum over k of A times B; `exact` has room for it. */
static inline size_t integers_wrong_in_row(const struct integers *product, size_t row,
                                           double *exact) {
    const size_t size = product->size;
    for (size_t column = 0; column < size; column++)
        exact[column] = 0.0;
    for (size_t k = 0; k < size; k++) {
        const double a = product->a(product->matrices, row, k);
        for (size_t column = 0; column < size; column++)
            exact[column] += a * product->b(product->matrices, k, column);
    }
    size_t wrong = 0;
    for (size_t column = 0; column < size; column++)
        wrong += !(product->c(product->matrices, row, column) == exact[column]);
    return wrong;
}
