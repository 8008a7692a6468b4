//! The ranks of an MPI program: a launcher of MPI starts them, a launcher of ours wraps each of them.
//!
//! ```text
//! mpirun, binding off ──┬─> wrapper of rank 0 ──> program, bound and read back ──> rank-0.json ──┐
//!                       └─> wrapper of rank 1 ──> program, bound and read back ──> rank-1.json ──┴─> observation of all
//! ```
//!
//! A wrapper knows its rank from its environment, and all else from a file in a folder in which it leaves what it saw. Each rank's
//! times are its own; the processes of one rank come after those of the rank before.

use launch::mpi::{self, Mpi, RankContext, RankIdentity, SeenRank};
use launch::{
    Descendants, Exit, Launch, LaunchError, Launched, Observation, Observe, Output, SlotRule, ThreadObservation,
};
use machine::linux::{Tid, affinity};
use machine::{CpuSet, Placement, RankPlacement, RankShape};
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How the ranks of a subject are started. It is part of the plan: with another launcher it is another study.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankStart {
    /// The launcher.
    pub mpi: Mpi,
    /// What it is told besides, none of which binds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Whether helper threads of the MPI library take places as others do.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bind_helpers: bool,
}

/// An MPI program and how it is launched.
#[derive(Clone, Debug)]
pub struct RankLaunch {
    /// The launcher.
    pub mpi: Mpi,
    /// What is said to it besides. Then it binds as it is told or by default, and ranks are only read back.
    pub options: Option<Vec<String>>,
    /// What is said to it besides, which leaves its binding as it is.
    pub further: Vec<String>,
    /// How many ranks, and threads of each.
    pub shape: RankShape,
    /// Whether the number of threads was said: else the program decides.
    pub sets_threads: bool,
    /// Where each thread goes, or with `options` where it is expected; none binds nothing.
    pub placement: Option<RankPlacement>,
    /// Creation indexes of each rank's threads that are left alone.
    pub skip: Vec<u32>,
    /// Who takes which of a rank's places by name.
    pub roles: Vec<SlotRule>,
    /// How threads are noticed.
    pub observe: Observe,
    /// Whether helper threads of the MPI library take places as others do.
    pub binds_helpers: bool,
    /// Whether variables of the environment that bind threads are left where nothing else binds them.
    pub keeps_binding_variables: bool,
    /// Longest that each rank may run.
    pub timeout: Option<Duration>,
    /// Whether it is a run of a study. Then what ranks print is that of rank 0 alone, so that its numbers can be looked for; of the others, the
    /// last of what those print that fail goes to standard error. And nothing that a rank starts outlives it.
    pub in_a_study: bool,
    /// The launcher itself: its output, its input, its time, what becomes of what it leaves.
    pub launcher: Launch,
    /// The program of ours that wraps each rank, with the words before the folder.
    pub wrapper: Vec<OsString>,
}

/// What wrappers are told.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    mpi: Mpi,
    /// Of each rank, by its place on its node; none binds nothing.
    placement: Option<RankPlacement>,
    /// Whether places are only what is expected of the launcher.
    only_expects: bool,
    threads: Option<u32>,
    skip: Vec<u32>,
    roles: Vec<SlotRule>,
    observe: Observe,
    binds_helpers: bool,
    keeps_binding_variables: bool,
    timeout: Option<Duration>,
    in_a_study: bool,
}

/// The step of a Slurm job in which a rank runs.
#[derive(Debug, Serialize, Deserialize)]
struct SlurmStep {
    job: String,
    step: String,
}

/// What was seen of one rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankObservation {
    /// Its numbers.
    #[serde(flatten)]
    pub identity: RankIdentity,
    /// Where its launcher let it run.
    pub inherited_cpus: CpuSet,
    /// What its wrapper saw.
    pub observation: Observation,
}

/// What was seen of an MPI program.
#[derive(Clone, Debug, PartialEq)]
pub struct RanksLaunched {
    /// The whole as one: the launcher's end, the time of the longest rank, costs of all; `process` counts those of one rank after
    /// those of the one before.
    pub launched: Launched,
    /// From the launcher's start to its end, in seconds.
    pub launcher_s: f64,
    /// Each rank that left something, by its number.
    pub ranks: Vec<RankObservation>,
    /// What is wrong with them, if it makes what was seen that of another program than was asked for: in a sentence.
    pub not_as_asked: Option<String>,
}

