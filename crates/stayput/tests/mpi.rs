//! MPI programs under the real launchers: where each thread of each rank is, what launchers make of our exports, and what goes wrong.
#![expect(clippy::unwrap_used, reason = "the helpers of tests may fail as the tests may")]

mod mpi_programs;

use machine::{CpuSet, Machine, RankPolicy, RankSyntax};
use mpi_programs::{ENVIRONMENT, MPICH, Mpi, OPEN_MPI, THREAD_VARIABLES};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// `stayput run` of ranks, with what it saw; before it what runs it, and variables.
fn run(
    folder: &Path,
    before: &[&str],
    variables: &[(&str, &str)],
    words: &[&str],
    program: &[&str],
) -> (Output, Value) {
    let json = folder.join("seen.json");
    let _ = fs::remove_file(&json);
    let mut line: Vec<&str> = before.to_vec();
    line.push(env!("CARGO_BIN_EXE_stayput"));
    line.extend(["run", "--json", json.to_str().unwrap()]);
    line.extend(words);
    line.push("--");
    line.extend(program);
    let mut command = Command::new(line[0]);
    for name in THREAD_VARIABLES {
        command.env_remove(name);
    }
    let output = command.args(&line[1..]).envs(ENVIRONMENT).envs(variables.iter().copied()).output().unwrap();
    let seen = fs::read(&json).ok().map(|text| serde_json::from_slice(&text).unwrap()).unwrap_or_default();
    (output, seen)
}

fn two_cpus() -> [u32; 2] {
    let cpus: Vec<u32> = machine::linux::allowed_cpus().unwrap().iter().map(|cpu| cpu.0).collect();
    [cpus[0], cpus[1]]
}

/// A set of CPUs as JSON has it.
fn cpus(value: &Value) -> CpuSet {
    serde_json::from_value(value.clone()).unwrap()
}

/// The CPUs of each rank's threads as they were read back, those of helper threads apart.
fn read_back(seen: &Value) -> Vec<Vec<String>> {
    let of_rank = |rank: &Value| {
        let threads = rank["observation"]["threads"].as_array().unwrap().iter();
        let own = threads.filter(|thread| thread["process"] == 0 && thread["is_helper"] != true);
        own.map(|thread| cpus(&thread["actual_cpus"]).to_string()).collect()
    };
    seen["ranks"].as_array().unwrap().iter().map(of_rank).collect()
}

#[test]
fn each_thread_of_each_rank_is_where_it_should_be() {
    let folder = tempfile::tempdir().unwrap();
    for mpi in [OPEN_MPI, MPICH] {
        let Some(threads) = mpi.program(folder.path(), "mpi_threads") else { continue };
        let openmp = mpi.program(folder.path(), "mpi_openmp").unwrap();
        let [a, b] = two_cpus();
        for (shape, place) in [
            ("1x2", format!("{b},{a}/")),
            ("2x1", format!("{b}/{a}")),
            ("2x2", format!("{a},{b}/{b},{a}")),
            ("4x1", format!("{a}/{b}/{b}/{a}")),
        ] {
            // A single rank's list needs no slash.
            let place = place.trim_end_matches('/');
            let expected: Vec<Vec<String>> =
                place.split('/').map(|cpus| cpus.split(',').map(String::from).collect()).collect();
            let further = (expected[0].len() - 1).to_string();
            for program in [vec![threads.to_str().unwrap(), &further], vec![openmp.to_str().unwrap()]] {
                let (output, seen) =
                    run(folder.path(), &[], &[], &["-n", shape, "--mpi", mpi.name, "--place", place], &program);
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                assert!(output.status.success(), "{} {shape}: {said}", mpi.name);
                assert_eq!(read_back(&seen), expected, "{} {shape} {program:?}: {said}", mpi.name);
            }
        }
    }
}

