//! A process that has a CPU as soon as it wakes.

use nix::errno::Errno;

/// The kernel grants no slice that is shorter (sched_setattr(2)).
const SHORTEST_SLICE_NS: u64 = 100_000;

/// How the calling process was scheduled before it came before all others. It is again when this is dropped; children are as their parent
/// until they ask for the same.
pub(crate) struct Haste {
    before: libc::sched_attr,
}

impl Haste {
    /// The calling process comes first from now on: in real time, or without the right to that, by asking for the shortest slice, which older
    /// kernels don't grant.
    pub(crate) fn begin() -> Result<Self, Errno> {
        let haste = Self { before: attributes()? };
        let real_time = libc::sched_attr {
            sched_policy: libc::SCHED_FIFO as u32,
            sched_nice: 0,
            sched_priority: 1,
            sched_runtime: 0,
            ..haste.before
        };
        if set(&real_time).is_err() {
            let _ = set(&libc::sched_attr { sched_runtime: SHORTEST_SLICE_NS, ..haste.before });
        }
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
        // A thread has a class of its own.
        std::thread::spawn(|| {
            let scheduled = || {
                let libc::sched_attr { sched_policy, sched_nice, sched_priority, .. } = attributes().unwrap();
                (sched_policy as i32, sched_nice, sched_priority)
            };
            // SAFETY: it sets a number of the calling thread.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 3) };
            assert_eq!(scheduled(), (libc::SCHED_OTHER, 3, 0));
            let haste = Haste::begin().unwrap();
            let is_real_time = scheduled() == (libc::SCHED_FIFO, 0, 1);
            assert!(is_real_time || scheduled() == (libc::SCHED_OTHER, 3, 0));
            // What is started meanwhile asks for the same as it had.
            let of_child = std::thread::scope(|scope| {
                scope.spawn(|| (scheduled().0, haste.end().is_ok(), scheduled())).join().unwrap()
            });
            let class = if is_real_time { libc::SCHED_FIFO } else { libc::SCHED_OTHER };
            assert_eq!(of_child, (class, true, (libc::SCHED_OTHER, 3, 0)));
            drop(haste);
            assert_eq!(scheduled(), (libc::SCHED_OTHER, 3, 0));
        })
        .join()
        .unwrap();
    }
}
