//! Ranks x threads on the command line: `place -n 4x8`, `run -n 4x8 --mpi openmpi`.

use crate::UsageError;
use crate::run::{RunArgs, grouped};
use anyhow::Context;
use launch::mpi::Mpi;
use launch::{Descendants, Exit, Launch, Output};
use machine::{Machine, RankLevel, RankPlacement, RankPolicy, RankShape, RankSyntax};
use std::ffi::OsString;
use std::str::FromStr;
use strum::VariantArray;
use study::Binding;
use study::plan::UNBOUND;
use study::ranks::{RankLaunch, RanksLaunched, launch_ranks};

/// The launchers of MPI programs by name.
pub(crate) fn launchers() -> Vec<String> {
    Mpi::VARIANTS.iter().map(ToString::to_string).collect()
}

/// So many ranks in each object of a level: `numa`, or `numa:2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RanksPer {
    level: RankLevel,
    count: usize,
}

impl FromStr for RanksPer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (level, count) = text.split_once(':').unwrap_or((text, "1"));
        let level = level.parse().map_err(|error: machine::RankError| error.to_string())?;
        let count = count.parse().ok().filter(|count| *count > 0);
        let count =
            count.ok_or_else(|| format!("`{text}` needs a number of ranks from 1 up after the colon, as in numa:2"))?;
        Ok(Self { level, count })
    }
}

impl RanksPer {
    /// How many ranks that makes, and how many threads each has if nobody says.
    pub(crate) fn shape(self, machine: &Machine, threads: Option<usize>) -> anyhow::Result<RankShape> {
        RankPolicy::shape_per(machine, self.level, self.count, threads).map_err(UsageError::from)
    }

    /// Where they go if nobody says.
    pub(crate) fn policy(self) -> String {
        format!("ranks=balanced:{},threads=compact", self.level)
    }
}

/// Where ranks go.
pub(crate) fn placement(policy: &str, shape: RankShape, machine: &Machine) -> anyhow::Result<RankPlacement> {
    policy.parse::<RankPolicy>().and_then(|policy| policy.place(machine, shape)).map_err(UsageError::from)
}

/// Prints where ranks go in the words of a launcher, and on standard error what its reader should know.
pub(crate) fn place(policy: &str, shape: RankShape, syntax: &str, machine: &Machine) -> anyhow::Result<()> {
    let syntax: RankSyntax = syntax.parse().map_err(UsageError::from)?;
    let placement = placement(policy, shape, machine)?;
    crate::print(&format!("{}\n", syntax.text(&placement, machine)))?;
    if placement.doubled_up() > 0 {
        eprintln!(
            "stayput: {} of the {} threads must share a CPU with an earlier one; usable here: {}",
            placement.doubled_up(),
            shape.total(),
            machine.usable_cpus().named()
        );
    }
    if !syntax.keeps_threads() && shape.threads > 1 {
        eprintln!(
            "stayput: {syntax} binds each rank to a set of CPUs, and any of its threads may run on any of them; OMP_PLACES=threads \
             OMP_PROC_BIND=close binds them in the order of the machine's tree, and `stayput run --mpi` each to its own"
        );
    }
    Ok(())
}

