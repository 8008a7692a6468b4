//! Stretches of a run in which it stood still: the program was stopped by others, or we who watch it were, or the whole machine was.
//! Such a run's time says nothing of the program.
//!
//! What the kernel says counts as evidence, and a guess doesn't:
//!
//! - a stop of the program: its tracer sees when it begins and ends, and who sent the signal;
//! - a stop of ours: SIGCONT arrives when it is over;
//! - whatever else keeps us from running (a frozen control group, a paused guest): time that passed in which we neither asked to sleep
//!   nor ran nor waited for a CPU. The kernel counts the last two, so that a loaded machine is no standstill;
//! - a suspended machine: the clock that counts on meanwhile gets ahead of the one that doesn't.

use machine::linux::{Pid, Tid};
use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::{Duration, Instant};

/// The longest sleep of a watcher, so that it is known to this when a standstill began.
pub(crate) const TICK: Duration = Duration::from_millis(250);

/// The shortest stretch without any other evidence that counts: far above what a page of ours that is read from a disk takes.
const SHORTEST: Duration = Duration::from_millis(500);

/// The shortest suspension: the two clocks are read one after the other.
const SHORTEST_SUSPENSION: Duration = Duration::from_millis(1);

/// What stood still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Still {
    /// The program was stopped by a signal that it had not sent itself.
    Program,
    /// This process was stopped by a signal.
    Watcher,
    /// This process didn't run for a reason that isn't known: its control group was frozen, or the machine was paused.
    Unknown,
    /// The machine was suspended.
    Machine,
}

/// A run stood still.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Standstill {
    /// What did; the surest, if several things did.
    pub what: Still,
    /// For how long at least, in seconds; what is shorter than 0.25 s may be told as 0.
    pub seconds: f64,
}

impl fmt::Display for Standstill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = match self.seconds {
            0.1.. => format!("{:.1} s", self.seconds),
            _ => "a moment".into(),
        };
        match self.what {
            Still::Program => write!(f, "the program was stopped by a signal for {length}"),
            Still::Watcher => write!(f, "stayput was stopped by a signal for {length}"),
            Still::Unknown => write!(f, "stayput, or the whole machine, stood still for {length}"),
            Still::Machine => write!(f, "the machine was suspended for {length}"),
        }
    }
}

impl Standstill {
    /// The surest of several that were seen of the same, the longest of those that are as sure.
    pub(crate) fn surest(several: impl IntoIterator<Item = Self>) -> Option<Self> {
        let sureness = |what| match what {
            Still::Machine => 3,
            Still::Program => 2,
            Still::Watcher => 1,
            Still::Unknown => 0,
        };
        let order = |a: &Self, b: &Self| sureness(a.what).cmp(&sureness(b.what)).then(a.seconds.total_cmp(&b.seconds));
        several.into_iter().max_by(order)
    }
}

/// Finds standstills of a run, told when its watcher sleeps and wakes.
pub(crate) struct Standstills {
    /// Up to when our time is accounted for.
    accounted: Instant,
    /// What we had used and waited by then, or a little earlier: it is read once a tick at most.
    used: Option<Used>,
    /// How far the clock that counts suspensions was ahead of the other when the run began.
    ahead: Duration,
    /// Time of ours that nothing accounts for.
    lost: Duration,
    /// SIGCONT has arrived.
    continued: bool,
    program: Duration,
    /// Since when the program is stopped.
    program_stopped: Option<Instant>,
}

/// What this thread used and waited so far, by the kernel's count.
#[derive(Clone, Copy, Debug)]
struct Used {
    read: Instant,
    time: Duration,
}

impl Used {
    /// None where the kernel doesn't count both.
    fn read() -> Option<Self> {
        let process = Pid(std::process::id() as libc::pid_t);
        let times = process.scheduler_times(Tid(nix::unistd::gettid().as_raw()))?;
        let time = Duration::try_from_secs_f64(times.cpu_s + times.waited_s?).ok()?;
        Some(Self { read: Instant::now(), time })
    }
}

impl Standstills {
    pub(crate) fn new() -> Self {
        Self {
            accounted: Instant::now(),
            used: Used::read(),
            ahead: suspended_since_boot(),
            lost: Duration::ZERO,
            continued: false,
            program: Duration::ZERO,
            program_stopped: None,
        }
    }

    /// The program begins: what was before is in no time of it.
    pub(crate) fn begin(&mut self) {
        *self = Self::new();
    }

    /// We slept so long, having asked to be woken after `asked` at the latest.
    pub(crate) fn woke(&mut self, asked: Duration, slept: Duration) {
        let passed = self.accounted.elapsed();
        let left = passed.saturating_sub(asked.min(slept));
        self.account(left);
    }

    /// Takes `left` of the time that has passed for lost, but for what we used of it or waited for a CPU.
    fn account(&mut self, left: Duration) {
        let now = Instant::now();
        self.accounted = now;
        // Reading takes longer than what is to be found by it would, most of the time.
        let is_due = self.used.is_some_and(|used| now.duration_since(used.read) >= TICK);
        if left < SHORTEST && !is_due {
            return;
        }
        let before = std::mem::replace(&mut self.used, Used::read());
        if let (Some(before), Some(after)) = (before, self.used) {
            self.lost += lost(left, after.time.saturating_sub(before.time)).unwrap_or_default();
        }
    }

