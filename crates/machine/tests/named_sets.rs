//! Sets of CPUs by name: what stands in the tree, read once more by brute force, and what is said where there is no such set.

#![expect(clippy::unwrap_used, reason = "in a test, a failed unwrap is a failed test")]

use proptest::prelude::*;
use stayput_machine::record::{MachineRecord, ObjectRecord};
use stayput_machine::tree::{Cache, CoreKind, ForbiddenBy, NumaNode, Source};
use stayput_machine::{CpuId, CpuSet, Kind, Machine, NamedSet, Policy, preset};
use std::collections::BTreeSet;
use std::fs;
use std::num::NonZeroU64;
use std::path::Path;

fn corpus(file: &str) -> String {
    format!("{}/tests/corpus/{file}", env!("CARGO_MANIFEST_DIR"))
}

/// The CPUs of a set on a machine in the order in which threads get them, or why there is none.
fn cpus(set: &str, machine: &str) -> String {
    let machine = Machine::named(machine).unwrap();
    let policy = match set.parse::<Policy>() {
        Ok(policy) => policy,
        Err(error) => return error.to_string(),
    };
    match policy.place(&machine, policy.default_threads(&machine)) {
        Ok(placement) => {
            assert_eq!(placement.policy, set);
            placement.cpus().unwrap().iter().map(CpuId::to_string).collect::<Vec<_>>().join(" ")
        }
        Err(error) => error.to_string(),
    }
}

#[test]
fn cores_of_a_kind_are_those_that_the_maker_calls_so() {
    let hybrid = &corpus("hybrid-p-e-lpe.xml");
    assert_eq!(cpus("p-cores", hybrid), "0 1 2 3");
    assert_eq!(cpus("e-cores", hybrid), "4 5 6 7", "LP-E cores are none");
    assert_eq!(cpus("one-per-core", hybrid), "0 2 4 5 6 7 8 9");
    assert_eq!(cpus("l3:0", hybrid), "0 1 2 3 4 5 6 7");
    assert_eq!(cpus("largest-l3", hybrid), "0 1 2 3 4 5 6 7");
    assert_eq!(
        cpus("e-cores", "xeon-e5620"),
        "this machine has no E cores: its cores are of one kind, as far as is known"
    );
}

#[test]
fn kinds_of_core_that_nobody_named_are_told() {
    let mut record = MachineRecord::from(Machine::named("pack:1 core:4 pu:1").unwrap());
    let kind = |name: &str, cpus: &str| CoreKind {
        name: name.into(),
        core_type: None,
        efficiency: None,
        cpus: cpus.parse().unwrap(),
    };
    record.core_kinds = vec![kind("kind 0", "0-1"), kind("kind 1", "2-3")];
    let machine = Machine::try_from(record.clone()).unwrap();
    assert_eq!(
        NamedSet::PCores.cpus(&machine).unwrap_err().to_string(),
        "this machine has no P cores; the kinds of its cores are kind 0, kind 1"
    );
    // Where several kinds have one name, they are numbered.
    record.core_kinds = vec![kind("E", "0"), kind("P0", "1,3"), kind("P1", "2")];
    let machine = Machine::try_from(record).unwrap();
    assert_eq!(NamedSet::PCores.cpus(&machine).unwrap(), [CpuId(1), CpuId(2), CpuId(3)]);
}

#[test]
fn siblings_sit_next_to_each_other_in_tree_order_whatever_the_kernel_numbers_them() {
    let smt = &corpus("sub-numa-smt.xml");
    assert_eq!(cpus("package:1", smt), "4 20 5 21 6 22 7 23");
    assert_eq!(cpus("one-per-core", "pack:2 core:2 pu:2(indexes=0,4,1,5,2,6,3,7)"), "0 1 2 3");
    assert_eq!(cpus("package:1", "pack:2 core:2 pu:2(indexes=0,4,1,5,2,6,3,7)"), "2 6 3 7");
}

#[test]
fn presets_have_the_sets_that_their_papers_speak_of() {
    assert_eq!(cpus("node:7", "opteron-6272"), "56 57 58 59 60 61 62 63");
    assert_eq!(cpus("l3:1", "opteron-6272"), "8 9 10 11 12 13 14 15");
    assert_eq!(cpus("package:1", "opteron-6272"), (16..32).map(|cpu| cpu.to_string()).collect::<Vec<_>>().join(" "));
    assert_eq!(cpus("largest-l3", "opteron-6272"), "0 1 2 3 4 5 6 7", "of equal ones the first");
    assert_eq!(cpus("package:1", "xeon-e5620"), "4 5 6 7");
    assert_eq!(cpus("largest-l3", "xeon-e5405"), "this machine has no L3");
}

