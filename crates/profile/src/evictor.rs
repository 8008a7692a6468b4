//! Bursts that displace what a program has in the caches of one CPU, and bursts as long that displace nothing.
//!
//! A thread of ours is bound to that CPU and wakes now and then. It ends with this process, however that ends.

use machine::linux::Tid;
use machine::linux::affinity::Mask;
use machine::{CpuId, CpuSet, Kind, Machine};
use perf_event::events::Software;
use perf_event::{Builder, Counter};
use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read};
use std::num::NonZeroU64;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use strum::{EnumString, IntoStaticStr};

const LINE_BYTES: usize = 64;

/// Largest buffer that is swept, in bytes.
const MOST_BYTES: u64 = 64 << 20;

/// Bursts are at least this far apart.
const LEAST_PERIOD: Duration = Duration::from_millis(1);

/// And so many times as far apart as they are long: they take a quarter of the CPU's time. A real-time thread may have 95 % of it
/// (`sched_rt_runtime_us`), and the less the program works between two bursts, the less its noise hides what they cost it; but it has to have
/// brought everything back by then.
const PERIOD_PER_BURST: u32 = 3;

/// Sweeps by which the length of a burst is known.
const CALIBRATING_SWEEPS: usize = 15;

/// Which cache is lost, with those between it and the core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum LostCache {
    /// The second level.
    #[default]
    L2,
    /// The third level.
    L3,
}

/// Why nothing can be displaced.
#[derive(Debug, thiserror::Error)]
pub enum NoSweep {
    /// The size isn't known.
    #[error(
        "how large this machine's {0} cache is isn't told by its kernel (/sys/devices/system/cpu), so that it can't be swept"
    )]
    UnknownSize(&'static str),
    /// It is too large.
    #[error(
        "to sweep this machine's {cache} cache of {mib} MiB takes too long for a short burst; sweep the second level: --reload l2"
    )]
    TooLarge {
        /// Which.
        cache: &'static str,
        /// Its size, in MiB.
        mib: u64,
    },
}

/// A buffer that takes the place of whatever is in a cache.
#[derive(Debug)]
pub struct Sweep(Vec<u64>);

impl Sweep {
    /// Of twice the largest such cache of `machine`: caches that don't replace the oldest line first keep some of it after one size.
    ///
    /// # Errors
    /// When its size isn't known, or too large.
    pub fn of(lost: LostCache, machine: &Machine) -> Result<Self, NoSweep> {
        let (level, name) = match lost {
            LostCache::L2 => (2, "L2"),
            LostCache::L3 => (3, "L3"),
        };
        let sizes = machine
            .objects()
            .filter(|(_, object)| object.kind == Kind::Cache(level))
            .filter_map(|(_, object)| object.cache?.size_bytes);
        let bytes = sizes.map(NonZeroU64::get).max().ok_or(NoSweep::UnknownSize(name))?;
        if 2 * bytes > MOST_BYTES {
            return Err(NoSweep::TooLarge { cache: name, mib: bytes >> 20 });
        }
        // Not zeros: those may all be one page of the kernel's.
        Ok(Self(vec![1; 2 * bytes as usize / size_of::<u64>()]))
    }

    /// Reads one word of each line.
    #[inline(never)]
    pub fn run(&self) {
        let mut sum = 0_u64;
        for word in self.0.iter().step_by(LINE_BYTES / size_of::<u64>()) {
            sum = sum.wrapping_add(*word);
        }
        black_box(sum);
    }

    /// Median time of a sweep here and now.
    fn median(&self) -> Duration {
        let mut times: Vec<Duration> = (0..CALIBRATING_SWEEPS)
            .map(|_| {
                let begun = Instant::now();
                self.run();
                begun.elapsed()
            })
            .collect();
        times.sort_unstable();
        times[times.len() / 2]
    }
}

/// What a burst does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Burst {
    /// It sweeps.
    Evict,
    /// It spins as long, and touches nothing.
    Control,
}

