//! What a process does to caches, done to real ones.

use misses::window::{self, JobIndex, ProcessIndex};
use nix::errno::Errno;
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous};
use sim::Footprint;
use sim::cache::Order;
use std::num::NonZeroUsize;

/// Where in a process' window fresh lines begin: behind its reused lines, which are at the window's start.
const FRESH_OFFSET_BYTES: usize = 0x8000_0000;

/// How many bytes of fresh lines there are before the first is used again: more than caches hold of them, so that all miss.
const FRESH_BYTES: usize = 16 << 20;

/// Bytes of a line: footprints count lines of any length, and are replayed with as many bytes in lines of this.
const LINE_BYTES: usize = 64;

/// What fits below the fresh lines.
pub(crate) const MOST_REUSED_BYTES: usize = FRESH_OFFSET_BYTES;

/// Where the lines begin that the processes of a job share.
fn shared_start(job: usize) -> usize {
    window::shared(JobIndex(job as u32)) as usize
}

/// Bytes that a process uses again and again, shared ones included.
pub(crate) fn reused_bytes(footprint: &Footprint) -> usize {
    lines(footprint, footprint.reload_lines) * LINE_BYTES
}

/// So many of the footprint's lines in lines of ours.
fn lines(footprint: &Footprint, count: f64) -> usize {
    (count * footprint.line_bytes / LINE_BYTES as f64).ceil() as usize
}

/// Maps `bytes` of memory at `address`, where nothing may be yet. It is populated, so that no pass begins with page faults.
fn map(address: usize, bytes: usize, flags: MapFlags) -> Result<(), Errno> {
    let (Some(address), Some(bytes)) = (NonZeroUsize::new(address), NonZeroUsize::new(bytes)) else {
        return Ok(());
    };
    let flags = flags | MapFlags::MAP_FIXED_NOREPLACE | MapFlags::MAP_POPULATE;
    // SAFETY: MAP_FIXED_NOREPLACE fails where anything is mapped, so nothing that exists is touched.
    unsafe { mmap_anonymous(Some(address), bytes, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, flags) }.map(drop)
}

/// Maps what the processes of a job have in common, before they are forked.
pub(crate) fn map_shared(job: usize, footprint: &Footprint) -> Result<(), Errno> {
    let bytes = lines(footprint, footprint.shared_lines) * LINE_BYTES;
    map(shared_start(job), bytes, MapFlags::MAP_SHARED)
}

/// Unmaps it.
pub(crate) fn unmap_shared(job: usize, footprint: &Footprint) {
    let bytes = lines(footprint, footprint.shared_lines) * LINE_BYTES;
    if bytes > 0 {
        let start = std::ptr::with_exposed_provenance_mut::<libc::c_void>(shared_start(job));
        // SAFETY: `map_shared` mapped it, only forked processes use it, and they have mappings of their own.
        unsafe { libc::munmap(start, bytes) };
    }
}

/// A process' memory, and where in it the process is.
pub(crate) struct Memory {
    shared: usize,
    shared_lines: usize,
    private: usize,
    private_lines: usize,
    order: Order,
    /// References, fresh lines and writes to shared lines in a ns of CPU time.
    references: f64,
    fresh: f64,
    writes: f64,
    /// What of these is due, below 1 between two calls.
    due: [f64; 3],
    next: usize,
    next_fresh: usize,
    random: u64,
}

impl Memory {
    /// Maps a process' own memory.
    pub(crate) fn map(process: usize, job: usize, footprint: &Footprint) -> Result<Self, Errno> {
        let window = window::own(ProcessIndex(process as u32)) as usize;
        let all = lines(footprint, footprint.reload_lines);
        let shared_lines = lines(footprint, footprint.shared_lines).min(all);
        let in_lines = footprint.line_bytes / LINE_BYTES as f64;
        let memory = Self {
            shared: shared_start(job),
            shared_lines,
            private: window,
            private_lines: all - shared_lines,
            order: footprint.order,
            references: all as f64 / (footprint.pass_us * 1e3),
            fresh: footprint.steady_misses_per_ms * in_lines / 1e6,
            writes: footprint.shared_writes_per_ms * in_lines / 1e6,
            due: [0.0; 3],
            next: 0,
            next_fresh: 0,
            random: 0x9e37_79b9_7f4a_7c15 ^ process as u64,
        };
        map(window, memory.private_lines * LINE_BYTES, MapFlags::MAP_PRIVATE)?;
        if memory.fresh > 0.0 {
            map(window + FRESH_OFFSET_BYTES, FRESH_BYTES, MapFlags::MAP_PRIVATE)?;
        }
        Ok(memory)
    }

    /// Makes the references of so much CPU time; `pause` is called between a few of them.
    pub(crate) fn refer(&mut self, cpu_ns: u64, mut pause: impl FnMut()) {
        const BATCH: usize = 64;
        let ns = cpu_ns as f64;
        let mut count = [self.references, self.fresh, self.writes].map(|rate| rate * ns);
        for (count, due) in count.iter_mut().zip(&mut self.due) {
            *due += *count;
            *count = due.floor();
            *due -= *count;
        }
        let [references, fresh, writes] = count.map(|count| count as usize);
        for done in 0..references {
            let line = self.next_line();
            read(line);
            if done % BATCH == BATCH - 1 {
                pause();
            }
        }
        for done in 0..fresh {
            read(self.private + FRESH_OFFSET_BYTES + self.next_fresh);
            self.next_fresh = (self.next_fresh + LINE_BYTES) % FRESH_BYTES;
            if done % BATCH == BATCH - 1 {
                pause();
            }
        }
        for _ in 0..if self.shared_lines > 0 { writes } else { 0 } {
            let line = self.below(self.shared_lines);
            write(self.shared + line * LINE_BYTES);
        }
        pause();
    }

    /// The address of the reused line that is referred to next.
    #[inline]
    fn next_line(&mut self) -> usize {
        let all = self.shared_lines + self.private_lines;
        let line = match self.order {
            Order::Random => self.below(all),
            Order::Blocked => {
                self.next = if self.next + 1 < all { self.next + 1 } else { 0 };
                self.next
            }
        };
        match line.checked_sub(self.shared_lines) {
            Some(line) => self.private + line * LINE_BYTES,
            None => self.shared + line * LINE_BYTES,
        }
    }

    /// A number below `bound`: xorshift (Marsaglia 2003), since it takes no more time than the reference.
    #[inline]
    fn below(&mut self, bound: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        ((u128::from(self.random) * bound as u128) >> 64) as usize
    }
}

fn read(address: usize) {
    // SAFETY: the address lies in a window that `map` or `map_shared` has mapped for this process; others may write the byte at the
    // same time, and a volatile access is not removed.
    unsafe { std::ptr::with_exposed_provenance::<u8>(address).read_volatile() };
}

fn write(address: usize) {
    // SAFETY: as for `read`; the mapping is writable, and no byte of it is ever used for anything.
    unsafe { std::ptr::with_exposed_provenance_mut::<u8>(address).write_volatile(1) };
}
