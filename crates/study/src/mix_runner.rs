//! The runner of mixes: the jobs of a cell become launches that run at once, what was seen of them becomes one trial.

use crate::engine::{RunnerError, Turn};
use crate::mix::{Job, JobRun, Mix};
use crate::plan::Plan;
use crate::runner::{ProgramRunner, said, time_s};
use crate::trial::{More, Status, Trial};
use launch::{
    Conditions, ConditionsObservation, Descendants, Exit, HugePages, JobLaunched, Jobs, JobsLaunched, Launch,
    LaunchError, Launched, MemoryObservation, Observation, Output, Scheduling, launch_jobs,
};
use std::collections::BTreeMap;
use std::ffi::OsString;

/// What the runs of jobs may take in a trial, in bytes as a journal has them: it has no larger values than 8 MiB.
const MOST_RUN_BYTES: usize = 4 << 20;

/// What a run takes at most, without the name of its job.
const RUN_BYTES: usize = 160;

impl ProgramRunner {
    /// Runs the mix of a cell.
    pub(crate) fn run_mix(
        &mut self,
        plan: &Plan,
        turn: &Turn,
        mix: &Mix,
        trial: &mut Trial,
    ) -> Result<(), RunnerError> {
        let subject_of = |job: &Job| plan.subjects.iter().position(|subject| subject.name == job.subject);
        // Plans are checked for it.
        let missing = |job: &Job| RunnerError::Broken(format!("the plan has no subject {}", job.subject));
        let subjects =
            mix.jobs.iter().map(|job| subject_of(job).ok_or_else(|| missing(job))).collect::<Result<Vec<_>, _>>()?;
        for &subject in &subjects {
            self.check_program(subject)?;
        }
        // Each job has its own.
        trial.intended_cpus = None;
        let launched = match launch_jobs(&self.jobs(plan, turn, mix, &subjects)) {
            Err(LaunchError::Interrupted { signal }) => return Err(RunnerError::Interrupted { signal }),
            Err(error) => {
                trial.cause = error.to_string();
                return Ok(());
            }
            Ok(launched) => launched,
        };
        let makespan_s = launched.makespan_s();
        let last_s = launched.jobs.iter().flat_map(|job| &job.runs).map(|run| run.ended_s).fold(0.0, f64::max);
        trial.ran_s = Some(makespan_s.unwrap_or(last_s));
        let mut failure = self.take_runs(plan, turn, mix, &subjects, &launched, trial);
        if launched.timed_out {
            let has_ended = |came: &JobLaunched| came.runs.iter().any(|run| !run.cut_short);
            let still = mix.jobs.iter().zip(&launched.jobs).filter(|(_, came)| !has_ended(came));
            let still: Vec<&str> = still.map(|(job, _)| job.name.as_str()).collect();
            let (status, cause) = turn.limit(plan).exceeded();
            failure = Some((status, format!("{cause}, before {} had ended", still.join(", "))));
        }
        match (failure, makespan_s) {
            (Some((status, cause)), _) => (trial.status, trial.cause) = (status, cause),
            (None, Some(makespan_s)) => (trial.status, trial.time_s) = (Status::Ok, Some(makespan_s)),
            (None, None) => trial.cause = "not every job came to its end".into(),
        }
        self.judge(trial, launched.not_in_force.clone(), launched.standstill);
        let firsts = launched.jobs.iter().filter_map(|job| job.runs.first());
        let failed = launched.failed.and_then(|failed| launched.jobs.get(failed)?.runs.last());
        let told = failed.map_or_else(|| firsts.collect(), |failed| vec![failed]);
        let said: String = told.into_iter().map(|run| said(&run.launched, trial.status)).collect();
        trial.output_tail = self.kept_tail(&said, &subjects);
        let notes = more_runs(mix, &launched);
        trial.observation = Some(observation(launched, trial, notes));
        Ok(())
    }

