//! The cache-affinity report's section 5: mixes of its three jobs on its machine and on two of later times, and machines of the future.

use crate::case::{Case, LESS, MORE, all, both};
use crate::interval::exactly;
use crate::live_space::LiveSpace;
use crate::reproduction::{ReproducedCell, ReproducedRow};
use crate::simulated::record;
use crate::verdict::{Judgement, Verdict};
use machine::Machine;
use sim::space::mix::{DEFAULT_MIX, REPORT_MIXES};
use sim::space::{Mix, MixError, Parameters, Policy};
use simulation::metrics::{RELOAD_FRACTION, RESPONSE};
use simulation::{
    Estimated, MATTERS_PERCENT, PointResult, RunError, Sharing, Simulation, SimulationPlan, affinity_matters_from,
    simulation_analysis,
};
use stats::Metric;

/// The report's three policies.
const POLICIES: [Policy; 3] = [Policy::Equipartition, Policy::Dynamic, Policy::DynamicAffinity];

/// The machine that the report's section 5 is most likely about, and two on which the same is simulated.
pub(super) const MACHINES: [&str; 3] = ["sequent-symmetry", "opteron-6272", "epyc-7763"];

/// CPU speed times cache size, as multiples of the report's machine.
const FUTURE: [f64; 9] = [1.0, 4.0, 16.0, 64.0, 256.0, 1_024.0, 4_096.0, 16_384.0, 65_536.0];

/// Replicates of a mix on the report's machine for each of a workload of time sharing: arrivals vary more than processes do, and
/// what policies change there is little.
pub(super) const REPLICATES: u32 = 4;

/// What was simulated.
pub(super) struct Evidence {
    /// By machine, the mixes.
    pub mixes: Vec<Vec<PointResult>>,
    /// The default mix on machines of the future.
    pub future: Vec<PointResult>,
}

impl Evidence {
    /// Simulates it. `progress` is called with how much of it is done, from 0 to 1.
    pub fn new(replicates: u32, seed: u64, progress: &mut dyn FnMut(f64)) -> Result<Self, RunError> {
        let steps = (MACHINES.len() + 1) as f64;
        let parameters = |machine: &str| Parameters {
            replicates: replicates * REPLICATES,
            seed,
            ..Parameters::for_machine(machine)
        };
        let simulation =
            |mix, machine| Simulation::from(Sharing::Space { mix: named(mix), parameters: parameters(machine) });
        let mut mixes = Vec::new();
        for name in MACHINES {
            let all = REPORT_MIXES.iter().map(|(mix, _)| simulation(mix, name)).collect();
            mixes.push(simulate(all, name)?);
            progress(mixes.len() as f64 / steps);
        }
        let base = simulation(DEFAULT_MIX, MACHINES[0]);
        let points = FUTURE.iter().map(|&value| base.at("future", value)).collect::<Result<_, _>>()?;
        let future = simulate(points, MACHINES[0])?;
        progress(1.0);
        Ok(Self { mixes, future })
    }

    /// The mixes on the report's machine.
    fn on_its_machine(&self) -> &[PointResult] {
        &self.mixes[0]
    }
}

fn named(mix: &str) -> Mix {
    Mix::named(mix, |name| Err(MixError::Unknown(name.into()))).expect("a test makes all mixes of the report")
}

fn simulate(simulations: Vec<Simulation>, machine: &str) -> Result<Vec<PointResult>, RunError> {
    let machine = Machine::named(machine).expect("the machines are presets");
    let plan = SimulationPlan::new(simulations, &POLICIES, &machine);
    Ok(simulation_analysis(&record(&plan, &machine)?).points)
}

fn value(point: &PointResult, policy: Policy, metric: &Metric) -> Option<Estimated> {
    point.policy(policy.name())?.estimates.get(metric).copied()
}

fn change(point: &PointResult, policy: Policy, metric: &Metric) -> Option<Estimated> {
    point.policy(policy.name())?.changes.get(metric).copied()
}

