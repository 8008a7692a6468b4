//! What is replayed, as a file that a journal's plan can be written to.

use serde::{Deserialize, Serialize};
use sim::{Parameters, Workload, WorkloadFile};

/// A workload with the parameters that it is replayed with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What runs.
    pub workload: Workload,
    /// Its parameters.
    pub parameters: Parameters,
}

impl Scenario {
    /// Reads a workload file (a path ending in `.toml`), a scenario (`.json`), or a built-in workload by its name; the text of a
    /// workload file from standard input for `-`.
    ///
    /// # Errors
    /// What is wrong, with file and line, in a sentence.
    pub fn named(name: &str) -> Result<Self, String> {
        let read = || std::fs::read_to_string(name).map_err(|error| format!("cannot read {name}: {error}"));
        let file = if name == "-" {
            let text = std::io::read_to_string(std::io::stdin());
            let text = text.map_err(|error| format!("cannot read standard input: {error}"))?;
            WorkloadFile::parse(&text).map_err(|(line, what)| format!("workload file, line {line}: {what}"))?
        } else if name.ends_with(".json") {
            return serde_json::from_str(&read()?).map_err(|error| format!("{name}: {error}"));
        } else if name.ends_with(".toml") {
            let at = |(line, what)| format!("workload file {name}, line {line}: {what}");
            WorkloadFile::parse(&read()?).map_err(at)?
        } else {
            WorkloadFile::named(name).map_err(|error| error.to_string())?
        };
        Ok(Self { workload: file.workload, parameters: file.parameters })
    }
}
