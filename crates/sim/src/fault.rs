//! What can be wrong with a workload.

use crate::cache::Footprint;
use crate::eevdf::kernel::OWN_SLICE_MS;
use crate::parameters::LONGEST_MS;
use crate::rule::BASE_MAX;
use crate::workload::{Distribution, Ends, Intervals, Job, Process, Step, Workload};
use std::collections::{BTreeMap, BTreeSet};

/// A workload that can't be simulated, and where in it the reason is.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{at}: {fault}")]
pub struct WorkloadError {
    /// The field, as in `jobs[1].process.block_ms`.
    pub at: String,
    /// What is wrong there.
    pub fault: Fault,
}

/// What is wrong with a field of a workload.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Fault {
    /// A time, count or share is out of range.
    #[error("{value} is not a number from {least} to {most}")]
    Range {
        /// What it is.
        value: f64,
        /// The least that it may be.
        least: f64,
        /// The most that it may be.
        most: f64,
    },
    /// Percentages don't make a whole.
    #[error("the percentages sum to {0}, not to 100")]
    Sum(f64),
    /// Edges don't fit to so many bins.
    #[error("a histogram of {0} bins needs {edges} rising edges", edges = .0 + 1)]
    Edges(usize),
    /// The quantum, of so many ms, does not fall into the last bin.
    #[error("the quantum of {0} ms does not lie in the last bin of the histogram, so what it ended is not known")]
    QuantumOutside(f64),
    /// All intervals of the histogram ended with the quantum, but other causes have a share.
    #[error("the histogram leaves no intervals for the causes other than the quantum")]
    NothingLeft,
    /// Semaphores end intervals, but it isn't said how long they block.
    #[error("semaphores end intervals but `block_ms` does not say for how long")]
    NoBlockTime,
    /// The quantum has a share although bursts are cut by whatever quantum is simulated.
    #[error("bursts are cut by the simulated quantum; its share must be 0")]
    QuantumOfBursts,
    /// There is nothing to run.
    #[error("it is empty; at least one is needed")]
    Empty,
    /// A lock that the job does not have.
    #[error("the job has no lock `{0}`; name it in `locks`")]
    UnknownLock(String),
    /// A lock that no step takes.
    #[error("no step acquires lock `{0}`")]
    UnusedLock(String),
    /// A lock is named twice.
    #[error("lock `{0}` is named twice")]
    SameLock(String),
    /// A process would wait for itself.
    #[error("lock `{0}` is acquired while it is already held: the process would wait for itself for ever")]
    HeldTwice(String),
    /// A lock is released that is not held.
    #[error("lock `{0}` is released but not held")]
    NotHeld(String),
    /// A lock is held at the end of a phase.
    #[error("lock `{0}` is still held at the end of the phase")]
    NeverReleased(String),
    /// A process waits at a barrier for processes that wait for its lock.
    #[error(
        "a barrier while lock `{0}` is held can deadlock: others may wait for the lock and never come to the barrier"
    )]
    BarrierInLock(String),
    /// A process waits at a semaphore while others may wait for its lock, who would post it.
    #[error(
        "a wait for semaphore `{0}` while lock `{1}` is held can deadlock: who would post it may wait for the lock"
    )]
    WaitInLock(String, String),
    /// A semaphore at which processes would wait for ever.
    #[error("no step posts semaphore `{0}`: who waits there would never wake")]
    NeverPosted(String),
    /// A semaphore of which it wouldn't be known who may go on from a post.
    #[error("semaphore `{0}` is replied at and posted: name another one for what is meant for anybody")]
    PostedAndReplied(String),
    /// A reply to nobody.
    #[error("a reply at `{0}` goes to whose post one has gone on from, and no `wait` for a post comes before it")]
    ReplyToNobody(String),
    /// A semaphore that means nothing.
    #[error("no step waits for semaphore `{0}`")]
    NeverWaitedFor(String),
    /// Locks are taken in a circle.
    #[error(
        "lock `{0}` can be waited for while it is held by a process that waits for `{1}`, and the other way round: a deadlock"
    )]
    Circle(String, String),
    /// Steps or bursts that take so few ms on average that hardly any time passes.
    #[error(
        "on average this takes {0} ms, less than a microsecond, so that it would be done again and again at one moment"
    )]
    NoTime(f64),
    /// A name is empty, so that results could not tell whose they are.
    #[error("the name is empty")]
    NoName,
    /// Two tasks of a stage have one name.
    #[error("task `{0}` is listed twice")]
    SameTask(String),
    /// A task waits for one that isn't there.
    #[error("there is no task `{0}` in this stage to wait for")]
    UnknownTask(String),
    /// Tasks wait for one another.
    #[error(
        "task `{0}` is after itself, by way of those that it is after, or after tasks that are: it could never begin"
    )]
    TaskCircle(String),
    /// A path that can't be a control group's.
    #[error(
        "`{0}` is no path of a control group: name it by letters, digits, - and _, with / between a group and one within it"
    )]
    GroupPath(String),
    /// A control group that has processes and groups.
    #[error(
        "control group `{0}` can't have processes of its own, since group `{1}` is in it: name another one within it, such as `{0}/own`"
    )]
    GroupWithin(String, String),
    /// A weight of a control group that isn't there.
    #[error("no job is in control group `{0}`")]
    EmptyGroup(String),
    /// A limit of living processes together with a rhythm of arrivals.
    #[error("`at_once` makes processes arrive when others end; it can't be combined with `gap_ms`")]
    TwoRhythms,
}

