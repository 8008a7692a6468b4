//! Every command of `docs/guide.md` runs as it stands there, from top to bottom in one folder, and says what the page says.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::available_parallelism;

/// A part of the page: its heading, and the lines of its blocks for a shell.
struct Part {
    heading: String,
    script: String,
}

fn parts() -> Vec<Part> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide.md");
    let page = fs::read_to_string(page).unwrap();
    let part = |text: &str| {
        let heading = text.lines().next().unwrap().trim_start_matches("# ").to_owned();
        let blocks = text.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
        Part { heading, script: blocks.collect() }
    };
    page.split("\n## ").map(part).collect()
}

/// What a part runs that a machine may lack.
const COMPONENTS: [&str; 8] = ["gcc", "make", "python3", "ab", "initdb", "pgbench", "redis-server", "redis-benchmark"];

fn is_there(program: &str) -> bool {
    let line = format!("PATH=$PATH:$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -n 1); command -v {program}");
    Command::new("sh").args(["-c", &line]).stdout(Stdio::null()).status().unwrap().success()
}

/// What is said by each part's command: a text of it that doesn't depend on how long anything took.
const SAID: [&str; 13] = [
    "",
    "Compared by time [s], lower is better",
    "Compared by time [s], lower is better",
    "triad: ",
    "OMP_PLACES=",
    "beside",
    "old",
    "make -s -j4",
    "Compared by triad [MB/s], higher is better",
    "Compared by rate [1/s], higher is better",
    "Compared by tps, higher is better",
    "Compared by rate [1/s], higher is better",
    "20 % allowed",
];

#[test]
fn each_command_of_the_guide_runs_as_it_stands() {
    if available_parallelism().unwrap().get() < 2 {
        println!("there is one CPU here, and loads have none apart from their servers, so nothing is run");
        return;
    }
    let folder = Folder(tempfile::tempdir().unwrap());
    let path = folder.0.path();
    // Where everybody may look for it, PostgreSQL's user too.
    fs::create_dir(path.join("bin")).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_stayput"), path.join("bin/stayput")).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
    let search = format!("{}:{}", path.join("bin").display(), std::env::var("PATH").unwrap());
    let parts = parts();
    assert_eq!(parts.len(), 13, "the program, and twelve questions");
    for (part, said) in parts.iter().zip(SAID) {
        let calls = part.script.lines().filter(|line| line.starts_with("stayput ")).count();
        assert_eq!(calls, usize::from(!said.is_empty()), "{}: one command", part.heading);
        let words: Vec<&str> = part.script.split(|c: char| !(c.is_alphanumeric() || c == '-')).collect();
        let missing = COMPONENTS.iter().find(|name| words.contains(name) && !is_there(name));
        if let Some(missing) = missing {
            println!("{}: {missing} is missing here, so this isn't run; `make setup test` installs it", part.heading);
            continue;
        }
        let mut shell = shell(part, path);
        let output = shell.current_dir(path).env("PATH", &search).env("HOME", path).stdin(Stdio::null());
        let output = output.output().unwrap();
        let printed = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        let one_line = printed.split_whitespace().collect::<Vec<_>>().join(" ");
        // A limit may be passed: how fast it goes is the machine's affair.
        let is_limited = part.script.contains("--max-loss") && output.status.code() == Some(1);
        assert!(output.status.success() || is_limited, "{}: {}\n{printed}", part.heading, output.status);
        assert!(one_line.contains(said), "{}: no `{said}` in\n{printed}", part.heading);
        println!("{}: {} lines", part.heading, printed.lines().count());
    }
    assert!(started_in(path).is_empty(), "left behind: {:?}", started_in(path));
}

/// Where all runs, whose processes end with it, whatever failed.
struct Folder(tempfile::TempDir);

impl Drop for Folder {
    fn drop(&mut self) {
        for (pid, _) in started_in(self.0.path()) {
            let _ = Command::new("kill").args(["-9", &pid]).status();
        }
    }
}

/// A shell that runs the part; as another user where root mustn't.
fn shell(part: &Part, folder: &Path) -> Command {
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let user = ["postgres", "nobody"].into_iter().find_map(|user| {
        let ids = ["-u", "-g"].map(|which| Command::new("id").args([which, user]).output().unwrap());
        let [uid, gid] = ids.map(|id| String::from_utf8(id.stdout).unwrap().trim().to_owned());
        (!uid.is_empty() && !gid.is_empty()).then_some([format!("--reuid={uid}"), format!("--regid={gid}")])
    });
    let mut command = match user {
        Some(user) if is_root && part.script.contains("initdb") => {
            let mut command = Command::new("setpriv");
            command.args(user).args(["--clear-groups", "sh"]);
            command
        }
        _ => Command::new("sh"),
    };
    command.args(["-e", "-c", &part.script]).env("TMPDIR", folder);
    command
}

/// Processes whose folder this is: their numbers and command lines.
fn started_in(folder: &Path) -> Vec<(String, String)> {
    let is_in = |entry: &fs::DirEntry| fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder));
    let found = fs::read_dir("/proc").unwrap().flatten().filter(is_in);
    let line = |entry: &fs::DirEntry| fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
    let told = |entry: fs::DirEntry| (entry.file_name().into_string().unwrap(), line(&entry).replace('\0', " "));
    found.map(told).collect()
}
