#include "core.h"

#include "halo.h"
#include "memory.h"
#include "ranks.h"
#include "team.h"

#include <math.h>
#include <omp.h>

/*
 * Space. The volume fluxes and the function B = g (h + b) + |u|^2 / 2 are the derivatives of the
 * total energy by u, v and volume. A cell with the fluxes W, E, S, N through its edges, and the
 * potential vorticities ne, nw, se, sw at its corners, adds to the changes of its edges and volume
 *
 *     west     0  -e   b   a  -1     W           24 a = 2 (ne + sw) + nw + se
 *     east     e   0   a   b   1     E           24 b = ne + sw + 2 (nw + se)
 *     south = -b  -a   0  -p  -1  x  S           24 e = ne + nw - se - sw
 *     north   -a  -b   p   0   1     N           24 p = nw + sw - ne - se
 *     volume   1  -1   1  -1   0     B
 *
 * These are the coefficients of Arakawa & Lamb, Mon. Wea. Rev. 109 (1981) 18-36, written for a
 * cell. The matrix is antisymmetric, so that energy is conserved for any q; the coefficients are
 * those that conserve potential enstrophy, too, where the polar filter does not reach. The filter
 * acts on both sides of the matrix, on fluxes and on changes, which leaves it antisymmetric.
 *
 * Time. The classical Runge-Kutta method of order 4, whose last stage takes what it needs of the
 * earlier changes from the earlier stages' states.
 *
 * Threads. Each owns a band of rows, and computes for itself what it needs of its neighbours'
 * fluxes: one barrier a stage is enough. Every row is computed the same way whoever does it, so
 * that the result does not depend on the number of threads.
 *
 * Ranks. The bands of a rank's threads are consecutive rows. What the outermost threads read of
 * other ranks' rows is sent behind each stage (halo.h), and computed by nobody twice but fluxes,
 * as between threads; so the result doesn't depend on the number of ranks either.
 */

/* Of the row of v south of cell row `row`: the row of cells nearer to the pole. */
static int poleward(const struct core *core, int row) {
    return row < core->sphere.rows / 2 ? row - 1 : row;
}

/* What a row costs, in ns a column on a processor with AVX-512. */
enum { COST_CELLS = 5, COST_FILTER = 8 };

static int cost_of(const struct core *core, int row) {
    return COST_CELLS + (filter_reaches(&core->filter, row) ? COST_FILTER : 0);
}

/* The row that begins nearest to `share` / `shares` of the cost of all rows from `begin` to `end`.
 */
static int row_at(const struct core *core, int begin, int end, int share, int shares) {
    int64_t total = 0, cost = 0;
    for (int row = begin; row < end; row++)
        total += cost_of(core, row);
    int row = begin;
    while (row < end && (2 * cost + cost_of(core, row)) * shares < 2 * total * share)
        cost += cost_of(core, row++);
    return row;
}

/* A thread's first of those rows. No thread is without a row as long as there are rows. */
static int first_row(const struct core *core, int begin, int end, int thread, int threads) {
    const int rows = end - begin, workers = threads < rows ? threads : rows;
    int row = begin;
    for (int before = 1; before <= thread && before <= workers; before++) {
        const int balanced = row_at(core, begin, end, before, workers);
        row = balanced > row + 1 ? balanced : row + 1;
    }
    const int left = thread < workers ? workers - thread : 0; /* a row for each of these */
    return row < end - left ? row : end - left;
}

static struct band band_of(const struct core *core, int thread, int threads) {
    const struct band all = halo_rank(core, ranks_mine());
    return halo_band(core, first_row(core, all.first, all.end, thread, threads),
                     first_row(core, all.first, all.end, thread + 1, threads));
}

/* Gives each rank the rows of as many equal threads as it has. */
static void share_rows(const struct core *core, const int *threads, int *first) {
    const int rows = core->sphere.rows, ranks = ranks_count();
    int all = 0, before = 0;
    for (int rank = 0; rank < ranks; rank++)
        all += threads[rank];
    for (int rank = 0; rank <= ranks; rank++) {
        first[rank] = first_row(core, 0, rows, before, all);
        before += rank < ranks ? threads[rank] : 0;
    }
}

