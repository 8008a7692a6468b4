//! What is counted against what is known: subjects are this executable again, and do exactly what their names say.
//!
//! Counts must be exact. Times are compared with what the subject measured itself, so that a busy machine fails nothing.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use ::profile::profile::{Potential, Source, Waker};
use ::profile::watching::profile;
use ::profile::{CallKind, Collector, Profile, Program, Target, Watched, collector};
use libbpf_rs::query::ProgInfoIter;
use libtest_mimic::{Arguments, Trial};
use machine::{CpuId, Machine};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork};
use std::collections::BTreeSet;
use std::io::{Read, Write, pipe};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{env, fs, process};

const SUBJECT: &str = "--subject";

/// Rounds of `bursts`.
const ROUNDS: u64 = 200;
const WAITS: u64 = 25;
const FORKS: u64 = 10_000;
const WAKES: u64 = 1_000;
/// Threads of `crowd`, which all live at once, and how often each yields its CPU.
const CROWD: u64 = 10_000;
const YIELDS: u64 = 30;

/// How often a test may be run until it passes.
const ATTEMPTS: u32 = 3;

fn main() {
    let words: Vec<String> = env::args().collect();
    if let Some(at) = words.iter().position(|word| word == SUBJECT) {
        return subject(&words[at + 1]);
    }
    let tests: [(&str, fn()); 14] = [
        ("bursts_blocks_and_cpu_time_are_those_of_the_program", bursts_blocks_and_cpu_time_are_those_of_the_program),
        ("every_wait_is_counted_by_what_it_waits_for", every_wait_is_counted_by_what_it_waits_for),
        ("every_wake_up_is_counted_by_who_did_it", every_wake_up_is_counted_by_who_did_it),
        ("who_is_woken_on_a_cpu_that_idles_comes_there", who_is_woken_on_a_cpu_that_idles_comes_there),
        ("every_move_between_cpus_is_counted", every_move_between_cpus_is_counted),
        ("ten_thousand_forks_lose_nothing", ten_thousand_forks_lose_nothing),
        (
            "of_ten_thousand_threads_at_once_hardly_a_switch_is_lost_and_each_is_told",
            of_ten_thousand_threads_at_once_hardly_a_switch_is_lost_and_each_is_told,
        ),
        ("who_executes_another_program_is_counted_there", who_executes_another_program_is_counted_there),
        ("what_runs_already_is_found_and_followed", what_runs_already_is_found_and_followed),
        ("who_ends_meanwhile_ends_its_profile", who_ends_meanwhile_ends_its_profile),
        ("nothing_stays_in_the_kernel_even_after_kill_9", nothing_stays_in_the_kernel_even_after_kill_9),
        ("two_profiles_at_once_count_the_same", two_profiles_at_once_count_the_same),
        ("perf_sched_counts_the_same", perf_sched_counts_the_same),
        ("only_the_profiler_gives_up_capabilities", only_the_profiler_gives_up_capabilities),
    ];
    let refused = collector::check().err();
    refused.iter().for_each(|refused| println!("skipped: {refused}"));
    let trial = |(name, test): (&'static str, fn())| {
        let run = move || {
            passes(name, test);
            Ok(())
        };
        Trial::test(name, run).with_ignored_flag(refused.is_some())
    };
    // One by one: they measure.
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    libtest_mimic::run(&arguments, tests.map(trial).into()).exit();
}

/// Some kernels of virtual machines leave out switches without a trace, now and then: what is counted wrongly by us is so each time.
fn passes(name: &str, test: fn()) {
    for attempt in 1..ATTEMPTS {
        if runs(test) {
            return;
        }
        println!("{name}: attempt {attempt} of {ATTEMPTS} failed");
    }
    assert!(runs(test), "{name} failed");
}

/// Whether it passes, in a thread of its own: whoever counts in the kernel gives up capabilities.
fn runs(test: fn()) -> bool {
    std::thread::spawn(test).join().is_ok()
}

// Subjects.

fn subject(name: &str) {
    // A test that fails leaves nothing behind.
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL).unwrap();
    match name {
        "bursts" => bursts(),
        "waits" => waits(),
        "wakes" => wakes(),
        "woken" => woken(),
        "across" => across(),
        "moves" => moves(),
        "forks" => forks(),
        "crowd" => crowd(),
        "exec" => panic!("{}", Command::new("true").exec()),
        "endless" => endless(),
        "collect" => collect(),
        other => panic!("no subject {other}"),
    }
}

