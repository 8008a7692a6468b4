//! `stayput study`: from a command line or a study file to a plan, its trials, a verdict and a report.

mod commands;
mod conduct;
mod live_workloads;
mod paper;
mod venue;
mod workload;

pub(crate) use live_workloads::{LiveRequest, conduct_workloads};
pub(crate) use paper::conduct_paper;

use crate::binding::BindingArgs;
use crate::{UsageError, shell};
use anyhow::Context;
use clap::builder::NonEmptyStringValueParser;
use commands::{Command, Commands};
use conduct::{Conduct, can_start, conduct, default_journal, identified, is_program_gone};
use console::Term;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use launch::mpi::Mpi;
use launch::{Conditions, Target};
use machine::Machine;
use output::{OutputError, ResultFile};
use papers::Paper;
use report::{Format, Screen};
use simulation::SimulationPlan;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{ErrorKind, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use study::baseline::{BaselineComparison, common_cells};
use study::candidates::Among;
use study::engine::{self, EngineError, Event, Queue};
use study::input::{self, InputError};
use study::max_loss::{LossVerdict, MaxLoss};
use study::model_file::ModelFile;
use study::preparation::{IgnoredFailures, Variable};
use study::request::{CellPlan, Guarantee, NoBuiltin, RaceRequest, Request};
use study::server::ReadyWhen;
use study::slurm;
use study::study_file::{MixTable, Share, Span, StopTable, StudyFile, SubjectTable};
use study::{
    Binding, Comparison, HostFacts, Inputs, Journal, Metric, Plan, Race, Record, Site, Subject, Warning, journal,
    journal_name,
};
use terminal::printable;
use venue::Venue;
use workload::workload_subject;
use workloads::ResolveError;

/// Measure a program under several placements, or several of what else it runs under, until it is clear whether they differ
///
/// Every subject is run at every thread count under every treatment, interleaved in randomised blocks, until the
/// stop rule is met. Each trial is kept in a journal as it ends; the same command goes on where it stopped.
///
/// Journal and report hold the command, the last of what runs print, and the variables that reach OpenMP runtimes, allocators and
/// the loader, but no value of *TOKEN*, *SECRET*, *PASSWORD*, *PASSWD*, *API_KEY*, *CREDENTIAL* or of what --redact names. They are
/// for their owner alone unless --share is given.
#[derive(Default, clap::Args)]
#[command(after_help = "\
Examples:
  stayput study -- ./app input.dat
  stayput study -- ./app < input.dat
  stayput study -n 1,2,4,all --place unbound,compact,scatter npb:cg.A
  stayput study --best -n 1,all -- ./app
  stayput study --best --place scatter --max-loss 5 -- ./app
  stayput study --best --subject-model bt.toml --machine opteron-6272 -n 32
  stayput study --place unbound,scatter --sched default,batch -- ./app
  stayput study --beside none,'make -C linux' -- ./app
  stayput study --mix 'npb:cg.W*2 + ./app' --place unbound,scatter
  stayput study --metric 'tps higher = tps: ([0-9.]+)' --metric 'p95 [ms] lower = json:/p95' -- ./bench
  stayput study --place unbound --place 0,8,1,9 --time-regex 'elapsed: ([0-9.]+)' -- ./app
  stayput study -n 1x8,2x4,4x2,8x1 --mpi openmpi --place unbound,ranks=balanced:numa -- ./app
  stayput study study.toml --budget 1h
  stayput study papers/pires-2016.toml --class W")]
pub struct StudyArgs {
    /// Built-in programs such as npb:cg.W, or one study file (.toml)
    #[arg(value_name = "SUBJECT", add = shell::names_and_files(shell::subjects, "toml"))]
    subjects: Vec<String>,
    /// Program to study, with its arguments; {threads} stands for the thread count, and {block} for the number of the block, as a seed that
    /// is the same for all that is compared
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
    /// A study for each of these values, which stand for {NAME} in CMD and in the lines around it; given several times, for each combination
    #[arg(short = 'L', long = "parameter-list", value_names = ["NAME", "VALUES"], num_args = 2, requires = "command")]
    parameters: Vec<String>,
    /// Let a shell read CMD as a line of its own, with pipes and variables [default: none; sh where no SHELL is named]
    #[arg(long, value_name = "SHELL", num_args = 0..=1, default_missing_value = "sh", requires = "command")]
    shell: Option<String>,
    /// Thread counts: numbers, ranges, `all`; with --mpi, ranks x threads such as 1x8,2x4,4x2,8x1 [default: all]
    #[arg(short = 'n', long = "threads", value_name = "LIST", value_delimiter = ',')]
    threads: Vec<String>,
    /// Placements: unbound, compact, scatter, balanced, semi-balanced, unbalanced, sets of CPUs such as node:0 (see
    /// `stayput place --help`), or CPU lists; with --mpi also of ranks: ranks=scatter:numa,threads=compact, or 0,1/2,3 [default: unbound,compact,scatter; unbound alone where something else varies]
    #[arg(long = "place", value_name = "LIST", value_parser = NonEmptyStringValueParser::new(), add = shell::names(shell::placements))]
    placements: Vec<String>,
    /// Workload file of the simulator, or a built-in workload, whose processes are made real: they work, sleep and wait as simulated ones
    /// do, with other draws in each block. Compared is the time until all have ended
    #[arg(long, value_name = "NAME|FILE", conflicts_with_all = ["subjects", "command"], add = shell::workloads())]
    workload: Option<String>,
    /// Problem class of every built-in program, whatever class it is named with [default: the class that it is named with]
    #[arg(long, value_name = "CLASS", value_parser = NonEmptyStringValueParser::new())]
    class: Option<String>,
    /// File that every run reads as its standard input [default: what comes by standard input, unless that is a terminal]
    #[arg(long, value_name = "FILE", conflicts_with = "subject_model", value_hint = clap::ValueHint::FilePath)]
    input: Option<PathBuf>,
    /// Journal to write, or to go on with [default: named after the command and its arguments, the study file, or the paper, with
    /// `-best` for a race: app-1000.stayput]
    #[arg(long, value_name = "FILE", add = shell::files("stayput"))]
    out: Option<PathBuf>,
    /// Start anew, and keep a journal that has the name as NAME.old-1.stayput, with its report
    #[arg(long, conflicts_with = "resume")]
    force: bool,
    /// Go on with the journal's study; an error when there is none (an existing journal is gone on with anyway)
    #[arg(long)]
    resume: bool,
    /// HTML report to write [default: the journal's name and .html]
    #[arg(long, value_name = "FILE", conflicts_with = "no_report", add = shell::files("html"))]
    report: Option<PathBuf>,
    /// Write no HTML report
    #[arg(long)]
    no_report: bool,
    /// Leave out the values of flags and variables whose names match (*KEY), in commands, output and the environment [default: only
    /// what always is, as said above]
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    redact: Vec<String>,
    /// Let others read the journal and the report, as far as the umask does [default: their owner alone]
    #[arg(long)]
    share: bool,
    /// Go on with a study on Slurm that this journal holds, and with what it has in the queue, by nothing but the journal's name
    #[arg(long, value_name = "JOURNAL", add = shell::files("stayput"), conflicts_with_all = ["subjects", "command", "parameters", "shell",
        "threads", "placements", "workload", "class", "input", "out", "force", "redact", "retry", "MixArgs", "TreatmentArgs", "SiteArgs",
        "StopArgs", "RaceArgs", "loaded_args", "PreparationArgs", "BaselineArgs", "WordArgs", "BindingArgs", "MpiArgs"])]
    attach: Option<PathBuf>,
    /// Try cells again that were given up after failures
    #[arg(long)]
    retry: bool,
    /// Don't show progress
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten, next_help_heading = "Several programs at once")]
    mixes: MixArgs,
    #[command(flatten, next_help_heading = "What else varies")]
    treatments: TreatmentArgs,
    #[command(flatten, next_help_heading = "Where")]
    place: SiteArgs,
    #[command(flatten, next_help_heading = "When it is enough")]
    stop: StopArgs,
    #[command(flatten, next_help_heading = "The best placement")]
    race: RaceArgs,
    #[command(flatten, next_help_heading = "A server and its load")]
    server: ServerArgs,
    #[command(flatten, next_help_heading = "Around the runs")]
    around: PreparationArgs,
    #[command(flatten, next_help_heading = "What was lost since")]
    baseline: BaselineArgs,
    #[command(flatten, next_help_heading = "The program's own words")]
    words: WordArgs,
    #[command(flatten, next_help_heading = "How the program's threads are bound")]
    binding: BindingArgs,
    #[command(flatten, next_help_heading = "MPI")]
    mpi: MpiArgs,
}

