//! What must hold of the queue for any processes, by property tests.

use super::naive::{Competitor, Naive};
use super::queue::{Entity, NICE_0, Queue};
use crate::eevdf::engine::weight_of_nice;
use crate::index::ProcessIndex;
use proptest::prelude::*;

/// What happens on a CPU.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// Who runs has the CPU for so many ns, and goes back into the queue.
    Run(u32),
    /// A process joins that is outside, with the lag that it left with.
    Join(u32),
    /// A process that waits leaves.
    Leave(u32),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (1..8_000_000_u32).prop_map(Event::Run),
        2 => (0..20_u32).prop_map(Event::Join),
        1 => (0..20_u32).prop_map(Event::Leave),
    ]
}

fn processes() -> impl Strategy<Value = Vec<(i32, u32)>> {
    prop::collection::vec(
        (prop_oneof![Just(0), -20..20_i32], prop_oneof![Just(2_800_000_u32), 100_000..20_000_000_u32]),
        1..20,
    )
}

fn entities(processes: &[(i32, u32)]) -> Vec<Entity> {
    processes.iter().map(|&(nice, slice_ns)| Entity::new(weight_of_nice(nice), slice_ns)).collect()
}

/// A queue, and beside it who competes.
struct Sides {
    queue: Queue,
    entities: Vec<Entity>,
    inside: Vec<bool>,
}

impl Sides {
    fn naive(&self) -> Naive {
        let inside = (0_u32..).zip(&self.entities).zip(&self.inside).filter(|&(_, &inside)| inside);
        Naive(
            inside
                .map(|((number, entity), _)| Competitor {
                    process: ProcessIndex(number),
                    weight: entity.weight,
                    v: entity.v,
                    deadline: entity.deadline,
                })
                .collect(),
        )
    }

    /// The first of the queue is taken, has the CPU for so many ns, and goes back.
    fn run(&mut self, ns: u64) -> Option<ProcessIndex> {
        let first = self.queue.take(&mut self.entities)?;
        let entity = &mut self.entities[first.at()];
        let virtual_ns = entity.virtual_of(ns);
        self.queue.advance(entity, virtual_ns);
        if entity.v >= entity.deadline {
            entity.deadline = entity.v + entity.request();
        }
        self.queue.enter(first, &mut self.entities);
        Some(first)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn the_queue_picks_whom_the_definition_picks(
        processes in processes(),
        events in prop::collection::vec(event(), 1..120),
    ) {
        let count = processes.len();
        let mut sides = Sides { queue: Queue::default(), entities: entities(&processes), inside: vec![false; count] };
        for event in events {
            match event {
                Event::Run(ns) => {
                    let expected = sides.naive().first(|_| true);
                    let picked = sides.run(u64::from(ns));
                    prop_assert_eq!(picked, expected);
                    prop_assert!(picked.is_some() == sides.inside.contains(&true), "not all are above their mean");
                }
                Event::Join(process) => {
                    let at = process as usize % count;
                    if !std::mem::replace(&mut sides.inside[at], true) {
                        let owed = -sides.entities[at].v;
                        sides.queue.join(ProcessIndex(at as u32), &mut sides.entities, false);
                        // Joined alone, nobody is owed anything.
                        let naive = sides.naive();
                        let lag = naive.scaled_lag(sides.entities[at].v) / naive.weight();
                        let others = naive.0.len() > 1;
                        prop_assert!(!others || (lag - i128::from(owed)).abs() <= 2, "lag {} of {}", lag, owed);
                    }
                }
                Event::Leave(process) => {
                    let at = process as usize % count;
                    if std::mem::replace(&mut sides.inside[at], false) {
                        sides.queue.leave(ProcessIndex(at as u32), &mut sides.entities, 20_000_000);
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Theorem 1 of the paper: in a system that nobody leaves with lag, -r_max < lag < max(r_max, q), in CPU time, where r_max is the
    /// longest request and q the longest time from one decision to the next. Here decisions come at any time within requests,
    /// which end to the moment, as they do with `HRTICK`; so q is no more than r_max.
    #[test]
    fn lag_is_bounded_by_the_longest_request(
        processes in processes(),
        quantum_ns in 100_000..10_000_000_u64,
        shares in prop::collection::vec(0.01..1.0_f64, 1..400),
    ) {
        let count = processes.len();
        let mut sides = Sides { queue: Queue::default(), entities: entities(&processes), inside: vec![true; count] };
        for number in 0..count as u32 {
            sides.queue.join(ProcessIndex(number), &mut sides.entities, false);
        }
        // A virtual ns of nice -20 is 87 ns of CPU time, by which a request may be missed.
        let rounding_ns = 100.0;
        let longest_ns = processes.iter().map(|&(_, slice_ns)| f64::from(slice_ns)).fold(0.0, f64::max) + rounding_ns;
        for share in shares {
            let first = sides.queue.first(&mut sides.entities).unwrap();
            let entity = &sides.entities[first.at()];
            let left_ns = entity.ns_of(entity.deadline - entity.v);
            sides.run(((quantum_ns as f64 * share) as u64 + 1).min(left_ns));
            let naive = sides.naive();
            for one in &naive.0 {
                let lag_ns = naive.scaled_lag(one.v) as f64 / naive.weight() as f64 * f64::from(one.weight) / f64::from(NICE_0);
                prop_assert!(-longest_ns < lag_ns && lag_ns < longest_ns, "{lag_ns} beyond {longest_ns}");
            }
        }
    }
}
