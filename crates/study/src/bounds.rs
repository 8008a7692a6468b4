//! How large a plan may be. Plans come from files that somebody wrote, and from journals: what is looked at for each cell, or compiled,
//! has to end.

use crate::plan::{Plan, PlanError};
use regex::{Regex, RegexBuilder};
use std::collections::HashSet;

/// Subjects of a plan.
pub(crate) const MOST_SUBJECTS: usize = 1000;

/// Jobs of a mix.
pub(crate) const MOST_JOBS: usize = 100;

/// Thread counts of a plan: no kernel knows more CPUs.
const MOST_THREAD_COUNTS: usize = machine::cpu::MAX_CPUS;

/// Treatments of a plan: a race has 10,000 of one thread count at most.
const MOST_TREATMENTS: usize = 30_000;

/// Cells of a plan, those without a placement among them.
const MOST_CELLS: usize = 100_000;

/// What the names of all cells take together, in bytes: each cell's summary has its own.
const MOST_NAME_BYTES: usize = 64 << 20;

/// Length of a regular expression, in bytes.
const MOST_PATTERN_BYTES: usize = 4096;

/// What a compiled regular expression takes, in bytes.
const MOST_REGEX_BYTES: usize = 1 << 20;

/// Different regular expressions of a plan.
const MOST_PATTERNS: usize = 200;

/// Whether there are not too many of something.
///
/// # Errors
/// A sentence with both numbers.
pub fn check_count(count: usize, most: usize, what: &str) -> Result<(), PlanError> {
    if count <= most { Ok(()) } else { Err(PlanError(format!("{count} {what} are too many; {most} are the most"))) }
}

impl Plan {
    /// Whether it is small enough to be worked with.
    ///
    /// # Errors
    /// What there is too much of.
    pub(crate) fn check_size(&self) -> Result<(), PlanError> {
        let (subjects, threads, treatments) = (self.subjects.len(), self.threads.len(), self.treatments.len());
        check_count(subjects, MOST_SUBJECTS, "subjects")?;
        check_count(threads, MOST_THREAD_COUNTS, "thread counts")?;
        check_count(treatments, MOST_TREATMENTS, "placements")?;
        check_count(subjects * threads * treatments, MOST_CELLS, "cells (subjects x thread counts x placements)")?;
        let of_subjects: usize = self.subjects.iter().map(|subject| subject.name.len()).sum();
        let of_treatments: usize = self.treatments.iter().map(|treatment| treatment.name.len()).sum();
        let names = threads.saturating_mul(
            of_subjects.saturating_mul(treatments).saturating_add(of_treatments.saturating_mul(subjects)),
        );
        check_count(names, MOST_NAME_BYTES, "bytes of names in all cells")?;
        if let Some(count) = self.threads.iter().find(|shape| !shape.is_in_bounds()) {
            return Err(PlanError(format!("{count} is no thread count; it is 1 to {}", machine::MAX_THREADS)));
        }
        let patterns = self.subjects.iter().flat_map(|subject| {
            let of_metrics = subject.metrics.iter().map(|metric| &metric.regex);
            [&subject.time_regex, &subject.verified_regex].into_iter().chain(of_metrics)
        });
        check_patterns(patterns)
    }
}

/// Whether there are not too many regular expressions to compile.
pub(crate) fn check_patterns<'a>(patterns: impl Iterator<Item = &'a Option<String>>) -> Result<(), PlanError> {
    let different: HashSet<&String> = patterns.flatten().collect();
    check_count(different.len(), MOST_PATTERNS, "different regular expressions")
}

/// `pattern` compiled, if it is a regular expression of a size that is worked with.
///
/// # Errors
/// Why it is none, in a sentence.
pub(crate) fn compiled(pattern: &str) -> Result<Regex, PlanError> {
    if pattern.len() > MOST_PATTERN_BYTES {
        let begin: String = pattern.chars().take(40).collect();
        return Err(PlanError(format!(
            "the regular expression `{begin}...` has {} bytes; {MOST_PATTERN_BYTES} are the most",
            pattern.len()
        )));
    }
    RegexBuilder::new(pattern).size_limit(MOST_REGEX_BYTES).build().map_err(|error| {
        let reason = error.to_string();
        let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
        PlanError(format!("`{pattern}` is no regular expression: {reason}"))
    })
}

/// The first name that comes twice.
pub(crate) fn repeated<'a>(names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = HashSet::new();
    names.into_iter().find(|name| !seen.insert(*name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_bounded_before_it_is_compiled_and_by_what_it_becomes() {
        assert!(compiled(&format!("({})", "a".repeat(1_000_000))).unwrap_err().0.contains("has 1000002 bytes"));
        assert!(compiled("((a{1000}){1000}){1000}").unwrap_err().0.contains("size limit"));
        assert!(compiled(&format!("({})", r"\w".repeat(2000))).is_err());
        assert!(compiled(r"time:\s*([0-9.]+(?:[eE][-+]?\d+)?)\s*(?:s|seconds)\b").is_ok());
    }

    #[test]
    fn the_first_name_that_comes_twice_is_found() {
        assert_eq!(repeated(["a", "b", "b", "a"].into_iter()), Some("b"));
        assert_eq!(repeated(["a", "b"].into_iter()), None);
    }
}
