//! Every class once, in canonical order, one after the other and with its size.
//!
//! A cursor stands on one class of a shape with a given number of threads. It moves as an odometer does: the last part that
//! can go on goes on, the parts after it start again; when no part can, the next split of the threads over the parts is
//! taken. Twins are kept in falling order, so that every multiset comes once; of tuples that symmetries map onto each other
//! only the first in canonical order is stopped at. Small shapes are enumerated once and then read from a table.

use super::shape::{Permutation, ShapeId, Shapes};
use num_bigint::BigUint;
use std::cmp::Ordering;
use std::ops::Range;

/// Shapes with more classes than this are not tabulated.
const MAX_ROWS: usize = 4096;

/// The CPUs of a tabulated shape are the bits of a word.
const MAX_CPUS: usize = 64;

/// A class in a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// Which cells are taken.
    cells: u64,
    /// How many sets of CPUs it stands for: at most C(64, 32).
    cpu_sets: u64,
}

/// By shape, where it is small enough, and by threads, the classes in canonical order.
#[derive(Debug, Default)]
pub(super) struct Tables(Vec<Option<Vec<Vec<Row>>>>);

impl Tables {
    pub(super) fn new(shapes: &Shapes) -> Self {
        let mut tables = Self::default();
        for (id, _) in shapes.iter() {
            let table = tables.tabulate(shapes, id);
            tables.0.push(table);
        }
        tables
    }

    fn tabulate(&self, shapes: &Shapes, id: ShapeId) -> Option<Vec<Vec<Row>>> {
        let cpus = shapes.get(id).cpus;
        if cpus > MAX_CPUS {
            return None;
        }
        let mut left = MAX_ROWS;
        let mut table = Vec::new();
        for threads in 0..=cpus {
            let mut rows = Vec::new();
            let mut cursor = Cursor::first(shapes, self, id, threads);
            loop {
                // One budget for all numbers of threads: a table is whole or isn't made.
                left = left.checked_sub(1)?;
                let mut cells = 0;
                cursor.for_each_taken(shapes, id, 0, &mut |range| {
                    for cell in range {
                        cells |= 1 << cell;
                    }
                });
                let cpu_sets = u64::try_from(cursor.cpu_sets()).ok()?;
                rows.push(Row { cells, cpu_sets });
                if !cursor.advance(shapes, self) {
                    break;
                }
            }
            table.push(rows);
        }
        Some(table)
    }

    fn rows(&self, shapes: &Shapes, id: ShapeId, threads: usize) -> Option<&[Row]> {
        Some(&self.0.get(shapes.position(id))?.as_ref()?[threads])
    }
}

/// One class of a shape with a given number of threads.
#[derive(Clone, Debug)]
pub(super) enum Cursor<'t> {
    /// No thread.
    Empty,
    /// A thread on every CPU.
    Full,
    /// A class in a table, among those with as many threads.
    Tabulated { rows: &'t [Row], at: usize },
    /// Any other.
    Open(Box<Open<'t>>),
}

#[derive(Clone, Debug)]
pub(super) struct Open<'t> {
    shape: ShapeId,
    /// Threads by part.
    split: Vec<usize>,
    parts: Vec<Cursor<'t>>,
    /// The symmetries that keep the split, for a tuple that has several.
    keep_split: Vec<Permutation>,
    /// How many sets of CPUs the class stands for.
    cpu_sets: Product,
}

impl<'t> Cursor<'t> {
    /// The first class with so many threads, at most one for each CPU.
    pub(super) fn first(shapes: &Shapes, tables: &'t Tables, id: ShapeId, threads: usize) -> Self {
        if threads == 0 {
            return Self::Empty;
        }
        if threads == shapes.get(id).cpus {
            return Self::Full;
        }
        if let Some(rows) = tables.rows(shapes, id, threads) {
            return Self::Tabulated { rows, at: 0 };
        }
        let mut split: Vec<usize> = shapes.parts(id).map(|_| 0).collect();
        fill(shapes, id, &mut split, 0, threads);
        let mut open =
            Open { shape: id, split, parts: Vec::new(), keep_split: Vec::new(), cpu_sets: Product::default() };
        open.start_split(shapes, tables);
        Self::Open(Box::new(open))
    }

    /// Goes to the next class; false when there is none, and the cursor is then good for nothing.
    pub(super) fn advance(&mut self, shapes: &Shapes, tables: &'t Tables) -> bool {
        match self {
            Self::Empty | Self::Full => false,
            Self::Tabulated { rows, at } => {
                *at += 1;
                *at < rows.len()
            }
            Self::Open(open) => open.advance(shapes, tables),
        }
    }

