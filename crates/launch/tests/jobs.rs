//! Several programs at once: under which conditions each runs, how long, and that nothing remains of any of them, whatever happens.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use launch::{
    Company, Conditions, Exit, Input, Job, JobRun, Jobs, JobsLaunched, KEPT_BYTES, Launch, LaunchError, Still,
};
use launch::{KEPT_RUNS, Observation, Observe, launch_jobs, trace_available};
use machine::linux::{Pid, allowed_cpus};
use machine::{CpuId, CpuSet, Placement};
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

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

/// A company of `script`, marked.
fn company(script: &str) -> Conditions {
    let mark = format!("{MARK}={}", std::process::id());
    let words = ["env", &mark, "sh", "-c", script];
    let company: Company = shell_words::join(words).parse().unwrap();
    Conditions { company: Some(company), ..Conditions::default() }
}

/// Processes that carry this mark and run.
fn marked(mark: &str) -> Vec<Pid> {
    let mark = format!("{MARK}={mark}\0");
    let is_marked = |pid: &Pid| {
        let environment = fs::read(format!("/proc/{}/environ", pid.0)).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(&mark) && !pid.is_zombie()
    };
    Pid::all().into_iter().filter(is_marked).collect()
}

/// What came of these jobs, of which nothing is left.
fn mix(jobs: impl Into<Vec<Job>>) -> Result<JobsLaunched, LaunchError> {
    mix_under(Conditions::default(), jobs)
}

/// The same under these conditions of all.
fn mix_under(conditions: Conditions, jobs: impl Into<Vec<Job>>) -> Result<JobsLaunched, LaunchError> {
    mix_of(&Jobs { jobs: jobs.into(), conditions, ..Jobs::default() })
}

fn mix_of(jobs: &Jobs) -> Result<JobsLaunched, LaunchError> {
    let launched = launch_jobs(jobs);
    assert_eq!(marked(&std::process::id().to_string()), []);
    assert_eq!(Pid(std::process::id() as i32).children(), []);
    launched
}

/// What was seen of the first run of a job.
fn first_of(seen: &JobsLaunched, job: usize) -> &Observation {
    &seen.jobs[job].runs[0].launched.observation
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
fn of_very_many_runs_that_go_well_the_later_ones_are_counted() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().join("runs");
    let counted = format!("printf x >> {}", runs.display());
    let waits = format!("until [ $(wc -c < {}) -ge {} ]; do sleep 0.05; done", runs.display(), KEPT_RUNS + 100);
    let seen = mix([repeated(&counted), job(&waits)]).unwrap();
    let (kept, more) = (seen.jobs[0].runs.len(), seen.jobs[0].more_runs as usize);
    let written = fs::read(&runs).unwrap().len();
    // The last one may have been cut short, after it had written or before.
    assert!(kept <= KEPT_RUNS + 1 && more >= 98 && (kept + more).abs_diff(written) <= 1, "{kept} + {more}, {written}");
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
    // Only its exec finds out that the interpreter isn't a program.
    let script = folder.path().join("script");
    fs::write(&script, "#!/etc/passwd\n").unwrap();
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let launch = Launch::new(vec![script.clone().into()]);
    let said = mix([job("sleep 1000"), Job { launch, ..Job::default() }]).unwrap_err().to_string();
    assert!(said.starts_with("job 2 (") && said.contains("cannot be executed"), "{said}");
    let nowhere = on(&"9999".parse().unwrap(), job("true"));
    let said = mix([touches(), nowhere]).unwrap_err().to_string();
    assert!(said.starts_with("job 2 (sh): CPUs 9999 cannot be used here"), "{said}");
    assert!(!touched.exists());
}

#[test]
fn each_reads_its_input_from_the_start_and_has_no_descriptor_or_signal_of_ours() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("in");
    fs::write(&path, "one\ntwo\n").unwrap();
    let input = Some(Input::new(File::open(&path).unwrap()).unwrap());
    let reading = |mut job: Job| {
        job.launch.input.clone_from(&input);
        job
    };
    let script = "cat; ls /proc/self/fd | wc -l";
    // Without a shell, which would clear the mask itself.
    let signals = ["grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"].map(Into::into).to_vec();
    let signals = Job { launch: Launch::new(signals), ..Job::default() };
    let seen = mix([reading(job(script)), reading(repeated("cat >&2")), reading(job(script)), signals]).unwrap();
    assert_eq!(seen.jobs[1].runs[0].launched.stderr.text(), "one\ntwo\n");
    for job in [0, 2] {
        // Its three, and the folder that ls reads.
        assert_eq!(seen.jobs[job].runs[0].launched.stdout.text(), "one\ntwo\n4\n");
    }
    let text = seen.jobs[3].runs[0].launched.stdout.text().into_owned();
    let sets = text.lines().map(|line| u64::from_str_radix(line.rsplit('\t').next().unwrap(), 16).unwrap());
    // The C library keeps signals 32 and 33 for itself.
    assert_eq!(sets.map(|set| set & !(0b11 << 31)).collect::<Vec<_>>(), [0, 0], "{text}");
}

