/* SPDX-License-Identifier: GPL-2.0-only */

/*
 * Who waits, and whom a CPU takes. In this order:
 *
 * 1. whoever woke and has waited for `wake_limit_ns`, or could run all the time and has waited
 * PATIENCE times that, longest first;
 * 2. whom the rule puts first;
 * 3. but if somebody is behind that one by more fair shares than the rule by itself brings about
 * where nothing decays, the one most beyond that: `share_limit_ns` among those that take turns on a
 * CPU, and for those of CPUs where more wait; `far_share_limit_ns` for all others.
 *
 * 1 and 3 aren't in the report, which promises that nobody is treated unfairly, and with decay
 * can't keep it (policy/README.md).
 *
 * The exact queue is one list, which is searched from end to end, as the report says. The scalable
 * one is a queue for each CPU of those that last ran there. Among them the boosts for place are
 * equal, so that the first of each is enough. They are ordered by a key that decay doesn't change
 * (`order_key`), so that nothing has to be sorted again when a period ends.
 */
#ifndef STAYPUT_QUEUE_H
#define STAYPUT_QUEUE_H

/* Queues of the scalable scheduler: of each CPU those that may run elsewhere, then of each CPU
 * those that may not; one for all that never ran. The exact scheduler has but the first. */
#define QUEUE_OF(cpu) ((u64)(cpu))
#define BOUND_TO(cpu) ((u64)(MAX_CPUS + (cpu)))
#define NEVER_RAN ((u64)(2 * MAX_CPUS))
#define EVERYBODY NEVER_RAN

/* How far one looks past processes that may not run here. */
#define LOOK_PAST 64
/* How often one tries when other CPUs are faster. */
#define TRIES 4
/* How many reminders of those that no longer wait are taken off a list at once. Each entry into the
 * queue makes one. */
#define REMINDERS 4
/* Nobody that could run all the time waits for more than so many times what one that woke waits
 * for. */
#define PATIENCE 20
/* The overdue get this part of a quantum, so that many of them are served soon; and whoever woke
 * counts as waiting since then until it has run for as long. */
#define OVERDUE_PART 8
/* How many processes can be left to a CPU at a time. */
#define LEFT_SLOTS 8

/* The kernel's process numbers are below 2^22. */
#define PID_BITS 22

/* Which process waits, and since which entry into the queue, in one word: 0 is nobody, and of two
 * the lesser has waited longer. */
static __always_inline u64 turn(s32 pid, u64 order) { return order << PID_BITS | (u32)pid; }

static __always_inline s32 turn_pid(u64 turn) { return turn & ((1 << PID_BITS) - 1); }

/* Reminds that a process waits, if it still does. */
struct reminder {
    u64 turn;
    u64 due_ns;
};

/* Two lists, since in each all wait for the same time, and it is in order. When there are too many
 * the oldest is forgotten. */
struct {
    __uint(type, BPF_MAP_TYPE_QUEUE);
    __uint(max_entries, 65536);
    __type(value, struct reminder);
} woken SEC(".maps"), waiting SEC(".maps");

/* Whom other CPUs left to a CPU, since they may not run there: turns, in no order. Each slot is
 * filled and emptied in one step, since others do both at the same time. */
u64 left_to[MAX_CPUS][LEFT_SLOTS];

u64 last_order;
u64 key_shift; /* what decay has added to keys */

/* CPUs that can run something now. */
static __always_inline u32 online_cpus(void) {
    const cpumask_t *online = scx_bpf_get_online_cpumask();
    u32 cpus = bpf_cpumask_weight(online);

    scx_bpf_put_cpumask(online);
    return cpus ?: 1;
}

/* Begins a decay period when it is time; whether it was. */
__noinline bool next_period(u64 now) {
    u64 due = next_decay_ns;
    u64 runnable = running_count > 0 ? running_count : 0;

    /* Of the CPUs that see the end of a period one begins the next. */
    if (now < due || __sync_val_compare_and_swap(&next_decay_ns, due, now + decay_period_ns) != due)
        return false;
    /* A sixtieth of the way to what it is now: the average over a minute of one-second periods. */
    load = (59 * load + runnable * STAYPUT_LOAD_ONE / online_cpus()) / 60;
    key_shift += key_shift_of(decay_rule, decay_rule == STAYPUT_DECAY_BSD ? load : decay_ticks);
    __sync_fetch_and_add(&period, 1);
    return true;
}

