//! Whether a placement paper's claims follow from the numbers that it prints: each by a computation.
//!
//! A printed number stands for all that are rounded to it, and what isn't so of all of them isn't decided. What a claim says of runs
//! can be asked of this machine's too, by the same check.

use crate::case::{Case, Judgement, LESS, MORE, all, both, every};
use crate::cells::{Cells, name, printed, rows};
use crate::interval::{exactly, less, over, rounded};
use crate::live::Live;
use crate::paper::{Paper, Place, Printed, PrintedRow, PrintedTable, Quantity};
use crate::reproduction::{LiveVerdict, Verdict};
use crate::{machine_claims, references};
use simulation::Estimated;
use study::plan::UNBOUND;

/// Share of cells from which something is often so.
const OFTEN: f64 = 0.5;

/// Share of cells up to which there are few.
const FEW: f64 = 0.1;

/// By how much a placement is faster than another, in percent of the faster one's time.
struct Gain<'a> {
    /// What was run.
    name: String,
    benchmark: &'a str,
    class: Option<&'a str>,
    threads: u32,
    percent: Estimated,
    /// As printed, of the slower.
    time: Printed,
    is_printed_alike: bool,
}

impl Gain<'_> {
    fn label(&self) -> String {
        let plural = if self.threads == 1 { "" } else { "s" };
        format!("{} with {} thread{plural}", self.name, self.threads)
    }

    fn case(&self, range: (f64, f64)) -> Case {
        Case::new(self.label(), Some(self.percent), range, " %")
    }

    fn ends(&self) -> (f64, f64) {
        (self.percent.low.unwrap_or(self.percent.value), self.percent.high.unwrap_or(self.percent.value))
    }
}

/// Judges a paper's claim by the check of that name, on what the paper prints.
pub(super) fn judge(check: &str, paper: &Paper) -> Judgement {
    judge_runs(check, &Cells::printed(paper)).or_else(|| judge_print(check, paper)).unwrap_or_else(|| {
        machine_claims::judge(check, paper)
            .unwrap_or_else(|| (Verdict::Undecidable, "nothing is computed for it".into()))
    })
}

/// Judges a paper's claim by the check of that name, on what this machine measured; none where the claim isn't one of runs. The
/// intervals are those that hold all at once, and what wasn't run keeps a claim from holding.
pub(super) fn judge_live(check: &str, paper: &Paper, live: &Live) -> Option<LiveVerdict> {
    let first = Cells::measured(paper, live, 1);
    judge_runs(check, &first)?;
    let (asked, found) = first.found();
    if found == 0 {
        let why = "nothing that it speaks of was run often enough here".into();
        return Some(LiveVerdict { verdict: Verdict::Undecidable, why });
    }
    let (verdict, why) = judge_runs(check, &Cells::measured(paper, live, found))?;
    Some(if asked == found {
        LiveVerdict { verdict, why }
    } else {
        LiveVerdict {
            verdict: if verdict == Verdict::Fails { verdict } else { Verdict::Undecidable },
            why: format!(
                "{why}; {} of the {asked} numbers that it speaks of weren't measured often enough here",
                asked - found
            ),
        }
    })
}

/// Judges by a check of what is printed, whoever ran it.
fn judge_print(check: &str, paper: &Paper) -> Option<Judgement> {
    Some(match check {
        "ratios-of-times" => ratios(paper),
        "measured-anew" => measured_anew(paper, &gains(&Cells::printed(paper), "compact", "scatter", &[1, 8])),
        "figure-printed" => {
            let rows = rows(paper, Quantity::SpeedUp).filter(|(_, row)| row.placement.is_some());
            let cells: Vec<Option<Printed>> = rows.flat_map(|(_, row)| row.printed.iter().copied()).collect();
            let (all_cells, printed) = (cells.len() as f64, cells.iter().flatten().count() as f64);
            let label = format!("numbers that have come down to us, of {all_cells}:");
            all(&[Case::new(label, Some(exactly(printed)), (all_cells, all_cells), "")])
        }
        "runs-introduced" => runs_introduced(paper),
        "cited-exist" => references::cited_exist(&paper.references),
        _ => return None,
    })
}

