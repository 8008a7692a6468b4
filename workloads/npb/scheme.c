#include "scheme.h"

#include "memory.h"
#include "team.h"

#include <omp.h>

/* One run: what the threads share. */
struct run {
    struct flow_run frame;
    double *increment;
    double **scratch; /* of each thread */
};

/* The fewest bundles that a plane has on any machine: those of the widest vectors. */
static int threads_a_plane(int n) { return (n - 2 + FLOW_CACHE_LINE - 1) / FLOW_CACHE_LINE; }

/* A thread solves in its share of the planes, then in its share of the rows. */
static bool step_planes(const struct run *run, struct member *me, double *scratch) {
    const struct flow *flow = &run->frame.flow;
    const double dt = run->frame.class->dt;
    const struct range share = range_of(flow->n - 2, me->thread, me->team->threads);
    for (int k = 1 + share.begin; k <= share.end; k++)
        SCHEME.solve_plane(flow, dt, k, run->increment, scratch);
    team_barrier(me->team);
    for (int j = 1 + share.begin; j <= share.end; j++)
        SCHEME.solve_columns(flow, dt, j, scheme_vectors(flow->n), run->increment, scratch);
    team_barrier(me->team);
    return share.begin < share.end;
}

/*
 * More threads than planes: several share each, and likewise each row's columns. In a plane, what
 * the first of them has as scratch memory for it is everybody's.
 */
static bool step_groups(const struct run *run, struct member *me, double *scratch) {
    const struct flow *flow = &run->frame.flow;
    const double dt = run->frame.class->dt;
    const int planes = flow->n - 2, most = planes * threads_a_plane(flow->n);
    const int workers = me->team->threads < most ? me->team->threads : most;
    if (me->thread >= workers) {
        for (int barrier = 0; barrier < 4; barrier++)
            team_barrier(me->team);
        return false;
    }
    const struct seat seat = seat_of(planes, workers, me->thread);
    const int first = seat_first_thread(planes, workers, seat.group), line = 1 + seat.group;
    const struct range bundles = range_of(scheme_bundles(flow->n).end, seat.number, seat.of);
    const struct range vectors = range_of(scheme_vectors(flow->n).end, seat.number, seat.of);
    run->scratch[me->thread] = scratch;
    team_barrier(me->team);
    double *plane = run->scratch[first];
    SCHEME.solve_rows(flow, dt, line, bundles, run->increment, plane, scratch);
    team_barrier(me->team);
    SCHEME.solve_across(flow, dt, line, vectors, run->increment, plane, scratch);
    team_barrier(me->team);
    SCHEME.solve_columns(flow, dt, line, vectors, run->increment, scratch);
    team_barrier(me->team);
    return bundles.begin < bundles.end && vectors.begin < vectors.end;
}

static bool step(const void *solver, struct member *me, int number, double *scratch) {
    (void)number;
    const struct run *run = solver;
    return me->team->threads > run->frame.flow.n - 2 ? step_groups(run, me, scratch)
                                                     : step_planes(run, me, scratch);
}

uint64_t scheme_useful_threads(size_t class_index) {
    const int n = SCHEME.classes[class_index].n;
    return (uint64_t)(n - 2) * (uint64_t)threads_a_plane(n);
}

uint64_t scheme_bytes_needed(size_t class_index, int threads) {
    const int n = SCHEME.classes[class_index].n;
    const struct flow shape = flow_shape(n);
    return flow_run_bytes(n, threads, SCHEME.scratch_doubles(&shape)) +
           (uint64_t)flow_field_doubles(&shape) * sizeof(double) +
           (uint64_t)threads * sizeof(double *);
}

void scheme_run(size_t class_index, struct result *result) {
    const struct flow_class *class = &SCHEME.classes[class_index];
    struct run run = {.frame = flow_run_create(class, result)};
    const struct flow *flow = &run.frame.flow;
    run.increment = memory_pages(flow_field_doubles(flow), sizeof *run.increment);
    run.scratch = memory_pages((size_t)omp_get_max_threads(), sizeof *run.scratch);
    run.frame.scratch_doubles = SCHEME.scratch_doubles(flow);
    run.frame.solver = &run;
    run.frame.step = step;
    flow_solve(&run.frame);
    result->operations = class->steps * SCHEME.operations(class->n);
}
