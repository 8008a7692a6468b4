//! The process that gives a guest this host's file system: virtiofsd, in a mount namespace where everything is read-only, so that a
//! guest can't change the host whatever it does.

use crate::qemu::{end, end_with_us};
use crate::{VmError, find_program};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::libc;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Where distributions have it besides the folders of `PATH`.
const PLACES: [&str; 3] = ["/usr/libexec/virtiofsd", "/usr/lib/qemu/virtiofsd", "/usr/lib/virtiofsd"];

/// What only qemu's own virtiofsd, in C, says of its version.
const QEMUS_OWN: &str = "FUSE kernel interface";

/// The executable, if there is one.
pub(crate) fn executable() -> Option<PathBuf> {
    find_program("virtiofsd").or_else(|| PLACES.map(PathBuf::from).into_iter().find(|path| path.is_file()))
}

/// A running virtiofsd, which is killed when this is dropped, or when we are.
pub(crate) struct Virtiofsd {
    process: Child,
    errors: PathBuf,
}

impl Virtiofsd {
    /// Serves all files of this host, read-only, at the socket `socket`; its messages go to the file `errors`.
    pub(crate) fn start(socket: &Path, errors: PathBuf) -> Result<Self, VmError> {
        let failed = |cause: String| VmError::Share { cause };
        let program = executable().ok_or_else(|| failed("isn't installed".into()))?;
        // Made here: it can't make one where everything is read-only.
        let listener = UnixListener::bind(socket)?;
        let version = Command::new(&program).arg("--version").output();
        let version = version.map_err(|cause| failed(format!("can't be run: {cause}")))?;
        let is_qemus_own = String::from_utf8_lossy(&version.stdout).contains(QEMUS_OWN);
        let mut command = Command::new(&program);
        command.arg(format!("--fd={}", listener.as_raw_fd()));
        match is_qemus_own {
            true => command.args([
                "-o",
                "source=/",
                "-o",
                "sandbox=chroot",
                "-o",
                "cache=always",
                "-o",
                "no_posix_lock",
                "-o",
                "log_level=warn",
            ]),
            false => {
                command.args(["--shared-dir", "/", "--sandbox", "chroot", "--cache", "always", "--log-level", "warn"])
            }
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&errors)?).process_group(0);
        let socket = listener.as_raw_fd();
        // SAFETY: these are system calls, which a process may make between fork and exec; the socket is open until then.
        unsafe {
            command.pre_exec(move || {
                fcntl(std::os::fd::BorrowedFd::borrow_raw(socket), FcntlArg::F_SETFD(FdFlag::empty()))?;
                make_read_only()
            })
        };
        end_with_us(&mut command);
        let process = command.spawn().map_err(|cause| failed(format!("can't be started: {cause}")))?;
        Ok(Self { process, errors })
    }

    /// How it ended, in words, if it has.
    pub(crate) fn ended(&mut self) -> Option<String> {
        let status = self.process.try_wait().ok()??;
        let said = fs::read_to_string(&self.errors).unwrap_or_default();
        let last = said.lines().rfind(|line| !line.trim().is_empty());
        Some(last.map_or_else(|| format!("ended ({status})"), |line| format!("ended ({status}): {}", line.trim())))
    }
}

impl Drop for Virtiofsd {
    fn drop(&mut self) {
        end(&mut self.process);
    }
}

/// `struct mount_attr` of mount_setattr(2).
#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// Makes every file system read-only for this process alone.
fn make_read_only() -> io::Result<()> {
    const NONE: Option<&str> = None;
    const READ_ONLY: u64 = 1;
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE)?;
    let attributes = MountAttributes { set: READ_ONLY, clear: 0, propagation: 0, user_namespace: 0 };
    // SAFETY: the call reads the path and the attributes, of which it is told the size.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            c"/".as_ptr(),
            libc::AT_RECURSIVE,
            &raw const attributes,
            size_of::<MountAttributes>(),
        )
    };
    Ok(Errno::result(result).map(drop)?)
}
