//! The first process of the virtual machines in which schedulers are tested, and what keeps their CPUs busy.

mod burn;
mod host;
mod init;
mod mark;
mod sleeper;

use clap::Parser;
use std::process::ExitCode;

/// Runs in virtual machines only, as their first process; or keeps CPUs busy there, or measures how late it wakes.
#[derive(Parser)]
#[command(name = "stayput-guest")]
enum Arguments {
    /// Compute in several processes; prints the CPU time that each has had, as JSON.
    Burn(burn::Arguments),
    /// Sleep again and again; prints how late it woke, as JSON.
    Sleeper(sleeper::Arguments),
    /// Mark where a section begins, for a model of the machine's caches.
    Mark(mark::Arguments),
}

fn main() -> ExitCode {
    if std::process::id() == 1 {
        return init::run();
    }
    let outcome = match Arguments::parse() {
        Arguments::Burn(arguments) => burn::run(&arguments),
        Arguments::Sleeper(arguments) => sleeper::run(&arguments),
        Arguments::Mark(arguments) => mark::run(&arguments),
    };
    match outcome {
        Ok(json) => {
            println!("{json}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("stayput-guest: {error}");
            ExitCode::FAILURE
        }
    }
}
