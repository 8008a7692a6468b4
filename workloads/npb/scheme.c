#include "scheme.h"

#include "memory.h"
#include "team.h"

#include <omp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

/* One run of a scheme: what the threads share. */
struct run {
    const struct scheme *scheme;
    const struct flow_class *class;
    struct flow flow;
    double *increment;
    struct flow_norms *plane_squares; /* of each plane, added up in their order */
    int threads;
    _Atomic bool out_of_memory;
    double seconds; /* written by the first thread */
};

static bool run_allocate(struct run *run) {
    if (!flow_create(&run->flow, run->class->n))
        return false;
    run->increment = memory_pages(flow_field_doubles(&run->flow), sizeof *run->increment);
    run->plane_squares = memory_pages((size_t)run->class->n, sizeof *run->plane_squares);
    return run->increment != NULL && run->plane_squares != NULL;
}

static void run_free(struct run *run) {
    flow_destroy(&run->flow);
    free(run->increment);
    free(run->plane_squares);
}

/* Indices first .. end - 1 of a thread's own. */
struct range {
    int first, end;
};

/* A thread's share of the indices 1 .. n - 2, in order. */
static struct range interior_share(int n, int thread, int threads) {
    return (struct range){1 + (n - 2) * thread / threads, 1 + (n - 2) * (thread + 1) / threads};
}

static size_t scratch_doubles(const struct scheme *scheme, const struct flow *flow) {
    const size_t needed = scheme->scratch_doubles(flow);
    return needed > flow->plane ? needed : flow->plane;
}

static void step(const struct run *run, struct team *team, struct range planes, struct range rows,
                 double *scratch) {
    const double dt = run->class->dt;
    for (int k = planes.first; k < planes.end; k++)
        run->scheme->solve_plane(&run->flow, dt, k, run->increment, scratch);
    team_barrier(team);
    for (int j = rows.first; j < rows.end; j++)
        run->scheme->solve_columns(&run->flow, dt, j, run->increment, scratch);
    team_barrier(team);
}

/* A thread's whole part. */
static void run_thread(struct member *me, void *shared) {
    struct run *run = shared;
    struct team *team = me->team;
    const struct flow *flow = &run->flow;
    const int n = flow->n, thread = me->thread;
    double *scratch = memory_pages(scratch_doubles(run->scheme, flow), sizeof *scratch);
    if (scratch == NULL)
        run->out_of_memory = true;
    team_barrier(team);
    if (run->out_of_memory) {
        free(scratch);
        return;
    }

    const struct range interior = interior_share(n, thread, team->threads);
    const struct range planes = {thread == 0 ? 0 : interior.first,
                                 thread == team->threads - 1 ? n : interior.end};
    flow_prepare(flow, team, planes.first, planes.end);
    step(run, team, interior, interior, scratch);
    flow_initialise(flow, planes.first, planes.end);
    team_barrier(team);

    const double start = omp_get_wtime();
    for (int s = 0; s < run->class->steps; s++)
        step(run, team, interior, interior, scratch);
    if (thread == 0) {
        run->threads = team->threads;
        run->seconds = omp_get_wtime() - start;
    }

    for (int k = interior.first; k < interior.end; k++) {
        flow_plane_residual_squares(flow, k, scratch, run->plane_squares[k].residual);
        flow_plane_error_squares(flow, k, run->plane_squares[k].error);
    }
    free(scratch);
}

uint64_t scheme_bytes(const struct scheme *scheme, int n, int threads) {
    const struct flow shape = flow_shape(n);
    const uint64_t field = flow_field_doubles(&shape);
    return flow_bytes(n) +
           (field + (uint64_t)threads * scratch_doubles(scheme, &shape)) * sizeof(double) +
           (uint64_t)n * sizeof(struct flow_norms);
}

void scheme_run(const struct scheme *scheme, const struct flow_class *class,
                struct result *result) {
    struct run run = {.scheme = scheme, .class = class};
    if (run_allocate(&run)) {
        if (!team_run(run_thread, &run))
            run.out_of_memory = true;
    } else {
        run.out_of_memory = true;
    }
    result->out_of_memory = run.out_of_memory;
    if (!run.out_of_memory) {
        result->threads = run.threads;
        result->seconds = run.seconds;
        const struct flow_norms norms = flow_norms_of(run.plane_squares, class->n);
        flow_check(result, &norms, &class->norms);
    }
    run_free(&run);
}
