//! Whether the report's claims hold in our numbers: each by a computation, with the numbers that decide.

use crate::case::{ABOUT_POINTS, Case, LESS, MORE, all, both};
use crate::evidence::Evidence;
use crate::interval::exactly;
use crate::printed::PrintedReport;
use crate::simulated::Simulated;
use crate::verdict::{Judgement, Verdict, undecidable};
use sim::Policy;
use sim::rule::{self, Distance, PHI_HEAVY, PHI_LIGHT, Phi, TimeBoost};
use simulation::Estimated;
use simulation::metrics::{COMPLETION, MAKESPAN, MEAN_COMPLETION, MISSES, SLICE_MEDIAN};
use stats::Metric;

/// Clock tick and quantum of the report, in ms.
const TICK_MS: f64 = 10.0;
const QUANTUM_MS: f64 = 30.0;

/// Where the report's Table V has what, as columns of `papers/printed/cache-affinity.toml`.
const MISSES_LIGHT: usize = 0;
const JOBS_LIGHT: usize = 2;
const WORKLOAD_LIGHT: usize = 4;

/// The workloads of scientific programs only in which affinity has something to gain.
const SCIENTIFIC: [&str; 2] = ["Matrix+Matrix", "Matrix+Cholesky"];

/// `a` less `b`, of two numbers of the same draws, whose half widths added up would be more than the doubt there is.
fn difference(a: Option<Estimated>, b: Option<Estimated>) -> Option<Estimated> {
    a.zip(b).map(|(a, b)| exactly(a.value - b.value))
}

