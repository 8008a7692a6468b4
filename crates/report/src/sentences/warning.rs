//! What disturbed a study or limits what it shows, in sentences.

use super::{counted, crowding, reported_time};
use crate::wording;
use crate::words::shape_in_words;
use study::Shape;
use study::Warning;
use study::warning::Work;

/// A warning in one sentence.
pub(super) fn sentence(warning: &Warning) -> String {
    let cell =
        |subject: &str, threads: Shape, placement: &str| format!("{subject}, {}, {placement}", shape_in_words(threads));
    match warning {
        Warning::Departure { text } => text.clone(),
        Warning::Unfinished { work: Work::Study } => {
            "The study is unfinished; the same command goes on with it.".into()
        }
        Warning::BudgetSpent { open, cells } => format!(
            "The time budget was spent before every comparison was settled ({open} of {cells} cells are open); a larger --budget narrows the intervals."
        ),
        Warning::RaceBudgetSpent => {
            "The time budget was spent before the race was over; a larger --budget finishes it.".into()
        }
        Warning::Extended { from_block, threads, treatments, retried } => {
            let counts = threads.iter().map(|shape| shape_in_words(*shape));
            let added: Vec<String> = treatments.iter().cloned().chain(counts).collect();
            let added = (!added.is_empty()).then(|| {
                format!(
                    "Added to the study from block {from_block} on, so that ratios are of the blocks since: {}.",
                    added.join(", ")
                )
            });
            let retried =
                retried.then(|| format!("Cells that had been given up are tried again from block {from_block} on."));
            added.into_iter().chain(retried).collect::<Vec<_>>().join(" ")
        }
        Warning::Failures { subject, threads, placement, failed, of } => format!(
            "{}: {failed} of {} failed; they are listed with their causes and left out of every number.",
            cell(subject, *threads, placement),
            counted(*of, "run")
        ),
        Warning::Disturbed { trials, cause } => format!(
            "{} disturbed and run again, and {} nowhere: {cause}.",
            if *trials == 1 { "1 run was".to_owned() } else { format!("{trials} runs were") },
            if *trials == 1 { "counts" } else { "count" },
        ),
        Warning::Strayed { trials } => format!(
            "In {} a thread was read back on other CPUs than intended; see intended against actual CPUs.",
            counted(*trials, "trial")
        ),
        Warning::Crowded { subject, crowding } => crowding::sentence(subject, crowding),
        Warning::Leftovers { processes } => {
            format!("Programs left processes behind, which were killed: {processes} in all.")
        }
        Warning::Stops { subject, threads, placement, share, stops } => format!(
            "{}: about {:.1} % of the time of a run went to the stops by which its threads are watched and bound ({stops:.0} of them), which counts against what is bound thread by thread; a larger problem, or threads that live longer, lower it.",
            cell(subject, *threads, placement),
            share * 100.0
        ),
        Warning::Drift { subject, threads, placement, metric: None, relative_change } => format!(
            "{}: times drifted by {:+.1} % over the study; pairs of the same block cancel that.",
            cell(subject, *threads, placement),
            relative_change * 100.0
        ),
        Warning::Drift { subject, threads, placement, metric: Some(metric), relative_change } => format!(
            "{}: {metric} got {} by {:.1} % over the study; pairs of the same block cancel that.",
            cell(subject, *threads, placement),
            if *relative_change > 0.0 { "worse" } else { "better" },
            relative_change.abs() * 100.0
        ),
        Warning::Disagreement { subject, threads, placement, metric, other, is_better } => {
            let (metric, other) = (wording::said(metric), wording::said(other));
            let (better, worse) = if *is_better { ("better", "worse") } else { ("worse", "better") };
            format!(
                "{}: by {metric} it is {better} than the reference, and by {other} it is {worse}; which counts is yours to say.",
                cell(subject, *threads, placement)
            )
        }
        Warning::AgainstWallTime { subject, correlation, runs } => reported_time::warning(subject, *correlation, *runs),
        Warning::MoreThreadsThanCpus { threads, cpus } => format!(
            "{} share {}: threads beyond the CPUs wrap around.",
            counted(*threads, "thread"),
            counted(*cpus, "usable CPU")
        ),
        Warning::MoreThreadsThanWork { subject, threads, useful } => format!(
            "{subject} has work for {useful} threads: of {threads}, {} only wait, wherever they are; a larger class has work for more.",
            u64::from(*threads).saturating_sub(*useful)
        ),
        Warning::Model { subject } => format!("{subject} is a model: nothing was run, its times are drawn."),
        Warning::VirtualMachine { hypervisor } => {
            format!("This is a virtual machine ({hypervisor}): its CPUs may share real cores with others, and move.")
        }
        Warning::Busy { load } => format!("The machine was busy when the study began: load average {load:.2}."),
        Warning::Steal { share } => {
            format!("The hypervisor took {:.1} % of CPU time during the study.", share * 100.0)
        }
        Warning::SlowNode { node, slowdown, low, high } => format!(
            "Node {node} is slower than the others: its runs take {slowdown:.2}x as long (95 % interval {low:.2}-{high:.2}). No pair crosses \
             nodes, so that no ratio is changed by that."
        ),
        Warning::NodesDiffer { subject, threads, placement, node, ratio, elsewhere } => format!(
            "On node {node} {placement} has another effect than on the others: {subject} with {} has a ratio of {ratio:.2} there, and of \
             {elsewhere:.2} elsewhere. The ratio over all nodes is of those that Slurm chose.",
            shape_in_words(*threads)
        ),
        Warning::CgroupLimit { cpus } => {
            format!("The control group allows {cpus:.2} CPUs' worth of time: more threads are throttled.")
        }
        Warning::Governors { names } => {
            format!("The clock is not held steady: frequency governor {}.", names.join(", "))
        }
        Warning::SeveralSessions { sessions } => format!("The study was worked on in {sessions} stretches."),
        Warning::Note { text, trials } => format!("{text} ({})", counted(*trials, "trial")),
        Warning::UnboundLeftOut { reference } => format!("Unbound was left out: every ratio is to {reference}."),
        Warning::Unfinished { work: Work::Simulation } => {
            "The simulation is unfinished; the same command goes on with it.".into()
        }
        Warning::NothingCompared { reference } => {
            format!("Nothing is compared: {reference} was not among the policies.")
        }
        Warning::NotEnded { policy, .. } => format!(
            "Under {policy} not every process had ended at the horizon, so its execution time isn't known; misses are compared for the same work."
        ),
        Warning::Unfinished { work: Work::Replay } => {
            "Not everything has been replayed yet; the same command goes on with it.".into()
        }
        Warning::ReplaysFailed { policy, failed, of, first_cause } => {
            let cause = first_cause.as_ref().map_or_else(String::new, |cause| format!(": {cause}"));
            format!("{failed} of {of} replays under {policy} failed{cause}.")
        }
        Warning::StandIn { policy, simulated_by } => format!(
            "Under {policy} the kernel's own scheduler decides; {} in the simulator only stands in for it, and isn't expected to agree.",
            if simulated_by == policy { "what has this name" } else { simulated_by }
        ),
        Warning::NotSimulated { policy } => format!("{policy} is not simulated: nothing there is like it."),
        Warning::ReplayNote { text } => format!("A replay notes: {text}."),
    }
}
