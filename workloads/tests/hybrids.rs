//! The hybrid versions, of MPI ranks with threads: the same bits as the versions with threads alone, whatever the ranks and threads and
//! whichever MPI starts them.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod built;

use built::{built, compile, compile_altered, lines, number, refusal, run, text};
use std::path::Path;
use std::process::{Command, Output};

/// A hybrid program beside the one that it is a version of.
struct Hybrid {
    alone: built::Built,
    executable: &'static str,
    command: &'static str,
    mpi: &'static str,
}

macro_rules! hybrid {
    ($alone:literal, $mpi:literal) => {
        Hybrid {
            alone: built!($alone),
            executable: env!(concat!("CARGO_BIN_EXE_", $alone, "-", $mpi)),
            command: include_str!(concat!(env!("OUT_DIR"), "/", $alone, "-", $mpi, ".command")),
            mpi: $mpi,
        }
    };
}

/// Those whose MPI was there when they were built, and whose launcher is there now.
fn hybrids() -> Vec<Hybrid> {
    let all = [
        hybrid!("climate", "openmpi"),
        hybrid!("climate", "mpich"),
        hybrid!("npb-ft", "openmpi"),
        hybrid!("npb-ft", "mpich"),
    ];
    let is_there = |hybrid: &Hybrid| {
        let is_there = !hybrid.command.is_empty() && launcher(hybrid.mpi, 1).arg("true").output().is_ok();
        if !is_there {
            println!("skipped: {}-{}: no {0} here, or none when it was built", hybrid.alone.executable, hybrid.mpi);
        }
        is_there
    };
    all.into_iter().filter(is_there).collect()
}

/// What starts so many ranks of what follows, on this machine alone, however many CPUs it has.
fn launcher(mpi: &str, ranks: u32) -> Command {
    let first_of = |names: [&'static str; 2]| {
        names.into_iter().find(|name| launch::executable_path(name.as_ref()).is_ok()).unwrap_or(names[1])
    };
    let mut command = match mpi {
        "openmpi" => {
            let mut command = Command::new(first_of(["mpirun.openmpi", "mpirun"]));
            command.args(["--bind-to", "none", "--oversubscribe", "--mca", "btl", "self,vader", "--mca", "pml", "ob1"]);
            command.args(["--mca", "oob_tcp_if_include", "lo"]);
            command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
            command
        }
        _ => {
            let mut command = Command::new(first_of(["mpiexec.hydra", "mpiexec"]));
            command.args(["-bind-to", "none"]);
            command
        }
    };
    command.args(["-n", &ranks.to_string()]).env_remove("OMP_THREAD_LIMIT");
    command
}

fn run_ranks(mpi: &str, program: impl AsRef<Path>, args: &[&str], ranks: u32, threads: u32) -> Output {
    let mut command = launcher(mpi, ranks);
    command.arg(program.as_ref()).args(args).env("OMP_NUM_THREADS", threads.to_string()).output().unwrap()
}

/// Every line that a run prints of its results: all but its times, and what it ran on.
fn results(output: &Output) -> Vec<String> {
    let of_run = ["threads", "threads with work", "seconds", "mops", "ranks", "MPI"];
    let kept = lines(output).into_iter().filter(|(name, _)| !of_run.contains(name));
    kept.map(|(name, value)| format!("{name}: {value}")).collect()
}

fn assert_same_bits(hybrid: &Hybrid, class: &str, shapes: &[(u32, u32)]) {
    let alone = run(hybrid.alone.executable, &[class], 2);
    assert_eq!(alone.status.code(), Some(0), "{alone:?}");
    for &(ranks, threads) in shapes {
        let output = run_ranks(hybrid.mpi, hybrid.executable, &[class], ranks, threads);
        let what = format!("{} {class} of {} as {ranks}x{threads}", hybrid.executable, hybrid.mpi);
        assert_eq!(output.status.code(), Some(0), "{what}: {output:?}");
        assert_eq!(results(&output), results(&alone), "{what}");
        let lines = lines(&output);
        assert_eq!(lines["verification"], "successful", "{what}");
        assert_eq!(number(&lines, "ranks"), f64::from(ranks), "{what}");
        assert_eq!(number(&lines, "threads"), f64::from(ranks * threads), "{what}");
        let useful = hybrid.alone.program.classes.iter().find(|known| known.name == class).unwrap().threads;
        assert_eq!(number(&lines, "threads with work"), f64::from(ranks * threads).min(useful as f64), "{what}");
        assert!(number(&lines, "seconds") > 0.0, "{what}");
    }
}

#[test]
fn ranks_and_threads_give_the_same_bits_as_threads_alone() {
    for hybrid in hybrids() {
        assert_same_bits(&hybrid, "S", &[(1, 2), (2, 1), (2, 2), (4, 1)]);
    }
}

/// More threads than climate has rows, and a grid of ranks that no side of which is one.
#[test]
fn ranks_may_have_few_rows_or_none() {
    for hybrid in hybrids().into_iter().filter(|hybrid| hybrid.mpi == "openmpi") {
        let shapes: &[(u32, u32)] = if hybrid.alone.executable.ends_with("climate") { &[(8, 5)] } else { &[(8, 2)] };
        assert_same_bits(&hybrid, "S", shapes);
    }
}

#[test]
#[ignore = "takes minutes: cargo test -p stayput-workloads --test hybrids -- --ignored"]
fn larger_classes_give_the_same_bits_too() {
    for hybrid in hybrids() {
        assert_same_bits(&hybrid, "W", &[(1, 2), (2, 1), (2, 2), (4, 1), (6, 1), (7, 3)]);
        assert_same_bits(&hybrid, "A", &[(2, 1), (2, 2)]);
    }
}

