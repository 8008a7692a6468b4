//! Whether a placement paper's claims follow from the numbers that it prints: each by a computation.
//!
//! A printed number stands for all that are rounded to it, and what isn't so of all of them isn't decided.

use super::Verdict;
use super::claims::{Case, Judged, LESS, MORE, all, both};
use crate::paper::{Paper, Printed, PrintedRow, PrintedTable, Quantity};
use crate::simulation::Estimated;
use machine::tree::ObjectIndex;
use machine::{Kind, Machine, Policy};
use std::collections::BTreeMap;

/// Share of cells from which something is often so.
const OFTEN: f64 = 0.5;

/// Share of cells up to which there are few.
const FEW: f64 = 0.1;

/// By how much a placement is faster than another, in percent of the faster one's time.
struct Gain<'a> {
    benchmark: &'a str,
    class: Option<&'a str>,
    threads: u32,
    percent: Estimated,
    is_printed_alike: bool,
}

impl Gain<'_> {
    fn label(&self) -> String {
        let plural = if self.threads == 1 { "" } else { "s" };
        format!("{} with {} thread{plural}", name(self.benchmark, self.class), self.threads)
    }

    fn case(&self, range: (f64, f64)) -> Case {
        Case::new(self.label(), Some(self.percent), range, " %")
    }

    fn ends(&self) -> (f64, f64) {
        (self.percent.low.unwrap_or(self.percent.value), self.percent.high.unwrap_or(self.percent.value))
    }
}

