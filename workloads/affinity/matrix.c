/*
 * The report's Matrix: C = A B by blocks of 64 x 64, class S being its 512 x 512. Threads take rows
 * of blocks of C as they come to them, from a count that is the only thing they share, so that they
 * hardly ever wait for one another.
 *
 * A block is contiguous: A and C by strips of rows, B by strips of columns (strips.h). Three blocks
 * are 96 KiB, and a block of A stays in the first cache while it goes along a row of blocks of B.
 *
 * The elements are small integers, so that every product is exact in whatever order it is summed,
 * and verification asks for equality.
 */
#include "memory.h"
#include "program.h"
#include "random.h"
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

/* Elements are integers from -LARGEST to LARGEST. */
enum { LARGEST = 8 };

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

/* Adds the product of some strips of a block of A and a strip of one of B to their part of C. */
ALWAYS_INLINE void add_product(const int strips, const double *a, const double *b, double *c) {
    strips_multiply(strips, a, STRIP_ELEMENTS, b, BLOCK, c, STRIP_ELEMENTS);
}

/* Adds the product of a block of A and a block of B to a block of C. */
static void multiply_blocks(const double *a, const double *b, double *c) {
    for (int column = 0; column < BLOCK_STRIPS; column++) {
        const double *strip = b + column * STRIP_ELEMENTS;
        double *columns = c + column * LANES * LANES;
        int row = 0;
        for (; row + STRIPS_AT_ONCE <= BLOCK_STRIPS; row += STRIPS_AT_ONCE)
            add_product(STRIPS_AT_ONCE, a + row * STRIP_ELEMENTS, strip,
                        columns + row * STRIP_ELEMENTS);
        /* 8, 16 and 32 strips leave 2, 1 and 2. */
        if (BLOCK_STRIPS % STRIPS_AT_ONCE != 0)
            add_product(BLOCK_STRIPS % STRIPS_AT_ONCE, a + row * STRIP_ELEMENTS, strip,
                        columns + row * STRIP_ELEMENTS);
    }
}

/* A row of blocks of C, each block of A being used up before the next one is fetched. */
static void multiply_row(const struct matrices *matrices, size_t row) {
    for (size_t k = 0; k < matrices->blocks; k++)
        for (size_t column = 0; column < matrices->blocks; column++)
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

/*
 * The rows in which A (B v) is not C v for a random v (Freivalds, IFIP Congress 1977). With
 * integers up to 2^15 in v, a wrong row is missed in one of 2^16 cases, and no number that occurs
 * exceeds 2^53: 2^15 x 8 x 2^14 for B v, and 8 x 2^14 times that. `v`, `bv`, `abv` and `cv` have
 * an element a row.
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
            const double *b = block_of(matrices, matrices->b, row / BLOCK, k / BLOCK);
            const double *c = block_of(matrices, matrices->c, row / BLOCK, k / BLOCK);
            bv[row] += b[in_strips(k % BLOCK, row % BLOCK)] * v[k];
            cv[row] += c[in_strips(row % BLOCK, k % BLOCK)] * v[k];
        }
    }
#pragma omp parallel for schedule(static)
    for (size_t row = 0; row < size; row++) {
        abv[row] = 0.0;
        for (size_t k = 0; k < size; k++)
            abv[row] += block_of(matrices, matrices->a, row / BLOCK,
                                 k / BLOCK)[in_strips(row % BLOCK, k % BLOCK)] *
                        bv[k];
    }
    size_t wrong = 0;
    for (size_t row = 0; row < size; row++)
        wrong += !(abv[row] == cv[row]);
    return wrong;
}

/* The elements of a row of C that are not the sum over k of A times B. */
static size_t wrong_in_row(const struct matrices *matrices, size_t row) {
    const size_t size = matrices->blocks * BLOCK;
    size_t wrong = 0;
    for (size_t column = 0; column < size; column++) {
        double exact = 0.0;
        for (size_t k = 0; k < size; k++)
            exact += block_of(matrices, matrices->a, row / BLOCK,
                              k / BLOCK)[in_strips(row % BLOCK, k % BLOCK)] *
                     block_of(matrices, matrices->b, k / BLOCK,
                              column / BLOCK)[in_strips(column % BLOCK, k % BLOCK)];
        const double *c = block_of(matrices, matrices->c, row / BLOCK, column / BLOCK);
        wrong += !(c[in_strips(row % BLOCK, column % BLOCK)] == exact);
    }
    return wrong;
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
    size_t wrong = 0;
    for (size_t i = 0; i < COMPARED_ROWS; i++)
        wrong += wrong_in_row(&matrices, i * (size - 1) / (COMPARED_ROWS - 1));
    result_check_below(result, "wrong elements", (double)wrong, 0.0);
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

/* A row of blocks each. */
static uint64_t useful_threads(size_t class) { return (uint64_t)CLASS_BLOCKS[class]; }

const struct program PROGRAM = {
    .name = "affinity-matrix",
    .title = "matrix product by blocks of 64 x 64",
    .bytes_needed = bytes_needed,
    .useful_threads = useful_threads,
    .run = run,
};
