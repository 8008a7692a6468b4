//! What came of jobs under several policies, as it is written down and read again.

use crate::comparison::{Comparison, comparisons};
use crate::conduct::Outcome;
use machine::CpuSet;
use serde::{Deserialize, Serialize};
use sim::space::Policy;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// What came of the same jobs under several policies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The CPUs that were shared out.
    pub cpus: Vec<u32>,
    /// The policies; the first is what others are compared with.
    pub policies: Vec<Policy>,
    /// The jobs, in the order of their arrival.
    pub jobs: Vec<String>,
    /// Policies beside the first.
    pub comparisons: Vec<Comparison>,
    /// The plays, in the order in which they were played; the last block may not be whole.
    pub plays: Vec<Outcome>,
}

/// Why there are no results in a file.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// It can't be read.
    #[error("cannot read {}: {cause}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        cause: io::Error,
    },
    /// It holds something else.
    #[error("{} holds no results of stayput share: {cause}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Where, and what was expected.
        cause: serde_json::Error,
    },
}

impl Results {
    /// What `plays` come to; `seed` is that of the bootstrap.
    pub fn new(cpus: &CpuSet, policies: &[Policy], jobs: Vec<String>, plays: Vec<Outcome>, seed: u64) -> Self {
        Self {
            cpus: cpus.iter().map(|cpu| cpu.0).collect(),
            policies: policies.to_vec(),
            jobs,
            comparisons: comparisons(policies, &plays, seed),
            plays,
        }
    }

    /// What a file holds; none where there is no such file.
    ///
    /// # Errors
    /// [`ResultsError`] when it can't be read, or holds something else.
    pub fn read(path: &Path) -> Result<Option<Self>, ResultsError> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(cause) => return Err(ResultsError::Read { path: path.into(), cause }),
        };
        serde_json::from_str(&text).map(Some).map_err(|cause| ResultsError::Foreign { path: path.into(), cause })
    }

    /// Whether it is of these jobs on these CPUs under these policies.
    pub fn is_of(&self, cpus: &CpuSet, policies: &[Policy], jobs: &[String]) -> bool {
        let cpus = cpus.iter().map(|cpu| cpu.0);
        self.cpus.iter().copied().eq(cpus) && self.policies == policies && self.jobs == jobs
    }

    /// The same as JSON, with a line's end.
    ///
    /// # Errors
    /// None that a disk or a pipe could cause: JSON can hold all of it.
    pub fn json(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}
