// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only

/*
 * Counts what threads do to their CPUs, where it happens: at each switch, at each wake-up. Nothing
 * is streamed, so that nothing can be lost in a buffer; but for a trace, if one is asked for.
 *
 *   slots     thread -> number of its record    in the task itself, freed with it
 *   threads   number -> record                  what a thread is doing, and its sums
 *   lengths   number -> coarse histograms       of its bursts, and times of blocking
 *   programs  program x shard -> sums, histograms
 *   cpus      CPU -> who has it, whose effective slice it is, and records found lately
 *   events    what a trace is told, in order
 *
 * All of it but births and executions happens with interrupts off, on the CPU whose shard is
 * written.
 */
#include "kernel.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Set by the loader. */
const volatile bool has_prev_state; /* sched_switch tells the state (since Linux 5.18) */
const volatile bool shares_shards;  /* there are more CPUs than shards */
const volatile bool watches_all;
const volatile bool traces; /* everything is told as well */
const volatile bool
    has_run_delays; /* the kernel counts how long threads wait in run queues (5.14) */
const volatile u32 nr_cpus = 1;
const volatile u32 nr_shards = 1;
const volatile u32
    launcher; /* the process whose children are watched once they execute a program */
const volatile u8 call_kinds[MAX_CALLS];

u32 next_slot;
u32 known_programs; /* numbered from OTHER_PROGRAMS + 1 */
u64 lost_threads;
u64 lost_events;               /* that must have been, but were not told */
u64 untold_events;             /* for which the trace's buffer had no room */
u64 preemption_phases[PHASES]; /* when others preempted */
u64 unknown_contexts; /* wake-ups by a thread or by an interrupt: this kernel doesn't tell */

struct {
    __uint(type, BPF_MAP_TYPE_TASK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, u32);
} slots SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, MAX_THREADS);
    __type(key, u32);
    __type(value, struct thread);
} threads SEC(".maps");

/* By the number of a thread's record. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, MAX_THREADS);
    __type(key, u32);
    __type(value, struct lengths);
} lengths SEC(".maps");

/* Numbers of records whose threads have ended. */
struct {
    __uint(type, BPF_MAP_TYPE_QUEUE);
    __uint(max_entries, MAX_THREADS);
    __type(value, u32);
} ended SEC(".maps");

/* As many entries as the loader says, as are residency and cpus. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct program_stats);
} programs SEC(".maps");

/* CPU time of a program on a CPU, in ns. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, u64);
} residency SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct cpu);
} cpus SEC(".maps");

struct name {
    char comm[16];
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, MAX_PROGRAMS);
    __type(key, struct name);
    __type(value, u32);
} program_ids SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, MAX_MOVES);
    __type(key, struct cpu_move);
    __type(value, u64);
} moves SEC(".maps");

/* Processes whose threads the iterator is to watch. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, MAX_THREADS);
    __type(key, u32);
    __type(value, u8);
} targets SEC(".maps");

/* As large as the loader says; nothing is in it unless there is a trace. */
struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 4096);
} events SEC(".maps");

/* Who reads it looks now and then, and isn't woken. */
static __always_inline void tell(void *event, u64 size) {
    if (bpf_ringbuf_output(&events, event, size, BPF_RB_NO_WAKEUP))
        __sync_fetch_and_add(&untold_events, 1);
}

static __always_inline void tell_thread(struct task_struct *task) {
    struct thread_event event = {};
    if (!traces)
        return;
    event.event.kind = EVENT_THREAD;
    event.event.time_ns = bpf_ktime_get_ns();
    event.event.tid = task->pid;
    event.event.other = task->tgid;
    __builtin_memcpy(event.comm, task->comm, sizeof(event.comm));
    tell(&event, sizeof(event));
}

/* By what number a trace knows a thread that is not watched. */
static __always_inline u32 stranger(struct task_struct *task) {
    if (!task->pid)
        return TID_IDLE;
    return task->flags & PF_KTHREAD ? TID_KERNEL : TID_OTHERS;
}

/* A shard is written by one CPU alone, unless there are more CPUs than shards. */
static __always_inline void add(u64 *sum, u64 more) {
    if (shares_shards)
        __sync_fetch_and_add(sum, more);
    else
        *sum += more;
}

/* The time from `since` to `now`: those that are told of it on two CPUs may see them the other way
 * around. */
static __always_inline u64 after(u64 now, u64 since) { return now > since ? now - since : 0; }

/* The same number, of which clang knows nothing: it would drop bounds that the verifier wants to
 * see. */
