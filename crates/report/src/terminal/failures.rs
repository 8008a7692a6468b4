//! The trials that failed, each with its cause and the last of what it wrote, for a terminal.

use super::paragraph;
use crate::study_view::StudyView;
use crate::words::shape_in_words;
use crate::words::{count, short};
use std::fmt::Write;
use study::Trial;

/// Most trials that are listed.
const MOST: usize = 5;
/// Most lines of output of one of them; the page has 4 KiB.
const MOST_LINES: usize = 3;

/// Appends them, if there are any. Output that is that of an earlier one isn't repeated.
pub(super) fn failures(text: &mut String, study: &StudyView, width: usize) {
    let failures: Vec<&Trial> = study.failures().collect();
    if failures.is_empty() {
        return;
    }
    text.push('\n');
    let head = format!("{} failed, left out of every number:", count(failures.len(), "trial"));
    paragraph(text, "", &head, width);
    let mut told: Vec<Vec<&str>> = Vec::new();
    for trial in failures.iter().take(MOST) {
        let line = format!(
            "#{} {}, {}, {}: {}, {}",
            trial.sequence,
            trial.subject,
            shape_in_words(trial.threads),
            trial.placement,
            trial.status,
            trial.cause
        );
        paragraph(text, "  ", &line, width);
        let last = last_lines(&trial.output_tail);
        if !told.contains(&last) {
            for line in &last {
                let _ = writeln!(text, "    | {}", short(line, width.saturating_sub(6)));
            }
            told.push(last);
        }
    }
    if failures.len() > MOST {
        let _ = writeln!(text, "  and {} more", failures.len() - MOST);
    }
}

/// The last lines of output that aren't empty.
fn last_lines(output: &str) -> Vec<&str> {
    let lines: Vec<&str> = output.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(MOST_LINES)..].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_those_that_say_something() {
        assert_eq!(last_lines(""), [""; 0]);
        assert_eq!(last_lines("\n a \n\n"), [" a"]);
        assert_eq!(last_lines("1\n2\n\n3\n4\n\n"), ["2", "3", "4"]);
    }
}
