//! What programs touch while they have so much CPU time, page by page: their working sets (Denning 1968, The working set model for
//! program behavior).
//!
//! The kernel marks each page that is touched. A thread of ours clears the marks of one process after the other, lets it go on for a moment, and asks
//! how much is marked then. It asks nothing of processors, and disturbs: who maps memory meanwhile waits, and the marks have to be set anew.

use crate::potential::Judge;
use crate::profile::{INTERVAL_EDGES_MS, Profile, WorkingSet};
use crate::watching::Target;
use machine::Machine;
use machine::linux::Pid;
use nix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Bins of CPU time: those of intervals, and what is shorter or longer.
const BINS: usize = INTERVAL_EDGES_MS.len() + 1;

/// How long processes go on between two looks, in turn, in us: what has the CPU all the time comes into each bin.
const WINDOWS_US: [u64; BINS] = [500, 3_000, 7_000, 11_000, 15_000, 19_000, 23_000, 27_500, 35_000];

/// From one process to the next it takes at least as many times as long as to clear and to count marks, and at least so long.
const PAUSE_FACTOR: u32 = 5;
const LEAST_PAUSE: Duration = Duration::from_millis(1);

/// How often it is looked which processes there are.
const BETWEEN_SEARCHES: Duration = Duration::from_millis(100);

/// A bin of fewer looks tells nothing.
const LEAST_LOOKS: usize = 2;

/// What a profile with looks can't tell.
const UNDISTURBED_UNTOLD: &str = "times without looks at pages: after each, a process sets its marks at pages anew, and who maps memory meanwhile waits";

/// Looks at what processes touch, on a thread of its own.
pub struct Looks {
    ending: Sender<()>,
    looker: JoinHandle<Seen>,
}

/// What was seen.
#[derive(Default)]
struct Seen {
    programs: BTreeMap<String, Touched>,
    /// Why nothing was seen, where the kernel doesn't allow it.
    refused: Option<io::Error>,
}

/// What processes of one program touched.
#[derive(Default)]
struct Touched {
    /// In bytes, at each look, by CPU time.
    bytes: [Vec<u64>; BINS],
    /// The most of a process's memory that was in huge pages, in bytes.
    huge_bytes: u64,
}

impl Looks {
    /// Begins to look at the processes of `target`: of a command, at those that this process has started.
    pub fn begin(target: &Target) -> Self {
        let (ending, ended) = mpsc::channel();
        let target = target.clone();
        Self { ending, looker: thread::spawn(move || look(&target, &ended)) }
    }

    /// Ends, and puts what was seen into the profile of the same target. A potential that rests on an assumed reload is judged anew
    /// where less was touched than that.
    pub fn finish(self, profile: &mut Profile, machine: &Machine) {
        drop(self.ending);
        let seen = self.looker.join().unwrap_or_default();
        if let Some(error) = seen.refused.filter(|_| seen.programs.is_empty()) {
            profile.untold.push(format!(
                "which pages were touched: the kernel refuses to clear its marks at them (clear_refs): {error}"
            ));
        }
        if !seen.programs.is_empty() {
            profile.untold.push(UNDISTURBED_UNTOLD.to_owned());
        }
        let judge = Judge::new(machine);
        for program in &mut profile.programs {
            let Some(touched) = seen.programs.get(&program.name) else { continue };
            let set = touched.working_set();
            if let Some(judgement) = judge.by_working_set(program, &set) {
                program.potential = judgement.potential;
                program.potential_reason = judgement.reason;
                program.potential_percent = judgement.percent;
            }
            program.working_set = Some(set);
        }
    }
}

impl Touched {
    fn working_set(&self) -> WorkingSet {
        let median_kib = |bytes: &Vec<u64>| {
            let mut sorted = bytes.clone();
            sorted.sort_unstable();
            (sorted.len() >= LEAST_LOOKS).then(|| sorted[sorted.len() / 2] as f64 / 1024.0)
        };
        WorkingSet {
            edges_ms: INTERVAL_EDGES_MS.to_vec(),
            looks: self.bytes.iter().map(|bytes| bytes.len() as u64).collect(),
            median_kib: self.bytes.iter().map(median_kib).collect(),
            huge_pages_kib: self.huge_bytes as f64 / 1024.0,
        }
    }
}

fn look(target: &Target, ended: &Receiver<()>) -> Seen {
    let mut seen = Seen::default();
    let (mut processes, mut searched) = (Vec::new(), None);
    // CPU time at the last look: who had none since touches nothing.
    let mut known: BTreeMap<Pid, Duration> = BTreeMap::new();
    for round in 0.. {
        if searched.is_none_or(|at: Instant| at.elapsed() >= BETWEEN_SEARCHES) {
            (processes, searched) = (processes_of(target), Some(Instant::now()));
        }
        let mut pause = LEAST_PAUSE;
        for &pid in &processes {
            let Some(now) = cpu_time(pid).filter(|now| known.get(&pid) != Some(now)) else { continue };
            known.insert(pid, now);
            let window = Duration::from_micros(WINDOWS_US[round % BINS]);
            match look_at(pid, window, ended) {
                Ok(look) => {
                    pause = (look.cost * PAUSE_FACTOR).max(LEAST_PAUSE);
                    seen.add(pid, &look);
                }
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => seen.refused = Some(error),
                // It has ended.
                Err(_) => searched = None,
            }
            if is_over(ended, pause) {
                return seen;
            }
        }
        if is_over(ended, pause) {
            return seen;
        }
    }
    seen
}

