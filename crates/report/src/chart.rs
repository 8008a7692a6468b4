//! Charts as inline SVG, from plain series: they know nothing of studies.
//!
//! `plotters` maps, places and writes the marks. It writes fixed colours and no hover titles, so each colour that we
//! hand it is an address: its red byte names a [`Role`], the other two number a hover title. Afterwards
//! [`dressed`] exchanges every address for a CSS class, which follows the page's light or dark theme, and for
//! a `<title>` inside the mark.
//!
//! Charts are drawn for a column 360 pixels wide, so that text keeps its size on a phone; a page sets several
//! side by side where there is room. A chart without anything to draw is [`None`], for the page to say so in words.

mod panels;
mod race;
mod simulation;

pub use panels::Multiple;
pub use race::{Exit, Racer, Step};
pub use simulation::{Bar, Histogram, Threshold, Trace, TracePoint};

use crate::words::{plain, short};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::fmt::Write;
use std::ops::Range;

/// Plotters places marks on whole pixels; a larger drawing, scaled down by its view box, keeps quarters of them.
const SCALE: i32 = 4;
/// Width of every chart, in CSS pixels.
const WIDTH: i32 = 360;
/// Height of text, in CSS pixels.
const TEXT: i32 = 11;
/// Width of an average character of that height, in CSS pixels; for cutting labels to their room.
const LETTER: f64 = 6.0;
/// From one of several names at the ends of lines to the next, in CSS pixels.
const LABEL_HEIGHT: f64 = 14.0;
/// How many series have a colour of their own; further ones start again after the reference's.
const HUES: usize = 8;

/// What a mark is painted for; the page's style sheet gives it a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hue {
    /// One of several series; 0 is the reference.
    Series(usize),
    /// Shown to be better.
    Better,
    /// Shown to be worse.
    Worse,
    /// Nothing is shown.
    Neutral,
}

impl Hue {
    /// The style sheet's name of the colour, for legends: `h0` to `h7`, `better`, `worse`, `neutral`.
    pub fn class(self) -> &'static str {
        Role::Hue(self).name()
    }

    /// The shape of the marks, which tells series apart without colours.
    pub fn glyph(self) -> &'static str {
        match self.shape() {
            Shape::Disc => "●",
            Shape::Triangle => "▲",
            Shape::Square => "■",
            Shape::Diamond => "◆",
        }
    }

    fn shape(self) -> Shape {
        match self {
            Self::Series(index) => [Shape::Disc, Shape::Triangle, Shape::Square, Shape::Diamond][index % 4],
            Self::Better | Self::Worse => Shape::Square,
            Self::Neutral => Shape::Disc,
        }
    }
}

#[derive(Clone, Copy)]
enum Shape {
    Disc,
    Triangle,
    Square,
    Diamond,
}

/// What kind of measurement a mark stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
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
    fn is_beside(self) -> bool {
        matches!(self, Self::Failed | Self::CutOff)
    }
}

/// One measurement.
#[derive(Clone, Debug)]
pub struct Point {
    /// Position in the order of measurement.
    pub order: f64,
    /// The value; ignored for [`Mark::Failed`] and [`Mark::CutOff`].
    pub value: f64,
    /// How it is drawn.
    pub mark: Mark,
    /// Its series.
    pub hue: Hue,
    /// What hovering tells.
    pub hover: String,
}

/// One row of a strip plot.
#[derive(Clone, Debug)]
pub struct Strip {
    /// Name of the row.
    pub label: String,
    /// A figure in words at the row's right end.
    pub figure: String,
    /// The measurements.
    pub points: Vec<Point>,
    /// Where the median mark goes.
    pub median: Option<f64>,
}

/// One line of a speed-up plot.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Its name.
    pub label: String,
    /// Its series.
    pub hue: Hue,
    /// Thread count and speed-up, in rising order of threads, with what hovering tells.
    pub points: Vec<(u32, f64, String)>,
}

