//! Launchers of MPI programs: how each is called, what its ranks find in their environment, and what goes wrong between the two.
//!
//! A launcher starts as many processes as it is told, and may bind them. [`Mpi::command`] calls it such that it doesn't;
//! [`misconfigurations`] says of ranks that were seen what their launcher, or the environment, did to them.

mod misconfigurations;
mod words;

pub use misconfigurations::{RankContext, SeenRank, misconfigurations, obstacle, other_world};

use crate::openmp::{Dynamic, part_of_libc, system_dirs};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use strum::{Display, EnumString, IntoStaticStr, VariantArray};

/// A launcher of MPI programs.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumString, IntoStaticStr, VariantArray, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase", parse_err_ty = UnknownMpi, parse_err_fn = unknown)]
pub enum Mpi {
    /// Open MPI's mpirun.
    OpenMpi,
    /// MPICH's, Intel MPI's and MVAPICH's mpiexec (Hydra).
    Mpich,
    /// Slurm's srun.
    Srun,
}

/// A text that names no launcher.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no MPI launcher: choose one of {all}", all = Mpi::VARIANTS.iter().map(<&str>::from).collect::<Vec<_>>().join(", "))]
pub struct UnknownMpi(String);

fn unknown(text: &str) -> UnknownMpi {
    UnknownMpi(text.into())
}

impl Mpi {
    /// The launcher's program: the name that Debian gives it where both are installed, else the one that all share.
    pub fn program(self) -> &'static str {
        let first_of = |names: [&'static str; 2]| {
            names.into_iter().find(|name| crate::executable_path(name.as_ref()).is_ok()).unwrap_or(names[1])
        };
        match self {
            Self::OpenMpi => first_of(["mpirun.openmpi", "mpirun"]),
            Self::Mpich => first_of(["mpiexec.hydra", "mpiexec"]),
            Self::Srun => "srun",
        }
    }

    /// The command that starts `ranks` processes of what follows it. Without `options` of the caller's, it binds none of them; `further`
    /// words come behind.
    pub fn command(
        self,
        ranks: usize,
        threads: usize,
        options: Option<&[String]>,
        further: &[String],
    ) -> Vec<OsString> {
        let mut words = vec![self.program().to_owned(), "-n".into(), ranks.to_string()];
        if self == Self::Srun {
            // Since 22.05 a step doesn't inherit how many CPUs a task has.
            words.extend(["-c".into(), threads.to_string()]);
        }
        match (options, self) {
            (Some(options), _) => words.extend(options.iter().cloned()),
            (None, Self::OpenMpi) => words.extend(["--bind-to", "none", "--oversubscribe"].map(String::from)),
            (None, Self::Mpich) => words.extend(["-bind-to", "none"].map(String::from)),
            // Our own CPUs are those of one node, and there may be fewer of them than threads.
            (None, Self::Srun) => words.extend(["-N1", "--overcommit", "--cpu-bind=none"].map(String::from)),
        }
        words.extend(further.iter().cloned());
        words.into_iter().map(OsString::from).collect()
    }
}

/// Which process of an MPI program this one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankIdentity {
    /// Its rank among all.
    pub rank: usize,
    /// Its place among the ranks of its node: which CPUs it gets is a question of that.
    pub local_rank: usize,
}

impl Mpi {
    /// The variables by which it tells a process its rank and its place on its node, its own first: those of others may be left over from a
    /// program around this one. Slurm's come last elsewhere, since below an mpirun inside of a job they are those of the step, the same
    /// for all ranks of a node.
    fn identities(self) -> &'static [(&'static str, &'static str)] {
        const OPEN_MPI: (&str, &str) = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK");
        const HYDRA: (&str, &str) = ("PMI_RANK", "MPI_LOCALRANKID");
        const PMIX: (&str, &str) = ("PMIX_RANK", "PMIX_LOCAL_RANK");
        const SLURM: (&str, &str) = ("SLURM_PROCID", "SLURM_LOCALID");
        match self {
            Self::OpenMpi => &[OPEN_MPI, PMIX, HYDRA, SLURM],
            Self::Mpich => &[HYDRA, PMIX, OPEN_MPI, SLURM],
            Self::Srun => &[SLURM, PMIX, HYDRA, OPEN_MPI],
        }
    }
}

