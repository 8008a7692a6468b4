//! What one replicate of space sharing showed, as numbers of metrics.
//!
//! Numbers of one kind of job are means over the jobs of the kind of response times and allocations, sums of the rest. `moves` are
//! workers that begin on a CPU where they had not just run.

pub mod verdict;

use crate::metrics::{MAKESPAN, Numbers, NumbersOf, RELOAD_FRACTION, RESPONSE, WORK};
use sim::space::{Account, Cause, JobOutcome, Mix, Moves, Outcome};
use stats::{By, Metric, Unit};
use study::sample::Measurements;

/// What a replicate of `mix` showed.
pub(crate) fn measurements(outcome: &Outcome, mix: &Mix) -> Measurements {
    let mut numbers = Numbers::default();
    let all: Vec<&JobOutcome> = outcome.jobs.iter().collect();
    let mut of_all = numbers.of(None);
    add_jobs(&mut of_all, &all);
    of_all.add(MAKESPAN, outcome.completed.then_some(outcome.makespan_ms));
    of_all.add(Metric::neutral("reallocations", Unit::Count), outcome.reallocations as f64);
    of_all.add(Metric::neutral("tasks", Unit::Count), outcome.tasks as f64);
    for (number, kind) in mix.kinds.iter().enumerate() {
        let own: Vec<&JobOutcome> = all.iter().copied().filter(|job| job.kind as usize == number).collect();
        add_jobs(&mut numbers.of(Some(&kind.graph.name)), &own);
    }
    Measurements { makespan_s: outcome.makespan_ms / 1e3, metrics: numbers.by_metric, ..Measurements::default() }
}

fn add_jobs(numbers: &mut NumbersOf, jobs: &[&JobOutcome]) {
    let ms = |ns: u64| ns as f64 / 1e6;
    let responses: Option<Vec<f64>> = jobs.iter().map(|job| job.response_ms()).collect();
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    if let Some(responses) = responses.filter(|responses| !responses.is_empty()) {
        let allocations = jobs.iter().zip(&responses).map(|(job, response_ms)| ms(job.held_ns) / response_ms).collect();
        numbers.add(Metric::neutral("allocation_mean", Unit::Cpus), mean(allocations));
        numbers.add(RESPONSE, mean(responses));
    }
    numbers.misses(jobs.iter().map(|job| job.misses).sum());

    let sum = |of: &dyn Fn(&Account) -> u64| jobs.iter().map(|job| of(&job.account)).sum::<u64>();
    numbers.add(WORK, ms(sum(&|account| account.work_ns)));
    numbers.add(Metric::neutral("idle_held", Unit::Ms), ms(sum(&|account| account.idle_ns)));
    numbers.add(Metric::neutral("switch", Unit::Ms), ms(sum(&|account| account.switch_ns)));
    let moves = |of: &dyn Fn(&Account) -> Moves| jobs.iter().map(|job| of(&job.account)).sum::<Moves>();
    let (affine, other) = (moves(&Account::all_affine), moves(&Account::all_other));
    let all = affine + other;
    numbers.add(Metric::neutral("reload", Unit::Ms), ms(all.reload_ns));
    const MOVES: Metric = Metric::neutral("moves", Unit::Count);
    numbers.add(MOVES, all.count as f64);
    for (name, cause) in [("voluntary", Cause::Voluntary), ("forced", Cause::Forced), ("within", Cause::Within)] {
        let caused = moves(&|account| account.caused(cause));
        numbers.add(MOVES.by(By::Cause(name.into())), caused.count as f64);
    }
    let resumed = moves(&|account| account.resumed);
    let begun = Moves { count: all.count - resumed.count, reload_ns: all.reload_ns - resumed.reload_ns };
    numbers.add(MOVES.by(By::Cause("resumed".into())), resumed.count as f64);
    numbers.add(Metric::neutral("reload_resumed", Unit::Ms), ms(resumed.reload_ns));
    numbers.add(Metric::neutral("reload_resumed_mean", Unit::Us), mean_us(resumed));
    numbers.add(Metric::neutral("reload_begun_mean", Unit::Us), mean_us(begun));
    numbers.add(Metric::neutral("affine", Unit::Fraction), share(affine.count, all.count));
    numbers.add(Metric::neutral("reload_affine_mean", Unit::Us), mean_us(affine));
    numbers.add(Metric::neutral("reload_other_mean", Unit::Us), mean_us(other));
    let held = sum(&Account::total_ns);
    let idle = share(sum(&|account| account.idle_ns), held);
    numbers.add(Metric::neutral("idle_held", Unit::Fraction), idle);
    numbers.add(RELOAD_FRACTION, share(all.reload_ns, held));
    // How long a CPU stays with what it does: what reloads and switches are to be set against.
    let interval = (all.count > 0).then(|| ms(held) / all.count as f64);
    numbers.add(Metric::neutral("move_interval", Unit::Ms), interval);
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// What a move cost on average.
fn mean_us(moves: Moves) -> Option<f64> {
    (moves.count > 0).then(|| moves.reload_ns as f64 / 1e3 / moves.count as f64)
}
