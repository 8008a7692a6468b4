//! `stayput replay`: a workload replayed with real processes in a running kernel, and in the simulator beside it.

use crate::rule::{RuleArgs, check_phi_is_heeded};
use crate::simulate::{Output, print_report, with_horizon, workload_file};
use crate::{UsageError, shell};
use ::profile::{Inferred, caching};
use anyhow::Context;
use indicatif::ProgressBar;
use machine::Machine;
use replay::counting_clock::{ICOUNT_SHIFT, count_instructions};
use replay::{Policy, Programs, ReplayOutput, Run, RunFailure, Scenario, SeriesError};
use sim::WorkloadFile;
use simulation::SimulationError;
use simulation::replays::{self, Kernel, ReplayPlan};
use std::path::{Path, PathBuf};
use study::{
    Ending, GuestMachine, Host, HostFacts, JournalError, Kind, ParseSiteError, Record, Session, Site, toml_file,
};
use vm::Vm;

/// Replay a workload with real processes in a running kernel, and in the simulator beside it
///
/// Each of the workload's processes becomes a real one that works, sleeps and waits as the simulated one does, with the same
/// draws. Every scheduler is measured alike: migrations, time slices, waits, fairness.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  stayput replay --workload spin:8 --policy eevdf,attached         8 busy processes on this machine
  stayput replay --on vm --workload spin:24 --out spin.stayput     affinity scheduling in a guest
  stayput replay --on vm --count-instructions --policy eevdf       the kernel beside the model of it
  stayput replay --on vm:dies --policy standard,light,graded,eevdf-llc --replicates 5
  stayput replay --on vm --workload mine.toml \\
      --misses 'pack:2 l3:1(size=4MiB) l2:4(size=512KiB) l1d:1(size=32KiB) core:1 pu:1'
  stayput replay --workload mine.toml --policy eevdf --no-simulation --format json

Policies: standard, light, heavy, affinity, complex-light, complex-heavy, complex, graded (stayput \
sched, which needs sched_ext and root); eevdf (the kernel's own scheduler), eevdf-llc (the same with \
its cache-aware balancing), attached (bound for life), long-slice (asking for long slices).")]
pub struct ReplayArgs {
    /// What runs: a built-in workload, spin:K, or a file ending in .toml
    #[arg(long, value_name = "NAME|FILE", default_value = "spin:24", add = shell::workloads())]
    workload: String,
    /// Policies to replay it under
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "standard,light,heavy,eevdf", add = shell::names(|| Policy::all().map(|policy| policy.name().to_owned()).collect()))]
    policy: Vec<Policy>,
    /// Where: here, or in a virtual machine; vm is vm:2x4, others are vm:dies, vm:nodes, and vm:1x4x2 and the like
    #[arg(long, value_name = "PLACE", default_value = "here", value_parser = place, add = shell::names(|| ["here", "vm", "vm:dies", "vm:nodes"].map(Into::into).into()))]
    on: Site,
    #[command(flatten)]
    rule: RuleArgs,
    /// Stop each replay then, in ms
    #[arg(long, value_name = "MS", default_value_t = 5_000.0)]
    horizon_ms: f64,
    /// How often each is replayed, with other draws each time
    #[arg(long, value_name = "R", default_value_t = 3)]
    replicates: u32,
    /// Where the draws start [default: 1]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Let stayput sched have a queue for each CPU, instead of one that is searched as in the simulator
    #[arg(long)]
    scalable: bool,
    /// Cap what waking processes wait under stayput sched, in ms, as it does by default; the simulator has no such cap [default:
    /// none]
    #[arg(long, value_name = "W")]
    max_wait_ms: Option<f64>,
    /// Model the caches of MACHINE in the virtual machine, and report misses by cause: a preset, an hwloc XML file or a synthetic string
    /// with as many CPUs. Takes some ten times as long
    #[arg(long, value_name = "MACHINE", add = shell::machines())]
    misses: Option<String>,
    /// Let the clock of the virtual machine count instructions, a nanosecond each: the kernel's own work then takes as little of a slice as on a
    /// machine, and what else runs here isn't seen. Takes some ten times as long
    #[arg(long, conflicts_with = "misses")]
    count_instructions: bool,
    /// Don't simulate it beside
    #[arg(long)]
    no_simulation: bool,
    #[command(flatten)]
    output: Output,
}

