//! Looking for a stop instead of sleeping until it comes.

use std::time::{Duration, Instant};

/// Looking for the next stop without sleeping, while stops come thick and fast: to be woken for each takes longer than what is
/// to be done at it.
///
/// Whoever is to stop next may want the very CPU on which we look, so a look that was in vain outweighs several that were
/// not. The CPU is not offered by sched_yield(2): whoever calls that is passed over for a whole time slice.
#[derive(Debug, Default)]
pub(crate) struct Spin {
    /// Above 0, looking is worth it.
    credit: i32,
}

impl Spin {
    /// About what a program needs to create a thread and to see it end.
    const LONGEST: Duration = Duration::from_micros(30);
    const MOST_CREDIT: i32 = 8;
    const CREDIT_OF_ONE_IN_VAIN: i32 = 4;

    /// A change came after a sleep of this length.
    pub(crate) fn slept(&mut self, sleep: Duration) {
        if sleep < 2 * Self::LONGEST {
            self.credit = Self::MOST_CREDIT.min(self.credit + 1);
        }
    }

    /// Looks for what `find` finds, if that is likely to come soon.
    pub(crate) fn until<T>(&mut self, find: impl Fn() -> Option<T>) -> Option<T> {
        if self.credit <= 0 {
            return None;
        }
        let begin = Instant::now();
        while begin.elapsed() < Self::LONGEST {
            if let Some(found) = find() {
                self.credit = Self::MOST_CREDIT.min(self.credit + 1);
                return Some(found);
            }
            std::hint::spin_loop();
        }
        self.credit -= Self::CREDIT_OF_ONE_IN_VAIN;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_looked_for_before_a_short_sleep_nor_after_a_look_in_vain() {
        let mut spin = Spin::default();
        assert_eq!(spin.until(|| Some(1)), None);
        spin.slept(Duration::from_secs(1));
        assert_eq!(spin.until(|| Some(1)), None);
        spin.slept(Duration::ZERO);
        assert_eq!(spin.until(|| Some(1)), Some(1));
        assert_eq!(spin.until(|| None::<i32>), None);
        assert_eq!(spin.until(|| Some(1)), None);
    }
}
