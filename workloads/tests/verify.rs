//! Runs the built programs: their results, their output lines, their exit codes, their refusals.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use stayput_workloads::{Program, catalog};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

const THREADS: [u32; 6] = [1, 2, 3, 4, 7, 16];

/// A program with the executable that cargo built for this test and the command that compiled it.
struct Built {
    program: &'static Program,
    executable: &'static str,
    command: &'static str,
}

macro_rules! built {
    ($executable:literal) => {
        Built {
            program: catalog().iter().find(|program| program.executable == $executable).unwrap(),
            executable: env!(concat!("CARGO_BIN_EXE_", $executable)),
            command: include_str!(concat!(env!("OUT_DIR"), "/", $executable, ".command")),
        }
    };
}

fn all() -> [Built; 2] {
    [built!("npb-ep"), built!("npb-cg")]
}

fn run(executable: impl AsRef<Path>, args: &[&str], threads: u32) -> Output {
    let mut command = Command::new(executable.as_ref());
    command.args(args).env("OMP_NUM_THREADS", threads.to_string()).env_remove("OMP_THREAD_LIMIT");
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// The output's `name: value` lines.
fn lines(output: &Output) -> BTreeMap<&str, &str> {
    text(&output.stdout).lines().filter_map(|line| line.split_once(": ")).collect()
}

fn number(lines: &BTreeMap<&str, &str>, name: &str) -> f64 {
    lines[name].parse().unwrap_or_else(|e| panic!("{name}: {}: {e}", lines[name]))
}

/// What a run computed: everything but its times.
fn values(output: &Output) -> Vec<String> {
    let timed = ["threads", "seconds", "mops", "matrix made in"];
    lines(output)
        .into_iter()
        .filter(|(name, _)| !timed.contains(name))
        .map(|(name, value)| format!("{name}: {value}"))
        .collect()
}

fn assert_verified(built: &Built, class: &str, threads: u32) {
    let output = run(built.executable, &[class], threads);
    let what = format!("{} {class} with {threads} threads", built.executable);
    assert_eq!(output.status.code(), Some(0), "{what}: {output:?}");
    assert_eq!(text(&output.stderr), "", "{what}");

    let lines = lines(&output);
    assert_eq!(lines["verification"], "successful", "{what}");
    assert_eq!(lines["class"], class, "{what}");
    assert_eq!(number(&lines, "threads"), f64::from(threads), "{what}");
    let seconds = number(&lines, "seconds");
    assert!(seconds > 0.0, "{what}: {seconds} s");
    // The catalog says how many operations that was. Both factors are printed rounded.
    let counted = number(&lines, "mops") * 1e6 * seconds;
    let stated = built.program.classes.iter().find(|known| known.name == class).unwrap().operations as f64;
    let rounding = 0.005 / number(&lines, "mops") + 0.5e-6 / seconds;
    assert!((counted / stated - 1.0).abs() < 2.0 * rounding, "{what}: counted {counted}, the catalog says {stated}");
}

#[test]
fn classes_s_and_w_verify_with_every_thread_count() {
    for built in all() {
        for class in ["S", "W"] {
            for threads in THREADS {
                assert_verified(&built, class, threads);
            }
        }
    }
}

#[test]
fn class_a_verifies() {
    for built in all() {
        assert_verified(&built, "A", 2);
    }
}

#[test]
fn the_same_thread_count_gives_the_same_bits() {
    for built in all() {
        for threads in THREADS {
            let first = values(&run(built.executable, &["S"], threads));
            let second = values(&run(built.executable, &["S"], threads));
            assert_eq!(first, second, "{} with {threads} threads", built.executable);
        }
    }
}

#[test]
fn ep_gives_the_same_bits_with_any_thread_count() {
    let ep = built!("npb-ep");
    let alone = values(&run(ep.executable, &["S"], 1));
    for threads in THREADS {
        assert_eq!(values(&run(ep.executable, &["S"], threads)), alone, "{threads} threads");
    }
}

#[test]
fn ep_counts_the_annuli_that_the_reference_counts() {
    let counts = [
        ("S", "6140517 5865300 1100361 68546 1648 17 0 0 0 0"),
        ("W", "12281576 11729692 2202726 137368 3371 36 0 0 0 0"),
        ("A", "98257395 93827014 17611549 1110028 26536 245 0 0 0 0"),
    ];
    for (class, expected) in counts {
        let output = run(built!("npb-ep").executable, &[class], 2);
        assert_eq!(lines(&output)["pairs by annulus"], expected, "class {class}");
    }
}

#[test]
fn cg_makes_the_matrix_that_the_reference_makes() {
    for (class, entries) in [("S", "78148"), ("W", "508402"), ("A", "1853104")] {
        let output = run(built!("npb-cg").executable, &[class], 3);
        assert_eq!(lines(&output)["matrix entries"], entries, "class {class}");
    }
}

/// Compiles the program as cargo did, but with `from` replaced by `to` in its source.
fn compile_altered(built: &Built, name: &str, from: &str, to: &str) -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let mut arguments: Vec<String> = built.command.lines().map(str::to_owned).collect();
    let source = arguments.iter_mut().find(|argument| argument.ends_with(".c")).unwrap();
    let original = fs::read_to_string(package.join(&*source)).unwrap();
    assert_eq!(original.matches(from).count(), 1, "`{from}` in {source}");
    let altered = directory.join(format!("{name}.c"));
    fs::write(&altered, original.replace(from, to)).unwrap();
    *source = altered.to_string_lossy().into_owned();

    let executable = directory.join(name);
    let compiled = Command::new(&arguments[0])
        .args(&arguments[1..])
        .arg("-o")
        .arg(&executable)
        .current_dir(package)
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", text(&compiled.stderr));
    executable
}

