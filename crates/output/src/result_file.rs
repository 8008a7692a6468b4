//! A file that a result is written to.
//!
//! ```text
//! before the work   refused: what the result is made from, a folder, one without a folder, one that can't be written
//! after it          written aside in the same folder, synced, renamed: who reads the name finds the old file or the new one, whole
//! ```
//!
//! A symbolic link at the name is replaced, not followed: in a folder that others can write to, it may lead anywhere. What isn't a file
//! (a pipe, a terminal, `/dev/stdout`) is written to as it is, and `-` is standard output.

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::{AccessFlags, faccessat};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// How files are created, which the process' umask narrows.
const NEW_FILE_MODE: u32 = 0o666;
const OWNER_ONLY_MODE: u32 = 0o600;

/// Why a result can't go to a file.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// It would destroy what the result is made from.
    #[error("{} is {what}, which a result must not be written over; name another file", path.display())]
    Input {
        /// The file that was named.
        path: PathBuf,
        /// What it is, in words.
        what: String,
    },
    /// It has a name that nobody chose, and holds what somebody else wrote.
    #[error("{} is there, and Stayput did not write it; {remedy}", path.display())]
    Foreign {
        /// The file that has the name.
        path: PathBuf,
        /// What to do instead.
        remedy: String,
    },
    /// It is a folder.
    #[error("{} is a folder; name a file in it", .0.display())]
    Folder(PathBuf),
    /// It is a disk or a socket.
    #[error("{} is neither a file, a pipe nor a terminal; name a file", .0.display())]
    Device(PathBuf),
    /// Its folder isn't there.
    #[error("there is no folder {} for {}", folder.display(), path.display())]
    NoFolder {
        /// The folder that is missing.
        folder: PathBuf,
        /// The file that was named.
        path: PathBuf,
    },
    /// It or its folder may not be written.
    #[error("cannot write {}: {}", path.display(), cause.desc())]
    Refused {
        /// The file that was named.
        path: PathBuf,
        /// What the kernel says.
        cause: Errno,
    },
    /// It could not be written; a file that was there is as it was.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file that was named.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

impl OutputError {
    /// Whether another name is what helps.
    pub fn is_usage_error(&self) -> bool {
        !matches!(self, Self::Write { .. })
    }
}

/// What results are made from, and so must not be written over.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    files: Vec<(PathBuf, String)>,
}

impl Inputs {
    /// Adds a file, there already or not, and what it is: "the journal".
    pub fn add(&mut self, path: impl Into<PathBuf>, what: &str) {
        self.files.push((path.into(), what.to_owned()));
    }

    /// Adds a journal with what belongs to it.
    pub fn add_journal(&mut self, path: &Path) {
        self.add(path, "the study's journal");
        for suffix in ["-wal", "-shm"] {
            let mut name = path.as_os_str().to_owned();
            name.push(suffix);
            self.add(name, "part of the study's journal");
        }
    }

    /// Adds the words of a command that are files.
    pub fn add_command<W: AsRef<OsStr>>(&mut self, program: Option<&Path>, words: &[W]) {
        if let Some(program) = program {
            self.add(program, "the program");
        }
        let files = words.iter().map(|word| Path::new(word.as_ref())).filter(|path| path.is_file());
        files.for_each(|path| self.add(path, "a file of the program's"));
    }

    /// What the file at `path` is among these.
    fn what_is(&self, path: &Path) -> Option<&str> {
        self.files.iter().find(|(input, _)| is_same(input, path)).map(|(_, what)| what.as_str())
    }
}

/// Whether two paths lead to one file, or would, once it is there.
fn is_same(one: &Path, other: &Path) -> bool {
    match (fs::metadata(one), fs::metadata(other)) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        (Err(_), Err(_)) => {
            let whole = |path: &Path| Some((fs::canonicalize(folder_of(path)).ok()?, path.file_name()?.to_owned()));
            whole(one).is_some_and(|one| Some(one) == whole(other))
        }
        _ => false,
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// What is at a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A file, or nothing yet.
    File,
    /// Something that takes what is written to it, as pipes and terminals do, rather than to keep it; or a file by its descriptor.
    Stream,
    /// Our own standard output.
    Stdout,
}