#[test]
fn helper_threads_of_the_library_are_free_and_shown_or_take_places_where_that_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = OPEN_MPI.program(folder.path(), "mpi_threads") else { return };
    let [a, b] = two_cpus();
    let place = format!("{a},{b}");
    let words = ["-n", "1x2", "--mpi", "openmpi", "--place", &place];
    let (output, seen) = run(folder.path(), &[], &[], &words, &[program.to_str().unwrap(), "1"]);
    let all = seen["ranks"][0]["observation"]["threads"].as_array().unwrap().clone();
    let helpers: Vec<&Value> = all.iter().filter(|thread| thread["is_helper"] == true).collect();
    if cfg!(not(target_arch = "x86_64")) {
        println!("skipped: helper threads are told apart on x86-64 only");
        return;
    }
    assert!(!helpers.is_empty(), "{all:?}");
    let both: CpuSet = place.parse().unwrap();
    for helper in helpers {
        assert_eq!(helper["intended_cpus"], Value::Null);
        assert_eq!(cpus(&helper["actual_cpus"]), both);
    }
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("free (MPI helper)") && said.contains("libopen-pal"), "{said}");
    let words = [&words[..], &["--bind-mpi-helpers"]].concat();
    let (_, seen) = run(folder.path(), &[], &[], &words, &[program.to_str().unwrap(), "1"]);
    let all = seen["ranks"][0]["observation"]["threads"].as_array().unwrap().clone();
    assert!(all.iter().all(|thread| thread["intended_cpus"].is_array()), "{all:?}");
}

#[test]
fn launchers_bind_by_our_exports_as_we_say() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::host().unwrap();
    let [a, b] = two_cpus();
    for (mpi, syntax) in [(OPEN_MPI, RankSyntax::Openmpi4), (MPICH, RankSyntax::Mpich)] {
        let Some(program) = mpi.program(folder.path(), "mpi_threads") else { continue };
        for (shape, place) in [("2x1", format!("{b}/{a}")), ("1x2", format!("{a},{b}")), ("2x1", format!("{a}/{b}"))] {
            let placement = place.parse::<RankPolicy>().unwrap().place(&machine, shape.parse().unwrap()).unwrap();
            let text = syntax.text(&placement, &machine);
            let options = match syntax {
                RankSyntax::Openmpi4 => {
                    let rankfile = folder.path().join("rankfile");
                    fs::write(&rankfile, format!("{text}\n")).unwrap();
                    // The options as the file itself says them.
                    let line = text.lines().next().unwrap();
                    let options = &line[line.find("--mca").unwrap()..line.find(" ./app").unwrap()];
                    format!("--report-bindings {}", options.replace("FILE", rankfile.to_str().unwrap()))
                }
                _ => text[text.find("-bind-to").unwrap()..].to_owned(),
            };
            let words = ["-n", shape, "--mpi", mpi.name, "--mpi-args", &options, "--place", &place];
            let (output, seen) = run(folder.path(), &[], &[], &words, &[program.to_str().unwrap(), "1"]);
            let said = String::from_utf8(output.stderr).unwrap();
            assert!(output.status.success(), "{said}");
            assert!(!said.contains("strayed"), "{options}: {said}");
            for (rank, expected) in placement.ranks.iter().enumerate() {
                assert_eq!(cpus(&seen["ranks"][rank]["inherited_cpus"]), expected.union(), "{options}: {said}");
                if matches!(syntax, RankSyntax::Openmpi4) {
                    // `MCW rank 0 bound to socket 0[core 0[hwt 0]], socket 0[core 1[hwt 0]]: [B/B]`
                    let told = |line: &&str| line.contains(&format!("MCW rank {rank} "));
                    let line = said.lines().find(told).unwrap_or_else(|| panic!("no report of rank {rank}: {said}"));
                    let cores =
                        line.split("[core ").skip(1).map(|rest| rest.split('[').next().unwrap().parse().unwrap());
                    let reported: BTreeSet<u32> = cores.collect();
                    let core = |cpu| {
                        machine.object(machine.enclosing(cpu, machine::Kind::Core).unwrap()).logical_index.number()
                    };
                    let ours: BTreeSet<u32> = expected.union().iter().map(core).collect();
                    let is_all =
                        expected.union() == machine.usable_cpus() && line.contains("is not bound (or bound to all");
                    assert!(is_all || reported == ours, "{line}");
                }
            }
        }
    }
}

