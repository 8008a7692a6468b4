//! Working sets of a program whose working set is known: this executable again, which goes over part of its memory.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use launch::Target as Running;
use machine::Machine;
use machine::linux::Pid;
use profile::{Looks, Profile, Program, Target};
use std::hint::black_box;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// All the memory that the subject has, and how much of it it goes over, in KiB.
const ALL_KIB: usize = 64 << 10;
const PART_KIB: usize = 4 << 10;

/// The environment in which the subject finds how much it goes over.
const GOES_OVER: &str = "GOES_OVER_KIB";

/// How long it does so.
const LONG: Duration = Duration::from_secs(4);

#[test]
#[ignore = "the subject of the other test, which starts it"]
fn subject() {
    let kib: usize = std::env::var(GOES_OVER).unwrap().parse().unwrap();
    let mut memory = vec![1_u8; ALL_KIB << 10];
    let began = Instant::now();
    while began.elapsed() < LONG {
        for byte in memory[..kib << 10].iter_mut().step_by(512) {
            *byte = black_box(byte.wrapping_add(1));
        }
    }
}

/// What is seen of a subject that goes over so much, in KiB by CPU time; all memory that was in huge pages last.
fn seen(kib: usize) -> (Vec<Option<f64>>, f64) {
    let mut subject: Child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "subject", "--ignored"])
        .env(GOES_OVER, kib.to_string())
        .spawn()
        .unwrap();
    // Not before it has all of its memory.
    std::thread::sleep(Duration::from_millis(300));
    let pid = subject.id() as i32;
    let (name, _) = Pid(pid).name_and_migrations(Pid(pid).main_thread());
    let looks = Looks::begin(&Target::Running(Running::process(pid).unwrap()));
    assert!(subject.wait().unwrap().success());
    let mut profile =
        Profile { programs: vec![Program { name: name.unwrap(), ..Program::default() }], ..Profile::default() };
    looks.finish(&mut profile, &Machine::host().unwrap());
    let set = profile.programs.remove(0).working_set.expect("it was looked at");
    assert_eq!(set.looks.len(), set.median_kib.len());
    (set.median_kib, set.huge_pages_kib)
}

#[test]
fn what_is_gone_over_is_touched_and_nothing_else() {
    if let Err(error) = Pid(std::process::id() as i32).clear_references() {
        return eprintln!("skipped: this kernel keeps no marks at pages ({error})");
    }
    let (part, huge_kib) = seen(PART_KIB);
    let told: Vec<f64> = part.iter().flatten().copied().collect();
    assert!(!told.is_empty(), "it was looked at often: {part:?}");
    for kib in told {
        // Huge pages at both ends, and the program itself.
        let most = (PART_KIB + 2 * 2_048 + 4_096) as f64;
        assert!((PART_KIB as f64..=most).contains(&kib), "{kib} KiB of {PART_KIB}: {part:?}, {huge_kib} in huge pages");
    }
    let (all, _) = seen(ALL_KIB);
    let most = all.iter().flatten().copied().fold(0.0, f64::max);
    assert!(most >= (4 * PART_KIB) as f64, "{all:?}");
}
