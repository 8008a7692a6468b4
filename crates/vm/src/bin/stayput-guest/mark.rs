//! A mark for what models caches outside of the machine: here a section begins.

use misses::window::{MARKS, SECTIONS, SectionIndex, mark};
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous};
use std::io;
use std::num::NonZeroUsize;

#[derive(clap::Args)]
pub struct Arguments {
    /// The section's number; 0 ends the one before.
    section: u16,
}

/// The page that marks are made in.
const PAGE_BYTES: NonZeroUsize = NonZeroUsize::new(4_096).expect("a page has bytes");

/// Stores to the mark of a section.
pub fn run(arguments: &Arguments) -> io::Result<String> {
    let section = u32::from(arguments.section);
    if section >= SECTIONS {
        return Err(io::Error::other(format!("sections have numbers below {SECTIONS}")));
    }
    // SAFETY: MAP_FIXED_NOREPLACE fails where anything is mapped.
    let page = unsafe {
        mmap_anonymous(
            NonZeroUsize::new(MARKS as usize),
            PAGE_BYTES,
            ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
            MapFlags::MAP_PRIVATE | MapFlags::MAP_FIXED_NOREPLACE,
        )
    }?;
    let offset = (mark(SectionIndex(section)) - MARKS) as usize;
    // SAFETY: the page is mapped, and all marks lie in it, aligned.
    unsafe { page.cast::<u8>().add(offset).cast::<u64>().write_volatile(1) };
    Ok(format!("{{\"section\": {section}}}"))
}
