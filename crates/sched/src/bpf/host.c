/* SPDX-License-Identifier: GPL-2.0-only */

/*
 * The scheduler on the host, for the tests in host.rs: its headers as they are, with maps and
 * kernel functions that do what these tests need of them.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "intf.h"
#include "key.h"

#define SEC(name)
#define __uint(name, value) int(*name)[value]
#define __type(name, type) type *name
#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#define __noinline __attribute__((noinline))
#define barrier_var(variable)
#define bpf_repeat(times) for (int repeat_ = 0; repeat_ < (times); repeat_++)
#define bpf_for(i, from, to) for (i = (from); i < (to); i++)
#define bpf_ksym_exists(symbol) false
#define KERNEL_VALUE(type, name) 0
#define LOCAL 0

enum {
    BPF_MAP_TYPE_PERCPU_ARRAY,
    BPF_MAP_TYPE_QUEUE,
    BPF_MAP_TYPE_TASK_STORAGE,
    BPF_MAP_TYPE_CGRP_STORAGE,
    BPF_F_NO_PREALLOC,
    BPF_EXIST,
    PF_KTHREAD,
};

typedef u64 cpumask_t;
struct cgroup;
struct bpf_iter_scx_dsq {
    int unused;
};

struct task_struct {
    u32 flags;
    s32 pid;
    s32 nr_cpus_allowed;
    s32 cpu;
    const cpumask_t *cpus_ptr;
    cpumask_t cpus;
    struct {
        u32 weight;
    } scx;
    void *storage;
};

/* What the tests set, and what came of it. */
#define TASKS 64
static struct task_struct tasks[TASKS];
static cpumask_t online;
static u64 clock_ns;
static s32 taken_pid;

/* Maps, by address. */
#define MAPS 8
#define QUEUE_LENGTH 256
static struct map {
    const void *address;
    size_t count, first;
    char *elements;
} maps[MAPS];

static struct map *map_at(const void *address, size_t bytes) {
    struct map *map = maps;

    while (map->address && map->address != address)
        map++;
    if (!map->address) {
        map->address = address;
        map->elements = calloc(1, bytes);
    }
    return map;
}

#define bpf_map_lookup_elem(map, key)                                                              \
    ((__typeof__((map)->value))map_at(map, sizeof(*(map)->value))->elements)

static int queue_copy(const void *queue, void *value, size_t size, bool is_taken) {
    struct map *map = map_at(queue, QUEUE_LENGTH * size);

    if (!map->count)
        return -1;
    memcpy(value, map->elements + map->first % QUEUE_LENGTH * size, size);
    if (is_taken) {
        map->first++;
        map->count--;
    }
    return 0;
}

static int queue_push(const void *queue, const void *value, size_t size) {
    struct map *map = map_at(queue, QUEUE_LENGTH * size);

    memcpy(map->elements + (map->first + map->count++) % QUEUE_LENGTH * size, value, size);
    return 0;
}

#define bpf_map_peek_elem(map, value) queue_copy(map, value, sizeof(*(value)), false)
#define bpf_map_pop_elem(map, value) queue_copy(map, value, sizeof(*(value)), true)
#define bpf_map_push_elem(map, value, flags) queue_push(map, value, sizeof(*(value)))
#define bpf_task_storage_get(map, p, initial, flags) ((__typeof__((map)->value))(p)->storage)
#define bpf_cgrp_storage_get(map, cgroup, initial, flags) ((__typeof__((map)->value))NULL)

static struct task_struct *bpf_task_from_pid(s32 pid) {
    return pid > 0 && pid < TASKS ? &tasks[pid] : NULL;
}
static void bpf_task_release(struct task_struct *p) {}
static struct cgroup *scx_bpf_task_cgroup(struct task_struct *p) { return NULL; }
static void bpf_cgroup_release(struct cgroup *cgroup) {}
static u64 now_ns(void) { return clock_ns; }
static u64 bpf_ktime_get_ns(void) { return clock_ns; }
static bool bpf_cpumask_test_cpu(u32 cpu, const cpumask_t *mask) { return *mask >> cpu & 1; }
static u32 bpf_cpumask_weight(const cpumask_t *mask) { return __builtin_popcountll(*mask); }
static const cpumask_t *scx_bpf_get_online_cpumask(void) { return &online; }
static void scx_bpf_put_cpumask(const cpumask_t *mask) {}
static s32 scx_bpf_task_cpu(const struct task_struct *p) { return p->cpu; }
static void scx_bpf_kick_cpu(s32 cpu, u64 flags) {}
static s32 scx_bpf_create_dsq(u64 queue, s32 node) { return 0; }
static void scx_bpf_dsq_insert(struct task_struct *p, u64 queue, u64 slice, u64 flags) {}
static void scx_bpf_dsq_insert_vtime(struct task_struct *p, u64 queue, u64 slice, u64 vtime,
                                     u64 flags) {}
