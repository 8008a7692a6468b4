//! What affinity can gain, judged as the cache-affinity report judges it: by the share of CPU time in which threads bring back
//! cached lines that others displaced (its section 3.3 and Table IV).
//!
//! The report measures the reload. Where it wasn't measured, it is assumed to be the whole of a core's own cache, fetched line
//! after line from the next one: what is judged then is about the most that it can be, and the sentence says so.

use crate::intf::ProgramStats;
use crate::profile::{INTERVAL_EDGES_MS, Potential, Program, ReloadUs, WorkingSet};
use machine::{Kind, Machine};
use std::num::NonZeroU64;

/// Shares of CPU time from which a potential is low, moderate and high. The report gives no borders; these are round ones
/// between and beyond its examples, 4 % (low) and 10 % (moderate). `stayput reproduce` has the same.
const LOW: f64 = 0.005;
const MODERATE: f64 = 0.05;
const HIGH: f64 = 0.25;

/// What a core's own cache is assumed to hold where the machine's tree doesn't say it, in bytes.
const USUAL_CACHE_BYTES: u64 = 1 << 20;
pub(crate) const LINE_BYTES: u64 = 64;
/// Time to fetch a line from a shared cache when one fetch waits for the other, in ns: a pointer chase through 1.5 MiB took 611 us
/// longer after its L2 of 2 MiB had been swept. Whoever reads in order is ten times faster.
pub(crate) const LINE_NS: u64 = 25;

/// A program with less than this much CPU time in all has nothing to tell, in ns.
const LEAST_CPU_NS: u64 = 10_000_000;

/// The longest that a reload is assumed to take on `machine` where it was not measured, in us.
pub fn longest_reload_us(machine: &Machine) -> f64 {
    Judge::new(machine).reload_ns() as f64 / 1e3
}

/// What a core's own cache holds on `machine`, in KiB.
pub fn core_cache_kib(machine: &Machine) -> u64 {
    Judge::new(machine).cache_bytes >> 10
}

/// The longest that bringing back so many KiB is assumed to take, in us.
pub fn longest_reload_of_us(kib: f64) -> f64 {
    kib * 1024.0 / LINE_BYTES as f64 * LINE_NS as f64 / 1e3
}

/// What a program touches in as long a time as nine of ten of its slices don't exceed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Touched {
    pub kib: f64,
    /// That time, in ms.
    pub slice_ms: f64,
    /// In how much CPU time it was seen to touch as much, at most, in ms: longer than the slice where that was looked at too seldom.
    pub seen_in_ms: f64,
}

/// What `program` touches in a slice; none where it isn't known.
pub(crate) fn touched_in_slice(program: &Program, set: &WorkingSet) -> Option<Touched> {
    let slice_ms = program.histograms.effective_slice.quantile_ms(0.9)?;
    let first = INTERVAL_EDGES_MS.partition_point(|&edge| edge <= slice_ms);
    let mut bins = set.median_kib.iter().enumerate().skip(first);
    let (bin, kib) = bins.find_map(|(bin, kib)| Some((bin, (*kib)?)))?;
    let seen_in_ms = INTERVAL_EDGES_MS.get(bin).copied().unwrap_or(slice_ms);
    Some(Touched { kib, slice_ms, seen_in_ms })
}

/// Judges programs on one machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judge {
    cache_bytes: u64,
    cpus: usize,
}

/// What was judged of a program.
pub(crate) struct Judgement {
    pub potential: Potential,
    /// In a sentence.
    pub reason: String,
    /// Share of CPU time, in percent.
    pub percent: Option<f64>,
}

impl Judge {
    pub fn new(machine: &Machine) -> Self {
        let cache_bytes = machine
            .objects()
            .filter(|(_, object)| object.kind == Kind::Cache(2))
            .filter_map(|(_, object)| object.cache?.size_bytes)
            .map(NonZeroU64::get)
            .max()
            .unwrap_or(USUAL_CACHE_BYTES);
        Self { cache_bytes, cpus: machine.usable().count() }
    }

    /// The longest that a reload is assumed to take, in ns.
    fn reload_ns(&self) -> u64 {
        self.cache_bytes / LINE_BYTES * LINE_NS
    }