/// Most processes of a workload.
const MOST_PROCESSES: u32 = 10_000_000;

/// Most jobs of a workload: each has lines of its own in a report.
const MOST_JOBS: f64 = 1000.0;

/// Most steps of a process in its phases, each phase counting as one more: where it is takes 16 bits.
const MOST_STEPS: f64 = 65_000.0;

/// Most locks of a job: each may be taken while all others are held.
const MOST_LOCKS: f64 = 100.0;

/// The shortest that what is repeated may take on average, in ms: below it, a simulated second would take hours.
const SHORTEST_MS: f64 = 1e-3;

/// How far percentages may be from 100: the report's tables sum to 101.0 at most.
const ROUNDING_PERCENT: f64 = 1.5;

pub(crate) type Checked = Result<(), WorkloadError>;

impl Fault {
    pub(crate) fn at(self, at: impl Into<String>) -> WorkloadError {
        WorkloadError { at: at.into(), fault: self }
    }
}

pub(crate) fn range(value: f64, least: f64, most: f64, at: &str) -> Checked {
    if (least..=most).contains(&value) { Ok(()) } else { Err(Fault::Range { value, least, most }.at(at)) }
}

fn sums_to_100(percent: &[f64], at: &str) -> Checked {
    percent.iter().try_for_each(|&share| range(share, 0.0, 100.0, at))?;
    let sum: f64 = percent.iter().sum();
    if (sum - 100.0).abs() <= ROUNDING_PERCENT { Ok(()) } else { Err(Fault::Sum(sum).at(at)) }
}

fn histogram(edges_ms: &[f64], percent: &[f64], at: &str) -> Checked {
    edges_ms.iter().try_for_each(|&edge| range(edge, 0.0, LONGEST_MS, at))?;
    let fits = edges_ms.len() == percent.len() + 1 && edges_ms.is_sorted_by(|a, b| a < b);
    if !fits || percent.is_empty() {
        return Err(Fault::Edges(percent.len()).at(at));
    }
    sums_to_100(percent, at)
}

pub(crate) fn distribution(distribution: &Distribution, at: &str) -> Checked {
    match distribution {
        Distribution::Constant(ms) | Distribution::Exponential(ms) => range(*ms, 0.0, LONGEST_MS, at),
        Distribution::Uniform(from, to) => {
            range(*from, 0.0, LONGEST_MS, at)?;
            range(*to, *from, LONGEST_MS, at)
        }
        Distribution::Histogram { edges_ms, percent } => histogram(edges_ms, percent, at),
    }
}

/// The mean of a distribution that was checked, in ms.
pub(crate) fn mean_ms(distribution: &Distribution) -> f64 {
    match distribution {
        Distribution::Constant(ms) | Distribution::Exponential(ms) => *ms,
        Distribution::Uniform(from, to) => f64::midpoint(*from, *to),
        Distribution::Histogram { edges_ms, percent } => mean_of_bins_ms(edges_ms, percent),
    }
}

