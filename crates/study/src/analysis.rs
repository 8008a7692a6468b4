//! What is concluded from a record of a study of cells: summaries, the best, verdicts and warnings.

use crate::comparison::Comparison;
use crate::crowding::Crowding;
use crate::effects::{Effect, effects};
use crate::environment::Environment;
use crate::metric_summary::{MetricSummary, metric_summaries, used_summaries};
use crate::nodes::NodeSummary;
use crate::plan::{Cell, Plan, Subject};
use crate::race::{Race, RaceResult};
use crate::record::Record;
use crate::reported_time::opposition_of;
use crate::shape_comparison::{ShapeComparison, shape_comparisons};
use crate::slowdown::{Slowdowns, slowdowns};
use crate::stop_reason::Stop;
use crate::summary::{Best, Claim, Summary, add_gain, add_speedups, best_of, summary_of_cell, winner};
use crate::times::{bootstrap_seed, pairs};
use crate::treatment::Varied;
use crate::trial::Trial;
use crate::verdict::{ComparisonVerdict, EmulatedVerdict, MetricVerdict, RaceVerdict, RefusedVerdict, Verdict};
use crate::warning::Warning;
use stats::{Opposition, PairedRatio};
use std::collections::BTreeMap;

/// All that is concluded from a record of a study of cells.
#[derive(Clone, Debug, PartialEq)]
pub struct Analysis {
    /// Every cell, in the plan's order: subject, then threads, then treatment.
    pub summaries: Vec<Summary>,
    /// The best cell of every subject that has one.
    pub best: Vec<Best>,
    /// What its treatments differ in.
    pub varied: Varied,
    /// What each factor changes, and two together, where several vary.
    pub effects: Vec<Effect>,
    /// The answer with its doubt, one for each subject.
    pub verdicts: Vec<Verdict>,
    /// What disturbed the study or limits it.
    pub warnings: Vec<Warning>,
    /// How much slower the jobs of each trial of a mix were than by themselves, by the trial's sequence number.
    pub slowdowns: BTreeMap<u32, Slowdowns>,
    /// Why it stopped.
    pub stop: Stop,
    /// What each node of a cluster shows by itself, where there are several.
    pub nodes: Vec<NodeSummary>,
    /// Which division into ranks and threads is the fastest, where several with as many threads in all were run.
    pub shapes: Vec<ShapeComparison>,
}

impl Analysis {
    /// Where busy threads of several processes of a subject were put on one CPU, if anywhere.
    pub fn crowding(&self, subject: &str) -> Option<&Crowding> {
        self.warnings.iter().find_map(|warning| match warning {
            Warning::Crowded { subject: name, crowding } if name == subject => Some(crowding),
            _ => None,
        })
    }
}

impl Analysis {
    /// The shapes of a subject that are compared with one another, each group of as many threads in all by itself.
    pub fn shapes_of<'a>(&'a self, subject: &'a str) -> impl Iterator<Item = &'a ShapeComparison> {
        self.shapes.iter().filter(move |shapes| shapes.subject == subject)
    }

    /// Whether nothing is said of a subject, since what it reports as its time can't be that.
    pub fn is_refused(&self, subject: &str) -> bool {
        self.verdicts.iter().any(|verdict| matches!(verdict, Verdict::Refused(verdict) if verdict.subject == subject))
    }

    /// Takes back what is said of times, since those of an emulated machine mean nothing: metrics are what is left.
    fn withdraw_times(&mut self, plan: &Plan) {
        self.best.clear();
        self.shapes.clear();
        self.effects.clear();
        self.slowdowns.clear();
        for summary in &mut self.summaries {
            summary.refuse(Claim::Emulated);
            summary.jobs.clear();
            summary.used.clear();
        }
        for verdict in &mut self.verdicts {
            let subject = verdict.subject().to_owned();
            let ours = self.summaries.iter().filter(|summary| summary.subject == subject);
            let metrics = ours.flat_map(MetricVerdict::of_summary).collect();
            let is_counted = plan.subjects.iter().any(|other| other.name == subject && !other.metrics.is_empty());
            let reference = plan.reference().name.clone();
            *verdict = Verdict::Emulated(EmulatedVerdict { subject, reference, is_counted, metrics });
        }
    }

    /// Takes back what is said of subjects whose times move against those that their runs took. Where placements alone say so, that
    /// is a warning.
    fn refuse_what_is_no_time(&mut self, plan: &Plan, trials: &[Trial]) {
        for (position, Subject { name, .. }) in plan.subjects.iter().enumerate() {
            let Some(Opposition { correlation, runs, is_within_cells }) = opposition_of(plan, trials, position) else {
                continue;
            };
            let (subject, runs) = (name.clone(), runs as u32);
            if !is_within_cells {
                self.warnings.push(Warning::AgainstWallTime { subject, correlation, runs });
                continue;
            }
            self.best.retain(|best| best.subject != *name);
            self.shapes.retain(|shapes| shapes.subject != *name);
            self.effects.retain(|effect| effect.subject != *name);
            self.summaries
                .iter_mut()
                .filter(|summary| summary.subject == *name)
                .for_each(|summary| summary.refuse(Claim::Refused));
            for verdict in self.verdicts.iter_mut().filter(|verdict| verdict.subject() == name) {
                *verdict = Verdict::Refused(RefusedVerdict { subject: subject.clone(), correlation, runs });
            }
        }
    }
}

/// All that is concluded from a record of a race.
#[derive(Clone, Debug, PartialEq)]
pub struct RaceAnalysis {
    /// What is concluded of cells.
    pub cells: Analysis,
    /// How the races ended, one for each subject.
    pub races: Vec<RaceResult>,
}

