//! Executables of the workspace's other packages, which a test of one package alone doesn't build.

use escargot::CargoBuild;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Where cargo builds.
pub fn target() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap()
}

/// An executable of this workspace, built as this test was: by the run of all tests that this one is part of, or now.
pub fn built(executable: &str) -> PathBuf {
    let path = target().join(if cfg!(debug_assertions) { "debug" } else { "release" }).join(executable);
    if !is_fresh(&path).unwrap_or(false) {
        let built = as_this_test(cargo_build(executable)).run().unwrap();
        assert_eq!(built.path(), path);
    }
    path
}

/// Of the whole workspace, as all tests are: for a package alone, what it depends on is built again with fewer features.
pub fn cargo_build(executable: &str) -> CargoBuild {
    CargoBuild::new().arg("--workspace").bin(executable).target_dir(target()).arg("--locked")
}

/// With the optimisation that this test was built with.
pub fn as_this_test(build: CargoBuild) -> CargoBuild {
    if cfg!(debug_assertions) { build } else { build.release() }
}

/// Whether none of the sources that cargo lists beside `executable` is younger, nor what says on what it depends. Cargo itself, asked
/// for one executable, builds much again: its packages have other features where no test is built.
fn is_fresh(executable: &Path) -> Option<bool> {
    let changed = |path: &Path| -> Option<SystemTime> { fs::metadata(path).ok()?.modified().ok() };
    let built_at = changed(executable)?;
    let list = fs::read_to_string(executable.with_extension("d")).ok()?;
    let (_, sources) = list.split_once(": ")?;
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2)?;
    let manifests = ["Cargo.toml", "Cargo.lock"].map(|file| workspace.join(file));
    let mut sources = sources.split_whitespace().map(PathBuf::from).chain(manifests);
    Some(sources.all(|source| changed(&source).is_some_and(|changed_at| changed_at <= built_at)))
}