fn mean_of_bins_ms(edges_ms: &[f64], shares: &[f64]) -> f64 {
    let middles = edges_ms.windows(2).map(|edges| f64::midpoint(edges[0], edges[1]));
    middles.zip(shares).map(|(middle, share)| middle * share).sum::<f64>() / shares.iter().sum::<f64>()
}

fn takes_time(mean_ms: f64, at: &str) -> Checked {
    if mean_ms >= SHORTEST_MS { Ok(()) } else { Err(Fault::NoTime(mean_ms).at(at)) }
}

pub(crate) fn named(name: &str, at: &str) -> Checked {
    if name.trim().is_empty() { Err(Fault::NoName.at(at)) } else { Ok(()) }
}

impl Workload {
    /// Whether it can be simulated. A workload that passes can't deadlock.
    ///
    /// # Errors
    /// [`WorkloadError`] names the first field that is wrong.
    pub fn check(&self) -> Result<(), WorkloadError> {
        named(&self.name, "name")?;
        if self.jobs.is_empty() {
            return Err(Fault::Empty.at("jobs"));
        }
        range(self.jobs.len() as f64, 1.0, MOST_JOBS, "jobs")?;
        self.jobs.iter().enumerate().try_for_each(|(i, j)| job(j, &format!("jobs[{i}]")))?;
        semaphores(self)?;
        self.check_groups()?;
        let processes = self.jobs.iter().map(|job| f64::from(job.processes)).sum();
        range(processes, 1.0, f64::from(MOST_PROCESSES), "jobs.processes")
    }
}

fn job(job: &Job, at: &str) -> Checked {
    named(&job.name, &format!("{at}.name"))?;
    range(f64::from(job.processes), 1.0, f64::from(MOST_PROCESSES), &format!("{at}.processes"))?;
    range(job.arrival_ms, 0.0, LONGEST_MS, &format!("{at}.arrival_ms"))?;
    if let Some(gap) = &job.gap_ms {
        let at = format!("{at}.gap_ms");
        distribution(gap, &at)?;
        // The last one arrives within what can be simulated.
        range(mean_ms(gap), 0.0, LONGEST_MS / f64::from(job.processes), &at)?;
    }
    if let Some(at_once) = job.at_once {
        range(f64::from(at_once), 1.0, f64::from(job.processes), &format!("{at}.at_once"))?;
        if job.gap_ms.is_some() {
            return Err(Fault::TwoRhythms.at(format!("{at}.at_once")));
        }
    }
    locks(job, at)?;
    process(&job.process, &format!("{at}.process"))
}

fn process(process: &Process, at: &str) -> Checked {
    range(f64::from(process.base), 0.0, f64::from(BASE_MAX), &format!("{at}.base"))?;
    range(f64::from(process.nice), -20.0, 19.0, &format!("{at}.nice"))?;
    if let Some(slice_ms) = process.slice_ms {
        let [least, most] = OWN_SLICE_MS;
        range(slice_ms, least, most, &format!("{at}.slice_ms"))?;
    }
    if let Some(work) = &process.work_ms {
        distribution(work, &format!("{at}.work_ms"))?;
    }
    if let Some(block) = &process.block_ms {
        distribution(block, &format!("{at}.block_ms"))?;
    }
    let steps: usize = process.phases.iter().map(|phase| phase.steps.len() + 1).sum();
    range(steps as f64, 0.0, MOST_STEPS, &format!("{at}.phases"))?;
    if let Some(rounds) = process.rounds {
        range(f64::from(rounds), 1.0, f64::from(u32::MAX), &format!("{at}.rounds"))?;
    }
    if let Some(intervals) = &process.intervals {
        let ends = self::intervals(intervals, &format!("{at}.intervals"))?;
        if ends.semaphore > 0.0 && process.block_ms.is_none() {
            return Err(Fault::NoBlockTime.at(format!("{at}.intervals.ends.semaphore")));
        }
    }
    footprint(&process.memory, at)
}

/// What something at `at` does to caches is within its limits.
pub(crate) fn footprint(memory: &Footprint, at: &str) -> Checked {
    let mut limits = memory.limits().into_iter();
    limits.try_for_each(|(name, value, least, most)| range(value, least, most, &format!("{at}.memory.{name}")))
}

