//! What came of a block on its node: a file that grows by a line as each trial ends, and gets its name when it is whole.
//!
//! It is lines of JSON and no SQLite journal, which file systems over a network may corrupt. Its last line has the SHA-256 of all before
//! it, so that a file which was cut off or changed on its way is none.

use crate::host::HostState;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

/// More than any block has. What is longer is not read.
const MOST_BYTES: u64 = 1 << 30;

/// Which block a file is of, and where that ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Header {
    /// The study, by the name that its plan has for Slurm.
    pub(crate) study: String,
    /// The block.
    pub(crate) block: u32,
    /// The node, as Slurm calls it.
    pub(crate) node: String,
    /// The node when the block began.
    pub(crate) before: HostState,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line<T> {
    Begin(Header),
    Trial(Box<T>),
    Disturbed(Box<T>),
    End { sha256: String },
}

/// A block of trials that is being written.
#[derive(Debug)]
pub struct BlockWriter<T> {
    file: File,
    path: PathBuf,
    hash: Sha256,
    trials: PhantomData<T>,
}

/// A whole block.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BlockResult<T> {
    pub(crate) header: Header,
    /// Its trials, in the order in which they ran.
    pub(crate) trials: Vec<T>,
    /// Those that were disturbed and run again.
    pub(crate) disturbed: Vec<T>,
}

impl<T: Serialize> BlockWriter<T> {
    /// Begins the file of a block at `path`, where there is none.
    pub(crate) fn begin(path: PathBuf, header: Header) -> io::Result<Self> {
        let file = File::create_new(&path)?;
        let mut writer = Self { file, path, hash: Sha256::new(), trials: PhantomData };
        writer.line(&Line::Begin(header))?;
        Ok(writer)
    }

    fn line(&mut self, line: &Line<T>) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.hash.update(&text);
        // In one piece: what is read beside us ends with a whole line, as a rule.
        self.file.write_all(&text)
    }

    /// Adds a trial that has just ended.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn add(&mut self, trial: T) -> io::Result<()> {
        self.line(&Line::Trial(trial.into()))
    }

    /// Adds one that was disturbed and is run again.
    pub(crate) fn add_disturbed(&mut self, trial: T) -> io::Result<()> {
        self.line(&Line::Disturbed(trial.into()))
    }

    /// Ends the file, and gives it the name `whole`, unless another task was quicker.
    pub(crate) fn finish(mut self, whole: &Path) -> io::Result<()> {
        let sha256 = hexadecimal(&self.hash);
        self.line(&Line::End { sha256 })?;
        // A full disk may be told only now.
        self.file.sync_all()?;
        match fs::hard_link(&self.path, whole) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            // Some file systems have no links. Whoever is later then takes the place of who was first, and either is whole.
            Err(_) => return fs::rename(&self.path, whole),
        }
        // Whether or not its first name can be removed, it has its last.
        let _ = fs::remove_file(&self.path);
        Ok(())
    }

    /// Takes the file away: the block came to nothing.
    pub(crate) fn abandon(self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn hexadecimal(hash: &Sha256) -> String {
    hash.clone().finalize().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl<T: DeserializeOwned> BlockResult<T> {
    /// The block in the file at `path`.
    ///
    /// # Errors
    /// Why it is none, in words.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(|error| error.to_string())?;
        let length = file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        if length as u64 > MOST_BYTES {
            return Err("it is too long".into());
        }
        Self::parse(&bytes)
    }

    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mut lines = bytes.split_inclusive(|&byte| byte == b'\n');
        let mut hash = Sha256::new();
        let mut next = || -> Result<(Line<T>, String), String> {
            let line = lines.next().filter(|line| line.ends_with(b"\n")).ok_or("it is cut off")?;
            let before = hexadecimal(&hash);
            hash.update(line);
            Ok((serde_json::from_slice(line).map_err(|error| format!("it is damaged: {error}"))?, before))
        };
        let (Line::Begin(header), _) = next()? else { return Err("it begins as no block does".into()) };
        let (mut trials, mut disturbed) = (Vec::new(), Vec::new());
        loop {
            match next()? {
                (Line::Trial(trial), _) => trials.push(*trial),
                (Line::Disturbed(trial), _) => disturbed.push(*trial),
                (Line::End { sha256 }, before) if sha256 == before => break,
                _ => return Err("it is damaged: its lines are not those that were written".into()),
            }
        }
        if lines.next().is_some() {
            return Err("it is damaged: it goes on after its end".into());
        }
        Ok(Self { header, trials, disturbed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Turn;
    use crate::plan::{Cell, Plan, Subject};
    use crate::treatment::Treatment;
    use crate::trial::{Status, Trial};
    use proptest::prelude::*;

    fn trial(sequence: u32) -> Trial {
        let plan = Plan {
            subjects: vec![Subject { name: "app".into(), ..Subject::default() }],
            threads: vec![1.into()],
            treatments: vec![Treatment::unbound()],
            ..Plan::default()
        };
        let cell = Cell { subject: 0, threads: 0, treatment: 0 };
        let turn = Turn { cell, sequence, block: 3, warmup: false, cut_off: None };
        Trial { status: Status::Ok, time_s: Some(0.1 + f64::from(sequence) / 3.0), ..turn.trial(&plan, 1.7e9 + 0.1) }
    }

    fn header() -> Header {
        Header { study: "5a".into(), block: 3, node: "n2".into(), before: HostState::of_model() }
    }

    fn written(folder: &Path, part: &str, trials: u32) -> PathBuf {
        let mut writer = BlockWriter::begin(folder.join(part), header()).unwrap();
        (0..trials).for_each(|sequence| writer.add(trial(sequence)).unwrap());
        writer.add_disturbed(trial(9)).unwrap();
        let whole = folder.join("whole");
        writer.finish(&whole).unwrap();
        whole
    }

    #[test]
    fn what_is_written_is_read_back_and_the_first_whole_file_stays() {
        let folder = tempfile::tempdir().unwrap();
        let whole = written(folder.path(), "part-1", 3);
        let read = BlockResult::<Trial>::read(&whole).unwrap();
        assert_eq!(read.trials, (0..3).map(trial).collect::<Vec<_>>(), "to the last bit");
        assert_eq!((read.disturbed, read.header.node.as_str()), (vec![trial(9)], "n2"));
        written(folder.path(), "part-2", 1);
        assert_eq!(BlockResult::<Trial>::read(&whole).unwrap().trials.len(), 3);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no part is left");
    }

    proptest! {
        #[test]
        fn no_file_that_was_cut_off_or_changed_is_a_block(at in 0.0..1.0_f64, byte: u8, cuts: bool) {
            let folder = tempfile::tempdir().unwrap();
            let whole = written(folder.path(), "part", 2);
            let before = fs::read(&whole).unwrap();
            let mut after = before.clone();
            let at = (at * before.len() as f64) as usize;
            if cuts { after.truncate(at) } else { after[at] = byte }
            fs::write(&whole, &after).unwrap();
            let read = BlockResult::<Trial>::read(&whole);
            prop_assert_eq!(read.is_ok(), after == before, "byte {} of {}", at, before.len());
        }
    }
}