static bool scx_bpf_dsq_move_to_local(u64 queue) { return false; }
static struct task_struct *scx_bpf_dsq_peek(u64 queue) { return NULL; }
static int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, u64 queue, u64 flags) { return 0; }
static struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it) { return NULL; }
static void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it) {}
static void scx_bpf_dsq_move_set_slice(struct bpf_iter_scx_dsq *it, u64 slice) {}
static bool scx_bpf_dsq_move(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 queue,
                             u64 flags) {
    taken_pid = p->pid;
    return true;
}

#define PARAMETER static
#include "parameters.h"

#include "account.h"
#include "stats.h"

#include "queue.h"

static struct task_ctx task_ctxs_of_tests[TASKS];

u64 test_order_key(u32 rule, u64 shift, u32 cpu_ticks) { return order_key(rule, shift, cpu_ticks); }

u64 test_key_shift_of(u32 rule, u32 argument) { return key_shift_of(rule, argument); }

/* Forgets whatever earlier tests have done to maps and tasks. */
void test_reset(void) {
    for (struct map *map = maps; map < maps + MAPS; map++)
        free(map->elements);
    memset(maps, 0, sizeof(maps));
    memset(queued, 0, sizeof(queued));
    memset(places, 0, sizeof(places));
    memset(left_to, 0, sizeof(left_to));
    memset(tasks, 0, sizeof(tasks));
    memset(task_ctxs_of_tests, 0, sizeof(task_ctxs_of_tests));
    last_order = 0;
    clock_ns = 0;
    taken_pid = 0;
}

void test_set_place(u32 cpu, const struct place *place) { places[cpu] = *place; }

u32 test_meeting(s32 a, s32 b) { return meeting(a, b); }

u32 test_distance(s32 last, s32 cpu) { return distance(last, cpu); }

void test_set_decay(u32 rule, u32 now) {
    decay_rule = rule;
    period = now;
}

/* An account of so many ticks, decayed up to a period. */
void test_set_account(s32 pid, u32 decayed_until, u32 cpu_ticks) {
    task_ctxs_of_tests[pid].account = packed_account(decayed_until, cpu_ticks);
}

void test_decay(s32 pid) { decay(&task_ctxs_of_tests[pid]); }

u32 test_cpu_ticks(s32 pid) { return cpu_ticks(&task_ctxs_of_tests[pid]); }

/* The load after a decay period in which so many could run, on so many CPUs of twice as many that
 * are possible. */
u64 test_load_after(u64 before, u32 runnable, u32 cpus) {
    load = before;
    running_count = runnable;
    nr_cpus = 2 * cpus;
    online = (1ULL << cpus) - 1;
    next_decay_ns = 0;
    next_period(1);
    return load;
}

/* A process waits, and may run on one CPU only. */
void test_wait(s32 pid, s32 cpu) {
    struct task_struct *p = &tasks[pid];

    p->pid = pid;
    p->cpu = cpu;
    p->nr_cpus_allowed = 1;
    p->cpus = 1ULL << cpu;
    p->cpus_ptr = &p->cpus;
    p->storage = &task_ctxs_of_tests[pid];
    task_ctxs_of_tests[pid].cpu = cpu;
    queue_insert(p, p->storage);
}

/* Another CPU leaves a process to its own. */
void test_leave(s32 pid) { leave_to(tasks[pid].cpu, turn(pid, task_ctxs_of_tests[pid].order)); }

/* The process that a CPU takes for being overdue, which then waits no longer; 0 when it takes
 * nobody. */
s32 test_take_overdue(s32 cpu, u64 now) {
    clock_ns = now;
    taken_pid = 0;
    if (!take_overdue(cpu, now))
        return 0;
    task_ctxs_of_tests[taken_pid].order = 0;
    return taken_pid;
}

void test_cpu_offline(s32 cpu) { renew_left_to(cpu); }

/* Fills a slot of a CPU; whether one was free. */
bool test_fill_slot(u32 cpu, u64 noted) { return fill_slot(cpu, noted); }

u64 test_next_left(u32 cpu) { return next_left(cpu); }

u64 test_wake_limit_ns(void) { return wake_limit_ns; }
