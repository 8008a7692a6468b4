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
//! One launch at a time: signals belong to the process, so a second one waits for the first.

mod capture;
mod child;
mod companion;
mod company;
mod conditions;
mod counters;
mod events;
mod huge_pages;
mod input;
mod interruption;
mod libraries;
mod memory;
pub mod observation;
mod openmp;
mod poller;
mod registry;
mod residence;
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

pub use capture::{Captured, KEPT_BYTES};
pub use child::executable_path;
pub use companion::{NotInstalled, companion};
pub use company::{Company, CompanyObservation, ParseCompanyError};
pub use conditions::{Conditions, Part};
pub use counters::{counters_available, migrations_available};
pub use huge_pages::HugePages;
pub use input::Input;
pub use interruption::{Interruptions, interruption};
pub use libraries::own_libraries;
pub use memory::{MemoryPolicy, NodeSet};
pub use observation::{ConditionsObservation, Exit, Observation, ThreadObservation};
pub use residence::MemoryObservation;
pub use scheduling::{AttachedProcess, Scheduling, SchedulingObservation};
pub use signals::{die_by, end_without_reader, fail_writes_by_errors, restore_signals_of_writes};
pub use standstill::{Standstill, Still};
pub use tracer::trace_available;

use child::{Held, Program};
use company::CompanyInForce;
use counters::Counters;
use events::Events;
use machine::linux::{Pid, Tid, affinity};
use machine::{CpuSet, Placement};
use nix::errno::Errno;
use openmp::BINDING_VARIABLES;
use registry::{Binder, ThreadRegistry};
use residence::MemoryReader;
use scheduling::{Attached, SchedulingSeen};
use serde::{Deserialize, Serialize};
use signals::Caught;
use std::collections::HashSet;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
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
    /// What is run when all is ready, right before the program begins, and right after it has ended, if anything: it marks for somebody
    /// else when that is.
    pub marks: Option<Marks>,
}

/// Commands that mark a program's beginning and its end: each a program with its arguments.
#[derive(Clone, Debug)]
pub struct Marks {
    /// Of the beginning.
    pub begin: Vec<OsString>,
    /// Of the end.
    pub end: Vec<OsString>,
}

impl Marks {
    /// Runs one of them.
    fn make(command: &[OsString]) -> Result<(), LaunchError> {
        let failed =
            |cause: String| LaunchError::Conditions(format!("it can't be marked when the program runs: {cause}"));
        let (program, arguments) = command.split_first().ok_or_else(|| failed("no command is given".into()))?;
        let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
        let output = output.map_err(|cause| failed(cause.to_string()))?;
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.success() { Ok(()) } else { Err(failed(said.trim().to_owned())) }
    }
}

impl Launch {
    /// Launches `argv` as if bare, only observed; the fields say what else to do.
    pub fn new(argv: Vec<OsString>) -> Self {
        Self { argv, ..Self::default() }
    }
}

/// What came of a launch.
#[derive(Clone, Debug, PartialEq)]
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

