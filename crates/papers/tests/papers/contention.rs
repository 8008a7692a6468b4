//! The contention model against the papers: what it may see, and how well it says the rest.

use machine::Machine;
use papers::contention::{CellPrediction, Contention, ContentionError, HeldOut, Role};
use papers::paper::{Paper, Printed, Quantity};
use papers::placement;
use papers::reproduction::ReproducedCell;
use std::path::Path;

fn paper(name: &str) -> &'static Paper {
    Paper::named(name).unwrap()
}

fn model(paper: &Paper) -> Contention {
    Contention::fit(paper, &Machine::named(&paper.machine).unwrap()).unwrap()
}

fn held_out(name: &str) -> HeldOut {
    model(paper(name)).held_out().unwrap()
}

#[test]
fn a_minority_of_the_cells_predicts_the_others_of_pires_2016() {
    let held_out = held_out("pires-2016");
    assert_eq!((held_out.fitted_cells, held_out.implied_cells, held_out.cells), (21, 18, 33));
    assert!(held_out.mean_error <= 0.08, "{held_out:?}");
    assert!(held_out.mean_error < 0.5 * held_out.perfect_scaling_mean_error, "{held_out:?}");
    assert!(held_out.mean_error < 0.5 * held_out.interpolation_mean_error, "{held_out:?}");
}

#[test]
fn a_minority_of_the_cells_predicts_the_others_of_pires_2017() {
    let held_out = held_out("pires-2017");
    assert_eq!((held_out.fitted_cells, held_out.implied_cells, held_out.cells), (42, 10, 88));
    assert!(held_out.mean_error <= 0.12, "{held_out:?}");
    assert!(held_out.mean_error < 0.5 * held_out.perfect_scaling_mean_error, "{held_out:?}");
    assert!(held_out.mean_error < 0.5 * held_out.interpolation_mean_error, "{held_out:?}");
}

#[test]
fn the_speed_up_with_eight_threads_tells_those_with_two_and_four_of_weber_2010() {
    let held_out = held_out("weber-2010");
    assert_eq!((held_out.fitted_cells, held_out.implied_cells, held_out.cells), (1, 0, 2));
    assert!(held_out.largest_error < 0.05, "{held_out:?}");
}

#[test]
fn what_is_held_out_moves_no_parameter() {
    for name in ["pires-2016", "pires-2017"] {
        let model_before = model(paper(name));
        let mut falsified = paper(name).clone();
        for table in &mut falsified.tables {
            for row in table.rows.iter_mut().filter(|row| row.quantity == Quantity::Time) {
                for (&threads, printed) in table.threads.iter().zip(&mut row.printed) {
                    let is_this = |cell: &&CellPrediction| {
                        (&cell.table, &cell.benchmark, &cell.placement, cell.threads)
                            == (&table.name, &row.benchmark, &row.placement, threads)
                    };
                    if model_before.cells.iter().find(is_this).unwrap().role != Role::Fitted {
                        *printed = printed.map(|printed| Printed { value: 3.0 * printed.value, ..printed });
                    }
                }
            }
        }
        let model_after = model(&falsified);
        assert_eq!(model_after.benchmarks, model_before.benchmarks);
        assert_eq!(model_after.machine, model_before.machine);
        assert!(model_after.held_out().unwrap().mean_error > 0.6);
    }
}

