//! Whether a placement paper's claims follow from the numbers that it prints: each by a computation.
//!
//! A printed number stands for all that are rounded to it, and what isn't so of all of them isn't decided. What a claim says of runs
//! can be asked of this machine's too, by the same check.

use crate::case::{Case, LESS, MORE, all, both, every};
use crate::cells::{Cells, name, rows};
use crate::coincidence::measured_anew;
use crate::gain::{Gain, affinity_gains, gains, geometric_mean, share};
use crate::interval::{exactly, less, over, rounded};
use crate::live::Live;
use crate::paper::{Paper, Place, Printed, Quantity};
use crate::reproduction::LiveVerdict;
use crate::verdict::{Judgement, Verdict, undecidable};
use crate::{machine_claims, references};
use study::plan::UNBOUND;

/// Share of cells from which something is often so.
const OFTEN: f64 = 0.5;

/// Share of cells up to which there are few.
const FEW: f64 = 0.1;

/// Thread counts with which the text of the papers speaks of few gains.
const FEW_THREADS: [u32; 5] = [1, 2, 4, 8, 16];

/// Judges a paper's claim by the check of that name, on what the paper prints.
pub(super) fn judge(check: &str, paper: &Paper) -> Judgement {
    judge_runs(check, &Cells::printed(paper))
        .or_else(|| judge_print(check, paper))
        .or_else(|| machine_claims::judge(check, paper))
        .unwrap_or_else(|| undecidable("nothing is computed for it"))
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
    let (mut verdict, mut why) = judge_runs(check, &Cells::measured(paper, live, found))?;
    if found < asked {
        if verdict == Verdict::Holds {
            verdict = Verdict::Undecidable;
        }
        let missing = asked - found;
        why += &format!("; {missing} of the {asked} numbers that it speaks of weren't measured often enough here");
    }
    Some(LiveVerdict { verdict, why })
}

