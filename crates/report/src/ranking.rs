//! The ranking of a race: who came where, and how each left it.

use crate::chart::Hue;
use crate::metric;
use crate::number;
use crate::study_view::StudyView;
use crate::table::{Cell, Row, Table};
use crate::wording::Wording;
use crate::words::shape_in_words;
use crate::words::{capital, count, names};
use stats::{DropReason, Standing, Standings};
use study::Shape;
use study::{Analysis, Entrant, Metric, Plan, RaceResult, Status, Summary, Trial};

/// What the columns mean, but for the first of them.
const KEY: &str = "time over that of the best, with 95 % intervals that hold for all at once. =1: not told apart from the best. Left: slower, shown to be; seemed slower, no longer shown at the end; cut off, its run had lost by then; halved, others were better so far, not shown to be slower.";

/// What the columns mean, for every form that prints them.
pub(crate) fn key(study: &StudyView) -> String {
    let wording = Wording::of_study(study);
    let of_time = format!("{} by: {KEY}", capital(wording.word(false)));
    match wording {
        Wording::Time => of_time,
        Wording::Makespan => of_time.replace(": time over", ": makespan over"),
        _ => of_time.replace(": time over", ": how much worse it is than").replacen("that of the best", "the best", 1),
    }
}

/// The rank of those that can't be told apart from the best.
const TIED: &str = "=1";

/// Most rows of a ranking in text, unless more can't be told apart from the best.
pub(crate) const MOST_ROWS: usize = 12;

/// One subject's race in the order of its outcome.
pub(crate) struct Ranking<'a> {
    /// The race itself.
    pub race: &'a RaceResult,
    /// Every entrant, the best first, then who can't be told apart from it, then the others by their loss.
    pub places: Vec<Place<'a>>,
    /// Whether entrants differ in their thread count.
    pub across_threads: bool,
    /// What they are compared by.
    pub metric: Metric,
}

/// One entrant and where it came.
pub(crate) struct Place<'a> {
    /// Its position in the race's list of entrants.
    pub arm: usize,
    /// `1`, `=1` for whoever can't be told apart from the best, else the position in the ranking.
    pub rank: String,
    /// The entrant that has this rank.
    pub entrant: &'a Entrant,
    /// How it stands.
    pub standing: &'a Standing,
    /// Its trials in figures.
    pub summary: Option<&'a Summary>,
    /// What it is in the race.
    pub part: Part,
}

/// What an entrant is in its race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The best.
    Best,
    /// Unbound, with as many threads as the best, tied or not.
    Reference,
    /// Not told apart from the best.
    Tied,
    /// Any other.
    Other,
}

impl Part {
    /// How it is painted.
    pub(crate) fn hue(self) -> Hue {
        match self {
            Self::Best => Hue::Better,
            Self::Tied => Hue::Series(1),
            Self::Reference => Hue::Series(3),
            Self::Other => Hue::Neutral,
        }
    }
}

impl<'a> Ranking<'a> {
    /// The ranking of `race`.
    pub(crate) fn new(race: &'a RaceResult, analysis: &'a Analysis, plan: &Plan) -> Self {
        let standings = &race.standings;
        let best = race.best();
        let place = |(arm, (entrant, standing)): (usize, (&'a Entrant, &'a Standing))| {
            let is_best = standings.best == Some(arm);
            let is_reference = entrant.reference && best.is_some_and(|best| best.threads == entrant.threads);
            let part = match standings.tied.contains(&arm) {
                _ if is_best => Part::Best,
                _ if is_reference => Part::Reference,
                true => Part::Tied,
                false => Part::Other,
            };
            let summary = analysis.summaries.iter().find(|s| {
                s.subject == race.subject && s.threads == entrant.threads && s.placement == entrant.placement
            });
            Place { arm, rank: String::new(), entrant, standing, summary, part }
        };
        let mut places: Vec<Place> = race.entrants.iter().zip(&standings.arms).enumerate().map(place).collect();
        let behind = |place: &Place| place.standing.loss.or(place.standing.loss_low).unwrap_or(f64::INFINITY);
        let group = |place: &Place| (place.part != Part::Best, !standings.tied.contains(&place.arm));
        places.sort_by(|a, b| group(a).cmp(&group(b)).then(behind(a).total_cmp(&behind(b))));
        for (position, place) in places.iter_mut().enumerate() {
            place.rank = match place.part {
                Part::Best => "1".into(),
                _ if standings.tied.contains(&place.arm) => TIED.into(),
                _ if place.standing.loss.is_none() => String::new(),
                _ => (position + 1).to_string(),
            };
        }
        let across_threads = race.entrants.iter().any(|entrant| entrant.threads != race.entrants[0].threads);
        let subject = plan.subjects.iter().find(|subject| subject.name == race.subject);
        let metric = subject.map_or_else(Metric::default, |subject| subject.metric.clone());
        Self { race, places, across_threads, metric }
    }

