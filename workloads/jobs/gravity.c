/*
 * GRAVITY: a cluster of stars under their own gravity, by the method of Barnes and Hut (Nature 324,
 * 1986): what is far away acts like a point at its centre of mass. Each step builds the tree of
 * cubes anew, on one thread; all others wait. Then all threads weigh its cubes, level by level, and
 * work out the accelerations of their bodies, with barriers in between.
 *
 * A leaf's bodies share a list of what acts on them (Barnes, J. Comput. Phys. 87, 1990): cubes
 * whose side is less than OPENING times their centre's distance from the box around those bodies,
 * and single bodies. Adding up a list is most of the work, and vectorises.
 *
 * Threads take leaves along the curve, in shares of equal cost in the step before. Every body's sum
 * is done in the same order whoever does it, so that the result does not depend on their number.
 *
 * As a graph, a step is a stage between any two barriers: bodies and cells are taken GRAIN at a
 * time, leaves one by one, and the tree is built by a single task.
 *
 * Units are those of Heggie and Mathieu (Lecture Notes in Physics 267, 1986): G = M = 1, E = -1/4.
 */
#include "memory.h"
#include "octree.h"
#include "program.h"
#include "random.h"
#include "stage.h"
#include "team.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

static const int32_t CLASS_BODIES[] = {1 << 11, 1 << 14, 1 << 17, 1 << 20, 1 << 22, 1 << 24};

enum { STEPS = 10 };
static const double STEP = 0.025;
static const double SOFTENING = 0.05; /* bodies are blurred to this size */
static const double OPENING = 0.8;

static const uint64_t SEED = 314159265;

/*
 * Bodies whose accelerations are compared with direct sums, and bounds on what is found: about
 * twice what classes S to C show. Class S shows the most, but for the forces, which are all alike.
 */
enum { SAMPLES = 256 };
static const double MEDIAN_ERROR = 5.0e-3;
static const double MEAN_ERROR = 1.0e-2;
static const double ENERGY_OF_SAMPLE = 0.06;
static const double ENERGY_DRIFT = 1.0e-3;
static const double MOMENTUM = 1.0e-4;

/* 32 KiB: it stays in L1. Whole multiples leave nothing over when a loop is vectorised. */
enum { LIST_CAPACITY = 1024, LIST_MULTIPLE = 16 };

/* Bodies, or cells of a level, in a task. */
enum { GRAIN = 128 };

/* Points with a mass. */
struct list {
    _Alignas(64) double x[LIST_CAPACITY];
    _Alignas(64) double y[LIST_CAPACITY];
    _Alignas(64) double z[LIST_CAPACITY];
    _Alignas(64) double mass[LIST_CAPACITY];
    int count;
};

/* What a step consists of. */
enum phase { ADVANCE, BUILD, WEIGH, ATTRACT, PHASES };
static const char *const PHASE_NAMES[PHASES] = {"advance", "build", "weigh", "attract"};

/* The stages of a step, of which some are weighing: one a level, the root's first. */
enum {
    STAGE_MOVE,
    STAGE_KEY,
    STAGE_BUILD,
    STAGE_GATHER,
    STAGE_ATTRACT,
    STAGE_WEIGH,
    STAGES = STAGE_WEIGH + KEY_DIGITS + 1
};

struct cluster {
    struct octree tree;
    struct body *bodies, *sorted; /* as they stood at the last step, and where they are put now */
    double body_mass;
    double *extent; /* of each thread's bodies, a cache line apart */
    double energy_before;
    struct stage *stages;
    struct result *result;
};

enum { EXTENT_STRIDE = 64 / sizeof(double) };

struct share {
    int32_t first, end;
};

/* The part of a share that is a task, from `first` on. */
static struct share task_at(struct share share, int32_t first) {
    return (struct share){first, first + GRAIN < share.end ? first + GRAIN : share.end};
}

static struct share share_of(const struct member *me, int32_t first, int32_t end) {
    const int64_t count = end - first, threads = me->team->threads;
    return (struct share){first + (int32_t)(count * me->thread / threads),
                          first + (int32_t)(count * (me->thread + 1) / threads)};
}

static double draw(random_state *state) {
    *state *= RANDOM_MULTIPLIER;
    return random_uniform(*state);
}

