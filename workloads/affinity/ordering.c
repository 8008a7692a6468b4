#include "ordering.h"

#include "memory.h"

#include <string.h>

/* Grids of no more nodes are not dissected further: their rows all become a dense block. */
enum { SMALLEST_NODES = 4 };

static int32_t *dissect(const struct grid *whole, int left, int top, int width, int height,
                        int32_t *next) {
    const int across = width >= height ? height : width, along = width + height - across;
    if (width * height > SMALLEST_NODES && along > 2) {
        const int half = along / 2;
        const int right = width >= height ? left + half + 1 : left;
        const int below = width >= height ? top : top + half + 1;
        if (width >= height) {
            next = dissect(whole, left, top, half, height, next);
            next = dissect(whole, right, below, width - half - 1, height, next);
            left += half, width = 1;
        } else {
            next = dissect(whole, left, top, width, half, next);
            next = dissect(whole, right, below, width, height - half - 1, next);
            top += half, height = 1;
        }
    }
    for (int y = top; y < top + height; y++)
        for (int x = left; x < left + width; x++)
            for (int i = 0; i < whole->unknowns; i++)
                *next++ = (y * whole->width + x) * whole->unknowns + i;
    return next;
}

void order_grid(struct grid grid, int32_t *order) {
    dissect(&grid, 0, 0, grid.width, grid.height, order);
}

/* No row. */
enum { NONE = -1 };

/*
 * The quotient graph. A variable is a row that isn't eliminated yet, or several that have the same
 * neighbours; an element is what the elimination of one has left: the variables that have become
 * neighbours by it. Each has its name from a row.
 *
 * A variable's list holds elements first, then variables. It only becomes shorter, since where an
 * element comes in, at least one entry goes. Elements have lists in a store of their own, which is
 * compacted when it is full: those that live together never have more than all variables had.
 */
struct quotient {
    int32_t rows;
    int32_t *weight;   /* rows in a variable, negated while it is in the new element; 0 when it is
                          in another or gone */
    int32_t *degree;   /* a variable's, as an upper bound, in rows; an element's weight */
    size_t *begin;     /* of a variable's list, or an element's */
    int32_t *elements; /* how many a variable's list begins with */
    int32_t *length;   /* of the list */
    int32_t *list;     /* of variables */
    int32_t *store;    /* of elements */
    size_t stored;
    bool *is_element; /* that lives */
    int32_t *born;    /* elements in the order of their store */
    int32_t births;
    int32_t *head, *next, *previous; /* variables by degree */
    int32_t *outside;                /* weight of an element outside of the new one */
    int32_t *seen;                   /* by which pass */
    int32_t *kept;                   /* a list that is being made */
    int32_t *bucket;                 /* variables by hash */
    int32_t pass;
    int32_t *rest; /* the next row of the same variable */
    int32_t *last; /* the last one */
    uint32_t *hash;
};

static void unlink_variable(struct quotient *graph, int32_t i) {
    const int32_t before = graph->previous[i], after = graph->next[i];
    if (before == NONE)
        graph->head[graph->degree[i]] = after;
    else
        graph->next[before] = after;
    if (after != NONE)
        graph->previous[after] = before;
}

static void link_variable(struct quotient *graph, int32_t i) {
    const int32_t first = graph->head[graph->degree[i]];
    graph->next[i] = first;
    graph->previous[i] = NONE;
    graph->head[graph->degree[i]] = i;
    if (first != NONE)
        graph->previous[first] = i;
}

