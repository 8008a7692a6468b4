/*
 * A small atmosphere: the shallow-water equations on the rotating sphere, which carry the waves and
 * vortices that a general-circulation model resolves in each of its layers, with the numerics of
 * such models: a latitude-longitude C grid and a polar filter.
 *
 * It runs three of the standard test cases of Williamson et al., J. Comput. Phys. 102 (1992)
 * 211-224: number 2, a steady flow across the poles, which has an exact solution; number 5, flow
 * over a mountain; and number 6, a Rossby-Haurwitz wave. Every class has twice the columns, rows
 * and steps of the one before, and simulates the same days.
 */
#include "budget.h"
#include "core.h"
#include "memory.h"
#include "program.h"
#include "ranks.h"

#include <math.h>
#include <stdio.h>

static const double DAY = 86400.0;

static double nothing(double longitude, double latitude) {
    (void)longitude, (void)latitude;
    return 0.0;
}

/*
 * The surface (times g) of a fluid that turns like a solid body, faster than the Earth and round
 * the same axis, in balance; `sine` is of the angle to its equator.
 */
static double balanced_top(double top_at_equator, double wind, double sine) {
    const double inertia = EARTH_RADIUS * EARTH_ROTATION * wind + 0.5 * wind * wind;
    return top_at_equator - inertia * sine * sine;
}

/*
 * Case 2: steady flow, round the globe in 12 days. The axis that it and the Earth turn about nearly
 * lies in the plane of the grid's equator, so that the flow crosses both poles of the grid.
 */
#define STEADY_WIND (2.0 * M_PI * EARTH_RADIUS / (12.0 * DAY))
#define STEADY_TILT (M_PI / 2.0 - 0.05)

static double steady_sine(double longitude, double latitude) {
    return sin(latitude) * cos(STEADY_TILT) - cos(longitude) * cos(latitude) * sin(STEADY_TILT);
}

static double steady_top(double longitude, double latitude) {
    return balanced_top(2.94e4, STEADY_WIND, steady_sine(longitude, latitude));
}

static double steady_eastward(double longitude, double latitude) {
    return STEADY_WIND *
           (cos(latitude) * cos(STEADY_TILT) + cos(longitude) * sin(latitude) * sin(STEADY_TILT));
}

static double steady_northward(double longitude, double latitude) {
    (void)latitude;
    return -STEADY_WIND * sin(longitude) * sin(STEADY_TILT);
}

/* Case 5: wind from the west over a cone at 30 degrees north. */
static const double MOUNTAIN_WIND = 20.0;

static double mountain_surface(double longitude, double latitude) {
    const double radius = M_PI / 9.0;
    const double distance = hypot(longitude - 1.5 * M_PI, latitude - M_PI / 6.0);
    return distance < radius ? EARTH_GRAVITY * 2000.0 * (1.0 - distance / radius) : 0.0;
}

static double mountain_top(double longitude, double latitude) {
    (void)longitude;
    return balanced_top(EARTH_GRAVITY * 5960.0, MOUNTAIN_WIND, sin(latitude));
}

static double mountain_eastward(double longitude, double latitude) {
    (void)longitude;
    return MOUNTAIN_WIND * cos(latitude);
}

/* Case 6: a Rossby-Haurwitz wave of wave number 4. Its two rates, omega and K, are the same. */
static const double HAURWITZ_RATE = 7.848e-6;

enum { HAURWITZ_WAVE = 4 };

static double haurwitz_top(double longitude, double latitude) {
    const double rate = HAURWITZ_RATE, wave = HAURWITZ_WAVE;
    const double c = cos(latitude), c2 = c * c, power = pow(c, wave);
    const double mean =
        0.5 * rate * (2.0 * EARTH_ROTATION + rate) * c2 +
        0.25 * rate * rate * power * power *
            ((wave + 1.0) * c2 + (2.0 * wave * wave - wave - 2.0) - 2.0 * wave * wave / c2);
    const double single = 2.0 * (EARTH_ROTATION + rate) * rate / ((wave + 1.0) * (wave + 2.0)) *
                          power *
                          ((wave * wave + 2.0 * wave + 2.0) - (wave + 1.0) * (wave + 1.0) * c2);
    const double twice = 0.25 * rate * rate * power * power * ((wave + 1.0) * c2 - (wave + 2.0));
    return EARTH_GRAVITY * 8000.0 +
           EARTH_RADIUS * EARTH_RADIUS *
               (mean + single * cos(wave * longitude) + twice * cos(2.0 * wave * longitude));
}