fn intervals<'a>(intervals: &'a Intervals, at: &str) -> Result<&'a Ends, WorkloadError> {
    match intervals {
        Intervals::Observed { edges_ms, percent, quantum_ms, stalled, ends } => {
            histogram(edges_ms, percent, at)?;
            let last = percent.len() - 1;
            if !(edges_ms[last]..=edges_ms[last + 1]).contains(quantum_ms) {
                return Err(Fault::QuantumOutside(*quantum_ms).at(format!("{at}.quantum_ms")));
            }
            range(*quantum_ms, 1e-6, LONGEST_MS, &format!("{at}.quantum_ms"))?;
            range(*stalled, 0.0, 0.99, &format!("{at}.stalled"))?;
            sums_to_100(&ends.percent(), &format!("{at}.ends"))?;
            let others: f64 = ends.voluntary().iter().sum();
            let left: f64 = intervals_left(percent, ends).iter().sum();
            if others > 0.0 && left <= 0.0 {
                return Err(Fault::NothingLeft.at(at));
            }
            takes_time(mean_of_bins_ms(edges_ms, percent) * (1.0 - stalled), &format!("{at}.edges_ms"))?;
            Ok(ends)
        }
        Intervals::Bursts { length_ms, ends } => {
            distribution(length_ms, &format!("{at}.length_ms"))?;
            takes_time(mean_ms(length_ms), &format!("{at}.length_ms"))?;
            if ends.quantum != 0.0 {
                return Err(Fault::QuantumOfBursts.at(format!("{at}.ends.quantum")));
            }
            sums_to_100(&ends.percent(), &format!("{at}.ends"))?;
            Ok(ends)
        }
    }
}

/// What the quantum leaves of a histogram of intervals, in percent of all: it takes its share from the last bin. Where the
/// tables contradict each other and it would take more than is there (Matrix: 94.6 of 93), it takes all.
pub(crate) fn intervals_left(percent: &[f64], ends: &Ends) -> Vec<f64> {
    let scale = |values: &[f64]| 100.0 / values.iter().sum::<f64>();
    let quantum = ends.quantum * scale(&ends.percent());
    let mut left: Vec<f64> = percent.iter().map(|share| share * scale(percent)).collect();
    if let Some(last) = left.last_mut() {
        *last = (*last - quantum).max(0.0);
    }
    left
}

/// Each semaphore is posted, or replied at, by one step and waited for by another, or the same; and whoever replies has gone on from a post.
fn semaphores(workload: &Workload) -> Checked {
    let replies = workload.replies();
    let mut steps = BTreeMap::new();
    for (j, job) in workload.jobs.iter().enumerate() {
        let mut has_gone_on = false;
        for (p, phase) in job.process.phases.iter().enumerate() {
            for (s, step) in phase.steps.iter().enumerate() {
                let at = || format!("jobs[{j}].process.phases[{p}].steps[{s}]");
                let [post, wait]: &mut [Option<String>; 2] = match step {
                    Step::Post(name) | Step::Wait(name) | Step::Reply(name) => steps.entry(name).or_default(),
                    _ => continue,
                };
                match step {
                    Step::Post(name) if replies.contains(name.as_str()) => {
                        return Err(Fault::PostedAndReplied(name.clone()).at(at()));
                    }
                    Step::Reply(name) if !has_gone_on => return Err(Fault::ReplyToNobody(name.clone()).at(at())),
                    Step::Wait(name) => has_gone_on |= !replies.contains(name.as_str()),
                    _ => {}
                }
                if matches!(step, Step::Wait(_)) { wait } else { post }.get_or_insert_with(at);
            }
        }
    }
    for (name, [post, wait]) in steps {
        match (post, wait) {
            (None, Some(at)) => return Err(Fault::NeverPosted(name.clone()).at(at)),
            (Some(at), None) => return Err(Fault::NeverWaitedFor(name.clone()).at(at)),
            _ => {}
        }
    }
    Ok(())
}