/// A file that a result is to be written to.
#[derive(Clone, Debug)]
pub struct ResultFile {
    path: PathBuf,
    inputs: Inputs,
    kind: Kind,
    mode: u32,
}

impl ResultFile {
    /// The file that the user has named; nothing is created yet.
    ///
    /// # Errors
    /// When nothing may be written there, as far as can be known before.
    pub fn named(path: &Path, inputs: Inputs) -> Result<Self, OutputError> {
        let refused = |cause| OutputError::Refused { path: path.to_owned(), cause };
        let is_allowed = |path: &Path, flags| faccessat(AT_FDCWD, path, flags, AtFlags::AT_EACCESS).map_err(refused);
        if let Some(what) = inputs.what_is(path) {
            return Err(OutputError::Input { path: path.to_owned(), what: what.to_owned() });
        }
        let kind = kind(path)?;
        if kind == Kind::Stream || fs::symlink_metadata(path).is_ok_and(|data| data.is_file()) {
            is_allowed(path, AccessFlags::W_OK)?;
        }
        if kind == Kind::File {
            let folder = folder_of(path);
            if !folder.is_dir() {
                return Err(OutputError::NoFolder { folder: folder.to_owned(), path: path.to_owned() });
            }
            is_allowed(folder, AccessFlags::W_OK | AccessFlags::X_OK)?;
        }
        Ok(Self { path: path.to_owned(), inputs, kind, mode: NEW_FILE_MODE })
    }

    /// The file of a name that nobody chose, which holds nothing that isn't Stayput's: `is_own` tells by its first bytes. `remedy`
    /// says what to do otherwise.
    ///
    /// # Errors
    /// As of [`ResultFile::named`], and when somebody else wrote it.
    pub fn by_default(
        path: &Path,
        inputs: Inputs,
        is_own: impl Fn(&[u8]) -> bool,
        remedy: &str,
    ) -> Result<Self, OutputError> {
        // A link is replaced, whatever it leads to.
        let is_link = fs::symlink_metadata(path).is_ok_and(|data| data.is_symlink());
        let foreign = || OutputError::Foreign { path: path.to_owned(), remedy: remedy.to_owned() };
        let file = Self::named(path, inputs).map_err(|error| match error {
            OutputError::Folder(_) | OutputError::Device(_) => foreign(),
            error => error,
        })?;
        match is_link || first_bytes(path).is_ok_and(|bytes| bytes.is_empty() || is_own(&bytes)) {
            true => Ok(Self { kind: Kind::File, ..file }),
            false => Err(foreign()),
        }
    }

