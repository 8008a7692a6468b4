//! A guest that stays up: it has this host's file system under an overlay, and a program of the host's in it answers requests.
//!
//! ```text
//! tell("line") ──> qemu's stdin ──> virtio port ──> program's stdin
//! line_within() <── qemu's stdout <── virtio port <── program's stdout
//! ```
//!
//! What the program writes to standard error is on the guest's console, the end of which an error quotes.

use crate::qemu::Qemu;
use crate::script::{CONFIG_PATH, HostProgram, OVERLAY_PATH, REQUEST_PORT, ROOT_TAG, Script};
use crate::virtiofsd::Virtiofsd;
use crate::{Stopped, Vm, VmError, last_lines, panic_cause};
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long qemu may take to end when its guest has, and a plugin of its writes what it has seen.
const LONGEST_END: Duration = Duration::from_secs(20);

/// A running guest. Dropped, nothing of it is left.
pub struct Guest {
    qemu: Qemu,
    virtiofsd: Virtiofsd,
    /// What it is doing, for errors.
    during: Option<String>,
    folder: TempDir,
}

impl Vm {
    /// Boots it with this host's file system, in which `program` answers requests. `overlay` is the kernel's module for that, where it
    /// needs one, and `config` what the kernel was built with, where that is known. Returns when it has begun to boot.
    ///
    /// # Errors
    /// [`VmError`] where qemu or virtiofsd can't be started.
    pub fn boot(
        &self,
        program: HostProgram,
        overlay: Option<PathBuf>,
        config: Option<PathBuf>,
    ) -> Result<Guest, VmError> {
        let folder = tempfile::tempdir()?;
        let here = |name: &str| folder.path().join(name);
        let mut vm = self.clone();
        vm.files.extend(overlay.map(|module| (module, OVERLAY_PATH.into())));
        vm.files.extend(config.map(|config| (config, CONFIG_PATH.into())));
        vm.initramfs(&Script::Host(program))?.write(&here("initramfs"))?;
        let virtiofsd = Virtiofsd::start(&here("root"), here("virtiofsd"))?;
        let mut command = vm.command(&here("initramfs"), &here("console"), true);
        command.arg("-chardev").arg(format!("socket,id=root,path={}", here("root").display()));
        command.arg("-device").arg(format!("vhost-user-fs-pci,chardev=root,tag={ROOT_TAG}"));
        command.args(["-device", "virtio-serial-pci", "-chardev", "stdio,id=requests,signal=off"]);
        command.arg("-device").arg(format!("virtserialport,chardev=requests,name={REQUEST_PORT}"));
        let qemu = Qemu::start(command, &here("errors"))?;
        Ok(Guest { qemu, virtiofsd, during: None, folder })
    }
}

impl Guest {
    /// Sends a line, which the program reads; `what` it asks for is told where the guest ends before it answers.
    ///
    /// # Errors
    /// [`VmError`] where the guest has ended.
    pub fn tell(&mut self, what: &str, line: &str) -> Result<(), VmError> {
        self.during = Some(what.to_owned());
        let stdin = self.qemu.process.stdin.as_mut();
        let written = stdin.map(|stdin| stdin.write_all(line.as_bytes()).and_then(|()| stdin.write_all(b"\n")));
        match written {
            Some(Ok(())) => Ok(()),
            _ => Err(self.why_it_ended()),
        }
    }

    /// The next line that the program writes, if it does within `timeout`.
    ///
    /// # Errors
    /// [`VmError`] where the guest has ended, or has lost the host's file system.
    pub fn line_within(&mut self, timeout: Duration) -> Result<Option<String>, VmError> {
        match self.qemu.lines.recv_timeout(timeout) {
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Disconnected) => Err(self.why_it_ended()),
            // It would wait for its files for ever.
            Err(RecvTimeoutError::Timeout) => match self.virtiofsd.ended() {
                Some(cause) => Err(VmError::Share { cause }),
                None => Ok(None),
            },
        }
    }

    /// What it is when it has not answered for `timeout`.
    pub fn hung(&self, timeout: Duration) -> VmError {
        VmError::Hung { timeout, stopped: self.stopped() }
    }

    /// Lets it end by itself, as its program does when there are no more requests, and waits for that.
    pub fn end(mut self) {
        drop(self.qemu.process.stdin.take());
        self.wait_for_end();
    }

    fn wait_for_end(&mut self) -> Option<ExitStatus> {
        let deadline = Instant::now() + LONGEST_END;
        loop {
            match self.qemu.process.try_wait() {
                Ok(None) if Instant::now() < deadline => thread::sleep(Duration::from_millis(10)),
                ended => return ended.ok().flatten(),
            }
        }
    }

    fn stopped(&self) -> Stopped {
        Stopped { during: self.during.clone(), ended: Vec::new(), console: last_lines(&self.console()) }
    }

    fn console(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.folder.path().join("console")).unwrap_or_default()).into_owned()
    }

    /// Why there are no more answers.
    fn why_it_ended(&mut self) -> VmError {
        let status = self.wait_for_end();
        let stopped = self.stopped();
        if let Some(cause) = panic_cause(&self.console()) {
            return VmError::Panicked { cause, stopped };
        }
        // What the guest says of files that it has lost is a consequence of this.
        if let Some(cause) = self.virtiofsd.ended().filter(|_| status.is_none_or(|status| !status.success())) {
            return VmError::Share { cause };
        }
        let stderr = fs::read_to_string(self.folder.path().join("errors")).unwrap_or_default().trim().to_owned();
        match status {
            Some(status) => VmError::Ended { status, stderr, stopped },
            None => VmError::Hung { timeout: LONGEST_END, stopped },
        }
    }
}
