//! A paper's study on this machine, in the paper's cells.

use crate::interval::{exactly, over};
use crate::live_workloads::elsewhere;
use crate::paper::{Paper, Place, Quantity};
use crate::reproduction::LiveStudy;
use simulation::Estimated;
use statrs::distribution::{ChiSquared, ContinuousCDF, StudentsT};
use stats::PairedRatio;
use std::collections::{BTreeMap, BTreeSet};
use study::Comparison;
use study::plan::{Cell, UNBOUND};
use study::record::Record;
use study::times::{bootstrap_seed, counted_costs, pairs_to};

/// What a paper's study measured on this machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Live {
    /// The times that count, in seconds.
    pub(super) times_s: BTreeMap<Place, Vec<f64>>,
    /// What was run as a benchmark of a class.
    pub(super) subjects: BTreeMap<(String, Option<String>), String>,
    /// The time of the first placement over that of the second.
    pub(super) ratios: BTreeMap<(Place, String), PairedRatio>,
    /// How it was run, and where it isn't the paper's study.
    pub study: LiveStudy,
}

impl Live {
    /// What the journal of `paper`'s study holds; `journal` is what its file is called.
    pub fn new(paper: &Paper, record: &Record<Comparison>, journal: &str) -> Self {
        let plan = &record.plan.plan;
        let (mut times_s, mut ratios, mut ran) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for (benchmark, class, subject) in benchmarks(paper, record) {
            ran.insert((benchmark.to_owned(), class.map(str::to_owned)), subject.to_owned());
            for cell in plan.cells().filter(|cell| plan.subjects[cell.subject].name == subject) {
                let place = |placement: &str| Place {
                    benchmark: benchmark.into(),
                    class: class.map(str::to_owned),
                    placement: placement.into(),
                    threads: plan.threads[cell.threads].total(),
                };
                for treatment in (0..plan.treatments.len()).filter(|&treatment| treatment != cell.treatment) {
                    let other = Cell { treatment, ..cell };
                    let pairs = pairs_to(plan, &record.trials, cell, other);
                    let Some(ratio) = stats::paired_ratio(&pairs, bootstrap_seed(plan, other)) else { continue };
                    for name in plan.names(cell) {
                        ratios.extend(plan.names(other).map(|other| ((place(name), other.to_owned()), ratio)));
                    }
                }
                let times = counted_costs(plan, &record.trials, cell);
                times_s.extend(plan.names(cell).map(|name| (place(name), times.clone())));
            }
        }
        let study = LiveStudy {
            subjects: plan.subjects.iter().map(|subject| subject.name.clone()).collect(),
            elsewhere: elsewhere(&record.plan.plan.site),
            cpu_model: record.host.cpu_model.clone(),
            kernel: record.host.kernel.clone(),
            trials: record.trials.len(),
            kept_in: format!("journal {journal}"),
            ending: record.ending,
            departures: plan.departures.clone(),
        };
        Self { times_s, subjects: ran, ratios, study }
    }

    /// What was run as a benchmark of a class: `npb:bt.S`.
    pub(super) fn subject(&self, benchmark: &str, class: Option<&str>) -> Option<&str> {
        self.subjects.get(&(benchmark.to_owned(), class.map(str::to_owned))).map(String::as_str)
    }

    /// Mean time in seconds, with an interval of which `among` hold at once; without one when it ran once.
    pub(super) fn time_s(&self, place: &Place, among: usize) -> Option<Estimated> {
        let times = self.times_s.get(place)?;
        let mean = Estimated::from_values(times)?;
        let widened = widening(times.len().saturating_sub(1), among);
        let end = |end: f64| mean.value + (end - mean.value) * widened;
        Some(Estimated { value: mean.value, low: mean.low.map(end), high: mean.high.map(end) })
    }

    /// The time of a cell over that of the placement `to`, from pairs; none where there are too few.
    pub(super) fn ratio(&self, from: &Place, to: &str, among: usize) -> Option<Estimated> {
        let ratio = self.ratios.get(&(from.clone(), to.to_owned()))?.one_of(among);
        Some(Estimated { value: ratio.ratio(), low: Some(ratio.low()), high: Some(ratio.high()) })
    }

    /// Time of unbound on one thread over the time; none where one ran once.
    pub(super) fn speed_up(&self, place: &Place, among: usize) -> Option<Estimated> {
        let one = Place { placement: UNBOUND.into(), threads: 1, ..place.clone() };
        let time = |place: &Place| self.time_s(place, among).filter(|time| time.low.is_some());
        let (one_s, time_s) = (time(&one)?, time(place)?);
        Some(if *place == one { exactly(1.0) } else { over(one_s, time_s) })
    }

    /// Standard deviation over mean, in percent.
    pub(super) fn deviation_percent(&self, place: &Place, among: usize) -> Option<Estimated> {
        deviation_percent(self.times_s.get(place)?, among)
    }

    /// What stands in a cell of that quantity.
    pub(super) fn cell(&self, quantity: Quantity, place: &Place) -> Option<Estimated> {
        match quantity {
            Quantity::Time => self.time_s(place, 1),
            Quantity::Ratio => self.ratio(&Place { placement: UNBOUND.into(), ..place.clone() }, &place.placement, 1),
            Quantity::SpeedUp => self.speed_up(place, 1),
        }
    }
}

/// The paper's benchmarks with their classes, and the subjects that were run as them. One that takes the place of several classes
/// stands for the first: the others weren't run.
fn benchmarks<'a>(paper: &'a Paper, record: &'a Record<Comparison>) -> BTreeSet<(&'a str, Option<&'a str>, &'a str)> {
    let mut found: BTreeSet<(&str, Option<&str>, &str)> = BTreeSet::new();
    for table in &paper.tables {
        let class = table.class.as_deref();
        for row in &table.rows {
            let Some(subject) = paper.subject(&record.plan.plan, &row.benchmark, class) else { continue };
            if found.iter().all(|&(_, of, taken)| taken != subject || of == class) {
                found.insert((&row.benchmark, class, subject));
            }
        }
    }
    found
}

