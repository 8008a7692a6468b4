//! The study file: a plan as a person writes it, in TOML. `docs/study-files.md` has examples, which a test runs, and every key.

mod words;

use crate::binding::{Observe, SlotRule, Unit};
use crate::bounds::{MOST_SUBJECTS, check_count, check_patterns};
use crate::factors::Levels;
use crate::list;
use crate::metric::{Metric, primary_and_others};
use crate::mix_text;
use crate::plan::{PlanError, UNBOUND, check_regex, check_time_regex};
use crate::preparation::{IgnoredFailures, Preparation, Variable};
use crate::server::{READY_TIMEOUT, ReadyWhen, STOP_TIMEOUT, Server, signal_number};
use crate::site::{GuestMachine, Site};
use crate::toml_file::{self, FileError};
use launch::Target;
use launch::mpi::Mpi;
use machine::RankPolicy;
use serde::Deserialize;
use sim::toml_text::{self, Mistake, line_at};
use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// More placements than anybody writes; each may list as many CPUs as a placement has.
const MOST_PLACEMENTS: usize = 1000;

/// A study file as read. What it leaves out is left to the command line and the defaults.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct StudyFile {
    /// The paper whose study this is, by its name in the crate `papers`.
    pub paper: Option<String>,
    /// Thread counts: numbers, ranges, `all`.
    #[serde(default, deserialize_with = "words::threads")]
    pub threads: Vec<String>,
    /// Where programs run: `here`, or `vm:TOPOLOGY`.
    #[serde(default, deserialize_with = "words::site")]
    pub on: Option<Site>,
    /// The machine whose caches are modelled there.
    pub misses: Option<String>,
    /// What becomes of those above the number of usable CPUs.
    #[serde(default)]
    pub beyond_machine: BeyondMachine,
    /// `unbound`, policies, CPU lists.
    #[serde(default, deserialize_with = "words::placements")]
    pub placements: Vec<String>,
    /// Memory policies.
    #[serde(default, deserialize_with = "words::levels")]
    pub memory: Vec<String>,
    /// Uses of huge pages.
    #[serde(default, deserialize_with = "words::levels")]
    pub huge_pages: Vec<String>,
    /// Ways of scheduling.
    #[serde(default, deserialize_with = "words::levels")]
    pub sched: Vec<String>,
    /// Company: commands, and `none`.
    #[serde(default, deserialize_with = "words::levels")]
    pub beside: Vec<String>,
    /// Single combinations: `NAME: place=scatter memory=interleave`.
    #[serde(default, deserialize_with = "words::levels")]
    pub treatments: Vec<String>,
    /// Whether treatments that this machine or its kernel lacks are left out, and the plan says so.
    #[serde(default)]
    pub leave_out: bool,
    /// When it is enough.
    #[serde(default)]
    pub stop: StopTable,
    /// Blocks run first and never counted.
    pub warmup_blocks: Option<u32>,
    /// Longest that one trial may take.
    pub timeout: Option<Span>,
    /// Longest that all trials together may take.
    pub budget: Option<Span>,
    /// Seed of order and bootstrap.
    pub seed: Option<u64>,
    /// What is run.
    #[serde(default, rename = "subject")]
    pub subjects: Vec<SubjectTable>,
    /// Whether the subjects are commands that are compared with one another where nothing else varies. No file says it.
    #[serde(skip)]
    pub compares_commands: bool,
    /// Several programs that run at once.
    #[serde(default, rename = "mix")]
    pub mixes: Vec<MixTable>,
}

/// One `[[mix]]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct MixTable {
    /// How the report calls it.
    pub name: Option<String>,
    /// Each a program with its arguments, and before these what it has for itself: `[at=2s place=0] npb:cg.A*2`.
    pub jobs: Vec<String>,
    /// Variables of its jobs.
    #[serde(default)]
    pub env: Vec<Variable>,
}

impl MixTable {
    /// Its jobs as one text.
    pub fn text(&self) -> String {
        self.jobs.join(" + ")
    }
}

