/* SPDX-License-Identifier: GPL-2.0-only */

/* What is seen of every process: the simulator's numbers, counted on each CPU apart and added up by
 * the loader. */
#ifndef STAYPUT_STATS_H
#define STAYPUT_STATS_H

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct seen);
} seen SEC(".maps");

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

/* Where each CPU is; set by the loader. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, MAX_CPUS);
    __type(key, u32);
    __type(value, struct place);
} places SEC(".maps");

static __always_inline struct seen *seen_here(void) {
    u32 zero = 0;

    return bpf_map_lookup_elem(&seen, &zero);
}

#define COUNT(field)                                                                               \
    do {                                                                                           \
        struct seen *here_ = seen_here();                                                          \
        if (here_)                                                                                 \
            here_->field++;                                                                        \
    } while (0)

/* Records a time. Bins 0 to STEPS - 1 are us; beyond, each power of two has STEPS. */
static __noinline void see_time(struct times *times, u64 ns) {
    u64 us = ns / 1000;
    u32 bin = us;

    if (!times)
        return;
    if (us >= STEPS) {
        u32 octave = highest_bit(us) - 5; /* log2(STEPS) */

        bin = (octave + 1) * STEPS + ((us >> octave) - STEPS);
    }
    if (bin >= BINS)
        bin = BINS - 1;
    barrier_var(bin);
    if (bin < BINS)
        times->bins[bin]++;
    times->count++;
    times->sum_ns += ns;
    if (ns > times->longest_ns)
        times->longest_ns = ns;
}

/* At which level of the machine tree two CPUs meet: 0 is the same CPU, LEVELS + 1 nothing but the
 * machine. */
static __always_inline u32 meeting(s32 a, s32 b) {
    u32 first = a, second = b;
    struct place *there, *here;

    if (a == b)
        return 0;
    there = bpf_map_lookup_elem(&places, &first);
    here = bpf_map_lookup_elem(&places, &second);
    if (!there || !here)
        return LEVELS + 1;
    for (int level = 0; level < LEVELS; level++)
        if (there->group[level] == here->group[level])
            return level + 1;
    return LEVELS + 1;
}

/* The rule's word for it. Its node is the nearest of node and package: what lies beyond is far. */
static __always_inline enum stayput_distance distance(s32 last, s32 cpu) {
    u32 meets;

    if (last == NOWHERE)
        return STAYPUT_FAR;
    meets = meeting(last, cpu);
    return meets < STAYPUT_FAR ? meets : STAYPUT_FAR;
}

static __always_inline void see_interval(struct standing *own, u64 now) {
    struct seen *here = seen_here();

    if (here && now > own->interval_from_ns)
        see_time(&here->intervals, now - own->interval_from_ns);
    own->interval_from_ns = now;
}

/* Who is next was searched for since `from_ns`. Not by the run queue's clock, which stands
 * meanwhile. */
static __always_inline void see_search(u64 from_ns) {
    struct seen *here = seen_here();

    if (here)
        see_time(&here->searches, 1000 * (bpf_ktime_get_ns() - from_ns));
}

/* A process starts to run on a CPU. */
static __always_inline void see_start(struct task_struct *p, struct standing *own, s32 cpu,
                                      u64 now) {
    struct seen *here = seen_here();
    u32 zero = 0;
    struct slice *slice = bpf_map_lookup_elem(&slices, &zero);

    own->charged_until_ns = now;
    own->interval_from_ns = now;
    if (!here || !slice)
        return;
    here->dispatches++;
    if (now > own->queued_ns)
        see_time(&here->waits, now - own->queued_ns);
    if (own->cpu != NOWHERE && own->cpu != cpu) {
        u32 meets = meeting(own->cpu, cpu);

        if (meets < MEETINGS)
            here->migrations[meets]++;
    }
    if (p->flags & PF_KTHREAD)
        return;
    if (slice->pid != p->pid) {
        if (slice->pid && slice->ran_ns)
            see_time(&here->slices, slice->ran_ns);
        here->switches++;
        slice->pid = p->pid;
        slice->ran_ns = 0;
    }
}

/* A process that was charged until now stops running. */
static __always_inline void see_run(struct task_struct *p, u64 ran_ns) {
    u32 zero = 0;
    struct slice *slice = bpf_map_lookup_elem(&slices, &zero);

    if (slice && slice->pid == p->pid)
        slice->ran_ns += ran_ns;
}

#endif
