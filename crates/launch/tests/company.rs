//! Company of a program: in force or not, and whatever it does, nothing of it remains.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use launch::{Company, Conditions, Descendants, Exit, Launch, LaunchError, Launched, Observe, Output, launch};
use machine::linux::Pid;
use machine::{CpuSet, Placement};
use std::fs;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What all company of a test has in its environment.
const MARK: &str = "STAYPUT_TEST_COMPANY";

/// Children belong to the process, so one test at a time looks for them.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A company of `script`, marked.
fn company(script: &str) -> Company {
    let words = ["env".to_owned(), format!("{MARK}={}", std::process::id()), "sh".into(), "-c".into(), script.into()];
    shell_words::join(words).parse().unwrap()
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

fn assert_nothing_is_left(of: &str) {
    assert_eq!(marked(), [], "{of}");
    assert_eq!(Pid(std::process::id() as i32).children(), [], "{of}");
}

const MODES: [(Observe, Output, Descendants); 3] = [
    (Observe::Trace, Output::Capture, Descendants::Kill),
    (Observe::Poll, Output::Capture, Descendants::Kill),
    (Observe::Trace, Output::Inherit, Descendants::Detach),
];

fn beside(company: &Company, program: &str, mode: (Observe, Output, Descendants)) -> Result<Launched, LaunchError> {
    let (observe, output, descendants) = mode;
    let conditions = Conditions { company: Some(company.clone()), ..Conditions::default() };
    let argv = ["sh", "-c", program].map(Into::into).to_vec();
    launch(&Launch { observe, output, descendants, conditions, ..Launch::new(argv) })
}

/// What came of a program beside company, in each mode; nothing is left of either.
fn each_mode(script: &str, program: &str) -> Vec<Launched> {
    let launched = MODES.map(|mode| {
        let launched = beside(&company(script), program, mode).unwrap();
        assert_nothing_is_left(script);
        assert_eq!(launched.observation.leftovers, 0, "{script}");
        launched
    });
    launched.into()
}

#[test]
fn company_that_ends_before_the_program_is_not_in_force() {
    let _alone = alone();
    for (script, how) in [
        ("exit 0", "with exit code 0, before the program did"),
        ("exit 3", "with exit code 3, before the program did"),
        ("echo; echo one; echo two words >&2; exit 3", "with exit code 3, before the program did: \"two words\""),
        ("kill -9 $$", "by SIGKILL, before the program did"),
        // What fails and leaves others behind has failed.
        ("sleep 1000 & exit 3", "with exit code 3, before the program did"),
        // What ends well and leaves others behind ends with those.
        ("(setsid true &) & exit 0", "with exit code 0, before the program did"),
    ] {
        for launched in each_mode(script, "exit 7") {
            assert_eq!(launched.observation.exit, Exit::Code(7), "the program runs all the same");
            let why = launched.not_in_force.unwrap();
            assert!(
                why.starts_with("its company 'env ") && why.contains("' ended after 0.") && why.ends_with(how),
                "{why}"
            );
        }
    }
}

#[test]
fn company_that_ends_while_the_program_runs_is_not_in_force() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let (go, pid) = (folder.path().join("go"), folder.path().join("pid"));
    assert!(std::process::Command::new("mkfifo").arg(&go).status().unwrap().success());
    let script = format!("echo $$ > {0}; read line < {1}; echo $line >&2; exit 4", pid.display(), go.display());
    let program = format!(
        "until [ -s {0} ]; do :; done; echo bye > {1}; while [ -e /proc/$(cat {0}) ]; do :; done; rm {0}",
        pid.display(),
        go.display()
    );
    for launched in each_mode(&script, &program) {
        let why = launched.not_in_force.unwrap();
        assert!(why.ends_with("with exit code 4, before the program did: \"bye\""), "{why}");
    }
}

#[test]
fn whatever_company_does_it_is_in_force_and_nothing_of_it_remains() {
    let _alone = alone();
    for (script, processes) in [
        ("exec sleep 1000", 1),
        ("sleep 1000 & sleep 1000 & wait", 3),
        // It becomes a daemon, once and twice.
        ("setsid sleep 1000 & exit 0", 1),
        ("setsid sh -c '(setsid sleep 1000 &) ; sleep 1000 & exit 0' & exit 0", 2),
        // It heeds no signal.
        ("trap '' TERM INT HUP QUIT USR1; while :; do sleep 1000; done", 2),
        ("setsid sh -c 'trap \"\" TERM INT HUP; while :; do sleep 1000; done' & wait", 3),
        // It stops itself.
        ("sleep 1000 & kill -STOP $$", 2),
        // It writes without end.
        ("exec yes", 1),
        ("exec yes >&2", 1),
        ("yes & yes >&2 & setsid yes >&2 & wait", 4),
        // It never ceases to start others, which leave it, and its session.
        ("while :; do (sleep 1000 &); done", 1),
        ("while :; do (setsid sh -c 'sleep 1000 & sleep 1000' &); done", 1),
    ] {
        for launched in each_mode(script, "exit 7") {
            assert_eq!(launched.not_in_force, None, "{script}");
            assert_eq!(launched.observation.exit, Exit::Code(7));
            let seen = launched.observation.conditions.company.unwrap();
            assert!(seen.processes >= processes, "{script}: {seen:?}");
        }
    }
}

