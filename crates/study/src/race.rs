//! The race of a study that asks for the best: what each block runs, when a run has lost, and how the race ended.
//!
//! Each subject has a race of its own, between all its cells, also across thread counts. Who stays in is decided by
//! [`stats::Race`]; here cells become its arms, and trials its runs.

use crate::engine::CellStudy;
use crate::identity::Change;
use crate::kind::Kind;
use crate::plan::{Cell, Plan, PlanError};
use crate::race_course::RaceCourse;
use crate::redaction::Redaction;
use crate::shape::Shape;
use crate::times::counted_cost;
use crate::trial::{Status, Trial};
use serde::{Deserialize, Serialize};
use stats::{Claim, Gain, Outcome, PastStandings, RaceRule, Run, Standing, Standings};
use std::collections::HashMap;

/// A study that looks for the best cell of each subject, and drops cells as soon as they have lost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Race {
    /// What is run where.
    #[serde(flatten)]
    pub plan: Plan,
    /// How the best is found.
    pub stop: RaceStop,
}

/// How the best is found, and what that may cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "rule", rename = "best")]
pub struct RaceStop {
    /// The search.
    pub search: RaceRule,
    /// A run is stopped when it has taken this many times as long as the best surely takes.
    pub cut_off: f64,
    /// The treatment that stays in the race to its end, whatever becomes of it, because its loss is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
}

impl Kind for Race {
    const NAME: &'static str = "race";
    type Trial = Trial;

    fn check(&self) -> Result<(), PlanError> {
        self.plan.check()?;
        let wrong = |what: String| Err(PlanError(what));
        let RaceStop { search, cut_off, kept } = &self.stop;
        if cut_off.is_nan() || *cut_off <= 1.0 {
            return wrong(format!("the cut-off must be a factor above 1, not {cut_off}"));
        }
        if let Some(kept) = kept.as_ref().filter(|kept| self.plan.treatments.iter().all(|t| t.name != **kept)) {
            return wrong(format!("there is no placement `{kept}` whose loss could be told"));
        }
        if let RaceRule::Guarantee { epsilon, delta, .. } = search
            && ![epsilon, delta].iter().all(|share| **share > 0.0 && **share < 1.0)
        {
            return wrong(format!("a guarantee needs two shares between 0 and 1, not {epsilon} and {delta}"));
        }
        Ok(())
    }

    fn aligned(&self, asked: &Self) -> Self {
        Self { plan: self.plan.aligned(&asked.plan), stop: asked.stop.clone() }
    }

    fn redaction(&self) -> Redaction {
        self.plan.redaction()
    }

    fn keeps_identity(&self) -> bool {
        self.plan.keeps_identity()
    }

    fn changes(&self, asked: &Self) -> Vec<Change> {
        self.plan.changes(&asked.plan)
    }

    fn extended_by(&self, asked: &Self, trials: &[Trial]) -> Result<Self, Vec<String>> {
        let asked = self.aligned(asked);
        let stop = RaceStop { search: asked.stop.search, ..self.stop.clone() };
        let next_block = trials.last().map_or(0, |trial| trial.block + 1);
        let wanted = |plan| Self { plan, ..asked.clone() };
        let (plan, extension) = self.plan.extended_by(&asked.plan, next_block, |have, want| {
            Self { plan: have.clone(), stop: stop.clone() }.differences(&wanted(want.clone()))
        })?;
        let is_changed = extension.adds_cells() || stop != self.stop;
        let mut extended = Self { plan, stop };
        if is_changed && !trials.is_empty() {
            extended.plan.extensions.push(extension);
        }
        Ok(extended)
    }
}

/// How the race of one subject stands, or ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RaceResult {
    /// Name of the subject.
    pub subject: String,
    /// Who ran, in the plan's order; positions below are positions in this list.
    pub entrants: Vec<Entrant>,
    /// Trials that count, cut-off and failed ones among them.
    pub runs: u32,
    /// How it stands: who is best, who can't be told apart from it, and each entrant's loss.
    pub standings: Standings,
    /// How it stood after each block; of long races, after some of those at which it was looked at.
    pub history: Vec<PastStandings>,
}