/// A site in which replays can be: a text that is none is told those alone.
fn place(text: &str) -> Result<Site, String> {
    text.parse().map_err(|error| match error {
        ParseSiteError::Unknown(text) => format!("`{text}` is no place to replay; name here, vm or vm:TOPOLOGY"),
        error => error.to_string(),
    })
}

/// Why a series of replays stopped.
#[derive(Debug, thiserror::Error)]
enum Stop {
    #[error(transparent)]
    Series(#[from] SeriesError),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Simulation(#[from] SimulationError),
}

/// Replays, simulates, and reports on both.
pub fn run(args: &ReplayArgs) -> anyhow::Result<()> {
    let file = touching(workload_file(&args.workload)?, args)?;
    let (vm, kernel, machine) = target(args)?;
    let plan = plan(args, file, kernel, &machine)?;
    let mut programs =
        Programs { replay: launch::companion("stayput-replay")?, scheduler: PathBuf::new(), plugin: None };
    if args.misses.is_some() {
        programs.plugin = Some(launch::companion("libstayput_misses.so")?);
    }
    if args.policy.iter().any(|policy| policy.needs_scheduler()) {
        programs.scheduler = launch::companion("stayput-sched")?;
        if vm.is_none() {
            crate::sched::check().map_err(anyhow::Error::msg)?;
        }
    }
    let record = conduct(args, &plan, &machine, vm, &programs)?;
    print_report(&record.into(), &args.output)
}

/// The virtual machine to replay in, where it isn't to be here; its kernel, or ours; and the machine that the kernel sees.
fn target(args: &ReplayArgs) -> anyhow::Result<(Option<Vm>, Kernel, Machine)> {
    let kernel = |release: &str, place: String| Kernel {
        release: release.into(),
        place,
        is_scalable: args.scalable,
        max_wait_ms: args.max_wait_ms,
    };
    match &args.on {
        Site::Here if args.misses.is_some() => {
            Err(UsageError::from("misses are modelled in virtual machines only; add --on vm"))
        }
        Site::Here if args.count_instructions => {
            Err(UsageError::from("instructions are counted in virtual machines only; add --on vm"))
        }
        Site::Here => Ok((None, kernel(&HostFacts::read().kernel, "here".into()), Machine::host()?)),
        Site::Slurm(_) => {
            Err(UsageError::from("workloads are replayed here or in a virtual machine; leave out --on slurm"))
        }
        Site::Vm(GuestMachine { topology, .. }) => {
            let guest = GuestMachine { topology: topology.clone(), misses: args.misses.clone() };
            let machine = guest.machine().map_err(UsageError::from)?;
            let image =
                vm::can_run(&|what| eprintln!("stayput: {what}")).context("no virtual machine can be run here")?;
            let clock = if args.count_instructions { " by instructions" } else { "" };
            let kernel = kernel(&image.release, format!("vm:{topology}{clock}"));
            let mut vm = Vm::new(image, topology.clone(), launch::companion("stayput-guest")?);
            if args.count_instructions {
                count_instructions(&mut vm, ICOUNT_SHIFT);
            }
            Ok((Some(vm), kernel, machine))
        }
    }
}

fn plan(args: &ReplayArgs, file: WorkloadFile, kernel: Kernel, machine: &Machine) -> anyhow::Result<ReplayPlan> {
    let defaults = args.rule.over(file.parameters);
    let parameters = sim::Parameters {
        horizon_ms: Some(args.horizon_ms),
        replicates: args.replicates,
        seed: args.seed.unwrap_or(defaults.seed),
        ..defaults
    };
    let scenario = Scenario { parameters: with_horizon(parameters, &file.workload), workload: file.workload };
    // By instructions, timers go off to the moment.
    let emulated = (!args.on.is_here() && !args.count_instructions).then(|| machine.usable().count() as u32);
    let simulator =
        (!args.no_simulation).then(|| replays::simulator_parameters(&kernel.release, &scenario.parameters, emulated));
    if args.rule.gives_phi() {
        check_phi_is_heeded(args.policy.iter().map(|policy| policy.simulated_by()))?;
    }
    let plan = ReplayPlan::new(&scenario, kernel, simulator, &args.policy, machine);
    plan.check().map_err(UsageError::from)?;
    Ok(plan)
}

/// The workload as it refers to memory, where misses are asked for: one that was inferred from a profile and doesn't say so itself, by what its
/// programs were seen to touch.
fn touching(file: WorkloadFile, args: &ReplayArgs) -> anyhow::Result<WorkloadFile> {
    let has_memory = file.workload.jobs.iter().any(|job| job.process.memory != sim::Footprint::default());
    let path = Path::new(&args.workload);
    let Site::Vm(GuestMachine { topology, .. }) = &args.on else { return Ok(file) };
    if args.misses.is_none() || has_memory || path.extension().is_none_or(|extension| extension != "toml") {
        return Ok(file);
    }
    let inferred = toml_file::read("workload file", path, Inferred::parse).map_err(UsageError::from)?;
    let Some(inferred) = inferred else { return Ok(file) };
    let workload = caching::with_touched(&file.workload, &inferred, topology.cpus()).ok_or_else(|| {
        UsageError::from(format!(
            "{} doesn't say what its programs touch, so that none would miss; profile them with --working-set",
            path.display()
        ))
    })?;
    Ok(WorkloadFile { workload, ..file })
}

/// Simulates and replays what isn't in the journal yet, where there is one.
fn conduct(
    args: &ReplayArgs,
    plan: &ReplayPlan,
    machine: &Machine,
    vm: Option<Vm>,
    programs: &Programs,
) -> anyhow::Result<Record<ReplayPlan>> {
    let path = args.output.out.as_deref();
    path.map(crate::study::check_place).transpose()?;
    let mut session = Session::open(path, plan, machine, &Host::Real, &crate::command_line())?;
    let progress = crate::progress_bar(plan.samples(), args.output.quiet);
    progress.inc(session.trials().len() as u64);
    let work = replay_rest(&mut session, machine, vm, programs, &progress);
    progress.finish_and_clear();
    session.end(work.map(|()| Ending::Finished)).map_err(|stop| match stop {
        Stop::Simulation(error @ SimulationError::Caches(_)) => {
            anyhow::Error::new(error).context("give --no-simulation to replay it all the same")
        }
        Stop::Simulation(error) => error.into(),
        stop => stop.into(),
    })
}

/// Simulates and replays what is left of the study in `session`.
fn replay_rest(
    session: &mut Session<ReplayPlan>,
    machine: &Machine,
    vm: Option<Vm>,
    programs: &Programs,
    progress: &ProgressBar,
) -> Result<(), Stop> {
    replays::simulate::<Stop>(session, machine, &mut || progress.inc(1))?;
    let plan = session.plan().clone();
    let (series, runs) = (plan.series(machine), plan.runs_left(session.trials()));
    let mut keep = |run: Run, output: Result<ReplayOutput, RunFailure>| -> Result<(), Stop> {
        let sequence = session.trials().len() as u32;
        session.add(plan.sample(run, output, sequence))?;
        progress.inc(1);
        Ok(())
    };
    match vm {
        None => series.run_here(&runs, programs, &mut keep),
        Some(vm) => series.run_in_vm(&runs, programs, vm, &mut keep),
    }
}
