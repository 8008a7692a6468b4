//! What replays show, in sentences.

use super::Sentence;
use crate::words::{capital, enumerated};
use simulation::replays::{Agreement, Disagreement, MissChange, MissChanges, PolicyPair, QUANTITIES, ReplayVerdict};
use simulation::{Change, Estimated, Kernel};
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
    texts.extend(verdict.miss_changes.as_ref().map(miss_changes));
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

fn agreement(verdict: &Agreement) -> String {
    let Agreement { metric, within, beyond, pairs, same_order } = verdict;
    let beyond: Vec<String> = beyond.iter().map(disagreement).collect();
    let agrees = match (within.as_slice(), beyond.as_slice()) {
        (within, []) => format!("agree within 25 % under {}", enumerated(within)),
        ([], beyond) => format!("agree within 25 % under no policy (kernel over simulator: {})", beyond.join("; ")),
        (within, beyond) => format!(
            "agree within 25 % under {}, not under others (kernel over simulator: {})",
            enumerated(within),
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

/// What each policy changes of misses, and how far the simulator is from that.
fn miss_changes(changes: &MissChanges) -> String {
    let MissChanges { reference, policies, pairs, same_order } = changes;
    let percent = |Change { percent: Estimated { value, low, high }, .. }: &Change| {
        let interval = low.zip(*high).map(|(low, high)| format!(" ({low:+.1} to {high:+.1})"));
        format!("{value:+.1}{}", interval.unwrap_or_default())
    };
    let each = policies.iter().map(|MissChange { policy, counted, simulated }| {
        format!("{policy} {}, simulated {}", percent(counted), percent(simulated))
    });
    let order = match (*pairs, *same_order) {
        (0, _) => "no two policies were counted to differ".into(),
        (pairs, same) => {
            format!("of {pairs} pairs of policies that were counted to differ {same} are simulated in the same order")
        }
    };
    format!(
        "against {reference}, misses of the L2 change by so many percent: {}. The median error is {:.1} points; {order}.",
        each.collect::<Vec<_>>().join("; "),
        changes.median_error_points()
    )
}

/// Two figures of each policy; none where no policy has them.
fn each(pairs: &[PolicyPair], words: impl Fn([f64; 2]) -> String) -> Option<String> {
    let each: Vec<String> = pairs.iter().map(|pair| format!("{} {}", pair.policy, words(pair.figures))).collect();
    (!each.is_empty()).then(|| each.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use simulation::replays::{MIGRATIONS_PER_S, PolicyFigure};

    /// A verdict on replays of which one came to its end, and that shows nothing.
    fn verdict() -> ReplayVerdict {
        ReplayVerdict {
            workload: "spin:5".into(),
            kernel: Kernel { release: "7.3".into(), place: "here".into(), is_scalable: false, max_wait_ms: None },
            any: true,
            agreements: Vec::new(),
            in_kernel: Vec::new(),
            misses: Vec::new(),
            miss_changes: None,
            least_fair: None,
        }
    }

    fn texts(verdict: &ReplayVerdict) -> Vec<String> {
        sentences(verdict).iter().map(Sentence::to_string).collect()
    }

    fn agreeing(within: &[&str], beyond: Vec<Disagreement>, pairs: u32, same_order: u32) -> String {
        let within = within.iter().map(|policy| (*policy).to_owned()).collect();
        let agreement = Agreement { metric: MIGRATIONS_PER_S, within, beyond, pairs, same_order };
        texts(&ReplayVerdict { agreements: vec![agreement], ..verdict() }).remove(0)
    }

    #[test]
    fn an_agreement_names_the_policies_and_what_sets_the_others_apart() {
        let heavy = Disagreement {
            policy: "heavy".into(),
            kernel: 4.0,
            ratio: Some(Estimated { value: 0.42, low: Some(0.4), high: Some(0.45) }),
        };
        let light = Disagreement { policy: "light".into(), kernel: 3.0, ratio: None };
        let start = "spin:5: on migrations kernel and simulator agree within 25 % under";
        assert_eq!(
            agreeing(&["standard", "light"], vec![heavy.clone()], 2, 2),
            format!(
                "{start} standard and light, not under others (kernel over simulator: heavy, 0.42 (0.40 to 0.45)); the policies are in the same order."
            )
        );
        assert_eq!(
            agreeing(&[], vec![light, heavy], 3, 1),
            format!(
                "{start} no policy (kernel over simulator: light, 3.0 against none in the simulator; heavy, 0.42 (0.40 to 0.45)); 1 of 3 pairs of policies are in the same order."
            )
        );
        assert_eq!(
            agreeing(&["a", "b", "c"], Vec::new(), 0, 0),
            format!("{start} a, b and c; the simulator sets no two policies apart.")
        );
    }

    #[test]
    fn what_policies_change_of_misses_is_told_with_its_interval_beside_what_was_simulated() {
        let estimated = |value, interval: Option<(f64, f64)>| Estimated {
            value,
            low: interval.map(|i| i.0),
            high: interval.map(|i| i.1),
        };
        let change = |policy: &str, counted, simulated| MissChange {
            policy: policy.into(),
            counted: Change::from(counted),
            simulated: Change::from(simulated),
        };
        let policies = vec![
            change("light", estimated(-91.25, Some((-93.0, -88.0))), estimated(-80.0, Some((-85.0, -75.0)))),
            change("attached", estimated(2.0, None), estimated(5.0, None)),
        ];
        let changes = MissChanges { reference: "eevdf".into(), policies, pairs: 2, same_order: 1 };
        assert_eq!(
            texts(&ReplayVerdict { miss_changes: Some(changes.clone()), ..verdict() }),
            [
                "spin:5: against eevdf, misses of the L2 change by so many percent: light -91.2 (-93.0 to -88.0), simulated -80.0 (-85.0 to -75.0); \
              attached +2.0, simulated +5.0. The median error is 7.1 points; of 2 pairs of policies that were counted to differ 1 are simulated in the same order."
            ]
        );
        let none = MissChanges { pairs: 0, same_order: 0, ..changes };
        assert!(
            texts(&ReplayVerdict { miss_changes: Some(none), ..verdict() })[0]
                .ends_with("no two policies were counted to differ.")
        );
    }

    #[test]
    fn what_policies_do_in_the_kernel_is_told_of_those_that_have_the_figures() {
        let pair = |policy: &str, figures| PolicyPair { policy: policy.into(), figures };
        let shown = ReplayVerdict {
            in_kernel: vec![pair("standard", [50.0, 32.04])],
            misses: vec![pair("standard", [316.6, 120.9]), pair("light", [46.6, 2.6])],
            least_fair: Some(PolicyFigure { policy: "heavy".into(), figure: 0.876 }),
            ..verdict()
        };
        assert_eq!(
            texts(&shown),
            [
                "spin:5: migrations a second and median effective slices in Linux 7.3 (here): standard 50.0 and 32.0 ms.",
                "Of 1,000 references, L2 and L3 would have missed: standard 316.6 and 120.9; light 46.6 and 2.6.",
                "Of equal processes, the one with the least CPU time has at least 0.88 of what the one with the most has (under heavy).",
            ]
        );
        let nothing = texts(&ReplayVerdict { any: false, ..verdict() });
        assert_eq!(nothing, ["spin:5: nothing was replayed to its end in Linux 7.3 (here)."]);
        assert_eq!(texts(&verdict()), Vec::<String>::new());
    }
}
