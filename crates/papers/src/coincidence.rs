//! Whether two tables of a paper can be of different runs, when their times are printed alike.

use crate::gain::Gain;
use crate::paper::Paper;
use crate::verdict::{Judgement, Verdict, undecidable};
use statrs::function::erf::erf;
use std::f64::consts::{PI, SQRT_2};

/// By how many times a stated bound on deviations may exceed what was seen: more would tell readers nothing.
const LOOSEST_BOUND: f64 = 10.0;

/// Below which a coincidence isn't believed.
const CHANCE: f64 = 0.05;

/// Two tables' times of the same runs would differ, had each been measured: how likely they are printed alike follows from the
/// deviation that the paper states. The difference of two means of `RUNS` runs is taken as normal, and both as rounded alike when
/// it is less than the last digit, weighted by how near.
pub(super) fn measured_anew(paper: &Paper, gains: &[Gain]) -> Judgement {
    const RUNS: f64 = 5.0;
    let Some(bound) = paper.relative_sd_below.filter(|_| !gains.is_empty()) else {
        return undecidable("no deviation is printed, or no time twice");
    };
    let alike: Vec<&Gain> = gains.iter().filter(|gain| gain.is_printed_alike).collect();
    let chance = |relative_sd: f64| -> f64 {
        let chances = alike.iter().map(|gain| {
            let sd = relative_sd * gain.time.value * (2.0 / RUNS).sqrt();
            printed_alike(sd, gain.time.bounds().1 - gain.time.bounds().0)
        });
        chances.product()
    };
    // The deviation at which the coincidence is just believed, by bisection: chances fall as deviations grow.
    let (mut low, mut high) = (0.0, bound);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if chance(middle) > CHANCE { low = middle } else { high = middle }
    }
    let verdict = if chance(bound / LOOSEST_BOUND) < CHANCE { Verdict::Fails } else { Verdict::Holds };
    let why = format!(
        "{} of {} times are printed alike to the last digit, which has a chance of {:.0e} if runs deviate by a {LOOSEST_BOUND}th of the {} % that \
         the paper states as bound, and of {:.0} % only below {:.2} %",
        alike.len(),
        gains.len(),
        chance(bound / LOOSEST_BOUND),
        100.0 * bound,
        100.0 * CHANCE,
        100.0 * low,
    );
    (verdict, why)
}

/// How likely two numbers whose difference is normal with deviation `sd` are rounded to the same multiple of `step`: numbers `d` apart
/// are with a chance of `1 - d / step`, which is integrated over the density of `d`.
fn printed_alike(sd: f64, step: f64) -> f64 {
    if sd == 0.0 {
        return 1.0;
    }
    let x = step / (sd * SQRT_2);
    erf(x) + (-x * x).exp_m1() / (x * PI.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chance_of_a_coincidence_is_the_integral_over_all_distances() {
        for (sd, step) in [(0.01, 0.1), (0.1, 0.1), (0.3, 0.1), (5.0, 0.1)] {
            let density = |d: f64| (-0.5 * (d / sd).powi(2)).exp() / (sd * (2.0 * PI).sqrt());
            let middles = (0..10_000).map(|part| (f64::from(part) + 0.5) * step / 10_000.0);
            let sum: f64 = middles.map(|d| 2.0 * density(d) * (1.0 - d / step) * step / 10_000.0).sum();
            assert!((printed_alike(sd, step) - sum).abs() < 1e-6, "{sd} {step}");
        }
        assert_eq!(printed_alike(0.0, 0.1), 1.0);
    }
}
