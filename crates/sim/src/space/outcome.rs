//! What one replicate of space sharing showed.

use super::policy::Policy;
use crate::index::{CpuIndex, ProcessIndex};
use crate::memory::Misses;
use derive_more::{Add, Sum};
use serde::Serialize;

/// Position of a job among those of a mix: kind by kind, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct JobIndex(pub u32);

/// Why a worker began to run on a CPU where it had not just run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Nobody had the CPU, or its job gave it up.
    #[default]
    Voluntary,
    /// The CPU was taken from a job that used it.
    Forced,
    /// The job had the CPU, and its worker there made way for one whose CPU had been taken.
    Within,
}

impl Cause {
    /// Every cause.
    pub const ALL: [Self; 3] = [Self::Voluntary, Self::Forced, Self::Within];
}

/// Moves of workers to CPUs, and what they cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Add, Sum)]
pub struct Moves {
    /// The number of moves.
    pub count: u64,
    /// Time to bring back cached lines that the workers had, in ns.
    pub reload_ns: u64,
}

/// What a job did with the CPUs that it had. These times sum to the time that it had them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Account {
    /// CPU time of its tasks, with the misses that they have anyway, in ns.
    pub work_ns: u64,
    /// CPU time in which it had a CPU and nothing for it to do, in ns.
    pub idle_ns: u64,
    /// Time of switches from one worker to another, in ns.
    pub switch_ns: u64,
    /// Moves back to the CPU where the worker ran last, by [`Cause`].
    pub affine: [Moves; Cause::ALL.len()],
    /// Moves to another CPU.
    pub other: [Moves; Cause::ALL.len()],
    /// Those of both in which the worker went on with a task that it had been stopped in.
    pub resumed: Moves,
}

impl Account {
    /// All moves back.
    pub fn all_affine(&self) -> Moves {
        self.affine.iter().copied().sum()
    }

    /// All moves to another CPU.
    pub fn all_other(&self) -> Moves {
        self.other.iter().copied().sum()
    }

    /// Moves of a cause.
    pub fn caused(&self, cause: Cause) -> Moves {
        self.affine[cause as usize] + self.other[cause as usize]
    }

    /// Time that the job had CPUs, in ns.
    pub fn total_ns(&self) -> u64 {
        self.work_ns + self.idle_ns + self.switch_ns + self.all_affine().reload_ns + self.all_other().reload_ns
    }
}

/// What became of one job.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct JobOutcome {
    /// Which kind of the mix it is of.
    pub kind: u32,
    /// When it arrived, in ns; the horizon when it had not when the run ended.
    pub arrived_ns: u64,
    /// When it was done, in ns; none when it was not when the run ended.
    pub ended_ns: Option<u64>,
    /// CPU time that it had, in ns: how many CPUs it had, summed over time.
    pub held_ns: u64,
    /// What it did with it.
    pub account: Account,
    /// Misses.
    pub misses: Misses,
}

impl JobOutcome {
    /// From its arrival to its end in ms; none when it was not done.
    pub fn response_ms(&self) -> Option<f64> {
        Some((self.ended_ns? - self.arrived_ns) as f64 / 1e6)
    }
}

/// What one replicate showed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The policy.
    pub policy: Policy,
    /// Which replicate, from 0.
    pub replicate: u32,
    /// When the last job was done or the horizon was reached, in ms.
    pub makespan_ms: f64,
    /// Whether all jobs were done.
    pub completed: bool,
    /// The jobs, by number.
    pub jobs: Vec<JobOutcome>,
    /// How often a CPU went from one job, or none, to another.
    pub reallocations: u64,
    /// Tasks done.
    pub tasks: u64,
}

/// What becomes of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Its job has it no more.
    Taken,
    /// A job gets it.
    Given(JobIndex),
    /// A worker of its job begins to run where it had not just run. Workers are numbered job by job, as many for each as there
    /// are CPUs.
    Seated(ProcessIndex),
}

/// A CPU changes hands, or a worker moves to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// The time, in ns.
    pub at_ns: u64,
    /// The CPU.
    pub cpu: CpuIndex,
    /// What becomes of it.
    pub change: Change,
}
