//! A command line that can't be, in one sentence: what is wrong, and what to type instead.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, Error};
use std::num::ParseIntError;

/// The sentence for a wrong command line; none for a request such as `--help`, which isn't wrong. `words` are all words of the
/// command line, the program's name included, and `command` is what they were parsed by.
pub fn sentence(error: &Error, mut command: Command, words: &[String]) -> Option<String> {
    command.build();
    let (command, name, rest) = subcommand(&command, words);
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) if !texts.is_empty() => Some(list(texts, "and")),
        _ => None,
    };
    let option = |kind| text(kind).map(|shown| option_name(&shown).to_owned()).unwrap_or_default();
    let wrong = option(ContextKind::InvalidArg);
    let value = text(ContextKind::InvalidValue).unwrap_or_default();
    let choices = match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(choices)) if !choices.is_empty() => format!("it takes {}", list(choices, "or")),
        _ => String::new(),
    };
    let sentence = match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        | ErrorKind::MissingSubcommand => return None,
        ErrorKind::InvalidSubcommand => {
            let instead = text(ContextKind::SuggestedSubcommand).map(|names| format!("; did you mean `{names}`?"));
            format!("there is no command `{}`{}", option(ContextKind::InvalidSubcommand), instead.unwrap_or_default())
        }
        ErrorKind::UnknownArgument => {
            // clap takes the end of a long word for a misspelt short one: `--on` for `--frobnicate`.
            let is_near = |shown: &String| 2 * option_name(shown).len() > wrong.len();
            let instead = text(ContextKind::SuggestedArg).filter(is_near);
            let instead = instead.map(|shown| format!("; `{}` is", option_name(&shown)));
            let is_option = wrong.starts_with('-');
            match with_dashes(command, &name, rest) {
                Some(line) => format!("put `--` before the program: `{line}`"),
                _ if is_option => format!("`{wrong}` is no option of `{name}`{}", instead.unwrap_or_default()),
                _ => format!("`{wrong}` is one word too many"),
            }
        }
        ErrorKind::InvalidValue if value.is_empty() => format!("`{wrong}` needs a value{}", after(": ", &choices)),
        ErrorKind::InvalidValue => format!("`{value}` is no value of `{wrong}`{}", after(": ", &choices)),
        ErrorKind::ValueValidation => {
            let reason = match std::error::Error::source(error) {
                Some(source) if source.is::<ParseIntError>() => "it takes a whole number".to_owned(),
                source => source.map(ToString::to_string).map(|reason| range(&reason)).unwrap_or_default(),
            };
            // Where the reason names the value, it is said once.
            match reason.contains(&format!("`{value}`")) {
                true => format!("`{wrong}`: {reason}"),
                false => format!("`{value}` is no value of `{wrong}`{}", after(": ", &reason)),
            }
        }
        ErrorKind::ArgumentConflict => match option(ContextKind::PriorArg) {
            other if other == wrong => format!("`{wrong}` is given twice"),
            other if wrong.is_empty() => {
                format!("`{}` can't be given with `{other}`", text(ContextKind::InvalidSubcommand).unwrap_or_default())
            }
            other => format!("`{wrong}` can't be given with `{other}`"),
        },
        ErrorKind::MissingRequiredArgument => missing(command, &name, error),
        ErrorKind::WrongNumberOfValues => {
            let number = |kind| match error.get(kind) {
                Some(ContextValue::Number(number)) => number.to_string(),
                _ => "other".to_owned(),
            };
            let [takes, has] = [ContextKind::ExpectedNumValues, ContextKind::ActualNumValues].map(number);
            format!("{} takes {takes} values, and has {has}", text(ContextKind::InvalidArg).unwrap_or_default())
        }
        ErrorKind::InvalidUtf8 => "a word of the command line isn't UTF-8".to_owned(),
        _ => error.to_string().lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned(),
    };
    Some(format!("{sentence}; see `{name} --help`").replace("?; see", "? See"))
}

/// The text without the ` (os error 2)` that follows the system's words, and tells people nothing that those don't.
pub fn without_error_number(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once(')').map_or("", |(_, rest)| rest))
}

/// What the words go to: the innermost subcommand, its name as it is typed, and the words after it.
fn subcommand<'a, 'w>(mut command: &'a Command, words: &'w [String]) -> (&'a Command, String, &'w [String]) {
    let mut name = command.get_name().to_owned();
    let mut rest = words.get(1..).unwrap_or_default();
    while let [word, others @ ..] = rest
        && let Some(inner) = command.find_subcommand(word)
    {
        (command, rest) = (inner, others);
        name = format!("{name} {}", inner.get_name());
    }
    (command, name, rest)
}

