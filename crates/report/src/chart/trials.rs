//! Trials one by one: in the order in which they were run, and along a scale of their values.

use super::canvas::{Anchor, Canvas, Shape, WIDTH};
use super::scale::{Scale, padded, span};
use super::{Hue, signed_percent, with_unit};

/// What kind of measurement a mark stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// It counts.
    Counted,
    /// It counts, and lies far from the others: ringed.
    Outlier,
    /// It doesn't count (warm-up): a hollow ring.
    Uncounted,
    /// It has no value: a cross beside the scale.
    Failed,
    /// It was stopped before it had a value: a bar that bounds a stroke, beside the scale.
    CutOff,
}

impl Mark {
    /// Whether it has no place on the scale.
    pub(crate) fn is_beside(self) -> bool {
        matches!(self, Self::Failed | Self::CutOff)
    }
}

/// One measurement.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    /// Position in the order of measurement.
    pub order: f64,
    /// The value; ignored for a mark beside the scale.
    pub value: f64,
    /// How it is drawn.
    pub mark: Mark,
    /// Its series.
    pub hue: Hue,
    /// What hovering tells.
    pub hover: String,
}

impl Point {
    fn draw(&self, canvas: &mut Canvas, at: (f64, f64)) {
        let (class, shape) = match self.mark {
            Mark::Failed => (Hue::Worse.class(), Shape::Cross),
            Mark::CutOff => (self.hue.class(), Shape::Stop),
            Mark::Uncounted => (self.hue.class(), Shape::Ring),
            Mark::Counted | Mark::Outlier => (self.hue.class(), self.hue.shape()),
        };
        canvas.mark(class, shape, at, &self.hover);
        if self.mark == Mark::Outlier {
            canvas.mark("ink", Shape::Halo, at, "");
        }
    }
}

/// One row of a strip plot.
#[derive(Clone, Debug)]
pub(crate) struct Strip {
    /// Name of the row.
    pub label: String,
    /// A figure in words at the row's right end.
    pub figure: String,
    /// The measurements.
    pub points: Vec<Point>,
    /// Where the median mark goes.
    pub median: Option<f64>,
}

/// Measurements in their order, as relative changes (0.05 = 5 % above), so that drift shows. Values far outside
/// what counts sit at the edge. `breaks` are orders before which work was interrupted.
pub(crate) fn in_order(points: &[Point], breaks: &[f64]) -> Option<Canvas> {
    let mut beside = vec![(Mark::Failed, "failed"), (Mark::CutOff, "cut off")];
    beside.retain(|(mark, _)| points.iter().any(|point| point.mark == *mark));
    let (left, right, top, foot) = (50.0, WIDTH - 6.0, 8.0, 154.0);
    let height = foot + 20.0 + 16.0 * beside.len().max(1) as f64;
    let inliers = points.iter().filter(|p| p.mark == Mark::Counted && p.value.is_finite()).map(|p| p.value.abs());
    let reach = inliers.reduce(f64::max)?.max(0.01) * 1.15;
    let orders = span(points.iter().map(|point| point.order))?;
    let x = Scale::linear(orders.start - 0.5..orders.end + 0.5, left..right);
    // No time is shorter than none at all: 100 % less.
    let y = Scale::linear(-reach.min(1.0)..reach, foot..top);
    let mut canvas = Canvas::new(height);
    let ticks = y.ticks(5).into_iter().map(|(tick, _)| (tick, signed_percent(tick)));
    canvas.levels(&y, left..right, Some((0.0, "0 %")), ticks);
    for place in breaks.iter().map(|order| x.at(order - 0.5)) {
        canvas.line("dashed", [(place, top), (place, foot)]);
    }
    let numbers = x.ticks(6).into_iter().filter(|(tick, _)| tick.fract() == 0.0);
    canvas.names(height - 10.0, numbers.map(|(tick, _)| (x.at(tick), format!("#{tick}"))));
    let row_at = |row: usize| height - 26.0 - 16.0 * row as f64;
    for (row, &(_, name)) in beside.iter().enumerate() {
        canvas.text("muted", (left - 6.0, row_at(row)), Anchor::End, name);
    }
    for point in points {
        let row = beside.iter().position(|(mark, _)| *mark == point.mark);
        if row.is_some() || point.value.is_finite() {
            point.draw(&mut canvas, (x.at(point.order), row.map_or_else(|| y.within(point.value), row_at)));
        }
    }
    Some(canvas)
}

