//! A mix: several programs that run at once, as one subject, and what came of each of them.

use crate::metric::Metric;
use crate::shape::Shape;
use crate::treatment::{Treatment, UNBOUND};
use launch::{Conditions, HugePages, MemoryPolicy, Scheduling};
use machine::{Machine, PlaceError, Placement, Policy};
use serde::{Deserialize, Serialize};
use stats::Better;
use std::time::Duration;

/// From a mix's begin to when every job has ended once.
pub const MAKESPAN: &str = "makespan";
/// The mean, over jobs, of the time from when a job is to start to the end of its first run.
pub const MEAN_COMPLETION: &str = "mean_completion";
/// Average normalized turnaround time ([`stats::antt`]).
pub const ANTT: &str = "antt";
/// System throughput ([`stats::stp`]).
pub const STP: &str = "stp";
/// Jain's index of the jobs' progress ([`stats::jain_index`]).
pub const JAIN_INDEX: &str = "jain_index";

/// Several programs that run at once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Mix {
    /// The programs, in the order in which their threads take slots of a placement.
    pub jobs: Vec<Job>,
    /// Where they are put, wherever any of them is put anywhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub placements: Vec<MixPlacement>,
}

/// Where the jobs of a mix are put in one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MixPlacement {
    /// Name of the treatment.
    pub treatment: String,
    /// Thread count of the cell.
    pub threads: Shape,
    /// For each job, where its threads go; none where they are left alone.
    pub jobs: Vec<Option<Placement>>,
}

/// A program of a mix.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// What reports call it; no two jobs of a mix are called alike.
    pub name: String,
    /// The name of the subject that it is a run of, which the plan also runs by itself.
    pub subject: String,
    /// When it starts, after the mix begins.
    #[serde(default)]
    pub start: Duration,
    /// Whether it runs again and again until every job has ended once; else it runs once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeat: bool,
    /// Its own thread count; none is that of the cell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// What it runs under whatever the treatment.
    #[serde(default, flatten)]
    pub own: OwnTreatment,
}

/// Parts of a treatment that a job of a mix has for itself, whatever the others run under; each is the treatment's where it is none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OwnTreatment {
    /// Where its threads go: a policy's name, or a CPU list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// From which NUMA nodes its memory comes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryPolicy>,
    /// Whether its memory is in huge pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub huge_pages: Option<HugePages>,
    /// How its threads are scheduled.
    #[serde(rename = "sched", skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Scheduling>,
}

impl OwnTreatment {
    /// `conditions` with what the job has for itself in their place.
    #[must_use]
    pub fn over(&self, conditions: &Conditions) -> Conditions {
        Conditions {
            memory: self.memory.clone().unwrap_or_else(|| conditions.memory.clone()),
            huge_pages: self.huge_pages.unwrap_or(conditions.huge_pages),
            scheduling: self.scheduling.clone().unwrap_or_else(|| conditions.scheduling.clone()),
            company: conditions.company.clone(),
        }
    }
}

impl Job {
    /// How many threads it is to use in a cell of `threads`.
    pub fn threads_of(&self, threads: Shape) -> u32 {
        self.threads.unwrap_or(threads.threads())
    }
}

impl Mix {
    /// How many slots of a placement its jobs take in a cell of `threads`. One with a place of its own takes none.
    fn slots(&self, threads: Shape) -> u32 {
        self.jobs.iter().filter(|job| job.own.place.is_none()).map(|job| job.threads_of(threads)).sum()
    }

    /// Finds out where `treatments` put it on `machine` at each of `threads`: one job's threads after the other's, so that a policy
    /// places all threads of the mix.
    ///
    /// # Errors
    /// When a place is none, or not on this machine.
    pub(crate) fn place(
        &mut self,
        treatments: &[Treatment],
        threads: &[Shape],
        machine: &Machine,
    ) -> Result<(), PlaceError> {
        self.placements.clear();
        for treatment in treatments {
            for &threads in threads {
                let slots = self.slots(threads);
                let of_all = match treatment.is_free() || slots == 0 {
                    true => None,
                    false => Some(treatment.place().parse::<Policy>()?.place(machine, slots as usize)?),
                };
                let mut taken = 0;
                let mut of_job = |job: &Job| -> Result<Option<Placement>, PlaceError> {
                    let count = job.threads_of(threads) as usize;
                    if let Some(place) = job.own.place.as_deref() {
                        let policy = (place != UNBOUND).then(|| place.parse::<Policy>()).transpose()?;
                        return policy.map(|policy| policy.place(machine, count)).transpose();
                    }
                    let slots = taken..taken + count;
                    taken = slots.end;
                    let part = |all: &Placement| {
                        let slots = slots.map(|slot| all.slot(slot).clone()).collect();
                        Placement { policy: all.policy.clone(), slots }
                    };
                    Ok(of_all.as_ref().map(part))
                };
                let jobs = self.jobs.iter().map(&mut of_job).collect::<Result<Vec<_>, _>>()?;
                if jobs.iter().any(Option::is_some) {
                    self.placements.push(MixPlacement { treatment: treatment.name.clone(), threads, jobs });
                }
            }
        }
        Ok(())
    }

    /// Where each job's threads go in a cell, none where they are left alone.
    pub fn placements_of_jobs(&self, treatment: &str, threads: Shape) -> Vec<Option<Placement>> {
        let is_here = |placement: &&MixPlacement| placement.treatment == treatment && placement.threads == threads;
        let here = self.placements.iter().find(is_here);
        here.map_or_else(|| vec![None; self.jobs.len()], |placement| placement.jobs.clone())
    }

    /// What its runs are compared by.
    pub fn metric() -> Metric {
        Metric::new(MAKESPAN, Some("s"), Better::Lower)
    }

    /// What else is told of its runs.
    pub fn metrics() -> Vec<Metric> {
        vec![
            Metric::new(MEAN_COMPLETION, Some("s"), Better::Lower),
            Metric::new(ANTT, None, Better::Lower),
            Metric::new(STP, None, Better::Higher),
            Metric::new(JAIN_INDEX, None, Better::Higher),
        ]
    }
}

/// One run of one job of a mix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobRun {
    /// Name of the job.
    pub name: String,
    /// When it started, in seconds since the mix began.
    pub started_s: f64,
    /// When it ended, likewise.
    pub ended_s: f64,
    /// The time that counts, in seconds: the program's own where it reports one, else wall time. None where it was cut short, since
    /// every job had ended once.
    pub time_s: Option<f64>,
    /// How many processes it had: among the trial's threads these come after those of earlier runs in this list.
    pub processes: u32,
}
