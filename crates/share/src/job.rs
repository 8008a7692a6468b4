//! A job that runs: its processes, its page, and the CPUs that it has.

use crate::binding;
use crate::cpuset::Cpusets;
use crate::demand::Demand;
use crate::page::{Page, VARIABLE};
use machine::CpuSet;
use machine::linux::affinity::{Mask, allowed};
use machine::linux::control_group::Cpuset;
use machine::linux::{Pid, Tid};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

/// The last bytes of a job's output that are kept.
const TAIL_BYTES: u64 = 2048;

/// How often those that outlive a job are killed, and how long lies between: who is killed may have started another just before.
const KILLS: usize = 100;
const BETWEEN_KILLS: Duration = Duration::from_millis(2);

/// A program to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobCommand {
    /// What it is called.
    pub name: String,
    /// The program, as a path or a name in `PATH`, and its arguments.
    pub argv: Vec<OsString>,
}

/// A job that runs.
pub(crate) struct Job {
    root: Pid,
    ends: OwnedFd,
    pub(crate) page: Page,
    pub(crate) demand: Demand,
    /// Its processes when we last looked.
    processes: Vec<Pid>,
    /// Those of them that lost their parents.
    adopted: BTreeSet<Pid>,
    /// The CPUs that it has.
    pub(crate) cpus: CpuSet,
    mask: Mask,
    /// Before then its bell isn't listened to.
    pub(crate) deaf_until_ns: u64,
    cpuset: Option<Cpuset>,
    output: Option<File>,
    /// Most threads that could not be bound at once.
    pub(crate) unbound: u32,
}

/// How a job ended.
pub(crate) struct End {
    pub(crate) status: ExitStatus,
    /// CPU time of its processes that were waited for, in ns.
    pub(crate) cpu_ns: u64,
    /// Processes that outlived it and were killed.
    pub(crate) leftovers: u32,
    /// The end of what it wrote, when it was kept.
    pub(crate) tail: String,
}

impl Job {
    /// Starts a job on `cpus`, which is not empty. `capacity` CPUs are shared out in all. With `shown`, what it writes goes to standard error.
    pub(crate) fn start(
        command: &JobCommand,
        cpus: CpuSet,
        capacity: u32,
        shown: bool,
        cpuset: Option<(&Cpusets, &str)>,
        now_ns: u64,
    ) -> io::Result<Self> {
        let [program, arguments @ ..] = command.argv.as_slice() else { return Err(Errno::EINVAL.into()) };
        let mut page = Page::new(capacity)?;
        page.publish(&cpus, 0);
        let mut process = Command::new(program);
        process.args(arguments).stdin(Stdio::null()).process_group(0).env(VARIABLE, page.descriptors());
        // It may come to have all CPUs, however few it begins with: by those that it is on at first an OpenMP runtime would count. And a
        // thread that waits for others should not look as if it worked. Where its threads are is ours to say.
        for (variable, value) in [("OMP_NUM_THREADS", capacity.to_string()), ("OMP_WAIT_POLICY", "passive".into())] {
            if std::env::var_os(variable).is_none() {
                process.env(variable, value);
            }
        }
        process.env("OMP_PROC_BIND", "false").env_remove("GOMP_CPU_AFFINITY").env_remove("KMP_AFFINITY");
        // A file, and no pipe of ours: when we are killed, the job has to be able to go on writing.
        let output = (!shown).then(tempfile::tempfile).transpose()?;
        match &output {
            Some(file) => process.stdout(file.try_clone()?).stderr(file.try_clone()?),
            None => process.stdout(io::stderr().as_fd().try_clone_to_owned()?),
        };
        let mask = Mask::from(&cpus);
        let child = page.inherited(|| started_on(&mask, &mut process))??;
        let root = Pid(child.id() as libc::pid_t);
        let ends = pidfd(root)?;
        let cpuset = cpuset.map(|(cpusets, name)| cpusets.make(name, &cpus)).transpose()?;
        let job = Self {
            root,
            ends,
            page,
            demand: Demand::new(now_ns),
            processes: vec![root],
            adopted: BTreeSet::new(),
            cpus,
            mask,
            deaf_until_ns: 0,
            cpuset,
            output,
            unbound: 0,
        };
        job.confine();
        Ok(job)
    }

    /// The process that we started.
    pub(crate) fn root(&self) -> Pid {
        self.root
    }

    /// Takes a process that lost its parent for one of its own, if it is.
    pub(crate) fn adopts(&mut self, orphan: Pid) -> bool {
        let is_own = self.processes.contains(&orphan)
            || nix::unistd::getpgid(Some(nix::unistd::Pid::from_raw(orphan.0)))
                .is_ok_and(|group| group.as_raw() == self.root.0)
            || binding::started_with(orphan, VARIABLE).is_some_and(|value| value == self.page.descriptors());
        if is_own {
            self.adopted.insert(orphan);
        }
        is_own
    }

