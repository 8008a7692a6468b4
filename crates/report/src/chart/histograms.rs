//! Histograms of lengths of time below one another.

use super::Hue;
use super::canvas::{Canvas, WIDTH};
use super::scale::{Scale, span};
use simulation::TimeBin;
use std::ops::Range;

/// How long the things of one series last.
#[derive(Clone, Debug)]
pub(crate) struct Histogram<'a> {
    /// Its name.
    pub label: String,
    /// A figure in words at the row's right end.
    pub figure: String,
    /// Its series.
    pub hue: Hue,
    /// Its bins, from the shortest; the last has no end and is drawn as wide as the first.
    pub bins: &'a [TimeBin],
    /// What is counted, if hovering tells how many there were.
    pub counted: Option<&'a str>,
    /// Where a median is marked; at the end of the scale when beyond.
    pub median: Option<f64>,
}

impl Histogram<'_> {
    /// Where each bar begins and ends, and its bin.
    fn bars(&self) -> impl Iterator<Item = (Range<f64>, &TimeBin)> {
        let width = self.bins.first().and_then(|bin| Some(bin.to_ms? - bin.from_ms)).unwrap_or(1.0);
        self.bins.iter().map(move |bin| (bin.from_ms..bin.to_ms.unwrap_or(bin.from_ms + width), bin))
    }

    /// What hovering over a bar tells.
    fn hover(&self, bin: &TimeBin) -> String {
        let until = bin.to_ms.map_or_else(|| "on".into(), |to| format!("to {to} ms"));
        let number = self.counted.map_or_else(String::new, |counted| format!(", {:.1} {counted}", bin.count));
        format!("{}, {} ms {until}: {:.2} %{number}", self.label, bin.from_ms, bin.percent)
    }
}

/// The vertical scales of histograms.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Heights {
    /// Each row has its own, up to its highest bar.
    Own,
    /// All have the same, up to so many percent or the highest bar where that is higher. It grows with the square root, so that
    /// what is rare is seen beside what is common.
    Common(f64),
}

/// Histograms below one another over a common horizontal scale.
pub(crate) fn histograms(rows: &[Histogram], heights: Heights) -> Option<Canvas> {
    let (label, gap, axis, left, right) = (16.0, 10.0, 20.0, 42.0, WIDTH - 14.0);
    let plot = if matches!(heights, Heights::Own) { 64.0 } else { 48.0 };
    let bars = || rows.iter().flat_map(Histogram::bars);
    let range = span(bars().flat_map(|(range, _)| [range.start, range.end]))?;
    let overall = highest(bars().map(|(_, bin)| bin)).filter(|_| range.start < range.end)?;
    let height = rows.len() as f64 * (label + plot + gap) + axis;
    let x = Scale::linear(range, left..right);
    let mut canvas = Canvas::new(height);
    let numbers = x.ticks(6).into_iter().map(|(tick, name)| (x.at(tick), format!("{name} ms")));
    canvas.names(height - 9.0, numbers);
    for (index, row) in rows.iter().enumerate() {
        let top = index as f64 * (label + plot + gap) + label;
        let foot = top + plot;
        canvas.row_head(row.hue.class(), (left, top - 9.0), &row.label, &row.figure);
        let (y, ticks) = match heights {
            Heights::Own => {
                let y = Scale::linear(0.0..highest(row.bins).unwrap_or(1.0) * 1.05, foot..top);
                let ticks = y.ticks(3);
                (y, ticks)
            }
            Heights::Common(least) => {
                let y = Scale::root(0.0..overall.max(least) * 1.05, foot..top);
                (y, [1.0, 10.0, 50.0, 100.0].map(|tick| (tick, tick.to_string())).into())
            }
        };
        let levels = ticks.into_iter().filter(|(tick, _)| *tick > 0.0);
        canvas.levels(&y, left..right, None, levels.map(|(tick, name)| (tick, format!("{name} %"))));
        for (range, bin) in row.bars().filter(|(_, bin)| bin.percent > 0.0) {
            // Half a pixel parts neighbours; the lowest bar is still seen.
            let (from, upper) = (x.at(range.start), y.at(bin.percent).min(foot - 0.75));
            let to = (x.at(range.end) - 0.5).max(from + 0.5);
            canvas.rect(row.hue.class(), from..to, upper..foot, &row.hover(bin));
        }
        canvas.line("ink", [(left, foot), (right, foot)]);
        if let Some(median) = row.median.filter(|median| median.is_finite()).map(|median| x.within(median)) {
            canvas.rect("ink", median - 0.75..median + 0.75, top - 2.0..foot + 3.0, "");
        }
    }
    Some(canvas)
}

