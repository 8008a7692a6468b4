//! What a check of a claim comes to.

use serde::{Deserialize, Serialize};

/// Whether a claim is so in the numbers that it is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It is.
    Holds,
    /// It isn't.
    Fails,
    /// They can't tell.
    Undecidable,
}

/// A judgement, and the numbers behind it.
pub(crate) type Judgement = (Verdict, String);

/// The judgement where something is missing that would tell.
pub(crate) fn undecidable(why: impl Into<String>) -> Judgement {
    (Verdict::Undecidable, why.into())
}