#[derive(Default, clap::Args)]
struct MpiArgs {
    /// Start CMD as ranks by this MPI's own launcher: openmpi, mpich (also Intel MPI) or srun. -n says how many ranks there are and how many
    /// threads each has; every thread of every rank is bound and read back. Compared is the time of the longest rank, or what rank 0 prints
    #[arg(long, value_name = "WHICH", add = shell::names(crate::ranks::launchers))]
    mpi: Option<Mpi>,
    /// What to say to the launcher besides: any of its words but those that bind, or count ranks
    #[arg(long, value_name = "ARGS", requires = "mpi", allow_hyphen_values = true)]
    mpi_args: Option<String>,
    /// Let threads that the MPI library starts for itself take places as all others do [default: left free]
    #[arg(long, requires = "mpi")]
    bind_mpi_helpers: bool,
}

#[derive(Default, clap::Args)]
struct MixArgs {
    /// Programs that run at once, as one subject: 'npb:cg.W*2 + ./app input.dat'. *2 is two of them; a job's own options come first:
    /// '[at=2s repeat place=0,1] ./app' (also threads, name, memory, huge-pages, sched). Compared is the time until every job has ended
    /// once; each program is run by itself, too, for its slowdown
    #[arg(long = "mix", value_name = "JOBS", value_parser = NonEmptyStringValueParser::new())]
    mixes: Vec<String>,
}

#[derive(Default, clap::Args)]
struct TreatmentArgs {
    /// Memory policies: default, local, bind:NODES, preferred:NODES, interleave, interleave:NODES, weighted-interleave
    /// [default: default]
    #[arg(long, value_name = "LIST", value_parser = NonEmptyStringValueParser::new())]
    memory: Vec<String>,
    /// Huge pages: default, always, never [default: default]
    #[arg(long, value_name = "LIST", value_parser = NonEmptyStringValueParser::new())]
    huge_pages: Vec<String>,
    /// Ways of scheduling: default, batch, idle, nice=N, slice=MS, attached, cache-aware=on, cache-aware=off, light, heavy, phi=P:T, or
    /// ext:COMMAND that loads a scheduler [default: default]
    #[arg(long, value_name = "LIST", value_parser = NonEmptyStringValueParser::new())]
    sched: Vec<String>,
    /// Company that runs beside the program for as long as it does: none, or commands [default: none]
    #[arg(long, value_name = "LIST", value_parser = NonEmptyStringValueParser::new())]
    beside: Vec<String>,
    /// A single combination, besides every combination of the lists: 'NAME: place=scatter memory=interleave sched=batch'
    #[arg(long = "treatment", value_name = "TREATMENT", value_parser = NonEmptyStringValueParser::new())]
    treatments: Vec<String>,
    /// Leave out what this machine or its kernel lacks, and say so [default: such a study is refused]
    #[arg(long)]
    leave_out: bool,
}

#[derive(Default, clap::Args)]
struct SiteArgs {
    /// Where programs run: here; on the nodes of a cluster: slurm, or slurm:partition=p,nodes=4,exclusive and other options of sbatch, of which
    /// nodes is how many blocks run at a time; or in an emulated machine that has this one's files, whose times mean nothing: vm is vm:2x4,
    /// others are vm:dies, vm:nodes, and vm:1x4x2 and the like [default: here]
    #[arg(long, value_name = "PLACE", add = shell::names(|| ["here", "slurm", "vm", "vm:dies", "vm:nodes"].map(Into::into).into()))]
    on: Option<Site>,
    /// Model the caches of MACHINE there, and compare misses by cause: a preset, an hwloc XML file or a synthetic string with as many
    /// CPUs. Takes some twenty times as long [default: no misses]
    #[arg(long, value_name = "MACHINE", add = shell::machines())]
    misses: Option<String>,
}

#[derive(Default, clap::Args)]
struct RaceArgs {
    /// Find the best placement, also over several thread counts, by a race that drops whatever has lost
    #[arg(long)]
    best: bool,
    /// Which placements race besides those of --place: the `important` ones, which differ in what the hardware shares;
    /// `all` distinct ones; or `named` ones only, those of --place [default: important]
    #[arg(long, value_name = "WHICH", requires = "best", value_parser = crate::choice::<Among>())]
    among: Option<Among>,
    /// Race them in every order of threads that shares differently
    #[arg(long, requires = "best")]
    ordered: bool,
    /// Most runs of each subject's race [default: twice the number of placements, and 40; with --guarantee a hundred times
    /// that number, and 1000]
    #[arg(long, value_name = "RUNS", requires = "best", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    runs: Option<u32>,
    /// Race until what is called best is, with a probability of 1 - DELTA, at most EPSILON slower than the best [default:
    /// halve the field as often as --runs allows]
    #[arg(long, value_name = "EPSILON,DELTA", requires = "best")]
    guarantee: Option<Guarantee>,
    /// Stop a run when it has taken this many times as long as the best surely takes [default: 1.5]
    #[arg(long, value_name = "FACTOR", requires = "best")]
    cut_off: Option<f64>,
    /// Fail (exit code 1) when a placement is shown to be more than so many percent slower than the best: the one named
    /// here, else the first of --place, else unbound. Implies --best. With --baseline, when any (or the one named here) is shown to be that
    /// much slower than it was; with several commands, than the first [default: nothing is checked]
    #[arg(long, value_name = "[PLACEMENT=]PERCENT")]
    max_loss: Option<MaxLoss>,
    /// Race a model instead of a program: a table of times and a noise model (.toml)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["subjects", "command", "class", "mixes", "workload"], add = shell::files("toml"))]
    subject_model: Option<PathBuf>,
    /// The machine that the model runs on: a preset, an hwloc XML file, or a synthetic string [default: host]
    #[arg(long, value_name = "MACHINE", add = shell::machines())]
    machine: Option<String>,
}