    /// How many can't be told apart from the best, the best among them.
    pub(crate) fn tied(&self) -> usize {
        self.race.standings.tied.len()
    }

    /// The first `most` of the ranking, and unbound wherever it is.
    pub(crate) fn top(&self, most: usize) -> Vec<&Place<'a>> {
        let shown = |&(position, place): &(usize, &Place)| position < most || place.part == Part::Reference;
        self.places.iter().enumerate().filter(shown).map(|(_, place)| place).collect()
    }

    /// The same with everyone who can't be told apart from the best; where no difference is shown that is everyone, so
    /// they get no more room than others.
    pub(crate) fn top_and_tied(&self, most: usize) -> Vec<&Place<'a>> {
        self.top(if self.race.standings.difference_shown { most.max(self.tied()) } else { most })
    }

    /// What is said of those whom a list of `shown` leaves out; empty when there are none.
    pub(crate) fn rest(&self, shown: &[&Place]) -> String {
        let rest = || self.places.iter().filter(|place| shown.iter().all(|other| other.arm != place.arm));
        let runs = || rest().map(|place| place.standing.runs);
        let (Some(fewest), Some(most)) = (runs().min(), runs().max()) else { return String::new() };
        let spent = if fewest == most { count(most, "run") } else { format!("{fewest} to {}", count(most, "run")) };
        let dropped = if rest().all(|place| place.standing.dropped.is_some()) { "dropped after" } else { "with" };
        format!("and {} more, {dropped} {spent}", rest().count())
    }

    /// The slowest placement with as many threads as the best: of those that ran to their end, and where all others were cut off,
    /// of those.
    pub(crate) fn worst(&self) -> Option<&Place<'a>> {
        let threads = self.race.best()?.threads;
        let is_other =
            |place: &&Place| matches!(place.part, Part::Tied | Part::Other) && place.entrant.threads == threads;
        let others = || self.places.iter().filter(is_other).filter(|place| place.loss_known().is_some());
        let slowest =
            |a: &&Place, b: &&Place| a.loss_known().unwrap_or_default().total_cmp(&b.loss_known().unwrap_or_default());
        others().filter(|place| !place.was_cut_off()).max_by(slowest).or_else(|| others().max_by(slowest))
    }

    /// Unbound with as many threads as the best.
    pub(crate) fn reference(&self) -> Option<&Place<'a>> {
        self.places.iter().find(|place| place.part == Part::Reference)
    }

    /// The same where there is little room: `compact ×8` is with 8 threads.
    pub(crate) fn short_name(&self, place: &Place) -> String {
        let Entrant { threads, placement, .. } = place.entrant;
        if self.across_threads { format!("{placement} ×{threads}") } else { placement.clone() }
    }

    /// Whether unbound took part with as many threads as the best, be it the best itself.
    pub(crate) fn has_reference(&self) -> bool {
        let best = self.race.best();
        self.places
            .iter()
            .any(|place| place.entrant.reference && best.is_some_and(|b| b.threads == place.entrant.threads))
    }

    /// The place of one cell.
    pub(crate) fn place_of(&self, threads: Shape, placement: &str) -> Option<&Place<'a>> {
        self.places.iter().find(|place| place.entrant.threads == threads && place.entrant.placement == placement)
    }

    /// How an entrant is called: by its placement, and its thread count where entrants differ in that.
    pub(crate) fn name(&self, place: &Place) -> String {
        let Entrant { threads, placement, .. } = place.entrant;
        if self.across_threads { format!("{placement}, {}", shape_in_words(*threads)) } else { placement.clone() }
    }

    /// The ranking of those `shown`; an empty figure where there is nothing.
    pub(crate) fn table(&self, shown: &[&Place], warmup_blocks: u32) -> Table {
        let (label, slower) = (metric::label(&self.metric), Wording::new(&self.metric).word(false));
        let slower = format!("{slower} by");
        let mut heads = vec!["threads", "runs", &label, &slower, "95 % interval", "left"];
        heads.retain(|head| self.across_threads || *head != "threads");
        let row = |place: &&Place| {
            let (loss, range) = place.loss();
            let threads = self.across_threads.then(|| place.entrant.threads.to_string());
            let rest = [place.standing.runs.to_string(), place.median(), loss, range, place.left(warmup_blocks)];
            let cells = threads.into_iter().chain(rest).map(Cell::from).collect();
            Row { labels: vec![place.rank.clone(), place.names()], cells }
        };
        Table {
            corner: ["rank", "placement"].map(String::from).into(),
            heads: heads.into_iter().map(String::from).collect(),
            rows: shown.iter().map(row).collect(),
            ..Table::default()
        }
    }

    /// The blocks of the race's history, with their trials and how it stood after each: all of a short race.
    pub(crate) fn blocks<'t>(&self, trials: &'t [Trial]) -> Vec<PastBlock<'t, '_>> {
        let ours: Vec<&Trial> = trials.iter().filter(|t| !t.warmup && t.subject == self.race.subject).collect();
        let mut history = self.race.history.iter().peekable();
        let mut runs_before = 0;
        let mut looked_at = Vec::new();
        for (trials, number) in ours.chunk_by(|a, b| a.block == b.block).zip(1..) {
            if let Some(past) = history.next_if(|past| past.blocks == number) {
                looked_at.push(PastBlock { trials: trials.to_vec(), runs_before, standings: &past.standings });
            }
            runs_before += trials.len();
        }
        looked_at
    }
}

