//! Slurm's queue, by the clients that every cluster has: `sbatch`, `squeue`, `scancel`, `scontrol`. None of them needs accounting.

use super::options::SlurmSite;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// So often it is looked whether someone wants us to end while a client waits for the controller.
const LOOK: Duration = Duration::from_millis(50);

/// What clients say when the controller is away, restarts, or has no time for them: what they asked for may have been done all the same.
const AWAY: [&str; 7] = [
    "Unable to contact slurm controller",
    "Socket timed out",
    "Zero Bytes were transmitted",
    "Connection refused",
    "Connection timed out",
    "Transport endpoint is not connected",
    "temporarily unable to accept job",
];

/// What of a reader's own variables would make another job than the one that is asked for: those of a job that Stayput itself runs in.
const OF_A_JOB: [&str; 5] = ["SLURM_", "SQUEUE_", "SCANCEL_", "SRUN_", "SBATCH_WAIT"];

/// Why there is no answer from Slurm.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// This is no machine from which jobs are submitted.
    #[error(
        "there is no {0} here; go to a machine from which jobs of a Slurm cluster are submitted, or leave out --on slurm"
    )]
    NotInstalled(&'static str),
    /// The controller doesn't answer.
    #[error("Slurm's controller doesn't answer: {0}")]
    Away(String),
    /// It says no.
    #[error("Slurm refuses it: {0}")]
    Refused(String),
    /// A signal asked us to end.
    #[error("interrupted by signal {signal}")]
    Interrupted {
        /// The signal.
        signal: i32,
    },
}

/// A task in the queue, or one that has left it not long ago.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueuedTask {
    /// The name of its submission.
    pub(crate) name: String,
    /// Its position in that; none where it is no task of an array.
    pub(crate) index: Option<usize>,
    /// In Slurm's words: `RUNNING`.
    pub(crate) state: String,
    /// Where it runs; empty as long as it doesn't.
    pub(crate) node: String,
    /// Why it waits, or ended, in Slurm's word: `Resources`.
    pub(crate) reason: String,
}

impl QueuedTask {
    /// Whether it is over, whatever became of it.
    pub(crate) fn has_ended(&self) -> bool {
        const ENDED: [&str; 10] = [
            "BOOT_FAIL",
            "CANCELLED",
            "COMPLETED",
            "DEADLINE",
            "FAILED",
            "NODE_FAIL",
            "OUT_OF_MEMORY",
            "PREEMPTED",
            "REVOKED",
            "TIMEOUT",
        ];
        ENDED.contains(&self.state.as_str())
    }

    /// Whether it runs.
    pub(crate) fn is_running(&self) -> bool {
        !self.has_ended() && self.state != "PENDING" && !self.node.is_empty()
    }

    fn parse(line: &str) -> Option<Self> {
        let mut words = line.splitn(5, '|').map(str::trim);
        let mut next = || words.next().map(str::to_owned);
        let (name, index) = (next()?, next()?.parse().ok());
        Some(Self { name, index, state: next()?, node: next()?, reason: next()? })
    }
}

/// A client of Slurm that is none of a job's.
pub(super) fn client(program: &str) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text != "SLURM_CONF" && OF_A_JOB.iter().any(|start| text.starts_with(start)) {
            command.env_remove(name);
        }
    }
    // Its sentences are told apart; and Ctrl-C is for us, who then cancel what there is to cancel.
    command.env("LC_ALL", "C").process_group(0);
    command
}

/// What a client printed.
fn output(program: &'static str, mut command: Command, input: &str, heeds_signals: bool) -> Result<Output, QueueError> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|_| QueueError::NotInstalled(program))?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that doesn't read it says why not.
        let _ = stdin.write_all(input.as_bytes());
    }
    let pid = nix::unistd::Pid::from_raw(child.id() as i32);
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(child.wait_with_output()));
    loop {
        match receiver.recv_timeout(LOOK) {
            Ok(Ok(output)) => return Ok(output),
            Ok(Err(error)) => return Err(QueueError::Away(error.to_string())),
            Err(RecvTimeoutError::Disconnected) => return Err(QueueError::Away(format!("{program} was lost"))),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Some(signal) = launch::interruption().filter(|_| heeds_signals) {
            let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
            return Err(QueueError::Interrupted { signal });
        }
    }
}

/// What a client that succeeded printed; else why it didn't.
fn said(program: &'static str, command: Command, input: &str, heeds_signals: bool) -> Result<String, QueueError> {
    let output = output(program, command, input, heeds_signals)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(failure(&String::from_utf8_lossy(&output.stderr), program))
}

/// Why a client failed, by what it wrote on standard error.
pub(super) fn failure(stderr: &str, program: &str) -> QueueError {
    let mut told = stderr.lines().map(|line| {
        let line = line.strip_prefix(program).map_or(line, |rest| rest.trim_start_matches(':'));
        let line = line.trim_start();
        ["error: ", "fatal: "].into_iter().find_map(|start| line.strip_prefix(start)).unwrap_or(line).trim()
    });
    // The last line says what came of those before it.
    let told =
        told.rfind(|line| !line.is_empty() && !line.starts_with("Try \"")).unwrap_or("it doesn't say why").to_owned();
    if AWAY.iter().any(|words| stderr.contains(words)) { QueueError::Away(told) } else { QueueError::Refused(told) }
}

