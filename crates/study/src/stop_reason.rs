//! Why a study stopped, as a value: from its plan, its trials and how it ended. `report` writes it as a sentence.

use crate::comparison::{Comparison, StopRule};
use crate::engine::{CellStudy, time_spent};
use crate::race::{Race, RaceResult};
use crate::record::{Ending, Record};
use crate::summary::Summary;
use crate::times::deciding_metric;
use serde::{Deserialize, Serialize};
use stats::RaceRule;

/// Why a study stopped, and what of it was given up by then.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stop {
    /// Why no more was run.
    #[serde(flatten)]
    pub reason: StopReason,
    /// Cells that were given up, since they can't be started or failed several times in a row.
    pub given_up: u32,
    /// All cells.
    pub cells: u32,
}

/// Why no more was run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum StopReason {
    /// The interval of every ratio is narrow enough.
    WidthReached {
        /// The width that was asked for, over the ratio (0.02 = 2 %).
        width: f64,
    },
    /// The relative standard deviation of every cell is small enough.
    RelativeSdReached {
        /// What was asked for (0.05 = 5 %).
        relative_sd: f64,
    },
    /// Every cell had the number of runs that was asked for, whatever they show.
    AllRuns {
        /// That number.
        runs: u32,
    },
    /// Every cell had the least runs that were asked for, and there is nothing by which more would tell something: times of an emulated
    /// machine mean nothing.
    LeastRuns {
        /// That number.
        runs: u32,
    },
    /// Cells had the most runs that the stop rule allows, and aren't settled.
    MostRuns {
        /// That number.
        runs: u32,
        /// Cells that aren't settled.
        open: u32,
    },
    /// The time budget was spent first.
    BudgetSpent {
        /// The budget, in seconds.
        budget_s: f64,
        /// Cells that aren't settled; in a race, those that may still be the best.
        open: u32,
    },
    /// The race told the best of each subject, or that no other is better by what matters.
    Decided,
    /// The races made all the runs that they may.
    RaceRuns {
        /// So many for each subject.
        runs: u32,
    },
    /// No cell was left that doesn't fail.
    Failures,
    /// It was interrupted, or is still at work.
    Unfinished,
}

impl Stop {
    /// Why a comparison stopped; `summaries` are those of `record`.
    pub(crate) fn of_comparison(record: &Record<Comparison>, summaries: &[Summary]) -> Self {
        let stop = &record.plan.stop;
        let open = summaries.iter().filter(|summary| summary.is_open()).count() as u32;
        let settled = match *stop {
            StopRule::Paired { width, .. } => StopReason::WidthReached { width },
            StopRule::RelativeSd { relative_sd, .. } => StopReason::RelativeSdReached { relative_sd },
        };
        let plan = &record.plan.plan;
        let is_decided = plan.compared().any(|subject| deciding_metric(plan, subject).is_some());
        let finished = match stop.block_limits() {
            (least, most) if least == most => StopReason::AllRuns { runs: most },
            (least, _) if !is_decided => StopReason::LeastRuns { runs: least },
            (_, most) if open > 0 => StopReason::MostRuns { runs: most, open },
            _ => settled,
        };
        Self::new(record, open, finished)
    }

    /// Why races stopped; `results` are those of `record`.
    pub(crate) fn of_race(record: &Record<Race>, results: &[RaceResult]) -> Self {
        let (RaceRule::Halving { runs } | RaceRule::Guarantee { max_runs: runs, .. }) = record.plan.stop.search;
        let tied = results.iter().filter(|race| race.standings.tied.len() > 1).map(|race| race.standings.tied.len());
        // A race whose next block doesn't fit into what is left has made its runs.
        let is_spent = |race: &&RaceResult| race.runs as usize + race.standings.tied.len().max(2) > runs as usize;
        let finished = match results.iter().find(is_spent) {
            Some(_) => StopReason::RaceRuns { runs },
            None => StopReason::Decided,
        };
        Self::new(record, tied.sum::<usize>() as u32, finished)
    }

    fn new<S: CellStudy>(record: &Record<S>, open: u32, finished: StopReason) -> Self {
        let plan = record.plan.plan();
        let cells = plan.cells().count() as u32;
        let given_up = plan.cells().filter(|&cell| record.plan.is_given_up(&record.trials, cell)).count() as u32;
        let budget_s = plan.budget.unwrap_or_else(|| time_spent(&record.trials)).as_secs_f64();
        let reason = match record.ending {
            None => StopReason::Unfinished,
            Some(Ending::BudgetSpent) => StopReason::BudgetSpent { budget_s, open },
            Some(Ending::Finished) if given_up == cells => StopReason::Failures,
            Some(Ending::Finished) => finished,
        };
        Self { reason, given_up, cells }
    }
}
