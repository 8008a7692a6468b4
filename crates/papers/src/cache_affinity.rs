//! The cache-affinity report's time sharing: its seven workloads simulated on its machine, and its own experiments.

use crate::against_kernel::{self, AgainstKernel};
use crate::evidence::Evidence;
use crate::interval::exactly;
use crate::live_numbers::LiveNumbers;
use crate::live_profiles::LiveProfiles;
use crate::live_tables::{effect, tables};
use crate::live_workloads::{LiveWorkloads, SIMULATED_BESIDES};
use crate::paper::PrintedClaim;
use crate::printed::{Figure, PrintedReport, Row, Table};
use crate::reproduction::{
    Against, JudgedClaim, Method, Panel, ReproducedCell, ReproducedFigure, ReproducedRow, ReproducedTable, Reproduction,
};
use crate::simulated::Simulated;
use crate::{itself, live_claims, scheduler_claims, space_sharing};
use machine::Machine;
use sim::{Distribution, Job, Policy, workload_file};
use simulation::metrics::{ENDED, INTERVALS, SLICE_MEDIAN, SLICES};
use simulation::{self, Estimated, RunError, TimeBin};
use stats::{By, Metric};
use study::Sample;

/// The table of what affinity changes.
const EFFECTS: &str = "table-5";

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

/// Simulates all that the report speaks of in sections 3 to 5, `replicates` times each, and sets it beside what is printed, and beside
/// what was measured of its workloads where they were run. `progress` is called with how much of it is done, from 0 to 1.
///
/// # Errors
/// [`RunError`] when something can't be simulated.
pub fn cache_affinity(
    replicates: u32,
    seed: u64,
    live: Option<&LiveWorkloads>,
    progress: &mut dyn FnMut(f64),
) -> Result<Reproduction, RunError> {
    let printed = PrintedReport::cache_affinity();
    let machine = Machine::named(&printed.machine).expect("the report's machine is a preset");
    let besides = if live.is_some() { &SIMULATED_BESIDES[..] } else { &[] };
    let evidence = Evidence::new(&machine, replicates, seed, besides, progress)?;
    let numbers = live.map(LiveWorkloads::numbers);
    let space = live.map(|live| &live.space);
    let profiles = live.map(|live| &live.profiles);
    let table = |table: &Table| ReproducedTable {
        name: table.name.clone(),
        title: table.title.clone(),
        about: table.about.clone() + &against_kernel::about(table),
        margin: table.margin,
        corner: table.corner.clone(),
        columns: table.columns.iter().cloned().chain(against_kernel::columns(table)).collect(),
        rows: space_sharing::rows(&table.name, &evidence.space, space)
            .unwrap_or_else(|| rows(table, &evidence, numbers.as_ref(), profiles)),
    };
    let figure = |(figure, policy): (&Figure, Policy)| ReproducedFigure {
        name: figure.name.clone(),
        title: figure.title.clone(),
        about: figure.about.clone(),
        panels: evidence.workloads.iter().map(|simulated| panel(simulated, policy)).collect(),
    };
    let lost_in_time = evidence.lost_to_reloads();
    let claim = |claim: &PrintedClaim| {
        let by_itself = itself::judge(&claim.check, printed);
        let against = if by_itself.is_some() { Against::Itself } else { Against::Us };
        let judgement = by_itself
            .or_else(|| space_sharing::judge(&claim.check, &evidence.space, &lost_in_time))
            .unwrap_or_else(|| scheduler_claims::judge(&claim.check, &evidence));
        JudgedClaim {
            live: numbers
                .as_ref()
                .and_then(|numbers| live_claims::judge(&claim.check, numbers))
                .or_else(|| space?.judge(&claim.check)),
            ..JudgedClaim::new(claim, against, judgement)
        }
    };
    Ok(Reproduction {
        paper: "cache-affinity".into(),
        citation: printed.citation.clone(),
        method: Some(Method::Simulated {
            machine: printed.machine.clone(),
            replicates,
            seed,
            space_machines: space_sharing::MACHINES.map(String::from).into(),
            space_replicates: replicates.saturating_mul(space_sharing::REPLICATES),
        }),
        live: live.map(LiveWorkloads::studies),
        against_kernel: Some(AgainstKernel::new(&evidence, &printed.machine, replicates)),
        chosen: workload_file::chosen(),
        held_out: None,
        tables: printed
            .tables
            .iter()
            .map(table)
            .chain(live.zip(numbers.as_ref()).into_iter().flat_map(|(live, numbers)| tables(live, numbers, &evidence)))
            .chain(profiles.into_iter().flat_map(|profiles| profiles.tables(printed)))
            .collect(),
        figures: printed.figures.iter().zip([Policy::Standard, Policy::Light]).map(figure).collect(),
        claims: printed.claims.iter().map(claim).collect(),
    })
}

