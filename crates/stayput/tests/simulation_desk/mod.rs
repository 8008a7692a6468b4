//! `stayput simulate` in a folder of its own.

use serde_json::Value;
use std::process::{Command, Output};
use tempfile::TempDir;

/// A folder to simulate in.
pub struct Desk {
    pub folder: TempDir,
    sharing: &'static str,
}

impl Desk {
    /// One with a file in it, for `stayput simulate` and the name of a sharing.
    pub fn new(sharing: &'static str, name: &str, content: &str) -> Self {
        let desk = Self { folder: tempfile::tempdir().unwrap(), sharing };
        desk.write(name, content);
        desk
    }

    pub fn write(&self, name: &str, content: &str) {
        std::fs::write(self.folder.path().join(name), content).unwrap();
    }

    pub fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stayput"));
        command.args(shell_words::split(words).unwrap()).current_dir(self.folder.path());
        command
    }

    pub fn simulate(&self, words: &str) -> Output {
        self.command(&format!("simulate {} {words}", self.sharing)).output().unwrap()
    }

    /// What it prints when all goes well.
    pub fn told(&self, words: &str) -> String {
        let output = self.simulate(words);
        assert!(output.status.success(), "{words}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    pub fn json(&self, words: &str) -> Value {
        serde_json::from_str(&self.told(&format!("{words} --format json"))).unwrap()
    }

    /// The one sentence that it is refused with, at exit code 2.
    pub fn refused(&self, words: &str) -> String {
        let output = self.simulate(words);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words}: {told}");
        assert!(output.stdout.is_empty(), "{words}");
        told
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
