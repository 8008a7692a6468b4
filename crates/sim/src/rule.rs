//! The affinity rule of `policy/affinity.h`, called from Rust. The only file with `unsafe` in it.

#![expect(unsafe_code, reason = "the rule is C, so that a kernel can run it too")]

use crate::decay::Decay;
use strum::EnumCount;

/// phi_p and phi_t of light affinity.
pub const PHI_LIGHT: u32 = 6;
/// phi_p and phi_t of heavy affinity.
pub const PHI_HEAVY: u32 = 16;
/// The largest boost.
pub const PHI_MAX: u32 = 1 << 20;
/// The largest `base`.
pub const BASE_MAX: u32 = 1 << 20;
/// One in a load average.
pub const LOAD_ONE: u32 = 2_048;

/// `enum stayput_distance`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, EnumCount)]
#[repr(u32)]
pub enum Distance {
    /// The CPU that it last ran on.
    SameCpu,
    /// Another CPU of the same core.
    SameCore,
    /// The same L2 or module.
    SameL2,
    /// The same L3.
    SameL3,
    /// The same node.
    SameNode,
    /// Further away, or it never ran.
    Far,
}

/// `enum stayput_time_boost`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum TimeBoost {
    /// phi_t for the process that has just run.
    Simple,
    /// phi_t, less the ticks away, for all that last ran there.
    Complex,
}

/// `struct stayput_phi`: the boosts, in units of priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Phi {
    by_distance: [u32; Distance::COUNT],
    time: u32,
    time_boost: u32,
    fade_per_tick: u32,
}

unsafe extern "C" {
    /// Priority in half units: 2 `base` + cpu.
    #[link_name = "stayput_rule_prio"]
    pub safe fn prio(base: u32, cpu_ticks: u32) -> i32;
    /// cpu after `ticks` more.
    #[link_name = "stayput_rule_charge"]
    pub safe fn charge(cpu_ticks: u32, ticks: u32) -> u32;
    safe fn stayput_rule_decay(cpu_ticks: u32, rule: u32, argument: u32) -> u32;
    safe fn stayput_rule_boost(phi: &Phi, distance: u32, just_ran: i32, ticks_away: u32) -> i32;
    safe fn stayput_rule_before(a_prio: i32, a_queued: u64, b_prio: i32, b_queued: u64) -> i32;
}

impl Phi {
    /// Boosts by distance, which must not grow with it, and for time.
    pub fn new(by_distance: [u32; Distance::COUNT], time: u32, time_boost: TimeBoost, fade_per_tick: u32) -> Self {
        Self { by_distance, time, time_boost: time_boost as u32, fade_per_tick }
    }

    /// Whether phi_t goes to all that last ran on the searching CPU.
    pub fn is_complex(&self) -> bool {
        self.time_boost == TimeBoost::Complex as u32
    }

    /// Ticks away after which the complex boost is none; none when it never fades.
    pub fn fades_after_ticks(&self) -> Option<u32> {
        (self.fade_per_tick > 0).then(|| self.time.div_ceil(self.fade_per_tick))
    }

    /// What is taken off a process' priority for one search, in half units.
    pub fn boost(&self, distance: Distance, just_ran: bool, ticks_away: u32) -> i32 {
        stayput_rule_boost(self, distance as u32, i32::from(just_ran), ticks_away)
    }
}

/// cpu after a decay period; `argument` is the load average in units of 1 / [`LOAD_ONE`], or the ticks to subtract.
pub fn decay(cpu_ticks: u32, rule: Decay, argument: u32) -> u32 {
    stayput_rule_decay(cpu_ticks, rule.rule().0, argument)
}

/// Whether a process of boosted priority `a_prio`, in the queue since `a_queued`, runs before another.
#[inline]
pub fn before(a_prio: i32, a_queued: u64, b_prio: i32, b_queued: u64) -> bool {
    stayput_rule_before(a_prio, a_queued, b_prio, b_queued) != 0
}
