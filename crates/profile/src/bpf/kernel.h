/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */

/*
 * What is used of the kernel. Where fields lie is looked up in the running kernel when the
 * collector is loaded (CO-RE), so that these declarations list no more than that.
 */
#ifndef STAYPUT_PROFILE_KERNEL_H
#define STAYPUT_PROFILE_KERNEL_H

#include "intf.h"

/* As libbpf's headers call them. */
typedef u8 __u8;
typedef u16 __u16;
typedef u32 __u32;
typedef u64 __u64;
typedef s8 __s8;
typedef s16 __s16;
typedef s32 __s32;
typedef s64 __s64;
typedef u16 __be16;
typedef u32 __be32;
typedef u32 __wsum;
typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *)0)

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

/* Of the system call interface, which never changes. */
enum bpf_map_type {
    BPF_MAP_TYPE_HASH = 1,
    BPF_MAP_TYPE_ARRAY = 2,
    BPF_MAP_TYPE_QUEUE = 22,
    BPF_MAP_TYPE_RINGBUF = 27,
    BPF_MAP_TYPE_TASK_STORAGE = 29,
};
#define BPF_F_NO_PREALLOC 1
#define BPF_LOCAL_STORAGE_GET_F_CREATE 1
#define BPF_NOEXIST 1
#define BPF_RB_NO_WAKEUP 1

#define PF_EXITING 0x00000004
#define PF_IO_WORKER 0x00000010
#define PF_KTHREAD 0x00200000

#define TASK_UNINTERRUPTIBLE 0x02
#define TASK_STOPPED 0x04
#define TASK_TRACED 0x08
#define TASK_DEAD 0x80

#define TS_COMPAT 0x02

#define S_IFMT 0170000
#define S_IFIFO 0010000
#define S_IFBLK 0060000
#define S_IFREG 0100000
#define S_IFDIR 0040000
#define S_IFSOCK 0140000

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct inode {
    u16 i_mode;
};

struct file {
    struct inode *f_inode;
};

struct fdtable {
    u32 max_fds;
    struct file **fd;
};

struct files_struct {
    struct fdtable *fdt;
};

#if defined(__TARGET_ARCH_arm64)
struct thread_info {
    u64 preempt_count;
};
#else
struct thread_info {
    u32 status;
};
#endif

struct rq {
    u64 clock;
};

struct cfs_rq {
    struct rq *rq;
};

struct sched_entity {
    struct cfs_rq *cfs_rq;
};

struct sched_info {
    unsigned long long run_delay;
    unsigned long long last_queued;
};

struct task_struct {
    struct thread_info thread_info;
    unsigned int __state;
    void *stack;
    unsigned int flags;
    int on_cpu;
    int nr_cpus_allowed;
    unsigned in_iowait : 1;
    int pid;
    int tgid;
    unsigned long long start_time;
    struct sched_entity se;
    struct sched_info sched_info;
    struct task_struct *real_parent;
    struct task_struct *group_leader;
    struct files_struct *files;
    char comm[16];
};

/* Before Linux 5.14. */
struct task_struct___older {
    long state;
};

struct bpf_iter__task {
    struct task_struct *task;
};

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
    long orig_ax;
    long di;
};
#elif defined(__TARGET_ARCH_arm64)
struct pt_regs {
    u64 orig_x0;
    s32 syscallno;
};
#else
struct pt_regs {
    long nothing;
};
#endif

#pragma clang attribute pop

struct hlist_node;
struct hlist_head {
    struct hlist_node *first;
};

/* Since Linux 6.2. */
extern void *bpf_rdonly_cast(const void *object, u32 type) __ksym __weak;

/* The mode of the file to which a pointer lies at `at`, 0 where there is none. */
static __always_inline u32 mode_of_file_at(struct file **at) {
    struct file *file = NULL;
    if (bpf_ksym_exists(bpf_rdonly_cast)) {
        /* Reads that the kernel checks by itself, in place of calls. What is read at `at` is a
         * pointer, whatever to. */
        struct hlist_head *cell = bpf_rdonly_cast(at, bpf_core_type_id_kernel(struct hlist_head));
        file = bpf_rdonly_cast(cell->first, bpf_core_type_id_kernel(struct file));
        return file && file->f_inode ? file->f_inode->i_mode : 0;
    }
    bpf_probe_read_kernel(&file, sizeof(file), at);
    return file ? BPF_CORE_READ(file, f_inode, i_mode) : 0;
}

