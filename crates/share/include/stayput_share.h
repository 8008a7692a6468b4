/*
 * How a program tells `stayput share` how many CPUs it can use, and learns which it has.
 *
 *     struct stayput_share share;
 *     stayput_share_join(&share);
 *     ...
 *     const uint32_t threads = stayput_share_ask(&share, 8, 1000);
 *     #pragma omp parallel num_threads(threads)
 *     ...
 *     stayput_share_want(&share, 1);
 *
 * There is nothing to link. A program that isn't run by `stayput share` has as many CPUs as it asks
 * for, at no cost. All functions may be called by any thread at any time, and by child processes,
 * which inherit the page.
 *
 * The page and the bell are inherited file descriptors. STAYPUT_SHARE holds their numbers,
 * "PAGE,BELL": programs in other languages map the page, whose layout is struct stayput_share_page,
 * and write 8 bytes, the number 1, to the bell. Nothing in the page is trusted by the allocator but
 * `wanted`, which it bounds by what it sees the job use.
 *
 * Linux, GCC or Clang, C99 or later or C++. MIT OR Apache-2.0.
 */
#ifndef STAYPUT_SHARE_H
#define STAYPUT_SHARE_H

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* "STAY" in the order of a little-endian machine, and the version of this layout. */
#define STAYPUT_SHARE_MAGIC 0x59415453u
#define STAYPUT_SHARE_VERSION 1u
/* Bits in the set of CPUs: the kernel's own limit. */
#define STAYPUT_SHARE_MOST_CPUS 8192

/*
 * What job and allocator share. Numbers are in the machine's byte order. `generation` rises by 2
 * with each answer, is odd while `cpus` is being written, and is a futex. Bit c of cpus[c / 64] is
 * CPU c, by the kernel's number. `wanted` is for the job to write, and all else for the allocator.
 */
struct stayput_share_page {
    uint32_t magic;      /* offset 0: STAYPUT_SHARE_MAGIC */
    uint32_t version;    /* offset 4: STAYPUT_SHARE_VERSION */
    uint32_t capacity;   /* offset 8: CPUs that are shared out: the most that it pays to want */
    uint32_t wanted;     /* offset 12: CPUs that the job can use now; 0 until it says so */
    uint32_t granted;    /* offset 16: CPUs that it has */
    uint32_t heard;      /* offset 20: the last `wanted` that the allocator has answered */
    uint32_t generation; /* offset 24: of the answer */
    uint32_t reserved;   /* offset 28: nothing yet */
    uint64_t cpus[STAYPUT_SHARE_MOST_CPUS / 64]; /* offset 32: which CPUs it has */
};

/* A program's end of it. */
struct stayput_share {
    struct stayput_share_page *page; /* NULL without an allocator */
    int bell;
};

/* Finds the page that this process inherited. 0, or -1 without one: then all that is asked for is
 * granted. */
static inline int stayput_share_join(struct stayput_share *share) {
    const char *text = getenv("STAYPUT_SHARE");
    char *end;
    struct stat status;
    long descriptor, bell;
    void *page;
    share->page = NULL;
    share->bell = -1;
    if (text == NULL)
        return -1;
    descriptor = strtol(text, &end, 10);
    if (end == text || *end != ',' || descriptor < 0 || descriptor > INT_MAX)
        return -1;
    text = end + 1;
    bell = strtol(text, &end, 10);
    if (end == text || *end != '\0' || bell < 0 || bell > INT_MAX)
        return -1;
    /* Who started us may have closed the descriptors, and others may have their numbers by now. */
    if (fstat((int)descriptor, &status) != 0 || !S_ISREG(status.st_mode) ||
        status.st_size < (off_t)sizeof(struct stayput_share_page))
        return -1;
    page = mmap(NULL, sizeof(struct stayput_share_page), PROT_READ | PROT_WRITE, MAP_SHARED,
                (int)descriptor, 0);
    if (page == MAP_FAILED)
        return -1;
    share->page = (struct stayput_share_page *)page;
    if (share->page->magic != STAYPUT_SHARE_MAGIC ||
        share->page->version != STAYPUT_SHARE_VERSION) {
        munmap(page, sizeof(struct stayput_share_page));
        share->page = NULL;
        return -1;
    }
    share->bell = (int)bell;
    return 0;
}

