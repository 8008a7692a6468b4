//! The kernel's side: loaded, attached, read, gone when this process ends.

#[allow(clippy::all, clippy::pedantic, clippy::restriction, warnings, reason = "made by libbpf-cargo")]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/collector.skel.rs"));
}

use crate::call_kinds::call_kinds;
use crate::counts::ProgramCounts;
use crate::intf::{
    self, Cpu, Lengths, MAX_PROGRAMS, MAX_SHARDS, MAX_THREADS, PHASE_DEAD, PHASE_RUNNING, ProgramStats, Thread,
};
use crate::privileges;
use crate::profile::{Move, Others, Waker};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Iter, Link, MapCore, MapFlags, OpenObject, PrintLevel};
use machine::CpuId;
use machine::linux::{Pid, Tid, process};
use nix::time::{ClockId, clock_gettime};
use skeleton::{CollectorSkel, CollectorSkelBuilder};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::Read;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;
use std::{fs, io};

/// Why nothing can be counted in the kernel, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

/// Who is watched in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// Everybody but the kernel's own threads.
    All,
    /// Those that [`Collector::watch`] names, and all that they create.
    Named,
    /// What this process starts from now on, from its first program, and all that it creates.
    Started,
}

/// Counters in the kernel, in memory of the caller's. They are gone when this is dropped, and when this process ends, however
/// it does.
pub struct Collector<'a> {
    skeleton: CollectorSkel<'a>,
    links: Vec<Link>,
    shards: u32,
    cpus: u32,
    begun_ns: u64,
    stopped: Option<Stopped>,
}

/// When it stopped counting, and how often it was not run till then.
#[derive(Clone, Copy)]
pub(crate) struct Stopped {
    at_ns: u64,
    missed: u64,
}

/// What was counted.
#[derive(Clone)]
pub(crate) struct Counted {
    pub programs: Vec<ProgramCounts>,
    pub seconds: f64,
    pub lost_events: u64,
    pub others: Others,
    /// Moves that were counted without from where to where.
    pub moves_untold: u64,
    /// Whether this kernel tells interrupts from threads that wake somebody.
    pub has_wakers: bool,
    /// Whether there were more programs than are told apart.
    pub has_crowd: bool,
}

/// By which names threads are called.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    /// Those that they have now: a file is read for each.
    Current,
    /// Those that the kernel's side has kept.
    Kept,
}

/// Numbers of capabilities, from `linux/capability.h`.
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// The number of the first PID namespace's file.
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// By what a process may count in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// CAP_SYS_ADMIN, which root has.
    Root,
    /// CAP_BPF and CAP_PERFMON.
    Capabilities,
}

/// By what this process may count in the kernel.
///
/// # Errors
/// What is missing.
pub fn check() -> Result<Right, Refused> {
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Err(Refused(
            "this kernel has no description of its types, /sys/kernel/btf/vmlinux: it must be built with CONFIG_DEBUG_INFO_BTF".into(),
        ));
    }
    let has = process::has_capability;
    let right = match (has(CAP_SYS_ADMIN), has(CAP_BPF) && has(CAP_PERFMON)) {
        (true, _) => Right::Root,
        (false, true) => Right::Capabilities,
        (false, false) => {
            return Err(Refused("counting in the kernel takes root, or CAP_BPF and CAP_PERFMON".into()));
        }
    };
    // Threads have other numbers in the kernel than in a namespace.
    match fs::read_link("/proc/self/ns/pid") {
        Ok(namespace) if namespace != Path::new(FIRST_PID_NAMESPACE) => Err(Refused(
            "this is a PID namespace (a container), in which threads have other numbers than in the kernel: profile from the host"
                .into(),
        )),
        _ => Ok(right),
    }
}

impl<'a> Collector<'a> {
    /// Loads the programs, which then count those that are `watched`, and gives up what this thread doesn't need to read them
    /// ([`privileges`]).
    ///
    /// # Errors
    /// [`Refused`], with what the kernel said.
    pub fn load(memory: &'a mut MaybeUninit<OpenObject>, watched: Watched) -> Result<Self, Refused> {
        Self::load_with(memory, watched, 0)
    }

