//! Threads that an MPI library starts for itself: progress, events, out-of-band messages.
//!
//! They come before the program's own threads, out of `MPI_Init`, and have no names. What tells them apart is where they begin: glibc
//! keeps the start routine of a thread in what the thread pointer points to, and writes it before the thread is created. Whose library that
//! code is in is read from `/proc/PID/maps`.

use machine::linux::{Pid, Tid};
use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// What is read of a thread's descriptor: more than glibc's `struct pthread` has on any of its versions.
const DESCRIPTOR_BYTES: usize = 0xa00;

/// How the files of MPI libraries, and of what they send messages by, begin.
const LIBRARIES: [&str; 14] = [
    "libmpi",
    "libopen-",
    "libpmix",
    "libprrte",
    "libpmi",
    "libucp",
    "libuct",
    "libucs",
    "libfabric",
    "libpsm",
    "libibverbs",
    "librdmacm",
    "mca_",
    "libevent",
];

/// The helper threads of a run.
#[derive(Debug, Default)]
pub(crate) struct Helpers {
    /// Those that are being born, and the library of each.
    expected: HashMap<Tid, String>,
    count: u32,
    libraries: BTreeSet<String>,
}

impl Helpers {
    /// Looks who is being born, before it is entered. `creator` is stopped in the call that creates it; where that isn't known, the
    /// thread itself is stopped.
    pub(crate) fn look(&mut self, new: Tid, creator: Option<Tid>, pid: Pid) {
        let descriptor = match creator {
            Some(creator) => registers::descriptor_of_created(creator, pid),
            None => registers::descriptor_of(new),
        };
        if let Some(library) = descriptor.and_then(|at| mpi_library_of(pid, at)) {
            self.expected.insert(new, library);
        }
    }

    /// Whether this one, which is being entered, is a helper.
    pub(crate) fn take(&mut self, tid: Tid) -> bool {
        let library = self.expected.remove(&tid);
        self.count += u32::from(library.is_some());
        let is_helper = library.is_some();
        self.libraries.extend(library);
        is_helper
    }

    /// How many there were, and whose, in a sentence, of which [`is_helper_note`] tells.
    pub(crate) fn note(&self) -> Option<String> {
        let libraries = self.libraries.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        match self.count {
            0 => None,
            1 => Some(format!("1 helper thread of the MPI library ({libraries}) was left free{TOOK_NO_PLACE}")),
            n => Some(format!("{n} helper threads of the MPI library ({libraries}) were left free{TOOK_NO_PLACE}")),
        }
    }
}

/// The end of the sentence on helper threads.
const TOOK_NO_PLACE: &str = " and took no place";

/// Whether a note says that helper threads were left free, which is as it should be.
pub fn is_helper_note(note: &str) -> bool {
    note.ends_with(TOOK_NO_PLACE)
}

/// The MPI library in which the thread begins whose descriptor is there.
fn mpi_library_of(pid: Pid, descriptor: usize) -> Option<String> {
    let mut bytes = vec![0; DESCRIPTOR_BYTES];
    let read = memory(pid)?.read_at(&mut bytes, descriptor as u64).ok()?;
    let words = bytes[..read].chunks_exact(8).filter_map(|word| Some(usize::from_ne_bytes(word.try_into().ok()?)));
    let words: Vec<usize> = words.filter(|&word| word != 0).collect();
    let maps = fs::read_to_string(format!("/proc/{}/maps", pid.0)).ok()?;
    maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (begin, end) = range.split_once('-')?;
        let within = usize::from_str_radix(begin, 16).ok()?..usize::from_str_radix(end, 16).ok()?;
        let path = &rest[rest.find('/')?..];
        let is_code = rest.as_bytes().get(2) == Some(&b'x');
        (is_code && words.iter().any(|word| within.contains(word))).then(|| mpi_library(path)).flatten()
    })
}

fn memory(pid: Pid) -> Option<File> {
    File::open(format!("/proc/{}/mem", pid.0)).ok()
}

/// The file's name, if it belongs to an MPI library.
fn mpi_library(path: &str) -> Option<String> {
    let name = Path::new(path).file_name()?.to_str()?;
    LIBRARIES.iter().any(|begin| name.starts_with(begin)).then(|| name.to_owned())
}

#[cfg(target_arch = "x86_64")]
mod registers {
    use super::memory;
    use machine::linux::{Pid, Tid};
    use std::os::unix::fs::FileExt;

    /// Where `tls` is among the arguments of clone3(2).
    const TLS_OF_CLONE3: u64 = 56;

    fn of(tid: Tid) -> Option<libc::user_regs_struct> {
        // SAFETY: all registers are numbers, for which zeros are good.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        // SAFETY: PTRACE_GETREGS writes one such struct, and fails where the thread isn't stopped for us.
        let result = unsafe { libc::ptrace(libc::PTRACE_GETREGS, tid.0, 0_usize, &raw mut registers) };
        (result == 0).then_some(registers)
    }

    /// The descriptor of a thread that is stopped.
    pub(super) fn descriptor_of(tid: Tid) -> Option<usize> {
        Some(of(tid)?.fs_base as usize)
    }

    /// The descriptor of the thread that `creator` is creating.
    pub(super) fn descriptor_of_created(creator: Tid, pid: Pid) -> Option<usize> {
        let registers = of(creator)?;
        match registers.orig_rax as libc::c_long {
            libc::SYS_clone => Some(registers.r8 as usize),
            libc::SYS_clone3 => {
                let mut word = [0; 8];
                memory(pid)?.read_exact_at(&mut word, registers.rdi + TLS_OF_CLONE3).ok()?;
                Some(usize::from_ne_bytes(word))
            }
            _ => None,
        }
    }
}

/// Nobody has looked yet where other processors keep it: there helper threads take places as all others do.
#[cfg(not(target_arch = "x86_64"))]
mod registers {
    use machine::linux::{Pid, Tid};

    pub(super) fn descriptor_of(_: Tid) -> Option<usize> {
        None
    }

    pub(super) fn descriptor_of_created(_: Tid, _: Pid) -> Option<usize> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_mpi_are_known_by_their_files() {
        for path in [
            "/usr/lib/x86_64-linux-gnu/libopen-pal.so.40.30.2",
            "/opt/ompi/lib/openmpi/mca_btl_tcp.so",
            "/x/libmpich.so.12",
        ] {
            assert!(mpi_library(path).is_some(), "{path}");
        }
        for path in ["/usr/lib/libgomp.so.1", "/home/me/app", "/usr/lib/libc.so.6", "/lib/libmp3lame.so.0"] {
            assert_eq!(mpi_library(path), None, "{path}");
        }
    }
}
