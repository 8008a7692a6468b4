//! The kinds of a program's threads: those that do about the same, with how long their bursts are and their times of blocking.

use crate::histogram::{BINS, Histogram, TimeBin, bin_of};
use crate::profile::{Profile, Program, ThreadRow};
use crate::survival::{Distribution, product_limit};
use std::ops::RangeInclusive;

/// Threads of one kind have CPU times within this factor, where threads of a program live on.
const ALIKE_FACTOR: f64 = 2.0;

/// And mean bursts within this one.
const APART_FACTOR: f64 = 4.0;

/// Threads begin together within this share of the time that they were watched, from 0 to 1.
const BEGAN_SHARE: f64 = 0.05;

/// What begins earlier was there from the beginning, in ms.
const LEAST_BEGAN_MS: f64 = 1.0;

/// Of a program whose threads come and go, those stay that give up their CPUs at least such a share as often as the one that does most often, where
/// together they do such a share of it all, and so often: a server's processes beside those that set it up.
const STAYING_FACTOR: f64 = 0.1;
const STAYING_SHARE: f64 = 0.9;
const STAYING_ENDS: f64 = 100.0;

/// Times of blocking besides the one that is longer than all others, at least.
const LEAST_REPEATED: u64 = 4;

/// Share of a thread's CPU time, from 0 to 1, that is in none of its bursts where one of them wasn't told.
const LEAST_UNTOLD: f64 = 0.1;

/// So many times are a few.
const FEW: RangeInclusive<u64> = 3..=30;

/// What one thread's length counts where it is shared out among finer bins.
const PARTS: u64 = 64;

/// Threads of a program that do about the same.
pub(crate) struct KindOfThreads {
    pub threads: u64,
    /// How many of them there are at once, on average; none where it is all of them.
    pub at_once: Option<f64>,
    /// When they began, in ms since the profile did; 0 where that was not together.
    pub began_ms: f64,
    /// CPU time of one, in ms.
    pub work: Work,
    /// How often they gave up their CPUs by themselves.
    pub voluntary_ends: f64,
    /// CPU time from one such end to the next; none where no two were seen.
    pub bursts: Option<Distribution>,
    /// How long they were blocked at a time; none where they weren't.
    pub blocks: Option<Distribution>,
    /// How often each gives up its CPU before its last burst, where that is a few times; none where it goes on until its CPU time is over.
    ///
    /// Bursts that are drawn until the CPU time is over are more than were seen, (variance / mean^2 - 1) / 2 for each thread on average (Cox 1962,
    /// Renewal Theory, 4.2), which matters where there are few: of compiler drivers a quarter more.
    pub few: Option<u64>,
}

impl KindOfThreads {
    /// Of lengths of a program's parts of bursts, those that are no longer than its own bursts.
    pub fn own(&self, lengths: &Histogram) -> Histogram {
        let longest_ms = self.bursts.as_ref().and_then(|bursts| bursts.edges_ms.last().copied());
        let longest_us = longest_ms.map_or(f64::INFINITY, |ms| 1e3 * ms);
        let bins: Vec<TimeBin> = lengths.bins.iter().filter(|bin| bin.from_us < longest_us).copied().collect();
        Histogram { count: bins.iter().map(|bin| bin.count).sum(), bins, ..Histogram::default() }
    }