    /// Gives `trial` every run of every job; gives how the first of them failed, if one did.
    fn take_runs(
        &self,
        plan: &Plan,
        turn: &Turn,
        mix: &Mix,
        subjects: &[usize],
        launched: &JobsLaunched,
        trial: &mut Trial,
    ) -> Option<(Status, String)> {
        let mut failure = None;
        let (mut runs, mut run_bytes) = (Vec::new(), 0);
        for (index, (job, came)) in mix.jobs.iter().zip(&launched.jobs).enumerate() {
            let reports_time = plan.subjects[subjects[index]].time_regex.is_some();
            for (number, run) in came.runs.iter().enumerate() {
                // Only of a job's first run its output is kept.
                let has_time = !run.cut_short && (number == 0 || !reports_time || run.failed());
                let time_s = || time_s(&run.launched, turn.limit(plan), &self.patterns[subjects[index]]);
                let time_s = match has_time.then(time_s).transpose() {
                    Ok(time_s) => time_s,
                    Err((status, cause)) => {
                        if launched.failed.is_none_or(|failed| failed == index) {
                            failure.get_or_insert((status, format!("{}: {cause}", job.name)));
                        }
                        None
                    }
                };
                // First runs are few, as jobs are.
                if number > 0 && run_bytes + RUN_BYTES + job.name.len() > MOST_RUN_BYTES {
                    continue;
                }
                run_bytes += RUN_BYTES + job.name.len();
                runs.push(JobRun {
                    name: job.name.clone(),
                    started_s: run.started_s,
                    ended_s: run.ended_s,
                    time_s,
                    processes: if number == 0 { processes(&run.launched) } else { 0 },
                });
            }
        }
        trial.more = More { jobs: runs, ..More::default() }.boxed();
        failure
    }

    /// The jobs of a cell as they are launched.
    fn jobs(&self, plan: &Plan, turn: &Turn, mix: &Mix, subjects: &[usize]) -> Jobs {
        let threads = plan.threads[turn.cell.threads];
        let treatment = &plan.treatments[turn.cell.treatment];
        let placements = mix.placements_of_jobs(&treatment.name, threads);
        let jobs = mix.jobs.iter().zip(subjects).zip(placements).map(|((job, &position), placement)| {
            let subject = &plan.subjects[position];
            let count = job.threads_of(threads);
            launch::Job {
                launch: Launch {
                    placement,
                    threads: Some(count),
                    unit: subject.binding.unit,
                    skip: subject.binding.skip.clone(),
                    roles: subject.binding.slots.clone(),
                    observe: subject.binding.observe,
                    output: Output::Capture,
                    input: self.inputs.get(position).cloned().flatten(),
                    descendants: Descendants::Kill,
                    conditions: Conditions { company: None, ..job.own.over(&treatment.conditions) },
                    read_memory: plan.varies_memory(),
                    env: subject.preparation.variables(),
                    ..Launch::new(
                        subject.command_in("", count.into(), turn.block).into_iter().map(OsString::from).collect(),
                    )
                },
                start: job.start,
                repeat: job.repeat,
            }
        });
        Jobs {
            jobs: jobs.collect(),
            conditions: of_all(&treatment.conditions),
            timeout: Some(turn.limit(plan).longest),
            marks: self.marks.clone(),
        }
    }
}

/// Which jobs ran more often than is kept, in sentences.
fn more_runs(mix: &Mix, launched: &JobsLaunched) -> Vec<String> {
    let more = mix.jobs.iter().zip(&launched.jobs).filter(|(_, came)| came.more_runs > 0);
    let told = more.map(|(job, came)| {
        let (kept, all) = (came.runs.len(), came.runs.len() as u64 + came.more_runs);
        format!("{} ran {all} times; {kept} runs of it are kept", job.name)
    });
    told.collect()
}

/// What of `conditions` is brought about around all jobs; the rest each job has from its own.
pub(crate) fn of_all(conditions: &Conditions) -> Conditions {
    let Conditions { huge_pages, scheduling, company, .. } = conditions;
    Conditions {
        huge_pages: if *huge_pages == HugePages::Always { *huge_pages } else { HugePages::default() },
        scheduling: if scheduling.is_inherited() { Scheduling::default() } else { scheduling.clone() },
        company: company.clone(),
        ..Conditions::default()
    }
}

fn processes(launched: &Launched) -> u32 {
    launched.observation.threads.iter().map(|thread| thread.process + 1).max().unwrap_or(0)
}

