//! The policies: the papers' own lists, closed forms on regular machines, and promises on any machine.

#![expect(clippy::unwrap_used, reason = "in a test, a failed unwrap is a failed test")]

use proptest::prelude::*;
use stayput_machine::record::{MachineRecord, ObjectRecord};
use stayput_machine::tree::{ForbiddenBy, Source};
use stayput_machine::{CpuId, CpuSet, Kind, Machine, Policy, Syntax};
use std::collections::{BTreeMap, BTreeSet};

fn placed(policy: &str, threads: usize, machine: &str) -> String {
    let machine = Machine::named(machine).unwrap();
    let placement = policy.parse::<Policy>().unwrap().place(&machine, threads).unwrap();
    Syntax::Gomp.value(&placement).unwrap()
}

#[test]
fn scatter_gives_the_lists_of_the_pires_papers() {
    assert_eq!(placed("scatter", 8, "xeon-e5620"), "0 4 1 5 2 6 3 7");
    assert_eq!(placed("compact", 8, "xeon-e5620"), "0 1 2 3 4 5 6 7");
    // Pires 2017, footnote 1.
    assert_eq!(
        placed("scatter", 64, "opteron-6272"),
        "0 16 32 48 8 24 40 56 2 18 34 50 10 26 42 58 4 20 36 52 12 28 44 60 6 22 38 54 14 30 46 62 \
         1 17 33 49 9 25 41 57 3 19 35 51 11 27 43 59 5 21 37 53 13 29 45 61 7 23 39 55 15 31 47 63"
    );
}

#[test]
fn two_threads_on_the_e5405_give_the_three_classes_of_the_weber_poster() {
    let machine = Machine::named("xeon-e5405").unwrap();
    let class = |policy: &str| {
        let placement = policy.parse::<Policy>().unwrap().place(&machine, 2).unwrap();
        let cpus = placement.cpus().unwrap();
        let same = |kind| machine.enclosing(cpus[0], kind) == machine.enclosing(cpus[1], kind);
        (same(Kind::Package), same(Kind::Cache(2)))
    };
    assert_eq!(class("balanced"), (false, false));
    assert_eq!(class("semi-balanced"), (true, false));
    assert_eq!(class("unbalanced"), (true, true));
}

#[test]
fn balanced_keeps_neighbours_together_on_the_cpus_of_scatter() {
    assert_eq!(placed("balanced", 8, "opteron-6272"), "0 8 16 24 32 40 48 56");
    assert_eq!(placed("semi-balanced", 10, "opteron-6272"), "0 8 2 10 4 12 6 14 1 9");
}

#[test]
fn performance_cores_are_not_doubled_up_while_efficiency_cores_idle() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/hybrid-p-e-lpe.xml");
    // The cores outside of the L3 count as one more L3.
    assert_eq!(placed("scatter", 10, path), "0 8 2 9 4 5 6 7 1 3");
}

/// An object of `kind` around `count` copies of `inside`.
fn around(kind: Kind, count: usize, inside: &ObjectRecord) -> ObjectRecord {
    ObjectRecord::new(kind, vec![inside.clone(); count])
}

/// The machine with these objects directly inside, its CPUs numbered in tree order.
fn machine_of(inside: Vec<ObjectRecord>) -> Machine {
    let mut tree = ObjectRecord::new(Kind::Machine, inside);
    number_pus(&mut tree, &mut (0..).map(|number| (number, false)));
    machine_with(tree)
}

#[test]
fn a_package_that_lacks_an_l3_gets_no_more_than_its_share() {
    let core = around(Kind::Core, 1, &ObjectRecord::new(Kind::Pu, Vec::new()));
    let with_l3 = around(Kind::Package, 1, &around(Kind::Cache(3), 9, &core));
    let without = around(Kind::Package, 9, &core);
    let machine = machine_of(vec![with_l3.clone(), with_l3.clone(), without, with_l3]);
    let scatter = Policy::Scatter.place(&machine, 12).unwrap();
    let packages: Vec<_> =
        scatter.cpus().unwrap().iter().map(|&cpu| machine.enclosing(cpu, Kind::Package).unwrap()).collect();
    let loads: Vec<usize> = (machine.objects().filter(|(_, object)| object.kind == Kind::Package))
        .map(|(package, _)| packages.iter().filter(|&&other| other == package).count())
        .collect();
    assert_eq!(loads, [3, 3, 3, 3]);
}

