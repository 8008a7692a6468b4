//! Starting the program: found, held in a child of ours until we watch it, executed.

use crate::conditions::{ForChild, Part};
use crate::signals::Inherited;
use crate::{LaunchError, Output};
use machine::linux::Pid;
use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::sys::signal::SigSet;
use nix::unistd::{self, AccessFlags, faccessat};
use std::env;
use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::ptr;

/// Finds the executable that `name` means, as shells do: a path when it holds a slash, else the first in `PATH`.
///
/// # Errors
/// [`LaunchError::NotFound`], [`LaunchError::NotExecutable`] or [`LaunchError::NoInterpreter`].
pub fn executable_path(name: &OsStr) -> Result<PathBuf, LaunchError> {
    let check = |path: &Path| -> Result<(), Errno> {
        faccessat(nix::fcntl::AT_FDCWD, path, AccessFlags::X_OK, AtFlags::AT_EACCESS)?;
        // As execve(2) says of pipes and devices; to open one could wait without end.
        if path.is_dir() { Err(Errno::EISDIR) } else { path.is_file().then_some(()).ok_or(Errno::EACCES) }
    };
    let candidates: Vec<PathBuf> = if name.as_bytes().contains(&b'/') {
        vec![name.into()]
    } else if name.is_empty() {
        Vec::new()
    } else {
        let path = env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
        env::split_paths(&path).map(|dir| dir.join(name)).collect()
    };
    let mut refused = None;
    for path in candidates {
        match check(&path) {
            Ok(()) => {
                return match missing_interpreter(&path) {
                    Some(interpreter) => Err(LaunchError::NoInterpreter { path, interpreter }),
                    None => Ok(path),
                };
            }
            Err(Errno::ENOENT | Errno::ENOTDIR) => {}
            Err(errno) => drop(refused.get_or_insert((path, errno))),
        }
    }
    Err(match refused {
        Some((path, errno)) => LaunchError::NotExecutable { path, errno },
        None => LaunchError::NotFound { name: name.into() },
    })
}

/// What the script at `path` names as its interpreter, if that isn't there; execve(2) would say of the script that it isn't.
fn missing_interpreter(path: &Path) -> Option<PathBuf> {
    // What execve(2) reads of a file.
    let mut start = [0; 256];
    let length = File::open(path).ok()?.read(&mut start).ok()?;
    let line = start[..length].strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let interpreter = line.split(|byte| b" \t\r".contains(byte)).find(|word| !word.is_empty())?;
    Some(PathBuf::from(OsStr::from_bytes(interpreter))).filter(|interpreter| !interpreter.exists())
}

/// Whether executing `path` changes to the file owner's rights, which the kernel withholds from a traced program
/// unless the tracer is privileged.
pub(crate) fn gains_rights(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let euid = unistd::geteuid();
    !euid.is_root()
        && fs::metadata(path).is_ok_and(|file| {
            (file.mode() & libc::S_ISUID != 0 && file.uid() != euid.as_raw())
                || (file.mode() & libc::S_ISGID != 0 && file.gid() != unistd::getegid().as_raw())
        })
}

/// Strings for `execve`, with the array of pointers to them that it wants.
struct Strings {
    pointers: Vec<*const libc::c_char>,
    _owned: Vec<CString>,
}

impl Strings {
    fn new(strings: Vec<CString>) -> Self {
        let pointers = strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect();
        Self { pointers, _owned: strings }
    }
}

fn c_string(text: OsString) -> Result<CString, LaunchError> {
    CString::new(text.into_vec())
        .map_err(|error| LaunchError::NulByte { text: String::from_utf8_lossy(&error.into_vec()).into_owned() })
}

/// What the child executes, made before it starts: it must not allocate memory.
pub(crate) struct Program {
    path: CString,
    argv: Strings,
    /// For a script without a `#!` line, which the kernel refuses and shells run themselves.
    shell_argv: Strings,
    envp: Strings,
}

impl Program {
    pub(crate) fn new(
        path: &Path,
        argv: &[OsString],
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, LaunchError> {
        let path = c_string(path.into())?;
        let argv = argv.iter().cloned().map(c_string).collect::<Result<Vec<_>, _>>()?;
        let mut shell_argv = vec![c_string("/bin/sh".into())?, path.clone()];
        shell_argv.extend(argv.iter().skip(1).cloned());
        let envp = environment
            .into_iter()
            .map(|(mut name, value)| {
                name.push("=");
                name.push(value);
                c_string(name)
            })
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self { path, argv: Strings::new(argv), shell_argv: Strings::new(shell_argv), envp: Strings::new(envp) })
    }

