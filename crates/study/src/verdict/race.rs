//! How the race of one subject ended.

use super::{Configuration, Interval};
use crate::environment::Environment;
use crate::plan::Plan;
use crate::race::{Entrant, RaceResult};
use crate::shape::Shape;
use serde::{Deserialize, Serialize};
use stats::{Claim, Disturbance, DropReason, Standing};

/// How the race of one subject ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RaceVerdict {
    /// Name of the subject.
    pub subject: String,
    /// What came of it; none when no run went well.
    pub outcome: Option<RaceOutcome>,
}

/// What came of a race in which some run went well.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RaceOutcome {
    /// What is claimed of the best.
    #[serde(flatten)]
    pub finding: RaceFinding,
    /// The best entrant.
    pub best: Configuration,
    /// How many entrants there were.
    pub entrants: u32,
    /// The thread count, where all entrants have the same.
    pub threads: Option<Shape>,
    /// Trials that count, cut-off and failed ones among them.
    pub runs: u32,
    /// Those that can't be told apart from the best; none where no difference is shown at all.
    pub rivals: Option<Vec<Configuration>>,
    /// The slowest that ran to its end, where it is shown to be slower than the best.
    pub slowest: Option<Slowest>,
    /// What else may have made the gain of the best, or where none is shown, the loss of the slowest: they were then measured on
    /// a busy machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disturbances: Vec<Disturbance>,
}

/// What is claimed of the best of a race. A ratio is the time of unbound over that of the best, with as many threads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "finding", rename_all = "kebab-case")]
pub enum RaceFinding {
    /// Its pairs with unbound show that it is faster.
    Faster {
        /// The ratio of times.
        ratio: Interval,
        /// How many pairs the ratio comes from.
        pairs: u32,
    },
    /// The race as a whole shows that it is faster than unbound; there are too few pairs to show it by themselves.
    FasterAmongAll {
        /// The ratio of times, whose interval allows for all comparisons of the race.
        ratio: Interval,
    },
    /// It is shown to be faster than unbound, whose runs were cut off, so that it is only known to take at least so long.
    FasterThanCutOff {
        /// The time of unbound over that of the best, at least.
        at_least: f64,
    },
    /// Entrants differ, and the best is unbound itself.
    ReferenceIsBest,
    /// Entrants differ, but the best isn't shown to be faster than unbound.
    NotShownFaster {
        /// The ratio of times.
        ratio: Interval,
        /// How many pairs the ratio comes from.
        pairs: u32,
    },
    /// Entrants differ, but the best was not measured against unbound.
    GainUnknown,
    /// No difference is shown among the entrants.
    NoneShown {
        /// The smallest relative difference that the race would have seen with 80 % probability (0.03 = 3 %).
        smallest_detectable: Option<f64>,
        /// The entrants whose runs were cut off, too few to show a difference.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cut_off: Option<CutOff>,
    },
}

/// Entrants whose runs were cut off because they took so much longer than the best.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CutOff {
    /// How many there are.
    pub entrants: u32,
    /// Each of them took at least so many times as long as the best.
    pub at_least: f64,
}

/// The slowest entrant that ran to its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slowest {
    /// Which one.
    #[serde(flatten)]
    pub configuration: Configuration,
    /// Its time over that of the best.
    pub loss: f64,
    /// Lower end of the interval of that.
    pub loss_low: f64,
}

impl From<&Entrant> for Configuration {
    fn from(entrant: &Entrant) -> Self {
        Self { threads: entrant.threads, placement: entrant.placement.clone() }
    }
}

impl RaceVerdict {
    /// How `race` ended, one of `plan`.
    pub(crate) fn new(race: &RaceResult, plan: &Plan, environment: &Environment) -> Self {
        let outcome = race.best().map(|best| RaceOutcome {
            disturbances: disturbances(race, best, plan, environment).unwrap_or_default(),
            finding: RaceFinding::new(race, best),
            best: best.into(),
            entrants: race.entrants.len() as u32,
            threads: Some(best.threads).filter(|&t| race.entrants.iter().all(|entrant| entrant.threads == t)),
            runs: race.runs,
            rivals: race.standings.difference_shown.then(|| race.rivals().map(Configuration::from).collect()),
            slowest: Slowest::new(race),
        });
        Self { subject: race.subject.clone(), outcome }
    }
}