#[test]
fn when_one_fails_all_are_killed_at_once_and_it_is_named() {
    let _alone = alone();
    for (fails, exit) in [("exit 3", Exit::Code(3)), ("kill -SEGV $$", Exit::Signal(libc::SIGSEGV))] {
        let tree = "sleep 1000 & setsid sleep 1000 & trap '' TERM INT HUP; while :; do sleep 1000; done";
        let seen =
            mix([job(tree), job(fails), repeated("true"), later(Duration::from_secs(1000), job("true"))]).unwrap();
        assert_eq!((seen.failed, seen.timed_out, seen.makespan_s()), (Some(1), false, None));
        assert_eq!(exits(&seen.jobs[1].runs), [exit]);
        assert!(seen.jobs[1].runs[0].failed() && !seen.jobs[1].runs[0].cut_short);
        // The tree may not have begun when the other had failed already.
        assert!(seen.jobs[0].runs.iter().all(|run| run.cut_short && !run.failed()));
        assert_eq!(seen.jobs[3].runs, []);
    }
    // One that fails when it is repeated.
    let folder = tempfile::tempdir().unwrap();
    let once = format!("[ ! -e {0}/a ] && touch {0}/a", folder.path().display());
    let seen = mix([job("sleep 1000"), repeated(&once)]).unwrap();
    assert_eq!((seen.failed, exits(&seen.jobs[1].runs)), (Some(1), vec![Exit::Code(0), Exit::Code(1)]));
}

#[test]
fn what_hangs_is_killed_when_time_is_up() {
    let _alone = alone();
    let timeout = Some(Duration::from_millis(300));
    let hangs = job("trap '' TERM INT HUP; sleep 1000 & while :; do sleep 1000; done");
    let jobs = vec![hangs.clone(), repeated("true"), later(Duration::from_secs(1000), job("true"))];
    let seen = mix_of(&Jobs { jobs, timeout, ..Jobs::default() }).unwrap();
    assert_eq!((seen.failed, seen.timed_out, seen.makespan_s()), (None, true, None));
    assert!(seen.jobs[0].runs[0].cut_short && seen.jobs[0].runs[0].ended_s >= 0.3 && seen.jobs[2].runs.is_empty());
    // The time of each run of a job is up.
    let launch = Launch { timeout, ..hangs.launch };
    let seen = mix([job("sleep 1000"), Job { launch, ..Job::default() }]).unwrap();
    assert_eq!((seen.failed, seen.timed_out, first_of(&seen, 1).exit), (Some(1), false, Exit::TimedOut));
}

/// What stops the process that watches its program, which has written whom that is to a file.
fn of_watcher(folder: &Path, does: &str) -> [Job; 2] {
    let (new, file) = (folder.join("new"), folder.join("watcher"));
    let program = format!(
        "echo $PPID > {0}; mv {0} {1}; sleep 1000 & (setsid sleep 1000 &); until [ -e {1}.done ]; do sleep 0.01; done",
        new.display(),
        file.display()
    );
    let other =
        format!("until [ -e {0} ]; do sleep 0.01; done; watcher=$(cat {0}); {does}; touch {0}.done", file.display());
    [job(&program), job(&other)]
}

