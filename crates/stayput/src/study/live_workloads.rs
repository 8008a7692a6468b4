//! The cache-affinity report's workloads as programs: their studies on this machine and in a virtual one, one after the other, within
//! one budget.

use super::builtin_subject;
use super::conduct::{Conduct, can_start, conduct, identified};
use super::paper::CONDUCT;
use super::venue::Venue;
use crate::UsageError;
use anyhow::Context;
use papers::LiveWorkloads;
use papers::live_workloads::{LIVE_WORKLOADS, LiveWorkload, Place, Size};
use std::path::Path;
use std::time::Duration;
use study::engine::time_spent;
use study::request::{CellPlan, Request};
use study::study_file::{Span, StudyFile};
use study::{Comparison, Ending, Record, Site};

/// A program of theirs by which a class is checked: all have the same.
const OF_EVERY_CLASS: &str = "affinity:matrix";

/// Of the budget of both places, the share that this machine's studies may take at most: those of a virtual machine, which are of
/// no use before a workload has had all of its plays, have the rest, and what these leave.
const SHARE_HERE: f64 = 0.5;

/// Runs what is left of the workloads' studies in `places`, whose journals are in `folder`, until all of them together have taken
/// `budget`; all programs with `class` where one is given. What is to run on this machine does so at `here`, which may be a cluster; each has the same share of the time, and what others before it left;
/// in a virtual one they take turns, each to its end.
pub(crate) fn conduct_workloads(
    places: &[Place],
    here: &Site,
    size: Size,
    class: Option<&str>,
    budget: Duration,
    folder: &Path,
    quiet: bool,
) -> anyhow::Result<LiveWorkloads> {
    if let Some(class) = class {
        builtin_subject(&format!("{OF_EVERY_CLASS}.{class}"), None)
            .map_err(|error| UsageError::from(error.to_string()))?;
    }
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make folder {}", folder.display()))?;
    let mut live = LiveWorkloads::new(folder);
    let studies: Vec<(Place, LiveWorkload)> =
        places.iter().flat_map(|&place| LIVE_WORKLOADS.map(|workload| (place, workload))).collect();
    let earlier = |(place, workload): &(Place, LiveWorkload)| {
        let journal = workload.journal(*place, size, folder);
        super::check_place(&journal)?;
        anyhow::Ok(workload.earlier(&journal)?)
    };
    let mut records = studies.iter().map(earlier).collect::<anyhow::Result<Vec<_>>>()?;
    let spent = |records: &[Option<Record<Comparison>>]| -> Duration {
        records.iter().flatten().map(|record| time_spent(&record.trials)).sum()
    };
    for (position, (place, workload)) in studies.iter().enumerate() {
        let what = format!("{} {}", workload.name, place.phrase());
        let all_left = budget.saturating_sub(spent(&records));
        let left = match place {
            Place::Here => {
                let others = studies[position..].iter().filter(|(other, _)| other == place).count() as u32;
                let share = if places.len() > 1 { SHARE_HERE } else { 1.0 };
                let here: Vec<_> = studies.iter().zip(&records).filter(|((other, _), _)| other == place).collect();
                let taken: Duration = here
                    .iter()
                    .filter_map(|(_, record)| record.as_ref())
                    .map(|record| time_spent(&record.trials))
                    .sum();
                let of_place = budget.mul_f64(share).saturating_sub(taken);
                all_left.min(of_place / others.max(1))
            }
            Place::Vm => all_left,
        };
        let has_ended = records[position].as_ref().is_some_and(|record| has_ended(record, class));
        if !has_ended && left.is_zero() {
            let sentence = match &records[position] {
                Some(_) => format!("{what} isn't at its end: the budget of {} is spent.", span(budget)),
                None => format!("{what} was not run: the budget of {} was spent before.", span(budget)),
            };
            live.leave_out(sentence);
        } else if !has_ended {
            if !quiet {
                eprintln!(
                    "stayput: study {} of {}: {what}; at most {} for it, {} left for all of them",
                    position + 1,
                    studies.len(),
                    span(left),
                    span(all_left)
                );
            }
            let own = records[position].as_ref().map_or(Duration::ZERO, |record| time_spent(&record.trials));
            let mut study = StudyFile { budget: Some(Span(own + left)), ..workload.study_file(*place, size) };
            if *place == Place::Here && !here.is_here() {
                study.on = Some(here.clone());
            }
            match conduct_workload(study, class, &workload.journal(*place, size, folder), quiet)? {
                Ok(record) => records[position] = Some(record),
                Err(LeftOut { why, is_place }) => {
                    live.leave_out(format!("{what} was not run: {why}."));
                    if is_place {
                        let others = studies[position + 1..].iter().any(|(other, _)| other == place);
                        if others {
                            live.leave_out(format!("Nor was any workload after it {}.", place.phrase()));
                        }
                        break;
                    }
                }
            }
        }
    }
    for ((place, workload), record) in studies.iter().zip(records) {
        if let Some(record) = record {
            live.add(workload, *place, record);
        }
    }
    Ok(live)
}

