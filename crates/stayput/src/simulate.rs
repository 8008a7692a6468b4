//! `stayput simulate`: what schedulers would do for a workload on a machine that one need not have.

mod cluster;
pub(crate) mod kernel;
mod reuse;
mod space_sharing;
mod sweep;

use crate::rule::{RuleArgs, check_phi_is_heeded};
use crate::{Interrupted, UsageError, shell};
use ::report::{Format, Study};
use clap::Subcommand;
use indicatif::ProgressBar;
use launch::Interruptions;
use machine::Machine;
use sim::workload_file::{DEFAULT_WORKLOAD, REPORT_WORKLOADS};
use sim::{Parameters, Policy, Step, Workload, WorkloadFile};
use simulation::{RunError, Simulation, SimulationPlan};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use study::{Ending, Host, Kind, Session, toml_file};
use sweep::Sweep;

/// Simulate schedulers: what would they do for this workload on that machine?
#[derive(clap::Args)]
#[command(arg_required_else_help = true, args_conflicts_with_subcommands = true)]
pub struct SimulateArgs {
    #[command(subcommand)]
    sharing: Option<Sharing>,
    #[command(flatten)]
    attached: cluster::AttachArgs,
}

#[derive(Subcommand)]
#[expect(clippy::enum_variant_names, reason = "the names on the command line are the report's")]
enum Sharing {
    TimeSharing(Box<TimeSharingArgs>),
    SpaceSharing(Box<space_sharing::SpaceSharingArgs>),
    Reuse(reuse::ReuseArgs),
}

/// Simulate processes that take turns on CPUs, with the caches that they fill for one another
///
/// Each replicate draws the workload anew, the same under every policy, so that policies are compared pair by pair. The same
/// command gives the same bytes.
#[derive(clap::Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "\
Examples:
  stayput simulate time-sharing                                 what would affinity save on the papers' machine, against Linux?
  stayput simulate time-sharing --workload Oracle --policy standard,light,attached,per-cpu
  stayput simulate time-sharing --machine host --policy eevdf,standard,light --kernel 6.12
  stayput simulate time-sharing --workload Pmake+Matrix --decay subtract --replicates 40 --out pm.stayput
  stayput simulate time-sharing --sweep phi=0-24/2 --out phi.stayput && stayput report phi.stayput --format html > phi.html
  stayput simulate time-sharing --sweep quantum_ms=10,30,100,300 --policy standard,light --format markdown
  stayput simulate time-sharing --sweep phi=0-24/2 --replicates 100 --out phi.stayput --on slurm:nodes=8
  stayput simulate time-sharing --machine host --workload mine.toml --policy standard,graded,per-cpu --format json

Policies: round-robin; standard (UNIX: priority falls with CPU time used); light, heavy (standard with affinity boosts 6 and
16); affinity (with --phi-p and --phi-t); complex-light, complex-heavy, complex (the boost for time fades while away); graded
(the boost for place falls with distance); attached (bound for life); long-quantum; per-cpu (a queue for each CPU, standard within); eevdf (Linux's own fair scheduler, of
the kernel that --kernel names), eevdf-llc (with cache-aware balancing), eevdf-attached, eevdf-long-slice."
)]
struct TimeSharingArgs {
    /// The simulated machine: a preset, host, an hwloc XML file, or a synthetic string
    #[arg(long, value_name = "MACHINE", default_value = "sgi-4d340", add = shell::machines())]
    machine: String,
    /// What runs: a built-in workload (see --list), spin:K, or a file ending in .toml
    #[arg(long, value_name = "NAME|FILE", default_value = DEFAULT_WORKLOAD, add = shell::workloads())]
    workload: String,
    /// Policies to simulate; standard is what the others are compared with [default: eevdf,light,heavy,standard, or
    /// eevdf,affinity,standard where boosts are given or swept; they are compared with eevdf, what you have]
    #[arg(long, value_name = "LIST", value_delimiter = ',', add = shell::names(shell::variants::<Policy>))]
    policy: Vec<Policy>,
    #[command(flatten)]
    rule: RuleArgs,
    /// The kernel whose own scheduler eevdf is: 6.6, 6.12, 7.3, or here for the running one, with the numbers that it tells (root
    /// sees more) [default: the workload file's, or 7.3]
    #[arg(long, value_name = "RELEASE", add = shell::names(kernel::names))]
    kernel: Option<kernel::Kernel>,
    /// Stop each simulation then, in simulated ms; needed where processes never end [default: an hour where processes wait for
    /// locks or at barriers, which some boosts let them do for ever; else none]
    #[arg(long, value_name = "MS")]
    horizon_ms: Option<f64>,
    /// How often each is simulated, with other draws each time [default: 10]
    #[arg(long, value_name = "R")]
    replicates: Option<u32>,
    /// Where the draws start [default: 1]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Simulate it for each value of a parameter: phi (phi_p and phi_t at once), phi_p, phi_t, quantum_ms, caches (how many
    /// times as large they are), or another time or count; values as 10,30,100 or 0-24/2
    #[arg(long, value_name = "PARAM=RANGE")]
    sweep: Option<Sweep>,
    #[command(flatten)]
    site: cluster::SiteArgs,
    #[command(flatten)]
    output: Output,
    /// List the built-in workloads and applications
    #[arg(long)]
    list: bool,
}

