//! A kernel and a topology to run things in: virtual machines, on hosts whose kernel has no sched_ext and whose CPUs are few.
//!
//! In go a [`Kernel`], a [`Topology`], programs and the [`Step`]s to run; out comes what became of each step. It runs qemu, and apt
//! to fetch a kernel, which it keeps in the user's cache folder; all else that it writes is in a temporary folder.
//!
//! ```text
//! Kernel (Debian's newest) ──┐
//! Topology (2x4, dies, ...) ─┼─> Vm ──run(steps)──> qemu  ──boots──> stayput-guest (/init) ──runs──> steps
//! programs, files ───────────┘                                            │ one JSON line a step
//!                                       Vec<StepResult> <─────────────────┘
//! ```
//!
//! qemu emulates, so it works where virtualisation doesn't, on one thread for all CPUs: with several, the guest's kernel dies when
//! it patches its own code. That thread goes on to the next CPU when one idles, executes PAUSE, or has had 100 ms. Programs that
//! compute in a guest must therefore execute PAUSE more often than anything that they measure.

mod guest;
mod image;
mod initramfs;
mod qemu;
mod script;
mod topology;
mod virtiofsd;

pub use guest::Guest;
pub use image::{Kernel, KernelError};
pub use script::{
    ANSWER_PORT, CONFIG_PATH, Exit, HostProgram, Message, OUTPUT_BYTES, OVERLAY_PATH, REQUEST_PORT, ROOT_TAG,
    SCRIPT_PATH,
};
pub use script::{Script, Step, StepResult};
pub use topology::{ParseTopologyError, Topology};

use initramfs::Initramfs;
use qemu::Qemu;
use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

const QEMU: &str = "qemu-system-x86_64";
const BUSYBOX: &str = "busybox";
/// Where the guest has its first process, which is also what keeps its CPUs busy.
const GUEST_PATH: &str = "bin/stayput-guest";
/// What our programs read a machine's tree with; none is linked against it.
const HWLOC: &str = "libhwloc.so.15";
/// How many of the console's last lines an error shows.
const CONSOLE_LINES: usize = 60;
/// What the kernel says before the cause when it panics.
const PANIC: &str = "Kernel panic - not syncing: ";