/* A vector of the given length in any direction. */
static void point_anywhere(random_state *state, double length, double vector[DIMENSIONS]) {
    const double cosine = 1.0 - 2.0 * draw(state), angle = 2.0 * M_PI * draw(state);
    const double sine = sqrt(1.0 - cosine * cosine);
    vector[0] = length * sine * cos(angle);
    vector[1] = length * sine * sin(angle);
    vector[2] = length * cosine;
}

/*
 * A body of Plummer's model, drawn as by Aarseth, Henon and Wielen (Astronomy and Astrophysics 37,
 * 1974): the mass within its radius is even, up to 0.999, and its speed a part q of that of escape,
 * of which q^2 (1 - q^2)^3.5, never more than 0.1, is the density.
 */
static struct body draw_body(int32_t number) {
    enum { NUMBERS = 1024 }; /* more than a body ever needs */
    random_state state = random_seed(SEED) * random_jump((uint64_t)number * NUMBERS);
    const double scale = 3.0 * M_PI / 16.0;
    struct body body = {.cost = 1.0};
    const double radius = 1.0 / sqrt(pow(0.999 * draw(&state), -2.0 / 3.0) - 1.0);
    point_anywhere(&state, scale * radius, body.position);
    double q, height;
    do {
        q = draw(&state);
        height = 0.1 * draw(&state);
    } while (height > q * q * pow(1.0 - q * q, 3.5));
    const double escape = sqrt(2.0) * pow(1.0 + radius * radius, -0.25);
    point_anywhere(&state, q * escape / sqrt(scale), body.velocity);
    return body;
}

/* The mean of position and of velocity becomes zero. */
static void centre(struct body *bodies, int32_t count) {
    double mean[2][DIMENSIONS] = {0};
    for (int32_t i = 0; i < count; i++)
        for (int d = 0; d < DIMENSIONS; d++) {
            mean[0][d] += bodies[i].position[d] / count;
            mean[1][d] += bodies[i].velocity[d] / count;
        }
    for (int32_t i = 0; i < count; i++)
        for (int d = 0; d < DIMENSIONS; d++) {
            bodies[i].position[d] -= mean[0][d];
            bodies[i].velocity[d] -= mean[1][d];
        }
}

/* Kinetic and potential energy. Every body also found itself in its list. */
static double energy_of(const struct cluster *cluster, const struct body *bodies) {
    double twice = 0.0;
    for (int32_t i = 0; i < cluster->tree.bodies; i++) {
        const struct body *body = &bodies[i];
        for (int d = 0; d < DIMENSIONS; d++)
            twice += body->velocity[d] * body->velocity[d];
        twice += body->potential + cluster->body_mass / SOFTENING;
    }
    return 0.5 * cluster->body_mass * twice;
}

/* Half a kick and a drift: the first half of a leapfrog step. Gives the largest coordinate. */
static double advance(struct body *bodies, struct share share, double step) {
    double extent = 0.0;
    for (int32_t i = share.first; i < share.end; i++)
        for (int d = 0; d < DIMENSIONS; d++) {
            bodies[i].velocity[d] += 0.5 * step * bodies[i].acceleration[d];
            bodies[i].position[d] += step * bodies[i].velocity[d];
            extent = fmax(extent, fabs(bodies[i].position[d]));
        }
    return extent;
}

static void append(struct list *list, const double position[DIMENSIONS], double mass) {
    list->x[list->count] = position[0];
    list->y[list->count] = position[1];
    list->z[list->count] = position[2];
    list->mass[list->count++] = mass;
}

/* Adds what the list does to the bodies of a leaf, and empties it. */
static void attract(struct body *bodies, const struct cell *leaf, struct list *list) {
    const int count = list->count;
    while (list->count % LIST_MULTIPLE != 0)
        append(list, bodies[leaf->first].position, 0.0);
    for (int32_t i = leaf->first; i < leaf->end; i++) {
        struct body *body = &bodies[i];
        const double x = body->position[0], y = body->position[1], z = body->position[2];
        double ax = 0.0, ay = 0.0, az = 0.0, potential = 0.0;
#pragma omp simd reduction(+ : ax, ay, az, potential)
        for (int j = 0; j < list->count; j++) {
            const double dx = list->x[j] - x, dy = list->y[j] - y, dz = list->z[j] - z;
            const double r2 = dx * dx + dy * dy + dz * dz + SOFTENING * SOFTENING;
            /* 1/r to single precision, and by a Newton step to 1e-14: cheaper than the units for
             * square roots and divisions in double precision. */
            const double estimate = (double)(1.0f / sqrtf((float)r2));
            const double inverse = estimate * (1.5 - 0.5 * r2 * estimate * estimate);
            const double pull = list->mass[j] * inverse;
            potential -= pull;
            ax += pull * inverse * inverse * dx;
            ay += pull * inverse * inverse * dy;
            az += pull * inverse * inverse * dz;
        }
        body->acceleration[0] += ax;
        body->acceleration[1] += ay;
        body->acceleration[2] += az;
        body->potential += potential;
        body->cost += count;
    }
    list->count = 0;
}

