//! Who takes part in a race: the placements that are told apart, as treatments of a plan.

mod ranks;

use crate::factors;
use crate::plan::{SamePlacement, Treatment, UNBOUND};
use crate::shape::Shape;
use machine::{Class, Distinct, DistinctError, Machine, PlaceError, Placement, RankError};
use strum::{EnumIter, EnumMessage, EnumString};

/// Which placements race besides those that are named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumIter, EnumMessage, EnumString)]
#[strum(serialize_all = "kebab-case")]
pub enum Among {
    /// Those that differ in what the hardware shares.
    #[default]
    Important,
    /// All distinct ones.
    All,
    /// None.
    Named,
}

/// Why there is no field of placements to race.
#[derive(Debug, thiserror::Error)]
pub enum CandidatesError {
    /// Only named ones race, and none is named.
    #[error("--among named races the placements of --place, and there are none")]
    NoneNamed,
    /// There are too many.
    #[error(
        "there are more than {MOST} placements of {threads} threads here (`stayput place --count -n {threads}`), and each costs a run; race the important ones"
    )]
    TooMany {
        /// With so many threads.
        threads: Shape,
    },
    /// A name is no policy, or its policy makes no placement here.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The same of a name that says where ranks go.
    #[error(transparent)]
    Ranks(#[from] RankError),
    /// Orders of a rank's threads aren't told apart.
    #[error("which thread of a rank has which of its CPUs isn't raced; leave out --ordered")]
    OrderedRanks,
    /// The distinct placements of this machine can't be told.
    #[error(transparent)]
    Distinct(#[from] DistinctError),
}

/// More placements of one thread count than this aren't raced: each costs a run.
const MOST: usize = 10_000;

/// The treatments of a race: unbound, what `named` asks for, and the distinct placements that `among` asks for, in every order of threads that shares differently where
/// they are `ordered`, each at the
/// thread counts at which there is one.
///
/// # Errors
/// [`CandidatesError`].
pub fn treatments(
    among: Among,
    ordered: bool,
    named: &[String],
    threads: &[Shape],
    machine: &Machine,
) -> Result<Vec<Treatment>, CandidatesError> {
    let mut field = Field { treatments: vec![Treatment::unbound()], counts: threads.len() };
    for name in named.iter().filter(|name| *name != UNBOUND) {
        for (column, &count) in threads.iter().enumerate() {
            field.add_named(column, count, name, factors::placed_at(name, count, machine)?);
        }
    }
    if among == Among::Named {
        if field.treatments.len() == 1 {
            return Err(CandidatesError::NoneNamed);
        }
        return Ok(field.treatments);
    }
    let distinct = Distinct::new(machine)?;
    for (column, &count) in threads.iter().enumerate() {
        if let Some(shape) = count.rank_shape() {
            if ordered {
                return Err(CandidatesError::OrderedRanks);
            }
            for placement in ranks::placements(&distinct, among, shape, machine)? {
                field.add(column, placement.policy.clone(), placement.row());
            }
            continue;
        }
        let classes = classes(&distinct, among, ordered, count.total() as usize)?;
        if classes.len() > MOST {
            return Err(CandidatesError::TooMany { threads: count });
        }
        for class in classes {
            let (name, placement) = named_placement(&class, machine)?;
            field.add(column, name, placement);
        }
    }
    Ok(field.treatments)
}

fn classes(distinct: &Distinct, among: Among, ordered: bool, threads: usize) -> Result<Vec<Class>, CandidatesError> {
    Ok(match (among, ordered) {
        (Among::All, false) => distinct.iter(threads)?.take(MOST + 1).collect(),
        (Among::All, true) => distinct.iter_ordered(threads)?.take(MOST + 1).collect(),
        (_, false) => distinct.important(threads)?,
        (_, true) => distinct.important(threads)?.iter().flat_map(|class| distinct.orders(class)).collect(),
    })
}

/// The placement by which a class is raced, and its name: a policy's own where the class has one, so that
/// `stayput run --place NAME` gives the very same, else its CPUs.
fn named_placement(class: &Class, machine: &Machine) -> Result<(String, Placement), CandidatesError> {
    match class.name() {
        Some(policy) => Ok((policy.to_string(), policy.place(machine, class.cpus.len())?)),
        None => {
            let placement = class.placement();
            Ok((placement.policy.clone(), placement))
        }
    }
}

/// Treatments as they are found.
struct Field {
    treatments: Vec<Treatment>,
    /// Thread counts of the plan.
    counts: usize,
}

impl Field {
    /// Adds a placement that was asked for by name; where the very same is there, it keeps the name beside that.
    fn add_named(&mut self, column: usize, threads: Shape, name: &str, placement: Placement) {
        let Some(same) = self.same_placement(column, &placement).map(|same| same.name.clone()) else {
            return self.add(column, name.to_owned(), placement);
        };
        if same != name {
            let at = self.position(name);
            self.treatments[at].same_as.push(SamePlacement { threads, treatment: same });
        }
    }

    /// The treatment that is this placement at the thread count in `column`.
    fn same_placement(&self, column: usize, placement: &Placement) -> Option<&Treatment> {
        let is_same = |other: &&Treatment| {
            other.placements.get(column).and_then(Option::as_ref).is_some_and(|other| other.same_slots(placement))
        };
        self.treatments.iter().find(is_same)
    }

    /// Where the treatment of that name is, made where there is none.
    fn position(&mut self, name: &str) -> usize {
        self.treatments.iter().position(|treatment| treatment.name == name).unwrap_or_else(|| {
            self.treatments.push(Treatment::new(name.to_owned(), vec![None; self.counts]));
            self.treatments.len() - 1
        })
    }

    /// Adds `placement` at the thread count in `column`, unless the very same is there.
    fn add(&mut self, column: usize, name: String, placement: Placement) {
        if self.same_placement(column, &placement).is_none() {
            let at = self.position(&name);
            self.treatments[at].placements[column] = Some(placement);
        }
    }
}