/// Hydra prints what it binds when it is told to: a line `process 0 binding: 01` for each rank, a digit for each CPU.
#[test]
fn mpich_reports_the_same_binding_by_our_export() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::host().unwrap();
    if MPICH.program(folder.path(), "mpi_openmp").is_none() {
        return;
    }
    let [a, b] = two_cpus();
    for (shape, place) in
        [("2x1", format!("{b}/{a}")), ("1x2", format!("{a},{b}")), ("2x2", format!("{a},{b}/{b},{a}"))]
    {
        let placement = place.parse::<RankPolicy>().unwrap().place(&machine, shape.parse().unwrap()).unwrap();
        let text = RankSyntax::Mpich.text(&placement, &machine);
        let words: Vec<&str> = text.split(' ').skip(1).collect();
        let program = Mpi::launcher_of_mpich();
        let output = Command::new(program).args(&words).arg("true").env("HYDRA_TOPO_DEBUG", "1").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}: {said}");
        for (rank, expected) in placement.ranks.iter().enumerate() {
            let prefix = format!("process {rank} binding: ");
            let bits = said.lines().find_map(|line| line.trim().strip_prefix(&prefix));
            let bits = bits.unwrap_or_else(|| panic!("no report of process {rank} in {said}"));
            let reported: CpuSet =
                bits.chars().zip(0..).filter(|(bit, _)| *bit == '1').map(|(_, cpu)| machine::CpuId(cpu)).collect();
            assert_eq!(reported, expected.union(), "{text}: {said}");
        }
    }
}

