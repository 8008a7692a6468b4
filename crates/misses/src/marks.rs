//! The page in which a program of the guest marks where sections begin.

use crate::window::{MARKS, SECTIONS, SectionIndex, mark};
use nix::errno::Errno;
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::num::NonZeroUsize;
use std::ptr::NonNull;

const PAGE_BYTES: NonZeroUsize = NonZeroUsize::new(4_096).expect("a page has bytes");

/// The page of marks, mapped in this process and in those that it forks.
pub struct Marks(NonNull<u8>);

impl Marks {
    /// Maps the page.
    ///
    /// # Errors
    /// The kernel's, `EEXIST` where something else is mapped there.
    pub fn map() -> Result<Self, Errno> {
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_FIXED_NOREPLACE | MapFlags::MAP_POPULATE;
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: MAP_FIXED_NOREPLACE fails where anything is mapped.
        unsafe { mmap_anonymous(NonZeroUsize::new(MARKS as usize), PAGE_BYTES, protection, flags) }
            .map(|page| Self(page.cast()))
    }

    /// Begins a section, where a model of caches watches; [`SectionIndex::OUTSIDE`] ends the one before. A number that no section has is no mark.
    pub fn begin(&self, section: SectionIndex) {
        if section.0 < SECTIONS {
            let offset = (mark(section) - MARKS) as usize;
            // SAFETY: the page is mapped as long as `self` lives, and all marks lie in it, aligned.
            unsafe { self.0.add(offset).cast::<u64>().write_volatile(1) };
        }
    }
}

impl Drop for Marks {
    fn drop(&mut self) {
        // SAFETY: it is our mapping, of which nothing is borrowed.
        let _ = unsafe { munmap(self.0.cast(), PAGE_BYTES.get()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_mapped_once_and_holds_every_mark() {
        let marks = Marks::map().unwrap();
        (0..=SECTIONS).for_each(|section| marks.begin(SectionIndex(section)));
        // SAFETY: it is the mapped page.
        let words = unsafe { std::slice::from_raw_parts(marks.0.as_ptr().cast::<u64>(), SECTIONS as usize) };
        assert!(words.iter().all(|&word| word == 1), "{words:?}");
        assert_eq!(Marks::map().err(), Some(Errno::EEXIST));
        drop(marks);
        assert!(Marks::map().is_ok());
    }
}
