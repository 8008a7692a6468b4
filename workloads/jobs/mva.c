/*
 * MVA: exact mean-value analysis of a closed queueing network with two classes of customers (Reiser
 * and Lavenberg, Journal of the ACM 27(2), 1980). With n = (n1, n2) customers inside, a customer of
 * class r spends D[r][k] (1 + Q[k](n - e_r)) at station k, where Q[k](n - e_r) is the queue that it
 * finds there: that of the network without this customer. Hence
 *     X[r](n) = n_r / sum_k D[r][k] (1 + Q[k](n - e_r))            throughput, by Little's law
 *     Q[k](n) = sum_r X[r](n) D[r][k] (1 + Q[k](n - e_r))
 * for all n from (0, 0) to the whole population: dynamic programming over a lattice, in which every
 * point needs its two neighbours before it. What is kept of a point is 1 + Q, of every station.
 *
 * Tiles. Tile (i, j) is the work of a task; it needs (i - 1, j) and (i, j - 1). With n x n tiles
 * the tasks that can run at once are 1, 2, ..., n, ..., 2, 1. A thread owns every P-th column of
 * tiles and goes down one after the other, waiting only for the tile on the left. Nobody needs more
 * of the lattice than the front between tiles that are done and tiles that are not: the last row of
 * every column of tiles, and the last column of every row of tiles.
 *
 * Lanes. A tile's rows are taken LANES at a time, slanted: lane l is on row l and l columns behind
 * lane 0. Both neighbours are then what was computed one step before, in the same lane and in the
 * one above, and no sum goes across lanes.
 */
#include "lanes.h"
#include "memory.h"
#include "program.h"
#include "random.h"
#include "stage.h"
#include "team.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

enum { STATIONS = 64, TILE_ROWS = 32, TILE_COLUMNS = 128, BLOCKS = TILE_ROWS / LANES };

/* A sum over stations is made of this many, which do not wait for one another. */
enum { SUMS = 4 };

/* Rows and columns of tiles, of each class. */
static const int CLASS_TILES[] = {16, 64, 128, 512, 1024, 4096};

/* Rows and columns of tiles of the network that is also solved by convolution. */
enum { SMALL_TILES = 3 };

static const uint64_t SEED = 271828183;
static const double TOLERANCE = 1.0e-11;

/* What a customer of either class asks of each station, of which the largest is 1. */
struct demands {
    _Alignas(64) double of[2][STATIONS];
};

/* 1 + Q at one point. */
struct point {
    _Alignas(64) double queue[STATIONS];
};

/* 1 + Q at LANES points of a column. */
struct slant {
    lanes queue[STATIONS];
};

/* The lattice of populations. Row and column are customers of class 1 and 2. */
struct lattice {
    const struct demands *demands;
    int tiles;               /* in a row and in a column */
    int size[2];             /* rows and columns */
    struct point *above;     /* of every column, the lowest row that is done */
    struct slant *left;      /* of every block of LANES rows, the last column that is done */
    struct progress *passed; /* of every column of tiles, the tiles that are done */
    struct stage *stage;
    struct result *result;
};

static void draw_demands(struct demands *demands) {
    random_state state = random_seed(SEED);
    for (int r = 0; r < 2; r++)
        for (int k = 0; k < STATIONS; k++) {
            state *= RANDOM_MULTIPLIER;
            demands->of[r][k] = 0.5 + 0.5 * random_uniform(state);
        }
    /* With these two the normalising constants of either class alone neither vanish nor grow. */
    demands->of[0][STATIONS / 3] = 1.0;
    demands->of[1][STATIONS / 2] = 1.0;
}

/* A number of all lanes' own. */
typedef long long lanes_of_integers __attribute__((vector_size(LANES * sizeof(long long))));

/* `chosen` where `choice` is all ones, `other` where it is zero. */
static inline lanes choose(lanes_of_integers choice, lanes chosen, lanes other) {
    return (lanes)((choice & (lanes_of_integers)chosen) | (~choice & (lanes_of_integers)other));
}

