//! Ranks of MPI in a guest with as many CPUs as they have threads, and with hardware threads: where each thread of each rank was.

use crate::guest;
use crate::host_tests::{answer, shell};
use machine::{CpuSet, RankPolicy, RankShape};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use vm::{Guest, Topology};

/// An MPI as `--mpi` has it, and its compiler.
const MPIS: [(&str, &str); 2] = [("openmpi", "mpicc.openmpi"), ("mpich", "mpicc.mpich")];

/// A program whose ranks start threads, built by each MPI's compiler; those that are missing are told.
fn programs() -> Vec<(&'static str, PathBuf)> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../stayput/tests/programs/mpi_threads.c");
    let built = |(mpi, compiler): (&'static str, &str)| {
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("mpi_threads.{mpi}"));
        let status = Command::new(compiler).args(["-O1", "-pthread", "-o"]).arg(&program).arg(&source).status();
        if status.is_err() {
            eprintln!("kernel test skipped for {mpi}: there is no {compiler} (Debian: libopenmpi-dev, libmpich-dev)");
        }
        assert!(status.as_ref().is_ok_and(std::process::ExitStatus::success) || status.is_err());
        status.is_ok().then_some((mpi, program))
    };
    MPIS.into_iter().filter_map(built).collect()
}

/// What Open MPI needs where there is no network, and root alone.
const VARIABLES: &str = "HOME=/tmp TMPDIR=/tmp OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
                         OMPI_MCA_oob_tcp_if_include=lo OMPI_MCA_btl=self,vader OMPI_MCA_pml=ob1";

/// A guest with this host's files, in which ranks are started.
struct Ranks {
    guest: Guest,
    stayput: PathBuf,
    programs: Vec<(&'static str, PathBuf)>,
}

impl Ranks {
    /// One that sees `topology`; none where there is no MPI, or no machine can be booted.
    fn in_guest(topology: &str) -> Option<Self> {
        let programs = programs();
        if programs.is_empty() {
            return None;
        }
        let stayput = guest::built("stayput");
        Some(Self { guest: shell(topology)?, stayput, programs })
    }

    /// What `stayput run` saw of ranks there, and what it said.
    fn run(&mut self, words: &str, program: &str) -> (Value, String) {
        let stayput = self.stayput.display();
        let command = format!("{VARIABLES} {stayput} run --json /tmp/seen {words} -- {program} < /dev/null");
        let said = answer(&mut self.guest, &command).unwrap();
        let seen = answer(&mut self.guest, "cat /tmp/seen; rm -f /tmp/seen").unwrap();
        (serde_json::from_str(&seen).unwrap_or_else(|error| panic!("{command}: {error}: {seen}\n{said}")), said)
    }
}

/// The CPUs of each rank's threads as they were read back, those of the library's own threads apart.
fn read_back(seen: &Value) -> Vec<Vec<CpuSet>> {
    let of_rank = |rank: &Value| {
        let threads = rank["observation"]["threads"].as_array().unwrap().iter();
        let own = threads.filter(|thread| thread["process"] == 0 && thread["is_helper"] != true);
        own.map(|thread| serde_json::from_value(thread["actual_cpus"].clone()).unwrap()).collect()
    };
    seen["ranks"].as_array().unwrap().iter().map(of_rank).collect()
}

mod long {
    use super::*;

    #[test]
    #[ignore = "boots a virtual machine: make test-kernel"]
    fn each_thread_of_each_rank_has_a_cpu_of_its_own() {
        let Some(mut ranks) = Ranks::in_guest("2x4") else { return };
        let machine = "2x4".parse::<Topology>().unwrap().machine().unwrap();
        for (mpi, program) in ranks.programs.clone() {
            for shape in ["4x1", "2x2", "4x2"] {
                let of_shape: RankShape = shape.parse().unwrap();
                for place in ["ranks=scatter:package,threads=compact", "ranks=balanced:package,threads=scatter"] {
                    let placement = place.parse::<RankPolicy>().unwrap().place(&machine, of_shape).unwrap();
                    let expected: Vec<Vec<CpuSet>> = placement.ranks.iter().map(|rank| rank.slots.clone()).collect();
                    assert_eq!(placement.doubled_up(), 0, "{shape} {place} is exact");
                    let program = format!("{} {}", program.display(), of_shape.threads - 1);
                    let words = format!("-n {shape} --mpi {mpi} --place {place}");
                    let (seen, said) = ranks.run(&words, &program);
                    assert_eq!(read_back(&seen), expected, "{mpi} {shape} {place}: {said}");
                    eprintln!("{mpi} {shape} {place}: {placement}");
                }
            }
        }
        ranks.guest.end();
    }

    /// What the launchers do where cores have two hardware threads.
    #[test]
    #[ignore = "boots a virtual machine: make test-kernel"]
    fn ranks_on_hardware_threads_of_one_core_are_told() {
        let Some(mut ranks) = Ranks::in_guest("1x4x2") else { return };
        for (mpi, program) in ranks.programs.clone() {
            let (near, apart) = match mpi {
                "openmpi" => ("--map-by hwthread --bind-to hwthread", "--map-by core --bind-to core"),
                _ => ("-bind-to hwthread", "-bind-to core"),
            };
            let program = format!("{} 0", program.display());
            let (_, said) = ranks.run(&format!("-n 2x1 --mpi {mpi} --mpi-args '{near}'"), &program);
            let sentence = "put ranks 0 and 1 on hardware threads of one core (CPUs 0-1), while 3 cores have nobody";
            assert!(said.contains(sentence), "{mpi}: {said}");
            let (_, said) = ranks.run(&format!("-n 2x1 --mpi {mpi} --mpi-args '{apart}'"), &program);
            assert!(!said.contains("hardware threads of one core"), "{mpi}: {said}");
        }
        ranks.guest.end();
    }
}
