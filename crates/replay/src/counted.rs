//! The part of a replay that is counted by a model of caches that watches the machine from outside.

use crate::ReplayError;
use crate::shared::Shared;
use misses::marks::Marks;
use misses::window::SectionIndex;
use nix::errno::Errno;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::time::Duration;

/// From when on a replay is counted, and as which section. It is until the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The section's number.
    pub section: SectionIndex,
    /// How long after the start it begins.
    pub after: Duration,
}

/// Begins and ends the section. Whichever process first sees that it is time does it, on its way: a process of its own would wait for a CPU, or
/// take one from those that are watched.
pub(crate) struct Section {
    counted: Counted,
    marks: Marks,
    /// Whether it has begun, and ended.
    progress: Shared<AtomicU32>,
}

const BEGUN: u32 = 1;
const ENDED: u32 = 2;

impl Section {
    /// None where nothing is counted.
    pub(crate) fn new(counted: Option<Counted>) -> Result<Option<Self>, ReplayError> {
        let failed = |errno: Errno| ReplayError::system("map the page of marks", errno);
        let section = |counted| Ok(Self { counted, marks: Marks::map().map_err(failed)?, progress: Shared::new(1)? });
        counted.map(section).transpose()
    }

    /// A process sees that so many ns have passed since the start.
    #[inline]
    pub(crate) fn pass(&self, since_start_ns: u64) {
        if self.progress[0].load(Relaxed) < BEGUN && u128::from(since_start_ns) >= self.counted.after.as_nanos() {
            self.advance(0, BEGUN, self.counted.section);
        }
    }

    /// The replay is over.
    pub(crate) fn end(&self) {
        self.advance(BEGUN, ENDED, SectionIndex::OUTSIDE);
    }

    fn advance(&self, from: u32, to: u32, section: SectionIndex) {
        if self.progress[0].compare_exchange(from, to, AcqRel, Relaxed).is_ok() {
            self.marks.begin(section);
        }
    }
}
