//! Plays as studies: which are left, and whether two worlds agree.

use machine::Machine;
use replay::{Policy, ReplayOutput, Run, Scenario};
use sim::{Parameters, Workload};
use std::collections::BTreeMap;
use study::play::{AgreementVerdict, Kernel, PlayResult, ReplayVerdict, analyse, simulate, simulator_parameters};
use study::{Ending, HostFacts, Plan, Record, Status, Trial, Warning};

fn machine() -> Machine {
    Machine::named("pack:1 core:2 pu:1").unwrap()
}

fn plan(policies: &[&str]) -> Plan {
    let parameters = Parameters { replicates: 3, horizon_ms: Some(600.0), ..Parameters::default() };
    let scenario = Scenario { workload: Workload::spin(5), parameters };
    let policies: Vec<Policy> = policies.iter().map(|name| name.parse().unwrap()).collect();
    let kernel = Kernel { release: "7.3".into(), place: "here".into(), is_scalable: false, max_wait_ms: None };
    Plan::of_play(&scenario, kernel, Some(simulator_parameters(&scenario.parameters, None)), &policies, &machine())
}

fn told(metrics: &[(&str, f64)]) -> ReplayOutput {
    let metrics = metrics.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect::<BTreeMap<_, _>>();
    ReplayOutput { seconds: 0.6, metrics, ..ReplayOutput::default() }
}

fn record(plan: Plan, trials: Vec<Trial>) -> Record {
    Record {
        plan,
        machine: serde_json::to_value(machine()).unwrap(),
        host: HostFacts::of_model(),
        sessions: Vec::new(),
        trials,
        ending: Some(Ending::Finished),
    }
}

/// A study in which each policy has these migrations a second in the kernel and in the simulator, the same in each replicate.
fn compared(figures: &[(&str, f64, f64)]) -> PlayResult {
    let names: Vec<&str> = figures.iter().map(|(name, ..)| *name).collect();
    let plan = plan(&names);
    let mut trials = Vec::new();
    for turn in plan.turns_left(&[]) {
        let (_, played, simulated) = figures.iter().find(|(name, ..)| *name == turn.policy.name()).unwrap();
        let of = |value: f64| Ok(told(&[("migrations_per_s", value)]));
        let trial = plan.play_trial(turn, of(*played), 0);
        // The same as if it had been simulated.
        let other = Trial { subject: plan.subjects[1].name.clone(), ..plan.play_trial(turn, of(*simulated), 0) };
        trials.extend([trial, other]);
    }
    analyse(&record(plan, trials)).unwrap()
}

#[test]
fn a_play_that_was_cut_off_goes_on_with_what_is_left() {
    let plan = plan(&["light", "standard", "eevdf", "eevdf-llc"]);
    plan.check().unwrap();
    let turns = plan.turns_left(&[]);
    assert_eq!(turns.len(), 12);
    // Each replicate begins with another policy, and has them all.
    let firsts: Vec<&str> = turns.chunks(4).map(|block| block[0].policy.name()).collect();
    assert_eq!(firsts, ["standard", "light", "eevdf"]);
    for block in turns.chunks(4) {
        assert!(block.iter().all(|turn| turn.replicate == block[0].replicate));
    }
    let mut done = simulate(&plan, &machine(), &[]).unwrap();
    assert_eq!(done.len(), 9, "nothing is like eevdf-llc");
    assert_eq!(done.iter().map(|trial| trial.sequence).collect::<Vec<_>>(), (0..9).collect::<Vec<_>>());
    assert_eq!(plan.turns_left(&done), turns);
    for (number, turn) in turns[..5].iter().enumerate() {
        let outcome = if number == 2 { Err("it failed".into()) } else { Ok(told(&[])) };
        done.push(plan.play_trial(*turn, outcome, done.len() as u32));
    }
    assert_eq!(plan.turns_left(&done), turns[5..]);
    assert_eq!(done[11].status, Status::ExitCode);
    let half = &done[..4];
    assert_eq!(simulate(&plan, &machine(), half).unwrap(), done[4..9]);
}

#[test]
fn what_is_simulated_is_measured_by_the_ruler_of_plays() {
    let plan = plan(&["standard", "long-slice"]);
    for trial in simulate(&plan, &machine(), &[]).unwrap() {
        let seen = trial.observation.unwrap();
        let of = |name: &str| seen.metrics[name];
        assert_eq!(of("migrations_per_s"), of("migrations") / 0.6);
        assert!(of("dispatches") >= of("switches") && of("wake_lates") == 0.0);
        // 30 ms end with the third tick of 4 ms after 28, and a long slice with the kernel's longest.
        let least_ms = if trial.placement == "standard" { 32.0 } else { 100.0 };
        assert!((least_ms..least_ms + 1.0).contains(&of("effective_slice_median_ms")), "{}", trial.placement);
    }
}

