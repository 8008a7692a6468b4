//! What must be so of a number, and what many such cases come to, with the numbers that decide.

use crate::reproduction::Verdict;
use simulation::Estimated;
use std::fmt::Write;

pub(super) const LESS: (f64, f64) = (f64::NEG_INFINITY, 0.0);
pub(super) const MORE: (f64, f64) = (0.0, f64::INFINITY);

/// How far shares of time that the report calls "about" so many percent may be from ours.
pub(super) const ABOUT_POINTS: f64 = 5.0;

/// A judgement, and the numbers behind it.
pub(super) type Judgement = (Verdict, String);

/// Something that must be so of one number.
pub(super) struct Case {
    label: String,
    pub number: Option<Estimated>,
    /// What the number must be, from and to.
    range: (f64, f64),
    pub unit: &'static str,
}

impl Case {
    pub fn new(label: impl Into<String>, number: Option<Estimated>, range: (f64, f64), unit: &'static str) -> Self {
        Self { label: label.into(), number, range, unit }
    }

    /// Whether the number is in its range, if its interval leaves no doubt.
    pub fn verdict(&self) -> Verdict {
        let Some(number) = self.number else { return Verdict::Undecidable };
        let inside = |x: f64| (self.range.0..=self.range.1).contains(&x);
        let (low, high) = (number.low.unwrap_or(number.value), number.high.unwrap_or(number.value));
        if inside(low) && inside(high) {
            Verdict::Holds
        } else if high < self.range.0 || low > self.range.1 {
            Verdict::Fails
        } else {
            Verdict::Undecidable
        }
    }

    /// The label and the number with its interval.
    pub fn text(&self) -> String {
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
        let mut told = format!("{} {}", self.label, written(number.value));
        if let (Some(low), Some(high)) = (number.low, number.high)
            && low != high
        {
            let _ = write!(told, " ({} to {})", written(low), written(high));
        }
        told
    }
}

/// All cases must hold; one that fails decides.
pub(super) fn all(cases: &[Case]) -> Judgement {
    let verdicts: Vec<Verdict> = cases.iter().map(Case::verdict).collect();
    let verdict = if verdicts.contains(&Verdict::Fails) {
        Verdict::Fails
    } else if verdicts.contains(&Verdict::Undecidable) || verdicts.is_empty() {
        Verdict::Undecidable
    } else {
        Verdict::Holds
    };
    // Of cases with one unit the last has it for all.
    let told = cases.iter().enumerate().map(|(at, case)| {
        let is_last = cases.get(at + 1).is_none_or(|next| next.unit != case.unit);
        if is_last { case.text() + case.unit } else { case.text() }
    });
    (verdict, told.collect::<Vec<_>>().join(", "))
}

/// All of many cases must hold; told are those that decide.
pub(super) fn every(cases: Vec<Case>) -> Judgement {
    let number = cases.len();
    let (verdict, _) = all(&cases);
    if cases.is_empty() {
        return (Verdict::Undecidable, "there is no number that would tell".into());
    }
    if cases.iter().all(|case| case.number.is_none()) {
        return (Verdict::Undecidable, format!("none of the {number} numbers that would tell is there"));
    }
    let mut deciding: Vec<Case> = cases.into_iter().filter(|case| case.verdict() == verdict).collect();
    let told = match verdict {
        Verdict::Holds => {
            let value = |case: &Case| case.number.map_or(f64::NAN, |number| number.value);
            deciding.sort_by(|a, b| value(a).total_cmp(&value(b)));
            let last = deciding.pop();
            deciding.truncate(1);
            deciding.extend(last);
            format!("so in all {number}, from")
        }
        Verdict::Fails => format!("not so in {} of {number}:", deciding.len()),
        Verdict::Undecidable => format!("open in {} of {number}:", deciding.len()),
    };
    let joint = if verdict == Verdict::Holds { " to " } else { ", " };
    let mut numbers: Vec<String> = deciding.iter().map(|case| case.text() + case.unit).collect();
    if numbers.len() > MOST_NAMED + 1 {
        let others = numbers.split_off(MOST_NAMED).len();
        numbers.push(format!("and {others} others"));
    }
    (verdict, format!("{told} {}", numbers.join(joint)))
}

/// Most of the numbers that decide which are named, of many.
const MOST_NAMED: usize = 3;

/// Both must hold; one that fails decides.
pub(super) fn both(a: Judgement, b: Judgement) -> Judgement {
    let verdict = match (a.0, b.0) {
        (Verdict::Fails, _) | (_, Verdict::Fails) => Verdict::Fails,
        (Verdict::Holds, Verdict::Holds) => Verdict::Holds,
        _ => Verdict::Undecidable,
    };
    (verdict, format!("{}; {}", a.1, b.1))
}
