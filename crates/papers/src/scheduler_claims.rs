//! Whether the report's claims hold in our numbers: each by a computation, with the numbers that decide.

use crate::case::{ABOUT_POINTS, Case, Judgement, LESS, MORE, all, both};
use crate::evidence::Evidence;
use crate::interval::exactly;
use crate::printed::PrintedReport;
use crate::reproduction::Verdict;
use crate::simulated::Simulated;
use sim::Policy;
use sim::rule::{self, Distance, PHI_HEAVY, PHI_LIGHT, Phi, TimeBoost};
use simulation::Estimated;
use simulation::metrics::{MAKESPAN, MEAN_COMPLETION, MISSES, SLICE_MEDIAN};
use stats::Metric;

/// Clock tick and quantum of the report, in ms.
const TICK_MS: f64 = 10.0;
const QUANTUM_MS: f64 = 30.0;

/// Where the report's Table V has what, as columns of `papers/printed/cache-affinity.toml`.
const MISSES_LIGHT: usize = 0;
const JOBS_LIGHT: usize = 2;
const WORKLOAD_LIGHT: usize = 4;

/// The less the better: `a` less `b`, of two changes.
fn difference(a: Option<Estimated>, b: Option<Estimated>) -> Option<Estimated> {
    let (a, b) = a.zip(b)?;
    // Both are from the same draws, so the sum of their half widths is more than the doubt there is.
    Some(exactly(a.value - b.value))
}

