//! What the scheduler saw, in the simulator's own terms.

use crate::machine_tree::{LEVELS, MachineTree};
use crate::options::{Options, Parameters};
use anyhow::Context;
use machine::Level;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

/// `OCTAVES` and `STEPS` of bpf/shared.h.
const STEPS: u64 = 32;
const BINS: usize = 26 * STEPS as usize;
/// Levels, the CPU itself below them and the machine above.
const MEETINGS: usize = LEVELS.len() + 2;

/// Times, as a histogram: bins are exact to 1 us, then to a 32nd.
#[derive(Clone, Debug, PartialEq)]
pub struct Times {
    count: u64,
    sum_ns: u64,
    longest_ns: u64,
    bins: Vec<u64>,
}

impl Default for Times {
    fn default() -> Self {
        Self { count: 0, sum_ns: 0, longest_ns: 0, bins: vec![0; BINS] }
    }
}

/// Where a bin begins, in us.
fn first_us(bin: u64) -> u64 {
    if bin < STEPS {
        return bin;
    }
    (STEPS + bin % STEPS) << (bin / STEPS - 1)
}

/// The middle of a bin, in us.
fn middle_us(bin: u64) -> f64 {
    (first_us(bin) + first_us(bin + 1)) as f64 / 2.0
}

impl Times {
    fn read(numbers: &mut impl Iterator<Item = u64>) -> Self {
        let mut next = || numbers.next().unwrap_or(0);
        let (count, sum_ns, longest_ns) = (next(), next(), next());
        Self { count, sum_ns, longest_ns, bins: std::iter::repeat_with(next).take(BINS).collect() }
    }

    fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
        self.bins.iter_mut().zip(&other.bins).for_each(|(sum, more)| *sum += more);
    }

    /// Without those of an earlier look. The longest is known to its bin only, unless it is the longest of all.
    fn since(&self, before: &Self) -> Self {
        let bins: Vec<u64> = self.bins.iter().zip(&before.bins).map(|(now, then)| now - then).collect();
        let beyond_us = (0..).zip(&bins).filter(|(_, count)| **count > 0).map(|(bin, _)| first_us(bin + 1)).last();
        Self {
            count: self.count - before.count,
            sum_ns: self.sum_ns - before.sum_ns,
            longest_ns: beyond_us.map_or(0, |us| self.longest_ns.min(us * 1_000)),
            bins,
        }
    }

    /// Those that there are: ms and how many.
    fn recorded(&self) -> impl Iterator<Item = (f64, u64)> {
        let bins = (0..).zip(&self.bins).filter(|(_, count)| **count > 0);
        bins.map(|(bin, count)| (middle_us(bin) / 1e3, *count))
    }

    fn quantile_ms(&self, q: f64) -> Option<f64> {
        let wanted = (q * self.bins.iter().sum::<u64>() as f64).ceil().max(1.0) as u64;
        let mut passed = 0;
        self.recorded().find_map(|(ms, count)| {
            passed += count;
            (passed >= wanted).then_some(ms)
        })
    }

    fn mean_ms(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64 / 1e6)
    }
}

/// What all CPUs saw: `struct seen` of bpf/shared.h, added up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    slices: Times,
    intervals: Times,
    waits: Times,
    /// In ps, a thousandth of the others' unit.
    searches: Times,
    migrations: [u64; MEETINGS],
    dispatches: u64,
    switches: u64,
    idle_dispatches: u64,
    moves_lost: u64,
    overdue_wakes: u64,
    overdue_waits: u64,
    overdue_shares: u64,
    fallbacks: u64,
}

impl Seen {
    /// One CPU's, as it lies in memory.
    pub fn read(bytes: &[u8]) -> Self {
        let words = bytes.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_ne_bytes));
        let mut numbers = words;
        let (slices, intervals) = (Times::read(&mut numbers), Times::read(&mut numbers));
        let (waits, searches) = (Times::read(&mut numbers), Times::read(&mut numbers));
        let mut next = || numbers.next().unwrap_or(0);
        Self {
            slices,
            intervals,
            waits,
            searches,
            migrations: std::array::from_fn(|_| next()),
            dispatches: next(),
            switches: next(),
            idle_dispatches: next(),
            moves_lost: next(),
            overdue_wakes: next(),
            overdue_waits: next(),
            overdue_shares: next(),
            fallbacks: next(),
        }
    }

    fn times(&mut self) -> [&mut Times; 4] {
        [&mut self.slices, &mut self.intervals, &mut self.waits, &mut self.searches]
    }

    fn counters(&mut self) -> [&mut u64; 8] {
        [
            &mut self.dispatches,
            &mut self.switches,
            &mut self.idle_dispatches,
            &mut self.moves_lost,
            &mut self.overdue_wakes,
            &mut self.overdue_waits,
            &mut self.overdue_shares,
            &mut self.fallbacks,
        ]
    }

    /// Both together.
    pub fn plus(mut self, mut other: Self) -> Self {
        self.times().into_iter().zip(other.times()).for_each(|(sum, more)| sum.add(more));
        self.migrations.iter_mut().zip(other.migrations).for_each(|(sum, more)| *sum += more);
        self.counters().into_iter().zip(other.counters()).for_each(|(sum, more)| *sum += *more);
        self
    }

    /// Without what was seen at an earlier look.
    pub fn since(&self, before: &Self) -> Self {
        let (mut now, mut then) = (self.clone(), before.clone());
        now.times().into_iter().zip(then.times()).for_each(|(now, then)| *now = now.since(then));
        now.migrations.iter_mut().zip(then.migrations).for_each(|(now, then)| *now -= then);
        now.counters().into_iter().zip(then.counters()).for_each(|(now, then)| *now -= *then);
        now
    }
}

