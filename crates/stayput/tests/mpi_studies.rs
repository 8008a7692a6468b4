//! Studies of MPI programs under the real launchers: where each thread of each rank was, what a failing rank is called, and whose output counts.
#![expect(clippy::unwrap_used, reason = "the helpers of tests may fail as the tests may")]

mod mpi_programs;

use machine::{CpuSet, Machine, RankPolicy, RankShape};
use mpi_programs::{ENVIRONMENT, MPICH, Mpi, OPEN_MPI, THREAD_VARIABLES};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

const RANK: &str = "R=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}";

fn stayput(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stayput"));
    for name in THREAD_VARIABLES {
        command.env_remove(name);
    }
    command.args(words).current_dir(folder).envs(ENVIRONMENT).output().unwrap()
}

/// `stayput study` of a program, with `words` before it: its exit code, what it said, and the whole of its study.
fn study(folder: &Path, words: &[&str], program: &[&str]) -> (Option<i32>, String, Value) {
    let journal = folder.join("study.stayput");
    let fixed = ["study", "--out", journal.to_str().unwrap(), "--no-report", "--quiet"];
    let output = stayput(folder, &[&fixed[..], words, &["--"], program].concat());
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let json = stayput(folder, &["report", journal.to_str().unwrap(), "--format", "json"]);
    (output.status.code(), said, serde_json::from_slice(&json.stdout).unwrap_or_default())
}

/// The words of a study that is over after one run of two ranks that nothing binds.
fn one_run(mpi: Mpi) -> Vec<&'static str> {
    let runs = "--place unbound --min-runs 1 --max-runs 1 --warmup 0";
    ["-n", "2x1", "--mpi", mpi.name].into_iter().chain(runs.split(' ')).collect()
}

/// Whether a process is there that sleeps for so many seconds, which no other does.
fn sleeps(seconds: &str) -> bool {
    let is_it = |entry: fs::DirEntry| {
        fs::read(entry.path().join("cmdline")).unwrap_or_default() == format!("sleep\0{seconds}\0").as_bytes()
    };
    fs::read_dir("/proc").unwrap().flatten().any(is_it)
}

fn installed() -> Vec<Mpi> {
    let is_there = |mpi: &Mpi| Command::new(mpi.compiler).arg("-show").output().is_ok();
    let all: Vec<Mpi> = [OPEN_MPI, MPICH].into_iter().filter(is_there).collect();
    if all.is_empty() {
        println!("skipped: no mpicc.openmpi and no mpicc.mpich (packages libopenmpi-dev, libmpich-dev)");
    }
    all
}

fn sets(value: &Value) -> Vec<CpuSet> {
    serde_json::from_value(value.clone()).unwrap()
}

fn number_of_trials(study: &Value) -> usize {
    study["trials"].as_array().map_or(0, Vec::len)
}

#[test]
fn every_thread_of_every_rank_of_every_shape_is_bound_and_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::host().unwrap();
    let usable = machine.usable_cpus();
    for mpi in installed() {
        let Some(openmp) = mpi.program(folder.path(), "mpi_openmp") else { continue };
        let placements = ["unbound", "compact", "ranks=balanced:core,threads=scatter"];
        let place = placements.join(",");
        let out = folder.path().join(format!("{}.stayput", mpi.name));
        let words =
            ["-n", "1x2,2x1,2x2,4x1", "--mpi", mpi.name, "--place", &place, "--min-runs", "1", "--max-runs", "1"];
        let fixed = ["study", "--out", out.to_str().unwrap(), "--no-report", "--quiet", "--warmup", "0"];
        let output = stayput(folder.path(), &[&fixed[..], &words, &["--", openmp.to_str().unwrap()]].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{}: {said}", mpi.name);
        let report = stayput(folder.path(), &["report", out.to_str().unwrap(), "--format", "json"]);
        let study: Value = serde_json::from_slice(&report.stdout).unwrap();
        let mut cells = BTreeSet::new();
        for trial in study["trials"].as_array().unwrap() {
            let (shape, place) = (trial["threads"].as_str().unwrap(), trial["placement"].as_str().unwrap());
            assert_eq!(trial["status"], "ok", "{} {shape} {place}: {trial}", mpi.name);
            let of_shape: RankShape = shape.parse().unwrap();
            let actual = sets(&trial["actual_cpus"]);
            let expected: Vec<CpuSet> = match place {
                "unbound" => vec![usable.clone(); of_shape.total()],
                place => place.parse::<RankPolicy>().unwrap().place(&machine, of_shape).unwrap().row().slots,
            };
            assert_eq!(actual, expected, "{} {shape} {place}", mpi.name);
            cells.insert((shape.to_owned(), place.to_owned()));
        }
        // Places that are the same for a shape are run once.
        for shape in ["1x2", "2x1", "2x2", "4x1"] {
            assert!(
                cells.contains(&(shape.into(), "unbound".into())) && cells.contains(&(shape.into(), "compact".into()))
            );
        }
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("1 rank x 2 threads") && text.contains("4 ranks x 1 thread"), "{text}");
    }
}