/// Judges by the check of that name.
pub(super) fn judge(check: &str, evidence: &Evidence) -> Judgement {
    let each = |case: &dyn Fn(&Simulated) -> Case| all(evidence.workloads.iter().map(case));
    let workload = |name| evidence.workload(name);
    let metric = Metric::from_name;
    match check {
        "attached" => both(
            each(&|w| Case::new(w.name(), w.change(Policy::Attached, &MISSES), LESS, " % misses")),
            each(&|w| Case::new(w.name(), w.change(Policy::Attached, &MAKESPAN), MORE, " % time")),
        ),
        "long-quantum" => all(["Pmake+Pmake", "Oracle"]
            .map(|name| Case::near(name, workload(name).change(Policy::LongQuantum, &MAKESPAN), 0.0, 1.0, " % time"))),
        "neither" => {
            let mean = |policy, metric: &Metric| {
                let changes = evidence.workloads.iter().map(|w| Some(w.change(policy, metric)?.value));
                let changes = changes.collect::<Option<Vec<f64>>>()?;
                Some(exactly(changes.iter().sum::<f64>() / changes.len() as f64))
            };
            all([Policy::Attached, Policy::LongQuantum].into_iter().flat_map(|policy| {
                [(MISSES, " points of misses"), (MAKESPAN, " points of time")].map(|(metric, unit)| {
                    let lead = difference(mean(Policy::Light, &metric), mean(policy, &metric));
                    Case::new(format!("light less {policy}, mean of all workloads:"), lead, LESS, unit)
                })
            }))
        }
        "reload-time" => {
            let matrix = evidence.application("Matrix");
            let wall = matrix.and_then(|w| w.value(Policy::Standard, &metric("dispatch_interval_mean_ms")));
            let reuse = evidence.reuse.get("Matrix").zip(wall);
            let ms = reuse.map(|(reuse, wall)| exactly(reuse.potential * wall.value));
            all([Case::near("a reload takes", ms, 3.0, 0.5, " ms")])
        }
        "rarely-longer" => each(&|w| {
            let longer = w.slices_from(Policy::Standard, QUANTUM_MS + TICK_MS);
            Case::new(w.name(), longer, (0.0, 10.0), " % longer than a quantum")
        }),
        "slices" => all([(Policy::Light, 240.0), (Policy::Heavy, 640.0)].map(|(policy, ms)| {
            let median = evidence.spinning.value(policy, &SLICE_MEDIAN);
            Case::new(format!("{policy}, two processes a CPU:"), median, (ms - TICK_MS, ms + QUANTUM_MS), " ms")
        })),
        "thresholds" => all([(Policy::Light, PHI_LIGHT, 120.0), (Policy::Heavy, PHI_HEAVY, 320.0)]
            .map(|(policy, phi, ms)| Case::new(policy.name(), exactly(threshold_ms(phi)), (ms, ms + TICK_MS), " ms"))),
        "longer-slices" => all(SCIENTIFIC.into_iter().flat_map(|name| {
            let median = |policy| workload(name).value(policy, &SLICE_MEDIAN);
            let times = median(Policy::Light).zip(median(Policy::Standard));
            let times = times.map(|(light, standard)| exactly(light.value / standard.value));
            // 8 quanta, or within one of it.
            let long = workload(name).slices_from(Policy::Light, 7.0 * QUANTUM_MS);
            [
                Case::new(format!("{name}: median"), times, (3.0, f64::INFINITY), " times as long"),
                Case::new("of 7 quanta or more", long, (10.0, 100.0), " %"),
            ]
        })),
        "scientific-misses" => all(SCIENTIFIC.map(|name| printed_cell(workload(name), MISSES_LIGHT))),
        "scientific-time" => all(SCIENTIFIC.map(|name| printed_cell(workload(name), JOBS_LIGHT))),
        "oracle-misses" => all([printed_cell(workload("Oracle"), MISSES_LIGHT)]),
        "oracle-time" => all([printed_cell(workload("Oracle"), JOBS_LIGHT)]),
        "pmake-matrix" => {
            all([JOBS_LIGHT, WORKLOAD_LIGHT].map(|column| printed_cell(workload("Pmake+Matrix"), column)))
        }
        "scientific-share" => all(SCIENTIFIC.map(|name| stalled(workload(name), 20.0))),
        "oracle-share" => all([stalled(workload("Oracle"), 60.0)]),
        "oracle-slices" => {
            let median = |policy| workload("Oracle").value(policy, &SLICE_MEDIAN);
            let longer = difference(median(Policy::Light), median(Policy::Standard));
            all([
                Case::new("standard:", median(Policy::Standard), MORE, " ms"),
                Case::new("light:", median(Policy::Light), MORE, " ms"),
                // The scheduler itself sees no less than a tick.
                Case::near("longer by", longer, 0.0, TICK_MS, " ms, of a clock tick of 10"),
            ])
        }
        "oracle-idle" => {
            let idle = workload("Oracle").change(Policy::Light, &metric("idle_fraction"));
            all([Case::new("idle time", idle, LESS, " %")])
        }
        "pmake-earlier" => all(["Pmake+Matrix", "Pmake+Cholesky"].map(|name| {
            let completion = workload(name).change(Policy::Light, &COMPLETION.of_job("Pmake"));
            Case::new(format!("{name}: completion of Pmake"), completion, LESS, " %")
        })),
        "light-misses-range" => each(&|w| Case::new(w.name(), w.change(Policy::Light, &MISSES), (-36.5, -6.5), " %")),
        "heavy-misses-range" => each(&|w| Case::new(w.name(), w.change(Policy::Heavy, &MISSES), (-39.5, -7.5), " %")),
        "light-time-range" => {
            each(&|w| Case::new(w.name(), w.change(Policy::Light, &MEAN_COMPLETION), (-10.5, -0.5), " %"))
        }
        "heavy-misses" => each(&|w| {
            let more = difference(w.change(Policy::Heavy, &MISSES), w.change(Policy::Light, &MISSES));
            Case::new(w.name(), more, LESS, " points")
        }),
        "heavy-time" => each(&|w| {
            let gain = difference(w.change(Policy::Heavy, &MAKESPAN), w.change(Policy::Light, &MAKESPAN));
            Case::new(w.name(), gain, (-2.0, f64::INFINITY), " points")
        }),
        "heavy-idle" => all(["Pmake+Pmake", "Oracle"].map(|name| {
            let idle = workload(name).change(Policy::Heavy, &metric("idle_fraction"));
            Case::new(format!("{name}: idle time"), idle, MORE, " %")
        })),
        "mp3d" => {
            let misses = workload("Matrix+Mp3d").change(Policy::Light, &MISSES.of_job("Mp3d"));
            all([Case::near("its misses, light:", misses, 0.0, 1.0, " %")])
        }
        "pmake" => {
            let time = workload("Pmake+Pmake").change(Policy::Light, &MAKESPAN);
            all([Case::new("Pmake+Pmake, light:", time, (-2.5, 0.0), " % time")])
        }
        "moderate" => most_lost(evidence, &["Matrix+Matrix", "Matrix+Cholesky", "Oracle"]),
        "fair" => all([Policy::Standard, Policy::Light, Policy::Heavy].map(|policy| {
            let indices = evidence.workloads.iter().filter_map(|w| w.value(policy, &metric("jain_index")));
            let least = indices.min_by(|a, b| a.value.total_cmp(&b.value));
            Case::new(format!("{policy}: least Jain index"), least, (0.98, 1.0), "")
        })),
        _ => undecidable("nothing is computed for it"),
    }
}

