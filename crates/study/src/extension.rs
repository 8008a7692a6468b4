//! How a study grows: what may change of a plan while its study goes on, and from which block on that holds.
//!
//! What only says how long to go on may change at any time, and cells may be added. All else makes another study. What changes holds
//! from a block on in which nothing has run yet, so that every decision stays a function of the plan and of earlier blocks.

use crate::mix::MixPlacement;
use crate::plan::{Cell, Plan, Treatment};
use crate::shape::Shape;
use machine::Placement;
use serde::{Deserialize, Serialize};

/// A change of a plan whose study was under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extension {
    /// The first block that is run by the changed plan.
    pub from_block: u32,
    /// Thread counts that were added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<Shape>,
    /// Names of treatments that were added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub treatments: Vec<String>,
    /// Whether cells that had been given up for their failures are tried again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retried: bool,
}

impl Extension {
    /// A change from `from_block` on that adds nothing: only when it is enough was changed.
    pub(crate) fn from_block(from_block: u32) -> Self {
        Self { from_block, threads: Vec::new(), treatments: Vec::new(), retried: false }
    }

    /// Whether there are cells that it added.
    pub fn adds_cells(&self) -> bool {
        !(self.threads.is_empty() && self.treatments.is_empty())
    }
}

impl Plan {
    /// Whether the plan was changed before `block`, after others had been run.
    pub(crate) fn is_extended_in(&self, block: u32) -> bool {
        self.extensions.iter().any(|extension| extension.from_block <= block)
    }

    /// The first block that is run by the plan as it is now.
    pub(crate) fn first_block(&self) -> u32 {
        self.extensions.iter().map(|extension| extension.from_block).max().unwrap_or(0)
    }

    /// The block from which on failures count: those before it don't keep a cell from being tried again.
    pub(crate) fn retried_from(&self) -> u32 {
        let retries = self.extensions.iter().filter(|extension| extension.retried);
        retries.map(|extension| extension.from_block).max().unwrap_or(0)
    }

    /// This plan, of which the cells that were given up are tried again from `from_block` on.
    #[must_use]
    pub fn retried(&self, from_block: u32) -> Self {
        let mut plan = self.clone();
        plan.extensions.push(Extension { retried: true, ..Extension::from_block(from_block) });
        plan
    }

    /// This plan as it is when `asked` is asked for after other blocks than those from `from_block` on: with that budget and the cells
    /// that it has besides, and what was added; `differences` says how one plan differs from another.
    ///
    /// # Errors
    /// The differences that make `asked` another study.
    pub(crate) fn extended_by(
        &self,
        asked: &Self,
        from_block: u32,
        differences: impl Fn(&Self, &Self) -> Vec<String>,
    ) -> Result<(Self, Extension), Vec<String>> {
        // Where Slurm puts blocks may change; what another kind of site is, is told as a difference.
        let is_on_slurm = self.site.slurm().is_some() && asked.site.slurm().is_some();
        let site = if is_on_slurm { self.site.aligned(&asked.site) } else { self.site.clone() };
        let limited = Self { budget: asked.budget, redact: asked.redact.clone(), site, ..self.clone() };
        let Some((mut plan, extension)) = limited.grown(asked, from_block) else {
            return Err(differences(&limited, asked));
        };
        if extension.adds_cells() {
            plan.departures.clone_from(&asked.departures);
            for (have, want) in plan.subjects.iter_mut().zip(&asked.subjects) {
                if have.model.as_ref().zip(want.model.as_ref()).is_some_and(|(have, want)| want.extends(have)) {
                    have.model.clone_from(&want.model);
                }
            }
        }
        // Threads and treatments are in the order of the study that was begun.
        let (threads, treatments) = (plan.threads.clone(), plan.treatments.clone());
        let differences = differences(&plan, &Self { threads, treatments, ..asked.clone() });
        plan.take_unkept_of(asked);
        if differences.is_empty() { Ok((plan, extension)) } else { Err(differences) }
    }