/// CPU time of a thread and of all that it starts, by the kernel's own count, in ns.
#[derive(Debug)]
pub struct CpuClock(Counter);

impl CpuClock {
    /// Of the calling thread alone: bursts that it starts are not its own time.
    ///
    /// # Errors
    /// When the kernel refuses (`perf_event_paranoid`, no such system call in a container).
    pub fn of_this_thread() -> io::Result<Self> {
        Builder::new(Software::TASK_CLOCK).observe_self().any_cpu().inherit(false).enabled(true).build().map(Self)
    }

    /// Of what the calling thread executes from now on, beginning with that execution.
    ///
    /// # Errors
    /// As [`Self::of_this_thread`].
    pub fn of_what_it_executes() -> io::Result<Self> {
        let mut builder = Builder::new(Software::TASK_CLOCK);
        builder.observe_self().any_cpu().inherit(true).enabled(false).enable_on_exec(true).build().map(Self)
    }

    /// Until now, of those that have ended as well.
    ///
    /// # Errors
    /// Of read(2).
    pub fn now_ns(&mut self) -> io::Result<u64> {
        self.0.read()
    }

    fn try_clone(&self) -> io::Result<File> {
        // SAFETY: the counter keeps its descriptor open beyond this call.
        let descriptor = unsafe { BorrowedFd::borrow_raw(self.0.as_raw_fd()) };
        Ok(descriptor.try_clone_to_owned()?.into())
    }
}

/// A thread that bursts until it is stopped.
#[derive(Debug)]
pub struct Evictor {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<u64>>,
}

/// How bursts are made on one CPU.
#[derive(Clone, Debug)]
pub struct Bursts {
    sweep: Arc<Sweep>,
    /// On which CPU.
    pub cpu: CpuId,
    /// How long each lasts.
    pub length: Duration,
    /// Time between two, on average.
    pub period: Duration,
    /// Whether they may interrupt whoever runs (SCHED_FIFO). Else they have the lowest niceness that is allowed, and come when the
    /// kernel lets them.
    pub is_real_time: bool,
}

impl Bursts {
    /// Measures how long a sweep takes on `cpu`.
    ///
    /// # Errors
    /// When this process may not use that CPU.
    pub fn calibrated(sweep: Sweep, cpu: CpuId) -> io::Result<Self> {
        let sweep = Arc::new(sweep);
        let sweeping = Arc::clone(&sweep);
        let measured = thread::spawn(move || -> io::Result<(Duration, bool)> {
            bind(cpu)?;
            let is_real_time = hurry();
            Ok((sweeping.median(), is_real_time))
        });
        let (length, is_real_time) = measured.join().map_err(|_| io::ErrorKind::Other)??;
        let period = LEAST_PERIOD.max(PERIOD_PER_BURST * length);
        Ok(Self { sweep, cpu, length, period, is_real_time })
    }

    /// Starts them. Those count after whose predecessor what `clock` counts had some CPU time: others displaced nothing new.
    ///
    /// # Errors
    /// When the kernel refuses a thread its CPU.
    pub fn start(&self, burst: Burst, clock: &CpuClock, seed: u64) -> io::Result<Evictor> {
        let is_over = Arc::new(AtomicBool::new(false));
        let (bursts, over, clock) = (self.clone(), Arc::clone(&is_over), clock.try_clone()?);
        let (tell, told) = mpsc::channel();
        let thread = thread::spawn(move || {
            let ready = bind(bursts.cpu);
            hurry();
            let failed = ready.is_err();
            // The receiver waits for it.
            let _ = tell.send(ready);
            if failed { Ok(0) } else { bursts.make(burst, &over, clock, seed) }
        });
        told.recv().map_err(|_| io::ErrorKind::Other)??;
        Ok(Evictor { is_over, thread })
    }

