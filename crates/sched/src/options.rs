//! What can be asked of the scheduler.

use clap::{ArgAction, ArgGroup, Parser};
use serde::Serialize;
use sim::Decay;
use sim::parameters::graded_by_distance;
use sim::rule::{Distance, PHI_HEAVY, PHI_LIGHT, PHI_MAX};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;
use strum::EnumCount;

/// Switch the affinity scheduler on: processes stay where they have run, as long as that is fair
#[derive(Parser)]
#[command(
    name = "stayput sched",
    bin_name = "stayput sched",
    version,
    max_term_width = 100,
    override_usage = "stayput sched [OPTIONS] -- <CMD>...\n       stayput sched [OPTIONS] <--cgroup <PATH>|--all|--check>",
    group = ArgGroup::new("extent").required(true),
    after_help = "\
Examples:
  stayput sched --light -- make -j16             schedule this command and all it starts
  stayput sched --heavy --stats 1 -- ./server    the same, with what is counted every second
  stayput sched --heavy --graded --all           schedule everything, until Ctrl-C
  stayput sched --light --cgroup /sys/fs/cgroup/batch

A boost of N keeps a process from moving until another is behind it by N x 20 ms of CPU time. \
Without boosts it is the standard UNIX scheduler with one queue. Needs Linux 6.13 or later with \
sched_ext, and root; `stayput doctor` says what is missing. Under sudo the command runs as the user \
who called it. The exit code is the command's, or 1 \
when the scheduler can't be used or the kernel ended it."
)]
pub struct Options {
    /// Light affinity: both boosts are 6
    #[arg(long, conflicts_with_all = ["heavy", "phi_p", "phi_t"])]
    light: bool,
    /// Heavy affinity: both boosts are 16
    #[arg(long, conflicts_with_all = ["phi_p", "phi_t"])]
    heavy: bool,
    /// Boost for the CPU that a process last ran on, in units of priority of 20 ms
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=i64::from(PHI_MAX)))]
    phi_p: Option<u32>,
    /// Boost for the process that has just run, likewise
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=i64::from(PHI_MAX)))]
    phi_t: Option<u32>,
    /// The boost for time goes to all that last ran there, and fades while they are away
    #[arg(long)]
    complex: bool,
    /// The boost for place falls with distance: 2/3 of it within an L2, 1/3 within an L3, 1/6 within a node
    #[arg(long)]
    graded: bool,
    /// Quantum in ms; the kernel ends it at a clock tick
    #[arg(long, value_name = "Q", default_value = "30", value_parser = milliseconds)]
    quantum_ms: f64,
    /// How accumulated CPU time decays each second: half, bsd, none, or subtract=TICKS of 10 ms
    #[arg(long, value_name = "RULE", default_value_t = Decay::Half)]
    decay: Decay,
    /// One queue, searched from end to end, as the report has it
    #[arg(long, conflicts_with = "scalable")]
    exact: bool,
    /// A queue for each CPU, of which the first are compared (the default)
    #[arg(long)]
    scalable: bool,
    /// No process that wakes waits longer than this, in ms, as long as there is a CPU to preempt
    #[arg(long, value_name = "W", default_value = "100", value_parser = milliseconds)]
    max_wait_ms: f64,
    /// Schedule the processes of a control group
    #[arg(long, value_name = "PATH", group = "extent")]
    cgroup: Option<PathBuf>,
    /// Schedule all ordinary processes of the machine
    #[arg(long, group = "extent")]
    all: bool,
    /// Run the command as root even under sudo, not as the user who called sudo
    #[arg(long, conflicts_with_all = ["cgroup", "all", "check"])]
    pub as_root: bool,
    /// Show every so many seconds what was counted
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub stats: Option<Duration>,
    /// Write what was counted to a file at the end
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Only say whether this kernel can
    #[arg(long, group = "extent")]
    pub check: bool,
    /// Say nothing but errors
    #[arg(long, short)]
    pub quiet: bool,
    /// Show what libbpf and the kernel's verifier say
    #[arg(long, hide = true)]
    pub verbose: bool,
    /// Break it on purpose: `stall` never dispatches
    #[cfg(feature = "faults")]
    #[arg(long, value_name = "FAULT", value_parser = ["stall"])]
    fault: Option<String>,
    /// What to run under it
    #[arg(last = true, value_name = "CMD", action = ArgAction::Append, group = "extent")]
    pub command: Vec<OsString>,
}

/// What is scheduled.
pub enum Extent<'a> {
    /// The command and all that it starts.
    Command,
    /// A control group.
    ControlGroup(&'a Path),
    /// Everything.
    Machine,
}

