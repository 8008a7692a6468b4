//! The commands of a command line: one, or several that are compared, for each combination of their parameters.

use super::StudyArgs;
use crate::UsageError;

/// What begins the next command among the words of the one before it.
const NEXT: &str = "--command-name";

/// What stands for the number of the block in commands, and for nothing else.
const BLOCK: &str = "block";
/// What stands for the thread count in commands, where it is no parameter.
const THREADS: &str = "threads";

/// Most commands that one study compares.
const MOST_COMMANDS: usize = 100;

/// A command with values for its parameters.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Command {
    /// Program and arguments.
    pub(super) argv: Vec<String>,
    /// How it is called, where its line doesn't say that.
    pub(super) name: Option<String>,
    values: Vec<(String, String)>,
}

impl Command {
    /// `line` with the values in the places of their names.
    pub(super) fn with_values(&self, line: &str) -> String {
        self.values.iter().fold(line.to_owned(), |line, (name, value)| line.replace(&format!("{{{name}}}"), value))
    }
}

/// All commands, in the order in which they are compared: with the first.
#[derive(Debug, PartialEq)]
pub(super) struct Commands(pub(super) Vec<Command>);

impl Commands {
    /// Those that `args` give.
    ///
    /// # Errors
    /// A [`UsageError`] when they can't be told apart, or a parameter is none.
    pub(super) fn new(args: &StudyArgs) -> anyhow::Result<Self> {
        let named = split(&args.command, args.words.command_name.clone().or_else(|| args.words.name.clone()))?;
        let first_is_named = args.words.command_name.is_some();
        // Without a name it may be an argument of a program that has such a flag, too.
        if first_is_named && named.iter().flat_map(|(_, argv)| argv).any(|word| word == NEXT) {
            return Err(UsageError::from(format!(
                "a command has no `--` before it; write `{NEXT} NAME -- ./app` for each"
            )));
        }
        let values = combinations(&args.parameters)?;
        let is_twice = !args.threads.is_empty() && args.parameters.iter().step_by(2).any(|name| name == THREADS);
        if is_twice {
            return Err(UsageError::from(
                "both -n and -L say what {threads} stands for; leave one out, or call the parameter otherwise"
                    .to_owned(),
            ));
        }
        if named.len().saturating_mul(values.len()) > MOST_COMMANDS {
            return Err(UsageError::from(format!("a study compares {MOST_COMMANDS} commands at most")));
        }
        let is_used = |name: &str| {
            let word = format!("{{{name}}}");
            let around = &args.around;
            let lines = [&around.setup, &around.prepare, &around.conclude, &around.cleanup];
            let mut words = named.iter().flat_map(|(_, argv)| argv).chain(lines.into_iter().flatten());
            words.any(|text| text.contains(&word))
        };
        if let Some(name) = args.parameters.iter().step_by(2).find(|name| !is_used(name)) {
            return Err(UsageError::from(format!(
                "parameter `{name}` stands nowhere; write {{{name}}} in the command"
            )));
        }
        let mut commands = Vec::new();
        for (name, argv) in &named {
            for values in &values {
                let mut command = Command { argv: Vec::new(), name: None, values: values.clone() };
                command.argv = argv.iter().map(|word| command.with_values(word)).collect();
                command.name = name.as_ref().map(|name| called(&command, name));
                commands.push(command);
            }
        }
        Ok(Self(commands))
    }
}

/// A name with the values of its parameters, where these don't stand in it.
fn called(command: &Command, name: &str) -> String {
    let with_values = command.with_values(name);
    let told: Vec<String> = command.values.iter().map(|(name, value)| format!("{name}={value}")).collect();
    match with_values == name && !told.is_empty() {
        true => format!("{name} {}", told.join(" ")),
        false => with_values,
    }
}

/// The commands among `words`: after the first, each begins with `--command-name NAME --`.
fn split(words: &[String], first: Option<String>) -> anyhow::Result<Vec<(Option<String>, Vec<String>)>> {
    if words.is_empty() {
        return Ok(Vec::new());
    }
    let mut commands = vec![(first, Vec::new())];
    let mut rest = words;
    while let [word, others @ ..] = rest {
        rest = match others {
            [name, dashes, later @ ..] if word == NEXT && dashes == "--" => {
                commands.push((Some(name.clone()), Vec::new()));
                later
            }
            _ => {
                commands.last_mut().into_iter().for_each(|(_, argv)| argv.push(word.clone()));
                others
            }
        };
    }
    if let Some(position) = commands.iter().position(|(_, argv)| argv.is_empty()) {
        return Err(UsageError::from(format!("command {} is empty; name a program after its --", position + 1)));
    }
    Ok(commands)
}

/// Every combination of the values of the parameters, of which the last varies fastest.
fn combinations(parameters: &[String]) -> anyhow::Result<Vec<Vec<(String, String)>>> {
    let mut all = vec![Vec::new()];
    for (position, pair) in parameters.chunks(2).enumerate() {
        let [name, list] = pair else { continue };
        if name == BLOCK {
            return Err(UsageError::from(format!(
                "{{{name}}} stands for the number of the block in commands; call the parameter otherwise"
            )));
        }
        if name.is_empty() || name.contains(['{', '}']) {
            return Err(UsageError::from(format!("`{name}` is no name of a parameter")));
        }
        if parameters.iter().step_by(2).take(position).any(|other| other == name) {
            return Err(UsageError::from(format!("parameter `{name}` is given twice; name all of its values at once")));
        }
        let values: Vec<&str> = list.split(',').collect();
        if values.iter().any(|value| value.is_empty()) {
            return Err(UsageError::from(format!("parameter `{name}` has an empty value in `{list}`")));
        }
        if all.len().saturating_mul(values.len()) > MOST_COMMANDS {
            return Err(UsageError::from(format!("a study compares {MOST_COMMANDS} commands at most")));
        }
        let with = |earlier: &Vec<(String, String)>, value: &str| {
            let own = (name.clone(), value.to_owned());
            earlier.iter().cloned().chain([own]).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(|earlier| values.iter().map(move |value| with(earlier, value))).collect();
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn a_name_and_dashes_begin_the_next_command() {
        let told = split(&words("./a -x --command-name b -- ./b --command-name"), Some("a".into())).unwrap();
        assert_eq!(told, [(Some("a".into()), words("./a -x")), (Some("b".into()), words("./b --command-name"))]);
        assert!(split(&words("--command-name b -- ./b"), None).is_err(), "the first is empty");
        assert!(split(&words("./a --command-name b --"), None).is_err());
        assert_eq!(split(&words("./a --command-name b ./c"), None).unwrap().len(), 1, "it is an argument");
    }

    #[test]
    fn parameters_multiply_and_the_last_varies_fastest() {
        let all = combinations(&words("n 1,2 mode a,b")).unwrap();
        let told: Vec<String> =
            all.iter().map(|values| values.iter().map(|(_, value)| value.as_str()).collect()).collect();
        assert_eq!(told, ["1a", "1b", "2a", "2b"]);
        for wrong in ["block 1,2", "n 1,,2", "n 1 n 2", "{n} 1"] {
            assert!(combinations(&words(wrong)).is_err(), "{wrong}");
        }
    }
}