#[test]
fn when_the_process_that_watches_one_is_killed_it_is_named_and_nothing_remains() {
    let _alone = alone();
    let supervisor = "kill -9 $(cut -d' ' -f4 /proc/$watcher/stat); sleep 1000";
    for (does, how) in
        [("kill -9 $watcher; sleep 1000", "by SIGKILL"), (supervisor, "with its supervisor, which was killed")]
    {
        let folder = tempfile::tempdir().unwrap();
        let said = mix(of_watcher(folder.path(), does)).unwrap_err().to_string();
        assert_eq!(said, format!("job 1 (sh): the process that watched it ended {how}"));
    }
    // By its own program; and it is asked to end.
    let [error, asked] = ["kill -9 $PPID", "kill $PPID"].map(|script| {
        mix([job("sleep 1000"), job(&format!("sleep 1000 & {script}; sleep 1000"))]).unwrap_err().to_string()
    });
    assert_eq!(error, "job 2 (sh): the process that watched it ended by SIGKILL");
    assert!(asked.starts_with("job 2 (sh): interrupted by signal 15"), "{asked}");
}

#[test]
fn a_watcher_that_never_goes_on_is_killed_when_time_is_up() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let jobs = of_watcher(folder.path(), "kill -STOP $watcher").into();
    let timeout = Some(Duration::from_secs(1));
    let seen = mix_of(&Jobs { jobs, timeout, ..Jobs::default() }).unwrap();
    assert!(seen.timed_out && seen.jobs[0].runs.is_empty() && seen.makespan_s().is_none(), "{seen:?}");
}

#[test]
fn whoever_stands_still_the_whole_is_disturbed() {
    let _alone = alone();
    if let Err(why) = trace_available() {
        return println!("skipped: {why}");
    }
    let we = std::process::id();
    for (stopped, what) in [
        ("$watcher".to_owned(), Still::Watcher),
        (we.to_string(), Still::Watcher),
        ("$(head -n 1 /proc/$watcher/task/$watcher/children | cut -d' ' -f1)".into(), Still::Program),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let does = format!("who={stopped}; kill -STOP $who; sleep 0.8; kill -CONT $who");
        let seen = mix(of_watcher(folder.path(), &does)).unwrap();
        assert_eq!(seen.standstill.map(|standstill| standstill.what), Some(what), "{stopped}: {seen:?}");
        assert!(seen.makespan_s().unwrap() >= 0.8);
    }
}

#[test]
fn a_signal_that_interrupts_us_ends_all() {
    let _alone = alone();
    let we = std::process::id();
    for signal in ["INT", "TERM", "HUP"] {
        let jobs = [job("sleep 1000 & (setsid sleep 1000 &); wait"), job(&format!("kill -{signal} {we}; sleep 1000"))];
        let error = mix_under(company("sleep 1000 & wait"), jobs).unwrap_err();
        assert!(matches!(error, LaunchError::Interrupted { .. }), "{error:?}");
    }
}

#[test]
fn where_ptrace_is_not_used_all_ends_likewise() {
    let _alone = alone();
    let polled = |mut job: Job| {
        job.launch.observe = Observe::Poll;
        job
    };
    let tree = "sleep 1000 & (setsid sleep 1000 &);";
    let seen = mix([polled(job(&format!("{tree} sleep 0.2"))), polled(repeated("sleep 0.05"))]).unwrap();
    assert_eq!((seen.failed, first_of(&seen, 0).leftovers), (None, 2));
    assert!(seen.jobs[1].runs.iter().rev().skip(1).all(|run| !run.cut_short));
    let seen = mix([polled(job(&format!("{tree} sleep 1000"))), polled(job("exit 3"))]).unwrap();
    assert_eq!((seen.failed, exits(&seen.jobs[1].runs)), (Some(1), vec![Exit::Code(3)]));
    let error =
        mix([polled(job(&format!("{tree} kill -9 $PPID; sleep 1000"))), polled(job("sleep 1000"))]).unwrap_err();
    assert_eq!(error.to_string(), "job 1 (sh): the process that watched it ended by SIGKILL");
}

#[test]
fn what_one_leaves_behind_is_killed_and_counted() {
    let _alone = alone();
    let daemons = "setsid sleep 1000 & (setsid sleep 1000 &) ; exit 0";
    let seen = mix([job(daemons), job("true")]).unwrap();
    assert_eq!((seen.failed, first_of(&seen, 0).leftovers, first_of(&seen, 1).leftovers), (None, 2, 0));
}

#[test]
fn floods_of_output_keep_their_start_and_end_in_each() {
    let _alone = alone();
    const BYTES: usize = 20 << 20;
    let flood = format!("yes | head -c {BYTES}; yes no | head -c {BYTES} >&2");
    let seen = mix([job(&flood), job(&flood), repeated(&flood)]).unwrap();
    assert_eq!(seen.failed, None);
    for job in &seen.jobs {
        let run = &job.runs[0].launched;
        for output in [&run.stdout, &run.stderr] {
            assert_eq!(
                (output.total_bytes, output.head.len(), output.tail.len()),
                (BYTES as u64, KEPT_BYTES, KEPT_BYTES)
            );
        }
    }
}

