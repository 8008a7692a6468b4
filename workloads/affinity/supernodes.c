#include "supernodes.h"

#include "memory.h"

#include <string.h>

enum { NONE = -1 };

/*
 * Supernodes are merged with their last child while the columns that come about are few, or few of
 * their elements are 0: up to so many columns, with at most such a share of 0.
 */
static const struct {
    int32_t columns;
    double zeros;
} MERGED[] = {{8, 1.0}, {16, 0.5}, {48, 0.12}, {INT32_MAX, 0.05}};

/*
 * The elimination tree: every column's first row below the diagonal of the factor, and NONE of
 * roots (J. W. H. Liu, SIAM J. Matrix Anal. Appl. 11 (1990) 134-172). `begin` and `columns` are
 * sparse_rows of the matrix; `ancestor` has room for a list.
 */
static void find_parents(size_t rows, const size_t *begin, const int32_t *columns, int32_t *parent,
                         int32_t *ancestor) {
    for (size_t row = 0; row < rows; row++) {
        parent[row] = ancestor[row] = NONE;
        for (size_t at = begin[row]; at < begin[row + 1]; at++)
            for (int32_t column = columns[at]; column != NONE && column != (int32_t)row;) {
                const int32_t up = ancestor[column];
                ancestor[column] = (int32_t)row; /* so that nobody climbs this way again */
                if (up == NONE)
                    parent[column] = (int32_t)row;
                column = up;
            }
    }
}

/* Columns by depth first: children in front of their parent. `child` and `sibling` are lists. */
static void order_by_tree(size_t rows, const int32_t *parent, int32_t *child, int32_t *sibling,
                          int32_t *order) {
    int32_t root = NONE, next = 0;
    for (size_t i = 0; i < rows; i++)
        child[i] = NONE;
    for (size_t i = rows; i-- > 0;) {
        int32_t *const list = parent[i] == NONE ? &root : &child[parent[i]];
        sibling[i] = *list;
        *list = (int32_t)i;
    }
    for (int32_t i = root; i != NONE;) {
        while (child[i] != NONE) { /* down to a leaf; a child that was visited is forgotten */
            const int32_t down = child[i];
            child[i] = NONE;
            i = down;
        }
        order[next++] = i;
        i = sibling[i] != NONE ? sibling[i] : parent[i];
    }
}

/*
 * How many elements each column of the factor has, with the diagonal: a row of the factor is what
 * the elements of the matrix's row meet on their ways up the tree. `reached` is a list.
 */
static void count_elements(const struct supernodes *all, const size_t *begin,
                           const int32_t *columns, const int32_t *parent, int32_t *reached,
                           int32_t *count) {
    for (size_t row = 0; row < all->rows; row++) {
        count[row] = 1;
        reached[row] = (int32_t)row;
        for (size_t at = begin[row]; at < begin[row + 1]; at++)
            for (int32_t i = columns[at]; reached[i] != (int32_t)row; i = parent[i]) {
                count[i]++;
                reached[i] = (int32_t)row;
            }
    }
}

/* Whether so many columns with that share of zeros may be one supernode. */
static bool may_merge(int32_t columns, double zeros) {
    for (size_t i = 0; i < sizeof MERGED / sizeof MERGED[0]; i++)
        if (columns <= MERGED[i].columns && zeros <= MERGED[i].zeros)
            return true;
    return false;
}

/* Elements on and below the diagonal of so many columns, of which the last has `last` ones. */
static double trapezoid(double columns, double last) {
    return columns * (last + 0.5 * (columns - 1.0));
}

/*
 * The first column of each supernode: columns whose rows are the same, each with the children in
 * front of it that may be merged with it. `zeros` has room for a number a column.
 */
static void find_supernodes(struct supernodes *all, const int32_t *parent, const int32_t *count,
                            double *zeros) {
    const int32_t rows = (int32_t)all->rows;
    int32_t *first = all->first, last = NONE; /* supernodes so far, of which all can still grow */
    for (int32_t i = 0; i < rows; i++) {
        if (i == 0 || parent[i - 1] != i || count[i - 1] != count[i] + 1) {
            first[++last] = i;
            zeros[last] = 0.0;
        }
        const int32_t end = i + 1, below = count[i] - 1;
        if (end < rows && parent[i] == end && count[i] == count[end] + 1)
            continue; /* it goes on */
        for (; last > 0 && parent[first[last] - 1] >= first[last] && parent[first[last] - 1] < end;
             last--) {
            const int32_t child = first[last] - first[last - 1], own = end - first[last];
            const int32_t child_below = count[first[last] - 1] - 1;
            const double added =
                zeros[last] + zeros[last - 1] + (double)child * (own + below - child_below);
            if (!may_merge(child + own, added / trapezoid(child + own, below + 1)))
                break;
            zeros[last - 1] = added;
        }
    }
    all->count = last + 1;
    first[all->count] = rows;
    for (int32_t s = 0; s < all->count; s++)
        for (int32_t i = first[s]; i < first[s + 1]; i++)
            all->supernode_of[i] = s;
}