    /// Makes the calling process this program; returns the number of the error if it can't be.
    ///
    /// # Safety
    /// The caller has no other thread, or is a child that shares nothing but memory.
    pub(crate) unsafe fn execute(&self) -> libc::c_int {
        // SAFETY: the strings and the arrays of pointers to them end with zeros, and live as long as this.
        unsafe {
            libc::execve(self.path.as_ptr(), self.argv.pointers.as_ptr(), self.envp.pointers.as_ptr());
            if *libc::__errno_location() == libc::ENOEXEC {
                libc::execve(c"/bin/sh".as_ptr(), self.shell_argv.pointers.as_ptr(), self.envp.pointers.as_ptr());
            }
            *libc::__errno_location()
        }
    }
}

/// Room for the child's few calls before it becomes the program.
const STACK_BYTES: usize = 64 << 10;

/// What the child reads until it becomes the program.
struct ExecContext {
    program: Program,
    inherited: Inherited,
    conditions: ForChild,
    /// Descriptors to put in the place of others; when there are any, the child gets a session of its own.
    redirections: Vec<(RawFd, RawFd)>,
    gate: RawFd,
    parent_gate: RawFd,
}

/// The child before it becomes the program: it waits for [`Held::release`].
///
/// Until then it runs in our memory, beside us and on a stack of its own. A copy of that memory, as fork(2) makes it,
/// would take longer than all else in a launch; and vfork(2) would hold us until the program has begun, when it can no
/// longer be seized. The price: what the child reads must outlive its stay, which dropping this waits for, and `errno`
/// is shared, so whoever releases it makes no call that may fail until the child has left. A child that is to change how its
/// memory is managed has a copy after all.
pub(crate) struct Held {
    pub(crate) pid: Pid,
    /// Reading ends of its standard output and error, when they are captured.
    pub(crate) pipes: Option<[File; 2]>,
    gate: UnixStream,
    _context: Box<ExecContext>,
    _stack: Box<[MaybeUninit<u8>]>,
}

impl Held {
    /// Lets the child execute the program.
    ///
    /// # Errors
    /// When the child is gone already.
    pub(crate) fn release(&mut self) -> io::Result<()> {
        self.gate.write_all(&[0])
    }

    /// Waits until `path` was executed, or for the reason why it could not be. Call it after the release.
    ///
    /// The child's end of the gate closes by itself when it executes the program.
    pub(crate) fn failure(&mut self, path: &Path) -> Option<LaunchError> {
        let mut words = [[0; size_of::<libc::c_int>()]; 2];
        self.gate.read_exact(words.as_flattened_mut()).ok()?;
        let [part, errno] = words.map(libc::c_int::from_ne_bytes);
        let errno = Errno::from_raw(errno);
        Some(match Part::ALL.into_iter().find(|known| *known as libc::c_int == part) {
            Some(part) => LaunchError::Refused { part, errno },
            None => LaunchError::NotExecutable { path: path.into(), errno },
        })
    }

