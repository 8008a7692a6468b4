//! The printed cells of a paper, where their threads sit, and which of them the model may see.

use super::law::{Barriers, bound_time, unbound_time};
use super::seating::{Seating, misplaced};
use super::{BenchmarkFit, ContentionError, MachineFit};
use crate::paper::{Paper, Printed, PrintedRow, PrintedTable, Quantity};
use machine::{CpuId, Machine, Policy};
use study::plan::UNBOUND;

/// The program that stays within its cores and waits only at its end.
pub(super) const CORE_ONLY_PROGRAM: &str = "npb:ep";

/// Which printed cells of a paper the model may see.
pub(super) struct Rule {
    pub paper: &'static str,
    /// Placement and threads: of every benchmark and class, one thread, all CPUs, and one count between.
    pub bound: &'static [(Option<&'static str>, u32)],
    /// Programs whose unbound times are seen.
    pub unbound_programs: &'static [&'static str],
    /// With so many threads: one for each FPU, and one for each CPU.
    pub unbound_threads: &'static [u32],
}

pub(super) const RULES: [Rule; 3] = [
    Rule {
        paper: "pires-2016",
        bound: &[(Some("scatter"), 1), (Some("compact"), 4), (Some("scatter"), 8)],
        unbound_programs: &["npb:cg", "npb:ep", "npb:ft"],
        unbound_threads: &[8],
    },
    Rule {
        paper: "pires-2017",
        bound: &[(Some("scatter"), 1), (Some("scatter"), 16), (Some("scatter"), 64)],
        unbound_programs: &["npb:cg", "npb:ep", "npb:ft"],
        unbound_threads: &[32, 64],
    },
    // Three speed-ups are all that is known of it. One tells the share of memory, and the crosstalk stays 0.
    Rule { paper: "weber-2010", bound: &[(None, 8)], unbound_programs: &[], unbound_threads: &[] },
];

/// A printed cell before anything is known of it.
pub(super) struct Cell<'a> {
    pub table: &'a PrintedTable,
    pub row: &'a PrintedRow,
    pub threads: u32,
    pub printed: Printed,
    pub fitted: bool,
    /// Where its threads sit; unbound ones, where the kernel should put them.
    pub seating: Seating,
    /// Where an unbound cell's sit with one of them on a wrong node.
    pub misplaced: Option<Seating>,
    pub barriers: Barriers,
}

impl Cell<'_> {
    /// Its time in the unit of [`BenchmarkFit::one_thread`].
    pub fn time(&self) -> f64 {
        self.row.quantity.time(self.printed.value)
    }

    /// Whether it is of that benchmark and class.
    pub fn is_of(&self, fit: &BenchmarkFit) -> bool {
        self.row.benchmark == fit.benchmark && self.table.class == fit.class
    }

    /// Whether nothing that the model knows differs.
    pub fn seats_as(&self, other: &Self) -> bool {
        (&self.seating, &self.misplaced) == (&other.seating, &other.misplaced)
    }

    /// Its time by the model.
    pub fn predicted_time(&self, fit: &BenchmarkFit, machine: MachineFit) -> f64 {
        let time = |seating| bound_time(seating, fit.demand, machine.slowdown.unwrap_or(1.0));
        let bound = time(&self.seating);
        let time = self.misplaced.as_ref().map_or(bound, |misplaced| {
            unbound_time(bound, time(misplaced), machine.misplaced.unwrap_or(0.0), self.barriers)
        });
        fit.one_thread * time
    }
}

/// The printed times and speed-ups with their seats.
pub(super) fn cells<'a>(paper: &'a Paper, machine: &Machine, rule: &Rule) -> Result<Vec<Cell<'a>>, ContentionError> {
    let mut cells = Vec::new();
    for table in &paper.tables {
        for row in table.rows.iter().filter(|row| row.quantity != Quantity::Ratio) {
            let program = paper.programs.get(&row.benchmark).map(String::as_str);
            let placement = row.placement.as_deref();
            let unbound = placement == Some(UNBOUND);
            for (&threads, printed) in table.threads.iter().zip(&row.printed) {
                let Some(printed) = *printed else { continue };
                let fitted = rule.bound.contains(&(placement, threads))
                    || unbound
                        && rule.unbound_threads.contains(&threads)
                        && program.is_some_and(|program| rule.unbound_programs.contains(&program));
                // Unbound threads are at best spread as scatter does; and a paper that names no placement speaks of its best.
                let cpus = seats(machine, placement.filter(|_| !unbound).unwrap_or("scatter"), threads)?;
                let misplaced = if unbound { misplaced(machine, &cpus) } else { None };
                let core_only = program == Some(CORE_ONLY_PROGRAM);
                cells.push(Cell {
                    table,
                    row,
                    threads,
                    printed,
                    fitted,
                    seating: Seating::new(machine, &cpus),
                    misplaced: misplaced.map(|cpus| Seating::new(machine, &cpus)),
                    barriers: if core_only { Barriers::One } else { Barriers::Many },
                });
            }
        }
    }
    Ok(cells)
}

/// The CPUs of threads that a policy places.
fn seats(machine: &Machine, placement: &str, threads: u32) -> Result<Vec<CpuId>, ContentionError> {
    let placed = placement.parse::<Policy>().and_then(|policy| policy.place(machine, threads as usize));
    let placed = placed.map_err(|cause| ContentionError::Place {
        placement: placement.into(),
        threads,
        machine: machine.name().into(),
        cause,
    })?;
    Ok(placed.slots.iter().filter_map(|slot| slot.first()).collect())
}
