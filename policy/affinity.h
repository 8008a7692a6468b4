/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */

/*
 * The affinity scheduler's rule: what the priority of a process is worth to a CPU that searches the
 * run queue.
 *
 * Included unchanged by the simulator (crates/sim) and by the BPF scheduler: no libc, no system
 * headers, no allocation, no floating point, no loops. README.md has the units and the algebra.
 */
#ifndef STAYPUT_AFFINITY_H
#define STAYPUT_AFFINITY_H

/* Own types: BPF programs take theirs from vmlinux.h, the simulator from <stdint.h>. */
typedef unsigned int stayput_u32;
typedef unsigned long long stayput_u64;
typedef int stayput_s32;

/* Boosts of the report's light and heavy affinity, for phi_p and phi_t alike, in units of priority.
 */
#define STAYPUT_PHI_LIGHT 6
#define STAYPUT_PHI_HEAVY 16

/* Largest values, so that a priority in half units, with or without a boost, fits 32 bits. */
#define STAYPUT_CPU_TICKS_MAX (1U << 30)
#define STAYPUT_BASE_MAX (1U << 20)
#define STAYPUT_PHI_MAX (1U << 20)

/* One in the fixed-point numbers of the load average, as in the kernels that have one. */
#define STAYPUT_LOAD_ONE 2048U

/* How close the CPU that searches is to the one that the process last ran on. */
enum stayput_distance {
    STAYPUT_SAME_CPU,
    STAYPUT_SAME_CORE,
    STAYPUT_SAME_L2, /* or the same module */
    STAYPUT_SAME_L3,
    STAYPUT_SAME_NODE,
    STAYPUT_FAR, /* further away, or it never ran: no boost */
    STAYPUT_DISTANCES,
};

/* Who gets phi_t. */
enum stayput_time_boost {
    /* The process that has just run on the searching CPU, and no other. */
    STAYPUT_TIME_SIMPLE,
    /* All that last ran there, less the more ticks they have been away. */
    STAYPUT_TIME_COMPLEX,
};

/* What becomes of the accumulated ticks at the end of each decay period. */
enum stayput_decay {
    STAYPUT_DECAY_NONE,
    STAYPUT_DECAY_HALF,     /* System V: cpu / 2 */
    STAYPUT_DECAY_BSD,      /* 4.3BSD: cpu * 2L / (2L + 1), L being the load average */
    STAYPUT_DECAY_SUBTRACT, /* cpu - n */
};

/* The boosts, in units of priority. */
struct stayput_phi {
    /* For processor. The report's simple form has phi_p for the same CPU and 0 elsewhere; must not
     * rise with distance. */
    stayput_u32 by_distance[STAYPUT_DISTANCES];
    /* For time. */
    stayput_u32 time;
    /* enum stayput_time_boost */
    stayput_u32 time_boost;
    /* How much of phi_t a tick away takes, where the boost is complex: 1 in the report; 0 keeps it
     * whole. */
    stayput_u32 fade_per_tick;
};

/* prio = base + cpu / 2, in half units so that nothing is rounded: 2 * base + cpu. The lowest runs
 * first. */
static inline stayput_s32 stayput_prio(stayput_u32 base, stayput_u32 cpu_ticks) {
    return (stayput_s32)(2 * base + cpu_ticks);
}

/* cpu after so many clock ticks found the process running. */
static inline stayput_u32 stayput_charge(stayput_u32 cpu_ticks, stayput_u32 ticks) {
    if (ticks > STAYPUT_CPU_TICKS_MAX - cpu_ticks)
        return STAYPUT_CPU_TICKS_MAX;
    return cpu_ticks + ticks;
}

/*
 * cpu after a decay period, rounded down to whole ticks. The argument is the load average in units
 * of 1 / STAYPUT_LOAD_ONE for BSD, and the ticks to take away for SUBTRACT.
 */
static inline stayput_u32 stayput_decay(stayput_u32 cpu_ticks, enum stayput_decay rule,
                                        stayput_u32 argument) {
    stayput_u64 twice_load = 2 * (stayput_u64)argument;

    switch (rule) {
    case STAYPUT_DECAY_HALF:
        return cpu_ticks / 2;
    case STAYPUT_DECAY_BSD:
        return (stayput_u32)(cpu_ticks * twice_load / (twice_load + STAYPUT_LOAD_ONE));
    case STAYPUT_DECAY_SUBTRACT:
        return cpu_ticks > argument ? cpu_ticks - argument : 0;
    case STAYPUT_DECAY_NONE:
        break;
    }
    return cpu_ticks;
}

/*
 * What is taken off the priority of a process while one CPU searches, in half units.
 *
 * just_ran: it is the process that has just run on that CPU; ticks_away: clock ticks since it last
 * ran there, of use only where it last ran on that CPU.
 */
static inline stayput_s32 stayput_boost(const struct stayput_phi *phi,
                                        enum stayput_distance distance, int just_ran,
                                        stayput_u32 ticks_away) {
    stayput_u32 boost = (stayput_u32)distance < STAYPUT_DISTANCES ? phi->by_distance[distance] : 0;

    if (phi->time_boost == STAYPUT_TIME_COMPLEX) {
        stayput_u64 faded = (stayput_u64)phi->fade_per_tick * ticks_away;

        if (distance == STAYPUT_SAME_CPU && faded < phi->time)
            boost += phi->time - (stayput_u32)faded;
    } else if (just_ran) {
        boost += phi->time;
    }
    return (stayput_s32)(2 * boost);
}

/* Whether a runs before b: the lower boosted priority, and of equals the one that has been in the
 * queue longer. */
static inline int stayput_before(stayput_s32 a_prio, stayput_u64 a_queued, stayput_s32 b_prio,
                                 stayput_u64 b_queued) {
    return a_prio != b_prio ? a_prio < b_prio : a_queued < b_queued;
}

#endif
