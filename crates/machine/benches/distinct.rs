//! What counting, enumerating and picking distinct placements costs, beside the goals.
//!
//! `make bench`, or `cargo bench -p stayput-machine --bench distinct`.

#![allow(clippy::unwrap_used, reason = "a benchmark that can't run says so and ends")]

use stayput_machine::{Distinct, Machine};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// 256 CPUs: two packages of eight L3 caches, each with eight cores of two hardware threads.
const LARGE: &str = "pack:2 l3:8 core:8 pu:2";

/// 64 CPUs.
const MEDIUM: &str = "pack:4 core:8 pu:2";

/// Classes that are enumerated for a rate.
const CLASSES: usize = 3_000_000;

fn main() {
    count(LARGE, "goal under 1 s");
    count("pack:1 core:4096 pu:1", "goal about 1 s");
    count("pack:2 die:2 l3:2 l2:2 group:2 group:2 group:2 group:2 group:2 group:2 core:2 pu:2", "goal about 1 s");
    for (machine, threads) in [(LARGE, 32), (LARGE, 128), (MEDIUM, 32)] {
        enumerate(machine, threads);
    }
    important(&Machine::named(LARGE).unwrap(), LARGE);
    let mut record = stayput_machine::record::MachineRecord::from(Machine::named(LARGE).unwrap());
    forbid_every_seventh(&mut record.tree, &mut 0);
    important(&record.try_into().unwrap(), "the same with every seventh CPU forbidden");
}

/// The number of classes for every number of threads.
fn count(name: &str, goal: &str) {
    let machine = Machine::named(name).unwrap();
    let cpus = machine.pus().len();
    let begin = Instant::now();
    let distinct = Distinct::new(&machine).unwrap();
    let largest = (1..=cpus).map(|threads| distinct.classes(threads).unwrap()).max().unwrap();
    let taken = begin.elapsed();
    println!(
        "count, {name} ({cpus} CPUs), every number of threads: {} ms, {goal}; {} bits in the largest number",
        ms(taken),
        largest.bits()
    );
}

fn enumerate(name: &str, threads: usize) {
    let machine = Machine::named(name).unwrap();
    let distinct = Distinct::new(&machine).unwrap();
    let begin = Instant::now();
    let mut classes = 0;
    while classes < CLASSES {
        for class in distinct.iter(threads).unwrap().take(CLASSES - classes) {
            black_box(class);
            classes += 1;
        }
    }
    let rate = classes as f64 / begin.elapsed().as_secs_f64();
    println!(
        "enumerate, {name}, {threads} threads: {:.2} million classes a second with their sizes, goal 1",
        rate / 1e6
    );
}

/// The slowest of all numbers of threads.
fn important(machine: &Machine, name: &str) {
    let distinct = Distinct::new(machine).unwrap();
    let timed = (1..=machine.usable().count()).map(|threads| {
        let begin = Instant::now();
        let classes = distinct.important(threads).unwrap().len();
        (begin.elapsed(), threads, classes)
    });
    let (taken, threads, classes) = timed.max().unwrap();
    println!("important, {name}: {} ms at worst ({threads} threads, {classes} classes), goal under 100 ms", ms(taken));
}

fn ms(taken: Duration) -> String {
    format!("{:.1}", taken.as_secs_f64() * 1e3)
}

fn forbid_every_seventh(object: &mut stayput_machine::record::ObjectRecord, seen: &mut usize) {
    if object.children.is_empty() {
        *seen += 1;
        object.forbidden_by = seen.is_multiple_of(7).then_some(stayput_machine::tree::ForbiddenBy::Description);
    }
    for child in &mut object.children {
        forbid_every_seventh(child, seen);
    }
}
