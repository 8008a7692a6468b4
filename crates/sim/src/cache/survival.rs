//! What is left of a process's lines in a cache after others have used it.
//!
//! Let a cache have `a` ways and `N` frames (lines that it can hold), let `x` lines of a process be in it when it leaves,
//! and let others then use `m` distinct lines. In a set, `X ~ Binomial(a, x/N)` frames hold lines of the process and `Y`
//! distinct lines of others come by, `a m/N` on average (Thiebaut and Stone, "Footprints in the cache", ACM TOCS 5(4), 1987).
//! LRU replacement takes what is older than the process's lines first, then those, so `s = min(X, a - Y)` of them stay, none
//! when `Y >= a`.
//!
//! Lines that lie anywhere come by in Poisson numbers. The lines that one intruder uses again and again lie side by side, so
//! they come by in `Binomial(a, m_i/N)` numbers, which vary less: few sets overflow. `Y` is therefore taken as a binomial and a
//! Poisson number whose sum has the mean and the variance of all of them, `a m/N` and `a (m/N - sum of (m_i/N)^2)`: the
//! binomial part has `sqrt(sum of m_i^2)` lines.
//!
//! Those that stay are then the oldest of their set. So each line that the process brings back drives out one that
//! stayed, unless all stayed or it was used first. In random order the `i`-th line used again has stayed with probability
//! `(s - i)/(X - i)`, hence the set hits `sum over i < s of (s - i)/(X - i)`. In blocked order the line wanted next is
//! always the one just driven out: nothing is hit unless everything stayed. What counts as surviving here is what is hit.
//!
//! With one way, all this is `x exp(-m/N)`, with `-N ln(1 - m_i/N)` for `m_i` lines side by side, and needs no table. Nor does a
//! single set of all frames: `s = min(x, N - m)`, and the sum over `i < s` of `(s - i)/(x - i)` is `s - (x - s) ln(x/(x - s))`.

use super::decay::Decay;
use super::footprint::Order;

/// Steps a frame along each axis of the table. Interpolation errs by less than 0.05 of the lines (tested), most where lines
/// and intruders just fill the cache.
const STEPS: usize = 16;
/// Lines lying anywhere, a frame, beyond which nothing is taken to be left: 0.003 of the lines with two ways, less with more.
const LIMIT: usize = 4;
const SIDE_BY_SIDE: usize = STEPS + 1;
const ANYWHERE: usize = LIMIT * STEPS + 1;
/// More ways than this are as good as all of them.
const MAX_WAYS: u32 = 32;

/// Distinct lines that others have used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Intruders {
    /// The number of lines.
    pub lines: f64,
    /// The sum of the squares of those that lie side by side, by intruder.
    pub squares: f64,
}

/// How the lines of a process survive in a cache of some geometry.
#[derive(Clone, Debug)]
pub(super) struct Survival {
    /// Per frame, for speed.
    per_frame: f64,
    sets: Sets,
}

/// How frames make sets.
#[derive(Clone, Debug)]
enum Sets {
    /// Each is one.
    OfOne,
    /// Of a few: the share that survives, by lines of the process, and of intruders side by side and anywhere, a frame.
    OfSome(Vec<f32>),
    /// All are one, of so many.
    One(f64, Order),
}

/// Of `lines` in a single set, how many are found again when this many of all frames are left for them.
fn found_in_one_set(order: Order, lines: f64, room: f64) -> f64 {
    match order {
        _ if room >= lines => lines,
        Order::Random if room > 0.0 => room - (lines - room) * libm::log(lines / (lines - room)),
        _ => 0.0,
    }
}

impl Survival {
    /// The survival in a cache of `frames` frames in sets of `ways` (none: one set of them all) of lines that are used in
    /// `order`.
    pub fn new(frames: f64, ways: Option<u32>, order: Order) -> Self {
        let table = |ways: usize| {
            let step = |i: usize| i as f64 / STEPS as f64;
            let hits = Hits::new(ways, order);
            let beside: Vec<_> = (0..=STEPS).map(|i| binomial(ways - 1, step(i))).collect();
            let anywhere: Vec<_> = (0..ANYWHERE).map(|i| poisson(ways - 1, ways as f64 * step(i))).collect();
            let found: Vec<_> = (0..SIDE_BY_SIDE)
                .map(|i| binomial(ways, step(i)))
                .flat_map(|side_by_side| {
                    anywhere.iter().map(move |anywhere| sum(&side_by_side, anywhere)).collect::<Vec<_>>()
                })
                .map(|intruders| hits.found(&intruders))
                .collect();
            beside.iter().flat_map(|beside| found.iter().map(|found| share(beside, found) as f32)).collect()
        };
        let sets = match ways {
            Some(0 | 1) => Sets::OfOne,
            Some(ways @ ..=MAX_WAYS) => Sets::OfSome(table(ways as usize)),
            _ => Sets::One(frames, order),
        };
        Self { per_frame: frames.recip(), sets }
    }

