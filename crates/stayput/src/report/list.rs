//! The journals of a folder, one a line: what each is of, how far it came, and the command that goes on with it.

use crate::UsageError;
use anyhow::Context;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use study::JournalError;
use study::journal::{Glance, glance};

/// The list, with the journal that was worked on last first.
///
/// # Errors
/// When the folder can't be read, or has no journal.
pub fn of_folder(folder: &Path) -> anyhow::Result<String> {
    let unreadable = || format!("cannot read folder {}", folder.display());
    let mut journals: Vec<(PathBuf, Result<Glance, JournalError>)> = Vec::new();
    for entry in folder.read_dir().with_context(unreadable)? {
        let path = entry.with_context(unreadable)?.path();
        if path.extension().is_some_and(|extension| extension == "stayput") && path.is_file() {
            let path = path.strip_prefix(".").map_or(path.clone(), Path::to_path_buf);
            journals.push((path.clone(), glance(&path)));
        }
    }
    if journals.is_empty() {
        let place = if folder == Path::new(".") { "this folder".into() } else { folder.display().to_string() };
        return Err(UsageError::from(format!("there is no journal in {place}; name a .stayput file")));
    }
    let last = |journal: &Result<Glance, JournalError>| journal.as_ref().ok().and_then(|glance| glance.last_unix_s);
    journals.sort_by(|(name, journal), (other_name, other)| {
        last(other).partial_cmp(&last(journal)).unwrap_or(std::cmp::Ordering::Equal).then_with(|| name.cmp(other_name))
    });
    let mut rows: Vec<[String; 5]> = vec![["journal", "study", "runs", "state", "last worked on"].map(String::from)];
    let mut commands = Vec::new();
    for (path, journal) in journals {
        let name = terminal::printable(&path.display().to_string()).replace('\n', "\\n");
        match journal {
            Ok(glance) => {
                let moment = glance.last_unix_s.map_or_else(|| "never".into(), report::moment);
                commands.push(command(&glance));
                rows.push([name, glance.kind, glance.runs.to_string(), glance.state.to_string(), moment]);
            }
            Err(error) => {
                rows.push([name, "-".into(), "-".into(), "unreadable".into(), "-".into()]);
                commands.push(error.to_string());
            }
        }
    }
    let widths: [usize; 5] =
        std::array::from_fn(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0));
    let mut text = String::new();
    for (row, command) in rows.iter().zip(std::iter::once("command").chain(commands.iter().map(String::as_str))) {
        for (cell, width) in row.iter().zip(widths) {
            let _ = write!(text, "{cell:width$}  ");
        }
        let _ = writeln!(text, "{command}");
    }
    Ok(text)
}

/// A command line as a shell takes it, with this program by its name alone, and where what it read came from.
fn command(glance: &Glance) -> String {
    let program = |word: &String| Path::new(word).file_name().map_or(word.clone(), |n| n.to_string_lossy().into());
    let words = glance.command_line.iter().enumerate();
    let words: Vec<String> = words.map(|(at, word)| if at == 0 { program(word) } else { word.clone() }).collect();
    let names_it = |word: &&String| word.starts_with("--input") || word.ends_with(".toml");
    let input =
        glance.input.as_ref().filter(|_| !words.iter().take_while(|word| *word != "--").any(|word| names_it(&word)));
    let redirected = match input.map(|input| (&input.file, input.bytes)) {
        Some((Some(file), _)) => format!(" < {}", shell_words::quote(&file.to_string_lossy())),
        Some((None, bytes)) => format!(" (and {bytes} bytes through a pipe)"),
        None => String::new(),
    };
    shell_words::join(words) + &redirected
}
