//! Traces against what the same run's profile counted, read by an independent reader of their format: [`wire`].
//!
//! Subjects are this executable again, as in `truth.rs`.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod wire;

use ::profile::trace::TraceTo;
use ::profile::watching::profile_and_trace;
use ::profile::{CallKind, Profile, Program, Target, collector};
use libtest_mimic::{Arguments, Trial};
use machine::Machine;
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork};
use std::collections::BTreeMap;
use std::io::{Read, Write, pipe};
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{env, fs};
use wire::Fields;

const SUBJECT: &str = "--subject";

/// How often two processes of `works` answer one another.
const ANSWERS: u64 = 500;

/// Numbers that traces give to who is no watched thread.
const IDLE: u64 = 0;
const FIRST_STRANGER: u64 = 0x7fff_fffd;

fn main() {
    let words: Vec<String> = env::args().collect();
    if let Some(at) = words.iter().position(|word| word == SUBJECT) {
        return subject(&words[at + 1]);
    }
    let tests: [(&str, fn()); 4] = [
        ("every_slice_is_what_was_counted", every_slice_is_what_was_counted),
        ("strangers_have_no_names", strangers_have_no_names),
        ("what_a_killed_profile_leaves_is_whole_packets", what_a_killed_profile_leaves_is_whole_packets),
        ("what_is_lost_is_told_and_counted_all_the_same", what_is_lost_is_told_and_counted_all_the_same),
    ];
    let refused = collector::check().err();
    refused.iter().for_each(|refused| println!("skipped: {refused}"));
    let trial = |(name, test): (&str, fn())| {
        let run = move || {
            test();
            Ok(())
        };
        Trial::test(name, run).with_ignored_flag(refused.is_some())
    };
    // One by one: they measure.
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    libtest_mimic::run(&arguments, tests.map(trial).into()).exit();
}

// Subjects.

fn subject(name: &str) {
    // A test that fails leaves nothing behind.
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL).unwrap();
    match name {
        "works" => works(),
        "answers" => answers(ANSWERS),
        "endless" => answers(u64::MAX),
        "trace" => drop(trace_of("endless", TraceTo::file(&PathBuf::from(env::var("TRACE").unwrap())))),
        other => panic!("no subject {other}"),
    }
}

/// Two processes that answer one another by pipes.
fn answers(count: u64) {
    let (mut here, mut to_here) = pipe().unwrap();
    let (mut there, mut to_there) = pipe().unwrap();
    // SAFETY: this process has no other thread.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL).unwrap();
            drop(to_there);
            while there.read(&mut [0]).unwrap() > 0 {
                to_here.write_all(&[0]).unwrap();
            }
            process::exit(0);
        }
        ForkResult::Parent { child } => {
            for _ in 0..count {
                to_there.write_all(&[0]).unwrap();
                here.read_exact(&mut [0]).unwrap();
            }
            drop(to_there);
            waitpid(child, None).unwrap();
        }
    }
}

/// A few processes more than there are CPUs, which compute and sleep.
fn works() {
    let spin = || (0..200_000_u64).fold(0, |sum, number| std::hint::black_box(sum + number));
    let mut children: Vec<Pid> = Vec::new();
    for _ in 0..6 {
        // SAFETY: this process has no other thread.
        match unsafe { fork() }.unwrap() {
            ForkResult::Child => {
                for _ in 0..20 {
                    spin();
                    sleep(Duration::from_millis(1));
                }
                process::exit(0);
            }
            ForkResult::Parent { child } => children.push(child),
        }
    }
    answers(ANSWERS);
    for child in children {
        waitpid(child, None).unwrap();
    }
}

// What a trace says.

/// A thread's times on CPUs.
#[derive(Clone, Debug, Default, PartialEq)]
struct OnCpus {
    switches: u64,
    cpu_ns: u64,
}

