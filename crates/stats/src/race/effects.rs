//! Arm effects of a race: log time = arm + block + noise, fitted robustly to runs of any pattern.
//!
//! Blocks are fixed effects, so whatever slows a whole block cancels exactly. An arm that ran once is fitted exactly by its one
//! run and tells nothing of the others: only arms that ran at least twice, the *core*, enter the equations. With the blocks
//! eliminated these are `L a = r`, where `L` is the Laplacian of the graph that joins arms by the blocks they share; with
//! `K` its inverse, `K_ii + K_jj - 2 K_ij` times the noise variance is the variance of a difference (Bailey and
//! Cameron, "Combinatorics of optimal designs", Surveys in Combinatorics 2009).
//!
//! Nothing makes a run much faster than it can be, while much makes it slower. So residuals are cut at [`SLOW_CUT`] above and
//! [`FAST_CUT`] below, in units of their standard deviation, and scale and effects are iterated together (Huber's
//! proposal 2 by modified residuals: "Robust Statistics", 1981, chapters 6 and 7, with an asymmetric psi). Of two runs that
//! disagree wildly the faster one is believed.

use super::{Outcome, Run};
use statrs::distribution::{Continuous, ContinuousCDF, Normal};
use std::collections::{BTreeMap, HashMap};

/// Residuals above so many standard deviations count as that many.
const SLOW_CUT: f64 = 2.0;

/// Residuals below minus so many standard deviations count as that many.
const FAST_CUT: f64 = 3.0;

/// Mean square of a standard normal number cut at [`SLOW_CUT`] and -[`FAST_CUT`]: 0.95 by integration, and 0.9 here, because few
/// residuals shrink with the fit that they were cut for. So the 95 and 99 % points of differences over their errors are those of
/// Student's t, or up to 6 % beyond (13 at 99 % and five degrees of freedom), in drawn layouts from 2 x 2 to 22 x 10.
const CUT_VARIANCE: f64 = 0.9;

/// The noise is never taken for less (0.1 %): a coarse clock, or few runs that agree by luck, would make it nothing.
const LEAST_NOISE: f64 = 0.001;

/// Added to the Laplacian: a difference between arms that no block joins gets a variance beyond use instead of a division by 0.
const RIDGE: f64 = 1e-6;

/// Variances beyond this say that nothing joins the two arms.
const UNJOINED: f64 = 1e3;

const ITERATIONS: usize = 50;
const CONVERGED: f64 = 1e-7;

/// The noise of log times (0.02 = 2 %), pooled over arms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Noise {
    pub(super) sd: f64,
    pub(super) freedom: f64,
}

/// A difference of two arms' log times, and its standard error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Difference {
    pub(super) log: f64,
    pub(super) std_error: f64,
}

/// How one arm is fitted.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// By the equations, at this position.
    Core(usize),
    /// By its one run, in this block.
    Single(usize),
}

/// What a block means for arms that ran in it only.
#[derive(Clone, Debug)]
struct Anchor {
    /// Core runs in it.
    core_runs: f64,
    /// K m, where m is the mean of the unit vectors of its core runs.
    k_mean: Vec<f64>,
    /// m' K m.
    mean_k_mean: f64,
    mean: Vec<f64>,
}

/// The fit.
#[derive(Clone, Debug)]
pub(super) struct Effects {
    observations: Vec<Observation>,
    places: Vec<Option<(Place, f64)>>,
    inverse: Matrix,
    anchors: BTreeMap<usize, Anchor>,
    noise: Option<Noise>,
}

/// A run that took part in the fit.
#[derive(Clone, Debug)]
struct Observation {
    arm: usize,
    block: usize,
    log_s: f64,
}

impl Effects {
    /// Fits `runs` of the arms `0..arms`; runs that were cut off count with the time that they had.
    pub(super) fn fit(arms: usize, runs: &[Run]) -> Self {
        let observations = observations(arms, runs);
        let blocks = observations.iter().map(|observation| observation.block + 1).max().unwrap_or(0);
        // An arm that ran once adds one run and one unknown: it is left out here, and gets its effect from the fit below.
        let mut counts = vec![0_usize; arms];
        observations.iter().for_each(|observation| counts[observation.arm] += 1);
        // Where each arm of the core stands in the equations.
        let mut positions = vec![None; arms];
        let again = positions.iter_mut().zip(&counts).filter(|(_, count)| **count > 1);
        let size = again.zip(0..).map(|((position, _), at)| *position = Some(at)).count();
        let core: Vec<(usize, &Observation)> =
            observations.iter().filter_map(|observation| Some((positions[observation.arm]?, observation))).collect();
        let members = Members::new(blocks, &core);

        // It depends on who ran where, not on the times, so one inverse serves all iterations.
        let inverse = laplacian(size, &members).inverse();
        let fitted = Fitted::new(&core, &members, &inverse);
        // Arms that were run again because their first times were alike make the noise look smaller than it is.
        let noise =
            fitted.noise.map(|noise| Noise { sd: noise.sd / calm_of_chosen(&observations, &counts).sqrt(), ..noise });
        let place = |arm: usize| match (positions[arm], counts[arm]) {
            (Some(position), _) => Some((Place::Core(position), fitted.effects[position])),
            (None, 0) => None,
            (None, _) => {
                let observation = observations.iter().find(|observation| observation.arm == arm)?;
                Some((Place::Single(observation.block), observation.log_s - fitted.block_levels[observation.block]))
            }
        };
        let places: Vec<_> = (0..arms).map(place).collect();
        let mut anchors = BTreeMap::new();
        for (place, _) in places.iter().flatten() {
            if let Place::Single(block) = *place {
                anchors.entry(block).or_insert_with(|| Anchor::new(members.of(block), &inverse));
            }
        }
        Self { observations, places, inverse, anchors, noise }
    }

