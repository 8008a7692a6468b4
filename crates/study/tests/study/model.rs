//! A runner without a program: times drawn from a model, the same for the same cell and block whatever ran before.

use machine::{CpuId, Placement};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use std::time::Duration;
use study::engine::{Runner, RunnerError, Turn};
use study::{Cell, Comparison, Exit, Observation, Plan, Status, StopRule, Subject, Treatment, Trial};

pub struct Model {
    /// Time of each treatment, over 1 s.
    pub factors: Vec<f64>,
    /// Relative noise, up to which a time is above its factor.
    pub noise: f64,
    /// Cells that fail, and how.
    pub failing: BTreeMap<usize, Status>,
    /// Trials after which the study is cut off.
    pub trials_left: usize,
}

impl Model {
    pub fn new(factors: &[f64], noise: f64) -> Self {
        Self { factors: factors.to_vec(), noise, failing: BTreeMap::new(), trials_left: usize::MAX }
    }
}

impl Runner for Model {
    fn run(&mut self, plan: &Plan, turn: &Turn) -> Result<Trial, RunnerError> {
        if self.trials_left == 0 {
            return Err(RunnerError::Broken("cut off".into()));
        }
        self.trials_left -= 1;
        let Cell { subject, threads, treatment } = turn.cell;
        let name = format!("{}/{subject}/{threads}/{treatment}/{}", plan.seed, turn.block);
        let mut draws = ChaCha8Rng::from_seed(std::array::from_fn(|i| *name.as_bytes().get(i).unwrap_or(&0)));
        let time_s = self.factors[treatment] * (1.0 + self.noise * draws.random::<f64>());
        let mut trial = turn.trial(plan, f64::from(turn.sequence));
        trial.status = self.failing.get(&treatment).copied().unwrap_or(Status::Ok);
        trial.cause = if trial.status == Status::Ok { String::new() } else { "as the model says".into() };
        trial.time_s = (trial.status == Status::Ok).then_some(time_s);
        trial.ran_s = (trial.status != Status::NotStarted).then_some(time_s);
        trial.observation = trial.ran_s.map(observation);
        Ok(trial)
    }
}

/// Another runner that is cut off after so many trials.
pub struct Interrupted<R> {
    pub inner: R,
    pub trials_left: usize,
}

impl<R: Runner> Runner for Interrupted<R> {
    fn run(&mut self, plan: &Plan, turn: &Turn) -> Result<Trial, RunnerError> {
        self.trials_left = self.trials_left.checked_sub(1).ok_or_else(|| RunnerError::Broken("cut off".into()))?;
        self.inner.run(plan, turn)
    }
}

pub fn observation(wall_s: f64) -> Observation {
    Observation {
        exit: Exit::Code(0),
        wall_s,
        user_s: wall_s,
        system_s: 0.0,
        max_rss_bytes: 1 << 20,
        voluntary_switches: 1,
        involuntary_switches: 2,
        migrations: Some(3),
        minor_faults: 4,
        major_faults: 0,
        read_bytes: None,
        written_bytes: None,
        energy_j: None,
        counters: BTreeMap::from([("cycles".into(), 5)]),
        stops: Some(6),
        stops_s: Some(wall_s / 1000.0),
        threads: Vec::new(),
        leftovers: 0,
        conditions: Default::default(),
        notes: Vec::new(),
    }
}

/// A comparison of `subjects` x 1 and 2 threads x unbound and `placements`.
pub fn comparison(subjects: usize, placements: &[&str]) -> Comparison {
    let stop = StopRule::Paired { width: 0.02, min_blocks: 8, max_blocks: 30 };
    Comparison { plan: plan(subjects, placements), stop }
}

fn plan(subjects: usize, placements: &[&str]) -> Plan {
    let placed = |name: &&str| {
        let placements = (1..=2).map(|n| Some(Placement::from_cpus(*name, (0..n).map(CpuId))));
        Treatment::new((*name).to_owned(), placements.collect())
    };
    Plan {
        subjects: (0..subjects)
            .map(|number| Subject {
                name: format!("subject {number}"),
                argv: vec!["./app".into()],
                ..Subject::default()
            })
            .collect(),
        threads: vec![1.into(), 2.into()],
        treatments: std::iter::once(Treatment::unbound()).chain(placements.iter().map(placed)).collect(),
        warmup_blocks: 1,
        timeout: Duration::from_secs(60),
        seed: 7,
        ..Plan::default()
    }
}
