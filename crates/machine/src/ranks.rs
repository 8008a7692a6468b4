//! Placements of ranks x threads: the processes of an MPI program, and the threads of each.
//!
//! Ranks are dealt out over the objects of one level of the machine, and each gets a region of its own there; its threads are then placed in
//! that region by a [`Policy`].

use crate::cpu::{CpuId, quoted};
use crate::placement::{MAX_THREADS, PlaceError, Placement};
use crate::policy::{Policy, join};
use crate::tree::{Kind, Machine, ObjectIndex};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use strum::{Display, EnumString, IntoStaticStr, VariantArray};

/// How many ranks, and how many threads each has; written `4x8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct RankShape {
    /// Processes, at least 1.
    pub ranks: usize,
    /// Threads of each, at least 1.
    pub threads: usize,
}

/// Why there is no such placement of ranks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RankError {
    /// The text is not two numbers.
    #[error("`{0}` is no number of ranks x threads: write, for example, 4x8 for 4 ranks of 8 threads each")]
    Shape(String),
    /// More than anybody starts.
    #[error("{0} threads in all are more than {MAX_THREADS}, the most that are placed; ask for fewer ranks or threads")]
    TooMany(RankShape),
    /// The text is no policy of ranks.
    #[error(
        "`{0}` does not say where ranks go: write, for example, ranks=scatter:numa,threads=compact (ranks: compact, scatter or \
         balanced, over {levels}), the CPUs of each rank as in 0,1/2,3, or a policy for all threads in a row",
        levels = RankLevel::names()
    )]
    Policy(String),
    /// The text is no level.
    #[error("`{0}` is no level of a machine: choose one of {levels}", levels = RankLevel::names())]
    Level(String),
    /// A list has CPUs for other ranks.
    #[error("`{list}` has CPUs for {listed}, and {asked} are asked for")]
    Listed {
        /// The list.
        list: String,
        /// What it is for.
        listed: String,
        /// What is asked for.
        asked: RankShape,
    },
    /// The machine has no object of the level with a usable CPU.
    #[error("machine `{machine}` has no {level} with a usable CPU; `stayput topology` shows its levels")]
    NoSuchLevel {
        /// The level.
        level: RankLevel,
        /// The machine.
        machine: String,
    },
    /// The threads can't be placed.
    #[error(transparent)]
    Place(#[from] PlaceError),
}

impl RankShape {
    /// So many ranks of so many threads.
    ///
    /// # Errors
    /// [`RankError::Shape`] where one is 0, [`RankError::TooMany`] for more than [`MAX_THREADS`] in all.
    pub fn new(ranks: usize, threads: usize) -> Result<Self, RankError> {
        let shape = Self { ranks, threads };
        match ranks.checked_mul(threads) {
            Some(0) => Err(RankError::Shape(shape.to_string())),
            Some(total) if total <= MAX_THREADS => Ok(shape),
            _ => Err(RankError::TooMany(shape)),
        }
    }

    /// Threads of all ranks.
    pub fn total(self) -> usize {
        self.ranks * self.threads
    }
}

impl fmt::Display for RankShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.ranks, self.threads)
    }
}

impl From<RankShape> for String {
    fn from(shape: RankShape) -> Self {
        shape.to_string()
    }
}

impl TryFrom<String> for RankShape {
    type Error = RankError;
    fn try_from(text: String) -> Result<Self, RankError> {
        text.parse()
    }
}

impl FromStr for RankShape {
    type Err = RankError;

    fn from_str(text: &str) -> Result<Self, RankError> {
        let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
        let shape = text.trim().split_once('x').and_then(|(ranks, threads)| Some((number(ranks)?, number(threads)?)));
        let (ranks, threads) = shape.ok_or_else(|| RankError::Shape(quoted(text)))?;
        Self::new(ranks, threads).map_err(|error| match error {
            RankError::Shape(_) => RankError::Shape(quoted(text)),
            error => error,
        })
    }
}

/// A level of the machine over which ranks are dealt out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase", parse_err_ty = RankError, parse_err_fn = no_level)]
pub enum RankLevel {
    /// The whole machine: a node of a cluster.
    Node,
    /// A socket.
    Package,
    /// The CPUs near the memory of a NUMA node; where memory hangs off the whole machine, that.
    Numa,
    /// The CPUs that share an L3; where there is none, the package.
    L3,
    /// The CPUs that share an L2.
    L2,
    /// A core.
    Core,
    /// A hardware thread.
    Pu,
}

fn no_level(text: &str) -> RankError {
    RankError::Level(quoted(text))
}