/// One row of an interval plot.
#[derive(Clone, Debug)]
pub struct Interval {
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

/// What every chart carries besides its marks.
#[derive(Clone, Debug)]
pub struct Chart {
    /// The title, also its accessible name.
    pub title: String,
    /// What it shows, in a sentence or two, for those who can't see it.
    pub description: String,
}

impl Chart {
    /// Measurements in their order, as relative changes (0.05 = 5 % above), so that drift shows. Values far outside
    /// what counts sit at the edge. `breaks` are orders before which work was interrupted.
    pub fn in_order(&self, points: &[Point], breaks: &[f64]) -> Option<String> {
        let mut beside = vec![(Mark::Failed, "failed"), (Mark::CutOff, "cut off")];
        beside.retain(|(mark, _)| points.iter().any(|p| p.mark == *mark));
        let (left, right, top, bottom) = (44, 6, 8, 20 + 16 * beside.len().max(1) as i32);
        let height = 154 + bottom;
        let row_at = |row: usize| height - 26 - 16 * row as i32;
        let inliers = points.iter().filter(|p| p.mark == Mark::Counted && p.value.is_finite()).map(|p| p.value);
        let reach =
            inliers.fold(None, |reach: Option<f64>, value| Some(reach.unwrap_or(0.01).max(value.abs())))? * 1.15;
        let orders = span(points.iter().map(|p| p.order))?;
        let mut svg = String::new();
        let mut canvas = Canvas::new(&mut svg, height);
        let x = Axis::new(orders.start - 0.5..orders.end + 0.5, left..WIDTH - right);
        let y = Axis::new(-reach..reach, height - bottom..top);
        for tick in y.ticks(5) {
            canvas.line(Role::Grid, [(left, y.at(tick)), (WIDTH - right, y.at(tick))]);
            canvas.text(Role::Muted, (left - 6, y.at(tick)), HPos::Right, &signed_percent(tick));
        }
        canvas.line(Role::Ink, [(left, y.at(0.0)), (WIDTH - right, y.at(0.0))]);
        for &order in breaks {
            canvas.line(Role::Dashed, [(x.at(order - 0.5), top as f64), (x.at(order - 0.5), (height - bottom) as f64)]);
        }
        for tick in x.ticks(6).into_iter().filter(|tick| tick.fract() == 0.0) {
            canvas.tick(x.at(tick), height - 10, &format!("#{tick}"));
        }
        for (row, &(_, name)) in beside.iter().enumerate() {
            canvas.text(Role::Muted, (left - 6, row_at(row)), HPos::Right, name);
        }
        for point in points {
            let place = (x.at(point.order), y.at(point.value.clamp(-reach, reach)));
            match beside.iter().position(|(mark, _)| *mark == point.mark) {
                Some(row) => canvas.mark(point.hue, point.mark, (place.0, f64::from(row_at(row))), &point.hover),
                None if !point.value.is_finite() => {}
                None => canvas.mark(point.hue, point.mark, place, &point.hover),
            }
        }
        let hovers = canvas.finish();
        Some(dressed(&svg, self, &hovers))
    }

    /// One row of marks a series along a common scale from the smallest to the largest value, the first measurement
    /// of each row at its top. `unit` follows the numbers of the scale.
    pub fn strips(&self, strips: &[Strip], unit: &str) -> Option<String> {
        let (label, band, gap, axis) = (16, 26, 8, 22);
        let drawn = |p: &&Point| !p.mark.is_beside() && p.value.is_finite();
        let values = span(strips.iter().flat_map(|s| &s.points).filter(drawn).map(|p| p.value))?;
        let failures = strips.iter().flat_map(|s| &s.points).any(|p| p.mark.is_beside());
        let right = WIDTH - if failures { 26 } else { 8 };
        let height = strips.len() as i32 * (label + band + gap) + axis;
        let mut svg = String::new();
        let mut canvas = Canvas::new(&mut svg, height);
        let x = Axis::new(padded(values), 8..right);
        let ticks = x.ticks(4);
        let decimals = decimals(&ticks);
        for &tick in &ticks {
            canvas.tick(x.at(tick), height - 9, &format!("{tick:.decimals$}{unit}"));
        }
        for (row, strip) in strips.iter().enumerate() {
            let top = row as i32 * (label + band + gap);
            let room = ((f64::from(WIDTH) - strip.figure.chars().count() as f64 * LETTER - 12.0) / LETTER) as usize;
            canvas.hover_text(Role::Ink, (2, top + 8), HPos::Left, &short(&strip.label, room), &strip.label);
            canvas.text(Role::Muted, (WIDTH - 2, top + 8), HPos::Right, &strip.figure);
            let (upper, lower) = (f64::from(top + label), f64::from(top + label + band));
            canvas.rect(Role::Panel, (0.0, upper), (f64::from(right + 8), lower));
            for &tick in &ticks {
                canvas.line(Role::Grid, [(x.at(tick), upper), (x.at(tick), lower)]);
            }
            if failures {
                canvas.rect(Role::Panel, (f64::from(right + 10), upper), (f64::from(WIDTH), lower));
            }
            let orders = span(strip.points.iter().map(|p| p.order)).unwrap_or(0.0..0.0);
            let y = Axis::new(padded(orders), top + label + 4..top + label + band - 4);
            for point in &strip.points {
                let place = match point.mark {
                    mark if mark.is_beside() => f64::from(right + 18),
                    _ if point.value.is_finite() => x.at(point.value),
                    _ => continue,
                };
                canvas.mark(point.hue, point.mark, (place, y.at(point.order)), &point.hover);
            }
            if let Some(median) = strip.median.filter(|median| median.is_finite()) {
                let middle = x.at(median);
                canvas.rect(Role::Ink, (middle - 1.0, upper - 1.0), (middle + 1.0, lower + 1.0));
            }
        }
        let hovers = canvas.finish();
        Some(dressed(&svg, self, &hovers))
    }

