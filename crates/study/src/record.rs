//! A whole study as its journal keeps it: all that a report may know.

use crate::engine::CellStudy;
use crate::host::{HostFacts, PastSession};
use crate::kind::Kind;
use crate::redaction::{Redaction, without};
use crate::trial::{More, Trial};
use machine::{CpuId, CpuSet};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Plan, machine, sessions and trials of one study.
#[derive(Clone, Debug, PartialEq)]
pub struct Record<K: Kind> {
    /// The plan, as it was when the study began.
    pub plan: K,
    /// The topology, as the machine crate serialises it.
    pub machine: serde_json::Value,
    /// What the machine is.
    pub host: HostFacts,
    /// When and how the study was worked on.
    pub sessions: Vec<PastSession>,
    /// Every trial, in the order in which they were run.
    pub trials: Vec<K::Trial>,
    /// Trials that were disturbed and run again, likewise: nothing counts them.
    pub disturbed: Vec<K::Trial>,
    /// Why the study ended; none while it is unfinished.
    pub ending: Option<Ending>,
}

impl<K: Kind> Record<K> {
    /// How many CPUs the study may use; 1 where the topology doesn't say.
    pub(crate) fn usable_cpus(&self) -> usize {
        self.machine["usable_cpus"].as_array().map_or(1, Vec::len)
    }

    /// The CPUs that the study may use; none where the topology doesn't say.
    pub(crate) fn usable_cpu_set(&self) -> CpuSet {
        let numbers = self.machine["usable_cpus"].as_array().into_iter().flatten();
        numbers.filter_map(|cpu| Some(CpuId(cpu.as_u64()?.try_into().ok()?))).collect()
    }
}

impl<K: Kind> Record<K> {
    /// This without the values that `redaction` hides in command lines and variables.
    #[must_use]
    pub fn redacted(self, redaction: &Redaction) -> Self {
        let kept =
            |session: PastSession| PastSession { command_line: redaction.words(&session.command_line).0, ..session };
        Self { host: self.host.redacted(redaction), sessions: self.sessions.into_iter().map(kept).collect(), ..self }
    }
}

impl<S: CellStudy> Record<S> {
    /// The same, also in what is run and in the output of programs: for journals that were begun without, or with fewer names.
    #[must_use]
    pub fn redacted_cells(self, redaction: &Redaction) -> Self {
        let mut plan = self.plan.plan().clone();
        let mut values = Vec::new();
        let then: Vec<String> = plan.subjects.iter().map(|subject| subject.name.clone()).collect();
        for subject in &mut plan.subjects {
            let (argv, found) = redaction.words(&subject.argv);
            let name = if subject.name == subject.argv.join(" ") { argv.join(" ") } else { subject.name.clone() };
            subject.name = without(&redaction.text(&name, &mut Vec::new()), &found);
            subject.argv = argv;
            values.extend(found);
        }
        for subject in &mut plan.subjects {
            subject.redact_mix(|text| without(&redaction.text(text, &mut Vec::new()), &values));
        }
        plan.tell_names_apart();
        plan.rename_jobs(&then);
        let names: BTreeMap<&str, &str> =
            self.plan.plan().subjects.iter().zip(&plan.subjects).map(|(then, now)| (&*then.name, &*now.name)).collect();
        let text = |text: &str| redaction.text(&without(text, &values), &mut Vec::new());
        let renamed = |mut more: Box<More>| {
            more.jobs.iter_mut().for_each(|run| run.name = text(&run.name));
            more
        };
        let kept = |trial: Trial| Trial {
            subject: names.get(&*trial.subject).map_or_else(|| text(&trial.subject), ToString::to_string),
            cause: text(&trial.cause),
            output_tail: text(&trial.output_tail),
            more: trial.more.map(renamed),
            ..trial
        };
        let trials = self.trials.into_iter().map(kept).collect();
        let disturbed = self.disturbed.into_iter().map(kept).collect();
        Self { plan: self.plan.with_plan(plan.clone()), trials, disturbed, ..self }.redacted(redaction)
    }
}

/// Why a study ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// Every comparison was settled, or had all the runs that the stop rule allows.
    Finished,
    /// The time budget was spent first.
    BudgetSpent,
}
