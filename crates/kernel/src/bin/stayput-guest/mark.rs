//! A mark for what models caches outside of the machine: here a section begins.

use kernel::play::window::MARKS_START;
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous};
use std::io;
use std::num::NonZeroUsize;

#[derive(clap::Args)]
pub struct Arguments {
    /// The section's number; 0 ends the one before.
    section: u16,
}

/// The page that marks are made in.
const PAGE_BYTES: usize = 4_096;

/// Stores to the mark of a section.
pub fn run(arguments: &Arguments) -> io::Result<String> {
    let offset = usize::from(arguments.section) * size_of::<u64>();
    if offset >= PAGE_BYTES {
        return Err(io::Error::other(format!("sections have numbers below {}", PAGE_BYTES / size_of::<u64>())));
    }
    // SAFETY: nothing else is mapped at this address.
    let page = unsafe {
        mmap_anonymous(
            NonZeroUsize::new(MARKS_START),
            NonZeroUsize::new(PAGE_BYTES).ok_or_else(|| io::Error::other("a page has no bytes"))?,
            ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
            MapFlags::MAP_PRIVATE | MapFlags::MAP_FIXED_NOREPLACE,
        )
    }?;
    // SAFETY: the page is mapped, and the mark lies in it, aligned.
    unsafe { page.cast::<u8>().add(offset).cast::<u64>().write_volatile(1) };
    Ok(format!("{{\"section\": {}}}", arguments.section))
}