    /// Speed-up over threads, both on logarithmic scales, beside the ideal of one for each thread.
    pub fn speedup(&self, curves: &[Curve]) -> Option<String> {
        let (height, left, right, top, bottom) = (240, 30, 84, 10, 34);
        let usable =
            |(threads, speedup, _): &&(u32, f64, String)| *threads > 0 && *speedup > 0.0 && speedup.is_finite();
        let points = || curves.iter().flat_map(|c| &c.points).filter(usable);
        let threads = span(points().map(|p| f64::from(p.0).log2()))?;
        let speedups = span(points().map(|p| p.1.log2()).chain([threads.end, 0.0]))?;
        let mut svg = String::new();
        let mut canvas = Canvas::new(&mut svg, height);
        let x = Axis::new(threads.start..threads.end.max(threads.start + 1.0), left..WIDTH - right);
        let y = Axis::new(speedups.start..speedups.end.max(speedups.start + 1.0), height - bottom..top);
        for power in speedups.start.floor() as i32..=speedups.end.ceil() as i32 {
            let power = f64::from(power);
            if power >= speedups.start && power <= y.range.end {
                canvas.line(Role::Grid, [(left, y.at(power)), (WIDTH - right, y.at(power))]);
                canvas.text(Role::Muted, (left - 6, y.at(power)), HPos::Right, &power.exp2().to_string());
            }
        }
        let mut counts: Vec<u32> = points().map(|p| p.0).collect();
        counts.sort_unstable();
        counts.dedup();
        let mut free = f64::MIN;
        for count in counts {
            let place = x.at(f64::from(count).log2());
            if place >= free {
                canvas.text(Role::Muted, (place, height - bottom + 13), HPos::Center, &count.to_string());
                free = place + 18.0;
            }
        }
        canvas.text(Role::Muted, ((left + WIDTH - right) / 2, height - 6), HPos::Center, "threads");
        canvas.line(Role::Dashed, [(x.at(threads.start), y.at(threads.start)), (x.at(threads.end), y.at(threads.end))]);
        let mut labels = vec![EndLabel {
            end: (f64::from(WIDTH - right), y.at(threads.end)),
            role: Role::Muted,
            text: "ideal".into(),
            hover: String::new(),
        }];
        for curve in curves {
            let places: Vec<_> = curve
                .points
                .iter()
                .filter(usable)
                .map(|p| (x.at(f64::from(p.0).log2()), y.at(p.1.log2()), &p.2))
                .collect();
            let Some(&(end_x, end_y, _)) = places.last() else { continue };
            canvas.line(Role::Hue(curve.hue), places.iter().map(|&(x, y, _)| (x, y)));
            for (x, y, hover) in places {
                canvas.mark(curve.hue, Mark::Counted, (x, y), hover);
            }
            let text = short(&curve.label, 11);
            labels.push(EndLabel { end: (end_x, end_y), role: Role::Hue(curve.hue), text, hover: curve.label.clone() });
        }
        canvas.end_labels(labels, f64::from(WIDTH - right + 10), f64::from(top)..f64::from(height - bottom));
        let hovers = canvas.finish();
        Some(dressed(&svg, self, &hovers))
    }