    /// The same, and tells each event to a ring of so many bytes (a power of two), which [`Collector::events`] is; 0 tells none.
    ///
    /// # Errors
    /// [`Refused`], with what the kernel said.
    pub(crate) fn load_with(
        memory: &'a mut MaybeUninit<OpenObject>,
        watched: Watched,
        ring_bytes: u32,
    ) -> Result<Self, Refused> {
        check()?;
        // Before 5.18 sched_switch has three arguments, and a program that reads the fourth is refused.
        let has_prev_state = switch_tells_state();
        libbpf_rs::set_print(Some((PrintLevel::Debug, keep)));
        let cpus = libbpf_rs::num_possible_cpus().map_err(refused)? as u32;
        if cpus > intf::MAX_CPUS {
            return Err(Refused(format!("this machine has {cpus} CPUs; profiles count up to {}", intf::MAX_CPUS)));
        }
        let shards = cpus.min(MAX_SHARDS);
        let mut open = CollectorSkelBuilder::default().open(memory).map_err(refused)?;
        let Some(rodata) = open.maps.rodata_data.as_deref_mut() else {
            return Err(Refused("the collector has no parameters".into()));
        };
        rodata.has_prev_state = has_prev_state;
        rodata.shares_shards = cpus > shards;
        rodata.traces = ring_bytes > 0;
        // A trace tells when each event was.
        rodata.has_run_delays = ring_bytes == 0 && counts_run_delays();
        rodata.watches_all = watched == Watched::All;
        (rodata.nr_cpus, rodata.nr_shards) = (cpus, shards);
        rodata.launcher = if watched == Watched::Started { std::process::id() } else { 0 };
        rodata.call_kinds = call_kinds();
        open.maps.programs.set_max_entries(MAX_PROGRAMS * shards).map_err(refused)?;
        open.maps.residency.set_max_entries(MAX_PROGRAMS * cpus).map_err(refused)?;
        open.maps.cpus.set_max_entries(cpus).map_err(refused)?;
        if ring_bytes > 0 {
            open.maps.events.set_max_entries(ring_bytes).map_err(refused)?;
        }
        let skeleton = open.load().map_err(refused)?;
        let mut collector = Self { skeleton, links: Vec::new(), shards, cpus, begun_ns: 0, stopped: None };
        collector.attach().map_err(refused)?;
        if watched == Watched::All {
            collector.find_threads()?;
        }
        privileges::drop_others();
        Ok(collector)
    }

    fn attach(&mut self) -> libbpf_rs::Result<()> {
        let programs = &self.skeleton.progs;
        // Births first: who is watched hands it on. Whoever is found meanwhile begins in the middle of an interval anyway.
        for program in
            [&programs.on_fork, &programs.on_exec, &programs.on_waking, &programs.on_first_wakeup, &programs.on_switch]
        {
            self.links.push(program.attach_trace()?);
        }
        self.begun_ns = now_ns();
        Ok(())
    }

    /// Watches the threads of these processes from now on, and all that they create. Those that are watched already stay it.
    ///
    /// # Errors
    /// [`Refused`], where the kernel doesn't list its threads.
    pub fn watch(&mut self, processes: &[Pid]) -> Result<(), Refused> {
        for pid in processes {
            let key = (pid.0 as u32).to_ne_bytes();
            self.skeleton.maps.targets.update(&key, &[1], MapFlags::ANY).map_err(refused)?;
        }
        self.find_threads()
    }

    fn find_threads(&mut self) -> Result<(), Refused> {
        // What is created while the list is gone through may be missed once.
        for _ in 0..2 {
            let link = self.skeleton.progs.find_threads.attach().map_err(refused)?;
            let mut found = Iter::new(&link).map_err(refused)?;
            io::copy(&mut found.by_ref(), &mut io::sink()).map_err(refused)?;
        }
        Ok(())
    }

    /// Where events are told, for a trace.
    pub(crate) fn events(&self) -> &dyn MapCore {
        &self.skeleton.maps.events
    }

    /// How many events the ring had no room for, until now.
    pub(crate) fn untold_events(&self) -> u64 {
        self.skeleton.maps.bss_data.as_deref().map_or(0, |bss| bss.untold_events)
    }

