//! The page that a job and the allocator share, and the bell by which the job says that it has written to it.
//!
//! Its layout is that of `include/stayput_share.h`. It is a memfd whose size is sealed: a job that could shrink it could kill us by a
//! page that is gone. Whatever else a job writes there only misleads the job: we read `wanted` and nothing else.

use machine::{CpuId, CpuSet};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, SealFlag, fcntl};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use nix::unistd::ftruncate;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// The environment variable that names the descriptors of page and bell.
pub(crate) const VARIABLE: &str = "STAYPUT_SHARE";

const MAGIC: u32 = 0x5941_5453;
const VERSION: u32 = 1;
const MOST_CPUS: usize = 8192;

/// `struct stayput_share_page`.
#[repr(C)]
struct Layout {
    magic: AtomicU32,
    version: AtomicU32,
    capacity: AtomicU32,
    wanted: AtomicU32,
    granted: AtomicU32,
    heard: AtomicU32,
    generation: AtomicU32,
    reserved: AtomicU32,
    cpus: [AtomicU64; MOST_CPUS / 64],
}

/// The page of a job, and its bell.
#[derive(Debug)]
pub(crate) struct Page {
    file: OwnedFd,
    bell: EventFd,
    layout: NonNull<Layout>,
    generation: u32,
}

impl Page {
    /// A new page, for a job among those that share `capacity` CPUs.
    pub(crate) fn new(capacity: u32) -> Result<Self, Errno> {
        let file = memfd_create(c"stayput-share", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?;
        ftruncate(&file, size_of::<Layout>() as libc::off_t)?;
        fcntl(&file, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL))?;
        let bell = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        let length = NonZeroUsize::new(size_of::<Layout>()).ok_or(Errno::EINVAL)?;
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping, at an address that the kernel chooses, touches no memory of ours.
        let mapped = unsafe { mmap(None, length, protection, MapFlags::MAP_SHARED, &file, 0) }?;
        let page = Self { file, bell, layout: mapped.cast(), generation: 0 };
        let layout = page.layout();
        layout.magic.store(MAGIC, Ordering::Relaxed);
        layout.version.store(VERSION, Ordering::Relaxed);
        layout.capacity.store(capacity, Ordering::Relaxed);
        Ok(page)
    }

    fn layout(&self) -> &Layout {
        // SAFETY: the mapping is as large as a `Layout`, aligned to a page, lives as long as `self`, and can't shrink, since the file's size
        // is sealed. It began as zeros and holds atomics only, which others may write at any time.
        unsafe { self.layout.as_ref() }
    }

    /// CPUs that the job says that it can use; 0 when it has said nothing.
    pub(crate) fn wanted(&self) -> u32 {
        self.layout().wanted.load(Ordering::SeqCst)
    }

    /// Whether the bell rang since this was last asked.
    pub(crate) fn rang(&self) -> bool {
        self.bell.read().is_ok()
    }

