//! What policies would change against a kernel's own scheduler, in sentences.

use super::change::{fewer, more};
use crate::simulation::{kernel_in_words, own_scheduler};
use crate::words::{count, enumerated, plain};
use papers::reproduction::{AgainstKernel, PolicyEffects, WorkloadEffect};
use simulation::{Change, Direction};

/// A sentence on each policy, and what stands behind them.
pub(crate) fn sentences(against: &AgainstKernel) -> Vec<String> {
    let AgainstKernel { kernel, machine, replicates, policies } = against;
    let doubt = match replicates {
        1 => "with one replicate, so without intervals".into(),
        replicates => format!("with {replicates} replicates, in parentheses 95 % intervals"),
    };
    let behind = format!(
        "This is simulated, {doubt}: the report's applications on the report's machine, {}. {}",
        plain(machine),
        kernel_in_words(*kernel)
    );
    let reference = own_scheduler(*kernel);
    let of_policy = |effects: &PolicyEffects| {
        format!(
            "Against {reference}, {} affinity {}; {}.",
            plain(&effects.policy),
            times(&effects.workloads),
            misses(&effects.workloads)
        )
    };
    policies.iter().map(of_policy).chain([behind]).collect()
}

/// In how many workloads time is saved, most and least, and where it isn't:
/// `saves time in 2 of 4 workloads, most in A, 9.0 % (8.9 to 9.1), and least in B, 2.0 % (1.9 to 2.1); takes more time in 1, C, ...`.
fn times(workloads: &[WorkloadEffect]) -> String {
    let with = |direction| {
        let named = |effect: &WorkloadEffect| Some((plain(&effect.workload), effect.time?));
        let changes = workloads.iter().filter_map(named).filter(move |(_, change)| change.direction == direction);
        changes.collect::<Vec<(String, Change)>>()
    };
    let names = |changes: Vec<(String, Change)>| changes.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    let [saved, longer, open] = [Direction::Down, Direction::Up, Direction::NoneShown].map(with);
    let all = workloads.len();
    let mut parts = vec![match saved.len() {
        0 => format!("saves time in none of {}", count(all, "workload")),
        number if number == all && all > 1 => {
            format!("saves time in all {}{}", count(all, "workload"), extremes(saved, fewer))
        }
        number => format!("saves time in {number} of {}{}", count(all, "workload"), extremes(saved, fewer)),
    }];
    if !longer.is_empty() {
        parts.push(format!("takes more time in {}{}", longer.len(), extremes(longer, more)));
    }
    if !open.is_empty() {
        parts.push(format!("shows no difference in time in {}", enumerated(&names(open))));
    }
    let unknown = workloads.iter().filter(|effect| effect.time.is_none());
    let unknown: Vec<String> = unknown.map(|effect| plain(&effect.workload)).collect();
    if !unknown.is_empty() {
        parts.push(format!("can't be compared in time in {}", enumerated(&unknown)));
    }
    parts.join("; ")
}

/// Where a change is largest and where smallest, after how many there are.
fn extremes(mut changes: Vec<(String, Change)>, write: fn(&Change) -> String) -> String {
    changes.sort_by(|a, b| b.1.percent.value.abs().total_cmp(&a.1.percent.value.abs()));
    match changes.as_slice() {
        [] => String::new(),
        [(name, change)] => format!(", {name}, {}", write(change)),
        [(most, largest), .., (least, smallest)] => {
            format!(", most in {most}, {}, and least in {least}, {}", write(largest), write(smallest))
        }
    }
}

