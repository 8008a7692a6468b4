//! What is particular to space sharing: its quantities, and its tables of several mixes or points.

use super::{Quantity, Told, change_cell, is_compared, percent, quantity, seconds, value_of};
use crate::number;
use crate::table::{Cell, Row, Table};
use crate::words::{count, plain};
use ::simulation::metrics::{MAKESPAN, RELOAD_FRACTION, RESPONSE};
use ::simulation::{PointResult, PolicyResult, Sharing, SimulationPlan};
use sim::space::{Graph, Kind, Mix, Tasks};
use stats::{By, Metric};

/// What the model leaves out, in sentences.
pub(super) const LIMITS: [&str; 6] = [
    "A worker's task stays with it when its CPU is taken: another worker of the job can't go on with it.",
    "Caches are followed as expected numbers of lines, not line by line. What a worker keeps from one task to its next is a share, the same for all tasks of a stage.",
    "Allocator and workers decide in no time; a move costs one switch and what it takes to bring back cached lines.",
    "Nobody waits for a lock, a disk or the kernel; memory stays where it was first used.",
    "Intervals tell how far other draws of the same mix would differ, not how far the graphs are from real programs.",
    "The built-in graphs come from one run each of the programs of the same names (stayput workloads --graph).",
];

/// CPUs that a job has, on average.
fn allocation() -> Metric {
    Metric::from_name("allocation_mean_cpus")
}

/// What policies are compared by, one row each.
pub(super) fn quantities(kinds: &[&str]) -> Vec<Quantity> {
    let (change, doubt, part) = (quantity(Told::Change), quantity(Told::Doubt), quantity(Told::Part));
    let moves = Metric::from_name("moves");
    let mut all = vec![change(RESPONSE, "mean response time, s", seconds)];
    if kinds.len() > 1 {
        all.extend(kinds.iter().map(|kind| change(RESPONSE.of_job(kind), &format!("{kind}, s"), seconds)));
    }
    all.push(doubt(MAKESPAN, "all jobs done after, s", seconds));
    all.push(doubt(allocation(), "CPUs that a job has, on average", number::seconds));
    all.extend(kinds.iter().map(|kind| part(allocation().of_job(kind), &format!("  {kind}"), number::seconds)));
    all.extend([
        doubt(Metric::from_name("idle_held_fraction"), "of its CPU time a job has nothing for, %", percent),
        doubt(RELOAD_FRACTION, "brings back cached lines for, %", percent),
        doubt(Metric::from_name("reallocations"), "CPUs given to a job", number::seconds),
        doubt(Metric::from_name("moves"), "workers moved to a CPU", number::seconds),
        part(moves.by(By::Cause("voluntary".into())), "  that nobody used", number::seconds),
        part(moves.by(By::Cause("forced".into())), "  that was taken from a job", number::seconds),
        part(moves.by(By::Cause("within".into())), "  that their job had", number::seconds),
        doubt(Metric::from_name("affine_fraction"), "back to the CPU where they were, %", percent),
        doubt(Metric::from_name("reload_affine_mean_us"), "reload after a move back, us", number::seconds),
        doubt(Metric::from_name("reload_other_mean_us"), "reload after another move, us", number::seconds),
        doubt(Metric::from_name("reload_resumed_mean_us"), "reload to go on with a task, us", number::seconds),
        doubt(Metric::from_name("reload_begun_mean_us"), "reload to begin another, us", number::seconds),
        doubt(Metric::from_name("move_interval_ms"), "CPU time from move to move, ms", number::seconds),
    ]);
    all
}

