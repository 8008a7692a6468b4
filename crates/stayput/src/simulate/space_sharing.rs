//! `stayput simulate space-sharing`: jobs that hold CPUs, and allocators that move CPUs from job to job.

use super::sweep::Sweep;
use crate::{UsageError, shell};
use machine::Machine;
use sim::Distribution;
use sim::space::mix::{DEFAULT_MIX, REPORT_MIXES};
use sim::space::{Graph, Mix, MixError, Parameters, Policy};
use simulation::{Sharing, Simulation, SimulationPlan};
use std::fmt::Write;
use std::path::Path;
use study::{Kind, toml_file};

/// Simulate jobs that hold CPUs and give them back, with the caches that their workers leave behind
///
/// Each replicate draws arrivals and tasks anew, the same under every policy, so that policies are compared pair by pair. The same
/// command gives the same bytes.
#[derive(clap::Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "\
Examples:
  stayput simulate space-sharing                                    does affinity matter on the papers' machine?
  stayput simulate space-sharing --mix all --format html > figure-3.html
  stayput simulate space-sharing --sweep future=1,4,16,64,256,1024,4096,16384,65536 --out future.stayput
  stayput simulate space-sharing --machine epyc-7763 --speed 1 --data 1 --mix 4*MVA+4*GRAVITY --gap-ms 20
  stayput simulate space-sharing --machine host --mix 2*mine.toml+MATRIX --policy equipartition,dynamic --format json

Policies: equipartition (equal shares); dynamic (a job has what it can use, from who can't use it or has most); dynamic-affinity (the
same, with workers back on CPUs where they were); dynamic-affinity-delay (which keeps a CPU a little before it gives it up);
dynamic-affinity-no-priority (in which a worker gets its CPU back even if another job with fewer asks).

The jobs are measured programs (stayput workloads --graph), at --speed and --data of the machine: on sequent-symmetry a thousandth as
fast, with a thirty-second of the data. Your own graphs: docs/graph-files.md."
)]
pub(super) struct SpaceSharingArgs {
    /// The simulated machine: a preset, host, an hwloc XML file, or a synthetic string
    #[arg(long, value_name = "MACHINE", default_value = "sequent-symmetry", add = shell::machines())]
    machine: String,
    /// Which jobs: built-in ones (see --list) and graph files ending in .toml, as 2*MVA+GRAVITY+mine.toml; several mixes with
    /// commas between them, or all for those that are listed
    #[arg(long, value_name = "MIX", value_delimiter = ',', default_value = DEFAULT_MIX)]
    mix: Vec<String>,
    /// Policies to simulate; equipartition is what the others are compared with
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values = ["equipartition", "dynamic", "dynamic-affinity"], add = shell::names(shell::variants::<Policy>))]
    policy: Vec<Policy>,
    /// Mean time from one job's arrival to the next, drawn from an exponential distribution, in ms at --speed 1; 0 for all at once
    #[arg(long, value_name = "MS", default_value_t = 2.0)]
    gap_ms: f64,
    /// How many times as fast as where the graphs were measured CPUs work [default: 0.001 on sequent-symmetry, else 1]
    #[arg(long, value_name = "X")]
    speed: Option<f64>,
    /// How many times as large as there the tasks' working sets are [default: 1/32 on sequent-symmetry, else 1]
    #[arg(long, value_name = "X")]
    data: Option<f64>,
    /// Time to give a CPU to another worker, in us at --speed 1
    #[arg(long, value_name = "US", default_value_t = Parameters::default().switch_us)]
    switch_us: f64,
    /// How long dynamic-affinity-delay keeps a CPU, in ms at --speed 1
    #[arg(long, value_name = "MS", default_value_t = Parameters::default().yield_delay_ms)]
    yield_delay_ms: f64,
    /// How many of the workers that ran on it a CPU remembers
    #[arg(long, value_name = "N", default_value_t = Parameters::default().history)]
    history: u32,
    /// Stop each simulation then, in simulated ms
    #[arg(long, value_name = "MS")]
    horizon_ms: Option<f64>,
    /// How often each is simulated, with other draws each time
    #[arg(long, value_name = "R", default_value_t = Parameters::default().replicates)]
    replicates: u32,
    /// Where the draws start
    #[arg(long, value_name = "S", default_value_t = Parameters::default().seed)]
    seed: u64,
    /// Simulate it for each value of a parameter: speed, data, caches or memory (how many times as large, or as fast), future (CPU
    /// speed times cache size: each by the square root, data as caches, memory by the fourth root), or another of these
    /// numbers; values as 10,30,100 or 0-24/2
    #[arg(long, value_name = "PARAM=RANGE")]
    sweep: Option<Sweep>,
    #[command(flatten)]
    site: super::cluster::SiteArgs,
    #[command(flatten)]
    output: super::Output,
    /// List the built-in jobs and mixes
    #[arg(long)]
    list: bool,
}

