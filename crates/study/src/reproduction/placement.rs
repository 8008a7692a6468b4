//! The placement papers: their times beside a contention model's.

use super::contention::ContentionError;
use super::placement_claims::judge;
use super::{Against, Contention, JudgedClaim, Reproduction};
use crate::paper::{Paper, PrintedClaim};
use machine::Machine;

/// Fits a contention model of the paper's machine on some of its printed times, and sets its predictions beside all of them. Claims are
/// judged by what the paper prints and not by the model.
///
/// # Errors
/// [`ContentionError`] when the paper's cells can't be predicted.
pub fn placement(paper: &Paper) -> Result<Reproduction, ContentionError> {
    let machine = Machine::named(&paper.machine).expect("a test reads every paper's machine");
    let model = Contention::of(paper, &machine)?;
    let claim = |claim: &PrintedClaim| {
        let (verdict, why) = judge(&claim.check, paper);
        JudgedClaim {
            place: claim.place.clone(),
            statement: claim.says.clone(),
            against: Against::Itself,
            verdict,
            why,
        }
    };
    Ok(Reproduction {
        paper: paper.name.into(),
        citation: paper.citation.clone(),
        how: model.in_words(),
        chosen: Vec::new(),
        held_out: model.held_out(),
        tables: model.tables(paper),
        figures: Vec::new(),
        claims: paper.claims.iter().map(claim).collect(),
    })
}
