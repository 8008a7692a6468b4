//! Studies held against earlier ones: a loss is told, limited, and written for those who build and review.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const STAYPUT: &str = env!("CARGO_BIN_EXE_stayput");

struct Desk(TempDir);

impl Desk {
    /// A desk with the journal `base.stayput` of a program that takes 150 ms, long beside what a busy machine adds.
    fn new() -> Self {
        let desk = Self(tempfile::tempdir().unwrap());
        desk.program("0.15");
        let output = desk.study(&["--out", "base.stayput"]);
        assert!(output.status.success(), "{}", said(&output));
        desk
    }

    fn program(&self, seconds: &str) {
        let path = self.0.path().join("app");
        fs::write(&path, format!("#!/bin/sh\nsleep {seconds}\n")).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    }

    fn stayput(&self, words: &[&str]) -> Output {
        Command::new(STAYPUT).args(words).current_dir(self.0.path()).stdin(Stdio::null()).output().unwrap()
    }

    fn study(&self, words: &[&str]) -> Output {
        let usual =
            ["study", "-q", "--no-report", "-n", "1", "--place", "unbound", "--min-runs", "6", "--max-runs", "6"];
        self.stayput(&[&usual[..], words, &["--", "./app"]].concat())
    }

    fn file(&self, name: &str) -> String {
        fs::read_to_string(self.0.path().join(name)).unwrap()
    }
}

fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said).into_owned()).concat()
}

const GATE: [&str; 8] =
    ["--baseline", "base.stayput", "--max-loss", "20%", "--junit", "loss.xml", "--comment", "loss.md"];

#[test]
fn a_loss_beyond_the_limit_fails_and_is_written_for_builds_and_reviews() {
    let desk = Desk::new();
    desk.program("0.5");
    let output = desk.study(&[&GATE[..], &["--out", "new.stayput"]].concat());
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("more than the 20 % allowed") && text.contains("Runs of two studies aren't paired"),
        "{text}"
    );
    let junit = desk.file("loss.xml");
    assert!(
        junit.starts_with("<?xml") && junit.contains("failures=\"1\"") && junit.contains("<failure message=\"./app, "),
        "{junit}"
    );
    let comment = desk.file("loss.md");
    assert!(
        comment.contains("| ./app | 1 | unbound | time [s] |") && comment.contains("more is lost than allowed"),
        "{comment}"
    );
    // It is there to be gone on with, and its answer is the same.
    let again = desk.study(&[&GATE[..], &["--out", "new.stayput"]].concat());
    assert_eq!(again.status.code(), Some(1), "{}", said(&again));
}

