/*
 * The ranks of a program: processes that MPI has started together, each with threads of its own.
 * A program without MPI is linked with ranks_alone.c, and is the one rank that there is; its hybrid
 * version is linked with ranks_mpi.c.
 *
 * Only the process' first thread may call any of this. Except ranks_count, ranks_mine and
 * ranks_on_node, all ranks call each function, in the same order: each waits for others.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What MPI the program is linked with, as it calls itself; NULL: with none. May be asked first. */
const char *ranks_library(void);

void ranks_begin(int *argc, char ***argv);
void ranks_end(void);

int ranks_count(void);
int ranks_mine(void);

/* How many there are on this node. */
int ranks_on_node(void);

void ranks_barrier(void);

/* The largest of what the ranks give. */
double ranks_largest(double mine);

/* Whether any rank says so. */
bool ranks_any(bool mine);

/* The sum of what the ranks give, or of those on this node. */
uint64_t ranks_total(uint64_t mine);
uint64_t ranks_total_on_node(uint64_t mine);

/* What rank 0 gives. */
int ranks_from_first(int mine);

/* What each rank gives, by rank. */
void ranks_each(int mine, int *of_each);

/* Sets every bit that it is set on any rank of this node. */
void ranks_unite_on_node(void *bits, size_t bytes);

/* Adds to the values of rank 0 those of all others. Where all but one are 0, that is exact. */
void ranks_add_to_first(double *values, size_t count);

/* Numbers for another rank, or from it. */
struct ranks_message {
    int with;
    double *numbers;
    size_t count;
};

/*
 * Sends and receives. Of several messages between two ranks, the first that is sent is the first
 * that is received; what a rank sends itself is copied.
 */
void ranks_exchange(const struct ranks_message *sent, int number_sent,
                    const struct ranks_message *received, int number_received);

/* Says why in a sentence, and ends all ranks; with one rank it does nothing. Any thread may. */
void ranks_give_up(const char *why);
