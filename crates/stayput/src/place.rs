//! `stayput place`: a placement, in the words of the program that is to apply it; or every distinct one.

use crate::ranks::{self, RanksPer};
use crate::thread_count::ThreadCount;
use crate::{UsageError, shell};
use machine::export::Order;
use machine::{Class, Distinct, Kind, Machine, Placement, Policy, Syntax};
use serde_json::{Map, Value, json};
use std::io::Write;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// Print a placement: which CPU each thread gets. Or all placements that differ: which there are, and how many
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct PlaceArgs {
    /// compact, scatter, balanced, semi-balanced, unbalanced, a set of CPUs such as p-cores or node:0, or CPUs such as
    /// 0,8,1,9 or 0-3
    #[arg(required_unless_present_any = ["all", "important", "count", "ranks_per"], add = shell::names(shell::placements))]
    policy: Option<String>,
    /// How many threads, or ranks x threads of each as in 4x8; without it, one for each usable CPU, or for each CPU of the set or the list
    #[arg(short = 'n', long = "threads", value_name = "N")]
    threads: Option<ThreadCount>,
    /// So many ranks in each node, package, numa, l3, l2, core or pu, as in numa:2; -n then says threads of each
    #[arg(long, value_name = "LEVEL[:K]", conflicts_with_all = ["all", "important", "count"])]
    ranks_per: Option<RanksPer>,
    #[arg(long, value_name = "MACHINE", default_value = "host", help = crate::topology::machine_help(), add = shell::machines())]
    machine: String,
    /// list, gomp, kmp, omp-places, taskset, numactl, likwid, hwloc, slurm-map, slurm-mask, sbatch, openmpi-rankfile, systemd, docker or json; of ranks
    /// x threads: list, openmpi4, openmpi5, mpich, intel-mpi, slurm, sbatch, flux or json
    #[arg(long = "as", value_name = "SYNTAX", default_value = "list", add = shell::names(shell::variants::<Syntax>))]
    syntax: String,
    /// With gomp, print the whole assignment GOMP_CPU_AFFINITY="..." and not its value alone
    #[arg(long)]
    env: bool,
    /// One placement of each class: those that no symmetry of the machine maps onto one another
    #[arg(long, requires = "threads", conflicts_with_all = ["policy", "syntax", "env", "important"])]
    all: bool,
    /// Only the classes that differ in what the hardware shares, threads dealt out evenly, and those of the policies
    #[arg(long, requires = "threads", conflicts_with_all = ["policy", "syntax", "env"])]
    important: bool,
    /// Only how many classes there are, and how many sets of CPUs
    #[arg(long, requires = "threads", conflicts_with_all = ["policy", "syntax", "env", "all", "important", "limit"])]
    count: bool,
    /// The order of threads counts too: neighbours together or apart, at each level where it makes a difference
    #[arg(long, requires = "threads", conflicts_with = "policy")]
    ordered: bool,
    /// How to print classes
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Format::List, conflicts_with = "policy")]
    format: Format,
    /// Print this many classes at most
    #[arg(long, value_name = "K", conflicts_with = "policy")]
    limit: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    List,
    Json,
}

const HELP: &str = "\
Policies:
  compact        as few packages as hold the threads, with those as few dies, then L3, L2 and cores;
                 in the order of the machine's tree, so that the next thread sits next to the one before
  scatter        the next thread where it shares least: a core of its own as long as there is one,
                 dealt out over packages, then dies and NUMA domains, then L3, then L2 or modules
  balanced       the CPUs of scatter, with consecutive threads next to each other
  semi-balanced  as few packages as hold the threads, the largest first, scattered within each
  unbalanced     shares as much as possible; the placement of compact
No policy puts two threads on a CPU while another CPU that may be used is free.

