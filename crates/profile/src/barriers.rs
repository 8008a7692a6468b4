//! Threads of a program that meet at barriers, as those of OpenMP do: whoever comes last wakes all others.
//!
//! A profile sees who sleeps and who wakes, not barriers. So what is written is as many barriers as those that sleep at them tell, and work
//! between them. Between two barriers all threads have about as much: programs that meet at barriers share their work out evenly.

use crate::histogram::Histogram;
use crate::kinds::longest_alone_ms;
use crate::profile::{Program, ThreadRow, Waker};
use crate::survival::product_limit;

/// Fewer threads that wake one another may as well hand something to and fro.
const LEAST_THREADS: u64 = 3;

/// Wake-ups by its own threads below which a program has no barriers.
const LEAST_WAKES: u64 = 30;

/// Share of a program's times of blocking, from 0 to 1, that its own threads end at least.
const LEAST_SHARE: f64 = 0.75;

/// Of the others, the share that whoever wakes any at all wakes on average at least, from 0 to 1: those that still run when the last one comes
/// are woken by nobody.
const LEAST_WOKEN: f64 = 0.5;

/// Different lengths of work at most, and the share of all, from 0 to 1, that the longest doesn't exceed.
const MOST_LENGTHS: u64 = 16;
const MOST_SHARE: f64 = 0.995;

/// How much more CPU time the busiest thread has than the others before that is work of its own, as a factor; and for which share of that work, from
/// 0 to 1, the others were seen to be away in one piece.
const ALONE_FACTOR: f64 = 1.2;
const LEAST_AWAY: f64 = 0.5;

/// Work that one of them does alone between barriers is told by its bursts that are longer than those of the others: so many at least, of which the
/// others have such a share at most, from 0 to 1, each.
const LEAST_SINGLES: u64 = 10;
const MOST_OF_OTHERS: f64 = 0.25;

/// Share of a program's CPU time, from 0 to 1, that its first thread has before the others begin where that is work of its own.
const LEAST_BEFORE: f64 = 0.01;

/// Share of the time that threads would wait at such barriers for the last one to come, from 0 to 1, that they were blocked for at least: those
/// that hardly were have woken one another for another reason.
const LEAST_WAITED: f64 = 0.5;

/// What the threads of a program do that meet at barriers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Meetings {
    pub threads: u64,
    /// When the first of them began, in ms since the profile did.
    pub began_ms: f64,
    /// Work that one of them has done alone before, in ms; 0 where all have about as much.
    pub alone_ms: f64,
    /// How often each goes through all lengths.
    pub rounds: u64,
    /// Work up to each barrier of a round, between two lengths in ms.
    pub work_ms: Vec<[f64; 2]>,
    /// At so many of them, where there is the least of it, one thread has work besides, in ms each; 0 where none has.
    pub singles: usize,
    pub single_ms: f64,
}

impl Meetings {
    /// Whether one thread has work besides up to the barrier at this position of a round.
    pub fn is_single(&self, at: usize) -> bool {
        let own = self.work_ms[at][1];
        self.work_ms.iter().filter(|[_, to]| *to < own).count() < self.singles
    }
}

