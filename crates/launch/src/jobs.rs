//! Several programs at once: a mix of jobs, each with a place and conditions of its own, which start together or at given times.
//!
//! ```text
//! conditions of all ──> a worker for each job ──> all are ready ──> let go ──> each has ended once ──> all ended
//! ```
//!
//! A [`launch`](crate::launch) has a process to itself, since signals and orphans come to processes. So each job has a worker: a copy
//! of this process that launches it, sends what it saw, and ends. The programs are held until all workers are ready. A worker has a
//! [supervisor](crate::supervisor), which ends it with all that it started when we say so, or are gone.

pub(crate) mod kept_server;
pub(crate) mod service;
mod worker;

pub(crate) use worker::Among;

use crate::conditions::Conditions;
use crate::events::Events;
use crate::interruption::interruption;
use crate::marks::{Marks, mark};
use crate::observation::{ConditionsObservation, Exit, ThreadObservation};
use crate::prepared::Prepared;
use crate::reaper::Reaper;
use crate::scheduling::Loads;
use crate::signals::Caught;
use crate::standstill::Standstill;
use crate::{Descendants, Launch, LaunchError, Launched, Output, alone, stop_cost};
use machine::linux::{Tid, affinity};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};
use worker::{Message, Worker};

/// One of several programs that run at once.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// The program and how it is launched. Its output is captured and what it leaves is killed, whatever is said there.
    ///
    /// It makes no marks of its own. Of its conditions, those that concern the whole machine must be the ones of all jobs, or none; what it says nothing of is as
    /// for all jobs. Its timeout is that of each of its runs.
    pub launch: Launch,
    /// How long after the first could start it starts.
    pub start: Duration,
    /// Whether it is started again whenever it has ended, until every job has ended once.
    pub repeat: bool,
}

/// Several programs, what all of them are under, and how long they may take.
#[derive(Clone, Debug, Default)]
pub struct Jobs {
    /// The programs.
    pub jobs: Vec<Job>,
    /// What is brought about once, before the first starts, and is in force until all have ended; and what each job has for which
    /// its own conditions say nothing.
    pub conditions: Conditions,
    /// Longest that all of it may take.
    pub timeout: Option<Duration>,
    /// What marks when any of them runs, if anything.
    pub marks: Option<Marks>,
}

/// One run of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobRun {
    /// When it began, in seconds since the first job could start, as the one who traced it saw it.
    pub started_s: f64,
    /// When it ended, likewise.
    pub ended_s: f64,
    /// What came of it. Of a run that is not its job's first, the output is kept only if it failed, and else counted.
    pub launched: Launched,
    /// Whether it was killed because the mix was over: every job had ended once, another one had failed, or time was up.
    pub cut_short: bool,
}

impl JobRun {
    /// Whether the program came to its end by itself, and failed by its exit or its timeout.
    pub fn failed(&self) -> bool {
        !self.cut_short && self.launched.observation.exit != Exit::Code(0)
    }
}

/// How many runs of a job are kept whatever comes of them: what is short may be run without end beside what is long.
pub const KEPT_RUNS: usize = 1000;

/// What came of one job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobLaunched {
    /// Its runs, in their order. Where no job failed and time was not up, the first came to its end.
    pub runs: Vec<JobRun>,
    /// How many more there were: runs that went well on the CPUs that they were meant for, after the first [`KEPT_RUNS`].
    pub more_runs: u64,
}

impl JobLaunched {
    /// The run that failed, if one did: it was the last.
    fn failure(&self) -> Option<&JobRun> {
        self.runs.last().filter(|run| run.failed())
    }

    /// Whether a run of it came to its end.
    fn has_ended_once(&self) -> bool {
        self.runs.first().is_some_and(|run| !run.cut_short)
    }

    /// Takes in what came of a further run.
    fn push(&mut self, run: JobRun) {
        let launched = &run.launched;
        let is_plain = !run.failed()
            && !run.cut_short
            && launched.standstill.is_none()
            && !launched.observation.threads.iter().any(ThreadObservation::strayed);
        if self.runs.len() >= KEPT_RUNS && is_plain {
            self.more_runs += 1;
        } else {
            self.runs.push(run);
        }
    }
}

