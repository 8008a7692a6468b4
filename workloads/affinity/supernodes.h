/*
 * What the factor of a sparse matrix will look like. Columns whose elements stand in the same rows
 * are a supernode, which is kept and computed as a dense block; a wide one is cut into panels,
 * which are what threads work on.
 */
#pragma once

#include "sparse.h"

/* Columns of a panel, but for the last one of a supernode: a multiple of all lanes. */
enum { PANEL = 48 };

/* Columns of a supernode. */
struct panel {
    int32_t supernode;
    int32_t begin, end;                /* columns, counted from the supernode's first */
    size_t sources_begin, sources_end; /* of the updates of `sources` */
};

/* What the columns of one supernode take from those of another, which comes first in order. */
struct update {
    int32_t source; /* a supernode */
    int32_t begin,
        end;        /* of its rows below the diagonal block, those that are columns of `target` */
    int32_t target; /* a panel */
};

struct supernodes {
    size_t rows;          /* of the matrix */
    int32_t *order;       /* which row of the matrix is eliminated as number i */
    int32_t *place;       /* the inverse */
    struct sparse matrix; /* in that order */

    int32_t count;
    int32_t *first;        /* column of each, and the end of the last */
    int32_t *supernode_of; /* column */
    size_t *below_begin; /* of each one's rows below its diagonal block, and the end of the last */
    int32_t *below;      /* those rows, rising */

    int32_t panel_count;
    int32_t *first_panel; /* of each supernode, and the end of the last */
    struct panel *panels;

    size_t update_count;
    struct update *updates; /* by source */
    size_t *updates_begin;  /* of each source, and the end of the last */
    size_t *sources;        /* updates by target, and then by source */

    int32_t leaves;    /* panels that take nothing from others */
    double entries;    /* of the factor that can differ from 0 */
    double stored;     /* with those that are kept as 0 */
    double operations; /* multiplications, additions, divisions and roots, of the former */
};

static inline int32_t supernode_width(const struct supernodes *all, int32_t supernode) {
    return all->first[supernode + 1] - all->first[supernode];
}

static inline int32_t supernode_below(const struct supernodes *all, int32_t supernode) {
    return (int32_t)(all->below_begin[supernode + 1] - all->below_begin[supernode]);
}

/*
 * The supernodes of a matrix that is eliminated in an order, or in one that gives the same factor
 * but has every subtree of the elimination tree in one piece. False when memory was refused.
 */
bool supernodes_find(struct supernodes *all, const struct sparse *matrix, const int32_t *order);