/* A thread's rows for what it works out and hands on. Two of a kind: those of even, of odd rows. */
struct workspace {
    double *flux_u[2], *flux_v[2];
    double *vorticity[2]; /* potential, divided by 24 */
    double *change_u[2], *change_v, *change_volume;
    double *east;  /* what the cell in the west adds to a change of u */
    double *north; /* what the cells in the south add to a change of v */
};

enum { WORKSPACE_ROWS = 12 };

static size_t workspace_doubles(int columns) { return WORKSPACE_ROWS * core_stride(columns); }

static void workspace_lay_out(struct workspace *work, double *memory, int columns) {
    for (size_t i = 0; i < workspace_doubles(columns); i++)
        memory[i] = 0.0;
    double **const rows[WORKSPACE_ROWS] = {
        &work->flux_u[0],    &work->flux_u[1],     &work->flux_v[0],   &work->flux_v[1],
        &work->vorticity[0], &work->vorticity[1],  &work->change_u[0], &work->change_u[1],
        &work->change_v,     &work->change_volume, &work->east,        &work->north,
    };
    for (int row = 0; row < WORKSPACE_ROWS; row++)
        *rows[row] = memory + (size_t)row * core_stride(columns) + GHOST;
}

static inline void close_row(double *row, int columns) {
    row[-1] = row[columns - 1];
    row[columns] = row[0];
}

/* The volume flux through the west edges of the cells of a row. */
static void flux_through_meridians(const struct core *core, int stage, int row,
                                   double *restrict flux) {
    const int columns = core->sphere.columns;
    const double factor = core->metrics[row].west;
    const double *restrict volume = core_row(core, core->volume[stage], row);
    const double *restrict u = core_row(core, core->u[stage], row);
#pragma omp simd
    for (int i = 0; i < columns; i++)
        flux[i] = factor * (volume[i - 1] + volume[i]) * u[i];
    close_row(flux, columns);
}

/* The volume flux through the south edges of the cells of a row, and q at their western ends. */
static void flux_through_parallel(const struct core *core, int stage, int row,
                                  double *restrict flux, double *restrict vorticity) {
    const int columns = core->sphere.columns;
    const double from_south = core->metrics[row - 1].north, from_north = core->metrics[row].south;
    const double *restrict south = core_row(core, core->volume[stage], row - 1);
    const double *restrict north = core_row(core, core->volume[stage], row);
    const double *restrict u_south = core_row(core, core->u[stage], row - 1);
    const double *restrict u_north = core_row(core, core->u[stage], row);
    const double *restrict v = core_row(core, core->v[stage], row);
    const struct planetary planetary = core->planetary[row];
    const double *restrict cosine = core->cosine;
#pragma omp simd
    for (int i = 0; i < columns; i++) {
        flux[i] = (from_south * south[i] + from_north * north[i]) * v[i];
        const double four_volumes = (south[i - 1] + south[i]) + (north[i - 1] + north[i]);
        const double circulation = (u_south[i] - u_north[i]) + (v[i] - v[i - 1]);
        const double planet = planetary.upright + planetary.sideways * cosine[i];
        vorticity[i] = (planet + circulation) / (6.0 * four_volumes);
    }
    close_row(vorticity, columns);
}

static double mean(const double *row, int columns) {
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < columns; i++)
        sum += row[i];
    return sum / columns;
}

struct cap core_cap(const struct core *core, int stage, bool north) {
    const int columns = core->sphere.columns, row = north ? core->sphere.rows - 1 : 0;
    const double planetary = core->planetary[north ? core->sphere.rows : 0].upright;
    const double round = mean(core_row(core, core->u[stage], row), columns);
    const double share = sphere_cap_area(&core->sphere) / sphere_cell_area(&core->sphere, row);
    return (struct cap){planetary + (north ? round : -round),
                        share * mean(core_row(core, core->volume[stage], row), columns)};
}

