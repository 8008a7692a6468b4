//! `stayput run`: one program with its threads bound and read back, otherwise as if it had been started bare.

use crate::binding::BindingArgs;
use crate::conditions::{self, ConditionArgs, ConditionsReport};
use crate::ranks::{self, RanksPer};
use crate::thread_count::ThreadCount;
use crate::{UsageError, placement_file, shell};
use anyhow::Context;
use launch::mpi::Mpi;
use launch::observation::STOPS_TO_TELL;
use launch::{Attached, Attachment, Conditions, Descendants, Interruptions, Launch, Launched, Output, Target};
use machine::{CpuSet, Machine, Placement, Policy};
use output::{Inputs, ResultFile};
use serde::Serialize;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use study::plan::UNBOUND;
use study::study_file::Span;
use study::{Binding, Exit, Observation, ThreadObservation};

/// Run a program with each thread bound, and read back where it was
///
/// Threads are bound in order of creation: an OpenMP program's by the runtime that it links, all others as they appear.
/// Exit code, signals and terminal are as if the program had been started bare. A summary follows on standard error.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("running").args(["pid", "cgroup"]))]
pub struct RunArgs {
    /// How many threads: sets OMP_NUM_THREADS, and makes the placement this long; with --mpi,
    /// ranks x threads of each, as in 4x8, or ranks alone
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) threads: Option<ThreadCount>,

    /// Where they go: a policy or a set of CPUs (see `stayput place --help`), a CPU list in thread order such as
    /// 0,8,1,9, a study's .stayput file (its best placement), or `unbound`; without it the program is only observed
    #[arg(short, long, value_name = "POLICY|LIST|FILE", add = shell::names_and_files(shell::placements, "stayput"))]
    pub(crate) place: Option<String>,

    /// Write what was seen to FILE, as JSON (`-`: standard output)
    #[arg(long, value_name = "FILE", add = shell::files("json"))]
    json: Option<PathBuf>,

    #[command(flatten, next_help_heading = "What it runs under")]
    pub(crate) conditions: ConditionArgs,

    #[command(flatten, next_help_heading = "How its threads are bound")]
    pub(crate) binding: BindingArgs,

    /// Start CMD as the ranks of an MPI program by this launcher, which binds nothing: openmpi, mpich (Hydra, Intel MPI too) or srun
    #[arg(long, value_name = "LAUNCHER", conflicts_with = "running", help_heading = "MPI")]
    mpi: Option<Mpi>,
    /// What to say to the launcher. It then binds as it is told, or by default; ranks are read back, and compared with --place
    #[arg(long, value_name = "ARGS", requires = "mpi", allow_hyphen_values = true, help_heading = "MPI")]
    pub(crate) mpi_args: Option<String>,
    /// With --mpi-args let the launcher bind nothing all the same, and --place bind
    #[arg(long, requires = "mpi_args", help_heading = "MPI")]
    pub(crate) mpi_bind_none: bool,
    /// So many ranks in each node, package, numa, l3, l2, core or pu, as in numa:2; -n then says threads of each
    #[arg(long, value_name = "LEVEL[:K]", requires = "mpi", help_heading = "MPI")]
    pub(crate) ranks_per: Option<RanksPer>,
    /// Let threads that the MPI library starts for itself take places as all others do [default: left free]
    #[arg(long, requires = "mpi", help_heading = "MPI")]
    pub(crate) bind_mpi_helpers: bool,

    /// Print no summary
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Let a shell read CMD as a line of its own, with pipes and variables [default: none; sh where no SHELL is named]
    #[arg(long, value_name = "SHELL", num_args = 0..=1, default_missing_value = "sh")]
    pub(crate) shell: Option<OsString>,

    /// Bind this process and all that descends from it, which run already, and give them back what they had at the end: of CMD, of --for,
    /// of the process, or at Ctrl-C
    #[arg(long, value_name = "PID", conflicts_with_all = ["shell", "cgroup"])]
    pid: Option<i32>,
    /// Bind the processes of this control group, likewise
    #[arg(long, value_name = "PATH", conflicts_with = "shell", value_hint = clap::ValueHint::DirPath)]
    cgroup: Option<PathBuf>,
    /// How long they stay bound [default: until one of the others]
    #[arg(long = "for", value_name = "DURATION", requires = "running", conflicts_with = "command")]
    duration: Option<Span>,

    /// The program and its arguments
    #[arg(last = true, required_unless_present_any = ["pid", "cgroup"], value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

