//! The `stayput` command.

fn main() {}
