//! The order of trials, when they stop, and what an interruption changes (nothing).

use crate::model::{Model, comparison};
use machine::Machine;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;
use study::engine::{CellStudy, EngineError, FAILURES_TO_GIVE_UP, Runner, run_blocks};
use study::session::{Host, Session};
use study::verdict::{ComparisonHeadline, Verdict};
use study::{
    Claim, Comparison, Ending, Journal, Record, Status, StopRule, Trial, Warning, comparison_analysis as analyse,
};

/// Runs `study` with `runner` in the journal at `path`, going on with what is there.
pub fn work<S: CellStudy>(path: &Path, study: &S, runner: &mut dyn Runner) -> Result<Record<S>, EngineError> {
    let machine = Machine::named("pack:1 core:2 pu:1").unwrap();
    let mut session = Session::open(Some(path), study, &machine, &Host::Modelled, &["stayput".into()]).unwrap();
    let ending = run_blocks(&mut session, runner, &mut |_| ());
    session.end(ending)
}

pub fn whole<S: CellStudy>(study: &S, mut runner: impl Runner) -> (Record<S>, Ending) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("study.stayput");
    let record = work(&path, study, &mut runner).unwrap();
    assert_eq!(Journal::read(&path).unwrap(), record);
    let ending = record.ending.unwrap();
    (record, ending)
}

fn key(trial: &Trial) -> (u32, String, study::Shape, String) {
    (trial.block, trial.subject.clone(), trial.threads, trial.placement.clone())
}

#[test]
fn every_block_runs_every_treatment_of_a_group_once_and_side_by_side() {
    let study = comparison(2, &["compact", "scatter"]);
    let (record, ending) = whole(&study, Model::new(&[1.0, 0.9, 0.8], 0.01));
    assert_eq!(ending, Ending::Finished);
    assert!(record.trials.len() >= 9 * 12);
    for group in record.trials.chunks(3) {
        let one = &group[0];
        assert!(group.iter().all(|t| (t.block, &t.subject, t.threads) == (one.block, &one.subject, one.threads)));
        assert_eq!(group.iter().map(|t| &t.placement).collect::<BTreeSet<_>>().len(), 3);
    }
    let keys: BTreeSet<_> = record.trials.iter().map(key).collect();
    assert_eq!(keys.len(), record.trials.len(), "no trial twice");
    assert!(record.trials.iter().all(|trial| trial.warmup == (trial.block == 0)));
}

#[test]
fn blocks_run_in_different_orders_and_each_treatment_comes_first_at_times() {
    let study = comparison(2, &["compact", "scatter"]);
    let (record, _) = whole(&study, Model::new(&[1.0, 0.9, 0.8], 0.01));
    let first: BTreeSet<_> = record.trials.chunks(3).map(|group| group[0].placement.clone()).collect();
    assert_eq!(first.len(), 3);
    let order = |block| -> Vec<_> {
        let trials = record.trials.iter().filter(|trial| trial.block == block);
        trials.map(|t| (t.subject.clone(), t.threads, t.placement.clone())).collect()
    };
    assert_ne!(order(1), order(2));
}