static __always_inline u32 opaque(u32 n) {
    barrier_var(n);
    return n;
}

#define FOUR(n) n, n, n, n
#define SIXTEEN(n) FOUR(n), FOUR(n), FOUR(n), FOUR(n)
#define SIXTY_FOUR(n) SIXTEEN(n), SIXTEEN(n), SIXTEEN(n), SIXTEEN(n)

static const u8 log2_of_byte[256] = {
    0,
    0,
    1,
    1,
    FOUR(2),
    FOUR(3),
    FOUR(3),
    SIXTEEN(4),
    SIXTEEN(5),
    SIXTEEN(5),
    SIXTY_FOUR(6),
    SIXTY_FOUR(7),
    SIXTY_FOUR(7),
};

static __always_inline u32 log2_of(u32 n) {
    u32 log2 = 0;
    /* Most numbers here are small. */
    if (n >= 1U << 8) {
        u32 shift = n >= 1U << 24 ? 24 : n >= 1U << 16 ? 16 : 8;
        log2 = shift;
        n >>= shift;
    }
    return log2 + log2_of_byte[opaque(n) & 255];
}

/* The bin of a length of time. */
static __always_inline u32 bin_of(u64 ns) {
    u64 units = ns >> UNIT_LOG2;
    if (units > 0xffffffffU)
        units = 0xffffffffU;
    u32 doublings = log2_of((units >> STEPS_LOG2) | 1);
    return opaque((doublings << STEPS_LOG2) + (units >> doublings));
}

/* A time that is in this bin. */
static __always_inline void record_in(struct times *times, u32 bin, u64 ns) {
    if (bin < BINS)
        add(&times->counts[bin], 1);
    add(&times->total_ns, ns);
    if (ns > times->longest_ns)
        times->longest_ns = ns;
}

static __always_inline void record(struct times *times, u64 ns) {
    record_in(times, bin_of(ns), ns);
}

/* A thread's own burst, or time of blocking, that is in this bin; one thread is never counted on
 * two CPUs at once. */
static __always_inline void count_length(u32 slot, bool is_block, u32 bin) {
    struct lengths *own = bpf_map_lookup_elem(&lengths, &slot);
    /* Four bins are one of these. */
    bin = opaque(bin >> 2);
    if (own && bin < LENGTH_BINS) {
        if (is_block)
            own->blocks[bin]++;
        else
            own->bursts[bin]++;
    }
}

/* Edges are 1, 5, 9, 13, 17, 21, 25 and 30 ms. */
static __always_inline u32 report_bin(u64 ns) {
    const u64 ms = 1000000;
    if (ns < 1 * ms)
        return 0;
    if (ns >= 30 * ms)
        return REPORT_BINS - 1;
    return ns >= 25 * ms ? 7 : 1 + (u32)(ns - ms) / (4 * (u32)ms);
}

static __always_inline struct program_stats *stats_of(u32 program, u32 cpu) {
    u32 key = program * nr_shards + (shares_shards ? cpu % nr_shards : cpu);
    return bpf_map_lookup_elem(&programs, &key);
}

/* `here` remembers records by their threads' numbers, which spares asking the task. */
static __always_inline struct thread *thread_of(struct task_struct *task, struct cpu *here,
                                                u32 *slot) {
    u32 tid = task->pid;
    struct known *known = &here->known[tid % KNOWN];
    if (known->tid == tid) {
        *slot = known->slot;
        struct thread *thread = bpf_map_lookup_elem(&threads, slot);
        if (thread && thread->tid == tid && thread->phase != PHASE_DEAD)
            return thread;
    }
    u32 *found = bpf_task_storage_get(&slots, task, NULL, 0);
    if (!found)
        return NULL;
    *slot = found[0];
    known->tid = tid;
    known->slot = *slot;
    return bpf_map_lookup_elem(&threads, slot);
}

/* Whether times are the kernel's own: its run queues have just read the clock at a switch, and it
 * counts how long threads wait in them. Reading the clock costs as much as all that is counted. */
static __always_inline bool has_kernel_times(void) {
    struct task_struct *task = NULL;
    return has_run_delays && bpf_core_field_exists(task->se.cfs_rq) &&
           bpf_core_field_exists(task->sched_info.last_queued);
}

/* When the switch is that is told now, which `prev` leaves by, on the clock of bpf_ktime_get_ns.
 *
 * The run queue's clock is another, by how much is measured now and then. What passes between both
 * readings adds to it: the least is kept, and grows by 2^-11 since the clocks may drift apart. */
