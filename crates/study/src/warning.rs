//! What disturbed a study or limits what it shows, as values. `report` writes them as sentences.

use crate::comparison::Comparison;
use crate::crowding::Crowding;
use crate::host::{LOAD_TO_TELL, STEAL_TO_TELL};
use crate::kind::Kind;
use crate::nodes::NodeSummary;
use crate::plan::{Plan, Subject, UNBOUND};
use crate::race::Race;
use crate::record::{Ending, Record};
use crate::shape::Shape;
use crate::summary::{Claim, Summary};
use crate::trial::Trial;
use launch::Observation;
use launch::observation::STOPS_TO_TELL;
use serde::{Deserialize, Serialize};
use stats::UnpairedRatio;
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
    /// Something is left to be done.
    Unfinished {
        /// Of what.
        work: Work,
    },
    /// The time budget was spent before every cell was settled.
    BudgetSpent {
        /// Cells that aren't settled, without those that only failed.
        open: u32,
        /// All cells.
        cells: u32,
    },
    /// The time budget was spent before the race was over.
    RaceBudgetSpent,
    /// Cells were added, or tried again, while the study was under way.
    Extended {
        /// The first block that counts for them, from 1 and without those that warm up.
        from_block: u32,
        /// Thread counts that were added.
        threads: Vec<Shape>,
        /// Names of treatments that were added.
        treatments: Vec<String>,
        /// Whether cells that had been given up for their failures were tried again.
        retried: bool,
    },
    /// Runs of a cell failed.
    Failures {
        /// Name of the subject.
        subject: String,
        /// Thread count.
        threads: Shape,
        /// Name of the treatment.
        placement: String,
        /// Runs that failed.
        failed: u32,
        /// Those, and the ones that count.
        of: u32,
    },
    /// Runs were disturbed, and run again: those that were disturbed count nowhere.
    Disturbed {
        /// So many.
        trials: u32,
        /// By what the first of them was.
        cause: String,
    },
    /// Threads were read back on other CPUs than intended.
    Strayed {
        /// In so many trials.
        trials: u32,
    },
    /// Busy threads of several processes were put on one CPU while other CPUs were idle.
    Crowded {
        /// Name of the subject.
        subject: String,
        /// Where, and which CPUs.
        #[serde(flatten)]
        crowding: Crowding,
    },
    /// Programs left processes behind, which were killed.
    Leftovers {
        /// The number of processes.
        processes: u32,
    },
    /// Stopping threads to bind them or to learn of them took a share of the time of runs that can be seen.
    Stops {
        /// Name of the subject in whose cell that share is largest.
        subject: String,
        /// Thread count.
        threads: Shape,
        /// Name of the treatment.
        placement: String,
        /// The share (0.02 = 2 %).
        share: f64,
        /// Stops of a run, in the mean.
        stops: f64,
    },
    /// The times of a cell changed over the study.
    Drift {
        /// Name of the subject.
        subject: String,
        /// Thread count.
        threads: Shape,
        /// Name of the treatment.
        placement: String,
        /// What is compared, where it isn't a time.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        metric: Option<String>,
        /// By how much (0.02 = 2 % slower, or worse, at the end).
        relative_change: f64,
    },
    /// By what a cell is compared, and by another metric, the opposite is shown.
    Disagreement {
        /// Name of the subject.
        subject: String,
        /// Thread count.
        threads: Shape,
        /// Name of the treatment.
        placement: String,
        /// What it is compared by.
        metric: String,
        /// What says the opposite.
        other: String,
        /// Whether it is better by what it is compared by.
        is_better: bool,
    },
    /// What a program reports as its time falls where its runs take longer, though not under the same placement.
    AgainstWallTime {
        /// Name of the subject.
        subject: String,
        /// Kendall's rank correlation of what is reported and the time taken, from -1.
        correlation: f64,
        /// Runs that say so.
        runs: u32,
    },
    /// There are more threads than CPUs for them.
    MoreThreadsThanCpus {
        /// The most threads of the plan.
        threads: u32,
        /// Usable CPUs.
        cpus: u32,
    },
    /// A program has no work for so many threads.
    MoreThreadsThanWork {
        /// Name of the subject.
        subject: String,
        /// The most threads of the plan.
        threads: u32,
        /// The most threads that can all find work in the program.
        useful: u64,
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
    /// A node of a cluster is slower than the others.
    SlowNode {
        /// Its name.
        node: String,
        /// Its costs over those of the others (1.1 = 10 % slower), and the interval of that.
        slowdown: f64,
        /// Lower end of its 95 % interval.
        low: f64,
        /// Upper end of its 95 % interval.
        high: f64,
    },
    /// What a treatment changes is another thing on one node than on the others.
    NodesDiffer {
        /// Name of the subject.
        subject: String,
        /// Thread count.
        threads: Shape,
        /// Name of the treatment.
        placement: String,
        /// The node.
        node: String,
        /// The ratio of the reference to the treatment there.
        ratio: f64,
        /// The same elsewhere.
        elsewhere: f64,
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
        /// How many failed.
        failed: u32,
        /// How many there were.
        of: u32,
        /// Why the first of them did, in its first line.
        first_cause: Option<String>,
    },
    /// The kernel's own scheduler has no equal in the simulator.
    StandIn {
        /// The policy.
        policy: String,
        /// What stands in for it in the simulator.
        simulated_by: String,
    },
    /// Nothing in the simulator is like a policy.
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
    /// Replays.
    Replay,
}

