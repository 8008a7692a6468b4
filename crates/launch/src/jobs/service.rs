//! A server, and a load that runs when it is ready: the server is under study, the load tells how it does.
//!
//! ```text
//! server starts ──> ready ──> load starts ──> load has ended ──> server is asked to stop ──> both have ended
//! ```
//!
//! Each has a [worker](super::worker), as jobs have: whatever happens, nothing of either is left.

use super::worker::{Message, Worker};
use super::{Job, JobRun, LEAD, LONGEST_END};
use crate::conditions::Conditions;
use crate::events::Events;
use crate::interruption::interruption;
use crate::log::Log;
use crate::marks::{Marks, mark};
use crate::observation::{ConditionsObservation, Exit};
use crate::prepared::Prepared;
use crate::reaper::Reaper;
use crate::scheduling::Loads;
use crate::signals::Caught;
use crate::standstill::Standstill;
use crate::supervisor::{Charge, Supervisor};
use crate::{Descendants, Launch, LaunchError, Launched, Output, alone, executable_path, stop_cost};
use machine::linux::{Pid, Tid, affinity};
use nix::sys::signal::{Signal, kill};
use nix::unistd;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often one looks whether the server is ready.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// How long a connection may take.
const LONGEST_CONNECT: Duration = Duration::from_millis(200);

/// A server whose connections are gone may take so long to end: a load that fails since its server dies may be seen to have ended first.
pub const LONGEST_DYING: Duration = Duration::from_millis(500);

/// How long a worker may take until its program is held.
const LONGEST_HOLD: Duration = Duration::from_secs(30);

/// When a server is ready.
#[derive(Clone)]
pub enum Ready {
    /// When something listens on this port of this machine, which was free before.
    Port(u16),
    /// When what it printed so far is found to say so.
    Log(Arc<dyn Fn(&str) -> bool + Send + Sync>),
    /// When this line for a shell succeeds; it is run again and again.
    Command(String),
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port(port) => write!(f, "Port({port})"),
            Self::Log(_) => f.write_str("Log"),
            Self::Command(line) => write!(f, "Command({line:?})"),
        }
    }
}

/// How a server is asked to stop.
#[derive(Clone, Debug)]
pub struct Stop {
    /// By this signal to its first process.
    pub signal: i32,
    /// By this line for a shell instead, in which `STAYPUT_SERVER_PID` is the number of that process.
    pub command: Option<String>,
    /// After so long it is killed.
    pub timeout: Duration,
}

/// A server and its load.
#[derive(Clone, Debug)]
pub struct Service {
    /// The server. Its output is captured, and what it leaves is killed.
    pub server: Launch,
    /// When it is ready.
    pub ready: Ready,
    /// How long it may take until then.
    pub ready_timeout: Duration,
    /// How it is asked to stop.
    pub stop: Stop,
    /// What runs while it is ready, likewise captured. Its timeout holds.
    pub load: Launch,
    /// What is brought about before the server starts, and is in force until both have ended.
    pub conditions: Conditions,
    /// What marks when they run, if anything.
    pub marks: Option<Marks>,
}

/// Why there was no load that ran to its end beside a server that was there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceFailure {
    /// Something listened on its port before it was started.
    PortInUse(u16),
    /// It was not ready in time.
    NotReady,
    /// It had ended before it was ready.
    EndedBeforeReady,
    /// It had ended before the load did.
    EndedUnderLoad,
}

/// What came of a server and its load.
#[derive(Clone, Debug, Default)]
pub struct ServiceLaunched {
    /// Of the server; none where it never began.
    pub server: Option<Launched>,
    /// Of the load; none where it never began.
    pub load: Option<Launched>,
    /// What went wrong, if anything but the load's own exit.
    pub failure: Option<ServiceFailure>,
    /// Whether the server had to be killed since it did not stop when it was asked to.
    pub was_killed: bool,
    /// How long it took until the server was ready, in seconds; none where it never was.
    pub ready_s: Option<f64>,
    /// Why the asking to stop failed, in a sentence.
    pub stop_failure: Option<String>,
    /// Whether the load, or we who watched, stood still.
    pub standstill: Option<Standstill>,
    /// Why the conditions were not in force until the end, in a sentence.
    pub not_in_force: Option<String>,
    /// What was read back of the conditions that concern the whole machine.
    pub conditions: ConditionsObservation,
}

