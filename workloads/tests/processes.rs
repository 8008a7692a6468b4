//! The programs that run other people's: a build by make and the C compiler, and a database server.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod built;

use built::{Built, built, compile, compile_altered, lines, refusal, run, text};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

fn both() -> [Built; 2] {
    [built!("affinity-pmake"), built!("affinity-oltp")]
}

/// Whether the output says that PostgreSQL is missing, which is told.
fn is_unavailable(output: &Output) -> bool {
    let said = text(&output.stderr);
    if said.contains("there is no PostgreSQL") {
        println!("skipped: {said}");
        return true;
    }
    false
}

fn assert_verified(executable: &Path, built: &Built, threads: u32) {
    let output = run(executable, &["S"], threads);
    let what = format!("{} with {threads} threads: {output:?}", executable.display());
    if is_unavailable(&output) {
        return;
    }
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""), "{what}");
    let lines = lines(&output);
    assert_eq!(lines["verification"], "successful", "{what}");
    let useful = built.program.classes[0].threads.min(u64::from(threads));
    assert_eq!((lines["threads"], lines["threads with work"]), (&*threads.to_string(), &*useful.to_string()), "{what}");
    let operations = lines["mops"].parse::<f64>().unwrap() * 1e6 * lines["seconds"].parse::<f64>().unwrap();
    let stated = built.program.classes[0].operations as f64;
    assert!((operations / stated - 1.0).abs() < 1e-3, "{what}: counted {operations}, the catalog says {stated}");
}

#[test]
fn they_verify_with_one_process_at_a_time_and_with_many() {
    for built in both() {
        for threads in [1, 16] {
            assert_verified(Path::new(built.executable), &built, threads);
        }
    }
}

#[test]
fn they_verify_under_clang_and_sanitizers_find_nothing() {
    for built in both() {
        let with = |name: &str, compiler: &str, flags: &[&str]| {
            compile(&built, &format!("{}-{name}", built.program.executable), |arguments| {
                compiler.clone_into(&mut arguments[0]);
                arguments.extend(flags.iter().map(|&flag| flag.to_owned()));
            })
        };
        assert_verified(&with("clang", "clang", &[]), &built, 3);
        let flags = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
        assert_verified(&with("asan", "gcc", &flags), &built, 7);
    }
}

#[test]
fn an_eighth_of_a_class_is_that_and_says_so() {
    for (built, what, all, eighth) in
        [(built!("affinity-pmake"), "lines", 11_040, 1_368), (built!("affinity-oltp"), "transactions", 2_000, 250)]
    {
        let part = |part: &str| {
            let mut command = Command::new(built.executable);
            command.arg("S").env("OMP_NUM_THREADS", "3").env("STAYPUT_PART", part).output().unwrap()
        };
        for (asked, counted, said) in [("1/8", eighth, Some("1/8")), ("1/1", all, None), ("", all, None)] {
            let output = part(asked);
            if is_unavailable(&output) {
                continue;
            }
            let lines = lines(&output);
            let is_counted = lines[what].starts_with(&format!("{counted} (reference {counted}, "));
            assert!(is_counted && lines["verification"] == "successful", "{asked}: {output:?}");
            assert_eq!(lines.get("part of the class").copied(), said, "{asked}: {output:?}");
        }
        for asked in ["8", "1/0", "1/17", "1/8 ", "2/8"] {
            let refused = refusal(&part(asked), 2);
            assert!(
                refused.contains(&format!("STAYPUT_PART is `{asked}`; it may be a part from 1/1 to 1/16")),
                "{refused}"
            );
        }
    }
    let ignores = built!("affinity-matrix");
    let output = Command::new(ignores.executable).arg("S").env("STAYPUT_PART", "1/8").output().unwrap();
    assert!(output.status.success() && !lines(&output).contains_key("part of the class"), "{output:?}");
}

#[test]
fn what_is_generated_or_asked_otherwise_fails_the_verification() {
    let alterations = [
        ("affinity-pmake", "record.y = record.x * 5", "record.y = record.x * 6"),
        ("affinity-pmake", "value << by | value >> (32 - by);\\n}", "value << by | value >> (31 - by);\\n}"),
        ("affinity-pmake", "FUNCTION_LINES = 9", "FUNCTION_LINES = 8"),
        (
            "affinity-oltp",
            "UPDATE tellers SET balance = balance + :delta",
            "UPDATE tellers SET balance = balance - :delta",
        ),
        ("affinity-oltp", "WHERE branch = :branch", "WHERE branch = 1"),
        ("affinity-oltp", "COMMIT;", "ROLLBACK;"),
    ];
    for built in both() {
        let altered = alterations.iter().enumerate().filter(|(_, (name, ..))| *name == built.program.executable);
        for (position, (name, from, to)) in altered {
            let executable = compile_altered(&built, &format!("{name}-altered-{position}"), from, to);
            let output = run(executable, &["S"], 8);
            if !is_unavailable(&output) {
                let verdict = (lines(&output).get("verification").copied(), output.status.code());
                assert_eq!(verdict, (Some("failed"), Some(1)), "{name} with `{to}`: {output:?}");
            }
        }
    }
}

/// A folder for temporary ones that every account may use, as a server's may not be root's.
fn open_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
    folder
}

/// Processes that work in a folder.
fn processes_in(folder: &Path) -> Vec<String> {
    let works_there = |cwd: &Path| fs::read_link(cwd).is_ok_and(|at| at.starts_with(folder));
    let all = fs::read_dir("/proc").unwrap().filter_map(Result::ok).map(|entry| entry.path());
    all.filter(|process| works_there(&process.join("cwd"))).map(|process| process.display().to_string()).collect()
}

