//! The schedulers that a workload is played under, and how each is brought about.

use crate::scene::Scene;
use machine::Machine;
use sim::Parameters;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Who decides what runs next, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Policy {
    /// One of the simulator's, carried out by `stayput-sched`: one with boosts, or standard, which has none.
    Affinity(sim::Policy),
    /// The kernel's own scheduler, cache-aware balancing off.
    Eevdf,
    /// The same with cache-aware balancing (`SCHED_CACHE`) on.
    EevdfLlc,
    /// The kernel's own scheduler, each process bound for life.
    Attached,
    /// The kernel's own scheduler, each process asking for long slices.
    LongSlice,
}

/// The longest cap on waiting that `stayput-sched` takes: longer than what the rule lets anybody wait.
const NO_CAP_MS: f64 = 60_000.0;

/// The simulator's policies that `stayput-sched` carries out.
const CARRIED_OUT: [sim::Policy; 8] = [
    sim::Policy::Standard,
    sim::Policy::Light,
    sim::Policy::Heavy,
    sim::Policy::Affinity,
    sim::Policy::ComplexLight,
    sim::Policy::ComplexHeavy,
    sim::Policy::Complex,
    sim::Policy::Graded,
];

/// The longest slice that the kernel's own scheduler grants, in ms (`sched_setattr`, Linux 6.12).
pub const LONGEST_SLICE_MS: f64 = 100.0;

impl Policy {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        let own = [Self::Eevdf, Self::EevdfLlc, Self::Attached, Self::LongSlice];
        CARRIED_OUT.map(Self::Affinity).into_iter().chain(own)
    }

    /// Its name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Affinity(policy) => policy.name(),
            Self::Eevdf => "eevdf",
            Self::EevdfLlc => "eevdf-llc",
            Self::Attached => "attached",
            Self::LongSlice => "long-slice",
        }
    }

    /// The simulator's policy that is nearest to it; none where it has nothing of the kind.
    pub fn simulated_by(self) -> Option<sim::Policy> {
        match self {
            Self::Affinity(policy) => Some(policy),
            Self::Eevdf => Some(sim::Policy::PerCpu),
            Self::EevdfLlc => None,
            Self::Attached => Some(sim::Policy::Attached),
            Self::LongSlice => Some(sim::Policy::LongQuantum),
        }
    }

    /// Whether `stayput-sched` carries it out.
    pub fn needs_scheduler(self) -> bool {
        matches!(self, Self::Affinity(_))
    }

    /// What `stayput-sched` is told; nothing of other policies.
    fn scheduler_words(self, series: &Series) -> Vec<String> {
        let parameters = &series.scene.parameters;
        let Self::Affinity(policy) = self else { return Vec::new() };
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
        let max_wait_ms = series.max_wait_ms.unwrap_or(NO_CAP_MS);
        words.extend(["--max-wait-ms".into(), max_wait_ms.to_string()]);
        words.push(if series.is_scalable { "--scalable" } else { "--exact" }.into());
        words
    }

    /// What `stayput-replay` is told.
    fn player_words(self, parameters: &Parameters) -> Vec<String> {
        match self {
            Self::Affinity(_) => Vec::new(),
            Self::Eevdf => vec!["--cache-balancing".into(), "off".into()],
            Self::EevdfLlc => vec!["--cache-balancing".into(), "on".into()],
            Self::Attached => vec!["--attached".into()],
            Self::LongSlice => {
                vec!["--slice-ms".into(), parameters.long_quantum_ms.min(LONGEST_SLICE_MS).to_string()]
            }
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A text that names no such policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no policy that can be played: name {names}", names = Policy::all().map(Policy::name).collect::<Vec<_>>().join(", "))]
pub struct ParsePolicyError(String);

impl FromStr for Policy {
    type Err = ParsePolicyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::all().find(|policy| policy.name() == text).ok_or_else(|| ParsePolicyError(text.into()))
    }
}

/// One play of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Under which policy.
    pub policy: Policy,
    /// Which replicate, from 0.
    pub replicate: u32,
}

