//! Simulations of space sharing as studies: what a replicate tells, going on after an interruption, sweeps, and the two kinds
//! of simulation in journals.

use machine::Machine;
use serde_json::{Value, json};
use sim::space::{Mix, MixError, Parameters, Policy};
use sim::{Distribution, Workload, WorkloadFile};
use std::collections::BTreeMap;
use study::simulation::{Sharing, Simulation, SimulationError, simulate};
use study::{HostFacts, Journal, Plan, Trial};

const POLICIES: [Policy; 3] = [Policy::Dynamic, Policy::Equipartition, Policy::DynamicAffinity];

/// Four cores in two packages.
fn machine() -> Machine {
    Machine::named("pack:2 l3:1 core:2 pu:1").unwrap()
}

/// The mix of that name, with no more than a tenth of the tasks of its jobs, so that tests are short.
fn mix(name: &str) -> Mix {
    let mut mix = Mix::named(name, |file| Err(MixError::Unknown(file.into()))).unwrap();
    for kind in &mut mix.kinds {
        kind.graph.rounds = kind.graph.rounds.min(1);
        for stage in &mut kind.graph.stages {
            stage.tasks = match &stage.tasks {
                sim::space::Tasks::Wavefront { .. } => sim::space::Tasks::Wavefront { rows: 8, columns: 8 },
                sim::space::Tasks::Independent(tasks) => sim::space::Tasks::Independent(tasks.div_ceil(10)),
                listed @ sim::space::Tasks::Listed(_) => listed.clone(),
            };
        }
    }
    mix
}

fn simulation(name: &str, replicates: u32) -> Simulation {
    let parameters = Parameters { gap_ms: Some(Distribution::Exponential(0.5)), replicates, ..Parameters::default() };
    Simulation::of(Sharing::Space { mix: mix(name), parameters })
}

fn simulated(plan: &Plan, done: &[Trial]) -> Vec<Trial> {
    let mut trials = done.to_vec();
    simulate(plan, &machine(), done, &mut |trial: Trial| -> Result<(), SimulationError> {
        trials.push(trial);
        Ok(())
    })
    .unwrap();
    trials
}

fn metrics(trial: &Trial) -> &BTreeMap<String, f64> {
    &trial.observation.as_ref().unwrap().metrics
}