/// What becomes of thread counts above the number of usable CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BeyondMachine {
    /// They are run, several threads a CPU.
    #[default]
    Wrap,
    /// They are left out, and the plan says so.
    LeaveOut,
}

/// The stop rule of a study file: the papers' when `relative-sd` is given, else by paired width.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct StopTable {
    /// Width of the ratio's interval.
    pub width: Option<Share>,
    /// Relative standard deviation (the papers' rule).
    pub relative_sd: Option<Share>,
    /// Runs of each cell before the first look.
    pub min_runs: Option<u32>,
    /// Runs of each cell after which it stops.
    pub max_runs: Option<u32>,
}

/// One `[[subject]]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SubjectTable {
    /// A built-in program, such as `npb:cg.W`.
    pub builtin: Option<String>,
    /// A program and its arguments; `{threads}` stands for the thread count.
    #[serde(default, deserialize_with = "words::command")]
    pub command: Option<Vec<String>>,
    /// A file that every run of `command` reads as its standard input.
    pub input: Option<PathBuf>,
    /// How the report calls it.
    pub name: Option<String>,
    /// First group: the program's own time in seconds.
    pub time_regex: Option<String>,
    /// Matches the output of a right result.
    pub verified_regex: Option<String>,
    /// A line for a shell that runs before its first run.
    pub setup: Option<String>,
    /// Before each run.
    pub prepare: Option<String>,
    /// After each run.
    pub conclude: Option<String>,
    /// After its last run.
    pub cleanup: Option<String>,
    /// Variables of its runs: `NAME=VALUE`.
    #[serde(default)]
    pub env: Vec<Variable>,
    /// Exit codes other than 0 with which a run went well: `all`, or `1,2`.
    #[serde(default)]
    pub ignore_failure: IgnoredFailures,
    /// A server and its arguments, on which `command` is a load.
    #[serde(default, deserialize_with = "words::command")]
    pub server: Option<Vec<String>>,
    /// When it is ready: `port:5432`, `regex:EXPRESSION`, `command:LINE`.
    pub ready: Option<ReadyWhen>,
    /// How long it may take until then.
    pub ready_timeout: Option<Span>,
    /// The signal by which it is asked to stop.
    pub stop_signal: Option<String>,
    /// A line for a shell that asks it instead.
    pub stop_command: Option<String>,
    /// How long it may take to stop.
    pub stop_timeout: Option<Span>,
    /// Whether it is started once a block, and bound anew for each run.
    #[serde(default)]
    pub keep_server: bool,
    /// Where the load runs.
    pub load_place: Option<String>,
    /// The program that runs already, on which `command` is a load. No file says it.
    #[serde(skip)]
    pub target: Option<Target>,
    /// What takes a slot of the placement: `thread` or `process`.
    #[serde(default)]
    pub unit: Unit,
    /// Threads or processes, by order of creation from 0, that are left alone.
    #[serde(default)]
    pub skip: Vec<u32>,
    /// Who takes which slot by what it is called: `postgres: *writer* = free`.
    #[serde(default)]
    pub slots: Vec<SlotRule>,
    /// How threads are noticed: `trace` or `poll`.
    #[serde(default)]
    pub observe: Observe,
    /// The launcher of MPI that starts it as ranks: `openmpi`, `mpich` or `srun`.
    #[serde(default, deserialize_with = "words::mpi")]
    pub mpi: Option<Mpi>,
    /// Words for that launcher, none of which may bind.
    #[serde(default, deserialize_with = "words::command")]
    pub mpi_args: Option<Vec<String>>,
    /// Whether threads that the MPI library starts for itself take places as all others do.
    #[serde(default)]
    pub bind_mpi_helpers: bool,
    /// Numbers that its runs write: `tps higher = "tps = ([0-9.]+)"`.
    #[serde(default, deserialize_with = "words::metrics")]
    pub metrics: Vec<Metric>,
    /// The metric that its runs are compared by; the first, unless it is named.
    pub primary: Option<String>,
}