/// What was seen of all jobs as one: costs of all runs, threads of each job's first run, one job's processes after the other's.
fn observation(launched: JobsLaunched, trial: &Trial, notes: Vec<String>) -> Observation {
    let failed = launched.jobs.iter().flat_map(|job| &job.runs).find(|run| run.failed());
    let mut all = Observation {
        exit: failed.map_or(Exit::Code(0), |run| run.launched.observation.exit),
        wall_s: trial.ran_s.unwrap_or_default(),
        user_s: 0.0,
        system_s: 0.0,
        max_rss_bytes: 0,
        voluntary_switches: 0,
        involuntary_switches: 0,
        migrations: Some(0),
        minor_faults: 0,
        major_faults: 0,
        read_bytes: Some(0),
        written_bytes: Some(0),
        // Of the whole machine, and each run's would count the others'.
        energy_j: None,
        counters: BTreeMap::new(),
        stops: Some(0),
        stops_s: Some(0.0),
        threads: Vec::new(),
        leftovers: 0,
        conditions: launched.conditions,
        notes,
    };
    if launched.timed_out {
        all.exit = Exit::TimedOut;
    }
    let mut before = 0;
    for JobLaunched { runs, .. } in launched.jobs {
        for (number, run) in runs.into_iter().enumerate() {
            let processes = processes(&run.launched);
            let seen = run.launched.observation;
            add_costs(&mut all, &seen);
            if number > 0 {
                continue;
            }
            all.threads.extend(seen.threads.into_iter().map(|mut thread| {
                thread.process += before;
                thread.began_s = thread.began_s.map(|s| s + run.started_s);
                thread.ended_s = thread.ended_s.map(|s| s + run.started_s);
                thread
            }));
            before += processes;
            add_conditions(&mut all.conditions, seen.conditions);
            let new = seen.notes.into_iter().filter(|note| !all.notes.contains(note)).collect::<Vec<_>>();
            all.notes.extend(new);
        }
    }
    all
}

/// Adds what a run cost to what all did. What one of them doesn't know, nobody knows of all.
pub(crate) fn add_costs(all: &mut Observation, run: &Observation) {
    all.user_s += run.user_s;
    all.system_s += run.system_s;
    all.max_rss_bytes = all.max_rss_bytes.max(run.max_rss_bytes);
    all.voluntary_switches += run.voluntary_switches;
    all.involuntary_switches += run.involuntary_switches;
    all.migrations = all.migrations.zip(run.migrations).map(|(all, run)| all + run);
    all.minor_faults += run.minor_faults;
    all.major_faults += run.major_faults;
    all.stops = all.stops.zip(run.stops).map(|(all, run)| all + run);
    all.stops_s = all.stops_s.zip(run.stops_s).map(|(all, run)| all + run);
    all.leftovers += run.leftovers;
    for (name, count) in &run.counters {
        *all.counters.entry(name.clone()).or_default() += count;
    }
}

/// Adds what was read back of a job's conditions.
fn add_conditions(all: &mut ConditionsObservation, job: ConditionsObservation) {
    if let Some(memory) = job.memory {
        match &mut all.memory {
            Some(all) => add_memory(all, *memory),
            none => *none = Some(memory),
        }
    }
    // What is the whole machine's is there already; of what jobs inherit, each has its own, and the first that has any is told.
    all.scheduling = all.scheduling.take().or(job.scheduling);
}

fn add_memory(all: &mut MemoryObservation, job: MemoryObservation) {
    let bytes = |memory: &MemoryObservation| memory.bytes_by_node.values().map(|bytes| *bytes as f64).sum::<f64>();
    let (of_all, of_job) = (bytes(all), bytes(&job));
    let together = |all: f64, job: f64| (all * of_all + job * of_job) / (of_all + of_job);
    let remote = all.remote_share.zip(job.remote_share).map(|(all, job)| together(all, job));
    all.remote_share = remote.filter(|share| share.is_finite());
    for share in all.own_policy_shares.values_mut() {
        *share = together(*share, 0.0);
    }
    for (policy, share) in job.own_policy_shares {
        *all.own_policy_shares.entry(policy).or_default() += together(0.0, share);
    }
    for (node, bytes) in job.bytes_by_node {
        *all.bytes_by_node.entry(node).or_default() += bytes;
    }
    for (node, bytes) in job.file_bytes_by_node {
        *all.file_bytes_by_node.entry(node).or_default() += bytes;
    }
    all.processes += job.processes;
    all.huge_bytes += job.huge_bytes;
    all.hugetlb_bytes += job.hugetlb_bytes;
    all.read_s += job.read_s;
    all.followed = match (all.followed, job.followed) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (all, job) => all.or(job),
    };
}
