//! `stayput study`: from a command line or a study file to a plan, its trials, a verdict and a report.

use crate::UsageError;
use anyhow::Context;
use clap::builder::NonEmptyStringValueParser;
use console::Term;
use indicatif::{ProgressBar, ProgressStyle};
use machine::{Machine, PlaceError, Policy};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use study::engine::{self, EngineError, Event, RunnerError};
use study::launch;
use study::plan::{Plan, StopRule, Subject, Treatment, UNBOUND};
use study::study_file::{Share, Span, StopTable, StudyFile, SubjectTable};
use study::{Analysis, HostFacts, HostState, Journal, ProgramRunner, Record, Status};

/// Measure a program under several placements until it is clear whether they differ
///
/// Every subject is run at every thread count under every placement, interleaved in randomised blocks, until the
/// stop rule is met. Each trial is kept in a journal as it ends; the same command goes on where it stopped.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  stayput study -- ./app input.dat
  stayput study -n 1,2,4,all --place unbound,compact,scatter npb:cg.A
  stayput study --place unbound --place 0,8,1,9 --time-regex 'elapsed: ([0-9.]+)' -- ./app
  stayput study study.toml --budget 1h")]
pub struct StudyArgs {
    /// Built-in programs such as npb:cg.W, or one study file (.toml)
    #[arg(value_name = "SUBJECT")]
    subjects: Vec<String>,
    /// Program to study, with its arguments; the word {threads} stands for the thread count
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
    /// Thread counts: numbers, ranges, `all` [default: all]
    #[arg(short = 'n', long = "threads", value_name = "LIST", value_delimiter = ',')]
    threads: Vec<String>,
    /// Placements: unbound, compact, scatter, balanced, semi-balanced, unbalanced, or CPU lists
    /// [default: unbound,compact,scatter]
    #[arg(long = "place", value_name = "LIST", value_parser = NonEmptyStringValueParser::new())]
    placements: Vec<String>,
    /// Journal to write, or to go on with [default: the subject's name and .stayput]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Go on with the journal's study; an error when there is none (an existing journal is gone on with anyway)
    #[arg(long)]
    resume: bool,
    /// HTML report to write [default: the journal's name and .html]
    #[arg(long, value_name = "FILE", conflicts_with = "no_report")]
    report: Option<PathBuf>,
    /// Write no HTML report
    #[arg(long)]
    no_report: bool,
    /// Don't show progress
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten, next_help_heading = "When it is enough")]
    stop: StopArgs,
    #[command(flatten, next_help_heading = "The program's own words")]
    words: WordArgs,
}

#[derive(clap::Args)]
struct StopArgs {
    /// Stop when each ratio's 95 % interval is narrower than this [default: 2%]
    #[arg(long, value_name = "SHARE", conflicts_with = "relative_sd")]
    width: Option<Share>,
    /// Stop by the papers' rule instead: when times' relative standard deviation is below this
    #[arg(long, value_name = "SHARE")]
    relative_sd: Option<Share>,
    /// Runs of each cell before the first look
    #[arg(long, value_name = "RUNS", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    min_runs: Option<u32>,
    /// Runs of each cell after which it stops
    #[arg(long, value_name = "RUNS", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    max_runs: Option<u32>,
    /// Longest that all trials together may take [default: 10min]
    #[arg(long, value_name = "DURATION")]
    budget: Option<Span>,
    /// Longest that one trial may take before it is killed and counted as such [default: 10min]
    #[arg(long, value_name = "DURATION")]
    timeout: Option<Span>,
    /// Blocks run first and never counted [default: 1]
    #[arg(long, value_name = "BLOCKS")]
    warmup: Option<u32>,
    /// Seed of the order of trials and of the bootstrap [default: 1]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
}

