//! `stayput sched`: becomes `stayput-sched`, the kernel scheduler's own program, which has another licence than everything else here.

use anyhow::Context;
use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The scheduler's program.
const PROGRAM: &str = "stayput-sched";

/// Schedule a command, a control group or everything by affinity, in this machine's kernel
#[derive(clap::Args)]
#[command(
    disable_help_flag = true,
    override_usage = "stayput sched [OPTIONS] -- <CMD>...\n       stayput sched --help"
)]
pub struct SchedArgs {
    /// What `stayput sched --help` lists
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS", add = crate::shell::names(options))]
    _arguments: Vec<OsString>,
}

/// The options of the scheduler's program, as its help names them.
fn options() -> Vec<String> {
    let help = launch::companion(PROGRAM).ok().and_then(|program| Command::new(program).arg("--help").output().ok());
    let help = help.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let lines = help.lines().map(|line| line.trim_start().trim_start_matches("-q, ").trim_start_matches("-h, "));
    let options = lines.filter_map(|line| line.split([' ', '=']).next().filter(|word| word.starts_with("--")));
    options.map(str::to_owned).collect()
}

/// Becomes the scheduler's program, with all words behind our own two: as they were parsed, a `--` before all others would be missing.
pub fn run() -> anyhow::Result<Infallible> {
    let program = launch::companion(PROGRAM)?;
    launch::restore_signals_of_writes();
    let error = Command::new(&program).args(std::env::args_os().skip(2)).exec();
    Err(error).with_context(|| format!("{} can't be started", program.display()))
}

/// What the scheduler's program says of this kernel: that it can be used, or why not.
pub fn check() -> Result<String, String> {
    let program = launch::companion(PROGRAM).map_err(|error| error.to_string())?;
    let output = Command::new(&program).arg("--check").output();
    let output = output.map_err(|error| format!("{} can't be started: {error}", program.display()))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().trim_start_matches("stayput sched: ").to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}
