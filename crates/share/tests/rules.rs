//! The allocator of jobs that run follows the report's rules, and obeys the laws that the simulator obeys: by the decisions that it writes
//! down, in 400 mixes of jobs that arrive, change their minds and leave.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod oracle;

use proptest::prelude::*;
use share::{Allocation, Decision, Heading, Step};
use sim::space::Policy;

/// What a job does next: it wants so many CPUs, or leaves.
#[derive(Clone, Debug)]
enum Act {
    Arrive(u32),
    Want(u32, u32),
    Depart(u32),
}

fn acts() -> impl Strategy<Value = Vec<(u64, Act)>> {
    let act = prop_oneof![
        3 => (0..12_u32).prop_map(Act::Arrive),
        8 => (0..12_u32, 1..14_u32).prop_map(|(job, cpus)| Act::Want(job, cpus)),
        1 => (0..12_u32).prop_map(Act::Depart),
    ];
    prop::collection::vec((0..1_000_u64, act), 1..120)
}

/// What a play of these acts writes down, and the time for which each job had CPUs.
fn written(policy: Policy, cpus: u32, history: u32, seed: u64, acts: &[(u64, Act)]) -> (String, Vec<u64>) {
    const JOBS: u32 = 12;
    let heading = Heading {
        play: 0,
        policy,
        cpus: (0..cpus).collect(),
        jobs: (0..JOBS).map(|job| job.to_string()).collect(),
        history,
        seed,
    };
    let mut allocation = Allocation::new(policy, cpus, JOBS, history, seed);
    let mut lines = serde_json::to_string(&heading).unwrap();
    let (mut at_ns, mut present, mut was) = (0, [false; JOBS as usize], [false; JOBS as usize]);
    let mut held_ns = vec![0_u64; JOBS as usize];
    for (later_ns, act) in acts {
        for job in 0..JOBS {
            held_ns[job as usize] += allocation.cpus_of(job).len() as u64 * later_ns;
        }
        at_ns += later_ns;
        let (step, events) = match *act {
            Act::Arrive(job) if !was[job as usize] => {
                (present[job as usize], was[job as usize]) = (true, true);
                (Step::Arrive { job, wanted: 1 }, allocation.arrive(at_ns, job, 1))
            }
            Act::Want(job, wanted) if present[job as usize] => {
                let events = allocation.want(at_ns, job, wanted);
                (Step::Want { job, wanted: allocation.wanted(job), said: Some(wanted) }, events)
            }
            Act::Depart(job) if present[job as usize] => {
                present[job as usize] = false;
                (Step::Depart { job }, allocation.depart(at_ns, job))
            }
            _ => continue,
        };
        let decision = Decision::new(at_ns, step, &events);
        lines = format!("{lines}\n{}", serde_json::to_string(&decision).unwrap());
    }
    (lines, held_ns)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    /// Decisions are those that the rules allow; shares that are equal change with arrivals and departures alone; no CPU that is
    /// wanted is idle; a job that has a CPU has one to its end; the times for which jobs had CPUs add up.
    #[test]
    fn what_is_written_down_follows_the_report_s_rules(
        acts in acts(), cpus in 1..12_u32, history in 1..5_u32, seed in 0..1_000_u64,
        policy in prop::sample::select(vec![
            Policy::Equipartition, Policy::Dynamic, Policy::DynamicAffinity, Policy::DynamicAffinityNoPriority,
        ]),
    ) {
        let (lines, held_ns) = written(policy, cpus, history, seed, &acts);
        let verdicts = oracle::judge(&lines);
        prop_assert_eq!(verdicts.len(), 1);
        // The time after the last decision is nobody's.
        for (ours, told) in held_ns.iter().zip(verdicts[0].held_ns.iter().chain(std::iter::repeat(&0))) {
            prop_assert!(ours >= told);
        }
    }
}

#[test]
fn the_restated_rules_refuse_what_they_do_not_allow() {
    let heading = r#"{"play":0,"policy":"dynamic","cpus":[0,1],"jobs":["a","b"],"history":2,"seed":1}"#;
    let arrive = |job: u32, cpu: u32| {
        let worker = job * 2;
        format!(
            r#"{{"at_ns":1,"step":{{"arrive":{{"job":{job},"wanted":1}}}},"decided":[{{"cpu":{cpu},"change":{{"given":{job}}}}},{{"cpu":{cpu},"change":{{"seated":{worker}}}}}]}}"#
        )
    };
    oracle::judge(&[heading, &arrive(0, 0), &arrive(1, 1)].join("\n"));
    for wrong in [
        // A CPU that another has is given without being taken; a CPU is withheld; a job loses its last.
        vec![arrive(0, 0), arrive(1, 0)],
        vec![r#"{"at_ns":1,"step":{"arrive":{"job":0,"wanted":1}},"decided":[]}"#.to_owned()],
        vec![
            arrive(0, 0),
            r#"{"at_ns":2,"step":{"want":{"job":0,"wanted":1}},"decided":[{"cpu":0,"change":"taken"}]}"#.to_owned(),
        ],
    ] {
        let lines = [vec![heading.to_owned()], wrong].concat().join("\n");
        assert!(std::panic::catch_unwind(|| oracle::judge(&lines)).is_err(), "{lines}");
    }
}
