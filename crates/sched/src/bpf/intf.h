/* SPDX-License-Identifier: GPL-2.0-only */

/*
 * What the scheduler and its loader exchange, stated once: bindgen makes the loader's structures,
 * sizes and names of counters of this file (build.rs).
 */
#ifndef STAYPUT_INTF_H
#define STAYPUT_INTF_H

#include "types.h"

#define MAX_CPUS 1024

/* Levels of the machine tree at which two CPUs can meet, from the nearest: core, L2, L3, node,
 * package, group. Below all of them is the CPU itself, above all of them the machine. */
#define LEVELS 6
#define MEETINGS (LEVELS + 2)

/* Where a CPU is: for each level the lowest CPU that shares it, plus 1. 0 is unknown, so that a CPU
 * of which the loader has said nothing is near to no other. */
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

enum counter {
    COUNTER_DISPATCHES,
    COUNTER_SWITCHES,
    COUNTER_IDLE_DISPATCHES, /* to a CPU that was idle, past the queue */
    COUNTER_MOVES_LOST,      /* another CPU was faster */
    COUNTER_OVERDUE_WAKES,   /* taken for having waited since they woke */
    COUNTER_OVERDUE_WAITS,   /* taken for having waited far too long */
    COUNTER_OVERDUE_SHARES,  /* taken for being behind the others */
    COUNTER_FALLBACKS,       /* left to the kernel, or told apart no longer */
    COUNTERS,
};

/* What was counted on one CPU. */
struct cpu_stats {
    struct times slices;    /* effective time slices */
    struct times intervals; /* dispatch intervals */
    struct times waits;     /* runnable, but not running */
    struct times searches;  /* for who is next where anybody waits, in ps: bins are exact to 1 ns */
    u64 migrations[MEETINGS];
    u64 counters[COUNTERS];
};

/* Why the kernel ended the scheduler. */
struct ending {
    s32 kind; /* 0 while it runs */
    s64 code;
    char reason[128];
    char message[256];
};

#endif