    /// Ratios with their intervals on a logarithmic scale around 1, which `below` and `above` explain; in `percent`, as
    /// changes from 1.
    pub fn intervals(&self, rows: &[Interval], below: &str, above: &str, percent: bool) -> Option<String> {
        let (row_height, heading_height, top, bottom) = (22, 22, 22, 24);
        let longest = rows.iter().map(|row| row.label.chars().count()).max().unwrap_or(0);
        let (left, right) = ((longest as f64 * LETTER) as i32 + 14, WIDTH - 136);
        let left = left.clamp(48, 104);
        let usable = |r: &&Interval| r.estimate.1 > 0.0 && r.estimate.2.is_finite() && r.estimate.0.is_finite();
        let ends = rows.iter().filter(usable).flat_map(|r| [r.estimate.1.ln(), r.estimate.2.ln()]);
        let values = span(ends.chain([-0.02, 0.02]))?;
        rows.iter().find(usable)?;
        let headings = rows.iter().filter(|r| r.heading.is_some()).count() as i32;
        let height = top + rows.len() as i32 * row_height + headings * heading_height + bottom;
        let mut svg = String::new();
        let mut canvas = Canvas::new(&mut svg, height);
        let x = Axis::new(padded(values), left..right);
        let linear = Axis::new(x.range.start.exp()..x.range.end.exp(), left..right);
        let ticks = linear.ticks(if percent { 3 } else { 4 });
        let decimals = decimals(&ticks);
        let write = |tick: f64| if percent { signed_percent(tick - 1.0) } else { format!("{tick:.decimals$}") };
        let foot = f64::from(height - bottom);
        let mut free = f64::MIN;
        for &tick in ticks.iter().filter(|&&tick| tick > 0.0) {
            let (place, name) = (x.at(tick.ln()), write(tick));
            canvas.line(Role::Grid, [(place, f64::from(top)), (place, foot)]);
            let half = name.chars().count() as f64 * LETTER / 2.0;
            if place - half < free {
                continue;
            }
            free = place + half + 2.0 * LETTER;
            canvas.text(Role::Muted, (place, foot + 12.0), HPos::Center, &name);
        }
        canvas.line(Role::Ink, [(x.at(0.0), f64::from(top - 4)), (x.at(0.0), foot)]);
        canvas.text(Role::Muted, (x.at(0.0) - 6.0, 8.0), HPos::Right, &format!("← {below}"));
        canvas.text(Role::Muted, (x.at(0.0) + 6.0, 8.0), HPos::Left, &format!("{above} →"));
        let mut y = top;
        for row in rows {
            if let Some(heading) = &row.heading {
                canvas.text(Role::Muted, (2, y + heading_height / 2 + 3), HPos::Left, heading);
                y += heading_height;
            }
            let middle = f64::from(y + row_height / 2);
            y += row_height;
            let room = (f64::from(left - 8) / LETTER) as usize;
            canvas.hover_text(Role::Ink, (2.0, middle), HPos::Left, &short(&row.label, room), &row.label);
            let role = Role::Hue(row.hue);
            let figure_role = if row.hue == Hue::Neutral { Role::Muted } else { role };
            canvas.text(figure_role, (f64::from(WIDTH - 2), middle), HPos::Right, &row.figure);
            if usable(&row) {
                let (value, low, high) = row.estimate;
                let (value, low, high) = (x.at(value.ln()), x.at(low.ln()), x.at(high.ln()));
                canvas.line(role, [(low, middle), (high, middle)]);
                canvas.line(role, [(low, middle - 4.0), (low, middle + 4.0)]);
                canvas.line(role, [(high, middle - 4.0), (high, middle + 4.0)]);
                canvas.mark(row.hue, Mark::Counted, (value, middle), &row.hover);
            }
        }
        let hovers = canvas.finish();
        Some(dressed(&svg, self, &hovers))
    }
}

/// A linear scale: values onto CSS pixels.
struct Axis {
    range: Range<f64>,
    coordinate: RangedCoordf64,
    pixels: (i32, i32),
}

impl Axis {
    fn new(range: Range<f64>, pixels: Range<i32>) -> Self {
        Self { coordinate: range.clone().into(), range, pixels: (pixels.start * SCALE, pixels.end * SCALE) }
    }

    /// Where `value` lies, in CSS pixels.
    fn at(&self, value: f64) -> f64 {
        f64::from(self.coordinate.map(&value, self.pixels)) / f64::from(SCALE)
    }

