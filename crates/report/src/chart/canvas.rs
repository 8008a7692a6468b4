//! A drawing under way: texts, lines, boxes and marks in CSS pixels, painted by their CSS classes.

use super::scale::Scale;
use crate::words::{plain, short};
use maud::{Markup, PreEscaped, Render, html};
use std::ops::Range;

/// Width of every chart.
pub(super) const WIDTH: f64 = 360.0;
/// From a text to the one beside it, at least.
const GAP: f64 = 7.0;
/// From one of several texts to the one below it, at least.
const LINE_HEIGHT: f64 = 14.0;
/// From one name of a vertical scale to the next, at least.
const NAME_HEIGHT: f64 = 10.0;

/// The outline of a mark.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    Disc,
    Triangle,
    Square,
    Diamond,
    /// One of very many.
    Dot,
    /// A square among very many.
    Block,
    Ring,
    /// Around another mark.
    Halo,
    Cross,
    /// A stroke that runs into a bar.
    Stop,
}

impl Shape {
    /// The character for legends.
    pub(super) fn glyph(self) -> &'static str {
        match self {
            Self::Disc | Self::Dot => "●",
            Self::Triangle => "▲",
            Self::Square | Self::Block => "■",
            Self::Diamond => "◆",
            Self::Ring => "○",
            Self::Halo => "◯",
            Self::Cross => "×",
            Self::Stop => "┤",
        }
    }

    /// The path from the middle of the mark.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Disc => "m-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0",
            Self::Triangle => "m0-3.5l3.5 6.25h-7z",
            Self::Square => "m-2.75-2.75h5.5v5.5h-5.5z",
            Self::Diamond => "m0-3.75l3.75 3.75-3.75 3.75-3.75-3.75z",
            Self::Dot => "m-1.75 0a1.75 1.75 0 1 0 3.5 0a1.75 1.75 0 1 0-3.5 0",
            Self::Block => "m-1.9-1.9h3.8v3.8h-3.8z",
            Self::Ring => "m-2.75 0a2.75 2.75 0 1 0 5.5 0a2.75 2.75 0 1 0-5.5 0",
            Self::Halo => "m-5.5 0a5.5 5.5 0 1 0 11 0a5.5 5.5 0 1 0-11 0",
            Self::Cross => "m-3.25-3.25l6.5 6.5m-6.5 0l6.5-6.5",
            Self::Stop => "m-3.5 0h5.25m0-3.5v7",
        }
    }

    /// Whether it is stroked instead of filled.
    fn is_open(self) -> bool {
        matches!(self, Self::Ring | Self::Halo | Self::Cross | Self::Stop)
    }
}

/// What of a text is at its place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// The name at the end of a line.
pub(super) struct EndLabel {
    /// Where the line ends.
    pub end: (f64, f64),
    pub class: &'static str,
    pub text: String,
}

/// What is drawn so far.
pub(crate) struct Canvas {
    height: f64,
    svg: String,
}

impl Canvas {
    pub(super) fn new(height: f64) -> Self {
        Self { height, svg: String::new() }
    }

    /// The whole picture. Those who can't see it are told `title` as its name, and what it shows by `description`.
    pub(crate) fn finish(self, title: &str, description: &str) -> Markup {
        let (title, description) = (plain(title), plain(description));
        html! {
            svg.chart viewBox=(format!("0 0 {WIDTH} {}", self.height)) role="img" aria-label=(title) {
                title { (title) }
                desc { (description) }
                (PreEscaped(self.svg))
            }
        }
    }

    fn put(&mut self, element: Markup) {
        self.svg.push_str(&element.into_string());
    }

    pub(super) fn line(&mut self, class: &str, points: impl IntoIterator<Item = (f64, f64)>) {
        let points = points.into_iter().map(|(x, y)| html! { (Pixels(x)) "," (Pixels(y)) " " }.into_string());
        self.put(html! { polyline class=(class) points=(points.collect::<String>().trim_end()) {} });
    }

    /// A box, which hovering explains where `hover` isn't empty.
    pub(super) fn rect(&mut self, class: &str, x: Range<f64>, y: Range<f64>, hover: &str) {
        let [width, height] = [x.end - x.start, y.end - y.start].map(Pixels);
        self.put(html! {
            rect class=(class) x=(Pixels(x.start)) y=(Pixels(y.start)) width=(width) height=(height) { (title(hover)) }
        });
    }