#[derive(clap::Args)]
struct WordArgs {
    /// How the report calls the program [default: its command line]
    #[arg(long, requires = "command")]
    name: Option<String>,
    /// Regular expression whose first group is the program's own time in seconds [default: wall time counts]
    #[arg(long, value_name = "REGEX", requires = "command")]
    time_regex: Option<String>,
    /// Regular expression that the output of a right result matches [default: the exit code decides]
    #[arg(long, value_name = "REGEX", requires = "command")]
    verified_regex: Option<String>,
}

const DEFAULT_BUDGET: Duration = Duration::from_secs(600);
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);

/// Conducts the study and reports on it.
pub fn run(args: &StudyArgs) -> anyhow::Result<u8> {
    let machine = Machine::host().context("cannot read this machine's topology")?;
    let plan = plan(args, &machine)?;
    let journal_path = args.out.clone().unwrap_or_else(|| journal_name(&plan));
    if args.resume && !journal_path.exists() {
        return Err(UsageError::from(format!("there is no journal {} to resume", journal_path.display())));
    }
    let (record, analysis) = conduct(&plan, &machine, &journal_path, args.quiet)?;

    let mut text = report::terminal(&record, &analysis, terminal_width(), colours(&std::io::stdout()));
    text.push_str(&format!("\njournal: {}\n", journal_path.display()));
    if !args.no_report {
        let path = args.report.clone().unwrap_or_else(|| journal_path.with_extension("html"));
        std::fs::write(&path, report::html(&record, &analysis))
            .with_context(|| format!("cannot write report {}", path.display()))?;
        text.push_str(&format!("report:  {}\n", path.display()));
    }
    crate::print(&text)?;
    let empty = analysis.summaries.iter().filter(|summary| summary.trials == 0 && summary.failed > 0).count();
    if empty > 0 {
        eprintln!(
            "stayput: {empty} of {} cells have no run that went well; the report says why",
            analysis.summaries.len()
        );
        return Ok(crate::FAILURE);
    }
    Ok(crate::SUCCESS)
}

/// Runs what is left of the plan; gives all that is in the journal then.
fn conduct(plan: &Plan, machine: &Machine, path: &Path, quiet: bool) -> anyhow::Result<(Record, Analysis)> {
    let mut journal = Journal::open(path)?;
    match journal.plan()? {
        None => journal.begin_study(plan, &serde_json::to_value(machine)?, &HostFacts::read())?,
        Some(old) => {
            let differences = old.differences(plan);
            if !differences.is_empty() {
                return Err(UsageError::from(format!(
                    "journal {} holds another plan; give --out another file, or the same plan again:\n  {}",
                    path.display(),
                    differences.join("\n  ")
                )));
            }
            let now = HostFacts::read();
            let then = journal.record()?.host;
            if (&then.cpu_model, &then.architecture) != (&now.cpu_model, &now.architecture) {
                return Err(UsageError::from(format!(
                    "journal {} was begun on another machine ({}); give --out another file",
                    path.display(),
                    then.cpu_model.as_deref().unwrap_or("unnamed CPU")
                )));
            }
        }
    }
    let done = journal.record()?.trials;
    let resumed = done.len();
    let session = journal.begin_session(&std::env::args().collect::<Vec<_>>(), &HostState::read())?;
    let mut runner = ProgramRunner::new(plan)?;
    let mut progress = Progress::new(plan, engine::time_spent(&done), quiet);
    if resumed > 0 && !quiet {
        progress.say(&format!("going on after {resumed} trials in {}", path.display()));
    }
    let ending = engine::conduct(plan, done, &mut journal, &mut runner, &mut |event| progress.show(plan, event));
    progress.finish();
    match ending {
        Ok(ending) => {
            journal.set_ending(Some(ending))?;
            journal.end_session(session, &HostState::read())?;
        }
        Err(error) => {
            // The first error is the one to tell; the session's end is a nicety.
            let _ = journal.end_session(session, &HostState::read());
            if let EngineError::Runner(RunnerError::Interrupted { signal }) = error {
                eprintln!(
                    "stayput: interrupted; {} keeps what was measured, and the same command goes on",
                    path.display()
                );
                launch::die_by(signal);
            }
            return Err(error.into());
        }
    }
    let record = journal.record()?;
    journal.close()?;
    let analysis = study::analyse(&record);
    Ok((record, analysis))
}

