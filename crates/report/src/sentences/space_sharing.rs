//! What a simulation of space sharing shows, in sentences.

use super::Sentence;
use super::change::{answer, fewer, more, range};
use simulation::space::verdict::{
    KindChange, MixAffinity, MixPolicy, MixesAffinity, MixesPolicy, SweptAffinity, SweptPolicy,
};
use simulation::{Change, ChangeAt, Direction, MATTERS_PERCENT, SpaceSharingVerdict};

/// A sentence on each policy, and one on what affinity adds.
pub(super) fn sentences(verdict: &SpaceSharingVerdict) -> Vec<Sentence> {
    match verdict {
        SpaceSharingVerdict::Mix { mix, policies, affinity } => of_mix(mix, policies, affinity.as_ref()),
        SpaceSharingVerdict::Mixes { mixes, policies, affinity } => of_mixes(*mixes, policies, affinity.as_ref()),
        SpaceSharingVerdict::Swept { mix, parameter, least, most, replicates, policies, affinity } => {
            let span = format!("{mix}, over {parameter} from {least} to {most}");
            of_sweep(&span, *replicates, policies, affinity.as_deref())
        }
    }
}

/// What the intervals are.
fn doubt(replicates: u32) -> &'static str {
    if replicates == 1 { "one replicate, so without intervals" } else { "95 % intervals" }
}

fn nothing_compared(subject: String) -> Vec<Sentence> {
    vec![Sentence::Headline { subject, text: "nothing is compared.".into() }]
}

fn of_mix(mix: &str, policies: &[MixPolicy], affinity: Option<&MixAffinity>) -> Vec<Sentence> {
    let sentence = |(at, shown): (usize, &MixPolicy)| {
        let MixPolicy { policy, replicates, change, kinds } = shown;
        let words = match change.direction {
            Direction::Down => {
                format!("jobs answer {} sooner than under equipartition{}", fewer(change), exceptions(kinds))
            }
            Direction::Up => format!("jobs answer {} later than under equipartition", more(change)),
            Direction::NoneShown => format!("no difference from equipartition is shown {}", range(change)),
        };
        match at {
            0 => Sentence::Headline {
                subject: mix.to_owned(),
                text: format!("under {policy} {words}; {}.", doubt(*replicates)),
            },
            _ => Sentence::Whole(format!("Under {policy} {words}.")),
        }
    };
    let told: Vec<Sentence> = policies.iter().enumerate().map(sentence).chain(affinity.map(affinity_in_mix)).collect();
    if told.is_empty() { nothing_compared(mix.to_owned()) } else { told }
}

/// Which kinds of job don't answer sooner where jobs do on average.
fn exceptions(kinds: &[KindChange]) -> String {
    let those = |direction: Direction, write: fn(&Change) -> String| -> Vec<String> {
        let kinds = kinds.iter().filter(|kind| kind.change.direction == direction);
        kinds.map(|kind| format!("{} {}", kind.kind, write(&kind.change))).collect()
    };
    let later = those(Direction::Up, |change| format!("answers {} later", more(change)));
    let open = those(Direction::NoneShown, range);
    match (later.is_empty(), open.is_empty()) {
        (true, true) if kinds.len() > 1 => "; every kind of job does".into(),
        (true, true) => String::new(),
        (false, true) => format!("; but {}", later.join(", ")),
        (true, false) => format!("; not shown of {}", open.join(", ")),
        (false, false) => format!("; but {}; not shown of {}", later.join(", "), open.join(", ")),
    }
}

fn affinity_in_mix(MixAffinity { change, matters, reload_fraction }: &MixAffinity) -> Sentence {
    let effect = match change.direction {
        Direction::Down if *matters => format!("matters: it saves {} of what dynamic takes", fewer(change)),
        Direction::Down => format!("matters little: it saves {} of what dynamic takes", fewer(change)),
        Direction::Up => format!("costs {} of what dynamic takes", more(change)),
        Direction::NoneShown => format!("shows no difference from dynamic {}", range(change)),
    };
    Sentence::Whole(format!(
        "Affinity {effect}; without it reloads take {:.2} % of the CPU time that jobs have.",
        100.0 * reload_fraction
    ))
}

fn of_mixes(mixes: u32, policies: &[MixesPolicy], affinity: Option<&MixesAffinity>) -> Vec<Sentence> {
    let one = |KindChange { mix, kind, change }: &KindChange| format!("{kind} in {mix} {}", answer(change));
    let sentence = |(at, shown): (usize, &MixesPolicy)| {
        let doubt = if at == 0 { format!("; {}", doubt(shown.replicates)) } else { String::new() };
        Sentence::Whole(format!(
            "Under {}, {} of {} kinds of job in {} mixes answer sooner than under equipartition: at best {}, at worst {}{doubt}.",
            shown.policy,
            shown.sooner,
            shown.kinds,
            shown.mixes,
            one(&shown.best),
            one(&shown.worst)
        ))
    };
    let told: Vec<Sentence> =
        policies.iter().enumerate().map(sentence).chain(affinity.map(affinity_in_mixes)).collect();
    if told.is_empty() { nothing_compared(format!("{mixes} mixes")) } else { told }
}