static __always_inline s32 queue_create(void) {
    s32 error = scx_bpf_create_dsq(EVERYBODY, -1);
    u32 cpu;

    if (error || !scalable)
        return error;
    bpf_for(cpu, 0, nr_cpus) {
        error = scx_bpf_create_dsq(QUEUE_OF(cpu), -1);
        if (!error)
            error = scx_bpf_create_dsq(BOUND_TO(cpu), -1);
        if (error)
            return error;
    }
    return 0;
}

/* The queue that a process belongs to. */
static __always_inline u64 queue_of(struct task_struct *p, const struct task_ctx *tctx) {
    if (!scalable)
        return EVERYBODY;
    /* On a machine with one CPU this is everybody, and right. */
    if (p->nr_cpus_allowed == 1)
        return BOUND_TO(scx_bpf_task_cpu(p));
    return tctx->cpu == NOWHERE ? NEVER_RAN : QUEUE_OF(tctx->cpu);
}

/* Notes on a list that a process is overdue after so long. */
static __always_inline void remind(void *list, u64 noted, u64 limit_ns) {
    struct reminder reminder = {.turn = noted, .due_ns = now_ns() + limit_ns};

    bpf_map_push_elem(list, &reminder, BPF_EXIST);
}

static __always_inline void queue_insert(struct task_struct *p, struct task_ctx *tctx) {
    tctx->order = __sync_fetch_and_add(&last_order, 1) + 1;
    tctx->queue = queue_of(p, tctx);
    update_queued(tctx, true);
    if (tctx->awake_ns < quantum_ns / OVERDUE_PART)
        remind(&woken, turn(p->pid, tctx->order), wake_limit_ns);
    else
        remind(&waiting, turn(p->pid, tctx->order), PATIENCE * wake_limit_ns);
    if (scalable)
        scx_bpf_dsq_insert_vtime(p, tctx->queue, quantum_ns,
                                 order_key(decay_rule, key_shift, cpu_ticks(tctx)), 0);
    else
        scx_bpf_dsq_insert(p, tctx->queue, quantum_ns, 0);
}

/* A process that was found in a queue. */
struct found {
    u64 order;
    s64 behind_ns; /* of `last`, beyond what the rule brings about */
    s32 prio;
    s32 pid; /* 0: the one that has just run, or nobody */
    bool any;
};

/* Whom a CPU's search has found so far: who is first by the rule, and who is most behind. */
struct search {
    s64 queued; /* who waits here, not counting who would run */
    struct found first;
    struct found last;
};

/* A process that waits, or with no pid the one that has just run. Whether it is first so far. */
__noinline bool consider(struct search *search, struct task_ctx *tctx, s32 pid, s32 cpu, u64 now) {
    struct found it = {.pid = pid, .any = true};
    bool just_ran = pid == 0, is_first;
    u64 away_ns;

    /* For the verifier, which checks this function by itself. */
    if (!search || !tctx)
        return false;
    decay(tctx);
    it.order = tctx->order;
    away_ns = now > tctx->left_ns && !just_ran ? now - tctx->left_ns : 0;
    it.behind_ns = behind_ns(tctx);
    it.prio = stayput_prio(0, cpu_ticks(tctx)) -
              stayput_boost(&phi, distance(tctx->cpu, cpu), just_ran, away_ns / tick_ns);
    is_first = !search->first.any ||
               stayput_before(it.prio, it.order, search->first.prio, search->first.order);
    if (is_first)
        search->first = it;
    /* Whoever has just run isn't behind anybody for waiting. */
    if (just_ran)
        return is_first;
    /* Processes of one CPU take turns: they differ by phi_t. Where more wait than here, somebody
     * has to be fetched before that CPU falls behind for good. */
    if (tctx->cpu == cpu || (tctx->cpu != NOWHERE && *queued_on(tctx->cpu) > search->queued))
        it.behind_ns -= share_limit_ns;
    else
        it.behind_ns -= far_share_limit_ns;
    if (!search->last.any || it.behind_ns > search->last.behind_ns)
        search->last = it;
    return is_first;
}

/* Whom the CPU takes: the first, unless somebody else is behind it by more than is fair. */
static __always_inline struct found *choice(struct search *search) {
    bool unfair = search->last.any && search->last.behind_ns > search->first.behind_ns;

    return unfair ? &search->last : &search->first;
}

