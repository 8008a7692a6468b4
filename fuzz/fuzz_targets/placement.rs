//! `MACHINE THREADS POLICY`, such as `opteron-6272 64 scatter`: there is a sentence why not, or every thread has a CPU
//! that is usable, and every syntax can say so.
#![no_main]

use libfuzzer_sys::fuzz_target;
use machine::{Machine, Policy, Syntax, preset};
use std::collections::BTreeMap;
use std::sync::LazyLock;
use strum::VariantArray;

static MACHINES: LazyLock<BTreeMap<&str, Machine>> =
    LazyLock::new(|| preset::names().map(|name| (name, Machine::named(name).expect("a preset is read"))).collect());

fuzz_target!(|text: &str| {
    let mut words = text.splitn(3, ' ');
    let Some(machine) = words.next().and_then(|name| MACHINES.get(name)) else { return };
    let Some(threads) = words.next().and_then(|threads| threads.parse::<u16>().ok()) else { return };
    let Some(policy) = words.next() else { return };
    let placement = match policy.parse::<Policy>().and_then(|policy| policy.place(machine, threads.into())) {
        Ok(placement) => placement,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    assert_eq!(placement.slots.len(), usize::from(threads));
    assert!(placement.slots.iter().all(|slot| !slot.is_empty() && slot.is_subset(&machine.usable_cpus())));
    assert!(placement.doubled_up() < placement.slots.len());
    assert!(!placement.footprint(machine).to_string().is_empty());
    for syntax in Syntax::VARIANTS {
        assert!(syntax.line(&placement).is_ok_and(|line| !line.is_empty()), "{syntax}");
    }
});