#[test]
fn a_wrong_constant_fails_the_verification() {
    let [ep, cg] = all();
    let alterations = [
        (&ep, "ep-unaltered", "SEED = 271828183;", "SEED = 271828183;", true),
        (&ep, "ep-seed", "SEED = 271828183;", "SEED = 271828185;", false),
        (&ep, "ep-circle", "t <= 1.0 ?", "t <= 0.9999 ?", false),
        (&cg, "cg-unaltered", "SEED = 314159265;", "SEED = 314159265;", true),
        (&cg, "cg-seed", "SEED = 314159265;", "SEED = 314159267;", false),
        (&cg, "cg-rcond", "RCOND = 0.1;", "RCOND = 0.1001;", false),
        (&cg, "cg-nan", "class->shift + 1.0", "class->shift + NAN", false),
    ];
    for (built, name, from, to, right) in alterations {
        let output = run(compile_altered(built, name, from, to), &["S"], 2);
        let expected = if right { ("successful", Some(0)) } else { ("failed", Some(1)) };
        assert_eq!((lines(&output)["verification"], output.status.code()), expected, "{name}");
    }
}

/// Asserts that the program only says one sentence, on its standard error, and returns it.
fn refusal(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    assert_eq!(text(&output.stdout), "");
    let said = text(&output.stderr);
    assert_eq!(said.lines().count(), 1, "{said}");
    said.trim_end().to_owned()
}

#[test]
fn a_wrong_command_line_is_refused_in_one_sentence() {
    for built in all() {
        let name = &built.program.executable;
        for class in ["Z", "s", "SW", ""] {
            let said = refusal(&run(built.executable, &[class], 1), 2);
            assert_eq!(said, format!("{name}: there is no class `{class}`; choose S, W, A, B, C or D"));
        }
        for arguments in [&[][..], &["S", "W"]] {
            let said = refusal(&run(built.executable, arguments, 1), 2);
            assert_eq!(said, format!("{name}: give one argument, the class: S, W, A, B, C or D"));
        }
    }
}

#[test]
fn a_class_beyond_the_memory_is_refused_before_it_starts() {
    let cg = built!("npb-cg");
    for class in cg.program.classes.iter().filter(|class| class.memory_mib > 100) {
        let output = Command::new("sh")
            .args(["-c", r#"ulimit -v 65536; exec "$0" "$1""#, cg.executable, &class.name])
            .env("OMP_NUM_THREADS", "1")
            .output()
            .unwrap();
        let said = refusal(&output, 1);
        let expected = format!(
            "npb-cg: class {} needs {} MiB of memory but RLIMIT_AS (ulimit -v) leaves ",
            class.name, class.memory_mib
        );
        assert!(said.starts_with(&expected), "{said}");
    }
}

#[test]
fn help_names_the_classes() {
    for built in all() {
        let output = run(built.executable, &["--help"], 1);
        assert_eq!(output.status.code(), Some(0));
        assert!(text(&output.stdout).contains("S, W, A, B, C or D"));
    }
}