#[test]
fn unequal_packages_get_as_many_threads_each_as_long_as_cores_are_idle() {
    let core = around(Kind::Core, 1, &ObjectRecord::new(Kind::Pu, Vec::new()));
    let many_l2 = around(Kind::Package, 5, &around(Kind::Cache(2), 1, &core));
    let few_l2 = around(Kind::Package, 3, &around(Kind::Cache(2), 2, &core));
    let machine = machine_of(vec![many_l2, few_l2]);
    let scatter = Policy::Scatter.place(&machine, 8).unwrap().union();
    assert_eq!(scatter.iter().filter(|cpu| cpu.0 < 5).count(), 4, "{scatter}");
}

#[test]
fn cpus_outside_of_any_package_are_used_before_any_cpu_is_shared() {
    let core = around(Kind::Core, 1, &ObjectRecord::new(Kind::Pu, Vec::new()));
    let mut inside = vec![around(Kind::Package, 7, &core); 3];
    inside.extend(vec![core; 10]);
    let machine = machine_of(inside);
    let semi_balanced = |threads| Policy::SemiBalanced.place(&machine, threads).unwrap();
    assert_eq!(semi_balanced(31).doubled_up(), 0);
    assert_eq!(semi_balanced(21).union().to_string(), "0-20");
    // What is outside of the packages counts as one more.
    let scatter = Policy::Scatter.place(&machine, 4).unwrap();
    assert_eq!(scatter.union().to_string(), "0,7,14,21");
}

#[test]
fn two_compact_threads_share_a_core_wherever_one_has_two_cpus() {
    let pu = ObjectRecord::new(Kind::Pu, Vec::new());
    let machine = machine_of(vec![around(Kind::Package, 3, &around(Kind::Core, 1, &pu)), around(Kind::Core, 2, &pu)]);
    let compact = |threads| Policy::Compact.place(&machine, threads).unwrap().union().to_string();
    assert_eq!(compact(1), "0");
    assert_eq!(compact(2), "3-4");
    assert_eq!(compact(3), "0-2", "one package holds three, and no core does");
    assert_eq!(compact(4), "0-1,3-4", "three cores instead of four");
}

#[test]
fn more_threads_than_cpus_start_again_at_the_first() {
    assert_eq!(placed("compact", 6, "pack:2 core:2 pu:1"), "0 1 2 3 0 1");
    assert_eq!(placed("1,0", 3, "pack:2 core:2 pu:1"), "1 0 1");
}

#[test]
fn a_footprint_names_each_level_once() {
    let footprint = |machine: &str, policy: Policy, threads| {
        let machine = Machine::named(machine).unwrap();
        policy.place(&machine, threads).unwrap().footprint(&machine).to_string()
    };
    assert_eq!(footprint("xeon-e5405", Policy::Scatter, 4), "4 threads on 2 packages, 4 L2, 4 cores");
    assert_eq!(footprint("xeon-e5620", Policy::Scatter, 1), "1 thread on 1 package, 1 core");
    assert_eq!(footprint("sgi-4d340", Policy::Compact, 4), "4 threads on 4 packages, 4 cores");
    assert_eq!(footprint("pack:1 core:2 pu:2", Policy::Compact, 3), "3 threads on 1 package, 2 cores, 3 CPUs");
}

