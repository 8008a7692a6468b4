//! What is wrong with an hwloc synthetic string, and whether it is too much.
//!
//! A string is read here before hwloc sees it: hwloc says no more than that an argument is invalid, ends the process over too
//! many levels, and takes minutes and gigabytes for machines that nobody has. Only what these bounds let pass is handed over.
//!
//! ```text
//! (memory=1GB) pack:2 [numa(memory=8GB)] l3:2(size=16MB) core:4 pu:2(indexes=0,8,...)
//! ```

use crate::cpu::{MAX_CPU_ID, MAX_CPUS, quoted};

/// More levels are not believed; real machines have about ten.
const MAX_LEVELS: usize = 32;

/// With more objects directly inside one, hwloc's time grows with the square of their number.
const MAX_CHILDREN: u64 = 512;

/// Linux has no more (`CONFIG_NODES_SHIFT` is 10).
const MAX_NUMA_NODES: u64 = 1024;

/// Bytes of a string: what says where each of so many CPUs and nodes is has fewer.
const MAX_BYTES: usize = 128 << 10;

/// Loops of an interleaved numbering, as in `indexes=2*4:8*1`; hwloc compares each with each.
const MAX_LOOPS: usize = 32;

/// For each object hwloc hands over sets that are as long as the machine has CPUs.
const MAX_OBJECTS: u64 = 32_768;

/// A level: the word before its number, none for a bare number.
struct Level<'a> {
    word: Option<&'a str>,
}

/// Checks a synthetic string before hwloc reads it.
///
/// # Errors
/// What can't be read or is out of bounds, as the end of a sentence.
pub(crate) fn check(description: &str) -> Result<(), String> {
    levels(description).map(drop)
}

/// Why hwloc refused a string that [`check`] let pass, as the end of a sentence.
pub(crate) fn refusal(description: &str) -> String {
    let Ok(levels) = levels(description) else {
        return check(description).err().unwrap_or_default();
    };
    let mut seen: Vec<String> = Vec::new();
    for (place, level) in levels.iter().enumerate() {
        let Some(word) = level.word else { continue };
        match known(word) {
            None => {
                let word = quoted(word);
                return format!(
                    "`{word}` is no type of object; there are package, die, group, numa, l1 to l5, core and pu"
                );
            }
            Some("machine") => return "a machine can't be inside of itself; leave that level out".into(),
            Some("pu") if place + 1 < levels.len() => return "pu has to be the last level".into(),
            Some(kind) if kind != "group" && seen.iter().any(|other| other == kind) => {
                return format!("it has two levels of {kind}");
            }
            Some(kind) => seen.push(kind.into()),
        }
    }
    match levels.last().and_then(|level| level.word) {
        Some(word) if known(word) != Some("pu") => format!("its last level is `{}`, and has to be pu", quoted(word)),
        _ => "write levels from the outside in, each as type:count, the last one pu".into(),
    }
}

/// The levels from the outside in.
fn levels(description: &str) -> Result<Vec<Level<'_>>, String> {
    if description.len() > MAX_BYTES {
        return Err(format!("it has more than {MAX_BYTES} bytes"));
    }
    indexes(description)?;
    let mut rest = description.trim();
    let mut levels = Vec::new();
    let (mut width, mut objects, mut nodes) = (1_u64, 0_u64, 0_u64);
    if rest.starts_with('(') {
        rest = attributes(rest)?;
    }
    while !rest.is_empty() {
        if let Some(attached) = rest.strip_prefix('[') {
            let end = attached.find(']').ok_or("a `[` has no `]`")?;
            nodes += width;
            rest = attached[end + 1..].trim_start();
        } else {
            let (word, count, after) = level(rest)?;
            let name = word.unwrap_or("objects");
            if count > MAX_CHILDREN {
                let name = quoted(name);
                return Err(format!("{name}:{count} puts more than {MAX_CHILDREN} objects beside each other"));
            }
            width *= count;
            objects += width;
            if word.is_some_and(|word| known(word) == Some("numa")) {
                nodes += width;
            }
            // Its innermost level are the CPUs, so no level may be wider.
            if width > MAX_CPUS as u64 {
                return Err(format!("it describes more than {MAX_CPUS} CPUs, and no kernel knows more"));
            }
            levels.push(Level { word });
            rest = after;
        }
        if levels.len() > MAX_LEVELS {
            return Err(format!("it has more than {MAX_LEVELS} levels"));
        }
        if nodes > MAX_NUMA_NODES {
            return Err(format!("it describes more than {MAX_NUMA_NODES} NUMA nodes, and no kernel knows more"));
        }
        if objects + nodes > MAX_OBJECTS {
            return Err(format!(
                "it describes more than {MAX_OBJECTS} objects; leave out levels that are of no interest"
            ));
        }
    }
    if levels.is_empty() {
        return Err("it has no level; write levels from the outside in, as in pack:2 core:4 pu:2".into());
    }
    Ok(levels)
}

