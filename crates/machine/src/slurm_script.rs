//! Whole placements for Slurm: each rank on its CPUs by `srun`, each thread on its own by OpenMP.
//!
//! `srun` binds a rank (a task) to a set, and knows nothing of threads. So each task begins as a shell, which knows by `SLURM_LOCALID`
//! which one it is, names its threads' places, and becomes the program. Places are those of any OpenMP runtime: thread i of a rank takes
//! place i.

use crate::cpu::CpuId;
use crate::export::mask;
use crate::placement::Placement;
use crate::policy::join;
use crate::ranks::RankPlacement;

/// `{0},{8,9}`: the CPUs of each thread, as `OMP_PLACES` has them.
fn places(rank: &Placement) -> String {
    let of_thread = |cpus: Vec<CpuId>| format!("{{{}}}", join(&cpus, ","));
    rank.slots.iter().map(|slot| of_thread(slot.iter().collect())).collect::<Vec<_>>().join(",")
}

/// The words that come before a program in a job: they start it as these ranks on one node of the job.
///
/// Masks hold where Slurm binds tasks (`task/affinity`); where it doesn't, places do. `--overcommit` lets a rank have several threads, and
/// threads outnumber CPUs, without a count of CPUs for each task, which would confine it to others than the masks name.
pub fn srun_line(placement: &RankPlacement) -> String {
    let ranks = &placement.ranks;
    let threads = ranks.iter().map(|rank| rank.slots.len()).max().unwrap_or(1);
    let masks: Vec<String> = ranks.iter().map(|rank| mask(&rank.union().iter().collect::<Vec<_>>())).collect();
    let srun = format!("srun --nodes=1 --ntasks={} --overcommit --cpu-bind=mask_cpu:{}", ranks.len(), masks.join(","));
    let cases: Vec<String> =
        ranks.iter().enumerate().map(|(rank, slots)| format!("{rank}) p=\"{}\";;", places(slots))).collect();
    format!(
        "{srun} sh -c 'case $SLURM_LOCALID in {} esac; \
         exec env OMP_NUM_THREADS={threads} OMP_PROC_BIND=close OMP_PLACES=\"$p\" \"$@\"' sh",
        cases.join(" ")
    )
}

/// A script for `sbatch` that runs its arguments so: `sbatch FILE ./app input.dat`. In a job that is there already, `sh FILE ./app` does.
pub fn script(placement: &RankPlacement) -> String {
    let ranks = placement.ranks.len();
    format!(
        "#!/bin/sh\n\
         #SBATCH --nodes=1\n\
         #SBATCH --exclusive\n\
         #SBATCH --ntasks={ranks}\n\
         #SBATCH --overcommit\n\
         # {placement}: the CPUs of each thread, rank by rank, of a node of the kind that this was made for.\n\
         # sbatch FILE ./app input.dat\n\
         {} \"$@\"",
        srun_line(placement)
    )
}