proptest! {
    /// On a regular machine scatter deals out: the position of thread `i` has the digits of `i`, the outermost level first.
    #[test]
    fn scatter_deals_out_on_regular_machines(counts in prop::array::uniform5(1_usize..4)) {
        let [packages, l3, l2, cores, pus] = counts;
        let machine = Machine::named(&format!("pack:{packages} l3:{l3} l2:{l2} core:{cores} pu:{pus}")).unwrap();
        let total: usize = counts.iter().product();
        let cpus = Policy::Scatter.place(&machine, total).unwrap().cpus().unwrap();
        for (thread, cpu) in cpus.iter().enumerate() {
            let (mut rest, mut position) = (thread, 0);
            let mut size = total;
            for count in counts {
                size /= count;
                position += rest % count * size;
                rest /= count;
            }
            prop_assert_eq!(*cpu, machine.pus()[position].cpu);
        }
    }

    #[test]
    fn every_thread_is_placed_once_and_only_where_it_may_be(machine in irregular_machine()) {
        let usable = machine.usable_cpus();
        for policy in Policy::NAMED {
            for threads in 1..=usable.len() {
                let placement = policy.place(&machine, threads).unwrap();
                prop_assert_eq!(placement.slots.len(), threads);
                prop_assert_eq!(placement.union().len(), threads, "{} repeats a CPU", policy);
                prop_assert!(placement.union().is_subset(&usable), "{} uses a forbidden CPU", policy);
                prop_assert_eq!(placement.doubled_up(), 0);
            }
            let wrapped = policy.place(&machine, usable.len() + 3).unwrap();
            prop_assert_eq!(wrapped.slot(usable.len()), wrapped.slot(0));
        }
    }

    #[test]
    fn compact_follows_the_tree_and_unbalanced_is_the_same(machine in irregular_machine()) {
        for threads in [1, 2, 3, machine.usable().count()] {
            let compact = Policy::Compact.place(&machine, threads).unwrap();
            let positions: Vec<_> =
                compact.cpus().unwrap().into_iter().take(threads).map(|cpu| machine.pu_index(cpu)).collect();
            prop_assert!(positions.len() == threads && (threads > machine.usable().count() || positions.is_sorted()));
            prop_assert!(compact.same_slots(&Policy::Unbalanced.place(&machine, threads).unwrap()));
        }
    }

    #[test]
    fn compact_takes_the_first_cpus_of_a_regular_machine(counts in prop::array::uniform5(1_usize..4)) {
        let [packages, l3, l2, cores, pus] = counts;
        let machine = Machine::named(&format!("pack:{packages} l3:{l3} l2:{l2} core:{cores} pu:{pus}")).unwrap();
        let order: Vec<CpuId> = machine.usable().collect();
        for threads in 1..=order.len() {
            let compact = Policy::Compact.place(&machine, threads).unwrap().cpus().unwrap();
            prop_assert_eq!(&compact[..], &order[..threads]);
        }
    }

    /// As few packages as hold the threads, with those as few dies, and so on: compared with every set of as many CPUs.
    #[test]
    fn no_cpus_share_more_than_those_of_compact(machine in small_machine()) {
        let cpus: Vec<CpuId> = machine.usable().collect();
        let levels: Vec<_> = PRIVATE_OUTSIDE_IN.iter().map(|kinds| groups(&machine, &cpus, kinds, false)).collect();
        let used = |set: u32| -> Vec<usize> { levels.iter().map(|groups| loads(groups, set).len()).collect() };
        for threads in 1..=cpus.len() {
            let chosen = Policy::Compact.place(&machine, threads).unwrap().union();
            let least = sets(cpus.len(), threads).map(used).min();
            prop_assert_eq!(Some(used(as_bits(&cpus, &chosen))), least, "{} threads: {}", threads, chosen);
        }
    }

    /// At every prefix the loads of cores, then packages, dies, L3 and L2 are the lowest of all sets of as many CPUs.
    #[test]
    fn no_cpus_share_less_than_any_prefix_of_scatter(machine in small_machine()) {
        let cpus: Vec<CpuId> = machine.usable().collect();
        let order = Policy::Scatter.place(&machine, cpus.len()).unwrap().cpus().unwrap();
        let [core, package, die, l3, l2] = [
            groups(&machine, &cpus, &[Kind::Core], false),
            groups(&machine, &cpus, &[Kind::Package], true),
            groups(&machine, &cpus, &[Kind::Die, Kind::Package], true),
            groups(&machine, &cpus, &[Kind::Cache(3), Kind::Die, Kind::Package], true),
            groups(&machine, &cpus, &[Kind::Cache(2), Kind::Core], false),
        ];
        let shared = |set: u32| [&core, &package, &die, &l3, &l2].map(|groups| loads(groups, set));
        for threads in 1..=cpus.len() {
            let chosen: CpuSet = order[..threads].iter().copied().collect();
            let least = sets(cpus.len(), threads).map(shared).min();
            prop_assert_eq!(Some(shared(as_bits(&cpus, &chosen))), least, "{} threads: {:?}\n{}", threads, order, machine.to_text(None));
        }
    }

    #[test]
    fn scatter_never_doubles_up_a_core_while_another_is_idle(machine in irregular_machine()) {
        let core = |cpu| machine.enclosing(cpu, Kind::Core).unwrap();
        let all: BTreeSet<_> = machine.usable().map(core).collect();
        let order = Policy::Scatter.place(&machine, machine.usable().count()).unwrap().cpus().unwrap();
        let first: BTreeSet<_> = order[..all.len()].iter().map(|&cpu| core(cpu)).collect();
        prop_assert_eq!(first, all);
    }

    #[test]
    fn balanced_is_scatter_in_tree_order(machine in irregular_machine(), share in 0.0..1.0) {
        let threads = 1 + (share * (machine.usable().count() - 1) as f64) as usize;
        let scatter = Policy::Scatter.place(&machine, threads).unwrap();
        let balanced = Policy::Balanced.place(&machine, threads).unwrap();
        prop_assert_eq!(balanced.union(), scatter.union());
        let positions: Vec<_> = balanced.cpus().unwrap().into_iter().map(|cpu| machine.pu_index(cpu)).collect();
        prop_assert!(positions.is_sorted());
    }

    #[test]
    fn semi_balanced_takes_the_fewest_packages_that_hold_the_threads(machine in irregular_machine()) {
        let mut sizes: BTreeMap<_, usize> = BTreeMap::new();
        for cpu in machine.usable() {
            *sizes.entry(machine.enclosing(cpu, Kind::Package)).or_default() += 1;
        }
        for threads in 1..=machine.usable().count() {
            let placement = Policy::SemiBalanced.place(&machine, threads).unwrap();
            let used: BTreeSet<_> = placement.union().iter().map(|cpu| machine.enclosing(cpu, Kind::Package)).collect();
            let in_packages: usize = sizes.iter().filter(|(package, _)| package.is_some()).map(|(_, size)| size).sum();
            if threads > in_packages {
                prop_assert_eq!(used.len(), sizes.len(), "CPUs outside of packages come last");
                continue;
            }
            prop_assert!(!used.contains(&None));
            let sizes: Vec<usize> =
                sizes.iter().filter(|(package, _)| package.is_some()).map(|(_, size)| *size).collect();
            let fewest = (0_u32..1 << sizes.len())
                .filter(|subset| (0..sizes.len()).filter(|i| subset >> i & 1 == 1).map(|i| sizes[i]).sum::<usize>() >= threads)
                .map(u32::count_ones)
                .min();
            prop_assert_eq!(Some(used.len() as u32), fewest);
        }
    }

    #[test]
    fn any_machine_comes_back_from_json_and_from_xml(machine in irregular_machine()) {
        let json = serde_json::to_string(&machine).unwrap();
        prop_assert_eq!(&serde_json::from_str::<Machine>(&json).unwrap(), &machine);

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("machine.xml");
        std::fs::write(&path, machine.to_xml()).unwrap();
        let back = MachineRecord::from(Machine::read(&Source::Xml(path)).unwrap());
        let mut expected = MachineRecord::from(machine);
        (expected.name, expected.source) = (back.name.clone(), back.source.clone());
        prop_assert_eq!(back, expected);
    }
}

