//! A mark for what models caches outside of the machine: here a section begins.

use misses::marks::Marks;
use misses::window::{SECTIONS, SectionIndex};
use std::io;

#[derive(clap::Args)]
pub struct Arguments {
    /// The section's number; 0 ends the one before.
    section: u16,
}

/// Stores to the mark of a section.
pub fn run(arguments: &Arguments) -> io::Result<String> {
    let section = u32::from(arguments.section);
    if section >= SECTIONS {
        return Err(io::Error::other(format!("sections have numbers below {SECTIONS}")));
    }
    Marks::map()?.begin(SectionIndex(section));
    Ok(format!("{{\"section\": {section}}}"))
}
