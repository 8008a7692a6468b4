//! Boots a guest for a test, keeps what came of it as JSON, and looks steps up by name.

use kernel::vm::{self, Exit, Script, Step, StepResult, Vm, VmError};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a test may take, boot and all: many times what it needs, since it only ends what hangs.
const TIMEOUT: Duration = Duration::from_secs(600);

/// A machine to test in, or none where virtual machines can't run, which is said.
pub fn vm(topology: &str) -> Option<Vm> {
    match vm::can_run() {
        Ok(kernel) => {
            kernel.note().iter().for_each(|note| eprintln!("kernel tests: {note}"));
            Some(Vm::new(kernel, topology.parse().unwrap(), env!("CARGO_BIN_EXE_stayput-guest")))
        }
        Err(skip) => {
            eprintln!("kernel tests skipped: {skip}");
            None
        }
    }
}

/// The steps' results by name.
#[derive(Debug)]
pub struct Results(Vec<StepResult>);

impl Results {
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

/// Runs steps and keeps their results in `kernel/NAME.json` of the target folder.
pub fn run(vm: &Vm, name: &str, steps: Vec<Step>) -> Result<Results, VmError> {
    let tell =
        |result: &StepResult| eprintln!("{name}: {} {:?} after {:.1} s", result.name, result.exit, result.seconds);
    let results = vm.run_and_tell(&Script { steps }, TIMEOUT, tell)?;
    let folder: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("kernel");
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join(format!("{name}.json"));
    fs::write(file, serde_json::to_string_pretty(&results).unwrap()).unwrap();
    Ok(Results(results))
}
