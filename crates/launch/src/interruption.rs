//! A signal by which someone wants a whole study to end, noticed between launches, too.
//!
//! During a launch the event loop takes signals; before and after it they would end this process wherever it is, with files half
//! closed. While [`Interruptions`] are held, the first one is kept for whoever asks, and the next launch doesn't begin.

use crate::signals::{self, INTERRUPTING};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Whether interruptions are held.
static HELD: AtomicBool = AtomicBool::new(false);

/// The first signal that arrived while they were; 0 is none.
static ARRIVED: AtomicI32 = AtomicI32::new(0);

extern "C" fn on_interruption(signal: libc::c_int, _info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    note(signal);
}

/// Keeps `signal`, if it interrupts and interruptions are held. Async-signal-safe.
pub(crate) fn note(signal: libc::c_int) {
    if HELD.load(Ordering::Relaxed) && INTERRUPTING.contains(&signal) {
        let _ = ARRIVED.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// The signal that asked us to end while [`Interruptions`] were held, if one did.
pub fn interruption() -> Option<i32> {
    Some(ARRIVED.load(Ordering::Relaxed)).filter(|signal| *signal != 0)
}

/// Whoever holds interruptions, and what the signals did before the first of them.
#[derive(Debug)]
struct Holders {
    count: usize,
    previous: Vec<(libc::c_int, libc::sigaction)>,
}

static HOLDERS: Mutex<Holders> = Mutex::new(Holders { count: 0, previous: Vec::new() });

fn holders() -> MutexGuard<'static, Holders> {
    HOLDERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Holds SIGHUP, SIGINT, SIGQUIT and SIGTERM from construction to drop: each is noted once, for [`interruption`], and ends this
/// process the second time. One that was ignored before stays ignored. Several may hold them at once, on any threads: what arrived is
/// known until the last is dropped, and forgotten when the next begins.
#[derive(Debug)]
pub struct Interruptions(());

impl Interruptions {
    /// Holds them.
    pub fn hold() -> Self {
        let mut holders = holders();
        holders.count += 1;
        if holders.count == 1 {
            ARRIVED.store(0, Ordering::Relaxed);
            HELD.store(true, Ordering::Relaxed);
            let install = |signal| {
                let previous = signals::install(signal, on_interruption, libc::SA_RESTART | libc::SA_RESETHAND)?;
                if previous.sa_sigaction == libc::SIG_IGN {
                    signals::restore(signal, &previous);
                    return None;
                }
                Some((signal, previous))
            };
            holders.previous = INTERRUPTING.into_iter().filter_map(install).collect();
        }
        Self(())
    }
}

impl Drop for Interruptions {
    fn drop(&mut self) {
        let mut holders = holders();
        holders.count -= 1;
        if holders.count == 0 {
            holders.previous.drain(..).for_each(|(signal, previous)| signals::restore(signal, &previous));
            HELD.store(false, Ordering::Relaxed);
        }
    }
}
