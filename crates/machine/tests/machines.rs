//! Machines read from presets and from a corpus of hwloc XML files, as they are shown and stored.

#![expect(clippy::unwrap_used, reason = "in a test, a failed unwrap is a failed test")]

use stayput_machine::tree::Source;
use stayput_machine::{CpuId, CpuState, Distinct, Kind, Level, Machine, Policy, preset};
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
    assert_eq!(corpus().len(), 11);
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
    let captures = corpus().into_iter().map(|path| Machine::read(&Source::Xml(path)).unwrap());
    for machine in preset::names().map(|name| Machine::named(name).unwrap()).chain(captures) {
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

#[test]
fn memory_without_cpus_and_packages_without_cpus_are_kept_and_never_given_threads() {
    let machine = of_corpus("memory-only.xml");
    assert_eq!(machine.summary(), "2 packages, 1 group, 8 cores, 8 CPUs, 3 NUMA nodes");
    let forbidden: Vec<u32> =
        machine.numa_nodes().iter().filter(|node| node.forbidden).map(|node| node.os_index).collect();
    assert_eq!(forbidden, [1]);
    assert_eq!(machine.numa_distances().unwrap().len(), 3);
    assert!(machine.to_xml().contains("allowed_nodeset=\"0x00000005\""), "{}", machine.to_xml());

    let restricted = of_corpus("package-without-cpus.xml");
    assert_eq!(restricted.summary(), "3 packages, 4 cores, 4 CPUs, 3 NUMA nodes");
    for machine in [machine, restricted] {
        let cpus = machine.usable().count();
        for policy in Policy::NAMED {
            assert_eq!(policy.place(&machine, cpus).unwrap().doubled_up(), 0, "{policy}");
        }
        assert!(Distinct::new(&machine).unwrap().classes(2).is_ok());
    }
}

#[test]
fn a_cpu_that_a_cgroup_hides_is_not_called_offline() {
    let machine = of_corpus("hidden-by-cgroup.xml");
    assert_eq!(machine.state(CpuId(0)), CpuState::Hidden);
    let error = "0".parse::<Policy>().unwrap().place(&machine, 1).unwrap_err().to_string();
    assert_eq!(
        error,
        "CPU 0 of the list `0` can't be used: it was offline, or hidden by a control group, where the machine was \
         described; describe it with `lstopo --disallowed` to tell"
    );
    // Each package says which CPUs it lacks, so that hwloc numbers both as it did.
    assert!(machine.to_xml().contains("cpuset=\"0x00000018\" complete_cpuset=\"0x00000019\""), "{}", machine.to_xml());
}

#[test]
fn groups_of_groups_are_named_in_the_footprint() {
    let machine = of_corpus("nested-groups-and-loose-cores.xml");
    let footprint = |policy: Policy, threads| policy.place(&machine, threads).unwrap().footprint(&machine).to_string();
    assert_eq!(
        footprint(Policy::Scatter, 4),
        "4 threads on 2 outer groups, 3 groups, 3 packages, 4 cores",
        "what is outside of any group counts as one more"
    );
    assert_eq!(footprint(Policy::Compact, 6), "6 threads on 1 outer group, 2 groups, 3 packages, 6 cores");
}

#[test]
fn every_maker_s_words_for_kinds_of_core_are_known_and_written_back() {
    let named = |types: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.xml");
        let objects: String = (0..types.len()).map(|cpu| format!("<object type=\"PU\" os_index=\"{cpu}\"/>")).collect();
        let kinds: String = (types.iter().enumerate())
            .map(|(cpu, word)| {
                format!("<cpukind cpuset=\"0x{:x}\"><info name=\"CoreType\" value=\"{word}\"/></cpukind>", 1 << cpu)
            })
            .collect();
        let xml = format!("<topology version=\"2.0\"><object type=\"Machine\">{objects}</object>{kinds}</topology>");
        fs::write(&path, xml).unwrap();
        let machine = Machine::read(&Source::Xml(path)).unwrap();
        let written = machine.to_xml();
        assert!(types.iter().all(|word| written.contains(&format!("value=\"{word}\""))), "{written}");
        machine.core_kinds().iter().map(|kind| kind.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(named(&["IntelLowPower", "IntelAtom", "IntelCore"]), ["LP-E", "E", "P"]);
    assert_eq!(named(&["IntelAtom", "IntelAtom", "IntelCore"]), ["LP-E", "E", "P"]);
    assert_eq!(named(&["AMDEfficiency", "AMDPerformance"]), ["E", "P"]);
    assert_eq!(named(&["Unheard", "IntelCore"]), ["kind 0", "P"]);
}

#[test]
fn machines_that_were_stored_earlier_are_still_read() {
    let json = r#"{"name":"m","source":"host","core_kinds":[{"name":"E","cpus":[0]},{"name":"P","cpus":[1]}],
        "offline_cpus":[2],"tree":{"kind":"machine","numa_nodes":[{"os_index":0,"memory_bytes":1024}],
        "children":[{"kind":"PU","os_index":0},{"kind":"PU","os_index":1}]}}"#;
    let machine: Machine = serde_json::from_str(json).unwrap();
    assert!(!machine.numa_nodes()[0].forbidden && machine.hidden_cpus().is_empty());
    assert_eq!(machine.state(CpuId(2)), CpuState::Offline);
    // What is new is left out where there is nothing to say.
    let stored = serde_json::to_string(&machine).unwrap();
    assert!(["forbidden", "hidden", "missing", "core_type"].iter().all(|word| !stored.contains(word)), "{stored}");
    assert!(machine.to_xml().contains("IntelAtom"));
}

#[test]
fn a_machine_without_memory_has_no_distances_in_its_xml() {
    let json = r#"{"name":"m","source":"host","numa_distances":[],"tree":{"kind":"machine","children":[{"kind":"PU","os_index":0}]}}"#;
    let machine: Machine = serde_json::from_str(json).unwrap();
    assert!(!machine.to_xml().contains("distances2"));
}