/// Launches a program and waits for its end.
///
/// Children that other threads of this process start meanwhile are left alone, unless with [`Descendants::Kill`] the
/// main thread starts them: they can't be told from orphans that the program leaves.
///
/// # Errors
/// [`LaunchError`]; in each case nothing of the program is left running.
pub fn launch(launch: &Launch) -> Result<Launched, LaunchError> {
    let name = launch.argv.first().ok_or(LaunchError::NoProgram)?;
    let path = executable_path(name)?;
    let placement = launch.placement.as_ref().map(|placement| usable_placement(placement, launch)).transpose()?;
    let mut notes = Vec::new();
    let binder = binder(placement.as_ref(), launch, &path, &mut notes);
    let environment = environment(placement.as_ref(), launch, binder, &mut notes);
    let program = Program::new(&path, &launch.argv, environment)?;
    let input = launch.input.as_ref().map(Input::open).transpose().map_err(LaunchError::Input)?;

    let _alone = LAUNCHING.lock().unwrap_or_else(PoisonError::into_inner);
    // Before signals are caught: one that comes meanwhile ends us, or is heeded below.
    let in_force = launch.conditions.begin()?;
    launch.marks.as_ref().map_or(Ok(()), |marks| Marks::make(&marks.begin))?;
    let reaper = (launch.descendants == Descendants::Kill).then(Reaper::new);
    let caught = Caught::new(launch.descendants == Descendants::Detach).map_err(LaunchError::system("pipe"))?;
    // From here on a signal arrives in `caught`; one that came before, while the program could still be left alone, is heeded now.
    if let Some(signal) = interruption() {
        return Err(LaunchError::Interrupted { signal });
    }
    let mut held = Held::start(program, launch.output, input, caught.inherited(), launch.conditions.for_child())?;
    let mut events = Events::new(caught, &mut held);
    let mut registry = ThreadRegistry::new(placement.as_ref(), binder, launch.unit, &launch.skip);
    registry.watch_scheduling(SchedulingSeen::new(&launch.conditions.scheduling));
    if launch.conditions.scheduling == Scheduling::Attached {
        registry.attach_processes(Attached::new(&attachable_cpus(placement.as_ref(), &mut notes)?));
    }
    registry.add_process(held.pid);
    let counters = Counters::attach(held.pid);
    let observe = attach(launch.observe, &path, held.pid, &mut notes);
    if let Err(cause) = held.release() {
        tracer::reap(held.pid.main_thread());
        return Err(LaunchError::system("write")(cause));
    }
    let mut memory = MemoryReader::new(launch, placement.as_ref().map(Placement::union).as_ref());
    let mut ended = match observe {
        Observe::Trace => tracer::watch(&mut held, &mut registry, &mut events, launch, memory.as_mut()),
        Observe::Poll => {
            if let Some(error) = held.failure(&path) {
                tracer::reap(held.pid.main_thread());
                return Err(error);
            }
            poller::watch(&mut held, &mut registry, &mut events, launch, memory.as_mut())
        }
    };
    let marked = launch.marks.as_ref().map_or(Ok(()), |marks| Marks::make(&marks.end));
    let company = in_force.company.as_ref().map(CompanyInForce::observation);
    let around = in_force.scheduling.observation();
    let not_in_force = in_force.end();
    if let Some(reaper) = reaper {
        ended.leftovers += reaper.sweep();
    }
    if ended.started.is_none()
        && let Some(error) = held.failure(&path)
    {
        return Err(error);
    }
    if let Some(signal) = ended.interrupted {
        return Err(LaunchError::Interrupted { signal });
    }
    marked?;
    let standstill = events.standstill();
    if launch.descendants == Descendants::Detach {
        notes.extend(standstill.map(|standstill| format!("{standstill}, which the time above contains")));
    }
    let [stdout, stderr] = events.finish();
    let findings = registry.finish();
    notes.extend(ended.notes);
    notes.extend(findings.notes);
    let mut conditions = ConditionsObservation::default();
    if let Some(memory) = memory {
        let (seen, of_memory) = memory.finish(observe);
        conditions.memory = Some(Box::new(seen));
        notes.extend(of_memory);
    }
    let usage = ended.usage;
    let (counters, counted_migrations) = counters.read();
    // The held child was in our memory, whose size counts as peak memory of the program that it became. What is not
    // larger than that is ours, and the program's own peak is what it had at its end.
    let max_rss_bytes = if usage.max_rss_bytes > ended.before.max_rss_bytes || findings.peak_rss_bytes == 0 {
        usage.max_rss_bytes.max(findings.peak_rss_bytes)
    } else {
        findings.peak_rss_bytes
    };
    let exit = ended.exit.expect("an observer returns when the command has ended");
    let observation = Observation {
        exit: if ended.timed_out { Exit::TimedOut } else { exit },
        wall_s: ended.wall.unwrap_or_default().as_secs_f64(),
        user_s: usage.user.as_secs_f64(),
        system_s: usage.system.as_secs_f64(),
        max_rss_bytes,
        voluntary_switches: usage.voluntary_switches,
        involuntary_switches: usage.involuntary_switches,
        migrations: findings.migrations.or(counted_migrations),
        minor_faults: usage.minor_faults,
        major_faults: usage.major_faults,
        counters,
        threads: findings.threads,
        stops: Some(ended.stops),
        stops_s: Some((stop_cost::of(ended.stops) + ended.reading).as_secs_f64()),
        leftovers: if ended.timed_out { 0 } else { ended.leftovers },
        conditions: ConditionsObservation {
            company: company.map(Box::new),
            scheduling: findings.scheduling.map(|seen| Box::new(seen.with_around(around))),
            ..conditions
        },
        notes,
    };
    Ok(Launched { observation, stdout, stderr, standstill, not_in_force })
}

