/*
 * FT, "Fourier transform", of the NAS Parallel Benchmarks: diffusion on a periodic grid, solved by
 * one three-dimensional Fourier transform forward and, for every step, one backward (Bailey et al.,
 * RNR-94-007, section 2.4). It measures memory bandwidth: no cache holds the grid, and transforms
 * along z gather their elements from all over it.
 *
 * A step passes over memory four times, the least that is possible without a cache for the grid:
 * the columns pass reads the spectrum, lets it decay, transforms along z and writes the field; the
 * planes pass reads a plane of the field, transforms it along y and x, and writes it back.
 *
 * An element of the arrays is a vector of complex numbers that are neighbours along one direction
 * while others are transformed: along x for the transforms along z and y. In front of the one along
 * x, squares of numbers are transposed, so that a finished field has neighbours along y. A plane of
 * the field is ordered [x / LANES][y], so that lines along y are consecutive and lines along x
 * come in whole squares; the spectrum is ordered [x / LANES][y][z], so that columns are.
 *
 * The transform backward is the one forward of numbers with real and imaginary part exchanged. That
 * costs nothing where numbers are copied anyway: the spectrum is exchanged as it decays, and the
 * field stays exchanged until it is summed.
 */
#include "diffusion.h"
#include "fft.h"
#include "memory.h"
#include "program.h"
#include "seat.h"
#include "team.h"

#include <complex.h>
#include <omp.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>

/* One run: what the threads share, and what comes out. */
struct problem {
    const struct class *class;
    struct fft_element *spectrum; /* [x / LANES][y][z] */
    struct fft_element *field;    /* [z][x / LANES][y], planes plane_step(class) apart */
    struct fft_plan along_x, along_y, along_z;
    struct diffusion_powers powers;
    double complex point[CHECKSUM_POINTS];    /* those of the present step */
    double complex checksum[DIFFUSION_STEPS]; /* written by the first thread */
    struct result *result;
};

/*
 * A thread's part of the work, and what it keeps for itself. More threads than planes share each:
 * then a thread has one plane, and takes some of its lines.
 */
struct worker {
    struct problem *problem;
    struct member member;
    bool shares_plane;
    size_t first_plane, end_plane;
    struct range x_blocks, y_blocks; /* LANES lines of a plane each, along y and along x */
    size_t first_column, end_column;
    struct fft_element *work; /* for the longest transform */
    double decay_x[FFT_LONGEST], decay_y[FFT_LONGEST], decay_z[FFT_LONGEST];
};

/* In elements, of which each column makes up one in every plane. */
static size_t columns(const struct class *class) { return class->nx / LANES * class->ny; }

/*
 * From a plane of the field to the next. Planes are a large power of two, so without the odd
 * element and page all of a column would compete for the same place in caches and TLBs.
 */
static size_t plane_step(const struct class *class) {
    return columns(class) + 4096 / sizeof(struct fft_element) + 1;
}

static struct fft_element *plane(const struct problem *problem, size_t z) {
    return problem->field + z * plane_step(problem->class);
}

/* LANES lines of a plane along y. */
static struct fft_lines y_lines(const struct problem *problem, size_t z, size_t x_block) {
    return fft_equidistant(plane(problem, z) + x_block * problem->class->ny, 1);
}

/* LANES lines of a plane along x, in squares. */
static struct fft_lines x_lines(const struct problem *problem, size_t z, size_t y_block) {
    return (struct fft_lines){
        .first = plane(problem, z) + y_block * LANES, .step = 1, .block_step = problem->class->ny};
}

/* The same column of all planes. */
static struct fft_lines z_lines(const struct problem *problem, size_t column) {
    return fft_equidistant(problem->field + column, plane_step(problem->class));
}

/* Transforms lines in place whose squares have yet to be transposed. */
static void transform_transposed(const struct fft_plan *plan, struct fft_lines lines,
                                 struct fft_element *work) {
    for (size_t k = 0; k < plan->length; k += LANES)
        fft_transpose(lines.first + fft_offset(lines, k), work + k);
    fft_transform(plan, fft_equidistant(work, 1), work, lines);
}

/* Threads that share a plane wait until its first transforms are done. */
static void plane_barrier(struct worker *me) {
    if (me->shares_plane)
        team_barrier(me->member.team);
}

/* Fills a plane with the initial data, transformed along x and y. */
static void forward_plane(struct worker *me, size_t z) {
    const struct problem *problem = me->problem;
    const size_t nx = problem->class->nx, ny = problem->class->ny;
    const size_t x_end = (size_t)me->x_blocks.end, y_end = (size_t)me->y_blocks.end;
    const size_t y_first = ny * z + (size_t)me->y_blocks.begin * LANES;
    state_vector state = diffusion_states(problem->class, y_first);
    const uint64_t jump = random_jump(2 * nx * LANES);

    for (size_t y_block = (size_t)me->y_blocks.begin; y_block < y_end; y_block++, state *= jump) {
        diffusion_begin_lines(&problem->powers, nx, state, me->work);
        fft_transform(&problem->along_x, fft_equidistant(me->work, 1), me->work,
                      x_lines(problem, z, y_block));
    }
    plane_barrier(me);
    for (size_t x_block = (size_t)me->x_blocks.begin; x_block < x_end; x_block++)
        transform_transposed(&problem->along_y, y_lines(problem, z, x_block), me->work);
}

