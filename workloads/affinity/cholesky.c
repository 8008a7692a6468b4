/*
 * The report's Cholesky: A = L L^T of a sparse, symmetric matrix, whose supernodes are cut into
 * panels that threads take from a queue. Class S has the report's 10,000 rows and 200,000 elements
 * below the diagonal: a grid of 40 x 50 nodes with 5 unknowns each. Larger classes have grids that
 * are as many times wider and higher. A file's matrix is ordered by minimum degree.
 *
 * What is timed is the factorisation; the order, the tree and the structure are found before.
 *
 * Small matrices of five structures are factored in every run, too, and compared element by element
 * with what a dense factorisation makes of them.
 */
#include "factor.h"
#include "memory.h"
#include "ordering.h"
#include "program.h"
#include "random.h"
#include "sparse.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

/* Nodes of class S, and unknowns of each. */
enum { WIDTH = 40, HEIGHT = 50, UNKNOWNS = 5 };

/* How many times as wide and high each class is; panels that threads can begin with, operations of
   a factorisation, and what it takes, all as runs print or have them. */
static const struct {
    int scale, leaves;
    double operations, mebibytes;
} CLASSES[] = {
    {1, 283, 160498275.0, 64.0},        {2, 1109, 1425135900.0, 225.0},
    {3, 2597, 5036982050.0, 500.0},     {5, 7915, 24195910075.0, 1430.0},
    {8, 17489, 101455289475.0, 3800.0}, {12, 41399, 347740195850.0, 8800.0},
};

static const uint64_t SEED = 314159265;

/* What the residual may be, relative to what was computed with. */
static const double RESIDUAL_BOUND = 1e-12;

/* A factorisation, which all threads make. */
struct task {
    struct factor *factor;
    struct result *result;
    bool timed;
};

static void factorise(struct member *me, void *shared) {
    const struct task *task = shared;
    team_barrier(me->team);
    const double start = omp_get_wtime();
    const bool worked = factor_compute(task->factor, me);
    team_barrier(me->team);
    if (task->timed) {
        result_time(task->result, me, start);
        result_worked(task->result, worked);
    }
}

/* |A x - b| / (|A| |x| + |b|), largest elements and row sums, for a random b; NaN without memory.
 */
static double residual(const struct factor *factor, const struct sparse *matrix) {
    const size_t rows = matrix->rows;
    double *b = memory_pages(rows, sizeof *b), *x = memory_pages(rows, sizeof *x);
    double *ax = memory_pages(rows, sizeof *ax);
    if (memory_refused())
        return NAN;
    random_state state = random_seed(SEED + 2);
    double largest = 0.0, largest_b = 0.0, largest_x = 0.0;
    for (size_t i = 0; i < rows; i++) {
        state *= RANDOM_MULTIPLIER;
        b[i] = random_symmetric(state);
    }
    factor_solve(factor, b, x);
    const double norm = sparse_norm(matrix, ax);
    sparse_multiply(matrix, x, ax);
    for (size_t i = 0; i < rows; i++) {
        const double off = fabs(ax[i] - b[i]);
        largest = off <= largest ? largest : off; /* a NaN stays */
        largest_b = fmax(largest_b, fabs(b[i]));
        largest_x = fmax(largest_x, fabs(x[i]));
    }
    return largest / (norm * largest_x + largest_b);
}

/* How far the factor is from the one that a dense factorisation makes, in the same order, relative
   to its largest element; `dense` has room for the whole matrix. */
static double distance_to_dense(const struct factor *factor, const struct supernodes *all,
                                double *dense) {
    const size_t rows = all->rows;
    double largest = 0.0, off = 0.0;
    memset(dense, 0, rows * rows * sizeof *dense);
    for (size_t c = 0; c < rows; c++)
        for (size_t at = all->matrix.begin[c]; at < all->matrix.begin[c + 1]; at++)
            dense[(size_t)all->matrix.row[at] * rows + c] = all->matrix.value[at];
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j <= i; j++) {
            double sum = dense[i * rows + j];
            for (size_t k = 0; k < j; k++)
                sum -= dense[i * rows + k] * dense[j * rows + k];
            dense[i * rows + j] = i == j ? sqrt(sum) : sum / dense[j * rows + j];
            const double difference =
                fabs(dense[i * rows + j] - factor_at(factor, (int32_t)i, (int32_t)j));
            largest = fmax(largest, fabs(dense[i * rows + j]));
            off = difference <= off ? off : difference;
        }
    return off / largest;
}

