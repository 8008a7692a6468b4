#include "progress.h"

#include "share.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * About 200 and 20 us on processors whose pause takes 140 cycles. The longer one is what threads
 * in step differ by when each has a CPU; being woken up takes as long again.
 */
enum { SPINS = 4000, SPINS_IN_A_CROWD = 400 };

static int spins = SPINS;

void progress_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static inline bool reached(uint32_t count, uint32_t wanted) {
    return (int32_t)(count - wanted) >= 0;
}

void progress_set_crowded(bool crowded) { spins = crowded ? SPINS_IN_A_CROWD : SPINS; }

/* Under an allocator of CPUs it depends on how many there are just now. */
int progress_spins(void) { return share_is_crowded() ? SPINS_IN_A_CROWD : spins; }

void progress_init(struct progress *progress) {
    atomic_init(&progress->count, 0);
    atomic_init(&progress->sleeping, 0);
}

void progress_announce(struct progress *progress, uint32_t count) {
    atomic_store(&progress->count, count);
    if (atomic_load(&progress->sleeping) != 0)
        syscall(SYS_futex, &progress->count, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void progress_await(struct progress *progress, uint32_t wanted) {
    const int most = progress_spins();
    for (int spin = 0; spin < most; spin++) {
        if (reached(atomic_load_explicit(&progress->count, memory_order_acquire), wanted))
            return;
        progress_relax();
    }
    share_sleep();
    /* Counted first, and the kernel looks at the count again: no wake-up can be missed. */
    atomic_fetch_add(&progress->sleeping, 1);
    for (uint32_t count; !reached(count = atomic_load(&progress->count), wanted);)
        syscall(SYS_futex, &progress->count, FUTEX_WAIT_PRIVATE, count, NULL, NULL, 0);
    atomic_fetch_sub(&progress->sleeping, 1);
    share_wake();
}
