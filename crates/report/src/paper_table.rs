//! A paper's own tables, with ours beside what is printed.

use crate::csv::or_empty;
use crate::number;
use crate::setting::{machine, trials_a_cell};
use crate::study_view::StudyView;
use crate::table::{self, Cell, Table};
use papers::paper::{Paper, Printed, PrintedTable, Quantity};
use study::Shape;
use study::{Plan, Summary};

/// A table of the paper whose study this is, in the paper's shape.
pub(crate) struct PaperTable<'a> {
    /// The paper.
    pub paper: &'static Paper,
    /// The table as printed.
    pub printed: &'static PrintedTable,
    /// One a benchmark, in the paper's order.
    pub groups: Vec<Group<'a>>,
}

/// The rows of one benchmark.
pub(crate) struct Group<'a> {
    /// The paper's name for it.
    pub benchmark: &'static str,
    /// The subject that is ours; none when this study has none for it.
    pub subject: Option<&'a str>,
    /// The printed rows in their order, then the ratios and speed-ups that follow from them.
    pub rows: Vec<Row<'a>>,
}

/// What is told of one placement.
pub(crate) struct Row<'a> {
    /// What the figures are.
    pub quantity: Quantity,
    /// Our name of the placement; none where the paper doesn't say of which it speaks.
    pub placement: Option<&'static str>,
    /// Whether its printed figures are computed from others that are printed.
    pub computed: bool,
    /// One a column.
    pub cells: Vec<Pair<'a>>,
}

/// A printed figure and ours.
#[derive(Clone, Copy)]
pub(crate) struct Pair<'a> {
    /// What is printed, or follows from what is.
    pub printed: Option<Printed>,
    /// Our cell.
    pub ours: Option<&'a Summary>,
    /// Whether a difference of ours was measured on a busy machine.
    pub is_busy: bool,
}

/// Whose figures a line holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The paper's, as printed.
    Printed,
    /// Computed from what the paper prints.
    Computed,
    /// This study's.
    Ours,
}

impl Source {
    /// The word before the line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Printed => "printed",
            Self::Computed => "from printed",
            Self::Ours => "ours",
        }
    }
}

/// How to read the tables.
pub(crate) const KEY: &str = "Seconds of different machines and classes can't be compared; ratios and speed-ups can. Ratio: time of unbound over time of the placement, above 1 is faster; ours from pairs of the same block, with its 95 % interval. Speed-up: time of unbound with 1 thread over the time; ours from medians.";