/// The barriers at which all threads of a program meet; none where they don't.
pub(crate) fn meetings(program: &Program) -> Option<Meetings> {
    let rows: Vec<&ThreadRow> = program.by_thread.iter().filter(|row| row.cpu_s > 0.0).collect();
    let bursts = |row: &ThreadRow| row.bursts.iter().map(|bin| bin.count).sum::<u64>();
    let most = rows.iter().map(|row| bursts(row)).max()?;
    let is_team = rows.iter().all(|row| row.pid == rows[0].pid && 2 * bursts(row) >= most);
    let threads = rows.len() as u64;
    if threads < LEAST_THREADS || !is_team || program.threads_without_row > 0 {
        return None;
    }
    let histograms = &program.histograms;
    let others = threads - 1;
    let own = program.wakers.iter().flatten().filter(|waker| waker.program == program.name);
    let woken: u64 = own.map(|waker| waker.count).sum();
    let wake_ups = histograms.before_wake.count + histograms.between_wakes.count;
    let at_once = wake_ups as f64 / histograms.before_wake.count.max(1) as f64;
    let is_met = !is_someone_else_awaited(program, woken)
        && woken >= LEAST_WAKES
        && histograms.block_by_thread.count as f64 >= LEAST_SHARE * histograms.block.count as f64
        && at_once >= LEAST_WOKEN * others as f64;
    if !is_met {
        return None;
    }
    let busiest = rows.iter().max_by(|a, b| a.cpu_s.total_cmp(&b.cpu_s))?;
    let most_ms = 1e3 * busiest.cpu_s;
    let mut each_ms = (1e3 * program.cpu_s - most_ms) / others as f64;
    let mut alone_ms = most_ms - each_ms;
    let away_ms = |row: &ThreadRow| {
        let blocked_ms = longest_alone_ms(row).unwrap_or(0.0);
        1e3 * (row.began_s - busiest.began_s) + blocked_ms
    };
    let is_alone = most_ms > ALONE_FACTOR * each_ms
        && rows.iter().filter(|row| row.tid != busiest.tid).all(|row| away_ms(row) >= LEAST_AWAY * alone_ms);
    let single = if is_alone { None } else { single(busiest, &rows) };
    let mut single_ms = 0.0;
    if !is_alone {
        let (oldest, before_ms) = before_others(program, &rows);
        // The busiest thread's surplus, where what the oldest one did before is nobody's.
        let surplus_ms = alone_ms + if busiest.tid == oldest { -before_ms } else { before_ms / others as f64 };
        single_ms = if single.is_some() { surplus_ms.max(0.0) } else { 0.0 };
        (each_ms, alone_ms) = ((1e3 * program.cpu_s - single_ms - before_ms) / threads as f64, before_ms);
    }
    let barriers = (histograms.block.count as f64 / others as f64).round().max(1.0);
    // Who sleeps at two barriers one after the other works a whole burst in between; who wakes the others, the first part of one. What such a
    // one does from there on is left out: it hasn't slept, so that where there is next to nothing to do it takes no time at all. So is what is
    // shorter than any whole burst.
    let shortest_us = histograms.burst_alone.bins.first().map_or(0.0, |bin| bin.from_us);
    let mut before_wake = histograms.before_wake.clone();
    before_wake.bins.retain(|bin| bin.from_us >= shortest_us);
    let mut lengths = Histogram::of_all([&histograms.burst_alone, &before_wake]);
    if let Some(Single { from_us, .. }) = single {
        lengths.bins.retain(|bin| bin.from_us < from_us);
        lengths.count = lengths.bins.iter().map(|bin| bin.count).sum();
    }
    let lengths = product_limit(&lengths, &Histogram::default());
    let number = MOST_LENGTHS.min(barriers as u64);
    // The very longest are of who is alone.
    let work_ms = lengths.parts(number, MOST_SHARE);
    let rounds = (barriers / number as f64).round().max(1.0);
    let singles = single.map_or(0.0, |single| (single.times as f64 / rounds).round().clamp(1.0, number as f64));
    single_ms /= (rounds * singles).max(1.0);
    // There is as much work in all as was seen.
    let seen_ms = work_ms.iter().map(|[from, to]| f64::midpoint(*from, *to)).sum::<f64>() * rounds;
    let factor = each_ms / seen_ms;
    // Of so many lengths between two, evenly, the longest is this share of the way above their mean.
    let above = others as f64 / (2 * (threads + 1)) as f64;
    let waiting_ms = above * factor * rounds * work_ms.iter().map(|[from, to]| to - from).sum::<f64>();
    let once_ms = |row: &ThreadRow| if is_alone { longest_alone_ms(row).unwrap_or(0.0) } else { 0.0 };
    let waited_ms = rows.iter().map(|row| 1e3 * row.block_s - once_ms(row)).sum::<f64>() / threads as f64;
    let waiting_ms = waiting_ms + rounds * singles * single_ms * others as f64 / threads as f64;
    if waited_ms < LEAST_WAITED * waiting_ms {
        return None;
    }
    let began_ms = 1e3 * rows.iter().map(|row| row.began_s).fold(f64::INFINITY, f64::min);
    let work_ms = work_ms.into_iter().map(|range| range.map(|ms| ms * factor)).collect();
    Some(Meetings { threads, began_ms, alone_ms, rounds: rounds as u64, work_ms, singles: singles as usize, single_ms })
}

