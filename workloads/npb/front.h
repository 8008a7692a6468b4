/*
 * The arithmetic of LU at a front: LANES points of as many rows, slanted as lu.c says. What one
 * point does to the next of a sweep, and how a front's numbers come from the rows and go back.
 */
#pragma once

#include "flow.h"
#include "lanes.h"

#include <stddef.h>

/* Five components, of a change of the flow say, at the points of a front. */
struct front {
    lanes m[FLOW_COMPONENTS];
};

/* The sign is that of the steps through the grid. */
enum sweep { LOWER = 1, UPPER = -1 };

/*
 * What D and the products with L and U are made of. With t = 1/h^2, kappa = c3 c4, the Jacobians
 * J_d of the convective and kappa N_d of the viscous flux, and the diffusion d_d along direction d:
 *     D = I + 2 dt t sum_d (kappa N_d + d_d I)
 *     -omega L_d = omega dt (J_d / 2h + t (kappa N_d + d_d I)), U_d with -J_d.
 */
struct coefficients {
    double dt;
    double diagonal; /* D's multiple of the identity */
    double inverse_diagonal;
    double momentum;     /* D adds momentum / rho to it for the velocities, and */
    double heat;         /* heat / rho for the internal energy */
    double convection;   /* omega dt / 2h */
    double viscosity;    /* omega dt t kappa */
    double diffusion[3]; /* omega dt t d_d */
    double relaxation;   /* 1 / (omega (2 - omega)) */
};

/*
 * The flow at the points of a front, and D there. A change v of the conserved variables is also
 * written in primitive ones,
 *     w = (d rho, rho d velocity, rho d internal energy) = P^-1 v,
 * where D is diagonal: velocities and temperature diffuse independently of each other.
 */
struct local {
    lanes velocity[3];
    lanes square;   /* of the velocity */
    lanes total;    /* energy per mass */
    lanes internal; /* that without the kinetic energy */
    lanes per_density;
    /* P^-1 D^-1 P; all velocities have the same. 0 at points outside the grid. */
    lanes inverse_density, inverse_momentum, inverse_energy;
};

/* `inside` is 1 in lanes that are at an interior point, else 0. */
ALWAYS_INLINE void local_flow(struct local *at, const struct front *u, const lanes *inside,
                              const struct coefficients *c) {
    const lanes in = *inside;
    const lanes rho = u->m[0] * in + (1.0 - in);
    const lanes momentum = c->diagonal * rho + c->momentum;
    const lanes heat = c->diagonal * rho + c->heat;
    /* One division for three: it is slow. */
    const lanes momentum_heat = momentum * heat;
    const lanes reciprocal = 1.0 / (rho * momentum_heat);
    const lanes scaled = reciprocal * in * (rho * rho);
    at->per_density = reciprocal * momentum_heat;
    at->inverse_density = in * c->inverse_diagonal;
    at->inverse_momentum = scaled * heat;
    at->inverse_energy = scaled * momentum;
    for (int d = 0; d < 3; d++)
        at->velocity[d] = u->m[1 + d] * at->per_density;
    at->square = at->velocity[0] * at->velocity[0] + at->velocity[1] * at->velocity[1] +
                 at->velocity[2] * at->velocity[2];
    at->total = u->m[4] * at->per_density;
    at->internal = at->total - 0.5 * at->square;
}

/* A change of the flow, and how much of its energy changes the velocity. */
struct change {
    struct front w;
    lanes kinetic;
};

ALWAYS_INLINE lanes dot(const lanes velocity[3], const struct front *change) {
    return velocity[0] * change->m[1] + (velocity[1] * change->m[2] + velocity[2] * change->m[3]);
}

/*
 * w += P^-1 D^-1 r. Every front waits for this on the one before, which is why the kinetic energy
 * is found from r instead of w: no chain of operations is to be long.
 */
ALWAYS_INLINE void add_solution(struct change *change, const struct local *at,
                                const struct front *r) {
    const lanes kinetic = dot(at->velocity, r) - at->square * r->m[0];
    const lanes internal = r->m[4] - at->total * r->m[0] - kinetic;
    struct front *w = &change->w;
    w->m[0] += at->inverse_density * r->m[0];
    for (int d = 0; d < 3; d++)
        w->m[1 + d] += at->inverse_momentum * (r->m[1 + d] - at->velocity[d] * r->m[0]);
    w->m[4] += at->inverse_energy * internal;
    change->kinetic += at->inverse_momentum * kinetic;
}

