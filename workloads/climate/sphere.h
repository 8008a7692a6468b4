/*
 * The rotating Earth under a latitude-longitude grid: cells of equal steps in both angles, of which
 * a row goes round a parallel. Row 0 touches the South Pole, the last row the North Pole.
 */
#pragma once

/* Williamson et al., J. Comput. Phys. 102 (1992) 211-224, section 2; metres and seconds. */
#define EARTH_RADIUS 6.37122e6
#define EARTH_ROTATION 7.292e-5
#define EARTH_GRAVITY 9.80616

struct sphere {
    int columns, rows; /* of cells; both even */
};

/* At grid coordinates: the middle of a cell is at (column + 1/2, row + 1/2). */
double sphere_longitude(const struct sphere *sphere, double column);
double sphere_latitude(const struct sphere *sphere, double row);

/* A cell from west to east along its middle, along its south edge, and from south to north. */
double sphere_cell_width(const struct sphere *sphere, int row);
double sphere_edge_width(const struct sphere *sphere, int row);
double sphere_cell_height(const struct sphere *sphere);

/* Exact, so that all cells together have the area of the sphere. */
double sphere_cell_area(const struct sphere *sphere, int row);

/* The part of a polar cell that is nearer to the pole than its middle. */
double sphere_cap_area(const struct sphere *sphere);