    /// The effect of `arm` on the log time, up to a constant; none when it has no times.
    pub(super) fn effect(&self, arm: usize) -> Option<f64> {
        self.places.get(arm).copied().flatten().map(|(_, effect)| effect)
    }

    /// How many arms have an effect.
    pub(super) fn known(&self) -> usize {
        self.places.iter().flatten().count()
    }

    /// The noise; none while no arm has run twice.
    pub(super) fn noise(&self) -> Option<Noise> {
        self.noise
    }

    /// `arm` against `other`; none when either has no times, nothing joins them, or the noise isn't known.
    pub(super) fn difference(&self, arm: usize, other: usize) -> Option<Difference> {
        let ((place, effect), (other_place, other_effect)) =
            (self.places.get(arm).copied()??, self.places.get(other).copied()??);
        let variance = if arm == other { 0.0 } else { self.variance(place, other_place) };
        let std_error = self.noise?.sd * variance.max(0.0).sqrt();
        (variance < UNJOINED).then_some(Difference { log: effect - other_effect, std_error })
    }

    /// `arm` against `other` over the blocks that both ran in, without the fifth of them, or the one, in which `arm` did worst
    /// and, from five blocks on, as many in which it did best; none when that leaves no block.
    pub(super) fn undisturbed_difference(&self, arm: usize, other: usize) -> Option<Difference> {
        let runs_of = |arm: usize| self.observations.iter().filter(move |observation| observation.arm == arm);
        let mut in_block = HashMap::new();
        runs_of(other).for_each(|observation| _ = in_block.entry(observation.block).or_insert(observation.log_s));
        let mut pairs: Vec<f64> = runs_of(arm)
            .filter_map(|observation| Some(observation.log_s - in_block.get(&observation.block)?))
            .collect();
        pairs.sort_unstable_by(f64::total_cmp);
        let cut = pairs.len().div_ceil(5);
        pairs.truncate(pairs.len() - cut);
        if cut + pairs.len() >= 5 {
            pairs.drain(..cut);
        }
        // The pairs are of one block each, whose level cancels: a difference has twice the variance of a run.
        let left = pairs.len() as f64;
        let std_error = self.noise?.sd * (2.0 / left).sqrt();
        (left > 0.0).then(|| Difference { log: pairs.iter().sum::<f64>() / left, std_error })
    }

    /// Variance of the difference of two arms, in units of the noise variance.
    fn variance(&self, place: Place, other: Place) -> f64 {
        let k = |row: usize, column: usize| self.inverse.at(row, column);
        match (place, other) {
            (Place::Core(i), Place::Core(j)) => k(i, i) + k(j, j) - 2.0 * k(i, j),
            (Place::Core(i), Place::Single(block)) | (Place::Single(block), Place::Core(i)) => {
                // The single run, the mean of the core runs beside it that tells its block's level, and the error of that.
                let anchor = &self.anchors[&block];
                let Some(k_mean_i) = anchor.k_mean.get(i) else { return f64::INFINITY };
                1.0 + 1.0 / anchor.core_runs + anchor.mean_k_mean - 2.0 * k_mean_i + k(i, i)
            }
            // Two runs of one block: its level cancels.
            (Place::Single(block), Place::Single(other)) if block == other => 2.0,
            (Place::Single(block), Place::Single(other)) => {
                let (one, two) = (&self.anchors[&block], &self.anchors[&other]);
                let between = one.mean_k_mean + two.mean_k_mean - 2.0 * dot(&one.mean, &two.k_mean);
                2.0 + 1.0 / one.core_runs + 1.0 / two.core_runs + between
            }
        }
    }
}