    /// Of `lines` with these intruders above the first and those above the last, how many are in the cache.
    pub(super) fn staying(&self, decay: &Decay, lines: f64, first: Intruders, last: Intruders) -> f64 {
        let middle =
            Intruders { lines: (first.lines + last.lines) / 2.0, squares: (first.squares + last.squares) / 2.0 };
        match self.sets {
            Sets::One(frames, _) => (frames - first.lines).clamp(0.0, lines),
            // Simpson's rule, of what becomes of a line that is alone.
            _ => {
                let alone = |intruders| self.surviving(decay, 1e-6, intruders) * 1e6;
                lines * (alone(first) + 4.0 * alone(middle) + alone(last)) / 6.0
            }
        }
    }

    /// Whether nothing survives so many.
    #[inline]
    pub(super) fn is_beyond(&self, intruders: Intruders) -> bool {
        match self.sets {
            Sets::OfOne | Sets::OfSome(_) => intruders.lines * self.per_frame >= LIMIT as f64,
            Sets::One(frames, _) => intruders.lines >= frames,
        }
    }

    /// What becomes of `lines` in the cache among intruders that lie anywhere.
    pub(super) fn crowd(&self, lines: f64) -> Crowd {
        let x = lines * self.per_frame * STEPS as f64;
        let step = self.per_frame.recip() / STEPS as f64;
        let left = match &self.sets {
            Sets::OfOne => None,
            Sets::OfSome(table) => {
                Some(Box::new(std::array::from_fn(|k| lines * interpolate(table, x, 0.0, k as f64))))
            }
            &Sets::One(frames, order) => {
                Some(Box::new(std::array::from_fn(|k| found_in_one_set(order, lines, frames - k as f64 * step))))
            }
        };
        Crowd { lines, per_frame: self.per_frame, left }
    }

    /// Of `lines` in the cache, how many are found again after `intruders`.
    #[inline]
    pub(super) fn surviving(&self, decay: &Decay, lines: f64, intruders: Intruders) -> f64 {
        let table = match &self.sets {
            Sets::OfOne => return lines * decay.left(intruders.lines * self.per_frame),
            Sets::OfSome(table) => table,
            &Sets::One(frames, order) => return found_in_one_set(order, lines, frames - intruders.lines),
        };
        let side_by_side = intruders.squares.sqrt().min(intruders.lines);
        let steps = self.per_frame * STEPS as f64;
        let anywhere = (intruders.lines - side_by_side) * steps;
        if anywhere >= (ANYWHERE - 1) as f64 {
            return 0.0;
        }
        lines * interpolate(table, lines * steps, side_by_side * steps, anywhere)
    }
}

/// The share that survives between the points of a [`Survival`]'s table, in its steps.
#[inline]
fn interpolate(table: &[f32], x: f64, y: f64, z: f64) -> f64 {
    // The cell, and where in it.
    let cell = |at: f64, cells: usize| (at as usize).min(cells - 1);
    let (x, y) = (x.min(STEPS as f64), y.min(STEPS as f64));
    let (i, j, k) = (cell(x, STEPS), cell(y, SIDE_BY_SIDE - 1), cell(z, ANYWHERE - 1));
    let (x, y, z) = (x - i as f64, y - j as f64, z - k as f64);
    let along_z = |i: usize, j: usize| {
        let at = (i * SIDE_BY_SIDE + j) * ANYWHERE + k;
        let (here, next) = (f64::from(table[at]), f64::from(table[at + 1]));
        here + z * (next - here)
    };
    let along_y = |i: usize| {
        let (here, next) = (along_z(i, j), along_z(i, j + 1));
        here + y * (next - here)
    };
    let (here, next) = (along_y(i), along_y(i + 1));
    here + x * (next - here)
}

/// How a given number of lines survives intruders that lie anywhere.
#[derive(Clone, Debug)]
pub(super) struct Crowd {
    lines: f64,
    per_frame: f64,
    /// The lines that survive, by intruders a frame; none with one way.
    left: Option<Box<[f64; ANYWHERE]>>,
}

impl Crowd {
    /// How many are found again after so many intruders.
    #[inline]
    pub fn left(&self, decay: &Decay, intruders: f64) -> f64 {
        let Some(left) = &self.left else {
            return self.lines * decay.left(intruders * self.per_frame);
        };
        let at = intruders * (self.per_frame * STEPS as f64);
        if at >= (ANYWHERE - 1) as f64 {
            return 0.0;
        }
        let k = at as usize;
        left[k] + (at - k as f64) * (left[k + 1] - left[k])
    }
}

/// How many lines of a process are hit in a set, by how many it left there and how many others have used.
struct Hits {
    ways: usize,
    hits: Vec<f64>,
}

impl Hits {
    fn new(ways: usize, order: Order) -> Self {
        let hit = |lines: usize, intruders: usize| {
            let staying = lines.min(ways - intruders);
            match order {
                _ if staying == lines => lines as f64,
                Order::Random => (0..staying).map(|i| (staying - i) as f64 / (lines - i) as f64).sum(),
                Order::Blocked => 0.0,
            }
        };
        Self { ways, hits: (1..=ways).flat_map(|lines| (0..ways).map(move |y| hit(lines, y))).collect() }
    }