#[derive(Default, clap::Args)]
#[group(id = "loaded_args")]
#[command(group = clap::ArgGroup::new("loaded").args(["server", "pid", "cgroup"]))]
struct ServerArgs {
    /// Server that is started under the treatment for each run: what is placed is the server, and CMD is a load on it, whose time and
    /// metrics count [default: CMD is what is placed]
    #[arg(long, value_name = "COMMAND", requires_all = ["command", "ready"], conflicts_with_all = ["mixes", "workload", "shell"], value_parser = words)]
    server: Option<Words>,
    /// When the server is ready: port:5432 (something listens there), regex:EXPRESSION (it has printed that), or command:LINE (that line for
    /// a shell succeeds)
    #[arg(long, value_name = "WHEN", requires = "server")]
    ready: Option<ReadyWhen>,
    /// Longest that the server may take until it is ready [default: 60s]
    #[arg(long, value_name = "DURATION", requires = "server")]
    ready_timeout: Option<Span>,
    /// Signal by which the server is asked to stop [default: TERM]
    #[arg(long, value_name = "SIGNAL", requires = "server", value_parser = NonEmptyStringValueParser::new())]
    stop_signal: Option<String>,
    /// Line for a shell that asks it instead; STAYPUT_SERVER_PID is the number of its process [default: the signal]
    #[arg(long, value_name = "LINE", requires = "server", conflicts_with = "stop_signal", value_parser = NonEmptyStringValueParser::new())]
    stop_command: Option<String>,
    /// Longest that the server may take to stop, after which it is killed [default: 10s]
    #[arg(long, value_name = "DURATION", requires = "server")]
    stop_timeout: Option<Span>,
    /// Start the server once a block, and bind its threads anew for each run: only its place and its company can vary then [default: it is
    /// started for each run]
    #[arg(long, requires = "server")]
    keep_server: bool,
    /// Process that runs already, with all that descends from it: its threads, old and new, are bound for each run of CMD, a load on it, and
    /// given back what they had [default: CMD is what is placed]
    #[arg(long, value_name = "PID", requires = "command", conflicts_with_all = ["server", "cgroup", "mixes", "workload"])]
    pid: Option<i32>,
    /// Control group whose processes run already, by its path below /sys/fs/cgroup, likewise
    #[arg(long, value_name = "PATH", requires = "command", conflicts_with_all = ["server", "mixes", "workload"], value_hint = clap::ValueHint::DirPath)]
    cgroup: Option<PathBuf>,
    /// Where the load runs, apart from the server: a placement as of --place [default: unbound]
    #[arg(long, value_name = "PLACE", requires = "loaded", value_parser = NonEmptyStringValueParser::new(), add = shell::names(shell::placements))]
    load_place: Option<String>,
}

/// The words of a command.
#[derive(Clone, Debug)]
struct Words(Vec<String>);

/// The words of a line, as a shell tells them apart.
fn words(line: &str) -> Result<Words, String> {
    match shell_words::split(line) {
        Ok(words) if words.first().is_some_and(|word| !word.is_empty()) => Ok(Words(words)),
        Ok(_) => Err(format!("`{line}` names no program; write a command with its arguments")),
        Err(_) => Err(format!("in `{line}` a quote is not closed")),
    }
}

#[derive(Default, clap::Args)]
struct PreparationArgs {
    /// Line for a shell that runs before the first run, untimed, as --prepare before each run, --conclude after each and --cleanup after the
    /// last; {threads} and {block} stand there for what they stand for in CMD [default: none of them]
    #[arg(long, short = 's', value_name = "LINE", requires = "command", value_parser = NonEmptyStringValueParser::new())]
    setup: Option<String>,
    /// Line for a shell before each run, warm-up too; one that fails makes a failed run
    #[arg(long, short = 'p', value_name = "LINE", requires = "command", value_parser = NonEmptyStringValueParser::new())]
    prepare: Option<String>,
    /// Line for a shell after each run
    #[arg(long, short = 'C', value_name = "LINE", requires = "command", value_parser = NonEmptyStringValueParser::new())]
    conclude: Option<String>,
    /// Line for a shell after the last run
    #[arg(long, short = 'c', value_name = "LINE", requires = "command", value_parser = NonEmptyStringValueParser::new())]
    cleanup: Option<String>,
    /// Variable for the program and these lines; may be given several times [default: stayput's own environment]
    #[arg(long, value_name = "NAME=VALUE", requires = "command")]
    env: Vec<Variable>,
    /// Exit codes other than 0 that are no failure: all, or such as 1,2 [default: none; all where none is named]
    #[arg(long, short = 'i', value_name = "CODES", num_args = 0..=1, require_equals = true, default_missing_value = "all", requires = "command")]
    ignore_failure: Option<IgnoredFailures>,
    /// Show what programs print, as each run ends [default: its last 4 KiB are kept where it failed]
    #[arg(long, conflicts_with = "on")]
    show_output: bool,
    /// Write the times in the form of hyperfine's own export, for its scripts
    #[arg(long, value_name = "FILE", conflicts_with_all = ["best", "max_loss"], value_hint = clap::ValueHint::FilePath)]
    export_json: Option<PathBuf>,
}

#[derive(Default, clap::Args)]
struct BaselineArgs {
    /// Hold this study against the journal of an earlier one, such as that of the program before a change
    #[arg(long, visible_alias = "against", value_name = "JOURNAL", conflicts_with_all = ["best", "subject_model"], add = shell::files("stayput"))]
    baseline: Option<PathBuf>,
    /// Write what became of that as JUnit XML, a test case for each combination
    #[arg(long, value_name = "FILE", requires = "baseline", value_hint = clap::ValueHint::FilePath)]
    junit: Option<PathBuf>,
    /// Write it as a comment in Markdown
    #[arg(long, value_name = "FILE", requires = "baseline", value_hint = clap::ValueHint::FilePath)]
    comment: Option<PathBuf>,
}

