#include "factor.h"

#include "memory.h"
#include "strips.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

/*
 * A supernode is kept in strips: first its diagonal block, then the rows below, both filled up with
 * rows of 0; the columns are filled up in the same way.
 */
struct block {
    size_t width, padded; /* columns, and what they are filled up to */
    size_t below;         /* rows below the diagonal block */
    size_t strips;
    double *value;
};

/* Where a panel is: nobody has it, it is in the queue or with a thread, or all is done. */
enum state { IDLE, AT_WORK, DONE };

/* How far a panel has come: of the updates by others, and then of the panels on its left. */
struct course {
    size_t taken;
    enum state state;
};

/* What a thread needs for its updates. */
struct scratch {
    int32_t *row_of; /* where the target's supernode keeps each row of the matrix */
    int32_t target;  /* for which `row_of` is, or -1 */
    size_t *offset;  /* of the source's rows in the target's supernode */
};

struct factor {
    const struct supernodes *all;
    struct block *blocks;
    struct course *courses; /* of panels */

    /* The queue, whose lock also guards the courses of panels that no thread has. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int32_t *heap; /* panels that can go on, as a heap whose top comes first in order */
    int32_t queued, left;
    int32_t *leaves; /* panels that can go on from the start */
    int32_t failed_column;
    double failed_pivot;
};

static size_t pad(size_t count) { return (count + LANES - 1) / LANES * LANES; }

static struct block block_shape(const struct supernodes *all, int32_t s) {
    const size_t width = (size_t)supernode_width(all, s), below = (size_t)supernode_below(all, s);
    return (struct block){width, pad(width), below, (pad(width) + pad(below)) / LANES, NULL};
}

/* A block's elements from a strip and column on. */
static double *at_strip(const struct block *block, size_t strip, size_t column) {
    return block->value + (strip * block->padded + column) * LANES;
}

/* Where a block keeps row `row` of those it has, in front of its columns. */
static size_t row_offset(const struct block *block, size_t row) {
    return row / LANES * block->padded * LANES + row % LANES;
}

static size_t elements(const struct supernodes *all) {
    size_t count = 0;
    for (int32_t s = 0; s < all->count; s++) {
        const struct block block = block_shape(all, s);
        count += block.strips * LANES * block.padded;
    }
    return count;
}

double factor_bytes(const struct supernodes *all) {
    return (double)elements(all) * sizeof(double) + (double)all->count * sizeof(struct block) +
           (double)all->panel_count * (sizeof(struct course) + 2 * sizeof(int32_t));
}

struct factor *factor_create(const struct supernodes *all) {
    struct factor *factor = memory_pages(1, sizeof *factor);
    double *values = memory_pages(elements(all), sizeof *values);
    if (memory_refused())
        return NULL;
    *factor = (struct factor){
        .all = all,
        .blocks = memory_pages((size_t)all->count, sizeof *factor->blocks),
        .courses = memory_pages((size_t)all->panel_count, sizeof *factor->courses),
        .heap = memory_pages((size_t)all->panel_count, sizeof *factor->heap),
        .leaves = memory_pages((size_t)all->leaves, sizeof *factor->leaves),
    };
    if (memory_refused())
        return NULL;
    for (int32_t s = 0; s < all->count; s++) {
        factor->blocks[s] = block_shape(all, s);
        factor->blocks[s].value = values;
        values += factor->blocks[s].strips * LANES * factor->blocks[s].padded;
    }
    pthread_mutex_init(&factor->lock, NULL);
    pthread_cond_init(&factor->changed, NULL);
    factor_reset(factor);
    return factor;
}

uint64_t factor_useful_threads(const struct supernodes *all) { return (uint64_t)all->leaves; }

void factor_reset(struct factor *factor) {
    const struct supernodes *all = factor->all;
    int32_t leaves = 0;
    for (int32_t p = 0; p < all->panel_count; p++) {
        const struct panel *panel = &all->panels[p];
        factor->courses[p] = (struct course){0, IDLE};
        if (panel->begin == 0 && panel->sources_begin == panel->sources_end)
            factor->leaves[leaves++] = p;
    }
    factor->queued = 0;
    factor->left = all->panel_count;
    factor->failed_column = INT32_MAX;
}

