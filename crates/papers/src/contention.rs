//! A contention model of a paper's machine: fitted on a few of the paper's cells, it predicts the others.
//!
//! Of each benchmark and class the model knows three numbers: its time on one thread, the share of it spent in memory, and the
//! crosstalk of its threads ([`Demand`]). Of the machine it knows two: how much neighbours slow a core down, and how often an
//! unbound thread sits on a wrong node. `law.rs` says how they make a time; what is shared comes from the machine's tree.
//!
//! `RULES` in `cell.rs` names the cells that may be seen, by what the parameters mean and never by what the model gets wrong. EP touches no
//! memory and has no barrier but the last, so its bound times tell the slow-down of cores. The kernels tell how often an unbound
//! thread is misplaced; for the pseudo-applications that is a prediction.
//!
//! What the model leaves out is named in [`LEFT_OUT`]. How much of what remains is misplacement, each unbound cell tells itself:
//! [`CellPrediction::misplaced_needed`].

mod cell;
mod fit;
mod law;
mod seating;

pub use law::Demand;
pub use seating::Neighbourhood;

use crate::paper::{Paper, Printed, Quantity};
use cell::{Cell, RULES};
use machine::{Machine, PlaceError};
use serde::Serialize;
use study::plan::UNBOUND;

/// Effects that the model doesn't have, for want of cells that could tell them apart.
pub const LEFT_OUT: [&str; 5] = [
    "how long a misplacement lasts: it is drawn anew for each phase, with one probability for all programs and thread counts",
    "more than one misplaced thread at a time",
    "misses after a migration: reload transients are part of what a misplacement costs",
    "caches shared by fewer CPUs than a memory node: an L2 of two cores, and programs that begin to fit as threads are added",
    "shares of a loop that differ by one iteration, and pages that lie on another node than the thread that uses them",
];

/// Why a paper's cells can't be predicted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContentionError {
    /// Nobody has said which cells the model may see.
    #[error("no rule says which cells of `{paper}` a contention model is fitted on: add one to `RULES` in cell.rs")]
    NoRule {
        /// The paper's name.
        paper: String,
    },
    /// A cell that the rule names isn't printed.
    #[error(
        "{paper} prints no time of {benchmark} {placement} in its column of {threads}, which the model is fitted on"
    )]
    NotPrinted {
        /// The paper's name.
        paper: String,
        /// Its name of the benchmark, with its class.
        benchmark: String,
        /// Our name of the treatment.
        placement: String,
        /// Number of threads.
        threads: u32,
    },
    /// A printed placement can't be made on the machine.
    #[error("no {placement} placement of {threads} threads on `{machine}`: {cause}")]
    Place {
        /// Our name of the treatment.
        placement: String,
        /// Number of threads.
        threads: u32,
        /// The machine's name.
        machine: String,
        /// Why not.
        cause: PlaceError,
    },
}

/// A fitted model and all that it predicts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Contention {
    /// What the machine does.
    pub machine: MachineFit,
    /// By benchmark and class, in the paper's order.
    pub benchmarks: Vec<BenchmarkFit>,
    /// Every printed time and speed-up with its prediction, in the paper's order.
    pub cells: Vec<CellPrediction>,
}

/// What the model knows of a machine and its kernel, beyond the tree.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MachineFit {
    /// What slows a core down.
    pub neighbourhood: Neighbourhood,
    /// By which factor, at least 1, core work takes longer when neighbours are busy; none where no seen cell shows it.
    pub slowdown: Option<f64>,
    /// Share of phases, 0 to 1, in which one unbound thread sits on a wrong node; none where no unbound cell is seen.
    pub misplaced: Option<f64>,
}

/// A benchmark of one class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BenchmarkFit {
    /// The paper's name of it.
    pub benchmark: String,
    /// Its problem class, where it has one.
    pub class: Option<String>,
    /// Time on one thread in seconds; 1 where only speed-ups are printed.
    pub one_thread: f64,
    /// What it asks of the machine.
    pub demand: Demand,
}

/// What the model had to do with a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// It was fitted on it.
    Fitted,
    /// Nothing that it knows differs from a fitted cell of the same benchmark and class: one thread, or placements alike. It gives
    /// the same number for both, which is no test of it.
    Implied,
    /// It predicts the cell and hasn't seen it.
    HeldOut,
}

/// A printed number beside the model's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellPrediction {
    /// The table's name in file names: `table-1`.
    pub table: String,
    /// The paper's name of the benchmark.
    pub benchmark: String,
    /// Its problem class, where it has one.
    pub class: Option<String>,
    /// Our name of the treatment; none where the paper doesn't say of which it speaks.
    pub placement: Option<String>,
    /// Number of threads.
    pub threads: u32,
    /// What the numbers are: a time in seconds, or a speed-up.
    pub quantity: Quantity,
    /// As printed.
    pub printed: Printed,
    /// By the model.
    pub predicted: f64,
    /// The predicted time over the printed one, less 1.
    pub error: f64,
    /// What the model had to do with it.
    pub role: Role,
    /// For an unbound cell, the share of phases with a misplaced thread that would explain its time, if bound times and demands are
    /// right: below 0 it is faster than bound, above 1 one misplaced thread isn't enough. None where misplacement costs nothing.
    pub misplaced_needed: Option<f64>,
}

/// How well held-out cells are predicted; errors are means of `|predicted / printed - 1|` of times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HeldOut {
    /// Number of cells fitted on.
    pub fitted_cells: usize,
    /// Number of cells held out.
    pub cells: usize,
    /// Number of cells implied by fitted ones, which count nowhere else here.
    pub implied_cells: usize,
    /// The model's mean error.
    pub mean_error: f64,
    /// What it would be without any model, if threads divided the time on one thread among them.
    pub perfect_scaling_mean_error: f64,
    /// What it would be without any model, if the logarithm of time ran straight over that of threads between the fitted bound cells,
    /// and unbound were bound.
    pub interpolation_mean_error: f64,
    /// The worst of the model's errors.
    pub largest_error: f64,
}