/*
 * Steps `first` to `end` through LANES rows of a tile: in step t, lane l is on column t - l of the
 * tile. `slant` is 1 + Q as every lane left it, `above` that of the row above these rows, which is
 * overwritten by the last of them. With `partial`, some lanes have no column of the tile and rest.
 */
ALWAYS_INLINE void take_steps(const struct demands *demands, lanes row, lanes column, int first,
                              int end, bool partial, struct slant *slant, struct point *above) {
    for (int t = first; t < end; t++) {
        const double *entering = above[t < TILE_COLUMNS ? t : TILE_COLUMNS - 1].queue;
        struct slant up;
        lanes stay[2][SUMS] = {0};
        for (int k = 0; k < STATIONS; k += SUMS)
#pragma GCC unroll 4
            for (int s = 0; s < SUMS; s++) {
                up.queue[k + s] = lanes_up(slant->queue[k + s], entering[k + s]);
                stay[0][s] += demands->of[0][k + s] * up.queue[k + s];
                stay[1][s] += demands->of[1][k + s] * slant->queue[k + s];
            }
        const lanes throughput[2] = {row / (stay[0][0] + stay[0][1] + (stay[0][2] + stay[0][3])),
                                     (column + (double)t) /
                                         (stay[1][0] + stay[1][1] + (stay[1][2] + stay[1][3]))};

        lanes_of_integers at_work = {0};
        if (partial)
            for (int l = 0; l < LANES; l++)
                at_work[l] = -(t - l >= 0 && t - l < TILE_COLUMNS);
        double *leaving = t < LANES - 1 ? NULL : above[t - (LANES - 1)].queue;
#pragma GCC unroll 4
        for (int k = 0; k < STATIONS; k++) {
            const lanes queue = 1.0 + throughput[0] * demands->of[0][k] * up.queue[k] +
                                throughput[1] * demands->of[1][k] * slant->queue[k];
            slant->queue[k] = partial ? choose(at_work, queue, slant->queue[k]) : queue;
            if (leaving != NULL)
                leaving[k] = slant->queue[k][LANES - 1];
        }
    }
}

static void solve_tile(const struct lattice *lattice, int tile_row, int tile_column) {
    struct point *above = lattice->above + (size_t)tile_column * TILE_COLUMNS;
    for (int block = 0; block < BLOCKS; block++) {
        struct slant *slant = lattice->left + (size_t)tile_row * BLOCKS + block;
        lanes row, column;
        for (int l = 0; l < LANES; l++) {
            row[l] = tile_row * TILE_ROWS + block * LANES + l;
            column[l] = tile_column * TILE_COLUMNS - l;
        }
        const int in = LANES - 1, out = TILE_COLUMNS, end = TILE_COLUMNS + LANES - 1;
        take_steps(lattice->demands, row, column, 0, in, true, slant, above);
        take_steps(lattice->demands, row, column, in, out, false, slant, above);
        take_steps(lattice->demands, row, column, out, end, true, slant, above);
    }
}

/*
 * What the points of row and column 0 find before them counts for nothing, since their throughput
 * of that class is 0; it only has to be a number.
 */
static void solve_share(struct member *me, void *shared) {
    const struct lattice *lattice = shared;
    struct team *team = me->team;
    for (int j = me->thread; j < lattice->tiles; j += team->threads) {
        progress_init(&lattice->passed[j]);
        for (int column = j * TILE_COLUMNS; column < (j + 1) * TILE_COLUMNS; column++)
            for (int k = 0; k < STATIONS; k++)
                lattice->above[column].queue[k] = 1.0;
        for (int block = j * BLOCKS; block < (j + 1) * BLOCKS; block++)
            for (int k = 0; k < STATIONS; k++)
                lattice->left[block].queue[k] = 1.0 - (lanes){0};
    }
    team_barrier(team);
    const double start = omp_get_wtime();
    stage_begin(lattice->stage);
    bool worked = false;
    for (int j = me->thread; j < lattice->tiles; j += team->threads)
        for (int i = 0; i < lattice->tiles; i++) {
            if (j > 0)
                progress_await(&lattice->passed[j - 1], (uint32_t)i + 1);
            solve_tile(lattice, i, j);
            progress_announce(&lattice->passed[j], (uint32_t)i + 1);
            stage_task(lattice->stage);
            worked = true;
        }
    team_barrier(team);
    result_time(lattice->result, me, start);
    result_worked(lattice->result, worked);
}

