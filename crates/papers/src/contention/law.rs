//! How long a program takes where its threads sit: the model's equations.
//!
//! A program's time on one thread is 1. Each of `p` threads has `1/p` of it to do, of which the share `memory` is spent at the
//! memory of its node and the rest at its core. On one node the threads are customers of a closed queueing network: a delay (the
//! core, which nobody waits for) and one queue (the node's L3, memory controller and links together). Its exact solution is mean
//! value analysis: M. Reiser, S. S. Lavenberg, Mean-Value Analysis of Closed Multichain Queuing Networks, J. ACM 27(2), 1980.
//! Work at the core takes longer by a factor when neighbours slow it down (see `Neighbourhood`). Beyond the queue, every further
//! thread adds a constant `crosstalk`: barriers that threads pass one after the other, and lines that each must fetch from whoever
//! wrote them. It is the coherency term of N. J. Gunther's law, A General Theory of Computational Scalability Based on
//! Rational Functions, arXiv:0808.1431, 2008.
//!
//! A program waits for its slowest thread at each barrier, so the slowest thread of the worst node decides.

use super::seating::{Crowd, Seating};
use serde::Serialize;

/// What a program asks of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Demand {
    /// Share of its time on one thread that it spends in the memory of its node, 0 to 1.
    pub memory: f64,
    /// Time that each further thread adds, as a share of the time on one thread.
    pub crosstalk: f64,
}

impl Demand {
    /// Of a program that stays within its cores and whose threads don't speak to each other.
    pub const CORE_ONLY: Self = Self { memory: 0.0, crosstalk: 0.0 };
}

/// How a program's threads wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Barriers {
    /// Often: balancing between CPUs comes too late for the phase at hand.
    Many,
    /// Only at the end of the run, when a thread that shared a CPU or module finds others idle and moves.
    One,
}

/// Time of a bound run over the time on one thread; `slowdown` is that of core work where neighbours are busy.
pub(super) fn bound_time(seating: &Seating, demand: Demand, slowdown: f64) -> f64 {
    let slowest = seating.crowds.iter().map(|crowd| slowest_thread(crowd, demand.memory, slowdown)).fold(0.0, f64::max);
    slowest / f64::from(seating.threads) + demand.crosstalk * (f64::from(seating.threads) - 1.0)
}

/// Time of an unbound run, where it is `bound` with every thread in its place and `misplaced` with one thread on a wrong node
/// throughout, which is so in the share `probability` of its phases.
pub(super) fn unbound_time(bound: f64, misplaced: f64, probability: f64, barriers: Barriers) -> f64 {
    let misplaced = match barriers {
        Barriers::Many => misplaced,
        // At `bound` the others are done. The share `bound / misplaced` of the late thread's work is done too; it moves, and
        // does the rest at full speed.
        Barriers::One => bound + bound * (1.0 - bound / misplaced),
    };
    (1.0 - probability) * bound + probability * misplaced
}

/// How much longer than alone the slowest thread of a node takes for its share of the work. Where only some cores are slowed, the
/// queue is that of threads which all spend the mean time at their cores: one class of customers instead of two.
fn slowest_thread(crowd: &Crowd, memory: f64, slowdown: f64) -> f64 {
    let core = 1.0 - memory;
    let slowed_share = f64::from(crowd.slowed_cpus) / f64::from(crowd.busy_cpus);
    let mean_core = core * (1.0 + slowed_share * (slowdown - 1.0));
    let slowest_core = if crowd.slowed_cpus > 0 { core * slowdown } else { core };
    f64::from(crowd.threads_per_cpu) * (slowest_core + memory_time(crowd.busy_cpus, mean_core, memory))
}

