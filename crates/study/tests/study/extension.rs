//! What may change of a study that is under way, from which block on that holds, and what a ratio then comes from.

use crate::engine::work;
use crate::model::{Model, comparison};
use machine::{CpuId, Machine, Placement};
use stats::Better;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;
use study::engine::{CellStudy, EngineError, Runner, RunnerError, Turn};
use study::session::{Host, Session, SessionError};
use study::{
    Claim, Comparison, Ending, Journal, Kind, Metric, Plan, Record, Status, StopReason, StopRule, Treatment, Trial,
    Warning, comparison_analysis,
};

/// A model on a machine that is so many times slower than it was.
struct Slower(Model, f64);

impl Runner for Slower {
    fn run(&mut self, plan: &Plan, turn: &Turn) -> Result<Trial, RunnerError> {
        let mut trial = self.0.run(plan, turn)?;
        trial.time_s = trial.time_s.map(|time_s| time_s * self.1);
        Ok(trial)
    }
}

/// A model whose runs have this noise in a number that is counted, besides that of its time.
struct Counted(Model, f64);

impl Runner for Counted {
    fn run(&mut self, plan: &Plan, turn: &Turn) -> Result<Trial, RunnerError> {
        let mut trial = self.0.run(plan, turn)?;
        let cell = turn.block * 4 + 2 * turn.cell.threads as u32 + turn.cell.treatment as u32;
        let swing = f64::from((cell.wrapping_mul(2_654_435_761) >> 8) % 1000) / 1000.0;
        let values = [("described".to_owned(), 0.0), ("counted".to_owned(), 10.0 * (1.0 + self.1 * swing))];
        trial.more.get_or_insert_default().values.extend(values);
        Ok(trial)
    }
}