impl Contention {
    /// Fits the model on the cells that the paper's rule names, and predicts all.
    ///
    /// # Errors
    /// [`ContentionError`] when there is no rule for the paper, when a cell that it names isn't printed, or when the machine can't
    /// hold a printed placement.
    pub fn fit(paper: &Paper, machine: &Machine) -> Result<Self, ContentionError> {
        let rule = RULES.iter().find(|rule| rule.paper == paper.name);
        let rule = rule.ok_or_else(|| ContentionError::NoRule { paper: paper.name.into() })?;
        let cells = cell::cells(paper, machine, rule)?;
        let (machine, benchmarks) = fit::fit(paper, Neighbourhood::new(machine), rule, &cells)?;
        let predicted = cells.iter().filter_map(|cell| {
            let fit = benchmarks.iter().find(|fit| cell.is_of(fit))?;
            Some(predict(cell, &cells, fit, machine))
        });
        Ok(Self { machine, cells: predicted.collect(), benchmarks })
    }

    /// How well the cells are predicted that the model hasn't seen; none where there are none.
    pub fn held_out(&self) -> Option<HeldOut> {
        let count = |role| self.cells.iter().filter(|cell| cell.role == role).count();
        let held_out: Vec<&CellPrediction> = self.cells.iter().filter(|cell| cell.role == Role::HeldOut).collect();
        let mean = |error: &dyn Fn(&CellPrediction) -> f64| {
            held_out.iter().map(|cell| error(cell).abs()).sum::<f64>() / held_out.len() as f64
        };
        let perfect = |cell: &CellPrediction| self.one_thread(cell) / f64::from(cell.threads) / cell.time() - 1.0;
        (!held_out.is_empty()).then(|| HeldOut {
            fitted_cells: count(Role::Fitted),
            cells: held_out.len(),
            implied_cells: count(Role::Implied),
            mean_error: mean(&|cell| cell.error),
            perfect_scaling_mean_error: mean(&perfect),
            interpolation_mean_error: mean(&|cell| self.interpolated(cell) / cell.time() - 1.0),
            largest_error: held_out.iter().map(|cell| cell.error.abs()).fold(0.0, f64::max),
        })
    }

    /// What is predicted of a benchmark of a class, from the first table that has the cell.
    pub(super) fn prediction(
        &self,
        benchmark: &str,
        class: Option<&str>,
        placement: Option<&str>,
        threads: u32,
    ) -> Option<&CellPrediction> {
        self.cells.iter().find(|cell| {
            (cell.benchmark.as_str(), cell.class.as_deref()) == (benchmark, class)
                && (cell.placement.as_deref(), cell.threads) == (placement, threads)
        })
    }

    /// The time on one thread of a cell's benchmark and class.
    fn one_thread(&self, cell: &CellPrediction) -> f64 {
        let fits = |fit: &&BenchmarkFit| (&fit.benchmark, &fit.class) == (&cell.benchmark, &cell.class);
        self.benchmarks.iter().find(fits).map_or(f64::NAN, |fit| fit.one_thread)
    }

    /// The time that a straight line gives for a cell, from the fitted bound cells next to it, both axes being logarithmic.
    fn interpolated(&self, cell: &CellPrediction) -> f64 {
        let seen = self.cells.iter().filter(|seen| {
            seen.role == Role::Fitted
                && seen.placement.as_deref() != Some(UNBOUND)
                && (&seen.benchmark, &seen.class) == (&cell.benchmark, &cell.class)
        });
        let point = |threads: u32, time: f64| (f64::from(threads).ln(), time.ln());
        let mut points: Vec<_> = seen.map(|seen| point(seen.threads, seen.time())).collect();
        points.push(point(1, self.one_thread(cell)));
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let at = f64::from(cell.threads).ln();
        let between = points.windows(2).find(|ends| ends[0].0 <= at && at <= ends[1].0 && ends[0].0 < ends[1].0);
        between.map_or(f64::NAN, |ends| {
            let part = (at - ends[0].0) / (ends[1].0 - ends[0].0);
            (ends[0].1 + part * (ends[1].1 - ends[0].1)).exp()
        })
    }
}

impl CellPrediction {
    /// What is printed as a time, in the unit of [`BenchmarkFit::one_thread`].
    fn time(&self) -> f64 {
        self.quantity.time(self.printed.value)
    }
}

/// A cell, by the fit of its benchmark, among all cells.
fn predict(cell: &Cell, cells: &[Cell], fit: &BenchmarkFit, machine: MachineFit) -> CellPrediction {
    let time = cell.predicted_time(fit, machine);
    let role = if cell.fitted {
        Role::Fitted
    } else if cells.iter().any(|other| other.fitted && other.is_of(fit) && other.seats_as(cell)) {
        Role::Implied
    } else {
        Role::HeldOut
    };
    let misplaced_in = |share| cell.predicted_time(fit, MachineFit { misplaced: Some(share), ..machine });
    let (never, always) = (misplaced_in(0.0), misplaced_in(1.0));
    CellPrediction {
        table: cell.table.name.clone(),
        benchmark: fit.benchmark.clone(),
        class: fit.class.clone(),
        placement: cell.row.placement.clone(),
        threads: cell.threads,
        quantity: cell.row.quantity,
        printed: cell.printed,
        predicted: cell.row.quantity.time(time),
        error: time / cell.time() - 1.0,
        role,
        misplaced_needed: (always > never).then(|| (cell.time() - never) / (always - never)),
    }
}
