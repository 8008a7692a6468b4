//! A program's output as it comes, for who waits for a line of it.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// No more of it is kept.
const MOST_BYTES: u64 = 4 << 20;

/// A file without a name, to which output is written in one process and from which it is read in another.
#[derive(Clone, Debug)]
pub struct Log(Arc<File>);

impl Log {
    pub(crate) fn new() -> io::Result<Self> {
        let file = nix::sys::memfd::memfd_create(c"log", nix::sys::memfd::MFdFlags::MFD_CLOEXEC)?;
        Ok(Self(Arc::new(File::from(file))))
    }

    /// Where this process has it open.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Adds to it, unless it is full.
    pub(crate) fn push(&self, bytes: &[u8]) {
        let length = self.0.metadata().map_or(MOST_BYTES, |data| data.len());
        if length < MOST_BYTES {
            // What is missing in the log is in the output all the same.
            let _ = self.0.write_all_at(bytes, length);
        }
    }

    /// What was written so far.
    pub(crate) fn text(&self) -> String {
        let mut bytes = vec![0; self.0.metadata().map_or(0, |data| data.len()) as usize];
        let read = self.0.read_at(&mut bytes, 0).unwrap_or(0);
        bytes.truncate(read);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pushed_is_read_up_to_its_bound() {
        let log = Log::new().unwrap();
        assert_eq!(log.text(), "");
        log.push(b"one\n");
        log.clone().push(b"two\n");
        assert_eq!(log.text(), "one\ntwo\n");
        let much = vec![b'x'; 3 << 20];
        (0..4).for_each(|_| log.push(&much));
        assert!(log.text().len() < 8 << 20, "{}", log.text().len());
    }
}