    /// A mark, which hovering explains where `hover` isn't empty.
    pub(super) fn mark(&mut self, class: &str, shape: Shape, (x, y): (f64, f64), hover: &str) {
        let path = html! { "M" (Pixels(x)) " " (Pixels(y)) (shape.path()) }.into_string();
        self.put(html! { path class={ (class) @if shape.is_open() { " open" } } d=(path) { (title(hover)) } });
    }

    /// A text at a place, moved where it would leave the picture.
    pub(super) fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        self.cut_text(class, (x, y), anchor, text, f64::INFINITY);
    }

    /// A text from a place on; one that doesn't fit into `room` is cut, and hovering tells the rest.
    pub(super) fn label(&mut self, class: &str, at: (f64, f64), text: &str, room: f64) {
        self.cut_text(class, at, Anchor::Start, text, room);
    }

    fn cut_text(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, text: &str, room: f64) {
        let shown = cut(text, room);
        let hover = if shown == text { "" } else { text };
        let (x, anchor) = match anchor {
            Anchor::Start => (x.min(WIDTH - width(&shown)).max(0.0), None),
            Anchor::Middle => (middle(x, &shown), Some("middle")),
            Anchor::End => (x.max(width(&shown).min(WIDTH)), Some("end")),
        };
        self.put(html! {
            text class=(class) x=(Pixels(x)) y=(Pixels(y)) text-anchor=[anchor] { (shown) (title(hover)) }
        });
    }

    /// The head of a row: its name and, at the right end, a figure in words.
    pub(super) fn row_head(&mut self, class: &str, (x, y): (f64, f64), name: &str, figure: &str) {
        self.label(class, (x, y), name, WIDTH - x - width(figure) - 2.0 * GAP);
        self.text("muted", (WIDTH - 2.0, y), Anchor::End, figure);
    }

    /// Names below a horizontal scale, the first first: one that would touch another before it is left out.
    pub(super) fn names(&mut self, y: f64, names: impl IntoIterator<Item = (f64, String)>) {
        for (x, name) in apart(names) {
            self.text("muted", (x, y), Anchor::Middle, &name);
        }
    }

    /// Level lines from `x.start` to `x.end` with their names on the left: first `base`, which stands out, then those of `ticks` that
    /// are on the scale and whose names touch no other.
    pub(super) fn levels(
        &mut self,
        y: &Scale,
        x: Range<f64>,
        base: Option<(f64, &str)>,
        ticks: impl IntoIterator<Item = (f64, String)>,
    ) {
        let base = base.map(|(value, name)| ("ink", value, name.to_owned()));
        let mut taken: Vec<f64> = Vec::new();
        for (class, value, name) in base.into_iter().chain(ticks.into_iter().map(|(value, name)| ("grid", value, name)))
        {
            let height = y.at(value);
            if y.holds(value) && taken.iter().all(|other| (other - height).abs() >= NAME_HEIGHT) {
                taken.push(height);
                self.line(class, [(x.start, height), (x.end, height)]);
                self.text("muted", (x.start - 6.0, height), Anchor::End, &name);
            }
        }
    }

    /// Names at the ends of lines, from `x` on and between the ends of `room`, pushed apart where the lines meet. A line
    /// that ends before gets a dashed one to its name.
    pub(super) fn end_labels(&mut self, mut labels: Vec<EndLabel>, x: f64, room: Range<f64>) {
        labels.sort_by(|a, b| a.end.1.total_cmp(&b.end.1));
        let mut free = room.start;
        let mut heights: Vec<f64> = Vec::new();
        for label in &labels {
            let height = label.end.1.max(free);
            heights.push(height);
            free = height + LINE_HEIGHT;
        }
        let mut free = room.end.max(room.start + LINE_HEIGHT * (labels.len() as f64 - 1.0));
        for height in heights.iter_mut().rev() {
            *height = height.min(free);
            free = *height - LINE_HEIGHT;
        }
        for (EndLabel { end, class, text }, height) in labels.into_iter().zip(heights) {
            if end.0 + 16.0 < x {
                self.line("dashed", [(end.0 + 6.0, end.1), (x - 8.0, end.1), (x - 3.0, height)]);
            }
            self.label(class, (x, height), &text, WIDTH - x);
        }
    }
}

