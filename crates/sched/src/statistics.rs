//! What the scheduler counted, in the simulator's own terms.

use crate::intf::{Counter, CpuStats, STEPS, Times};
use crate::machine_tree::MachineTree;
use crate::options::Options;
use anyhow::Context;
use bytemuck::Zeroable;
use machine::Level;
use machine::linux::system;
use output::ResultFile;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;
use strum::VariantArray;

const STEPS_A_POWER: u64 = STEPS as u64;

/// Where a bin begins, in us.
fn first_us(bin: u64) -> u64 {
    if bin < STEPS_A_POWER {
        return bin;
    }
    (STEPS_A_POWER + bin % STEPS_A_POWER) << (bin / STEPS_A_POWER - 1)
}

/// The middle of a bin, in us.
fn middle_us(bin: u64) -> f64 {
    (first_us(bin) + first_us(bin + 1)) as f64 / 2.0
}

/// Times, as a histogram: bins are exact to 1 us, then to a 32nd.
impl Times {
    fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
        self.bins.iter_mut().zip(&other.bins).for_each(|(sum, more)| *sum += more);
    }

    /// Without those counted before. The longest is known to its bin only, unless it is the longest of all.
    fn since(&self, before: &Self) -> Self {
        let bins = std::array::from_fn(|bin| self.bins[bin] - before.bins[bin]);
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

    /// 0 where there are none.
    fn longest_ms(&self) -> f64 {
        self.longest_ns as f64 / 1e6
    }

    fn text(&self) -> String {
        let longest = self.longest_ms();
        let (Some(median), Some(mean)) = (self.quantile_ms(0.5), self.mean_ms()) else { return "none".to_owned() };
        format!("median {median:.1} ms, mean {mean:.1} ms, longest {longest:.0} ms")
    }
}

impl CpuStats {
    /// Nothing counted.
    pub fn none() -> Self {
        Self::zeroed()
    }

    /// One CPU's, as the kernel gives it.
    pub fn from_bytes(bytes: &[u8]) -> anyhow::Result<Self> {
        bytemuck::try_pod_read_unaligned(bytes).map_err(|_| {
            anyhow::anyhow!("the scheduler's statistics have {} bytes a CPU, not {}", bytes.len(), size_of::<Self>())
        })
    }

    /// How often something happened.
    pub fn count(&self, counter: Counter) -> u64 {
        self.counters[counter as usize]
    }

    fn times(&mut self) -> [&mut Times; 4] {
        [&mut self.slices, &mut self.intervals, &mut self.waits, &mut self.searches]
    }

    fn counts(&mut self) -> impl Iterator<Item = &mut u64> {
        self.migrations.iter_mut().chain(&mut self.counters)
    }

    /// Adds another CPU's.
    pub fn add(&mut self, mut other: Self) {
        self.times().into_iter().zip(other.times()).for_each(|(sum, more)| sum.add(more));
        self.counts().zip(other.counts()).for_each(|(sum, more)| *sum += *more);
    }

    /// Without what was counted before.
    pub fn since(&self, before: &Self) -> Self {
        let (mut now, mut then) = (*self, *before);
        now.times().into_iter().zip(then.times()).for_each(|(now, then)| *now = now.since(then));
        now.counts().zip(then.counts()).for_each(|(now, then)| *now -= *then);
        now
    }
}

/// What was counted in some time, for people and programs.
pub struct Summary {
    seconds: f64,
    stats: CpuStats,
    /// Migrations by the level at which the two CPUs meet, of levels that the machine has.
    levels: Vec<(String, u64)>,
}

impl Summary {
    /// Of what was counted in so much time.
    pub fn new(stats: CpuStats, time: Duration, tree: &MachineTree) -> Self {
        let levels = Level::VARIANTS.iter().zip(stats.migrations);
        let levels = levels.filter(|(level, count)| tree.levels.contains(level) || *count > 0);
        let levels = levels.map(|(level, count)| (format!("{level:?}").to_lowercase(), count)).collect();
        Self { seconds: time.as_secs_f64(), stats, levels }
    }