    /// The canonical order of two classes of one shape.
    fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            // Rows are in canonical order, so their positions compare as the classes do.
            (Self::Tabulated { at: a, .. }, Self::Tabulated { at: b, .. }) => a.cmp(b),
            (Self::Open(a), Self::Open(b)) => (b.split.cmp(&a.split)).then_with(|| order(&a.parts, &b.parts)),
            // Parts of one shape with as many threads are both empty or both full.
            _ => Ordering::Equal,
        }
    }

    /// How many sets of CPUs the class stands for.
    pub(super) fn cpu_sets(&self) -> BigUint {
        let mut product = Product::default();
        self.multiply_into(&mut product);
        product.into()
    }

    fn multiply_into(&self, product: &mut Product) {
        match self {
            Self::Empty | Self::Full => {}
            Self::Tabulated { rows, at } => product.multiply(rows[*at].cpu_sets.into()),
            Self::Open(open) => product.multiply_all(&open.cpu_sets),
        }
    }

    /// Calls `visit` with the ranges of cells that have threads, the first cell of this shape being `begin`.
    pub(super) fn for_each_taken(
        &self,
        shapes: &Shapes,
        id: ShapeId,
        begin: usize,
        visit: &mut impl FnMut(Range<usize>),
    ) {
        match self {
            Self::Empty => {}
            Self::Full => visit(begin..begin + shapes.get(id).cpus),
            Self::Tabulated { rows, at } => {
                let mut cells = rows[*at].cells;
                while cells != 0 {
                    let first = cells.trailing_zeros();
                    let length = (cells >> first).trailing_ones();
                    let cell = begin + first as usize;
                    visit(cell..cell + length as usize);
                    cells &= u64::MAX.checked_shl(first + length).unwrap_or(0);
                }
            }
            Self::Open(open) => {
                for (part, (shape, cells)) in open.parts.iter().zip(shapes.parts_with_cells(id)) {
                    part.for_each_taken(shapes, shape, begin + cells.start, visit);
                }
            }
        }
    }
}

/// The canonical order of parts that have the same threads.
fn order(a: &[Cursor<'_>], b: &[Cursor<'_>]) -> Ordering {
    a.iter().zip(b).map(|(a, b)| a.order(b)).find(|order| *order != Ordering::Equal).unwrap_or(Ordering::Equal)
}

impl<'t> Open<'t> {
    fn advance(&mut self, shapes: &Shapes, tables: &'t Tables) -> bool {
        loop {
            if !self.advance_parts(shapes, tables) {
                if !self.next_split(shapes) {
                    return false;
                }
                self.start_split(shapes, tables);
                return true;
            }
            // Each orbit is visited once: at the class that no symmetry maps onto an earlier one.
            let is_first = self.keep_split.iter().all(|permutation| {
                let images = permutation.iter().map(|&part| &self.parts[part]);
                let orders = self.parts.iter().zip(images).map(|(own, image)| own.order(image));
                orders.into_iter().find(|order| *order != Ordering::Equal) != Some(Ordering::Greater)
            });
            if is_first {
                self.set_cpu_sets(shapes);
                return true;
            }
        }
    }

    /// The first class with this split.
    fn start_split(&mut self, shapes: &Shapes, tables: &'t Tables) {
        self.parts = shapes
            .parts(self.shape)
            .zip(&self.split)
            .map(|(part, &n)| Cursor::first(shapes, tables, part, n))
            .collect();
        self.keep_split = (shapes.symmetries(self.shape).iter())
            .filter(|permutation| permutation.iter().zip(&self.split).all(|(&part, &n)| self.split[part] == n))
            .cloned()
            .collect();
        self.set_cpu_sets(shapes);
    }

    /// Goes to the next classes of the parts with the same split.
    fn advance_parts(&mut self, shapes: &Shapes, tables: &'t Tables) -> bool {
        let Some(at) = (0..self.parts.len()).rev().find(|&part| self.parts[part].advance(shapes, tables)) else {
            return false;
        };
        let is_twins = shapes.is_twins(self.shape);
        for later in at + 1..self.parts.len() {
            // A twin with as many threads must not come before the one on its left, so it starts where that one is.
            self.parts[later] = if is_twins && self.split[later] == self.split[at] {
                self.parts[at].clone()
            } else {
                Cursor::first(shapes, tables, shapes.part(self.shape, later), self.split[later])
            };
        }
        true
    }