/* Transforms a column of the field into one of the spectrum. */
static void forward_column(const struct worker *me, size_t column) {
    const struct problem *problem = me->problem;
    const size_t nz = problem->class->nz;
    struct fft_lines from = z_lines(problem, column);
    struct fft_lines to = fft_equidistant(problem->spectrum + column * nz, 1);
    from.next = column + 1 < me->end_column ? 1 : 0;
    to.streamed = true;
    fft_transform(&problem->along_z, from, me->work, to);
}

/* Lets a column of the spectrum decay and transforms it into one of the field. */
static void backward_column(const struct worker *me, size_t column) {
    const struct problem *problem = me->problem;
    const size_t ny = problem->class->ny, nz = problem->class->nz;
    const struct fft_element *from = problem->spectrum + column * nz;
    lanes decay_xy;
    for (size_t lane = 0; lane < LANES; lane++)
        decay_xy[lane] = me->decay_x[column / ny * LANES + lane] * me->decay_y[column % ny];
    for (size_t z = 0; z < nz; z++) {
        const lanes decay = decay_xy * me->decay_z[z];
        me->work[z] = (struct fft_element){.re = from[z].im * decay, .im = from[z].re * decay};
    }
    struct fft_lines to = z_lines(problem, column);
    to.streamed = true;
    fft_transform(&problem->along_z, fft_equidistant(me->work, 1), me->work, to);
}

/* Finishes a plane of the field. */
static void backward_plane(struct worker *me, size_t z) {
    const struct problem *problem = me->problem;
    const size_t x_end = (size_t)me->x_blocks.end, y_end = (size_t)me->y_blocks.end;
    for (size_t x_block = (size_t)me->x_blocks.begin; x_block < x_end; x_block++) {
        const struct fft_lines to = y_lines(problem, z, x_block);
        struct fft_lines from = to;
        from.next = x_block + 1 < x_end ? problem->class->ny : 0;
        fft_transform(&problem->along_y, from, me->work, to);
    }
    plane_barrier(me);
    for (size_t y_block = (size_t)me->y_blocks.begin; y_block < y_end; y_block++)
        transform_transposed(&problem->along_x, x_lines(problem, z, y_block), me->work);
}

/* Keeps those points of the checksum that lie in a thread's finished lines, which are in cache. */
static void take_points(const struct worker *me, size_t z) {
    struct problem *problem = me->problem;
    const struct class *class = problem->class;
    size_t first = 1;
    while (diffusion_point(class, first).z != z)
        first++;
    for (size_t j = first; j <= CHECKSUM_POINTS; j += class->nz) {
        const size_t x = diffusion_point(class, j).x, y = diffusion_point(class, j).y;
        if (y / LANES < (size_t)me->y_blocks.begin || y / LANES >= (size_t)me->y_blocks.end)
            continue;
        const struct fft_lines lines = x_lines(problem, z, y / LANES);
        const struct fft_element *element = lines.first + fft_offset(lines, x);
        const size_t lane = y % LANES;
        problem->point[j - 1] = element->im[lane] + element->re[lane] * I; /* exchanged */
    }
}

/* The roots of unity and the generator's powers. */
static void make_tables(struct problem *problem) {
    const struct class *class = problem->class;
    fft_plan_make(&problem->along_x, class->nx);
    fft_plan_make(&problem->along_y, class->ny);
    fft_plan_make(&problem->along_z, class->nz);
    diffusion_powers_make(&problem->powers, class->nx);
}

/* From nothing to the spectrum of the initial data. */
static void forward(struct worker *me) {
    if (me->member.thread == 0)
        make_tables(me->problem);
    team_barrier(me->member.team);
    for (size_t z = me->first_plane; z < me->end_plane; z++)
        forward_plane(me, z);
    if (me->first_plane == me->end_plane)
        plane_barrier(me);
    team_barrier(me->member.team);
    for (size_t column = me->first_column; column < me->end_column; column++)
        forward_column(me, column);
    fft_stream_end();
    team_barrier(me->member.team);
}

