//! What must be so of a number, and what many such cases come to, with the numbers that decide.

use crate::interval::ends;
use crate::verdict::{Judgement, Verdict, undecidable};
use simulation::Estimated;
use std::fmt::Write;

pub(super) const LESS: (f64, f64) = (f64::NEG_INFINITY, 0.0);
pub(super) const MORE: (f64, f64) = (0.0, f64::INFINITY);

/// How far shares of time that the report calls "about" so many percent may be from ours.
pub(super) const ABOUT_POINTS: f64 = 5.0;

/// Something that must be so of one number.
pub(super) struct Case {
    label: String,
    number: Option<Estimated>,
    /// What the number must be, from and to.
    range: (f64, f64),
    unit: &'static str,
}

impl Case {
    pub fn new(
        label: impl Into<String>,
        number: impl Into<Option<Estimated>>,
        range: (f64, f64),
        unit: &'static str,
    ) -> Self {
        Self { label: label.into(), number: number.into(), range, unit }
    }

    /// The number must be `about` so much, and at most `slack` less or more.
    pub fn near(
        label: impl Into<String>,
        number: impl Into<Option<Estimated>>,
        about: f64,
        slack: f64,
        unit: &'static str,
    ) -> Self {
        Self::new(label, number, (about - slack, about + slack), unit)
    }

    /// Whether the number is in its range, if its interval leaves no doubt.
    pub fn verdict(&self) -> Verdict {
        let Some((low, high)) = self.number.map(ends) else { return Verdict::Undecidable };
        let inside = |x: f64| (self.range.0..=self.range.1).contains(&x);
        if inside(low) && inside(high) {
            Verdict::Holds
        } else if high < self.range.0 || low > self.range.1 {
            Verdict::Fails
        } else {
            Verdict::Undecidable
        }
    }

    /// The label and the number with its interval and unit.
    pub fn text(&self) -> String {
        self.text_without_unit() + self.unit
    }

    fn text_without_unit(&self) -> String {
        let Some(number) = self.number else { return format!("{}: not known", self.label.trim_end_matches(':')) };
        let width = number.low.zip(number.high).map(|(low, high)| high - low);
        let digits = match number.value.abs() {
            // A count.
            x if width.is_none() && x.fract() == 0.0 => 0,
            x if x >= 100.0 && width.is_none_or(|width| width >= 2.0) => 0,
            x if x >= 1.0 => 1,
            _ => 2,
        };
        // Without the sign of a zero.
        let written = |x: f64| format!("{:.digits$}", if x.abs() < 0.005 { 0.0 } else { x });
        let mut text = format!("{} {}", self.label, written(number.value));
        if let (Some(low), Some(high)) = (number.low, number.high)
            && low != high
        {
            let _ = write!(text, " ({} to {})", written(low), written(high));
        }
        text
    }
}

/// All must hold; one that fails decides, and without any nothing does.
fn joint(verdicts: &[Verdict]) -> Verdict {
    if verdicts.contains(&Verdict::Fails) {
        Verdict::Fails
    } else if verdicts.contains(&Verdict::Undecidable) || verdicts.is_empty() {
        Verdict::Undecidable
    } else {
        Verdict::Holds
    }
}

fn joint_of_cases(cases: &[Case]) -> Verdict {
    joint(&cases.iter().map(Case::verdict).collect::<Vec<_>>())
}

/// All cases must hold; one that fails decides.
pub(super) fn all(cases: impl IntoIterator<Item = Case>) -> Judgement {
    let cases: Vec<Case> = cases.into_iter().collect();
    // Of cases with one unit the last has it for all.
    let texts = cases.iter().enumerate().map(|(at, case)| {
        let is_last = cases.get(at + 1).is_none_or(|next| next.unit != case.unit);
        if is_last { case.text() } else { case.text_without_unit() }
    });
    (joint_of_cases(&cases), texts.collect::<Vec<_>>().join(", "))
}

/// All of many cases must hold; named are those that decide.
pub(super) fn every(cases: impl IntoIterator<Item = Case>) -> Judgement {
    let mut deciding: Vec<Case> = cases.into_iter().collect();
    let (number, verdict) = (deciding.len(), joint_of_cases(&deciding));
    if number == 0 {
        return undecidable("there is no number that would tell");
    }
    if deciding.iter().all(|case| case.number.is_none()) {
        return undecidable(format!("none of the {number} numbers that would tell is there"));
    }
    deciding.retain(|case| case.verdict() == verdict);
    let (what, joint) = match verdict {
        Verdict::Holds => {
            let value = |case: &Case| case.number.map_or(f64::NAN, |number| number.value);
            deciding.sort_by(|a, b| value(a).total_cmp(&value(b)));
            // The least and the largest.
            deciding.drain(1..deciding.len().max(2) - 1);
            (format!("so in all {number}, from"), " to ")
        }
        Verdict::Fails => (format!("not so in {} of {number}:", deciding.len()), ", "),
        Verdict::Undecidable => (format!("open in {} of {number}:", deciding.len()), ", "),
    };
    let mut texts: Vec<String> = deciding.iter().map(Case::text).collect();
    if texts.len() > MOST_NAMED + 1 {
        let others = texts.split_off(MOST_NAMED).len();
        texts.push(format!("and {others} others"));
    }
    (verdict, format!("{what} {}", texts.join(joint)))
}

/// Most of the numbers that decide which are named, of many.
const MOST_NAMED: usize = 3;

/// Both must hold; one that fails decides.
pub(super) fn both(a: Judgement, b: Judgement) -> Judgement {
    (joint(&[a.0, b.0]), format!("{}; {}", a.1, b.1))
}
