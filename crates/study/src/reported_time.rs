//! The time that a program reports of itself: what it says, and whether that can be a time of its run.

use crate::plan::Plan;
use crate::times::counted;
use crate::trial::Trial;
use stats::{Opposition, opposition};

/// How much faster than ours the program's clock may run.
const CLOCK_ERROR: f64 = 0.01;

/// The shortest time that both clocks can tell, in seconds.
const CLOCK_STEP_S: f64 = 0.001;

/// A number as a program printed it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Printed {
    /// The number.
    pub value: f64,
    /// What one of its last digit stands for: a time that is printed in whole seconds may be one too long.
    step: f64,
}

impl Printed {
    /// Reads a decimal number, with an exponent or without; none when it isn't one.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let value = text.parse().ok()?;
        let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let decimals = digits.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        let exponent = exponent.parse::<i32>().unwrap_or(0).saturating_sub(i32::try_from(decimals).unwrap_or(i32::MAX));
        Some(Self { value, step: 10.0_f64.powi(exponent) })
    }

    /// The number as the time of a run that took `wall_s` seconds.
    ///
    /// # Errors
    /// Why it can't be that, in a sentence.
    pub(crate) fn time_s(self, wall_s: f64) -> Result<f64, String> {
        let Self { value, step } = self;
        if !value.is_finite() || value <= 0.0 {
            return Err(format!("it reports {value} seconds, which can't be compared"));
        }
        if value > wall_s * (1.0 + CLOCK_ERROR) + CLOCK_STEP_S + step {
            return Err(format!(
                "it reports a time of {value} s, and ran for {wall_s:.3} s in all; if that number isn't seconds of elapsed time \
                 (but a rate, milliseconds, or CPU time of all threads), let the time-regex find one that is, or leave it out so \
                 that wall time counts"
            ));
        }
        Ok(value)
    }
}

/// Whether what a subject of `plan`, by its position, reports as its time moves against the time that its runs took; none where wall
/// time counts.
pub(crate) fn opposition_of(plan: &Plan, trials: &[Trial], subject: usize) -> Option<Opposition> {
    plan.subjects[subject].time_regex.as_ref().filter(|_| plan.subjects[subject].is_timed())?;
    let mut groups = vec![Vec::new(); plan.threads.len()];
    for cell in plan.cells().filter(|cell| cell.subject == subject) {
        let runs = counted(plan, trials, cell).filter_map(|(trial, reported_s)| Some((reported_s, trial.ran_s?)));
        groups[cell.threads].push(runs.collect());
    }
    opposition(&groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_larger_than_the_run_is_no_time_of_it() {
        let time_s = |text: &str, wall_s| Printed::parse(text).unwrap().time_s(wall_s);
        assert_eq!(time_s("1.234", 1.240), Ok(1.234));
        let error = time_s("13507.3", 1.2341).unwrap_err();
        assert!(
            error.starts_with(
                "it reports a time of 13507.3 s, and ran for 1.234 s in all; if that number isn't seconds"
            )
        );
        assert!(time_s("2.5", 1.0).is_err());
        assert!(time_s("-1", 1.0).is_err() && time_s("nan", 1.0).is_err() && time_s("inf", 1.0).is_err());
        assert_eq!(Printed::parse("fast"), None);
    }

    #[test]
    fn clocks_and_digits_may_err_by_a_little() {
        let is_time = |text: &str, wall_s| Printed::parse(text).unwrap().time_s(wall_s).is_ok();
        assert!(is_time("1.005", 1.0) && !is_time("1.020", 1.0), "a clock that is 1 % fast");
        assert!(is_time("0.01", 0.0012) && !is_time("0.02", 0.0012), "hundredths");
        assert!(is_time("1", 0.4) && !is_time("2", 0.4), "whole seconds");
        assert!(is_time("1.5e-1", 0.145) && is_time("2E0", 1.5) && !is_time("2.00E0", 1.5), "exponents");
    }
}
