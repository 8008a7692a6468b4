/*
 * What a run tells of its task graph, one stage at a time: the tasks between two barriers, how long
 * each of them took on one thread, and what they touch. Programs with a graph write it to the file
 * that STAYPUT_TASKS names, a stage a line, as JSON. Without that, a stage costs a branch a task.
 */
#pragma once

#include <omp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Memory that a task touches. */
struct part {
    const char *what;
    double bytes; /* of a task, on average */
    bool again;   /* the task goes over them more than once, or the thread's next one does, too */
    double kept;  /* the share of them that the same thread's next task touches */
};

enum { STAGE_PARTS = 4 };

/* In what order tasks refer to what they use again. */
enum order { IN_ANY_ORDER, IN_PASSES };

struct stage {
    char name[24];
    bool timed;        /* whether anything is recorded */
    int rounds;        /* how often the run comes to this stage */
    int rows, columns; /* of a wavefront; 0 when no task waits for another */
    enum order order;
    double passes;                  /* how often a task goes over all parts that it uses again */
    struct part parts[STAGE_PARTS]; /* those that have a name */

    double since;    /* when the running task began */
    double *seconds; /* that each task took, in the order in which they were done */
    size_t tasks, capacity;
};

void stage_record(struct stage *stage);

/* The first task of a round begins. */
static inline void stage_begin(struct stage *stage) {
    if (stage->timed)
        stage->since = omp_get_wtime();
}

/* A task has ended, and the next one begins. */
static inline void stage_task(struct stage *stage) {
    if (stage->timed)
        stage_record(stage);
}

/* Forgets the times so far, which are those of a warm-up. */
static inline void stage_forget(struct stage *stage) { stage->tasks = 0; }

/* Writes what was recorded, if anything. */
void stage_write(const struct stage *stage, FILE *file);
