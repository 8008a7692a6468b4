//! The `stayput` command: wiring and exit codes; everything else lives in the crates behind it.

// Messages that a terminal shows and doesn't obey, in place of those of `std`.
#[macro_use(eprint, eprintln)]
extern crate terminal;

mod advise;
mod binding;
mod conditions;
mod doctor;
mod guest;
mod live;
mod place;
mod placement_file;
mod profile;
mod rank;
mod ranks;
mod replay;
mod report;
mod reproduce;
mod rule;
mod run;
mod sched;
mod share;
mod shell;
mod simulate;
mod study;
mod task;
mod thread_count;
mod topology;
mod usage;
mod workloads;

use ::launch::{LaunchError, NotInstalled};
use ::simulation::{RunError, SimulationError};
use ::study::JournalError;
use ::study::session::SessionError;
use ::workloads::GraphError;
use anyhow::Context;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{CommandFactory, Parser, Subcommand};
use indicatif::ProgressBar;
use output::{Inputs, OutputError, ResultFile};
use std::ffi::OsStr;
use std::io::{self, BufWriter, ErrorKind, IsTerminal, StdoutLock, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use strum::{EnumMessage, IntoEnumIterator};

/// Find out whether it matters where your threads run, how much, and where they run best — and make them stay put.
#[derive(Parser)]
#[command(name = "stayput", version, arg_required_else_help = true, after_help = EXAMPLES, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  stayput study -- ./app                     does placement matter for ./app on this machine?
  stayput study -n 1,all npb:cg.W npb:ep.W   the same for two built-in programs
  stayput study --best -n 1,all -- ./app     which of all placements is best, in the fewest runs?
  stayput run --place app.stayput -- ./app   run it where the study found it best
  stayput run --place scatter -n 4 -- ./app  run it on four CPUs that share as little as possible
  stayput place scatter -n 8 --as gomp       the same placement for another tool
  stayput simulate time-sharing              what would affinity scheduling gain, and for which workload?
  stayput sched --light -- ./app             run it under the affinity scheduler, in the kernel
  stayput share -- mva.W + gravity.W         run jobs that take CPUs and give them back
  stayput profile -- ./app                   why does it matter where it runs? time slices, waits, moves
  stayput advise app.toml                    what would be worth trying for what was profiled?
  stayput reproduce                          what the papers print and claim, beside what we get
  stayput workloads                          the built-in programs, and what they stress
  stayput topology                           this machine as a tree
  stayput doctor                             what this machine can and can't measure

Exit codes:
  0    all went well
  1    something failed: a cell none of whose runs went well, a loss above --max-loss, a full disk
  2    the command line, or a file that it names, is wrong; nothing was run
  126  the program can't be executed
  127  there is no such program
`run` and `sched` end as the program did that they ran: with its exit code, or by its signal.";

#[derive(Subcommand)]
enum Command {
    Study(Box<study::StudyArgs>),
    Run(run::RunArgs),
    Sched(sched::SchedArgs),
    Share(share::ShareArgs),
    Profile(profile::ProfileArgs),
    Advise(advise::AdviseArgs),
    Report(report::ReportArgs),
    Reproduce(reproduce::ReproduceArgs),
    Simulate(simulate::SimulateArgs),
    // The name that it had, for one release.
    #[command(alias = "play")]
    Replay(Box<replay::ReplayArgs>),
    Place(place::PlaceArgs),
    Topology(topology::TopologyArgs),
    Workloads(workloads::WorkloadsArgs),
    Doctor(doctor::DoctorArgs),
    Completions(shell::CompletionsArgs),
    Man(shell::ManArgs),
    #[command(hide = true)]
    Guest,
    #[command(hide = true)]
    Rank(rank::RankArgs),
    #[command(hide = true)]
    Task(task::TaskArgs),
}

/// The command line, or a file that it names, is wrong: exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UsageError(pub String);

impl UsageError {
    /// Wraps any error that is the caller's to mend.
    pub(crate) fn from(error: impl std::fmt::Display) -> anyhow::Error {
        Self(error.to_string()).into()
    }
}

/// All went well.
pub(crate) const SUCCESS: u8 = 0;

/// Something failed.
pub(crate) const FAILURE: u8 = 1;

/// The command line, or a file that it names, is wrong.
const USAGE: u8 = 2;

/// The program is there but can't be executed.
const NOT_EXECUTABLE: u8 = 126;

/// There is no such program.
const NOT_FOUND: u8 = 127;

fn main() -> ExitCode {
    launch::fail_writes_by_errors();
    stayput().into()
}

/// Does what the command line says; gives the exit code.
fn stayput() -> u8 {
    if shell::complete(Arguments::command) {
        return SUCCESS;
    }
    let no_code = |()| SUCCESS;
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            if let Some(sentence) = usage::sentence(&error, Arguments::command(), &command_line()) {
                eprintln!("stayput: {sentence}");
                return USAGE;
            }
            error.exit();
        }
    };
    let result = match arguments.command {
        Command::Study(args) => study::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Sched(_) => sched::run().map(|never| match never {}),
        Command::Share(args) => share::run(&args),
        Command::Profile(args) => profile::run(&args),
        Command::Advise(args) => advise::run(&args),
        Command::Report(args) => report::run(&args).map(no_code),
        Command::Reproduce(args) => reproduce::run(&args).map(no_code),
        Command::Simulate(args) => simulate::run(&args).map(no_code),
        Command::Replay(args) => replay::run(&args).map(no_code),
        Command::Place(args) => place::run(&args).map(no_code),
        Command::Topology(args) => topology::run(&args).map(no_code),
        Command::Workloads(args) => workloads::run(&args).map(no_code),
        Command::Doctor(args) => doctor::run(&args).map(no_code),
        Command::Completions(args) => shell::completions(&args).map(no_code),
        Command::Rank(args) => rank::run(&args),
        Command::Task(args) => task::run(&args),
        Command::Guest => guest::run().map(no_code),
        Command::Man(args) => shell::man(&args, Arguments::command()).map(no_code),
    };
    result.unwrap_or_else(|error| {
        eprintln!("stayput: {}", usage::without_error_number(&format!("{error:#}")));
        if let Some(Interrupted { signal, .. }) = error.downcast_ref() {
            launch::die_by(*signal);
        }
        exit_code(&error)
    })
}

