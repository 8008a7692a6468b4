//! Distinct placements against brute force, against closed forms, and against the papers.

#![allow(clippy::unwrap_used, reason = "in a test, a failed unwrap is a failed test")]

mod oracle;
mod random;

use num_bigint::BigUint;
use oracle::Oracle;
use proptest::prelude::*;
use stayput_machine::{
    Class, CpuId, CpuSet, Distinct, DistinctError, Machine, Policy, RankPlacement, RankShape, preset,
};
use std::collections::{BTreeMap, BTreeSet};

fn list(cpus: &[CpuId]) -> String {
    cpus.iter().map(CpuId::to_string).collect::<Vec<_>>().join(",")
}

fn binomial(n: usize, k: usize) -> BigUint {
    (0..k).fold(BigUint::from(1_u32), |product, i| product * (n - i) / (i + 1))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn classes_are_the_orbits_that_brute_force_finds(record in random::machines(14)) {
        let machine = Machine::try_from(record.clone()).unwrap();
        let distinct = Distinct::new(&machine).unwrap();
        let oracle = Oracle::new(&record);
        let orbits = oracle.orbits();
        let mut sizes: Vec<BTreeMap<usize, u64>> = vec![BTreeMap::new(); oracle.cpus.len() + 1];
        for (word, &orbit) in orbits.iter().enumerate() {
            *sizes[word.count_ones() as usize].entry(orbit).or_default() += 1;
        }
        for (threads, sizes) in sizes.iter().enumerate().skip(1) {
            prop_assert_eq!(distinct.classes(threads).unwrap(), BigUint::from(sizes.len()), "{} threads", threads);
            prop_assert_eq!(distinct.cpu_sets(threads).unwrap(), BigUint::from(sizes.values().sum::<u64>()));
            let mut found = BTreeSet::new();
            for class in distinct.iter(threads).unwrap() {
                let orbit = orbits[oracle.word(&class.cpus)];
                prop_assert!(found.insert(orbit), "{} stands for a class that came before", list(&class.cpus));
                prop_assert_eq!(&class.cpu_sets, &BigUint::from(sizes[&orbit]), "{}", list(&class.cpus));
            }
            prop_assert_eq!(found.len(), sizes.len());
        }
    }

    #[test]
    fn every_set_finds_the_class_that_it_is_in(record in random::machines(8)) {
        let machine = Machine::try_from(record.clone()).unwrap();
        let distinct = Distinct::new(&machine).unwrap();
        let oracle = Oracle::new(&record);
        let orbits = oracle.orbits();
        for threads in 1..=oracle.cpus.len() {
            let classes: BTreeMap<usize, Class> =
                distinct.iter(threads).unwrap().map(|class| (orbits[oracle.word(&class.cpus)], class)).collect();
            for word in (0..orbits.len()).filter(|word| word.count_ones() as usize == threads) {
                let set: CpuSet = oracle.set(word).into_iter().collect();
                prop_assert_eq!(&distinct.class_of(&set).unwrap(), &classes[&orbits[word]]);
            }
        }
    }

    #[test]
    fn orders_are_those_that_no_symmetry_makes_equal(record in random::machines(7)) {
        let machine = Machine::try_from(record.clone()).unwrap();
        let distinct = Distinct::new(&machine).unwrap();
        let oracle = Oracle::new(&record);
        let group = oracle.group();
        for threads in 1..=oracle.cpus.len() {
            let expected: BTreeSet<Vec<usize>> = (distinct.iter(threads).unwrap())
                .flat_map(|class| oracle.sequences(&class.cpus))
                .map(|cpus| oracle.smallest(&group, &cpus))
                .collect();
            let classes: Vec<Class> = distinct.iter_ordered(threads).unwrap().collect();
            let found: BTreeSet<Vec<usize>> =
                classes.iter().map(|class| oracle.smallest(&group, &class.cpus)).collect();
            prop_assert_eq!(classes.len(), found.len(), "some order comes twice");
            prop_assert_eq!(distinct.ordered_classes(threads).unwrap(), BigUint::from(found.len()));
            prop_assert_eq!(&found, &expected);
            for policy in Policy::NAMED {
                let cpus = policy.place(&machine, threads).unwrap().cpus().unwrap();
                let equal = oracle.smallest(&group, &cpus);
                for class in &classes {
                    let is_equal = oracle.smallest(&group, &class.cpus) == equal;
                    prop_assert_eq!(class.policies.contains(&policy), is_equal, "{} {}", policy, list(&class.cpus));
                }
            }
        }
    }

    #[test]
    fn every_policy_leads_to_one_class_under_its_name(record in random::machines(12)) {
        let machine = Machine::try_from(record).unwrap();
        let distinct = Distinct::new(&machine).unwrap();
        for threads in 1..=machine.usable().count() {
            let classes: Vec<Class> = distinct.iter(threads).unwrap().collect();
            let important = distinct.important(threads).unwrap();
            for policy in Policy::NAMED {
                let set = policy.place(&machine, threads).unwrap().union();
                let with: Vec<&Class> = classes.iter().filter(|class| class.policies.contains(&policy)).collect();
                prop_assert_eq!(with.len(), 1, "{}", policy);
                prop_assert_eq!(with[0], &distinct.class_of(&set).unwrap());
                prop_assert!(important.contains(with[0]));
            }
            let mut rest = classes.iter();
            prop_assert!(important.iter().all(|class| rest.any(|other| other == class)), "out of canonical order");
        }
    }
}

