//! How the threads of a program get their places: the flags of `run` and `study` alike.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use launch::{Observe, SlotRule, Unit};
use study::Binding;

/// How threads get their places, and how they are noticed.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct BindingArgs {
    /// Threads (with --unit process: processes) to leave alone, by order of creation from 0; they take no place
    #[arg(long, value_name = "I,J", value_delimiter = ',')]
    pub skip: Vec<u32>,

    /// Who takes which place by what its thread or process is called: 'postgres: *writer* = free' leaves it alone, 'GC* = 0' gives it the
    /// first, '* = next' the one that fewest have; the first that matches holds [default: places go by order of creation]
    #[arg(long = "slot", value_name = "NAME=PLACE", conflicts_with = "skip")]
    pub slots: Vec<SlotRule>,

    /// What takes a place: each thread, or each process of the program's tree with all its threads
    #[arg(long, default_value = "thread", value_parser = one_of([("thread", Unit::Thread), ("process", Unit::Process)]))]
    pub unit: Unit,

    /// How threads are noticed: by ptrace, or by looking at /proc now and then, for programs that use ptrace themselves
    #[arg(long, default_value = "trace", value_parser = one_of([("trace", Observe::Trace), ("poll", Observe::Poll)]))]
    pub observe: Observe,
}

impl From<BindingArgs> for Binding {
    fn from(BindingArgs { skip, slots, unit, observe }: BindingArgs) -> Self {
        Self::new(unit, skip, observe).with_slots(slots)
    }
}

/// A choice among names that stand for values.
fn one_of<T: Copy + Send + Sync + 'static>(choices: [(&'static str, T); 2]) -> impl TypedValueParser<Value = T> {
    let value = move |name: String| choices.into_iter().find(|(other, _)| *other == name).map(|(_, value)| value);
    PossibleValuesParser::new(choices.map(|(name, _)| name)).try_map(move |name| value(name).ok_or("no such choice"))
}