    /// At most `most` round values within the scale.
    fn ticks(&self, most: usize) -> Vec<f64> {
        self.coordinate.key_points(most)
    }
}

/// The smallest range that holds all finite values; none without any.
fn span(values: impl Iterator<Item = f64>) -> Option<Range<f64>> {
    values.filter(|value| value.is_finite()).fold(None, |range: Option<Range<f64>>, value| match range {
        None => Some(value..value),
        Some(range) => Some(range.start.min(value)..range.end.max(value)),
    })
}

/// `range` with a twentieth to spare on either side, and some width if it had none.
fn padded(range: Range<f64>) -> Range<f64> {
    let room = (range.end - range.start) / 20.0;
    let room = if room > 0.0 { room } else { (range.start.abs() / 20.0).max(1e-9) };
    range.start - room..range.end + room
}

/// Decimals that tell neighbouring `ticks` apart.
fn decimals(ticks: &[f64]) -> usize {
    let step = ticks.windows(2).map(|pair| pair[1] - pair[0]).fold(f64::INFINITY, f64::min);
    if step.is_finite() && step > 0.0 { (-(step * 1.001).log10().floor()).clamp(0.0, 9.0) as usize } else { 3 }
}

fn signed_percent(share: f64) -> String {
    // Without the rounding errors of a scale's steps, and without a negative zero.
    let percent = (share * 1e9).round() / 1e7 + 0.0;
    let text = if percent.fract() == 0.0 { format!("{percent:.0} %") } else { format!("{percent:.1} %") };
    if percent > 0.0 { format!("+{text}") } else { text }
}

/// What a piece of a drawing is, apart from its shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Ink,
    Muted,
    Grid,
    Panel,
    Dashed,
    Failed,
    Faint,
    Hue(Hue),
}

impl Role {
    const NAMES: [&'static str; 10 + HUES] = [
        "ink", "muted", "grid", "panel", "dashed", "failed", "better", "worse", "neutral", "faint", "h0", "h1", "h2",
        "h3", "h4", "h5", "h6", "h7",
    ];

    /// Its byte in a colour, and its position among the names.
    fn code(self) -> u8 {
        match self {
            Self::Ink => 0,
            Self::Muted => 1,
            Self::Grid => 2,
            Self::Panel => 3,
            Self::Dashed => 4,
            Self::Failed => 5,
            Self::Hue(Hue::Better) => 6,
            Self::Hue(Hue::Worse) => 7,
            Self::Hue(Hue::Neutral) => 8,
            Self::Faint => 9,
            Self::Hue(Hue::Series(0)) => 10,
            Self::Hue(Hue::Series(index)) => 11 + ((index - 1) % (HUES - 1)) as u8,
        }
    }

    fn name(self) -> &'static str {
        Self::NAMES[usize::from(self.code())]
    }
}

/// The name at the end of a line.
struct EndLabel {
    /// Where the line ends, in CSS pixels.
    end: (f64, f64),
    role: Role,
    text: String,
    hover: String,
}

/// A drawing under way, in CSS pixels.
struct Canvas<'a> {
    backend: SVGBackend<'a>,
    hovers: Vec<String>,
}

const TO_MEMORY: &str = "drawing to memory cannot fail";

impl<'a> Canvas<'a> {
    fn new(svg: &'a mut String, height: i32) -> Self {
        let size = ((WIDTH * SCALE) as u32, (height * SCALE) as u32);
        Self { backend: SVGBackend::with_string(svg, size), hovers: Vec::new() }
    }

    /// The colour that stands for `role` and, where there is one, for a hover title.
    fn address(&mut self, role: Role, hover: &str) -> RGBColor {
        // Number 0 is no title; a chart of more marks than numbers leaves the last without.
        let number = match u16::try_from(self.hovers.len() + 1) {
            Ok(number) if !hover.is_empty() => {
                self.hovers.push(hover.to_owned());
                number
            }
            _ => 0,
        };
        let [high, low] = number.to_be_bytes();
        RGBColor(role.code(), high, low)
    }

    fn line<X: Into<f64>, Y: Into<f64>>(&mut self, role: Role, points: impl IntoIterator<Item = (X, Y)>) {
        let width = if matches!(role, Role::Hue(_)) { 1.75 } else { 1.0 };
        let style = self.address(role, "").stroke_width(quarters(width) as u32);
        self.backend.draw_path(points.into_iter().map(place), &style).expect(TO_MEMORY);
    }

    fn rect(&mut self, role: Role, from: (f64, f64), to: (f64, f64)) {
        let style = self.address(role, "").filled();
        self.backend.draw_rect(place(from), place(to), &style, true).expect(TO_MEMORY);
    }

