//! The symmetry of a machine without the machine: how many parts there are in parts, and which of them may change places.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Range;

/// A shape by its place in [`Shapes`]; the shapes of its parts always come before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ShapeId(u32);

/// A level of the machine: the rank of its objects, counted from the PUs outwards.
pub(super) type Rank = usize;

/// `permutation[i]` is the part whose content part `i` takes over.
pub(super) type Permutation = Vec<usize>;

/// What may change places in an object, or in some of its children that belong together. Only usable CPUs count.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Shape {
    pub form: Form,
    /// The level of the object that is composed here; none for a PU, and for parts that are only some of an object's.
    pub level: Option<Rank>,
    /// How many usable CPUs it has.
    pub cpus: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Form {
    /// One usable CPU.
    Cpu,
    /// Parts that may change places in any way.
    Twins { part: ShapeId, count: usize },
    /// Parts that may change places in these ways only: a group, the identity always in it.
    Tuple { parts: Vec<ShapeId>, symmetries: Vec<Permutation>, objects: Vec<Member> },
}

/// What a tuple's parts belong to, where they are not the object's own children but lie deeper.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Member {
    /// A part, by its place in the tuple.
    Part(usize),
    /// An object of this level around several parts.
    Object(Rank, Vec<Member>),
}

impl Member {
    /// Any part of it; permutations move an object as a whole, so one part tells where it goes.
    pub(super) fn a_part(&self) -> usize {
        match self {
            Self::Part(part) => *part,
            Self::Object(_, members) => members[0].a_part(),
        }
    }

    pub(super) fn contains(&self, part: usize) -> bool {
        match self {
            Self::Part(own) => *own == part,
            Self::Object(_, members) => members.iter().any(|member| member.contains(part)),
        }
    }
}

/// All shapes of a machine, each once.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    all: Vec<Shape>,
    ids: BTreeMap<Shape, ShapeId>,
}

impl Shapes {
    pub(super) fn add(&mut self, form: Form, level: Option<Rank>) -> ShapeId {
        let cpus = match &form {
            Form::Cpu => 1,
            Form::Twins { part, count } => self.get(*part).cpus * count,
            Form::Tuple { parts, .. } => parts.iter().map(|&part| self.get(part).cpus).sum(),
        };
        let shape = Shape { form, level, cpus };
        let next = ShapeId(self.all.len() as u32);
        *self.ids.entry(shape).or_insert_with_key(|shape| {
            self.all.push(shape.clone());
            next
        })
    }

    /// The same shape as all that an object of level `level` holds. What is one PU or one object inside stays that.
    pub(super) fn seal(&mut self, id: ShapeId, level: Rank) -> ShapeId {
        match self.get(id) {
            Shape { form: Form::Cpu, .. } | Shape { level: Some(_), .. } => id,
            shape => self.add(shape.form.clone(), Some(level)),
        }
    }

    pub(super) fn get(&self, id: ShapeId) -> &Shape {
        &self.all[id.0 as usize]
    }

    /// The place of a shape in [`Shapes::iter`].
    pub(super) fn position(&self, id: ShapeId) -> usize {
        id.0 as usize
    }

