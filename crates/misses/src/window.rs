//! What an address of the guest means.
//!
//! A plugin sees addresses, not processes. So who replays processes in a guest puts their data where the address tells whose
//! they are: each process and each job has a window of 4 GiB of its own in its virtual memory.
//!
//! The windows lie where Linux puts nothing by itself on x86-64. Executables that aren't position-independent are at the bottom,
//! with their heap behind them; everything else is from a third of user space upwards: libraries where stacks have no limit, the
//! page through which the kernel patches its own code, from two thirds (`ELF_ET_DYN_BASE`) executables that are
//! position-independent with their heap, and libraries and stacks at the top.

/// Stores to this page begin sections: the `n`th 8 bytes begin section `n`.
pub const MARKS: u64 = 0x09e0_0000_0000;
/// Marks that there are, that of 0 included, which ends the section before.
pub const SECTIONS: u32 = 512;
/// Where the data begin that the processes of job 0 share. Those of job `j` begin `j` windows further.
pub const SHARED: u64 = 0x09f0_0000_0000;
/// Jobs with windows.
pub const JOBS: u32 = 16;
/// Where the data begin that process 0 has for itself. Those of process `n` begin `n` windows further.
pub const OWN: u64 = SHARED + JOBS as u64 * WINDOW_BYTES;
/// Processes with windows.
pub const PROCESSES: u32 = 8192;
/// Size of a window.
pub const WINDOW_BYTES: u64 = 1 << 32;

/// Where the kernel's half of an x86-64 guest's memory begins.
pub const KERNEL: u64 = 1 << 63;

const MARK_BYTES: u64 = 8;
const MARKS_END: u64 = MARKS + SECTIONS as u64 * MARK_BYTES;
const OWN_END: u64 = OWN + PROCESSES as u64 * WINDOW_BYTES;

/// Number of a process of interest, as a replay in the guest numbers them: never the guest kernel's pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessIndex(pub u32);

impl ProcessIndex {
    pub(crate) fn at(self) -> usize {
        self.0 as usize
    }
}

/// Number of a job, as a replay in the guest numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobIndex(pub u32);

/// Number of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SectionIndex(pub u32);

impl SectionIndex {
    /// No section: its mark ends the one before.
    pub const OUTSIDE: Self = Self(0);
}

/// What lies at a virtual address, with its place in its window in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The mark of a section.
    Mark(SectionIndex),
    /// Data that a job's processes share.
    Shared(JobIndex, u64),
    /// Data that a process has for itself.
    Own(ProcessIndex, u64),
    /// Anything in user space, where tasks say whose it is.
    User,
    /// Anything else: code, stacks, libraries, the kernel.
    Other,
}

impl Place {
    /// What lies at `address`.
    #[inline]
    pub fn at(address: u64) -> Self {
        let index = |base: u64| ((address - base) / WINDOW_BYTES) as u32;
        // Windows begin at multiples of their size.
        let offset = address % WINDOW_BYTES;
        match address {
            MARKS..MARKS_END => Self::Mark(SectionIndex(((address - MARKS) / MARK_BYTES) as u32)),
            SHARED..OWN => Self::Shared(JobIndex(index(SHARED)), offset),
            OWN..OWN_END => Self::Own(ProcessIndex(index(OWN)), offset),
            _ => Self::Other,
        }
    }

    /// The section whose mark this is.
    #[inline]
    pub fn marked(self) -> Option<SectionIndex> {
        match self {
            Self::Mark(section) => Some(section),
            _ => None,
        }
    }
}

/// Where the data of a process begin.
pub fn own(process: ProcessIndex) -> u64 {
    OWN + u64::from(process.0) * WINDOW_BYTES
}

/// Where the data begin that a job's processes share.
pub fn shared(job: JobIndex) -> u64 {
    SHARED + u64::from(job.0) * WINDOW_BYTES
}

/// Where to store to begin a section.
pub fn mark(section: SectionIndex) -> u64 {
    MARKS + u64::from(section.0) * MARK_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_where_replays_put_their_data() {
        assert_eq!(own(ProcessIndex(3)), 0x0a00_0000_0000 + 3 * 0x1_0000_0000);
        assert_eq!(shared(JobIndex(3)), 0x09f0_0000_0000 + 3 * 0x1_0000_0000);
        assert_eq!(mark(SectionIndex(3)), 0x09e0_0000_0000 + 3 * 8);
    }

    #[test]
    fn windows_are_clear_of_what_linux_maps_by_itself() {
        let a_third = ((1 << 47) - 4096) / 3;
        let executables = [0x40_0000, 0x40_0000 + (1 << 40)];
        let mapped = (0..=64).map(|part| a_third + part * (a_third / 32));
        for address in executables.into_iter().chain(mapped) {
            assert_eq!(Place::at(address), Place::Other, "{address:#x}");
        }
    }

    #[test]
    fn every_address_means_one_thing() {
        for n in [0, 1, 15] {
            assert_eq!(Place::at(shared(JobIndex(n)) + 5), Place::Shared(JobIndex(n), 5));
        }
        for n in [0, 1, 23, PROCESSES - 1] {
            assert_eq!(Place::at(own(ProcessIndex(n))), Place::Own(ProcessIndex(n), 0));
            assert_eq!(
                Place::at(own(ProcessIndex(n)) + WINDOW_BYTES - 1),
                Place::Own(ProcessIndex(n), WINDOW_BYTES - 1)
            );
        }
        for n in [0, 1, SECTIONS - 1] {
            assert_eq!(Place::at(mark(SectionIndex(n))), Place::Mark(SectionIndex(n)));
            assert_eq!(Place::at(mark(SectionIndex(n)) + 7), Place::Mark(SectionIndex(n)));
        }
        let beyond = own(ProcessIndex(PROCESSES));
        for address in [0, MARKS - 1, mark(SectionIndex(SECTIONS)), SHARED - 1, beyond, u64::MAX] {
            assert_eq!(Place::at(address), Place::Other, "{address:#x}");
        }
    }
}
