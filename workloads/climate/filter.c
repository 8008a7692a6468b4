#include "filter.h"

#include "lanes.h"
#include "memory.h"

#include <math.h>

/*
 * The two rows are real and imaginary part of one complex row z, which is transformed, multiplied
 * by the response and transformed back. As the response is real and the same for a wave and its
 * conjugate, the parts do not mix. The order of the waves is of no interest, so that nothing is
 * reordered: forwards by decimation in frequency, backwards by decimation in time.
 *
 * Lane l of vector k is z[n k + l], n being LANES. With N columns, L = N / n and
 * w = exp(-2 pi i / N), wave p + L t is
 *   sum over l of w^(L t l) w^(p l) (sum over k of w^(n p k) z[n k + l]):
 * a transform of length L in each lane, a shift by w^(p l), and an n-point transform across lanes.
 * Backwards is forwards with real and imaginary parts exchanged and the steps turned round.
 */

/* Doubles of a row, as vectors. */
typedef lanes row_lanes __attribute__((may_alias));

struct complex_lanes {
    lanes re, im;
};

ALWAYS_INLINE void multiply(struct complex_lanes *z, const struct complex_lanes *factor) {
    const lanes re = z->re * factor->re - z->im * factor->im;
    z->im = z->re * factor->im + z->im * factor->re;
    z->re = re;
}

/* The transform of `radix` numbers, 2 or 4. */
ALWAYS_INLINE void butterfly(struct complex_lanes *z, const int radix) {
    if (radix == 2) {
        const struct complex_lanes difference = {z[0].re - z[1].re, z[0].im - z[1].im};
        z[0].re += z[1].re, z[0].im += z[1].im;
        z[1] = difference;
        return;
    }
    const struct complex_lanes even_sum = {z[0].re + z[2].re, z[0].im + z[2].im},
                               even_difference = {z[0].re - z[2].re, z[0].im - z[2].im},
                               odd_sum = {z[1].re + z[3].re, z[1].im + z[3].im},
                               odd_difference = {z[1].re - z[3].re, z[1].im - z[3].im};
    z[0].re = even_sum.re + odd_sum.re, z[0].im = even_sum.im + odd_sum.im;
    z[1].re = even_difference.re + odd_difference.im;
    z[1].im = even_difference.im - odd_difference.re;
    z[2].re = even_sum.re - odd_sum.re, z[2].im = even_sum.im - odd_sum.im;
    z[3].re = even_difference.re - odd_difference.im;
    z[3].im = even_difference.im + odd_difference.re;
}

/* One butterfly of the transforms of length `block`, at place k of its quarters (or halves). */
ALWAYS_INLINE void pass_at(const struct filter *filter, row_lanes *restrict re,
                           row_lanes *restrict im, int block, int k, const int radix,
                           const bool forwards, const bool twiddled) {
    const int vectors = filter->columns / LANES, part = block / radix;
    const int turn = k * (vectors / block);
    struct complex_lanes roots[4];
    for (int m = 1; m < radix && twiddled; m++) {
        roots[m].re = filter->root_re[m * turn] - (lanes){0}; /* in every lane */
        roots[m].im = filter->root_im[m * turn] - (lanes){0};
    }
    for (int first = k; first < vectors; first += block) {
        struct complex_lanes z[4];
        for (int m = 0; m < radix; m++) {
            z[m].re = re[first + m * part];
            z[m].im = im[first + m * part];
        }
        if (forwards)
            butterfly(z, radix);
        for (int m = 1; m < radix && twiddled; m++)
            multiply(&z[m], &roots[m]);
        if (!forwards)
            butterfly(z, radix);
        for (int m = 0; m < radix; m++) {
            re[first + m * part] = z[m].re;
            im[first + m * part] = z[m].im;
        }
    }
}

ALWAYS_INLINE void pass(const struct filter *filter, row_lanes *re, row_lanes *im, int block,
                        const int radix, const bool forwards) {
    pass_at(filter, re, im, block, 0, radix, forwards, false);
    for (int k = 1; k < block / radix; k++)
        pass_at(filter, re, im, block, k, radix, forwards, true);
}

