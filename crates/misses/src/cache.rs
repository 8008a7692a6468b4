//! One cache: sets of lines in the order in which they were used.

use std::ops::Range;

/// A line of the guest's physical memory, by its number: the physical address over the line size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Line(pub u64);

/// Room for a line, and whether this cache's way to memory is the only one that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame(u64);

const SOLE: u64 = 1 << 63;

impl Frame {
    const EMPTY: Self = Self(!SOLE);

    fn line(self) -> Line {
        Line(self.0 & !SOLE)
    }

    pub fn is_sole(self) -> bool {
        self.0 & SOLE != 0
    }

    pub fn set_sole(&mut self, is_sole: bool) {
        self.0 = (self.0 & !SOLE) | if is_sole { SOLE } else { 0 };
    }
}

/// What a cache is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Build {
    pub sets: usize,
    pub ways: usize,
}

/// A set-associative cache with least-recently-used replacement. A line's set is its number modulo the sets.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    build: Build,
    /// Set by set, each from the line used last.
    frames: Box<[Frame]>,
}

impl Cache {
    pub fn new(build: Build) -> Self {
        Self { build, frames: vec![Frame::EMPTY; build.sets * build.ways].into() }
    }

    pub fn empty(&mut self) {
        self.frames.fill(Frame::EMPTY);
    }

    #[inline]
    fn set(&self, line: Line) -> Range<usize> {
        let sets = self.build.sets as u64;
        // Most caches have a power of two of sets, and a division takes as long as all the rest.
        let set = if sets.is_power_of_two() { line.0 & (sets - 1) } else { line.0 % sets };
        let first = set as usize * self.build.ways;
        first..first + self.build.ways
    }

    fn position(&self, line: Line) -> Option<usize> {
        self.set(line).find(|&i| self.frames[i].line() == line)
    }

    pub fn contains(&self, line: Line) -> bool {
        self.position(line).is_some()
    }

    pub fn frame_of(&mut self, line: Line) -> Option<&mut Frame> {
        let position = self.position(line)?;
        Some(&mut self.frames[position])
    }

    /// Looks for a line, which becomes the one used last.
    #[inline]
    pub fn hit(&mut self, line: Line) -> Option<&mut Frame> {
        let range = self.set(line);
        let set = &mut self.frames[range];
        if set[0].line() != line {
            let position = set.iter().position(|frame| frame.line() == line)?;
            set[..=position].rotate_right(1);
        }
        set.first_mut()
    }

    /// Brings in a line that isn't there, and tells which one it took the frame of.
    pub fn load(&mut self, line: Line) -> Option<Line> {
        let range = self.set(line);
        let set = &mut self.frames[range];
        set.rotate_right(1);
        let displaced = std::mem::replace(&mut set[0], Frame(line.0));
        (displaced != Frame::EMPTY).then(|| displaced.line())
    }

    /// Takes a line away; false when it wasn't there.
    pub fn invalidate(&mut self, line: Line) -> bool {
        let Some(position) = self.position(line) else {
            return false;
        };
        let end = self.set(line).end;
        self.frames[position] = Frame::EMPTY;
        self.frames[position..end].rotate_left(1);
        true
    }
}
