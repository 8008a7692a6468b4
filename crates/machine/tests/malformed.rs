//! Input that is no machine, no list or no placement gets a sentence, and never a panic.

#![expect(clippy::unwrap_used, reason = "in a test, a failed unwrap is a failed test")]

use proptest::prelude::*;
use stayput_machine::tree::Source;
use stayput_machine::{CpuId, CpuSet, Kind, MAX_THREADS, Machine, Placement, Policy, Syntax};
use std::fs;
use std::path::Path;

fn xml_error(content: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.xml");
    fs::write(&path, content).unwrap();
    let error = Machine::read(&Source::Xml(path.clone())).unwrap_err().to_string();
    error.replace(path.to_str().unwrap(), "m.xml")
}

#[test]
fn a_bad_xml_file_gets_one_sentence() {
    insta::assert_snapshot!(xml_error(b"\xff\xfe"), @"cannot read a machine from m.xml: it is not UTF-8 text");
    insta::assert_snapshot!(xml_error(b"garbage"), @"cannot read a machine from m.xml: it is not XML (unknown token at 1:1)");
    insta::assert_snapshot!(
        xml_error(b"<html/>"),
        @"cannot read a machine from m.xml: it is XML, but not hwloc's: its root is not `topology`"
    );
    insta::assert_snapshot!(
        xml_error(b"<topology version=\"3.0\"/>"),
        @"cannot read a machine from m.xml: it has version 3.0 of hwloc's XML format, and only version 2 is understood here; export it with hwloc 2, or with `lstopo --export-xml-flags v2` from a newer one"
    );
    insta::assert_snapshot!(
        xml_error(b"<topology version=\"2.0\"><object type=\"Machine\"/></topology>"),
        @"cannot read a machine from m.xml: no CPU is in it"
    );
    insta::assert_snapshot!(
        xml_error(b"<topology version=\"2.0\"><object type=\"Machine\"><object type=\"PU\"/></object></topology>"),
        @"machine `m.xml` makes no sense: a PU has no valid CPU number"
    );
    insta::assert_snapshot!(
        xml_error(b"<topology version=\"2.0\"><object type=\"Machine\"><object type=\"PU\" os_index=\"-1\"/></object></topology>"),
        @"cannot read a machine from m.xml: `-1` is no valid os_index"
    );
    let missing = Machine::named("no-such-file.xml").unwrap_err().to_string();
    insta::assert_snapshot!(missing, @"cannot read a machine from no-such-file.xml: No such file or directory (os error 2)");
}

#[test]
fn sets_without_end_allow_every_cpu_from_there_on() {
    let usable = |allowed: &str| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.xml");
        let pus: String = (0..40).map(|cpu| format!("<object type=\"PU\" os_index=\"{cpu}\"/>")).collect();
        let xml = format!(
            "<topology version=\"2.0\"><object type=\"Machine\" allowed_cpuset=\"{allowed}\">{pus}</object></topology>"
        );
        fs::write(&path, xml).unwrap();
        Machine::read(&Source::Xml(path)).unwrap().usable_cpus().to_string()
    };
    assert_eq!(usable("0xf...f"), "0-39");
    assert_eq!(usable("0xf...f,0x00000003"), "0-1,32-39");
    assert_eq!(usable("0x00000080,0x0000000f"), "0-3,39");
    assert_eq!(usable("0x80,,0x1"), "0");
    assert_eq!(usable(""), "");
}

#[test]
fn a_bad_name_or_synthetic_string_gets_one_sentence() {
    let error = |text: &str| Machine::named(text).unwrap_err().to_string();
    insta::assert_snapshot!(error("xeon"), @"`xeon` is no machine: name `host`, a preset (xeon-e5620, opteron-6272, xeon-e5405, sgi-4d340, sequent-symmetry, epyc-7763), an hwloc XML file, or an hwloc synthetic string such as `pack:2 core:4 pu:2`");
    insta::assert_snapshot!(error("pack:2 core:4"), @"`pack:2 core:4` is no hwloc synthetic string: its last level is `core`, and has to be pu");
    for (text, why) in [
        ("pack:100 core:100 pu:1", "it describes more than 8192 CPUs, and no kernel knows more"),
        ("core:1000 pu:1", "core:1000 puts more than 512 objects beside each other"),
        ("pu:0x100000", "pu:1048576 puts more than 512 objects beside each other"),
        (
            "pack:2 [numa][numa][numa] die:512 [numa] pu:1",
            "it describes more than 1024 NUMA nodes, and no kernel knows more",
        ),
        (
            "pack:16 die:512 group:1 group:1 l3:1 l2:1 core:1 pu:1",
            "it describes more than 32768 objects; leave out levels that are of no interest",
        ),
        ("pu:2(indexes=0,4000000000)", "`4000000000` in `indexes=` is no number up to 65535"),
        ("pu:2(indexes=0,0xffffffff)", "`0xffffffff` in `indexes=` is no number up to 65535"),
        (&("group:1 ".repeat(126) + "pu:1"), "it has more than 32 levels"),
        ("pack:2 core:2 core:2 pu:1", "it has two levels of core"),
        ("pack:2 pu:2 core:2", "pu has to be the last level"),
        ("socket:2 cpu:2", "`cpu` is no type of object; there are package, die, group, numa, l1 to l5, core and pu"),
        ("pack:2 core pu:1", "`core` has no number; write core:2, say"),
        ("pack:2 core:x pu:1", "`x` in `core:x` is no number of objects"),
        ("pack:0 pu:1", "`pack:0` has no object"),
        ("pack:2 [numa pu:1", "a `[` has no `]`"),
        ("pack:2(size=1 pu:1", "a `(` has no `)`"),
        ("machine:1 pu:1", "a machine can't be inside of itself; leave that level out"),
    ] {
        // Of a long one, how it begins.
        let quoted = if text.len() > 240 { format!("{}...", &text[..240]) } else { text.to_owned() };
        assert_eq!(error(text), format!("`{quoted}` is no hwloc synthetic string: {why}"));
    }
}