/// Plays of one workload under several policies: what they have in common.
#[derive(Clone, Debug)]
pub struct Series {
    /// What is played.
    pub scene: Scene,
    /// The CPUs that it is played on.
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
    pub player: PathBuf,
    /// `stayput-sched`.
    pub scheduler: PathBuf,
    /// The plugin of qemu that models caches, where misses are asked for.
    pub plugin: Option<PathBuf>,
}

/// Files of a series, in a folder of its own.
const SCENE: &str = "scene.json";
pub(crate) const MACHINE: &str = "machine.json";
/// What player and scheduler tell.
pub(crate) const TOLD: &str = "told.json";
pub(crate) const SCHEDULER_TOLD: &str = "scheduler.json";

impl Series {
    /// Program and arguments that play a turn, with files in `folder`.
    pub(crate) fn words(&self, turn: Turn, programs: &Programs, folder: &Path) -> Vec<String> {
        let file = |name: &str| folder.join(name).display().to_string();
        let parameters = &self.scene.parameters;
        let mut words = Vec::new();
        if turn.policy.needs_scheduler() {
            words.push(programs.scheduler.display().to_string());
            words.extend(turn.policy.scheduler_words(self));
            // Under sudo too the player is root, as it is under the kernel's own scheduler.
            words.extend(["--as-root", "--quiet", "--json"].map(String::from));
            words.extend([file(SCHEDULER_TOLD), "--".into()]);
        }
        words.extend([programs.player.display().to_string(), file(SCENE)]);
        words.extend(["--machine".into(), file(MACHINE), "--json".into(), file(TOLD)]);
        words.extend(["--replicate".into(), turn.replicate.to_string()]);
        words.extend(turn.policy.player_words(parameters));
        words
    }

    /// The files that the programs read, by name, as text.
    pub(crate) fn files(&self) -> Result<[(&'static str, String); 2], serde_json::Error> {
        Ok([(SCENE, serde_json::to_string(&self.scene)?), (MACHINE, serde_json::to_string(&self.machine)?)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(policy: &str, parameters: Parameters) -> String {
        let scene = Scene { workload: sim::Workload::spin(3), parameters };
        let series = Series {
            scene,
            machine: Machine::named("pack:1 core:2 pu:1").unwrap(),
            is_scalable: false,
            max_wait_ms: None,
        };
        let programs = Programs { player: "/bin/play".into(), scheduler: "/bin/sched".into(), plugin: None };
        let turn = Turn { policy: policy.parse().unwrap(), replicate: 4 };
        series.words(turn, &programs, Path::new("/f")).join(" ")
    }

    #[test]
    fn each_policy_is_brought_about_by_its_own_words() {
        let play = "/bin/play /f/scene.json --machine /f/machine.json --json /f/told.json --replicate 4";
        let sched = |options: &str| {
            format!(
                "/bin/sched {options}--quantum-ms 30 --decay half --max-wait-ms 60000 --exact --as-root --quiet --json /f/scheduler.json -- {play}"
            )
        };
        for (policy, expected) in [
            ("standard", sched("")),
            ("light", sched("--light ")),
            ("complex-heavy", sched("--heavy --complex ")),
            ("affinity", sched("--phi-p 6 --phi-t 6 ")),
            ("graded", sched("--phi-p 6 --phi-t 6 --graded ")),
            ("eevdf", format!("{play} --cache-balancing off")),
            ("eevdf-llc", format!("{play} --cache-balancing on")),
            ("attached", format!("{play} --attached")),
            ("long-slice", format!("{play} --slice-ms 100")),
        ] {
            assert_eq!(words(policy, Parameters::default()), expected, "{policy}");
        }
        let subtracting =
            Parameters { decay: sim::Decay::Subtract(50), long_quantum_ms: 60.0, ..Parameters::default() };
        assert!(words("light", subtracting.clone()).contains(" --decay subtract=50 "));
        assert!(words("long-slice", subtracting).ends_with(" --slice-ms 60"));
    }

    #[test]
    fn names_are_read_back() {
        for policy in Policy::all() {
            assert_eq!(policy.name().parse(), Ok(policy));
        }
        let error = "per-cpu".parse::<Policy>().unwrap_err().to_string();
        assert!(
            error.starts_with("`per-cpu` is no policy that can be played: name standard, light, heavy, "),
            "{error}"
        );
    }
}
