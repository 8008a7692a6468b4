//! One play: jobs arrive, run and end, and CPUs go from one to another as the policy says.
//!
//! A single thread waits for what happens, which is one of these, and decides at once:
//!
//! 1. a job arrives: it is started as soon as it has a CPU;
//! 2. a job rings its bell: it can use more or fewer CPUs than before;
//! 3. a job ends: its CPUs are free;
//! 4. [`LOOK_NS`] have passed: processes and threads that are new are bound, and jobs are seen to use what they ask for, or not.
//!
//! When CPUs move, those who lose some are bound first, so that none is anybody's twice for longer than that takes.

use crate::allocation::Allocation;
use crate::binding;
use crate::cpuset::Cpusets;
use crate::decision::{Decision, Decisions, Heading, Step};
use crate::job::{Job, JobCommand};
use machine::linux::Pid;
use machine::{CpuId, CpuSet};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use serde::{Deserialize, Serialize};
use sim::space::Policy;
use sim::space::outcome::{Change, Event};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// How often jobs are looked at, in ns.
const LOOK_NS: u64 = 100_000_000;

/// How long a bell isn't listened to after it rang, in ns: a job that rings all the time gets no more of our time than this allows.
const DEAF_NS: u64 = 200_000;

/// What is to be played.
#[derive(Debug)]
pub struct Play<'a> {
    /// Which play it is, from 0.
    pub number: u32,
    /// The policy.
    pub policy: Policy,
    /// The CPUs that are shared out: at least one, and no others than this process may use.
    pub cpus: &'a CpuSet,
    /// The jobs, in the order of their arrival; at least one.
    pub jobs: &'a [JobCommand],
    /// From one job's arrival to the next.
    pub gap: Duration,
    /// How many workers a CPU remembers.
    pub history: u32,
    /// The seed of what chance decides.
    pub seed: u64,
    /// How long a job may take from its start; one that takes longer is killed.
    pub limit: Option<Duration>,
    /// Where jobs get cpusets; none binds threads and nothing else.
    pub cpusets: Option<&'a Cpusets>,
    /// What jobs write goes to standard error.
    pub shown: bool,
}

/// What became of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobOutcome {
    /// What it is called.
    pub name: String,
    /// When it arrived, in seconds since the play began.
    pub arrived_s: f64,
    /// From its arrival to its start, in seconds: it had to wait for a CPU; none when it wasn't started.
    pub waited_s: Option<f64>,
    /// From its arrival to its end, in seconds; none of one that failed or was cut short.
    pub response_s: Option<f64>,
    /// CPU time that its processes took, in seconds.
    pub cpu_s: f64,
    /// Time for which it had CPUs, summed over these, in seconds.
    pub held_s: f64,
    /// How often it got a CPU, its first one included.
    pub got: u32,
    /// How often it gave a CPU up or lost it, before its end.
    pub lost: u32,
    /// How often it was held to fewer CPUs than it asked for, since it didn't use them.
    pub capped: u32,
    /// Whether it ever said how many CPUs it can use.
    pub spoke: bool,
    /// Why it failed, in a few words; none when it ended with 0.
    pub failure: Option<String>,
    /// The end of what a job that failed wrote.
    pub tail: Option<String>,
    /// Processes that outlived it, and were killed.
    pub leftovers: u32,
    /// Most of its threads at once that could not be bound.
    pub unbound: u32,
}

/// What came of a play.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Which play.
    pub play: u32,
    /// The policy.
    pub policy: Policy,
    /// From its begin to the end of the last job, in seconds.
    pub seconds: f64,
    /// The jobs, in the order of their arrival.
    pub jobs: Vec<JobOutcome>,
    /// How often a CPU went to a job.
    pub moves: u64,
    /// CPU time that the allocator took, in seconds; none where the kernel doesn't say.
    pub allocator_cpu_s: Option<f64>,
    /// The signal that cut it short.
    pub interrupted_by: Option<i32>,
}

