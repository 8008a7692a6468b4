//! Processes that compute, the CPU time that each has had, and on which CPUs.

use nix::sched::{CpuSet, sched_getcpu, sched_setaffinity};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::Signal;
use nix::sys::time::TimeValLike;
use nix::sys::wait::waitpid;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{ForkResult, Pid, fork};
use serde_json::json;
use std::collections::BTreeSet;
use std::fs::File;
use std::hint;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::process;
use std::thread;
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub struct Arguments {
    /// Processes.
    #[arg(long, default_value_t = 1)]
    processes: usize,
    /// Threads of each process.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// How long they compute, in seconds.
    #[arg(long)]
    seconds: f64,
    /// When they begin, in seconds since the machine was booted; without it, at once.
    #[arg(long)]
    at: Option<f64>,
    /// The CPUs on which they may run; without it, all.
    #[arg(long, num_args = 1.., value_name = "CPU")]
    pin: Vec<usize>,
}

/// Lets all processes begin together and stop at one time, so that their CPU times are shares of the same span. Prints the seconds from
/// the common start to the end of the last, the CPU time of each, and the CPUs on which any of them has been.
pub fn run(arguments: &Arguments) -> io::Result<String> {
    let duration = Duration::try_from_secs_f64(arguments.seconds).map_err(io::Error::other)?;
    if !arguments.pin.is_empty() {
        let mut cpus = CpuSet::new();
        arguments.pin.iter().try_for_each(|&cpu| cpus.set(cpu))?;
        sched_setaffinity(Pid::from_raw(0), &cpus)?;
    }
    let epoch = Instant::now();
    let (gate, opener) = io::pipe()?;
    let (mut all_ready, ready) = io::pipe()?;
    let (mut reports, reporter) = io::pipe()?;
    let stop_ns = tempfile::tempfile()?;
    let mut children = Vec::with_capacity(arguments.processes);
    for _ in 0..arguments.processes {
        // SAFETY: this process has one thread, so the child finds no lock held.
        match unsafe { fork() }? {
            ForkResult::Parent { child } => children.push(child),
            ForkResult::Child => {
                drop((opener, ready));
                let computed = compute_after(gate, &stop_ns, epoch, arguments.threads);
                process::exit(computed.and_then(|cpus| report(reporter, &cpus)).is_err().into())
            }
        }
    }
    drop(ready);
    all_ready.read_to_end(&mut Vec::new())?;
    if let Some(at) = arguments.at {
        let at = Duration::try_from_secs_f64(at).map_err(io::Error::other)?;
        let left = at.checked_sub(clock_gettime(ClockId::CLOCK_BOOTTIME)?.into());
        thread::sleep(left.ok_or_else(|| io::Error::other("it is later than they were to begin"))?);
    }
    let start = Instant::now();
    let ns = u64::try_from((start + duration - epoch).as_nanos()).map_err(io::Error::other)?;
    stop_ns.write_all_at(&ns.to_ne_bytes(), 0)?;
    // The end of a pipe wakes all who read it at once. Bytes would wake one after the other, each when the one before has run,
    // which takes a scheduler that keeps processes waiting up to a second.
    drop(opener);
    drop(reporter);
    let mut reported = Vec::new();
    // All have ended when nobody can write any more.
    reports.read_to_end(&mut reported)?;
    let (cpus, _) = reported.as_chunks();
    let cpus: BTreeSet<u16> = cpus.iter().map(|&cpu| u16::from_ne_bytes(cpu)).collect();
    let cpu_seconds: Vec<f64> = children.into_iter().map(cpu_seconds_at_end).collect::<io::Result<_>>()?;
    Ok(json!({ "seconds": start.elapsed().as_secs_f64(), "cpu_seconds": cpu_seconds, "cpus": cpus }).to_string())
}

/// Waits until the gate opens, and computes until `stop_ns`, in nanoseconds since `epoch`, in so many threads; on which CPUs.
fn compute_after(mut gate: PipeReader, stop_ns: &File, epoch: Instant, threads: usize) -> io::Result<BTreeSet<usize>> {
    set_pdeathsig(Signal::SIGKILL)?;
    gate.read_to_end(&mut Vec::new())?;
    let mut ns = [0; 8];
    stop_ns.read_exact_at(&mut ns, 0)?;
    let stop = epoch + Duration::from_nanos(u64::from_ne_bytes(ns));
    let others = (1..threads).map(|_| thread::Builder::new().spawn(move || compute_until(stop)));
    let others: Vec<_> = others.collect::<io::Result<_>>()?;
    let mut cpus = compute_until(stop)?;
    for other in others {
        cpus.extend(other.join().map_err(|_| io::Error::other("a thread died"))??);
    }
    Ok(cpus)
}

fn compute_until(stop: Instant) -> io::Result<BTreeSet<usize>> {
    let mut cpus = BTreeSet::new();
    while Instant::now() < stop {
        cpus.insert(sched_getcpu()?);
        for i in 0..1000 {
            hint::black_box(i);
        }
        // PAUSE, at which qemu goes on to the next CPU: see `vm`.
        hint::spin_loop();
    }
    Ok(cpus)
}

/// Tells the CPUs in one piece: a pipe takes 4,096 bytes at once, Linux has 1,024 CPUs in a set.
fn report(mut reporter: PipeWriter, cpus: &BTreeSet<usize>) -> io::Result<()> {
    reporter.write_all(&cpus.iter().flat_map(|&cpu| (cpu as u16).to_ne_bytes()).collect::<Vec<_>>())
}

/// Waits for a child; the CPU time of those waited for grows by that child's.
fn cpu_seconds_at_end(child: Pid) -> io::Result<f64> {
    let children_us = || -> io::Result<i64> {
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
        Ok((usage.user_time() + usage.system_time()).num_microseconds())
    };
    let before_us = children_us()?;
    waitpid(child, None)?;
    Ok((children_us()? - before_us) as f64 / 1e6)
}
