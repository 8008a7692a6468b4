#include "surface.h"

/* Points first .. last of a direction; one alone is a face. */
struct extent {
    int first, last;
};

static double pressure(const struct flow *flow, int i, int j, int k) {
    double u[FLOW_COMPONENTS];
    for (int m = 0; m < FLOW_COMPONENTS; m++)
        u[m] = flow->u[(size_t)k * flow->plane + (size_t)j * flow->row +
                       (size_t)m * flow->component + (size_t)i];
    return FLOW_C2 * (u[4] - 0.5 * (u[1] * u[1] + u[2] * u[2] + u[3] * u[3]) / u[0]);
}

/* 1/2 at the ends of a direction that is integrated over, by the trapezoidal rule. */
static double trapezoidal(struct extent extent, int index) {
    const bool end = index == extent.first || index == extent.last;
    return end && extent.first != extent.last ? 0.5 : 1.0;
}

static double integral(const struct flow *flow, struct extent x, struct extent y, struct extent z) {
    double sum = 0;
    for (int k = z.first; k <= z.last; k++)
        for (int j = y.first; j <= y.last; j++)
            for (int i = x.first; i <= x.last; i++)
                sum += trapezoidal(x, i) * trapezoidal(y, j) * trapezoidal(z, k) *
                       pressure(flow, i, j, k);
    return sum * flow->h * flow->h;
}

double surface_integral(const struct flow *flow) {
    const int last = flow->n - 2;
    const struct extent x = {1, last}, y = {1, last - 1}, z = {2, last};
    const struct extent x_ends[2] = {{x.first, x.first}, {x.last, x.last}};
    const struct extent y_ends[2] = {{y.first, y.first}, {y.last, y.last}};
    const struct extent z_ends[2] = {{z.first, z.first}, {z.last, z.last}};
    double sum = 0;
    for (int end = 0; end < 2; end++)
        sum += integral(flow, x_ends[end], y, z) + integral(flow, x, y_ends[end], z) +
               integral(flow, x, y, z_ends[end]);
    return sum;
}