/// A block of a race, and how that stood after it.
pub(crate) struct PastBlock<'t, 'r> {
    /// Its trials, in their order.
    pub(crate) trials: Vec<&'t Trial>,
    /// How many trials there were before it.
    pub(crate) runs_before: usize,
    /// How the race stood.
    pub(crate) standings: &'r Standings,
}

impl Place<'_> {
    /// Its median in the unit of the race's metric, as text; empty without one.
    pub(crate) fn median(&self) -> String {
        self.summary.and_then(|summary| summary.figures.median).map_or_else(String::new, number::seconds)
    }

    /// The names of its placement.
    pub(crate) fn names(&self) -> String {
        self.summary.map_or_else(|| self.entrant.placement.clone(), names)
    }

    /// How much slower than the best it is, as text: the figure, and its interval; empty where nothing is known.
    pub(crate) fn loss(&self) -> (String, String) {
        let Standing { loss, loss_low, loss_high, .. } = *self.standing;
        match (self.part, loss) {
            (Part::Best, _) => ("best".into(), String::new()),
            (_, Some(loss)) if !self.was_cut_off() => number::loss(loss, loss_low.zip(loss_high)),
            _ => match self.loss_known() {
                Some(least) => (format!("at least {}", number::loss(least, None).0), String::new()),
                None => Default::default(),
            },
        }
    }

    /// The loss as a number, or the least that it is.
    pub(crate) fn loss_known(&self) -> Option<f64> {
        self.standing.loss.or(self.standing.loss_low).filter(|loss| loss.is_finite())
    }

    /// Whether it has no time because its run was cut off.
    pub(crate) fn was_cut_off(&self) -> bool {
        self.summary.is_some_and(|summary| summary.median_s.is_none() && summary.cut_off > 0)
    }

    /// Whether `trial` is one of its runs.
    pub(crate) fn ran(&self, trial: &Trial) -> bool {
        self.entrant.threads == trial.threads && self.entrant.placement == trial.placement
    }

    /// Why it was dropped, if it was.
    pub(crate) fn exit(&self) -> Option<DropReason> {
        self.standing.dropped.map(|drop| drop.why)
    }

    /// How it left the race and in which block, counted as trials count them: from the first of `warmup_blocks`. Empty
    /// for whoever stayed in.
    pub(crate) fn left(&self, warmup_blocks: u32) -> String {
        let Some(drop) = self.standing.dropped else {
            return if self.standing.runs == 0 { "not run".into() } else { String::new() };
        };
        let why = match drop.why {
            // What later runs can't tell apart from the best was not slower after all.
            DropReason::Slower if self.rank == TIED => "seemed slower",
            DropReason::Slower => "slower",
            DropReason::Outpaced => "cut off",
            DropReason::Halved => "halved",
            DropReason::Failed => "failed",
        };
        format!("{why}, block {}", drop.block + warmup_blocks)
    }
}

/// How many of `trials` were cut off.
pub(crate) fn cut_off(trials: &[Trial]) -> usize {
    trials.iter().filter(|trial| trial.status == Status::CutOff).count()
}