/// The word for all mixes that are listed.
const ALL: &str = "all";

/// Simulates, and reports on it.
pub(super) fn run(args: &SpaceSharingArgs) -> anyhow::Result<()> {
    if args.list {
        return crate::print(&built_in_list());
    }
    let machine = Machine::named(&args.machine).map_err(UsageError::from)?;
    let plan = plan(args, &machine)?;
    super::simulate_and_report(&plan, &machine, &args.site, &args.output)
}

fn plan(args: &SpaceSharingArgs, machine: &Machine) -> anyhow::Result<SimulationPlan> {
    let scale = Parameters::for_machine(machine.name());
    let parameters = Parameters {
        gap_ms: (args.gap_ms != 0.0).then_some(Distribution::Exponential(args.gap_ms)),
        speed: args.speed.unwrap_or(scale.speed),
        data: args.data.unwrap_or(scale.data),
        switch_us: args.switch_us,
        yield_delay_ms: args.yield_delay_ms,
        history: args.history,
        horizon_ms: args.horizon_ms,
        replicates: args.replicates,
        seed: args.seed,
    };
    parameters.check().map_err(UsageError::from)?;
    let mut names: Vec<&str> = Vec::new();
    for name in args.mix.iter().map(|name| name.trim()) {
        let more = if name == ALL { REPORT_MIXES.map(|(name, _)| name).to_vec() } else { vec![name] };
        names.extend(more.into_iter().filter(|name| !names.contains(name)).collect::<Vec<_>>());
    }
    let mixes = names.into_iter().map(mix).collect::<anyhow::Result<Vec<Mix>>>()?;
    let simulation = |mix: Mix| Simulation::from(Sharing::Space { mix, parameters: parameters.clone() });
    let simulations = match (&args.sweep, mixes.as_slice()) {
        (None, _) => mixes.into_iter().map(simulation).collect(),
        (Some(Sweep { parameter, values }), [mix]) => {
            let mut rising = values.clone();
            rising.sort_by(f64::total_cmp);
            super::points(&simulation(mix.clone()), parameter, &rising)?
        }
        (Some(_), _) => return Err(UsageError::from("a sweep is of one mix; name one with --mix")),
    };
    let plan = SimulationPlan::new(simulations, &args.policy, machine);
    plan.check().map_err(UsageError::from)?;
    Ok(plan)
}

/// The mix of that name, files read.
fn mix(name: &str) -> anyhow::Result<Mix> {
    Mix::named(name, |file| toml_file::read("graph file", Path::new(file), Graph::parse).map_err(NoMix::File))
        .map_err(UsageError::from)
}

/// Why there is no such mix.
#[derive(Debug, thiserror::Error)]
enum NoMix {
    #[error(transparent)]
    Named(#[from] MixError),
    #[error(transparent)]
    File(toml_file::FileError),
}

/// The built-in jobs and mixes.
fn built_in_list() -> String {
    let mut text = String::from("Jobs:\n");
    for graph in Graph::built_in() {
        let _ = writeln!(
            text,
            "  {:<26} {}; {} tasks, {:.1} ms of work, {:.1} ms at least",
            graph.name,
            graph.about,
            graph.tasks(),
            graph.work_ms(),
            graph.span_ms()
        );
    }
    text.push_str("\nMixes:\n");
    for (name, about) in REPORT_MIXES {
        let _ = writeln!(text, "  {name:<26} {about}");
    }
    text.push_str("\nOthers are made of these jobs and of files ending in .toml, as 2*MVA+mine.toml.\n");
    text
}
