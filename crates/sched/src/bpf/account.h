/* SPDX-License-Identifier: GPL-2.0-only */

/*
 * What is kept of each process, and how it is charged.
 *
 * Two accounts. `cpu_ticks` is the rule's: ticks of CPU time that decay, from which priorities
 * follow. `served_ns` is what the report doesn't have: CPU time by weight against a clock that runs
 * as fast as a fair share of the machine (`fair_ns`), as in fair-queueing schedulers. It decides
 * nothing as long as nobody is behind by more than a limit; see queue.h.
 *
 * Nice values and control groups are weights: CPU time counts the more the less weight a process
 * has.
 */
#ifndef STAYPUT_ACCOUNT_H
#define STAYPUT_ACCOUNT_H

#define NOWHERE (-1)
#define USUAL_WEIGHT 100U
/* Decay periods after which nothing is left of any account. */
#define ALL_PERIODS 32

/* What is kept of a process. */
struct standing {
    u64 served_ns;        /* on the fair clock, while it can run; else what it is behind by */
    u64 part_ns;          /* CPU time by weight that is no whole tick yet */
    u64 charged_until_ns; /* while it runs */
    u64 left_ns;          /* when it last stopped running */
    u64 queued_ns;        /* since when it has waited */
    u64 order;            /* its place among those that wait; 0 while it doesn't */
    u64 queue;            /* in which it waits */
    u64 awake_ns;         /* CPU time since it could run */
    u64 interval_from_ns; /* the scheduler's last look at it while it ran */
    u32 cpu_ticks;
    u32 period; /* up to which cpu_ticks has decayed */
    s32 cpu;    /* where it last ran, or NOWHERE */
    u32 weight; /* its own */
    u32 due;    /* its own weight, or what its control group leaves it */
    u32 behind; /* while it waits: the CPU it last ran on, and 1; else 0 */
    bool can_run;
};

struct {
    __uint(type, BPF_MAP_TYPE_TASK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct standing);
} standings SEC(".maps");

/* A control group's weight, and what its processes that can run weigh together. */
struct share {
    u64 running_weight;
    u64 weight;
};

struct {
    __uint(type, BPF_MAP_TYPE_CGRP_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct share);
} shares SEC(".maps");

/* How many of those that last ran on a CPU wait. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, MAX_CPUS);
    __type(key, u32);
    __type(value, s64);
} crowds SEC(".maps");

u64 fair_ns;                 /* the fair clock */
s64 running_weight;          /* of all that can run */
s64 running_shares;          /* of all control groups of which something can run */
s64 running_count;           /* of all that can run */
u32 period;                  /* decay periods so far */
u64 next_decay_ns;           /* when the next one begins */
u64 load = STAYPUT_LOAD_ONE; /* per CPU, over the last minute, in 1 / STAYPUT_LOAD_ONE */

static __always_inline struct standing *standing(struct task_struct *p) {
    return bpf_task_storage_get(&standings, p, 0, 0);
}

static __always_inline s64 crowd(u32 cpu) {
    s64 *crowd = bpf_map_lookup_elem(&crowds, &cpu);

    return crowd ? *crowd : 0;
}

/* A process waits no longer, or waits as one that last ran where it did. */
static __always_inline void line_up(struct standing *own, bool waits) {
    u32 cpu = own->behind - 1;
    s64 *crowd;

    if (own->behind) {
        crowd = bpf_map_lookup_elem(&crowds, &cpu);
        if (crowd)
            __sync_fetch_and_add(crowd, -1);
    }
    own->behind = waits && own->cpu != NOWHERE ? own->cpu + 1 : 0;
    cpu = own->cpu;
    if (own->behind) {
        crowd = bpf_map_lookup_elem(&crowds, &cpu);
        if (crowd)
            __sync_fetch_and_add(crowd, 1);
    }
}

/* How far a process is behind its fair share; negative when it is ahead. */
static __always_inline s64 behind_ns(const struct standing *own) {
    return (s64)(fair_ns - own->served_ns);
}

/* `value`, or the nearest of the two limits. */
static __always_inline s64 clamp_s64(s64 value, s64 least, s64 most) {
    return value < least ? least : value > most ? most : value;
}

/* What its group leaves a process: its weight, times the group's part of all groups over its
 * processes' part of all processes. */
static __always_inline void weigh(struct task_struct *p, struct standing *own) {
    struct cgroup *cgroup;
    struct share *share;

    own->due = own->weight;
    if (!by_cgroup || !bpf_ksym_exists(scx_bpf_task_cgroup))
        return;
    cgroup = scx_bpf_task_cgroup(p);
    if (!cgroup)
        return;
    share = bpf_cgrp_storage_get(&shares, cgroup, 0, 0);
    if (share && running_shares > 0 && share->running_weight > 0 && running_weight > 0) {
        u64 due = own->weight * share->weight * (u64)running_weight / (u64)running_shares /
                  share->running_weight;

        own->due = due > 0 ? due : 1;
    }
    bpf_cgroup_release(cgroup);
}

