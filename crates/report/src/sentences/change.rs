//! By how much something changes, in words that other sentences are made of.

use simulation::verdict::LEAST_CHANGE_PERCENT;
use simulation::{Change, Direction, Estimated};

/// A percentage with the digits that its interval's width calls for, and the interval: `12.0 % (11.8 to 12.2)`.
fn percent(percent: &Estimated) -> String {
    let interval = percent.low.zip(percent.high);
    let decimals = usize::from(interval.is_none_or(|(low, high)| high - low < 2.0));
    let interval = interval.map(|(low, high)| format!(" ({low:.decimals$} to {high:.decimals$})"));
    format!("{:.decimals$} %{}", percent.value, interval.unwrap_or_default())
}

/// By how much it becomes less.
pub(super) fn fewer(Change { percent: change, .. }: &Change) -> String {
    percent(&Estimated { value: -change.value, low: change.high.map(|high| -high), high: change.low.map(|low| -low) })
}

/// By how much it becomes more.
pub(super) fn more(change: &Change) -> String {
    percent(&change.percent)
}

/// The range of a change that is not shown: `(-0.1 to +0.3 %)`.
pub(super) fn range(Change { percent, .. }: &Change) -> String {
    match percent.low.zip(percent.high) {
        Some((low, high)) if low.abs().max(high.abs()) >= LEAST_CHANGE_PERCENT => {
            format!("({low:+.1} to {high:+.1} %)")
        }
        None if percent.value.abs() >= LEAST_CHANGE_PERCENT => format!("({:+.1} %)", percent.value),
        _ => "(0.0 %)".into(),
    }
}

/// By how much jobs answer sooner or later.
pub(super) fn answer(change: &Change) -> String {
    match change.direction {
        Direction::Down => format!("{} sooner", fewer(change)),
        Direction::Up => format!("{} later", more(change)),
        Direction::NoneShown => format!("no difference shown {}", range(change)),
    }
}
