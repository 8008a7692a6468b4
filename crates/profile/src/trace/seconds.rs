//! Who had each CPU in a second that stands for all: what a page draws of a trace.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

const SECOND_NS: u64 = 1_000_000_000;
const COLUMN_NS: u64 = 2_000_000;
const COLUMNS: usize = (SECOND_NS / COLUMN_NS) as usize;

/// Seconds that are kept until it is known which of them stands for all.
const MOST_SECONDS: usize = 64;

/// Nobody.
const IDLE: u32 = 0;

/// Who had each CPU in the second of a trace in which programs had the CPUs most nearly as they had them in all of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CpuTimeline {
    /// When it begins, in seconds after the trace.
    pub from_s: f64,
    /// Length of a column, in ms.
    pub column_ms: f64,
    /// Programs, by the names of their processes.
    pub programs: Vec<String>,
    /// By CPU: who had it for most of each column, as a number of `programs`, and for how many columns on end; nobody where it idled or where that isn't
    /// known.
    pub cpus: BTreeMap<u32, Vec<(Option<u32>, u32)>>,
}

/// Who had each CPU until now, in seconds from the beginning of the trace. Of many seconds only each so many are kept.
#[derive(Debug)]
pub(super) struct Seconds {
    first_ns: u64,
    /// Names by number, of which the first is nobody's.
    names: Vec<String>,
    numbers: HashMap<String, u32>,
    now: HashMap<u16, Column>,
    kept: BTreeMap<u64, Second>,
    each: u64,
    all_ns: Vec<u64>,
}

#[derive(Debug, Default)]
struct Second {
    /// By program.
    had_ns: Vec<u64>,
    cpus: BTreeMap<u16, Vec<u32>>,
}

/// A column that isn't over.
#[derive(Debug, Default)]
struct Column {
    number: u64,
    had_ns: Vec<(u32, u64)>,
}

impl Column {
    /// Who had most of it; of equals the first to have it.
    fn holder(&self) -> u32 {
        let most = |best: (u32, u64), had: &(u32, u64)| if had.1 > best.1 { *had } else { best };
        self.had_ns.iter().fold((IDLE, 0), most).0
    }
}

impl Seconds {
    /// From `first_ns` on.
    pub fn new(first_ns: u64) -> Self {
        Self {
            first_ns,
            names: vec![String::new()],
            numbers: HashMap::new(),
            now: HashMap::new(),
            kept: BTreeMap::new(),
            each: 1,
            all_ns: vec![0],
        }
    }

    /// A program, or nobody where it has no name, had a CPU. Times of one CPU come in their order.
    pub fn had(&mut self, cpu: u16, program: Option<&str>, from_ns: u64, until_ns: u64) {
        let program = program.map_or(IDLE, |name| self.number(name));
        let mut from_ns = from_ns.saturating_sub(self.first_ns);
        let until_ns = until_ns.saturating_sub(self.first_ns);
        while from_ns < until_ns {
            let number = from_ns / COLUMN_NS;
            let to_ns = until_ns.min((number + 1) * COLUMN_NS);
            let column = self.now.entry(cpu).or_default();
            if column.number != number {
                let over = std::mem::replace(column, Column { number, had_ns: Vec::new() });
                self.keep(cpu, &over);
            }
            self.add(cpu, program, (number, to_ns - from_ns));
            from_ns = to_ns;
        }
    }

