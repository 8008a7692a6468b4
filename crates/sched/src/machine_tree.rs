//! Where each CPU is in the machine, as the BPF side wants it.

use machine::{CpuId, Level, Machine};

/// The levels at which two CPUs can meet, between the CPU itself and the machine; `LEVELS` of bpf/shared.h.
pub const LEVELS: [Level; 6] = [Level::Core, Level::L2, Level::L3, Level::Node, Level::Package, Level::Group];

/// The machine's CPUs by kernel number.
pub struct MachineTree {
    /// Of each CPU and level, the lowest CPU that shares it.
    pub places: Vec<(u32, [u32; LEVELS.len()])>,
    /// At which levels CPUs of this machine meet.
    pub levels: Vec<Level>,
    /// Why it isn't known.
    pub missing: Option<String>,
}

impl MachineTree {
    /// This machine's.
    pub fn read() -> Self {
        match Machine::host() {
            Ok(machine) => Self::of(&machine),
            Err(error) => Self { places: Vec::new(), levels: vec![Level::Machine], missing: Some(error.to_string()) },
        }
    }

    fn of(machine: &Machine) -> Self {
        let cpus: Vec<CpuId> = machine.pus().iter().map(|pu| pu.cpu).collect();
        let shares = |a: CpuId, b: CpuId, level: Level| machine.sharing(a, b).is_some_and(|shared| shared <= level);
        let place = |&cpu: &CpuId| {
            let lowest = |level| cpus.iter().filter(|&&other| shares(cpu, other, level)).min();
            (cpu.0, LEVELS.map(|level| lowest(level).map_or(cpu.0, |lowest| lowest.0)))
        };
        // Whatever two CPUs share, two neighbours in the tree share.
        let mut levels: Vec<Level> = cpus.windows(2).filter_map(|pair| machine.sharing(pair[0], pair[1])).collect();
        levels.sort_unstable();
        levels.dedup();
        Self { places: cpus.iter().map(place).collect(), levels, missing: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_cpus_meet_where_the_tree_says() {
        let machine = Machine::named("package:2 l3:2 l2:2 core:2 pu:2").expect("a synthetic machine");
        let tree = MachineTree::of(&machine);
        for &(a, place_a) in &tree.places {
            for &(b, place_b) in &tree.places {
                let meets = LEVELS.iter().zip(place_a.iter().zip(place_b)).find(|(_, (x, y))| **x == *y);
                let meets = meets.map_or(Level::Machine, |(level, _)| *level);
                let shared = machine.sharing(CpuId(a), CpuId(b)).expect("both are there");
                assert_eq!(if a == b { Level::Pu } else { meets }, shared, "{a} and {b}");
            }
        }
    }
}
