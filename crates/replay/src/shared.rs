//! Memory that forked processes have in common.

use crate::ReplayError;
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::num::NonZeroUsize;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// What is whole when all its bytes are 0, and may be used by several processes at once.
///
/// # Safety
/// All zeros must be a value, and it must consist of atomics alone.
pub(crate) unsafe trait Common {}

// SAFETY: an atomic integer may be 0.
unsafe impl Common for AtomicU32 {}
// SAFETY: an atomic integer may be 0.
unsafe impl Common for AtomicU64 {}

/// A slice of such values, mapped anew, so all 0. Processes that are forked afterwards see the same one. Pages cost
/// memory once they are written to.
pub(crate) struct Shared<T: Common> {
    start: NonNull<T>,
    count: usize,
}

impl<T: Common> Shared<T> {
    pub(crate) fn new(count: usize) -> Result<Self, ReplayError> {
        let bytes = NonZeroUsize::new(count * size_of::<T>()).unwrap_or(NonZeroUsize::MIN);
        let (protection, flags) =
            (ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_SHARED | MapFlags::MAP_NORESERVE);
        // SAFETY: a new mapping of memory at an address of the kernel's choice touches nothing that exists.
        let start = unsafe { mmap_anonymous(None, bytes, protection, flags) };
        let start = start.map_err(|cause| ReplayError::system("map shared memory", cause))?;
        Ok(Self { start: start.cast(), count })
    }
}

impl<T: Common> Deref for Shared<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the mapping holds `count` values, page-aligned and at first 0, which is a value of T; T is made of atomics, so
        // others may write while we read.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }
}

impl<T: Common> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: it is our mapping, and nothing borrowed from it outlives us. Failing would only keep the memory.
        let _ = unsafe { munmap(self.start.cast(), (self.count * size_of::<T>()).max(1)) };
    }
}
