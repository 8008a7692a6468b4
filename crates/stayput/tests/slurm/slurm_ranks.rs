//! Ranks that `srun` starts, on a real Slurm: runs and studies in a job, and what Slurm makes of our exports.

use crate::cluster::desk::{Desk, text};
use crate::cluster::{Cluster, NODES, lacking};
use machine::{CpuSet, Machine, RankPolicy, RankShape, RankSyntax};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const STAYPUT: &str = env!("CARGO_BIN_EXE_stayput");

/// A program of OpenMP threads, built here; none, and the reason printed, where that can't be or threads can't be bound.
fn program(folder: &Path) -> Option<PathBuf> {
    let cpus = machine::linux::allowed_cpus().map_or(0, |cpus| cpus.len());
    let traced = launch::trace_available();
    let has_srun = launch::executable_path("srun".as_ref()).is_ok();
    if let Some(why) = lacking().or_else(|| (!has_srun).then(|| "there is no srun".into())) {
        println!("skipped: {why}");
        return None;
    }
    let program = folder.join("openmp");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/openmp.c");
    let built = Command::new("gcc").args(["-O1", "-fopenmp", "-o"]).arg(&program).arg(source).status();
    if cpus < 2 || traced.is_err() || !built.is_ok_and(|status| status.success()) {
        println!("skipped: {cpus} CPUs, ptrace {traced:?}, or no gcc with OpenMP");
        return None;
    }
    Some(program)
}

/// Runs a line for a shell as a job that has a node for itself, and gives what it printed.
fn in_a_job(cluster: &Cluster, folder: &Path, line: &str) -> String {
    let said = folder.join("said");
    let output = cluster
        .command("sbatch")
        .args(["-N1", "--exclusive", "--wait", "--output", said.to_str().unwrap(), "--wrap", line])
        .current_dir(folder)
        .output()
        .unwrap();
    let printed = fs::read_to_string(&said).unwrap_or_default();
    assert!(output.status.code().is_some(), "{output:?}");
    printed + &String::from_utf8_lossy(&output.stderr)
}

fn sets(value: &Value) -> Vec<CpuSet> {
    serde_json::from_value(value.clone()).unwrap()
}