/// One row of marks a series along a common scale of `unit` from the smallest to the largest value, the first measurement
/// of each row at its top.
pub(crate) fn strips(strips: &[Strip], unit: Option<&str>) -> Option<Canvas> {
    let (label, band, gap, axis) = (16.0, 26.0, 8.0, 22.0);
    let points = || strips.iter().flat_map(|strip| &strip.points);
    let values = span(points().filter(|point| !point.mark.is_beside()).map(|point| point.value))?;
    let has_failures = points().any(|point| point.mark.is_beside());
    let right = WIDTH - if has_failures { 26.0 } else { 8.0 };
    let height = strips.len() as f64 * (label + band + gap) + axis;
    let scale = padded(values.clone());
    let x = Scale::linear(scale.start.max(values.start.min(0.0))..scale.end, 8.0..right);
    let ticks = x.ticks(4);
    let mut canvas = Canvas::new(height);
    canvas.names(height - 9.0, ticks.iter().map(|(tick, name)| (x.at(*tick), with_unit(name, unit))));
    for (row, strip) in strips.iter().enumerate() {
        let top = row as f64 * (label + band + gap);
        canvas.row_head("ink", (2.0, top + 8.0), &strip.label, &strip.figure);
        let (upper, lower) = (top + label, top + label + band);
        canvas.rect("panel", 0.0..right + 8.0, upper..lower, "");
        for place in ticks.iter().map(|(tick, _)| x.at(*tick)) {
            canvas.line("grid", [(place, upper), (place, lower)]);
        }
        if has_failures {
            canvas.rect("panel", right + 10.0..WIDTH, upper..lower, "");
        }
        let orders = span(strip.points.iter().map(|point| point.order)).unwrap_or(0.0..0.0);
        let y = Scale::linear(padded(orders), upper + 4.0..lower - 4.0);
        for point in strip.points.iter().filter(|point| point.mark.is_beside() || point.value.is_finite()) {
            let place = if point.mark.is_beside() { right + 18.0 } else { x.at(point.value) };
            point.draw(&mut canvas, (place, y.at(point.order)));
        }
        if let Some(middle) = strip.median.filter(|median| median.is_finite()).map(|median| x.at(median)) {
            canvas.rect("ink", middle - 1.0..middle + 1.0, upper - 1.0..lower + 1.0, "");
        }
    }
    Some(canvas)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(canvas: Option<Canvas>) -> String {
        canvas.unwrap().finish("times", "described").into_string()
    }

    fn point(order: u32, value: f64, mark: Mark) -> Point {
        Point { order: f64::from(order), value, mark, hue: Hue::Series(1), hover: format!("trial {order}.") }
    }

    fn strip(points: Vec<Point>) -> Strip {
        Strip { label: "x".into(), figure: "y".into(), points, median: Some(f64::NAN) }
    }

    #[test]
    fn a_chart_without_a_usable_value_is_none() {
        let failed = point(0, f64::NAN, Mark::Failed);
        assert!(in_order(&[], &[]).is_none());
        assert!(in_order(std::slice::from_ref(&failed), &[]).is_none());
        assert!(strips(&[strip(vec![failed])], Some("s")).is_none());
    }

    #[test]
    fn values_that_are_no_numbers_leave_no_trace() {
        let values = [0.0, f64::NAN, f64::INFINITY, -1e12, 1e12, 0.0];
        let points: Vec<Point> = (0..).zip(values).map(|(order, value)| point(order, value, Mark::Counted)).collect();
        let equal = vec![point(0, 2.0, Mark::Counted), point(1, 2.0, Mark::Counted)];
        let drawn = [in_order(&points, &[1.0]), strips(&[strip(points)], Some("s")), strips(&[strip(equal)], None)];
        for svg in drawn.map(finished) {
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }

    #[test]
    fn every_kind_of_measurement_has_its_mark() {
        let kinds = [
            (Mark::Counted, "h1", Shape::Triangle),
            (Mark::Outlier, "h1", Shape::Triangle),
            (Mark::Uncounted, "h1 open", Shape::Ring),
            (Mark::Failed, "worse open", Shape::Cross),
            (Mark::CutOff, "h1 open", Shape::Stop),
        ];
        let points: Vec<Point> = (0..).zip(kinds).map(|(order, (mark, ..))| point(order, 0.01, mark)).collect();
        for svg in [in_order(&points, &[]), strips(&[strip(points.clone())], Some("s"))] {
            let svg = finished(svg);
            for (order, (_, class, shape)) in kinds.into_iter().enumerate() {
                let is_mark = |path: &&str| {
                    path.starts_with(&format!("class=\"{class}\""))
                        && path.contains(&format!("{}\"><title>trial {order}.</title>", shape.path()))
                };
                assert_eq!(svg.split("<path ").filter(is_mark).count(), 1, "{order}: {svg}");
            }
            assert_eq!(svg.matches(Shape::Halo.path()).count(), 1, "around the outlier");
        }
    }

    #[test]
    fn every_mark_of_very_many_has_its_title() {
        let points: Vec<Point> = (0..70_000).map(|order| point(order, 0.0, Mark::Counted)).collect();
        let svg = finished(in_order(&points, &[]));
        assert_eq!(svg.matches("</title></path>").count(), 70_000);
        assert_eq!(svg.matches("trial 65536.").count(), 1);
    }
}