/// Launches a server, its load when it is ready, and ends the server when the load has ended.
///
/// # Errors
/// [`LaunchError`]; in each case nothing of either is left running.
pub fn launch_service(service: &Service) -> Result<ServiceLaunched, LaunchError> {
    let captured = |launch: &Launch| Launch {
        output: Output::Capture,
        descendants: Descendants::Kill,
        marks: None,
        ..launch.clone()
    };
    let log = matches!(service.ready, Ready::Log(_))
        .then(Log::new)
        .transpose()
        .map_err(LaunchError::system("memfd_create"))?;
    let server = Launch { log: log.clone(), timeout: None, ..captured(&service.server) };
    let server = Launch { conditions: server.conditions.within(&service.conditions), ..server };
    let load = captured(&service.load);
    Prepared::new(&server)?;
    Prepared::new(&load)?;
    if let Ready::Port(port) = service.ready
        && listens(port)
    {
        return Ok(ServiceLaunched { failure: Some(ServiceFailure::PortInUse(port)), ..ServiceLaunched::default() });
    }
    let allowed = affinity::allowed(Tid::CALLER).map_err(LaunchError::system("sched_getaffinity"))?;
    let _alone = alone();
    let in_force = service.conditions.begin()?;
    mark(service.marks.as_ref(), |marks| &marks.begin)?;
    let reaper = Reaper::new();
    let caught = Caught::new(false).map_err(LaunchError::system("pipe"))?;
    if let Some(signal) = interruption() {
        return Err(LaunchError::Interrupted { signal });
    }
    stop_cost::measure_once();
    let loads = Loads::new(&allowed).map_err(LaunchError::system("mmap"))?;
    let mut events = Events::new(caught, None, None);
    let mut watch = Watch { service, server: None, load: None, log, launched: ServiceLaunched::default() };
    let watched = watch.watch(&mut events, [server, load], &loads);
    let Watch { server, load, mut launched, .. } = watch;
    drop((server, load));
    let marked = mark(service.marks.as_ref(), |marks| &marks.end);
    let around = in_force.end();
    reaper.sweep();
    watched?;
    marked?;
    let of_load = launched.load.as_ref().and_then(|load| load.standstill);
    launched.standstill = Standstill::surest(of_load.into_iter().chain(events.standstill()));
    let of_machine = service.conditions.scheduling.is_of_whole_machine().then(|| Box::new(around.scheduling));
    let company = around.company.map(Box::new);
    launched.conditions = ConditionsObservation { memory: None, scheduling: of_machine, company };
    launched.not_in_force = around.not_in_force;
    Ok(launched)
}

/// Whether anything accepts connections on a port of this machine.
pub(super) fn listens(port: u16) -> bool {
    let addresses = [SocketAddr::from((Ipv4Addr::LOCALHOST, port)), SocketAddr::from((Ipv6Addr::LOCALHOST, port))];
    addresses.iter().any(|address| TcpStream::connect_timeout(address, LONGEST_CONNECT).is_ok())
}

/// A worker with what it has told.
struct Watched {
    worker: Worker,
    is_held: bool,
    run: Option<JobRun>,
    /// The program's process, from when it is held.
    pid: Option<Pid>,
    /// It was told to end.
    is_over: bool,
}

impl Watched {
    fn start(launch: Launch, events: &Events, loads: &Loads) -> Result<Self, LaunchError> {
        let job = Job { launch, ..Job::default() };
        let worker = Worker::start(job, events.inherited(), loads.clone())?;
        Ok(Self { worker, is_held: false, run: None, pid: None, is_over: false })
    }

    /// Has it kill what runs, tell of it, and end.
    fn end(&mut self) {
        if self.run.is_none() {
            self.is_over = true;
            self.worker.end();
        }
    }

