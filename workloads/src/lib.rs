//! The programs under study, written in C with OpenMP; each is its own executable.
//!
//! This library knows what there is: [`catalog`] describes every program and class, and [`resolve`] turns a subject
//! such as `npb:cg.W` into what to run and how to read its output. The facts are in `workloads.toml`. It runs a program only to
//! derive its task graph for the simulator ([`graph()`]), and to ask it how it was built.

pub mod graph;
pub mod recording;

pub use graph::{GraphError, graph};
use launch::NotInstalled;
use launch::mpi::{Mpi, linked_mpi};
use serde::{Deserialize, Serialize};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

/// A program, with what a reader wants to know before running it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// What subjects call it: `npb:cg`.
    pub name: String,
    /// File name of its executable.
    pub executable: String,
    /// What it is, in a few words.
    pub title: String,
    /// What it computes.
    pub description: String,
    /// Which part of a machine bounds it.
    pub stresses: String,
    /// How it knows that its result is right.
    pub verification: String,
    /// What its `mops` line counts.
    pub operations: String,
    /// Where it is defined.
    pub definition: String,
    /// What its task graph is called; none of a program that doesn't tell its tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<String>,
    /// Whether it has a hybrid version, of MPI ranks with threads.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hybrid: bool,
    /// Its problem sizes, from small to large.
    #[serde(rename = "class")]
    pub classes: Vec<Class>,
}

/// A problem size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// Its letter.
    pub name: String,
    /// Memory that the program asks for with one thread, in MiB.
    pub memory_mib: u64,
    /// The most threads that can all find work in the timed part. More of them only wait.
    pub threads: u64,
    /// Operations in the timed part, as the `mops` line counts them.
    pub operations: u64,
    /// Floating-point operations in the timed part; 0 of programs that run other people's programs.
    pub flops: u64,
    /// Bytes that the timed part reads and writes when nothing stays in a cache; 0 of those programs.
    pub bytes: u64,
}

/// A built-in subject: what to run, and how to read what it prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Builtin {
    /// File name of the executable, which is installed with `stayput`.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its first group is the time of the timed part in seconds.
    pub time_regex: String,
    /// Matches the output of a right result.
    pub verified_regex: String,
}

impl Builtin {
    /// The path of its executable.
    ///
    /// # Errors
    /// [`NotInstalled`] where it is neither beside this program nor installed with it.
    pub fn path(&self) -> Result<String, NotInstalled> {
        launch::companion(&self.program).map(|path| path.to_string_lossy().into_owned())
    }

    /// What the program says of itself: name, version, and the compiler that it was made by. None where it can't be started.
    pub fn build(&self) -> Option<String> {
        let output = Command::new(self.path().ok()?).arg("--version").stdin(Stdio::null()).output().ok()?;
        let line = String::from_utf8_lossy(&output.stdout).lines().next()?.trim().to_owned();
        (output.status.success() && !line.is_empty()).then_some(line)
    }
}

/// Why a subject is not a built-in one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// No program has the name.
    #[error(
        "there is no built-in program `{0}`; there are {known}, each with a class as in {example}",
        known = list(catalog().iter().map(|program| program.name.as_str())),
        example = catalog()[0].example()
    )]
    UnknownProgram(String),
    /// The program has no such class.
    #[error("{name} has no class `{1}`; it has {classes}", name = .0.name, classes = .0.class_names())]
    UnknownClass(&'static Program, String),
    /// No class is given.
    #[error(
        "`{name}` needs a class: {classes}, as in {example}",
        name = .0.name, classes = .0.class_names(), example = .0.example()
    )]
    NoClass(&'static Program),
    /// It has no ranks that an MPI could start.
    #[error(
        "{name} has threads and no ranks, and --mpi starts ranks; built-in programs that have both are {hybrids}",
        name = .0.name, hybrids = list(catalog().iter().filter(|program| program.hybrid).map(|program| program.name.as_str()))
    )]
    NoRanks(&'static Program),
}

/// Every program, in the order of `workloads.toml`.
pub fn catalog() -> &'static [Program] {
    #[derive(Deserialize)]
    struct File {
        program: Vec<Program>,
    }
    static CATALOG: LazyLock<Vec<Program>> = LazyLock::new(|| {
        let file: File = toml::from_str(include_str!("../workloads.toml")).expect("a test reads workloads.toml");
        file.program
    });
    &CATALOG
}

/// Finds the program called `name`, for example `npb:cg`.
///
/// # Errors
/// [`ResolveError::UnknownProgram`], with the names that there are.
pub fn program(name: &str) -> Result<&'static Program, ResolveError> {
    let found = catalog().iter().find(|program| program.name == name);
    found.ok_or_else(|| ResolveError::UnknownProgram(name.to_owned()))
}