/* Considers the first that may run on a CPU, or all of them. Whether there is anybody. */
__noinline bool search_queue(struct search *search, u64 queue, s32 cpu, bool all, u64 now) {
    struct bpf_iter_scx_dsq it;
    struct task_struct *p;
    u32 past = 0;
    bool any = false;

    if (!search)
        return false;
    if (bpf_iter_scx_dsq_new(&it, queue, 0) == 0) {
        while ((p = bpf_iter_scx_dsq_next(&it))) {
            struct task_ctx *tctx;

            if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr)) {
                if (!all && ++past >= LOOK_PAST)
                    break;
                continue;
            }
            tctx = lookup_task_ctx(p);
            if (!tctx)
                continue;
            consider(search, tctx, p->pid, cpu, now);
            any = true;
            if (!all)
                break;
        }
    }
    bpf_iter_scx_dsq_destroy(&it);
    return any;
}

/* The same for the first of a queue, without its lock where the kernel can. */
static __always_inline void search_first(struct search *search, u64 queue, s32 cpu, u64 now) {
    struct task_struct *p;
    struct task_ctx *tctx;

    if (bpf_ksym_exists(scx_bpf_dsq_peek)) {
        p = scx_bpf_dsq_peek(queue);
        if (!p)
            return;
        if (bpf_cpumask_test_cpu(cpu, p->cpus_ptr)) {
            tctx = lookup_task_ctx(p);
            if (tctx)
                consider(search, tctx, p->pid, cpu, now);
            return;
        }
    }
    /* The first may not run here: who comes after it takes the queue's lock to find out. */
    search_queue(search, queue, cpu, false, now);
}

/* Gives a process that waits to the CPU that dispatches; false when it no longer waits. */
static __always_inline bool take(struct task_struct *p, struct task_ctx *tctx, u64 slice_ns) {
    struct bpf_iter_scx_dsq it;
    bool taken = false;

    if (bpf_iter_scx_dsq_new(&it, tctx->queue, 0) == 0) {
        scx_bpf_dsq_move_set_slice(&it, slice_ns);
        taken = scx_bpf_dsq_move(&it, p, LOCAL, 0);
    }
    bpf_iter_scx_dsq_destroy(&it);
    return taken;
}

/* Whether a process still waits as it did when it was noted. */
__noinline bool waits(u64 noted) {
    struct task_struct *p = bpf_task_from_pid(turn_pid(noted));
    struct task_ctx *tctx;
    bool still = false;

    if (!p)
        return false;
    tctx = lookup_task_ctx(p);
    still = tctx && turn(p->pid, tctx->order) == noted;
    bpf_task_release(p);
    return still;
}

/* Puts somebody off for as long as a process that woke may wait. */
static __always_inline void renew(u64 noted) { remind(&woken, noted, wake_limit_ns); }

/* Whether a slot of a CPU was free, which then holds the turn. */
__noinline bool fill_slot(u32 cpu, u64 noted) {
    u64 *slots = left_to[cpu % MAX_CPUS];

    for (int i = 0; i < LEFT_SLOTS; i++)
        if (__sync_val_compare_and_swap(&slots[i], 0, noted) == 0)
            return true;
    return false;
}

/* Leaves a process to a CPU, and has that CPU dispatch. When as many are left to it already as it
 * can hardly run in time, the process is looked at later. */
static __always_inline void leave_to(u32 cpu, u64 noted) {
    if (!fill_slot(cpu, noted))
        renew(noted);
    scx_bpf_kick_cpu(cpu, KERNEL_VALUE(scx_kick_flags, SCX_KICK_PREEMPT));
}

/* Who of those left to a CPU has waited longest, and is left to it no longer; 0 when nobody is. */
__noinline u64 next_left(u32 cpu) {
    u64 *slots = left_to[cpu % MAX_CPUS];
    u64 longest = 0;
    u32 slot = 0;

    for (u32 i = 0; i < LEFT_SLOTS; i++) {
        u64 noted = *(volatile u64 *)&slots[i];

        if (noted && (!longest || noted < longest)) {
            longest = noted;
            slot = i;
        }
    }
    if (longest && slot < LEFT_SLOTS &&
        __sync_val_compare_and_swap(&slots[slot], longest, 0) == longest)
        return longest;
    return 0;
}

/* Whoever was left to a CPU that goes offline is looked at again. */
static __always_inline void renew_left_to(u32 cpu) {
    for (int i = 0; i < LEFT_SLOTS; i++) {
        u64 noted = next_left(cpu);

        if (noted)
            renew(noted);
    }
}

