/*
 * The random numbers of the NAS Parallel Benchmarks: x[k] = a^k seed mod 2^46 with a = 5^13, of
 * which x[k] 2^-46 is delivered (Bailey et al., RNR-94-007, section 2.3).
 *
 * A state holds x 2^18 in 64 bits: multiplication modulo 2^64 then is multiplication of x modulo
 * 2^46, with no mask, and any multiplier may be used modulo 2^64.
 */
#pragma once

#include <stdint.h>
#include <string.h>

#define RANDOM_MULTIPLIER UINT64_C(1220703125)

typedef uint64_t random_state;

/* x[0] = seed; the seed itself is never delivered. */
static inline random_state random_seed(uint64_t seed) { return seed << 18; }

/* The multiplier that goes `steps` numbers ahead: a^steps. */
static inline uint64_t random_jump(uint64_t steps) {
    uint64_t power = 1;
    for (uint64_t square = RANDOM_MULTIPLIER; steps != 0; steps >>= 1, square *= square)
        if (steps & 1)
            power *= square;
    return power;
}

/* x 2^-46, in (0, 1). */
static inline double random_uniform(random_state state) {
    return (double)(int64_t)(state >> 18) * 0x1p-46;
}

/* 2 x 2^-46 - 1, in (-1, 1): exact, by putting x behind the exponent of 2. */
static inline double random_symmetric(random_state state) {
    const uint64_t bits = state >> 12 | UINT64_C(0x4000000000000000);
    double from_two_to_four;
    memcpy(&from_two_to_four, &bits, sizeof bits);
    return from_two_to_four - 3.0;
}
