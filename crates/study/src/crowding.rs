//! Threads of several processes that a placement put on one CPU while other CPUs had nothing to do.
//!
//! Slots are given out anew in each process, so that the first threads of all processes of a program get the same CPU. A program
//! of one process doesn't care; the ranks of an MPI program then take turns. That is seen from what the kernel counted of each
//! thread: it ran, it had to wait for its only CPU, and it did so while a thread of another process lived there.

use crate::plan::{Cell, Plan};
use crate::shape::Shape;
use crate::times::counted;
use crate::trial::Trial;
use launch::ThreadObservation;
use machine::CpuSet;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A thread is busy when it used at least this share of the CPU time of the busiest one.
const BUSY_SHARE: f64 = 0.1;

/// Less CPU time than this, in seconds, is a thread's start and end, and no work.
const LEAST_CPU_S: f64 = 0.005;

/// A thread had to take turns when it waited at least for this share of its CPU time. Two that always want the same CPU wait as
/// long as they run.
const WAITED_SHARE: f64 = 0.2;

/// Lives that overlap for less than this share of the shorter one came one after the other, as the steps of a script do.
const OVERLAP_SHARE: f64 = 0.5;

/// Threads of several processes on one CPU, in one trial or in most trials of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Crowd {
    /// The CPUs on which they took turns.
    pub cpus: CpuSet,
    /// How many processes had a busy thread on the most crowded of them.
    pub processes: u32,
    /// CPUs that could be used and that no busy thread was bound to.
    pub idle: CpuSet,
}

/// The crowds of a subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Crowding {
    /// Thread count of the first cell with a crowd.
    pub threads: Shape,
    /// Name of its treatment.
    pub placement: String,
    /// The crowd, as in the first of its trials.
    #[serde(flatten)]
    pub crowd: Crowd,
    /// Trials of that cell in which there was one.
    pub trials: u32,
    /// Trials of that cell that count.
    pub of: u32,
    /// Cells with a crowd, that one among them.
    pub cells: u32,
}

impl Crowd {
    /// The crowd of a trial, where `usable` are all CPUs that the study may use; none when nothing was bound, when threads of
    /// several processes didn't meet, or when no CPU was left idle.
    pub fn in_trial(trial: &Trial, usable: &CpuSet) -> Option<Self> {
        trial.intended_cpus.as_ref()?;
        let threads = &trial.observation.as_ref()?.threads;
        let cpu_s = |thread: &ThreadObservation| thread.cpu_s.unwrap_or(0.0);
        let most_s = threads.iter().map(cpu_s).fold(0.0, f64::max);
        let is_busy = |thread: &&ThreadObservation| cpu_s(thread) >= (most_s * BUSY_SHARE).max(LEAST_CPU_S);
        let busy: Vec<&ThreadObservation> = threads.iter().filter(is_busy).collect();
        let used: CpuSet = busy.iter().flat_map(|thread| thread.actual_cpus.iter()).collect();
        let idle = usable.difference(&used);
        if idle.is_empty() {
            return None;
        }
        let mut by_cpu: BTreeMap<_, Vec<&ThreadObservation>> = BTreeMap::new();
        for thread in &busy {
            if let Some(cpu) = thread.actual_cpus.only() {
                by_cpu.entry(cpu).or_default().push(thread);
            }
        }
        let met = |threads: &[&ThreadObservation]| -> BTreeSet<u32> {
            let has_rival = |thread: &&&ThreadObservation| threads.iter().any(|other| are_rivals(thread, other));
            threads.iter().filter(has_rival).map(|thread| thread.process).collect()
        };
        let crowds: Vec<(_, usize)> = by_cpu.iter().map(|(cpu, threads)| (*cpu, met(threads).len())).collect();
        let processes = crowds.iter().map(|(_, processes)| *processes).max().filter(|most| *most > 1)?;
        let cpus = crowds.iter().filter(|(_, processes)| *processes > 1).map(|(cpu, _)| *cpu).collect();
        Some(Self { cpus, processes: processes as u32, idle })
    }
}

/// Whether two threads of one CPU are of two processes, lived at the same time and had to wait, as each does for the other.
fn are_rivals(one: &ThreadObservation, other: &ThreadObservation) -> bool {
    let waited = |thread: &ThreadObservation| {
        thread.cpu_s.zip(thread.waited_s).is_some_and(|(cpu_s, waited_s)| waited_s >= WAITED_SHARE * cpu_s)
    };
    one.process != other.process && waited(one) && waited(other) && lived_together(one, other)
}

