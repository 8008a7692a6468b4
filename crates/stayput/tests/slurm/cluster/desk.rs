//! A folder in which commands are given that run on a cluster, and what its queue holds of them.

use super::Cluster;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

/// The folder, and the cluster.
pub struct Desk {
    pub folder: tempfile::TempDir,
    pub cluster: Cluster,
}

impl Desk {
    /// An empty folder, and a cluster of its own.
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), cluster: Cluster::start() }
    }

    /// A file of the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A command, in the folder.
    pub fn stayput(&self, words: &str) -> Command {
        let mut command = self.cluster.command(env!("CARGO_BIN_EXE_stayput"));
        command.args(shell_words::split(words).unwrap()).current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    /// Begins it, and doesn't wait for its end.
    pub fn begin(&self, words: &str) -> Child {
        self.stayput(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// One of Slurm's own commands, which succeeds.
    pub fn control(&self, program: &str, arguments: &[&str]) {
        let output = self.cluster.command(program).args(arguments).output().unwrap();
        assert!(output.status.success(), "{program} {arguments:?}: {}", text(&output.stderr));
    }

    /// What is in the queue, a line a task.
    pub fn queue(&self) -> String {
        self.cluster.said("squeue", &["--noheader", "--array", "--format=%i %j %T %u %N %r"])
    }

    /// The tasks that run, as Slurm calls them, with their nodes.
    pub fn running(&self) -> Vec<(String, String)> {
        let told = self.cluster.said("squeue", &["--noheader", "--array", "--states=RUNNING", "--format=%i %N"]);
        told.lines().filter_map(|line| line.split_once(' ')).map(|(task, node)| (task.into(), node.into())).collect()
    }

    /// Nothing is left of a study that has ended but its journal.
    pub fn check_nothing_left(&self, journal: &str) {
        let begun = std::time::Instant::now();
        while !self.queue().is_empty() && begun.elapsed().as_secs() < 50 {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        assert_eq!(self.queue(), "", "the queue empties");
        assert!(!self.path(&format!("{journal}.slurm")).exists(), "the folder of its tasks is left");
    }
}

/// What was printed.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// One sentence, and no more.
pub fn one_sentence(output: &Output) -> String {
    let said = text(&output.stderr);
    assert_eq!(said.trim_end().lines().count(), 1, "{said}");
    assert!(!said.contains("panicked"), "{said}");
    said
}
