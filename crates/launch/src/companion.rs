//! Stayput's other programs, which are built and installed with the one that runs.

use std::path::{Path, PathBuf};

/// Where `make install` puts them, seen from the folder of the command.
const LIBEXEC: &str = "../libexec/stayput";

/// One of Stayput's own programs or libraries isn't there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name} isn't installed with this command: `make install` in Stayput's source installs all of its programs, and `make build` \
     builds them beside target/release/stayput"
)]
pub struct NotInstalled {
    /// Its file name.
    pub name: String,
}

/// The path of the program or library `name`: beside the running program, as cargo builds them, or in `libexec/stayput`.
///
/// # Errors
/// [`NotInstalled`] where neither is there.
pub fn companion(name: &str) -> Result<PathBuf, NotInstalled> {
    let own = std::env::current_exe().ok();
    let found = own.as_deref().and_then(Path::parent).and_then(|folder| companion_of(folder, name));
    found.ok_or_else(|| NotInstalled { name: name.to_owned() })
}

/// The same for a program in `folder`.
fn companion_of(folder: &Path, name: &str) -> Option<PathBuf> {
    let installed = folder.join(LIBEXEC).join(name);
    // Without `..` where it is shown and journaled.
    let installed = || installed.canonicalize().ok();
    Some(folder.join(name)).filter(|path| path.exists()).or_else(installed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_was_built_beside_is_taken_before_what_is_installed() {
        let prefix = tempfile::tempdir().unwrap();
        let (bin, libexec) = (prefix.path().join("bin"), prefix.path().join("libexec/stayput"));
        fs::create_dir_all(&bin).unwrap();
        fs::create_dir_all(&libexec).unwrap();
        assert_eq!(companion_of(&bin, "npb-ep"), None);
        fs::write(libexec.join("npb-ep"), "").unwrap();
        let installed = libexec.join("npb-ep").canonicalize().unwrap();
        assert_eq!(companion_of(&bin, "npb-ep"), Some(installed));
        fs::write(bin.join("npb-ep"), "").unwrap();
        assert_eq!(companion_of(&bin, "npb-ep"), Some(bin.join("npb-ep")));
    }

    #[test]
    fn what_is_missing_is_named_with_what_brings_it() {
        let error = companion("no-such-program").unwrap_err().to_string();
        assert!(error.starts_with("no-such-program isn't installed") && error.contains("`make install`"), "{error}");
    }
}