/// Locks are known, taken and given back in pairs, and can't make processes wait for one another in a circle.
fn locks(job: &Job, at: &str) -> Checked {
    range(job.locks.len() as f64, 0.0, MOST_LOCKS, &format!("{at}.locks"))?;
    let mut seen = BTreeSet::new();
    if let Some(twice) = job.locks.iter().find(|lock| !seen.insert(*lock)) {
        return Err(Fault::SameLock(twice.clone()).at(format!("{at}.locks")));
    }
    // Which lock is held while which other is waited for.
    let mut order: BTreeSet<(&str, &str)> = BTreeSet::new();
    let mut taken: BTreeSet<&str> = BTreeSet::new();
    for (p, phase) in job.process.phases.iter().enumerate() {
        let at = format!("{at}.process.phases[{p}]");
        if phase.repeat == 0 {
            return Err(Fault::Range { value: 0.0, least: 1.0, most: f64::from(u32::MAX) }.at(format!("{at}.repeat")));
        }
        let mut held: Vec<&str> = Vec::new();
        for (s, step) in phase.steps.iter().enumerate() {
            let at = format!("{at}.steps[{s}]");
            match step {
                Step::Work(length) | Step::Single(length) | Step::Block(length) => distribution(length, &at)?,
                Step::Acquire(lock) | Step::Release(lock) if !job.locks.contains(lock) => {
                    return Err(Fault::UnknownLock(lock.clone()).at(at));
                }
                Step::Acquire(lock) => {
                    if held.contains(&lock.as_str()) {
                        return Err(Fault::HeldTwice(lock.clone()).at(at));
                    }
                    order.extend(held.iter().map(|&holding| (holding, lock.as_str())));
                    taken.insert(lock);
                    held.push(lock);
                }
                Step::Release(lock) => match held.iter().position(|holding| holding == lock) {
                    Some(position) => {
                        held.remove(position);
                    }
                    None => return Err(Fault::NotHeld(lock.clone()).at(at)),
                },
                Step::Wait(semaphore) => {
                    if let Some(lock) = held.first() {
                        return Err(Fault::WaitInLock(semaphore.clone(), (*lock).into()).at(at));
                    }
                }
                Step::Post(_) | Step::Reply(_) => {}
                Step::Barrier | Step::SleepingBarrier => {
                    if let Some(lock) = held.first() {
                        return Err(Fault::BarrierInLock((*lock).into()).at(at));
                    }
                }
            }
        }
        if let Some(lock) = held.first() {
            return Err(Fault::NeverReleased((*lock).into()).at(at));
        }
        let lengths = phase.steps.iter().filter_map(|step| match step {
            Step::Work(length) | Step::Block(length) => Some(mean_ms(length)),
            Step::Single(_)
            | Step::Acquire(_)
            | Step::Release(_)
            | Step::Barrier
            | Step::SleepingBarrier
            | Step::Post(_)
            | Step::Reply(_)
            | Step::Wait(_) => None,
        });
        takes_time(lengths.sum(), &at)?;
    }
    if let Some(lock) = job.locks.iter().find(|lock| !taken.contains(lock.as_str())) {
        return Err(Fault::UnusedLock(lock.clone()).at(format!("{at}.locks")));
    }
    match circle(&order) {
        Some((a, b)) => Err(Fault::Circle(a.into(), b.into()).at(format!("{at}.process.phases"))),
        None => Ok(()),
    }
}

/// Two locks that are each, by way of others or not, waited for while the other is held; `order` has those that are so at once.
fn circle<'a>(order: &BTreeSet<(&'a str, &'a str)>) -> Option<(&'a str, &'a str)> {
    let after = |lock: &'a str| order.range((lock, "")..).take_while(move |(a, _)| *a == lock).map(|&(_, b)| b);
    let reached = |from: &'a str| {
        let (mut found, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(lock) = open.pop() {
            open.extend(after(lock).filter(|next| found.insert(*next)));
        }
        found
    };
    // Taking away what nothing waits before leaves the circles, and what comes after them.
    let mut before: BTreeMap<&str, usize> = BTreeMap::new();
    for &(a, b) in order {
        before.entry(a).or_default();
        *before.entry(b).or_default() += 1;
    }
    let mut free: Vec<&str> = before.iter().filter(|(_, count)| **count == 0).map(|(lock, _)| *lock).collect();
    while let Some(lock) = free.pop() {
        before.remove(lock);
        for next in after(lock) {
            let count = before.get_mut(next)?;
            *count -= 1;
            if *count == 0 {
                free.push(next);
            }
        }
    }
    before.keys().find_map(|&a| Some((a, reached(a).into_iter().find(|&b| b != a && reached(b).contains(a))?)))
}