/// Whether there is a cluster that jobs can be submitted to from here.
///
/// # Errors
/// [`QueueError`].
pub fn check() -> Result<(), QueueError> {
    for program in ["sbatch", "squeue", "scancel", "scontrol"] {
        if launch::executable_path(std::ffi::OsStr::new(program)).is_err() {
            return Err(QueueError::NotInstalled(program));
        }
    }
    let mut command = client("scontrol");
    command.arg("ping");
    let output = output("scontrol", command, "", true)?;
    let told = String::from_utf8_lossy(&output.stdout);
    if told.lines().any(|line| line.ends_with("is UP")) {
        return Ok(());
    }
    match (told.lines().next(), String::from_utf8_lossy(&output.stderr)) {
        (Some(down), _) => Err(QueueError::Away(down.trim().to_owned())),
        (None, stderr) => match failure(&stderr, "scontrol") {
            QueueError::Refused(why) | QueueError::Away(why) => Err(QueueError::Away(why)),
            other => Err(other),
        },
    }
}

/// Submits `script` as an array of `tasks` that is called `name`, of which as many run at a time as `site` says. Tasks run in the first of
/// the `folders`, and what they print goes into files in the second.
///
/// # Errors
/// [`QueueError`]. Where the controller was away it may be in the queue all the same.
pub(crate) fn submit(
    site: &SlurmSite,
    name: &str,
    tasks: usize,
    [directory, logs]: [&Path; 2],
    script: &str,
) -> Result<(), QueueError> {
    let mut command = client("sbatch");
    command
        .args(["--parsable", "--no-requeue", "--open-mode=append", "--export=ALL"])
        .args(site.arguments())
        .arg(format!("--job-name={name}"))
        .arg(format!("--array=0-{}%{}", tasks.saturating_sub(1), site.nodes))
        .arg(format!("--chdir={}", directory.display()))
        .arg(format!("--output={}/log-{name}-%a", logs.display()));
    said("sbatch", command, script, true).map(drop)
}

/// The tasks of the submissions called `names` that Slurm knows of.
///
/// # Errors
/// [`QueueError`].
pub(crate) fn tasks(names: &[String]) -> Result<Vec<QueuedTask>, QueueError> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let mut command = client("squeue");
    // By name: the number of a job may be another one's by now, and may never have reached us.
    command
        .args(["--me", "--array", "--noheader", "--states=all", "--format=%j|%K|%T|%N|%r"])
        .arg(format!("--name={}", names.join(",")));
    let told = said("squeue", command, "", true)?;
    Ok(told.lines().filter_map(QueuedTask::parse).collect())
}

/// Takes what is called `name` out of the queue, and ends what runs of it.
///
/// # Errors
/// [`QueueError`].
pub(crate) fn cancel(name: &str) -> Result<(), QueueError> {
    let mut command = client("scancel");
    command.arg("--quiet").arg(format!("--name={name}"));
    said("scancel", command, "", false).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_read_as_squeue_tells_them() {
        let task = QueuedTask::parse("stayput-1f-0|2|PENDING||Resources").unwrap();
        assert_eq!(
            (task.name.as_str(), task.index, task.is_running(), task.has_ended()),
            ("stayput-1f-0", Some(2), false, false)
        );
        let task = QueuedTask::parse("stayput-1f-0|0|RUNNING|n1|None").unwrap();
        assert!(task.is_running() && task.node == "n1");
        let task = QueuedTask::parse("stayput-1f-0|0|NODE_FAIL|n1|a|b").unwrap();
        assert!(task.has_ended() && !task.is_running() && task.reason == "a|b");
        let job = QueuedTask::parse("stayput-1f-look|N/A|RUNNING|n1|None").unwrap();
        assert!(job.index.is_none() && job.is_running());
        assert_eq!(QueuedTask::parse("slurm_load_jobs error: x"), None);
    }

    #[test]
    fn a_controller_that_is_away_is_told_from_one_that_refuses() {
        let away = failure(
            "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)\n",
            "sbatch",
        );
        let why = "Batch job submission failed: Unable to contact slurm controller (connect failure)";
        assert_eq!(away, QueueError::Away(why.into()));
        let refused = failure(
            "sbatch: error: invalid partition specified: x\nsbatch: error: Batch job submission failed: Invalid partition name specified\n",
            "sbatch",
        );
        assert_eq!(
            refused,
            QueueError::Refused("Batch job submission failed: Invalid partition name specified".into())
        );
        let unknown = failure("srun: unrecognized option '--x=1'\nTry \"srun --help\" for more information\n", "srun");
        assert_eq!(unknown, QueueError::Refused("unrecognized option '--x=1'".into()));
        assert_eq!(failure("", "sbatch"), QueueError::Refused("it doesn't say why".into()));
    }
}
