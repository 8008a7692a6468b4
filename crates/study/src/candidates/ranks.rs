//! Placements of ranks x threads that race.

use super::{Among, CandidatesError, MOST};
use crate::shape::Shape;
use machine::{Distinct, Machine, Policy, RankLevel, RankOrder, RankPlacement, RankPolicy, RankShape};
use strum::VariantArray;

/// The placements of a shape that `among` asks for, each with the name by which `--place` makes it: the important ones are those that rules
/// make (an order of ranks over a level, and their threads close together or apart), all others have lists.
pub(super) fn placements(
    distinct: &Distinct,
    among: Among,
    shape: RankShape,
    machine: &Machine,
) -> Result<Vec<RankPlacement>, CandidatesError> {
    let by_rules = by_rules(distinct, shape, machine);
    match among {
        Among::Named => Ok(Vec::new()),
        Among::Important => Ok(by_rules.into_iter().map(|(_, placement)| placement).collect()),
        Among::All => {
            let all = distinct.rank_placements(shape)?;
            if all.len() > MOST {
                return Err(CandidatesError::TooMany { threads: Shape::from(shape) });
            }
            // A class that a rule makes is raced as that, so that its name says where it is.
            let named = |class: RankPlacement| {
                let is_it = |(of, _): &&(Option<RankPlacement>, RankPlacement)| {
                    of.as_ref().is_some_and(|of| of.ranks == class.ranks)
                };
                let by_rule = by_rules.iter().find(is_it).map(|(_, placement)| placement.clone());
                by_rule.unwrap_or_else(|| RankPlacement { policy: class.to_string(), ..class })
            };
            Ok(all.into_iter().map(named).collect())
        }
    }
}

/// What rules make, one of those that a symmetry of the machine maps onto each other, with the placement that stands for its class where
/// each thread has a CPU of its own.
fn by_rules(distinct: &Distinct, shape: RankShape, machine: &Machine) -> Vec<(Option<RankPlacement>, RankPlacement)> {
    let threads = if shape.threads > 1 { &[Policy::Compact, Policy::Scatter][..] } else { &[Policy::Compact] };
    let levels =
        RankLevel::VARIANTS.iter().flat_map(|&level| RankOrder::VARIANTS.iter().map(move |&order| (order, level)));
    let rules = levels.flat_map(|(order, level)| {
        threads.iter().map(move |threads| RankPolicy::Levels { order, level, threads: threads.clone() })
    });
    // A plain policy comes first: its name is the shortest.
    let plain = [Policy::Compact, Policy::Scatter].map(RankPolicy::Row);
    let mut found: Vec<(Option<RankPlacement>, RankPlacement)> = Vec::new();
    // A level that the machine lacks makes none.
    // Nor does one whose objects are too small for a rank, so that threads share CPUs while others have none.
    let needed = shape.total().saturating_sub(machine.usable_cpus().len());
    let made = plain.into_iter().chain(rules).filter_map(|rule| rule.place(machine, shape).ok());
    for placement in made.filter(|placement| placement.doubled_up() <= needed) {
        let class = match placement.doubled_up() {
            0 => distinct.rank_class_of(&placement).ok(),
            _ => None,
        };
        let is_same = |(of, other): &(Option<RankPlacement>, RankPlacement)| match (of, &class) {
            (Some(of), Some(class)) => of.ranks == class.ranks,
            _ => other.row().same_slots(&placement.row()),
        };
        if !found.iter().any(is_same) {
            found.push((class, placement));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(machine: &str, shape: &str, among: Among) -> Vec<String> {
        let machine = Machine::named(machine).unwrap();
        let distinct = Distinct::new(&machine).unwrap();
        let all = placements(&distinct, among, shape.parse().unwrap(), &machine).unwrap();
        // The name makes the very placement again.
        for placement in &all {
            let again =
                placement.policy.parse::<RankPolicy>().unwrap().place(&machine, shape.parse().unwrap()).unwrap();
            assert_eq!(
                again.ranks.iter().map(|rank| &rank.slots).collect::<Vec<_>>(),
                placement.ranks.iter().map(|rank| &rank.slots).collect::<Vec<_>>()
            );
        }
        all.into_iter().map(|placement| placement.policy).collect()
    }

    #[test]
    fn rules_are_raced_once_for_each_class_that_they_make() {
        assert_eq!(names("pack:1 core:2 pu:1", "1x2", Among::Important), ["compact"]);
        assert_eq!(names("pack:1 core:2 pu:1", "2x1", Among::Important), ["compact"]);
        // Two ranks of two on two packages of two: each in its package, or both across.
        assert_eq!(names("pack:2 core:2 pu:1", "2x2", Among::Important), ["compact", "scatter"]);
        // More threads than CPUs have no class, and are told apart by their CPUs.
        assert!(!names("pack:1 core:2 pu:1", "2x2", Among::Important).is_empty());
    }

    #[test]
    fn all_are_as_many_as_are_counted_and_those_of_rules_have_their_names() {
        for (machine, shape) in
            [("pack:2 core:2 pu:2", "2x2"), ("pack:2 l3:2 core:2 pu:1", "4x1"), ("core:2 pu:2", "2x2")]
        {
            let all = names(machine, shape, Among::All);
            let machine = Machine::named(machine).unwrap();
            let count = Distinct::new(&machine).unwrap().rank_classes(shape.parse().unwrap()).unwrap();
            assert_eq!(all.len().to_string(), count.to_string(), "{shape}");
            assert!(all.contains(&"compact".to_owned()), "{all:?}");
        }
    }
}
