//! Whether what a placement paper says of its machine is so of the preset that describes it: each by a computation on the tree.

use crate::case::{Case, all, every};
use crate::cells::rows;
use crate::interval::exactly;
use crate::paper::{MemoryKind, Paper, Quantity};
use crate::verdict::{Judgement, undecidable};
use machine::{CpuId, CpuSet, Distinct, Kind, Machine, Placement, Policy};
use simulation::Estimated;
use std::collections::BTreeSet;

/// Share of data, in percent, from which a cache holds a significant part of it: half.
const SIGNIFICANT_PERCENT: f64 = 50.0;

/// Most CPUs of a machine whose sets of CPUs are gone through one by one.
const MOST_CPUS: usize = 16;

/// Judges by the check of that name, if it is one of a machine.
pub(super) fn judge(check: &str, paper: &Paper) -> Option<Judgement> {
    let machine = Machine::named(&paper.machine).expect("a test reads every paper's machine");
    Some(match check {
        "uniform-memory" => memory(paper, &machine, MemoryKind::Uniform),
        "distributed-memory" => memory(paper, &machine, MemoryKind::Distributed),
        "shared-caches" => caches(paper, &machine),
        "lists-called-right" => lists(paper, &machine),
        "class-a-in-l1" => in_l1(paper, &machine, "A"),
        "modules-rarely-shared" => all([4, 8, 16].map(|threads| {
            let label = format!("anywhere by chance, some two of {threads} threads share a module:");
            // Improbable is at least what happens less often than not.
            Case::new(label, some_share_a_module(&machine, threads), (0.0, 50.0), " %")
        })),
        "mappings-exist" => mappings(paper, &machine),
        _ => return None,
    })
}

/// The machine's memory is what the text calls it, and the text calls it nothing else.
fn memory(paper: &Paper, machine: &Machine, kind: MemoryKind) -> Judgement {
    let nodes = machine.numa_nodes().len() as f64;
    let range = match kind {
        MemoryKind::Uniform => (1.0, 1.0),
        MemoryKind::Distributed => (2.0, f64::INFINITY),
    };
    let label = format!("memory nodes in our preset {}:", machine.name());
    let (verdict, why) = all([Case::new(label, exactly(nodes), range, "")]);
    let name = |kind| match kind {
        MemoryKind::Uniform => "uniform",
        MemoryKind::Distributed => "distributed",
    };
    match paper.memory.iter().find(|(other, _)| **other != kind) {
        Some((&other, place)) => (verdict, format!("{why}; {place} calls the same memory {}", name(other))),
        None => (verdict, why),
    }
}

/// Each cache has the size and the cores that the text says.
fn caches(paper: &Paper, machine: &Machine) -> Judgement {
    let cases = paper.shared_caches.iter().flat_map(|cache| {
        let object = machine.objects().find(|(_, object)| object.kind == Kind::Cache(cache.level));
        let cores = object.map(|(index, _)| {
            let cores = machine.pus_of(index).iter().map(|pu| machine.enclosing(pu.cpu, Kind::Core));
            exactly(cores.collect::<BTreeSet<_>>().len() as f64)
        });
        let label = format!("in our preset {} an L{} has", machine.name(), cache.level);
        let size_kib = cache_bytes(machine, cache.level).map(|bytes| exactly(bytes / 1024.0));
        [
            Case::near(label, size_kib, cache.size_kib as f64, 0.0, " KiB"),
            Case::near("shared by", cores, f64::from(cache.cores), 0.0, " cores"),
        ]
    });
    all(cases)
}

/// The size of a machine's caches of that level, where it is known.
fn cache_bytes(machine: &Machine, level: u8) -> Option<f64> {
    let (_, object) = machine.objects().find(|(_, object)| object.kind == Kind::Cache(level))?;
    Some(object.cache.as_ref()?.size_bytes?.get() as f64)
}

/// Each printed CPU list takes the CPUs of the strategy that the text calls it, or ones that symmetries of the machine map onto them,
/// with each of the paper's thread counts.
fn lists(paper: &Paper, machine: &Machine) -> Judgement {
    let Ok(distinct) = Distinct::new(machine) else {
        return undecidable(format!("{} has too many symmetries", machine.name()));
    };
    let counts: BTreeSet<u32> = paper.tables.iter().flat_map(|table| table.threads.iter().copied()).collect();
    let class = |placement: Placement| {
        let cpus: CpuSet = placement.cpus()?.into_iter().collect();
        Some(distinct.class_of(&cpus).ok()?.cpus)
    };
    let alike = |list: &Placement, policy: &Policy| {
        let is_alike = |threads: usize| {
            let theirs = class(policy.place(machine, threads).ok()?)?;
            Some(class(list.for_threads(threads))? == theirs)
        };
        let shares: Option<Vec<bool>> = counts.iter().map(|&threads| is_alike(threads as usize)).collect();
        Some(shares?.into_iter().filter(|alike| *alike).count() as f64)
    };
    let cases = paper.cpu_lists.iter().flat_map(|printed| {
        let list = Placement::from_list(&printed.cpus, |cpu| machine.state(cpu)).ok();
        [Policy::Compact, Policy::Scatter].map(|policy| {
            let number = list.as_ref().and_then(|list| alike(list, &policy));
            let wanted = counts.len() as f64;
            // What it isn't called is told beside.
            let range = if policy.to_string() == printed.called { (wanted, wanted) } else { (0.0, wanted) };
            let label = format!("the list called {} is {policy} with", printed.called);
            Case::new(label, number.map(exactly), range, " thread counts")
        })
    });
    let (verdict, why) = all(cases);
    (verdict, format!("{why}, of {}", counts.len()))
}