    /// Stops counting, unless it has been.
    pub(crate) fn stop(&mut self) -> Stopped {
        let stopped = self.stopped.unwrap_or_else(|| Stopped { at_ns: now_ns(), missed: self.missed_runs() });
        self.stopped = Some(stopped);
        self.links.clear();
        stopped
    }

    /// Stops counting, and reads what was counted.
    ///
    /// # Errors
    /// [`Refused`], where the kernel's counters can't be read.
    pub(crate) fn finish(mut self) -> Result<Counted, Refused> {
        let stopped = self.stop();
        self.read_counts(&stopped, Names::Current)
    }

    /// Reads what was counted so far, while counting goes on. What changes meanwhile may be in one number already and not yet in
    /// another. Threads are called as they were when they last began.
    ///
    /// # Errors
    /// As [`Self::finish`].
    pub(crate) fn snapshot(&self) -> Result<Counted, Refused> {
        self.read_counts(&Stopped { at_ns: now_ns(), missed: self.missed_runs() }, Names::Kept)
    }

    fn read_counts(&self, &Stopped { at_ns: until_ns, missed }: &Stopped, names: Names) -> Result<Counted, Refused> {
        let Some(bss) = self.skeleton.maps.bss_data.as_deref() else {
            return Err(Refused("the collector has no counters".into()));
        };
        let (next_slot, known_programs, lost) = (bss.next_slot, bss.known_programs, bss.lost_threads + bss.lost_events);
        let mut programs = self.programs(known_programs.saturating_add(1).min(MAX_PROGRAMS))?;
        self.read_threads(next_slot.min(MAX_THREADS), until_ns, names, &mut programs)?;
        self.read_moves(&mut programs)?;
        let has_wakers = bss.unknown_contexts == 0;
        if has_wakers {
            name_wakers(&mut programs);
        }
        let moves_untold = programs.values().map(|program| program.stats.moves_untold).sum();
        let has_crowd = programs.get(&intf::OTHER_PROGRAMS).is_some_and(|program| program.stats.threads > 0);
        let mut programs: Vec<ProgramCounts> =
            programs.into_values().filter(|program| program.stats.threads > 0).collect();
        programs.sort_by_key(|program| std::cmp::Reverse(program.stats.cpu_ns));
        let seconds = until_ns.saturating_sub(self.begun_ns) as f64 / 1e9;
        let others = Others { at_ticks_percent: at_ticks_percent(&bss.preemption_phases), ..self.others()? };
        Ok(Counted { programs, seconds, lost_events: missed + lost, others, moves_untold, has_wakers, has_crowd })
    }

    /// What threads did that aren't watched.
    fn others(&self) -> Result<Others, Refused> {
        let (mut turns, mut ns) = (0, 0);
        for number in 0..self.cpus {
            let cpu: Cpu = read(&self.skeleton.maps.cpus, number)?;
            turns += u64::from(cpu.others_turns);
            ns += cpu.others_ns;
        }
        Ok(Others { turns, cpu_s: ns as f64 / 1e9, at_ticks_percent: 0.0 })
    }