    /// Of some of a program's times of blocking as many of each length as there are of this kind at most: the others are of threads that sleep by
    /// themselves.
    pub fn own_blocks(&self, lengths: &Histogram) -> Histogram {
        let Some(own) = &self.blocks else { return lengths.clone() };
        let percent_of = |bin: &TimeBin| {
            let is_in = |from_ms: f64| from_ms * 1e3 >= bin.from_us - 1e-4 && from_ms * 1e3 < bin.to_us - 1e-4;
            let inner = own.edges_ms.iter().zip(&own.percent).filter(|(from_ms, _)| is_in(**from_ms));
            inner.map(|(_, percent)| percent).sum::<f64>()
        };
        let most = |bin: &TimeBin| (self.voluntary_ends * percent_of(bin) / 100.0).round() as u64;
        let bins = lengths.bins.iter().map(|bin| TimeBin { count: bin.count.min(most(bin)), ..*bin });
        let bins: Vec<TimeBin> = bins.filter(|bin| bin.count > 0).collect();
        Histogram { count: bins.iter().map(|bin| bin.count).sum(), bins, ..Histogram::default() }
    }
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
    let there = at_once(profile, program);
    let passes = is_passing(program, there);
    let one = |work| {
        let (at_once, voluntary_ends) = (passes.then_some(there), histograms.burst.count as f64);
        let (bursts, blocks) = (all_bursts, all_blocks);
        vec![KindOfThreads { threads, at_once, began_ms: 0.0, work, voluntary_ends, bursts, blocks, few: None }]
    };
    let mean_ms = (program.cpu_s * 1e3 / threads as f64).max(0.001);
    let rows: Vec<&ThreadRow> = program.by_thread.iter().filter(|row| row.cpu_s > 0.0).collect();
    if rows.is_empty() || program.threads_without_row > 0 {
        return one(Work::Constant(mean_ms));
    }
    if passes && let Some((staying, passing)) = those_that_stay(&rows) {
        let rest = KindOfThreads {
            at_once: Some(there_at_once(profile, &passing)),
            began_ms: 0.0,
            work: Work::Seen(seen_work(&passing)),
            few: None,
            ..kind_of(profile, program, &passing)
        };
        return vec![kind_of(profile, program, &staying), rest];
    }
    if passes {
        // One that executed another program is counted twice, and its time is only in the last.
        let seen = seen_work(&rows);
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
    let kinds = kinds.into_iter().flat_map(|rows| parted_by_birth(profile, rows));
    kinds.map(|rows| kind_of(profile, program, &rows)).collect()
}

/// CPU times of threads.
fn seen_work(rows: &[&ThreadRow]) -> Distribution {
    product_limit(&of_lengths(rows.iter().map(|row| row.cpu_s * 1e3)), &Histogram::default())
}

/// The threads of a kind, where one is older and has begun all others together: that one by itself.
fn parted_by_birth<'a>(profile: &Profile, mut rows: Vec<&'a ThreadRow>) -> Vec<Vec<&'a ThreadRow>> {
    rows.sort_by(|one, other| one.began_s.total_cmp(&other.began_s));
    let begin_together = |rows: &[&ThreadRow]| began_together(profile, rows).is_some();
    match &rows[..] {
        [first, others @ ..] if !others.is_empty() && !begin_together(&rows) && begin_together(others) => {
            vec![vec![first], others.to_vec()]
        }
        _ => vec![rows],
    }
}

/// When threads began together, in s since the profile did; none where they didn't.
fn began_together(profile: &Profile, rows: &[&ThreadRow]) -> Option<f64> {
    let of = |pick: fn(f64, f64) -> f64| rows.iter().map(|row| row.began_s).reduce(pick);
    let (first, last) = (of(f64::min)?, of(f64::max)?);
    (last - first <= BEGAN_SHARE * profile.seconds).then_some(first)
}

fn kind_of(profile: &Profile, program: &Program, rows: &[&ThreadRow]) -> KindOfThreads {
    let mut bursts = refined(rows.iter().flat_map(|row| &row.bursts), &program.histograms.burst);
    let voluntary_ends = bursts.count as f64 / PARTS as f64;
    let blocks = refined(repeated_blocks(rows), &program.histograms.block);
    // A thread's last burst, which its end or the profile's cut, is one of those that its CPU time is made of: taken as an unknown longer one,
    // it would come at any time, and leave no time for the others.
    let last = of_lengths(rows.iter().map(|row| row.last_burst_ms).filter(|&ms| ms > 0.0));
    let untold = of_lengths(rows.iter().filter_map(|row| untold_burst_ms(row)));
    bursts.count += (last.count + untold.count) * PARTS;
    let more = last.bins.iter().chain(&untold.bins);
    bursts.bins.extend(more.map(|bin| TimeBin { count: bin.count * PARTS, ..*bin }));
    let none = Histogram::default();
    let cpu_ms = rows.iter().map(|row| row.cpu_s * 1e3).sum::<f64>();
    let few = ((voluntary_ends + untold.count as f64) / rows.len() as f64).round() as u64;
    let began_ms = 1e3 * began_together(profile, rows).unwrap_or(0.0);
    KindOfThreads {
        threads: rows.len() as u64,
        at_once: None,
        began_ms: if began_ms < LEAST_BEGAN_MS { 0.0 } else { began_ms },
        work: Work::Constant(cpu_ms / rows.len() as f64),
        voluntary_ends,
        bursts: (voluntary_ends > 0.0).then(|| product_limit(&bursts, &none)),
        blocks: (blocks.count > 0).then(|| product_limit(&blocks, &none)),
        few: FEW.contains(&few).then_some(few),
    }
}

/// The burst of a thread whose beginning or end the kernel didn't tell, in ms: what CPU time it had besides those that were seen whole and its last one. None where
/// that is little, or no more than those may have had by their bins.
fn untold_burst_ms(row: &ThreadRow) -> Option<f64> {
    let cpu_ms = 1e3 * row.cpu_s;
    let seen_ms = |of: fn(&TimeBin) -> f64| {
        row.last_burst_ms + row.bursts.iter().map(|bin| bin.count as f64 * of(bin) / 1e3).sum::<f64>()
    };
    let is_much = cpu_ms - seen_ms(|bin| bin.to_us) > LEAST_UNTOLD * cpu_ms;
    is_much.then(|| cpu_ms - seen_ms(|bin| f64::midpoint(bin.from_us, bin.to_us)))
}