#[test]
fn a_study_cut_off_anywhere_goes_on_as_if_it_had_not_been() {
    let study = comparison(2, &["compact", "scatter"]);
    let model = || Model::new(&[1.0, 1.0, 0.97], 0.05);
    let (expected, _) = whole(&study, model());
    for step in [7, 40] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("study.stayput");
        loop {
            let mut runner = Model { trials_left: step, ..model() };
            match work(&path, &study, &mut runner) {
                Ok(_) => break,
                Err(EngineError::Runner(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
        let record: Record<Comparison> = Journal::read(&path).unwrap();
        assert_eq!(record.trials, expected.trials, "cut off after every {step} trials");
        assert_eq!(record.ending, expected.ending);
    }
}

#[test]
fn what_is_settled_stops_and_what_is_noisy_goes_on() {
    let study = comparison(1, &["compact"]);
    let blocks = |noise| {
        let (record, ending) = whole(&study, Model::new(&[1.0, 0.9], noise));
        assert_eq!(ending, Ending::Finished);
        record.trials.iter().map(|trial| trial.block).max().unwrap()
    };
    assert!(blocks(0.001) < 15);
    assert_eq!(blocks(0.5), 30, "the last of 30 counted blocks after one of warm-up");
}

#[test]
fn the_papers_rule_stops_at_its_relative_deviation() {
    let mut study = comparison(1, &["compact"]);
    study.stop = StopRule::RelativeSd { relative_sd: 0.05, min_runs: 5, max_runs: 50 };
    study.plan.warmup_blocks = 0;
    let (record, _) = whole(&study, Model::new(&[1.0, 1.0], 0.02));
    assert_eq!(record.trials.len(), 5 * 4);
    let (record, _) = whole(&study, Model::new(&[1.0, 1.0], 3.0));
    assert_eq!(record.trials.len(), 50 * 4);
    assert!(analyse(&record).summaries.iter().all(|summary| !summary.settled));
}

#[test]
fn a_cell_that_always_fails_is_given_up_and_the_others_go_on() {
    let study = comparison(1, &["compact", "scatter"]);
    let mut runner = Model::new(&[1.0, 0.9, 0.8], 0.001);
    runner.failing.insert(1, Status::Timeout);
    let (record, ending) = whole(&study, runner);
    assert_eq!(ending, Ending::Finished);
    let runs = |name: &str| record.trials.iter().filter(|t| t.placement == name && t.threads == 2).count();
    assert_eq!(runs("compact"), FAILURES_TO_GIVE_UP);
    assert!(runs("scatter") > 8);
    let analysis = analyse(&record);
    let scatter = analysis.summaries.iter().find(|s| s.placement == "scatter" && s.threads == 2).unwrap();
    assert_eq!(scatter.claim, Claim::Faster);
    let compact = analysis.summaries.iter().find(|s| s.placement == "compact" && s.threads == 2).unwrap();
    assert_eq!((compact.trials, compact.median_s, compact.ratio), (0, None, None));
    let is_told = |warning: &Warning| matches!(warning, Warning::Failures { placement, .. } if placement == "compact");
    assert!(analysis.warnings.iter().any(is_told), "{:?}", analysis.warnings);
}

#[test]
fn stops_are_told_of_the_cell_that_they_disturb_most_if_they_can_be_seen() {
    let (mut record, _) = whole(&comparison(1, &["compact"]), Model::new(&[1.0, 0.9], 0.001));
    let told = |record: &Record<Comparison>| {
        let is_told = |warning: &Warning| matches!(warning, Warning::Stops { .. });
        analyse(record).warnings.into_iter().find(is_told)
    };
    assert_eq!(told(&record), None, "a thousandth of the time is nothing");
    for trial in record.trials.iter_mut().filter(|trial| trial.placement == "compact" || trial.warmup) {
        let share = if trial.warmup { 0.5 } else { 0.01 * f64::from(trial.threads.total()) + 0.001 };
        let seen = trial.observation.as_mut().unwrap();
        (seen.stops, seen.stops_s) = (Some(10), Some(seen.wall_s * share));
    }
    let Some(Warning::Stops { threads, placement, share, stops, .. }) = told(&record) else {
        panic!("{:?}", told(&record));
    };
    assert_eq!((threads, placement.as_str(), stops), (2.into(), "compact", 10.0));
    assert!((share - 0.021).abs() < 1e-9, "{share}");
}

#[test]
fn a_program_that_is_not_there_is_tried_once_a_cell() {
    let study = comparison(1, &["compact"]);
    let mut runner = Model::new(&[1.0, 1.0], 0.01);
    runner.failing = [(0, Status::NotStarted), (1, Status::NotStarted)].into();
    let (record, ending) = whole(&study, runner);
    assert_eq!((record.trials.len(), ending), (4, Ending::Finished));
}

#[test]
fn a_spent_budget_ends_the_study_and_the_report_says_so() {
    let mut study = comparison(1, &["compact"]);
    study.plan.budget = Some(Duration::from_secs(20));
    let (record, ending) = whole(&study, Model::new(&[1.0, 1.0], 0.5));
    assert_eq!(ending, Ending::BudgetSpent);
    let spent_s: f64 = record.trials.iter().map(|trial| trial.ran_s.unwrap()).sum();
    assert!((20.0..22.0).contains(&spent_s));
    assert!(analyse(&record).warnings.iter().any(|warning| matches!(warning, Warning::BudgetSpent { open: 1.., .. })));
}

#[test]
fn a_true_difference_is_claimed_and_an_equal_placement_is_not() {
    let study = comparison(1, &["compact", "scatter"]);
    let (record, _) = whole(&study, Model::new(&[1.0, 1.0, 0.8], 0.02));
    let analysis = analyse(&record);
    let claim = |name: &str| analysis.summaries.iter().find(|s| s.placement == name && s.threads == 2).unwrap();
    assert_eq!(claim("compact").claim, Claim::NoneShown);
    let scatter = claim("scatter");
    assert_eq!(scatter.claim, Claim::Faster);
    assert!((scatter.ratio.unwrap() - 1.25).abs() < 0.01, "{:?}", scatter.ratio);
    assert_eq!(scatter.same_as.as_deref(), Some("compact"), "the model gives both the same CPUs");
    assert_eq!((analysis.best[0].placement.as_str(), analysis.best[0].shown), ("scatter", true));
    let [Verdict::Comparison(verdict)] = analysis.verdicts.as_slice() else { panic!("{:?}", analysis.verdicts) };
    let ComparisonHeadline::Matters { by, best, .. } = &verdict.headline else { panic!("{:?}", verdict.headline) };
    assert_eq!(best.placement, "scatter");
    let largest = analysis.summaries.iter().filter_map(|summary| summary.ratio).fold(0.0, f64::max);
    assert!((by - (largest - 1.0)).abs() < 1e-9, "{by} and {largest}, whatever the thread count");
}

#[test]
fn a_study_of_equals_claims_a_difference_in_at_most_five_percent() {
    let mut study = comparison(1, &["compact", "scatter"]);
    study.stop = StopRule::Paired { width: 0.02, min_blocks: 8, max_blocks: 20 };
    let studies = 100;
    let claiming = (0..studies)
        .filter(|&seed| {
            study.plan.seed = seed;
            let (record, _) = whole(&study, Model::new(&[1.0, 1.0, 1.0], 0.06));
            analyse(&record).summaries.iter().any(|s| matches!(s.claim, Claim::Faster | Claim::Slower))
        })
        .count();
    // 5 % of 100 is 5; a true 5 % stays below 12 with a probability of 99 %.
    assert!(claiming <= 11, "{claiming} of {studies}");
}