/// From the outside in, what a CPU belongs to at each level: the first of these kinds that it has, or only itself.
const PRIVATE_OUTSIDE_IN: [&[Kind]; 5] = [
    &[Kind::Package, Kind::Die, Kind::Cache(3), Kind::Cache(2), Kind::Core],
    &[Kind::Die, Kind::Cache(3), Kind::Cache(2), Kind::Core],
    &[Kind::Cache(3), Kind::Cache(2), Kind::Core],
    &[Kind::Cache(2), Kind::Core],
    &[Kind::Core],
];

/// For each CPU a name of its group: the object around it of the first of these kinds that it has. A CPU that has none of them
/// is in a group with all such others, or alone.
fn groups(machine: &Machine, cpus: &[CpuId], kinds: &[Kind], together: bool) -> Vec<String> {
    (cpus.iter())
        .map(|&cpu| match kinds.iter().find_map(|&kind| machine.enclosing(cpu, kind)) {
            Some(object) => format!("{object:?}"),
            None if together => "rest".into(),
            None => format!("CPU {cpu}"),
        })
        .collect()
}

/// How many CPUs of a set are in each group that has any, the most first.
fn loads(groups: &[String], set: u32) -> Vec<usize> {
    let mut loads: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, group) in groups.iter().enumerate().filter(|(bit, _)| set >> bit & 1 == 1) {
        *loads.entry(group).or_default() += 1;
    }
    let mut loads: Vec<usize> = loads.into_values().collect();
    loads.sort_unstable_by(|a, b| b.cmp(a));
    loads
}

