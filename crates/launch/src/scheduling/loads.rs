//! How many processes live on each CPU, in memory that processes share.

use machine::{CpuId, CpuSet};
use std::io;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of processes on each CPU. Clones count the same, also those that children of this process have by fork(2).
#[derive(Clone)]
pub(crate) struct Loads(Arc<Shared>);

impl Loads {
    /// None yet, on CPUs up to the last of these.
    ///
    /// # Errors
    /// When there is no memory.
    pub(crate) fn new(cpus: &CpuSet) -> io::Result<Self> {
        Shared::new(cpus.iter().last().map_or(0, |cpu| cpu.0 as usize + 1)).map(Into::into).map(Self)
    }

    /// The CPU of these that has the fewest, the lowest on ties, with one more; none when there are no CPUs.
    pub(crate) fn take_least(&self, cpus: &CpuSet) -> Option<CpuId> {
        let counts = self.0.counts();
        let count = |cpu: CpuId| counts.get(cpu.0 as usize);
        loop {
            let loads = cpus.iter().filter_map(|cpu| Some((count(cpu)?.load(Ordering::Acquire), cpu)));
            let (fewest, cpu) = loads.min()?;
            // Another may have taken it since it was looked at.
            if count(cpu)?.compare_exchange(fewest, fewest + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return Some(cpu);
            }
        }
    }

    /// One that was taken is no more.
    pub(crate) fn give_back(&self, cpu: CpuId) {
        if let Some(count) = self.0.counts().get(cpu.0 as usize) {
            count.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// Anonymous memory that stays one across fork(2), as so many counts.
struct Shared {
    first: NonNull<AtomicU32>,
    length: usize,
}

// SAFETY: all access is by atomic operations.
unsafe impl Send for Shared {}
// SAFETY: likewise.
unsafe impl Sync for Shared {}

impl Shared {
    fn new(length: usize) -> io::Result<Self> {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: the call makes new memory, and touches none of ours.
        let memory = unsafe { libc::mmap(ptr::null_mut(), Self::bytes(length), access, kind, -1, 0) };
        match NonNull::new(memory).filter(|_| memory != libc::MAP_FAILED) {
            Some(memory) => Ok(Self { first: memory.cast(), length }),
            None => Err(io::Error::last_os_error()),
        }
    }

    /// No mapping is empty.
    fn bytes(length: usize) -> usize {
        length.max(1) * size_of::<AtomicU32>()
    }

    fn counts(&self) -> &[AtomicU32] {
        // SAFETY: the memory is so long, was zeros, which are counts, and lives as long as this.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.length) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nobody borrows it any more.
        unsafe { libc::munmap(self.first.as_ptr().cast(), Self::bytes(self.length)) };
    }
}
