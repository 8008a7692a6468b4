//! Whether a program's memory is in transparent huge pages.

use crate::LaunchError;
use crate::watchdog::Watchdog;
use machine::linux::memory::{self, Setting};
use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::unistd::{AccessFlags, faccessat};
use serde::{Deserialize, Serialize};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::str::FromStr;
use std::{fmt, fs};

/// Whether memory is in huge pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum HugePages {
    /// As it would anyway.
    #[default]
    Default,
    /// Wherever the kernel can.
    Always,
    /// Nowhere.
    Never,
}

impl fmt::Display for HugePages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default => "default",
            Self::Always => "always",
            Self::Never => "never",
        })
    }
}

impl FromStr for HugePages {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "default" => Ok(Self::Default),
            "always" => Ok(Self::Always),
            "never" => Ok(Self::Never),
            _ => {
                Err(format!("`{}` is no use of huge pages; these are default, always and never", machine::quoted(text)))
            }
        }
    }
}

crate::text_in_journals!(HugePages);

/// What the whole machine is set to while it is to use huge pages wherever it can.
const ALWAYS: &str = "always";
/// What sizes of pages are set to that do as the whole machine.
const INHERIT: &str = "inherit";

impl HugePages {
    /// Why this kernel can't do so, in a sentence.
    pub fn lacking(self) -> Option<String> {
        match self {
            Self::Default => None,
            Self::Never => {
                // SAFETY: the call only asks.
                let known = unsafe { libc::prctl(libc::PR_GET_THP_DISABLE, 0, 0, 0, 0) } >= 0;
                (!known)
                    .then(|| format!("huge pages cannot be kept from a program here: {} (prctl)", Errno::last().desc()))
            }
            Self::Always => {
                if memory::huge_pages().is_none() {
                    return Some("this kernel has no transparent huge pages".into());
                }
                settings_to_change().into_iter().find_map(|(setting, word)| {
                    let access = faccessat(nix::fcntl::AT_FDCWD, &setting.path, AccessFlags::W_OK, AtFlags::AT_EACCESS);
                    Some(format!(
                        "huge pages for all memory take `{word}` in {}, which says `{}` and cannot be changed here: {}; ask for them as \
                         root, or have it changed",
                        setting.path.display(),
                        setting.word,
                        access.err()?.desc()
                    ))
                })
            }
        }
    }

    /// Sets it for the calling process, and for all that it starts or becomes.
    ///
    /// # Safety
    /// It concerns all of the memory of the calling process.
    pub(crate) unsafe fn set(self) -> Result<(), Errno> {
        let disable: libc::c_ulong = match self {
            Self::Default => return Ok(()),
            Self::Always => 0,
            Self::Never => 1,
        };
        let unused: libc::c_ulong = 0;
        // SAFETY: the call changes only a flag of this process's memory.
        let result = unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, disable, unused, unused, unused) };
        Errno::result(result).map(drop)
    }

    /// Brings about what concerns the whole machine: the kernel can keep huge pages from a process but give them only to all, or to
    /// memory for which a program asks (madvise(2)).
    ///
    /// # Errors
    /// [`LaunchError`], when it can't be; the machine is as before then.
    pub(crate) fn begin(self) -> Result<HugePagesInForce, LaunchError> {
        let mut in_force = HugePagesInForce { is_always: self == Self::Always, before: vec![], watchdog: None };
        if !in_force.is_always {
            return Ok(in_force);
        }
        let changes = settings_to_change();
        if !changes.is_empty() {
            let before: Vec<Written> =
                changes.iter().filter_map(|(setting, _)| Written::new(&setting.path, &setting.word)).collect();
            let restore = move || before.iter().for_each(Written::write);
            in_force.watchdog = Some(Watchdog::start(restore).map_err(LaunchError::system("fork"))?);
        }
        for (setting, word) in changes {
            let path = setting.path.clone();
            in_force.before.push(setting);
            fs::write(&path, word).map_err(|error| {
                LaunchError::Conditions(format!("{} cannot be set to `{word}`: {error}", path.display()))
            })?;
        }
        Ok(in_force)
    }
}

/// Settings that have to be another word for huge pages everywhere, and that word.
fn settings_to_change() -> Vec<(Setting, &'static str)> {
    let all = memory::huge_pages().filter(|setting| setting.word != ALWAYS).map(|setting| (setting, ALWAYS));
    let of_size = memory::huge_pages_of_size().filter(|setting| ![ALWAYS, INHERIT].contains(&&*setting.word));
    all.into_iter().chain(of_size.map(|setting| (setting, INHERIT))).collect()
}

/// A file and what to write to it, made before a process may no longer allocate memory.
struct Written {
    path: CString,
    text: CString,
}

impl Written {
    fn new(path: &Path, text: &str) -> Option<Self> {
        Some(Self { path: CString::new(path.as_os_str().as_bytes()).ok()?, text: CString::new(text).ok()? })
    }

    /// Writes it by calls that a signal handler may make.
    fn write(&self) {
        let bytes = self.text.as_bytes();
        // SAFETY: path and text live, and the text is as long as is said.
        unsafe {
            let file = libc::open(self.path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
            libc::write(file, bytes.as_ptr().cast(), bytes.len());
            libc::close(file);
        }
    }
}

/// What the whole machine is set to until this is dropped; it is set back by another process if we are killed.
pub(crate) struct HugePagesInForce {
    is_always: bool,
    /// What was changed, as it was.
    before: Vec<Setting>,
    watchdog: Option<Watchdog>,
}

impl HugePagesInForce {
    /// Why it isn't in force (any more), in a sentence.
    pub(crate) fn lost(&self) -> Option<String> {
        let changed = settings_to_change().into_iter().next().filter(|_| self.is_always)?.0;
        let path = changed.path.display();
        Some(format!(
            "{path} was set to `{}` by somebody else while it ran, so it had huge pages for a part only",
            changed.word
        ))
    }
}

impl Drop for HugePagesInForce {
    fn drop(&mut self) {
        for setting in self.before.iter().rev() {
            // What somebody else has set meanwhile is theirs.
            if setting.now().is_some_and(|word| [ALWAYS, INHERIT].contains(&&*word)) {
                let _ = fs::write(&setting.path, &setting.word);
            }
        }
        drop(self.watchdog.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_of_huge_pages_are_read_back_as_they_are_written() {
        for text in ["default", "always", "never"] {
            assert_eq!(text.parse::<HugePages>().unwrap().to_string(), text);
        }
        assert!("madvise".parse::<HugePages>().unwrap_err().contains("default, always and never"));
    }

    #[test]
    fn what_is_written_when_we_are_gone_is_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("enabled");
        fs::write(&path, "always").unwrap();
        Written::new(&path, "madvise").unwrap().write();
        assert_eq!(fs::read_to_string(&path).unwrap(), "madvise");
    }
}