/// The width that `text` needs in the widest usual font, DejaVu Sans.
pub(super) fn width(text: &str) -> f64 {
    let letter = |c| match c {
        ' ' | '.' | ',' | '-' | '(' | ')' | 'f' | 'i' | 'j' | 'l' | 'r' | 't' => 4.5,
        '#' | '%' | '+' | 'm' | 'w' | '…' | '←'..='▼' => 10.0,
        _ => 7.0,
    };
    text.chars().map(letter).sum()
}

/// `text` on one line, with an ellipsis for what `room` doesn't hold.
fn cut(text: &str, room: f64) -> String {
    let line = short(text, usize::MAX);
    let fits = |letters: &usize| width(&short(&line, *letters)) <= room;
    (0..=line.chars().count()).rev().find(fits).map_or_else(String::new, |letters| short(&line, letters))
}

/// Where the middle of `text` is kept for all of it to be inside the picture.
fn middle(x: f64, text: &str) -> f64 {
    let half = width(text) / 2.0;
    x.min(WIDTH - half).max(half)
}

/// Those of the names of a horizontal scale that touch none before them.
pub(super) fn apart(names: impl IntoIterator<Item = (f64, String)>) -> Vec<(f64, String)> {
    let mut taken: Vec<Range<f64>> = Vec::new();
    let is_apart = |(x, name): &(f64, String)| {
        let (x, half) = (middle(*x, name), (width(name) + GAP) / 2.0);
        let is_apart = taken.iter().all(|other| x + half <= other.start || x - half >= other.end);
        taken.extend(is_apart.then_some(x - half..x + half));
        is_apart
    };
    names.into_iter().filter(is_apart).collect()
}

fn title(hover: &str) -> Markup {
    html! { @if !hover.is_empty() { title { (plain(hover)) } } }
}

/// A length to a tenth of a pixel.
struct Pixels(f64);

impl Render for Pixels {
    fn render_to(&self, buffer: &mut String) {
        // Adding 0 leaves no negative zero.
        buffer.push_str(&((self.0 * 10.0).round() / 10.0 + 0.0).to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(draw: impl FnOnce(&mut Canvas)) -> String {
        let mut canvas = Canvas::new(100.0);
        draw(&mut canvas);
        canvas.finish("a < b", "\"described\"").into_string()
    }

    #[test]
    fn a_picture_says_what_it_is_and_names_stay_text() {
        let svg = drawn(|canvas| {
            canvas.mark("h1", Shape::Square, (1.26, 50.0), "trial 1 & more\u{1b}");
            canvas.label("ink", (0.0, 9.0), "</svg><script>", 60.0);
        });
        assert_eq!(
            svg,
            "<svg class=\"chart\" viewBox=\"0 0 360 100\" role=\"img\" aria-label=\"a &lt; b\"><title>a &lt; b</title>\
             <desc>&quot;described&quot;</desc>\
             <path class=\"h1\" d=\"M1.3 50m-2.75-2.75h5.5v5.5h-5.5z\"><title>trial 1 &amp; more\\u{1b}</title></path>\
             <text class=\"ink\" x=\"0\" y=\"9\">&lt;/svg&gt;&lt;…<title>&lt;/svg&gt;&lt;script&gt;</title></text></svg>"
        );
    }

    #[test]
    fn names_never_touch_and_the_first_has_its_place() {
        let names = |places: &[f64]| {
            let svg = drawn(|canvas| canvas.names(90.0, places.iter().map(|&x| (x, "1000".to_owned()))));
            svg.split("<text ")
                .skip(1)
                .filter_map(|text| text.split(" x=\"").nth(1)?.split('"').next()?.parse().ok())
                .collect::<Vec<f64>>()
        };
        assert_eq!(names(&[50.0, 84.0, 85.0, 120.0]), [50.0, 85.0, 120.0]);
        assert_eq!(names(&[85.0, 84.0, 51.0, 50.0]), [85.0, 50.0]);
        assert_eq!(names(&[0.0, 360.0]), [14.0, 346.0], "inside the picture");
    }

    #[test]
    fn level_names_leave_room_for_that_of_the_base() {
        let y = Scale::linear(0.0..10.0, 100.0..0.0);
        let ticks = [0.0, 0.5, 5.0].map(|value| (value, value.to_string()));
        let svg = drawn(|canvas| canvas.levels(&y, 40.0..300.0, Some((0.0, "best")), ticks));
        assert_eq!((svg.matches("class=\"ink\"").count(), svg.matches("class=\"grid\"").count()), (1, 1), "{svg}");
        assert!(svg.contains(">best</text>") && svg.contains(">5</text>"), "{svg}");
    }
}