impl RunArgs {
    /// Where `--json` is to go.
    pub(crate) fn json_file(&self, command: &[OsString]) -> anyhow::Result<Option<ResultFile>> {
        Ok(self.json.as_deref().map(|path| ResultFile::named(path, inputs(self, command))).transpose()?)
    }
}

/// Runs the program and ends as it did.
pub fn run(args: &RunArgs) -> anyhow::Result<u8> {
    if let Some(target) = crate::study::target(args.pid, args.cgroup.as_deref())? {
        return bind_running(args, &target);
    }
    if let Some(mpi) = args.mpi {
        return ranks::run(args, mpi);
    }
    if let Some(shape) = args.threads.and_then(ThreadCount::ranks) {
        return Err(UsageError::from(format!(
            "{shape} is ranks x threads; say which MPI starts the ranks: --mpi openmpi, mpich or srun"
        )));
    }
    let command = match &args.shell {
        Some(shell) => vec![shell.clone(), "-c".into(), args.command.join(OsStr::new(" "))],
        None => args.command.clone(),
    };
    let Found { placement, threads, binding, conditions } = found(args, &command)?;
    let conditions = args.conditions.over(conditions)?;
    // Before the program runs: a result that can't be kept is better known at once.
    let json = args.json_file(&command)?;
    let launched = launch::launch(&Launch {
        placement,
        threads,
        skip: binding.skip,
        roles: binding.slots,
        unit: binding.unit,
        observe: binding.observe,
        output: Output::Inherit,
        descendants: Descendants::Detach,
        keep_binding_variables: args.place.is_none(),
        conditions: conditions.clone(),
        read_memory: args.conditions.ask_of_memory(),
        ..Launch::new(command.clone())
    });
    let Launched { observation: mut seen, not_in_force, .. } =
        launched.map_err(|error| crate::unstartable(error, &command[0]))?;
    seen.notes.extend(not_in_force);
    if let Some(json) = json {
        let report = Report::new(args, threads, &conditions, &seen);
        let text = serde_json::to_string_pretty(&report).context("what was seen can't be written as JSON")?;
        json.write(format!("{}\n", terminal::printable_json(&text)))?;
    }
    if !args.quiet {
        eprint!("{}", summary(&seen, true));
    }
    match seen.exit {
        Exit::Code(code) => Ok(code as u8),
        Exit::Signal(signal) => launch::die_by(signal),
        Exit::TimedOut => unreachable!("no timeout was given"),
    }
}

/// How often one looks whether what is bound has ended.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// Binds what runs already, for as long as is asked for.
fn bind_running(args: &RunArgs, target: &Target) -> anyhow::Result<u8> {
    if args.json.is_some() || args.conditions.over(Conditions::default())? != Conditions::default() {
        return Err(UsageError::from(
            "what runs already can be placed, and nothing else; leave out --json, --memory, --huge-pages, --sched and --beside",
        ));
    }
    let Found { placement, binding, conditions, .. } = found(args, &args.command)?;
    if !conditions.is_default() {
        return Err(UsageError::from(
            "what runs already can be placed, and nothing else, but that study's best is more than a place",
        ));
    }
    let attachment = Attachment { placement, unit: binding.unit, skip: binding.skip, roles: binding.slots };
    let held = Interruptions::hold();
    let attached = Attached::begin(target, &attachment).map_err(|error| anyhow::anyhow!("{error}"))?;
    let mut code = crate::SUCCESS;
    let until = args.duration.map(|Span(duration)| Instant::now() + duration);
    if args.command.is_empty() {
        let is_over = || until.is_some_and(|until| Instant::now() >= until) || attached.has_ended();
        while launch::interruption().is_none() && !is_over() {
            std::thread::sleep(BETWEEN_LOOKS);
        }
    } else {
        let launched = launch::launch(&Launch::new(args.command.clone()));
        let exit = launched.map_err(|error| crate::unstartable(error, &args.command[0]))?.observation.exit;
        code = match exit {
            Exit::Code(code) => code as u8,
            Exit::Signal(signal) => (128 + signal) as u8,
            Exit::TimedOut => crate::FAILURE,
        };
    }
    let seen = attached.end();
    drop(held);
    if !args.quiet {
        let ended = if seen.has_ended { ", which has ended" } else { "" };
        eprintln!("stayput: {target}{ended}, bound for {:.1} s", seen.observation.wall_s);
        eprint!("{}", thread_table(&seen.observation.threads));
    }
    match launch::interruption() {
        Some(signal) => launch::die_by(signal),
        None => Ok(code),
    }
}

