//! `stayput share`: jobs that run at once, among which CPUs are shared out.

use crate::{FAILURE, SUCCESS, UsageError, shell};
use ::share::{Cpusets, Decisions, JobCommand, Outcome, Results, Series, report};
use anyhow::Context;
use launch::Interruptions;
use machine::linux::allowed_cpus;
use output::{Inputs, ResultFile};
use sim::space::Policy;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;
use study::study_file::Span;

/// Run jobs at once that take CPUs and give them back: an allocator moves CPUs from job to job
///
/// Each job's threads are bound to the CPUs that the job has. Jobs say how many they can use through a page that they share with the
/// allocator (docs/space-sharing.md); of others, threads that are ready are counted. No root is needed. When the allocator dies, jobs
/// run on where they were. Ctrl-C ends all jobs, and tells what the plays before came to.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  stayput share -- mva.W + matrix.W + gravity.W                   response times under dynamic-affinity
  stayput share --policy equipartition,dynamic,dynamic-affinity -- 2*mva.W + gravity.W
  taskset -c 0-7 stayput share --gap 500ms --decisions d.jsonl -- ./app input + ./other
  stayput share --header > stayput_share.h                        the C interface, for programs of your own

Policies, as in stayput simulate space-sharing: equipartition (equal shares); dynamic (a job has what it can use, from who can't use
it or has most); dynamic-affinity (the same, with jobs back on CPUs where they were). With several, the same jobs are played under
each, block by block in random order, and others are compared with the first.")]
pub struct ShareArgs {
    /// Policies to play the jobs under; the first is what others are compared with
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "dynamic-affinity", value_parser = policy, add = shell::names(|| POLICIES.map(|policy| policy.name().to_owned()).to_vec()))]
    policy: Vec<Policy>,
    /// How often the jobs are played under each policy [default: 1; 10 with several policies]
    #[arg(long, value_name = "RUNS", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: Option<u32>,
    /// Time from one job's arrival to the next [default: all at once]
    #[arg(long, value_name = "DURATION")]
    gap: Option<Span>,
    /// Longest that a job may take before it is killed [default: no limit]
    #[arg(long, value_name = "DURATION")]
    timeout: Option<Span>,
    /// How many of the workers that ran on it a CPU remembers
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=8))]
    history: u32,
    /// Where chance, the order of policies and the bootstrap start
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Put each job into a cpuset, too, which no thread can leave; needs root
    #[arg(long)]
    cpusets: bool,
    /// Write results as JSON, too; - is standard output, in place of the text
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    json: Option<PathBuf>,
    /// Write every decision to FILE as it is taken, a line of JSON each
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    decisions: Option<PathBuf>,
    /// Let jobs write to standard error; without it the end of what a job that failed wrote is shown
    #[arg(long)]
    output: bool,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
    /// Print the C interface of jobs, a header, and do nothing else
    #[arg(long, conflicts_with = "jobs")]
    header: bool,
    /// Jobs with + between them: built-in programs such as mva.W, or commands; N*JOB is N of them
    #[arg(last = true, value_name = "JOB", required_unless_present = "header")]
    jobs: Vec<OsString>,
}

/// What jobs that run can be played under: the report's own.
const POLICIES: [Policy; 3] = [Policy::Equipartition, Policy::Dynamic, Policy::DynamicAffinity];

fn policy(name: &str) -> Result<Policy, String> {
    let known = POLICIES.into_iter().find(|policy| policy.name() == name);
    known.ok_or_else(|| format!("jobs that run are shared out by {}", POLICIES.map(Policy::name).join(", ")))
}

/// Most jobs at once.
const MOST_JOBS: usize = 1_000;

