//! Numbers between two ends, and arithmetic that keeps the ends: a printed number stands for all that are rounded to it.

use crate::paper::Printed;
use simulation::Estimated;

/// A number without doubt.
pub(super) fn exactly(value: f64) -> Estimated {
    Estimated { value, low: None, high: None }
}

/// A printed number and all that are printed so.
pub(super) fn rounded(printed: Printed) -> Estimated {
    let (low, high) = printed.bounds();
    Estimated { value: printed.value, low: Some(low), high: Some(high) }
}

/// The ends of a number; of one without doubt both are the number itself.
pub(super) fn ends(number: Estimated) -> (f64, f64) {
    (number.low.unwrap_or(number.value), number.high.unwrap_or(number.value))
}

/// `a` and `b`, of two numbers that know nothing of one another.
pub(super) fn plus(a: Estimated, b: Estimated) -> Estimated {
    let ((a_low, a_high), (b_low, b_high)) = (ends(a), ends(b));
    Estimated { value: a.value + b.value, low: Some(a_low + b_low), high: Some(a_high + b_high) }
}

/// `a` less `b`.
pub(super) fn less(a: Estimated, b: Estimated) -> Estimated {
    let ((a_low, a_high), (b_low, b_high)) = (ends(a), ends(b));
    Estimated { value: a.value - b.value, low: Some(a_low - b_high), high: Some(a_high - b_low) }
}

/// `a` times `b`, both positive.
pub(super) fn times(a: Estimated, b: Estimated) -> Estimated {
    let ((a_low, a_high), (b_low, b_high)) = (ends(a), ends(b));
    Estimated { value: a.value * b.value, low: Some(a_low * b_low), high: Some(a_high * b_high) }
}

/// `a` over `b`, both positive.
pub(super) fn over(a: Estimated, b: Estimated) -> Estimated {
    let ((a_low, a_high), (b_low, b_high)) = (ends(a), ends(b));
    Estimated { value: a.value / b.value, low: Some(a_low / b_high), high: Some(a_high / b_low) }
}

/// A number with the other sign.
pub(super) fn negated(number: Estimated) -> Estimated {
    less(exactly(0.0), number)
}
