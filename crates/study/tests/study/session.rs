//! Stretches of work on a study: taken up by the same plan on the same machine, and ended whatever became of the work.

use crate::engine::work;
use crate::model::{Model, comparison};
use crate::sample::Sampled;
use machine::Machine;
use machine::record::{MachineRecord, ObjectRecord};
use machine::tree::ForbiddenBy;
use std::fs;
use std::num::NonZeroU64;
use std::path::Path;
use study::engine::{EngineError, run_blocks};
use study::session::{Host, Session, SessionError};
use study::{Comparison, Ending, Journal, JournalError, Kind, Record};

fn machine(synthetic: &str) -> Machine {
    Machine::named(synthetic).unwrap()
}

/// Begins a session of `plan` on `machine` and ends it at once.
fn touch<K: Kind>(path: &Path, plan: &K, machine: &Machine) -> Result<(), SessionError> {
    let session = Session::open(Some(path), plan, machine, &Host::Modelled, &["stayput".into()])?;
    session.end(Ok::<_, SessionError>(Ending::Finished)).map(drop)
}

#[test]
fn a_session_that_fails_is_ended_and_the_next_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.stayput");
    let study = comparison(1, &["compact"]);
    let model = || Model::new(&[1.0, 0.9], 0.01);
    let error = work(&path, &study, &mut Model { trials_left: 5, ..model() }).unwrap_err();
    assert!(matches!(&error, EngineError::Runner(error) if error.to_string() == "cut off"), "{error}");
    let cut_off: Record<Comparison> = Journal::read(&path).unwrap();
    assert_eq!((cut_off.trials.len(), cut_off.ending), (5, None));
    let [session] = cut_off.sessions.as_slice() else { panic!("{:?}", cut_off.sessions) };
    assert!(session.after.as_ref().unwrap().unix_s >= session.before.unix_s);

    let record = work(&path, &study, &mut model()).unwrap();
    assert_eq!((record.ending, &record.trials[..5]), (Some(Ending::Finished), cut_off.trials.as_slice()));
    assert!(record.sessions.len() == 2 && record.sessions.iter().all(|session| session.after.is_some()));
    let files: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(files, ["a.stayput"], "one plain file");

    let again = work(&path, &study, &mut Model { trials_left: 0, ..model() }).unwrap();
    assert_eq!(again, record, "nothing was left to do, and nothing is kept of that");
}

#[test]
fn a_study_in_memory_is_the_one_in_a_journal() {
    let folder = tempfile::tempdir().unwrap();
    let study = comparison(1, &["compact"]);
    let in_journal = work(&folder.path().join("a.stayput"), &study, &mut Model::new(&[1.0, 0.9], 0.01)).unwrap();
    let open = || Session::open(None, &study, &machine("pack:1 core:2 pu:1"), &Host::Modelled, &[]).unwrap();
    let mut session = open();
    let ending = run_blocks(&mut session, &mut Model::new(&[1.0, 0.9], 0.01), &mut |_| ());
    let in_memory = session.end(ending).unwrap();
    assert_eq!(in_memory, Record { sessions: Vec::new(), ..in_journal });

    let mut session = open();
    let ending = run_blocks(&mut session, &mut Model { trials_left: 2, ..Model::new(&[1.0, 0.9], 0.01) }, &mut |_| ());
    assert!(matches!(session.end(ending), Err(EngineError::Runner(_))));
}

#[test]
fn another_plan_is_refused_and_the_journal_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.stayput");
    let host = machine("pack:1 core:2 pu:1");
    touch(&path, &comparison(1, &["compact"]), &host).unwrap();
    let before = fs::read(&path).unwrap();
    let mut other = comparison(1, &["scatter"]);
    other.plan.seed += 1;
    let error = touch(&path, &other, &host).unwrap_err();
    let SessionError::OtherPlan { differences, .. } = &error else { panic!("{error}") };
    assert!(differences.contains(&"seed: the journal has 7, you ask for 8".to_owned()), "{differences:?}");
    assert!(differences.iter().any(|line| line.starts_with("treatments.2.name: the journal has")), "{differences:?}");
    assert!(error.to_string().contains("give --out another file, or the same plan again:\n  "), "{error}");
    assert_eq!(fs::read(&path).unwrap(), before);
    let files: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(files, ["a.stayput"]);
}

#[test]
fn a_study_of_another_kind_is_refused_in_one_sentence_and_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.stayput");
    let host = machine("pack:1 core:2 pu:1");
    touch(&path, &Sampled {}, &host).unwrap();
    let before = fs::read(&path).unwrap();
    let said = format!("journal {} holds a sampled, and this is a comparison; give --out another file", path.display());
    for error in [
        touch(&path, &comparison(1, &[]), &host).unwrap_err().to_string(),
        Journal::<Comparison>::open(&path).unwrap_err().to_string(),
        Journal::<Comparison>::read(&path).unwrap_err().to_string(),
    ] {
        assert_eq!(error, said);
    }
    assert!(matches!(Journal::<Comparison>::open(&path), Err(JournalError::OtherKind { .. })));
    assert_eq!(fs::read(&path).unwrap(), before);
}

/// What becomes of a study that was begun on one machine, by CPUs that the kernel doesn't name, and gone on with on another.
fn moved(from: &Machine, to: &Machine) -> Result<(), SessionError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.stayput");
    touch(&path, &Sampled {}, from).unwrap();
    let before = fs::read(&path).unwrap();
    let result = touch(&path, &Sampled {}, to);
    assert_eq!(fs::read(&path).unwrap(), before, "nothing was run");
    result
}

#[test]
fn machines_whose_cpus_have_no_names_are_told_apart_by_their_trees() {
    let eight = machine("pack:2 l3:1 core:4 pu:1");
    for other in ["pack:1 l3:1 core:4 pu:1", "pack:1 l3:2 core:4 pu:1", "pack:2 l3:1 core:2 pu:2", "pack:2 core:4 pu:1"]
    {
        let error = moved(&eight, &machine(other)).unwrap_err();
        assert!(
            matches!(&error, SessionError::OtherMachine { cpu_model, .. } if cpu_model == "unnamed CPU"),
            "{other}"
        );
        let sentence = "was begun on another machine (unnamed CPU); give --out another file";
        assert!(error.to_string().ends_with(sentence), "{error}");
    }
}

#[test]
fn a_machine_is_the_same_whichever_of_its_cpus_may_be_used_and_whatever_memory_the_kernel_leaves() {
    fn change(object: &mut ObjectRecord) {
        if object.children.is_empty() && object.os_index == Some(3) {
            object.forbidden_by = Some(ForbiddenBy::AffinityMask);
        }
        for node in &mut object.numa_nodes {
            node.memory_bytes = NonZeroU64::new(123_456);
        }
        object.children.iter_mut().for_each(change);
    }
    let whole = machine("pack:2 [numa(memory=1GB)] core:2 pu:1");
    let mut record = MachineRecord::from(whole.clone());
    change(&mut record.tree);
    let restricted = Machine::try_from(record).unwrap();
    assert_eq!(restricted.usable_cpus().len(), 3);
    assert_ne!(MachineRecord::from(restricted.clone()).tree, MachineRecord::from(whole.clone()).tree);
    moved(&whole, &restricted).unwrap();
    moved(&restricted, &whole).unwrap();
}