    /// The first block in which `cell` has its place.
    pub(crate) fn entry_of(&self, cell: Cell) -> u32 {
        let (threads, name) = (self.threads[cell.threads], &self.treatments[cell.treatment].name);
        let adds = |extension: &&Extension| extension.threads.contains(&threads) || extension.treatments.contains(name);
        self.extensions.iter().filter(adds).map(|extension| extension.from_block).max().unwrap_or(0)
    }

    /// This plan with the thread counts and treatments that `asked` has besides, and what was added; none where `asked` lacks some of
    /// this plan's, or has another reference, or puts threads of the same name elsewhere.
    pub(crate) fn grown(&self, asked: &Self, from_block: u32) -> Option<(Self, Extension)> {
        let has = |name: &str| asked.treatments.iter().any(|treatment| treatment.name == name);
        let is_kept = self.threads.iter().all(|count| asked.threads.contains(count))
            && self.treatments.iter().all(|treatment| has(&treatment.name))
            && self.reference().name == asked.reference().name;
        if !is_kept {
            return None;
        }
        let is_new = |treatment: &&Treatment| self.treatment(&treatment.name).is_none();
        let added: Vec<&Treatment> = asked.treatments.iter().filter(is_new).collect();
        let extension = Extension {
            threads: asked.threads.iter().copied().filter(|count| !self.threads.contains(count)).collect(),
            treatments: added.iter().map(|treatment| treatment.name.clone()).collect(),
            ..Extension::from_block(from_block)
        };
        let mut plan = self.clone();
        if !extension.threads.is_empty() {
            plan.threads.clone_from(&asked.threads);
        }
        plan.treatments.extend(added.into_iter().cloned());
        for treatment in &mut plan.treatments {
            let before = self.treatment(&treatment.name);
            let now = asked.treatment(&treatment.name)?;
            let is_other =
                |before: &Treatment| before.is_free() != now.is_free() || before.conditions != now.conditions;
            if before.is_some_and(is_other) {
                return None;
            }
            if now.placements.is_empty() {
                continue;
            }
            treatment.placements.clear();
            treatment.same_as.clear();
            for &threads in &plan.threads {
                let asked_here = asked.unmerged(now, threads);
                let Some(before) = before.filter(|_| self.threads.contains(&threads)) else {
                    treatment.placements.push(asked_here.cloned());
                    continue;
                };
                match (self.unmerged(before, threads), asked_here) {
                    (None, None) => {}
                    (Some(before), Some(now)) if before.same_slots(now) => {}
                    _ => return None,
                }
                treatment.placements.push(self.placement_of(before, threads).cloned());
                treatment.same_as.extend(before.same_as.iter().find(|same| same.threads == threads).cloned());
            }
        }
        for (have, want) in plan.subjects.iter_mut().zip(&asked.subjects) {
            let (Some(have), Some(want)) = (&mut have.mix, &want.mix) else { continue };
            let is_kept = |placement: &MixPlacement| want.placements.contains(placement);
            if !have.placements.iter().all(is_kept) {
                return None;
            }
            have.placements.clone_from(&want.placements);
        }
        // What has run stays as it is.
        plan.merge_same_placements_of(|threads, treatment| {
            extension.threads.contains(&threads) || extension.treatments.iter().any(|added| added == treatment)
        });
        Some((plan, extension))
    }

    fn treatment(&self, name: &str) -> Option<&Treatment> {
        self.treatments.iter().find(|treatment| treatment.name == name)
    }

    fn placement_of<'a>(&self, treatment: &'a Treatment, threads: Shape) -> Option<&'a Placement> {
        let column = self.threads.iter().position(|&count| count == threads)?;
        treatment.placements.get(column)?.as_ref()
    }

    /// The placement of `treatment` with so many threads, also where another is run for it.
    fn unmerged<'a>(&'a self, treatment: &'a Treatment, threads: Shape) -> Option<&'a Placement> {
        let run = treatment.same_placement(threads).and_then(|name| self.treatment(name)).unwrap_or(treatment);
        self.placement_of(run, threads)
    }
}
