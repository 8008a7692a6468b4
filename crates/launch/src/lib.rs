//! A program and a placement go in; an [`Observation`] comes out: its threads bound in order of creation, each read back,
//! the whole measured. For that this crate starts the program and traces it, sets affinity masks of its threads, changes
//! the signal dispositions of this process while it runs, and counts it with the kernel's counters; it writes no file but switches
//! of the kernel.
//!
//! ```text
//! clone ──> held ──> watched, bound, counted ──> exec ──> births, ends ──> observation
//! ```
//!
//! - **How**: by [`ptrace`](Observe::Trace), without preloading anything, so that static binaries, Go, Java and Python are
//!   bound like any other; by [polling](Observe::Poll) where ptrace is refused. A program that links one OpenMP runtime
//!   is bound by that runtime, through its own variables, and what came of it is read back.
//! - **Where**: thread `i` of each process of the program goes to slot `i` of the placement; threads beyond the last
//!   slot start again at the first. The program starts on the union of the slots, and its main thread goes to slot 0
//!   when the first other thread is created. One that never creates a thread is therefore free to use the union, which
//!   is then what it was meant for, and a note says so.
//! - **What else**: with [`Output::Inherit`] and [`Descendants::Detach`] the program behaves as if started bare:
//!   process group, terminal, signals, descriptors and exit are what they would have been. With [`Output::Capture`]
//!   and [`Descendants::Kill`] it is a trial of a study: alone in its session, in bounded memory and time, and nothing
//!   is left of it.
//! - **Under which scheduler**: [`Scheduling`] is set before the program begins, read back, and undone when it has ended.
//!
//! One launch at a time: signals belong to the process, so a second one waits for the first. Programs that run at once are
//! [launched together](launch_jobs), each by a process of its own.

mod attach;
mod capture;
mod child;
mod companion;
mod company;
mod conditions;
mod counters;
mod events;
mod helpers;
mod huge_pages;
mod input;
mod interruption;
mod jobs;
mod libraries;
mod log;
mod marks;
mod memory;
pub mod mpi;
pub mod observation;
mod openmp;
mod poller;
mod prepared;
mod reaper;
mod registry;
mod residence;
mod restorer;
mod roles;
mod scheduling;
mod signals;
mod spin;
mod standstill;
mod stop_cost;
mod supervisor;
mod task_events;
mod tracer;
mod unstopped;
mod wait;
mod watchdog;

pub use attach::{Attached, AttachedObservation, Attachment, Target};
pub use capture::{Captured, KEPT_BYTES};
pub use child::executable_path;
pub use companion::{NotInstalled, companion};
pub use company::{Company, CompanyObservation, ParseCompanyError};
pub use conditions::{Conditions, Part};
pub use counters::{counters_available, migrations_available};
pub use helpers::is_helper_note;
pub use huge_pages::HugePages;
pub use input::Input;
pub use interruption::{Interruptions, interruption};
pub use jobs::kept_server::{KeptServer, KeptServerStart, NoServer};
pub use jobs::service::{LONGEST_DYING, Ready, Service, ServiceFailure, ServiceLaunched, Stop, launch_service};
pub use jobs::{Job, JobLaunched, JobRun, Jobs, JobsLaunched, KEPT_RUNS, launch_jobs};
pub use libraries::own_libraries;
pub use log::Log;
pub use marks::Marks;
pub use memory::{MemoryPolicy, NodeSet};
pub use observation::{ConditionsObservation, Exit, Observation, ThreadObservation};
pub use residence::MemoryObservation;
pub use roles::{ParseSlotRuleError, SlotRule};
pub use scheduling::{AttachedProcess, Scheduling, SchedulingObservation};
pub use signals::{die_by, end_without_reader, fail_writes_by_errors, restore_signals_of_writes};
pub use standstill::{Standstill, Still};
pub use tracer::trace_available;

use machine::{CpuSet, Placement};
use nix::errno::Errno;
use prepared::Prepared;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wait::Usage;

/// What takes a slot of the placement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Each thread; every process of the program counts its own from 0.
    #[default]
    Thread,
    /// Each process of the program, in order of creation; its threads inherit its CPUs.
    Process,
}