/// Mean time that each of `customers` spends at the memory, waiting included, between stays of `core` elsewhere, when it serves
/// one in `memory`: exact mean value analysis, in any unit of time.
fn memory_time(customers: u32, core: f64, memory: f64) -> f64 {
    let (mut queue, mut time) = (0.0, 0.0);
    for customer in 1..=customers {
        // Who arrives finds the queue of a network with one customer less.
        time = memory * (1.0 + queue);
        queue = f64::from(customer) * time / (core + time);
    }
    time
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::{CpuId, Machine, Policy};
    use proptest::prelude::*;

    fn crowds() -> impl Strategy<Value = Crowd> {
        (1..40_u32, 1..3_u32).prop_flat_map(|(busy_cpus, threads_per_cpu)| {
            (0..=busy_cpus).prop_map(move |slowed_cpus| Crowd { busy_cpus, slowed_cpus, threads_per_cpu })
        })
    }

    #[test]
    fn two_customers_wait_as_the_closed_form_says() {
        // R(2) = S + S Q(1), Q(1) = S / (Z + S).
        let (core, memory) = (0.7, 0.3);
        assert!((memory_time(2, core, memory) - memory * (1.0 + memory)).abs() < 1e-12);
        assert_eq!(memory_time(1, core, memory), memory);
        // With nothing but memory, customers go through it one after the other.
        assert!((memory_time(5, 0.0, 0.2) - 1.0).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn a_memory_serves_no_more_than_it_can(customers in 1..100_u32, core in 0.0..1.0, memory in 0.001..1.0) {
            let cycle = core + memory_time(customers, core, memory);
            let bound = (f64::from(customers) * memory).max(core + memory);
            prop_assert!(cycle >= bound - 1e-9, "{cycle} is less than {bound}");
            prop_assert!(cycle <= core + f64::from(customers) * memory + 1e-9);
        }

        #[test]
        fn a_faster_memory_never_makes_it_slower(customers in 1..100_u32, core in 0.0..1.0, memory in 0.001..1.0, by in 1.0..9.0) {
            prop_assert!(memory_time(customers, core, memory / by) <= memory_time(customers, core, memory));
        }

        #[test]
        fn another_thread_at_full_speed_never_makes_the_others_of_its_node_faster(crowd in crowds(), memory in 0.0..1.0, slowdown in 1.0..3.0) {
            let more = Crowd { busy_cpus: crowd.busy_cpus + 1, ..crowd };
            prop_assert!(slowest_thread(&more, memory, slowdown) >= slowest_thread(&crowd, memory, slowdown) - 1e-9);
        }

        #[test]
        fn placements_that_share_the_same_take_the_same(
            cpus in proptest::collection::vec(0..64_u32, 1..64), memory in 0.0..1.0, crosstalk in 0.0..0.01,
        ) {
            let machine = Machine::named("opteron-6272").unwrap();
            let demand = Demand { memory, crosstalk };
            let time = |place: fn(u32) -> u32| {
                let cpus: Vec<CpuId> = cpus.iter().map(|&cpu| CpuId(place(cpu))).collect();
                bound_time(&Seating::new(&machine, &cpus), demand, 2.0)
            };
            // The other CPU of each module; the modules of each die in reverse; the packages in reverse.
            let itself = time(|cpu| cpu);
            for symmetry in [|cpu| cpu ^ 1, |cpu| cpu ^ 6, |cpu| cpu ^ 48] {
                prop_assert!((time(symmetry) - itself).abs() <= 1e-12 * itself);
            }
        }

        #[test]
        fn sharing_less_is_never_slower(threads in 1..9_usize, memory in 0.0..1.0, slowdown in 1.0..2.0) {
            let machine = Machine::named("xeon-e5620").unwrap();
            let demand = Demand { memory, crosstalk: 0.001 };
            let [compact, scatter] = [Policy::Compact, Policy::Scatter].map(|policy| {
                let cpus = policy.place(&machine, threads).unwrap().cpus().unwrap();
                bound_time(&Seating::new(&machine, &cpus), demand, slowdown)
            });
            prop_assert!(scatter <= compact + 1e-12);
        }

        #[test]
        fn who_can_move_at_the_end_loses_less(bound in 0.1..1.0, by in 1.0..3.0, probability in 0.0..1.0) {
            let one = unbound_time(bound, bound * by, probability, Barriers::One);
            let many = unbound_time(bound, bound * by, probability, Barriers::Many);
            prop_assert!(bound <= one + 1e-12 && one <= many + 1e-12);
        }
    }
}
