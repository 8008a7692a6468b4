//! Thread counts and placements as they are written: in lists, with commas or as words of their own.

use crate::plan::PlanError;
use crate::shape::Shape;
use machine::{RankError, RankShape};
use std::collections::HashSet;

const MAX_THREADS: u32 = machine::MAX_THREADS as u32;

/// Thread counts from words such as `1`, `2-8`, `all`, which is the default, and `all*2`, and ranks x threads such as `2x4`; each once, in
/// the order given.
pub(crate) fn shapes(words: &[String], usable: u32) -> Result<Vec<Shape>, PlanError> {
    if words.is_empty() {
        return Ok(vec![usable.into()]);
    }
    let mut shapes: Vec<Shape> = Vec::new();
    let mut seen = HashSet::new();
    let mut given = 0;
    for word in words.iter().flat_map(|word| word.split(',')) {
        if let Some(ranks) = ranks_x_threads(word)? {
            shapes.extend(Some(ranks.into()).filter(|shape| seen.insert(*shape)));
            continue;
        }
        let (first, last) = range(word, usable).ok_or_else(|| not_a_count(word, &format!("all (here {usable})")))?;
        given += last - first + 1;
        if given > 2 * MAX_THREADS {
            return Err(PlanError(format!("`{}` makes too many thread counts; give fewer", word.trim())));
        }
        shapes.extend((first..=last).map(Shape::from).filter(|shape| seen.insert(*shape)));
    }
    Ok(shapes)
}

/// The ranks x threads that `word` stands for; none where it is meant for a thread count.
///
/// # Errors
/// When it is meant for ranks, and isn't right.
fn ranks_x_threads(word: &str) -> Result<Option<RankShape>, PlanError> {
    let has_ranks = |word: &&str| word.contains('x') && word.starts_with(|c: char| c.is_ascii_digit());
    Some(word.trim())
        .filter(has_ranks)
        .map(str::parse)
        .transpose()
        .map_err(|error: RankError| PlanError(error.to_string()))
}

/// Whether `word` has only thread counts and ranks x threads, wherever it is read.
pub(crate) fn check_shapes(word: &str) -> Result<(), PlanError> {
    for word in word.split(',') {
        if ranks_x_threads(word)?.is_none() && range(word, MAX_THREADS).is_none() {
            return Err(not_a_count(word, "all"));
        }
    }
    Ok(())
}

/// The first and the last of the thread counts that `word` stands for.
fn range(word: &str, usable: u32) -> Option<(u32, u32)> {
    let is_count = |n: &u32| (1..=MAX_THREADS).contains(n);
    let digits = |text: &str| text.parse::<u32>().ok().filter(is_count);
    let number = |text: &str| match text.strip_prefix("all") {
        Some("") => Some(usable),
        // Where it is only checked, so many CPUs are taken for all that no multiple of them is a count.
        Some(times) => digits(times.strip_prefix('*')?).map(|times| usable.saturating_mul(times).min(MAX_THREADS)),
        None => digits(text),
    };
    let word = word.trim();
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    Some((number(first)?, number(last)?)).filter(|(first, last)| first <= last)
}

fn not_a_count(word: &str, all: &str) -> PlanError {
    let word: String = word.trim().chars().take(80).collect();
    PlanError(format!("`{word}` is not a thread count; write 4, 1-8 or {all}, at most {MAX_THREADS}"))
}

/// Splits `unbound,compact,0,8,1,9` into `unbound`, `compact` and the CPU list `0,8,1,9`. Rules for ranks and lists of their CPUs keep
/// their commas, too: `ranks=scatter:numa,threads=compact`, `0,1/2,3`.
pub(crate) fn placement_names(words: &[String]) -> Vec<String> {
    let is_list = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    let mut names: Vec<String> = Vec::new();
    for word in words {
        let (mut open_list, mut goes_on) = (false, "");
        for part in word.split(',').map(str::trim) {
            match names.last_mut() {
                // The other half of a rule for ranks: `ranks=scatter:numa,threads=compact`.
                Some(rule) if !goes_on.is_empty() && part.starts_with(goes_on) => {
                    rule.push(',');
                    rule.push_str(part);
                    goes_on = "";
                    continue;
                }
                Some(list) if open_list && is_list(part) => {
                    list.push(',');
                    list.push_str(part);
                }
                _ => names.push(part.to_owned()),
            }
            open_list = is_list(part);
            goes_on = match part.split_once('=') {
                Some(("ranks", _)) => "threads=",
                Some(("threads", _)) => "ranks=",
                _ => "",
            };
        }
    }
    names
}

