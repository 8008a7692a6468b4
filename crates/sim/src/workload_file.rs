//! Workload files: what runs on the simulated machine, in TOML, and the workloads that are built in.
//! `docs/workload-files.md` has an example, which a test reads, and every field.
//!
//! The report's applications are made of two files each: its own holds what the report prints, `choices.toml` what the
//! report leaves open, for all of them. Neither may say what the other says.

use crate::parameters::{ParameterError, Parameters};
use crate::toml_text::{Mistake, line_at, parse};
use crate::workload::{Job, Workload};
use serde::Deserialize;
use serde::de::Error as _;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::LazyLock;
use toml::{Table, Value};

const APPLICATIONS: [(&str, &str); 5] = [
    ("Matrix", include_str!("../workloads/matrix.toml")),
    ("Cholesky", include_str!("../workloads/cholesky.toml")),
    ("Mp3d", include_str!("../workloads/mp3d.toml")),
    ("Pmake", include_str!("../workloads/pmake.toml")),
    ("Oracle", include_str!("../workloads/oracle.toml")),
];

const CHOICES: &str = include_str!("../workloads/choices.toml");

/// The report's workloads (its Table IV), and what each is there for.
pub const REPORT_WORKLOADS: [(&str, &str); 7] = [
    ("Matrix+Matrix", "both reuse much of what they cache and rarely block"),
    ("Matrix+Cholesky", "both reuse cached state; Cholesky's processes often wait for one another's locks"),
    ("Matrix+Mp3d", "Mp3d sweeps through more than a cache holds, and displaces what Matrix would reuse"),
    ("Pmake+Matrix", "short compilations that block often, beside Matrix"),
    ("Pmake+Cholesky", "short compilations that block often, beside Cholesky"),
    ("Pmake+Pmake", "short compilations that block often, twice"),
    ("Oracle", "a database whose processes block after a few ms, and reuse cached state"),
];

/// The built-in workload that is simulated when none is named.
pub const DEFAULT_WORKLOAD: &str = "Matrix+Matrix";

const SPIN: &str = "spin:";

/// A workload, and the parameters that it is simulated with unless others are asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadFile {
    /// What runs.
    pub workload: Workload,
    /// What it is there for, in words; empty where nobody said.
    pub about: String,
    /// The parameters: the report's, with choices where it leaves them open, or [`Parameters::default`].
    pub parameters: Parameters,
}

/// A name that is no built-in workload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no built-in workload: name {names} (joined by `+` for several at once), spin:K for K processes that compute \
     and never miss, or a file ending in .toml",
    names = APPLICATIONS.map(|(name, _)| name).join(", ")
)]
pub struct UnknownWorkload(String);

/// A workload file as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileTable {
    name: String,
    #[serde(default)]
    about: String,
    #[serde(default)]
    parameters: Table,
    #[serde(default)]
    applications: Vec<ApplicationTable>,
    #[serde(default)]
    jobs: Vec<Job>,
    #[serde(default)]
    cpu_weight: BTreeMap<String, u32>,
    /// What it was inferred from, for those who want to compare; nothing is simulated by it.
    #[serde(default)]
    #[expect(dead_code, reason = "it is allowed, and read by whoever wrote it")]
    profile: Option<Table>,
}

/// The parameters of a workload file as written.
#[derive(Deserialize)]
#[expect(dead_code, reason = "it is read only to see whether it can be")]
struct ParametersTable {
    #[serde(default)]
    parameters: Parameters,
}

/// A built-in application, and what is to be different.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ApplicationTable {
    application: Application,
    name: Option<String>,
    processes: Option<u32>,
    at_once: Option<u32>,
    #[serde(default)]
    arrival_ms: f64,
}

impl ApplicationTable {
    fn job(self) -> Job {
        let mut job = self.application.0;
        job.name = self.name.unwrap_or(job.name);
        job.processes = self.processes.unwrap_or(job.processes);
        job.at_once = self.at_once.or(job.at_once.map(|at_once| at_once.min(job.processes)));
        job.arrival_ms = self.arrival_ms;
        job
    }
}

/// A built-in application by its name.
struct Application(Job);

impl<'de> Deserialize<'de> for Application {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        application(&name).map(Self).ok_or_else(|| {
            let names = APPLICATIONS.map(|(name, _)| name).join(", ");
            D::Error::custom(format!(
                "`{name}` is no built-in application; name {names}, or describe it under [[jobs]]"
            ))
        })
    }
}