    /// A filled box that hovering explains.
    fn bar(&mut self, role: Role, from: (f64, f64), to: (f64, f64), hover: &str) {
        let style = self.address(role, hover).filled();
        self.backend.draw_rect(place(from), place(to), &style, true).expect(TO_MEMORY);
    }

    /// A number on a horizontal scale, kept inside the picture.
    fn tick(&mut self, x: f64, y: i32, text: &str) {
        let half = text.chars().count() as f64 * LETTER / 2.0;
        let (anchor, x) = match x {
            x if x < half => (HPos::Left, 0.0),
            x if x + half > f64::from(WIDTH) => (HPos::Right, f64::from(WIDTH)),
            x => (HPos::Center, x),
        };
        self.text(Role::Muted, (x, f64::from(y)), anchor, text);
    }

    fn text<X: Into<f64>, Y: Into<f64>>(&mut self, role: Role, at: (X, Y), anchor: HPos, text: &str) {
        self.hover_text(role, at, anchor, text, "");
    }

    fn hover_text<X: Into<f64>, Y: Into<f64>>(
        &mut self,
        role: Role,
        at: (X, Y),
        anchor: HPos,
        text: &str,
        hover: &str,
    ) {
        let colour = self.address(role, if hover == text { "" } else { hover });
        // The backend divides by 1.24 to turn a font's height into a size.
        let style = TextStyle::from(("sans-serif", f64::from(TEXT * SCALE) * 1.24).into_font())
            .color(&colour)
            .pos(Pos::new(anchor, VPos::Center));
        self.backend.draw_text(text, &style, place(at)).expect(TO_MEMORY);
    }

    /// Names at the ends of lines, from `x` on and between the ends of `room`, pushed apart where the lines meet. A line
    /// that ends before gets a dashed one to its name.
    fn end_labels(&mut self, mut labels: Vec<EndLabel>, x: f64, room: Range<f64>) {
        labels.sort_by(|a, b| a.end.1.total_cmp(&b.end.1));
        let mut free = room.start;
        let mut heights: Vec<f64> = Vec::new();
        for label in &labels {
            heights.push(label.end.1.max(free));
            free = heights[heights.len() - 1] + LABEL_HEIGHT;
        }
        let mut free = room.end.max(room.start + LABEL_HEIGHT * (labels.len() as f64 - 1.0));
        for height in heights.iter_mut().rev() {
            *height = height.min(free);
            free = *height - LABEL_HEIGHT;
        }
        for (label, height) in labels.into_iter().zip(heights) {
            let (end_x, end_y) = label.end;
            if end_x + 16.0 < x {
                self.line(Role::Dashed, [(end_x + 6.0, end_y), (x - 8.0, end_y), (x - 3.0, height)]);
            }
            self.hover_text(label.role, (x, height), HPos::Left, &label.text, &label.hover);
        }
    }

    /// A measurement, in its series' shape and colour.
    fn mark(&mut self, hue: Hue, mark: Mark, at: (f64, f64), hover: &str) {
        match mark {
            Mark::Failed => return self.cross(at, hover),
            Mark::CutOff => return self.stop(Role::Hue(hue), at, hover),
            Mark::Uncounted => return self.ring(Role::Hue(hue), at, hover),
            Mark::Counted | Mark::Outlier => {}
        }
        let colour = self.address(Role::Hue(hue), hover);
        let (x, y) = place(at);
        let outline: &[(f64, f64)] = match hue.shape() {
            Shape::Disc => &[],
            Shape::Triangle => &[(0.0, -3.5), (3.5, 2.75), (-3.5, 2.75)],
            Shape::Square => &[(-2.75, -2.75), (2.75, -2.75), (2.75, 2.75), (-2.75, 2.75)],
            Shape::Diamond => &[(0.0, -3.75), (3.75, 0.0), (0.0, 3.75), (-3.75, 0.0)],
        };
        let style = colour.filled();
        let drawn = match outline {
            [] => self.backend.draw_circle((x, y), quarters(3.0) as u32, &style, true),
            corners => {
                self.backend.fill_polygon(corners.iter().map(|(dx, dy)| (x + quarters(*dx), y + quarters(*dy))), &style)
            }
        };
        drawn.expect(TO_MEMORY);
        if mark == Mark::Outlier {
            let ring = self.address(Role::Ink, "").stroke_width(SCALE as u32);
            self.backend.draw_circle((x, y), quarters(5.5) as u32, &ring, false).expect(TO_MEMORY);
        }
    }

