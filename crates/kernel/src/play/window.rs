//! Where processes that play keep the memory that they work on: whoever sees an address knows whose it is.
//!
//! Process n of the workload, from 0 over all its jobs, has the window of [`SPAN_BYTES`] at [`PRIVATE_START`] + n x [`SPAN_BYTES`]. Its
//! reused lines are at the start of the window, lines that it uses once come from a ring at [`FRESH_OFFSET_BYTES`]. What the
//! processes of job j have in common is in the window at [`SHARED_START`] + j x [`SPAN_BYTES`]. Nothing else is mapped there, by us or
//! by the kernel.

/// The page of marks: a store to its nth 8 bytes says that section n of a guest's run begins.
pub const MARKS_START: usize = 0x09e0_0000_0000;

/// The first process' window.
pub const PRIVATE_START: usize = 0x0a00_0000_0000;

/// The first job's window.
pub const SHARED_START: usize = 0x09f0_0000_0000;

/// From one window to the next.
pub const SPAN_BYTES: usize = 0x1_0000_0000;

/// Where in a process' window fresh lines begin.
pub const FRESH_OFFSET_BYTES: usize = 0x8000_0000;

/// How many bytes of fresh lines there are before the first is used again: more than caches hold of them, so that all miss.
pub const FRESH_BYTES: usize = 16 << 20;

/// Bytes of a line: footprints count lines of any length, and are played with as many bytes in lines of this.
pub const LINE_BYTES: usize = 64;

/// What fits below the ring.
pub(super) const MOST_REUSED_BYTES: usize = FRESH_OFFSET_BYTES;

/// Windows of jobs end where those of processes begin.
pub(super) const MOST_JOBS: usize = (PRIVATE_START - SHARED_START) / SPAN_BYTES;

/// Windows of processes end before a third of a 47-bit address space, from where on the kernel maps things by itself.
pub const MOST_PROCESSES: usize = 8_192;