    /// The same, for nobody but its owner unless it `is_shared`; a file that is there already keeps its permissions.
    pub fn shared(self, is_shared: bool) -> Self {
        Self { mode: if is_shared { NEW_FILE_MODE } else { OWNER_ONLY_MODE }, ..self }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes all of it.
    ///
    /// # Errors
    /// [`OutputError::Write`] when it can't be written, and as of [`ResultFile::named`] when what is there has changed since. What was
    /// there before is there still.
    pub fn write(&self, text: impl AsRef<[u8]>) -> Result<(), OutputError> {
        self.write_by(|file| file.write_all(text.as_ref()))
    }

    /// Has `write` write all of it.
    ///
    /// # Errors
    /// As of [`ResultFile::write`].
    pub fn write_by(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), OutputError> {
        let failed = |source| OutputError::Write { path: self.path.clone(), source };
        // What was no input before may be one by now: a journal that was created meanwhile.
        if let Some(what) = self.inputs.what_is(&self.path) {
            return Err(OutputError::Input { path: self.path.clone(), what: what.to_owned() });
        }
        let mut stream: BufWriter<Box<dyn Write>> = match self.kind {
            Kind::Stdout => BufWriter::new(Box::new(io::stdout().lock())),
            // What others have written to a descriptor's file stays before it.
            Kind::Stream if kind(&self.path)? == Kind::Stream => BufWriter::new(Box::new(
                OpenOptions::new().append(true).custom_flags(nix::libc::O_NOCTTY).open(&self.path).map_err(failed)?,
            )),
            Kind::Stream | Kind::File => return self.write_aside(write).map_err(failed),
        };
        write(&mut stream).and_then(|()| stream.flush()).map_err(failed)
    }

    fn write_aside(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        let folder = folder_of(&self.path);
        let mut aside = tempfile::Builder::new()
            .prefix(".stayput-")
            .permissions(Permissions::from_mode(self.mode))
            .tempfile_in(folder)
            // Its message would name the file aside.
            .map_err(|error| io::Error::from(error.kind()))?;
        let mut buffered = BufWriter::new(aside.as_file_mut());
        write(&mut buffered).and_then(|()| buffered.flush())?;
        drop(buffered);
        // Whoever could read the old file can read the new one, and nobody else.
        if let Ok(before) = fs::symlink_metadata(&self.path)
            && before.is_file()
        {
            if before.uid() != nix::unistd::geteuid().as_raw() {
                let _ = std::os::unix::fs::fchown(aside.as_file(), Some(before.uid()), Some(before.gid()));
            }
            aside.as_file().set_permissions(Permissions::from_mode(before.mode() & 0o777))?;
        }
        aside.as_file().sync_all()?;
        aside.persist(&self.path).map_err(|error| error.error)?;
        // That it has the name, too, outlasts a power failure; not every file system can be asked for that.
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
        Ok(())
    }
}

/// What is at `path`.
fn kind(path: &Path) -> Result<Kind, OutputError> {
    if path == Path::new("-") {
        return Ok(Kind::Stdout);
    }
    let Ok(data) = fs::metadata(path) else { return Ok(Kind::File) };
    let kind = data.file_type();
    if kind.is_dir() {
        Err(OutputError::Folder(path.to_owned()))
    } else if kind.is_block_device() || kind.is_socket() {
        Err(OutputError::Device(path.to_owned()))
    } else {
        // `/dev/stdout` is a link to an entry of `/proc`, which may be a file, but has no name to be renamed to.
        let is_in_proc = |path: &Path| path.starts_with("/proc");
        let is_descriptor = fs::canonicalize(folder_of(path)).is_ok_and(|folder| is_in_proc(&folder))
            || fs::read_link(path).is_ok_and(|target| is_in_proc(&target));
        Ok(if is_descriptor || kind.is_fifo() || kind.is_char_device() { Kind::Stream } else { Kind::File })
    }
}

/// The beginning of a file, as much as tells who wrote it; nothing of one that isn't there.
fn first_bytes(path: &Path) -> io::Result<Vec<u8>> {
    const LENGTH: u64 = 4096;
    let flags = nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        file => file?,
    };
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut bytes = Vec::new();
    file.take(LENGTH).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails says where")]

    use super::*;
    use std::os::unix::fs::symlink;

    fn inputs(path: &Path) -> Inputs {
        let mut inputs = Inputs::default();
        inputs.add_journal(path);
        inputs
    }

    fn write(path: &Path, inputs: Inputs) -> Result<(), OutputError> {
        ResultFile::named(path, inputs)?.write("new")
    }

