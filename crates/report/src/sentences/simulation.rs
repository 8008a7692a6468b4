//! What a simulation of time sharing shows, in sentences.

use super::Sentence;
use super::change::{fewer, more, range};
use crate::simulation::own_scheduler;
use sim::Release;
use simulation::verdict::{BestChanges, PolicyChanges, PolicyTime};
use simulation::{ChangeAt, Direction, TimeSharingVerdict};

/// A sentence on each policy, or one on all where nothing is compared.
pub(super) fn sentences(verdict: &TimeSharingVerdict) -> Vec<Sentence> {
    let headline = |subject: &str, text: String| Sentence::Headline { subject: subject.to_owned(), text };
    match verdict {
        TimeSharingVerdict::Uncompared { subject, policies } if policies.is_empty() => {
            vec![headline(subject, "no replicate has ended yet.".into())]
        }
        TimeSharingVerdict::Uncompared { subject, policies } => {
            let times: Vec<String> = policies.iter().map(time).collect();
            vec![headline(subject, format!("{}.", times.join("; ")))]
        }
        TimeSharingVerdict::Compared { subject, replicates, kernel, policies } => {
            let doubt = match replicates {
                1 => "one replicate, so without intervals".into(),
                replicates => format!("95 % intervals, {replicates} replicates"),
            };
            let sentence = |(at, changes): (usize, &PolicyChanges)| match at {
                0 => {
                    headline(subject, format!("{}{} {}; {doubt}.", against(*kernel), changes.policy, effects(changes)))
                }
                _ => Sentence::Detail {
                    subject: subject.clone(),
                    text: format!("{} {}.", changes.policy, effects(changes)),
                    is_shown: true,
                },
            };
            policies.iter().enumerate().map(sentence).collect()
        }
        TimeSharingVerdict::Swept { workload, parameter, first, last, kernel, policies } => {
            let span = format!("{}over {parameter} from {first} to {last}", against(*kernel));
            policies.iter().map(|policy| headline(workload, format!("{span}, {}.", over_sweep(policy)))).collect()
        }
    }
}

/// What changes are against, where that is a kernel's own scheduler: `against Linux 7.3's own scheduler, `.
fn against(kernel: Option<Release>) -> String {
    kernel.map_or_else(String::new, |release| format!("against {}, ", own_scheduler(release)))
}

/// How long a policy takes.
fn time(PolicyTime { policy, makespan_ms }: &PolicyTime) -> String {
    match makespan_ms {
        Some(ms) => {
            let decimals = (3.0 - (ms / 1e3).log10().floor()).clamp(0.0, 9.0) as usize;
            format!("{policy} takes {:.decimals$} s", ms / 1e3)
        }
        None => format!("{policy} had not ended at the horizon"),
    }
}

/// What a policy does to misses and time: `removes 36 % of the misses (34 to 38) and saves 6.0 % of the time (5.1 to 6.9)`.
fn effects(PolicyChanges { misses, time, .. }: &PolicyChanges) -> String {
    let misses = misses.as_ref().map(|change| match change.direction {
        Direction::Down => format!("removes {} of the misses", fewer(change)),
        Direction::Up => format!("adds {} to the misses", more(change)),
        Direction::NoneShown => format!("shows no difference in misses {}", range(change)),
    });
    let time = time.as_ref().map(|change| match change.direction {
        Direction::Down => format!("saves {} of the time", fewer(change)),
        Direction::Up => format!("takes {} more time", more(change)),
        Direction::NoneShown => format!("shows no difference in time {}", range(change)),
    });
    match (misses, time) {
        (Some(misses), Some(time)) => format!("{misses} and {time}"),
        (Some(misses), None) => format!("{misses} for the same work, up to the horizon"),
        (None, Some(time)) => format!("{time}, and there are no misses"),
        (None, None) => "shows nothing that could be compared".into(),
    }
}