#[test]
fn the_largest_l3_is_that_of_most_bytes() {
    let mut record = MachineRecord::from(Machine::named("pack:3 l3:1 core:2 pu:1").unwrap());
    for (package, size) in
        record.tree.children.iter_mut().zip([None, NonZeroU64::new(96 << 20), NonZeroU64::new(32 << 20)])
    {
        package.children[0].cache = Some(Cache { size_bytes: size, ..Cache::default() });
    }
    let largest =
        |record: &MachineRecord| NamedSet::LargestL3.cpus(&Machine::try_from(record.clone()).unwrap()).unwrap();
    assert_eq!(largest(&record), [CpuId(2), CpuId(3)]);
    // One that has no usable CPU is none.
    for core in &mut record.tree.children[1].children[0].children {
        core.children[0].forbidden_by = Some(ForbiddenBy::AffinityMask);
    }
    assert_eq!(largest(&record), [CpuId(4), CpuId(5)]);
}

#[test]
fn what_is_not_there_is_said_with_what_is() {
    let machine = "pack:2 [numa] l3:1 core:2 pu:1";
    for (set, machine, sentence) in [
        ("node:3", machine, "there is no NUMA node 3 here; there are 0-1"),
        ("node:1", "pack:1 core:2 pu:1", "there is no NUMA node 1 here; there is 0 alone"),
        ("package:2", machine, "there is no package 2 here; there are 0-1"),
        ("l3:65535", machine, "there is no L3 65535 here; there are 0-1"),
        ("l3:0", "pack:1 core:2 pu:1", "this machine has no L3"),
        ("package:0", "core:2 pu:1", "this machine has no package"),
        ("p-cores", machine, "this machine has no P cores: its cores are of one kind, as far as is known"),
        ("node:2", &corpus("memory-only.xml"), "NUMA node 2 has no CPU here"),
        ("package:2", &corpus("package-without-cpus.xml"), "package 2 has no CPU here"),
    ] {
        assert_eq!(cpus(set, machine), sentence, "{set} on {machine}");
    }
}

#[test]
fn a_set_of_which_all_is_forbidden_says_so() {
    let mut record = MachineRecord::from(Machine::named("pack:2 core:1 pu:1").unwrap());
    record.tree.children[1].children[0].children[0].forbidden_by = Some(ForbiddenBy::AffinityMask);
    let machine = Machine::try_from(record).unwrap();
    assert_eq!(
        NamedSet::Package(1).cpus(&machine).unwrap_err().to_string(),
        "no CPU of package 1 is usable here; `stayput topology` says who forbids them"
    );
}

#[test]
fn a_name_that_is_wrong_is_told_how_to_be_right() {
    let unnumbered = |text: &str, kind: &str| {
        format!("`{text}` names no set of CPUs: `{kind}:` needs a whole number after it, as in {kind}:0")
    };
    let too_large = |text: &str| {
        format!(
            "the number in `{text}` is beyond the largest of any machine, 65535; `stayput topology` shows those of this one"
        )
    };
    for (text, sentence) in [
        ("node:", unnumbered("node:", "node")),
        ("node", unnumbered("node", "node")),
        ("node:x", unnumbered("node:x", "node")),
        ("node:+1", unnumbered("node:+1", "node")),
        ("node: 1", unnumbered("node: 1", "node")),
        ("node:0-1", unnumbered("node:0-1", "node")),
        ("l3:-1", unnumbered("l3:-1", "l3")),
        ("package:0:1", unnumbered("package:0:1", "package")),
        ("node:99999999999", too_large("node:99999999999")),
        ("l3:99999999999999999999999999", too_large("l3:99999999999999999999999999")),
        (
            "p-core",
            "`p-core` is no policy: write compact, scatter, balanced, semi-balanced, unbalanced, a set of CPUs (p-cores, \
             e-cores, node:N, package:N, l3:N, one-per-core, largest-l3), or a CPU list such as 0,8,1,9"
                .into(),
        ),
    ] {
        assert_eq!(text.parse::<Policy>().unwrap_err().to_string(), sentence);
    }
    assert!(
        "numa:0"
            .parse::<NamedSet>()
            .unwrap_err()
            .to_string()
            .starts_with("`numa:0` names no set of CPUs: write p-cores")
    );
}

/// A PU as the tree alone tells of it.
struct Read<'a> {
    cpu: CpuId,
    is_usable: bool,
    /// The objects around it, each with its place among all objects in depth-first order.
    around: Vec<(usize, &'a ObjectRecord)>,
}

