//! How many classes there are, without making them.
//!
//! The polynomial of a shape counts its classes by threads. Parts of different types multiply; `k` twins are multisets of
//! `k`; and parts with a group of symmetries are counted by Burnside's lemma: the average, over the symmetries, of the classes
//! that each leaves as they are, which are those alike on every cycle of parts (Pólya 1937, Redfield 1927).
//!
//! Orders are counted too: each level at which the order matters doubles them. That is done by counting, for every set of
//! levels, the classes in which the order matters at no other level.

use super::polynomial::Polynomial;
use super::shape::{Form, Member, Rank, ShapeId, Shapes};
use num_bigint::BigUint;

/// Classes by threads, as their surroundings see them.
#[derive(Clone)]
struct Counted {
    /// All classes.
    total: Polynomial,
    /// Those in which no part has more than one thread.
    scattered: Polynomial,
    /// Those in which one part has several threads and the others none.
    lone: Polynomial,
}

impl Counted {
    /// Nothing, or the one way to do nothing.
    fn nothing() -> Self {
        let one = Polynomial::linear(1, 0_u32);
        Self { total: one.clone(), scattered: one, lone: Polynomial::linear(0, 0_u32) }
    }

    /// The parts of an object as that object, a single part of what is around it. At a level where the order must not matter,
    /// no object may have one part with several threads and another with any.
    fn seal(self, order_may_matter: bool) -> Self {
        let total = if order_may_matter { self.total } else { self.scattered.plus(&self.lone) };
        let scattered = Polynomial::linear(1, total.coefficient(1));
        Self { lone: total.minus(&scattered), scattered, total }
    }

    /// Further parts: `count` of them, that a symmetry exchanges in a cycle, so that they are alike.
    fn join(&mut self, parts: &Self, count: usize) {
        self.total = self.total.times(&parts.total.stretched(count));
        self.scattered = self.scattered.times(&parts.scattered.stretched(count));
        if count == 1 {
            self.lone = self.lone.plus(&parts.lone);
        }
    }
}

/// Counts the classes of `root` by threads, in which the order matters at no level but those of `levels`.
pub(super) fn count(shapes: &Shapes, root: ShapeId, levels: &dyn Fn(Rank) -> bool) -> Polynomial {
    let mut counted: Vec<Counted> = Vec::new();
    for (_, shape) in shapes.iter() {
        let open = match &shape.form {
            Form::Cpu => {
                let cpu = Polynomial::linear(1, 1_u32);
                Counted { total: cpu.clone(), scattered: cpu, lone: Polynomial::linear(0, 0_u32) }
            }
            Form::Twins { part, count } => {
                let part = &counted[shapes.position(*part)];
                Counted {
                    total: part.total.multisets(*count),
                    scattered: part.scattered.multisets(*count),
                    lone: part.lone.clone(),
                }
            }
            Form::Tuple { parts, symmetries, objects } => {
                let parts: Vec<&Counted> = parts.iter().map(|&part| &counted[shapes.position(part)]).collect();
                let mut sum = Counted { total: Polynomial::linear(0, 0_u32), ..Counted::nothing() };
                sum.scattered = sum.total.clone();
                for permutation in symmetries {
                    let fixed = fixed(objects, permutation, &parts, levels);
                    sum.total = sum.total.plus(&fixed.total);
                    sum.scattered = sum.scattered.plus(&fixed.scattered);
                    sum.lone = sum.lone.plus(&fixed.lone);
                }
                let order = symmetries.len();
                Counted {
                    total: sum.total.divided(order),
                    scattered: sum.scattered.divided(order),
                    lone: sum.lone.divided(order),
                }
            }
        };
        counted.push(match shape.level {
            Some(level) => open.seal(levels(level)),
            None => open,
        });
    }
    counted.swap_remove(shapes.position(root)).total
}

/// Counts the tuples that a permutation of their parts leaves as they are.
fn fixed(members: &[Member], permutation: &[usize], parts: &[&Counted], levels: &dyn Fn(Rank) -> bool) -> Counted {
    let mut result = Counted::nothing();
    let mut seen = vec![false; members.len()];
    for begin in 0..members.len() {
        if seen[begin] {
            continue;
        }
        // The cycle of members from here, and what the permutation does to this one after going round.
        let mut length = 0;
        let mut around: Vec<usize> = (0..permutation.len()).collect();
        let mut at = begin;
        while !seen[at] {
            seen[at] = true;
            length += 1;
            around = around.iter().map(|&part| permutation[part]).collect();
            let next = around[members[begin].a_part()];
            at = members.iter().position(|member| member.contains(next)).unwrap_or(begin);
        }
        match &members[begin] {
            Member::Part(part) => result.join(parts[*part], length),
            Member::Object(level, inside) => {
                result.join(&fixed(inside, &around, parts, levels).seal(levels(*level)), length);
            }
        }
    }
    result
}

/// Counts the ordered classes of `root` with `threads` threads: 2 to the power of the levels at which the order matters, summed
/// over all classes.
///
/// 2^m for m levels is the sum, over all sets S of levels that hold these m, of (-1)^(levels not in S) 2^(levels in S).
pub(super) fn count_ordered(shapes: &Shapes, root: ShapeId, levels: &[Rank], threads: usize) -> BigUint {
    let (mut added, mut taken) = (BigUint::ZERO, BigUint::ZERO);
    for set in 0_u64..1 << levels.len() {
        let holds = |level: Rank| levels.iter().position(|&l| l == level).is_none_or(|bit| set >> bit & 1 == 1);
        let classes = count(shapes, root, &holds).coefficient(threads) << set.count_ones();
        if (levels.len() as u32 - set.count_ones()).is_multiple_of(2) {
            added += classes;
        } else {
            taken += classes;
        }
    }
    added - taken
}
