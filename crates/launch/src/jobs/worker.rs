//! The process that launches one of several programs.
//!
//! ```text
//! we                         worker
//!                            prepares, holds the program
//!                 <── ready
//! first start ──>            lets the program go when it is time
//!                 <── run    as often as there are runs
//! hang up ──>                kills what runs, tells of it, and ends
//! ```

use super::{Job, JobRun};
use crate::LaunchError;
use crate::capture::Captured;
use crate::prepared::{Prepared, Run};
use crate::scheduling::Loads;
use crate::signals::Inherited;
use crate::supervisor::{self, Charge, Ended, Supervisor};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// What a run that is one of several heeds.
pub(crate) struct Among<'a> {
    /// Returns when the program may begin.
    pub(crate) hold: &'a mut dyn FnMut(),
    /// Hangs up when the program is to be killed because all is over.
    pub(crate) over: OwnedFd,
    /// Processes of all, by CPU.
    pub(crate) loads: Loads,
}

/// What a worker tells.
#[derive(Serialize, Deserialize)]
pub(super) enum Message {
    /// Its program is held, and begins when it is let go.
    Ready,
    /// A run is over.
    Run(Box<JobRun>),
    /// The program could not be launched: why.
    Refused(String),
}

/// What is told by one line.
const END_OF_MESSAGE: u8 = b'\n';

/// So long one waits to hear how a worker that hung up has ended.
const LONGEST_WORD: Duration = Duration::from_secs(1);

/// A worker, as we see it. Dropped, it has ended with all that it started.
pub(super) struct Worker {
    supervisor: Supervisor,
    channel: UnixStream,
    /// What has arrived of a message that isn't whole.
    received: Vec<u8>,
    has_hung_up: bool,
}

impl Worker {
    /// Starts a worker for this job, with what we inherited of signals.
    ///
    /// # Errors
    /// When there is no process left.
    pub(super) fn start(job: Job, inherited: Inherited, loads: Loads) -> Result<Self, LaunchError> {
        let (channel, theirs) = UnixStream::pair().map_err(LaunchError::system("socketpair"))?;
        channel.set_nonblocking(true).map_err(LaunchError::system("fcntl"))?;
        let input = job.launch.input.as_ref().map(crate::Input::descriptor);
        let log = job.launch.log.as_ref().map(crate::Log::descriptor);
        let needs = input.into_iter().chain(log).chain([theirs.as_raw_fd()]).collect();
        let work = Box::new(move || {
            // All are blocked until here, and would call what is ours.
            inherited.restore();
            work(&job, theirs, &loads);
        });
        let supervisor = Supervisor::start(Charge::Worker(supervisor::Worker { work, needs }))?;
        Ok(Self { supervisor, channel, received: Vec::new(), has_hung_up: false })
    }

    /// Its process, whose child the program is.
    pub(super) fn pid(&self) -> machine::linux::Pid {
        self.supervisor.first()
    }

    /// What becomes readable when it tells something; none once it has hung up.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        (!self.has_hung_up).then(|| self.channel.as_fd())
    }

    /// What it has told since this was last asked.
    pub(super) fn receive(&mut self) -> Vec<Message> {
        let mut buffer = vec![0; 64 << 10];
        loop {
            match self.channel.read(&mut buffer) {
                Ok(0) => self.has_hung_up = true,
                Ok(length) => {
                    self.received.extend(&buffer[..length]);
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => self.has_hung_up = true,
            }
            break;
        }
        let end = memchr::memrchr(END_OF_MESSAGE, &self.received).map_or(0, |last| last + 1);
        let whole: Vec<u8> = self.received.drain(..end).collect();
        let lines = whole.split(|byte| *byte == END_OF_MESSAGE).filter(|line| !line.is_empty());
        let unreadable = |error| Message::Refused(format!("what was seen of it cannot be read: {error}"));
        lines.map(|line| serde_json::from_slice(line).unwrap_or_else(unreadable)).collect()
    }

    /// Lets its program go: `first` is when the first of all may start.
    pub(super) fn let_go(&mut self, first: Instant) {
        let on_clock = now() + first.saturating_duration_since(Instant::now());
        // One that is gone has hung up.
        let _ = self.channel.write_all(&(on_clock.as_nanos() as u64).to_ne_bytes());
    }

    /// Has it kill what runs, tell of it, and end.
    pub(super) fn end(&self) {
        let _ = self.channel.shutdown(Shutdown::Write);
    }

    /// How it ended, to follow its name.
    pub(super) fn how_it_ended(&mut self) -> String {
        match self.supervisor.ended_within(LONGEST_WORD) {
            Some(Ended { status: None, .. }) => "ended with its supervisor, which was killed".into(),
            Some(ended) => format!("ended {}{}", ended.how(), ended.last_words()),
            None => "has hung up".into(),
        }
    }
}