/// Every set of so many out of `all` CPUs, by bits.
fn sets(all: usize, chosen: usize) -> impl Iterator<Item = u32> {
    (0_u32..1 << all).filter(move |set| set.count_ones() as usize == chosen)
}

fn as_bits(cpus: &[CpuId], set: &CpuSet) -> u32 {
    cpus.iter().enumerate().filter(|(_, cpu)| set.contains(**cpu)).map(|(bit, _)| 1 << bit).sum()
}

/// Machines like [`irregular_machine`] of which so few CPUs may be used that all sets of them can be gone through.
fn small_machine() -> impl Strategy<Value = Machine> {
    (irregular_machine(), any::<u64>()).prop_map(|(machine, seed)| {
        let mut usable: Vec<CpuId> = machine.usable().collect();
        let mut record = MachineRecord::from(machine);
        // Some CPUs from all over the machine, or neighbours.
        let stride = 1 + seed as usize % usable.len().div_ceil(9);
        usable = usable.into_iter().step_by(stride).take(9).collect();
        forbid_others(&mut record.tree, &usable);
        Machine::try_from(record).unwrap()
    })
}

fn forbid_others(object: &mut ObjectRecord, usable: &[CpuId]) {
    if object.os_index.is_some_and(|number| object.kind == Kind::Pu && !usable.contains(&CpuId(number))) {
        object.forbidden_by = Some(ForbiddenBy::Description);
    }
    object.children.iter_mut().for_each(|child| forbid_others(child, usable));
}

/// Machines whose packages, caches and cores differ, whose CPU numbers are shuffled, and of which some CPUs are forbidden.
fn irregular_machine() -> impl Strategy<Value = Machine> {
    let core =
        (1_usize..=2).prop_map(|pus| ObjectRecord::new(Kind::Core, vec![ObjectRecord::new(Kind::Pu, vec![]); pus]));
    let l2 = level(Kind::Cache(2), core, 3);
    let l3 = level(Kind::Cache(3), l2, 3);
    let die = level(Kind::Die, l3, 2);
    let package = level(Kind::Package, die, 2);
    prop::collection::vec(package, 1..=3).prop_flat_map(|packages| {
        let tree = ObjectRecord::new(Kind::Machine, packages);
        let pus = count_pus(&tree);
        let numbers = Just((0..pus as u32).collect::<Vec<_>>()).prop_shuffle();
        let forbidden = prop::collection::vec(prop::bool::weighted(0.2), pus);
        (Just(tree), numbers, forbidden).prop_map(|(mut tree, numbers, mut forbidden)| {
            forbidden[0] = false;
            let mut pus = numbers.into_iter().zip(forbidden);
            number_pus(&mut tree, &mut pus);
            machine_with(tree)
        })
    })
}

fn machine_with(tree: ObjectRecord) -> Machine {
    let record = MachineRecord {
        name: "random".into(),
        source: Source::Host,
        cpu_model: None,
        counts: BTreeMap::new(),
        usable_cpus: CpuSet::new(),
        offline_cpus: CpuSet::new(),
        hidden_cpus: CpuSet::new(),
        core_kinds: Vec::new(),
        numa_distances: None,
        tree,
    };
    Machine::try_from(record).unwrap()
}

/// An object of `kind` around some of `inner`; now and then the level is missing and one of `inner` stands alone.
fn level(
    kind: Kind,
    inner: impl Strategy<Value = ObjectRecord> + 'static,
    at_most: usize,
) -> impl Strategy<Value = ObjectRecord> {
    (prop::collection::vec(inner, 1..=at_most), prop::bool::weighted(0.8)).prop_map(move |(mut inside, is_there)| {
        if is_there { ObjectRecord::new(kind, inside) } else { inside.remove(0) }
    })
}

fn count_pus(object: &ObjectRecord) -> usize {
    usize::from(object.kind == Kind::Pu) + object.children.iter().map(count_pus).sum::<usize>()
}

fn number_pus(object: &mut ObjectRecord, pus: &mut impl Iterator<Item = (u32, bool)>) {
    match object.kind {
        Kind::Pu => {
            let (number, is_forbidden) = pus.next().unwrap();
            object.os_index = Some(number);
            object.forbidden_by = is_forbidden.then_some(ForbiddenBy::Description);
        }
        kind => {
            object.cache = matches!(kind, Kind::Cache(_)).then(Default::default);
            for child in &mut object.children {
                number_pus(child, pus);
            }
        }
    }
}