impl RankLevel {
    fn names() -> String {
        Self::VARIANTS.iter().map(<&str>::from).collect::<Vec<_>>().join(", ")
    }

    /// The objects of this level with usable CPUs, in tree order; each CPU in one of them at most.
    fn objects(self, machine: &Machine) -> Vec<ObjectIndex> {
        let of_kind = |kind: Kind| machine.objects().filter(move |(_, object)| object.kind == kind).map(|(i, _)| i);
        let objects: Vec<ObjectIndex> = match self {
            Self::Node => vec![ObjectIndex::MACHINE],
            Self::Package => of_kind(Kind::Package).collect(),
            Self::L3 => of_kind(Kind::Cache(3)).collect(),
            Self::L2 => of_kind(Kind::Cache(2)).collect(),
            Self::Core => of_kind(Kind::Core).collect(),
            Self::Pu => of_kind(Kind::Pu).collect(),
            // Memory without CPUs of its own, such as that of an accelerator, hangs further out: what is further in counts.
            Self::Numa => {
                let nodes = machine.numa_nodes_inside();
                let all = machine.objects().filter(|(_, object)| !object.numa_nodes.is_empty());
                let is_innermost =
                    |index: &ObjectIndex| nodes[index.at()].len() == machine.object(*index).numa_nodes.len();
                all.map(|(index, _)| index).filter(is_innermost).collect()
            }
        };
        objects.into_iter().filter(|&object| usable(machine, object) > 0).collect()
    }
}

/// In which order ranks are dealt out over the objects of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum RankOrder {
    /// One object after the other, each filled: as few as hold the ranks. The ranks in an object lie next to each other.
    Compact,
    /// Each rank in the object with fewest ranks; consecutive ranks are in different ones. Those of an object share it evenly.
    Scatter,
    /// As many in each object as with scatter, with consecutive ranks together.
    Balanced,
}

/// Where the ranks of a program go, and the threads of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RankPolicy {
    /// Ranks by this rule over these objects, and the threads of each by a policy in the region of its rank.
    Levels {
        /// The order of ranks.
        order: RankOrder,
        /// Over what they are dealt out.
        level: RankLevel,
        /// Of the threads of a rank.
        threads: Policy,
    },
    /// All threads of all ranks in a row by a policy: rank `r` has those from `r` times its threads on.
    Row(Policy),
    /// The CPUs of each rank's threads.
    List(Vec<Vec<CpuId>>),
}

impl fmt::Display for RankPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Levels { order, level, threads } => write!(f, "ranks={order}:{level},threads={threads}"),
            Self::Row(policy) => policy.fmt(f),
            Self::List(ranks) => {
                let ranks: Vec<String> = ranks.iter().map(|cpus| join(cpus, ",")).collect();
                f.write_str(&ranks.join("/"))
            }
        }
    }
}

impl FromStr for RankPolicy {
    type Err = RankError;

    fn from_str(text: &str) -> Result<Self, RankError> {
        let name = text.trim();
        let unknown = || RankError::Policy(quoted(text));
        if name.contains('/') {
            let ranks = name.split('/').map(|cpus| crate::cpu::parse_cpu_list(cpus).map_err(PlaceError::from));
            return Ok(Self::List(ranks.collect::<Result<_, _>>()?));
        }
        if !name.contains('=') {
            return Ok(Self::Row(name.parse()?));
        }
        let (mut order, mut level, mut threads) = (RankOrder::Balanced, RankLevel::Node, Policy::Compact);
        for part in name.split(',') {
            match part.split_once('=').ok_or_else(unknown)? {
                ("ranks", rule) => {
                    let (name, over) = rule.split_once(':').unwrap_or((rule, "node"));
                    order = name.parse().map_err(|_| unknown())?;
                    level = over.parse()?;
                }
                ("threads", rule) => {
                    threads = rule.parse().ok().filter(|p| Policy::NAMED.contains(p)).ok_or_else(unknown)?
                }
                _ => return Err(unknown()),
            }
        }
        Ok(Self::Levels { order, level, threads })
    }
}

/// Where each thread of each rank goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankPlacement {
    /// What made it.
    pub policy: String,
    /// The threads of each rank.
    pub ranks: Vec<Placement>,
}

impl RankPlacement {
    /// The threads of all ranks in a row, cut into ranks.
    pub fn of_row(row: &Placement, shape: RankShape) -> Self {
        let ranks = row.slots.chunks(shape.threads);
        let ranks = ranks.map(|slots| Placement { policy: row.policy.clone(), slots: slots.to_vec() }).collect();
        Self { policy: row.policy.clone(), ranks }
    }