/// The rows of a printed table with ours beside.
fn rows(
    table: &Table,
    evidence: &Evidence,
    live: Option<&LiveNumbers>,
    profiles: Option<&LiveProfiles>,
) -> Vec<ReproducedRow> {
    let row = |row: &Row| {
        let cells = table.columns.iter().enumerate().map(|(column, _)| {
            let printed = &row.printed[column];
            match ours(&table.name, &row.label, column, evidence) {
                Ours::Number(ours) => {
                    let effect = |live: &LiveNumbers| effect(live, &row.label, column);
                    let profiled = profiles.and_then(|it| it.number(&table.name, &row.label, column));
                    let measured = live.filter(|_| table.name == EFFECTS).and_then(effect).or(profiled);
                    ReproducedCell::number(printed.parse().ok(), ours).with_live(measured)
                }
                Ours::Words(ours) => {
                    let profiled = profiles.and_then(|it| it.words(&row.label, column, BLOCKS_OFTEN));
                    ReproducedCell::Words { printed: printed.clone(), ours, live: profiled }
                }
            }
        });
        let cells = cells.chain(against_kernel::cells(table, &row.label, evidence)).collect();
        ReproducedRow { label: row.label.clone(), cells }
    };
    table.rows.iter().map(row).collect()
}

/// What we have for a cell.
enum Ours {
    Number(Option<Estimated>),
    Words(String),
}

fn ours(table: &str, row: &str, column: usize, evidence: &Evidence) -> Ours {
    let application = evidence.application(row);
    match table {
        "table-1" => Ours::Words(application.map_or_else(String::new, |alone| description(&alone.workload.jobs[0]))),
        "table-2" => Ours::Number(application.and_then(|simulated| interval_share(simulated, column))),
        "table-3" => Ours::Number(application.and_then(|simulated| cause_share(simulated, CAUSES[column]))),
        "table-4" => potential_cell(row, column, evidence),
        _ => Ours::Number(evidence.workload(row).effect(column)),
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
    simulated.share(Policy::Standard, &INTERVALS, (from_ms, to_ms), Policy::Standard)
}

/// A cell of Table III. The end of a process is none of its causes.
fn cause_share(simulated: &Simulated, cause: &str) -> Option<Estimated> {
    let share = |sample: &Sample, cause: &str| sample.value(&ENDED.by(By::End(cause.to_owned().into())));
    simulated.mean(Policy::Standard, |sample| Some(100.0 * share(sample, cause)? / (1.0 - share(sample, "exit")?)))
}

/// A cell of Table IV, whose rows are an application in a workload.
fn potential_cell(row: &str, column: usize, evidence: &Evidence) -> Ours {
    let (workload, application) = row.split_once(", ").expect("a test reads every table");
    let simulated = evidence.workload(workload);
    let reuse = evidence.reuse.get(application);
    let standard = |metric: Metric| simulated.value(Policy::Standard, &metric.of_job(application));
    match column {
        0 => Ours::Number(reuse.map(|reuse| exactly(reuse.reload_misses / 1e3))),
        1 => Ours::Number(standard(SLICE_MEDIAN)),
        2 => {
            let blocks = standard(ENDED.by(By::End("semaphore".into())));
            Ours::Words(blocks.map_or("", |share| if share.value >= BLOCKS_OFTEN { "yes" } else { "no" }).into())
        }
        3 => Ours::Number(reuse.map(|reuse| exactly(reuse.intervening_misses / 1e3))),
        _ => Ours::Words(simulated.lost_to_reloads(Some(application)).map_or_else(String::new, |share| {
            let word = match share {
                _ if share < LOW => "none",
                _ if share < MODERATE => "low",
                _ => "moderate",
            };
            format!("{word}: {:.1} %", 100.0 * share)
        })),
    }
}

/// One workload in a figure.
fn panel(simulated: &Simulated, policy: Policy) -> Panel {
    let edges = (0..=(FIGURE_END_MS / BIN_MS) as u32).map(|bin| f64::from(bin) * BIN_MS);
    let bin = |from_ms: f64| {
        let to_ms = (from_ms < FIGURE_END_MS).then_some(from_ms + BIN_MS);
        let range = (from_ms, to_ms.unwrap_or(f64::INFINITY));
        let percent = simulated.share(policy, &SLICES, range, Policy::Standard);
        let slices = simulated.value(Policy::Standard, &Metric::from_name("effective_slices"));
        let percent = percent.map_or(0.0, |share| share.value);
        TimeBin { from_ms, to_ms, count: slices.map_or(0.0, |slices| slices.value * percent / 100.0), percent }
    };
    Panel {
        label: simulated.name().to_owned(),
        median_ms: simulated.value(policy, &SLICE_MEDIAN).map(|median| median.value),
        bins: edges.map(bin).collect(),
    }
}
