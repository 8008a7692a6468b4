//! What disturbed a study or limits what it shows, as values. `report` writes them as sentences.

use crate::host::{LOAD_TO_TELL, STEAL_TO_TELL};
use crate::paper::Paper;
use crate::plan::{StopRule, UNBOUND};
use crate::record::{Ending, Record};
use crate::summary::Summary;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What disturbed a study or limits what it shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "warning", rename_all = "kebab-case")]
pub enum Warning {
    /// The plan departs from what it is after, in a sentence of the plan's own.
    Departure {
        /// The sentence.
        text: String,
    },
    /// This version does not know the paper whose study this is.
    UnknownPaper {
        /// Name of the paper.
        name: String,
    },
    /// Something is left to be done.
    Unfinished {
        /// Of what.
        work: Work,
    },
    /// The time budget was spent before every cell was settled.
    BudgetSpent {
        /// Cells that have runs and aren't settled.
        open: u32,
        /// All cells.
        cells: u32,
    },
    /// The time budget was spent before the race was over.
    RaceBudgetSpent,
    /// Runs of a cell failed.
    Failures {
        /// Name of the subject.
        subject: String,
        /// Thread count.
        threads: u32,
        /// Name of the treatment.
        placement: String,
        /// Runs that failed.
        failed: u32,
        /// Those, and the ones that count.
        of: u32,
    },
    /// Threads were read back on other CPUs than intended.
    Strayed {
        /// In so many trials.
        trials: u32,
    },
    /// Programs left processes behind, which were killed.
    Leftovers {
        /// How many.
        processes: u32,
    },
    /// The times of a cell changed over the study.
    Drift {
        /// Name of the subject.
        subject: String,
        /// Thread count.
        threads: u32,
        /// Name of the treatment.
        placement: String,
        /// By how much (0.02 = 2 % slower at the end).
        relative_change: f64,
    },
    /// There are more threads than CPUs for them.
    MoreThreadsThanCpus {
        /// The most threads of the plan.
        threads: u32,
        /// Usable CPUs.
        cpus: u32,
    },
    /// A model stands for the subject, so that nothing was run.
    Model {
        /// Name of the subject.
        subject: String,
    },
    /// The machine is a virtual one.
    VirtualMachine {
        /// The hypervisor's name.
        hypervisor: String,
    },
    /// The machine was busy when the study began.
    Busy {
        /// The highest load average over a minute.
        load: f64,
    },
    /// The hypervisor took CPU time during the study.
    Steal {
        /// The largest share of it (0.1 = 10 %).
        share: f64,
    },
    /// The control group allows less CPU time than the threads could use.
    CgroupLimit {
        /// So many CPUs' worth.
        cpus: f64,
    },
    /// The clock is not held steady.
    Governors {
        /// The frequency governors in use.
        names: Vec<String>,
    },
    /// The study was interrupted and resumed.
    SeveralSessions {
        /// In how many stretches it was worked on.
        sessions: u32,
    },
    /// What trials noted about themselves.
    Note {
        /// The note.
        text: String,
        /// In so many trials.
        trials: u32,
    },
    /// Unbound was left out.
    UnboundLeftOut {
        /// The treatment that the others are compared with instead.
        reference: String,
    },
    /// Policies are not compared, since the one that others are compared with was not simulated.
    NothingCompared {
        /// That policy.
        reference: String,
    },
    /// Not every process had ended at the horizon, so that the time of the whole isn't known.
    NotEnded {
        /// Name of the subject.
        subject: String,
        /// The policy.
        policy: String,
    },
    /// Replays under a policy failed.
    ReplaysFailed {
        /// The policy.
        policy: String,
        /// Replays that failed.
        failed: u32,
        /// All replays.
        of: u32,
        /// Why the first of them did, in one line.
        cause: Option<String>,
    },
    /// In the simulator another rule stands in for what the kernel's own scheduler does.
    StandIn {
        /// The policy.
        policy: String,
        /// The simulator's policy.
        stand_in: String,
    },
    /// The simulator has nothing like a policy.
    NotSimulated {
        /// The policy.
        policy: String,
    },
    /// What replays noted about themselves.
    ReplayNote {
        /// The note.
        text: String,
    },
}

/// What can be left unfinished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// A study that runs programs.
    Study,
    /// A simulation.
    Simulation,
    /// Replays in a kernel.
    Replay,
}

impl Warning {
    /// The plan's departures.
    pub(crate) fn departures(record: &Record) -> Vec<Self> {
        record.plan.departures.iter().map(|text| Self::Departure { text: text.clone() }).collect()
    }

