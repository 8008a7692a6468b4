//! Simulations as studies: their journal, going on after an interruption, and what is concluded from their trials.

use machine::Machine;
use rusqlite::Connection;
use sim::{Policy, WorkloadFile};
use std::path::Path;
use study::simulation::{Direction, PolicyChanges, Simulation, SimulationError, SimulationVerdict, simulate};
use study::{Analysis, Ending, HostFacts, Journal, Plan, Record, Trial, Verdict, Warning, analyse};

const POLICIES: [Policy; 3] = [Policy::Light, Policy::Standard, Policy::Attached];

fn machine() -> Machine {
    Machine::named("sgi-4d340").unwrap()
}

/// Twice four processes of Matrix with half a second of work each, so that tests are short.
fn simulation(replicates: u32) -> Simulation {
    let WorkloadFile { mut workload, mut parameters, .. } = WorkloadFile::named("Matrix+Matrix").unwrap();
    for job in &mut workload.jobs {
        job.processes = 4;
        job.process.work_ms = Some(sim::Distribution::Constant(500.0));
    }
    parameters.replicates = replicates;
    Simulation::new(workload, parameters)
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

fn record(plan: Plan) -> Record {
    let trials = simulated(&plan, &[]);
    Record {
        plan,
        machine: serde_json::to_value(machine()).unwrap(),
        host: HostFacts::of_model(),
        sessions: Vec::new(),
        trials,
        ending: Some(Ending::Finished),
    }
}

#[test]
fn a_replicate_under_a_policy_is_a_trial_and_standard_is_the_reference() {
    let plan = Plan::of_simulations(vec![simulation(2)], &POLICIES, &machine());
    plan.check().unwrap();
    assert_eq!(plan.reference().name, "standard");
    let trials = simulated(&plan, &[]);
    let order: Vec<(u32, u32, &str)> =
        trials.iter().map(|trial| (trial.sequence, trial.block, trial.placement.as_str())).collect();
    assert_eq!(
        order,
        [
            (0, 0, "standard"),
            (1, 0, "light"),
            (2, 0, "attached"),
            (3, 1, "standard"),
            (4, 1, "light"),
            (5, 1, "attached")
        ]
    );
    for trial in &trials {
        let seen = trial.observation.as_ref().unwrap();
        assert_eq!((trial.subject.as_str(), trial.threads), ("Matrix+Matrix", 4));
        assert_eq!(trial.time_s, Some(seen.metrics["makespan_ms"] / 1e3));
        let causes = ["misses_reload", "misses_steady", "misses_invalidation"].map(|cause| seen.metrics[cause]);
        assert!((seen.metrics["misses"] - causes.iter().sum::<f64>()).abs() < 1e-6);
        assert!((seen.metrics["work_ms"] - 4_000.0).abs() < 1e-3, "eight processes with 500 ms each");
        let slices: u64 = seen.histograms["effective_slice_ms"].iter().map(|(_, count)| count).sum();
        assert_eq!(slices as f64, seen.metrics["effective_slices"]);
    }
}

#[test]
fn an_interrupted_simulation_goes_on_as_if_it_had_not_been() {
    let points = [0.0, 6.0].map(|phi| simulation(3).at("phi", phi).unwrap()).to_vec();
    let plan = Plan::of_simulations(points, &[Policy::Standard, Policy::Affinity], &machine());
    let whole = simulated(&plan, &[]);
    assert_eq!(whole.len(), 12);
    for cut in [0, 1, 5, 12] {
        // Not `assert_eq`, which would print them all.
        assert!(simulated(&plan, &whole[..cut]) == whole, "cut off after {cut}");
    }
}

#[test]
fn a_journal_gives_a_simulation_back_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.stayput");
    let plan = Plan::of_simulations(vec![simulation(2)], &POLICIES, &machine());
    let trials = simulated(&plan, &[]);
    let mut journal = Journal::open(&path).unwrap();
    journal.begin_study(&plan, &serde_json::to_value(machine()).unwrap(), &HostFacts::of_model()).unwrap();
    trials.iter().for_each(|trial| journal.add(trial).unwrap());
    journal.close().unwrap();
    let record = Journal::read(&path).unwrap();
    assert_eq!((record.plan, record.trials), (plan, trials));
}

/// Makes of a journal one of version 1, which had no metrics and no histograms.
fn made_older(path: &Path) {
    let connection = Connection::open(path).unwrap();
    connection
        .execute_batch(
            "ALTER TABLE trial DROP COLUMN metrics; ALTER TABLE trial DROP COLUMN histograms; PRAGMA user_version = 1;",
        )
        .unwrap();
}

#[test]
fn a_journal_of_version_1_is_read_and_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.stayput");
    let plan = crate::model::plan(1, &["compact"]);
    let [first, second] = [0, 1].map(|sequence| Trial {
        sequence,
        block: sequence,
        subject: "subject 0".into(),
        placement: "compact".into(),
        observation: Some(crate::model::observation(1.5)),
        ..simulated(&Plan::of_simulations(vec![simulation(1)], &[Policy::Standard], &machine()), &[]).remove(0)
    });
    let mut journal = Journal::open(&path).unwrap();
    journal.begin_study(&plan, &serde_json::json!({}), &HostFacts::default()).unwrap();
    journal.add(&first).unwrap();
    journal.close().unwrap();
    made_older(&path);
    assert_eq!(Journal::read(&path).unwrap().trials, std::slice::from_ref(&first), "read as it is");
    let mut journal = Journal::open(&path).unwrap();
    journal.add(&second).unwrap();
    journal.close().unwrap();
    assert_eq!(Journal::read(&path).unwrap().trials, [first, second]);
}