fn thread_cpu_ns() -> u64 {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap();
    Duration::from(time).as_nanos() as u64
}

fn spin(ns: u64) -> u64 {
    let begun_ns = thread_cpu_ns();
    while thread_cpu_ns() < begun_ns + ns {}
    thread_cpu_ns() - begun_ns
}

fn bursts() {
    let mut spun_ns: Vec<u64> = Vec::new();
    let mut slept_ns: Vec<u64> = Vec::new();
    for _ in 0..ROUNDS {
        spun_ns.push(spin(3_000_000));
        let begun = Instant::now();
        sleep(Duration::from_millis(4));
        slept_ns.push(begun.elapsed().as_nanos() as u64);
    }
    spun_ns.sort_unstable();
    let (spun_ms, slept_ms) = (spun_ns[spun_ns.len() / 2] as f64 / 1e6, slept_ns.iter().sum::<u64>() as f64 / 1e6);
    let answer = format!("{} {spun_ms} {slept_ms}", process::id());
    fs::write(env::var("ANSWER").unwrap(), format!("{answer} {}", thread_cpu_ns())).unwrap();
}

/// Does in a child, which ends with it.
fn in_child(what: impl FnOnce()) -> Pid {
    // SAFETY: this process has no other thread.
    match unsafe { fork() }.unwrap() {
        ForkResult::Parent { child } => child,
        ForkResult::Child => {
            what();
            // SAFETY: it only ends this process.
            unsafe { libc::_exit(0) }
        }
    }
}

/// Longer than anybody takes to come to what it is to wait for.
fn a_while() {
    sleep(Duration::from_millis(20));
}

fn waits() {
    for _ in 0..WAITS {
        let word = 0_u32;
        let time = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        // SAFETY: word and time live as long as the call, which only reads them.
        unsafe { libc::syscall(libc::SYS_futex, &raw const word, libc::FUTEX_WAIT, 0, &raw const time) };
        // SAFETY: there is no descriptor.
        unsafe { libc::poll(std::ptr::null_mut(), 0, 1) };
        let child = in_child(a_while);
        waitpid(child, None).unwrap();
        let (mut reader, mut writer) = pipe().unwrap();
        let child = in_child(|| {
            a_while();
            writer.write_all(&[0]).unwrap();
            // Not before its parent waits for it.
            a_while();
        });
        reader.read_exact(&mut [0]).unwrap();
        waitpid(child, None).unwrap();
        let (mut here, mut there) = UnixStream::pair().unwrap();
        let child = in_child(|| {
            a_while();
            there.write_all(&[0]).unwrap();
            a_while();
        });
        here.read_exact(&mut [0]).unwrap();
        waitpid(child, None).unwrap();
    }
}

/// Wakes another program `WAKES` times by a pipe, which answers each time, and sleeps `WAITS` times.
fn wakes() {
    // With one CPU, and nobody who preempts the other: whoever writes finds the other waiting.
    bind(0);
    // SAFETY: the parameters live as long as the call, which only reads them.
    let set = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &libc::sched_param { sched_priority: 1 }) };
    assert_eq!(set, 0);
    // A program is called as its file is.
    let other = env::temp_dir().join(format!("other-{}", process::id()));
    std::os::unix::fs::symlink(env::current_exe().unwrap(), &other).unwrap();
    let mut command = Command::new(&other);
    command.args([SUBJECT, "woken"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (mut to, mut from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    a_while();
    fs::remove_file(other).unwrap();
    for _ in 0..WAKES {
        to.write_all(&[0]).unwrap();
        from.read_exact(&mut [0]).unwrap();
    }
    drop(to);
    child.wait().unwrap();
    for _ in 0..WAITS {
        sleep(Duration::from_millis(1));
    }
}

fn woken() {
    let (mut from, mut to) = (std::io::stdin().lock(), std::io::stdout().lock());
    while from.read(&mut [0]).unwrap() > 0 {
        to.write_all(&[0]).unwrap();
        to.flush().unwrap();
    }
}

/// Two threads, each on a CPU of its own, hand a byte to and fro `WAKES` times.
fn across() {
    let ((mut from_here, mut to_there), (mut from_there, mut to_here)) = (pipe().unwrap(), pipe().unwrap());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            bind(1);
            while from_here.read(&mut [0]).unwrap() > 0 {
                to_here.write_all(&[0]).unwrap();
            }
        });
        bind(0);
        for _ in 0..WAKES {
            to_there.write_all(&[0]).unwrap();
            from_there.read_exact(&mut [0]).unwrap();
        }
        drop(to_there);
    });
}