    fn number(&mut self, name: &str) -> u32 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let number = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        self.all_ns.push(0);
        number
    }

    fn add(&mut self, cpu: u16, program: u32, (column, ns): (u64, u64)) {
        let had_ns = &mut self.now.entry(cpu).or_default().had_ns;
        match had_ns.iter_mut().find(|(had, _)| *had == program) {
            Some((_, sum)) => *sum += ns,
            None => had_ns.push((program, ns)),
        }
        self.all_ns[program as usize] += ns;
        if let Some(second) = self.second(column / COLUMNS as u64) {
            second.had_ns.resize(second.had_ns.len().max(program as usize + 1), 0);
            second.had_ns[program as usize] += ns;
        }
    }

    /// A column is over.
    fn keep(&mut self, cpu: u16, column: &Column) {
        let holder = column.holder();
        if let Some(second) = self.second(column.number / COLUMNS as u64) {
            let columns = second.cpus.entry(cpu).or_insert_with(|| vec![IDLE; COLUMNS]);
            columns[column.number as usize % COLUMNS] = holder;
        }
    }

    /// What is kept of a second; none where that isn't one of those that are.
    fn second(&mut self, number: u64) -> Option<&mut Second> {
        if !number.is_multiple_of(self.each) {
            return None;
        }
        if !self.kept.contains_key(&number) && self.kept.len() == MOST_SECONDS {
            self.each *= 2;
            self.kept.retain(|number, _| number.is_multiple_of(self.each));
            return self.second(number);
        }
        Some(self.kept.entry(number).or_default())
    }

    /// The second that stands for all until `last_ns`; none where nobody had a CPU. A second that wasn't over by then doesn't, unless it was
    /// the first.
    pub fn representative(&mut self, last_ns: u64) -> Option<CpuTimeline> {
        for (cpu, column) in std::mem::take(&mut self.now) {
            self.keep(cpu, &column);
        }
        let whole = last_ns.saturating_sub(self.first_ns) / SECOND_NS;
        let shares = |had_ns: &[u64]| {
            let sum = had_ns.iter().sum::<u64>().max(1) as f64;
            had_ns.iter().map(|&ns| ns as f64 / sum).collect::<Vec<f64>>()
        };
        let all = shares(&self.all_ns);
        let difference = |second: &Second| {
            let mut own = shares(&second.had_ns);
            own.resize(all.len(), 0.0);
            own.iter().zip(&all).map(|(own, all)| (own - all).abs()).sum::<f64>()
        };
        let candidates = self.kept.iter().filter(|&(&number, _)| number < whole.max(1));
        let (number, second) = candidates.min_by(|(_, a), (_, b)| difference(a).total_cmp(&difference(b)))?;
        let is_had = second.had_ns.iter().skip(IDLE as usize + 1).any(|&ns| ns > 0);
        let columns = if whole > 0 { COLUMNS } else { (last_ns - self.first_ns).div_ceil(COLUMN_NS) as usize };
        let cpus = second.cpus.iter().map(|(&cpu, holders)| {
            let stretches = holders[..columns.min(COLUMNS)].chunk_by(|a, b| a == b);
            let stretch = |part: &[u32]| (part[0].checked_sub(IDLE + 1), part.len() as u32);
            (u32::from(cpu), stretches.map(stretch).collect())
        });
        is_had.then(|| CpuTimeline {
            from_s: *number as f64,
            column_ms: COLUMN_NS as f64 / 1e6,
            programs: self.names[1..].to_vec(),
            cpus: cpus.collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_column_is_of_who_had_most_of_it() {
        let mut seconds = Seconds::new(100 * MS);
        // Of the first two ms a had 0.5 and then 0.3, b 0.7; nobody the rest, which is less.
        for (program, from_us, until_us) in
            [(Some("a"), 0, 500), (Some("b"), 500, 1_200), (Some("a"), 1_200, 1_500), (None, 1_500, 2_000)]
        {
            seconds.had(3, program, 100 * MS + from_us * 1_000, 100 * MS + until_us * 1_000);
        }
        seconds.had(3, None, 102 * MS, 106 * MS);
        seconds.had(3, Some("b"), 106 * MS, 111 * MS);
        let timeline = seconds.representative(112 * MS).unwrap();
        assert_eq!(timeline.programs, ["a", "b"]);
        // The column from 110 to 112 ms is half its own.
        assert_eq!(timeline.cpus, BTreeMap::from([(3, vec![(Some(0), 1), (None, 2), (Some(1), 3)])]));
        assert_eq!((timeline.from_s, timeline.column_ms), (0.0, 2.0));
    }

    #[test]
    fn the_second_stands_for_all_whose_shares_are_most_like_theirs() {
        let mut seconds = Seconds::new(0);
        // a alone, half and half, b alone, and a last second that isn't over.
        for (second, a_ms) in [(0, 1_000), (1, 500), (2, 0)] {
            let (from, end) = (second * SECOND_NS, (second + 1) * SECOND_NS);
            seconds.had(0, Some("a"), from, from + a_ms * MS);
            seconds.had(0, Some("b"), from + a_ms * MS, end);
        }
        seconds.had(0, Some("a"), 3 * SECOND_NS, 3 * SECOND_NS + MS);
        seconds.had(0, Some("b"), 3 * SECOND_NS + MS, 3 * SECOND_NS + 2 * MS);
        let timeline = seconds.representative(3 * SECOND_NS + 2 * MS).unwrap();
        assert_eq!(timeline.from_s, 1.0);
        assert_eq!(timeline.cpus[&0], [(Some(0), 250), (Some(1), 250)]);
        assert!(Seconds::new(0).representative(SECOND_NS).is_none());
        let mut idle = Seconds::new(0);
        idle.had(0, None, 0, SECOND_NS);
        assert!(idle.representative(SECOND_NS).is_none());
    }

    #[test]
    fn of_hours_a_few_seconds_are_kept_all_over_them() {
        let mut seconds = Seconds::new(0);
        for second in 0..1_000 {
            seconds.had(0, Some(if second == 512 { "b" } else { "a" }), second * SECOND_NS, (second + 1) * SECOND_NS);
            assert!(seconds.kept.len() <= MOST_SECONDS);
        }
        assert!(seconds.kept.len() > MOST_SECONDS / 2 && seconds.kept.contains_key(&960), "{:?}", seconds.kept.keys());
        assert_eq!(seconds.all_ns[1..], [999 * SECOND_NS, SECOND_NS]);
    }

    proptest! {
        /// Against looking at each half ms of a second.
        #[test]
        fn each_column_is_as_by_looking_at_its_parts(holders in prop::collection::vec(0..4_u32, 1..200)) {
            let mut seconds = Seconds::new(7);
            for (part, holder) in (0..).zip(&holders) {
                let name = holder.checked_sub(1).map(|number| ["x", "y", "z"][number as usize]);
                seconds.had(1, name, 7 + part * MS / 2, 7 + (part + 1) * MS / 2);
            }
            let timeline = seconds.representative(7 + holders.len() as u64 * MS / 2);
            prop_assert_eq!(timeline.is_some(), holders.iter().any(|&holder| holder > 0));
            let Some(timeline) = timeline else { return Ok(()) };
            let drawn: Vec<Option<&str>> = timeline.cpus[&1].iter()
                .flat_map(|&(program, columns)| std::iter::repeat_n(program, columns as usize))
                .map(|program| program.map(|number| timeline.programs[number as usize].as_str()))
                .collect();
            prop_assert_eq!(drawn.len(), holders.len().div_ceil(4));
            for (parts, drawn) in holders.chunks(4).zip(drawn) {
                let count = |of: u32| parts.iter().filter(|&&holder| holder == of).count();
                let of = |name: &str| 1 + ["x", "y", "z"].iter().position(|&known| known == name).unwrap() as u32;
                let most = (0..4).map(count).max().unwrap();
                prop_assert_eq!(count(drawn.map_or(0, of)), most);
            }
        }
    }
}
