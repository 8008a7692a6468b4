//! What Linux says of this machine and of the processes on it: every reader of `/proc`, `/sys` and affinity masks.
//!
//! Readers answer `None`, or an empty list, where the kernel says nothing: an older one, a container, a sandbox. What the
//! answers mean for a placement or a study is for their callers to say. The `procfs` crate parses what it knows; files
//! that are read at each end of a thread, and those that it lacks, are parsed here.

pub mod affinity;
pub mod control_group;
pub mod cpu_group;
pub mod energy;
pub mod memory;
pub mod process;
pub mod scheduler;
pub mod system;

pub use affinity::allowed_cpus;
pub use process::{Pid, SchedulerTimes, Tid};

use std::fs;
use std::path::Path;

/// The text of a file without the line's end.
fn read_word(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The value after the first `name<separator>` at the start of a line, without quotes.
fn value_of<'a>(text: &'a str, name: &str, separator: char) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(separator)?;
        (key.trim() == name).then(|| value.trim().trim_matches('"'))
    })
}