impl WorkloadFile {
    /// A built-in workload: applications joined by `+`, or `spin:K`. Names of applications may be in lower case.
    ///
    /// # Errors
    /// [`UnknownWorkload`] when nothing has that name.
    pub fn named(name: &str) -> Result<Self, UnknownWorkload> {
        let unknown = || UnknownWorkload(name.into());
        if let Some(count) = name.strip_prefix(SPIN) {
            let workload = Workload::spin(count.parse().map_err(|_| unknown())?);
            workload.check().map_err(|_| unknown())?;
            let about = "equal processes that compute, never block and never miss".into();
            return Ok(Self { workload, about, parameters: Parameters::default() });
        }
        let jobs = name.split('+').map(application).collect::<Option<Vec<Job>>>().ok_or_else(unknown)?;
        let name = jobs.iter().map(|job| job.name.as_str()).collect::<Vec<_>>().join("+");
        let about = REPORT_WORKLOADS.iter().find(|(workload, _)| *workload == name).map_or("", |(_, about)| about);
        let workload = Workload { name, jobs: with_distinct_names(jobs), ..Workload::default() };
        Ok(Self { workload, about: about.into(), parameters: built_in().parameters.clone() })
    }

    /// The applications that workloads can be made of.
    pub fn applications() -> impl Iterator<Item = &'static str> {
        APPLICATIONS.iter().map(|&(name, _)| name)
    }

    /// Reads a workload file's text.
    ///
    /// # Errors
    /// The line, from 1, and what is wrong there.
    pub fn parse(text: &str) -> Result<Self, Mistake> {
        let file: FileTable = parse(text)?;
        // Only for the line of a mistake: what the file leaves out is not known here.
        parse::<ParametersTable>(text)?;
        let at = |path: &str| line_at(text, path);
        let base = if file.applications.is_empty() { Parameters::default() } else { built_in().parameters.clone() };
        let parameters = overlaid(base, &file.parameters).map_err(|what| (at("parameters"), what))?;
        parameters.check().map_err(|error| {
            let field = match &error {
                ParameterError::Range { name, .. } => name,
                ParameterError::Graded(_) => "graded",
            };
            (at(&format!("parameters.{field}")), error.to_string())
        })?;
        let applications = file.applications.len();
        let jobs = file.applications.into_iter().map(ApplicationTable::job).chain(file.jobs).collect();
        let workload = Workload { name: file.name, jobs: with_distinct_names(jobs), cpu_weight: file.cpu_weight };
        workload.check().map_err(|error| {
            let path = path_in_file(&error.at, applications);
            (at(&path), format!("`{path}`: {}", error.fault))
        })?;
        Ok(Self { workload, about: file.about, parameters })
    }
}

/// What the report leaves open and is chosen for its workloads: place and value of each choice, by place.
pub fn chosen() -> Vec<(String, String)> {
    fn leaves(path: &str, value: &Value, into: &mut Vec<(String, String)>) {
        match value {
            Value::Table(table) => {
                for (key, inner) in table {
                    let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    leaves(&path, inner, into);
                }
            }
            leaf => into.push((path.to_owned(), leaf.to_string())),
        }
    }
    let mut all = Vec::new();
    let choices: Table = CHOICES.parse().expect("a test reads the built-in applications");
    leaves("", &Value::Table(choices), &mut all);
    all
}

/// What is printed and chosen, in one.
struct BuiltIn {
    parameters: Parameters,
    /// One an application, with its name.
    jobs: Vec<Job>,
}

fn built_in() -> &'static BuiltIn {
    static READ: LazyLock<BuiltIn> =
        LazyLock::new(|| BuiltIn::read(&APPLICATIONS, CHOICES).expect("a test reads the built-in applications"));
    &READ
}

fn application(name: &str) -> Option<Job> {
    built_in().jobs.iter().find(|job| job.name.eq_ignore_ascii_case(name)).cloned()
}

