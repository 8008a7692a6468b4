//! Charts of a simulation: how long slices last under each policy, and what a parameter changes.

use super::{Axis, Canvas, Chart, EndLabel, Hue, Mark, Role, WIDTH, decimals, dressed, signed_percent, span};
use crate::words::short;
use plotters::style::text_anchor::HPos;

/// The histogram of one series.
#[derive(Clone, Debug)]
pub struct Histogram {
    /// Its name.
    pub label: String,
    /// A figure in words at the row's right end.
    pub figure: String,
    /// Its series.
    pub hue: Hue,
    /// Its bars, from the lowest.
    pub bars: Vec<Bar>,
}

/// One bar of a histogram.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Its lower edge.
    pub from: f64,
    /// Its upper edge.
    pub to: f64,
    /// Its height.
    pub percent: f64,
    /// What hovering tells.
    pub hover: String,
}

/// What a parameter does to one quantity.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Its name.
    pub label: String,
    /// Its series.
    pub hue: Hue,
    /// In the order of the parameter.
    pub points: Vec<TracePoint>,
}

/// The change at one value of a parameter.
#[derive(Clone, Debug)]
pub struct TracePoint {
    /// The parameter.
    pub value: f64,
    /// The change in percent.
    pub percent: f64,
    /// The ends of its interval.
    pub interval: Option<(f64, f64)>,
    /// What hovering tells.
    pub hover: String,
}

/// Letters of a trace's label that there is room for.
const MOST_LETTERS: usize = 18;

/// A value from which on something holds.
#[derive(Clone, Debug)]
pub struct Threshold {
    /// The value.
    pub value: f64,
    /// What holds from there on, in a few words.
    pub label: String,
}

impl Chart {
    /// Histograms below one another over a common horizontal scale, each as high as its own highest bar asks for; `unit`
    /// follows the numbers of the common scale.
    pub fn histograms(&self, rows: &[Histogram], unit: &str) -> Option<String> {
        let (label, plot, gap, axis, left) = (16, 64, 8, 20, 42);
        let bars = || rows.iter().flat_map(|row| &row.bars);
        let highest = |row: &Histogram| row.bars.iter().map(|bar| bar.percent).fold(0.0, f64::max);
        let range = span(bars().flat_map(|bar| [bar.from, bar.to])).filter(|range| range.start < range.end)?;
        rows.iter().find(|row| highest(row) > 0.0)?;
        let height = rows.len() as i32 * (label + plot + gap) + axis;
        let mut svg = String::new();
        let mut canvas = Canvas::new(&mut svg, height);
        let x = Axis::new(range, left..WIDTH - 8);
        for tick in x.ticks(6) {
            canvas.tick(x.at(tick), height - 9, &format!("{tick}{unit}"));
        }
        for (index, row) in rows.iter().enumerate() {
            let top = index as i32 * (label + plot + gap);
            let foot = top + label + plot;
            let highest = highest(row);
            let y = Axis::new(0.0..if highest > 0.0 { highest * 1.05 } else { 1.0 }, foot..top + label);
            canvas.hover_text(
                Role::Hue(row.hue),
                (f64::from(left), f64::from(top + 7)),
                HPos::Left,
                &short(&row.label, 20),
                &row.label,
            );
            canvas.text(Role::Muted, (f64::from(WIDTH - 2), f64::from(top + 7)), HPos::Right, &row.figure);
            let ticks = y.ticks(3);
            let decimals = decimals(&ticks);
            for tick in ticks.into_iter().filter(|tick| *tick > 0.0) {
                canvas.line(Role::Grid, [(f64::from(left), y.at(tick)), (f64::from(WIDTH - 8), y.at(tick))]);
                canvas.text(
                    Role::Muted,
                    (f64::from(left - 5), y.at(tick)),
                    HPos::Right,
                    &format!("{tick:.decimals$} %"),
                );
            }
            for bar in row.bars.iter().filter(|bar| bar.percent > 0.0) {
                // Half a pixel parts neighbours; the shortest bar is still seen.
                let (from, to) = (x.at(bar.from), (x.at(bar.to) - 0.5).max(x.at(bar.from) + 0.5));
                canvas.bar(
                    Role::Hue(row.hue),
                    (from, y.at(bar.percent).min(f64::from(foot) - 0.75)),
                    (to, f64::from(foot)),
                    &bar.hover,
                );
            }
            canvas.line(Role::Ink, [(f64::from(left), f64::from(foot)), (f64::from(WIDTH - 8), f64::from(foot))]);
        }
        let hovers = canvas.finish();
        Some(dressed(&svg, self, &hovers))
    }

