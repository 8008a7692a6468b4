/*
 * The report's Mp3d: rarefied hypersonic flow past a flat plate that stands across it, by particles
 * (G. A. Bird, Molecular Gas Dynamics and the Direct Simulation of Gas Flows, 1994). Class S has
 * the report's 50,000 particles and 15 steps.
 *
 * A step has three parts, with a barrier behind each: particles fly and meet the plate and the
 * boundary; they are sorted by cell, in as stable an order as one thread would give them; those of
 * a cell collide as hard spheres by Bird's scheme without a time counter. Random numbers belong to
 * a particle and step, or a cell and step, and sums are made slice by slice: results are the same
 * bits with any number of threads.
 *
 * Units: the side of a cell, the speed of the free stream, and the mass of a particle.
 *
 * More runs of the same code judge it. Without collisions the drag of the plate is that of a
 * free-molecular flow, which is known exactly and doesn't depend on the domain, since nothing that
 * leaves comes back. In a closed box, particles that all start with one speed reach a Maxwellian
 * and then collide as often as kinetic theory says. Both errors fall with the square root of the
 * number of particles.
 */
#include "memory.h"
#include "program.h"
#include "team.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

/* Parts of a step; the second is one thread's. */
enum phase { FLYING, LAYING_OUT, SORTING, COLLIDING, PHASES };

enum { X, Y, Z, DIMENSIONS };

/* Shares of particles and of cells that are handed out. */
enum { SLICES = 64 };

/* Speed of the stream over the most probable one of its molecules: Mach 10 for a monatomic gas. */
static const double SPEED_RATIO = 9.128709291752769; /* 10 sqrt(5/6) */

/* Temperature of the plate, which reflects diffusely, over that of the stream. */
static const double PLATE_TEMPERATURE = 4.0;

/* Particles in a cell of the stream; mean free path there; and a step. */
static const double DENSITY = 50000.0 / 4900.0, FREE_PATH = 1.0, STEP = 0.4;

/* Cells of class S along the stream and across it, of which the plate covers the middle. */
enum { CELLS_ALONG = 25, CELLS_ACROSS = 14, PLATE_AT = 10, PLATE_BEGIN = 4, PLATE_END = 10 };

/* Every class has about twice the cells of the one before it in each direction. */
static const struct {
    int scale, steps;
} CLASSES[] = {{1, 15}, {2, 30}, {3, 60}, {5, 100}, {8, 200}, {16, 400}};

struct particle {
    double at[DIMENSIONS], velocity[DIMENSIONS];
    uint32_t cell; /* the number of cells when it has left */
};

/* What happened to a slice of particles or cells. */
struct tally {
    double drag, plate_energy, left_energy, entered_energy, candidates, accepted;
    int64_t left, hits;
};

struct gas {
    int size[DIMENSIONS], steps;
    bool closed, collide;
    double density;   /* particles in a cell of the stream */
    uint64_t numbers; /* which ones it draws */
    size_t cells, count, capacity;
    size_t entering[2 * DIMENSIONS]; /* in this step, face by face: low and high, X to Z */
    double owed[2 * DIMENSIONS];     /* what rounding left to enter later */
    double beta, plate_beta, cross_section;
    int plate[3]; /* where; and its begin and end in y and z */
    struct particle *now, *next;
    double *fastest;  /* relative speed times cross section's bound, cell by cell */
    uint32_t *begin;  /* of each cell's particles */
    uint32_t *places; /* threads x (cells + 1) */
    struct tally tally[SLICES];
    struct result *result;
    bool timed;
    int step, steps_done;
    double phase_s[PHASES]; /* of all steps, with the barriers behind them, as thread 0 sees it */
    double copy_s;          /* for a copy of all particles in order, by all threads */
};

