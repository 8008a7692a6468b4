/*
 * Cooley and Tukey's factorisation. Within a block of r s elements, with j = j1 s + j2 and
 * k = k1 + r k2, a stage of radix r transforms over j1, leaves k1 in the place of j1 and multiplies
 * by exp(2 pi i k1 j2 / (r s)). What remains are r blocks of s elements for the next stage. All of
 * that happens in the work space; the last stage, which has no roots, puts every element where it
 * belongs. So a line is read once and written once, however far away it is.
 *
 * No radix above 8: sixteen complex vectors would fill every register of the largest machines, and
 * compilers spill.
 */
#include "fft.h"

#include <math.h>
#if defined(__AVX__)
#include <immintrin.h>
#endif

static size_t radix_of(const struct fft_plan *plan, int stage) {
    return stage < plan->fours ? 4 : 8;
}

ALWAYS_INLINE struct fft_element times_i(struct fft_element a) {
    return (struct fft_element){-a.im, a.re};
}

ALWAYS_INLINE struct fft_element times(struct fft_element a, struct fft_root w) {
    return (struct fft_element){a.re * w.re - a.im * w.im, a.re * w.im + a.im * w.re};
}

/* The transform of two elements, in place. */
ALWAYS_INLINE void transform2(struct fft_element *a, struct fft_element *b) {
    const struct fft_element before = *a;
    *a = (struct fft_element){before.re + b->re, before.im + b->im};
    *b = (struct fft_element){before.re - b->re, before.im - b->im};
}

/* Of four, in place. */
ALWAYS_INLINE void transform4(struct fft_element z[4]) {
    transform2(&z[0], &z[2]);
    transform2(&z[1], &z[3]);
    z[3] = times_i(z[3]);
    transform2(&z[0], &z[1]);
    transform2(&z[2], &z[3]);
    const struct fft_element output_2 = z[1];
    z[1] = z[2];
    z[2] = output_2;
}

/* Of 4 or 8, in place but for the order: output k is in z[leg_of(radix, k)]. */
ALWAYS_INLINE void transform_short(int radix, struct fft_element z[8]) {
    const double sqrt_half = 0.70710678118654752440;
    if (radix == 8) {
        for (int leg = 0; leg < 4; leg++)
            transform2(&z[leg], &z[leg + 4]);
        z[5] = times(z[5], (struct fft_root){sqrt_half, sqrt_half});
        z[6] = times_i(z[6]);
        z[7] = times(z[7], (struct fft_root){-sqrt_half, sqrt_half});
        transform4(&z[4]);
    }
    transform4(&z[0]);
}

ALWAYS_INLINE int leg_of(int radix, int k) { return radix == 8 ? k % 2 * 4 + k / 2 : k; }

/* Asks for an element that is soon to be read or written. */
ALWAYS_INLINE void fetch(const struct fft_element *element) {
    __builtin_prefetch(&element->re);
    __builtin_prefetch(&element->im);
}

/* A stage with roots, of a block of `length` elements; those written are consecutive. */
ALWAYS_INLINE void combine(int radix, size_t length, const struct fft_root *root,
                           struct fft_lines from, struct fft_element *to) {
    const size_t butterflies = length / (size_t)radix;
    const size_t from_leg = fft_offset(from, butterflies);
    for (size_t j = 0; j < butterflies; j++) {
        const struct fft_element *in = from.first + fft_offset(from, j);
        if (from.next != 0)
            for (int leg = 0; leg < radix; leg++)
                fetch(in + (size_t)leg * from_leg + from.next);
        struct fft_element z[8];
        for (int leg = 0; leg < radix; leg++)
            z[leg] = in[(size_t)leg * from_leg];
        transform_short(radix, z);
        to[j] = z[0];
        for (int k = 1; k < radix; k++)
            to[j + (size_t)k * butterflies] = times(z[leg_of(radix, k)], *root++);
    }
}

typedef void store_function(lanes *to, lanes value);

ALWAYS_INLINE void store(lanes *to, lanes value) { *to = value; }

/* With narrower vectors an element is less than a cache line, and parts of lines stream slowly. */
ALWAYS_INLINE void store_streamed(lanes *to, lanes value) {
#if defined(__AVX512F__)
    _mm512_stream_pd((double *)to, value);
#elif defined(__AVX__)
    _mm256_stream_pd((double *)to, value);
#else
    *to = value;
#endif
}