/// What the run is made from.
fn inputs(args: &RunArgs, command: &[OsString]) -> Inputs {
    let mut inputs = Inputs::default();
    if let Some(place) = args.place.as_deref().filter(|place| Path::new(place).is_file()) {
        inputs.add_journal(Path::new(place));
    }
    inputs.add_command(launch::executable_path(&command[0]).ok().as_deref(), &command[1..]);
    inputs
}

/// Where the threads go and how many there are, if either was said; how they are bound, and what a study says of conditions.
struct Found {
    placement: Option<Placement>,
    threads: Option<u32>,
    binding: Binding,
    conditions: Conditions,
}

fn found(args: &RunArgs, command: &[OsString]) -> anyhow::Result<Found> {
    let threads = args.threads.and_then(ThreadCount::threads);
    let (binding, conditions) = (Binding::from(args.binding.clone()), Conditions::default());
    let Some(place) = args.place.as_deref().filter(|place| *place != UNBOUND) else {
        return Ok(Found { placement: None, threads, binding, conditions });
    };
    if Path::new(place).extension().is_some_and(|extension| extension == "stayput") {
        let argv: Vec<String> = command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let best = placement_file::best_placement(Path::new(place), &argv)?;
        if best.placement.is_none() && best.conditions.is_default() && !args.quiet {
            eprintln!("stayput: {place} shows no placement that beats running unbound; nothing is bound");
        }
        for change in best.changes.iter().filter(|_| !args.quiet) {
            eprintln!(
                "stayput: since the study in {place} {change}; what it found may not hold any more: study it again"
            );
        }
        // What was found holds for threads that are bound as the study bound them.
        let binding = if binding.is_default() { best.binding } else { binding };
        let threads = threads.or(Some(best.threads));
        return Ok(Found { placement: best.placement, threads, binding, conditions: best.conditions });
    }
    let placement = match place.parse::<Policy>().map_err(UsageError::from)? {
        // Reading the topology would take longer than starting the program.
        Policy::List(_) => Placement::from_list_on_host(place),
        policy => {
            let machine = Machine::host()?;
            let threads = threads.map_or_else(|| policy.default_threads(&machine), |threads| threads as usize);
            policy.place(&machine, threads)
        }
    };
    Ok(Found { placement: Some(placement.map_err(UsageError::from)?), threads, binding, conditions })
}

/// What `--json` writes, in the words of the report's trials.
#[derive(Serialize)]
struct Report<'a> {
    command: Vec<String>,
    /// Threads asked for; else those that the command had.
    threads: u32,
    placement: &'a str,
    exit: Exit,
    wall_s: f64,
    user_s: f64,
    system_s: f64,
    max_rss_bytes: u64,
    voluntary_switches: u64,
    involuntary_switches: u64,
    migrations: Option<u64>,
    minor_faults: u64,
    major_faults: u64,
    counters: &'a BTreeMap<String, u64>,
    stops: Option<u64>,
    stops_s: Option<f64>,
    #[serde(flatten)]
    conditions: ConditionsReport<'a>,
    /// For each thread, in order of creation.
    intended_cpus: Vec<Option<&'a CpuSet>>,
    actual_cpus: Vec<&'a CpuSet>,
    thread_details: &'a [ThreadObservation],
    notes: &'a [String],
}

