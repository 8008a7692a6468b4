/*
 * Bodies in space and the tree of cubes over them. Bodies are kept in the order of their places
 * along a Morton curve, in which those of every cube are neighbours.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { DIMENSIONS = 3 };

struct body {
    double position[DIMENSIONS], velocity[DIMENSIONS], acceleration[DIMENSIONS];
    double potential; /* per unit of mass, its own included */
    double cost;      /* interactions when its acceleration was last worked out */
};

/* A cube with bodies. Cubes whose bodies are all in one of their octants are left out. */
struct cell {
    double centre[DIMENSIONS]; /* of mass */
    double mass;
    double side;
    double cost;              /* of its bodies */
    int32_t first, end;       /* its bodies */
    int32_t child, child_end; /* its cells, none in a leaf */
};

enum {
    KEY_DIGITS = 21,  /* octants that a key names, from the largest cube to the smallest */
    LEAF_BODIES = 32, /* a cube with more is divided */
    SORT_BITS = 8,    /* of a digit, as bodies are sorted by their keys */
};

struct octree {
    int32_t bodies;
    double half;               /* of the largest cube's side, whose middle is the origin */
    uint64_t *key, *spare_key; /* of the bodies */
    int32_t *order;            /* where a body stood before it was sorted */
    int32_t *spare_order;      /* for the sort; then, by a leaf's first body, the leaf */
    struct cell *cells;        /* level by level, along the curve in each */
    int32_t cell_capacity;
    int32_t level[KEY_DIGITS + 2]; /* the first cell of every level, and the end of the last */
    int levels;
};

struct octree octree_create(int32_t bodies);

uint64_t octree_bytes(int32_t bodies);

/* The place of `position`, which is within the largest cube, along the curve. */
uint64_t octree_key(const struct octree *tree, const double position[DIMENSIONS]);

/* Sorts the bodies by their keys and divides space; masses come from octree_weigh. One thread. */
void octree_build(struct octree *tree);

/*
 * Mass, centre and cost of a cell, of bodies of `body_mass` each in their new order, or of the
 * cells a level further down.
 */
void octree_weigh(const struct octree *tree, struct cell *cell, const struct body *bodies,
                  double body_mass);

/* The leaf that begins with this body. */
static inline const struct cell *octree_leaf(const struct octree *tree, int32_t first) {
    return &tree->cells[tree->spare_order[first]];
}

/* The first body of the leaf before which the cost of the bodies adds up to `cost`, about. */
int32_t octree_body_at(const struct octree *tree, double cost);