/* 1 + Q of station k on the far edge along which customers of class r vary. */
static double at_edge(const struct lattice *lattice, int r, int customers, int k) {
    return r == 0 ? lattice->left[customers / LANES].queue[k][customers % LANES]
                  : lattice->above[customers].queue[k];
}

/* The larger error, or the one that is no number. */
static double worse(double one, double other) { return other > one || isnan(other) ? other : one; }

/* The customers at all stations are those that there are. The largest relative difference. */
static double lost_customers(const struct lattice *lattice) {
    const int *size = lattice->size;
    double largest = 0.0;
    for (int r = 0; r < 2; r++)
        for (int own = 0; own < size[r]; own++) {
            const double customers = own + size[1 - r] - 1;
            double found = 0.0;
            for (int k = 0; k < STATIONS; k++)
                found += at_edge(lattice, r, own, k) - 1.0;
            largest = worse(largest, fabs(found / customers - 1.0));
        }
    return largest;
}

/*
 * log G(n) of the network with the customers of one class only, by convolution (Buzen,
 * Communications of the ACM 16(9), 1973): g(n) of k stations is g(n) of k - 1 + D[k] g(n - 1) of k.
 */
static double log_constant_alone(const double *demand, int customers, double *constant) {
    for (int n = 0; n <= customers; n++)
        constant[n] = n == 0;
    for (int k = 0; k < STATIONS; k++)
        for (int n = 1; n <= customers; n++)
            constant[n] += demand[k] * constant[n - 1];
    return log(constant[customers]);
}

/*
 * log G at the lattice's end: that of the edge where the other class is alone, and on from there
 * along the far edge by X[r](n) = G(n - e_r) / G(n).
 */
static double log_constant_along(const struct lattice *lattice, int r, double *scratch) {
    const int *size = lattice->size;
    double sum = log_constant_alone(lattice->demands->of[1 - r], size[1 - r] - 1, scratch);
    for (int own = 1; own < size[r]; own++) {
        double stay = 0.0;
        for (int k = 0; k < STATIONS; k++)
            stay += lattice->demands->of[r][k] * at_edge(lattice, r, own - 1, k);
        sum += log(stay / own);
    }
    return sum;
}

/* Adds a station to the normalising constants of all populations. */
static void convolve(double *constant, int rows, int columns, double demand_1, double demand_2) {
    for (int n1 = 0; n1 < rows; n1++)
        for (int n2 = 0; n2 < columns; n2++) {
            double *here = constant + n1 * columns + n2;
            *here +=
                (n1 > 0 ? demand_1 * here[-columns] : 0.0) + (n2 > 0 ? demand_2 * here[-1] : 0.0);
        }
}

/*
 * The largest relative error of 1 + Q on the edges of a small lattice, against convolution: a
 * second station like k makes G(n) larger by the factor 1 + Q[k](n). `constant` and `doubled` have
 * room for a number a point.
 */
static double error_by_convolution(const struct lattice *lattice, double *constant,
                                   double *doubled) {
    const double(*demand)[STATIONS] = lattice->demands->of;
    const int rows = lattice->size[0], columns = lattice->size[1];
    for (int n = 0; n < rows * columns; n++)
        constant[n] = n == 0;
    for (int k = 0; k < STATIONS; k++)
        convolve(constant, rows, columns, demand[0][k], demand[1][k]);
    double largest = 0.0;
    for (int k = 0; k < STATIONS; k++) {
        memcpy(doubled, constant, (size_t)(rows * columns) * sizeof *doubled);
        convolve(doubled, rows, columns, demand[0][k], demand[1][k]);
        for (int r = 0; r < 2; r++)
            for (int own = 0; own < lattice->size[r]; own++) {
                const int place = r == 0 ? (own + 1) * columns - 1 : (rows - 1) * columns + own;
                const double exact = doubled[place] / constant[place];
                largest = worse(largest, fabs(at_edge(lattice, r, own, k) / exact - 1.0));
            }
    }
    return largest;
}