#[test]
fn in_an_emulated_machine_what_is_counted_decides_when_it_is_enough_and_times_never_do() {
    let ends = |stop: &StopRule, is_counted: bool, time_noise: f64, noise: f64| {
        let mut study = comparison(1, &["compact"]);
        study.stop = stop.clone();
        study.plan.site = "vm:1x2".parse().unwrap();
        if is_counted {
            let metric = |name: &str, better| Metric::new(name, None, better);
            study.plan.subjects[0].metrics =
                vec![metric("described", Better::Neither), metric("counted", Better::Lower)];
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.stayput");
        let _ = work(&path, &study, &mut Counted(Model::new(&[1.0, 0.9], time_noise), noise));
        let record: Record<Comparison> = Journal::read(&path).unwrap();
        let analysis = comparison_analysis(&record);
        assert!(analysis.summaries.iter().all(|s| s.claim == Claim::Emulated || s.claim == Claim::Reference));
        (runs(&record, 1, "compact").len(), analysis.stop.reason)
    };
    let paired = StopRule::Paired { width: 0.02, min_blocks: 8, max_blocks: 30 };
    let (few, reason) = ends(&paired, true, 0.5, 0.001);
    assert!(few < 20, "{few}");
    assert_eq!(reason, StopReason::WidthReached { width: 0.02 });
    assert_eq!(ends(&paired, true, 0.001, 0.5), (30, StopReason::MostRuns { runs: 30, open: 2 }));
    for time_noise in [0.001, 0.5] {
        assert_eq!(ends(&paired, false, time_noise, 0.5), (8, StopReason::LeastRuns { runs: 8 }));
    }
    let papers = StopRule::RelativeSd { relative_sd: 0.05, min_runs: 5, max_runs: 12 };
    assert_eq!(ends(&papers, true, 0.5, 0.001), (5, StopReason::RelativeSdReached { relative_sd: 0.05 }));
    assert!(matches!(ends(&papers, true, 0.001, 0.5), (12, StopReason::MostRuns { runs: 12, open: 1.. })));
    assert_eq!(ends(&papers, false, 0.5, 0.5), (5, StopReason::LeastRuns { runs: 5 }));
}

#[test]
fn unbound_is_told_to_be_left_out_only_where_it_is() {
    let told = |study: &Comparison| {
        let folder = tempfile::tempdir().unwrap();
        let record = work(&folder.path().join("a.stayput"), study, &mut Model::new(&[1.0, 0.9], 0.001)).unwrap();
        let warnings = comparison_analysis(&record).warnings;
        warnings.iter().any(|warning| matches!(warning, Warning::UnboundLeftOut { .. }))
    };
    let mut study = comparison(1, &["compact"]);
    assert!(!told(&study));
    study.plan.treatments.reverse();
    assert!(!told(&study), "it is there, though not the reference");
    study.plan.treatments.pop();
    assert!(told(&study));
}

#[test]
fn a_study_by_what_programs_write_ends_when_that_is_known_well_enough() {
    let mut study = comparison(1, &["compact"]);
    study.plan.subjects[0].metric =
        Metric { regex: Some("counted: (.*)".into()), ..Metric::new("counted", None, Better::Higher) };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.stayput");
    work(&path, &study, &mut Counted(Model::new(&[1.0, 0.9], 0.5), 0.001)).unwrap();
    let record: Record<Comparison> = Journal::read(&path).unwrap();
    assert_eq!(comparison_analysis(&record).stop.reason, StopReason::WidthReached { width: 0.02 });
    let ran = runs(&record, 1, "compact").len();
    assert!(ran < 20, "{ran}");
}

/// `study` with the treatment `reverse`, whose threads sit on other CPUs than those of compact.
fn with_reverse(mut study: Comparison) -> Comparison {
    let placements = study.plan.threads.iter().map(|&count| {
        let cpus = (1..=count.total()).rev().map(CpuId);
        Some(Placement::from_cpus("reverse", cpus))
    });
    study.plan.treatments.push(Treatment::new("reverse".into(), placements.collect()));
    study
}

/// `study` with 3 threads as well.
fn with_three_threads(mut study: Comparison) -> Comparison {
    study.plan.threads.push(3.into());
    for treatment in study.plan.treatments.iter_mut().filter(|treatment| !treatment.placements.is_empty()) {
        treatment.placements.push(Some(Placement::from_cpus(treatment.name.as_str(), (0..3).map(CpuId))));
    }
    study
}

fn last_block(record: &Record<Comparison>) -> u32 {
    record.trials.last().unwrap().block
}

fn runs(record: &Record<Comparison>, threads: u32, placement: &str) -> Vec<u32> {
    let ours = record.trials.iter().filter(|t| !t.warmup && t.threads == threads && t.placement == placement);
    ours.map(|trial| trial.block).collect()
}

fn refusal<K: Kind + CellStudy>(path: &Path, study: &K) -> Vec<String> {
    let machine = Machine::named("pack:1 core:2 pu:1").unwrap();
    match Session::open(Some(path), study, &machine, &Host::Modelled, &[]).map(drop) {
        Err(SessionError::OtherPlan { differences, .. }) => differences,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_larger_budget_goes_on_as_if_it_had_been_given_at_first() {
    let folder = tempfile::tempdir().unwrap();
    let (path, whole) = (folder.path().join("a.stayput"), folder.path().join("b.stayput"));
    let model = || Model::new(&[1.0, 0.9], 0.5);
    let unlimited = comparison(1, &["compact"]);
    let expected = work(&whole, &unlimited, &mut model()).unwrap();
    for (budget_s, ending) in [(20, Ending::BudgetSpent), (40, Ending::BudgetSpent), (4000, Ending::Finished)] {
        let mut study = unlimited.clone();
        study.plan.budget = Some(Duration::from_secs(budget_s));
        let record = work(&path, &study, &mut model()).unwrap();
        assert_eq!((record.ending, record.plan), (Some(ending), study));
    }
    let record: Record<Comparison> = Journal::read(&path).unwrap();
    assert_eq!(record.trials, expected.trials);
    assert_eq!(record.sessions.len(), 3);
}

#[test]
fn a_stop_rule_that_wants_more_goes_on_with_new_blocks_and_says_why_it_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.stayput");
    let study = |width, max_blocks| Comparison {
        stop: StopRule::Paired { width, min_blocks: 8, max_blocks },
        ..comparison(1, &["compact"])
    };
    let mut model = Model::new(&[1.0, 0.9], 0.5);
    let first = work(&path, &study(0.02, 30), &mut model).unwrap();
    assert_eq!(last_block(&first), 30);
    assert_eq!(comparison_analysis(&first).stop.reason, StopReason::MostRuns { runs: 30, open: 2 });

    let second = work(&path, &study(0.02, 45), &mut model).unwrap();
    assert_eq!((last_block(&second), &second.trials[..first.trials.len()]), (45, first.trials.as_slice()));
    assert_eq!(second.plan.plan.extensions.iter().map(|e| e.from_block).collect::<Vec<_>>(), [31]);

    // What wants less than there is runs nothing.
    let third = work(&path, &study(0.9, 45), &mut Model { trials_left: 0, ..Model::new(&[1.0, 0.9], 0.5) }).unwrap();
    assert_eq!(third.trials, second.trials);
    assert_eq!(comparison_analysis(&third).stop.reason, StopReason::WidthReached { width: 0.9 });
    assert_eq!(third.ending, Some(Ending::Finished));
}

#[test]
fn a_treatment_that_is_added_is_paired_with_the_blocks_in_which_it_ran() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.stayput");
    let first = work(&path, &comparison(1, &["compact"]), &mut Model::new(&[1.0, 0.9, 0.8], 0.01)).unwrap();
    let settled = last_block(&first);
    // The machine has become three times as slow: only pairs of a block can tell the ratio.
    let mut later = Slower(Model::new(&[1.0, 0.9, 0.8], 0.01), 3.0);
    let asked = with_reverse(comparison(1, &["compact"]));
    let record = work(&path, &asked, &mut later).unwrap();
    assert_eq!(record.trials[..first.trials.len()], first.trials);
    assert_eq!(record.ending, Some(Ending::Finished));
    let [extension] = record.plan.plan.extensions.as_slice() else { panic!("{:?}", record.plan.plan.extensions) };
    assert_eq!(
        (extension.from_block, extension.treatments.as_slice()),
        (settled + 1, ["reverse".to_owned()].as_slice())
    );
    for threads in [1, 2] {
        let added = runs(&record, threads, "reverse");
        assert!(added.len() >= 8 && added.iter().all(|&block| block > settled), "{added:?}");
        let reference: BTreeSet<u32> = runs(&record, threads, "unbound").into_iter().collect();
        assert!(added.iter().all(|block| reference.contains(block)));
        assert!(runs(&record, threads, "compact").iter().all(|&block| block <= settled), "it was settled, and rests");
    }
    let analysis = comparison_analysis(&record);
    for (name, ratio) in [("compact", 1.0 / 0.9), ("reverse", 1.25)] {
        for summary in analysis.summaries.iter().filter(|summary| summary.placement == name) {
            assert!((summary.ratio.unwrap() / ratio - 1.0).abs() < 0.01, "{name}: {:?}", summary.ratio);
            assert_eq!(summary.claim, Claim::Faster);
        }
    }
    // Blocks count from 1, and the first block of all warms up.
    let told =
        |warning: &Warning| matches!(warning, Warning::Extended { from_block, .. } if *from_block == settled + 1);
    assert!(analysis.warnings.iter().any(told), "{:?}", analysis.warnings);
}

#[test]
fn an_extended_study_cut_off_anywhere_goes_on_as_if_it_had_not_been() {
    let asked = with_reverse(with_three_threads(comparison(1, &["compact"])));
    let model = || Model::new(&[1.0, 0.9, 0.8], 0.02);
    let folder = tempfile::tempdir().unwrap();
    let extended = |name: &str, step: usize| {
        let path = folder.path().join(name);
        // Cut off in the middle of a block, which then stays as it is.
        let cut_off = work(&path, &comparison(1, &["compact"]), &mut Model { trials_left: 18, ..model() });
        assert!(matches!(cut_off, Err(EngineError::Runner(_))));
        loop {
            match work(&path, &asked, &mut Model { trials_left: step, ..model() }) {
                Ok(record) => break record,
                Err(EngineError::Runner(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
    };
    let expected = extended("whole", usize::MAX);
    assert!(last_block(&expected) > 12);
    let [extension] = expected.plan.plan.extensions.as_slice() else { panic!("{:?}", expected.plan.plan.extensions) };
    assert_eq!((extension.from_block, extension.threads.as_slice()), (5, [3.into()].as_slice()));
    assert!(expected.trials[18..].iter().all(|trial| trial.block >= 5));
    assert!(runs(&expected, 3, "reverse").len() >= 8 && runs(&expected, 3, "unbound").len() >= 8);
    for step in [5, 23] {
        let record = extended(&format!("by {step}"), step);
        assert_eq!(record.trials, expected.trials, "cut off after every {step} trials");
        assert_eq!((record.plan, record.ending), (expected.plan.clone(), expected.ending));
    }
}

#[test]
fn an_added_placement_that_is_there_already_is_not_run_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.stayput");
    let first = work(&path, &comparison(1, &["compact"]), &mut Model::new(&[1.0, 0.9], 0.01)).unwrap();
    let mut asked = comparison(1, &["scatter", "compact"]);
    asked.plan.merge_same_placements();
    let record = work(&path, &asked, &mut Model { trials_left: 0, ..Model::new(&[1.0, 0.9], 0.01) }).unwrap();
    assert_eq!(record.trials, first.trials);
    let scatter = record.plan.plan.treatments.iter().find(|treatment| treatment.name == "scatter").unwrap();
    assert_eq!([1, 2].map(|threads| scatter.same_placement(threads.into())), [Some("compact"); 2]);
}

#[test]
fn what_is_left_out_or_sits_elsewhere_is_another_study() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.stayput");
    let begun = with_reverse(comparison(1, &["compact"]));
    work(&path, &begun, &mut Model::new(&[1.0, 0.9, 0.8], 0.01)).unwrap();
    let before = std::fs::read(&path).unwrap();

    assert_eq!(
        refusal(&path, &comparison(1, &["compact"])),
        [r#"treatments: the journal has ["unbound","compact","reverse"], you ask for ["unbound","compact"]"#]
    );
    let mut fewer = begun.clone();
    fewer.plan.threads = vec![1.into()];
    assert_eq!(refusal(&path, &fewer), ["threads: the journal has [1,2], you ask for [1]"]);
    let mut moved = begun.clone();
    moved.plan.treatments[2].placements[0] = Some(Placement::from_cpus("reverse", [CpuId(0)]));
    assert!(refusal(&path, &moved)[0].starts_with("treatments.3.placements.1.slots"), "{:?}", refusal(&path, &moved));
    let mut other_reference = begun.clone();
    other_reference.plan.treatments.swap(0, 1);
    assert!(!refusal(&path, &other_reference).is_empty());
    let mut longer = begun.clone();
    (longer.plan.timeout, longer.plan.budget) = (Duration::from_secs(90), Some(Duration::from_secs(5)));
    assert_eq!(refusal(&path, &longer), ["timeout.secs: the journal has 60, you ask for 90"]);
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn a_cell_that_was_given_up_is_tried_again_when_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.stayput");
    let study = comparison(1, &["compact"]);
    let mut failing = Model::new(&[1.0, 0.9], 0.01);
    failing.failing.insert(1, Status::ExitCode);
    let first = work(&path, &study, &mut failing).unwrap();
    let stop = comparison_analysis(&first).stop;
    assert_eq!((stop.given_up, stop.cells), (2, 4));

    let mut mended = Model::new(&[1.0, 0.9], 0.01);
    let unasked = work(&path, &study, &mut Model { trials_left: 0, ..Model::new(&[1.0, 0.9], 0.01) }).unwrap();
    assert_eq!(unasked.trials, first.trials);
    let machine = Machine::named("pack:1 core:2 pu:1").unwrap();
    let mut session = Session::open(Some(&path), &study, &machine, &Host::Modelled, &[]).unwrap();
    assert_eq!(study::engine::retry(&mut session), 2);
    let ending = study::engine::run_blocks(&mut session, &mut mended, &mut |_| ());
    let record = session.end(ending).unwrap();
    let analysis = comparison_analysis(&record);
    assert_eq!(analysis.stop.given_up, 0);
    let compact = analysis.summaries.iter().find(|s| s.placement == "compact" && s.threads == 2).unwrap();
    assert_eq!(compact.claim, Claim::Faster);
    assert!(analysis.warnings.iter().any(|warning| matches!(warning, Warning::Extended { retried: true, .. })));
    assert!(compact.failed > 0, "the failures stay in the record");
}

#[test]
fn the_reason_for_the_end_is_told_of_every_kind_of_end() {
    let reason = |study: &Comparison, model: Model| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.stayput");
        let mut model = model;
        let _ = work(&path, study, &mut model);
        comparison_analysis(&Journal::read(&path).unwrap()).stop.reason
    };
    let study = comparison(1, &["compact"]);
    assert_eq!(reason(&study, Model::new(&[1.0, 0.9], 0.001)), StopReason::WidthReached { width: 0.02 });
    assert_eq!(reason(&study, Model::new(&[1.0, 0.9], 0.5)), StopReason::MostRuns { runs: 30, open: 2 });
    let cut_off = Model { trials_left: 9, ..Model::new(&[1.0, 0.9], 0.5) };
    assert_eq!(reason(&study, cut_off), StopReason::Unfinished);
    let mut failing = Model::new(&[1.0, 0.9], 0.5);
    failing.failing = [(0, Status::NotStarted), (1, Status::Signal)].into();
    assert_eq!(reason(&study, failing), StopReason::Failures);
    let fixed = StopRule::Paired { width: 0.02, min_blocks: 9, max_blocks: 9 };
    let fixed = Comparison { stop: fixed, ..study.clone() };
    assert_eq!(reason(&fixed, Model::new(&[1.0, 0.9], 0.5)), StopReason::AllRuns { runs: 9 });
    let papers = StopRule::RelativeSd { relative_sd: 0.05, min_runs: 5, max_runs: 40 };
    let papers = Comparison { stop: papers, ..study.clone() };
    assert_eq!(reason(&papers, Model::new(&[1.0, 0.9], 0.01)), StopReason::RelativeSdReached { relative_sd: 0.05 });
    let mut limited = study;
    limited.plan.budget = Some(Duration::from_secs(20));
    let spent = reason(&limited, Model::new(&[1.0, 0.9], 0.5));
    assert_eq!(spent, StopReason::BudgetSpent { budget_s: 20.0, open: 2 });
}
