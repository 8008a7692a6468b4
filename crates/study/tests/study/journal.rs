//! What a journal survives, and what it says of a file that isn't one.

use crate::model::{comparison, observation};
use std::fs;
use std::io::Write;
use std::path::Path;
use study::{Comparison, HostFacts, HostState, JournalError, RankStart, Record, Status, ThreadObservation, Trial};

type Journal = study::Journal<Comparison>;

fn trial(sequence: u32) -> Trial {
    let mut seen = observation(1.5);
    seen.threads.push(ThreadObservation {
        process: 0,
        exec: 0,
        thread: 0,
        tid: 4711,
        intended_cpus: Some("0,2-3".parse().unwrap()),
        actual_cpus: "0,2-3".parse().unwrap(),
        last_cpu: Some(machine::CpuId(2)),
        migrations: Some(9),
        cpu_s: Some(1.25),
        waited_s: Some(0.5),
        is_helper: false,
        began_s: Some(0.125),
        ended_s: Some(2.5),
        name: Some("worker".into()),
    });
    seen.notes.push("a note with 'quotes'".into());
    Trial {
        sequence,
        block: sequence,
        warmup: false,
        subject: "subject 0".into(),
        threads: 2.into(),
        placement: "compact".into(),
        status: Status::VerificationFailed,
        cause: "wrong".into(),
        time_s: None,
        started_unix_s: 1.25,
        ran_s: Some(seen.wall_s),
        intended_cpus: Some(vec!["0".parse().unwrap(), "1".parse().unwrap()]),
        observation: Some(seen),
        more: None,
        output_tail: "the end\u{1F980}".into(),
    }
}

fn begun(path: &Path) -> Journal {
    let mut journal = Journal::open(path).unwrap();
    journal.begin_study(&comparison(1, &["compact"]), &serde_json::json!({}), &HostFacts::default()).unwrap();
    journal
}

#[test]
fn what_goes_in_comes_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.stayput");
    let mut journal = begun(&path);
    let session = journal.begin_session(&["stayput".into(), "study".into()], &HostState::default()).unwrap();
    let unstarted =
        Trial { status: Status::NotStarted, ran_s: None, observation: None, intended_cpus: None, ..trial(1) };
    journal.add(&trial(0)).unwrap();
    journal.add(&unstarted).unwrap();
    journal.end_session(session, &HostState { unix_s: 2.0, ..HostState::default() }).unwrap();
    journal.close().unwrap();
    let record: Record<Comparison> = Journal::read(&path).unwrap();
    assert_eq!(record.plan, comparison(1, &["compact"]));
    assert_eq!(record.trials, [trial(0), unstarted]);
    assert_eq!(record.sessions[0].command_line, ["stayput", "study"]);
    assert_eq!(record.sessions[0].after.as_ref().unwrap().unix_s, 2.0);
    let files: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(files, ["a.stayput"], "a closed journal is one plain file");
}

#[test]
fn the_output_of_a_run_that_went_well_is_kept_and_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.stayput");
    let mut journal = begun(&path);
    journal.add(&Trial { status: Status::Ok, time_s: Some(1.0), ..trial(0) }).unwrap();
    journal.add(&trial(1)).unwrap();
    journal.close().unwrap();
    let tails: Vec<String> = Journal::read(&path).unwrap().trials.into_iter().map(|trial| trial.output_tail).collect();
    assert_eq!(tails, [String::new(), trial(1).output_tail]);
    let connection = rusqlite::Connection::open(&path).unwrap();
    let kept: String =
        connection.query_row("SELECT output_tail FROM trial WHERE sequence = 0", [], |row| row.get(0)).unwrap();
    assert_eq!(kept, trial(0).output_tail);
}

#[test]
fn a_journal_from_before_stops_were_kept_is_read_and_goes_on_with_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.stayput");
    let mut journal = begun(&path);
    journal.add(&trial(0)).unwrap();
    journal.close().unwrap();
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute_batch("ALTER TABLE trial DROP COLUMN stops; ALTER TABLE trial DROP COLUMN stops_s;").unwrap();
    drop(connection);
    let stops = |path: &Path| -> Vec<Option<u64>> {
        let trials = Journal::read(path).unwrap().trials;
        trials.iter().map(|trial| trial.observation.as_ref().unwrap().stops).collect()
    };
    assert_eq!(stops(&path), [None]);
    let mut journal = Journal::open(&path).unwrap();
    journal.begin_session(&[], &HostState::default()).unwrap();
    journal.add(&trial(1)).unwrap();
    journal.close().unwrap();
    assert_eq!(stops(&path), [None, Some(6)]);
}