/// A rank that sends another row, or that picks another point, is noticed.
#[test]
fn a_wrong_exchange_fails_the_verification() {
    let alterations = [
        ("climate", "HALO_ROWS = 2", "HALO_ROWS = 1"),
        ("climate", "add(core, core->u[stage], own_cells(owner)", "add(core, core->u[0], own_cells(owner)"),
        (
            "npb-ft",
            "size_of(mine->z) * x_blocks * (size_t)y_blocks.begin * LANES +",
            "x_blocks * (size_t)y_blocks.begin * LANES +",
        ),
        (
            "npb-ft",
            "problem.mine = share_of(&problem, ranks_mine());\n    problem.spectrum",
            "problem.mine = share_of(&problem, 0);\n    problem.spectrum",
        ),
    ];
    for hybrid in hybrids().into_iter().filter(|hybrid| hybrid.mpi == "mpich") {
        let name = &hybrid.alone.program.executable;
        for (position, (_, from, to)) in alterations.iter().enumerate().filter(|(_, (of, ..))| of == name) {
            let called = format!("{name}-{}-altered-{position}", hybrid.mpi);
            let program = compile_altered(&built_like(&hybrid), &called, from, to);
            let output = run_ranks(hybrid.mpi, program, &["S"], 4, 1);
            assert_ne!(output.status.code(), Some(0), "{name} with `{to}`: {output:?}");
            assert!(!text(&output.stdout).contains("verification: successful"), "{name} with `{to}`");
        }
    }
}

fn built_like(hybrid: &Hybrid) -> built::Built {
    built::Built { program: hybrid.alone.program, executable: hybrid.executable, command: hybrid.command }
}

#[test]
fn sanitizers_find_nothing_in_ranks() {
    for hybrid in hybrids().into_iter().filter(|hybrid| hybrid.mpi == "mpich") {
        let name = format!("{}-{}-asan", hybrid.alone.program.executable, hybrid.mpi);
        let program = compile(&built_like(&hybrid), &name, |arguments| {
            arguments.retain(|argument| argument != "-O3");
            let flags = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
            arguments.extend(flags.map(str::to_owned));
        });
        let mut command = launcher(hybrid.mpi, 3);
        // What the MPI library itself leaves at its end is none of ours.
        let output = command
            .arg(program)
            .arg("S")
            .env("OMP_NUM_THREADS", "2")
            .env("ASAN_OPTIONS", "detect_leaks=0")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}: {output:?}", hybrid.executable);
    }
}

/// Whatever goes wrong is said once, and all ranks end.
#[test]
fn what_ranks_refuse_is_said_once() {
    let said = |output: &Output, sentence: &str| text(&output.stderr).matches(sentence).count();
    for hybrid in hybrids() {
        let output = run_ranks(hybrid.mpi, hybrid.executable, &["Z"], 3, 1);
        assert_eq!(said(&output, "there is no class `Z`; choose S, W, A, B, C or D"), 1, "{output:?}");
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        if hybrid.alone.program.name != "npb:ft" {
            continue;
        }
        // Hundreds of GiB.
        let output = run_ranks(hybrid.mpi, hybrid.executable, &["D"], 2, 1);
        assert_eq!(said(&output, "npb-ft: class D needs "), 1, "{output:?}");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        // A prime number that no side of the grid has room for: 64 planes, and 8 blocks of the widest vectors.
        let output = run_ranks(hybrid.mpi, hybrid.executable, &["S"], 67, 1);
        assert_eq!(said(&output, "67 ranks can't share the 64 x 64 x 64 points"), 1, "{output:?}");
        assert_eq!(output.status.code(), Some(2), "{output:?}");
    }
}

#[test]
fn without_a_launcher_there_is_one_rank_and_help_asks_for_none() {
    for hybrid in hybrids() {
        let version = run(hybrid.executable, &["--version"], 1);
        let library = if hybrid.mpi == "openmpi" { "Open MPI" } else { "MPICH" };
        assert!(text(&version.stdout).contains(library), "{version:?}");
        if hybrid.mpi == "mpich" {
            // As srun starts it where nothing tells MPI of the other tasks.
            let task = Command::new(hybrid.executable).arg("S").env("SLURM_STEP_NUM_TASKS", "2").output().unwrap();
            assert!(text(&task.stderr).contains("srun started 2 tasks, and MPI (MPICH"), "{task:?}");
            assert_eq!(task.status.code(), Some(1), "{task:?}");
        }
        let useful = run(hybrid.executable, &["--useful-threads", "S"], 1);
        let class = &hybrid.alone.program.classes[0];
        assert_eq!(text(&useful.stdout), format!("{}\n", class.threads));
    }
}

/// In the place of a program whose MPI was missing stands one that says so.
#[test]
fn without_an_mpi_the_program_says_what_was_missing() {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("without-mpi");
    let defines = [("HYBRID_NAME", "climate-lam"), ("MPI_NAME", "LAM"), ("MPI_PACKAGE", "liblam4-dev")];
    let defines = defines.map(|(name, value)| format!("-D{name}=\"{value}\""));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("harness/without_mpi.c");
    let built = Command::new("gcc").args(defines).arg("-o").arg(&program).arg(source).output().unwrap();
    assert!(built.status.success(), "{built:?}");
    let said = refusal(&Command::new(program).arg("S").output().unwrap(), 1);
    assert!(
        said.starts_with("climate-lam: LAM was missing when it was built; install it (Debian: liblam4-dev)"),
        "{said}"
    );
}