fn machine(name: &str) -> Machine {
    Machine::named(name).unwrap()
}

#[test]
fn the_e5405_has_the_classes_of_the_poster() {
    let machine = machine("xeon-e5405");
    let distinct = Distinct::new(&machine).unwrap();
    let shown = |threads| -> Vec<String> {
        (distinct.iter(threads).unwrap())
            .map(|class| {
                let name = class.name().map(Policy::to_string).unwrap_or_default();
                format!("{} x{} {name}", list(&class.cpus), class.cpu_sets)
            })
            .collect()
    };
    assert_eq!(shown(2), ["0,1 x4 unbalanced", "0,2 x8 semi-balanced", "0,4 x16 balanced"]);
    assert_eq!(
        shown(4),
        ["0,1,2,3 x2 unbalanced", "0,1,2,4 x32 ", "0,1,4,5 x4 ", "0,1,4,6 x16 ", "0,2,4,6 x16 balanced"]
    );
}

#[test]
fn sizes_sum_to_the_number_of_sets_of_cpus() {
    let machine = machine("pack:4 core:8 pu:2");
    let distinct = Distinct::new(&machine).unwrap();
    for threads in 1..=64 {
        let (mut sum, mut classes) = (BigUint::ZERO, 0_u64);
        for class in distinct.iter(threads).unwrap() {
            sum += class.cpu_sets;
            classes += 1;
        }
        assert_eq!(sum, binomial(64, threads), "{threads} threads");
        assert_eq!(distinct.classes(threads).unwrap(), classes.into(), "{threads} threads");
    }
}

/// 256 CPUs have too many classes to go through. Here those of 16 CPUs under one L3 are made with their sizes; what eight such
/// parts and then two packages of them have is summed over multisets, class by class, with the multinomials that a class's
/// size has.
#[test]
fn sizes_sum_to_the_number_of_sets_of_cpus_on_256_cpus_too() {
    let l3 = machine("l3:1 core:8 pu:2");
    let distinct = Distinct::new(&l3).unwrap();
    let mut classes = vec![(0, BigUint::from(1_u32))];
    for threads in 1..=16 {
        classes.extend(distinct.iter(threads).unwrap().map(|class| (threads, class.cpu_sets)));
    }
    assert_eq!(classes.len(), 45);
    let whole = machine("pack:2 l3:8 core:8 pu:2");
    let whole = Distinct::new(&whole).unwrap();
    // By parts so far and threads: the number of multisets, and the sum of their sizes.
    let mut rows = vec![vec![(BigUint::ZERO, BigUint::ZERO); 129]; 9];
    rows[0][0] = (1_u32.into(), 1_u32.into());
    for (threads, size) in &classes {
        let before = rows.clone();
        for (parts, row) in rows.iter_mut().enumerate() {
            for (total, (count, sum)) in row.iter_mut().enumerate() {
                for taken in (1..=parts).filter(|taken| taken * threads <= total) {
                    let (others, others_sum) = &before[parts - taken][total - taken * threads];
                    *count += others;
                    *sum += others_sum * size.pow(taken as u32) * binomial(parts, taken);
                }
            }
        }
    }
    let package = &rows[8];
    for threads in 1..=256_usize {
        let (mut classes, mut sets) = (BigUint::ZERO, BigUint::ZERO);
        for first in threads.saturating_sub(128)..=threads.min(128) {
            let second = threads - first;
            let sum = &package[first].1 * &package[second].1;
            match first.cmp(&second) {
                std::cmp::Ordering::Greater => {
                    classes += &package[first].0 * &package[second].0;
                    sets += sum * 2_u32;
                }
                // Unlike pairs twice, like pairs once: all ordered pairs.
                std::cmp::Ordering::Equal => {
                    classes += &package[first].0 * (&package[first].0 + 1_u32) / 2_u32;
                    sets += sum;
                }
                std::cmp::Ordering::Less => {}
            }
        }
        assert_eq!(whole.classes(threads).unwrap(), classes, "{threads} threads");
        assert_eq!(sets, binomial(256, threads), "{threads} threads");
    }
}

