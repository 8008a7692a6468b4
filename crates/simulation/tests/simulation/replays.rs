//! Replays as studies: which are left, and whether two worlds agree.

use crate::{ended, session, value};
use machine::Machine;
use replay::{Policy, ReplayOutput, Run, RunFailure, Scenario};
use sim::{Parameters, Workload};
use simulation::replays::{Agreement, MIGRATIONS_PER_S, PolicyPair, simulate, simulator_parameters};
use simulation::{Kernel, ReplayAnalysis, ReplayPlan, RunError, replay_analysis};
use std::collections::BTreeMap;
use study::{FailureCause, Kind, Sample, Warning};

fn machine() -> Machine {
    Machine::named("pack:1 core:2 pu:1").unwrap()
}

fn plan(policies: &[&str]) -> ReplayPlan {
    let parameters = Parameters { replicates: 3, horizon_ms: Some(600.0), ..Parameters::default() };
    let scenario = Scenario { workload: Workload::spin(5), parameters };
    let policies: Vec<Policy> = policies.iter().map(|name| name.parse().unwrap()).collect();
    let kernel = Kernel { release: "7.3".into(), place: "here".into(), is_scalable: false, max_wait_ms: None };
    // As before the kernel's own scheduler was modelled: others stand in for it.
    let simulated = Parameters { kernel: None, ..simulator_parameters("7.3", &scenario.parameters, None) };
    ReplayPlan::new(&scenario, kernel, Some(simulated), &policies, &machine())
}

fn output(metrics: &[(&str, f64)]) -> ReplayOutput {
    let metrics = metrics.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect::<BTreeMap<_, _>>();
    ReplayOutput { seconds: 0.6, metrics, ..ReplayOutput::default() }
}

fn analysis(plan: &ReplayPlan, samples: &[Sample]) -> ReplayAnalysis {
    replay_analysis(&ended(plan, &machine(), samples))
}

/// What is simulated beside the samples that are `done`.
fn simulated(plan: &ReplayPlan, done: &[Sample]) -> Vec<Sample> {
    let mut session = session(plan, &machine(), done);
    simulate::<RunError>(&mut session, &machine(), &mut || ()).unwrap();
    session.trials()[done.len()..].to_vec()
}

/// A study in which each policy has these migrations a second in the kernel and in the simulator, the same in each replicate.
fn compared(figures: &[(&str, f64, f64)]) -> ReplayAnalysis {
    let names: Vec<&str> = figures.iter().map(|(name, ..)| *name).collect();
    let plan = plan(&names);
    let mut samples = Vec::new();
    for run in plan.runs_left(&[]) {
        let (_, replayed, simulated) = figures.iter().find(|(name, ..)| *name == run.policy.name()).unwrap();
        let sample = |value: f64| plan.sample(run, Ok(output(&[("migrations_per_s", value)])), 0);
        // The same as if it had been simulated.
        samples.extend([sample(*replayed), Sample { subject: plan.simulator_subject(), ..sample(*simulated) }]);
    }
    analysis(&plan, &samples)
}

#[test]
fn replays_that_were_cut_off_go_on_with_what_is_left() {
    let plan = plan(&["light", "standard", "eevdf", "eevdf-llc"]);
    plan.check().unwrap();
    let runs = plan.runs_left(&[]);
    assert_eq!(runs.len(), 12);
    // Each replicate begins with another policy, and has them all.
    let firsts: Vec<&str> = runs.chunks(4).map(|block| block[0].policy.name()).collect();
    assert_eq!(firsts, ["standard", "light", "eevdf"]);
    for block in runs.chunks(4) {
        assert!(block.iter().all(|run| run.replicate == block[0].replicate));
    }
    let mut done = simulated(&plan, &[]);
    assert_eq!(done.len(), 9, "nothing is like eevdf-llc");
    assert_eq!(done.iter().map(|sample| sample.sequence).collect::<Vec<_>>(), (0..9).collect::<Vec<_>>());
    assert_eq!(plan.runs_left(&done), runs);
    for (number, run) in runs[..5].iter().enumerate() {
        let outcome = if number == 2 { Err(RunFailure::NotStarted("it failed".into())) } else { Ok(output(&[])) };
        done.push(plan.sample(*run, outcome, done.len() as u32));
    }
    assert_eq!(plan.runs_left(&done), runs[5..]);
    let failure = done[11].result.as_ref().unwrap_err();
    assert_eq!((failure.cause, failure.what.as_str()), (FailureCause::NotStarted, "it failed"));
    assert_eq!(simulated(&plan, &done[..4]), done[4..9]);
}

#[test]
fn what_is_simulated_is_measured_by_the_ruler_of_replays() {
    let plan = plan(&["standard", "long-slice"]);
    for sample in simulated(&plan, &[]) {
        let of = |name: &str| value(&sample, name);
        assert_eq!(of("migrations_per_s"), of("migrations") / 0.6);
        assert!(of("dispatches") >= of("switches") && of("wake_lates") == 0.0);
        // 30 ms end with the third tick of 4 ms after 28, and a long slice with the kernel's longest.
        let least_ms = if sample.policy == "standard" { 32.0 } else { 100.0 };
        assert!((least_ms..least_ms + 1.0).contains(&of("effective_slice_median_ms")), "{}", sample.policy);
    }
}