/* Adds the rows in a list that are `end` or more, and not yet seen, to those of supernode `s`. */
static void add_rows(struct supernodes *all, int32_t s, const int32_t *list, size_t count,
                     int32_t *seen) {
    const int32_t end = all->first[s + 1];
    for (size_t i = 0; i < count; i++)
        if (list[i] >= end && seen[list[i]] != s) {
            seen[list[i]] = s;
            all->below[all->below_begin[s + 1]++] = list[i];
        }
}

/* Each one has the rows of its columns in the matrix and of its children; then they are sorted by
   what they are in: the rows of all, by row. `seen` and `child_of` are lists. */
static bool find_rows(struct supernodes *all, const int32_t *parent, const int32_t *count,
                      int32_t *seen, int32_t *child, int32_t *sibling) {
    size_t total = 0;
    for (int32_t s = 0; s < all->count; s++)
        total += (size_t)count[all->first[s + 1] - 1] - 1;
    all->below = memory_pages(total + 1, sizeof *all->below);
    int32_t *unsorted_source = memory_pages(total + 1, sizeof *unsorted_source);
    size_t *in_row = memory_pages(all->rows + 2, sizeof *in_row);
    size_t *next = memory_pages((size_t)all->count + 1, sizeof *next);
    if (memory_refused())
        return false;
    for (size_t i = 0; i < all->rows; i++)
        seen[i] = child[i] = NONE;
    all->below_begin[0] = 0;
    for (int32_t s = 0; s < all->count; s++) {
        const int32_t begin = all->first[s], end = all->first[s + 1];
        all->below_begin[s + 1] = all->below_begin[s];
        const size_t elements = all->matrix.begin[begin];
        add_rows(all, s, all->matrix.row + elements, all->matrix.begin[end] - elements, seen);
        for (int32_t c = child[s]; c != NONE; c = sibling[c])
            add_rows(all, s, all->below + all->below_begin[c], (size_t)supernode_below(all, c),
                     seen);
        const int32_t up = parent[end - 1];
        if (up != NONE) {
            sibling[s] = child[all->supernode_of[up]];
            child[all->supernode_of[up]] = s;
        }
    }
    /* Sorted all at once: by row into a list of supernodes, and back in order of rows. */
    memset(in_row, 0, (all->rows + 2) * sizeof *in_row);
    for (size_t i = 0; i < total; i++)
        in_row[all->below[i] + 2]++;
    for (size_t row = 0; row < all->rows; row++)
        in_row[row + 2] += in_row[row + 1];
    for (int32_t s = 0; s < all->count; s++) {
        next[s] = all->below_begin[s];
        for (size_t i = all->below_begin[s]; i < all->below_begin[s + 1]; i++)
            unsorted_source[in_row[all->below[i] + 1]++] = s;
    }
    for (size_t row = 0; row < all->rows; row++)
        for (size_t i = in_row[row]; i < in_row[row + 1]; i++)
            all->below[next[unsorted_source[i]]++] = (int32_t)row;
    return true;
}

/* Cuts supernodes into panels. */
static bool cut(struct supernodes *all) {
    all->panel_count = 0;
    for (int32_t s = 0; s < all->count; s++)
        all->panel_count += (supernode_width(all, s) + PANEL - 1) / PANEL;
    all->first_panel = memory_pages((size_t)all->count + 1, sizeof *all->first_panel);
    all->panels = memory_pages((size_t)all->panel_count + 1, sizeof *all->panels);
    if (memory_refused())
        return false;
    int32_t panels = 0;
    for (int32_t s = 0; s < all->count; s++) {
        const int32_t width = supernode_width(all, s);
        all->first_panel[s] = panels;
        for (int32_t begin = 0; begin < width; begin += PANEL)
            all->panels[panels++] = (struct panel){
                .supernode = s,
                .begin = begin,
                .end = width - begin < PANEL ? width : begin + PANEL,
            };
    }
    all->first_panel[all->count] = panels;
    return true;
}

