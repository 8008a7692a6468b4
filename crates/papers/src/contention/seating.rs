//! Where threads sit, as far as it decides who waits for whom.

use machine::tree::{Kind, NumaIndex, ObjectIndex};
use machine::{CpuId, Machine};
use std::collections::{BTreeMap, BTreeSet};

/// What slows a core down when its neighbours work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Neighbourhood {
    /// CPUs share execution units, such as the FPU of a module: a CPU is slowed while one that shares with it is busy.
    SharedUnits,
    /// The clock steps down: a CPU is slowed while more than half of its package's CPUs are busy.
    PackageClock,
}

impl Neighbourhood {
    /// The one that a machine's tree shows. Where CPUs share units, their sharing can't be told from a clock step of the full
    /// package, and counts for both.
    pub fn new(machine: &Machine) -> Self {
        if machine.count(Kind::Module) > 0 || machine.has_smt() { Self::SharedUnits } else { Self::PackageClock }
    }
}

/// The busy part of a memory node: its CPUs queue for one memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Crowd {
    /// CPUs on which a thread sits.
    pub busy_cpus: u32,
    /// Those of them that are slowed by neighbours.
    pub slowed_cpus: u32,
    /// Threads on the CPU that has most.
    pub threads_per_cpu: u32,
}

/// The threads of a program on a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seating {
    /// Number of threads.
    pub threads: u32,
    /// Memory nodes on which some thread sits; sorted, as nodes are alike.
    pub crowds: Vec<Crowd>,
}

impl Seating {
    /// Thread `i` on `cpus[i]`.
    pub fn new(machine: &Machine, cpus: &[CpuId]) -> Self {
        let neighbourhood = Neighbourhood::new(machine);
        let busy: BTreeSet<CpuId> = cpus.iter().copied().collect();
        let slowed = |cpu: CpuId| match neighbourhood {
            Neighbourhood::SharedUnits => in_object(machine, unit(machine, cpu), &busy) > 1,
            Neighbourhood::PackageClock => {
                let package = machine.enclosing(cpu, Kind::Package).unwrap_or(ObjectIndex::MACHINE);
                2 * in_object(machine, package, &busy) > machine.pus_of(package).len()
            }
        };
        let mut crowds: BTreeMap<Option<NumaIndex>, Crowd> = BTreeMap::new();
        for &cpu in &busy {
            let crowd = crowds.entry(node(machine, cpu)).or_default();
            crowd.busy_cpus += 1;
            crowd.slowed_cpus += u32::from(slowed(cpu));
            crowd.threads_per_cpu = crowd.threads_per_cpu.max(count(cpus, |other| other == cpu));
        }
        let mut crowds: Vec<Crowd> = crowds.into_values().collect();
        crowds.sort();
        Self { threads: count(cpus, |_| true), crowds }
    }
}

/// The CPUs of threads of which one sits on a wrong node: the emptiest node in use has lost it to the fullest, where it took the
/// CPU with the fewest neighbours. None when all threads sit on one node anyway.
pub(super) fn misplaced(machine: &Machine, cpus: &[CpuId]) -> Option<Vec<CpuId>> {
    let mut nodes: BTreeMap<Option<NumaIndex>, Vec<usize>> = BTreeMap::new();
    for (thread, &cpu) in cpus.iter().enumerate() {
        nodes.entry(node(machine, cpu)).or_default().push(thread);
    }
    let (&fullest, _) = nodes.iter().rev().max_by_key(|(_, threads)| threads.len())?;
    let (_, losing) = nodes.iter().filter(|&(&node, _)| node != fullest).min_by_key(|(_, threads)| threads.len())?;
    let moved = *losing.last()?;
    let seat = machine.usable().filter(|&cpu| node(machine, cpu) == fullest).min_by_key(|&cpu| {
        let unit = machine.cpus_of(unit(machine, cpu));
        (count(cpus, |other| other == cpu), count(cpus, |other| unit.contains(other)))
    })?;
    let mut cpus = cpus.to_vec();
    cpus[moved] = seat;
    Some(cpus)
}

fn count(cpus: &[CpuId], which: impl Fn(CpuId) -> bool) -> u32 {
    cpus.iter().filter(|&&cpu| which(cpu)).count() as u32
}

fn in_object(machine: &Machine, object: ObjectIndex, busy: &BTreeSet<CpuId>) -> usize {
    machine.pus_of(object).iter().filter(|pu| busy.contains(&pu.cpu)).count()
}

/// The memory that a CPU queues for; none where the machine doesn't say.
fn node(machine: &Machine, cpu: CpuId) -> Option<NumaIndex> {
    machine.local_numa_nodes(cpu).first().copied()
}

/// The module, or else the core, around a CPU.
fn unit(machine: &Machine, cpu: CpuId) -> ObjectIndex {
    let around = |kind| machine.enclosing(cpu, kind);
    around(Kind::Module).or_else(|| around(Kind::Core)).unwrap_or(ObjectIndex::MACHINE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::Policy;

    fn crowds(machine: &str, policy: &Policy, threads: usize) -> (Vec<Crowd>, Vec<Crowd>) {
        let machine = Machine::named(machine).unwrap();
        let cpus = policy.place(&machine, threads).unwrap().cpus().unwrap();
        let crowds = |cpus: &[CpuId]| Seating::new(&machine, cpus).crowds;
        (crowds(&cpus), misplaced(&machine, &cpus).map_or_else(Vec::new, |cpus| crowds(&cpus)))
    }

    fn crowd(busy_cpus: u32, slowed_cpus: u32, threads_per_cpu: u32) -> Crowd {
        Crowd { busy_cpus, slowed_cpus, threads_per_cpu }
    }

    #[test]
    fn a_package_slows_its_clock_when_more_than_half_of_it_is_busy() {
        assert_eq!(crowds("xeon-e5620", &Policy::Compact, 2).0, [crowd(2, 0, 1)]);
        assert_eq!(crowds("xeon-e5620", &Policy::Compact, 3).0, [crowd(3, 3, 1)]);
        assert_eq!(crowds("xeon-e5620", &Policy::Scatter, 4).0, [crowd(2, 0, 1); 2]);
    }

    #[test]
    fn a_ninth_thread_of_a_full_node_shares_a_cpu() {
        let (bound, misplaced) = crowds("opteron-6272", &Policy::Scatter, 64);
        assert_eq!(bound, [crowd(8, 8, 1); 8]);
        assert_eq!((misplaced[0], misplaced[7]), (crowd(7, 6, 1), crowd(8, 8, 2)));
    }

    #[test]
    fn a_misplaced_thread_shares_a_module_only_where_each_has_a_thread() {
        let (bound, misplaced) = crowds("opteron-6272", &Policy::Scatter, 32);
        assert_eq!(bound, [crowd(4, 0, 1); 8]);
        assert_eq!((misplaced[0], misplaced[7]), (crowd(3, 0, 1), crowd(5, 2, 1)));
        assert_eq!(crowds("opteron-6272", &Policy::Scatter, 16).1[7], crowd(3, 0, 1));
    }

    #[test]
    fn one_thread_and_threads_of_one_node_have_no_other_node() {
        assert_eq!(crowds("xeon-e5620", &Policy::Scatter, 1).1, []);
        assert_eq!(crowds("xeon-e5620", &Policy::Compact, 4).1, []);
    }
}
