//! Nothing that Stayput writes destroys anything, and what can't be written changes no result.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const STAYPUT: &str = env!("CARGO_BIN_EXE_stayput");

/// A study of few runs, whose words come before those given.
const STUDY: [&str; 9] =
    ["study", "--quiet", "-n", "1", "--place=unbound,0", "--min-runs=3", "--max-runs=3", "--warmup=0", "--budget=1min"];

/// A folder with a program, `./index`, and the journal of a study of it, `k.stayput`.
struct Desk(TempDir);

impl Desk {
    fn new() -> Self {
        let desk = Self(tempfile::tempdir().unwrap());
        desk.write("index", "#!/bin/sh\nexit 0\n");
        fs::set_permissions(desk.path("index"), fs::Permissions::from_mode(0o755)).unwrap();
        desk
    }

    fn with_journal() -> Self {
        let desk = Self::new();
        let studied = desk.study(&["--no-report", "--out", "k.stayput", "--", "./index"]);
        assert!(studied.status.success(), "{}", text(&studied.stderr));
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    fn stayput(&self, words: &[&str]) -> Output {
        Command::new(STAYPUT).args(words).current_dir(self.0.path()).stdin(Stdio::null()).output().unwrap()
    }

    fn study(&self, words: &[&str]) -> Output {
        self.stayput(&[&STUDY, words].concat())
    }

    /// What a shell says of a line, in which `$STAYPUT` is the command and `$STUDY` a study of few runs.
    fn shell(&self, line: &str) -> Output {
        let mut shell = Command::new("bash");
        shell.args(["-c", line]).env("STAYPUT", STAYPUT).env("STUDY", format!("{STAYPUT} {}", STUDY.join(" ")));
        shell.current_dir(self.0.path()).stdin(Stdio::null()).output().unwrap()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The sentence with which a command line was refused.
fn refusal(output: &Output) -> String {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let line = said.strip_prefix("stayput: ").unwrap_or_else(|| panic!("{said}")).trim_end();
    assert!(!line.contains('\n'), "{said}");
    line.to_owned()
}

#[test]
fn a_result_is_never_written_over_what_it_is_made_from() {
    let desk = Desk::with_journal();
    desk.write(
        "study.toml",
        "threads = [1]\nplacements = [\"unbound\", \"0\"]\n[[subject]]\ncommand = [\"./index\"]\n",
    );
    desk.write("data", "1 2 3");
    fs::hard_link(desk.path("k.stayput"), desk.path("other-name")).unwrap();
    symlink("k.stayput", desk.path("link")).unwrap();
    let files = ["k.stayput", "index", "study.toml", "data"];
    let before = files.map(|name| desk.read(name));
    let journal = "is the study's journal, which a result must not be written over; name another file";
    for (words, reason) in [
        (&["report", "k.stayput", "--format", "csv", "--out", "k.stayput"][..], journal),
        (&["report", "k.stayput", "--format", "csv", "--out", "./k.stayput"], journal),
        (&["report", "k.stayput", "--format", "csv", "--out", "other-name"], journal),
        (&["report", "k.stayput", "--format", "csv", "--out", "link"], journal),
        (&["report", "k.stayput", "--out", "k.stayput-wal"], "is part of the study's journal"),
        (&["run", "-q", "--place", "k.stayput", "--json", "k.stayput", "--", "./index"], journal),
        (&["run", "--json", "index", "--", "./index"], "is the program"),
        (&["run", "--json", "data", "--", "./index", "-i", "data"], "is a file of the program's"),
        (&["study", "--out", "k.stayput", "--report", "k.stayput", "--", "./index"], journal),
        (&["study", "--out", "new.html", "--", "./index"], journal),
        (&["study", "--out", "new.stayput", "--report", "new.stayput", "--", "./index"], journal),
        (&["study", "--out", "new.stayput", "--report", "new.stayput-shm", "--", "./index"], "is part of the study's"),
        (&["study", "--out", "new.stayput", "--report", "index", "--", "./index"], "is the program"),
        (&["study", "--out", "new.stayput", "--report", "study.toml", "study.toml"], "is the study file"),
        (
            &["study", "-q", "--out", "new.stayput", "--report", "data", "--input", "data", "--", "./index"],
            "is what the program reads",
        ),
        (&["study", "--out", "new.stayput", "--report", "data", "--", "./index", "data"], "is a file of the program's"),
    ] {
        let refused = refusal(&desk.stayput(words));
        assert!(refused.contains(reason), "{words:?}: {refused}");
        assert_eq!(files.map(|name| desk.read(name)), before, "{words:?}");
        for name in ["new.stayput", "new.html", "new.stayput-shm", "k.stayput-wal"] {
            assert!(!desk.path(name).exists(), "{words:?} made {name}");
        }
    }
    assert!(desk.path("link").is_symlink());
}

#[test]
fn a_page_that_somebody_else_wrote_is_refused_before_anything_runs() {
    let desk = Desk::new();
    desk.write("index.html", "<title>My site</title>");
    let refused = refusal(&desk.study(&["--", "./index"]));
    assert_eq!(
        refused,
        "index.html is there, and Stayput did not write it; name the page with --report FILE, or write none with --no-report"
    );
    assert!(!desk.path("index.stayput").exists());
    assert_eq!(refusal(&desk.study(&["--force", "--", "./index"])), refused);
    // What was advised works, and replaces what is named.
    assert!(desk.study(&["--no-report", "--", "./index"]).status.success());
    assert!(desk.study(&["--report", "page.html", "--", "./index"]).status.success());
    assert_eq!(desk.read("index.html"), b"<title>My site</title>");
    assert!(desk.study(&["--report", "index.html", "--", "./index"]).status.success());
    // A page of ours is written anew, with the permissions that it had.
    fs::set_permissions(desk.path("index.html"), fs::Permissions::from_mode(0o604)).unwrap();
    let before = fs::metadata(desk.path("index.html")).unwrap();
    assert!(desk.study(&["--", "./index"]).status.success());
    let after = fs::metadata(desk.path("index.html")).unwrap();
    assert!(before.ino() != after.ino() && after.mode() & 0o777 == 0o604);
}

#[test]
fn a_planted_link_leads_nothing_elsewhere() {
    let desk = Desk::new();
    fs::create_dir(desk.path("victims")).unwrap();
    desk.write("victims/conf", "precious");
    desk.write("victims/empty", "");
    symlink("victims/conf", desk.path("index.html")).unwrap();
    assert!(desk.study(&["--", "./index"]).status.success());
    assert!(fs::symlink_metadata(desk.path("index.html")).unwrap().is_file());
    symlink("victims/conf", desk.path("seen.json")).unwrap();
    assert!(desk.stayput(&["run", "-q", "--json", "seen.json", "--", "./index"]).status.success());
    // A journal would be begun where the link leads.
    for target in ["victims/empty", "victims/new", "victims/conf"] {
        let _ = fs::remove_file(desk.path("a.stayput"));
        symlink(target, desk.path("a.stayput")).unwrap();
        for words in [
            &["study", "--no-report", "--out", "a.stayput", "--", "./index"][..],
            &["simulate", "time-sharing", "--out", "a.stayput"],
        ] {
            refusal(&desk.stayput(words));
        }
    }
    assert_eq!(desk.read("victims/conf"), b"precious");
    assert_eq!(desk.read("victims/empty"), b"");
    assert!(!desk.path("victims/new").exists());
    // A link to a journal is that journal.
    fs::rename(desk.path("index.stayput"), desk.path("victims/real.stayput")).unwrap();
    fs::remove_file(desk.path("a.stayput")).unwrap();
    symlink("victims/real.stayput", desk.path("a.stayput")).unwrap();
    assert!(desk.study(&["--no-report", "--out", "a.stayput", "--", "./index"]).status.success());
}

#[test]
fn what_is_no_file_takes_a_report_as_it_is() {
    let desk = Desk::with_journal();
    let whole = text(&desk.stayput(&["report", "k.stayput", "--format", "csv"]).stdout);
    assert!(whole.lines().count() > 6);
    let through =
        desk.shell("mkfifo pipe; cat pipe > seen & $STAYPUT report k.stayput --format csv --out pipe; wait; cat seen");
    assert_eq!(text(&through.stdout), whole);
    assert!(desk.path("pipe").exists());
    for name in ["/dev/stdout", "/proc/self/fd/1", "/dev/fd/1"] {
        let line = format!("$STAYPUT report k.stayput --format csv --out {name}");
        assert_eq!(text(&desk.shell(&line).stdout), whole, "{name}");
        assert_eq!(text(&desk.shell(&format!("{line} > seen; cat seen")).stdout), whole, "{name}");
    }
    assert_eq!(text(&desk.stayput(&["report", "k.stayput", "--format", "csv", "--out", "-"]).stdout), whole);
    assert!(!desk.path("-").exists());
    // What the program has written to the same file stays.
    for name in ["-", "/dev/stdout"] {
        let both = desk.shell(&format!("$STAYPUT run -q --json {name} -- echo of the program > seen; cat seen"));
        assert!(text(&both.stdout).starts_with("of the program\n{\n"), "{name}: {}", text(&both.stdout));
    }
    let full = desk.stayput(&["report", "k.stayput", "--out", "/dev/full"]);
    assert_eq!(
        (full.status.code(), text(&full.stderr)),
        (Some(1), "stayput: cannot write /dev/full: No space left on device\n".into())
    );
}

#[test]
fn a_journal_is_a_file() {
    let desk = Desk::new();
    let made = desk.shell("mkdir folder; mkfifo pipe");
    assert!(made.status.success());
    for (name, reason) in [
        ("-", "a journal is a file, and can't be standard output"),
        (".", ". is a folder; name a file in it"),
        ("folder", "folder is a folder; name a file in it"),
        ("pipe", "pipe is a pipe and no file"),
        ("/dev/null", "/dev/null is a device and no file"),
        ("/dev/stdout", "/dev/stdout is a pipe and no file"),
        ("no/a.stayput", "there is no folder no for no/a.stayput"),
    ] {
        let refused = refusal(&desk.study(&["--out", name, "--", "./index"]));
        assert!(refused.contains(reason), "{name}: {refused}");
        let simulated = desk.stayput(&["simulate", "time-sharing", "--out", name]);
        assert_eq!(simulated.status.code(), Some(2), "{name}: {}", text(&simulated.stderr));
    }
}

#[test]
fn a_full_disk_and_a_limit_on_files_leave_the_report_of_before() {
    let desk = Desk::with_journal();
    desk.write("old.html", "yesterday");
    let limited = desk.shell("ulimit -f 8; $STAYPUT report k.stayput --format html --out old.html");
    assert_eq!(limited.status.code(), Some(1), "{:?}", limited.status);
    assert!(text(&limited.stderr).starts_with("stayput: cannot write old.html: "), "{}", text(&limited.stderr));
    assert_eq!(desk.read("old.html"), b"yesterday");
    // The program meets the limit as it would without us.
    let program = desk.shell("ulimit -f 8; $STAYPUT run -q -- dd if=/dev/zero of=big bs=1024 count=100");
    assert_eq!(
        program.status.signal().or(program.status.code().map(|code| code - 128)),
        Some(SIGXFSZ),
        "{:?}",
        program.status
    );
    let script = "mount -t tmpfs -o size=16k none disk || exit 77
        cp old.html disk && ! $STAYPUT report k.stayput --format html --out disk/old.html && cat disk/old.html && ls -A disk";
    fs::create_dir(desk.path("disk")).unwrap();
    let output = Command::new("unshare")
        .args(["--mount", "--map-root-user", "sh", "-c", script])
        .env("STAYPUT", STAYPUT)
        .current_dir(desk.0.path())
        .output()
        .unwrap();
    let said = text(&output.stderr);
    if output.status.code() == Some(77) || said.contains("unshare") {
        return println!("skipped: no private mount here: {said}");
    }
    assert_eq!(text(&output.stdout), "yesterdayold.html\n", "{said}");
    assert!(said.starts_with("stayput: cannot write disk/old.html: "), "{said}");
    // Nothing was left aside anywhere.
    assert!(
        fs::read_dir(desk.0.path())
            .unwrap()
            .all(|entry| !text(entry.unwrap().file_name().as_encoded_bytes()).starts_with(".stayput-"))
    );
}

/// Which has this number on every machine that is supported.
const SIGXFSZ: i32 = 25;

#[test]
fn a_closed_descriptor_is_never_the_journal() {
    for closed in ["<&-", ">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"] {
        let desk = Desk::new();
        let studied = desk.shell(&format!("$STUDY --out a.stayput -- ./index {closed}"));
        assert_eq!(studied.status.code(), Some(0), "{closed}: {}", text(&studied.stderr));
        assert!(desk.read("a.stayput").starts_with(b"SQLite format 3\0"), "{closed}");
        let reported = desk.stayput(&["report", "a.stayput", "--format", "csv"]);
        assert_eq!(text(&reported.stdout).lines().count(), 7, "{closed}: {}", text(&reported.stderr));
        assert!(text(&desk.read("a.html")).ends_with("</html>"), "{closed}");
        // Interrupted, it has something to say.
        let killed = desk.shell(&format!(
            "timeout --preserve-status -s INT 1 env --default-signal=INT $STAYPUT study -n 1 --min-runs 90000 --max-runs 90000 \
             --out b.stayput -- ./index {closed}"
        ));
        assert_ne!(killed.status.code(), Some(0));
        assert!(desk.read("b.stayput").starts_with(b"SQLite format 3\0"), "{closed}");
        let ended = desk.shell(&format!("$STAYPUT run --json seen.json -- sh -c 'exit 7' {closed}"));
        assert_eq!(ended.status.code(), Some(7), "{closed}");
        assert_eq!(desk.read("seen.json")[0], b'{');
    }
}

#[test]
fn messages_that_cannot_be_written_change_no_exit_code() {
    let desk = Desk::with_journal();
    desk.write("broken.stayput", "no journal");
    for to in ["2>/dev/full", "2> >(exec true)", "2>&-"] {
        for (line, code) in [
            ("$STAYPUT run -- sh -c 'exit 7'", 7),
            ("$STAYPUT run -- ./nosuch", 127),
            ("$STAYPUT run --place nonsense -- true", 2),
            ("$STAYPUT study", 2),
            ("$STAYPUT report broken.stayput", 2),
            ("$STAYPUT report nosuch.stayput", 2),
            ("$STAYPUT report k.stayput", 0),
            ("$STAYPUT study -n 1 --min-runs 3 --max-runs 3 --out k.stayput --force -- ./index", 0),
            ("$STAYPUT study -n 1 --min-runs 3 --max-runs 3 --no-report --out f.stayput -- false", 1),
        ] {
            let ended = desk.shell(&format!("{line} {to}"));
            assert_eq!(ended.status.code(), Some(code), "{line} {to}: {:?}", ended.status);
        }
    }
    let full = desk.shell("$STAYPUT report k.stayput >/dev/full");
    assert_eq!(full.status.code(), Some(1));
    assert_eq!(text(&full.stderr), "stayput: cannot write to standard output: No space left on device\n");
}
