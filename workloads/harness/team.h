/*
 * The threads of one parallel region of a rank, working in step; member 0 is the process' first
 * thread. A runtime's own barrier may spin through
 * whole time slices; this one waits as progress.h says.
 */
#pragma once

#include "progress.h"

#include <stdint.h>

/* What the threads of a team share. */
struct team {
    int threads;
    double *partial;            /* two sums a thread, each on a cache line of its own */
    _Atomic uint32_t arrived;   /* at the present barrier */
    struct progress generation; /* how many barriers have been passed */
};

/* A thread's place in its team. */
struct member {
    struct team *team;
    int thread;
    int turn; /* which of its two partial sums it writes next */
};

/*
 * Runs `work` in every thread of a parallel region, with its place in their team and `shared`.
 * If memory was refused before, nobody works. `work` must reach the same barriers in all threads:
 * whether memory was refused in it, all ask behind a barrier.
 */
void team_run(void (*work)(struct member *me, void *shared), void *shared);

/* Waits for all threads of the team. What they wrote before, all see afterwards. */
void team_barrier(struct team *team);

/* Waits for all threads of the teams of all ranks. */
void team_meet(const struct member *me);

/*
 * The sum of the value that every thread gives, added up in the same order by all, so that it is
 * the same number everywhere and in every run with as many threads. Also a barrier.
 */
double team_sum(struct member *member, double mine);