    /// Moves it to other CPUs, of which there is at least one.
    pub(crate) fn bind(&mut self, cpus: CpuSet, now_ns: u64) {
        self.demand.held(now_ns, self.cpus.iter().count());
        self.mask = Mask::from(&cpus);
        self.cpus = cpus;
        // What a cpuset forbids no thread can be bound to, and what it takes away its threads are moved off.
        if let Some(cpuset) = &self.cpuset {
            let _ = cpuset.set(&self.cpus);
        }
        self.unbound = self.unbound.max(binding::bind(&self.processes, &self.mask));
    }

    /// Looks at it: its processes, whether all threads are where they should be, and what they use.
    pub(crate) fn look(&mut self, now_ns: u64) {
        self.adopted.retain(|pid| pid.parent().is_some() && !pid.is_zombie());
        self.processes = self.all_processes();
        self.confine();
        self.unbound = self.unbound.max(binding::bind(&self.processes, &self.mask));
        let (ready, cpu_ns) = (binding::ready_threads(&self.processes), binding::cpu_ns(&self.processes));
        self.demand.says(self.page.wanted());
        self.demand.looked(now_ns, self.cpus.iter().count(), ready, cpu_ns);
    }

    /// Its processes that exist now.
    fn all_processes(&self) -> Vec<Pid> {
        let roots = std::iter::once(self.root).chain(self.adopted.iter().copied());
        let all: BTreeSet<Pid> = roots.flat_map(|root| std::iter::once(root).chain(root.descendants())).collect();
        all.into_iter().collect()
    }

    /// Puts its processes into its cpuset.
    fn confine(&self) {
        let Some(cpuset) = &self.cpuset else { return };
        let inside = cpuset.processes();
        // Who is gone by now needs none.
        self.processes.iter().filter(|pid| !inside.contains(pid)).for_each(|pid| drop(cpuset.adopt(*pid)));
    }

    /// Ends it.
    pub(crate) fn kill(&self) {
        let _ = kill(nix::unistd::Pid::from_raw(-self.root.0), Signal::SIGKILL);
        self.all_processes().into_iter().for_each(kill_process);
    }

    /// It has ended, which [`AsFd`] told: how, after what outlived it has been killed. `others` are the processes that were started as
    /// other jobs.
    pub(crate) fn end(mut self, others: &[Pid]) -> io::Result<End> {
        // Its descendants are found by it, or are orphans by now, which only the root's end made ours.
        let mut leftovers: BTreeSet<Pid> = self.processes.iter().copied().filter(|pid| *pid != self.root).collect();
        let (status, mut cpu_ns) = wait(self.root)?;
        let is_alive = |pid: &Pid| pid.parent().is_some() && !pid.is_zombie();
        leftovers.retain(is_alive);
        let mut killed = BTreeSet::new();
        for _ in 0..KILLS {
            for orphan in binding::orphans(others) {
                if self.adopts(orphan) {
                    leftovers.insert(orphan);
                    leftovers.extend(orphan.descendants());
                }
            }
            leftovers.retain(is_alive);
            if leftovers.is_empty() {
                break;
            }
            for &pid in &leftovers {
                if killed.insert(pid) {
                    cpu_ns += binding::cpu_ns(&[pid]);
                }
                kill_process(pid);
            }
            thread::sleep(BETWEEN_KILLS);
        }
        let tail = self.output.as_mut().map(tail).transpose()?.unwrap_or_default();
        Ok(End { status, cpu_ns, leftovers: killed.len() as u32, tail })
    }
}

impl AsFd for Job {
    /// The job's end: it can be read from once the job has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ends.as_fd()
    }
}

/// Starts a program that begins on the CPUs of a mask: it inherits them from this thread.
fn started_on(mask: &Mask, process: &mut Command) -> io::Result<std::process::Child> {
    let before = Mask::from(&allowed(Tid::CALLER)?);
    mask.apply(Tid::CALLER)?;
    launch::restore_signals_of_writes();
    let started = process.spawn();
    launch::fail_writes_by_errors();
    before.apply(Tid::CALLER)?;
    started
}

/// A descriptor that can be read from once a child has ended.
fn pidfd(pid: Pid) -> io::Result<OwnedFd> {
    // SAFETY: the call takes two numbers, and makes a new descriptor.
    let descriptor = Errno::result(unsafe { libc::syscall(libc::SYS_pidfd_open, pid.0, 0) })?;
    // SAFETY: the kernel has just made it, so that nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as libc::c_int) })
}

/// Waits for a child: how it ended, and the CPU time of its threads and of those that it waited for, in ns.
fn wait(pid: Pid) -> io::Result<(ExitStatus, u64)> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    loop {
        // SAFETY: both places are valid for writing.
        match Errno::result(unsafe { libc::wait4(pid.0, &mut status, 0, usage.as_mut_ptr()) }) {
            Ok(_) => break,
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // SAFETY: zeroed is a valid `rusage`, and the call has filled it.
    let usage = unsafe { usage.assume_init() };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    Ok((ExitStatus::from_raw(status), ns(usage.ru_utime) + ns(usage.ru_stime)))
}

fn kill_process(pid: Pid) {
    // One that is gone needs it no more.
    let _ = kill(nix::unistd::Pid::from_raw(pid.0), Signal::SIGKILL);
}

/// The last bytes of a file.
fn tail(file: &mut File) -> io::Result<String> {
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
