//! Studies of treatments that change nothing, whatever they vary: how often one of them claims a difference.
//!
//! Each is run by the engine under the default stop rule, with noise of four kinds in turn. `docs/design/treatments.md` tells the shares;
//! `cargo test -p stayput-study --test null_studies -- --nocapture` prints them.

#![expect(clippy::unwrap_used, reason = "what is none or an error fails the test")]

use launch::{Company, Conditions, HugePages, MemoryPolicy, Scheduling};
use machine::Machine;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stats::Better;
use std::f64::consts::TAU;
use std::time::Duration;
use study::engine::{EngineError, Runner, RunnerError, Turn, run_blocks};
use study::{
    Alone, Claim, Comparison, Host, Job, JobRun, Metric, Mix, Plan, Session, Status, StopRule, Subject, Treatment,
    Trial, Varied, comparison_analysis,
};

/// Studies of each dimension.
const STUDIES: u64 = 200;
/// How many of them may claim a difference.
const MOST_FALSE: usize = 10;

/// How the slowness of one run comes about, as the log of a factor.
#[derive(Clone, Copy, Debug)]
enum Noise {
    /// Normal.
    Lognormal,
    /// Each run remembers 0.8 of the slowness of the one before it.
    Autocorrelated,
    /// The machine is 10 % slower for a while: it changes its state after a run with a probability of 0.1.
    RegimeSwitching,
    /// Student's t with 3 degrees of freedom.
    HeavyTailed,
}

const NOISES: [Noise; 4] = [Noise::Lognormal, Noise::Autocorrelated, Noise::RegimeSwitching, Noise::HeavyTailed];

/// A machine on which every treatment is the same.
struct Unmoved {
    noise: Noise,
    state: f64,
    draws: ChaCha8Rng,
    now_s: f64,
}

impl Unmoved {
    fn new(seed: u64) -> Self {
        let noise = NOISES[seed as usize % NOISES.len()];
        Self { noise, state: 0.0, draws: ChaCha8Rng::seed_from_u64(seed), now_s: 0.0 }
    }

    /// A standard normal number (Box and Muller 1958).
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.draws.random::<f64>()).ln()).sqrt();
        radius * (TAU * self.draws.random::<f64>()).cos()
    }

    fn log_slowness(&mut self) -> f64 {
        let normal = self.normal();
        match self.noise {
            Noise::Lognormal => 0.03 * normal,
            Noise::Autocorrelated => {
                self.state = 0.8 * self.state + 0.03 * normal;
                self.state
            }
            Noise::RegimeSwitching => {
                if self.draws.random::<f64>() < 0.1 {
                    self.state = 0.1 - self.state;
                }
                self.state + 0.02 * normal
            }
            Noise::HeavyTailed => {
                let spread: f64 = (0..3).map(|_| self.normal().powi(2)).sum();
                0.02 * normal / (spread / 3.0).sqrt()
            }
        }
    }
}

impl Unmoved {
    /// A run of a job of a mix, which takes about twice as long as by itself.
    fn run_of(&mut self, name: &str) -> JobRun {
        let time_s = 2.0 * self.log_slowness().exp();
        JobRun { name: name.into(), started_s: 0.0, ended_s: time_s, time_s: Some(time_s), processes: 1 }
    }
}

impl Runner for Unmoved {
    fn run(&mut self, plan: &Plan, turn: &Turn) -> Result<Trial, RunnerError> {
        let mut trial = turn.trial(plan, self.now_s);
        let time_s = match &plan.subjects[turn.cell.subject].mix {
            None => self.log_slowness().exp(),
            Some(mix) => {
                let jobs = mix.jobs.iter().map(|job| self.run_of(&job.name)).collect();
                trial.more.get_or_insert_default().jobs = jobs;
                trial.jobs().iter().map(|run| run.ended_s).fold(0.0, f64::max)
            }
        };
        (trial.status, trial.time_s, trial.ran_s) = (Status::Ok, Some(time_s), Some(time_s));
        self.now_s += time_s;
        Ok(trial)
    }
}

/// A study of one program under every one of `conditions`, run to its end and concluded from.
fn analysis(conditions: &[Conditions], seed: u64) -> study::analysis::Analysis {
    let app = Subject { name: "./app".into(), argv: vec!["./app".into()], ..Subject::default() };
    analysis_of(vec![app], conditions, seed)
}

/// The same of a mix of three programs.
fn analysis_of_mix(conditions: &[Conditions], seed: u64) -> study::analysis::Analysis {
    let alone = |name: &str| Subject {
        name: name.into(),
        argv: vec![name.into()],
        alone: Some(Alone::default()),
        ..Subject::default()
    };
    let job = |name: &str| Job { name: name.into(), subject: name.into(), ..Job::default() };
    let mix = Subject {
        name: "a + b + c".into(),
        metric: Mix::metric(),
        metrics: Mix::metrics(),
        mix: Some(Mix { jobs: ["a", "b", "c"].map(job).to_vec(), ..Mix::default() }),
        ..Subject::default()
    };
    analysis_of(vec![mix, alone("a"), alone("b"), alone("c")], conditions, seed)
}