/// Makes the plan from study file, flags and defaults, in falling order: a flag beats the file.
fn plan(args: &StudyArgs, machine: &Machine) -> anyhow::Result<Plan> {
    let mut file = StudyFile::default();
    let mut subjects = Vec::new();
    for name in &args.subjects {
        if name.ends_with(".toml") {
            if args.subjects.len() > 1 || !args.command.is_empty() {
                return Err(UsageError::from(format!("study file {name} can't be mixed with other subjects")));
            }
            file = StudyFile::read(Path::new(name)).map_err(UsageError::from)?;
            for table in &file.subjects {
                subjects.push(subject(table)?);
            }
        } else {
            subjects.push(builtin(name)?);
        }
    }
    if !args.command.is_empty() {
        subjects.push(subject(&SubjectTable {
            builtin: None,
            command: Some(args.command.clone()),
            name: args.words.name.clone(),
            time_regex: args.words.time_regex.clone(),
            verified_regex: args.words.verified_regex.clone(),
        })?);
    }
    if subjects.is_empty() {
        return Err(UsageError::from(
            "nothing to study: name a built-in such as npb:cg.W, a study file, or a program after --",
        ));
    }
    let usable = machine.usable_cpus().len() as u32;
    let threads = thread_counts(either(&args.threads, &file.threads, &["all"]), usable)?;
    let names = either(&args.placements, &file.placements, &["unbound,compact,scatter"]);
    let plan = Plan {
        subjects,
        treatments: treatments(&placement_names(&names), &threads, machine)?,
        threads,
        stop: stop_rule(&args.stop, file.stop)?,
        warmup_blocks: args.stop.warmup.or(file.warmup_blocks).unwrap_or(1),
        timeout: args.stop.timeout.or(file.timeout).map_or(DEFAULT_TIMEOUT, |span| span.0),
        budget: Some(args.stop.budget.or(file.budget).map_or(DEFAULT_BUDGET, |span| span.0)),
        seed: args.stop.seed.or(file.seed).unwrap_or(1),
    };
    plan.check().map_err(UsageError::from)?;
    Ok(plan)
}

fn either(flags: &[String], file: &[String], default: &[&str]) -> Vec<String> {
    match (flags, file) {
        ([], []) => default.iter().map(|&word| word.to_owned()).collect(),
        ([], file) => file.to_vec(),
        (flags, _) => flags.to_vec(),
    }
}

fn stop_rule(flags: &StopArgs, file: StopTable) -> anyhow::Result<StopRule> {
    // The kind of rule is chosen as a whole: a flag for one beats a file that asks for the other.
    let (width, relative_sd) = match (flags.width, flags.relative_sd) {
        (None, None) => (file.width, file.relative_sd),
        chosen => chosen,
    };
    let least = flags.min_runs.or(file.min_runs);
    let most = flags.max_runs.or(file.max_runs);
    let rule = match relative_sd {
        Some(share) => StopRule::RelativeSd {
            relative_sd: share.0,
            min_runs: least.unwrap_or(stats::PAPERS_MIN_RUNS),
            max_runs: most.unwrap_or(stats::DEFAULT_MAX_BLOCKS),
        },
        None => StopRule::Paired {
            width: width.map_or(stats::DEFAULT_WIDTH, |share| share.0),
            min_blocks: least.unwrap_or(stats::DEFAULT_MIN_BLOCKS),
            max_blocks: most.unwrap_or(stats::DEFAULT_MAX_BLOCKS),
        },
    };
    let (least, most) = match rule {
        StopRule::Paired { min_blocks, max_blocks, .. } => (min_blocks, max_blocks),
        StopRule::RelativeSd { min_runs, max_runs, .. } => (min_runs, max_runs),
    };
    if least > most {
        return Err(UsageError::from(format!("at least {least} runs and at most {most} can't both hold")));
    }
    Ok(rule)
}

