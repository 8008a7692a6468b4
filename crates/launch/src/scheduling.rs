//! Who schedules a program's threads, and how.
//!
//! Class, nice value and slice are set in the child before it becomes the program, and inherited by all that it starts. A scheduler
//! by sched_ext is loaded for the whole machine by a program of its own, and unloaded when the run is over.

mod attached;
mod attributes;
mod cache_aware;
mod in_force;
mod loader;
mod loads;
mod sched_ext;
mod seen;

pub(crate) use attached::Attached;
pub use attached::AttachedProcess;
pub(crate) use attributes::SchedulingForChild;
pub(crate) use in_force::SchedulingInForce;
pub(crate) use loads::Loads;
pub(crate) use seen::SchedulingSeen;

use crate::LaunchError;
use attributes::Asked;
use cache_aware::CacheAware;
use machine::linux::{process, system};
use nix::errno::Errno;
use sched_ext::SchedExt;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Who schedules the threads of a program, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Scheduling {
    /// As it would be anyway.
    #[default]
    Default,
    /// SCHED_BATCH.
    Batch,
    /// SCHED_IDLE.
    Idle,
    /// SCHED_OTHER with this nice value.
    Nice(i32),
    /// SCHED_OTHER with this slice, in microseconds (`sched_setattr` runtime, Linux 6.12).
    SliceUs(u32),
    /// Each process is bound for life to the CPU that had the fewest when it was created (the report's *attached*).
    Attached,
    /// Cache-aware balancing of the kernel's own scheduler, on or off (`SCHED_CACHE`).
    CacheAware(bool),
    /// The affinity scheduler with these options of `stayput sched`: `light`, `heavy`, `phi=P:T...`.
    Affinity(String),
    /// The sched_ext scheduler that this command loads.
    Ext(String),
}

impl fmt::Display for Scheduling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Batch => f.write_str("batch"),
            Self::Idle => f.write_str("idle"),
            Self::Nice(nice) => write!(f, "nice={nice}"),
            Self::SliceUs(us) => write!(f, "slice={}ms", f64::from(*us) / 1e3),
            Self::Attached => f.write_str("attached"),
            Self::CacheAware(on) => write!(f, "cache-aware={}", if *on { "on" } else { "off" }),
            Self::Affinity(rule) => f.write_str(rule),
            Self::Ext(command) => write!(f, "ext:{command}"),
        }
    }
}

/// Nice values that there are.
const NICE: RangeInclusive<i32> = -20..=19;

/// Slices that the kernel takes, in milliseconds; it would make others one of these.
const SLICE_MS: RangeInclusive<f64> = 0.1..=100.0;

/// The largest boost that `stayput sched` takes.
const MOST_PHI: u32 = 1 << 20;

impl FromStr for Scheduling {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if let Some(command) = text.strip_prefix("ext:") {
            return ext(command.trim());
        }
        match text.split_once('=') {
            Some(("nice", value)) => nice(value),
            Some(("slice", value)) => slice(value),
            Some(("cache-aware", value)) => cache_aware(value),
            Some(("phi", value)) => phi(value),
            Some(_) => Err(unknown(text)),
            None => match text {
                "default" => Ok(Self::Default),
                "batch" => Ok(Self::Batch),
                "idle" => Ok(Self::Idle),
                "attached" => Ok(Self::Attached),
                "light" | "heavy" => Ok(Self::Affinity(text.to_owned())),
                _ => Err(unknown(text)),
            },
        }
    }
}

fn unknown(text: &str) -> String {
    format!(
        "`{}` is no way of scheduling; these are default, batch, idle, nice=N, slice=MS, attached, cache-aware=on, cache-aware=off, \
         light, heavy, phi=P:T and ext:COMMAND",
        machine::quoted(text)
    )
}

fn nice(value: &str) -> Result<Scheduling, String> {
    let nice = value.trim().parse().ok().filter(|nice| NICE.contains(nice));
    nice.map(Scheduling::Nice).ok_or_else(|| {
        let (least, most) = NICE.into_inner();
        format!("`{}` is no nice value; nice=N takes a whole number from {least} to {most}", machine::quoted(value))
    })
}