#[test]
fn a_study_of_ranks_goes_on_where_it_stopped_and_runs_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let Some(&mpi) = installed().first() else { return };
    let words = |runs: &'static str| {
        vec!["-n", "1x1,2x1", "--mpi", mpi.name, "--place", "unbound,compact", "--min-runs", runs, "--max-runs", runs]
    };
    let (code, said, first) = study(folder.path(), &words("2"), &["true"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(number_of_trials(&first), 12, "a block that warms up, and two");
    let (_, said, again) = study(folder.path(), &words("2"), &["true"]);
    assert!(said.contains("nothing was run: this study was finished"), "{said}");
    assert_eq!(number_of_trials(&again), 12);
    let (code, said, more) = study(folder.path(), &words("3"), &["true"]);
    assert_eq!(code, Some(0), "{said}");
    let key = |trial: &Value| format!("{} {} {}", trial["block"], trial["threads"], trial["placement"]);
    let keys: BTreeSet<String> = more["trials"].as_array().unwrap().iter().map(key).collect();
    assert_eq!((keys.len(), number_of_trials(&more)), (16, 16));
    let other = words("3").iter().map(|word| if *word == "1x1,2x1" { "1x2,2x1" } else { word }).collect::<Vec<_>>();
    let (code, said, _) = study(folder.path(), &other, &["true"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("holds another plan"), "{said}");
}

#[test]
fn a_rank_that_fails_is_the_named_cause() {
    let folder = tempfile::tempdir().unwrap();
    for mpi in installed() {
        for (line, status, cause) in [
            ("[ $R = 1 ] && echo over there >&2 && exit 3; sleep 5", "exit-code", "rank 1: exit code 3"),
            ("[ $R = 0 ] && exit 4; sleep 5", "exit-code", "rank 0: exit code 4"),
            ("[ $R = 1 ] && kill -SEGV $$; sleep 5", "signal", "rank 1: killed by SIGSEGV"),
        ] {
            let _ = fs::remove_file(folder.path().join("study.stayput"));
            let line = format!("{RANK}; {line}");
            let (code, said, seen) = study(folder.path(), &one_run(mpi), &["sh", "-c", &line]);
            assert_eq!(code, Some(1), "{said}");
            let trial = &seen["trials"][0];
            assert_eq!(
                (&trial["status"], &trial["cause"]),
                (&status.into(), &cause.into()),
                "{} {line}: {said}",
                mpi.name
            );
            if status == "exit-code" && cause.contains('1') {
                assert!(said.contains("over there"), "what a rank says that fails is shown: {said}");
            }
        }
    }
}

#[test]
fn numbers_come_from_the_output_of_rank_0_and_its_input_is_read_there() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("input"), "17\n").unwrap();
    for mpi in installed() {
        let _ = fs::remove_file(folder.path().join("study.stayput"));
        // Rank 1 prints first, and another number.
        let line =
            format!("{RANK}; N=0; [ $R = 0 ] && sleep 0.3 && read N; echo \"time: 0.00$((R+1)) read: $((N+R))\"");
        let of_output =
            ["--time-regex", "time: ([0-9.]+)", "--metric", "read higher = read: ([0-9]+)", "--input", "input"];
        let words = [&one_run(mpi)[..], &of_output].concat();
        let (code, said, seen) = study(folder.path(), &words, &["sh", "-c", &line]);
        assert_eq!(code, Some(0), "{said}");
        let trial = &seen["trials"][0];
        assert_eq!(trial["time_s"], 0.001, "{} {trial}", mpi.name);
        assert_eq!(trial["values"]["read"], 17.0, "{} {trial}", mpi.name);
        assert!(trial["wall_s"].as_f64().unwrap() >= 0.3, "the longest rank's: {trial}");
    }
}

