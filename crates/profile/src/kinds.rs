//! The kinds of a program's threads: those that do about the same, with how long their bursts are and their times of blocking.

use crate::histogram::{BINS, Histogram, TimeBin, bin_of};
use crate::profile::{Profile, Program, ThreadRow};
use crate::survival::{Distribution, product_limit};

/// Threads of one kind have CPU times within this factor, where threads of a program live on.
const ALIKE_FACTOR: f64 = 2.0;

/// And mean bursts within this one.
const APART_FACTOR: f64 = 4.0;

/// What one thread's length counts where it is shared out among finer bins.
const PARTS: u64 = 64;

/// Threads of a program that do about the same.
pub(crate) struct KindOfThreads {
    pub threads: u64,
    /// CPU time of one, in ms.
    pub work: Work,
    /// How often they gave up their CPUs by themselves.
    pub voluntary_ends: f64,
    /// CPU time from one such end to the next; none where no two were seen.
    pub bursts: Option<Distribution>,
    /// How long they were blocked at a time; none where they weren't.
    pub blocks: Option<Distribution>,
}

pub(crate) enum Work {
    Constant(f64),
    Seen(Distribution),
}

/// The kinds of threads of a program, those with the most CPU time first: one where most of them ended, or too many are known by their
/// sums alone.
pub(crate) fn kinds_of_threads(profile: &Profile, program: &Program) -> Vec<KindOfThreads> {
    let histograms = &program.histograms;
    let threads = program.threads.max(1);
    let all_bursts = (histograms.burst.count > 0)
        .then(|| product_limit(&histograms.burst, &histograms.cut_burst).closed(endless_ms(profile, program)));
    let all_blocks = (histograms.block.count > 0)
        .then(|| product_limit(&histograms.block, &histograms.cut_block).closed(histograms.cut_block.longest_ms));
    let one = |work| {
        let voluntary_ends = histograms.burst.count as f64;
        vec![KindOfThreads { threads, work, voluntary_ends, bursts: all_bursts, blocks: all_blocks }]
    };
    let mean_ms = (program.cpu_s * 1e3 / threads as f64).max(0.001);
    let rows: Vec<&ThreadRow> = program.by_thread.iter().filter(|row| row.cpu_s > 0.0).collect();
    if rows.is_empty() || program.threads_without_row > 0 {
        return one(Work::Constant(mean_ms));
    }
    if is_passing(program, at_once(profile, program)) {
        // One that executed another program is counted twice, and its time is only in the last.
        let seen = product_limit(&of_lengths(rows.iter().map(|row| row.cpu_s * 1e3)), &Histogram::default());
        // What is drawn has the mean that was seen, so that there is as much work in all.
        let factor = mean_ms / seen.mean_ms();
        return one(Work::Seen(seen.scaled(factor)));
    }
    let mut kinds: Vec<Vec<&ThreadRow>> = Vec::new();
    for row in rows {
        match kinds.iter_mut().find(|kind| are_alike(kind[0], row)) {
            Some(kind) => kind.push(row),
            None => kinds.push(vec![row]),
        }
    }
    kinds.into_iter().map(|rows| kind_of(program, &rows)).collect()
}

fn kind_of(program: &Program, rows: &[&ThreadRow]) -> KindOfThreads {
    let mut bursts = refined(rows.iter().flat_map(|row| &row.bursts), &program.histograms.burst);
    let voluntary_ends = bursts.count as f64 / PARTS as f64;
    let blocks = refined(rows.iter().flat_map(|row| &row.blocks), &program.histograms.block);
    // A thread's last burst, which its end or the profile's cut, is one of those that its CPU time is made of: taken as an unknown longer one,
    // it would come at any time, and leave no time for the others.
    let last = of_lengths(rows.iter().map(|row| row.last_burst_ms).filter(|&ms| ms > 0.0));
    bursts.count += last.count * PARTS;
    bursts.bins.extend(last.bins.iter().map(|bin| TimeBin { count: bin.count * PARTS, ..*bin }));
    let none = Histogram::default();
    let cpu_ms = rows.iter().map(|row| row.cpu_s * 1e3).sum::<f64>();
    KindOfThreads {
        threads: rows.len() as u64,
        work: Work::Constant(cpu_ms / rows.len() as f64),
        voluntary_ends,
        bursts: (voluntary_ends > 0.0).then(|| product_limit(&bursts, &none)),
        blocks: (blocks.count > 0).then(|| product_limit(&blocks, &none)),
    }
}

/// Longer than any thread was seen to run.
fn endless_ms(profile: &Profile, program: &Program) -> f64 {
    2.0 * 1e3 * (profile.seconds + program.cpu_s)
}

/// Whether two threads of a program do about the same.
fn are_alike(one: &ThreadRow, other: &ThreadRow) -> bool {
    let within = |a: f64, b: f64, factor: f64| a <= factor * b && b <= factor * a;
    let burst_s = |row: &ThreadRow| row.cpu_s / (row.bursts.iter().map(|bin| bin.count).sum::<u64>().max(1) as f64);
    within(one.cpu_s, other.cpu_s, ALIKE_FACTOR) && within(burst_s(one), burst_s(other), APART_FACTOR)
}