    /// Changes over the values of a parameter called `parameter`, which are on a logarithmic scale where they span a decade. A
    /// `threshold` is marked.
    pub fn sweep(&self, traces: &[Trace], parameter: &str, threshold: Option<&Threshold>) -> Option<String> {
        let (height, left, top, bottom) = (240, 46, 10, 36);
        let longest = traces.iter().map(|trace| trace.label.chars().count()).max().unwrap_or(0).min(MOST_LETTERS);
        let right = ((longest as f64 * super::LETTER) as i32 + 14).max(84);
        let points =
            || traces.iter().flat_map(|trace| &trace.points).filter(|p| p.value.is_finite() && p.percent.is_finite());
        let values = span(points().map(|p| p.value))?;
        let ends = points().flat_map(|p| {
            [p.interval.map_or(p.percent, |ends| ends.0), p.percent, p.interval.map_or(p.percent, |ends| ends.1)]
        });
        let changes = span(ends.chain([0.0]))?;
        let logarithmic = values.start > 0.0 && values.end / values.start >= 10.0;
        let scaled = |value: f64| if logarithmic { value.ln() } else { value };
        let room = ((changes.end - changes.start) / 20.0).max(0.05);
        let foot = height - bottom;
        let (first, last) = (scaled(values.start), scaled(values.end));
        let x = Axis::new(first..if last > first { last } else { first + 1.0 }, left + 6..WIDTH - right);
        let y = Axis::new(changes.start - room..changes.end + room, foot..top);
        let mut svg = String::new();
        let mut canvas = Canvas::new(&mut svg, height);
        let (west, east) = (f64::from(left), f64::from(WIDTH - right));
        for tick in y.ticks(6).into_iter().filter(|tick| *tick != 0.0) {
            canvas.line(Role::Grid, [(west, y.at(tick)), (east, y.at(tick))]);
            canvas.text(Role::Muted, (west - 5.0, y.at(tick)), HPos::Right, &signed_percent(tick / 100.0));
        }
        canvas.line(Role::Ink, [(west, y.at(0.0)), (east, y.at(0.0))]);
        canvas.text(Role::Muted, (west - 5.0, y.at(0.0)), HPos::Right, "0 %");
        let mut named: Vec<f64> = points().map(|p| p.value).collect();
        named.sort_unstable_by(f64::total_cmp);
        named.dedup();
        let mut free = f64::MIN;
        for value in named {
            let (place, name) = (x.at(scaled(value)), value.to_string());
            let half = name.chars().count() as f64 * super::LETTER / 2.0;
            if place - half >= free {
                canvas.text(Role::Muted, (place, f64::from(foot + 12)), HPos::Center, &name);
                free = place + half + super::LETTER;
            }
        }
        canvas.text(Role::Muted, ((left + WIDTH - right) / 2, height - 8), HPos::Center, &short(parameter, 40));
        if let Some(Threshold { value, label }) = threshold.filter(|t| (values.start..=values.end).contains(&t.value)) {
            let place = x.at(scaled(*value));
            canvas.line(Role::Ink, [(place, f64::from(top)), (place, f64::from(foot))]);
            let (side, shift) = if place > (west + east) / 2.0 { (HPos::Right, -5.0) } else { (HPos::Left, 5.0) };
            canvas.text(Role::Ink, (place + shift, f64::from(top + 6)), side, &format!("{label} →"));
        }
        let mut labels = Vec::new();
        for trace in traces {
            let role = Role::Hue(trace.hue);
            let places: Vec<(f64, f64)> =
                trace.points.iter().map(|p| (x.at(scaled(p.value)), y.at(p.percent))).collect();
            let Some(&end) = places.last() else { continue };
            for (place, point) in places.iter().zip(&trace.points) {
                if let Some((low, high)) = point.interval {
                    canvas.line(Role::Faint, [(place.0, y.at(low)), (place.0, y.at(high))]);
                }
            }
            canvas.line(role, places.iter().copied());
            for (&place, point) in places.iter().zip(&trace.points) {
                canvas.mark(trace.hue, Mark::Counted, place, &point.hover);
            }
            labels.push(EndLabel { end, role, text: short(&trace.label, MOST_LETTERS), hover: trace.label.clone() });
        }
        canvas.end_labels(labels, east + 10.0, f64::from(top)..f64::from(foot));
        let hovers = canvas.finish();
        Some(dressed(&svg, self, &hovers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> Chart {
        Chart { title: "slices".into(), description: "how long they last".into() }
    }

    #[test]
    fn every_bar_above_nothing_is_drawn_and_told() {
        let bar = |from: f64, percent: f64| Bar { from, to: from + 10.0, percent, hover: format!("from {from} ms") };
        let row = Histogram {
            label: "light".into(),
            figure: "median 240 ms".into(),
            hue: Hue::Series(1),
            bars: vec![bar(0.0, 5.0), bar(10.0, 0.0), bar(20.0, 80.0)],
        };
        let svg = chart().histograms(&[row.clone(), row], " ms").unwrap();
        assert_eq!(svg.matches("<title>from 20 ms</title>").count(), 2);
        assert_eq!(svg.matches("<title>from 10 ms</title>").count(), 0, "nothing to see");
        assert_eq!(chart().histograms(&[], " ms"), None);
    }

    #[test]
    fn a_sweep_marks_each_value_once_and_stays_drawable_for_one() {
        let trace = |values: &[f64]| Trace {
            label: "misses".into(),
            hue: Hue::Series(1),
            points: values
                .iter()
                .map(|&value| TracePoint {
                    value,
                    percent: -value,
                    interval: Some((-value - 1.0, 1.0 - value)),
                    hover: format!("at {value}"),
                })
                .collect(),
        };
        let svg = chart().sweep(&[trace(&[0.0, 2.0, 4.0])], "phi", None).unwrap();
        assert!((0..3).all(|at| svg.contains(&format!("<title>at {}</title>", 2 * at))));
        assert!(chart().sweep(&[trace(&[3.0])], "phi", None).is_some());
        assert!(chart().sweep(&[trace(&[1.0, 10.0, 1000.0])], "quantum_ms", None).is_some(), "a logarithmic scale");
        assert_eq!(chart().sweep(&[], "phi", None), None);
        let mark = |value| Some(Threshold { value, label: "affinity matters".into() });
        let marked = |value| chart().sweep(&[trace(&[1.0, 10.0, 1000.0])], "future", mark(value).as_ref()).unwrap();
        assert!(marked(10.0).contains("affinity matters") && !marked(2000.0).contains("affinity matters"));
    }
}