/// One cell in a race.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entrant {
    /// Thread count.
    pub threads: Shape,
    /// Name of the treatment.
    pub placement: String,
    /// Whether it is what the gain of others with as many threads is told against.
    pub reference: bool,
}

impl RaceResult {
    /// The best entrant; none when no run went well.
    pub fn best(&self) -> Option<&Entrant> {
        self.entrants.get(self.standings.best?)
    }

    /// What the best gains over the reference with as many threads.
    pub fn gain(&self) -> Option<&Gain> {
        self.standings.gain.as_ref()
    }

    /// What the best's gain is told against: the entrant that is unbound with as many threads, and where it stands.
    pub fn reference(&self) -> Option<(&Entrant, &Standing)> {
        let threads = self.best()?.threads;
        let mut all = self.entrants.iter().zip(&self.standings.arms);
        all.find(|(entrant, _)| entrant.reference && entrant.threads == threads)
    }

    /// The reference of the gain, unless none of its runs went well.
    pub fn timed_reference(&self) -> Option<&Entrant> {
        self.reference().filter(|(_, standing)| standing.loss.is_some()).map(|(entrant, _)| entrant)
    }

    /// Whether the best is shown to be faster than its reference: by their pairs, or because the race as a whole tells the
    /// two apart.
    pub fn beats_reference(&self) -> bool {
        let is_apart = |reference| !self.standings.tied.iter().any(|&arm| self.entrants.get(arm) == Some(reference));
        self.gain().is_some_and(|gain| gain.claim == Claim::Faster)
            || (self.standings.difference_shown && self.timed_reference().is_some_and(is_apart))
    }

    /// Those that can't be told apart from the best, without it.
    pub fn rivals(&self) -> impl Iterator<Item = &Entrant> {
        let best = self.standings.best;
        self.standings.tied.iter().filter(move |arm| Some(**arm) != best).filter_map(|&arm| self.entrants.get(arm))
    }
}

impl CellStudy for Race {
    type Course<'a> = RaceCourse<'a>;

    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn course<'a>(&'a self, earlier: &[Trial]) -> RaceCourse<'a> {
        RaceCourse::new(self, earlier)
    }

    fn with_plan(&self, plan: Plan) -> Self {
        Self { plan, stop: self.stop.clone() }
    }

    /// A race drops a cell as soon as more of its runs failed than went well.
    fn is_given_up(&self, trials: &[Trial], cell: Cell) -> bool {
        let since =
            trials.iter().filter(|trial| trial.block >= self.plan.retried_from() && cell.has_trial(&self.plan, trial));
        let (failed, other): (Vec<&Trial>, Vec<&Trial>) = since.partition(|trial| trial.status.is_failure());
        failed.len() > other.len()
    }
}

impl Race {
    /// Whether nothing but failures is known of `cell` from before they are tried again.
    fn is_retried(&self, trials: &[Trial], cell: Cell) -> bool {
        let plan = &self.plan;
        let before = trials.iter().filter(|trial| trial.block < plan.retried_from() && cell.has_trial(plan, trial));
        let mut before = before.filter(|trial| !trial.warmup).peekable();
        before.peek().is_some() && before.all(|trial| trial.status.is_failure())
    }

    /// How the races stand, one for each subject.
    pub(crate) fn results(&self, trials: &[Trial]) -> Vec<RaceResult> {
        let plan = &self.plan;
        let result = |subject: usize| {
            let field = SubjectRace::new(self, subject, trials);
            let race = field.race();
            let runs = field.runs(trials);
            let entrant = |(arm, cell): (usize, &Cell)| Entrant {
                threads: plan.threads[cell.threads],
                placement: plan.treatments[cell.treatment].name.clone(),
                reference: field.reference[arm] == Some(arm),
            };
            // It ends with where the race stands.
            let history = race.history(&runs);
            RaceResult {
                subject: plan.subjects[subject].name.clone(),
                entrants: field.arms.iter().enumerate().map(entrant).collect(),
                runs: runs.len() as u32,
                standings: history.last().map_or_else(|| race.standings(&runs), |last| last.standings.clone()),
                history,
            }
        };
        (0..plan.compared().count()).map(result).collect()
    }
}

