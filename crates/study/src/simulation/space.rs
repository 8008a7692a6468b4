//! What one replicate of space sharing showed, as numbers with names.
//!
//! Numbers of one kind of job carry its name after a colon: means over the jobs of the kind of response times and allocations, sums of
//! the rest. `moves` are workers that begin on a CPU where they had not just run.

pub(super) mod verdict;

use super::metrics::Told;
use super::ran;
use crate::observation::Observation;
use sim::Misses;
use sim::space::{Account, Cause, JobOutcome, Mix, Moves, Outcome};
use std::collections::BTreeMap;

/// What a replicate of `mix` showed.
pub(super) fn observation(outcome: &Outcome, mix: &Mix) -> Observation {
    let mut told = Told(BTreeMap::new());
    let all: Vec<&JobOutcome> = outcome.jobs.iter().collect();
    tell(&mut told, "", &all);
    told.known("makespan_ms", outcome.completed.then_some(outcome.makespan_ms));
    told.number("reallocations", outcome.reallocations as f64);
    told.number("tasks", outcome.tasks as f64);
    for (number, kind) in mix.kinds.iter().enumerate() {
        let own: Vec<&JobOutcome> = all.iter().copied().filter(|job| job.kind as usize == number).collect();
        tell(&mut told, &format!(":{}", kind.graph.name), &own);
    }
    let sum = |of: fn(&Account) -> u64| all.iter().map(|job| of(&job.account)).sum::<u64>();
    let forced = sum(|account| account.caused(Cause::Forced).count);
    Observation {
        voluntary_switches: sum(|account| account.all_affine().count + account.all_other().count) - forced,
        involuntary_switches: forced,
        migrations: Some(sum(|account| account.all_other().count)),
        metrics: told.0,
        ..ran(outcome.makespan_ms, sum(|account| account.total_ns() - account.idle_ns) as f64 / 1e6)
    }
}

fn tell(told: &mut Told, whose: &str, jobs: &[&JobOutcome]) {
    let ms = |ns: u64| ns as f64 / 1e6;
    let responses: Option<Vec<f64>> = jobs.iter().map(|job| job.response_ms()).collect();
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    if let Some(responses) = responses.filter(|responses| !responses.is_empty()) {
        let allocations = jobs.iter().zip(&responses).map(|(job, response_ms)| ms(job.held_ns) / response_ms).collect();
        told.number(&format!("allocation_mean_cpus{whose}"), mean(allocations));
        told.number(&format!("response_ms{whose}"), mean(responses));
    }
    let mut misses = Misses::default();
    jobs.iter().for_each(|job| misses += job.misses);
    told.misses(whose, misses);

    let sum = |of: &dyn Fn(&Account) -> u64| jobs.iter().map(|job| of(&job.account)).sum::<u64>();
    for (name, ns) in [
        ("work_ms", sum(&|account| account.work_ns)),
        ("idle_held_ms", sum(&|account| account.idle_ns)),
        ("switch_ms", sum(&|account| account.switch_ns)),
    ] {
        told.number(&format!("{name}{whose}"), ms(ns));
    }
    let moves = |of: &dyn Fn(&Account) -> Moves| {
        jobs.iter().fold(Moves::default(), |mut moves, job| {
            moves += of(&job.account);
            moves
        })
    };
    let (affine, other) = (moves(&Account::all_affine), moves(&Account::all_other));
    let mut all = affine;
    all += other;
    told.number(&format!("reload_ms{whose}"), ms(all.reload_ns));
    told.number(&format!("moves{whose}"), all.count as f64);
    for (name, cause) in [("voluntary", Cause::Voluntary), ("forced", Cause::Forced), ("within", Cause::Within)] {
        let caused = moves(&|account| account.caused(cause));
        told.number(&format!("moves_{name}{whose}"), caused.count as f64);
    }
    let resumed = moves(&|account| account.resumed);
    let begun = Moves { count: all.count - resumed.count, reload_ns: all.reload_ns - resumed.reload_ns };
    told.number(&format!("moves_resumed{whose}"), resumed.count as f64);
    told.number(&format!("reload_resumed_ms{whose}"), ms(resumed.reload_ns));
    told.known(&format!("reload_resumed_mean_us{whose}"), mean_us(resumed));
    told.known(&format!("reload_begun_mean_us{whose}"), mean_us(begun));
    told.known(&format!("affine_fraction{whose}"), share(affine.count, all.count));
    told.known(&format!("reload_affine_mean_us{whose}"), mean_us(affine));
    told.known(&format!("reload_other_mean_us{whose}"), mean_us(other));
    let held = sum(&Account::total_ns);
    told.known(&format!("idle_held_fraction{whose}"), share(sum(&|account| account.idle_ns), held));
    told.known(&format!("reload_fraction{whose}"), share(all.reload_ns, held));
    // How long a CPU stays with what it does: what reloads and switches are to be set against.
    told.known(&format!("move_interval_ms{whose}"), (all.count > 0).then(|| ms(held) / all.count as f64));
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// What a move cost on average.
fn mean_us(moves: Moves) -> Option<f64> {
    (moves.count > 0).then(|| moves.reload_ns as f64 / 1e3 / moves.count as f64)
}