/// A significant part of the programs' arrays fits into the L1 caches of as many CPUs as the most threads of the tables.
fn in_l1(paper: &Paper, machine: &Machine, class: &str) -> Judgement {
    let most = paper.tables.iter().flat_map(|table| table.threads.iter().copied()).max();
    let l1_bytes = cache_bytes(machine, 1);
    every(paper.arrays.iter().filter(|array| array.class == class).map(|array| {
        let bytes = (array.grid.iter().product::<u64>() * array.point_bytes) as f64;
        let share = l1_bytes.zip(most).map(|(l1, threads)| exactly(100.0 * (l1 * f64::from(threads) / bytes).min(1.0)));
        let label = format!(
            "{}.{class} keeps one array of {:.0} MiB, of which the L1 of {} cores hold",
            array.benchmark,
            bytes / f64::from(1 << 20),
            most.unwrap_or_default()
        );
        Case::new(label, share, (SIGNIFICANT_PERCENT, 100.0), " %")
    }))
}

/// How likely some two of `threads` share a module of a machine when any CPUs are as likely as any others, in percent; none
/// without modules.
fn some_share_a_module(machine: &Machine, threads: u32) -> Option<Estimated> {
    let (cpus, modules) = (machine.usable().count() as f64, machine.count(Kind::Module) as f64);
    // With some on modules of their own, the next finds the CPUs of the other modules among all that are left.
    let none = (0..threads).map(f64::from).map(|some| (cpus - some * cpus / modules) / (cpus - some)).product::<f64>();
    (modules > 0.0).then(|| exactly(100.0 * (1.0 - none)))
}

/// For each mapping there is a set of CPUs as the poster defines it, with each of its thread counts; found by going through all sets.
fn mappings(paper: &Paper, machine: &Machine) -> Judgement {
    let cpus: Vec<CpuId> = machine.usable().collect();
    if cpus.len() > MOST_CPUS {
        return undecidable(format!("{} CPUs have too many sets to go through", cpus.len()));
    }
    let sets_of = |threads: u32| {
        let sets = (0_u32..1 << cpus.len()).filter(move |set| set.count_ones() == threads);
        sets.map(|set| {
            let inside = cpus.iter().enumerate().filter(move |(at, _)| set >> at & 1 == 1);
            inside.map(|(_, &cpu)| cpu).collect::<Vec<CpuId>>()
        })
    };
    let (mut cases, mut findings) = (Vec::new(), Vec::new());
    for (table, row) in rows(paper, Quantity::SpeedUp) {
        let Some(Ok(policy)) = row.placement.as_deref().map(str::parse::<Policy>) else { continue };
        let mut sets = Vec::new();
        for &threads in table.threads.iter().filter(|&&threads| threads > 1) {
            let number = sets_of(threads).filter(|set| is_mapped(machine, set, &policy)).count();
            sets.push(format!("{number} of {threads} CPUs"));
            cases.push(Case::new("", exactly(number as f64), (1.0, f64::INFINITY), ""));
        }
        findings.push(format!("{policy} has as sets {}", sets.join(", ")));
    }
    let (verdict, _) = all(cases);
    let only = sets_of(cpus.len() as u32).count();
    findings.push(format!("of all {} CPUs there is {only}, so that nothing can be mapped otherwise", cpus.len()));
    (verdict, findings.join("; "))
}

/// Whether CPUs are mapped as the poster defines a mapping.
fn is_mapped(machine: &Machine, cpus: &[CpuId], policy: &Policy) -> bool {
    let share = |kind: Kind, a: CpuId, b: CpuId| machine.enclosing(a, kind) == machine.enclosing(b, kind);
    let others = |cpu: CpuId| cpus.iter().copied().filter(move |&other| other != cpu);
    let (l2, package) = (Kind::Cache(2), Kind::Package);
    cpus.iter().all(|&cpu| match policy {
        // Neither an L2 nor a package is shared.
        Policy::Balanced => others(cpu).all(|other| !share(l2, cpu, other) && !share(package, cpu, other)),
        // No L2 is shared, and one package by all.
        Policy::SemiBalanced => others(cpu).all(|other| !share(l2, cpu, other) && share(package, cpu, other)),
        // One package is shared by all, and each L2 by some.
        Policy::Unbalanced => {
            others(cpu).all(|other| share(package, cpu, other)) && others(cpu).any(|other| share(l2, cpu, other))
        }
        Policy::Compact | Policy::Scatter | Policy::Set(_) | Policy::List(_) => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduction::Verdict;

    #[test]
    fn mappings_of_two_cores_can_be_made() {
        let mut paper = Paper::named("weber-2010").unwrap().clone();
        paper.tables[0].threads = vec![1, 2];
        let (verdict, why) = judge("mappings-exist", &paper).unwrap();
        assert_eq!(verdict, Verdict::Holds, "{why}");
        assert!(
            why.starts_with("balanced has as sets 16 of 2 CPUs; semi-balanced has as sets 8 of 2 CPUs; unbalanced has as sets 4 of 2 CPUs"),
            "{why}"
        );
    }

    #[test]
    fn sets_of_many_cpus_are_not_gone_through() {
        let mut paper = Paper::named("weber-2010").unwrap().clone();
        paper.machine = "opteron-6272".into();
        assert_eq!(judge("mappings-exist", &paper).unwrap().0, Verdict::Undecidable);
    }

    #[test]
    fn fewer_threads_rarely_share_a_module() {
        let machine = Machine::named("opteron-6272").unwrap();
        let share = |threads| some_share_a_module(&machine, threads).unwrap().value;
        // Two threads: the second finds the other CPU of the first's module among 63.
        assert!((share(2) - 100.0 / 63.0).abs() < 1e-9 && share(4) < share(8) && share(33) > 99.999_999);
    }
}
