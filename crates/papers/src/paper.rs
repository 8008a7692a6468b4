//! What the papers print, as data: `papers/printed/*.toml`, embedded.
//!
//! A study whose plan names a paper is reported beside that paper's own tables.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::LazyLock;
use study::plan::Plan;

/// What each paper prints, by its name.
const FILES: [(&str, &str); 3] = [
    ("pires-2016", include_str!("../../../papers/printed/pires-2016.toml")),
    ("pires-2017", include_str!("../../../papers/printed/pires-2017.toml")),
    ("weber-2010", include_str!("../../../papers/printed/weber-2010.toml")),
];

/// One paper: who says it, what was run on what, and what came out.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// What study files call it: `pires-2016`.
    #[serde(skip)]
    pub name: &'static str,
    /// Authors and year.
    pub short: String,
    /// The full reference.
    pub citation: String,
    /// The preset that describes its machine.
    pub machine: String,
    /// The machine in the paper's words.
    pub hardware: String,
    /// The operating system.
    pub system: String,
    /// The compiler, where it is told.
    pub compiler: Option<String>,
    /// What was run.
    pub code: String,
    /// What each printed number is of its runs.
    pub statistic: String,
    /// Below which every relative standard deviation is said to be, where it is told: 0.05 is 5 %.
    #[serde(rename = "relative-sd-below")]
    pub relative_sd_below: Option<f64>,
    /// Which part of a run was timed, and by what, where it is told.
    pub timed: Option<String>,
    /// By the paper's name of a benchmark, the built-in program without its class: `BT`, `npb:bt`.
    pub programs: BTreeMap<String, String>,
    /// Its tables, in order.
    #[serde(rename = "table")]
    pub tables: Vec<PrintedTable>,
    /// What its text says of them, in order.
    #[serde(rename = "claim")]
    pub claims: Vec<PrintedClaim>,
    /// Which of its tables and figures it refers to, and which it has.
    #[serde(default)]
    pub references: References,
    /// What its text calls the machine's memory, with where it does; empty where it calls it nothing.
    #[serde(default)]
    pub memory: BTreeMap<MemoryKind, String>,
    /// Caches that its text says are shared.
    #[serde(default, rename = "shared-cache")]
    pub shared_caches: Vec<SharedCache>,
    /// CPU lists that it prints, in its order.
    #[serde(default, rename = "cpu-list")]
    pub cpu_lists: Vec<PrintedCpuList>,
    /// Arrays that its programs hold, by the benchmarks' definition.
    #[serde(default, rename = "array")]
    pub arrays: Vec<ProgramArray>,
    /// Where it speaks of a number of runs, in its order.
    #[serde(default, rename = "runs")]
    pub run_mentions: Vec<RunMention>,
}

/// The tables and figures that a paper refers to, and those that it has at least a caption of: `Table 1`, `Figure 4`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct References {
    /// Referred to in its text, in order.
    #[serde(default)]
    pub cited: Vec<String>,
    /// With a caption, in order.
    pub captioned: Vec<String>,
}

/// What a paper calls a machine's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryKind {
    /// As near to each CPU as to any other (UMA).
    Uniform,
    /// Shared by all, and parts of it nearer to some CPUs.
    Distributed,
}

/// A cache that a paper's text says is shared.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SharedCache {
    /// Its level.
    pub level: u8,
    /// Its size in KiB.
    pub size_kib: u64,
    /// How many cores share it.
    pub cores: u32,
}

/// A CPU list as a paper prints it, and the strategy that its text calls it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrintedCpuList {
    /// As the text calls it: `compact`, `scatter`.
    pub called: String,
    /// The CPUs, thread by thread.
    pub cpus: String,
}

/// An array of a benchmark.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ProgramArray {
    /// The paper's name of the benchmark.
    pub benchmark: String,
    /// Its problem class.
    pub class: String,
    /// Points of the grid along each direction.
    pub grid: Vec<u64>,
    /// Bytes a point.
    pub point_bytes: u64,
}

/// A mention of a number of runs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RunMention {
    /// The number of runs.
    pub number: u32,
    /// Whether it is said of runs told of before: "these 10 runs".
    pub refers_back: bool,
}

/// A table as it stands in the paper.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrintedTable {
    /// Its name in file and column names: `table-1`.
    pub name: String,
    /// The paper's name for it: `Table 1`.
    pub title: String,
    /// What its rows and columns are.
    pub about: String,
    /// The benchmarks' problem class, where they have one.
    pub class: Option<String>,
    /// Thread count of each column.
    pub threads: Vec<u32>,
    /// Its rows, those of one benchmark together.
    pub rows: Vec<PrintedRow>,
}

impl PrintedTable {
    /// The number printed in a row's column of `threads`; none where nothing is.
    pub(crate) fn number(&self, row: &PrintedRow, threads: u32) -> Option<Printed> {
        let column = self.threads.iter().position(|&count| count == threads)?;
        *row.printed.get(column)?
    }
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrintedRow {
    /// The paper's name of the benchmark.
    pub benchmark: String,
    /// Our name of the treatment; none where the paper doesn't say of which it speaks.
    pub placement: Option<String>,
    /// What the numbers are.
    pub quantity: Quantity,
    /// One a column; none where nothing is printed.
    #[serde(deserialize_with = "printed_cells")]
    pub printed: Vec<Option<Printed>>,
}

/// A sentence of the paper, in our words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrintedClaim {
    /// Where the paper says it.
    #[serde(rename = "where")]
    pub place: String,
    /// What it says.
    pub says: String,
    /// By which check it is judged: those of placement papers are in `placement_claims.rs`, those of the cache-affinity report in
    /// `itself.rs`, `scheduler_claims.rs` and `space_sharing.rs`.
    #[serde(skip_serializing)]
    pub check: String,
    /// Told where the numbers say otherwise: what in the paper makes it so.
    #[serde(default, skip_serializing)]
    pub otherwise: String,
}

