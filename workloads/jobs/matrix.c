/*
 * MATRIX: C = A B for square matrices, by blocks: one task a block of C, which needs no other task
 * and goes along a row of blocks of A and a column of blocks of B. As many tasks as there are
 * blocks can run at once, from the first moment to the last.
 *
 * Storage. A block is contiguous, and kept in the order in which products read it: blocks of A as
 * strips of rows, column by column; those of B and C as strips of columns, row by row. Two blocks
 * of A and B and one of C fit into any L2; a strip of each of A and B fits into L1.
 */
#include "integers.h"
#include "lanes.h"
#include "memory.h"
#include "program.h"
#include "stage.h"
#include "team.h"

#include <omp.h>
#include <stdio.h>

/* A micro-kernel's part of C stays in registers: 24 of 32 or 12 of 16. */
#if defined(__AVX512F__)
enum { STRIP_ROWS = 8, STRIP_LANES = 3 };
#else
enum { STRIP_ROWS = 6, STRIP_LANES = 2 };
#endif
enum { STRIP_COLUMNS = STRIP_LANES * LANES };

/* Rows and columns of a block: a multiple of all the above. */
enum { BLOCK = 120, BLOCK_ELEMENTS = BLOCK * BLOCK };

/* Blocks in a row of blocks, of each class. */
static const int CLASS_BLOCKS[] = {4, 12, 24, 48, 96, 192};

static const uint64_t SEED = 314159265;

/* Class S is compared as a whole, larger ones in this many rows and by vectors. */
enum { SAMPLED_ROWS = 16 };

struct matrices {
    size_t blocks;     /* in a row of blocks */
    double *a, *b, *c; /* blocks row by row */
    struct stage *stage;
    struct result *result;
};

static double *block_of(const struct matrices *matrices, double *matrix, size_t row,
                        size_t column) {
    return matrix + (row * matrices->blocks + column) * BLOCK_ELEMENTS;
}

/* Where a block keeps its element: of a strip of rows, or of a strip of columns. */
static size_t in_rows(size_t row, size_t column) {
    return row / STRIP_ROWS * STRIP_ROWS * BLOCK + column * STRIP_ROWS + row % STRIP_ROWS;
}

static size_t in_columns(size_t row, size_t column) {
    return column / STRIP_COLUMNS * STRIP_COLUMNS * BLOCK + row * STRIP_COLUMNS +
           column % STRIP_COLUMNS;
}

/* The elements of the whole matrices. */
static double a_at(const void *shared, size_t row, size_t column) {
    const struct matrices *matrices = shared;
    return block_of(matrices, matrices->a, row / BLOCK,
                    column / BLOCK)[in_rows(row % BLOCK, column % BLOCK)];
}

static double b_at(const void *shared, size_t row, size_t column) {
    const struct matrices *matrices = shared;
    return block_of(matrices, matrices->b, row / BLOCK,
                    column / BLOCK)[in_columns(row % BLOCK, column % BLOCK)];
}

static double c_at(const void *shared, size_t row, size_t column) {
    const struct matrices *matrices = shared;
    return block_of(matrices, matrices->c, row / BLOCK,
                    column / BLOCK)[in_columns(row % BLOCK, column % BLOCK)];
}

/* The blocks of A, B and C at one place; they are first touched here. */
static void fill(const struct matrices *matrices, size_t row, size_t column) {
    integers_fill(SEED, row * matrices->blocks + column, BLOCK_ELEMENTS,
                  block_of(matrices, matrices->a, row, column),
                  block_of(matrices, matrices->b, row, column),
                  block_of(matrices, matrices->c, row, column));
}

/* Adds the product of a strip of A and a strip of B to their part of C. */
static inline void multiply_strips(const double *restrict a, const double *restrict b,
                                   double *restrict c) {
    lanes sum[STRIP_ROWS][STRIP_LANES];
#pragma GCC unroll 8
    for (int i = 0; i < STRIP_ROWS; i++)
#pragma GCC unroll 3
        for (int j = 0; j < STRIP_LANES; j++)
            sum[i][j] = lanes_load(c + i * STRIP_COLUMNS + j * LANES);
    for (int k = 0; k < BLOCK; k++) {
        lanes row[STRIP_LANES];
#pragma GCC unroll 3
        for (int j = 0; j < STRIP_LANES; j++)
            row[j] = lanes_load(b + k * STRIP_COLUMNS + j * LANES);
#pragma GCC unroll 8
        for (int i = 0; i < STRIP_ROWS; i++)
#pragma GCC unroll 3
            for (int j = 0; j < STRIP_LANES; j++)
                sum[i][j] += a[k * STRIP_ROWS + i] * row[j];
    }
#pragma GCC unroll 8
    for (int i = 0; i < STRIP_ROWS; i++)
#pragma GCC unroll 3
        for (int j = 0; j < STRIP_LANES; j++)
            lanes_store(c + i * STRIP_COLUMNS + j * LANES, sum[i][j]);
}

