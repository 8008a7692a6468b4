/*
 * The report's Matrix: C = A B by blocks of 64 x 64, class S being its 512 x 512. Threads take rows
 * of blocks of C as they come to them, from a count that is the only thing they share, so that they
 * hardly ever wait for one another.
 *
 * A block is contiguous: A and C by strips of rows, B by strips of columns (strips.h). Three blocks
 * are 96 KiB, and fit into any second cache; three strips of A stay in the first one.
 */
#include "integers.h"
#include "memory.h"
#include "program.h"
#include "strips.h"
#include "team.h"

#include <omp.h>
#include <stdatomic.h>
#include <stdio.h>

/* Rows and columns of a block. */
enum { BLOCK = 64, BLOCK_ELEMENTS = BLOCK * BLOCK, BLOCK_STRIPS = BLOCK / LANES };

/* Elements of a strip of a block. */
enum { STRIP_ELEMENTS = BLOCK * LANES };

/* Blocks in a row of blocks, of each class: 512, 1,024 ... 16,384 rows. */
static const int CLASS_BLOCKS[] = {8, 16, 32, 64, 128, 256};

static const uint64_t SEED = 314159265;

struct matrices {
    size_t blocks;     /* in a row of blocks */
    double *a, *b, *c; /* blocks row by row */
    _Atomic size_t next_row;
    struct result *result;
};

static double *block_of(const struct matrices *matrices, double *matrix, size_t row,
                        size_t column) {
    return matrix + (row * matrices->blocks + column) * BLOCK_ELEMENTS;
}

/* Where a block in strips of rows keeps its element; one in strips of columns swaps the two. */
static size_t in_strips(size_t row, size_t column) {
    return row / LANES * STRIP_ELEMENTS + column * LANES + row % LANES;
}

/* The elements of the whole matrices. */
static double a_at(const void *shared, size_t row, size_t column) {
    const struct matrices *matrices = shared;
    return block_of(matrices, matrices->a, row / BLOCK,
                    column / BLOCK)[in_strips(row % BLOCK, column % BLOCK)];
}

static double b_at(const void *shared, size_t row, size_t column) {
    const struct matrices *matrices = shared;
    return block_of(matrices, matrices->b, row / BLOCK,
                    column / BLOCK)[in_strips(column % BLOCK, row % BLOCK)];
}

static double c_at(const void *shared, size_t row, size_t column) {
    const struct matrices *matrices = shared;
    return block_of(matrices, matrices->c, row / BLOCK,
                    column / BLOCK)[in_strips(row % BLOCK, column % BLOCK)];
}

/* The blocks of A, B and C at one place; they are first touched here. */
static void fill(const struct matrices *matrices, size_t row, size_t column) {
    integers_fill(SEED, row * matrices->blocks + column, BLOCK_ELEMENTS,
                  block_of(matrices, matrices->a, row, column),
                  block_of(matrices, matrices->b, row, column),
                  block_of(matrices, matrices->c, row, column));
}

/*
 * Adds the product of some strips of a block of A and all of one of B to their part of C. The
 * strips of A stay in the first cache, those of B pass by: fewer bytes than the other way round.
 */
ALWAYS_INLINE void multiply_strips(const int strips, const double *a, const double *b, double *c) {
    for (int column = 0; column < BLOCK_STRIPS; column++)
        strips_multiply(strips, 1.0, a, STRIP_ELEMENTS, b + column * STRIP_ELEMENTS, BLOCK,
                        c + column * LANES * LANES, STRIP_ELEMENTS);
}

/* Adds the product of a block of A and a block of B to a block of C. */
static void multiply_blocks(const double *a, const double *b, double *c) {
    int row = 0;
    /* In threes, and at last by two or two and two: one alone would keep half of the units idle. */
    for (; BLOCK_STRIPS - row > 4; row += STRIPS_AT_ONCE)
        multiply_strips(STRIPS_AT_ONCE, a + row * STRIP_ELEMENTS, b, c + row * STRIP_ELEMENTS);
    for (; row < BLOCK_STRIPS; row += 2)
        multiply_strips(2, a + row * STRIP_ELEMENTS, b, c + row * STRIP_ELEMENTS);
}

/* A row of blocks of C. Each of them stays in the second cache until it is done. */
static void multiply_row(const struct matrices *matrices, size_t row) {
    for (size_t column = 0; column < matrices->blocks; column++)
        for (size_t k = 0; k < matrices->blocks; k++)
            multiply_blocks(block_of(matrices, matrices->a, row, k),
                            block_of(matrices, matrices->b, k, column),
                            block_of(matrices, matrices->c, row, column));
}

/*
 * Fills a thread's share and multiplies. The first row is the thread's own, so that each has work
 * if there is enough; the others go to whoever comes first.
 */
static void multiply(struct member *me, void *shared) {
    struct matrices *matrices = shared;
    const size_t blocks = matrices->blocks, threads = (size_t)me->team->threads;
    const size_t thread = (size_t)me->thread;
    for (size_t row = thread; row < blocks; row += threads)
        for (size_t column = 0; column < blocks; column++)
            fill(matrices, row, column);
    team_barrier(me->team);
    const double start = omp_get_wtime();
    for (size_t row = thread; row < blocks;
         row = threads + atomic_fetch_add_explicit(&matrices->next_row, 1, memory_order_relaxed))
        multiply_row(matrices, row);
    team_barrier(me->team);
    result_time(matrices->result, me, start);
    result_worked(matrices->result, thread < blocks);
}

/* How many rows, spread evenly, are compared element by element. */
enum { COMPARED_ROWS = 16 };

static void run(size_t class, struct result *result) {
    const size_t blocks = (size_t)CLASS_BLOCKS[class], size = blocks * BLOCK;
    struct matrices matrices = {
        .blocks = blocks,
        .a = memory_pages(size * size, sizeof(double)),
        .b = memory_pages(size * size, sizeof(double)),
        .c = memory_pages(size * size, sizeof(double)),
        .result = result,
    };
    double *vectors = memory_pages(4 * size, sizeof *vectors);
    team_run(multiply, &matrices);
    if (memory_refused())
        return;
    result->operations = 2.0 * (double)size * (double)size * (double)size;
    printf("matrices: %zu x %zu, by blocks of %d\n", size, size, BLOCK);
    const struct integers product = {size, a_at, b_at, c_at, &matrices};
    size_t wrong = 0;
    for (size_t i = 0; i < (result->only_own ? 1 : COMPARED_ROWS); i++)
        wrong += integers_wrong_in_row(&product, i * (size - 1) / (COMPARED_ROWS - 1), vectors);
    result_check_below(result, "wrong elements", (double)wrong, 0.0);
    result_check_below(result, "rows that multiply a vector wrongly",
                       (double)integers_wrong_rows(&product, SEED + 4, vectors), 0.0);
}

static uint64_t bytes_needed(size_t class, int threads) {
    (void)threads;
    const uint64_t size = (uint64_t)CLASS_BLOCKS[class] * BLOCK;
    return (3 * size + 4) * size * sizeof(double);
}

/* A row of blocks each. */
static uint64_t useful_threads(size_t class) { return (uint64_t)CLASS_BLOCKS[class]; }

const struct program PROGRAM = {
    .name = "affinity-matrix",
    .title = "matrix product by blocks of 64 x 64",
    .bytes_needed = bytes_needed,
    .useful_threads = useful_threads,
    .checks_more = true,
    .run = run,
};