#[test]
fn conditions_of_all_are_those_of_each_that_says_nothing_itself() {
    let _alone = alone();
    let sched = |word: &str| Conditions { scheduling: word.parse().unwrap(), ..Conditions::default() };
    let mut batch = job("true");
    batch.launch.conditions = sched("batch");
    let seen = mix_under(sched("nice=7"), [job("true"), batch.clone(), job("true")]).unwrap();
    let read = |job| first_of(&seen, job).conditions.scheduling.clone().unwrap();
    assert_eq!((read(0).nice, read(1).policy.as_deref(), read(2).nice), (Some(7), Some("batch"), Some(7)));
    assert_ne!(read(1).nice, Some(7));
    for (level, conditions) in [
        ("company 'sleep 9'", Conditions { company: Some("sleep 9".parse().unwrap()), ..Conditions::default() }),
        ("huge-pages=always", Conditions { huge_pages: launch::HugePages::Always, ..Conditions::default() }),
        ("sched=light", sched("light")),
    ] {
        let mut of_machine = job("true");
        of_machine.launch.conditions = conditions;
        let said = mix([job("true"), of_machine]).unwrap_err().to_string();
        assert_eq!(said, format!("job 2 (sh): {level} concerns the whole machine, and can be given to all jobs only"));
    }
}

#[test]
fn processes_of_all_are_attached_to_the_cpu_that_has_the_fewest_of_all() {
    let _alone = alone();
    let cpus = allowed_cpus().unwrap();
    if let Err(why) = trace_available() {
        return println!("skipped: {why}");
    }
    let attached = Conditions { scheduling: "attached".parse().unwrap(), ..Conditions::default() };
    let folder = tempfile::tempdir().unwrap();
    let end = folder.path().join("end");
    // As many as there are CPUs, and one more; each begins when those before it have, and all end together.
    let count = cpus.len() + 1;
    let jobs: Vec<Job> = (0..count)
        .map(|number| {
            let turn = |number| format!("{}/{number}", folder.path().display());
            let before = if number == 0 {
                String::new()
            } else {
                format!("until [ -e {} ]; do sleep 0.01; done;", turn(number - 1))
            };
            // What it runs to wait has ended by then, but for the one that it is itself.
            let last = if number + 1 == count { format!("touch {};", end.display()) } else { String::new() };
            let mut job =
                job(&format!("{before} touch {}; {last} until [ -e {} ]; do :; done", turn(number), end.display()));
            job.start = Duration::from_millis(100) * number as u32;
            job
        })
        .collect();
    let seen = mix_under(attached, jobs).unwrap();
    let of_commands: Vec<CpuId> =
        (0..count).map(|job| first_of(&seen, job).conditions.scheduling.as_ref().unwrap().attached[0].cpu).collect();
    let expected: Vec<CpuId> = cpus.iter().chain(cpus.first()).collect();
    assert_eq!(of_commands, expected);
    for (job, cpu) in of_commands.into_iter().enumerate() {
        assert_eq!(first_of(&seen, job).threads[0].actual_cpus, CpuSet::from(cpu));
    }
}

#[test]
fn company_of_all_is_in_force_until_all_have_ended_or_told() {
    let _alone = alone();
    let seen = mix_under(company("sleep 1000 & wait"), [job("sleep 0.1"), job("true")]).unwrap();
    assert_eq!(
        (seen.not_in_force.as_deref(), seen.conditions.company.map(|company| company.processes)),
        (None, Some(2))
    );
    assert!((0..2).all(|job| seen.jobs[job].runs[0].launched.observation.conditions.company.is_none()));
    let seen = mix_under(company("exit 3"), [job("sleep 0.1"), job("true")]).unwrap();
    let why = seen.not_in_force.unwrap();
    assert!(why.contains("with exit code 3, before the program did"), "{why}");
}

/// Names the mark of what the process that is killed starts.
const TO_BE_KILLED: &str = "STAYPUT_TEST_JOBS_KILLED";

