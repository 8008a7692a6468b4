//! What journals and reports leave out: values whose names say that they are secret.
//!
//! A value is one of a flag (`--token=x`, `--token x`) or of a variable (`TOKEN=x`) in a command line, of a variable of the
//! environment, or of either form in what a program prints. In its place stands `[redacted]`. A plan keeps a hash of its
//! values with a salt of its own, so that another value is noticed and none can be looked up.

use regex::{Captures, Regex};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::LazyLock;

/// What stands in the place of a value.
pub const REDACTED: &str = "[redacted]";

/// Names whose values are always left out.
pub const ALWAYS: [&str; 6] = ["*TOKEN*", "*SECRET*", "*PASSWORD*", "*PASSWD*", "*API_KEY*", "*CREDENTIAL*"];

/// A value that is shorter is left out where its name stands, and not wherever the same characters occur.
const LEAST_TO_FIND: usize = 6;

/// Which values are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redaction {
    /// Patterns of names, as they are compared.
    names: Vec<String>,
}

impl Default for Redaction {
    fn default() -> Self {
        Self::new(&[])
    }
}

impl Redaction {
    /// Leaves out the values of names that match one of `names`, in which `*` is any text and `?` any character, or one of [`ALWAYS`].
    /// Large and small letters are the same, and so are `-` and `_`.
    pub fn new(names: &[String]) -> Self {
        let all = ALWAYS.iter().map(ToString::to_string).chain(names.iter().cloned());
        Self { names: all.map(|name| comparable(&name)).collect() }
    }

    /// Whether the value of `name`, a variable or a flag, is left out.
    pub fn hides(&self, name: &str) -> bool {
        let name = comparable(name.trim_start_matches('-'));
        self.names.iter().any(|pattern| matches(pattern.as_bytes(), name.as_bytes()))
    }

    /// The words of a command line as they are kept, and the values that were left out.
    pub fn words(&self, words: &[String]) -> (Vec<String>, Vec<String>) {
        let (mut kept, mut values) = (Vec::new(), Vec::new());
        let mut value_is_next = false;
        for word in words {
            let is_value = std::mem::replace(&mut value_is_next, false) && !word.starts_with('-');
            let assigned = word.split_once('=').filter(|(name, _)| !name.contains(char::is_whitespace));
            kept.push(match assigned {
                _ if is_value => {
                    values.push(word.clone());
                    REDACTED.into()
                }
                // All of it, since a value may have spaces; it may also be a line for a shell.
                Some((name, value)) if self.hides(name) => {
                    self.text(word, &mut values);
                    values.push(value.to_owned());
                    format!("{name}={REDACTED}")
                }
                // A line for a shell, or another text.
                _ if word.contains(char::is_whitespace) => self.text(word, &mut values),
                _ => {
                    value_is_next = word.starts_with('-') && assigned.is_none() && self.hides(word);
                    word.clone()
                }
            });
        }
        // A value may stand in other words, too.
        for word in &mut kept {
            *word = without(word, &values);
        }
        (kept, values)
    }

    /// `text` without the values that stand beside their names in it, which are added to `values`.
    pub fn text(&self, text: &str, values: &mut Vec<String>) -> String {
        static NAME_AND_VALUE: LazyLock<Option<Regex>> = LazyLock::new(|| {
            let pattern = r#"(?<name>-{0,2}[A-Za-z_][A-Za-z0-9_.-]*)(?<between>["']?\s*[=:]\s*|\s+)(?<value>"[^"]*"|'[^']*'|[^\s"'`,;&|)]+)"#;
            Regex::new(pattern).ok()
        });
        let Some(pattern) = NAME_AND_VALUE.as_ref() else { return REDACTED.into() };
        let hides = |found: &Captures| {
            let is_assigned = found["between"].contains(['=', ':']);
            (is_assigned || found["name"].starts_with('-')) && self.hides(&found["name"])
        };
        let (mut kept, mut at) = (String::new(), 0);
        while let Some(found) = pattern.captures_at(text, at) {
            let (Some(name), Some(value)) = (found.name("name"), found.name("value")) else { break };
            if hides(&found) {
                kept.push_str(&text[at..value.start()]);
                kept.push_str(REDACTED);
                values.push(value.as_str().trim_matches(['"', '\'']).to_owned());
                at = value.end();
            } else {
                kept.push_str(&text[at..name.end()]);
                at = name.end();
            }
        }
        kept.push_str(&text[at..]);
        kept
    }

