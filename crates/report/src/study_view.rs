//! A comparison or a race with its analysis, and the look-ups that every form of the report needs.

use crate::chart::Hue;
use crate::ranking::{Part, Ranking};
use crate::sentences;
use crate::wording::Wording;
use crate::words::joined;
use machine::{CpuSet, Machine, Placement};
use papers::Paper;
use serde_json::Value;
use stats::Disturbance;
use study::Shape;
use study::plan::UNBOUND;
use study::race::RaceStop;
use study::verdict::{Headline, Verdict};
use study::{
    Analysis, Best, Comparison, Ending, HostFacts, Kind, Metric, PastSession, Plan, Race, RaceAnalysis, Record,
    Slowdowns, StopRule, Subject, Summary, ThreadObservation, Treatment, Trial,
};

/// One study as the report sees it.
pub(crate) struct StudyView<'a> {
    /// What was run where.
    pub plan: &'a Plan,
    /// When it was enough.
    pub stop: Stop<'a>,
    /// Every trial, in the order in which they were run.
    pub trials: &'a [Trial],
    /// Those that were disturbed and run again, which no figure counts.
    pub disturbed: &'a [Trial],
    /// The machine around the study.
    pub host: &'a HostFacts,
    /// When and how it was worked on.
    pub sessions: &'a [PastSession],
    /// Why it ended; none while it is unfinished.
    pub ending: Option<Ending>,
    /// What it means.
    pub analysis: &'a Analysis,
    /// The analysis' warnings in sentences, and whether the plan names a paper whose tables this version lacks.
    pub warnings: Vec<String>,
    /// The topology as the record holds it.
    pub topology: &'a Value,
    /// The machine, where that topology can be read.
    pub machine: Option<Machine>,
    /// The ranking of each race; empty in a study of another kind.
    pub rankings: Vec<Ranking<'a>>,
}