/// The race between the cells of one subject.
#[derive(Debug)]
pub(crate) struct SubjectRace<'a> {
    plan: &'a Plan,
    stop: &'a RaceStop,
    /// Its cells, in the plan's order.
    pub(crate) arms: Vec<Cell>,
    /// For each arm the one that its gain is told against.
    pub(crate) reference: Vec<Option<usize>>,
    kept: Vec<usize>,
    /// For each arm the counted block in which it was added, or is tried again.
    entries: Vec<u32>,
    by_name: HashMap<(Shape, &'a str), usize>,
}

impl<'a> SubjectRace<'a> {
    /// The race of a subject, by its position; `trials` are at least all those of before cells were tried again.
    pub(crate) fn new(race: &'a Race, subject: usize, trials: &[Trial]) -> Self {
        let Race { plan, stop } = race;
        let arms: Vec<Cell> = plan.cells().filter(|cell| cell.subject == subject).collect();
        let unbound = arms.iter().enumerate().filter(|(_, cell)| plan.treatments[cell.treatment].is_unbound());
        let unbound: HashMap<usize, usize> = unbound.map(|(arm, cell)| (cell.threads, arm)).collect();
        let name = |cell: &Cell| plan.treatments[cell.treatment].name.as_str();
        let is_kept = |&arm: &usize| stop.kept.as_deref() == Some(name(&arms[arm]));
        let kept = (0..arms.len()).filter(is_kept).collect();
        let entry = |&cell: &Cell| {
            let retried = if race.is_retried(trials, cell) { plan.retried_from() } else { 0 };
            plan.entry_of(cell).max(retried).saturating_sub(plan.warmup_blocks)
        };
        Self {
            entries: arms.iter().map(entry).collect(),
            plan,
            stop,
            reference: arms.iter().map(|cell| unbound.get(&cell.threads).copied()).collect(),
            kept,
            by_name: arms.iter().enumerate().map(|(arm, c)| ((plan.threads[c.threads], name(c)), arm)).collect(),
            arms,
        }
    }

    /// The race as decisions are made about it.
    pub(crate) fn race(&self) -> stats::Race<'_> {
        stats::Race {
            arms: self.arms.len(),
            reference: &self.reference,
            kept: &self.kept,
            entries: &self.entries,
            rule: self.stop.search,
            cut_off: self.stop.cut_off,
            seed: self.plan.seed,
        }
    }

    /// The trials of this subject that count, as runs.
    pub(crate) fn runs(&self, trials: &[Trial]) -> Vec<Run> {
        trials.iter().filter_map(|trial| self.run(trial)).collect()
    }

    /// A trial as a run; none where it doesn't count, or is of another subject. Failures that are tried again are as if they had not
    /// been.
    pub(crate) fn run(&self, trial: &Trial) -> Option<Run> {
        let is_forgotten = trial.status.is_failure() && trial.block < self.plan.retried_from();
        if trial.warmup || is_forgotten {
            return None;
        }
        let cost = counted_cost(&self.plan.subjects[self.arms.first()?.subject], trial);
        let outcome = match (trial.status, cost, trial.ran_s) {
            (Status::Ok, Some(cost), _) => Outcome::Time(cost),
            (Status::CutOff, _, Some(ran_s)) => Outcome::CutOff(ran_s),
            _ => Outcome::Failed,
        };
        let block = trial.block.saturating_sub(self.plan.warmup_blocks);
        Some(Run { block, arm: self.arm(trial)?, outcome })
    }

    /// The arm that a trial is of; none where it is of another subject.
    pub(crate) fn arm(&self, trial: &Trial) -> Option<usize> {
        let subject = &self.plan.subjects[self.arms.first()?.subject].name;
        self.by_name.get(&(trial.threads, trial.placement.as_str())).filter(|_| trial.subject == *subject).copied()
    }
}
