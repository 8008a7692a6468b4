//! What it costs a program to bring back a cache that others have displaced, measured without hardware counters.
//!
//! A command is run to its end again and again on one CPU: undisturbed, with bursts that sweep the cache, and with bursts as long
//! that touch nothing, in random order within each block. The CPU time that the sweeps cost it more than the others, for each burst,
//! is the reload. A burst displaces what no program has in a cache as well: the kernel's lines, those of page tables. That part
//! is measured on a loop that has its work in registers, and subtracted.

use crate::evictor::{Burst, Bursts, CpuClock, LostCache, NoSweep, Sweep, bind};
use crate::profile::{Profile, ReloadUs};
use launch::{Descendants, Exit, Interruptions, Launch, LaunchError, Observe, Output, interruption};
use machine::{CpuId, Machine, Placement};
use stats::{MIN_PAIRS, PairedDifference, block_permutation, paired_difference};
use std::ffi::OsString;
use std::hint::black_box;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

/// Blocks after which one may stop, and must.
const LEAST_BLOCKS: usize = 10;
const MOST_BLOCKS: usize = 400;

/// It is looked whether that is enough when there are so many times as many blocks as at the last look.
const BETWEEN_LOOKS: f64 = 1.1;

/// Bursts that a run of the loop in registers meets, about, and the least CPU time of one. Of as much time in all, shorter runs tell more:
/// how fast a machine is changes from one second to the next.
const CONSTANT_BURSTS: u32 = 14;
const LEAST_CONSTANT_RUN: Duration = Duration::from_millis(20);

/// What the loop pays is known well enough when its interval reaches this far to either side, in us.
const CONSTANT_NARROW_US: f64 = 1.0;

/// It is enough when the interval reaches this far to either side, as a share of the estimate, or in us: a program that has
/// nothing to reload has no share.
const NARROW_SHARE: f64 = 0.15;
const NARROW_US: f64 = 3.0;

/// Fewest bursts in a run.
const LEAST_BURSTS: u64 = 10;

/// Share of the command's CPU time that one program must have had for the reload to be its own.
const OWN_SHARE: f64 = 0.9;

/// How long blocks are begun if nothing else is said.
pub const USUAL_LIMIT: Duration = Duration::from_secs(120);

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// There is nothing to sweep, or too much.
    #[error(transparent)]
    Sweep(#[from] NoSweep),
    /// The command couldn't be run again.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// It ended otherwise than well.
    #[error("to measure the reload, the command is run many times; run {run} {how}")]
    Failed {
        /// Which run, counted from 1.
        run: usize,
        /// How it ended.
        how: String,
    },
    /// It is over too soon.
    #[error(
        "a run of the command met {bursts} bursts, and at least {LEAST_BURSTS} are needed, {period_ms:.0} ms apart; \
         give it more work for each run"
    )]
    TooShort {
        /// How many.
        bursts: u64,
        /// How far apart they are on average, in ms.
        period_ms: f64,
    },
    /// The time was over too soon.
    #[error(
        "in this time there were {blocks} blocks of 3 runs, and at least {MIN_PAIRS} are needed; give more by --for"
    )]
    TooFewBlocks {
        /// How many.
        blocks: usize,
    },
    /// The kernel refuses what it takes.
    #[error("{what}: {cause}")]
    System {
        /// What was not done.
        what: &'static str,
        /// Why.
        cause: io::Error,
    },
}

/// One run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// CPU time of the program, in ns.
    pub cpu_ns: u64,
    /// Bursts that had something to displace.
    pub bursts: u64,
}

/// The runs of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// With no bursts.
    pub undisturbed: Sample,
    /// With bursts that touch nothing.
    pub control: Sample,
    /// With bursts that sweep.
    pub evict: Sample,
}

impl Block {
    /// CPU time that a sweep costs, less what a burst as long costs that touches nothing, in us.
    ///
    /// Without a burst there is none to tell of.
    pub fn reload_us(&self) -> Option<f64> {
        per_burst_us(self.control, self.evict)
    }

    /// CPU time that a burst costs which touches nothing, in us.
    pub fn interruption_us(&self) -> Option<f64> {
        per_burst_us(self.undisturbed, self.control)
    }
}

fn per_burst_us(without: Sample, with: Sample) -> Option<f64> {
    (with.bursts > 0).then(|| (with.cpu_ns as f64 - without.cpu_ns as f64) / 1e3 / with.bursts as f64)
}

