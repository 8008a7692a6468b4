//! Simulations of space sharing as studies: what a replicate tells, going on after an interruption, sweeps, and the two kinds
//! of simulation in journals.

use crate::value;
use machine::Machine;
use serde_json::{Value, json};
use sim::space::{Mix, MixError, Parameters, Policy};
use sim::{Distribution, Workload, WorkloadFile};
use simulation::{Sharing, Simulation, SimulationPlan};
use study::{HostFacts, Journal, Kind, Record, Sample};

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
    Simulation::from(Sharing::Space { mix: mix(name), parameters })
}

fn simulated(plan: &SimulationPlan, done: &[Sample]) -> Vec<Sample> {
    crate::simulated(plan, &machine(), done)
}

/// Whether two sums of the same times in another order are the same.
fn same(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

#[test]
fn a_replicate_under_a_policy_is_a_sample_and_equipartition_is_the_reference() {
    let plan = SimulationPlan::new(["MVA", "2*MATRIX"].map(|name| simulation(name, 2)).to_vec(), &POLICIES, &machine());
    plan.check().unwrap();
    assert_eq!((plan.policies[0].as_str(), plan.cpus), ("equipartition", 4));
    let samples = simulated(&plan, &[]);
    let order: Vec<(u32, &str, &str)> =
        samples.iter().map(|sample| (sample.replicate, sample.subject.as_str(), sample.policy.as_str())).collect();
    let replicate = |replicate: u32| {
        ["MVA", "2*MATRIX"].into_iter().flat_map(move |mix| {
            ["equipartition", "dynamic", "dynamic-affinity"].into_iter().map(move |policy| (replicate, mix, policy))
        })
    };
    assert_eq!(order, replicate(0).chain(replicate(1)).collect::<Vec<_>>());
    for sample in &samples {
        assert_eq!(sample.measurements().unwrap().makespan_s, value(sample, "makespan_ms") / 1e3);
    }
}

#[test]
fn cpu_time_that_jobs_had_is_accounted_for() {
    let plan = SimulationPlan::new(vec![simulation("MVA+MATRIX+GRAVITY", 3)], &Policy::ALL, &machine());
    let samples = simulated(&plan, &[]);
    assert_eq!(samples.len(), 3 * Policy::ALL.len());
    const TIMES: [&str; 4] = ["work_ms", "idle_held_ms", "switch_ms", "reload_ms"];
    const SUMS: [&str; 5] = ["moves", "moves_voluntary", "moves_forced", "moves_within", "misses"];
    for sample in &samples {
        let seen = |name: &str| value(sample, name);
        let kinds = ["MVA", "MATRIX", "GRAVITY"];
        let mut held_ms = 0.0;
        for kind in kinds {
            // One job of each kind, so that means are its own.
            let own = |name: &str| seen(&format!("{name}:{kind}"));
            let accounted: f64 = TIMES.iter().map(|name| own(name)).sum();
            let held = own("response_ms") * own("allocation_mean_cpus");
            assert!(same(accounted, held), "{kind} under {}: {accounted} of {held} ms", sample.policy);
            assert!(same(own("idle_held_fraction"), own("idle_held_ms") / held));
            held_ms += held;
        }
        assert!(held_ms <= 4.0 * seen("makespan_ms") * (1.0 + 1e-9), "no more than there is");
        for name in TIMES.iter().chain(&SUMS) {
            let parts: f64 = kinds.iter().map(|kind| seen(&format!("{name}:{kind}"))).sum();
            assert!(same(parts, seen(name)), "{name}: {parts} of {}", seen(name));
        }
        assert!(seen("moves") > 0.0 && seen("switch_ms") > 0.0, "{}", sample.policy);
        let causes: f64 = SUMS[1..4].iter().map(|name| seen(name)).sum();
        assert!(same(causes, seen("moves")), "every move has a cause");
        let responses: f64 = kinds.iter().map(|kind| seen(&format!("response_ms:{kind}"))).sum();
        assert!(same(responses / 3.0, seen("response_ms")), "the whole is the mean over jobs");
    }
    assert!(samples.iter().any(|sample| value(sample, "reload_ms") > 0.0), "somebody lost cached lines");
}

#[test]
fn an_interrupted_simulation_goes_on_as_if_it_had_not_been_on_any_number_of_threads() {
    let points = [1.0, 100.0].map(|factor| simulation("MVA+GRAVITY", 3).at("future", factor).unwrap()).to_vec();
    let plan = SimulationPlan::new(points, &POLICIES, &machine());
    let on = |threads: usize, done: &[Sample]| {
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
    let plan = SimulationPlan::new(vec![simulation("2*MVA+MATRIX", 2)], &POLICIES, &machine());
    let whole = simulated(&plan, &[]);
    let mut journal = Journal::open(&path).unwrap();
    journal.begin_study(&plan, &serde_json::to_value(machine()).unwrap(), &HostFacts::of_model()).unwrap();
    whole[..2].iter().for_each(|sample| journal.add(sample).unwrap());
    journal.close().unwrap();
    let done = Journal::<SimulationPlan>::read(&path).unwrap().trials;
    let mut journal = Journal::<SimulationPlan>::open(&path).unwrap();
    simulated(&plan, &done)[2..].iter().for_each(|sample| journal.add(sample).unwrap());
    journal.close().unwrap();
    let record: Record<SimulationPlan> = Journal::read(&path).unwrap();
    assert_eq!(record.plan, plan);
    assert!(record.trials == whole, "the same samples, read back");
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
        SimulationPlan::new(simulations, policies, &machine()).check().unwrap_err().to_string()
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
