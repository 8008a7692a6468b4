//! Lines over a number: speed-up over threads, and what a parameter changes.

use super::canvas::{Anchor, Canvas, EndLabel, WIDTH, width};
use super::scale::{Scale, span};
use super::with_unit;
use super::{Hue, signed_percent};
use crate::number::{self, FARTHEST};
use crate::words::short;
use std::ops::Range;

/// One line, with a mark for each of its points.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// Its name.
    pub label: String,
    /// Its series.
    pub hue: Hue,
    /// In rising order of `x`.
    pub points: Vec<LinePoint>,
}

/// One point of a line.
#[derive(Clone, Debug)]
pub(crate) struct LinePoint {
    /// What it is over.
    pub x: f64,
    /// Its height.
    pub y: f64,
    /// The ends of its interval.
    pub interval: Option<(f64, f64)>,
    /// What hovering tells.
    pub hover: String,
}

/// No change in percent is below it.
const NOTHING_LEFT: f64 = -100.0;

const HEIGHT: f64 = 240.0;
const LEFT: f64 = 50.0;
const TOP: f64 = 10.0;
const FOOT: f64 = HEIGHT - 36.0;

/// Where lines end: the longest name has its room on the right.
fn right(lines: &[Line]) -> f64 {
    WIDTH - lines.iter().map(|line| width(&line.label) + 14.0).fold(84.0, f64::max).min(122.0)
}

/// Speed-up over threads, both on logarithmic scales, beside the ideal of one for each thread.
pub(crate) fn speedup(curves: &[Line]) -> Option<Canvas> {
    let points = || curves.iter().flat_map(|curve| &curve.points).filter(|p| p.x > 0.0 && p.y > 0.0);
    let threads = span(points().map(|point| point.x))?;
    let usual = 1.0 / FARTHEST..FARTHEST * threads.end;
    let speedups = span(points().map(|point| point.y.clamp(usual.start, usual.end)).chain([threads.end, 1.0]))?;
    let doubled = |range: &Range<f64>| range.start..range.end.max(2.0 * range.start);
    let x = Scale::logarithmic(doubled(&threads), LEFT + 6.0..right(curves));
    let y = Scale::logarithmic(doubled(&speedups), FOOT..TOP);
    let mut canvas = Canvas::new(HEIGHT);
    let powers =
        (speedups.start.log2().floor() as i32..=speedups.end.log2().ceil() as i32).map(|p| f64::from(p).exp2());
    let levels = powers.map(|power| (power, power.to_string()));
    canvas.levels(&y, LEFT..right(curves), None, levels);
    let end = (x.at(threads.end), y.at(threads.end));
    canvas.line("dashed", [(x.at(threads.start), y.at(threads.start)), end]);
    let ideal = EndLabel { end: (right(curves), end.1), class: "muted", text: "ideal".into() };
    lines(&mut canvas, curves, (&x, &y), "threads", |value| value.to_string(), Some(ideal));
    Some(canvas)
}

/// Changes in percent over the values of a parameter called `parameter`, which are on a logarithmic scale where they span a
/// decade. A `threshold` is marked with what holds from there on.
pub(crate) fn sweep(traces: &[Line], parameter: &str, threshold: Option<(f64, &str)>) -> Option<Canvas> {
    let points = || traces.iter().flat_map(|trace| &trace.points).filter(|p| p.x.is_finite() && p.y.is_finite());
    let values = span(points().map(|point| point.x))?;
    let ends = points().flat_map(|point| {
        let (low, high) = point.interval.unwrap_or((point.y, point.y));
        [low, point.y, high]
    });
    let changes = span(ends.chain([0.0]))?;
    let room = ((changes.end - changes.start) / 20.0).max(0.05);
    let is_logarithmic = values.start > 0.0 && values.end / values.start >= 10.0;
    let scale = if is_logarithmic { Scale::logarithmic } else { Scale::linear };
    let x = scale(values, LEFT + 6.0..right(traces));
    let y = Scale::linear((changes.start - room).max(NOTHING_LEFT)..changes.end + room, FOOT..TOP);
    let mut canvas = Canvas::new(HEIGHT);
    let ticks = y.ticks(6).into_iter().map(|(tick, _)| (tick, signed_percent(tick / 100.0)));
    canvas.levels(&y, LEFT..right(traces), Some((0.0, "0 %")), ticks);
    if let Some((value, label)) = threshold.filter(|(value, _)| x.holds(*value)) {
        let place = x.at(value);
        canvas.line("ink", [(place, TOP), (place, FOOT)]);
        let is_right = place > (LEFT + right(traces)) / 2.0;
        let (anchor, shift) = if is_right { (Anchor::End, -5.0) } else { (Anchor::Start, 5.0) };
        canvas.text("ink", (place + shift, TOP + 6.0), anchor, &format!("{label} →"));
    }
    lines(&mut canvas, traces, (&x, &y), &short(parameter, 40), |value| value.to_string(), None);
    Some(canvas)
}