    /// Takes what has been told.
    fn receive(&mut self, what: &str) -> Result<(), LaunchError> {
        if self.worker.fd().is_none() {
            return Ok(());
        }
        for message in self.worker.receive() {
            match message {
                Message::Ready => {
                    // It has no other child yet.
                    self.pid = self.worker.pid().children().first().copied();
                    self.is_held = true;
                }
                Message::Run(run) => self.run = Some(*run),
                Message::Refused(cause) => return Err(LaunchError::Conditions(format!("{what}: {cause}"))),
            }
        }
        if self.worker.fd().is_none() && self.run.is_none() && !self.is_over {
            let how = self.worker.how_it_ended();
            return Err(LaunchError::Conditions(format!("{what}: the process that watched it {how}")));
        }
        Ok(())
    }
}

struct Watch<'a> {
    service: &'a Service,
    server: Option<Watched>,
    load: Option<Watched>,
    log: Option<Log>,
    launched: ServiceLaunched,
}

impl Watch<'_> {
    /// Sees both to their ends.
    fn watch(&mut self, events: &mut Events, [server, load]: [Launch; 2], loads: &Loads) -> Result<(), LaunchError> {
        self.server = Some(Watched::start(server, events, loads)?);
        let outcome = self.run(events, load, loads);
        let ended = self.end(events);
        outcome.and(ended)
    }

    /// From the server's start to the load's end.
    fn run(&mut self, events: &mut Events, load: Launch, loads: &Loads) -> Result<(), LaunchError> {
        if !self.wait(events, Some(LONGEST_HOLD), |watch| watch.server.as_ref().is_some_and(|server| server.is_held))? {
            return Err(LaunchError::Conditions("the server could not be held before its start in time".into()));
        }
        let started = Instant::now() + LEAD;
        if let Some(server) = &mut self.server {
            server.worker.let_go(started);
        }
        let mut probe = Probe::default();
        let service = self.service;
        let is_ready =
            |watch: &mut Self| watch.server_has_ended() || probe.is_ready(&service.ready, watch.log.as_ref());
        if !self.wait(events, Some(service.ready_timeout), is_ready)? {
            self.launched.failure = Some(ServiceFailure::NotReady);
            return Ok(());
        }
        drop(probe);
        if self.server_has_ended() {
            self.launched.failure = Some(ServiceFailure::EndedBeforeReady);
            return Ok(());
        }
        self.launched.ready_s = Some(started.elapsed().as_secs_f64());
        self.load = Some(Watched::start(load, events, loads)?);
        let is_held =
            |watch: &mut Self| watch.load.as_ref().is_some_and(|load| load.is_held) || watch.server_has_ended();
        if !self.wait(events, Some(LONGEST_HOLD), is_held)? {
            return Err(LaunchError::Conditions("the load could not be held before its start in time".into()));
        }
        if self.server_has_ended() {
            self.launched.failure = Some(ServiceFailure::EndedUnderLoad);
            return Ok(());
        }
        events.standstills.begin();
        if let Some(load) = &mut self.load {
            load.worker.let_go(Instant::now() + LEAD);
        }
        // Its own timeout ends it.
        self.wait(events, None, |watch| watch.load_has_ended() || watch.server_has_ended())?;
        if self.load_has_failed() {
            self.wait(events, Some(LONGEST_DYING), |watch| watch.server_has_ended())?;
        }
        if self.server_has_ended() && (!self.load_has_ended() || self.load_has_failed()) {
            self.launched.failure = Some(ServiceFailure::EndedUnderLoad);
        }
        Ok(())
    }

    /// Ends what still runs: the load at once, the server as it is asked to.
    fn end(&mut self, events: &mut Events) -> Result<(), LaunchError> {
        let was_interrupted = interruption().is_some();
        self.load.iter_mut().for_each(Watched::end);
        let pid = self.server.as_ref().and_then(|server| server.pid);
        let is_up = self.launched.ready_s.is_some() && !self.server_has_ended();
        let mut stopped = Ok(true);
        if let Some(pid) = pid.filter(|_| is_up && !was_interrupted) {
            self.launched.stop_failure = self.service.stop.ask(pid).err();
            stopped = self.wait(events, Some(self.service.stop.timeout), |watch| watch.server_has_ended());
            self.launched.was_killed = matches!(stopped, Ok(false));
        }
        self.server.iter_mut().for_each(Watched::end);
        let all_have_ended = |watch: &mut Self| {
            let has_ended = |watched: &Option<Watched>| {
                watched.as_ref().is_none_or(|watched| watched.run.is_some() || watched.worker.fd().is_none())
            };
            has_ended(&watch.server) && has_ended(&watch.load)
        };
        let ended = self.wait(events, Some(LONGEST_END), all_have_ended);
        let launched = |watched: &mut Option<Watched>| watched.as_mut()?.run.take().map(|run| run.launched);
        (self.launched.server, self.launched.load) = (launched(&mut self.server), launched(&mut self.load));
        stopped.and(ended).map(drop)
    }

    fn server_has_ended(&self) -> bool {
        self.server.as_ref().is_some_and(|server| server.run.is_some())
    }

    fn load_has_ended(&self) -> bool {
        self.load.as_ref().is_some_and(|load| load.run.is_some())
    }

    fn load_has_failed(&self) -> bool {
        let exit = self.load.as_ref().and_then(|load| load.run.as_ref()).map(|run| run.launched.observation.exit);
        exit.is_some_and(|exit| exit != Exit::Code(0))
    }

    /// Waits until `is_so`; gives whether it became so in time.
    fn wait(
        &mut self,
        events: &mut Events,
        timeout: Option<Duration>,
        mut is_so: impl FnMut(&mut Self) -> bool,
    ) -> Result<bool, LaunchError> {
        events.set_deadline(timeout.map(|timeout| Instant::now() + timeout));
        loop {
            for (watched, what) in [(&mut self.server, "the server"), (&mut self.load, "the load")] {
                watched.iter_mut().try_for_each(|watched| watched.receive(what))?;
            }
            if is_so(self) {
                return Ok(true);
            }
            if events.overdue() {
                return Ok(false);
            }
            let fds = [&self.server, &self.load].into_iter().filter_map(|watched| watched.as_ref()?.worker.fd());
            let arrivals = events.wait(Some(BETWEEN_LOOKS), fds);
            if let Some(arrival) = arrivals.first() {
                return Err(LaunchError::Interrupted { signal: arrival.signal });
            }
        }
    }
}