fn bind(cpu: usize) {
    let mut cpus = CpuSet::new();
    cpus.set(cpu).unwrap();
    sched_setaffinity(Pid::from_raw(0), &cpus).unwrap();
}

fn moves() {
    for _ in 0..WAITS {
        bind(0);
        bind(1);
    }
}

fn forks() {
    for _ in 0..FORKS {
        waitpid(in_child(|| ()), None).unwrap();
    }
}

/// So many threads yield at once as often as they can, and the kernel's own count of switches is the answer.
fn crowd() {
    let all = Barrier::new(CROWD as usize + 1);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CROWD)
            .map(|_| {
                // None needs more of a stack.
                let thread = std::thread::Builder::new().stack_size(64 << 10);
                let run = || {
                    all.wait();
                    (0..YIELDS).for_each(|_| std::thread::yield_now());
                    std::thread::park();
                };
                thread.spawn_scoped(scope, run).unwrap()
            })
            .collect();
        all.wait();
        // One exits after the other: among many, each would be preempted after its own count was added up.
        for thread in threads {
            thread.thread().unpark();
            thread.join().unwrap();
        }
    });
    // Who was joined still has to exit, and is switched from meanwhile.
    while fs::read_dir("/proc/self/task").unwrap().count() > 1 {
        sleep(Duration::from_millis(1));
    }
    let used = getrusage(UsageWho::RUSAGE_SELF).unwrap();
    let switches = used.voluntary_context_switches() + used.involuntary_context_switches();
    fs::write(env::var("ANSWER").unwrap(), switches.to_string()).unwrap();
}

fn endless() {
    loop {
        spin(1_000_000);
        waitpid(in_child(|| assert!(spin(100_000) > 0)), None).unwrap();
        sleep(Duration::from_millis(1));
    }
}

fn collect() {
    let mut memory = MaybeUninit::uninit();
    let _collector = Collector::load(&mut memory, Watched::All).unwrap();
    println!("loaded");
    sleep(Duration::from_secs(1_000));
}

// Tests.

fn command(subject: &str) -> Vec<std::ffi::OsString> {
    vec![env::current_exe().unwrap().into(), SUBJECT.into(), subject.into()]
}

fn profile_of(subject: &str) -> Profile {
    let profiled = profile(&Target::Command(command(subject)), None, &Machine::host().unwrap()).unwrap();
    let profile = profiled.profile;
    assert_eq!(profile.source, Source::Bpf);
    profile
}

/// Counts are exact, but for events of which the kernel didn't tell; some kernels of virtual machines leave out switches by their
/// own agent, in ftrace as well.
fn assert_count(counted: u64, known: u64, profile: &Profile) {
    let lost = profile.lost_events;
    assert!(counted.abs_diff(known) <= lost, "{counted} counted, {known} known, {lost} lost: {profile:#?}");
    assert!(lost * 100 <= known.max(100) * 5, "{lost} events lost");
}

/// This executable as a program.
fn own(profile: &Profile) -> &Program {
    let found = profile.programs.iter().find(|program| program.name.starts_with("truth-"));
    found.unwrap_or_else(|| panic!("{profile:#?}"))
}

/// Whether both are in one bin or in neighbouring ones.
fn are_near(a_ms: f64, b_ms: f64) -> bool {
    (a_ms / b_ms - 1.0).abs() <= 0.25
}

/// The profile of a subject, and the numbers that it told of itself.
fn profile_and_answer(subject: &str) -> (Profile, Vec<f64>) {
    let answer = env::temp_dir().join(format!("stayput-truth-{}", process::id()));
    // SAFETY: there is no other thread that reads or writes the environment.
    unsafe { env::set_var("ANSWER", &answer) };
    let profile = profile_of(subject);
    let text = fs::read_to_string(&answer).unwrap();
    fs::remove_file(&answer).unwrap();
    (profile, text.split(' ').map(|word| word.parse().unwrap()).collect())
}

