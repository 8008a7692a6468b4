//! Several programs at once: under which conditions each runs, how long, and that nothing remains of any of them, whatever happens.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use launch::{Exit, Job, JobRun, Jobs, JobsLaunched, Launch, LaunchError, launch_jobs};
use machine::linux::{Pid, allowed_cpus};
use machine::{CpuSet, Placement};
use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What all programs of a test have in their environment.
const MARK: &str = "STAYPUT_TEST_JOBS";

/// Children belong to the process, so one test at a time looks for them.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What `sh` is to do as one of several, marked.
fn job(script: &str) -> Job {
    let env = vec![(MARK.into(), std::process::id().to_string().into())];
    let argv = ["sh", "-c", script].map(Into::into).to_vec();
    Job { launch: Launch { env, ..Launch::new(argv) }, ..Job::default() }
}

fn repeated(script: &str) -> Job {
    Job { repeat: true, ..job(script) }
}

fn later(start: Duration, job: Job) -> Job {
    Job { start, ..job }
}

fn on(cpus: &CpuSet, mut job: Job) -> Job {
    job.launch.placement = Some(Placement { policy: "list".into(), slots: vec![cpus.clone()] });
    job
}

/// Processes that were marked by this process and run.
fn marked() -> Vec<Pid> {
    let mark = format!("{MARK}={}\0", std::process::id());
    let is_marked = |pid: &Pid| {
        let environment = fs::read(format!("/proc/{}/environ", pid.0)).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(&mark) && !pid.is_zombie()
    };
    Pid::all().into_iter().filter(is_marked).collect()
}

/// What came of these jobs, of which nothing is left.
fn mix(jobs: impl Into<Vec<Job>>) -> Result<JobsLaunched, LaunchError> {
    let launched = launch_jobs(&Jobs { jobs: jobs.into(), ..Jobs::default() });
    assert_nothing_is_left();
    launched
}

fn assert_nothing_is_left() {
    assert_eq!(marked(), []);
    assert_eq!(Pid(std::process::id() as i32).children(), []);
}

fn exits(runs: &[JobRun]) -> Vec<Exit> {
    runs.iter().map(|run| run.launched.observation.exit).collect()
}

#[test]
fn each_runs_once_at_the_same_time_as_the_others_and_says_what_it_said() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    // Each waits for the other.
    let script = |own: &str, other: &str| {
        let folder = folder.path().display();
        format!("touch {folder}/{own}; until [ -e {folder}/{other} ]; do sleep 0.01; done; echo {own}")
    };
    let seen = mix([job(&script("a", "b")), job(&script("b", "a"))]).unwrap();
    assert_eq!((seen.failed, seen.timed_out, &seen.not_in_force), (None, false, &None));
    for (launched, said) in seen.jobs.iter().zip(["a\n", "b\n"]) {
        let [run] = &launched.runs[..] else { panic!("{launched:?}") };
        assert_eq!((run.launched.observation.exit, run.cut_short), (Exit::Code(0), false));
        assert_eq!(run.launched.stdout.text(), said);
        assert!(run.started_s < run.ended_s && run.ended_s <= seen.makespan_s().unwrap());
    }
    let [a, b] = &seen.jobs[..] else { panic!("{seen:?}") };
    assert!(a.runs[0].started_s < b.runs[0].ended_s && b.runs[0].started_s < a.runs[0].ended_s);
}

#[test]
fn each_is_bound_to_its_own_cpus_and_read_back_there() {
    let _alone = alone();
    let cpus: Vec<CpuSet> = allowed_cpus().unwrap().iter().map(CpuSet::from).collect();
    let (first, last) = (cpus.first().unwrap(), cpus.last().unwrap());
    let script = "grep Cpus_allowed_list /proc/self/status; true";
    let seen = mix([on(first, job(script)), on(last, job(script)), job(script)]).unwrap();
    for (launched, cpus) in seen.jobs.iter().zip([first, last, &allowed_cpus().unwrap()]) {
        let run = &launched.runs[0].launched;
        assert_eq!(run.stdout.text(), format!("Cpus_allowed_list:\t{cpus}\n"));
        assert!(run.observation.threads.iter().all(|thread| thread.actual_cpus == *cpus), "{:?}", run.observation);
    }
}

