//! What of a way of scheduling concerns the whole machine: brought about, looked after at the end, and undone.

use super::cache_aware::CacheAware;
use super::loader::Loader;
use super::sched_ext::{Loaded, SchedExt};
use super::{Scheduling, SchedulingObservation};
use crate::{LaunchError, interruption};
use std::ffi::OsString;
use std::thread;
use std::time::{Duration, Instant};

/// How long a loader may take until its scheduler is in force. On a machine that is emulated with its caches 30 s weren't enough; one
/// that fails ends sooner.
const LONGEST_LOAD: Duration = Duration::from_secs(120);

/// How long the kernel may take to give everything back to its own scheduler.
const LONGEST_UNLOAD: Duration = Duration::from_secs(5);

/// Between looks at the kernel's state.
const LOOK: Duration = Duration::from_millis(10);

/// How long a loader may take to say why the kernel has ended its scheduler.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// What concerns the whole machine, until this is dropped.
pub(crate) enum SchedulingInForce {
    /// Nothing.
    Nothing,
    /// A switch of the kernel's own scheduler.
    CacheAware(CacheAware),
    /// A scheduler that a loader has loaded.
    Ext(Box<ExtInForce>),
}

impl SchedulingInForce {
    pub(super) fn begin(scheduling: &Scheduling) -> Result<Self, LaunchError> {
        match scheduling {
            Scheduling::CacheAware(on) => {
                CacheAware::switch(*on).map(Self::CacheAware).map_err(LaunchError::Conditions)
            }
            Scheduling::Affinity(_) | Scheduling::Ext(_) => {
                let words = scheduling.loader().map_err(LaunchError::Conditions)?;
                ExtInForce::load(scheduling, &words).map(|loaded| Self::Ext(Box::new(loaded)))
            }
            _ => Ok(Self::Nothing),
        }
    }

    /// What is in force now, as far as it concerns the machine.
    pub(crate) fn observation(&self) -> SchedulingObservation {
        let nothing = SchedulingObservation::default();
        match self {
            Self::Nothing => nothing,
            Self::CacheAware(switch) => SchedulingObservation { cache_aware: switch.is_on(), ..nothing },
            Self::Ext(ext) => {
                let ops = ext.sched_ext.loaded().map(|loaded| loaded.name);
                SchedulingObservation { ops, ..nothing }
            }
        }
    }

    /// Why it isn't in force (any more), in a sentence.
    pub(crate) fn lost(&mut self) -> Option<String> {
        match self {
            Self::Nothing => None,
            Self::CacheAware(switch) => switch.lost(),
            Self::Ext(ext) => ext.lost(),
        }
    }
}

/// A sched_ext scheduler in force, and the program that has loaded it.
pub(crate) struct ExtInForce {
    sched_ext: SchedExt,
    loaded: Loaded,
    /// None once it is being ended.
    loader: Option<Loader>,
}

impl ExtInForce {
    /// Starts the loader, and returns when its scheduler is in force.
    fn load(scheduling: &Scheduling, words: &[OsString]) -> Result<Self, LaunchError> {
        let refused = |sentence: String| Err(LaunchError::Conditions(sentence));
        let sched_ext = SchedExt::of_kernel();
        // One that is ended just now is none.
        wait_until(LONGEST_UNLOAD, || sched_ext.state() != "disabling");
        if !sched_ext.is_free() {
            let name = sched_ext.loaded().map(|loaded| format!(", `{}`", loaded.name)).unwrap_or_default();
            return refused(format!(
                "another sched_ext scheduler is loaded already{name} (the state in {} is `{}`): end it first",
                sched_ext.folder().display(),
                sched_ext.state()
            ));
        }
        let before = sched_ext.sequence();
        let mut loader = match Loader::start(words) {
            Ok(loader) => loader,
            Err(error) => return refused(format!("the loader of `{scheduling}` can't be started: {error}")),
        };
        let begun = Instant::now();
        loop {
            if let Some(ending) = loader.ending(LOOK).map(str::to_owned) {
                let words = loader.last_words();
                return refused(format!(
                    "the loader of `{scheduling}` {ending} before its scheduler was in force{words}"
                ));
            }
            let is_counted =
                |loaded: &Loaded| before.is_none() || loaded.sequence.is_some_and(|now| Some(now) != before);
            if let Some(loaded) = sched_ext.loaded().filter(is_counted) {
                return Ok(Self { sched_ext, loaded, loader: Some(loader) });
            }
            if let Some(signal) = interruption() {
                return Err(LaunchError::Interrupted { signal });
            }
            if begun.elapsed() >= LONGEST_LOAD {
                return refused(format!(
                    "the loader of `{scheduling}` had no scheduler in force after {} s (the state in {} is `{}`){}",
                    LONGEST_LOAD.as_secs(),
                    sched_ext.folder().display(),
                    sched_ext.state(),
                    loader.last_words()
                ));
            }
        }
    }

