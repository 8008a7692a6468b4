//! Histograms of one quantity below one another.

use super::canvas::{Canvas, WIDTH};
use super::scale::{Scale, span};
use super::{Chart, Hue};
use maud::Markup;

/// The histogram of one series.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    /// Its name.
    pub label: String,
    /// A figure in words at the row's right end.
    pub figure: String,
    /// Its series.
    pub hue: Hue,
    /// Its bars, from the lowest.
    pub bars: Vec<Bar>,
    /// Where a median is marked; at the end of the scale when beyond.
    pub median: Option<f64>,
}

/// One bar of a histogram.
#[derive(Clone, Debug)]
pub(crate) struct Bar {
    /// Its lower edge.
    pub from: f64,
    /// Its upper edge.
    pub to: f64,
    /// Its height.
    pub percent: f64,
    /// What hovering tells.
    pub hover: String,
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

impl Chart {
    /// Histograms below one another over a common horizontal scale, whose numbers `unit` follows.
    pub(crate) fn histograms(&self, rows: &[Histogram], heights: Heights, unit: &str) -> Option<Markup> {
        let (label, gap, axis, left, right) = (16.0, 10.0, 20.0, 42.0, WIDTH - 14.0);
        let plot = if matches!(heights, Heights::Own) { 64.0 } else { 48.0 };
        let bars = || rows.iter().flat_map(|row| &row.bars);
        let range = span(bars().flat_map(|bar| [bar.from, bar.to])).filter(|range| range.start < range.end)?;
        let highest = |bars: &mut dyn Iterator<Item = &Bar>| bars.map(|bar| bar.percent).fold(0.0, f64::max);
        let overall = Some(highest(&mut bars())).filter(|percent| *percent > 0.0)?;
        let height = rows.len() as f64 * (label + plot + gap) + axis;
        let x = Scale::linear(range, left..right);
        let mut canvas = Canvas::new(height);
        let numbers = x.ticks(6).into_iter().map(|(tick, name)| (x.at(tick), format!("{name}{unit}")));
        canvas.names(height - 9.0, numbers);
        for (index, row) in rows.iter().enumerate() {
            let top = index as f64 * (label + plot + gap) + label;
            let foot = top + plot;
            canvas.row_head(row.hue.class(), (left, top - 9.0), &row.label, &row.figure);
            let (y, ticks) = match heights {
                Heights::Own => {
                    let own = Some(highest(&mut row.bars.iter())).filter(|percent| *percent > 0.0).unwrap_or(1.0);
                    let y = Scale::linear(0.0..own * 1.05, foot..top);
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
            for bar in row.bars.iter().filter(|bar| bar.percent > 0.0) {
                // Half a pixel parts neighbours; the lowest bar is still seen.
                let (from, upper) = (x.at(bar.from), y.at(bar.percent).min(foot - 0.75));
                canvas.rect(row.hue.class(), from..(x.at(bar.to) - 0.5).max(from + 0.5), upper..foot, &bar.hover);
            }
            canvas.line("ink", [(left, foot), (right, foot)]);
            if let Some(median) = row.median.filter(|median| median.is_finite()).map(|median| x.within(median)) {
                canvas.rect("ink", median - 0.75..median + 0.75, top - 2.0..foot + 3.0, "");
            }
        }
        Some(canvas.finish(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(percents: &[f64], median: Option<f64>) -> Histogram {
        let bar = |(at, &percent): (usize, &f64)| Bar {
            from: at as f64,
            to: at as f64 + 1.0,
            percent,
            hover: format!("at {at}: {percent} %"),
        };
        let bars = percents.iter().enumerate().map(bar).collect();
        Histogram { label: "a".into(), figure: "b".into(), hue: Hue::Series(1), bars, median }
    }

    fn drawn(rows: &[Histogram], heights: Heights) -> Option<String> {
        let chart = Chart { title: "slices".into(), description: "how long they last".into() };
        chart.histograms(rows, heights, " ms").map(Markup::into_string)
    }

    #[test]
    fn equal_bars_are_equally_high_where_heights_are_common() {
        let rows = [row(&[4.0, 90.0], None), row(&[4.0, 0.0], None)];
        let bars = |heights: Heights| -> Vec<String> {
            let svg = drawn(&rows, heights).unwrap();
            assert!(!svg.contains("<title>at 1: 0 %</title>"), "nothing to see");
            let small = svg.split("<rect ").filter(|rect| rect.contains("<title>at 0: 4 %</title>"));
            small.map(|rect| rect.split_once("height=\"").unwrap().1.split_once('"').unwrap().0.to_owned()).collect()
        };
        assert!(matches!(&bars(Heights::Common(0.0))[..], [a, b] if a == b));
        assert!(matches!(&bars(Heights::Own)[..], [a, b] if a != b));
    }

    #[test]
    fn a_median_beyond_the_scale_is_marked_at_its_end() {
        let drawn = |rows: &[Histogram]| drawn(rows, Heights::Common(0.0));
        let plain = drawn(&[row(&[1.0], None)]).unwrap();
        for median in [0.5, 1e9] {
            let svg = drawn(&[row(&[1.0], Some(median))]).unwrap();
            assert_eq!(svg.matches("<rect").count(), plain.matches("<rect").count() + 1, "{median}");
        }
        assert_eq!(drawn(&[row(&[1.0], Some(f64::NAN))]), Some(plain));
        assert_eq!((drawn(&[]), drawn(&[row(&[0.0], None)])), (None, None));
    }
}