#[test]
fn a_ring_of_four_packages_tells_neighbours_from_opposites() {
    let mut record = stayput_machine::record::MachineRecord::from(machine("pack:4 [numa] core:2 pu:1"));
    let distance = |a: usize, b: usize| [10, 16, 22, 16][(a + 4 - b) % 4];
    record.numa_distances = Some((0..4).map(|a| (0..4).map(|b| distance(a, b)).collect()).collect());
    let ring: Machine = record.try_into().unwrap();
    let pairs: Vec<String> = Distinct::new(&ring)
        .unwrap()
        .iter(2)
        .unwrap()
        .map(|class| format!("{} x{}", list(&class.cpus), class.cpu_sets))
        .collect();
    // Opposite packages may be exchanged, all else unmoved, so they are the closer relation.
    assert_eq!(pairs, ["0,1 x4", "0,4 x8", "0,2 x16"]);
}

#[test]
fn the_short_list_holds_what_the_papers_ran() {
    let lists = [
        ("xeon-e5620", "0,1,2,3,4,5,6,7", vec![1, 2, 4, 8]),
        ("xeon-e5620", "0,4,1,5,2,6,3,7", vec![1, 2, 4, 8]),
        (
            "opteron-6272",
            "0,16,32,48,8,24,40,56,2,18,34,50,10,26,42,58,4,20,36,52,12,28,44,60,6,22,38,54,14,30,46,62,1,17,33,49,9,25,41,57,\
             3,19,35,51,11,27,43,59,5,21,37,53,13,29,45,61,7,23,39,55,15,31,47,63",
            (1..=64).collect(),
        ),
        // Weber 2010 by what is shared: nothing; the package; the L2.
        ("xeon-e5405", "0,4,2,6,1,5,3,7", vec![1, 2, 4, 8]),
        ("xeon-e5405", "0,2,1,3,4,6,5,7", vec![1, 2, 4, 8]),
        ("xeon-e5405", "0,1,2,3,4,5,6,7", vec![1, 2, 4, 8]),
    ];
    for (name, cpus, threads) in lists {
        let machine = machine(name);
        let distinct = Distinct::new(&machine).unwrap();
        let cpus: Vec<CpuId> = cpus.split(',').map(|cpu| CpuId(cpu.parse().unwrap())).collect();
        for threads in threads {
            let class = distinct.class_of(&cpus[..threads].iter().copied().collect()).unwrap();
            assert!(distinct.important(threads).unwrap().contains(&class), "{name}: {}", list(&class.cpus));
        }
    }
}

#[test]
fn on_a_regular_machine_the_short_list_has_one_class_for_each_way_to_use_it() {
    let machine = machine("pack:2 l3:2 core:4 pu:2");
    let distinct = Distinct::new(&machine).unwrap();
    let used = |class: &Class, kind| -> usize {
        class.cpus.iter().filter_map(|&cpu| machine.enclosing(cpu, kind)).collect::<BTreeSet<_>>().len()
    };
    use stayput_machine::Kind::{Cache, Core, Package};
    let four = distinct.important(4).unwrap();
    let used: Vec<[usize; 3]> = four.iter().map(|c| [used(c, Package), used(c, Cache(3)), used(c, Core)]).collect();
    assert_eq!(
        used,
        [[1, 1, 2], [1, 1, 3], [1, 1, 4], [1, 2, 2], [1, 2, 4], [2, 2, 2], [2, 2, 4], [2, 4, 4]],
        "packages, L3 and cores in use"
    );
}

#[test]
fn on_the_papers_machines_every_policy_has_an_order_of_its_class() {
    for name in preset::names() {
        let machine = machine(name);
        let distinct = Distinct::new(&machine).unwrap();
        let usable = machine.usable().count();
        for threads in [1, 2, 4, 8, 64].into_iter().filter(|&threads| threads <= usable) {
            for policy in Policy::NAMED {
                let placement = policy.place(&machine, threads).unwrap();
                let class = distinct.class_of(&placement.union()).unwrap();
                let orders = distinct.orders(&class);
                let with = orders.iter().filter(|order| order.policies.contains(&policy)).count();
                assert_eq!(with, 1, "{policy} for {threads} on {name}");
            }
        }
    }
}

