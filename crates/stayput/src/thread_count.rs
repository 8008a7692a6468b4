//! How many threads, or ranks x threads: `8`, `4x8`.

use machine::{RankShape, cpu::quoted};
use std::str::FromStr;

/// What `-n` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThreadCount {
    /// Threads of one program.
    Threads(u32),
    /// Ranks, and threads of each.
    Ranks(RankShape),
}

impl ThreadCount {
    /// Threads of a program that has no ranks.
    pub(crate) fn threads(self) -> Option<u32> {
        match self {
            Self::Threads(threads) => Some(threads),
            Self::Ranks(_) => None,
        }
    }

    /// The ranks.
    pub(crate) fn ranks(self) -> Option<RankShape> {
        match self {
            Self::Threads(_) => None,
            Self::Ranks(shape) => Some(shape),
        }
    }
}

impl FromStr for ThreadCount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains('x') {
            return text.parse().map(Self::Ranks).map_err(|error: machine::RankError| error.to_string());
        }
        match text.parse::<u32>() {
            Ok(threads) if threads > 0 => Ok(Self::Threads(threads)),
            _ => {
                Err(format!("`{}` is no number of threads from 1 up, nor of ranks x threads such as 4x8", quoted(text)))
            }
        }
    }
}