#[derive(Debug, Default)]
struct Told {
    threads: BTreeMap<u64, OnCpus>,
    names: BTreeMap<u64, String>,
    /// Intervals by what ended them.
    ends: BTreeMap<String, u64>,
    interval_ns: u64,
    /// CPU times of effective slices, in ns, by names.
    slices_ns: BTreeMap<String, Vec<u64>>,
    moves: u64,
    wakes: BTreeMap<(String, u64), u64>,
    lost: u64,
    /// Switches that must have been, by what comes after.
    untold_switches: u64,
    /// Those of which the trace says so.
    marked_switches: u64,
    has_lost_bundle: bool,
    /// When, who, on which CPU.
    arrivals: Vec<(u64, u64, u64)>,
    packets: usize,
    read_bytes: usize,
}

impl Told {
    /// How often a thread came to another CPU than the last.
    fn moves_of(&self, tid: u64) -> u64 {
        let mut arrivals: Vec<_> = self.arrivals.iter().filter(|(_, who, _)| *who == tid).collect();
        // Packets are in order for each CPU alone.
        arrivals.sort_unstable();
        arrivals.windows(2).filter(|pair| pair[0].2 != pair[1].2).count() as u64
    }
}

fn read(bytes: &[u8]) -> Told {
    let (trace, read_bytes) = Fields::until_torn(bytes);
    let mut told = Told { read_bytes, ..Told::default() };
    let mut running: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    let mut open: BTreeMap<u64, (String, u64, u64)> = BTreeMap::new();
    let mut tracks: BTreeMap<u64, Fields<'_>> = BTreeMap::new();
    for packet in trace.all(1).map(Fields::of) {
        told.packets += 1;
        if let Some(tree) = packet.message(2) {
            for thread in tree.all(2).map(Fields::of) {
                told.names.insert(thread.number(1), thread.text(2));
            }
        }
        if let Some(descriptor) = packet.message(60) {
            tracks.insert(descriptor.number(1), descriptor);
        }
        if let Some(bundle) = packet.message(1) {
            assert!(bundle.has(1));
            told.has_lost_bundle |= bundle.number(3) != 0;
            bundle
                .all(2)
                .map(Fields::of)
                .for_each(|event| read_event(&event, bundle.number(1), &mut running, &mut told));
        }
        let Some(event) = packet.message(11) else { continue };
        let (kind, uuid, at_ns) = (event.number(9), event.number(11), packet.number(8));
        let track = tracks.get(&uuid).unwrap_or_else(|| panic!("no track {uuid}"));
        let number = |wanted: &str| {
            let mut annotations = event.all(4).map(Fields::of);
            annotations.find(|annotation| annotation.text(10) == wanted).map_or(0, |annotation| annotation.number(3))
        };
        match kind {
            1 => assert!(open.insert(uuid, (event.text(23), at_ns, number("cpu_ns"))).is_none()),
            2 => {
                let (name, since_ns, cpu_ns) = open.remove(&uuid).unwrap();
                if track.has(4) {
                    *told.ends.entry(name).or_default() += 1;
                    told.interval_ns += at_ns - since_ns;
                } else {
                    assert!(cpu_ns <= at_ns - since_ns);
                    told.slices_ns.entry(name).or_default().push(cpu_ns);
                }
            }
            3 if event.text(23) == "moved" => told.moves += 1,
            3 if event.text(23).starts_with("a switch") => told.marked_switches += 1,
            3 => told.lost += number("events"),
            kind => panic!("an event of type {kind}"),
        }
    }
    assert!(open.is_empty(), "{open:?}");
    told
}

fn read_event(event: &Fields<'_>, cpu: u64, running: &mut BTreeMap<u64, (u64, u64)>, told: &mut Told) {
    let at_ns = event.number(1);
    if let Some(switch) = event.message(4) {
        let (leaves, comes) = (switch.number(2), switch.number(6));
        if let Some((tid, since_ns)) = running.insert(cpu, (comes, at_ns)) {
            assert!(since_ns <= at_ns);
            if tid == leaves {
                told.threads.entry(leaves).or_default().cpu_ns += at_ns - since_ns;
            } else {
                told.untold_switches += 1;
            }
        }
        told.threads.entry(comes).or_default().switches += 1;
        told.arrivals.push((at_ns, comes, cpu));
    }
    if let Some(waking) = event.message(20) {
        let waker = if event.number(5) != 0 { IDLE } else { event.number(2) };
        *told.wakes.entry((waking.text(1), waker)).or_default() += 1;
    }
}

