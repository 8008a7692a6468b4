//! `stayput profile --live` in a real terminal, tmux's: what keys do, and that the terminal is left as it was whatever happens.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fs;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const STAYPUT: &str = env!("CARGO_BIN_EXE_stayput");

/// How long what must come may take on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is profiled: it has something to do until it is told to end, and writes to both streams.
const BUSY: &str = "echo to-output; echo to-error >&2; while ! [ -e end ]; do gzip -c busy >/dev/null; done; echo last";

/// A shell in a terminal of its own.
struct Pane {
    folder: TempDir,
}

impl Pane {
    /// None, with a sentence, where the view can't be shown.
    fn open() -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
            println!("skipped: there is no tmux here");
            return None;
        }
        if let Err(refused) = profile::collector::check() {
            println!("skipped: {refused}");
            return None;
        }
        let pane = Self { folder: tempfile::tempdir().unwrap() };
        fs::write(pane.folder.path().join("busy"), vec![7; 100_000]).unwrap();
        // The job's own shell may ignore signals, as what runs in the background does.
        let shell = "env --default-signal PS1='$ ' TERM=screen sh -i";
        pane.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", shell]);
        pane.shell("stty -a >before; set -m");
        pane.shell("clear; echo what-was-here");
        Some(pane)
    }

    fn tmux(&self, words: &[&str]) -> String {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(self.folder.path().join("socket")).args(words).current_dir(self.folder.path());
        let output = command.env_remove("TMUX").stdin(Stdio::null()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    fn type_keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Waits until the screen is as it is to be.
    fn wait(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let screen = self.screen();
            if is_so(&screen) {
                return screen;
            }
            assert!(begun.elapsed() < PATIENCE, "{what} never came:\n{screen}");
            sleep(Duration::from_millis(50));
        }
    }

    /// Lets the shell do something, to its end.
    fn shell(&self, line: &str) {
        let done = self.folder.path().join("done");
        self.type_keys(&["-l", &format!("{line}; : >done")]);
        self.type_keys(&["Enter"]);
        self.until(|| done.exists());
        fs::remove_file(done).unwrap();
    }

    fn until(&self, is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < PATIENCE, "it never came:\n{}", self.screen());
            sleep(Duration::from_millis(50));
        }
    }

    /// Starts the view, and waits until it is there.
    fn view(&self, words: &str) {
        let _ = fs::remove_file(self.folder.path().join("end"));
        self.type_keys(&["-l", &format!("{STAYPUT} profile --live {words}; echo $? >code")]);
        self.type_keys(&["Enter"]);
        self.wait("the view", |screen| screen.contains("? help") && screen.contains(">"));
    }

    /// What the shell says that the view ended with; the terminal is as it was before.
    fn ends(&self) -> String {
        let code = self.folder.path().join("code");
        self.until(|| fs::read_to_string(&code).is_ok_and(|code| code.ends_with('\n')));
        let ended = fs::read_to_string(&code).unwrap().trim().to_owned();
        fs::remove_file(code).unwrap();
        self.shell("stty -a >after");
        let modes = |name| fs::read_to_string(self.folder.path().join(name)).unwrap();
        assert_eq!(modes("before"), modes("after"));
        assert_eq!(self.tmux(&["display-message", "-p", "#{alternate_on} #{cursor_flag}"]).trim(), "0 1");
        let history = self.tmux(&["capture-pane", "-p", "-S", "-"]);
        assert!(history.contains("what-was-here"), "{history}");
        ended
    }

    /// The process that owns the screen, and the one that guards it.
    fn processes(&self) -> (i32, i32) {
        let shell: i32 = self.tmux(&["display-message", "-p", "#{pane_pid}"]).trim().parse().unwrap();
        let child_of = |pid: i32| {
            let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
            children.split_whitespace().next().unwrap().parse::<i32>().unwrap()
        };
        let guardian = child_of(shell);
        (child_of(guardian), guardian)
    }
}

