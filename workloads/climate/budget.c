#include "budget.h"

#include "core.h"

/* What a row of cells holds. */
static void add_row_of_cells(const struct core *core, int row, struct budget *budget) {
    const int columns = core->sphere.columns;
    const struct metric *metric = &core->metrics[row];
    const double *volume = core_row(core, core->volume[0], row);
    const double *surface = core_row(core, core->surface, row);
    const double *u = core_row(core, core->u[0], row);
    const double *v_south = core_row(core, core->v[0], row);
    const double *v_north = core_row(core, core->v[0], row + 1);
    double sum_volume = 0.0, energy = 0.0;
#pragma omp simd reduction(+ : sum_volume, energy)
    for (int i = 0; i < columns; i++) {
        sum_volume += volume[i];
        energy +=
            volume[i] * (0.5 * metric->gravity * volume[i] + surface[i]) +
            0.5 * volume[i] *
                (metric->west * (u[i] * u[i] + u[i + 1] * u[i + 1]) +
                 metric->south * v_south[i] * v_south[i] + metric->north * v_north[i] * v_north[i]);
    }
    budget->volume += sum_volume;
    budget->energy += energy;
}

static void add_row_of_corners(const struct core *core, int row, struct budget *budget) {
    const int columns = core->sphere.columns;
    const double *south = core_row(core, core->volume[0], row - 1);
    const double *north = core_row(core, core->volume[0], row);
    const double *u_south = core_row(core, core->u[0], row - 1);
    const double *u_north = core_row(core, core->u[0], row), *v = core_row(core, core->v[0], row);
    const struct planetary planetary = core->planetary[row];
    double enstrophy = 0.0;
#pragma omp simd reduction(+ : enstrophy)
    for (int i = 0; i < columns; i++) {
        const double four_volumes = (south[i - 1] + south[i]) + (north[i - 1] + north[i]);
        const double circulation = planetary.upright + planetary.sideways * core->cosine[i] +
                                   (u_south[i] - u_north[i]) + (v[i] - v[i - 1]);
        enstrophy += 2.0 * circulation * circulation / four_volumes;
    }
    budget->enstrophy += enstrophy;
}

struct budget budget_of(const struct core *core) {
    struct budget budget = {0};
    for (int row = 0; row < core->sphere.rows; row++)
        add_row_of_cells(core, row, &budget);
    for (int row = 1; row < core->sphere.rows; row++)
        add_row_of_corners(core, row, &budget);
    for (int north = 0; north < 2; north++) {
        const struct cap cap = core_cap(core, 0, north);
        budget.enstrophy +=
            0.5 * core->sphere.columns * cap.circulation * cap.circulation / cap.volume;
    }
    return budget;
}
