//! Boots a guest for a test, keeps what came of it as JSON, and looks steps up by name.

pub use super::built::built;
use super::built::{build, build_beside_tests, target};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;
use vm::{Exit, Kernel, Step, StepResult, Vm};

/// What a test of the short set may take, boot and all: many times what it needs, since it only ends what hangs.
pub const TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// The same for the others.
pub const LONG_TIMEOUT: Duration = Duration::from_secs(3 * 60 * 60);

/// The kernel to test in, found once and for all tests.
static KERNEL: LazyLock<Option<Kernel>> = LazyLock::new(|| match vm::can_run(&|what| eprintln!("{what}")) {
    Ok(kernel) => {
        kernel.note.iter().for_each(|note| eprintln!("kernel tests: {note}"));
        Some(kernel)
    }
    Err(skip) => {
        eprintln!("kernel tests skipped: {skip}");
        None
    }
});

/// A machine to test in, or none where virtual machines can't run.
pub fn vm(topology: &str) -> Option<Vm> {
    let kernel = KERNEL.clone()?;
    static GUEST: LazyLock<PathBuf> = LazyLock::new(|| built("stayput-guest"));
    Some(Vm::new(kernel, topology.parse().unwrap(), &*GUEST))
}

/// The scheduler's loader, `stayput-sched`, and `stayput-sched-breakable`, which has `--fault`.
pub fn loaders() -> Vec<PathBuf> {
    // Built with different features they go to one path, so the first is put aside.
    static BUILT: LazyLock<[PathBuf; 2]> = LazyLock::new(|| {
        let loader =
            |features| build_beside_tests(&["--bin", "stayput-sched", "--features", features]).join("stayput-sched");
        let breakable = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stayput-sched-breakable");
        fs::copy(loader("stayput-sched/faults"), &breakable).unwrap();
        [loader(""), breakable]
    });
    BUILT.to_vec()
}

/// An executable of this workspace, optimised: where the guest's clock counts instructions, another program takes another time.
pub fn optimised(executable: &str) -> PathBuf {
    build(&["--release", "--bin", executable]);
    target().join("release").join(executable)
}

/// The plugin of qemu that models caches. Each of the guest's accesses goes through it: it and the model are optimised in every profile.
pub fn plugin() -> PathBuf {
    build_beside_tests(&["--lib"]).join("libstayput_misses.so")
}

/// The steps' results by name.
#[derive(Debug)]
pub struct Results(Vec<StepResult>);

impl Results {
    pub fn of_steps(results: Vec<StepResult>) -> Self {
        Self(results)
    }

    pub fn of(&self, name: &str) -> &StepResult {
        self.0.iter().find(|result| result.name == name).unwrap_or_else(|| panic!("no step `{name}` in {self:#?}"))
    }

    /// The output of a step that must have succeeded.
    pub fn output(&self, name: &str) -> &str {
        let result = self.of(name);
        assert_eq!(result.exit, Exit::Code(0), "{result:#?}");
        &result.stdout
    }
}

/// Runs steps, which must come to their end, and keeps their results in `kernel/NAME.json` of the target folder.
pub fn run(vm: &Vm, name: &str, steps: Vec<Step>) -> Results {
    run_within(TIMEOUT, vm, name, steps)
}

/// The same with more time.
pub fn run_within(timeout: Duration, vm: &Vm, name: &str, steps: Vec<Step>) -> Results {
    let mut results = vec![];
    let outcome = vm.run(&steps, timeout, |result| {
        eprintln!("{name}: {}: {:?} after {:.1} s", result.name, result.exit, result.seconds);
        results.push(result.clone());
    });
    let folder: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("kernel");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(format!("{name}.json")), serde_json::to_string_pretty(&results).unwrap()).unwrap();
    outcome.unwrap_or_else(|error| panic!("{error}"));
    Results::of_steps(results)
}
