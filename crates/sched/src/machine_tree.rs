//! Where each CPU is in the machine, as the BPF side wants it.

use crate::intf::Place;
use machine::{CpuId, Level, Machine};
use strum::VariantArray;

/// The machine's CPUs by kernel number.
pub struct MachineTree {
    /// Where each CPU is.
    pub places: Vec<(u32, Place)>,
    /// At which levels CPUs of this machine meet.
    pub levels: Vec<Level>,
    /// Why nothing is known of it.
    pub missing: Option<String>,
}

impl MachineTree {
    /// This machine's, with the CPUs that are online now.
    pub fn read() -> Self {
        match Machine::host() {
            Ok(machine) => Self::from_machine(&machine),
            Err(error) => Self { places: Vec::new(), levels: vec![Level::Machine], missing: Some(error.to_string()) },
        }
    }

    /// That of any machine.
    pub fn from_machine(machine: &Machine) -> Self {
        let cpus: Vec<CpuId> = machine.pus().iter().map(|pu| pu.cpu).collect();
        let shares = |a: CpuId, b: CpuId, level: Level| machine.sharing(a, b).is_some_and(|shared| shared <= level);
        let place = |&cpu: &CpuId| {
            let lowest = |level| cpus.iter().filter(|&&other| shares(cpu, other, level)).min();
            let mut place = Place::default();
            for (group, &level) in place.group.iter_mut().zip(&Level::VARIANTS[1..]) {
                // 0 is a CPU of which nothing is known.
                *group = lowest(level).map_or(cpu.0, |lowest| lowest.0) + 1;
            }
            (cpu.0, place)
        };
        // Whatever two CPUs share, two neighbours in the tree share.
        let mut levels: Vec<Level> = cpus.windows(2).filter_map(|pair| machine.sharing(pair[0], pair[1])).collect();
        levels.sort_unstable();
        levels.dedup();
        Self { places: cpus.iter().map(place).collect(), levels, missing: None }
    }
}