static bool create(struct quotient *graph, const struct sparse *matrix) {
    const size_t rows = matrix->rows, entries = 2 * sparse_below_diagonal(matrix);
    const size_t vector = sizeof(int32_t);
    *graph = (struct quotient){
        .rows = (int32_t)rows,
        .weight = memory_pages(rows, vector),
        .degree = memory_pages(rows, vector),
        .begin = memory_pages(rows + 1, sizeof *graph->begin),
        .elements = memory_pages(rows, vector),
        .length = memory_pages(rows, vector),
        .list = memory_pages(entries + 1, vector),
        .store = memory_pages(entries + rows, vector),
        .is_element = memory_pages(rows, sizeof *graph->is_element),
        .born = memory_pages(rows, vector),
        .head = memory_pages(rows + 1, vector),
        .next = memory_pages(rows, vector),
        .previous = memory_pages(rows, vector),
        .outside = memory_pages(rows, vector),
        .seen = memory_pages(rows, vector),
        .kept = memory_pages(rows + 1, vector),
        .bucket = memory_pages(rows, vector),
        .rest = memory_pages(rows, vector),
        .last = memory_pages(rows, vector),
        .hash = memory_pages(rows, sizeof *graph->hash),
    };
    if (memory_refused())
        return false;
    memset(graph->length, 0, rows * vector);
    for (size_t column = 0; column < rows; column++)
        for (size_t at = matrix->begin[column] + 1; at < matrix->begin[column + 1]; at++) {
            graph->length[column]++;
            graph->length[matrix->row[at]]++;
        }
    size_t begin = 0;
    for (size_t i = 0; i < rows; i++) {
        graph->begin[i] = begin;
        begin += (size_t)graph->length[i];
        graph->length[i] = 0;
        graph->head[i] = NONE;
        graph->weight[i] = 1;
        graph->elements[i] = graph->outside[i] = graph->seen[i] = 0;
        graph->is_element[i] = false;
        graph->rest[i] = NONE;
        graph->last[i] = (int32_t)i;
    }
    for (size_t column = 0; column < rows; column++)
        for (size_t at = matrix->begin[column] + 1; at < matrix->begin[column + 1]; at++) {
            const int32_t i = matrix->row[at], j = (int32_t)column;
            graph->list[graph->begin[i] + (size_t)graph->length[i]++] = j;
            graph->list[graph->begin[j] + (size_t)graph->length[j]++] = i;
        }
    for (int32_t i = 0; i < graph->rows; i++) {
        graph->degree[i] = graph->length[i];
        link_variable(graph, i);
    }
    return true;
}

/* Moves the elements that live to the front of the store. */
static void compact(struct quotient *graph) {
    int32_t births = 0;
    graph->stored = 0;
    for (int32_t b = 0; b < graph->births; b++) {
        const int32_t e = graph->born[b];
        if (!graph->is_element[e])
            continue;
        memmove(graph->store + graph->stored, graph->store + graph->begin[e],
                (size_t)graph->length[e] * sizeof *graph->store);
        graph->begin[e] = graph->stored;
        graph->stored += (size_t)graph->length[e];
        graph->born[births++] = e;
    }
    graph->births = births;
}

/* Puts the variables of a list into the new element that haven't got there yet. */
static void gather(struct quotient *graph, const int32_t *variables, int32_t count) {
    for (int32_t k = 0; k < count; k++) {
        const int32_t i = variables[k];
        if (graph->weight[i] <= 0)
            continue;
        graph->store[graph->stored++] = i;
        graph->weight[i] = -graph->weight[i];
        unlink_variable(graph, i);
    }
}

/* Makes the pivot an element, which takes in those that the pivot was in. Returns its weight. */
static int32_t make_element(struct quotient *graph, int32_t pivot, size_t capacity) {
    if (graph->stored + (size_t)graph->rows > capacity)
        compact(graph);
    const int32_t *list = graph->list + graph->begin[pivot];
    const int32_t elements = graph->elements[pivot], length = graph->length[pivot];
    const int32_t pivot_weight = graph->weight[pivot];
    const size_t begin = graph->stored;
    graph->weight[pivot] = 0;
    gather(graph, list + elements, length - elements);
    for (int32_t k = 0; k < elements; k++) {
        const int32_t e = list[k];
        if (!graph->is_element[e])
            continue;
        gather(graph, graph->store + graph->begin[e], graph->length[e]);
        graph->is_element[e] = false;
    }
    graph->begin[pivot] = begin;
    graph->length[pivot] = (int32_t)(graph->stored - begin);
    graph->is_element[pivot] = true;
    graph->born[graph->births++] = pivot;
    int32_t weight = 0;
    for (size_t at = begin; at < graph->stored; at++)
        weight -= graph->weight[graph->store[at]];
    graph->degree[pivot] = weight;
    return pivot_weight;
}

/* Finds what each other element of the new one's variables has outside of the new one. */
static void look_outside(struct quotient *graph, int32_t pivot) {
    const int32_t *variables = graph->store + graph->begin[pivot];
    graph->pass++;
    for (int32_t k = 0; k < graph->length[pivot]; k++) {
        const int32_t i = variables[k], *list = graph->list + graph->begin[i];
        for (int32_t n = 0; n < graph->elements[i]; n++) {
            const int32_t e = list[n];
            if (!graph->is_element[e])
                continue;
            if (graph->seen[e] != graph->pass)
                graph->outside[e] = graph->degree[e];
            graph->seen[e] = graph->pass;
            graph->outside[e] += graph->weight[i]; /* which is negative */
        }
    }
}

