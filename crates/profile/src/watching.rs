//! Watches a target from its beginning to the end of the time: in the kernel where that may be, else by its records.

use crate::collector::{self, Collector, Refused, Watched};
use crate::counts::ProgramCounts;
use crate::potential::Judge;
use crate::profile::{Profile, Source};
use crate::records::{self, Records};
use crate::trace::{CpuTimeline, TraceError, TraceFile, TraceSums, TraceTo, Tracer};
use launch::{Interruptions, Launch, LaunchError, Launched, Observe, interruption};
use machine::Machine;
use machine::linux::{Tid, system};
use std::ffi::OsString;
use std::mem::MaybeUninit;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// What is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A command that is started for it, with all that it starts.
    Command(Vec<OsString>),
    /// What runs already, with all that it starts.
    Running(launch::Target),
    /// Everything but the kernel's own threads.
    All,
}

impl Target {
    /// The words of a command that is started for it; none where they are no UTF-8.
    fn command(&self) -> Option<Vec<String>> {
        let Self::Command(words) = self else { return None };
        words.iter().map(|word| word.to_str().map(str::to_owned)).collect()
    }

    /// Who is watched in the kernel for it.
    pub(crate) fn watched(&self) -> Watched {
        match self {
            Self::Command(_) => Watched::Started,
            Self::Running(_) => Watched::Named,
            Self::All => Watched::All,
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Command(words) => {
                let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
                f.write_str(&words.join(" "))
            }
            Self::Running(target) => target.fmt(f),
            Self::All => f.write_str("everything on this machine"),
        }
    }
}

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The command can't be started, or its end was not seen.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// Nothing may be counted in the kernel.
    #[error("{0}; without that only a command that stayput starts can be profiled: stayput profile -- CMD")]
    Kernel(Refused),
    /// Nothing may be counted in the kernel, and records can't be looked at while they are made.
    #[error("--live shows what is counted in the kernel, but {0}; without --live a command is profiled all the same")]
    Live(Refused),
    /// And nothing is recorded for us either.
    #[error("{kernel}; and the kernel refuses records of switches (perf_event_open): {records}")]
    Nothing {
        /// Why not in the kernel.
        kernel: Refused,
        /// Why there are no records.
        records: std::io::Error,
    },
    /// Nothing may be counted in the kernel, and a trace is of nothing else.
    #[error("{0}; without that there is no trace")]
    NoTrace(Refused),
    /// A trace can't be written.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// What was counted can't be read.
    #[error(transparent)]
    Unread(#[from] Refused),
}

/// A profile, and how the command ended that was started for it.
#[derive(Debug)]
pub struct Profiled {
    /// The profile.
    pub profile: Profile,
    /// Of a command.
    pub launched: Option<Launched>,
    /// Why nothing was counted in the kernel, where that would have told more.
    pub refused: Option<Refused>,
    /// Why the trace is not whole, where one was asked for and could not be written to its end.
    pub trace_failure: Option<TraceError>,
}

/// How often one looks whether what runs already has ended, and who else is in its control group.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
pub(crate) const BETWEEN_SEARCHES: Duration = Duration::from_secs(1);

/// Profiles `target` on `machine`, which is this one, for that long at most: else until it ends, or somebody interrupts us. A
/// command goes on to its end in any case.
///
/// # Errors
/// [`ProfileError`]
pub fn profile(target: &Target, at_most: Option<Duration>, machine: &Machine) -> Result<Profiled, ProfileError> {
    profile_and_trace(target, at_most, machine, None)
}

