//! The shape of a run: how many threads a program has, or how many ranks an MPI program has, and threads each of them.

use machine::{MAX_THREADS, RankShape, quoted};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

/// How many threads a program runs with, written `8`; or how many ranks, and threads of each, written `2x4`. Plans, journals and
/// reports keep the first as a number and the second as that text, so that those without ranks are as they always were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "Written", try_from = "Written")]
pub struct Shape {
    ranks: Option<NonZeroU32>,
    threads: u32,
}

impl Shape {
    /// Threads of the program; where it has ranks, of each of them.
    pub fn threads(self) -> u32 {
        self.threads
    }

    /// How many ranks; none of a program that isn't started as ranks.
    pub fn ranks(self) -> Option<u32> {
        self.ranks.map(NonZeroU32::get)
    }

    /// Threads in all: those of every rank.
    pub fn total(self) -> u32 {
        self.threads.saturating_mul(self.ranks().unwrap_or(1))
    }

    /// The same as ranks x threads; none of a program that isn't started as ranks.
    pub fn rank_shape(self) -> Option<RankShape> {
        let ranks = self.ranks()? as usize;
        RankShape::new(ranks, self.threads as usize).ok()
    }

    /// So many threads, in so many ranks where there are any; none where a number is 0.
    pub(crate) fn of_numbers(ranks: u32, threads: u32) -> Self {
        Self { ranks: NonZeroU32::new(ranks), threads }
    }

    /// Whether it is one that a study may have: 1 thread at least, and no more in all than are placed.
    pub(crate) fn is_in_bounds(self) -> bool {
        let total = u64::from(self.threads) * u64::from(self.ranks().unwrap_or(1));
        (1..=MAX_THREADS as u64).contains(&total)
    }
}

impl From<u32> for Shape {
    fn from(threads: u32) -> Self {
        Self { ranks: None, threads }
    }
}

impl From<RankShape> for Shape {
    fn from(shape: RankShape) -> Self {
        Self::of_numbers(shape.ranks as u32, shape.threads as u32)
    }
}

impl PartialEq<u32> for Shape {
    /// Whether it is a program without ranks that has so many threads.
    fn eq(&self, threads: &u32) -> bool {
        *self == Self::from(*threads)
    }
}

impl PartialOrd for Shape {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Shape {
    /// By threads in all, then by ranks.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let key = |shape: &Self| (shape.total(), shape.ranks, shape.threads);
        key(self).cmp(&key(other))
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ranks {
            None => write!(f, "{}", self.threads),
            Some(ranks) => write!(f, "{ranks}x{}", self.threads),
        }
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains('x') {
            return text.parse::<RankShape>().map(Self::from).map_err(|error| error.to_string());
        }
        let wrong = || format!("`{}` is neither a thread count nor ranks x threads such as 2x4", quoted(text));
        text.parse::<u32>().map(Self::from).map_err(|_| wrong())
    }
}

/// How it is kept.
#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "a thread count, or ranks x threads such as \"2x4\"")]
enum Written {
    Threads(u32),
    Ranks(String),
}

impl From<Shape> for Written {
    fn from(shape: Shape) -> Self {
        if shape.ranks.is_none() { Self::Threads(shape.threads) } else { Self::Ranks(shape.to_string()) }
    }
}

impl TryFrom<Written> for Shape {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        match written {
            Written::Threads(threads) => Ok(threads.into()),
            Written::Ranks(text) => text.parse::<RankShape>().map(Self::from).map_err(|error| error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn threads_are_kept_as_the_number_that_they_always_were_and_ranks_as_they_are_written() {
        let kept = |shape: Shape| serde_json::to_string(&shape).unwrap();
        let read = |text: &str| serde_json::from_str::<Shape>(text);
        assert_eq!((kept(8.into()), kept("2x4".parse().unwrap())), ("8".into(), "\"2x4\"".into()));
        assert_eq!((read("8").unwrap(), read("\"2x4\"").unwrap()), (8.into(), "2x4".parse().unwrap()));
        for text in [
            "-1",
            "2.5",
            "null",
            "\"\"",
            "\"x\"",
            "\"0x4\"",
            "\"4x0\"",
            "\"2x2x2\"",
            "\"8\"",
            "\"999999x999999\"",
            "4294967296",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_single_rank_is_another_shape_than_a_program_without_ranks() {
        let rank: Shape = "1x8".parse().unwrap();
        assert_ne!(rank, Shape::from(8));
        assert_ne!(rank, 8);
        assert_eq!((rank.total(), rank.threads(), rank.ranks()), (8, 8, Some(1)));
        assert!(Shape::from(8) < rank && rank < "2x4".parse().unwrap());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(ranks in 0_u32..50, threads in 1_u32..50) {
            let shape = Shape::of_numbers(ranks, threads);
            prop_assert_eq!(shape.to_string().parse::<Shape>().unwrap(), shape);
            prop_assert_eq!(serde_json::from_str::<Shape>(&serde_json::to_string(&shape).unwrap()).unwrap(), shape);
            prop_assert_eq!(shape.total(), threads * ranks.max(1));
            prop_assert_eq!(shape.rank_shape().is_some(), ranks > 0);
        }
    }
}
