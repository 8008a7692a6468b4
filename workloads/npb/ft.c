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
#include "fft.h"
#include "memory.h"
#include "program.h"
#include "random.h"
#include "team.h"

#include <complex.h>
#include <math.h>
#include <omp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>

enum { MAX_STEPS = 25, CHECKSUM_POINTS = 1024 };

static const uint64_t SEED = 314159265;
static const double TOLERANCE = 1.0e-12;
static const double ALPHA = 1.0e-6; /* diffusivity */
static const double PI = 3.14159265358979323846;

struct class {
    size_t nx, ny, nz;
    int steps;
    double checksum[MAX_STEPS][2]; /* real and imaginary parts */
};

static const struct class CLASSES[] = {
    {64,
     64,
     64,
     6,
     {{5.546087004964e+02, 4.845363331978e+02},
      {5.546385409189e+02, 4.865304269511e+02},
      {5.546148406171e+02, 4.883910722336e+02},
      {5.545423607415e+02, 4.901273169046e+02},
      {5.544255039624e+02, 4.917475857993e+02},
      {5.542683411902e+02, 4.932597244941e+02}}},
    {128,
     128,
     32,
     6,
     {{5.673612178944e+02, 5.293246849175e+02},
      {5.631436885271e+02, 5.282149986629e+02},
      {5.594024089970e+02, 5.270996558037e+02},
      {5.560698047020e+02, 5.260027904925e+02},
      {5.530898991250e+02, 5.249400845633e+02},
      {5.504159734538e+02, 5.239212247086e+02}}},
    {256,
     256,
     128,
     6,
     {{5.046735008193e+02, 5.114047905510e+02},
      {5.059412319734e+02, 5.098809666433e+02},
      {5.069376896287e+02, 5.098144042213e+02},
      {5.077892868474e+02, 5.101336130759e+02},
      {5.085233095391e+02, 5.104914655194e+02},
      {5.091487099959e+02, 5.107917842803e+02}}},
    {512,
     256,
     256,
     20,
     {{5.177643571579e+02, 5.077803458597e+02}, {5.154521291263e+02, 5.088249431599e+02},
      {5.146409228649e+02, 5.096208912659e+02}, {5.142378756213e+02, 5.101023387619e+02},
      {5.139626667737e+02, 5.103976610617e+02}, {5.137423460082e+02, 5.105948019802e+02},
      {5.135547056878e+02, 5.107404165783e+02}, {5.133910925466e+02, 5.108576573661e+02},
      {5.132470705390e+02, 5.109577278523e+02}, {5.131197729984e+02, 5.110460304483e+02},
      {5.130070319283e+02, 5.111252433800e+02}, {5.129070537032e+02, 5.111968077718e+02},
      {5.128182883502e+02, 5.112616233064e+02}, {5.127393733383e+02, 5.113203605551e+02},
      {5.126691062020e+02, 5.113735928093e+02}, {5.126064276004e+02, 5.114218460548e+02},
      {5.125504076570e+02, 5.114656139760e+02}, {5.125002331720e+02, 5.115053595966e+02},
      {5.124551951846e+02, 5.115415130407e+02}, {5.124146770029e+02, 5.115744692211e+02}}},
    {512,
     512,
     512,
     20,
     {{5.195078707457e+02, 5.149019699238e+02}, {5.155422171134e+02, 5.127578201997e+02},
      {5.144678022222e+02, 5.122251847514e+02}, {5.140150594328e+02, 5.121090289018e+02},
      {5.137550426810e+02, 5.121143685824e+02}, {5.135811056728e+02, 5.121496764568e+02},
      {5.134569343165e+02, 5.121870921893e+02}, {5.133651975661e+02, 5.122193250322e+02},
      {5.132955192805e+02, 5.122454735794e+02}, {5.132410471738e+02, 5.122663649603e+02},
      {5.131971141679e+02, 5.122830879827e+02}, {5.131605205716e+02, 5.122965869718e+02},
      {5.131290734194e+02, 5.123075927445e+02}, {5.131012720314e+02, 5.123166486553e+02},
      {5.130760908195e+02, 5.123241541685e+02}, {5.130528295923e+02, 5.123304037599e+02},
      {5.130310107773e+02, 5.123356167976e+02}, {5.130103090133e+02, 5.123399592211e+02},
      {5.129905029333e+02, 5.123435588985e+02}, {5.129714421109e+02, 5.123465164008e+02}}},
    {2048,
     1024,
     1024,
     25,
     {{5.122230065252e+02, 5.118534037109e+02}, {5.120463975765e+02, 5.117061181082e+02},
      {5.119865766760e+02, 5.117096364601e+02}, {5.119518799488e+02, 5.117373863950e+02},
      {5.119269088223e+02, 5.117680347632e+02}, {5.119082416858e+02, 5.117967875532e+02},
      {5.118943814638e+02, 5.118225281841e+02}, {5.118842385057e+02, 5.118451629348e+02},
      {5.118769435632e+02, 5.118649119387e+02}, {5.118718203448e+02, 5.118820803844e+02},
      {5.118683569061e+02, 5.118969781011e+02}, {5.118661708593e+02, 5.119098918835e+02},
      {5.118649768950e+02, 5.119210777066e+02}, {5.118645605626e+02, 5.119307604484e+02},
      {5.118647586618e+02, 5.119391362671e+02}, {5.118654451572e+02, 5.119463757241e+02},
      {5.118665212451e+02, 5.119526269238e+02}, {5.118679083821e+02, 5.119580184108e+02},
      {5.118695433664e+02, 5.119626617538e+02}, {5.118713748264e+02, 5.119666538138e+02},
      {5.118733606701e+02, 5.119700787219e+02}, {5.118754661974e+02, 5.119730095953e+02},
      {5.118776626738e+02, 5.119755100241e+02}, {5.118799262314e+02, 5.119776353561e+02},
      {5.118822370068e+02, 5.119794338060e+02}}},
};