impl<'a> Report<'a> {
    fn new(args: &'a RunArgs, threads: Option<u32>, conditions: &'a Conditions, seen: &'a Observation) -> Self {
        let of_command = seen.threads.iter().filter(|thread| thread.process == 0).count() as u32;
        Self {
            command: args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            threads: threads.unwrap_or(of_command),
            placement: args.place.as_deref().unwrap_or(UNBOUND),
            exit: seen.exit,
            wall_s: seen.wall_s,
            user_s: seen.user_s,
            system_s: seen.system_s,
            max_rss_bytes: seen.max_rss_bytes,
            voluntary_switches: seen.voluntary_switches,
            involuntary_switches: seen.involuntary_switches,
            migrations: seen.migrations,
            minor_faults: seen.minor_faults,
            major_faults: seen.major_faults,
            counters: &seen.counters,
            stops: seen.stops,
            stops_s: seen.stops_s,
            conditions: ConditionsReport::new(conditions, &seen.conditions),
            intended_cpus: seen.threads.iter().map(|thread| thread.intended_cpus.as_ref()).collect(),
            actual_cpus: seen.threads.iter().map(|thread| &thread.actual_cpus).collect(),
            thread_details: &seen.threads,
            notes: &seen.notes,
        }
    }
}

/// More threads than this are counted, and only those that strayed are listed.
const LISTED_THREADS: usize = 16;

/// What was seen, in lines; with its threads where they are `listed`.
pub(crate) fn summary(seen: &Observation, listed: bool) -> String {
    let mut text = String::from("\n");
    let mut line = |label: &str, value: String| {
        let _ = writeln!(text, "{label:>12}  {value}");
    };
    line("ended", ended(seen.exit));
    line("time", format!("{:.6} s wall, {:.6} s user, {:.6} s system", seen.wall_s, seen.user_s, seen.system_s));
    line("peak memory", format!("{:.1} MiB", seen.max_rss_bytes as f64 / f64::from(1 << 20)));
    let (voluntary, involuntary) = (grouped(seen.voluntary_switches), grouped(seen.involuntary_switches));
    let migrations = seen.migrations.map_or("not known here".into(), grouped);
    line("switches", format!("{voluntary} voluntary, {involuntary} involuntary; migrations: {migrations}"));
    line("page faults", format!("{} without I/O, {} with", grouped(seen.minor_faults), grouped(seen.major_faults)));
    for (label, words) in conditions::in_words(&seen.conditions) {
        line(label, words);
    }
    for (name, count) in &seen.counters {
        line(&name.replace('_', " "), grouped(*count));
    }
    if let (Some(stops), Some(share)) = (seen.stops, seen.stopped_share().filter(|share| *share > STOPS_TO_TELL)) {
        line("watched", format!("{} stops of its threads, about {:.1} % of the time", grouped(stops), share * 100.0));
    }
    for note in &seen.notes {
        line("note", note.clone());
    }
    if listed {
        text.push_str(&thread_table(&seen.threads));
    }
    text
}

fn ended(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => format!("killed by signal {signal}"),
        Exit::TimedOut => "timed out".into(),
    }
}