static void push(struct factor *factor, int32_t panel) {
    int32_t *heap = factor->heap, i = factor->queued++;
    for (; i > 0 && heap[(i - 1) / 2] > panel; i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = panel;
}

static int32_t pop(struct factor *factor) {
    int32_t *heap = factor->heap, i = 0, top = heap[0];
    const int32_t last = heap[--factor->queued];
    for (int32_t child = 1; child < factor->queued; child = 2 * i + 1) {
        child += child + 1 < factor->queued && heap[child + 1] < heap[child];
        if (heap[child] >= last)
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return top;
}

/* The panel that has to be done before panel `p` can take what comes next. */
static int32_t awaited(const struct factor *factor, int32_t p, size_t taken) {
    const struct supernodes *all = factor->all;
    const struct panel *panel = &all->panels[p];
    const size_t updates = panel->sources_end - panel->sources_begin;
    if (taken >= updates)
        return all->first_panel[panel->supernode] + (int32_t)(taken - updates);
    const struct update *update = &all->updates[all->sources[panel->sources_begin + taken]];
    return all->first_panel[update->source + 1] - 1;
}

/* Everything that a panel takes before it is factored. */
static size_t to_take(const struct factor *factor, int32_t p) {
    const struct panel *panel = &factor->all->panels[p];
    return panel->sources_end - panel->sources_begin + (size_t)panel->begin / PANEL;
}

/* Queues a panel that waits for nothing but the one that is done. Returns whether it did. */
static bool queue_if_awaited(struct factor *factor, int32_t p, int32_t done) {
    struct course *course = &factor->courses[p];
    if (course->state != IDLE || awaited(factor, p, course->taken) != done)
        return false;
    course->state = AT_WORK;
    push(factor, p);
    return true;
}

/* With the lock: a panel is done, and others may go on. */
static void finish(struct factor *factor, int32_t p) {
    const struct supernodes *all = factor->all;
    const int32_t s = all->panels[p].supernode, end = all->first_panel[s + 1];
    int32_t queued = 0;
    factor->courses[p].state = DONE;
    factor->left--;
    for (int32_t next = p + 1; next < end; next++)
        queued += queue_if_awaited(factor, next, p);
    if (p == end - 1)
        for (size_t u = all->updates_begin[s]; u < all->updates_begin[s + 1]; u++)
            queued += queue_if_awaited(factor, all->updates[u].target, p);
    /* The one that finished takes one of them itself. */
    if (queued > 1 || factor->left == 0)
        pthread_cond_broadcast(&factor->changed);
}

/* Fills a panel with the matrix. */
static void assemble(const struct factor *factor, const struct panel *panel,
                     const struct scratch *scratch) {
    const struct supernodes *all = factor->all;
    const struct block *block = &factor->blocks[panel->supernode];
    const size_t begin = (size_t)panel->begin, columns = pad((size_t)panel->end) - begin;
    for (size_t strip = begin / LANES; strip < block->strips; strip++)
        memset(at_strip(block, strip, begin), 0, columns * LANES * sizeof(double));
    const int32_t first = all->first[panel->supernode];
    for (int32_t c = panel->begin; c < panel->end; c++)
        for (size_t at = all->matrix.begin[first + c]; at < all->matrix.begin[first + c + 1];
             at++) {
            const size_t row = (size_t)scratch->row_of[all->matrix.row[at]];
            block->value[row_offset(block, row) + (size_t)c * LANES] = all->matrix.value[at];
        }
}

/* Learns where the supernode of a panel keeps each row. */
static void aim(const struct factor *factor, int32_t supernode, struct scratch *scratch) {
    const struct supernodes *all = factor->all;
    const struct block *block = &factor->blocks[supernode];
    if (scratch->target == supernode)
        return;
    scratch->target = supernode;
    for (size_t i = 0; i < block->width; i++)
        scratch->row_of[(size_t)all->first[supernode] + i] = (int32_t)i;
    const int32_t *below = all->below + all->below_begin[supernode];
    for (size_t i = 0; i < block->below; i++)
        scratch->row_of[below[i]] = (int32_t)(block->padded + i);
}

/* The strips that have a vector's worth of columns of the product at most. */
enum { TILE_STRIPS = PANEL / LANES + 1 };

/* Subtracts the product of strips of rows and of columns from where the target keeps them. */
ALWAYS_INLINE void take_tile(const int strips, const struct block *source, size_t first_column,
                             size_t columns, size_t strip, const struct update *update,
                             const int32_t *column_of, const size_t *offset, double *to) {
    double tile[TILE_STRIPS][STRIPS_AT_ONCE][LANES * LANES];
    const size_t stride = source->padded * LANES, diagonal = source->padded / LANES;
    for (size_t c = 0; c < columns; c++)
        for (int s = 0; s < strips; s++)
            memset(tile[c][s], 0, sizeof tile[c][s]);
    for (size_t begin = 0; begin < source->width; begin += PANEL) {
        const size_t depth = source->width - begin < PANEL ? source->width - begin : PANEL;
        for (size_t c = 0; c < columns; c++)
            strips_multiply(strips, 1.0, at_strip(source, diagonal + strip, begin), stride,
                            at_strip(source, diagonal + first_column + c, begin), depth, tile[c][0],
                            LANES * LANES);
    }
    for (size_t c = 0; c < columns; c++)
        for (size_t j = 0; j < LANES; j++) {
            const size_t column = (first_column + c) * LANES + j;
            if (column < (size_t)update->begin || column >= (size_t)update->end)
                continue;
            double *const in_column = to + (size_t)column_of[column] * LANES;
            for (size_t s = 0; s < (size_t)strips; s++) {
                const size_t row = (strip + s) * LANES, *place = offset + row;
                const double *const part = tile[c][s] + j * LANES;
                if (row >= (size_t)update->begin && place[LANES - 1] == place[0] + LANES - 1) {
                    lanes_store(in_column + place[0],
                                lanes_load(in_column + place[0]) - lanes_load(part));
                    continue;
                }
                for (size_t lane = 0; lane < LANES; lane++)
                    if (row + lane >= (size_t)update->begin && row + lane < source->below)
                        in_column[place[lane]] -= part[lane];
            }
        }
}

/* Takes what a supernode in front of the panel has for it. */
static void take_update(const struct factor *factor, const struct update *update,
                        struct scratch *scratch, int32_t *column_of) {
    const struct supernodes *all = factor->all;
    const struct block *source = &factor->blocks[update->source];
    const struct block *target = &factor->blocks[all->panels[update->target].supernode];
    const int32_t *below = all->below + all->below_begin[update->source];
    for (size_t i = (size_t)update->begin; i < source->below; i++)
        scratch->offset[i] = row_offset(target, (size_t)scratch->row_of[below[i]]);
    for (size_t i = source->below; i % LANES != 0; i++)
        scratch->offset[i] = 0; /* of rows of 0 */
    for (int32_t i = update->begin; i < update->end; i++)
        column_of[i] = scratch->row_of[below[i]];
    const size_t first = (size_t)update->begin / LANES, strips = pad(source->below) / LANES;
    const size_t columns = pad((size_t)update->end) / LANES - first;
    size_t strip = first;
    for (; strip + STRIPS_AT_ONCE <= strips; strip += STRIPS_AT_ONCE)
        take_tile(STRIPS_AT_ONCE, source, first, columns, strip, update, column_of, scratch->offset,
                  target->value);
    for (; strip < strips; strip++)
        take_tile(1, source, first, columns, strip, update, column_of, scratch->offset,
                  target->value);
}

/* Subtracts from columns `begin` to `end` of a block what those from `from` on, `depth` of them,
   have for them. */
static void take_columns(const struct block *block, size_t begin, size_t end, size_t from,
                         size_t depth) {
    const size_t stride = block->padded * LANES;
    size_t strip = begin / LANES;
    for (; strip + STRIPS_AT_ONCE <= block->strips; strip += STRIPS_AT_ONCE)
        for (size_t column = begin; column < end && column / LANES < strip + STRIPS_AT_ONCE;
             column += LANES)
            strips_multiply(STRIPS_AT_ONCE, -1.0, at_strip(block, strip, from), stride,
                            at_strip(block, column / LANES, from), depth,
                            at_strip(block, strip, column), stride);
    for (; strip < block->strips; strip++)
        for (size_t column = begin; column < end && column / LANES <= strip; column += LANES)
            strips_multiply(1, -1.0, at_strip(block, strip, from), stride,
                            at_strip(block, column / LANES, from), depth,
                            at_strip(block, strip, column), stride);
}

/* The columns of a strip that begins on the diagonal: factored one after the other. */
static void factor_strip(double *strip, size_t columns, double inverse[LANES], int32_t *failed,
                         double *failed_pivot) {
    for (size_t j = 0; j < columns; j++) {
        const double pivot = strip[j * LANES + j];
        if (!(pivot > 0.0) && *failed < 0) {
            *failed = (int32_t)j;
            *failed_pivot = pivot;
        }
        const double root = sqrt(pivot);
        inverse[j] = 1.0 / root;
        strip[j * LANES + j] = root;
        for (size_t i = j + 1; i < LANES; i++)
            strip[j * LANES + i] *= inverse[j];
        for (size_t k = j + 1; k < columns; k++)
            for (size_t i = k; i < LANES; i++)
                strip[k * LANES + i] -= strip[j * LANES + i] * strip[j * LANES + k];
    }
}

/* Divides strips of rows by the factored one. The number of both is a constant. */
ALWAYS_INLINE void divide(const int strips, const size_t columns, double *rows, size_t stride,
                          const double *diagonal, const double inverse[LANES]) {
    lanes x[STRIPS_AT_ONCE][LANES];
    for (size_t j = 0; j < columns; j++) {
#pragma GCC unroll 3
        for (int s = 0; s < strips; s++)
            x[s][j] = lanes_load(rows + (size_t)s * stride + j * LANES);
#pragma GCC unroll 8
        for (size_t k = 0; k < j; k++)
#pragma GCC unroll 3
            for (int s = 0; s < strips; s++)
                x[s][j] -= x[s][k] * diagonal[k * LANES + j];
#pragma GCC unroll 3
        for (int s = 0; s < strips; s++) {
            x[s][j] *= inverse[j];
            lanes_store(rows + (size_t)s * stride + j * LANES, x[s][j]);
        }
    }
}

/* Factors a panel that has taken everything: strip by strip of columns. */
static void factor_panel(struct factor *factor, const struct panel *panel) {
    const struct block *block = &factor->blocks[panel->supernode];
    const size_t stride = block->padded * LANES, end = (size_t)panel->end;
    for (size_t column = (size_t)panel->begin; column < end; column += LANES) {
        const size_t columns = end - column < LANES ? end - column : LANES;
        const size_t before = column - (size_t)panel->begin;
        if (before > 0)
            take_columns(block, column, end < column + LANES ? end : column + LANES,
                         (size_t)panel->begin, before);
        double *const diagonal = at_strip(block, column / LANES, column), inverse[LANES];
        int32_t failed = -1;
        double pivot;
        factor_strip(diagonal, columns, inverse, &failed, &pivot);
        if (failed >= 0) {
            const int32_t place = factor->all->first[panel->supernode] + (int32_t)column + failed;
            pthread_mutex_lock(&factor->lock);
            if (place < factor->failed_column) {
                factor->failed_column = place;
                factor->failed_pivot = pivot;
            }
            pthread_mutex_unlock(&factor->lock);
        }
        size_t strip = column / LANES + 1;
        if (columns == LANES)
            for (; strip + STRIPS_AT_ONCE <= block->strips; strip += STRIPS_AT_ONCE)
                divide(STRIPS_AT_ONCE, LANES, at_strip(block, strip, column), stride, diagonal,
                       inverse);
        for (; strip < block->strips; strip++)
            divide(1, columns, at_strip(block, strip, column), stride, diagonal, inverse);
    }
}

/* A panel takes what is ready, from number `taken` to number `ready`. */
static void take(const struct factor *factor, int32_t p, size_t taken, size_t ready,
                 struct scratch *scratch, int32_t *column_of) {
    const struct supernodes *all = factor->all;
    const struct panel *panel = &all->panels[p];
    const struct block *block = &factor->blocks[panel->supernode];
    const size_t updates = panel->sources_end - panel->sources_begin;
    aim(factor, panel->supernode, scratch);
    if (taken == 0)
        assemble(factor, panel, scratch);
    for (; taken < ready && taken < updates; taken++)
        take_update(factor, &all->updates[all->sources[panel->sources_begin + taken]], scratch,
                    column_of);
    for (; taken < ready; taken++)
        take_columns(block, (size_t)panel->begin, (size_t)panel->end, (taken - updates) * PANEL,
                     PANEL);
}

/* With the lock, which is open while a thread works: everything that a panel can do now. */
static void go_on(struct factor *factor, int32_t p, struct scratch *scratch, int32_t *column_of) {
    struct course *course = &factor->courses[p];
    const size_t all = to_take(factor, p);
    bool begun = course->taken > 0;
    for (;;) {
        size_t ready = course->taken;
        while (ready < all && factor->courses[awaited(factor, p, ready)].state == DONE)
            ready++;
        if (ready == course->taken && (ready < all || begun))
            break;
        pthread_mutex_unlock(&factor->lock);
        take(factor, p, course->taken, ready, scratch, column_of);
        pthread_mutex_lock(&factor->lock);
        course->taken = ready;
        begun = true;
    }
    if (course->taken < all) {
        course->state = IDLE;
        return;
    }
    pthread_mutex_unlock(&factor->lock);
    factor_panel(factor, &factor->all->panels[p]);
    pthread_mutex_lock(&factor->lock);
    finish(factor, p);
}

bool factor_compute(struct factor *factor, const struct member *me) {
    const struct supernodes *all = factor->all;
    struct scratch scratch = {
        .row_of = memory_pages(all->rows, sizeof *scratch.row_of),
        .target = -1,
        .offset = memory_pages(all->rows + LANES, sizeof *scratch.offset),
    };
    int32_t *column_of = memory_pages(all->rows, sizeof *column_of);
    team_barrier(me->team);
    if (memory_refused())
        return false;
    /* Leaves of its own to begin with, in a part of the tree that is its own; all are queued by
       somebody. */
    const size_t threads = (size_t)me->team->threads, thread = (size_t)me->thread;
    const size_t leaves = (size_t)all->leaves;
    const size_t begin = leaves * thread / threads, end = leaves * (thread + 1) / threads;
    pthread_mutex_lock(&factor->lock);
    for (size_t i = begin; i < end; i++)
        factor->courses[factor->leaves[i]].state = AT_WORK;
    for (size_t i = begin + 1; i < end; i++)
        push(factor, factor->leaves[i]);
    pthread_cond_broadcast(&factor->changed);
    if (begin < end)
        go_on(factor, factor->leaves[begin], &scratch, column_of);
    while (factor->left > 0)
        if (factor->queued > 0)
            go_on(factor, pop(factor), &scratch, column_of);
        else
            pthread_cond_wait(&factor->changed, &factor->lock);
    pthread_mutex_unlock(&factor->lock);
    return begin < end;
}

int32_t factor_failed_row(const struct factor *factor, double *pivot) {
    if (factor->failed_column == INT32_MAX)
        return -1;
    *pivot = factor->failed_pivot;
    return factor->all->order[factor->failed_column];
}

double factor_at(const struct factor *factor, int32_t row, int32_t column) {
    const struct supernodes *all = factor->all;
    const int32_t s = all->supernode_of[column];
    const struct block *block = &factor->blocks[s];
    const size_t in_column = (size_t)(column - all->first[s]) * LANES;
    if (row < column)
        return 0.0;
    if (row < all->first[s + 1])
        return block->value[row_offset(block, (size_t)(row - all->first[s])) + in_column];
    const int32_t *below = all->below + all->below_begin[s];
    for (size_t i = 0; i < block->below; i++)
        if (below[i] == row)
            return block->value[row_offset(block, block->padded + i) + in_column];
    return 0.0;
}

void factor_solve(const struct factor *factor, const double *b, double *x) {
    const struct supernodes *all = factor->all;
    double *y = memory_pages(all->rows, sizeof *y);
    if (memory_refused())
        return;
    for (size_t i = 0; i < all->rows; i++)
        y[i] = b[all->order[i]];
    for (int32_t s = 0; s < all->count; s++) {
        const struct block *block = &factor->blocks[s];
        const int32_t *below = all->below + all->below_begin[s];
        double *own = y + all->first[s];
        for (size_t c = 0; c < block->width; c++) {
            const double *column = block->value + c * LANES;
            own[c] /= column[row_offset(block, c)];
            for (size_t i = c + 1; i < block->width; i++)
                own[i] -= own[c] * column[row_offset(block, i)];
            for (size_t i = 0; i < block->below; i++)
                y[below[i]] -= own[c] * column[row_offset(block, block->padded + i)];
        }
    }
    for (int32_t s = all->count; s-- > 0;) {
        const struct block *block = &factor->blocks[s];
        const int32_t *below = all->below + all->below_begin[s];
        double *own = y + all->first[s];
        for (size_t c = block->width; c-- > 0;) {
            const double *column = block->value + c * LANES;
            for (size_t i = c + 1; i < block->width; i++)
                own[c] -= own[i] * column[row_offset(block, i)];
            for (size_t i = 0; i < block->below; i++)
                own[c] -= y[below[i]] * column[row_offset(block, block->padded + i)];
            own[c] /= column[row_offset(block, c)];
        }
    }
    for (size_t i = 0; i < all->rows; i++)
        x[all->order[i]] = y[i];
}