fn analysis_of(subjects: Vec<Subject>, conditions: &[Conditions], seed: u64) -> study::analysis::Analysis {
    let treatments = conditions.iter().map(|conditions| Treatment::unbound().in_conditions(conditions)).collect();
    let plan = Plan {
        subjects,
        threads: vec![2.into()],
        treatments,
        timeout: Duration::from_secs(60),
        seed,
        ..Plan::default()
    };
    let study = Comparison {
        plan,
        stop: StopRule::Paired {
            width: stats::DEFAULT_WIDTH,
            min_blocks: stats::DEFAULT_MIN_BLOCKS,
            max_blocks: stats::DEFAULT_MAX_BLOCKS,
        },
    };
    let machine = Machine::named("pack:1 core:2 pu:1").unwrap();
    let mut session = Session::open(None, &study, &machine, &Host::Modelled, &[]).unwrap();
    let work = run_blocks(&mut session, &mut Unmoved::new(seed), &mut |_| ());
    comparison_analysis(&session.end::<EngineError>(work).unwrap())
}

fn is_claimed(claim: Claim) -> bool {
    matches!(claim, Claim::Faster | Claim::Slower)
}

/// Every combination of the levels in these words: of memory, huge pages, scheduling and company.
fn conditions([memory, huge_pages, sched, beside]: [&[&str]; 4]) -> Vec<Conditions> {
    let mut all = Vec::new();
    for memory in memory {
        for huge_pages in huge_pages {
            for sched in sched {
                for beside in beside {
                    all.push(Conditions {
                        memory: memory.parse::<MemoryPolicy>().unwrap(),
                        huge_pages: huge_pages.parse::<HugePages>().unwrap(),
                        scheduling: sched.parse::<Scheduling>().unwrap(),
                        company: (*beside != "none").then(|| beside.parse::<Company>().unwrap()),
                    });
                }
            }
        }
    }
    all
}

const DEFAULT: &[&str] = &["default"];

#[test]
fn studies_of_one_dimension_that_changes_nothing_rarely_claim_a_difference() {
    let dimensions: [(&str, [&[&str]; 4]); 4] = [
        ("memory", [&["default", "local", "interleave:0-1"], DEFAULT, DEFAULT, &["none"]]),
        ("huge-pages", [DEFAULT, &["default", "always", "never"], DEFAULT, &["none"]]),
        ("sched", [DEFAULT, DEFAULT, &["default", "batch", "slice=100ms", "attached"], &["none"]]),
        ("beside", [DEFAULT, DEFAULT, DEFAULT, &["none", "stress-ng --cache 2"]]),
    ];
    for (name, levels) in dimensions {
        let conditions = conditions(levels);
        let claims = |seed: &u64| {
            let analysis = analysis(&conditions, *seed);
            assert_eq!(analysis.varied, Varied::Treatments, "{name}");
            assert_eq!(analysis.summaries.len(), conditions.len(), "{name}");
            analysis.summaries.iter().any(|summary| is_claimed(summary.claim))
        };
        let count = (0..STUDIES).filter(claims).count();
        println!("{name:12}{count:>4} of {STUDIES} studies claim a difference");
        assert!(count <= MOST_FALSE, "{name}: {count} of {STUDIES}");
    }
}

#[test]
fn studies_of_two_dimensions_that_change_nothing_rarely_claim_an_effect_or_an_interaction() {
    let conditions = conditions([&["default", "local"], DEFAULT, &["default", "batch", "idle"], &["none"]]);
    let claims = |seed: &u64| {
        let effects = analysis(&conditions, *seed).effects;
        // Memory, two levels of scheduling, and these two together with it.
        assert_eq!((effects.len(), effects.iter().filter(|effect| effect.is_interaction).count()), (5, 2));
        effects.iter().any(|effect| is_claimed(effect.claim))
    };
    let count = (1_000..1_000 + STUDIES).filter(claims).count();
    println!("memory x sched{count:>4} of {STUDIES} studies claim an effect or an interaction");
    assert!(count <= MOST_FALSE, "{count} of {STUDIES}");
}