/// Of the threads of a program that come and go, those few that do nearly all of the blocking and are alike, and the others; none where there are no such.
fn those_that_stay<'a>(rows: &[&'a ThreadRow]) -> Option<(Vec<&'a ThreadRow>, Vec<&'a ThreadRow>)> {
    let most = rows.iter().map(|row| ends_by_itself(row)).max()?;
    let stays = |row: &&ThreadRow| ends_by_itself(row) as f64 >= STAYING_FACTOR * most as f64;
    let (staying, passing): (Vec<&ThreadRow>, Vec<&ThreadRow>) = rows.iter().partition(|row| stays(row));
    let ends = |rows: &[&ThreadRow]| rows.iter().map(|row| ends_by_itself(row)).sum::<u64>() as f64;
    let is_apart = 2 * staying.len() <= rows.len() && ends(&staying) >= (STAYING_SHARE * ends(rows)).max(STAYING_ENDS);
    let is_one_kind = staying.iter().all(|row| are_alike(staying[0], row));
    (is_apart && is_one_kind).then_some((staying, passing))
}

/// How often a thread gave up its CPU by itself.
fn ends_by_itself(row: &ThreadRow) -> u64 {
    row.bursts.iter().map(|bin| bin.count).sum()
}

/// Times of blocking of threads, but for the one that each of several had once, longer than all its others together: at what
/// came before all that they do again and again, or after it. Drawn among the others it would come at any time, and leave the CPUs to fewer.
fn repeated_blocks<'a>(rows: &[&'a ThreadRow]) -> impl Iterator<Item = &'a TimeBin> {
    let is_left_out = rows.len() > 1 && rows.iter().all(|row| longest_alone_ms(row).is_some());
    rows.iter().flat_map(move |row| &row.blocks[..row.blocks.len() - usize::from(is_left_out)])
}

/// The one time of blocking that was longer than all of a thread's others together, at least this long, in ms; none where there was no such.
pub(crate) fn longest_alone_ms(row: &ThreadRow) -> Option<f64> {
    let (longest, others) = row.blocks.split_last()?;
    let is_alone = longest.count == 1
        && others.iter().map(|bin| bin.count).sum::<u64>() >= LEAST_REPEATED
        && longest.from_us / 1e6 > row.block_s / 2.0;
    is_alone.then_some(longest.from_us / 1e3)
}

/// Longer than any thread was seen to run.
fn endless_ms(profile: &Profile, program: &Program) -> f64 {
    2.0 * 1e3 * (profile.seconds + program.cpu_s)
}

