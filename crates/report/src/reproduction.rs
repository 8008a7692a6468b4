//! A paper beside what we get, in every form: its numbers with ours next to them, its figures, and a verdict on each claim.
//!
//! All forms say the same things in the same order: the answer, the tables, the figures, the claims, what was chosen.

mod csv;
mod html;
mod json;
mod markdown;
mod method;
mod terminal;

pub use self::csv::csv;
pub use self::html::html;
pub use self::json::json;
pub use self::markdown::markdown;
pub use self::terminal::terminal;

use crate::glossary::{Entry, REPRODUCTION};
use crate::words::count;
use ::simulation::Estimated;
use papers::contention::{HeldOut, Role};
use papers::reproduction::{Against, JudgedClaim, Panel, ReproducedCell, ReproducedTable, Reproduction, Verdict};

/// A table as its readers want it: what is compared most closely comes first, with a margin.
pub(crate) struct TableView<'a> {
    /// The table.
    pub table: &'a ReproducedTable,
    /// Digits after the point of ours and of differences.
    decimals: usize,
}

/// A cell, written.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct CellView {
    /// What is printed.
    pub printed: Option<String>,
    /// What we get.
    pub ours: Option<String>,
    /// The ends of its 95 % interval, where it has a width.
    pub interval: Option<(String, String)>,
    /// From ours to the farther end of the interval.
    pub doubt: Option<String>,
    /// Ours less the printed number, with its sign.
    pub difference: Option<String>,
    /// Whether ours is within the table's margin; none where there is no margin or nothing to compare.
    pub near: Option<bool>,
    /// Whether a model was fitted on what is printed.
    pub is_fitted: bool,
    /// What this machine measured.
    pub live: Option<LiveView>,
}

/// What this machine measured in a cell, written.
#[derive(Debug, PartialEq)]
pub(crate) struct LiveView {
    /// The number, or words.
    pub value: String,
    /// The ends of its 95 % interval, where it has a width.
    pub interval: Option<(String, String)>,
    /// From the number to the farther end.
    pub doubt: Option<String>,
}

impl LiveView {
    fn words(value: String) -> Self {
        Self { value, interval: None, doubt: None }
    }

    /// With about three digits: other classes and machines take times of other sizes than are printed.
    fn new(live: Estimated) -> Self {
        let decimals = match live.value.abs() {
            0.0 => 1,
            x if x >= 100.0 => 0,
            x if x >= 10.0 => 1,
            x if x >= 1.0 => 2,
            x if x >= 0.1 => 3,
            _ => 4,
        };
        let write = |value: f64| format!("{value:.decimals$}");
        let ends = interval(live);
        Self {
            value: write(live.value),
            interval: ends.map(|(low, high)| (write(low), write(high))),
            doubt: ends.map(|(low, high)| write((live.value - low).max(high - live.value))),
        }
    }
}

impl<'a> TableView<'a> {
    /// The tables of a paper: those with a margin first.
    pub(crate) fn all(paper: &'a Reproduction) -> Vec<Self> {
        let mut all: Vec<Self> = paper.tables.iter().map(Self::new).collect();
        all.sort_by_key(|view| view.table.margin.is_none());
        all
    }

    fn new(table: &'a ReproducedTable) -> Self {
        let printed = table.rows.iter().flat_map(|row| &row.cells).filter_map(|cell| match cell {
            ReproducedCell::Number { printed, .. } => *printed,
            ReproducedCell::Words { .. } => None,
        });
        let decimals = printed.map(|number| usize::from(number.decimals)).max().unwrap_or(0).max(1);
        Self { table, decimals }
    }

    /// Whether the table holds words and no numbers.
    pub(crate) fn is_prose(&self) -> bool {
        let mut cells = self.table.rows.iter().flat_map(|row| &row.cells);
        cells.all(|cell| matches!(cell, ReproducedCell::Words { .. }))
    }