/* The clock of the run queue of `task`, which has a CPU, in ns. `known` is where that CPU's run
 * queue is, once it has been found. */
static __always_inline u64 clock_of_run_queue(struct task_struct *task, u64 *known) {
    if (!bpf_ksym_exists(bpf_rdonly_cast))
        return task->se.cfs_rq->rq->clock;
    if (!*known)
        *known = (u64)task->se.cfs_rq->rq;
    struct rq *rq = bpf_rdonly_cast((void *)*known, bpf_core_type_id_kernel(struct rq));
    return rq->clock;
}

/* A thread by where the kernel keeps it; what is read of it is not trusted. */
static __always_inline struct task_struct *task_at(u64 address) {
    return bpf_rdonly_cast((void *)address, bpf_core_type_id_kernel(struct task_struct));
}

/* Where saved registers are on a thread's stack, once one was asked for: the same for all. */
u64 registers_offset;

/* To be called before registers_of, for a thread whose registers are on its stack. */
static __always_inline void find_registers(struct task_struct *task) {
    if (bpf_ksym_exists(bpf_rdonly_cast) && !registers_offset)
        registers_offset = (u64)bpf_task_pt_regs(task) - (u64)task->stack;
}

static __always_inline struct pt_regs *registers_of(struct task_struct *task) {
    if (!bpf_ksym_exists(bpf_rdonly_cast))
        return (struct pt_regs *)bpf_task_pt_regs(task);
    return bpf_rdonly_cast(task->stack + registers_offset, bpf_core_type_id_kernel(struct pt_regs));
}

/* The system call that a thread is in; negative when it is in none, and in one that can't be told.
 */
static __always_inline s64 call_of(struct task_struct *task, u64 *first_argument) {
    struct pt_regs *regs = registers_of(task);
#if defined(__TARGET_ARCH_x86)
    *first_argument = regs->di;
    return regs->orig_ax;
#elif defined(__TARGET_ARCH_arm64)
    *first_argument = regs->orig_x0;
    return regs->syscallno;
#else
    return -1;
#endif
}

/* Whether its system calls have the numbers of 32-bit programs. */
static __always_inline bool is_compat(struct task_struct *task) {
#if defined(__TARGET_ARCH_x86)
    return task->thread_info.status & TS_COMPAT;
#else
    return false;
#endif
}

enum context {
    CONTEXT_UNKNOWN,
    CONTEXT_THREAD,
    CONTEXT_INTERRUPT,
};

#if defined(__TARGET_ARCH_x86)
#define STACK_BYTES 16384
#endif

/* What the CPU on which `task` is does now, by an address on the stack that it does it on. */
static __always_inline enum context context_of(struct task_struct *task, u64 address) {
#if defined(__TARGET_ARCH_x86)
    u64 argument;
    /* Interrupts have a stack of their own, unless they find the thread outside of the kernel. Then
     * they are on its own, and its saved registers tell of no system call; no more do they in a
     * page fault, in which hardly anybody is woken, and in a thread whose end began there. */
    if (address - (u64)task->stack >= STACK_BYTES)
        return CONTEXT_INTERRUPT;
    if (task->flags & (PF_KTHREAD | PF_IO_WORKER | PF_EXITING))
        return CONTEXT_THREAD;
    return call_of(task, &argument) < 0 ? CONTEXT_INTERRUPT : CONTEXT_THREAD;
#elif defined(__TARGET_ARCH_arm64)
    /* Interrupts nest in these bits: those that are served late (the bit that says so, not those
     * that say that they are held off), hard ones, and the unmaskable. */
    return task->thread_info.preempt_count & 0x00ff0100 ? CONTEXT_INTERRUPT : CONTEXT_THREAD;
#else
    return CONTEXT_UNKNOWN;
#endif
}

static __always_inline u32 state_of(struct task_struct *task) {
    if (bpf_core_field_exists(task->__state))
        return task->__state;
    return ((struct task_struct___older *)task)->state;
}

#endif
