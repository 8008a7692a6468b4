//! By what programs can be profiled here.

use crate::collector::{Collector, Refused, Right, Watched, check};
use crate::records;
use std::io;
use std::mem::MaybeUninit;
use std::thread;

/// By what programs can be profiled here.
#[derive(Debug)]
pub enum Means {
    /// Any program is counted in the kernel, by this right.
    Kernel(Right),
    /// One's own commands alone, by the kernel's records of switches, since counting in it is refused.
    Records(Refused),
    /// Nothing can be profiled.
    None {
        /// Why not in the kernel.
        kernel: Refused,
        /// Why there are no records.
        records: io::Error,
    },
}

impl Means {
    /// Loads the collector, attaches it and takes it away again: only that tells whether the kernel lets us. Where it doesn't, opens
    /// records of this thread.
    pub fn find() -> Self {
        // Whoever counts in the kernel gives up capabilities.
        let loaded = thread::spawn(|| {
            let right = check()?;
            Collector::load(&mut MaybeUninit::uninit(), Watched::Named).map(|_| right)
        });
        match loaded.join().unwrap_or_else(|_| Err(Refused("the collector can't be loaded".into()))) {
            Ok(right) => Self::Kernel(right),
            Err(kernel) => match records::check() {
                Ok(()) => Self::Records(kernel),
                Err(records) => Self::None { kernel, records },
            },
        }
    }
}