/// Judges by the check of that name.
pub(super) fn judge(check: &str, evidence: &Evidence) -> Judgement {
    let each = |case: &dyn Fn(&Simulated) -> Case| all(&evidence.workloads.iter().map(case).collect::<Vec<_>>());
    let of = |name: &str| evidence.workload(name);
    let change = |name: &str, policy, metric: &Metric| of(name).and_then(|simulated| simulated.change(policy, metric));
    let value = |name: &str, policy, metric: &Metric| of(name).and_then(|simulated| simulated.value(policy, metric));
    match check {
        "attached" => both(
            each(&|w| Case::new(w.name(), w.change(Policy::Attached, &MISSES), LESS, " % misses")),
            each(&|w| Case::new(w.name(), w.change(Policy::Attached, &MAKESPAN), MORE, " % time")),
        ),
        "long-quantum" => {
            let case =
                |name: &str| Case::new(name, change(name, Policy::LongQuantum, &MAKESPAN), (-1.0, 1.0), " % time");
            all(&["Pmake+Pmake", "Oracle"].map(case))
        }
        "neither" => {
            let mean = |policy, metric: &Metric| {
                let all = evidence.workloads.iter().map(|w| Some(w.change(policy, metric)?.value));
                let all = all.collect::<Option<Vec<f64>>>()?;
                Some(exactly(all.iter().sum::<f64>() / all.len() as f64))
            };
            let case = |(policy, metric, unit): (Policy, Metric, &'static str)| {
                let lead = difference(mean(Policy::Light, &metric), mean(policy, &metric));
                Case::new(format!("light less {policy}, mean of all workloads:"), lead, LESS, unit)
            };
            let cases = [Policy::Attached, Policy::LongQuantum]
                .into_iter()
                .flat_map(|policy| [(policy, MISSES, " points of misses"), (policy, MAKESPAN, " points of time")]);
            all(&cases.map(case).collect::<Vec<_>>())
        }
        "reload-time" => {
            let reuse = evidence.reuse.get("Matrix");
            let wall = evidence.applications.iter().find(|w| w.name() == "Matrix");
            let wall = wall.and_then(|w| w.value(Policy::Standard, &Metric::from_name("dispatch_interval_mean_ms")));
            let ms = reuse.zip(wall).map(|(reuse, wall)| exactly(reuse.potential * wall.value));
            all(&[Case::new("a reload takes", ms, (2.5, 3.5), " ms")])
        }
        "rarely-longer" => each(&|w| {
            let longer = w.slices_from(Policy::Standard, QUANTUM_MS + TICK_MS);
            Case::new(w.name(), longer, (0.0, 10.0), " % longer than a quantum")
        }),
        "slices" => all(&[(Policy::Light, 240.0), (Policy::Heavy, 640.0)].map(|(policy, ms)| {
            let median = evidence.spinning.value(policy, &SLICE_MEDIAN);
            Case::new(format!("{policy}, two processes a CPU:"), median, (ms - TICK_MS, ms + QUANTUM_MS), " ms")
        })),
        "thresholds" => {
            all(&[(Policy::Light, PHI_LIGHT, 120.0), (Policy::Heavy, PHI_HEAVY, 320.0)].map(|(policy, phi, ms)| {
                Case::new(policy.name(), Some(exactly(threshold_ms(phi))), (ms, ms + TICK_MS), " ms")
            }))
        }
        "longer-slices" => {
            let cases = ["Matrix+Matrix", "Matrix+Cholesky"].into_iter().flat_map(|name| {
                let median = |policy| value(name, policy, &SLICE_MEDIAN);
                let times = median(Policy::Light).zip(median(Policy::Standard));
                let times = times.map(|(light, standard)| exactly(light.value / standard.value));
                // 8 quanta, or within one of it.
                let long = of(name).and_then(|w| w.slices_from(Policy::Light, 7.0 * QUANTUM_MS));
                [
                    Case::new(format!("{name}: median"), times, (3.0, f64::INFINITY), " times as long"),
                    Case::new("of 7 quanta or more", long, (10.0, 100.0), " %"),
                ]
            });
            all(&cases.collect::<Vec<_>>())
        }
        "scientific-misses" => {
            printed_cells(evidence, &[("Matrix+Matrix", MISSES_LIGHT), ("Matrix+Cholesky", MISSES_LIGHT)])
        }
        "scientific-time" => printed_cells(evidence, &[("Matrix+Matrix", JOBS_LIGHT), ("Matrix+Cholesky", JOBS_LIGHT)]),
        "oracle-misses" => printed_cells(evidence, &[("Oracle", MISSES_LIGHT)]),
        "oracle-time" => printed_cells(evidence, &[("Oracle", JOBS_LIGHT)]),
        "pmake-matrix" => printed_cells(evidence, &[("Pmake+Matrix", JOBS_LIGHT), ("Pmake+Matrix", WORKLOAD_LIGHT)]),
        "scientific-share" => all(&["Matrix+Matrix", "Matrix+Cholesky"].map(|name| stalled(name, of(name), 20.0))),
        "oracle-share" => all(&[stalled("Oracle", of("Oracle"), 60.0)]),
        "oracle-slices" => {
            let median = |policy| value("Oracle", policy, &SLICE_MEDIAN);
            let longer = difference(median(Policy::Light), median(Policy::Standard));
            all(&[
                Case::new("standard:", median(Policy::Standard), MORE, " ms"),
                Case::new("light:", median(Policy::Light), MORE, " ms"),
                // The scheduler itself sees no less than a tick.
                Case::new("longer by", longer, (-TICK_MS, TICK_MS), " ms, of a clock tick of 10"),
            ])
        }
        "oracle-idle" => all(&[Case::new(
            "idle time",
            change("Oracle", Policy::Light, &Metric::from_name("idle_fraction")),
            LESS,
            " %",
        )]),
        "pmake-earlier" => all(&["Pmake+Matrix", "Pmake+Cholesky"].map(|name| {
            let completion = change(name, Policy::Light, &Metric::from_name("completion_ms:Pmake"));
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
        "heavy-idle" => all(&["Pmake+Pmake", "Oracle"].map(|name| {
            Case::new(
                format!("{name}: idle time"),
                change(name, Policy::Heavy, &Metric::from_name("idle_fraction")),
                MORE,
                " %",
            )
        })),
        "mp3d" => all(&[Case::new(
            "its misses, light:",
            change("Matrix+Mp3d", Policy::Light, &Metric::from_name("misses:Mp3d")),
            (-1.0, 1.0),
            " %",
        )]),
        "pmake" => all(&[Case::new(
            "Pmake+Pmake, light:",
            change("Pmake+Pmake", Policy::Light, &MAKESPAN),
            (-2.5, 0.0),
            " % time",
        )]),
        "moderate" => most_lost(evidence, &["Matrix+Matrix", "Matrix+Cholesky", "Oracle"]),
        "fair" => {
            let policies = [Policy::Standard, Policy::Light, Policy::Heavy];
            let cases = policies.map(|policy| {
                let worst = evidence.workloads.iter().filter_map(|w| w.value(policy, &Metric::from_name("jain_index")));
                let worst = worst.min_by(|a, b| a.value.total_cmp(&b.value));
                Case::new(format!("{policy}: least Jain index"), worst, (0.98, 1.0), "")
            });
            all(&cases)
        }
        _ => (Verdict::Undecidable, "nothing is computed for it".into()),
    }
}

/// Cells of Table V: ours must be within the margin of what is printed.
fn printed_cells(evidence: &Evidence, cells: &[(&str, usize)]) -> Judgement {
    const TABLE: &str = "table-5";
    let report = PrintedReport::cache_affinity();
    let margin = report.table(TABLE).margin.unwrap_or_default();
    let case = |&(name, column): &(&str, usize)| {
        let printed = report.number(TABLE, name, column).map_or(f64::NAN, |printed| printed.value);
        let ours = evidence.workload(name).and_then(|w| w.effect(column));
        // A cell is a number, so its value decides, and not its interval.
        let ours = ours.map(|ours| exactly(ours.value));
        Case::new(format!("{name}: printed {printed:.0}, ours"), ours, (printed - margin, printed + margin), " %")
    };
    all(&cells.iter().map(case).collect::<Vec<_>>())
}

/// Misses take about so many percent of the CPU time that a workload has.
fn stalled(name: &str, simulated: Option<&Simulated>, about: f64) -> Case {
    let share = simulated.and_then(|w| w.value(Policy::Standard, &Metric::from_name("stalled_fraction")));
    Case::new(
        name,
        share.map(|share| share.map(|share| 100.0 * share)),
        (about - ABOUT_POINTS, about + ABOUT_POINTS),
        " %",
    )
}

/// The named workloads lose more to reloads than all others.
fn most_lost(evidence: &Evidence, named: &[&str]) -> Judgement {
    let mut lost: Vec<(&str, f64)> =
        evidence.workloads.iter().filter_map(|w| Some((w.name(), 100.0 * w.lost_to_reloads(None)?))).collect();
    lost.sort_by(|a, b| b.1.total_cmp(&a.1));
    let holds = lost.iter().take(named.len()).all(|(name, _)| named.contains(name));
    let told = lost.iter().map(|(name, share)| format!("{name} loses {share:.1} %")).collect::<Vec<_>>().join(", ");
    (if holds { Verdict::Holds } else { Verdict::Fails }, format!("{told} of its CPU time to reloads"))
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
