//! The answer of a space-sharing simulation in sentences, each with its doubt.

use super::results::{Direction, direction, fewer, more, range};
use super::{Estimated, PointResult, PolicyResult, RESPONSE, SweepPoint};
use sim::space::Policy;

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
    point.policy(policy.name()).filter(|result| result.replicates > 0)
}

/// Which kinds of job don't answer sooner where jobs do on average.
fn exceptions(kinds: &[(&str, Estimated)]) -> String {
    let that = |wanted: Direction, write: fn(&Estimated) -> String| -> Vec<String> {
        let kinds = kinds.iter().filter(|(_, change)| direction(change) == wanted);
        kinds.map(|(kind, change)| format!("{kind} {}", write(change))).collect()
    };
    let later = that(Direction::Up, |change| format!("answers {} later", more(change)));
    let open = that(Direction::NoneShown, range);
    match (later.is_empty(), open.is_empty()) {
        (true, true) if kinds.len() > 1 => "; every kind of job does".into(),
        (true, true) => String::new(),
        (false, true) => format!("; but {}", later.join(", ")),
        (true, false) => format!("; not shown of {}", open.join(", ")),
        (false, false) => format!("; but {}; not shown of {}", later.join(", "), open.join(", ")),
    }
}

/// What the intervals are.
fn doubt(result: &PolicyResult) -> &'static str {
    if result.replicates == 1 { "one replicate, so without intervals" } else { "95 % intervals" }
}

