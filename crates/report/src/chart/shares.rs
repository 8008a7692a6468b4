//! Bars of equal length that are cut into shares, below one another.

use super::Hue;
use super::canvas::{Canvas, WIDTH};

/// A bar.
#[derive(Clone, Debug)]
pub(crate) struct SharedBar {
    /// Its name.
    pub label: String,
    /// A figure in words at its right end.
    pub figure: String,
    /// What its parts are called, how they are painted, and their shares in percent, from the left. What misses 100 stays empty.
    pub parts: Vec<(String, Hue, f64)>,
}

/// Bars below one another; none where there are none.
pub(crate) fn shared_bars(bars: &[SharedBar]) -> Option<Canvas> {
    let (label, bar, gap, left, right) = (16.0, 14.0, 8.0, 2.0, WIDTH - 2.0);
    if bars.is_empty() {
        return None;
    }
    let mut canvas = Canvas::new(bars.len() as f64 * (label + bar + gap));
    for (index, row) in bars.iter().enumerate() {
        let top = index as f64 * (label + bar + gap) + label;
        canvas.row_head("ink", (left, top - 9.0), &row.label, &row.figure);
        let mut from = left;
        for (name, hue, percent) in row.parts.iter().filter(|(_, _, percent)| percent.is_finite() && *percent > 0.0) {
            let to = (from + (right - left) * percent / 100.0).min(right);
            canvas.rect(hue.class(), from..to, top..top + bar, &format!("{}, {name}: {percent:.1} %", row.label));
            from = to;
        }
        canvas.line("ink", [(left, top + bar), (right, top + bar)]);
    }
    Some(canvas)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_as_long_as_their_shares_and_stay_in_the_bar() {
        let part = |name: &str, percent| (name.to_owned(), Hue::Series(1), percent);
        let bar = |parts| SharedBar { label: "a".into(), figure: String::new(), parts };
        let drawn = |parts| shared_bars(&[bar(parts)]).unwrap().finish("t", "d").into_string();
        let widths = |svg: &str| -> Vec<f64> {
            let width = |rest: &str| rest.split_once("width=\"").unwrap().1.split_once('"').unwrap().0.parse().unwrap();
            svg.split("<rect ").skip(1).map(width).collect()
        };
        let svg = drawn(vec![part("x", 25.0), part("y", 50.0), part("none", 0.0), part("broken", f64::NAN)]);
        let [x, y] = widths(&svg)[..] else { panic!("{svg}") };
        assert!((y / x - 2.0).abs() < 0.02 && svg.contains("a, y: 50.0 %"), "{svg}");
        // Shares that are more than all by rounding don't leave it.
        let all: f64 = widths(&drawn(vec![part("x", 60.0), part("y", 60.0)])).iter().sum();
        assert!(all <= WIDTH, "{all}");
        assert!(shared_bars(&[]).is_none());
    }
}
