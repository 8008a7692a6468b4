//! Pages name only what there is: commands, flags, targets of make, tests, files and headings. And the stated minimum of Rust is
//! enough for every dependency.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod built;

use built::built;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().canonicalize().unwrap()
}

/// A page: where it is, and its text.
struct Page {
    path: PathBuf,
    text: String,
}

/// Every page that a person wrote.
fn pages() -> Vec<Page> {
    let mut folders = vec![root()];
    let mut pages = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() {
                // Reports of old journals are no pages; the page about them is.
                let skipped = name.starts_with('.') || ["target", "corpus", "seeds", "artifacts"].contains(&name);
                if !skipped || path.ends_with("machine/tests/corpus") {
                    folders.push(path);
                }
            } else if name.ends_with(".md") && (!path.parent().unwrap().ends_with("journals") || name == "README.md") {
                let text = fs::read_to_string(&path).unwrap();
                pages.push(Page { path, text });
            }
        }
    }
    assert!(pages.len() > 15, "only {} pages were found", pages.len());
    pages
}

impl Page {
    fn name(&self) -> String {
        self.path.strip_prefix(root()).unwrap().display().to_string()
    }

    /// The lines of blocks of code without their comments, those that end with a backslash joined with the next.
    fn code_lines(&self) -> Vec<String> {
        let mut fenced = false;
        let mut lines: Vec<String> = Vec::new();
        let mut goes_on = false;
        for line in self.text.lines() {
            if line.trim_start().starts_with("```") {
                fenced = !fenced;
            } else if fenced || line.starts_with("    ") {
                let line = line.split(" #").next().unwrap();
                let (text, continues) = line.strip_suffix('\\').map_or((line, false), |text| (text, true));
                match lines.last_mut().filter(|_| goes_on) {
                    Some(last) => last.extend([" ", text.trim()]),
                    None => lines.push(text.trim().to_owned()),
                }
                goes_on = continues;
            }
        }
        lines
    }

    /// What stands between backquotes, outside of blocks of code.
    fn inline_code(&self) -> Vec<String> {
        let mut fenced = false;
        let mut prose = String::new();
        for line in self.text.lines() {
            fenced ^= line.trim_start().starts_with("```");
            if !fenced && !line.starts_with("    ") {
                prose.push_str(line.trim());
                prose.push(' ');
            }
        }
        prose.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }

    fn all_code(&self) -> Vec<String> {
        [self.code_lines(), self.inline_code()].concat()
    }

    /// The names by which links find the headings, as GitHub makes them.
    fn headings(&self) -> BTreeSet<String> {
        let titles = self.text.lines().filter(|line| line.starts_with('#'));
        titles
            .map(|title| {
                let kept = title.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
                kept.chars().filter(|c| c.is_alphanumeric() || *c == '-' || *c == '_').collect()
            })
            .collect()
    }
}

/// Texts of help, by the words of the command.
struct Helps(BTreeMap<String, String>);

impl Helps {
    /// Those of all commands, and of the scheduler's own program.
    fn read() -> Self {
        built("stayput-sched");
        let mut helps = Self(BTreeMap::new());
        helps.read_command("");
        assert!(helps.0.len() > 15, "only {:?} are commands", helps.0.keys());
        helps
    }

    fn read_command(&mut self, command: &str) {
        let output = Command::new(env!("CARGO_BIN_EXE_stayput"))
            .args(command.split_whitespace())
            .arg("--help")
            .output()
            .unwrap();
        assert!(output.status.success(), "stayput {command} --help: {output:?}");
        let help = String::from_utf8(output.stdout).unwrap();
        let below = help.split_once("\nCommands:\n").map_or("", |(_, rest)| rest);
        let names = below.lines().take_while(|line| !line.is_empty());
        // Continued descriptions are indented further.
        let names = names.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        let names: Vec<String> =
            names.filter_map(|line| line.split_whitespace().next()).map(|name| format!("{command} {name}")).collect();
        self.0.insert(command.trim().to_owned(), help);
        for name in names.iter().filter(|name| !name.ends_with(" help")) {
            self.read_command(name.trim());
        }
    }

    fn has_flag(&self, command: &str, flag: &str) -> bool {
        let help = &self.0[command];
        help.match_indices(flag).any(|(at, _)| {
            let next = help[at + flag.len()..].chars().next();
            next.is_none_or(|c| !c.is_ascii_alphanumeric() && c != '-')
        })
    }
}

/// The code without arguments of several words in quotes, such as lines for a shell, whose flags are others'.
fn unquoted(code: &str) -> String {
    let mut parts = code.split('\'');
    let mut left = parts.next().unwrap_or_default().to_owned();
    let rest: Vec<&str> = parts.collect();
    for pair in rest.chunks(2) {
        match pair {
            [quoted, after] if quoted.contains(' ') => left.push_str(&format!("QUOTED{after}")),
            [quoted, after] => left.push_str(&format!("'{quoted}'{after}")),
            [open] => left.push_str(&format!("'{open}")),
            _ => {}
        }
    }
    left
}

