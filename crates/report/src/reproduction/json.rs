//! Papers beside ours, for programs.

use super::against_kernel;
use super::method::{live, method};
use papers::Reproduction;
use papers::contention::HeldOut;
use papers::reproduction::{AgainstKernel, JudgedClaim, ReproducedFigure, ReproducedTable};
use serde::Serialize;

/// What stands in the file.
#[derive(Serialize)]
struct Contract<'a> {
    papers: Vec<PaperObject<'a>>,
}

#[derive(Serialize)]
struct PaperObject<'a> {
    paper: &'a str,
    citation: &'a str,
    how: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    live: Vec<String>,
    chosen: &'a [(String, String)],
    #[serde(skip_serializing_if = "Option::is_none")]
    held_out: Option<HeldOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    against_kernel: Option<AgainstObject<'a>>,
    tables: &'a [ReproducedTable],
    figures: &'a [ReproducedFigure],
    claims: &'a [JudgedClaim],
}

#[derive(Serialize)]
struct AgainstObject<'a> {
    #[serde(flatten)]
    against: &'a AgainstKernel,
    sentences: Vec<String>,
}

impl<'a> PaperObject<'a> {
    fn new(paper: &'a Reproduction) -> Self {
        let Reproduction { paper: name, citation, chosen, held_out, tables, figures, claims, .. } = paper;
        let (how, live) = (method(paper), live(paper));
        let against = paper.against_kernel.as_ref();
        let against_kernel = against.map(|against| AgainstObject { against, sentences: against_kernel(paper) });
        Self { paper: name, citation, how, live, chosen, held_out: *held_out, against_kernel, tables, figures, claims }
    }
}

/// `papers` as JSON: an object whose `papers` is a list, each with `paper`, `citation`, `how`, `chosen`, `tables`, `figures` and
/// `claims`. A cell is `printed`, `ours` (an object with `value`, `low` and `high`) and `difference`, in the table's unit, or
/// words `printed` and `ours`; a number of a fitted model has a `role` (`fitted`,
/// `implied`, `held-out`) and its paper `held_out`, the model's errors; a claim is `where`, `statement`,
/// `against` (`us` where our numbers judge it, `itself` where the paper's own do), `verdict` (`holds`, `fails`, `undecidable`) and `why`. Where the
/// paper's policies were simulated beside today's kernel's, `against_kernel` has what they change: `kernel` (its release), `machine`,
/// `replicates`, `policies`, each with its `workloads` and their changes of `misses` and `time` in percent, and `sentences`. Where the
/// paper's study was run on this machine, `live` tells how in sentences, a cell has the mean as `live`, and a claim of runs `live`, an object with
/// `verdict` and `why`.
pub fn json(papers: &[Reproduction]) -> String {
    serde_json::to_string_pretty(&Contract { papers: papers.iter().map(PaperObject::new).collect() })
        .expect("text and numbers can be written as JSON")
        + "\n"
}