/// When a study of cells is enough.
#[derive(Clone, Copy)]
pub(crate) enum Stop<'a> {
    /// When its comparisons are settled.
    Comparison(&'a StopRule),
    /// When the best is found.
    Race(&'a RaceStop),
}

impl<'a> StudyView<'a> {
    /// Looks at a comparison.
    pub(crate) fn of_comparison(record: &'a Record<Comparison>, analysis: &'a Analysis) -> Self {
        Self::new(record, &record.plan.plan, Stop::Comparison(&record.plan.stop), analysis, Vec::new())
    }

    /// Looks at a race.
    pub(crate) fn of_race(record: &'a Record<Race>, analysis: &'a RaceAnalysis) -> Self {
        let rankings =
            analysis.races.iter().map(|race| Ranking::new(race, &analysis.cells, &record.plan.plan)).collect();
        Self::new(record, &record.plan.plan, Stop::Race(&record.plan.stop), &analysis.cells, rankings)
    }

    fn new<K: Kind<Trial = Trial>>(
        record: &'a Record<K>,
        plan: &'a Plan,
        stop: Stop<'a>,
        analysis: &'a Analysis,
        rankings: Vec<Ranking<'a>>,
    ) -> Self {
        let mut warnings = sentences::warnings(&analysis.warnings);
        if let Some(name) = plan.paper.as_ref().filter(|name| Paper::named(name).is_none()) {
            let sentence =
                format!("This version of stayput does not have the tables of `{name}`, whose study this is.");
            warnings.insert(plan.departures.len().min(warnings.len()), sentence);
        }
        Self {
            plan,
            stop,
            trials: &record.trials,
            disturbed: &record.disturbed,
            host: &record.host,
            sessions: &record.sessions,
            ending: record.ending,
            analysis,
            warnings,
            topology: &record.machine,
            machine: serde_json::from_value(record.machine.clone()).ok(),
            rankings,
        }
    }

    /// Whether it is a race for the best of each subject, and not a comparison of every placement with the reference.
    pub(crate) fn is_race(&self) -> bool {
        matches!(self.stop, Stop::Race(_))
    }

    /// The ranking of one subject's race.
    pub(crate) fn ranking(&self, subject: &str) -> Option<&Ranking<'a>> {
        self.rankings.iter().find(|ranking| ranking.race.subject == subject)
    }

    /// Whether it ran in an emulated machine, whose times mean nothing.
    pub(crate) fn is_emulated(&self) -> bool {
        self.plan.site.is_emulated()
    }

    /// Whether nothing was run on any machine, since a model stands for the subject.
    pub(crate) fn is_simulated(&self) -> bool {
        self.plan.subjects.iter().any(|subject| subject.model.is_some())
    }

    /// The subjects that are run under every treatment, and not only by themselves to tell how much slower they are in a mix.
    pub(crate) fn compared(&self) -> impl Iterator<Item = &'a Subject> + Clone + use<'a> {
        self.plan.compared()
    }

    /// Whether all that is compared are mixes.
    pub(crate) fn is_of_mixes(&self) -> bool {
        self.compared().next().is_some() && self.compared().all(|subject| subject.mix.is_some())
    }

    /// Whether a subject of that name is run only by itself.
    pub(crate) fn is_alone(&self, subject: &str) -> bool {
        self.plan.subjects.iter().any(|other| other.name == subject && other.alone.is_some())
    }

    /// What the runs of a subject are compared by.
    pub(crate) fn metric(&self, subject: &str) -> Metric {
        let subject = self.plan.subjects.iter().find(|other| other.name == subject);
        subject.map_or_else(Metric::default, |subject| subject.metric.clone())
    }

    /// What the runs of all subjects are compared by, where that is the same.
    pub(crate) fn common_metric(&self) -> Option<&'a Metric> {
        let mut all = self.compared().map(|subject| &subject.metric);
        let first = all.next()?;
        all.all(|other| other == first).then_some(first)
    }

    /// What a trial is compared by, in the unit of its subject's metric.
    pub(crate) fn value(&self, trial: &Trial) -> Option<f64> {
        self.plan.subjects.iter().find(|subject| subject.name == trial.subject)?.value(trial)
    }

    /// How differences between the runs of a subject are said.
    pub(crate) fn wording(&self, subject: &str) -> Wording<'a> {
        let subject = self.plan.subjects.iter().find(|other| other.name == subject);
        subject.map_or(Wording::Time, |subject| Wording::new(&subject.metric))
    }

    /// How much slower the jobs of a trial that counts were than by themselves, where it is of a mix.
    pub(crate) fn slowdowns(&self, trial: &Trial) -> Option<&'a Slowdowns> {
        self.analysis.slowdowns.get(&trial.sequence)
    }

    /// How a cell is painted: by its part in the race, else by its treatment.
    pub(crate) fn hue(&self, summary: &Summary) -> Hue {
        match self.ranking(&summary.subject) {
            Some(ranking) => {
                ranking.place_of(summary.threads, &summary.placement).map_or(Part::Other, |p| p.part).hue()
            }
            None => self.series(&summary.placement),
        }
    }

    /// The name of the treatment that every ratio is taken against; empty for a plan without treatments.
    pub(crate) fn reference(&self) -> &'a str {
        self.plan.treatments.first().map_or("", |treatment| treatment.name.as_str())
    }

    /// What the best of a verdict is told against.
    pub(crate) fn reference_of(&self, verdict: &'a Verdict) -> &'a str {
        match verdict {
            Verdict::Comparison(verdict) => &verdict.reference,
            // A race measures the gain over unbound, whichever treatment comes first.
            Verdict::Race(_) => UNBOUND,
            Verdict::Emulated(_) | Verdict::Refused(_) => self.reference(),
        }
    }

    /// Whether there is only the reference for a subject.
    pub(crate) fn has_nothing_to_compare(&self, subject: &str) -> bool {
        let mut verdicts = self.analysis.verdicts.iter().filter(|verdict| verdict.subject() == subject);
        verdicts.any(|verdict| matches!(verdict.headline(), Headline::NothingCompared { .. }))
    }

    /// Whether a difference of a cell was measured on a busy machine: by its own size, or because the answer on its subject was.
    pub(crate) fn is_busy(&self, summary: &Summary) -> bool {
        !summary.disturbances.is_empty() || !self.disturbances(&summary.subject).is_empty()
    }

    /// The treatments that are run at some thread count, each by its name and by those of others that are the very same at all.
    pub(crate) fn treatments(&self) -> impl Iterator<Item = (&'a Treatment, String)> {
        let all = &self.plan.treatments;
        all.iter().filter(|treatment| !self.is_run_as_others(treatment)).map(move |treatment| {
            let is_always = |later: &&Treatment| {
                let mut threads = self.plan.threads.iter();
                self.is_run_as_others(later)
                    && threads.all(|&count| later.same_placement(count) == Some(&treatment.name))
            };
            let twins = all.iter().filter(is_always).map(|twin| &twin.name);
            (treatment, joined(&treatment.name, twins))
        })
    }

    /// Whether at every thread count a treatment is the very placement of an earlier one, which is run for it.
    pub(crate) fn is_run_as_others(&self, treatment: &Treatment) -> bool {
        let mut threads = self.plan.threads.iter();
        !treatment.same_as.is_empty() && threads.all(|&count| treatment.same_placement(count).is_some())
    }

    /// What its columns are: thread counts, or divisions into ranks and threads.
    pub(crate) fn column_noun(&self) -> &'static str {
        let has_ranks = self.plan.threads.iter().any(|shape| shape.ranks().is_some());
        if has_ranks { "division into ranks and threads" } else { "thread count" }
    }

    /// The name of the treatment that is run as `treatment` with so many threads: itself, or the earlier one that is the very same
    /// placement.
    fn run_as<'n>(&self, treatment: &'n str, threads: Shape) -> &'n str
    where
        'a: 'n,
    {
        let mut all = self.plan.treatments.iter();
        all.find(|t| t.name == treatment).and_then(|t| t.same_placement(threads)).unwrap_or(treatment)
    }

    /// The summary of one cell, which may be run for another of the very same placement.
    pub(crate) fn summary(&self, subject: &str, threads: Shape, placement: &str) -> Option<&'a Summary> {
        let placement = self.run_as(placement, threads);
        self.summaries(subject).find(|s| s.threads == threads && s.placement == placement)
    }

    /// The summaries of one subject, in the plan's order.
    pub(crate) fn summaries(&self, subject: &str) -> impl Iterator<Item = &'a Summary> {
        self.analysis.summaries.iter().filter(move |s| s.subject == subject)
    }

    /// The summary that `best` names.
    pub(crate) fn best_summary(&self, best: &Best) -> Option<&'a Summary> {
        self.summary(&best.subject, best.threads, &best.placement)
    }

    /// What else may have made the effect that is headlined for a subject; empty when that may be told plainly.
    pub(crate) fn disturbances(&self, subject: &str) -> &'a [Disturbance] {
        let verdict = self.analysis.verdicts.iter().find(|verdict| verdict.subject() == subject);
        verdict.map_or(&[], |verdict| verdict.disturbances())
    }

    /// How a treatment is painted; unknown names count as the reference.
    pub(crate) fn series(&self, treatment: &str) -> Hue {
        Hue::Series(self.plan.treatments.iter().position(|t| t.name == treatment).unwrap_or(0))
    }

    /// The treatment of that name, or what is run for it with so many threads.
    pub(crate) fn treatment(&self, name: &str, threads: Shape) -> Option<&'a Treatment> {
        let name = self.run_as(name, threads);
        self.plan.treatments.iter().find(|treatment| treatment.name == name)
    }

    /// Where the threads of `treatment` are put when there are `threads` of them; none when unbound, or in a study of mixes, whose jobs
    /// each have a place of their own.
    pub(crate) fn placement(&self, treatment: &str, threads: Shape) -> Option<&'a Placement> {
        let plan = &self.plan;
        if self.is_of_mixes() {
            return None;
        }
        let column = plan.threads.iter().position(|&count| count == threads)?;
        self.treatment(treatment, threads)?.placement(column)
    }

    /// The trials of one cell in the order in which they were run, warm-up included.
    pub(crate) fn trials(&self, summary: &Summary) -> impl Iterator<Item = &'a Trial> + use<'a> {
        let (subject, threads, placement) = (summary.subject.clone(), summary.threads, summary.placement.clone());
        let same = move |t: &&Trial| t.subject == subject && t.threads == threads && t.placement == placement;
        self.trials.iter().filter(same)
    }

    /// The trials that failed, in order, warm-up included.
    pub(crate) fn failures(&self) -> impl Iterator<Item = &'a Trial> + use<'a> {
        self.trials.iter().filter(|trial| trial.status.is_failure())
    }
}

