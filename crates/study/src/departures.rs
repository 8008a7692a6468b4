//! Where a plan isn't the study that a file describes, in the sentences that the plan keeps.

use crate::shape::Shape;
use crate::treatment::Treatment;
use machine::tree::ObjectIndex;
use machine::{Kind, Machine, Placement, Policy};
use std::collections::BTreeSet;

/// That `threads` are left out because there are only `usable` CPUs; none when nothing is left out.
pub(crate) fn left_out(threads: &[Shape], usable: u32) -> Option<String> {
    (!threads.is_empty()).then(|| {
        let (cpus, verb) = (count(usable, "usable CPU"), if usable == 1 { "is" } else { "are" });
        format!("Left out: {}, for which this machine's {cpus} {verb} too few.", list_of(threads))
    })
}

/// Which of a study's placements this machine can't make as they are defined, and which are the same here.
pub(crate) fn placements(threads: &[Shape], treatments: &[Treatment], machine: &Machine) -> Vec<String> {
    let mut sentences = unkept_promises(threads, treatments, machine);
    sentences.extend(twins(threads, treatments));
    sentences
}

fn unkept_promises(threads: &[Shape], treatments: &[Treatment], machine: &Machine) -> Vec<String> {
    let mut sentences = Vec::new();
    let untold = [Kind::Package, Kind::Cache(2)].into_iter().find(|&kind| machine.count(kind) == 0);
    for Treatment { name, placements, .. } in treatments {
        let Some(definition) = name.parse().ok().and_then(|policy| definition(&policy)) else { continue };
        let promise = format!("{name} means {}", definition.words);
        if let Some(kind) = untold {
            sentences
                .push(format!("{promise}; whether it does so here can't be told, since the machine shows no {kind}."));
            continue;
        }
        // A thread alone shares nothing, whatever the name promises.
        let unmet: Vec<Shape> = (threads.iter().zip(placements))
            .filter_map(|(count, placement)| Some((count, placement.as_ref()?)))
            .filter(|&(&count, placement)| count.total() > 1 && !(definition.holds)(&Occupied::by(placement, machine)))
            .map(|(&count, _)| count)
            .collect();
        if !unmet.is_empty() {
            let counts = list_of(&unmet);
            sentences
                .push(format!("{promise}; this machine can't do that with {counts}, and what comes nearest is run."));
        }
    }
    sentences
}

fn twins(threads: &[Shape], treatments: &[Treatment]) -> Vec<String> {
    // Names of equal placements, and the thread counts at which they are equal.
    let mut groups: Vec<(Vec<&str>, Vec<Shape>)> = Vec::new();
    for (column, &count) in threads.iter().enumerate() {
        let mut distinct: Vec<(&Placement, Vec<&str>)> = Vec::new();
        for (name, placement) in
            treatments.iter().filter_map(|t| Some((t.name.as_str(), t.placements.get(column)?.as_ref()?)))
        {
            match distinct.iter_mut().find(|(other, _)| other.same_slots(placement)) {
                Some((_, names)) => names.push(name),
                None => distinct.push((placement, vec![name])),
            }
        }
        for (_, names) in distinct.into_iter().filter(|(_, names)| names.len() > 1) {
            match groups.iter_mut().find(|(others, _)| *others == names) {
                Some((_, counts)) => counts.push(count),
                None => groups.push((names, vec![count])),
            }
        }
    }
    let sentence = |(names, counts): (Vec<&str>, Vec<Shape>)| {
        let (names, counts) = (list(&names), list_of(&counts));
        format!("{names} are the very same placement here with {counts}, and are run once.")
    };
    groups.into_iter().map(sentence).collect()
}

/// What a policy's name promises.
struct Definition {
    words: &'static str,
    holds: fn(&Occupied) -> bool,
}

/// The definitions of Weber 2010, word by word. The other policies promise an order, which every machine allows.
fn definition(policy: &Policy) -> Option<Definition> {
    Some(match policy {
        Policy::Balanced => Definition {
            words: "that no two threads share an L2 or a package",
            holds: |on| on.l2.len() == on.threads && on.packages.len() == on.threads,
        },
        Policy::SemiBalanced => Definition {
            words: "that no two threads share an L2, on one package",
            holds: |on| on.l2.len() == on.threads && on.packages.len() == 1,
        },
        Policy::Unbalanced => Definition {
            words: "that every thread shares its L2 with another, on one package",
            holds: |on| on.packages.len() == 1 && on.shares_every_l2,
        },
        Policy::Compact | Policy::Scatter | Policy::Set(_) | Policy::List(_) => return None,
    })
}

/// What the threads of a placement sit on.
struct Occupied {
    threads: usize,
    packages: BTreeSet<ObjectIndex>,
    l2: BTreeSet<ObjectIndex>,
    shares_every_l2: bool,
}