    /// Goes to the next split that no symmetry maps onto an earlier one.
    fn next_split(&mut self, shapes: &Shapes) -> bool {
        loop {
            let mut after = 0;
            let mut room_after = 0;
            let is_twins = shapes.is_twins(self.shape);
            let Some(at) = (0..self.split.len()).rev().find(|&part| {
                let own = self.split[part];
                let room = if is_twins { own.saturating_sub(1) * (self.split.len() - part - 1) } else { room_after };
                // It can give a thread away if those behind it can take it, besides all that they have.
                if own > 0 && room > after {
                    return true;
                }
                after += own;
                room_after += shapes.get(shapes.part(self.shape, part)).cpus;
                false
            }) else {
                return false;
            };
            self.split[at] -= 1;
            fill(shapes, self.shape, &mut self.split, at + 1, after + 1);
            let is_first = shapes.symmetries(self.shape).iter().all(|permutation| {
                let images = permutation.iter().map(|&part| self.split[part]);
                images.le(self.split.iter().copied())
            });
            if is_first {
                return true;
            }
        }
    }

    fn set_cpu_sets(&mut self, shapes: &Shapes) {
        let is_twins = shapes.is_twins(self.shape);
        let mut product = if is_twins {
            arrangements(self.parts.len(), |a, b| {
                self.split[a] == self.split[b] && self.parts[a].order(&self.parts[b]) == Ordering::Equal
            })
        } else {
            // Orbit and stabiliser: a class stands for as many tuples as there are symmetries for each one that keeps it.
            let symmetries = shapes.symmetries(self.shape).len().max(1);
            let keep_all = (self.keep_split.iter())
                .filter(|permutation| {
                    let images = permutation.iter().map(|&part| &self.parts[part]);
                    self.parts.iter().zip(images).all(|(own, image)| own.order(image) == Ordering::Equal)
                })
                .count();
            let mut orbit = Product::default();
            orbit.multiply((symmetries / keep_all.max(1)) as u128);
            orbit
        };
        for part in &self.parts {
            part.multiply_into(&mut product);
        }
        self.cpu_sets = product;
    }
}

/// Gives `threads` to the parts from `begin` on, as many as possible to each in turn.
fn fill(shapes: &Shapes, id: ShapeId, split: &mut [usize], begin: usize, mut threads: usize) {
    let is_twins = shapes.is_twins(id);
    for part in begin..split.len() {
        let mut most = shapes.get(shapes.part(id, part)).cpus;
        // Twins have falling numbers of threads.
        if is_twins && part > 0 {
            most = most.min(split[part - 1]);
        }
        split[part] = most.min(threads);
        threads -= split[part];
    }
}

/// In how many ways `count` twins can be arranged, where equal ones stand side by side: count! / (the product of r! over all
/// runs of r equal ones).
pub(super) fn arrangements(count: usize, equal: impl Fn(usize, usize) -> bool) -> Product {
    // The ways to arrange the first few; each further one has as many places as there are, up to the order within its run.
    let mut product = Product::default();
    let mut run = 0;
    for twin in 0..count {
        run = if twin > 0 && equal(twin - 1, twin) { run + 1 } else { 1 };
        if run <= twin {
            product.multiply(twin as u128 + 1);
        }
        if (2..=twin).contains(&run) {
            product.divide(run);
        }
    }
    product
}

/// A product that is a [`BigUint`] only where it has to be: large times small.
#[derive(Clone, Debug)]
pub(super) struct Product {
    large: Option<BigUint>,
    small: u128,
}

impl Default for Product {
    fn default() -> Self {
        Self { large: None, small: 1 }
    }
}

impl Product {
    fn multiply(&mut self, factor: u128) {
        match self.small.checked_mul(factor) {
            Some(product) => self.small = product,
            None => {
                self.large = Some(self.take_large() * factor);
            }
        }
    }

    fn multiply_all(&mut self, other: &Self) {
        if let Some(factor) = &other.large {
            self.large = Some(match &self.large {
                Some(large) => large * factor,
                None => factor.clone(),
            });
        }
        self.multiply(other.small);
    }

    /// Divides by a number that divides the product.
    fn divide(&mut self, divisor: usize) {
        if self.large.is_none() {
            self.small /= divisor as u128;
        } else {
            self.large = Some(self.take_large() / divisor);
        }
    }

    /// All of it, with nothing left but one.
    fn take_large(&mut self) -> BigUint {
        let small = std::mem::replace(&mut self.small, 1);
        match self.large.take() {
            None => small.into(),
            Some(large) if small == 1 => large,
            Some(large) => large * small,
        }
    }
}

impl From<Product> for BigUint {
    fn from(mut product: Product) -> Self {
        product.take_large()
    }
}
