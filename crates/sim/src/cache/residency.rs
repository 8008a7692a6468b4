//! How many lines of which set are where.

use super::hierarchy::CacheIndex;
use super::traffic::Mark;
use crate::index::ProcessIndex;

/// Caches of each depth in which a process's own lines are remembered. When it has since run in this many others, what it
/// left in the first is taken to be gone.
const REMEMBERED: usize = 4;

/// A share of some lines, rounded alike wherever they are remembered.
#[inline]
pub(super) fn part_of(lines: f32, share: f64) -> f32 {
    (f64::from(lines) * share) as f32
}

/// The lines of a set in one cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct Residency {
    cache: CacheIndex,
    /// How many there were when the set was last used here. A single float, so that this takes few bytes of the host's caches.
    pub lines: f32,
    /// What had gone through the cache by then.
    pub mark: Mark,
}

impl Residency {
    /// Nothing yet.
    fn none_in(cache: CacheIndex) -> Self {
        Self { cache, lines: 0.0, mark: Mark::default() }
    }
}

/// The lines that the processes of a job share, in one cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shared {
    pub residency: Residency,
    /// Writes to them when they were last used here.
    pub written: f64,
}

/// Where the shared lines of a job stand in [`Residencies`].
#[derive(Clone, Copy, Debug, Default)]
struct Places {
    first: usize,
    count: usize,
}

/// The residencies of all processes and jobs.
#[derive(Clone, Debug)]
pub(super) struct Residencies {
    depths: usize,
    /// By process and depth, where it ran last; by itself, since most dispatches need no more.
    latest: Vec<Residency>,
    /// By process and depth, where it ran before that, the latest first.
    earlier: Vec<[Residency; REMEMBERED - 1]>,
    /// By job, depth, and cache modulo the job's number of places.
    shared: Vec<Shared>,
    places: Vec<Places>,
}

impl Residencies {
    /// Nothing anywhere. `sharing` tells for each job how many processes share lines.
    pub fn new(processes: usize, sharing: &[usize], depths: usize, caches: usize) -> Self {
        let mut first = 0;
        let places = sharing
            .iter()
            .map(|&processes| {
                // A place for every cache, or for some that each process remembers, whichever is less.
                let count = if processes == 0 { 0 } else { caches.min((REMEMBERED * processes).next_power_of_two()) };
                let places = Places { first, count };
                first += count * depths;
                places
            })
            .collect();
        let none = Residency::none_in(CacheIndex::NONE);
        Self {
            depths,
            latest: vec![none; processes * depths],
            earlier: vec![[none; REMEMBERED - 1]; processes * depths],
            shared: vec![Shared { residency: none, written: 0.0 }; first],
            places,
        }
    }

    /// A process's own lines in the caches where it was dispatched last, from the inside out.
    #[inline]
    pub fn latest(&mut self, process: ProcessIndex) -> &mut [Residency] {
        &mut self.latest[process.at() * self.depths..][..self.depths]
    }

    /// Only a share of a process's own lines stays of use, wherever they are.
    #[inline]
    pub fn keep(&mut self, process: ProcessIndex, share: f64) {
        let depths = process.at() * self.depths..(process.at() + 1) * self.depths;
        for (latest, earlier) in self.latest[depths.clone()].iter_mut().zip(&mut self.earlier[depths]) {
            latest.lines = part_of(latest.lines, share);
            for residency in earlier {
                residency.lines = part_of(residency.lines, share);
            }
        }
    }

    /// A process's own lines in a cache, which becomes the latest.
    #[inline]
    pub fn own(&mut self, process: ProcessIndex, depth: usize, cache: CacheIndex) -> &mut Residency {
        let at = process.at() * self.depths + depth;
        let latest = &mut self.latest[at];
        if latest.cache != cache {
            let earlier = &mut self.earlier[at];
            let known = earlier.iter().position(|residency| residency.cache == cache);
            let residency = known.map_or(Residency::none_in(cache), |position| earlier[position]);
            earlier.copy_within(..known.unwrap_or(REMEMBERED - 2), 1);
            earlier[0] = std::mem::replace(latest, residency);
        }
        latest
    }

    /// The lines that the processes of a job share, in a cache.
    #[inline]
    pub fn shared(&mut self, job: u32, depth: usize, cache: CacheIndex) -> &mut Shared {
        let Places { first, count } = self.places[job as usize];
        let shared = &mut self.shared[first + depth * count + cache.at() % count];
        if shared.residency.cache != cache {
            *shared = Shared { residency: Residency::none_in(cache), written: 0.0 };
        }
        shared
    }

    /// The lines in a cache of a process and of its job.
    pub fn lines(&self, process: ProcessIndex, job: Option<u32>, depth: usize, cache: CacheIndex) -> f64 {
        let in_it = |residency: &Residency| (residency.cache == cache).then_some(f64::from(residency.lines));
        let at = process.at() * self.depths + depth;
        let own = std::iter::once(&self.latest[at]).chain(&self.earlier[at]).find_map(in_it);
        let shared = job.and_then(|job| {
            let Places { first, count } = self.places[job as usize];
            self.shared[first + depth * count..][..count].iter().find_map(|shared| in_it(&shared.residency))
        });
        own.unwrap_or(0.0) + shared.unwrap_or(0.0)
    }
}