/// The numbers that the scheduler is loaded with.
#[derive(Clone, Debug, Serialize)]
pub struct Parameters {
    /// phi_p by distance: same CPU, core, L2, L3, node, further.
    pub phi_p: [u32; Distance::COUNT],
    /// phi_t.
    pub phi_t: u32,
    /// Whether phi_t fades.
    pub complex: bool,
    /// Quantum in ms.
    pub quantum_ms: f64,
    /// Decay each second.
    pub decay: Decay,
    /// Whether there is a queue for each CPU.
    pub scalable: bool,
    /// The cap on waiting after a wake-up in ms.
    pub max_wait_ms: f64,
    /// How far one may be behind another that it takes turns with, in fair shares of CPU time, before the other's boosts no longer
    /// count, in ms.
    pub max_behind_ms: f64,
    /// The same for processes of different CPUs.
    pub max_far_behind_ms: f64,
}

impl Options {
    /// What is scheduled.
    pub fn extent(&self) -> Extent<'_> {
        match &self.cgroup {
            Some(path) => Extent::ControlGroup(path),
            None if self.all => Extent::Machine,
            None => Extent::Command,
        }
    }

    /// The numbers that these options mean.
    pub fn parameters(&self) -> Parameters {
        let both = match (self.light, self.heavy) {
            (true, _) => PHI_LIGHT,
            (_, true) => PHI_HEAVY,
            _ => 0,
        };
        let (p, t) = (self.phi_p.unwrap_or(both), self.phi_t.unwrap_or(both));
        let [cpu, core, l2, l3, node] = if self.graded { graded_by_distance(p) } else { [p, 0, 0, 0, 0] };
        let (quantum_ms, max_wait_ms) = (self.quantum_ms, self.max_wait_ms);
        // What the rule by itself brings about where nothing decays: boosts are in units of two ticks of 10 ms, and quanta go on after
        // they are outweighed.
        let apart_ms = |boost: u32| (20.0 * f64::from(boost) + 2.0 * quantum_ms).max(max_wait_ms);
        Parameters {
            phi_p: [cpu, core, l2, l3, node, 0],
            phi_t: t,
            complex: self.complex,
            quantum_ms,
            decay: self.decay,
            scalable: !self.exact,
            max_wait_ms,
            max_behind_ms: apart_ms(t),
            max_far_behind_ms: apart_ms(p.saturating_add(t)),
        }
    }

    /// How it is broken; 0 when it isn't.
    pub fn fault(&self) -> u32 {
        #[cfg(feature = "faults")]
        return u32::from(self.fault.is_some());
        #[cfg(not(feature = "faults"))]
        0
    }

    /// What is being done, in a few words.
    pub fn described(&self) -> String {
        let whom = match self.extent() {
            Extent::Command => "a command".to_owned(),
            Extent::ControlGroup(path) => path.display().to_string(),
            Extent::Machine => "all ordinary processes".to_owned(),
        };
        let Parameters { phi_p, phi_t, scalable, .. } = self.parameters();
        let queue = if scalable { "scalable" } else { "exact" };
        format!("scheduling {whom} with phi_p {} and phi_t {phi_t}, {queue} queue", phi_p[0])
    }
}

fn milliseconds(text: &str) -> Result<f64, String> {
    let ms = text.parse().ok().filter(|ms| (1.0..=60_000.0).contains(ms));
    ms.ok_or_else(|| "it must be a number of ms from 1 to 60000".into())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.1..=86_400.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "it must be a number of seconds from 0.1 to 86400".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_mean_what_they_say() {
        let of = |words: &[&str]| Options::try_parse_from(["sched"].iter().chain(words)).unwrap().parameters();
        let heavy = of(&["--heavy", "--graded", "--exact", "--", "true"]);
        assert_eq!((heavy.phi_p, heavy.phi_t, heavy.scalable), ([16, 16, 10, 5, 2, 0], 16, false));
        assert_eq!((heavy.max_behind_ms, heavy.max_far_behind_ms), (380.0, 700.0));
        let bare = of(&["--check"]);
        assert_eq!((bare.phi_p, bare.phi_t, bare.scalable, bare.max_behind_ms), ([0; 6], 0, true, 100.0));
        assert!(Options::try_parse_from(["sched", "--as-root", "--", "true"]).unwrap().as_root);
        for wrong in [
            &["--light", "--heavy", "--", "true"][..],
            &["--as-root", "--all"],
            &["--light"],
            &["--all", "--", "true"],
            &["--all", "--cgroup", "/"],
            &["--quantum-ms", "0", "--all"],
        ] {
            assert!(Options::try_parse_from(["sched"].iter().chain(wrong)).is_err(), "{wrong:?}");
        }
    }
}