fn subject(table: &SubjectTable) -> anyhow::Result<Subject> {
    let mut subject = match (&table.builtin, &table.command) {
        (Some(name), _) => builtin(name)?,
        (None, Some(command)) => {
            Subject { name: command.join(" "), argv: command.clone(), time_regex: None, verified_regex: None }
        }
        (None, None) => return Err(UsageError::from("a subject needs `builtin` or `command`")),
    };
    if let Some(name) = &table.name {
        subject.name.clone_from(name);
    }
    subject.time_regex = table.time_regex.clone().or(subject.time_regex);
    subject.verified_regex = table.verified_regex.clone().or(subject.verified_regex);
    Ok(subject)
}

/// A built-in program: an executable that was built next to this one, or is on the PATH.
fn builtin(name: &str) -> anyhow::Result<Subject> {
    let builtin = workloads::resolve(name).map_err(UsageError::from)?;
    let beside = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.join(&builtin.program)));
    let program = match beside.filter(|path| path.exists()) {
        Some(path) => path.to_string_lossy().into_owned(),
        None => builtin.program.clone(),
    };
    let mut argv = vec![program];
    argv.extend(builtin.args);
    Ok(Subject {
        name: name.to_owned(),
        argv,
        time_regex: Some(builtin.time_regex),
        verified_regex: Some(builtin.verified_regex),
    })
}

/// Thread counts from words such as `1`, `2-8` and `all`; each once, in the order given.
fn thread_counts(words: Vec<String>, usable: u32) -> anyhow::Result<Vec<u32>> {
    const MOST: u32 = 65_536;
    let bad = |word: &str| {
        UsageError::from(format!("`{word}` is not a thread count; write 4, 1-8 or all (here {usable}), at most {MOST}"))
    };
    let mut counts: Vec<u32> = Vec::new();
    for word in words.iter().flat_map(|word| word.split(',')).map(str::trim) {
        let number = |text: &str| match text {
            "all" => Ok(usable),
            digits => digits.parse::<u32>().ok().filter(|n| (1..=MOST).contains(n)).ok_or_else(|| bad(word)),
        };
        let (first, last) = match word.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(word)?, number(word)?),
        };
        if first > last {
            return Err(bad(word));
        }
        counts.extend((first..=last).filter(|n| !counts.contains(n)).collect::<Vec<_>>());
    }
    Ok(counts)
}

/// Splits `unbound,compact,0,8,1,9` into `unbound`, `compact` and the CPU list `0,8,1,9`.
fn placement_names(words: &[String]) -> Vec<String> {
    let is_list = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    let mut names: Vec<String> = Vec::new();
    for word in words {
        let mut open_list = false;
        for part in word.split(',').map(str::trim) {
            match names.last_mut() {
                Some(list) if open_list && is_list(part) => {
                    list.push(',');
                    list.push_str(part);
                }
                _ => names.push(part.to_owned()),
            }
            open_list = is_list(part);
        }
    }
    names
}

/// Resolves every placement at every thread count; the reference comes first.
fn treatments(names: &[String], threads: &[u32], machine: &Machine) -> anyhow::Result<Vec<Treatment>> {
    let mut treatments: Vec<Treatment> = Vec::new();
    for name in names {
        if treatments.iter().any(|treatment| treatment.name == *name) {
            continue;
        }
        if name == UNBOUND {
            treatments.insert(0, Treatment { name: name.clone(), placements: Vec::new() });
            continue;
        }
        let policy: Policy = name.parse()?;
        let placements =
            threads.iter().map(|&n| policy.place(machine, n as usize)).collect::<Result<Vec<_>, PlaceError>>()?;
        treatments.push(Treatment { name: name.clone(), placements });
    }
    Ok(treatments)
}