    fn lost(&mut self) -> Option<String> {
        let now = self.sched_ext.loaded();
        let is_same = now.as_ref() == Some(&self.loaded);
        let loader = self.loader.as_mut()?;
        // The kernel ends a scheduler before its loader knows.
        let at_most = if is_same { Duration::ZERO } else { LAST_WORDS };
        let reason = match (loader.ending(at_most).map(str::to_owned), now) {
            (Some(ending), _) => format!("its loader {ending}{}", loader.last_words()),
            (None, _) if is_same => return None,
            (None, None) => format!("the kernel has ended it{}", loader.last_words()),
            (None, Some(now)) if now.name != self.loaded.name => format!("`{}` was in force by then", now.name),
            (None, Some(_)) => "it had been loaded anew in between".into(),
        };
        Some(format!("the scheduler {} was not in force any more when the program ended: {reason}", self.loaded.name))
    }
}

impl Drop for ExtInForce {
    fn drop(&mut self) {
        drop(self.loader.take());
        // What is started next is not to be scheduled by it.
        let is_ours = || self.sched_ext.loaded().as_ref() == Some(&self.loaded);
        wait_until(LONGEST_UNLOAD, || !is_ours() && self.sched_ext.state() != "disabling");
    }
}

/// Waits until something is so, but no longer than this.
fn wait_until(at_most: Duration, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() && begun.elapsed() < at_most {
        thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::super::sched_ext::tests::FakeKernel;
    use super::*;
    use crate::{Conditions, Descendants, Exit, Job, Jobs, Launch, Launched, Observe, Output, launch, launch_jobs};
    use std::fs;

    fn run(kernel: &FakeKernel, loader: &str, script: &str, observe: Observe) -> Result<Launched, LaunchError> {
        let scheduling = Scheduling::Ext(loader.to_owned());
        let launched = launch(&Launch {
            output: Output::Capture,
            descendants: Descendants::Kill,
            observe,
            conditions: Conditions { scheduling, ..Conditions::default() },
            env: vec![("KERNEL".into(), kernel.path().into())],
            ..Launch::new(["sh", "-c", script].map(Into::into).to_vec())
        });
        launched.inspect(|launched| assert_eq!(launched.observation.exit, Exit::Code(0), "{:?}", launched.stderr))
    }

    #[test]
    fn a_scheduler_is_in_force_while_the_program_runs_and_no_longer() {
        for observe in [Observe::Trace, Observe::Poll] {
            let kernel = FakeKernel::new();
            // A loader that has children which end, stop and go on meanwhile: none of the program's.
            let loader = kernel.loader("(sh -c 'kill -STOP $$' & p=$!; sleep 0.05; kill -CONT $p; true) &");
            let seen = run(&kernel, &loader, "cat $KERNEL/state $KERNEL/root/ops; sleep 0.1; true", observe).unwrap();
            assert_eq!(seen.stdout.text(), "enabled\nfake\n");
            assert_eq!((seen.not_in_force, kernel.state().as_str()), (None, "disabled"));
            let observation = seen.observation;
            assert_eq!(observation.conditions.scheduling.unwrap().ops.as_deref(), Some("fake"));
            assert_eq!(observation.leftovers, 0);
            let processes: Vec<u32> = observation.threads.iter().map(|thread| thread.process).collect();
            assert!(processes.len() <= 3 && processes.contains(&0), "{processes:?}");
        }
    }

    #[test]
    fn a_loader_that_ends_while_the_program_runs_is_told_with_its_exit_code() {
        for observe in [Observe::Trace, Observe::Poll] {
            let kernel = FakeKernel::new();
            let loader = kernel
                .loader("while [ ! -e go ]; do sleep 0.01; done; echo stalled >&2; echo disabled > state; exit 1");
            let script = "touch $KERNEL/go; while grep -q enabled $KERNEL/state; do sleep 0.01; done; true";
            let seen = run(&kernel, &loader, script, observe).unwrap();
            let sentence = seen.not_in_force.unwrap();
            let expected =
                "the scheduler fake was not in force any more when the program ended: its loader exited with code 1";
            assert!(sentence.starts_with(expected) && sentence.ends_with("`stalled`"), "{sentence}");
            assert_eq!(seen.observation.conditions.scheduling.unwrap().ops, None);
        }
    }

    #[test]
    fn a_scheduler_that_is_ended_replaced_or_loaded_anew_is_not_in_force_any_more() {
        for (does, said) in [
            ("echo disabled > $KERNEL/state", "the kernel has ended it"),
            ("echo other > $KERNEL/root/ops", "`other` was in force by then"),
            ("echo 6 > $KERNEL/enable_seq", "it had been loaded anew in between"),
        ] {
            let kernel = FakeKernel::new();
            let seen = run(&kernel, &kernel.loader(""), does, Observe::Trace).unwrap();
            let sentence = seen.not_in_force.unwrap();
            assert!(sentence.ends_with(said), "{sentence}");
        }
    }

    #[test]
    fn for_several_programs_a_scheduler_is_loaded_once_and_in_force_until_all_have_ended() {
        let mix = |kernel: &FakeKernel, scripts: [&str; 2]| {
            let job = |script: &str| {
                let script = format!("until [ -e $KERNEL/loads ]; do sleep 0.01; done; {script}");
                let argv = ["sh", "-c", &script].map(Into::into).to_vec();
                let env = vec![("KERNEL".into(), kernel.path().into())];
                Job { launch: Launch { env, ..Launch::new(argv) }, ..Job::default() }
            };
            let scheduling = Scheduling::Ext(kernel.loader("echo once >> loads"));
            let conditions = Conditions { scheduling, ..Conditions::default() };
            let seen = launch_jobs(&Jobs { jobs: scripts.map(job).into(), conditions, ..Jobs::default() }).unwrap();
            assert_eq!((seen.failed, kernel.state().as_str()), (None, "disabled"));
            assert_eq!(fs::read_to_string(kernel.path().join("loads")).unwrap(), "once\n");
            seen
        };
        let says = "cat $KERNEL/state $KERNEL/root/ops";
        let seen = mix(&FakeKernel::new(), [&format!("sleep 0.1; {says}"), says]);
        for job in &seen.jobs {
            assert_eq!(job.runs[0].launched.stdout.text(), "enabled\nfake\n");
        }
        assert_eq!((seen.not_in_force, seen.conditions.scheduling.unwrap().ops.as_deref()), (None, Some("fake")));
        let seen = mix(&FakeKernel::new(), ["echo other > $KERNEL/root/ops", "sleep 0.1"]);
        assert!(seen.not_in_force.unwrap().ends_with("`other` was in force by then"));
    }

    #[test]
    fn what_cannot_be_loaded_is_a_sentence_and_the_program_is_not_started() {
        let refusal = |kernel: &FakeKernel, loader: &str| {
            let error = run(kernel, loader, "touch $KERNEL/started", Observe::Trace).unwrap_err();
            assert!(!kernel.path().join("started").exists());
            assert!(matches!(error, LaunchError::Conditions(_)), "{error:?}");
            error.to_string()
        };
        let kernel = FakeKernel::new();
        let said = refusal(&kernel, "sh -c 'echo no BTF here >&2; exit 7'");
        assert!(said.contains("exited with code 7") && said.contains("`no BTF here`"), "{said}");
        assert!(refusal(&kernel, "/no/such/loader").contains("can't be started"));
        kernel.write("root/ops", "rusty");
        kernel.write("state", "enabled");
        let said = refusal(&kernel, "sh -c 'touch $KERNEL/started'");
        assert!(said.contains("already, `rusty`"), "{said}");
    }

    #[test]
    fn a_loader_that_does_not_heed_sigint_is_killed() {
        let kernel = FakeKernel::new();
        let loader = kernel.loader("");
        let script = kernel.path().join("loader");
        let deaf =
            fs::read_to_string(&script).unwrap().replace("trap 'echo disabled > state; exit 0' INT", "trap '' INT");
        fs::write(&script, format!("echo $$ > {}/pid; {deaf}", kernel.path().display())).unwrap();
        let seen = run(&kernel, &loader, "true", Observe::Trace).unwrap();
        assert_eq!(seen.not_in_force, None);
        let pid = fs::read_to_string(kernel.path().join("pid")).unwrap();
        assert!(!std::path::Path::new("/proc").join(pid.trim()).exists());
    }
}