#[test]
fn one_that_is_repeated_runs_until_all_have_ended_once() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().join("runs");
    let counted = format!("echo x | tee -a {}", runs.display());
    let waits = format!("until [ $(wc -l < {}) -ge 5 ]; do sleep 0.01; done", runs.display());
    let seen = mix([repeated(&counted), job(&waits)]).unwrap();
    assert_eq!((seen.failed, seen.jobs[1].runs.len()), (None, 1));
    let repeated = &seen.jobs[0].runs;
    assert!(repeated.len() >= 5 && repeated[..4].iter().all(|run| !run.cut_short), "{repeated:?}");
    assert!(repeated.is_sorted_by(|one, next| one.ended_s <= next.started_s));
    let outputs: Vec<_> =
        repeated[..4].iter().map(|run| (run.launched.stdout.text().len(), run.launched.stdout.total_bytes)).collect();
    assert_eq!(outputs, [(2, 2), (0, 2), (0, 2), (0, 2)]);
    let (whole, lines) =
        (repeated.iter().filter(|run| !run.cut_short).count(), fs::read_to_string(&runs).unwrap().lines().count());
    assert!(whole <= lines && lines <= repeated.len(), "{whole}, {lines}, {}", repeated.len());
}

#[test]
fn what_is_repeated_is_cut_short_and_read_back_when_the_slowest_has_ended() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let again = folder.path().join("again");
    let first = CpuSet::from(allowed_cpus().unwrap().first().unwrap());
    // It ends once; its second run would last.
    let lasts = format!("[ ! -e {0} ] || touch {0}.2; if [ -e {0} ]; then sleep 1000; fi; touch {0}", again.display());
    let waits = format!("until [ -e {}.2 ]; do sleep 0.01; done", again.display());
    let seen = mix([on(&first, repeated(&lasts)), job(&waits)]).unwrap();
    let runs = &seen.jobs[0].runs;
    assert_eq!(exits(runs), [Exit::Code(0), Exit::Signal(libc::SIGKILL)]);
    assert_eq!(runs.iter().map(|run| run.cut_short).collect::<Vec<_>>(), [false, true]);
    assert!(runs[1].launched.observation.threads.iter().all(|thread| thread.actual_cpus == first));
    assert_eq!((seen.failed, runs[1].launched.observation.leftovers), (None, 0));
    assert_eq!(seen.makespan_s(), Some(seen.jobs[1].runs[0].ended_s));
}

#[test]
fn one_that_starts_later_starts_no_sooner() {
    let _alone = alone();
    let ms = Duration::from_millis;
    let seen = mix([later(ms(300), job("true")), job("true"), later(ms(150), job("true"))]).unwrap();
    let starts: Vec<f64> = seen.jobs.iter().map(|job| job.runs[0].started_s).collect();
    assert!(starts[0] >= 0.3 && starts[2] >= 0.15 && starts[1] < starts[2] && starts[2] < starts[0], "{starts:?}");
}

#[test]
fn what_cannot_start_is_told_before_anything_does() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let touched = folder.path().join("touched");
    let touches = || job(&format!("touch {}", touched.display()));
    let with = |launch: Launch| mix([touches(), Job { launch, ..Job::default() }]).unwrap_err();
    let missing = with(Launch::new(vec!["no-such-program".into()]));
    assert!(matches!(missing, LaunchError::NotFound { .. }), "{missing:?}");
    assert!(matches!(with(Launch::default()), LaunchError::NoProgram));
    assert!(matches!(mix([]).unwrap_err(), LaunchError::NoProgram));
    let nowhere = on(&"9999".parse().unwrap(), job("true"));
    let said = mix([touches(), nowhere]).unwrap_err().to_string();
    assert!(said.starts_with("job 2 (sh): CPUs 9999 cannot be used here"), "{said}");
    assert!(!touched.exists());
}
