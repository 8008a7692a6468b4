//! Divisions into ranks and threads compared with one another: which is called the fastest, and that noise makes none so.

use crate::engine::whole;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::time::Duration;
use study::engine::{Runner, RunnerError, Turn};
use study::verdict::Difference;
use study::{
    Cell, Comparison, Plan, RankStart, Shape, ShapeComparison, Status, StopRule, Subject, Treatment, Trial,
    comparison_analysis,
};

/// Times of cells by shape and treatment, each with noise up to a share of it on top.
struct Times {
    seconds: Vec<Vec<f64>>,
    noise: f64,
}

impl Runner for Times {
    fn run(&mut self, plan: &Plan, turn: &Turn) -> Result<Trial, RunnerError> {
        let Cell { threads, treatment, .. } = turn.cell;
        let name = format!("{}/{threads}/{treatment}/{}", plan.seed, turn.block);
        let mut draws = ChaCha8Rng::from_seed(std::array::from_fn(|i| *name.as_bytes().get(i).unwrap_or(&0)));
        let time_s = self.seconds[threads][treatment] * (1.0 + self.noise * draws.random::<f64>());
        let mut trial = turn.trial(plan, f64::from(turn.sequence));
        (trial.status, trial.time_s, trial.ran_s) = (Status::Ok, Some(time_s), Some(time_s));
        Ok(trial)
    }
}

fn study(shapes: &[&str], treatments: usize, seed: u64) -> Comparison {
    let treatment = |number: usize| match number {
        0 => Treatment::unbound(),
        // Another place on every shape, so that none is run for another.
        number => Treatment::new(format!("p{number}"), Vec::new()),
    };
    let has_ranks = shapes[0].contains('x');
    let plan = Plan {
        subjects: vec![Subject {
            name: "app".into(),
            argv: vec!["./app".into()],
            ranks: has_ranks.then(|| RankStart {
                mpi: "openmpi".parse().unwrap(),
                args: Vec::new(),
                bind_helpers: false,
            }),
            ..Subject::default()
        }],
        threads: shapes.iter().map(|shape| shape.parse().unwrap()).collect(),
        treatments: (0..treatments).map(treatment).collect(),
        warmup_blocks: 0,
        timeout: Duration::from_secs(60),
        seed,
        ..Plan::default()
    };
    Comparison { plan, stop: StopRule::Paired { width: 0.02, min_blocks: 8, max_blocks: 30 } }
}

fn shapes(study: &Comparison, seconds: &[&[f64]], noise: f64) -> (Vec<ShapeComparison>, usize) {
    let seconds = seconds.iter().map(|of_shape| of_shape.to_vec()).collect();
    let (record, _) = whole(study, Times { seconds, noise });
    (comparison_analysis(&record).shapes, record.trials.len())
}

fn shape(text: &str) -> Shape {
    text.parse().unwrap()
}

#[test]
fn the_fastest_division_is_told_from_those_that_are_slower_and_only_from_them() {
    let study = study(&["1x4", "2x1", "2x2", "4x1"], 1, 3);
    let (found, _) = shapes(&study, &[&[1.0], &[3.0], &[0.8], &[0.8005]], 0.02);
    assert_eq!(found.len(), 1, "two threads in all have one division only: {found:?}");
    let only = &found[0];
    assert_eq!((only.subject.as_str(), only.threads_in_all), ("app", 4));
    assert!([shape("2x2"), shape("4x1")].contains(&only.fastest.threads), "{only:?}");
    assert_eq!(only.others.len(), 2);
    assert_eq!(only.others[0].other.threads, shape("1x4"));
    let Difference::Faster { ratio } = only.others[0].difference else { panic!("{only:?}") };
    assert!((ratio.value - 1.25).abs() < 0.02 && ratio.low < ratio.value && ratio.value < ratio.high, "{ratio:?}");
    assert!(matches!(only.others[1].difference, Difference::NoneShown { .. }), "{only:?}");
    assert!(only.is_shown());
}

#[test]
fn each_division_is_taken_where_it_is_best() {
    let study = study(&["1x4", "2x2"], 2, 4);
    let (found, _) = shapes(&study, &[&[1.0, 0.7], &[0.8, 0.9]], 0.02);
    let only = &found[0];
    assert_eq!((only.fastest.threads, only.fastest.placement.as_str()), (shape("1x4"), "p1"));
    assert_eq!((only.others[0].other.threads, only.others[0].other.placement.as_str()), (shape("2x2"), "unbound"));
    let Difference::Faster { ratio } = only.others[0].difference else { panic!("{only:?}") };
    assert!((ratio.value - 0.8 / 0.7).abs() < 0.02, "{ratio:?}");
}

/// Where there is nothing but the reference, it is the divisions that have to be told apart.
#[test]
fn a_study_goes_on_until_its_divisions_are_told_apart() {
    let study = study(&["1x4", "2x2"], 1, 5);
    let (quiet, few) = shapes(&study, &[&[1.0], &[0.9]], 0.005);
    let (noisy, many) = shapes(&study, &[&[1.0], &[0.9]], 0.4);
    assert!((2 * 8..2 * 15).contains(&few), "until the interval is narrow: {few} trials");
    assert_eq!(many, 2 * 30, "until there are most blocks");
    assert_eq!((quiet[0].others[0].pairs as usize, noisy[0].others[0].pairs), (few / 2, 30));
}

#[test]
fn thread_counts_are_not_divisions() {
    let study = study(&["2", "4"], 1, 6);
    assert_eq!(shapes(&study, &[&[1.0], &[0.5]], 0.02).0, []);
}

/// Claims between four divisions that don't differ: in at most 5 % of studies, of which 8 in 60 would be seen once in a hundred times.
#[test]
fn noise_makes_no_division_the_fastest() {
    let claimed = (0..60)
        .filter(|seed| {
            let study = study(&["1x8", "2x4", "4x2", "8x1"], 1, 100 + seed);
            shapes(&study, &[&[1.0], &[1.0], &[1.0], &[1.0]], 0.1).0[0].is_shown()
        })
        .count();
    assert!(claimed < 8, "{claimed} of 60 studies claimed a difference");
}
