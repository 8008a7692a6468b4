/*
 * EP, "embarrassingly parallel", of the NAS Parallel Benchmarks: Gaussian pairs by the polar
 * method, tallied by the square annulus that they fall into (Bailey et al., RNR-94-007, section
 * 2.1). It measures floating-point units: nothing but a few sums leaves a core.
 *
 * The random sequence is cut into chunks of equal length, each reached by jumping ahead, and a
 * chunk into strips. Within a strip number k is a^k times the number before the strip, so that
 * all numbers of a strip are independent of one another and every step vectorises. Chunks are
 * summed in their order: the result does not depend on the number of threads.
 */
#include "memory.h"
#include "program.h"
#include "random.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>

enum { STRIP_PAIRS = 512, ANNULI = 10 };

/* There are at least so many chunks, and in large classes one for so many pairs. */
enum { LOG2_CHUNKS_LEAST = 12, LOG2_CHUNK_PAIRS_MOST = 16 };

static const uint64_t SEED = 271828183;
static const double TOLERANCE = 1.0e-8;

/* The sums of X, Y, |X| and |Y|. */
enum { SUMS = 4 };
static const char *const SUM_NAMES[SUMS] = {"sum of X", "sum of Y", "sum of |X|", "sum of |Y|"};

struct class {
    int log2_pairs;
    double sum[SUMS]; /* X and Y as up to NPB 3.4.1, |X| and |Y| as from NPB 3.4.2 on */
    double accepted_pairs;
};

static const struct class CLASSES[] = {
#include "ep_classes.inc"
};

struct tally {
    double sum[SUMS];
    /* Accepted pairs with max(|X|,|Y|) >= l: annulus l holds at_least[l] - at_least[l + 1]. */
    uint64_t at_least[ANNULI + 1];
};

/* a^1, a^3, ... for the first and a^2, a^4, ... for the second number of each pair of a strip. */
struct strip_powers {
    uint64_t x[STRIP_PAIRS], y[STRIP_PAIRS];
};

