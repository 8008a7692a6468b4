/* The rule's functions under linkable names: what is static inline in the header has none. */

#include "affinity.h"

stayput_s32 stayput_rule_prio(stayput_u32 base, stayput_u32 cpu_ticks) {
    return stayput_prio(base, cpu_ticks);
}

stayput_u32 stayput_rule_charge(stayput_u32 cpu_ticks, stayput_u32 ticks) {
    return stayput_charge(cpu_ticks, ticks);
}

stayput_u32 stayput_rule_decay(stayput_u32 cpu_ticks, stayput_u32 rule, stayput_u32 argument) {
    return stayput_decay(cpu_ticks, (enum stayput_decay)rule, argument);
}

stayput_s32 stayput_rule_boost(const struct stayput_phi *phi, stayput_u32 distance, int just_ran,
                               stayput_u32 ticks_away) {
    return stayput_boost(phi, (enum stayput_distance)distance, just_ran, ticks_away);
}

int stayput_rule_before(stayput_s32 a_prio, stayput_u64 a_queued, stayput_s32 b_prio,
                        stayput_u64 b_queued) {
    return stayput_before(a_prio, a_queued, b_prio, b_queued);
}
