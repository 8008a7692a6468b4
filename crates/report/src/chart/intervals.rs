//! Ratios with their intervals, one a row.

use super::canvas::{Anchor, Canvas, WIDTH, apart, width};
use super::scale::{Scale, padded, span};
use super::{Hue, signed_percent};
use crate::number::FARTHEST;

/// One row of an interval plot.
#[derive(Clone, Debug)]
pub(crate) struct Interval {
    /// A heading above the row, where a group begins.
    pub heading: Option<String>,
    /// Name of the row.
    pub label: String,
    /// The estimate, its lower and upper bound; all above 0.
    pub estimate: (f64, f64, f64),
    /// The same in words, at the row's right end.
    pub figure: String,
    /// How it is painted.
    pub hue: Hue,
    /// What hovering tells.
    pub hover: String,
}

/// Names take no more room beside the bars.
const MOST_BESIDE: f64 = 112.0;
/// From a name to the bar below it.
const NAME_ABOVE: f64 = 16.0;

/// Ratios with their intervals on a logarithmic scale around 1, which `below` and `above` explain; in `percent`, as
/// changes from 1.
pub(crate) fn intervals(rows: &[Interval], below: &str, above: &str, percent: bool) -> Option<Canvas> {
    let (row_height, top) = (22.0, 22.0);
    let widest = rows.iter().map(|row| width(&row.label) + 14.0).fold(48.0, f64::max);
    // Names that have no room beside the bars stand above them: cut off, they could all begin alike.
    let is_above = widest > MOST_BESIDE;
    let left = widest.min(MOST_BESIDE);
    let usable = |row: &&Interval| {
        let (value, low, high) = row.estimate;
        low > 0.0 && high.is_finite() && value.is_finite()
    };
    let farthest = FARTHEST.ln();
    let drawn = |end: f64| end.ln().clamp(-farthest, farthest);
    let ends = span(rows.iter().filter(usable).flat_map(|row| [drawn(row.estimate.1), drawn(row.estimate.2)]))?;
    let logs = padded(ends.start.min(-0.02)..ends.end.max(0.02));
    let lines = rows.len() + rows.iter().filter(|row| row.heading.is_some()).count();
    let names_above = if is_above { rows.len() as f64 * NAME_ABOVE } else { 0.0 };
    let foot = top + lines as f64 * row_height + names_above;
    let x = Scale::logarithmic(logs.start.exp()..logs.end.exp(), left..WIDTH - 136.0);
    let one = x.at(1.0);
    let mut canvas = Canvas::new(foot + 24.0);
    let name = |(tick, name)| (x.at(tick), if percent { signed_percent(tick - 1.0) } else { name });
    let ticks = |most| x.ticks(most).into_iter().filter(|(tick, _)| *tick > 0.0).map(name).collect::<Vec<_>>();
    // As many as have room for all their names.
    let names = (1..=4).rev().map(ticks).find(|names| apart(names.clone()).len() == names.len());
    let names = names.unwrap_or_default();
    for (place, _) in &names {
        canvas.line("grid", [(*place, top), (*place, foot)]);
    }
    canvas.names(foot + 12.0, names);
    canvas.line("ink", [(one, top - 4.0), (one, foot)]);
    canvas.text("muted", (one - 6.0, 8.0), Anchor::End, &format!("← {below}"));
    canvas.text("muted", (one + 6.0, 8.0), Anchor::Start, &format!("{above} →"));
    let mut middle = top - row_height / 2.0;
    for row in rows {
        if let Some(heading) = &row.heading {
            middle += row_height;
            canvas.text("muted", (2.0, middle + 3.0), Anchor::Start, heading);
        }
        middle += row_height;
        if is_above {
            canvas.label("ink", (2.0, middle), &row.label, WIDTH - 8.0);
            middle += NAME_ABOVE;
        } else {
            canvas.label("ink", (2.0, middle), &row.label, left - 8.0);
        }
        let class = row.hue.class();
        let figure_class = if row.hue == Hue::Neutral { "muted" } else { class };
        canvas.text(figure_class, (WIDTH - 2.0, middle), Anchor::End, &row.figure);
        if usable(&row) {
            let (value, low, high) = row.estimate;
            canvas.line(class, [(x.within(low), middle), (x.within(high), middle)]);
            // A bar without an end goes on beyond the scale.
            for end in [low, high].into_iter().filter(|end| x.holds(*end)).map(|end| x.at(end)) {
                canvas.line(class, [(end, middle - 4.0), (end, middle + 4.0)]);
            }
            canvas.mark(class, row.hue.shape(), (x.within(value), middle), &row.hover);
        }
    }
    Some(canvas)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(estimates: &[(f64, f64, f64)]) -> Option<String> {
        let row = |&estimate: &(f64, f64, f64)| Interval {
            heading: None,
            label: "scatter".into(),
            estimate,
            figure: "1.18".into(),
            hue: Hue::Better,
            hover: "hover".into(),
        };
        let rows: Vec<Interval> = estimates.iter().map(row).collect();
        intervals(&rows, "-", "+", false).map(|canvas| canvas.finish("ratios", "described").into_string())
    }

    #[test]
    fn a_row_without_a_usable_interval_has_no_mark() {
        let unusable = [(1.0, 0.0, 2.0), (1.0, 0.5, f64::INFINITY), (f64::NAN, 0.5, 2.0)];
        assert_eq!(drawn(&unusable), None);
        let svg = drawn(&[&unusable[..], &[(1.0, 1.0, 1.0), (1.0, 1e-9, 1e9)]].concat()).unwrap();
        assert_eq!((svg.matches("<title>hover</title>").count(), svg.matches(">scatter</text>").count()), (2, 5));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn long_names_stand_whole_above_their_bars() {
        let name = "memory=interleave huge-pages=always";
        let row = |label: &str| Interval {
            heading: None,
            label: label.into(),
            estimate: (1.1, 1.0, 1.2),
            figure: "1.10".into(),
            hue: Hue::Neutral,
            hover: String::new(),
        };
        let svg = intervals(&[row("scatter"), row(name)], "-", "+", false).unwrap().finish("ratios", "described");
        assert!(svg.into_string().contains(&format!(">{name}</text>")));
    }

    #[test]
    fn every_line_of_the_scale_has_its_name() {
        for high in [1.01, 1.06, 1.3, 1.6, 2.2, 7.0, 90.0] {
            let svg = drawn(&[(1.0, 1.0, high)]).unwrap();
            let names = svg.matches("text-anchor=\"middle\"").count();
            assert!((1..=4).contains(&names), "{high}: {svg}");
            assert_eq!(svg.matches("class=\"grid\"").count(), names, "{high}: {svg}");
        }
    }
}
