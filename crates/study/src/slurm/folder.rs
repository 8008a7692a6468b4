//! The folder beside a journal in which the study command and its tasks meet, over whatever file system they share.
//!
//! | file | by whom | what |
//! | --- | --- | --- |
//! | `assignment.json`, `input-N` | command | the plan with what no journal keeps, the machine that it was made on, what programs read |
//! | `submission-N.json` | command, before it submits | which blocks are in an array, and the turns of each |
//! | `part-*` | task | a block that is not whole |
//! | `block-N.trials` | task, by renaming | a whole block |
//! | `block-N.M.failed` | task | why submission M of a block came to nothing |
//! | `log-*` | Slurm | what tasks printed |
//!
//! It is for its owner alone, and is removed when the study has ended.

use super::queue;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The folder of a study.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

/// A block that is to be run: so many turns, one after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct BlockWork<T> {
    pub(crate) block: u32,
    pub(crate) turns: Vec<T>,
}

/// An array of tasks, one for each block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Submission<T> {
    /// The study, by the name that its plan has for Slurm.
    pub(crate) study: String,
    /// The number among those of its study.
    pub(crate) number: u32,
    /// What each task runs, by its index in the array.
    pub(crate) blocks: Vec<BlockWork<T>>,
}

/// Why a task came to nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TaskFailure {
    /// Where.
    pub(crate) node: String,
    /// Why, in a sentence.
    pub(crate) cause: String,
    /// Whether it would be the same elsewhere, or another time.
    pub(crate) is_final: bool,
}

impl<T> Submission<T> {
    /// What it is called in Slurm's queue.
    pub(crate) fn name(&self) -> String {
        format!("stayput-{}-{}", self.study, self.number)
    }
}

impl Folder {
    /// That of the journal at `journal`, whether or not it is there.
    pub fn beside(journal: &Path) -> Self {
        let mut name = journal.as_os_str().to_owned();
        name.push(".slurm");
        // Tasks know it by this path, wherever they start.
        let path = PathBuf::from(name);
        Self(std::path::absolute(&path).unwrap_or(path))
    }

    /// That at `path`.
    pub(crate) fn at(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Makes it, for its owner alone, where it isn't there.
    ///
    /// # Errors
    /// When it can't be made, or is somebody else's.
    pub fn make(&self) -> io::Result<()> {
        match DirBuilder::new().mode(0o700).create(&self.0) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => return made,
        }
        self.check()
    }

    /// Whether it is there, and nobody else can have written what is in it.
    ///
    /// # Errors
    /// When it isn't, or is somebody else's.
    pub fn check(&self) -> io::Result<()> {
        let (found, ours) = (fs::symlink_metadata(&self.0)?, fs::metadata("/proc/self")?);
        let is_private = found.is_dir() && found.uid() == ours.uid() && found.mode() & 0o077 == 0;
        let other = || io::Error::other("what has that name is no folder of yours that nobody else may read");
        if is_private { Ok(()) } else { Err(other()) }
    }

    /// Removes it with all that is in it.
    pub(crate) fn remove(&self) {
        // Slurm may still write the last of a task's output.
        let _ = fs::remove_dir_all(&self.0).or_else(|_| fs::remove_dir_all(&self.0));
    }

    pub(crate) fn result(&self, block: u32) -> PathBuf {
        self.0.join(format!("block-{block}.trials"))
    }

    pub(crate) fn failure(&self, block: u32, submission: u32) -> PathBuf {
        self.0.join(format!("block-{block}.{submission}.failed"))
    }

    fn submission(&self, number: u32) -> PathBuf {
        self.0.join(format!("submission-{number}.json"))
    }

    /// Writes a file, which is there whole or not at all.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn write<T: Serialize>(&self, path: &Path, content: &T) -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(&self.0)?;
        file.write_all(&serde_json::to_vec(content)?)?;
        file.as_file().sync_all()?;
        file.persist(path).map(drop).map_err(|error| error.error)
    }

    /// What a file holds.
    ///
    /// # Errors
    /// When it can't be read, or holds something else.
    pub fn read<T: DeserializeOwned>(&self, path: &Path) -> io::Result<T> {
        Ok(serde_json::from_slice(&fs::read(path)?)?)
    }

    /// Keeps what is about to be submitted.
    pub(crate) fn keep<T: Serialize>(&self, submission: &Submission<T>) -> io::Result<()> {
        self.write(&self.submission(submission.number), submission)
    }

    /// What was submitted with that number.
    pub(crate) fn submitted<T: DeserializeOwned>(&self, number: u32) -> io::Result<Submission<T>> {
        self.read(&self.submission(number))
    }

    /// The names of all files. A folder that is opened anew is asked of the server by network file systems, unlike the name of a file.
    pub(crate) fn names(&self) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(&self.0)?.filter_map(Result::ok);
        Ok(entries.filter_map(|entry| entry.file_name().into_string().ok()).collect())
    }

    /// The numbers of all that was submitted, rising.
    fn submission_numbers(&self) -> Vec<u32> {
        let number = |name: &String| name.strip_prefix("submission-")?.strip_suffix(".json")?.parse().ok();
        let mut numbers: Vec<u32> = self.names().unwrap_or_default().iter().filter_map(number).collect();
        numbers.sort_unstable();
        numbers
    }

    /// All that was submitted, in the order of numbers. What can't be read is none.
    pub(crate) fn submissions<T: DeserializeOwned>(&self) -> Vec<Submission<T>> {
        self.submission_numbers().into_iter().filter_map(|number| self.submitted(number).ok()).collect()
    }

    /// Removes what was kept of all submissions.
    pub(crate) fn forget_submissions(&self) {
        self.submission_numbers().into_iter().for_each(|number| self.forget_submission(number));
    }

    /// Removes what was kept of a submission.
    pub(crate) fn forget_submission(&self, number: u32) {
        self.forget(&self.submission(number));
    }

    /// Removes a file that isn't needed any more.
    pub(crate) fn forget(&self, path: &Path) {
        let _ = fs::remove_file(path);
    }
}

/// Cancels what the study of `journal` has in the queue, and gives its folder the name that belongs to `aside`.
///
/// # Errors
/// When it can't be renamed.
pub fn set_aside(journal: &Path, aside: &Path) -> io::Result<()> {
    let (folder, aside) = (Folder::beside(journal), Folder::beside(aside));
    if !folder.path().is_dir() {
        return Ok(());
    }
    // Of a cluster that isn't there any more nothing is left to cancel.
    folder.submissions::<IgnoredAny>().iter().for_each(|submission| drop(queue::cancel(&submission.name())));
    fs::rename(folder.path(), aside.path())
}
