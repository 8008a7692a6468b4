/*
 * What BT, SP and LU share: the flow's state on a grid of n x n x n points of the unit cube, the
 * exact solution that it is compared with, its initial values, and the steady operator
 * R(U) = L(U) + f, whose forcing f makes the exact solution steady (RNR-94-007, section 3.3).
 */
#ifndef STAYPUT_NPB_FLOW_H
#define STAYPUT_NPB_FLOW_H

#include "program.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The conserved variables: density, three momenta, total energy. */
enum { FLOW_COMPONENTS = 5 };

/* Points whose work is done at once, neighbours along a direction of no dependence. */
enum { FLOW_LANES = 8 };
typedef double flow_lanes __attribute__((vector_size(FLOW_LANES * sizeof(double))));

/* Physical and numerical constants, the same in all classes. */
#define FLOW_C1 1.4
#define FLOW_C2 0.4
#define FLOW_C3C4 0.1
#define FLOW_C1C5 1.96
#define FLOW_DISSIPATION 0.25

/* Diffusion along x, y and z, the same for all components. */
static const double FLOW_DIFFUSION[3] = {0.75, 0.75, 1.0};

/*
 * A flow: fields are indexed [k * plane + m * component + j * row + i]. Rows are padded to whole
 * vectors and start on one; component and plane strides are no multiple of a page, so that lines
 * along y and z spread over a cache's sets.
 */
struct flow {
    int n;                        /* points in each direction */
    double h;                     /* between two of them: 1 / (n - 1) */
    size_t row, component, plane; /* strides of j, m and k, in doubles */
    double *u;                    /* the state */
    double *forcing;              /* f: 0 on the boundary */
};

/* Bytes that flow_create asks for. */
uint64_t flow_bytes(int n);

/* Allocates the fields without touching them; false when memory is short. */
bool flow_create(struct flow *flow, int n);
void flow_destroy(struct flow *flow);

/* The exact solution at grid point (i, j, k). */
void flow_exact(const struct flow *flow, int i, int j, int k, double value[FLOW_COMPONENTS]);

/*
 * Sets the planes k_first .. k_end - 1 of u (padding included) to boundary and initial values, or
 * computes those of the forcing. The thread that calls first places the memory.
 */
void flow_initialise(struct flow *flow, int k_first, int k_end);
void flow_force(struct flow *flow, int k_first, int k_end);

/*
 * R(U) at the rows j_first .. j_end - 1 of plane k, both interior: to r[m * component + j * row +
 * i] with j counted from j_first and `component` the stride given here; 0 at the ends of each row.
 */
void flow_residual(const struct flow *flow, int k, int j_first, int j_end, double *r,
                   size_t component);

/* Sums over the interior of plane k, component by component: squares of R(U) and of U - Uex. */
void flow_plane_residual_squares(const struct flow *flow, int k, double *scratch,
                                 double squares[FLOW_COMPONENTS]);
void flow_plane_error_squares(const struct flow *flow, int k, double squares[FLOW_COMPONENTS]);

/* A class's reference values: root mean squares of residual and error. */
struct flow_norms {
    double residual[FLOW_COMPONENTS], error[FLOW_COMPONENTS];
};

/* Compares the norms with the class's, component by component. */
void flow_check(struct result *result, const struct flow_norms *norms,
                const struct flow_norms *reference);

#endif
