/* SPDX-License-Identifier: GPL-2.0-only */

/*
 * What the queues of the scalable scheduler are ordered by.
 *
 * Decay changes what all have accumulated; it mustn't change their order, or all would have to be
 * sorted again. To halve a value is to take one from its logarithm, so one is added for each period
 * instead to all who come later; likewise for the other rules. The order is that of the accounts
 * but for what they round; which queue's first is taken is decided by the accounts themselves.
 *
 * Compiled into the BPF scheduler, and for the tests.
 */
#ifndef STAYPUT_KEY_H
#define STAYPUT_KEY_H

#include "../../../../policy/affinity.h"

/* One of a logarithm to base 2. */
#define KEY_ONE (1ULL << 32)

static inline stayput_u32 highest_bit(stayput_u64 value) {
    stayput_u32 bit = 0;

    for (stayput_u32 half = 32; half; half /= 2) {
        if (value >> half) {
            value >>= half;
            bit += half;
        }
    }
    return bit;
}

/* The logarithm of a value from 1 to 2^32 - 1, a straight line between powers of two: exactly one
 * less for half the value. */
static inline stayput_u64 key_log2(stayput_u64 value) {
    stayput_u32 bit = highest_bit(value);

    return bit * KEY_ONE + ((value << (32 - bit)) - KEY_ONE);
}

/* The logarithm of a fraction that is 1 or more, to 2^-24: errors of it would add up from period to
 * period. */
static inline stayput_u64 key_log2_of(stayput_u64 above, stayput_u64 below) {
    stayput_u64 log = 0;
    stayput_u64 fraction;

    if (above >= below << 31)
        return 31 * KEY_ONE;
    log = highest_bit(above / below) * KEY_ONE;
    fraction = (above << 31) / below >> highest_bit(above / below);
    for (int bit = 1; bit <= 24; bit++) {
        /* Squaring doubles a logarithm, and shows its next binary digit. */
        fraction = fraction * fraction >> 31;
        if (fraction >> 32) {
            fraction >>= 1;
            log += KEY_ONE >> bit;
        }
    }
    return log;
}

/* Where a process stands in its queue, the lowest first; `shift` is what decay has added up to now.
 */
static inline stayput_u64 order_key(stayput_u32 rule, stayput_u64 shift, stayput_u32 cpu_ticks) {
    if (rule == STAYPUT_DECAY_NONE || rule == STAYPUT_DECAY_SUBTRACT)
        return shift + cpu_ticks;
    return shift + (cpu_ticks ? KEY_ONE + key_log2(cpu_ticks) : 0);
}

/* What a decay period adds to the keys of all who come later; the argument is that of the rule. */
static inline stayput_u64 key_shift_of(stayput_u32 rule, stayput_u32 argument) {
    stayput_u64 twice_load = 2 * (stayput_u64)argument;

    switch (rule) {
    case STAYPUT_DECAY_HALF:
        return KEY_ONE;
    case STAYPUT_DECAY_BSD:
        return key_log2_of(twice_load + STAYPUT_LOAD_ONE, twice_load);
    case STAYPUT_DECAY_SUBTRACT:
        return argument;
    default:
        return 0;
    }
}

#endif