/// What came of several programs that ran at once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobsLaunched {
    /// Of each job, in their order.
    pub jobs: Vec<JobLaunched>,
    /// The job that was the first to fail, if one did: its last run is the one that failed, and what else ran was killed.
    pub failed: Option<usize>,
    /// Whether time was up before every job had ended once.
    pub timed_out: bool,
    /// Whether a run, or we who watched all of them, stood still; no time of any job counts then.
    pub standstill: Option<Standstill>,
    /// Why the conditions of all jobs were not in force until the end, in a sentence.
    pub not_in_force: Option<String>,
    /// What was read back of the conditions that concern the whole machine; each job's observation has its own.
    pub conditions: ConditionsObservation,
}

impl JobsLaunched {
    /// From when the first job could start to when the last one had ended once, in seconds; none where one has not.
    pub fn makespan_s(&self) -> Option<f64> {
        let first_ends = self.jobs.iter().map(|job| job.runs.first().filter(|run| !run.cut_short && !run.failed()));
        first_ends.map(|run| run.map(|run| run.ended_s)).try_fold(0.0, |latest: f64, end| Some(latest.max(end?)))
    }
}

/// How long workers may take to end what they run, before they are killed with it.
const LONGEST_END: Duration = Duration::from_secs(5);

/// From when all are told until the first is let go: by then each has heard of it.
const LEAD: Duration = Duration::from_millis(5);

/// Launches several programs, and waits until each has ended once. If one fails, or time is up, all are killed at once.
///
/// # Errors
/// [`LaunchError`]; in each case nothing of the programs is left running, and where it is something about one of them, nothing was
/// started if it could be known before.
pub fn launch_jobs(jobs: &Jobs) -> Result<JobsLaunched, LaunchError> {
    let each = jobs.each()?;
    let allowed = affinity::allowed(Tid::CALLER).map_err(LaunchError::system("sched_getaffinity"))?;
    let _alone = alone();
    // Before signals are caught: one that comes meanwhile ends us, or is heeded below.
    let in_force = jobs.conditions.begin()?;
    mark(jobs.marks.as_ref(), |marks| &marks.begin)?;
    let reaper = Reaper::new();
    let caught = Caught::new(false).map_err(LaunchError::system("pipe"))?;
    if let Some(signal) = interruption() {
        return Err(LaunchError::Interrupted { signal });
    }
    // In a worker it would have to be measured anew, beside the others' programs.
    stop_cost::measure_once();
    let loads = Loads::new(&allowed).map_err(LaunchError::system("mmap"))?;
    let start = |job: &Job| Worker::start(job.clone(), caught.inherited(), loads.clone());
    let workers = each.iter().map(start).collect::<Result<_, _>>()?;
    let mut events = Events::new(caught, None, None);
    let mut watch = Watch::new(&each, workers);
    watch.watch(&mut events, jobs.timeout);
    let Watch { launched, timed_out, error, workers, .. } = watch;
    drop(workers);
    let marked = mark(jobs.marks.as_ref(), |marks| &marks.end);
    let around = in_force.end();
    reaper.sweep();
    if let Some(error) = error {
        return Err(error);
    }
    marked?;
    // What failed because another had failed may have been told first.
    let failures = launched.iter().enumerate().filter_map(|(index, job)| Some((index, job.failure()?.ended_s)));
    let failed = failures.min_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(index, _)| index);
    let of_runs = launched.iter().flat_map(|job| &job.runs).filter_map(|run| run.launched.standstill);
    let standstill = Standstill::surest(of_runs.chain(events.standstill()));
    let of_machine = jobs.conditions.scheduling.is_of_whole_machine().then(|| Box::new(around.scheduling));
    let company = around.company.map(Box::new);
    let conditions = ConditionsObservation { memory: None, scheduling: of_machine, company };
    let not_in_force = around.not_in_force;
    Ok(JobsLaunched { jobs: launched, failed, timed_out, standstill, not_in_force, conditions })
}

/// How a message calls one of the jobs.
fn job_error(index: usize, job: &Job, cause: String) -> LaunchError {
    let program = job.launch.argv.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    LaunchError::Job { number: index + 1, program, cause }
}

