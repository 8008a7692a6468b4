//! What a stop takes from whoever is stopped. Most of it passes before we are awake and after we have let the thread go, so it
//! can't be measured where it happens: a child of ours that stops many times tells.

use crate::signals;
use crate::spin::Spin;
use crate::tracer::{self, ptrace};
use crate::wait::{self, ChangeKind, Target};
use machine::linux::Pid;
use nix::unistd::{self, ForkResult};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// What is assumed of a program with few stops, for which measuring would take longer than the stops did.
const ASSUMED: Duration = Duration::from_micros(10);
const FEW_STOPS: u64 = 32;

/// How often the child stops, after it has warmed up.
const MEASURED_STOPS: u32 = 64;
const WARMUP_STOPS: u32 = 8;

/// Measures now what a stop takes: what comes after a fork of ours then need not.
pub(crate) fn measure_once() {
    MEASURED.get_or_init(measure);
}

/// What was measured.
static MEASURED: OnceLock<Option<Duration>> = OnceLock::new();

/// About how long all of so many stops took.
pub(crate) fn of(stops: u64) -> Duration {
    let each = if stops > FEW_STOPS { *MEASURED.get_or_init(measure) } else { MEASURED.get().copied().flatten() };
    Duration::from_secs_f64(each.unwrap_or(ASSUMED).as_secs_f64() * stops as f64)
}

/// The time of one stop; none where nothing can be stopped.
fn measure() -> Option<Duration> {
    // SAFETY: the child makes no call but those that a signal handler may make, until it is killed.
    let child = match unsafe { unistd::fork() } {
        Ok(ForkResult::Child) => loop {
            // Ignored unless it is traced, and then it stops.
            // SAFETY: raising a signal touches no memory of ours.
            unsafe { libc::raise(libc::SIGCONT) };
        },
        Ok(ForkResult::Parent { child }) => Pid(child.as_raw()),
        Err(_) => return None,
    };
    let each = tracer::seize(child).ok().and_then(|()| {
        let mut spin = Spin::default();
        stop_often(child, WARMUP_STOPS, &mut spin)?;
        let begin = Instant::now();
        stop_often(child, MEASURED_STOPS, &mut spin)?;
        Some(begin.elapsed() / MEASURED_STOPS)
    });
    signals::send(child, libc::SIGKILL);
    tracer::reap(child.main_thread());
    each
}

/// Resumes the child at each of so many stops; none when it has ended.
fn stop_often(child: Pid, stops: u32, spin: &mut Spin) -> Option<()> {
    for _ in 0..stops {
        let begin = Instant::now();
        let found = spin.until(|| wait::next(Target::Now(child.main_thread())));
        let change = found.or_else(|| wait::next(Target::Only(child.main_thread())))?;
        spin.slept(begin.elapsed());
        match change.kind {
            ChangeKind::Stopped { .. } => ptrace(libc::PTRACE_CONT, child.main_thread(), 0).ok()?,
            ChangeKind::Ended(_) | ChangeKind::Continued => return None,
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_stops_take_longer_and_none_take_no_time() {
        assert_eq!(of(0), Duration::ZERO);
        assert!(of(2 * FEW_STOPS) > Duration::ZERO);
        assert_eq!(of(400).as_nanos() / 1000, (of(200) * 2).as_nanos() / 1000);
    }
}
