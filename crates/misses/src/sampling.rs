//! Which sets of caches are modelled.
//!
//! What goes on in one set of a cache doesn't depend on any other set, and a part of the sets tells what all miss: the more exactly
//! the more there are (set sampling; Kessler, Hill and Wood, *A comparison of trace-sampling techniques for multi-megabyte caches*,
//! IEEE Transactions on Computers 43, 1994). A cache of which every fourth set is modelled is like one with a fourth of the sets.

use crate::cache::Line;

/// One set of each 2^`shift`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sampling {
    shift: u32,
    /// By the lowest bits of a line, which are part of the number of its set in every cache: whether that is modelled.
    is_modelled: Box<[bool]>,
}

impl Sampling {
    /// All of them.
    pub fn all() -> Self {
        Self::new(1, 0)
    }

    /// One of at most `one_of` sets, of caches whose numbers of sets `2^index_bits` divides. These are places in a page, so that a virtual
    /// address tells, too.
    ///
    /// All of the bits are folded into the lowest, so that of lines side by side as of those some way apart the same part is in. A page's
    /// first line isn't: much begins there, and one that is in would stand for others that are missed less.
    pub fn new(one_of: u64, index_bits: u32) -> Self {
        let shift = one_of.max(1).ilog2().min(index_bits);
        let folded = |index: u32| (0..index_bits).step_by(shift.max(1) as usize).fold(0, |sum, by| sum ^ index >> by);
        let is_modelled =
            (0..1 << index_bits).map(|index| folded(index) & ((1 << shift) - 1) == (1 << shift) / 2).collect();
        Self { shift, is_modelled }
    }

    /// Of how many sets one is modelled.
    pub fn one_of(&self) -> u64 {
        1 << self.shift
    }

    /// That not all are modelled, where that is so.
    pub fn sentence(&self) -> Option<String> {
        let one_of = self.one_of();
        (one_of > 1).then(|| {
            format!("of {one_of} sets of a cache one is modelled, and each of its misses counts {one_of} times")
        })
    }

    /// Whether the sets of the line with this number are modelled, of memory or of an address space.
    #[inline]
    pub fn has(&self, number: u64) -> bool {
        self.is_modelled[number as usize & (self.is_modelled.len() - 1)]
    }

    /// The line in caches with as many fewer sets, of the line with this number of memory; none where its sets aren't modelled.
    #[inline]
    pub fn line(&self, number: u64) -> Option<Line> {
        self.has(number).then_some(Line(number >> self.shift))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn one_set_of_so_many_is_in_with_all_its_lines_and_each_line_is_another() {
        let sampling = Sampling::new(8, 6);
        let modelled: HashSet<u64> = (0..64).filter(|&set| sampling.line(set).is_some()).collect();
        assert_eq!(modelled.len(), 8);
        let lines: Vec<u64> = (0..4096).filter(|&line| sampling.line(line).is_some()).collect();
        assert!(lines.iter().all(|line| modelled.contains(&(line % 64))));
        assert_eq!(lines.len(), 512);
        let numbers: HashSet<u64> = lines.iter().filter_map(|&line| sampling.line(line)).map(|line| line.0).collect();
        assert_eq!(numbers.len(), 512);
        // Lines of one set of 64 are those of one set of 8.
        let sets: HashSet<(u64, u64)> =
            lines.iter().filter_map(|&line| Some((line % 64, sampling.line(line)?.0 % 8))).collect();
        assert_eq!(sets.len(), 8);
    }

    #[test]
    fn of_few_sets_as_many_are_in_as_there_are() {
        assert_eq!(Sampling::new(8, 2).one_of(), 4);
        assert_eq!(Sampling::new(7, 12).one_of(), 4);
        assert_eq!(Sampling::new(8, 0), Sampling::new(1, 0));
        assert_eq!(Sampling::all().line(77), Some(Line(77)));
    }
}
