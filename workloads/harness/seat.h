/*
 * Threads in groups, where there are more threads than large tasks: the threads of a group share
 * one of those. And a count of small tasks shared out.
 */
#pragma once

#include <stdint.h>

/* A thread's place in its group: number `number` of the `of` threads of group `group`. */
struct seat {
    int group, number, of;
};

/* The first thread of a group, or of the one after the last. There are `groups` threads or more. */
static inline int seat_first_thread(int groups, int threads, int group) {
    return (int)((int64_t)group * threads / groups);
}

static inline struct seat seat_of(int groups, int threads, int thread) {
    const int group = (int)((((int64_t)thread + 1) * groups - 1) / threads);
    const int first = seat_first_thread(groups, threads, group);
    const int end = seat_first_thread(groups, threads, group + 1);
    return (struct seat){.group = group, .number = thread - first, .of = end - first};
}

/* From `begin` on, in front of `end`. */
struct range {
    int begin, end;
};

/* Share number `number` of `of` about equal ones of 0 .. count - 1. */
static inline struct range range_of(int count, int number, int of) {
    return (struct range){(int)((int64_t)count * number / of),
                          (int)((int64_t)count * (number + 1) / of)};
}
