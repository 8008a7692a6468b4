//! Text that goes to a terminal: foreign text goes in, and text comes out that a terminal shows and doesn't obey.
//!
//! Names of files, subjects and machines, keys of TOML files, the output of programs, fields of journals: whoever wrote them may have
//! put characters there by which terminals are steered (`ESC` and the other control characters), or by which the order of what
//! is shown is turned around (direction overrides). Those are shown as Rust writes them: `\u{1b}`, `\u{202e}`.
//!
//! Programs that print for people have [`eprintln!`](crate::eprintln) and [`eprint!`](crate::eprint) of this crate take the place of
//! those of `std`, so that no message can be forgotten.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write};

/// Whether a terminal, or whoever reads text in one, would be misled by `c`: control characters but for line ends and tabs, marks of
/// writing direction, invisible characters, and separators of lines that are none to other programs.
pub fn misleads(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        // Directions: marks, embeddings and overrides, isolates.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        // Separators of lines and paragraphs.
        '\u{2028}' | '\u{2029}' => true,
        // Characters without a width: soft hyphens, joiners, fillers, annotations, tags.
        '\u{ad}' | '\u{180e}' | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2064}' | '\u{206a}'..='\u{206f}' => true,
        '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}' => true,
        // C0, DEL and C1.
        _ => c.is_control(),
    }
}

/// `text` with every character that [misleads] shown as an escape: `\r`, `\u{1b}`, `\u{202e}`.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(misleads) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    text.chars().for_each(|c| push(&mut shown, c));
    Cow::Owned(shown)
}

/// The same of text that has colours of ours: sequences that only choose colours and weights (`ESC [ … m`) are kept. Foreign text in
/// it must have been made [printable] before it was coloured.
pub fn printable_coloured(text: &str) -> Cow<'_, str> {
    if !text.contains(misleads) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = colour_length(rest);
        if length > 0 {
            shown.push_str(&rest[..length]);
            rest = &rest[length..];
        } else {
            push(&mut shown, c);
            rest = &rest[c.len_utf8()..];
        }
    }
    Cow::Owned(shown)
}

/// The length in bytes of the sequence at the start of `text` that chooses a colour; 0 where there is none.
fn colour_length(text: &str) -> usize {
    let Some(after) = text.strip_prefix("\u{1b}[") else { return 0 };
    let parameters = after.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b';').count();
    if after.as_bytes().get(parameters) == Some(&b'm') { 2 + parameters + 1 } else { 0 }
}

/// JSON that says the same with every character that [misleads] as `\uXXXX`. Outside of strings JSON has none of them.
pub fn printable_json(json: &str) -> Cow<'_, str> {
    // What has to be escaped in a string is so already, and spaces between values may be carriage returns.
    let is_hidden = |c: char| misleads(c) && c != '\r';
    if !json.contains(is_hidden) {
        return Cow::Borrowed(json);
    }
    let mut shown = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if is_hidden(c) {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                shown.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

fn push(shown: &mut String, c: char) {
    if misleads(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
}

/// Writes a message to standard error, [printable]. Where it can't be written nobody is there to be told.
pub fn say(message: fmt::Arguments) {
    let _ = io::stderr().write_all(printable(&message.to_string()).as_bytes());
}

/// As `std::eprint!`, of text that is made [printable](crate::printable).
#[macro_export]
macro_rules! eprint {
    ($($message:tt)*) => { $crate::say(format_args!($($message)*)) };
}

/// As `std::eprintln!`, of text that is made [printable](crate::printable).
#[macro_export]
macro_rules! eprintln {
    () => { $crate::say(format_args!("\n")) };
    ($($message:tt)*) => { $crate::say(format_args!("{}\n", format_args!($($message)*))) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_shown() {
        assert_eq!(printable("a\u{1b}[31mb\rc\u{9b}2J\u{7f}\0"), "a\\u{1b}[31mb\\rc\\u{9b}2J\\u{7f}\\u{0}");
        assert_eq!(printable("user\u{202e}txt.exe\u{2069}\u{200f}"), "user\\u{202e}txt.exe\\u{2069}\\u{200f}");
        assert_eq!(printable("a\u{2028}b\u{200b}c\u{e0041}"), "a\\u{2028}b\\u{200b}c\\u{e0041}");
    }

    #[test]
    fn ordinary_text_of_any_language_stays_as_it_is() {
        for text in ["", "a\tb\n", "čeština, 日本語, עברית, عربى, ±1.5 %, 1 – 2 · …", "C:\\u{1b}", "🙂"]
        {
            assert!(matches!(printable(text), Cow::Borrowed(shown) if shown == text), "{text}");
        }
    }

    #[test]
    fn no_character_that_misleads_is_left_and_nothing_else_changes() {
        for c in '\0'..=char::MAX {
            let shown = printable(c.encode_utf8(&mut [0; 4])).into_owned();
            assert!(!shown.contains(misleads), "{c:?}");
            assert_eq!(shown == c.to_string(), !misleads(c), "{c:?}");
        }
        // Of every block of control characters and marks, the first, the last and the neighbours.
        for range in ['\u{80}'..='\u{9f}', '\u{202a}'..='\u{202e}', '\u{2066}'..='\u{2069}', '\0'..='\u{8}'] {
            assert!(range.into_iter().all(misleads));
        }
        assert!(!misleads('\u{a0}') && !misleads('\u{2010}') && !misleads('\u{202f}') && !misleads('~'));
    }

    #[test]
    fn colours_are_kept_and_no_other_sequence() {
        assert_eq!(printable_coloured("\u{1b}[38;5;10mgreen\u{1b}[0m"), "\u{1b}[38;5;10mgreen\u{1b}[0m");
        assert_eq!(printable_coloured("\u{1b}[mplain"), "\u{1b}[mplain");
        for sequence in ["[2J", "]0;title\u{7}", "[31", "[6n", "P", ""] {
            let text = format!("\u{1b}{sequence}");
            assert!(!printable_coloured(&text).contains(misleads), "{text:?}");
        }
    }

    #[test]
    fn json_says_the_same() {
        let json = "{\"a\": \"\u{9b}\u{202e}\u{e0001}é\"}\r\n";
        assert_eq!(printable_json(json), "{\"a\": \"\\u009b\\u202e\\udb40\\udc01é\"}\r\n");
        assert!(matches!(printable_json("{\"a\": 1}\n"), Cow::Borrowed(_)));
    }
}
