/*
 * A count that rises, and threads that wait until it has risen far enough. They spin for a while,
 * then sleep: spinning on would take whole time slices from the very thread that is waited for
 * when another program shares a CPU with it, or when threads outnumber CPUs.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Alone on its cache line. The count may wrap around; no two that meet are 2^31 apart. */
struct progress {
    _Alignas(64) _Atomic uint32_t count;
    _Atomic uint32_t sleeping; /* threads that may have to be woken */
};

/* Says, before anyone waits, whether threads outnumber CPUs; then they spin for less. */
void progress_set_crowded(bool crowded);

/* How often a wait looks whether it is over before it sleeps, and what passes in between. */
int progress_spins(void);
void progress_relax(void);

/* Starts at 0. */
void progress_init(struct progress *progress);

/* Raises the count to `count`. Who waits for it sees all that was written before. */
void progress_announce(struct progress *progress, uint32_t count);

/* Waits until the count has reached `wanted`. */
void progress_await(struct progress *progress, uint32_t wanted);
