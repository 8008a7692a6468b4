//! MPI programs for tests, built by the compilers of the MPIs that are installed, and the environment that they run in.

use std::path::{Path, PathBuf};
use std::process::Command;

/// An MPI of Debian's.
#[derive(Clone, Copy)]
pub struct Mpi {
    /// As `--mpi` has it.
    pub name: &'static str,
    pub compiler: &'static str,
}

pub const OPEN_MPI: Mpi = Mpi { name: "openmpi", compiler: "mpicc.openmpi" };
pub const MPICH: Mpi = Mpi { name: "mpich", compiler: "mpicc.mpich" };

impl Mpi {
    /// MPICH's mpiexec, by the name that Debian gives it where both are installed.
    #[allow(dead_code, reason = "only tests of exports need it")]
    pub fn launcher_of_mpich() -> &'static str {
        let has = |name: &str| launch::executable_path(name.as_ref()).is_ok();
        if has("mpiexec.hydra") { "mpiexec.hydra" } else { "mpiexec" }
    }

    /// A program of ours, built by this MPI's compiler; none where that isn't installed or can't bind and trace.
    pub fn program(self, folder: &Path, name: &str) -> Option<PathBuf> {
        let cpus = machine::linux::allowed_cpus().map_or(0, |cpus| cpus.len());
        let traced = launch::trace_available();
        if cpus < 2 || traced.is_err() || Command::new(self.compiler).arg("-show").output().is_err() {
            println!("skipped: {} CPUs, ptrace {traced:?}, or no {} (package openmpi-bin, mpich)", cpus, self.compiler);
            return None;
        }
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(format!("{name}.c"));
        let program = folder.join(format!("{name}.{}", self.name));
        let status = Command::new(self.compiler)
            .args(["-O1", "-pthread", "-fopenmp", "-o"])
            .arg(&program)
            .arg(source)
            .status()
            .unwrap();
        assert!(status.success());
        Some(program)
    }
}

/// The variables by which an MPI asks nothing but this machine, and starts ranks for root, too.
pub const ENVIRONMENT: [(&str, &str); 5] = [
    ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
    ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ("OMPI_MCA_oob_tcp_if_include", "lo"),
    ("OMPI_MCA_btl", "self,vader"),
    ("OMPI_MCA_pml", "ob1"),
];

/// The variables that say how many threads there are, or bind them.
pub const THREAD_VARIABLES: [&str; 4] = ["OMP_NUM_THREADS", "OMP_PLACES", "OMP_PROC_BIND", "GOMP_CPU_AFFINITY"];
