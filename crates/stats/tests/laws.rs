//! What holds for every sample, whatever it is.

use proptest::prelude::*;
use stayput_stats::{
    Claim, Disturbance, Mark, Pair, PairedRatio, Surroundings, block_permutation, claims, disturbances,
};
use stayput_stats::{drift, estimate, holm};
use stayput_stats::{is_settled, median_interval, outliers, paired_ratio, quantile};

/// Pairs with noise, outliers, and now and then a clock so coarse that many times are equal.
fn pairs() -> impl Strategy<Value = Vec<Pair>> {
    let time_s = prop_oneof![0.5..2.0_f64, 1.0..1.05_f64, (1..6_u32).prop_map(|ticks| f64::from(ticks) / 100.0)];
    prop::collection::vec((time_s.clone(), time_s), 5..40).prop_map(|times| {
        times.into_iter().map(|(reference_s, treatment_s)| Pair { reference_s, treatment_s }).collect()
    })
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn the_unit_of_time_is_nothing(pairs in pairs(), exponent in -20..20_i32, seed: u64) {
        let unit = 2.0_f64.powi(exponent);
        let scaled: Vec<Pair> = pairs.iter()
            .map(|pair| Pair { reference_s: pair.reference_s * unit, treatment_s: pair.treatment_s * unit })
            .collect();
        let (ours, theirs) = (paired_ratio(&pairs, seed).unwrap(), paired_ratio(&scaled, seed).unwrap());
        prop_assert!(close(ours.ratio(), theirs.ratio()), "{ours:?} {theirs:?}");
    }

    #[test]
    fn exchanging_reference_and_treatment_inverts_all_exactly(pairs in pairs(), seed: u64) {
        let swapped: Vec<Pair> = pairs.iter()
            .map(|pair| Pair { reference_s: pair.treatment_s, treatment_s: pair.reference_s })
            .collect();
        let (ours, theirs) = (paired_ratio(&pairs, seed).unwrap(), paired_ratio(&swapped, seed).unwrap());
        prop_assert_eq!(ours.log_ratio, -theirs.log_ratio);
        prop_assert_eq!(ours.std_error, theirs.std_error);
        prop_assert_eq!(ours.p_value(), theirs.p_value());
        prop_assert!(close(ours.low(), 1.0 / theirs.high()) && close(ours.high(), 1.0 / theirs.low()));
        let opposite = |claim: &Claim| match claim {
            Claim::Faster => Claim::Slower,
            Claim::Slower => Claim::Faster,
            Claim::NoneShown => Claim::NoneShown,
        };
        prop_assert_eq!(claims(&[ours])[0], opposite(&claims(&[theirs])[0]));
    }

    #[test]
    fn the_order_of_pairs_is_nothing(pairs in pairs(), seed: u64, block: u32) {
        let shuffled: Vec<Pair> = block_permutation(seed, block, 0, pairs.len()).iter().map(|&pair| pairs[pair]).collect();
        prop_assert_eq!(paired_ratio(&pairs, seed).unwrap(), paired_ratio(&shuffled, seed).unwrap());
    }

    #[test]
    fn an_interval_holds_its_estimate_and_agrees_with_its_p_value(pairs in pairs(), seed: u64) {
        let comparison = paired_ratio(&pairs, seed).unwrap();
        let (low, ratio, high) = (comparison.low(), comparison.ratio(), comparison.high());
        prop_assert!(0.0 < low && low <= ratio && ratio <= high && high.is_finite(), "{comparison:?}");
        let p_value = comparison.p_value();
        prop_assert!((0.0..=1.0).contains(&p_value));
        if comparison.std_error > 0.0 && (p_value - 0.05).abs() > 1e-9 {
            prop_assert_eq!(comparison.excludes_one(), p_value < 0.05, "{:?} {}", comparison, p_value);
        }
        prop_assert!(comparison.smallest_detectable(1) >= 0.0);
        prop_assert!(comparison.smallest_detectable(100) >= comparison.smallest_detectable(1));
    }

    #[test]
    fn what_disturbs_faster_disturbs_slower_and_all_smaller_effects(
        pairs in pairs(), ratio in 0.5..2.0_f64, load in 0.0..4.0_f64, steal_share in 0.0..0.2_f64,
    ) {
        let surroundings = Surroundings {
            usable_cpus: 4, threads: 2, others_busy_cpus: None, load_average: Some(load), steal_share: Some(steal_share),
        };
        let swapped: Vec<Pair> = pairs.iter()
            .map(|pair| Pair { reference_s: pair.treatment_s, treatment_s: pair.reference_s })
            .collect();
        let found = disturbances(&pairs, ratio, &surroundings);
        let causes = |found: &[Disturbance]| found.iter().map(|found| found.cause).collect::<Vec<_>>();
        // A little less, since an effect at its very threshold may be inverted by rounding.
        let of_swapped = disturbances(&swapped, ratio.powf(-0.999), &surroundings);
        prop_assert!(causes(&found).iter().all(|cause| causes(&of_swapped).contains(cause)), "{found:?} {of_swapped:?}");
        prop_assert!(found.iter().all(|found| found.relative_change > 0.0 && found.relative_change.is_finite()));
        prop_assert!(disturbances(&pairs, ratio.sqrt(), &surroundings).len() >= found.len());
    }

    #[test]
    fn narrower_is_settled_later(pairs in pairs(), width in 0.001..1.0_f64) {
        prop_assert!(!is_settled(&pairs, width, 5, 1) || is_settled(&pairs, 2.0 * width, 5, 1));
    }

    #[test]
    fn holm_raises_and_keeps_the_order(p_values in prop::collection::vec(0.0..=1.0_f64, 0..20)) {
        let adjusted = holm(&p_values);
        prop_assert_eq!(adjusted.len(), p_values.len());
        for (i, &p) in p_values.iter().enumerate() {
            prop_assert!(p <= adjusted[i] && adjusted[i] <= 1.0);
            prop_assert!(adjusted[i] <= p * p_values.len() as f64 + 1e-15, "never beyond Bonferroni");
            for (j, &other) in p_values.iter().enumerate() {
                prop_assert!(p > other || adjusted[i] <= adjusted[j]);
            }
        }
    }

    #[test]
    fn more_comparisons_never_add_claims(ts in prop::collection::vec(-10.0..10.0_f64, 1..12)) {
        let comparisons: Vec<PairedRatio> =
            ts.iter().map(|t| PairedRatio { pairs: 20, log_ratio: 0.01 * t, std_error: 0.01 }).collect();
        for (comparison, among_all) in comparisons.iter().zip(claims(&comparisons)) {
            let alone = claims(&[*comparison])[0];
            prop_assert!(among_all == Claim::NoneShown || among_all == alone);
        }
    }

    #[test]
    fn a_block_runs_everything_once(seed: u64, block: u32, group: u32, len in 0..200_usize) {
        let mut order = block_permutation(seed, block, group, len);
        prop_assert_eq!(&order, &block_permutation(seed, block, group, len));
        order.sort_unstable();
        prop_assert_eq!(order, (0..len).collect::<Vec<_>>());
    }

    #[test]
    fn any_numbers_at_all_give_no_panic_and_no_nan(times_s in prop::collection::vec(prop::num::f64::ANY, 0..30)) {
        let times: Vec<Pair> =
            times_s.windows(2).map(|pair| Pair { reference_s: pair[0], treatment_s: pair[1] }).collect();
        if let Some(comparison) = paired_ratio(&times, 1) {
            prop_assert!(!comparison.low().is_nan() && !comparison.high().is_nan() && !comparison.p_value().is_nan());
            prop_assert!(!comparison.relative_width().is_nan() && !comparison.smallest_detectable(3).is_nan());
        }
        prop_assert!(!is_settled(&times, f64::NAN, 1, 1));
        let unknown = Surroundings {
            usable_cpus: 0, threads: 0, others_busy_cpus: None, load_average: times_s.first().copied(), steal_share: times_s.last().copied(),
        };
        prop_assert!(disturbances(&times, 1.1, &unknown).iter().all(|found| !found.relative_change.is_nan()));
        if let Some(estimate) = estimate(&times_s) {
            prop_assert!(estimate.min_s <= estimate.median_s && estimate.median_s <= estimate.max_s);
            prop_assert!(estimate.mean_s.is_finite() && estimate.sd_s.is_none_or(|sd_s| sd_s >= 0.0));
        }
        prop_assert!(quantile(&times_s, 0.3).is_none_or(f64::is_finite));
        prop_assert!(median_interval(&times_s).is_none_or(|(low, high)| low <= high));
        prop_assert_eq!(outliers(&times_s).len(), times_s.len());
        prop_assert!(holm(&times_s).iter().all(|p| (0.0..=1.0).contains(p)));
        let points: Vec<(f64, f64)> = times_s.iter().enumerate().map(|(block, &time_s)| (block as f64, time_s)).collect();
        prop_assert!(drift(&points).is_none_or(|drift| !drift.relative_change.is_nan() && !drift.p_value.is_nan()));
    }

    #[test]
    fn marks_do_not_depend_on_the_unit(times_s in prop::collection::vec(0.9..1.2_f64, 0..30), exponent in -9..9_i32) {
        let scaled: Vec<f64> = times_s.iter().map(|time_s| time_s * 2.0_f64.powi(exponent)).collect();
        prop_assert_eq!(outliers(&times_s), outliers(&scaled));
        let typical = outliers(&times_s).iter().filter(|&&mark| mark == Mark::Typical).count();
        prop_assert!(2 * typical >= times_s.len(), "the median has company");
    }
}