#[test]
fn the_same_trial_is_not_kept_twice() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = begun(&folder.path().join("a.stayput"));
    journal.add(&trial(0)).unwrap();
    let again = Trial { sequence: 1, block: 0, ..trial(1) };
    assert!(matches!(journal.add(&again), Err(JournalError::Write { .. })));
    assert_eq!(journal.record().unwrap().unwrap().trials, [trial(0)]);
}

#[test]
fn a_second_writer_is_turned_away_and_a_reader_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.stayput");
    let mut journal = begun(&path);
    journal.add(&trial(0)).unwrap();
    assert!(matches!(Journal::open(&path), Err(JournalError::Busy { .. })));
    assert_eq!(Journal::read(&path).unwrap().trials.len(), 1);
}

#[test]
fn a_file_that_is_no_journal_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    fs::write(
        &path,
        "dear diary, this is more than a hundred bytes of text so that it is longer than a header of SQLite",
    )
    .unwrap();
    let before = fs::read(&path).unwrap();
    assert!(matches!(Journal::open(&path), Err(JournalError::Foreign { .. })));
    assert!(matches!(Journal::read(&path), Err(JournalError::Foreign { .. })));
    assert_eq!(fs::read(&path).unwrap(), before);

    let other = folder.path().join("other.db");
    rusqlite::Connection::open(&other).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    assert!(matches!(Journal::open(&other), Err(JournalError::Foreign { .. })));
    let empty = folder.path().join("empty.stayput");
    fs::write(&empty, "").unwrap();
    assert!(matches!(Journal::read(&empty), Err(JournalError::Empty { .. })));
    drop(Journal::open(&empty).unwrap());
    assert!(matches!(Journal::read(&empty), Err(JournalError::Empty { .. })), "opened, and killed before it began");
    assert!(matches!(Journal::read(&folder.path().join("absent")), Err(JournalError::Open { .. })));
    assert!(matches!(Journal::open(folder.path()), Err(JournalError::NoFile { .. })));
}

#[test]
fn a_newer_schema_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.stayput");
    begun(&path).close().unwrap();
    rusqlite::Connection::open(&path).unwrap().execute_batch("PRAGMA user_version = 99").unwrap();
    let error = Journal::read(&path).unwrap_err();
    assert!(matches!(error, JournalError::Newer { found: 99, .. }));
    assert!(error.to_string().contains("99"), "{error}");
}

#[test]
fn damage_anywhere_is_an_error_or_harmless_and_never_a_panic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.stayput");
    let mut journal = begun(&path);
    for sequence in 0..40 {
        journal.add(&trial(sequence)).unwrap();
    }
    journal.close().unwrap();
    let whole = fs::read(&path).unwrap();
    let mut told = 0;
    for at in (0..whole.len()).step_by(whole.len() / 97) {
        let mut bytes = whole.clone();
        let end = (at + 64).min(bytes.len());
        bytes[at..end].fill(0xA5);
        fs::write(&path, &bytes).unwrap();
        told += usize::from(Journal::read(&path).is_err());
        fs::File::create(&path).unwrap().write_all(&whole[..at]).unwrap();
        assert!(at >= whole.len() - 4096 || Journal::read(&path).is_err(), "cut off at {at}");
    }
    assert!(told > 20, "{told} of 98 damages were told");
}

#[test]
fn a_journal_whose_writer_was_killed_in_the_middle_of_a_write_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let (path, cut_off) = (folder.path().join("a.stayput"), folder.path().join("b.stayput"));
    let mut journal = begun(&path);
    journal.add(&trial(0)).unwrap();
    journal.close().unwrap();
    // A rollback journal is on disk while a transaction spills; copying both then is what a kill leaves behind.
    let writer = rusqlite::Connection::open(&path).unwrap();
    writer
        .execute_batch("PRAGMA cache_size = 1; PRAGMA cache_spill = 1; BEGIN; UPDATE study SET host = 'half'")
        .unwrap();
    writer.execute_batch("CREATE TABLE filler (x); INSERT INTO filler SELECT randomblob(4000) FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50) SELECT i FROM n)").unwrap();
    let rollback = |of: &Path| of.with_extension("stayput-journal");
    fs::copy(&path, &cut_off).unwrap();
    fs::copy(rollback(&path), rollback(&cut_off)).unwrap();
    assert_eq!(Journal::read(&cut_off).unwrap().trials, [trial(0)]);
}