    /// All shapes, parts before what they are parts of.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ShapeId, &Shape)> {
        (0..).map(ShapeId).zip(&self.all)
    }

    /// Whether its parts may change places in any way.
    pub(super) fn is_twins(&self, id: ShapeId) -> bool {
        matches!(self.get(id).form, Form::Twins { .. })
    }

    /// The shape of a part; a CPU has none.
    pub(super) fn part(&self, id: ShapeId, part: usize) -> ShapeId {
        match &self.get(id).form {
            Form::Cpu => id,
            Form::Twins { part, .. } => *part,
            Form::Tuple { parts, .. } => parts[part],
        }
    }

    /// The shapes of the parts, in order.
    pub(super) fn parts(&self, id: ShapeId) -> impl Iterator<Item = ShapeId> {
        let count = match &self.get(id).form {
            Form::Cpu => 0,
            Form::Twins { count, .. } => *count,
            Form::Tuple { parts, .. } => parts.len(),
        };
        (0..count).map(move |part| self.part(id, part))
    }

    /// The parts with the cells that each covers, where every usable CPU of this shape is one cell.
    pub(super) fn parts_with_cells(&self, id: ShapeId) -> impl Iterator<Item = (ShapeId, Range<usize>)> {
        self.parts(id).scan(0, |begin, part| {
            let cells = *begin..*begin + self.get(part).cpus;
            *begin = cells.end;
            Some((part, cells))
        })
    }

    /// The permutations of a tuple's parts; none where the identity is the only one, or where any will do.
    pub(super) fn symmetries(&self, id: ShapeId) -> &[Permutation] {
        match &self.get(id).form {
            Form::Tuple { symmetries, .. } if symmetries.len() > 1 => symmetries,
            _ => &[],
        }
    }

    /// Rearranges `cells`, one for each usable CPU, into the first arrangement by `order` that a symmetry gives.
    ///
    /// `order` compares the cells of two parts of one shape, each arranged already.
    pub(super) fn arrange<T: Copy>(
        &self,
        id: ShapeId,
        cells: &mut [T],
        order: &impl Fn(ShapeId, &[T], &[T]) -> Ordering,
    ) {
        // From the inside out: parts can only be compared once each is in its own first arrangement.
        for (part, range) in self.parts_with_cells(id) {
            self.arrange(part, &mut cells[range], order);
        }
        self.arrange_parts(id, cells, order);
    }

    /// The same where the parts are arranged already.
    pub(super) fn arrange_parts<T: Copy>(
        &self,
        id: ShapeId,
        cells: &mut [T],
        order: &impl Fn(ShapeId, &[T], &[T]) -> Ordering,
    ) {
        match &self.get(id).form {
            Form::Cpu => {}
            Form::Twins { part, .. } => {
                let width = self.get(*part).cpus;
                // Mostly they are sorted already, which costs no memory to find out.
                if !cells.chunks(width).is_sorted_by(|a, b| order(*part, a, b) != Ordering::Greater) {
                    let mut chunks: Vec<Vec<T>> = cells.chunks(width).map(<[T]>::to_vec).collect();
                    chunks.sort_by(|a, b| order(*part, a, b));
                    for (to, from) in cells.chunks_mut(width).zip(chunks) {
                        to.copy_from_slice(&from);
                    }
                }
            }
            Form::Tuple { .. } => {
                // Few symmetries are left here, so each is tried.
                let images = self.symmetries(id).iter().map(|permutation| self.permuted(id, cells, permutation));
                if let Some(first) = images.min_by(|a, b| order(id, a, b)) {
                    cells.copy_from_slice(&first);
                }
            }
        }
    }

    /// The cells of a tuple after a permutation of its parts.
    pub(super) fn permuted<T: Copy>(&self, id: ShapeId, cells: &[T], permutation: &[usize]) -> Vec<T> {
        let ranges: Vec<Range<usize>> = self.parts_with_cells(id).map(|(_, range)| range).collect();
        permutation.iter().flat_map(|&part| &cells[ranges[part].clone()]).copied().collect()
    }

    /// The canonical order of sets of CPUs: more threads first; then by the threads of each part, more in the first part
    /// first; then by what is in the first part, and so on.
    pub(super) fn together_first(&self, id: ShapeId, a: &[bool], b: &[bool]) -> Ordering {
        let threads = |cells: &[bool]| cells.iter().filter(|&&taken| taken).count();
        let by_threads = |cells: Range<usize>| threads(&b[cells.clone()]).cmp(&threads(&a[cells]));
        by_threads(0..a.len())
            .then_with(|| {
                let parts = self.parts_with_cells(id).map(|(_, cells)| by_threads(cells));
                parts.fold(Ordering::Equal, Ordering::then)
            })
            .then_with(|| {
                let mut parts = self.parts_with_cells(id);
                parts
                    .find_map(|(part, cells)| {
                        let order = match self.get(part).form {
                            Form::Cpu => Ordering::Equal,
                            _ => self.together_first(part, &a[cells.clone()], &b[cells]),
                        };
                        (order != Ordering::Equal).then_some(order)
                    })
                    .unwrap_or(Ordering::Equal)
            })
    }
}