/// The words of each `stayput ...` in a piece of code, up to what isn't for stayput any more.
fn calls(code: &str) -> Vec<Vec<&str>> {
    // After `-p` it is the name of cargo's package.
    let starts = code.match_indices("stayput ").filter(|(at, _)| {
        let before = &code[..*at];
        !before.ends_with("-p ") && before.chars().next_back().is_none_or(|c| c.is_whitespace() || "(/`".contains(c))
    });
    starts
        .map(|(at, name)| {
            let words = code[at + name.len()..].split_whitespace();
            words.take_while(|word| !["--", "|", ">", "&&", ";"].contains(word)).collect()
        })
        .collect()
}

#[test]
fn every_command_and_flag_that_a_page_names_exists() {
    let helps = Helps::read();
    let mut wrong = Vec::new();
    let mut flags = 0;
    for page in pages() {
        for code in page.all_code() {
            let unquoted = unquoted(&code);
            for call in calls(&unquoted) {
                let mut words = call.iter().peekable();
                let mut command = String::new();
                while let Some(&&word) = words.peek() {
                    let longer = format!("{command} {word}").trim().to_owned();
                    // The former name of `replay`, which the history names.
                    let longer = if longer == "play" { "replay".to_owned() } else { longer };
                    if !helps.0.contains_key(&longer) {
                        break;
                    }
                    command = longer;
                    words.next();
                }
                let plain = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
                if command.is_empty() && words.peek().is_some_and(|word| plain(word) && !word.starts_with('-')) {
                    wrong.push(format!("{}: no such command: stayput {}", page.name(), call.join(" ")));
                    continue;
                }
                for word in words.filter(|word| word.starts_with('-')) {
                    let word = word.trim_start_matches('[').trim_end_matches([')', ']', '"', '\'', ',']);
                    let flag = word.split('=').next().unwrap();
                    flags += 1;
                    if !helps.has_flag(&command, flag) {
                        wrong.push(format!("{}: `stayput {command}` has no {flag}", page.name()));
                    }
                }
            }
            // A flag by itself is one of some command.
            if let Some(flag) = code.split([' ', '=']).next().filter(|word| word.starts_with("--") && word.len() > 2) {
                flags += 1;
                if !helps.0.keys().any(|command| helps.has_flag(command, flag)) {
                    wrong.push(format!("{}: no command has {flag}", page.name()));
                }
            }
        }
    }
    assert!(flags > 100, "only {flags} flags were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_readme_names_every_command_and_is_read_in_two_minutes() {
    let helps = Helps::read();
    let page = Page { path: root().join("README.md"), text: fs::read_to_string(root().join("README.md")).unwrap() };
    let named: Vec<String> = page.inline_code();
    for command in helps.0.keys().filter(|command| !command.is_empty() && !command.contains(' ')) {
        assert!(named.contains(&format!("stayput {command}")), "README.md has no line for stayput {command}");
    }
    assert!(page.text.chars().count() <= 6_000, "README.md has {} characters", page.text.chars().count());
}

#[test]
fn every_link_leads_somewhere() {
    let pages = pages();
    let mut wrong = Vec::new();
    let mut links = 0;
    for page in &pages {
        let folder = page.path.parent().unwrap();
        let bracketed = page.text.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
        let sources = page.text.split("src=\"").skip(1).filter_map(|rest| rest.split('"').next());
        for link in bracketed.chain(sources).filter(|link| !link.contains("://")) {
            links += 1;
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.path.clone() } else { folder.join(file) };
            let found = target.canonicalize().ok();
            let heading_is_there = heading.is_empty()
                || pages.iter().any(|page| found.as_ref() == Some(&page.path) && page.headings().contains(heading));
            if found.is_none() || !heading_is_there {
                wrong.push(format!("{}: {link}", page.name()));
            }
        }
    }
    assert!(links > 50, "only {links} links were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_file_target_and_test_that_a_page_names_exists() {
    let root = root();
    let makefile = fs::read_to_string(root.join("Makefile")).unwrap();
    let mut wrong = Vec::new();
    // The changelog names what there was.
    for page in pages().iter().filter(|page| page.name() != "CHANGELOG.md") {
        for code in page.all_code() {
            let words: Vec<&str> = code.split_whitespace().collect();
            if let ["make", targets @ ..] = words.as_slice() {
                let targets = targets.iter().filter(|word| !word.contains('='));
                for target in targets.filter(|target| !makefile.contains(&format!("\n{target}:"))) {
                    wrong.push(format!("{}: no target {target} of make", page.name()));
                }
            }
            let value = |flags: &[&str]| {
                let at = words.iter().position(|word| flags.contains(word))?;
                words.get(at + 1).copied()
            };
            if let (["cargo", "test" | "bench", ..], Some(package)) = (words.as_slice(), value(&["-p", "--package"])) {
                let folder = match package.strip_prefix("stayput-") {
                    Some("workloads") => root.join("workloads"),
                    name => root.join("crates").join(name.unwrap_or(package)),
                };
                for (kind, name) in [("tests", value(&["--test"])), ("benches", value(&["--bench"]))] {
                    let Some(name) = name else { continue };
                    let file = folder.join(kind).join(name);
                    if !file.with_extension("rs").exists() && !file.join("main.rs").exists() {
                        wrong.push(format!("{}: {package} has no {name} among its {kind}", page.name()));
                    }
                }
            }
        }
        for code in page.inline_code() {
            let is_path = code.contains('/') && code.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
            let first = code.split('/').next().unwrap();
            let folders = ["crates", "docs", "fuzz", "machines", "papers", "policy", "workloads"];
            if is_path && folders.contains(&first) && !root.join(&code).exists() {
                wrong.push(format!("{}: no file {code}", page.name()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Files of whose tests each is about a fault.
const FILES_OF_FAULTS: [&str; 8] = [
    "crates/stayput/tests/disturbed.rs",
    "crates/stayput/tests/faults.rs",
    "crates/stayput/tests/hostile_journals.rs",
    "crates/stayput/tests/outputs.rs",
    "crates/stayput/tests/secrets.rs",
    "crates/stayput/tests/terminal.rs",
    "crates/output/src/result_file.rs",
    "crates/machine/tests/malformed.rs",
];

#[test]
fn every_test_that_reliability_names_exists_and_every_test_of_a_fault_is_named() {
    let root = root();
    let text = fs::read_to_string(root.join("docs/design/reliability.md")).unwrap();
    let named: Vec<&str> = text.split('`').filter(|code| code.split("::").count() == 3).collect();
    assert!(named.len() > 40, "{named:?}");
    let mut wrong = Vec::new();
    for test in &named {
        let [package, file, function] = test.split("::").collect::<Vec<_>>()[..] else { unreachable!() };
        // The workloads are a package beside the crates.
        let folder = if package == "workloads" { root.clone() } else { root.join("crates") };
        let is_there = rust_files(&folder.join(package)).iter().any(|path| {
            // A test of several files is a folder.
            let folder = path.parent().and_then(Path::file_name);
            path.file_stem().into_iter().chain(folder).any(|name| name == file)
                && fs::read_to_string(path).unwrap().contains(&format!("fn {function}("))
        });
        if !is_there {
            wrong.push(format!("no test {test}"));
        }
    }
    for file in FILES_OF_FAULTS {
        let source = fs::read_to_string(root.join(file)).unwrap();
        // `proptest` puts what its tests take between the parentheses.
        for test in source.split("#[test]").skip(1) {
            let name = test.split("fn ").nth(1).unwrap().split('(').next().unwrap();
            if !named.iter().any(|test| test.ends_with(&format!("::{name}"))) {
                wrong.push(format!("{file}: {name} isn't named"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The sources below a folder.
fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| match path.is_dir() {
            true => rust_files(&path),
            false => Vec::from_iter(path.extension().is_some_and(|extension| extension == "rs").then_some(path)),
        })
        .collect()
}

#[test]
fn no_dependency_needs_a_newer_rust_than_is_stated() {
    // As cargo writes them: `1.89` or `1.89.0`.
    let version = |text: &str| -> Vec<u32> {
        let mut parts: Vec<u32> = text.split('.').map(|part| part.parse().unwrap()).collect();
        parts.resize(3, 0);
        parts
    };
    // Packages for other systems need not have been downloaded.
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform", &platform])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let own = packages.iter().find(|package| package["name"] == "stayput").unwrap();
    let stated = own["rust_version"].as_str().unwrap();
    let mut newest = Vec::new();
    for package in packages {
        let Some(needed) = package["rust_version"].as_str() else { continue };
        assert!(
            version(needed) <= version(stated),
            "{} {} needs Rust {needed}; Cargo.toml states {stated}",
            package["name"],
            package["version"]
        );
        if !package["source"].is_null() {
            newest = newest.max(version(needed));
        }
    }
    assert_eq!(newest, version(stated), "Cargo.toml states a newer Rust than the dependencies need");
    for page in ["README.md", "CONTRIBUTING.md"] {
        let text = fs::read_to_string(root().join(page)).unwrap();
        assert!(text.contains(&format!("Rust {stated}")), "{page} states another Rust than {stated}");
    }
}