/// How threads are noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Observe {
    /// By ptrace: every thread, from its first instruction to its last. Falls back to polling where it is refused.
    #[default]
    Trace,
    /// By looking at `/proc`: for programs that use ptrace themselves, or whose setuid bit has to work.
    Poll,
    /// Not at all, but for the program's end, so that nothing disturbs it: for programs that are watched otherwise.
    End,
}

/// Where the program's output goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// To our own; its input is ours too.
    #[default]
    Inherit,
    /// To a [`Captured`] for each stream; its input is what [`Launch::input`] says, and it runs in a session of its own.
    Capture,
}

/// What becomes of processes that outlive the command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Descendants {
    /// They are left running, and signals sent to us are passed on to the command.
    #[default]
    Detach,
    /// They are killed and counted as leftovers; a signal that interrupts us kills everything.
    Kill,
}

/// A program to launch and how.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// The program, as a path or a name in `PATH`, and its arguments.
    pub argv: Vec<OsString>,
    /// Where its threads go; none binds nothing.
    pub placement: Option<Placement>,
    /// How many threads it is to use: sets `OMP_NUM_THREADS`, and makes the placement that long.
    pub threads: Option<u32>,
    /// Creation indexes, of threads or processes as `unit` says, that are left alone and take no slot.
    pub skip: Vec<u32>,
    /// Who takes which slot by what it is called; what no rule names takes the next one.
    pub roles: Vec<SlotRule>,
    /// Leave threads that an MPI library starts for itself on all CPUs of the placement; they take no slot.
    pub free_mpi_helpers: bool,
    /// What takes a slot.
    pub unit: Unit,
    /// How threads are noticed.
    pub observe: Observe,
    /// Where output goes.
    pub output: Output,
    /// What it reads when its output is captured; none is nothing.
    pub input: Option<Input>,
    /// Longest that it may run.
    pub timeout: Option<Duration>,
    /// What becomes of processes that outlive the command.
    pub descendants: Descendants,
    /// Without a placement: leave the variables by which the user's environment binds OpenMP threads, because what they
    /// do is to be observed. Else they are removed, since unbound means unbound.
    pub keep_binding_variables: bool,
    /// Variables to set on top of our own environment.
    pub env: Vec<(OsString, OsString)>,
    /// What it runs under, besides its place.
    pub conditions: Conditions,
    /// Read back where its memory is before it ends, also where no condition is about that.
    pub read_memory: bool,
    /// What marks when it runs, if anything.
    pub marks: Option<Marks>,
    /// Where output that is captured is written as well, as it comes.
    pub log: Option<Log>,
}

impl Launch {
    /// Launches `argv` as if bare, only observed; the fields say what else to do.
    pub fn new(argv: Vec<OsString>) -> Self {
        Self { argv, ..Self::default() }
    }
}

/// What came of a launch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Launched {
    /// What was seen.
    pub observation: Observation,
    /// Standard output, when it was captured.
    pub stdout: Captured,
    /// Standard error, when it was captured.
    pub stderr: Captured,
    /// Whether the run stood still, so that its times aren't the program's.
    pub standstill: Option<Standstill>,
    /// Why its conditions were not in force for all of the run, in a sentence, so that its times aren't theirs.
    pub not_in_force: Option<String>,
}

