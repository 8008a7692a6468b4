//! What was counted between two readings of the same counters.

use crate::collector::Counted;
use crate::counts::ProgramCounts;
use crate::histogram::{BINS, lowest_ns};
use crate::intf::{ProgramStats, Thread, Times};
use crate::profile::Others;
use std::collections::HashMap;

/// What `now` has more than `before`. Counters are read one after the other while they change, so that one may seem to have gone
/// back by an event; that is 0. Numbers of threads are those of `now`.
pub(crate) fn between(before: &Counted, now: &Counted) -> Counted {
    let former: HashMap<&str, &ProgramCounts> =
        before.programs.iter().map(|program| (program.name.as_str(), program)).collect();
    let programs = (now.programs.iter())
        .map(|program| former.get(program.name.as_str()).map_or_else(|| program.clone(), |old| more(old, program)));
    Counted {
        programs: programs.collect(),
        seconds: now.seconds - before.seconds,
        lost_events: now.lost_events.saturating_sub(before.lost_events),
        others: Others {
            turns: now.others.turns.saturating_sub(before.others.turns),
            cpu_s: (now.others.cpu_s - before.others.cpu_s).max(0.0),
            at_ticks_percent: now.others.at_ticks_percent,
        },
        moves_untold: now.moves_untold.saturating_sub(before.moves_untold),
        has_crowd: now.has_crowd,
        has_wakers: now.has_wakers,
    }
}

fn more(before: &ProgramCounts, now: &ProgramCounts) -> ProgramCounts {
    let mut period = now.clone();
    subtract(&mut period.stats, &before.stats);
    for (cpu, ns) in &mut period.residency_ns {
        *ns = ns.saturating_sub(before.residency_ns.get(cpu).copied().unwrap_or(0));
    }
    let former: HashMap<_, u64> = before.moves.iter().map(|moved| ((moved.from, moved.to), moved.count)).collect();
    for moved in &mut period.moves {
        moved.count = moved.count.saturating_sub(former.get(&(moved.from, moved.to)).copied().unwrap_or(0));
    }
    period.moves.retain(|moved| moved.count > 0);
    let former: HashMap<&str, u64> =
        before.wakers.iter().flatten().map(|waker| (waker.program.as_str(), waker.count)).collect();
    for waker in period.wakers.iter_mut().flatten() {
        waker.count = waker.count.saturating_sub(former.get(waker.program.as_str()).copied().unwrap_or(0));
    }
    let former: HashMap<(u32, u32), &Thread> =
        before.threads.iter().map(|thread| ((thread.tgid, thread.tid), thread)).collect();
    for thread in &mut period.threads {
        // A number that another thread had before counts from 0.
        let Some(old) = former.get(&(thread.tgid, thread.tid)).filter(|old| old.switches <= thread.switches) else {
            continue;
        };
        thread.cpu_ns = thread.cpu_ns.saturating_sub(old.cpu_ns);
        thread.switches -= old.switches;
        thread.migrations = thread.migrations.saturating_sub(old.migrations);
        thread.wait_ns = thread.wait_ns.saturating_sub(old.wait_ns);
        thread.block_ns = thread.block_ns.saturating_sub(old.block_ns);
        thread.quantum_ends = thread.quantum_ends.saturating_sub(old.quantum_ends);
        thread.ends = thread.ends.saturating_sub(old.ends);
    }
    period
}

fn subtract(now: &mut ProgramStats, before: &ProgramStats) {
    let (threads, longest) = (now.threads, now.all_times().map(|times| times.longest_ns));
    let counts: &mut [u64] = bytemuck::cast_slice_mut(std::slice::from_mut(now));
    let former: &[u64] = bytemuck::cast_slice(std::slice::from_ref(before));
    counts.iter_mut().zip(former).for_each(|(count, old)| *count = count.saturating_sub(*old));
    // These two are no sums.
    now.threads = threads;
    for (times, longest) in now.all_times_mut().into_iter().zip(longest) {
        times.longest_ns = longest_of(times, longest);
    }
}

