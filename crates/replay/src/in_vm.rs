//! Replays in a virtual machine: one boot for all of them.

use crate::cache_model::CacheModel;
use crate::counting_clock::told_search_costs;
use crate::output::{ReplayOutput, RunFailure};
use crate::series::{MACHINE, OUTPUT, OnOutput, Programs, Run, SCHEDULER_OUTPUT, Series, SeriesError};
use std::path::{Path, PathBuf};
use std::time::Duration;
use vm::{Exit, Step, StepResult, Vm};

/// Where the guest has the files of a series.
const FOLDER: &str = "/replay";

/// How long a replay may take beyond its horizon, in guest time, and one that has no horizon.
const GRACE: Duration = Duration::from_secs(60);
const LONGEST: Duration = Duration::from_secs(3_600);

/// A guest may take as long to boot.
const BOOT: Duration = Duration::from_secs(180);

/// How many times as long as without it everything may take with a model of its caches.
const MODEL_SLOWS: u32 = 20;

impl Series {
    /// Replays in `vm`, one run after the other; it gets the programs and files for that. `on_output` gets what each showed as soon
    /// as it has ended, or in a sentence why it failed. Where the guest's clock [counts instructions](crate::counting_clock), the first run is
    /// carried out once before, which nobody looks at: after a boot the kernel moves processes that it leaves alone later.
    ///
    /// # Errors
    /// [`SeriesError`], or what `on_output` fails with.
    pub fn run_in_vm<E: From<SeriesError>>(
        &self,
        runs: &[Run],
        programs: &Programs,
        mut vm: Vm,
        on_output: OnOutput<'_, E>,
    ) -> Result<(), E> {
        if runs.is_empty() {
            return Ok(());
        }
        let folder = tempfile::tempdir().map_err(SeriesError::Files)?;
        let here = |name: &str| folder.path().join(name);
        for name in self.write_files(folder.path())? {
            vm.files.push((here(name), Path::new(FOLDER).join(name)));
        }
        let counts = vm.icount_shift.is_some();
        let model = match &programs.plugin {
            Some(library) => {
                CacheModel::check(runs.len())?;
                Some(CacheModel::watching(&mut vm, library, &here(MACHINE), here("misses.json")))
            }
            None => None,
        };
        vm.programs.push(programs.replay.clone());
        if runs.iter().any(|run| run.policy.needs_scheduler()) {
            vm.programs.push(programs.scheduler.clone());
        }
        let in_guest =
            Programs { replay: in_bin(&programs.replay), scheduler: in_bin(&programs.scheduler), plugin: None };
        let horizon = self.scenario.parameters.horizon_ms.map(|ms| Duration::from_secs_f64(ms / 1e3));
        let limit = horizon.map_or(LONGEST, |horizon| horizon + GRACE);
        let settling = runs.iter().take(usize::from(counts)).map(|run| (0, run));
        let mut unseen = 2 * settling.len();
        let steps = settling.chain(runs.iter().enumerate()).flat_map(|(number, run)| {
            let command = self.command(*run, &in_guest, Path::new(FOLDER));
            let replay = match &model {
                Some(_) => Step::shell(run.policy.name(), CacheModel::marked(number, &command)),
                None if counts => {
                    Step::shell(run.policy.name(), format!("{}; {}", told_search_costs(), command.join(" ")))
                }
                None => Step::run(run.policy.name(), command),
            };
            let collect = format!("cd {FOLDER} && cat {OUTPUT} {SCHEDULER_OUTPUT}; rm -f {OUTPUT} {SCHEDULER_OUTPUT}");
            [replay.within(limit), Step::shell(OUTPUT, collect)]
        });
        let steps: Vec<Step> = steps.collect();
        let mut replayed: Option<StepResult> = None;
        let mut left = runs.iter().enumerate();
        let mut outcome = Ok(());
        let slower = if model.is_some() || counts { MODEL_SLOWS } else { 1 };
        let timeout = (BOOT + limit * (runs.len() + 1) as u32) * slower;
        vm.run(&steps, timeout, |result| {
            if unseen > 0 {
                unseen -= 1;
                return;
            }
            // Steps come in pairs: a replay, and the collection of its output.
            let Some(replay) = replayed.take() else {
                replayed = Some(result.clone());
                return;
            };
            if let (Some((number, run)), Ok(())) = (left.next(), &outcome) {
                let output = output(&replay, &result.stdout);
                outcome = on_output(
                    *run,
                    match &model {
                        Some(model) => output.and_then(|output| model.with_misses(output, number)),
                        None => output,
                    },
                );
            }
        })
        .map_err(SeriesError::Vm)?;
        outcome
    }
}

/// Where the guest has a program of this host.
fn in_bin(program: &Path) -> PathBuf {
    Path::new("/bin").join(program.file_name().unwrap_or_default())
}

/// What a replay showed, from how its step ended and the texts that it left.
fn output(replay: &StepResult, texts: &str) -> Result<ReplayOutput, RunFailure> {
    let stderr = replay.stderr.trim().to_owned();
    match &replay.exit {
        Exit::Code(0) => ReplayOutput::parse(texts).map_err(|error| RunFailure::Unreadable(error.to_string())),
        Exit::Code(code) => Err(RunFailure::ExitCode { code: *code, stderr }),
        Exit::Signal(signal) => Err(RunFailure::Signal { signal: *signal, stderr }),
        Exit::TimedOut => Err(RunFailure::TimedOut { seconds: replay.seconds, stderr }),
        Exit::NotStarted(cause) => Err(RunFailure::NotStarted(cause.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_that_failed_says_why() {
        let result = |exit: Exit| StepResult {
            name: "light".into(),
            exit,
            stdout: String::new(),
            stderr: "stayput sched: no\n".into(),
            seconds: 61.4,
        };
        let texts = r#"{"seconds":1.0,"metrics":{"migrations":2}}"#;
        assert_eq!(output(&result(Exit::Code(0)), texts).unwrap().metrics["migrations"], 2.0);
        for (exit, words) in [
            (Exit::Code(1), "exit code 1: stayput sched: no"),
            (Exit::Signal(9), "killed by signal 9: stayput sched: no"),
            (Exit::TimedOut, "killed after 61 s: stayput sched: no"),
            (Exit::NotStarted("/bin/x: not found".into()), "/bin/x: not found"),
        ] {
            assert_eq!(output(&result(exit), texts).unwrap_err().to_string(), words);
        }
        assert!(output(&result(Exit::Code(0)), "").unwrap_err().to_string().starts_with("its output can't be read"));
    }
}