/// By how much wider `among` intervals of Student's t are that hold 95 % of the time all at once than one is (Bonferroni).
fn widening(freedom: usize, among: usize) -> f64 {
    let Ok(student) = StudentsT::new(0.0, 1.0, freedom.max(1) as f64) else { return 1.0 };
    student.inverse_cdf(1.0 - 0.025 / among.max(1) as f64) / student.inverse_cdf(0.975)
}

/// Standard deviation over mean in percent, with the interval that normal times have and of which `among` hold 95 % of the time
/// all at once; none of fewer than two.
fn deviation_percent(times: &[f64], among: usize) -> Option<Estimated> {
    let freedom = times.len().checked_sub(1).filter(|freedom| *freedom > 0)? as f64;
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    let squares = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>();
    let chi_squared = ChiSquared::new(freedom).ok()?;
    let with = |divisor: f64| 100.0 * (squares / divisor).sqrt() / mean;
    let tail = 0.025 / among.max(1) as f64;
    let (low, high) = (with(chi_squared.inverse_cdf(1.0 - tail)), with(chi_squared.inverse_cdf(tail)));
    Some(Estimated { value: with(freedom), low: Some(low), high: Some(high) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::{CpuId, Placement};
    use std::time::Duration;
    use study::engine::Turn;
    use study::{Ending, HostFacts, Plan, Status, StopRule, Subject, Treatment, Trial};

    /// Unbound and compact with two threads, and scatter, which is compact there.
    fn record() -> Record<Comparison> {
        let placement =
            |name: &str| Placement { policy: name.into(), slots: [0, 1].map(|cpu| CpuId(cpu).into()).into() };
        let bound = |name: &str| Treatment::new(name.into(), vec![Some(placement(name))]);
        let subject = Subject { name: "npb:bt.B".into(), argv: vec!["bt".into()], ..Subject::default() };
        let mut plan = Plan {
            subjects: vec![subject],
            threads: vec![2.into()],
            treatments: vec![Treatment::unbound(), bound("compact"), bound("scatter")],
            timeout: Duration::from_secs(60),
            seed: 1,
            paper: Some("pires-2016".into()),
            ..Plan::default()
        };
        plan.merge_same_placements();
        let trial = |block: u32, (at, cell): (usize, Cell)| Trial {
            status: Status::Ok,
            time_s: Some(1.0 + 0.5 * at as f64 + 0.01 * f64::from(block % 3)),
            ..Turn { cell, sequence: 0, block, warmup: false, cut_off: None }.trial(&plan, 0.0)
        };
        Record {
            trials: (0..6)
                .flat_map(|block| plan.cells().enumerate().map(move |cell| (block, cell)))
                .map(|(b, c)| trial(b, c))
                .collect(),
            plan: Comparison {
                plan: plan.clone(),
                stop: StopRule::Paired { width: 0.02, min_blocks: 6, max_blocks: 6 },
            },
            machine: serde_json::Value::Null,
            host: HostFacts::of_model(),
            sessions: Vec::new(),
            disturbed: Vec::new(),
            ending: Some(Ending::Finished),
        }
    }

    #[test]
    fn a_placement_that_is_run_for_another_has_its_numbers() {
        let live = Live::new(Paper::named("pires-2016").unwrap(), &record(), "journal");
        let place = |placement: &str| Place {
            benchmark: "BT".into(),
            class: Some("B".into()),
            placement: placement.into(),
            threads: 2,
        };
        let names = ["compact", "scatter", UNBOUND];
        let [compact, scatter, unbound] = names.map(place);
        assert!(live.times_s.keys().eq([&compact, &scatter, &unbound]), "{:?}", live.times_s);
        assert_eq!(live.times_s[&scatter], live.times_s[&compact]);
        for (one, other) in [
            (live.ratio(&scatter, UNBOUND, 1), live.ratio(&compact, UNBOUND, 1)),
            (live.ratio(&unbound, "scatter", 1), live.ratio(&unbound, "compact", 1)),
        ] {
            assert!(one.is_some() && one == other, "{one:?} {other:?}");
        }
        assert_eq!(live.ratio(&compact, "scatter", 1), None, "nothing was compared with itself");
    }

    #[test]
    fn a_deviation_has_the_interval_of_the_textbooks() {
        // Ten times of mean 10 and standard deviation 1: the interval of the deviation is 0.688 to 1.826 times as wide.
        let offset = 0.9_f64.sqrt();
        let times: Vec<f64> = (0..10).map(|at| if at % 2 == 0 { 10.0 - offset } else { 10.0 + offset }).collect();
        let found = deviation_percent(&times, 1).unwrap();
        let near = |a: Option<f64>, b: f64| (a.unwrap() - b).abs() < 0.01;
        assert!(near(Some(found.value), 10.0) && near(found.low, 6.88) && near(found.high, 18.26), "{found:?}");
        assert_eq!(deviation_percent(&[1.0], 1), None);
        let wider = deviation_percent(&times, 20).unwrap();
        assert!(wider.low < found.low && wider.high > found.high && wider.value == found.value, "{wider:?}");
    }

    #[test]
    fn five_intervals_at_once_are_wider_by_what_tables_of_t_say() {
        // Student's t at 9 degrees of freedom: 2.262 for one, 3.250 for five (99 %).
        assert!((widening(9, 5) - 3.250 / 2.262).abs() < 1e-3 && widening(9, 1) == 1.0);
    }
}
