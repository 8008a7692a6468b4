//! Papers beside ours, for programs.

use papers::Reproduction;
use serde::Serialize;

/// What stands in the file.
#[derive(Serialize)]
struct Told<'a> {
    papers: &'a [Reproduction],
}

/// `papers` as JSON: an object whose `papers` is a list, each with `paper`, `citation`, `how`, `chosen`, `tables`, `figures` and
/// `claims`. A cell is `printed`, `ours` (an object with `value`, `low` and `high`) and `difference`, in the table's unit, or
/// words `printed` and `ours`; a number of a fitted model has a `role` (`fitted`,
/// `implied`, `held-out`) and its paper `held_out`, the model's errors; a claim is `where`, `statement`,
/// `against` (`us` where our numbers judge it, `itself` where the paper's own do), `verdict` (`holds`, `fails`, `undecidable`) and `why`. Where the
/// paper's study was run on this machine, `live` tells how in sentences, a cell has the mean as `live`, and a claim of runs `live`, an object with
/// `verdict` and `why`.
pub fn json(papers: &[Reproduction]) -> String {
    serde_json::to_string_pretty(&Told { papers }).expect("text and numbers can be written as JSON") + "\n"
}