/// The placement as long as the thread count asks, on CPUs that we may use.
fn usable_placement(placement: &Placement, launch: &Launch) -> Result<Placement, LaunchError> {
    let empty = |thread| LaunchError::EmptySlot { policy: placement.policy.clone(), thread };
    if placement.slots.is_empty() {
        return Err(empty(0));
    }
    let length = match (launch.unit, launch.threads) {
        (Unit::Thread, Some(threads)) => (threads as usize).max(1),
        _ => placement.slots.len(),
    };
    let placement =
        Placement { policy: placement.policy.clone(), slots: (0..length).map(|i| placement.slot(i).clone()).collect() };
    if let Some(thread) = placement.slots.iter().position(CpuSet::is_empty) {
        return Err(empty(thread));
    }
    let allowed = affinity::allowed(Tid::CALLER).map_err(LaunchError::system("sched_getaffinity"))?;
    let forbidden = placement.union().difference(&allowed);
    if !forbidden.is_empty() {
        return Err(LaunchError::ForbiddenCpus { forbidden, allowed });
    }
    Ok(placement)
}

/// The CPUs that processes may be attached to: those of the placement, whose slots are then given to nobody, else all that we may
/// use.
fn attachable_cpus(placement: Option<&Placement>, notes: &mut Vec<String>) -> Result<CpuSet, LaunchError> {
    let Some(placement) = placement else {
        return affinity::allowed(Tid::CALLER).map_err(LaunchError::system("sched_getaffinity"));
    };
    let union = placement.union();
    if placement.slots.iter().any(|slot| *slot != union) {
        notes.push(format!(
            "attached: each process has one of CPUs {union} of placement {} for life, and no thread has a place of its own",
            placement.policy
        ));
    }
    Ok(union)
}

/// Who binds the threads. Variables can't skip a thread or bind processes; and when all slots are alike, the mask that
/// the program starts with does all that is needed.
fn binder(placement: Option<&Placement>, launch: &Launch, path: &Path, notes: &mut Vec<String>) -> Binder {
    let Some(placement) = placement.filter(|_| launch.conditions.scheduling != Scheduling::Attached) else {
        return Binder::Nobody;
    };
    let alike = placement.slots.iter().all(|slot| *slot == placement.slots[0]);
    if launch.unit == Unit::Process || !launch.skip.is_empty() || alike {
        return Binder::Creation;
    }
    let linked = Vec::from_iter(openmp::linked_runtimes(path));
    if linked.len() > 1 {
        notes.push(
            "it links both libgomp and libomp, whose variables would work against each other: its threads were bound in \
             order of creation instead"
                .into(),
        );
    }
    if let [only] = linked[..] { Binder::Runtime(only) } else { Binder::Creation }
}