/// A share such as `2 %` or `0.02`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Deserialize)]
#[serde(try_from = "ShareText")]
pub struct Share(pub f64);

/// A duration such as `90 s`, `10 min`, `500ms`, or plain seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "SpanText")]
pub struct Span(pub Duration);

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a share such as \"2 %\" or 0.02")]
enum ShareText {
    Number(f64),
    Text(String),
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a duration such as \"10 min\", \"500 ms\", or a number of seconds")]
enum SpanText {
    Number(f64),
    Text(String),
}

impl TryFrom<ShareText> for Share {
    type Error = String;
    fn try_from(value: ShareText) -> Result<Self, String> {
        match value {
            ShareText::Number(number) => number.to_string().parse(),
            ShareText::Text(text) => text.parse(),
        }
    }
}

impl TryFrom<SpanText> for Span {
    type Error = String;
    fn try_from(value: SpanText) -> Result<Self, String> {
        match value {
            SpanText::Number(number) => number.to_string().parse(),
            SpanText::Text(text) => text.parse(),
        }
    }
}

impl std::str::FromStr for Share {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (number, scale) = match text.trim().strip_suffix('%') {
            Some(number) => (number.trim(), 0.01),
            None => (text.trim(), 1.0),
        };
        match number.parse::<f64>() {
            Ok(share) if share.is_finite() && share > 0.0 && share * scale <= 1.0 => Ok(Self(share * scale)),
            _ => Err(format!("`{text}` is not a share; write it as 2% or 0.02, above 0 and at most 100%")),
        }
    }
}

impl std::str::FromStr for Span {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        const LONGEST_S: f64 = 10.0 * 365.0 * 86_400.0;
        let trimmed = text.trim();
        let digits = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(digits);
        let unit_s = match unit.trim() {
            "ms" => 1e-3,
            "" | "s" | "sec" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            _ => f64::NAN,
        };
        match number.parse::<f64>().map(|number| number * unit_s) {
            Ok(seconds) if seconds > 0.0 && seconds <= LONGEST_S => Ok(Self(Duration::from_secs_f64(seconds))),
            _ => Err(format!("`{text}` is not a duration; write it as 90s, 10min, 2h or 500ms")),
        }
    }
}

impl StopTable {
    /// Whether a study can stop so.
    ///
    /// # Errors
    /// The key that is wrong, and how, in one sentence.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        const RUNS: RangeInclusive<u32> = 1..=100_000;
        for (key, runs) in [("min-runs", self.min_runs), ("max-runs", self.max_runs)] {
            if let Some(runs) = runs.filter(|runs| !RUNS.contains(runs)) {
                return Err((key, format!("`{key}` is from {} to {}, not {runs}", RUNS.start(), RUNS.end())));
            }
        }
        if let Some((least, most)) = self.min_runs.zip(self.max_runs).filter(|(least, most)| least > most) {
            return Err(("max-runs", format!("at least {least} runs and at most {most} can't both hold")));
        }
        if self.width.is_some() && self.relative_sd.is_some() {
            return Err(("relative-sd", "`stop` has either `width` or `relative-sd`, not both".into()));
        }
        Ok(())
    }
}