/* The box around a leaf's bodies. */
struct box {
    double low[DIMENSIONS], high[DIMENSIONS];
};

static struct box box_of(const struct body *bodies, const struct cell *leaf) {
    struct box box = {{INFINITY, INFINITY, INFINITY}, {-INFINITY, -INFINITY, -INFINITY}};
    for (int32_t i = leaf->first; i < leaf->end; i++)
        for (int d = 0; d < DIMENSIONS; d++) {
            box.low[d] = fmin(box.low[d], bodies[i].position[d]);
            box.high[d] = fmax(box.high[d], bodies[i].position[d]);
        }
    return box;
}

/* Whether a cell acts like a point on the bodies of a leaf, which are in the box. */
static bool is_far(const struct cell *cell, const struct cell *leaf, const struct box *box) {
    double distance2 = 0.0;
    for (int d = 0; d < DIMENSIONS; d++) {
        const double below = box->low[d] - cell->centre[d], above = cell->centre[d] - box->high[d];
        const double either = below > above ? below : above;
        const double outside = either > 0.0 ? either : 0.0;
        distance2 += outside * outside;
    }
    const bool holds_leaf = (cell->first <= leaf->first) & (leaf->end <= cell->end);
    return !holds_leaf & (cell->side * cell->side < OPENING * OPENING * distance2);
}

/* Cells by their numbers, to be looked into. */
struct pile {
    int32_t cells[8 * (KEY_DIGITS + 1)]; /* every level leaves at most seven behind for later */
    int count;
};

/*
 * Puts a cell where it belongs: into the list, or on the pile of those that are divided or of
 * leaves. It is written to all three and counted in one: which one, no processor can predict.
 */
static inline void sort_out(const struct octree *tree, int32_t number, const struct cell *leaf,
                            const struct box *box, struct list *list, struct pile *divided,
                            struct pile *leaves) {
    const struct cell *cell = &tree->cells[number];
    const bool far = is_far(cell, leaf, box), is_leaf = cell->child == cell->child_end;
    list->x[list->count] = cell->centre[0];
    list->y[list->count] = cell->centre[1];
    list->z[list->count] = cell->centre[2];
    list->mass[list->count] = cell->mass;
    list->count += far;
    divided->cells[divided->count] = leaves->cells[leaves->count] = number;
    divided->count += !far & !is_leaf;
    leaves->count += !far & is_leaf;
}

/* Accelerations and potentials of a leaf's bodies. */
static void attract_leaf(const struct cluster *cluster, struct body *bodies,
                         const struct cell *leaf, struct list *list) {
    const struct octree *tree = &cluster->tree;
    const struct box box = box_of(bodies, leaf);
    for (int32_t i = leaf->first; i < leaf->end; i++) {
        bodies[i].potential = bodies[i].cost = 0.0;
        for (int d = 0; d < DIMENSIONS; d++)
            bodies[i].acceleration[d] = 0.0;
    }
    struct pile divided = {.count = 0}, leaves = {.count = 0};
    sort_out(tree, 0, leaf, &box, list, &divided, &leaves);
    while (divided.count + leaves.count > 0) {
        if (leaves.count > 0) {
            const struct cell *cell = &tree->cells[leaves.cells[--leaves.count]];
            for (int32_t i = cell->first; i < cell->end; i++) {
                if (list->count == LIST_CAPACITY)
                    attract(bodies, leaf, list);
                append(list, bodies[i].position, cluster->body_mass);
            }
        } else {
            const struct cell *cell = &tree->cells[divided.cells[--divided.count]];
            if (list->count + 8 > LIST_CAPACITY)
                attract(bodies, leaf, list);
            for (int32_t child = cell->child; child < cell->child_end; child++)
                sort_out(tree, child, leaf, &box, list, &divided, &leaves);
        }
    }
    attract(bodies, leaf, list);
}

