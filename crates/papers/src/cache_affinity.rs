//! The cache-affinity report's time sharing: its seven workloads simulated on its machine, and its own experiments.

use crate::claims::judge;
use crate::itself;
use crate::printed::{PrintedReport, Table};
use crate::reproduction::{
    Against, JudgedClaim, Panel, ReproducedCell, ReproducedFigure, ReproducedRow, ReproducedTable, Reproduction,
    Verdict,
};
use crate::space_sharing;
use machine::Machine;
use sim::cache::experiment::reuse;
use sim::cache::{CacheModel, Reuse, Timing};
use sim::workload_file::{self, REPORT_WORKLOADS};
use sim::{CpuIndex, Decay, Distribution, Job, Parameters, Policy, ProcessIndex, Workload, WorkloadFile};
use std::collections::BTreeMap;
use study::host::HostFacts;
use study::plan::Plan;
use study::record::{Ending, Record};
use study::simulation::{self, Estimated, PointResult, PolicyResult, Simulation, SimulationError, TimeBin};
use study::trial::Trial;

/// The policies that the report speaks of in section 4, and the two alternatives of its section 1.
const POLICIES: [Policy; 5] = [Policy::Standard, Policy::Light, Policy::Heavy, Policy::Attached, Policy::LongQuantum];

/// Upper edges of Table II's bins but the last, in ms. What is shorter than its shortest or longer than its longest counts
/// in the nearest bin.
const INTERVAL_EDGES_MS: [f64; 6] = [5.0, 9.0, 13.0, 17.0, 21.0, 25.0];

/// Table III's columns, as metrics call them.
const CAUSES: [&str; 6] = ["quantum", "semaphore", "synchronization", "system_call", "tlb_fault", "other"];

/// Width of a bin of the figures, and the length beyond which they don't tell slices apart, in ms.
const BIN_MS: f64 = 10.0;
const FIGURE_END_MS: f64 = 300.0;

/// Share of intervals ended by a semaphore from which processes block often: between the report's 10 % of Mp3d, which
/// doesn't, and 39 % of Oracle, which does.
const BLOCKS_OFTEN: f64 = 0.25;

/// Shares of CPU time lost to reloads from which a potential is low, and moderate. The report gives no borders; these are round
/// ones between its examples, 4 % (low) and 10 % (moderate).
const LOW: f64 = 0.005;
const MODERATE: f64 = 0.05;

/// What was simulated.
pub(super) struct Evidence {
    /// The seven workloads.
    pub workloads: Vec<Simulated>,
    /// Each application alone, under the standard scheduler.
    pub applications: Vec<Simulated>,
    /// What each application reuses and displaces in an interval of its mean length.
    pub reuse: BTreeMap<String, Reuse>,
    /// Equal processes that compute, two a CPU, without decay, under standard, light and heavy.
    pub spinning: Simulated,
    /// What jobs do that share CPUs in space.
    pub space: space_sharing::Evidence,
}

/// One workload under several policies.
pub(super) struct Simulated {
    pub workload: Workload,
    pub point: PointResult,
    trials: Vec<Trial>,
}

impl Simulated {
    pub fn name(&self) -> &str {
        &self.workload.name
    }

    fn result(&self, policy: Policy) -> Option<&PolicyResult> {
        self.point.policies.iter().find(|result| result.policy == policy.name())
    }

    /// The mean of a metric under a policy.
    pub fn value(&self, policy: Policy, metric: &str) -> Option<Estimated> {
        self.result(policy)?.estimates.get(metric).copied()
    }

    /// By how many percent a metric differs from the standard scheduler's.
    pub fn change(&self, policy: Policy, metric: &str) -> Option<Estimated> {
        self.result(policy)?.changes.get(metric).copied()
    }

    fn of_each_replicate(&self, policy: Policy, number: impl Fn(&Trial) -> Option<f64>) -> Option<Estimated> {
        let trials = self.trials.iter().filter(|trial| trial.placement == policy.name());
        Estimated::of(&trials.map(number).collect::<Option<Vec<f64>>>()?)
    }

    /// The share, in percent, of a histogram's times from `from_ms` to below `to_ms`, of a number of times told by `of`.
    fn share(&self, policy: Policy, histogram: &str, (from_ms, to_ms): (f64, f64), of: Policy) -> Option<Estimated> {
        let count = |trial: &Trial, from_ms: f64, to_ms: f64| {
            let times = trial.observation.as_ref()?.histograms.get(histogram)?;
            let inside = times.iter().filter(|(ms, _)| (from_ms..to_ms).contains(ms));
            Some(inside.map(|(_, count)| count).sum::<u64>() as f64)
        };
        self.of_each_replicate(policy, |trial| {
            let norm = |other: &&Trial| other.placement == of.name() && other.block == trial.block;
            let all = count(self.trials.iter().find(norm)?, 0.0, f64::INFINITY)?;
            Some(100.0 * count(trial, from_ms, to_ms)? / all)
        })
    }

