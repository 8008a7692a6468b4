//! Completions and man pages, made from the command definitions themselves.

use anyhow::Context;
use clap::Command;
use clap_complete::Shell;
use std::path::PathBuf;

/// Print a completion script for a shell
#[derive(clap::Args)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Write man pages, one for each command
#[derive(clap::Args)]
pub struct ManArgs {
    /// Folder to write them to; it must exist
    directory: PathBuf,
}

/// Prints the completion script.
pub fn completions(args: &CompletionsArgs, command: &mut Command) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, command, "stayput", &mut script);
    crate::print(&String::from_utf8_lossy(&script))
}

/// Writes the man pages.
pub fn man(args: &ManArgs, command: Command) -> anyhow::Result<()> {
    clap_mangen::generate_to(command, &args.directory)
        .with_context(|| format!("cannot write man pages to {}", args.directory.display()))
}