#[test]
fn srun_starts_the_ranks_of_runs_and_of_studies() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program(folder.path()) else { return };
    let (program, cluster) = (program.display().to_string(), Cluster::start());
    let machine = Machine::host().unwrap();
    let expected = |shape: &str, place: &str| {
        let shape: RankShape = shape.parse().unwrap();
        match place {
            "unbound" => vec![machine.usable_cpus(); shape.total()],
            place => place.parse::<RankPolicy>().unwrap().place(&machine, shape).unwrap().row().slots,
        }
    };
    let place = "ranks=balanced:core,threads=compact";
    let said = in_a_job(
        &cluster,
        folder.path(),
        &format!("{STAYPUT} run --quiet --json run.json -n 2x2 --mpi srun --place {place} -- {program}"),
    );
    let seen: Value = serde_json::from_slice(&fs::read(folder.path().join("run.json")).expect(&said)).unwrap();
    let threads =
        seen["ranks"].as_array().unwrap().iter().flat_map(|rank| rank["observation"]["threads"].as_array().unwrap());
    let actual: Vec<CpuSet> =
        threads.map(|thread| serde_json::from_value(thread["actual_cpus"].clone()).unwrap()).collect();
    assert_eq!(actual, expected("2x2", place), "{said}");

    let words = "--min-runs 2 --max-runs 2 --warmup 0 --no-report --quiet --out a.stayput";
    let said = in_a_job(
        &cluster,
        folder.path(),
        &format!("{STAYPUT} study -n 1x2,2x1,2x2,4x1 --mpi srun --place unbound,compact {words} -- {program}"),
    );
    let report = cluster
        .command(STAYPUT)
        .args(["report", "a.stayput", "--format", "json"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let study: Value = serde_json::from_slice(&report.stdout).expect(&said);
    let trials = study["trials"].as_array().unwrap();
    assert!(trials.len() >= 8, "{said}");
    for trial in trials {
        assert_eq!(trial["status"], "ok", "{trial}");
        let (shape, place) = (trial["threads"].as_str().unwrap(), trial["placement"].as_str().unwrap());
        assert_eq!(sets(&trial["actual_cpus"]), expected(shape, place), "{shape} {place}");
    }
    assert!(said.contains("1 rank x 2 threads"), "{said}");

    // Ranks are children of Slurm's daemon; none outlives a study that gave up waiting.
    let seconds = format!("3{}", std::process::id());
    let words =
        "--min-runs 1 --max-runs 1 --warmup 0 --timeout 500ms --place unbound --no-report --quiet --out b.stayput";
    let said =
        in_a_job(&cluster, folder.path(), &format!("{STAYPUT} study -n 2x1 --mpi srun {words} -- sleep {seconds}"));
    assert!(said.contains("timeout") || said.contains("took longer"), "{said}");
    let is_left = |entry: fs::DirEntry| {
        fs::read(entry.path().join("cmdline")).unwrap_or_default() == format!("sleep\0{seconds}\0").as_bytes()
    };
    assert!(!fs::read_dir("/proc").unwrap().flatten().any(is_left));
}

/// A block's launcher starts its ranks on the block's node.
#[test]
fn a_study_of_ranks_runs_on_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program(folder.path()) else { return };
    let desk = Desk::new();
    let machine = Machine::host().unwrap();
    let place = "ranks=balanced:core,threads=compact";
    for mpi in ["srun", "openmpi", "mpich"] {
        let launcher = if mpi == "srun" { "srun".into() } else { format!("mpirun.{mpi}") };
        if launch::executable_path(launcher.as_ref()).is_err() {
            println!("{mpi} skipped: there is no {launcher}");
            continue;
        }
        let words = format!(
            "study --on slurm:nodes=3 -n 1x2,2x1 --mpi {mpi} --place unbound,{place} --warmup 0 --min-runs 3 --max-runs 3 \
             --no-report --quiet --out {mpi}.stayput -- {}",
            program.display()
        );
        let as_root = ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"].map(|name| (name, "1"));
        let output = desk.stayput(&words).envs(as_root).output().unwrap();
        assert!(output.status.success(), "{mpi}: {}", text(&output.stderr));
        let report = desk.stayput(&format!("report --format json {mpi}.stayput")).output().unwrap();
        let study: Value = serde_json::from_slice(&report.stdout).unwrap();
        let trials = study["trials"].as_array().unwrap();
        assert_eq!(trials.len(), 3 * 4, "{mpi}: three blocks of two divisions in two placements");
        for trial in trials {
            assert_eq!(trial["status"], "ok", "{mpi}: {trial}");
            let shape: RankShape = trial["threads"].as_str().unwrap().parse().unwrap();
            let expected = match trial["placement"].as_str().unwrap() {
                "unbound" => vec![machine.usable_cpus(); shape.total()],
                place => place.parse::<RankPolicy>().unwrap().place(&machine, shape).unwrap().row().slots,
            };
            assert_eq!(sets(&trial["actual_cpus"]), expected, "{mpi}: {trial}");
            assert!(NODES.contains(&trial["node"].as_str().unwrap()), "{mpi}: {trial}");
        }
        desk.check_nothing_left(&format!("{mpi}.stayput"));
    }
    let words = format!(
        "study --best --on slurm:nodes=2 -n 1x2,2x1 --mpi srun --budget 4s --no-report --quiet --out race.stayput -- {}",
        program.display()
    );
    let output = desk.stayput(&words).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report = desk.stayput("report --format json race.stayput").output().unwrap();
    let race: Value = serde_json::from_slice(&report.stdout).unwrap();
    let trials = race["trials"].as_array().unwrap();
    // Who has lost by then is stopped.
    let is_as_it_should = |trial: &Value| ["ok", "cut-off"].iter().any(|status| trial["status"] == *status);
    assert!(trials.len() >= 4 && trials.iter().all(is_as_it_should), "{trials:?}");
    desk.check_nothing_left("race.stayput");
}