    /// SIGCONT has arrived: we had been stopped.
    pub(crate) fn continued(&mut self) {
        self.continued = true;
    }

    /// The program was stopped by others.
    pub(crate) fn program_stopped(&mut self) {
        self.program_stopped.get_or_insert_with(Instant::now);
    }

    /// The program goes on, or has ended.
    pub(crate) fn program_goes_on(&mut self) {
        if let Some(since) = self.program_stopped.take() {
            self.program += since.elapsed();
        }
    }

    /// What was found, when the program has ended.
    pub(crate) fn found(&mut self) -> Option<Standstill> {
        self.program_goes_on();
        self.account(self.accounted.elapsed());
        let suspended = suspended_since_boot().saturating_sub(self.ahead);
        let (what, length) = if suspended >= SHORTEST_SUSPENSION {
            (Still::Machine, suspended)
        } else if self.program > Duration::ZERO {
            (Still::Program, self.program.max(self.lost))
        } else if self.continued {
            (Still::Watcher, self.lost)
        } else if self.lost > Duration::ZERO {
            (Still::Unknown, self.lost)
        } else {
            return None;
        };
        Some(Standstill { what, seconds: length.as_secs_f64() })
    }
}

/// What of `left` was lost, if we used, and waited for, so much of it.
fn lost(left: Duration, used: Duration) -> Option<Duration> {
    Some(left.saturating_sub(used)).filter(|lost| *lost >= SHORTEST)
}

/// How long the machine was suspended since it was booted.
fn suspended_since_boot() -> Duration {
    let read = |clock| clock_gettime(clock).map(Duration::from).unwrap_or_default();
    // In this order what passes in between makes it shorter.
    let boot = read(ClockId::CLOCK_BOOTTIME);
    boot.saturating_sub(read(ClockId::CLOCK_MONOTONIC))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run that began so long ago, of which we used so much.
    fn after(passed: Duration, used: Duration) -> Standstills {
        let began = Instant::now().checked_sub(passed).unwrap();
        let now = Used::read().expect("this kernel counts");
        let time = now.time.saturating_sub(used);
        Standstills { accounted: began, used: Some(Used { read: began, time }), ..Standstills::new() }
    }

    #[test]
    fn time_in_which_we_were_neither_asleep_nor_running_nor_waiting_is_lost() {
        let ms = Duration::from_millis;
        let mut still = after(ms(3000), Duration::ZERO);
        still.woke(ms(250), ms(2990));
        let found = still.found().unwrap();
        assert_eq!(found.what, Still::Unknown);
        assert!((2.0..2.9).contains(&found.seconds), "{found:?}");
    }

    #[test]
    fn a_loaded_machine_is_no_standstill() {
        let ms = Duration::from_millis;
        // All but the sleep was used, or waited for.
        assert_eq!(lost(ms(2750), ms(2700)), None);
        assert_eq!(lost(ms(2750), ms(9000)), None);
        assert_eq!(lost(ms(2750), ms(750)), Some(ms(2000)));
        let mut asleep = after(ms(200), Duration::ZERO);
        asleep.woke(ms(250), ms(199));
        assert_eq!(asleep.found(), None);
    }

    #[test]
    fn where_the_kernel_does_not_count_nothing_is_guessed() {
        let ms = Duration::from_millis;
        let mut still = Standstills { used: None, ..after(ms(3000), Duration::ZERO) };
        still.woke(ms(250), ms(2990));
        assert_eq!(still.found(), None);
        still.continued();
        assert_eq!(still.found().map(|found| found.what), Some(Still::Watcher));
    }

    #[test]
    fn a_stop_of_the_program_is_as_long_as_it_was_seen() {
        let mut still = Standstills::new();
        still.program_stopped = Instant::now().checked_sub(Duration::from_secs(2));
        still.program_goes_on();
        still.program_goes_on();
        let found = still.found().unwrap();
        assert_eq!(found.to_string(), "the program was stopped by a signal for 2.0 s");
        assert_eq!(
            Standstill { what: Still::Watcher, seconds: 0.0 }.to_string(),
            "stayput was stopped by a signal for a moment"
        );
    }

    #[test]
    fn of_several_standstills_the_surest_is_told_and_of_those_the_longest() {
        let still = |what, seconds| Standstill { what, seconds };
        let several = [
            still(Still::Unknown, 9.0),
            still(Still::Program, 1.0),
            still(Still::Program, 2.0),
            still(Still::Watcher, 3.0),
        ];
        assert_eq!(Standstill::surest(several), Some(still(Still::Program, 2.0)));
        assert_eq!(Standstill::surest([several[0], still(Still::Machine, 0.1)]).unwrap().what, Still::Machine);
        assert_eq!(Standstill::surest([]), None);
    }
}