#[test]
fn worlds_agree_within_a_quarter_and_order_counts_where_the_simulator_sets_policies_apart() {
    let result = compared(&[("standard", 50.0, 41.0), ("light", 9.0, 10.0), ("heavy", 4.0, 9.5)]);
    let migrations = &result.agreements[0];
    assert_eq!(
        (migrations.within.as_slice(), migrations.beyond.as_slice()),
        (&["standard".to_owned(), "light".into()][..], &["heavy".to_owned()][..])
    );
    // Light and heavy are simulated alike, so that their order in the kernel says nothing.
    assert_eq!((migrations.pairs, migrations.same_order), (2, 2));
    let findings = ReplayVerdict::new(&result).findings.unwrap();
    let AgreementVerdict { metric, within, beyond, pairs, same_order } = &findings.agreements[0];
    assert_eq!((metric.as_str(), within, *pairs, *same_order), ("migrations_per_s", &migrations.within, 2, 2));
    let [heavy] = beyond.as_slice() else { panic!("{beyond:?}") };
    assert_eq!((heavy.policy.as_str(), heavy.kernel), ("heavy", 4.0));
    assert!((heavy.ratio.unwrap().value - 4.0 / 9.5).abs() < 1e-9);
    let turned = compared(&[("standard", 5.0, 40.0), ("light", 9.0, 10.0)]);
    assert_eq!((turned.agreements[0].pairs, turned.agreements[0].same_order), (1, 0));
}

#[test]
fn zeros_agree_with_zeros_and_with_nothing_else() {
    let result = compared(&[("graded", 0.0, 0.0), ("light", 3.0, 0.0), ("heavy", 0.0, 3.0), ("eevdf", 9.0, 1.0)]);
    let migrations = &result.agreements[0];
    assert_eq!(migrations.within, ["graded"]);
    assert_eq!(migrations.beyond, ["light", "heavy"], "what only stands in isn't judged");
    assert!(result.policies[0].beside("migrations_per_s").unwrap().ratio.is_none());
    let findings = ReplayVerdict::new(&result).findings.unwrap();
    let beyond: Vec<_> = findings.agreements[0].beyond.iter().map(|b| (b.kernel, b.ratio.map(|r| r.value))).collect();
    assert_eq!(beyond, [(3.0, None), (0.0, Some(0.0))]);
}

#[test]
fn modelled_misses_are_told_of_the_policies_that_have_them() {
    let plan = plan(&["standard", "light", "eevdf"]);
    let play = |turn: Run| {
        let figures: &[(&str, f64)] = match turn.policy.name() {
            "standard" => &[("l2_misses_per_1000", 316.6), ("l3_misses_per_1000", 120.9)],
            "light" => &[("l2_misses_per_1000", 46.6), ("l3_misses_per_1000", 2.6)],
            _ => &[("migrations_per_s", 3.0)],
        };
        plan.play_trial(turn, Ok(told(figures)), 0)
    };
    let trials = plan.turns_left(&[]).into_iter().map(play).collect();
    let findings = ReplayVerdict::new(&analyse(&record(plan.clone(), trials)).unwrap()).findings.unwrap();
    let misses: Vec<_> =
        findings.misses.iter().map(|m| (m.policy.as_str(), [m.l2_per_1000, m.l3_per_1000].map(f64::round))).collect();
    assert_eq!(misses, [("standard", [317.0, 121.0]), ("light", [47.0, 3.0])]);
    assert!(findings.agreements.is_empty() && findings.scheduling.is_empty() && findings.least_fair.is_none());
}

#[test]
fn failures_notes_and_stand_ins_are_told() {
    let plan = plan(&["standard", "eevdf", "eevdf-llc"]);
    let play = |turn: Run, number: usize| {
        let outcome = match number {
            0 => Err("exit code 1: no\nand more".into()),
            _ => Ok(ReplayOutput {
                notes: vec!["3 stays were not recorded".into()],
                ..told(&[("migrations_per_s", 1.0)])
            }),
        };
        plan.play_trial(turn, outcome, number as u32)
    };
    let trials = plan.turns_left(&[]).into_iter().zip(0..).map(|(turn, number)| play(turn, number)).collect();
    let record = record(plan.clone(), trials);
    let result = analyse(&record).unwrap();
    assert_eq!((result.policies[0].plays, result.policies[0].failed), (2, 1));
    assert_eq!(
        Warning::of_replays(&record, &result),
        [
            Warning::ReplaysFailed {
                policy: "standard".into(),
                failed: 1,
                of: 3,
                cause: Some("exit code 1: no".into())
            },
            Warning::StandIn { policy: "eevdf".into(), stand_in: "per-cpu".into() },
            Warning::NotSimulated { policy: "eevdf-llc".into() },
            Warning::ReplayNote { text: "3 stays were not recorded".into() },
        ]
    );
}
