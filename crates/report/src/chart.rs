//! Charts as inline SVG, from plain series: they know nothing of studies.
//!
//! Each kind of chart is one function, which draws on a [`Canvas`]. [`scale`] says where a value lies, and [`canvas`] writes the marks. What a
//! mark stands for is its CSS class, so that colours follow the page's light or dark theme and its print.
//!
//! Charts are drawn for a column 360 pixels wide, so that text keeps its size on a phone; a page sets several
//! side by side where there is room. A chart without anything to draw is [`None`], for the page to say so in words.

mod canvas;
#[cfg(feature = "profiles")]
mod cpus;
mod histograms;
mod intervals;
mod jobs;
mod lines;
mod race;
mod scale;
#[cfg(feature = "profiles")]
mod shares;
mod trials;

pub(crate) use canvas::Canvas;
#[cfg(feature = "profiles")]
pub(crate) use cpus::{CpuRow, cpu_rows};
pub(crate) use histograms::{Heights, Histogram, histograms};
pub(crate) use intervals::{Interval, intervals};
pub(crate) use jobs::{JobBar, JobStrip, jobs};
pub(crate) use lines::{Line, LinePoint, interaction, speedup, sweep};
pub(crate) use race::{Racer, Step, exit_class, exit_glyph, race};
#[cfg(feature = "profiles")]
pub(crate) use shares::{SharedBar, shared_bars};
pub(crate) use trials::{Mark, Point, Strip, in_order, strips};

use canvas::Shape;

/// What a mark is painted for; the page's style sheet gives it a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hue {
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
    /// The style sheet's name of the colour, in charts and legends. Series beyond the last colour start again after the
    /// reference's.
    pub(crate) fn class(self) -> &'static str {
        const RIVALS: [&str; 7] = ["h1", "h2", "h3", "h4", "h5", "h6", "h7"];
        match self {
            Self::Series(0) => "h0",
            Self::Series(index) => RIVALS[(index - 1) % RIVALS.len()],
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Neutral => "neutral",
        }
    }

    /// The shape of the marks, which tells series apart without colours.
    pub(crate) fn glyph(self) -> &'static str {
        self.shape().glyph()
    }

    fn shape(self) -> Shape {
        match self {
            Self::Series(index) => [Shape::Disc, Shape::Triangle, Shape::Square, Shape::Diamond][index % 4],
            Self::Better | Self::Worse => Shape::Square,
            Self::Neutral => Shape::Disc,
        }
    }
}

/// A number on a scale with the unit of that, where it has one.
fn with_unit(number: &str, unit: Option<&str>) -> String {
    unit.map_or_else(|| number.to_owned(), |unit| format!("{number} {unit}"))
}

/// A change as a percentage: `+2 %`.
fn signed_percent(share: f64) -> String {
    // Without the rounding errors of a scale's steps, and without a negative zero.
    let percent = (share * 1e9).round() / 1e7 + 0.0;
    let text = if percent.fract() == 0.0 { format!("{percent:.0} %") } else { format!("{percent:.1} %") };
    if percent > 0.0 { format!("+{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_reference_is_painted_as_the_reference() {
        assert_eq!(Hue::Series(0).class(), "h0");
        assert!((1..100).all(|index| Hue::Series(index).class() != "h0"));
        assert_eq!(Hue::Series(8).class(), "h1");
    }

    #[test]
    fn changes_are_written_without_rounding_errors() {
        assert_eq!(
            [signed_percent(0.02), signed_percent(-0.020000000001), signed_percent(-1e-18)],
            ["+2 %", "-2 %", "0 %"]
        );
    }
}