/// One fact about how the numbers came about: what it is, the paper's, ours.
pub(crate) type Fact = (&'static str, String, String);

impl<'a> PaperTable<'a> {
    /// The tables of the paper that the plan names; none for a study that is no paper's.
    pub(crate) fn all(study: &StudyView<'a>) -> Vec<Self> {
        let Some(paper) = study.plan.paper.as_deref().and_then(Paper::named) else { return Vec::new() };
        let table = |printed: &'static PrintedTable| {
            let mut benchmarks: Vec<&'static str> = printed.rows.iter().map(|row| row.benchmark.as_str()).collect();
            benchmarks.dedup();
            let groups = benchmarks.into_iter().map(|name| Group::new(study, paper, printed, name)).collect();
            Self { paper, printed, groups }
        };
        paper.tables.iter().map(table).collect()
    }

    /// Whether `tables` show every placement, thread count and subject of `plan`.
    pub(crate) fn cover(tables: &[Self], plan: &Plan) -> bool {
        let rows = || tables.iter().flat_map(|table| &table.groups).flat_map(|group| &group.rows);
        plan.treatments.iter().all(|treatment| rows().any(|row| row.placement == Some(&treatment.name)))
            && plan
                .threads
                .iter()
                .all(|count| tables.iter().any(|table| table.printed.threads.iter().any(|printed| *count == *printed)))
            && plan.subjects.iter().all(|subject| {
                let mut groups = tables.iter().flat_map(|table| &table.groups);
                groups.any(|group| group.subject == Some(&subject.name))
            })
    }

    /// What the table is, with the classes when they are not the same: `Table 1 of ..., class B, beside ours, class W`.
    pub(crate) fn title(&self) -> String {
        let Self { paper, printed, .. } = self;
        let title = format!("{} of {}", printed.title, paper.short);
        let ours = self.our_classes();
        match &printed.class {
            _ if ours.is_empty() => format!("{title}; this study ran nothing of it"),
            Some(class) if ours == [class.as_str()] => format!("{title}, class {class}, beside ours"),
            Some(class) => format!("{title}, class {class}, beside ours of class {}", ours.join(", ")),
            None => format!("{title}, beside ours of class {}", ours.join(", ")),
        }
    }

    /// The time that is printed for a cell of ours.
    pub(crate) fn printed_time(&self, subject: &str, placement: &str, threads: Shape) -> Option<Printed> {
        let group = self.groups.iter().find(|group| group.subject == Some(subject))?;
        let is_time = |row: &&Row| row.quantity == Quantity::Time && row.placement == Some(placement);
        let column = self.printed.threads.iter().position(|&count| threads == count)?;
        group.rows.iter().find(is_time)?.cells[column].printed
    }

    /// All of it, line by line: each printed line, or what follows from such lines, and ours below it.
    pub(crate) fn whole(&self) -> Table {
        self.table(|_| true, |_| true)
    }

    /// The same of some thread counts and rows.
    pub(crate) fn table(&self, is_column: impl Fn(u32) -> bool, is_told: impl Fn(&Row) -> bool) -> Table {
        let is_shown: Vec<bool> = self.printed.threads.iter().map(|&threads| is_column(threads)).collect();
        let threads = self.printed.threads.iter().zip(&is_shown).filter(|(_, shown)| **shown);
        let mut table = Table::over_threads(
            ["benchmark", "", ""],
            &threads.map(|(&threads, _)| threads.into()).collect::<Vec<_>>(),
        );
        for group in &self.groups {
            for row in group.rows.iter().filter(|row| is_told(row)) {
                table.rows.extend(row.lines().into_iter().map(|(source, cells)| table::Row {
                    labels: vec![group.benchmark.into(), row.label(), source.word().into()],
                    cells:
                        cells.into_iter().zip(&is_shown).filter(|(_, shown)| **shown).map(|(cell, _)| cell).collect(),
                }));
            }
        }
        table
    }

    /// How the paper's numbers came about, and ours.
    pub(crate) fn facts(&self, study: &StudyView) -> Vec<Fact> {
        let paper = self.paper;
        let subjects = || study.plan.subjects.iter();
        let told = |text: &Option<String>| text.clone().unwrap_or_else(|| "not told".into());
        let mut compilers: Vec<&str> = subjects().filter_map(|subject| subject.compiler()).collect();
        compilers.sort_unstable();
        compilers.dedup();
        let compiler = if compilers.is_empty() { "not known".into() } else { compilers.join(", ") };
        let own_time = subjects().all(|subject| subject.time_regex.is_some());
        let timed = if own_time { "the part that the program itself times" } else { "the whole run" };
        let mut programs: Vec<&str> = Vec::new();
        for name in subjects().map(|subject| subject.name.as_str()) {
            let program = name.rsplit_once('.').map_or(name, |(program, _)| program);
            programs.extend((!programs.contains(&program)).then_some(program));
        }
        let host = &study.host;
        vec![
            ("machine", paper.hardware.clone(), machine(study)),
            ("system", paper.system.clone(), system(&host.kernel, host.distribution.as_deref())),
            ("compiler", told(&paper.compiler), compiler),
            ("programs", paper.code.clone(), format!("{} of Stayput {}", programs.join(", "), host.stayput_version)),
            ("timed", told(&paper.timed), timed.into()),
            ("numbers", paper.statistic.clone(), format!("mean of {} runs", trials_a_cell(study))),
        ]
    }

    /// The classes of our subjects, each once.
    fn our_classes(&self) -> Vec<&'a str> {
        let subjects = self.groups.iter().filter_map(|group| group.subject);
        let mut classes: Vec<&str> = subjects.filter_map(|name| Some(name.rsplit_once('.')?.1)).collect();
        classes.sort_unstable();
        classes.dedup();
        classes
    }
}