impl SubjectTable {
    /// The server that it puts a load on; where the load runs is yet to be found.
    pub(crate) fn server(&self) -> Result<Option<Server>, PlanError> {
        let (Some(argv), Some(ready)) = (&self.server, &self.ready) else {
            let is_told = self.ready.is_some()
                || self.load_place.is_some()
                || self.keep_server
                || self.stop_signal.is_some()
                || self.stop_command.is_some()
                || self.ready_timeout.is_some()
                || self.stop_timeout.is_some();
            return match &self.server {
                None if self.target.is_some() && self.ready.is_none() => Ok(None),
                Some(_) => Err(PlanError(
                    "a server needs to say when it is ready: port:5432, regex:EXPRESSION or command:LINE".into(),
                )),
                None if is_told => {
                    Err(PlanError("there is no server that could get ready, stop or be given a load".into()))
                }
                None => Ok(None),
            };
        };
        let stop_signal = self.stop_signal.clone().unwrap_or_else(|| "TERM".into());
        signal_number(&stop_signal)?;
        Ok(Some(Server {
            argv: argv.clone(),
            keep: self.keep_server,
            ready: ready.clone(),
            ready_timeout: self.ready_timeout.map_or(READY_TIMEOUT, |span| span.0),
            stop_signal,
            stop_command: self.stop_command.clone(),
            stop_timeout: self.stop_timeout.map_or(STOP_TIMEOUT, |span| span.0),
            load_place: self.load_place.clone().unwrap_or_else(|| UNBOUND.into()),
            load_placements: Vec::new(),
        }))
    }

    /// What is run around its runs.
    pub(crate) fn preparation(&self) -> Preparation {
        let Self { setup, prepare, conclude, cleanup, .. } = self.clone();
        let (env, ignored_failures) = (self.env.clone(), self.ignore_failure.clone());
        Preparation { setup, prepare, conclude, cleanup, env, ignored_failures }
    }

    /// The first key that is wrong, and how. Regular expressions that are in `compiled` were right for that key in another table.
    fn check<'a>(&'a self, compiled: &mut HashSet<(&'static str, &'a str)>) -> Result<(), (&'static str, String)> {
        let wrong = |key, what: &str| Err((key, what.to_owned()));
        match (&self.builtin, &self.command) {
            (None, None) => return wrong("", "a subject needs `builtin` or `command`"),
            (Some(_), Some(_)) => return wrong("", "a subject has either `builtin` or `command`, not both"),
            (None, Some(command)) if command.first().is_none_or(String::is_empty) => {
                return wrong("command", "`command` is empty; name a program");
            }
            (Some(_), None) if self.input.is_some() => {
                return wrong("input", "`input` is for a `command`; built-in programs read nothing");
            }
            _ => {}
        }
        if self.bind_mpi_helpers && self.mpi.is_none() {
            return wrong("bind-mpi-helpers", "`bind-mpi-helpers` is for ranks, which `mpi` starts; name it");
        }
        if self.mpi_args.is_some() && self.mpi.is_none() {
            return wrong("mpi-args", "`mpi-args` is for the launcher of ranks, which `mpi` names; name it");
        }
        let of = |key| move |wrong: PlanError| (key, format!("`{key}`: {wrong}"));
        self.server().map_err(of("server"))?;
        primary_and_others(self.metrics.clone(), self.primary.as_deref()).map_err(of("primary"))?;
        let mut is_new = |key, pattern: &&'a str| compiled.insert((key, *pattern));
        let time = self.time_regex.as_deref().filter(|pattern| is_new("time-regex", pattern));
        let verified = self.verified_regex.as_deref().filter(|pattern| is_new("verified-regex", pattern));
        time.map_or(Ok(()), check_time_regex).map_err(of("time-regex"))?;
        verified.map_or(Ok(()), check_regex).map_err(of("verified-regex"))
    }
}

impl StudyFile {
    /// What it says of treatments besides places.
    pub(crate) fn levels(&self) -> Levels {
        let Self { memory, huge_pages, sched, beside, treatments, .. } = self;
        let (memory, huge_pages, sched) = (memory.clone(), huge_pages.clone(), sched.clone());
        Levels { memory, huge_pages, sched, beside: beside.clone(), treatments: treatments.clone() }
    }

    /// Where programs run.
    ///
    /// # Errors
    /// When misses are to be counted where there is no model of caches.
    pub fn site(&self) -> Result<Site, PlanError> {
        match (self.on.clone().unwrap_or_default(), &self.misses) {
            (Site::Here | Site::Slurm(_), Some(_)) => {
                Err(PlanError("misses are modelled in virtual machines only; add --on vm".into()))
            }
            (Site::Vm(guest), Some(misses)) => Ok(Site::Vm(GuestMachine { misses: Some(misses.clone()), ..guest })),
            (site, None) => Ok(site),
        }
    }