    /// A measurement that doesn't count, or counts against nobody.
    fn ring(&mut self, role: Role, at: (f64, f64), hover: &str) {
        let style = self.address(role, hover).stroke_width(quarters(1.25) as u32);
        self.backend.draw_circle(place(at), quarters(2.5) as u32, &style, false).expect(TO_MEMORY);
    }

    /// One of very many.
    fn dot(&mut self, role: Role, at: (f64, f64), hover: &str) {
        let style = self.address(role, hover).filled();
        self.backend.draw_circle(place(at), quarters(1.75) as u32, &style, true).expect(TO_MEMORY);
    }

    /// A measurement that was stopped: a stroke that runs into a bar.
    fn stop(&mut self, role: Role, at: (f64, f64), hover: &str) {
        let style = self.address(role, hover).stroke_width(quarters(1.75) as u32);
        let ((x, y), arm) = (place(at), quarters(3.5));
        let path = [(x - arm, y), (x + arm / 2, y), (x + arm / 2, y - arm), (x + arm / 2, y + arm)];
        self.backend.draw_path(path, &style).expect(TO_MEMORY);
    }

    /// A measurement that failed.
    fn cross(&mut self, at: (f64, f64), hover: &str) {
        let colour = self.address(Role::Failed, hover);
        let style = colour.stroke_width(quarters(1.75) as u32);
        let ((x, y), arm) = (place(at), quarters(3.25));
        // One stroke through all four ends, so that one title covers the mark.
        let path = [(x - arm, y - arm), (x + arm, y + arm), (x, y), (x - arm, y + arm), (x + arm, y - arm)];
        self.backend.draw_path(path, &style).expect(TO_MEMORY);
    }

    /// Ends the drawing; what is left are the hover titles by number.
    fn finish(mut self) -> Vec<String> {
        self.backend.present().expect(TO_MEMORY);
        self.hovers
    }
}

fn quarters(pixels: f64) -> i32 {
    (pixels * f64::from(SCALE)).round() as i32
}

fn place<X: Into<f64>, Y: Into<f64>>((x, y): (X, Y)) -> (i32, i32) {
    (quarters(x.into()), quarters(y.into()))
}

/// The backend's `svg` with classes for colours, titles for numbers, and the chart's own title and description.
fn dressed(svg: &str, chart: &Chart, hovers: &[String]) -> String {
    let mut out = String::with_capacity(svg.len());
    for line in svg.lines() {
        let Some(tag) = line.strip_prefix('<').and_then(|line| line.strip_suffix('>')) else {
            out.push_str(line);
            continue;
        };
        if tag.starts_with('/') {
            out.push_str(line);
            continue;
        }
        let (tag, closed) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        let mut classes = Vec::new();
        let mut hover = None;
        let _ = write!(out, "<{name}");
        // Values are escaped, so a quote only ever ends one.
        for (key, value) in
            attributes.split("\" ").filter_map(|attribute| attribute.trim_end_matches('"').split_once("=\""))
        {
            match (key, value) {
                ("width" | "height" | "xmlns", _) if name == "svg" => {}
                ("opacity", "1") | ("stroke", "none") | ("font-family", _) => {}
                ("fill" | "stroke", address) if address.starts_with('#') => {
                    let address = u32::from_str_radix(&address[1..], 16).unwrap_or(0);
                    let role = Role::NAMES.get((address >> 16) as usize).unwrap_or(&Role::NAMES[0]);
                    classes.push(format!("{}-{role}", if key == "fill" { "f" } else { "s" }));
                    hover = hovers.get(((address & 0xffff) as usize).wrapping_sub(1));
                }
                _ => {
                    let _ = write!(out, " {key}=\"{}\"", value.trim_end());
                }
            }
        }
        if name == "svg" {
            let (title, description) = (escaped(&chart.title), escaped(&chart.description));
            let _ = write!(
                out,
                " class=\"chart\" role=\"img\" aria-label=\"{title}\"><title>{title}</title><desc>{description}</desc>"
            );
            continue;
        }
        if !classes.is_empty() {
            let _ = write!(out, " class=\"{}\"", classes.join(" "));
        }
        match (hover, closed) {
            (Some(hover), true) => {
                let _ = write!(out, "><title>{}</title></{name}>", escaped(hover));
            }
            (Some(hover), false) => {
                let _ = write!(out, "><title>{}</title>", escaped(hover));
            }
            (None, true) => out.push_str("/>"),
            (None, false) => out.push('>'),
        }
    }
    out
}

