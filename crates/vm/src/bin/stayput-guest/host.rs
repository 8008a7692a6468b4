//! The host's file system in the guest, and the program of the host's that answers requests there.

use crate::init;
use nix::kmod::{ModuleInitFlags, finit_module};
use nix::mount::{MsFlags, mount};
use nix::sys::resource::{RLIM_INFINITY, Resource, setrlimit};
use nix::sys::wait::{WaitStatus, wait};
use nix::unistd::{Pid, chroot};
use std::env;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use vm::{CONFIG_PATH, HostProgram, OVERLAY_PATH, REQUEST_PORT, ROOT_TAG};

/// Where the host's files, what is written instead of them, and both together are until they are all that there is.
const LOWER: &str = "/lower";
const UPPER: &str = "/upper";
const ROOT: &str = "/newroot";

/// The kernel's ports to qemu.
const PORTS: &str = "/sys/class/virtio-ports";

const NONE: Option<&str> = None;

/// Runs the program until it ends.
pub fn run(program: &HostProgram) -> io::Result<()> {
    let port = request_port().map_err(named("the port for requests"))?;
    enter_host_root()?;
    let told = |what: &'static str| move |error: nix::Error| named(what)(error.into());
    // What loads programs into the kernel may hold as much memory as it wants.
    setrlimit(Resource::RLIMIT_MEMLOCK, RLIM_INFINITY, RLIM_INFINITY).map_err(told("RLIMIT_MEMLOCK"))?;
    let Some((name, arguments)) = program.argv.split_first() else { return Err(io::ErrorKind::InvalidInput.into()) };
    let mut command = Command::new(name);
    command.args(arguments).env_clear().envs(program.environment.iter().cloned()).current_dir(&program.folder);
    command.stdin(Stdio::from(port.try_clone()?)).stdout(Stdio::from(port));
    let child = command.spawn().map_err(named(&name.to_string_lossy()))?;
    drop(command);
    let child = Pid::from_raw(child.id().cast_signed());
    loop {
        match wait()? {
            WaitStatus::Exited(pid, 0) if pid == child => return Ok(()),
            WaitStatus::Exited(pid, code) if pid == child => {
                return Err(io::Error::other(format!("what answers requests ended with exit code {code}")));
            }
            WaitStatus::Signaled(pid, signal, _) if pid == child => {
                return Err(io::Error::other(format!("what answers requests was killed by {signal}")));
            }
            _ => {}
        }
    }
}

/// The port for requests and answers, which appears when qemu has answered the kernel's questions about it.
fn request_port() -> io::Result<File> {
    let patience = Instant::now() + Duration::from_secs(20);
    loop {
        let mut ports = fs::read_dir(PORTS).into_iter().flatten().flatten();
        let is_ours = |name: String| name.trim_end() == REQUEST_PORT;
        if let Some(port) = ports.find(|port| fs::read_to_string(port.path().join("name")).is_ok_and(is_ours)) {
            return OpenOptions::new().read(true).write(true).open(Path::new("/dev").join(port.file_name()));
        }
        if Instant::now() > patience {
            return Err(io::ErrorKind::NotFound.into());
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Makes the host's file system, read-only under an overlay in memory, the root of all processes to come.
fn enter_host_root() -> io::Result<()> {
    if let Ok(module) = File::open(OVERLAY_PATH) {
        let loaded = finit_module(&module, c"", ModuleInitFlags::empty());
        loaded.map_err(|error| named("the overlay module")(error.into()))?;
    }
    let config = fs::read(CONFIG_PATH).ok();
    for folder in [LOWER, UPPER, ROOT] {
        fs::create_dir_all(folder)?;
    }
    let mounted = |kind: &str, at: &str, flags: MsFlags, options: Option<&str>| {
        mount(Some(if kind == "virtiofs" { ROOT_TAG } else { kind }), at, Some(kind), flags, options)
            .map_err(|error| named(&format!("cannot mount {kind}"))(error.into()))
    };
    mounted("virtiofs", LOWER, MsFlags::MS_RDONLY, NONE)?;
    mounted("tmpfs", UPPER, MsFlags::empty(), Some("mode=755"))?;
    for folder in ["files", "work"] {
        fs::create_dir(format!("{UPPER}/{folder}"))?;
    }
    let options = format!("lowerdir={LOWER},upperdir={UPPER}/files,workdir={UPPER}/work");
    mounted("overlay", ROOT, MsFlags::empty(), Some(&options))?;
    env::set_current_dir(ROOT)?;
    mount(Some("."), "/", NONE, MsFlags::MS_MOVE, NONE)?;
    chroot(".")?;
    env::set_current_dir("/")?;
    init::mount_all();
    config.map_or(Ok(()), |config| write_config(&config)).map_err(named("the kernel's configuration"))?;
    // As systems have them, which a device file system has not.
    for (kind, at, options) in [
        ("devpts", "/dev/pts", "mode=620,ptmxmode=666"),
        ("tmpfs", "/dev/shm", "mode=1777"),
        ("tmpfs", "/run", "mode=755"),
    ] {
        fs::create_dir_all(at)?;
        mounted(kind, at, MsFlags::empty(), Some(options))?;
    }
    for (link, target) in [("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")] {
        std::os::unix::fs::symlink(format!("/proc/self/fd{target}"), format!("/dev/{link}"))?;
    }
    Ok(())
}

/// Writes the kernel's configuration to where libbpf looks for it.
fn write_config(config: &[u8]) -> io::Result<()> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    fs::create_dir_all("/boot")?;
    fs::write(format!("/boot/config-{}", release.trim_end()), config)
}

/// The same error, of something that is named.
fn named(what: &str) -> impl Fn(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{what}: {error}"))
}