#[test]
fn company_that_kills_who_watches_it_ends_with_it() {
    let _alone = alone();
    for mode in MODES {
        let launched = beside(&company("sleep 1000 & (sleep 1000 &); kill -9 $PPID; wait"), "exit 7", mode).unwrap();
        let why = launched.not_in_force.unwrap();
        assert!(why.contains(" with the process that watched it, which was killed, before the program did"), "{why}");
        assert_nothing_is_left("company that was left alone");
    }
}

#[test]
fn company_that_cannot_start_is_told_before_the_program_does() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let missing: Company = "/no/such/program --cache 2".parse().unwrap();
    assert_eq!(
        missing.lacking().unwrap(),
        "its company '/no/such/program --cache 2' can't be started: /no/such/program: command not found"
    );
    assert_eq!(company("exit 0").lacking(), None);
    let conditions = Conditions { company: Some(missing.clone()), ..Conditions::default() };
    assert_eq!(conditions.lacking(), missing.lacking());

    // Only its exec finds out that the interpreter isn't a program.
    let script = folder.path().join("script");
    fs::write(&script, "#!/etc/passwd\n").unwrap();
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let refused: Company = script.to_str().unwrap().parse().unwrap();
    assert_eq!(refused.lacking(), None);
    let touched = folder.path().join("touched");
    for mode in MODES {
        for company in [&missing, &refused] {
            let error = beside(company, &format!("touch {}", touched.display()), mode).unwrap_err();
            assert!(matches!(error, LaunchError::Conditions(_)), "{error:?}");
            assert!(error.to_string().starts_with(&format!("its company '{company}' can't be started: /")), "{error}");
            assert_nothing_is_left("company that can't start");
        }
    }
    assert!(!touched.exists(), "the program ran");
}

#[test]
fn a_program_that_cannot_start_leaves_no_company() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    fs::write(&script, "#!/etc/passwd\n").unwrap();
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for (observe, output, descendants) in MODES {
        let conditions = Conditions { company: Some(company("sleep 1000 & wait")), ..Conditions::default() };
        let launch = Launch { observe, output, descendants, conditions, ..Launch::new(vec![script.clone().into()]) };
        assert!(matches!(launch::launch(&launch), Err(LaunchError::NotExecutable { .. })));
        assert_nothing_is_left("a program that can't start");
    }
}

/// The value after a name in a file of `/proc/PID/status`'s form.
fn value(file: &Path, name: &str) -> String {
    let text = fs::read_to_string(file).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}:"))).unwrap();
    line.trim().to_owned()
}

#[test]
fn company_has_all_cpus_default_signals_and_nothing_of_ours() {
    let _alone = alone();
    let allowed = machine::linux::allowed_cpus().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let [status, stat, open] = ["status", "stat", "open"].map(|name| folder.path().join(name));
    let script = format!(
        "cat /proc/self/status > {}; cat /proc/self/stat > {}; ls -l /proc/self/fd > {}; exec sleep 1000",
        status.display(),
        stat.display(),
        open.display()
    );
    let first = CpuSet::from(allowed.first().unwrap());
    let placement = Some(Placement { policy: "list".into(), slots: vec![first.clone()] });
    let conditions = Conditions { company: Some(company(&script)), ..Conditions::default() };
    let program = format!("until [ -s {} ]; do :; done", open.display());
    let argv = ["sh", "-c", &program].map(Into::into).to_vec();
    let launched = launch(&Launch { placement, conditions, ..Launch::new(argv) }).unwrap();
    assert_eq!(launched.observation.threads[0].actual_cpus, first);
    assert_eq!(value(&status, "Cpus_allowed_list").parse::<CpuSet>().unwrap(), allowed);
    for signals in ["SigBlk", "SigIgn", "SigCgt"] {
        // The C library keeps signals 32 and 33 for itself.
        let set = u64::from_str_radix(&value(&status, signals), 16).unwrap() & !(0b11 << 31);
        assert_eq!(set, 0, "{signals}");
    }
    // Its session is neither ours nor that of whoever watches it.
    let text = fs::read_to_string(&stat).unwrap();
    let numbers: Vec<i32> =
        text.rsplit_once(") ").unwrap().1.split(' ').skip(1).take(3).map(|n| n.parse().unwrap()).collect();
    assert_eq!(numbers[0], numbers[2], "the shell, its parent, leads its session");
    assert_ne!(Some(Pid(numbers[2])), Pid(std::process::id() as i32).session());
    let open = fs::read_to_string(&open).unwrap();
    let files: Vec<&str> = open.lines().filter_map(|line| line.split_once(" -> ")).map(|(_, file)| file).collect();
    // Its three, and the folder that ls reads.
    assert!(files.len() == 4 && files[0] == "/dev/null" && files[2].starts_with("pipe:"), "{open}");
    assert_nothing_is_left("company");
}

#[test]
fn what_is_seen_of_the_program_has_nothing_of_its_company() {
    let _alone = alone();
    let script = "for i in 1 2 3; do while :; do (true); done & done; wait";
    for launched in each_mode(script, "(true); (true) & wait; sleep 1") {
        let seen = launched.observation;
        let company = seen.conditions.company.clone().unwrap();
        assert!(company.processes >= 4, "{company:?}");
        assert!(company.cpu_s > 0.0);
        assert!(seen.user_s + seen.system_s < seen.wall_s / 2.0, "a second of sleep: {seen:?}");
        // The shell, its two children, and sleep.
        assert!(seen.threads.iter().all(|thread| thread.process < 4), "{:?}", seen.threads);
        assert_eq!((seen.exit, seen.leftovers), (Exit::Code(0), 0));
    }
    let alone = launch(&Launch::new(vec!["true".into()])).unwrap();
    assert_eq!(alone.observation.conditions.company, None);
}