    /// The share of slices from `from_ms` on, in percent.
    pub fn slices_from(&self, policy: Policy, from_ms: f64) -> Option<Estimated> {
        self.share(policy, simulation::SLICES, (from_ms, f64::INFINITY), policy)
    }
}

impl Evidence {
    /// The workload of that name.
    pub fn workload(&self, name: &str) -> Option<&Simulated> {
        self.workloads.iter().find(|simulated| simulated.name() == name)
    }
}

/// Simulates all that the report speaks of in sections 3 and 4, `replicates` times each, and sets it beside what is printed.
/// `told` is called with how much of it is done, from 0 to 1.
///
/// # Errors
/// [`SimulationError`] when something can't be simulated.
pub fn cache_affinity(replicates: u32, seed: u64, told: &mut dyn FnMut(f64)) -> Result<Reproduction, SimulationError> {
    let printed = PrintedReport::cache_affinity();
    let machine = Machine::named(&printed.machine).expect("the report's machine is a preset");
    let evidence = gather(&machine, replicates, seed, told)?;
    let table = |table: &Table| {
        space_sharing::table(table, &evidence.space).unwrap_or_else(|| ReproducedTable {
            name: table.name.clone(),
            title: table.title.clone(),
            about: table.about.clone(),
            margin: table.margin,
            corner: table.corner.clone(),
            columns: table.columns.clone(),
            rows: rows(table, &evidence),
        })
    };
    let figure = |(figure, policy): (&crate::printed::Figure, Policy)| ReproducedFigure {
        name: figure.name.clone(),
        title: figure.title.clone(),
        about: figure.about.clone(),
        panels: evidence.workloads.iter().map(|simulated| panel(simulated, policy)).collect(),
    };
    let lost = |workload: &Simulated| Some((workload.name().to_owned(), 100.0 * lost_to_reloads(workload, None)?));
    let lost_in_time: Vec<(String, f64)> = evidence.workloads.iter().filter_map(lost).collect();
    let claim = |claim: &crate::printed::Claim| {
        let (against, (verdict, mut why)) = match itself::judge(&claim.check, printed) {
            Some(judged) => (Against::Itself, judged),
            None => {
                let of_space = space_sharing::judge(&claim.check, &evidence.space, &lost_in_time);
                (Against::Us, of_space.unwrap_or_else(|| judge(&claim.check, &evidence)))
            }
        };
        if verdict != Verdict::Holds && !claim.otherwise.is_empty() {
            why = format!("{why}. {}", claim.otherwise);
        }
        JudgedClaim { place: claim.place.clone(), statement: claim.says.clone(), against, verdict, why, live: None }
    };
    Ok(Reproduction {
        paper: "cache-affinity".into(),
        citation: printed.citation.clone(),
        how: vec![
            format!(
                "Simulated on {}, {replicates} replicates of each workload and policy, seed {seed}; the same numbers on every run.",
                printed.machine
            ),
            "One file of choices serves all seven workloads: what the report prints stands in files of their own, and no number stands in both.".into(),
            format!(
                "Jobs of section 5 are task graphs of measured programs, simulated on {}, {} replicates of each mix and policy on the first and {replicates} on the others.",
                space_sharing::MACHINES.join(", "),
                replicates.saturating_mul(space_sharing::REPLICATES)
            ),
        ],
        live: Vec::new(),
        chosen: workload_file::chosen(),
        held_out: None,
        tables: printed.tables.iter().map(table).collect(),
        figures: printed.figures.iter().zip([Policy::Standard, Policy::Light]).map(figure).collect(),
        claims: printed.claims.iter().map(claim).collect(),
    })
}