/// Judges by a check of what is printed, whoever ran it.
fn judge_print(check: &str, paper: &Paper) -> Option<Judgement> {
    Some(match check {
        "ratios-of-times" => ratios(paper),
        "measured-anew" => measured_anew(paper, &gains(&Cells::printed(paper), "compact", "scatter", &[1, 8])),
        "figure-printed" => {
            let rows = rows(paper, Quantity::SpeedUp).filter(|(_, row)| row.placement.is_some());
            let cells: Vec<Option<Printed>> = rows.flat_map(|(_, row)| row.printed.iter().copied()).collect();
            let label = format!("numbers that have come down to us, of {}:", cells.len());
            all([Case::near(label, exactly(cells.iter().flatten().count() as f64), cells.len() as f64, 0.0, "")])
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
    let (equal, above_deviation) = ((-deviation, deviation), (deviation, f64::INFINITY));
    let ranged = |gains: &[Gain], range| every(gains.iter().map(|gain| gain.case(range)));
    Some(match check {
        "one-thread" => ranged(&affinity_gains(cells, &[1]), equal),
        "compact-often-slower" => all([2, 4].map(|threads| {
            let share = share(&gains(cells, "compact", "unbound", &[threads]), above_deviation);
            let label = format!("with {threads} threads slower by more than {deviation} %:");
            Case::new(label, share, (100.0 * OFTEN, 100.0), " % of the benchmarks")
        })),
        "compact-faster-only-with-8" => both(
            ranged(&gains(cells, "unbound", "compact", &[2, 4]), LESS),
            ranged(&gains(cells, "unbound", "compact", &[8]), MORE),
        ),
        "times-as-fast" => {
            let gains = gains(cells, "unbound", "compact", &[8]);
            all([("BT", "2.1"), ("EP", "1.3")].map(|(benchmark, times)| {
                let gain = gains.iter().find(|gain| gain.benchmark == benchmark).map(|gain| gain.percent);
                Case::new(format!("{benchmark} gains"), gain, as_gain(times), " %")
            }))
        }
        "small-gains" => {
            let gains = gains(cells, "unbound", "compact", &[8]);
            let small = gains.iter().filter(|gain| !["BT", "EP"].contains(&gain.benchmark));
            // About 1 %, and 2 to 3 %, as far as they are rounded.
            all(small.map(|gain| gain.case(if gain.benchmark == "FT" { (0.5, 1.5) } else { (1.5, 3.5) })))
        }
        "scatter-over-compact" => both(
            ranged(&gains(cells, "compact", "scatter", &[2, 4]), MORE),
            ranged(&gains(cells, "unbound", "scatter", &[2, 4]), equal),
        ),
        "compact-is-scatter" => {
            let gains = gains(cells, "compact", "scatter", &[1, 8]);
            let (verdict, mut why) = ranged(&gains, equal);
            if cells.live.is_none() {
                let alike = gains.iter().filter(|gain| gain.is_printed_alike).count();
                why += &format!("; {alike} of {} are printed alike to the last digit", gains.len());
            }
            (verdict, why)
        }
        "little-change" => {
            let gains = affinity_gains(cells, &FEW_THREADS);
            let cases = gains.iter().map(|gain| gain.case(equal));
            let changed: Vec<String> =
                cases.filter(|case| case.verdict() != Verdict::Holds).map(|case| case.text()).collect();
            let share = share(&gains, equal).map(|unchanged| less(exactly(100.0), unchanged));
            let label = format!("changed by more than {deviation} %: {};", changed.join(", "));
            all([Case::new(label, share, (0.0, 100.0 * FEW), " % of the cells")])
        }
        "most-with-32-and-64" => {
            let unbound = rows(paper, Quantity::Time).filter(|(_, row)| row.placement.as_deref() == Some(UNBOUND));
            every(unbound.filter_map(|(table, row)| {
                let (benchmark, class) = (row.benchmark.as_str(), table.class.as_deref());
                let most = |counts: &[u32]| {
                    let gains = affinity_gains(cells, counts).into_iter();
                    gains.filter(|gain| (gain.benchmark, gain.class) == (benchmark, class)).reduce(Gain::larger)
                };
                let (late, early) = (most(&[32, 64])?, most(&FEW_THREADS)?);
                let name = cells.name(benchmark, class);
                let label = format!("{name}: most with {} threads, and before with {}:", late.threads, early.threads);
                Some(Case::new(label, less(late.percent, early.percent), MORE, " points"))
            }))
        }
        "class-a-over-c" => {
            let (verdict, why) = all(several_threads(paper).map(|threads| {
                let mean = |class| {
                    let mut gains = affinity_gains(cells, &[threads]);
                    gains.retain(|gain| gain.class == Some(class));
                    geometric_mean(&gains)
                };
                let lead = mean("A").zip(mean("C")).map(|(a, c)| less(a, c));
                Case::new(format!("A less C with {threads} threads"), lead, MORE, " points")
            }));
            (verdict, format!("geometric means: {why}"))
        }
        "all-gain-with-32-and-64" => {
            let [with_32, with_64] = [(32, "1.4"), (64, "1.8")].map(|(threads, times)| {
                let gains = affinity_gains(cells, &[threads]);
                let gained = ranged(&gains, MORE);
                let most = gains.into_iter().reduce(Gain::larger);
                let label = most.as_ref().map_or_else(String::new, |most| format!("most: {}", most.label()));
                both(gained, all([Case::new(label, most.map(|most| most.percent), as_gain(times), " %")]))
            });
            both(with_32, with_64)
        }
        "only-sp-notable" => {
            let gains = affinity_gains(cells, &FEW_THREADS);
            let (of_sp, others): (Vec<Gain>, Vec<Gain>) = gains.into_iter().partition(|gain| gain.benchmark == "SP");
            let most = of_sp.into_iter().reduce(Gain::larger);
            both(ranged(&others, (f64::NEG_INFINITY, deviation)), all(most.map(|most| most.case(above_deviation))))
        }
        "speed-ups" => every([(2, 2.0), (4, 3.5), (8, 5.0)].map(|(threads, about)| {
            // The text's own numbers can't bear it out: those of the mappings must.
            let mappings = rows(paper, Quantity::SpeedUp).filter(|(_, row)| row.placement.is_some());
            let speed_ups = mappings.filter_map(|(table, row)| cells.speed_up(table, row, threads));
            let best = speed_ups.max_by(|a, b| a.value.total_cmp(&b.value));
            let half_step = 0.25;
            Case::near(format!("the best with {threads} threads"), best, about, half_step, "")
        })),
        "balanced-first" => every(several_threads(paper).flat_map(|threads| {
            let speed_up = |placement: &str| {
                let mut rows = rows(paper, Quantity::SpeedUp);
                let (table, row) = rows.find(|(_, row)| row.placement.as_deref() == Some(placement))?;
                cells.speed_up(table, row, threads)
            };
            ["unbound", "semi-balanced", "unbalanced"].map(|other| {
                let lead = speed_up("balanced").zip(speed_up(other)).map(|(balanced, other)| less(balanced, other));
                Case::new(format!("balanced less {other} with {threads} threads"), lead, MORE, "")
            })
        })),
        "bound-varies-less" => bound_varies_less(cells),
        "compact-generally-slower" => ranged(&gains(cells, "compact", "unbound", &[2, 4]), above_deviation),
        "gains-over-deviation" => {
            let mut gains = gains(cells, "unbound", "compact", &[8]);
            gains.retain(|gain| !["BT", "EP", "FT"].contains(&gain.benchmark));
            ranged(&gains, above_deviation)
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

/// Thread counts of the paper's first table, but for one thread, which has nothing to gain.
fn several_threads(paper: &Paper) -> impl Iterator<Item = u32> {
    paper.tables.first().into_iter().flat_map(|table| table.threads.iter().copied()).filter(|&threads| threads > 1)
}

/// Each printed ratio is of the printed times, as far as rounding goes.
fn ratios(paper: &Paper) -> Judgement {
    let (mut number, mut contradicted, mut otherwise) = (0, Vec::new(), Vec::new());
    for (table, row) in rows(paper, Quantity::Ratio) {
        let class = table.class.as_deref();
        for (&threads, ratio) in table.threads.iter().zip(&row.printed) {
            let time = |placement: Option<&str>| paper.time_s(&row.benchmark, class, placement?, threads);
            let (Some(ratio), Some(unbound), Some(bound)) =
                (*ratio, time(Some(UNBOUND)), time(row.placement.as_deref()))
            else {
                continue;
            };
            number += 1;
            let times = over(rounded(unbound), rounded(bound));
            let computed = Printed { value: times.value, ..ratio };
            let text = format!("{} with {threads} threads {ratio}, of times {computed}", name(&row.benchmark, class));
            let (low, high) = ratio.bounds();
            if times.high.is_some_and(|x| x < low) || times.low.is_some_and(|x| x > high) {
                contradicted.push(text);
            } else if computed.to_string() != ratio.to_string() {
                otherwise.push(text);
            }
        }
    }
    match (number, contradicted.is_empty()) {
        (0, _) => undecidable("no ratio is printed beside its times"),
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

/// No time of the paper's first table is longer than with fewer threads.
fn more_threads_help(cells: &Cells) -> Judgement {
    let Some(table) = cells.paper.tables.first() else {
        return undecidable("no time is printed");
    };
    let rows = table.rows.iter().filter(|row| row.quantity == Quantity::Time);
    every(rows.flat_map(|row| {
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
            Some(Case::new(label, less(more, fewer), LESS, " s"))
        })
    }))
}

/// A time in seconds with about three digits, and no more than one after the point of a large one.
fn in_digits(time_s: f64) -> String {
    if time_s < 1.0 { format!("{time_s:.3}") } else { format!("{time_s:.1}") }
}

/// Each bound mapping's times deviate less than unbound ones. No paper prints its deviations.
fn bound_varies_less(cells: &Cells) -> Judgement {
    let Some(live) = cells.live else {
        return undecidable(match cells.paper.relative_sd_below {
            Some(_) => "one bound on the deviation is printed for all runs alike",
            None => "no deviation is printed, neither of bound runs nor of others",
        });
    };
    let rows = rows(cells.paper, Quantity::SpeedUp).filter(|(_, row)| row.placement.as_deref() != Some(UNBOUND));
    every(rows.flat_map(|(table, row)| {
        table.threads.iter().filter_map(move |&threads| {
            let bound = Place::new(table, row, threads)?;
            let unbound = Place { placement: UNBOUND.into(), ..bound.clone() };
            let deviation = |place| live.deviation_percent(place, cells.among);
            let less = deviation(&bound).zip(deviation(&unbound)).map(|(bound, unbound)| less(bound, unbound));
            let less = cells.noted(bound.to_string(), less)?;
            Some(Case::new(format!("{bound}, less unbound:"), less, LESS, " points of deviation"))
        })
    }))
}

/// Whoever says "these runs" has told of as many before.
fn runs_introduced(paper: &Paper) -> Judgement {
    let mentions = &paper.run_mentions;
    let back: Vec<_> = mentions.iter().enumerate().filter(|(_, mention)| mention.refers_back).collect();
    let is_introduced = |at: usize, number: u32| mentions[..at].iter().any(|mention| mention.number == number);
    match back.iter().find(|(at, mention)| !is_introduced(*at, mention.number)) {
        _ if back.is_empty() => undecidable("the text refers to no runs"),
        Some((at, mention)) => {
            let before = match at {
                0 => "no number of runs is told before".into(),
                at => format!("{at} mentions before it are of other numbers"),
            };
            (Verdict::Fails, format!("the text speaks of \"these {} runs\", but {before}", mention.number))
        }
        None => {
            (Verdict::Holds, format!("{} of {} mentions refer back, each to one before", back.len(), mentions.len()))
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
            study: LiveStudy {
                subjects: Vec::new(),
                elsewhere: None,
                cpu_model: None,
                kernel: String::new(),
                trials: 0,
                kept_in: String::new(),
                ending: None,
                departures: Vec::new(),
            },
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