#[test]
fn what_launchers_do_wrong_is_told_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let (open_mpi, mpich) = (OPEN_MPI.program(folder.path(), "mpi_openmp"), MPICH.program(folder.path(), "mpi_openmp"));
    let all: Vec<u32> = machine::linux::allowed_cpus().unwrap().iter().map(|cpu| cpu.0).collect();
    let [a, b] = two_cpus();
    let (both, twice, stacked) =
        (format!("{a},{b}"), format!("-bind-to user:{a},{a}"), format!("--cpu-set {a},{b} --bind-to core"));
    let (second, gomp) = (b.to_string(), format!("{a} {b}"));
    let many = (all.len() + 1).to_string();
    let (over, apart, first) = (format!("{a}/{a}"), format!("{a}/{b}"), a.to_string());
    let both_in_a_list: CpuSet = machine::linux::allowed_cpus().unwrap();
    struct Case<'a> {
        before: &'a [&'a str],
        variables: &'a [(&'a str, &'a str)],
        words: &'a [&'a str],
        is_mpich_program: bool,
        sentence: String,
    }
    let plain = Case { before: &[], variables: &[], words: &[], is_mpich_program: false, sentence: String::new() };
    let confined = ["taskset", "-c", &second];
    let cases = [
        Case {
            words: &["-n", "2x2", "--mpi", "openmpi", "--mpi-args", "--bind-to core"],
            sentence: "has 2 threads, and Open MPI's mpirun gave it CPU ".into(),
            ..plain
        },
        Case {
            words: &["-n", "2x2", "--mpi", "mpich", "--mpi-args", "-bind-to hwthread"],
            is_mpich_program: true,
            sentence: "has 2 threads, and MPICH's mpiexec gave it CPU ".into(),
            ..plain
        },
        Case {
            words: &["-n", "2x1", "--mpi", "mpich", "--mpi-args", &twice],
            is_mpich_program: true,
            sentence: format!("put ranks 0 and 1 on CPU {a}, and none on CPU"),
            ..plain
        },
        Case {
            before: &confined,
            words: &["-n", "1x1", "--mpi", "openmpi", "--mpi-args", "--bind-to core"],
            sentence: format!("ignored the affinity mask that it was started with (CPUs {b}"),
            ..plain
        },
        Case {
            words: &["-n", "2x1", "--mpi", "openmpi", "--mpi-args", &stacked],
            sentence: "was asked to bind (--cpu-set) and bound nothing".into(),
            ..plain
        },
        Case {
            words: &["-n", "2x1", "--mpi", "openmpi"],
            is_mpich_program: true,
            sentence: "each of its processes takes itself for rank 0 of 1; say --mpi mpich".into(),
            ..plain
        },
        Case {
            words: &["-n", "2x1", "--mpi", "mpich"],
            sentence: "each of its processes takes itself for rank 0 of 1; say --mpi openmpi".into(),
            ..plain
        },
        Case {
            words: &["-n", "2", "--mpi", "openmpi"],
            sentence: format!("each of 2 ranks started {} threads, one for each CPU that it saw", all.len()),
            ..plain
        },
        Case {
            variables: &[("GOMP_CPU_AFFINITY", &gomp)],
            words: &["-n", "2x2", "--mpi", "openmpi", "--mpi-args", "--bind-to none"],
            sentence: format!("threads of ranks 0 and 1 were bound to CPU {a}, by GOMP_CPU_AFFINITY={gomp}"),
            ..plain
        },
        Case {
            words: &["-n", &many, "--mpi", "openmpi", "--mpi-args", "--bind-to none"],
            sentence: format!("0 of {many} ranks were started"),
            ..plain
        },
        Case {
            words: &["-n", "2x1", "--mpi", "openmpi", "--place", &over],
            sentence: format!("2 threads of 2 ranks were placed on CPU {a}"),
            ..plain
        },
        Case {
            words: &["-n", "2x1", "--mpi", "mpich", "--mpi-args", "-bind-to none", "--place", &over],
            is_mpich_program: true,
            sentence: format!("threads were not on CPUs {a}, where the launcher was expected to put them"),
            ..plain
        },
        // The launcher's default is a core for each rank, where there are as many.
        Case {
            words: &["-n", "2x2", "--mpi", "openmpi", "--mpi-args", "--mca pml ob1"],
            sentence: "has 2 threads, and Open MPI's mpirun gave it CPU ".into(),
            ..plain
        },
        Case {
            variables: &[("OMPI_MCA_hwloc_base_binding_policy", "core")],
            words: &["-n", "2x1", "--mpi", "openmpi", "--mpi-args", "--oversubscribe"],
            sentence: "by OMPI_MCA_hwloc_base_binding_policy=core in the environment, and nothing on its command line asks for it".into(),
            ..plain
        },
        Case {
            variables: &[("OMPI_MCA_hwloc_base_cpu_list", &first)],
            words: &["-n", "2x1", "--mpi", "openmpi"],
            sentence: format!("none on CPU {b}: OMPI_MCA_hwloc_base_cpu_list={a} in the environment says so"),
            ..plain
        },
        Case {
            variables: &[("HYDRA_BINDING", "hwthread")],
            words: &["-n", "2x2", "--mpi", "mpich", "--mpi-args", "-prepend-rank"],
            is_mpich_program: true,
            sentence: "alone (by HYDRA_BINDING=hwthread in the environment), so that they take turns".into(),
            ..plain
        },
        Case {
            variables: &[("I_MPI_PIN_DOMAIN", "socket")],
            words: &["-n", "2x1", "--mpi", "mpich"],
            is_mpich_program: true,
            sentence: "I_MPI_PIN_DOMAIN=socket is for another MPI, and MPICH's mpiexec doesn't heed it".into(),
            ..plain
        },
        Case {
            variables: &[("OMP_PROC_BIND", "true")],
            words: &["-n", "2x2", "--mpi", "openmpi"],
            sentence: format!("threads of ranks 0 and 1 were bound to CPU {a}, by OMP_PROC_BIND=true"),
            ..plain
        },
        Case {
            variables: &[("OMP_PROC_BIND", "master"), ("OMP_PLACES", "threads")],
            words: &["-n", "1x2", "--mpi", "mpich"],
            is_mpich_program: true,
            sentence: format!("all 2 threads of rank 0 were bound to CPU {a} of {both_in_a_list}, by OMP_PLACES=threads and OMP_PROC_BIND=master"),
            ..plain
        },
        Case {
            before: &confined,
            words: &["-n", "2x1", "--mpi", "mpich", "--place", "compact"],
            is_mpich_program: true,
            sentence: format!("2 threads of 2 ranks were placed on CPU {b}"),
            ..plain
        },
        Case {
            before: &confined,
            words: &["-n", "2x1", "--mpi", "mpich", "--place", &apart],
            is_mpich_program: true,
            sentence: format!("CPU {a} of the list `{a}` can't be used: the inherited affinity mask (sched_getaffinity) excludes it"),
            ..plain
        },
    ];
    for case in cases {
        let Some(program) = (if case.is_mpich_program { &mpich } else { &open_mpi }) else { continue };
        let installed = |mpi: Mpi| Command::new(mpi.compiler).arg("-show").output().is_ok();
        if !installed(if case.words.contains(&"mpich") { MPICH } else { OPEN_MPI }) {
            continue;
        }
        let (output, _) = run(folder.path(), case.before, case.variables, case.words, &[program.to_str().unwrap()]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(&case.sentence), "{:?} should tell `{}`: {said}", case.words, case.sentence);
    }
    // And nothing of it where all is well.
    if let Some(program) = &open_mpi {
        let words = ["-n", "1x2", "--mpi", "openmpi", "--place", &both];
        let (_, seen) = run(folder.path(), &[], &[], &words, &[program.to_str().unwrap()]);
        let notes: Vec<&str> = seen["notes"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert!(notes.iter().all(|note| note.contains("helper thread")), "{notes:?}");
    }
}