    /// The share of its lines that a process finds where it left 1, 2, ... of them, when `intruders[y]` is the probability
    /// that others have used `y` lines in the set.
    fn found(&self, intruders: &[f64]) -> Vec<f64> {
        let sets = self.hits.chunks_exact(self.ways).zip(1..);
        sets.map(|(hits, lines)| share(intruders, hits) / f64::from(lines)).collect()
    }
}

/// The probabilities of the sum of two numbers, as far as the shorter goes.
fn sum(a: &[f64], b: &[f64]) -> Vec<f64> {
    (0..a.len().min(b.len())).map(|n| (0..=n).map(|i| a[i] * b[n - i]).sum()).collect()
}

/// The probabilities of 0, 1, ... `trials` successes.
fn binomial(trials: usize, probability: f64) -> Vec<f64> {
    let mut successes = vec![1.0];
    for _ in 0..trials {
        let mut next = vec![0.0; successes.len() + 1];
        for (k, p) in successes.iter().enumerate() {
            next[k] += p * (1.0 - probability);
            next[k + 1] += p * probability;
        }
        successes = next;
    }
    successes
}

/// The probabilities of 0, 1, ... `most` events of which `mean` are expected.
fn poisson(most: usize, mean: f64) -> Vec<f64> {
    std::iter::successors(Some((0.0, libm::exp(-mean))), |&(k, p)| Some((k + 1.0, p * mean / (k + 1.0))))
        .map(|(_, p)| p)
        .take(most + 1)
        .collect()
}

/// The mean of `shares` with these probabilities.
fn share(probabilities: &[f64], shares: &[f64]) -> f64 {
    probabilities.iter().zip(shares).map(|(p, share)| p * share).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anywhere(lines: f64) -> Intruders {
        Intruders { lines, squares: 0.0 }
    }

    #[test]
    fn one_way_loses_lines_exponentially() {
        let direct_mapped = Survival::new(16_384.0, Some(1), Order::Random);
        // The report's Matrix on itself: facts of its sections 3.1.1 and 3.2.2.
        let lost = 3_000.0 - direct_mapped.surviving(&Decay::new(), 3_000.0, anywhere(6_000.0));
        assert!((lost - 3_000.0 * (1.0 - (-6_000.0f64 / 16_384.0).exp())).abs() < 1e-9);
    }

    #[test]
    fn two_ways_by_hand() {
        // One line alone in its set stays when at most one line of others comes by: exp(-2v)(1 + 2v).
        let (frames, intruding) = (1_000.0, 500.0);
        let survival = Survival::new(frames, Some(2), Order::Random);
        let alone = (-1.0f64).exp() * 2.0;
        assert!((survival.surviving(&Decay::new(), 1e-6, anywhere(intruding)) / 1e-6 - alone).abs() < 1e-6);
        // Two in their set: none by, both hit; one by, one stays and is hit if it is used first.
        let random = (-1.0f64).exp() * (1.0 + 0.25);
        assert!((survival.surviving(&Decay::new(), frames, anywhere(intruding)) / frames - random).abs() < 1e-6);
        // A single line of others for each set comes by in one of two ways: 1/4 none, 1/2 one, 1/4 two, which leave nothing.
        let side_by_side = Intruders { lines: intruding, squares: intruding * intruding };
        assert!((survival.surviving(&Decay::new(), frames, side_by_side) / frames - (0.25 + 0.5 * 0.25)).abs() < 1e-6);
        let blocked = Survival::new(frames, Some(2), Order::Blocked);
        assert!(
            (blocked.surviving(&Decay::new(), frames, anywhere(intruding)) / frames - (-1.0f64).exp()).abs() < 1e-6
        );
    }

    #[test]
    fn interpolation_is_close_to_the_expectation_and_never_gains_from_intruders() {
        for (ways, order) in [(2, Order::Random), (4, Order::Blocked), (16, Order::Random), (16, Order::Blocked)] {
            let survival = Survival::new(1.0, Some(ways as u32), order);
            let hits = Hits::new(ways, order);
            let decay = Decay::new();
            for (lines, side_by_side) in
                (0..=25).flat_map(|x| (0..=10).map(move |y| (f64::from(x) * 0.04, f64::from(y) * 0.1)))
            {
                let beside = binomial(ways - 1, lines);
                let mut before = survival.surviving(&decay, lines, anywhere(0.0));
                for z in 0..60 {
                    let fresh = f64::from(z) * 0.063;
                    let intruders = Intruders { lines: side_by_side + fresh, squares: side_by_side * side_by_side };
                    let in_a_set = sum(&binomial(ways, side_by_side), &poisson(ways - 1, ways as f64 * fresh));
                    let exact = lines * share(&beside, &hits.found(&in_a_set));
                    let interpolated = survival.surviving(&decay, lines, intruders);
                    let case = format!("{ways} {order:?} {lines} {intruders:?}: {interpolated} {exact}");
                    assert!((interpolated - exact).abs() <= 0.05 * lines, "{case}");
                    assert!(interpolated <= before + 1e-12, "{case}");
                    before = interpolated;
                }
            }
        }
    }
}