Sets of CPUs, of which thread i gets the i-th in the order of the machine's tree, and then the first again:
  p-cores, e-cores  the cores that the maker calls so (P and E)
  node:N            near NUMA node N, by the kernel's number (P# of `stayput topology`)
  package:N, l3:N   of package N, or sharing L3 N, counted from 0 in tree order (L#)
  one-per-core      the first CPU of each core: no core has two threads
  largest-l3        sharing the L3 of most capacity; of equal ones the first

Ranks x threads (-n 4x8), as ranks=ORDER:LEVEL,threads=POLICY:
  compact   fills one object of the level after the other
  scatter   each rank in the object with fewest, so that consecutive ranks are apart
  balanced  as many in each object as with scatter, consecutive ranks together
LEVEL is node (as without), package, numa, l3, l2, core or pu. Each rank has a region of its own there, and
its threads are placed in that region by compact, scatter, balanced, semi-balanced or unbalanced.

With --all, a line has the CPUs by thread, how many sets of CPUs are the same up to the machine's
symmetry, and the policies that lead there. The most together come first where the parts of the
machine are alike; unlike parts come in the order of the machine's tree.

Examples:
  stayput place scatter -n 4
  GOMP_CPU_AFFINITY=\"$(stayput place scatter -n 8 --as gomp)\" ./app
  stayput place node:1 --as numactl
  stayput place scatter -n 64 --machine opteron-6272 --as gomp
  stayput place --all -n 4 --machine xeon-e5405
  stayput place --important -n 16 --ordered
  stayput place --count -n 32 --machine 'pack:2 l3:8 core:8 pu:2'
  stayput place ranks=balanced:l3,threads=compact -n 4x8 --as mpich
  stayput place --ranks-per numa --as openmpi4
  stayput place ranks=balanced:numa,threads=scatter -n 4x8 --as sbatch > job.sh; sbatch job.sh ./app
  stayput place --count -n 2x2 --machine xeon-e5405";

/// Prints the placement, and on standard error what its reader should know; or the distinct placements.
///
/// # Errors
/// A [`UsageError`] for a policy, machine, syntax or number of threads that can't be; else a failure to write.
pub fn run(args: &PlaceArgs) -> anyhow::Result<()> {
    if args.ranks_per.is_some() || args.threads.and_then(ThreadCount::ranks).is_some() {
        return place_ranks(args);
    }
    let Some(policy) = &args.policy else {
        return distinct(args);
    };
    let policy: Policy = policy.parse().map_err(UsageError::from)?;
    let syntax: Syntax = args.syntax.parse().map_err(UsageError::from)?;
    let machine = Machine::named(&args.machine).map_err(UsageError::from)?;
    let placement = policy_placement(&policy, threads(args), &machine)?;
    let text = if args.env { syntax.line(&placement) } else { syntax.value(&placement) }.map_err(UsageError::from)?;
    crate::print(&format!("{text}\n"))?;
    for note in notes(&machine, &placement, syntax) {
        eprintln!("stayput: {note}");
    }
    Ok(())
}

/// Threads of a program without ranks.
fn threads(args: &PlaceArgs) -> Option<usize> {
    args.threads.and_then(ThreadCount::threads).map(|threads| threads as usize)
}

/// Prints where ranks go, or all placements of ranks that differ, or how many there are.
fn place_ranks(args: &PlaceArgs) -> anyhow::Result<()> {
    let machine = Machine::named(&args.machine).map_err(UsageError::from)?;
    if let Some(per) = args.ranks_per {
        if args.threads.and_then(ThreadCount::ranks).is_some() {
            return Err(UsageError::from("with --ranks-per, -n says threads of each rank only"));
        }
        let shape = per.shape(&machine, threads(args))?;
        return ranks::place(args.policy.as_deref().unwrap_or(&per.policy()), shape, &args.syntax, &machine);
    }
    // The caller has made sure that it is there.
    let Some(shape) = args.threads.and_then(ThreadCount::ranks) else { return Ok(()) };
    if let Some(policy) = &args.policy {
        return ranks::place(policy, shape, &args.syntax, &machine);
    }
    if args.important || args.ordered {
        return Err(UsageError::from(
            "of ranks x threads there are --all and --count; leave out --important and --ordered",
        ));
    }
    let distinct = with_progress(|| Distinct::new(&machine)).map_err(UsageError::from)?;
    if args.count {
        let classes = with_progress(|| distinct.rank_classes(shape)).map_err(UsageError::from)?.to_string();
        let families = distinct.rank_families(shape).map_err(UsageError::from)?.to_string();
        if args.format == Format::Json {
            return crate::print(&format!("{}\n", json!({ "classes": classes, "placements": families })));
        }
        let plural = if classes == "1" { "" } else { "s" };
        let name = machine.name();
        return crate::print(&format!(
            "{classes} distinct placement{plural} of {shape} on {name}, out of {families}\n"
        ));
    }
    let all = with_progress(|| distinct.rank_placements(shape)).map_err(UsageError::from)?;
    let shown = all.iter().take(args.limit.unwrap_or(usize::MAX));
    match args.format {
        Format::List => crate::print_by(|out| shown.into_iter().try_for_each(|placement| writeln!(out, "{placement}"))),
        Format::Json => {
            let slots = |placement: &machine::RankPlacement| {
                json!(placement.ranks.iter().map(|rank| rank.cpus()).collect::<Vec<_>>())
            };
            crate::print(&format!("{}\n", json!(shown.map(slots).collect::<Vec<_>>())))
        }
    }
}

/// The placement of so many threads; where no number is given, of as many as the policy places by default.
pub(crate) fn policy_placement(
    policy: &Policy,
    threads: Option<usize>,
    machine: &Machine,
) -> anyhow::Result<Placement> {
    let threads = threads.unwrap_or_else(|| policy.default_threads(machine));
    policy.place(machine, threads).map_err(UsageError::from)
}

/// Prints the classes of placements, or their number.
fn distinct(args: &PlaceArgs) -> anyhow::Result<()> {
    let machine = Machine::named(&args.machine).map_err(UsageError::from)?;
    let distinct = with_progress(|| Distinct::new(&machine)).map_err(UsageError::from)?;
    // Clap has made sure that it is there.
    let threads = threads(args).unwrap_or(0);
    if args.count {
        return crate::print(&with_progress(|| count(args, &distinct, threads))?);
    }
    let unordered: Box<dyn Iterator<Item = Class>> = if args.important {
        Box::new(with_progress(|| distinct.important(threads)).map_err(UsageError::from)?.into_iter())
    } else {
        let mut classes = with_progress(|| distinct.iter(threads)).map_err(UsageError::from)?;
        let first = with_progress(|| classes.next());
        Box::new(first.into_iter().chain(classes))
    };
    let classes: Box<dyn Iterator<Item = Class>> =
        if args.ordered { Box::new(unordered.flat_map(|class| distinct.orders(&class))) } else { unordered };
    let classes = classes.take(args.limit.unwrap_or(usize::MAX));
    match args.format {
        Format::List => {
            let columns = Columns::new(&distinct, threads)?;
            crate::print_by(|out| write_list(out, classes, &columns, args.ordered))
        }
        Format::Json => crate::print_by(|out| write_json(out, classes, args.ordered)),
    }
}

/// Does some work, and says on standard error that it goes on: after a second, and then every ten.
fn with_progress<T>(work: impl FnOnce() -> T) -> T {
    let (finished, is_finished) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            let begin = Instant::now();
            let mut pause = Duration::from_secs(1);
            while is_finished.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                eprintln!(
                    "stayput: still looking for the distinct placements after {} s; a machine with fewer CPUs or levels takes less",
                    begin.elapsed().as_secs()
                );
                pause = Duration::from_secs(10);
            }
        });
        let result = work();
        drop(finished);
        result
    })
}

