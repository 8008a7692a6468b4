//! `stayput profile`: what programs that run do to their time slices and caches.

use crate::live::View;
use crate::{FAILURE, SUCCESS, UsageError, shell};
use ::profile::{Potential, Profile, ProfileError, Profiled, Program, Target, text, workload};
use anyhow::Context;
use machine::Machine;
use output::{Inputs, ResultFile};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use study::Exit;
use study::study_file::Span;

/// Find out why it matters where a program runs: its time slices, what ends them, its waits and moves
///
/// It is counted in the kernel, which takes root; without that a command of your own is profiled by the kernel's records of it.
/// Nothing is changed: no thread is bound, and nothing stays in the kernel.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  stayput profile -- make -j4                   why would it matter where a build runs?
  sudo stayput profile --pid 4711 --for 10s     the same of a server that runs already
  sudo stayput profile --all --for 5s --json everything.json
  sudo stayput profile --all --live             who has the CPUs, and how long at a time, right now?
  stayput profile --workload app.toml -- ./app  and `stayput simulate time-sharing --workload app.toml`")]
#[command(group = clap::ArgGroup::new("target").args(["pid", "cgroup", "all", "command"]).required(true))]
pub struct ProfileArgs {
    /// Profile this process and all that descends from it, until it ends, for --for, or until Ctrl-C
    #[arg(long, value_name = "PID")]
    pid: Option<i32>,
    /// Profile the processes of this control group, likewise
    #[arg(long, value_name = "PATH", value_hint = clap::ValueHint::DirPath)]
    cgroup: Option<PathBuf>,
    /// Profile everything but the kernel's own threads
    #[arg(long)]
    all: bool,
    /// How long at most; a command goes on to its end unobserved
    #[arg(long = "for", value_name = "DURATION")]
    duration: Option<Span>,
    /// Write the profile to FILE, as JSON (`-`: standard output)
    #[arg(long, visible_alias = "out", value_name = "FILE", add = shell::files("json"))]
    json: Option<PathBuf>,
    /// Write the programs to FILE as a workload that simulate and replay take (`-`: standard output)
    #[arg(long, value_name = "FILE", add = shell::files("toml"))]
    workload: Option<PathBuf>,
    /// Show it on the screen as it comes about; the profile is printed at the end all the same
    #[arg(long, conflicts_with = "quiet")]
    live: bool,
    /// Print no tables
    #[arg(short, long)]
    quiet: bool,
    /// The program and its arguments
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// The commands that would prove what the profile judges, where it finds anything to gain.
fn proofs(args: &ProfileArgs, profile: &Profile) -> String {
    let may_gain = |program: &Program| !matches!(program.potential, Potential::Unknown | Potential::None);
    if !profile.programs.iter().any(may_gain) {
        return String::new();
    }
    let study = match (args.pid, &args.cgroup) {
        (Some(pid), _) => format!("--place unbound,compact --pid {pid} -- LOAD"),
        (None, Some(path)) => format!("--place unbound,compact --cgroup {} -- LOAD", quoted(path.as_os_str())),
        (None, None) if args.all => return String::new(),
        (None, None) => {
            let words: Vec<_> = args.command.iter().map(|word| quoted(word)).collect();
            format!("--sched default,attached,slice=30 -- {}", words.join(" "))
        }
    };
    format!("\nWhat would prove it\n  stayput study {study}\n")
}

/// A word as a shell takes it.
fn quoted(word: &OsStr) -> String {
    shell_words::quote(&word.to_string_lossy()).into_owned()
}

/// Profiles, and reports.
pub fn run(args: &ProfileArgs) -> anyhow::Result<u8> {
    let target = match crate::study::target(args.pid, args.cgroup.as_deref())? {
        Some(target) => Target::Running(target),
        None if args.all => Target::All,
        None => Target::Command(args.command.clone()),
    };
    // Before anything runs: results that can't be kept are better known at once.
    let inputs = || {
        let mut inputs = Inputs::default();
        let program = args.command.first().and_then(|program| launch::executable_path(program).ok());
        inputs.add_command(program.as_deref(), &args.command);
        inputs
    };
    let file = |path: &PathBuf| ResultFile::named(path, inputs());
    let json = args.json.as_ref().map(file).transpose()?;
    let workload_file = args.workload.as_ref().map(file).transpose()?;
    if json.is_some() && args.json == args.workload && args.json.as_deref() != Some(Path::new("-")) {
        return Err(UsageError::from("--json and --workload name the same file; give each its own"));
    }
    let at_most = args.duration.map(|Span(duration)| duration);
    // Before anything that may begin a thread: it forks.
    let view = args.live.then(View::prepare).transpose()?;
    let machine = Machine::host()?;
    let profiled = match view {
        Some(view) => view.profile(&target, at_most, &machine),
        None => ::profile::profile(&target, at_most, &machine).map(|profiled| (profiled, Ok(()))),
    };
    let (profiled, shown) = profiled.map_err(|error| match error {
        ProfileError::Launch(error) if !args.command.is_empty() => crate::unstartable(error, &args.command[0]),
        error => error.into(),
    })?;
    let Profiled { profile, launched, refused } = profiled;
    if let Some(refused) = refused {
        eprintln!("stayput: {refused}; this profile is from records, which tell less");
    }
    if !args.quiet {
        let to_stdout = [&args.json, &args.workload].iter().any(|path| path.as_deref() == Some(Path::new("-")));
        let text = text::terminal(&profile) + &proofs(args, &profile);
        if to_stdout { eprint!("{text}") } else { crate::print(&text)? }
    }
    if let Some(json) = json {
        let text = serde_json::to_string_pretty(&profile).context("the profile can't be written as JSON")?;
        json.write(format!("{}\n", terminal::printable_json(&text)))?;
    }
    if let Some(file) = workload_file {
        file.write(workload::workload_file(&profile))?;
    }
    shown.context("the view ended, since the terminal failed")?;
    Ok(match launched.map(|launched| launched.observation.exit) {
        None | Some(Exit::Code(0)) => SUCCESS,
        Some(Exit::Code(code)) => {
            eprintln!("stayput: the command ended with exit code {code}");
            FAILURE
        }
        Some(Exit::Signal(signal)) => {
            eprintln!("stayput: the command was ended by signal {signal}");
            FAILURE
        }
        Some(Exit::TimedOut) => FAILURE,
    })
}