fn gather(
    machine: &Machine,
    replicates: u32,
    seed: u64,
    told: &mut dyn FnMut(f64),
) -> Result<Evidence, SimulationError> {
    let named = |name: &str| WorkloadFile::named(name).expect("the report's workloads are built in");
    let applications: Vec<&str> = WorkloadFile::applications().collect();
    const SPACE_STEPS: usize = 3;
    let steps = REPORT_WORKLOADS.len() + applications.len() + 1 + SPACE_STEPS;
    let mut done = 0;
    let mut simulated = |file: WorkloadFile, policies: &[Policy]| {
        let parameters = Parameters { replicates, seed, ..file.parameters };
        let simulated = simulate(file.workload, parameters, policies, machine)?;
        done += 1;
        told(done as f64 / steps as f64);
        Ok::<_, SimulationError>(simulated)
    };
    let workloads =
        REPORT_WORKLOADS.iter().map(|(name, _)| simulated(named(name), &POLICIES)).collect::<Result<Vec<_>, _>>()?;
    let alone = applications.iter().map(|name| simulated(named(name), &[Policy::Standard]));
    let applications = alone.collect::<Result<Vec<_>, _>>()?;
    let mut spin = named(&format!("spin:{}", 2 * machine.usable().count()));
    spin.parameters.decay = Decay::None;
    let spinning = simulated(spin, &[Policy::Standard, Policy::Light, Policy::Heavy])?;
    let before = (steps - SPACE_STEPS) as f64 / steps as f64;
    let space = space_sharing::Evidence::gather(replicates, seed, &mut |share| told(before + share * (1.0 - before)))?;
    let mut measured = BTreeMap::new();
    for application in &applications {
        let caches = CacheModel::of(machine, Timing::of(machine), &application.workload)?;
        let mean_ms = application.value(Policy::Standard, "dispatch_interval_mean_ms").map_or(0.0, |mean| mean.value);
        let reuse = reuse(&caches, ProcessIndex(0), CpuIndex(0), 0, (mean_ms * 1e6) as u64);
        measured.insert(application.name().to_owned(), reuse);
    }
    Ok(Evidence { workloads, applications, reuse: measured, spinning, space })
}

fn simulate(
    workload: Workload,
    parameters: Parameters,
    policies: &[Policy],
    machine: &Machine,
) -> Result<Simulated, SimulationError> {
    let plan = Plan::of_simulations(vec![Simulation::new(workload.clone(), parameters)], policies, machine);
    let record = conducted(plan, machine)?;
    let point = simulation::analyse(&record).remove(0);
    Ok(Simulated { workload, point, trials: record.trials })
}

/// All replicates of a plan, kept nowhere.
pub(super) fn conducted(plan: Plan, machine: &Machine) -> Result<Record, SimulationError> {
    let mut trials = Vec::new();
    simulation::simulate(&plan, machine, &[], &mut |trial| -> Result<(), SimulationError> {
        trials.push(trial);
        Ok(())
    })?;
    Ok(Record {
        plan,
        machine: serde_json::Value::Null,
        host: HostFacts::of_model(),
        sessions: Vec::new(),
        trials,
        ending: Some(Ending::Finished),
    })
}

/// The rows of a printed table with ours beside.
fn rows(table: &Table, evidence: &Evidence) -> Vec<ReproducedRow> {
    let row = |row: &crate::printed::Row| {
        let cells = table.columns.iter().enumerate().map(|(column, _)| {
            let printed = &row.printed[column];
            match ours(&table.name, &row.label, column, evidence) {
                Ours::Number(ours) => ReproducedCell::number(printed.parse().ok(), ours),
                Ours::Words(ours) => ReproducedCell::Words { printed: printed.clone(), ours },
            }
        });
        ReproducedRow { label: row.label.clone(), cells: cells.collect() }
    };
    table.rows.iter().map(row).collect()
}

/// What we have for a cell.
enum Ours {
    Number(Option<Estimated>),
    Words(String),
}

fn ours(table: &str, row: &str, column: usize, evidence: &Evidence) -> Ours {
    let application = evidence.applications.iter().find(|simulated| simulated.name() == row);
    match table {
        "table-1" => {
            Ours::Words(application.map_or_else(String::new, |simulated| description(&simulated.workload.jobs[0])))
        }
        "table-2" => Ours::Number(application.and_then(|simulated| interval_share(simulated, column))),
        "table-3" => Ours::Number(application.and_then(|simulated| cause_share(simulated, CAUSES[column]))),
        "table-4" => potential_cell(row, column, evidence),
        _ => Ours::Number(evidence.workload(row).and_then(|simulated| effect(simulated, column))),
    }
}

/// What is simulated in an application's place.
fn description(job: &Job) -> String {
    let at_once = job.at_once.map_or_else(String::new, |n| format!(", {n} at once"));
    let work = match &job.process.work_ms {
        Some(Distribution::Constant(ms)) => format!("{} s of work each", ms / 1e3),
        Some(Distribution::Uniform(from, to)) => format!("{} to {} s of work each", from / 1e3, to / 1e3),
        _ => "work without end".into(),
    };
    let memory = &job.process.memory;
    format!(
        "{} processes{at_once}, {work}; {} lines reused, {} misses a ms of work besides",
        job.processes, memory.reload_lines, memory.steady_misses_per_ms
    )
}