/// All that is large against what is told first of the race.
fn disturbances(race: &RaceResult, best: &Entrant, plan: &Plan, environment: &Environment) -> Option<Vec<Disturbance>> {
    let (than, ratio) = match RaceFinding::new(race, best) {
        RaceFinding::Faster { ratio, .. } | RaceFinding::FasterAmongAll { ratio } => {
            (race.reference()?.0.into(), ratio.value)
        }
        RaceFinding::FasterThanCutOff { at_least } => (race.reference()?.0.into(), at_least),
        _ => Slowest::new(race).map(|slowest| (slowest.configuration, slowest.loss))?,
    };
    let cell = |entrant: &Configuration| plan.cell(&race.subject, entrant.threads, &entrant.placement);
    Some(environment.disturbances(cell(&than)?, cell(&best.into())?, ratio))
}

impl RaceFinding {
    fn new(race: &RaceResult, best: &Entrant) -> Self {
        let standings = &race.standings;
        let gain = race.gain().map(|gain| {
            (gain.claim, Interval { value: gain.ratio, low: gain.low, high: gain.high }, gain.pairs as u32)
        });
        let reference_loss = race.reference().and_then(|(_, standing)| {
            Some(Interval { value: standing.loss?, low: standing.loss_low?, high: standing.loss_high? })
        });
        let beaten_cut_off = race.reference().filter(|(_, standing)| race.beats_reference() && was_cut_off(standing));
        let at_least = beaten_cut_off.and_then(|(_, standing)| standing.loss);
        match (gain, reference_loss, at_least) {
            (Some((Claim::Faster, ratio, pairs)), ..) => Self::Faster { ratio, pairs },
            _ if !standings.difference_shown => {
                Self::NoneShown { smallest_detectable: standings.smallest_detectable, cut_off: CutOff::new(race) }
            }
            (_, _, Some(at_least)) => Self::FasterThanCutOff { at_least },
            (_, Some(ratio), _) if race.beats_reference() => Self::FasterAmongAll { ratio },
            _ if best.reference => Self::ReferenceIsBest,
            (Some((_, ratio, pairs)), ..) => Self::NotShownFaster { ratio, pairs },
            (None, ..) => Self::GainUnknown,
        }
    }
}

/// Whether an entrant left because its run was cut off.
fn was_cut_off(standing: &Standing) -> bool {
    standing.dropped.is_some_and(|drop| drop.why == DropReason::Outpaced)
}

impl CutOff {
    fn new(race: &RaceResult) -> Option<Self> {
        let losses: Vec<f64> = race.standings.arms.iter().filter(|s| was_cut_off(s)).filter_map(|s| s.loss).collect();
        let at_least = losses.iter().copied().reduce(f64::min)?;
        Some(Self { entrants: losses.len() as u32, at_least })
    }
}

impl Slowest {
    fn new(race: &RaceResult) -> Option<Self> {
        let standings = &race.standings;
        let ran_to_its_end = standings
            .arms
            .iter()
            .zip(&race.entrants)
            // Who was cut off took longer than it was let run, so that its loss is no measurement.
            .filter(|(standing, _)| !was_cut_off(standing))
            .filter_map(|(standing, entrant)| Some((standing.loss_low?, standing.loss?, entrant)));
        let (loss_low, loss, entrant) = ran_to_its_end.max_by(|a, b| a.1.total_cmp(&b.1))?;
        let is_slower = standings.difference_shown && loss_low > 1.0;
        is_slower.then(|| Self { configuration: entrant.into(), loss, loss_low })
    }
}
