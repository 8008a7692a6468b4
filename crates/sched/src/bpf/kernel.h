/* SPDX-License-Identifier: GPL-2.0-only */

/*
 * What the scheduler needs of the kernel: the fields that it reads, the operations that it
 * implements, the functions that it calls. Where fields lie and what enumerators are worth is
 * looked up in the running kernel when the scheduler is loaded (CO-RE), so these declarations list
 * no more than is used, and nothing is compiled for one kernel.
 */
#ifndef STAYPUT_KERNEL_H
#define STAYPUT_KERNEL_H

#include "types.h"

/* As libbpf's headers call them. */
typedef u8 __u8;
typedef u16 __u16;
typedef u32 __u32;
typedef u64 __u64;
typedef s8 __s8;
typedef s16 __s16;
typedef s32 __s32;
typedef s64 __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *)0)

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* Of the system call interface, which never changes. */
enum bpf_map_type {
    BPF_MAP_TYPE_PERCPU_ARRAY = 6,
    BPF_MAP_TYPE_QUEUE = 22,
    BPF_MAP_TYPE_TASK_STORAGE = 29,
    BPF_MAP_TYPE_CGRP_STORAGE = 32,
};
#define BPF_F_NO_PREALLOC 1
#define BPF_LOCAL_STORAGE_GET_F_CREATE 1
#define BPF_EXIST 2

#define PF_KTHREAD 0x00200000

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct cpumask {
    unsigned long bits[1];
} cpumask_t;

struct kernfs_node {
    u64 id;
};

struct cgroup {
    struct kernfs_node *kn;
};

struct sched_ext_entity {
    u32 flags;
    u32 weight;
    u64 slice;
};

struct task_struct {
    unsigned int flags;
    int nr_cpus_allowed;
    const cpumask_t *cpus_ptr;
    struct sched_ext_entity scx;
    int pid;
};

struct scx_init_task_args {
    bool fork;
    struct cgroup *cgroup;
};

struct scx_cgroup_init_args {
    u32 weight;
};

enum scx_exit_kind {
    SCX_EXIT_NONE = 0,
};

struct scx_exit_info {
    enum scx_exit_kind kind;
    s64 exit_code;
    const char *reason;
    char *msg;
};

#pragma clang attribute pop

enum scx_ops_flags {
    SCX_OPS_SWITCH_PARTIAL = 8ULL,
};

enum scx_kick_flags {
    SCX_KICK_IDLE = 1,
    SCX_KICK_PREEMPT = 2,
};

enum scx_dsq_id_flags {
    SCX_DSQ_LOCAL = 0x8000000000000002ULL,
    SCX_DSQ_LOCAL_ON = 0xc000000000000000ULL,
};

enum scx_ent_flags {
    SCX_TASK_QUEUED = 1,
};

#define BPF_STRUCT_OPS(name, args...) SEC("struct_ops/" #name) BPF_PROG(name, ##args)
#define BPF_STRUCT_OPS_SLEEPABLE(name, args...) SEC("struct_ops.s/" #name) BPF_PROG(name, ##args)

/* What an enumerator is worth in the running kernel. */
#define KERNEL_VALUE(type, name) bpf_core_enum_value(enum type, name)
#define LOCAL KERNEL_VALUE(scx_dsq_id_flags, SCX_DSQ_LOCAL)

struct sched_ext_ops {
    s32 (*select_cpu)(struct task_struct *, s32, u64);
    void (*enqueue)(struct task_struct *, u64);
    void (*dispatch)(s32, struct task_struct *);
    void (*tick)(struct task_struct *);
    void (*runnable)(struct task_struct *, u64);
    void (*running)(struct task_struct *);
    void (*stopping)(struct task_struct *, bool);
    void (*quiescent)(struct task_struct *, u64);
    void (*set_weight)(struct task_struct *, u32);
    s32 (*init_task)(struct task_struct *, struct scx_init_task_args *);
    s32 (*cgroup_init)(struct cgroup *, struct scx_cgroup_init_args *);
    void (*cgroup_set_weight)(struct cgroup *, u32);
    void (*cpu_online)(s32);
    void (*cpu_offline)(s32);
    s32 (*init)(void);
    void (*exit)(struct scx_exit_info *);
    u64 flags;
    u32 timeout_ms;
    char name[128];
};

struct bpf_iter_num {
    u64 opaque[1];
} __attribute__((aligned(8)));

struct bpf_iter_scx_dsq {
    u64 opaque[6];
} __attribute__((aligned(8)));

extern s32 scx_bpf_create_dsq(u64 dsq_id, s32 node) __ksym;
extern s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags,
                                  bool *is_idle) __ksym;
extern s32 scx_bpf_pick_idle_cpu(const cpumask_t *allowed, u64 flags) __ksym;
extern void scx_bpf_kick_cpu(s32 cpu, u64 flags) __ksym;
extern s32 scx_bpf_task_cpu(const struct task_struct *p) __ksym;
extern void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq_id, u64 slice, u64 flags) __ksym;
extern void scx_bpf_dsq_insert_vtime(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime,
                                     u64 flags) __ksym;
extern bool scx_bpf_dsq_move(struct bpf_iter_scx_dsq *it__iter, struct task_struct *p, u64 dsq_id,
                             u64 flags) __ksym;
extern void scx_bpf_dsq_move_set_slice(struct bpf_iter_scx_dsq *it__iter, u64 slice) __ksym;
extern bool scx_bpf_dsq_move_to_local(u64 dsq_id) __ksym;
extern int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, u64 dsq_id, u64 flags) __ksym;
extern struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it) __ksym;
extern void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it) __ksym;
extern struct cgroup *scx_bpf_task_cgroup(struct task_struct *p) __ksym __weak;
extern void bpf_cgroup_release(struct cgroup *cgroup) __ksym;
extern struct task_struct *bpf_task_from_pid(s32 pid) __ksym;
extern void bpf_task_release(struct task_struct *p) __ksym;
extern bool bpf_cpumask_test_cpu(u32 cpu, const cpumask_t *mask) __ksym;
extern u32 bpf_cpumask_weight(const cpumask_t *mask) __ksym;
extern const cpumask_t *scx_bpf_get_online_cpumask(void) __ksym;
extern void scx_bpf_put_cpumask(const cpumask_t *mask) __ksym;

/* Newer than Linux 6.13; without them there is a longer way. */
extern struct task_struct *scx_bpf_dsq_peek(u64 dsq_id) __ksym __weak;
extern bool scx_bpf_task_set_slice(struct task_struct *p, u64 slice) __ksym __weak;
extern u64 scx_bpf_now(void) __ksym __weak;

static __always_inline u64 now_ns(void) {
    return bpf_ksym_exists(scx_bpf_now) ? scx_bpf_now() : bpf_ktime_get_ns();
}

static __always_inline void set_slice(struct task_struct *p, u64 slice_ns) {
    if (bpf_ksym_exists(scx_bpf_task_set_slice))
        scx_bpf_task_set_slice(p, slice_ns);
    else
        p->scx.slice = slice_ns;
}

#endif
