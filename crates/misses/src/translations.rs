//! Where pages of user space lie in memory, for as long as that can't have changed.
//!
//! To ask qemu takes about as long as all else that an access costs. A page moves by the kernel's doing only, and no CPU uses it
//! elsewhere before its own kernel has run: for a page fault, a system call, a switch, or an interrupt by which another CPU tells of
//! the move. So what a CPU was told holds until its kernel accesses memory, and is worth nothing where that isn't heard of.

use crate::window::KERNEL;
use machine::CpuId;

/// Of the bytes of a page, the binary logarithm.
pub(crate) const PAGE_SHIFT: u32 = 12;
/// Pages that are known of a CPU: more than most programs use from one entry into the kernel to the next.
const PAGES: usize = 128;

#[derive(Clone, Copy, Debug)]
struct Known {
    page: u64,
    era: u64,
    physical: u64,
}

#[derive(Clone, Debug)]
struct OfCpu {
    known: [Known; PAGES],
    /// Counts from 1 whenever user space goes on after the kernel.
    era: u64,
    is_in_kernel: bool,
}

/// What CPUs were told.
#[derive(Clone, Debug)]
pub(crate) struct Translations(Vec<OfCpu>);

impl Translations {
    pub fn new(cpus: usize) -> Self {
        let nothing = Known { page: 0, era: 0, physical: 0 };
        Self(vec![OfCpu { known: [nothing; PAGES], era: 1, is_in_kernel: false }; cpus])
    }

    /// The physical address of what a CPU accesses; none where `ask` tells of none. `ask` is called when it isn't known.
    #[inline]
    pub fn physical(&mut self, cpu: CpuId, address: u64, ask: impl FnOnce() -> Option<u64>) -> Option<u64> {
        let this = &mut self.0[cpu.0 as usize];
        if address >= KERNEL {
            this.is_in_kernel = true;
            return ask();
        }
        if this.is_in_kernel {
            this.is_in_kernel = false;
            this.era += 1;
        }
        let page = address >> PAGE_SHIFT;
        let offset = address & ((1 << PAGE_SHIFT) - 1);
        let known = &mut this.known[page as usize % PAGES];
        if (known.page, known.era) == (page, this.era) {
            return Some(known.physical | offset);
        }
        let physical = ask()?;
        *known = Known { page, era: this.era, physical: physical & !((1 << PAGE_SHIFT) - 1) };
        Some(physical)
    }

    /// A CPU's kernel has accessed memory.
    pub fn kernel_ran(&mut self, cpu: CpuId) {
        self.0[cpu.0 as usize].is_in_kernel = true;
    }

    /// Nothing was heard for a while.
    pub fn forget(&mut self) {
        self.0.iter_mut().for_each(|of_cpu| of_cpu.is_in_kernel = true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 1 << PAGE_SHIFT;

    #[test]
    fn a_page_is_asked_for_again_after_the_kernel_and_by_each_cpu() {
        let mut translations = Translations::new(2);
        let (mut asked, mut at) = (Vec::new(), 7 * PAGE);
        let mut access = |cpu, address: u64, moved_to: Option<u64>| {
            at = moved_to.unwrap_or(at);
            let physical = translations.physical(CpuId(cpu), address, || {
                asked.push((cpu, address));
                (address < KERNEL).then_some(at | (address % PAGE))
            });
            (physical, std::mem::take(&mut asked).len())
        };
        assert_eq!(access(0, 3 * PAGE + 5, None), (Some(7 * PAGE + 5), 1));
        assert_eq!(access(0, 3 * PAGE + 9, None), (Some(7 * PAGE + 9), 0));
        assert_eq!(access(1, 3 * PAGE + 9, None), (Some(7 * PAGE + 9), 1), "another CPU");
        assert_eq!(access(0, (3 + PAGES as u64) * PAGE, None).1, 1, "another page in its place");
        assert_eq!(access(0, 3 * PAGE, None).1, 1);
        assert_eq!(access(0, KERNEL, None), (None, 1));
        assert_eq!(access(1, 3 * PAGE, None).1, 0, "the other CPU's kernel has done nothing");
        assert_eq!(access(0, 3 * PAGE + 1, Some(8 * PAGE)), (Some(8 * PAGE + 1), 1));
        assert_eq!(access(0, 3 * PAGE + 2, None), (Some(8 * PAGE + 2), 0));
    }

    #[test]
    fn what_is_no_memory_is_asked_for_each_time_and_nothing_is_known_after_a_pause() {
        let mut translations = Translations::new(1);
        assert_eq!(translations.physical(CpuId(0), 5, || None), None);
        assert_eq!(translations.physical(CpuId(0), 5, || Some(PAGE + 5)), Some(PAGE + 5));
        assert_eq!(translations.physical(CpuId(0), 6, || panic!("it is known")), Some(PAGE + 6));
        translations.forget();
        assert_eq!(translations.physical(CpuId(0), 6, || Some(2 * PAGE + 6)), Some(2 * PAGE + 6));
    }
}
