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
struct task_ctx {
    u64 account;          /* ticks of CPU time, and the period up to which they have decayed */
    u64 served_ns;        /* on the fair clock, while it can run; else what it is behind by */
    u64 part_ns;          /* CPU time by weight that isn't in the account yet */
    u64 charged_until_ns; /* while it runs */
    u64 left_ns;          /* when it last stopped running */
    u64 queued_ns;        /* since when it has waited */
    u64 order;            /* its place among those that wait; 0 while it doesn't */
    u64 queue;            /* in which it waits */
    u64 awake_ns;         /* CPU time since it could run */
    u64 interval_from_ns; /* the scheduler's last look at it while it ran */
    s32 cpu;              /* where it last ran, or NOWHERE */
    u32 weight;           /* of the process itself */
    u32 due;              /* its weight, or what its control group leaves it */
    u32 counted;          /* while it waits: the CPU whose `queued` counts it, and 1; else 0 */
    bool can_run;
};

struct {
    __uint(type, BPF_MAP_TYPE_TASK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct task_ctx);
} task_ctxs SEC(".maps");

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

s64 queued[MAX_CPUS];        /* how many of those that last ran on a CPU wait */
u64 fair_ns;                 /* the fair clock */
s64 running_weight;          /* of all that can run */
s64 running_shares;          /* of all control groups of which something can run */
s64 running_count;           /* of all that can run */
u32 period;                  /* decay periods so far */
u64 next_decay_ns;           /* when the next one begins */
u64 load = STAYPUT_LOAD_ONE; /* per CPU, over the last minute, in 1 / STAYPUT_LOAD_ONE */

static __always_inline struct task_ctx *lookup_task_ctx(struct task_struct *p) {
    return bpf_task_storage_get(&task_ctxs, p, 0, 0);
}

/*
 * Ticks and period are one word, changed by compare-and-swap: a CPU that searches lets the accounts
 * of others' processes decay, while other CPUs do the same or charge them. Were they two, two CPUs
 * could step the period past now between them, or halve the ticks twice for one period.
 */
static __always_inline u64 packed_account(u32 decayed_until, u32 cpu_ticks) {
    return (u64)decayed_until << 32 | cpu_ticks;
}

static __always_inline u64 account(const struct task_ctx *tctx) {
    return *(const volatile u64 *)&tctx->account;
}

static __always_inline u32 cpu_ticks(const struct task_ctx *tctx) { return (u32)account(tctx); }

/* The remainder, here and with other arrays, is for the verifier: no CPU's number is larger. */
static __always_inline s64 *queued_on(u32 cpu) { return &queued[cpu % MAX_CPUS]; }

/* Counts a process among those that wait where it is to be counted, or no longer. */
static __always_inline void add_queued(const struct task_ctx *tctx, s64 by) {
    if (tctx->counted)
        __sync_fetch_and_add(queued_on(tctx->counted - 1), by);
}

/* A process waits no longer, or waits as one that last ran where it did. */
static __always_inline void update_queued(struct task_ctx *tctx, bool waits) {
    add_queued(tctx, -1);
    tctx->counted = waits && tctx->cpu != NOWHERE ? tctx->cpu + 1 : 0;
    add_queued(tctx, 1);
}

/* How far a process is behind its fair share; negative when it is ahead. */
static __always_inline s64 behind_ns(const struct task_ctx *tctx) {
    return (s64)(fair_ns - tctx->served_ns);
}

/* `value`, or the nearest of the two limits. */
static __always_inline s64 clamp_s64(s64 value, s64 least, s64 most) {
    return value < least ? least : value > most ? most : value;
}

/* What its group leaves a process: its weight, times the group's part of all groups over its
 * processes' part of all processes. */