/* CPUs that the job has now. `otherwise` without an allocator. */
static inline uint32_t stayput_share_granted(const struct stayput_share *share,
                                             uint32_t otherwise) {
    return share->page == NULL ? otherwise
                               : __atomic_load_n(&share->page->granted, __ATOMIC_ACQUIRE);
}

/*
 * Says that the job can use `cpus` CPUs from now on, at least 1: as many as it has threads with
 * something to do. It doesn't wait: the allocator answers some tens of microseconds later. Saying
 * the same again costs a load.
 */
static inline void stayput_share_want(const struct stayput_share *share, uint32_t cpus) {
    const uint64_t ring = 1;
    const uint32_t wanted = cpus == 0 ? 1 : cpus;
    if (share->page == NULL || __atomic_load_n(&share->page->wanted, __ATOMIC_RELAXED) == wanted)
        return;
    __atomic_store_n(&share->page->wanted, wanted, __ATOMIC_SEQ_CST);
    /* Where this fails nobody listens any more, and the job keeps what it has. */
    if (write(share->bell, &ring, sizeof ring) != (ssize_t)sizeof ring)
        return;
}

/* Waits until `generation` has passed or `timeout_us` are over; the generation then. */
static inline uint32_t stayput_share_wait(const struct stayput_share *share, uint32_t generation,
                                          uint32_t timeout_us) {
    struct timespec timeout;
    uint32_t now;
    if (share->page == NULL)
        return generation;
    timeout.tv_sec = (time_t)(timeout_us / 1000000u);
    timeout.tv_nsec = (long)(timeout_us % 1000000u) * 1000;
    now = __atomic_load_n(&share->page->generation, __ATOMIC_ACQUIRE);
    if (now == generation)
        syscall(SYS_futex, &share->page->generation, FUTEX_WAIT, generation, &timeout, NULL, 0);
    return __atomic_load_n(&share->page->generation, __ATOMIC_ACQUIRE);
}

/*
 * Says the same as stayput_share_want, and waits for the answer, at most `timeout_us`: the number
 * of CPUs that the job has then, between 1 and `cpus`. Without an allocator `cpus`.
 */
static inline uint32_t stayput_share_ask(const struct stayput_share *share, uint32_t cpus,
                                         uint32_t timeout_us) {
    const uint32_t wanted = cpus == 0 ? 1 : cpus;
    uint32_t granted;
    if (share->page == NULL)
        return wanted;
    stayput_share_want(share, wanted);
    /* Twice at most: an answer to what was wanted before may come first. */
    for (int turn = 0; turn < 2; turn++) {
        const uint32_t generation = __atomic_load_n(&share->page->generation, __ATOMIC_ACQUIRE);
        if (__atomic_load_n(&share->page->heard, __ATOMIC_ACQUIRE) == wanted)
            break;
        stayput_share_wait(share, generation, timeout_us);
    }
    granted = stayput_share_granted(share, wanted);
    return granted == 0 ? 1 : granted < wanted ? granted : wanted;
}

/*
 * Which CPUs the job has: bit c of word c / 64 of `cpus`, of which there are `words`, is CPU c. How
 * many there are; 0 without an allocator, or where one died while it wrote them.
 */
static inline uint32_t stayput_share_cpus(const struct stayput_share *share, uint64_t *cpus,
                                          size_t words) {
    if (share->page == NULL)
        return 0;
    for (int turn = 0; turn < 1000; turn++) {
        const uint32_t before = __atomic_load_n(&share->page->generation, __ATOMIC_ACQUIRE);
        uint32_t count = 0;
        if (before % 2 != 0)
            continue;
        for (size_t word = 0; word < words; word++) {
            cpus[word] = word < STAYPUT_SHARE_MOST_CPUS / 64
                             ? __atomic_load_n(&share->page->cpus[word], __ATOMIC_ACQUIRE)
                             : 0;
            count += (uint32_t)__builtin_popcountll(cpus[word]);
        }
        if (__atomic_load_n(&share->page->generation, __ATOMIC_ACQUIRE) == before)
            return count;
    }
    return 0;
}

#ifdef __cplusplus
}
#endif

#endif
