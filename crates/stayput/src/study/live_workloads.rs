//! The cache-affinity report's workloads as programs: their studies on this machine and in a virtual one, one after the other, within
//! one budget.

use super::builtin_subject;
use super::conduct::{Conduct, can_start, conduct, identified};
use super::paper::CONDUCT;
use super::venue::Venue;
use crate::{Interrupted, UsageError};
use anyhow::Context;
use indicatif::MultiProgress;
use launch::Interruptions;
use machine::linux::allowed_cpus;
use machine::linux::system::available_memory_bytes;
use papers::LiveWorkloads;
use papers::live_workloads::{LIVE_WORKLOADS, LiveWorkload, Place, Size};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use study::engine::time_spent;
use study::request::{CellPlan, Request};
use study::study_file::{Span, StudyFile};
use study::{Comparison, Ending, Kind, Record, Site};

/// A program of theirs by which a class is checked: all have the same.
const OF_EVERY_CLASS: &str = "affinity:matrix";

/// Of the budget of both places, the share that this machine's studies may take at most: those of a virtual machine, which are of
/// no use before a workload has had all of its plays, have the rest, and what these leave.
const SHARE_HERE: f64 = 0.5;

/// Memory that a virtual machine and the model of its caches take at most, in bytes.
const GUEST_MEMORY_BYTES: u64 = 5 << 30;

/// What is asked for of all workloads.
#[derive(Clone, Copy)]
pub(crate) struct LiveRequest<'a> {
    pub(crate) places: &'a [Place],
    /// Where what is to run on this machine does so: here, or on a cluster.
    pub(crate) here: &'a Site,
    pub(crate) size: Size,
    /// The class of all programs, where one is given.
    pub(crate) class: Option<&'a str>,
    /// How long all studies may take together.
    pub(crate) budget: Duration,
    /// Where their journals are.
    pub(crate) folder: &'a Path,
    pub(crate) quiet: bool,
}

/// Runs what is left of the workloads' studies. Those of this machine run one after the other; each has the same share of the time, and
/// what others before it left. Those of virtual machines, whose clocks count instructions, run several at once, each to its end.
pub(crate) fn conduct_workloads(request: &LiveRequest) -> anyhow::Result<LiveWorkloads> {
    let LiveRequest { places, class, budget, folder, .. } = *request;
    if let Some(class) = class {
        builtin_subject(&format!("{OF_EVERY_CLASS}.{class}"), None)
            .map_err(|error| UsageError::from(error.to_string()))?;
    }
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make folder {}", folder.display()))?;
    let of_places = places.iter().flat_map(|&place| LIVE_WORKLOADS.map(|workload| (place, workload)));
    let mut studies = (1..)
        .zip(of_places)
        .map(|(number, of)| LiveStudy::read(number, of, request))
        .collect::<anyhow::Result<Vec<LiveStudy>>>()?;
    let guests = guests_at_once();
    let spent = |of: &[LiveStudy]| of.iter().map(LiveStudy::spent).sum::<Duration>();
    // The first places' studies come first.
    let (here, in_guests) = studies.split_at_mut(if places.contains(&Place::Here) { LIVE_WORKLOADS.len() } else { 0 });
    let mut left = budget.saturating_sub(spent(here) + spent(in_guests) / guests);
    let share = if in_guests.is_empty() { 1.0 } else { SHARE_HERE };
    for position in 0..here.len() {
        let began = Instant::now();
        let of_place = budget.mul_f64(share).saturating_sub(spent(here));
        let own = left.min(of_place / (here.len() - position) as u32);
        let goes_on = here[position].conduct(request, own, left, None)?;
        left = left.saturating_sub(began.elapsed());
        if !goes_on {
            here[position].end_place(here.len() - position - 1);
            break;
        }
    }
    conduct_at_once(in_guests, request, left, guests)?;
    let mut live = LiveWorkloads::new(folder);
    for LiveStudy { place, workload, record, left_out, .. } in studies {
        left_out.into_iter().for_each(|sentence| live.leave_out(sentence));
        if let Some(record) = record {
            live.add(&workload, place, record);
        }
    }
    Ok(live)
}

/// As many virtual machines as run at once: as many as there are CPUs, since each is one busy thread, and memory.
fn guests_at_once() -> u32 {
    let cpus = allowed_cpus().map_or(1, |cpus| cpus.len() as u64);
    let memory = available_memory_bytes().map_or(1, |bytes| bytes / GUEST_MEMORY_BYTES);
    cpus.min(memory).clamp(1, LIVE_WORKLOADS.len() as u64) as u32
}

