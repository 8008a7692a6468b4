/*
 * Jobs of stayput share that do one thing each, good or bad; the first argument says which. They
 * end with 0 when they found what they should.
 */
#define _GNU_SOURCE
#include "stayput_share.h"

#include <omp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static struct stayput_share share;

static void sleep_ms(long ms) {
    const struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static double now_s(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int own_cpus(void) {
    cpu_set_t cpus;
    return sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : -1;
}

/* Whether `holds` comes to hold in time. */
static int comes_to(int (*holds)(void)) {
    for (int turn = 0; turn < 3000; turn++) {
        if (holds())
            return 1;
        sleep_ms(10);
    }
    return 0;
}

static int is_on_one(void) { return own_cpus() == 1; }

/* Whether the page names the CPUs on which we are. */
static int page_is_true(void) {
    uint64_t words[STAYPUT_SHARE_MOST_CPUS / 64];
    cpu_set_t cpus;
    const uint32_t count = stayput_share_cpus(&share, words, STAYPUT_SHARE_MOST_CPUS / 64);
    if (sched_getaffinity(0, sizeof cpus, &cpus) != 0 || (int)count != CPU_COUNT(&cpus))
        return 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if ((words[cpu / 64] >> (cpu % 64) & 1) != (uint64_t) !!CPU_ISSET(cpu, &cpus))
            return 0;
    return stayput_share_granted(&share, 0) == count;
}

static void spin(int threads, double seconds) {
    const double end_s = now_s() + seconds;
#pragma omp parallel num_threads(threads)
    while (now_s() < end_s)
        ;
}

/* Writes a line to a file that is there as a whole or not at all. */
static void tell(const char *path, const char *line) {
    char aside[4096];
    snprintf(aside, sizeof aside, "%s.new", path);
    FILE *file = fopen(aside, "w");
    fputs(line, file);
    fclose(file);
    rename(aside, path);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    const int joined = stayput_share_join(&share) == 0;
    if (strcmp(what, "alone") == 0)
        return joined || stayput_share_ask(&share, 7, 1000) != 7 ||
               stayput_share_granted(&share, 3) != 3;
    if (!joined)
        return 9;
    if (strcmp(what, "spin") == 0) { /* SECONDS: all CPUs that there are */
        stayput_share_want(&share, share.page->capacity);
        spin((int)share.page->capacity, atof(argv[2]));
        return 0;
    }
    if (strcmp(what, "die") == 0) {
        stayput_share_want(&share, share.page->capacity);
        spin((int)share.page->capacity, 0.3);
        raise(SIGKILL);
    }
    if (strcmp(what, "lie") == 0) { /* SECONDS: asks for all, again and again, and sleeps */
        for (const double end_s = now_s() + atof(argv[2]); now_s() < end_s; sleep_ms(7)) {
            stayput_share_want(&share, 1);
            stayput_share_want(&share, share.page->capacity + 1000);
        }
        return 0;
    }
    if (strcmp(what, "scribble") == 0) { /* writes over all of the page */
        memset(share.page, 0xff, sizeof *share.page);
        if (ftruncate((int)strtol(getenv("STAYPUT_SHARE"), NULL, 10), 0) == 0)
            return 1;
        for (int turn = 0; turn < 1000; turn++) {
            const uint64_t ring = 1;
            if (write(share.bell, &ring, sizeof ring) < 0)
                return 1;
        }
        spin(1, 0.3);
        return 0;
    }
    if (strcmp(what, "escape") == 0) { /* binds itself to all CPUs, and is brought back */
        cpu_set_t all;
        memset(&all, 0xff, sizeof all);
        if (sched_setaffinity(0, sizeof all, &all) != 0)
            return 1;
        return !comes_to(is_on_one);
    }
    if (strcmp(what, "page") == 0) {
        stayput_share_want(&share, share.page->capacity);
        return !comes_to(page_is_true);
    }
    if (strcmp(what, "openmp") == 0) {
        int wrong = 0;
        for (int region = 0; region < 20; region++) {
            const uint32_t threads = stayput_share_ask(&share, share.page->capacity, 100000);
            uint32_t count = 0;
#pragma omp parallel num_threads(threads) reduction(+ : count)
            count++;
            wrong += count != threads || threads < 1 || threads > share.page->capacity;
            stayput_share_want(&share, 1);
            sleep_ms(5);
        }
        return wrong != 0;
    }
    if (strcmp(what, "orphan") == 0) {
        if (fork() == 0) {
            setsid();
            if (fork() == 0)
                pause();
            _exit(0);
        }
        sleep_ms(300);
        return 0;
    }
    if (strcmp(what, "survive") == 0) { /* FILE: outlives the allocator */
        char line[64];
        const pid_t parent = getppid();
        stayput_share_ask(&share, share.page->capacity, 1000000);
        snprintf(line, sizeof line, "%d %d\n", getpid(), own_cpus());
        tell(argv[2], line);
        while (getppid() == parent)
            sleep_ms(5);
        const int before = own_cpus();
        stayput_share_want(&share, 1);
        const uint32_t granted = stayput_share_ask(&share, share.page->capacity, 10000);
        spin(1, 0.2);
        snprintf(line, sizeof line, "after %d %d %u\n", before, own_cpus(), granted);
        tell(argv[2], line);
        return 0;
    }
    return 8;
}
