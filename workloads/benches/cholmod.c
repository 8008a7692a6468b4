/*
 * Times the factorisation of affinity:cholesky beside CHOLMOD's of the same matrix, each in the
 * order that it chooses: both in one process, on one thread, in turn. Each round is a line with the
 * seconds of both.
 */
#include "factor.h"
#include "memory.h"
#include "ordering.h"
#include "program.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <suitesparse/cholmod.h>

static struct factor *ours;
static bool worked;

static void compute(struct member *me, void *shared) {
    (void)shared;
    worked = factor_compute(ours, me);
}

/* The matrix as CHOLMOD takes it: its lower triangle, by columns. */
static cholmod_sparse *as_cholmod(const struct sparse *matrix, cholmod_common *common) {
    const size_t count = matrix->begin[matrix->rows];
    cholmod_sparse *copy = cholmod_allocate_sparse(matrix->rows, matrix->rows, count, true, true,
                                                   -1, CHOLMOD_REAL, common);
    if (copy == NULL)
        return NULL;
    for (size_t i = 0; i <= matrix->rows; i++)
        ((int *)copy->p)[i] = (int)matrix->begin[i];
    for (size_t at = 0; at < count; at++) {
        ((int *)copy->i)[at] = matrix->row[at];
        ((double *)copy->x)[at] = matrix->value[at];
    }
    return copy;
}

/* The grid's scale and the rounds are the arguments. */
int main(int argc, char **argv) {
    const int scale = argc > 1 ? atoi(argv[1]) : 1, rounds = argc > 2 ? atoi(argv[2]) : 5;
    const struct grid grid = {40 * scale, 50 * scale, 5};
    struct sparse matrix;
    struct supernodes supernodes;
    int32_t *order =
        memory_pages((size_t)(grid.width * grid.height * grid.unknowns), sizeof *order);
    if (memory_refused() || !sparse_make_grid(&matrix, grid, 314159265))
        return 1;
    order_grid(grid, order);
    if (!supernodes_find(&supernodes, &matrix, order))
        return 1;
    ours = factor_create(&supernodes);

    cholmod_common common;
    cholmod_start(&common);
    common.supernodal = CHOLMOD_SUPERNODAL;
    cholmod_sparse *theirs = as_cholmod(&matrix, &common);
    cholmod_factor *factor = cholmod_analyze(theirs, &common);
    if (memory_refused() || factor == NULL)
        return 1;
    printf("operations: %.0f\ntheirs: %.0f\n", supernodes.operations, common.fl);
    for (int round = -1; round < rounds; round++) {
        double start = omp_get_wtime();
        team_run(compute, NULL);
        const double our_seconds = omp_get_wtime() - start;
        start = omp_get_wtime();
        cholmod_factorize(theirs, factor, &common);
        const double their_seconds = omp_get_wtime() - start;
        if (common.status != CHOLMOD_OK || !worked)
            return 1;
        if (round >= 0) /* the one before them touches all memory */
            printf("round: %.9f %.9f\n", our_seconds, their_seconds);
        factor_reset(ours);
    }
    return 0;
}