/// What a comparison shows; the same record gives the same conclusions.
pub fn comparison_analysis(record: &Record<Comparison>) -> Analysis {
    let (study, trials) = (&record.plan, record.trials.as_slice());
    let plan = &study.plan;
    let cells: Vec<Cell> = plan.cells().collect();
    let ratio = |&cell: &Cell| {
        let is_compared = cell.treatment != 0;
        is_compared.then(|| stats::paired_ratio(&pairs(plan, trials, cell), bootstrap_seed(plan, cell))).flatten()
    };
    let ratios: Vec<Option<PairedRatio>> = cells.iter().map(ratio).collect();
    let mut claims = stats::claims(&ratios.iter().flatten().copied().collect::<Vec<_>>()).into_iter();
    let comparisons = ratios.iter().flatten().count();
    let environment = Environment::new(plan, record);
    let slowdowns = slowdowns(plan, trials);
    let mut metrics = metric_summaries(plan, trials, &slowdowns, &cells).into_iter();
    let mut used = used_summaries(plan, trials, &cells).into_iter();
    let mut summaries: Vec<Summary> = Vec::new();
    for (&cell, ratio) in cells.iter().zip(&ratios) {
        let claim = match ratio {
            _ if cell.treatment == 0 => Claim::Reference,
            None => Claim::TooFew,
            Some(_) => claims.next().map_or(Claim::NoneShown, Claim::from),
        };
        let claimed = ratio.filter(|_| matches!(claim, Claim::Faster | Claim::Slower));
        let disturbances = |ratio: PairedRatio| {
            let reference = Cell { treatment: 0, ..cell };
            environment.disturbances(reference, cell, ratio.ratio())
        };
        summaries.push(Summary {
            disturbances: claimed.map(disturbances).unwrap_or_default(),
            ratio: ratio.map(|ratio| ratio.ratio()),
            ratio_low: ratio.map(|ratio| ratio.low()),
            ratio_high: ratio.map(|ratio| ratio.high()),
            p_value: ratio.map(|ratio| ratio.p_value()),
            smallest_detectable: ratio.map(|ratio| ratio.smallest_detectable(comparisons)),
            settled: study.is_settled(trials, cell),
            metrics: metrics.next().unwrap_or_default(),
            used: used.next().unwrap_or_default(),
            ..summary_of_cell(plan, trials, &slowdowns, cell, claim)
        });
    }
    add_speedups(&mut summaries);
    let best: Vec<Best> = plan.compared().filter_map(|subject| best_of(&subject.name, &summaries)).collect();
    let verdict = |subject: &str| {
        let ours: Vec<&Summary> = summaries.iter().filter(|summary| summary.subject == subject).collect();
        let best = best.iter().find(|best| best.subject == subject);
        Verdict::Comparison(ComparisonVerdict::new(subject, &plan.reference().name, &ours, best))
    };
    let verdicts = plan.compared().map(|subject| verdict(&subject.name)).collect();
    let nodes = NodeSummary::all(plan, trials);
    let mut analysis = Analysis {
        verdicts,
        warnings: [Warning::of_comparison(record, &summaries), Warning::of_nodes(&nodes)].concat(),
        stop: Stop::of_comparison(record, &summaries),
        varied: if plan.compares_commands() { Varied::Commands } else { Varied::of(&plan.treatments) },
        effects: effects(plan, trials),
        shapes: shape_comparisons(plan, trials, &summaries, &environment),
        slowdowns,
        summaries,
        best,
        nodes,
    };
    match plan.site.is_emulated() {
        false => analysis.refuse_what_is_no_time(plan, trials),
        true => analysis.withdraw_times(plan),
    }
    analysis
}

/// What a race shows. What it may say of its cells is the race's to say: an interval of whoever happened to win would flatter it.
pub fn race_analysis(record: &Record<Race>) -> RaceAnalysis {
    let plan = &record.plan.plan;
    let races = record.plan.results(&record.trials);
    // Races run nothing by itself.
    let slowdowns = BTreeMap::new();
    let cells: Vec<Cell> = plan.cells().filter(|cell| plan.subjects[cell.subject].alone.is_none()).collect();
    let metrics = metric_summaries(plan, &record.trials, &slowdowns, &cells);
    let summary = |(&cell, metrics): (&Cell, Vec<MetricSummary>)| {
        let claim = if cell.treatment == 0 { Claim::Reference } else { Claim::NoneShown };
        let metrics = metrics.into_iter().map(MetricSummary::described).collect();
        Summary { settled: true, metrics, ..summary_of_cell(plan, &record.trials, &slowdowns, cell, claim) }
    };
    let mut summaries: Vec<Summary> = cells.iter().zip(metrics).map(summary).collect();
    let environment = Environment::new(plan, record);
    let verdicts: Vec<RaceVerdict> = races.iter().map(|race| RaceVerdict::new(race, plan, &environment)).collect();
    races.iter().zip(&verdicts).for_each(|(race, verdict)| add_gain(race, verdict, &mut summaries));
    add_speedups(&mut summaries);
    let nodes = NodeSummary::all(plan, &record.trials);
    let mut cells = Analysis {
        best: races.iter().filter_map(winner).collect(),
        verdicts: verdicts.into_iter().map(Verdict::Race).collect(),
        warnings: [Warning::of_race(record, &summaries), Warning::of_nodes(&nodes)].concat(),
        varied: if plan.compares_commands() { Varied::Commands } else { Varied::of(&plan.treatments) },
        effects: Vec::new(),
        shapes: Vec::new(),
        slowdowns: BTreeMap::new(),
        stop: Stop::of_race(record, &races),
        summaries,
        nodes,
    };
    cells.refuse_what_is_no_time(plan, &record.trials);
    let races = races.into_iter().filter(|race| !cells.is_refused(&race.subject)).collect();
    RaceAnalysis { cells, races }
}
