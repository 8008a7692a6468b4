/*
 * The memory of a run: how much this process may still take, asked before anything large is
 * allocated, and what was allocated. A process runs its kernel once, so all is given back at once.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The tightest limit in force: how many bytes are left under it, and which one it is. */
struct memory_left {
    uint64_t bytes;
    const char *limit;
};

/*
 * What `processes` like this one may take together: the least of MemAvailable, of what the memory
 * cgroup (v1 or v2) and its ancestors leave, and of what RLIMIT_AS leaves each. A limit that cannot
 * be read does not count; with none, UINT64_MAX bytes.
 */
struct memory_left memory_left(int processes);

/*
 * `count` elements of `element_bytes` bytes, uninitialised and aligned to a page, so that each page
 * is placed by the thread that writes it first. NULL when they cannot be had.
 */
void *memory_pages(size_t count, size_t element_bytes);

/* Whether anything was refused, to any thread: then the run can't go on. With several ranks it
 * doesn't. */
bool memory_refused(void);

/* Gives back all that memory_pages gave. */
void memory_give_back(void);