#[test]
fn ranks_that_take_too_long_are_ended_and_nothing_of_them_is_left() {
    let folder = tempfile::tempdir().unwrap();
    for mpi in installed() {
        let _ = fs::remove_file(folder.path().join("study.stayput"));
        // An argument that no other process has.
        let seconds = format!("3{}", std::process::id());
        let words = [&one_run(mpi)[..], &["--timeout", "500ms"]].concat();
        let begun = Instant::now();
        let (_, said, seen) = study(folder.path(), &words, &["sleep", &seconds]);
        assert_eq!(seen["trials"][0]["status"], "timeout", "{said}");
        assert!(begun.elapsed() < Duration::from_secs(60), "they were waited for");
        assert!(!sleeps(&seconds), "{}", mpi.name);
    }
}

/// A study that is killed, and can't kill anything itself, leaves no rank behind, and is gone on with.
#[test]
fn a_study_that_is_killed_leaves_no_rank_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    for mpi in installed() {
        let _ = fs::remove_file(folder.path().join("study.stayput"));
        let seconds = format!("4{}", std::process::id());
        let line = format!("[ -e done ] || sleep {seconds}");
        let begin = ["study", "--out", "study.stayput", "--no-report", "--quiet"];
        let words = [&begin[..], &one_run(mpi), &["--", "sh", "-c", &line]].concat();
        let wait_until = |what: &str, is_so: &dyn Fn() -> bool| {
            let begun = Instant::now();
            while !is_so() {
                assert!(begun.elapsed() < Duration::from_secs(60), "{}: {what}", mpi.name);
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        let mut command = Command::new(env!("CARGO_BIN_EXE_stayput"));
        let mut study = command
            .args(&words)
            .current_dir(folder.path())
            .envs(ENVIRONMENT)
            .stdin(std::process::Stdio::null())
            .spawn()
            .unwrap();
        wait_until("ranks run", &|| sleeps(&seconds));
        study.kill().unwrap();
        study.wait().unwrap();
        wait_until("no rank is left", &|| !sleeps(&seconds));
        fs::write(folder.path().join("done"), "").unwrap();
        let output = stayput(folder.path(), &words);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::remove_file(folder.path().join("done")).unwrap();
    }
}

#[test]
fn ranks_race_over_divisions_and_placements_and_each_run_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let Some(&mpi) = installed().first() else { return };
    let Some(program) = mpi.program(folder.path(), "mpi_openmp") else { return };
    let words = ["-n", "1x2,2x1,2x2", "--mpi", mpi.name, "--best", "--runs", "30", "--budget", "60s"];
    let (code, said, seen) = study(folder.path(), &words, &[program.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{said}");
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("over divisions into ranks and threads"), "{said}");
    let (machine, usable) = (Machine::host().unwrap(), Machine::host().unwrap().usable_cpus());
    let mut shapes = BTreeSet::new();
    for trial in seen["trials"].as_array().unwrap().iter().filter(|trial| trial["status"] == "ok") {
        let (shape, place) = (trial["threads"].as_str().unwrap(), trial["placement"].as_str().unwrap());
        let of_shape: RankShape = shape.parse().unwrap();
        let expected: Vec<CpuSet> = match place {
            "unbound" => vec![usable.clone(); of_shape.total()],
            place => place.parse::<RankPolicy>().unwrap().place(&machine, of_shape).unwrap().row().slots,
        };
        assert_eq!(sets(&trial["actual_cpus"]), expected, "{shape} {place}");
        shapes.insert(shape.to_owned());
    }
    assert_eq!(shapes.len(), 3, "each division is run at least once: {said}");
}

#[test]
fn what_is_asked_wrongly_of_a_study_of_ranks_gets_its_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let mpi = ["--mpi", "openmpi"];
    let mut running = Command::new("sleep").arg("60").spawn().unwrap();
    let pid = running.id().to_string();
    for (words, sentence) in [
        (
            &["-n", "2x1"][..],
            "2x1 is ranks x threads, and nothing says what starts the ranks of `true`; add --mpi openmpi",
        ),
        (&["-n", "2", mpi[0], mpi[1]], "write ranks x threads: 2x1 for 2 ranks of 1 thread each, or 1x2"),
        (&mpi, "say which ranks x threads are compared, as in -n 1x"),
        (
            &["-n", "1x1", mpi[0], mpi[1], "--best", "--ordered"],
            "which thread of a rank has which of its CPUs isn't raced",
        ),
        (&["-n", "1x1", mpi[0], mpi[1], "--on", "vm"], "no MPI starts any in an emulated machine; leave out --on vm"),
        (&["-n", "1x1", mpi[0], mpi[1], "--sched", "batch"], "ranks can be placed, and nothing else yet"),
        (&["-n", "1x1", mpi[0], mpi[1], "--unit", "process"], "ranks are bound thread by thread"),
        (&["-n", "1x1", mpi[0], mpi[1], "--shell"], "leave out --mix and --shell"),
        (&["-n", "1x1", mpi[0], mpi[1], "--mix", "true + true"], "leave out --mix and --shell"),
        (
            &["-n", "1x1", mpi[0], mpi[1], "--mpi-args", "--bind-to core"],
            "`--bind-to` binds ranks, which the study's own placements",
        ),
        (
            &["-n", "1x1", mpi[0], mpi[1], "--mpi-args", "--mca hwloc_base_binding_policy core"],
            "`hwloc_base_binding_policy` binds ranks",
        ),
        (&["-n", "1x1", "--mpi", "srun", "--mpi-args", "-c 4"], "`-c` says how many ranks there are, or how many CPUs"),
        (&["-n", "1x1", mpi[0], mpi[1], "--mpi-args", "-x API_TOKEN=abcdefgh"], "--mpi-args holds a secret value"),
        (&["-n", "1x1", mpi[0], mpi[1], "--mpi-args", "'"], "--mpi-args can't be split into words"),
        (&["-n", "1", "--mpi-args", "--tag-output"], "--mpi"),
        (
            &["-n", "1x1", mpi[0], mpi[1], "--server", "true", "--ready", "port:1"],
            "has no ranks that --mpi could start",
        ),
        (&["-n", "1x1", mpi[0], mpi[1], "--pid", &pid], "has no ranks that --mpi could start"),
        (&["-n", "0x1", mpi[0], mpi[1]], "is no number of ranks x threads"),
        (&["-n", "1x1", "--mpi", "lam"], "is no MPI launcher: choose one of openmpi, mpich, srun"),
        (&["-n", "1x1", mpi[0], mpi[1], "--place", "ranks=near"], "does not say where ranks go"),
        (
            &["-n", "2x1", mpi[0], mpi[1], "--place", "0/0/0"],
            "has CPUs for 3 ranks of 1 threads, and 2x1 are asked for",
        ),
        (&["-n", "1", "--place", "0/0"], "`0/0` says where ranks go, and true has none; add --mpi"),
        (&["-n", "1", "--place", "ranks=compact:core,threads=compact"], "says where ranks go, and true has none"),
        (&["--bind-mpi-helpers"], "--mpi"),
    ] {
        let (code, said, _) = study(folder.path(), words, &["true"]);
        assert_eq!(code, Some(2), "{words:?}: {said}");
        assert!(said.contains(sentence), "{words:?}: {said}");
        assert!(!folder.path().join("study.stayput").exists(), "{words:?}");
    }
    running.kill().unwrap();
    running.wait().unwrap();
}