/// The share of CPU time that reloads take under dynamic, in percent.
fn reload_percent(point: &PointResult) -> Option<Estimated> {
    value(point, Policy::Dynamic, &RELOAD_FRACTION).map(|share| share.map(|share| 100.0 * share))
}

/// By how many percent affinity changes what dynamic takes.
fn affinity_change(point: &PointResult) -> Option<Estimated> {
    point.policy(Policy::DynamicAffinity.name())?.affinity_changes.get(&RESPONSE).copied()
}

/// Ours of the table of section 5 of that name, beside what jobs did that ran; none of another.
pub(super) fn rows(table: &str, evidence: &Evidence, live: Option<&LiveSpace>) -> Option<Vec<ReproducedRow>> {
    match table {
        "figure-3" => Some(responses(evidence, live)),
        "future" => Some(future(evidence)),
        _ => None,
    }
}

/// Response times relative to equal shares, under both policies on each machine; what was measured on this one stands beside those of the
/// report's.
fn responses(evidence: &Evidence, live: Option<&LiveSpace>) -> Vec<ReproducedRow> {
    let row = |at: usize, kind: &str| {
        let mix = &evidence.mixes[0][at].subject;
        let cell = |(machine, mixes, policy): (usize, &Vec<PointResult>, Policy)| {
            let change = change(&mixes[at], policy, &RESPONSE.of_job(kind));
            let live = live.filter(|_| machine == 0);
            let measured = live.and_then(|live| live.percent(mix, Some(kind), policy, POLICIES[0]));
            ReproducedCell::number(None, change.map(|change| change.map(|percent| 100.0 + percent))).with_live(measured)
        };
        let machines = evidence.mixes.iter().enumerate();
        let columns = machines.flat_map(|(at, mixes)| POLICIES[1..].iter().map(move |&policy| (at, mixes, policy)));
        ReproducedRow { label: format!("{mix}, {kind}"), cells: columns.map(cell).collect() }
    };
    let mixes = evidence.mixes[0].iter().enumerate();
    mixes.flat_map(|(at, point)| point.kinds().into_iter().map(move |kind| row(at, kind))).collect()
}

/// Changes of response times on machines of the future.
fn future(evidence: &Evidence) -> Vec<ReproducedRow> {
    let from = affinity_matters_from(&evidence.future);
    let row = |point: &PointResult| {
        let at = point.point.as_ref().map_or(0.0, |point| point.value);
        let mark = if from == Some(at) { ", from here on affinity matters" } else { "" };
        let cells = [
            change(point, Policy::Dynamic, &RESPONSE),
            change(point, Policy::DynamicAffinity, &RESPONSE),
            affinity_change(point),
            reload_percent(point),
        ];
        ReproducedRow {
            label: format!("{at}{mark}"),
            cells: cells.into_iter().map(|ours| ReproducedCell::number(None, ours)).collect(),
        }
    };
    evidence.future.iter().map(row).collect()
}