/// Whether two sums of the same times in another order are the same.
fn same(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

#[test]
fn a_replicate_under_a_policy_is_a_trial_and_equipartition_is_the_reference() {
    let plan =
        Plan::of_simulations(["MVA", "2*MATRIX"].map(|name| simulation(name, 2)).to_vec(), &POLICIES, &machine());
    plan.check().unwrap();
    assert_eq!(plan.reference().name, "equipartition");
    let trials = simulated(&plan, &[]);
    let order: Vec<(u32, &str, &str)> =
        trials.iter().map(|trial| (trial.block, trial.subject.as_str(), trial.placement.as_str())).collect();
    let replicate = |block: u32| {
        ["MVA", "2*MATRIX"].into_iter().flat_map(move |mix| {
            ["equipartition", "dynamic", "dynamic-affinity"].into_iter().map(move |policy| (block, mix, policy))
        })
    };
    assert_eq!(order, replicate(0).chain(replicate(1)).collect::<Vec<_>>());
    for trial in &trials {
        assert_eq!((trial.threads, trial.time_s), (4, Some(metrics(trial)["makespan_ms"] / 1e3)));
    }
}

#[test]
fn cpu_time_that_jobs_had_is_accounted_for() {
    let plan = Plan::of_simulations(vec![simulation("MVA+MATRIX+GRAVITY", 3)], &Policy::ALL, &machine());
    let trials = simulated(&plan, &[]);
    assert_eq!(trials.len(), 3 * Policy::ALL.len());
    const TIMES: [&str; 4] = ["work_ms", "idle_held_ms", "switch_ms", "reload_ms"];
    const SUMS: [&str; 5] = ["moves", "moves_voluntary", "moves_forced", "moves_within", "misses"];
    for trial in &trials {
        let seen = metrics(trial);
        let kinds = ["MVA", "MATRIX", "GRAVITY"];
        let mut held_ms = 0.0;
        for kind in kinds {
            // One job of each kind, so that means are its own.
            let own = |name: &str| seen[&format!("{name}:{kind}")];
            let accounted: f64 = TIMES.iter().map(|name| own(name)).sum();
            let held = own("response_ms") * own("allocation_mean_cpus");
            assert!(same(accounted, held), "{kind} under {}: {accounted} of {held} ms", trial.placement);
            assert!(same(own("idle_held_fraction"), own("idle_held_ms") / held));
            held_ms += held;
        }
        assert!(held_ms <= 4.0 * seen["makespan_ms"] * (1.0 + 1e-9), "no more than there is");
        for name in TIMES.iter().chain(&SUMS) {
            let parts: f64 = kinds.iter().map(|kind| seen[&format!("{name}:{kind}")]).sum();
            assert!(same(parts, seen[*name]), "{name}: {parts} of {}", seen[*name]);
        }
        assert!(seen["moves"] > 0.0 && seen["switch_ms"] > 0.0, "{}", trial.placement);
        let causes: f64 = SUMS[1..4].iter().map(|name| seen[*name]).sum();
        assert!(same(causes, seen["moves"]), "every move has a cause");
        let responses: f64 = kinds.iter().map(|kind| seen[&format!("response_ms:{kind}")]).sum();
        assert!(same(responses / 3.0, seen["response_ms"]), "the whole is the mean over jobs");
        let observation = trial.observation.as_ref().unwrap();
        assert_eq!(
            (observation.voluntary_switches + observation.involuntary_switches) as f64,
            seen["moves"],
            "switches are moves"
        );
        assert!(same(
            observation.user_s,
            (TIMES.iter().map(|name| seen[*name]).sum::<f64>() - seen["idle_held_ms"]) / 1e3
        ));
    }
    assert!(trials.iter().any(|trial| metrics(trial)["reload_ms"] > 0.0), "somebody lost cached lines");
}

#[test]
fn an_interrupted_simulation_goes_on_as_if_it_had_not_been_on_any_number_of_threads() {
    let points = [1.0, 100.0].map(|factor| simulation("MVA+GRAVITY", 3).at("future", factor).unwrap()).to_vec();
    let plan = Plan::of_simulations(points, &POLICIES, &machine());
    let on = |threads: usize, done: &[Trial]| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| simulated(&plan, done))
    };
    let whole = on(1, &[]);
    assert_eq!(whole.len(), 2 * 3 * 3);
    for (threads, cut) in [(3, 0), (2, 1), (1, 7), (3, 18)] {
        // Not `assert_eq`, which would print them all.
        assert!(on(threads, &whole[..cut]) == whole, "cut off after {cut}, then on {threads} threads");
    }
}

#[test]
fn a_journal_gives_space_sharing_back_as_it_was_and_goes_on_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.stayput");
    let plan = Plan::of_simulations(vec![simulation("2*MVA+MATRIX", 2)], &POLICIES, &machine());
    let whole = simulated(&plan, &[]);
    let mut journal = Journal::open(&path).unwrap();
    journal.begin_study(&plan, &serde_json::to_value(machine()).unwrap(), &HostFacts::of_model()).unwrap();
    whole[..2].iter().for_each(|trial| journal.add(trial).unwrap());
    journal.close().unwrap();
    let done = Journal::read(&path).unwrap().trials;
    let mut journal = Journal::open(&path).unwrap();
    simulated(&plan, &done)[2..].iter().for_each(|trial| journal.add(trial).unwrap());
    journal.close().unwrap();
    let record = Journal::read(&path).unwrap();
    assert_eq!(record.plan, plan);
    assert!(record.trials == whole, "the same trials, read back");
}