fn bursts_blocks_and_cpu_time_are_those_of_the_program() {
    // Its number, the median of what it spun and the sum of what it slept in ms, its CPU time in ns.
    let (profile, told) = profile_and_answer("bursts");
    let program = own(&profile);
    assert_eq!((program.threads, program.exits), (1, 1));
    assert_count(program.system_calls[&CallKind::Timer], ROUNDS, &profile);
    let histograms = &program.histograms;
    assert!(are_near(histograms.burst.quantile_ms(0.5).unwrap(), told[1]), "{:?}, {told:?}", histograms.burst);
    // Whoever is woken on a busy machine waits for a CPU, and takes that for sleep.
    let (block, wake) = (&histograms.block, &histograms.wake_to_run);
    assert!(are_near(block.total_ms + wake.total_ms, told[2]), "{block:?}, {wake:?}, {told:?}");
    assert!(block.quantile_ms(0.5).unwrap() < 1.25 * told[2] / ROUNDS as f64, "{block:?}, {told:?}");
    let [row] = &program.by_thread[..] else { panic!("{:?}", program.by_thread) };
    assert_eq!((f64::from(row.pid), row.switches), (told[0], program.switches));
    // Its own clock began with its creation, and was read before its end.
    // The kernel may charge a thread that it wakes on an idle CPU from the wake-up on, before its switch: that is a wait here.
    let told_s = told[3] / 1e9;
    let (least_s, most_s) = (program.cpu_s / 1.02, (program.cpu_s + row.wait_s) * 1.02);
    assert!((least_s..=most_s).contains(&told_s), "{} s, {} s of waits, {told:?}", program.cpu_s, row.wait_s);
    let at_cpus: f64 = program.residency_s.values().sum();
    assert!((at_cpus - program.cpu_s).abs() < 1e-6);
    // The one in which it was executed has no whole interval.
    assert_count(histograms.dispatch_interval.count, program.switches, &profile);
    assert_ne!(program.potential, Potential::Unknown);
}

fn every_wait_is_counted_by_what_it_waits_for() {
    let profile = profile_of("waits");
    let program = own(&profile);
    let calls = &program.system_calls;
    assert_eq!(program.threads, 1 + 3 * WAITS);
    assert_count(program.exits, 1 + 3 * WAITS, &profile);
    assert_count(calls[&CallKind::Pipe], WAITS, &profile);
    assert_count(calls[&CallKind::Network], WAITS, &profile);
    assert_count(calls[&CallKind::Poll], WAITS, &profile);
    assert_count(calls[&CallKind::Process], 3 * WAITS, &profile);
    assert_count(calls[&CallKind::Timer], 5 * WAITS, &profile);
    let ends = program.histograms.dispatch_interval.count - program.exits;
    // The first interval is counted as an end, though not as an interval.
    let semaphores = program.ends_percent.semaphore * (ends + 1) as f64 / 100.0;
    assert_count(semaphores.round() as u64, WAITS, &profile);
}

