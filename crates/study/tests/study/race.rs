//! A study that asks for the best: what it runs, what it says, and what an interruption changes (nothing).

use crate::engine::{whole, work};
use machine::{CpuId, Placement};
use stats::{DropReason, RaceRule};
use std::collections::BTreeMap;
use std::time::Duration;
use study::engine::EngineError;
use study::model::{CellTime, Noise, Slow};
use study::verdict::{RaceFinding, RaceOutcome, Verdict};
use study::{
    Cell, Ending, Journal, Kind, ModelRunner, Plan, Race, RaceAnalysis, RaceStop, Record, Status, Subject,
    SubjectModel, Treatment, Warning, race_analysis as analyse,
};

/// A race between unbound, which takes `times_s[0]`, and placements called `p1`, `p2`, ... which take the others, with
/// 2 threads.
fn race(times_s: &[f64], noise: Noise, search: RaceRule) -> Race {
    let name = |position: usize| if position == 0 { "unbound".to_owned() } else { format!("p{position}") };
    let treatment = |position: usize| {
        let cpus = [CpuId(2 * position as u32), CpuId(2 * position as u32 + 1)];
        Treatment::new(name(position), vec![Some(Placement::from_cpus("list", cpus))])
    };
    let time = |(position, &mean_s)| CellTime { threads: 2.into(), placement: name(position), mean_s, slow: None };
    let model = SubjectModel { times: times_s.iter().enumerate().map(time).collect(), noise };
    let plan = Plan {
        subjects: vec![Subject { name: "model".into(), model: Some(model), ..Subject::default() }],
        threads: vec![2.into()],
        treatments: std::iter::once(Treatment::unbound()).chain((1..times_s.len()).map(treatment)).collect(),
        warmup_blocks: 0,
        timeout: Duration::from_secs(600),
        seed: 3,
        ..Plan::default()
    };
    Race { plan, stop: RaceStop { search, cut_off: 1.5, kept: None } }
}

const QUIET: Noise = Noise { lognormal: 0.01, drift: 0.0, outliers: None };
const LOUD: Noise = Noise { lognormal: 0.02, drift: 0.0, outliers: None };

fn run(study: &Race) -> (Record<Race>, RaceAnalysis) {
    study.check().unwrap();
    let (record, ending) = whole(study, ModelRunner::default());
    assert_eq!(ending, Ending::Finished);
    let analysis = analyse(&record);
    (record, analysis)
}

/// What came of the only race.
fn outcome(analysis: &RaceAnalysis) -> &RaceOutcome {
    let [Verdict::Race(verdict)] = analysis.cells.verdicts.as_slice() else { panic!("{:?}", analysis.cells) };
    verdict.outcome.as_ref().unwrap()
}

/// Means from 1 s in steps of 3 %, unbound 10 % above the best, the best in the middle.
fn spread() -> Vec<f64> {
    vec![1.10, 1.21, 1.12, 1.06, 1.0, 1.09, 1.18, 1.03, 1.15]
}

#[test]
fn the_best_is_found_named_and_told_with_its_gain() {
    let study = race(&spread(), QUIET, RaceRule::Halving { runs: 60 });
    let (record, analysis) = run(&study);
    assert!(record.trials.len() <= 60);
    let result = &analysis.races[0];
    assert_eq!(result.best().unwrap().placement, "p4");
    let gain = result.gain().unwrap();
    assert!(gain.low > 1.05 && gain.high < 1.15 && gain.low < 1.1 && 1.1 < gain.high, "{gain:?}");
    assert_eq!((analysis.cells.best[0].placement.as_str(), analysis.cells.best[0].shown), ("p4", true));
    let outcome = outcome(&analysis);
    assert_eq!((outcome.best.placement.as_str(), outcome.entrants, outcome.threads), ("p4", 9, Some(2.into())));
    assert!(matches!(outcome.finding, RaceFinding::Faster { ratio, .. } if ratio.low == gain.low), "{outcome:?}");
    assert_eq!(result.runs as usize, record.trials.len());
    let blocks = record.trials.last().unwrap().block as usize + 1;
    assert_eq!(result.history.len(), blocks);
}

