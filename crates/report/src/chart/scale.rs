//! Scales: from values to places on a drawing, and the round values to name.

use std::ops::Range;

/// Maps values onto CSS pixels.
pub(super) struct Scale {
    values: Range<f64>,
    places: Range<f64>,
    /// What grows evenly along the scale.
    transform: fn(f64) -> f64,
}

impl Scale {
    pub(super) fn linear(values: Range<f64>, places: Range<f64>) -> Self {
        Self { values, places, transform: |value| value }
    }

    /// For values above 0.
    pub(super) fn logarithmic(values: Range<f64>, places: Range<f64>) -> Self {
        Self { values, places, transform: f64::ln }
    }

    /// By square root, which shows what is rare beside what is common.
    pub(super) fn root(values: Range<f64>, places: Range<f64>) -> Self {
        Self { values, places, transform: f64::sqrt }
    }

    /// Where `value` lies.
    pub(super) fn at(&self, value: f64) -> f64 {
        let [start, end, value] = [self.values.start, self.values.end, value].map(self.transform);
        let length = if end > start { end - start } else { 1.0 };
        self.places.start + (self.places.end - self.places.start) * ((value - start) / length)
    }

    /// Where `value` lies, or the end of the scale that it is beyond.
    pub(super) fn within(&self, value: f64) -> f64 {
        self.at(value.max(self.values.start).min(self.values.end))
    }

    /// Whether `value` is on the scale.
    pub(super) fn holds(&self, value: f64) -> bool {
        (self.values.start..=self.values.end).contains(&value)
    }

    /// At most `most` round values on the scale, each written with the decimals that tell it from the next.
    pub(super) fn ticks(&self, most: usize) -> Vec<(f64, String)> {
        let Range { start, end } = self.values;
        let magnitude = ((end - start) / most as f64).log10().floor();
        if !magnitude.is_finite() {
            return Vec::new();
        }
        let count = |step: &f64| (end / step).floor() - (start / step).ceil() + 1.0;
        let steps = [1.0, 2.0, 5.0, 10.0, 20.0].map(|step| step * 10_f64.powf(magnitude));
        let Some(step) = steps.into_iter().find(|step| count(step) <= most as f64) else { return Vec::new() };
        // A hair more than the step, since the logarithm of 0.1 may be a hair below -1.
        let decimals = (-(step * 1.001).log10().floor()).clamp(0.0, 9.0) as usize;
        let tick = |index: usize| ((start / step).ceil() + index as f64) * step + 0.0;
        (0..count(&step) as usize).map(tick).map(|tick| (tick, format!("{tick:.decimals$}"))).collect()
    }
}

/// The smallest range that holds all finite values; none without any.
pub(super) fn span(values: impl IntoIterator<Item = f64>) -> Option<Range<f64>> {
    values.into_iter().filter(|value| value.is_finite()).fold(None, |range: Option<Range<f64>>, value| match range {
        None => Some(value..value),
        Some(range) => Some(range.start.min(value)..range.end.max(value)),
    })
}

/// `range` with a twentieth to spare on either side, and some width if it had none.
pub(super) fn padded(range: Range<f64>) -> Range<f64> {
    let room = (range.end - range.start) / 20.0;
    let room = if room > 0.0 { room } else { (range.start.abs() / 20.0).max(1e-9) };
    range.start - room..range.end + room
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_few_and_round_and_have_the_decimals_that_tell_them_apart() {
        let names = |values: Range<f64>, most: usize| -> Vec<String> {
            Scale::linear(values, 0.0..100.0).ticks(most).into_iter().map(|(_, name)| name).collect()
        };
        assert_eq!(names(89.0..97.0, 4), ["90", "92", "94", "96"]);
        assert_eq!(names(0.24..0.41, 4), ["0.25", "0.30", "0.35", "0.40"]);
        assert_eq!(names(0.2..1.1, 3), ["0.5", "1.0"]);
        assert_eq!(names(-1.1..1.1, 3), ["-1", "0", "1"]);
        assert_eq!(names(0.0..f64::INFINITY, 3), [""; 0]);
        for most in 1..9 {
            for end in [1.0, 1e-7, 3.4, 7e12] {
                assert!((1..=most).contains(&names(0.0..end, most).len()), "{most} up to {end}");
            }
        }
    }

    #[test]
    fn every_scale_ends_where_it_should() {
        for scale in [Scale::linear, Scale::logarithmic, Scale::root].map(|new| new(1.0..9.0, 100.0..20.0)) {
            assert_eq!([1.0, 9.0].map(|value| scale.at(value)), [100.0, 20.0]);
            assert_eq!([0.0, f64::INFINITY].map(|value| scale.within(value)), [100.0, 20.0]);
        }
        assert_eq!(Scale::logarithmic(1.0..9.0, 100.0..20.0).at(3.0), 60.0);
        assert_eq!(Scale::root(0.0..9.0, 90.0..0.0).at(1.0), 60.0);
        assert_eq!(Scale::linear(3.0..3.0, 5.0..6.0).at(3.0), 5.0, "a scale without length has a place all the same");
    }
}
