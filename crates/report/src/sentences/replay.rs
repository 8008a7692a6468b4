//! What replays in a kernel show, in sentences.

use super::Sentence;
use crate::words::capital;
use study::play::{
    AgreementVerdict, Disagreement, Fairness, MissFigures, QUANTITIES, ReplayFindings, ReplayVerdict, SchedulingFigures,
};
use study::simulation::Estimated;

/// Whether the simulator agrees, then what each policy does in the kernel.
pub(super) fn sentences(verdict: &ReplayVerdict) -> Vec<Sentence> {
    let ReplayVerdict { workload, release, place, findings } = verdict;
    let kernel = format!("Linux {release} ({place})");
    let texts = match findings {
        None => vec![format!("nothing was played to its end in {kernel}.")],
        Some(ReplayFindings { agreements, scheduling, misses: figures, least_fair }) => {
            let mut texts: Vec<String> = agreements.iter().map(agreement).collect();
            texts.extend(in_the_kernel(&kernel, scheduling));
            texts.extend(misses(figures));
            texts.extend(least_fair.as_ref().map(fairness));
            texts
        }
    };
    let sentence = |(at, text): (usize, String)| match at {
        0 => Sentence::Headline { subject: workload.clone(), text },
        _ => Sentence::Whole(capital(&text)),
    };
    texts.into_iter().enumerate().map(sentence).collect()
}

/// What a metric is called without its unit.
fn words(metric: &str) -> &'static str {
    let words = QUANTITIES.iter().find(|quantity| quantity.metric == metric).map_or("", |quantity| quantity.words);
    words.split(',').next().unwrap_or_default()
}

fn agreement(AgreementVerdict { metric, within, beyond, pairs, same_order }: &AgreementVerdict) -> String {
    let beyond: Vec<String> = beyond.iter().map(disagreement).collect();
    let agrees = match (within.as_slice(), beyond.as_slice()) {
        (within, []) => format!("under {}", all_of(within)),
        ([], beyond) => format!("under no policy (kernel over simulator: {})", beyond.join("; ")),
        (within, beyond) => {
            format!("under {}, not under others (kernel over simulator: {})", all_of(within), beyond.join("; "))
        }
    };
    let order = match (*pairs, *same_order) {
        (0, _) => "the simulator sets no two policies apart".into(),
        (pairs, same) if pairs == same => "the policies are in the same order".into(),
        (pairs, same) => format!("{same} of {pairs} pairs of policies are in the same order"),
    };
    format!("on {} kernel and simulator agree within 25 % {agrees}; {order}.", words(metric))
}

fn disagreement(Disagreement { policy, kernel, ratio }: &Disagreement) -> String {
    match ratio {
        Some(ratio) => format!("{policy}, {}", times_as_much(ratio)),
        None => format!("{policy}, {kernel:.1} against none in the simulator"),
    }
}

/// `1.62 (1.40 to 1.90)`.
fn times_as_much(ratio: &Estimated) -> String {
    let interval = ratio.low.zip(ratio.high).map(|(low, high)| format!(" ({low:.2} to {high:.2})"));
    format!("{:.2}{}", ratio.value, interval.unwrap_or_default())
}

/// `standard, light and heavy`.
fn all_of(policies: &[String]) -> String {
    match policies {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// What each policy does in the kernel; none where no policy has the figures.
fn in_the_kernel(kernel: &str, scheduling: &[SchedulingFigures]) -> Option<String> {
    let each = scheduling.iter().map(|SchedulingFigures { policy, migrations_per_s, effective_slice_median_ms }| {
        format!("{policy} {migrations_per_s:.1} and {effective_slice_median_ms:.1} ms")
    });
    let each = joined(each)?;
    Some(format!("migrations a second and median effective slices in {kernel}: {each}."))
}

/// What each policy misses in the modelled caches; none where no policy has the figures.
fn misses(figures: &[MissFigures]) -> Option<String> {
    let each = figures.iter().map(|MissFigures { policy, l2_per_1000, l3_per_1000 }| {
        format!("{policy} {l2_per_1000:.1} and {l3_per_1000:.1}")
    });
    Some(format!("of 1,000 references, L2 and L3 would have missed: {}.", joined(each)?))
}

fn joined(each: impl Iterator<Item = String>) -> Option<String> {
    let each: Vec<String> = each.collect();
    (!each.is_empty()).then(|| each.join("; "))
}

/// The worst of what processes that are equal get.
fn fairness(Fairness { policy, cpu_time_ratio }: &Fairness) -> String {
    format!(
        "of equal processes, the one with the least CPU time has at least {cpu_time_ratio:.2} of what the one with the most has (under {policy})."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(findings: Option<ReplayFindings>) -> Vec<String> {
        let (workload, release, place) = ("spin:5".into(), "7.3".into(), "here".into());
        let verdict = ReplayVerdict { workload, release, place, findings };
        sentences(&verdict).iter().map(Sentence::to_string).collect()
    }

    fn agreeing(within: &[&str], beyond: Vec<Disagreement>, pairs: u32, same_order: u32) -> String {
        let within = within.iter().map(|policy| (*policy).to_owned()).collect();
        let agreement = AgreementVerdict { metric: "migrations_per_s".into(), within, beyond, pairs, same_order };
        let findings = ReplayFindings {
            agreements: vec![agreement],
            scheduling: Vec::new(),
            misses: Vec::new(),
            least_fair: None,
        };
        told(Some(findings)).remove(0)
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
    fn what_policies_do_in_the_kernel_is_told_of_those_that_have_the_figures() {
        let findings = ReplayFindings {
            agreements: Vec::new(),
            scheduling: vec![SchedulingFigures {
                policy: "standard".into(),
                migrations_per_s: 50.0,
                effective_slice_median_ms: 32.04,
            }],
            misses: vec![
                MissFigures { policy: "standard".into(), l2_per_1000: 316.6, l3_per_1000: 120.9 },
                MissFigures { policy: "light".into(), l2_per_1000: 46.6, l3_per_1000: 2.6 },
            ],
            least_fair: Some(Fairness { policy: "heavy".into(), cpu_time_ratio: 0.876 }),
        };
        assert_eq!(
            told(Some(findings)),
            [
                "spin:5: migrations a second and median effective slices in Linux 7.3 (here): standard 50.0 and 32.0 ms.",
                "Of 1,000 references, L2 and L3 would have missed: standard 316.6 and 120.9; light 46.6 and 2.6.",
                "Of equal processes, the one with the least CPU time has at least 0.88 of what the one with the most has (under heavy).",
            ]
        );
        assert_eq!(told(None), ["spin:5: nothing was played to its end in Linux 7.3 (here)."]);
    }
}
