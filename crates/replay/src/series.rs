//! Replays of one workload under several policies: what is run for each.

use crate::output::{ReplayOutput, RunFailure};
use crate::policy::{LONGEST_SLICE_MS, Policy};
use crate::scenario::Scenario;
use machine::Machine;
use sim::Parameters;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// One replay of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Under which policy.
    pub policy: Policy,
    /// Which replicate, from 0.
    pub replicate: u32,
}

/// Replays of one workload under several policies: what they have in common.
#[derive(Clone, Debug)]
pub struct Series {
    /// What is replayed.
    pub scenario: Scenario,
    /// The CPUs that it runs on.
    pub machine: Machine,
    /// Whether `stayput-sched` has a queue for each CPU instead of one that is searched.
    pub is_scalable: bool,
    /// How long a waking process may wait under `stayput-sched`, in ms; none is as long as the rule lets it, as in the simulator.
    pub max_wait_ms: Option<f64>,
}

/// The executables of a series.
#[derive(Clone, Debug)]
pub struct Programs {
    /// `stayput-replay`.
    pub replay: PathBuf,
    /// `stayput-sched`.
    pub scheduler: PathBuf,
    /// The plugin of qemu that models caches, where misses are asked for.
    pub plugin: Option<PathBuf>,
}

/// Why the replays of a series were not all run; the outputs of those that were have been handed over.
#[derive(Debug, thiserror::Error)]
pub enum SeriesError {
    /// There is no room for its files.
    #[error("cannot keep a replay's files: {0}")]
    Files(#[from] io::Error),
    /// The workload or the machine can't be written.
    #[error("cannot write what is to be replayed: {0}")]
    Scenario(#[from] serde_json::Error),
    /// The plugin has no more sections.
    #[error(
        "misses of {count} replays can't be told apart in one boot, but of {most}: ask for fewer replicates or policies"
    )]
    TooMany {
        /// How many were asked for.
        count: usize,
        /// How many there may be.
        most: usize,
    },
    /// The virtual machine didn't carry it out.
    #[error(transparent)]
    Vm(#[from] vm::VmError),
}

/// Takes what a run showed, or in a sentence why it failed.
pub(crate) type OnOutput<'a, E> = &'a mut dyn FnMut(Run, Result<ReplayOutput, RunFailure>) -> Result<(), E>;

/// Files of a series, in a folder of its own.
const SCENARIO: &str = "scenario.json";
pub(crate) const MACHINE: &str = "machine.json";
/// What `stayput-replay` and `stayput-sched` write there.
pub(crate) const OUTPUT: &str = "replay.json";
pub(crate) const SCHEDULER_OUTPUT: &str = "scheduler.json";

/// The longest cap on waiting that `stayput-sched` takes: longer than what the rule lets anybody wait.
const NO_CAP_MS: f64 = 60_000.0;

impl Series {
    /// Program and arguments of a run, with files in `folder`.
    pub(crate) fn command(&self, run: Run, programs: &Programs, folder: &Path) -> Vec<String> {
        let file = |name: &str| folder.join(name).display().to_string();
        let mut words = Vec::new();
        if let Policy::Affinity(policy) = run.policy {
            words.push(programs.scheduler.display().to_string());
            words.extend(self.scheduler_arguments(policy));
            // Under sudo too the replay is root, as it is under the kernel's own scheduler: its folder is root's.
            words.extend(["--as-root", "--quiet", "--json"].map(String::from));
            words.extend([file(SCHEDULER_OUTPUT), "--".into()]);
        }
        words.extend([programs.replay.display().to_string(), file(SCENARIO)]);
        words.extend(["--machine".into(), file(MACHINE), "--json".into(), file(OUTPUT)]);
        words.extend(["--replicate".into(), run.replicate.to_string()]);
        words.extend(replay_arguments(run.policy, &self.scenario.parameters));
        words
    }