/// Judges a paper's claim by the check of that name.
pub(super) fn judge(check: &str, paper: &Paper) -> Judged {
    let deviation = paper.relative_sd_below.map_or(f64::NAN, |share| 100.0 * share);
    let equal = (-deviation, deviation);
    let ranged = |gains: &[Gain], range| every(gains.iter().map(|gain| gain.case(range)).collect());
    match check {
        "one-thread" => ranged(&affinity_gains(paper, &[1]), equal),
        "compact-often-slower" => {
            let case = |threads: u32| {
                let slower = gains(paper, "compact", "unbound", &[threads]);
                let share = share(&slower, (deviation, f64::INFINITY));
                let label = format!("with {threads} threads slower by more than {deviation} %:");
                Case::new(label, share, (100.0 * OFTEN, 100.0), " % of the benchmarks")
            };
            all(&[case(2), case(4)])
        }
        "compact-faster-only-with-8" => both(
            ranged(&gains(paper, "unbound", "compact", &[2, 4]), LESS),
            ranged(&gains(paper, "unbound", "compact", &[8]), MORE),
        ),
        "times-as-fast" => {
            let gains = gains(paper, "unbound", "compact", &[8]);
            all(&[("BT", "2.1"), ("EP", "1.3")].map(|(benchmark, times)| {
                let gain = gains.iter().find(|gain| gain.benchmark == benchmark).map(|gain| gain.percent);
                Case::new(format!("{benchmark} gains"), gain, as_gain(times), " %")
            }))
        }
        "small-gains" => {
            let gains = gains(paper, "unbound", "compact", &[8]);
            let cases = gains.iter().filter(|gain| !["BT", "EP"].contains(&gain.benchmark)).map(|gain| {
                // About 1 %, and 2 to 3 %, as far as they are rounded.
                gain.case(if gain.benchmark == "FT" { (0.5, 1.5) } else { (1.5, 3.5) })
            });
            all(&cases.collect::<Vec<_>>())
        }
        "scatter-over-compact" => both(
            ranged(&gains(paper, "compact", "scatter", &[2, 4]), MORE),
            ranged(&gains(paper, "unbound", "scatter", &[2, 4]), equal),
        ),
        "compact-is-scatter" => {
            let gains = gains(paper, "compact", "scatter", &[1, 8]);
            let (verdict, why) = ranged(&gains, equal);
            let alike = gains.iter().filter(|gain| gain.is_printed_alike).count();
            let copied =
                if alike == gains.len() { ", so one table was copied from the other or not measured anew" } else { "" };
            (verdict, format!("{why}; {alike} of {} are printed alike to the last digit{copied}", gains.len()))
        }
        "little-change" => {
            let gains = affinity_gains(paper, &[1, 2, 4, 8, 16]);
            let changed: Vec<Case> = gains.iter().map(|gain| gain.case(equal)).collect();
            let exceptions: Vec<String> = changed
                .iter()
                .filter(|case| case.verdict() != Verdict::Holds)
                .map(|case| case.told() + case.unit)
                .collect();
            let share = share(&gains, equal).map(|share| exactly(100.0 - share.value));
            let label = format!("changed by more than {deviation} %: {};", exceptions.join(", "));
            all(&[Case::new(label, share, (0.0, 100.0 * FEW), " % of the cells")])
        }
        "most-with-32-and-64" => every(of_each_benchmark(paper, |benchmark, class| {
            let most = |counts: &[u32]| {
                let gains = affinity_gains(paper, counts);
                gains.into_iter().filter(|gain| (gain.benchmark, gain.class) == (benchmark, class)).reduce(larger)
            };
            let (late, early) = (most(&[32, 64])?, most(&[1, 2, 4, 8, 16])?);
            let label = format!(
                "{}: most with {} threads, and before with {}:",
                name(benchmark, class),
                late.threads,
                early.threads
            );
            Some(Case::new(label, Some(less(late.percent, early.percent)), MORE, " points"))
        })),
        "class-a-over-c" => {
            let counts = paper.tables.first().map_or(&[][..], |table| &table.threads);
            let case = |&threads: &u32| {
                let mean = |class| {
                    geometric_mean(affinity_gains(paper, &[threads]).iter().filter(|gain| gain.class == Some(class)))
                };
                let lead = mean("A").zip(mean("C")).map(|(a, c)| less(a, c));
                Case::new(format!("A less C with {threads} threads"), lead, MORE, " points")
            };
            // One thread has nothing to gain.
            let (verdict, why) = all(&counts.iter().filter(|&&threads| threads > 1).map(case).collect::<Vec<_>>());
            (verdict, format!("geometric means: {why}"))
        }
        "all-gain-with-32-and-64" => {
            let judged = [(32, "1.4"), (64, "1.8")].map(|(threads, times)| {
                let gains = affinity_gains(paper, &[threads]);
                let gained = ranged(&gains, MORE);
                let most = gains.into_iter().reduce(larger);
                let label = most.as_ref().map_or_else(String::new, |most| format!("most: {}", most.label()));
                both(gained, all(&[Case::new(label, most.map(|most| most.percent), as_gain(times), " %")]))
            });
            let [with_32, with_64] = judged;
            both(with_32, with_64)
        }
        "only-sp-notable" => {
            let gains = affinity_gains(paper, &[1, 2, 4, 8, 16]);
            let (of_sp, others): (Vec<Gain>, Vec<Gain>) = gains.into_iter().partition(|gain| gain.benchmark == "SP");
            let most = of_sp.into_iter().reduce(larger);
            both(
                ranged(&others, (f64::NEG_INFINITY, deviation)),
                all(&most.map(|most| most.case((deviation, f64::INFINITY))).into_iter().collect::<Vec<_>>()),
            )
        }
        "ratios-of-times" => ratios(paper),
        "modules-rarely-shared" => all(&[4, 8, 16].map(|threads| {
            let label = format!("anywhere by chance, some two of {threads} threads share a module:");
            // Improbable is at least what happens less often than not.
            Case::new(label, some_share_a_module(&machine(paper), threads), (0.0, 50.0), " %")
        })),
        "speed-ups" => {
            let cases = [(2, 2.0), (4, 3.5), (8, 5.0)].map(|(threads, about): (u32, f64)| {
                // The text's own numbers can't bear it out: those of the mappings must.
                let best = rows(paper, Quantity::SpeedUp)
                    .filter(|(_, row)| row.placement.is_some())
                    .filter_map(|(table, row)| printed(table, row, threads))
                    .max_by(|a, b| a.value.total_cmp(&b.value));
                let half_step = 0.25;
                let range = (about - half_step, about + half_step);
                Case::new(format!("the figure's best with {threads} threads"), best.map(rounded), range, "")
            });
            every(cases.into())
        }
        "balanced-first" => {
            let counts = paper.tables.first().map_or(&[][..], |table| &table.threads);
            let lead = |&threads: &u32| {
                let of = |placement: &str| {
                    let row =
                        rows(paper, Quantity::SpeedUp).find(|(_, row)| row.placement.as_deref() == Some(placement));
                    row.and_then(|(table, row)| printed(table, row, threads)).map(rounded)
                };
                let over = |other: &str| {
                    let lead = of("balanced").zip(of(other)).map(|(balanced, other)| less(balanced, other));
                    Case::new(format!("balanced less {other} with {threads} threads"), lead, MORE, "")
                };
                ["unbound", "semi-balanced", "unbalanced"].map(over)
            };
            every(counts.iter().filter(|&&threads| threads > 1).flat_map(lead).collect())
        }
        "bound-varies-less" => match paper.relative_sd_below {
            Some(_) => (Verdict::Undecidable, "one bound on the deviation is printed for all runs alike".into()),
            None => (Verdict::Undecidable, "no deviation is printed, neither of bound runs nor of others".into()),
        },
        "mappings-exist" => mappings(paper),
        _ => (Verdict::Undecidable, "nothing is computed for it".into()),
    }
}

