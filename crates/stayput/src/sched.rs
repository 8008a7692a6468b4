//! `stayput sched`: becomes `stayput-sched`, the kernel scheduler's own program, which has another licence than everything else here.

use anyhow::Context;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// Schedule a command, a control group or everything by affinity, in this machine's kernel
#[derive(clap::Args)]
#[command(
    disable_help_flag = true,
    override_usage = "stayput sched [OPTIONS] -- <CMD>...\n       stayput sched --help"
)]
pub struct SchedArgs {
    /// What `stayput sched --help` lists
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS")]
    arguments: Vec<OsString>,
}

/// Becomes the scheduler's program.
pub fn run(args: &SchedArgs) -> anyhow::Result<u8> {
    let program = program()?;
    let error = Command::new(&program).args(&args.arguments).exec();
    Err(error).with_context(|| format!("{} can't be started", program.display()))
}

/// What the scheduler's program says of this kernel: that it can be used, or why not.
pub fn check() -> Result<String, String> {
    let program = program().map_err(|error| error.to_string())?;
    let output = Command::new(&program).arg("--check").output();
    let output = output.map_err(|error| format!("{} can't be started: {error}", program.display()))?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().trim_start_matches("stayput sched: ").to_owned();
    if output.status.success() { Ok(said(&output.stdout)) } else { Err(said(&output.stderr)) }
}

/// The program beside this one.
fn program() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("the path of this program is unknown")?;
    let program = own.with_file_name("stayput-sched");
    if program.exists() {
        Ok(program)
    } else {
        anyhow::bail!("{} isn't there: build it with `cargo build --release`", program.display())
    }
}
