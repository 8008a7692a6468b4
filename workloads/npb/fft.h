/*
 * Complex Fourier transforms of LANES lines side by side, one in each lane of the vectors, so
 * that nothing has to move from lane to lane. Lengths are powers of two.
 */
#pragma once

#include "lanes.h"

#include <stdbool.h>
#include <stddef.h>

/* One element of each of the lines. */
struct fft_element {
    lanes re, im;
};

struct fft_root {
    double re, im;
};

enum { FFT_LONGEST = 2048 };

/*
 * A length as a product of short ones: `fours` stages of radix 4, then stages of radix 8. The roots
 * of unity between the stages are in the order of use, fewer than the length has.
 */
struct fft_plan {
    size_t length;
    int fours;
    struct fft_root roots[FFT_LONGEST];
    size_t last_from[FFT_LONGEST / 8]; /* where in the work space the last stage finds output k */
};

/*
 * Where LANES lines are: their element k is first[(k / LANES) * block_step +
 * (k % LANES) * step]. Equidistant elements have block_step = LANES * step.
 */
struct fft_lines {
    struct fft_element *first;
    size_t step, block_step;
    size_t next;   /* elements from these lines to those used next, fetched meanwhile; 0: none */
    bool streamed; /* written around the caches, as nothing needs them soon */
};

static inline struct fft_lines fft_equidistant(struct fft_element *first, size_t step) {
    return (struct fft_lines){.first = first, .step = step, .block_step = LANES * step};
}

static inline size_t fft_offset(struct fft_lines lines, size_t k) {
    return k / LANES * lines.block_step + k % LANES * lines.step;
}

/*
 * Makes the plan for `length`, a power of two from 32 to FFT_LONGEST. Lines that are not
 * equidistant need 8 LANES elements or more.
 */
void fft_plan_make(struct fft_plan *plan, size_t length);

/*
 * to[k] = sum over j of exp(2 pi i j k / length) from[j]. `work` has room for `length` elements; it
 * may be where `from` is. So may `to`, if not in `work`.
 */
void fft_transform(const struct fft_plan *plan, struct fft_lines from, struct fft_element *work,
                   struct fft_lines to);

/* Lane i of element j becomes lane j of element i. */
void fft_transpose(const struct fft_element from[LANES], struct fft_element to[LANES]);

/* Until this, other threads may not see what was streamed, whatever the threads do to wait. */
void fft_stream_end(void);
