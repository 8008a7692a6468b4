//! How many lines of which set are where.

use super::hierarchy::CacheIndex;
use super::traffic::Mark;
use crate::index::ProcessIndex;

/// Caches of each depth in which a process's own lines are remembered. When it has since run in this many others, what it
/// left in the first is taken to be gone.
const REMEMBERED: usize = 4;

/// The lines of a set in one cache.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Residency {
    cache: Option<CacheIndex>,
    /// How many there were when the set was last used here. A single float, so that this takes half a line of the host.
    pub lines: f32,
    /// What had gone through the cache by then.
    pub mark: Mark,
    /// Writes to the set by then, when it is a shared one.
    pub written: f64,
}

/// Where the shared lines of a job stand in [`Residencies`].
#[derive(Clone, Copy, Debug, Default)]
struct Places {
    first: usize,
    count: usize,
}

/// All of them.
#[derive(Clone, Debug)]
pub(super) struct Residencies {
    depths: usize,
    /// By process and depth, the latest first.
    own: Vec<[Residency; REMEMBERED]>,
    /// By job, depth, and cache modulo the job's number of places.
    shared: Vec<Residency>,
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
        let own = vec![[Residency::default(); REMEMBERED]; processes * depths];
        Self { depths, own, shared: vec![Residency::default(); first], places }
    }

    /// A process's own lines in a cache, which becomes the latest.
    #[inline]
    pub fn own(&mut self, process: ProcessIndex, depth: usize, cache: CacheIndex) -> &mut Residency {
        let history = &mut self.own[process.at() * self.depths + depth];
        if history[0].cache != Some(cache) {
            let known = history.iter().position(|residency| residency.cache == Some(cache));
            let residency =
                known.map_or(Residency { cache: Some(cache), ..Residency::default() }, |position| history[position]);
            history.copy_within(..known.unwrap_or(REMEMBERED - 1), 1);
            history[0] = residency;
        }
        &mut history[0]
    }

    /// The lines that the processes of a job share, in a cache.
    #[inline]
    pub fn shared(&mut self, job: u32, depth: usize, cache: CacheIndex) -> &mut Residency {
        let Places { first, count } = self.places[job as usize];
        let residency = &mut self.shared[first + depth * count + cache.0 as usize % count];
        if residency.cache != Some(cache) {
            *residency = Residency { cache: Some(cache), ..Residency::default() };
        }
        residency
    }

    /// The lines in a cache of a process and of its job.
    pub fn lines(&self, process: ProcessIndex, job: Option<u32>, depth: usize, cache: CacheIndex) -> f64 {
        let lines = |residency: &Residency| f64::from(residency.lines);
        let is_here = |residency: &&Residency| residency.cache == Some(cache);
        let own = self.own[process.at() * self.depths + depth].iter().find(is_here).map_or(0.0, lines);
        let shared = job.map_or(0.0, |job| {
            let Places { first, count } = self.places[job as usize];
            self.shared[first + depth * count..][..count].iter().find(is_here).map_or(0.0, lines)
        });
        own + shared
    }
}
