//! What is asked of every reader of texts: an answer. Tests of other crates take this file by its path.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// What `read` says of a text of up to a megabyte. A reader that needs more than a second where it is optimised needs far less than
/// this watchdog gives it here.
fn answer(name: &str, read: impl FnOnce() -> Result<(), String> + Send + 'static) -> Result<(), String> {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || tell.send(read()));
    told.recv_timeout(Duration::from_secs(30)).unwrap_or_else(|_| panic!("{name}: no answer"))
}

/// Asserts that what is read of each text is what stands beside it: a part of the message, or nothing where it is right.
pub fn check(cases: Vec<(&'static str, String, Option<&'static str>)>, read: fn(&str) -> Result<(), String>) {
    for (name, text, expected) in cases {
        assert!(text.len() <= (1 << 20) + 100, "{name}: {}", text.len());
        let began = std::time::Instant::now();
        let found = answer(name, move || read(&text));
        eprintln!("{name}: {:?}", began.elapsed());
        match (&found, expected) {
            (Ok(()), None) => {}
            (Err(what), Some(part)) => {
                assert!(what.contains(part), "{name}: {}", what.chars().take(300).collect::<String>());
                assert!(what.len() < 2000, "{name}: {} bytes of message", what.len());
            }
            _ => panic!("{name}: {found:?}, and not {expected:?}"),
        }
    }
}

/// `part` as often as it fits into a megabyte.
pub fn filled(part: &str) -> String {
    part.repeat((1 << 20) / part.len())
}

/// What `part` makes of rising numbers, as much of it as fits into a megabyte with `around` bytes beside it.
pub fn numbered(around: usize, part: impl Fn(usize) -> String) -> String {
    let mut text = String::new();
    for number in 0.. {
        let next = part(number);
        if text.len() + next.len() + around > 1 << 20 {
            break;
        }
        text += &next;
    }
    text
}