#[derive(Default, clap::Args)]
struct StopArgs {
    /// Stop when each ratio's 95 % interval is narrower than this [default: 2%]
    #[arg(long, value_name = "SHARE", conflicts_with_all = ["relative_sd", "best"])]
    width: Option<Share>,
    /// Stop by the papers' rule instead: when times' relative standard deviation is below this [default: by --width]
    #[arg(long, value_name = "SHARE", conflicts_with = "best")]
    relative_sd: Option<Share>,
    /// Runs of each cell before the first look [default: 10; 5 with --relative-sd]
    #[arg(long, value_name = "RUNS", conflicts_with = "best", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    min_runs: Option<u32>,
    /// Runs of each cell after which it stops, settled or not, whatever is left of --budget; after 128 it is looked at more seldom
    /// [default: 50]
    #[arg(long, value_name = "RUNS", conflicts_with = "best", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    max_runs: Option<u32>,
    /// Longest that all trials together may take [default: 10min]
    #[arg(long, value_name = "DURATION")]
    budget: Option<Span>,
    /// Longest that one trial may take before it is killed and counted as such [default: 10min]
    #[arg(long, value_name = "DURATION")]
    timeout: Option<Span>,
    /// Blocks run first and never counted [default: 1]
    #[arg(long, value_name = "BLOCKS")]
    warmup: Option<u32>,
    /// Seed of the order of trials and of the bootstrap [default: 1]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
}

#[derive(Default, clap::Args)]
struct WordArgs {
    /// How the report calls the program [default: its command line]
    #[arg(long, requires = "command")]
    name: Option<String>,
    /// How a command is called that is compared with others; each has its own `--command-name NAME -- CMD` [default: its command line]
    #[arg(long, value_name = "NAME", requires = "command", value_parser = NonEmptyStringValueParser::new())]
    command_name: Option<String>,
    /// Regular expression whose first group is the program's own time in seconds, which must not be longer than the wall
    /// time [default: wall time counts]
    #[arg(long, value_name = "REGEX", requires = "command")]
    time_regex: Option<String>,
    /// Regular expression that the output of a right result matches [default: the exit code decides]
    #[arg(long, value_name = "REGEX", requires = "command")]
    verified_regex: Option<String>,
    /// A number that each run writes, and when it is better: 'tps higher = "tps = ([0-9.]+)"', 'p95 [ms] lower = json:/latency/p95',
    /// or 'rate [MB/s] higher = file:out.txt:"rate: (.*)"'. The study compares by the first [default: time]
    #[arg(long = "metric", value_name = "METRIC", requires = "command")]
    metrics: Vec<Metric>,
    /// The metric to compare by, which decides when it is enough and who wins a race; `time` is one [default: the first]
    #[arg(long, value_name = "NAME", requires = "metrics")]
    primary: Option<String>,
}

/// Conducts the study and reports on it.
pub fn run(args: &StudyArgs) -> anyhow::Result<u8> {
    if args.race.machine.is_some() && args.race.subject_model.is_none() {
        return Err(UsageError::from("--machine says where a model runs; give one with --subject-model"));
    }
    let variables = &args.around.env;
    let is_given_before =
        |(at, variable): &(usize, &Variable)| variables[..*at].iter().any(|other| other.name == variable.name);
    if let Some((_, variable)) = variables.iter().enumerate().find(is_given_before) {
        return Err(UsageError::from(format!("variable {} is given twice by --env; give it once", variable.name)));
    }
    let prepared = match &args.attach {
        Some(journal) => AttachedStudy::read(journal)?.prepare(journal, args)?,
        None => prepare(args)?,
    };
    let Prepared { study, venue, machine, inputs, journal_path, baseline, remarks, made_from, missing } = prepared;
    let [junit, comment] = [&args.baseline.junit, &args.baseline.comment]
        .map(|path| path.as_ref().map(|path| ResultFile::named(path, made_from.clone())).transpose());
    let export = args.around.export_json.as_ref().map(|path| ResultFile::named(path, made_from.clone())).transpose()?;
    let export = export.map(|file| file.shared(args.share));
    let (junit, comment) = (junit?.map(|file| file.shared(args.share)), comment?.map(|file| file.shared(args.share)));
    let page = page(args, &journal_path, made_from)?;
    if args.force {
        set_aside(&journal_path)?;
    }
    for remark in &remarks {
        eprintln!("stayput: {remark}");
    }
    if args.share && !journal_path.exists() {
        // An empty file is a journal to be.
        let made = File::create_new(&journal_path);
        made.with_context(|| format!("cannot make journal {}", journal_path.display()))?;
    }
    let shows_output = args.around.show_output;
    let how = Conduct {
        quiet: args.quiet || shows_output,
        shows_output,
        retry: args.retry,
        can_start: missing.is_none(),
        among: None,
    };
    let conducted = match study {
        CellPlan::Comparison(study) => conduct(&study, &machine, &journal_path, inputs, venue, how)
            .map(|(record, runs)| (report::Study::from(record), runs)),
        CellPlan::Race(study) => {
            conduct(&study, &machine, &journal_path, inputs, venue, how).map(|(record, runs)| (record.into(), runs))
        }
    };
    let is_wanted = |error: &anyhow::Error| error.downcast_ref::<EngineError>().is_some_and(is_program_gone);
    let (study, runs) = match (conducted, missing) {
        (Err(error), Some(missing)) if is_wanted(&error) => {
            let path = journal_path.display();
            return Err(missing.context(format!("{path} isn't finished, and can't be gone on with")));
        }
        (conducted, missing) => {
            let conducted = conducted?;
            if let Some(missing) = missing {
                eprintln!("stayput: {missing}; nothing is left to run");
            }
            conducted
        }
    };
    let mut text = runs.nothing.map_or_else(String::new, |sentence| format!("{sentence}\n\n"));
    text.push_str(&study.write(Format::Terminal, screen()));
    let beside = baseline.as_ref().map(|baseline| baseline.beside(&study)).transpose()?;
    if let Some((told, comparison)) = baseline.as_ref().zip(beside.as_ref()) {
        let file = told.path.display().to_string();
        text.push('\n');
        report::baseline_sentences(comparison, &file)
            .iter()
            .for_each(|sentence| text.push_str(&format!("{sentence}\n")));
        if let Some(junit) = junit {
            junit.write(report::baseline_junit(comparison, &file))?;
        }
        if let Some(comment) = comment {
            comment.write(report::baseline_comment(comparison, &file))?;
        }
    }
    if let Some((export, times)) = export.zip(report::hyperfine_json(&study)) {
        export.write(times)?;
    }
    text.push_str(&format!("\njournal: {}\n", journal_path.display()));
    if let Some(page) = page {
        page.write(study.write(Format::Html, screen()))?;
        text.push_str(&format!("report:  {}\n", page.path().display()));
    }
    text.extend(study.stop().map(|reason| format!("stopped: {reason}\n")));
    crate::print_coloured(&text)?;
    let losses = match (&study, &args.race.max_loss) {
        (report::Study::Race(record, analysis), Some(max)) => LossVerdict::all(&record.plan, analysis, max.percent),
        (report::Study::Comparison(record, analysis), Some(max)) if record.plan.plan.compares_commands() => {
            LossVerdict::of_commands(&record.plan.plan, analysis, max)
        }
        _ => Vec::new(),
    };
    for loss in &losses {
        eprintln!("stayput: {}", report::sentences::loss(loss));
    }
    if let Some(why) = runs.not_finished {
        eprintln!("stayput: {why}; what was measured is kept");
        return Ok(crate::FAILURE);
    }
    let summaries = study.cells().map_or(&[][..], |cells| &cells.summaries);
    let empty = summaries.iter().filter(|summary| summary.trials == 0 && summary.failed > 0).count();
    if empty > 0 {
        eprintln!("stayput: {empty} of {} cells have no run that went well; the report says why", summaries.len());
        return Ok(crate::FAILURE);
    }
    if let Some(refused) =
        study.cells().and_then(|cells| cells.verdicts.iter().find(|verdict| cells.is_refused(verdict.subject())))
    {
        eprintln!("stayput: what {} reports can't be its time; the report says why", refused.subject());
        return Ok(crate::FAILURE);
    }
    let is_exceeded = beside.as_ref().is_some_and(BaselineComparison::is_exceeded);
    if is_exceeded {
        eprintln!(
            "stayput: more is lost since {} than --max-loss allows",
            args.baseline.baseline.iter().map(|path| path.display().to_string()).collect::<String>()
        );
    }
    let is_too_slow = is_exceeded || losses.iter().any(|loss| loss.is_exceeded() == Some(true));
    Ok(if is_too_slow { crate::FAILURE } else { crate::SUCCESS })
}

