#include "diffusion.h"

#include "memory.h"

#include <math.h>
#include <stdio.h>

static const uint64_t SEED = 314159265;
static const double TOLERANCE = 1.0e-12;
static const double ALPHA = 1.0e-6; /* diffusivity */

const struct class DIFFUSION_CLASSES[] = {
#include "ft_classes.inc"
};

size_t diffusion_longest(const struct class *class) {
    const size_t xy = class->nx > class->ny ? class->nx : class->ny;
    return xy > class->nz ? xy : class->nz;
}

void diffusion_powers_make(struct diffusion_powers *powers, size_t nx) {
    uint64_t power = 1;
    for (size_t x = 0; x < nx; x++) {
        powers->re[x] = power *= RANDOM_MULTIPLIER;
        powers->im[x] = power *= RANDOM_MULTIPLIER;
    }
}

/* There are two numbers to a point. */
state_vector diffusion_states(const struct class *class, size_t line) {
    state_vector states;
    for (size_t lane = 0; lane < LANES; lane++)
        states[lane] = random_seed(SEED) * random_jump(2 * class->nx * (line + lane));
    return states;
}

void diffusion_decay(double *decay, size_t n, int steps) {
    for (size_t k = 0; k < n; k++) {
        const double wavenumber = k < n / 2 ? (double)k : (double)k - (double)n;
        decay[k] = exp(-4.0 * ALPHA * M_PI * M_PI * wavenumber * wavenumber * steps);
    }
}

struct diffusion_point diffusion_point(const struct class *class, size_t j) {
    return (struct diffusion_point){
        .x = j % class->nx, .y = 3 * j % class->ny, .z = 5 * j % class->nz};
}

double complex diffusion_checksum(const struct class *class, const double complex *points) {
    double complex sum = 0;
    for (size_t j = 0; j < CHECKSUM_POINTS; j++)
        sum += points[j];
    return sum / (double)(class->nx * class->ny * class->nz);
}

void diffusion_check(const struct class *class, const double complex *checksums,
                     struct result *result) {
    /* NPB's count: it takes 14.8157 + 7.19641 ln N a point up to the spectrum. */
    const double n = (double)(class->nx * class->ny * class->nz);
    result->operations =
        n * (14.8157 + 7.19641 * log(n) + (5.23518 + 7.21113 * log(n)) * class->steps);
    for (int i = 0; i < class->steps && !memory_refused(); i++) {
        char name[32];
        snprintf(name, sizeof name, "checksum %d", i + 1);
        result_check_complex(result, name, checksums[i],
                             class->checksum[i][0] + class->checksum[i][1] * I, TOLERANCE);
    }
}

size_t diffusion_threads_a_plane(const struct class *class) {
    enum { WIDEST_LANES = 8 };
    return (class->nx < class->ny ? class->nx : class->ny) / WIDEST_LANES;
}