fn slice(value: &str) -> Result<Scheduling, String> {
    let number = value.trim().strip_suffix("ms").unwrap_or(value).trim();
    let ms = number.parse::<f64>().ok().filter(|ms| SLICE_MS.contains(ms));
    ms.map(|ms| Scheduling::SliceUs((ms * 1e3).round() as u32)).ok_or_else(|| {
        let (least, most) = SLICE_MS.into_inner();
        format!(
            "`{}` is no slice; slice=MS takes milliseconds from {least} to {most}, as in slice=3.5 or slice=100ms",
            machine::quoted(value)
        )
    })
}

fn cache_aware(value: &str) -> Result<Scheduling, String> {
    match value.trim() {
        "on" => Ok(Scheduling::CacheAware(true)),
        "off" => Ok(Scheduling::CacheAware(false)),
        _ => Err(format!("`{}` is neither; cache-aware takes on or off", machine::quoted(value))),
    }
}

/// `P:T`, and then `graded` and `complex` in this order.
fn phi(value: &str) -> Result<Scheduling, String> {
    let boost = |word: Option<&str>| word?.trim().parse::<u32>().ok().filter(|boost| *boost <= MOST_PHI);
    let mut words = value.split(':');
    let boosts = boost(words.next()).zip(boost(words.next()));
    let flags: Vec<&str> = words.map(str::trim).collect();
    let is_flag = |word: &&str| ["graded", "complex"].contains(word);
    match boosts {
        Some((p, t)) if flags.iter().all(is_flag) => {
            let flag = |name| if flags.contains(&name) { format!(":{name}") } else { String::new() };
            Ok(Scheduling::Affinity(format!("phi={p}:{t}{}{}", flag("graded"), flag("complex"))))
        }
        _ => Err(format!(
            "`{}` is no pair of boosts; phi=P:T takes whole numbers from 0 to {MOST_PHI}, as in phi=6:6, phi=16:0:graded or \
             phi=6:6:complex",
            machine::quoted(value)
        )),
    }
}

fn ext(command: &str) -> Result<Scheduling, String> {
    match shell_words::split(command) {
        Ok(words) if words.is_empty() => Err("ext: names no command; write ext:scx_rusty, with its options".into()),
        Ok(_) => Ok(Scheduling::Ext(command.to_owned())),
        Err(_) => Err(format!("`{}` has a quote that isn't closed", machine::quoted(command))),
    }
}

crate::text_in_journals!(Scheduling);

impl Scheduling {
    /// Whether it is of the program's threads alone, which inherit it, and neither of the whole machine nor shared out among processes.
    pub fn is_inherited(&self) -> bool {
        matches!(self, Self::Default | Self::Batch | Self::Idle | Self::Nice(_) | Self::SliceUs(_))
    }

    /// Why this kernel can't do so, in a sentence.
    pub fn lacking(&self) -> Option<String> {
        match self {
            Self::CacheAware(_) => CacheAware::lacking(),
            Self::Affinity(_) | Self::Ext(_) => self.lacking_to_load(&SchedExt::of_kernel()),
            _ => Asked::of(self).and_then(|asked| self.lacking_in_class(asked)),
        }
    }

    /// The same of schedulers that are loaded.
    fn lacking_to_load(&self, sched_ext: &SchedExt) -> Option<String> {
        if !sched_ext.exists() {
            let release = system::kernel_release().unwrap_or_default();
            let since = if matches!(self, Self::Affinity(_)) { "6.13" } else { "6.12" };
            return Some(format!(
                "this kernel (Linux {release}) has no sched_ext, since {} isn't there: `{self}` takes Linux {since} or later, built with \
                 CONFIG_SCHED_CLASS_EXT",
                sched_ext.folder().display()
            ));
        }
        if !process::has_capability(CAP_SYS_ADMIN) {
            return Some(format!("to load a scheduler, as `{self}` does, takes root: try again with sudo"));
        }
        let found = self.loader().and_then(|words| match words.first() {
            Some(program) => crate::executable_path(program).map_err(|error| error.to_string()),
            None => Err("no command is named".into()),
        });
        found.err().map(|error| format!("`{self}`: {error}"))
    }