    fn migrations(&self) -> u64 {
        self.stats.migrations.iter().sum()
    }

    /// What is written as a distribution, by name.
    fn distributions(&self) -> [(&'static str, &Times); 3] {
        let CpuStats { slices, intervals, waits, .. } = &self.stats;
        [("effective_slice", slices), ("dispatch_interval", intervals), ("wait", waits)]
    }

    /// Numbers by name, named as the simulator names them; units stand in the names.
    fn metrics(&self) -> BTreeMap<String, f64> {
        let stats = &self.stats;
        let mut metrics = BTreeMap::new();
        let mut insert = |name: String, value: f64| metrics.insert(name, value);
        for (name, times) in self.distributions() {
            insert(format!("{name}s"), times.count as f64);
            if let (Some(median), Some(mean)) = (times.quantile_ms(0.5), times.mean_ms()) {
                insert(format!("{name}_median_ms"), median);
                insert(format!("{name}_mean_ms"), mean);
                insert(format!("{name}_longest_ms"), times.longest_ms());
            }
        }
        insert("searches".into(), stats.searches.count as f64);
        if let Some((median, mean)) = self.search_ns() {
            insert("search_median_ns".into(), median);
            insert("search_mean_ns".into(), mean);
        }
        for (level, count) in &self.levels {
            insert(format!("migrations_within_{level}"), *count as f64);
        }
        insert("migrations".into(), self.migrations() as f64);
        insert("longest_wait_ms".into(), stats.waits.longest_ms());
        for &counter in Counter::VARIANTS {
            insert(<&str>::from(counter).into(), stats.count(counter) as f64);
        }
        metrics
    }

    /// Median and mean of a search, which are kept in ps; none where nothing was searched for.
    fn search_ns(&self) -> Option<(f64, f64)> {
        let searches = &self.stats.searches;
        Some((searches.quantile_ms(0.5)? * 1e3, searches.mean_ms()? * 1e3))
    }

    /// What was counted in one period, on one line.
    pub fn line(&self, since_start: Duration) -> String {
        let a_second = |count: u64| count as f64 / self.seconds;
        format!(
            "{:7.1} s  {:8.1} migrations/s  {:8.1} switches/s  slices {}  longest wait {:.0} ms",
            since_start.as_secs_f64(),
            a_second(self.migrations()),
            a_second(self.stats.count(Counter::Switches)),
            self.stats.slices.text(),
            self.stats.waits.longest_ms(),
        )
    }

    /// What was counted, for people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let count = |counter: Counter| self.stats.count(counter);
        let by_level: Vec<String> =
            self.levels.iter().map(|(level, count)| format!("{count} within {level}")).collect();
        let _ = writeln!(text, "in {:.1} s under the affinity scheduler:", self.seconds);
        let _ = writeln!(text, "  migrations             {} ({})", self.migrations(), by_level.join(", "));
        let _ = writeln!(text, "  effective time slices  {}", self.stats.slices.text());
        let _ = writeln!(text, "  dispatch intervals     {}", self.stats.intervals.text());
        let _ = writeln!(text, "  waits                  {}", self.stats.waits.text());
        let _ = writeln!(
            text,
            "  dispatches             {}, of which {} to idle CPUs; {} to another process than before",
            count(Counter::Dispatches),
            count(Counter::IdleDispatches),
            count(Counter::Switches),
        );
        let _ = writeln!(
            text,
            "  out of turn            {} that woke and {} others had waited too long, {} were behind their share",
            count(Counter::OverdueWakes),
            count(Counter::OverdueWaits),
            count(Counter::OverdueShares),
        );
        let (lost, fallbacks) = (count(Counter::MovesLost), count(Counter::Fallbacks));
        let _ = writeln!(text, "  moves lost             {lost}; fallbacks {fallbacks}");
        let searches = self.search_ns().map_or("none".to_owned(), |(median, mean)| {
            format!("{}, median {median:.0} ns, mean {mean:.0} ns", self.stats.searches.count)
        });
        let _ = writeln!(text, "  searches               {searches}");
        text
    }