/// Whether two threads of a program do about the same.
fn are_alike(one: &ThreadRow, other: &ThreadRow) -> bool {
    let within = |a: f64, b: f64, factor: f64| a <= factor * b && b <= factor * a;
    let burst_s = |row: &ThreadRow| row.cpu_s / ends_by_itself(row).max(1) as f64;
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
fn at_once(profile: &Profile, program: &Program) -> f64 {
    let histograms = &program.histograms;
    let blocked_ms = histograms.block.total_ms + histograms.cut_block.total_ms;
    let lived_ms = program.cpu_s * 1e3 + histograms.wait.total_ms + blocked_ms;
    (lived_ms / (profile.seconds * 1e3)).ceil().clamp(1.0, program.threads.max(1) as f64)
}

/// The same of some of them that have rows.
fn there_at_once(profile: &Profile, rows: &[&ThreadRow]) -> f64 {
    let lived_s: f64 = rows.iter().map(|row| row.cpu_s + row.wait_s + row.block_s).sum();
    (lived_s / profile.seconds).ceil().clamp(1.0, rows.len().max(1) as f64)
}

/// Whether a program's threads come and go: most of them ended while they were watched, and no more than half of them were there at once.
fn is_passing(program: &Program, at_once: f64) -> bool {
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
            began_s: 0.0,
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

    /// A thread with so many bursts of 1 ms, each before a time of blocking of as many, and one more time of blocking of `once_ms`.
    fn blocking(tid: i32, began_s: f64, bursts: u64, once_ms: f64) -> ThreadRow {
        let one = |ms: f64, count| TimeBin { count, ..of_lengths([ms].into_iter()).bins[0] };
        let once = (once_ms > 0.0).then(|| one(once_ms, 1));
        let often = (bursts > 0).then(|| one(1.0, bursts));
        ThreadRow {
            began_s,
            block_s: bursts as f64 / 1e3 + once_ms / 1e3,
            blocks: often.into_iter().chain(once).collect(),
            ..row(tid, (bursts as f64 / 1e3).max(0.001), &often.into_iter().collect::<Vec<_>>())
        }
    }

    fn of_rows(rows: Vec<ThreadRow>, exits: u64) -> Program {
        let lengths = of_lengths([1.0; 100].into_iter());
        let histograms = crate::profile::Histograms { burst: lengths.clone(), block: lengths, ..Default::default() };
        let cpu_s = rows.iter().map(|row| row.cpu_s).sum();
        Program { threads: rows.len() as u64, exits, cpu_s, by_thread: rows, histograms, ..Program::default() }
    }

    #[test]
    fn threads_that_began_later_come_later() {
        let rows = (1..=4).map(|tid| blocking(tid, if tid == 1 { 0.0 } else { 0.4 }, 50, 0.0)).collect();
        let profile = Profile { seconds: 1.0, ..Profile::default() };
        let kinds = kinds_of_threads(&profile, &of_rows(rows, 0));
        let begun: Vec<(u64, f64)> = kinds.iter().map(|kind| (kind.threads, kind.began_ms)).collect();
        assert_eq!(begun, [(1, 0.0), (3, 400.0)]);
        assert!(kinds.iter().all(|kind| kind.few.is_none()));
        // Processes that come one after the other don't begin together.
        let rows = (1..=4).map(|tid| blocking(tid, 0.2 * f64::from(tid), 50, 0.0)).collect();
        let kinds = kinds_of_threads(&profile, &of_rows(rows, 0));
        assert_eq!(kinds.iter().map(|kind| (kind.threads, kind.began_ms)).collect::<Vec<_>>(), [(4, 0.0)]);
    }

    #[test]
    fn what_all_waited_for_once_is_none_of_what_they_repeat() {
        let longest = |once: [f64; 3]| {
            let rows = (1..).zip(once).map(|(tid, once_ms)| blocking(tid, 0.0, 50, once_ms)).collect();
            let kinds = kinds_of_threads(&Profile { seconds: 1.0, ..Profile::default() }, &of_rows(rows, 0));
            kinds[0].blocks.as_ref().and_then(|blocks| blocks.edges_ms.last().copied()).unwrap()
        };
        assert!(longest([400.0; 3]) < 1.2);
        // One that waits by itself is another matter, and so is who waits for less than all the rest.
        assert!(longest([400.0, 400.0, 0.0]) > 399.0 && longest([20.0; 3]) > 19.0);
    }

    #[test]
    fn servers_are_apart_from_what_sets_them_up() {
        let server = |tid| blocking(tid, 0.5, 100, 0.0);
        let helper = |tid| blocking(tid, 0.05 * f64::from(tid), 1, 0.0);
        let profile = Profile { seconds: 2.0, ..Profile::default() };
        let rows: Vec<ThreadRow> = (1..=4).map(server).chain((5..=20).map(helper)).collect();
        let kinds = kinds_of_threads(&profile, &of_rows(rows, 20));
        let [servers, helpers] = &kinds[..] else { panic!("{} kinds", kinds.len()) };
        assert_eq!((servers.threads, servers.began_ms, servers.at_once), (4, 500.0, None));
        assert_eq!((helpers.threads, helpers.began_ms, helpers.at_once), (16, 0.0, Some(1.0)));
        // Compilers come and go, and none of them stays.
        let kinds = kinds_of_threads(&profile, &of_rows((1..=20).map(helper).collect(), 20));
        assert_eq!(kinds.iter().map(|kind| kind.threads).collect::<Vec<_>>(), [20]);
    }

    #[test]
    fn the_last_burst_is_one_of_those_that_cpu_time_is_made_of() {
        let bin = of_lengths([1.0].into_iter()).bins[0];
        let thread = row(1, 1.0, &[TimeBin { count: 3, ..bin }]);
        // Where one of them wasn't told, it is what is left of the CPU time.
        for last_burst_ms in [997.0, 0.0] {
            let thread = ThreadRow { last_burst_ms, ..thread.clone() };
            let program = Program { threads: 1, cpu_s: 1.0, by_thread: vec![thread], ..Program::default() };
            let kinds = kinds_of_threads(&Profile { seconds: 1.0, ..Profile::default() }, &program);
            let bursts = kinds[0].bursts.as_ref().unwrap();
            assert!((bursts.percent.last().unwrap() - 25.0).abs() < 1e-6, "{bursts:?}");
            assert!((bursts.mean_ms() / 250.0 - 1.0).abs() < 0.1, "{bursts:?}");
        }
    }
}
