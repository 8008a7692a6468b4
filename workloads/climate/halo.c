#include "halo.h"

#include "memory.h"
#include "ranks.h"

#include <stddef.h>

/*
 * To advance a row of cells takes the fluxes round it, and those the volumes and circulations one
 * row further. In the north of a band that ends in the southern hemisphere, and the other way
 * round, the row of v at its border is filtered with the row of cells behind it, which takes the
 * fluxes round that one: two rows.
 */
enum { HALO_ROWS = 2 };

static struct span within(int first, int end, int most) {
    return (struct span){first > 0 ? first : 0, end < most ? end : most};
}

static bool is_empty(struct band band) { return band.first == band.end; }

struct span halo_cells(const struct core *core, struct band band) {
    if (is_empty(band))
        return (struct span){0, 0};
    return within(band.first - HALO_ROWS, band.end + HALO_ROWS, core->sphere.rows);
}

struct span halo_corners(const struct core *core, struct band band) {
    if (is_empty(band))
        return (struct span){0, 0};
    return within(band.first - HALO_ROWS + 1, band.end + HALO_ROWS, core->sphere.rows + 1);
}

static struct span common(struct span a, struct span b) {
    const struct span both = {a.first > b.first ? a.first : b.first, a.end < b.end ? a.end : b.end};
    return both.first < both.end ? both : (struct span){0, 0};
}

struct band halo_band(const struct core *core, int first, int end) {
    const int equator = core->sphere.rows / 2;
    return (struct band){first, end, first + (first < equator), end + (end < equator)};
}

struct band halo_rank(const struct core *core, int rank) {
    return halo_band(core, core->halo->first[rank], core->halo->first[rank + 1]);
}

/*
 * A rank's own rows of v. Those at the poles never change; whoever reads them has made them, so
 * that nobody owns the one in the south.
 */
static struct span own_corners(struct band band) {
    return is_empty(band) ? (struct span){0, 0} : (struct span){band.first_v, band.end_v};
}

static struct span own_cells(struct band band) { return (struct span){band.first, band.end}; }

/* Adds the rows of a field that `from` owns and `to` reads, if any. */
static void add(const struct core *core, double *field, struct span own, struct span read, int with,
                struct ranks_message *messages, int *number) {
    const struct span rows = common(own, read);
    if (rows.first == rows.end)
        return;
    messages[(*number)++] = (struct ranks_message){
        .with = with,
        .numbers = core_row(core, field, rows.first) - GHOST,
        .count = (size_t)(rows.end - rows.first) * core_stride(core->sphere.columns),
    };
}

/* What goes from rank `from` to rank `to` before a stage; this one is one of the two. */
static void list(const struct core *core, int stage, int from, int to,
                 struct ranks_message *messages, int *number) {
    const struct band owner = halo_rank(core, from), reader = halo_rank(core, to);
    const int with = from == ranks_mine() ? to : from;
    const struct span cells = halo_cells(core, reader), corners = halo_corners(core, reader);
    add(core, core->volume[stage], own_cells(owner), cells, with, messages, number);
    add(core, core->u[stage], own_cells(owner), cells, with, messages, number);
    add(core, core->v[stage], own_corners(owner), corners, with, messages, number);
}

enum { FIELDS = 3 };

void halo_create(struct core *core) {
    const int ranks = ranks_count(), mine = ranks_mine();
    struct halo *halo = core->halo;
    const size_t most = (size_t)FIELDS * (size_t)ranks;
    for (int stage = 0; stage < STAGES; stage++) {
        halo->sent[stage] = memory_pages(most, sizeof(struct ranks_message));
        halo->received[stage] = memory_pages(most, sizeof(struct ranks_message));
        if (memory_refused())
            return;
        halo->number_sent = halo->number_received = 0;
        for (int rank = 0; rank < ranks; rank++) {
            if (rank == mine)
                continue;
            list(core, stage, mine, rank, halo->sent[stage], &halo->number_sent);
            list(core, stage, rank, mine, halo->received[stage], &halo->number_received);
        }
    }
}

void halo_exchange(const struct core *core, int stage) {
    const struct halo *halo = core->halo;
    ranks_exchange(halo->sent[stage], halo->number_sent, halo->received[stage],
                   halo->number_received);
}

/* All that a rank owns of the state and of the ground, as messages. */
static int list_own(const struct core *core, int rank, struct ranks_message *messages) {
    const struct band band = halo_rank(core, rank);
    const struct span all = {0, core->sphere.rows + 1};
    const int with = rank == ranks_mine() ? 0 : rank;
    int number = 0;
    add(core, core->volume[0], own_cells(band), all, with, messages, &number);
    add(core, core->u[0], own_cells(band), all, with, messages, &number);
    add(core, core->surface, own_cells(band), all, with, messages, &number);
    add(core, core->v[0], own_corners(band), all, with, messages, &number);
    return number;
}

void halo_collect(const struct core *core) {
    struct ranks_message messages[FIELDS + 1];
    const int mine = ranks_mine();
    /* One after the other: rank 0 has room for all of it, but there may be thousands of ranks. */
    for (int rank = 1; rank < ranks_count(); rank++) {
        if (mine != 0 && mine != rank)
            continue;
        const int number = list_own(core, rank, messages);
        if (mine == 0)
            ranks_exchange(NULL, 0, messages, number);
        else
            ranks_exchange(messages, number, NULL, 0);
    }
}
