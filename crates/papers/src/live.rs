//! A paper's study on this machine, in the paper's cells.

use crate::interval::{exactly, over};
use crate::paper::{Paper, Quantity};
use statrs::distribution::{ChiSquared, ContinuousCDF, StudentsT};
use stats::PairedRatio;
use std::collections::{BTreeMap, BTreeSet};
use study::plan::{Cell, UNBOUND};
use study::record::{Ending, Record};
use study::simulation::Estimated;
use study::summary::{bootstrap_seed, counted_times, pairs_to};

/// What a paper's study measured on this machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Live {
    /// The times that count, in seconds.
    times_s: BTreeMap<Place, Vec<f64>>,
    /// What was run as a benchmark of a class.
    subjects: BTreeMap<(String, Option<String>), String>,
    /// The time of the first placement over that of the second.
    ratios: BTreeMap<(Place, String), PairedRatio>,
    /// How it was done and where it isn't the paper's study, in sentences.
    pub about: Vec<String>,
}

/// A cell of the paper.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// The paper's name of the benchmark.
    pub benchmark: String,
    /// Its problem class in the paper.
    pub class: Option<String>,
    /// Our name of the treatment.
    pub placement: String,
    /// Number of threads.
    pub threads: u32,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let class = self.class.as_ref().map_or_else(String::new, |class| format!(".{class}"));
        let plural = if self.threads == 1 { "" } else { "s" };
        write!(f, "{}{class} {} with {} thread{plural}", self.benchmark, self.placement, self.threads)
    }
}

impl Live {
    /// What the journal of `paper`'s study holds; `journal` is what its file is called.
    pub fn of(paper: &Paper, record: &Record, journal: &str) -> Self {
        let plan = &record.plan;
        let (mut times_s, mut ratios, mut ran) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for (benchmark, class, subject) in benchmarks(paper, record) {
            ran.insert((benchmark.to_owned(), class.map(str::to_owned)), subject.to_owned());
            for cell in plan.cells().filter(|cell| plan.subjects[cell.subject].name == subject) {
                let name = |cell: Cell| plan.treatments[cell.treatment].name.clone();
                let place = Place {
                    benchmark: benchmark.into(),
                    class: class.map(str::to_owned),
                    placement: name(cell),
                    threads: plan.threads[cell.threads],
                };
                for treatment in (0..plan.treatments.len()).filter(|&treatment| treatment != cell.treatment) {
                    let other = Cell { treatment, ..cell };
                    let pairs = pairs_to(plan, &record.trials, cell, other);
                    if let Ok(ratio) = stats::paired_ratio(&pairs, bootstrap_seed(plan, other)) {
                        ratios.insert((place.clone(), name(other)), ratio);
                    }
                }
                times_s.insert(place, counted_times(plan, &record.trials, cell));
            }
        }
        let subjects: Vec<&str> = plan.subjects.iter().map(|subject| subject.name.as_str()).collect();
        let mut about = vec![format!(
            "Live: {} on {}, Linux {}; {} trials in the journal {journal}{}.",
            subjects.join(", "),
            record.host.cpu_model.as_deref().unwrap_or("an unnamed CPU"),
            record.host.kernel,
            record.trials.len(),
            match record.ending {
                Some(Ending::Finished) => "",
                Some(Ending::BudgetSpent) => ", whose budget was spent before all was settled",
                None => ", which isn't finished",
            }
        )];
        about.extend(plan.departures.iter().cloned());
        Self { times_s, subjects: ran, ratios, about }
    }

    /// What was run as a benchmark of a class: `npb:bt.S`.
    pub(super) fn subject(&self, benchmark: &str, class: Option<&str>) -> Option<&str> {
        self.subjects.get(&(benchmark.to_owned(), class.map(str::to_owned))).map(String::as_str)
    }