fn thread_table(threads: &[ThreadObservation]) -> String {
    let mut listed: Vec<&ThreadObservation> = threads.iter().collect();
    let mut text = String::new();
    if threads.len() > LISTED_THREADS {
        let bound = threads.iter().filter(|thread| thread.intended_cpus.is_some() && !thread.strayed()).count();
        let alone = threads.iter().filter(|thread| thread.intended_cpus.is_none()).count();
        for (count, what) in [(bound, "bound as intended"), (alone, "not bound")] {
            if count > 0 {
                let _ = writeln!(text, "{:>12}  {} {what}", "threads", grouped(count as u64));
            }
        }
        listed.retain(|thread| thread.strayed());
        listed.truncate(LISTED_THREADS);
    }
    if listed.is_empty() {
        return text;
    }
    let several = threads.iter().any(|thread| thread.process > 0 || thread.exec > 0);
    let optional = |value: Option<String>| value.unwrap_or_else(|| "-".into());
    let mut rows =
        vec![["thread", "name", "of process", "intended", "actual", "last on", "migrations"].map(String::from)];
    rows.extend(listed.into_iter().map(|thread| {
        [
            thread.thread.to_string(),
            thread.name.as_deref().map_or("-".into(), |name| terminal::printable(name).replace('\n', " ")),
            process(thread),
            optional(thread.intended_cpus.as_ref().map(CpuSet::to_string)),
            format!("{}{}", thread.actual_cpus, if thread.strayed() { " (strayed)" } else { "" }),
            optional(thread.last_cpu.map(|cpu| cpu.to_string())),
            optional(thread.migrations.map(grouped)),
        ]
    }));
    // A program of one process needs no column for it.
    let columns: Vec<usize> = (1..7).filter(|column| several || *column != 2).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    for row in &rows {
        let cells: Vec<String> =
            columns.iter().map(|&column| format!("{:width$}", row[column], width = width(column))).collect();
        let _ = writeln!(text, "{}", format!("{:>12}  {}", row[0], cells.join("  ")).trim_end());
    }
    if several {
        let _ = writeln!(
            text,
            "{:>12}  process 0 is the command, and others are numbered as they appear; so are the threads of each",
            ""
        );
    }
    text
}

/// The process of a thread, and whether it had become another program by then.
fn process(thread: &ThreadObservation) -> String {
    match thread.exec {
        0 => thread.process.to_string(),
        1 => format!("{}, after exec", thread.process),
        times => format!("{}, after {times} execs", thread.process),
    }
}

/// A count with its thousands apart.
pub(crate) fn grouped(count: u64) -> String {
    match count {
        0..1000 => count.to_string(),
        _ => format!("{},{:03}", grouped(count / 1000), count % 1000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(process: u32, thread: u32, intended: Option<&str>, actual: &str) -> ThreadObservation {
        ThreadObservation {
            process,
            exec: 0,
            thread,
            tid: 7,
            intended_cpus: intended.map(|cpus| cpus.parse().unwrap()),
            actual_cpus: actual.parse().unwrap(),
            last_cpu: None,
            migrations: Some(1234),
            cpu_s: None,
            waited_s: None,
            is_helper: false,
            began_s: None,
            ended_s: None,
            name: Some("work".into()),
        }
    }

    #[test]
    fn few_threads_are_listed_with_where_they_were_meant_to_be() {
        let threads = [thread(0, 0, Some("0"), "0"), thread(0, 1, Some("8"), "0-9"), thread(0, 2, None, "0-9")];
        insta::assert_snapshot!(thread_table(&threads), @r"
              thread  name  intended  actual         last on  migrations
                   0  work  0         0              -        1,234
                   1  work  8         0-9 (strayed)  -        1,234
                   2  work  -         0-9            -        1,234
        ");
    }

    #[test]
    fn many_threads_are_counted_and_only_the_strayed_listed() {
        let mut threads: Vec<_> = (0..1000).map(|index| thread(0, index, Some("1"), "1")).collect();
        threads.push(thread(1, 0, Some("2"), "0-3"));
        insta::assert_snapshot!(thread_table(&threads), @r"
             threads  1,000 bound as intended
              thread  name  of process  intended  actual         last on  migrations
                   0  work  1           2         0-3 (strayed)  -        1,234
                      process 0 is the command, and others are numbered as they appear; so are the threads of each
        ");
    }

    #[test]
    fn processes_and_what_they_became_are_told_in_words() {
        let became = |exec| ThreadObservation { exec, ..thread(2, 0, Some("0"), "0") };
        insta::assert_snapshot!(thread_table(&[thread(0, 0, Some("0"), "0"), became(1), became(2)]), @r"
              thread  name  of process        intended  actual  last on  migrations
                   0  work  0                 0         0       -        1,234
                   0  work  2, after exec     0         0       -        1,234
                   0  work  2, after 2 execs  0         0       -        1,234
                      process 0 is the command, and others are numbered as they appear; so are the threads of each
        ");
    }
}