/// Why virtual machines can't run here.
#[derive(Debug, thiserror::Error)]
pub enum Skip {
    /// The guest would need programs for another architecture.
    #[error("virtual machines run programs of x86-64, and this machine is {}", env::consts::ARCH)]
    NotX86_64,
    /// A program isn't installed.
    #[error("{program} is not installed: `./setup.sh kernel` installs it, or your system's package {package}")]
    Missing {
        /// The program.
        program: &'static str,
        /// The package that has it.
        package: &'static str,
    },
    /// Only root may share all files.
    #[error("a virtual machine with this machine's files needs root, who may read them all: use sudo")]
    NotRoot,
    /// There is no kernel to boot.
    #[error(transparent)]
    NoKernel(#[from] KernelError),
}

/// The same for machines that have this host's file system: what that takes is there, too.
///
/// # Errors
/// [`Skip`], in a sentence.
pub fn can_share_files(say: &dyn Fn(&str)) -> Result<Kernel, Skip> {
    virtiofsd::executable()
        .ok_or(Skip::Missing { program: "virtiofsd", package: "virtiofsd, or qemu-system-common" })?;
    if !nix::unistd::geteuid().is_root() {
        return Err(Skip::NotRoot);
    }
    can_run(say)
}

/// The kernel to boot here, if virtual machines can run here. `say` is told, in a sentence, what is fetched for it, before it is.
///
/// # Errors
/// [`Skip`], in a sentence, where they can't.
pub fn can_run(say: &dyn Fn(&str)) -> Result<Kernel, Skip> {
    if cfg!(not(target_arch = "x86_64")) {
        return Err(Skip::NotX86_64);
    }
    for (program, package) in [(QEMU, "qemu-system-x86"), (BUSYBOX, "busybox-static")] {
        find_program(program).ok_or(Skip::Missing { program, package })?;
    }
    Ok(Kernel::newest(say)?)
}

fn find_program(name: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// A virtual machine, switched off.
#[derive(Clone, Debug)]
pub struct Vm {
    /// What it boots.
    pub kernel: Kernel,
    /// Its CPUs.
    pub topology: Topology,
    /// Its memory, in MiB.
    pub memory_mib: u32,
    /// The executable `stayput-guest`, its first process.
    pub guest: PathBuf,
    /// Executables of this host that it has in `/bin`, with the shared libraries that they need.
    pub programs: Vec<PathBuf>,
    /// Files of this host and where it has them.
    pub files: Vec<(PathBuf, PathBuf)>,
    /// What watches its instructions and memory.
    pub plugin: Option<Plugin>,
    /// Where given, its clock counts instructions, of 2^this nanoseconds each, and no longer depends on what this host does
    /// besides. Several times slower.
    pub icount_shift: Option<u8>,
    /// More arguments for its kernel.
    pub kernel_arguments: Vec<String>,
}

/// A plugin of qemu's translator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plugin {
    /// The shared library.
    pub library: PathBuf,
    /// Its arguments, as `name=value`.
    pub arguments: Vec<String>,
}

impl Plugin {
    /// Its option of qemu's. Commas separate what an option says, so those within it are doubled; and with a `=` in its path, the
    /// library would pass for an argument if it weren't named as the file.
    fn qemu_option(&self) -> String {
        let file = format!("file={}", self.library.display());
        let parts: Vec<String> =
            [&file].into_iter().chain(&self.arguments).map(|part| part.replace(',', ",,")).collect();
        parts.join(",")
    }
}

/// A machine that stopped too early: what was known until then.
#[derive(Clone, Debug)]
pub struct Stopped {
    /// The step that was running, or what it was asked; none while it booted.
    pub during: Option<String>,
    /// The steps that had ended.
    pub ended: Vec<StepResult>,
    /// The last lines of its console.
    pub console: String,
}

impl Stopped {
    fn during(&self) -> String {
        self.during.as_ref().map_or("booting".into(), |name| format!("busy with `{name}`"))
    }
}

/// Why a virtual machine's steps were not carried out to their end.
#[derive(Debug, thiserror::Error)]
pub enum VmError {
    /// A file that it gets can't be read, or its file system can't be written.
    #[error("cannot use {path} for the virtual machine: {cause}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        cause: io::Error,
    },
    /// It isn't known which shared libraries a program needs.
    #[error("cannot tell which shared libraries {program} needs: {cause}", program = program.display())]
    Libraries {
        /// The program.
        program: PathBuf,
        /// What `ldd` says.
        cause: String,
    },
    /// A file that it needs here can't be written or read.
    #[error("cannot keep a virtual machine's files: {0}")]
    Files(#[from] io::Error),
    /// The host's file system can't be shared with it.
    #[error("the virtual machine can't be given this machine's files: virtiofsd {cause}")]
    Share {
        /// How that failed.
        cause: String,
    },
    /// Qemu doesn't run.
    #[error("{QEMU} can't be run ({cause}); `./setup.sh kernel` installs it")]
    Qemu {
        /// What the system says.
        cause: io::Error,
    },
    /// Its kernel panicked.
    #[error("the guest's kernel panicked while {}: {cause}\n{}", stopped.during(), stopped.console)]
    Panicked {
        /// What the kernel said.
        cause: String,
        /// Where it was.
        stopped: Stopped,
    },
    /// It had not done everything in time.
    #[error("the virtual machine was stopped after {} s, while {}; its console ends\n{}", timeout.as_secs(), stopped.during(), stopped.console)]
    Hung {
        /// The time that it had.
        timeout: Duration,
        /// Where it was.
        stopped: Stopped,
    },
    /// It ended before it had done everything.
    #[error("the virtual machine ended ({status}) while {}: {stderr}\n{}", stopped.during(), stopped.console)]
    Ended {
        /// What became of qemu.
        status: ExitStatus,
        /// What qemu said.
        stderr: String,
        /// Where it was.
        stopped: Stopped,
    },
}

impl Vm {
    /// A machine with 1 GiB of memory and no programs but busybox and `guest`, the executable `stayput-guest`.
    pub fn new(kernel: Kernel, topology: Topology, guest: impl Into<PathBuf>) -> Self {
        Self {
            kernel,
            topology,
            memory_mib: 1024,
            guest: guest.into(),
            programs: vec![],
            files: vec![],
            plugin: None,
            icount_shift: None,
            kernel_arguments: vec![],
        }
    }