fn count(args: &PlaceArgs, distinct: &Distinct, threads: usize) -> anyhow::Result<String> {
    let classes = if args.ordered { distinct.ordered_classes(threads) } else { distinct.classes(threads) }
        .map_err(UsageError::from)?;
    let cpu_sets = distinct.cpu_sets(threads).map_err(UsageError::from)?;
    if args.format == Format::Json {
        let counts = json!({ "classes": classes.to_string(), "cpu_sets": cpu_sets.to_string() });
        return Ok(format!("{counts}\n"));
    }
    let machine = distinct.machine();
    let plural = |n: &str| if n == "1" { "" } else { "s" };
    let (classes, cpu_sets) = (classes.to_string(), cpu_sets.to_string());
    Ok(format!(
        "{classes} distinct placement{} of {threads} thread{} on {}{}, out of {cpu_sets} set{} of CPUs\n",
        plural(&classes),
        plural(&threads.to_string()),
        machine.name(),
        if args.ordered { ", the order of threads counted" } else { "" },
        plural(&cpu_sets),
    ))
}

/// The columns of the list by their headers.
const HEADERS: [&str; 3] = ["CPUs by thread", "CPU sets", "policies"];

/// How wide the columns of the list can get, known before the first class is.
struct Columns {
    cpus: usize,
    cpu_sets: usize,
}