/// Within a rank of one MPI: that of the other is none of what its launcher says.
#[test]
fn what_is_left_over_of_a_program_around_is_told_or_harmless() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = two_cpus();
    let place = format!("{b}/{a}");
    if let Some(program) = MPICH.program(folder.path(), "mpi_openmp") {
        let leftover = [("OMPI_COMM_WORLD_RANK", "5"), ("OMPI_COMM_WORLD_LOCAL_RANK", "5"), ("SLURM_PROCID", "3")];
        let words = ["-n", "2x1", "--mpi", "mpich", "--place", &place];
        let (output, seen) = run(folder.path(), &[], &leftover, &words, &[program.to_str().unwrap()]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(read_back(&seen), [[b.to_string()], [a.to_string()]], "{said}");
    }
    if let Some(program) = OPEN_MPI.program(folder.path(), "mpi_openmp") {
        let around = ["mpirun.openmpi", "--oversubscribe", "-n", "1"];
        if Command::new(around[0]).arg("--version").output().is_err() {
            return;
        }
        let mut command = Command::new(around[0]);
        let inner =
            [env!("CARGO_BIN_EXE_stayput"), "run", "-n", "2x1", "--mpi", "openmpi", "--", program.to_str().unwrap()];
        let output = command.args(&around[1..]).args(inner).envs(ENVIRONMENT).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("starts nothing within a program that it has itself started"), "{said}");
    }
}

/// As root without the variables by which `mpirun` takes that for meant.
#[test]
fn root_is_told_why_mpirun_starts_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let is_root = nix::unistd::geteuid().is_root();
    let Some(program) = OPEN_MPI.program(folder.path(), "mpi_openmp").filter(|_| is_root) else {
        println!("skipped: not root, or no Open MPI");
        return;
    };
    let before = ["env", "-u", "OMPI_ALLOW_RUN_AS_ROOT"];
    let words = ["-n", "2x1", "--mpi", "openmpi"];
    let (output, seen) = run(folder.path(), &before, &[], &words, &[program.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("Open MPI's mpirun starts nothing as root; run it as another user"), "{said}");
    assert_eq!(seen["ranks"], serde_json::json!([]));
    assert!(!said.contains("0 of 2 ranks were started"), "one cause is told once: {said}");
}

