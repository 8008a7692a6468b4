//! Placements of ranks in the words of the launchers of MPI programs.
//!
//! A launcher binds a rank to a set of CPUs, and knows nothing of its threads: their order is lost in all of these but `list`, `sbatch` and `json`.

use crate::cpu::CpuId;
use crate::export::mask;
use crate::policy::join;
use crate::ranks::RankPlacement;
use crate::slurm_script;
use crate::tree::Machine;
use serde_json::json;
use std::fmt::Write as _;
use strum::{Display, EnumString, IntoStaticStr, VariantArray};

/// A launcher that can be told where ranks go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case", parse_err_ty = UnknownRankSyntax, parse_err_fn = unknown)]
pub enum RankSyntax {
    /// CPU numbers by thread, with a slash between ranks.
    List,
    /// A rankfile of Open MPI 4, by the kernel's numbers.
    Openmpi4,
    /// A rankfile of Open MPI 5, which counts hardware threads in the order of hwloc's tree.
    Openmpi5,
    /// MPICH, and other launchers that are Hydra.
    Mpich,
    /// Intel MPI.
    IntelMpi,
    /// Slurm.
    Slurm,
    /// A job script for Slurm, which binds each thread.
    Sbatch,
    /// Flux.
    Flux,
    /// JSON.
    Json,
}

/// A text that names no launcher.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no export syntax for ranks: choose one of {all}", all = RankSyntax::VARIANTS.iter().map(<&str>::from).collect::<Vec<_>>().join(", "))]
pub struct UnknownRankSyntax(String);

fn unknown(text: &str) -> UnknownRankSyntax {
    UnknownRankSyntax(text.into())
}

impl RankSyntax {
    /// Whether the order of a rank's threads is kept.
    pub fn keeps_threads(self) -> bool {
        matches!(self, Self::List | Self::Json | Self::Sbatch)
    }

    /// What one pastes: a command's beginning, an environment, or a rankfile, whose first line says how it is used.
    pub fn text(self, placement: &RankPlacement, machine: &Machine) -> String {
        let sets: Vec<Vec<CpuId>> = placement.ranks.iter().map(|rank| rank.union().iter().collect()).collect();
        let ranks = sets.len();
        let threads = placement.ranks.iter().map(|rank| rank.slots.len()).max().unwrap_or(1);
        let joined = |separator: &str, of_rank: &dyn Fn(&[CpuId]) -> String| {
            sets.iter().map(|set| of_rank(set)).collect::<Vec<_>>().join(separator)
        };
        match self {
            Self::List => placement.to_string(),
            Self::Openmpi4 => {
                // Without the parameter, slots are positions of cores, and of a core's hardware threads all are taken.
                let options = "--mca rmaps_rank_file_physical 1 --rankfile FILE";
                rankfile(&format!("mpirun -n {ranks} {options} ./app"), &sets, &|cpu| cpu.0)
            }
            Self::Openmpi5 => {
                let command = format!("mpirun -n {ranks} --map-by rankfile:file=FILE:hwtcpus ./app");
                rankfile(&command, &sets, &|cpu| machine.pu_index(cpu).map_or(cpu.0, |index| index.0))
            }
            Self::Mpich => format!("mpiexec -n {ranks} -bind-to user:{}", joined(",", &|set| join(set, "+"))),
            Self::IntelMpi => {
                let masks = joined(",", &|set| mask(set).trim_start_matches("0x").to_owned());
                format!("I_MPI_PIN=1 I_MPI_PIN_DOMAIN=\"[{masks}]\" mpiexec -n {ranks}")
            }
            Self::Slurm => format!("srun -n{ranks} -c{threads} --cpu-bind=mask_cpu:{}", joined(",", &mask)),
            Self::Sbatch => slurm_script::script(placement),
            Self::Flux => {
                format!("flux run -n {ranks} -c {threads} -o cpu-affinity='map:{}'", joined(";", &|set| join(set, ",")))
            }
            Self::Json => json!({
                "policy": placement.policy,
                "ranks": ranks,
                "threads": threads,
                "slots": placement.ranks.iter().map(|rank| &rank.slots).collect::<Vec<_>>(),
            })
            .to_string(),
        }
    }
}

fn rankfile(command: &str, sets: &[Vec<CpuId>], number: &dyn Fn(CpuId) -> u32) -> String {
    let mut text = format!("# {command}");
    for (rank, set) in sets.iter().enumerate() {
        let slots: Vec<String> = set.iter().map(|&cpu| number(cpu).to_string()).collect();
        let _ = write!(text, "\nrank {rank}=localhost slot={}", slots.join(","));
    }
    text
}