    /// Judges one program. Where `is_complete` isn't true, others that had the CPU in between were not seen.
    pub fn judgement(&self, stats: &ProgramStats, is_complete: bool) -> Judgement {
        let unknown = |reason: &str| Judgement { potential: Potential::Unknown, reason: reason.into(), percent: None };
        if stats.cpu_ns < LEAST_CPU_NS {
            return unknown("it had too little CPU time to be judged");
        }
        if !is_complete {
            return unknown("what ran between its time slices was not seen");
        }
        // Each slice begins with caches that others have used, or on another CPU. Nobody loses more than the slice.
        let slices: u64 = stats.slices.counts.iter().sum();
        let lost_ns: u64 = slices.saturating_mul(self.reload_ns()).min(stats.slices.total_ns);
        let share = (lost_ns as f64 / stats.cpu_ns as f64).min(1.0);
        let potential = potential_of(share);
        let per_second = slices as f64 / (stats.cpu_ns as f64 / 1e9);
        let bound = format!(
            "if each of its {per_second:.0} effective slices for a second of CPU time began with a cache of {} KiB to reload at \
             {LINE_NS} ns a line ({} us, or as long as the slice was), that would be {:.1} % of its CPU time: at most, since its \
             reload was not measured",
            self.cache_bytes >> 10,
            self.reload_ns() / 1_000,
            100.0 * share
        );
        Judgement { potential, reason: self.with_one_cpu(bound), percent: Some(100.0 * share) }
    }

    /// Judges a program by [what it touches in a slice](touched_in_slice), where that is less than the cache; none where it isn't, where the
    /// reload was measured, and where nothing can be judged at all.
    pub fn by_working_set(&self, program: &Program, set: &WorkingSet) -> Option<Judgement> {
        if program.potential == Potential::Unknown || program.reload_us.is_some() {
            return None;
        }
        let slices = &program.histograms.effective_slice;
        let Touched { kib, slice_ms, .. } = touched_in_slice(program, set)?;
        let reload_us = longest_reload_of_us(kib);
        if reload_us >= self.reload_ns() as f64 / 1e3 {
            return None;
        }
        let lost_ms = (slices.count as f64 * reload_us / 1e3).min(slices.total_ms);
        let share = (lost_ms / (1e3 * program.cpu_s)).min(1.0);
        let bound = format!(
            "if each of its {:.0} effective slices for a second of CPU time began with all of the {kib:.0} KiB to reload that it touches in {slice_ms:.1} ms, \
             by whole pages, at {LINE_NS} ns a line ({:.0} us, or as long as the slice was), that would be {:.1} % of its CPU time: nine of ten slices \
             are no longer; its reload was not measured",
            slices.count as f64 / program.cpu_s,
            reload_us,
            100.0 * share
        );
        Some(Judgement {
            potential: potential_of(share),
            reason: self.with_one_cpu(bound),
            percent: Some(100.0 * share),
        })
    }

    fn with_one_cpu(&self, reason: String) -> String {
        if self.cpus == 1 { format!("{reason}{ONE_CPU}") } else { reason }
    }
}

const ONE_CPU: &str = "; with one CPU only longer slices can save any of it, not places";

fn potential_of(share: f64) -> Potential {
    match share {
        share if share < LOW => Potential::None,
        share if share < MODERATE => Potential::Low,
        share if share < HIGH => Potential::Moderate,
        _ => Potential::High,
    }
}

/// Judges a program whose reload was measured; none where it can't be judged at all, for the reason that it has already.
pub(crate) fn measured(program: &Program, reload: ReloadUs, machine: &Machine) -> Option<Judgement> {
    if program.potential == Potential::Unknown {
        return None;
    }
    let slices = program.histograms.effective_slice.count as f64;
    let longest_s = program.histograms.effective_slice.total_ms / 1e3;
    let share = |us: f64| ((slices * us.max(0.0) / 1e6).min(longest_s) / program.cpu_s).clamp(0.0, 1.0);
    let ReloadUs { estimate, low, high } = reload;
    let shown = if low > 0.0 { "" } else { "; that there is any reload was not shown" };
    let one = if machine.usable().count() == 1 { ONE_CPU } else { "" };
    let reason = format!(
        "each of its {:.0} effective slices for a second of CPU time would begin with a reload of {estimate:.0} us, measured ({low:.0} to \
         {high:.0} with 95 % confidence), if others displaced all of its cache: {:.2} % of its CPU time ({:.2} to {:.2} %){shown}{one}",
        slices / program.cpu_s,
        100.0 * share(estimate),
        100.0 * share(low),
        100.0 * share(high)
    );
    // An interval from nothing to much is no judgement.
    let is_open = low <= 0.0 && potential_of(share(high)) != potential_of(share(estimate));
    let potential = if is_open { Potential::Unknown } else { potential_of(share(estimate)) };
    Some(Judgement { potential, reason, percent: (!is_open).then(|| 100.0 * share(estimate)) })
}