fn machine(paper: &Paper) -> Machine {
    Machine::named(&paper.machine).expect("a test reads every paper's machine")
}

fn name(benchmark: &str, class: Option<&str>) -> String {
    class.map_or_else(|| benchmark.to_owned(), |class| format!("{benchmark}.{class}"))
}

fn exactly(value: f64) -> Estimated {
    Estimated { value, low: None, high: None }
}

fn rounded(printed: Printed) -> Estimated {
    let (low, high) = printed.bounds();
    Estimated { value: printed.value, low: Some(low), high: Some(high) }
}

/// What is gained, in percent, by whoever is said to be so many times as fast.
fn as_gain(times: &str) -> (f64, f64) {
    let (low, high) = times.parse::<Printed>().map_or((f64::NAN, f64::NAN), Printed::bounds);
    (100.0 * (low - 1.0), 100.0 * (high - 1.0))
}

/// `a` less `b`, each rounded by itself.
fn less(a: Estimated, b: Estimated) -> Estimated {
    let ends = |x: Estimated| (x.low.unwrap_or(x.value), x.high.unwrap_or(x.value));
    let ((a_low, a_high), (b_low, b_high)) = (ends(a), ends(b));
    Estimated { value: a.value - b.value, low: Some(a_low - b_high), high: Some(a_high - b_low) }
}

/// The larger gain; its interval is of the largest of both.
fn larger<'a>(a: Gain<'a>, b: Gain<'a>) -> Gain<'a> {
    let ((a_low, a_high), (b_low, b_high)) = (a.ends(), b.ends());
    let larger = if a.percent.value >= b.percent.value { a } else { b };
    let percent = Estimated { low: Some(a_low.max(b_low)), high: Some(a_high.max(b_high)), ..larger.percent };
    Gain { percent, ..larger }
}

fn rows(paper: &Paper, quantity: Quantity) -> impl Iterator<Item = (&PrintedTable, &PrintedRow)> {
    let rows = paper.tables.iter().flat_map(|table| table.rows.iter().map(move |row| (table, row)));
    rows.filter(move |(_, row)| row.quantity == quantity)
}

fn printed(table: &PrintedTable, row: &PrintedRow, threads: u32) -> Option<Printed> {
    let column = table.threads.iter().position(|&count| count == threads)?;
    *row.printed.get(column)?
}

/// The ratio of two printed times, and between which it is.
fn quotient(slower: Printed, faster: Printed) -> Estimated {
    let ((slower_low, slower_high), (faster_low, faster_high)) = (slower.bounds(), faster.bounds());
    let value = slower.value / faster.value;
    Estimated { value, low: Some(slower_low / faster_high), high: Some(slower_high / faster_low) }
}

