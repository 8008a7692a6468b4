//! Completion, in the shells themselves: every subcommand, the values of options, files, and programs after `--`.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

/// What is typed, what must be among the candidates, and what must not be.
const TYPED: [(&str, &[&str], &[&str]); 26] = [
    ("stayput stu", &["study"], &["report", "run"]),
    ("stayput com", &["completions"], &["study"]),
    ("stayput study npb:cg.", &["npb:cg.S", "npb:cg.W"], &["npb:ep.W"]),
    ("stayput study pla", &["plan.toml"], &["old.stayput"]),
    ("stayput study --place sc", &["scatter"], &["compact"]),
    ("stayput study --amo", &["--among"], &["--best"]),
    ("stayput study -- ./ap", &["./app"], &["./old.stayput"]),
    ("stayput study --best --among im", &["important"], &["all"]),
    ("stayput run --place ol", &["old.stayput"], &["plan.toml"]),
    ("stayput run --place un", &["unbound", "unbalanced"], &["scatter"]),
    ("stayput run --unit pr", &["process"], &["thread"]),
    ("stayput run -- ./ap", &["./app"], &["scatter"]),
    ("stayput sched --li", &["--light"], &["--heavy"]),
    ("stayput report ol", &["old.stayput"], &["plan.toml"]),
    ("stayput report --format ma", &["markdown"], &["html"]),
    ("stayput reproduce pires-2", &["pires-2016", "pires-2017"], &["weber-2010"]),
    ("stayput simulate time", &["time-sharing"], &["reuse"]),
    ("stayput simulate time-sharing --policy standard,li", &["standard,light"], &["standard,heavy"]),
    ("stayput simulate space-sharing --policy equi", &["equipartition"], &["dynamic"]),
    ("stayput replay --on vm:d", &["vm:dies"], &["here"]),
    ("stayput place p-", &["p-cores"], &["e-cores"]),
    ("stayput run --place o", &["old.stayput", "one-per-core"], &["largest-l3"]),
    ("stayput place scatter --machine opt", &["opteron-6272"], &["host"]),
    ("stayput place scatter --as openm", &["openmpi-rankfile"], &["gomp"]),
    ("stayput topology --machine m", &["mine.xml", "machine.xml"], &["old.stayput"]),
    ("stayput workloads npb:", &["npb:cg", "npb:lu"], &["climate"]),
];

/// A folder with files of each kind and the command's scripts, and the command on the PATH.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in ["old.stayput", "plan.toml", "mine.xml", "machine.xml"] {
        fs::write(folder.path().join(file), "").unwrap();
    }
    fs::copy(env!("CARGO_BIN_EXE_stayput"), folder.path().join("app")).unwrap();
    fs::create_dir(folder.path().join("bin")).unwrap();
    symlink(env!("CARGO_BIN_EXE_stayput"), folder.path().join("bin/stayput")).unwrap();
    for (shell, file) in [("bash", "stayput.bash"), ("zsh", "_stayput"), ("fish", "stayput.fish")] {
        let output = Command::new(env!("CARGO_BIN_EXE_stayput")).args(["completions", shell]).output().unwrap();
        assert!(output.status.success());
        fs::write(folder.path().join(file), output.stdout).unwrap();
    }
    folder
}

/// What the shell prints for what is typed, with colours and redrawn lines.
fn completed(shell: &[&str], typed: &str, folder: &Path) -> String {
    let path = format!("{}:{}", folder.join("bin").display(), std::env::var("PATH").unwrap());
    let [program, arguments @ ..] = shell else { panic!("no shell") };
    let output = Command::new(program)
        .args(arguments)
        .arg(typed)
        .current_dir(folder)
        .env("PATH", path)
        .env("HOME", folder)
        .env("TERM", "dumb")
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}; `make setup` for tests brings it"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.stderr.is_empty(), "{typed}: {}", String::from_utf8_lossy(&output.stderr));
    text
}

fn check(shell: &[&str]) {
    let folder = folder();
    for (typed, wanted, unwanted) in TYPED {
        // The scheduler is another package's program, which need not have been built.
        if typed.contains("sched") && !Path::new(env!("CARGO_BIN_EXE_stayput")).with_file_name("stayput-sched").exists()
        {
            continue;
        }
        let text = completed(shell, typed, folder.path());
        // Where zsh itself lists programs, they are without their folder and with a star.
        let words: Vec<&str> = text.split(|c: char| c.is_whitespace() || c.is_control()).collect();
        let starred = |word: &str| words.contains(&format!("{}*", word.trim_start_matches("./")).as_str());
        for word in wanted {
            assert!(words.contains(word) || starred(word), "{typed}: no {word} in {text:?}");
        }
        for word in unwanted {
            assert!(!words.contains(word), "{typed}: {word} in {text:?}");
        }
    }
}

#[test]
fn bash_completes() {
    // As readline does: what is replaced begins after the last character that breaks words.
    let script = r#"
        source ./stayput.bash
        COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDBREAKS=$' \t\n"\'><;|&(:'
        _stayput 2> /dev/null
        word=${1##* }
        start=${word%"${word##*:}"}
        printf "$start%s\n" "${COMPREPLY[@]}""#;
    check(&["bash", "--norc", "-c", script, "bash"]);
}

#[test]
fn fish_completes() {
    check(&["fish", "--no-config", "-c", "source ./stayput.fish; complete --do-complete $argv[1]"]);
}

#[test]
fn zsh_completes() {
    // Only a terminal's zsh completes: one is driven in a pseudo-terminal, asked to list, and read until it is silent.
    let script = r#"
        zmodload zsh/zpty
        zpty -b shell 'zsh -f -i'
        zpty -w shell "PS1=waits-%%; RPS1=; stty -echo; fpath=($PWD \$fpath); autoload -Uz compinit; compinit -D -u; setopt list_rows_first no_beep; LISTMAX=500; COLUMNS=400; bindkey '^I' list-choices; print ready-\$((40 + 2))"
        zpty -r -m shell text '*ready-42*waits-%*'
        zpty -w -n shell "$1"$'\t'
        zpty -w -n shell $'\C-u'"print finished-\$((40 + 2))"$'\n'
        zpty -r -m shell text '*finished-42*'
        print -r -- "$text"
        zpty -d shell"#;
    check(&["zsh", "-f", "-c", script, "zsh"]);
}