static __always_inline void weigh(struct task_struct *p, struct task_ctx *tctx) {
    struct cgroup *cgroup;
    struct share *share;

    tctx->due = tctx->weight;
    if (!by_cgroup || !bpf_ksym_exists(scx_bpf_task_cgroup))
        return;
    cgroup = scx_bpf_task_cgroup(p);
    if (!cgroup)
        return;
    share = bpf_cgrp_storage_get(&shares, cgroup, 0, 0);
    if (share && running_shares > 0 && share->running_weight > 0 && running_weight > 0) {
        u64 due = tctx->weight * share->weight * (u64)running_weight / (u64)running_shares /
                  share->running_weight;

        tctx->due = due > 0 ? due : 1;
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
static __always_inline void join(struct task_struct *p, struct task_ctx *tctx) {
    if (tctx->can_run)
        return;
    tctx->can_run = true;
    tctx->awake_ns = 0;
    tctx->queued_ns = now_ns();
    tctx->weight = p->scx.weight ?: USUAL_WEIGHT;
    tctx->served_ns = fair_ns - tctx->served_ns;
    __sync_fetch_and_add(&running_weight, tctx->weight);
    __sync_fetch_and_add(&running_count, 1);
    weigh_group(p, tctx->weight);
    weigh(p, tctx);
}

/* A process can't run any more. What it is behind by is kept, so that sleeping gains and loses
 * nothing. */
static __always_inline void leave(struct task_struct *p, struct task_ctx *tctx) {
    s64 limit = share_limit_ns;

    if (!tctx->can_run)
        return;
    tctx->can_run = false;
    update_queued(tctx, false);
    tctx->served_ns = clamp_s64(behind_ns(tctx), -limit, limit);
    __sync_fetch_and_add(&running_weight, -(s64)tctx->weight);
    __sync_fetch_and_add(&running_count, -1);
    weigh_group(p, -(s64)tctx->weight);
}

static __always_inline void reweigh(struct task_struct *p, struct task_ctx *tctx, u32 weight) {
    s64 more = (s64)weight - tctx->weight;

    if (tctx->can_run) {
        __sync_fetch_and_add(&running_weight, more);
        weigh_group(p, more);
    }
    tctx->weight = weight;
    weigh(p, tctx);
}

/* Charges a process for what it has run since the last time; returns how much that is. */
static __always_inline u64 charge(struct task_ctx *tctx, u64 now) {
    u64 ran_ns = now > tctx->charged_until_ns ? now - tctx->charged_until_ns : 0;
    u64 weighted_ns = ran_ns * USUAL_WEIGHT / (tctx->due ?: USUAL_WEIGHT);
    s64 all = running_weight;
    s64 limit = 2 * far_share_limit_ns;
    u64 before = account(tctx);
    u64 ticks;

    tctx->charged_until_ns = now;
    tctx->awake_ns += ran_ns;
    tctx->part_ns += weighted_ns;
    ticks = tctx->part_ns / tick_ns;
    /* If another CPU lets the account decay meanwhile, the ticks are left for the next charge. */
    if (ticks && __sync_val_compare_and_swap(
                     &tctx->account, before,
                     packed_account(before >> 32, stayput_charge((u32)before, ticks))) == before)
        tctx->part_ns -= ticks * tick_ns;
    if (all > 0)
        __sync_fetch_and_add(&fair_ns, ran_ns * USUAL_WEIGHT / (u64)all);
    /* Neither debt nor credit is kept for ever: a process bound to a crowded CPU can't catch up,
     * and one alone doesn't owe. */
    tctx->served_ns = fair_ns - clamp_s64(behind_ns(tctx) - (s64)weighted_ns, -limit, limit);
    return ran_ns;
}

/* An account as it is in a decay period. */
__noinline u64 decayed(u64 before, u32 now) {
    u32 argument = decay_rule == STAYPUT_DECAY_BSD ? load : decay_ticks;
    u32 periods = now - (u32)(before >> 32);
    u32 ticks = (u32)before;

    /* Another CPU may have seen a later period than this one has. */
    if (decay_rule == STAYPUT_DECAY_NONE || (s32)periods <= 0)
        return before;
    if (periods > ALL_PERIODS)
        return packed_account(now, 0);
    for (u32 i = 0; i < ALL_PERIODS && i < periods; i++)
        ticks = stayput_decay(ticks, decay_rule, argument);
    return packed_account(now, ticks);
}

/* Lets the account of a process decay by the periods that have gone by. */
static __always_inline void decay(struct task_ctx *tctx) {
    u64 before = account(tctx);
    u64 after = decayed(before, period);

    /* If it has changed meanwhile, another CPU has let it decay, or it runs again. */
    if (after != before)
        __sync_val_compare_and_swap(&tctx->account, before, after);
}

#endif