    /// The same with what `flags` give in place of what it gives; subjects stay its own.
    pub fn with(self, flags: Self) -> Self {
        let either = |flags: Vec<String>, own: Vec<String>| if flags.is_empty() { own } else { flags };
        // The kind of rule is chosen as a whole: a flag for one beats a file that asks for the other.
        let (width, relative_sd) = match (flags.stop.width, flags.stop.relative_sd) {
            (None, None) => (self.stop.width, self.stop.relative_sd),
            chosen => chosen,
        };
        Self {
            threads: either(flags.threads, self.threads),
            on: flags.on.or(self.on),
            misses: flags.misses.or(self.misses),
            placements: either(flags.placements, self.placements),
            memory: either(flags.memory, self.memory),
            huge_pages: either(flags.huge_pages, self.huge_pages),
            sched: either(flags.sched, self.sched),
            beside: either(flags.beside, self.beside),
            treatments: either(flags.treatments, self.treatments),
            leave_out: flags.leave_out || self.leave_out,
            stop: StopTable {
                width,
                relative_sd,
                min_runs: flags.stop.min_runs.or(self.stop.min_runs),
                max_runs: flags.stop.max_runs.or(self.stop.max_runs),
            },
            warmup_blocks: flags.warmup_blocks.or(self.warmup_blocks),
            timeout: flags.timeout.or(self.timeout),
            budget: flags.budget.or(self.budget),
            seed: flags.seed.or(self.seed),
            ..self
        }
    }

    /// Reads the study file at `path`, which may name one of `papers`.
    ///
    /// # Errors
    /// [`FileError`], with the line.
    pub fn read(path: &Path, papers: &[&str]) -> Result<Self, FileError> {
        toml_file::read("study file", path, |text| Self::parse(text, papers))
    }