    /// Whether ours are a fitted model's numbers.
    pub(crate) fn is_predicted(&self) -> bool {
        let mut cells = self.table.rows.iter().flat_map(|row| &row.cells);
        cells.any(|cell| matches!(cell, ReproducedCell::Number { role: Some(_), .. }))
    }

    /// A cell of this table, written.
    pub(crate) fn cell(&self, cell: &ReproducedCell) -> CellView {
        let told = |words: &str| (!words.is_empty()).then(|| crate::words::plain(words));
        match cell {
            ReproducedCell::Words { printed, ours, live } => {
                let live = live.as_deref().and_then(told).map(LiveView::words);
                CellView { printed: told(printed), ours: told(ours), live, ..CellView::default() }
            }
            ReproducedCell::Number { printed, ours, difference, role, live } => {
                let doubt = ours.and_then(interval);
                CellView {
                    printed: printed.map(|number| number.to_string()),
                    ours: ours.map(|ours| self.write(ours.value)),
                    interval: doubt.map(|(low, high)| (self.write(low), self.write(high))),
                    doubt: ours.zip(doubt).map(|(ours, (low, high))| {
                        format!("{:.*}", self.decimals, (ours.value - low).max(high - ours.value))
                    }),
                    difference: difference.map(|points| self.signed(points)),
                    near: self.table.margin.zip(*difference).map(|(margin, points)| points.abs() <= margin),
                    is_fitted: *role == Some(Role::Fitted),
                    live: live.map(LiveView::new),
                }
            }
        }
    }

    /// Whether this machine measured anything of the table.
    pub(crate) fn is_live(&self) -> bool {
        self.table.rows.iter().any(|row| has_live(&row.cells))
    }

    /// The table line by line, as forms have it that are text alone: of each row's label and the word for whose the numbers are,
    /// and of each cell what `told` says.
    pub(crate) fn lines<T>(&self, told: impl Fn(Whose, &CellView) -> T) -> Vec<([String; 2], Vec<T>)> {
        let mut lines = Vec::new();
        for row in &self.table.rows {
            let cells: Vec<CellView> = row.cells.iter().map(|cell| self.cell(cell)).collect();
            let of = |whose: Whose, is_told: bool| is_told.then_some(whose);
            let whose = match self.is_lost(&row.cells) {
                true => vec![Whose::Lost],
                false => [
                    of(Whose::Printed, cells.iter().any(|cell| cell.printed.is_some())),
                    Some(Whose::Ours),
                    of(Whose::Difference, cells.iter().any(|cell| cell.difference.is_some())),
                    of(Whose::Live, has_live(&row.cells)),
                ]
                .into_iter()
                .flatten()
                .collect(),
            };
            let mut label = row.label.clone();
            lines.extend(whose.into_iter().map(|whose| {
                let labels = [std::mem::take(&mut label), whose.word().into()];
                (labels, cells.iter().map(|cell| told(whose, cell)).collect())
            }));
        }
        lines
    }

    /// Whether a row has neither printed numbers nor ours nor live ones.
    pub(crate) fn is_lost(&self, cells: &[ReproducedCell]) -> bool {
        let mut cells = cells.iter().map(|cell| self.cell(cell));
        cells.all(|cell| cell.printed.is_none() && cell.ours.is_none() && cell.live.is_none())
    }

    fn write(&self, value: f64) -> String {
        let scale = 10_f64.powi(self.decimals as i32);
        // Adding 0 leaves no negative zero.
        format!("{:.*}", self.decimals, (value * scale).round() / scale + 0.0)
    }

    fn signed(&self, value: f64) -> String {
        let text = self.write(value);
        if value > 0.0 && text.chars().any(|c| ('1'..='9').contains(&c)) { format!("+{text}") } else { text }
    }

