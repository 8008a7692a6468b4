//! A program's output, of which the start and the end are kept.

use crate::log::Log;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};

/// How much is kept of the start, and as much again of the end: enough for a result line, whatever comes in between.
pub const KEPT_BYTES: usize = 64 << 10;

/// One output stream of a program: all of it when it is short, else its start and its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Captured {
    /// The first bytes, at most [`KEPT_BYTES`].
    pub head: Vec<u8>,
    /// The last bytes after `head`, at most [`KEPT_BYTES`].
    pub tail: Vec<u8>,
    /// How many bytes were written in all.
    pub total_bytes: u64,
}

impl Captured {
    /// How many bytes between `head` and `tail` were dropped.
    pub fn dropped_bytes(&self) -> u64 {
        self.total_bytes - (self.head.len() + self.tail.len()) as u64
    }

    /// What was kept as text; where bytes were dropped, a line says how many.
    pub fn text(&self) -> Cow<'_, str> {
        if self.tail.is_empty() {
            return String::from_utf8_lossy(&self.head);
        }
        let mut bytes = self.head.clone();
        if self.dropped_bytes() > 0 {
            bytes.extend(format!("\n[{} bytes not kept]\n", self.dropped_bytes()).bytes());
        }
        bytes.extend(&self.tail);
        String::from_utf8_lossy(&bytes).into_owned().into()
    }

    /// The end as text, at most `bytes` long before bytes that are no UTF-8 are replaced.
    pub fn end(&self, bytes: usize) -> String {
        let kept: Vec<u8> =
            if self.dropped_bytes() > 0 { self.tail.clone() } else { [self.head.as_slice(), &self.tail].concat() };
        let mut start = kept.len().saturating_sub(bytes);
        // Not in the middle of a character.
        while start < kept.len() && kept[start] & 0xC0 == 0x80 {
            start += 1;
        }
        String::from_utf8_lossy(&kept[start..]).into_owned()
    }

    pub(crate) fn push(&mut self, mut bytes: &[u8]) {
        self.total_bytes += bytes.len() as u64;
        let to_head = bytes.len().min(KEPT_BYTES - self.head.len());
        self.head.extend(&bytes[..to_head]);
        bytes = &bytes[to_head..];
        self.tail.extend(bytes);
        // Twice the size before it is cut, so that a byte is moved at most once on average.
        if self.tail.len() > 2 * KEPT_BYTES {
            self.cut();
        }
    }

    fn cut(&mut self) {
        let surplus = self.tail.len().saturating_sub(KEPT_BYTES);
        self.tail.drain(..surplus);
    }
}

/// The reading end of a program's output pipe.
pub(crate) struct Stream {
    pipe: Option<File>,
    kept: Captured,
    log: Option<Log>,
}

impl Stream {
    /// Collects from `pipe`, which must not block.
    pub(crate) fn new(pipe: File) -> Self {
        Self { pipe: Some(pipe), kept: Captured::default(), log: None }
    }

    /// Writes what is collected to `log` as well.
    pub(crate) fn log_to(&mut self, log: Log) {
        self.log = Some(log);
    }

    /// What to poll; none once the program has closed its end.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(File::as_fd)
    }

    /// Takes what is there now, a bounded amount so that a program that never stops writing can't keep us here.
    pub(crate) fn drain(&mut self) {
        let mut buffer = [0; 64 << 10];
        for _ in 0..16 {
            let Some(pipe) = &mut self.pipe else { return };
            match pipe.read(&mut buffer) {
                Ok(0) => self.pipe = None,
                Ok(length) => {
                    self.kept.push(&buffer[..length]);
                    self.log.iter().for_each(|log| log.push(&buffer[..length]));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.pipe = None,
            }
        }
    }

    /// What was kept in the end.
    pub(crate) fn finish(mut self) -> Captured {
        self.drain();
        self.kept.cut();
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn start_and_end_are_kept_and_the_rest_is_counted(chunks in prop::collection::vec(0..100_000_usize, 0..12)) {
            let mut captured = Captured::default();
            let mut all = Vec::new();
            for (index, length) in chunks.into_iter().enumerate() {
                let chunk = vec![index as u8; length];
                captured.push(&chunk);
                all.extend(chunk);
                prop_assert!(captured.tail.len() <= 2 * KEPT_BYTES);
            }
            captured.cut();
            prop_assert_eq!(captured.total_bytes, all.len() as u64);
            prop_assert_eq!(&captured.head[..], &all[..all.len().min(KEPT_BYTES)]);
            let rest = &all[captured.head.len()..];
            prop_assert_eq!(&captured.tail[..], &rest[rest.len().saturating_sub(KEPT_BYTES)..]);
        }
    }

    #[test]
    fn text_says_what_is_missing() {
        let mut captured = Captured::default();
        captured.push(&vec![b'a'; KEPT_BYTES]);
        captured.push(&[b'b'; 5]);
        captured.push(&vec![b'c'; KEPT_BYTES]);
        captured.cut();
        assert!(captured.text().contains("a\n[5 bytes not kept]\nc"));
        assert_eq!(captured.end(3), "ccc");
    }

    #[test]
    fn the_end_does_not_start_inside_a_character() {
        let mut captured = Captured::default();
        captured.push("xé!".as_bytes());
        assert_eq!(captured.end(2), "!");
        assert_eq!(captured.end(100), "xé!");
    }
}
