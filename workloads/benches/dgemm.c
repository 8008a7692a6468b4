/*
 * The product of two square matrices by OpenBLAS, as affinity:matrix makes it: one product, of
 * integers, after all memory was touched. The argument is the number of rows.
 */
#include <cblas.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    const size_t size = argc > 1 ? (size_t)atoi(argv[1]) : 512;
    double *a = malloc(size * size * sizeof *a), *b = malloc(size * size * sizeof *b);
    double *c = malloc(size * size * sizeof *c);
    if (a == NULL || b == NULL || c == NULL)
        return 1;
    for (size_t i = 0; i < size * size; i++) {
        a[i] = (double)(i * 7 % 17) - 8.0;
        b[i] = (double)(i * 11 % 17) - 8.0;
        c[i] = 0.0;
    }
    const int n = (int)size;
    /* Its own buffers come with the first product. */
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, 64, 64, 64, 1.0, a, n, b, n, 0.0, c, n);
    const double start = omp_get_wtime();
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1.0, a, n, b, n, 0.0, c, n);
    printf("seconds: %.9f\n", omp_get_wtime() - start);
    return c[0] == c[0] ? 0 : 1;
}