/// The most percent that a bin has; none where all are empty.
fn highest<'a>(bins: impl IntoIterator<Item = &'a TimeBin>) -> Option<f64> {
    bins.into_iter().map(|bin| bin.percent).filter(|percent| *percent > 0.0).reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bins(percents: &[f64]) -> Vec<TimeBin> {
        let bin = |(at, &percent): (usize, &f64)| TimeBin {
            from_ms: at as f64,
            to_ms: Some(at as f64 + 1.0),
            count: 1.0,
            percent,
        };
        percents.iter().enumerate().map(bin).collect()
    }

    fn row(bins: &[TimeBin], median: Option<f64>) -> Histogram<'_> {
        Histogram { label: "a".into(), figure: "b".into(), hue: Hue::Series(1), bins, counted: None, median }
    }

    fn drawn(rows: &[Histogram], heights: Heights) -> Option<String> {
        histograms(rows, heights).map(|canvas| canvas.finish("slices", "how long they last").into_string())
    }

    #[test]
    fn equal_bars_are_equally_high_where_heights_are_common() {
        let (high, low) = (bins(&[4.0, 90.0]), bins(&[4.0, 0.0]));
        let rows = [row(&high, None), row(&low, None)];
        let bars = |heights: Heights| -> Vec<String> {
            let svg = drawn(&rows, heights).unwrap();
            assert!(!svg.contains(": 0.00 %</title>"), "nothing to see");
            let small = svg.split("<rect ").filter(|rect| rect.contains("<title>a, 0 ms to 1 ms: 4.00 %</title>"));
            small.map(|rect| rect.split_once("height=\"").unwrap().1.split_once('"').unwrap().0.to_owned()).collect()
        };
        assert!(matches!(&bars(Heights::Common(0.0))[..], [a, b] if a == b));
        assert!(matches!(&bars(Heights::Own)[..], [a, b] if a != b));
    }

    #[test]
    fn a_median_beyond_the_scale_is_marked_at_its_end() {
        let (one, nothing) = (bins(&[1.0]), bins(&[0.0]));
        let drawn = |rows: &[Histogram]| drawn(rows, Heights::Common(0.0));
        let plain = drawn(&[row(&one, None)]).unwrap();
        for median in [0.5, 1e9] {
            let svg = drawn(&[row(&one, Some(median))]).unwrap();
            assert_eq!(svg.matches("<rect").count(), plain.matches("<rect").count() + 1, "{median}");
        }
        assert_eq!(drawn(&[row(&one, Some(f64::NAN))]), Some(plain));
        assert_eq!((drawn(&[]), drawn(&[row(&nothing, None)])), (None, None));
    }

    #[test]
    fn the_last_bar_has_no_end_and_tells_how_many_it_counts() {
        let mut bins = bins(&[1.0, 2.0]);
        bins[1].to_ms = None;
        let svg = drawn(&[Histogram { counted: Some("slices"), ..row(&bins, None) }], Heights::Own).unwrap();
        assert!(svg.contains("<title>a, 1 ms on: 2.00 %, 1.0 slices</title>"), "{svg}");
    }
}
