//! Whether the scalable queue takes whom the exact one takes: both as models, with the BPF side's own keys.

use proptest::prelude::*;
use sim::Decay;
use sim::rule::{self, Distance, LOAD_ONE, Phi, TimeBoost};

unsafe extern "C" {
    safe fn test_order_key(rule: u32, shift: u64, cpu_ticks: u32) -> u64;
    safe fn test_key_shift_of(rule: u32, argument: u32) -> u64;
}

const CPUS: u32 = 4;

/// A process that waits.
#[derive(Clone, Debug)]
struct Waiting {
    cpu_ticks: u32,
    last_cpu: u32,
    key: u64,
    order: u64,
}

/// What happens to the queues.
#[derive(Clone, Debug)]
enum Event {
    /// A process comes.
    Enter { cpu_ticks: u32, last_cpu: u32 },
    /// A decay period ends.
    Decay,
    /// A CPU searches.
    Search { cpu: u32 },
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        6 => (0..400_u32, 0..CPUS).prop_map(|(cpu_ticks, last_cpu)| Event::Enter { cpu_ticks, last_cpu }),
        1 => Just(Event::Decay),
        4 => (0..CPUS).prop_map(|cpu| Event::Search { cpu }),
    ];
    prop::collection::vec(event, 1..120)
}

/// Goes through the events, and holds whom the two take against each other: the boosted priorities may differ by so much of the
/// ticks, and so many half units.
fn hold(events: &[Event], decay: Decay, argument: u32, phi: u32, share: f64, units: i32) -> Result<(), TestCaseError> {
    let phi = Phi::new([phi, 0, 0, 0, 0, 0], phi, TimeBoost::Simple, 0);
    let (number, _) = decay.rule();
    let (mut queue, mut shift, mut order): (Vec<Waiting>, u64, u64) = (Vec::new(), 0, 0);
    for event in events {
        match *event {
            Event::Enter { cpu_ticks, last_cpu } => {
                order += 1;
                let key = test_order_key(number, shift, cpu_ticks);
                queue.push(Waiting { cpu_ticks, last_cpu, key, order });
            }
            Event::Decay => {
                shift += test_key_shift_of(number, argument);
                queue.iter_mut().for_each(|one| one.cpu_ticks = rule::decay(one.cpu_ticks, decay, argument));
            }
            Event::Search { cpu } => {
                let boosted = |one: &&Waiting| {
                    let distance = if one.last_cpu == cpu { Distance::SameCpu } else { Distance::Far };
                    (rule::prio(0, one.cpu_ticks) - phi.boost(distance, false, 0), one.order)
                };
                let heads = (0..CPUS).filter_map(|of| {
                    queue.iter().filter(|one| one.last_cpu == of).min_by_key(|one| (one.key, one.order))
                });
                let (exact, scalable) = (queue.iter().min_by_key(boosted), heads.min_by_key(boosted));
                let (Some(exact), Some(scalable)) = (exact, scalable) else { continue };
                if units == 0 {
                    prop_assert_eq!(exact.order, scalable.order);
                }
                let apart = boosted(&scalable).0 - boosted(&exact).0;
                let allowed = units + (share * f64::from(exact.cpu_ticks)) as i32;
                prop_assert!(apart <= allowed, "{apart} half units apart: {exact:?}, {scalable:?}");
                let taken = scalable.order;
                queue.retain(|one| one.order != taken);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn without_decay_both_take_the_same(events in events(), phi in 0..20_u32) {
        hold(&events, Decay::None, 0, phi, 0.0, 0)?;
    }

    #[test]
    fn halving_makes_them_differ_by_what_it_rounds(events in events(), phi in 0..20_u32) {
        hold(&events, Decay::Half, 0, phi, 0.0, 1)?;
    }

    #[test]
    fn subtracting_makes_them_differ_by_nothing_but_turns(events in events(), phi in 0..20_u32, ticks in 1..100_u32) {
        hold(&events, Decay::Subtract(ticks), ticks, phi, 0.0, 1)?;
    }

    /// The logarithm is a straight line between powers of two, at most 0.086 off: 6 %, for either of two. And each period rounds down
    /// by up to a tick, of which the later ones leave a share: 2 L + 1 in all.
    #[test]
    fn the_load_s_decay_makes_them_differ_by_little(events in events(), phi in 0..20_u32, load in 1_024..40_960_u32) {
        hold(&events, Decay::Bsd, load, phi, 0.13, 3 + (2 * load / LOAD_ONE) as i32)?;
    }
}

#[test]
fn a_logarithm_falls_by_one_when_its_value_is_halved_and_never_falls_as_it_grows() {
    let (half, _) = Decay::Half.rule();
    for ticks in 1..100_000_u32 {
        let key = |ticks: u32| test_order_key(half, 0, ticks);
        assert_eq!(key(2 * ticks), key(ticks) + test_key_shift_of(half, 0), "{ticks}");
        assert!(key(ticks + 1) > key(ticks) && key(ticks) > key(0), "{ticks}");
    }
}
