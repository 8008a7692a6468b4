//! How caches lost the lines of processes.

use crate::cache::Line;
use crate::hierarchy::CacheIndex;
use std::collections::HashMap;

/// How a cache lost a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// Another line took its frame, at this time.
    Displaced(u64),
    /// A store through other caches took it away.
    Invalidated,
}

/// The last loss of each line of interest from each cache.
#[derive(Clone, Debug)]
pub(crate) struct Losses {
    /// One bit a line of physical memory: whether a process of interest uses it.
    watched: Vec<u64>,
    by_cache: Vec<HashMap<Line, Loss>>,
}

impl Losses {
    pub fn new(caches: usize) -> Self {
        Self { watched: Vec::new(), by_cache: vec![HashMap::new(); caches] }
    }

    /// From now on its losses count. What happened before doesn't: nobody of interest had it.
    pub fn watch(&mut self, line: Line) {
        let (word, bit) = position(line);
        if word >= self.watched.len() {
            self.watched.resize(word + 1, 0);
        }
        if self.watched[word] & bit == 0 {
            self.watched[word] |= bit;
            for losses in &mut self.by_cache {
                losses.remove(&line);
            }
        }
    }

    pub fn lost(&mut self, cache: CacheIndex, line: Line, loss: Loss) {
        let (word, bit) = position(line);
        if self.watched.get(word).is_some_and(|bits| bits & bit != 0) {
            self.by_cache[cache.at()].insert(line, loss);
        }
    }

    /// How a cache that doesn't hold a line lost it; nothing when it hasn't held it since it is watched.
    pub fn of(&self, cache: CacheIndex, line: Line) -> Option<Loss> {
        self.by_cache[cache.at()].get(&line).copied()
    }

    pub fn forget(&mut self) {
        self.watched.clear();
        self.by_cache.iter_mut().for_each(HashMap::clear);
    }
}

fn position(line: Line) -> (usize, u64) {
    ((line.0 / 64) as usize, 1 << (line.0 % 64))
}