/* The panel that a column is in. */
static int32_t panel_of(const struct supernodes *all, int32_t column) {
    const int32_t s = all->supernode_of[column];
    return all->first_panel[s] + (column - all->first[s]) / PANEL;
}

/* The updates by source, counted only while there is no room for them. */
static size_t list_updates(struct supernodes *all) {
    size_t count = 0;
    for (int32_t s = 0; s < all->count; s++) {
        const int32_t *below = all->below + all->below_begin[s];
        const int32_t rows = supernode_below(all, s);
        if (all->updates != NULL)
            all->updates_begin[s] = count;
        for (int32_t begin = 0, end; begin < rows; begin = end, count++) {
            const int32_t target = panel_of(all, below[begin]);
            for (end = begin + 1; end < rows && panel_of(all, below[end]) == target;)
                end++;
            if (all->updates != NULL)
                all->updates[count] = (struct update){s, begin, end, target};
        }
    }
    return count;
}

static bool find_updates(struct supernodes *all) {
    all->updates = NULL;
    all->update_count = list_updates(all);
    all->updates_begin = memory_pages((size_t)all->count + 1, sizeof *all->updates_begin);
    all->sources = memory_pages(all->update_count + 1, sizeof *all->sources);
    all->updates = memory_pages(all->update_count + 1, sizeof *all->updates);
    if (memory_refused())
        return false;
    all->updates_begin[all->count] = list_updates(all);
    for (size_t u = 0; u < all->update_count; u++)
        all->panels[all->updates[u].target].sources_end++;
    size_t begin = 0;
    for (int32_t p = 0; p < all->panel_count; p++) {
        struct panel *panel = &all->panels[p];
        panel->sources_begin = begin;
        begin += panel->sources_end;
        panel->sources_end = panel->sources_begin;
        all->leaves += begin == panel->sources_begin && panel->begin == 0;
    }
    for (size_t u = 0; u < all->update_count; u++)
        all->sources[all->panels[all->updates[u].target].sources_end++] = u;
    return true;
}

static void invert(const int32_t *order, size_t rows, int32_t *place) {
    for (size_t i = 0; i < rows; i++)
        place[order[i]] = (int32_t)i;
}

bool supernodes_find(struct supernodes *all, const struct sparse *matrix, const int32_t *order) {
    const size_t rows = matrix->rows, list = sizeof(int32_t);
    *all = (struct supernodes){
        .rows = rows,
        .order = memory_pages(rows, list),
        .place = memory_pages(rows, list),
        .first = memory_pages(rows + 1, list),
        .supernode_of = memory_pages(rows, list),
        .below_begin = memory_pages(rows + 1, sizeof *all->below_begin),
    };
    int32_t *const parent = memory_pages(rows, list), *const moved = memory_pages(rows, list);
    int32_t *const one = memory_pages(rows, list), *const two = memory_pages(rows, list);
    int32_t *const three = memory_pages(rows, list), *const count = memory_pages(rows, list);
    double *const zeros = memory_pages(rows, sizeof *zeros);
    struct sparse ordered;
    size_t *begin;
    int32_t *columns;
    if (memory_refused())
        return false;
    invert(order, rows, all->place);
    if (!sparse_reorder(matrix, order, all->place, &ordered) ||
        !sparse_rows(&ordered, &begin, &columns))
        return false;
    find_parents(rows, begin, columns, moved, one);
    order_by_tree(rows, moved, one, two, three);
    for (size_t i = 0; i < rows; i++)
        all->order[i] = order[three[i]];
    invert(three, rows, one);
    for (size_t i = 0; i < rows; i++)
        parent[one[i]] = moved[i] == NONE ? NONE : one[moved[i]];
    invert(all->order, rows, all->place);
    if (!sparse_reorder(matrix, all->order, all->place, &all->matrix) ||
        !sparse_rows(&all->matrix, &begin, &columns))
        return false;
    count_elements(all, begin, columns, parent, one, count);
    find_supernodes(all, parent, count, zeros);
    for (size_t i = 0; i < rows; i++) {
        all->entries += count[i];
        all->operations += (double)count[i] * count[i];
    }
    for (int32_t s = 0; s < all->count; s++)
        all->stored += trapezoid(supernode_width(all, s), count[all->first[s + 1] - 1]);
    return find_rows(all, parent, count, one, two, three) && cut(all) && find_updates(all);
}
