//! How far apart two of many estimates must lie before noise alone is no longer an answer.

use statrs::function::erf::erf;
use statrs::function::gamma::ln_gamma;
use std::f64::consts::{LN_2, SQRT_2};

/// Nodes of Simpson's rule; even.
const NODES: usize = 120;

/// Beyond so many standard deviations a normal number isn't looked for.
const FARTHEST: f64 = 8.0;

/// The range of the logarithm is halved so often: to 4 %.
const HALVINGS: usize = 8;

/// No value beyond this is returned; with one degree of freedom and thousands of comparisons it would be.
const LARGEST: f64 = 1e5;

/// Beyond this the freedom makes no difference.
const MOST_FREEDOM: f64 = 200.0;

/// The value that the largest of `count` comparisons exceeds with probability `miss` when there are no differences: the upper
/// point of the studentised maximum modulus, max |Z_i| / S with normal Z_i that share one estimate S of their scale with
/// `freedom` degrees of freedom.
///
/// With comparisons that are correlated, as differences to one arm are, it is exceeded less often (Sidak, "Rectangular
/// confidence regions for the means of multivariate normal distributions", JASA 62, 1967; Hochberg, "Some conservative
/// generalizations of the T-method in simultaneous inference", Journal of Multivariate Analysis 4, 1974). For one
/// comparison it is Student's t, two-sided.
pub(super) fn maximum_modulus(count: usize, freedom: f64, miss: f64) -> f64 {
    let freedom = freedom.clamp(1.0, MOST_FREEDOM);
    let (count, half) = (count.max(1) as f64, freedom / 2.0);
    let step = FARTHEST / NODES as f64;
    // Given S = u / c, the chance that one of the comparisons exceeds c S; times the weight of Simpson's rule.
    let exceeded: Vec<(f64, f64, f64)> = (1..NODES)
        .map(|node| {
            let u = node as f64 * step;
            let weight = if node % 2 == 0 { 2.0 } else { 4.0 } * step / 3.0;
            (u * u, u.ln(), weight * (1.0 - erf(u / SQRT_2).powf(count)))
        })
        .collect();
    // S^2 is chi-squared over its freedom, so the density of S is 2 h^h / gamma(h) s^(2h - 1) exp(-h s^2), h half the freedom.
    let log_scale = LN_2 + half * half.ln() - ln_gamma(half);
    let missed = |log_c: f64| {
        let scale = log_scale - (freedom - 1.0) * log_c;
        let curve = half * (-2.0 * log_c).exp();
        let at =
            |&(square, log, weight): &(f64, f64, f64)| weight * (scale + (freedom - 1.0) * log - curve * square).exp();
        exceeded.iter().map(at).sum::<f64>() * (-log_c).exp()
    };
    let (mut low, mut high) = (0.0_f64, LARGEST.ln());
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        if missed(middle) > miss { low = middle } else { high = middle }
    }
    // Between ends so close the log of what is missed falls along a line.
    let (above, below) = ((missed(low) / miss).ln(), (missed(high) / miss).ln());
    (low + (high - low) * (above / (above - below)).clamp(0.0, 1.0)).exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

    #[test]
    fn one_comparison_is_student_and_sure_noise_is_sidak() {
        for freedom in [2.0, 5.0, 30.0, 200.0] {
            let student = StudentsT::new(0.0, 1.0, freedom).unwrap().inverse_cdf(0.975);
            assert!((maximum_modulus(1, freedom, 0.05) / student - 1.0).abs() < 2e-3, "{freedom} {student}");
        }
        // 200,000 draws each of the maximum of so many normal numbers over a scale with so much freedom.
        for (count, freedom, drawn) in [(3, 4.0, 3.76), (10, 10.0, 3.47), (21, 8.0, 4.06), (231, 10.0, 4.99)] {
            assert!((maximum_modulus(count, freedom, 0.05) / drawn - 1.0_f64).abs() < 5e-3, "{count} {freedom}");
        }
        let sidak = Normal::standard().inverse_cdf(0.5 + 0.5 * 0.95_f64.powf(1.0 / 21.0));
        let unknown = maximum_modulus(21, f64::INFINITY, 0.05) / sidak;
        assert!((1.0..1.02).contains(&unknown), "200 degrees of freedom are the most that count: {unknown}");
    }
}