    /// The variables as they are kept.
    pub fn variables(&self, variables: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let kept = |(name, value): (&String, &String)| {
            (name.clone(), if self.hides(name) { REDACTED.into() } else { value.clone() })
        };
        variables.iter().map(kept).collect()
    }

    /// The values of the variables of this process that are left out.
    pub fn values_of_environment(&self) -> Vec<String> {
        let variables = std::env::vars_os().map(|(name, value)| (name.into_string(), value.into_string()));
        variables.filter_map(|(name, value)| self.hides(&name.ok()?).then_some(value.ok()?)).collect()
    }
}

/// `text` without `values`, wherever they stand; short ones are left, since they may be a part of anything.
pub fn without(text: &str, values: &[String]) -> String {
    let mut long: Vec<&String> =
        values.iter().filter(|value| value.len() >= LEAST_TO_FIND && *value != REDACTED).collect();
    // One may be a part of another.
    long.sort_by_key(|value| std::cmp::Reverse(value.len()));
    long.into_iter().fold(text.to_owned(), |text, value| text.replace(value.as_str(), REDACTED))
}

/// What tells whether values that were left out have changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretsHash {
    /// Random, in hexadecimal digits: the same value has another hash in another plan.
    pub salt: String,
    /// SHA-256 of the salt and the values, in hexadecimal digits.
    pub sha256: String,
}

impl SecretsHash {
    /// Of `values`, with a new salt.
    pub fn new(values: &[String]) -> Self {
        Self::salted(hexadecimal(&rand::random::<[u8; 16]>()), values)
    }

    /// Whether it is of `values`.
    pub fn is_of(&self, values: &[String]) -> bool {
        *self == Self::salted(self.salt.clone(), values)
    }