/// Waits until something is so; a minute is more than anything takes that ends at all.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what} didn't happen");
        sleep(Duration::from_millis(5));
    }
}

/// Whether the program's folder in `parent` has a file.
fn has(parent: &Path, file: &str) -> bool {
    fs::read_dir(parent).unwrap().any(|folder| folder.is_ok_and(|folder| folder.path().join(file).exists()))
}

fn start(built: &Built, parent: &Path) -> Child {
    let mut command = Command::new(built.executable);
    command.arg("B").env("OMP_NUM_THREADS", "4").env("TMPDIR", parent).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

#[test]
fn nothing_is_left_of_them_however_they_are_killed() {
    // While files are written or the cluster is made, while it starts, and in the middle of the work.
    let moments = [
        ("affinity-pmake", ["file_0.c", "file_0.o", "file_9.o"]),
        ("affinity-oltp", ["initdb.log", "data/postmaster.pid", "schema.log"]),
    ];
    for (built, (_, files)) in both().iter().zip(moments) {
        for (signal, file) in [libc::SIGKILL, libc::SIGTERM, libc::SIGINT].into_iter().zip(files) {
            let parent = open_folder();
            let mut child = start(built, parent.path());
            let mut ended = false;
            wait_until("the moment", || {
                ended = child.try_wait().unwrap().is_some();
                ended || has(parent.path(), file)
            });
            if ended {
                println!("skipped: {} can't run here", built.executable);
                break;
            }
            // SAFETY: the process is our child, and not yet waited for.
            unsafe { libc::kill(child.id() as i32, signal) };
            child.wait().unwrap();
            wait_until("that the folder goes", || fs::read_dir(parent.path()).unwrap().next().is_none());
            wait_until("that all processes end", || processes_in(parent.path()).is_empty());
        }
    }
}

#[test]
fn nothing_is_left_of_one_that_is_asked_to_end_while_its_folder_is_made() {
    let pmake = built!("affinity-pmake");
    for _ in 0..200 {
        let parent = open_folder();
        let mut child = start(&pmake, parent.path());
        // Without sleep: the moment is as long as it takes to start the keeper.
        while fs::read_dir(parent.path()).unwrap().next().is_none() {
            assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        }
        // SAFETY: the process is our child, and not yet waited for.
        unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
        child.wait().unwrap();
        wait_until("that the folder goes", || fs::read_dir(parent.path()).unwrap().next().is_none());
    }
}

#[test]
fn a_folder_that_is_left_when_the_keeper_is_killed_too_is_removed_by_the_next_one() {
    let pmake = built!("affinity-pmake");
    let parent = open_folder();
    let mut child = start(&pmake, parent.path());
    wait_until("the moment", || has(parent.path(), "file_0.o"));
    // Whoever kills all that a program has started finds its keeper, too.
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).unwrap();
    for process in children.split_whitespace().map(|id| id.parse().unwrap()).chain([child.id() as i32]) {
        // SAFETY: the process is our child, or its child, and neither is waited for yet.
        unsafe { libc::kill(process, libc::SIGKILL) };
    }
    child.wait().unwrap();
    let left = || fs::read_dir(parent.path()).unwrap().map(|folder| folder.unwrap().path()).collect::<Vec<_>>();
    let [folder] = &left()[..] else { panic!("{:?}", left()) };
    wait_until("that all processes end", || processes_in(parent.path()).is_empty());
    // It has to be some seconds old, since one that was just made isn't locked yet.
    let old = std::time::SystemTime::now() - Duration::from_secs(60);
    fs::File::open(folder).unwrap().set_modified(old).unwrap();
    let mut next = start(&pmake, parent.path());
    wait_until("that the folder goes", || !folder.exists());
    // SAFETY: the process is our child, and not yet waited for.
    unsafe { libc::kill(next.id() as i32, libc::SIGTERM) };
    next.wait().unwrap();
    wait_until("that the next one's goes", || left().is_empty());
}

#[test]
fn what_is_missing_or_fails_is_one_sentence() {
    let empty = open_folder();
    let said = |executable: &Path, path: &Path| {
        let output = Command::new(executable).arg("S").env("PATH", path).env("TMPDIR", empty.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert_eq!(text(&output.stderr).lines().count(), 1, "{output:?}");
        text(&output.stderr).trim_end().to_owned()
    };
    let pmake = built!("affinity-pmake");
    assert_eq!(
        said(Path::new(pmake.executable), empty.path()),
        "affinity-pmake: there is no `make' on the PATH: install Debian's make and gcc"
    );
    let oltp = built!("affinity-oltp");
    let nowhere = compile_altered(&oltp, "affinity-oltp-nowhere", "glob(\"/usr/lib", "glob(\"/usr/nowhere");
    assert_eq!(
        said(&nowhere, empty.path()),
        "affinity-oltp: there is no PostgreSQL, on the PATH or in /usr/lib/postgresql: install Debian's postgresql"
    );

    let failing = open_folder();
    let compiler = failing.path().join("cc");
    fs::write(&compiler, "#!/bin/sh\necho no room left >&2\nexit 1\n").unwrap();
    fs::set_permissions(&compiler, Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", failing.path().display());
    let failed = said(Path::new(pmake.executable), Path::new(&path));
    assert!(failed.starts_with("affinity-pmake: make failed: "), "{failed}");
    assert_eq!(fs::read_dir(empty.path()).unwrap().count(), 0, "a folder is left");

    let nobody = Path::new("/nonexistent/folder");
    let output = Command::new(pmake.executable).arg("S").env("TMPDIR", nobody).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no folder can be made in /nonexistent/folder"), "{output:?}");
    let _ = refusal(&run(pmake.executable, &["T"], 1), 2);
}