static __always_inline u64 time_of_switch(struct task_struct *prev, struct cpu *here) {
    if (!has_kernel_times())
        return bpf_ktime_get_ns();
    u64 clock = clock_of_run_queue(prev, &here->run_queue);
    u64 elapsed = clock - here->compared_at;
    here->clock = clock;
    if (elapsed >= COMPARE_NS) {
        u64 behind = bpf_ktime_get_ns() - clock;
        u64 most = here->behind_ns + (elapsed >> 11);
        here->behind_ns =
            elapsed >= 64 * (u64)COMPARE_NS || (s64)(behind - most) < 0 ? behind : most;
        here->compared_at = clock;
    }
    return clock + here->behind_ns;
}

/* How long a thread has waited in run queues since it last came to a CPU, which it now does again
 * at `now`. */
static __always_inline u64 waited_until(u64 now, struct task_struct *task, struct thread *thread,
                                        struct cpu *here) {
    if (!has_kernel_times())
        return after(now, thread->phase == PHASE_PREEMPTED ? thread->since_ns : thread->queued_ns);
    u64 queued_at = task->sched_info.last_queued;
    u64 all = task->sched_info.run_delay + (queued_at ? after(here->clock, queued_at) : 0);
    u64 waited = after(all, thread->queued_ns);
    thread->queued_ns = all;
    return waited;
}

static __always_inline struct cpu *this_cpu(void) {
    u32 cpu = bpf_get_smp_processor_id();
    return bpf_map_lookup_elem(&cpus, &cpu);
}

/* The number of the program by which its process is called; the last of a crowd share one. */
static __always_inline u32 program_of(struct task_struct *task) {
    struct name name = {};
    bpf_probe_read_kernel_str(name.comm, sizeof(name.comm), task->group_leader->comm);
    u32 *known = bpf_map_lookup_elem(&program_ids, &name);
    if (known)
        return *known;
    if (known_programs >= MAX_PROGRAMS)
        return OTHER_PROGRAMS;
    u32 program = OTHER_PROGRAMS + 1 + __sync_fetch_and_add(&known_programs, 1);
    if (program >= MAX_PROGRAMS)
        return OTHER_PROGRAMS;
    if (bpf_map_update_elem(&program_ids, &name, &program, BPF_NOEXIST)) {
        /* Another CPU was faster; this number stays without a program. */
        known = bpf_map_lookup_elem(&program_ids, &name);
        return known ? *known : OTHER_PROGRAMS;
    }
    return program;
}

static __always_inline void count_thread(u32 program) {
    struct program_stats *stats = stats_of(program, bpf_get_smp_processor_id());
    if (stats)
        __sync_fetch_and_add(&stats->threads, 1);
}

/* A record for a thread that is watched from now on. */
static __always_inline struct thread *watch(struct task_struct *task, u32 program) {
    u32 slot = MAX_THREADS;
    if (next_slot < MAX_THREADS)
        slot = __sync_fetch_and_add(&next_slot, 1);
    if (slot >= MAX_THREADS && bpf_map_pop_elem(&ended, &slot)) {
        __sync_fetch_and_add(&lost_threads, 1);
        return NULL;
    }
    struct thread *thread = bpf_map_lookup_elem(&threads, &slot);
    if (!thread)
        return NULL;
    if (thread->phase == PHASE_DEAD) {
        struct program_stats *former = stats_of(thread->program, bpf_get_smp_processor_id());
        if (former)
            __sync_fetch_and_add(&former->rows_lost, 1);
        struct lengths *own = bpf_map_lookup_elem(&lengths, &slot);
        if (own)
            __builtin_memset(own, 0, sizeof(*own));
    }
    __builtin_memset(thread, 0, sizeof(*thread));
    thread->tid = task->pid;
    thread->tgid = task->tgid;
    thread->program = program;
    thread->last_cpu = NO_CPU;
    thread->began_ns = task->start_time;
    if (has_kernel_times())
        thread->queued_ns = task->sched_info.run_delay;
    __builtin_memcpy(thread->comm, task->comm, sizeof(thread->comm));
    if (!bpf_task_storage_get(&slots, task, &slot, BPF_LOCAL_STORAGE_GET_F_CREATE)) {
        __sync_fetch_and_add(&lost_threads, 1);
        thread->phase = PHASE_DEAD;
        bpf_map_push_elem(&ended, &slot, 0);
        return NULL;
    }
    count_thread(program);
    tell_thread(task);
    return thread;
}