impl Jobs {
    /// The jobs as their workers launch them.
    ///
    /// # Errors
    /// What makes it impossible to launch one of them, as far as that can be known before anything is started.
    fn each(&self) -> Result<Vec<Job>, LaunchError> {
        if self.jobs.is_empty() {
            return Err(LaunchError::NoProgram);
        }
        let checked = self.jobs.iter().enumerate().map(|(index, job)| {
            if let Some(level) = job.launch.conditions.of_whole_machine(&self.conditions) {
                let cause = format!("{level} concerns the whole machine, and can be given to all jobs only");
                return Err(job_error(index, job, cause));
            }
            let launch = Launch {
                conditions: job.launch.conditions.within(&self.conditions),
                output: Output::Capture,
                descendants: Descendants::Kill,
                marks: None,
                ..job.launch.clone()
            };
            Prepared::new(&launch).map_err(|error| match error {
                LaunchError::EmptySlot { .. } | LaunchError::ForbiddenCpus { .. } | LaunchError::Input(_) => {
                    job_error(index, job, error.to_string())
                }
                // They name the program.
                error => error,
            })?;
            Ok(Job { launch, ..job.clone() })
        });
        checked.collect()
    }
}

/// The workers, and what they have told so far.
struct Watch<'a> {
    jobs: &'a [Job],
    workers: Vec<Worker>,
    /// How many are ready to start.
    ready: usize,
    launched: Vec<JobLaunched>,
    timed_out: bool,
    error: Option<LaunchError>,
    /// All were told to end.
    is_over: bool,
}

impl<'a> Watch<'a> {
    fn new(jobs: &'a [Job], workers: Vec<Worker>) -> Self {
        let launched = vec![JobLaunched::default(); jobs.len()];
        Self { jobs, workers, ready: 0, launched, timed_out: false, error: None, is_over: false }
    }

    /// Lets the programs go when all are ready, and returns when all workers have ended, or should have.
    fn watch(&mut self, events: &mut Events, timeout: Option<Duration>) {
        events.set_deadline(timeout.map(|timeout| Instant::now() + timeout));
        let mut are_let_go = false;
        while self.workers.iter().any(|worker| worker.fd().is_some()) {
            for arrival in events.wait(None, self.workers.iter().filter_map(Worker::fd)) {
                // It counts more than what came of it.
                self.error = Some(LaunchError::Interrupted { signal: arrival.signal });
            }
            (0..self.jobs.len()).for_each(|index| self.receive(index));
            if !are_let_go && self.ready == self.jobs.len() && !self.is_over {
                are_let_go = true;
                events.standstills.begin();
                let first = Instant::now() + LEAD;
                events.set_deadline(timeout.map(|timeout| first + timeout));
                self.workers.iter_mut().for_each(|worker| worker.let_go(first));
            }
            if events.overdue() {
                if self.is_over {
                    return;
                }
                self.timed_out = !self.all_have_ended();
            }
            let has_failed = self.error.is_some() || self.launched.iter().any(|job| job.failure().is_some());
            if !self.is_over && (self.all_have_ended() || has_failed || self.timed_out) {
                self.is_over = true;
                self.workers.iter().for_each(Worker::end);
                events.set_deadline(Some(Instant::now() + LONGEST_END));
            }
        }
    }

    /// Whether each job has ended once.
    fn all_have_ended(&self) -> bool {
        self.launched.iter().all(JobLaunched::has_ended_once)
    }

    /// Takes what the worker of this job has told, and its end.
    fn receive(&mut self, index: usize) {
        let (job, worker) = (&self.jobs[index], &mut self.workers[index]);
        if worker.fd().is_none() {
            return;
        }
        for message in worker.receive() {
            match message {
                Message::Ready => self.ready += 1,
                Message::Run(run) => self.launched[index].push(*run),
                Message::Refused(cause) => drop(self.error.get_or_insert(job_error(index, job, cause))),
            }
        }
        let launched = &self.launched[index];
        let is_done = self.is_over
            || self.error.is_some()
            || launched.runs.last().is_some_and(|run| run.failed() || (!job.repeat && !run.cut_short));
        if worker.fd().is_none() && !is_done {
            let cause = format!("the process that watched it {}", worker.how_it_ended());
            self.error = Some(job_error(index, job, cause));
        }
    }
}