#[test]
fn mixes_that_no_treatment_changes_rarely_claim_a_difference_by_any_metric() {
    let conditions = conditions([DEFAULT, DEFAULT, &["default", "batch", "slice=100ms"], &["none"]]);
    let (mut by_makespan, mut by_others) = (0, 0);
    for seed in 2_000..2_000 + STUDIES {
        let analysis = analysis_of_mix(&conditions, seed);
        let mixes = || analysis.summaries.iter().filter(|summary| summary.subject == "a + b + c");
        assert_eq!(
            (mixes().count(), analysis.summaries.len()),
            (3, 6),
            "what is run by itself is run under the reference"
        );
        let metrics = || mixes().flat_map(|summary| &summary.metrics);
        let names = ["mean_completion", "antt", "stp", "jain_index"];
        assert!(metrics().map(|metric| metric.metric.name.as_str()).eq(names.into_iter().cycle().take(12)));
        assert!(metrics().all(|metric| metric.runs >= 10 && metric.median.is_some()), "each block has its slowdowns");
        by_makespan += usize::from(mixes().any(|summary| is_claimed(summary.claim)));
        by_others += usize::from(metrics().any(|metric| is_claimed(metric.claim)));
    }
    println!("mix, makespan {by_makespan:>3} of {STUDIES} studies claim a difference, other metrics {by_others}");
    assert!(by_makespan <= MOST_FALSE && by_others <= MOST_FALSE, "{by_makespan} and {by_others} of {STUDIES}");
}

/// A server on which every treatment is the same: a rate, of which more is better, and the percentile of latencies with a heavy tail.
struct UnmovedServer {
    slowness: Unmoved,
}

/// Requests of a run.
const REQUESTS: usize = 400;

impl Runner for UnmovedServer {
    fn run(&mut self, plan: &Plan, turn: &Turn) -> Result<Trial, RunnerError> {
        let machine = &mut self.slowness;
        let mut trial = turn.trial(plan, machine.now_s);
        let slowness = machine.log_slowness().exp();
        // Lomax: a hundredth is longer than 9 times the scale, with a finite mean and an infinite variance at 2.
        let mut latencies: Vec<f64> =
            (0..REQUESTS).map(|_| slowness * ((1.0 - machine.draws.random::<f64>()).powf(-0.5) - 1.0)).collect();
        latencies.sort_by(f64::total_cmp);
        let values = [("rate", 1000.0 / slowness), ("p99", latencies[REQUESTS * 99 / 100])];
        trial.more.get_or_insert_default().values = values.map(|(name, value)| (name.to_owned(), value)).into();
        (trial.status, trial.time_s, trial.ran_s) = (Status::Ok, Some(10.0), Some(10.0));
        machine.now_s += 10.0;
        Ok(trial)
    }
}

/// A study of such a server under the same treatment by two names, compared by the first of `metrics`.
fn analysis_of_server(metrics: [&str; 2], seed: u64) -> study::analysis::Analysis {
    let [metric, other] = metrics.map(|name| Metric {
        regex: Some("(.*)".into()),
        ..Metric::new(name, None, if name == "rate" { Better::Higher } else { Better::Lower })
    });
    let app = Subject {
        name: "server".into(),
        argv: vec!["load".into()],
        metric,
        metrics: vec![Metric::default(), other],
        ..Subject::default()
    };
    let treatments = ["a", "b"].map(|name| Treatment { name: name.into(), ..Treatment::unbound() });
    let stop = StopRule::Paired { width: stats::DEFAULT_WIDTH, min_blocks: 10, max_blocks: 30 };
    let plan = Plan {
        subjects: vec![app],
        threads: vec![2.into()],
        treatments: treatments.into(),
        timeout: Duration::from_secs(60),
        seed,
        ..Plan::default()
    };
    let study = Comparison { plan, stop };
    let machine = Machine::named("pack:1 core:2 pu:1").unwrap();
    let mut session = Session::open(None, &study, &machine, &Host::Modelled, &[]).unwrap();
    let mut runner = UnmovedServer { slowness: Unmoved::new(seed) };
    let work = run_blocks(&mut session, &mut runner, &mut |_| ());
    comparison_analysis(&session.end::<EngineError>(work).unwrap())
}

#[test]
fn servers_that_no_treatment_changes_rarely_claim_a_difference_by_a_rate_or_a_percentile() {
    for metrics in [["rate", "p99"], ["p99", "rate"]] {
        let (mut first, mut others, mut covered) = (0, 0, 0);
        for seed in 3_000..3_000 + STUDIES {
            let analysis = analysis_of_server(metrics, seed);
            let summary = &analysis.summaries[1];
            first += usize::from(is_claimed(summary.claim));
            let names: Vec<&str> = summary.metrics.iter().map(|told| told.metric.name.as_str()).collect();
            assert_eq!(names, ["time", metrics[1]]);
            others += usize::from(summary.metrics.iter().any(|told| is_claimed(told.claim)));
            covered += usize::from(summary.ratio_low.unwrap() <= 1.0 && summary.ratio_high.unwrap() >= 1.0);
            assert_eq!(summary.median_s, Some(10.0));
            assert!(summary.figures.median.unwrap() > 0.0);
        }
        let [by, besides] = metrics;
        println!(
            "server, by {by:5}{first:>3} of {STUDIES} studies claim a difference, besides by {besides} {others}; {covered} intervals hold 1"
        );
        assert!(first <= MOST_FALSE && others <= MOST_FALSE, "{metrics:?}: {first} and {others} of {STUDIES}");
        assert!(covered as u64 * 100 >= 90 * STUDIES, "{metrics:?}: {covered} of {STUDIES}");
    }
}