/// A reload, and how it was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Reload {
    /// Which cache was swept.
    pub lost: LostCache,
    /// The program's, without the constant part.
    pub us: ReloadUs,
    /// The constant part: what a loop in registers has to bring back.
    pub constant_us: ReloadUs,
    /// Whether its interval is as narrow as was aimed at.
    pub is_narrow: bool,
    /// From so many blocks.
    pub blocks: usize,
    /// And so many sweeps.
    pub sweeps: u64,
    /// On this CPU.
    pub cpu: CpuId,
    /// Length of each burst, in us.
    pub burst_us: f64,
    /// Time between two on average, in ms.
    pub period_ms: f64,
    /// Whether bursts could interrupt the program whenever they were due.
    pub is_real_time: bool,
}

/// Measures the reload of `command` on the last usable CPU of `machine`, which is this one. No block begins after `at_most`.
/// `progress` is told how many blocks there are at each.
///
/// # Errors
/// [`ReloadError`]
pub fn measure(
    command: &[OsString],
    lost: LostCache,
    machine: &Machine,
    at_most: Duration,
    progress: &mut dyn FnMut(usize),
) -> Result<Reload, ReloadError> {
    let sweep = Sweep::of(lost, machine)?;
    // The first CPUs serve most interrupts.
    let cpu = machine.usable().last().unwrap_or(CpuId(0));
    let bursts = Bursts::calibrated(sweep, cpu).map_err(system("bursts can't be made on the program's CPU"))?;
    let _held = Interruptions::hold();
    let begun = Instant::now();
    let constant = constant_part(&bursts, at_most / 4)?;
    let mut runs = 0;
    let mut run = |burst: Option<Burst>, seed| {
        runs += 1;
        run_command(command, runs, &bursts, burst, seed)
    };
    // The first run finds files that nobody has read yet.
    let bursts_at_first = run(Some(Burst::Control), 0)?.bursts;
    if bursts_at_first < LEAST_BURSTS {
        return Err(ReloadError::TooShort { bursts: bursts_at_first, period_ms: bursts.period.as_secs_f64() * 1e3 });
    }
    let mut sweeps = 0;
    let studied = study(Some(constant), &mut |index| {
        if index > 0 && begun.elapsed() > at_most || interruption().is_some() {
            return Ok(None);
        }
        progress(index);
        let block = one_block(index, &mut run)?;
        sweeps += block.evict.bursts;
        Ok(Some(block))
    })?;
    Ok(Reload {
        lost,
        us: studied.us,
        constant_us: ReloadUs { estimate: constant.difference, low: constant.low, high: constant.high },
        is_narrow: studied.is_narrow,
        blocks: studied.blocks,
        sweeps,
        cpu,
        burst_us: bursts.length.as_secs_f64() * 1e6,
        period_ms: bursts.period.as_secs_f64() * 1e3,
        is_real_time: bursts.is_real_time,
    })
}

/// What a study found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Studied {
    /// The reload.
    pub us: ReloadUs,
    /// Whether a difference may be claimed, before anything constant is subtracted.
    pub is_claimed: bool,
    /// Whether the interval is narrow enough.
    pub is_narrow: bool,
    /// From so many blocks.
    pub blocks: usize,
}

/// Takes blocks until the interval is narrow enough, there are 400, or there are no more.
///
/// The error of the `constant` part is independent of the program's: half widths of both are added as squares are.
///
/// # Errors
/// Those of `next`, or when there are too few blocks.
pub fn study(
    constant: Option<PairedDifference>,
    next: &mut dyn FnMut(usize) -> Result<Option<Block>, ReloadError>,
) -> Result<Studied, ReloadError> {
    let mut differences_us = Vec::new();
    let mut next_look = LEAST_BLOCKS;
    for index in 0..MOST_BLOCKS {
        let Some(block) = next(index)? else { break };
        differences_us.extend(block.reload_us());
        if differences_us.len() >= next_look {
            next_look = (differences_us.len() as f64 * BETWEEN_LOOKS).ceil() as usize;
            if let Some(found) = studied(&differences_us, constant).filter(|found| found.is_narrow) {
                return Ok(found);
            }
        }
    }
    studied(&differences_us, constant).ok_or(ReloadError::TooFewBlocks { blocks: differences_us.len() })
}

/// What these blocks say; none where they are too few.
fn studied(differences_us: &[f64], constant: Option<PairedDifference>) -> Option<Studied> {
    let difference = paired_difference(differences_us, SEED)?;
    let us = less_constant(difference, constant);
    let half_width_us = (us.high - us.low) / 2.0;
    let is_narrow = half_width_us <= (NARROW_SHARE * us.estimate.abs()).max(NARROW_US);
    Some(Studied { us, is_claimed: difference.is_claimed(), is_narrow, blocks: differences_us.len() })
}

/// Of the order of runs and of resamples.
const SEED: u64 = 22;