#[test]
fn demands_are_found_again_in_times_that_the_model_made() {
    for name in ["pires-2016", "pires-2017"] {
        let before = model(paper(name));
        let mut made = paper(name).clone();
        for table in &mut made.tables {
            for row in table.rows.iter_mut().filter(|row| row.quantity == Quantity::Time) {
                for (&threads, printed) in table.threads.iter().zip(&mut row.printed) {
                    let is_this = |cell: &&CellPrediction| {
                        (&cell.table, &cell.benchmark, &cell.placement, cell.threads)
                            == (&table.name, &row.benchmark, &row.placement, threads)
                    };
                    let value = before.cells.iter().find(is_this).unwrap().predicted;
                    *printed = Some(Printed { value, decimals: 9 });
                }
            }
        }
        let after = model(&made);
        assert!((after.machine.slowdown.unwrap() / before.machine.slowdown.unwrap() - 1.0).abs() < 1e-9);
        assert_eq!(after.machine.misplaced, before.machine.misplaced);
        for (after, before) in after.benchmarks.iter().zip(&before.benchmarks) {
            assert!((after.demand.memory - before.demand.memory).abs() < 1e-9, "{after:?} {before:?}");
            assert!((after.demand.crosstalk - before.demand.crosstalk).abs() < 1e-9, "{after:?} {before:?}");
        }
        assert!(after.held_out().unwrap().largest_error < 1e-9);
    }
}

#[test]
fn no_misplaced_thread_explains_bt_unbound_on_eight_cpus() {
    let model = model(paper("pires-2016"));
    let bt = |cell: &&CellPrediction| {
        (cell.benchmark.as_str(), cell.placement.as_deref(), cell.threads) == ("BT", Some("unbound"), 8)
    };
    let cell = model.cells.iter().find(bt).unwrap();
    assert!(cell.misplaced_needed.unwrap() > 0.95, "{cell:?}");
}

#[test]
fn a_paper_without_a_rule_or_without_a_fitted_cell_is_refused() {
    let machine = Machine::named("xeon-e5620").unwrap();
    let unknown = Paper { name: "somebody-1999", ..paper("pires-2016").clone() };
    let refused = Contention::fit(&unknown, &machine).unwrap_err();
    assert_eq!(refused, ContentionError::NoRule { paper: "somebody-1999".into() });
    let mut without = paper("pires-2016").clone();
    without.tables.truncate(1);
    let refused = Contention::fit(&without, &machine).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "pires-2016 prints no time of BT.B scatter in its column of 1, which the model is fitted on"
    );
}

#[test]
fn every_printed_number_has_the_models_beside_it() {
    for name in Paper::names() {
        let paper = paper(name);
        let tables = placement(paper, None).unwrap().tables;
        assert_eq!(tables.len(), paper.tables.len());
        for (printed, ours) in paper.tables.iter().zip(&tables) {
            for (printed, ours) in printed.rows.iter().zip(&ours.rows) {
                for (&cell, ours) in printed.printed.iter().zip(&ours.cells) {
                    let ReproducedCell::Number { printed, ours, .. } = ours else { panic!("{ours:?}") };
                    assert_eq!(*printed, cell);
                    assert_eq!(ours.is_some(), cell.is_some(), "{name}");
                }
            }
        }
    }
}

#[test]
fn ratios_are_those_of_the_models_times() {
    let tables = placement(paper("pires-2017"), None).unwrap().tables;
    let row = |label: &str| tables[1].rows.iter().find(|row| row.label == label).unwrap();
    let ours = |label: &str| match row(label).cells[5] {
        ReproducedCell::Number { ours, .. } => ours.unwrap().value,
        ReproducedCell::Words { .. } => panic!("{label} has words"),
    };
    let quotient = ours("SP C unbound s") / ours("SP C scatter s");
    assert!((ours("SP C scatter ratio") - quotient).abs() < 1e-12);
    assert!(quotient > 1.0);
}

#[test]
fn the_document_says_what_the_model_gives() {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/design/contention.md");
    let document = std::fs::read_to_string(document).unwrap();
    for name in Paper::names() {
        let held_out = model(paper(name)).held_out().unwrap();
        let errors = [held_out.mean_error, held_out.perfect_scaling_mean_error, held_out.interpolation_mean_error];
        let [model, perfect, interpolated] = errors.map(|error| format!("{:.1} %", 100.0 * error));
        let row = format!("| {name} | {} | {model} | {perfect} | {interpolated} |", held_out.cells);
        assert!(document.contains(&row), "{row}");
    }
}
