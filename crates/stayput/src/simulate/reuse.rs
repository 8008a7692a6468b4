//! `stayput simulate reuse`: what processes would lose with their cached lines.

use super::{with_horizon, workload_file};
use crate::{UsageError, shell};
use machine::Machine;
use serde::Serialize;
use sim::cache::Timing;
use sim::cache::experiment::reuse;
use sim::workload_file::DEFAULT_WORKLOAD;
use sim::{CacheModel, CpuIndex, Experiment, Policy, ProcessIndex, WorkloadFile};
use std::fmt::Write;

/// Measure what processes would lose with their cached lines, as the cache-affinity report does
///
/// A process that has all its lines about runs for an interval: once as it is, once with the caches flushed before it. The
/// further misses are its reload misses; the time that they take, over the interval, is its potential: what affinity
/// scheduling can gain at most. All misses of the flushed run are what it displaces of others.
#[derive(clap::Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "\
Examples:
  stayput simulate reuse                                      what could affinity gain on the papers' machine at all?
  stayput simulate reuse --workload Oracle --interval-ms 1,3,10,30
  stayput simulate reuse --workload mine.toml --machine host --format json"
)]
pub(super) struct ReuseArgs {
    /// The simulated machine: a preset, host, an hwloc XML file, or a synthetic string
    #[arg(long, value_name = "MACHINE", default_value = "sgi-4d340", add = shell::machines())]
    machine: String,
    /// Whose processes: a built-in workload, or a file ending in .toml
    #[arg(long, value_name = "NAME|FILE", default_value = DEFAULT_WORKLOAD, add = shell::workloads())]
    workload: String,
    /// Lengths of the interval in ms [default: each job's median effective slice under standard, simulated once]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    interval_ms: Vec<f64>,
    /// The form of the result
    #[arg(long, value_enum, default_value_t = Form::Terminal)]
    format: Form,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Form {
    /// A table for a terminal
    #[value(alias = "text")]
    Terminal,
    /// The same for programs
    Json,
}

/// The JSON form.
#[derive(Serialize)]
struct ReuseTable<'a> {
    machine: &'a str,
    workload: &'a str,
    intervals: Vec<Row>,
}

/// What the processes of a job reuse over an interval.
#[derive(Serialize)]
struct Row {
    job: String,
    interval_ms: f64,
    reload_misses: f64,
    intervening_misses: f64,
    potential_fraction: f64,
}

const SHORTEST_MS: f64 = 1e-3;
const LONGEST_MS: f64 = 1e6;

/// Measures, and prints the result.
pub(super) fn run(args: &ReuseArgs) -> anyhow::Result<()> {
    if let Some(ms) = args.interval_ms.iter().find(|ms| !(SHORTEST_MS..=LONGEST_MS).contains(*ms)) {
        return Err(UsageError::from(format!("an interval of {ms} ms is not from {SHORTEST_MS} to {LONGEST_MS} ms")));
    }
    let machine = Machine::named(&args.machine).map_err(UsageError::from)?;
    let file = workload_file(&args.workload)?;
    let caches =
        CacheModel::for_machine(&machine, Timing::for_machine(&machine), &file.workload).map_err(UsageError::from)?;
    let slices_ms = if args.interval_ms.is_empty() { slices_ms(&machine, &file, &caches)? } else { Vec::new() };

    let mut intervals = Vec::new();
    let mut first_process = 0;
    for (number, job) in file.workload.jobs.iter().enumerate() {
        let process = ProcessIndex(first_process);
        first_process += job.processes;
        let own = slices_ms.get(number).copied().flatten();
        for &interval_ms in own.iter().chain(&args.interval_ms) {
            let found = reuse(&caches, process, CpuIndex(0), 0, (interval_ms * 1e6).round() as u64);
            intervals.push(Row {
                job: job.name.clone(),
                interval_ms,
                reload_misses: found.reload_misses,
                intervening_misses: found.intervening_misses,
                potential_fraction: found.potential,
            });
        }
    }
    let table = ReuseTable { machine: machine.name(), workload: &file.workload.name, intervals };
    crate::print(&match args.format {
        Form::Terminal => text(&table),
        Form::Json => terminal::printable_json(&serde_json::to_string_pretty(&table)?).into_owned() + "\n",
    })
}

/// The median effective slice of each job under the standard policy; none of a job that never ran.
fn slices_ms(machine: &Machine, file: &WorkloadFile, caches: &CacheModel) -> anyhow::Result<Vec<Option<f64>>> {
    let parameters = with_horizon(file.parameters.clone(), &file.workload);
    let experiment = Experiment::new(machine, &file.workload, &parameters).map_err(UsageError::from)?;
    let outcome = experiment.run(Policy::Standard, 0, caches.clone(), |_| {});
    let median_ms = |slices: &sim::Durations| slices.quantile_ms(0.5).filter(|ms| *ms >= SHORTEST_MS);
    Ok(outcome.jobs.iter().map(|job| median_ms(&job.slices)).collect())
}

/// A name from a file, which may hold anything.
fn printable(name: &str) -> String {
    terminal::printable(name).replace('\n', " ")
}

fn text(table: &ReuseTable) -> String {
    let mut text = format!(
        "What processes of {} on {} would lose with their cached lines, over an interval:\n\n",
        printable(table.workload),
        table.machine
    );
    let width = table.intervals.iter().map(|row| row.job.chars().count()).max().unwrap_or(0).max("job".len());
    let _ = writeln!(text, "  {:width$}  interval, ms  reload misses  intervening misses  potential, %", "job");
    for Row { job, interval_ms, reload_misses, intervening_misses, potential_fraction } in &table.intervals {
        let job = printable(job);
        let percent = 100.0 * potential_fraction;
        let _ = writeln!(
            text,
            "  {job:width$}  {interval_ms:>12.2}  {reload_misses:>13.0}  {intervening_misses:>18.0}  {percent:>12.1}"
        );
    }
    text.push_str(
        "\nReload misses: with the caches flushed before the interval, less without. Intervening misses: all those of the\n\
         flushed run, displacing what others had cached. Potential: time of the reload over the interval, the most that\n\
         affinity can save of it. Other CPUs are idle, so that nobody waits for a bus.\n",
    );
    text
}