fn affinity_in_mixes(MixesAffinity { mixes, matters, best_mix, best }: &MixesAffinity) -> Sentence {
    let gain = match best.direction {
        Direction::Down => format!("it saves most in {best_mix}, {}", fewer(best)),
        _ => format!("it is not shown to save anything, at best {} in {best_mix}", range(best)),
    };
    Sentence::Whole(format!(
        "Affinity saves {MATTERS_PERCENT} % or more of what dynamic takes in {matters} of {mixes} mixes; {gain}."
    ))
}

fn of_sweep(
    span: &str,
    replicates: Option<u32>,
    policies: &[SweptPolicy],
    affinity: Option<&SweptAffinity>,
) -> Vec<Sentence> {
    let first = match (affinity, replicates) {
        (Some(affinity), Some(replicates)) => format!("{}; {}.", affinity_in_sweep(affinity), doubt(replicates)),
        (Some(affinity), None) => format!("{}.", affinity_in_sweep(affinity)),
        (None, Some(replicates)) if !policies.is_empty() => {
            format!("affinity is not compared with dynamic; {}.", doubt(replicates))
        }
        _ => return nothing_compared(span.to_owned()),
    };
    let first = Sentence::Headline { subject: span.to_owned(), text: first };
    std::iter::once(first).chain(policies.iter().map(policy_in_sweep)).collect()
}

/// What affinity does over a sweep.
fn affinity_in_sweep(SweptAffinity { first, last, best, matters_at, matters_from }: &SweptAffinity) -> String {
    let list = |values: &[f64]| values.iter().map(f64::to_string).collect::<Vec<_>>().join(", ");
    let effect = |ChangeAt { change, .. }: &ChangeAt| match change.direction {
        Direction::Down => format!("it saves {} of what dynamic takes", fewer(change)),
        Direction::Up => format!("it costs {} of what dynamic takes", more(change)),
        Direction::NoneShown => format!("no difference from dynamic is shown {}", range(change)),
    };
    let Some(from) = matters_from else {
        return if matters_at.is_empty() {
            format!("affinity matters nowhere; at best, at {}, {}", best.at, effect(best))
        } else {
            format!("affinity matters at {} and then no longer: at {} {}", list(matters_at), last.at, effect(last))
        };
    };
    let earlier: Vec<f64> = matters_at.iter().copied().filter(|value| *value < from.at).collect();
    let too = match earlier.as_slice() {
        [] => String::new(),
        earlier => format!("; it matters at {}, too, but not everywhere in between", list(earlier)),
    };
    if from.at == last.at && earlier.is_empty() {
        format!("affinity matters at {} only, where {}", from.at, effect(from))
    } else if from.at == last.at {
        format!("affinity matters at {}, where {}{too}", from.at, effect(from))
    } else if from.at == first.at {
        let (first_effect, last_saving) = (effect(first), fewer(&last.change));
        format!("affinity matters everywhere: at {} {first_effect}, at {} {last_saving}", first.at, last.at)
    } else {
        format!(
            "affinity begins to matter at {}, where {}, and saves {} at {}{too}",
            from.at,
            effect(from),
            fewer(&last.change),
            last.at
        )
    }
}

/// What one policy does over a sweep.
fn policy_in_sweep(shown: &SweptPolicy) -> Sentence {
    let SweptPolicy { policy, first, last, points, sooner, not_sooner_from } = shown;
    let where_sooner = match not_sooner_from {
        _ if sooner == points => "sooner everywhere".into(),
        _ if *sooner == 0 => "nowhere shown to be sooner".into(),
        Some(from) => format!("from {from} on not shown to be sooner"),
        None => format!("shown to be sooner at {sooner} of {points} points"),
    };
    Sentence::Whole(format!(
        "Under {policy} against equipartition: {} at {}, {} at {}; {where_sooner}.",
        answer(&first.change),
        first.at,
        answer(&last.change),
        last.at
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::simulation::metrics::{RELOAD_FRACTION, RESPONSE};
    use ::simulation::{Estimated, PointResult, PolicyResult, SweepPoint, affinity_matters_at, affinity_matters_from};
    use sim::space::Policy;
    use std::collections::BTreeMap;

    /// What is said of `points`.
    fn space_sharing(points: &[PointResult]) -> Vec<String> {
        let verdict = SpaceSharingVerdict::new(points);
        verdict.iter().flat_map(sentences).map(|sentence| sentence.to_string()).collect()
    }

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
            estimates: BTreeMap::from([(RELOAD_FRACTION, near(0.0125))]),
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
        policies[1].changes = kinds.iter().map(|(kind, change)| (RESPONSE.of_job(kind), *change)).collect();
        policies[1].changes.insert(RESPONSE, dynamic);
        if let Some(change) = affinity {
            let mut result = result(Policy::DynamicAffinity, replicates);
            result.affinity_changes.insert(RESPONSE, change);
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