impl RanksLaunched {
    /// The rank whose end ended the others, and how it ended, where one did wrong: a launcher kills the others then.
    pub fn culprit(&self) -> Option<(usize, Exit)> {
        let ends = self.ranks.iter().map(|rank| (rank.identity.rank, rank.observation.exit));
        let failed: Vec<(usize, Exit)> = ends.filter(|(_, exit)| *exit != Exit::Code(0)).collect();
        let is_killed = |exit: Exit| matches!(exit, Exit::Signal(signal) if KILLS.contains(&signal));
        failed.iter().find(|(_, exit)| !is_killed(*exit)).or(failed.first()).copied()
    }
}

/// The signals by which launchers end the ranks that are left.
const KILLS: [i32; 2] = [Signal::SIGTERM as i32, Signal::SIGKILL as i32];

/// Why an MPI program could not be launched.
#[derive(Debug, thiserror::Error)]
pub enum RankError {
    /// The launcher isn't installed.
    #[error("{0}: command not found; it starts the ranks of --mpi {1}")]
    NoLauncher(&'static str, Mpi),
    /// The launcher, or the program, can't be started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The folder for what wrappers say can't be used.
    #[error("cannot use {}: {cause}", .path.display())]
    Folder {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// No launcher of MPI has told the wrapper which rank it is.
    #[error(
        "no rank is said in the environment (OMPI_COMM_WORLD_RANK, PMI_RANK, PMIX_RANK, SLURM_PROCID); a launcher of MPI has to start it"
    )]
    NoRank,
}

const ORDER: &str = "order.json";

const SLURM_STEP: &str = "step.json";

/// Longest that Slurm may take to cancel a step.
const SLURM_PATIENCE: Duration = Duration::from_secs(20);

fn folder_error(path: &Path) -> impl Fn(io::Error) -> RankError {
    move |cause| RankError::Folder { path: path.to_path_buf(), cause }
}

/// Launches an MPI program, and waits for its end.
///
/// # Errors
/// [`RankError`]; what ranks do wrong is no error, but seen.
pub fn launch_ranks(ranks: &RankLaunch, argv: &[OsString]) -> Result<RanksLaunched, RankError> {
    let program = argv.first().ok_or(LaunchError::NoProgram)?;
    let path = launch::executable_path(program)?;
    if launch::executable_path(ranks.mpi.program().as_ref()).is_err() {
        return Err(RankError::NoLauncher(ranks.mpi.program(), ranks.mpi));
    }
    let folder =
        tempfile::Builder::new().prefix("stayput-ranks-").tempdir().map_err(folder_error(&std::env::temp_dir()))?;
    let order = Order {
        mpi: ranks.mpi,
        placement: ranks.placement.clone(),
        only_expects: ranks.options.is_some(),
        threads: ranks.sets_threads.then_some(ranks.shape.threads as u32),
        skip: ranks.skip.clone(),
        roles: ranks.roles.clone(),
        observe: ranks.observe,
        binds_helpers: ranks.binds_helpers,
        keeps_binding_variables: ranks.keeps_binding_variables,
        timeout: ranks.timeout,
        in_a_study: ranks.in_a_study,
    };
    write_json(&folder.path().join(ORDER), &order)?;
    let allowed = affinity::allowed(Tid::CALLER)
        .map_err(|errno| LaunchError::System { call: "sched_getaffinity", cause: errno.into() })?;
    if let Some(placement) = ranks.placement.as_ref().filter(|_| ranks.options.is_none()) {
        let forbidden = placement.row().union().difference(&allowed);
        if !forbidden.is_empty() {
            return Err(LaunchError::ForbiddenCpus { forbidden, allowed }.into());
        }
    }
    let mut command =
        ranks.mpi.command(ranks.shape.ranks, ranks.shape.threads, ranks.options.as_deref(), &ranks.further);
    command.extend(ranks.wrapper.iter().cloned());
    command.extend([folder.path().as_os_str().to_owned(), "--".into()]);
    command.extend(argv.iter().cloned());
    let launch =
        Launch { argv: command, observe: Observe::End, placement: None, threads: None, ..ranks.launcher.clone() };
    let launched = launch::launch(&launch);
    if ranks.mpi == Mpi::Srun && was_killed(&launched) {
        cancel_step(folder.path());
    }
    let launched = launched?;
    let mut seen = Vec::new();
    for entry in fs::read_dir(folder.path()).map_err(folder_error(folder.path()))? {
        let path = entry.map_err(folder_error(folder.path()))?.path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("rank-")) {
            seen.push(read_json::<RankObservation>(&path)?);
        }
    }
    seen.sort_by_key(|rank| rank.identity.rank);
    let mut context = RankContext {
        options: ranks.options.clone(),
        further: ranks.further.clone(),
        library: mpi::linked_mpi(&path),
        ..RankContext::of_caller(ranks.mpi, ranks.shape.ranks, allowed)
    };
    if ranks.sets_threads {
        context.variables.insert("OMP_NUM_THREADS".into(), ranks.shape.threads.to_string());
    }
    let bound = ranks.placement.is_some() && ranks.options.is_none();
    let of_ranks: Vec<SeenRank> = seen.iter().map(|rank| seen_rank(rank, bound)).collect();
    let launcher_s = launched.observation.wall_s;
    let mut observation = together(launched.observation, &seen);
    let not_as_asked = mpi::other_world(&context, &of_ranks);
    observation.notes.extend(mpi::misconfigurations(&context, &of_ranks));
    Ok(RanksLaunched { launched: Launched { observation, ..launched }, launcher_s, ranks: seen, not_as_asked })
}