static struct lattice create(const struct demands *demands, int tiles, struct stage *stage,
                             struct result *result) {
    const size_t count = (size_t)tiles;
    return (struct lattice){
        .demands = demands,
        .tiles = tiles,
        .size = {tiles * TILE_ROWS, tiles * TILE_COLUMNS},
        .above = memory_pages(count * TILE_COLUMNS, sizeof(struct point)),
        .left = memory_pages(count * BLOCKS, sizeof(struct slant)),
        .passed = memory_pages(count, sizeof(struct progress)),
        .stage = stage,
        .result = result,
    };
}

static void check_small(const struct demands *demands, struct result *result) {
    struct stage unasked = {0};
    struct lattice lattice = create(demands, SMALL_TILES, &unasked, result);
    const size_t points = (size_t)SMALL_TILES * TILE_ROWS * SMALL_TILES * TILE_COLUMNS;
    double *constants = memory_pages(2 * points, sizeof *constants);
    team_run(solve_share, &lattice);
    if (!memory_refused())
        result_check_below(result, "largest error of a small network against convolution",
                           error_by_convolution(&lattice, constants, constants + points),
                           TOLERANCE);
}

/*
 * The tiles as tasks. Every block of rows goes over the row above the tile, which the next tile of
 * the column finds again, but for the last one.
 */
static struct stage tiles_as_stage(int tiles, bool timed) {
    return (struct stage){
        .name = "lattice",
        .timed = timed,
        .rounds = 1,
        .rows = tiles,
        .columns = tiles,
        .order = IN_PASSES,
        .passes = BLOCKS,
        .parts = {{"the row above", TILE_COLUMNS * sizeof(struct point), true, 1.0 - 1.0 / tiles},
                  {"demands", sizeof(struct demands), true, 1.0},
                  {"columns on the left", BLOCKS * sizeof(struct slant), false, 0.0}},
    };
}

static void run(size_t class, struct result *result) {
    struct demands demands;
    draw_demands(&demands);
    const int tiles = CLASS_TILES[class];
    check_small(&demands, result);
    struct stage stage = tiles_as_stage(tiles, result->stages != NULL);
    struct lattice lattice = create(&demands, tiles, &stage, result);
    double *scratch = memory_pages((size_t)tiles * TILE_COLUMNS, sizeof *scratch);
    result->working = 0; /* in the small network, of no interest */
    team_run(solve_share, &lattice);
    if (memory_refused())
        return;
    stage_write(&stage, result->stages);
    result->operations = (double)lattice.size[0] * lattice.size[1] * STATIONS;
    printf("tasks: %d, at most %d at once\n", tiles * tiles, tiles);
    result_check_below(result, "largest error of the number of customers", lost_customers(&lattice),
                       TOLERANCE);
    result_check(result, "logarithm of the normalising constant, reached along both edges",
                 log_constant_along(&lattice, 0, scratch), log_constant_along(&lattice, 1, scratch),
                 TOLERANCE);
}

static uint64_t bytes_needed(size_t class, int threads) {
    (void)threads;
    const uint64_t tiles = (uint64_t)CLASS_TILES[class];
    return tiles * (TILE_COLUMNS * (sizeof(struct point) + sizeof(double)) +
                    BLOCKS * sizeof(struct slant) + sizeof(struct progress));
}

/* A column of tiles each. */
static uint64_t useful_threads(size_t class) { return (uint64_t)CLASS_TILES[class]; }

const struct program PROGRAM = {
    .name = "mva",
    .title = "exact mean-value analysis of a queueing network",
    .has_graph = true,
    .bytes_needed = bytes_needed,
    .useful_threads = useful_threads,
    .run = run,
};
