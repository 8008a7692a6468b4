//! What came of plays, in English: the answer first, then the numbers, then what limits them.

use crate::comparison::{Comparison, Ratio, mean_response_s};
use crate::conduct::{JobOutcome, Outcome};
use machine::CpuSet;
use sim::space::Policy;
use stats::{Claim, MIN_PAIRS, quantile};
use std::fmt::Write;

/// A report on plays of `policies`, of which the first is what others are compared with.
pub fn report(cpus: &CpuSet, policies: &[Policy], plays: &[Outcome], comparisons: &[Comparison]) -> String {
    let mut text = String::new();
    for policy in policies.iter().skip(1) {
        let of_all = comparisons.iter().find(|compared| compared.policy == *policy && compared.job.is_none());
        if let Some(compared) = of_all {
            let _ = writeln!(text, "{}", sentence(compared, policies[0]));
        }
    }
    if !text.is_empty() {
        text.push('\n');
    }
    table(&mut text, policies, plays, comparisons);
    notes(&mut text, cpus, policies, plays);
    text
}

fn sentence(compared: &Comparison, reference: Policy) -> String {
    let Comparison { policy, ratio, claim, pairs, .. } = compared;
    match (ratio, claim) {
        (Some(Ratio { ratio, low, high }), Some(Claim::NoneShown)) => format!(
            "{policy}: no difference from {reference} shown; jobs answer in {ratio:.3} of its time on average (95 % interval {low:.3}-{high:.3}, {pairs} pairs)."
        ),
        (Some(Ratio { ratio, low, high }), Some(_)) => format!(
            "{policy}: jobs answer in {ratio:.3} of the time that they take under {reference} (95 % interval {low:.3}-{high:.3}, {pairs} pairs)."
        ),
        _ => format!("{policy}: {pairs} pairs with {reference} are too few for a ratio; {MIN_PAIRS} are needed."),
    }
}

/// A row a job and policy.
fn table(text: &mut String, policies: &[Policy], plays: &[Outcome], comparisons: &[Comparison]) {
    let Some(first) = plays.first() else { return };
    let names = first.jobs.iter().map(|job| job.name.as_str());
    let width = names.clone().chain(["mean of jobs"]).map(|name| name.chars().count()).max().unwrap_or(0);
    let policy_width = policies.iter().map(|policy| policy.name().len()).max().unwrap_or(0);
    let _ = writeln!(
        text,
        "{:width$}  {:policy_width$}  {:>11}  {:>9}  {:>10}  {:>8}  {:>9}  ratio [95 % interval]",
        "job", "policy", "response s", "waited s", "CPU time s", "CPUs had", "CPUs got"
    );
    for (number, name) in names.enumerate().map(|(number, name)| (Some(number), name)).chain([(None, "mean of jobs")]) {
        for &policy in policies {
            let of_policy = || plays.iter().filter(|play| play.policy == policy);
            let middle = |value: &dyn Fn(&JobOutcome) -> Option<f64>| {
                let values: Vec<f64> = of_policy().filter_map(|play| value(&play.jobs[number?])).collect();
                median(values)
            };
            let response_s = match number {
                Some(_) => middle(&|job| job.response_s),
                None => median(of_policy().filter_map(mean_response_s).collect()),
            };
            let shown = |value: Option<f64>, digits: usize| {
                value.map_or_else(|| "-".into(), |value| format!("{value:.digits$}"))
            };
            let compared = comparisons.iter().find(|compared| {
                compared.policy == policy
                    && compared.job.as_deref() == number.map(|number| first.jobs[number].name.as_str())
            });
            let ratio = compared.and_then(|compared| compared.ratio);
            let ratio =
                ratio.map_or_else(String::new, |Ratio { ratio, low, high }| format!("{ratio:.3} [{low:.3} {high:.3}]"));
            let line = format!(
                "{name:width$}  {:policy_width$}  {:>11}  {:>9}  {:>10}  {:>8}  {:>9}  {ratio}",
                policy.name(),
                shown(response_s, 3),
                shown(middle(&|job| job.waited_s), 3),
                shown(middle(&|job| Some(job.cpu_s)), 3),
                shown(
                    middle(&|job| job
                        .response_s
                        .map(|response_s| job.held_s / (response_s - job.waited_s.unwrap_or(0.0)))),
                    2
                ),
                shown(middle(&|job| Some(f64::from(job.got))), 1),
            );
            let _ = writeln!(text, "{}", line.trim_end());
        }
    }
    text.push('\n');
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    quantile(&values, 0.5)
}

