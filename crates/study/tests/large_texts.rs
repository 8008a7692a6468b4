//! Texts of a megabyte that are made to take long: each has an answer, and soon.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "../../machine/tests/answers/mod.rs"]
mod answers;

use answers::{check, filled, numbered};
use study::model_file::ModelFile;
use study::study_file::StudyFile;

fn study_file(text: &str) -> Result<(), String> {
    StudyFile::parse(text, &[]).map(drop).map_err(|(line, what)| format!("{line}: {what}"))
}

fn model_file(text: &str) -> Result<(), String> {
    ModelFile::parse(text).map(drop).map_err(|(line, what)| format!("{line}: {what}"))
}

/// Texts that no TOML file should be long for.
fn toml() -> Vec<(&'static str, String, Option<&'static str>)> {
    vec![
        ("nested lists", format!("x = {}", filled("[").split_at(1_000_000).0), Some("recur")),
        ("nested tables", format!("x = {}", filled("{a=").split_at(999_999).0), Some("recur")),
        ("dotted keys", format!("{}b = 1", filled("a.").split_at(1_000_000).0), Some("recur")),
        ("a dotted table", format!("[{}b]", filled("a.").split_at(1_000_000).0), Some("recur")),
        ("unknown keys", numbered(0, |n| format!("k{n} = 1\n")), Some("unknown field")),
        ("unknown tables", numbered(0, |n| format!("[t{n}]\n")), Some("unknown field")),
        ("the same key", filled("seed = 1\n"), Some("duplicate key")),
        ("quotes", filled("\""), Some("1: ")),
        ("lines", filled("\n").split_off(1) + "x", Some("1048576: ")),
    ]
}

#[test]
fn study_files() {
    let subject = "[[subject]]\ncommand = \"x\"\n";
    let mut cases = toml();
    cases.extend([
        (
            "placements",
            format!("placements = [{}]", filled("\"0-65535\",").split_at(1_000_000).0.to_owned() + "\"0\""),
            Some("are too many"),
        ),
        (
            "placements in one word",
            format!("placements = \"{}0\"", "unbound,0-65535,".repeat(60_000)),
            Some("1000 are the most"),
        ),
        ("a long placement", format!("placements = \"{}\"", "0,".repeat(500_000) + "0"), Some("65536 entries at most")),
        ("thread counts", format!("threads = \"{}1\"", "1-65536,".repeat(130_000)), None),
        (
            "no thread count",
            format!("threads = \"{}\"", filled("x").split_at(1_000_000).0),
            Some("is not a thread count"),
        ),
        ("subjects", filled(subject), Some("subjects are too many; 1000 are the most")),
        (
            "regular expressions",
            numbered(0, |n| format!("{subject}verified-regex = '{n}'\n"))
                .split_at(40_000)
                .0
                .rsplit_once("[[")
                .unwrap()
                .0
                .into(),
            Some("different regular expressions are too many; 200 are the most"),
        ),
        (
            "the same regular expression",
            format!("{subject}time-regex = '(\\w{{9}}{})'\n", "[a-z0-9]{9}".repeat(80)).repeat(900),
            None,
        ),
        (
            "a long regular expression",
            format!("{subject}time-regex = '({})'\n", filled("\\w").split_at(1_000_000).0),
            Some("4096 are the most"),
        ),
        ("a command", format!("[[subject]]\ncommand = \"{}\"\n", "a ".repeat(500_000)), None),
        ("a duration", format!("timeout = \"{}\"\n", "9".repeat(1_000)), Some("is not a duration")),
        ("skipped", format!("{subject}skip = [{}1]", "1,".repeat(500_000)), None),
    ]);
    check(cases, study_file);
}

#[test]
fn model_files() {
    let time = "[[time]]\nplacement = \"0-65535\"\nmean_s = 1.0\n";
    let mut cases = toml();
    cases.extend([
        (
            "times",
            format!("name = \"m\"\n{}", time.repeat(20_000)),
            Some("[[time]] tables are too many; 1000 are the most"),
        ),
        ("a thousand times", format!("name = \"m\"\n{}", time.repeat(1000)), None),
    ]);
    check(cases, model_file);
}