/* What the file behind a descriptor is. */
static __always_inline u32 kind_of_descriptor(struct task_struct *task, u64 descriptor) {
    struct fdtable *table = task->files ? task->files->fdt : NULL;
    if (!table || descriptor >= table->max_fds)
        return CALL_OTHER;
    switch (mode_of_file_at(table->fd + descriptor) & S_IFMT) {
    case S_IFIFO:
        return CALL_PIPE;
    case S_IFSOCK:
        return CALL_NETWORK;
    case S_IFREG:
    case S_IFBLK:
    case S_IFDIR:
        return CALL_DISK;
    default:
        return CALL_OTHER;
    }
}

/* Why a thread gives up its CPU, and for what its system call waits. */
static __always_inline u32 end_of(struct task_struct *task, u32 flags, bool is_preempted, u32 state,
                                  u32 *call) {
    u64 argument = 0;
    if (state & TASK_DEAD)
        return END_EXIT;
    if (is_preempted)
        return END_QUANTUM;
    if (flags & PF_IO_WORKER)
        return state ? END_OTHER : END_QUANTUM;
    find_registers(task);
    s64 number = call_of(task, &argument);
    u32 kind = CALL_OTHER;
    if (number >= 0 && number < MAX_CALLS && !is_compat(task))
        kind = call_kinds[number];
    if (!state)
        return kind == CALL_YIELD ? END_SYNCHRONIZATION : END_QUANTUM;
    if (state & (TASK_STOPPED | TASK_TRACED))
        return END_OTHER;
    if (number < 0)
        return END_TLB_FAULT;
    if (kind == CALL_SEMAPHORE)
        return END_SEMAPHORE;
    if (kind == CALL_DESCRIPTOR)
        kind = kind_of_descriptor(task, argument);
    if (kind == CALL_OTHER && BPF_CORE_READ_BITFIELD(task, in_iowait))
        kind = CALL_DISK;
    *call = kind;
    return END_SYSTEM_CALL;
}

/* A thread has woken somebody, at `now`. Its switch may have been told to be later than it was. */
static __always_inline void count_act_at(struct thread *thread, struct program_stats *stats,
                                         u64 now) {
    u64 ns = thread->burst_ns + after(now, thread->since_ns);
    if (thread->acted_ns)
        record(&stats->acts[ACT_BETWEEN], after(ns, thread->acted_ns));
    else
        record(&stats->acts[ACT_BEFORE], ns);
    if (ns >= thread->acted_ns)
        thread->acted_ns = ns ? ns : 1;
}

/* Counts whom the thread that has this CPU has woken into its run queue: at the latest at `now`, or
 * at this moment where that is 0. */
static __always_inline void count_earlier_act(struct thread *thread, struct program_stats *stats,
                                              struct cpu *here, u64 now) {
    if (!bpf_ksym_exists(bpf_rdonly_cast))
        return;
    u64 queued_at = task_at(here->wakee)->sched_info.last_queued;
    here->wakee = 0;
    if (queued_at)
        now = queued_at + here->behind_ns;
    else if (!now)
        now = bpf_ktime_get_ns();
    count_act_at(thread, stats, now);
}

/* A burst ends for which the thread itself is the cause. It is counted once for all that it is. */
static __always_inline void count_burst(struct program_stats *stats, struct thread *thread,
                                        u32 slot, bool is_whole) {
    u64 ns = thread->burst_ns, acted_ns = thread->acted_ns;
    u32 bin = bin_of(ns);
    struct times *times = &stats->bursts;
    if (is_whole)
        times = acted_ns ? &stats->whole_bursts : &stats->whole_alone;
    record_in(times, bin, ns);
    if (acted_ns)
        record(thread->has_woken_peer ? &stats->after_peer : &stats->acts[ACT_AFTER],
               after(ns, acted_ns));
    else if (!is_whole)
        record_in(&stats->acts[ACT_ALONE], bin, ns);
    count_length(slot, false, bin);
}

