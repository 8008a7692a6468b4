//! The report's mixes of section 5 as jobs that run, among which this machine's CPUs are shared out under its three policies.

use crate::Interrupted;
use crate::share::jobs;
use anyhow::Context;
use launch::Interruptions;
use machine::CpuSet;
use machine::linux::allowed_cpus;
use output::{Inputs, ResultFile};
use papers::LiveWorkloads;
use papers::live_space::{SPACE_BLOCKS, SPACE_CLASS, SPACE_POLICIES, jobs_of, results_of};
use share::{Decisions, JobCommand, Outcome, Results, Series, ShareError};
use sim::space::mix::REPORT_MIXES;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// Of the workloads' budget, the share that all mixes may take besides it.
const SHARE_OF_BUDGET: f64 = 0.2;

/// The longest that a job may take.
const LONGEST_JOB: Duration = Duration::from_secs(60);

/// Where chance starts.
const SEED: u64 = 1;

/// Plays what is left of the mixes, whose results are in files of `folder`, and adds all of them; all programs with `class` where one is
/// given.
pub(super) fn conduct_mixes(
    live: &mut LiveWorkloads,
    class: Option<&str>,
    budget: Duration,
    folder: &Path,
    quiet: bool,
) -> anyhow::Result<()> {
    let until = Instant::now() + budget.mul_f64(SHARE_OF_BUDGET);
    let cpus = allowed_cpus().context("the CPUs that this process may use aren't known")?;
    let all = SPACE_BLOCKS as usize * SPACE_POLICIES.len();
    for (number, (mix, _)) in REPORT_MIXES.into_iter().enumerate() {
        let path = results_of(mix, folder);
        let earlier = Results::read(&path)?;
        // What has ended is read as it is, and what hasn't goes on with its own class, unless another is asked for.
        let earlier = match earlier {
            Some(results) if class.is_none() && results.plays.len() >= all => {
                live.add_space(mix, results);
                continue;
            }
            earlier => earlier,
        };
        let of_earlier = earlier.as_ref().and_then(|results| results.jobs.first()?.split_once('.'));
        let class = class.or(of_earlier.map(|(_, class)| class)).unwrap_or(SPACE_CLASS);
        let line = jobs_of(mix, class);
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let jobs = match jobs(&words) {
            Ok(jobs) => jobs,
            Err(error) => {
                live.leave_out(format!("{mix} was not played: {error}."));
                if let Some(results) = earlier {
                    live.add_space(mix, results);
                }
                continue;
            }
        };
        let names: Vec<String> = jobs.iter().map(|job| job.name.clone()).collect();
        let mut plays = match earlier {
            Some(results) if results.is_of(&cpus, &SPACE_POLICIES, &names) => results.plays,
            Some(_) => anyhow::bail!(
                "{} holds plays of other jobs or on other CPUs: name another folder by --journal, or delete it",
                path.display()
            ),
            None => Vec::new(),
        };
        if plays.len() < all && Instant::now() >= until {
            let sentence = "the time for mixes is spent";
            live.leave_out(format!("{mix} isn't at its end: {} of {all} plays; {sentence}.", plays.len()));
        } else if plays.len() < all {
            if !quiet {
                eprintln!("stayput: mix {} of {}: {mix} on this machine", number + 1, REPORT_MIXES.len());
            }
            let signal =
                conduct(&jobs, &names, &cpus, &path, &mut plays).with_context(|| format!("{mix} can't be played"))?;
            if let Some(signal) = signal {
                return Err(Interrupted { signal, kept_in: folder.to_owned() }.into());
            }
        }
        if !plays.is_empty() {
            live.add_space(mix, Results::new(&cpus, &SPACE_POLICIES, names, plays, SEED));
        }
    }
    Ok(())
}

/// Plays what is left of a mix, and keeps what has come of it after each play. Gives the signal that ended it before its end.
fn conduct(
    jobs: &[JobCommand],
    names: &[String],
    cpus: &CpuSet,
    path: &Path,
    plays: &mut Vec<Outcome>,
) -> anyhow::Result<Option<i32>> {
    let file = ResultFile::named(path, Inputs::default())?;
    let series = Series {
        policies: &SPACE_POLICIES,
        blocks: SPACE_BLOCKS,
        cpus,
        jobs,
        gap: Duration::ZERO,
        history: 2,
        seed: SEED,
        limit: Some(LONGEST_JOB),
        cpusets: None,
        shown: false,
    };
    let _held = Interruptions::hold();
    let mut keep = |plays: &[Outcome]| {
        let results = Results::new(cpus, &SPACE_POLICIES, names.to_vec(), plays.to_vec(), SEED);
        let text = results.json().map_err(|error| ShareError::Keep(error.into()))?;
        file.write(text).map_err(|error| ShareError::Keep(io::Error::other(error.to_string())))
    };
    Ok(series.conduct(plays, &mut Decisions::discarded(), &mut keep)?)
}