/// How many replicates were compared, and what each policy changes.
fn compared(analysis: &Analysis) -> (u32, &[PolicyChanges]) {
    match analysis.verdicts.as_slice() {
        [Verdict::Simulation(SimulationVerdict::Compared { subject, replicates, policies })] => {
            assert_eq!(subject, "Matrix+Matrix");
            (*replicates, policies)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn changes_are_told_against_standard_with_their_intervals() {
    let record = record(Plan::of_simulations(vec![simulation(6)], &POLICIES, &machine()));
    let analysis = analyse(&record);
    let [point] = analysis.simulated.as_slice() else { panic!("one point") };
    let [standard, light, attached] = point.policies.as_slice() else { panic!("three policies") };
    assert!(standard.changes.is_empty() && standard.replicates == 6);
    let ratio = |block: u32| {
        let misses = |policy: &str| {
            let of = |trial: &&Trial| trial.block == block && trial.placement == policy;
            record.trials.iter().find(of).unwrap().observation.as_ref().unwrap().metrics["misses"]
        };
        misses("light") / misses("standard")
    };
    let geometric = (0..6).map(|block| ratio(block).ln()).sum::<f64>() / 6.0;
    let change = light.changes["misses"];
    assert!((change.value - 100.0 * geometric.exp_m1()).abs() < 1e-9);
    assert!(change.low.unwrap() <= change.value && change.value <= change.high.unwrap());
    assert!(attached.estimates["migrations"].value == 0.0 && !attached.changes.contains_key("migrations"));
    let percent: f64 = standard.slices.iter().map(|bin| bin.percent).sum();
    assert!((percent - 100.0).abs() < 1e-9, "standard's slices are the whole");
    let fewer: f64 = light.slices.iter().map(|bin| bin.percent).sum();
    let slices = |policy: &study::simulation::PolicyResult| policy.estimates["effective_slices"].value;
    assert!((fewer - 100.0 * slices(light) / slices(standard)).abs() < 1e-6, "light's are told in standard's number");
    let (replicates, policies) = compared(&analysis);
    let [of_light, of_attached] = policies else { panic!("{policies:?}") };
    assert_eq!((replicates, of_light.policy.as_str(), of_attached.policy.as_str()), (6, "light", "attached"));
    let misses = of_light.misses.unwrap();
    assert_eq!((misses.direction, misses.percent), (Direction::Down, change));
    assert_eq!(analysis.warnings, []);
}

#[test]
fn nothing_is_claimed_without_standard_or_with_one_replicate() {
    let alone = analyse(&record(Plan::of_simulations(vec![simulation(2)], &[Policy::Light], &machine())));
    assert!(alone.simulated[0].policies[0].changes.is_empty());
    assert_eq!(alone.warnings, [Warning::NothingCompared { reference: "standard".into() }]);
    assert!(
        matches!(alone.verdicts.as_slice(), [Verdict::Simulation(SimulationVerdict::Uncompared { policies, .. })]
            if policies.len() == 1 && policies[0].makespan_ms.is_some()),
        "{:?}",
        alone.verdicts
    );
    let once = analyse(&record(Plan::of_simulations(vec![simulation(1)], &POLICIES, &machine())));
    assert_eq!(once.simulated[0].policies[1].changes["misses"].low, None);
    assert_eq!(compared(&once).0, 1);
}

#[test]
fn a_sweep_sets_what_it_says_and_refuses_what_is_not_there() {
    let base = simulation(1);
    let phi = base.at("phi", 9.0).unwrap();
    let parameters = |simulation: &Simulation| simulation.sharing.parameters();
    assert_eq!((&parameters(&phi)["phi_p"], &parameters(&phi)["phi_t"]), (&9.into(), &9.into()));
    assert_eq!(parameters(&base.at("quantum_ms", 7.5).unwrap())["quantum_ms"], 7.5);
    assert_eq!(parameters(&base.at("caches", 4.0).unwrap()), parameters(&base));
    let told = |parameter: &str, value: f64| base.at(parameter, value).unwrap_err().to_string();
    assert!(told("phy", 1.0).starts_with("there is no parameter `phy` to sweep; there are "));
    assert!(told("seed", 1.0).starts_with("there is no parameter `seed`"), "a sweep of draws is no sweep");
    assert!(told("phi_p", 1.5).starts_with("`phi_p` can't be 1.5: "));
    assert!(told("quantum_ms", 0.0).starts_with("`quantum_ms` can't be 0: "));
    assert!(told("caches", 0.0).starts_with("`caches` can't be 0: "));
}

#[test]
fn larger_caches_lose_less() {
    let points = [1.0, 4.0].map(|factor| simulation(2).at("caches", factor).unwrap()).to_vec();
    let analysis = analyse(&record(Plan::of_simulations(points, &[Policy::Standard], &machine())));
    let reload = |point: usize| analysis.simulated[point].policies[0].estimates["misses_reload"].value;
    assert!(reload(1) < reload(0), "{} against {}", reload(1), reload(0));
}