fn escaped(text: &str) -> String {
    maud::html! { (plain(text)) }.into_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> Chart {
        Chart { title: "a < b".into(), description: "\"described\"".into() }
    }

    fn point(order: u32, value: f64, mark: Mark) -> Point {
        Point { order: f64::from(order), value, mark, hue: Hue::Series(1), hover: format!("trial {order} & more") }
    }

    fn interval(low: f64, estimate: f64, high: f64) -> Interval {
        Interval {
            heading: None,
            label: "scatter".into(),
            estimate: (estimate, low, high),
            figure: "1.18".into(),
            hue: Hue::Better,
            hover: "scatter".into(),
        }
    }

    #[test]
    fn a_chart_without_a_usable_value_is_none() {
        let failed = point(0, f64::NAN, Mark::Failed);
        assert_eq!(chart().in_order(&[], &[]), None);
        assert_eq!(chart().in_order(std::slice::from_ref(&failed), &[]), None);
        let strip = Strip { label: "x".into(), figure: String::new(), points: vec![failed], median: None };
        assert_eq!(chart().strips(&[strip], " s"), None);
        let curve = Curve { label: "x".into(), hue: Hue::Series(0), points: vec![(0, 1.0, String::new())] };
        assert_eq!(chart().speedup(&[curve]), None);
        assert_eq!(
            chart().intervals(&[interval(0.0, 1.0, 2.0), interval(0.5, 1.0, f64::INFINITY)], "-", "+", false),
            None
        );
    }

    #[test]
    fn values_that_are_no_numbers_leave_no_trace() {
        let points: Vec<Point> = [0.0, f64::NAN, f64::INFINITY, -1e12, 1e12, 0.0]
            .into_iter()
            .enumerate()
            .map(|(order, value)| point(order as u32, value, Mark::Counted))
            .collect();
        let strip = |points| Strip { label: "x".into(), figure: "y".into(), points, median: Some(f64::NAN) };
        let equal = vec![point(0, 2.0, Mark::Counted), point(1, 2.0, Mark::Counted)];
        let drawn = [
            chart().in_order(&points, &[1.0]),
            chart().strips(&[strip(points)], " s"),
            chart().strips(&[strip(equal)], " s"),
            chart().intervals(&[interval(1.0, 1.0, 1.0), interval(1e-9, 1.0, 1e9)], "-", "+", false),
        ];
        for svg in drawn {
            let svg = svg.unwrap();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }

    #[test]
    fn marks_carry_classes_and_titles_instead_of_colours() {
        let svg = chart().in_order(&[point(0, 0.01, Mark::Counted), point(1, -0.01, Mark::Outlier)], &[]).unwrap();
        assert!(
            svg.starts_with("<svg viewBox=\"0 0 1440 760\" class=\"chart\" role=\"img\" aria-label=\"a &lt; b\">"),
            "{svg}"
        );
        assert!(svg.contains("<title>a &lt; b</title><desc>&quot;described&quot;</desc>"), "{svg}");
        for order in 0..2 {
            assert!(
                svg.contains(&format!("class=\"f-h1\"><title>trial {order} &amp; more</title></polygon>")),
                "{svg}"
            );
        }
        assert!(!svg.contains("=\"#"), "{svg}");
    }

    #[test]
    fn a_chart_of_more_marks_than_numbers_mislabels_none() {
        let points: Vec<Point> = (0..70_000).map(|order| point(order, 0.0, Mark::Counted)).collect();
        let svg = chart().in_order(&points, &[]).unwrap();
        assert_eq!(svg.matches("</polygon>").count(), usize::from(u16::MAX), "marks with a title");
        assert_eq!(svg.matches("trial 0 &amp; more").count(), 1);
    }

    #[test]
    fn only_the_reference_is_painted_as_the_reference() {
        assert_eq!(Hue::Series(0).class(), "h0");
        assert!((1..100).all(|index| Hue::Series(index).class() != "h0"));
        assert_eq!(Hue::Series(8).class(), "h1");
    }

    #[test]
    fn scales_write_as_many_decimals_as_tell_ticks_apart() {
        assert_eq!(
            [decimals(&[90.0, 92.0]), decimals(&[0.25, 0.30]), decimals(&[0.5, 1.0]), decimals(&[1.0])],
            [0, 2, 1, 3]
        );
        assert_eq!(
            [signed_percent(0.02), signed_percent(-0.020000000001), signed_percent(-1e-18)],
            ["+2 %", "-2 %", "0 %"]
        );
    }
}