/// A program that displaces the kernel's lines itself, as a stream does, doesn't pay for them: no more is subtracted than was measured.
fn less_constant(difference: PairedDifference, constant: Option<PairedDifference>) -> ReloadUs {
    let (constant, its_half_width) =
        constant.map_or((0.0, 0.0), |constant| (constant.difference, (constant.high - constant.low) / 2.0));
    let subtracted = constant.clamp(0.0, difference.difference.max(0.0));
    let estimate = difference.difference - subtracted;
    let half_width = ((difference.high - difference.low) / 2.0).hypot(its_half_width);
    ReloadUs { estimate, low: estimate - half_width, high: estimate + half_width }
}

/// Runs a block in random order. `run` is also given what makes the times of its bursts.
///
/// # Errors
/// Those of `run`.
pub fn one_block(
    index: usize,
    run: &mut dyn FnMut(Option<Burst>, u64) -> Result<Sample, ReloadError>,
) -> Result<Block, ReloadError> {
    let mut samples = [Sample { cpu_ns: 0, bursts: 0 }; 3];
    for which in block_permutation(SEED, index as u32, 0, samples.len()) {
        let burst = [None, Some(Burst::Control), Some(Burst::Evict)][which];
        samples[which] = run(burst, (index * samples.len() + which) as u64 + 1)?;
    }
    let [undisturbed, control, evict] = samples;
    Ok(Block { undisturbed, control, evict })
}

fn system(what: &'static str) -> impl Fn(io::Error) -> ReloadError {
    move |cause| ReloadError::System { what, cause }
}

const NO_CLOCK: &str = "the kernel doesn't count the command's CPU time for us (perf_event_open)";
const NO_BURSTS: &str = "bursts can't be made on the program's CPU";

/// Runs the command on the CPU of the bursts, with `burst` meanwhile, and counts its CPU time from its execution on.
///
/// # Errors
/// [`ReloadError`]
pub fn run_command(
    command: &[OsString],
    run: usize,
    bursts: &Bursts,
    burst: Option<Burst>,
    seed: u64,
) -> Result<Sample, ReloadError> {
    let launch = Launch {
        placement: Some(Placement::from_cpus("one CPU", [bursts.cpu])),
        observe: Observe::End,
        output: Output::Capture,
        descendants: Descendants::Kill,
        keep_binding_variables: true,
        ..Launch::new(command.to_vec())
    };
    let mut clock = CpuClock::of_what_it_executes().map_err(system(NO_CLOCK))?;
    let evictor = burst.map(|burst| bursts.start(burst, &clock, seed)).transpose().map_err(system(NO_BURSTS))?;
    let launched = launch::launch(&launch);
    let counted = evictor.map_or(Ok(0), |evictor| evictor.stop()).map_err(system(NO_CLOCK))?;
    let launched = launched?;
    let how = match launched.observation.exit {
        Exit::Code(0) => return Ok(Sample { cpu_ns: clock.now_ns().map_err(system(NO_CLOCK))?, bursts: counted }),
        Exit::Code(code) => format!("ended with exit code {code}"),
        Exit::Signal(signal) => format!("was ended by signal {signal}"),
        Exit::TimedOut => "took too long".into(),
    };
    let said = launched.stderr.end(200);
    let how = if said.trim().is_empty() { how } else { format!("{how}: {}", said.trim()) };
    Err(ReloadError::Failed { run, how })
}

/// What a burst costs that sweeps, more than one that doesn't, where there is nothing of the program's to reload, in us. After a few
/// blocks it takes no longer than until that is known to a microsecond, or `at_most`.
///
/// # Errors
/// [`ReloadError`]
pub fn constant_part(bursts: &Bursts, at_most: Duration) -> Result<PairedDifference, ReloadError> {
    let rounds = rounds_of(LEAST_CONSTANT_RUN.max(CONSTANT_BURSTS * bursts.period));
    let (mut differences_us, mut next_look) = (Vec::new(), LEAST_BLOCKS);
    let begun = Instant::now();
    for index in 0..MOST_BLOCKS {
        if interruption().is_some() || index >= LEAST_BLOCKS && begun.elapsed() > at_most {
            break;
        }
        let block = one_block(index, &mut |burst, seed| run_loop(rounds, bursts, burst, seed))?;
        differences_us.extend(block.reload_us());
        if differences_us.len() >= next_look {
            next_look = (differences_us.len() as f64 * BETWEEN_LOOKS).ceil() as usize;
            let found = paired_difference(&differences_us, SEED);
            if found.is_some_and(|found| found.high - found.low <= 2.0 * CONSTANT_NARROW_US) {
                break;
            }
        }
    }
    paired_difference(&differences_us, SEED).ok_or(ReloadError::TooFewBlocks { blocks: differences_us.len() })
}