/// The levels of a factor from `words`, each of which lists some with commas; `\\,` is a comma of a level's own. Where levels
/// `end_in_numbers`, as in `bind:0,2`, a number goes on with the level before it.
pub(crate) fn levels(words: &[String], end_in_numbers: bool) -> Vec<String> {
    let mut levels: Vec<String> = Vec::new();
    for word in words {
        let mut goes_on = false;
        for part in word.split(',') {
            let is_number = end_in_numbers && part.trim_start().starts_with(|c: char| c.is_ascii_digit());
            match levels.last_mut().filter(|_| goes_on) {
                Some(level) if level.ends_with('\\') => {
                    level.pop();
                    level.push(',');
                    level.push_str(part);
                }
                Some(level) if is_number => {
                    level.push(',');
                    level.push_str(part.trim());
                }
                _ => levels.push(part.trim_start().to_owned()),
            }
            goes_on = true;
        }
    }
    levels.iter().map(|level| level.trim_end().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_list_keeps_its_commas_among_placements() {
        let names = |text: &str| placement_names(&[text.to_owned()]);
        assert_eq!(names("unbound,compact,0,8,1,9"), ["unbound", "compact", "0,8,1,9"]);
        assert_eq!(names("0-3,scatter,4-7"), ["0-3", "scatter", "4-7"]);
        assert_eq!(placement_names(&["0,1".into(), "2,3".into()]), ["0,1", "2,3"]);
    }

    #[test]
    fn levels_keep_commas_of_their_own() {
        let of =
            |words: &[&str], numbers| levels(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>(), numbers);
        assert_eq!(of(&["default,bind:0,2-3,local"], true), ["default", "bind:0,2-3", "local"]);
        assert_eq!(of(&["none,stress --list a\\,b", "x"], false), ["none", "stress --list a,b", "x"]);
        assert_eq!(of(&["bind:0", "1"], true), ["bind:0", "1"]);
        assert_eq!(of(&["default, batch"], false), ["default", "batch"]);
    }

    #[test]
    fn thread_counts_are_numbers_ranges_and_all() {
        let counts = |text: &str| shapes(&[text.to_owned()], 8);
        assert_eq!(counts("1,2-4,all,3").unwrap(), [1, 2, 3, 4, 8]);
        assert_eq!(counts("2-all").unwrap(), [2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(counts("all*2,all*1").unwrap(), [16, 8]);
        assert_eq!(shapes(&[], 8).unwrap(), [8]);
        for text in ["0", "", "4-2", "-1", "x", "1-", "99999999999", "all*", "all*0", "all2", "*2"] {
            assert!(counts(text).is_err(), "{text}");
        }
    }

    #[test]
    fn ranks_x_threads_are_shapes_beside_thread_counts() {
        let of = |text: &str| shapes(&[text.to_owned()], 8);
        let text = |text: &str| of(text).unwrap().iter().map(Shape::to_string).collect::<Vec<_>>();
        assert_eq!(text("1x8, 2x4,8,4x2,2x4"), ["1x8", "2x4", "8", "4x2"]);
        for wrong in ["0x2", "2x", "2x0", "2x2x2", "x2", "9999999x9999999"] {
            assert!(of(wrong).is_err() && check_shapes(wrong).is_err(), "{wrong}");
        }
        assert!(check_shapes("1x8,all,2-3,4x2").is_ok());
    }

    #[test]
    fn rules_for_ranks_keep_their_commas() {
        let names = |text: &str| placement_names(&[text.to_owned()]);
        assert_eq!(
            names("unbound,ranks=scatter:numa,threads=compact,compact,0,1/2,3"),
            ["unbound", "ranks=scatter:numa,threads=compact", "compact", "0,1/2,3"]
        );
        assert_eq!(
            names("threads=scatter,ranks=compact:l3,ranks=balanced:numa"),
            ["threads=scatter,ranks=compact:l3", "ranks=balanced:numa"]
        );
        assert_eq!(
            names("ranks=scatter:l3,ranks=scatter:numa,threads=compact"),
            ["ranks=scatter:l3", "ranks=scatter:numa,threads=compact"]
        );
    }
}
