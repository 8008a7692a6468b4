/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */

/*
 * What the collector and its reader exchange, stated once: build.rs makes Rust of this file.
 */
#ifndef STAYPUT_PROFILE_INTF_H
#define STAYPUT_PROFILE_INTF_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;

/* How much is kept at most. */
#define MAX_THREADS 32768
#define MAX_PROGRAMS 256
#define MAX_SHARDS 16
#define MAX_CPUS 4096
#define MAX_MOVES 16384
#define MAX_CALLS 512

/* The program of all for which no other has room. */
#define OTHER_PROGRAMS 0

/* Histograms: histogram.rs says what their bins are. */
#define UNIT_LOG2 8
#define STEPS_LOG2 3
#define BINS 240

/* Of a thread's own lengths: a quarter of the bins, two between powers of two. */
#define LENGTH_BINS 60

struct times {
    u64 total_ns;
    u64 longest_ns;
    u64 counts[BINS];
};

enum end {
    END_QUANTUM,
    END_SEMAPHORE,
    END_SYNCHRONIZATION,
    END_SYSTEM_CALL,
    END_TLB_FAULT,
    END_OTHER,
    END_EXIT,
    ENDS,
};

/* What a system call waits for, by its number. */
enum call {
    CALL_OTHER,
    CALL_DISK,
    CALL_NETWORK,
    CALL_PIPE,
    CALL_TIMER,
    CALL_POLL,
    CALL_PROCESS,
    CALLS,
    CALL_SEMAPHORE = 16,  /* ends an interval by END_SEMAPHORE */
    CALL_DESCRIPTOR = 17, /* its first argument is a descriptor, whose file says it */
    CALL_YIELD = 18,
};

/* The report's bins of intervals: shorter, the seven, longer. */
#define REPORT_BINS 9

/* When within a millisecond others preempt, in steps of 2^14 ns: many at once is a clock tick. */
#define PHASE_LOG2 14
#define PHASES 62

/* Turns of others between two times of a thread on a CPU: 0, 1, 2, 3-4, 5-8, 9-16, 17-32, more. */
#define TURN_BINS 8

/* Who wakes threads: programs by their numbers, and those that have none. */
enum waker {
    WAKER_INTERRUPT = MAX_PROGRAMS,
    WAKER_KERNEL,
    WAKER_UNWATCHED,
    WAKERS,
};

/* Parts of a burst: up to a wake-up that the thread brings about, and from it. */
enum act {
    ACT_ALONE,  /* a whole burst in which it wakes nobody */
    ACT_BEFORE, /* from the burst's beginning to its first wake-up */
    ACT_AFTER,  /* from its last wake-up to its end */
    ACT_BETWEEN,
    ACTS,
};

/* What is counted of a program. */
struct program_stats {
    u64 cpu_ns;
    u64 switches;
    u64 threads;
    u64 rows_lost; /* threads whose rows were needed for others */
    u64 ends[ENDS];
    u64 calls[CALLS];
    u64 report_bins[REPORT_BINS];
    u64 turns[TURN_BINS];
    u64 with_kernel_threads;
    u64 preemptions_by_others; /* ends by the quantum after which who comes isn't watched */
    u64 moves;
    u64 moves_from_busy;
    u64 moves_untold; /* for which the map of moves had no room */
    u64 wakers[WAKERS];
    struct times whole_bursts; /* intervals that are bursts as well, and in neither */
    struct times
        whole_alone; /* likewise, and in which the thread woke nobody: not in acts either */
    struct times intervals;
    struct times slices;
    struct times waits; /* of those that were preempted; wakes are waits as well */
    struct times wakes;
    struct times idle_wakes; /* from a watched thread's wake-up of another until that one had a CPU
                                that idled */
    struct times blocks;     /* that no watched thread ended */
    struct times bursts;     /* CPU time from one end that the thread brought about to the next */
    struct times cut_bursts; /* that went on to the thread's end, or the profile's */
    struct times cut_blocks; /* that went on to the profile's end */
    struct times acts[ACTS]; /* CPU time from what it did to others, or they to it, to the next */
    struct times
        woken_blocks;         /* times of blocking that a thread of another watched program ended */
    struct times peer_blocks; /* and that another thread of the same program ended */
    struct times after_peer;  /* what would be ACT_AFTER where the last wake-up was of such a one */
};

