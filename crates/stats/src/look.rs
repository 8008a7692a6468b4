//! When a study that goes on is looked at.
//!
//! A look at n runs costs time that grows with n, so looking after every block takes the square of the number of blocks in all.
//! While blocks are few, every one is looked at. Later the distance between looks grows with their number, so that all looks together
//! cost about as much as a hundred of the last one. A study stops at most 1.6 % later for it. What intervals are widened by
//! counts every block as a look, so that fewer looks leave a rule at least as careful as it was.

/// Distances are at most the number of blocks over this, and above half of that: a power of two.
const LOOKS_PER_DOUBLING: usize = 64;

/// Blocks up to here are all looked at.
pub const LOOKS_AT_EACH: usize = 2 * LOOKS_PER_DOUBLING;

/// Whether a look is taken after so many blocks: after each of the first [`LOOKS_AT_EACH`], every second up to twice as many, every
/// fourth up to four times as many, and so on.
pub fn is_look(blocks: usize) -> bool {
    last_look(blocks) == blocks
}

/// How many blocks there were at the last look when there are so many now; 0 before the first.
pub fn last_look(blocks: usize) -> usize {
    let distance = 1 << (blocks.max(LOOKS_PER_DOUBLING).ilog2() - LOOKS_PER_DOUBLING.ilog2());
    blocks - blocks % distance
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_dense_first_and_then_as_many_in_every_doubling() {
        assert!((0..=LOOKS_AT_EACH).all(is_look));
        for doubling in 0..10 {
            let from = LOOKS_AT_EACH << doubling;
            assert_eq!((from..2 * from).filter(|&blocks| is_look(blocks)).count(), LOOKS_PER_DOUBLING, "{from}");
        }
    }

    #[test]
    fn a_look_is_never_far_away() {
        for blocks in 1..100_000_usize {
            let last = last_look(blocks);
            assert!(is_look(last) && last <= blocks && (last + 1..=blocks).all(|between| !is_look(between)));
            assert!((blocks - last) as f64 <= blocks as f64 / LOOKS_PER_DOUBLING as f64, "{blocks} {last}");
        }
    }
}