    /// All threads in a row, rank by rank.
    pub fn row(&self) -> Placement {
        let slots = self.ranks.iter().flat_map(|rank| rank.slots.iter().cloned()).collect();
        Placement { policy: self.policy.clone(), slots }
    }

    /// How many threads were given CPUs that another one before them has.
    pub fn doubled_up(&self) -> usize {
        self.row().doubled_up()
    }
}

impl fmt::Display for RankPlacement {
    /// The CPUs by thread, with a slash between ranks: `0,1/2,3`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slot = |slot: &crate::CpuSet| slot.only().map_or_else(|| format!("{{{slot}}}"), |cpu| cpu.to_string());
        let of_rank = |rank: &Placement| rank.slots.iter().map(slot).collect::<Vec<_>>().join(",");
        f.write_str(&self.ranks.iter().map(of_rank).collect::<Vec<_>>().join("/"))
    }
}

impl RankPolicy {
    /// Places so many ranks with so many threads. Where there are fewer usable CPUs, CPUs get several threads;
    /// [`RankPlacement::doubled_up`] counts them.
    ///
    /// # Errors
    /// [`RankError`] when there is nowhere to place them, or a list that is for others.
    pub fn place(&self, machine: &Machine, shape: RankShape) -> Result<RankPlacement, RankError> {
        let placement = match self {
            Self::Row(policy) => RankPlacement::of_row(&policy.place(machine, shape.total())?, shape),
            Self::List(ranks) => {
                if ranks.len() != shape.ranks || ranks.iter().any(|cpus| cpus.len() != shape.threads) {
                    let threads: BTreeSet<usize> = ranks.iter().map(Vec::len).collect();
                    let threads = threads.iter().map(usize::to_string).collect::<Vec<_>>().join(" or ");
                    let listed = format!("{} ranks of {threads} threads", ranks.len());
                    return Err(RankError::Listed { list: quoted(&self.to_string()), listed, asked: shape });
                }
                let place = |cpus: &Vec<CpuId>| Policy::List(cpus.clone()).place(machine, shape.threads);
                RankPlacement { policy: self.to_string(), ranks: ranks.iter().map(place).collect::<Result<_, _>>()? }
            }
            Self::Levels { order, level, threads } => by_levels(machine, shape, *order, *level, threads)?,
        };
        Ok(RankPlacement { policy: self.to_string(), ..placement })
    }

    /// `count` ranks in each object of a level, and so many threads each; where no number is given, one for each CPU that the rank
    /// with fewest has.
    ///
    /// # Errors
    /// [`RankError::NoSuchLevel`], and those of [`RankShape::new`].
    pub fn shape_per(
        machine: &Machine,
        level: RankLevel,
        count: usize,
        threads: Option<usize>,
    ) -> Result<RankShape, RankError> {
        let objects = level.objects(machine);
        let fewest = objects.iter().map(|&object| usable(machine, object)).min();
        let fewest = fewest.ok_or_else(|| RankError::NoSuchLevel { level, machine: machine.name().into() })?;
        let threads = threads.unwrap_or_else(|| (fewest / count.max(1)).max(1));
        RankShape::new(objects.len().saturating_mul(count), threads)
    }
}

fn usable(machine: &Machine, object: ObjectIndex) -> usize {
    machine.pus_of(object).iter().filter(|pu| pu.forbidden.is_none()).count()
}

fn by_levels(
    machine: &Machine,
    shape: RankShape,
    order: RankOrder,
    level: RankLevel,
    threads: &Policy,
) -> Result<RankPlacement, RankError> {
    let objects = level.objects(machine);
    if objects.is_empty() {
        return Err(RankError::NoSuchLevel { level, machine: machine.name().into() });
    }
    let room: Vec<usize> = objects.iter().map(|&object| usable(machine, object) / shape.threads).collect();
    let object_of_rank = dealt(&room, shape.ranks, order, &nesting(machine, &objects));
    // The region of each rank in its object, in the order of ranks.
    let mut regions: Vec<Vec<Vec<CpuId>>> = (objects.iter().enumerate())
        .map(|(at, &object)| {
            let ranks = object_of_rank.iter().filter(|&&of| of == at).count();
            let mut regions = Vec::with_capacity(ranks);
            match order {
                RankOrder::Compact => slices(&cpus(machine, object), ranks, shape.threads, false, &mut regions),
                RankOrder::Scatter | RankOrder::Balanced => divide(machine, object, ranks, shape.threads, &mut regions),
            }
            regions.reverse();
            regions
        })
        .collect();
    let ranks = object_of_rank.iter().map(|&at| {
        let region = regions[at].pop().unwrap_or_else(|| cpus(machine, objects[at]));
        let only = machine.with_usable(&region);
        threads.place(&only, shape.threads).map_err(RankError::from)
    });
    Ok(RankPlacement { policy: String::new(), ranks: ranks.collect::<Result<_, _>>()? })
}

