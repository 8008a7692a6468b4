//! The machine as a tree with how busy each part is.

use machine::tree::ObjectIndex;
use machine::{Kind, Machine};
use profile::Profile;
use std::collections::BTreeMap;

/// Lines of the tree: as deep as `height` lines allow, and of `width` columns at most. A percentage is the share of the period that
/// what is watched had of the CPUs there. Only parts that divide the machine have a line: a cache of one core alone is that core.
pub fn lines(machine: &Machine, period: &Profile, width: usize, height: usize) -> Vec<String> {
    let mut busy_s: BTreeMap<_, f64> = BTreeMap::new();
    for program in &period.programs {
        program.residency_s.iter().for_each(|(cpu, s)| *busy_s.entry(*cpu).or_default() += s);
    }
    // What does not fit is left out from the leaves up.
    let mut rows = Vec::new();
    for depth in 0..32 {
        let mut deeper = Vec::new();
        walk(machine, ObjectIndex::MACHINE, 0, depth, &mut deeper);
        if deeper.len() > height && depth > 0 || deeper.len() == rows.len() {
            break;
        }
        rows = deeper;
    }
    let percents = rows.iter().map(|&(object, _)| {
        let cpus = machine.pus_of(object);
        let busy: f64 = cpus.iter().map(|pu| busy_s.get(&pu.cpu).copied().unwrap_or(0.0)).sum();
        let all = period.seconds * cpus.len() as f64;
        if all > 0.0 { (100.0 * busy / all).clamp(0.0, 100.0) } else { 0.0 }
    });
    let line = |(&(object, depth), percent): (&(ObjectIndex, usize), f64)| {
        let name = format!("{}{}", "  ".repeat(depth), label(machine, object));
        let bar = width.saturating_sub(21);
        let filled = (percent / 100.0 * bar as f64).round() as usize;
        let line = format!("{name:<14} {:<bar$} {percent:>3.0} %", "#".repeat(filled));
        line.chars().take(width).collect()
    };
    rows.iter().zip(percents).map(line).take(height).collect()
}

/// The objects down to `deepest`, each with its depth.
fn walk(machine: &Machine, at: ObjectIndex, depth: usize, deepest: usize, rows: &mut Vec<(ObjectIndex, usize)>) {
    rows.push((at, depth));
    if depth == deepest {
        return;
    }
    let mut object = machine.object(at);
    // What is all of its parent is the same part of the machine.
    while let [only] = object.children[..] {
        object = machine.object(only);
    }
    object.children.iter().for_each(|&child| walk(machine, child, depth + 1, deepest, rows));
}

fn label(machine: &Machine, index: ObjectIndex) -> String {
    let object = machine.object(index);
    match (object.kind, machine.pus_of(index)) {
        (Kind::Machine, _) => "machine".into(),
        // Whatever is around one CPU alone is that CPU.
        (_, [pu]) => format!("CPU {}", pu.cpu),
        (kind @ (Kind::Cache(_) | Kind::InstructionCache(_)), _) => format!("{kind} {}", object.logical_index.number()),
        (kind, _) => {
            let number = object.os_index.unwrap_or(object.logical_index.number());
            format!("{} {number}", kind.to_string().to_lowercase())
        }
    }
}
