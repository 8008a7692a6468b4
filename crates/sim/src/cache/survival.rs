//! What is left of a process's lines in a cache after others have used it.
//!
//! Let a cache have `a` ways and `N` frames (lines that it can hold), let `x` lines of a process be in it when it leaves,
//! and let others then refer to `m` distinct lines. In a set, `X ~ Binomial(a, x/N)` frames hold lines of the process
//! and `Y ~ Poisson(a m/N)` distinct lines of others come by (Thiebaut and Stone, "Footprints in the cache", ACM TOCS
//! 5(4), 1987, with the Poisson limit of many sets). LRU replacement takes what is older than the process's lines first,
//! then those, so `s = min(X, a - Y)` of them stay, none when `Y >= a`.
//!
//! Those that stay are then the oldest of their set. So each line that the process brings back drives out one that
//! stayed, unless all stayed or it was used first. In random order the `i`-th line used again has stayed with probability
//! `(s - i)/(X - i)`, hence the set hits `sum over i < s of (s - i)/(X - i)`. In blocked order the line wanted next is
//! always the one just driven out: nothing is hit unless everything stayed. What counts as surviving here is what is hit.
//!
//! With one way, all this is `x exp(-m/N)` and needs no table.

use super::footprint::Order;

/// Steps a frame in the table, along both axes. Interpolation errs by less than 0.03 of the lines (tested), and that where they nearly
/// fill the cache.
const STEPS: usize = 32;
/// Intruding lines a frame beyond which nothing is left: 1e-4 of the lines with two ways, fewer with more.
const LIMIT: usize = 6;
const ROW: usize = LIMIT * STEPS + 1;
/// More ways than this are as good as this many.
const MAX_WAYS: u32 = 64;

/// How the lines of a process survive in a cache of some geometry.
#[derive(Clone, Debug)]
pub struct Survival {
    /// Per frame, for speed.
    per_frame: f64,
    /// The share that survives, by row `x/N` and column `m/N`; none with one way.
    table: Option<Vec<f32>>,
}

impl Survival {
    /// The survival in a cache of `frames` frames in sets of `ways` (none: one set of them all) of lines that are used in
    /// `order`.
    pub fn new(frames: f64, ways: Option<u32>, order: Order) -> Self {
        let ways = ways.unwrap_or(MAX_WAYS).clamp(1, MAX_WAYS);
        let table = (ways > 1).then(|| {
            let rows = (0..=STEPS).map(|row| binomial(ways as usize, row as f64 / STEPS as f64)).collect::<Vec<_>>();
            let hits =
                (0..ROW).map(|column| hits(ways as usize, column as f64 / STEPS as f64, order)).collect::<Vec<_>>();
            let share =
                |resident: &[f64], hit: &[f64]| resident.iter().zip(hit).map(|(p, share)| p * share).sum::<f64>();
            rows.iter().flat_map(|row| hits.iter().map(|column| share(row, column) as f32)).collect()
        });
        Self { per_frame: frames.recip(), table }
    }

    /// Of `lines` in the cache, how many are found again after others have used `intruding` distinct lines.
    #[inline]
    pub fn surviving(&self, lines: f64, intruding: f64) -> f64 {
        let intruding = intruding * self.per_frame;
        let Some(table) = &self.table else {
            return lines * libm::exp(-intruding);
        };
        let column = intruding * STEPS as f64;
        if column >= (ROW - 1) as f64 {
            return 0.0;
        }
        let row = (lines * self.per_frame).min(1.0) * STEPS as f64;
        let (i, j) = ((row as usize).min(STEPS - 1), column as usize);
        let (down, right) = (row - i as f64, column - j as f64);
        let at = |i: usize, j: usize| f64::from(table[i * ROW + j]);
        let along = |i: usize| at(i, j) + right * (at(i, j + 1) - at(i, j));
        lines * (along(i) + down * (along(i + 1) - along(i)))
    }
}

/// For a line in a set of `ways` of which each holds a line of the process with `probability`: how probable it is to have
/// 0, 1, ... others of the process beside it.
fn binomial(ways: usize, probability: f64) -> Vec<f64> {
    let mut beside = vec![1.0];
    for _ in 1..ways {
        let mut next = vec![0.0; beside.len() + 1];
        for (k, p) in beside.iter().enumerate() {
            next[k] += p * (1.0 - probability);
            next[k + 1] += p * probability;
        }
        beside = next;
    }
    beside
}

/// The share of its lines that a process finds in a set where it left 1, 2, ... `ways` of them, when others have used
/// `intruding` distinct lines a frame.
fn hits(ways: usize, intruding: f64, order: Order) -> Vec<f64> {
    let mean = ways as f64 * intruding;
    let mut poisson = libm::exp(-mean);
    let mut share = vec![0.0; ways];
    for intruders in 0..ways {
        for lines in 1..=ways {
            let staying = lines.min(ways - intruders);
            let hit = match order {
                _ if staying == lines => lines as f64,
                Order::Random => (0..staying).map(|i| (staying - i) as f64 / (lines - i) as f64).sum(),
                Order::Blocked => 0.0,
            };
            share[lines - 1] += poisson * hit / lines as f64;
        }
        poisson *= mean / (intruders + 1) as f64;
    }
    share
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_way_loses_lines_exponentially() {
        let direct_mapped = Survival::new(16_384.0, Some(1), Order::Random);
        // The report's Matrix on itself: facts of its sections 3.1.1 and 3.2.2.
        let lost = 3_000.0 - direct_mapped.surviving(3_000.0, 6_000.0);
        assert!((lost - 3_000.0 * (1.0 - (-6_000.0f64 / 16_384.0).exp())).abs() < 1e-9);
    }

    #[test]
    fn two_ways_by_hand() {
        // One line alone in its set stays when at most one line of others comes by: exp(-2v)(1 + 2v).
        let (frames, intruding) = (1_000.0, 500.0);
        let survival = Survival::new(frames, Some(2), Order::Random);
        let alone = (-1.0f64).exp() * 2.0;
        assert!((survival.surviving(1e-6, intruding) / 1e-6 - alone).abs() < 1e-6);
        // Two in their set: none by, both hit; one by, one stays and is hit if it is used first.
        let random = (-1.0f64).exp() * (1.0 + 0.25);
        assert!((survival.surviving(frames, intruding) / frames - random).abs() < 1e-6);
        let blocked = Survival::new(frames, Some(2), Order::Blocked);
        assert!((blocked.surviving(frames, intruding) / frames - (-1.0f64).exp()).abs() < 1e-6);
    }

    #[test]
    fn interpolation_is_close_to_the_expectation_and_never_gains_from_intruders() {
        for (ways, order) in [(2, Order::Random), (4, Order::Blocked), (16, Order::Random), (16, Order::Blocked)] {
            let survival = Survival::new(1.0, Some(ways as u32), order);
            for row in 0..=50 {
                let lines = f64::from(row) * 0.02;
                let resident = binomial(ways, lines);
                let mut before = lines;
                for column in 0..300 {
                    let intruding = f64::from(column) * 0.023;
                    let exact: f64 =
                        resident.iter().zip(hits(ways, intruding, order)).map(|(p, share)| p * share).sum::<f64>();
                    let interpolated = survival.surviving(lines, intruding);
                    assert!(
                        (interpolated - lines * exact).abs() <= 0.03 * lines,
                        "{ways} {order:?} {lines} {intruding}"
                    );
                    assert!((0.0..=before).contains(&interpolated));
                    before = interpolated;
                }
            }
        }
    }
}