    fn salted(salt: String, values: &[String]) -> Self {
        let mut hash = Sha256::new_with_prefix(&salt);
        for value in values {
            hash.update((value.len() as u64).to_le_bytes());
            hash.update(value);
        }
        Self { salt, sha256: hexadecimal(&hash.finalize()) }
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// What is run of a subject whose kept command lacks values. It is in no journal, and tells no two plans apart: that is the hash's to do.
#[derive(Clone, Default)]
pub struct Unkept {
    /// The whole command; none where it is the kept one.
    pub(crate) argv: Option<Vec<String>>,
    /// What was left out of it and of the variables that are kept with a study.
    pub(crate) values: Vec<String>,
    /// The program that runs already and is bound, where the subject's command is a load on one.
    pub target: Option<launch::Target>,
}

impl PartialEq for Unkept {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl std::fmt::Debug for Unkept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(REDACTED)
    }
}

fn comparable(name: &str) -> String {
    name.to_ascii_uppercase().replace('-', "_")
}

/// Whether all of `name` matches `pattern`. Only the last star is ever given more, so that no pattern takes long.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    // Where the last star is, and where what it stands for ends so far.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(wanted) if *wanted == b'?' || *wanted == name[n] => (p, n) = (p + 1, n + 1),
            _ => {
                let Some((at, end)) = star else { return false };
                star = Some((at, end + 1));
                (p, n) = (at + 1, end + 1);
            }
        }
    }
    pattern[p..].iter().all(|rest| *rest == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &[&str]) -> (Vec<String>, Vec<String>) {
        Redaction::new(&["PIN".into()]).words(&line.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn values_of_flags_and_variables_are_left_out() {
        let (kept, values) =
            words(&["env", "MY_TOKEN=abc", "app", "--api-key=k=1", "--password", "hunter22", "-n", "2", "--pin=7"]);
        assert_eq!(
            kept,
            [
                "env",
                "MY_TOKEN=[redacted]",
                "app",
                "--api-key=[redacted]",
                "--password",
                REDACTED,
                "-n",
                "2",
                "--pin=[redacted]"
            ]
        );
        assert_eq!(without("abc k=1 hunter22 7", &values), "abc k=1 [redacted] 7");
        assert!(["abc", "k=1", "hunter22", "7"].iter().all(|value| values.iter().any(|other| other == value)));
        let (kept, values) = words(&["app", "--use-token", "--fast", "--spin=1", "x=TOKEN"]);
        assert_eq!(kept, ["app", "--use-token", "--fast", "--spin=1", "x=TOKEN"]);
        assert_eq!(values, [""; 0]);
    }

    #[test]
    fn lines_for_a_shell_and_other_words_with_a_value_lose_it() {
        let (kept, _) = words(&["sh", "-c", "./app DB_PASSWORD='a b' --secret xyzzyx; echo $HOME"]);
        assert_eq!(kept[2], "./app DB_PASSWORD=[redacted] --secret [redacted]; echo $HOME");
        let (kept, values) = words(&["sh", "-c", "DB_PASSWORD=sesame1 ./app of mine"]);
        assert_eq!(kept[2], "DB_PASSWORD=[redacted]");
        assert_eq!(without("sesame1", &values), REDACTED);
        let (kept, _) = words(&["app", "--token=hunter22", "http://u:hunter22@host"]);
        assert_eq!(kept[2], "http://u:[redacted]@host");
    }

    #[test]
    fn values_in_output_are_left_out_and_the_rest_stays() {
        let mut values = Vec::new();
        let text = "a: b\nusing token: abcdef, {\"api_key\": \"xy z\"} foo TOKEN=1 token list --passwd q\n";
        assert_eq!(
            Redaction::default().text(text, &mut values),
            "a: b\nusing token: [redacted], {\"api_key\": [redacted]} foo TOKEN=[redacted] token list --passwd [redacted]\n"
        );
        assert_eq!(values, ["abcdef", "xy z", "1", "q"]);
        assert_eq!(without("say abcdef 1", &values), "say [redacted] 1");
    }

    #[test]
    fn the_same_values_have_another_hash_in_another_plan_and_a_change_is_noticed() {
        let values = |value: &str| vec![value.to_owned()];
        let (one, other) = (SecretsHash::new(&values("a")), SecretsHash::new(&values("a")));
        assert_ne!(one.sha256, other.sha256);
        assert!(one.is_of(&values("a")) && other.is_of(&values("a")));
        assert!(!one.is_of(&values("b")) && !one.is_of(&[]));
        let split = ["ab".to_owned(), String::new()];
        assert!(!SecretsHash::new(&split).is_of(&["a".to_owned(), "b".to_owned()]));
    }

    /// As the meaning of a pattern is defined.
    fn defined(pattern: &[u8], name: &[u8]) -> bool {
        match (pattern.split_first(), name.split_first()) {
            (None, None) => true,
            (Some((b'*', rest)), found) => {
                defined(rest, name) || found.is_some_and(|(_, later)| defined(pattern, later))
            }
            (Some((wanted, rest)), Some((found, later))) => {
                (*wanted == b'?' || wanted == found) && defined(rest, later)
            }
            _ => false,
        }
    }

    #[test]
    fn patterns_match_as_they_are_defined_to() {
        let texts = |letters: &[u8], length: usize| {
            let mut all = vec![Vec::new()];
            for from in 0..length {
                let longer: Vec<Vec<u8>> = all.iter().filter(|text: &&Vec<u8>| text.len() == from).cloned().collect();
                all.extend(longer.iter().flat_map(|text| letters.iter().map(|c| [&text[..], &[*c]].concat())));
            }
            all
        };
        let names = texts(b"ab", 5);
        for pattern in texts(b"ab*?", 4) {
            for name in &names {
                assert_eq!(matches(&pattern, name), defined(&pattern, name), "{pattern:?} {name:?}");
            }
        }
        assert!(!matches("*a".repeat(30).as_bytes(), "a".repeat(100_000).replace('a', "b").as_bytes()));
        assert!(!Redaction::default().hides(&"X_".repeat(1_000_000)));
    }

    #[test]
    fn patterns_match_whole_names_in_letters_of_either_size() {
        let redaction = Redaction::new(&["db_?".into(), "x*y".into()]);
        for name in ["db_1", "DB-A", "--xy", "Xaay", "github_token", "--client-secret-file"] {
            assert!(redaction.hides(name), "{name}");
        }
        for name in ["db_", "db_12", "xyz", "tok", "", "pass"] {
            assert!(!redaction.hides(name), "{name}");
        }
    }
}
