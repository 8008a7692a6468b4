//! How the threads of a subject get their places, and how they are noticed.

pub use launch::{Observe, SlotRule, Unit};

use serde::{Deserialize, Serialize};

/// How the threads of a program, or its processes, get their places. It is part of the plan: with another one it is another study.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Binding {
    /// What takes a slot of the placement.
    pub unit: Unit,
    /// Threads or processes, by order of creation from 0, that are left alone and take no slot; rising.
    pub skip: Vec<u32>,
    /// Who takes which slot by what it is called; the first rule that matches holds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<SlotRule>,
    /// How threads are noticed.
    pub observe: Observe,
}

impl Binding {
    /// A binding that leaves `skip` alone, in whatever order they are named.
    pub fn new(unit: Unit, mut skip: Vec<u32>, observe: Observe) -> Self {
        skip.sort_unstable();
        skip.dedup();
        Self { unit, skip, slots: Vec::new(), observe }
    }

    /// The same, in which these rules say who takes which slot.
    #[must_use]
    pub fn with_slots(self, slots: Vec<SlotRule>) -> Self {
        Self { slots, ..self }
    }

    /// Whether it is how programs are bound where nothing is said.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_in_which_threads_to_leave_alone_are_named_does_not_matter() {
        let binding = |skip: &[u32]| Binding::new(Unit::Process, skip.to_vec(), Observe::Trace);
        assert_eq!(binding(&[2, 0, 2]), binding(&[0, 2]));
        assert_ne!(binding(&[0]), binding(&[1]));
    }

    #[test]
    fn a_plan_says_only_what_is_not_usual() {
        assert!(serde_json::from_str::<Binding>("{}").unwrap().is_default());
        let text = r#"{"unit":"process","skip":[0],"observe":"trace"}"#;
        let binding: Binding = serde_json::from_str(text).unwrap();
        assert_eq!(binding, Binding::new(Unit::Process, vec![0], Observe::Trace));
        assert_eq!(serde_json::to_string(&binding).unwrap(), text);
    }
}
