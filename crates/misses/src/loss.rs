//! How caches lost the lines of processes.

use crate::cache::Line;
use crate::hierarchy::CacheIndex;
use crate::sparse::Sparse;
use crate::window::ProcessIndex;

/// How a cache lost a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// Another line took its frame.
    Displaced {
        /// The time, counted in accesses.
        time: u64,
        /// The process of interest that brought the other line; none when something else did.
        by: Option<ProcessIndex>,
    },
    /// A store through other caches took it away.
    Invalidated,
}

/// The last loss of each line of interest from each cache.
#[derive(Clone, Debug)]
pub(crate) struct Losses {
    /// By line: whether a process of interest uses it.
    watched: Sparse<bool>,
    /// By cache and line; nothing of a cache whose losses nobody asks for.
    last: Vec<Option<Sparse<Option<Loss>>>>,
}

impl Losses {
    /// None yet of caches, of each of which is said whether its losses will be asked for.
    pub fn new(is_asked_for: impl Iterator<Item = bool>) -> Self {
        Self { watched: Sparse::default(), last: is_asked_for.map(|is| is.then(Sparse::default)).collect() }
    }

    /// From now on the losses of a line are kept. There are none yet: nobody of interest had it.
    pub fn watch(&mut self, line: Line) {
        *self.watched.at(line.0) = true;
    }

    pub fn lost(&mut self, cache: CacheIndex, line: Line, loss: Loss) {
        if let Some(last) = &mut self.last[cache.at()]
            && self.watched.get(line.0)
        {
            *last.at(line.0) = Some(loss);
        }
    }

    /// How a cache that doesn't hold a line lost it; nothing when it hasn't held it since it is watched.
    pub fn last(&self, cache: CacheIndex, line: Line) -> Option<Loss> {
        self.last[cache.at()].as_ref().and_then(|last| last.get(line.0))
    }

    pub fn forget(&mut self) {
        self.watched.clear();
        self.last.iter_mut().flatten().for_each(Sparse::clear);
    }
}
