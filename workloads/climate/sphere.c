#include "sphere.h"

#include <math.h>

static double longitude_step(const struct sphere *sphere) { return 2.0 * M_PI / sphere->columns; }

static double latitude_step(const struct sphere *sphere) { return M_PI / sphere->rows; }

double sphere_longitude(const struct sphere *sphere, double column) {
    return column * longitude_step(sphere);
}

/* From the equator, so that north and south are mirror images to the last bit. */
double sphere_latitude(const struct sphere *sphere, double row) {
    return (row - 0.5 * sphere->rows) * latitude_step(sphere);
}

static double width_at(const struct sphere *sphere, double row) {
    return EARTH_RADIUS * cos(sphere_latitude(sphere, row)) * longitude_step(sphere);
}

double sphere_cell_width(const struct sphere *sphere, int row) {
    return width_at(sphere, row + 0.5);
}

double sphere_edge_width(const struct sphere *sphere, int row) {
    return row == 0 || row == sphere->rows ? 0.0 : width_at(sphere, row);
}

double sphere_cell_height(const struct sphere *sphere) {
    return EARTH_RADIUS * latitude_step(sphere);
}

/* sin(b + d) - sin(b - d) = 2 cos b sin d. */
double sphere_cell_area(const struct sphere *sphere, int row) {
    const double half_step = 0.5 * latitude_step(sphere);
    return sphere_cell_width(sphere, row) * EARTH_RADIUS * 2.0 * sin(half_step);
}

/* 1 - cos d = 2 sin^2(d/2). */
double sphere_cap_area(const struct sphere *sphere) {
    const double sine = sin(0.25 * latitude_step(sphere));
    return EARTH_RADIUS * EARTH_RADIUS * longitude_step(sphere) * 2.0 * sine * sine;
}