/// Lengths that are known by coarse bins, each shared out among those finer ones in it in which there are any of all threads. All counts
/// are [`PARTS`] as high.
fn refined<'a>(coarse: impl Iterator<Item = &'a TimeBin>, fine: &Histogram) -> Histogram {
    let mut bins: Vec<TimeBin> = Vec::new();
    for wide in coarse {
        let is_in = |bin: &&TimeBin| bin.from_us >= wide.from_us && bin.from_us < wide.to_us;
        let all: u64 = fine.bins.iter().filter(is_in).map(|bin| bin.count).sum();
        if all == 0 {
            bins.push(TimeBin { count: wide.count * PARTS, ..*wide });
        }
        let share = |bin: &TimeBin| (wide.count * PARTS) as f64 * bin.count as f64 / all as f64;
        bins.extend(fine.bins.iter().filter(is_in).map(|bin| TimeBin { count: share(bin).round() as u64, ..*bin }));
    }
    let count = bins.iter().map(|bin| bin.count).sum();
    Histogram { count, bins, ..Histogram::default() }
}

fn of_lengths(ms: impl Iterator<Item = f64>) -> Histogram {
    let mut counts = [0; BINS];
    let (mut total_ns, mut longest_ns) = (0, 0);
    for ns in ms.map(|ms| (ms * 1e6) as u64) {
        counts[bin_of(ns)] += 1;
        total_ns += ns;
        longest_ns = longest_ns.max(ns);
    }
    Histogram::from_counts(&counts, total_ns, longest_ns)
}

/// How many of a program's threads there were on average, at least one: the time that they were seen to run, wait and block, over
/// that of the profile.
pub(crate) fn at_once(profile: &Profile, program: &Program) -> f64 {
    let histograms = &program.histograms;
    let blocked_ms = histograms.block.total_ms + histograms.cut_block.total_ms;
    let lived_ms = program.cpu_s * 1e3 + histograms.wait.total_ms + blocked_ms;
    (lived_ms / (profile.seconds * 1e3)).ceil().clamp(1.0, program.threads.max(1) as f64)
}

/// Whether its threads come and go: most of them ended while they were watched, and no more than half of them were there at once.
pub(crate) fn is_passing(program: &Program, at_once: f64) -> bool {
    program.exits * 2 > program.threads && at_once * 2.0 <= program.threads as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(tid: i32, cpu_s: f64, bursts: &[TimeBin]) -> ThreadRow {
        ThreadRow {
            pid: 1,
            tid,
            name: "t".into(),
            cpu_s,
            switches: 1,
            migrations: 0,
            wait_s: 0.0,
            block_s: 0.0,
            quantum_percent: 0.0,
            bursts: bursts.to_vec(),
            blocks: bursts.to_vec(),
            last_burst_ms: 0.0,
        }
    }

    #[test]
    fn kinds_have_their_own_lengths_and_none_is_lost() {
        // Bursts of 1,000 us and of 10 us, by two threads each; coarse bins are as wide as four fine ones.
        let fine = of_lengths([1.0, 1.0, 1.0, 1.0, 0.010, 0.010, 0.011, 0.011].into_iter());
        let coarse = |us: f64, count| {
            let bin = (bin_of((us * 1e3) as u64) >> 2) << 2;
            let edge = |bin| crate::histogram::lowest_ns(bin) as f64 / 1e3;
            [TimeBin { from_us: edge(bin), to_us: edge(bin + 4), count }]
        };
        let long = coarse(1_000.0, 2);
        let short = coarse(10.0, 2);
        let program = Program {
            threads: 4,
            cpu_s: 4.042e-3,
            by_thread: vec![row(1, 2.1e-3, &long), row(2, 2e-3, &long), row(3, 2e-5, &short), row(4, 2.2e-5, &short)],
            histograms: crate::profile::Histograms { burst: fine.clone(), block: fine, ..Default::default() },
            ..Program::default()
        };
        let profile = Profile { seconds: 1.0, ..Profile::default() };
        let kinds = kinds_of_threads(&profile, &program);
        assert_eq!(kinds.iter().map(|kind| kind.threads).collect::<Vec<_>>(), [2, 2]);
        let means: Vec<f64> =
            kinds.iter().map(|kind| kind.bursts.as_ref().map_or(0.0, Distribution::mean_ms)).collect();
        assert!((means[0] - 1.0).abs() < 0.1 && (means[1] - 0.0105).abs() < 0.001, "{means:?}");
        assert_eq!(kinds.iter().map(|kind| kind.voluntary_ends).sum::<f64>(), 8.0);
    }

    #[test]
    fn the_last_burst_is_one_of_those_that_cpu_time_is_made_of() {
        let bin = of_lengths([1.0].into_iter()).bins[0];
        let mut thread = row(1, 1.0, &[TimeBin { count: 3, ..bin }]);
        thread.last_burst_ms = 997.0;
        let program = Program { threads: 1, cpu_s: 1.0, by_thread: vec![thread], ..Program::default() };
        let kinds = kinds_of_threads(&Profile { seconds: 1.0, ..Profile::default() }, &program);
        let bursts = kinds[0].bursts.as_ref().unwrap();
        assert!((bursts.percent.last().unwrap() - 25.0).abs() < 1e-6, "{bursts:?}");
        assert!((bursts.mean_ms() / 250.0 - 1.0).abs() < 0.1, "{bursts:?}");
    }
}
