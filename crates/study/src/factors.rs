//! Which treatments are asked for: levels of each factor, every combination of which is one, and single combinations by name.

use crate::list;
use crate::plan::PlanError;
use crate::shape::Shape;
use crate::treatment::{Factor, NO_COMPANY, Treatment, UNBOUND};
use launch::{Company, Conditions, HugePages, MemoryPolicy, Scheduling};
use machine::{Machine, Placement, Policy, RankError, RankPolicy};
use std::fmt::Display;
use std::str::FromStr;
use strum::IntoEnumIterator;

/// Levels of factors besides places, as they are written, and named treatments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Levels {
    /// Memory policies.
    pub memory: Vec<String>,
    /// Uses of huge pages.
    pub huge_pages: Vec<String>,
    /// Ways of scheduling.
    pub sched: Vec<String>,
    /// Company: commands, and `none`.
    pub beside: Vec<String>,
    /// `NAME: place=scatter memory=interleave`.
    pub treatments: Vec<String>,
}

/// A single combination of levels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedTreatment {
    name: String,
    place: String,
    conditions: Conditions,
}

/// What is asked for besides places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Factors {
    /// Every combination of the levels, the first of each first.
    pub(crate) conditions: Vec<Conditions>,
    pub(crate) named: Vec<NamedTreatment>,
}

impl Levels {
    /// Whether nothing is varied but places.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What these words mean.
    ///
    /// # Errors
    /// The first that is wrong.
    pub(crate) fn factors(&self) -> Result<Factors, PlanError> {
        let memory: Vec<MemoryPolicy> = levels(Factor::Memory, &self.memory)?;
        let huge_pages: Vec<HugePages> = levels(Factor::HugePages, &self.huge_pages)?;
        let schedulings: Vec<Scheduling> = levels(Factor::Sched, &self.sched)?;
        let companies = company_levels(&self.beside)?;
        let mut conditions = Vec::new();
        for memory in &memory {
            for &huge_pages in &huge_pages {
                for scheduling in &schedulings {
                    for company in &companies {
                        let (memory, scheduling, company) = (memory.clone(), scheduling.clone(), company.clone());
                        conditions.push(Conditions { memory, huge_pages, scheduling, company });
                    }
                }
            }
        }
        let named = self.treatments.iter().map(|text| text.parse()).collect::<Result<_, PlanError>>()?;
        Ok(Factors { conditions, named })
    }
}

fn wrong(factor: Factor, what: impl Display) -> PlanError {
    PlanError(format!("{factor}: {what}"))
}

/// The levels that `words` list, each once; the default where there is none.
fn levels<T: FromStr<Err = String> + Default + PartialEq>(
    factor: Factor,
    words: &[String],
) -> Result<Vec<T>, PlanError> {
    let mut levels: Vec<T> = Vec::new();
    for text in list::levels(words, factor == Factor::Memory) {
        let level = text.parse().map_err(|what| wrong(factor, what))?;
        if !levels.contains(&level) {
            levels.push(level);
        }
    }
    if levels.is_empty() {
        levels.push(T::default());
    }
    Ok(levels)
}

fn company_levels(words: &[String]) -> Result<Vec<Option<Company>>, PlanError> {
    let mut levels = Vec::new();
    for text in list::levels(words, false) {
        let level = company(&text)?;
        if !levels.contains(&level) {
            levels.push(level);
        }
    }
    if levels.is_empty() {
        levels.push(None);
    }
    Ok(levels)
}

fn company(text: &str) -> Result<Option<Company>, PlanError> {
    if text == NO_COMPANY {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|what| wrong(Factor::Beside, what))
}

impl FromStr for NamedTreatment {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        let quoted = machine::quoted(text);
        let how = "write it as in 'bound: place=scatter memory=interleave sched=batch'";
        let (name, words) = text
            .split_once(':')
            .filter(|(name, _)| !name.trim().is_empty() && !name.contains('='))
            .ok_or_else(|| PlanError(format!("treatment `{quoted}` has no name; {how}")))?;
        let words = shell_words::split(words)
            .map_err(|_| PlanError(format!("treatment `{quoted}` has a quote that isn't closed; {how}")))?;
        let mut named =
            Self { name: name.trim().to_owned(), place: UNBOUND.to_owned(), conditions: Conditions::default() };
        let mut given: Vec<Factor> = Vec::new();
        for word in words {
            let (key, level) = word.split_once('=').unwrap_or((&word, ""));
            let factor = Factor::named(key).ok_or_else(|| {
                let known: Vec<String> = Factor::iter().map(|factor| factor.to_string()).collect();
                let known = known.join(", ");
                PlanError(format!("treatment `{}`: `{}` is none of {known}; {how}", named.name, machine::quoted(key)))
            })?;
            let wrong_here = |what: String| PlanError(format!("treatment `{}`: {what}", named.name));
            if level.is_empty() {
                return Err(wrong_here(format!("`{key}` has no value; {how}")));
            }
            if given.contains(&factor) {
                return Err(wrong_here(format!("`{key}` is given twice; give it once")));
            }
            given.push(factor);
            match factor {
                Factor::Place => named.place = level.to_owned(),
                Factor::Memory => named.conditions.memory = level.parse().map_err(wrong_here)?,
                Factor::HugePages => named.conditions.huge_pages = level.parse().map_err(wrong_here)?,
                Factor::Sched => named.conditions.scheduling = level.parse().map_err(wrong_here)?,
                Factor::Beside => named.conditions.company = company(level).map_err(|error| wrong_here(error.0))?,
            }
        }
        Ok(named)
    }
}

