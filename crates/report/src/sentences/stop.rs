//! Why a study stopped, and when there was nothing left to run, in sentences.

use super::counted;
use crate::number;
use study::{PastSession, Stop, StopReason};

/// Why a study stopped and, where more can be had, by which flag it goes on.
pub fn stop(stop: &Stop) -> String {
    let Stop { reason, given_up, cells } = stop;
    let not_settled = |open: &u32| format!("{open} of {} not settled", counted(*cells, "cell"));
    let goes_on = |flag: &str| format!("the same command with a larger {flag} goes on");
    let reason = match reason {
        StopReason::WidthReached { width } => {
            format!("Each ratio's 95 % interval is narrower than {} (--width).", number::percent(*width))
        }
        StopReason::RelativeSdReached { relative_sd } => {
            let share = number::percent(*relative_sd);
            format!("Each cell's relative standard deviation is below {share} (--relative-sd).")
        }
        StopReason::AllRuns { runs } => format!("Every cell had its {} (--max-runs).", counted(*runs, "run")),
        StopReason::LeastRuns { runs } => format!(
            "Every cell had its {} (--min-runs): times of an emulated machine mean nothing, so that more would tell nothing.",
            counted(*runs, "run")
        ),
        StopReason::MostRuns { runs, open } => format!(
            "{} of a cell are the most that it may make (--max-runs), with {}; {}.",
            counted(*runs, "run"),
            not_settled(open),
            goes_on("--max-runs")
        ),
        StopReason::BudgetSpent { budget_s, open } => format!(
            "The time budget of {} is spent (--budget), with {}; {}.",
            number::duration(*budget_s),
            not_settled(open),
            goes_on("--budget")
        ),
        StopReason::Decided => "The race is decided.".into(),
        StopReason::RaceRuns { runs } => {
            format!("{} are the most that a race may make (--runs); {}.", counted(*runs, "run"), goes_on("--runs"))
        }
        StopReason::Failures => "No cell is left that does not fail; --retry tries them again.".into(),
        StopReason::Unfinished => {
            "It is unfinished: interrupted, or still at work; the same command goes on where it stopped.".into()
        }
    };
    match given_up {
        0 => reason,
        _ if stop.reason == StopReason::Failures => reason,
        _ => format!(
            "{reason} {given_up} of {} given up after failures; --retry tries them again.",
            counted(*cells, "cell")
        ),
    }
}

/// That a command had nothing left to do, in one line, with the day on which the last work on the study ended.
pub fn nothing_run(sessions: &[PastSession]) -> String {
    let last = sessions.last().map(|session| session.after.as_ref().unwrap_or(&session.before).unix_s);
    let day = last.map_or_else(String::new, |unix_s| format!(" on {}", number::moment(unix_s)));
    format!("nothing was run: this study was finished{day}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_names_the_flag_by_which_the_study_goes_on() {
        let told = |reason, given_up| stop(&Stop { reason, given_up, cells: 6 });
        assert_eq!(
            told(StopReason::MostRuns { runs: 50, open: 3 }, 0),
            "50 runs of a cell are the most that it may make (--max-runs), with 3 of 6 cells not settled; the same command with a larger --max-runs goes on."
        );
        assert_eq!(
            told(StopReason::WidthReached { width: 0.02 }, 2),
            "Each ratio's 95 % interval is narrower than 2.0 % (--width). 2 of 6 cells given up after failures; --retry tries them again."
        );
        assert_eq!(
            told(StopReason::BudgetSpent { budget_s: 600.0, open: 1 }, 0),
            "The time budget of 10 min is spent (--budget), with 1 of 6 cells not settled; the same command with a larger --budget goes on."
        );
        assert_eq!(
            told(StopReason::LeastRuns { runs: 10 }, 0),
            "Every cell had its 10 runs (--min-runs): times of an emulated machine mean nothing, so that more would tell nothing."
        );
        assert_eq!(told(StopReason::Failures, 6).matches("--retry").count(), 1);
    }
}