    /// Makes bursts until it `is_over`; returns how many counted.
    fn make(&self, burst: Burst, is_over: &AtomicBool, mut clock: File, seed: u64) -> io::Result<u64> {
        let mut effective = Effective::default();
        let mut random = seed | 1;
        loop {
            // Between half and one and a half periods, so that they keep no step with the program's own rounds.
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            thread::park_timeout(self.period.mul_f64(0.5 + (random >> 11) as f64 / (1_u64 << 53) as f64));
            if is_over.load(Ordering::Relaxed) {
                return Ok(effective.bursts);
            }
            // The count comes first, whatever else the event is asked for.
            let mut words = [0_u64; 8];
            if clock.read(bytemuck::cast_slice_mut(&mut words))? < size_of::<u64>() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let now_ns = words[0];
            let begun = Instant::now();
            match burst {
                Burst::Evict => self.sweep.run(),
                Burst::Control => while begun.elapsed() < self.length {},
            }
            effective.add(now_ns);
        }
    }
}

/// Counts bursts that had something to displace.
#[derive(Default)]
struct Effective {
    bursts: u64,
    before_ns: u64,
}

impl Effective {
    /// One more, at which the program's CPU time was `now_ns`.
    fn add(&mut self, now_ns: u64) {
        self.bursts += u64::from(now_ns > self.before_ns);
        self.before_ns = now_ns;
    }
}

impl Evictor {
    /// Stops, and tells how many bursts counted.
    ///
    /// # Errors
    /// When the program's clock could not be read.
    pub fn stop(self) -> io::Result<u64> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
    }
}

/// Binds the calling thread.
pub(crate) fn bind(cpu: CpuId) -> io::Result<()> {
    let cpus: CpuSet = [cpu].into_iter().collect();
    Ok(Mask::from(&cpus).apply(Tid::CALLER)?)
}

/// Lets the calling thread interrupt others as far as it may; returns whether it may always.
fn hurry() -> bool {
    let parameter = libc::sched_param { sched_priority: 1 };
    // SAFETY: the kernel only reads the parameter; 0 is the calling thread.
    let is_real_time = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameter) } == 0;
    if !is_real_time {
        for nice in [-20, -10, -5] {
            // SAFETY: it has no pointers; 0 is the calling thread.
            if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) } == 0 {
                break;
            }
        }
    }
    is_real_time
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_count_only_where_the_program_ran_before() {
        let mut effective = Effective::default();
        // Before it began, while it ran, while it slept for two bursts, and after that.
        for now_ns in [0, 0, 5, 9, 9, 9, 12] {
            effective.add(now_ns);
        }
        assert_eq!(effective.bursts, 3);
    }

    #[test]
    fn a_threads_clock_leaves_out_what_it_starts() {
        let Ok(mut clock) = CpuClock::of_this_thread() else { return println!("skipped: perf_event_open is refused") };
        let before_ns = clock.now_ns().unwrap();
        let spinning = thread::spawn(|| {
            let mut own = CpuClock::of_this_thread().unwrap();
            while own.now_ns().unwrap() < 100_000_000 {}
        });
        spinning.join().unwrap();
        let ns = clock.now_ns().unwrap() - before_ns;
        assert!(ns < 50_000_000, "{ns} ns, of which it waited for 100 ms of another's");
    }

    #[test]
    fn a_cache_of_unknown_size_or_a_huge_one_is_refused_in_a_sentence() {
        let unknown = Machine::named("core:2 pu:1").unwrap();
        let error = Sweep::of(LostCache::L2, &unknown).unwrap_err();
        assert!(error.to_string().contains("L2"), "{error}");
        let huge = Machine::named("l3:1(size=268435456) core:2 pu:1").unwrap();
        let error = Sweep::of(LostCache::L3, &huge).unwrap_err();
        assert!(error.to_string().contains("256 MiB"), "{error}");
        assert_eq!(LostCache::try_from("l3"), Ok(LostCache::L3));
    }
}