/// Writes text for people to standard output, by which no terminal is steered.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    print_by(|stdout| stdout.write_all(terminal::printable(text).as_bytes()))
}

/// The same of text that may have colours of ours.
pub(crate) fn print_coloured(text: &str) -> anyhow::Result<()> {
    print_by(|stdout| stdout.write_all(terminal::printable_coloured(text).as_bytes()))
}

/// Writes text for programs to standard output: as it is, but for what would steer a terminal where that is one.
pub(crate) fn print_exactly(text: &str) -> anyhow::Result<()> {
    let shown = match io::stdout().is_terminal() {
        true => terminal::printable(text),
        false => text.into(),
    };
    print_by(|stdout| stdout.write_all(shown.as_bytes()))
}

/// Lets `write` write to standard output. A reader that has seen enough, such as `head`, ends us as it would any program.
pub(crate) fn print_by(write: impl FnOnce(&mut BufWriter<StdoutLock>) -> io::Result<()>) -> anyhow::Result<()> {
    let mut stdout = BufWriter::new(io::stdout().lock());
    match write(&mut stdout).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {
            launch::end_without_reader();
            Ok(())
        }
        written => written.context("cannot write to standard output"),
    }
}

/// The file that a result is to go to; none is standard output, which `-` is as well.
pub(crate) fn result_file(path: Option<&Path>, inputs: Inputs) -> Result<Option<ResultFile>, OutputError> {
    path.filter(|path| *path != Path::new("-")).map(|path| ResultFile::named(path, inputs)).transpose()
}

