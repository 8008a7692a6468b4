//! How the report writes numbers: enough digits to see a difference, never more than the measurement carries.

use study::Summary;

/// A time in seconds with four significant digits and without its unit: `307.1`, `92.11`, `0.4300`.
pub(crate) fn seconds(s: f64) -> String {
    let decimals = if s <= 0.0 || !s.is_finite() { 3 } else { (3 - s.log10().floor() as i32).clamp(0, 9) };
    format!("{s:.*}", decimals as usize)
}

/// A length of time for prose: `850 ms`, `12.3 s`, `4 min 10 s`, `2 h 5 min`.
pub(crate) fn duration(s: f64) -> String {
    let whole = s.round() as u64;
    match s {
        _ if s < 1.0 => format!("{:.0} ms", s * 1e3),
        _ if s < 60.0 && s.fract() < 0.05 => format!("{s:.0} s"),
        _ if s < 60.0 => format!("{s:.1} s"),
        _ if whole < 3600 && whole.is_multiple_of(60) => format!("{} min", whole / 60),
        _ if whole < 3600 => format!("{} min {} s", whole / 60, whole % 60),
        _ if whole % 3600 < 60 => format!("{} h", whole / 3600),
        _ => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
    }
}

/// A ratio beyond this, or below one over it, is told by this bound: few runs that scatter give intervals of any size, and their
/// digits tell nothing.
pub(crate) const FARTHEST: f64 = 100.0;

/// A ratio with so many decimals: `1.18`, `<0.01`, `>100`.
pub(crate) fn factor(ratio: f64, decimals: usize) -> String {
    match ratio {
        _ if ratio > FARTHEST => format!(">{FARTHEST}"),
        _ if ratio < 1.0 / FARTHEST => format!("<{}", 1.0 / FARTHEST),
        _ => format!("{ratio:.decimals$}"),
    }
}

/// Two ends of a range with `dash` between them, or the word, where a sign stands beside it.
pub(crate) fn ends(low: &str, high: &str, dash: &str) -> String {
    let has_sign = [low, high].iter().any(|end| end.starts_with(['+', '-', '<', '>']));
    format!("{low}{}{high}", if has_sign { " to " } else { dash })
}

/// A share as a percentage with two significant digits: `0.43 %`, `4.3 %`, `43 %`, `>9900 %`.
pub(crate) fn percent(share: f64) -> String {
    let value = share * 100.0;
    match value.abs() {
        _ if share > FARTHEST - 1.0 => format!(">{:.0} %", (FARTHEST - 1.0) * 100.0),
        size if size >= 9.95 => format!("{value:.0} %"),
        size if size >= 0.995 => format!("{value:.1} %"),
        _ => format!("{value:.2} %"),
    }
}

/// A percentage with its sign, for changes: `+4.3 %`.
pub(crate) fn change(share: f64) -> String {
    let sign = if share > 0.0 && share <= FARTHEST - 1.0 { "+" } else { "" };
    format!("{sign}{}", percent(share))
}

/// How much longer than the best a time is, from their ratio, and the interval of that: `+3.1 %` and `1.0 to 5.2 %`;
/// without an interval the second is empty.
pub(crate) fn loss(ratio: f64, interval: Option<(f64, f64)>) -> (String, String) {
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    let widest = interval.map_or(percent(ratio), |(low, high)| percent(high).abs().max(percent(low).abs()));
    let decimals = if widest.abs().max(percent(ratio).abs()) < 9.95 { 1 } else { 0 };
    let far = (FARTHEST - 1.0) * 100.0;
    // Adding 0 leaves no negative zero.
    let round = |ratio: f64| (percent(ratio) * 10_f64.powi(decimals)).round() / 10_f64.powi(decimals) + 0.0;
    let write = |ratio: f64| format!("{:.*}", decimals as usize, round(ratio));
    let value = match ratio {
        _ if ratio > FARTHEST => format!(">{far:.0} %"),
        _ => format!("{}{} %", if round(ratio) > 0.0 { "+" } else { "" }, write(ratio)),
    };
    // An end off 0 is never written as 0: it is what tells two apart.
    let finer = |ratio: f64| if round(ratio) == 0.0 { format!("{:.1}", percent(ratio) + 0.0) } else { write(ratio) };
    let end = |ratio: f64| match ratio {
        1.0 => "0".into(),
        _ if ratio > FARTHEST => format!(">{far:.0}"),
        _ => finer(ratio),
    };
    let range = interval.map_or_else(String::new, |(low, high)| format!("{} to {} %", end(low), end(high)));
    (value, range)
}

/// A size in the binary unit that fits: `14.0 MiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A count in units of 10^9 with three significant digits: `4320`, `63.4`, `0.421`.
pub(crate) fn giga(count: f64) -> String {
    let value = count / 1e9;
    let decimals = if value <= 0.0 || !value.is_finite() { 0 } else { (2 - value.log10().floor() as i32).clamp(0, 9) };
    format!("{value:.*}", decimals as usize)
}

