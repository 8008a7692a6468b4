//! Who takes part in a race: the placements that are told apart, as treatments of a plan.

use super::{Among, RaceArgs};
use crate::UsageError;
use machine::{Class, Distinct, Machine, Placement, Policy};
use study::plan::{Treatment, UNBOUND};

/// More placements of one thread count than this aren't raced: each costs a run.
const MOST: usize = 10_000;

/// The treatments of a race: unbound, what `named` asks for, and the distinct placements that `args` asks for, each at the
/// thread counts at which there is one.
pub(super) fn treatments(
    args: &RaceArgs,
    named: &[String],
    threads: &[u32],
    machine: &Machine,
) -> anyhow::Result<Vec<Treatment>> {
    let mut field = Field { treatments: vec![Treatment::unbound()], counts: threads.len() };
    for name in named.iter().filter(|name| *name != UNBOUND) {
        let policy: Policy = name.parse()?;
        for (column, &count) in threads.iter().enumerate() {
            field.add(column, name.clone(), policy.place(machine, count as usize)?);
        }
    }
    let among = args.among.unwrap_or_default();
    if among == Among::Named {
        if field.treatments.len() == 1 {
            return Err(UsageError::from("--among named races the placements of --place, and there are none"));
        }
        return Ok(field.treatments);
    }
    let distinct = Distinct::of(machine)?;
    for (column, &count) in threads.iter().enumerate() {
        let classes = classes(&distinct, among, args.ordered, count as usize)?;
        if classes.len() > MOST {
            return Err(UsageError::from(format!(
                "there are more than {MOST} placements of {count} threads here (`stayput place --count -n {count}`), and each costs a run; race the important ones"
            )));
        }
        for class in classes {
            let (name, placement) = named_placement(&class, machine)?;
            field.add(column, name, placement);
        }
    }
    Ok(field.treatments)
}

fn classes(distinct: &Distinct, among: Among, ordered: bool, threads: usize) -> anyhow::Result<Vec<Class>> {
    Ok(match (among, ordered) {
        (Among::All, false) => distinct.iter(threads)?.take(MOST + 1).collect(),
        (Among::All, true) => distinct.iter_ordered(threads)?.take(MOST + 1).collect(),
        (_, false) => distinct.important(threads)?,
        (_, true) => distinct.important(threads)?.iter().flat_map(|class| distinct.orders(class)).collect(),
    })
}

/// The placement by which a class is raced, and its name: a policy's own where the class has one, so that
/// `stayput run --place NAME` gives the very same, else its CPUs.
fn named_placement(class: &Class, machine: &Machine) -> anyhow::Result<(String, Placement)> {
    match class.name() {
        Some(policy) => Ok((policy.to_string(), policy.place(machine, class.cpus.len())?)),
        None => {
            let placement = class.placement();
            Ok((placement.policy.clone(), placement))
        }
    }
}

/// Treatments as they are found.
struct Field {
    treatments: Vec<Treatment>,
    /// Thread counts of the plan.
    counts: usize,
}

impl Field {
    /// Adds `placement` at the thread count in `column`, unless the very same is there.
    fn add(&mut self, column: usize, name: String, placement: Placement) {
        let same = |other: &Treatment| {
            other.placements.get(column).and_then(Option::as_ref).is_some_and(|other| other.same_slots(&placement))
        };
        if self.treatments.iter().any(same) {
            return;
        }
        let position = self.treatments.iter().position(|treatment| treatment.name == name).unwrap_or_else(|| {
            self.treatments.push(Treatment { name, placements: vec![None; self.counts] });
            self.treatments.len() - 1
        });
        self.treatments[position].placements[column] = Some(placement);
    }
}