#[test]
fn a_journal_from_before_cpu_times_were_kept_is_read_and_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.stayput");
    let mut journal = begun(&path);
    journal.add(&trial(0)).unwrap();
    journal.close().unwrap();
    for column in ["cpu_s", "waited_s", "began_s", "ended_s", "name"] {
        let earlier = format!("ALTER TABLE thread DROP COLUMN {column}");
        rusqlite::Connection::open(&path).unwrap().execute_batch(&earlier).unwrap();
    }
    let times = |record: &Record<Comparison>| -> Vec<[Option<f64>; 4]> {
        let threads = record.trials.iter().flat_map(|trial| &trial.observation.as_ref().unwrap().threads);
        threads.map(|thread| [thread.cpu_s, thread.waited_s, thread.began_s, thread.ended_s]).collect()
    };
    assert_eq!(times(&Journal::read(&path).unwrap()), [[None; 4]]);

    let mut journal = Journal::open(&path).unwrap();
    journal.begin_session(&["stayput".into(), "study".into()], &HostState::default()).unwrap();
    journal.add(&trial(1)).unwrap();
    journal.close().unwrap();
    assert_eq!(times(&Journal::read(&path).unwrap()), [[None; 4], [1.25, 0.5, 0.125, 2.5].map(Some)]);
}

#[test]
fn ranks_x_threads_are_told_apart_and_helper_threads_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.stayput");
    let mut study = comparison(1, &[]);
    study.plan.threads = ["1x2", "2x1", "2x2", "4x1"].map(|shape| shape.parse().unwrap()).to_vec();
    study.plan.subjects[0].ranks =
        Some(RankStart { mpi: "openmpi".parse().unwrap(), args: Vec::new(), bind_helpers: false });
    let mut journal = Journal::open(&path).unwrap();
    journal.begin_study(&study, &serde_json::json!({}), &HostFacts::default()).unwrap();
    let of_block = study.plan.threads.iter().zip(0..).map(|(&threads, sequence)| {
        let mut trial = Trial { threads, block: 0, ..trial(sequence) };
        let seen = trial.observation.as_mut().unwrap();
        seen.threads.push(ThreadObservation {
            thread: 1,
            is_helper: true,
            intended_cpus: None,
            ..seen.threads[0].clone()
        });
        trial
    });
    let trials: Vec<Trial> = of_block.collect();
    trials.iter().for_each(|trial| journal.add(trial).unwrap());
    assert!(matches!(journal.add(&Trial { sequence: 4, ..trials[2].clone() }), Err(JournalError::Write { .. })));
    journal.close().unwrap();
    let record = Journal::read(&path).unwrap();
    assert_eq!((record.plan, record.trials), (study, trials));
}

/// As one of an earlier Stayput is: what says of a trial which one it is had no ranks.
#[test]
fn a_journal_from_before_ranks_is_read_and_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.stayput");
    begun(&path).close().unwrap();
    let connection = rusqlite::Connection::open(&path).unwrap();
    let plan: String = connection.query_row("SELECT plan FROM study", [], |row| row.get(0)).unwrap();
    assert!(plan.contains(r#""threads":[1,2]"#), "thread counts are the numbers that they always were: {plan}");
    let (now, then) = (
        "ranks INTEGER NOT NULL DEFAULT 0,\n    UNIQUE (block, subject, threads, placement, ranks)",
        "UNIQUE (block, subject, threads, placement)",
    );
    connection.execute_batch("PRAGMA writable_schema = ON").unwrap();
    let changed = connection.execute(
        "UPDATE sqlite_schema SET sql = replace(sql, ?1, ?2) WHERE name = 'trial' AND instr(sql, ?1)",
        [now, then],
    );
    assert_eq!(changed.unwrap(), 1);
    connection.execute_batch("PRAGMA writable_schema = RESET").unwrap();
    connection.execute_batch("ALTER TABLE thread DROP COLUMN is_helper").unwrap();
    drop(connection);
    assert_eq!(Journal::read(&path).unwrap().trials, []);
    let mut journal = Journal::open(&path).unwrap();
    journal.begin_session(&[], &HostState::default()).unwrap();
    journal.add(&trial(0)).unwrap();
    assert!(matches!(journal.add(&Trial { sequence: 1, ..trial(0) }), Err(JournalError::Write { .. })));
    journal.close().unwrap();
    let record = Journal::read(&path).unwrap();
    assert_eq!((record.plan, record.trials), (comparison(1, &["compact"]), vec![trial(0)]));
}
