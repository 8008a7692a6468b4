//! What was decided and on what grounds, a line of JSON each.

use serde::Serialize;
use sim::index::CpuIndex;
use sim::space::Policy;
use sim::space::outcome::{Change, Event};
use std::io::{self, Write};

/// What made the allocator decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// A job arrived.
    Arrive {
        /// Which.
        job: u32,
        /// CPUs that it can use.
        wanted: u32,
    },
    /// A job can use more or fewer CPUs than before.
    Want {
        /// Which.
        job: u32,
        /// CPUs that it is taken to be able to use.
        wanted: u32,
        /// CPUs that it says that it can use; none where it has said nothing.
        #[serde(skip_serializing_if = "Option::is_none")]
        said: Option<u32>,
    },
    /// A job ended.
    Depart {
        /// Which.
        job: u32,
    },
}

/// What becomes of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Decided {
    /// The CPU, by its number among those that are shared out.
    pub cpu: CpuIndex,
    /// What becomes of it.
    pub change: Change,
}

/// A step and what it led to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// When, in ns since the play began.
    pub at_ns: u64,
    /// What happened.
    pub step: Step,
    /// What was decided, in order.
    pub decided: Vec<Decided>,
}

impl Decision {
    /// The decision that led to these events.
    pub fn new(at_ns: u64, step: Step, events: &[Event]) -> Self {
        let decided = events.iter().map(|event| Decided { cpu: event.cpu, change: event.change });
        Self { at_ns, step, decided: decided.collect() }
    }
}

/// What a play's decisions are about: the line before them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Heading {
    /// Which play, from 0.
    pub play: u32,
    /// The policy.
    pub policy: Policy,
    /// The kernel's numbers of the CPUs, by ours.
    pub cpus: Vec<u32>,
    /// What the jobs are called, by number.
    pub jobs: Vec<String>,
    /// How many workers a CPU remembers.
    pub history: u32,
    /// The seed of what chance decides.
    pub seed: u64,
}

/// Where decisions are written as they are taken. A line that has been written is there whatever becomes of this process.
pub struct Decisions<'a>(Option<&'a mut dyn Write>);

impl<'a> Decisions<'a> {
    /// Written there.
    pub fn to(file: &'a mut dyn Write) -> Self {
        Self(Some(file))
    }

    /// Not written.
    pub fn discarded() -> Self {
        Self(None)
    }

    pub(crate) fn write(&mut self, line: &impl Serialize) -> io::Result<()> {
        let Some(file) = &mut self.0 else { return Ok(()) };
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        // In one write, so that no half of a line is ever left.
        file.write_all(&text)
    }
}
