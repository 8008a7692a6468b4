//! Plays in a virtual machine: one boot for all of them.

use crate::modelled::{MOST_PLAYS, Modelled};
use crate::policy::{MACHINE, Programs, SCHEDULER_TOLD, Series, TOLD, Turn};
use crate::told::Told;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use vm::{Exit, Script, Step, StepResult, Vm, VmError};

/// Where the guest has the files of a series.
const FOLDER: &str = "/play";

/// How long a play may take beyond its horizon, in guest time, and one that has no horizon.
const GRACE: Duration = Duration::from_secs(60);
const LONGEST: Duration = Duration::from_secs(3_600);

/// A guest may take as long to boot.
const BOOT: Duration = Duration::from_secs(180);

/// How many times as long as without it everything may take with a model of its caches.
const MODEL_SLOWS: u32 = 20;

/// Why the plays of a series were not all carried out; those that were have been told.
#[derive(Debug, thiserror::Error)]
pub enum InVmError {
    /// There is no room for its files.
    #[error("cannot keep a play's files: {0}")]
    Files(#[from] io::Error),
    /// What is played can't be written.
    #[error("cannot write what is to be played: {0}")]
    Series(#[from] serde_json::Error),
    /// The plugin can't tell so many apart.
    #[error(
        "misses of {0} plays can't be told apart in one boot, but of {MOST_PLAYS}: ask for fewer replicates or policies"
    )]
    TooManyPlays(usize),
    /// The machine didn't carry it out.
    #[error(transparent)]
    Vm(#[from] VmError),
}

impl Series {
    /// Plays a turn after the other in `vm`, which gets the programs and files for it; `tell` is given what each showed as soon
    /// as it has ended, or in a sentence why it failed.
    ///
    /// # Errors
    /// [`InVmError`], or what `tell` fails with.
    pub fn play_in_vm<E: From<InVmError>>(
        &self,
        turns: &[Turn],
        programs: &Programs,
        mut vm: Vm,
        tell: &mut dyn FnMut(Turn, Result<Told, String>) -> Result<(), E>,
    ) -> Result<(), E> {
        if turns.is_empty() {
            return Ok(());
        }
        let folder = tempfile::tempdir().map_err(InVmError::Files)?;
        for (name, text) in self.files().map_err(InVmError::Series)? {
            let here = folder.path().join(name);
            fs::write(&here, text).map_err(InVmError::Files)?;
            vm.files.push((here, Path::new(FOLDER).join(name)));
        }
        let modelled = match &programs.plugin {
            Some(_) if turns.len() > MOST_PLAYS => return Err(InVmError::TooManyPlays(turns.len()).into()),
            Some(library) => {
                let here = |name: &str| folder.path().join(name);
                Some(Modelled::in_vm(&mut vm, library, &here(MACHINE), here("misses.json")))
            }
            None => None,
        };
        vm.programs.push(programs.player.clone());
        if turns.iter().any(|turn| turn.policy.needs_scheduler()) {
            vm.programs.push(programs.scheduler.clone());
        }
        let in_guest =
            Programs { player: in_bin(&programs.player), scheduler: in_bin(&programs.scheduler), plugin: None };
        let horizon = self.scene.parameters.horizon_ms.map(|ms| Duration::from_secs_f64(ms / 1e3));
        let limit = horizon.map_or(LONGEST, |horizon| horizon + GRACE);
        let steps = turns.iter().enumerate().flat_map(|(number, turn)| {
            let words = self.words(*turn, &in_guest, Path::new(FOLDER));
            let play = match &modelled {
                Some(_) => Step::shell(turn.policy.name(), Modelled::marked(number, &words)),
                None => Step::run(turn.policy.name(), words),
            };
            let collect = format!("cd {FOLDER} && cat {TOLD} {SCHEDULER_TOLD}; rm -f {TOLD} {SCHEDULER_TOLD}");
            [play.within(limit), Step::shell(TOLD, collect)]
        });
        let script = Script { steps: steps.collect() };
        let mut played: Option<StepResult> = None;
        let mut left = turns.iter().enumerate();
        let mut told = Ok(());
        let slower = if modelled.is_some() { MODEL_SLOWS } else { 1 };
        let timeout = (BOOT + limit * turns.len() as u32) * slower;
        vm.run_and_tell(&script, timeout, |result| {
            // A play, and then what it told.
            let Some(play) = played.take() else {
                played = Some(result.clone());
                return;
            };
            if let (Some((number, turn)), Ok(())) = (left.next(), &told) {
                let seen = read(&play, &result.stdout);
                told = tell(
                    *turn,
                    match &modelled {
                        Some(modelled) => seen.and_then(|seen| modelled.add_to(seen, number)),
                        None => seen,
                    },
                );
            }
        })
        .map_err(InVmError::Vm)?;
        told
    }
}

/// Where the guest has a program of this host.
fn in_bin(program: &Path) -> PathBuf {
    Path::new("/bin").join(program.file_name().unwrap_or_default())
}

fn read(play: &StepResult, texts: &str) -> Result<Told, String> {
    let said = play.stderr.trim();
    match &play.exit {
        Exit::Code(0) => Told::parse(texts).map_err(|error| format!("what it told can't be read: {error}")),
        Exit::Code(code) => Err(format!("exit code {code}: {said}")),
        Exit::Signal(signal) => Err(format!("killed by signal {signal}: {said}")),
        Exit::TimedOut => Err(format!("killed after {:.0} s: {said}", play.seconds)),
        Exit::NotStarted(cause) => Err(cause.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_play_that_failed_says_why() {
        let result = |exit: Exit| StepResult {
            name: "light".into(),
            exit,
            stdout: String::new(),
            stderr: "stayput sched: no\n".into(),
            seconds: 61.4,
        };
        let told = r#"{"seconds":1.0,"metrics":{"migrations":2}}"#;
        assert_eq!(read(&result(Exit::Code(0)), told).unwrap().metrics["migrations"], 2.0);
        for (exit, words) in [
            (Exit::Code(1), "exit code 1: stayput sched: no"),
            (Exit::Signal(9), "killed by signal 9: stayput sched: no"),
            (Exit::TimedOut, "killed after 61 s: stayput sched: no"),
            (Exit::NotStarted("/bin/x: not found".into()), "/bin/x: not found"),
        ] {
            assert_eq!(read(&result(exit), told), Err(words.into()));
        }
        assert!(read(&result(Exit::Code(0)), "").unwrap_err().starts_with("what it told can't be read"));
    }
}
