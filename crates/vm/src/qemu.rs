//! A running qemu, and the lines that its guest writes.

use crate::VmError;
use nix::sys::{prctl, signal::Signal};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;

/// No line of a guest's is longer: what it writes must not fill our memory.
const LONGEST_LINE: u64 = 256 << 20;

/// A running qemu, which is killed when this is dropped, or when we are.
pub(crate) struct Qemu {
    pub(crate) process: Child,
    /// What the guest writes to the port that is our standard output; it ends with qemu, or with a line that is too long.
    pub(crate) lines: Receiver<String>,
}

impl Qemu {
    /// Starts it, out of the reach of the terminal's keys. What it says itself goes to the file `errors`.
    pub(crate) fn start(mut command: Command, errors: &Path) -> Result<Self, VmError> {
        let errors = File::create(errors)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors).process_group(0);
        end_with_us(&mut command);
        let mut process = command.spawn().map_err(|cause| VmError::Qemu { cause })?;
        let (sender, lines) = mpsc::channel();
        if let Some(stdout) = process.stdout.take() {
            thread::spawn(move || {
                let mut stdout = BufReader::new(stdout);
                loop {
                    let mut line = Vec::new();
                    let read = stdout.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line);
                    // What has no end was cut off by the end of the machine, or is too long.
                    if read.is_err() || line.pop() != Some(b'\n') {
                        return;
                    }
                    if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                        return;
                    }
                }
            });
        }
        Ok(Self { process, lines })
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        end(&mut self.process);
    }
}

/// Lets the kernel kill what `command` starts when the thread that starts it is gone.
pub(crate) fn end_with_us(command: &mut Command) {
    // SAFETY: prctl is a system call, which a process may make between fork and exec.
    unsafe { command.pre_exec(|| Ok(prctl::set_pdeathsig(Signal::SIGKILL)?)) };
}

/// Kills a process and waits for it.
pub(crate) fn end(process: &mut Child) {
    // Neither fails but where it has ended and been waited for.
    let _ = process.kill();
    let _ = process.wait();
}