#[test]
fn a_block_runs_whoever_is_still_in_once_in_an_order_drawn_anew() {
    let (record, _) = run(&race(&spread(), QUIET, RaceRule::Halving { runs: 60 }));
    let mut blocks: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
    for trial in &record.trials {
        blocks.entry(trial.block).or_default().push(&trial.placement);
    }
    let sizes: Vec<usize> = blocks.values().map(Vec::len).collect();
    assert_eq!(sizes[0], 9, "everyone runs once at first");
    assert!(sizes.last() < sizes.first(), "{sizes:?}");
    for names in blocks.values() {
        let mut once = names.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), names.len());
    }
    assert!(blocks.values().any(|names| !names.is_sorted()));
}

#[test]
fn equal_placements_are_not_told_apart_and_nothing_is_to_be_applied() {
    let (_, analysis) = run(&race(&[1.0; 9], QUIET, RaceRule::Halving { runs: 60 }));
    let outcome = outcome(&analysis);
    assert!(matches!(outcome.finding, RaceFinding::NoneShown { .. }) && outcome.entrants == 9, "{outcome:?}");
    assert_eq!((analysis.cells.best[0].placement.as_str(), analysis.cells.best[0].shown), ("unbound", false));
}

#[test]
fn a_run_that_has_lost_is_stopped_and_counted_as_such() {
    let mut times_s = spread();
    times_s[6] = 9.0;
    let study = race(&times_s, QUIET, RaceRule::Halving { runs: 60 });
    let (record, analysis) = run(&study);
    let lost: Vec<_> = record.trials.iter().filter(|trial| trial.placement == "p6").collect();
    assert_eq!(lost.len(), 1, "it doesn't run again");
    if record.trials[0].placement != "p6" {
        assert_eq!(lost[0].status, Status::CutOff);
        assert!(lost[0].time_s.is_none() && lost[0].ran_s.unwrap() < 3.0);
        assert_eq!(analysis.races[0].standings.arms[6].dropped.unwrap().why, DropReason::Outpaced);
    }
    let summary = analysis.cells.summaries.iter().find(|summary| summary.placement == "p6").unwrap();
    assert_eq!((summary.failed, summary.cut_off), (0, 1), "it lost; it didn't fail");
}

