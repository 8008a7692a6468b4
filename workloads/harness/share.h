/*
 * Tells `stayput share`, when that runs this program, how many threads have something to do: those
 * of a team that don't sleep until others have got far enough. By that the program asks for CPUs
 * and gives them back. Without an allocator each of these is a branch.
 */
#pragma once

#include <stdbool.h>

/* Looks for an allocator, and says that there is one thread. */
void share_join(void);

/* Whether there is one. */
bool share_is_joined(void);

/* A team of so many threads begins, all of which have something to do; or ends, with 1. */
void share_team(int threads);

/* Whether the team has more threads than the program has CPUs at present. */
bool share_is_crowded(void);

/* A thread of the team goes to sleep. */
void share_sleep(void);

/* It has woken up. */
void share_wake(void);