/* The threads' clock: what has gone by since it was last asked. */
static double lap(double *since) {
    const double now = omp_get_wtime(), seconds = now - *since;
    *since = now;
    return seconds;
}

/*
 * One step, or with `step` 0 only the accelerations. `bodies` are in the last step's order, and
 * `sorted` afterwards in this one's. Whether the thread had bodies to move and leaves to attract.
 */
static bool take_step(struct member *me, struct cluster *cluster, struct body *bodies,
                      struct body *sorted, struct list *list, double step, double *seconds) {
    struct octree *tree = &cluster->tree;
    struct team *team = me->team;
    const struct share share = share_of(me, 0, tree->bodies);
    double clock = omp_get_wtime();

    struct stage *stages = cluster->stages;

    double extent = 0.0;
    stage_begin(&stages[STAGE_MOVE]);
    for (int32_t first = share.first; first < share.end; first += GRAIN) {
        extent = fmax(extent, advance(bodies, task_at(share, first), step));
        stage_task(&stages[STAGE_MOVE]);
    }
    cluster->extent[me->thread * EXTENT_STRIDE] = extent;
    team_barrier(team);
    if (me->thread == 0) {
        tree->half = 0.0;
        for (int thread = 0; thread < team->threads; thread++)
            tree->half = fmax(tree->half, cluster->extent[thread * EXTENT_STRIDE]);
    }
    team_barrier(team);
    stage_begin(&stages[STAGE_KEY]);
    for (int32_t first = share.first; first < share.end; first += GRAIN) {
        for (int32_t i = first; i < task_at(share, first).end; i++)
            tree->key[i] = octree_key(tree, bodies[i].position);
        stage_task(&stages[STAGE_KEY]);
    }
    team_barrier(team);
    seconds[ADVANCE] += lap(&clock);

    if (me->thread == 0) {
        stage_begin(&stages[STAGE_BUILD]);
        octree_build(tree);
        stage_task(&stages[STAGE_BUILD]);
    }
    team_barrier(team);
    seconds[BUILD] += lap(&clock);

    stage_begin(&stages[STAGE_GATHER]);
    for (int32_t first = share.first; first < share.end; first += GRAIN) {
        for (int32_t i = first; i < task_at(share, first).end; i++)
            sorted[i] = bodies[tree->order[i]];
        stage_task(&stages[STAGE_GATHER]);
    }
    for (int level = tree->levels; level-- > 0;) {
        team_barrier(team);
        struct stage *stage = &stages[STAGE_WEIGH + level];
        const struct share cells = share_of(me, tree->level[level], tree->level[level + 1]);
        stage_begin(stage);
        for (int32_t first = cells.first; first < cells.end; first += GRAIN) {
            for (int32_t i = first; i < task_at(cells, first).end; i++)
                octree_weigh(tree, &tree->cells[i], sorted, cluster->body_mass);
            stage_task(stage);
        }
    }
    team_barrier(team);
    seconds[WEIGH] += lap(&clock);

    const double cost = tree->cells[0].cost / team->threads;
    const int32_t first = me->thread == 0 ? 0 : octree_body_at(tree, cost * me->thread);
    const int32_t end = me->thread + 1 == team->threads
                            ? tree->bodies
                            : octree_body_at(tree, cost * (me->thread + 1));
    stage_begin(&stages[STAGE_ATTRACT]);
    for (int32_t i = first, next; i < end; i = next) {
        const struct cell *leaf = octree_leaf(tree, i);
        next = leaf->end;
        attract_leaf(cluster, sorted, leaf, list);
        for (int32_t body = i; body < next; body++)
            for (int d = 0; d < DIMENSIONS; d++)
                sorted[body].velocity[d] += 0.5 * step * sorted[body].acceleration[d];
        stage_task(&stages[STAGE_ATTRACT]);
    }
    team_barrier(team);
    seconds[ATTRACT] += lap(&clock);
    return share.first < share.end && first < end;
}