fn every_wake_up_is_counted_by_who_did_it() {
    let profile = profile_of("wakes");
    let woken = own(&profile);
    let other = profile.programs.iter().find(|program| program.name.starts_with("other-")).unwrap();
    let count = |woken: &Program, by: &str| {
        let mut wakers = woken.wakers.as_ref().unwrap().iter();
        wakers.find(|waker| waker.program == by).map_or(0, |waker| waker.count)
    };
    // Each answer, and the other's end.
    assert_count(count(woken, &other.name), WAKES + 1, &profile);
    // Each request, and the pipe's end.
    assert_count(count(other, &woken.name), WAKES + 1, &profile);
    assert_count(count(woken, Waker::INTERRUPTS), WAITS + 1, &profile);
    assert_eq!(count(woken, Waker::OTHERS), 0, "{woken:#?}");
    // Each wake-up but a last one ends in a burst, and parts are of the bursts that there are.
    let parts = |program: &Program| {
        let of = &program.histograms;
        assert_count(of.burst_alone.count + of.after_wake.count, of.burst.count, &profile);
        let parts_ms = [&of.burst_alone, &of.before_wake, &of.between_wakes, &of.after_wake].map(|part| part.total_ms);
        // The last burst, which is no whole one, may have a part before a wake-up.
        let last_ms = of.cut_burst.total_ms + 0.001;
        let sum_ms: f64 = parts_ms.iter().sum();
        assert!(sum_ms >= of.burst.total_ms - 0.001 && sum_ms <= of.burst.total_ms + last_ms, "{of:?}");
        let own: u64 = program.by_thread.iter().flat_map(|row| &row.bursts).map(|bin| bin.count).sum();
        assert_count(own, of.burst.count, &profile);
        let own: u64 = program.by_thread.iter().flat_map(|row| &row.blocks).map(|bin| bin.count).sum();
        assert_count(own, of.block.count, &profile);
        of.before_wake.count + of.between_wakes.count
    };
    // Requests, the pipe's end, and the birth; but its first burst is no whole one, and its parts aren't told.
    let acts = [parts(woken), parts(other)];
    assert!((WAKES..=WAKES + 3).contains(&acts[0]) && (WAKES..=WAKES + 2).contains(&acts[1]), "{acts:?}");
    // All that one CPU does is done by those two, and it doesn't idle where one wakes the other.
    assert_eq!([woken, other].map(|program| program.histograms.wake_to_idle_cpu.count), [0, 0], "{profile:#?}");
    // Its own threads it wakes at births and ends alone.
    assert!(woken.histograms.after_waking_peer.count <= 2, "{woken:#?}");
    // It also waits until the child that it made has executed the other program; what wakes that child first ends no blocking.
    let by_threads = count(woken, &other.name) + count(woken, &woken.name) - 1;
    assert_count(woken.histograms.block_by_thread.count, by_threads, &profile);
    let by_peers = count(woken, &woken.name).saturating_sub(1);
    assert!(woken.histograms.block_by_peer.count.abs_diff(by_peers) <= 1 + profile.lost_events, "{woken:#?}");
    // Whatever was woken was woken by somebody; the first was there already, the second was born.
    let all: u64 = woken.wakers.iter().flatten().map(|waker| waker.count).sum();
    assert_count(all, woken.histograms.block.count + woken.threads - 1, &profile);
}

/// Whether there are the CPUs 0 and 1.
fn has_two_cpus() -> bool {
    let cpus: Vec<CpuId> = Machine::host().unwrap().usable().collect();
    cpus.contains(&CpuId(0)) && cpus.contains(&CpuId(1))
}

fn who_is_woken_on_a_cpu_that_idles_comes_there() {
    if !has_two_cpus() {
        return println!("skipped: no CPUs 0 and 1");
    }
    let profile = profile_of("across");
    let histograms = &own(&profile).histograms;
    let (idle, blocks) = (&histograms.wake_to_idle_cpu, &histograms.block);
    // Others may have the CPU meanwhile; where they have it all the time, it never idles.
    let is_busy = profile.others.is_some_and(|others| others.cpu_s > 0.5 * profile.seconds);
    if is_busy && idle.count == 0 {
        return println!("skipped: others had the CPUs");
    }
    assert!(idle.count > 0 && idle.count <= blocks.count + profile.lost_events, "{histograms:#?}");
    // Until who was woken comes, it is blocked or waits.
    assert!(idle.total_ms <= blocks.total_ms + histograms.wait.total_ms, "{histograms:#?}");
    assert!(profile.wake_us().is_some_and(|us| us <= idle.longest_ms * 1e3), "{histograms:#?}");
    // Whom it wakes is always one of its own.
    assert_eq!(histograms.after_waking_peer, histograms.after_wake);
}

fn every_move_between_cpus_is_counted() {
    if !has_two_cpus() {
        return println!("skipped: moves are between CPUs 0 and 1, which are not both ours");
    }
    let profile = profile_of("moves");
    let program = own(&profile);
    let count = |from, to| {
        let mut moves = program.moves.iter();
        moves.find(|moved| (moved.from, moved.to) == (CpuId(from), CpuId(to))).map_or(0, |moved| moved.count)
    };
    assert_count(count(0, 1), WAITS, &profile);
    // And one before the first, depending on where it began.
    assert!(count(1, 0).abs_diff(WAITS) <= 1 + profile.lost_events, "{:?}", program.moves);
    assert_eq!(program.migrations.values().sum::<u64>(), count(0, 1) + count(1, 0));
    assert_eq!(program.by_thread[0].migrations, count(0, 1) + count(1, 0));
}

