/* SPDX-License-Identifier: GPL-2.0-only */

/* The rule and the keys as the tests call them. */
#include "key.h"

stayput_u64 test_order_key(stayput_u32 rule, stayput_u64 shift, stayput_u32 cpu_ticks) {
    return order_key(rule, shift, cpu_ticks);
}

stayput_u64 test_key_shift_of(stayput_u32 rule, stayput_u32 argument) {
    return key_shift_of(rule, argument);
}

stayput_u32 test_decay(stayput_u32 cpu_ticks, stayput_u32 rule, stayput_u32 argument) {
    return stayput_decay(cpu_ticks, (enum stayput_decay)rule, argument);
}

stayput_s32 test_boosted(const struct stayput_phi *phi, stayput_u32 cpu_ticks, stayput_u32 distance,
                         stayput_s32 just_ran) {
    return stayput_prio(0, cpu_ticks) -
           stayput_boost(phi, (enum stayput_distance)distance, just_ran, 0);
}
