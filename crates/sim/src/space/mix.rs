//! Mixes: which jobs share the machine. Their graphs are built in, or files of one's own (`docs/graph-files.md`).

use super::graph::Graph;
use crate::fault::{self, Fault, WorkloadError};
use crate::toml_text::{Mistake, line_at, parse};
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;

/// The report's jobs, as the programs of the same names do them in class W.
const BUILT_IN: [&str; 3] = [
    include_str!("../../graphs/mva.toml"),
    include_str!("../../graphs/matrix.toml"),
    include_str!("../../graphs/gravity.toml"),
];

/// The mixes that are reproduced, and what each is there for.
pub const REPORT_MIXES: [(&str, &str); 7] = [
    ("MVA+MVA", "two wavefronts, each narrow at both ends"),
    ("GRAVITY+GRAVITY", "two with sequential parts, in which the other can have all CPUs"),
    ("MVA+MATRIX", "a wavefront beside one that can always use every CPU"),
    ("MVA+GRAVITY", "a wavefront beside sequential parts"),
    ("MATRIX+GRAVITY", "one that can always use every CPU beside one that often can't"),
    ("MVA+MATRIX+GRAVITY", "one of each"),
    ("2*MVA+2*MATRIX+2*GRAVITY", "two of each, so that shares are small"),
];

/// The mix that is simulated when none is named.
pub const DEFAULT_MIX: &str = "MVA+MATRIX+GRAVITY";

/// Most jobs of one kind.
const MOST_JOBS: f64 = 1e4;

/// Jobs that share a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    /// Its name.
    pub name: String,
    /// What it is made of, at least one; no two graphs have one name.
    pub kinds: Vec<Kind>,
}

/// Jobs that do the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kind {
    /// What each of them computes.
    pub graph: Graph,
    /// How many there are.
    pub count: u32,
}

/// A text that names no mix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MixError {
    /// A graph that isn't built in.
    #[error("`{0}` is no built-in job: name {names}, or a file ending in .toml, joined by `+` and with a number as in 2*{first}", names = names().join(", "), first = names()[0])]
    Unknown(String),
    /// Two different graphs have one name.
    #[error("two of the jobs are called `{0}`; give the graph in the file another name")]
    SameName(String),
}

impl Mix {
    /// The mix that a text like `2*MVA+GRAVITY+mine.toml` names. `read` gets the graphs of files, by their names.
    ///
    /// # Errors
    /// [`MixError`], or what `read` says.
    pub fn named<E: From<MixError>>(text: &str, mut read: impl FnMut(&str) -> Result<Graph, E>) -> Result<Self, E> {
        let mut kinds: Vec<Kind> = Vec::new();
        // As it was written, with the names of built-in graphs as they are spelt.
        let mut names: Vec<String> = Vec::new();
        for written in text.split('+') {
            let part = written.trim();
            let (count, name) =
                part.split_once('*').map_or((Some(1), part), |(count, name)| (count.trim().parse().ok(), name.trim()));
            let count = count.filter(|count| *count > 0).ok_or_else(|| MixError::Unknown(part.into()))?;
            let graph = if name.ends_with(".toml") {
                read(name)?
            } else {
                built_in(name).cloned().ok_or_else(|| MixError::Unknown(part.into()))?
            };
            let is_built_in = !name.ends_with(".toml");
            names.push(if is_built_in { written.replacen(name, &graph.name, 1) } else { written.into() });
            match kinds.iter_mut().find(|kind| kind.graph.name == graph.name) {
                None => kinds.push(Kind { graph, count }),
                Some(kind) if kind.graph == graph => kind.count += count,
                Some(kind) => return Err(MixError::SameName(kind.graph.name.clone()).into()),
            }
        }
        Ok(Self { name: names.join("+"), kinds })
    }

    /// Whether it can be simulated.
    ///
    /// # Errors
    /// [`WorkloadError`] names the first field that is wrong.
    pub fn check(&self) -> Result<(), WorkloadError> {
        if self.kinds.is_empty() {
            return Err(Fault::Empty.at("kinds"));
        }
        for (number, kind) in self.kinds.iter().enumerate() {
            let at = format!("kinds[{number}]");
            fault::range(f64::from(kind.count), 1.0, MOST_JOBS, &format!("{at}.count"))?;
            kind.graph.check().map_err(|error| error.fault.at(format!("{at}.graph.{}", error.at)))?;
        }
        Ok(())
    }