impl Drop for Pane {
    fn drop(&mut self) {
        let _ = fs::write(self.folder.path().join("end"), "");
        self.tmux(&["kill-server"]);
    }
}

fn kill(pid: i32, signal: i32) {
    // SAFETY: it only sends a signal, to a process that this test has started.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

#[test]
fn keys_do_what_the_footer_says_and_the_profile_is_printed_at_the_end() {
    let Some(pane) = Pane::open() else { return };
    pane.view(&format!("--json p.json -- sh -c '{BUSY}' 2>errors"));
    pane.wait("the program", |screen| screen.contains("gzip"));
    pane.type_keys(&["?"]);
    pane.wait("the help", |screen| screen.contains("Ctrl-C"));
    pane.type_keys(&["?"]);
    pane.wait("the table", |screen| screen.contains("program"));
    pane.type_keys(&["s"]);
    pane.wait("another order", |screen| screen.contains("by CPU"));
    pane.type_keys(&["Enter"]);
    pane.wait("threads", |screen| screen.contains(" threads  ") && screen.contains("Esc back"));
    pane.type_keys(&["Space"]);
    pane.wait("frozen", |screen| screen.contains("FROZEN"));
    pane.tmux(&["resize-window", "-x", "40", "-y", "12"]);
    pane.wait("a small screen", |screen| screen.lines().count() == 12 && screen.contains("FROZEN"));
    pane.tmux(&["resize-window", "-x", "20", "-y", "5"]);
    pane.wait("a tiny screen", |screen| screen.contains("too small"));
    pane.tmux(&["resize-window", "-x", "120", "-y", "40"]);
    pane.wait("a large screen", |screen| screen.contains("machine") && screen.contains("FROZEN"));
    pane.tmux(&["resize-window", "-x", "80", "-y", "24"]);
    pane.type_keys(&["h"]);
    pane.wait("programs again", |screen| screen.contains("program"));
    pane.wait("a clean screen", |screen| screen.lines().nth(11).is_some_and(str::is_empty));
    let screen = pane.screen();
    assert!(!screen.lines().any(|line| line.starts_with("to-")), "{screen}");
    fs::write(pane.folder.path().join("end"), "").unwrap();
    pane.wait("the end", |screen| screen.contains("the command has ended"));
    pane.type_keys(&["q"]);
    assert_eq!(pane.ends(), "0");
    let history = pane.tmux(&["capture-pane", "-p", "-S", "-"]);
    for printed in ["to-output", "last", "Dispatch intervals, in percent", "gzip"] {
        assert!(history.contains(printed), "{printed}\n{history}");
    }
    assert_eq!(fs::read_to_string(pane.folder.path().join("errors")).unwrap(), "to-error\n");
    let json = fs::read_to_string(pane.folder.path().join("p.json")).unwrap();
    assert!(json.contains("\"gzip\""));
}

#[test]
fn ctrl_c_ends_the_command() {
    let Some(pane) = Pane::open() else { return };
    pane.view(&format!("-- sh -c '{BUSY}'"));
    pane.type_keys(&["C-c"]);
    assert_eq!(pane.ends(), "1");
    pane.wait("how it ended", |screen| screen.contains("the command was ended by signal 2"));
}

#[test]
fn whoever_is_killed_the_terminal_is_whole() {
    let Some(pane) = Pane::open() else { return };
    for (signal, code) in [(libc::SIGKILL, "137"), (libc::SIGABRT, "134"), (libc::SIGTERM, "0"), (libc::SIGHUP, "0")] {
        pane.view("--all");
        let (screen, _) = pane.processes();
        kill(screen, signal);
        assert_eq!(pane.ends(), code, "signal {signal}");
    }
    for (signal, code) in [(libc::SIGTERM, "0"), (libc::SIGHUP, "0")] {
        pane.view("--all");
        let (_, guardian) = pane.processes();
        kill(guardian, signal);
        assert_eq!(pane.ends(), code, "signal {signal}");
    }
}