fn read<'a>(
    object: &'a ObjectRecord,
    around: &mut Vec<(usize, &'a ObjectRecord)>,
    count: &mut usize,
    into: &mut Vec<Read<'a>>,
) {
    around.push((*count, object));
    *count += 1;
    if object.kind == Kind::Pu {
        let cpu = CpuId(object.os_index.unwrap());
        into.push(Read { cpu, is_usable: object.forbidden_by.is_none(), around: around.clone() });
    }
    for child in &object.children {
        read(child, around, count, into);
    }
    around.pop();
}

/// The places of all objects of a kind, in depth-first order, with or without CPUs.
fn places(object: &ObjectRecord, kind: Kind, count: &mut usize) -> Vec<usize> {
    let mut places = if object.kind == kind { vec![*count] } else { Vec::new() };
    *count += 1;
    places.extend(object.children.iter().flat_map(|child| self::places(child, kind, count)).collect::<Vec<_>>());
    places
}

/// The CPUs of a set as a reader of the tree would write them down, in tree order; none where there are none.
fn by_brute_force(record: &MachineRecord, set: NamedSet) -> Vec<CpuId> {
    let mut pus = Vec::new();
    read(&record.tree, &mut Vec::new(), &mut 0, &mut pus);
    let at = |pu: &Read, kind: Kind| pu.around.iter().find(|(_, object)| object.kind == kind).map(|(place, _)| *place);
    let nth = |kind: Kind, n: u32| places(&record.tree, kind, &mut 0).get(n as usize).copied();
    let of_kind = |pu: &Read, word: &str| {
        let kind = record.core_kinds.iter().find(|kind| kind.cpus.contains(pu.cpu));
        kind.is_some_and(|kind| kind.name == word)
    };
    let l3_size = |pu: &Read| {
        let l3 = pu.around.iter().find(|(_, object)| object.kind == Kind::Cache(3));
        l3.map(|(_, object)| object.cache.and_then(|cache| cache.size_bytes).map_or(0, NonZeroU64::get))
    };
    let usable: Vec<&Read> = pus.iter().filter(|pu| pu.is_usable).collect();
    let most = usable.iter().filter_map(|pu| l3_size(pu)).max();
    let largest = usable.iter().find(|pu| l3_size(pu) == most).and_then(|pu| at(pu, Kind::Cache(3)));
    let mut seen = BTreeSet::new();
    let mut is_member = |pu: &Read| match set {
        NamedSet::PCores => of_kind(pu, "P"),
        NamedSet::ECores => of_kind(pu, "E"),
        NamedSet::Node(n) => {
            pu.around.iter().any(|(_, object)| object.numa_nodes.iter().any(|node| node.os_index == n))
        }
        NamedSet::Package(n) => at(pu, Kind::Package).is_some_and(|place| nth(Kind::Package, n) == Some(place)),
        NamedSet::L3(n) => at(pu, Kind::Cache(3)).is_some_and(|place| nth(Kind::Cache(3), n) == Some(place)),
        NamedSet::OnePerCore => at(pu, Kind::Core).is_none_or(|core| seen.insert(core)),
        NamedSet::LargestL3 => largest.is_some() && at(pu, Kind::Cache(3)) == largest,
    };
    usable.iter().filter(|pu| is_member(pu)).map(|pu| pu.cpu).collect()
}

/// Every set that a machine may have, and some that it has not.
fn asked() -> Vec<NamedSet> {
    let numbered = (0..9).flat_map(|n| [NamedSet::Node(n), NamedSet::Package(n), NamedSet::L3(n)]);
    NamedSet::UNNUMBERED.into_iter().chain(numbered).collect()
}

fn check(machine: &Machine) {
    let record = MachineRecord::from(machine.clone());
    let mut all = Vec::new();
    for set in asked() {
        let expected = by_brute_force(&record, set);
        let policy = Policy::Set(set);
        assert_eq!(policy.to_string().parse::<Policy>().as_ref(), Ok(&policy));
        let Ok(found) = set.cpus(machine) else {
            assert_eq!(expected, [], "{set} of {}", machine.to_text(None));
            assert!(policy.place(machine, 1).is_err());
            continue;
        };
        assert_eq!(found, expected, "{set} of {}", machine.to_text(None));
        assert_eq!(policy.default_threads(machine), found.len());
        // Each once before any twice, and then the first again.
        for threads in [1, found.len(), found.len() + 2] {
            let placement = policy.place(machine, threads).unwrap();
            assert_eq!(placement.slots.len(), threads);
            assert_eq!(placement.doubled_up(), threads.saturating_sub(found.len()));
            assert!(placement.cpus().unwrap().iter().zip(found.iter().cycle()).all(|(a, b)| a == b));
        }
        all.push(set);
    }
    let of_machine = NamedSet::all_of(machine);
    assert!(all.iter().all(|set| of_machine.contains(set)));
    assert!(of_machine.iter().all(|set| set.cpus(machine).is_ok()));
}