/// Slurm binds as our masks say, by its own report and by what ranks read.
#[test]
fn slurm_binds_by_our_export_as_we_say_and_reports_the_same() {
    let folder = tempfile::tempdir().unwrap();
    if program(folder.path()).is_none() {
        return;
    }
    let cluster = Cluster::with_tasks("task/affinity");
    let machine = Machine::host().unwrap();
    let cpus: Vec<u32> = machine.usable_cpus().iter().map(|cpu| cpu.0).collect();
    let [a, b] = [cpus[0], cpus[1]];
    for (shape, place) in [("2x1", format!("{b}/{a}")), ("2x1", format!("{a}/{b}")), ("1x2", format!("{a},{b}"))] {
        let placement = place.parse::<RankPolicy>().unwrap().place(&machine, shape.parse().unwrap()).unwrap();
        let text = RankSyntax::Slurm.text(&placement, &machine);
        let verbose = text.replace("--cpu-bind=", "--cpu-bind=verbose,");
        assert_ne!(verbose, text);
        let line = format!("{verbose} sh -c 'echo rank $SLURM_PROCID $(grep Cpus_allowed_list /proc/self/status)'");
        let said = in_a_job(&cluster, folder.path(), &line);
        for (rank, expected) in placement.ranks.iter().enumerate() {
            let read = format!("rank {rank} Cpus_allowed_list: {}", expected.union());
            assert!(said.lines().any(|line| line.trim() == read), "{read} from {verbose}: {said}");
            // `cpu-bind=MASK - n1, task  0  0 [PID]: mask 0x2 set`
            let mask = expected.union().iter().map(|cpu| 1_u64 << cpu.0).sum::<u64>();
            let is_reported = |line: &str| {
                let words: Vec<&str> = line.split_whitespace().collect();
                let task = words.iter().position(|word| *word == "task").and_then(|at| words.get(at + 1));
                task == Some(&rank.to_string().as_str()) && line.contains(&format!("mask {mask:#x} set"))
            };
            assert!(said.lines().any(is_reported), "task {rank} with mask {mask:#x} from {verbose}: {said}");
        }
    }
}

/// The CPUs of each rank's threads, as `stayput run` in each rank has read them back into `seen-RANK.json`.
fn read_back(folder: &Path, ranks: usize) -> Vec<Vec<CpuSet>> {
    let of_rank = |rank: usize| {
        let path = folder.join(format!("seen-{rank}.json"));
        let seen: Value =
            serde_json::from_slice(&fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))).unwrap();
        fs::remove_file(path).unwrap();
        sets(&seen["actual_cpus"])
    };
    (0..ranks).map(of_rank).collect()
}

/// Scripts and lines carry a whole placement: every thread of every rank is where it should be, whether Slurm binds tasks or not.
#[test]
fn scripts_for_slurm_carry_every_thread_of_every_rank() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program(folder.path()) else { return };
    let machine = Machine::host().unwrap();
    let cpus: Vec<u32> = machine.usable_cpus().iter().map(|cpu| cpu.0).collect();
    let [a, b] = [cpus[0], cpus[1]];
    let observed = format!("{STAYPUT} run --quiet --json seen-$SLURM_LOCALID.json -- {}", program.display());
    for plugin in ["task/affinity", "task/none"] {
        let cluster = Cluster::with_tasks(plugin);
        for (shape, place) in [
            ("1x2", format!("{b},{a}")),
            ("2x1", format!("{b}/{a}")),
            ("2x2", format!("{a},{b}/{b},{a}")),
            ("4x1", format!("{a}/{b}/{b}/{a}")),
        ] {
            let placement = place.parse::<RankPolicy>().unwrap().place(&machine, shape.parse().unwrap()).unwrap();
            let expected: Vec<Vec<CpuSet>> = placement.ranks.iter().map(|rank| rank.slots.clone()).collect();
            let script = Command::new(STAYPUT).args(["place", &place, "-n", shape, "--as", "sbatch"]).output().unwrap();
            assert!(script.status.success(), "{script:?}");
            fs::write(folder.path().join("job.sh"), script.stdout).unwrap();
            let said = folder.path().join("said");
            let arguments = ["--wait", "--output", said.to_str().unwrap(), "job.sh", "sh", "-c", &observed];
            let output = cluster.command("sbatch").args(arguments).current_dir(folder.path()).output().unwrap();
            let printed = fs::read_to_string(&said).unwrap_or_default();
            assert!(output.status.success(), "{plugin} {shape}: {output:?} {printed}");
            assert_eq!(
                read_back(folder.path(), placement.ranks.len()),
                expected,
                "{plugin} {shape} {place}: {printed}"
            );
        }
        // The line that a report has to paste, in a job; and of a program without ranks.
        let placement =
            format!("{b}/{a}").parse::<RankPolicy>().unwrap().place(&machine, "2x1".parse().unwrap()).unwrap();
        let line = format!("{} sh -c '{observed}'", machine::srun_line(&placement));
        let printed = in_a_job(&cluster, folder.path(), &line);
        let expected: Vec<Vec<CpuSet>> = placement.ranks.iter().map(|rank| rank.slots.clone()).collect();
        assert_eq!(read_back(folder.path(), 2), expected, "{plugin} {line}: {printed}");
        let list = format!("{b},{a}");
        let script = Command::new(STAYPUT).args(["place", &list, "-n", "2", "--as", "sbatch"]).output().unwrap();
        fs::write(folder.path().join("job.sh"), script.stdout).unwrap();
        let printed = in_a_job(&cluster, folder.path(), &format!("sh job.sh sh -c '{observed}'"));
        let expected: Vec<CpuSet> = [b, a].map(|cpu| cpu.to_string().parse().unwrap()).into();
        assert_eq!(read_back(folder.path(), 1), [expected], "{plugin}: {printed}");
    }
}

