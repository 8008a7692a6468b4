//! What the built-in programs of a study need, and the rates at which they ran.

use crate::number;
use crate::study_view::StudyView;
use crate::table::{Cell, Row, Table};
use crate::words::shape_in_words;
use serde::Serialize;
use study::Shape;
use study::Subject;

/// What the figures mean, for every form that shows them.
pub(crate) const KEY: &str = "Gflop and GB: what the timed part computes, and what it reads and writes if nothing stays in a cache, counted for one thread. Rates: that over the smallest median, of the placement named, which is no claim that it is faster than others. Gflop/s near what the CPUs can do: arithmetic bounds the program. GB/s near what memory can deliver: memory does; beyond it, caches held part of the data. Far from both: it waits, for single accesses or for its own threads.";

/// A subject that is a built-in program, in the words of the JSON form.
#[derive(Serialize)]
pub(crate) struct BuiltinProgram<'a> {
    /// Name of the subject.
    pub subject: &'a str,
    /// What the program is.
    pub title: &'static str,
    /// What it computes.
    pub description: &'static str,
    /// Which part of a machine bounds it.
    pub stresses: &'static str,
    /// How it knows that its result is right.
    pub verification: &'static str,
    /// Where it is defined.
    pub definition: &'static str,
    /// Memory that it asks for with one thread.
    pub memory_bytes: u64,
    /// Floating-point operations of the timed part.
    pub flops: u64,
    /// Bytes that the timed part reads and writes when nothing stays in a cache.
    pub bytes: u64,
    /// The one over the other; none where nothing is read or written.
    pub flops_per_byte: Option<f64>,
    /// One a thread count at which a trial went well.
    pub rates: Vec<Rate<'a>>,
}

/// What the placement with the smallest median reached at one thread count.
#[derive(Serialize)]
pub(crate) struct Rate<'a> {
    /// Thread count.
    pub threads: Shape,
    /// Name of the placement with the smallest median.
    pub placement: &'a str,
    /// That median, in seconds.
    pub median_s: f64,
    /// Floating-point operations a second.
    pub flops_per_s: f64,
    /// Bytes a second, if nothing stayed in a cache.
    pub bytes_per_s: f64,
}

/// What the timed part of each program takes in all, the rates it reached with each of `threads`, and by which placement.
pub(crate) fn table(programs: &[BuiltinProgram], threads: &[Shape]) -> Table {
    let threads_in_words = threads.iter().map(|&threads| shape_in_words(threads));
    Table {
        corner: vec!["program".into(), String::new()],
        heads: std::iter::once("in all".into()).chain(threads_in_words).collect(),
        counted: None,
        is_grouped: true,
        rows: programs.iter().flat_map(|program| program.rows(threads)).collect(),
    }
}

impl<'a> BuiltinProgram<'a> {
    /// The subjects of `study` that are built-in programs, in the plan's order.
    pub(crate) fn all(study: &StudyView<'a>) -> Vec<Self> {
        study.plan.subjects.iter().filter_map(|subject| Self::new(study, subject)).collect()
    }

    fn new(study: &StudyView<'a>, subject: &'a Subject) -> Option<Self> {
        // Of ranks the catalog doesn't say what memory they take, nor what they move.
        if subject.ranks.is_some() {
            return None;
        }
        // Of another program by this name, or of a time other than that of the timed part, nothing is known.
        let builtin = workloads::resolve(&subject.name).ok()?;
        if subject.time_regex.as_ref() != Some(&builtin.time_regex) {
            return None;
        }
        let (program, class) = workloads::program_and_class(&subject.name).ok()?;
        let rate = |&threads: &Shape| {
            let timed = study.summaries(&subject.name).filter(|summary| summary.threads == threads);
            let timed = timed.filter_map(|summary| Some((summary.placement.as_str(), summary.median_s?)));
            let (placement, median_s) = timed.filter(|&(_, s)| s > 0.0).min_by(|a, b| a.1.total_cmp(&b.1))?;
            Some(Rate {
                threads,
                placement,
                median_s,
                flops_per_s: class.flops as f64 / median_s,
                bytes_per_s: class.bytes as f64 / median_s,
            })
        };
        Some(Self {
            subject: &subject.name,
            title: &program.title,
            description: &program.description,
            stresses: &program.stresses,
            verification: &program.verification,
            definition: &program.definition,
            memory_bytes: class.memory_mib << 20,
            flops: class.flops,
            bytes: class.bytes,
            flops_per_byte: (class.bytes > 0).then(|| class.flops as f64 / class.bytes as f64),
            rates: study.plan.threads.iter().filter_map(rate).collect(),
        })
    }

    /// Memory and flops a byte: `5.0 MiB, 0.28 flop a byte`.
    pub(crate) fn needs(&self) -> String {
        let memory = number::bytes(self.memory_bytes);
        match self.flops_per_byte {
            Some(intensity) => format!("{memory}, {intensity:.2} flop a byte"),
            None => format!("{memory}, no memory traffic"),
        }
    }

    fn rows(&self, threads: &[Shape]) -> Vec<Row> {
        let row = |label: &str, total: String, write: &dyn Fn(&Rate) -> String| {
            let rate = |&threads: &Shape| self.rates.iter().find(|rate| rate.threads == threads);
            let cells = threads.iter().map(|threads| rate(threads).map_or_else(String::new, write));
            let cells = std::iter::once(total).chain(cells).map(Cell::from).collect();
            Row { labels: vec![self.subject.into(), label.into()], cells }
        };
        let (flop, bytes) = (number::giga(self.flops as f64), number::giga(self.bytes as f64));
        let mut rows = vec![row("Gflop/s", format!("{flop} Gflop"), &|rate| number::giga(rate.flops_per_s))];
        if self.bytes > 0 {
            rows.push(row("GB/s", format!("{bytes} GB"), &|rate| number::giga(rate.bytes_per_s)));
        }
        rows.push(row("with", String::new(), &|rate| rate.placement.to_owned()));
        rows
    }
}