/// What one policy does over a sweep.
fn over_sweep(BestChanges { policy, misses, time }: &BestChanges) -> String {
    let best = |best: &Option<ChangeAt>, verb: &str, what: &str| match best {
        None => format!("has no {what} to compare"),
        Some(ChangeAt { at, change }) if change.direction == Direction::Down => {
            format!("{verb}s most {what} at {at}: {}", fewer(change))
        }
        Some(ChangeAt { at, change }) => {
            format!("is not shown to {verb} {what} anywhere, at best {} at {at}", range(change))
        }
    };
    format!("{policy} {}, and {}", best(misses, "remove", "misses"), best(time, "save", "time"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use simulation::{Change, Estimated};

    fn change(value: f64, half_width: f64) -> Option<Change> {
        Some(Change::from(Estimated { value, low: Some(value - half_width), high: Some(value + half_width) }))
    }

    fn changes(policy: &str, misses: Option<Change>, time: Option<Change>) -> PolicyChanges {
        PolicyChanges { policy: policy.into(), misses, time }
    }

    fn told(verdict: &TimeSharingVerdict) -> Vec<String> {
        sentences(verdict).iter().map(Sentence::to_string).collect()
    }

    #[test]
    fn policies_are_told_by_what_they_change() {
        let policies = vec![
            changes("light", change(-36.0, 2.0), change(-6.0, 0.9)),
            changes("heavy", change(3.0, 0.1), change(0.2, 0.3)),
            changes("attached", change(0.01, 0.01), None),
            changes("graded", None, change(12.0, 0.5)),
            changes("affinity", None, None),
        ];
        let verdict = |replicates| TimeSharingVerdict::Compared {
            subject: "W".into(),
            replicates,
            kernel: None,
            policies: policies.clone(),
        };
        assert_eq!(
            told(&verdict(6)),
            [
                "W: light removes 36 % (34 to 38) of the misses and saves 6.0 % (5.1 to 6.9) of the time; 95 % intervals, 6 replicates.",
                "W, heavy adds 3.0 % (2.9 to 3.1) to the misses and shows no difference in time (-0.1 to +0.5 %).",
                "W, attached shows no difference in misses (0.0 %) for the same work, up to the horizon.",
                "W, graded takes 12.0 % (11.5 to 12.5) more time, and there are no misses.",
                "W, affinity shows nothing that could be compared.",
            ]
        );
        assert!(told(&verdict(1))[0].ends_with("; one replicate, so without intervals."));
    }

    #[test]
    fn changes_against_a_kernels_own_scheduler_say_whose() {
        let policies = vec![changes("standard", change(2.0, 0.1), change(0.2, 0.3))];
        let (kernel, subject) = (Some(Release::Linux6_12), "W".to_owned());
        assert_eq!(
            told(&TimeSharingVerdict::Compared { subject, replicates: 6, kernel, policies }),
            [
                "W: against Linux 6.12's own scheduler, standard adds 2.0 % (1.9 to 2.1) to the misses and shows no difference in time (-0.1 to +0.5 %); 95 % intervals, 6 replicates."
            ]
        );
        let (workload, parameter) = ("W".to_owned(), "phi".to_owned());
        let policies = vec![BestChanges { policy: "light".into(), misses: None, time: None }];
        assert_eq!(
            told(&TimeSharingVerdict::Swept { workload, parameter, first: 0.0, last: 2.0, kernel, policies }),
            [
                "W: against Linux 6.12's own scheduler, over phi from 0 to 2, light has no misses to compare, and has no time to compare."
            ]
        );
    }

    #[test]
    fn without_a_reference_times_are_told() {
        let time = |policy: &str, makespan_ms| PolicyTime { policy: policy.into(), makespan_ms };
        let verdict = |policies| TimeSharingVerdict::Uncompared { subject: "W".into(), policies };
        let both = vec![time("light", Some(1234.5)), time("heavy", None)];
        assert_eq!(told(&verdict(both)), ["W: light takes 1.234 s; heavy had not ended at the horizon."]);
        assert_eq!(told(&verdict(Vec::new())), ["W: no replicate has ended yet."]);
    }

    #[test]
    fn a_sweep_is_told_by_where_each_policy_is_best() {
        let at = |at: f64, change: Option<Change>| Some(ChangeAt { at, change: change.unwrap() });
        let best = |policy: &str, misses, time| BestChanges { policy: policy.into(), misses, time };
        let policies =
            vec![best("light", at(6.0, change(-36.0, 2.0)), at(9.0, change(-0.1, 0.2))), best("heavy", None, None)];
        let verdict = TimeSharingVerdict::Swept {
            workload: "W".into(),
            parameter: "phi".into(),
            first: 0.0,
            last: 12.0,
            kernel: None,
            policies,
        };
        assert_eq!(
            told(&verdict),
            [
                "W: over phi from 0 to 12, light removes most misses at 6: 36 % (34 to 38), and is not shown to save time anywhere, at best (-0.3 to +0.1 %) at 9.",
                "W: over phi from 0 to 12, heavy has no misses to compare, and has no time to compare.",
            ]
        );
    }
}