/// Runs a loop that touches no memory on the CPU of the bursts.
fn run_loop(rounds: u64, bursts: &Bursts, burst: Option<Burst>, seed: u64) -> Result<Sample, ReloadError> {
    let bursts = bursts.clone();
    let looping = thread::spawn(move || {
        bind(bursts.cpu).map_err(system(NO_BURSTS))?;
        let mut clock = CpuClock::of_this_thread().map_err(system(NO_CLOCK))?;
        let evictor = burst.map(|burst| bursts.start(burst, &clock, seed)).transpose().map_err(system(NO_BURSTS))?;
        let before_ns = clock.now_ns().map_err(system(NO_CLOCK))?;
        black_box(in_registers(rounds));
        let cpu_ns = clock.now_ns().map_err(system(NO_CLOCK))? - before_ns;
        let counted = evictor.map_or(Ok(0), |evictor| evictor.stop()).map_err(system(NO_CLOCK))?;
        Ok(Sample { cpu_ns, bursts: counted })
    });
    looping.join().unwrap_or_else(|_| Err(system(NO_BURSTS)(io::ErrorKind::Other.into())))
}

/// A loop whose state is one register.
fn in_registers(rounds: u64) -> u64 {
    let mut state = black_box(1_u64);
    for _ in 0..rounds {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    state
}

/// How many rounds of it take about so long.
fn rounds_of(time: Duration) -> u64 {
    const TRIED: u64 = 2_000_000;
    let fastest = (0..3).map(|_| {
        let begun = Instant::now();
        black_box(in_registers(TRIED));
        begun.elapsed()
    });
    let fastest = fastest.min().unwrap_or(time).max(Duration::from_nanos(1));
    (TRIED as f64 * time.as_secs_f64() / fastest.as_secs_f64()) as u64
}

impl Reload {
    /// How it was measured, in a sentence.
    pub fn how(&self) -> String {
        let cache: &str = self.lost.into();
        let Self { blocks, sweeps, cpu, burst_us, period_ms, constant_us, .. } = self;
        let narrow = if self.is_narrow { "" } else { "; more blocks would tell it better" };
        let late = if self.is_real_time {
            ""
        } else {
            "; without CAP_SYS_NICE bursts came only when the kernel's scheduler let them, which their number allows for"
        };
        format!(
            "reload of {}: {blocks} blocks of 3 runs on CPU {cpu}, {sweeps} sweeps of {burst_us:.0} us each {period_ms:.0} ms on average, against \
             bursts as long that touch nothing; {:.0} us that a loop in registers pays ({:.0} to {:.0}) are subtracted{narrow}{late}",
            cache.to_uppercase(),
            constant_us.estimate,
            constant_us.low,
            constant_us.high
        )
    }
}

/// Puts a measured reload into a profile of the same command: into the program that had nearly all of its CPU time.
pub fn fill_in(profile: &mut Profile, reload: &Reload, machine: &Machine) {
    let cpu_s: f64 = profile.programs.iter().map(|program| program.cpu_s).sum();
    profile.untold.retain(|untold| untold != crate::watching::RELOAD_UNTOLD);
    let found = profile.programs.iter_mut().find(|program| program.cpu_s >= OWN_SHARE * cpu_s);
    let Some(program) = found else {
        let ReloadUs { estimate, low, high } = reload.us;
        profile.untold.push(format!(
            "whose the reload is: {estimate:.0} us ({low:.0} to {high:.0}) were measured of all programs together, and none of them had 90 % \
             of the CPU time"
        ));
        return;
    };
    program.reload_us = Some(reload.us);
    if let Some(judgement) = crate::potential::measured(program, reload.us, machine) {
        program.potential = judgement.potential;
        program.potential_reason = judgement.reason;
        program.potential_percent = judgement.percent;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(difference: f64, half_width: f64) -> PairedDifference {
        PairedDifference {
            pairs: 10,
            difference,
            low: difference - half_width,
            high: difference + half_width,
            p_value: 0.5,
        }
    }

    #[test]
    fn no_more_than_was_measured_is_the_kernels() {
        let constant = Some(difference(30.0, 3.0));
        let of = |us: f64, constant| {
            let ReloadUs { estimate, low, high } = less_constant(difference(us, 4.0), constant);
            (estimate, low, high)
        };
        assert_eq!(of(100.0, constant), (70.0, 65.0, 75.0));
        // A stream, once above nothing and once below it.
        assert_eq!(of(12.0, constant), (0.0, -5.0, 5.0));
        assert_eq!(of(-8.0, constant), (-8.0, -13.0, -3.0));
        assert_eq!(of(12.0, None), (12.0, 8.0, 16.0));
        assert_eq!(of(12.0, Some(difference(-2.0, 3.0))), (12.0, 7.0, 17.0));
    }
}