/// Why a play could not go on. All of its jobs have been ended.
#[derive(Debug, thiserror::Error)]
pub enum ShareError {
    /// A job can't be started.
    #[error("{name} can't be started: {cause}")]
    Start {
        /// The job.
        name: String,
        /// What the system says.
        cause: io::Error,
    },
    /// The system refuses what the allocator needs.
    #[error("jobs can't be watched: {0}")]
    System(#[from] io::Error),
    /// Decisions can't be written down.
    #[error("decisions can't be written: {0}")]
    Record(#[source] io::Error),
    /// What has come of plays can't be kept.
    #[error("what came of the plays can't be written: {0}")]
    Keep(#[source] io::Error),
}

/// A job, from before its arrival to after its end.
struct Entry {
    arrives_ns: u64,
    started_ns: Option<u64>,
    state: State,
    held_ns: u64,
    held_until_ns: u64,
    outcome: JobOutcome,
}

#[expect(clippy::large_enum_variant, reason = "there are few jobs, and most of them run")]
enum State {
    Due,
    /// It has arrived and has no CPU yet.
    Waiting,
    Runs(Job),
    Ended,
}

struct UnderWay<'a, 'b> {
    play: &'a Play<'a>,
    begin: Instant,
    /// The kernel's numbers of the CPUs, by ours.
    cpus: Vec<CpuId>,
    allocation: Allocation,
    jobs: Vec<Entry>,
    moves: u64,
    decisions: &'a mut Decisions<'b>,
}

impl Play<'_> {
    /// Runs the jobs to their ends. Signals that are held by [`launch::Interruptions`] end them.
    ///
    /// # Errors
    /// [`ShareError`] says why it could not go on.
    pub fn conduct(&self, decisions: &mut Decisions) -> Result<Outcome, ShareError> {
        // What loses its parent becomes our child, and is found.
        nix::sys::prctl::set_child_subreaper(true).map_err(io::Error::from)?;
        let own = Pid(std::process::id() as libc::pid_t);
        let own_cpu_s = || own.scheduler_times(own.main_thread()).map(|times| times.cpu_s);
        let before_s = own_cpu_s();
        let entry = |(number, command): (u32, &JobCommand)| Entry {
            arrives_ns: (self.gap * number).as_nanos() as u64,
            started_ns: None,
            state: State::Due,
            held_ns: 0,
            held_until_ns: 0,
            outcome: JobOutcome::due(command, (self.gap * number).as_secs_f64()),
        };
        let cpus: Vec<CpuId> = self.cpus.iter().collect();
        let heading = Heading {
            play: self.number,
            policy: self.policy,
            cpus: cpus.iter().map(|cpu| cpu.0).collect(),
            jobs: self.jobs.iter().map(|job| job.name.clone()).collect(),
            history: self.history,
            seed: self.seed,
        };
        decisions.write(&heading).map_err(ShareError::Record)?;
        let mut under_way = UnderWay {
            play: self,
            begin: Instant::now(),
            allocation: Allocation::new(
                self.policy,
                cpus.len() as u32,
                self.jobs.len() as u32,
                self.history,
                self.seed,
            ),
            cpus,
            jobs: (0..).zip(self.jobs).map(entry).collect(),
            moves: 0,
            decisions,
        };
        let interrupted_by = under_way.run();
        if !matches!(interrupted_by, Ok(None)) {
            under_way.end_all();
        }
        let interrupted_by = interrupted_by?;
        let UnderWay { begin, jobs, moves, .. } = under_way;
        Ok(Outcome {
            play: self.number,
            policy: self.policy,
            seconds: begin.elapsed().as_secs_f64(),
            jobs: jobs.into_iter().map(|entry| entry.outcome).collect(),
            moves,
            allocator_cpu_s: own_cpu_s().zip(before_s).map(|(after_s, before_s)| after_s - before_s),
            interrupted_by,
        })
    }
}

impl UnderWay<'_, '_> {
    fn now_ns(&self) -> u64 {
        self.begin.elapsed().as_nanos() as u64
    }

    /// Until all jobs have ended, or a signal ends them.
    fn run(&mut self) -> Result<Option<i32>, ShareError> {
        let mut look_ns = LOOK_NS;
        while !self.jobs.iter().all(|entry| matches!(entry.state, State::Ended)) {
            if let Some(signal) = launch::interruption() {
                return Ok(Some(signal));
            }
            self.let_arrive()?;
            let (ended, rang) = self.wait(look_ns)?;
            for job in ended {
                self.end(job)?;
            }
            for job in rang {
                self.hear(job)?;
            }
            let now_ns = self.now_ns();
            if now_ns >= look_ns {
                look_ns = now_ns + LOOK_NS;
                self.look()?;
            }
        }
        Ok(None)
    }

    fn let_arrive(&mut self) -> Result<(), ShareError> {
        for job in 0..self.jobs.len() as u32 {
            let now_ns = self.now_ns();
            let entry = &mut self.jobs[job as usize];
            if matches!(entry.state, State::Due) && entry.arrives_ns <= now_ns {
                (entry.state, entry.held_until_ns) = (State::Waiting, now_ns);
                entry.outcome.arrived_s = now_ns as f64 / 1e9;
                entry.arrives_ns = now_ns;
                let events = self.allocation.arrive(now_ns, job, 1);
                self.carry_out(now_ns, Step::Arrive { job, wanted: 1 }, &events)?;
            }
        }
        Ok(())
    }

    /// Waits until something happens, and no longer than to `until_ns`: jobs that have ended, and those that rang.
    fn wait(&self, until_ns: u64) -> Result<(Vec<u32>, Vec<u32>), ShareError> {
        let now_ns = self.now_ns();
        let mut until_ns = until_ns;
        let mut watched = Vec::new();
        let mut descriptors = Vec::new();
        for (number, entry) in (0_u32..).zip(&self.jobs) {
            match &entry.state {
                State::Due => until_ns = until_ns.min(entry.arrives_ns),
                State::Runs(job) => {
                    watched.push((number, false));
                    descriptors.push(PollFd::new(job.as_fd(), PollFlags::POLLIN));
                    if job.deaf_until_ns > now_ns {
                        until_ns = until_ns.min(job.deaf_until_ns);
                    } else {
                        watched.push((number, true));
                        descriptors.push(PollFd::new(job.page.as_fd(), PollFlags::POLLIN));
                    }
                }
                State::Waiting | State::Ended => {}
            }
        }
        let timeout = TimeSpec::from_duration(Duration::from_nanos(until_ns.saturating_sub(now_ns)));
        match ppoll(&mut descriptors, Some(timeout), None) {
            Ok(_) => {}
            // A signal: who asked for it looks.
            Err(Errno::EINTR) => return Ok((Vec::new(), Vec::new())),
            Err(error) => return Err(ShareError::System(error.into())),
        }
        let (mut ended, mut rang) = (Vec::new(), Vec::new());
        for ((number, is_bell), descriptor) in watched.into_iter().zip(&descriptors) {
            if descriptor.any().unwrap_or(false) {
                if is_bell { rang.push(number) } else { ended.push(number) }
            }
        }
        Ok((ended, rang))
    }

    /// A job rang its bell.
    fn hear(&mut self, number: u32) -> Result<(), ShareError> {
        let now_ns = self.now_ns();
        let State::Runs(job) = &mut self.jobs[number as usize].state else { return Ok(()) };
        // Emptied first: what is written after that rings again.
        job.page.rang();
        job.deaf_until_ns = now_ns + DEAF_NS;
        let said = job.page.wanted();
        job.demand.says(said);
        self.heed(number, now_ns)?;
        if let State::Runs(job) = &mut self.jobs[number as usize].state {
            job.page.publish(&job.cpus, said);
        }
        Ok(())
    }

    /// Looks at all jobs.
    fn look(&mut self) -> Result<(), ShareError> {
        let roots = self.roots();
        for orphan in binding::orphans(&roots) {
            for entry in &mut self.jobs {
                if let State::Runs(job) = &mut entry.state
                    && job.adopts(orphan)
                {
                    break;
                }
            }
        }
        for number in 0..self.jobs.len() as u32 {
            let now_ns = self.now_ns();
            let entry = &mut self.jobs[number as usize];
            let State::Runs(job) = &mut entry.state else { continue };
            job.look(now_ns);
            let is_late = |limit: Duration| {
                entry.started_ns.is_some_and(|started_ns| now_ns - started_ns > limit.as_nanos() as u64)
            };
            if let Some(limit) = self.play.limit.filter(|limit| is_late(*limit)) {
                entry.outcome.failure = Some(format!("killed after {} s", limit.as_secs_f64()));
                job.kill();
            }
            self.heed(number, now_ns)?;
        }
        Ok(())
    }

    /// Asks for as many CPUs as a job is taken to be able to use.
    fn heed(&mut self, number: u32, now_ns: u64) -> Result<(), ShareError> {
        let State::Runs(job) = &self.jobs[number as usize].state else { return Ok(()) };
        let wanted = job.demand.wanted().min(self.cpus.len() as u32);
        if wanted == self.allocation.wanted(number) {
            return Ok(());
        }
        let said = job.demand.said();
        let events = self.allocation.want(now_ns, number, wanted);
        self.carry_out(now_ns, Step::Want { job: number, wanted, said }, &events)
    }

    /// A job has ended.
    fn end(&mut self, number: u32) -> Result<(), ShareError> {
        let entry = &mut self.jobs[number as usize];
        let State::Runs(job) = std::mem::replace(&mut entry.state, State::Ended) else { return Ok(()) };
        // By the clock when it ended, not when what outlived it has been killed.
        let now_ns = self.now_ns();
        let others = self.roots();
        self.jobs[number as usize].close(job, now_ns, &others)?;
        let events = self.allocation.depart(now_ns, number);
        self.carry_out(now_ns, Step::Depart { job: number }, &events)
    }

    /// Does what was decided.
    fn carry_out(&mut self, at_ns: u64, step: Step, events: &[Event]) -> Result<(), ShareError> {
        self.decisions.write(&Decision::new(at_ns, step, events)).map_err(ShareError::Record)?;
        if !events.iter().any(|event| matches!(event.change, Change::Given(_) | Change::Taken)) {
            return Ok(());
        }
        let sets: Vec<CpuSet> = (0..self.jobs.len() as u32).map(|job| self.cpus_of(job)).collect();
        let now_ns = self.now_ns();
        for losers in [true, false] {
            for (entry, cpus) in self.jobs.iter_mut().zip(&sets) {
                let State::Runs(job) = &mut entry.state else { continue };
                let loses = job.cpus.iter().any(|cpu| !cpus.contains(cpu));
                if job.cpus == *cpus || loses != losers {
                    continue;
                }
                entry.outcome.got += cpus.iter().filter(|cpu| !job.cpus.contains(*cpu)).count() as u32;
                entry.outcome.lost += job.cpus.iter().filter(|cpu| !cpus.contains(*cpu)).count() as u32;
                entry.held_ns += job.cpus.iter().count() as u64 * (now_ns - entry.held_until_ns);
                entry.held_until_ns = now_ns;
                job.bind(cpus.clone(), now_ns);
                let heard = job.demand.said().unwrap_or(0);
                job.page.publish(cpus, heard);
            }
        }
        self.moves += events.iter().filter(|event| matches!(event.change, Change::Given(_))).count() as u64;
        for (number, cpus) in sets.into_iter().enumerate() {
            if matches!(self.jobs[number].state, State::Waiting) && cpus.iter().next().is_some() {
                self.start(number, cpus)?;
            }
        }
        Ok(())
    }

    /// The processes that were started as jobs.
    fn roots(&self) -> Vec<Pid> {
        let root = |entry: &Entry| if let State::Runs(job) = &entry.state { Some(job.root()) } else { None };
        self.jobs.iter().filter_map(root).collect()
    }

    fn cpus_of(&self, job: u32) -> CpuSet {
        self.allocation.cpus_of(job).into_iter().map(|cpu| self.cpus[cpu as usize]).collect()
    }

    fn start(&mut self, number: usize, cpus: CpuSet) -> Result<(), ShareError> {
        let command = &self.play.jobs[number];
        let now_ns = self.now_ns();
        let name = format!("{}-{number}", self.play.number);
        let cpuset = self.play.cpusets.map(|cpusets| (cpusets, name.as_str()));
        let got = cpus.iter().count() as u32;
        let started = Job::start(command, cpus, self.cpus.len() as u32, self.play.shown, cpuset, now_ns);
        let entry = &mut self.jobs[number];
        let job = started.map_err(|cause| ShareError::Start { name: command.name.clone(), cause })?;
        entry.state = State::Runs(job);
        (entry.started_ns, entry.held_until_ns) = (Some(now_ns), now_ns);
        entry.outcome.waited_s = Some((now_ns - entry.arrives_ns) as f64 / 1e9);
        entry.outcome.got = got;
        Ok(())
    }

    /// Kills all jobs that run.
    fn end_all(&mut self) {
        for number in 0..self.jobs.len() {
            if let State::Runs(job) = std::mem::replace(&mut self.jobs[number].state, State::Ended) {
                let others = self.roots();
                let entry = &mut self.jobs[number];
                entry.outcome.failure.get_or_insert_with(|| "cut short".into());
                job.kill();
                let now_ns = self.begin.elapsed().as_nanos() as u64;
                // What can't be said of a job that was killed need not be.
                let _ = entry.close(job, now_ns, &others);
            }
        }
    }
}

impl Entry {
    /// The job has ended: what became of it. `others` are the processes that were started as other jobs.
    fn close(&mut self, job: Job, now_ns: u64, others: &[Pid]) -> io::Result<()> {
        let outcome = &mut self.outcome;
        self.held_ns += job.cpus.iter().count() as u64 * (now_ns - self.held_until_ns);
        outcome.held_s = self.held_ns as f64 / 1e9;
        (outcome.capped, outcome.spoke, outcome.unbound) =
            (job.demand.caps(), job.demand.said().is_some() || job.page.wanted() > 0, job.unbound);
        let end = job.end(others)?;
        outcome.cpu_s = end.cpu_ns as f64 / 1e9;
        outcome.leftovers = end.leftovers;
        outcome.failure = outcome.failure.take().or_else(|| failure(end.status));
        if outcome.failure.is_none() {
            outcome.response_s = Some((now_ns - self.arrives_ns) as f64 / 1e9);
        } else {
            outcome.tail = Some(end.tail);
        }
        Ok(())
    }
}

impl JobOutcome {
    fn due(command: &JobCommand, arrived_s: f64) -> Self {
        Self {
            name: command.name.clone(),
            arrived_s,
            waited_s: None,
            response_s: None,
            cpu_s: 0.0,
            held_s: 0.0,
            got: 0,
            lost: 0,
            capped: 0,
            spoke: false,
            failure: None,
            tail: None,
            leftovers: 0,
            unbound: 0,
        }
    }
}

/// Why a job failed that ended so.
fn failure(status: ExitStatus) -> Option<String> {
    match (status.code(), status.signal()) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("exit code {code}")),
        (None, Some(signal)) => Some(match nix::sys::signal::Signal::try_from(signal) {
            Ok(signal) => format!("killed by {}", signal.as_str()),
            Err(_) => format!("killed by signal {signal}"),
        }),
        (None, None) => Some("an end that the kernel doesn't describe".into()),
    }
}