impl Warning {
    /// What is wrong with a plan whatever is measured: threads for which programs have no work.
    pub fn of_plan(plan: &Plan) -> Vec<Self> {
        let threads = plan.threads.iter().map(|shape| shape.total()).max().unwrap_or(1);
        let without_work = plan.subjects.iter().filter_map(|subject| {
            let useful = subject.useful_threads.filter(|useful| *useful < u64::from(threads))?;
            Some(Self::MoreThreadsThanWork { subject: subject.name.clone(), threads, useful })
        });
        without_work.collect()
    }

    /// What limits a comparison.
    pub(crate) fn of_comparison(record: &Record<Comparison>, summaries: &[Summary]) -> Vec<Self> {
        let plan = &record.plan.plan;
        let ending = match record.ending {
            Some(Ending::BudgetSpent) => {
                // A cell of which every run failed is given up, and no budget would settle it.
                let open = summaries.iter().filter(|cell| cell.is_open()).count();
                (open > 0).then_some(Self::BudgetSpent { open: open as u32, cells: summaries.len() as u32 })
            }
            _ => None,
        };
        let mut warnings = Self::of_cells(plan, record, ending, summaries);
        let reference = &plan.reference().name;
        let has_unbound = plan.treatments.iter().any(|treatment| treatment.name == UNBOUND);
        if !has_unbound && !plan.compares_commands() {
            warnings.push(Self::UnboundLeftOut { reference: reference.clone() });
        }
        warnings
    }

    /// What limits a race.
    pub(crate) fn of_race(record: &Record<Race>, summaries: &[Summary]) -> Vec<Self> {
        let ending = (record.ending == Some(Ending::BudgetSpent)).then_some(Self::RaceBudgetSpent);
        Self::of_cells(&record.plan.plan, record, ending, summaries)
    }

    /// What limits both: departures, how it ended, failures, what the machine did, and notes.
    fn of_cells<S: Kind<Trial = Trial>>(
        plan: &Plan,
        record: &Record<S>,
        ending: Option<Self>,
        summaries: &[Summary],
    ) -> Vec<Self> {
        let subject_of = |cell: &Summary| plan.subjects.iter().find(|subject| subject.name == cell.subject);
        let metric_of = |cell: &Summary| subject_of(cell).map(|subject| &subject.metric);
        let is_timed = |cell: &Summary| subject_of(cell).is_none_or(Subject::is_timed);
        let departures = plan.departures.iter().map(|text| Self::Departure { text: text.clone() });
        let mut warnings: Vec<Self> = departures.collect();
        let unfinished = record.ending.is_none().then_some(Self::Unfinished { work: Work::Study });
        warnings.extend(unfinished.or(ending));
        let told = plan.extensions.iter().filter(|extension| extension.adds_cells() || extension.retried);
        warnings.extend(told.map(|extension| Self::Extended {
            from_block: (extension.from_block + 1).saturating_sub(plan.warmup_blocks).max(1),
            threads: extension.threads.clone(),
            treatments: extension.treatments.clone(),
            retried: extension.retried,
        }));
        warnings.extend(summaries.iter().filter(|cell| cell.failed > 0).map(|cell| Self::Failures {
            subject: cell.subject.clone(),
            threads: cell.threads,
            placement: cell.placement.clone(),
            failed: cell.failed,
            of: cell.failed + cell.trials,
        }));
        warnings.extend(
            record
                .disturbed
                .first()
                .map(|first| Self::Disturbed { trials: record.disturbed.len() as u32, cause: first.cause.clone() }),
        );
        let observations = || record.trials.iter().filter_map(|trial| trial.observation.as_ref());
        let loads = record.trials.iter().filter_map(|trial| Some(&trial.more.as_ref()?.load.as_ref()?.observation));
        let strayed =
            observations().chain(loads).filter(|seen| seen.threads.iter().any(|thread| thread.strayed())).count();
        if strayed > 0 {
            warnings.push(Self::Strayed { trials: strayed as u32 });
        }
        let usable = record.usable_cpu_set();
        warnings.extend(plan.subjects.iter().enumerate().filter_map(|(position, subject)| {
            let crowding = Crowding::of_subject(plan, &record.trials, position, &usable)?;
            Some(Self::Crowded { subject: subject.name.clone(), crowding })
        }));
        let leftovers = observations().map(|seen| seen.leftovers).fold(0, u32::saturating_add);
        if leftovers > 0 {
            warnings.push(Self::Leftovers { processes: leftovers });
        }
        warnings.extend(Self::of_stops(&record.trials));
        warnings.extend(summaries.iter().filter_map(|cell| {
            Some(Self::Drift {
                subject: cell.subject.clone(),
                threads: cell.threads,
                placement: cell.placement.clone(),
                metric: metric_of(cell).filter(|_| !is_timed(cell)).map(|metric| metric.name.clone()),
                relative_change: cell.drift?,
            })
        }));
        for cell in summaries.iter().filter(|cell| matches!(cell.claim, Claim::Faster | Claim::Slower)) {
            let is_better = cell.claim == Claim::Faster;
            let opposite = if is_better { Claim::Slower } else { Claim::Faster };
            let Some(metric) = metric_of(cell) else { continue };
            warnings.extend(cell.metrics.iter().filter(|other| other.claim == opposite).map(|other| {
                Self::Disagreement {
                    subject: cell.subject.clone(),
                    threads: cell.threads,
                    placement: cell.placement.clone(),
                    metric: metric.name.clone(),
                    other: other.metric.name.clone(),
                    is_better,
                }
            }));
        }
        warnings.extend(Self::of_host(plan, record));
        let mut notes: BTreeMap<&String, u32> = BTreeMap::new();
        observations().flat_map(|seen| &seen.notes).for_each(|note| *notes.entry(note).or_default() += 1);
        warnings.extend(notes.into_iter().map(|(text, trials)| Self::Note { text: text.clone(), trials }));
        warnings
    }