/* `is_for_others`: who comes isn't watched. Returns whether the thread is. */
static __always_inline bool leave(struct task_struct *task, u32 flags, bool is_preempted, u32 state,
                                  bool is_for_others, u32 cpu, struct cpu *here, u64 now,
                                  struct event *event) {
    u32 call = CALL_OTHER;
    u32 slot = 0;
    struct thread *thread = thread_of(task, here, &slot);
    if (!thread)
        return false;
    if (thread->phase != PHASE_RUNNING && thread->phase != PHASE_NEW) {
        /* It has come to this CPU unseen: nobody knows since when it had it. */
        if (thread->since_ns)
            __sync_fetch_and_add(&lost_events, 1);
        thread->is_burst_partial = 1;
        if (has_kernel_times())
            thread->queued_ns = task->sched_info.run_delay;
    }
    u32 end = opaque(end_of(task, flags, is_preempted, state, &call));
    call = opaque(call);
    if (traces) {
        event->tid = task->pid;
        event->end = end;
        event->call = call;
        event->is_uninterruptible = state & TASK_UNINTERRUPTIBLE;
    }
    struct program_stats *stats = stats_of(thread->program, cpu);
    bool is_own_end = end != END_QUANTUM && end != END_EXIT && !thread->is_burst_partial;
    bool is_whole_burst = false;
    if (stats && here->wakee)
        count_earlier_act(thread, stats, here, now);
    if (thread->phase == PHASE_RUNNING && thread->since_ns && stats) {
        u64 ns = after(now, thread->since_ns);
        thread->cpu_ns += ns;
        thread->burst_ns += ns;
        add(&stats->cpu_ns, ns);
        if (shares_shards) {
            u32 place = thread->program * nr_cpus + cpu;
            u64 *here_ns = bpf_map_lookup_elem(&residency, &place);
            if (here_ns)
                *here_ns += ns;
        }
        here->slice_ns += ns;
        if (here->holder_program)
            here->holder_program = thread->program + 1;
        if (!thread->is_partial) {
            is_whole_burst = is_own_end && thread->burst_ns == ns;
            if (!is_whole_burst)
                record(&stats->intervals, ns);
            u32 bin = opaque(report_bin(ns));
            if (bin < REPORT_BINS)
                add(&stats->report_bins[bin], 1);
        }
    }
    if (stats) {
        if (end < ENDS)
            add(&stats->ends[end], 1);
        if (end == END_SYSTEM_CALL && call < CALLS)
            add(&stats->calls[call], 1);
        if (end == END_QUANTUM) {
            if (is_for_others) {
                u32 phase = opaque((u32)(now % 1000000) >> PHASE_LOG2);
                add(&stats->preemptions_by_others, 1);
                if (phase < PHASES)
                    __sync_fetch_and_add(&preemption_phases[phase], 1);
            }
            thread->quantum_ends++;
        } else {
            if (end == END_EXIT)
                record(&stats->cut_bursts, thread->burst_ns);
            else if (is_own_end)
                count_burst(stats, thread, slot, is_whole_burst);
            /* How long the last one was is told with the thread. */
            if (end != END_EXIT)
                thread->burst_ns = 0;
            thread->acted_ns = 0;
            thread->is_burst_partial = 0;
        }
    }
    thread->ends++;
    thread->is_partial = 0;
    thread->since_ns = now;
    thread->last_cpu = cpu;
    thread->last_turn = here->turn;
    thread->last_kernel_turn = here->kernel_turn;
    if (end == END_EXIT) {
        thread->phase = PHASE_DEAD;
        __builtin_memcpy(thread->comm, task->comm, sizeof(thread->comm));
        bpf_map_push_elem(&ended, &slot, 0);
        tell_thread(task);
    } else {
        thread->phase = is_preempted || !state ? PHASE_PREEMPTED : PHASE_BLOCKED;
    }
    return true;
}

static __always_inline void count_return(struct program_stats *stats, struct thread *thread,
                                         struct cpu *here) {
    u32 turns = here->turn - thread->last_turn;
    /* 0, 1, 2, 3-4, 5-8, 9-16, 17-32, more. */
    u32 bin = opaque(turns < 2 ? turns : log2_of(turns - 1) + 2);
    if (bin >= TURN_BINS)
        bin = TURN_BINS - 1;
    add(&stats->turns[bin], 1);
    if (here->kernel_turn != thread->last_kernel_turn)
        add(&stats->with_kernel_threads, 1);
}

static __always_inline void count_move(struct program_stats *stats, struct thread *thread,
                                       u32 cpu) {
    struct cpu_move move = {.program = thread->program, .from = thread->last_cpu, .to = cpu};
    struct cpu *former = bpf_map_lookup_elem(&cpus, &thread->last_cpu);
    thread->migrations++;
    add(&stats->moves, 1);
    if (former && former->is_busy)
        add(&stats->moves_from_busy, 1);
    u64 *count = bpf_map_lookup_elem(&moves, &move);
    u64 once = 1;
    if (count)
        __sync_fetch_and_add(count, 1);
    else if (bpf_map_update_elem(&moves, &move, &once, BPF_NOEXIST)) {
        count = bpf_map_lookup_elem(&moves, &move);
        if (count)
            __sync_fetch_and_add(count, 1);
        else
            add(&stats->moves_untold, 1);
    }
}

