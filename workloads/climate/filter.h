/*
 * The polar filter. Towards the poles the columns of a latitude-longitude grid converge, and the
 * zonal waves that fit between them would set the time step. Poleward of FILTER_LATITUDE the filter
 * weakens each zonal wave so that a gravity wave, whose fluxes and forces it is applied to, changes
 * no faster than the shortest one at that latitude (Arakawa & Lamb, Methods in Comput. Phys. 17
 * (1977) 173-265). The zonal mean passes unchanged, so that mass is conserved. The filter is
 * symmetric, that is the sum of f times filtered g is the sum of filtered f times g, so that energy
 * is conserved.
 */
#pragma once

#include "sphere.h"

#include <stdbool.h>
#include <stdint.h>

#define FILTER_LATITUDE (M_PI / 3.0)

struct filter {
    int columns, rows;
    int filtered;    /* rows at either pole */
    int first_radix; /* of the transforms: 2 if their length is an odd power of 2, else 4 */
    double *root_re, *root_im;   /* of unity, for the transforms of each lane */
    double *shift_re, *shift_im; /* that join the lanes */
    double *response;            /* of a row a filtered latitude, in the transforms' order */
};

/* `columns` must be a power of two, at least 16. */
void filter_create(struct filter *filter, const struct sphere *sphere);
uint64_t filter_bytes(const struct sphere *sphere);

/* How many rows at either pole it reaches. */
int filter_rows(const struct sphere *sphere);

static inline bool filter_reaches(const struct filter *filter, int row) {
    return row < filter->filtered || row >= filter->rows - filter->filtered;
}

/*
 * Filters two rows of `columns` numbers, aligned to 64 bytes, in place: for the latitude of cell
 * row `row`, which the filter must reach. Each is filtered for itself; a pair costs what one would.
 */
void filter_pair(const struct filter *filter, int row, double *first, double *second);