/// Log times of the runs that have one, with blocks numbered without gaps and centred on their mean.
fn observations(arms: usize, runs: &[Run]) -> Vec<Observation> {
    let mut blocks: Vec<u32> = runs.iter().map(|run| run.block).collect();
    blocks.dedup();
    blocks.sort_unstable();
    blocks.dedup();
    // As a rule they rise, so that the next run is of the same block, or of the next one.
    let mut at = 0;
    let mut place = |block: u32| {
        if blocks[at] != block {
            at = if blocks.get(at + 1) == Some(&block) { at + 1 } else { blocks.binary_search(&block).ok()? };
        }
        Some(at)
    };
    let observation = |run: &Run| Some(Observation { arm: run.arm, block: place(run.block)?, log_s: run.log_s()? });
    let mut observations: Vec<Observation> = runs.iter().filter(|run| run.arm < arms).filter_map(observation).collect();
    // Sums of numbers near 0 round less; effects are differences, for which the constant is nothing.
    let mean = observations.iter().map(|observation| observation.log_s).sum::<f64>() / observations.len().max(1) as f64;
    observations.iter_mut().for_each(|observation| observation.log_s -= mean);
    observations
}

impl Run {
    /// The log of its time, or of the time at which it was cut off; none when that is no positive number.
    pub(super) fn log_s(&self) -> Option<f64> {
        match self.outcome {
            Outcome::Time(s) | Outcome::CutOff(s) if s > 0.0 && s.is_finite() => Some(s.ln()),
            _ => None,
        }
    }
}

/// The positions of the core's runs, block by block.
struct Members {
    positions: Vec<usize>,
    /// Where each block's begin, and where the last one's end.
    from: Vec<usize>,
}

impl Members {
    fn new(blocks: usize, core: &[(usize, &Observation)]) -> Self {
        let mut from = vec![0; blocks + 1];
        core.iter().for_each(|(_, observation)| from[observation.block + 1] += 1);
        (1..=blocks).for_each(|block| from[block] += from[block - 1]);
        let mut next = from.clone();
        let mut positions = vec![0; core.len()];
        for (position, observation) in core {
            positions[next[observation.block]] = *position;
            next[observation.block] += 1;
        }
        Self { positions, from }
    }

    fn of(&self, block: usize) -> &[usize] {
        &self.positions[self.from[block]..self.from[block + 1]]
    }

    fn blocks(&self) -> impl Iterator<Item = &[usize]> {
        self.from.windows(2).map(|ends| &self.positions[ends[0]..ends[1]])
    }

    fn count(&self, block: usize) -> f64 {
        (self.from[block + 1] - self.from[block]) as f64
    }
}

/// The equations of the core with the blocks eliminated.
fn laplacian(size: usize, members: &Members) -> Matrix {
    let mut matrix = Matrix::zero(size);
    for members in members.blocks() {
        let share = 1.0 / members.len().max(1) as f64;
        for &row in members {
            *matrix.at_mut(row, row) += 1.0;
            for &column in members {
                *matrix.at_mut(row, column) -= share;
            }
        }
    }
    (0..size).for_each(|row| *matrix.at_mut(row, row) += RIDGE);
    matrix
}

/// By how much the variance of the core's runs is too small because its arms were chosen: those that were run again after the
/// first block had the lowest times in it and, if all arms were equal, thus times more alike than the noise.
///
/// The lowest share f of normal numbers has the variance 1 - z l - l^2, with z the quantile at f and l = density(z) / f
/// (Johnson, Kotz and Balakrishnan, "Continuous Univariate Distributions" 1, 1994, section 13.10.1).
fn calm_of_chosen(observations: &[Observation], counts: &[usize]) -> f64 {
    let first: Vec<usize> =
        observations.iter().filter(|observation| observation.block == 0).map(|observation| observation.arm).collect();
    let chosen = first.iter().filter(|&&arm| counts[arm] > 1).count();
    let core = counts.iter().filter(|&&count| count > 1).sum::<usize>();
    if chosen == 0 || chosen >= first.len() {
        return 1.0;
    }
    let normal = Normal::standard();
    let share = chosen as f64 / first.len() as f64;
    let z = normal.inverse_cdf(share);
    let l = normal.pdf(z) / share;
    1.0 - (z * l + l * l) * chosen as f64 / core as f64
}

/// Effects of the core, levels of the blocks, and the noise.
struct Fitted {
    effects: Vec<f64>,
    block_levels: Vec<f64>,
    noise: Option<Noise>,
}