impl Columns {
    fn new(distinct: &Distinct, threads: usize) -> anyhow::Result<Self> {
        let mut widths: Vec<usize> = distinct.machine().usable().map(|cpu| cpu.to_string().len() + 1).collect();
        widths.sort_unstable_by(|a, b| b.cmp(a));
        let cpus = widths.iter().take(threads).sum::<usize>() - 1;
        let cpu_sets = distinct.cpu_sets(threads).map_err(UsageError::from)?.to_string().len();
        Ok(Self { cpus: cpus.max(HEADERS[0].len()), cpu_sets: cpu_sets.max(HEADERS[1].len()) })
    }

    fn line(&self, cpus: &str, cpu_sets: &str, rest: &str) -> String {
        format!("{cpus:<0$}  {cpu_sets:>1$}  {rest}", self.cpus, self.cpu_sets).trim_end().to_owned()
    }
}

/// The headers, and one line for each class: CPUs by thread, number of sets of CPUs, policies, order.
fn write_list(
    out: &mut impl Write,
    classes: impl Iterator<Item = Class>,
    columns: &Columns,
    ordered: bool,
) -> std::io::Result<()> {
    let [cpus, cpu_sets, policies] = HEADERS;
    let order = if ordered { "  [order of threads]" } else { "" };
    writeln!(out, "{}", columns.line(cpus, cpu_sets, &format!("{policies}{order}")))?;
    for class in classes {
        let cpus = class.cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let mut rest = Vec::new();
        if let Some((name, others)) = class.policies.split_first() {
            let others: Vec<String> = others.iter().map(Policy::to_string).collect();
            rest.push(if others.is_empty() { name.to_string() } else { format!("{name} ({})", others.join(", ")) });
        }
        if !class.order.is_empty() {
            let order: Vec<String> = class.order.iter().map(|(level, how)| format!("{level} {how}")).collect();
            rest.push(format!("[{}]", order.join(", ")));
        }
        writeln!(out, "{}", columns.line(&cpus, &class.cpu_sets.to_string(), &rest.join("  ")))?;
    }
    Ok(())
}

/// A JSON list with an object for each class, on a line of its own.
fn write_json(out: &mut impl Write, classes: impl Iterator<Item = Class>, ordered: bool) -> std::io::Result<()> {
    let mut separator = "[\n";
    for class in classes {
        let mut value = json!({
            "cpus": class.cpus,
            "cpu_sets": class.cpu_sets.to_string(),
            "name": class.name().map(Policy::to_string),
            "policies": class.policies.iter().map(Policy::to_string).collect::<Vec<_>>(),
        });
        if ordered {
            let order = class.order.iter().map(|(level, how)| (level.clone(), json!(how)));
            value["order"] = Value::Object(order.collect::<Map<_, _>>());
        }
        write!(out, "{separator}{value}")?;
        separator = ",\n";
    }
    // No class at all, by a limit of zero.
    let begin = if separator == "[\n" { "[" } else { "" };
    writeln!(out, "{begin}\n]")
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