/* Prunes the list of a variable of the new element, and bounds its degree. */
static void prune(struct quotient *graph, int32_t pivot, int32_t i, int32_t left) {
    int32_t *list = graph->list + graph->begin[i], *kept = graph->kept;
    const int32_t own = -graph->weight[i], inside = graph->degree[pivot] - own;
    int32_t count = 0, degree = inside;
    uint32_t hash = (uint32_t)pivot;
    kept[count++] = pivot;
    for (int32_t n = 0; n < graph->elements[i]; n++) {
        const int32_t e = list[n];
        if (graph->is_element[e] && graph->outside[e] == 0)
            graph->is_element[e] = false; /* all of it is in the new one */
        if (!graph->is_element[e])
            continue;
        degree += graph->outside[e];
        hash += (uint32_t)e;
        kept[count++] = e;
    }
    const int32_t elements = count;
    for (int32_t n = graph->elements[i]; n < graph->length[i]; n++) {
        const int32_t j = list[n];
        if (graph->weight[j] <= 0)
            continue;
        degree += graph->weight[j];
        hash += (uint32_t)j;
        kept[count++] = j;
    }
    memcpy(list, kept, (size_t)count * sizeof *list);
    graph->elements[i] = elements;
    graph->length[i] = count;
    graph->hash[i] = hash;
    const int32_t most =
        graph->degree[i] + inside < left - own ? graph->degree[i] + inside : left - own;
    graph->degree[i] = degree < most ? degree : most;
}

/* Whether two variables of the new element have the same neighbours; those of `i` are marked. */
static bool are_same(const struct quotient *graph, int32_t i, int32_t j) {
    if (graph->hash[i] != graph->hash[j] || graph->elements[i] != graph->elements[j] ||
        graph->length[i] != graph->length[j])
        return false;
    const int32_t *list = graph->list + graph->begin[j];
    for (int32_t n = 0; n < graph->length[j]; n++)
        if (graph->seen[list[n]] != graph->pass)
            return false;
    return true;
}

/* Makes one variable of those of the new element that have the same neighbours. */
static void merge(struct quotient *graph, int32_t pivot) {
    const int32_t *variables = graph->store + graph->begin[pivot];
    const int32_t count = graph->length[pivot];
    for (int32_t k = 0; k < count; k++)
        graph->bucket[graph->hash[variables[k]] % (uint32_t)graph->rows] = NONE;
    for (int32_t k = 0; k < count; k++) {
        const int32_t j = variables[k];
        int32_t *bucket = &graph->bucket[graph->hash[j] % (uint32_t)graph->rows];
        int32_t same = NONE;
        if (*bucket != NONE) {
            const int32_t *list = graph->list + graph->begin[j];
            graph->pass++;
            for (int32_t n = 0; n < graph->length[j]; n++)
                graph->seen[list[n]] = graph->pass;
            for (int32_t i = *bucket; i != NONE && same == NONE; i = graph->next[i])
                if (are_same(graph, j, i))
                    same = i;
        }
        if (same == NONE) { /* `next` isn't in use while a variable has no degree */
            graph->next[j] = *bucket;
            *bucket = j;
            continue;
        }
        graph->degree[same] += graph->weight[j]; /* which is negative: it was a neighbour */
        graph->weight[same] += graph->weight[j];
        graph->weight[j] = 0;
        graph->rest[graph->last[same]] = j;
        graph->last[same] = graph->last[j];
    }
}

/* Gives the variables of the new element their degrees; those that were merged leave it. */
static void settle(struct quotient *graph, int32_t pivot, int32_t *least) {
    int32_t *variables = graph->store + graph->begin[pivot], kept = 0;
    for (int32_t k = 0; k < graph->length[pivot]; k++) {
        const int32_t i = variables[k];
        if (graph->weight[i] == 0)
            continue;
        graph->weight[i] = -graph->weight[i];
        link_variable(graph, i);
        *least = graph->degree[i] < *least ? graph->degree[i] : *least;
        variables[kept++] = i;
    }
    graph->stored -= (size_t)(graph->length[pivot] - kept);
    graph->length[pivot] = kept;
    graph->is_element[pivot] = kept > 0;
}

bool order_by_degree(const struct sparse *matrix, int32_t *order) {
    struct quotient graph;
    if (!create(&graph, matrix))
        return false;
    const size_t capacity = 2 * sparse_below_diagonal(matrix) + matrix->rows;
    int32_t least = 0;
    for (int32_t left = graph.rows; left > 0;) {
        while (graph.head[least] == NONE)
            least++;
        const int32_t pivot = graph.head[least];
        unlink_variable(&graph, pivot);
        left -= make_element(&graph, pivot, capacity);
        look_outside(&graph, pivot);
        for (int32_t k = 0; k < graph.length[pivot]; k++)
            prune(&graph, pivot, graph.store[graph.begin[pivot] + (size_t)k], left);
        merge(&graph, pivot);
        settle(&graph, pivot, &least);
        for (int32_t row = pivot; row != NONE; row = graph.rest[row])
            *order++ = row;
    }
    return true;
}
