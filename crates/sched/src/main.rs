//! `stayput-sched`: the affinity scheduler, switched on in this machine's kernel for a command, a control group or everything. Options
//! go in; what the scheduler counted comes out, as text and JSON. It may load BPF programs, change scheduling classes, start the command
//! and read the machine's tree; it knows no studies.

// Messages that a terminal shows and doesn't obey, in place of those of `std`.
#[macro_use(eprint, eprintln)]
extern crate terminal;

mod caller;
mod command;
mod control_group;
#[cfg(test)]
mod host;
mod intf;
mod machine_tree;
mod options;
#[cfg(test)]
mod queues;
mod scheduler;
mod statistics;
mod support;
// One rule for what is said of wrong command lines.
#[path = "../../stayput/src/usage.rs"]
mod usage;

use caller::Caller;
use clap::{CommandFactory, Parser};
use command::{Command, Received};
use intf::CpuStats;
use machine_tree::MachineTree;
use nix::sys::signal::Signal;
use options::{Extent, Options};
use output::{Inputs, OutputError, ResultFile};
use scheduler::Scheduler;
use statistics::Summary;
use std::io::Write;
use std::mem::MaybeUninit;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Something failed.
const FAILURE: u8 = 1;

/// The command line is wrong.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(error) => {
            let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>();
            let Some(sentence) = usage::sentence(&error, Options::command(), &words) else { error.exit() };
            eprintln!("stayput sched: {sentence}");
            return ExitCode::from(USAGE);
        }
    };
    match run(&options) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("stayput sched: {}", usage::without_error_number(&format!("{error:#}")));
            let is_usage_error = error.downcast_ref::<OutputError>().is_some_and(OutputError::is_usage_error);
            ExitCode::from(if is_usage_error { USAGE } else { FAILURE })
        }
    }
}

/// This machine's tree; where it can't be read, a line says so.
fn machine_tree() -> MachineTree {
    let tree = MachineTree::read();
    if let Some(reason) = &tree.missing {
        eprintln!("stayput sched: without the machine's tree all other CPUs are equally far: {reason}");
    }
    tree
}

/// How often one looks whether the scheduler is still there.
const LOOK: Duration = Duration::from_millis(100);

fn run(options: &Options) -> anyhow::Result<u8> {
    let mut inputs = Inputs::default();
    inputs.add_command(None, &options.command);
    let json = options.json.as_deref().map(|path| ResultFile::named(path, inputs)).transpose()?;
    support::check()?;
    if options.check {
        writeln!(std::io::stdout(), "this kernel can run the affinity scheduler")?;
        return Ok(0);
    }
    let caller = if options.as_root { None } else { Caller::of_sudo()? };
    let mut group = match options.extent() {
        Extent::ControlGroup(path) => Some(control_group::Members::at(path)?),
        _ => None,
    };
    // Before anything is started: a signal that comes early waits until it is asked for.
    let signals = command::Signals::block()?;
    let mut tree = machine_tree();
    let mut memory = MaybeUninit::uninit();
    let mut scheduler = Scheduler::load(&mut memory, options, &tree)?;
    let mut command = match options.command.as_slice() {
        [] => None,
        arguments => Some(Command::start(arguments, caller)?),
    };
    if options.command.is_empty() && !options.quiet {
        eprintln!("stayput sched: {}; Ctrl-C ends it", options.described());
    }

    let begun = Instant::now();
    let mut shown = (begun, CpuStats::none());
    let code = loop {
        match signals.next(LOOK)? {
            Some(Received { signal: Signal::SIGCHLD, .. }) => {
                if let Some(code) = command.as_mut().map(Command::exit_code).transpose()?.flatten() {
                    break code;
                }
            }
            Some(termination) => match &mut command {
                // The command decides what becomes of it.
                Some(command) => command.pass_on(termination),
                None => break 0,
            },
            None => {}
        }
        if scheduler.has_new_cpu() {
            tree = machine_tree();
            scheduler.write_places(&tree)?;
        }
        if let Some(group) = &mut group {
            group.refresh();
        }
        if let Some(ending) = scheduler.ending() {
            eprintln!("stayput sched: the kernel ended the scheduler: {ending}");
            // The work goes on under the kernel's own scheduler; its exit code can't hide that.
            let code = command.as_mut().map(Command::wait).transpose()?.unwrap_or(FAILURE);
            break if code == 0 { FAILURE } else { code };
        }
        if options.stats.is_some_and(|period| shown.0.elapsed() >= period) {
            let stats = scheduler.stats()?;
            let (now, period) = (Instant::now(), shown.0.elapsed());
            eprintln!("{}", Summary::new(stats.since(&shown.1), period, &tree).line(begun.elapsed()));
            shown = (now, stats);
        }
    };

    let summary = Summary::new(scheduler.stats()?, begun.elapsed(), &tree);
    drop(group);
    scheduler.unload();
    if let Some(json) = &json {
        summary.write(json, options)?;
    }
    if !options.quiet {
        eprint!("{}", summary.text());
    }
    Ok(code)
}