fn system(kernel: &str, distribution: Option<&str>) -> String {
    format!("Linux {kernel}{}", distribution.map_or_else(String::new, |name| format!(" ({name})")))
}

impl<'a> Group<'a> {
    fn new(
        study: &StudyView<'a>,
        paper: &'static Paper,
        table: &'static PrintedTable,
        benchmark: &'static str,
    ) -> Self {
        let class = table.class.as_deref();
        let subject = paper.subject(study.plan, benchmark, class);
        let unbound = study::plan::UNBOUND;
        let ours = |quantity, placement: Option<&str>, threads| {
            // The paper's ratios are to unbound; ours are not when it was left out.
            let comparable = quantity == Quantity::Time || study.reference() == unbound;
            study.summary(subject?, threads, placement?).filter(|_| comparable)
        };
        let pair = |printed, ours: Option<&'a Summary>| Pair {
            printed,
            ours,
            is_busy: ours.is_some_and(|summary| study.is_busy(summary)),
        };
        let mut rows: Vec<Row> = Vec::new();
        let mut bound: Vec<&'static str> = Vec::new();
        for row in table.rows.iter().filter(|row| row.benchmark == benchmark) {
            let placement = row.placement.as_deref();
            let columns = table.threads.iter().zip(&row.printed);
            let cells =
                columns.map(|(&count, &printed)| pair(printed, ours(row.quantity, placement, count.into()))).collect();
            rows.push(Row { quantity: row.quantity, placement, computed: false, cells });
            bound.extend(placement.filter(|name| !bound.contains(name)));
        }
        // What the paper leaves its reader to compute.
        let time = |placement, threads| paper.time_s(benchmark, class, placement, threads).map(|time| time.value);
        for quantity in [Quantity::Ratio, Quantity::SpeedUp] {
            for &placement in &bound {
                let there = rows.iter().any(|row| row.quantity == quantity && row.placement == Some(placement));
                if there || (quantity == Quantity::Ratio && placement == unbound) {
                    continue;
                }
                let computed = |threads| {
                    let base_s = time(unbound, if quantity == Quantity::Ratio { threads } else { 1 })?;
                    Some(Printed { value: base_s / time(placement, threads)?, decimals: 2 })
                };
                let cell = |&count: &u32| pair(computed(count), ours(quantity, Some(placement), count.into()));
                let cells = table.threads.iter().map(cell).collect();
                rows.push(Row { quantity, placement: Some(placement), computed: true, cells });
            }
        }
        Self { benchmark, subject, rows }
    }
}

impl Row<'_> {
    /// What the row is about: `compact, s`, `unbound / compact`.
    pub(crate) fn label(&self) -> String {
        let placement = self.placement.unwrap_or("mapping not told");
        match self.quantity {
            Quantity::Time => format!("{placement}, s"),
            Quantity::Ratio => format!("{} / {placement}", study::plan::UNBOUND),
            Quantity::SpeedUp => format!("{placement}, speed-up"),
        }
    }

    /// Its figures line by line, each with whose they are: the printed ones where there are or were to be any, then ours
    /// where they can be told apart by placement.
    pub(crate) fn lines(&self) -> Vec<(Source, Vec<Cell>)> {
        let printed = |pair: &Pair| Cell::from(or_empty(pair.printed));
        let source = if self.computed { Source::Computed } else { Source::Printed };
        let mut lines = Vec::new();
        if !self.computed || self.cells.iter().any(|pair| pair.printed.is_some()) {
            lines.push((source, self.cells.iter().map(printed).collect()));
        }
        if self.placement.is_some() {
            lines.push((Source::Ours, self.cells.iter().map(|pair| self.our_cell(pair)).collect()));
        }
        lines
    }

    /// Our figure: a mean for a time, as the papers'; otherwise as in every table of ours.
    fn our_cell(&self, pair: &Pair) -> Cell {
        match (pair.ours, self.quantity) {
            (None, _) => Cell::default(),
            (Some(Summary { mean_s: Some(mean_s), .. }), Quantity::Time) => number::seconds(*mean_s).into(),
            (Some(summary), quantity) => Cell::new(summary, quantity, pair.is_busy),
        }
    }
}