/// The program and class of the built-in subject `NAME.CLASS`, for example `npb:cg.W`.
///
/// # Errors
/// [`ResolveError`] says which part is unknown and what there is instead.
pub fn program_and_class(subject: &str) -> Result<(&'static Program, &'static Class), ResolveError> {
    let (name, class) = match subject.rsplit_once('.') {
        Some((name, class)) => (name, Some(class)),
        None => (subject, None),
    };
    let program = program(name).map_err(|_| ResolveError::UnknownProgram(subject.to_owned()))?;
    let class = class.ok_or(ResolveError::NoClass(program))?;
    let known = program.classes.iter().find(|known| known.name == class);
    Ok((program, known.ok_or_else(|| ResolveError::UnknownClass(program, class.to_owned()))?))
}

/// How to run the built-in subject `NAME.CLASS`.
///
/// # Errors
/// As [`program_and_class`].
pub fn resolve(subject: &str) -> Result<Builtin, ResolveError> {
    let (program, class) = program_and_class(subject)?;
    Ok(Builtin {
        program: program.executable.clone(),
        args: vec![class.name.clone()],
        time_regex: r"(?m)^seconds: ([0-9.]+)$".to_owned(),
        verified_regex: r"(?m)^verification: successful$".to_owned(),
    })
}

/// How to run the hybrid version of the built-in subject `NAME.CLASS`, as ranks that `mpi` starts. `srun` starts those of any MPI: of Open MPI,
/// where that was there when it was built.
///
/// # Errors
/// As [`program_and_class`], and [`ResolveError::NoRanks`].
pub fn resolve_hybrid(subject: &str, mpi: Mpi) -> Result<Builtin, ResolveError> {
    let (program, _) = program_and_class(subject)?;
    if !program.hybrid {
        return Err(ResolveError::NoRanks(program));
    }
    let builtin = resolve(subject)?;
    let of = |library: &str| Builtin { program: format!("{}-{library}", program.executable), ..builtin.clone() };
    let is_built = |builtin: &Builtin| builtin.path().is_ok_and(|path| linked_mpi(path.as_ref()).is_some());
    Ok(match mpi {
        Mpi::OpenMpi => of("openmpi"),
        Mpi::Mpich => of("mpich"),
        Mpi::Srun => [of("openmpi"), of("mpich")].into_iter().find(is_built).unwrap_or_else(|| of("openmpi")),
    })
}

impl Program {
    /// Its smallest subject.
    fn example(&self) -> String {
        format!("{}.{}", self.name, self.classes[0].name)
    }

    fn class_names(&self) -> String {
        list(self.classes.iter().map(|class| class.name.as_str()))
    }
}

/// `a, b and c`.
fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    match names.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_of_every_program_resolves_to_its_executable() {
        for program in catalog() {
            assert!(!program.classes.is_empty(), "{} has no class", program.name);
            for class in &program.classes {
                let builtin = resolve(&format!("{}.{}", program.name, class.name)).unwrap();
                assert_eq!(builtin.program, program.executable);
                assert_eq!(builtin.args, [class.name.as_str()]);
            }
        }
    }

    #[test]
    fn what_is_unknown_is_named_with_what_there_is_instead() {
        let error = |subject: &str| resolve(subject).unwrap_err().to_string();
        assert_eq!(
            error("npb:is.W"),
            "there is no built-in program `npb:is.W`; there are npb:ep, npb:cg, npb:ft, npb:bt, npb:sp, npb:lu, climate, mva, matrix, gravity, affinity:matrix, affinity:cholesky, affinity:mp3d, affinity:pmake and affinity:oltp, each with a class as in npb:ep.S"
        );
        assert_eq!(error("npb:cg.Z"), "npb:cg has no class `Z`; it has S, W, A, B, C and D");
        assert_eq!(error("npb:cg"), "`npb:cg` needs a class: S, W, A, B, C and D, as in npb:cg.S");
        assert_eq!(
            resolve_hybrid("npb:cg.S", Mpi::Mpich).unwrap_err().to_string(),
            "npb:cg has threads and no ranks, and --mpi starts ranks; built-in programs that have both are npb:ft and climate"
        );
        assert_eq!(resolve_hybrid("climate.W", Mpi::Mpich).unwrap().program, "climate-mpich");
        assert!(matches!(resolve("./a.out"), Err(ResolveError::UnknownProgram { .. })));
        assert!(matches!(resolve(""), Err(ResolveError::UnknownProgram { .. })));
    }
}
