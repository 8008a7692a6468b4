//! Simulations as studies: their journal, going on after an interruption, and what is concluded from their trials.

use crate::{ended, value};
use machine::Machine;
use sim::{Policy, Release, WorkloadFile};
use simulation::metrics::{MAKESPAN, MIGRATIONS, MISSES, SLICES};
use simulation::verdict::PolicyChanges;
use simulation::{
    Direction, PolicyResult, Simulation, SimulationAnalysis, SimulationPlan, SimulationVerdict, TimeSharingVerdict,
    simulation_analysis as analyse,
};
use stats::Metric;
use study::{HostFacts, Journal, Kind, Record, Sample, Warning};

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

fn simulated(plan: &SimulationPlan, done: &[Sample]) -> Vec<Sample> {
    crate::simulated(plan, &machine(), done)
}

fn record(plan: &SimulationPlan) -> Record<SimulationPlan> {
    ended(plan, &machine(), &simulated(plan, &[]))
}

#[test]
fn a_plan_may_compare_with_another_policy_and_the_pairs_are_the_same() {
    let policies = [Policy::Standard, Policy::Light, Policy::Eevdf];
    let usual = SimulationPlan::new(vec![simulation(3)], &policies, &machine());
    assert_eq!((usual.reference(), usual.reference_kernel()), (Some("standard"), None));
    let plan = usual.clone().compared_with("eevdf");
    plan.check().unwrap();
    assert_eq!(plan.policies, ["eevdf", "light", "standard"]);
    assert_eq!((plan.reference(), plan.reference_kernel()), (Some("eevdf"), Some(Release::default())));
    let kept: SimulationPlan = serde_json::from_value(serde_json::to_value(&plan).unwrap()).unwrap();
    assert_eq!(kept, plan);
    assert!(serde_json::to_value(&usual).unwrap().get("reference").is_none(), "older journals go on");
    let analysis = analyse(&record(&plan));
    let Some(SimulationVerdict::TimeSharing(TimeSharingVerdict::Compared { kernel, policies, .. })) = &analysis.verdict
    else {
        panic!("{:?}", analysis.verdict)
    };
    assert_eq!(*kernel, Some(Release::default()));
    assert_eq!(policies.iter().map(|changes| changes.policy.as_str()).collect::<Vec<_>>(), ["light", "standard"]);
    // Either way the same pairs: what standard is to eevdf, eevdf is to standard.
    let other = analyse(&record(&usual));
    let ratio = |analysis: &SimulationAnalysis, policy: &str| {
        1.0 + analysis.points[0].policy(policy).unwrap().changes[&MAKESPAN].value / 100.0
    };
    assert!((ratio(&analysis, "standard") * ratio(&other, "eevdf") - 1.0).abs() < 1e-9);
    assert!(analysis.points[0].policy("eevdf").unwrap().changes.is_empty());
    let lacking = SimulationPlan::new(vec![simulation(3)], &[Policy::Light], &machine()).compared_with("eevdf");
    let refused = lacking.check().unwrap_err().to_string();
    assert!(refused.contains("policy `eevdf`, with which others are compared, isn't in it"), "{refused}");
}

#[test]
fn a_replicate_under_a_policy_is_a_sample_and_standard_is_the_reference() {
    let plan = SimulationPlan::new(vec![simulation(2)], &POLICIES, &machine());
    plan.check().unwrap();
    assert_eq!((plan.policies[0].as_str(), plan.cpus), ("standard", 4));
    let samples = simulated(&plan, &[]);
    let order: Vec<(u32, u32, &str)> =
        samples.iter().map(|sample| (sample.sequence, sample.replicate, sample.policy.as_str())).collect();
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
    for sample in &samples {
        let measured = sample.measurements().unwrap();
        assert_eq!(sample.subject, "Matrix+Matrix");
        assert_eq!(Some(measured.makespan_s), sample.value(&MAKESPAN).map(|ms| ms / 1e3));
        let causes = ["misses_reload", "misses_steady", "misses_invalidation"].map(|cause| value(sample, cause));
        assert!((sample.value(&MISSES).unwrap() - causes.iter().sum::<f64>()).abs() < 1e-6);
        assert!((value(sample, "work_ms") - 4_000.0).abs() < 1e-3, "eight processes with 500 ms each");
        let slices: u64 = measured.histograms[&SLICES].iter().map(|(_, count)| count).sum();
        assert_eq!(slices as f64, value(sample, "effective_slices"));
    }
}