/* A thread is woken by `waker` (plus 1): at `now`, unless that is 0 since nobody asks when. */
static __always_inline void wake(struct thread *thread, struct program_stats *stats, u32 waker,
                                 u32 waker_tid, u64 now) {
    waker = opaque(waker - 1);
    if (traces) {
        struct event event = {
            .time_ns = now, .tid = thread->tid, .kind = EVENT_WAKE, .other = TID_OTHERS};
        event.cpu = bpf_get_smp_processor_id();
        if (waker < MAX_PROGRAMS)
            event.other = waker_tid;
        else if (waker == WAKER_INTERRUPT)
            event.other = TID_INTERRUPT;
        else if (waker == WAKER_KERNEL)
            event.other = TID_KERNEL;
        tell(&event, sizeof(event));
    }
    if (waker < WAKERS)
        add(&stats->wakers[waker], 1);
    thread->early_waker = 0;
    thread->woken_by = waker == thread->program ? WOKEN_BY_PEER
                       : waker < MAX_PROGRAMS   ? WOKEN_BY_OTHER
                                                : WOKEN_BY_NO_THREAD;
    if (!has_kernel_times())
        thread->queued_ns = now;
    if (thread->phase == PHASE_BLOCKED && thread->since_ns) {
        thread->phase = PHASE_WOKEN;
    } else {
        thread->phase = PHASE_READY;
        thread->since_ns = has_kernel_times() ? bpf_ktime_get_ns() : now;
    }
}

static __always_inline void enter(struct task_struct *task, struct thread *thread, u32 slot,
                                  u32 cpu, struct cpu *here, bool was_idle, u64 now,
                                  struct event *event) {
    struct program_stats *stats = thread ? stats_of(thread->program, cpu) : NULL;
    if (thread && stats) {
        if (thread->phase == PHASE_BLOCKED && thread->early_waker)
            wake(thread, stats, thread->early_waker, thread->early_waker_tid, thread->since_ns);
        u64 waited = waited_until(now, task, thread, here);
        u32 phase = thread->phase;
        bool was_woken = phase == PHASE_WOKEN || phase == PHASE_READY;
        if ((phase == PHASE_RUNNING || phase == PHASE_BLOCKED) && thread->since_ns) {
            /* Nobody told of its leaving, or of its waking. */
            __sync_fetch_and_add(&lost_events, 1);
            thread->is_burst_partial |= phase == PHASE_RUNNING;
        }
        if ((was_woken || phase == PHASE_PREEMPTED) && thread->since_ns) {
            record(was_woken ? &stats->wakes : &stats->waits, waited);
            thread->wait_ns += waited;
        }
        if (thread->called_ns) {
            if (was_idle)
                record(&stats->idle_wakes, after(now, thread->called_ns));
            thread->called_ns = 0;
        }
        if (phase == PHASE_WOKEN) {
            u64 blocked = after(after(now, waited), thread->since_ns);
            u32 bin = bin_of(blocked);
            struct times *blocks = thread->woken_by == WOKEN_BY_PEER    ? &stats->peer_blocks
                                   : thread->woken_by == WOKEN_BY_OTHER ? &stats->woken_blocks
                                                                        : &stats->blocks;
            record_in(blocks, bin, blocked);
            count_length(slot, true, bin);
            thread->block_ns += blocked;
        }
        if (traces)
            event->other = task->pid;
        if (thread->last_cpu == cpu) {
            count_return(stats, thread, here);
        } else if (thread->last_cpu != NO_CPU) {
            if (traces)
                event->moved_from = thread->last_cpu + 1;
            count_move(stats, thread, cpu);
        }
        add(&stats->switches, 1);
        thread->switches++;
        thread->phase = PHASE_RUNNING;
        thread->since_ns = now;
        here->slot = slot + 1;
    }
    u32 tid = task->pid;
    here->tid = tid;
    if (here->holder != tid) {
        struct program_stats *of_holder =
            here->holder_program ? stats_of(here->holder_program - 1, cpu) : NULL;
        if (of_holder)
            record(&of_holder->slices, here->slice_ns);
        here->holder = tid;
        here->holder_program = thread ? thread->program + 1 : 0;
        here->slice_ns = 0;
        here->turn++;
    }
}

