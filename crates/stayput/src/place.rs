//! `stayput place`: a placement, in the words of the program that is to apply it.

use crate::UsageError;
use machine::export::Order;
use machine::{Kind, Machine, Placement, Policy, Syntax};

/// Print a placement: which CPU each thread gets
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct PlaceArgs {
    /// compact, scatter, balanced, semi-balanced, unbalanced, or CPUs such as 0,8,1,9 or 0-3
    policy: String,
    /// How many threads; without it, one for each usable CPU or for each CPU of the list
    #[arg(short = 'n', long = "threads", value_name = "N")]
    threads: Option<usize>,
    /// host, a preset (xeon-e5620, opteron-6272, xeon-e5405, sgi-4d340), an hwloc XML file, or an hwloc synthetic string
    #[arg(long, value_name = "MACHINE", default_value = "host")]
    machine: String,
    /// list, gomp, kmp, omp-places, taskset, numactl, likwid, hwloc, slurm-map, slurm-mask, openmpi-rankfile, systemd, docker or json
    #[arg(long = "as", value_name = "SYNTAX", default_value = "list")]
    syntax: String,
    /// With gomp, print the whole assignment GOMP_CPU_AFFINITY="..." and not its value alone
    #[arg(long)]
    env: bool,
}

const HELP: &str = "\
Policies:
  compact        the next thread next to the one before: CPUs in the order of the machine's tree
  scatter        the next thread where it shares least: core first, then L2 or module, L3, die, package
  balanced       the CPUs of scatter, with consecutive threads next to each other
  semi-balanced  as few packages as hold the threads, scattered within each
  unbalanced     shares as much as possible; the placement of compact

Examples:
  stayput place scatter -n 4
  GOMP_CPU_AFFINITY=\"$(stayput place scatter -n 8 --as gomp)\" ./app
  stayput place scatter -n 64 --machine opteron-6272 --as gomp";

/// Prints the placement, and on standard error what its reader should know.
///
/// # Errors
/// A [`UsageError`] for a policy, machine, syntax or number of threads that can't be; else a failure to write.
pub fn run(args: &PlaceArgs) -> anyhow::Result<u8> {
    let policy: Policy = args.policy.parse().map_err(UsageError::from)?;
    let syntax: Syntax = args.syntax.parse().map_err(UsageError::from)?;
    let machine = Machine::named(&args.machine).map_err(UsageError::from)?;
    let threads = args.threads.unwrap_or_else(|| policy.default_threads(&machine));
    let placement = policy.place(&machine, threads).map_err(UsageError::from)?;
    let text = if args.env { syntax.line(&placement) } else { syntax.value(&placement) }.map_err(UsageError::from)?;
    crate::print(&format!("{text}\n"))?;
    for note in notes(&machine, &placement, syntax) {
        eprintln!("stayput: {note}");
    }
    Ok(crate::SUCCESS)
}

/// What is lost or easily misread.
fn notes(machine: &Machine, placement: &Placement, syntax: Syntax) -> Vec<String> {
    let mut notes = Vec::new();
    let threads = placement.slots.len();
    let doubled_up = placement.doubled_up();
    if doubled_up > 0 {
        notes.push(format!(
            "{doubled_up} of the {threads} threads must share a CPU with an earlier thread; usable here: {}",
            machine.usable_cpus().named(),
        ));
    }
    if syntax.order() == Order::Lost && threads > 1 {
        notes.push(format!("{syntax} carries a set: the order of threads is lost, any may run on any of these CPUs"));
    }
    if syntax == Syntax::Likwid && machine.usable().count() < machine.pus().len() {
        notes.push(
            "inside a cpuset likwid-pin counts the CPUs of the cpuset from 0, and these are the kernel's numbers; check \
             what it pinned"
                .into(),
        );
    }
    let core_number = |cpu| Some(machine.object(machine.enclosing(cpu, Kind::Core)?).logical_index.number());
    if syntax == Syntax::OpenmpiRankfile
        && placement.union().iter().any(|cpu| core_number(cpu).is_some_and(|core| core != cpu.0))
    {
        notes.push(
            "Open MPI takes a slot for the position of a core, and here that differs from the CPU numbers in the file; \
             check with mpirun --report-bindings"
                .into(),
        );
    }
    notes
}
