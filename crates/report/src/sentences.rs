//! What a study concludes, in English: the sentences of its verdicts and warnings, from their typed values.

mod against_kernel;
mod change;
mod comparison;
mod crowding;
mod disturbance;
mod emulated;
mod loss;
mod mix;
mod race;
mod replay;
mod reported_time;
mod shapes;
mod simulation;
mod space_sharing;
mod stop;
mod warning;

pub(crate) use against_kernel::sentences as against_kernel;
pub(crate) use crowding::processes as crowded_processes;
pub(crate) use disturbance::{advice, causes, on_a_busy_machine};
pub use loss::loss;
pub use stop::{nothing_run, stop};

use crate::number;
use crate::study_view::StudyView;
use crate::wording::Wording;
use crate::words::shape_in_words;
use crate::words::{capital, count, plain};
use ::simulation::{ReplayAnalysis, SimulationAnalysis, SimulationVerdict};
use stats::Disturbance;
use std::fmt;
use study::verdict::{Configuration, Headline, Interval, Verdict};
use study::{ShapeComparison, Warning};

/// The answer of a comparison or a race in sentences, each with its doubt.
pub(crate) fn verdicts(study: &StudyView) -> Vec<String> {
    of_cells(study).map(|sentence| sentence.to_string()).collect()
}

/// The answer of a simulation in sentences, likewise.
pub fn simulation_verdicts(analysis: &SimulationAnalysis) -> Vec<String> {
    of_simulation(analysis).iter().map(Sentence::to_string).collect()
}

/// The answer of replays in sentences, likewise.
pub fn replay_verdicts(analysis: &ReplayAnalysis) -> Vec<String> {
    of_replay(analysis).iter().map(Sentence::to_string).collect()
}

/// The answer of a comparison or a race, apart from the names that its sentences begin with.
pub(crate) fn of_cells(study: &StudyView) -> impl Iterator<Item = Sentence> {
    let analysis = study.analysis;
    let sentences = analysis.verdicts.iter().flat_map(|verdict| {
        let wording = study.wording(verdict.subject());
        let mut sentences = match verdict {
            Verdict::Comparison(verdict) => comparison::sentences(verdict, analysis.varied, wording),
            Verdict::Race(verdict) => race::sentences(verdict, analysis.varied, wording),
            Verdict::Emulated(verdict) => return emulated::sentences(verdict),
            Verdict::Refused(verdict) => return vec![reported_time::refused(verdict)],
        };
        sentences = with_shapes(sentences, study, verdict, wording);
        // What the whole mix does stands first, then what its jobs get.
        sentences.extend(mix::sentences(study, verdict.subject()));
        sentences
    });
    sentences.map(move |sentence| match sentence {
        Sentence::Headline { subject, text } => match analysis.crowding(&subject) {
            Some(crowding) => Sentence::Headline { text: crowding::qualified(&text, crowding), subject },
            None => Sentence::Headline { subject, text },
        },
        other => other,
    })
}

/// The sentences on a subject, with those on its shapes before what is said of its placements.
fn with_shapes(sentences: Vec<Sentence>, study: &StudyView, verdict: &Verdict, wording: Wording) -> Vec<Sentence> {
    let groups: Vec<&ShapeComparison> = study.analysis.shapes_of(verdict.subject()).collect();
    if groups.is_empty() {
        return sentences;
    }
    let told: Vec<String> = groups.iter().map(|shapes| shapes::headline(shapes, wording)).collect();
    let has_placements = !matches!(verdict.headline(), Headline::NothingCompared { .. });
    let mut sentences = sentences.into_iter();
    let headline = sentences.next().map(|headline| match headline {
        Sentence::Headline { subject, text } if has_placements => {
            Sentence::Headline { subject, text: format!("{}; {text}", told.join("; ")) }
        }
        Sentence::Headline { subject, .. } => Sentence::Headline { subject, text: format!("{}.", told.join("; ")) },
        other => other,
    });
    let details = groups.iter().flat_map(|group| shapes::details(group, wording));
    headline.into_iter().chain(details).chain(sentences).collect()
}

/// The same of a simulation.
pub(crate) fn of_simulation(analysis: &SimulationAnalysis) -> Vec<Sentence> {
    match &analysis.verdict {
        None => Vec::new(),
        Some(SimulationVerdict::TimeSharing(verdict)) => simulation::sentences(verdict),
        Some(SimulationVerdict::SpaceSharing(verdict)) => space_sharing::sentences(verdict),
    }
}

/// The same of replays.
pub(crate) fn of_replay(analysis: &ReplayAnalysis) -> Vec<Sentence> {
    replay::sentences(&analysis.verdict)
}

/// What disturbed a study or limits it, in sentences.
pub fn warnings(warnings: &[Warning]) -> Vec<String> {
    warnings.iter().map(warning::sentence).collect()
}

/// A sentence of the answer, apart from the name that it begins with: a form may show that above instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sentence {
    /// The answer on a subject: `name: text`.
    Headline { subject: String, text: String },
    /// What stands behind it: `name, text`; and whether that shows anything.
    Detail { subject: String, text: String, is_shown: bool },
    /// It begins with no name.
    Whole(String),
}

impl Sentence {
    /// The sentence as it stands below `heading`: without the name where that is the heading.
    pub(crate) fn below(&self, heading: &str) -> String {
        match self {
            Self::Headline { subject, text } if plain(subject) == heading => capital(&plain(text)),
            whole => plain(&whole.to_string()),
        }
    }
}

impl fmt::Display for Sentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Headline { subject, text } => write!(f, "{subject}: {text}"),
            Self::Detail { subject, text, .. } => write!(f, "{subject}, {text}"),
            Self::Whole(text) => f.write_str(text),
        }
    }
}

/// `1 thread`, `2 threads`.
fn counted(number: u32, noun: &str) -> String {
    count(number as usize, noun)
}

/// What is said of an effect: that it is so, or where something else may have made it, that it seems so.
fn matters(disturbances: &[Disturbance]) -> &'static str {
    if disturbances.is_empty() { "matters" } else { "seems to matter" }
}

/// `scatter with 4 threads`.
fn configuration(Configuration { threads, placement }: &Configuration) -> String {
    format!("{placement} with {}", shape_in_words(*threads))
}

/// A ratio and its interval with the digits that they deserve: three after the point while all are close to 1, else two.
fn with_interval(Interval { value, low, high }: &Interval) -> (String, String) {
    let digits = if [value, low, high].iter().all(|end| (**end - 1.0).abs() < 0.1) { 3 } else { 2 };
    let [value, low, high] = [value, low, high].map(|ratio| number::factor(*ratio, digits));
    (in_words(&value), format!("95 % interval {}", in_words(&number::ends(&low, &high, "-"))))
}

/// What could have been seen, after a sentence that shows no difference; empty where that isn't known.
fn least_seen(which: &str, smallest_detectable: Option<f64>) -> String {
    smallest_detectable
        .map_or_else(String::new, |least| format!("; the smallest {which} could have seen is {}", percent(least)))
}

/// A share as a percentage with one decimal, up to where that tells anything: `137.0 %`, `more than 9900 %`.
pub(crate) fn percent(share: f64) -> String {
    if share > number::FARTHEST - 1.0 { in_words(&number::percent(share)) } else { format!("{:.1} %", share * 100.0) }
}

/// A ratio in words where it is a bound: `1.62`, `more than 100`.
fn factor(ratio: f64) -> String {
    in_words(&number::factor(ratio, 2))
}

/// Figures with their signs for bounds in words.
fn in_words(figures: &str) -> String {
    figures.replace('<', "less than ").replace('>', "more than ")
}