/// Judges by a check of what was run.
fn judge_runs(check: &str, cells: &Cells) -> Option<Judgement> {
    let paper = cells.paper;
    let deviation = paper.relative_sd_below.map_or(f64::NAN, |share| 100.0 * share);
    let equal = (-deviation, deviation);
    let ranged = |gains: &[Gain], range| every(gains.iter().map(|gain| gain.case(range)).collect());
    Some(match check {
        "one-thread" => ranged(&affinity_gains(cells, &[1]), equal),
        "compact-often-slower" => {
            let case = |threads: u32| {
                let slower = gains(cells, "compact", "unbound", &[threads]);
                let share = share(&slower, (deviation, f64::INFINITY));
                let label = format!("with {threads} threads slower by more than {deviation} %:");
                Case::new(label, share, (100.0 * OFTEN, 100.0), " % of the benchmarks")
            };
            all(&[case(2), case(4)])
        }
        "compact-faster-only-with-8" => both(
            ranged(&gains(cells, "unbound", "compact", &[2, 4]), LESS),
            ranged(&gains(cells, "unbound", "compact", &[8]), MORE),
        ),
        "times-as-fast" => {
            let gains = gains(cells, "unbound", "compact", &[8]);
            all(&[("BT", "2.1"), ("EP", "1.3")].map(|(benchmark, times)| {
                let gain = gains.iter().find(|gain| gain.benchmark == benchmark).map(|gain| gain.percent);
                Case::new(format!("{benchmark} gains"), gain, as_gain(times), " %")
            }))
        }
        "small-gains" => {
            let gains = gains(cells, "unbound", "compact", &[8]);
            let cases = gains.iter().filter(|gain| !["BT", "EP"].contains(&gain.benchmark)).map(|gain| {
                // About 1 %, and 2 to 3 %, as far as they are rounded.
                gain.case(if gain.benchmark == "FT" { (0.5, 1.5) } else { (1.5, 3.5) })
            });
            all(&cases.collect::<Vec<_>>())
        }
        "scatter-over-compact" => both(
            ranged(&gains(cells, "compact", "scatter", &[2, 4]), MORE),
            ranged(&gains(cells, "unbound", "scatter", &[2, 4]), equal),
        ),
        "compact-is-scatter" => {
            let gains = gains(cells, "compact", "scatter", &[1, 8]);
            let (verdict, why) = ranged(&gains, equal);
            if cells.live.is_some() {
                return Some((verdict, why));
            }
            let alike = gains.iter().filter(|gain| gain.is_printed_alike).count();
            (verdict, format!("{why}; {alike} of {} are printed alike to the last digit", gains.len()))
        }
        "little-change" => {
            let gains = affinity_gains(cells, &[1, 2, 4, 8, 16]);
            let changed: Vec<Case> = gains.iter().map(|gain| gain.case(equal)).collect();
            let exceptions: Vec<String> = changed
                .iter()
                .filter(|case| case.verdict() != Verdict::Holds)
                .map(|case| case.text() + case.unit)
                .collect();
            let share = share(&gains, equal).map(|unchanged| less(exactly(100.0), unchanged));
            let label = format!("changed by more than {deviation} %: {};", exceptions.join(", "));
            all(&[Case::new(label, share, (0.0, 100.0 * FEW), " % of the cells")])
        }
        "most-with-32-and-64" => every(benchmark_cases(paper, |benchmark, class| {
            let most = |counts: &[u32]| {
                let gains = affinity_gains(cells, counts);
                gains.into_iter().filter(|gain| (gain.benchmark, gain.class) == (benchmark, class)).reduce(larger)
            };
            let (late, early) = (most(&[32, 64])?, most(&[1, 2, 4, 8, 16])?);
            let label = format!(
                "{}: most with {} threads, and before with {}:",
                cells.name(benchmark, class),
                late.threads,
                early.threads
            );
            Some(Case::new(label, Some(less(late.percent, early.percent)), MORE, " points"))
        })),
        "class-a-over-c" => {
            let counts = paper.tables.first().map_or(&[][..], |table| &table.threads);
            let case = |&threads: &u32| {
                let mean = |class| {
                    geometric_mean(affinity_gains(cells, &[threads]).iter().filter(|gain| gain.class == Some(class)))
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
                let gains = affinity_gains(cells, &[threads]);
                let gained = ranged(&gains, MORE);
                let most = gains.into_iter().reduce(larger);
                let label = most.as_ref().map_or_else(String::new, |most| format!("most: {}", most.label()));
                both(gained, all(&[Case::new(label, most.map(|most| most.percent), as_gain(times), " %")]))
            });
            let [with_32, with_64] = judged;
            both(with_32, with_64)
        }
        "only-sp-notable" => {
            let gains = affinity_gains(cells, &[1, 2, 4, 8, 16]);
            let (of_sp, others): (Vec<Gain>, Vec<Gain>) = gains.into_iter().partition(|gain| gain.benchmark == "SP");
            let most = of_sp.into_iter().reduce(larger);
            both(
                ranged(&others, (f64::NEG_INFINITY, deviation)),
                all(&most.map(|most| most.case((deviation, f64::INFINITY))).into_iter().collect::<Vec<_>>()),
            )
        }
        "speed-ups" => {
            let cases = [(2, 2.0), (4, 3.5), (8, 5.0)].map(|(threads, about): (u32, f64)| {
                // The text's own numbers can't bear it out: those of the mappings must.
                let best = rows(paper, Quantity::SpeedUp)
                    .filter(|(_, row)| row.placement.is_some())
                    .filter_map(|(table, row)| cells.speed_up(table, row, threads))
                    .max_by(|a, b| a.value.total_cmp(&b.value));
                let half_step = 0.25;
                let range = (about - half_step, about + half_step);
                Case::new(format!("the best with {threads} threads"), best, range, "")
            });
            every(cases.into())
        }
        "balanced-first" => {
            let counts = paper.tables.first().map_or(&[][..], |table| &table.threads);
            let lead = |&threads: &u32| {
                let of = |placement: &str| {
                    let row =
                        rows(paper, Quantity::SpeedUp).find(|(_, row)| row.placement.as_deref() == Some(placement));
                    row.and_then(|(table, row)| cells.speed_up(table, row, threads))
                };
                let over = |other: &str| {
                    let lead = of("balanced").zip(of(other)).map(|(balanced, other)| less(balanced, other));
                    Case::new(format!("balanced less {other} with {threads} threads"), lead, MORE, "")
                };
                ["unbound", "semi-balanced", "unbalanced"].map(over)
            };
            every(counts.iter().filter(|&&threads| threads > 1).flat_map(lead).collect())
        }
        "bound-varies-less" => bound_varies_less(cells),
        "compact-generally-slower" => ranged(&gains(cells, "compact", "unbound", &[2, 4]), (deviation, f64::INFINITY)),
        "gains-over-deviation" => {
            let mut gains = gains(cells, "unbound", "compact", &[8]);
            gains.retain(|gain| !["BT", "EP", "FT"].contains(&gain.benchmark));
            ranged(&gains, (deviation, f64::INFINITY))
        }
        "more-threads-help" => more_threads_help(cells),
        _ => return None,
    })
}