/// The oldest of threads, and its CPU time before the others began, in ms: no more than it has beyond the least busy of them. 0 where that is
/// next to nothing of the program's.
fn before_others(program: &Program, rows: &[&ThreadRow]) -> (i32, f64) {
    let Some(oldest) = rows.iter().min_by(|a, b| a.began_s.total_cmp(&b.began_s)) else { return (0, 0.0) };
    let others = rows.iter().filter(|row| row.tid != oldest.tid);
    let least = |of: fn(&ThreadRow) -> f64| others.clone().map(|row| of(row)).fold(f64::INFINITY, f64::min);
    let before_s = (least(|row| row.began_s) - oldest.began_s).min(oldest.cpu_s - least(|row| row.cpu_s));
    let is_much = before_s >= LEAST_BEFORE * program.cpu_s;
    (oldest.tid, if is_much { 1e3 * before_s } else { 0.0 })
}

/// Bursts that one thread has and the others hardly.
struct Single {
    /// From which length on.
    from_us: f64,
    times: u64,
}

/// What the busiest of threads that were there all the time does alone, again and again; none where there is no such.
fn single(busiest: &ThreadRow, rows: &[&ThreadRow]) -> Option<Single> {
    let longer = |row: &ThreadRow, from_us: f64| {
        row.bursts.iter().filter(|bin| bin.from_us >= from_us).map(|bin| bin.count).sum::<u64>()
    };
    let others: Vec<&ThreadRow> = rows.iter().copied().filter(|row| row.tid != busiest.tid).collect();
    let mut edges = busiest.bursts.iter().map(|bin| bin.from_us);
    let single = |from_us: f64| {
        let times = longer(busiest, from_us);
        let is_own = others.iter().all(|row| longer(row, from_us) as f64 <= MOST_OF_OTHERS * times as f64);
        (times >= LEAST_SINGLES && is_own).then_some(Single { from_us, times })
    };
    edges.find_map(single)
}