/// Whether the launcher was killed before its ranks had ended.
fn was_killed(launched: &Result<Launched, LaunchError>) -> bool {
    match launched {
        Ok(launched) => launched.observation.exit == Exit::TimedOut,
        Err(error) => matches!(error, LaunchError::Interrupted { .. }),
    }
}

/// Has Slurm end what ranks of a killed `srun` do: they are no children of ours, and would run on beside whatever comes next. What can't
/// be cancelled is Slurm's to tell.
fn cancel_step(folder: &Path) {
    let Ok(SlurmStep { job, step }) = read_json(&folder.join(SLURM_STEP)) else { return };
    // A job that srun made for itself has nothing else in it.
    let is_own = std::env::var("SLURM_JOB_ID").is_ok_and(|own| own == job);
    let what = if is_own { format!("{job}.{step}") } else { job };
    let words = ["scancel", "--signal=KILL", "--full", &what].map(OsString::from).to_vec();
    let cancel =
        Launch { observe: Observe::End, output: Output::Capture, timeout: Some(SLURM_PATIENCE), ..Launch::new(words) };
    drop(launch::launch(&cancel));
}

/// The threads of a rank that work for the program: not those of its MPI library, and none of other processes than its own.
fn seen_rank(rank: &RankObservation, bound: bool) -> SeenRank {
    let of_program = |thread: &&ThreadObservation| thread.process == 0 && !(thread.thread > 0 && thread.is_helper);
    let threads = rank.observation.threads.iter().filter(of_program);
    SeenRank {
        rank: rank.identity.rank,
        inherited: rank.inherited_cpus.clone(),
        threads: threads.map(|thread| thread.actual_cpus.clone()).collect(),
        bound,
    }
}

/// What was seen of all ranks as one.
fn together(launcher: Observation, ranks: &[RankObservation]) -> Observation {
    let mut all = launcher;
    if ranks.is_empty() {
        return all;
    }
    all.wall_s = ranks.iter().map(|rank| rank.observation.wall_s).fold(0.0, f64::max);
    (all.user_s, all.system_s, all.max_rss_bytes) = (0.0, 0.0, 0);
    (all.voluntary_switches, all.involuntary_switches) = (0, 0);
    (all.minor_faults, all.major_faults) = (0, 0);
    (all.migrations, all.stops, all.stops_s) = (Some(0), Some(0), Some(0.0));
    (all.read_bytes, all.written_bytes) = (Some(0), Some(0));
    all.counters.clear();
    // The launcher's own is none of the program.
    all.threads.clear();
    // What several ranks say alike is told once.
    let mut said: BTreeMap<&String, Vec<usize>> = BTreeMap::new();
    let mut before = 0;
    for rank in ranks {
        let seen = &rank.observation;
        crate::mix_runner::add_costs(&mut all, seen);
        let add = |all: Option<u64>, one: Option<u64>| all.zip(one).map(|(all, one)| all + one);
        all.read_bytes = add(all.read_bytes, seen.read_bytes);
        all.written_bytes = add(all.written_bytes, seen.written_bytes);
        let processes = seen.threads.iter().map(|thread| thread.process + 1).max().unwrap_or(0);
        all.threads.extend(
            seen.threads.iter().cloned().map(|thread| ThreadObservation { process: thread.process + before, ..thread }),
        );
        before += processes;
        for note in &seen.notes {
            said.entry(note).or_default().push(rank.identity.rank);
        }
    }
    let of_ranks = |(note, ranks): (&String, Vec<usize>)| match ranks[..] {
        [only] => format!("rank {only}: {note}"),
        _ => format!("ranks {}: {note}", numbers(&ranks)),
    };
    all.notes.extend(said.into_iter().map(of_ranks));
    all
}

