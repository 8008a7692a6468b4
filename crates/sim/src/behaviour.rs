//! A job's processes, ready to be drawn from: lengths in whole nanoseconds, locks by number, phases as one list.

use crate::fault::intervals_left;
use crate::outcome::End;
use crate::random::Draws;
use crate::workload::{Distribution, Ends, Intervals, Job, Step, Workload};
use std::collections::BTreeSet;

/// Nanoseconds of `ms`, which [`crate::Workload::check`] or [`crate::Parameters::check`] has seen.
pub(crate) fn ns(ms: f64) -> u64 {
    (ms * 1e6).round() as u64
}

/// Where something is in cumulated weights.
fn pick(cumulated: &[f64], unit: f64) -> usize {
    let total = cumulated.last().copied().unwrap_or_default();
    cumulated.partition_point(|&below| below <= unit * total).min(cumulated.len() - 1)
}

fn cumulated(weights: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let add = |sum: &mut f64, weight: f64| {
        *sum += weight;
        Some(*sum)
    };
    weights.into_iter().scan(0.0, add).collect()
}

/// A distribution of lengths.
#[derive(Clone, Debug)]
pub(crate) enum Lengths {
    Constant(u64),
    Uniform(u64, u64),
    Exponential(f64),
    Bins { edges_ms: Vec<f64>, cumulated: Vec<f64> },
}

impl Lengths {
    pub(crate) fn new(distribution: &Distribution) -> Self {
        match distribution {
            Distribution::Constant(ms) => Self::Constant(ns(*ms)),
            Distribution::Uniform(from, to) => Self::Uniform(ns(*from), ns(*to)),
            Distribution::Exponential(mean) => Self::Exponential(*mean),
            Distribution::Histogram { edges_ms, percent } => Self::bins(edges_ms, percent.iter().copied()),
        }
    }

    fn bins(edges_ms: &[f64], weights: impl IntoIterator<Item = f64>) -> Self {
        Self::Bins { edges_ms: edges_ms.to_vec(), cumulated: cumulated(weights) }
    }

    #[inline]
    pub(crate) fn draw_ns(&self, draws: &mut Draws) -> u64 {
        match self {
            Self::Constant(ns) => *ns,
            Self::Uniform(from, to) => from + draws.below(to - from + 1),
            Self::Exponential(mean_ms) => ns(-mean_ms * libm::log(1.0 - draws.unit())),
            Self::Bins { edges_ms, cumulated } => {
                let bin = pick(cumulated, draws.unit());
                ns(edges_ms[bin] + draws.unit() * (edges_ms[bin + 1] - edges_ms[bin]))
            }
        }
    }
}

const VOLUNTARY: [End; 5] = [End::Semaphore, End::Synchronization, End::SystemCall, End::TlbFault, End::Other];

/// Work from one voluntary end of an interval to the next.
#[derive(Clone, Debug)]
pub(crate) struct Bursts {
    /// Of all observed intervals, the share that the quantum ended.
    quantum_share: f64,
    /// Work in an interval that it ended.
    quantum_work_ns: u64,
    /// The part after the last full quantum.
    rest: Lengths,
    /// Share of wall time that is work.
    work_share: f64,
    ends: Vec<f64>,
}

impl Bursts {
    fn new(intervals: &Intervals) -> Self {
        let voluntary = |ends: &Ends| cumulated(ends.voluntary());
        match intervals {
            Intervals::Observed { edges_ms, percent, quantum_ms, stalled, ends } => Self {
                quantum_share: ends.quantum / ends.percent().iter().sum::<f64>(),
                quantum_work_ns: ns(quantum_ms * (1.0 - stalled)),
                rest: Lengths::bins(edges_ms, intervals_left(percent, ends)),
                work_share: 1.0 - stalled,
                ends: voluntary(ends),
            },
            Intervals::Bursts { length_ms, ends } => Self {
                quantum_share: 0.0,
                quantum_work_ns: 0,
                rest: Lengths::new(length_ms),
                work_share: 1.0,
                ends: voluntary(ends),
            },
        }
    }