/* Adds the product of a block of A and a block of B to a block of C. */
static void multiply_blocks(const double *a, const double *b, double *c) {
    for (int column = 0; column < BLOCK; column += STRIP_COLUMNS)
        for (int row = 0; row < BLOCK; row += STRIP_ROWS)
            multiply_strips(a + row * BLOCK, b + column * BLOCK,
                            c + column * BLOCK + row * STRIP_COLUMNS);
}

/* One task: a block of C. */
static void multiply_row_by_column(const struct matrices *matrices, size_t row, size_t column) {
    double *c = block_of(matrices, matrices->c, row, column);
    for (size_t k = 0; k < matrices->blocks; k++)
        multiply_blocks(block_of(matrices, matrices->a, row, k),
                        block_of(matrices, matrices->b, k, column), c);
}

/* Fills and multiplies a thread's blocks: as many as others have, one after the other. */
static void multiply_share(struct member *me, void *shared) {
    const struct matrices *matrices = shared;
    const size_t blocks = matrices->blocks, threads = (size_t)me->team->threads;
    const size_t first = blocks * blocks * (size_t)me->thread / threads;
    const size_t end = blocks * blocks * ((size_t)me->thread + 1) / threads;
    for (size_t i = first; i < end; i++)
        fill(matrices, i / blocks, i % blocks);
    team_barrier(me->team);
    const double start = omp_get_wtime();
    stage_begin(matrices->stage);
    for (size_t i = first; i < end; i++) {
        multiply_row_by_column(matrices, i / blocks, i % blocks);
        stage_task(matrices->stage);
    }
    team_barrier(me->team);
    result_time(matrices->result, me, start);
    result_worked(matrices->result, first < end);
}

/* The wrong elements of the rows that are looked at: all of class S, else random ones. */
static size_t wrong_elements(const struct integers *product, double *exact) {
    const size_t size = product->size;
    const bool all = size == (size_t)CLASS_BLOCKS[0] * BLOCK;
    random_state state = random_seed(SEED + 2);
    size_t wrong = 0;
    for (size_t i = 0; i < (all ? size : SAMPLED_ROWS); i++) {
        state *= RANDOM_MULTIPLIER;
        const size_t row = all ? i : (size_t)(random_uniform(state) * (double)size);
        wrong += integers_wrong_in_row(product, row, exact);
    }
    return wrong;
}

/*
 * The blocks of C as tasks. A task takes the row of A block by block, and so does the next one, but
 * for the last in a row; it comes back to its block of C for each of them. A block of A is gone
 * over by every strip of B, but at once: any cache that holds two blocks fetches it once.
 */
static struct stage blocks_as_stage(size_t blocks, bool timed) {
    const double count = (double)blocks, block_bytes = BLOCK_ELEMENTS * sizeof(double);
    return (struct stage){
        .name = "blocks",
        .timed = timed,
        .rounds = 1,
        .order = IN_PASSES,
        .passes = 1.0,
        .parts = {{"row of A", count * block_bytes, true, 1.0 - 1.0 / count},
                  {"block of C", block_bytes, true, 0.0},
                  {"column of B", count * block_bytes, false, 0.0}},
    };
}

static void run(size_t class, struct result *result) {
    const size_t blocks = (size_t)CLASS_BLOCKS[class], size = blocks * BLOCK;
    struct stage stage = blocks_as_stage(blocks, result->stages != NULL);
    struct matrices matrices = {
        .blocks = blocks,
        .a = memory_pages(size * size, sizeof(double)),
        .b = memory_pages(size * size, sizeof(double)),
        .c = memory_pages(size * size, sizeof(double)),
        .stage = &stage,
        .result = result,
    };
    double *vectors = memory_pages(4 * size, sizeof *vectors);
    team_run(multiply_share, &matrices);
    if (memory_refused())
        return;
    stage_write(&stage, result->stages);
    result->operations = 2.0 * (double)size * (double)size * (double)size;
    printf("matrices: %zu x %zu\ntasks: %zu\n", size, size, blocks * blocks);
    const struct integers product = {size, a_at, b_at, c_at, &matrices};
    result_check_below(result, "wrong elements", (double)wrong_elements(&product, vectors), 0.0);
    result_check_below(result, "rows that multiply a vector wrongly",
                       (double)integers_wrong_rows(&product, SEED + 4, vectors), 0.0);
}

static uint64_t bytes_needed(size_t class, int threads) {
    (void)threads;
    const uint64_t size = (uint64_t)CLASS_BLOCKS[class] * BLOCK;
    return (3 * size + 4) * size * sizeof(double);
}

/* A block of C each. */
static uint64_t useful_threads(size_t class) {
    return (uint64_t)CLASS_BLOCKS[class] * (uint64_t)CLASS_BLOCKS[class];
}

const struct program PROGRAM = {
    .name = "matrix",
    .title = "matrix product by blocks",
    .has_graph = true,
    .bytes_needed = bytes_needed,
    .useful_threads = useful_threads,
    .run = run,
};