/// What is gained, in percent, by whoever is said to be so many times as fast.
fn as_gain(times: &str) -> (f64, f64) {
    let (low, high) = times.parse::<Printed>().map_or((f64::NAN, f64::NAN), Printed::bounds);
    (100.0 * (low - 1.0), 100.0 * (high - 1.0))
}

/// The larger gain; its interval is of the largest of both.
fn larger<'a>(a: Gain<'a>, b: Gain<'a>) -> Gain<'a> {
    let ((a_low, a_high), (b_low, b_high)) = (a.ends(), b.ends());
    let larger = if a.percent.value >= b.percent.value { a } else { b };
    let percent = Estimated { low: Some(a_low.max(b_low)), high: Some(a_high.max(b_high)), ..larger.percent };
    Gain { percent, ..larger }
}

/// What one placement gains over another with some numbers of threads.
fn gains<'a>(cells: &Cells<'a>, from: &str, to: &str, counts: &[u32]) -> Vec<Gain<'a>> {
    let gain = move |(table, row): (&'a PrintedTable, &'a PrintedRow), threads: u32| {
        let class = table.class.as_deref();
        let ratio = cells.ratio(table, row, to, threads)?;
        let percent = |ratio: f64| 100.0 * (ratio - 1.0);
        let percent =
            Estimated { value: percent(ratio.value), low: ratio.low.map(percent), high: ratio.high.map(percent) };
        let time = printed(table, row, threads)?;
        let is_printed_alike = Some(time) == cells.paper.time_s(&row.benchmark, class, to, threads);
        Some(Gain {
            name: cells.name(&row.benchmark, class),
            benchmark: &row.benchmark,
            class,
            threads,
            percent,
            time,
            is_printed_alike,
        })
    };
    let rows = rows(cells.paper, Quantity::Time).filter(|(_, row)| row.placement.as_deref() == Some(from));
    rows.flat_map(|row| counts.iter().filter_map(move |&threads| gain(row, threads))).collect()
}

