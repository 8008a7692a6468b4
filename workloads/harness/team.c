#define _GNU_SOURCE /* for sets of CPUs */

#include "team.h"

#include "memory.h"
#include "ranks.h"
#include "share.h"

#include <omp.h>
#include <sched.h>
#include <stdatomic.h>

enum { SUM_STRIDE = 64 / sizeof(double) }; /* one sum a cache line */

static void team_create(struct team *team, int threads) {
    team->threads = threads;
    team->partial = memory_pages(2 * (size_t)threads * SUM_STRIDE, sizeof *team->partial);
    atomic_init(&team->arrived, 0);
    progress_init(&team->generation);
}

/* The CPUs that this thread may use, added to those of others. Unknown ones are not counted. */
static void add_cpus(cpu_set_t *cpus) {
    cpu_set_t mine;
    if (sched_getaffinity(0, sizeof mine, &mine) == 0)
#pragma omp critical
        CPU_OR(cpus, cpus, &mine);
}

void team_run(void (*work)(struct member *me, void *shared), void *shared) {
    struct team team;
    cpu_set_t cpus;
    bool stands;
    CPU_ZERO(&cpus);
#pragma omp parallel
    {
        /* Of all threads, since a bound one sees only its own place. */
        add_cpus(&cpus);
#pragma omp barrier
#pragma omp master
        {
            team_create(&team, omp_get_num_threads());
            stands = !memory_refused();
            ranks_unite_on_node(&cpus, sizeof cpus);
            const uint64_t threads = ranks_total_on_node((uint64_t)omp_get_num_threads());
            /* Where CPUs come and go, those of the beginning say nothing. */
            progress_set_crowded(!share_is_joined() && (uint64_t)CPU_COUNT(&cpus) < threads);
            share_team(omp_get_num_threads());
        }
#pragma omp barrier
        if (stands) {
            struct member me = {&team, omp_get_thread_num(), 0};
            work(&me, shared);
        }
    }
    share_team(1);
}

void team_barrier(struct team *team) {
    const uint32_t next = atomic_load_explicit(&team->generation.count, memory_order_relaxed) + 1;
    if (atomic_fetch_add(&team->arrived, 1) + 1 == (uint32_t)team->threads) {
        atomic_store_explicit(&team->arrived, 0, memory_order_relaxed);
        progress_announce(&team->generation, next);
    } else {
        progress_await(&team->generation, next);
    }
}

void team_meet(const struct member *me) {
    if (ranks_count() > 1) {
        team_barrier(me->team);
        if (me->thread == 0)
            ranks_barrier();
    }
    team_barrier(me->team);
}

double team_sum(struct member *member, double mine) {
    const int threads = member->team->threads;
    double *partial = member->team->partial + (size_t)member->turn * (size_t)threads * SUM_STRIDE;
    /* Taking turns, one barrier is enough: before anyone writes here again, all have read. */
    member->turn ^= 1;
    partial[member->thread * SUM_STRIDE] = mine;
    team_barrier(member->team);
    double sum = 0.0;
    for (int thread = 0; thread < threads; thread++)
        sum += partial[thread * SUM_STRIDE];
    return sum;
}