/// Our environment, with the variables that bind OpenMP threads being ours alone.
fn environment(
    placement: Option<&Placement>,
    launch: &Launch,
    binder: Binder,
    notes: &mut Vec<String>,
) -> Vec<(OsString, OsString)> {
    const OMP_NUM_THREADS: &str = "OMP_NUM_THREADS";
    let attached = launch.conditions.scheduling == Scheduling::Attached;
    let mut environment: Vec<(OsString, OsString)> = env::vars_os().collect();
    let mut set = |name: &OsStr, value: OsString| {
        environment.retain(|(other, _)| other != name);
        environment.push((name.into(), value));
    };
    if launch.unit == Unit::Thread {
        let threads = match (launch.threads, placement) {
            (Some(threads), _) => Some(threads as usize),
            (None, Some(placement)) if !attached && env::var_os(OMP_NUM_THREADS).is_none() => {
                Some(placement.slots.len())
            }
            _ => None,
        };
        if let Some(threads) = threads {
            set(OMP_NUM_THREADS.as_ref(), threads.to_string().into());
        }
    }
    for (name, value) in &launch.env {
        set(name, value.clone());
    }
    if placement.is_some() || attached || !launch.keep_binding_variables {
        let is_binding = |(name, _): &(OsString, OsString)| BINDING_VARIABLES.iter().any(|binding| name == binding);
        let removed: Vec<_> = environment.extract_if(.., |variable| is_binding(variable)).collect();
        if !removed.is_empty() {
            let names = removed.iter().map(|(name, _)| name.to_string_lossy()).collect::<Vec<_>>().join(", ");
            notes.push(format!("removed from the program's environment, because they bind threads: {names}"));
        }
    }
    if let (Binder::Runtime(runtime), Some(placement)) = (binder, placement) {
        let asked = environment
            .iter()
            .find(|(name, _)| name == OMP_NUM_THREADS)
            .and_then(|(_, value)| value.to_str()?.split(',').next()?.trim().parse().ok());
        let length = placement.slots.len().max(asked.unwrap_or(0));
        let slots: Vec<CpuSet> = (0..length).map(|i| placement.slot(i).clone()).collect();
        environment.extend(runtime.variables(&slots).into_iter().map(|(name, value)| (name.into(), value.into())));
    }
    environment
}

/// Attaches to the held child if it is to be traced and can be, else notes why it is polled; returns which it is.
fn attach(wanted: Observe, path: &Path, pid: Pid, notes: &mut Vec<String>) -> Observe {
    let polled_because = match wanted {
        Observe::Poll => "asked for".into(),
        Observe::Trace if child::gains_rights(path) => {
            "a traced program would not get its owner's rights (setuid, setgid)".into()
        }
        Observe::Trace => match tracer::seize(pid) {
            Ok(()) => return Observe::Trace,
            Err(errno) => format!("ptrace is refused here: {}", errno.desc()),
        },
    };
    notes.push(format!("polled ({polled_because}): {}", poller::LIMITS));
    Observe::Poll
}

/// Makes orphans come to us, and not to init, for as long as it lives.
struct Reaper {
    /// Our children from before, which are none of the program's.
    before: HashSet<Pid>,
}

impl Reaper {
    fn new() -> Self {
        Self::set(true);
        Self { before: Self::children().collect() }
    }

    /// Children of this thread and of the main thread, to which the kernel gives orphans.
    fn children() -> impl Iterator<Item = Pid> {
        let process = Pid(std::process::id() as libc::pid_t);
        let own = Tid(nix::unistd::gettid().as_raw());
        let main = process.main_thread();
        let threads = if own == main { vec![own] } else { vec![own, main] };
        threads.into_iter().flat_map(move |thread| process.children_of(thread))
    }

    /// Kills and reaps what has come to us since, and what comes to us by that, until there is nothing more; returns how
    /// many of them were still running. The others had ended before, unnoticed by a parent that is gone.
    fn sweep(self) -> u32 {
        let mut swept = 0;
        loop {
            let orphans: Vec<Pid> = Self::children().filter(|pid| !self.before.contains(pid)).collect();
            if orphans.is_empty() {
                return swept;
            }
            for orphan in orphans {
                swept += u32::from(!orphan.is_zombie());
                signals::send(orphan, libc::SIGKILL);
                tracer::reap(orphan.main_thread());
            }
        }
    }

    fn set(on: bool) {
        // SAFETY: the call changes only an attribute of this process.
        unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, libc::c_ulong::from(on)) };
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        Self::set(false);
    }
}
