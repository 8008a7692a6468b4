//! The race of a study that asks for the best: what each block runs, when a run has lost, and how the race ended.
//!
//! Each subject has a race of its own, between all its cells, also across thread counts. Who stays in is decided by
//! [`stats::Race`]; here cells become its arms, and trials its runs.

use crate::engine::{Work, given_up};
use crate::plan::{Cell, Plan, StopRule};
use crate::trial::{Status, Trial};
use serde::{Deserialize, Serialize};
use stats::{Claim, Gain, Outcome, Run, Standing, Standings};
use std::collections::HashMap;
use std::time::Duration;

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
    /// How it stood after each block.
    pub history: Vec<Standings>,
}

/// One cell in a race.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entrant {
    /// Thread count.
    pub threads: u32,
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

    /// Whether the best is shown to be faster than its reference: by their pairs, or because the race as a whole tells the
    /// two apart.
    pub fn beats_reference(&self) -> bool {
        let is_reference =
            |arm: &usize| self.reference().is_some_and(|(entrant, _)| self.entrants.get(*arm) == Some(entrant));
        self.gain().is_some_and(|gain| gain.claim == Claim::Faster)
            || (self.standings.shown && self.reference().is_some() && !self.standings.tied.iter().any(is_reference))
    }

    /// Those that can't be told apart from the best, without it.
    pub fn rivals(&self) -> impl Iterator<Item = &Entrant> {
        let best = self.standings.best;
        self.standings.tied.iter().filter(move |arm| Some(**arm) != best).filter_map(|&arm| self.entrants.get(arm))
    }
}

/// The race between the cells of one subject.
struct SubjectRace<'a> {
    plan: &'a Plan,
    arms: Vec<Cell>,
    reference: Vec<Option<usize>>,
    kept: Vec<usize>,
    by_name: HashMap<(u32, &'a str), usize>,
}

impl<'a> SubjectRace<'a> {
    fn new(plan: &'a Plan, subject: usize) -> Self {
        let arms: Vec<Cell> = plan.cells().filter(|cell| cell.subject == subject).collect();
        let unbound = arms.iter().enumerate().filter(|(_, cell)| plan.treatments[cell.treatment].is_unbound());
        let unbound: HashMap<usize, usize> = unbound.map(|(arm, cell)| (cell.threads, arm)).collect();
        let name = |cell: &Cell| plan.treatments[cell.treatment].name.as_str();
        let kept = match &plan.stop {
            StopRule::Best { kept: Some(kept), .. } => {
                (0..arms.len()).filter(|&arm| name(&arms[arm]) == kept).collect()
            }
            _ => Vec::new(),
        };
        Self {
            plan,
            reference: arms.iter().map(|cell| unbound.get(&cell.threads).copied()).collect(),
            kept,
            by_name: arms.iter().enumerate().map(|(arm, c)| ((plan.threads[c.threads], name(c)), arm)).collect(),
            arms,
        }
    }

    /// The race itself; none in a study of another kind.
    fn race(&self) -> Option<stats::Race<'_>> {
        let StopRule::Best { search, cut_off, .. } = self.plan.stop else { return None };
        Some(stats::Race {
            arms: self.arms.len(),
            reference: &self.reference,
            kept: &self.kept,
            rule: search,
            cut_off,
            seed: self.plan.seed,
        })
    }

    /// The trials of this subject that count, as runs.
    fn runs(&self, trials: &[Trial]) -> Vec<Run> {
        let Some(subject) = self.arms.first().map(|cell| &self.plan.subjects[cell.subject].name) else {
            return Vec::new();
        };
        let counted = trials.iter().filter(|trial| !trial.warmup && trial.subject == *subject);
        let run = |trial: &Trial| {
            let outcome = match (trial.status, trial.time_s, &trial.observation) {
                (Status::Ok, Some(time_s), _) => Outcome::Time(time_s),
                (Status::CutOff, _, Some(seen)) => Outcome::CutOff(seen.wall_s),
                _ => Outcome::Failed,
            };
            let arm = *self.by_name.get(&(trial.threads, trial.placement.as_str()))?;
            Some(Run { block: trial.block.saturating_sub(self.plan.warmup_blocks), arm, outcome })
        };
        counted.filter_map(run).collect()
    }
}

/// What `block` runs, given the trials of all earlier blocks. A block that warms up runs one cell of each subject, since
/// what is to be warmed is the machine.
pub(crate) fn block(plan: &Plan, earlier: &[Trial], block: u32) -> Work {
    let mut groups: Vec<Vec<Cell>> = Vec::new();
    let mut of = 0;
    for subject in 0..plan.subjects.len() {
        let field = SubjectRace::new(plan, subject);
        let Some(race) = field.race() else { continue };
        of += field.arms.len();
        let arms = if block < plan.warmup_blocks {
            Some(vec![0])
        } else {
            race.next_block(&field.runs(earlier)).map(|mut arms| {
                arms.retain(|&arm| !given_up(plan, earlier, field.arms[arm]));
                arms
            })
        };
        groups.push(arms.unwrap_or_default().into_iter().map(|arm| field.arms[arm]).collect());
    }
    let open = groups.iter().map(Vec::len).sum();
    let order = stats::block_permutation(plan.seed, block, u32::MAX, groups.len());
    let cells = order.into_iter().flat_map(|subject| {
        let group = &groups[subject];
        let order = stats::block_permutation(plan.seed, block, subject as u32, group.len());
        order.into_iter().map(|position| group[position]).collect::<Vec<_>>()
    });
    Work { cells: cells.collect(), open, of }
}

/// How long a run of `cell` may take before it has lost its race, given all trials before it; none where nothing is known
/// yet, and in a study that isn't a race.
///
/// The race counts the programs' own times, which may be shorter than what is seen from outside; the most that was seen
/// on top of them is added.
pub(crate) fn cut_off(plan: &Plan, trials: &[Trial], cell: Cell) -> Option<Duration> {
    let field = SubjectRace::new(plan, cell.subject);
    let arm = field.arms.iter().position(|other| *other == cell)?;
    let limit_s = field.race()?.limit_s(&field.runs(trials), arm)?;
    let around = trials.iter().filter_map(|trial| Some(trial.observation.as_ref()?.wall_s - trial.time_s?));
    Duration::try_from_secs_f64(limit_s + around.fold(0.0, f64::max)).ok()
}

/// How the races of a study stand, one for each subject; none in a study of another kind.
pub(crate) fn results(plan: &Plan, trials: &[Trial]) -> Vec<RaceResult> {
    let result = |subject: usize| {
        let field = SubjectRace::new(plan, subject);
        let race = field.race()?;
        let runs = field.runs(trials);
        let entrant = |(arm, cell): (usize, &Cell)| Entrant {
            threads: plan.threads[cell.threads],
            placement: plan.treatments[cell.treatment].name.clone(),
            reference: field.reference[arm] == Some(arm),
        };
        Some(RaceResult {
            subject: plan.subjects[subject].name.clone(),
            entrants: field.arms.iter().enumerate().map(entrant).collect(),
            runs: runs.len() as u32,
            standings: race.standings(&runs),
            history: race.history(&runs),
        })
    };
    (0..plan.subjects.len()).filter_map(result).collect()
}