/// Where results go.
#[derive(clap::Args)]
pub(crate) struct Output {
    /// Journal to write, or to go on with; without it nothing is kept
    #[arg(long, value_name = "FILE", add = shell::files("stayput"))]
    pub(crate) out: Option<PathBuf>,
    /// The form of the result
    #[arg(long, value_parser = crate::choice::<Format>(), default_value = "terminal")]
    format: Format,
    /// Say below the table what its words mean (terminal)
    #[arg(long)]
    explain: bool,
    /// Don't show progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Simulates, and reports on it.
pub fn run(args: &SimulateArgs) -> anyhow::Result<()> {
    match &args.sharing {
        Some(Sharing::TimeSharing(args)) => time_sharing(args),
        Some(Sharing::SpaceSharing(args)) => space_sharing::run(args),
        Some(Sharing::Reuse(args)) => reuse::run(args),
        None => cluster::attach(&args.attached),
    }
}

fn time_sharing(args: &TimeSharingArgs) -> anyhow::Result<()> {
    if args.list {
        return crate::print(&built_in_list());
    }
    let machine = Machine::named(&args.machine).map_err(UsageError::from)?;
    let plan = plan(args, &machine)?;
    simulate_and_report(&plan, &machine, &args.site, &args.output)
}

/// Simulates a plan, or what its journal doesn't have of it yet, and reports on it.
fn simulate_and_report(
    plan: &SimulationPlan,
    machine: &Machine,
    site: &cluster::SiteArgs,
    output: &Output,
) -> anyhow::Result<()> {
    output.out.as_deref().map(crate::study::check_place).transpose()?;
    match site.assignment(plan, machine, output.out.as_deref())? {
        Some((journal, assignment)) => cluster::simulate(journal, assignment, output),
        None => simulate_with(plan, machine, output, |session, progress| {
            simulation::simulate(session, machine, &mut || progress.inc(1))
        }),
    }
}

/// Opens the journal, lets `simulate` do what that doesn't have yet, and reports on it.
fn simulate_with(
    plan: &SimulationPlan,
    machine: &Machine,
    output: &Output,
    simulate: impl FnOnce(&mut Session<SimulationPlan>, &ProgressBar) -> Result<Ending, RunError>,
) -> anyhow::Result<()> {
    // Without a journal there is nothing to close.
    let held = output.out.as_ref().map(|_| Interruptions::hold());
    let mut session = Session::open(output.out.as_deref(), plan, machine, &Host::Modelled, &crate::command_line())?;
    let progress = crate::progress_bar(plan.samples(), output.quiet);
    progress.inc(session.trials().len() as u64);
    let ending = simulate(&mut session, &progress);
    progress.finish_and_clear();
    let record = session.end::<RunError>(ending);
    drop(held);
    if let (Err(RunError::Interrupted { signal }), Some(path)) = (&record, &output.out) {
        return Err(Interrupted { signal: *signal, kept_in: path.clone() }.into());
    }
    let record = record?;
    print_report(&record.into(), output)
}

/// Prints a study in the form that is asked for.
pub(crate) fn print_report(study: &Study, output: &Output) -> anyhow::Result<()> {
    let mut text = crate::report::written(study, output.format, output.explain);
    if let (Some(path), Format::Terminal) = (&output.out, output.format) {
        let _ = writeln!(text, "\njournal: {}", path.display());
    }
    crate::report::print_form(&text, output.format)
}

/// The built-in workloads.
fn built_in_list() -> String {
    let mut text = String::from("Workloads:\n");
    for (name, about) in REPORT_WORKLOADS {
        let _ = writeln!(text, "  {name:<16} {about}");
    }
    let applications = WorkloadFile::applications().collect::<Vec<_>>().join(", ");
    let _ = writeln!(text, "  {:<16} K processes that compute, never block and never miss", "spin:K");
    let _ = writeln!(text, "\nApplications, each a workload and any of them joined by +: {applications}.");
    text.push_str("A file ending in .toml describes one of your own.\n");
    text
}

/// The plan that the command line asks for.
fn plan(args: &TimeSharingArgs, machine: &Machine) -> anyhow::Result<SimulationPlan> {
    let WorkloadFile { workload, parameters, .. } = workload_file(&args.workload)?;
    let defaults = args.rule.over(parameters);
    let parameters = Parameters {
        horizon_ms: args.horizon_ms.or(defaults.horizon_ms),
        replicates: args.replicates.unwrap_or(defaults.replicates),
        seed: args.seed.unwrap_or(defaults.seed),
        ..defaults
    };
    let parameters = with_horizon(parameters, &workload);
    parameters.check().map_err(UsageError::from)?;
    let policies = policies(args)?;
    let parameters = kernel::with_kernel(parameters, args.kernel, policies)?;
    let simulation = Simulation::new(workload, parameters);
    let simulations = match &args.sweep {
        None => vec![simulation],
        Some(sweep) => points(&simulation, &sweep.parameter, &sweep.values)?,
    };
    let plan = SimulationPlan::new(simulations, policies, machine);
    // What affinity would save is asked against what people have, unless policies are named, of which standard is the usual one.
    let plan = if args.policy.is_empty() { plan.compared_with(Policy::Eevdf.name()) } else { plan };
    plan.check().map_err(UsageError::from)?;
    Ok(plan)
}

/// The points of a sweep: a simulation with each of a parameter's values.
fn points(simulation: &Simulation, parameter: &str, values: &[f64]) -> anyhow::Result<Vec<Simulation>> {
    values.iter().map(|&value| simulation.at(parameter, value)).collect::<Result<_, _>>().map_err(UsageError::from)
}

/// When a simulation of processes that wait for one another is stopped at the latest.
const AN_HOUR_MS: f64 = 3_600_000.0;

/// `parameters` with a horizon where some process may wait for another at a lock, barrier or semaphore, unless it has one.
pub(crate) fn with_horizon(parameters: Parameters, workload: &Workload) -> Parameters {
    let mut steps = workload.jobs.iter().flat_map(|job| &job.process.phases).flat_map(|phase| &phase.steps);
    let waits =
        steps.any(|step| matches!(step, Step::Acquire(_) | Step::Barrier | Step::SleepingBarrier | Step::Wait(_)));
    Parameters { horizon_ms: parameters.horizon_ms.or(waits.then_some(AN_HOUR_MS)), ..parameters }
}

/// A built-in workload, or the one in a file.
pub(crate) fn workload_file(name: &str) -> anyhow::Result<WorkloadFile> {
    if name.ends_with(".toml") {
        toml_file::read("workload file", Path::new(name), WorkloadFile::parse).map_err(UsageError::from)
    } else {
        WorkloadFile::named(name).map_err(UsageError::from)
    }
}

/// The policies that are given, else those whose boosts are given or swept.
fn policies(args: &TimeSharingArgs) -> anyhow::Result<&[Policy]> {
    let swept = args.sweep.as_ref().map(|sweep| sweep.parameter.as_str());
    let phi_is_given = swept.is_some_and(|name| name.starts_with("phi")) || args.rule.gives_phi();
    let policies: &[Policy] = match (args.policy.as_slice(), phi_is_given) {
        ([], false) => &[Policy::Eevdf, Policy::Light, Policy::Heavy, Policy::Standard],
        ([], true) => &[Policy::Eevdf, Policy::Affinity, Policy::Standard],
        (given, _) => given,
    };
    if phi_is_given {
        check_phi_is_heeded(policies.iter().copied())?;
    }
    Ok(policies)
}