static void vorticity_at_pole(const struct core *core, int stage, bool north, double *vorticity) {
    const struct cap cap = core_cap(core, stage, north);
    for (int i = 0; i <= core->sphere.columns; i++)
        vorticity[i] = cap.circulation / (24.0 * cap.volume);
}

/*
 * The fluxes through the south and west edges of a row, and q along the south. Filters the former
 * with the row of the latter that belongs to it.
 */
static void flux_row(const struct core *core, int stage, int row, struct workspace *work) {
    const int rows = core->sphere.rows, columns = core->sphere.columns;
    double *flux_v = work->flux_v[row & 1], *vorticity = work->vorticity[row & 1];
    if (row < rows)
        flux_through_meridians(core, stage, row, work->flux_u[row & 1]);
    if (row == 0 || row == rows) {
        vorticity_at_pole(core, stage, row == rows, vorticity);
        for (int i = 0; i < columns; i++)
            flux_v[i] = 0.0;
        return;
    }
    flux_through_parallel(core, stage, row, flux_v, vorticity);
    const int nearer = poleward(core, row);
    if (filter_reaches(&core->filter, nearer)) {
        double *flux_u = work->flux_u[nearer & 1];
        filter_pair(&core->filter, nearer, flux_u, flux_v);
        close_row(flux_u, columns);
    }
}

/* A row of cells' share in the changes. Those of its volumes, u and south v are complete then. */
static void cell_row(const struct core *core, int stage, int row, struct workspace *work) {
    const int columns = core->sphere.columns, here = row & 1, above = here ^ 1;
    const struct metric metric = core->metrics[row];
    const double *restrict volume = core_row(core, core->volume[stage], row);
    const double *restrict surface = core_row(core, core->surface, row);
    const double *restrict u = core_row(core, core->u[stage], row);
    const double *restrict v_south = core_row(core, core->v[stage], row);
    const double *restrict v_north = core_row(core, core->v[stage], row + 1);
    const double *restrict q_south = work->vorticity[here];
    const double *restrict q_north = work->vorticity[above];
    const double *restrict flux_u = work->flux_u[here];
    const double *restrict flux_south = work->flux_v[here];
    const double *restrict flux_north = work->flux_v[above];
    double *restrict change_volume = work->change_volume;
    double *restrict change_u = work->change_u[here];
    double *restrict change_v = work->change_v;
    double *restrict east = work->east;
    double *restrict north = work->north;
#pragma omp simd
    for (int i = 0; i < columns; i++) {
        const double rising = q_north[i + 1] + q_south[i], falling = q_north[i] + q_south[i + 1];
        const double a = 2.0 * rising + falling, b = rising + 2.0 * falling;
        const double e = (q_north[i] + q_north[i + 1]) - (q_south[i] + q_south[i + 1]);
        const double p = (q_north[i] + q_south[i]) - (q_north[i + 1] + q_south[i + 1]);
        const double W = flux_u[i], E = flux_u[i + 1], S = flux_south[i], N = flux_north[i];
        const double B =
            metric.gravity * volume[i] + surface[i] +
            0.5 * (metric.west * (u[i] * u[i] + u[i + 1] * u[i + 1]) +
                   metric.south * v_south[i] * v_south[i] + metric.north * v_north[i] * v_north[i]);
        change_u[i] = b * S + a * N - e * E - B;
        east[i + 1] = a * S + b * N + e * W + B;
        change_v[i] = north[i] - (b * W + a * E + p * N) - B;
        north[i] = B - (a * W + b * E - p * S);
        change_volume[i] = (W - E) + (S - N);
    }
    east[0] = east[columns];
#pragma omp simd
    for (int i = 0; i < columns; i++)
        change_u[i] += east[i];
}