#[test]
#[ignore = "it is started by another test, and killed"]
fn launches_jobs_and_waits() {
    let Some(mark) = std::env::var_os(TO_BE_KILLED) else { return };
    let mark = mark.to_str().unwrap();
    assert_eq!(std::env::var(MARK).unwrap(), mark);
    let of_mark = |script: &str| Launch::new(["sh", "-c", script].map(Into::into).to_vec());
    let job = |script: &str| Job { launch: of_mark(script), ..Job::default() };
    // A tree with daemons, one whose processes are no longer traced, one that is always begun anew, one that is still held.
    let births = "i=0; while [ $i -lt 100 ]; do /bin/true; i=$((i+1)); done; setsid sleep 1000 & (setsid sleep 1000 &); sleep 1000";
    let jobs = vec![
        job("sleep 1000 & setsid sleep 1000 & (setsid sh -c 'sleep 1000; true' &); wait"),
        job(births),
        Job { repeat: true, ..job("(true); true") },
        Job { start: Duration::from_secs(1000), ..job("sleep 1000") },
    ];
    let company = Some("sh -c 'sleep 1000 & setsid sleep 1000 & wait'".parse().unwrap());
    let conditions = Conditions { company, ..Conditions::default() };
    let ended = launch_jobs(&Jobs { jobs, conditions, ..Jobs::default() });
    assert!(ended.is_err(), "{ended:?}");
}

/// Whether it is so sooner or later: to be killed is one thing, to be gone another.
fn comes_true(is_so: impl Fn() -> bool) -> bool {
    within(Duration::from_secs(30), is_so)
}

fn within(at_most: Duration, is_so: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    while !is_so() && begun.elapsed() < at_most {
        thread::sleep(Duration::from_millis(5));
    }
    is_so()
}

/// Starts the mix that lasts in a process of its own, with this mark.
fn lasting(mark: &str) -> std::process::Child {
    let mut we = Command::new(std::env::current_exe().unwrap());
    we.args(["--ignored", "--exact", "launches_jobs_and_waits"]).env(MARK, mark).env(TO_BE_KILLED, mark);
    we.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn killed_at_twenty_random_moments_nothing_of_us_remains() {
    let _alone = alone();
    let mut largest = 0;
    for moment in 0..20_u32 {
        let mark = format!("{}-{moment}", std::process::id());
        let mut we = lasting(&mark);
        thread::sleep(Duration::from_millis(RandomState::new().hash_one(moment) % 400));
        largest = largest.max(marked(&mark).len());
        we.kill().unwrap();
        we.wait().unwrap();
        assert!(comes_true(|| marked(&mark).is_empty()), "{moment}: {:?}", marked(&mark));
    }
    // Not all were killed before anything was there.
    assert!(largest > 10, "{largest}");
}

#[test]
fn whichever_process_of_ours_is_killed_nothing_remains() {
    let _alone = alone();
    let own = fs::read_link("/proc/self/exe").unwrap();
    // Workers, supervisors and the children that are held are told by what they execute.
    let is_own = |pid: &Pid| fs::read_link(pid.executable()).is_ok_and(|path| path == own);
    for number in 0.. {
        let mark = format!("{}-any-{number}", std::process::id());
        let mut we = lasting(&mark);
        let find = || marked(&mark).into_iter().filter(|pid| pid.0 != we.id() as i32 && is_own(pid));
        // Four workers with their supervisors, and that of the company.
        assert!(comes_true(|| find().count() >= 9));
        let found = find().nth(number);
        if let Some(pid) = found {
            send(pid, libc::SIGKILL);
        } else {
            send(Pid(we.id() as i32), libc::SIGTERM);
        }
        // Without its supervisor, company is only looked for at the end.
        if !within(Duration::from_secs(2), || marked(&mark).is_empty() || we_are_alone(&mark, &we)) {
            send(Pid(we.id() as i32), libc::SIGTERM);
        }
        we.wait().unwrap();
        assert!(comes_true(|| marked(&mark).is_empty()), "{number}: {:?}", marked(&mark));
        if found.is_none() {
            assert!(number >= 9, "{number}");
            break;
        }
    }
}

/// Whether nothing is left but the process that has started all.
fn we_are_alone(mark: &str, we: &std::process::Child) -> bool {
    marked(mark).iter().all(|pid| pid.0 == we.id() as i32)
}

fn send(pid: Pid, signal: libc::c_int) {
    // SAFETY: the call touches no memory; the process is one that this test has started.
    unsafe { libc::kill(pid.0, signal) };
}