/* A step without length first, for accelerations and the energy; then those that are timed. */
static void simulate(struct member *me, void *shared) {
    struct cluster *cluster = shared;
    struct list list;
    list.count = 0;
    const struct share share = share_of(me, 0, cluster->tree.bodies);
    for (int32_t i = share.first; i < share.end; i++)
        cluster->bodies[i] = draw_body(i);
    team_barrier(me->team);
    if (me->thread == 0)
        centre(cluster->bodies, cluster->tree.bodies);
    team_barrier(me->team);

    double untimed[PHASES] = {0}, seconds[PHASES] = {0};
    take_step(me, cluster, cluster->bodies, cluster->sorted, &list, 0.0, untimed);
    if (me->thread == 0)
        for (int stage = 0; stage < STAGES; stage++)
            stage_forget(&cluster->stages[stage]);
    struct body *bodies = cluster->sorted, *sorted = cluster->bodies;
    if (me->thread == 0)
        cluster->energy_before = energy_of(cluster, bodies);
    team_barrier(me->team);
    const double start = omp_get_wtime();
    bool worked = true;
    for (int taken = 0; taken < STEPS; taken++) {
        worked &= take_step(me, cluster, bodies, sorted, &list, STEP, seconds);
        struct body *swap = bodies;
        bodies = sorted;
        sorted = swap;
    }
    result_time(cluster->result, me, start);
    result_worked(cluster->result, worked);
    if (me->thread == 0) {
        cluster->bodies = bodies;
        cluster->sorted = sorted;
        for (int phase = 0; phase < PHASES; phase++)
            printf("seconds, %s: %.6f\n", PHASE_NAMES[phase], seconds[phase]);
    }
}

/* The error of a body's acceleration, relative to its sum over all bodies one by one. */
static double force_error(const struct cluster *cluster, int32_t number) {
    const struct body *body = &cluster->bodies[number];
    double sum[DIMENSIONS] = {0};
    for (int32_t i = 0; i < cluster->tree.bodies; i++) {
        double apart[DIMENSIONS], r2 = SOFTENING * SOFTENING;
        for (int d = 0; d < DIMENSIONS; d++) {
            apart[d] = cluster->bodies[i].position[d] - body->position[d];
            r2 += apart[d] * apart[d];
        }
        for (int d = 0; d < DIMENSIONS; d++)
            sum[d] += cluster->body_mass * apart[d] / (r2 * sqrt(r2));
    }
    double difference2 = 0.0, sum2 = 0.0;
    for (int d = 0; d < DIMENSIONS; d++) {
        difference2 += (body->acceleration[d] - sum[d]) * (body->acceleration[d] - sum[d]);
        sum2 += sum[d] * sum[d];
    }
    return sqrt(difference2 / sum2);
}

