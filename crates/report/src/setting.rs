//! How a study was done, in words: its machine, and when it was enough.

use crate::number;
use crate::study_view::{Stop, StudyView};
use crate::words::count;
use stats::RaceRule;
use study::{RaceStop, StopRule};

/// When the study is enough, as a sentence.
pub(crate) fn stop_rule(study: &StudyView) -> String {
    let rule = match study.stop {
        Stop::Comparison(StopRule::Paired { min_blocks, max_blocks, .. }) if min_blocks == max_blocks => {
            format!("{}, whatever they show", count(*min_blocks as usize, "block"))
        }
        Stop::Comparison(StopRule::Paired { width, min_blocks, max_blocks }) => format!(
            "Until each ratio's 95 % interval is narrower than {}, with {min_blocks} to {max_blocks} blocks",
            number::percent(*width)
        ),
        Stop::Comparison(StopRule::RelativeSd { relative_sd, min_runs, max_runs }) => format!(
            "Until each cell's relative standard deviation is below {}, with {min_runs} to {max_runs} runs (the papers' rule)",
            number::percent(*relative_sd)
        ),
        Stop::Race(RaceStop { search: RaceRule::Halving { runs }, .. }) => {
            format!("Until the best of each subject is found, with at most {runs} runs")
        }
        Stop::Race(RaceStop { search: RaceRule::Guarantee { epsilon, delta, max_runs }, .. }) => format!(
            "Until, with a probability of {}, what is called best is at most {} slower than the best, with at most {max_runs} runs",
            number::percent(1.0 - delta),
            number::percent(*epsilon)
        ),
    };
    match study.plan.budget {
        Some(budget) => format!("{rule}, or until {} are spent.", number::duration(budget.as_secs_f64())),
        None => format!("{rule}."),
    }
}

/// The machine's CPU and the number of usable ones; where nothing was run, the name of the machine that is modelled.
pub(crate) fn machine(study: &StudyView) -> String {
    let host = study.host;
    let modelled = study.machine.as_ref().filter(|_| study.is_simulated());
    let name = match modelled {
        Some(machine) => machine.name(),
        None if study.is_simulated() => "unknown",
        None => host.cpu_model.as_deref().unwrap_or(&host.architecture),
    };
    let cpus =
        study.machine.as_ref().map_or_else(String::new, |m| format!(", {}", count(m.usable_cpus().len(), "CPU")));
    format!("{name}{cpus}")
}

/// How many trials the cells have that count: `20`, `5 to 10`.
pub(crate) fn trials_a_cell(study: &StudyView) -> String {
    let trials = study.analysis.summaries.iter().map(|summary| summary.trials);
    match (trials.clone().min(), trials.max()) {
        (Some(fewest), Some(most)) if fewest < most => format!("{fewest} to {most}"),
        (Some(trials), _) => trials.to_string(),
        (None, _) => "0".into(),
    }
}

/// The machine and the method in one sentence, for a caption.
pub(crate) fn setting(study: &StudyView) -> String {
    let host = study.host;
    let machine = machine(study);
    let place = if study.is_simulated() {
        format!("Nothing was run: times are drawn from a model on the machine {machine}")
    } else {
        format!("Machine: {machine}, Linux {}", host.kernel)
    };
    let is_busy = |name: &&str| !study.disturbances(name).is_empty();
    let subjects = study.compared().map(|subject| subject.name.as_str());
    let busy = match subjects.filter(is_busy).collect::<Vec<_>>() {
        busy if busy.is_empty() => String::new(),
        busy if busy.len() == study.compared().count() => " Measured on a busy machine.".into(),
        busy => format!(" Measured on a busy machine: {}.", busy.join(", ")),
    };
    format!(
        "{place}. {} trials a cell, interleaved in randomised blocks (seed {}), Stayput {}.{busy}",
        trials_a_cell(study),
        study.plan.seed,
        host.stayput_version
    )
}
