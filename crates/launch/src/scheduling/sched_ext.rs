//! What the kernel says of sched_ext, the class that BPF schedulers schedule.

use std::fs;
use std::path::{Path, PathBuf};

/// Its files, in `/sys/kernel/sched_ext` but for tests.
#[derive(Clone, Debug)]
pub(super) struct SchedExt {
    folder: PathBuf,
}

/// A scheduler that the kernel has loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Loaded {
    /// What it calls itself.
    pub(super) name: String,
    /// Which it is since the machine started, where the kernel counts them.
    pub(super) sequence: Option<u64>,
}

impl SchedExt {
    pub(super) fn of_kernel() -> Self {
        #[cfg(test)]
        if let Some(folder) = tests::FOLDER.with_borrow(Option::clone) {
            return Self::at(folder);
        }
        Self::at(PathBuf::from("/sys/kernel/sched_ext"))
    }

    /// The same in another folder.
    pub(super) fn at(folder: PathBuf) -> Self {
        Self { folder }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether this kernel has it.
    pub(super) fn exists(&self) -> bool {
        self.folder.exists()
    }

    fn word(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.folder.join(file)).ok().map(|text| text.trim().to_owned())
    }

    /// `enabled`, `disabled`, or on its way to one of them.
    pub(super) fn state(&self) -> String {
        self.word("state").unwrap_or_default()
    }

    /// Whether no scheduler is loaded or is about to be.
    pub(super) fn is_free(&self) -> bool {
        self.state() == "disabled"
    }

    /// The scheduler that is in force.
    pub(super) fn loaded(&self) -> Option<Loaded> {
        if self.state() != "enabled" {
            return None;
        }
        Some(Loaded { name: self.word("root/ops")?, sequence: self.sequence() })
    }

    /// How many schedulers have been loaded since the machine started, where the kernel counts them. It counts one after it has said
    /// that it is enabled.
    pub(super) fn sequence(&self) -> Option<u64> {
        self.word("enable_seq").and_then(|count| count.parse().ok())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::cell::RefCell;
    use tempfile::TempDir;

    thread_local! {
        /// What stands for the kernel's folder in this thread.
        pub(super) static FOLDER: RefCell<Option<PathBuf>> = const { RefCell::new(None) };
    }

    /// A folder that stands for the kernel's, in this thread, as long as this lives.
    pub(crate) struct FakeKernel(TempDir);

    impl FakeKernel {
        pub(crate) fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir(folder.path().join("root")).unwrap();
            FOLDER.set(Some(folder.path().to_owned()));
            let kernel = Self(folder);
            kernel.write("state", "disabled");
            kernel.write("enable_seq", "4");
            kernel
        }

        pub(crate) fn path(&self) -> &Path {
            self.0.path()
        }

        pub(crate) fn write(&self, file: &str, text: &str) {
            fs::write(self.path().join(file), format!("{text}\n")).unwrap();
        }

        pub(crate) fn state(&self) -> String {
            SchedExt::of_kernel().state()
        }

        /// A script that loads a scheduler called `fake` and unloads it on SIGINT; `meanwhile` is what it does in between.
        pub(crate) fn loader(&self, meanwhile: &str) -> String {
            let folder = self.path().display();
            let script = self.path().join("loader");
            let text = format!(
                "#!/bin/sh
                 cd {folder}
                 trap 'echo disabled > state; exit 0' INT
                 echo fake > root/ops; echo enabled > state; sleep 0.05; echo 5 > enable_seq
                 {meanwhile}
                 while :; do sleep 1000 & wait $!; done\n"
            );
            fs::write(&script, text).unwrap();
            format!("sh '{}'", script.display())
        }
    }

    impl Drop for FakeKernel {
        fn drop(&mut self) {
            FOLDER.set(None);
        }
    }

    #[test]
    fn a_scheduler_is_loaded_once_the_kernel_says_that_it_is_enabled() {
        let kernel = FakeKernel::new();
        let sched_ext = SchedExt::of_kernel();
        assert!(sched_ext.exists() && sched_ext.is_free());
        kernel.write("root/ops", "rusty");
        kernel.write("state", "enabling");
        assert!(!sched_ext.is_free());
        assert_eq!(sched_ext.loaded(), None);
        kernel.write("state", "enabled");
        assert_eq!(sched_ext.loaded(), Some(Loaded { name: "rusty".into(), sequence: Some(4) }));
    }
}