/// The longest of the period's times, which nobody has kept: the end of the last bin that holds any, and no more than `longest_ns`,
/// the longest of all.
fn longest_of(times: &Times, longest_ns: u64) -> u64 {
    match times.counts.iter().rposition(|&count| count > 0) {
        None => 0,
        Some(bin) if bin + 1 == BINS => longest_ns,
        Some(bin) => longest_ns.min(lowest_ns(bin + 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Move;
    use machine::CpuId;
    use proptest::prelude::*;

    /// A program whose every interval was that long, in ns, on CPU `ns % 3`.
    fn counted(seconds: f64, intervals: &[u64]) -> Counted {
        let mut program = ProgramCounts::new("app".into());
        for &ns in intervals {
            program.stats.intervals.record(ns);
            program.stats.cpu_ns += ns;
            program.stats.switches += 1;
            *program.residency_ns.entry(CpuId((ns % 3) as u32)).or_default() += ns;
        }
        program.stats.threads = 1;
        let count = intervals.len() as u64;
        program.moves = vec![Move { from: CpuId(0), to: CpuId(1), count }];
        let mut thread: Thread = bytemuck::Zeroable::zeroed();
        (thread.tid, thread.tgid, thread.cpu_ns, thread.switches) = (7, 7, intervals.iter().sum(), count);
        program.threads = vec![thread];
        Counted {
            programs: vec![program],
            seconds,
            lost_events: count,
            others: Others::default(),
            moves_untold: 0,
            has_wakers: true,
            has_crowd: false,
        }
    }

    #[test]
    fn a_program_that_was_not_there_before_counts_in_full() {
        let nothing = Counted {
            programs: Vec::new(),
            seconds: 1.0,
            lost_events: 0,
            others: Others::default(),
            moves_untold: 0,
            has_wakers: true,
            has_crowd: false,
        };
        let period = between(&nothing, &counted(3.0, &[5_000, 6_000]));
        assert_eq!((period.seconds, period.programs[0].stats.cpu_ns), (2.0, 11_000));
    }

    #[test]
    fn a_counter_that_went_back_is_0() {
        let period = between(&counted(1.0, &[5_000, 6_000]), &counted(2.0, &[5_000]));
        assert_eq!((period.programs[0].stats.cpu_ns, period.lost_events), (0, 0));
    }

    #[test]
    fn the_longest_time_is_one_of_the_period() {
        let period = between(&counted(1.0, &[90_000_000]), &counted(2.0, &[90_000_000, 1_000_000]));
        let longest = period.programs[0].stats.intervals.longest_ns;
        assert!((1_000_000..1_200_000).contains(&longest), "{longest}");
    }

    proptest! {
        #[test]
        fn periods_sum_to_the_whole(
            intervals in prop::collection::vec(0..1_u64 << 36, 0..60),
            cuts in prop::collection::vec(0..60_usize, 0..6),
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(intervals.len())).collect();
            cuts.extend([0, intervals.len()]);
            cuts.sort_unstable();
            let whole = &counted(intervals.len() as f64, &intervals);
            let mut sum = ProgramCounts::new("app".into());
            let (mut seconds, mut lost, mut moves, mut switches, mut cpu_ns) = (0.0, 0, 0, 0, 0);
            for cut in cuts.windows(2) {
                let [from, to] = [cut[0], cut[1]].map(|end| counted(end as f64, &intervals[..end]));
                let period = between(&from, &to);
                let program = &period.programs[0];
                sum.stats.add(&program.stats);
                for (cpu, ns) in &program.residency_ns {
                    *sum.residency_ns.entry(*cpu).or_default() += ns;
                }
                seconds += period.seconds;
                lost += period.lost_events;
                moves += program.moves.iter().map(|moved| moved.count).sum::<u64>();
                switches += program.threads[0].switches;
                cpu_ns += program.threads[0].cpu_ns;
            }
            let of_whole = &whole.programs[0];
            prop_assert_eq!(sum.stats.intervals.counts, of_whole.stats.intervals.counts);
            prop_assert_eq!(sum.stats.intervals.total_ns, of_whole.stats.intervals.total_ns);
            prop_assert_eq!(sum.stats.cpu_ns, of_whole.stats.cpu_ns);
            prop_assert_eq!(&sum.residency_ns, &of_whole.residency_ns);
            prop_assert_eq!((seconds, lost, moves), (whole.seconds, whole.lost_events, intervals.len() as u64));
            prop_assert_eq!((switches, cpu_ns), (of_whole.threads[0].switches, of_whole.threads[0].cpu_ns));
        }
    }
}
