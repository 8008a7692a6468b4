/* SPDX-License-Identifier: GPL-2.0-only */

/* What the scheduler and its loader exchange. */
#ifndef STAYPUT_SHARED_H
#define STAYPUT_SHARED_H

#define MAX_CPUS 1024

/* Levels of the machine tree at which two CPUs can meet, as the loader's `Level`: core, L2, L3,
 * node, package, group; below all of them the CPU itself, above all of them the machine. */
#define LEVELS 6
#define MEETINGS (LEVELS + 2)

/* Where a CPU is: of each level, the lowest CPU that shares it. */
struct place {
    u32 group[LEVELS];
};

/* Histograms of times: linear in each of OCTAVES powers of two microseconds. */
#define OCTAVES 26
#define STEPS 32
#define BINS (OCTAVES * STEPS)

struct times {
    u64 count;
    u64 sum_ns;
    u64 longest_ns;
    u64 bins[BINS];
};

/* What one CPU has seen. */
struct seen {
    struct times slices;    /* effective time slices */
    struct times intervals; /* dispatch intervals */
    struct times waits;     /* runnable, but not running */
    struct times searches;  /* for who is next where anybody waits, in ps: bins are exact to 1 ns */
    u64 migrations[MEETINGS];
    u64 dispatches;
    u64 switches;
    u64 idle_dispatches; /* to a CPU that was idle, past the queue */
    u64 moves_lost;      /* another CPU was faster */
    u64 overdue_wakes;   /* taken for having waited since they woke */
    u64 overdue_waits;   /* taken for having waited far too long */
    u64 overdue_shares;  /* taken for being behind the others */
    u64 fallbacks;       /* left to the kernel, or told apart no longer */
};

struct ended {
    s32 kind;
    s64 code;
    char reason[128];
    char message[256];
};

#endif