#[test]
fn an_interrupted_race_ends_as_an_uninterrupted_one() {
    let outliers = Some(Slow { share: 0.05, factor: 1.7 });
    let noisy = Noise { lognormal: 0.03, drift: 0.05, outliers };
    for search in [RaceRule::Halving { runs: 50 }, RaceRule::Guarantee { epsilon: 0.02, delta: 0.05, max_runs: 400 }] {
        let study = race(&spread(), noisy, search);
        let (expected, analysis) = run(&study);
        for step in [1, 7, 20] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("race.stayput");
            loop {
                let done = if path.exists() { Journal::<Race>::read(&path).unwrap().trials } else { Vec::new() };
                let mut runner = crate::model::Interrupted { inner: ModelRunner::after(&done), trials_left: step };
                match work(&path, &study, &mut runner) {
                    Ok(_) => break,
                    Err(EngineError::Runner(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            let record: Record<Race> = Journal::read(&path).unwrap();
            assert_eq!(record.trials, expected.trials, "cut off after every {step} trials");
            let RaceAnalysis { cells, races } = analyse(&record);
            assert_eq!(cells.verdicts, analysis.cells.verdicts);
            assert!(races == analysis.races && cells.best == analysis.cells.best);
            assert!(cells.summaries == analysis.cells.summaries);
        }
    }
}

#[test]
fn a_race_goes_over_thread_counts_with_placements_of_their_own() {
    let mut study = race(&[1.0, 0.8], QUIET, RaceRule::Halving { runs: 60 });
    study.plan.threads = vec![2.into(), 4.into()];
    study.plan.treatments[1].placements.push(None);
    let four = Placement::from_cpus("list", (0..4).map(CpuId));
    study.plan.treatments.push(Treatment::new("wide".into(), vec![None, Some(four)]));
    let time = |threads, placement: &str, mean_s| CellTime { threads, placement: placement.into(), mean_s, slow: None };
    study.plan.subjects[0].model.as_mut().unwrap().times = vec![
        time(2.into(), "unbound", 1.0),
        time(2.into(), "p1", 0.8),
        time(4.into(), "unbound", 0.6),
        time(4.into(), "wide", 0.5),
    ];
    let cells: Vec<Cell> = study.plan.cells().collect();
    assert_eq!(cells.len(), 4);
    let (record, analysis) = run(&study);
    assert!(record.trials.iter().all(|trial| (trial.placement == "wide") <= (trial.threads == 4)));
    let best = &analysis.cells.best[0];
    assert_eq!((best.threads, best.placement.as_str(), best.shown), (4.into(), "wide", true));
    let gain = analysis.races[0].gain().unwrap();
    assert!((gain.ratio - 1.2).abs() < 0.03, "against unbound with 4 threads, not with 2: {gain:?}");
    let outcome = outcome(&analysis);
    assert_eq!((outcome.best.placement.as_str(), outcome.best.threads, outcome.threads), ("wide", 4.into(), None));
}

#[test]
fn a_placement_under_check_stays_to_the_end() {
    let mut study = race(&spread(), QUIET, RaceRule::Halving { runs: 70 });
    study.stop.kept = Some("p1".into());
    let (record, analysis) = run(&study);
    let blocks = record.trials.last().unwrap().block + 1;
    assert_eq!(record.trials.iter().filter(|trial| trial.placement == "p1").count() as u32, blocks);
    let standing = &analysis.races[0].standings.arms[1];
    assert!(standing.loss_low.unwrap() > 1.15 && standing.loss_high.unwrap() < 1.27, "{standing:?}");
}

#[test]
fn a_warm_up_runs_one_cell_and_counts_nothing() {
    let mut study = race(&spread(), QUIET, RaceRule::Halving { runs: 60 });
    study.plan.warmup_blocks = 1;
    let (record, analysis) = run(&study);
    assert_eq!(record.trials.iter().filter(|trial| trial.warmup).count(), 1);
    assert_eq!(analysis.races[0].runs as usize, record.trials.len() - 1);
    assert!(analysis.races[0].runs <= 60);
}

#[test]
fn a_budget_of_time_ends_the_race_and_the_report_says_so() {
    let mut study = race(&spread(), QUIET, RaceRule::Halving { runs: 60 });
    study.plan.budget = Some(Duration::from_secs(12));
    let (record, ending) = whole(&study, ModelRunner::default());
    assert_eq!(ending, Ending::BudgetSpent);
    assert!(analyse(&record).cells.warnings.contains(&Warning::RaceBudgetSpent));
}

#[test]
fn what_always_fails_leaves_the_race_and_the_rest_go_on() {
    let study = race(&spread(), QUIET, RaceRule::Halving { runs: 60 });
    let mut runner = crate::model::Model::new(&spread(), 0.01);
    runner.failing.insert(2, Status::ExitCode);
    let (record, ending) = whole(&study, runner);
    assert_eq!(ending, Ending::Finished);
    let analysis = analyse(&record);
    assert_eq!(analysis.cells.best[0].placement, "p4");
    assert_eq!(analysis.races[0].standings.arms[2].loss, None);
    let is_told = |warning: &Warning| matches!(warning, Warning::Failures { placement, .. } if placement == "p2");
    assert!(analysis.cells.warnings.iter().any(is_told), "{:?}", analysis.cells.warnings);
}

#[test]
fn a_reference_that_always_fails_leaves_the_gain_unknown() {
    let study = race(&spread(), QUIET, RaceRule::Halving { runs: 60 });
    let mut runner = crate::model::Model::new(&spread(), 0.01);
    runner.failing.insert(0, Status::ExitCode);
    let (record, _) = whole(&study, runner);
    let analysis = analyse(&record);
    assert_eq!(outcome(&analysis).finding, RaceFinding::GainUnknown);
    let best = &analysis.cells.best[0];
    assert!(!analysis.races[0].beats_reference() && !best.shown, "nobody beats what was never timed");
    assert_eq!(best.placement, "p4", "what always fails is no advice");
}

#[test]
fn a_race_that_may_make_more_runs_goes_on_with_new_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.stayput");
    let study = |runs| race(&spread(), LOUD, RaceRule::Halving { runs });
    let first = work(&path, &study(30), &mut ModelRunner::default()).unwrap();
    let second = work(&path, &study(120), &mut ModelRunner::after(&first.trials)).unwrap();
    assert_eq!(second.trials[..first.trials.len()], first.trials);
    let [extension] = second.plan.plan.extensions.as_slice() else { panic!("{:?}", second.plan.plan.extensions) };
    let next = first.trials.last().unwrap().block + 1;
    assert_eq!(extension.from_block, next);
    let added = &second.trials[first.trials.len()..];
    assert!(
        !added.is_empty() && added.iter().all(|trial| trial.block >= next),
        "the blocks that were run stay as they were"
    );
    assert!(second.trials.len() <= 120);
    assert_eq!(analyse(&second).cells.best[0].placement, "p4");

    let guarantee = RaceRule::Guarantee { epsilon: 0.02, delta: 0.05, max_runs: 2000 };
    let third = work(&path, &race(&spread(), LOUD, guarantee), &mut ModelRunner::after(&second.trials)).unwrap();
    assert_eq!((third.ending, third.plan.stop.search), (Some(Ending::Finished), guarantee));
    assert_eq!(analyse(&third).cells.best[0].placement, "p4");
}

#[test]
fn a_placement_that_is_added_to_a_race_can_win_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.stayput");
    let mut times_s = spread();
    let begun = |times_s: &[f64]| race(times_s, QUIET, RaceRule::Halving { runs: 60 });
    let first = work(&path, &begun(&times_s), &mut ModelRunner::default()).unwrap();
    assert_eq!(analyse(&first).cells.best[0].placement, "p4");
    times_s.push(0.9);
    // The model's table is part of the plan: what it says of those that are there stays as it is.
    let mut asked = race(&times_s, QUIET, RaceRule::Halving { runs: 110 });
    asked.plan.subjects.clone_from(&first.plan.plan.subjects);
    let mut model = crate::model::Model::new(&times_s, 0.01);
    let record = work(&path, &asked, &mut model).unwrap();
    let from = first.trials.last().unwrap().block + 1;
    assert_eq!(record.trials[..first.trials.len()], first.trials);
    let added: Vec<u32> =
        record.trials.iter().filter(|trial| trial.placement == "p9").map(|trial| trial.block).collect();
    assert!(added.len() > 2 && added[0] == from, "{added:?}, from {from}");
    assert!(record.trials.len() <= 110);
    let analysis = analyse(&record);
    assert_eq!(analysis.cells.best[0].placement, "p9");
    let gain = analysis.races[0].gain().unwrap();
    assert!(gain.low < 1.10 / 0.9 && 1.10 / 0.9 < gain.high, "{gain:?}");
    // Cut off anywhere, it goes on as if it had not been.
    for step in [1, 4] {
        let path = folder.path().join(format!("by {step}"));
        work(&path, &begun(&spread()), &mut ModelRunner::default()).unwrap();
        let record_in_steps = loop {
            let mut runner = crate::model::Model { trials_left: step, ..crate::model::Model::new(&times_s, 0.01) };
            match work(&path, &asked, &mut runner) {
                Ok(record) => break record,
                Err(EngineError::Runner(_)) => {}
                Err(error) => panic!("{error}"),
            }
        };
        assert_eq!(record_in_steps.trials, record.trials);
    }
}

#[test]
fn what_failed_in_a_race_is_tried_again_when_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.stayput");
    let study = race(&spread(), QUIET, RaceRule::Halving { runs: 80 });
    let mut failing = crate::model::Model::new(&spread(), 0.01);
    failing.failing.insert(4, Status::ExitCode);
    let first = work(&path, &study, &mut failing).unwrap();
    assert_eq!(analyse(&first).cells.best[0].placement, "p7", "the second best");
    assert_eq!(analyse(&first).cells.stop.given_up, 1);
    let machine = machine::Machine::named("pack:1 core:2 pu:1").unwrap();
    let more = race(&spread(), QUIET, RaceRule::Halving { runs: 160 });
    let mut session = study::Session::open(Some(&path), &more, &machine, &study::Host::Modelled, &[]).unwrap();
    assert_eq!(study::engine::retry(&mut session), 1);
    let mut mended = crate::model::Model::new(&spread(), 0.01);
    let ending = study::engine::run_blocks(&mut session, &mut mended, &mut |_| ());
    let analysis = analyse(&session.end(ending).unwrap());
    assert_eq!(analysis.cells.best[0].placement, "p4");
    assert_eq!(analysis.cells.stop.given_up, 0);
}
