//! The name of a journal that nobody named: that of the command and its arguments, so that other arguments are another file, and
//! the same command finds its own again.
//!
//! `./triad -n 1000` has `triad-n-1000.stayput`. Names leave out what tells few commands apart (folders, quotes, what comes after
//! the first 60 characters). So before a name is used, the journal of that name is looked into: where it is of another command, or a
//! race and not a comparison, a hash of the command is appended. Most names have none, and can be guessed and typed.

use crate::engine::CellStudy;
use crate::journal::{Journal, JournalError};
use crate::kind::Kind;
use crate::plan::{Plan, Subject};
use crate::race::Race;
use crate::row::to_json;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Longest name, without what is appended to it.
const LONGEST: usize = 60;

/// What a journal of some name holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    /// There is none, or nothing in it.
    Nothing,
    /// The study of the same subjects. One that can't be read counts as it, so that the reason is told.
    Ours,
    /// Another study.
    Another,
}

/// Where the journal of `study` is, or is to be, in the current folder, when nobody named one; `file` is the study file that it came
/// of, whose name the journal has then.
pub fn default_path<S: CellStudy>(study: &S, file: Option<&Path>) -> PathBuf {
    default_path_in(Path::new(""), study, file)
}

fn default_path_in<S: CellStudy>(folder: &Path, study: &S, file: Option<&Path>) -> PathBuf {
    let plan = study.plan();
    let path = |stem: &str| folder.join(format!("{stem}.stayput"));
    if let Some(paper) = &plan.paper {
        return path(&safe(paper));
    }
    let holds = |path: &Path| match Journal::<S>::read(path) {
        Ok(record) if has_same_subjects(record.plan.plan(), plan) => Holds::Ours,
        Ok(_) | Err(JournalError::OtherKind { .. }) => Holds::Another,
        Err(JournalError::Empty(_)) => Holds::Nothing,
        Err(JournalError::Open { .. }) if !path.exists() => Holds::Nothing,
        Err(_) => Holds::Ours,
    };
    // The name that earlier versions gave: that of the first subject's program alone.
    let earlier = path(&earlier_stem(plan));
    let is_gone_on_with = |path: &Path| path.exists() && holds(path) == Holds::Ours;
    let suffix = if S::NAME == Race::NAME { "-best" } else { "" };
    if let Some(stem) = file.and_then(Path::file_stem) {
        // Whoever changes the file means the same study, and is told what differs.
        let named = path(&format!("{}{suffix}", safe(&stem.to_string_lossy())));
        return if !named.exists() && is_gone_on_with(&earlier) { earlier } else { named };
    }
    let stem = plan.compared().map(stem).collect::<Vec<_>>().join("+");
    let stem = format!("{}{suffix}", shortened(&stem));
    let plain = path(&stem);
    let hashed = path(&format!("{stem}-{}", hash(S::NAME, plan)));
    let in_plain = holds(&plain);
    if in_plain == Holds::Ours {
        return plain;
    }
    if let Some(found) = [&hashed, &earlier].into_iter().find(|path| is_gone_on_with(path)) {
        return found.clone();
    }
    if in_plain == Holds::Nothing { plain } else { hashed }
}

/// Whether the subjects of two studies, the first from a journal, are the same: what is run with which arguments and input. A
/// built-in program or a model is its name, wherever it is installed; journals used not to keep that a program is built in.
fn has_same_subjects(have: &Plan, asked: &Plan) -> bool {
    let is_same = |(have, asked): (&Subject, &Subject)| {
        let is_named = !asked.is_command() && asked.mix.is_none();
        if is_named { have.name == asked.name } else { words(have) == words(asked) }
    };
    have.subjects.len() == asked.subjects.len() && have.subjects.iter().zip(&asked.subjects).all(is_same)
}

/// What makes a subject the one that it is: its command, its input, and how its threads are bound.
fn words(subject: &Subject) -> Vec<String> {
    let mut words = if subject.is_command() { subject.argv.clone() } else { vec![subject.name.clone()] };
    words.extend(subject.mix.iter().map(|mix| to_json(&mix.jobs)));
    words.extend(subject.input.iter().map(|input| input.sha256.clone()));
    words.extend(subject.running.iter().map(to_json));
    words.extend(subject.server.iter().map(to_json));
    words.extend((!subject.variants.is_empty()).then(|| to_json(&subject.variants)));
    words.extend((!subject.preparation.is_none()).then(|| to_json(&subject.preparation)));
    words.extend((!subject.binding.is_default()).then(|| to_json(&subject.binding)));
    words
}