static void transform_lanes(const struct filter *filter, row_lanes *re, row_lanes *im) {
    int block = filter->columns / LANES;
    if (filter->first_radix == 2) {
        pass(filter, re, im, block, 2, true);
        block /= 2;
    }
    for (; block > 1; block /= 4)
        pass(filter, re, im, block, 4, true);
}

static void transform_lanes_back(const struct filter *filter, row_lanes *re, row_lanes *im) {
    const int vectors = filter->columns / LANES;
    const int quarters = filter->first_radix == 2 ? vectors / 2 : vectors;
    for (int block = 4; block <= quarters; block *= 4)
        pass(filter, im, re, block, 4, false);
    if (filter->first_radix == 2)
        pass(filter, im, re, vectors, 2, false);
}

/* Exchanges neighbouring groups of `distance` lanes. */
ALWAYS_INLINE void exchange(row_lanes *x, const int distance) {
#if defined(__AVX512F__)
    *x = distance == 4   ? __builtin_shufflevector(*x, *x, 4, 5, 6, 7, 0, 1, 2, 3)
         : distance == 2 ? __builtin_shufflevector(*x, *x, 2, 3, 0, 1, 6, 7, 4, 5)
                         : __builtin_shufflevector(*x, *x, 1, 0, 3, 2, 5, 4, 7, 6);
#elif defined(__AVX__)
    *x = distance == 2 ? __builtin_shufflevector(*x, *x, 2, 3, 0, 1)
                       : __builtin_shufflevector(*x, *x, 1, 0, 3, 2);
#else
    (void)distance; /* is 1 */
    *x = __builtin_shufflevector(*x, *x, 1, 0);
#endif
}

/* Sums in the lower, differences in the upper of each two groups of `distance` lanes. */
ALWAYS_INLINE void butterfly_across(struct complex_lanes *z, const int distance) {
    static const double SIGNS[3][8] __attribute__((aligned(64))) = {
        {1, -1, 1, -1, 1, -1, 1, -1}, {1, 1, -1, -1, 1, 1, -1, -1}, {1, 1, 1, 1, -1, -1, -1, -1}};
    const lanes sign = *(const row_lanes *)SIGNS[distance / 2];
    struct complex_lanes other = *z;
    exchange(&other.re, distance);
    exchange(&other.im, distance);
    z->re = other.re + sign * z->re;
    z->im = other.im + sign * z->im;
}

/* What a butterfly across 2 or 4 lanes leaves in the upper groups is turned for the next. */
ALWAYS_INLINE void twiddle_across(struct complex_lanes *z, const int distance) {
    static const double RE[3][8] __attribute__((aligned(64))) = {
        {0}, {1, 1, 1, 0, 1, 1, 1, 0}, {1, 1, 1, 1, 1, M_SQRT1_2, 0, -M_SQRT1_2}};
    static const double IM[3][8] __attribute__((aligned(64))) = {
        {0}, {0, 0, 0, -1, 0, 0, 0, -1}, {0, 0, 0, 0, 0, -M_SQRT1_2, -1, -M_SQRT1_2}};
    const struct complex_lanes factor = {*(const row_lanes *)RE[distance / 2],
                                         *(const row_lanes *)IM[distance / 2]};
    multiply(z, &factor);
}

/* Shift, transform across the lanes, response, and all of it back. */
static void weaken_waves(const struct filter *filter, const double *response, row_lanes *re,
                         row_lanes *im) {
    const row_lanes *weights = (const row_lanes *)response;
    for (int k = 0; k < filter->columns / LANES; k++) {
        const struct complex_lanes shift = {((const row_lanes *)filter->shift_re)[k],
                                            ((const row_lanes *)filter->shift_im)[k]};
        struct complex_lanes z = {re[k], im[k]};
        multiply(&z, &shift);
        for (int distance = LANES / 2; distance > 1; distance /= 2) {
            butterfly_across(&z, distance);
            twiddle_across(&z, distance);
        }
        butterfly_across(&z, 1);
        struct complex_lanes back = {weights[k] * z.im, weights[k] * z.re};
        butterfly_across(&back, 1);
        for (int distance = 2; distance < LANES; distance *= 2) {
            twiddle_across(&back, distance);
            butterfly_across(&back, distance);
        }
        multiply(&back, &shift);
        re[k] = back.im;
        im[k] = back.re;
    }
}