/// What one placement gains over another with some numbers of threads. A printed ratio, made from times with more digits than
/// are printed, narrows what the times allow.
fn gains<'a>(paper: &'a Paper, from: &str, to: &str, counts: &[u32]) -> Vec<Gain<'a>> {
    let of_row = |(table, row): (&'a PrintedTable, &'a PrintedRow)| {
        let class = table.class.as_deref();
        let gain = move |&threads: &u32| {
            let slower = printed(table, row, threads)?;
            let faster = paper.time_s(&row.benchmark, class, to, threads)?;
            let mut ratio = quotient(slower, faster);
            let told = rows(paper, Quantity::Ratio).find(|(other, told)| {
                (&other.name, &told.benchmark, told.placement.as_deref()) == (&table.name, &row.benchmark, Some(to))
            });
            if let Some((low, high)) = told.and_then(|(table, row)| printed(table, row, threads)).map(Printed::bounds)
                && from == "unbound"
            {
                let narrower = (ratio.low.map_or(low, |x| x.max(low)), ratio.high.map_or(high, |x| x.min(high)));
                if narrower.0 <= narrower.1 {
                    let value = ratio.value.clamp(narrower.0, narrower.1);
                    ratio = Estimated { value, low: Some(narrower.0), high: Some(narrower.1) };
                }
            }
            let percent = |ratio: f64| 100.0 * (ratio - 1.0);
            let percent =
                Estimated { value: percent(ratio.value), low: ratio.low.map(percent), high: ratio.high.map(percent) };
            let is_printed_alike = slower == faster;
            Some(Gain { benchmark: &row.benchmark, class, threads, percent, is_printed_alike })
        };
        counts.iter().filter_map(gain).collect::<Vec<_>>()
    };
    rows(paper, Quantity::Time).filter(|(_, row)| row.placement.as_deref() == Some(from)).flat_map(of_row).collect()
}

/// What the placement of the paper's first table gains over unbound.
fn affinity_gains<'a>(paper: &'a Paper, counts: &[u32]) -> Vec<Gain<'a>> {
    let mut placements = rows(paper, Quantity::Time).filter_map(|(_, row)| row.placement.as_deref());
    let bound = placements.find(|placement| *placement != "unbound");
    bound.map_or_else(Vec::new, |bound| gains(paper, "unbound", bound, counts))
}

/// The share of gains in a range in percent, with those that rounding leaves open as its interval.
fn share(gains: &[Gain], range: (f64, f64)) -> Option<Estimated> {
    let with = |verdict| gains.iter().filter(|gain| gain.case(range).verdict() == verdict).count() as f64;
    let percent = |number: f64| 100.0 * number / gains.len() as f64;
    let inside = gains.iter().filter(|gain| (range.0..=range.1).contains(&gain.percent.value)).count() as f64;
    let low = with(Verdict::Holds);
    let high = low + with(Verdict::Undecidable);
    (!gains.is_empty()).then(|| Estimated {
        value: percent(inside),
        low: Some(percent(low)),
        high: Some(percent(high)),
    })
}

/// The gain of the geometric mean of ratios, in percent.
fn geometric_mean<'a>(gains: impl Iterator<Item = &'a Gain<'a>>) -> Option<Estimated> {
    let gains: Vec<&Gain> = gains.collect();
    let mean = |percent: &dyn Fn(&Gain) -> f64| {
        let logarithms = gains.iter().map(|gain| (percent(gain) / 100.0).ln_1p()).sum::<f64>();
        100.0 * (logarithms / gains.len() as f64).exp_m1()
    };
    (!gains.is_empty()).then(|| Estimated {
        value: mean(&|gain| gain.percent.value),
        low: Some(mean(&|gain| gain.ends().0)),
        high: Some(mean(&|gain| gain.ends().1)),
    })
}

fn of_each_benchmark(paper: &Paper, case: impl Fn(&str, Option<&str>) -> Option<Case>) -> Vec<Case> {
    let unbound = rows(paper, Quantity::Time).filter(|(_, row)| row.placement.as_deref() == Some("unbound"));
    unbound.filter_map(|(table, row)| case(&row.benchmark, table.class.as_deref())).collect()
}

/// All of many cases must hold; told are those that decide.
fn every(cases: Vec<Case>) -> Judged {
    let number = cases.len();
    let (verdict, _) = all(&cases);
    if cases.iter().all(|case| case.number.is_none()) {
        return (Verdict::Undecidable, format!("none of the {number} numbers that would tell is printed"));
    }
    let mut deciding: Vec<Case> = cases.into_iter().filter(|case| case.verdict() == verdict).collect();
    let told = match verdict {
        Verdict::Holds => {
            let value = |case: &Case| case.number.map_or(f64::NAN, |number| number.value);
            deciding.sort_by(|a, b| value(a).total_cmp(&value(b)));
            let last = deciding.pop();
            deciding.truncate(1);
            deciding.extend(last);
            format!("so in all {number}, from")
        }
        Verdict::Fails => format!("not so in {} of {number}:", deciding.len()),
        Verdict::Undecidable => format!("rounding leaves {} of {number} open:", deciding.len()),
    };
    let joint = if verdict == Verdict::Holds { " to " } else { ", " };
    let numbers: Vec<String> = deciding.iter().map(|case| case.told() + case.unit).collect();
    (verdict, format!("{told} {}", numbers.join(joint)))
}