fn ten_thousand_forks_lose_nothing() {
    let profile = profile_of("forks");
    let program = own(&profile);
    assert_eq!(program.threads, FORKS + 1);
    assert_count(program.exits, FORKS + 1, &profile);
    assert_eq!(program.by_thread.len() as u64 + program.threads_without_row, FORKS + 1);
}

fn of_ten_thousand_threads_at_once_hardly_a_switch_is_lost_and_each_is_told() {
    let (profile, told) = profile_and_answer("crowd");
    let program = own(&profile);
    let known = told[0] as u64;
    println!("{known} switches of {CROWD} threads, {} told as lost", profile.lost_events);
    assert_eq!(program.threads, CROWD + 1);
    assert_eq!(program.by_thread.len() as u64 + program.threads_without_row, CROWD + 1);
    assert_count(program.exits, CROWD + 1, &profile);
    // A thread's last switch is not in the kernel's count; before the execution and after the count there are a few.
    let counted = program.histograms.dispatch_interval.count - program.exits;
    assert!(counted.abs_diff(known) <= profile.lost_events + 20, "{counted} counted, {known} known");
    assert!(profile.lost_events * 1_000 <= known, "{} events lost", profile.lost_events);
}

fn who_executes_another_program_is_counted_there() {
    let profile = profile_of("exec");
    let names: BTreeSet<&str> = profile.programs.iter().map(|program| program.name.as_str()).collect();
    assert!(names.contains("true") && names.len() == 2, "{names:?}");
    let after = profile.programs.iter().find(|program| program.name == "true").unwrap();
    assert_eq!((after.threads, after.exits, own(&profile).exits), (1, 1, 0));
}

fn what_runs_already_is_found_and_followed() {
    let words = command("endless");
    let mut child = Command::new(&words[0]).args(&words[1..]).spawn().unwrap();
    sleep(Duration::from_millis(100));
    let target = Target::Running(launch::Target::process(child.id() as i32).unwrap());
    let profiled = profile(&target, Some(Duration::from_secs(2)), &Machine::host().unwrap()).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let program = own(&profiled.profile);
    // On a busy machine there are few rounds.
    assert!(program.threads > 3 && program.exits >= program.threads - 2, "{program:#?}");
    assert!(program.system_calls[&CallKind::Timer].abs_diff(program.exits) <= 2, "{program:#?}");
}

fn who_ends_meanwhile_ends_its_profile() {
    // Longer than it takes to load the collector on a busy machine.
    let mut child = Command::new("sleep").arg("8").spawn().unwrap();
    let target = Target::Running(launch::Target::process(child.id() as i32).unwrap());
    let profiled = profile(&target, None, &Machine::host().unwrap()).unwrap();
    child.wait().unwrap();
    assert_eq!(profiled.profile.programs[0].exits, 1);
}

/// The numbers of all BPF programs in the kernel.
fn loaded() -> BTreeSet<u32> {
    ProgInfoIter::default().map(|program| program.id).collect()
}

/// A line of /proc/PID/status that has a set of capabilities.
fn capabilities(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    u64::from_str_radix(line.trim(), 16).unwrap()
}

fn only_the_profiler_gives_up_capabilities() {
    let own = || capabilities(&fs::read_to_string("/proc/thread-self/status").unwrap());
    let before = own();
    let answer = env::temp_dir().join(format!("stayput-capabilities-{}", process::id()));
    let line = format!("cat /proc/self/status > {}", answer.display());
    let command = Target::Command(["sh", "-c", &line].map(Into::into).to_vec());
    profile(&command, None, &Machine::host().unwrap()).unwrap();
    let after = own();
    let of_command = capabilities(&fs::read_to_string(&answer).unwrap());
    fs::remove_file(&answer).unwrap();
    // CAP_SYS_ADMIN, CAP_SYS_MODULE, CAP_NET_ADMIN, CAP_SETUID.
    for number in [21, 16, 12, 7] {
        assert_eq!(after & 1 << number, 0, "{after:x}");
    }
    assert_eq!(after & !before, 0);
    // CAP_BPF and CAP_PERFMON read what was counted.
    if before & 1 << 39 != 0 {
        assert_eq!((after >> 38) & 3, 3, "{after:x}");
    }
    if nix::unistd::geteuid().is_root() {
        assert_eq!(of_command, before, "{of_command:x}");
    }
}