/* Carries one unknown of a row on to the stage after `stage`. */
static void advance_row(const struct core *core, double *const unknown[STAGES], int stage, int row,
                        const double *restrict change) {
    const int columns = core->sphere.columns;
    double *restrict next = core_row(core, unknown[(stage + 1) % STAGES], row);
    if (stage < STAGES - 1) {
        const double *restrict y0 = core_row(core, unknown[0], row);
        const double step = stage == STAGES - 2 ? core->step : 0.5 * core->step;
#pragma omp simd
        for (int i = 0; i < columns; i++)
            next[i] = y0[i] + step * change[i];
    } else { /* next is y0 */
        const double *restrict y1 = core_row(core, unknown[1], row);
        const double *restrict y2 = core_row(core, unknown[2], row);
        const double *restrict y3 = core_row(core, unknown[3], row);
        const double third = 1.0 / 3.0, step = core->step / 6.0;
#pragma omp simd
        for (int i = 0; i < columns; i++)
            next[i] += third * ((y1[i] - next[i]) + 2.0 * (y2[i] - next[i]) + (y3[i] - next[i])) +
                       step * change[i];
    }
    close_row(next, columns);
}

/*
 * One stage for the rows of a band. The row of u lags behind by one: in the south it is filtered
 * with the row of v to its north.
 */
static void advance_band(const struct core *core, int stage, struct band band,
                         struct workspace *work) {
    const int first = band.first_v - 1 < band.first ? band.first_v - 1 : band.first;
    const int end = band.end_v > band.end ? band.end_v : band.end;
    if (band.first == band.end)
        return;
    if (first > 0 && poleward(core, first) < first)
        flux_through_meridians(core, stage, first - 1, work->flux_u[(first - 1) & 1]);
    flux_row(core, stage, first, work);
    for (int row = first; row < end; row++) {
        flux_row(core, stage, row + 1, work);
        cell_row(core, stage, row, work);
        if (row >= band.first_v && row < band.end_v) {
            const int nearer = poleward(core, row);
            if (filter_reaches(&core->filter, nearer))
                filter_pair(&core->filter, nearer, work->change_u[nearer & 1], work->change_v);
            advance_row(core, core->v, stage, row, work->change_v);
        }
        if (row >= band.first && row < band.end)
            advance_row(core, core->volume, stage, row, work->change_volume);
        if (row > band.first && row <= band.end)
            advance_row(core, core->u, stage, row - 1, work->change_u[(row - 1) & 1]);
    }
    if (end == band.end)
        advance_row(core, core->u, stage, end - 1, work->change_u[(end - 1) & 1]);
}

/* The area that the circulation round the south-west corner of a cell is taken over. */
static double corner_area(const struct sphere *sphere, int row) {
    if (row == 0 || row == sphere->rows)
        return sphere_cap_area(sphere);
    return 0.5 * (sphere_cell_area(sphere, row - 1) + sphere_cell_area(sphere, row));
}

static void begin_row_of_cells(struct core *core, const struct weather *weather, int row) {
    const struct sphere *sphere = &core->sphere;
    const double latitude = sphere_latitude(sphere, row + 0.5);
    const double area = sphere_cell_area(sphere, row), width = sphere_cell_width(sphere, row);
    double *volume = core_row(core, core->volume[0], row), *u = core_row(core, core->u[0], row);
    double *surface = core_row(core, core->surface, row);
    for (int i = 0; i < sphere->columns; i++) {
        const double edge = sphere_longitude(sphere, i), middle = sphere_longitude(sphere, i + 0.5);
        surface[i] = weather->surface(middle, latitude);
        volume[i] = area * (weather->top(middle, latitude) - surface[i]) / EARTH_GRAVITY;
        u[i] = width * weather->eastward(edge, latitude);
    }
    close_row(volume, sphere->columns);
    close_row(u, sphere->columns);
}