/// The level that `text` begins with: its word, its count, and what comes after it.
fn level(text: &str) -> Result<(Option<&str>, u64, &str), String> {
    let end = text.find(|c: char| c.is_ascii_whitespace() || "([".contains(c)).unwrap_or(text.len());
    let (written, after) = text.split_at(end);
    let (word, count) = match written.split_once(':') {
        Some((word, count)) => (Some(word), count),
        None if written.starts_with(|c: char| c.is_ascii_digit()) => (None, written),
        None => {
            let written = quoted(written);
            return Err(format!("`{written}` has no number; write {written}:2, say"));
        }
    };
    let parsed =
        number(count).ok_or_else(|| format!("`{}` in `{}` is no number of objects", quoted(count), quoted(written)))?;
    if parsed == 0 {
        return Err(format!("`{}` has no object", quoted(written)));
    }
    let after = if after.starts_with('(') { attributes(after)? } else { after };
    Ok((word, parsed, after.trim_start()))
}

/// What comes after the attributes in parentheses that `text` begins with.
fn attributes(text: &str) -> Result<&str, String> {
    let end = text.find(')').ok_or("a `(` has no `)`")?;
    Ok(text[end + 1..].trim_start())
}

/// Checks every list of numbers that objects are given, wherever in the string it stands and however often: hwloc makes sets as long
/// as the largest number.
fn indexes(description: &str) -> Result<(), String> {
    const KEY: &str = "indexes=";
    for (at, _) in description.match_indices(KEY) {
        let after = &description[at + KEY.len()..];
        let numbers = after.split([' ', ')', '(', '[', ']']).next().unwrap_or_default();
        // Numbers, or the words of levels.
        for word in numbers.split([',', '*', ':']).filter(|word| word.starts_with(|c: char| !c.is_ascii_alphabetic())) {
            if number(word).is_none_or(|number| number > u64::from(MAX_CPU_ID)) {
                return Err(format!("`{}` in `indexes=` is no number up to {MAX_CPU_ID}", quoted(word)));
            }
        }
        if numbers.split(':').count() > MAX_LOOPS {
            return Err(format!("`indexes=` has more than {MAX_LOOPS} loops"));
        }
    }
    Ok(())
}

/// A number as C writes it, which hwloc takes: decimal, hexadecimal after `0x`, octal after `0`.
fn number(text: &str) -> Option<u64> {
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => digits.bytes().all(|c| c.is_ascii_hexdigit()).then(|| u64::from_str_radix(digits, 16).ok())?,
        None if text.len() > 1 && text.starts_with('0') => u64::from_str_radix(text, 8).ok(),
        None => text.parse().ok(),
    }
}

/// What a level's word means to hwloc, in any case and as short as it may be; none for a word that it doesn't know.
fn known(word: &str) -> Option<&'static str> {
    let word = word.to_ascii_lowercase();
    let begins = |long: &str, least: usize| word.len() >= least && long.starts_with(&word);
    match word.as_bytes() {
        [b'l', b'1'..=b'5', rest @ ..] => {
            let names: &[[&'static str; 2]] =
                &[["l1", "l1i"], ["l2", "l2i"], ["l3", "l3i"], ["l4", "l4i"], ["l5", "l5i"]];
            Some(names[usize::from(word.as_bytes()[1] - b'1')][usize::from(rest.first() == Some(&b'i'))])
        }
        _ if begins("package", 4) || begins("socket", 4) => Some("package"),
        _ if begins("numanode", 4) || begins("node", 4) => Some("numa"),
        _ if begins("die", 3) => Some("die"),
        _ if begins("core", 4) => Some("core"),
        _ if begins("pu", 2) => Some("pu"),
        _ if begins("machine", 4) => Some("machine"),
        _ if word.starts_with("group") || begins("module", 6) || begins("tile", 4) => Some("group"),
        _ => None,
    }
}
