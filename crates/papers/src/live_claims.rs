//! What the numbers that were measured of the report's workloads say of its claims.

use crate::case::{Case, LESS, MORE, every};
use crate::live_numbers::{LiveNumbers, PMAKE_COMPLETION, TIME};
use crate::live_workloads::{ALL_MISSES, ATTACHED, LIVE_WORKLOADS, LONG_SLICE, Place};
use crate::printed::PrintedReport;
use crate::reproduction::LiveVerdict;
use crate::verdict::Judgement;

/// Workloads of the same program twice: what one of them gets, the other should.
const TWINS: [&str; 2] = ["Matrix+Matrix", "Pmake+Pmake"];

/// Jain's index from which shares are fair, as simulated ones are judged.
const FAIR: f64 = 0.98;

/// What the numbers say of a claim, by its check; none where they don't speak of it.
pub(super) fn judge(check: &str, numbers: &LiveNumbers) -> Option<LiveVerdict> {
    let time = |workload, scheduling| numbers.change(Place::Here, workload, scheduling, TIME);
    let misses = |workload, scheduling| numbers.change(Place::Vm, workload, scheduling, ALL_MISSES);
    let names = || LIVE_WORKLOADS.into_iter().map(|workload| workload.name);
    let each = |case: &dyn Fn(&'static str) -> Case| every(names().map(case));
    let printed = |name: &'static str| {
        let report = PrintedReport::cache_affinity();
        let margin = report.table("table-5").margin.unwrap_or_default();
        let printed = report.number("table-5", name, 0).map_or(f64::NAN, |printed| printed.value);
        Case::near(format!("{name}: printed {printed:.0}, here"), misses(name, "light"), printed, margin, " %")
    };
    let (place, (verdict, why)): (Place, Judgement) = match check {
        "attached" => (Place::Here, each(&|name| Case::new(name, time(name, ATTACHED), MORE, " % time"))),
        "long-quantum" => {
            let near = |name| Case::near(name, time(name, LONG_SLICE), 0.0, 1.0, " % time");
            (Place::Here, every(["Pmake+Pmake", "Oracle"].map(near)))
        }
        "scientific-misses" => (Place::Vm, every(["Matrix+Matrix", "Matrix+Cholesky"].map(printed))),
        "oracle-misses" => (Place::Vm, every([printed("Oracle")])),
        "light-misses-range" => {
            (Place::Vm, each(&|name| Case::new(name, misses(name, "light"), (-36.5, -6.5), " % misses")))
        }
        "heavy-misses-range" => {
            (Place::Vm, each(&|name| Case::new(name, misses(name, "heavy"), (-39.5, -7.5), " % misses")))
        }
        "heavy-misses" => {
            let more = |name| {
                let [light, heavy] = ["light", "heavy"].map(|scheduling| misses(name, scheduling));
                let less = light.zip(heavy).map(|(light, heavy)| crate::interval::less(heavy, light));
                Case::new(name, less, LESS, " points")
            };
            (Place::Vm, each(&more))
        }
        // A clock that counts instructions tells nothing of what misses cost, but all of who was let run first.
        "pmake-earlier" => {
            let earlier = |name: &'static str| {
                let completion = numbers.change(Place::Vm, name, "light", PMAKE_COMPLETION);
                Case::new(format!("{name}: completion of Pmake, by instructions"), completion, LESS, " %")
            };
            (Place::Vm, every(["Pmake+Matrix", "Pmake+Cholesky"].map(earlier)))
        }
        "fair" => {
            let even = |name: &'static str| {
                [("phi=0:0", "standard"), ("light", "light"), ("heavy", "heavy")].map(|(scheduling, called)| {
                    let index = numbers.evenness(Place::Vm, name, scheduling);
                    // An index is 1 at most, but not the end of its interval.
                    let fair = (FAIR, f64::INFINITY);
                    Case::new(format!("{name}, {called}: Jain index of its two jobs"), index, fair, "")
                })
            };
            (Place::Vm, every(TWINS.into_iter().flat_map(even)))
        }
        _ => return None,
    };
    numbers.is_measured(place).then(|| LiveVerdict { verdict, why: format!("{}: {why}", place.phrase()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live_numbers::Of;
    use crate::live_workloads::{LiveWorkloads, Size};
    use crate::verdict::Verdict;
    use serde::{Deserialize, Serialize};
    use simulation::Estimated;
    use std::path::Path;

    /// Numbers that were measured: of both places, with programs of today.
    const RECORDED: &str = include_str!("../tests/live_numbers.json");

    #[derive(Serialize, Deserialize)]
    struct Number {
        place: Place,
        workload: String,
        scheduling: String,
        what: String,
        value: f64,
        low: Option<f64>,
        high: Option<f64>,
    }

    fn recorded() -> LiveNumbers {
        let numbers: Vec<Number> = serde_json::from_str(RECORDED).unwrap();
        let number = |number: Number| {
            let Number { place, workload, scheduling, what, value, low, high } = number;
            (Of { place, workload, scheduling, what }, Estimated { value, low, high })
        };
        LiveNumbers(numbers.into_iter().map(number).collect())
    }

    /// `STAYPUT_LIVE_FOLDER=cache-affinity cargo test -p stayput-papers --lib -- --ignored write_recorded`
    #[test]
    #[ignore = "writes tests/live_numbers.json anew, from the journals of STAYPUT_LIVE_FOLDER"]
    fn write_recorded_numbers() {
        let folder =
            std::env::var("STAYPUT_LIVE_FOLDER").expect("STAYPUT_LIVE_FOLDER names the folder of the journals");
        let mut live = LiveWorkloads::new(Path::new(&folder));
        for workload in LIVE_WORKLOADS {
            for place in [Place::Here, Place::Vm] {
                let journals = [Size::Full, Size::Small].map(|size| workload.journal(place, size, Path::new(&folder)));
                if let Some(record) = journals.iter().find_map(|journal| workload.earlier(journal).unwrap()) {
                    live.add(&workload, place, record);
                }
            }
        }
        let number = |(of, number): (Of, Estimated)| {
            let Of { place, workload, scheduling, what } = of;
            let rounded = |x: f64| (x * 1e4).round() / 1e4;
            let [low, high] = [number.low, number.high].map(|end| end.map(rounded));
            Number { place, workload, scheduling, what, value: rounded(number.value), low, high }
        };
        let numbers: Vec<Number> = live.numbers().0.into_iter().map(number).collect();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live_numbers.json");
        std::fs::write(path, serde_json::to_string_pretty(&numbers).unwrap() + "\n").unwrap();
    }

    /// Numbers like the recorded ones, but for those that `change` makes otherwise.
    fn altered(change: impl Fn(&Of) -> Option<(f64, f64)>) -> LiveNumbers {
        let estimated =
            |(low, high): (f64, f64)| Estimated { value: (low + high) / 2.0, low: Some(low), high: Some(high) };
        let numbers = recorded().0.into_iter();
        LiveNumbers(numbers.map(|(of, number)| (of.clone(), change(&of).map_or(number, estimated))).collect())
    }

    fn verdict(check: &str, numbers: &LiveNumbers) -> Verdict {
        judge(check, numbers).unwrap().verdict
    }

    #[test]
    fn recorded_runs_judge_what_times_of_this_machine_can_tell() {
        let attached = judge("attached", &recorded()).unwrap();
        assert_eq!(attached.verdict, Verdict::Fails, "{}", attached.why);
        assert!(attached.why.starts_with("on this machine: not so in ") && attached.why.contains("Matrix+Matrix -"));
        let long = judge("long-quantum", &recorded()).unwrap();
        assert_eq!(long.verdict, Verdict::Undecidable, "{}", long.why);
        assert!(long.why.contains("Pmake+Pmake") && long.why.contains("Oracle"), "{}", long.why);
    }

    #[test]
    fn other_numbers_make_other_verdicts() {
        let all_slower = altered(|of| (of.what == TIME).then_some((3.0, 4.0)));
        assert_eq!(verdict("attached", &all_slower), Verdict::Holds);
        let the_same = altered(|of| (of.what == TIME).then_some((-0.5, 0.5)));
        assert_eq!(verdict("attached", &the_same), Verdict::Undecidable);
        assert_eq!(verdict("long-quantum", &the_same), Verdict::Holds);
        assert_eq!(verdict("long-quantum", &all_slower), Verdict::Fails);
    }

    #[test]
    fn fairness_and_who_ends_first_are_judged_by_the_virtual_machine() {
        let mut numbers = LiveNumbers::default();
        let mut put = |workload: &str, scheduling: &str, what: &str, (low, high): (f64, f64)| {
            let of =
                Of { place: Place::Vm, workload: workload.into(), scheduling: scheduling.into(), what: what.into() };
            let number = Estimated { value: (low + high) / 2.0, low: Some(low), high: Some(high) };
            numbers.0.insert(of, number);
        };
        for (workload, of) in [("Pmake+Matrix", (-9.0, -3.0)), ("Pmake+Cholesky", (-4.0, -1.0))] {
            put(workload, "light", PMAKE_COMPLETION, of);
        }
        for workload in TWINS {
            for scheduling in ["phi=0:0", "light", "heavy"] {
                put(workload, scheduling, crate::live_numbers::EVENNESS, (0.985, 0.999));
            }
        }
        assert_eq!(verdict("pmake-earlier", &numbers), Verdict::Holds);
        assert_eq!(verdict("fair", &numbers), Verdict::Holds);
        let why = judge("fair", &numbers).unwrap().why;
        assert!(why.starts_with("in a virtual machine: so in all 6"), "{why}");
        let of = |workload: &str, what: &str| Of {
            place: Place::Vm,
            workload: workload.into(),
            scheduling: "light".into(),
            what: what.into(),
        };
        let low = Estimated { value: 0.9, low: Some(0.85), high: Some(0.95) };
        numbers.0.insert(of("Matrix+Matrix", crate::live_numbers::EVENNESS), low);
        assert_eq!(verdict("fair", &numbers), Verdict::Fails);
        numbers.0.remove(&of("Pmake+Cholesky", PMAKE_COMPLETION));
        assert_eq!(verdict("pmake-earlier", &numbers), Verdict::Undecidable);
        assert_eq!(judge("attached", &numbers), None, "nothing was measured on this machine");
        assert_eq!(judge("thresholds", &numbers), None);
    }
}