static void begin_row_of_corners(struct core *core, const struct weather *weather, int row) {
    const struct sphere *sphere = &core->sphere;
    const double latitude = sphere_latitude(sphere, row), height = sphere_cell_height(sphere);
    const bool pole = row == 0 || row == sphere->rows;
    double *v = core_row(core, core->v[0], row);
    for (int i = 0; i < sphere->columns; i++)
        v[i] = height * weather->northward(sphere_longitude(sphere, i + 0.5), latitude);
    close_row(v, sphere->columns);
    /* Nothing flows through a pole, at any stage. */
    for (int stage = 0; pole && stage < STAGES; stage++)
        for (int i = -1; i <= sphere->columns; i++)
            core_row(core, core->v[stage], row)[i] = 0.0;
}

static struct planetary planetary_at(const struct core *core, double tilt, int row) {
    const struct sphere *sphere = &core->sphere;
    const double latitude = sphere_latitude(sphere, row);
    const double rotation = 2.0 * EARTH_ROTATION * corner_area(sphere, row);
    const bool pole = row == 0 || row == sphere->rows;
    return (struct planetary){
        .upright = rotation * sin(latitude) * cos(tilt),
        .sideways = pole ? 0.0 : -rotation * cos(latitude) * sin(tilt),
    };
}

/* Fills the rows that this rank owns, and those of others that its stages read. */
void core_begin(struct core *core, const struct weather *weather) {
    const int rows = core->sphere.rows, mine = ranks_mine();
    const struct band own = halo_rank(core, mine);
    for (int row = 0; row <= rows; row++)
        core->planetary[row] = planetary_at(core, weather->tilt, row);
#pragma omp parallel
    {
        const int thread = omp_get_thread_num(), threads = omp_get_num_threads();
        const struct band band = band_of(core, thread, threads);
        const struct span cells = halo_cells(core, own), corners = halo_corners(core, own);
        const bool has_rows = band.first < band.end;
        const bool is_first = has_rows && band.first == own.first;
        const bool is_last = has_rows && band.end == own.end;
        for (int row = is_first ? cells.first : band.first; row < (is_last ? cells.end : band.end);
             row++)
            begin_row_of_cells(core, weather, row);
        for (int row = is_first ? corners.first : band.first;
             row < (is_last ? corners.end : band.end); row++)
            begin_row_of_corners(core, weather, row);
    }
    /* What rank 0 collects later is what others own, and nobody owns the rows at the poles. */
    if (mine == 0)
        begin_row_of_corners(core, weather, rows);
}

/* One run: what its threads share. */
struct run {
    struct core *core;
    int steps;
    struct result *result;
};

static void take_steps(struct member *me, void *shared) {
    const struct run *run = shared;
    struct core *core = run->core;
    const struct band band = band_of(core, me->thread, me->team->threads);
    const int columns = core->sphere.columns;
    struct workspace work;
    workspace_lay_out(&work, core->workspaces + (size_t)me->thread * workspace_doubles(columns),
                      columns);
    team_meet(me);
    const double start = omp_get_wtime();
    for (int step = 0; step < run->steps; step++)
        for (int stage = 0; stage < STAGES; stage++) {
            advance_band(core, stage, band, &work);
            team_barrier(me->team);
            if (ranks_count() > 1) {
                if (me->thread == 0)
                    halo_exchange(core, (stage + 1) % STAGES);
                team_barrier(me->team);
            }
        }
    result_time(run->result, me, start);
    result_worked(run->result, band.first < band.end);
}

void core_run(struct core *core, double step_seconds, int steps, struct result *result) {
    const double seconds_before = result->seconds;
    struct run run = {core, steps, result};
    core->step = step_seconds;
    result->working = 0;
    team_run(take_steps, &run);
    result->seconds += seconds_before;
}

double core_depth(const struct core *core, int row, int column) {
    return core_row(core, core->volume[0], row)[column] / sphere_cell_area(&core->sphere, row);
}

static uint64_t field_doubles(int columns) {
    return (uint64_t)core_stride(columns) * (uint64_t)(columns / 2 + 1);
}