    /// The work until the next voluntary end, and its cause. How many full quanta come before it is geometric.
    pub(crate) fn draw(&self, draws: &mut Draws) -> (u64, End) {
        let quanta = if self.quantum_share >= 1.0 {
            return (u64::MAX, End::Other);
        } else if self.quantum_share > 0.0 {
            (libm::log(1.0 - draws.unit()) / libm::log(self.quantum_share)) as u64
        } else {
            0
        };
        let rest_ns = (self.rest.draw_ns(draws) as f64 * self.work_share).round() as u64;
        let end = VOLUNTARY[pick(&self.ends, draws.unit())];
        (quanta.saturating_mul(self.quantum_work_ns).saturating_add(rest_ns), end)
    }
}

/// A step, or the way back.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Work(Lengths),
    Single(Lengths),
    Acquire(usize),
    Release(usize),
    Barrier,
    SleepingBarrier,
    Block(Lengths),
    Post(usize),
    Wait(usize),
    Reply(usize),
    AwaitReply(usize),
    /// Back to `to` until the phase was done so many times.
    Repeat {
        to: usize,
        times: u32,
    },
}

/// What a job's processes do.
#[derive(Clone, Debug)]
pub(crate) struct Behaviour {
    pub(crate) arrival_ns: u64,
    pub(crate) gap: Option<Lengths>,
    pub(crate) work: Option<Lengths>,
    pub(crate) base: u32,
    pub(crate) bursts: Option<Bursts>,
    pub(crate) block: Lengths,
    pub(crate) ops: Vec<Op>,
    /// How many times all of them are done.
    pub(crate) rounds: u32,
    pub(crate) interactive: bool,
}

impl Behaviour {
    /// Of the jobs of a workload that was checked.
    pub(crate) fn of_jobs(workload: &Workload) -> Vec<Self> {
        let (semaphores, replies) = (workload.semaphores(), workload.replies());
        workload.jobs.iter().map(|job| Self::new(job, &semaphores, &replies)).collect()
    }

    fn new(job: &Job, semaphores: &[&str], replies: &BTreeSet<&str>) -> Self {
        let process = &job.process;
        let lock = |name: &String| job.locks.iter().position(|lock| lock == name).unwrap_or_default();
        let semaphore = |name: &String| semaphores.binary_search(&name.as_str()).unwrap_or_default();
        let mut ops = Vec::new();
        for phase in &process.phases {
            let to = ops.len();
            ops.extend(phase.steps.iter().map(|step| match step {
                Step::Work(length) => Op::Work(Lengths::new(length)),
                Step::Single(length) => Op::Single(Lengths::new(length)),
                Step::Acquire(name) => Op::Acquire(lock(name)),
                Step::Release(name) => Op::Release(lock(name)),
                Step::Barrier => Op::Barrier,
                Step::SleepingBarrier => Op::SleepingBarrier,
                Step::Block(length) => Op::Block(Lengths::new(length)),
                Step::Post(name) => Op::Post(semaphore(name)),
                Step::Wait(name) if replies.contains(name.as_str()) => Op::AwaitReply(semaphore(name)),
                Step::Wait(name) => Op::Wait(semaphore(name)),
                Step::Reply(name) => Op::Reply(semaphore(name)),
            }));
            if phase.repeat > 1 {
                ops.push(Op::Repeat { to, times: phase.repeat });
            }
        }
        Self {
            arrival_ns: ns(job.arrival_ms),
            gap: job.gap_ms.as_ref().map(Lengths::new),
            work: process.work_ms.as_ref().map(Lengths::new),
            base: process.base,
            bursts: process.intervals.as_ref().map(Bursts::new),
            block: process.block_ms.as_ref().map_or(Lengths::Constant(0), Lengths::new),
            ops,
            rounds: process.rounds.unwrap_or(1),
            interactive: process.interactive,
        }
    }

    /// When processes arrive one after the other, with these draws.
    pub(crate) fn arrivals_ns(&self, mut gaps: Draws) -> impl Iterator<Item = u64> {
        let next = move |&before_ns: &u64| {
            let gap_ns = self.gap.as_ref().map_or(0, |gap| gap.draw_ns(&mut gaps));
            Some(before_ns.saturating_add(gap_ns))
        };
        std::iter::successors(Some(self.arrival_ns), next)
    }
}