impl NamedTreatment {
    /// The treatment on `machine`, with a placement for each of `threads`.
    ///
    /// # Errors
    /// When its place is none, or not on this machine.
    pub(crate) fn treatment(&self, threads: &[Shape], machine: &Machine) -> Result<Treatment, RankError> {
        let treatment = placed(&self.place, threads, machine)?;
        Ok(Treatment { name: self.name.clone(), conditions: self.conditions.clone(), ..treatment })
    }
}

/// The treatment of a place in default conditions, with a placement for each of `threads`; that of ranks has the threads of all of
/// them in a row.
///
/// # Errors
/// When it is no place, or not on this machine.
pub(crate) fn placed(place: &str, threads: &[Shape], machine: &Machine) -> Result<Treatment, RankError> {
    if place == UNBOUND {
        return Ok(Treatment::unbound());
    }
    let place_all = |&shape: &Shape| placed_at(place, shape, machine).map(Some);
    let placements = threads.iter().map(place_all).collect::<Result<Vec<_>, RankError>>()?;
    Ok(Treatment::new(place.to_owned(), placements))
}

/// The placement of a place at one shape.
///
/// # Errors
/// As for [`placed`].
pub(crate) fn placed_at(place: &str, shape: Shape, machine: &Machine) -> Result<Placement, RankError> {
    Ok(match shape.rank_shape() {
        None => place.parse::<Policy>()?.place(machine, shape.total() as usize)?,
        Some(ranks) => place.parse::<RankPolicy>()?.place(machine, ranks)?.row(),
    })
}

impl Factors {
    /// Each of `places` in every combination of conditions, and then the named treatments.
    ///
    /// # Errors
    /// As for [`NamedTreatment::treatment`].
    pub(crate) fn treatments(
        &self,
        places: &[Treatment],
        threads: &[Shape],
        machine: &Machine,
    ) -> Result<Vec<Treatment>, RankError> {
        let combined =
            places.iter().flat_map(|place| self.conditions.iter().map(|conditions| place.in_conditions(conditions)));
        let mut treatments: Vec<Treatment> = combined.collect();
        for named in &self.named {
            treatments.push(named.treatment(threads, machine)?);
        }
        Ok(treatments)
    }

    /// Whether conditions vary, so that a study needs no other places than the one that binds nothing.
    pub(crate) fn vary(&self) -> bool {
        self.conditions.len() > 1 || self.conditions.iter().any(|conditions| !conditions.is_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    fn names(levels: &Levels, places: &[&str]) -> Vec<String> {
        let machine = Machine::named("pack:1 core:4 pu:1").unwrap();
        let places: Vec<Treatment> = places.iter().map(|place| placed(place, &[2.into()], &machine).unwrap()).collect();
        let treatments = levels.factors().unwrap().treatments(&places, &[2.into()], &machine).unwrap();
        treatments.into_iter().map(|treatment| treatment.name).collect()
    }

    #[test]
    fn lists_multiply_in_the_order_of_factors_and_the_first_of_each_comes_first() {
        let levels = Levels {
            memory: words(&["default,interleave:0,1"]),
            sched: words(&["default,batch", "default"]),
            ..Levels::default()
        };
        let all = [
            "unbound",
            "sched=batch",
            "memory=interleave:0-1",
            "memory=interleave:0-1 sched=batch",
            "scatter",
            "scatter sched=batch",
            "scatter memory=interleave:0-1",
            "scatter memory=interleave:0-1 sched=batch",
        ];
        assert_eq!(names(&levels, &["unbound", "scatter"]), all);
        assert_eq!(names(&Levels::default(), &["unbound", "scatter"]), ["unbound", "scatter"]);
    }

    #[test]
    fn named_treatments_come_after_the_combinations() {
        let levels = Levels { treatments: words(&["two: place=0,1 sched=idle", "plain:"]), ..Levels::default() };
        assert_eq!(names(&levels, &["unbound"]), ["unbound", "two", "plain"]);
        let machine = Machine::named("pack:1 core:4 pu:1").unwrap();
        let two = levels.factors().unwrap().named[0].treatment(&[2.into()], &machine).unwrap();
        assert_eq!((two.place(), two.level(Factor::Sched).as_str(), two.placements.len()), ("0,1", "idle", 1));
        let beside = Levels { treatments: words(&["noisy: beside='sleep 9' huge-pages=never"]), ..Levels::default() };
        let noisy = beside.factors().unwrap().named[0].treatment(&[2.into()], &machine).unwrap();
        assert_eq!(
            (noisy.level(Factor::Beside).as_str(), noisy.level(Factor::HugePages).as_str()),
            ("sleep 9", "never")
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_what_is_allowed() {
        let with = |text: &str| {
            let levels = Levels { treatments: words(&[text]), ..Levels::default() };
            levels.factors().unwrap_err().0
        };
        for (text, part) in [
            ("place=scatter", "has no name"),
            (": place=scatter", "has no name"),
            ("a: scatter", "`scatter` is none of place, memory, huge-pages, sched, beside"),
            ("a: place=", "`place` has no value"),
            ("a: sched=batch sched=idle", "`sched` is given twice"),
            ("a: memory=bind", "`bind` needs NUMA nodes"),
            ("a: beside='x", "a quote that isn't closed"),
            ("a: huge-pages=2M", "these are default, always and never"),
        ] {
            assert!(with(text).contains(part), "{text}: {}", with(text));
        }
        let memory = Levels { memory: words(&["default,remote"]), ..Levels::default() };
        assert!(memory.factors().unwrap_err().0.starts_with("memory: `remote` is no memory policy"));
    }
}