/// The default journal: the first subject's program or built-in name, in the current folder.
fn journal_name(plan: &Plan) -> PathBuf {
    let name = &plan.subjects[0].name;
    let first = name.split_whitespace().next().unwrap_or(name);
    let stem = first.rsplit('/').next().unwrap_or(first);
    let safe: String =
        stem.chars().map(|c| if c.is_ascii_alphanumeric() || ".-_".contains(c) { c } else { '-' }).collect();
    PathBuf::from(format!("{}.stayput", safe.trim_start_matches('.')))
}

/// A progress line on standard error: block, open groups, what runs, time left of the budget.
struct Progress {
    bar: ProgressBar,
    budget_ms: u64,
    spent: Duration,
    trial_began: Instant,
    block: String,
}

impl Progress {
    fn new(plan: &Plan, spent: Duration, quiet: bool) -> Self {
        let budget_ms = plan.budget.map_or(0, |budget| budget.as_millis() as u64);
        let bar = if quiet { ProgressBar::hidden() } else { ProgressBar::new(budget_ms) };
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {prefix} {msg}") {
            bar.set_style(style);
        }
        Self { bar, budget_ms, spent, trial_began: Instant::now(), block: String::new() }
    }

    fn say(&self, text: &str) {
        self.bar.println(text);
    }

    fn show(&mut self, plan: &Plan, event: Event) {
        match event {
            Event::Block { block, open_groups, groups } => {
                self.block = if block < plan.warmup_blocks {
                    format!("warm-up {}", block + 1)
                } else {
                    format!("block {}, {}/{groups} settled", block + 1 - plan.warmup_blocks, groups - open_groups)
                };
            }
            Event::Begin(cell) => {
                self.trial_began = Instant::now();
                let left_s = (self.budget_ms / 1000).saturating_sub(self.spent.as_secs());
                self.bar.set_prefix(format!("{}, at most {}:{:02} left", self.block, left_s / 60, left_s % 60));
                self.bar.set_message(format!(
                    "{} x{} {}",
                    plan.subjects[cell.subject].name, plan.threads[cell.threads], plan.treatments[cell.treatment].name
                ));
                self.bar.set_position((self.spent.as_millis() as u64).min(self.budget_ms));
            }
            Event::End(trial) => {
                self.spent += self.trial_began.elapsed();
                if trial.status != Status::Ok {
                    self.bar.println(format!(
                        "{} x{} {}: {} ({})",
                        trial.subject, trial.threads, trial.placement, trial.status, trial.cause
                    ));
                }
            }
        }
    }

    fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Columns to fill: the terminal's, and 100 where standard output is none.
pub(crate) fn terminal_width() -> usize {
    Term::stdout().size_checked().map_or(100, |(_, columns)| usize::from(columns))
}

/// Whether `stream` wants colours (NO_COLOR and TERM=dumb are heeded).
pub(crate) fn colours(stream: &impl IsTerminal) -> bool {
    stream.is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|value| value != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        placement_names(&[text.to_owned()])
    }

    #[test]
    fn a_cpu_list_keeps_its_commas_among_placements() {
        assert_eq!(names("unbound,compact,0,8,1,9"), ["unbound", "compact", "0,8,1,9"]);
        assert_eq!(names("0-3,scatter,4-7"), ["0-3", "scatter", "4-7"]);
        assert_eq!(placement_names(&["0,1".into(), "2,3".into()]), ["0,1", "2,3"]);
    }

    #[test]
    fn thread_counts_are_numbers_ranges_and_all() {
        let counts = |text: &str| thread_counts(vec![text.to_owned()], 8);
        assert_eq!(counts("1,2-4,all,3").unwrap(), [1, 2, 3, 4, 8]);
        assert_eq!(counts("2-all").unwrap(), [2, 3, 4, 5, 6, 7, 8]);
        for text in ["0", "", "4-2", "-1", "x", "1-", "99999999999"] {
            assert!(counts(text).is_err(), "{text}");
        }
    }
}
