/* SPDX-License-Identifier: GPL-2.0-only */

/* What is measured of every process: the simulator's numbers, counted on each CPU apart and added
 * up by the loader. */
#ifndef STAYPUT_STATS_H
#define STAYPUT_STATS_H

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct cpu_stats);
} stats SEC(".maps");

/* Who holds each CPU's effective time slice, and how much of it was run. */
struct slice {
    s32 pid;
    u64 ran_ns;
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct slice);
} slices SEC(".maps");

/* Where each CPU is; set by the loader, again when a CPU comes online. */
struct place places[MAX_CPUS];

static __always_inline struct cpu_stats *stats_here(void) {
    u32 zero = 0;

    return bpf_map_lookup_elem(&stats, &zero);
}

static __always_inline void count(enum counter counter) {
    struct cpu_stats *here = stats_here();

    if (here)
        here->counters[counter]++;
}

/* Records a time; in which bin. Bins 0 to STEPS - 1 are us; beyond, each power of two has STEPS. */
__noinline u32 record_time(struct times *times, u64 ns) {
    u64 us = ns / 1000;
    u32 bin = us;

    /* For the verifier, which checks this function by itself. */
    if (!times)
        return 0;
    if (us >= STEPS) {
        u32 octave = highest_bit(us) - 5; /* log2(STEPS) */

        bin = (octave + 1) * STEPS + ((us >> octave) - STEPS);
    }
    if (bin >= BINS)
        bin = BINS - 1;
    /* Else the compiler leaves out the check that follows, without which the verifier refuses. */
    barrier_var(bin);
    if (bin < BINS)
        times->bins[bin]++;
    times->count++;
    times->sum_ns += ns;
    if (ns > times->longest_ns)
        times->longest_ns = ns;
    return bin;
}

/* At which level of the machine tree two CPUs meet: 0 is the same CPU, LEVELS + 1 nothing but the
 * machine. */
__noinline u32 meeting(s32 a, s32 b) {
    const struct place *there = &places[(u32)a % MAX_CPUS], *here = &places[(u32)b % MAX_CPUS];

    if (a == b)
        return 0;
    for (int level = 0; level < LEVELS; level++)
        if (there->group[level] && there->group[level] == here->group[level])
            return level + 1;
    return LEVELS + 1;
}

/* The rule's distance of a CPU from where a process last ran. Its node is the nearest of node and
 * package: what lies beyond is far. */
static __always_inline enum stayput_distance distance(s32 last, s32 cpu) {
    u32 meets;

    if (last == NOWHERE)
        return STAYPUT_FAR;
    meets = meeting(last, cpu);
    return meets < STAYPUT_FAR ? meets : STAYPUT_FAR;
}

static __always_inline void record_interval(struct task_ctx *tctx, u64 now) {
    struct cpu_stats *here = stats_here();

    if (here && now > tctx->interval_from_ns)
        record_time(&here->intervals, now - tctx->interval_from_ns);
    tctx->interval_from_ns = now;
}

/* Who is next was searched for since `from_ns`. Not by the run queue's clock, which stands
 * meanwhile. */
static __always_inline void record_search(u64 from_ns) {
    struct cpu_stats *here = stats_here();

    if (here)
        record_time(&here->searches, 1000 * (bpf_ktime_get_ns() - from_ns));
}

/* A process starts to run on a CPU. */
static __always_inline void record_start(struct task_struct *p, struct task_ctx *tctx, s32 cpu,
                                         u64 now) {
    struct cpu_stats *here = stats_here();
    u32 zero = 0;
    struct slice *slice = bpf_map_lookup_elem(&slices, &zero);

    tctx->charged_until_ns = now;
    tctx->interval_from_ns = now;
    if (!here || !slice)
        return;
    here->counters[COUNTER_DISPATCHES]++;
    if (now > tctx->queued_ns)
        record_time(&here->waits, now - tctx->queued_ns);
    if (tctx->cpu != NOWHERE && tctx->cpu != cpu) {
        u32 meets = meeting(tctx->cpu, cpu);

        if (meets < MEETINGS)
            here->migrations[meets]++;
    }
    /* Kernel threads run for moments: whoever ran before one goes on with its slice. */
    if (p->flags & PF_KTHREAD)
        return;
    if (slice->pid != p->pid) {
        if (slice->pid && slice->ran_ns)
            record_time(&here->slices, slice->ran_ns);
        here->counters[COUNTER_SWITCHES]++;
        slice->pid = p->pid;
        slice->ran_ns = 0;
    }
}

/* A process that was charged until now stops running. */
static __always_inline void record_run(struct task_struct *p, u64 ran_ns) {
    u32 zero = 0;
    struct slice *slice = bpf_map_lookup_elem(&slices, &zero);

    if (slice && slice->pid == p->pid)
        slice->ran_ns += ran_ns;
}

#endif
