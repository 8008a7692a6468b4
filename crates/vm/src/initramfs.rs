//! The guest's file system: busybox, the programs to run with the shared libraries that they need, and data files.
//!
//! It is not compressed: qemu hands it over at the speed of memory, and an emulated CPU would unpack it slowly.

use crate::VmError;
use cpio::newc;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Kinds and permissions of what the guest has, as in `stat.st_mode` (inode(7)).
const FOLDER: u32 = 0o040_755;
const FILE: u32 = 0o100_644;
const PROGRAM: u32 = 0o100_755;
const LINK: u32 = 0o120_777;

enum Content {
    Bytes(Vec<u8>),
    /// That of a file of this host.
    File(PathBuf),
}

/// The files of a guest, by their paths in it: kind, and content.
pub(super) struct Initramfs {
    entries: BTreeMap<PathBuf, (u32, Content)>,
}

impl Initramfs {
    /// With nothing but the folders that every guest needs.
    pub(super) fn new() -> Self {
        let folders = ["bin", "dev", "etc", "proc", "root", "run", "sys", "tmp"];
        Self { entries: folders.map(|folder| (folder.into(), (FOLDER, Content::Bytes(vec![])))).into() }
    }

    /// Adds a program of this host at `path`, and where they are here, the shared libraries that it needs.
    pub(super) fn add_program(&mut self, path: impl AsRef<Path>, source: &Path) -> Result<(), VmError> {
        for library in shared_libraries(source)? {
            self.add(&library, PROGRAM, Content::File(library.clone()));
        }
        self.add(path.as_ref(), PROGRAM, Content::File(source.into()));
        Ok(())
    }

    /// Adds a shared library that programs load while they run, where this host has it.
    pub(super) fn add_library(&mut self, name: &str) -> Result<(), VmError> {
        let known = Command::new("ldconfig").arg("-p").env("PATH", "/sbin:/usr/sbin:/bin:/usr/bin").output();
        let known = known.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        // Lines are `libhwloc.so.15 (libc6,x86-64) => /lib/x86_64-linux-gnu/libhwloc.so.15`.
        let mut lines = known.lines().filter(|line| line.trim_start().split(' ').next() == Some(name));
        match lines.find_map(|line| line.split_once("=> ")) {
            Some((_, path)) => self.add_program(path, Path::new(path)),
            None => Ok(()),
        }
    }

    /// Adds a file of this host at `path`.
    pub(super) fn add_file(&mut self, path: impl AsRef<Path>, source: &Path) {
        self.add(path.as_ref(), FILE, Content::File(source.into()));
    }

    /// Adds a file of these bytes at `path`.
    pub(super) fn add_bytes(&mut self, path: impl AsRef<Path>, bytes: impl Into<Vec<u8>>) {
        self.add(path.as_ref(), FILE, Content::Bytes(bytes.into()));
    }

    /// Adds a symbolic link at `path`.
    pub(super) fn add_link(&mut self, path: impl AsRef<Path>, target: &str) {
        self.add(path.as_ref(), LINK, Content::Bytes(target.into()));
    }

    fn add(&mut self, path: &Path, mode: u32, content: Content) {
        let path = path.strip_prefix("/").unwrap_or(path);
        for folder in path.ancestors().skip(1).filter(|folder| *folder != Path::new("")) {
            self.entries.entry(folder.into()).or_insert((FOLDER, Content::Bytes(vec![])));
        }
        self.entries.insert(path.into(), (mode, content));
    }

    /// Writes it as a cpio archive, the form that the kernel unpacks (Documentation/driver-api/early-userspace/buffer-format).
    pub(super) fn write(&self, archive: &Path) -> Result<(), VmError> {
        let failed = |path: &Path, cause| VmError::File { path: path.into(), cause };
        let file = File::create(archive).map_err(|cause| failed(archive, cause))?;
        let mut out = BufWriter::new(file);
        for (number, (path, (mode, content))) in (1..).zip(&self.entries) {
            // The order of paths puts a folder before what is in it, as unpacking needs.
            let header = newc::Builder::new(&path.to_string_lossy()).ino(number).mode(*mode);
            match content {
                Content::Bytes(bytes) => write_entry(&mut out, header, bytes.len() as u64, &mut &bytes[..]),
                Content::File(source) => {
                    let mut file = File::open(source).map_err(|cause| failed(source, cause))?;
                    let size_bytes = file.metadata().map_err(|cause| failed(source, cause))?.len();
                    write_entry(&mut out, header, size_bytes, &mut file)
                }
            }
            .map_err(|cause| failed(archive, cause))?;
        }
        newc::trailer(out).and_then(|mut out| out.flush()).map_err(|cause| failed(archive, cause))
    }
}

