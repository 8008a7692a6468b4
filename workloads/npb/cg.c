/*
 * CG, "conjugate gradient", of the NAS Parallel Benchmarks: the smallest eigenvalue of a sparse
 * symmetric matrix with a random pattern, by inverse iteration whose systems are solved by 25
 * conjugate-gradient steps (Bailey et al., RNR-94-007, section 2.3). It measures irregular access:
 * reading the matrix takes bandwidth, and the gathered vector takes latency.
 *
 * Of every symmetric pair of entries one is kept and used for both, which halves what is read: the
 * one in the row from which the other column is less than half way round, so that rows stay about
 * equally long. What a thread's rows add to other threads' rows goes into sums of its own, and each
 * thread then adds up its range of all these sums.
 *
 * One team of threads lives from the assembly to the last iteration. Each thread owns a range of
 * rows with about equal work, assembles them into arrays of its own, and owns the same range of
 * every vector, so that what it uses most was first touched by itself.
 */
#include "memory.h"
#include "program.h"
#include "random.h"
#include "team.h"

#include <math.h>
#include <omp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { CG_STEPS = 25 };

static const uint64_t SEED = 314159265;
static const double TOLERANCE = 1.0e-10;
static const double RCOND = 0.1; /* the reciprocal of the condition number, about */

struct class {
    uint32_t order;            /* rows of the matrix */
    uint32_t drawn_per_vector; /* nonzer: entries drawn for each of the sparse vectors */
    int iterations;
    double shift;
    double zeta; /* the official value */
};

static const struct class CLASSES[] = {
#include "cg_classes.inc"
};

/*
 * The sparse vectors w_i of which the matrix is made:
 *     A = sum_i omega^i w_i w_i^T + (RCOND - shift) I,  omega = RCOND^(1/order),  i from 0.
 * Entry e belongs to w_i with i = e / per_vector. `of_row[row_start[j]..row_start[j + 1]]` are the
 * entries at position j: the vectors that add to row j.
 */
struct generators {
    uint32_t order, per_vector;
    uint32_t *position;
    double *value;
    uint32_t *row_start;
    uint32_t *of_row;
};

/* What a thread keeps of the rows first..last-1: one entry of each symmetric pair, compressed. */
struct rows {
    uint32_t first, last;
    size_t *start; /* of each row and of the end, from 0 */
    uint32_t *column;
    double *value;
    double *diagonal;
    size_t nonzeros; /* of the matrix that these stand for */
};

typedef double pair __attribute__((vector_size(2 * sizeof(double))));

/* What a product reads of a column, and the sum of what it has added to it. */
typedef pair column;

/* Sums in parallel: their additions have to wait for one another. */
enum { CHAINS = 4 };

/* An entry's share in its row's sum, and its mirror's in the column's. */
static inline void multiply_entry(column *at, double value, pair give, pair *sum) {
    const pair both = {value, value};
    *sum += both * *at;
    *at += both * give;
}

/* The vectors of the iteration, `order` elements each. */
struct vectors {
    double *x, *z, *p, *q, *r;
    column **columns; /* for each thread what its rows read of p and add to q */
};

static uint32_t per_vector(const struct class *class) { return class->drawn_per_vector + 1; }

static void generators_allocate(struct generators *g, const struct class *class) {
    const size_t entries = (size_t) class->order * per_vector(class);
    *g = (struct generators){
        .order = class->order,
        .per_vector = per_vector(class),
        .position = memory_pages(entries, sizeof *g->position),
        .value = memory_pages(entries, sizeof *g->value),
        .row_start = memory_pages((size_t) class->order + 1, sizeof *g->row_start),
        .of_row = memory_pages(entries, sizeof *g->of_row),
    };
}

/*
 * Draws all vectors from one stream, in which rejections make every position depend on what came
 * before: the only sequential part. Every vector has drawn_per_vector entries at different drawn
 * positions, and 0.5 at i; if i was drawn, that entry stays with the value 0, which adds nothing.
 */
