//! Machines read from presets and from a corpus of hwloc XML files, as they are shown and stored.

#![expect(clippy::unwrap_used, reason = "in a test, a failed unwrap is a failed test")]

use stayput_machine::tree::Source;
use stayput_machine::{CpuId, CpuState, Kind, Level, Machine, Policy, preset};
use std::fs;
use std::path::{Path, PathBuf};

fn corpus() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "xml"));
    files.sort();
    files
}

fn of_corpus(name: &str) -> Machine {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(name);
    Machine::read(&Source::Xml(path)).unwrap()
}

/// The text without the path of this checkout.
fn portable(text: &str) -> String {
    text.replace(env!("CARGO_MANIFEST_DIR"), "crates/machine")
}

#[test]
fn presets_look_as_the_papers_describe_them() {
    for name in preset::names() {
        let machine = Machine::named(name).unwrap();
        insta::assert_snapshot!(format!("{name}.text"), machine.to_text(None));
        insta::assert_snapshot!(format!("{name}.json"), serde_json::to_string(&machine).unwrap());
    }
}

#[test]
fn corpus_machines_look_as_their_files_describe_them() {
    assert_eq!(corpus().len(), 7);
    for path in corpus() {
        let machine = Machine::read(&Source::Xml(path.clone())).unwrap();
        let name = path.file_stem().unwrap().to_str().unwrap();
        insta::assert_snapshot!(format!("{name}.text"), portable(&machine.to_text(None)));
    }
}

#[test]
fn a_placement_is_shown_beside_the_cpus_and_never_folded_away() {
    let machine = Machine::named("pack:2 l3:1(size=16MiB) core:12 pu:2").unwrap();
    let placement = Policy::Scatter.place(&machine, 3).unwrap();
    insta::assert_snapshot!("folded-with-placement.text", machine.to_text(Some(&placement)));
}

#[test]
fn a_stored_machine_comes_back_the_same() {
    let named = preset::names().map(|name| Machine::named(name).unwrap());
    let read = corpus().into_iter().map(|path| Machine::read(&Source::Xml(path)).unwrap());
    for machine in named.chain(read).chain([Machine::host().unwrap()]) {
        let json = serde_json::to_string(&machine).unwrap();
        assert_eq!(serde_json::from_str::<Machine>(&json).unwrap(), machine);
    }
}

#[test]
fn what_is_written_as_xml_reads_back() {
    let folder = tempfile::tempdir().unwrap();
    for name in preset::names() {
        let machine = Machine::named(name).unwrap();
        let path = folder.path().join("machine.xml");
        fs::write(&path, machine.to_xml()).unwrap();
        let back = Machine::read(&Source::Xml(path)).unwrap();
        assert_eq!(
            back.to_text(None).lines().skip(1).collect::<Vec<_>>(),
            machine.to_text(None).lines().skip(1).collect::<Vec<_>>()
        );
    }
}

#[test]
fn the_host_has_the_cpus_that_the_kernel_lets_us_use() {
    let machine = Machine::host().unwrap();
    assert_eq!(machine.usable_cpus(), stayput_machine::host::allowed_cpus().unwrap());
    let json = serde_json::to_string(&machine).unwrap().to_lowercase();
    for private in ["serial", "uuid", "hostname", "dmi"] {
        assert!(!json.contains(private), "{private} in {json}");
    }
}

#[test]
fn closeness_is_that_of_the_innermost_shared_object() {
    let sharing = |machine: &Machine, a, b| machine.sharing(CpuId(a), CpuId(b));
    let opteron = Machine::named("opteron-6272").unwrap();
    let of_cpu_0: Vec<_> = [0, 1, 2, 8, 16, 64].iter().map(|&cpu| sharing(&opteron, 0, cpu)).collect();
    assert_eq!(
        of_cpu_0,
        [Some(Level::Pu), Some(Level::L2), Some(Level::L3), Some(Level::Package), Some(Level::Machine), None]
    );
    let smt = of_corpus("sub-numa-smt.xml");
    let of_cpu_0: Vec<_> = [16, 1, 2, 4].iter().map(|&cpu| sharing(&smt, 0, cpu)).collect();
    assert_eq!(of_cpu_0, [Some(Level::Core), Some(Level::L3), Some(Level::Package), Some(Level::Machine)]);
}

#[test]
fn each_cpu_has_its_kind_of_core_and_its_memory() {
    let hybrid = of_corpus("hybrid-p-e-lpe.xml");
    let kinds: Vec<_> =
        [0, 3, 4, 7, 8].iter().map(|&cpu| hybrid.core_kind(CpuId(cpu)).unwrap().name.as_str()).collect();
    assert_eq!(kinds, ["P", "P", "E", "E", "LP-E"]);

    let memories = of_corpus("two-memories.xml");
    let near: Vec<_> =
        memories.local_numa_nodes(CpuId(2)).iter().map(|&node| memories.numa_node(node).os_index).collect();
    assert_eq!(near, [2, 3]);
}

#[test]
fn a_shared_l2_is_a_module_on_amd_family_15h_only() {
    assert_eq!(of_corpus("amd-family-15h.xml").count(Kind::Module), 4);
    assert_eq!(Machine::named("xeon-e5405").unwrap().count(Kind::Module), 0);
}

#[test]
fn forbidden_and_offline_cpus_are_never_chosen() {
    let machine = of_corpus("offline-and-disallowed.xml");
    assert_eq!(machine.usable_cpus().to_string(), "0-1,4-5");
    assert!(matches!(machine.state(CpuId(2)), CpuState::Forbidden(_)));
    assert_eq!(machine.state(CpuId(7)), CpuState::Offline);
    assert_eq!(machine.state(CpuId(8)), CpuState::Absent);
    for policy in Policy::NAMED {
        let placement = policy.place(&machine, 6).unwrap();
        assert_eq!(placement.union(), machine.usable_cpus(), "{policy}");
        assert_eq!(placement.doubled_up(), 2, "{policy}");
    }
    let error = "4-6".parse::<Policy>().unwrap().place(&machine, 3).unwrap_err();
    assert_eq!(error.to_string(), "CPU 6 of the list `4,5,6` can't be used: it is offline");
}