    /// How often a program of ours was not run since it was running on that CPU already.
    fn missed_runs(&self) -> u64 {
        let programs = &self.skeleton.progs;
        let count = |fd: i32| {
            let text = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("recursion_misses:"));
            line.and_then(|count| count.trim().parse::<u64>().ok()).unwrap_or(0)
        };
        [&programs.on_switch, &programs.on_waking, &programs.on_first_wakeup, &programs.on_fork, &programs.on_exec]
            .map(|program| count(program.as_fd().as_raw_fd()))
            .iter()
            .sum()
    }

    /// The programs by their numbers, with what was counted of each and where it ran.
    fn programs(&self, count: u32) -> Result<BTreeMap<u32, ProgramCounts>, Refused> {
        let maps = &self.skeleton.maps;
        let mut programs = BTreeMap::from([(intf::OTHER_PROGRAMS, ProgramCounts::new("(others)".into()))]);
        for name in maps.program_ids.keys() {
            let Some(number) = maps.program_ids.lookup(&name, MapFlags::ANY).map_err(refused)? else { continue };
            let name: Vec<u8> = name.iter().copied().take_while(|&byte| byte != 0).collect();
            programs.insert(number_of(&number), ProgramCounts::new(String::from_utf8_lossy(&name).into_owned()));
        }
        for (&number, program) in programs.iter_mut().filter(|&(&number, _)| number < count) {
            for shard in 0..self.shards {
                let mut counted: ProgramStats = read(&maps.programs, number * self.shards + shard)?;
                counted.complete();
                program.stats.add(&counted);
                // A CPU with a shard of its own has no other record of this.
                if self.shards == self.cpus && counted.cpu_ns > 0 {
                    program.residency_ns.insert(CpuId(shard), counted.cpu_ns);
                }
            }
            for cpu in (0..self.cpus).filter(|_| self.cpus > self.shards) {
                let ns: u64 = read(&maps.residency, number * self.cpus + cpu)?;
                if ns > 0 {
                    program.residency_ns.insert(CpuId(cpu), ns);
                }
            }
        }
        Ok(programs)
    }

    /// Reads the threads, and adds what those that have a CPU now have had of it until `until_ns`.
    fn read_threads(
        &self,
        count: u32,
        until_ns: u64,
        names: Names,
        programs: &mut BTreeMap<u32, ProgramCounts>,
    ) -> Result<(), Refused> {
        let maps = &self.skeleton.maps;
        let mut holders = BTreeMap::new();
        for number in 0..self.cpus {
            let cpu: Cpu = read(&maps.cpus, number)?;
            holders.insert(cpu.tid, (CpuId(number), cpu));
        }
        for slot in 0..count {
            let mut thread: Thread = read(&maps.threads, slot)?;
            let Some(program) = programs.get_mut(&thread.program) else { continue };
            if thread.tid == 0 {
                continue;
            }
            thread.began_ns = thread.began_ns.saturating_sub(self.begun_ns);
            let is_running = thread.phase == PHASE_RUNNING && thread.since_ns > 0;
            if let Some((cpu, _)) = holders.get(&thread.tid).filter(|(_, cpu)| is_running && cpu.slot == slot + 1) {
                let ns = until_ns.saturating_sub(thread.since_ns);
                thread.cpu_ns += ns;
                thread.burst_ns += ns;
                program.stats.cpu_ns += ns;
                *program.residency_ns.entry(*cpu).or_default() += ns;
            }
            let (pid, tid) = (Pid(thread.tgid as i32), Tid(thread.tid as i32));
            if names == Names::Current
                && thread.phase != PHASE_DEAD
                && let (Some(name), _) = pid.name_and_migrations(tid)
            {
                thread.comm = comm(&name);
            }
            let lengths: Lengths = read(&maps.lengths, slot)?;
            program.lengths.insert((thread.tgid, thread.tid), lengths);
            program.add_thread(thread, until_ns);
        }
        Ok(())
    }

    fn read_moves(&self, programs: &mut BTreeMap<u32, ProgramCounts>) -> Result<(), Refused> {
        let maps = &self.skeleton.maps;
        for key in maps.moves.keys() {
            let moved: intf::CpuMove = bytemuck::pod_read_unaligned(&key);
            let count = maps.moves.lookup(&key, MapFlags::ANY).map_err(refused)?;
            let (Some(count), Some(program)) = (count, programs.get_mut(&moved.program)) else { continue };
            let (from, to) = (CpuId(moved.from.into()), CpuId(moved.to.into()));
            program.moves.push(Move { from, to, count: bytemuck::pod_read_unaligned(&count) });
        }
        Ok(())
    }
}

/// Says of each program who woke its threads, most often first.
fn name_wakers(programs: &mut BTreeMap<u32, ProgramCounts>) {
    let names: BTreeMap<u32, String> = (programs.iter().map(|(&number, program)| (number, program.name.clone())))
        .chain([
            (intf::WAKER_INTERRUPT, Waker::INTERRUPTS.into()),
            (intf::WAKER_KERNEL, Waker::KERNEL.into()),
            (intf::WAKER_UNWATCHED, Waker::OTHERS.into()),
        ])
        .collect();
    for program in programs.values_mut() {
        let counts = (0..).zip(program.stats.wakers).filter(|&(_, count)| count > 0);
        let name = |number| names.get(&number).cloned().unwrap_or_else(|| Waker::OTHERS.into());
        let mut wakers: Vec<Waker> = counts.map(|(number, count)| Waker { program: name(number), count }).collect();
        wakers.sort_by_key(|waker| std::cmp::Reverse(waker.count));
        program.wakers = Some(wakers);
    }
}

