/*
 * MATRIX: C = A B for square matrices, by blocks: one task a block of C, which needs no other task
 * and goes along a row of blocks of A and a column of blocks of B. As many tasks as there are
 * blocks can run at once, from the first moment to the last.
 *
 * Storage. A block is contiguous, and kept in the order in which products read it: blocks of A as
 * strips of rows, column by column; those of B and C as strips of columns, row by row. Two blocks
 * of A and B and one of C fit into any L2; a strip of each of A and B fits into L1.
 *
 * The elements are small integers, so that every product is exact in whatever order it is summed,
 * and verification asks for equality.
 */
#include "lanes.h"
#include "memory.h"
#include "program.h"
#include "random.h"
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

/* Elements are integers from -LARGEST to LARGEST. */
enum { LARGEST = 8 };

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
static double a_at(const struct matrices *matrices, size_t row, size_t column) {
    const double *block = block_of(matrices, matrices->a, row / BLOCK, column / BLOCK);
    return block[in_rows(row % BLOCK, column % BLOCK)];
}

static double b_or_c_at(const struct matrices *matrices, double *b_or_c, size_t row,
                        size_t column) {
    const double *block = block_of(matrices, b_or_c, row / BLOCK, column / BLOCK);
    return block[in_columns(row % BLOCK, column % BLOCK)];
}

/* An integer from -LARGEST to LARGEST. */
static double draw(random_state *state) {
    *state *= RANDOM_MULTIPLIER;
    return (double)(int)(random_uniform(*state) * (2 * LARGEST + 1)) - LARGEST;
}

/* The blocks of A, B and C at one place; they are first touched here. */
static void fill(const struct matrices *matrices, size_t row, size_t column) {
    const size_t place = row * matrices->blocks + column;
    random_state state = random_seed(SEED) * random_jump(2 * place * BLOCK_ELEMENTS);
    double *a = block_of(matrices, matrices->a, row, column);
    double *b = block_of(matrices, matrices->b, row, column);
    double *c = block_of(matrices, matrices->c, row, column);
    for (int i = 0; i < BLOCK_ELEMENTS; i++) {
        a[i] = draw(&state);
        b[i] = draw(&state);
        c[i] = 0.0;
    }
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

/* The elements of a row of C that are not what A and B make; `exact` has room for the row. */
static size_t wrong_in_row(const struct matrices *matrices, size_t row, double *exact) {
    const size_t size = matrices->blocks * BLOCK;
    for (size_t column = 0; column < size; column++)
        exact[column] = 0.0;
    for (size_t k = 0; k < size; k++) {
        const double a = a_at(matrices, row, k);
        for (size_t column = 0; column < size; column += STRIP_COLUMNS) {
            const double *b = block_of(matrices, matrices->b, k / BLOCK, column / BLOCK) +
                              in_columns(k % BLOCK, column % BLOCK);
            for (int j = 0; j < STRIP_COLUMNS; j++)
                exact[column + (size_t)j] += a * b[j];
        }
    }
    size_t wrong = 0;
    for (size_t column = 0; column < size; column++)
        wrong += !(b_or_c_at(matrices, matrices->c, row, column) == exact[column]);
    return wrong;
}

/* The wrong elements of the rows that are looked at: all of class S, else random ones. */
static size_t wrong_elements(const struct matrices *matrices, double *exact) {
    const size_t size = matrices->blocks * BLOCK;
    const bool all = matrices->blocks == (size_t)CLASS_BLOCKS[0];
    random_state state = random_seed(SEED + 2);
    size_t wrong = 0;
    for (size_t i = 0; i < (all ? size : SAMPLED_ROWS); i++) {
        state *= RANDOM_MULTIPLIER;
        const size_t row = all ? i : (size_t)(random_uniform(state) * (double)size);
        wrong += wrong_in_row(matrices, row, exact);
    }
    return wrong;
}

/*
 * The rows in which A (B v) is not C v for a random v (Freivalds, IFIP Congress 1977). With
 * integers up to 2^15 in v, a wrong row is missed in one of 2^16 cases, and no number that occurs
 * exceeds 2^53. `v`, `bv`, `abv` and `cv` have an element a row.
 */
static size_t wrong_rows(const struct matrices *matrices, double *v, double *bv, double *abv,
                         double *cv) {
    const size_t size = matrices->blocks * BLOCK;
    random_state state = random_seed(SEED + 4);
    for (size_t i = 0; i < size; i++) {
        state *= RANDOM_MULTIPLIER;
        v[i] = (double)(int)(65536.0 * random_uniform(state)) - 32768.0;
    }
#pragma omp parallel for schedule(static)
    for (size_t row = 0; row < size; row++) {
        bv[row] = cv[row] = 0.0;
        for (size_t k = 0; k < size; k++) {
            bv[row] += b_or_c_at(matrices, matrices->b, row, k) * v[k];
            cv[row] += b_or_c_at(matrices, matrices->c, row, k) * v[k];
        }
    }
#pragma omp parallel for schedule(static)
    for (size_t row = 0; row < size; row++) {
        abv[row] = 0.0;
        for (size_t k = 0; k < size; k++)
            abv[row] += a_at(matrices, row, k) * bv[k];
    }
    size_t wrong = 0;
    for (size_t row = 0; row < size; row++)
        wrong += !(abv[row] == cv[row]);
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
    result_check_below(result, "wrong elements", (double)wrong_elements(&matrices, vectors), 0.0);
    result_check_below(result, "rows that multiply a vector wrongly",
                       (double)wrong_rows(&matrices, vectors, vectors + size, vectors + 2 * size,
                                          vectors + 3 * size),
                       0.0);
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