/// Runs studies, so many at once, each to its end, until `left` has passed.
fn conduct_at_once(
    studies: &mut [LiveStudy],
    request: &LiveRequest,
    left: Duration,
    at_once: u32,
) -> anyhow::Result<()> {
    // An interruption is known to all of them until the last has closed its journal.
    let _held = Interruptions::hold();
    let (began, bars) = (Instant::now(), MultiProgress::new());
    let next = Mutex::new(studies.iter_mut());
    let waiting = || next.lock().unwrap_or_else(PoisonError::into_inner);
    let work = || {
        while let Some(study) = { waiting().next() } {
            let left = left.saturating_sub(began.elapsed());
            let goes_on = study.conduct(request, left, left, Some(&bars));
            if !matches!(goes_on, Ok(true)) {
                study.end_place(std::mem::replace(&mut *waiting(), [].iter_mut()).len());
                return goes_on.map(drop);
            }
        }
        Ok(())
    };
    let ended: anyhow::Result<Vec<()>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..at_once).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    ended.map(drop).map_err(|error| match error.downcast_ref() {
        Some(&Interrupted { signal, .. }) => Interrupted { signal, kept_in: request.folder.into() }.into(),
        None => error,
    })
}

/// A workload's study in a place.
struct LiveStudy {
    /// Which of all that are asked for, from 1.
    number: usize,
    place: Place,
    workload: LiveWorkload,
    journal: PathBuf,
    /// What the journal holds.
    record: Option<Record<Comparison>>,
    /// Why it isn't at its end, in sentences.
    left_out: Vec<String>,
}

impl LiveStudy {
    /// What there is of it.
    fn read(number: usize, (place, workload): (Place, LiveWorkload), request: &LiveRequest) -> anyhow::Result<Self> {
        let journal = workload.journal(place, request.size, request.folder);
        super::check_place(&journal)?;
        let record = workload.earlier(&journal)?;
        Ok(Self { number, place, workload, journal, record, left_out: Vec::new() })
    }

    /// What its trials took.
    fn spent(&self) -> Duration {
        self.record.as_ref().map_or(Duration::ZERO, |record| time_spent(&record.trials))
    }

    /// Runs what is left of it for `own` at most, of `left` for all; gives whether another can be run in that place.
    fn conduct(
        &mut self,
        request: &LiveRequest,
        own: Duration,
        left: Duration,
        among: Option<&MultiProgress>,
    ) -> anyhow::Result<bool> {
        let what = format!("{} {}", self.workload.name, self.place.phrase());
        if let Some(record) = self.record.as_ref().filter(|record| has_ended(record, request.class)) {
            let others = record.plan.changes(&identified(&record.plan)).into_iter().next();
            self.left_out.extend(others.map(|change| {
                format!("{what} was measured before its programs changed ({change}); another --journal measures these.")
            }));
            return Ok(true);
        }
        if own.is_zero() {
            let budget = span(request.budget);
            self.left_out.push(match &self.record {
                Some(_) => format!("{what} isn't at its end: the budget of {budget} is spent."),
                None => format!("{what} was not run: the budget of {budget} was spent before."),
            });
            return Ok(true);
        }
        if !request.quiet {
            let of = request.places.len() * LIVE_WORKLOADS.len();
            let most = format!("at most {} for it, {} left for all of them", span(own), span(left));
            let say = || eprintln!("stayput: study {} of {of}: {what}; {most}", self.number);
            among.map_or_else(say, |bars| bars.suspend(say));
        }
        let budget = Some(Span(self.spent() + own));
        let mut study = StudyFile { budget, ..self.workload.study_file(self.place, request.size) };
        if self.place == Place::Here && !request.here.is_here() {
            study.on = Some(request.here.clone());
        }
        let how = Conduct { quiet: request.quiet, among, ..CONDUCT };
        match conduct_workload(study, request.class, &self.journal, how)? {
            Ok(record) => self.record = Some(record),
            Err(LeftOut { why, is_place }) => {
                self.left_out.push(format!("{what} was not run: {why}."));
                return Ok(!is_place);
            }
        }
        Ok(true)
    }

    /// Nothing can be run in its place after it, and so many workloads wait for that.
    fn end_place(&mut self, waiting: usize) {
        if waiting > 0 {
            self.left_out.push(format!("Nor was any workload after it {}.", self.place.phrase()));
        }
    }
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
    how: Conduct<'_>,
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
    conduct(&study, &machine, journal, inputs, venue, how).map(|(record, _)| Ok(record))
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
    match duration.as_secs_f64().round() {
        seconds if seconds < 120.0 => format!("{seconds} s"),
        seconds => format!("{:.0} min", seconds / 60.0),
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
