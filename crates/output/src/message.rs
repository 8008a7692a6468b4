//! Lines for a person, on standard error.

use std::fmt::Arguments;
use std::io::{self, Write};

/// Writes to standard error, as far as that can be written: a full disk or a reader that has left is no reason to end otherwise than
/// the work does.
pub fn write(text: Arguments) {
    // In one piece, so that what others write doesn't come between.
    let _ = io::stderr().write_all(text.to_string().as_bytes());
}

/// Writes a line to standard error, as `eprintln` does, but never fails.
#[macro_export]
macro_rules! tell {
    ($($argument:tt)*) => {
        $crate::message::write(format_args!("{}\n", format_args!($($argument)*)))
    };
}