/* Adds what a process weighs to its group, or takes it away. */
static __always_inline void weigh_group(struct task_struct *p, s64 weight) {
    struct cgroup *cgroup;
    struct share *share;

    if (!by_cgroup || !bpf_ksym_exists(scx_bpf_task_cgroup))
        return;
    cgroup = scx_bpf_task_cgroup(p);
    if (!cgroup)
        return;
    share = bpf_cgrp_storage_get(&shares, cgroup, 0, 0);
    if (share) {
        s64 before = __sync_fetch_and_add((s64 *)&share->running_weight, weight);

        if (before == 0)
            __sync_fetch_and_add(&running_shares, share->weight);
        else if (before + weight == 0)
            __sync_fetch_and_add(&running_shares, -(s64)share->weight);
    }
    bpf_cgroup_release(cgroup);
}

/* A group's weight changes. What it counts for among all must be what is taken away when nothing in
 * it can run any more. */
static __always_inline void reweigh_group(struct share *share, u32 weight) {
    u64 before = __sync_lock_test_and_set(&share->weight, weight);

    if (share->running_weight > 0)
        __sync_fetch_and_add(&running_shares, (s64)weight - (s64)before);
}

/* A process can run from now on. */
static __always_inline void join(struct task_struct *p, struct standing *own) {
    if (own->can_run)
        return;
    own->can_run = true;
    own->awake_ns = 0;
    own->queued_ns = now_ns();
    own->weight = p->scx.weight ?: USUAL_WEIGHT;
    own->served_ns = fair_ns - own->served_ns;
    __sync_fetch_and_add(&running_weight, own->weight);
    __sync_fetch_and_add(&running_count, 1);
    weigh_group(p, own->weight);
    weigh(p, own);
}

/* A process can't run any more. What it is behind by is kept, so that sleeping gains and loses
 * nothing. */
static __always_inline void leave(struct task_struct *p, struct standing *own) {
    s64 limit = share_limit_ns;

    if (!own->can_run)
        return;
    own->can_run = false;
    line_up(own, false);
    own->served_ns = clamp_s64(behind_ns(own), -limit, limit);
    __sync_fetch_and_add(&running_weight, -(s64)own->weight);
    __sync_fetch_and_add(&running_count, -1);
    weigh_group(p, -(s64)own->weight);
}

static __always_inline void reweigh(struct task_struct *p, struct standing *own, u32 weight) {
    s64 more = (s64)weight - own->weight;

    if (own->can_run) {
        __sync_fetch_and_add(&running_weight, more);
        weigh_group(p, more);
    }
    own->weight = weight;
    weigh(p, own);
}

/* Charges a process for what it has run since the last time, and tells how much that is. */
static __always_inline u64 charge(struct standing *own, u64 now) {
    u64 ran_ns = now > own->charged_until_ns ? now - own->charged_until_ns : 0;
    u64 weighted_ns = ran_ns * USUAL_WEIGHT / (own->due ?: USUAL_WEIGHT);
    s64 all = running_weight;
    s64 limit = 2 * far_share_limit_ns;

    own->charged_until_ns = now;
    own->awake_ns += ran_ns;
    own->part_ns += weighted_ns;
    own->cpu_ticks = stayput_charge(own->cpu_ticks, own->part_ns / tick_ns);
    own->part_ns %= tick_ns;
    if (all > 0)
        __sync_fetch_and_add(&fair_ns, ran_ns * USUAL_WEIGHT / (u64)all);
    /* Neither debt nor credit is kept for ever: a process bound to a crowded CPU can't catch up,
     * and one alone doesn't owe. */
    own->served_ns = fair_ns - clamp_s64(behind_ns(own) - (s64)weighted_ns, -limit, limit);
    return ran_ns;
}

/* Lets the account of a process decay by the periods that have gone by. */
static __always_inline void decay(struct standing *own) {
    u32 argument = decay_rule == STAYPUT_DECAY_BSD ? load : decay_ticks;
    u32 now = period;

    if (decay_rule == STAYPUT_DECAY_NONE || own->period == now)
        return;
    for (int i = 0; i < ALL_PERIODS && own->period != now; i++, own->period++)
        own->cpu_ticks = stayput_decay(own->cpu_ticks, decay_rule, argument);
    if (own->period != now)
        own->cpu_ticks = 0;
    own->period = now;
}

#endif