/// A study that is about to be worked on.
struct Prepared {
    study: CellPlan,
    venue: Venue,
    machine: Machine,
    inputs: Inputs,
    journal_path: PathBuf,
    baseline: Option<Baseline>,
    /// What is told before it begins.
    remarks: Vec<String>,
    made_from: output::Inputs,
    /// Why its programs can't be started, where they can't.
    missing: Option<anyhow::Error>,
}

/// What the command line asks for.
fn prepare(args: &StudyArgs) -> anyhow::Result<Prepared> {
    let request = request(args)?;
    let file = args.subjects.iter().find(|name| is_study_file(name)).map(Path::new);
    let (venue, machine) = venue(args, &request, file)?;
    let lacking = |conditions: &Conditions| venue.lacking(conditions);
    let mut study = match request.plan(&machine, builtin_subject, lacking).map_err(UsageError::from)? {
        CellPlan::Comparison(study) => CellPlan::Comparison(identified(&study)),
        CellPlan::Race(study) => CellPlan::Race(identified(&study)),
    };
    let plan = match &mut study {
        CellPlan::Comparison(study) => &mut study.plan,
        CellPlan::Race(study) => &mut study.plan,
    };
    *plan = plan.clone().redacted(&args.redact, &HostFacts::read().environment);
    if let Some(treatment) = plan.treatment_with_secret() {
        let place = plan.treatments.iter().position(|other| other.name == treatment.name).unwrap_or_default() + 1;
        return Err(UsageError::from(format!(
            "the command beside the program in treatment {place} holds a secret value, and journals keep such commands as they are run; give the value by a file or a variable"
        )));
    }
    let baseline = args.baseline.baseline.as_deref().map(|path| Baseline::read(path, plan, args)).transpose()?;
    let mut missing = can_start(plan).err();
    let inputs = inputs(plan, args)?;
    let mut made_from = made_from(plan, args);
    let remarks: Vec<String> =
        plan.departures.iter().cloned().chain(report::sentences::warnings(&Warning::of_plan(plan))).collect();
    let host = venue.host(plan);
    let journal_path = args.out.clone().unwrap_or_else(|| match &study {
        CellPlan::Comparison(study) => default_journal(study, &machine, &host, file, args.force),
        CellPlan::Race(study) => default_journal(study, &machine, &host, file, args.force),
    });
    // Before there is a journal: a program that can't start is no study. One that is finished doesn't need it any more.
    if let Some(error) = missing.take_if(|_| !journal_path.exists() || args.force) {
        return Err(error);
    }
    if args.resume && !journal_path.exists() {
        return Err(UsageError::from(format!("there is no journal {} to resume", journal_path.display())));
    }
    check_place(&journal_path)?;
    made_from.add_journal(&journal_path);
    if let Some(baseline) = &baseline {
        baseline.check_is_other(&journal_path)?;
        made_from.add_journal(&baseline.path);
    }
    Ok(Prepared { study, venue, machine, inputs, journal_path, baseline, remarks, made_from, missing })
}

/// Where it runs, and on which machine it is planned.
fn venue(args: &StudyArgs, request: &Request, file: Option<&Path>) -> anyhow::Result<(Venue, Machine)> {
    let site = request.site().map_err(UsageError::from)?;
    if request.model.is_some() {
        let machine = args.race.machine.as_deref().map(Machine::named).transpose().map_err(UsageError::from)?;
        let machine = machine.map_or_else(|| Machine::host().context("cannot read this machine's topology"), Ok)?;
        return Ok((if site.slurm().is_some() { Venue::cluster_of_model()? } else { Venue::Here }, machine));
    }
    // What can't be is told before a kernel is fetched and booted.
    if let Some(guest) = site.guest() {
        let machine = guest.machine().map_err(UsageError::from)?;
        self::request(args)?.plan(&machine, builtin_subject, |_| Ok(None)).map_err(UsageError::from)?;
    }
    // What one kind of node lacks was found when the study began.
    if site.slurm().is_some() && !args.force && !args.treatments.leave_out {
        let journal = args.out.clone().or_else(|| likely_journal(args, file));
        if let Some(again) = journal.and_then(|journal| AttachedStudy::read(&journal).ok()) {
            return again.venue();
        }
    }
    Venue::of(&site)
}

/// The journal that the study would be kept in, by what it would be on this machine, since a journal's name depends on no machine.
fn likely_journal(args: &StudyArgs, file: Option<&Path>) -> Option<PathBuf> {
    let machine = Machine::host().ok()?;
    let plan = request(args).ok()?.plan(&machine, builtin_subject, |_| Ok(None)).ok()?;
    Some(match plan {
        CellPlan::Comparison(study) => journal_name::default_path(&study, file),
        CellPlan::Race(study) => journal_name::default_path(&study, file),
    })
}

/// A study on Slurm that a journal holds.
enum AttachedStudy {
    Comparison(Box<Record<Comparison>>),
    Race(Box<Record<Race>>),
}

impl AttachedStudy {
    /// That in the journal at `path`.
    fn read(path: &Path) -> anyhow::Result<Self> {
        let kind = journal::kind(path)?;
        if kind == <SimulationPlan as study::Kind>::NAME {
            let path = path.display();
            return Err(UsageError::from(format!(
                "{path} holds a simulation; `stayput simulate --attach {path}` goes on with it"
            )));
        }
        let study = match kind.as_str() {
            <Race as study::Kind>::NAME => Self::Race(Journal::read(path)?.into()),
            _ => Self::Comparison(Journal::read(path)?.into()),
        };
        let plan = match &study {
            Self::Comparison(record) => &record.plan.plan,
            Self::Race(record) => &record.plan.plan,
        };
        if plan.site.slurm().is_none() {
            let path = path.display();
            return Err(UsageError::from(format!(
                "{path} holds no study on Slurm; the command that began it goes on with it"
            )));
        }
        Ok(study)
    }

