//! What replays show, in sentences.

use super::Sentence;
use crate::words::capital;
use simulation::replays::{AgreementVerdict, Disagreement, PolicyPair, QUANTITIES, ReplayVerdict};
use simulation::{Estimated, Kernel};
use stats::Metric;

/// A sentence on each thing that is shown; the first begins with the workload's name.
pub(super) fn sentences(verdict: &ReplayVerdict) -> Vec<Sentence> {
    let Kernel { release, place, .. } = &verdict.kernel;
    let headline = |text: String| Sentence::Headline { subject: verdict.workload.clone(), text };
    if !verdict.any {
        return vec![headline(format!("nothing was replayed to its end in Linux {release} ({place})."))];
    }
    let mut texts: Vec<String> = verdict.agreements.iter().map(agreement).collect();
    if let Some(each) =
        each(&verdict.in_kernel, |[migrations, slice_ms]| format!("{migrations:.1} and {slice_ms:.1} ms"))
    {
        texts.push(format!("migrations a second and median effective slices in Linux {release} ({place}): {each}."));
    }
    if let Some(each) = each(&verdict.misses, |[l2, l3]| format!("{l2:.1} and {l3:.1}")) {
        texts.push(format!("of 1,000 references, L2 and L3 would have missed: {each}."));
    }
    if let Some(least) = &verdict.least_fair {
        texts.push(format!(
            "of equal processes, the one with the least CPU time has at least {:.2} of what the one with the most has (under {}).",
            least.figure, least.policy
        ));
    }
    let mut texts = texts.into_iter();
    let first = texts.next().map(headline);
    first.into_iter().chain(texts.map(|text| Sentence::Whole(capital(&text)))).collect()
}

/// What a metric is called without its unit.
fn name_of(metric: &Metric) -> &'static str {
    let words = QUANTITIES.iter().find(|quantity| quantity.metric == *metric).map_or("", |quantity| quantity.words);
    words.split(',').next().unwrap_or_default()
}

fn agreement(verdict: &AgreementVerdict) -> String {
    let AgreementVerdict { metric, within, beyond, pairs, same_order } = verdict;
    let beyond: Vec<String> = beyond.iter().map(disagreement).collect();
    let agrees = match (within.as_slice(), beyond.as_slice()) {
        (within, []) => format!("agree within 25 % under {}", joined(within)),
        ([], beyond) => format!("agree within 25 % under no policy (kernel over simulator: {})", beyond.join("; ")),
        (within, beyond) => format!(
            "agree within 25 % under {}, not under others (kernel over simulator: {})",
            joined(within),
            beyond.join("; ")
        ),
    };
    let order = match (*pairs, *same_order) {
        (0, _) => "the simulator sets no two policies apart".into(),
        (pairs, same) if pairs == same => "the policies are in the same order".into(),
        (pairs, same) => format!("{same} of {pairs} pairs of policies are in the same order"),
    };
    format!("on {} kernel and simulator {agrees}; {order}.", name_of(metric))
}

/// `light, 1.62 (1.40 to 1.90)`.
fn disagreement(Disagreement { policy, ratio, kernel }: &Disagreement) -> String {
    let Some(Estimated { value, low, high }) = ratio else {
        return format!("{policy}, {kernel:.1} against none in the simulator");
    };
    let interval = low.zip(*high).map(|(low, high)| format!(" ({low:.2} to {high:.2})"));
    format!("{policy}, {value:.2}{}", interval.unwrap_or_default())
}

/// `standard, light and heavy`.
fn joined(policies: &[String]) -> String {
    match policies {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Two figures of each policy; none where no policy has them.
fn each(pairs: &[PolicyPair], words: impl Fn([f64; 2]) -> String) -> Option<String> {
    let each: Vec<String> = pairs.iter().map(|pair| format!("{} {}", pair.policy, words(pair.figures))).collect();
    (!each.is_empty()).then(|| each.join("; "))
}