fn of_one(point: &PointResult) -> Vec<String> {
    let mut told = Vec::new();
    for result in &point.policies {
        let Some(change) = result.changes.get(RESPONSE) else { continue };
        let each = exceptions(&kinds(result));
        let doubt = if told.is_empty() { format!("; {}", doubt(result)) } else { String::new() };
        let start = if told.is_empty() { format!("{}: under", point.subject) } else { "Under".into() };
        let words = match direction(change) {
            Direction::Down => format!("jobs answer {} sooner than under equipartition{each}", fewer(change)),
            Direction::Up => format!("jobs answer {} later than under equipartition", more(change)),
            Direction::NoneShown => format!("no difference from equipartition is shown {}", range(change)),
        };
        told.push(format!("{start} {} {words}{doubt}.", result.policy));
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
            Direction::NoneShown => format!("Affinity shows no difference from dynamic {}; {why}.", range(change)),
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
        let one = |(mix, kind, change): &(&str, &str, Estimated)| format!("{kind} in {mix} {}", answer(change));
        let compared: Vec<&PolicyResult> = points.iter().filter_map(|point| find(point, policy)).collect();
        let doubt = if told.is_empty() { format!("; {}", doubt(compared[0])) } else { String::new() };
        told.push(format!(
            "Under {policy}, {sooner} of {} kinds of job in {} mixes answer sooner than under equipartition: at best {}, at worst {}{doubt}.",
            all.len(),
            compared.len(),
            one(most),
            one(least)
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
    if told.is_empty() { vec![format!("{} mixes: nothing is compared.", points.len())] } else { told }
}

/// Whether affinity matters: its interval leaves no doubt, and it is not too little.
fn matters(change: &Estimated) -> bool {
    direction(change) == Direction::Down && -change.value >= MATTERS_PERCENT
}

/// The first value of a sweep from which on affinity matters everywhere; none where there is none.
pub fn affinity_matters_from(points: &[PointResult]) -> Option<f64> {
    Some(begins(&over_affinity(points), matters)?.0)
}

/// The values of a sweep at which affinity matters, rising.
pub fn affinity_matters_at(points: &[PointResult]) -> Vec<f64> {
    over_affinity(points).into_iter().filter(|(_, change)| matters(change)).map(|(value, _)| value).collect()
}

/// By rising value of the sweep, how affinity changes response times.
fn over_affinity(points: &[PointResult]) -> Vec<(f64, Estimated)> {
    over(points, |point| find(point, Policy::DynamicAffinity)?.affinity_changes.get(RESPONSE).copied())
}

/// By rising value of the sweep, what `change` finds at its points.
fn over(points: &[PointResult], change: impl Fn(&PointResult) -> Option<Estimated>) -> Vec<(f64, Estimated)> {
    let found = points.iter().filter_map(|point| Some((point.point.as_ref()?.value, change(point)?)));
    let mut sorted: Vec<(f64, Estimated)> = found.collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    sorted
}

/// The first value from which on `is` holds at every point, and the change there.
fn begins(changes: &[(f64, Estimated)], is: impl Fn(&Estimated) -> bool) -> Option<(f64, Estimated)> {
    changes.iter().rev().take_while(|(_, change)| is(change)).last().copied()
}

fn of_sweep(points: &[PointResult]) -> Vec<String> {
    let swept = || points.iter().filter_map(|point| point.point.as_ref());
    let Some(SweepPoint { parameter, value }) = swept().next() else { return Vec::new() };
    let subject = &points[0].subject;
    let mix = subject.strip_suffix(&format!(", {parameter} {value}")).unwrap_or(subject);
    let least = swept().map(|point| point.value).fold(*value, f64::min);
    let most = swept().map(|point| point.value).fold(*value, f64::max);
    let span = format!("{mix}, over {parameter} from {least} to {most}");
    let doubt = points.iter().flat_map(|point| &point.policies).find(|result| !result.changes.is_empty()).map(doubt);
    let of_policy = |policy: Policy| {
        let changes = over(points, |point| find(point, policy)?.changes.get(RESPONSE).copied());
        Some(format!("Under {policy} against equipartition: {}.", policy_over(&changes)?))
    };
    let affinity = affinity_over(&over_affinity(points));
    let mut told: Vec<String> = Policy::ALL.into_iter().filter_map(of_policy).collect();
    match (affinity, doubt) {
        (Some(words), Some(doubt)) => told.insert(0, format!("{span}: {words}; {doubt}.")),
        (None, Some(doubt)) if !told.is_empty() => {
            told.insert(0, format!("{span}: affinity is not compared with dynamic; {doubt}."));
        }
        (Some(words), None) => told.insert(0, format!("{span}: {words}.")),
        _ => return vec![format!("{span}: nothing is compared.")],
    }
    told
}

/// What affinity does over a sweep, by rising value; nothing where it is compared nowhere.
fn affinity_over(changes: &[(f64, Estimated)]) -> Option<String> {
    let ((first, begin), (last, end)) = (changes.first()?, changes.last()?);
    let at: Vec<f64> = changes.iter().filter(|(_, change)| matters(change)).map(|(value, _)| *value).collect();
    let list = |values: &[f64]| values.iter().map(f64::to_string).collect::<Vec<_>>().join(", ");
    let effect = |change: &Estimated| match direction(change) {
        Direction::Down => format!("it saves {} of what dynamic takes", fewer(change)),
        Direction::Up => format!("it costs {} of what dynamic takes", more(change)),
        Direction::NoneShown => format!("no difference from dynamic is shown {}", range(change)),
    };
    let Some((from, there)) = begins(changes, matters) else {
        let (place, best) = changes.iter().min_by(|a, b| a.1.value.total_cmp(&b.1.value))?;
        return Some(if at.is_empty() {
            format!("affinity matters nowhere; at best, at {place}, {}", effect(best))
        } else {
            format!("affinity matters at {} and then no longer: at {last} {}", list(&at), effect(end))
        });
    };
    let earlier: Vec<f64> = at.iter().copied().filter(|value| *value < from).collect();
    let too = match earlier.as_slice() {
        [] => String::new(),
        earlier => format!("; it matters at {}, too, but not everywhere in between", list(earlier)),
    };
    Some(if from == *last && earlier.is_empty() {
        format!("affinity matters at {from} only, where {}", effect(&there))
    } else if from == *last {
        format!("affinity matters at {from}, where {}{too}", effect(&there))
    } else if from == *first {
        format!("affinity matters everywhere: at {first} {}, at {last} {}", effect(begin), fewer(end))
    } else {
        format!(
            "affinity begins to matter at {from}, where {}, and saves {} at {last}{too}",
            effect(&there),
            fewer(end)
        )
    })
}

/// What a policy does over a sweep, by rising value; nothing where it is compared nowhere.
fn policy_over(changes: &[(f64, Estimated)]) -> Option<String> {
    let ((first, begin), (last, end)) = (changes.first()?, changes.last()?);
    let isnt_sooner = |change: &Estimated| direction(change) != Direction::Down;
    let sooner = changes.iter().filter(|(_, change)| !isnt_sooner(change)).count();
    let where_sooner = match begins(changes, isnt_sooner) {
        _ if sooner == changes.len() => "sooner everywhere".into(),
        _ if sooner == 0 => "nowhere shown to be sooner".into(),
        Some((from, _)) => format!("from {from} on not shown to be sooner"),
        None => format!("shown to be sooner at {sooner} of {} points", changes.len()),
    };
    Some(format!("{} at {first}, {} at {last}; {where_sooner}", answer(begin), answer(end)))
}

/// By how much jobs answer sooner or later.
fn answer(change: &Estimated) -> String {
    match direction(change) {
        Direction::Down => format!("{} sooner", fewer(change)),
        Direction::Up => format!("{} later", more(change)),
        Direction::NoneShown => format!("no difference shown {}", range(change)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// A change in percent with an interval of 0.4.
    fn near(percent: f64) -> Estimated {
        Estimated { value: percent, low: Some(percent - 0.2), high: Some(percent + 0.2) }
    }

    fn alone(percent: f64) -> Estimated {
        Estimated { value: percent, low: None, high: None }
    }

    fn result(policy: Policy, replicates: u32) -> PolicyResult {
        PolicyResult {
            policy: policy.name().into(),
            replicates,
            estimates: BTreeMap::from([("reload_fraction".into(), near(0.0125))]),
            changes: BTreeMap::new(),
            affinity_changes: BTreeMap::new(),
            slices: Vec::new(),
            intervals: Vec::new(),
        }
    }

    /// A mix of which jobs change by so much under dynamic, of each kind, and by so much more with affinity.
    fn mix(name: &str, dynamic: Estimated, kinds: &[(&str, Estimated)], affinity: Option<Estimated>) -> PointResult {
        let replicates = if dynamic.low.is_some() { 9 } else { 1 };
        let mut policies = vec![result(Policy::Equipartition, replicates), result(Policy::Dynamic, replicates)];
        policies[1].changes = kinds.iter().map(|(kind, change)| (format!("response_ms:{kind}"), *change)).collect();
        policies[1].changes.insert(RESPONSE.into(), dynamic);
        if let Some(change) = affinity {
            let mut result = result(Policy::DynamicAffinity, replicates);
            result.affinity_changes.insert(RESPONSE.into(), change);
            policies.push(result);
        }
        PointResult { subject: name.into(), point: None, reference: Some("equipartition".into()), policies }
    }

    /// A sweep of which dynamic changes by the first percentage of each value, and affinity on top by the second.
    fn sweep(points: &[(f64, f64, f64)]) -> Vec<PointResult> {
        let point = |&(value, dynamic, affinity): &(f64, f64, f64)| PointResult {
            point: Some(SweepPoint { parameter: "future".into(), value }),
            ..mix(&format!("A+B, future {value}"), near(dynamic), &[], Some(near(affinity)))
        };
        points.iter().map(point).collect()
    }

    #[test]
    fn a_mix_is_told_by_policy_with_the_kinds_that_gain_nothing() {
        let told = |kinds: &[(&str, Estimated)], affinity: f64| {
            space_sharing(&[mix("A+B", near(-12.0), kinds, Some(near(affinity)))])
        };
        let start = "A+B: under dynamic jobs answer 12.0 % (11.8 to 12.2) sooner than under equipartition";
        let why = "without it reloads take 1.25 % of the CPU time that jobs have.";
        let (gains, loses, open) = (near(-5.0), near(4.0), near(0.1));
        for (kinds, each) in [
            (&[("A", gains)][..], ""),
            (&[("A", gains), ("B", gains)], "; every kind of job does"),
            (&[("A", gains), ("B", loses)], "; but B answers 4.0 % (3.8 to 4.2) later"),
            (&[("A", gains), ("B", open)], "; not shown of B (-0.1 to +0.3 %)"),
            (&[("A", loses), ("B", open)], "; but A answers 4.0 % (3.8 to 4.2) later; not shown of B (-0.1 to +0.3 %)"),
        ] {
            assert_eq!(told(kinds, -2.0)[0], format!("{start}{each}; 95 % intervals."));
        }
        for (affinity, words) in [
            (-2.0, "Affinity matters: it saves 2.0 % (1.8 to 2.2) of what dynamic takes"),
            (-0.5, "Affinity matters little: it saves 0.5 % (0.3 to 0.7) of what dynamic takes"),
            (0.1, "Affinity shows no difference from dynamic (-0.1 to +0.3 %)"),
            (3.0, "Affinity costs 3.0 % (2.8 to 3.2) of what dynamic takes"),
        ] {
            assert_eq!(told(&[], affinity)[1], format!("{words}; {why}"));
        }
    }

    #[test]
    fn without_intervals_or_anything_to_compare_that_is_said() {
        let once = space_sharing(&[mix("A", alone(-12.0), &[("A", alone(-12.0))], Some(alone(-0.01)))]);
        assert_eq!(
            once,
            [
                "A: under dynamic jobs answer 12.0 % sooner than under equipartition; one replicate, so without intervals.",
                "Affinity shows no difference from dynamic (0.0 %); without it reloads take 1.25 % of the CPU time that jobs have."
            ]
        );
        let later = space_sharing(&[mix("A", near(7.0), &[], None)]);
        assert_eq!(
            later,
            ["A: under dynamic jobs answer 7.0 % (6.8 to 7.2) later than under equipartition; 95 % intervals."]
        );
        let same = space_sharing(&[mix("A", near(0.1), &[], None)]);
        assert_eq!(
            same,
            ["A: under dynamic no difference from equipartition is shown (-0.1 to +0.3 %); 95 % intervals."]
        );
        let nothing = |point: PointResult| PointResult { policies: vec![result(Policy::Equipartition, 9)], ..point };
        assert_eq!(space_sharing(&[nothing(mix("A", near(1.0), &[], None))]), ["A: nothing is compared."]);
        let two = ["A", "B"].map(|name| nothing(mix(name, near(1.0), &[], None)));
        assert_eq!(space_sharing(&two), ["2 mixes: nothing is compared."]);
        let swept: Vec<PointResult> = sweep(&[(1.0, 0.0, 0.0), (4.0, 0.0, 0.0)]).into_iter().map(nothing).collect();
        assert_eq!(space_sharing(&swept), ["A+B, over future from 1 to 4: nothing is compared."]);
        assert_eq!(space_sharing(&[]), Vec::<String>::new());
    }

    #[test]
    fn several_mixes_are_told_by_their_best_and_their_worst() {
        let mixes = [
            mix("A+B", near(-12.0), &[("A", near(-20.0)), ("B", near(0.1))], Some(near(-1.0))),
            mix("A+C", near(-12.0), &[("A", near(-7.0)), ("C", near(3.0))], Some(near(-0.9))),
        ];
        assert_eq!(
            space_sharing(&mixes),
            [
                "Under dynamic, 2 of 4 kinds of job in 2 mixes answer sooner than under equipartition: at best A in A+B 20.0 % (19.8 to 20.2) sooner, at worst C in A+C 3.0 % (2.8 to 3.2) later; 95 % intervals.",
                "Affinity saves 1 % or more of what dynamic takes in 1 of 2 mixes; it saves most in A+B, 1.0 % (0.8 to 1.2).",
            ]
        );
        let none = ["A", "B"].map(|name| mix(name, near(-12.0), &[("A", near(-12.0))], Some(near(0.1))));
        assert_eq!(
            space_sharing(&none)[1],
            "Affinity saves 1 % or more of what dynamic takes in 0 of 2 mixes; it is not shown to save anything, at best (-0.1 to +0.3 %) in A."
        );
    }

    #[test]
    fn affinity_matters_from_the_first_point_after_which_it_always_does() {
        let saves = |percent: &str| format!("it saves {percent} of what dynamic takes");
        /// What affinity changes at each point, from where on and where it matters, and the words.
        type Case = (&'static [f64; 4], Option<f64>, &'static [f64], String);
        let cases: [Case; 8] = [
            (
                &[-0.1, -0.5, -2.0, -9.0],
                Some(16.0),
                &[16.0, 64.0],
                format!(
                    "affinity begins to matter at 16, where {}, and saves 9.0 % (8.8 to 9.2) at 64",
                    saves("2.0 % (1.8 to 2.2)")
                ),
            ),
            (
                &[-1.0, -1.5, -2.0, -3.0],
                Some(1.0),
                &[1.0, 4.0, 16.0, 64.0],
                format!("affinity matters everywhere: at 1 {}, at 64 3.0 % (2.8 to 3.2)", saves("1.0 % (0.8 to 1.2)")),
            ),
            (
                &[0.0, -0.1, -0.5, -3.0],
                Some(64.0),
                &[64.0],
                format!("affinity matters at 64 only, where {}", saves("3.0 % (2.8 to 3.2)")),
            ),
            (
                &[0.0, -2.0, -0.5, -3.0],
                Some(64.0),
                &[4.0, 64.0],
                format!(
                    "affinity matters at 64, where {}; it matters at 4, too, but not everywhere in between",
                    saves("3.0 % (2.8 to 3.2)")
                ),
            ),
            (
                &[-2.0, -0.5, -3.0, -4.0],
                Some(16.0),
                &[1.0, 16.0, 64.0],
                format!(
                    "affinity begins to matter at 16, where {}, and saves 4.0 % (3.8 to 4.2) at 64; it matters at 1, too, but not everywhere in between",
                    saves("3.0 % (2.8 to 3.2)")
                ),
            ),
            (
                &[0.0, -2.0, -3.0, -0.5],
                None,
                &[4.0, 16.0],
                format!("affinity matters at 4, 16 and then no longer: at 64 {}", saves("0.5 % (0.3 to 0.7)")),
            ),
            (
                &[0.3, 0.0, -0.1, 0.4],
                None,
                &[],
                "affinity matters nowhere; at best, at 16, no difference from dynamic is shown (-0.3 to +0.1 %)".into(),
            ),
            (
                &[0.0, -0.9, -0.5, 2.0],
                None,
                &[],
                format!("affinity matters nowhere; at best, at 4, {}", saves("0.9 % (0.7 to 1.1)")),
            ),
        ];
        for (affinity, from, at, words) in cases {
            let values = [1.0, 4.0, 16.0, 64.0];
            let mut points: Vec<_> =
                values.iter().zip(affinity).map(|(&value, &change)| (value, -5.0, change)).collect();
            for _ in 0..points.len() {
                // Whatever value the sweep begins with.
                points.rotate_left(1);
                let points = sweep(&points);
                assert_eq!((affinity_matters_from(&points), affinity_matters_at(&points)), (from, at.to_vec()));
                let told = space_sharing(&points);
                assert_eq!(told[0], format!("A+B, over future from 1 to 64: {words}; 95 % intervals."));
            }
        }
    }

    #[test]
    fn a_sweep_tells_where_each_policy_is_sooner() {
        for (dynamic, words) in [
            ([-9.0, -8.0, -7.0], "9.0 % (8.8 to 9.2) sooner at 1, 7.0 % (6.8 to 7.2) sooner at 16; sooner everywhere"),
            (
                [-9.0, 0.1, 7.0],
                "9.0 % (8.8 to 9.2) sooner at 1, 7.0 % (6.8 to 7.2) later at 16; from 4 on not shown to be sooner",
            ),
            (
                [0.1, 0.1, 7.0],
                "no difference shown (-0.1 to +0.3 %) at 1, 7.0 % (6.8 to 7.2) later at 16; nowhere shown to be sooner",
            ),
            (
                [0.1, -9.0, -7.0],
                "no difference shown (-0.1 to +0.3 %) at 1, 7.0 % (6.8 to 7.2) sooner at 16; shown to be sooner at 2 of 3 points",
            ),
        ] {
            let points: Vec<_> =
                [1.0, 4.0, 16.0].into_iter().zip(dynamic).map(|(value, change)| (value, change, 0.0)).collect();
            assert_eq!(space_sharing(&sweep(&points))[1], format!("Under dynamic against equipartition: {words}."));
        }
    }

    #[test]
    fn points_of_an_unfinished_sweep_are_left_out() {
        let mut points = sweep(&[(1.0, -9.0, 0.0), (4.0, -9.0, -3.0), (16.0, -9.0, 0.0)]);
        points[2].policies.iter_mut().for_each(|result| {
            result.replicates = 0;
            result.changes.clear();
            result.affinity_changes.clear();
        });
        assert_eq!(affinity_matters_from(&points), Some(4.0));
        let told = space_sharing(&points);
        assert!(
            told[0].starts_with("A+B, over future from 1 to 16: affinity matters at 4 only, where "),
            "{}",
            told[0]
        );
        assert!(told[1].contains(" sooner at 4; sooner everywhere"), "{}", told[1]);
    }
}
