/*
 * What this machine gives as built here: multiply-adds a second from registers, and bytes a second
 * read from memory, with as many threads as OMP_NUM_THREADS says. The best of some passes.
 */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

typedef double lanes __attribute__((vector_size(64)));

enum { CHAINS = 12, LANES = 8, PASSES = 5 };
static const long MULTIPLY_ADDS = 20 * 1000 * 1000;
static const size_t DOUBLES_A_THREAD = 1 << 26; /* half a GiB: no cache holds it */

/* Independent chains, more than latency times throughput of any processor's units. */
static double multiply_add(double factor) {
    lanes chain[CHAINS];
    for (int c = 0; c < CHAINS; c++)
        chain[c] = (lanes){0} + c;
    for (long i = 0; i < MULTIPLY_ADDS; i++)
#pragma GCC unroll 12
        for (int c = 0; c < CHAINS; c++)
            chain[c] = chain[c] * factor + 1.0;
    double sum = 0;
    for (int c = 0; c < CHAINS; c++)
        sum += chain[c][c % LANES];
    return sum;
}

static double read_all(const double *memory) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < DOUBLES_A_THREAD; i++)
        sum += memory[i];
    return sum;
}

int main(void) {
    const size_t doubles = DOUBLES_A_THREAD * (size_t)omp_get_max_threads();
    double *memory = malloc(doubles * sizeof *memory);
    if (memory == NULL)
        return EXIT_FAILURE;
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < doubles; i++)
        memory[i] = 1.0;

    double gflop_per_s = 0, gb_per_s = 0, sum = 0;
    for (int pass = 0; pass < PASSES; pass++) {
        double start = omp_get_wtime();
#pragma omp parallel reduction(+ : sum)
        sum += multiply_add(0.5 + 1e-9 * pass);
        const double flops = 2.0 * LANES * CHAINS * (double)MULTIPLY_ADDS * omp_get_max_threads();
        const double flop_rate = flops / (omp_get_wtime() - start) * 1e-9;
        gflop_per_s = flop_rate > gflop_per_s ? flop_rate : gflop_per_s;

        start = omp_get_wtime();
#pragma omp parallel reduction(+ : sum)
        sum += read_all(memory + DOUBLES_A_THREAD * (size_t)omp_get_thread_num());
        const double byte_rate = (double)(doubles * sizeof *memory) / (omp_get_wtime() - start);
        gb_per_s = byte_rate * 1e-9 > gb_per_s ? byte_rate * 1e-9 : gb_per_s;
    }
    printf("%.0f Gflop/s, %.1f GB/s\n", gflop_per_s, gb_per_s);
    free(memory);
    return sum > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