/// A choice among the variants of `T`, by their names, with their documentation as help.
pub(crate) fn choice<T>() -> impl TypedValueParser<Value = T>
where
    T: IntoEnumIterator + EnumMessage + FromStr<Err = strum::ParseError> + Clone + Send + Sync + 'static,
{
    let value = |variant: T| {
        let (names, help) = (variant.get_serializations(), variant.get_documentation().unwrap_or_default());
        let (name, aliases) = names.split_first().map_or(("", &[][..]), |(name, aliases)| (*name, aliases));
        PossibleValue::new(name).aliases(aliases.iter().copied()).help(help.trim_end_matches('.'))
    };
    PossibleValuesParser::new(T::iter().map(value).collect::<Vec<_>>()).try_map(|name| name.parse::<T>())
}

/// A bar on standard error for something of that length.
pub(crate) fn progress_bar(length: u64, quiet: bool) -> ProgressBar {
    if quiet { ProgressBar::hidden() } else { ProgressBar::new(length) }
}

/// A signal interrupted work, of which a journal or a folder keeps what was done. When everything is closed it ends this process.
#[derive(Debug, thiserror::Error)]
#[error("interrupted; {} keeps what was measured, and the same command goes on", kept_in.display())]
pub(crate) struct Interrupted {
    pub(crate) signal: i32,
    pub(crate) kept_in: PathBuf,
}

/// The command line, as journals keep it.
pub(crate) fn command_line() -> Vec<String> {
    std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Why the program can't be started, with what helps where a line for a shell was given as one word.
pub(crate) fn unstartable(error: LaunchError, program: &OsStr) -> anyhow::Error {
    let is_shell_line = program.to_string_lossy().contains(|c: char| c.is_whitespace() || "|&;<>()$`*?~".contains(c));
    let error = anyhow::Error::from(error);
    if is_shell_line { error.context("to let a shell read the line add `--shell` before the `--`") } else { error }
}

/// How we end after `error`: as a shell does when the program under study isn't there or can't be executed.
fn exit_code(error: &anyhow::Error) -> u8 {
    let no_graph = error.downcast_ref::<GraphError>();
    if error.is::<NotInstalled>() || no_graph.is_some_and(GraphError::is_not_installed) {
        return NOT_FOUND;
    }
    match error.downcast_ref::<LaunchError>() {
        Some(LaunchError::NotFound { .. }) => NOT_FOUND,
        Some(LaunchError::NotExecutable { .. } | LaunchError::NoInterpreter { .. }) => NOT_EXECUTABLE,
        Some(LaunchError::System { .. } | LaunchError::Interrupted { .. }) => FAILURE,
        Some(_) => USAGE,
        None if is_usage_error(error) => USAGE,
        None => FAILURE,
    }
}

/// Whether the command line, or a file that it names, is what is wrong.
fn is_usage_error(error: &anyhow::Error) -> bool {
    if let Some(error) = error.downcast_ref::<SessionError>() {
        return is_session_usage_error(error);
    }
    if let Some(error) = error.downcast_ref::<RunError>() {
        return match error {
            RunError::Simulation(_) => true,
            RunError::Session(error) => is_session_usage_error(error),
            RunError::Journal(error) => error.is_usage_error(),
            RunError::Interrupted { .. } | RunError::Cluster(_) => false,
        };
    }
    error.downcast_ref::<JournalError>().is_some_and(JournalError::is_usage_error)
        || error.downcast_ref::<GraphError>().is_some_and(GraphError::is_usage_error)
        || error.downcast_ref::<OutputError>().is_some_and(OutputError::is_usage_error)
        || error.is::<UsageError>()
        || error.is::<SimulationError>()
        || error.is::<machine::PlaceError>()
        || error.is::<machine::DistinctError>()
        || error.is::<machine::MachineError>()
}

fn is_session_usage_error(error: &SessionError) -> bool {
    match error {
        SessionError::OtherPlan { .. } | SessionError::OtherProgram { .. } | SessionError::OtherMachine { .. } => true,
        SessionError::Journal(error) => error.is_usage_error(),
    }
}
