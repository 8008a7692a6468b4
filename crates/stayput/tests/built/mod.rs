//! Executables of the workspace's other packages, which a test of one package alone doesn't build.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Where cargo builds.
pub fn target() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap()
}

/// An executable of this workspace, built as this test was: by the run of all tests that this one is part of, or now.
pub fn built(executable: &str) -> PathBuf {
    build_beside_tests(&["--bin", executable]).join(executable)
}

/// Builds something of this workspace as a run of all tests does, with the optimisation that this one was built with, and returns where.
///
/// Where no test is built, packages have other features; and what build scripts share with `stayput`, or with the tests that parse HTML, is another
/// build without those. Either way nearly everything would be built again.
pub fn build_beside_tests(what: &[&str]) -> PathBuf {
    let (profile, folder) = if cfg!(debug_assertions) { ("dev", "debug") } else { ("release", "release") };
    let as_tests = ["--workspace", "--bin", "stayput", "--test", "html", "--profile", profile];
    build(&[&as_tests, what].concat());
    target().join(folder)
}

/// Has cargo build, at the root of this workspace.
pub fn build(what: &[&str]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root).args(["build", "--quiet", "--locked", "--target-dir"]).arg(target()).args(what);
    assert!(cargo.status().unwrap().success(), "{cargo:?}");
}