/// Judges by the check of that name; none when it is not one of section 5. `lost_in_time` is the share of CPU time, in percent, that
/// reloads take under time sharing, by workload.
pub(super) fn judge(check: &str, evidence: &Evidence, lost_in_time: &[(&str, f64)]) -> Option<Judgement> {
    let each = |case: &dyn Fn(&PointResult) -> Case| all(evidence.on_its_machine().iter().map(case));
    let dynamic = |point: &PointResult, name: &str| value(point, Policy::Dynamic, &Metric::from_name(name));
    let dynamic_change = |point: &PointResult, name: &str| change(point, Policy::Dynamic, &Metric::from_name(name));
    Some(match check {
        "equal-most-idle" => each(&|point| {
            let label = format!("{}: idle in hand, dynamic against equipartition", point.subject);
            Case::new(label, dynamic_change(point, "idle_held_ms"), LESS, " %")
        }),
        "equal-stays" => each(&|point| {
            let equal = |name: &str| Some(value(point, Policy::Equipartition, &Metric::from_name(name))?.value);
            let moved = equal("moves_forced").zip(equal("moves_within")).map(|(forced, within)| forced + within);
            let share = moved.zip(equal("tasks")).map(|(moved, tasks)| exactly(100.0 * moved / tasks));
            Case::new(&point.subject, share, (0.0, 1.0), " moves after the first for 100 tasks")
        }),
        "many-reallocations" => each(&|point| {
            let label = format!("{}: reallocations", point.subject);
            Case::new(label, dynamic_change(point, "reallocations"), MORE, " % more than equipartition")
        }),
        "all-sooner" => {
            let below = |policy: Policy| {
                all(evidence.on_its_machine().iter().flat_map(|point| {
                    point.kinds().into_iter().map(move |kind| {
                        let change = change(point, policy, &RESPONSE.of_job(kind));
                        let ratio = change.map(|change| change.map(|percent| 1.0 + percent / 100.0));
                        Case::new(format!("{policy}, {}, {kind}", point.subject), ratio, (0.0, 1.0), "")
                    })
                }))
            };
            both(below(Policy::Dynamic), below(Policy::DynamicAffinity))
        }
        "hardly-affinity" => each(&|point| {
            let label = format!("{}: affinity changes", point.subject);
            Case::near(label, affinity_change(point), 0.0, MATTERS_PERCENT, " %")
        }),
        "small-penalties" => each(&|point| {
            let label = format!("{}: reloads take", point.subject);
            Case::new(label, reload_percent(point), (0.0, 1.0), " % of the CPU time")
        }),
        "future" => {
            let Some(from) = affinity_matters_from(&evidence.future) else {
                return Some((Verdict::Fails, "affinity matters from no point of the sweep on".into()));
            };
            let last = evidence.future.last()?;
            all([
                Case::new("affinity matters from", exactly(from), MORE, " times speed x cache on"),
                Case::new("at the last point affinity changes", affinity_change(last), LESS, " %"),
                Case::new("dynamic against equipartition", change(last, Policy::Dynamic, &RESPONSE), MORE, " %"),
            ])
        }
        "jobs-give-up" => each(&|point| {
            let count = |name| dynamic(point, name).map_or(0.0, |moves| moves.value);
            let (given, taken) = (count("moves_voluntary"), count("moves_forced"));
            let share = exactly(100.0 * given / (given + taken));
            Case::new(&point.subject, share, (50.0, 100.0), " % of CPUs were given up or free")
        }),
        "useless-data" => each(&|point| {
            let sum = |name| dynamic(point, name).map_or(0.0, |sum| sum.value);
            let (moves, resumed) = (sum("moves"), sum("moves_resumed"));
            let (reload_ms, resumed_ms) = (sum("reload_ms"), sum("reload_resumed_ms"));
            let (begun, gone_on) = ((reload_ms - resumed_ms) / (moves - resumed), resumed_ms / resumed);
            let ratio = Some(begun / gone_on).filter(|ratio| ratio.is_finite()).map(exactly);
            Case::new(&point.subject, ratio, (0.0, 1.0), " times the reload of an interrupted task")
        }),
        "less-than-time-sharing" => {
            let shares = evidence.on_its_machine().iter();
            let shares = shares.filter_map(|point| Some((&point.subject, reload_percent(point)?.value)));
            let most = shares.max_by(|a, b| a.1.total_cmp(&b.1))?;
            let least = lost_in_time.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
            let verdict = if most.1 < least.1 { Verdict::Holds } else { Verdict::Fails };
            let why = format!(
                "reloads take at most {:.2} % of the CPU time of jobs under dynamic ({}), and at least {:.2} % of that of processes under the standard scheduler ({})",
                most.1, most.0, least.1, least.0
            );
            (verdict, why)
        }
        _ => return None,
    })
}