/// The command line with the `--` that it lacks before a program of the caller's own; none where that isn't what is wrong.
fn with_dashes(command: &Command, name: &str, words: &[String]) -> Option<String> {
    let takes_program = command.get_positionals().any(Arg::is_last_set);
    if !takes_program || words.iter().any(|word| word == "--") {
        return None;
    }
    let takes_other_words = command.get_positionals().any(|positional| !positional.is_last_set());
    let mut is_value = false;
    let start = words.iter().position(|word| {
        let is_word = !std::mem::take(&mut is_value) && !word.starts_with('-');
        is_value = takes_next_word(command, word);
        // A file of a study is no program.
        is_word && (!takes_other_words || word.contains('/')) && !word.ends_with(".toml")
    })?;
    let (options, program) = words.split_at(start);
    let words = name.split(' ').chain(options.iter().map(String::as_str)).chain(["--"]);
    Some(shell_words::join(words.chain(program.iter().map(String::as_str))))
}

/// Whether the word is an option whose value is the next word.
fn takes_next_word(command: &Command, word: &str) -> bool {
    let option = command.get_arguments().find(|argument| match word.strip_prefix("--") {
        Some(long) => argument.get_long() == Some(long),
        None => {
            word.strip_prefix('-').is_some_and(|short| argument.get_short().is_some_and(|c| short == c.to_string()))
        }
    });
    option.is_some_and(|option| option.get_num_args().is_some_and(|count| count.min_values() > 0))
}

/// What has to be there and isn't.
fn missing(command: &Command, name: &str, error: &Error) -> String {
    let Some(ContextValue::Strings(shown)) = error.get(ContextKind::InvalidArg) else {
        return "a word is missing".to_owned();
    };
    // One of several, which clap writes as `<--pid <PID>|--cgroup <PATH>>`. What else is missing may not be with each of them.
    if let Some(group) = shown.iter().find(|shown| shown.contains('|')) {
        let inner = group.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')).unwrap_or(group);
        let options: Vec<String> = inner.split('|').map(|shown| format!("`{}`", option_name(shown))).collect();
        return format!("one of {} is missing", list(&options, "and"));
    }
    let bare = |text: &str| text.trim_matches(['[', ']', '<', '>', '.']).to_owned();
    let argument = |shown: &String| command.get_arguments().find(|argument| bare(&argument.to_string()) == bare(shown));
    if let [only] = &shown[..]
        && argument(only).is_some_and(Arg::is_last_set)
    {
        return format!("a program of your own is missing; put it after `--`, as in `{name} -- ./app`");
    }
    let help = |shown: &String| {
        let help = argument(shown)?.get_help()?.to_string();
        let end = [". ", "; ", ": "].iter().filter_map(|mark| help.find(mark)).min().unwrap_or(help.len());
        Some(help[..end].to_owned())
    };
    let named = |shown: &String| match help(shown) {
        Some(help) => format!("`{shown}` ({help})"),
        None => format!("`{shown}`"),
    };
    let names: Vec<String> = shown.iter().map(named).collect();
    format!("{} {} missing", list(&names, "and"), if names.len() == 1 { "is" } else { "are" })
}

/// `--name` of `--name <VALUE>`, and `NAME` of `[NAME]`.
fn option_name(shown: &str) -> &str {
    shown.split([' ', '=', '[', ']']).find(|part| !part.is_empty()).unwrap_or(shown)
}

/// clap's sentence on a range of numbers, in words: `0 is not in 1..=9` is `it takes a number from 1 to 9`.
fn range(reason: &str) -> String {
    let bounds = reason.split_once(" is not in ").and_then(|(_, range)| range.split_once("..="));
    bounds.map_or_else(|| reason.to_owned(), |(least, most)| format!("it takes a number from {least} to {most}"))
}

/// The text after its mark, or nothing.
fn after(mark: &str, text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("{mark}{text}") }
}

/// `a, b and c`.
fn list(words: &[String], conjunction: &str) -> String {
    match words {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} {conjunction} {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_errors_are_left_out_wherever_they_stand() {
        assert_eq!(without_error_number("no file (os error 2): a (b)"), "no file: a (b)");
        assert_eq!(without_error_number("x (os error 2), y (os error 13)"), "x, y");
        assert_eq!(without_error_number("all well"), "all well");
    }

    #[test]
    fn ranges_are_told_in_words_and_other_reasons_stay() {
        assert_eq!(range("0 is not in 1..=9"), "it takes a number from 1 to 9");
        assert_eq!(range("too late"), "too late");
    }
}