static double haurwitz_eastward(double longitude, double latitude) {
    const double wave = HAURWITZ_WAVE, c = cos(latitude), s = sin(latitude);
    return EARTH_RADIUS * HAURWITZ_RATE *
           (c + pow(c, wave - 1.0) * (wave * s * s - c * c) * cos(wave * longitude));
}

static double haurwitz_northward(double longitude, double latitude) {
    const double wave = HAURWITZ_WAVE, c = cos(latitude), s = sin(latitude);
    return -EARTH_RADIUS * HAURWITZ_RATE * wave * pow(c, wave - 1.0) * s * sin(wave * longitude);
}

/*
 * The fastest gravity wave bounds the step. On cells of x by y, waves of speed c have frequencies
 * up to 2 c sqrt(1 / x^2 + 1 / y^2), which is largest at FILTER_LATITUDE, where x = y / 2; times
 * the step that must not exceed 2.8 (Runge-Kutta of order 4). So there must be c / (290 m/s) steps
 * a day for every column. Waves and wind together are no faster than 220, 270 and 430 m/s in cases
 * 2, 5 and 6.
 */
struct test_case {
    int number, days;
    double steps; /* a day for every column */
    struct weather weather;
    double energy_drift, enstrophy_drift; /* at most, in class S: see check_budget */
};

static const struct test_case CASES[] = {
    {.number = 2,
     .days = 5,
     .steps = 1.0,
     .weather = {nothing, steady_top, steady_eastward, steady_northward, STEADY_TILT},
     .energy_drift = 1.0e-8,
     .enstrophy_drift = 2.0e-9},
    {.number = 5,
     .days = 15,
     .steps = 1.0,
     .weather = {mountain_surface, mountain_top, mountain_eastward, nothing, 0.0},
     .energy_drift = 2.0e-7,
     .enstrophy_drift = 1.2e-4},
    {.number = 6,
     .days = 7,
     .steps = 1.5,
     .weather = {nothing, haurwitz_top, haurwitz_eastward, haurwitz_northward, 0.0},
     .energy_drift = 1.0e-7,
     .enstrophy_drift = 1.2e-4},
};

enum { CLASS_S_COLUMNS = 64 };

static int columns_of(size_t class) { return CLASS_S_COLUMNS << class; }

/* What an error of the given order in the size of the cells is, when it is `error` in class S. */
static double refined(const struct core *core, double error, int order) {
    return error * pow((double)CLASS_S_COLUMNS / core->sphere.columns, order);
}

static void check(struct result *result, int number, const char *what, double value, double bound) {
    char name[80];
    snprintf(name, sizeof name, "case %d, %s", number, what);
    result_check_below(result, name, value, bound);
}

/*
 * Volume changes by rounding only. In space the scheme conserves energy; the Runge-Kutta steps lose
 * some of it, at second order or better. Potential enstrophy is conserved but for the poles and the
 * polar filter, which takes it out of the waves that it weakens: an error of second order while the
 * flow is smooth, of first order once there are filaments as thin as cells. The bounds are two
 * to four times what class S does.
 */
static void check_budget(struct result *result, const struct core *core,
                         const struct test_case *test, const struct budget *before) {
    const struct budget after = budget_of(core);
    check(result, test->number, "relative drift of mass", fabs(after.volume / before->volume - 1.0),
          1.0e-13);
    check(result, test->number, "relative drift of energy",
          fabs(after.energy / before->energy - 1.0), refined(core, test->energy_drift, 2));
    check(result, test->number, "relative drift of potential enstrophy",
          fabs(after.enstrophy / before->enstrophy - 1.0), refined(core, test->enstrophy_drift, 1));
}

