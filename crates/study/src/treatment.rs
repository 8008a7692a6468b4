//! What a subject is run under: where its threads are put, and in which conditions.

use crate::shape::Shape;
use launch::Conditions;
use machine::Placement;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use strum::{Display, EnumIter, IntoEnumIterator};

/// The name of the treatment that changes nothing, and of the place that binds nothing.
pub const UNBOUND: &str = "unbound";

/// A part of a treatment that studies vary: what is compared is the same program under another level of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Display, EnumIter, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Factor {
    /// Where threads are put.
    Place,
    /// From which NUMA nodes memory comes.
    Memory,
    /// Whether memory is in huge pages.
    HugePages,
    /// Who schedules the threads, and how.
    Sched,
    /// What runs beside the program.
    Beside,
}

impl Factor {
    /// The factor of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::iter().find(|factor| factor.to_string() == name)
    }
}

/// What a subject is run under.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Treatment {
    /// What differs from a program that is just started, in the order of [`Factor`]: `scatter sched=batch`; `unbound` where nothing
    /// does; or what its user calls it.
    pub name: String,
    /// `unbound`, a policy's name, or a CPU list as written. Journals used not to keep it where it is the name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub place: String,
    /// For each thread count of the plan, in its order, the placement, or none where there is no such cell; empty where threads are
    /// bound nowhere.
    pub placements: Vec<Option<Placement>>,
    /// What else it is run under.
    #[serde(flatten)]
    pub conditions: Conditions,
    /// Where it is the very placement of an earlier treatment, in the same conditions, which is then run for both: there is no
    /// cell of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub same_as: Vec<SamePlacement>,
}

/// A treatment that is another one at some thread count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SamePlacement {
    /// The thread count.
    pub threads: Shape,
    /// Name of the treatment that is run.
    pub treatment: String,
}

impl Treatment {
    /// The treatment that changes nothing.
    pub fn unbound() -> Self {
        Self::new(UNBOUND.into(), Vec::new())
    }

    /// A treatment with a placement, or none, for each thread count, in default conditions.
    pub fn new(place: String, placements: Vec<Option<Placement>>) -> Self {
        let conditions = Conditions::default();
        Self { name: place.clone(), place, placements, conditions, same_as: Vec::new() }
    }

    /// The same place in other conditions, named after both.
    #[must_use]
    pub fn in_conditions(&self, conditions: &Conditions) -> Self {
        let name = |place: &str| name_of(place, conditions);
        let same_as = |same: &SamePlacement| SamePlacement { threads: same.threads, treatment: name(&same.treatment) };
        Self {
            name: name(&self.place),
            conditions: conditions.clone(),
            same_as: self.same_as.iter().map(same_as).collect(),
            ..self.clone()
        }
    }

    /// Its placement at the thread count in `column` of the plan.
    pub fn placement(&self, column: usize) -> Option<&Placement> {
        self.placements.get(column)?.as_ref()
    }

    /// Whether `later` is the very same at the thread count in `column`: the same CPUs for each thread in the same conditions.
    pub(crate) fn is_run_as(&self, later: &Self, column: usize) -> bool {
        let placements = self.placement(column).zip(later.placement(column));
        self.conditions == later.conditions && placements.is_some_and(|(own, other)| own.same_slots(other))
    }

    /// The treatment that is run in its place with so many threads, where it is the very same.
    pub fn same_placement(&self, threads: Shape) -> Option<&str> {
        let same = self.same_as.iter().find(|same| same.threads == threads)?;
        Some(&same.treatment)
    }

    /// Whether it changes nothing: threads are bound nowhere, and nothing else is asked for.
    pub fn is_unbound(&self) -> bool {
        self.is_free() && self.conditions.is_default()
    }

    /// Whether threads are bound nowhere.
    pub fn is_free(&self) -> bool {
        self.placements.is_empty()
    }

    /// Where threads are put, in a word: `unbound`, a policy's name, a CPU list.
    pub fn place(&self) -> &str {
        if self.place.is_empty() { &self.name } else { &self.place }
    }