/// A cell of Table II.
fn interval_share(simulated: &Simulated, column: usize) -> Option<Estimated> {
    let from_ms = column.checked_sub(1).map_or(0.0, |before| INTERVAL_EDGES_MS[before]);
    let to_ms = INTERVAL_EDGES_MS.get(column).copied().unwrap_or(f64::INFINITY);
    simulated.share(Policy::Standard, simulation::INTERVALS, (from_ms, to_ms), Policy::Standard)
}

/// A cell of Table III. The end of a process is none of its causes.
fn cause_share(simulated: &Simulated, cause: &str) -> Option<Estimated> {
    simulated.of_each_replicate(Policy::Standard, |trial| {
        let share =
            |cause: &str| trial.observation.as_ref()?.metrics.get(&format!("ended_by_{cause}_fraction")).copied();
        Some(100.0 * share(cause)? / (1.0 - share("exit")?))
    })
}

/// A cell of Table IV, whose rows are an application in a workload.
fn potential_cell(row: &str, column: usize, evidence: &Evidence) -> Ours {
    let Some((simulated, application)) =
        row.split_once(", ").and_then(|(name, application)| Some((evidence.workload(name)?, application)))
    else {
        return Ours::Number(None);
    };
    let exactly = |value: f64| Some(Estimated { value, low: None, high: None });
    let reuse = evidence.reuse.get(application);
    let standard = |metric: &str| simulated.value(Policy::Standard, &format!("{metric}:{application}"));
    match column {
        0 => Ours::Number(reuse.and_then(|reuse| exactly(reuse.reload_misses / 1e3))),
        1 => Ours::Number(standard("effective_slice_median_ms")),
        2 => Ours::Words(
            standard("ended_by_semaphore_fraction")
                .map_or_else(String::new, |share| if share.value >= BLOCKS_OFTEN { "yes".into() } else { "no".into() }),
        ),
        3 => Ours::Number(reuse.and_then(|reuse| exactly(reuse.intervening_misses / 1e3))),
        _ => Ours::Words(lost_to_reloads(simulated, Some(application)).map_or_else(String::new, |share| {
            let word = if share < LOW {
                "none"
            } else if share < MODERATE {
                "low"
            } else {
                "moderate"
            };
            format!("{word}: {:.1} %", 100.0 * share)
        })),
    }
}

/// The share of CPU time that reloads take under the standard scheduler, of one application or of all.
pub(super) fn lost_to_reloads(simulated: &Simulated, application: Option<&str>) -> Option<f64> {
    let whose = application.map_or_else(String::new, |name| format!(":{name}"));
    let standard = |metric: &str| Some(simulated.value(Policy::Standard, &format!("{metric}{whose}"))?.value);
    // What misses cost in all, shared out by their number.
    let stalled_ms = standard("cpu_ms")? - standard("work_ms")?;
    Some(stalled_ms / standard("cpu_ms")? * standard("misses_reload")? / standard("misses")?.max(f64::MIN_POSITIVE))
}

/// A cell of Table V.
pub(super) fn effect(simulated: &Simulated, column: usize) -> Option<Estimated> {
    let metric = ["misses", "mean_completion_ms", "makespan_ms"][column / 2];
    simulated.change([Policy::Light, Policy::Heavy][column % 2], metric)
}

/// One workload in a figure.
fn panel(simulated: &Simulated, policy: Policy) -> Panel {
    let edges = (0..=(FIGURE_END_MS / BIN_MS) as u32).map(|bin| f64::from(bin) * BIN_MS);
    let bin = |from_ms: f64| {
        let to_ms = (from_ms < FIGURE_END_MS).then_some(from_ms + BIN_MS);
        let range = (from_ms, to_ms.unwrap_or(f64::INFINITY));
        let percent = simulated.share(policy, simulation::SLICES, range, Policy::Standard);
        let slices = simulated.value(Policy::Standard, "effective_slices");
        let percent = percent.map_or(0.0, |share| share.value);
        TimeBin { from_ms, to_ms, count: slices.map_or(0.0, |slices| slices.value * percent / 100.0), percent }
    };
    Panel {
        label: simulated.name().to_owned(),
        median_ms: simulated.value(policy, "effective_slice_median_ms").map(|median| median.value),
        bins: edges.map(bin).collect(),
    }
}