static void generators_draw(struct generators *g) {
    int log2_positions = 0; /* positions are drawn below the next power of two */
    while (UINT32_C(1) << log2_positions < g->order)
        log2_positions++;

    random_state state = random_seed(SEED) * RANDOM_MULTIPLIER; /* the first number is not used */
    for (uint32_t i = 0; i < g->order; i++) {
        uint32_t *position = g->position + (size_t)i * g->per_vector;
        double *value = g->value + (size_t)i * g->per_vector;
        uint32_t drawn = 0;
        while (drawn < g->per_vector - 1) {
            const random_state value_state = state * RANDOM_MULTIPLIER;
            state = value_state * RANDOM_MULTIPLIER;
            const uint32_t candidate = (uint32_t)(state >> (64 - log2_positions));
            bool usable = candidate < g->order;
            for (uint32_t k = 0; k < drawn; k++)
                usable &= position[k] != candidate;
            if (usable) {
                position[drawn] = candidate;
                value[drawn] = candidate == i ? 0.0 : random_uniform(value_state);
                drawn++;
            }
        }
        position[drawn] = i;
        value[drawn] = 0.5;
    }
}

/* Sorts the entries by position (a counting sort, so that they stay in the order of the vectors).
 */
static void generators_index_rows(struct generators *g) {
    const uint32_t entries = g->order * g->per_vector;
    memset(g->row_start, 0, ((size_t)g->order + 1) * sizeof *g->row_start);
    for (uint32_t e = 0; e < entries; e++)
        g->row_start[g->position[e]] += 1;
    uint32_t end = 0;
    for (uint32_t j = 0; j <= g->order; j++)
        g->row_start[j] = end += g->row_start[j];
    for (uint32_t e = entries; e-- > 0;)
        g->of_row[--g->row_start[g->position[e]]] = e;
}