fn lived_together(one: &ThreadObservation, other: &ThreadObservation) -> bool {
    let life = |thread: &ThreadObservation| thread.began_s.zip(thread.ended_s);
    let Some(((began_s, ended_s), (other_began_s, other_ended_s))) = life(one).zip(life(other)) else { return false };
    let overlap_s = ended_s.min(other_ended_s) - began_s.max(other_began_s);
    overlap_s > 0.0 && overlap_s >= OVERLAP_SHARE * (ended_s - began_s).min(other_ended_s - other_began_s)
}

impl Crowding {
    /// The crowds of a subject of `plan`, by its position: of each cell, whether at least half of the trials that count had one.
    pub(crate) fn of_subject(plan: &Plan, trials: &[Trial], subject: usize, usable: &CpuSet) -> Option<Self> {
        // Who names a single CPU asks for turns.
        let is_asked = |cell: &Cell| {
            let treatment = &plan.treatments[cell.treatment];
            let place = if treatment.place.is_empty() { &treatment.name } else { &treatment.place };
            place.parse::<CpuSet>().is_ok_and(|cpus| cpus.only().is_some())
        };
        let cells = plan.cells().filter(|cell| cell.subject == subject && !is_asked(cell));
        let mut crowdings = cells.filter_map(|cell| {
            let crowds: Vec<Option<Crowd>> =
                counted(plan, trials, cell).map(|(trial, _)| Crowd::in_trial(trial, usable)).collect();
            let crowded = crowds.iter().flatten().count();
            let first = crowds.iter().flatten().next().filter(|_| 2 * crowded >= crowds.len())?.clone();
            Some((cell, first, crowded as u32, crowds.len() as u32))
        });
        let (Cell { threads, treatment, .. }, crowd, crowded, of) = crowdings.next()?;
        Some(Self {
            threads: plan.threads[threads],
            placement: plan.treatments[treatment].name.clone(),
            crowd,
            trials: crowded,
            of,
            cells: 1 + crowdings.count() as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Turn;
    use crate::plan::{Subject, Treatment};
    use crate::trial::Status;
    use launch::{Exit, Observation};
    use machine::{CpuId, Placement};
    use std::time::Duration;

    fn plan() -> Plan {
        let placement = Placement::from_cpus("compact", [CpuId(0), CpuId(1)]);
        Plan {
            subjects: vec![Subject { name: "hyb".into(), argv: vec!["./hyb".into()], ..Subject::default() }],
            threads: vec![2.into()],
            treatments: vec![Treatment::unbound(), Treatment::new("compact".into(), vec![Some(placement)])],
            warmup_blocks: 0,
            timeout: Duration::from_secs(60),
            seed: 1,
            ..Plan::default()
        }
    }

    /// A thread on one CPU, with its CPU time, the time that it waited, and its life, all in seconds.
    fn thread(process: u32, cpu: u32, cpu_s: f64, waited_s: f64, (began_s, ended_s): (f64, f64)) -> ThreadObservation {
        ThreadObservation {
            process,
            exec: 0,
            thread: 0,
            tid: 100 + process as i32,
            intended_cpus: Some(CpuId(cpu).into()),
            actual_cpus: CpuId(cpu).into(),
            last_cpu: Some(CpuId(cpu)),
            migrations: Some(0),
            cpu_s: Some(cpu_s),
            waited_s: Some(waited_s),
            is_helper: false,
            began_s: Some(began_s),
            ended_s: Some(ended_s),
            name: None,
        }
    }

    fn trial(treatment: usize, block: u32, threads: Vec<ThreadObservation>) -> Trial {
        let cell = Cell { subject: 0, threads: 0, treatment };
        let turn = Turn { cell, sequence: 2 * block + treatment as u32, block, warmup: false, cut_off: None };
        let seen = Observation {
            exit: Exit::Code(0),
            wall_s: 2.0,
            user_s: 2.0,
            system_s: 0.0,
            max_rss_bytes: 1 << 20,
            voluntary_switches: 0,
            involuntary_switches: 0,
            migrations: None,
            minor_faults: 0,
            major_faults: 0,
            read_bytes: None,
            written_bytes: None,
            energy_j: None,
            stops: None,
            stops_s: None,
            counters: BTreeMap::new(),
            threads,
            leftovers: 0,
            conditions: Default::default(),
            notes: Vec::new(),
        };
        Trial {
            status: Status::Ok,
            time_s: Some(2.0),
            ran_s: Some(2.0),
            observation: Some(seen),
            ..turn.trial(&plan(), 0.0)
        }
    }

    fn crowd(threads: Vec<ThreadObservation>) -> Option<Crowd> {
        Crowd::in_trial(&trial(1, 0, threads), &"0-1".parse().unwrap())
    }

    const WHOLE: (f64, f64) = (0.0, 2.0);

    #[test]
    fn two_ranks_that_take_turns_on_one_cpu_are_a_crowd() {
        let launcher = thread(0, 0, 0.01, 0.01, WHOLE);
        let found = crowd(vec![launcher, thread(1, 0, 1.0, 0.9, WHOLE), thread(2, 0, 1.0, 1.0, WHOLE)]).unwrap();
        let expected = Crowd { cpus: CpuId(0).into(), processes: 2, idle: CpuId(1).into() };
        assert_eq!(found, expected);
    }

    #[test]
    fn what_does_not_compete_is_no_crowd() {
        for (threads, why) in [
            (vec![thread(1, 0, 1.0, 0.9, WHOLE), thread(2, 1, 1.0, 0.9, WHOLE)], "each has a CPU of its own"),
            (vec![thread(1, 0, 1.0, 0.9, WHOLE), thread(1, 0, 1.0, 0.9, WHOLE)], "they are of one process"),
            (vec![thread(1, 0, 1.0, 0.9, (0.0, 1.0)), thread(2, 0, 1.0, 0.9, (1.0, 2.0))], "one came after the other"),
            (vec![thread(1, 0, 1.0, 0.01, WHOLE), thread(2, 0, 1.0, 0.02, WHOLE)], "they hand work to each other"),
            (vec![thread(0, 0, 0.01, 1.0, WHOLE), thread(1, 0, 1.0, 0.9, WHOLE)], "one is a launcher that only waits"),
            (
                vec![thread(1, 0, 1.0, 0.9, WHOLE), thread(2, 0, 1.0, 0.9, WHOLE), thread(2, 1, 1.0, 0.0, WHOLE)],
                "no CPU is idle",
            ),
        ] {
            assert_eq!(crowd(threads), None, "{why}");
        }
    }

    #[test]
    fn what_was_not_measured_or_not_bound_is_no_crowd() {
        let threads = || vec![thread(1, 0, 1.0, 0.9, WHOLE), thread(2, 0, 1.0, 0.9, WHOLE)];
        let older = |mut thread: ThreadObservation| {
            (thread.cpu_s, thread.waited_s, thread.began_s, thread.ended_s) = (None, None, None, None);
            thread
        };
        assert_eq!(crowd(threads().into_iter().map(older).collect()), None);
        assert_eq!(Crowd::in_trial(&trial(0, 0, threads()), &"0-1".parse().unwrap()), None, "unbound");
    }

    #[test]
    fn a_cell_is_crowded_where_most_of_its_trials_are() {
        let crowded = |block| trial(1, block, vec![thread(1, 0, 1.0, 0.9, WHOLE), thread(2, 0, 1.0, 0.9, WHOLE)]);
        let quiet = |block| trial(1, block, vec![thread(1, 0, 1.0, 0.0, WHOLE), thread(2, 1, 1.0, 0.0, WHOLE)]);
        let usable: CpuSet = "0-1".parse().unwrap();
        let found = |trials: &[Trial]| Crowding::of_subject(&plan(), trials, 0, &usable);
        let most = found(&[crowded(0), quiet(1), crowded(2)]).unwrap();
        assert_eq!(
            (most.threads, most.placement.as_str(), most.trials, most.of, most.cells),
            (2.into(), "compact", 2, 3, 1)
        );
        assert_eq!(found(&[crowded(0), quiet(1), quiet(2)]), None);
        // On the only CPU of a placement they meet as they should.
        let mut asked = plan();
        asked.treatments[1] = Treatment { place: "0".into(), ..asked.treatments[1].clone() };
        assert_eq!(Crowding::of_subject(&asked, &[crowded(0), crowded(2)], 0, &usable), None);
    }
}