impl Fitted {
    fn new(core: &[(usize, &Observation)], members: &Members, inverse: &Matrix) -> Self {
        let blocks = members.blocks().filter(|members| !members.is_empty()).count();
        // Runs less arms and blocks; one of these is not free, since a constant can go from all arms to all blocks.
        let freedom = (core.len() + 1) as f64 - (inverse.size + blocks) as f64;
        let mut fitted =
            Self { effects: vec![0.0; inverse.size], block_levels: vec![0.0; members.from.len() - 1], noise: None };
        let mut values: Vec<f64> = core.iter().map(|(_, observation)| observation.log_s).collect();
        fitted.solve(core, members, inverse, &values);
        if core.is_empty() || freedom < 1.0 {
            return fitted;
        }
        // How much smaller residuals are than the noise, on average.
        let shrinkage = (freedom / core.len() as f64).sqrt();
        let squares: f64 = core.iter().map(|run| fitted.residual(run).powi(2)).sum();
        // Plain least squares give the scale to begin with: too large, if anything.
        let mut sd = (squares / freedom).sqrt();
        for _ in 0..ITERATIONS {
            // Each time is replaced by the fit and its cut residual, and these are fitted again: far runs pull no more than
            // those at the cut.
            let mut squares = 0.0;
            for (value, run) in values.iter_mut().zip(core) {
                let residual = fitted.residual(run);
                let cut = residual.clamp(-FAST_CUT * shrinkage * sd, SLOW_CUT * shrinkage * sd);
                *value = run.1.log_s - residual + cut;
                squares += cut * cut;
            }
            let before = (sd, fitted.effects.clone());
            // It may only fall: so the iteration ends, and far runs are never let in again.
            sd = (squares / (freedom * CUT_VARIANCE)).sqrt().min(sd);
            fitted.solve(core, members, inverse, &values);
            let moved = before.1.iter().zip(&fitted.effects).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            if moved.max(before.0 - sd) <= CONVERGED {
                break;
            }
        }
        fitted.noise = Some(Noise { sd: sd.max(LEAST_NOISE), freedom });
        fitted
    }

    fn residual(&self, (position, observation): &(usize, &Observation)) -> f64 {
        observation.log_s - self.effects[*position] - self.block_levels[observation.block]
    }

    /// Least squares of `values`, one for each core run.
    fn solve(&mut self, core: &[(usize, &Observation)], members: &Members, inverse: &Matrix, values: &[f64]) {
        let mut means = vec![0.0; self.block_levels.len()];
        for ((_, observation), value) in core.iter().zip(values) {
            means[observation.block] += value / members.count(observation.block);
        }
        let mut right = vec![0.0; inverse.size];
        for ((position, observation), value) in core.iter().zip(values) {
            right[*position] += value - means[observation.block];
        }
        self.effects = inverse.times(&right);
        for (level, (members, mean)) in self.block_levels.iter_mut().zip(members.blocks().zip(means)) {
            let effects: f64 = members.iter().map(|&position| self.effects[position]).sum();
            *level = mean - effects / members.len().max(1) as f64;
        }
    }
}

impl Anchor {
    fn new(members: &[usize], inverse: &Matrix) -> Self {
        let mut mean = vec![0.0; inverse.size];
        members.iter().for_each(|&position| mean[position] += 1.0 / members.len() as f64);
        let k_mean = inverse.times(&mean);
        Self { core_runs: members.len() as f64, mean_k_mean: dot(&mean, &k_mean), k_mean, mean }
    }
}

/// A square matrix, row by row.
#[derive(Clone, Debug)]
struct Matrix {
    size: usize,
    values: Vec<f64>,
}

impl Matrix {
    fn zero(size: usize) -> Self {
        Self { size, values: vec![0.0; size * size] }
    }

    fn at(&self, row: usize, column: usize) -> f64 {
        self.values[row * self.size + column]
    }

    fn at_mut(&mut self, row: usize, column: usize) -> &mut f64 {
        &mut self.values[row * self.size + column]
    }

    fn times(&self, vector: &[f64]) -> Vec<f64> {
        if self.size == 0 {
            Vec::new()
        } else {
            self.values.chunks_exact(self.size).map(|row| dot(row, vector)).collect()
        }
    }

    /// The inverse of a symmetric, positive definite matrix, by Gauss and Jordan in place: no pivot is needed.
    fn inverse(mut self) -> Self {
        let n = self.size;
        for pivot in 0..n {
            let scale = 1.0 / self.at(pivot, pivot);
            *self.at_mut(pivot, pivot) = 1.0;
            let row: Vec<f64> = self.values[pivot * n..(pivot + 1) * n].iter().map(|value| value * scale).collect();
            self.values[pivot * n..(pivot + 1) * n].copy_from_slice(&row);
            for other in (0..n).filter(|&other| other != pivot) {
                let factor = self.at(other, pivot);
                *self.at_mut(other, pivot) = 0.0;
                let target = &mut self.values[other * n..(other + 1) * n];
                target.iter_mut().zip(&row).for_each(|(value, row)| *value -= factor * row);
            }
        }
        self
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