impl BuiltIn {
    /// Joins what the report prints of each application with what is chosen for it.
    fn read(applications: &[(&str, &str)], choices: &str) -> Result<Self, String> {
        let mut choices: Table = choices.parse().map_err(|error: toml::de::Error| error.to_string())?;
        let mut chosen = |name: &str| match choices.remove(name) {
            Some(Value::Table(table)) => Ok(table),
            _ => Err(format!("the choices have no table `{name}`")),
        };
        let parameters = overlaid(Parameters::default(), &chosen("parameters")?)?;
        let job = |&(name, text): &(&str, &str)| {
            let printed: Table = text.parse().map_err(|error: toml::de::Error| format!("{name}: {error}"))?;
            let whole =
                joined(printed, chosen(name)?).map_err(|key| format!("{name}: `{key}` is printed, not chosen"))?;
            let job: Job = whole.try_into().map_err(|error: toml::de::Error| format!("{name}: {}", error.message()))?;
            if job.name == name { Ok(job) } else { Err(format!("{name} calls itself `{}`", job.name)) }
        };
        let jobs = applications.iter().map(job).collect::<Result<_, _>>()?;
        match choices.keys().next() {
            None => Ok(Self { parameters, jobs }),
            Some(name) => Err(format!("there is no application `{name}` to choose for")),
        }
    }
}

/// Both tables in one.
///
/// # Errors
/// A key that both have.
fn joined(mut printed: Table, chosen: Table) -> Result<Table, String> {
    for (key, value) in chosen {
        let both = match (printed.remove(&key), value) {
            (None, value) => value,
            (Some(Value::Table(a)), Value::Table(b)) => {
                Value::Table(joined(a, b).map_err(|inner| format!("{key}.{inner}"))?)
            }
            (Some(_), _) => return Err(key),
        };
        printed.insert(key, both);
    }
    Ok(printed)
}

/// `base` with the values of `table` in place of its own.
fn overlaid(base: Parameters, table: &Table) -> Result<Parameters, String> {
    let mut whole = Table::try_from(base).map_err(|error| error.to_string())?;
    whole.extend(table.clone());
    whole.try_into().map_err(|error: toml::de::Error| error.message().replace('\n', " "))
}

/// Numbers the later of jobs that have one name, so that results tell them apart.
fn with_distinct_names(mut jobs: Vec<Job>) -> Vec<Job> {
    let mut taken: HashSet<String> = HashSet::new();
    // By name, the last number that was tried.
    let mut numbers: HashMap<String, u64> = HashMap::new();
    for job in &mut jobs {
        let name = job.name.clone();
        while !taken.insert(job.name.clone()) {
            let number = numbers.entry(name.clone()).or_insert(1);
            *number += 1;
            job.name = format!("{name} {number}");
        }
    }
    jobs
}

/// The place of a field of a workload in the file that it was read from, whose applications come before its jobs.
fn path_in_file(at: &str, applications: usize) -> String {
    let parts = at.strip_prefix("jobs[").and_then(|rest| rest.split_once(']'));
    match parts.and_then(|(index, field)| Some((index.parse::<usize>().ok()?, field))) {
        Some((index, field)) if index < applications => format!("applications[{index}]{field}"),
        Some((index, field)) => format!("jobs[{}]{field}", index - applications),
        None => at.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_names_are_found_in_any_case() {
        let file = WorkloadFile::named("matrix+CHOLESKY").unwrap();
        assert_eq!(file, WorkloadFile::named("Matrix+Cholesky").unwrap());
        assert_eq!(file.workload.name, "Matrix+Cholesky");
    }

    #[test]
    fn what_is_printed_cannot_be_chosen_and_nothing_else_is_chosen_for() {
        let read = |printed: &str, chosen: &str| {
            let choices = format!("[parameters]\n[A]\n{chosen}");
            BuiltIn::read(&[("A", printed)], &choices).map(|built_in| built_in.jobs[0].processes)
        };
        let printed = "name = \"A\"\n[process.memory]\nreload_lines = 5\n";
        assert_eq!(read(printed, "processes = 3\nprocess.base = 1\n"), Ok(3));
        let told = |chosen: &str| read(printed, chosen).unwrap_err();
        assert_eq!(
            told("processes = 3\nprocess.memory.reload_lines = 6\n"),
            "A: `process.memory.reload_lines` is printed, not chosen"
        );
        assert_eq!(told("processes = 3\n[B]\n"), "there is no application `B` to choose for");
        assert!(told("").contains("missing field `processes`"));
    }
}
