/*
 * The problem that FT solves: diffusion on a periodic grid, and the sums by which its solution is
 * known (Bailey et al., RNR-94-007, section 2.4).
 */
#pragma once

#include "fft.h"
#include "program.h"
#include "random.h"

#include <complex.h>
#include <stddef.h>
#include <stdint.h>

enum { DIFFUSION_STEPS = 25, CHECKSUM_POINTS = 1024 }; /* steps: at most */

struct class {
    size_t nx, ny, nz;
    int steps;
    double checksum[DIFFUSION_STEPS][2]; /* real and imaginary parts */
};

extern const struct class DIFFUSION_CLASSES[];

/* The longest line of the grid. */
size_t diffusion_longest(const struct class *class);

/* Random states of neighbouring lines along x, and the generator's powers along a line. */
typedef uint64_t state_vector __attribute__((vector_size(LANES * sizeof(uint64_t))));

struct diffusion_powers {
    uint64_t re[FFT_LONGEST], im[FFT_LONGEST];
};

void diffusion_powers_make(struct diffusion_powers *powers, size_t nx);

/* The states in front of LANES lines along x, of which the first is number `line`. */
state_vector diffusion_states(const struct class *class, size_t line);

/* x 2^-46 of every lane; exact, by putting x behind the exponent of 1. */
static inline lanes diffusion_uniform(state_vector state) {
    return (lanes)(state >> 12 | UINT64_C(0x3ff0000000000000)) - 1.0;
}

/* Those lines' initial data. */
static inline void diffusion_begin_lines(const struct diffusion_powers *powers, size_t nx,
                                         state_vector state, struct fft_element *lines) {
    for (size_t x = 0; x < nx; x++)
        lines[x] = (struct fft_element){.re = diffusion_uniform(state * powers->re[x]),
                                        .im = diffusion_uniform(state * powers->im[x])};
}

/* By how much each wavenumber of a direction of n points decays within `steps` steps. */
void diffusion_decay(double *decay, size_t n, int steps);

/* Where point number `j` of the checksum is, from 1 to CHECKSUM_POINTS. */
struct diffusion_point {
    size_t x, y, z;
};

struct diffusion_point diffusion_point(const struct class *class, size_t j);

/* The checksum of the points in their order. */
double complex diffusion_checksum(const struct class *class, const double complex *points);

/* Operations as NPB counts them, and the comparison with the official checksums. */
void diffusion_check(const struct class *class, const double complex *checksums,
                     struct result *result);

/*
 * Threads that a plane can do with on any machine: each takes some of its lines along x and along
 * y, as many at a time as the widest vectors hold.
 */
size_t diffusion_threads_a_plane(const struct class *class);