    /// What watching did to the cell that it disturbed most, if that can be seen.
    fn of_stops(trials: &[Trial]) -> Option<Self> {
        let mut cells: BTreeMap<(&str, Shape, &str), Vec<&Observation>> = BTreeMap::new();
        for trial in trials.iter().filter(|trial| !trial.warmup) {
            let seen = trial.observation.as_ref().filter(|seen| seen.stops_s.is_some());
            cells.entry((&trial.subject, trial.threads, &trial.placement)).or_default().extend(seen);
        }
        let share = |seen: &[&Observation]| {
            let stops_s: f64 = seen.iter().filter_map(|seen| seen.stops_s).sum();
            stops_s / seen.iter().map(|seen| seen.wall_s).sum::<f64>()
        };
        let shares = cells.into_iter().map(|(cell, seen)| (cell, share(&seen), seen));
        let ((subject, threads, placement), share, seen) = shares
            .filter(|(_, share, _)| *share > STOPS_TO_TELL)
            .max_by(|(_, one, _), (_, other, _)| one.total_cmp(other))?;
        let stops =
            seen.iter().filter_map(|seen| seen.stops).map(|stops| stops as f64).sum::<f64>() / seen.len() as f64;
        Some(Self::Stops { subject: subject.into(), threads, placement: placement.into(), share, stops })
    }

    /// Nodes that are slow, and those on which an effect is another one.
    pub(crate) fn of_nodes(nodes: &[NodeSummary]) -> Vec<Self> {
        let slow = nodes.iter().filter(|node| node.is_slow()).filter_map(|node| {
            let UnpairedRatio { ratio, low, high } = node.slowdown?;
            Some(Self::SlowNode { node: node.node.clone(), slowdown: ratio, low, high })
        });
        let different = nodes.iter().filter_map(|node| {
            let (effect, _) = node.most_different()?;
            Some(Self::NodesDiffer {
                subject: effect.subject.clone(),
                threads: effect.threads,
                placement: effect.placement.clone(),
                node: node.node.clone(),
                ratio: effect.ratio,
                elsewhere: effect.ratio_elsewhere?,
            })
        });
        slow.chain(different).collect()
    }

    /// What the machine did to a study.
    fn of_host<S: Kind<Trial = Trial>>(plan: &Plan, record: &Record<S>) -> Vec<Self> {
        let mut warnings = Vec::new();
        let usable = record.usable_cpus();
        let threads = plan.threads.iter().map(|shape| shape.total()).max().unwrap_or(1);
        if threads as usize > usable {
            warnings.push(Self::MoreThreadsThanCpus { threads, cpus: usable as u32 });
        }
        warnings.extend(Self::of_plan(plan));
        if let Some(model) = plan.subjects.iter().find(|subject| subject.model.is_some()) {
            warnings.push(Self::Model { subject: model.name.clone() });
            // What the host was doing meanwhile disturbed nothing.
            return warnings;
        }
        let sessions = record.sessions.len() as u32;
        let several = (sessions > 1).then_some(Self::SeveralSessions { sessions });
        if plan.site.is_emulated() {
            // All else disturbs times, which mean nothing in an emulated machine.
            warnings.extend(several);
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
        warnings.extend(several);
        warnings
    }
}