/// Medians in `unit` over the `levels` of a factor, by their positions, on a logarithmic scale: where lines aren't parallel, two factors
/// interact.
pub(crate) fn interaction(traces: &[Line], factor: &str, levels: &[String], unit: Option<&str>) -> Option<Canvas> {
    let points = || traces.iter().flat_map(|trace| &trace.points).filter(|p| p.y.is_finite() && p.y > 0.0);
    let times = span(points().map(|point| point.y))?;
    let last = levels.len().saturating_sub(1).max(1) as f64;
    let x = Scale::linear(-0.15..last + 0.15, LEFT..right(traces));
    let y = Scale::logarithmic(times.start / 1.02..times.end * 1.02, FOOT..TOP);
    let mut canvas = Canvas::new(HEIGHT);
    let ticks = y.ticks(6).into_iter().filter(|(tick, _)| *tick > 0.0);
    let ticks = ticks.map(|(tick, _)| (tick, with_unit(&number::seconds(tick), unit)));
    canvas.levels(&y, LEFT..right(traces), None, ticks);
    let name = |at: f64| levels.get(at as usize).map_or_else(String::new, |level| short(level, 16));
    lines(&mut canvas, traces, (&x, &y), &short(factor, 40), name, None);
    Some(canvas)
}

/// Ends a drawing with its lines, their names beside them, and the values of the horizontal scale, which `title` names.
fn lines(
    canvas: &mut Canvas,
    lines: &[Line],
    (x, y): (&Scale, &Scale),
    title: &str,
    name: impl Fn(f64) -> String,
    more: Option<EndLabel>,
) {
    let right = right(lines);
    let is_drawn = |point: &&LinePoint| x.at(point.x).is_finite() && y.at(point.y).is_finite();
    let mut values: Vec<f64> = lines.iter().flat_map(|line| &line.points).filter(is_drawn).map(|p| p.x).collect();
    values.sort_unstable_by(f64::total_cmp);
    values.dedup();
    canvas.names(FOOT + 12.0, values.into_iter().map(|value| (x.at(value), name(value))));
    canvas.text("muted", ((LEFT + right) / 2.0, HEIGHT - 8.0), Anchor::Middle, title);
    let mut labels: Vec<EndLabel> = more.into_iter().collect();
    for Line { label, hue, points } in lines {
        let place = |point: &LinePoint| (x.at(point.x), y.within(point.y));
        let points: Vec<&LinePoint> = points.iter().filter(is_drawn).collect();
        let Some(end) = points.last().map(|point| place(point)) else { continue };
        for (point, (low, high)) in points
            .iter()
            .filter_map(|point| Some((point, point.interval?)))
            .filter(|(_, (low, high))| (high - low).is_finite())
        {
            canvas.line("faint", [(x.at(point.x), y.within(low)), (x.at(point.x), y.within(high))]);
        }
        canvas.line(hue.class(), points.iter().map(|point| place(point)));
        for point in points {
            canvas.mark(hue.class(), hue.shape(), place(point), &point.hover);
        }
        labels.push(EndLabel { end, class: hue.class(), text: label.clone() });
    }
    canvas.end_labels(labels, right + 10.0, TOP..FOOT);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(canvas: Canvas) -> String {
        canvas.finish("misses", "described").into_string()
    }

    fn line(points: &[(f64, f64)]) -> Line {
        let point =
            |&(x, y): &(f64, f64)| LinePoint { x, y, interval: Some((y - 1.0, y + 1.0)), hover: format!("at {x}") };
        Line { label: "misses".into(), hue: Hue::Series(1), points: points.iter().map(point).collect() }
    }

    #[test]
    fn an_interaction_names_the_levels_and_draws_what_has_a_time() {
        let traces = [line(&[(0.0, 2.0), (1.0, 1.0)]), line(&[(0.0, 1.5), (1.0, f64::NAN)])];
        let levels = ["unbound".to_owned(), "scatter".to_owned()];
        let svg = interaction(&traces, "place", &levels, Some("s")).map(finished).unwrap();
        assert_eq!(["unbound", "scatter", "place"].map(|name| svg.matches(&format!(">{name}</text>")).count()), [1; 3]);
        assert_eq!((svg.matches("<title>at ").count(), svg.contains("NaN")), (3, false), "{svg}");
        assert!(interaction(&[], "place", &levels, None).is_none());
    }

    fn swept(values: &[f64], threshold: Option<f64>) -> Option<String> {
        let points: Vec<(f64, f64)> = values.iter().map(|value| (*value, -value)).collect();
        let threshold = threshold.map(|value| (value, "affinity matters"));
        sweep(&[line(&points)], "phi", threshold).map(finished)
    }

    #[test]
    fn a_sweep_marks_each_value_once_and_stays_drawable_for_one() {
        let svg = swept(&[0.0, 2.0, 4.0], None).unwrap();
        assert!((0..3).all(|at| svg.matches(&format!("<title>at {}</title>", 2 * at)).count() == 1));
        assert!(swept(&[3.0], None).is_some_and(|svg| !svg.contains("NaN")));
        assert!(sweep(&[], "phi", None).is_none());
        let marked = |threshold| swept(&[1.0, 10.0, 1000.0], Some(threshold)).unwrap();
        assert!(marked(10.0).contains("affinity matters") && !marked(2000.0).contains("affinity matters"));
    }

    #[test]
    fn no_change_is_below_the_whole() {
        let svg = sweep(&[line(&[(1.0, -99.9), (2.0, 150.0)])], "phi", None).map(finished).unwrap();
        assert!(svg.contains(">-100 %<") && !svg.contains(">-150 %<") && !svg.contains(">-200 %<"), "{svg}");
    }

    #[test]
    fn values_over_decades_lie_evenly() {
        let svg = swept(&[1.0, 10.0, 100.0], None).unwrap();
        let place = |value: &str| -> f64 {
            let end = svg.find(&format!("{value}</text>")).unwrap();
            let tag = &svg[svg[..end].rfind(" x=\"").unwrap() + 4..end];
            tag.split('"').next().unwrap().parse().unwrap()
        };
        assert!((place(">1") + place(">100") - 2.0 * place(">10")).abs() < 0.2, "{svg}");
    }

    #[test]
    fn a_speedup_needs_a_usable_point_and_leaves_out_the_others() {
        assert!(speedup(&[line(&[(0.0, 1.0)])]).is_none());
        let svg = speedup(&[line(&[(1.0, 1.0), (2.0, -1.0), (3.0, f64::NAN), (4.0, 3.0)])]).unwrap();
        let svg = finished(svg);
        assert!(["1", "4"].iter().all(|at| svg.contains(&format!("<title>at {at}</title>"))), "{svg}");
        assert_eq!(svg.matches("<title>at").count(), 2, "{svg}");
        assert!(!svg.contains("NaN") && svg.contains(">ideal</text>"), "{svg}");
    }
}