    fn venue(&self) -> anyhow::Result<(Venue, Machine)> {
        match self {
            Self::Comparison(record) => Venue::cluster_again(record),
            Self::Race(record) => Venue::cluster_again(record),
        }
    }

    /// What is needed to go on with it, by its journal and the folder of its tasks alone.
    fn prepare(self, journal: &Path, args: &StudyArgs) -> anyhow::Result<Prepared> {
        let (mut venue, machine) = self.venue()?;
        let (study, inputs, directory) = match self {
            Self::Comparison(record) => slurm::taken_up(&record.plan, journal)
                .map(|(study, inputs, directory)| (CellPlan::Comparison(study), inputs, directory)),
            Self::Race(record) => slurm::taken_up(&record.plan, journal)
                .map(|(study, inputs, directory)| (CellPlan::Race(study), inputs, directory)),
        }
        .map_err(UsageError::from)?;
        // Its programs are where it was begun, and nodes look whether they are still the same.
        if let Venue::Cluster(nodes) = &mut venue {
            nodes.directory = directory;
        }
        let plan = match &study {
            CellPlan::Comparison(study) => &study.plan,
            CellPlan::Race(study) => &study.plan,
        };
        let missing = None;
        let mut made_from = made_from(plan, args);
        made_from.add_journal(journal);
        let (journal_path, remarks) = (journal.to_owned(), Vec::new());
        Ok(Prepared { study, venue, machine, inputs, journal_path, baseline: None, remarks, made_from, missing })
    }
}

/// The earlier study that this one is held against.
struct Baseline {
    path: PathBuf,
    record: Record<Comparison>,
    placement: Option<String>,
    max_percent: Option<f64>,
}

impl Baseline {
    /// The one at `path`, which has something in common with `plan`.
    fn read(path: &Path, plan: &Plan, args: &StudyArgs) -> anyhow::Result<Self> {
        let wrong = |what: String| UsageError::from(format!("--baseline {}: {what}", path.display()));
        if journal::kind(path).map_err(UsageError::from)? != <Comparison as study::Kind>::NAME {
            return Err(wrong(
                "it is no study that compares placements; one with the same --place and -n is needed".into(),
            ));
        }
        let record = Journal::<Comparison>::read(path).map_err(UsageError::from)?;
        let max_loss = args.race.max_loss.clone();
        let placement = max_loss.as_ref().and_then(|max| max.placement.clone());
        common_cells(&record.plan.plan, plan, placement.as_deref()).map_err(wrong)?;
        Ok(Self { path: path.to_owned(), record, placement, max_percent: max_loss.map(|max| max.percent) })
    }

    /// Checks that the study doesn't go on with what it is held against.
    fn check_is_other(&self, journal: &Path) -> anyhow::Result<()> {
        let real = |path: &Path| path.canonicalize().ok();
        if real(&self.path).is_some() && real(&self.path) == real(journal) {
            return Err(UsageError::from(format!(
                "--baseline {} is the journal that this very study would go on with; name another with --out",
                self.path.display()
            )));
        }
        Ok(())
    }

    /// `study` beside it.
    fn beside(&self, study: &report::Study) -> anyhow::Result<BaselineComparison> {
        let report::Study::Comparison(now, _) = study else {
            return Err(UsageError::from("--baseline is for studies that compare placements"));
        };
        BaselineComparison::new(&self.record, now, self.placement.as_deref(), self.max_percent)
            .map_err(anyhow::Error::msg)
    }
}

/// What the command line asks for: a flag beats the study file.
fn request(args: &StudyArgs) -> anyhow::Result<Request> {
    let StopArgs { width, relative_sd, min_runs, max_runs, budget, timeout, warmup, seed } = args.stop;
    let flags = StudyFile {
        threads: args.threads.clone(),
        placements: args.placements.clone(),
        memory: args.treatments.memory.clone(),
        huge_pages: args.treatments.huge_pages.clone(),
        sched: args.treatments.sched.clone(),
        beside: args.treatments.beside.clone(),
        treatments: args.treatments.treatments.clone(),
        leave_out: args.treatments.leave_out,
        on: args.place.on.clone(),
        misses: args.place.misses.clone(),
        stop: StopTable { width, relative_sd, min_runs, max_runs },
        warmup_blocks: warmup,
        timeout,
        budget,
        seed,
        ..StudyFile::default()
    };
    let mpi_args = args.mpi.mpi_args.as_deref().map(shell_words::split).transpose();
    let mpi_args =
        mpi_args.map_err(|error| UsageError::from(format!("--mpi-args can't be split into words: {error}")))?;
    let builtins = args.subjects.iter().map(|name| SubjectTable {
        builtin: Some(name.clone()),
        mpi: args.mpi.mpi,
        mpi_args: mpi_args.clone(),
        bind_mpi_helpers: args.mpi.bind_mpi_helpers,
        ..Default::default()
    });
    let target = target(args.server.pid, args.server.cgroup.as_deref())?;
    let told = Commands::new(args)?;
    let is_one = told.0.len() == 1;
    let command = |told: Command| SubjectTable {
        command: Some(match &args.shell {
            Some(shell) => vec![shell.clone(), "-c".to_owned(), told.argv.join(" ")],
            None => told.argv.clone(),
        }),
        name: told.name.clone().or_else(|| args.shell.is_some().then(|| told.argv.join(" "))),
        time_regex: args.words.time_regex.clone(),
        verified_regex: args.words.verified_regex.clone(),
        metrics: args.words.metrics.clone(),
        primary: args.words.primary.clone(),
        server: args.server.server.clone().map(|words| words.0),
        ready: args.server.ready.clone(),
        ready_timeout: args.server.ready_timeout,
        stop_signal: args.server.stop_signal.clone(),
        stop_command: args.server.stop_command.clone(),
        stop_timeout: args.server.stop_timeout,
        keep_server: args.server.keep_server,
        load_place: args.server.load_place.clone(),
        target: target.clone(),
        setup: args.around.setup.as_deref().map(|line| told.with_values(line)),
        prepare: args.around.prepare.as_deref().map(|line| told.with_values(line)),
        conclude: args.around.conclude.as_deref().map(|line| told.with_values(line)),
        cleanup: args.around.cleanup.as_deref().map(|line| told.with_values(line)),
        env: args.around.env.clone(),
        ignore_failure: args.around.ignore_failure.clone().unwrap_or_default(),
        unit: args.binding.unit,
        skip: args.binding.skip.clone(),
        slots: args.binding.slots.clone(),
        observe: args.binding.observe,
        mpi: args.mpi.mpi,
        mpi_args: mpi_args.clone(),
        bind_mpi_helpers: args.mpi.bind_mpi_helpers,
        ..SubjectTable::default()
    };
    let commands: Vec<SubjectTable> = told.0.into_iter().map(command).collect();
    if commands.is_empty() && !Binding::from(args.binding.clone()).is_default() {
        return Err(UsageError::from(
            "--skip, --slot, --unit and --observe say how a program of yours is bound; name it after `--`",
        ));
    }
    let compares_commands = commands.len() > 1;
    if compares_commands && (!args.subjects.is_empty() || !args.mixes.mixes.is_empty()) {
        return Err(UsageError::from(
            "several commands are compared with one another; leave out built-in programs and --mix",
        ));
    }
    if is_one && args.parameters.is_empty() && args.words.command_name.is_some() && args.words.name.is_some() {
        return Err(UsageError::from("--name and --command-name both say how the command is called; give one"));
    }
    if args.mpi.mpi.is_some() {
        if !args.mixes.mixes.is_empty() || args.shell.is_some() {
            return Err(UsageError::from(
                "--mpi starts a built-in program, or the one after `--`, as ranks; leave out --mix and --shell, or let CMD be sh",
            ));
        }
        if let Some(name) = args.subjects.iter().find(|name| is_study_file(name)) {
            return Err(UsageError::from(format!(
                "study file {name} says itself what starts ranks, by `mpi`; leave out --mpi"
            )));
        }
        if args.subjects.is_empty() && commands.is_empty() {
            return Err(UsageError::from(
                "--mpi starts ranks, and no program is named; give one after `--`, or a built-in one such as climate.W",
            ));
        }
    }
    let mix = |text: &String| MixTable { name: None, jobs: vec![text.clone()], env: args.around.env.clone() };
    let mixes = args.mixes.mixes.iter().map(mix);
    let study = match args.subjects.iter().find(|name| is_study_file(name)) {
        None => {
            let workload = args.workload.as_deref().map(workload_subject).transpose()?;
            StudyFile {
                subjects: builtins.chain(commands).chain(workload).collect(),
                mixes: mixes.collect(),
                compares_commands,
                ..flags
            }
        }
        Some(name) if args.subjects.len() > 1 || !commands.is_empty() || mixes.len() > 0 => {
            return Err(UsageError::from(format!("study file {name} can't be mixed with other subjects")));
        }
        Some(name) => {
            let papers: Vec<&str> = Paper::names().collect();
            StudyFile::read(Path::new(name), &papers).map_err(UsageError::from)?.with(flags)
        }
    };
    let race = &args.race;
    let races = race.best || (race.max_loss.is_some() && args.baseline.baseline.is_none() && !compares_commands);
    Ok(Request {
        study,
        class: args.class.clone(),
        model: race.subject_model.as_deref().map(ModelFile::read).transpose().map_err(UsageError::from)?,
        race: races.then(|| RaceRequest {
            among: race.among.unwrap_or_default(),
            ordered: race.ordered,
            runs: race.runs,
            guarantee: race.guarantee,
            cut_off: race.cut_off,
            max_loss: race.max_loss.clone(),
        }),
    })
}