    #[test]
    fn an_input_is_refused_by_whatever_name_and_before_it_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let journal = folder.path().join("a.stayput");
        fs::write(&journal, "measured").unwrap();
        let other = folder.path().join("other");
        fs::hard_link(&journal, &other).unwrap();
        let link = folder.path().join("link");
        symlink("a.stayput", &link).unwrap();
        let around = folder.path().join("../").join(folder.path().file_name().unwrap()).join("a.stayput");
        let to_come = folder.path().join("a.stayput-wal");
        for path in [&journal, &other, &link, &around, &to_come] {
            let refused = write(path, inputs(&journal)).unwrap_err();
            assert!(matches!(refused, OutputError::Input { .. }) && refused.is_usage_error(), "{path:?}: {refused}");
        }
        assert_eq!(fs::read_to_string(&journal).unwrap(), "measured");
        assert!(!to_come.exists() && link.is_symlink());
        // One that became an input after it was named.
        let late = ResultFile::named(&folder.path().join("late"), inputs(&folder.path().join("b"))).unwrap();
        fs::write(folder.path().join("b"), "measured").unwrap();
        fs::hard_link(folder.path().join("b"), late.path()).unwrap();
        assert!(matches!(late.write("new"), Err(OutputError::Input { .. })));
        assert_eq!(fs::read_to_string(late.path()).unwrap(), "measured");
    }

    #[test]
    fn a_link_is_replaced_and_never_followed() {
        let folder = tempfile::tempdir().unwrap();
        let victim = folder.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        for (name, target) in [("there", "victim"), ("dangling", "nowhere"), ("absolute", victim.to_str().unwrap())] {
            let link = folder.path().join(name);
            symlink(target, &link).unwrap();
            write(&link, Inputs::default()).unwrap();
            assert_eq!(fs::read_to_string(&link).unwrap(), "new");
            assert!(!link.is_symlink());
        }
        let by_default = folder.path().join("default");
        symlink("/dev/full", &by_default).unwrap();
        ResultFile::by_default(&by_default, Inputs::default(), |_| false, "").unwrap().write("new").unwrap();
        assert!(fs::symlink_metadata(&by_default).unwrap().is_file());
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert!(!folder.path().join("nowhere").exists());
    }

    #[test]
    fn a_file_stays_until_the_new_one_is_whole_and_keeps_its_permissions() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.html");
        fs::write(&path, "yesterday").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let file = ResultFile::named(&path, Inputs::default()).unwrap();
        let broken = file.write_by(|file| {
            file.write_all(&[b'x'; 1 << 16])?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert!(matches!(broken, Err(OutputError::Write { .. })));
        assert_eq!(fs::read_to_string(&path).unwrap(), "yesterday");
        file.write("today").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "today");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
        let secret = folder.path().join("secret");
        ResultFile::named(&secret, Inputs::default()).unwrap().shared(false).write("s").unwrap();
        assert_eq!(fs::metadata(&secret).unwrap().mode() & 0o777, 0o600);
        // Nothing is left aside.
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_default_name_that_holds_what_others_wrote_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index.html");
        let open = || ResultFile::by_default(&path, Inputs::default(), |bytes| bytes.starts_with(b"ours"), "do this");
        open().unwrap();
        fs::write(&path, "my site").unwrap();
        assert_eq!(
            open().unwrap_err().to_string(),
            format!("{} is there, and Stayput did not write it; do this", path.display())
        );
        fs::write(&path, "ours, of before").unwrap();
        open().unwrap().write("ours").unwrap();
        // An empty one holds nothing.
        fs::write(&path, "").unwrap();
        open().unwrap();
        fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(matches!(open(), Err(OutputError::Foreign { .. })));
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(matches!(open(), Err(OutputError::Foreign { .. })));
    }

    #[test]
    fn what_is_no_file_is_written_to_or_refused() {
        let folder = tempfile::tempdir().unwrap();
        write(Path::new("/dev/null"), Inputs::default()).unwrap();
        assert!(matches!(write(Path::new("/dev/full"), Inputs::default()), Err(OutputError::Write { .. })));
        let held = File::create(folder.path().join("held")).unwrap();
        let descriptor = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&held));
        write(Path::new(&descriptor), Inputs::default()).unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("held")).unwrap(), "new");
        assert!(matches!(write(folder.path(), Inputs::default()), Err(OutputError::Folder(_))));
        assert!(matches!(write(&folder.path().join("no/file"), Inputs::default()), Err(OutputError::NoFolder { .. })));
    }

    #[test]
    fn the_words_of_a_command_that_are_files_are_inputs() {
        let folder = tempfile::tempdir().unwrap();
        let (program, data) = (folder.path().join("app"), folder.path().join("data"));
        fs::write(&program, "").unwrap();
        fs::write(&data, "").unwrap();
        let mut inputs = Inputs::default();
        inputs.add_command(Some(&program), &["app", "-n", "4", data.to_str().unwrap()]);
        for path in [&program, &data] {
            assert!(matches!(ResultFile::named(path, inputs.clone()), Err(OutputError::Input { .. })));
        }
        ResultFile::named(&folder.path().join("4"), inputs).unwrap();
    }
}