/// Why a workload isn't run.
struct LeftOut {
    why: String,
    /// Whether nothing can be run in that place.
    is_place: bool,
}

/// Runs what is left of one study. The outer error is one that no other study would go well after.
fn conduct_workload(
    study: StudyFile,
    class: Option<&str>,
    journal: &Path,
    quiet: bool,
) -> anyhow::Result<Result<Record<Comparison>, LeftOut>> {
    let left_out = |is_place| move |error: anyhow::Error| LeftOut { why: format!("{error:#}"), is_place };
    let request = Request { study, class: class.map(str::to_owned), ..Request::default() };
    // Programs are looked for before a machine is booted for them.
    let names = request.study.subjects.iter().filter_map(|subject| subject.builtin.as_deref());
    if let Some(error) = names.map(|name| builtin_subject(name, None)).find_map(Result::err) {
        return Ok(Err(LeftOut { why: error.to_string(), is_place: false }));
    }
    let site = request.site().map_err(UsageError::from)?;
    let (venue, machine) = match Venue::of(&site) {
        Ok(found) => found,
        Err(error) => return Ok(Err(left_out(true)(error))),
    };
    let planned = request.plan(&machine, builtin_subject, |conditions| venue.lacking(conditions));
    let study = match planned {
        Ok(CellPlan::Comparison(study)) => identified(&study),
        Ok(CellPlan::Race(_)) => return Ok(Err(LeftOut { why: "its study is no comparison".into(), is_place: false })),
        Err(error) => return Ok(Err(LeftOut { why: error.to_string(), is_place: false })),
    };
    if let Err(error) = can_start(&study.plan) {
        return Ok(Err(left_out(false)(error)));
    }
    // Built-in programs read nothing.
    let inputs = Vec::new();
    conduct(&study, &machine, journal, inputs, venue, Conduct { quiet, ..CONDUCT }).map(|(record, _)| Ok(record))
}

/// Whether a record is at its end as it is asked for: nothing is left to run but by a larger budget, and its programs are of `class`,
/// where one is given.
fn has_ended(record: &Record<Comparison>, class: Option<&str>) -> bool {
    let programs = record.plan.plan.subjects.iter().filter(|subject| subject.mix.is_none());
    let is_of_class = |class: &str| {
        let mut classes = programs.filter_map(|subject| subject.name.rsplit_once('.'));
        classes.all(|(_, of)| of == class)
    };
    record.ending == Some(Ending::Finished) && class.is_none_or(is_of_class)
}

/// A duration as people write it, in whole minutes from two on.
fn span(duration: Duration) -> String {
    match duration.as_secs() {
        seconds if seconds < 120 => format!("{seconds} s"),
        seconds => format!("{} min", seconds / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_told_in_the_unit_that_fits() {
        assert_eq!([0, 119, 120, 1500].map(|s| span(Duration::from_secs(s))), ["0 s", "119 s", "2 min", "25 min"]);
    }
}
