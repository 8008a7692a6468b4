//! Completions and man pages, made from the command definitions themselves.

use crate::UsageError;
use anyhow::Context;
use clap::Command;
use clap_complete::engine::{self, CompletionCandidate};
use clap_complete::{ArgValueCandidates, ArgValueCompleter, PathCompleter};
use machine::{Machine, NamedSet, Policy};
use sim::workload_file::REPORT_WORKLOADS;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use strum::VariantArray;
use study::plan::UNBOUND;
use workloads::Program;

/// Print a completion script for a shell
#[derive(clap::Args)]
#[command(after_help = "\
To have it in every shell:
  stayput completions bash > ~/.local/share/bash-completion/completions/stayput
  stayput completions zsh > FOLDER/_stayput        where FOLDER is in $fpath
  stayput completions fish > ~/.config/fish/completions/stayput.fish")]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// A shell that has a script.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Write man pages, one for each command
#[derive(clap::Args)]
pub struct ManArgs {
    /// Folder to write them to; it must exist
    #[arg(value_hint = clap::ValueHint::DirPath)]
    directory: PathBuf,
}

/// Prints the completion script. It asks this program for candidates, so that values are those of the program that is installed.
pub fn completions(args: &CompletionsArgs) -> anyhow::Result<()> {
    crate::print_exactly(match args.shell {
        Shell::Bash => include_str!("shell/stayput.bash"),
        Shell::Zsh => include_str!("shell/_stayput.zsh"),
        Shell::Fish => include_str!("shell/stayput.fish"),
    })
}

/// Writes the man pages.
pub fn man(args: &ManArgs, command: Command) -> anyhow::Result<()> {
    if !args.directory.is_dir() {
        return Err(UsageError::from(format!("there is no folder {} to write man pages to", args.directory.display())));
    }
    clap_mangen::generate_to(command, &args.directory)
        .with_context(|| format!("cannot write man pages to {}", args.directory.display()))
}

/// What the scripts set: then the words after the program's name are a command line whose last word is to be completed.
const COMPLETE: &str = "STAYPUT_COMPLETE";

/// Prints what the last word can become, one candidate a line, each followed by a tab and its help; nothing when not asked to.
/// Gives whether it was.
pub fn complete(command: fn() -> Command) -> bool {
    if std::env::var_os(COMPLETE).is_none() {
        return false;
    }
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let last = words.len().saturating_sub(1);
    let folder = std::env::current_dir().ok();
    // A shell can do nothing with an error here.
    let found = engine::complete(&mut command(), words, last, folder.as_deref()).unwrap_or_default();
    let lines = found.iter().map(|candidate| {
        let help = candidate.get_help().map(ToString::to_string).unwrap_or_default();
        // Its first part: a list of candidates has no room for more.
        let end = ["\n", ". ", "; ", ": ", " ["].iter().filter_map(|mark| help.find(mark)).min().unwrap_or(help.len());
        format!("{}\t{}\n", candidate.get_value().to_string_lossy(), &help[..end])
    });
    // Nor with a pipe that it has closed.
    let _ = crate::print(&lines.collect::<String>());
    true
}

/// Candidates from a list of names.
pub fn names(names: fn() -> Vec<String>) -> ArgValueCandidates {
    ArgValueCandidates::new(move || names().into_iter().map(CompletionCandidate::new).collect())
}

/// Candidates from a list of names, and files that end so.
pub fn names_and_files(names: fn() -> Vec<String>, extension: &'static str) -> ArgValueCompleter {
    let is_such = move |path: &Path| path.extension().is_some_and(|found| found == extension);
    ArgValueCompleter::new(move |word: &OsStr| {
        let start = word.to_string_lossy();
        let names = names().into_iter().filter(|name| name.starts_with(&*start));
        let files = engine::ValueCompleter::complete(&PathCompleter::any().filter(is_such), word);
        names.map(CompletionCandidate::new).chain(files).collect()
    })
}

/// Files that end so.
pub fn files(extension: &'static str) -> ArgValueCompleter {
    names_and_files(Vec::new, extension)
}

/// Machines that have a name, and files of hwloc's XML.
pub fn machines() -> ArgValueCompleter {
    names_and_files(|| std::iter::once("host").chain(machine::preset::names()).map(Into::into).collect(), "xml")
}

/// Names of placements: the rules, and the sets of CPUs, those with a number as this machine has them.
pub fn placements() -> Vec<String> {
    let policies = Policy::NAMED.iter().map(ToString::to_string);
    let sets = NamedSet::UNNUMBERED.iter().map(ToString::to_string);
    let here = Machine::host().map(|machine| NamedSet::all_of(&machine)).unwrap_or_default();
    let numbered = here.iter().filter(|set| !NamedSet::UNNUMBERED.contains(set)).map(ToString::to_string);
    policies.chain(sets).chain(numbered).chain([UNBOUND.to_owned()]).collect()
}

/// Built-in workloads of the simulator.
pub fn workloads() -> ArgValueCompleter {
    names_and_files(|| REPORT_WORKLOADS.iter().map(|(name, _)| (*name).to_owned()).collect(), "toml")
}

/// Built-in programs, each with its classes.
pub fn subjects() -> Vec<String> {
    let of = |program: &'static Program| program.classes.iter().map(|class| format!("{}.{}", program.name, class.name));
    workloads::catalog().iter().flat_map(of).collect()
}

/// The names of what can be chosen.
pub fn variants<T: VariantArray + std::fmt::Display>() -> Vec<String> {
    T::VARIANTS.iter().map(|variant| variant.to_string()).collect()
}
