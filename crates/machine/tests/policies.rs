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
    assert_eq!(placed("scatter", 10, path), "0 8 2 4 9 5 6 7 1 3");
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
        let order: Vec<CpuId> = machine.usable().collect();
        let compact = Policy::Compact.place(&machine, order.len()).unwrap();
        prop_assert_eq!(compact.cpus(), Some(order.clone()));
        prop_assert!(compact.same_slots(&Policy::Unbalanced.place(&machine, order.len()).unwrap()));
    }

    #[test]
    fn scatter_shares_least_at_every_step(machine in irregular_machine()) {
        let cpus: Vec<CpuId> = machine.usable().collect();
        let order = Policy::Scatter.place(&machine, cpus.len()).unwrap().cpus().unwrap();
        for (step, &chosen) in order.iter().enumerate() {
            let before = &order[..step];
            let candidates = cpus.iter().filter(|cpu| !before.contains(cpu));
            let least = candidates.map(|&cpu| loads(&machine, before, cpu)).min().unwrap();
            prop_assert_eq!(loads(&machine, before, chosen), least, "step {} of {:?}", step, order);
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
            let sizes: Vec<usize> = sizes.values().copied().collect();
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

/// How many of the CPUs `before` share the object around `cpu` at each level, the core first. A level that a CPU lacks counts
/// as the next one further in.
fn loads(machine: &Machine, before: &[CpuId], cpu: CpuId) -> Vec<usize> {
    let mut object = None;
    [Kind::Core, Kind::Cache(2), Kind::Cache(3), Kind::Die, Kind::Package]
        .into_iter()
        .map(|kind| {
            object = machine.enclosing(cpu, kind).or(object);
            let inside = object.map(|object| machine.cpus_of(object)).unwrap_or_default();
            before.iter().filter(|other| inside.contains(**other)).count()
        })
        .collect()
}

/// Machines whose packages, caches and cores differ, whose CPU numbers are shuffled, and of which some CPUs are forbidden.
fn irregular_machine() -> impl Strategy<Value = Machine> {
    let core =
        (1_usize..=2).prop_map(|pus| ObjectRecord::new(Kind::Core, vec![ObjectRecord::new(Kind::Pu, vec![]); pus]));
    let l2 = level(Kind::Cache(2), core, 3);
    let l3 = level(Kind::Cache(3), l2, 3);
    let die = level(Kind::Die, l3, 2);
    let package = prop::collection::vec(die, 1..=2).prop_map(|dies| ObjectRecord::new(Kind::Package, dies));
    prop::collection::vec(package, 1..=3).prop_flat_map(|packages| {
        let tree = ObjectRecord::new(Kind::Machine, packages);
        let pus = count_pus(&tree);
        let numbers = Just((0..pus as u32).collect::<Vec<_>>()).prop_shuffle();
        let forbidden = prop::collection::vec(prop::bool::weighted(0.2), pus);
        (Just(tree), numbers, forbidden).prop_map(|(mut tree, numbers, mut forbidden)| {
            forbidden[0] = false;
            let mut pus = numbers.into_iter().zip(forbidden);
            number_pus(&mut tree, &mut pus);
            let record = MachineRecord {
                name: "random".into(),
                source: Source::Host,
                cpu_model: None,
                counts: BTreeMap::new(),
                usable_cpus: CpuSet::new(),
                offline_cpus: CpuSet::new(),
                core_kinds: Vec::new(),
                numa_distances: None,
                tree,
            };
            Machine::try_from(record).unwrap()
        })
    })
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
