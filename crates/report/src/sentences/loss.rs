//! What a placement loses against the best, in a sentence.

use super::percent;
use crate::wording::{self, Wording};
use study::Metric;
use study::max_loss::{Loss, LossVerdict};

/// The loss of the placement under check, and whether it is more than allowed.
pub fn loss(verdict: &LossVerdict) -> String {
    let LossVerdict { subject, placement, max_percent, metric, loss } = verdict;
    let text = match loss {
        Loss::IsBest if *metric == Metric::default() => "is itself the fastest".into(),
        Loss::IsBest => format!("is itself the best by its {}", wording::name(metric)),
        Loss::Unknown => "has no run that went well, so its loss can't be told".into(),
        Loss::Measured { best, ratio } => {
            let change = |ratio: f64| percent(ratio - 1.0);
            let (value, low, high) = (change(ratio.value), change(ratio.low), change(ratio.high));
            let low = low.trim_end_matches(" %");
            let limit = match verdict.is_exceeded() {
                Some(true) => format!("more than the {max_percent} % allowed"),
                Some(false) => format!("within the {max_percent} % allowed"),
                None => format!("not shown to be more than the {max_percent} % allowed; a longer race can tell"),
            };
            match Wording::new(metric) {
                Wording::Time => {
                    format!("takes {value} more time than {best} (95 % interval {low} to {high}): {limit}")
                }
                _ => {
                    let name = wording::name(metric);
                    format!("is {value} worse than {best} by its {name} (95 % interval {low} to {high}): {limit}")
                }
            }
        }
    };
    format!("{subject}: {placement} {text}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use study::verdict::Interval;

    #[test]
    fn a_loss_is_set_against_what_is_allowed() {
        let sentence = |max_percent, loss| {
            let (subject, placement) = ("app".into(), "unbound".into());
            super::loss(&LossVerdict { subject, placement, max_percent, metric: Metric::default(), loss })
        };
        let measured = |max_percent| {
            let ratio = Interval { value: 1.1, low: 1.08, high: 1.12 };
            sentence(max_percent, Loss::Measured { best: "scatter".into(), ratio })
        };
        let slower = "app: unbound takes 10.0 % more time than scatter (95 % interval 8.0 to 12.0 %): ";
        assert_eq!(measured(5.0), format!("{slower}more than the 5 % allowed"));
        assert_eq!(measured(12.5), format!("{slower}within the 12.5 % allowed"));
        assert_eq!(
            measured(10.0),
            format!("{slower}not shown to be more than the 10 % allowed; a longer race can tell")
        );
        assert_eq!(sentence(5.0, Loss::IsBest), "app: unbound is itself the fastest");
        assert_eq!(sentence(5.0, Loss::Unknown), "app: unbound has no run that went well, so its loss can't be told");
    }
}
