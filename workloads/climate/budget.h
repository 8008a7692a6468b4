/* What the exact equations conserve, summed up over the sphere. */
#pragma once

#include "core.h"

struct budget {
    double volume;
    double energy;    /* kinetic and potential, divided by the density */
    double enstrophy; /* potential: half the sum of q^2 h */
};

/* In the scheme's own terms, row by row: the same whatever the threads. */
struct budget budget_of(const struct core *core);