    /// The command that loads it, or why there is none, in a sentence.
    fn loader(&self) -> Result<Vec<OsString>, String> {
        match self {
            Self::Ext(command) => {
                let words = shell_words::split(command).map_err(|error| error.to_string())?;
                Ok(words.into_iter().map(OsString::from).collect())
            }
            Self::Affinity(rule) => {
                let program = crate::companion(AFFINITY_LOADER).map_err(|error| error.to_string())?;
                let all = ["--all", "--quiet"].map(String::from).into_iter();
                Ok([program.into()].into_iter().chain(all.chain(options(rule)).map(OsString::from)).collect())
            }
            _ => Ok(Vec::new()),
        }
    }

    /// The same of class, nice value and slice, which are tried on a thread that does nothing.
    fn lacking_in_class(&self, asked: Asked) -> Option<String> {
        match asked.tried() {
            Ok(read) if asked.is(read) => None,
            Ok(_) if matches!(self, Self::SliceUs(_)) => {
                let release = system::kernel_release().unwrap_or_default();
                Some(format!("`{self}` needs Linux 6.12 or later: this kernel, {release}, ignores slices"))
            }
            Ok(read) => Some(format!("this kernel does not keep `{self}`: what it is then is {read}")),
            Err(errno @ (Errno::EPERM | Errno::EACCES)) => Some(format!(
                "`{self}` takes root (CAP_SYS_NICE) here, or a higher RLIMIT_NICE (`ulimit -e`): {}",
                errno.desc()
            )),
            Err(errno) => Some(format!("this kernel refuses `{self}`: {} (sched_setattr)", errno.desc())),
        }
    }

    /// Whether it concerns all that runs on the machine.
    pub(crate) fn is_of_whole_machine(&self) -> bool {
        matches!(self, Self::CacheAware(_) | Self::Affinity(_) | Self::Ext(_))
    }

    /// Brings about what concerns the whole machine.
    pub(crate) fn begin(&self) -> Result<SchedulingInForce, LaunchError> {
        SchedulingInForce::begin(self)
    }

    pub(crate) fn for_child(&self) -> SchedulingForChild {
        SchedulingForChild::new(self)
    }
}

/// What was seen of how it was scheduled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SchedulingObservation {
    /// The class that the command's main thread was in when it was last read back: `other`, `batch`, `idle`, `fifo`, `rr`,
    /// `deadline` or `ext`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Its nice value then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nice: Option<i32>,
    /// Its slice then, in microseconds; none where the kernel doesn't tell (before Linux 6.12).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice_us: Option<u32>,
    /// How many threads had another class, nice value or slice than was asked for when they were last read back.
    pub otherwise: u32,
    /// The sched_ext scheduler that was in force when the program ended, as it calls itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ops: Option<String>,
    /// With [`Scheduling::CacheAware`]: whether the kernel's cache-aware balancing was on when the program ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_aware: Option<bool>,
    /// With [`Scheduling::Attached`]: where each process was bound when it was created.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attached: Vec<AttachedProcess>,
}

impl SchedulingObservation {
    /// This of the program's threads, with what was seen around the program.
    pub(crate) fn with_around(self, around: Self) -> Self {
        Self { ops: around.ops, cache_aware: around.cache_aware, ..self }
    }
}

/// CAP_SYS_ADMIN: schedulers can't be loaded without it, whatever else BPF takes.
const CAP_SYS_ADMIN: u32 = 21;

/// The program that loads the affinity scheduler.
const AFFINITY_LOADER: &str = "stayput-sched";