#[test]
fn no_loss_passes_and_a_gain_does() {
    let desk = Desk::new();
    for (seconds, journal) in [("0.15", "same.stayput"), ("0.05", "faster.stayput")] {
        desk.program(seconds);
        let output =
            desk.study(&["--baseline", "base.stayput", "--max-loss", "50", "--junit", "ok.xml", "--out", journal]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        assert!(said(&output).contains("within the 50 % allowed"), "{}", said(&output));
        assert!(desk.file("ok.xml").contains("failures=\"0\""));
    }
    let told = desk.study(&["--against", "base.stayput", "--out", "told.stayput"]);
    assert_eq!(told.status.code(), Some(0), "without a limit a loss or gain is told alone");
    assert!(said(&told).contains("Against base.stayput of "), "{}", said(&told));
}

#[test]
fn what_has_nothing_in_common_or_is_the_same_file_is_refused_before_anything_runs() {
    let desk = Desk::new();
    for (words, part) in [
        (
            &["--baseline", "base.stayput", "--out", "base.stayput"][..],
            "is the journal that this very study would go on with",
        ),
        (&["--baseline", "base.stayput", "--metric", "a lower = a: (.*)"], "no program in common"),
        (&["--baseline", "base.stayput", "--max-loss", "compact=3"], "no placement `compact`"),
        (&["--baseline", "none.stayput"], "none.stayput"),
        (&["--baseline", "app"], "app is not a stayput journal"),
        (&["--baseline", "base.stayput", "--junit", "base.stayput"], "base.stayput"),
    ] {
        let output =
            desk.study(&[words, if words.contains(&"--out") { &[] } else { &["--out", "new.stayput"] }].concat());
        let text = said(&output);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {text}");
        assert!(text.contains(part) && text.lines().count() == 1, "{words:?}: {text}");
        assert!(!desk.0.path().join("new.stayput").exists(), "{words:?}");
    }
}

/// The lines for a shell of a recipe: those of its scripts, with what the service puts in their place.
fn script(recipe: &str, base: &str) -> String {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut lines = Vec::new();
    let mut all = recipe.lines().peekable();
    while let Some(line) = all.next() {
        if !line.trim_end().ends_with("run: |") && !line.trim_end().ends_with("script:") {
            continue;
        }
        while let Some(below) = all.next_if(|below| indent(below) > indent(line)) {
            lines.push(below.trim().trim_start_matches("- "));
        }
    }
    lines.join("\n").replace("${{ github.event.pull_request.base.sha }}", base)
}

/// Both recipes of the page, in a repository of two versions: what is built, studied, limited and written.
#[test]
fn the_recipes_of_the_page_run_as_plain_shell() {
    let has_git = Command::new("git").arg("--version").output().is_ok();
    if !has_git {
        println!("git is missing here, so the recipes of the page aren't run");
        return;
    }
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/continuous-integration.md");
    let page = fs::read_to_string(page).unwrap();
    let recipes: Vec<&str> = page.split("```yaml").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(recipes.len(), 2);
    // Differences that a busy machine doesn't hide.
    for (recipe, [before, after], code) in
        [(recipes[0], ["0.05", "0.4"], 1), (recipes[1], ["0.05", "0.4"], 1), (recipes[0], ["0.4", "0.05"], 0)]
    {
        let desk = tempfile::tempdir().unwrap();
        let repository = desk.path().join("repository");
        fs::create_dir(&repository).unwrap();
        let in_shell = |line: &str, base: &str| {
            let path = format!("{}:{}", desk.path().display(), std::env::var("PATH").unwrap());
            let mut command = Command::new("sh");
            command.args(["-e", "-c", line]).current_dir(&repository).stdin(Stdio::null()).env("PATH", path);
            // Nobody's settings, and no repository around.
            command
                .env("HOME", desk.path())
                .env("GIT_CONFIG_NOSYSTEM", "1")
                .env("GIT_CEILING_DIRECTORIES", desk.path());
            command.env("CI_MERGE_REQUEST_DIFF_BASE_SHA", base).output().unwrap()
        };
        // A program that is built of what the repository has; studies of it are short.
        let build = "#!/bin/sh\nprintf '#!/bin/sh\\nsleep %s\\n' \"$(cat seconds)\" > app\nchmod +x app\n";
        let short = format!(
            "#!/bin/sh\n[ \"$1 $2\" = 'study -q' ] || exit 99\nshift 2\n\
             exec {STAYPUT} study -q -n 1 --place unbound --min-runs 6 --max-runs 6 \"$@\"\n"
        );
        for (path, text) in [(repository.join("build"), build), (desk.path().join("stayput"), &short)] {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        }
        let commit = "git -c user.name=me -c user.email=me@example.org commit -q -m x";
        let made = in_shell(
            &format!(
                "git init -q .; echo {before} > seconds; git add .; {commit}; git rev-parse HEAD; echo {after} > seconds; git add .; {commit}"
            ),
            "",
        );
        assert!(made.status.success(), "{}", said(&made));
        let base = String::from_utf8_lossy(&made.stdout).trim().to_owned();
        let lines = script(recipe, &base);
        assert!(lines.lines().count() == 5 && !lines.contains("${{"), "{lines}");
        let output = in_shell(&lines, &base);
        assert_eq!(output.status.code(), Some(code), "{lines}\n{}", said(&output));
        assert!(said(&output).contains("3 % allowed"), "{}", said(&output));
        let junit = fs::read_to_string(repository.join("loss.xml")).unwrap();
        assert!(junit.contains(&format!("failures=\"{code}\"")), "{junit}");
        for written in ["before.stayput", "after.stayput", "after.html"] {
            assert!(repository.join(written).exists(), "{written}");
        }
        assert_eq!(repository.join("loss.md").exists(), recipe.contains("loss.md"), "what is said on the page");
    }
}
