//! The answer of a space-sharing simulation in sentences, each with its doubt.

use super::results::{Direction, direction, fewer, more, range};
use super::{Estimated, PointResult, PolicyResult};
use sim::space::Policy;

const RESPONSE: &str = "response_ms";

/// From how many percent on affinity is said to matter. Our choice: less than this nobody would change an allocator for.
pub const MATTERS_PERCENT: f64 = 1.0;

/// What is said of one mix, of several, or of a sweep.
pub(super) fn space_sharing(points: &[PointResult]) -> Vec<String> {
    match points {
        [] => Vec::new(),
        [point] => of_one(point),
        points if points[0].point.is_some() => of_sweep(points),
        points => of_several(points),
    }
}

/// Of each kind of job, by how much it answers sooner or later than under the reference.
fn kinds(result: &PolicyResult) -> Vec<(&str, Estimated)> {
    result
        .changes
        .iter()
        .filter_map(|(metric, change)| Some((metric.strip_prefix(RESPONSE)?.strip_prefix(':')?, *change)))
        .collect()
}

fn find(point: &PointResult, policy: Policy) -> Option<&PolicyResult> {
    point.policies.iter().find(|result| result.policy == policy.name() && result.replicates > 0)
}

fn of_one(point: &PointResult) -> Vec<String> {
    let mut told = Vec::new();
    for result in &point.policies {
        let Some(change) = result.changes.get(RESPONSE) else { continue };
        let kinds = kinds(result);
        let later = kinds.iter().filter(|(_, change)| direction(change) != Direction::Down);
        let later: Vec<String> = later.map(|(kind, change)| format!("{kind} {}", range(change))).collect();
        let each = if later.is_empty() {
            "every kind of job does".into()
        } else {
            format!("but not shown: {}", later.join(", "))
        };
        let doubt = match (told.len(), result.replicates) {
            (0, 1) => "; one replicate, so without intervals",
            (0, _) => "; 95 % intervals",
            _ => "",
        };
        told.push(match direction(change) {
            Direction::Down => format!(
                "{}: under {} jobs answer {} sooner than under equipartition; {each}{doubt}.",
                point.subject,
                result.policy,
                fewer(change)
            ),
            Direction::Up => format!(
                "{}: under {} jobs answer {} later than under equipartition{doubt}.",
                point.subject,
                result.policy,
                more(change)
            ),
            Direction::NoneShown => format!(
                "{}: {} shows no difference to equipartition {}{doubt}.",
                point.subject,
                result.policy,
                range(change)
            ),
        });
    }
    if let Some(affinity) = find(point, Policy::DynamicAffinity)
        && let Some(change) = affinity.affinity_changes.get(RESPONSE)
    {
        let reloads =
            find(point, Policy::Dynamic).and_then(|dynamic| dynamic.value("reload_fraction")).unwrap_or_default();
        let why = format!("without it reloads take {:.2} % of the CPU time that jobs have", 100.0 * reloads);
        told.push(match direction(change) {
            Direction::Down if -change.value >= MATTERS_PERCENT => {
                format!("Affinity matters: it saves {} of what dynamic takes; {why}.", fewer(change))
            }
            Direction::Down => {
                format!("Affinity matters little: it saves {} of what dynamic takes; {why}.", fewer(change))
            }
            Direction::Up => format!("Affinity costs {} of what dynamic takes; {why}.", more(change)),
            Direction::NoneShown => format!("Affinity shows no difference to dynamic {}; {why}.", range(change)),
        });
    }
    if told.is_empty() { vec![format!("{}: nothing is compared.", point.subject)] } else { told }
}

fn of_several(points: &[PointResult]) -> Vec<String> {
    let mut told = Vec::new();
    for policy in Policy::ALL {
        let all: Vec<(&str, &str, Estimated)> = points
            .iter()
            .flat_map(|point| {
                find(point, policy)
                    .into_iter()
                    .flat_map(|r| kinds(r).into_iter().map(|(k, c)| (point.subject.as_str(), k, c)))
            })
            .collect();
        let sooner = all.iter().filter(|(_, _, change)| direction(change) == Direction::Down).count();
        let Some(least) = all.iter().max_by(|a, b| a.2.value.total_cmp(&b.2.value)) else { continue };
        let most = all.iter().min_by(|a, b| a.2.value.total_cmp(&b.2.value)).unwrap_or(least);
        let one = |(mix, kind, change): &(&str, &str, Estimated)| match direction(change) {
            Direction::Down => format!("{kind} in {mix} {} sooner", fewer(change)),
            Direction::Up => format!("{kind} in {mix} {} later", more(change)),
            Direction::NoneShown => format!("{kind} in {mix} no difference shown {}", range(change)),
        };
        told.push(format!(
            "Under {policy} {sooner} of {} kinds of job in {} mixes answer sooner than under equipartition: at best {}, at worst {}.",
            all.len(), points.len(), one(most), one(least)
        ));
    }
    let affinity: Vec<(&str, Estimated)> = points
        .iter()
        .filter_map(|point| {
            Some((point.subject.as_str(), *find(point, Policy::DynamicAffinity)?.affinity_changes.get(RESPONSE)?))
        })
        .collect();
    if let Some((mix, most)) = affinity.iter().min_by(|a, b| a.1.value.total_cmp(&b.1.value)) {
        let matters = affinity.iter().filter(|(_, change)| matters(change)).count();
        let gain = match direction(most) {
            Direction::Down => format!("it saves most in {mix}, {}", fewer(most)),
            _ => format!("it is not shown to save anything, at best {} in {mix}", range(most)),
        };
        told.push(format!(
            "Affinity saves {MATTERS_PERCENT} % or more of what dynamic takes in {matters} of {} mixes; {gain}.",
            affinity.len()
        ));
    }
    told
}