/// Share of what happened at clock ticks, in percent, of counts by the time within a millisecond: what stands out of the others.
fn at_ticks_percent(phases: &[u64]) -> f64 {
    let mut sorted = phases.to_vec();
    sorted.sort_unstable();
    let usual = sorted.get(sorted.len() / 2).copied().unwrap_or(0) as f64;
    let stands_out = |count: f64| count > usual + 4.0 * usual.max(1.0).sqrt();
    let counts = phases.iter().map(|&count| count as f64);
    let excess: f64 = counts.clone().filter(|&count| stands_out(count)).map(|count| count - usual).sum();
    100.0 * excess / counts.sum::<f64>().max(1.0)
}

/// A value of an array in the kernel.
fn read<T: bytemuck::AnyBitPattern>(map: &impl MapCore, number: u32) -> Result<T, Refused> {
    let bytes = map.lookup(&number.to_ne_bytes(), MapFlags::ANY).map_err(refused)?;
    let bytes = bytes.filter(|bytes| bytes.len() == size_of::<T>());
    bytes.map(|bytes| bytemuck::pod_read_unaligned(&bytes)).ok_or_else(|| Refused("a counter can't be read".into()))
}

fn number_of(bytes: &[u8]) -> u32 {
    bytes.try_into().map_or(intf::OTHER_PROGRAMS, u32::from_ne_bytes)
}

/// A name as the kernel keeps it.
fn comm(name: &str) -> [i8; 16] {
    let mut comm = [0; 16];
    comm.iter_mut().zip(name.bytes().take(15)).for_each(|(to, from)| *to = from as i8);
    comm
}

/// The time on the clock that the kernel's side reads, in ns.
pub(crate) fn now_ns() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |now| Duration::from(now).as_nanos() as u64)
}

/// Whether the kernel's sched_switch has the former thread's state as its fourth argument, as from 5.18 on.
fn switch_tells_state() -> bool {
    use libbpf_rs::ReferencesType;
    use libbpf_rs::btf::{Btf, types};
    let told = || {
        let btf = Btf::from_vmlinux().ok()?;
        let function: types::Typedef<'_> = btf.type_by_name("btf_trace_sched_switch")?;
        let pointer = types::Ptr::try_from(function.referenced_type()).ok()?;
        let prototype = types::FuncProto::try_from(pointer.referenced_type()).ok()?;
        // The first is libbpf's own.
        Some(prototype.len() >= 5)
    };
    told().unwrap_or(true)
}

/// Whether the kernel counts how long threads wait in run queues: it has let us have a CPU, which it then counts as well.
fn counts_run_delays() -> bool {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().nth(2).and_then(|turns| turns.parse::<u64>().ok()).is_some_and(|turns| turns > 0)
}

/// The first complaints of libbpf, which name the cause.
static COMPLAINTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// How many complaints are kept.
const KEPT: usize = 2;

fn keep(level: PrintLevel, text: String) {
    if let (PrintLevel::Warn, Ok(mut complaints)) = (level, COMPLAINTS.lock())
        && complaints.len() < KEPT
    {
        complaints.push(text.lines().next().unwrap_or_default().trim_start_matches("libbpf: ").trim().to_owned());
    }
}

fn refused(error: impl Display) -> Refused {
    let complaints = COMPLAINTS.lock().map(|complaints| complaints.join("; ")).unwrap_or_default();
    let cause = if complaints.is_empty() { error.to_string() } else { complaints };
    Refused(format!("the kernel refused to count: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_stand_out() {
        let mut phases = [10; 62];
        assert_eq!(at_ticks_percent(&phases), 0.0);
        assert_eq!(at_ticks_percent(&[0; 62]), 0.0);
        (phases[7], phases[8]) = (400, 240);
        // 620 of 1,240.
        assert!((at_ticks_percent(&phases) - 50.0).abs() < 1e-9);
        assert_eq!(at_ticks_percent(&[0, 0, 90, 0, 0]), 100.0);
    }
}