static int by_size(const void *one, const void *other) {
    const double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

static void check_forces(const struct cluster *cluster) {
    double errors[SAMPLES], squares = 0.0;
#pragma omp parallel for schedule(static)
    for (int sample = 0; sample < SAMPLES; sample++)
        errors[sample] =
            force_error(cluster, (int32_t)((int64_t)sample * cluster->tree.bodies / SAMPLES));
    for (int sample = 0; sample < SAMPLES; sample++)
        squares += errors[sample] * errors[sample];
    qsort(errors, SAMPLES, sizeof *errors, by_size);
    result_check_below(cluster->result, "median relative error of accelerations",
                       errors[SAMPLES / 2], MEDIAN_ERROR);
    /* Which a single NaN does not pass. */
    result_check_below(cluster->result, "root mean square of these errors", sqrt(squares / SAMPLES),
                       MEAN_ERROR);
}

/* The bodies' momentum over what it were if all went the same way. */
static double momentum(const struct cluster *cluster) {
    double sum[DIMENSIONS] = {0}, squares = 0.0;
    for (int32_t i = 0; i < cluster->tree.bodies; i++)
        for (int d = 0; d < DIMENSIONS; d++) {
            const double velocity = cluster->bodies[i].velocity[d];
            sum[d] += velocity;
            squares += velocity * velocity;
        }
    return sqrt((sum[0] * sum[0] + sum[1] * sum[1] + sum[2] * sum[2]) /
                (squares * cluster->tree.bodies));
}

/* What the last step did. */
static void tell_work(const struct cluster *cluster) {
    const struct octree *tree = &cluster->tree;
    double interactions = 0.0, listed = 0.0;
    int32_t leaves = 0;
    for (int32_t i = 0; i < tree->bodies; i = octree_leaf(tree, i)->end) {
        leaves++;
        listed += cluster->bodies[i].cost;
        interactions += cluster->bodies[i].cost * (octree_leaf(tree, i)->end - i);
    }
    printf("cells: %d, of which leaves: %d\n", tree->level[tree->levels], leaves);
    printf("interactions a body: %.1f\nlisted a body: %.1f\n", interactions / tree->bodies,
           listed / tree->bodies);
}

static void create_stages(struct stage stages[STAGES], bool timed) {
    for (int i = 0; i < STAGES; i++) {
        stages[i] = (struct stage){.timed = timed, .rounds = STEPS, .passes = 1.0};
        snprintf(stages[i].name, sizeof stages[i].name, "weigh level %d", i - STAGE_WEIGH);
    }
    static const char *const NAMES[STAGE_WEIGH] = {"move", "key", "build", "gather", "attract"};
    for (int i = 0; i < STAGE_WEIGH; i++)
        snprintf(stages[i].name, sizeof stages[i].name, "%s", NAMES[i]);
}

/* Cells of a level, and the bodies or cells below them, in bytes a task. */
static double weighed_bytes(const struct octree *tree, int level) {
    const int32_t first = tree->level[level], end = tree->level[level + 1];
    double bytes = 0.0;
    for (const struct cell *cell = tree->cells + first; cell < tree->cells + end; cell++) {
        const int32_t children = cell->child_end - cell->child;
        bytes += (double)sizeof *cell * (1 + children);
        if (children == 0)
            bytes += (double)sizeof(struct body) * (cell->end - cell->first);
    }
    return bytes / ((end - first + GRAIN - 1) / GRAIN);
}

/* The last task that looked at a cell, and the last that looked at its bodies one by one; or 0. */
struct seen {
    int32_t cell, bodies;
};

/* Cells and bodies that tasks look at, and those of them that the task before did, too. */
struct sight {
    double cells, cells_kept, bodies, bodies_kept;
};

/* Adds what the task of a leaf looks at; tasks are numbered along the curve, from 2. */
static void look(const struct cluster *cluster, const struct cell *leaf, int32_t task,
                 struct seen *seen, struct sight *sight) {
    const struct octree *tree = &cluster->tree;
    const struct box box = box_of(cluster->bodies, leaf);
    struct list list;
    struct pile divided = {.count = 0}, leaves = {.count = 0};
    for (int32_t first = 0, end = 1;;) {
        for (int32_t number = first; number < end; number++) {
            list.count = 0;
            sort_out(tree, number, leaf, &box, &list, &divided, &leaves);
            sight->cells += 1.0;
            sight->cells_kept += seen[number].cell == task - 1;
            seen[number].cell = task;
        }
        while (leaves.count > 0) {
            const int32_t number = leaves.cells[--leaves.count];
            const int32_t bodies = tree->cells[number].end - tree->cells[number].first;
            sight->bodies += bodies;
            sight->bodies_kept += seen[number].bodies == task - 1 ? bodies : 0;
            seen[number].bodies = task;
        }
        if (divided.count == 0)
            return;
        const struct cell *cell = &tree->cells[divided.cells[--divided.count]];
        first = cell->child;
        end = cell->child_end;
    }
}

/* Says what the tasks of attract touch. */
static void describe_attract(const struct cluster *cluster, struct stage *stage) {
    const struct octree *tree = &cluster->tree;
    const size_t cells = (size_t)tree->level[tree->levels];
    struct seen *seen = memory_pages(cells, sizeof *seen);
    if (seen == NULL)
        return;
    memset(seen, 0, cells * sizeof *seen);
    struct sight sight = {0};
    double listed = 0.0;
    int32_t leaves = 0;
    for (int32_t i = 0; i < tree->bodies; i = octree_leaf(tree, i)->end) {
        look(cluster, octree_leaf(tree, i), ++leaves + 1, seen, &sight);
        listed += fmin(cluster->bodies[i].cost, LIST_CAPACITY);
    }
    stage->parts[0] = (struct part){"list", listed / leaves * 4 * sizeof(double), true, 1.0};
    stage->parts[1] = (struct part){"cells", sight.cells / leaves * sizeof(struct cell), true,
                                    sight.cells_kept / sight.cells};
    stage->parts[2] = (struct part){"bodies", sight.bodies / leaves * sizeof(struct body), true,
                                    sight.bodies_kept / sight.bodies};
}

/*
 * Writes the stages of all timed steps. What their tasks touch is that of the last step. A task of
 * attract fills its list once and looks at each cell and body once; adding up goes over the list
 * for each body of the leaf, but out of L1.
 */
static void tell_stages(const struct cluster *cluster) {
    if (cluster->result->stages == NULL)
        return;
    const struct octree *tree = &cluster->tree;
    struct stage *stages = cluster->stages;
    const double bodies = GRAIN * sizeof(struct body), key = sizeof *tree->key,
                 order = sizeof *tree->order;
    stages[STAGE_MOVE].parts[0] = (struct part){"bodies", bodies, false, 0.0};
    stages[STAGE_KEY].parts[0] = (struct part){"bodies", bodies, false, 0.0};
    stages[STAGE_KEY].parts[1] = (struct part){"keys", GRAIN * key, false, 0.0};
    stages[STAGE_GATHER].parts[0] = (struct part){"bodies, from and to", 2.0 * bodies, false, 0.0};
    stages[STAGE_GATHER].parts[1] = (struct part){"order", GRAIN * order, false, 0.0};
    /* For every digit the sort counts keys, and moves keys and order from one copy to the other. */
    const int digits = (DIMENSIONS * KEY_DIGITS + SORT_BITS - 1) / SORT_BITS;
    const double copies = 2.0 * (key + order);
    stages[STAGE_BUILD].order = IN_PASSES;
    stages[STAGE_BUILD].passes = digits * (key + copies) / copies;
    stages[STAGE_BUILD].parts[0] =
        (struct part){"keys and order, twice", tree->bodies * copies, true, 0.0};
    stages[STAGE_BUILD].parts[1] =
        (struct part){"cells", (double)tree->level[tree->levels] * sizeof(struct cell), false, 0.0};
    for (int level = 0; level < tree->levels; level++)
        stages[STAGE_WEIGH + level].parts[0] =
            (struct part){"cells, and what is below", weighed_bytes(tree, level), false, 0.0};
    describe_attract(cluster, &stages[STAGE_ATTRACT]);

    FILE *file = cluster->result->stages;
    for (int i = STAGE_MOVE; i <= STAGE_GATHER; i++)
        stage_write(&stages[i], file);
    for (int i = STAGES; i-- > STAGE_WEIGH;)
        stage_write(&stages[i], file);
    stage_write(&stages[STAGE_ATTRACT], file);
}

static void run(size_t class, struct result *result) {
    const int32_t count = CLASS_BODIES[class];
    const int threads = omp_get_max_threads();
    struct stage stages[STAGES];
    create_stages(stages, result->stages != NULL);
    struct cluster cluster = {
        .stages = stages,
        .tree = octree_create(count),
        .bodies = memory_pages((size_t)count, sizeof *cluster.bodies),
        .sorted = memory_pages((size_t)count, sizeof *cluster.sorted),
        .body_mass = 1.0 / count,
        .extent = memory_pages((size_t)threads * EXTENT_STRIDE, sizeof *cluster.extent),
        .result = result,
    };
    team_run(simulate, &cluster);
    if (memory_refused())
        return;
    tell_stages(&cluster);
    result->operations = (double)count * STEPS;

    tell_work(&cluster);
    /* A sample of bodies, blurred: the larger part of the difference. */
    result_check(result, "energy at the start", cluster.energy_before, -0.25, ENERGY_OF_SAMPLE);
    result_check(result, "energy at the end", energy_of(&cluster, cluster.bodies),
                 cluster.energy_before, ENERGY_DRIFT);
    result_check_below(result, "momentum, relative", momentum(&cluster), MOMENTUM);
    check_forces(&cluster);
}

static uint64_t bytes_needed(size_t class, int threads) {
    const int32_t count = CLASS_BODIES[class];
    return 2 * (uint64_t)count * sizeof(struct body) + octree_bytes(count) +
           (uint64_t)threads * (EXTENT_STRIDE * sizeof(double) + sizeof(struct list));
}

/* As many bodies each as a task moves, which are several leaves; more find less and less. */
static uint64_t useful_threads(size_t class) { return (uint64_t)CLASS_BODIES[class] / GRAIN; }

const struct program PROGRAM = {
    .name = "gravity",
    .title = "stars under their own gravity, by a tree",
    .has_graph = true,
    .bytes_needed = bytes_needed,
    .useful_threads = useful_threads,
    .run = run,
};
