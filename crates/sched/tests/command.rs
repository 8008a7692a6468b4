//! The scheduler's own program, called as `stayput sched` calls it.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::process::Command;

/// Whatever the kernel can, before it is asked.
#[test]
fn what_is_asked_wrongly_is_refused_in_a_sentence() {
    for (words, said) in [
        ("", "one of `--cgroup`, `--all`, `--check` and `CMD` is missing"),
        ("--light", "one of `--cgroup`, `--all`, `--check` and `CMD` is missing"),
        ("--light --heavy -- true", "`--light` can't be given with `--heavy`"),
        ("--exact --scalable --all", "`--exact` can't be given with `--scalable`"),
        ("--light --all -- true", "`--all` can't be given with `CMD`"),
        ("--all --cgroup /sys/fs/cgroup", "`--all` can't be given with `--cgroup`"),
        ("--all --json", "`--json` needs a value"),
        ("--phi-p -3 --all", "`-3` is no option of `stayput sched`"),
        ("--quantum-ms 0 --all", "`0` is no value of `--quantum-ms`: it must be a number of ms from 1 to 60000"),
        (
            "--decay third --all",
            "`--decay`: `third` is no decay rule; write half, bsd, none, subtract or subtract=TICKS",
        ),
        ("--nosuch", "`--nosuch` is no option of `stayput sched`"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stayput-sched"));
        let output = command.args(shell_words::split(words).unwrap()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words}: {output:?}");
        assert_eq!(output.stdout, b"", "{words}");
        let expected = format!("stayput sched: {said}; see `stayput sched --help`\n");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), expected, "{words}");
    }
}