/* v = P w. */
ALWAYS_INLINE void conserved(struct front *v, const struct local *at, const struct change *change) {
    const struct front *w = &change->w;
    v->m[0] = w->m[0];
    for (int d = 0; d < 3; d++)
        v->m[1 + d] = w->m[1 + d] + at->velocity[d] * w->m[0];
    v->m[4] = w->m[4] + (change->kinetic + at->total * w->m[0]);
}

/*
 * to[d] = -omega L_d v or -omega U_d v along the three directions: what a point adds to the
 * right-hand side of its neighbours. With dp = c2 (w5 + v1 internal energy), rows 1, 1 + m and 5
 * are of J_d v:  v_1+d,  u_d v_1+m + u_m w_1+d (+ dp if m = d),  u_d (v5 + dp) + enthalpy w_1+d of
 * N_d v:  0,  s w_1+m / rho,  (sum_m s u_m w_1+m + c1 c5 w5) / rho where s is 4/3 for m = d, else
 * 1, and the enthalpy is total + c2 internal energy.
 */
ALWAYS_INLINE void spread(struct front to[3], const struct local *at, const struct change *change,
                          const struct front *v, const struct coefficients *c, enum sweep sweep) {
    const struct front *w = &change->w;
    const double convection = sweep * c->convection;
    const lanes viscosity = c->viscosity * at->per_density;
    const lanes pressure =
        (convection * FLOW_C2) * w->m[4] + (convection * FLOW_C2) * at->internal * v->m[0];
    const lanes enthalpy = convection * at->total + (convection * FLOW_C2) * at->internal;
    const lanes viscous_energy = viscosity * change->kinetic + FLOW_C1C5 * viscosity * w->m[4];
    lanes viscous[3];
    for (int d = 0; d < 3; d++)
        viscous[d] = viscosity * w->m[1 + d];

    for (int d = 0; d < 3; d++) {
        const lanes speed = convection * at->velocity[d];
        const lanes carried = speed + c->diffusion[d];
        to[d].m[0] = convection * v->m[1 + d] + c->diffusion[d] * v->m[0];
        for (int m = 0; m < 3; m++)
            to[d].m[1 + m] =
                carried * v->m[1 + m] + (convection * at->velocity[m] * w->m[1 + d] + viscous[m]);
        to[d].m[1 + d] += (1.0 / 3.0) * viscous[d] + pressure;
        to[d].m[4] = carried * v->m[4] +
                     (at->velocity[d] * pressure +
                      ((enthalpy + (1.0 / 3.0) * viscosity * at->velocity[d]) * w->m[1 + d] +
                       viscous_energy));
    }
}

/* The rows of a block. */
struct rows {
    double *lane[LANES];
    size_t component; /* stride */
    int count;        /* of lanes that are in the grid */
};

/* Fronts first .. first + LANES - 1 of a block. Outside the rows they are any number. */
ALWAYS_INLINE void load_fronts(struct front to[LANES], const struct rows *rows, int first) {
    for (int m = 0; m < FLOW_COMPONENTS; m++) {
        lanes square[LANES];
        for (int l = 0; l < LANES; l++)
            square[l] = lanes_load(rows->lane[l] + (size_t)m * rows->component + 1 + first - l);
        lanes_transpose(square);
        for (int s = 0; s < LANES; s++)
            to[s].m[m] = square[s];
    }
}

/* Undoes load_fronts. What is outside the rows gets back what it had. */
ALWAYS_INLINE void store_fronts(const struct front from[LANES], const struct rows *rows,
                                int first) {
    for (int m = 0; m < FLOW_COMPONENTS; m++) {
        lanes square[LANES];
        for (int s = 0; s < LANES; s++)
            square[s] = from[s].m[m];
        lanes_transpose(square);
        for (int l = 0; l < LANES; l++)
            if (l < rows->count)
                lanes_store(rows->lane[l] + (size_t)m * rows->component + 1 + first - l, square[l]);
    }
}

/* What stands in `edge` of a passage beyond the places of its fronts. */
enum { EDGE_MARGIN = LANES - 1 };

/* A block on its way: what its fronts read and write, by front. */
struct passage {
    const struct coefficients *coefficients;
    int fronts;
    const lanes *inside;
    struct front *change, *across;
    double *edge;
    /* What the thread will need after this block: of `change`, and rows of u. */
    const struct front *next_change;
    const double *next_rows;
};

/* Which of a block's fronts a thread passes: all of them, or a range that it shares with others. */
enum extent_of_pass { WHOLE, PART };