/// Waits for so long at most; whether it is time to end.
fn is_over(ended: &Receiver<()>, at_most: Duration) -> bool {
    !matches!(ended.recv_timeout(at_most), Err(RecvTimeoutError::Timeout))
}

fn processes_of(target: &Target) -> Vec<Pid> {
    let own = Pid(std::process::id() as i32);
    match target {
        Target::Command(_) => own.descendants(),
        Target::Running(target) => target.processes(),
        Target::All => Pid::all().into_iter().filter(|pid| *pid != own).collect(),
    }
}

/// One process after a moment.
struct Look {
    cpu: Duration,
    touched_bytes: u64,
    huge_bytes: u64,
    /// Time to clear and to count marks.
    cost: Duration,
}

/// What a process touches from now on for about so long.
///
/// # Errors
/// The process has ended, or is somebody else's.
fn look_at(pid: Pid, window: Duration, ended: &Receiver<()>) -> io::Result<Look> {
    let gone = || io::Error::from(io::ErrorKind::NotFound);
    let clearing = Instant::now();
    pid.clear_references()?;
    let before = cpu_time(pid).ok_or_else(gone)?;
    let cleared = clearing.elapsed();
    is_over(ended, window);
    let counting = Instant::now();
    let after = cpu_time(pid).ok_or_else(gone)?;
    let touched_bytes = pid.referenced_bytes().ok_or_else(gone)?;
    let huge_bytes = pid.huge_page_bytes(pid.main_thread()).unwrap_or(0);
    let cost = cleared + counting.elapsed();
    Ok(Look { cpu: after.saturating_sub(before), touched_bytes, huge_bytes, cost })
}

impl Seen {
    fn add(&mut self, pid: Pid, look: &Look) {
        let (Some(name), _) = pid.name_and_migrations(pid.main_thread()) else { return };
        if look.cpu.is_zero() {
            return;
        }
        let ms = look.cpu.as_secs_f64() * 1e3;
        let touched = self.programs.entry(name).or_default();
        touched.bytes[INTERVAL_EDGES_MS.partition_point(|&edge| edge <= ms)].push(look.touched_bytes);
        touched.huge_bytes = touched.huge_bytes.max(look.huge_bytes);
    }
}

/// CPU time of all threads of a process that live; none when it has ended.
fn cpu_time(pid: Pid) -> Option<Duration> {
    let clock = ClockId::pid_cpu_clock_id(nix::unistd::Pid::from_raw(pid.0)).ok()?;
    clock_gettime(clock).ok().map(Duration::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::{Histogram, TimeBin};
    use crate::profile::{Histograms, Potential, Program};

    #[test]
    fn medians_are_those_of_looks_and_few_tell_nothing() {
        let mut touched = Touched::default();
        touched.bytes[0] = vec![4096; LEAST_LOOKS - 1];
        touched.bytes[1] = vec![8 << 10, 4 << 10, 1 << 30, 12 << 10, 16 << 10];
        let set = touched.working_set();
        assert_eq!(set.median_kib[..3], [None, Some(12.0), None]);
        assert_eq!(set.looks[..3], [1, 5, 0]);
    }

    #[test]
    fn who_touches_less_than_a_cache_reloads_no_more_than_that() {
        let machine = Machine::named("pack:1 l3:1(size=16MiB) l2:2(size=1MiB) core:1 pu:1").unwrap();
        let bin = TimeBin { from_us: 2_000.0, to_us: 2_200.0, count: 1_000 };
        let slices = Histogram { count: 1_000, total_ms: 2_100.0, longest_ms: 2.2, bins: vec![bin] };
        let program = |potential| Program {
            name: "app".into(),
            cpu_s: 2.1,
            potential,
            histograms: Histograms { effective_slice: slices.clone(), ..Histograms::default() },
            ..Program::default()
        };
        let judged = |kib: f64, potential| {
            let mut median_kib = vec![None; BINS];
            median_kib[1] = Some(kib);
            let set = WorkingSet { median_kib, ..WorkingSet::default() };
            Judge::new(&machine).by_working_set(&program(potential), &set)
        };
        // 64 KiB are 1,024 lines, 25.6 us of each slice of 2.1 ms.
        let judgement = judged(64.0, Potential::High).unwrap();
        assert!((judgement.percent.unwrap() - 100.0 * 0.0256 / 2.1).abs() < 1e-9, "{}", judgement.reason);
        assert_eq!(judgement.potential, Potential::Low);
        assert!(judged(2_048.0, Potential::High).is_none(), "more than the cache holds");
        assert!(judged(64.0, Potential::Unknown).is_none(), "nothing is known of it at all");
    }
}