/// A cell of the paper.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// The paper's name of the benchmark.
    pub benchmark: String,
    /// Its problem class in the paper.
    pub class: Option<String>,
    /// Our name of the treatment.
    pub placement: String,
    /// Number of threads.
    pub threads: u32,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let class = self.class.as_ref().map_or_else(String::new, |class| format!(".{class}"));
        write!(f, "{}{class} {} {}", self.benchmark, self.placement, with_threads(self.threads))
    }
}

/// `with 1 thread`, `with 2 threads`.
pub(crate) fn with_threads(threads: u32) -> String {
    format!("with {threads} thread{}", if threads == 1 { "" } else { "s" })
}

impl Place {
    /// A cell of a printed row; none where the paper doesn't say of which placement it is.
    pub fn new(table: &PrintedTable, row: &PrintedRow, threads: u32) -> Option<Self> {
        let (benchmark, class) = (row.benchmark.clone(), table.class.clone());
        Some(Self { benchmark, class, placement: row.placement.clone()?, threads })
    }
}

/// What a row of a table tells: a paper's, or ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// A time in seconds.
    Time,
    /// The time of the reference, unbound, over the time of the placement: above 1 is faster.
    Ratio,
    /// The time of the reference with one thread over the time.
    SpeedUp,
}

/// A printed number: what it is worth, and how finely it is written.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Printed {
    /// The number.
    pub value: f64,
    /// Digits after the point.
    #[serde(skip_serializing)]
    pub decimals: u8,
}

impl Printed {
    /// The smallest and the largest number that are printed so.
    pub fn bounds(self) -> (f64, f64) {
        let half = 0.5 * 10_f64.powi(-i32::from(self.decimals));
        (self.value - half, self.value + half)
    }
}

impl std::fmt::Display for Printed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.*}", usize::from(self.decimals), self.value)
    }
}

impl Quantity {
    /// A number of this quantity as a time, in seconds or relative to one thread.
    pub(crate) fn time(self, number: f64) -> f64 {
        if self == Self::SpeedUp { number.recip() } else { number }
    }
}

impl Paper {
    /// The names of all papers.
    pub fn names() -> impl Iterator<Item = &'static str> {
        FILES.iter().map(|&(name, _)| name)
    }

    /// The paper of that name.
    pub fn named(name: &str) -> Option<&'static Self> {
        static PAPERS: LazyLock<Vec<Paper>> = LazyLock::new(|| {
            let read = |(name, text)| Paper { name, ..toml::from_str(text).expect("a test reads every paper") };
            FILES.into_iter().map(read).collect()
        });
        PAPERS.iter().find(|paper| paper.name == name)
    }

    /// The subject of `plan` that is a benchmark of a class; else, when the plan has one subject of that program, that one.
    pub fn subject<'p>(&self, plan: &'p Plan, benchmark: &str, class: Option<&str>) -> Option<&'p str> {
        let program = self.programs.get(benchmark)?;
        let ours = |name: &&str| name.rsplit_once('.').is_some_and(|(ours, _)| ours == program);
        let names: Vec<&str> = plan.subjects.iter().map(|subject| subject.name.as_str()).filter(ours).collect();
        let same = names.iter().find(|name| name.rsplit_once('.').map(|(_, class)| class) == class);
        match (same, names.as_slice()) {
            (Some(same), _) => Some(same),
            (None, [only]) => Some(only),
            (None, _) => None,
        }
    }

    /// The printed time of one cell, in seconds, from whichever table has it.
    pub fn time_s(&self, benchmark: &str, class: Option<&str>, placement: &str, threads: u32) -> Option<Printed> {
        let tables = self.tables.iter().filter(|table| table.class.as_deref() == class);
        let rows = tables.flat_map(|table| table.rows.iter().map(move |row| (table, row)));
        rows.filter(|(_, row)| row.benchmark == benchmark && row.placement.as_deref() == Some(placement))
            .filter(|(_, row)| row.quantity == Quantity::Time)
            .find_map(|(table, row)| table.number(row, threads))
    }
}

impl std::str::FromStr for Printed {
    type Err = std::num::ParseFloatError;

    fn from_str(digits: &str) -> Result<Self, Self::Err> {
        let decimals = digits.split_once('.').map_or(0, |(_, decimals)| decimals.len() as u8);
        Ok(Self { value: digits.parse()?, decimals })
    }
}

/// Reads `307.1 157.4 - 95.6`.
fn printed_cells<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<Option<Printed>>, D::Error> {
    let cell = |word: &str| match word {
        "-" => Ok(None),
        number => number.parse().map(Some).map_err(|_| format!("`{number}` is neither a number nor `-`")),
    };
    let text = String::deserialize(deserializer)?;
    text.split_whitespace().map(cell).collect::<Result<_, String>>().map_err(serde::de::Error::custom)
}
