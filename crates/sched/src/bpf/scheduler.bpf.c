/* SPDX-License-Identifier: GPL-2.0-only */

/*
 * The affinity scheduler. The rule is policy/affinity.h, the simulator's own; this file says when
 * it is asked:
 *
 *   wake-up ──> select_cpu: an idle CPU is used at once ──> runs
 *          └──> enqueue: a queue (queue.h) ──> dispatch: a CPU whose process is done, or has had
 * its quantum, takes the process that the rule puts first; or keeps its own, when that is first
 *   running / stopping: what was run is charged (account.h), and seen (stats.h)
 *
 * docs/design/scheduler.md tells how it differs from the report.
 */
#include "kernel.h"

#include "key.h"
#include "shared.h"

char terms[] SEC("license") = "GPL";

/* Set by the loader before it is loaded. The boosts aren't constant for the compiler: the rule
 * reads them through a pointer that isn't volatile, so that it would take them to be 0. */
struct stayput_phi phi;
const volatile u64 quantum_ns = 30000000;
const volatile u64 tick_ns = 10000000;
const volatile u64 decay_period_ns = 1000000000;
const volatile u32 decay_rule = STAYPUT_DECAY_HALF;
const volatile u32 decay_ticks; /* what SUBTRACT takes away */
const volatile u64 wake_limit_ns = 90000000;
const volatile u64 share_limit_ns = 180000000;
const volatile u64 far_share_limit_ns = 300000000;
const volatile u32 nr_cpus = 1;
const volatile bool scalable = true;
const volatile bool by_cgroup;
const volatile u32 fault; /* tests only: 1 never dispatches */

#include "account.h"
#include "stats.h"

#include "queue.h"

struct ended ended;

s32 BPF_STRUCT_OPS(affinity_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags) {
    struct standing *own = standing(p);
    bool idle = false;
    s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &idle);

    if (idle && own && fault == 0) {
        COUNT(idle_dispatches);
        scx_bpf_dsq_insert(p, LOCAL, quantum_ns, 0);
    }
    return cpu;
}

void BPF_STRUCT_OPS(affinity_enqueue, struct task_struct *p, u64 flags) {
    struct standing *own = standing(p);
    s32 idle;

    if (!own) {
        /* No memory for what it needs: it runs here, without affinity. */
        COUNT(fallbacks);
        scx_bpf_dsq_insert(p, LOCAL, quantum_ns, 0);
        return;
    }
    decay(own);
    queue_insert(p, own);
    idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
    if (idle >= 0)
        scx_bpf_kick_cpu(idle, KERNEL_VALUE(scx_kick_flags, SCX_KICK_IDLE));
}

void BPF_STRUCT_OPS(affinity_dispatch, s32 cpu, struct task_struct *prev) {
    u64 now = now_ns();
    struct standing *own = NULL;

    if (fault == 1)
        return;
    next_period(now);
    if (prev && (prev->scx.flags & KERNEL_VALUE(scx_ent_flags, SCX_TASK_QUEUED)))
        own = standing(prev);
    if (own) {
        see_run(prev, charge(own, now));
        decay(own);
        see_interval(own, now);
    }
    if (queue_take(cpu, own, now) || !own)
        return;
    /* The one that has just run is first again. */
    COUNT(dispatches);
    own->interval_from_ns = now;
    set_slice(prev, quantum_ns);
}

/* A process that woke too long ago doesn't wait for the end of a quantum. */
void BPF_STRUCT_OPS(affinity_tick, struct task_struct *p) {
    u64 now = now_ns();
    struct reminder due;

    if (next_due(&woken, now, &due) || next_due(&waiting, now, &due)) {
        leave_to(scx_bpf_task_cpu(p), &due);
        set_slice(p, 0);
    }
}

void BPF_STRUCT_OPS(affinity_runnable, struct task_struct *p, u64 flags) {
    struct standing *own = standing(p);

    if (own)
        join(p, own);
}