/* From the spectrum to the field after `steps` steps, and its checksum. */
static void backward(struct worker *me, int steps) {
    struct problem *problem = me->problem;
    diffusion_decay(me->decay_x, problem->class->nx, steps);
    diffusion_decay(me->decay_y, problem->class->ny, steps);
    diffusion_decay(me->decay_z, problem->class->nz, steps);
    for (size_t column = me->first_column; column < me->end_column; column++)
        backward_column(me, column);
    fft_stream_end();
    team_barrier(me->member.team);
    for (size_t z = me->first_plane; z < me->end_plane; z++) {
        backward_plane(me, z);
        take_points(me, z);
    }
    if (me->first_plane == me->end_plane)
        plane_barrier(me);
    team_barrier(me->member.team);
    /* The next points are written behind another barrier. */
    if (me->member.thread == 0)
        problem->checksum[steps - 1] = diffusion_checksum(problem->class, problem->point);
}

/* A thread's part of the benchmark: all up to the spectrum once to warm up, then everything. */
static void solve(struct worker *me) {
    struct problem *problem = me->problem;
    forward(me);
    const double start = omp_get_wtime();
    forward(me);
    for (int steps = 1; steps <= problem->class->steps; steps++)
        backward(me, steps);
    result_time(problem->result, &me->member, start);
}

/* Gives a thread its columns, and its planes or lines of one. */
static void assign_work(struct worker *me) {
    const struct class *class = me->problem->class;
    const int x_blocks = (int)(class->nx / LANES), y_blocks = (int)(class->ny / LANES);
    const int planes = (int)class->nz, most = planes * (int)diffusion_threads_a_plane(class);
    const int threads = me->member.team->threads, workers = threads < most ? threads : most;
    me->shares_plane = threads > planes;
    if (me->member.thread >= workers)
        return;
    const struct range share = range_of((int)columns(class), me->member.thread, workers);
    me->first_column = (size_t)share.begin;
    me->end_column = (size_t)share.end;
    if (me->shares_plane) {
        const struct seat seat = seat_of(planes, workers, me->member.thread);
        me->first_plane = (size_t)seat.group;
        me->end_plane = me->first_plane + 1;
        me->x_blocks = range_of(x_blocks, seat.number, seat.of);
        me->y_blocks = range_of(y_blocks, seat.number, seat.of);
    } else {
        const struct range own = range_of(planes, me->member.thread, workers);
        me->first_plane = (size_t)own.begin;
        me->end_plane = (size_t)own.end;
        me->x_blocks = (struct range){0, x_blocks};
        me->y_blocks = (struct range){0, y_blocks};
    }
}

/* Whether a thread has something to do in both passes. */
static bool has_work(const struct worker *me) {
    return me->first_plane < me->end_plane && me->x_blocks.begin < me->x_blocks.end &&
           me->y_blocks.begin < me->y_blocks.end && me->first_column < me->end_column;
}

/* A thread's whole part. */
static void work(struct member *member, void *shared) {
    struct problem *problem = shared;
    const struct class *class = problem->class;
    struct worker me = {
        .problem = problem,
        .member = *member,
        .work = memory_pages(diffusion_longest(class), sizeof *me.work),
    };
    assign_work(&me);
    team_barrier(member->team);
    if (memory_refused())
        return;
    solve(&me);
    result_worked(problem->result, has_work(&me));
}

/* An array of the size of the grid, in huge pages where the system gives them. */
static struct fft_element *grid_allocate(size_t elements) {
    struct fft_element *grid = memory_pages(elements, sizeof *grid);
#ifdef MADV_HUGEPAGE
    if (grid != NULL)
        madvise(grid, elements * sizeof *grid, MADV_HUGEPAGE); /* if not, it is only slower */
#endif
    return grid;
}

static size_t spectrum_elements(const struct class *class) { return columns(class) * class->nz; }

static size_t field_elements(const struct class *class) { return plane_step(class) * class->nz; }

static void run(size_t class_index, struct result *result) {
    static struct problem problem; /* too large for a stack */
    const struct class *class = problem.class = &DIFFUSION_CLASSES[class_index];
    problem.spectrum = grid_allocate(spectrum_elements(class));
    problem.field = grid_allocate(field_elements(class));
    problem.result = result;
    team_run(work, &problem);
    diffusion_check(class, problem.checksum, result);
}

static uint64_t bytes_needed(size_t class_index, int threads) {
    const struct class *class = &DIFFUSION_CLASSES[class_index];
    const uint64_t elements = spectrum_elements(class) + field_elements(class);
    const uint64_t a_thread =
        diffusion_longest(class) * sizeof(struct fft_element) + sizeof(struct worker);
    return elements * sizeof(struct fft_element) + sizeof(struct problem) +
           (uint64_t)threads * a_thread;
}

static uint64_t useful_threads(size_t class_index) {
    const struct class *class = &DIFFUSION_CLASSES[class_index];
    return class->nz * diffusion_threads_a_plane(class);
}

const struct program PROGRAM = {
    .name = "npb-ft",
    .title = "three-dimensional Fourier transform (NAS Parallel Benchmarks)",
    .bytes_needed = bytes_needed,
    .useful_threads = useful_threads,
    .run = run,
};