impl Occupied {
    fn by(placement: &Placement, machine: &Machine) -> Self {
        let cpus = placement.cpus().unwrap_or_default();
        let enclosing = |kind| cpus.iter().filter_map(move |&cpu| machine.enclosing(cpu, kind));
        let l2: Vec<ObjectIndex> = enclosing(Kind::Cache(2)).collect();
        let alone = |object: &ObjectIndex| l2.iter().filter(|other| *other == object).count() == 1;
        Self {
            threads: cpus.len(),
            packages: enclosing(Kind::Package).collect(),
            shares_every_l2: l2.len() == cpus.len() && !l2.iter().any(alone),
            l2: l2.into_iter().collect(),
        }
    }
}

/// `1 usable CPU`, `2 usable CPUs`.
pub(crate) fn count(number: u32, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// `1 thread`, `1 and 2 threads`.
fn list_of(counts: &[Shape]) -> String {
    format!("{} thread{}", list(counts), if *counts == [Shape::from(1)] { "" } else { "s" })
}

/// `a`, `a and b`, `a, b and c`.
pub(crate) fn list(items: &[impl ToString]) -> String {
    let mut words: Vec<String> = items.iter().map(ToString::to_string).collect();
    match words.pop() {
        Some(last) if !words.is_empty() => format!("{} and {last}", words.join(", ")),
        last => last.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn treatments(names: &[&str], threads: &[Shape], machine: &Machine) -> Vec<Treatment> {
        let place = |name: &str| {
            let policy: Policy = name.parse().unwrap();
            threads.iter().map(|&count| policy.place(machine, count.total() as usize).ok()).collect()
        };
        names.iter().map(|&name| Treatment::new(name.into(), place(name))).collect()
    }

    #[test]
    fn what_is_left_out_is_named_with_the_reason() {
        assert_eq!(left_out(&[], 2), None);
        let sentence = left_out(&[4.into(), 8.into()], 2).unwrap();
        assert_eq!(sentence, "Left out: 4 and 8 threads, for which this machine's 2 usable CPUs are too few.");
        assert_eq!(
            left_out(&[2.into()], 1).unwrap(),
            "Left out: 2 threads, for which this machine's 1 usable CPU is too few."
        );
    }

    /// The poster's own machine has its three mappings for 2 threads only; for 4 it has one, for 8 none.
    #[test]
    fn the_mappings_of_weber_2010_exist_on_its_machine_for_two_threads() {
        let threads = [1, 2, 4, 8].map(Shape::from);
        let machine = Machine::named("xeon-e5405").unwrap();
        let treatments = treatments(&["balanced", "semi-balanced", "unbalanced"], &threads, &machine);
        assert_eq!(
            placements(&threads, &treatments, &machine),
            [
                "balanced means that no two threads share an L2 or a package; this machine can't do that with 4 and 8 threads, and what comes nearest is run.",
                "semi-balanced means that no two threads share an L2, on one package; this machine can't do that with 4 and 8 threads, and what comes nearest is run.",
                "unbalanced means that every thread shares its L2 with another, on one package; this machine can't do that with 8 threads, and what comes nearest is run.",
                "balanced, semi-balanced and unbalanced are the very same placement here with 1 thread, and are run once.",
                "balanced and unbalanced are the very same placement here with 8 threads, and are run once.",
            ]
        );
    }

    #[test]
    fn where_no_l2_is_shared_every_mapping_is_the_same() {
        let threads = [1, 2].map(Shape::from);
        let machine = Machine::named("pack:1 l3:1 l2:2 core:1 pu:1").unwrap();
        let treatments = treatments(&["balanced", "semi-balanced", "unbalanced"], &threads, &machine);
        let sentences = placements(&threads, &treatments, &machine);
        assert_eq!(sentences.len(), 3, "{sentences:?}");
        assert!(sentences[0].starts_with("balanced means"), "{sentences:?}");
        assert!(sentences[1].starts_with("unbalanced means"), "{sentences:?}");
        assert_eq!(
            sentences[2],
            "balanced, semi-balanced and unbalanced are the very same placement here with 1 and 2 threads, and are run once."
        );
    }

    #[test]
    fn what_the_machine_does_not_show_is_not_claimed() {
        let machine = Machine::named("core:4 pu:1").unwrap();
        let sentences = placements(&[2.into()], &treatments(&["balanced"], &[2.into()], &machine), &machine);
        assert_eq!(
            sentences,
            [
                "balanced means that no two threads share an L2 or a package; whether it does so here can't be told, since the machine shows no package."
            ]
        );
    }

    #[test]
    fn compact_and_scatter_meet_where_there_is_one_way_to_place_a_thread() {
        let threads = [1, 2, 4, 8].map(Shape::from);
        let machine = Machine::named("xeon-e5620").unwrap();
        let sentences = placements(&threads, &treatments(&["compact", "scatter"], &threads, &machine), &machine);
        assert_eq!(
            sentences,
            ["compact and scatter are the very same placement here with 1 thread, and are run once."]
        );
    }
}
