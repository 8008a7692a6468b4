/*
 * What every workload's program does around its kernel: reads the class from the command line,
 * refuses a class that does not fit into memory, prints the result, and turns it into an exit code.
 */
#pragma once

#include "team.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* A kernel's result. */
struct result {
    int threads;         /* that there were */
    _Atomic int working; /* those of them that found work in every part: see result_worked */
    double seconds;      /* of the timed part */
    double operations;   /* in the timed part, as the benchmark counts them */
    unsigned checked;    /* comparisons made with result_check and result_check_below */
    unsigned mismatched; /* those of them that failed */
    FILE *stages;        /* where a program with a graph writes its stages; NULL when nobody asks */
    bool only_own;       /* whether only what the run itself has made is to be checked, and quickly:
                            not what the program makes of other problems */
    int part_of;         /* of so many parts of the class one is asked for; 1 for all of it */
    int exit_code;       /* when the run could not be made; then a sentence has said why */
};

/*
 * Prints `value` beside its reference and records whether it is within the relative `tolerance`
 * (0 asks for equality). A NaN on either side is a mismatch.
 */
void result_check(struct result *result, const char *name, double value, double reference,
                  double tolerance);

/* The same of complex numbers, whose difference is measured by its modulus. */
void result_check_complex(struct result *result, const char *name, double _Complex value,
                          double _Complex reference, double tolerance);

/* Prints `value` and records whether it is at most `bound`, which a NaN is not. */
void result_check_below(struct result *result, const char *name, double value, double bound);

/*
 * Ends the timed part, which began at `start`. All threads of the team may call it, behind a
 * barrier; the first of them writes.
 */
void result_time(struct result *result, const struct member *me, double start);

/*
 * Every thread says once whether it was handed work in every parallel part that is timed: which
 * threads were there but had nothing to do must not stay unknown.
 */
void result_worked(struct result *result, bool worked);

/* Says in a sentence why the run has failed, or why it can't be made here. Exit code 1. */
__attribute__((format(printf, 2, 3))) void result_fail(struct result *result, const char *format,
                                                       ...);

/* Says in a sentence why what was given can't be worked on. Exit code 2. */
__attribute__((format(printf, 2, 3))) void result_refuse(struct result *result, const char *format,
                                                         ...);

/* A workload. Its classes are S, W, A, B, C and D, numbered from 0. */
struct program {
    const char *name;  /* of the executable */
    const char *title; /* what it is, in one line */
    bool has_graph;    /* whether it writes the stages of its task graph */
    bool checks_more;  /* whether it checks more than its own result: see `only_own` */
    bool has_parts;    /* whether less than a class can be asked for: see `part_of` */
    /* Bytes that class number `class` needs with `threads` threads. */
    uint64_t (*bytes_needed)(size_t class, int threads);
    /* The most threads that can all find work in class number `class`. */
    uint64_t (*useful_threads)(size_t class);
    /* Runs class number `class` and fills the result, which holds what is asked for and zeros. What
       it leaves there when memory was refused doesn't count. */
    void (*run)(size_t class, struct result *result);
    /* Runs what a file holds, where a program takes files, too; otherwise NULL. */
    void (*run_file)(const char *path, struct result *result);
};

/*
 * The workload of this executable, whose `main` is here. Its exit code is 0 when the result was
 * verified, 1 when it is wrong or there is not enough memory, 2 when the command line is wrong.
 */
extern const struct program PROGRAM;