#[test]
fn an_interrupted_simulation_goes_on_as_if_it_had_not_been() {
    let points = [0.0, 6.0].map(|phi| simulation(3).at("phi", phi).unwrap()).to_vec();
    let plan = SimulationPlan::new(points, &[Policy::Standard, Policy::Affinity], &machine());
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
    let plan = SimulationPlan::new(vec![simulation(2)], &POLICIES, &machine());
    let samples = simulated(&plan, &[]);
    let mut journal = Journal::open(&path).unwrap();
    journal.begin_study(&plan, &serde_json::to_value(machine()).unwrap(), &HostFacts::of_model()).unwrap();
    samples.iter().for_each(|sample| journal.add(sample).unwrap());
    journal.close().unwrap();
    let record = Journal::read(&path).unwrap();
    assert_eq!((record.plan, record.trials), (plan, samples));
}

/// How many replicates were compared, and what each policy changes.
fn compared(analysis: &SimulationAnalysis) -> (u32, &[PolicyChanges]) {
    match &analysis.verdict {
        Some(SimulationVerdict::TimeSharing(TimeSharingVerdict::Compared {
            subject,
            replicates,
            kernel: None,
            policies,
        })) => {
            assert_eq!(subject, "Matrix+Matrix");
            (*replicates, policies)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn changes_are_told_against_standard_with_their_intervals() {
    let record = record(&SimulationPlan::new(vec![simulation(6)], &POLICIES, &machine()));
    let analysis = analyse(&record);
    let [point] = analysis.points.as_slice() else { panic!("one point") };
    let [standard, light, attached] = point.policies.as_slice() else { panic!("three policies") };
    assert!(standard.changes.is_empty() && standard.replicates == 6);
    let ratio = |replicate: u32| {
        let misses = |policy: &str| {
            let is_it = |sample: &&Sample| sample.replicate == replicate && sample.policy == policy;
            record.trials.iter().find(is_it).unwrap().value(&MISSES).unwrap()
        };
        misses("light") / misses("standard")
    };
    let geometric = (0..6).map(|replicate| ratio(replicate).ln()).sum::<f64>() / 6.0;
    let change = light.changes[&MISSES];
    assert!((change.value - 100.0 * geometric.exp_m1()).abs() < 1e-9);
    assert!(change.low.unwrap() <= change.value && change.value <= change.high.unwrap());
    assert!(attached.value(&MIGRATIONS) == Some(0.0) && !attached.changes.contains_key(&MIGRATIONS));
    let percent: f64 = standard.slices.iter().map(|bin| bin.percent).sum();
    assert!((percent - 100.0).abs() < 1e-9, "standard's slices are the whole");
    let fewer: f64 = light.slices.iter().map(|bin| bin.percent).sum();
    let slices = |policy: &PolicyResult| policy.value(&Metric::from_name("effective_slices")).unwrap();
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
    let alone = analyse(&record(&SimulationPlan::new(vec![simulation(2)], &[Policy::Light], &machine())));
    assert!(alone.points[0].policies[0].changes.is_empty());
    assert_eq!(alone.warnings, [Warning::NothingCompared { reference: "standard".into() }]);
    assert!(
        matches!(&alone.verdict, Some(SimulationVerdict::TimeSharing(TimeSharingVerdict::Uncompared { policies, .. }))
            if policies.len() == 1 && policies[0].makespan_ms.is_some()),
        "{:?}",
        alone.verdict
    );
    let once = analyse(&record(&SimulationPlan::new(vec![simulation(1)], &POLICIES, &machine())));
    assert_eq!(once.points[0].policies[1].changes[&MISSES].low, None);
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
    let analysis = analyse(&record(&SimulationPlan::new(points, &[Policy::Standard], &machine())));
    let reload = |point: usize| analysis.points[point].policies[0].value(&Metric::from_name("misses_reload")).unwrap();
    assert!(reload(1) < reload(0), "{} against {}", reload(1), reload(0));
}
