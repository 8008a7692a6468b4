//! Texts of a megabyte that are made to take long: each has an answer, and soon.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod answers;

use answers::{check, filled, numbered};
use stayput_machine::cpu::parse_cpu_list;
use stayput_machine::{Machine, Policy, Source};

#[test]
fn cpu_lists() {
    let cases = vec![
        ("single", filled("1,") + "1", Some("65536 entries at most")),
        ("ranges", filled("0-65535,") + "0", Some("65536 entries at most")),
        ("range of all numbers", "0-4294967295".into(), Some("beyond the largest CPU number 65535")),
        ("digits", filled("9"), Some("beyond the largest CPU number")),
        ("zeros", filled("0"), None),
        ("strides", filled("0-65535:65535,") + "0", Some("65536 entries at most")),
        ("dashes", filled("-"), Some("is not a CPU number")),
        ("colons", format!("0-1:{}", filled(":")), Some("is not a CPU number")),
        ("commas", filled(","), Some("is not a CPU number")),
        ("spaces", filled(" "), Some("the CPU list is empty")),
    ];
    check(cases.clone(), |text| parse_cpu_list(text).map(drop).map_err(|error| error.to_string()));
    // The same as placements, which may also be names.
    check(vec![("letters", filled("compact"), Some("is no policy"))], |text| {
        text.parse::<Policy>().map(drop).map_err(|error| error.to_string())
    });
}

fn synthetic(text: &str) -> Result<(), String> {
    Machine::read(&Source::Synthetic(text.into())).map(drop).map_err(|error| error.to_string())
}

#[test]
fn synthetic_strings() {
    let beyond = Some("in `indexes=` is no number up to 65535");
    let long = Some("it has more than 131072 bytes");
    check(
        vec![
            ("a second list", "pu:2(indexes=0,8 indexes=0,2147483647)".into(), beyond),
            ("a list of memory", "pack:2 [numa(memory=1GB)(indexes=0,2147483647)] pu:1".into(), beyond),
            ("a list of cores", "core:2(indexes=0,2147483647) pu:1".into(), beyond),
            ("a list of the machine", "(indexes=2147483647) pu:2".into(), beyond),
            ("a list in a word", "pu:2(size=1indexes=2147483647)".into(), beyond),
            ("hexadecimal", "pu:2(indexes=0,0x7fffffff)".into(), beyond),
            ("steps", "pu:4(indexes=2147483647*2:1*2)".into(), beyond),
            ("loops", format!("pu:4(indexes={}1*2)", "1*2:".repeat(10_000)), Some("more than 32 loops")),
            ("levels", "group:1 ".repeat(10_000) + "pu:1", Some("more than 32 levels")),
            ("children", "core:8192 pu:1".into(), Some("more than 512 objects beside each other")),
            ("CPUs", "pack:512 core:512 pu:512".into(), Some("more than 8192 CPUs")),
            ("nodes", "pack:512 [numa] [numa] [numa] pu:1".into(), Some("more than 1024 NUMA nodes")),
            ("objects", "pack:64 l3:2 l2:64 l1:1 core:1 pu:1".into(), Some("more than 32768 objects")),
            ("numbers", format!("pu:{}", "9".repeat(100_000)), Some("is no number of objects")),
            ("words", "x".repeat(100_000) + ":2 pu:2", Some("is no type of object")),
            ("many levels", filled("pack:1 "), long),
            ("many memories", format!("pack:1 {}pu:1", filled("[numa]").split_at(1_000_000).0), long),
            ("many lists", format!("pu:2({}", filled("indexes=0,1 ").split_at(1_000_000).0), long),
            ("parentheses", filled("("), long),
        ],
        synthetic,
    );
}

/// hwloc's XML with `objects` in its machine, and `end` after it.
fn xml(machine: &str, objects: &str, end: &str) -> String {
    format!("<topology version=\"2.0\"><object type=\"Machine\" {machine}>{objects}</object>{end}</topology>")
}

const PU: &str = "<object type=\"PU\" os_index=\"0\"/>";

fn from_xml(text: &str) -> Result<(), String> {
    let file = tempfile::NamedTempFile::with_suffix(".xml").unwrap();
    std::fs::write(file.path(), text).unwrap();
    Machine::read(&Source::Xml(file.path().into())).map(drop).map_err(|error| error.to_string())
}

#[test]
fn xml_files() {
    let endless = "<object type=\"Package\" cpuset=\"0xf...f\" complete_cpuset=\"0x1\"/>";
    let package = "<object type=\"Package\"/>";
    let around = 400;
    let most = |part: &str| part.repeat(((1 << 20) - around) / part.len());
    let nodes = |number| format!("<object type=\"NUMANode\" os_index=\"{number}\"/>");
    let half = |part: &dyn Fn(usize) -> String| (0..8000).map(part).collect::<String>();
    let numbers: String = (0..8000).map(|number| format!("{number} ")).collect();
    let distances = format!(
        "<distances2 type=\"NUMANode\" indexing=\"os\"><indexes>{numbers}</indexes><u64values>1</u64values></distances2>"
    );
    let laughs: String =
        (1..30).map(|n| format!("<!ENTITY a{n} \"{}\">", format!("&a{};", n - 1).repeat(10))).collect();
    check(
        vec![
            ("endless sets", xml("", &(PU.to_owned() + &most(endless)), ""), None),
            (
                "a long set",
                xml(&format!("allowed_cpuset=\"{}\"", most("0xffffffff,")), PU, ""),
                Some("is beyond CPU 65535"),
            ),
            ("packages", xml("", &(PU.to_owned() + &most(package)), ""), None),
            (
                "CPUs",
                xml("", &numbered(around, |n| format!("<object type=\"PU\" os_index=\"{n}\"/>")), ""),
                Some("8192"),
            ),
            ("kinds of core", xml("", PU, &most("<cpukind cpuset=\"0xf...f\"/>")), Some("more than 64 kinds of core")),
            ("attributes", xml(&numbered(around, |n| format!("a{n}=\"\" ")), PU, ""), Some("more than 500 attributes")),
            ("distances", xml("", &(PU.to_owned() + &half(&nodes)), &distances), None),
            ("nested objects", xml("", &most("<object type=\"Group\">"), ""), Some("it is not XML")),
            (
                "deep objects",
                xml("", &("<object type=\"Group\">".repeat(20_000) + PU + &"</object>".repeat(20_000)), ""),
                Some("nested"),
            ),
            (
                "deep memory",
                xml("", &("<object type=\"MemCache\">".repeat(20_000) + &"</object>".repeat(20_000)), ""),
                Some("no CPU"),
            ),
            (
                "entities",
                format!("<!DOCTYPE topology [<!ENTITY a0 \"ha\">{laughs}]>{}", xml("", &format!("{PU}&a29;"), "")),
                Some("it is not XML"),
            ),
            ("comments", xml("", &(PU.to_owned() + &most("<!---->")), ""), None),
            (
                "numbers",
                xml("", &format!("<object type=\"PU\" os_index=\"{}\"/>", most("9")), ""),
                Some("is no valid os_index"),
            ),
            ("open tags", filled("<"), Some("it is not XML")),
        ],
        from_xml,
    );
}