/// The same, and writes a trace of every event, as [`crate::trace`] tells.
///
/// # Errors
/// [`ProfileError`]
pub fn profile_and_trace(
    target: &Target,
    at_most: Option<Duration>,
    machine: &Machine,
    trace: Option<TraceTo<'_>>,
) -> Result<Profiled, ProfileError> {
    let mut memory = MaybeUninit::uninit();
    let collector = Collector::load_with(&mut memory, target.watched(), trace.map_or(0, |trace| trace.ring_bytes));
    let (counted, launched, traced) = match (collector, target) {
        (Ok(mut collector), Target::Command(command)) => {
            let mut tracing = Tracing::begin(trace, &collector)?;
            let start = Start::new(command.clone());
            start.go();
            let between = if tracing.0.is_some() { Records::SOON } else { Duration::MAX };
            start.wait(at_most, between, &mut || tracing.go_on(&collector));
            tracing.stop(&mut collector);
            let counted = collector.finish();
            let launched = match start.end() {
                Ok(launched) => launched,
                Err(error) => {
                    tracing.discard();
                    return Err(error.into());
                }
            };
            (counted?, Some(launched), tracing.end())
        }
        (Ok(collector), Target::Running(target)) => {
            let (counted, traced) = watch_running(collector, Some(target), at_most, trace)?;
            (counted, None, traced)
        }
        (Ok(collector), Target::All) => {
            let (counted, traced) = watch_running(collector, None, at_most, trace)?;
            (counted, None, traced)
        }
        (Err(refused), _) if trace.is_some() => return Err(ProfileError::NoTrace(refused)),
        (Err(refused), Target::Command(command)) => {
            let start = Start::new(command.clone());
            let mut records = match Records::open(start.starter) {
                Ok(records) => records,
                Err(records) => return Err(ProfileError::Nothing { kernel: refused, records }),
            };
            let begun = Instant::now();
            start.go();
            start.wait(at_most, Records::SOON, &mut || records.take(false));
            let seconds = begun.elapsed().as_secs_f64();
            let (programs, lost) = records.finish();
            let untold = records::UNTOLD.map(str::to_owned).to_vec();
            let launched = start.end()?;
            let profile = profile_of(target, machine, Source::Records, seconds, programs, lost, untold);
            return Ok(Profiled { profile, launched: Some(launched), refused: Some(refused), trace_failure: None });
        }
        (Err(refused), _) => return Err(ProfileError::Kernel(refused)),
    };
    let mut profile = counted_profile(target, machine, counted);
    let mut trace_failure = None;
    match traced {
        Some(Ok((sums, timeline))) => (profile.trace, profile.timeline) = (Some(sums), timeline),
        Some(Err(failure)) => trace_failure = Some(failure),
        None => {}
    }
    Ok(Profiled { profile, launched, refused: None, trace_failure })
}

/// The profile of what was counted in the kernel.
pub(crate) fn counted_profile(target: &Target, machine: &Machine, counted: collector::Counted) -> Profile {
    let mut untold = Vec::new();
    if counted.moves_untold > 0 {
        untold.push(format!(
            "from where to where threads moved {} times: there were too many pairs",
            counted.moves_untold
        ));
    }
    if !counted.has_wakers {
        untold.push("who woke whom: this kernel doesn't say whether an interrupt or a thread did".into());
    }
    if counted.has_crowd {
        untold.push("programs beyond the first 255 are one, `(others)`".into());
    }
    let others = Some(counted.others);
    let of = profile_of(target, machine, Source::Bpf, counted.seconds, counted.programs, counted.lost_events, untold);
    Profile { others, ..of }
}

fn profile_of(
    target: &Target,
    machine: &Machine,
    source: Source,
    seconds: f64,
    programs: Vec<ProgramCounts>,
    lost_events: u64,
    mut untold: Vec<String>,
) -> Profile {
    let judge = Judge::new(machine);
    let is_complete = source == Source::Bpf;
    untold.extend(GENERALLY_UNTOLD.map(str::to_owned));
    Profile {
        target: target.to_string(),
        command: target.command().unwrap_or_default(),
        source,
        kernel: system::kernel_release().unwrap_or_default(),
        cpus: system::online_cpus().map_or(0, |cpus| cpus.iter().count() as u32),
        seconds,
        lost_events,
        programs: programs.into_iter().map(|program| program.into_program(machine, &judge, is_complete)).collect(),
        others: None,
        trace: None,
        timeline: None,
        untold,
    }
}

/// Of a profile whose reload wasn't measured.
pub(crate) const RELOAD_UNTOLD: &str =
    "reload cost: it was not measured, and potentials rest on an assumption that each of them states";

/// What no profile tells.
const GENERALLY_UNTOLD: [&str; 2] = [
    "looks of the scheduler at its run queue that left the thread where it was: a dispatch interval is the time to the next switch",
    RELOAD_UNTOLD,
];

/// What became of a trace, where one was asked for.
type Traced = Option<Result<(TraceSums, Option<CpuTimeline>), TraceError>>;

/// A trace that is written meanwhile, where one was asked for.
struct Tracing(Option<Tracer>);