/// Whether it is woken as often by another program as by its own threads.
fn is_someone_else_awaited(program: &Program, own: u64) -> bool {
    let is_other = |waker: &&Waker| waker.program != program.name && waker.program != Waker::INTERRUPTS;
    program.wakers.iter().flatten().filter(is_other).any(|waker| waker.count >= own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::TimeBin;

    fn times(ms: f64, count: u64) -> Histogram {
        let bin = TimeBin { from_us: ms * 1e3, to_us: ms * 1.1e3, count };
        Histogram { count, bins: vec![bin], ..Histogram::default() }
    }

    fn row(tid: i32, cpu_s: f64) -> ThreadRow {
        ThreadRow {
            pid: 1,
            tid,
            name: "team".into(),
            cpu_s,
            switches: 150,
            migrations: 0,
            wait_s: 0.0,
            block_s: 0.15,
            bursts: times(2.0, 150).bins,
            blocks: Vec::new(),
            last_burst_ms: 0.0,
            began_s: 0.0,
            quantum_percent: 0.0,
        }
    }

    /// So many threads that met at 200 barriers, each time after some 2 ms of work, as whoever comes last wakes `at_once` others; one of them
    /// has worked for `alone_s` before the others began.
    fn program(threads: u64, at_once: u64, alone_s: f64) -> Program {
        let work_s = 200.0 * 2.1e-3;
        let row = |tid: u64| {
            let (alone_s, began_s) = if tid == 1 { (alone_s, 0.0) } else { (0.0, alone_s) };
            ThreadRow { began_s, ..row(tid as i32, work_s + alone_s) }
        };
        Program {
            name: "team".into(),
            threads,
            cpu_s: threads as f64 * work_s + alone_s,
            wakers: Some(vec![Waker { program: "team".into(), count: 200 * at_once }]),
            by_thread: (1..=threads).map(row).collect(),
            histograms: crate::profile::Histograms {
                block: times(1.0, 600),
                block_by_thread: times(1.0, 600),
                burst_alone: times(2.0, 400),
                before_wake: times(2.0, 200),
                between_wakes: times(0.001, 200 * (at_once - 1)),
                after_wake: times(2.0, 200),
                ..Default::default()
            },
            ..Program::default()
        }
    }

    #[test]
    fn those_that_one_wakes_all_at_once_meet_at_barriers() {
        let met = meetings(&program(4, 3, 0.0)).unwrap();
        assert_eq!((met.threads, met.alone_ms), (4, 0.0));
        assert_eq!(met.rounds * met.work_ms.len() as u64, 208, "whole rounds of 16");
        let all_ms = met.work_ms.iter().map(|[from, to]| f64::midpoint(*from, *to)).sum::<f64>() * met.rounds as f64;
        assert!((all_ms / (200.0 * 2.1) - 1.0).abs() < 1e-9, "as much work as was seen: {all_ms}");
        assert!(met.work_ms.iter().all(|[from, to]| from <= to && (1.7..2.3).contains(from)), "{met:?}");
        // One that is woken at a time may as well be handed something.
        assert_eq!(meetings(&program(4, 1, 0.0)), None);
        assert_eq!(meetings(&program(2, 3, 0.0)), None);
        let asked = Waker { program: "client".into(), count: 600 };
        let mut server = program(4, 3, 0.0);
        server.wakers.as_mut().unwrap().push(asked);
        assert_eq!(meetings(&server), None);
        let begun_alone = meetings(&program(4, 3, 0.3)).unwrap();
        assert!((begun_alone.alone_ms - 300.0).abs() < 1e-6, "{begun_alone:?}");
        assert_eq!(begun_alone.work_ms, met.work_ms);
        // Where the others were there all the time, one has more to do than they have.
        let mut uneven = program(4, 3, 0.3);
        uneven.by_thread.iter_mut().for_each(|row| row.began_s = 0.0);
        assert_eq!(meetings(&uneven).unwrap().alone_ms, 0.0);
    }

    #[test]
    fn what_one_does_alone_again_and_again_is_its_own() {
        let mut layout = program(4, 3, 0.0);
        layout.by_thread.iter_mut().for_each(|row| row.block_s = 0.6);
        let row = &mut layout.by_thread[2];
        row.cpu_s += 0.5;
        row.bursts.push(TimeBin { from_us: 16e3, to_us: 32e3, count: 26 });
        layout.cpu_s += 0.5;
        let met = meetings(&layout).unwrap();
        assert_eq!((met.singles, met.rounds, met.alone_ms), (2, 13, 0.0));
        assert!((met.single_ms * 26.0 / 500.0 - 1.0).abs() < 1e-9, "{met:?}");
        assert_eq!((0..met.work_ms.len()).filter(|&at| met.is_single(at)).count(), 2);
        // What the first one did before the others began is nobody's share.
        let mut later = layout.clone();
        later.by_thread.iter_mut().skip(1).for_each(|row| row.began_s = 0.1);
        later.by_thread[0].cpu_s += 0.1;
        later.cpu_s += 0.1;
        let begun = meetings(&later).unwrap();
        assert!((begun.alone_ms - 100.0).abs() < 1e-6 && (begun.single_ms - met.single_ms).abs() < 1e-6, "{begun:?}");
        // One that the others have as well is nobody's own.
        layout.by_thread[0].bursts.push(TimeBin { from_us: 16e3, to_us: 32e3, count: 13 });
        assert_eq!(meetings(&layout).unwrap().singles, 0);
    }

    #[test]
    fn those_that_hardly_wait_meet_at_no_barriers() {
        // Work that differs as much as that of tasks from a queue: at barriers, all would wait for who has the longest.
        let mut queue = program(4, 3, 0.0);
        let both = |ms: f64, other: f64, count| Histogram {
            count: 2 * count,
            bins: [times(ms, count).bins, times(other, count).bins].concat(),
            ..Histogram::default()
        };
        queue.histograms.burst_alone = both(0.1, 4.0, 200);
        queue.histograms.before_wake = both(0.1, 4.0, 100);
        assert!(meetings(&queue).is_some());
        queue.by_thread.iter_mut().for_each(|row| row.block_s = 0.003);
        assert_eq!(meetings(&queue), None);
    }
}