/* Takes a process that was noted, if it still waits. One that may not run here is left to its own
 * CPU. */
__noinline bool take_noted(u64 noted, s32 cpu, u64 slice_ns) {
    struct task_struct *p = bpf_task_from_pid(turn_pid(noted));
    struct task_ctx *tctx;
    bool taken = false;

    if (!p)
        return false;
    tctx = lookup_task_ctx(p);
    if (tctx && turn(p->pid, tctx->order) == noted) {
        if (bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
            taken = take(p, tctx, slice_ns);
        else
            leave_to(scx_bpf_task_cpu(p), noted);
    }
    bpf_task_release(p);
    return taken;
}

/* Takes reminders of those that no longer wait off a list. Whether the first that is left is due:
 * then it is off the list too. */
static __noinline bool next_due(void *list, u64 now, struct reminder *due) {
    struct reminder first;

    /* For the verifier, which checks this function by itself. */
    if (!due)
        return false;
    bpf_repeat(REMINDERS) {
        if (bpf_map_peek_elem(list, &first))
            return false;
        if (first.due_ns > now && waits(first.turn))
            return false;
        /* Another CPU may have been faster, so that this is another than was looked at; it is early
         * then, and is taken all the same. */
        if (bpf_map_pop_elem(list, due))
            return false;
        if (waits(due->turn))
            return true;
    }
    return false;
}

/* Takes whoever was left to this CPU, or has waited for too long. */
static __always_inline bool take_overdue(s32 cpu, u64 now) {
    u64 slice_ns = quantum_ns / OVERDUE_PART;
    struct reminder due;

    bpf_repeat(LEFT_SLOTS) {
        u64 left = next_left(cpu);

        if (!left)
            break;
        /* Else it was taken by another CPU meanwhile. */
        if (take_noted(left, cpu, slice_ns)) {
            count(COUNTER_OVERDUE_WAKES);
            return true;
        }
    }
    if (next_due(&woken, now, &due) && take_noted(due.turn, cpu, slice_ns)) {
        count(COUNTER_OVERDUE_WAKES);
        return true;
    }
    if (next_due(&waiting, now, &due) && take_noted(due.turn, cpu, slice_ns)) {
        count(COUNTER_OVERDUE_WAITS);
        return true;
    }
    return false;
}

/* Takes anybody at all, for when other CPUs were always faster: nobody waits while a CPU idles. */
static __always_inline bool take_any(s32 cpu) {
    u32 other;

    if (scx_bpf_dsq_move_to_local(EVERYBODY))
        return true;
    if (!scalable)
        return false;
    if (scx_bpf_dsq_move_to_local(BOUND_TO(cpu)))
        return true;
    bpf_for(other, 0, nr_cpus) {
        if (scx_bpf_dsq_move_to_local(QUEUE_OF(other)))
            return true;
    }
    return false;
}

/* Takes who is next on `cpu`. False when that is the process that has just run there, `prev`, or
 * nobody. */
static __always_inline bool queue_take(s32 cpu, struct task_ctx *prev, u64 now) {
    u64 from_ns;
    u32 other;

    if (take_overdue(cpu, now))
        return true;
    from_ns = bpf_ktime_get_ns();
    bpf_repeat(TRIES) {
        struct search search = {.queued = *queued_on(cpu) - (prev ? 0 : 1)};
        struct found *found;

        if (prev) {
            /* It would enter the queue now. */
            prev->order = last_order + 1;
            consider(&search, prev, 0, cpu, now);
        }
        if (!scalable) {
            search_queue(&search, EVERYBODY, cpu, true, now);
        } else {
            search_first(&search, NEVER_RAN, cpu, now);
            search_queue(&search, BOUND_TO(cpu), cpu, false, now);
            bpf_for(other, 0, nr_cpus) search_first(&search, QUEUE_OF(other), cpu, now);
        }
        found = choice(&search);
        if (!found->any || found->pid == 0) {
            if (search.last.any)
                record_search(from_ns);
            return false;
        }
        if (take_noted(turn(found->pid, found->order), cpu, quantum_ns)) {
            record_search(from_ns);
            if (found == &search.last)
                count(COUNTER_OVERDUE_SHARES);
            return true;
        }
        count(COUNTER_MOVES_LOST);
    }
    if (prev)
        return false;
    count(COUNTER_FALLBACKS);
    return take_any(cpu);
}

#endif