    /// Writes it as JSON, with the scheduler's parameters and the kernel's release.
    pub fn write(&self, file: &ResultFile, options: &Options) -> anyhow::Result<()> {
        let histograms = self.distributions().map(|(name, times)| (format!("{name}_ms"), times.recorded().collect()));
        let counted = json!({
            "kernel": system::kernel_release().context("/proc/sys/kernel/osrelease can't be read")?,
            "parameters": options.parameters(),
            "seconds": self.seconds,
            "metrics": self.metrics(),
            "histograms": BTreeMap::<String, Vec<(f64, u64)>>::from(histograms),
        });
        Ok(file.write(serde_json::to_string_pretty(&counted)? + "\n")?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intf::BINS;
    use strum::EnumCount;

    /// The bin of bpf/stats.h.
    fn bin(us: u64) -> u64 {
        if us < STEPS_A_POWER {
            return us;
        }
        let octave = u64::from(us.ilog2()) - 5;
        (octave + 1) * STEPS_A_POWER + ((us >> octave) - STEPS_A_POWER)
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
        let times = 3 + u64::from(BINS);
        let words = 4 * times + Level::COUNT as u64 + Counter::COUNT as u64;
        let bytes: Vec<u8> = (0..words).flat_map(u64::to_ne_bytes).collect();
        let stats = CpuStats::from_bytes(&bytes).unwrap();
        assert_eq!((stats.slices.count, stats.intervals.count), (0, times));
        assert_eq!(stats.migrations[0], 4 * times);
        assert_eq!(stats.count(Counter::Fallbacks), words - 1);
        let mut twice = stats;
        twice.add(stats);
        let again = twice.since(&stats);
        assert_eq!(
            (again.slices.bins, again.waits.sum_ns, again.counters),
            (stats.slices.bins, stats.waits.sum_ns, stats.counters)
        );
    }

    #[test]
    fn statistics_that_lack_a_number_are_an_error() {
        let bytes = vec![0; size_of::<CpuStats>()];
        assert!(CpuStats::from_bytes(&bytes).is_ok());
        for length in [0, 8, bytes.len() - 8, bytes.len() - 1] {
            let error = CpuStats::from_bytes(&bytes[..length]).unwrap_err().to_string();
            assert!(error.contains(&format!("have {length} bytes")), "{error}");
        }
    }

    #[test]
    fn metrics_have_the_names_that_readers_know() {
        let tree = MachineTree::from_machine(&machine::Machine::named("l3:2 core:2 pu:1").unwrap());
        let mut stats = CpuStats::none();
        (stats.slices.count, stats.slices.sum_ns, stats.slices.bins[3]) = (1, 3_500, 1);
        stats.counters[Counter::MovesLost as usize] = 7;
        let metrics = Summary::new(stats, Duration::from_secs(1), &tree).metrics();
        let names: Vec<&str> = metrics.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            [
                "dispatch_intervals",
                "dispatches",
                "effective_slice_longest_ms",
                "effective_slice_mean_ms",
                "effective_slice_median_ms",
                "effective_slices",
                "fallbacks",
                "idle_dispatches",
                "longest_wait_ms",
                "migrations",
                "migrations_within_l3",
                "migrations_within_machine",
                "moves_lost",
                "overdue_shares",
                "overdue_waits",
                "overdue_wakes",
                "searches",
                "switches",
                "waits",
            ]
        );
        assert_eq!((metrics["moves_lost"], metrics["effective_slice_mean_ms"]), (7.0, 0.003_5));
    }

    #[test]
    fn the_longest_of_a_period_is_not_that_of_an_earlier_one() {
        let of = |times_us: &[u64]| {
            let mut times = Times::zeroed();
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
}