void fft_stream_end(void) {
#if defined(__AVX__)
    _mm_sfence();
#endif
}

/* The last stage, without roots: puts the outputs of the blocks of 8 elements in order. */
ALWAYS_INLINE void finish(bool streamed, const struct fft_plan *plan,
                          const struct fft_element *from, struct fft_lines to) {
    store_function *put = streamed ? store_streamed : store;
    const size_t butterflies = plan->length / 8;
    const size_t to_leg = fft_offset(to, butterflies);
    for (size_t k = 0; k < butterflies; k++) {
        const struct fft_element *in = from + plan->last_from[k];
        struct fft_element *out = to.first + fft_offset(to, k);
        if (!streamed && k + 1 < butterflies) {
            const struct fft_element *next = to.first + fft_offset(to, k + 1);
            for (int leg = 0; leg < 8; leg++)
                fetch(next + (size_t)leg * to_leg);
        }
        struct fft_element z[8];
        for (int leg = 0; leg < 8; leg++)
            z[leg] = in[leg];
        transform_short(8, z);
        for (int leg = 0; leg < 8; leg++) {
            put(&out[(size_t)leg * to_leg].re, z[leg_of(8, leg)].re);
            put(&out[(size_t)leg * to_leg].im, z[leg_of(8, leg)].im);
        }
    }
}

void fft_transform(const struct fft_plan *plan, struct fft_lines from, struct fft_element *work,
                   struct fft_lines to) {
    const struct fft_root *root = plan->roots;
    size_t length = plan->length;
    for (int stage = 0; length > 8; stage++) {
        const size_t radix = radix_of(plan, stage);
        for (size_t first = 0; first < plan->length; first += length) {
            const struct fft_lines in = stage == 0 ? from : fft_equidistant(work + first, 1);
            if (radix == 4)
                combine(4, length, root, in, work + first);
            else
                combine(8, length, root, in, work + first);
        }
        length /= radix;
        root += (radix - 1) * length;
    }
    if (to.streamed)
        finish(true, plan, work, to);
    else
        finish(false, plan, work, to);
}

/* exp(2 pi i numerator / denominator), by an angle of at most an eighth of a turn. */
static struct fft_root root_of_unity(size_t numerator, size_t denominator) {
    const size_t eighths = 8 * (numerator % denominator);
    const size_t octant = eighths / denominator, beyond = eighths % denominator;
    const size_t to_axis = octant % 2 == 0 ? beyond : denominator - beyond;
    const double angle = M_PI / 4.0 * (double)to_axis / (double)denominator;
    const double longer = cos(angle), shorter = sin(angle);
    const bool steep = octant % 4 == 1 || octant % 4 == 2; /* nearer to the imaginary axis */
    const double re = steep ? shorter : longer, im = steep ? longer : shorter;
    return (struct fft_root){octant >= 2 && octant < 6 ? -re : re, octant >= 4 ? -im : im};
}

void fft_plan_make(struct fft_plan *plan, size_t length) {
    const int bits = __builtin_ctzll(length);
    const int stages = (bits + 2) / 3;
    plan->length = length;
    plan->fours = 3 * stages - bits;

    struct fft_root *root = plan->roots;
    for (int stage = 0; length > 8; stage++) {
        const size_t radix = radix_of(plan, stage);
        for (size_t j = 0; j < length / radix; j++)
            for (size_t k = 1; k < radix; k++)
                *root++ = root_of_unity(j * k, length);
        length /= radix;
    }

    for (size_t k = 0; k < plan->length / 8; k++) {
        size_t block = 0, digits = k;
        for (int stage = 0; stage < stages - 1; stage++) {
            const size_t radix = radix_of(plan, stage);
            block = block * radix + digits % radix;
            digits /= radix;
        }
        plan->last_from[k] = 8 * block;
    }
}

void fft_transpose(const struct fft_element from[LANES], struct fft_element to[LANES]) {
    lanes re[LANES], im[LANES];
    for (int i = 0; i < LANES; i++) {
        re[i] = from[i].re;
        im[i] = from[i].im;
    }
    lanes_transpose(re);
    lanes_transpose(im);
    for (int i = 0; i < LANES; i++)
        to[i] = (struct fft_element){re[i], im[i]};
}