fn hash(kind: &str, plan: &Plan) -> String {
    const BYTES: usize = 3;
    let mut hash = Sha256::new_with_prefix(kind);
    for subject in &plan.subjects {
        for word in words(subject) {
            hash.update([0]);
            hash.update(word);
        }
        hash.update([0, 0]);
    }
    hash.finalize()[..BYTES].iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A subject in a file's name: as it was called, else its program and arguments, without their folders.
fn stem(subject: &Subject) -> String {
    let is_called_otherwise = subject.name != subject.argv.join(" ");
    if !subject.is_command() || is_called_otherwise {
        return safe(&subject.name);
    }
    let last = |path: &str| path.rsplit('/').find(|part| !part.is_empty()).unwrap_or_default().to_owned();
    let words = subject.argv.iter().flat_map(|word| word.split_whitespace());
    let words = words.map(|word| match word.split_once('=') {
        Some((key, value)) => safe(&format!("{}-{}", last(key), last(value))),
        None => safe(&last(word)),
    });
    shortened(&words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-"))
}

/// `text` with only such characters as need no quotes in a shell, and without a start that hides the file or makes it a flag.
fn safe(text: &str) -> String {
    let mut safe = String::new();
    for c in text.chars() {
        if c.is_ascii_alphanumeric() || "._+".contains(c) {
            safe.push(c);
        } else if !safe.ends_with('-') {
            safe.push('-');
        }
    }
    safe.trim_start_matches(['-', '.', '+']).trim_end_matches('-').to_owned()
}

/// The start of a name that is too long; `study` for one of which nothing is left.
fn shortened(name: &str) -> String {
    // Only ASCII is in it.
    let start = name[..name.len().min(LONGEST)].trim_end_matches(['-', '+']);
    if start.is_empty() { "study".to_owned() } else { start.to_owned() }
}

/// The name that earlier versions gave.
fn earlier_stem(plan: &Plan) -> String {
    let name = &plan.subjects[0].name;
    let first = name.split_whitespace().next().unwrap_or(name);
    let stem = first.rsplit('/').next().unwrap_or(first);
    let safe: String =
        stem.chars().map(|c| if c.is_ascii_alphanumeric() || ".-_".contains(c) { c } else { '-' }).collect();
    safe.trim_start_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::{Comparison, StopRule};
    use crate::host::HostFacts;
    use crate::race::RaceStop;
    use crate::treatment::Treatment;
    use proptest::prelude::*;
    use stats::RaceRule;
    use std::fs;
    use std::time::Duration;

    fn comparison(commands: &[&[&str]]) -> Comparison {
        let subject = |argv: &&[&str]| Subject {
            name: argv.join(" "),
            argv: argv.iter().map(|word| (*word).to_owned()).collect(),
            ..Subject::default()
        };
        let plan = Plan {
            subjects: commands.iter().map(subject).collect(),
            threads: vec![1.into()],
            treatments: vec![Treatment::unbound()],
            warmup_blocks: 0,
            timeout: Duration::from_secs(1),
            seed: 1,
            ..Plan::default()
        };
        Comparison { plan, stop: StopRule::Paired { width: 0.02, min_blocks: 2, max_blocks: 2 } }
    }

    fn race(commands: &[&[&str]]) -> Race {
        let search = RaceRule::Halving { runs: 9 };
        Race { plan: comparison(commands).plan, stop: RaceStop { search, cut_off: 1.5, kept: None } }
    }

    /// Begins the study where its journal is by default; the name of that.
    fn begun<S: CellStudy>(folder: &Path, study: &S) -> String {
        let path = default_path_in(folder, study, None);
        let mut journal = Journal::open(&path).unwrap();
        if journal.record().unwrap().is_none() {
            journal.begin_study(study, &serde_json::json!({}), &HostFacts::default()).unwrap();
        }
        path.file_name().unwrap().to_str().unwrap().to_owned()
    }

    #[test]
    fn a_journal_has_the_name_of_the_command_and_its_arguments() {
        let folder = tempfile::tempdir().unwrap();
        for (argv, expected) in [
            (&["./app"][..], "app.stayput"),
            (&["./triad", "-n", "1000"], "triad-n-1000.stayput"),
            (&["./triad", "-n1000"], "triad-n1000.stayput"),
            (&["./app", "{threads}", "/data/set one/in.dat"], "app-threads-set-in.dat.stayput"),
            (&["./app", "--file=/data/in.dat"], "app-file-in.dat.stayput"),
            (&["sh", "-c", "cd /x && ./app 3 | tee \"$OUT\""], "sh-c-cd-x-app-3-tee-OUT.stayput"),
            (&[".hidden"], "hidden.stayput"),
            (&["\u{e9}\u{e9}"], "study.stayput"),
        ] {
            assert_eq!(begun(folder.path(), &comparison(&[argv])), expected);
        }
        assert_eq!(begun(folder.path(), &race(&[&["./app"]])), "app-best.stayput");
        assert_eq!(begun(folder.path(), &comparison(&[&["./a"], &["./b", "2"]])), "a+b-2.stayput");
    }

    #[test]
    fn what_has_the_same_name_gets_a_hash_and_every_command_finds_its_own_again() {
        let folder = tempfile::tempdir().unwrap();
        let long = "x".repeat(300);
        let commands: [&[&str]; 6] = [
            &["./app", "1 2"],
            &["./app", "1", "2"],
            &["../app", "1", "2"],
            &["./app", &long],
            &["app", &long],
            &[&long],
        ];
        let names: Vec<String> = commands.iter().map(|argv| begun(folder.path(), &comparison(&[argv]))).collect();
        assert_eq!(names[0], "app-1-2.stayput");
        assert!(names[1].starts_with("app-1-2-") && names[1].len() == "app-1-2-.stayput".len() + 6, "{names:?}");
        let mut distinct = names.clone();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), commands.len(), "{names:?}");
        assert!(names.iter().all(|name| name.len() <= LONGEST + "-best-123456.stayput".len()), "{names:?}");
        let again: Vec<String> = commands.iter().map(|argv| begun(folder.path(), &comparison(&[argv]))).collect();
        assert_eq!(again, names);
        // Also when the one that has the plain name is gone.
        fs::remove_file(folder.path().join(&names[0])).unwrap();
        assert_eq!(begun(folder.path(), &comparison(&[commands[1]])), names[1]);
    }

    #[test]
    fn a_journal_of_the_name_that_earlier_versions_gave_is_gone_on_with_where_it_is_of_the_same_command() {
        let folder = tempfile::tempdir().unwrap();
        let (study, other) = (comparison(&[&["./app", "1"]]), comparison(&[&["./app", "2"]]));
        let earlier = folder.path().join("app.stayput");
        let mut journal = Journal::open(&earlier).unwrap();
        journal.begin_study(&study, &serde_json::json!({}), &HostFacts::default()).unwrap();
        journal.close().unwrap();
        assert_eq!(begun(folder.path(), &study), "app.stayput");
        assert_eq!(begun(folder.path(), &other), "app-2.stayput");
        assert_eq!(begun(folder.path(), &race(&[&["./app", "1"]])), "app-1-best.stayput");
    }

    #[test]
    fn a_study_file_and_a_paper_give_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let name = |study: &Comparison| {
            let path = default_path_in(folder.path(), study, Some(Path::new("in/my study.toml")));
            path.strip_prefix(folder.path()).unwrap().to_owned()
        };
        let mut study = comparison(&[&["./app"]]);
        assert_eq!(name(&study), Path::new("my-study.stayput"));
        study.plan.paper = Some("pires-2016".into());
        assert_eq!(name(&study), Path::new("pires-2016.stayput"));
    }

    #[test]
    fn a_file_that_is_no_journal_is_no_other_study_but_a_mistake_to_be_told() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("app.stayput"), "a text that somebody wrote, and no journal".repeat(5)).unwrap();
        let path = default_path_in(folder.path(), &comparison(&[&["./app"]]), None);
        assert_eq!(path, folder.path().join("app.stayput"));
        assert!(Journal::<Comparison>::open(&path).is_err());
    }

    proptest! {
        #[test]
        fn every_name_is_safe_and_short(argv in prop::collection::vec(".{0,40}", 1..5)) {
            let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
            let path = default_path_in(Path::new(""), &comparison(&[&argv]), None);
            let name = path.to_str().unwrap();
            prop_assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || "._+-".contains(c)), "{name}");
            prop_assert!(!name.starts_with(['-', '.']) && name.len() <= LONGEST + ".stayput".len(), "{name}");
        }
    }

    #[test]
    fn kinds_have_other_names() {
        assert_ne!(Comparison::NAME, Race::NAME);
        assert_ne!(hash(Comparison::NAME, &race(&[&["a"]]).plan), hash(Race::NAME, &race(&[&["a"]]).plan));
    }
}