    /// Tells the job which CPUs it has, that being the answer to its `heard`, and wakes who waits for it.
    pub(crate) fn publish(&mut self, cpus: &CpuSet, heard: u32) {
        let layout = self.layout();
        // Of ours, not the page's: a job that writes there can't make us count on from its number.
        let odd = self.generation.wrapping_add(1);
        layout.generation.store(odd, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let mut words = [0_u64; MOST_CPUS / 64];
        for CpuId(cpu) in cpus.iter().filter(|cpu| (cpu.0 as usize) < MOST_CPUS) {
            words[cpu as usize / 64] |= 1 << (cpu % 64);
        }
        layout.cpus.iter().zip(words).for_each(|(word, bits)| word.store(bits, Ordering::Relaxed));
        layout.granted.store(cpus.iter().count() as u32, Ordering::Release);
        layout.heard.store(heard, Ordering::Release);
        layout.generation.store(odd.wrapping_add(1), Ordering::Release);
        self.generation = odd.wrapping_add(1);
        let everybody = libc::c_int::MAX;
        let nothing = ptr::null::<libc::c_void>();
        // SAFETY: the word is part of our mapping; waking changes no memory.
        unsafe {
            libc::syscall(libc::SYS_futex, self.layout().generation.as_ptr(), libc::FUTEX_WAKE, everybody, nothing);
        }
    }

    /// What [`VARIABLE`] says to the job. No two pages that exist say the same.
    pub(crate) fn descriptors(&self) -> String {
        format!("{},{}", self.file.as_raw_fd(), self.bell.as_fd().as_raw_fd())
    }

    /// Lets a process inherit page and bell that `start` starts, and no other.
    pub(crate) fn inherited<T>(&self, start: impl FnOnce() -> T) -> Result<T, Errno> {
        let set = |flags| {
            fcntl(&self.file, FcntlArg::F_SETFD(flags))?;
            fcntl(self.bell.as_fd(), FcntlArg::F_SETFD(flags)).map(drop)
        };
        set(FdFlag::empty())?;
        let started = start();
        set(FdFlag::FD_CLOEXEC)?;
        Ok(started)
    }
}

impl AsFd for Page {
    /// The bell: it can be read from when the job has rung it.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: this is the whole mapping that `new` made, and nobody refers to it any more.
        let _ = unsafe { munmap(self.layout.cast(), size_of::<Layout>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn it_is_laid_out_as_the_header_says() {
        let offsets = [
            ("magic", offset_of!(Layout, magic)),
            ("version", offset_of!(Layout, version)),
            ("capacity", offset_of!(Layout, capacity)),
            ("wanted", offset_of!(Layout, wanted)),
            ("granted", offset_of!(Layout, granted)),
            ("heard", offset_of!(Layout, heard)),
            ("generation", offset_of!(Layout, generation)),
            ("reserved", offset_of!(Layout, reserved)),
            ("cpus[STAYPUT_SHARE_MOST_CPUS / 64]", offset_of!(Layout, cpus)),
        ];
        for (name, offset) in offsets {
            let line = crate::HEADER.lines().find(|line| line.contains(&format!("t {name};"))).unwrap();
            let told = line.split_once("offset").unwrap().1.trim();
            assert!(told.starts_with(&format!("{offset}:")), "{line}");
        }
        assert!(crate::HEADER.contains(&format!("STAYPUT_SHARE_MAGIC 0x{MAGIC:X}u")));
        assert!(crate::HEADER.contains(&format!("STAYPUT_SHARE_VERSION {VERSION}u")));
        assert!(crate::HEADER.contains(&format!("STAYPUT_SHARE_MOST_CPUS {MOST_CPUS}")));
    }

    #[test]
    fn a_job_can_neither_shrink_nor_unseal_it() {
        let page = Page::new(4).unwrap();
        assert_eq!(ftruncate(&page.file, 0), Err(Errno::EPERM));
        assert_eq!(ftruncate(&page.file, 1 << 20), Err(Errno::EPERM));
        assert_eq!(fcntl(&page.file, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_WRITE)), Err(Errno::EPERM));
    }

    #[test]
    fn whatever_a_job_writes_there_the_next_answer_is_whole() {
        let mut page = Page::new(4).unwrap();
        page.layout().generation.store(77, Ordering::Relaxed);
        page.layout().granted.store(99, Ordering::Relaxed);
        page.layout().wanted.store(u32::MAX, Ordering::Relaxed);
        assert_eq!(page.wanted(), u32::MAX);
        page.publish(&CpuSet::from_iter([CpuId(1), CpuId(64)]), 3);
        let layout = page.layout();
        assert_eq!((layout.generation.load(Ordering::Relaxed), layout.granted.load(Ordering::Relaxed)), (2, 2));
        assert_eq!((layout.cpus[0].load(Ordering::Relaxed), layout.cpus[1].load(Ordering::Relaxed)), (2, 1));
        assert!(!page.rang());
        page.bell.write(1).unwrap();
        page.bell.write(1).unwrap();
        assert!(page.rang() && !page.rang());
    }
}