/// What limits or disturbed the plays.
fn notes(text: &mut String, cpus: &CpuSet, policies: &[Policy], plays: &[Outcome]) {
    let Some(first) = plays.first() else { return };
    let (count, jobs) = (cpus.len(), first.jobs.len());
    let each = plays.len().div_ceil(policies.len());
    let _ = writeln!(
        text,
        "{} on {} ({cpus}), {}",
        counted(jobs as u64, "job"),
        counted(count as u64, "CPU"),
        match (policies.len(), each) {
            (1, 1) => "played once.".to_owned(),
            (1, _) => format!("played {each} times. Numbers are medians."),
            _ => format!(
                "{}, in each of which every policy was played once, in random order. Numbers are medians.",
                counted(each as u64, "block")
            ),
        }
    );
    if policies.len() > 1 && jobs >= count {
        let _ = writeln!(
            text,
            "There are as many jobs as CPUs, or more. Every job that has started keeps a CPU to its end, so that all have one each, and \
             no policy can differ from another until jobs have ended: machines with more CPUs tell more."
        );
    }
    let moves: u64 = plays.iter().map(|play| play.moves).sum();
    let seconds: f64 = plays.iter().map(|play| play.seconds).sum();
    if let Some(took_s) = plays.iter().map(|play| play.allocator_cpu_s).sum::<Option<f64>>() {
        let _ = writeln!(
            text,
            "A CPU went to a job {} in {seconds:.1} s; the allocator took {took_s:.3} s of CPU time, {:.2} % of one CPU.",
            counted(moves, "time"),
            100.0 * took_s / seconds
        );
    }
    for (number, job) in first.jobs.iter().enumerate() {
        let of_job = || plays.iter().map(|play| &play.jobs[number]);
        let name = &job.name;
        if of_job().all(|job| !job.spoke) {
            let _ = writeln!(
                text,
                "{name} never said how many CPUs it can use: threads that were seen to be ready were counted."
            );
        }
        let capped = of_job().filter(|job| job.capped > 0).count();
        if capped > 0 {
            let _ = writeln!(
                text,
                "{name} asked for CPUs that it didn't use, in {capped} plays, and was held to what it used."
            );
        }
        let leftovers: u32 = of_job().map(|job| job.leftovers).sum();
        if leftovers > 0 {
            let _ = writeln!(
                text,
                "{name} left {} running in all, which were killed.",
                counted(u64::from(leftovers), "process")
            );
        }
        if let Some(unbound) = of_job().map(|job| job.unbound).max().filter(|unbound| *unbound > 0) {
            let _ = writeln!(text, "{name} had {unbound} threads that the system didn't let us bind.");
        }
        let failed: Vec<&JobOutcome> = of_job().filter(|job| job.failure.is_some()).collect();
        if let Some(last) = failed.last() {
            let why = last.failure.as_deref().unwrap_or_default();
            let _ =
                writeln!(text, "{name} failed in {} of {}: {why}.", failed.len(), counted(plays.len() as u64, "play"));
            for line in
                last.tail.as_deref().unwrap_or_default().lines().rev().take(5).collect::<Vec<_>>().into_iter().rev()
            {
                let _ = writeln!(text, "    {line}");
            }
        }
    }
}

/// `1 job`, `2 jobs`.
fn counted(count: u64, what: &str) -> String {
    let ending = match (count, what.ends_with('s')) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{count} {what}{ending}")
}