#[test]
fn the_largest_synthetic_machines_that_are_taken_are_whole() {
    for (text, cpus) in [("pack:16 l3:16 l2:16 l1d:1 core:1 pu:2", 8192), ("numa:16 core:512 pu:1", 8192)] {
        assert_eq!(Machine::named(text).unwrap().pus().len(), cpus);
    }
}

#[test]
fn more_threads_or_cpus_than_anybody_starts_are_refused() {
    let machine = Machine::named("pack:1 core:2 pu:1").unwrap();
    for policy in Policy::NAMED.into_iter().chain([Policy::List(vec![CpuId(0)])]) {
        assert_eq!(policy.place(&machine, MAX_THREADS).unwrap().slots.len(), MAX_THREADS);
        assert_eq!(
            policy.place(&machine, 1_000_000_000).unwrap_err().to_string(),
            "1000000000 threads are more than 65536, the most that are placed; ask for fewer"
        );
    }
    let error = "0-65535,0".parse::<CpuSet>().unwrap_err().to_string();
    assert_eq!(error, "a CPU list has 65536 entries at most, and `0` is beyond that; give fewer");
    assert!("0-65535".parse::<CpuSet>().is_ok());
}

#[test]
fn a_stored_machine_that_cannot_be_is_refused() {
    for (json, why) in [
        (r#"{"kind":"core"}"#, "a core stands where none can be"),
        (r#"{"kind":"machine"}"#, "it has no CPU"),
        (r#"{"kind":"machine","children":[{"kind":"PU"}]}"#, "a PU has no valid CPU number"),
        (r#"{"kind":"machine","children":[{"kind":"core"}]}"#, "a core holds neither CPU nor memory"),
        (
            r#"{"kind":"machine","children":[{"kind":"PU","os_index":1},{"kind":"PU","os_index":1}]}"#,
            "CPU 1 appears twice",
        ),
        (
            r#"{"kind":"machine","children":[{"kind":"die","children":[{"kind":"die","children":[{"kind":"PU","os_index":0}]}]}]}"#,
            "objects of one kind lie inside each other in both orders",
        ),
        (r#"{"kind":"chip"}"#, "`chip` is not a kind of object in a machine"),
    ] {
        let json = format!(r#"{{"name":"m","source":"host","tree":{json}}}"#);
        let error = serde_json::from_str::<Machine>(&json).unwrap_err().to_string();
        assert!(error.starts_with(why), "{error}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_parsers_panic(text in any::<String>()) {
        let _ = text.parse::<CpuSet>();
        let _ = text.parse::<Policy>();
        let _ = text.parse::<Syntax>();
        let _ = text.parse::<Kind>();
        let _ = text.parse::<Source>();
        let _ = Placement::from_list_on_host(&text);
    }

    #[test]
    fn no_text_like_a_cpu_list_makes_the_parser_panic(text in "[0-9,:-]{0,24}") {
        if let Ok(cpus) = text.parse::<CpuSet>() {
            prop_assert_eq!(cpus.to_string().parse::<CpuSet>().unwrap(), cpus);
        }
    }

    #[test]
    fn no_text_like_a_synthetic_string_ends_the_process(
        text in r"((pack|die|numa|l3|l2|l1i|core|pu|group|node)?:?[0-9]{0,3}(\((size|memory|indexes)=[0-9a-zA-Z:,*]{0,8}\))?[ \[\]]?){0,6}"
    ) {
        if let Ok(machine) = Machine::read(&Source::Synthetic(text)) {
            prop_assert!(!machine.pus().is_empty());
        }
    }

    #[test]
    fn no_damaged_file_makes_the_reader_panic(
        name in prop::sample::select(vec!["hybrid-p-e-lpe", "offline-and-disallowed", "two-memories", "amd-family-15h"]),
        damage in prop::collection::vec((0.0..1.0, 0_usize..40, "[<>\"/=0-9a-fx.\\-A-Z ]{0,6}"), 1..5),
    ) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(name).with_extension("xml");
        let mut content = fs::read(path).unwrap();
        for (place, length, replacement) in damage {
            let start = (place * content.len() as f64) as usize;
            let end = (start + length).min(content.len());
            content.splice(start..end, replacement.bytes());
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.xml");
        fs::write(&path, content).unwrap();
        if let Ok(machine) = Machine::read(&Source::Xml(path)) {
            prop_assert!(!machine.to_text(None).is_empty());
            prop_assert!(machine.to_xml().ends_with("</topology>\n"));
        }
    }
}
