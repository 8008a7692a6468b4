//! Compact: as few objects of each level as hold the threads.
//!
//! On a regular machine these are the first CPUs of the tree. Where siblings differ they need not be: two threads belong on
//! one core wherever a core has two CPUs, and not on the first two cores. So the fewest are looked for level by level, from
//! the outside in: as few packages as hold the threads, with those as few dies, and so on down to the cores. A CPU without
//! an object of some level shares none there, and counts as an object of its own.
//!
//! For each object it is worked out, from the PUs outwards, how few objects a number of threads in it can do with, for every
//! such number. What is inside an object is put together in halves, so that the work grows with the square of the number of
//! threads, however many children an object has.

use super::usable;
use crate::tree::{Machine, ObjectIndex, PuIndex};

/// Levels that are counted, from the outside in. No machine has more.
const LEVELS: usize = 16;

/// Bits for the count of one level, at which a machine has far fewer objects than these can tell.
const BITS: usize = 16;

/// How many objects of each level are in use, the outermost level in the highest bits: the smaller, the closer together.
/// Counts of objects that hold different CPUs are added up bit field by bit field.
type Count = [u64; LEVELS * BITS / 64];

/// For each number of threads from zero, the least count of objects that they can do with.
type Fewest = Vec<Count>;

/// A part of the machine: one usable PU, or two parts one after the other in the tree.
struct Part {
    fewest: Fewest,
    content: Content,
}

enum Content {
    Pu(PuIndex),
    Halves(Box<[Part; 2]>),
}

/// The `seats` usable PUs that share most, in tree order; of several such sets that with most of the first in the tree.
pub(super) fn compact(machine: &Machine, seats: usize) -> Vec<PuIndex> {
    let mut chosen = usable(machine, ObjectIndex::MACHINE);
    if seats >= chosen.len() {
        return chosen;
    }
    chosen.clear();
    if let Some(part) = part_of(machine, ObjectIndex::MACHINE, seats) {
        choose(&part, seats, &mut chosen);
    }
    chosen
}

/// An object and all inside, for at most `seats` threads; none without a usable PU.
fn part_of(machine: &Machine, index: ObjectIndex, seats: usize) -> Option<Part> {
    let object = machine.object(index);
    let mut part = match object.children.as_slice() {
        [] => {
            let pu = machine.pus_of(index).first().filter(|pu| pu.forbidden.is_none())?;
            let content = Content::Pu(machine.pu_index(pu.cpu)?);
            Part { fewest: vec![Count::default(); 2], content }
        }
        children => halves(children.iter().filter_map(|&child| part_of(machine, child, seats)).collect(), seats)?,
    };
    if let Some(parent) = object.parent {
        let outermost = machine.object(ObjectIndex::MACHINE).rank - 1;
        // It stands for itself, and at the levels between it and its parent, too.
        for rank in object.rank.max(1)..machine.object(parent).rank {
            let field = (outermost - rank) * BITS;
            for count in part.fewest.iter_mut().skip(1).filter(|_| field < LEVELS * BITS) {
                count[field / 64] += 1 << (64 - BITS - field % 64);
            }
        }
    }
    Some(part)
}

/// Parts one after the other as one part; none where there are none.
fn halves(mut parts: Vec<Part>, seats: usize) -> Option<Part> {
    if parts.len() <= 1 {
        return parts.pop();
    }
    let second = halves(parts.split_off(parts.len() / 2), seats)?;
    let first = halves(parts, seats)?;
    let most = (first.fewest.len() + second.fewest.len() - 2).min(seats);
    let fewest = (0..=most).map(|threads| best_split(&first, &second, threads).1).collect();
    Some(Part { fewest, content: Content::Halves(Box::new([first, second])) })
}

/// How many of so many threads go into the first of two parts, as many as can be, and the count that this makes.
fn best_split(first: &Part, second: &Part, threads: usize) -> (usize, Count) {
    let least = (threads + 1).saturating_sub(second.fewest.len());
    let most = threads.min(first.fewest.len() - 1);
    let count = |split: usize| {
        let (a, b) = (&first.fewest[split], &second.fewest[threads - split]);
        std::array::from_fn(|i| a[i] + b[i])
    };
    let all = (least..most).rev().map(|split| (split, count(split)));
    all.fold((most, count(most)), |best: (usize, Count), other| if other.1 < best.1 { other } else { best })
}

fn choose(part: &Part, threads: usize, into: &mut Vec<PuIndex>) {
    match &part.content {
        _ if threads == 0 => {}
        Content::Pu(pu) => into.push(*pu),
        Content::Halves(halves) => {
            let [first, second] = &**halves;
            let (split, _) = best_split(first, second, threads);
            choose(first, split, into);
            choose(second, threads - split, into);
        }
    }
}
