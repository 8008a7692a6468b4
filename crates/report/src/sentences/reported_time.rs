//! That what a program reports as its time can't be that, or may not be, in English.

use super::{Sentence, counted};
use study::verdict::RefusedVerdict;

/// What to do about it.
const REMEDY: &str = "if it is a rate or a score, leave the time-regex out so that wall time counts";

/// What is said in the place of a verdict.
pub(super) fn refused(RefusedVerdict { subject, correlation, runs }: &RefusedVerdict) -> Sentence {
    let because = because(*correlation, *runs);
    let text = format!(
        "nothing is said: what it reports as its time is lower where its runs take longer, also under one and the same placement \
         ({because}), so it can't be a time; {REMEDY}."
    );
    Sentence::Headline { subject: subject.clone(), text }
}

/// What is said besides a verdict, where only placements say so.
pub(super) fn warning(subject: &str, correlation: f64, runs: u32) -> String {
    let because = because(correlation, runs);
    format!(
        "{subject}: what it reports as its time is lower under placements where its runs take longer ({because}): the part that it \
         times gains what the rest loses; or {REMEDY}."
    )
}

fn because(correlation: f64, runs: u32) -> String {
    format!("rank correlation {correlation:.2} over {}", counted(runs, "run"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_no_time_is_refused_with_what_to_do() {
        let verdict = RefusedVerdict { subject: "./stream".into(), correlation: -0.934, runs: 24 };
        let told = refused(&verdict).to_string();
        assert!(told.starts_with("./stream: nothing is said: "), "{told}");
        assert!(
            told.contains("(rank correlation -0.93 over 24 runs), so it can't be a time; if it is a rate"),
            "{told}"
        );
        assert!(warning("./stream", -0.6, 24).contains("(rank correlation -0.60 over 24 runs)"));
    }
}
