//! One cache: sets of lines in the order in which they were used.

use std::ops::Range;

/// A line of the guest's physical memory, by its number: the physical address over the line size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Line(pub u64);

/// What a cache is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Build {
    pub sets: usize,
    pub ways: usize,
}

/// A set-associative cache with least-recently-used replacement. A line's set is its number modulo the sets.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    pub build: Build,
    /// Set by set, each from the line used last. Nothing is 0, so that memory for sets that are never used is never touched.
    frames: Box<[u64]>,
}

/// What holds nothing.
const EMPTY: u64 = 0;

/// What holds a line.
fn holding(line: Line) -> u64 {
    line.0 + 1
}

impl Cache {
    pub fn new(build: Build) -> Self {
        Self { build, frames: vec![EMPTY; build.sets * build.ways].into() }
    }

    pub fn empty(&mut self) {
        self.frames.fill(EMPTY);
    }

    #[inline]
    fn set(&self, line: Line) -> Range<usize> {
        let sets = self.build.sets as u64;
        // Most caches have a power of two of sets, and a division takes as long as all the rest.
        let set = if sets.is_power_of_two() { line.0 & (sets - 1) } else { line.0 % sets };
        let first = set as usize * self.build.ways;
        first..first + self.build.ways
    }

    pub fn contains(&self, line: Line) -> bool {
        self.frames[self.set(line)].contains(&holding(line))
    }

    /// Looks for a line, which becomes the one used last.
    #[inline]
    pub fn hit(&mut self, line: Line) -> bool {
        let range = self.set(line);
        let set = &mut self.frames[range];
        if set[0] == holding(line) {
            return true;
        }
        let position = set.iter().position(|&frame| frame == holding(line));
        if let Some(position) = position {
            set[..=position].rotate_right(1);
        }
        position.is_some()
    }

    /// Brings in a line that isn't there, and tells which one it took the frame of.
    pub fn load(&mut self, line: Line) -> Option<Line> {
        let range = self.set(line);
        let set = &mut self.frames[range];
        set.rotate_right(1);
        let displaced = std::mem::replace(&mut set[0], holding(line));
        (displaced != EMPTY).then(|| Line(displaced - 1))
    }

    /// Takes a line away; false when it wasn't there.
    pub fn invalidate(&mut self, line: Line) -> bool {
        let range = self.set(line);
        let set = &mut self.frames[range];
        let position = set.iter().position(|&frame| frame == holding(line));
        if let Some(position) = position {
            set[position] = EMPTY;
            set[position..].rotate_left(1);
        }
        position.is_some()
    }
}