/// A cell of Table V: ours must be within the margin of what is printed.
fn printed_cell(simulated: &Simulated, column: usize) -> Case {
    const TABLE: &str = "table-5";
    let report = PrintedReport::cache_affinity();
    let margin = report.table(TABLE).margin.unwrap_or_default();
    let name = simulated.name();
    let printed = report.number(TABLE, name, column).map_or(f64::NAN, |printed| printed.value);
    // A cell is a number, so its value decides, and not its interval.
    let ours = simulated.effect(column).map(|ours| exactly(ours.value));
    Case::near(format!("{name}: printed {printed:.0}, ours"), ours, printed, margin, " %")
}

/// Misses take about so many percent of the CPU time that a workload has.
fn stalled(simulated: &Simulated, about: f64) -> Case {
    let share = simulated.value(Policy::Standard, &Metric::from_name("stalled_fraction"));
    let percent = share.map(|share| share.map(|share| 100.0 * share));
    Case::near(simulated.name(), percent, about, ABOUT_POINTS, " %")
}

/// The named workloads lose more to reloads than all others.
fn most_lost(evidence: &Evidence, named: &[&str]) -> Judgement {
    let mut lost = evidence.lost_to_reloads();
    lost.sort_by(|a, b| b.1.total_cmp(&a.1));
    let holds = lost.iter().take(named.len()).all(|(name, _)| named.contains(name));
    let shares = lost.iter().map(|(name, share)| format!("{name} loses {share:.1} %")).collect::<Vec<_>>().join(", ");
    (if holds { Verdict::Holds } else { Verdict::Fails }, format!("{shares} of its CPU time to reloads"))
}

/// CPU time that a process must have had less than one that last ran on the searching CPU, both waiting equally long, to be
/// taken by that CPU: by asking the rule, tick by tick.
fn threshold_ms(phi_p: u32) -> f64 {
    let phi = Phi::new([phi_p, 0, 0, 0, 0, 0], phi_p, TimeBoost::Simple, 0);
    const HAD_TICKS: u32 = 1 << 20;
    let own = rule::prio(0, HAD_TICKS) - phi.boost(Distance::SameCpu, false, 0);
    let comes_first = |less: &u32| {
        let foreign = rule::prio(0, HAD_TICKS - less) - phi.boost(Distance::Far, false, 0);
        rule::before(foreign, 0, own, 1)
    };
    (0..HAD_TICKS).find(comes_first).map_or(f64::INFINITY, |ticks| f64::from(ticks) * TICK_MS)
}