impl Tracing {
    fn begin(trace: Option<TraceTo<'_>>, collector: &Collector<'_>) -> Result<Self, ProfileError> {
        let Some(TraceTo { path, .. }) = trace else { return Ok(Self(None)) };
        Ok(Self(Some(Tracer::new(collector, TraceFile::create(path)?)?)))
    }

    fn go_on(&mut self, collector: &Collector<'_>) {
        if let Some(tracer) = &mut self.0 {
            tracer.take(collector);
        }
    }

    fn stop(&mut self, collector: &mut Collector<'_>) {
        collector.stop();
        if let Some(tracer) = &mut self.0 {
            tracer.take_all(collector);
        }
    }

    fn end(self) -> Traced {
        self.0.map(Tracer::finish)
    }

    fn discard(self) {
        if let Some(tracer) = self.0 {
            tracer.discard();
        }
    }
}

/// Watches what runs already until the time is over, it has ended, or somebody interrupts us.
fn watch_running(
    mut collector: Collector<'_>,
    target: Option<&launch::Target>,
    at_most: Option<Duration>,
    trace: Option<TraceTo<'_>>,
) -> Result<(collector::Counted, Traced), ProfileError> {
    let _held = Interruptions::hold();
    let begun = Instant::now();
    let mut tracing = Tracing::begin(trace, &collector)?;
    if let Some(target) = target {
        collector.watch(&target.processes())?;
    }
    let mut searched = begun;
    while interruption().is_none() && at_most.is_none_or(|at_most| begun.elapsed() < at_most) {
        let left = at_most.map_or(BETWEEN_LOOKS, |at_most| at_most.saturating_sub(begun.elapsed()));
        thread::sleep(if tracing.0.is_some() { Records::SOON } else { BETWEEN_LOOKS }.min(left));
        tracing.go_on(&collector);
        let Some(target) = target else { continue };
        let processes = target.processes();
        if processes.is_empty() {
            break;
        }
        // What is moved into a control group meanwhile.
        if matches!(target, launch::Target::Group(_)) && searched.elapsed() >= BETWEEN_SEARCHES {
            collector.watch(&processes)?;
            searched = Instant::now();
        }
    }
    tracing.stop(&mut collector);
    Ok((collector.finish()?, tracing.end()))
}

/// A thread that starts the command once it is let, and waits for it.
pub(crate) struct Start {
    starter: Tid,
    gate: mpsc::Sender<()>,
    over: Receiver<()>,
    thread: JoinHandle<Result<Launched, LaunchError>>,
}

impl Start {
    pub(crate) fn new(command: Vec<OsString>) -> Self {
        let (gate, opened) = mpsc::channel();
        let (tell, starter) = mpsc::channel();
        let (ended, over) = mpsc::channel();
        let thread = thread::spawn(move || {
            // The receiver waits for it.
            let _ = tell.send(Tid(nix::unistd::gettid().as_raw()));
            if opened.recv().is_err() {
                return Err(LaunchError::NoProgram);
            }
            // Stops at births would be counted as the program's own, and each look at it may take its CPU.
            let launch = Launch { observe: Observe::End, keep_binding_variables: true, ..Launch::new(command) };
            let launched = launch::launch(&launch);
            let _ = ended.send(());
            launched
        });
        let starter = starter.recv().unwrap_or(Tid::CALLER);
        Self { starter, gate, over, thread }
    }

    pub(crate) fn go(&self) {
        let _ = self.gate.send(());
    }

    /// Whether the command has ended.
    pub(crate) fn is_over(&self) -> bool {
        // Told once, and then the thread that tells it ends; but this is asked again.
        self.thread.is_finished()
    }

    /// Waits until it has ended or the time is over, doing `meanwhile` every so often.
    fn wait(&self, at_most: Option<Duration>, between: Duration, meanwhile: &mut dyn FnMut()) {
        let begun = Instant::now();
        loop {
            let left = at_most.map_or(Duration::MAX, |at_most| at_most.saturating_sub(begun.elapsed()));
            match self.over.recv_timeout(left.min(between)) {
                Err(RecvTimeoutError::Timeout) => meanwhile(),
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
            }
            if at_most.is_some_and(|at_most| begun.elapsed() >= at_most) {
                return;
            }
        }
    }

    /// What came of it.
    pub(crate) fn end(self) -> Result<Launched, LaunchError> {
        drop(self.gate);
        self.thread.join().unwrap_or(Err(LaunchError::NoProgram))
    }
}
