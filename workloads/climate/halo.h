/*
 * What the ranks of a run have for one another. Each owns consecutive rows, and reads some that its
 * neighbours in the south and in the north own, its halo. Where ranks own few rows, those may be of
 * more than one rank on either side.
 */
#pragma once

#include "core.h"

/*
 * The rows of cells and of u that a thread or a rank owns, and the rows of v. There is a row of v
 * between any two rows of cells; it belongs with the one nearer to the pole, with which it is
 * filtered.
 */
struct band {
    int first, end, first_v, end_v;
};

/* Rows, in front of `end`. */
struct span {
    int first, end;
};

struct halo {
    int *first; /* row of cells of each rank, and behind the last */
    struct ranks_message *sent[STAGES], *received[STAGES]; /* before each stage */
    int number_sent, number_received;
};

/* From row `first` of cells on, in front of row `end`; and what all threads of a rank own. */
struct band halo_band(const struct core *core, int first, int end);
struct band halo_rank(const struct core *core, int rank);

/* The rows of cells, or of v, that the stages of those who own `band` read. */
struct span halo_cells(const struct core *core, struct band band);
struct span halo_corners(const struct core *core, struct band band);

/* Lists the messages. `first` must be there, and the fields. */
void halo_create(struct core *core);

/* Sends what other ranks need for the stage, and receives what this one needs. */
void halo_exchange(const struct core *core, int stage);

/* Sends rank 0 what the others own of the state. */
void halo_collect(const struct core *core);