/// A moment in seconds since 1970 as `2026-11-22 00:05:09 UTC`.
pub fn moment(unix_s: f64) -> String {
    match jiff::Timestamp::from_second(unix_s as i64) {
        Ok(moment) => moment.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        Err(_) => format!("{unix_s} s since 1970"),
    }
}

/// A ratio and its 95 % interval, all three with the digits that the interval's width calls for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ratio {
    /// The estimate.
    pub value: String,
    /// The interval's lower and upper end, where it has one.
    pub interval: Option<(String, String)>,
}

impl Ratio {
    /// Writes `value` and the interval from `low` to `high`.
    pub(crate) fn new(value: f64, low: Option<f64>, high: Option<f64>) -> Self {
        let interval = low.zip(high);
        let decimals = match interval {
            Some((low, high)) if high - low < 0.05 && value < 10.0 => 3,
            _ => 2,
        };
        let write = |number: f64| factor(number, decimals);
        Self { value: write(value), interval: interval.map(|(low, high)| (write(low), write(high))) }
    }

    /// The ratio of a cell to the reference, where it has one.
    pub(crate) fn of(summary: &Summary) -> Option<Self> {
        Some(Self::new(summary.ratio?, summary.ratio_low, summary.ratio_high))
    }

    /// The interval with `dash` between its ends; empty where there is none.
    pub(crate) fn range(&self, dash: &str) -> String {
        self.interval.as_ref().map_or_else(String::new, |(low, high)| ends(low, high, dash))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_keep_four_significant_digits() {
        let written: Vec<String> = [1550.21, 307.1, 92.11, 3.29, 0.43, 0.00123456, 0.0].map(seconds).into();
        assert_eq!(written, ["1550", "307.1", "92.11", "3.290", "0.4300", "0.001235", "0.000"]);
    }

    #[test]
    fn billions_keep_three_significant_digits() {
        let written = [4.32e12, 6.34e10, 4.2063e8, 6.6654e7, 0.0, f64::INFINITY].map(giga);
        assert_eq!(written, ["4320", "63.4", "0.421", "0.0667", "0", "inf"]);
    }

    #[test]
    fn durations_read_as_people_say_them() {
        let written: Vec<String> = [0.85, 12.34, 30.0, 59.99, 250.0, 600.0, 7200.0, 7500.0].map(duration).into();
        assert_eq!(written, ["850 ms", "12.3 s", "30 s", "60.0 s", "4 min 10 s", "10 min", "2 h", "2 h 5 min"]);
    }

    #[test]
    fn a_narrow_interval_gets_a_third_decimal() {
        let narrow = Ratio::new(1.0034, Some(0.998), Some(1.0081));
        assert_eq!((narrow.value.as_str(), narrow.range("-").as_str()), ("1.003", "0.998-1.008"));
        let wide = Ratio::new(1.18, Some(1.15), Some(1.21));
        assert_eq!((wide.value.as_str(), wide.range("-").as_str()), ("1.18", "1.15-1.21"));
        assert_eq!(Ratio::new(1.18, None, Some(1.2)).range("-"), "");
    }

    #[test]
    fn losses_have_the_digits_of_their_interval() {
        let written = |ratio, interval| {
            let (loss, range) = loss(ratio, interval);
            format!("{loss} ({range})")
        };
        assert_eq!(written(1.031, Some((1.01, 1.052))), "+3.1 % (1.0 to 5.2 %)");
        assert_eq!(written(1.031, Some((0.98, 1.12))), "+3 % (-2 to 12 %)");
        assert_eq!(written(1.0, Some((1.0, 1.0004))), "0.0 % (0 to 0.0 %)");
        assert_eq!(written(1.44, Some((1.003, 1.91))), "+44 % (0.3 to 91 %)");
        assert_eq!(written(2.5, None), "+150 % ()");
    }

    #[test]
    fn what_is_far_beyond_any_gain_is_told_by_a_bound() {
        let wild = Ratio::new(5e30, Some(3e-9), Some(f64::INFINITY));
        assert_eq!((wild.value.as_str(), wild.range("-").as_str()), (">100", "<0.01 to >100"));
        assert_eq!(Ratio::new(1.2, Some(0.01), Some(100.0)).range("-"), "0.01-100.00");
        assert_eq!(loss(5e30, Some((1.0, 1e31))), (">9900 %".into(), "0 to >9900 %".into()));
        assert_eq!([percent(1e30), percent(99.0), change(1e30)], [">9900 %", "9900 %", ">9900 %"]);
    }

    #[test]
    fn sizes_shares_and_moments_carry_their_unit() {
        assert_eq!([bytes(512), bytes(14 << 20), bytes(u64::MAX)], ["512 B", "14.0 MiB", "16384.0 PiB"]);
        assert_eq!(
            [percent(0.0043), percent(0.043), percent(0.43), change(-0.02)],
            ["0.43 %", "4.3 %", "43 %", "-2.0 %"]
        );
        assert_eq!(moment(1_795_305_600.9), "2026-11-22 00:00:00 UTC");
        assert_eq!(moment(f64::MAX), format!("{} s since 1970", f64::MAX));
    }
}
