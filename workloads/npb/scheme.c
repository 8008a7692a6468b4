#include "scheme.h"

#include "memory.h"
#include "team.h"

/* One run of a scheme: what the threads share. */
struct run {
    const struct scheme *scheme;
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
        run->scheme->solve_plane(flow, dt, k, run->increment, scratch);
    team_barrier(me->team);
    for (int j = first; j < end; j++)
        run->scheme->solve_columns(flow, dt, j, run->increment, scratch);
    team_barrier(me->team);
}

uint64_t scheme_bytes(const struct scheme *scheme, int n, int threads) {
    const struct flow shape = flow_shape(n);
    return flow_run_bytes(n, threads, scheme->scratch_doubles(&shape)) +
           (uint64_t)flow_field_doubles(&shape) * sizeof(double);
}

void scheme_run(const struct scheme *scheme, const struct flow_class *class,
                struct result *result) {
    struct run run = {.scheme = scheme, .frame = flow_run_create(class, result)};
    const struct flow *flow = &run.frame.flow;
    run.increment = memory_pages(flow_field_doubles(flow), sizeof *run.increment);
    run.frame.scratch_doubles = scheme->scratch_doubles(flow);
    run.frame.solver = &run;
    run.frame.step = step;
    flow_solve(&run.frame);
}