#[test]
fn the_first_of_billions_come_at_once() {
    let machine = machine("pack:4 l3:8 core:16 pu:2");
    let distinct = Distinct::new(&machine).unwrap();
    assert!(distinct.classes(100).unwrap() > BigUint::from(1_000_000_000_u64));
    let first: Vec<Class> = distinct.iter(100).unwrap().take(1000).collect();
    assert_eq!(first[0].name(), Some(&Policy::Unbalanced));
    assert_eq!(first.iter().map(|class| &class.cpus).collect::<BTreeSet<_>>().len(), 1000);
}

#[test]
fn what_cannot_be_is_said_in_a_sentence() {
    let machine = machine("pack:2 core:2 pu:1");
    let distinct = Distinct::new(&machine).unwrap();
    assert_eq!(distinct.classes(0), Err(DistinctError::NoThreads));
    let too_many = distinct.iter(5).map(|_| ()).unwrap_err().to_string();
    assert!(too_many.starts_with("5 threads can't each have a CPU: machine `pack:2 core:2 pu:1` has 4"), "{too_many}");
    let absent = distinct.class_of(&CpuSet::from(CpuId(4))).unwrap_err().to_string();
    assert_eq!(absent, "CPU 4 can't be used: the machine has no such CPU");
}

fn cpus_of_ranks(placement: &RankPlacement) -> Vec<Vec<CpuId>> {
    placement.ranks.iter().map(|rank| rank.cpus().unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn placements_of_ranks_are_the_orbits_that_brute_force_finds(record in random::machines(7)) {
        let machine = Machine::try_from(record.clone()).unwrap();
        let distinct = Distinct::new(&machine).unwrap();
        let oracle = Oracle::new(&record);
        let usable = oracle.cpus.len();
        for (ranks, threads) in (1..=usable).flat_map(|ranks| (1..=usable / ranks).map(move |threads| (ranks, threads))) {
            let shape = RankShape::new(ranks, threads).unwrap();
            let families = oracle.families(ranks, threads);
            let orbits: BTreeSet<&Vec<usize>> = families.values().collect();
            prop_assert_eq!(distinct.rank_classes(shape).unwrap(), BigUint::from(orbits.len()), "{}", shape);
            prop_assert_eq!(distinct.rank_families(shape).unwrap(), BigUint::from(families.len()), "{}", shape);
            let mut found = BTreeSet::new();
            for placement in distinct.rank_placements(shape).unwrap() {
                let orbit = &families[&oracle.family(&cpus_of_ranks(&placement))];
                prop_assert!(found.insert(orbit), "{} stands for a class that came before", placement);
                prop_assert_eq!(&distinct.rank_class_of(&placement).unwrap(), &placement);
            }
            prop_assert_eq!(found.len(), orbits.len(), "{}", shape);
        }
    }
}

#[test]
fn one_rank_has_the_classes_of_its_threads_and_single_threads_those_of_a_set() {
    for name in ["xeon-e5405", "pack:2 l3:2 core:4 pu:2"] {
        let machine = Machine::named(name).unwrap();
        let distinct = Distinct::new(&machine).unwrap();
        for n in 1..=machine.usable().count() {
            let classes = distinct.classes(n).unwrap();
            assert_eq!(distinct.rank_classes(RankShape::new(1, n).unwrap()).unwrap(), classes, "{name}: 1x{n}");
            assert_eq!(distinct.rank_classes(RankShape::new(n, 1).unwrap()).unwrap(), classes, "{name}: {n}x1");
        }
    }
}

#[test]
fn two_ranks_of_two_threads_on_two_pairs_are_counted_by_hand() {
    // Two cores with two hardware threads each: every rank has a core, or both have one CPU of each.
    let machine = Machine::named("core:2 pu:2").unwrap();
    let distinct = Distinct::new(&machine).unwrap();
    let shape = RankShape::new(2, 2).unwrap();
    assert_eq!(distinct.rank_classes(shape).unwrap(), BigUint::from(2_u32));
    assert_eq!(distinct.rank_families(shape).unwrap(), BigUint::from(3_u32));
    let listed: Vec<String> = distinct.rank_placements(shape).unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(listed, ["0,1/2,3", "0,2/1,3"]);
}

#[test]
fn what_is_too_large_to_count_or_list_is_an_error_and_no_number() {
    let machine = Machine::named("pack:2 l3:8 core:8 pu:2").unwrap();
    let distinct = Distinct::new(&machine).unwrap();
    let shape = RankShape::new(8, 8).unwrap();
    assert_eq!(distinct.rank_classes(shape).unwrap_err(), DistinctError::TooManyCycleTypes);
    assert_eq!(distinct.rank_placements(shape).unwrap_err(), DistinctError::TooManyToList);
    assert!(matches!(
        distinct.rank_classes(RankShape::new(300, 1).unwrap()),
        Err(DistinctError::TooManyThreads { .. })
    ));
}