/// Whether affinity matters: its interval leaves no doubt, and it is not too little.
fn matters(change: &Estimated) -> bool {
    direction(change) == Direction::Down && -change.value >= MATTERS_PERCENT
}

/// The first value of a sweep from which on affinity matters everywhere; none where there is none.
pub fn affinity_matters_from(points: &[PointResult]) -> Option<f64> {
    first_from(points, |point| find(point, Policy::DynamicAffinity)?.affinity_changes.get(RESPONSE).map(matters))
}

/// The first value of a sweep from which on `is` holds at every point.
fn first_from(points: &[PointResult], is: impl Fn(&PointResult) -> Option<bool>) -> Option<f64> {
    let mut sorted: Vec<(f64, bool)> =
        points.iter().filter_map(|point| Some((point.point.as_ref()?.value, is(point)?))).collect();
    sorted.sort_by(|a, b| b.0.total_cmp(&a.0));
    sorted.into_iter().take_while(|(_, holds)| *holds).last().map(|(value, _)| value)
}

fn of_sweep(points: &[PointResult]) -> Vec<String> {
    let value = |point: &PointResult| point.point.as_ref().map_or(0.0, |point| point.value);
    let parameter = points[0].point.as_ref().map_or("", |point| point.parameter.as_str());
    let (first, last) = (&points[0], &points[points.len() - 1]);
    let mix = first.subject.strip_suffix(&format!(", {parameter} {}", value(first))).unwrap_or(&first.subject);
    let over = format!("{mix}, over {parameter} from {} to {}", value(first), value(last));
    let mut told = Vec::new();
    let affinity =
        |point: &'_ PointResult| find(point, Policy::DynamicAffinity)?.affinity_changes.get(RESPONSE).copied();
    let at = |wanted: f64| points.iter().find(|point| value(point) == wanted).and_then(affinity);
    let end = affinity(last);
    match (affinity_matters_from(points).and_then(|from| Some((from, at(from)?))), end) {
        (Some((from, there)), Some(end)) if from < value(last) => told.push(format!(
            "{over}: affinity begins to matter at {from}, where it saves {} of what dynamic takes, and saves {} at {}.",
            fewer(&there),
            fewer(&end),
            value(last)
        )),
        (Some((from, there)), _) => {
            told.push(format!(
                "{over}: affinity matters at {from} only, where it saves {} of what dynamic takes.",
                fewer(&there)
            ));
        }
        (None, Some(_)) => {
            let best = points.iter().filter_map(|point| Some((value(point), affinity(point)?)));
            if let Some((place, best)) = best.min_by(|a, b| a.1.value.total_cmp(&b.1.value)) {
                told.push(format!(
                    "{over}: affinity never comes to matter; at best, at {place}, it changes what dynamic takes by {}.",
                    range(&best)
                ));
            }
        }
        (None, None) => {}
    }
    for result in &last.policies {
        let Some(policy) = Policy::ALL.into_iter().find(|policy| policy.name() == result.policy) else { continue };
        let change = |point: &'_ PointResult| find(point, policy)?.changes.get(RESPONSE).copied();
        let (Some(begin), Some(end)) = (change(first), change(last)) else { continue };
        let loses = first_from(points, |point| change(point).map(|change| direction(&change) != Direction::Down));
        let crossing = match loses {
            Some(from) => format!("from {from} on it is no longer shown to be sooner"),
            None => "it is sooner everywhere".into(),
        };
        told.push(format!(
            "{policy} against equipartition: {} at {}, {} at {}; {crossing}.",
            range(&begin),
            value(first),
            range(&end),
            value(last)
        ));
    }
    if told.is_empty() { vec![format!("{over}: nothing is compared.")] } else { told }
}