/*
 * The steady flow must not have changed. The bounds are 1.2 times what class S does. A NaN, which
 * fmax passes over, gets into the sum of squares.
 */
static void check_steady(struct result *result, const struct core *core) {
    const struct sphere *sphere = &core->sphere;
    double squares = 0.0, error_squares = 0.0, deepest = 0.0, largest_error = 0.0;
    for (int row = 0; row < sphere->rows; row++)
        for (int column = 0; column < sphere->columns; column++) {
            const double exact = steady_top(sphere_longitude(sphere, column + 0.5),
                                            sphere_latitude(sphere, row + 0.5)) /
                                 EARTH_GRAVITY;
            const double error = core_depth(core, row, column) - exact;
            squares += sphere_cell_area(sphere, row) * exact * exact;
            error_squares += sphere_cell_area(sphere, row) * error * error;
            deepest = fmax(deepest, exact);
            largest_error = fmax(largest_error, fabs(error));
        }
    check(result, 2, "l2 error of the height", sqrt(error_squares / squares),
          refined(core, 2.5e-3, 2));
    check(result, 2, "linf error of the height", largest_error / deepest, refined(core, 5.5e-3, 2));
}

/*
 * How far east the wave has gone, in degrees. It looks the same after a quarter of a circle, of
 * which it does most in 7 days.
 */
static double haurwitz_advance(const struct core *core) {
    const struct sphere *sphere = &core->sphere;
    const double quarter = 360.0 / HAURWITZ_WAVE;
    double east = 0.0, north = 0.0;
    for (int row = 0; row < sphere->rows; row++)
        for (int column = 0; column < sphere->columns; column++) {
            const double angle = HAURWITZ_WAVE * sphere_longitude(sphere, column + 0.5);
            const double volume = core_depth(core, row, column) * sphere_cell_area(sphere, row);
            east += volume * cos(angle);
            north += volume * sin(angle);
        }
    const double degrees = atan2(north, east) / HAURWITZ_WAVE * 180.0 / M_PI;
    return degrees < 0.0 ? degrees + quarter : degrees;
}

/*
 * In a fluid of constant depth the wave would go east by 12.2 degrees a day; here it is a little
 * slower. The reference is what classes A and B tend to by Richardson's extrapolation.
 */
static void check_haurwitz(struct result *result, const struct core *core) {
    const double reference = 79.02;
    const double advance = haurwitz_advance(core);
    printf("case 6, the wave went east by %.3f degrees\n", advance);
    check(result, 6, "degrees from where it should be", fabs(advance - reference),
          refined(core, 6.5, 2));
}

static void run_case(const struct test_case *test, struct core *core, struct result *result) {
    const int columns = core->sphere.columns, steps_a_day = (int)(test->steps * columns);
    const bool checks = ranks_mine() == 0; /* it alone has all rows, once they are collected */
    core_begin(core, &test->weather);
    core_collect(core);
    struct budget before = {0};
    if (checks)
        before = budget_of(core);
    core_run(core, DAY / steps_a_day, test->days * steps_a_day, result);
    result->operations += (double)columns * core->sphere.rows * test->days * steps_a_day;
    core_collect(core);
    if (!checks)
        return;
    check_budget(result, core, test, &before);
    if (test->number == 2)
        check_steady(result, core);
    if (test->number == 6)
        check_haurwitz(result, core);
}

static void run(size_t class, struct result *result) {
    struct core core;
    core_create(&core, columns_of(class));
    printf("grid: %d x %d\n", core.sphere.columns, core.sphere.rows);
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0] && !memory_refused(); i++)
        run_case(&CASES[i], &core, result);
}

static uint64_t bytes_needed(size_t class, int threads) {
    return core_bytes(columns_of(class), threads);
}

static uint64_t useful_threads(size_t class) {
    return (uint64_t)core_useful_threads(columns_of(class));
}

const struct program PROGRAM = {
    .name = "climate",
    .title = "shallow-water atmosphere on the rotating sphere",
    .bytes_needed = bytes_needed,
    .useful_threads = useful_threads,
    .run = run,
};
