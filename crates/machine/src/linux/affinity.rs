//! Affinity masks: set on a thread, and read back from it.

use super::process::Tid;
use crate::cpu::{CpuId, CpuSet};
use nix::errno::Errno;
use std::io;
use std::mem::size_of;

const WORD_BITS: usize = libc::c_ulong::BITS as usize;

/// The kernel's own limit (`CONFIG_NR_CPUS`), hence the size of a mask that any kernel can fill.
const KERNEL_CPUS: usize = 8192;

/// A CPU set as the kernel wants it: one bit a CPU, lowest first.
pub struct Mask(Vec<libc::c_ulong>);

impl Mask {
    /// Binds the thread `tid` to the CPUs of this mask.
    ///
    /// # Errors
    /// `EINVAL` when no CPU of the mask is both online and in the thread's cpuset, `ESRCH` when the thread is gone,
    /// `EPERM` when it belongs to someone else.
    pub fn apply(&self, tid: Tid) -> Result<(), Errno> {
        // SAFETY: the pointer and the length describe the words of `self.0`, which the kernel only reads.
        let result = unsafe {
            libc::sched_setaffinity(tid.0, self.0.len() * size_of::<libc::c_ulong>(), self.0.as_ptr().cast())
        };
        Errno::result(result).map(drop)
    }
}

impl From<&CpuSet> for Mask {
    fn from(cpus: &CpuSet) -> Self {
        let last = cpus.iter().last().map_or(0, |cpu| cpu.0 as usize);
        let mut words = vec![0; last / WORD_BITS + 1];
        for CpuId(cpu) in cpus.iter() {
            words[cpu as usize / WORD_BITS] |= 1 << (cpu as usize % WORD_BITS);
        }
        Self(words)
    }
}

/// The CPUs that the kernel lets the calling thread run on.
///
/// # Errors
/// The failure of `sched_getaffinity`; in practice only a seccomp filter causes one.
pub fn allowed_cpus() -> io::Result<CpuSet> {
    Ok(allowed(Tid::CALLER)?)
}

/// The CPUs that the kernel lets the thread `tid` run on: its mask, less what its cpuset forbids or is offline.
///
/// # Errors
/// `ESRCH` when the thread is gone.
pub fn allowed(tid: Tid) -> Result<CpuSet, Errno> {
    let mut words = [0 as libc::c_ulong; KERNEL_CPUS / WORD_BITS];
    // SAFETY: the pointer and the length describe `words`, which the kernel fills with plain integers.
    let result = unsafe { libc::sched_getaffinity(tid.0, size_of_val(&words), words.as_mut_ptr().cast()) };
    Errno::result(result)?;
    let words = words.iter().zip((0..).step_by(WORD_BITS)).filter(|(word, _)| **word != 0);
    let bits = |(word, first): (&libc::c_ulong, u32)| {
        let word = *word;
        (0..libc::c_ulong::BITS).filter(move |bit| word >> bit & 1 == 1).map(move |bit| CpuId(first + bit))
    };
    Ok(words.flat_map(bits).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_sets_the_bits_of_its_cpus_across_words() {
        let mask = Mask::from(&CpuSet::from_iter([CpuId(0), CpuId(63), CpuId(130)]));
        let bits: Vec<usize> =
            (0..mask.0.len() * WORD_BITS).filter(|bit| mask.0[bit / WORD_BITS] >> (bit % WORD_BITS) & 1 == 1).collect();
        assert_eq!(bits, [0, 63, 130]);
    }

    #[test]
    fn a_thread_is_read_back_on_the_cpus_that_it_was_bound_to() {
        std::thread::spawn(|| {
            let before = allowed(Tid::CALLER).unwrap();
            let last = CpuSet::from(before.iter().last().unwrap());
            Mask::from(&last).apply(Tid::CALLER).unwrap();
            assert_eq!(allowed(Tid::CALLER).unwrap(), last);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn cpus_that_do_not_exist_are_refused() {
        let beyond = CpuSet::from(CpuId(KERNEL_CPUS as u32 + 1));
        assert_eq!(Mask::from(&beyond).apply(Tid::CALLER), Err(Errno::EINVAL));
    }
}