enum phase {
    PHASE_NEW, /* not known */
    PHASE_RUNNING,
    PHASE_PREEMPTED,
    PHASE_BLOCKED,
    PHASE_WOKEN, /* and `since_ns` is when it had blocked */
    PHASE_READY, /* woken, and when it had blocked isn't known */
    PHASE_DEAD,
};

#define NO_CPU 0xffffffffU

/* What ended the last time of blocking. */
enum woken_by {
    WOKEN_BY_NO_THREAD, /* none that is watched */
    WOKEN_BY_OTHER,     /* a thread of another program */
    WOKEN_BY_PEER,      /* one of the same program */
};

/* A thread. */
struct thread {
    u32 tid;
    u32 tgid;
    u32 program;
    u32 phase;
    u64 since_ns;        /* when the phase began; 0 is not known */
    u8 is_partial;       /* it had its CPU before it was watched */
    u8 is_burst_partial; /* its burst began before it was watched */
    u16 early_waker;     /* who was about to wake it while it still had its CPU, plus 1 */
    u32 last_cpu;
    u32 last_turn;
    u32 last_kernel_turn;
    u64 began_ns;
    u64 cpu_ns;
    u64 burst_ns;
    u64 acted_ns; /* how much of it there was when it last woke somebody; 0 where it hasn't */
    u64 switches;
    u64 wait_ns;
    u64 block_ns;
    u64 quantum_ends;
    u64 ends;
    u64 called_ns; /* when a watched thread woke it, where it may run elsewhere; 0 once it has come
                    */
    u64 queued_ns; /* when it was woken; where the kernel counts waits, all of them until it came */
    u32 woken_by;  /* enum woken_by */
    u32 has_woken_peer; /* whether whom it last woke is of the same program */
    u32 migrations;
    u32 early_waker_tid;
    s8 comm[16];
};

/* How long a thread's bursts and times of blocking were, in coarse bins. */
struct lengths {
    u32 bursts[LENGTH_BINS];
    u32 blocks[LENGTH_BINS];
};

/* Records that a CPU remembers. */
#define KNOWN 8

struct known {
    u32 tid;
    u32 slot;
};

/* Who has a CPU, and who had it. */
struct cpu {
    u32 holder;         /* the thread whose effective slice it is */
    u32 holder_program; /* and its program, plus 1; 0 where the slice isn't counted */
    u64 slice_ns;
    u32 turn;        /* counts slices */
    u32 kernel_turn; /* counts times of the kernel's threads */
    u32 is_busy;
    u32 slot;         /* of the thread that has it, plus 1; 0 is none that is watched */
    u32 tid;          /* of that thread */
    u32 others_turns; /* of threads that aren't watched, the kernel's among them */
    u64 others_ns;    /* their CPU time */
    u64 others_since_ns;
    u64 task;        /* where the kernel keeps who has it; 0 before the first switch */
    u64 wakee;       /* likewise whom that one has woken, if when is not counted yet; 0 is nobody */
    u64 address;     /* of what the last wake-up put on the stack */
    u64 run_queue;   /* where the kernel keeps it */
    u64 clock;       /* of the run queue, at the last switch */
    u64 behind_ns;   /* how far that clock is behind the monotonic one */
    u64 compared_at; /* when they were compared, by the former */
    struct known known[KNOWN];
};

/* How often a run queue's clock is compared. */
#define COMPARE_NS 1000000

/* What a trace is told. */
enum event_kind {
    EVENT_SWITCH, /* `tid` leaves, `other` comes */
    EVENT_BEGIN,  /* `tid` is watched from now on, and has the CPU */
    EVENT_WAKE,   /* `tid` is woken by `other` */
    EVENT_THREAD, /* `tid` of process `other` is called so */
};

/* Who is no watched thread; no thread has such a number (they end at 2^22). */
#define TID_IDLE 0
#define TID_INTERRUPT 0x7ffffffd
#define TID_KERNEL 0x7ffffffe
#define TID_OTHERS 0x7fffffff

struct event {
    u64 time_ns;
    u32 tid;
    u32 other;
    u16 cpu;
    u8 kind;
    u8 end;  /* why it leaves */
    u8 call; /* for what it waits */
    u8 is_uninterruptible;
    u16 moved_from; /* where who comes was last, plus 1; 0 is here, or not known */
};

struct thread_event {
    struct event event;
    s8 comm[16];
};

struct cpu_move {
    u32 program;
    u16 from;
    u16 to;
};

#endif