/// What is shown of the output of a rank that failed, of each stream, in bytes.
const LAST_WORDS: usize = 2048;

/// `0-3` for neighbours, else `0, 2`.
fn numbers(ranks: &[usize]) -> String {
    match ranks {
        [first, .., last] if last - first + 1 == ranks.len() => format!("{first}-{last}"),
        _ => ranks.iter().map(usize::to_string).collect::<Vec<_>>().join(", "),
    }
}

/// Is the wrapper of one rank: launches its program, leaves what it saw in the folder, and returns how it ended.
///
/// # Errors
/// [`RankError`].
pub fn run_rank(folder: &Path, argv: &[OsString]) -> Result<Exit, RankError> {
    let order: Order = read_json(&folder.join(ORDER))?;
    let identity =
        RankIdentity::from_environment(order.mpi, |name| std::env::var(name).ok()).ok_or(RankError::NoRank)?;
    // A launcher that is killed takes no rank with it, and Slurm's daemon outlives its steps.
    if order.mpi != Mpi::Srun {
        nix::sys::prctl::set_pdeathsig(Signal::SIGTERM)
            .map_err(|errno| LaunchError::System { call: "prctl", cause: errno.into() })?;
    }
    if let (0, Ok(job), Ok(step)) = (identity.rank, std::env::var("SLURM_JOB_ID"), std::env::var("SLURM_STEP_ID")) {
        write_json(&folder.join(SLURM_STEP), &SlurmStep { job, step })?;
    }
    let inherited_cpus = affinity::allowed(Tid::CALLER)
        .map_err(|errno| LaunchError::System { call: "sched_getaffinity", cause: errno.into() })?;
    let is_heard = identity.rank == 0 || !order.in_a_study;
    let place = order.placement.as_ref().and_then(|placement| placement.ranks.get(identity.local_rank)).cloned();
    let launch = Launch {
        placement: place.clone().filter(|_| !order.only_expects),
        threads: order.threads,
        skip: order.skip,
        roles: order.roles,
        free_mpi_helpers: !order.binds_helpers,
        observe: order.observe,
        output: if is_heard { Output::Inherit } else { Output::Capture },
        timeout: order.timeout,
        descendants: if order.in_a_study { Descendants::Kill } else { Descendants::Detach },
        keep_binding_variables: order.keeps_binding_variables,
        ..Launch::new(argv.to_vec())
    };
    let Launched { mut observation, stdout, stderr, .. } = launch::launch(&launch)?;
    if let Some(place) = place.filter(|_| order.only_expects) {
        expect(&mut observation, &place);
    }
    let exit = observation.exit;
    if exit != Exit::Code(0) {
        for said in [stdout, stderr].map(|said| said.end(LAST_WORDS)).iter().filter(|said| !said.is_empty()) {
            eprintln!("rank {}: {}", identity.rank, said.trim_end());
        }
    }
    write_json(
        &folder.join(format!("rank-{}.json", identity.rank)),
        &RankObservation { identity, inherited_cpus, observation },
    )?;
    Ok(exit)
}

/// What a launcher should have done: it knows no threads, so each may be anywhere on its rank's CPUs.
fn expect(observation: &mut Observation, place: &Placement) {
    let union = place.union();
    for thread in observation.threads.iter_mut().filter(|thread| thread.process == 0 && !thread.is_helper) {
        thread.intended_cpus = Some(union.clone());
    }
    let strayed = observation.threads.iter().filter(|thread| thread.strayed()).count();
    if strayed > 0 {
        observation
            .notes
            .push(format!("{strayed} threads were not on CPUs {union}, where the launcher was expected to put them"));
    }
}

/// Writes a file that is whole or not there.
fn write_json(path: &Path, value: &impl Serialize) -> Result<(), RankError> {
    let error = folder_error(path);
    let text = serde_json::to_vec(value).map_err(|cause| error(cause.into()))?;
    let unfinished = path.with_extension("new");
    fs::write(&unfinished, text).and_then(|()| fs::rename(&unfinished, path)).map_err(error)
}

fn read_json<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<T, RankError> {
    let error = folder_error(path);
    serde_json::from_slice(&fs::read(path).map_err(&error)?).map_err(|cause| error(cause.into()))
}