SEC("tp_btf/sched_switch")
int on_switch(u64 *ctx) {
    bool is_preempted = ctx[0];
    struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
    u32 cpu = bpf_get_smp_processor_id();
    struct cpu *here = bpf_map_lookup_elem(&cpus, &cpu);
    if (!here)
        return 0;
    u64 now = time_of_switch(prev, here);
    struct event event;
    if (traces) {
        __builtin_memset(&event, 0, sizeof(event));
        event.time_ns = now;
        event.cpu = cpu;
        event.kind = EVENT_SWITCH;
        event.tid = stranger(prev);
        event.other = stranger(next);
    }
    u32 flags = prev->flags;
    bool is_user = next->pid && !(next->flags & PF_KTHREAD);
    u32 slot = 0;
    struct thread *coming = is_user ? thread_of(next, here, &slot) : NULL;
    if (prev->pid &&
        (flags & PF_KTHREAD ||
         !leave(prev, flags, is_preempted, has_prev_state ? (u32)ctx[3] : state_of(prev),
                next->pid && !coming, cpu, here, now, &event)) &&
        here->others_since_ns) {
        here->others_ns += after(now, here->others_since_ns);
        here->others_turns++;
    }
    here->others_since_ns = next->pid && !coming ? now : 0;
    here->slot = 0;
    here->wakee = 0;
    here->task = (u64)next;
    here->is_busy = next->pid != 0;
    if (is_user)
        enter(next, coming, slot, cpu, here, !prev->pid, now, &event);
    else if (next->pid)
        here->kernel_turn++;
    /* Strangers of one kind are one. */
    if (traces && event.tid != event.other)
        tell(&event, sizeof(event));
    return 0;
}

/* Whether a thread is in a system call for a socket: what it sends within the machine, it delivers
 * by an interrupt of its own. */
static __always_inline bool is_sending(struct task_struct *task) {
    u64 argument = 0;
    if (task->flags & PF_KTHREAD || !task->pid || is_compat(task))
        return false;
    s64 number = call_of(task, &argument);
    u32 kind = number >= 0 && number < MAX_CALLS ? call_kinds[number] : CALL_OTHER;
    if (kind == CALL_DESCRIPTOR)
        kind = kind_of_descriptor(task, argument);
    return kind == CALL_NETWORK;
}

/* Where the kernel keeps who has this CPU, by an address on the stack on which it works. Who came
 * at the last switch need not be it: some switches are not told. */
static __always_inline u64 task_here(struct cpu *here, u64 address) {
#if defined(__TARGET_ARCH_x86)
    if (here->task && address - (u64)task_at(here->task)->stack < STACK_BYTES)
        return here->task;
#endif
    return bpf_get_current_task();
}

/* Counts that a thread wakes `task`. */
static __always_inline void count_act(struct thread *thread, struct cpu *here,
                                      struct task_struct *task, struct thread *woken) {
    if (thread->phase != PHASE_RUNNING || thread->is_burst_partial)
        return;
    u32 cpu = bpf_get_smp_processor_id();
    struct program_stats *stats = stats_of(thread->program, cpu);
    if (!stats)
        return;
    if (here->wakee)
        count_earlier_act(thread, stats, here, 0);
    thread->has_woken_peer = woken->program == thread->program;
    /* Who may run here alone is put into this run queue, whose clock is then read. */
    if (has_kernel_times() && bpf_ksym_exists(bpf_rdonly_cast) && task->nr_cpus_allowed == 1 &&
        woken->last_cpu == cpu) {
        here->wakee = (u64)task;
        return;
    }
    u64 now = bpf_ktime_get_ns();
    if (woken->phase == PHASE_BLOCKED)
        woken->called_ns = now;
    count_act_at(thread, stats, now);
}

/* Who wakes `woken` on this CPU now, plus 1. */
static __always_inline u32 waker_here(u64 *ctx, u64 address, struct task_struct *task, u32 slot,
                                      struct cpu *here, struct thread *woken) {
    struct task_struct *wakee = (void *)ctx[0];
    enum context context = context_of(task, address);
    if (context == CONTEXT_UNKNOWN)
        __sync_fetch_and_add(&unknown_contexts, 1);
    if (context == CONTEXT_INTERRUPT && !is_sending(task))
        return WAKER_INTERRUPT + 1;
    struct thread *thread = NULL;
    if (slot) {
        slot--;
        thread = bpf_map_lookup_elem(&threads, &slot);
    } else {
        if (task->flags & PF_KTHREAD)
            return WAKER_KERNEL + 1;
        /* It may be watched only since it came. */
        thread = thread_of(bpf_get_current_task_btf(), here, &slot);
    }
    if (!thread)
        return WAKER_UNWATCHED + 1;
    count_act(thread, here, wakee, woken);
    return thread->program + 1;
}

