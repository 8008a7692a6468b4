//! `make install` puts the command on the PATH and what it starts into libexec, where the command finds it; `make uninstall` takes all
//! of it away again.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// Runs `make` as under sudo, where nothing is built, with programs from `built`.
fn make(target: &str, built: &Path, prefix: &Path) -> Output {
    let variables = [("RELEASE", built), ("PREFIX", prefix)].map(|(name, path)| format!("{name}={}", path.display()));
    Command::new("make").arg(target).args(variables).current_dir(root()).env("SUDO_USER", "me").output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// All files below a folder, by their paths in it.
fn files(folder: &Path) -> Vec<String> {
    let mut folders = vec![folder.to_owned()];
    let mut found = Vec::new();
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    let mut found: Vec<String> =
        found.iter().map(|path| path.strip_prefix(folder).unwrap().display().to_string()).collect();
    found.sort();
    found
}

/// The command, with stand-ins for what it starts.
fn built() -> tempfile::TempDir {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    fs::hard_link(env!("CARGO_BIN_EXE_stayput"), folder.path().join("stayput")).unwrap();
    let programs = workloads::catalog().iter().map(|program| program.executable.as_str());
    let hybrids = ["climate-openmpi", "climate-mpich", "npb-ft-openmpi", "npb-ft-mpich"];
    let others = ["stayput-sched", "stayput-replay", "stayput-guest", "libstayput_misses.so"];
    for program in programs.chain(hybrids).chain(others) {
        // Any program can be stripped; this one ends well, whatever it is asked.
        fs::copy("/bin/true", folder.path().join(program)).unwrap();
    }
    folder
}

#[test]
fn what_is_installed_is_found_and_what_is_uninstalled_is_gone() {
    let built = built();
    let prefix = tempfile::tempdir().unwrap();
    let output = make("install", built.path(), prefix.path());
    assert!(output.status.success(), "{}", said(&output));

    let installed = files(prefix.path());
    let on_path: Vec<&String> = installed.iter().filter(|file| file.starts_with("bin/")).collect();
    assert_eq!(on_path, ["bin/stayput"], "no other program's name is on everybody's PATH");
    for program in workloads::catalog() {
        assert!(installed.contains(&format!("libexec/stayput/{}", program.executable)), "{installed:?}");
    }
    for file in [
        "include/stayput_share.h",
        "share/man/man1/stayput.1",
        "share/man/man1/stayput-study.1",
        "share/bash-completion/completions/stayput",
        "share/zsh/site-functions/_stayput",
        "share/fish/vendor_completions.d/stayput.fish",
    ] {
        assert!(installed.contains(&file.to_owned()), "no {file} in {installed:?}");
    }

    // The scheduler's stand-in ends well where it is found.
    let stayput = prefix.path().join("bin/stayput");
    let found = Command::new(&stayput).args(["sched", "--check"]).output().unwrap();
    assert_eq!(found.status.code(), Some(0), "{}", said(&found));
    fs::remove_file(prefix.path().join("libexec/stayput/stayput-sched")).unwrap();
    let lost = Command::new(&stayput).args(["sched", "--check"]).output().unwrap();
    assert_eq!(lost.status.code(), Some(127));
    assert!(
        said(&lost).contains("stayput-sched isn't installed") && said(&lost).contains("`make install`"),
        "{}",
        said(&lost)
    );

    let output = make("uninstall", built.path(), prefix.path());
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(files(prefix.path()), Vec::<String>::new());
}

#[test]
fn what_cannot_be_installed_is_told() {
    let (empty, prefix) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let output = make("install", empty.path(), prefix.path());
    assert!(!output.status.success() && said(&output).contains("nothing is built yet"), "{}", said(&output));
    let file = prefix.path().join("file");
    fs::write(&file, "").unwrap();
    let output = make("install", built().path(), &file);
    assert!(!output.status.success() && said(&output).contains("can't be written"), "{}", said(&output));
}