void BPF_STRUCT_OPS(affinity_running, struct task_struct *p) {
    struct standing *own = standing(p);
    s32 cpu = scx_bpf_task_cpu(p);

    if (!own)
        return;
    see_start(p, own, cpu, now_ns());
    own->order = 0;
    line_up(own, false);
    own->cpu = cpu;
}

void BPF_STRUCT_OPS(affinity_stopping, struct task_struct *p, bool runnable) {
    struct standing *own = standing(p);
    u64 now = now_ns();

    if (!own)
        return;
    see_run(p, charge(own, now));
    see_interval(own, now);
    weigh(p, own);
    own->left_ns = now;
    own->queued_ns = now;
}

void BPF_STRUCT_OPS(affinity_quiescent, struct task_struct *p, u64 flags) {
    struct standing *own = standing(p);

    if (own)
        leave(p, own);
}

void BPF_STRUCT_OPS(affinity_set_weight, struct task_struct *p, u32 weight) {
    struct standing *own = standing(p);

    if (own)
        reweigh(p, own, weight);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(affinity_init_task, struct task_struct *p,
                             struct scx_init_task_args *args) {
    struct standing *own = bpf_task_storage_get(&standings, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

    if (!own)
        return -12; /* ENOMEM */
    own->cpu = NOWHERE;
    own->period = period;
    return 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(affinity_cgroup_init, struct cgroup *cgroup,
                             struct scx_cgroup_init_args *args) {
    struct share *share = bpf_cgrp_storage_get(&shares, cgroup, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

    if (!share)
        return -12; /* ENOMEM */
    share->weight = args->weight;
    return 0;
}

void BPF_STRUCT_OPS(affinity_cgroup_set_weight, struct cgroup *cgroup, u32 weight) {
    struct share *share = bpf_cgrp_storage_get(&shares, cgroup, 0, 0);

    if (share)
        reweigh_group(share, weight);
}

/* CPUs may come and go: whatever waits in the queue of one that went is seen by all the others.
 * Without these the kernel would end the scheduler. */
void BPF_STRUCT_OPS(affinity_cpu_online, s32 cpu) {}

void BPF_STRUCT_OPS(affinity_cpu_offline, s32 cpu) {}

s32 BPF_STRUCT_OPS_SLEEPABLE(affinity_init) {
    next_decay_ns = now_ns() + decay_period_ns;
    return queue_create();
}

void BPF_STRUCT_OPS(affinity_exit, struct scx_exit_info *info) {
    ended.code = info->exit_code;
    bpf_probe_read_kernel_str(ended.reason, sizeof(ended.reason), info->reason);
    bpf_probe_read_kernel_str(ended.message, sizeof(ended.message), info->msg);
    /* Last, since the loader waits for it. */
    ended.kind = info->kind;
}

SEC(".struct_ops.link")
struct sched_ext_ops affinity = {
    .select_cpu = (void *)affinity_select_cpu,
    .enqueue = (void *)affinity_enqueue,
    .dispatch = (void *)affinity_dispatch,
    .tick = (void *)affinity_tick,
    .runnable = (void *)affinity_runnable,
    .running = (void *)affinity_running,
    .stopping = (void *)affinity_stopping,
    .quiescent = (void *)affinity_quiescent,
    .set_weight = (void *)affinity_set_weight,
    .init_task = (void *)affinity_init_task,
    .cgroup_init = (void *)affinity_cgroup_init,
    .cgroup_set_weight = (void *)affinity_cgroup_set_weight,
    .cpu_online = (void *)affinity_cpu_online,
    .cpu_offline = (void *)affinity_cpu_offline,
    .init = (void *)affinity_init,
    .exit = (void *)affinity_exit,
    .flags = SCX_OPS_SWITCH_PARTIAL,
    .timeout_ms = 15000,
    .name = "stayput",
};
