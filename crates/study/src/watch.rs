//! Whether programs are still what they were when the work on their study began: who builds anew while it runs would mix two programs.

use crate::identity::{Change, FileIdentity, Identity};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What a file system says of a file that changes whenever its content does: device, inode, size in bytes, and when it was written in
/// seconds and nanoseconds.
type Stamp = (u64, u64, u64, i64, i64);

/// The files of a subject while it is studied.
#[derive(Debug)]
pub(crate) struct Watch {
    files: Vec<(FileIdentity, Option<Stamp>)>,
}

impl Watch {
    /// Watches the files of `identity`, which was read just now.
    pub(crate) fn new(identity: Option<&Identity>) -> Self {
        let files = identity.into_iter().flat_map(|identity| &identity.files);
        Self { files: files.map(|file| (file.clone(), stamp(&file.path))).collect() }
    }

    /// The first file whose content has changed. What isn't there is found when it is to be started.
    pub(crate) fn change(&mut self) -> Option<Change> {
        for (then, seen) in &mut self.files {
            let now = stamp(&then.path);
            if now == *seen || now.is_none() {
                continue;
            }
            *seen = now;
            let now = FileIdentity::read(&then.name, &then.path, then.is_library)?;
            if now.sha256 != then.sha256 {
                return Some(Change::Content {
                    name: now.name,
                    then_bytes: then.size_bytes,
                    now_bytes: now.size_bytes,
                });
            }
        }
        None
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let file = fs::metadata(path).ok()?;
    Some((file.dev(), file.ino(), file.size(), file.mtime(), file.mtime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_content_is_a_change_and_another_date_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app");
        fs::write(&path, "one").unwrap();
        let file = FileIdentity::read("app", &path, false).unwrap();
        let mut watch = Watch::new(Some(&Identity { files: vec![file] }));
        assert_eq!(watch.change(), None);
        let write_anew = |text: &str| {
            fs::write(folder.path().join("new"), text).unwrap();
            fs::rename(folder.path().join("new"), &path).unwrap();
        };
        write_anew("one");
        assert_eq!(watch.change(), None);
        write_anew("three");
        let change = Change::Content { name: "app".into(), then_bytes: 3, now_bytes: 5 };
        assert_eq!(watch.change(), Some(change));
        fs::remove_file(&path).unwrap();
        assert_eq!(watch.change(), None);
    }
}