#[test]
fn the_future_is_faster_larger_and_its_memory_lags() {
    let base = simulation("MVA", 1);
    let there = base.at("future", 16.0).unwrap();
    let Sharing::Space { parameters, mix } = &there.sharing else { panic!("{:?}", there.sharing) };
    assert_eq!((parameters.speed, parameters.data), (4.0, 4.0));
    assert_eq!((there.cache_factor, there.cache_speed_factor, there.memory_speed_factor), (4.0, 4.0, 2.0));
    assert_eq!(there.point.as_ref().map(|point| (point.parameter.as_str(), point.value)), Some(("future", 16.0)));
    let Sharing::Space { parameters: before, mix: same } = &base.sharing else { panic!("{:?}", base.sharing) };
    assert_eq!(
        (parameters.switch_us, parameters.gap_ms.as_ref(), mix),
        (before.switch_us, before.gap_ms.as_ref(), same)
    );
    assert_eq!(base.at("future", 1.0).unwrap().sharing, base.sharing, "a factor of 1 changes nothing");

    assert_eq!(base.at("memory", 3.0).unwrap().memory_speed_factor, 3.0);
    let caches = base.at("caches", 3.0).unwrap();
    assert_eq!((caches.cache_factor, caches.cache_speed_factor), (3.0, 1.0), "larger, and no faster");
    assert_eq!(base.at("history", 5.0).unwrap().sharing.parameters()["history"], 5);
    assert_eq!(base.at("speed", 0.5).unwrap().sharing.parameters()["speed"], 0.5);

    let told = |parameter: &str, value: f64| base.at(parameter, value).unwrap_err().to_string();
    for parameter in ["future", "caches", "memory"] {
        assert_eq!(
            told(parameter, 0.0),
            format!("`{parameter}` can't be 0: it must be a factor from 0.000001 to 1000000")
        );
    }
    assert!(told("speed", 0.0).starts_with("`speed` can't be 0: "), "{}", told("speed", 0.0));
    assert!(told("history", 9.0).starts_with("`history` can't be 9: "), "{}", told("history", 9.0));
    assert!(told("history", 2.5).starts_with("`history` can't be 2.5: "), "{}", told("history", 2.5));
    let unknown = told("phi", 1.0);
    assert!(unknown.starts_with("there is no parameter `phi` to sweep; there are "), "{unknown}");
    assert!(unknown.contains("future, caches, memory") && !unknown.contains("seed"), "{unknown}");
}

/// Processes that take turns.
fn time_sharing() -> Simulation {
    let WorkloadFile { workload, parameters, .. } = WorkloadFile::named("Matrix+Matrix").unwrap();
    Simulation::new(Workload { name: "turns".into(), ..workload }, parameters)
}

#[test]
fn policies_of_the_other_sharing_are_refused() {
    let told = |simulations: Vec<Simulation>, policies: &[&str]| {
        Plan::of_simulations(simulations, policies, &machine()).check().unwrap_err().to_string()
    };
    let space = "is no space-sharing policy: name equipartition, dynamic, dynamic-affinity, dynamic-affinity-delay, dynamic-affinity-no-priority";
    assert!(told(vec![simulation("MVA", 1)], &["dynamic", "light"]).ends_with(&format!("`light` {space}")));
    let refused = told(vec![time_sharing()], &["standard", "dynamic"]);
    assert!(refused.contains("`dynamic` is no time-sharing policy: name "), "{refused}");
    let both = told(vec![time_sharing(), simulation("MVA", 1)], &["standard"]);
    assert!(both.ends_with(&format!("`standard` {space}")), "{both}");
}

#[test]
fn both_kinds_of_simulation_are_the_same_again_from_their_json() {
    let read = |text: Value| serde_json::from_value::<Simulation>(text).unwrap();
    for simulation in [
        time_sharing(),
        time_sharing().at("phi", 6.0).unwrap(),
        simulation("2*MVA+GRAVITY", 3),
        simulation("MVA", 3).at("future", 4.0).unwrap(),
    ] {
        assert_eq!(read(serde_json::to_value(&simulation).unwrap()), simulation);
    }
}

#[test]
fn time_sharing_is_written_as_before_there_was_space_sharing() {
    let text = serde_json::to_value(time_sharing()).unwrap();
    let keys: Vec<&String> = text.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["parameters", "workload"], "nothing that an older version wouldn't know");
    let Sharing::Time { workload, parameters } = time_sharing().sharing else { panic!("it shares time") };
    let older = json!({
        "workload": workload,
        "parameters": parameters,
        "cache_factor": 2.0,
        "point": { "parameter": "caches", "value": 2.0 },
    });
    assert_eq!(serde_json::from_value::<Simulation>(older).unwrap(), time_sharing().at("caches", 2.0).unwrap());
}
