//! Words as people write them in a study file: one, or a list of them; numbers where numbers are meant.

use crate::metric::Metric;
use crate::site::Site;
use launch::mpi::Mpi;
use serde::de::{Deserialize, Deserializer, Error};

/// A word or a number.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Word {
    Number(u32),
    Text(String),
}

impl Word {
    fn text(self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text,
        }
    }
}

#[derive(serde::Deserialize)]
#[serde(
    untagged,
    expecting = "expected a thread count such as 4, \"1-8\" or \"all\", or a list of them such as [1, 2, \"4-8\"]"
)]
enum ThreadWords {
    One(Word),
    Several(Vec<Word>),
}

/// `4`, `"1-8"`, `[1, 2]`.
pub(super) fn threads<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(match ThreadWords::deserialize(deserializer)? {
        ThreadWords::One(word) => vec![word.text()],
        ThreadWords::Several(words) => words.into_iter().map(Word::text).collect(),
    })
}

#[derive(serde::Deserialize)]
#[serde(
    untagged,
    expecting = "expected a placement such as \"compact\" or \"0,2,4\", or a list of them such as [\"unbound\", \"0-3\"]"
)]
enum PlacementWords {
    One(Word),
    Several(Vec<Word>),
}

/// `"compact"`, `["unbound", "0-3"]`.
pub(super) fn placements<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(match PlacementWords::deserialize(deserializer)? {
        PlacementWords::One(word) => vec![word.text()],
        PlacementWords::Several(words) => words.into_iter().map(Word::text).collect(),
    })
}

#[derive(serde::Deserialize)]
#[serde(
    untagged,
    expecting = "expected a word such as \"default\", or a list of them such as [\"default\", \"batch\"]"
)]
enum LevelWords {
    One(String),
    Several(Vec<String>),
}

/// `"batch"`, `["default", "batch"]`.
pub(super) fn levels<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(match LevelWords::deserialize(deserializer)? {
        LevelWords::One(word) => vec![word],
        LevelWords::Several(words) => words,
    })
}

/// `["tps higher = \"tps = ([0-9.]+)\""]`.
pub(super) fn metrics<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Metric>, D::Error> {
    let words = levels(deserializer)?;
    words.iter().map(|word| word.parse().map_err(D::Error::custom)).collect()
}

/// `"openmpi"`.
pub(super) fn mpi<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Mpi>, D::Error> {
    String::deserialize(deserializer)?.parse().map(Some).map_err(D::Error::custom)
}

#[derive(serde::Deserialize)]
#[serde(untagged, expecting = "expected a command such as \"./app 1\" or [\"./app\", \"1\"]")]
enum CommandWords {
    Line(String),
    Words(Vec<Word>),
}

/// `"./app 1"`, `["./app", "1"]`.
pub(super) fn command<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    match CommandWords::deserialize(deserializer)? {
        CommandWords::Line(line) => split(&line).map(Some).map_err(D::Error::custom),
        CommandWords::Words(words) => Ok(Some(words.into_iter().map(Word::text).collect())),
    }
}

/// The words of a line, as a shell splits and unquotes them. What only a shell would heed is refused: it would reach the program as
/// a word like any other.
fn split(line: &str) -> Result<Vec<String>, String> {
    let words = shell_words::split(line).map_err(|_| "a quote is not closed".to_owned())?;
    match for_a_shell(line) {
        None => Ok(words),
        Some('<') => Err("no shell reads this; for `<`, write input = \"FILE\"".into()),
        Some(c) => Err(format!(
            "no shell reads this, and `{c}` would be part of a word; write [\"sh\", \"-c\", \"...\"] for one"
        )),
    }
}

/// The first character of `line` that means something to a shell.
fn for_a_shell(line: &str) -> Option<char> {
    let mut quote = None;
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        match (quote, c) {
            (None | Some('"'), '\\') => drop(characters.next()),
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            (None, '|' | '&' | ';' | '<' | '>' | '(' | ')' | '*' | '$' | '`') | (Some('"'), '$' | '`') => {
                return Some(c);
            }
            _ => {}
        }
    }
    None
}

/// `"vm:2x4"`.
pub(super) fn site<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Site>, D::Error> {
    String::deserialize(deserializer)?.parse().map(Some).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_split_as_a_shell_splits_it() {
        for (line, words) in [
            ("./x 1", &["./x", "1"][..]),
            ("  ./x   'two words' \"and $$more\" ", &[]),
            ("./x 'a|b' \"c;d\" e\\&f {threads}", &["./x", "a|b", "c;d", "e&f", "{threads}"]),
            ("", &[]),
        ] {
            match split(line) {
                Ok(found) => assert_eq!(found, words, "{line}"),
                Err(told) => assert!(words.is_empty() && told.contains("`$`"), "{line}: {told}"),
            }
        }
    }

    #[test]
    fn what_only_a_shell_would_heed_is_refused() {
        for line in
            ["./x | tee log", "./x > out", "a && b", "a; b", "./x $HOME", "./x \"$HOME\"", "./x `pwd`", "./x *.dat"]
        {
            let told = split(line).unwrap_err();
            assert!(told.contains("no shell reads this") && told.contains("sh"), "{line}: {told}");
        }
        assert!(split("./x < in.dat").unwrap_err().contains("input = \"FILE\""));
        assert!(split("./x 'open").unwrap_err().contains("not closed"));
    }
}
