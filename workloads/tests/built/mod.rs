//! The programs that cargo built for a test, what they print, and copies of them that are compiled otherwise.
#![allow(dead_code, reason = "each test file takes what it needs")]
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use stayput_workloads::Program;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A program with the executable that cargo built for this test and the command that compiled it.
pub struct Built {
    pub program: &'static Program,
    pub executable: &'static str,
    pub command: &'static str,
}

macro_rules! built {
    ($executable:literal) => {
        $crate::built::Built {
            program: stayput_workloads::catalog().iter().find(|program| program.executable == $executable).unwrap(),
            executable: env!(concat!("CARGO_BIN_EXE_", $executable)),
            command: include_str!(concat!(env!("OUT_DIR"), "/", $executable, ".command")),
        }
    };
}
pub(crate) use built;

pub fn run(executable: impl AsRef<Path>, args: &[&str], threads: u32) -> Output {
    let mut command = Command::new(executable.as_ref());
    command.args(args).env("OMP_NUM_THREADS", threads.to_string()).env_remove("OMP_THREAD_LIMIT");
    command.output().unwrap()
}

pub fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// The output's `name: value` lines.
pub fn lines(output: &Output) -> BTreeMap<&str, &str> {
    text(&output.stdout).lines().filter_map(|line| line.split_once(": ")).collect()
}

pub fn number(lines: &BTreeMap<&str, &str>, name: &str) -> f64 {
    lines[name].parse().unwrap_or_else(|e| panic!("{name}: {}: {e}", lines[name]))
}

/// Compiles the program as cargo did, but for what `alter` does to the command.
pub fn compile(built: &Built, name: &str, alter: impl FnOnce(&mut Vec<String>)) -> PathBuf {
    let mut arguments: Vec<String> = built.command.lines().map(str::to_owned).collect();
    alter(&mut arguments);
    let executable = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let compiled = Command::new(&arguments[0])
        .args(&arguments[1..])
        .arg("-o")
        .arg(&executable)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}; ./setup.sh test installs it", arguments[0]));
    assert!(compiled.status.success(), "{}", text(&compiled.stderr));
    executable
}

/// Compiles the program with `from` replaced by `to` in the one source that has it.
pub fn compile_altered(built: &Built, name: &str, from: &str, to: &str) -> PathBuf {
    compile(built, name, |arguments| {
        // It is run once: what takes the optimiser seconds would gain less.
        arguments.iter_mut().filter(|argument| *argument == "-O3").for_each(|level| "-O1".clone_into(level));
        let read = |source: &str| fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(source)).unwrap();
        let mut sources: Vec<&mut String> =
            arguments.iter_mut().filter(|argument| argument.ends_with(".c") && read(argument).contains(from)).collect();
        let [source] = &mut sources[..] else { panic!("`{from}` is in {sources:?}") };
        let original = read(source);
        assert_eq!(original.matches(from).count(), 1, "`{from}` in {source}");
        let altered = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.c"));
        fs::write(&altered, original.replace(from, to)).unwrap();
        **source = altered.to_string_lossy().into_owned();
    })
}

/// Asserts that the program only says one sentence, on its standard error, and returns it.
pub fn refusal(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    assert_eq!(text(&output.stdout), "");
    let said = text(&output.stderr);
    assert_eq!(said.lines().count(), 1, "{said}");
    said.trim_end().to_owned()
}