#[test]
fn a_rank_that_fails_ends_the_run_as_its_launcher_does() {
    let folder = tempfile::tempdir().unwrap();
    for mpi in [OPEN_MPI, MPICH] {
        if mpi.program(folder.path(), "mpi_threads").is_none() {
            continue;
        }
        let (output, seen) = run(folder.path(), &[], &[], &["-n", "2x1", "--mpi", mpi.name], &["sh", "-c", "exit 7"]);
        assert_eq!(output.status.code(), Some(7), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(seen["exit"], serde_json::json!({ "code": 7 }));
    }
}

#[test]
fn what_is_asked_wrongly_gets_its_sentence() {
    let folder = tempfile::tempdir().unwrap();
    for (words, sentence) in [
        (&["-n", "2x2"][..], "2x2 is ranks x threads; say which MPI starts the ranks"),
        (&["--mpi", "openmpi"], "say how many ranks and threads of each"),
        (&["--mpi", "openmpi", "-n", "2x2", "--ranks-per", "numa"], "and so does --ranks-per"),
        (&["--mpi", "openmpi", "-n", "2x2", "--place", "ranks=close"], "does not say where ranks go"),
        (&["--mpi", "openmpi", "-n", "2x2", "--memory", "interleave"], "ranks can be placed, and nothing else yet"),
        (&["--mpi", "lam", "-n", "2x2"], "is no MPI launcher: choose one of openmpi, mpich, srun"),
        (&["--mpi", "openmpi", "-n", "2x2", "--mpi-args", "'"], "--mpi-args can't be split into words"),
    ] {
        let (output, _) = run(folder.path(), &[], &[], words, &["true"]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains(sentence), "{words:?}: {said}");
    }
}

/// A control group of a test's own, in the hierarchy of a controller; it is removed when this is dropped.
struct ControlGroup(PathBuf);

impl ControlGroup {
    /// Below the group of this process; none, and the reason printed, where none can be made.
    fn new(controller: &str, settings: &[(&str, &str)]) -> Option<Self> {
        let of_v1 = |line: &str| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, path) = (fields.next()?, fields.next()?);
            let is_it = controllers.split(',').any(|name| name == controller);
            is_it.then(|| PathBuf::from(format!("/sys/fs/cgroup/{controller}{path}")))
        };
        let own = fs::read_to_string("/proc/self/cgroup").unwrap().lines().find_map(of_v1);
        let path = own.map(|own| own.join(format!("stayput-test-{}-{controller}", std::process::id())));
        let made = path.filter(|path| fs::create_dir(path).is_ok()).map(Self);
        let is_set = |group: &Self| settings.iter().all(|(file, text)| fs::write(group.0.join(file), text).is_ok());
        let made = made.filter(is_set);
        if made.is_none() {
            println!("skipped: no control group of version 1 can be made here for {controller}");
        }
        made
    }

    /// The words before a command that has it run in the group.
    fn before(&self) -> [String; 4] {
        let line = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", self.0.display());
        ["sh".into(), "-c".into(), line, "sh".into()]
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // Who has just ended may still be counted.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

#[test]
fn limits_of_control_groups_are_told_and_cpusets_respected() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = two_cpus();
    let programs = [OPEN_MPI, MPICH].map(|mpi| Some((mpi, mpi.program(folder.path(), "mpi_openmp")?)));
    for (mpi, program) in programs.into_iter().flatten() {
        let program = [program.to_str().unwrap()];
        let in_group = |group: &ControlGroup, words: &[&str]| {
            let before = group.before();
            let before: Vec<&str> = before.iter().map(String::as_str).collect();
            let (output, seen) = run(folder.path(), &before, &[], words, &program);
            (String::from_utf8_lossy(&output.stderr).into_owned(), seen)
        };
        let quota = [("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", "150000")];
        if let Some(group) = ControlGroup::new("cpu", &quota) {
            let (said, _) = in_group(&group, &["-n", "2x1", "--mpi", mpi.name]);
            let sentence = "the control group allows 1.50 CPUs' worth of time, and 2 ranks have 2 threads";
            assert!(said.contains(sentence), "{}: {said}", mpi.name);
        }
        let second = b.to_string();
        let nodes = fs::read_to_string("/sys/fs/cgroup/cpuset/cpuset.mems").unwrap_or_else(|_| "0".into());
        if let Some(group) = ControlGroup::new("cpuset", &[("cpuset.cpus", &second), ("cpuset.mems", nodes.trim())]) {
            // A list of other CPUs is refused; what the launcher binds by itself is within.
            let (said, _) = in_group(&group, &["-n", "2x1", "--mpi", mpi.name, "--place", &format!("{a}/{b}")]);
            assert!(said.contains(&format!("CPU {a} of the list `{a}` can't be used")), "{}: {said}", mpi.name);
            let bind = if mpi.name == "openmpi" { "--bind-to core" } else { "-bind-to core" };
            let (said, seen) = in_group(&group, &["-n", "1x1", "--mpi", mpi.name, "--mpi-args", bind]);
            assert_eq!(cpus(&seen["ranks"][0]["inherited_cpus"]), second.parse().unwrap(), "{}: {said}", mpi.name);
            let (said, _) = in_group(&group, &["-n", "2x1", "--mpi", mpi.name, "--place", "compact"]);
            assert!(said.contains(&format!("2 threads of 2 ranks were placed on CPU {b}")), "{}: {said}", mpi.name);
        }
    }
}
