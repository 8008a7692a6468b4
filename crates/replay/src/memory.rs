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

/// The longest CPU time whose references are still made when it has passed, in ns: a chunk of work takes the turns of all CPUs of an
/// emulator.
const MOST_DUE_NS: f64 = 32e5;

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

/// The window of a process: its own reused lines, and fresh ones behind where it uses any.
fn own(process: usize, footprint: &Footprint) -> [(usize, usize); 2] {
    let window = window::own(ProcessIndex(process as u32)) as usize;
    let shared_lines = lines(footprint, footprint.shared_lines);
    let own_lines = lines(footprint, footprint.reload_lines).saturating_sub(shared_lines);
    let fresh_bytes = if footprint.steady_misses_per_ms > 0.0 { FRESH_BYTES } else { 0 };
    [(window, own_lines * LINE_BYTES), (window + FRESH_OFFSET_BYTES, fresh_bytes)]
}

/// Maps a process' own memory.
pub(crate) fn map_own(process: usize, footprint: &Footprint) -> Result<(), Errno> {
    own(process, footprint).into_iter().try_for_each(|(start, bytes)| map(start, bytes, MapFlags::MAP_PRIVATE))
}

/// Memory that is mapped for a process yet to be forked, and given to no other that is.
pub(crate) struct Kept {
    parts: [(usize, usize); 2],
}

impl Kept {
    /// Maps it.
    pub(crate) fn map(process: usize, footprint: &Footprint) -> Result<Self, Errno> {
        map_own(process, footprint)?;
        let kept = Self { parts: own(process, footprint) };
        kept.advise(libc::MADV_DONTFORK)?;
        Ok(kept)
    }

    /// Lets the next one that is forked have it.
    pub(crate) fn give(&self) -> Result<(), Errno> {
        self.advise(libc::MADV_DOFORK)
    }

    fn advise(&self, advice: libc::c_int) -> Result<(), Errno> {
        self.mapped().try_for_each(|(start, bytes)| {
            // SAFETY: `map` mapped it; what a child gets of it changes nothing here.
            Errno::result(unsafe { libc::madvise(start, bytes, advice) }).map(drop)
        })
    }

    fn mapped(&self) -> impl Iterator<Item = (*mut libc::c_void, usize)> {
        let parts = self.parts.into_iter().filter(|&(_, bytes)| bytes > 0);
        parts.map(|(start, bytes)| (std::ptr::with_exposed_provenance_mut(start), bytes))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.mapped().for_each(|(start, bytes)| {
            // SAFETY: `map` mapped it, and this process never uses it.
            unsafe { libc::munmap(start, bytes) };
        });
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
    /// What of these is due.
    due: [f64; 3],
    /// CPU time whose references were given up.
    unreferred_ns: f64,
    next: usize,
    next_fresh: usize,
    random: u64,
}

impl Memory {
    /// The memory of a process for which all is mapped.
    pub(crate) fn new(process: usize, job: usize, footprint: &Footprint) -> Self {
        let all = lines(footprint, footprint.reload_lines);
        let shared_lines = lines(footprint, footprint.shared_lines).min(all);
        let in_lines = footprint.line_bytes / LINE_BYTES as f64;
        Self {
            shared: shared_start(job),
            shared_lines,
            private: window::own(ProcessIndex(process as u32)) as usize,
            private_lines: all - shared_lines,
            order: footprint.order,
            references: all as f64 / (footprint.pass_us * 1e3),
            fresh: footprint.steady_misses_per_ms * in_lines / 1e6,
            writes: footprint.shared_writes_per_ms * in_lines / 1e6,
            due: [0.0; 3],
            unreferred_ns: 0.0,
            next: 0,
            next_fresh: 0,
            random: 0x9e37_79b9_7f4a_7c15 ^ process as u64,
        }
    }

    /// Makes the references of so much CPU time, and what is left of those before. `goes_on` is asked between a few of them: what
    /// isn't made then is due the next time, and given up where it is more than a CPU that is fast enough ever owes.
    pub(crate) fn refer(&mut self, cpu_ns: u64, mut goes_on: impl FnMut() -> bool) {
        const BATCH: usize = 64;
        let rates = [self.references, self.fresh, self.writes];
        let mut given_up_ns: f64 = 0.0;
        for (due, rate) in self.due.iter_mut().zip(rates).filter(|&(_, rate)| rate > 0.0) {
            *due += rate * cpu_ns as f64;
            let beyond_ns = (*due / rate - MOST_DUE_NS).max(0.0);
            *due -= rate * beyond_ns;
            given_up_ns = given_up_ns.max(beyond_ns);
        }
        self.unreferred_ns += given_up_ns;
        let mut goes_on = |done: usize| done % BATCH < BATCH - 1 || goes_on();
        let [references, fresh, writes] = self.due.map(|due| due as usize);
        let made = (0..references).position(|done| {
            let line = self.next_line();
            read(line);
            !goes_on(done)
        });
        self.due[0] -= made.map_or(references, |last| last + 1) as f64;
        if made.is_some() {
            return;
        }
        let made = (0..fresh).position(|done| {
            read(self.private + FRESH_OFFSET_BYTES + self.next_fresh);
            self.next_fresh = (self.next_fresh + LINE_BYTES) % FRESH_BYTES;
            !goes_on(done)
        });
        self.due[1] -= made.map_or(fresh, |last| last + 1) as f64;
        for _ in 0..if self.shared_lines > 0 { writes } else { 0 } {
            let line = self.below(self.shared_lines);
            write(self.shared + line * LINE_BYTES);
        }
        self.due[2] -= writes as f64;
        goes_on(BATCH - 1);
    }

    /// CPU time whose references were given up, since the CPU was too slow for them, in ns.
    pub(crate) fn unreferred_ns(&self) -> u64 {
        self.unreferred_ns as u64
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_made_in_time_is_made_up_for_up_to_a_bound() {
        // No replay of these tests has as many processes.
        let process = 4_000;
        // A reference a us.
        let footprint = Footprint { line_bytes: 64.0, reload_lines: 64.0, pass_us: 64.0, ..Footprint::default() };
        map_own(process, &footprint).unwrap();
        let mut memory = Memory::new(process, 0, &footprint);
        memory.refer(1_000_000, || false);
        assert!((memory.due[0] - 936.0).abs() < 1e-6, "after one batch of 64: {}", memory.due[0]);
        memory.refer(500, || true);
        assert!((memory.due[0] - 0.5).abs() < 1e-6 && memory.unreferred_ns() == 0, "{}", memory.due[0]);
        memory.refer(10_000_000, || true);
        assert!((6_800_000..=6_800_600).contains(&memory.unreferred_ns()), "{}", memory.unreferred_ns());
        assert!(memory.due[0] < 1.0);
    }
}
