#include "octree.h"

#include "memory.h"

#include <math.h>

enum { DIGIT_VALUES = 1 << SORT_BITS };

/* More cells than bodies in leaves that are half empty; without room, a cube stays a leaf. */
static int32_t cell_capacity(int32_t bodies) { return bodies / 2 + 64; }

struct octree octree_create(int32_t bodies) {
    const size_t count = (size_t)bodies;
    return (struct octree){
        .bodies = bodies,
        .key = memory_pages(count, sizeof(uint64_t)),
        .spare_key = memory_pages(count, sizeof(uint64_t)),
        .order = memory_pages(count, sizeof(int32_t)),
        .spare_order = memory_pages(count, sizeof(int32_t)),
        .cells = memory_pages((size_t)cell_capacity(bodies), sizeof(struct cell)),
        .cell_capacity = cell_capacity(bodies),
    };
}

uint64_t octree_bytes(int32_t bodies) {
    return (uint64_t)bodies * 2 * (sizeof(uint64_t) + sizeof(int32_t)) +
           (uint64_t)cell_capacity(bodies) * sizeof(struct cell);
}

/* The bits of a coordinate, two zeros between any two of them. */
static uint64_t spread(uint64_t bits) {
    bits = (bits | bits << 32) & UINT64_C(0x001f00000000ffff);
    bits = (bits | bits << 16) & UINT64_C(0x001f0000ff0000ff);
    bits = (bits | bits << 8) & UINT64_C(0x100f00f00f00f00f);
    bits = (bits | bits << 4) & UINT64_C(0x10c30c30c30c30c3);
    bits = (bits | bits << 2) & UINT64_C(0x1249249249249249);
    return bits;
}

uint64_t octree_key(const struct octree *tree, const double position[DIMENSIONS]) {
    const double last = (1 << KEY_DIGITS) - 1, scale = 0.5 * (1 << KEY_DIGITS) / tree->half;
    uint64_t key = 0;
    for (int d = 0; d < DIMENSIONS; d++) {
        const double place = fmin((position[d] + tree->half) * scale, last);
        key |= spread((uint64_t)place) << d;
    }
    return key;
}

/* Sorts keys, and `order` with them, digit by digit from the last. Equal keys keep their order. */
static void sort(struct octree *tree) {
    for (int32_t i = 0; i < tree->bodies; i++)
        tree->order[i] = i;
    for (int shift = 0; shift < DIMENSIONS * KEY_DIGITS; shift += SORT_BITS) {
        int32_t next[DIGIT_VALUES] = {0};
        for (int32_t i = 0; i < tree->bodies; i++)
            next[tree->key[i] >> shift & (DIGIT_VALUES - 1)]++;
        int32_t place = 0;
        for (int value = 0; value < DIGIT_VALUES; value++) {
            const int32_t count = next[value];
            next[value] = place;
            place += count;
        }
        for (int32_t i = 0; i < tree->bodies; i++) {
            const int32_t to = next[tree->key[i] >> shift & (DIGIT_VALUES - 1)]++;
            tree->spare_key[to] = tree->key[i];
            tree->spare_order[to] = tree->order[i];
        }
        uint64_t *key = tree->key;
        tree->key = tree->spare_key;
        tree->spare_key = key;
        int32_t *order = tree->order;
        tree->order = tree->spare_order;
        tree->spare_order = order;
    }
}

static int octant(uint64_t key, int depth) {
    return (int)(key >> DIMENSIONS * (KEY_DIGITS - 1 - depth) & 7);
}

/* The first body from `first` to `end` whose octant at this depth is beyond `last`. */
static int32_t octant_end(const struct octree *tree, int32_t first, int32_t end, int depth,
                          int last) {
    while (first < end) {
        const int32_t middle = first + (end - first) / 2;
        if (octant(tree->key[middle], depth) <= last)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

/* The depth at which the bodies of a cell part; KEY_DIGITS when they never do. */
static int depth_of(const struct octree *tree, const struct cell *cell) {
    const uint64_t differ = tree->key[cell->first] ^ tree->key[cell->end - 1];
    int depth = 0;
    while (depth < KEY_DIGITS && octant(differ, depth) == 0)
        depth++;
    return depth;
}

/* Appends the cells of `cell` to those that there are; gives their new end. */
static int32_t divide(struct octree *tree, struct cell *cell, int32_t cells) {
    const int depth = depth_of(tree, cell);
    cell->side = ldexp(2.0 * tree->half, -depth);
    cell->child = cell->child_end = cells;
    if (cell->end - cell->first <= LEAF_BODIES || depth == KEY_DIGITS ||
        cells + 8 > tree->cell_capacity)
        return cells;
    for (int32_t first = cell->first; first < cell->end;) {
        const int32_t end =
            octant_end(tree, first, cell->end, depth, octant(tree->key[first], depth));
        tree->cells[cells++] = (struct cell){.first = first, .end = end};
        first = end;
    }
    cell->child_end = cells;
    return cells;
}

void octree_build(struct octree *tree) {
    sort(tree);
    tree->cells[0] = (struct cell){.first = 0, .end = tree->bodies};
    int32_t cells = 1;
    tree->levels = 0;
    tree->level[0] = 0;
    for (int32_t done = 0; done < cells; tree->level[++tree->levels] = done)
        for (const int32_t end = cells; done < end; done++) {
            struct cell *cell = &tree->cells[done];
            cells = divide(tree, cell, cells);
            if (cell->child == cell->child_end)
                tree->spare_order[cell->first] = done;
        }
}

void octree_weigh(const struct octree *tree, struct cell *cell, const struct body *bodies,
                  double body_mass) {
    double moment[DIMENSIONS] = {0}, mass = 0.0, cost = 0.0;
    if (cell->child == cell->child_end) {
        for (int32_t i = cell->first; i < cell->end; i++) {
            for (int d = 0; d < DIMENSIONS; d++)
                moment[d] += body_mass * bodies[i].position[d];
            cost += bodies[i].cost;
        }
        mass = body_mass * (cell->end - cell->first);
    }
    for (int32_t i = cell->child; i < cell->child_end; i++) {
        const struct cell *child = &tree->cells[i];
        for (int d = 0; d < DIMENSIONS; d++)
            moment[d] += child->mass * child->centre[d];
        mass += child->mass;
        cost += child->cost;
    }
    for (int d = 0; d < DIMENSIONS; d++)
        cell->centre[d] = moment[d] / mass;
    cell->mass = mass;
    cell->cost = cost;
}

int32_t octree_body_at(const struct octree *tree, double cost) {
    const struct cell *cell = tree->cells;
    double before = 0.0;
    while (cell->child < cell->child_end) {
        int32_t child = cell->child;
        while (child + 1 < cell->child_end && before + tree->cells[child].cost <= cost)
            before += tree->cells[child++].cost;
        cell = &tree->cells[child];
    }
    return cell->first;
}