    /// Arguments of `stayput-sched`.
    fn scheduler_arguments(&self, policy: sim::Policy) -> Vec<String> {
        let parameters = &self.scenario.parameters;
        let boosts = [("--phi-p", parameters.phi_p), ("--phi-t", parameters.phi_t)]
            .into_iter()
            .flat_map(|(option, phi)| [option.to_owned(), phi.to_string()]);
        let mut words: Vec<String> = match policy {
            sim::Policy::Light | sim::Policy::ComplexLight => vec!["--light".into()],
            sim::Policy::Heavy | sim::Policy::ComplexHeavy => vec!["--heavy".into()],
            sim::Policy::Affinity | sim::Policy::Complex | sim::Policy::Graded => boosts.collect(),
            _ => Vec::new(),
        };
        match policy {
            sim::Policy::Complex | sim::Policy::ComplexLight | sim::Policy::ComplexHeavy => {
                words.push("--complex".into());
            }
            sim::Policy::Graded => words.push("--graded".into()),
            _ => {}
        }
        words.extend(["--quantum-ms".into(), parameters.quantum_ms.to_string()]);
        words.extend(["--decay".into(), parameters.decay.to_string()]);
        let max_wait_ms = self.max_wait_ms.unwrap_or(NO_CAP_MS);
        words.extend(["--max-wait-ms".into(), max_wait_ms.to_string()]);
        words.push(if self.is_scalable { "--scalable" } else { "--exact" }.into());
        words
    }

    /// Writes the files that the programs read into `folder`; their names.
    pub(crate) fn write_files(&self, folder: &Path) -> Result<[&'static str; 2], SeriesError> {
        fs::write(folder.join(SCENARIO), serde_json::to_string(&self.scenario)?)?;
        fs::write(folder.join(MACHINE), serde_json::to_string(&self.machine)?)?;
        Ok([SCENARIO, MACHINE])
    }
}

/// Arguments of `stayput-replay` by which it brings a policy of the kernel's own about.
fn replay_arguments(policy: Policy, parameters: &Parameters) -> Vec<String> {
    match policy {
        Policy::Affinity(_) => Vec::new(),
        Policy::Eevdf => vec!["--cache-balancing".into(), "off".into()],
        Policy::EevdfLlc => vec!["--cache-balancing".into(), "on".into()],
        Policy::Attached => vec!["--attached".into()],
        Policy::LongSlice => {
            vec!["--slice-ms".into(), parameters.long_quantum_ms.min(LONGEST_SLICE_MS).to_string()]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(policy: &str, parameters: Parameters) -> String {
        let series = Series {
            scenario: Scenario { workload: sim::Workload::spin(3), parameters },
            machine: Machine::named("pack:1 core:2 pu:1").unwrap(),
            is_scalable: false,
            max_wait_ms: None,
        };
        let programs = Programs { replay: "/bin/replay".into(), scheduler: "/bin/sched".into(), plugin: None };
        let run = Run { policy: policy.parse().unwrap(), replicate: 4 };
        series.command(run, &programs, Path::new("/f")).join(" ")
    }

    #[test]
    fn each_policy_is_brought_about_by_its_own_arguments() {
        let replay = "/bin/replay /f/scenario.json --machine /f/machine.json --json /f/replay.json --replicate 4";
        let sched = |options: &str| {
            format!(
                "/bin/sched {options}--quantum-ms 30 --decay half --max-wait-ms 60000 --exact --as-root --quiet --json /f/scheduler.json -- {replay}"
            )
        };
        for (policy, expected) in [
            ("standard", sched("")),
            ("light", sched("--light ")),
            ("complex-heavy", sched("--heavy --complex ")),
            ("affinity", sched("--phi-p 6 --phi-t 6 ")),
            ("graded", sched("--phi-p 6 --phi-t 6 --graded ")),
            ("eevdf", format!("{replay} --cache-balancing off")),
            ("eevdf-llc", format!("{replay} --cache-balancing on")),
            ("attached", format!("{replay} --attached")),
            ("long-slice", format!("{replay} --slice-ms 100")),
        ] {
            assert_eq!(command(policy, Parameters::default()), expected, "{policy}");
        }
        let subtracting =
            Parameters { decay: sim::Decay::Subtract(50), long_quantum_ms: 60.0, ..Parameters::default() };
        assert!(command("light", subtracting.clone()).contains(" --decay subtract=50 "));
        assert!(command("long-slice", subtracting).ends_with(" --slice-ms 60"));
    }
}