#[test]
fn a_study_file_says_which_mpi_starts_a_subject() {
    let folder = tempfile::tempdir().unwrap();
    let run = |text: &str| {
        fs::write(folder.path().join("ranks.toml"), text).unwrap();
        let output = stayput(folder.path(), &["study", "ranks.toml", "--no-report", "--quiet", "--force"]);
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr),
        )
    };
    let head = "threads = [\"1x1\", \"2x1\"]\nplacements = [\"unbound\", \"ranks=balanced:core,threads=compact\"]\n\
                warmup-blocks = 0\nstop = { min-runs = 1, max-runs = 1 }\n";
    let of = |mpi: Mpi| format!("[[subject]]\nname = \"by {0}\"\ncommand = \"true\"\nmpi = \"{0}\"\n", mpi.name);
    let all = installed();
    if !all.is_empty() {
        // Both in one study, side by side.
        let (code, said) = run(&format!("{head}{}", all.iter().map(|mpi| of(*mpi)).collect::<String>()));
        assert_eq!(code, Some(0), "{said}");
        assert!(all.iter().all(|mpi| said.contains(&format!("by {}", mpi.name))), "{said}");
    }
    for (text, sentence) in [
        (format!("{head}[[subject]]\ncommand = \"true\"\nmpi = \"lam\"\n"), "line 7"),
        (format!("{head}[[subject]]\nbuiltin = \"npb:cg.S\"\nmpi = \"openmpi\"\n"), "npb:cg has threads and no ranks"),
        (
            format!("{head}[[subject]]\ncommand = \"true\"\nmpi-args = \"--tag-output\"\n"),
            "`mpi-args` is for the launcher of ranks",
        ),
        (
            format!("{head}[[subject]]\ncommand = \"true\"\nbind-mpi-helpers = true\n"),
            "`bind-mpi-helpers` is for ranks",
        ),
        (format!("{head}[[subject]]\ncommand = \"true\"\n"), "says where ranks go, and true has none"),
    ] {
        let (code, said) = run(&text);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(sentence), "{said}");
    }
}