    /// How many of the printed cells are within the margin, and how many there are; none without a margin.
    fn near(&self) -> Option<(usize, usize)> {
        self.table.margin?;
        let cells = self.table.rows.iter().flat_map(|row| &row.cells);
        let near: Vec<bool> = cells.filter_map(|cell| self.cell(cell).near).collect();
        Some((near.iter().filter(|near| **near).count(), near.len()))
    }
}

/// Whose numbers stand in a line of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Nobody's: nothing is printed, and nothing predicts it.
    Lost,
    /// The paper's.
    Printed,
    /// Ours.
    Ours,
    /// Ours less the paper's.
    Difference,
    /// This machine's.
    Live,
}

impl Whose {
    /// What stands before the line.
    fn word(self) -> &'static str {
        match self {
            Self::Lost => LOST,
            Self::Printed => "printed",
            Self::Ours => "ours",
            Self::Difference => "difference",
            Self::Live => "live",
        }
    }
}

/// Whether this machine measured anything of a row.
pub(crate) fn has_live(cells: &[ReproducedCell]) -> bool {
    let is_live = |cell: &ReproducedCell| match cell {
        ReproducedCell::Number { live, .. } => live.is_some(),
        ReproducedCell::Words { live, .. } => live.is_some(),
    };
    cells.iter().any(is_live)
}

/// In the place of a cell that this machine hasn't run.
pub(crate) const NOT_HERE: &str = "not here";

/// An interval that has a width.
fn interval(ours: Estimated) -> Option<(f64, f64)> {
    ours.low.zip(ours.high).filter(|(low, high)| low != high)
}

/// Marks ours where a model was fitted on what is printed.
pub(crate) const FITTED: &str = "†";

/// In the place of a row that has no numbers: what was printed hasn't come down to us, and nothing predicts it.
pub(crate) const LOST: &str = "lost";

/// What a paper's reader asks first.
pub(crate) struct Answer {
    /// Printed cells within the margin, how many there are, of which table, and the margin.
    pub near: Option<(usize, usize, String, f64)>,
    /// How well a fitted model predicts what it hasn't seen.
    pub held_out: Option<HeldOut>,
    /// How many claims of each group got each verdict, in the order of [`VERDICTS`].
    pub verdicts: Vec<(Against, [usize; 3])>,
    /// How many claims got each verdict of this machine's numbers.
    pub live: [usize; 3],
    /// What its policies would change against today's kernel, in sentences.
    pub against_kernel: Vec<String>,
}

/// The claims that are judged by one's numbers.
pub(crate) struct Group<'a> {
    /// Whose.
    pub against: Against,
    /// The claims, in the paper's order.
    pub claims: Vec<&'a JudgedClaim>,
}

impl<'a> Group<'a> {
    /// The groups that have claims.
    pub(crate) fn all(paper: &'a Reproduction) -> Vec<Self> {
        let group =
            |against| Self { against, claims: paper.claims.iter().filter(|claim| claim.against == against).collect() };
        [Against::Us, Against::Itself].map(group).into_iter().filter(|group| !group.claims.is_empty()).collect()
    }

    /// Whether some claim of it was asked of this machine's numbers.
    pub(crate) fn is_live(&self) -> bool {
        self.claims.iter().any(|claim| claim.live.is_some())
    }

    /// Its heading.
    pub(crate) fn title(&self) -> &'static str {
        match self.against {
            Against::Us => "The paper against us",
            Against::Itself => "The paper against itself",
        }
    }

    /// What its claims are judged by.
    pub(crate) fn about(&self) -> &'static str {
        match self.against {
            Against::Us => "What the text says, in our words, judged by our numbers.",
            Against::Itself => {
                "What the text says or implies, in our words, judged by what the paper prints and by the machine that it names."
            }
        }
    }
}

/// What was done, in sentences.
pub(crate) fn what_was_done(paper: &Reproduction) -> Vec<String> {
    [method::method(paper), method::live(paper)].concat()
}

/// What its policies would change against today's kernel, in sentences; none where neither was simulated.
pub(crate) fn against_kernel(paper: &Reproduction) -> Vec<String> {
    paper.against_kernel.as_ref().map(crate::sentences::against_kernel).unwrap_or_default()
}