/* How many rows there are between it and the nearer pole. */
static int from_pole(const struct filter *filter, int row) {
    return row < filter->rows / 2 ? row : filter->rows - 1 - row;
}

void filter_pair(const struct filter *filter, int row, double *first, double *second) {
    row_lanes *re = (row_lanes *)first, *im = (row_lanes *)second;
    const int latitude = from_pole(filter, row);
    transform_lanes(filter, re, im);
    weaken_waves(filter, filter->response + latitude * filter->columns, re, im);
    transform_lanes_back(filter, re, im);
}

/* The wave that the lanes' transforms leave in vector k. */
static int wave_of_vector(const struct filter *filter, int k) {
    int wave = 0, weight = 1, block = filter->columns / LANES;
    for (int radix = filter->first_radix; block > 1; radix = 4) {
        block /= radix;
        wave += weight * (k / block);
        weight *= radix;
        k %= block;
    }
    return wave;
}

/*
 * A gravity wave of m periods round a parallel of N cells of width x has the frequency
 * 2 c sin(pi m / N) / x, and the response times that where the filter is applied to flux and force.
 */
static double response_to(const struct sphere *sphere, int row, int wave) {
    const double width = cos(sphere_latitude(sphere, row + 0.5)) / cos(FILTER_LATITUDE);
    const double sine = sin(M_PI * wave / sphere->columns);
    return sine <= width ? 1.0 : width / sine;
}

int filter_rows(const struct sphere *sphere) {
    int row = 0;
    while (sphere_latitude(sphere, row + 0.5) < -FILTER_LATITUDE)
        row++;
    return row;
}

void filter_create(struct filter *filter, const struct sphere *sphere) {
    const int columns = sphere->columns, vectors = columns / LANES;
    *filter = (struct filter){
        .columns = columns,
        .rows = sphere->rows,
        .filtered = filter_rows(sphere),
        .first_radix = __builtin_ctz((unsigned)vectors) % 2 == 0 ? 4 : 2,
    };
    filter->root_re = memory_pages((size_t)vectors, sizeof(double));
    filter->root_im = memory_pages((size_t)vectors, sizeof(double));
    filter->shift_re = memory_pages((size_t)columns, sizeof(double));
    filter->shift_im = memory_pages((size_t)columns, sizeof(double));
    filter->response = memory_pages((size_t)filter->filtered * (size_t)columns, sizeof(double));
    if (memory_refused())
        return;

    for (int k = 0; k < vectors; k++) {
        filter->root_re[k] = cos(2.0 * M_PI * k / vectors);
        filter->root_im[k] = -sin(2.0 * M_PI * k / vectors);
    }
    for (int k = 0; k < vectors; k++) {
        const int wave = wave_of_vector(filter, k);
        for (int lane = 0; lane < LANES; lane++) {
            filter->shift_re[LANES * k + lane] = cos(2.0 * M_PI * wave * lane / columns);
            filter->shift_im[LANES * k + lane] = -sin(2.0 * M_PI * wave * lane / columns);
            /* The butterflies across leave the lanes in the order of reversed bits. */
            int part = 0;
            for (int bit = 1; bit < LANES; bit *= 2)
                part = 2 * part + ((lane & bit) != 0);
            for (int row = 0; row < filter->filtered; row++)
                filter->response[row * columns + LANES * k + lane] =
                    response_to(sphere, row, wave + part * vectors) / columns;
        }
    }
}

uint64_t filter_bytes(const struct sphere *sphere) {
    const uint64_t columns = (uint64_t)sphere->columns;
    return (2 * (columns / LANES) + (2 + (uint64_t)filter_rows(sphere)) * columns) * sizeof(double);
}