    /// Mean time in seconds, with an interval of which `among` hold at once; without one when it ran once.
    pub(super) fn time_s(&self, place: &Place, among: usize) -> Option<Estimated> {
        let times = self.times_s.get(place)?;
        let mean = Estimated::of(times)?;
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
    pub(super) fn told(&self, quantity: Quantity, place: &Place) -> Option<Estimated> {
        match quantity {
            Quantity::Time => self.time_s(place, 1),
            Quantity::Ratio => self.ratio(&Place { placement: UNBOUND.into(), ..place.clone() }, &place.placement, 1),
            Quantity::SpeedUp => self.speed_up(place, 1),
        }
    }
}

/// The paper's benchmarks with their classes, and the subjects that were run as them. One that takes the place of several classes
/// stands for the first: the others weren't run.
fn benchmarks<'a>(paper: &'a Paper, record: &'a Record) -> BTreeSet<(&'a str, Option<&'a str>, &'a str)> {
    let mut found: BTreeSet<(&str, Option<&str>, &str)> = BTreeSet::new();
    for table in &paper.tables {
        let class = table.class.as_deref();
        for row in &table.rows {
            let Some(subject) = paper.subject(&record.plan, &row.benchmark, class) else { continue };
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
    use crate::placement_claims::judge_live;
    use crate::reproduction::Verdict;
    use stats::Pair;

    /// A machine that takes the times that pires-2016 prints, twelve times each with next to no noise, with up to `most` threads;
    /// `other` says where it takes others.
    fn as_printed(most: u32, other: &[(&str, &str, u32, f64)]) -> Live {
        let paper = Paper::named("pires-2016").unwrap();
        let mut live =
            Live { times_s: BTreeMap::new(), subjects: BTreeMap::new(), ratios: BTreeMap::new(), about: Vec::new() };
        for table in &paper.tables {
            for row in &table.rows {
                for (&threads, printed) in
                    table.threads.iter().zip(&row.printed).filter(|(threads, _)| **threads <= most)
                {
                    let place = crate::cells::place(table, row, threads).unwrap();
                    let is_it = |(benchmark, placement, count, _): &&(&str, &str, u32, f64)| {
                        (*benchmark, *placement, *count) == (&place.benchmark, &place.placement, threads)
                    };
                    let time_s = other.iter().find(is_it).map_or(printed.unwrap().value, |(.., time_s)| *time_s);
                    let jitter = |run: u32| 1.0 + 1e-6 * f64::from((7 * run + threads) % 5);
                    let subject = format!("npb:{}.S", row.benchmark.to_lowercase());
                    live.subjects.insert((row.benchmark.clone(), table.class.clone()), subject);
                    live.times_s.insert(place, (0..12).map(|run| time_s * jitter(run)).collect());
                }
            }
        }
        for (from, slower) in &live.times_s {
            for (to, faster) in &live.times_s {
                if (&to.benchmark, to.threads) == (&from.benchmark, from.threads) && to != from {
                    let pair = |(&reference_s, &treatment_s)| Pair { reference_s, treatment_s };
                    let pairs: Vec<Pair> = slower.iter().zip(faster).map(pair).collect();
                    live.ratios.insert((from.clone(), to.placement.clone()), stats::paired_ratio(&pairs, 1).unwrap());
                }
            }
        }
        live
    }

    fn verdict(check: &str, live: &Live) -> (Verdict, String) {
        let live = judge_live(check, Paper::named("pires-2016").unwrap(), live).unwrap();
        (live.verdict, live.why)
    }

    #[test]
    fn a_machine_like_the_papers_bears_out_and_contradicts_what_its_tables_do() {
        let live = as_printed(8, &[]);
        for (check, expected) in [
            ("one-thread", Verdict::Holds),
            ("compact-often-slower", Verdict::Holds),
            ("compact-faster-only-with-8", Verdict::Fails),
            ("times-as-fast", Verdict::Holds),
            ("small-gains", Verdict::Fails),
            ("compact-is-scatter", Verdict::Holds),
            ("more-threads-help", Verdict::Fails),
            ("compact-generally-slower", Verdict::Fails),
        ] {
            let (found, why) = verdict(check, &live);
            assert_eq!(found, expected, "{check}: {why}");
            assert!(!why.contains("weren't measured"), "{check}: {why}");
        }
        let (_, why) = verdict("compact-faster-only-with-8", &live);
        assert!(why.starts_with("not so in 1 of 12: npb:ep.S with 2 threads 0.45 "), "what was run is named: {why}");
        let (found, why) = verdict("compact-faster-only-with-8", &as_printed(8, &[("EP", "compact", 2, 45.0)]));
        assert_eq!(found, Verdict::Holds, "{why}");
    }

    #[test]
    fn what_a_small_machine_cannot_run_keeps_a_claim_from_holding() {
        let live = as_printed(2, &[("EP", "compact", 2, 45.0)]);
        let (found, why) = verdict("compact-faster-only-with-8", &live);
        assert_eq!(found, Verdict::Undecidable, "{why}");
        assert!(why.ends_with("12 of the 18 numbers that it speaks of weren't measured often enough here"), "{why}");
        assert_eq!(
            verdict("times-as-fast", &live),
            (Verdict::Undecidable, "nothing that it speaks of was run often enough here".into())
        );
        assert_eq!(verdict("one-thread", &live).0, Verdict::Holds, "one thread runs everywhere");
    }

    #[test]
    fn what_is_printed_is_not_asked_of_a_machine() {
        let paper = Paper::named("pires-2016").unwrap();
        for check in ["measured-anew", "cited-exist", "uniform-memory", "lists-called-right"] {
            assert!(paper.claims.iter().any(|claim| claim.check == check), "{check}");
            assert_eq!(judge_live(check, paper, &as_printed(8, &[])), None, "{check}");
        }
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
