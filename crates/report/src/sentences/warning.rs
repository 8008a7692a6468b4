//! What disturbed a study or limits what it shows, in sentences.

use super::counted;
use study::Warning;
use study::warning::Work;

/// A warning in one sentence.
pub(super) fn sentence(warning: &Warning) -> String {
    let cell = |subject: &str, threads: u32, placement: &str| {
        format!("{subject}, {}, {placement}", counted(threads, "thread"))
    };
    match warning {
        Warning::Departure { text } => text.clone(),
        Warning::UnknownPaper { name } => {
            format!("This version of stayput does not have the tables of `{name}`, whose study this is.")
        }
        Warning::Unfinished { work: Work::Study } => {
            "The study is unfinished; the same command goes on with it.".into()
        }
        Warning::BudgetSpent { open, cells } => format!(
            "The time budget was spent before every comparison was settled ({open} of {cells} cells are open); a larger --budget narrows the intervals."
        ),
        Warning::RaceBudgetSpent => {
            "The time budget was spent before the race was over; a larger --budget finishes it.".into()
        }
        Warning::Failures { subject, threads, placement, failed, of } => format!(
            "{}: {failed} of {} failed; they are listed with their causes and left out of every number.",
            cell(subject, *threads, placement),
            counted(*of, "run")
        ),
        Warning::Strayed { trials } => format!(
            "In {} a thread was read back on other CPUs than intended; see intended against actual CPUs.",
            counted(*trials, "trial")
        ),
        Warning::Leftovers { processes } => {
            format!("Programs left processes behind, which were killed: {processes} in all.")
        }
        Warning::Drift { subject, threads, placement, relative_change } => format!(
            "{}: times drifted by {:+.1} % over the study; pairs of the same block cancel that.",
            cell(subject, *threads, placement),
            relative_change * 100.0
        ),
        Warning::MoreThreadsThanCpus { threads, cpus } => format!(
            "{} share {}: threads beyond the CPUs wrap around.",
            counted(*threads, "thread"),
            counted(*cpus, "usable CPU")
        ),
        Warning::Model { subject } => format!("{subject} is a model: nothing was run, its times are drawn."),
        Warning::VirtualMachine { hypervisor } => {
            format!("This is a virtual machine ({hypervisor}): its CPUs may share real cores with others, and move.")
        }
        Warning::Busy { load } => format!("The machine was busy when the study began: load average {load:.2}."),
        Warning::Steal { share } => {
            format!("The hypervisor took {:.1} % of CPU time during the study.", share * 100.0)
        }
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
            "Not everything has been played yet; the same command goes on with it.".into()
        }
        Warning::ReplaysFailed { policy, failed, of, cause } => {
            let cause = cause.as_ref().map_or_else(String::new, |cause| format!(": {cause}"));
            format!("{failed} of {of} plays under {policy} failed{cause}.")
        }
        Warning::StandIn { policy, stand_in } => {
            let stand_in = if stand_in == policy { "what has this name" } else { stand_in };
            format!(
                "Under {policy} the kernel's own scheduler decides; {stand_in} in the simulator only stands in for it, and isn't expected to agree."
            )
        }
        Warning::NotSimulated { policy } => format!("{policy} is not simulated: nothing there is like it."),
        Warning::ReplayNote { text } => format!("A play tells: {text}."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_warnings_of_a_study_name_cells_and_numbers() {
        let (subject, placement): (String, String) = ("app".into(), "scatter".into());
        for (warning, words) in [
            (
                Warning::BudgetSpent { open: 2, cells: 6 },
                "The time budget was spent before every comparison was settled (2 of 6 cells are open); a larger --budget narrows the intervals.",
            ),
            (
                Warning::RaceBudgetSpent,
                "The time budget was spent before the race was over; a larger --budget finishes it.",
            ),
            (
                Warning::Failures {
                    subject: subject.clone(),
                    threads: 1,
                    placement: placement.clone(),
                    failed: 3,
                    of: 8,
                },
                "app, 1 thread, scatter: 3 of 8 runs failed; they are listed with their causes and left out of every number.",
            ),
            (
                Warning::Drift { subject, threads: 4, placement, relative_change: 0.0213 },
                "app, 4 threads, scatter: times drifted by +2.1 % over the study; pairs of the same block cancel that.",
            ),
            (
                Warning::MoreThreadsThanCpus { threads: 4, cpus: 1 },
                "4 threads share 1 usable CPU: threads beyond the CPUs wrap around.",
            ),
            (Warning::Busy { load: 1.234 }, "The machine was busy when the study began: load average 1.23."),
            (Warning::Steal { share: 0.0213 }, "The hypervisor took 2.1 % of CPU time during the study."),
            (
                Warning::CgroupLimit { cpus: 1.5 },
                "The control group allows 1.50 CPUs' worth of time: more threads are throttled.",
            ),
            (
                Warning::Governors { names: vec!["powersave".into(), "schedutil".into()] },
                "The clock is not held steady: frequency governor powersave, schedutil.",
            ),
            (
                Warning::Note { text: "It exited before it was seen.".into(), trials: 2 },
                "It exited before it was seen. (2 trials)",
            ),
        ] {
            assert_eq!(sentence(&warning), words);
        }
    }

    #[test]
    fn what_is_unfinished_is_called_by_its_name() {
        let unfinished = |work| sentence(&Warning::Unfinished { work });
        assert_eq!(unfinished(Work::Study), "The study is unfinished; the same command goes on with it.");
        assert_eq!(unfinished(Work::Simulation), "The simulation is unfinished; the same command goes on with it.");
        assert_eq!(unfinished(Work::Replay), "Not everything has been played yet; the same command goes on with it.");
    }

    #[test]
    fn failures_notes_and_stand_ins_of_replays_are_told() {
        let stand_in =
            |stand_in: &str| sentence(&Warning::StandIn { policy: "eevdf".into(), stand_in: stand_in.into() });
        assert_eq!(
            stand_in("per-cpu"),
            "Under eevdf the kernel's own scheduler decides; per-cpu in the simulator only stands in for it, and isn't expected to agree."
        );
        assert!(stand_in("eevdf").contains("; what has this name in the simulator only stands in for it"));
        let failed = |cause| sentence(&Warning::ReplaysFailed { policy: "standard".into(), failed: 1, of: 3, cause });
        assert_eq!(failed(Some("exit code 1: no".into())), "1 of 3 plays under standard failed: exit code 1: no.");
        assert_eq!(failed(None), "1 of 3 plays under standard failed.");
        assert_eq!(
            sentence(&Warning::NotSimulated { policy: "eevdf-llc".into() }),
            "eevdf-llc is not simulated: nothing there is like it."
        );
        assert_eq!(
            sentence(&Warning::ReplayNote { text: "3 stays were not recorded".into() }),
            "A play tells: 3 stays were not recorded."
        );
    }
}