/// What runs already, where that is named.
pub(crate) fn target(pid: Option<i32>, cgroup: Option<&Path>) -> anyhow::Result<Option<Target>> {
    let process = pid.map(Target::process).transpose().map_err(UsageError::from)?;
    let group = cgroup.map(Target::group).transpose().map_err(UsageError::from)?;
    Ok(process.or(group))
}

/// Reads what the programs of `plan` are to read: each run is given the same.
fn inputs(plan: &mut Plan, args: &StudyArgs) -> anyhow::Result<Inputs> {
    if args.input.is_some() && !plan.subjects.iter().any(Subject::is_command) {
        return Err(UsageError::from("--input is for programs of yours, and there is none here"));
    }
    let mut waits = || {
        eprintln!(
            "stayput: waiting for the end of standard input, which every run is given; for none, end the command with < /dev/null"
        );
    };
    let inputs = input::read(plan, args.input.as_deref(), &mut waits).map_err(|error| match error {
        error @ InputError::Keep { .. } => error.into(),
        error => UsageError::from(error),
    })?;
    for subject in plan.subjects.iter().filter(|_| !args.quiet) {
        if let Some(input) = &subject.input {
            let name = input.file.as_ref().map_or("standard input".into(), |file| file.display().to_string());
            eprintln!("stayput: every run of {} reads {name} ({} bytes)", subject.name, input.bytes);
        }
    }
    Ok(inputs)
}

fn is_study_file(subject: &str) -> bool {
    subject.ends_with(".toml")
}

/// The files that the study is made from, which no result may be written over.
fn made_from(plan: &Plan, args: &StudyArgs) -> output::Inputs {
    let mut inputs = output::Inputs::default();
    args.subjects.iter().filter(|name| is_study_file(name)).for_each(|file| inputs.add(file, "the study file"));
    args.race.subject_model.iter().for_each(|file| inputs.add(file, "the model's file"));
    for words in plan.treatments.iter().flat_map(|treatment| treatment.conditions.commands()) {
        if let [program, rest @ ..] = &words[..] {
            inputs.add_command(launch::executable_path(OsStr::new(program)).ok().as_deref(), rest);
        }
    }
    for subject in &plan.subjects {
        subject.input.iter().flat_map(|input| &input.file).for_each(|file| inputs.add(file, "what the program reads"));
        let variants = subject.variants.iter().map(|variant| subject.argv_under(&variant.treatment, plan.threads[0]));
        for argv in std::iter::once(subject.command_for(plan.threads[0])).chain(variants) {
            if let [program, words @ ..] = &argv[..] {
                inputs.add_command(launch::executable_path(OsStr::new(program)).ok().as_deref(), words);
            }
        }
    }
    inputs
}

/// The page to write, which is none of the files that the study is `made_from`, nor anybody else's.
fn page(args: &StudyArgs, journal: &Path, made_from: output::Inputs) -> Result<Option<ResultFile>, OutputError> {
    if args.no_report {
        return Ok(None);
    }
    let page = match &args.report {
        Some(path) => ResultFile::named(path, made_from),
        None => ResultFile::by_default(
            &journal.with_extension("html"),
            made_from,
            report::is_page,
            "name the page with --report FILE, or write none with --no-report",
        ),
    };
    page.map(|page| Some(page.shared(args.share)))
}

/// Checks that a journal can be where it is to be. One would not be begun where a link leads to: whoever made it chose the place.
///
/// # Errors
/// A [`UsageError`] that names what is there.
pub(crate) fn check_place(journal: &Path) -> anyhow::Result<()> {
    let is_link = journal.symlink_metadata().is_ok_and(|data| data.is_symlink());
    let there = journal.metadata();
    let would_begin = match &there {
        Ok(data) => data.is_file() && data.len() == 0,
        Err(error) => error.kind() == ErrorKind::NotFound,
    };
    let name = journal.display();
    if journal == Path::new("-") {
        Err(UsageError::from("a journal is a file, and can't be standard output; name a file"))
    } else if is_link && would_begin {
        Err(UsageError::from(format!("{name} is a link to no journal; name another file")))
    } else if there.as_ref().is_ok_and(Metadata::is_dir) {
        Err(UsageError::from(format!("{name} is a folder; name a file in it")))
    } else if let Some(folder) = journal.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir()) {
        Err(UsageError::from(format!("there is no folder {} for {name}", folder.display())))
    } else {
        Ok(())
    }
}

