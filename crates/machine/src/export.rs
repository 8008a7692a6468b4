//! Placements in the words of other programs.

use crate::cpu::CpuId;
use crate::placement::Placement;
use crate::policy::join;
use crate::ranks::RankPlacement;
use crate::slurm_script;
use serde_json::json;
use strum::{Display, EnumString, IntoStaticStr, VariantArray};

/// A program or file format that can be told where threads go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case", parse_err_ty = ExportError, parse_err_fn = unknown)]
pub enum Syntax {
    /// CPU numbers with commas.
    List,
    /// `GOMP_CPU_AFFINITY` of libgomp, which libomp reads too.
    Gomp,
    /// `KMP_AFFINITY` of libomp and Intel's runtime; it overrides `OMP_PLACES`.
    Kmp,
    /// OpenMP's own `OMP_PLACES`.
    OmpPlaces,
    /// `taskset`.
    Taskset,
    /// `numactl`.
    Numactl,
    /// `likwid-pin`.
    Likwid,
    /// `hwloc-bind`.
    Hwloc,
    /// Slurm, one task a CPU.
    SlurmMap,
    /// Slurm, one task on all CPUs.
    SlurmMask,
    /// A job script for Slurm, which binds each thread.
    Sbatch,
    /// A rankfile of Open MPI.
    OpenmpiRankfile,
    /// A systemd unit.
    Systemd,
    /// Docker.
    Docker,
    /// JSON, which `stayput run --place` reads.
    Json,
}

/// What an order of CPUs means to a syntax.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Entry `i` is for thread `i`.
    Threads,
    /// Entry `i` is for task or rank `i`, not for a thread.
    Tasks,
    /// It is a set: any thread may run on any of the CPUs.
    Lost,
}

/// Why a placement can't be written in a syntax.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// The text names no syntax.
    #[error("`{0}` is no export syntax: choose one of {all}", all = Syntax::VARIANTS.iter().map(<&str>::from).collect::<Vec<_>>().join(", "))]
    Unknown(String),
    /// The syntax has one CPU a thread.
    #[error("{syntax} takes one CPU a thread, and thread {thread} has several; omp-places can hold them")]
    SeveralCpus {
        /// The syntax.
        syntax: Syntax,
        /// The first thread with several CPUs.
        thread: usize,
    },
}

fn unknown(text: &str) -> ExportError {
    ExportError::Unknown(text.into())
}

impl Syntax {
    /// What becomes of the order of threads.
    pub fn order(self) -> Order {
        match self {
            Self::Taskset | Self::Numactl | Self::Hwloc | Self::SlurmMask | Self::Systemd | Self::Docker => Order::Lost,
            Self::SlurmMap | Self::OpenmpiRankfile => Order::Tasks,
            Self::List | Self::Gomp | Self::Kmp | Self::OmpPlaces | Self::Likwid | Self::Sbatch | Self::Json => {
                Order::Threads
            }
        }
    }

    /// Whether entry `i` stays entry `i`.
    pub fn keeps_order(self) -> bool {
        self.order() != Order::Lost
    }

    /// What one pastes: a command's beginning, environment assignments, a line of a file.
    ///
    /// # Errors
    /// [`ExportError::SeveralCpus`] when a thread has several CPUs and the syntax is about single ones.
    pub fn line(self, placement: &Placement) -> Result<String, ExportError> {
        let one_each = || {
            let several = placement.slots.iter().position(|slot| slot.only().is_none());
            placement.cpus().ok_or(ExportError::SeveralCpus { syntax: self, thread: several.unwrap_or(0) })
        };
        // In thread order as long as every thread has one CPU; a CPU named once is enough for a set.
        let set = || {
            let mut cpus: Vec<CpuId> = Vec::new();
            for cpu in placement.slots.iter().flat_map(|slot| slot.iter()) {
                if !cpus.contains(&cpu) {
                    cpus.push(cpu);
                }
            }
            cpus
        };
        let threads = placement.slots.len();
        Ok(match self {
            Self::List => join(&one_each()?, ","),
            Self::Gomp => format!("GOMP_CPU_AFFINITY=\"{}\"", join(&one_each()?, " ")),
            Self::Kmp => format!("KMP_AFFINITY=\"explicit,granularity=fine,proclist=[{}]\"", join(&one_each()?, ",")),
            Self::OmpPlaces => {
                let places: Vec<String> = (placement.slots.iter())
                    .map(|slot| format!("{{{}}}", join(&slot.iter().collect::<Vec<_>>(), ",")))
                    .collect();
                format!("OMP_PLACES=\"{}\" OMP_PROC_BIND=close", places.join(","))
            }
            Self::Taskset => format!("taskset -c {}", join(&set(), ",")),
            Self::Numactl => format!("numactl -C {}", join(&set(), ",")),
            Self::Likwid => format!("likwid-pin -c {}", join(&one_each()?, ",")),
            Self::Hwloc => {
                let pus: Vec<String> = set().iter().map(|cpu| format!("pu:{cpu}")).collect();
                format!("hwloc-bind -p {} --", pus.join(" "))
            }
            Self::SlurmMap => format!("srun -n{threads} --cpu-bind=map_cpu:{}", join(&one_each()?, ",")),
            Self::SlurmMask => {
                format!("srun -n1 -c{threads} --cpu-bind=mask_cpu:{}", mask(&set()))
            }
            Self::Sbatch => slurm_script::script(&one_rank(placement)),
            Self::OpenmpiRankfile => {
                let ranks: Vec<String> = (one_each()?.iter().enumerate())
                    .map(|(rank, cpu)| format!("rank {rank}=localhost slot={cpu}"))
                    .collect();
                ranks.join("\n")
            }
            Self::Systemd => format!("CPUAffinity={}", join(&set(), " ")),
            Self::Docker => {
                let mut cpus = set();
                cpus.sort_unstable();
                format!("docker run --cpuset-cpus={}", join(&cpus, ","))
            }
            Self::Json => json!({
                "policy": placement.policy,
                "threads": threads,
                "cpus": placement.cpus(),
                "slots": placement.slots,
            })
            .to_string(),
        })
    }

    /// Like [`Syntax::line`], but for `gomp` only the value, without the variable's name.
    ///
    /// # Errors
    /// As there.
    pub fn value(self, placement: &Placement) -> Result<String, ExportError> {
        let line = self.line(placement)?;
        let value = (line.strip_prefix("GOMP_CPU_AFFINITY=\"")).and_then(|rest| rest.strip_suffix('"'));
        Ok(value.map_or_else(|| line.clone(), str::to_owned))
    }
}

/// A program without ranks, as one of them.
fn one_rank(placement: &Placement) -> RankPlacement {
    RankPlacement { policy: placement.policy.clone(), ranks: vec![placement.clone()] }
}

/// A hexadecimal mask of any length.
pub(crate) fn mask(cpus: &[CpuId]) -> String {
    let highest = cpus.iter().map(|cpu| cpu.0).max().unwrap_or(0);
    let digits: String = (0..=highest / 4)
        .rev()
        .map(|place| {
            let digit = (0..4).filter(|bit| cpus.contains(&CpuId(place * 4 + bit))).map(|bit| 1_u32 << bit).sum();
            char::from_digit(digit, 16).unwrap_or('0')
        })
        .collect();
    format!("0x{digits}")
}
