/* SPDX-License-Identifier: GPL-2.0-only */

/* The keys as the tests call them. */
#include "key.h"

stayput_u64 test_order_key(stayput_u32 rule, stayput_u64 shift, stayput_u32 cpu_ticks) {
    return order_key(rule, shift, cpu_ticks);
}

stayput_u64 test_key_shift_of(stayput_u32 rule, stayput_u32 argument) {
    return key_shift_of(rule, argument);
}