/// Plays the jobs, and reports.
///
/// # Errors
/// A [`UsageError`] for jobs that there are none of; else what the system refused.
pub fn run(args: &ShareArgs) -> anyhow::Result<u8> {
    if args.header {
        return crate::print_exactly(::share::HEADER).map(|()| SUCCESS);
    }
    let jobs = jobs(&args.jobs)?;
    let policies = args.policy.clone();
    if (1..policies.len()).any(|at| policies[..at].contains(&policies[at])) {
        return Err(UsageError::from("--policy names a policy twice"));
    }
    let mut inputs = Inputs::default();
    jobs.iter().for_each(|job| inputs.add_command(None, &job.argv));
    let file = crate::result_file(args.json.as_deref(), inputs.clone())?;
    args.json.iter().for_each(|path| inputs.add(path, "the results"));
    let decisions = args.decisions.as_deref().map(|path| ResultFile::named(path, inputs)).transpose()?;
    let cpus = allowed_cpus().context("the CPUs that this process may use aren't known")?;
    let cpusets = args.cpusets.then(|| Cpusets::here(&cpus)).transpose()?;
    let create =
        |file: ResultFile| File::create(file.path()).with_context(|| format!("cannot write {}", file.path().display()));
    let mut record = decisions.map(create).transpose()?;

    let interruptions = Interruptions::hold();
    let blocks = args.runs.unwrap_or(if policies.len() > 1 { 10 } else { 1 });
    let all = u64::from(blocks) * policies.len() as u64;
    let bar = crate::progress_bar(all, args.quiet);
    let series = Series {
        policies: &policies,
        blocks,
        cpus: &cpus,
        jobs: &jobs,
        gap: args.gap.map_or(Duration::ZERO, |span| span.0),
        history: args.history,
        seed: args.seed,
        limit: args.timeout.map(|span| span.0),
        cpusets: cpusets.as_ref(),
        shown: args.output,
    };
    let mut plays: Vec<Outcome> = Vec::new();
    let mut decisions = record.as_mut().map_or_else(Decisions::discarded, |file| Decisions::to(file as &mut dyn Write));
    let ended_by = series.conduct(&mut plays, &mut decisions, &mut |plays| {
        bar.set_position(plays.len() as u64);
        Ok(())
    });
    bar.finish_and_clear();
    let ended_by = ended_by?;
    drop(interruptions);
    if ended_by.is_some() {
        let whole = match plays.len() {
            0 => "no play was whole".to_owned(),
            number => format!("what follows is of {number} of {all} plays, which were whole"),
        };
        eprintln!("stayput: interrupted; all jobs were ended; {whole}");
    }
    if let (Some(signal), true) = (ended_by, plays.is_empty()) {
        launch::die_by(signal)
    }
    let names = jobs.iter().map(|job| job.name.clone()).collect();
    let results = Results::new(&cpus, &policies, names, plays, args.seed);
    let text = report(&cpus, &policies, &results.plays, &results.comparisons);
    match (&args.json, file) {
        (Some(_), Some(file)) => {
            file.write(results.json()?)?;
            crate::print(&text)?;
        }
        (Some(_), None) => crate::print_exactly(&results.json()?)?,
        (None, _) => crate::print(&text)?,
    }
    if let Some(signal) = ended_by {
        // What was told is out before the end.
        std::io::stdout().flush()?;
        launch::die_by(signal)
    }
    let failed = results.plays.iter().flat_map(|play| &play.jobs).any(|job| job.failure.is_some());
    Ok(if failed { FAILURE } else { SUCCESS })
}

/// The jobs that the words name.
pub(crate) fn jobs(words: &[OsString]) -> anyhow::Result<Vec<JobCommand>> {
    let mut jobs: Vec<JobCommand> = Vec::new();
    for (place, words) in words.split(|word| word == "+").enumerate() {
        let [first, arguments @ ..] = words else {
            return Err(UsageError::from(format!(
                "job {} is empty; write `JOB + JOB`, with a space on either side",
                place + 1
            )));
        };
        let (count, program) = counted(first);
        if count == 0 || jobs.len() + count > MOST_JOBS {
            return Err(UsageError::from(format!("there can be 1 to {MOST_JOBS} jobs")));
        }
        let (name, argv) = command(program, arguments)?;
        for _ in 0..count {
            let same = jobs.iter().filter(|job| job.argv == argv).count();
            let name = if same == 0 { name.clone() } else { format!("{name} #{}", same + 1) };
            jobs.push(JobCommand { name, argv: argv.clone() });
        }
    }
    Ok(jobs)
}

/// How many jobs `N*JOB` are, and of what.
fn counted(word: &OsString) -> (usize, OsString) {
    let counted = word.to_str().and_then(|word| word.split_once('*'));
    let count = counted.and_then(|(count, program)| Some((count.parse().ok()?, program.into())));
    count.unwrap_or_else(|| (1, word.clone()))
}

/// What a job is called, and its command: a built-in program with its class, or one of the user's.
fn command(program: OsString, arguments: &[OsString]) -> anyhow::Result<(String, Vec<OsString>)> {
    let is_path = program.to_string_lossy().contains('/');
    if !is_path && arguments.is_empty() {
        match program.to_str().map(workloads::resolve) {
            Some(Ok(builtin)) => {
                let argv = std::iter::once(builtin.path()?.into()).chain(builtin.args.iter().map(OsString::from));
                return Ok((program.to_string_lossy().into_owned(), argv.collect()));
            }
            // A program's own name, with a class that it lacks or without one.
            Some(Err(error)) if !matches!(error, workloads::ResolveError::UnknownProgram(_)) => {
                return Err(UsageError::from(error));
            }
            _ => {}
        }
    }
    launch::executable_path(&program).map_err(|error| crate::unstartable(error, &program))?;
    let words = std::iter::once(&program).chain(arguments).map(|word| word.to_string_lossy());
    let name = words.collect::<Vec<_>>().join(" ");
    Ok((name, std::iter::once(program).chain(arguments.iter().cloned()).collect()))
}