/// The options of `stayput sched` that mean this rule: `light`, `heavy` or `phi=P:T`, and flags.
fn options(rule: &str) -> Vec<String> {
    let Some(value) = rule.strip_prefix("phi=") else { return vec![format!("--{rule}")] };
    let mut words = value.split(':');
    let boosts = ["--phi-p", "--phi-t"].into_iter().zip(words.by_ref());
    let mut options: Vec<String> = boosts.flat_map(|(option, boost)| [option.into(), boost.into()]).collect();
    options.extend(words.map(|flag| format!("--{flag}")));
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_as_it_was_meant_and_shown_so() {
        for word in [
            "default",
            "batch",
            "idle",
            "nice=-20",
            "nice=19",
            "slice=0.1ms",
            "slice=3.5ms",
            "slice=100ms",
            "attached",
            "cache-aware=on",
            "cache-aware=off",
            "light",
            "heavy",
            "phi=6:16",
            "phi=0:1048576:graded",
            "phi=6:6:graded:complex",
            "ext:scx_rusty --slice-us 'a b'",
        ] {
            let parsed: Scheduling = word.parse().unwrap_or_else(|error| panic!("{word}: {error}"));
            assert_eq!(parsed.to_string(), word);
            let kept = serde_json::to_string(&parsed).unwrap();
            assert_eq!(serde_json::from_str::<Scheduling>(&kept).unwrap(), parsed);
        }
    }

    #[test]
    fn there_are_several_ways_to_write_one() {
        for (word, shown) in [
            (" nice=+5 ", "nice=5"),
            ("slice=4", "slice=4ms"),
            ("slice=3.5 ms", "slice=3.5ms"),
            ("slice=0.5", "slice=0.5ms"),
            ("phi=06:6:complex:graded", "phi=6:6:graded:complex"),
            ("ext: scx_simple ", "ext:scx_simple"),
        ] {
            assert_eq!(word.parse::<Scheduling>().unwrap().to_string(), shown);
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_what_is_right() {
        for (word, right) in [
            ("", "default, batch"),
            ("rr", "default, batch"),
            ("batch=1", "default, batch"),
            ("nice", "nice=N"),
            ("nice=20", "from -20 to 19"),
            ("nice=-21", "from -20 to 19"),
            ("nice=1.5", "from -20 to 19"),
            ("slice=0.05", "from 0.1 to 100"),
            ("slice=101ms", "from 0.1 to 100"),
            ("slice=NaN", "from 0.1 to 100"),
            ("slice=ms", "from 0.1 to 100"),
            ("slice=1s", "from 0.1 to 100"),
            ("cache-aware=yes", "on or off"),
            ("phi=6", "phi=P:T"),
            ("phi=6:1048577", "phi=P:T"),
            ("phi=6:6:steep", "phi=P:T"),
            ("phi=-1:6", "phi=P:T"),
            ("ext:", "ext:scx_rusty"),
            ("ext:a 'b", "quote"),
        ] {
            let error = word.parse::<Scheduling>().unwrap_err();
            assert!(error.contains(right) && !error.contains('\n'), "{word}: {error}");
        }
    }

    #[test]
    fn a_kernel_that_can_lacks_nothing_for_a_class() {
        assert_eq!(Scheduling::Default.lacking(), None);
        assert_eq!(Scheduling::Batch.lacking(), None);
        assert_eq!(Scheduling::Idle.lacking(), None);
        let lacking = Scheduling::SliceUs(3500).lacking();
        assert!(lacking.as_ref().is_none_or(|sentence| sentence.contains("6.12")), "{lacking:?}");
    }

    #[test]
    fn the_affinity_scheduler_gets_its_own_options() {
        assert_eq!(options("light"), ["--light"]);
        assert_eq!(options("phi=6:16"), ["--phi-p", "6", "--phi-t", "16"]);
        let Scheduling::Affinity(rule) = "phi=6:0:complex:graded".parse().unwrap() else { panic!("it is a rule") };
        assert_eq!(options(&rule), ["--phi-p", "6", "--phi-t", "0", "--graded", "--complex"]);
    }

    #[test]
    fn what_cannot_be_loaded_is_told_beforehand() {
        let missing = Scheduling::Ext("no-such-loader --fast".into());
        let nowhere = SchedExt::at("/no/such/folder".into());
        assert!(missing.lacking_to_load(&nowhere).unwrap().contains("CONFIG_SCHED_CLASS_EXT"));
        let folder = tempfile::tempdir().unwrap();
        let lacking = missing.lacking_to_load(&SchedExt::at(folder.path().into())).unwrap();
        let may_load = process::has_capability(CAP_SYS_ADMIN);
        assert!(lacking.contains(if may_load { "no-such-loader: command not found" } else { "root" }), "{lacking}");
        let there = Scheduling::Ext("sh -c true".into()).lacking_to_load(&SchedExt::at(folder.path().into()));
        assert_eq!(there.is_none(), may_load, "{there:?}");
    }
}