    /// Reads a study file's text, which may name one of `papers`.
    ///
    /// # Errors
    /// The line, from 1, and what is wrong there.
    pub fn parse(text: &str, papers: &[&str]) -> Result<Self, Mistake> {
        let file: Self = toml_text::parse(text)?;
        let mistake = |path: &str, what: String| (line_at(text, path), what);
        if let Some(name) = file.paper.as_deref().filter(|name| !papers.contains(name)) {
            let known = papers.join(", ");
            return Err(mistake("paper", format!("`{name}` is no paper whose tables we have; these are {known}")));
        }
        for (index, word) in file.threads.iter().enumerate() {
            list::check_shapes(word).map_err(|wrong| mistake(&format!("threads[{index}]"), wrong.0))?;
        }
        let mut placements = 0;
        for (index, words) in file.placements.iter().enumerate() {
            let names = list::placement_names(std::slice::from_ref(words));
            placements += names.len();
            check_count(placements, MOST_PLACEMENTS, "placements")
                .map_err(|wrong| mistake(&format!("placements[{index}]"), wrong.0))?;
            for name in names.iter().filter(|name| *name != UNBOUND) {
                let policy: Result<RankPolicy, _> = name.parse();
                policy.map_err(|wrong| mistake(&format!("placements[{index}]"), wrong.to_string()))?;
            }
        }
        let one = |words: &String| vec![words.clone()];
        let plain = Levels::default;
        let of_words = |key: &str, words: &[String], levels: &dyn Fn(&String) -> Levels| {
            let wrong = words.iter().enumerate().find_map(|(at, word)| Some((at, levels(word).factors().err()?)));
            wrong.map_or(Ok(()), |(at, wrong)| Err(mistake(&format!("{key}[{at}]"), wrong.0)))
        };
        of_words("memory", &file.memory, &|word| Levels { memory: one(word), ..plain() })?;
        of_words("huge-pages", &file.huge_pages, &|word| Levels { huge_pages: one(word), ..plain() })?;
        of_words("sched", &file.sched, &|word| Levels { sched: one(word), ..plain() })?;
        of_words("beside", &file.beside, &|word| Levels { beside: one(word), ..plain() })?;
        of_words("treatments", &file.treatments, &|word| Levels { treatments: one(word), ..plain() })?;
        check_count(file.subjects.len(), MOST_SUBJECTS, "subjects").map_err(|wrong| mistake("subject", wrong.0))?;
        check_patterns(file.subjects.iter().flat_map(|subject| [&subject.time_regex, &subject.verified_regex]))
            .map_err(|wrong| mistake("subject", wrong.0))?;
        let mut compiled = HashSet::new();
        for (index, subject) in file.subjects.iter().enumerate() {
            subject.check(&mut compiled).map_err(|(key, what)| mistake(&format!("subject[{index}].{key}"), what))?;
        }
        check_count(file.mixes.len(), MOST_SUBJECTS, "mixes").map_err(|wrong| mistake("mix", wrong.0))?;
        for (index, mix) in file.mixes.iter().enumerate() {
            mix_text::jobs(&mix.text()).map_err(|wrong| mistake(&format!("mix[{index}].jobs"), wrong.0))?;
        }
        file.stop.check().map_err(|(key, what)| mistake(&format!("stop.{key}"), what))?;
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key's name, and with it the line and the message, of a text that is refused.
    fn told(text: &str) -> (usize, String) {
        StudyFile::parse(text, &[]).unwrap_err()
    }

    #[test]
    fn lists_and_lines_are_taken_as_people_write_them() {
        let file = |text: &str| StudyFile::parse(text, &[]).unwrap();
        assert_eq!(file("threads = [1, \"2-8\", \"all\"]").threads, ["1", "2-8", "all"]);
        for text in ["threads = 4", "threads = \"4\"", "threads = [4]", "threads = [\"4\"]"] {
            assert_eq!(file(text).threads, ["4"], "{text}");
        }
        assert_eq!(file("placements = \"unbound,0,8,1\"").placements, ["unbound,0,8,1"]);
        assert_eq!(file("placements = [\"unbound\", 0]").placements, ["unbound", "0"]);
        let argv = |text: &str| file(&format!("[[subject]]\n{text}")).subjects.pop().unwrap().command.unwrap();
        for text in ["command = \"./x 1\"", "command = [\"./x\", \"1\"]", "command = [\"./x\", 1]"] {
            assert_eq!(argv(text), ["./x", "1"], "{text}");
        }
        assert_eq!(argv("command = \"./x 'two words' {threads}\""), ["./x", "two words", "{threads}"]);
        assert_eq!(file("timeout = 600\nbudget = \"1 h\"").timeout, Some(Span(Duration::from_secs(600))));
        assert_eq!(file("stop = { relative-sd = \"1.9 %\" }").stop.relative_sd, Some("0.019".parse().unwrap()));
    }

    #[test]
    fn a_mistake_names_the_line_the_key_and_what_is_allowed() {
        for (text, line, parts) in [
            ("seed = 1\nthreads = true\n", 2, &["`threads`", "4, \"1-8\" or \"all\""][..]),
            ("threads = [\n  1,\n  0,\n]", 3, &["`0` is not a thread count", "1-8 or all"]),
            ("threads = [1.5]", 1, &["`threads`", "expected a thread count"]),
            ("threads = \"8-1\"", 1, &["`8-1` is not a thread count"]),
            ("placements = 1.5", 1, &["`placements`", "\"compact\""]),
            ("\nplacements = [\"unbound\",\n\"scater\"]", 3, &["scater", "compact"]),
            ("timeout = true", 1, &["`timeout`", "\"10 min\""]),
            ("timeout = \"soon\"", 1, &["`timeout`", "`soon` is not a duration"]),
            ("stop = { width = \"200 %\" }", 1, &["`width`", "is not a share"]),
            ("stop = { width = [] }", 1, &["`width`", "\"2 %\" or 0.02"]),
            ("seed = 1\nstop = { min-runs = 5, max-runs = 2 }", 2, &["at least 5 runs and at most 2"]),
            ("[stop]\nmin-runs = 0", 2, &["`min-runs` is from 1 to 100000"]),
            ("seed = -1", 1, &["`seed`"]),
            ("[[subject]]\ncommand = 3\n", 2, &["`command`", "\"./app 1\" or [\"./app\", \"1\"]"]),
            ("[[subject]]\ncommand = \"./x < in.dat\"\n", 2, &["`command`", "input = \"FILE\""]),
            ("[[subject]]\nname = \"x\"\ncommand = \" \"\n", 3, &["`command` is empty; name a program"]),
            ("[[subject]]\nbuiltin = \"npb:cg.W\"\ninput = \"x\"\n", 3, &["`input` is for a `command`"]),
            ("[[subject]]\ncommand = \"x\"\ntime-regex = 'took (.*'\n", 3, &["`time-regex`", "no regular expression"]),
            ("[[subject]]\ncommand = \"x\"\ntime-regex = 'took'\n", 3, &["`time-regex`", "has no group"]),
            ("[[subject]]\ncommand = \"x\"\ntime = 'took'\n", 3, &["`time`", "`time-regex`"]),
        ] {
            let (found, what) = told(text);
            assert_eq!(found, line, "{text}: {what}");
            for part in parts {
                assert!(what.contains(part), "{text}: {what} lacks {part}");
            }
        }
    }

    #[test]
    fn a_mistake_is_told_with_its_line() {
        let (line, what) = StudyFile::parse("threads = [\"1\"]\nplacments = []\n", &[]).unwrap_err();
        assert_eq!(line, 2);
        assert!(what.contains("placments"), "{what}");
        let (line, what) = StudyFile::parse("\n\n[[subject]]\nname = \"x\"\n", &[]).unwrap_err();
        assert_eq!((line, what.as_str()), (3, "a subject needs `builtin` or `command`"));
        let (line, _) = StudyFile::parse("seed = 1\ntimeout = \"soon\"\n", &[]).unwrap_err();
        assert_eq!(line, 2);
        let (line, what) =
            StudyFile::parse("# as in the paper\npaper = \"pires\"\n", &["pires-2016", "weber-2010"]).unwrap_err();
        assert_eq!(line, 2);
        assert!(what.contains("pires-2016, weber-2010"), "{what}");
        let (line, what) = StudyFile::parse("beyond-machine = \"stop\"\n", &[]).unwrap_err();
        assert_eq!(line, 1);
        assert!(what.contains("`wrap` or `leave-out`"), "{what}");
    }

    #[test]
    fn a_key_in_a_comment_is_not_where_a_mistake_is() {
        let line = |text: &str| StudyFile::parse(text, &["pires-2016"]).unwrap_err().0;
        assert_eq!(line("# paper = \"nobody's\"\nseed = 1\npaper = \"nobody\"\n"), 3);
        assert_eq!(
            line("# one [[subject]] or more\n[[subject]]\nbuiltin = \"npb:cg.W\"\n\n[[subject]]\nname = \"x\"\n"),
            5
        );
        assert_eq!(line("# relative-sd is the papers' rule\n[stop]\nwidth = \"2 %\"\nrelative-sd = \"1 %\"\n"), 4);
    }

    #[test]
    fn shares_and_spans_have_units() {
        assert_eq!("2%".parse(), Ok(Share(0.02)));
        assert_eq!("0.5".parse(), Ok(Share(0.5)));
        for text in ["0", "-1%", "nan", "inf", "120%", "", "%", "two"] {
            assert!(text.parse::<Share>().is_err(), "{text}");
        }
        assert_eq!("500ms".parse(), Ok(Span(Duration::from_millis(500))));
        assert_eq!("1.5 h".parse(), Ok(Span(Duration::from_secs(5400))));
        for text in ["0s", "-1s", "", "s", "1 fortnight", "1e9", "9999999999h", "1.2.3s"] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }
}
