/* SPDX-License-Identifier: GPL-2.0-only */

/* What the loader sets before the scheduler is loaded. */
#ifndef STAYPUT_PARAMETERS_H
#define STAYPUT_PARAMETERS_H

/* Constants to the verifier, which leaves out what they switch off; variables to tests. */
#ifndef PARAMETER
#define PARAMETER const volatile
#endif

/* The boosts aren't constant for the compiler: the rule reads them through a pointer that isn't
 * volatile, so that it would take them to be 0. */
struct stayput_phi phi;
PARAMETER u64 quantum_ns = 30000000;
PARAMETER u64 tick_ns = 10000000;
PARAMETER u64 decay_period_ns = 1000000000;
PARAMETER u32 decay_rule = STAYPUT_DECAY_HALF;
PARAMETER u32 decay_ticks; /* what SUBTRACT takes away */
PARAMETER u64 wake_limit_ns = 90000000;
PARAMETER u64 share_limit_ns = 180000000;
PARAMETER u64 far_share_limit_ns = 300000000;
PARAMETER u32 nr_cpus = 1; /* that are possible; some may be offline */
PARAMETER bool scalable = true;
PARAMETER bool by_cgroup;
PARAMETER u32 fault; /* tests only: 1 never dispatches */

#endif