/// What the placement of the paper's first table gains over unbound.
fn affinity_gains<'a>(cells: &Cells<'a>, counts: &[u32]) -> Vec<Gain<'a>> {
    let mut placements = rows(cells.paper, Quantity::Time).filter_map(|(_, row)| row.placement.as_deref());
    let bound = placements.find(|placement| *placement != UNBOUND);
    bound.map_or_else(Vec::new, |bound| gains(cells, UNBOUND, bound, counts))
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

fn benchmark_cases(paper: &Paper, case: impl Fn(&str, Option<&str>) -> Option<Case>) -> Vec<Case> {
    let unbound = rows(paper, Quantity::Time).filter(|(_, row)| row.placement.as_deref() == Some("unbound"));
    unbound.filter_map(|(table, row)| case(&row.benchmark, table.class.as_deref())).collect()
}

/// Each printed ratio is of the printed times, as far as rounding goes.
fn ratios(paper: &Paper) -> Judgement {
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
            let times = over(rounded(unbound), rounded(bound));
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

/// By how many times a stated bound on deviations may exceed what was seen: more would tell readers nothing.
const LOOSEST_BOUND: f64 = 10.0;

/// Below which a coincidence isn't believed.
const CHANCE: f64 = 0.05;

/// Two tables' times of the same runs would differ, had each been measured: how likely they are printed alike follows from the
/// deviation that the paper states. The difference of two means of `RUNS` runs is taken as normal, and both as rounded alike when
/// it is less than the last digit, weighted by how near.
fn measured_anew(paper: &Paper, gains: &[Gain]) -> Judgement {
    const RUNS: f64 = 5.0;
    let Some(bound) = paper.relative_sd_below.filter(|_| !gains.is_empty()) else {
        return (Verdict::Undecidable, "no deviation is printed, or no time twice".into());
    };
    let alike = gains.iter().filter(|gain| gain.is_printed_alike).count();
    let chance = |relative_sd: f64| -> f64 {
        gains
            .iter()
            .filter(|gain| gain.is_printed_alike)
            .map(|gain| {
                let sd = relative_sd * gain.time.value * (2.0 / RUNS).sqrt();
                printed_alike(sd, gain.time.bounds().1 - gain.time.bounds().0)
            })
            .product()
    };
    // The deviation at which the coincidence is just believed, by bisection: chances fall as deviations grow.
    let (mut low, mut high) = (0.0, bound);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if chance(middle) > CHANCE { low = middle } else { high = middle }
    }
    let verdict = if chance(bound / LOOSEST_BOUND) < CHANCE { Verdict::Fails } else { Verdict::Holds };
    let why = format!(
        "{alike} of {} times are printed alike to the last digit, which has a chance of {:.0e} if runs deviate by a {LOOSEST_BOUND}th of the {} % that \
         the paper states as bound, and of {:.0} % only below {:.2} %",
        gains.len(),
        chance(bound / LOOSEST_BOUND),
        100.0 * bound,
        100.0 * CHANCE,
        100.0 * low,
    );
    (verdict, why)
}

/// How likely two numbers whose difference is normal with deviation `sd` are rounded to the same multiple of `step`: numbers `d` apart
/// are with a chance of `1 - d / step`, by Simpson's rule.
fn printed_alike(sd: f64, step: f64) -> f64 {
    const PARTS: usize = 200;
    if sd == 0.0 {
        return 1.0;
    }
    let density = |d: f64| (-0.5 * (d / sd).powi(2)).exp() / (sd * (2.0 * std::f64::consts::PI).sqrt());
    let width = step / PARTS as f64;
    let at = |part: usize| {
        let weight = if part == 0 || part == PARTS {
            1.0
        } else if part % 2 == 1 {
            4.0
        } else {
            2.0
        };
        let d = part as f64 * width;
        weight * density(d) * (1.0 - d / step)
    };
    (2.0 * (0..=PARTS).map(at).sum::<f64>() * width / 3.0).min(1.0)
}