    /// What limits a comparison or a race.
    pub(crate) fn of_study(record: &Record, summaries: &[Summary]) -> Vec<Self> {
        let plan = &record.plan;
        let is_race = matches!(plan.stop, StopRule::Best { .. });
        let mut warnings = Self::departures(record);
        if let Some(name) = plan.paper.as_ref().filter(|name| Paper::named(name).is_none()) {
            warnings.push(Self::UnknownPaper { name: name.clone() });
        }
        match record.ending {
            None => warnings.push(Self::Unfinished { work: Work::Study }),
            Some(Ending::BudgetSpent) if is_race => warnings.push(Self::RaceBudgetSpent),
            Some(Ending::BudgetSpent) => {
                let open = summaries.iter().filter(|summary| !summary.settled && summary.trials > 0).count();
                warnings.push(Self::BudgetSpent { open: open as u32, cells: summaries.len() as u32 });
            }
            Some(Ending::Finished) => {}
        }
        warnings.extend(summaries.iter().filter(|cell| cell.failed > 0).map(|cell| Self::Failures {
            subject: cell.subject.clone(),
            threads: cell.threads,
            placement: cell.placement.clone(),
            failed: cell.failed,
            of: cell.failed + cell.trials,
        }));
        let observations = || record.trials.iter().filter_map(|trial| trial.observation.as_ref());
        let strayed = observations().filter(|seen| seen.threads.iter().any(|thread| thread.strayed())).count();
        if strayed > 0 {
            warnings.push(Self::Strayed { trials: strayed as u32 });
        }
        let leftovers = observations().map(|seen| seen.leftovers).fold(0, u32::saturating_add);
        if leftovers > 0 {
            warnings.push(Self::Leftovers { processes: leftovers });
        }
        warnings.extend(summaries.iter().filter_map(|cell| {
            Some(Self::Drift {
                subject: cell.subject.clone(),
                threads: cell.threads,
                placement: cell.placement.clone(),
                relative_change: cell.drift?,
            })
        }));
        warnings.extend(Self::of_host(record));
        let mut notes: BTreeMap<&String, u32> = BTreeMap::new();
        observations().flat_map(|seen| &seen.notes).for_each(|note| *notes.entry(note).or_default() += 1);
        warnings.extend(notes.into_iter().map(|(text, trials)| Self::Note { text: text.clone(), trials }));
        let reference = &plan.reference().name;
        if reference != UNBOUND && !is_race {
            warnings.push(Self::UnboundLeftOut { reference: reference.clone() });
        }
        warnings
    }

    /// What the machine did to a study.
    fn of_host(record: &Record) -> Vec<Self> {
        let mut warnings = Vec::new();
        let usable = record.machine["usable_cpus"].as_array().map_or(1, Vec::len);
        let threads = record.plan.threads.iter().copied().max().unwrap_or(1);
        if threads as usize > usable {
            warnings.push(Self::MoreThreadsThanCpus { threads, cpus: usable as u32 });
        }
        if let Some(model) = record.plan.subjects.iter().find(|subject| subject.model.is_some()) {
            warnings.push(Self::Model { subject: model.name.clone() });
            // What the host was doing meanwhile disturbed nothing.
            return warnings;
        }
        let hypervisor = record.host.hypervisor.clone();
        warnings.extend(hypervisor.map(|hypervisor| Self::VirtualMachine { hypervisor }));
        let sessions = || record.sessions.iter();
        let load = sessions().filter_map(|session| Some(session.before.load_average?[0])).fold(0.0, f64::max);
        if load > LOAD_TO_TELL * usable as f64 {
            warnings.push(Self::Busy { load });
        }
        let steal = sessions().filter_map(|session| session.after.as_ref()?.steal_since(&session.before));
        let share = steal.fold(0.0, f64::max);
        if share > STEAL_TO_TELL {
            warnings.push(Self::Steal { share });
        }
        let latest = sessions().next_back().map(|session| &session.before);
        if let Some(cpus) = latest.and_then(|state| state.cgroup_cpu_limit).filter(|cpus| *cpus < f64::from(threads)) {
            warnings.push(Self::CgroupLimit { cpus });
        }
        let governors = latest.map(|state| &state.governors);
        if let Some(names) = governors.filter(|names| names.iter().any(|name| name != "performance")) {
            warnings.push(Self::Governors { names: names.clone() });
        }
        if record.sessions.len() > 1 {
            warnings.push(Self::SeveralSessions { sessions: record.sessions.len() as u32 });
        }
        warnings
    }
}
