//! What disturbed an effect, and what to do about it, in English.

use crate::number::percent;
use stats::{Cause, Disturbance};

/// What a headline says first of an effect that something else may have made: `measured on a busy machine (others used 1.2
/// CPUs)`.
pub(crate) fn on_a_busy_machine(disturbances: &[Disturbance]) -> String {
    format!("measured on a busy machine ({})", causes(disturbances))
}

/// `text`, a sentence about an effect, qualified before and after where something else may have made the effect.
pub(super) fn qualified(text: String, disturbances: &[Disturbance]) -> String {
    if disturbances.is_empty() {
        return text;
    }
    let text = text.strip_suffix('.').unwrap_or(&text);
    format!("{}: {text}; {}.", on_a_busy_machine(disturbances), advice(disturbances))
}

/// Each cause with its size. Times that drift also change, and so do ratios: that is said once.
pub(crate) fn causes(disturbances: &[Disturbance]) -> String {
    let has = |cause: Cause| disturbances.iter().any(|disturbance| disturbance.cause == cause);
    let words = disturbances.iter().filter_map(|Disturbance { cause, relative_change }| {
        let change = percent(*relative_change);
        Some(match *cause {
            Cause::Load { busy_cpus } => format!("others used {busy_cpus:.1} CPUs"),
            Cause::LoadBefore { load_average } => format!("load average {load_average:.1} when it began"),
            Cause::Steal { share } => format!("the hypervisor took {} of CPU time", percent(share)),
            Cause::DriftingTimes => format!("its times drifted by {change}"),
            Cause::ChangingTimes if has(Cause::DriftingTimes) => return None,
            Cause::ChangingTimes => format!("its times were {change} longer for a while"),
            Cause::DriftingRatio => format!("the difference drifted by {change}"),
            Cause::ChangingRatio if has(Cause::DriftingRatio) => return None,
            Cause::ChangingRatio => format!("the difference changed by {change} for a while"),
        })
    });
    words.collect::<Vec<_>>().join(", ")
}

/// What to do so that the effect can be told plainly.
pub(crate) fn advice(disturbances: &[Disturbance]) -> &'static str {
    let has = |is_it: fn(&Cause) -> bool| disturbances.iter().any(|disturbance| is_it(&disturbance.cause));
    let loaded = has(|cause| matches!(cause, Cause::Load { .. } | Cause::LoadBefore { .. }));
    let stolen = has(|cause| matches!(cause, Cause::Steal { .. }));
    match (loaded, stolen) {
        (true, false) => "stop what else runs and study again",
        (true, true) => "stop what else runs, and study again at another time or on another host",
        (false, true) => "study again at another time or on another host",
        (false, false) => {
            "let the machine settle (its temperature, other users, what runs by the clock) and study again with more blocks"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(causes: &[Cause]) -> Vec<Disturbance> {
        causes.iter().map(|&cause| Disturbance { cause, relative_change: 0.63 }).collect()
    }

    #[test]
    fn every_cause_is_said_once_with_its_size() {
        use Cause::*;
        for (causes, words) in [
            (vec![Load { busy_cpus: 1.23 }], "others used 1.2 CPUs"),
            (vec![LoadBefore { load_average: 3.0 }], "load average 3.0 when it began"),
            (vec![Steal { share: 0.052 }], "the hypervisor took 5.2 % of CPU time"),
            (vec![DriftingTimes, ChangingTimes], "its times drifted by 63 %"),
            (
                vec![ChangingTimes, DriftingRatio],
                "its times were 63 % longer for a while, the difference drifted by 63 %",
            ),
            (vec![DriftingRatio, ChangingRatio], "the difference drifted by 63 %"),
            (vec![ChangingRatio], "the difference changed by 63 % for a while"),
        ] {
            assert_eq!(on_a_busy_machine(&found(&causes)), format!("measured on a busy machine ({words})"));
        }
    }

    #[test]
    fn what_to_do_depends_on_the_cause() {
        use Cause::*;
        let advice = |causes: &[Cause]| advice(&found(causes));
        assert_eq!(advice(&[Load { busy_cpus: 1.0 }, DriftingTimes]), "stop what else runs and study again");
        assert_eq!(advice(&[LoadBefore { load_average: 1.0 }]), "stop what else runs and study again");
        assert!(advice(&[Steal { share: 0.1 }, DriftingTimes]).ends_with("another host"));
        assert!(!advice(&[Steal { share: 0.1 }]).contains("stop"));
        assert!(advice(&[Load { busy_cpus: 1.0 }, Steal { share: 0.1 }]).starts_with("stop what else runs, and"));
        assert!(advice(&[DriftingTimes]).contains("settle"));
    }

    #[test]
    fn what_nothing_disturbed_stays_as_it_is() {
        assert_eq!(qualified("it matters.".into(), &[]), "it matters.");
        assert_eq!(
            qualified("it seems to matter.".into(), &found(&[Cause::Load { busy_cpus: 2.0 }])),
            "measured on a busy machine (others used 2.0 CPUs): it seems to matter; stop what else runs and study again."
        );
    }
}