/* Small matrices of each structure; grids are ordered by dissection, too. */
static bool check_structures(struct result *result) {
    static const char *const NAMES[STRUCTURES] = {"grid", "random", "arrow", "banded", "blocks"};
    for (int i = 0; i <= STRUCTURES; i++) {
        const enum structure structure = i < STRUCTURES ? (enum structure)i : GRID;
        struct sparse matrix;
        struct supernodes supernodes;
        if (!sparse_make(&matrix, structure, SEED))
            return false;
        int32_t *order = memory_pages(matrix.rows, sizeof *order);
        double *dense = memory_pages(matrix.rows * matrix.rows, sizeof *dense);
        if (memory_refused())
            return false;
        if (i == STRUCTURES)
            order_grid(SMALL_GRID, order);
        else if (!order_by_degree(&matrix, order))
            return false;
        if (!supernodes_find(&supernodes, &matrix, order))
            return false;
        struct task task = {.factor = factor_create(&supernodes), .result = result};
        team_run(factorise, &task);
        if (memory_refused())
            return false;
        char name[64];
        snprintf(name, sizeof name, "%s%s, residual", NAMES[structure],
                 i == STRUCTURES ? " by dissection" : "");
        result_check_below(result, name, residual(task.factor, &matrix), RESIDUAL_BOUND);
        snprintf(name, sizeof name, "%s%s, distance to the dense factor", NAMES[structure],
                 i == STRUCTURES ? " by dissection" : "");
        result_check_below(result, name, distance_to_dense(task.factor, &supernodes, dense), 1e-13);
    }
    return true;
}

/* Factors a matrix whose supernodes are known, and checks what comes out. */
static void factorise_and_check(const struct sparse *matrix, const struct supernodes *supernodes,
                                struct result *result) {
    printf("rows: %zu\nelements below the diagonal: %zu\nelements of the factor: %.0f\n"
           "kept as dense blocks: %.0f\nsupernodes: %d\npanels: %d\nupdates between supernodes: "
           "%zu\npanels that depend on no other: %d\n",
           matrix->rows, sparse_below_diagonal(matrix), supernodes->entries, supernodes->stored,
           supernodes->count, supernodes->panel_count, supernodes->update_count,
           supernodes->leaves);
    struct task task = {factor_create(supernodes), result, true};
    team_run(factorise, &task);
    if (memory_refused())
        return;
    result->operations = supernodes->operations;
    double pivot = 0.0;
    const int32_t failed = factor_failed_row(task.factor, &pivot);
    if (failed >= 0) {
        result_fail(result, "the matrix isn't positive definite: the pivot of column %d is %g",
                    failed + 1, pivot);
        return;
    }
    result_check_below(result, "residual", residual(task.factor, matrix), RESIDUAL_BOUND);
    if (!result->only_own)
        check_structures(result);
}

static void run(size_t class, struct result *result) {
    const int scale = CLASSES[class].scale;
    const struct grid grid = {WIDTH * scale, HEIGHT * scale, UNKNOWNS};
    struct sparse matrix;
    struct supernodes supernodes;
    int32_t *order =
        memory_pages((size_t)(grid.width * grid.height * grid.unknowns), sizeof *order);
    if (memory_refused() || !sparse_make_grid(&matrix, grid, SEED))
        return;
    order_grid(grid, order);
    if (!supernodes_find(&supernodes, &matrix, order))
        return;
    factorise_and_check(&matrix, &supernodes, result);
    result_check(result, "operations", supernodes.operations, CLASSES[class].operations, 0.0);
    result_check(result, "panels to begin with", supernodes.leaves, CLASSES[class].leaves, 0.0);
}

/* A file's matrix, by minimum degree. */
static void run_file(const char *path, struct result *result) {
    struct sparse matrix;
    struct supernodes supernodes;
    char why[256];
    if (!sparse_read(&matrix, path, why, sizeof why)) {
        result_refuse(result, "%s: %s", path, why);
        return;
    }
    int32_t *order = memory_pages(matrix.rows, sizeof *order);
    if (memory_refused() || !order_by_degree(&matrix, order) ||
        !supernodes_find(&supernodes, &matrix, order))
        return;
    const struct memory_left left = memory_left(1);
    if (factor_bytes(&supernodes) > (double)left.bytes) {
        result_fail(result, "%s: its factor needs %.0f MiB of memory but %s leaves %.0f MiB", path,
                    ceil(factor_bytes(&supernodes) / (1024.0 * 1024.0)), left.limit,
                    floor((double)left.bytes / (1024.0 * 1024.0)));
        return;
    }
    factorise_and_check(&matrix, &supernodes, result);
}

static uint64_t bytes_needed(size_t class, int threads) {
    const uint64_t rows =
        (uint64_t)(WIDTH * HEIGHT * UNKNOWNS * CLASSES[class].scale * CLASSES[class].scale);
    return (uint64_t)(CLASSES[class].mebibytes * 1024.0 * 1024.0) + 16 * rows * (uint64_t)threads;
}

static uint64_t useful_threads(size_t class) { return (uint64_t)CLASSES[class].leaves; }

const struct program PROGRAM = {
    .name = "affinity-cholesky",
    .title = "Cholesky factorisation of a sparse matrix by supernodes",
    .bytes_needed = bytes_needed,
    .useful_threads = useful_threads,
    .checks_more = true,
    .run = run,
    .run_file = run_file,
};