#[test]
fn a_program_of_another_mpi_is_refused_before_there_is_a_journal() {
    let folder = tempfile::tempdir().unwrap();
    let (Some(open_mpi), Some(mpich)) =
        (OPEN_MPI.program(folder.path(), "mpi_openmp"), MPICH.program(folder.path(), "mpi_openmp"))
    else {
        return;
    };
    for (mpi, program) in [("mpich", open_mpi), ("openmpi", mpich)] {
        let (code, said, _) = study(folder.path(), &["-n", "1x1", "--mpi", mpi], &[program.to_str().unwrap()]);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("each of its processes takes itself for rank 0 of 1; say --mpi"), "{said}");
        assert!(!folder.path().join("study.stayput").exists());
    }
}

/// A word for the launcher reaches it beside those by which it binds nothing, and what is pasted says it, too.
#[test]
fn words_for_the_launcher_reach_it_and_ranks_are_bound_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::host().unwrap();
    for mpi in installed() {
        let Some(program) = mpi.program(folder.path(), "mpi_openmp") else { continue };
        let _ = fs::remove_file(folder.path().join("study.stayput"));
        let told = if mpi.name == "openmpi" { "-x STAYPUT_TOLD=17" } else { "-genv STAYPUT_TOLD 17" };
        let place = "ranks=scatter:core,threads=compact";
        let runs = ["--min-runs", "1", "--max-runs", "1", "--warmup", "0", "--metric", "told higher = told: ([0-9]+)"];
        let words = [&["-n", "2x1", "--mpi", mpi.name, "--mpi-args", told, "--place", place][..], &runs].concat();
        let line = format!("echo told: $STAYPUT_TOLD; exec {}", program.display());
        let (code, said, seen) = study(folder.path(), &words, &["sh", "-c", &line]);
        assert_eq!(code, Some(0), "{said}");
        let trial = &seen["trials"][0];
        assert_eq!(trial["values"]["told"], 17.0, "{} {trial}", mpi.name);
        let policy: RankPolicy = place.parse().unwrap();
        let expected = policy.place(&machine, "2x1".parse().unwrap()).unwrap().row().slots;
        assert_eq!(sets(&trial["actual_cpus"])[..2], expected, "{} {trial}", mpi.name);
        let page = stayput(folder.path(), &["report", "study.stayput", "--format", "html"]);
        let page = String::from_utf8_lossy(&page.stdout).into_owned();
        let pasted = format!("--mpi {} --mpi-args", mpi.name);
        assert!(
            !page.contains("stayput run -n 2x1") || page.contains(&pasted) && page.contains("--mpi-bind-none"),
            "{page}"
        );
    }
}

/// The built-in programs that have ranks, by both launchers, verified in every run.
#[test]
fn built_in_programs_are_divided_into_ranks_and_threads() {
    let folder = tempfile::tempdir().unwrap();
    for mpi in installed() {
        if launch::trace_available().is_err() {
            println!("skipped: no ptrace");
            return;
        }
        let _ = fs::remove_file(folder.path().join("study.stayput"));
        let out = folder.path().join("study.stayput");
        let fixed = ["study", "--out", out.to_str().unwrap(), "--no-report", "--quiet", "npb:ft.S", "climate.S"];
        let runs = ["--place", "unbound,compact", "--min-runs", "1", "--max-runs", "1", "--warmup", "0"];
        let output = stayput(folder.path(), &[&fixed[..], &["-n", "1x2,2x1", "--mpi", mpi.name], &runs].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if said.contains("was built where there was no MPI") {
            println!("skipped: {said}");
            continue;
        }
        assert!(output.status.success(), "{}: {said}", mpi.name);
        let json = stayput(folder.path(), &["report", out.to_str().unwrap(), "--format", "json"]);
        let study: Value = serde_json::from_slice(&json.stdout).unwrap();
        let trials = study["trials"].as_array().unwrap();
        assert_eq!(trials.len(), 8, "{said}");
        for trial in trials {
            assert_eq!(trial["status"], "ok", "{} {trial}", mpi.name);
            assert!(trial["time_s"].as_f64().unwrap() > 0.0, "{trial}");
        }
    }
    let (code, said, _) = study(folder.path(), &["-n", "1x1", "--mpi", "openmpi", "npb:cg.S"], &["true"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("npb:cg has threads and no ranks, and --mpi starts ranks"), "{said}");
}
