//! What programs that run at once come to, from how much slower each was than by itself.
//!
//! The metrics are those of Eyerman and Eeckhout, "System-level performance metrics for multiprogram workloads", IEEE Micro 28(3),
//! 2008, section "System-level metrics", and the index of Jain, Chiu and Hawe, "A quantitative measure of fairness and discrimination",
//! DEC TR-301, 1984. `docs/design/treatments.md` works an example by hand.

/// Average normalized turnaround time: the mean of the slowdowns, each a program's time in the mix over its time by itself. Less is
/// better, and 1 is as if each ran by itself. None without programs.
pub fn antt(slowdowns: &[f64]) -> Option<f64> {
    (!slowdowns.is_empty()).then(|| slowdowns.iter().sum::<f64>() / slowdowns.len() as f64)
}

/// System throughput: the sum of what each program gets of its progress by itself, the reciprocals of the slowdowns. More is better,
/// and 1 is what running one after the other gives. None without programs.
pub fn stp(slowdowns: &[f64]) -> Option<f64> {
    (!slowdowns.is_empty()).then(|| slowdowns.iter().map(|slowdown| slowdown.recip()).sum())
}

/// Jain's index of `shares`: 1 where all are alike, and 1 / n where one has everything. None without any, or where all are 0.
pub fn jain_index(shares: &[f64]) -> Option<f64> {
    let (sum, squares) = shares.iter().fold((0.0, 0.0), |(sum, squares), share| (sum + share, squares + share * share));
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The example of docs/design/treatments.md: three programs that take 5/4, 3/2 and twice their times.
    #[test]
    fn the_metrics_equal_the_example_that_is_worked_by_hand() {
        let slowdowns = [1.25, 1.5, 2.0];
        let close = |value: Option<f64>, by_hand: f64| (value.unwrap() - by_hand).abs() < 1e-15;
        assert!(close(antt(&slowdowns), 19.0 / 12.0));
        assert!(close(stp(&slowdowns), 59.0 / 30.0));
        assert!(close(jain_index(&slowdowns.map(f64::recip)), 3481.0 / 3603.0));
    }

    #[test]
    fn of_no_programs_there_is_nothing_to_say() {
        assert_eq!((antt(&[]), stp(&[]), jain_index(&[]), jain_index(&[0.0])), (None, None, None, None));
    }

    proptest! {
        #[test]
        fn programs_that_don_t_disturb_each_other_have_their_whole_throughput(count in 1_usize..50) {
            let slowdowns = vec![1.0; count];
            prop_assert_eq!(antt(&slowdowns), Some(1.0));
            prop_assert_eq!(stp(&slowdowns), Some(count as f64));
            prop_assert_eq!(jain_index(&slowdowns), Some(1.0));
        }

        #[test]
        fn the_index_doesn_t_depend_on_scale_or_order_and_lies_between_one_over_n_and_one(
            mut shares in prop::collection::vec(0.01_f64..100.0, 1..20), scale in 0.1_f64..10.0,
        ) {
            let index = jain_index(&shares).unwrap();
            prop_assert!(index <= 1.0 + 1e-12 && index >= 1.0 / shares.len() as f64 - 1e-12);
            shares.reverse();
            shares.iter_mut().for_each(|share| *share *= scale);
            prop_assert!((jain_index(&shares).unwrap() - index).abs() < 1e-12);
        }

        #[test]
        fn the_harmonic_mean_of_slowdowns_is_below_the_arithmetic_one(slowdowns in prop::collection::vec(0.5_f64..50.0, 1..20)) {
            let count = slowdowns.len() as f64;
            prop_assert!(count / stp(&slowdowns).unwrap() <= antt(&slowdowns).unwrap() * (1.0 + 1e-12));
        }
    }
}