#[test]
fn sets_of_presets_and_real_machines_are_those_of_the_tree() {
    for name in preset::names() {
        check(&Machine::named(name).unwrap());
    }
    let folder = corpus("");
    let files = fs::read_dir(Path::new(&folder)).unwrap().map(|entry| entry.unwrap().path());
    for path in files.filter(|path| path.extension().is_some_and(|extension| extension == "xml")) {
        check(&Machine::read(&Source::Xml(path)).unwrap());
    }
    check(&Machine::host().unwrap());
}

proptest! {
    #[test]
    fn sets_of_synthetic_machines_are_those_of_the_tree(counts in prop::array::uniform5(1_usize..4), numa in 0..3) {
        let [packages, l3, l2, cores, pus] = counts;
        let (outer, inner) = match numa {
            0 => ("", ""),
            1 => ("[numa] ", ""),
            _ => ("", "[numa] "),
        };
        let text = format!("pack:{packages} {outer}l3:{l3} {inner}l2:{l2} core:{cores} pu:{pus}");
        check(&Machine::named(&text).unwrap());
    }

    #[test]
    fn sets_of_irregular_machines_are_those_of_the_tree(machine in machine()) {
        check(&machine);
    }
}

/// Objects of any size with levels left out, sizes unknown, memory anywhere, CPUs forbidden and kinds of core mixed.
fn machine() -> impl Strategy<Value = Machine> {
    let pu = Just(ObjectRecord::new(Kind::Pu, Vec::new()));
    let core = around(Kind::Core, pu, 2);
    let l2 = around(Kind::Cache(2), core, 3);
    let l3 = around(Kind::Cache(3), l2, 2);
    let package = around(Kind::Package, l3, 3);
    (prop::collection::vec(package, 1..=3), any::<u64>()).prop_map(|(inside, seed)| {
        let mut rest = seed;
        let mut next = move |below: u64| {
            // A step of a linear congruential generator: it need not be good.
            rest = rest.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (rest >> 33) % below
        };
        let mut tree = ObjectRecord::new(Kind::Machine, inside);
        let mut numbers = (0, 0);
        annotate(&mut tree, &mut next, &mut numbers);
        let kind = |name: &str, nth: u32| CoreKind {
            name: name.into(),
            core_type: None,
            efficiency: None,
            cpus: (0..numbers.0).map(CpuId).filter(|cpu| cpu.0 / 2 % 3 == nth).collect(),
        };
        let core_kinds = if next(2) == 0 { Vec::new() } else { vec![kind("LP-E", 0), kind("E", 1), kind("P", 2)] };
        let record = MachineRecord { core_kinds, tree, ..MachineRecord::from(Machine::named("core:1 pu:1").unwrap()) };
        Machine::try_from(MachineRecord { usable_cpus: CpuSet::new(), ..record }).unwrap()
    })
}

fn around(
    kind: Kind,
    inner: impl Strategy<Value = ObjectRecord> + 'static,
    at_most: usize,
) -> impl Strategy<Value = ObjectRecord> {
    (prop::collection::vec(inner, 1..=at_most), prop::bool::weighted(0.8)).prop_map(move |(mut inside, is_there)| {
        if is_there { ObjectRecord::new(kind, inside) } else { inside.remove(0) }
    })
}

/// Numbers PUs and NUMA nodes, and draws what else is known of each object.
fn annotate(object: &mut ObjectRecord, next: &mut impl FnMut(u64) -> u64, numbers: &mut (u32, u32)) {
    match object.kind {
        Kind::Pu => {
            // Every other number first, so that the order of numbers is not that of the tree.
            object.os_index = Some(numbers.0 ^ 1);
            object.forbidden_by = (next(5) == 0).then_some(ForbiddenBy::Description);
            numbers.0 += 1;
        }
        Kind::Cache(_) => {
            let size_bytes = NonZeroU64::new(next(3) << 20);
            object.cache = Some(Cache { size_bytes, ..Cache::default() });
        }
        Kind::Package | Kind::Machine if next(2) == 0 => {
            for _ in 0..=next(2) {
                object.numa_nodes.push(NumaNode { os_index: numbers.1, memory_bytes: None, forbidden: false });
                numbers.1 += 1;
            }
        }
        _ => {}
    }
    for child in &mut object.children {
        annotate(child, next, numbers);
    }
}