/* A stream of random numbers: Steele, Lea and Flood's SplitMix64 (OOPSLA 2014). */
static uint64_t next_bits(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* What a gas draws numbers for. */
enum kind { FLIGHT, ENTRY, COLLISIONS, START, KINDS };

/* The stream of thing `index` of kind `kind` in step `step`. */
static uint64_t stream_of(const struct gas *gas, enum kind kind, uint64_t step, uint64_t index) {
    uint64_t state = (gas->numbers * KINDS + kind) << 56 ^ step << 40 ^ index;
    return next_bits(&state);
}

/* In (0, 1). */
static double uniform(uint64_t *state) {
    return ((double)(next_bits(state) >> 12) + 0.5) * 0x1p-52;
}

/* A component of the velocity in a Maxwellian at rest. */
static double thermal(uint64_t *state, double beta) {
    return sqrt(-log(uniform(state))) * cos(2.0 * M_PI * uniform(state)) / beta;
}

/* Particles that cross a unit of area and time with normal speed ratio s, over density / beta. */
static double flux(double s) {
    return (exp(-s * s) + sqrt(M_PI) * s * (1.0 + erf(s))) / (2.0 * sqrt(M_PI));
}

/* The momentum that they bring along the normal, over density / beta^2. */
static double momentum_flux(double s) {
    return (s * exp(-s * s) + sqrt(M_PI) * (0.5 + s * s) * (1.0 + erf(s))) / (2.0 * sqrt(M_PI));
}

/* A normal speed of those that cross, times beta: the share `u` of its distribution, bisected. */
static double crossing_speed(double s, double u) {
    const double tail = exp(-s * s), all = tail + sqrt(M_PI) * s * (1.0 + erf(s));
    double low = 0.0, high = fmax(s, 0.0) + 7.0;
    for (int i = 0; i < 50; i++) {
        const double w = 0.5 * (low + high);
        const double below =
            tail - exp(-(w - s) * (w - s)) + sqrt(M_PI) * s * (erf(s) + erf(w - s));
        if (below < u * all)
            low = w;
        else
            high = w;
    }
    return 0.5 * (low + high);
}

static double speed2(const struct particle *p) {
    return p->velocity[X] * p->velocity[X] + p->velocity[Y] * p->velocity[Y] +
           p->velocity[Z] * p->velocity[Z];
}

/* A particle that comes in through a face, somewhere in this step; returns the time it has left. */
static double enter(const struct gas *gas, size_t number, struct particle *p, struct tally *tally) {
    uint64_t state = stream_of(gas, ENTRY, (uint64_t)gas->step, number);
    int face = 0;
    while (number >= gas->entering[face])
        number -= gas->entering[face++];
    const int normal = face / 2;
    const double inward = face % 2 == 0 ? 1.0 : -1.0;
    for (int d = 0; d < DIMENSIONS; d++) {
        p->at[d] = gas->size[d] * uniform(&state);
        p->velocity[d] = thermal(&state, gas->beta) + (d == X);
    }
    const double s = normal == X ? inward * SPEED_RATIO : 0.0;
    p->velocity[normal] = inward * crossing_speed(s, uniform(&state)) / gas->beta;
    p->at[normal] = face % 2 == 0 ? 0.0 : gas->size[normal];
    tally->entered_energy += 0.5 * speed2(p);
    return STEP * uniform(&state);
}

/* The plate gives back what met it, as if it came out of a gas of the plate's temperature. */
static void reflect(const struct gas *gas, struct particle *p, double side, uint64_t *state,
                    struct tally *tally) {
    const double before = p->velocity[X], energy = 0.5 * speed2(p);
    p->velocity[X] = side * sqrt(-log(uniform(state))) / gas->plate_beta;
    p->velocity[Y] = thermal(state, gas->plate_beta);
    p->velocity[Z] = thermal(state, gas->plate_beta);
    tally->drag += before - p->velocity[X];
    tally->plate_energy += energy - 0.5 * speed2(p);
    tally->hits++;
}

/* Flies for `time`, meets what there is, and finds its cell. */
static void fly(const struct gas *gas, struct particle *p, double time, uint64_t *state,
                struct tally *tally) {
    const double x = p->at[X];
    if (!gas->closed && (x - gas->plate[0]) * (x + p->velocity[X] * time - gas->plate[0]) < 0.0) {
        const double until = (gas->plate[0] - x) / p->velocity[X];
        const double y = p->at[Y] + p->velocity[Y] * until, z = p->at[Z] + p->velocity[Z] * until;
        if (y > gas->plate[1] && y < gas->plate[2] && z > gas->plate[1] && z < gas->plate[2]) {
            p->at[X] = gas->plate[0], p->at[Y] = y, p->at[Z] = z;
            reflect(gas, p, x < gas->plate[0] ? -1.0 : 1.0, state, tally);
            time -= until;
        }
    }
    bool inside = true;
    for (int d = 0; d < DIMENSIONS; d++) {
        p->at[d] += p->velocity[d] * time;
        if (gas->closed && p->at[d] < 0.0)
            p->at[d] = -p->at[d], p->velocity[d] = -p->velocity[d];
        if (gas->closed && p->at[d] >= gas->size[d])
            p->at[d] = 2.0 * gas->size[d] - p->at[d], p->velocity[d] = -p->velocity[d];
        inside &= p->at[d] >= 0.0 && p->at[d] < gas->size[d];
    }
    if (inside) {
        p->cell = (uint32_t)(((int)p->at[X] * gas->size[Y] + (int)p->at[Y]) * gas->size[Z] +
                             (int)p->at[Z]);
    } else {
        p->cell = (uint32_t)gas->cells;
        tally->left++;
        tally->left_energy += 0.5 * speed2(p);
    }
}

/* Particles that the stream brings in through a face of an open gas in a step. */
static double influx(const struct gas *gas, int face) {
    const double s = face == 0 ? SPEED_RATIO : face == 1 ? -SPEED_RATIO : 0.0;
    const int a = (face / 2 + 1) % 3, b = (face / 2 + 2) % 3;
    return gas->density / gas->beta * flux(s) * gas->size[a] * gas->size[b] * STEP;
}

/* Finds out how many come in through each face in this step. */
static void count_entering(struct gas *gas) {
    for (int face = 0; face < 2 * DIMENSIONS; face++) {
        if (!gas->closed)
            gas->owed[face] += influx(gas, face);
        gas->entering[face] = (size_t)gas->owed[face];
        gas->owed[face] -= (double)gas->entering[face];
    }
}

/* Two hard spheres that collide: their relative velocity turns into any direction. */
static void collide_pair(struct particle *p, struct particle *q, double relative, uint64_t *state) {
    const double cosine = 2.0 * uniform(state) - 1.0, angle = 2.0 * M_PI * uniform(state);
    const double sine = sqrt(1.0 - cosine * cosine);
    const double direction[DIMENSIONS] = {cosine, sine * cos(angle), sine * sin(angle)};
    for (int d = 0; d < DIMENSIONS; d++) {
        const double centre = 0.5 * (p->velocity[d] + q->velocity[d]);
        p->velocity[d] = centre + 0.5 * relative * direction[d];
        q->velocity[d] = centre - 0.5 * relative * direction[d];
    }
}

/* The collisions of a cell in a step. */
static void collide_cell(struct gas *gas, size_t cell, struct tally *tally) {
    struct particle *p = gas->now + gas->begin[cell];
    const uint32_t n = gas->begin[cell + 1] - gas->begin[cell];
    if (n < 2)
        return;
    uint64_t state = stream_of(gas, COLLISIONS, (uint64_t)gas->step, cell);
    const double bound = gas->fastest[cell];
    const double pairs = 0.5 * n * (n - 1.0) * gas->cross_section * bound * STEP + uniform(&state);
    for (int pair = (int)pairs; pair > 0; pair--) {
        const uint32_t i = (uint32_t)(n * uniform(&state));
        const uint32_t other = (uint32_t)((n - 1) * uniform(&state)), j = other + (other >= i);
        double square = 0.0;
        for (int d = 0; d < DIMENSIONS; d++)
            square += (p[i].velocity[d] - p[j].velocity[d]) * (p[i].velocity[d] - p[j].velocity[d]);
        const double relative = sqrt(square);
        tally->candidates++;
        if (relative > gas->fastest[cell])
            gas->fastest[cell] = relative;
        if (uniform(&state) * bound < relative) {
            collide_pair(&p[i], &p[j], relative, &state);
            tally->accepted++;
        }
    }
}

/* A thread's part of a number of slices. */
static int slice_begin(const struct member *me, int thread) {
    return SLICES * thread / me->team->threads;
}

static size_t in_slice(size_t count, int slice) { return count * (size_t)slice / SLICES; }

static void fly_slices(struct gas *gas, const struct member *me, size_t all) {
    const size_t old = gas->count;
    uint32_t *places = gas->places + (size_t)me->thread * (gas->cells + 1);
    memset(places, 0, (gas->cells + 1) * sizeof *places);
    for (int slice = slice_begin(me, me->thread); slice < slice_begin(me, me->thread + 1);
         slice++) {
        struct tally *tally = &gas->tally[slice];
        for (size_t i = in_slice(all, slice); i < in_slice(all, slice + 1); i++) {
            struct particle *p = &gas->now[i];
            uint64_t state = stream_of(gas, FLIGHT, (uint64_t)gas->step, i);
            fly(gas, p, i < old ? STEP : enter(gas, i - old, p, tally), &state, tally);
            places[p->cell]++;
        }
    }
}

/* Where each thread puts its particles of each cell: behind those of threads before it. */
static void lay_out(struct gas *gas, int threads) {
    uint32_t place = 0;
    for (size_t cell = 0; cell <= gas->cells; cell++) {
        gas->begin[cell] = place;
        for (int thread = 0; thread < threads; thread++) {
            uint32_t *at = &gas->places[(size_t)thread * (gas->cells + 1) + cell];
            const uint32_t here = *at;
            *at = place;
            place += here;
        }
    }
}

/* A part of a step has ended. */
static void ended(struct gas *gas, const struct member *me, enum phase phase, double *since) {
    if (me->thread != 0 || !gas->timed)
        return;
    const double now = omp_get_wtime();
    gas->phase_s[phase] += now - *since;
    *since = now;
}

/* The fastest of some copies of all particles in order, by all threads: what memory gives. */
static void copy_particles(struct member *me, void *shared) {
    enum { COPIES = 5 };
    struct gas *gas = shared;
    const size_t begin = in_slice(gas->count, slice_begin(me, me->thread));
    const size_t end = in_slice(gas->count, slice_begin(me, me->thread + 1));
    for (int copy = 0; copy < COPIES; copy++) {
        team_barrier(me->team);
        const double start = omp_get_wtime();
        memcpy(gas->next + begin, gas->now + begin, (end - begin) * sizeof *gas->now);
        team_barrier(me->team);
        const double copy_s = omp_get_wtime() - start;
        if (me->thread == 0 && (copy == 0 || copy_s < gas->copy_s))
            gas->copy_s = copy_s;
    }
}

static void run_steps(struct member *me, void *shared) {
    struct gas *gas = shared;
    const int first = slice_begin(me, me->thread), end = slice_begin(me, me->thread + 1);
    uint32_t *places = gas->places + (size_t)me->thread * (gas->cells + 1);
    const double start = omp_get_wtime();
    double since = start;
    for (int step = 0; step < gas->steps; step++) {
        if (me->thread == 0) {
            gas->step = step;
            count_entering(gas);
        }
        team_barrier(me->team);
        size_t all = gas->count;
        for (int face = 0; face < 2 * DIMENSIONS; face++)
            all += gas->entering[face];
        if (all > gas->capacity)
            return; /* all threads see the same; a check of the steps says so */
        fly_slices(gas, me, all);
        team_barrier(me->team);
        ended(gas, me, FLYING, &since);
        if (me->thread == 0) {
            lay_out(gas, me->team->threads);
            gas->count = gas->begin[gas->cells];
        }
        team_barrier(me->team);
        ended(gas, me, LAYING_OUT, &since);
        for (size_t i = in_slice(all, first); i < in_slice(all, end); i++)
            gas->next[places[gas->now[i].cell]++] = gas->now[i];
        team_barrier(me->team);
        if (me->thread == 0) {
            struct particle *sorted = gas->next;
            gas->next = gas->now;
            gas->now = sorted;
        }
        team_barrier(me->team);
        ended(gas, me, SORTING, &since);
        if (gas->collide)
            for (int slice = first; slice < end; slice++)
                for (size_t cell = in_slice(gas->cells, slice);
                     cell < in_slice(gas->cells, slice + 1); cell++)
                    collide_cell(gas, cell, &gas->tally[slice]);
        team_barrier(me->team);
        ended(gas, me, COLLIDING, &since);
        if (me->thread == 0)
            gas->steps_done++;
    }
    if (gas->timed) {
        result_time(gas->result, me, start);
        result_worked(gas->result, first < end);
    }
}

/* A gas at rest in a box, or streaming past the plate, `scale` times as wide as class S; the box is
   as large as its size says, if it says so. */
static bool gas_create(struct gas *gas, int scale, int threads) {
    if (gas->size[X] == 0) {
        gas->size[X] = CELLS_ALONG * scale;
        gas->size[Y] = gas->size[Z] = CELLS_ACROSS * scale;
    }
    gas->plate[0] = PLATE_AT * scale;
    gas->plate[1] = PLATE_BEGIN * scale;
    gas->plate[2] = PLATE_END * scale;
    gas->cells = (size_t)gas->size[X] * (size_t)gas->size[Y] * (size_t)gas->size[Z];
    gas->count = (size_t)lround(gas->density * (double)gas->cells);
    gas->capacity = gas->count * 3 / 2 + 1000;
    gas->beta = SPEED_RATIO;
    gas->plate_beta = gas->beta / sqrt(PLATE_TEMPERATURE);
    gas->cross_section = 1.0 / (M_SQRT2 * gas->density * FREE_PATH);
    gas->now = memory_pages(gas->capacity, sizeof *gas->now);
    gas->next = memory_pages(gas->capacity, sizeof *gas->next);
    gas->fastest = memory_pages(gas->cells, sizeof *gas->fastest);
    gas->begin = memory_pages(gas->cells + 2, sizeof *gas->begin);
    gas->places = memory_pages((gas->cells + 1) * (size_t)threads, sizeof *gas->places);
    if (memory_refused())
        return false;
    for (size_t cell = 0; cell < gas->cells; cell++)
        gas->fastest[cell] = 1.0;
    for (size_t i = 0; i < gas->count; i++) {
        uint64_t state = stream_of(gas, START, 0, i);
        struct particle *p = &gas->now[i];
        for (int d = 0; d < DIMENSIONS; d++) {
            p->at[d] = gas->size[d] * uniform(&state);
            p->velocity[d] = thermal(&state, gas->beta) + (d == X);
        }
        if (gas->closed) { /* one speed, all directions */
            const double cosine = 2.0 * uniform(&state) - 1.0, angle = 2.0 * M_PI * uniform(&state);
            p->velocity[X] = cosine;
            p->velocity[Y] = sqrt(1.0 - cosine * cosine) * cos(angle);
            p->velocity[Z] = sqrt(1.0 - cosine * cosine) * sin(angle);
        }
    }
    return true;
}

static double energy(const struct gas *gas) {
    double sum = 0.0;
    for (size_t i = 0; i < gas->count; i++)
        sum += 0.5 * speed2(&gas->now[i]);
    return sum;
}

static struct tally total(const struct gas *gas) {
    struct tally sum = {0};
    for (int slice = 0; slice < SLICES; slice++) {
        const struct tally *one = &gas->tally[slice];
        sum.drag += one->drag, sum.hits += one->hits, sum.left += one->left;
        sum.plate_energy += one->plate_energy, sum.left_energy += one->left_energy;
        sum.entered_energy += one->entered_energy;
        sum.candidates += one->candidates, sum.accepted += one->accepted;
    }
    return sum;
}

/* 2 D / (density x area x time), the drag coefficient with a stream of speed 1. */
static double drag_coefficient(const struct gas *gas, const struct tally *tally) {
    const double side = gas->plate[2] - gas->plate[1];
    return 2.0 * tally->drag / (gas->density * side * side * STEP * gas->steps);
}

/* The same of a free-molecular flow, both sides of the plate reflecting diffusely. */
static double free_molecular_drag(const struct gas *gas) {
    const double s = SPEED_RATIO;
    const double in = (momentum_flux(s) - momentum_flux(-s)) / (gas->beta * gas->beta);
    const double out = (flux(s) - flux(-s)) / gas->beta * sqrt(M_PI) / (2.0 * gas->plate_beta);
    return 2.0 * (in + out);
}

/* The largest difference between the distribution of a velocity component and the Maxwellian's. */
static double distance_to_maxwellian(const struct gas *gas, double beta) {
    enum { BINS = 400 };
    double count[BINS + 1] = {0};
    for (size_t i = 0; i < gas->count; i++)
        count[(int)(fmin(fmax(gas->now[i].velocity[X] * beta + 4.0, 0.0), 8.0) * (BINS / 8))]++;
    double below = 0.0, largest = 0.0;
    for (int bin = 0; bin < BINS; bin++) {
        below += count[bin];
        const double maxwellian = 0.5 * (1.0 + erf((bin + 1) * 8.0 / BINS - 4.0));
        largest = fmax(largest, fabs(below / (double)gas->count - maxwellian));
    }
    return largest;
}

/* Without collisions: the drag, within five standard errors of its formula. */
static void check_drag(struct gas *gas, struct result *result) {
    const struct tally tally = total(gas);
    const double exact = free_molecular_drag(gas);
    printf("free-molecular drag, particles that met the plate: %lld\n", (long long)tally.hits);
    /* A particle's share varies by a tenth; how many meet the plate, as independent events do. */
    result_check(result, "free-molecular drag coefficient", drag_coefficient(gas, &tally), exact,
                 5.0 * sqrt(1.1 / (double)tally.hits));
}

/* In the closed box: beta of a Maxwellian with the energy of speed 1 is sqrt(3/2). */
static void check_relaxation(struct gas *gas, double energy_before, struct result *result) {
    const double distance = distance_to_maxwellian(gas, sqrt(1.5));
    result_check(result, "energy of the closed box", energy(gas), energy_before, 1e-11);
    /* Kolmogorov's distance exceeds 2.2 / sqrt(N) in one of 8,000 cases. */
    result_check_below(result, "distance to a Maxwellian x sqrt(particles)",
                       distance * sqrt((double)gas->count), 2.2);
}

/* In a Maxwellian: N sqrt(2) n sigma c / 2 collisions a unit of time, c = 2 / (sqrt(pi) beta). */
static void check_collisions(struct gas *gas, struct result *result) {
    const double mean_speed = 2.0 / (sqrt(M_PI) * sqrt(1.5)), n = (double)gas->count;
    const double expected =
        n * M_SQRT2 * gas->density * gas->cross_section * mean_speed / 2.0 * STEP * gas->steps;
    result_check(result, "collisions in the closed box", total(gas).accepted, expected,
                 5.0 / sqrt(expected) + 0.002);
}

/* Sizes of gases, each with four times the particles of the one before it, and how many of each. */
enum { SIZES = 3, GASES = 12, ORDER_STEPS = 20 };

/* How far from its formula the drag of a gas is that has 4^size x 200 particles, relatively; NaN
   without memory. */
static double drag_error(int size, int number) {
    struct gas gas = {.density = DENSITY * pow(4.0, size - 4),
                      .numbers = (uint64_t)number + 1,
                      .steps = ORDER_STEPS};
    if (!gas_create(&gas, 1, 1))
        return NAN;
    team_run(run_steps, &gas);
    const struct tally tally = total(&gas);
    const double exact = free_molecular_drag(&gas);
    return (drag_coefficient(&gas, &tally) - exact) / exact;
}

/* How far from a Maxwellian a gas in a box of 80 x 4^size cells is. */
static double relaxation_error(int size, int number) {
    struct gas gas = {.closed = true,
                      .collide = true,
                      .density = DENSITY,
                      .numbers = (uint64_t)number + 1,
                      .steps = ORDER_STEPS,
                      .size = {5, 4 << size, 4 << size}};
    if (!gas_create(&gas, 1, 1))
        return NAN;
    team_run(run_steps, &gas);
    return distance_to_maxwellian(&gas, sqrt(1.5));
}

/*
 * Errors of a Monte Carlo method fall with the square root of the particles: the root mean square
 * over gases that draw other numbers, of each size, and the slope from the smallest to the largest.
 */
static void check_order(const char *what, double (*error)(int size, int number),
                        struct result *result) {
    double errors[SIZES];
    for (int size = 0; size < SIZES; size++) {
        double squares = 0.0;
        for (int number = 0; number < GASES; number++) {
            const double one = error(size, number);
            squares += one * one;
        }
        errors[size] = sqrt(squares / GASES);
    }
    char name[64];
    printf("%s, errors: %.3e, %.3e, %.3e\n", what, errors[0], errors[1], errors[2]);
    snprintf(name, sizeof name, "%s, order of convergence", what);
    /* Either end is known to a fifth or so, and there are two steps of four between them. */
    result_check(result, name, log(errors[0] / errors[SIZES - 1]) / log(16.0), 0.5, 0.3);
}

/*
 * What bounds a step, by measurement: the shares of its parts; the time that copying particles in
 * order takes, were they copied as often as a step reads and writes each (in every part but one
 * thread's); and what is left, which is arithmetic, branches, and reads and writes out of order.
 */
static void tell_bounds(struct gas *gas) {
    double all_s = 0.0;
    for (int phase = 0; phase < PHASES; phase++)
        all_s += gas->phase_s[phase];
    team_run(copy_particles, gas);
    if (!(all_s > 0.0) || !(gas->copy_s > 0.0))
        return;
    const double step_s = all_s / gas->steps;
    const double sort_s = gas->phase_s[SORTING] / gas->steps;
    const double memory = (PHASES - 1) * gas->copy_s / step_s;
    const double alone = gas->phase_s[LAYING_OUT] / all_s;
    const double bytes = 2.0 * (double)gas->count * sizeof *gas->now;
    printf("particle-steps a second: %.4g\n", (double)gas->count / step_s);
    printf("shares of a step: %.1f %% fly, %.1f %% lay out (one thread), %.1f %% sort, "
           "%.1f %% collide\n",
           100.0 * gas->phase_s[FLYING] / all_s, 100.0 * alone,
           100.0 * gas->phase_s[SORTING] / all_s, 100.0 * gas->phase_s[COLLIDING] / all_s);
    printf("particles moved: %.2f GB/s sorting, %.2f GB/s copied in order\n", 1e-9 * bytes / sort_s,
           1e-9 * bytes / gas->copy_s);
    printf("bound: %s (bandwidth %.1f %% of a step, one thread %.1f %%, the rest is computing and "
           "access out of order)\n",
           memory > 0.5  ? "memory bandwidth"
           : alone > 0.5 ? "the part of one thread"
                         : "computing",
           100.0 * memory, 100.0 * alone);
}

static void run(size_t class, struct result *result) {
    const int threads = omp_get_max_threads(), scale = CLASSES[class].scale;
    struct gas flow = {.collide = true,
                       .timed = true,
                       .density = DENSITY,
                       .steps = CLASSES[class].steps,
                       .result = result};
    if (!gas_create(&flow, scale, threads))
        return;
    const size_t count_before = flow.count;
    const double energy_before = energy(&flow);
    printf("particles: %zu\ncells: %zu\nsteps: %d\n", flow.count, flow.cells, flow.steps);
    team_run(run_steps, &flow);
    if (memory_refused())
        return;
    result->operations = (double)count_before * flow.steps;
    const struct tally tally = total(&flow);
    double entered = 0.0;
    for (int face = 0; face < 2 * DIMENSIONS; face++)
        entered += influx(&flow, face) * flow.steps;
    printf("drag coefficient: %.4f\ncollisions: %.0f of %.0f candidates\n",
           drag_coefficient(&flow, &tally), tally.accepted, tally.candidates);
    result_check(result, "steps", flow.steps_done, flow.steps, 0.0);
    /* Each of six faces may owe less than one. */
    result_check_below(
        result, "particles that came, went or are there too many or too few",
        fabs((double)count_before + entered - (double)tally.left - (double)flow.count), 6.0);
    result_check(result, "energy there, gone, and left at the plate",
                 energy(&flow) + tally.left_energy + tally.plate_energy,
                 energy_before + tally.entered_energy, 1e-11);
    tell_bounds(&flow);
    if (result->only_own)
        return;

    struct gas free = {.density = DENSITY, .steps = 60, .result = result};
    struct gas box = {
        .closed = true, .collide = true, .density = DENSITY, .steps = 40, .result = result};
    if (!gas_create(&free, 1, threads) || !gas_create(&box, 1, threads))
        return;
    const double box_energy = energy(&box);
    team_run(run_steps, &free);
    team_run(run_steps, &box);
    check_drag(&free, result);
    check_relaxation(&box, box_energy, result);
    memset(box.tally, 0, sizeof box.tally);
    team_run(run_steps, &box);
    check_collisions(&box, result);
    /* Many small gases, in which threads would do little but wait for one another. */
    omp_set_num_threads(1);
    check_order("free-molecular drag", drag_error, result);
    check_order("relaxation", relaxation_error, result);
    omp_set_num_threads(threads);
}

static uint64_t bytes_needed(size_t class, int threads) {
    const uint64_t scale = (uint64_t)CLASSES[class].scale;
    const uint64_t cells = CELLS_ALONG * CELLS_ACROSS * CELLS_ACROSS;
    /* The flow, two gases of class S, and small ones that take a page a list or a few: 32 MiB. */
    return (UINT64_C(32) << 20) +
           cells * (scale * scale * scale + 2) *
               (3 * sizeof(struct particle) * 11 + 12 + 4 * (uint64_t)threads);
}

static uint64_t useful_threads(size_t class) {
    (void)class;
    return SLICES;
}

const struct program PROGRAM = {
    .name = "affinity-mp3d",
    .title = "rarefied hypersonic flow past a plate, by particles",
    .bytes_needed = bytes_needed,
    .useful_threads = useful_threads,
    .checks_more = true,
    .run = run,
};