enum { FRONT_DOUBLES = FLOW_COMPONENTS * LANES, CACHE_LINE_DOUBLES = 8 };

/*
 * Asks for as much of the next block as a front uses: the rows are too many streams for the
 * hardware to follow. The lower sweep has its rows in the cache, since R(U) was computed from them.
 */
ALWAYS_INLINE void prefetch_next(const struct passage *passage, int f, enum sweep sweep) {
    const double *change = (const double *)(passage->next_change + f);
    const double *rows = passage->next_rows + (size_t)f * FRONT_DOUBLES;
    for (int line = 0; line < FRONT_DOUBLES; line += CACHE_LINE_DOUBLES) {
        if (sweep == LOWER) {
            __builtin_prefetch(change + line, 1, 2);
        } else {
            __builtin_prefetch(change + line, 0, 2);
            __builtin_prefetch(rows + line, 0, 2);
        }
    }
}

/*
 * Front f. `sent` is what the front before has sent along x and y, and becomes what this one sends
 * along x, y and z. The lower sweep reads the residual, the upper updates u.
 */
ALWAYS_INLINE void pass_front(const struct passage *passage, int f, const struct local *at,
                              struct front *u, const struct front *residual, struct front sent[3],
                              enum sweep sweep) {
    const struct coefficients *c = passage->coefficients;
    double *lower_edge = passage->edge + (size_t)f * FLOW_COMPONENTS;
    double *upper_edge = lower_edge + EDGE_MARGIN * FLOW_COMPONENTS;
    struct front r = passage->across[f], v;
    for (int m = 0; m < FLOW_COMPONENTS; m++) {
        if (sweep == LOWER)
            r.m[m] += c->dt * residual->m[m];
        r.m[m] =
            (r.m[m] + sent[0].m[m]) + (sweep == LOWER ? lanes_up(sent[1].m[m], upper_edge[m])
                                                      : lanes_down(sent[1].m[m], lower_edge[m]));
    }

    struct change change = {0};
    if (sweep == UPPER) {
        change.w = passage->change[f];
        change.kinetic = dot(at->velocity, &change.w);
    }
    add_solution(&change, at, &r);
    conserved(&v, at, &change);
    if (sweep == LOWER)
        passage->change[f] = change.w;
    else
        for (int m = 0; m < FLOW_COMPONENTS; m++)
            u->m[m] += c->relaxation * v.m[m];

    spread(sent, at, &change, &v, c, sweep);
    passage->across[f] = sent[2];
    for (int m = 0; m < FLOW_COMPONENTS; m++)
        if (sweep == LOWER)
            lower_edge[m] = sent[1].m[m][LANES - 1];
        else
            upper_edge[m] = sent[1].m[m][0];
}

/*
 * Fronts begin .. end - 1 of a block, as many at a time as a transposition yields. What follows
 * from the state alone is computed before the recurrence, for all of these at once. `sent` is as
 * for a single front. R(U) comes in rows, or in its place in `change` where those are NULL.
 *
 * What is transposed beyond a part's fronts is of other threads: those who have passed them, or
 * will wait for this one. It lies in the same block, so that nobody else writes it meanwhile.
 */
ALWAYS_INLINE void pass_fronts(const struct passage *passage, const struct rows *state,
                               const struct rows *residual, int begin, int end,
                               struct front sent[3], enum extent_of_pass extent, enum sweep sweep) {
    const int chunks = (end - begin + LANES - 1) / LANES;
    for (int chunk = 0; chunk < chunks; chunk++) {
        const int first = begin + (sweep == LOWER ? chunk : chunks - 1 - chunk) * LANES;
        const int left = end - first, count = left < LANES ? left : LANES;
        const int beyond = first + LANES - passage->fronts;
        const int skipped = extent == PART && beyond > 0 ? beyond : 0;
        struct front u[LANES], r[LANES];
        struct local at[LANES];
        load_fronts(u, state, first - skipped);
        if (residual != NULL)
            load_fronts(r, residual, first);
        for (int c = 0; c < count; c++)
            local_flow(&at[c], &u[skipped + c], &passage->inside[first + c], passage->coefficients);
        for (int c = 0; c < count; c++) {
            const int f = sweep == LOWER ? c : count - 1 - c;
            if (extent == WHOLE)
                prefetch_next(passage, first + f, sweep);
            pass_front(passage, first + f, &at[f], &u[skipped + f],
                       residual != NULL ? &r[f] : &passage->change[first + f], sent, sweep);
        }
        if (sweep == UPPER)
            store_fronts(u, state, first - skipped);
    }
}