static __always_inline int woken(u64 *ctx) {
    struct task_struct *task = (void *)ctx[0];
    struct cpu *here = this_cpu();
    u32 slot = 0;
    if (!here)
        return 0;
    struct thread *thread = thread_of(task, here, &slot);
    if (!thread)
        return 0;
    u32 phase = thread->phase;
    if (phase != PHASE_RUNNING && phase != PHASE_BLOCKED && phase != PHASE_NEW)
        return 0; /* It has never left the run queue. */
    if (!registers_offset)
        find_registers(bpf_get_current_task_btf());
    /* By way of a map, the verifier takes it as a number. */
    *(volatile u64 *)&here->address = (u64)ctx;
    u64 address = *(volatile u64 *)&here->address;
    struct task_struct *waking;
    u32 slot_here = 0;
    if (bpf_ksym_exists(bpf_rdonly_cast)) {
        u64 current = task_here(here, address);
        waking = task_at(current);
        slot_here = current == here->task ? here->slot : 0;
    } else {
        waking = bpf_get_current_task_btf();
    }
    u32 waker = waker_here(ctx, address, waking, slot_here, here, thread);
    if (phase == PHASE_RUNNING) {
        /* It is about to block, and may have done so when the kernel looks again. */
        thread->early_waker_tid = waking->pid;
        thread->early_waker = waker;
        return 0;
    }
    struct program_stats *stats = stats_of(thread->program, bpf_get_smp_processor_id());
    if (stats)
        wake(thread, stats, waker, waking->pid, has_kernel_times() ? 0 : bpf_ktime_get_ns());
    return 0;
}

/* Told by the waker itself; sched_wakeup may be told by the CPU that the thread is put on. */
SEC("tp_btf/sched_waking")
int on_waking(u64 *ctx) { return woken(ctx); }

SEC("tp_btf/sched_wakeup_new")
int on_first_wakeup(u64 *ctx) { return woken(ctx); }

SEC("tp_btf/sched_process_fork")
int on_fork(u64 *ctx) {
    struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
    struct cpu *here = this_cpu();
    u32 slot = 0;
    struct thread *of_parent = here ? thread_of(parent, here, &slot) : NULL;
    if (of_parent && !(child->flags & PF_KTHREAD))
        watch(child, of_parent->program);
    return 0;
}

SEC("tp_btf/sched_process_exec")
int on_exec(u64 *ctx) {
    struct task_struct *task = (void *)ctx[0];
    u32 *slot = bpf_task_storage_get(&slots, task, NULL, 0);
    struct thread *thread = slot ? bpf_map_lookup_elem(&threads, slot) : NULL;
    if (thread) {
        thread->program = program_of(task);
        thread->tid = task->pid;
        thread->tgid = task->tgid;
        struct cpu *here = this_cpu();
        if (here && here->holder == thread->tid && here->holder_program)
            here->holder_program = thread->program + 1;
        count_thread(thread->program);
        tell_thread(task);
    } else if (launcher && (u32)task->real_parent->tgid == launcher) {
        thread = watch(task, program_of(task));
        if (thread) {
            thread->is_partial = 1;
            thread->is_burst_partial = 1;
            thread->since_ns = bpf_ktime_get_ns();
            thread->phase = PHASE_RUNNING;
            if (traces) {
                struct event event = {
                    .time_ns = thread->since_ns, .tid = task->pid, .kind = EVENT_BEGIN};
                event.cpu = bpf_get_smp_processor_id();
                tell(&event, sizeof(event));
            }
        }
    }
    return 0;
}

/* Those that exist already. */
SEC("iter/task")
int find_threads(struct bpf_iter__task *ctx) {
    struct task_struct *task = ctx->task;
    if (!task || task->flags & (PF_KTHREAD | PF_EXITING))
        return 0;
    u32 tgid = task->tgid;
    if (!watches_all && !bpf_map_lookup_elem(&targets, &tgid))
        return 0;
    if (bpf_task_storage_get(&slots, task, NULL, 0))
        return 0;
    struct thread *thread = watch(task, program_of(task));
    if (!thread)
        return 0;
    if (task->on_cpu) {
        thread->is_partial = 1;
        thread->is_burst_partial = 1;
        thread->since_ns = bpf_ktime_get_ns();
        thread->phase = PHASE_RUNNING;
    } else if (state_of(task)) {
        thread->phase = PHASE_BLOCKED;
    } else {
        thread->is_burst_partial = 1;
    }
    return 0;
}