/// The threads of the process that has most of them (the first such process), in order of creation; of ranks those of all, rank by rank,
/// but for helper threads of their MPI library.
pub(crate) fn program_threads(trial: &Trial) -> Vec<&ThreadObservation> {
    let Some(observation) = &trial.observation else { return Vec::new() };
    if trial.threads.ranks().is_some() {
        let mut threads: Vec<_> = observation.threads.iter().filter(|thread| !thread.is_helper).collect();
        threads.sort_by_key(|thread| (thread.process, thread.thread));
        return threads;
    }
    let mut counts = std::collections::BTreeMap::<u32, usize>::new();
    for thread in &observation.threads {
        *counts.entry(thread.process).or_default() += 1;
    }
    let most = counts.values().max().copied().unwrap_or(0);
    let process = counts.iter().find(|&(_, &count)| count == most).map(|(&process, _)| process);
    let mut threads: Vec<_> = observation.threads.iter().filter(|t| Some(t.process) == process).collect();
    threads.sort_by_key(|t| t.thread);
    threads
}

/// The CPUs of each thread of the program as they were read back; none when nothing was seen.
pub(crate) fn actual_cpus(trial: &Trial) -> Option<Vec<&CpuSet>> {
    let threads = program_threads(trial);
    (!threads.is_empty()).then(|| threads.into_iter().map(|t| &t.actual_cpus).collect())
}

/// A placement in one line, thread by thread: `0 8 1 9`, with braces around a thread's several CPUs.
pub(crate) fn cpu_line<'s>(slots: impl IntoIterator<Item = &'s CpuSet>) -> String {
    let slot = |cpus: &CpuSet| if cpus.len() == 1 { cpus.to_string() } else { format!("{{{cpus}}}") };
    slots.into_iter().map(slot).collect::<Vec<_>>().join(" ")
}