    /// Starts the child, which is not yet the program. `input` is what it reads when its output is captured, none is nothing.
    ///
    /// # Errors
    /// [`LaunchError::System`] when the kernel has no pipe or no process left.
    pub(crate) fn start(
        program: Program,
        output: Output,
        input: Option<File>,
        inherited: Inherited,
        conditions: ForChild,
    ) -> Result<Self, LaunchError> {
        let (gate, child_gate) = UnixStream::pair().map_err(LaunchError::system("socketpair"))?;
        let mut pipes = None;
        // The child has descriptors of its own; ours of these close when this returns.
        let mut childs: Vec<(OwnedFd, RawFd)> = Vec::new();
        if output == Output::Capture {
            let input = match input {
                Some(input) => input,
                None => File::open("/dev/null").map_err(LaunchError::system("open /dev/null"))?,
            };
            let (stdout, child_stdout) = io::pipe().map_err(LaunchError::system("pipe"))?;
            let (stderr, child_stderr) = io::pipe().map_err(LaunchError::system("pipe"))?;
            for end in [&stdout, &stderr] {
                // SAFETY: the descriptor is open, and the call changes only its flags.
                unsafe { libc::fcntl(end.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
            }
            childs = vec![
                (input.into(), libc::STDIN_FILENO),
                (child_stdout.into(), libc::STDOUT_FILENO),
                (child_stderr.into(), libc::STDERR_FILENO),
            ];
            pipes = Some([stdout, stderr].map(|end| File::from(OwnedFd::from(end))));
        }
        let shared = if conditions.changes_memory() { 0 } else { libc::CLONE_VM };
        let context = Box::new(ExecContext {
            program,
            inherited,
            conditions,
            redirections: childs.iter().map(|(from, to)| (from.as_raw_fd(), *to)).collect(),
            gate: child_gate.as_raw_fd(),
            parent_gate: gate.as_raw_fd(),
        });
        let mut stack = Box::new_uninit_slice(STACK_BYTES);
        let top = stack.as_mut_ptr_range().end;
        // Stacks are aligned to 16 bytes on every machine that we know.
        let top = top.wrapping_sub(top.addr() % 16);
        // No signal may run one of our handlers in the child.
        let mask = SigSet::all()
            .thread_swap_mask(nix::sys::signal::SigmaskHow::SIG_SETMASK)
            .map_err(LaunchError::system("sigprocmask"))?;
        // SAFETY: the stack, and the context with all that it points to, live until the child has left our memory, which
        // dropping `Held` waits for. The child calls only `exec_program`, which changes no memory but its stack and
        // `errno`, allocates nothing and takes no lock.
        let pid = unsafe {
            libc::clone(
                exec_program,
                top.cast(),
                shared | libc::SIGCHLD,
                ptr::from_ref::<ExecContext>(&context).cast_mut().cast(),
            )
        };
        let _ = mask.thread_set_mask();
        match Errno::result(pid) {
            Ok(pid) => Ok(Self { pid: Pid(pid), pipes, gate, _context: context, _stack: stack }),
            Err(errno) => Err(LaunchError::system("clone")(errno)),
        }
    }
}

impl Drop for Held {
    /// Waits until the child has left our memory, by becoming the program or by ending.
    fn drop(&mut self) {
        let _ = self.gate.shutdown(Shutdown::Write);
        while self.gate.read(&mut [0]).is_ok_and(|length| length > 0) {}
    }
}

/// The child's part. Our descriptors are all close-on-exec, so the program gets only what we inherited.
extern "C" fn exec_program(context: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `context` is what `Held::start` passes, and outlives this function. Apart from that only async-signal-safe
    // calls, on descriptors that are open here.
    unsafe {
        let context = &*context.cast_const().cast::<ExecContext>();
        if !context.redirections.is_empty() {
            // A terminal's keys and its hang-up are for the study, not for a trial.
            libc::setsid();
        }
        let mut released = 0_u8;
        // Our copy of the other end would keep the gate open after our parent's death.
        libc::close(context.parent_gate);
        // Nobody left to watch us: nothing to become.
        if libc::read(context.gate, ptr::from_mut(&mut released).cast(), 1) != 1 {
            libc::_exit(127);
        }
        // The program dies when our thread does, traced or not.
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        for (from, to) in &context.redirections {
            libc::dup2(*from, *to);
        }
        context.inherited.restore_in_child();
        let mut refused = 0;
        let mut errno = 0;
        if let Err((part, cause)) = context.conditions.apply() {
            (refused, errno) = (part as libc::c_int, cause as libc::c_int);
        }
        if refused == 0 {
            errno = context.program.execute();
        }
        let words = [refused, errno];
        libc::write(context.gate, ptr::from_ref(&words).cast(), size_of_val(&words));
        libc::_exit(127)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_as_shells_find_them() {
        assert!(executable_path(OsStr::new("sh")).unwrap().ends_with("sh"));
        assert_eq!(executable_path(OsStr::new("/bin/sh")).unwrap(), Path::new("/bin/sh"));
        for missing in ["", "no-such-program-anywhere", "/no/such/program", "/bin/sh/x"] {
            assert!(matches!(executable_path(OsStr::new(missing)), Err(LaunchError::NotFound { .. })), "{missing}");
        }
        for unusable in ["/etc", "/etc/passwd"] {
            assert!(
                matches!(executable_path(OsStr::new(unusable)), Err(LaunchError::NotExecutable { .. })),
                "{unusable}"
            );
        }
    }

    #[test]
    fn a_nul_byte_is_refused_before_anything_is_started() {
        let argv = [OsString::from("a\0b")];
        assert!(matches!(Program::new(Path::new("/bin/sh"), &argv, []), Err(LaunchError::NulByte { .. })));
    }
}
