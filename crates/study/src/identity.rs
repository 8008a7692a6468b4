//! What a subject is, beyond its name: the contents of the files that it runs, and the variables that change how it runs.
//!
//! Results are of the program that gave them. A study is gone on with only by the same one, whatever its file is called or when it was
//! touched.

use crate::redaction::REDACTED;
use launch::{executable_path, own_libraries};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Set by Stayput itself for each run.
const OWN_VARIABLE: &str = "OMP_NUM_THREADS";

/// How the names of files end that interpreters run.
const SCRIPTS: [&str; 12] = ["R", "bash", "jar", "jl", "js", "lua", "php", "pl", "py", "rb", "sh", "tcl"];

/// What a subject was when its study began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Its program, what that interprets, and the shared objects that it brings along.
    pub files: Vec<FileIdentity>,
}

/// A file that takes part in a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity {
    /// What it is called in the command, or the file name of a shared object.
    pub name: String,
    /// Where it was found.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// SHA-256 of its content, in hexadecimal digits.
    pub sha256: String,
    /// Whether it is a shared object.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_library: bool,
}

/// What is different from when a study began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The content of a file.
    Content {
        /// Its name.
        name: String,
        /// Its size then, in bytes.
        then_bytes: u64,
        /// Its size now, in bytes.
        now_bytes: u64,
    },
    /// A shared object that was not loaded then.
    LibraryAdded(PathBuf),
    /// A shared object that is not loaded any more.
    LibraryGone(PathBuf),
    /// What a built-in program says of itself.
    Build {
        /// What it said then.
        then: String,
        /// What it says now.
        now: String,
    },
    /// Values that are left out.
    Secret {
        /// The subject that they are of.
        subject: String,
    },
    /// A variable of the environment.
    Variable {
        /// Its name.
        name: String,
        /// Its value then; none where it was not set.
        then: Option<String>,
        /// Its value now; none where it is not set.
        now: Option<String>,
    },
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value =
            |value: &Option<String>| value.as_ref().map_or_else(|| "not set".into(), |value| format!("`{value}`"));
        match self {
            Self::Content { name, then_bytes, now_bytes } if then_bytes == now_bytes => {
                write!(f, "{name} has another content ({now_bytes} bytes, as then)")
            }
            Self::Content { name, then_bytes, now_bytes } => {
                write!(f, "{name} has another content ({then_bytes} bytes then, {now_bytes} now)")
            }
            Self::LibraryAdded(path) => write!(f, "{} is loaded, which was not", path.display()),
            Self::LibraryGone(path) => write!(f, "{} was loaded, and is not any more", path.display()),
            Self::Build { then, now } => write!(f, "the program said that it is {then}, and says {now}"),
            Self::Secret { subject } => write!(f, "{subject} is given other values where it says {REDACTED}"),
            Self::Variable { name, then, now } => write!(f, "{name} was {}, and is {}", value(then), value(now)),
        }
    }
}

impl Identity {
    /// What the commands of a subject, one for each thread count, run now. None where a program can't be started or read.
    pub fn of_commands(commands: &[Vec<String>]) -> Option<Self> {
        let mut files: Vec<FileIdentity> = Vec::new();
        let mut add = |name: &str, path: &Path, is_library| -> Option<()> {
            if files.iter().all(|file| file.name != name || file.is_library != is_library) {
                files.push(FileIdentity::read(name, path, is_library)?);
            }
            Some(())
        };
        for command in commands {
            let (program, arguments) = command.split_first()?;
            let path = executable_path(OsStr::new(program)).ok()?;
            add(program, &path, false)?;
            for script in arguments.iter().filter(|word| is_program(Path::new(word))) {
                add(script, Path::new(script), false)?;
            }
            for library in own_libraries(&path) {
                let name = library.file_name().unwrap_or(OsStr::new("")).to_string_lossy().into_owned();
                add(&name, &library, true)?;
            }
        }
        Some(Self { files })
    }

    /// What is different `now`. Files of one side alone are those of thread counts that the other lacks, unless they are shared objects.
    pub fn changes(&self, now: &Self) -> Vec<Change> {
        let find = |files: &[FileIdentity], file: &FileIdentity| {
            files.iter().find(|other| (&other.name, other.is_library) == (&file.name, file.is_library)).cloned()
        };
        let mut changes = Vec::new();
        for then in &self.files {
            match find(&now.files, then) {
                Some(now) if now.sha256 == then.sha256 => {}
                Some(now) => changes.push(Change::Content {
                    name: now.name,
                    then_bytes: then.size_bytes,
                    now_bytes: now.size_bytes,
                }),
                None if then.is_library => changes.push(Change::LibraryGone(then.path.clone())),
                None => {}
            }
        }
        let added = now.files.iter().filter(|file| file.is_library && find(&self.files, file).is_none());
        changes.extend(added.map(|file| Change::LibraryAdded(file.path.clone())));
        changes
    }
}

