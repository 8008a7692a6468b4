#include "scheme.h"

#include "memory.h"
#include "team.h"

/* One run: what the threads share. */
struct run {
    struct flow_run frame;
    double *increment;
};

/* A thread solves in its share of the planes, then in its share of the rows. */
static void step(const void *solver, struct member *me, int number, double *scratch) {
    (void)number;
    const struct run *run = solver;
    const struct flow *flow = &run->frame.flow;
    const int inner = flow->n - 2, threads = me->team->threads;
    const int first = 1 + inner * me->thread / threads;
    const int end = 1 + inner * (me->thread + 1) / threads;
    const double dt = run->frame.class->dt;
    for (int k = first; k < end; k++)
        SCHEME.solve_plane(flow, dt, k, run->increment, scratch);
    team_barrier(me->team);
    for (int j = first; j < end; j++)
        SCHEME.solve_columns(flow, dt, j, run->increment, scratch);
    team_barrier(me->team);
}

uint64_t scheme_bytes_needed(size_t class_index, int threads) {
    const int n = SCHEME.classes[class_index].n;
    const struct flow shape = flow_shape(n);
    return flow_run_bytes(n, threads, SCHEME.scratch_doubles(&shape)) +
           (uint64_t)flow_field_doubles(&shape) * sizeof(double);
}

void scheme_run(size_t class_index, struct result *result) {
    const struct flow_class *class = &SCHEME.classes[class_index];
    struct run run = {.frame = flow_run_create(class, result)};
    const struct flow *flow = &run.frame.flow;
    run.increment = memory_pages(flow_field_doubles(flow), sizeof *run.increment);
    run.frame.scratch_doubles = SCHEME.scratch_doubles(flow);
    run.frame.solver = &run;
    run.frame.step = step;
    flow_solve(&run.frame);
    result->operations = class->steps * SCHEME.operations(class->n);
}