/* Random states of neighbouring lines. */
typedef uint64_t state_vector __attribute__((vector_size(LANES * sizeof(uint64_t))));

/* One run: what the threads share, and what comes out. */
struct problem {
    const struct class *class;
    struct fft_element *spectrum; /* [x / LANES][y][z] */
    struct fft_element *field;    /* [z][x / LANES][y], planes plane_step(class) apart */
    struct fft_plan along_x, along_y, along_z;
    uint64_t re_power[FFT_LONGEST], im_power[FFT_LONGEST]; /* of the generator, along x */
    double complex point[CHECKSUM_POINTS];                 /* those of the present step */
    double complex checksum[MAX_STEPS]; /* written by the first thread */
    struct result *result;
};

/* A thread's part of the work, and what it keeps for itself. */
struct worker {
    struct problem *problem;
    struct member member;
    size_t first_plane, end_plane;
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

static size_t longest(const struct class *class) {
    const size_t xy = class->nx > class->ny ? class->nx : class->ny;
    return xy > class->nz ? xy : class->nz;
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

/* x 2^-46 of every lane; exact, by putting x behind the exponent of 1. */
static lanes uniform(state_vector state) {
    return (lanes)(state >> 12 | UINT64_C(0x3ff0000000000000)) - 1.0;
}

/* Fills a plane with the initial data, transformed along x and y. */
static void forward_plane(const struct worker *me, size_t z) {
    const struct problem *problem = me->problem;
    const size_t nx = problem->class->nx, ny = problem->class->ny;
    state_vector state; /* in front of each line; there are two numbers to a point */
    for (size_t lane = 0; lane < LANES; lane++)
        state[lane] = random_seed(SEED) * random_jump(2 * nx * (ny * z + lane));
    const uint64_t jump = random_jump(2 * nx * LANES);

    for (size_t y_block = 0; y_block < ny / LANES; y_block++, state *= jump) {
        for (size_t x = 0; x < nx; x++)
            me->work[x] = (struct fft_element){.re = uniform(state * problem->re_power[x]),
                                               .im = uniform(state * problem->im_power[x])};
        fft_transform(&problem->along_x, fft_equidistant(me->work, 1), me->work,
                      x_lines(problem, z, y_block));
    }
    for (size_t x_block = 0; x_block < nx / LANES; x_block++)
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
static void backward_plane(const struct worker *me, size_t z) {
    const struct problem *problem = me->problem;
    const size_t x_blocks = problem->class->nx / LANES, ny = problem->class->ny;
    for (size_t x_block = 0; x_block < x_blocks; x_block++) {
        const struct fft_lines to = y_lines(problem, z, x_block);
        struct fft_lines from = to;
        from.next = x_block + 1 < x_blocks ? ny : 0;
        fft_transform(&problem->along_y, from, me->work, to);
    }
    for (size_t y_block = 0; y_block < ny / LANES; y_block++)
        transform_transposed(&problem->along_x, x_lines(problem, z, y_block), me->work);
}

/* Keeps those points of the checksum that lie in a finished plane, while it is in the cache. */
static void take_points(struct problem *problem, size_t z) {
    const struct class *class = problem->class;
    size_t first = 1;
    while (5 * first % class->nz != z)
        first++;
    for (size_t j = first; j <= CHECKSUM_POINTS; j += class->nz) {
        const size_t x = j % class->nx, y = 3 * j % class->ny;
        const struct fft_lines lines = x_lines(problem, z, y / LANES);
        const struct fft_element *element = lines.first + fft_offset(lines, x);
        const size_t lane = y % LANES;
        problem->point[j - 1] = element->im[lane] + element->re[lane] * I; /* exchanged */
    }
}

static double complex sum_points(const struct problem *problem) {
    const struct class *class = problem->class;
    double complex sum = 0;
    for (size_t j = 0; j < CHECKSUM_POINTS; j++)
        sum += problem->point[j];
    return sum / (double)(class->nx * class->ny * class->nz);
}

/* By how much each wavenumber of a direction of n points decays within `steps` steps. */
static void fill_decay(double *decay, size_t n, int steps) {
    for (size_t k = 0; k < n; k++) {
        const double wavenumber = k < n / 2 ? (double)k : (double)k - (double)n;
        decay[k] = exp(-4.0 * ALPHA * PI * PI * wavenumber * wavenumber * steps);
    }
}

/* The roots of unity and the generator's powers. */
static void make_tables(struct problem *problem) {
    const struct class *class = problem->class;
    fft_plan_make(&problem->along_x, class->nx);
    fft_plan_make(&problem->along_y, class->ny);
    fft_plan_make(&problem->along_z, class->nz);
    uint64_t power = 1;
    for (size_t x = 0; x < class->nx; x++) {
        problem->re_power[x] = power *= RANDOM_MULTIPLIER;
        problem->im_power[x] = power *= RANDOM_MULTIPLIER;
    }
}

/* From nothing to the spectrum of the initial data. */
static void forward(struct worker *me) {
    if (me->member.thread == 0)
        make_tables(me->problem);
    team_barrier(me->member.team);
    for (size_t z = me->first_plane; z < me->end_plane; z++)
        forward_plane(me, z);
    team_barrier(me->member.team);
    for (size_t column = me->first_column; column < me->end_column; column++)
        forward_column(me, column);
    fft_stream_end();
    team_barrier(me->member.team);
}

/* From the spectrum to the field after `steps` steps, and its checksum. */
static void backward(struct worker *me, int steps) {
    struct problem *problem = me->problem;
    fill_decay(me->decay_x, problem->class->nx, steps);
    fill_decay(me->decay_y, problem->class->ny, steps);
    fill_decay(me->decay_z, problem->class->nz, steps);
    for (size_t column = me->first_column; column < me->end_column; column++)
        backward_column(me, column);
    fft_stream_end();
    team_barrier(me->member.team);
    for (size_t z = me->first_plane; z < me->end_plane; z++) {
        backward_plane(me, z);
        take_points(problem, z);
    }
    team_barrier(me->member.team);
    /* The next points are written behind another barrier. */
    if (me->member.thread == 0)
        problem->checksum[steps - 1] = sum_points(problem);
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

/* A thread's whole part. */
static void work(struct member *member, void *shared) {
    struct problem *problem = shared;
    const struct class *class = problem->class;
    const size_t threads = (size_t)member->team->threads, t = (size_t)member->thread;
    struct worker me = {
        .problem = problem,
        .member = *member,
        .first_plane = class->nz * t / threads,
        .end_plane = class->nz * (t + 1) / threads,
        .first_column = columns(class) * t / threads,
        .end_column = columns(class) * (t + 1) / threads,
        .work = memory_pages(longest(class), sizeof *me.work),
    };
    team_barrier(member->team);
    if (!memory_refused())
        solve(&me);
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
    const struct class *class = problem.class = &CLASSES[class_index];
    problem.spectrum = grid_allocate(spectrum_elements(class));
    problem.field = grid_allocate(field_elements(class));
    problem.result = result;
    team_run(work, &problem);
    /* NPB's count: it takes 14.8157 + 7.19641 ln N a point up to the spectrum. */
    const double n = (double)(class->nx * class->ny * class->nz);
    result->operations =
        n * (14.8157 + 7.19641 * log(n) + (5.23518 + 7.21113 * log(n)) * class->steps);
    for (int i = 0; i < class->steps && !memory_refused(); i++) {
        char name[32];
        snprintf(name, sizeof name, "checksum %d", i + 1);
        result_check_complex(result, name, problem.checksum[i],
                             class->checksum[i][0] + class->checksum[i][1] * I, TOLERANCE);
    }
}

static uint64_t bytes_needed(size_t class_index, int threads) {
    const struct class *class = &CLASSES[class_index];
    const uint64_t elements = spectrum_elements(class) + field_elements(class);
    const uint64_t a_thread = longest(class) * sizeof(struct fft_element) + sizeof(struct worker);
    return elements * sizeof(struct fft_element) + sizeof(struct problem) +
           (uint64_t)threads * a_thread;
}

const struct program PROGRAM = {
    .name = "npb-ft",
    .title = "three-dimensional Fourier transform (NAS Parallel Benchmarks)",
    .bytes_needed = bytes_needed,
    .run = run,
};
