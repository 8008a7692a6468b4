#include "team.h"

#include "memory.h"

#include <limits.h>
#include <linux/futex.h>
#include <omp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* About 20 us on processors whose pause takes 140 cycles: longer than threads in step differ. */
enum { SPINS = 400 };

enum { SUM_STRIDE = 64 / sizeof(double) }; /* one sum a cache line */

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

bool team_create(struct team *team, int threads) {
    team->threads = threads;
    team->partial = memory_pages(2 * (size_t)threads * SUM_STRIDE, sizeof *team->partial);
    atomic_init(&team->arrived, 0);
    atomic_init(&team->generation, 0);
    atomic_init(&team->sleeping, 0);
    return team->partial != NULL;
}

void team_destroy(struct team *team) { free(team->partial); }

bool team_run(void (*work)(struct member *me, void *shared), void *shared) {
    struct team team;
    bool stands = false;
#pragma omp parallel
    {
#pragma omp single
        stands = team_create(&team, omp_get_num_threads());
        if (stands) {
            struct member me = {&team, omp_get_thread_num(), 0};
            work(&me, shared);
        }
    }
    team_destroy(&team);
    return stands;
}

void team_barrier(struct team *team) {
    const uint32_t generation = atomic_load_explicit(&team->generation, memory_order_relaxed);
    if (atomic_fetch_add(&team->arrived, 1) + 1 == (uint32_t)team->threads) {
        atomic_store_explicit(&team->arrived, 0, memory_order_relaxed);
        atomic_store(&team->generation, generation + 1);
        if (atomic_load(&team->sleeping) != 0)
            syscall(SYS_futex, &team->generation, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
        return;
    }
    for (int spin = 0; spin < SPINS; spin++) {
        if (atomic_load_explicit(&team->generation, memory_order_acquire) != generation)
            return;
        relax();
    }
    /* Counted first, and the kernel looks at the generation again: no wake-up can be missed. */
    atomic_fetch_add(&team->sleeping, 1);
    while (atomic_load_explicit(&team->generation, memory_order_acquire) == generation)
        syscall(SYS_futex, &team->generation, FUTEX_WAIT_PRIVATE, generation, NULL, NULL, 0);
    atomic_fetch_sub(&team->sleeping, 1);
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
