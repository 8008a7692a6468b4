/* SPDX-License-Identifier: GPL-2.0-only */

/*
 * The affinity scheduler. The rule is policy/affinity.h, the simulator's own; this file says when
 * it is asked:
 *
 *   wake-up ──> select_cpu: an idle CPU is used at once ──> runs
 *          └──> enqueue: a queue (queue.h) ──> dispatch: a CPU whose process is done, or has had
 * its quantum, takes the process that the rule puts first; or keeps its own, when that is first
 *   running / stopping: what was run is charged (account.h), and counted (stats.h)
 *
 * docs/design/scheduler.md tells how it differs from the report.
 */
#include "kernel.h"

#include "intf.h"
#include "key.h"

char terms[] SEC("license") = "GPL";

#include "parameters.h"

#include "account.h"
#include "stats.h"

#include "queue.h"

struct ending ending;
u32 cpus_came; /* how often a CPU came online: the loader then says where it is */

s32 BPF_STRUCT_OPS(affinity_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags) {
    struct task_ctx *tctx = lookup_task_ctx(p);
    bool idle = false;
    s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &idle);

    if (idle && tctx && fault == 0) {
        count(COUNTER_IDLE_DISPATCHES);
        scx_bpf_dsq_insert(p, LOCAL, quantum_ns, 0);
    }
    return cpu;
}

void BPF_STRUCT_OPS(affinity_enqueue, struct task_struct *p, u64 flags) {
    struct task_ctx *tctx = lookup_task_ctx(p);
    s32 idle;

    if (!tctx) {
        /* No memory for what it needs: it runs here, without affinity. */
        count(COUNTER_FALLBACKS);
        scx_bpf_dsq_insert(p, LOCAL, quantum_ns, 0);
        return;
    }
    decay(tctx);
    queue_insert(p, tctx);
    idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
    if (idle >= 0)
        scx_bpf_kick_cpu(idle, KERNEL_VALUE(scx_kick_flags, SCX_KICK_IDLE));
}

void BPF_STRUCT_OPS(affinity_dispatch, s32 cpu, struct task_struct *prev) {
    u64 now = now_ns();
    struct task_ctx *tctx = NULL;

    if (fault == 1)
        return;
    next_period(now);
    if (prev && (prev->scx.flags & KERNEL_VALUE(scx_ent_flags, SCX_TASK_QUEUED)))
        tctx = lookup_task_ctx(prev);
    if (tctx) {
        record_run(prev, charge(tctx, now));
        decay(tctx);
        record_interval(tctx, now);
    }
    if (queue_take(cpu, tctx, now) || !tctx)
        return;
    /* The one that has just run is first again. */
    count(COUNTER_DISPATCHES);
    tctx->interval_from_ns = now;
    set_slice(prev, quantum_ns);
}

/* A process that woke too long ago doesn't wait for the end of a quantum. */
void BPF_STRUCT_OPS(affinity_tick, struct task_struct *p) {
    u64 now = now_ns();
    struct reminder due;

    /* Whoever runs here gives way: dispatch comes next, and takes the one left. */
    if (next_due(&woken, now, &due) || next_due(&waiting, now, &due)) {
        leave_to(scx_bpf_task_cpu(p), due.turn);
        set_slice(p, 0);
    }
}

void BPF_STRUCT_OPS(affinity_runnable, struct task_struct *p, u64 flags) {
    struct task_ctx *tctx = lookup_task_ctx(p);

    if (tctx)
        join(p, tctx);
}

void BPF_STRUCT_OPS(affinity_running, struct task_struct *p) {
    struct task_ctx *tctx = lookup_task_ctx(p);
    s32 cpu = scx_bpf_task_cpu(p);

    if (!tctx)
        return;
    record_start(p, tctx, cpu, now_ns());
    tctx->order = 0;
    update_queued(tctx, false);
    tctx->cpu = cpu;
}

void BPF_STRUCT_OPS(affinity_stopping, struct task_struct *p, bool runnable) {
    struct task_ctx *tctx = lookup_task_ctx(p);
    u64 now = now_ns();

    if (!tctx)
        return;
    record_run(p, charge(tctx, now));
    record_interval(tctx, now);
    weigh(p, tctx);
    tctx->left_ns = now;
    tctx->queued_ns = now;
}

void BPF_STRUCT_OPS(affinity_quiescent, struct task_struct *p, u64 flags) {
    struct task_ctx *tctx = lookup_task_ctx(p);

    if (tctx)
        leave(p, tctx);
}

void BPF_STRUCT_OPS(affinity_set_weight, struct task_struct *p, u32 weight) {
    struct task_ctx *tctx = lookup_task_ctx(p);

    if (tctx)
        reweigh(p, tctx, weight);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(affinity_init_task, struct task_struct *p,
                             struct scx_init_task_args *args) {
    struct task_ctx *tctx = bpf_task_storage_get(&task_ctxs, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

    if (!tctx)
        return -12; /* ENOMEM */
    tctx->cpu = NOWHERE;
    tctx->account = packed_account(period, 0);
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

/* CPUs may come and go: whatever waits in the queue of one that went is searched by all the others.
 * Without these two the kernel would end the scheduler. */
void BPF_STRUCT_OPS(affinity_cpu_online, s32 cpu) { __sync_fetch_and_add(&cpus_came, 1); }

void BPF_STRUCT_OPS(affinity_cpu_offline, s32 cpu) { renew_left_to(cpu); }

s32 BPF_STRUCT_OPS_SLEEPABLE(affinity_init) {
    next_decay_ns = now_ns() + decay_period_ns;
    return queue_create();
}

void BPF_STRUCT_OPS(affinity_exit, struct scx_exit_info *info) {
    ending.code = info->exit_code;
    bpf_probe_read_kernel_str(ending.reason, sizeof(ending.reason), info->reason);
    bpf_probe_read_kernel_str(ending.message, sizeof(ending.message), info->msg);
    /* Last, since the loader waits for it. */
    ending.kind = info->kind;
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
