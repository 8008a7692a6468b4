//! Programs as streams of addresses.

use crate::lines::{Line, LineCache};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use sim::cache::Order;

/// What a program does.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    pub name: &'static str,
    pub reused_lines: usize,
    pub pass_us: f64,
    pub order: Order,
    /// Fresh lines a ms of work.
    pub fresh_per_ms: f64,
}

/// A program that runs: it refers to its working set and to fresh lines, each at even intervals of work.
#[derive(Clone, Debug)]
pub struct Program {
    stream: Stream,
    random: Xoshiro256PlusPlus,
    working_set: Vec<Line>,
    /// The next in blocked order.
    next: usize,
    sets: u32,
    last_tag: u32,
    /// Work until the next reference of either sort, in ns.
    until_reuse_ns: f64,
    until_fresh_ns: f64,
    /// By how much the last miss went beyond the end of the last run.
    ahead_ns: f64,
    /// What a miss takes: at first as much as on the report's machine.
    pub miss_ns: f64,
}

impl Program {
    /// Program `number`, whose working set lies anywhere in a cache, but in frames that are all different.
    pub fn new(stream: Stream, cache: &LineCache, number: u32, seed: u64) -> Self {
        Self::sharing(stream, cache, number, seed, &[])
    }

    /// The same with `shared` as part of its working set.
    pub fn sharing(stream: Stream, cache: &LineCache, number: u32, seed: u64, shared: &[Line]) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let sets = cache.sets() as u32;
        let first_tag = (number + 1) << 26;
        let frame = |frame: u32| Line { set: frame % sets, tag: first_tag + frame / sets };
        let mut lines: Vec<Line> = (0..cache.frames() as u32).map(frame).collect();
        for line in shared {
            let in_its_set = lines.iter().position(|own| own.set == line.set).unwrap();
            lines.swap_remove(in_its_set);
        }
        lines.shuffle(&mut random);
        lines.truncate(stream.reused_lines - shared.len());
        lines.extend(shared);
        lines.shuffle(&mut random);
        Self {
            stream,
            random,
            working_set: lines,
            next: 0,
            sets,
            last_tag: first_tag + (1 << 20),
            until_reuse_ns: 0.0,
            until_fresh_ns: 0.0,
            ahead_ns: 0.0,
            miss_ns: 1_000.0,
        }
    }

    /// Lines of a working set that others can share.
    pub fn lines(&self, count: usize) -> Vec<Line> {
        self.working_set[..count].to_vec()
    }

    /// Runs on a cache for `wall_ns`, and returns its misses and its work in ns.
    pub fn run(&mut self, cache: &mut LineCache, wall_ns: f64) -> (u32, f64) {
        let (mut wall, mut work, mut misses) = (self.ahead_ns, 0.0, 0);
        let reuse_every = self.stream.pass_us * 1e3 / self.stream.reused_lines as f64;
        let fresh_every = 1e6 / self.stream.fresh_per_ms;
        while wall < wall_ns {
            let step = self.until_reuse_ns.min(self.until_fresh_ns).min(wall_ns - wall);
            wall += step;
            work += step;
            self.until_reuse_ns -= step;
            self.until_fresh_ns -= step;
            let line = if self.until_reuse_ns <= 0.0 {
                self.until_reuse_ns += reuse_every;
                self.reuse()
            } else if self.until_fresh_ns <= 0.0 {
                self.until_fresh_ns += fresh_every;
                self.last_tag += 1;
                Line { set: self.random.random_range(0..self.sets), tag: self.last_tag }
            } else {
                break;
            };
            if cache.refer(line) {
                misses += 1;
                wall += self.miss_ns;
            }
        }
        self.ahead_ns = wall - wall_ns;
        (misses, work)
    }

    fn reuse(&mut self) -> Line {
        match self.stream.order {
            Order::Random => self.working_set[self.random.random_range(0..self.working_set.len())],
            Order::Blocked => {
                self.next = (self.next + 1) % self.working_set.len();
                self.working_set[self.next]
            }
        }
    }
}