/// What is known of whether a server is ready.
#[derive(Default)]
pub(super) struct Probe {
    /// A line that asks.
    running: Option<Supervisor>,
}

impl Probe {
    pub(super) fn is_ready(&mut self, ready: &Ready, log: Option<&Log>) -> bool {
        match ready {
            Ready::Port(port) => listens(*port),
            Ready::Log(says_so) => log.is_some_and(|log| says_so(&log.text())),
            Ready::Command(line) => {
                if self.running.is_none() {
                    self.running = supervised(&["sh", "-c", line]).ok();
                }
                let ended = self.running.as_mut().and_then(|running| running.ended_within(Duration::ZERO).cloned());
                let Some(ended) = ended else { return false };
                self.running = None;
                ended.status == Some(0)
            }
        }
    }
}

fn supervised(words: &[&str]) -> Result<Supervisor, LaunchError> {
    let argv: Vec<OsString> = words.iter().map(OsString::from).collect();
    Supervisor::start(Charge::Command(executable_path(OsStr::new(words[0]))?, argv))
}

impl Stop {
    /// Asks the server whose first process is `pid`.
    ///
    /// # Errors
    /// Why that failed, in a sentence.
    pub(super) fn ask(&self, pid: Pid) -> Result<(), String> {
        let Some(line) = &self.command else {
            let signal = Signal::try_from(self.signal).map_err(|_| format!("{} is no signal", self.signal))?;
            // One that has ended meanwhile needs not be asked.
            let _ = kill(unistd::Pid::from_raw(pid.0), signal);
            return Ok(());
        };
        let variable = format!("STAYPUT_SERVER_PID={}", pid.0);
        let started = supervised(&["env", &variable, "sh", "-c", line]);
        let mut running =
            started.map_err(|error| format!("the command that stops the server can't be started: {error}"))?;
        match running.ended_within(self.timeout) {
            None => Err("the command that stops the server did not end, and was killed".into()),
            Some(ended) if ended.status == Some(0) => Ok(()),
            Some(ended) => {
                Err(format!("the command that stops the server ended {}{}", ended.how(), ended.last_words()))
            }
        }
    }
}