/* The first row with so large a share of the matrix entries before it. */
static uint32_t row_at(const struct generators *g, uint32_t share, uint32_t shares) {
    const uint64_t target = (uint64_t)g->row_start[g->order] * share / shares;
    uint32_t low = 0, high = g->order;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (g->row_start[middle] < target)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/*
 * The first row of the given thread: all have about as many matrix entries, and no thread is
 * without a row as long as there are rows.
 */
static uint32_t first_row(const struct generators *g, uint32_t thread, uint32_t threads) {
    const uint32_t workers = threads < g->order ? threads : g->order;
    uint32_t row = 0;
    for (uint32_t before = 1; before <= thread && before <= workers; before++) {
        const uint32_t balanced = row_at(g, before, workers), next = row + 1;
        row = balanced > next ? balanced : next;
    }
    const uint32_t left = thread < workers ? workers - thread : 0; /* a row for each of these */
    return row < g->order - left ? row : g->order - left;
}

/*
 * One row under construction: values by column, and which columns are in use, as a bitmap with a
 * second bitmap of its words that are not zero. Reading it out gives rising columns unsorted.
 */
struct row_builder {
    double *value;
    uint64_t *used, *used_words;
    size_t used_words_length;
};

/* False when memory is short. */
static bool row_builder_allocate(struct row_builder *b, uint32_t order) {
    const size_t words = order / (64 * 64) + 1;
    *b = (struct row_builder){
        .value = memory_pages(order, sizeof *b->value),
        .used = memory_pages(words * 64, sizeof *b->used),
        .used_words = memory_pages(words, sizeof *b->used_words),
        .used_words_length = words,
    };
    if (!b->value || !b->used || !b->used_words)
        return false;
    memset(b->value, 0, order * sizeof *b->value);
    memset(b->used, 0, words * 64 * sizeof *b->used);
    memset(b->used_words, 0, words * sizeof *b->used_words);
    return true;
}

static inline void row_builder_add(struct row_builder *b, uint32_t column, double value) {
    b->value[column] += value;
    b->used[column / 64] |= UINT64_C(1) << column % 64;
    b->used_words[column / (64 * 64)] |= UINT64_C(1) << column / 64 % 64;
}

/* Writes the row out, clears it, and returns how many entries it had. */
static size_t row_builder_finish(struct row_builder *b, uint32_t *column, double *value) {
    size_t length = 0;
    for (size_t i = 0; i < b->used_words_length; i++) {
        for (uint64_t words = b->used_words[i]; words != 0; words &= words - 1) {
            const size_t word = i * 64 + (size_t)__builtin_ctzll(words);
            for (uint64_t bits = b->used[word]; bits != 0; bits &= bits - 1) {
                const uint32_t c = (uint32_t)(word * 64 + (size_t)__builtin_ctzll(bits));
                column[length] = c;
                value[length] = b->value[c];
                b->value[c] = 0.0;
                length++;
            }
            b->used[word] = 0;
        }
        b->used_words[i] = 0;
    }
    return length;
}

/* Whether the pair of entries (j, column) and (column, j) is kept in row j. */
static inline bool keeps(uint32_t order, uint32_t j, uint32_t column) {
    const uint32_t ahead = column > j ? column - j : column + order - j;
    return 2 * ahead < order || (2 * ahead == order && j < column);
}

/*
 * Allocates room for the rows as if no two entries fell together; the caller touches it first.
 * False when memory is short.
 */
static bool rows_allocate(struct rows *rows, const struct generators *g, uint32_t first,
                          uint32_t last) {
    size_t most = 0;
    for (uint32_t j = first; j < last; j++)
        for (uint32_t k = g->row_start[j]; k < g->row_start[j + 1]; k++) {
            const uint32_t *position = g->position + g->of_row[k] / g->per_vector * g->per_vector;
            for (uint32_t e = 0; e < g->per_vector; e++)
                most += keeps(g->order, j, position[e]);
        }
    *rows = (struct rows){
        .first = first,
        .last = last,
        .start = memory_pages(last - first + 1, sizeof *rows->start),
        .column = memory_pages(most, sizeof *rows->column),
        .value = memory_pages(most, sizeof *rows->value),
        .diagonal = memory_pages(last - first, sizeof *rows->diagonal),
    };
    return rows->start && rows->column && rows->value && rows->diagonal;
}

static void rows_assemble(struct rows *rows, struct row_builder *builder,
                          const struct generators *g, double shift) {
    const double log_omega = log(RCOND) / g->order;
    size_t end = 0;
    for (uint32_t j = rows->first; j < rows->last; j++) {
        rows->start[j - rows->first] = end;
        double diagonal = RCOND - shift;
        for (uint32_t k = g->row_start[j]; k < g->row_start[j + 1]; k++) {
            const uint32_t i = g->of_row[k] / g->per_vector;
            const size_t w = (size_t)i * g->per_vector;
            const double of_vector = g->value[g->of_row[k]];
            const double scale = exp(log_omega * i) * of_vector;
            diagonal += scale * of_vector;
            for (uint32_t e = 0; e < g->per_vector; e++)
                if (keeps(g->order, j, g->position[w + e]))
                    row_builder_add(builder, g->position[w + e], scale * g->value[w + e]);
        }
        rows->diagonal[j - rows->first] = diagonal;
        end += row_builder_finish(builder, rows->column + end, rows->value + end);
    }
    rows->start[rows->last - rows->first] = end;
    rows->nonzeros = 2 * end + (rows->last - rows->first);
}

/*
 * Sets the columns' sums to what the thread's own rows, and the columns that mirror them, add to
 * A from. A column's element of `from` and its sum stand side by side: a pair of entries touches
 * one cache line, whose latency is what the product takes longest for.
 */
static void multiply_partly(const struct rows *rows, uint32_t order, const double *restrict from,
                            column *restrict columns) {
    const uint32_t *restrict index = rows->column;
    const double *restrict value = rows->value;
    for (uint32_t c = 0; c < order; c++)
        columns[c] = (column){from[c], 0.0};
    for (uint32_t j = rows->first; j < rows->last; j++) {
        const size_t row = j - rows->first, end = rows->start[row + 1];
        const pair give = {0.0, from[j]};
        pair sums[CHAINS] = {0};
        size_t k = rows->start[row];
        for (; k + CHAINS <= end; k += CHAINS)
#pragma GCC unroll 4
            for (size_t chain = 0; chain < CHAINS; chain++)
                multiply_entry(&columns[index[k + chain]], value[k + chain], give, &sums[chain]);
        for (; k < end; k++)
            multiply_entry(&columns[index[k]], value[k], give, &sums[0]);
        const pair sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
        columns[j][1] += sum[0] + rows->diagonal[row] * from[j];
    }
}

/* q = A from, complete for the thread's own range. */
static void multiply(struct member *me, const struct rows *rows, const struct vectors *v,
                     uint32_t order, const double *from) {
    multiply_partly(rows, order, from, v->columns[me->thread]);
    team_barrier(me->team);
    double *restrict q = v->q;
    for (uint32_t j = rows->first; j < rows->last; j++)
        q[j] = 0.0;
    for (int thread = 0; thread < me->team->threads; thread++) {
        const column *restrict columns = v->columns[thread];
        for (uint32_t j = rows->first; j < rows->last; j++)
            q[j] += columns[j][1];
    }
}

static double dot(const struct rows *rows, const double *a, const double *b) {
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (uint32_t j = rows->first; j < rows->last; j++)
        sum += a[j] * b[j];
    return sum;
}

/* One outer iteration: solves A z = x, sets x = z / |z|, and returns zeta and |x - A z|. */
static double iterate(struct member *me, const struct rows *rows, const struct vectors *v,
                      const struct class *class, double *residual_norm) {
    double *restrict x = v->x, *restrict z = v->z, *restrict p = v->p;
    double *restrict q = v->q, *restrict r = v->r;
    for (uint32_t j = rows->first; j < rows->last; j++) {
        z[j] = 0.0;
        r[j] = p[j] = x[j];
    }
    double rho = team_sum(me, dot(rows, r, r));
    for (int step = 0; step < CG_STEPS; step++) {
        multiply(me, rows, v, class->order, p);
        const double alpha = rho / team_sum(me, dot(rows, p, q));
        double mine = 0.0;
#pragma omp simd reduction(+ : mine)
        for (uint32_t j = rows->first; j < rows->last; j++) {
            r[j] -= alpha * q[j];
            mine += r[j] * r[j];
        }
        const double rho_before = rho;
        rho = team_sum(me, mine);
        const double beta = rho / rho_before;
        for (uint32_t j = rows->first; j < rows->last; j++) {
            z[j] += alpha * p[j];
            p[j] = r[j] + beta * p[j];
        }
        team_barrier(me->team);
    }

    multiply(me, rows, v, class->order, z);
    double square = 0.0;
#pragma omp simd reduction(+ : square)
    for (uint32_t j = rows->first; j < rows->last; j++)
        square += (x[j] - q[j]) * (x[j] - q[j]);
    *residual_norm = sqrt(team_sum(me, square));
    const double zeta = class->shift + 1.0 / team_sum(me, dot(rows, x, z));
    const double z_norm = sqrt(team_sum(me, dot(rows, z, z)));
    for (uint32_t j = rows->first; j < rows->last; j++)
        x[j] = z[j] / z_norm;
    return zeta;
}

/* One run: what the threads share, and what comes out. */
struct problem {
    const struct class *class;
    struct generators generators;
    struct vectors vectors;
    struct result *result;
    _Atomic uint64_t nonzeros;
    double assembled_at;        /* written by the first thread */
    double zeta, residual_norm; /* likewise */
};

static void problem_allocate(struct problem *problem, const struct class *class,
                             struct result *result) {
    const size_t order = class->order;
    struct vectors *v = &problem->vectors;
    *problem = (struct problem){.class = class, .result = result};
    *v = (struct vectors){
        .x = memory_pages(order, sizeof *v->x),
        .z = memory_pages(order, sizeof *v->z),
        .p = memory_pages(order, sizeof *v->p),
        .q = memory_pages(order, sizeof *v->q),
        .r = memory_pages(order, sizeof *v->r),
        .columns = memory_pages((size_t)omp_get_max_threads(), sizeof *v->columns),
    };
    generators_allocate(&problem->generators, class);
}

static void fill_with_ones(const struct rows *rows, double *x) {
    for (uint32_t j = rows->first; j < rows->last; j++)
        x[j] = 1.0;
}

/* A thread's part of the iterations: one untimed to warm up, then all again from the start. */
static void solve(struct problem *problem, struct member *me, const struct rows *rows) {
    const struct class *class = problem->class;
    const struct vectors *v = &problem->vectors;
    double zeta = NAN, residual_norm = NAN;
    fill_with_ones(rows, v->x);
    team_barrier(me->team);
    iterate(me, rows, v, class, &residual_norm);

    fill_with_ones(rows, v->x);
    team_barrier(me->team);
    const double start = omp_get_wtime();
    for (int i = 0; i < class->iterations; i++)
        zeta = iterate(me, rows, v, class, &residual_norm);
    team_barrier(me->team);
    result_time(problem->result, me, start);
    if (me->thread == 0) {
        problem->zeta = zeta;
        problem->residual_norm = residual_norm;
    }
}

/* A thread's whole part: its rows of the matrix, then the iterations. */
static void assemble_and_solve(struct member *me, void *shared) {
    struct problem *problem = shared;
    const struct generators *g = &problem->generators;
    const uint32_t thread = (uint32_t)me->thread, threads = (uint32_t)me->team->threads;
    const uint32_t first = first_row(g, thread, threads);
    const uint32_t last = first_row(g, thread + 1, threads);
    struct rows rows;
    struct row_builder builder;
    column *columns = problem->vectors.columns[me->thread] =
        memory_pages(g->order, sizeof *columns);
    if (columns != NULL && rows_allocate(&rows, g, first, last) &&
        row_builder_allocate(&builder, g->order)) {
        rows_assemble(&rows, &builder, g, problem->class->shift);
        problem->nonzeros += rows.nonzeros;
    }
    team_barrier(me->team);
    if (memory_refused())
        return;
    if (me->thread == 0)
        problem->assembled_at = omp_get_wtime();
    solve(problem, me, &rows);
    result_worked(problem->result, rows.first < rows.last);
}

static void run(size_t class_index, struct result *result) {
    const struct class *class = &CLASSES[class_index];
    const double start = omp_get_wtime();
    struct problem problem;
    problem_allocate(&problem, class, result);
    if (memory_refused())
        return;
    generators_draw(&problem.generators);
    generators_index_rows(&problem.generators);
    team_run(assemble_and_solve, &problem);
    if (memory_refused())
        return;
    /* NPB's count: it takes a row to have nonzer (nonzer + 1) entries. */
    const double row_entries = class->drawn_per_vector * (class->drawn_per_vector + 1.0);
    result->operations = 2.0 * class->iterations * class->order *
                         (3.0 + row_entries + CG_STEPS * (5.0 + row_entries) + 3.0);
    printf("matrix entries: %llu\nmatrix made in: %.3f s\nresidual norm: %.3e\n",
           (unsigned long long)problem.nonzeros, problem.assembled_at - start,
           problem.residual_norm);
    result_check(result, "zeta", problem.zeta, class->zeta, TOLERANCE);
}

static uint64_t bytes_needed(size_t class_index, int threads) {
    const struct class *class = &CLASSES[class_index];
    const uint64_t order = class->order, entries = order * per_vector(class);
    const uint64_t generators = entries * (4 + 8 + 4) + order * 4;
    const uint64_t kept = entries * (per_vector(class) - 1) / 2;
    const uint64_t matrix = kept * (4 + 8) + order * (8 + 8);
    const uint64_t a_thread = order * 16 + order * 8 + order / 8; /* columns, row builder */
    return generators + matrix + 5 * order * 8 + (uint64_t)threads * a_thread;
}

static uint64_t useful_threads(size_t class) { return CLASSES[class].order; }

const struct program PROGRAM = {
    .name = "npb-cg",
    .title = "conjugate gradient with a random sparse matrix (NAS Parallel Benchmarks)",
    .bytes_needed = bytes_needed,
    .useful_threads = useful_threads,
    .run = run,
};