/// One row a point of a sweep, or one a mix and kind of job: response times of each policy.
pub(super) fn of_points(points: &[PointResult], swept: Option<&str>) -> Table {
    let first = &points[0];
    let policies: Vec<usize> =
        (0..first.policies.len()).filter(|&at| is_compared(first, &first.policies[at])).collect();
    let mut heads: Vec<String> = policies.iter().map(|&at| plain(&first.policies[at].policy)).collect();
    let affinity: Vec<usize> =
        policies.iter().copied().filter(|&at| !first.policies[at].affinity_changes.is_empty()).collect();
    let changed = |result: Option<&PolicyResult>, metric: &Metric| {
        result.and_then(|result| result.changes.get(metric)).map_or_else(Cell::default, change_cell)
    };
    let Some(swept) = swept else {
        let row = |point: &PointResult, label: &str, metric: &Metric| {
            let cells = policies.iter().map(|&at| changed(point.policies.get(at), metric)).collect();
            Row { labels: vec![label.to_owned()], cells }
        };
        let rows = points.iter().flat_map(|point| {
            let own =
                point.kinds().into_iter().map(|kind| row(point, &format!("  {}", plain(kind)), &RESPONSE.of_job(kind)));
            std::iter::once(row(point, &plain(&point.subject), &RESPONSE)).chain(own).collect::<Vec<_>>()
        });
        let table = Table::of_policies("mix and kind of job: change of response time".into(), heads);
        return Table { rows: rows.collect(), ..table };
    };
    heads.extend(affinity.iter().map(|&at| format!("{} against dynamic", plain(&first.policies[at].policy))));
    heads.push("reloads under dynamic, %".into());
    let dynamic = first.policies.iter().position(|result| result.policy == "dynamic");
    let row = |point: &PointResult| {
        let affinity = affinity.iter().map(|&at| {
            let change = point.policies.get(at).and_then(|result| result.affinity_changes.get(&RESPONSE));
            change.map_or_else(Cell::default, change_cell)
        });
        let reloads = dynamic.and_then(|at| point.policies.get(at)?.value(&RELOAD_FRACTION));
        let reloads = Cell::from(reloads.map(percent).unwrap_or_default());
        let own = policies.iter().map(|&at| changed(point.policies.get(at), &RESPONSE));
        Row { labels: vec![value_of(point)], cells: own.chain(affinity).chain([reloads]).collect() }
    };
    Table { rows: points.iter().map(row).collect(), ..Table::of_policies(plain(swept), heads) }
}

/// The kinds of job of all mixes, a line each.
pub(super) fn jobs(plan: &SimulationPlan) -> Vec<String> {
    let mixes = plan.points.iter().filter_map(|point| match &point.simulation.sharing {
        Sharing::Space { mix, .. } => Some(mix),
        Sharing::Time { .. } => None,
    });
    let mut told: Vec<(&str, String)> = Vec::new();
    for Kind { graph, count } in mixes.clone().flat_map(|mix: &Mix| &mix.kinds) {
        if told.iter().all(|(name, _)| *name != graph.name) {
            let times = if mixes.clone().count() == 1 && *count > 1 { format!("{count} of ") } else { String::new() };
            told.push((&graph.name, format!("{times}{}", about(graph))));
        }
    }
    told.into_iter().map(|(_, line)| line).collect()
}

fn about(graph: &Graph) -> String {
    let stage = |stage: &sim::space::Stage| match &stage.tasks {
        Tasks::Independent(tasks) => format!("{} {}", plain(&stage.name), count(*tasks as usize, "task")),
        Tasks::Wavefront { rows, columns } => format!("{} {rows} x {columns} in a wavefront", plain(&stage.name)),
        Tasks::Listed(tasks) => format!("{} {} in their order", plain(&stage.name), count(tasks.len(), "task")),
    };
    let stages: Vec<String> = graph.stages.iter().map(stage).collect();
    let rounds = if graph.rounds == 1 { String::new() } else { format!("{} times ", graph.rounds) };
    let source = if graph.source.is_empty() { String::new() } else { format!(" ({})", plain(&graph.source)) };
    format!(
        "{}: {rounds}{}; {} ms of work, of which {} ms one after the other{source}",
        plain(&graph.name),
        stages.join(", "),
        number::seconds(graph.work_ms()),
        number::seconds(graph.span_ms())
    )
}