/// The time on a clock that all processes share.
fn now() -> Duration {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from).unwrap_or_default()
}

/// What a worker does.
fn work(job: &Job, mut channel: UnixStream, loads: &Loads) {
    let mut first = None;
    let mut runs = 0_u64;
    loop {
        let Ok(over) = channel.try_clone() else { return };
        let mut hold = || {
            first.get_or_insert_with(|| wait_for_start(&mut channel, job.start));
        };
        let among = Among { hold: &mut hold, over: over.into(), loads: loads.clone() };
        let run = Prepared::new(&job.launch).and_then(|prepared| prepared.run(None, Some(among)));
        let run = match (run, first) {
            (Ok(run), Some(first)) => job_run(run, first, runs == 0),
            (Ok(_), None) => None,
            (Err(error), _) => return tell(&mut channel, &Message::Refused(error.to_string())),
        };
        let Some(run) = run else { return };
        runs += 1;
        let is_last = !job.repeat || run.cut_short || run.failed();
        tell(&mut channel, &Message::Run(Box::new(run)));
        if is_last || waits_to_hear(&channel, Duration::ZERO) {
            return;
        }
    }
}

/// The run as it is told; none if the program never began.
fn job_run(Run { launched, started, cut_short }: Run, first: Instant, is_first: bool) -> Option<JobRun> {
    let started_s = started?.saturating_duration_since(first).as_secs_f64();
    let ended_s = started_s + launched.observation.wall_s;
    let mut run = JobRun { started_s, ended_s, launched, cut_short };
    if !is_first && !run.failed() {
        for output in [&mut run.launched.stdout, &mut run.launched.stderr] {
            *output = Captured { total_bytes: output.total_bytes, ..Captured::default() };
        }
    }
    Some(run)
}

/// Says that all is ready; returns when the program may begin, and when the first of all could. Ends this process if all is over.
fn wait_for_start(channel: &mut UnixStream, start: Duration) -> Instant {
    tell(channel, &Message::Ready);
    let mut on_clock = [0; size_of::<u64>()];
    if channel.read_exact(&mut on_clock).is_err() {
        give_up();
    }
    let first = Instant::now() + Duration::from_nanos(u64::from_ne_bytes(on_clock)).saturating_sub(now());
    loop {
        let left = (first + start).saturating_duration_since(Instant::now());
        if left.is_zero() {
            return first;
        }
        if waits_to_hear(channel, left) {
            give_up();
        }
    }
}

/// Whether we hung up, or do so within this.
fn waits_to_hear(channel: &UnixStream, within: Duration) -> bool {
    let mut polled = [PollFd::new(channel.as_fd(), PollFlags::POLLIN)];
    ppoll(&mut polled, Some(TimeSpec::from(within)), None).is_ok_and(|ready| ready > 0)
}

/// Ends this process: what it holds never begins.
fn give_up() -> ! {
    // SAFETY: nothing that was registered in the process that this is a copy of is to run in it.
    unsafe { libc::_exit(0) }
}

/// Tells us; who isn't there any more need not know.
fn tell(channel: &mut UnixStream, message: &Message) {
    if let Ok(mut line) = serde_json::to_vec(message) {
        line.push(END_OF_MESSAGE);
        let _ = channel.write_all(&line);
    }
}