/// The object of each rank, by its place among the objects. `room` is how many ranks each can hold with a CPU for each thread.
fn dealt(room: &[usize], ranks: usize, order: RankOrder, nesting: &[Vec<ObjectIndex>]) -> Vec<usize> {
    let mut load = vec![0; room.len()];
    let mut dealt = Vec::with_capacity(ranks);
    for _ in 0..ranks {
        let is_full = |at: &usize| load[*at] >= room[*at];
        // Where every object is full they are filled again, the emptiest first.
        let everywhere = (0..room.len()).all(|at| is_full(&at));
        let candidates = (0..room.len()).filter(|at| everywhere || !is_full(at));
        let next = match order {
            RankOrder::Compact if !everywhere => candidates.min(),
            // By the load of what is around the object, the outermost first, so that packages share ranks before their caches do.
            _ => candidates.min_by_key(|&at| {
                let around = |depth: usize| nesting[at].get(depth).copied();
                let load_around = |depth: usize| -> usize {
                    (0..room.len()).filter(|&o| nesting[o].get(depth).copied() == around(depth)).map(|o| load[o]).sum()
                };
                (0..nesting[at].len()).map(load_around).chain([load[at]]).collect::<Vec<_>>()
            }),
        };
        let at = next.unwrap_or(0);
        load[at] += 1;
        dealt.push(at);
    }
    if order != RankOrder::Scatter {
        dealt.sort_unstable();
    }
    dealt
}

/// What is around each object, the outermost first and the machine aside.
fn nesting(machine: &Machine, objects: &[ObjectIndex]) -> Vec<Vec<ObjectIndex>> {
    let around = |&object: &ObjectIndex| {
        let mut around: Vec<ObjectIndex> = machine.ancestors(object).filter(|&i| i != ObjectIndex::MACHINE).collect();
        around.reverse();
        around
    };
    objects.iter().map(around).collect()
}

/// The usable CPUs of an object in tree order.
fn cpus(machine: &Machine, object: ObjectIndex) -> Vec<CpuId> {
    machine.pus_of(object).iter().filter(|pu| pu.forbidden.is_none()).map(|pu| pu.cpu).collect()
}

/// Divides an object among ranks as evenly as its parts allow: no part is cut while ranks fit into whole parts.
fn divide(machine: &Machine, object: ObjectIndex, ranks: usize, threads: usize, into: &mut Vec<Vec<CpuId>>) {
    let all = cpus(machine, object);
    if ranks <= 1 {
        into.extend(std::iter::repeat_n(all, ranks));
        return;
    }
    let children = &machine.object(object).children;
    let room: Vec<usize> = children.iter().map(|&child| usable(machine, child) / threads).collect();
    if room.iter().sum::<usize>() < ranks {
        // Some rank has to lie across parts.
        slices(&all, ranks, threads, true, into);
        return;
    }
    // Fewer ranks than parts get several parts each; more are dealt out.
    let with_room = children.iter().zip(&room).filter(|(_, room)| **room > 0).count();
    if ranks < with_room && with_room % ranks == 0 && children.len() == with_room {
        for parts in children.chunks(with_room / ranks) {
            into.push(parts.iter().flat_map(|&part| cpus(machine, part)).collect());
        }
        return;
    }
    let nesting = vec![Vec::new(); children.len()];
    let dealt = dealt(&room, ranks, RankOrder::Balanced, &nesting);
    for (at, &child) in children.iter().enumerate() {
        divide(machine, child, dealt.iter().filter(|&&of| of == at).count(), threads, into);
    }
}

/// Consecutive CPUs for each rank: as many as it has threads, or all of them shared out where they are to be dealt `evenly`.
fn slices(all: &[CpuId], ranks: usize, threads: usize, evenly: bool, into: &mut Vec<Vec<CpuId>>) {
    for rank in 0..ranks {
        into.push(if evenly && all.len() >= ranks * threads {
            all[all.len() * rank / ranks..all.len() * (rank + 1) / ranks].to_vec()
        } else {
            all.iter().cycle().skip(rank * threads % all.len()).take(threads).copied().collect()
        });
    }
}
