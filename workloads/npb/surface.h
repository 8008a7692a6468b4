/*
 * The number that LU is verified by besides its norms.
 */
#pragma once

#include "flow.h"

/*
 * The pressure integrated over the faces of a box, opposite faces added up. The box is not
 * symmetric: it ends a point earlier in y and begins one later in z, as the references have it.
 */
double surface_integral(const struct flow *flow);