/// Why a program could not be launched.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// No program is named.
    #[error("no program is named; give one after `--`")]
    NoProgram,
    /// It isn't there.
    #[error("{}: command not found", .name.to_string_lossy())]
    NotFound {
        /// The name as given.
        name: OsString,
    },
    /// It is there but can't be executed.
    #[error("{}: cannot be executed: {}", .path.display(), .errno.desc())]
    NotExecutable {
        /// The file.
        path: PathBuf,
        /// What access(2) or execve(2) said.
        errno: Errno,
    },
    /// It is a script for a program that isn't there.
    #[error("{}: cannot be executed: its first line names {}, which isn't there", .path.display(), .interpreter.display())]
    NoInterpreter {
        /// The script.
        path: PathBuf,
        /// What would have to interpret it.
        interpreter: PathBuf,
    },
    /// An argument or variable that the kernel can't pass on.
    #[error("`{text}` holds a NUL byte, which no argument or variable can")]
    NulByte {
        /// The text, made readable.
        text: String,
    },
    /// The placement names no CPU for a thread.
    #[error("placement `{policy}` has no CPU for thread {thread}")]
    EmptySlot {
        /// What made the placement.
        policy: String,
        /// The thread.
        thread: usize,
    },
    /// The placement needs CPUs that this process may not use.
    #[error(
        "CPUs {forbidden} cannot be used here, only {allowed} (sched_getaffinity: absent, offline, or outside the cpuset \
         or the affinity mask that stayput was started with)"
    )]
    ForbiddenCpus {
        /// The CPUs that are not allowed.
        forbidden: CpuSet,
        /// All that are.
        allowed: CpuSet,
    },
    /// What it was to read can't be given to it.
    #[error("its standard input cannot be given to it: {0}")]
    Input(io::Error),
    /// A signal asked us to end; the program was killed.
    #[error("interrupted by signal {signal}; nothing of the program is left running")]
    Interrupted {
        /// The signal.
        signal: i32,
    },
    /// The kernel refused a part of its conditions.
    #[error("the kernel refuses {part}: {}", .errno.desc())]
    Refused {
        /// Which.
        part: Part,
        /// What it said.
        errno: Errno,
    },
    /// One of several programs can't be run: which, counted from 1, and why.
    #[error("job {number} ({}): {cause}", machine::quoted(.program))]
    Job {
        /// Which.
        number: usize,
        /// Its name, as given.
        program: String,
        /// Why, in a sentence.
        cause: String,
    },
    /// A part of its conditions can't be brought about: why, in a sentence.
    #[error("{0}")]
    Conditions(String),
    /// The kernel refused something that a launch needs.
    #[error("{call} failed: {cause}")]
    System {
        /// The system call.
        call: &'static str,
        /// The error that it returned.
        cause: io::Error,
    },
}

impl LaunchError {
    /// The error of a system call.
    fn system<E: Into<io::Error>>(call: &'static str) -> impl Fn(E) -> Self {
        move |cause| Self::System { call, cause: cause.into() }
    }
}

/// Lets types be kept in journals as the text by which users ask for them.
macro_rules! text_in_journals {
    ($($kind:ty),+) => {$(
        impl From<$kind> for String {
            fn from(value: $kind) -> Self {
                value.to_string()
            }
        }

        impl TryFrom<String> for $kind {
            type Error = <$kind as std::str::FromStr>::Err;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                text.parse()
            }
        }
    )+};
}
pub(crate) use text_in_journals;

/// What an observer saw of the end.
#[derive(Debug, Default)]
struct End {
    /// How the command ended; none until it has.
    exit: Option<Exit>,
    /// When the program began; none when it could not be executed.
    started: Option<Instant>,
    wall: Option<Duration>,
    /// What it used since it began.
    usage: Usage,
    /// What the held child had used when it became the program.
    before: Usage,
    /// Stops of its threads for us while it ran.
    stops: u64,
    /// How long its processes were stopped to read their memory, the command at its end apart.
    reading: Duration,
    timed_out: bool,
    interrupted: Option<i32>,
    leftovers: u32,
    notes: Vec<String>,
}

/// Held during a launch: signal dispositions and the reaping of orphans belong to the whole process.
static LAUNCHING: Mutex<()> = Mutex::new(());

/// Waits until no other launch of this process is under way; the next waits for the answer's end.
fn alone() -> MutexGuard<'static, ()> {
    LAUNCHING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Launches a program and waits for its end.
///
/// Children that other threads of this process start meanwhile are left alone, unless with [`Descendants::Kill`] the
/// main thread starts them: they can't be told from orphans that the program leaves.
///
/// # Errors
/// [`LaunchError`]; in each case nothing of the program is left running.
pub fn launch(launch: &Launch) -> Result<Launched, LaunchError> {
    let prepared = Prepared::new(launch)?;
    let _alone = alone();
    // Before signals are caught: one that comes meanwhile ends us, or is heeded when they are.
    let in_force = launch.conditions.begin()?;
    Ok(prepared.run(Some(in_force), None)?.launched)
}
