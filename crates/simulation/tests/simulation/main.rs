//! Simulations and replays as studies: what a sample shows, going on after an interruption, what is concluded, and the journals
//! of every version.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod older;
mod replays;
mod space_sharing;
mod time_sharing;

use machine::Machine;
use simulation::{RunError, SimulationPlan, simulate};
use stats::Metric;
use study::session::{Host, Session};
use study::{Ending, Kind, Record, Sample};

/// The study of `plan` on `machine` in memory, with the samples that are `done`.
fn session<K: Kind>(plan: &K, machine: &Machine, done: &[K::Trial]) -> Session<K> {
    let mut session = Session::open(None, plan, machine, &Host::Modelled, &[]).unwrap();
    for sample in done {
        session.add(sample.clone()).unwrap();
    }
    session
}

/// The same with these samples, ended.
fn ended<K: Kind>(plan: &K, machine: &Machine, samples: &[K::Trial]) -> Record<K> {
    session(plan, machine, samples).end::<RunError>(Ok(Ending::Finished)).unwrap()
}

/// All samples of `plan`, those that are `done` first.
fn simulated(plan: &SimulationPlan, machine: &Machine, done: &[Sample]) -> Vec<Sample> {
    let mut session = session(plan, machine, done);
    let mut calls = 0;
    assert_eq!(simulate(&mut session, machine, &mut || calls += 1).unwrap(), Ending::Finished);
    assert_eq!(calls, session.trials().len() - done.len());
    session.trials().to_vec()
}

/// The number of the metric that is written so.
fn value(sample: &Sample, name: &str) -> f64 {
    sample.value(&Metric::from_name(name)).unwrap_or_else(|| panic!("no {name} in {:?}", sample.measurements()))
}