/// Runs an MPI program with each thread of each rank bound, and ends as its launcher did.
pub(crate) fn run(args: &RunArgs, mpi: Mpi) -> anyhow::Result<u8> {
    if args.shell.is_some() {
        return Err(UsageError::from("--mpi starts CMD itself; leave out --shell, or let CMD be sh"));
    }
    if args.conditions.over(launch::Conditions::default())? != launch::Conditions::default() {
        return Err(UsageError::from(
            "ranks can be placed, and nothing else yet; leave out --memory, --huge-pages, --sched and --beside",
        ));
    }
    let place = args.place.as_deref().filter(|place| *place != UNBOUND);
    let (ranks, threads) = args.threads.map_or((None, None), |count| (count.ranks(), count.threads()));
    let machine = if place.is_some() || args.ranks_per.is_some() { Some(Machine::host()?) } else { None };
    let shape = match (ranks, args.ranks_per, &machine) {
        (Some(shape), None, _) => shape,
        (None, Some(per), Some(machine)) => per.shape(machine, threads.map(|threads| threads as usize))?,
        (Some(_), Some(_), _) => {
            return Err(UsageError::from(
                "-n says how many ranks there are, and so does --ranks-per; with it -n says threads only",
            ));
        }
        // As mpirun -n: the program decides how many threads it has.
        (None, None, _) if threads.is_some() && place.is_none() => {
            RankShape::new(threads.unwrap_or(1) as usize, 1).map_err(UsageError::from)?
        }
        _ => return Err(UsageError::from("say how many ranks and threads of each, as in -n 4x8, or --ranks-per numa")),
    };
    let sets_threads = ranks.is_some() || args.ranks_per.is_some();
    let of_level = args.ranks_per.map(RanksPer::policy).filter(|_| args.place.is_none());
    let placement = match (place.or(of_level.as_deref()), &machine) {
        (Some(place), Some(machine)) => Some(placement(place, shape, machine)?),
        _ => None,
    };
    let options = args.mpi_args.as_deref().map(shell_words::split).transpose();
    let options =
        options.map_err(|error| UsageError::from(format!("--mpi-args can't be split into words: {error}")))?;
    let (options, further) =
        if args.mpi_bind_none { (None, options.unwrap_or_default()) } else { (options, Vec::new()) };
    if let Some(conflict) = Mpi::conflict(&further) {
        return Err(UsageError::from(format!("--mpi-args: {conflict}, and with --mpi-bind-none nothing there may")));
    }
    let binding = Binding::from(args.binding.clone());
    let own = std::env::current_exe().context("cannot tell where this program is, which has to wrap each rank")?;
    let keeps_binding_variables = placement.is_none() || options.is_some();
    let launch = RankLaunch {
        mpi,
        options,
        further,
        shape,
        sets_threads,
        placement,
        skip: binding.skip,
        roles: binding.slots,
        observe: binding.observe,
        binds_helpers: args.bind_mpi_helpers,
        keeps_binding_variables,
        timeout: None,
        in_a_study: false,
        launcher: Launch {
            output: Output::Inherit,
            descendants: Descendants::Detach,
            keep_binding_variables: true,
            ..Launch::default()
        },
        wrapper: vec![own.into_os_string(), OsString::from("rank")],
    };
    let json = args.json_file(&args.command)?;
    let RanksLaunched { launched, launcher_s, ranks, .. } =
        launch_ranks(&launch, &args.command).map_err(|error| match error {
            study::ranks::RankError::Launch(error) => crate::unstartable(error, &args.command[0]),
            study::ranks::RankError::NoLauncher(..) => UsageError::from(error),
            error => error.into(),
        })?;
    let seen = launched.observation;
    if let Some(json) = json {
        let value = serde_json::json!({
            "command": args.command.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>(),
            "mpi": mpi,
            "shape": shape,
            "placement": args.place.as_deref().or(of_level.as_deref()).unwrap_or(UNBOUND),
            "exit": seen.exit,
            "wall_s": seen.wall_s,
            "launcher_s": launcher_s,
            "ranks": ranks,
            "notes": seen.notes,
        });
        let text = serde_json::to_string_pretty(&value).context("what was seen can't be written as JSON")?;
        json.write(format!("{}\n", terminal::printable_json(&text)))?;
    }
    if !args.quiet {
        eprint!("{}{}", crate::run::summary(&seen, false), rank_table(&ranks));
        eprintln!("{:>12}  {launcher_s:.6} s, of which the longest rank had the time above", "launcher");
    }
    match seen.exit {
        Exit::Code(code) => Ok(code as u8),
        Exit::Signal(signal) => launch::die_by(signal),
        Exit::TimedOut => unreachable!("no timeout was given"),
    }
}

/// More threads than this are not listed one by one.
const LISTED_THREADS: usize = 64;

/// Where each thread of each rank was, a line a thread.
fn rank_table(ranks: &[study::ranks::RankObservation]) -> String {
    let all: usize = ranks.iter().map(|rank| rank.observation.threads.len()).sum();
    let mut rows =
        vec![["rank", "thread", "intended", "actual", "from launcher", "last on", "migrations"].map(String::from)];
    for rank in ranks {
        for thread in &rank.observation.threads {
            if all > LISTED_THREADS && !thread.strayed() {
                continue;
            }
            let intended = match (&thread.intended_cpus, thread.is_helper) {
                (_, true) => "free (MPI helper)".to_owned(),
                (Some(cpus), false) => cpus.to_string(),
                (None, false) => "-".to_owned(),
            };
            let process = if thread.process > 0 { format!(" of process {}", thread.process) } else { String::new() };
            rows.push([
                rank.identity.rank.to_string(),
                format!("{}{process}", thread.thread),
                intended,
                format!("{}{}", thread.actual_cpus, if thread.strayed() { " (strayed)" } else { "" }),
                rank.inherited_cpus.to_string(),
                thread.last_cpu.map_or("-".into(), |cpu| cpu.to_string()),
                thread.migrations.map_or("-".into(), grouped),
            ]);
        }
    }
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..7).map(width).collect();
    let mut text = String::new();
    if all > LISTED_THREADS {
        text.push_str(&format!(
            "{:>12}  {} of {} ranks; only those that strayed are listed\n",
            "threads",
            grouped(all as u64),
            ranks.len()
        ));
    }
    for row in rows.iter().filter(|_| rows.len() > 1) {
        let cells: Vec<String> = (1..7).map(|column| format!("{:1$}", row[column], widths[column])).collect();
        text.push_str(format!("{:>12}  {}", row[0], cells.join("  ")).trim_end());
        text.push('\n');
    }
    text
}