impl FileIdentity {
    /// That of the file at `path` now; none where it can't be read.
    pub(crate) fn read(name: &str, path: &Path, is_library: bool) -> Option<Self> {
        let mut file = File::open(path).ok()?;
        let mut digest = Sha256::new();
        let mut buffer = vec![0; 1 << 16];
        let mut size_bytes = 0;
        loop {
            match file.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => {
                    digest.update(&buffer[..length]);
                    size_bytes += length as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
        let sha256 = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Some(Self { name: name.into(), path: path.into(), size_bytes, sha256, is_library })
    }
}

/// Whether a word of a command names what an interpreter or a wrapper runs, and not data: a file that may be executed, or a script.
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let is_script = || {
        let extension = path.extension().is_some_and(|extension| SCRIPTS.iter().any(|script| extension == *script));
        let starts = |file: &mut File| {
            let mut start = [0; 2];
            file.read_exact(&mut start).is_ok_and(|()| start == *b"#!")
        };
        extension || File::open(path).is_ok_and(|mut file| starts(&mut file))
    };
    !path.as_os_str().as_bytes().is_empty()
        && fs::metadata(path)
            .is_ok_and(|file| file.is_file() && (file.permissions().mode() & 0o111 != 0 || is_script()))
}

/// The variables that are different `now`, but for the one that Stayput sets.
pub(crate) fn changed_variables(then: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Vec<Change> {
    let names: std::collections::BTreeSet<&String> = then.keys().chain(now.keys()).collect();
    let changed = names.into_iter().filter(|name| *name != OWN_VARIABLE && then.get(*name) != now.get(*name));
    changed
        .map(|name| Change::Variable { name: name.clone(), then: then.get(name).cloned(), now: now.get(name).cloned() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::time::{Duration, SystemTime};

    #[test]
    fn a_program_is_its_content_and_not_its_date() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app");
        let write = |text: &str| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        };
        let command = |words: &[&str]| vec![words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()];
        let name = path.to_str().unwrap();
        let read = || Identity::of_commands(&command(&[name, "input.dat"])).unwrap();
        write("#!/bin/sh\nsleep 1\n");
        let then = read();
        assert_eq!((then.files.len(), then.files[0].size_bytes), (1, 18));
        File::open(&path).unwrap().set_modified(SystemTime::now() + Duration::from_secs(60)).unwrap();
        assert_eq!(then.changes(&read()), []);
        write("#!/bin/sh\nsleep 5\n");
        let change = Change::Content { name: name.into(), then_bytes: 18, now_bytes: 18 };
        assert_eq!(then.changes(&read()), [change]);
        fs::remove_file(&path).unwrap();
        assert_eq!(Identity::of_commands(&command(&[name])), None);
    }

    #[test]
    fn what_an_interpreter_runs_counts_and_its_data_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let (script, data) = (file("run.py", "print(1)\n"), file("out.dat", "1 2 3\n"));
        let command = vec![vec!["sh".to_owned(), script.clone(), data]];
        let names: Vec<String> =
            Identity::of_commands(&command).unwrap().files.into_iter().map(|file| file.name).collect();
        assert_eq!(names, ["sh".to_owned(), script]);
        assert!(is_program(Path::new(&file("tool", "#!/bin/sh\n"))) && !is_program(folder.path()));
    }

    #[test]
    fn variables_that_were_set_changed_or_removed_are_named() {
        let map = |pairs: &[(&str, &str)]| pairs.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        let then = map(&[("OMP_NUM_THREADS", "1"), ("OMP_SCHEDULE", "static"), ("LD_PRELOAD", "x.so")]);
        let now = map(&[("OMP_NUM_THREADS", "2"), ("OMP_SCHEDULE", "dynamic"), ("GOMP_SPINCOUNT", "0")]);
        let told: Vec<String> = changed_variables(&then, &now).iter().map(Change::to_string).collect();
        assert_eq!(
            told,
            [
                "GOMP_SPINCOUNT was not set, and is `0`",
                "LD_PRELOAD was `x.so`, and is not set",
                "OMP_SCHEDULE was `static`, and is `dynamic`"
            ]
        );
    }
}