/// What a job is given by `sbatch -c` isn't what `srun` in it gives a task.
#[test]
fn cpus_per_task_that_srun_does_not_inherit_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program(folder.path()) else { return };
    let cluster = Cluster::with_tasks("task/affinity");
    let line = format!(
        "OMP_NUM_THREADS=2 {STAYPUT} run -n 1 --mpi srun --mpi-args '--cpu-bind=cores' -- {}",
        program.display()
    );
    let said = folder.path().join("said");
    let words = ["-N1", "-n1", "-c2", "--wait", "--output", said.to_str().unwrap(), "--wrap", &line];
    let output = cluster.command("sbatch").args(words).current_dir(folder.path()).output().unwrap();
    let printed = fs::read_to_string(&said).unwrap_or_default();
    assert!(output.status.success(), "{output:?} {printed}");
    let sentence = "(SLURM_CPUS_PER_TASK=2 is not inherited by srun), so that they take turns";
    assert!(printed.contains("rank 0 has 2 threads, and srun gave it CPU ") && printed.contains(sentence), "{printed}");
}

/// A built-in program by `srun`, which has to be told how MPI finds the other ranks.
#[test]
fn built_in_programs_are_ranks_by_srun_where_it_tells_mpi_of_them() {
    let folder = tempfile::tempdir().unwrap();
    if program(folder.path()).is_none() {
        return;
    }
    let cluster = Cluster::start();
    let study = |words: &str| {
        let runs =
            "--place unbound,compact --min-runs 1 --max-runs 1 --warmup 0 --no-report --quiet --force --out a.stayput";
        let line = format!("{STAYPUT} study -n 1x2,2x1 --mpi srun {words} {runs} climate.S");
        let variables = "OMPI_MCA_btl=self,vader OMPI_MCA_pml=ob1 PMIX_MCA_gds=hash";
        let said = in_a_job(&cluster, folder.path(), &format!("export {variables}; {line}"));
        let report =
            Command::new(STAYPUT).args(["report", "a.stayput", "--format", "json"]).current_dir(folder.path()).output();
        (said, serde_json::from_slice::<Value>(&report.unwrap().stdout).unwrap_or_default())
    };
    let (said, report) = study("");
    if said.contains("was built where there was no MPI") || said.contains("isn't installed") {
        println!("skipped: {said}");
        return;
    }
    let of_two = |report: &Value| {
        let trials = report["trials"].as_array().unwrap().iter().filter(|trial| trial["threads"] == "2x1");
        trials.cloned().collect::<Vec<Value>>()
    };
    // Open MPI says that srun told it nothing; of MPICH, which takes each task for a world of its own, the program does.
    for trial in of_two(&report) {
        assert_eq!(trial["status"], "exit-code", "{trial}: {said}");
    }
    let listed = cluster.command("srun").arg("--mpi=list").output().unwrap();
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned() + &String::from_utf8_lossy(&listed.stderr);
    if !listed.contains("pmix") {
        println!("skipped: this Slurm has no pmix: {listed}");
        return;
    }
    let (said, report) = study("--mpi-args --mpi=pmix");
    let trials = of_two(&report);
    assert_eq!(trials.len(), 2, "{said}");
    for trial in trials {
        assert_eq!(trial["status"], "ok", "{trial}: {said}");
    }
}
