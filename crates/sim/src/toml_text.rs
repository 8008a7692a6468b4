//! Texts in TOML whose mistakes are told with their line, which is found by the parser's spans.

use serde::de::DeserializeOwned;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// What is wrong in a text, and on which line, from 1.
pub type Mistake = (usize, String);

/// Where in its text the field at `path` stands, or else the innermost table around it.
fn offset_of(file: &DeTable, path: &str) -> usize {
    let mut offset = 0;
    let mut inner = Inner::Table(file);
    for part in path.split(['.', '[']) {
        let found = match (inner, part.strip_suffix(']').map(str::parse)) {
            (Inner::Array(array), Some(Ok(index))) => array.get::<usize>(index).map(|v| (v.span().start, v.get_ref())),
            // The name of a variant (`observed`) is no part of a path.
            (Inner::Table(table), None) => {
                let in_variant = || table.values().filter_map(|v| v.get_ref().as_table()).find_map(|t| entry(t, part));
                entry(table, part).or_else(in_variant)
            }
            _ => None,
        };
        let Some((start, value)) = found else { break };
        offset = start;
        inner = match value {
            DeValue::Table(table) => Inner::Table(table),
            DeValue::Array(array) => Inner::Array(array),
            _ => break,
        };
    }
    offset
}

/// What a path leads into.
#[derive(Clone, Copy)]
enum Inner<'t, 'text> {
    Table(&'t DeTable<'text>),
    Array(&'t DeArray<'text>),
}

/// A value and where its key stands.
fn entry<'t, 'text>(table: &'t DeTable<'text>, key: &str) -> Option<(usize, &'t DeValue<'text>)> {
    table.iter().find(|(k, _)| k.get_ref() == key).map(|(k, value)| (k.span().start, value.get_ref()))
}

/// Reads TOML text.
///
/// # Errors
/// The line, from 1, and what is wrong there.
pub fn parse<T: DeserializeOwned>(text: &str) -> Result<T, Mistake> {
    toml::from_str(text).map_err(|error| {
        let span = error.span().unwrap_or_default();
        let message = error.message().replace('\n', " ");
        let what = match key_of_value(text, &span) {
            Some(key) if !message.contains(&format!("`{key}`")) => format!("`{key}`: {message}"),
            _ => message,
        };
        (line_of(text, span.start), what)
    })
}

/// The key of the value, itself no table, that has `span` in it.
fn key_of_value(text: &str, span: &Range<usize>) -> Option<String> {
    fn inside(value: &Spanned<DeValue>, span: &Range<usize>) -> bool {
        value.span().start <= span.start && span.end <= value.span().end
    }
    fn find(table: &DeTable, span: &Range<usize>) -> Option<String> {
        table.iter().find_map(|(key, value)| match value.get_ref() {
            DeValue::Table(inner) => find(inner, span),
            DeValue::Array(array) => {
                let tables = array.iter().filter_map(|value| value.get_ref().as_table());
                let is_plain = !array.iter().any(|value| value.get_ref().is_table());
                let inner = tables.into_iter().find_map(|inner| find(inner, span));
                inner.or_else(|| (is_plain && inside(value, span)).then(|| key.get_ref().to_string()))
            }
            _ => inside(value, span).then(|| key.get_ref().to_string()),
        })
    }
    find(DeTable::parse(text).ok()?.get_ref(), span)
}

/// The line of the field at `path` (`jobs[1].process.work_ms`), from 1, or else that of the innermost table around it; 1 in a text
/// that is no TOML.
pub fn line_at(text: &str, path: &str) -> usize {
    DeTable::parse(text).map_or(1, |spans| line_of(text, offset_of(spans.get_ref(), path)))
}

/// The line of the byte at `offset`, from 1.
fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_in_a_comment_or_in_text_is_no_key() {
        let text = "# [[job]]\n# mean = 1\ntitle = \"mean = 1\"\n[[job]]\nmean = 2\n\n[[job]]\nmean = 3\ninner = { mean = 4 }\n";
        let lines = ["title", "job[0]", "job[0].mean", "job[1]", "job[1].mean", "job[1].inner.mean", "job[1].other"];
        assert_eq!(lines.map(|path| line_at(text, path)), [3, 4, 5, 7, 8, 9, 7]);
        assert_eq!(line_at("= 1", "title"), 1);
    }
}