/// Sets the journal at `path` aside, and the page that is called like it.
fn set_aside(path: &Path) -> anyhow::Result<()> {
    let Some(aside) = journal::set_aside(path)? else { return Ok(()) };
    eprintln!("stayput: {} is now {}", path.display(), aside.display());
    slurm::set_aside(path, &aside)
        .with_context(|| format!("cannot rename {}", slurm::Folder::beside(path).path().display()))?;
    let (page, page_aside) = (path.with_extension("html"), aside.with_extension("html"));
    if page.exists() {
        std::fs::rename(&page, &page_aside).with_context(|| format!("cannot rename report {}", page.display()))?;
    }
    Ok(())
}

/// The subject of a built-in program with a class; with an MPI, of its hybrid version.
fn builtin_subject(name: &str, mpi: Option<Mpi>) -> Result<Subject, NoBuiltin> {
    let resolved = mpi.map_or_else(|| workloads::resolve(name), |mpi| workloads::resolve_hybrid(name, mpi));
    let builtin = resolved.map_err(|error| match error {
        ResolveError::UnknownProgram(_) if launch::executable_path(OsStr::new(name)).is_ok() || name.contains('/') => {
            NoBuiltin::Unknown(format!(
                "`{name}` is no built-in program; before one of your own put `--`: `stayput study -- {name}`"
            ))
        }
        ResolveError::UnknownProgram(_) if !name.contains(':') => NoBuiltin::Unknown(error.to_string()),
        error => NoBuiltin::Wrong(error.to_string()),
    })?;
    let (_, class) = workloads::program_and_class(name).map_err(|error| NoBuiltin::Wrong(error.to_string()))?;
    // One that isn't installed is refused with other programs that can't start.
    let path = builtin.path().unwrap_or_else(|missing| missing.name);
    if let Some(mpi) = mpi
        && Path::new(&path).exists()
        && launch::mpi::linked_mpi(Path::new(&path)).is_none()
    {
        return Err(NoBuiltin::Wrong(format!(
            "{path} was built where there was no MPI for it: install that of --mpi {mpi} (Debian: libopenmpi-dev or libmpich-dev), then \
             `touch workloads/build.rs` and build again"
        )));
    }
    Ok(Subject {
        name: name.to_owned(),
        build: builtin.build(),
        useful_threads: Some(class.threads),
        argv: std::iter::once(path).chain(builtin.args).collect(),
        time_regex: Some(builtin.time_regex),
        verified_regex: Some(builtin.verified_regex),
        ..Subject::default()
    })
}

/// A progress line on standard error: block, open groups, what runs, time left of the budget.
struct Progress {
    bar: ProgressBar,
    is_race: bool,
    is_quiet: bool,
    budget_ms: u64,
    spent: Duration,
    trial_began: Instant,
    block: String,
}

impl Progress {
    fn new(plan: &Plan, is_race: bool, spent: Duration, quiet: bool, among: Option<&MultiProgress>) -> Self {
        let budget_ms = plan.budget.map_or(0, |budget| budget.as_millis() as u64);
        let bar = crate::progress_bar(budget_ms, quiet);
        let bar = if let Some(among) = among.filter(|_| !quiet) { among.add(bar) } else { bar };
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {prefix} {msg}") {
            bar.set_style(style);
        }
        Self { bar, is_race, is_quiet: quiet, budget_ms, spent, trial_began: Instant::now(), block: String::new() }
    }

    fn say(&self, text: &str) {
        self.bar.println(printable(text));
    }

    fn show(&mut self, plan: &Plan, event: Event) {
        match event {
            Event::Block { block, open, of } => {
                self.block = if block < plan.warmup_blocks {
                    format!("warm-up {}", block + 1)
                } else if self.is_race {
                    format!("block {}, {open}/{of} in the race", block + 1 - plan.warmup_blocks)
                } else {
                    format!("block {}, {}/{of} settled", block + 1 - plan.warmup_blocks, of - open)
                };
            }
            Event::Queue(queue) => {
                let left_s = (self.budget_ms / 1000).saturating_sub(self.spent.as_secs());
                self.bar.set_prefix(format!("{}, at most {}:{:02} left", self.block, left_s / 60, left_s % 60));
                self.bar.set_message(queue_words(queue));
                self.bar.set_position((self.spent.as_millis() as u64).min(self.budget_ms));
            }
            Event::Note(text) => note(&self.bar, text, self.is_quiet),
            // There are none in a study of programs.
            Event::Sample => {}
            Event::Begin(cell) => {
                self.trial_began = Instant::now();
                let left_s = (self.budget_ms / 1000).saturating_sub(self.spent.as_secs());
                self.bar.set_prefix(format!("{}, at most {}:{:02} left", self.block, left_s / 60, left_s % 60));
                let subject = &plan.subjects[cell.subject].name;
                let treatment = &plan.treatments[cell.treatment].name;
                let message = format!("{subject} x{} {treatment}", plan.threads[cell.threads]).replace('\n', " ");
                self.bar.set_message(printable(&message).into_owned());
                self.bar.set_position((self.spent.as_millis() as u64).min(self.budget_ms));
            }
            Event::Disturbed(trial) => {
                self.trial_began = Instant::now();
                self.say(&format!(
                    "{} x{} {}: disturbed, and run again: {}",
                    trial.subject, trial.threads, trial.placement, trial.cause
                ));
            }
            Event::End(trial) => {
                // Elsewhere several run at a time, and all of their times are spent.
                self.spent += match plan.site.slurm() {
                    Some(_) => engine::time_spent(std::slice::from_ref(trial)),
                    None => self.trial_began.elapsed(),
                };
                if trial.status.is_failure() {
                    self.say(&format!(
                        "{} x{} {}: {} ({})",
                        trial.subject, trial.threads, trial.placement, trial.status, trial.cause
                    ));
                }
            }
        }
    }

    fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Tells what happened on a cluster above the `bar`; without a terminal there is none, and it is told all the same.
pub(crate) fn note(bar: &ProgressBar, text: &str, quiet: bool) {
    match bar.is_hidden() && !quiet {
        true => eprintln!("stayput: {text}"),
        false => bar.println(printable(text)),
    }
}

/// Where the blocks are that run on a cluster, in words.
pub(crate) fn queue_words(Queue { whole, running, pending, why }: Queue) -> String {
    let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
    let whole = if whole == 0 { String::new() } else { format!("{whole} ended, ") };
    printable(&format!("Slurm: {whole}{running} running, {pending} pending{why}")).into_owned()
}

/// The terminal on standard output: its columns (100 where there is none), and whether it wants colours.
pub(crate) fn screen() -> Screen {
    let width = Term::stdout().size_checked().map_or(100, |(_, columns)| usize::from(columns));
    Screen { width, colour: colours(&std::io::stdout()) }
}

/// Whether `stream` wants colours (NO_COLOR and TERM=dumb are heeded).
pub(crate) fn colours(stream: &impl IsTerminal) -> bool {
    stream.is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|value| value != "dumb")
}
