//! Thread counts and placements as they are written: in lists, with commas or as words of their own.

use crate::plan::PlanError;
use std::collections::HashSet;

const MAX_THREADS: u32 = machine::MAX_THREADS as u32;

/// Thread counts from words such as `1`, `2-8`, `all`, which is the default, and `all*2`; each once, in the order given.
pub(crate) fn thread_counts(words: &[String], usable: u32) -> Result<Vec<u32>, PlanError> {
    if words.is_empty() {
        return Ok(vec![usable]);
    }
    let mut counts: Vec<u32> = Vec::new();
    let mut seen = HashSet::new();
    let mut given = 0;
    for word in words.iter().flat_map(|word| word.split(',')) {
        let (first, last) = range(word, usable).ok_or_else(|| not_a_count(word, &format!("all (here {usable})")))?;
        given += last - first + 1;
        if given > 2 * MAX_THREADS {
            return Err(PlanError(format!("`{}` makes too many thread counts; give fewer", word.trim())));
        }
        counts.extend((first..=last).filter(|n| seen.insert(*n)));
    }
    Ok(counts)
}

/// Whether `word` has only thread counts, wherever it is read.
pub(crate) fn check_thread_counts(word: &str) -> Result<(), PlanError> {
    match word.split(',').find(|word| range(word, MAX_THREADS).is_none()) {
        Some(wrong) => Err(not_a_count(wrong, "all")),
        None => Ok(()),
    }
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
    if word.parse::<machine::RankShape>().is_ok() {
        return PlanError(format!(
            "`{word}` is ranks x threads, and a study varies threads only; let it compare runs of ranks: stayput study --place unbound \
             --observe poll -L n {word} -- stayput run --quiet -n {{n}} --mpi openmpi -- ./app"
        ));
    }
    PlanError(format!("`{word}` is not a thread count; write 4, 1-8 or {all}, at most {MAX_THREADS}"))
}

/// Splits `unbound,compact,0,8,1,9` into `unbound`, `compact` and the CPU list `0,8,1,9`.
pub(crate) fn placement_names(words: &[String]) -> Vec<String> {
    let is_list = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    let mut names: Vec<String> = Vec::new();
    for word in words {
        let mut open_list = false;
        for part in word.split(',').map(str::trim) {
            match names.last_mut() {
                Some(list) if open_list && is_list(part) => {
                    list.push(',');
                    list.push_str(part);
                }
                _ => names.push(part.to_owned()),
            }
            open_list = is_list(part);
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
        let counts = |text: &str| thread_counts(&[text.to_owned()], 8);
        assert_eq!(counts("1,2-4,all,3").unwrap(), [1, 2, 3, 4, 8]);
        assert_eq!(counts("2-all").unwrap(), [2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(counts("all*2,all*1").unwrap(), [16, 8]);
        assert_eq!(thread_counts(&[], 8).unwrap(), [8]);
        for text in ["0", "", "4-2", "-1", "x", "1-", "99999999999", "all*", "all*0", "all2", "*2"] {
            assert!(counts(text).is_err(), "{text}");
        }
    }

    #[test]
    fn ranks_x_threads_are_told_how_they_can_be_compared() {
        let command = "-L n 2x1 -- stayput run --quiet -n {n} --mpi openmpi";
        let told = thread_counts(&["1,2x1".into()], 8).unwrap_err().0;
        assert!(told.starts_with("`2x1` is ranks x threads") && told.contains(command), "{told}");
        assert_eq!(check_thread_counts("1,2x1").unwrap_err().0, told);
        assert!(thread_counts(&["2x".into()], 8).unwrap_err().0.contains("is not a thread count"));
    }
}
