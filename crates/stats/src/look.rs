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

/// Whether what was seen at a look is kept as history: at each of the first [`LOOKS_AT_EACH`], and later at every eighth look. Deciding needs
/// all of them, but what is drawn and told doesn't.
pub fn is_kept(blocks: usize) -> bool {
    blocks <= LOOKS_AT_EACH || blocks.is_multiple_of(8 * distance(blocks))
}

/// Between the looks around so many blocks.
fn distance(blocks: usize) -> usize {
    1 << (blocks.max(LOOKS_PER_DOUBLING).ilog2() - LOOKS_PER_DOUBLING.ilog2())
}

/// How many blocks there were at the last look when there are so many now; 0 before the first.
pub fn last_look(blocks: usize) -> usize {
    blocks - blocks % distance(blocks)
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
    fn what_is_kept_was_looked_at_and_is_an_eighth_of_later_looks() {
        assert!((0..=LOOKS_AT_EACH).all(is_kept));
        assert!((0..100_000).all(|blocks| !is_kept(blocks) || is_look(blocks)));
        for doubling in 0..10 {
            let from = LOOKS_AT_EACH << doubling;
            assert_eq!(
                (from + 1..=2 * from).filter(|&blocks| is_kept(blocks)).count(),
                LOOKS_PER_DOUBLING / 8,
                "{from}"
            );
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
