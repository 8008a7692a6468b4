//! Small multiples: histograms of one quantity below one another, on the same two scales.

use super::{Axis, Canvas, Chart, Histogram, Role, WIDTH, dressed, span};
use crate::words::short;
use plotters::style::text_anchor::HPos;

/// One of several histograms that are to be compared.
#[derive(Clone, Debug)]
pub struct Multiple {
    /// The histogram.
    pub histogram: Histogram,
    /// Where its median lies on the horizontal scale; marked there, or at its end when beyond.
    pub median: Option<f64>,
}

impl Chart {
    /// Histograms below one another, each on the same horizontal scale, whose numbers `unit` follows, and the same vertical one
    /// up to `highest` percent, or to the highest bar where that is higher. The vertical scale grows with the square root, so
    /// that what is rare is seen beside what is common.
    pub fn multiples(&self, rows: &[Multiple], highest: f64, unit: &str) -> Option<String> {
        let (label, plot, gap, axis, left, right) = (16, 48, 10, 20, 42, WIDTH - 14);
        let bars = || rows.iter().flat_map(|row| &row.histogram.bars);
        let range = span(bars().flat_map(|bar| [bar.from, bar.to])).filter(|range| range.start < range.end)?;
        let highest = span(bars().map(|bar| bar.percent)).filter(|range| range.end > 0.0)?.end.max(highest);
        let height = rows.len() as i32 * (label + plot + gap) + axis;
        let mut svg = String::new();
        let mut canvas = Canvas::new(&mut svg, height);
        let x = Axis::new(range.clone(), left..right);
        for tick in x.ticks(6) {
            canvas.tick(x.at(tick), height - 9, &format!("{tick}{unit}"));
        }
        let (west, east) = (f64::from(left), f64::from(right));
        for (index, Multiple { histogram, median }) in rows.iter().enumerate() {
            let top = index as i32 * (label + plot + gap) + label;
            let foot = f64::from(top + plot);
            let y = Axis::new(0.0..(highest * 1.05).sqrt(), top + plot..top);
            let name = (west, f64::from(top) - 9.0);
            canvas.hover_text(
                Role::Hue(histogram.hue),
                name,
                HPos::Left,
                &short(&histogram.label, 20),
                &histogram.label,
            );
            canvas.text(Role::Muted, (f64::from(WIDTH - 2), name.1), HPos::Right, &histogram.figure);
            for tick in [1.0, 10.0, 50.0, 100.0].into_iter().filter(|tick| *tick <= highest) {
                let at = y.at(f64::sqrt(tick));
                canvas.line(Role::Grid, [(west, at), (east, at)]);
                canvas.text(Role::Muted, (west - 5.0, at), HPos::Right, &format!("{tick} %"));
            }
            for bar in histogram.bars.iter().filter(|bar| bar.percent > 0.0) {
                // Half a pixel parts neighbours; the lowest bar is still seen.
                let (from, to) = (x.at(bar.from), (x.at(bar.to) - 0.5).max(x.at(bar.from) + 0.5));
                let upper = y.at(bar.percent.sqrt()).min(foot - 0.75);
                canvas.bar(Role::Hue(histogram.hue), (from, upper), (to, foot), &bar.hover);
            }
            canvas.line(Role::Ink, [(west, foot), (east, foot)]);
            if let Some(median) = median.filter(|median| median.is_finite()) {
                let middle = x.at(median.clamp(range.start, range.end));
                canvas.rect(Role::Ink, (middle - 0.75, f64::from(top) - 2.0), (middle + 0.75, foot + 3.0));
            }
        }
        let hovers = canvas.finish();
        Some(dressed(&svg, self, &hovers))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Bar, Hue};
    use super::*;

    fn row(percents: &[f64], median: Option<f64>) -> Multiple {
        let bar = |(at, &percent): (usize, &f64)| Bar {
            from: at as f64,
            to: at as f64 + 1.0,
            percent,
            hover: format!("at {at}: {percent} %"),
        };
        let bars = percents.iter().enumerate().map(bar).collect();
        Multiple { histogram: Histogram { label: "a".into(), figure: "b".into(), hue: Hue::Series(1), bars }, median }
    }

    fn drawn(rows: &[Multiple]) -> Option<String> {
        Chart { title: "slices".into(), description: "how long they last".into() }.multiples(rows, 0.0, " ms")
    }

    #[test]
    fn equal_bars_are_equally_high_in_every_row() {
        let svg = drawn(&[row(&[4.0, 90.0], None), row(&[4.0, 0.0], None)]).unwrap();
        let heights: Vec<&str> = svg
            .split("<rect ")
            .filter(|rect| rect.contains("<title>at 0: 4 %</title>"))
            .map(|rect| rect.split_once("height=\"").unwrap().1.split_once('"').unwrap().0)
            .collect();
        assert!(matches!(heights[..], [a, b] if a == b), "{heights:?}");
        assert!(!svg.contains("<title>at 1: 0 %</title>"), "nothing to see");
    }

    #[test]
    fn a_median_beyond_the_scale_is_marked_at_its_end() {
        let plain = drawn(&[row(&[1.0], None)]).unwrap();
        for median in [0.5, 1e9] {
            let svg = drawn(&[row(&[1.0], Some(median))]).unwrap();
            assert_eq!(svg.matches("<rect").count(), plain.matches("<rect").count() + 1, "{median}");
        }
        assert_eq!(drawn(&[row(&[1.0], Some(f64::NAN))]), Some(plain));
        assert_eq!((drawn(&[]), drawn(&[row(&[0.0], None)])), (None, None));
    }
}
