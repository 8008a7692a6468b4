//! The switch of the kernel's cache-aware balancing (SCHED_CACHE).

use machine::linux::system;
use std::fs;
use std::path::PathBuf;

/// Where it is, once debugfs is mounted. Seen in Linux 7.3.
const SWITCH: &str = "/sys/kernel/debug/sched/llc_balancing/enabled";

/// The switch as we have set it; dropped, it is as it was before.
pub(crate) struct CacheAware {
    file: PathBuf,
    before: String,
    on: bool,
}

impl CacheAware {
    /// Why it can't be switched here, in a sentence.
    pub(super) fn lacking() -> Option<String> {
        lacking_at(&SWITCH.into())
    }

    /// Switches it for as long as the answer lives.
    pub(super) fn switch(on: bool) -> Result<Self, String> {
        Self::switch_at(SWITCH.into(), on)
    }

    fn switch_at(file: PathBuf, on: bool) -> Result<Self, String> {
        let failed = |error| format!("cache-aware balancing can't be switched: {}: {error}", file.display());
        let before = fs::read_to_string(&file).map_err(failed)?;
        fs::write(&file, if on { "1" } else { "0" }).map_err(failed)?;
        let switch = Self { file, before, on };
        match switch.is_on() == Some(on) {
            true => Ok(switch),
            false => Err(format!(
                "cache-aware balancing did not become {}: {} does not say so; its kernel turns it off where no package has several \
                 last-level caches",
                word(on),
                switch.file.display()
            )),
        }
    }

    /// What the kernel says of it now.
    pub(super) fn is_on(&self) -> Option<bool> {
        match fs::read_to_string(&self.file).ok()?.trim() {
            "1" | "Y" => Some(true),
            "0" | "N" => Some(false),
            _ => None,
        }
    }

    pub(super) fn lost(&self) -> Option<String> {
        (self.is_on() != Some(self.on))
            .then(|| format!("cache-aware balancing was not {} any more when the program ended", word(self.on)))
    }
}

impl Drop for CacheAware {
    fn drop(&mut self) {
        let _ = fs::write(&self.file, self.before.trim());
    }
}

fn word(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

fn lacking_at(file: &PathBuf) -> Option<String> {
    let release = system::kernel_release().unwrap_or_default();
    match fs::OpenOptions::new().read(true).write(true).open(file) {
        Ok(_) => None,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            Some(format!("to switch cache-aware balancing ({}) takes root", file.display()))
        }
        Err(_) => Some(format!(
            "this kernel (Linux {release}) has no switch for cache-aware balancing, since {} isn't there: it takes one that is built \
             with CONFIG_SCHED_CACHE, and debugfs",
            file.display()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switch_is_as_it_was_when_the_run_is_over() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("enabled");
        assert!(lacking_at(&file).unwrap().contains("CONFIG_SCHED_CACHE"));
        assert!(CacheAware::switch_at(file.clone(), true).is_err());
        for (before, on) in [("0\n", true), ("1\n", false), ("N\n", true), ("1\n", true)] {
            fs::write(&file, before).unwrap();
            assert_eq!(lacking_at(&file), None);
            let switch = CacheAware::switch_at(file.clone(), on).unwrap();
            assert_eq!((switch.is_on(), switch.lost()), (Some(on), None));
            fs::write(&file, if on { "0" } else { "1" }).unwrap();
            assert!(switch.lost().unwrap().contains(word(on)));
            drop(switch);
            assert_eq!(fs::read_to_string(&file).unwrap(), before.trim());
        }
    }
}