/// Numbers by name, named as the simulator names them; units stand in the names.
#[derive(Debug, Serialize)]
pub struct Summary {
    seconds: f64,
    metrics: BTreeMap<String, f64>,
    histograms: BTreeMap<&'static str, Vec<(f64, u64)>>,
    #[serde(skip)]
    levels: Vec<(String, u64)>,
}

/// What serde calls a level.
fn name(level: Level) -> String {
    serde_json::to_value(level).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

impl Summary {
    /// Of what was seen in some time.
    pub fn of(seen: &Seen, time: Duration, tree: &MachineTree) -> Self {
        let mut metrics = BTreeMap::new();
        let mut tell = |name: &str, value: f64| {
            metrics.insert(name.to_owned(), value);
        };
        for (name, times) in
            [("effective_slice", &seen.slices), ("dispatch_interval", &seen.intervals), ("wait", &seen.waits)]
        {
            tell(&format!("{name}s"), times.count as f64);
            if let (Some(median), Some(mean)) = (times.quantile_ms(0.5), times.mean_ms()) {
                tell(&format!("{name}_median_ms"), median);
                tell(&format!("{name}_mean_ms"), mean);
                tell(&format!("{name}_longest_ms"), times.longest_ns as f64 / 1e6);
            }
        }
        tell("searches", seen.searches.count as f64);
        if let (Some(median), Some(mean)) = (seen.searches.quantile_ms(0.5), seen.searches.mean_ms()) {
            tell("search_median_ns", median * 1e3);
            tell("search_mean_ns", mean * 1e3);
        }
        // Of each level of the machine what was counted where two CPUs meet: the CPU itself comes before the levels.
        let meets = LEVELS.into_iter().chain([Level::Machine]).zip(&seen.migrations[1..]);
        let levels: Vec<(String, u64)> = meets
            .filter(|(level, count)| tree.levels.contains(level) || **count > 0)
            .map(|(level, count)| (name(level), *count))
            .collect();
        for (level, count) in &levels {
            tell(&format!("migrations_within_{level}"), *count as f64);
        }
        tell("migrations", seen.migrations.iter().sum::<u64>() as f64);
        tell("longest_wait_ms", seen.waits.longest_ns as f64 / 1e6);
        for (name, count) in [
            ("dispatches", seen.dispatches),
            ("switches", seen.switches),
            ("idle_dispatches", seen.idle_dispatches),
            ("moves_lost", seen.moves_lost),
            ("overdue_wakes", seen.overdue_wakes),
            ("overdue_waits", seen.overdue_waits),
            ("overdue_shares", seen.overdue_shares),
            ("fallbacks", seen.fallbacks),
        ] {
            tell(name, count as f64);
        }
        let histograms = BTreeMap::from([
            ("effective_slice_ms", seen.slices.recorded().collect()),
            ("dispatch_interval_ms", seen.intervals.recorded().collect()),
            ("wait_ms", seen.waits.recorded().collect()),
        ]);
        Self { seconds: time.as_secs_f64(), metrics, histograms, levels }
    }

    fn get(&self, name: &str) -> f64 {
        self.metrics.get(name).copied().unwrap_or(0.0)
    }

    fn times(&self, name: &str) -> String {
        let of = |what: &str| self.metrics.get(&format!("{name}_{what}_ms"));
        match (of("median"), of("mean"), of("longest")) {
            (Some(median), Some(mean), Some(longest)) => {
                format!("median {median:.1} ms, mean {mean:.1} ms, longest {longest:.0} ms")
            }
            _ => "none".to_owned(),
        }
    }

    /// What was seen in one period, on one line.
    pub fn line(&self, since_start: Duration) -> String {
        let a_second = |name: &str| self.get(name) / self.seconds;
        format!(
            "{:7.1} s  {:8.1} migrations/s  {:8.1} switches/s  slices {}  longest wait {:.0} ms",
            since_start.as_secs_f64(),
            a_second("migrations"),
            a_second("switches"),
            self.times("effective_slice"),
            self.get("longest_wait_ms"),
        )
    }

    /// What was seen, for people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let count = |name: &str| self.get(name);
        let by_level: Vec<String> =
            self.levels.iter().map(|(level, count)| format!("{count} within {level}")).collect();
        let _ = writeln!(text, "in {:.1} s under the affinity scheduler:", self.seconds);
        let _ = writeln!(text, "  migrations             {} ({})", count("migrations"), by_level.join(", "));
        let _ = writeln!(text, "  effective time slices  {}", self.times("effective_slice"));
        let _ = writeln!(text, "  dispatch intervals     {}", self.times("dispatch_interval"));
        let _ = writeln!(text, "  waits                  {}", self.times("wait"));
        let _ = writeln!(
            text,
            "  dispatches             {}, of which {} to idle CPUs; {} to another process than before",
            count("dispatches"),
            count("idle_dispatches"),
            count("switches"),
        );
        let _ = writeln!(
            text,
            "  out of turn            {} that woke and {} others had waited too long, {} were behind their share",
            count("overdue_wakes"),
            count("overdue_waits"),
            count("overdue_shares"),
        );
        let _ = writeln!(text, "  moves lost             {}; fallbacks {}", count("moves_lost"), count("fallbacks"));
        let _ = writeln!(
            text,
            "  searches               {}, median {:.0} ns, mean {:.0} ns",
            count("searches"),
            count("search_median_ns"),
            count("search_mean_ns"),
        );
        text
    }

    /// Writes it as JSON, with the scheduler's parameters and the kernel's release.
    pub fn write(&self, path: &Path, options: &Options) -> anyhow::Result<()> {
        #[derive(Serialize)]
        struct File<'a> {
            kernel: String,
            parameters: Parameters,
            #[serde(flatten)]
            summary: &'a Summary,
        }
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
        let file = File { kernel, parameters: options.parameters(), summary: self };
        let text = serde_json::to_string_pretty(&file)? + "\n";
        std::fs::write(path, text).with_context(|| format!("{} can't be written", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bin of bpf/stats.h.
    fn bin(us: u64) -> u64 {
        if us < STEPS {
            return us;
        }
        let octave = u64::from(us.ilog2()) - 5;
        (octave + 1) * STEPS + ((us >> octave) - STEPS)
    }

    #[test]
    fn a_bin_s_middle_is_near_all_that_falls_into_it() {
        for us in (0..100_000).chain((100_000..60_000_000).step_by(9_973)) {
            let off = (middle_us(bin(us)) - us as f64).abs();
            assert!(off <= 0.5 + us as f64 / 64.0, "{us} us is {off} off");
        }
    }

    #[test]
    fn what_lies_in_memory_is_read_in_order_and_differences_are_undone_by_sums() {
        let words = 4 * (3 + BINS as u64) + MEETINGS as u64 + 8;
        let bytes: Vec<u8> = (0..words).flat_map(u64::to_ne_bytes).collect();
        let seen = Seen::read(&bytes);
        assert_eq!((seen.slices.count, seen.intervals.count), (0, 3 + BINS as u64));
        assert_eq!(seen.migrations[0], 4 * (3 + BINS as u64));
        assert_eq!(seen.fallbacks, words - 1);
        let twice = seen.clone().plus(seen.clone());
        let again = twice.since(&seen);
        assert_eq!(
            (again.slices.bins, again.waits.sum_ns, again.fallbacks),
            (seen.slices.bins, seen.waits.sum_ns, words - 1)
        );
    }

    #[test]
    fn the_longest_of_a_period_is_not_that_of_an_earlier_one() {
        let of = |times_us: &[u64]| {
            let mut times = Times::default();
            for &us in times_us {
                times.bins[bin(us) as usize] += 1;
                times.longest_ns = times.longest_ns.max(us * 1_000);
            }
            times
        };
        let before = of(&[90_000, 7]);
        assert_eq!(of(&[90_000, 7, 20, 12]).since(&before).longest_ns, 21_000);
        assert_eq!(of(&[90_000, 7, 100_000]).since(&before).longest_ns, 100_000_000);
        assert_eq!(before.since(&before).longest_ns, 0);
    }

    #[test]
    fn sizes_are_those_of_the_bpf_side() {
        let header = include_str!("bpf/shared.h");
        for (name, value) in [("LEVELS", LEVELS.len()), ("OCTAVES", BINS / STEPS as usize), ("STEPS", STEPS as usize)] {
            assert!(header.contains(&format!("#define {name} {value}\n")), "{name}");
        }
    }
}
