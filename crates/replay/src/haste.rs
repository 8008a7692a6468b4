//! A process that has a CPU soon after it wakes.

use nix::errno::Errno;

/// The kernel grants no slice that is shorter (sched_setattr(2)).
const SHORTEST_SLICE_NS: u64 = 100_000;

/// How the calling process was scheduled before it came before those with longer slices. It is again when this is dropped; children are as
/// their parent until they ask for the same.
pub(crate) struct Haste {
    before: libc::sched_attr,
}

impl Haste {
    /// The calling process asks for the shortest slice, which kernels before 6.12 don't grant.
    pub(crate) fn begin() -> Result<Self, Errno> {
        let haste = Self { before: attributes()? };
        set(&libc::sched_attr { sched_runtime: SHORTEST_SLICE_NS, ..haste.before })?;
        Ok(haste)
    }

    /// The calling process is scheduled as it would have been.
    pub(crate) fn end(&self) -> Result<(), Errno> {
        set(&self.before)
    }
}

impl Drop for Haste {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

fn attributes() -> Result<libc::sched_attr, Errno> {
    let size = size_of::<libc::sched_attr>() as u32;
    // SAFETY: all of it is integers.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes at most `size` bytes into it.
    Errno::result(unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) })?;
    attributes.size = size;
    Ok(attributes)
}

fn set(attributes: &libc::sched_attr) -> Result<(), Errno> {
    // SAFETY: the kernel reads as many bytes as its `size` tells, and changes the calling thread alone.
    Errno::result(unsafe { libc::syscall(libc::SYS_sched_setattr, 0, attributes, 0) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_in_haste_is_scheduled_as_before() {
        // A thread has a slice of its own.
        let looking = std::thread::spawn(|| {
            // SAFETY: it sets a number of the calling thread.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 3) };
            let scheduled = || {
                let libc::sched_attr { sched_policy, sched_nice, sched_runtime, .. } = attributes().unwrap();
                (sched_policy as i32, sched_nice, sched_runtime)
            };
            let before = scheduled();
            assert_eq!((before.0, before.1), (libc::SCHED_OTHER, 3));
            let haste = Haste::begin().unwrap();
            // Where the kernel tells slices at all.
            let hasty = (before.0, before.1, if before.2 > 0 { SHORTEST_SLICE_NS } else { 0 });
            assert_eq!(scheduled(), hasty);
            let of_child = std::thread::scope(|scope| {
                scope.spawn(|| (scheduled(), haste.end().is_ok(), scheduled())).join().unwrap()
            });
            assert_eq!(of_child, (hasty, true, before));
            drop(haste);
            assert_eq!(scheduled(), before);
        });
        looking.join().unwrap();
    }
}