fn write_entry(
    out: &mut impl Write,
    header: newc::Builder,
    size_bytes: u64,
    content: &mut impl io::Read,
) -> io::Result<()> {
    let size_bytes = u32::try_from(size_bytes).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
    let mut entry = header.write(out, size_bytes);
    io::copy(content, &mut entry)?;
    entry.finish().map(drop)
}

/// The shared libraries that a program loads, its loader among them, as `ldd` finds them.
fn shared_libraries(program: &Path) -> Result<Vec<PathBuf>, VmError> {
    fs::metadata(program).map_err(|cause| VmError::File { path: program.into(), cause })?;
    let failed = |cause: String| VmError::Libraries { program: program.into(), cause };
    let output = Command::new("ldd").arg(program).output().map_err(|e| failed(format!("ldd: {e}")))?;
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        let is_static = stderr.contains("not a dynamic executable");
        return if is_static { Ok(vec![]) } else { Err(failed(stderr.trim().into())) };
    }
    // Lines are `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x...)`, or a path alone for the loader.
    if let Some(missing) = stdout.lines().find(|line| line.ends_with("not found")) {
        return Err(failed(missing.trim().into()));
    }
    let words = stdout.lines().flat_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    Ok(words.map(PathBuf::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its entries in order, with their modes and contents.
    fn unpacked(archive: &Path) -> Vec<(String, u32, Vec<u8>)> {
        let mut file = io::BufReader::new(File::open(archive).unwrap());
        let mut entries = vec![];
        loop {
            let mut reader = newc::Reader::new(file).unwrap();
            if reader.entry().is_trailer() {
                return entries;
            }
            let (name, mode) = (reader.entry().name().to_owned(), reader.entry().mode());
            let mut content = vec![];
            io::Read::read_to_end(&mut reader, &mut content).unwrap();
            entries.push((name, mode, content));
            file = reader.finish().unwrap();
        }
    }

    #[test]
    fn an_archive_holds_programs_with_their_libraries_below_folders_that_come_first() {
        let folder = tempfile::tempdir().unwrap();
        let archive = folder.path().join("archive");
        let program = std::env::current_exe().unwrap();
        let mut files = Initramfs::new();
        files.add_program("bin/this", &program).unwrap();
        files.add_bytes("/a/b/c", b"text".to_vec());
        files.add_link("init", "bin/this");
        files.write(&archive).unwrap();

        let entries = unpacked(&archive);
        let place =
            |name: &str| entries.iter().position(|entry| entry.0 == name).unwrap_or_else(|| panic!("no {name}"));
        let &(_, mode, ref content) = &entries[place("bin/this")];
        assert_eq!((mode, content.len() as u64), (0o100_755, fs::metadata(&program).unwrap().len()));
        let text = place("a/b/c");
        assert_eq!(entries[text], ("a/b/c".into(), 0o100_644, b"text".to_vec()));
        assert!(place("a") < place("a/b") && place("a/b") < text);
        assert_eq!(entries[place("a/b")].1, 0o040_755);
        assert_eq!(entries[place("init")], ("init".into(), 0o120_777, b"bin/this".to_vec()));
        // This test, as any program of Rust for GNU, loads the C library and its loader.
        let libraries = entries.iter().filter(|entry| entry.0.contains("/libc.so") || entry.0.contains("/ld-linux"));
        assert_eq!(libraries.count(), 2);
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = Initramfs::new().add_program("bin/a", Path::new("/no/such/program")).unwrap_err();
        assert!(error.to_string().contains("/no/such/program"), "{error}");
    }

    #[test]
    fn a_script_needs_no_libraries() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        fs::write(&script, "#!/bin/sh\n").unwrap();
        assert_eq!(shared_libraries(&script).unwrap(), Vec::<PathBuf>::new());
    }
}