impl RankIdentity {
    /// What `mpi` has said in the environment; none where no launcher has.
    pub fn from_environment(mpi: Mpi, variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let number = |name: &str| variable(name)?.parse::<usize>().ok();
        mpi.identities().iter().find_map(|(rank, local)| {
            let rank = number(rank)?;
            Some(Self { rank, local_rank: number(local).unwrap_or(rank) })
        })
    }
}

/// The MPI library that a program links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MpiLibrary {
    /// Its file name.
    pub soname: String,
    /// Whether it is Open MPI; else it is MPICH or one with its interface.
    pub is_open_mpi: bool,
}

/// The MPI library that `executable` links, itself or through its libraries.
pub fn linked_mpi(executable: &Path) -> Option<MpiLibrary> {
    let (mut waiting, mut seen, system) = (vec![executable.to_path_buf()], HashSet::new(), system_dirs());
    let mut found: Option<(String, PathBuf)> = None;
    while let Some(path) = waiting.pop() {
        let Some(dynamic) = Dynamic::read(&path) else { continue };
        for needed in &dynamic.needed {
            let name = needed.to_string_lossy().into_owned();
            if part_of_libc(&name) || !seen.insert(name.clone()) {
                continue;
            }
            let Some(file) = dynamic.find(needed, &system) else { continue };
            if name.starts_with("libmpi.so") || name.starts_with("libmpich.so") {
                found.get_or_insert((name, file));
            } else {
                waiting.push(file);
            }
        }
    }
    // Open MPI's libmpi needs its own libopen-pal; nobody else's does.
    let (soname, file) = found?;
    let needed = Dynamic::read(&file).map(|dynamic| dynamic.needed).unwrap_or_default();
    let is_open_mpi = needed.iter().any(|name| name.to_string_lossy().starts_with("libopen-"));
    Some(MpiLibrary { soname, is_open_mpi })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_is_known_by_the_words_of_its_own_launcher() {
        let environment = |mpi, pairs: &'static [(&str, &str)]| {
            RankIdentity::from_environment(mpi, |name| {
                pairs.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned())
            })
        };
        let identity = |rank, local_rank| Some(RankIdentity { rank, local_rank });
        assert_eq!(environment(Mpi::OpenMpi, &[]), None);
        // Below an mpirun within a job: Slurm's are those of the step.
        let hydra = &[("SLURM_PROCID", "0"), ("PMI_RANK", "3"), ("MPI_LOCALRANKID", "1")];
        assert_eq!(environment(Mpi::Mpich, hydra), identity(3, 1));
        let open_mpi = &[
            ("OMPI_COMM_WORLD_RANK", "5"),
            ("OMPI_COMM_WORLD_LOCAL_RANK", "2"),
            ("PMIX_RANK", "5"),
            ("SLURM_LOCALID", "0"),
        ];
        assert_eq!(environment(Mpi::OpenMpi, open_mpi), identity(5, 2));
        assert_eq!(environment(Mpi::Srun, &[("SLURM_PROCID", "6"), ("SLURM_LOCALID", "2")]), identity(6, 2));
        // Left over from a program of Open MPI around it.
        let both = &[("OMPI_COMM_WORLD_RANK", "5"), ("PMI_RANK", "0"), ("SLURM_PROCID", "4"), ("SLURM_LOCALID", "1")];
        assert_eq!(environment(Mpi::Mpich, both), identity(0, 0));
        assert_eq!(environment(Mpi::Srun, both), identity(4, 1));
    }
}
