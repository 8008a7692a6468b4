//! Journals of schema versions 1 and 2, as earlier versions of Stayput wrote them: `crates/report/tests/journals/README.md` says
//! how. What reports make of them is that crate's to test.

use machine::Machine;
use simulation::{ReplayPlan, RunError, SimulationPlan};
use std::fs;
use std::path::{Path, PathBuf};
use study::journal::{self, SCHEMA_VERSION};
use study::session::{Host, Session, SessionError};
use study::{Comparison, Ending, Journal, Kind, Race, Record};

fn golden() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../report/tests/journals");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|ending| ending == "stayput")).collect()
}

/// The schema's version, which SQLite keeps in the header of a file.
fn version(path: &Path) -> i32 {
    let header = fs::read(path).unwrap();
    i32::from_be_bytes(header[60..64].try_into().unwrap())
}

/// Opens the journal at `path` for the same plan on the same machine.
fn open<K: Kind>(path: &Path, plan: &K, record: &Record<K>) -> Result<Session<K>, SessionError> {
    let machine: Machine = serde_json::from_value(record.machine.clone()).unwrap();
    Session::open(Some(path), plan, &machine, &Host::Modelled, &["stayput".into(), "again".into()])
}

fn taken_up<K: Kind>(original: &Path, change: impl Fn(&mut K)) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.stayput");
    fs::copy(original, &path).unwrap();
    let before: Record<K> = Journal::read(&path).unwrap();
    assert!((1..=2).contains(&version(&path)), "{}", version(&path));
    let unchanged = || assert!(fs::read(&path).unwrap() == fs::read(original).unwrap(), "{}", original.display());

    // To look is not to change, and neither is to be refused.
    drop(Journal::<K>::open(&path).unwrap());
    unchanged();
    let mut other = before.plan.clone();
    change(&mut other);
    // Studies of programs were begun on another host, which is told first: with it, plans mostly differ, too.
    let refused = open(&path, &other, &before);
    assert!(matches!(refused, Err(SessionError::OtherPlan { .. } | SessionError::OtherMachine { .. })));
    unchanged();

    // As a session does it, which would refuse studies of programs here: they were begun on another host.
    let mut journal = Journal::<K>::open(&path).unwrap();
    assert_eq!(journal.record().unwrap().as_ref(), Some(&before));
    let after = &before.sessions[0].before;
    let session = journal.begin_session(&["again".into()], after).unwrap();
    journal.end_session(session, after).unwrap();
    journal.close().unwrap();
    assert_eq!(version(&path), SCHEMA_VERSION);
    assert_eq!(journal::kind(&path).unwrap(), K::NAME);
    let mut now: Record<K> = Journal::read(&path).unwrap();
    let added = now.sessions.pop().unwrap();
    assert_eq!((added.command_line.as_slice(), added.after.as_ref()), (&["again".to_owned()][..], Some(after)));
    assert!(now == before, "{} is another study than it was", original.display());
    let files: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(files, ["a.stayput"]);
}

#[test]
fn older_journals_of_every_kind_become_new_ones_when_a_session_begins_and_not_before() {
    let mut kinds = Vec::new();
    for path in golden() {
        let kind = journal::kind(&path).unwrap();
        match kind.as_str() {
            Comparison::NAME => taken_up(&path, |study: &mut Comparison| study.plan.seed += 1),
            Race::NAME => taken_up(&path, |race: &mut Race| race.stop.cut_off *= 2.0),
            SimulationPlan::NAME => taken_up(&path, |plan: &mut SimulationPlan| plan.replicates += 1),
            ReplayPlan::NAME => taken_up(&path, |plan: &mut ReplayPlan| plan.cpus += 1),
            other => panic!("{other} in {}", path.display()),
        }
        kinds.push((kind, version(&path)));
    }
    kinds.sort();
    kinds.dedup();
    let kinds: Vec<(&str, i32)> = kinds.iter().map(|(kind, version)| (kind.as_str(), *version)).collect();
    assert_eq!(kinds, [("comparison", 1), ("comparison", 2), ("race", 2), ("replay", 2), ("simulation", 2)]);
}

#[test]
fn an_older_simulation_is_gone_on_with_where_it_was_left() {
    let original = Path::new(env!("CARGO_MANIFEST_DIR")).join("../report/tests/journals/simulation.stayput");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.stayput");
    fs::copy(original, &path).unwrap();
    let whole: Record<SimulationPlan> = Journal::read(&path).unwrap();
    rusqlite::Connection::open(&path)
        .unwrap()
        .execute_batch("DELETE FROM trial WHERE sequence >= 4; UPDATE study SET ending = NULL")
        .unwrap();
    let machine: Machine = serde_json::from_value(whole.machine.clone()).unwrap();
    let mut session = open(&path, &whole.plan, &whole).unwrap();
    assert_eq!(session.trials(), &whole.trials[..4]);
    let ending = simulation::simulate(&mut session, &machine, &mut || ());
    let record = session.end::<RunError>(ending).unwrap();
    assert_eq!((record.plan, record.ending), (whole.plan, Some(Ending::Finished)));
    assert!(record.trials == whole.trials, "the same samples as in one go");
}
