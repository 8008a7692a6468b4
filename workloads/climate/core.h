/*
 * The dynamical core: the shallow-water equations in vector-invariant form,
 *     du/dt = -q k x U - grad(g (h + b) + |u|^2 / 2),    dh/dt = -div U,
 * with U = h u and the potential vorticity q = (f + curl u) / h, on an Arakawa C grid.
 *
 * The unknowns are integrals over the grid's elements: the volume of fluid in a cell, and the
 * circulations u, v (wind times length) to the middle of a cell from those of its neighbours in the
 * west and in the south. So a cell changes by the flow through its edges and nothing else.
 */
#pragma once

#include "filter.h"
#include "program.h"
#include "sphere.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where a model run starts from: functions of longitude and latitude in SI units. */
struct weather {
    double (*surface)(double longitude, double latitude);  /* g times the height of the ground */
    double (*top)(double longitude, double latitude);      /* g times that of the fluid's surface */
    double (*eastward)(double longitude, double latitude); /* wind */
    double (*northward)(double longitude, double latitude);
    double tilt; /* of the axis of rotation, towards longitude 180: 0 is the Earth's */
};

enum { STAGES = 4 }; /* of a step */

/* What the lengths and areas of a row of cells come to in the equations. */
struct metric {
    double gravity; /* g over area */
    /* The flux through an edge is its circulation times the volumes at either side times these. */
    double west, south, north;
};

/*
 * The planetary vorticity times the area round the corners of a row: the Coriolis parameter of an
 * axis that may be tilted is upright + sideways x cosine of the longitude.
 */
struct planetary {
    double upright, sideways;
};

struct core {
    struct sphere sphere;
    struct filter filter;
    /* The unknowns that each stage of a step starts from. */
    double *volume[STAGES], *u[STAGES], *v[STAGES];
    double *surface;             /* g times the height of the ground, a cell */
    struct metric *metrics;      /* a row of cells */
    struct planetary *planetary; /* a row of corners */
    double *cosine;              /* of the longitude, a corner */
    double *workspaces;          /* of the threads */
    struct halo *halo;           /* what ranks have for one another */
    double step;                 /* seconds */
};

enum { GHOST = 8 }; /* doubles before and behind a row, which goes round: keeps rows aligned */

static inline size_t core_stride(int columns) { return (size_t)columns + 2 * GHOST; }

/* Column 0 of a row of one of the fields above. Columns -1 and `columns` may be read, too. */
static inline double *core_row(const struct core *core, double *field, int row) {
    return field + (size_t)row * core_stride(core->sphere.columns) + GHOST;
}

/*
 * A core with as many rows as half its columns, a power of two. Each rank owns some of them, and
 * touches no memory but theirs and that of their neighbours.
 */
void core_create(struct core *core, int columns);

/* For this rank, if all have as many threads. */
uint64_t core_bytes(int columns, int threads);

/* Threads that find work, each in a row or more. */
int core_useful_threads(int columns);

/* Sets the weather; the threads that will work on the rows write them. */
void core_begin(struct core *core, const struct weather *weather);

/* Takes the steps with all threads, whose time it adds to the result's. */
void core_run(struct core *core, double step_seconds, int steps, struct result *result);

/*
 * At a pole: the absolute circulation round the cap within the middles of the polar cells, and the
 * volume of the cap, divided by the columns.
 */
struct cap {
    double circulation, volume;
};

struct cap core_cap(const struct core *core, int stage, bool north);

/* Has rank 0 hold the present state of all rows, for those functions that look at all of them. */
void core_collect(struct core *core);

/* The depth of the fluid in a cell, in metres. */
double core_depth(const struct core *core, int row, int column);