static inline double from_bits(uint64_t bits) {
    double number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

static inline uint64_t to_bits(double number) {
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

/*
 * -2 ln t for a normal t > 0, within 1e-15 of the value, in operations that every vector unit has.
 * With t = 2^e m and sqrt(1/2) <= m < sqrt(2): ln t = e ln 2 + 2 artanh s, s = (m - 1) / (m + 1).
 * As s^2 < 0.0295, ten terms of the series of artanh are enough.
 */
static inline double minus_two_log(double t) {
    const uint64_t sqrt_half = UINT64_C(0x3fe6a09e667f3bcd), bias = 1023;
    const uint64_t biased_exponent = (to_bits(t) - sqrt_half + (bias << 52)) >> 52;
    /* The integer becomes a double by standing behind the exponent of 2^52. */
    const double exponent =
        from_bits(biased_exponent | UINT64_C(0x4330000000000000)) - (0x1p52 + (double)bias);
    const double m = from_bits(to_bits(t) - ((biased_exponent - bias) << 52));
    const double s = (m - 1.0) / (m + 1.0), s2 = s * s;
    double series = 1.0 / 19;
    series = series * s2 + 1.0 / 17;
    series = series * s2 + 1.0 / 15;
    series = series * s2 + 1.0 / 13;
    series = series * s2 + 1.0 / 11;
    series = series * s2 + 1.0 / 9;
    series = series * s2 + 1.0 / 7;
    series = series * s2 + 1.0 / 5;
    series = series * s2 + 1.0 / 3;
    series = series * s2 + 1.0;
    return exponent * (-2.0 * 0.693147180559945309417) - 4.0 * s * series;
}

/*
 * 1/sqrt(u) within 3e-14 of the value, for 1e-36 <= u <= 1: a single-precision estimate and one
 * Newton step. Cheaper than a division and a square root in double precision, whose unit is slow.
 */
static inline double inverse_sqrt(double u) {
    const double estimate = (double)(1.0f / sqrtf((float)u));
    return estimate * (1.5 - 0.5 * u * estimate * estimate);
}

/* Adds the strip of pairs whose numbers follow the state `before`. */
static void tally_strip(random_state before, const struct strip_powers *powers,
                        struct tally *tally) {
    double magnitude[STRIP_PAIRS]; /* max(|X|,|Y|); 0 for a rejected pair */
    double sum_x = 0, sum_y = 0, sum_abs_x = 0, sum_abs_y = 0;
    int64_t accepted_pairs = 0, from_1 = 0, from_2 = 0, from_3 = 0, from_4 = 0;

#pragma omp simd reduction(+ : sum_x, sum_y, sum_abs_x, sum_abs_y, accepted_pairs)
    for (int i = 0; i < STRIP_PAIRS; i++) {
        const double xi = random_symmetric(before * powers->x[i]);
        const double eta = random_symmetric(before * powers->y[i]);
        const double t = xi * xi + eta * eta;
        const double log_term = minus_two_log(t);
        /* sqrt(log_term / t); the bound also gives rejected pairs, of no interest, a number. */
        const double under = log_term * t > 1e-36 ? log_term * t : 1e-36;
        const double factor = t <= 1.0 ? log_term * inverse_sqrt(under) : 0.0;
        const double abs_x = fabs(xi * factor), abs_y = fabs(eta * factor);
        sum_x += xi * factor;
        sum_y += eta * factor;
        sum_abs_x += abs_x;
        sum_abs_y += abs_y;
        magnitude[i] = abs_x > abs_y ? abs_x : abs_y;
        accepted_pairs += t <= 1.0;
    }
#pragma omp simd reduction(+ : from_1, from_2, from_3, from_4)
    for (int i = 0; i < STRIP_PAIRS; i++) {
        from_1 += magnitude[i] >= 1.0;
        from_2 += magnitude[i] >= 2.0;
        from_3 += magnitude[i] >= 3.0;
        from_4 += magnitude[i] >= 4.0;
    }
    if (from_4 > 0) /* one pair in ten thousand */
        for (int i = 0; i < STRIP_PAIRS; i++)
            for (int l = 4; l < ANNULI && magnitude[i] >= l; l++)
                tally->at_least[l] += 1;

    const double sums[SUMS] = {sum_x, sum_y, sum_abs_x, sum_abs_y};
    for (int i = 0; i < SUMS; i++)
        tally->sum[i] += sums[i];
    tally->at_least[0] += (uint64_t)accepted_pairs;
    tally->at_least[1] += (uint64_t)from_1;
    tally->at_least[2] += (uint64_t)from_2;
    tally->at_least[3] += (uint64_t)from_3;
}

static uint64_t chunks_of(size_t class) {
    const int for_size = CLASSES[class].log2_pairs - LOG2_CHUNK_PAIRS_MOST;
    return UINT64_C(1) << (for_size > LOG2_CHUNKS_LEAST ? for_size : LOG2_CHUNKS_LEAST);
}

static void run(size_t class_index, struct result *result) {
    const struct class *class = &CLASSES[class_index];
    const uint64_t count = chunks_of(class_index);
    const uint64_t chunk_pairs = (UINT64_C(1) << class->log2_pairs) / count;
    struct strip_powers *powers = memory_pages(1, sizeof *powers);
    struct tally *chunks = memory_pages(count, sizeof *chunks);
    if (memory_refused())
        return;

    const double start = omp_get_wtime();
    uint64_t power = 1;
    for (int i = 0; i < STRIP_PAIRS; i++) {
        powers->x[i] = power *= RANDOM_MULTIPLIER;
        powers->y[i] = power *= RANDOM_MULTIPLIER;
    }
    const uint64_t strip_jump = power;
#pragma omp parallel
    {
#pragma omp single nowait
        result->threads = omp_get_num_threads();
        bool worked = false;
#pragma omp for schedule(static)
        for (uint64_t chunk = 0; chunk < count; chunk++) {
            random_state state = random_seed(SEED) * random_jump(2 * chunk * chunk_pairs);
            struct tally tally = {0};
            for (uint64_t strip = 0; strip < chunk_pairs / STRIP_PAIRS; strip++) {
                tally_strip(state, powers, &tally);
                state *= strip_jump;
            }
            chunks[chunk] = tally;
            worked = true;
        }
        result_worked(result, worked);
    }
    struct tally total = {0};
    for (uint64_t chunk = 0; chunk < count; chunk++) {
        for (int i = 0; i < SUMS; i++)
            total.sum[i] += chunks[chunk].sum[i];
        for (int l = 0; l < ANNULI; l++)
            total.at_least[l] += chunks[chunk].at_least[l];
    }
    result->seconds = omp_get_wtime() - start;
    result->operations = ldexp(1.0, class->log2_pairs + 1);

    for (int i = 0; i < SUMS; i++)
        result_check(result, SUM_NAMES[i], total.sum[i], class->sum[i], TOLERANCE);
    result_check(result, "accepted pairs", (double)total.at_least[0], class->accepted_pairs, 0);
    printf("pairs by annulus:");
    for (int l = 0; l < ANNULI; l++)
        printf(" %llu", (unsigned long long)(total.at_least[l] - total.at_least[l + 1]));
    printf("\n");
}

static uint64_t bytes_needed(size_t class, int threads) {
    (void)threads;
    return chunks_of(class) * sizeof(struct tally) + sizeof(struct strip_powers);
}

const struct program PROGRAM = {
    .name = "npb-ep",
    .title = "Gaussian pairs, embarrassingly parallel (NAS Parallel Benchmarks)",
    .bytes_needed = bytes_needed,
    .useful_threads = chunks_of,
    .run = run,
};