// Tests.

fn trace_of(subject: &str, to: TraceTo<'_>) -> Profile {
    let words = vec![env::current_exe().unwrap().into(), SUBJECT.into(), subject.into()];
    let machine = Machine::host().unwrap();
    let profiled = profile_and_trace(&Target::Command(words), None, &machine, Some(to)).unwrap();
    assert!(profiled.trace_failure.is_none());
    profiled.profile
}

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// This executable as a program.
fn own(profile: &Profile) -> &Program {
    profile.programs.iter().find(|program| program.name.starts_with("trace-")).unwrap()
}

fn every_slice_is_what_was_counted() {
    let folder = scratch();
    let path = folder.path().join("a.pftrace");
    let profile = trace_of("works", TraceTo::file(&path));
    let sums = profile.trace.unwrap();
    assert_eq!(sums.lost_events, 0);
    let bytes = fs::read(&path).unwrap();
    let told = read(&bytes);
    assert_eq!((told.read_bytes, sums.bytes), (bytes.len(), bytes.len() as u64));
    // Those that some kernels of virtual machines leave out.
    assert_eq!(told.untold_switches, told.marked_switches);
    let program = own(&profile);
    assert_eq!(program.by_thread.len(), 8);
    // Where the kernel leaves out an event, the profile says so, and both may differ by that.
    let lost = profile.lost_events;
    println!("{lost} lost, {} not told, {} slices", told.untold_switches, told.slices_ns.values().flatten().count());
    let main = program.by_thread.iter().map(|row| row.tid).min().unwrap();
    for row in &program.by_thread {
        let thread = &told.threads[&(row.tid as u64)];
        // The command has its CPU when it is executed, which is no switch.
        let began = u64::from(row.tid == main);
        assert!(thread.switches.abs_diff(row.switches + began) <= lost, "{row:?}, {thread:?}");
        let moves = told.moves_of(row.tid as u64);
        assert!(moves.abs_diff(row.migrations) <= lost, "{row:?}, {moves} moves");
        if lost == 0 {
            assert_eq!(thread.cpu_ns, (row.cpu_s * 1e9).round() as u64, "{row:?}");
        }
        assert_eq!(told.names[&(row.tid as u64)], row.name);
    }
    assert!(told.moves.abs_diff(program.by_thread.iter().map(|row| row.migrations).sum()) <= lost);
    // Intervals and their ends: the first isn't counted as an interval, but its end is.
    let intervals: u64 = told.ends.values().sum();
    assert!(intervals.abs_diff(program.histograms.dispatch_interval.count + 1) <= lost, "{told:?}");
    let end = |name: &str| told.ends.get(name).copied().unwrap_or(0);
    for (name, counted) in [
        ("exit", program.exits),
        ("pipe", program.system_calls[&CallKind::Pipe]),
        ("a time", program.system_calls[&CallKind::Timer]),
        ("a child", program.system_calls[&CallKind::Process]),
    ] {
        assert!(end(name).abs_diff(counted) <= lost, "{name}: {counted}, {told:?}");
    }
    if lost == 0 {
        assert_eq!(told.interval_ns, (program.cpu_s * 1e9).round() as u64);
        let slices = &program.histograms.effective_slice;
        let told_slices = told.slices_ns.values().flatten();
        assert_eq!(told_slices.clone().count() as u64, slices.count);
        assert_eq!(told_slices.sum::<u64>(), (slices.total_ms * 1e6).round() as u64);
    }
    // Who woke whom.
    let wakers = program.wakers.as_ref().unwrap();
    let counted = |name: &str| wakers.iter().find(|waker| waker.program == name).map_or(0, |waker| waker.count);
    let is_thread = |tid: &u64| program.by_thread.iter().any(|row| row.tid as u64 == *tid);
    let by_itself: u64 = told.wakes.iter().filter(|((_, waker), _)| is_thread(waker)).map(|(_, count)| count).sum();
    assert!(by_itself.abs_diff(counted(&program.name)) <= lost, "{wakers:?}, {:?}", told.wakes);
    let by_interrupts: u64 = told.wakes.iter().filter(|((_, waker), _)| *waker == IDLE).map(|(_, count)| count).sum();
    assert!(by_interrupts.abs_diff(counted("interrupts")) <= lost, "{wakers:?}, {:?}", told.wakes);
    // Nothing is left beside it.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

fn strangers_have_no_names() {
    let folder = scratch();
    let path = folder.path().join("a.pftrace");
    // Somebody who is busy meanwhile.
    let mut stranger = Command::new("sh").args(["-c", "while :; do sleep 0; done"]).spawn().unwrap();
    let profile = trace_of("works", TraceTo::file(&path));
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    let told = read(&fs::read(&path).unwrap());
    let rows: Vec<u64> = own(&profile).by_thread.iter().map(|row| row.tid as u64).collect();
    for tid in told.threads.keys() {
        assert!(*tid == IDLE || *tid >= FIRST_STRANGER || rows.contains(tid), "{tid}: {told:?}");
    }
    assert!(told.names.values().all(|name| !["sh", "sleep"].contains(&name.as_str())), "{:?}", told.names);
}

/// Waits until a file has so many bytes.
fn wait_for(path: &Path, bytes: u64) {
    let begun = Instant::now();
    while fs::metadata(path).map_or(0, |data| data.len()) < bytes {
        assert!(begun.elapsed() < Duration::from_secs(60), "{}", path.display());
        sleep(Duration::from_millis(5));
    }
}

fn what_a_killed_profile_leaves_is_whole_packets() {
    let folder = scratch();
    let path = folder.path().join("a.pftrace");
    let incomplete = folder.path().join("a.pftrace.incomplete");
    let mut profiler = Command::new(env::current_exe().unwrap())
        .args([SUBJECT, "trace"])
        .env("TRACE", &path)
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    wait_for(&incomplete, 200_000);
    profiler.kill().unwrap();
    profiler.wait().unwrap();
    assert!(!path.exists());
    let bytes = fs::read(&incomplete).unwrap();
    let whole = read_torn(&bytes);
    assert!(whole.packets > 100 && whole.threads.len() > 2);
    // Wherever it is torn off, all before that is there.
    let mut before = 0;
    for end in (0..bytes.len()).step_by(9_973) {
        let packets = read_torn(&bytes[..end]).packets;
        assert!(packets >= before && packets <= whole.packets);
        before = packets;
    }
    // The next one takes its place.
    trace_of("answers", TraceTo::file(&path));
    assert!(path.exists() && !incomplete.exists());
}

/// Reads what may end within a slice.
fn read_torn(bytes: &[u8]) -> Told {
    let (trace, read_bytes) = Fields::until_torn(bytes);
    let mut told = Told { read_bytes, ..Told::default() };
    let mut running = BTreeMap::new();
    for packet in trace.all(1).map(Fields::of) {
        told.packets += 1;
        let Some(bundle) = packet.message(1) else { continue };
        bundle.all(2).map(Fields::of).for_each(|event| read_event(&event, bundle.number(1), &mut running, &mut told));
    }
    told
}

fn what_is_lost_is_told_and_counted_all_the_same() {
    let folder = scratch();
    let path = folder.path().join("a.pftrace");
    // Room for a hundred events, of which thousands come before somebody looks.
    let profile = trace_of("works", TraceTo { path: &path, ring_bytes: 4_096 });
    let sums = profile.trace.unwrap();
    assert!(sums.lost_events > 0, "{sums:?}");
    let told = read(&fs::read(&path).unwrap());
    assert!(told.has_lost_bundle);
    assert_eq!(told.lost, sums.lost_events);
    let pipes = own(&profile).system_calls[&CallKind::Pipe];
    assert!(pipes > 0 && own(&profile).exits == 8, "{profile:?}");
    let switches: u64 = told.threads.iter().filter(|(tid, _)| **tid != IDLE).map(|(_, thread)| thread.switches).sum();
    assert!(switches < profile.programs.iter().map(|program| program.switches).sum(), "{switches}");
}