#[test]
fn the_kernels_own_scheduler_is_simulated_by_a_model_of_it_and_not_by_a_stand_in() {
    let mut plan = plan(&["standard", "eevdf", "eevdf-llc", "attached", "long-slice"]);
    plan.simulated = Some(simulator_parameters("6.12.3", &plan.parameters, None));
    let samples = simulated(&plan, &[]);
    assert_eq!((samples.len(), plan.samples()), (15, 30));
    let ReplayAnalysis { result, warnings, .. } = analysis(&plan, &samples);
    let simulated_by: Vec<&str> = result.policies.iter().filter_map(|policy| policy.simulated_by.as_deref()).collect();
    assert_eq!(simulated_by, ["standard", "eevdf", "eevdf-llc", "eevdf-attached", "eevdf-long-slice"]);
    assert!(result.policies.iter().all(|policy| policy.is_same_rule) && warnings.is_empty(), "{warnings:?}");
    let parameters = plan.simulated.unwrap();
    assert_eq!(parameters.kernel.unwrap().release, sim::Release::Linux6_12);
}

#[test]
fn worlds_agree_within_a_quarter_and_order_counts_where_the_simulator_sets_policies_apart() {
    let ReplayAnalysis { result, verdict, .. } =
        compared(&[("standard", 50.0, 41.0), ("light", 9.0, 10.0), ("heavy", 4.0, 9.5)]);
    let migrations = &result.agreements[0];
    assert_eq!(migrations.within, ["standard", "light"]);
    // Light and heavy are simulated alike, so that their order in the kernel says nothing.
    assert_eq!((migrations.pairs, migrations.same_order), (2, 2));
    let Agreement { metric, within, beyond, pairs, same_order } = &verdict.agreements[0];
    assert_eq!((metric, within, *pairs, *same_order), (&MIGRATIONS_PER_S, &migrations.within, 2, 2));
    let [heavy] = beyond.as_slice() else { panic!("{beyond:?}") };
    assert_eq!((heavy.policy.as_str(), heavy.kernel), ("heavy", 4.0));
    assert!((heavy.ratio.unwrap().value - 4.0 / 9.5).abs() < 1e-9);
    let turned = compared(&[("standard", 5.0, 40.0), ("light", 9.0, 10.0)]);
    let turned = &turned.result.agreements[0];
    assert_eq!((turned.pairs, turned.same_order), (1, 0));
}

#[test]
fn zeros_agree_with_zeros_and_with_nothing_else() {
    let ReplayAnalysis { result, verdict, .. } =
        compared(&[("graded", 0.0, 0.0), ("light", 3.0, 0.0), ("heavy", 0.0, 3.0), ("eevdf", 9.0, 1.0)]);
    let migrations = &result.agreements[0];
    assert_eq!(migrations.within, ["graded"]);
    let beyond: Vec<&str> = migrations.beyond.iter().map(|beyond| beyond.policy.as_str()).collect();
    assert_eq!(beyond, ["light", "heavy"], "what only stands in isn't judged");
    assert!(result.policies[0].beside(&MIGRATIONS_PER_S).unwrap().ratio.is_none());
    let beyond: Vec<_> = verdict.agreements[0].beyond.iter().map(|b| (b.kernel, b.ratio.map(|r| r.value))).collect();
    assert_eq!(beyond, [(3.0, None), (0.0, Some(0.0))]);
}

#[test]
fn modelled_misses_are_told_of_the_policies_that_have_them() {
    let plan = plan(&["standard", "light", "eevdf"]);
    let replay = |run: Run| {
        let figures: &[(&str, f64)] = match run.policy.name() {
            "standard" => &[("l2_misses_per_1000", 316.6), ("l3_misses_per_1000", 120.9)],
            "light" => &[("l2_misses_per_1000", 46.6), ("l3_misses_per_1000", 2.6)],
            _ => &[("migrations_per_s", 3.0)],
        };
        plan.sample(run, Ok(output(figures)), 0)
    };
    let samples: Vec<Sample> = plan.runs_left(&[]).into_iter().map(replay).collect();
    let verdict = analysis(&plan, &samples).verdict;
    let misses: Vec<_> = verdict
        .misses
        .iter()
        .map(|PolicyPair { policy, figures }| (policy.as_str(), figures.map(f64::round)))
        .collect();
    assert_eq!(misses, [("standard", [317.0, 121.0]), ("light", [47.0, 3.0])]);
    assert!(verdict.agreements.is_empty() && verdict.in_kernel.is_empty() && verdict.least_fair.is_none());
}

#[test]
fn failures_notes_and_stand_ins_are_told() {
    let plan = plan(&["standard", "eevdf", "eevdf-llc"]);
    let replay = |run: Run, number: usize| {
        let outcome = match number {
            0 => Err(RunFailure::ExitCode { code: 1, stderr: "no\nand more".into() }),
            _ => Ok(ReplayOutput {
                notes: vec!["3 stays were not recorded".into()],
                ..output(&[("migrations_per_s", 1.0)])
            }),
        };
        plan.sample(run, outcome, number as u32)
    };
    let runs = plan.runs_left(&[]).into_iter();
    let samples: Vec<Sample> = runs.zip(0..).map(|(run, number)| replay(run, number)).collect();
    let ReplayAnalysis { result, warnings, .. } = analysis(&plan, &samples);
    assert_eq!((result.policies[0].replays, result.policies[0].failed), (2, 1));
    assert_eq!(
        warnings,
        [
            Warning::ReplaysFailed {
                policy: "standard".into(),
                failed: 1,
                of: 3,
                first_cause: Some("exit code 1: no".into())
            },
            Warning::StandIn { policy: "eevdf".into(), simulated_by: "per-cpu".into() },
            Warning::NotSimulated { policy: "eevdf-llc".into() },
            Warning::ReplayNote { text: "3 stays were not recorded".into() },
        ]
    );
}
