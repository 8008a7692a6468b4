//! One node of a cluster, asked what machine it is, so that a study can be planned for nodes that aren't where it is planned.

use super::options::SlurmSite;
use super::queue::{self, QueueError};
use crate::guest::{Answer, Request};
use crate::host::HostFacts;
use launch::Conditions;
use machine::Machine;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// So often it is looked whether someone wants us to end while a node is waited for.
const LOOK: Duration = Duration::from_millis(50);

/// After so long somebody is told that a node is waited for.
const PATIENCE: Duration = Duration::from_secs(3);

/// A copy of this program on a node, which answers.
#[derive(Debug)]
pub struct Survey {
    child: Child,
    requests: Option<ChildStdin>,
    answers: Receiver<String>,
    errors: Option<thread::JoinHandle<String>>,
}

impl Survey {
    /// Asks Slurm for a node of `site`, on which `program`, a copy of this one with the words that make it answer, is run.
    ///
    /// # Errors
    /// Only when `srun` isn't there; why there is no node is told to the first request.
    pub fn begin(site: &SlurmSite, program: &[OsString]) -> Result<Self, QueueError> {
        let mut command = queue::client("srun");
        // What `sbatch` takes from its own variables `srun` takes from others.
        for (name, value) in std::env::vars_os() {
            if let Some(option) = name.to_string_lossy().strip_prefix("SBATCH_").filter(|option| *option != "WAIT") {
                command.env(format!("SLURM_{option}"), value);
            }
        }
        command
            .args(["--quiet", "--cpu-bind=none"])
            .arg(format!("--job-name={}", site.survey_name()))
            .args(site.arguments())
            .args(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|_| QueueError::NotInstalled("srun"))?;
        let (sender, answers) = mpsc::channel();
        let stdout = child.stdout.take();
        thread::spawn(move || {
            let lines = stdout.into_iter().flat_map(|stdout| BufReader::new(stdout).lines()).map_while(Result::ok);
            // A prolog or a shell may say something, too.
            lines.filter(|line| line.starts_with(['{', '"'])).try_for_each(|line| sender.send(line))
        });
        let stderr = child.stderr.take();
        let errors = thread::spawn(move || {
            let mut text = Vec::new();
            stderr.into_iter().for_each(|mut stderr| drop(stderr.read_to_end(&mut text)));
            String::from_utf8_lossy(&text).into_owned()
        });
        Ok(Self { requests: child.stdin.take(), child, answers, errors: Some(errors) })
    }

    fn ask(&mut self, request: &Request, say: &mut dyn FnMut(&str)) -> Result<Answer, QueueError> {
        let mut text = serde_json::to_string(request).map_err(|error| QueueError::Refused(error.to_string()))?;
        text.push('\n');
        // That it has gone is found where it doesn't answer.
        self.requests.iter_mut().for_each(|requests| drop(requests.write_all(text.as_bytes())));
        let (asked, mut has_said) = (Instant::now(), false);
        loop {
            match self.answers.recv_timeout(LOOK) {
                Ok(line) => {
                    let garbled = |error| QueueError::Refused(format!("a node's answer can't be read: {error}"));
                    return serde_json::from_str(&line).map_err(garbled);
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let told = self.errors.take().and_then(|errors| errors.join().ok()).unwrap_or_default();
                    return Err(queue::failure(&told, "srun"));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Some(signal) = launch::interruption() {
                return Err(QueueError::Interrupted { signal });
            }
            if asked.elapsed() > PATIENCE && !std::mem::replace(&mut has_said, true) {
                say("waiting for Slurm to give a node, to see what machine it is");
            }
        }
    }

    /// What machine the node is, and its topology; somebody is told by `say` when that takes its time.
    ///
    /// # Errors
    /// [`QueueError`].
    pub fn facts(&mut self, say: &mut dyn FnMut(&str)) -> Result<(HostFacts, Machine), QueueError> {
        let other = || QueueError::Refused("a node answers something that it wasn't asked".into());
        let Answer::Facts(facts) = self.ask(&Request::Facts, say)? else { return Err(other()) };
        match self.ask(&Request::Topology, say)? {
            Answer::Topology(topology) => Ok((*facts, topology.map_err(QueueError::Refused)?)),
            _ => Err(other()),
        }
    }

    /// Why the node's kernel can't bring `conditions` about, in a sentence.
    ///
    /// # Errors
    /// [`QueueError`].
    pub fn lacking(&mut self, conditions: &Conditions) -> Result<Option<String>, QueueError> {
        match self.ask(&Request::Lacking(conditions.clone()), &mut |_| ())? {
            Answer::Lacking(cause) => Ok(cause),
            _ => Err(QueueError::Refused("a node answers something that it wasn't asked".into())),
        }
    }
}

impl Drop for Survey {
    /// Gives the node back.
    fn drop(&mut self) {
        drop(self.requests.take());
        let begun = Instant::now();
        // It ends when it is asked no more. One that waits for a node, or for a controller, is asked to end.
        while let Ok(None) = self.child.try_wait() {
            if begun.elapsed() > PATIENCE || launch::interruption().is_some() {
                let pid = nix::unistd::Pid::from_raw(self.child.id() as i32);
                let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
                return;
            }
            thread::sleep(LOOK / 5);
        }
    }
}
