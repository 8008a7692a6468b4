//! What was done for a paper's reproduction, in sentences.

use papers::contention::{CellPrediction, Contention, LEFT_OUT, Neighbourhood, Role};
use papers::reproduction::{LiveStudies, LiveStudy, Method, Reproduction};
use std::collections::{BTreeMap, BTreeSet};
use study::Ending;

/// An error of a cell from which the sentences say what the model lacks there: the largest mean error that we allow.
const TELLING_ERROR: f64 = 0.12;

/// Where our numbers come from.
pub(super) fn method(paper: &Reproduction) -> Vec<String> {
    match &paper.method {
        None => Vec::new(),
        Some(Method::Fitted(model)) => fitted(model),
        Some(Method::Simulated { machine, replicates, seed, space_machines, space_replicates }) => vec![
            format!(
                "Simulated on {machine}, {replicates} replicates of each workload and policy, seed {seed}; the same numbers on every run."
            ),
            "One file of choices serves all seven workloads: what the report prints stands in files of their own, and no number stands in both.".into(),
            format!(
                "Jobs of section 5 are task graphs of measured programs, simulated on {}, {space_replicates} replicates of each mix and policy on the first and {replicates} on the others.",
                space_machines.join(", "),
            ),
        ],
    }
}

/// How its studies were run on this machine, and what of them wasn't; none where nobody asked for them.
pub(super) fn live(paper: &Reproduction) -> Vec<String> {
    let Some(LiveStudies { studies, left_out }) = &paper.live else { return Vec::new() };
    let ran = |study: &LiveStudy| {
        let elsewhere = study.elsewhere.as_ref().map_or_else(String::new, |place| format!("{place}, "));
        let on = match &study.cpu_model {
            Some(name) => format!("on {name}, "),
            None if study.elsewhere.is_some() => String::new(),
            None => "on an unnamed CPU, ".into(),
        };
        let ending = match study.ending {
            Some(Ending::Finished) => "",
            Some(Ending::BudgetSpent) => ", whose budget was spent before all was settled",
            None => ", which isn't finished",
        };
        let LiveStudy { subjects, kernel, trials, kept_in, departures, .. } = study;
        let subjects = subjects.join(", ");
        let ran = format!("Live: {subjects} {elsewhere}{on}Linux {kernel}; {trials} trials in the {kept_in}{ending}.");
        [&[ran], &departures[..]].concat()
    };
    studies.iter().flat_map(ran).chain(left_out.iter().cloned()).collect()
}

/// What was fitted on what, how well the rest is predicted, and what is missing where it isn't.
fn fitted(model: &Contention) -> Vec<String> {
    let with = |role| model.cells.iter().filter(move |cell| cell.role == role);
    let mut sentences = vec![format!(
        "A contention model of the paper's machine was fitted on {} of {} printed cells, which a dagger marks: {}.",
        with(Role::Fitted).count(),
        model.cells.len(),
        cells_by_placement(with(Role::Fitted))
    )];
    let slowed = match model.machine.neighbourhood {
        Neighbourhood::SharedUnits => "while a CPU that shares its units is busy",
        Neighbourhood::PackageClock => "while more than half of its package is busy",
    };
    sentences.extend(
        model.machine.slowdown.map(|slowdown| format!("Core work takes {slowdown:.2} times as long {slowed}.")),
    );
    sentences.extend(
        model
            .machine
            .misplaced
            .map(|share| format!("An unbound thread sits on a wrong memory node in {:.1} % of phases.", 100.0 * share)),
    );
    if let Some(held_out) = model.held_out() {
        sentences.push(format!(
            "On the {} cells that it hasn't seen, dividing the time on one thread by the threads would be wrong by {:.1} % and \
             interpolating between the fitted cells by {:.1} %.",
            held_out.cells,
            100.0 * held_out.perfect_scaling_mean_error,
            100.0 * held_out.interpolation_mean_error,
        ));
        if held_out.implied_cells > 0 {
            sentences.push(format!(
                "The other {} follow from fitted ones and test nothing: one thread, or placements alike.",
                held_out.implied_cells
            ));
        }
    }
    let mut missed: Vec<&CellPrediction> =
        with(Role::HeldOut).filter(|cell| cell.error.abs() > TELLING_ERROR).collect();
    missed.sort_by(|a, b| b.error.abs().total_cmp(&a.error.abs()));
    sentences.extend(missed.into_iter().map(missed_cell));
    sentences.push(format!("Left out: {}.", LEFT_OUT.join("; ")));
    sentences
}

/// Which cells these are: `scatter with 1, 8 threads of BT.B, CG.B; unbound with 8 threads of CG.B`.
fn cells_by_placement<'a>(cells: impl Iterator<Item = &'a CellPrediction>) -> String {
    let mut benchmarks: BTreeMap<(&str, u32), BTreeSet<String>> = BTreeMap::new();
    for cell in cells {
        benchmarks.entry((placement(cell), cell.threads)).or_default().insert(name(cell));
    }
    let mut threads: BTreeMap<(&str, BTreeSet<String>), Vec<String>> = BTreeMap::new();
    for ((placement, count), benchmarks) in benchmarks {
        threads.entry((placement, benchmarks)).or_default().push(count.to_string());
    }
    let group = |((placement, benchmarks), threads): ((&str, BTreeSet<String>), Vec<String>)| {
        let benchmarks: Vec<String> = benchmarks.into_iter().collect();
        format!("{placement} with {} threads of {}", threads.join(", "), benchmarks.join(", "))
    };
    threads.into_iter().map(group).collect::<Vec<_>>().join("; ")
}

/// Its placement in words.
fn placement(cell: &CellPrediction) -> &str {
    cell.placement.as_deref().unwrap_or("a placement that isn't named")
}

/// A benchmark with its class: `BT.B`.
fn name(cell: &CellPrediction) -> String {
    let class = cell.class.as_ref().map_or_else(String::new, |class| format!(".{class}"));
    format!("{}{class}", cell.benchmark)
}

/// A cell that the model misses, and what would explain it.
fn missed_cell(cell: &CellPrediction) -> String {
    let missing = match cell.misplaced_needed {
        Some(share) if share > 1.0 => "one misplaced thread throughout isn't enough".to_owned(),
        Some(share) if share > 0.0 => format!("a misplaced thread in {:.0} % of phases would explain it", 100.0 * share),
        Some(_) => "its threads are slowed less than where they are bound".to_owned(),
        None => "between the fitted counts of threads, contention grows in another way than a queue for each node and a constant \
                 for each further thread"
            .to_owned(),
    };
    format!(
        "{} {} with {} threads: {:.*} where {} is printed; {missing}.",
        name(cell),
        placement(cell),
        cell.threads,
        usize::from(cell.printed.decimals),
        cell.predicted,
        cell.printed
    )
}