fn nothing_stays_in_the_kernel_even_after_kill_9() {
    let before = loaded();
    // Listing programs takes what a profile gives up.
    std::thread::spawn(|| profile_of("exec")).join().unwrap();
    let words = command("collect");
    let mut child = Command::new(&words[0]).args(&words[1..]).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = [0; 6];
    child.stdout.take().unwrap().read_exact(&mut said).unwrap();
    assert_eq!(&said, b"loaded");
    // The switch, wake-ups and first ones, births and executions.
    assert!(loaded().difference(&before).count() >= 5, "{before:?}, {:?}", loaded());
    child.kill().unwrap();
    child.wait().unwrap();
    // The kernel frees programs some time after their last use.
    let begun = Instant::now();
    while !loaded().is_subset(&before) {
        assert!(begun.elapsed() < Duration::from_secs(60), "{before:?}, {:?}", loaded());
        sleep(Duration::from_millis(20));
    }
}

fn two_profiles_at_once_count_the_same() {
    let words = command("waits");
    let all = std::thread::spawn(|| {
        let mut memory = MaybeUninit::uninit();
        let _collector = Collector::load(&mut memory, Watched::All).unwrap();
        sleep(Duration::from_millis(300));
    });
    let profiled = profile(&Target::Command(words), None, &Machine::host().unwrap()).unwrap();
    all.join().unwrap();
    let profile = profiled.profile;
    assert_count(own(&profile).system_calls[&CallKind::Pipe], WAITS, &profile);
}

/// The same run seen by `perf sched record` and by a profile.
fn perf_sched_counts_the_same() {
    let data = env::temp_dir().join(format!("stayput-perf-{}", process::id()));
    let path = data.to_str().unwrap();
    let recorder = Command::new("perf")
        .args(["sched", "record", "-q", "-o", path, "sleep", "1000"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut recorder = match recorder {
        Ok(recorder) => recorder,
        Err(error) => return println!("skipped: perf: {error}"),
    };
    sleep(Duration::from_millis(1_500));
    // Its number, the median of what it spun and the sum of what it slept in ms, its CPU time in ns.
    let (profile, told) = profile_and_answer("bursts");
    let own = own(&profile);
    nix::sys::signal::kill(Pid::from_raw(recorder.id() as i32), nix::sys::signal::SIGINT).unwrap();
    recorder.wait().unwrap();
    let pid = own.by_thread[0].pid.to_string();
    let output = Command::new("perf").args(["sched", "timehist", "-i", path, "--pid", &pid]).output().unwrap();
    let _ = fs::remove_file(&data);
    let text = String::from_utf8_lossy(&output.stdout);
    // Time, CPU in brackets, thread, wait, delay, run time; all in ms.
    let runs: Vec<f64> = text
        .lines()
        .filter(|line| line.contains('[') && line.contains(&pid))
        .filter_map(|line| line.split_whitespace().last()?.parse().ok())
        .collect();
    if runs.is_empty() {
        return println!("skipped: perf recorded nothing: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let run_s = runs.iter().sum::<f64>() / 1e3;
    println!("perf: {} switches, {run_s:.3} s; counted: {} and {:.3} s", runs.len(), own.switches, own.cpu_s);
    let own_s = told[3] / 1e9;
    if (run_s / own_s - 1.0).abs() > 0.02 {
        // Switches that the kernel doesn't trace: perf takes the time until the next as the thread's.
        return println!("skipped: by its own clock the program had {own_s:.3} s");
    }
    // It also has what came before the program was executed: a few switches, and what it takes to execute it.
    const BEFORE_S: f64 = 0.04;
    let lost = profile.lost_events as usize;
    assert!(runs.len().abs_diff(own.switches as usize) <= 6 + lost, "{} and {}", runs.len(), own.switches);
    let more_s = run_s - own.cpu_s;
    assert!((-0.01 * own.cpu_s..0.01 * own.cpu_s + BEFORE_S).contains(&more_s), "{run_s} and {}", own.cpu_s);
}