    /// Boots it, runs steps one after another, each whatever became of the one before, and switches it off; takes no longer than
    /// `timeout`. Calls `on_result` with each step's result as soon as the step has ended.
    ///
    /// # Errors
    /// [`VmError`] if not every step was carried out. A step that failed is a result, not an error.
    pub fn run(
        &self,
        steps: &[Step],
        timeout: Duration,
        mut on_result: impl FnMut(&StepResult),
    ) -> Result<Vec<StepResult>, VmError> {
        let deadline = Instant::now() + timeout;
        let folder = tempfile::tempdir()?;
        let (archive, console) = (folder.path().join("initramfs"), folder.path().join("console"));
        let errors = folder.path().join("errors");
        self.initramfs(&Script::Steps(steps.to_vec()))?.write(&archive)?;
        let mut command = self.command(&archive, &console, false);
        command.args(["-chardev", "stdio,id=answers,signal=off", "-serial", "chardev:answers"]);
        let mut qemu = Qemu::start(command, &errors)?;

        let mut ended = vec![];
        let mut during = None;
        let mut is_done = false;
        let cause = loop {
            match qemu.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                // A line that is no message is one that the end of the machine cut off.
                Ok(line) => match serde_json::from_str(&line) {
                    Ok(Message::Began(name)) => during = Some(name),
                    Ok(Message::Ended(result)) => {
                        on_result(&result);
                        ended.push(result);
                    }
                    Ok(Message::Done) => is_done = true,
                    Err(_) => {}
                },
                // It has switched itself off. A plugin writes what it has seen when qemu ends, so that is waited for.
                Err(RecvTimeoutError::Disconnected) if is_done => {
                    qemu.process.wait()?;
                    return Ok(ended);
                }
                Err(cause) => break cause,
            }
        };
        // There is no console where qemu has refused its arguments.
        let console = String::from_utf8_lossy(&fs::read(console).unwrap_or_default()).into_owned();
        let stopped = Stopped { during, ended, console: last_lines(&console) };
        // A machine that panicked has rebooted, which ends qemu; unless it hangs in doing so.
        if let Some(cause) = panic_cause(&console) {
            return Err(VmError::Panicked { cause, stopped });
        }
        if cause == RecvTimeoutError::Timeout {
            return Err(VmError::Hung { timeout, stopped });
        }
        let status = qemu.process.wait()?;
        let stderr = fs::read_to_string(errors)?.trim().to_owned();
        Err(VmError::Ended { status, stderr, stopped })
    }

    fn initramfs(&self, script: &Script) -> Result<Initramfs, VmError> {
        let mut files = Initramfs::new();
        let busybox = find_program(BUSYBOX).unwrap_or_else(|| BUSYBOX.into());
        files.add_program("bin/busybox", &busybox)?;
        files.add_program(GUEST_PATH, &self.guest)?;
        files.add_link("init", GUEST_PATH);
        for program in &self.programs {
            let name = program.file_name().unwrap_or(program.as_os_str());
            files.add_program(Path::new("bin").join(name), program)?;
        }
        files.add_library(HWLOC)?;
        for (here, there) in &self.files {
            files.add_file(there, here);
        }
        files.add_bytes("etc/passwd", "root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/tmp:/bin/sh\n");
        files.add_bytes("etc/group", "root:x:0:\nuser:x:1000:\n");
        files.add_bytes(SCRIPT_PATH, serde_json::to_vec(script).map_err(io::Error::from)?);
        Ok(files)
    }

    /// Qemu with this machine, its first serial port being its console; a host's program may be given its memory.
    fn command(&self, archive: &Path, console: &Path, shares_memory: bool) -> Command {
        let mut command = Command::new(QEMU);
        command.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
        command.args(["-accel", "tcg,thread=single"]);
        command.args(self.topology.qemu_arguments(self.memory_mib, shares_memory));
        command.arg("-kernel").arg(&self.kernel.vmlinuz).arg("-initrd").arg(archive);
        // The emulated clocks are sound, but Linux would first watch them for seconds. Guards against speculation, of which an
        // emulated CPU does none, make each system call about twice as slow. Nor has anybody to be kept from anything in it, or from
        // what memory held before. Ciphers would be tested beside the first steps, for seconds. A panic ends the machine.
        let mut arguments = vec![
            "console=ttyS0 rdinit=/init tsc=reliable mitigations=off init_on_alloc=0 lsm=capability cryptomgr.notests panic=-1 oops=panic loglevel=4"
                .to_owned(),
        ];
        arguments.extend_from_slice(&self.kernel_arguments);
        command.arg("-append").arg(arguments.join(" "));
        command.arg("-serial").arg(format!("file:{}", console.display()));
        if let Some(plugin) = &self.plugin {
            command.arg("-plugin").arg(plugin.qemu_option());
        }
        if let Some(shift) = self.icount_shift {
            // Where nothing is to be done the clock leaps to the next timer; but not past what waits for files of the host.
            let sleep = if shares_memory { "on" } else { "off" };
            command.arg("-icount").arg(format!("shift={shift},sleep={sleep}"));
        }
        command
    }
}

/// What the kernel said when it panicked, if it did.
fn panic_cause(console: &str) -> Option<String> {
    console[console.find(PANIC)?..].lines().next().map(str::to_owned)
}

fn last_lines(console: &str) -> String {
    let lines: Vec<&str> = console.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(CONSOLE_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_in_paths_do_not_end_them() {
        let plugin = |library: &str, arguments: &[&str]| {
            let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
            Plugin { library: library.into(), arguments }.qemu_option()
        };
        assert_eq!(plugin("/p.so", &["out=/o", "others=off"]), "file=/p.so,out=/o,others=off");
        assert_eq!(plugin("/a,b=c/p.so", &["out=/d,,e/o"]), "file=/a,,b=c/p.so,out=/d,,,,e/o");
    }
}