    /// Its level of a factor, in the words by which users ask for it.
    pub fn level(&self, factor: Factor) -> String {
        let Conditions { memory, huge_pages, scheduling, company } = &self.conditions;
        match factor {
            Factor::Place => self.place().to_owned(),
            Factor::Memory => memory.to_string(),
            Factor::HugePages => huge_pages.to_string(),
            Factor::Sched => scheduling.to_string(),
            Factor::Beside => company.as_ref().map_or(NO_COMPANY.into(), ToString::to_string),
        }
    }
}

/// What the treatments of a study differ in, which says what its answer is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Varied {
    /// Where threads are put, and nothing else.
    #[default]
    Places,
    /// Something else, too.
    Treatments,
    /// Nothing: commands are compared.
    Commands,
}

impl Varied {
    /// What `treatments` differ in.
    pub fn of(treatments: &[Treatment]) -> Self {
        let is_same = treatments.windows(2).all(|two| two[0].conditions == two[1].conditions);
        if is_same { Self::Places } else { Self::Treatments }
    }
}

/// How no company is called.
pub const NO_COMPANY: &str = "none";

/// What differs from a program that is just started, or [`UNBOUND`].
fn name_of(place: &str, conditions: &Conditions) -> String {
    let Conditions { memory, huge_pages, scheduling, company } = conditions;
    let plain = Conditions::default();
    let mut words: Vec<String> = Vec::new();
    let mut add = |differs: bool, word: String| words.extend(differs.then_some(word));
    add(place != UNBOUND, place.to_owned());
    add(*memory != plain.memory, format!("memory={memory}"));
    add(*huge_pages != plain.huge_pages, format!("huge-pages={huge_pages}"));
    add(*scheduling != plain.scheduling, format!("sched={}", one_word(&scheduling.to_string())));
    let company = company.as_ref().map(ToString::to_string);
    add(company.is_some(), format!("beside={}", one_word(&company.unwrap_or_default())));
    if words.is_empty() { UNBOUND.into() } else { words.join(" ") }
}

/// `text`, quoted where it would be several words, or none.
fn one_word(text: &str) -> Cow<'_, str> {
    let is_word = !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || "'\"\\".contains(c));
    if is_word { text.into() } else { shell_words::quote(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_what_differs_from_the_default_in_order() {
        let conditions = |words: [&str; 4]| Conditions {
            memory: words[0].parse().unwrap(),
            huge_pages: words[1].parse().unwrap(),
            scheduling: words[2].parse().unwrap(),
            company: (words[3] != NO_COMPANY).then(|| words[3].parse().unwrap()),
        };
        let named =
            |place: &str, words| Treatment::new(place.into(), Vec::new()).in_conditions(&conditions(words)).name;
        let plain = ["default", "default", "default", "none"];
        assert_eq!(named("unbound", plain), "unbound");
        assert_eq!(named("scatter", plain), "scatter");
        assert_eq!(named("scatter", ["default", "default", "batch", "none"]), "scatter sched=batch");
        assert_eq!(
            named("unbound", ["interleave:0-1", "never", "default", "none"]),
            "memory=interleave:0-1 huge-pages=never"
        );
        assert_eq!(
            named("0,1", ["local", "always", "batch", "a b"]),
            "0,1 memory=local huge-pages=always sched=batch beside='a b'"
        );
    }

    #[test]
    fn a_journal_of_before_conditions_holds_treatments_in_default_ones() {
        let old = r#"{"name":"scatter","placements":[null]}"#;
        let read: Treatment = serde_json::from_str(old).unwrap();
        assert_eq!((read.place(), read.conditions.is_default()), ("scatter", true));
        let new = serde_json::to_value(Treatment::unbound()).unwrap();
        let expected = serde_json::json!({
            "name": "unbound", "place": "unbound", "placements": [],
            "memory": "default", "huge_pages": "default", "sched": "default", "beside": null,
        });
        assert_eq!(new, expected);
    }
}
