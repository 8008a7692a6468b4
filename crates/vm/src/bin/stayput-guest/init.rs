//! The guest's `/init`: mounts what the kernel shows, does what the script says, tells what became of it, switches off.

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sys::reboot::{RebootMode, reboot};
use nix::sys::signal::{Signal, killpg};
use nix::sys::termios::{SetArg, cfmakeraw, tcdrain, tcgetattr, tcsetattr};
use nix::sys::wait::{WaitStatus, wait};
use nix::unistd::Pid;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use vm::{ANSWER_PORT, Exit, Message, OUTPUT_BYTES, SCRIPT_PATH, Script, Step, StepResult};

/// What is mounted where; a kernel may lack the later ones.
const FILE_SYSTEMS: [(&str, &str); 7] = [
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("devtmpfs", "/dev"),
    ("debugfs", "/sys/kernel/debug"),
    ("tracefs", "/sys/kernel/tracing"),
    ("cgroup2", "/sys/fs/cgroup"),
    ("bpf", "/sys/fs/bpf"),
];

/// Returns only when the machine can't be switched off; the kernel panics when its first process ends, so all is said then.
pub fn run() -> ExitCode {
    if let Err(error) = prepare().and_then(|()| follow_script()) {
        eprintln!("stayput-guest: {error}");
    }
    let Err(error) = reboot(RebootMode::RB_POWER_OFF);
    eprintln!("stayput-guest: cannot switch off: {error}");
    ExitCode::FAILURE
}

/// What the machine is called: some programs, Open MPI's launcher among them, start nothing on one without a name.
const HOST_NAME: &str = "stayput-guest";

fn prepare() -> io::Result<()> {
    mount_all();
    if let Err(error) = fs::write("/proc/sys/kernel/hostname", HOST_NAME) {
        eprintln!("stayput-guest: cannot be called {HOST_NAME}: {error}");
    }
    for line in ["--install -s /bin", "ip link set lo up"] {
        let status = Command::new("/bin/busybox").args(line.split(' ')).status()?;
        if !status.success() {
            eprintln!("stayput-guest: busybox {line}: {status}");
        }
    }
    Ok(())
}

/// Mounts what the kernel shows.
pub(crate) fn mount_all() {
    for (kind, folder) in FILE_SYSTEMS {
        if let Err(error) = mount(Some(kind), folder, Some(kind), MsFlags::empty(), None::<&str>) {
            eprintln!("stayput-guest: cannot mount {folder}: {error}");
        }
    }
}

fn follow_script() -> io::Result<()> {
    match serde_json::from_slice(&fs::read(SCRIPT_PATH)?)? {
        Script::Steps(steps) => carry_out(&steps),
        Script::Host(program) => crate::host::run(&program),
    }
}

fn carry_out(steps: &[Step]) -> io::Result<()> {
    let mut port = OpenOptions::new().read(true).write(true).open(ANSWER_PORT)?;
    let mut terminal = tcgetattr(&port)?;
    cfmakeraw(&mut terminal);
    tcsetattr(&port, SetArg::TCSANOW, &terminal)?;
    let mut tell = |message: &Message| {
        let line = serde_json::to_string(message)? + "\n";
        port.write_all(line.as_bytes())?;
        tcdrain(&port)?;
        io::Result::Ok(())
    };
    for step in steps {
        tell(&Message::Began(step.name.clone()))?;
        tell(&Message::Ended(run_step(step)?))?;
    }
    tell(&Message::Done)
}

/// Runs a step with its output going to files, so that a step which is killed doesn't lose it.
fn run_step(step: &Step) -> io::Result<StepResult> {
    let (stdout, stderr) = (Path::new("/run/stdout"), Path::new("/run/stderr"));
    let program = step.argv.first().map_or("", String::as_str);
    let mut command = Command::new(program);
    command.args(step.argv.iter().skip(1)).env("PATH", "/bin").env("HOME", "/root").process_group(0);
    command.stdin(Stdio::null()).stdout(File::create(stdout)?).stderr(File::create(stderr)?);

    let began = Instant::now();
    let exit = match command.spawn() {
        Ok(child) => wait_for(Pid::from_raw(child.id().cast_signed()), step.timeout)?,
        Err(error) => Exit::NotStarted(format!("{program}: {error}")),
    };
    let seconds = began.elapsed().as_secs_f64();
    Ok(StepResult { name: step.name.clone(), exit, stdout: text(stdout)?, stderr: text(stderr)?, seconds })
}

/// Waits for a process, reaping all others that end meanwhile, and leaves nothing of its group behind.
fn wait_for(process: Pid, timeout: Duration) -> io::Result<Exit> {
    let (has_ended, end) = mpsc::channel::<()>();
    let clock = thread::spawn(move || {
        let is_late = end.recv_timeout(timeout).is_err();
        match killpg(process, Signal::SIGKILL) {
            Ok(()) | Err(Errno::ESRCH) => Ok(is_late),
            Err(error) => Err(error),
        }
    });
    let exit = loop {
        match wait()? {
            WaitStatus::Exited(pid, code) if pid == process => break Exit::Code(code),
            WaitStatus::Signaled(pid, signal, _) if pid == process => break Exit::Signal(signal as i32),
            _ => {}
        }
    };
    // It is gone when the clock has killed it and rung.
    let _ = has_ended.send(());
    let is_late = clock.join().map_err(|_| io::Error::other("the step's clock stopped"))??;
    Ok(if is_late { Exit::TimedOut } else { exit })
}

/// What a step wrote, without its middle where that is too much.
fn text(path: &Path) -> io::Result<String> {
    let bytes = fs::read(path)?;
    if bytes.len() <= OUTPUT_BYTES {
        return Ok(String::from_utf8_lossy(&bytes).into_owned());
    }
    let (head, tail) = (&bytes[..OUTPUT_BYTES / 2], &bytes[bytes.len() - OUTPUT_BYTES / 2..]);
    let cut_bytes = bytes.len() - OUTPUT_BYTES;
    Ok(format!("{}\n[{cut_bytes} bytes cut]\n{}", String::from_utf8_lossy(head), String::from_utf8_lossy(tail)))
}