/// Each printed ratio is of the printed times, as far as rounding goes.
fn ratios(paper: &Paper) -> Judged {
    let (mut number, mut contradicted, mut otherwise) = (0, Vec::new(), Vec::new());
    for (table, row) in rows(paper, Quantity::Ratio) {
        let class = table.class.as_deref();
        for (&threads, ratio) in table.threads.iter().zip(&row.printed) {
            let time = |placement: Option<&str>| paper.time_s(&row.benchmark, class, placement?, threads);
            let (Some(ratio), Some(unbound), Some(bound)) =
                (*ratio, time(Some("unbound")), time(row.placement.as_deref()))
            else {
                continue;
            };
            number += 1;
            let times = quotient(unbound, bound);
            let computed = Printed { value: times.value, ..ratio };
            let told = format!("{} with {threads} threads {ratio}, of times {computed}", name(&row.benchmark, class));
            let (low, high) = ratio.bounds();
            if times.high.is_some_and(|x| x < low) || times.low.is_some_and(|x| x > high) {
                contradicted.push(told);
            } else if computed.to_string() != ratio.to_string() {
                otherwise.push(told);
            }
        }
    }
    match (number, contradicted.is_empty()) {
        (0, _) => (Verdict::Undecidable, "no ratio is printed beside its times".into()),
        (_, false) => {
            (Verdict::Fails, format!("not so of {} of {number}: {}", contradicted.len(), contradicted.join("; ")))
        }
        (_, true) => {
            let others =
                format!("; {} differ from those of the rounded times: {}", otherwise.len(), otherwise.join("; "));
            (Verdict::Holds, format!("so of all {number}{}", if otherwise.is_empty() { "" } else { &others }))
        }
    }
}

/// How many CPUs are on each L2 of a package.
type Caches = BTreeMap<Option<ObjectIndex>, u32>;

/// Each mapping can be made, as the poster defines it, on the machine with each of its thread counts.
fn mappings(paper: &Paper) -> Judged {
    let machine = machine(paper);
    let mut packages: BTreeMap<Option<ObjectIndex>, Caches> = BTreeMap::new();
    for cpu in machine.usable() {
        let caches = packages.entry(machine.enclosing(cpu, Kind::Package)).or_default();
        *caches.entry(machine.enclosing(cpu, Kind::Cache(2))).or_default() += 1;
    }
    let most = |of: fn(&Caches) -> u32| packages.values().map(of).max().unwrap_or(0);
    let cases = rows(paper, Quantity::SpeedUp).filter_map(|(table, row)| {
        let placement = row.placement.as_deref()?;
        let capacity = match placement.parse().ok()? {
            // No two on one package; no two on one cache of a package; on one package, all beside another on their cache.
            Policy::Balanced => packages.len() as u32,
            Policy::SemiBalanced => most(|caches| caches.len() as u32),
            Policy::Unbalanced => most(|caches| caches.values().filter(|cpus| **cpus > 1).sum()),
            Policy::Compact | Policy::Scatter | Policy::List(_) => return None,
        };
        let asked = table.threads.iter().max()?;
        let range = (f64::from(*asked), f64::INFINITY);
        Some(Case::new(format!("{placement}: at most"), Some(exactly(f64::from(capacity))), range, " cores"))
    });
    all(&cases.collect::<Vec<_>>())
}

/// How likely some two of `threads` share a module of a machine when any CPUs are as likely as any others, in percent; none
/// without modules.
fn some_share_a_module(machine: &Machine, threads: u32) -> Option<Estimated> {
    let (cpus, modules) = (machine.usable().count() as f64, machine.count(Kind::Module) as f64);
    // With some on modules of their own, the next finds the CPUs of the other modules among all that are left.
    let none = (0..threads).map(f64::from).map(|some| (cpus - some * cpus / modules) / (cpus - some)).product::<f64>();
    (modules > 0.0).then(|| exactly(100.0 * (1.0 - none)))
}