/* Which rank has which rows, and what it sends the others. */
static void share_out(struct core *core) {
    const int ranks = ranks_count();
    core->halo = memory_pages(1, sizeof *core->halo);
    int *threads = memory_pages((size_t)ranks, sizeof *threads);
    int *first = memory_pages((size_t)ranks + 1, sizeof *first);
    if (memory_refused())
        return;
    ranks_each(omp_get_max_threads(), threads);
    share_rows(core, threads, first);
    *core->halo = (struct halo){.first = first};
    if (ranks > 1)
        halo_create(core);
}

void core_create(struct core *core, int columns) {
    *core = (struct core){.sphere = {columns, columns / 2}};
    const struct sphere *sphere = &core->sphere;
    const size_t doubles = field_doubles(columns);
    filter_create(&core->filter, sphere);
    for (int stage = 0; stage < STAGES; stage++) {
        core->volume[stage] = memory_pages(doubles, sizeof(double));
        core->u[stage] = memory_pages(doubles, sizeof(double));
        core->v[stage] = memory_pages(doubles, sizeof(double));
    }
    core->surface = memory_pages(doubles, sizeof(double));
    core->metrics = memory_pages((size_t)sphere->rows, sizeof *core->metrics);
    core->planetary = memory_pages((size_t)sphere->rows + 1, sizeof *core->planetary);
    core->cosine = memory_pages((size_t)columns, sizeof *core->cosine);
    core->workspaces = memory_pages((size_t)omp_get_max_threads() * workspace_doubles(columns),
                                    sizeof *core->workspaces);
    share_out(core);
    if (memory_refused())
        return;
    for (int i = 0; i < columns; i++)
        core->cosine[i] = cos(sphere_longitude(sphere, i));
    for (int row = 0; row < sphere->rows; row++) {
        const double width = sphere_cell_width(sphere, row), area = sphere_cell_area(sphere, row);
        core->metrics[row] = (struct metric){
            .gravity = EARTH_GRAVITY / area,
            .west = 0.5 / (width * width),
            .south = 0.5 * sphere_edge_width(sphere, row) / (sphere_cell_height(sphere) * area),
            .north = 0.5 * sphere_edge_width(sphere, row + 1) / (sphere_cell_height(sphere) * area),
        };
    }
}

int core_useful_threads(int columns) { return columns / 2; }

void core_collect(struct core *core) {
    if (ranks_count() > 1)
        halo_collect(core);
}

/* The rows of a field that this rank touches: all of those of rank 0, which collects them. */
static uint64_t rows_touched(int columns, int threads, bool collected) {
    const int ranks = ranks_count(), rows = columns / 2;
    if (ranks == 1 || (collected && ranks_mine() == 0))
        return (uint64_t)rows + 1;
    struct core core = {.sphere = {columns, rows}};
    core.filter.rows = rows;
    core.filter.filtered = filter_rows(&core.sphere);
    const int all = ranks * threads, before = ranks_mine() * threads;
    const int first = first_row(&core, 0, rows, before, all);
    const int end = first_row(&core, 0, rows, before + threads, all);
    const struct band own = halo_band(&core, first, end);
    const struct span corners = halo_corners(&core, own), cells = halo_cells(&core, own);
    return (uint64_t)((corners.end > cells.end ? corners.end : cells.end) -
                      (corners.first < cells.first ? corners.first : cells.first));
}

uint64_t core_bytes(int columns, int threads) {
    const struct sphere sphere = {columns, columns / 2};
    /* Of the first stage, and the surface, all rows are collected. */
    const uint64_t rows = 4 * rows_touched(columns, threads, true) +
                          3 * (STAGES - 1) * rows_touched(columns, threads, false);
    const uint64_t fields = rows * core_stride(columns) * sizeof(double);
    const uint64_t tables = (uint64_t)sphere.rows * sizeof(struct metric) +
                            ((uint64_t)sphere.rows + 1) * sizeof(struct planetary) +
                            (uint64_t)columns * sizeof(double);
    const uint64_t workspace = workspace_doubles(columns) * sizeof(double);
    return filter_bytes(&sphere) + fields + tables + (uint64_t)threads * workspace;
}