    /// How many jobs there are.
    pub fn jobs(&self) -> u32 {
        self.kinds.iter().map(|kind| kind.count).sum()
    }
}

impl Graph {
    /// Reads a graph file's text.
    ///
    /// # Errors
    /// The line, from 1, and what is wrong there.
    pub fn parse(text: &str) -> Result<Self, Mistake> {
        let graph: Self = parse(text)?;
        graph.check().map_err(|error| {
            let line = line_at(text, &error.at);
            (line, format!("`{}`: {}", error.at, error.fault))
        })?;
        Ok(graph)
    }

    /// The built-in graphs.
    pub fn built_in() -> &'static [Self] {
        static READ: LazyLock<Vec<Graph>> = LazyLock::new(|| {
            let read = |text: &&str| Graph::parse(text).expect("a test reads the built-in graphs");
            BUILT_IN.iter().map(read).collect()
        });
        &READ
    }
}

fn built_in(name: &str) -> Option<&'static Graph> {
    Graph::built_in().iter().find(|graph| graph.name.eq_ignore_ascii_case(name))
}

fn names() -> Vec<&'static str> {
    Graph::built_in().iter().map(|graph| graph.name.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none(name: &str) -> Result<Graph, MixError> {
        Err(MixError::Unknown(format!("file {name}")))
    }

    #[test]
    fn the_built_in_mixes_can_be_simulated() {
        assert_eq!(names(), ["MVA", "MATRIX", "GRAVITY"]);
        for (name, _) in REPORT_MIXES {
            let mix = Mix::named(name, none).unwrap();
            assert_eq!((mix.check(), mix.name.as_str()), (Ok(()), name));
        }
    }

    #[test]
    fn built_in_names_are_found_in_any_case() {
        let mix = Mix::named("2*mva + Gravity", none).unwrap();
        assert_eq!(mix, Mix::named("2*MVA + GRAVITY", none).unwrap());
        assert_eq!(mix.name, "2*MVA + GRAVITY");
    }

    #[test]
    fn parts_are_counted_and_files_are_read() {
        let own = |name: &str| {
            let mut graph = built_in("MVA").unwrap().clone();
            graph.name = name.strip_suffix(".toml").unwrap().into();
            Ok::<_, MixError>(graph)
        };
        let mix = Mix::named("2*MVA + GRAVITY+MVA+3 * mine.toml", own).unwrap();
        let kinds: Vec<(&str, u32)> = mix.kinds.iter().map(|kind| (kind.graph.name.as_str(), kind.count)).collect();
        assert_eq!((kinds, mix.jobs()), (vec![("MVA", 3), ("GRAVITY", 1), ("mine", 3)], 7));
        let told = |text: &str| Mix::named(text, none).unwrap_err().to_string();
        let unknown = "is no built-in job: name MVA, MATRIX, GRAVITY, or a file ending in .toml, joined by `+` and with a number as in 2*MVA";
        for part in ["", "MVB", "0*MVA", "x*MVA", "-1*MVA"] {
            assert_eq!(told(&format!("MVA+{part}")), format!("`{part}` {unknown}"));
        }
        let other = |_: &str| Ok::<_, MixError>(Graph { rounds: 9, ..built_in("MVA").unwrap().clone() });
        assert_eq!(Mix::named("MVA+x.toml", other).unwrap_err(), MixError::SameName("MVA".into()));
    }

    #[test]
    fn a_mistake_in_a_file_is_told_with_its_line() {
        let text = "name = \"g\"\n\n[[stages]]\nname = \"s\"\ntasks = { independent = 3 }\nwork_ms = { constant = 1 }\nkept = 2\n";
        assert_eq!(Graph::parse(text), Err((7, "`stages[0].kept`: 2 is not a number from 0 to 1".into())));
        assert_eq!(Graph::parse(&text.replace("kept", "keep")).unwrap_err().0, 7);
        assert_eq!(Graph::parse(&text.replace("kept = 2", "")).unwrap().tasks(), 3);
    }
}