/// In how many workloads there are fewer misses, and in how many more.
fn misses(workloads: &[WorkloadEffect]) -> String {
    let with = |direction| {
        workloads.iter().filter(|effect| effect.misses.is_some_and(|change| change.direction == direction)).count()
    };
    format!("misses are fewer in {} and more in {}", with(Direction::Down), with(Direction::Up))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Release;
    use simulation::Estimated;

    /// A workload with its changes of misses and time in percent, each to a tenth of a percent.
    fn effect((workload, misses, time): (&str, f64, Option<f64>)) -> WorkloadEffect {
        let change = |value: f64| Change::from(Estimated { value, low: Some(value - 0.1), high: Some(value + 0.1) });
        WorkloadEffect { workload: workload.into(), misses: Some(change(misses)), time: time.map(change) }
    }

    fn told(workloads: &[(&str, f64, Option<f64>)]) -> String {
        let workloads = workloads.iter().copied().map(effect).collect();
        let policies = vec![PolicyEffects { policy: "light".into(), workloads }];
        let kernel = Release::Linux6_12;
        let sentences = sentences(&AgainstKernel { kernel, machine: "m".into(), replicates: 10, policies });
        assert_eq!(sentences.len(), 2, "{sentences:?}");
        assert!(sentences[1].starts_with("This is simulated, with 10 replicates, "), "{sentences:?}");
        assert!(
            sentences[1].contains("machine, m. eevdf is a model of the fair scheduler of Linux 6.12"),
            "{sentences:?}"
        );
        let start = "Against Linux 6.12's own scheduler, light affinity ";
        sentences[0].strip_prefix(start).unwrap_or_else(|| panic!("{sentences:?}")).to_owned()
    }

    #[test]
    fn where_all_gain_the_most_and_the_least_are_named() {
        assert_eq!(
            told(&[("A", -3.0, Some(-2.0)), ("B", -9.0, Some(-12.5)), ("C", -1.0, Some(-4.0))]),
            "saves time in all 3 workloads, most in B, 12.5 % (12.4 to 12.6), and least in A, 2.0 % (1.9 to 2.1); misses are \
             fewer in 3 and more in 0."
        );
    }

    #[test]
    fn where_some_gain_it_is_said_as_plainly_which_dont() {
        assert_eq!(
            told(&[
                ("A", -3.0, Some(-2.0)),
                ("B", 9.0, Some(1.5)),
                ("C", 1.0, Some(4.0)),
                ("D", 0.0, Some(0.06)),
                ("E", 0.0, None)
            ]),
            "saves time in 1 of 5 workloads, A, 2.0 % (1.9 to 2.1); takes more time in 2, most in C, 4.0 % (3.9 to 4.1), and \
             least in B, 1.5 % (1.4 to 1.6); shows no difference in time in D; can't be compared in time in E; misses are fewer \
             in 1 and more in 2."
        );
    }

    #[test]
    fn where_none_gains_that_comes_first() {
        assert_eq!(
            told(&[("A", -3.0, Some(0.0)), ("B", -9.0, Some(-0.01))]),
            "saves time in none of 2 workloads; shows no difference in time in A and B; misses are fewer in 2 and more in 0."
        );
        assert_eq!(
            told(&[("A", 3.0, Some(7.0))]),
            "saves time in none of 1 workload; takes more time in 1, A, 7.0 % (6.9 to 7.1); misses are fewer in 0 and more in 1."
        );
    }

    #[test]
    fn one_replicate_has_no_intervals() {
        let percent = Estimated { value: -2.0, low: None, high: None };
        let workload = WorkloadEffect { workload: "A".into(), misses: None, time: Some(Change::from(percent)) };
        let policies = vec![PolicyEffects { policy: "heavy".into(), workloads: vec![workload] }];
        let against = AgainstKernel { kernel: Release::Linux7_3, machine: "m".into(), replicates: 1, policies };
        let sentences = sentences(&against);
        assert!(
            sentences[0].starts_with(
                "Against Linux 7.3's own scheduler, heavy affinity saves time in 1 of 1 workload, A, 2.0 %;"
            ),
            "{sentences:?}"
        );
        assert!(
            sentences[1].starts_with("This is simulated, with one replicate, so without intervals: "),
            "{sentences:?}"
        );
    }
}