/// What the words of papers beside ours mean.
pub(crate) fn glossary(is_live: bool) -> impl Iterator<Item = Entry> {
    REPRODUCTION.into_iter().filter(move |entry| entry.0 != "live" || is_live)
}

/// The same for a terminal of `width` columns.
pub fn explanation(papers: &[Reproduction], width: usize) -> String {
    let is_live = papers.iter().any(|paper| paper.live.is_some());
    crate::glossary::terminal(glossary(is_live), width)
}

/// The word for a verdict, in every form.
pub(crate) fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "holds",
        Verdict::Fails => "fails",
        Verdict::Undecidable => "undecidable",
    }
}

/// Whose numbers claims are judged by, in a few words.
pub(crate) fn judged_by(against: Against) -> &'static str {
    match against {
        Against::Us => "by our numbers",
        Against::Itself => "by the paper's own numbers",
    }
}

/// All verdicts, in the order in which they are told.
pub(crate) const VERDICTS: [Verdict; 3] = [Verdict::Holds, Verdict::Fails, Verdict::Undecidable];

impl Answer {
    pub(crate) fn of(paper: &Reproduction) -> Self {
        let near = TableView::all(paper).iter().find_map(|view| {
            let (near, compared) = view.near().filter(|(_, compared)| *compared > 0)?;
            Some((near, compared, view.table.title.clone(), view.table.margin?))
        });
        let tally = |group: Group| {
            let with = |verdict| group.claims.iter().filter(|claim| claim.verdict == verdict).count();
            (group.against, VERDICTS.map(with))
        };
        let verdicts = Group::all(paper).into_iter().map(tally).collect();
        let live_with = |verdict| {
            paper.claims.iter().filter_map(|claim| claim.live.as_ref()).filter(|live| live.verdict == verdict).count()
        };
        let live = VERDICTS.map(live_with);
        Self { near, held_out: paper.held_out, verdicts, live, against_kernel: against_kernel(paper) }
    }

    /// The answer in sentences, without those of [`Self::against_kernel`].
    pub(crate) fn sentences(&self) -> Vec<String> {
        let near = self.near.as_ref().map(|(near, compared, title, margin)| {
            let are = if *near == 1 { "is" } else { "are" };
            let cells = count(*compared, "printed cell");
            format!("{near} of the {cells} of {title} {are} within {margin} points of ours.")
        });
        let predicted = self.held_out.map(|held_out| {
            let cells = count(held_out.cells, "printed cell");
            format!("On {cells} that it hasn't seen the model's mean error is {:.1} %.", 100.0 * held_out.mean_error)
        });
        let verb = |number: usize, one: &str, many: &str| format!("{number} {}", if number == 1 { one } else { many });
        let claims = self.verdicts.iter().map(|&(against, [holds, fails, undecidable])| {
            format!(
                "Of {} of its text, judged {}, {}, {}, and {undecidable} can't be decided.",
                count(holds + fails + undecidable, "claim"),
                judged_by(against),
                verb(holds, "holds", "hold"),
                verb(fails, "fails", "fail"),
            )
        });
        let live = (self.live.iter().sum::<usize>() > 0).then(|| {
            let [holds, fails, undecidable] = self.live;
            format!(
                "Of {} of runs, judged by this machine's, {}, {}, and {undecidable} can't be decided.",
                count(holds + fails + undecidable, "claim"),
                verb(holds, "holds", "hold"),
                verb(fails, "fails", "fail"),
            )
        });
        near.into_iter().chain(predicted).chain(claims).chain(live).collect()
    }
}

/// The median of a distribution in ms, with the digits that its bins can bear.
pub(crate) fn median(panel: &Panel) -> Option<String> {
    Some(format!("{:.1}", panel.median_ms?))
}

/// `text` broken at spaces into lines of at most `width` characters, or of one word.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
