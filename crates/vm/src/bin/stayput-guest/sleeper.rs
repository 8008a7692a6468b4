//! A process that sleeps most of the time, and how late it wakes.

use nix::sys::prctl::set_timerslack;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};
use serde_json::json;
use std::io;
use std::time::Duration;

#[derive(clap::Args)]
pub struct Arguments {
    /// From one waking to the next, in ms.
    #[arg(long, default_value_t = 10.0)]
    period_ms: f64,
    /// How long it goes on, in seconds.
    #[arg(long)]
    seconds: f64,
}

/// Wakes at multiples of the period; those that it slept through are left out, since it was late for the one before. Prints how late it
/// woke, in ms.
pub fn run(arguments: &Arguments) -> io::Result<String> {
    let duration = |seconds| Duration::try_from_secs_f64(seconds).map_err(io::Error::other);
    let (period, length) = (duration(arguments.period_ms * 1e-3)?, duration(arguments.seconds)?);
    if period.is_zero() || length < period {
        return Err(io::Error::other("it must go on for a period at least, and periods are longer than 0 ms"));
    }
    // Linux may else wake it 50 us later than asked, to wake several at once.
    set_timerslack(1)?;
    let clock = ClockId::CLOCK_MONOTONIC;
    let now = || clock_gettime(clock).map(Duration::from);
    let start = now()?;
    let mut wake = start;
    let mut late_ms = vec![];
    while wake < start + length {
        let missed = now()?.saturating_sub(wake).as_nanos() / period.as_nanos();
        wake += period * u32::try_from(missed + 1).map_err(io::Error::other)?;
        clock_nanosleep(clock, ClockNanosleepFlags::TIMER_ABSTIME, &TimeSpec::from_duration(wake))?;
        late_ms.push(now()?.saturating_sub(wake).as_secs_f64() * 1e3);
    }
    late_ms.sort_by(f64::total_cmp);
    // The nearest rank.
    let quantile = |q: f64| late_ms[((late_ms.len() as f64 * q).ceil() as usize).max(1) - 1];
    let lateness = json!({
        "wakes": late_ms.len(),
        "p50_ms": quantile(0.5),
        "p99_ms": quantile(0.99),
        "p999_ms": quantile(0.999),
        "max_ms": quantile(1.0),
    });
    Ok(lateness.to_string())
}
