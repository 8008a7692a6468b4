//! Whether what programs report as their times moves against the time that they took.
//!
//! A time that a program takes of a part of itself goes up with the time of the whole, or has nothing to do with it. A rate (work
//! over time) goes down. Which it is shows in ranks, which no unit and no outlier can disturb: Kendall's tau of all pairs of runs
//! that did the same work, with the variance that Kendall, *Rank Correlation Methods* (1970), chapter 4, gives for ties.

use std::cmp::Ordering;

/// A run: what the program reports, and how long it took.
pub type ReportedAndTaken = (f64, f64);

/// Numbers that fall where runs take longer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Opposition {
    /// Kendall's tau, from -1 for numbers that always do so.
    pub correlation: f64,
    /// So many runs say so.
    pub runs: usize,
    /// Whether runs under the same placement say so by themselves. Else a placement may make what is timed faster, and the rest of
    /// the program slower.
    pub is_within_cells: bool,
}

/// Weaker correlations than this are not told.
const STRONG: f64 = -0.5;

/// Runs below which nothing is told.
const MIN_RUNS: usize = 8;

/// One in 2000, one-sided: a study has several subjects, and is asked again after each block.
const Z_OVER_PLACEMENTS: f64 = -3.3;

/// One in 100, one-sided, on top of the other.
const Z_WITHIN_CELLS: f64 = -2.33;

/// Most runs of a group that are compared: their pairs grow with the square.
const MOST_RUNS: usize = 1000;

/// What the runs of one subject show. Each group has the runs that did the same work with as many threads, a list for each cell
/// (placement). None where the numbers don't move against the times, strongly and beyond chance.
pub fn opposition(groups: &[Vec<Vec<ReportedAndTaken>>]) -> Option<Opposition> {
    let over_placements: Vec<Vec<ReportedAndTaken>> = groups.iter().map(|cells| cells.concat()).collect();
    let runs = over_placements.iter().map(Vec::len).sum();
    let (correlation, z) = kendall(&over_placements)?;
    if runs < MIN_RUNS || correlation > STRONG || z > Z_OVER_PLACEMENTS {
        return None;
    }
    let is_within_cells = kendall(&groups.concat()).is_some_and(|(_, z)| z <= Z_WITHIN_CELLS);
    Some(Opposition { correlation, runs, is_within_cells })
}

/// Kendall's tau-b over pairs of the same group, and how many standard deviations it is from 0; none where one side never changes.
fn kendall(groups: &[Vec<ReportedAndTaken>]) -> Option<(f64, f64)> {
    let (mut score, mut variance, mut untied) = (0.0, 0.0, [0.0, 0.0]);
    for group in groups {
        let step = group.len().div_ceil(MOST_RUNS).max(1);
        let runs: Vec<ReportedAndTaken> = group.iter().step_by(step).copied().collect();
        for (at, one) in runs.iter().enumerate() {
            for other in &runs[..at] {
                let [by_reported, by_taken] = [one.0.total_cmp(&other.0), one.1.total_cmp(&other.1)].map(sign);
                score += by_reported * by_taken;
                untied[0] += by_reported.abs();
                untied[1] += by_taken.abs();
            }
        }
        variance += variance_of_score(&runs);
    }
    let tau = score / (untied[0] * untied[1]).sqrt();
    let z = score / variance.sqrt();
    (tau.is_finite() && z.is_finite()).then_some((tau, z))
}

fn sign(ordering: Ordering) -> f64 {
    match ordering {
        Ordering::Less => -1.0,
        Ordering::Equal => 0.0,
        Ordering::Greater => 1.0,
    }
}

/// The variance of the score of `runs` if neither number had to do with the other.
fn variance_of_score(runs: &[ReportedAndTaken]) -> f64 {
    let n = runs.len() as f64;
    if n < 2.0 {
        return 0.0;
    }
    let ties = [ties(runs.iter().map(|run| run.0)), ties(runs.iter().map(|run| run.1))];
    let sums = |term: fn(f64) -> f64| ties.each_ref().map(|sizes| sizes.iter().map(|size| term(*size)).sum::<f64>());
    let untied = |t: f64| t * (t - 1.0) * (2.0 * t + 5.0);
    let (tied, pairs, triples) = (sums(untied), sums(|t| t * (t - 1.0)), sums(|t| t * (t - 1.0) * (t - 2.0)));
    let of_triples = if n > 2.0 { triples[0] * triples[1] / (9.0 * n * (n - 1.0) * (n - 2.0)) } else { 0.0 };
    (untied(n) - tied[0] - tied[1]) / 18.0 + pairs[0] * pairs[1] / (2.0 * n * (n - 1.0)) + of_triples
}

/// How many of `numbers` are equal to one another, for each that there is.
fn ties(numbers: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut sorted: Vec<f64> = numbers.collect();
    sorted.sort_by(f64::total_cmp);
    sorted.chunk_by(|a, b| a == b).map(|equal| equal.len() as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All orders of 0..n, by Heap's algorithm.
    fn orders(n: usize) -> Vec<Vec<usize>> {
        fn heap(k: usize, order: &mut Vec<usize>, all: &mut Vec<Vec<usize>>) {
            if k <= 1 {
                return all.push(order.clone());
            }
            for i in 0..k {
                heap(k - 1, order, all);
                order.swap(if k.is_multiple_of(2) { i } else { 0 }, k - 1);
            }
        }
        let (mut order, mut all) = ((0..n).collect(), Vec::new());
        heap(n, &mut order, &mut all);
        all
    }

    #[test]
    fn the_variance_is_that_of_all_orders() {
        for (reported, taken) in [
            ([1.0_f64, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0_f64, 2.0, 3.0, 4.0, 5.0, 6.0]),
            ([1.0, 1.0, 3.0, 4.0, 5.0, 5.0], [1.0, 2.0, 2.0, 2.0, 5.0, 6.0]),
        ] {
            let scores: Vec<f64> = orders(6)
                .iter()
                .map(|order| {
                    let pairs = (0..6).flat_map(|one| (0..one).map(move |other| (one, other)));
                    let score = |(one, other): (usize, usize)| {
                        let by_taken = taken[order[one]].total_cmp(&taken[order[other]]);
                        sign(reported[one].total_cmp(&reported[other])) * sign(by_taken)
                    };
                    pairs.map(score).sum()
                })
                .collect();
            let variance = scores.iter().map(|score| score * score).sum::<f64>() / scores.len() as f64;
            let runs: Vec<ReportedAndTaken> = reported.into_iter().zip(taken).collect();
            assert!((variance_of_score(&runs) - variance).abs() < 1e-9, "{} {variance}", variance_of_score(&runs));
        }
    }

    #[test]
    fn a_rate_is_told_from_a_time_by_hand() {
        let rate: Vec<ReportedAndTaken> = (1..=8).map(|run| (12.0 / f64::from(run), f64::from(run))).collect();
        let found = opposition(&[vec![rate.clone()]]).unwrap();
        assert_eq!((found.correlation, found.runs, found.is_within_cells), (-1.0, 8, true));
        let time = rate.iter().map(|(_, taken)| (taken / 2.0, *taken)).collect();
        assert_eq!(opposition(&[vec![time]]), None);
        assert_eq!(opposition(&[vec![rate[..7].to_vec()]]), None, "too few");
        assert_eq!(opposition(&[vec![vec![(1.0, 2.0); 20]]]), None, "nothing changes");
        assert_eq!(opposition(&[]), None);
    }
}