/// No time of the paper's first table is longer than with fewer threads.
fn more_threads_help(cells: &Cells) -> Judgement {
    let Some(table) = cells.paper.tables.first() else {
        return (Verdict::Undecidable, "no time is printed".into());
    };
    let rows = table.rows.iter().filter(|row| row.quantity == Quantity::Time);
    let cases = rows.flat_map(|row| {
        table.threads.windows(2).filter_map(move |threads| {
            let time_s = |threads| cells.time_s(table, row, threads);
            let (fewer, more) = (time_s(threads[0])?, time_s(threads[1])?);
            let label = format!(
                "{} {} takes {} s with {} and {} s with {} threads, longer by",
                cells.name(&row.benchmark, table.class.as_deref()),
                row.placement.as_deref().unwrap_or_default(),
                in_digits(fewer.value),
                threads[0],
                in_digits(more.value),
                threads[1],
            );
            Some(Case::new(label, Some(less(more, fewer)), LESS, " s"))
        })
    });
    every(cases.collect())
}

/// A time in seconds with about three digits, and no more than one after the point of a large one.
fn in_digits(time_s: f64) -> String {
    if time_s < 1.0 { format!("{time_s:.3}") } else { format!("{time_s:.1}") }
}

/// Each bound mapping's times deviate less than unbound ones. No paper prints its deviations.
fn bound_varies_less(cells: &Cells) -> Judgement {
    let Some(live) = cells.live else {
        let why = match cells.paper.relative_sd_below {
            Some(_) => "one bound on the deviation is printed for all runs alike",
            None => "no deviation is printed, neither of bound runs nor of others",
        };
        return (Verdict::Undecidable, why.into());
    };
    let rows = rows(cells.paper, Quantity::SpeedUp).filter(|(_, row)| row.placement.as_deref() != Some(UNBOUND));
    let cases = rows.flat_map(|(table, row)| {
        table.threads.iter().filter_map(move |&threads| {
            let bound = Place::new(table, row, threads)?;
            let unbound = Place { placement: UNBOUND.into(), ..bound.clone() };
            let deviation = |place| live.deviation_percent(place, cells.among);
            let less = deviation(&bound).zip(deviation(&unbound)).map(|(bound, unbound)| less(bound, unbound));
            let label = format!("{bound}, less unbound:");
            let less = cells.noted(bound.to_string(), less)?;
            Some(Case::new(label, Some(less), LESS, " points of deviation"))
        })
    });
    every(cases.collect())
}

/// Whoever says "these runs" has told of as many before.
fn runs_introduced(paper: &Paper) -> Judgement {
    let mentions = &paper.run_mentions;
    let back = || mentions.iter().enumerate().filter(|(_, mention)| mention.refers_back);
    let told = |at: usize, number: u32| mentions[..at].iter().any(|mention| mention.number == number);
    match (back().count(), back().find(|&(at, mention)| !told(at, mention.number))) {
        (0, _) => (Verdict::Undecidable, "the text refers to no runs".into()),
        (_, Some((at, mention))) => {
            let before = format!("{at} mentions before it are of other numbers");
            let before = if at == 0 { "no number of runs is told before" } else { &before };
            (Verdict::Fails, format!("the text speaks of \"these {} runs\", but {before}", mention.number))
        }
        (number, None) => {
            (Verdict::Holds, format!("{number} of {} mentions refer back, each to one before", mentions.len()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduction::LiveStudy;
    use stats::Pair;
    use std::collections::BTreeMap;

    /// A machine that takes the times that pires-2016 prints, twelve times each with next to no noise, with up to `most` threads;
    /// `other` says where it takes others.
    fn as_printed(most: u32, other: &[(&str, &str, u32, f64)]) -> Live {
        let paper = Paper::named("pires-2016").unwrap();
        let mut live = Live {
            times_s: BTreeMap::new(),
            subjects: BTreeMap::new(),
            ratios: BTreeMap::new(),
            study: LiveStudy::NoPrograms,
        };
        for table in &paper.tables {
            for row in &table.rows {
                for (&threads, printed) in
                    table.threads.iter().zip(&row.printed).filter(|(threads, _)| **threads <= most)
                {
                    let place = Place::new(table, row, threads).unwrap();
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
}
