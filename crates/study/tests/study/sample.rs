//! Samples in a journal: whatever they measured, they are read back as they were written.

use proptest::prelude::*;
use proptest::string::string_regex;
use serde::{Deserialize, Serialize};
use stats::{Better, By, Metric, Unit};
use std::collections::BTreeMap;
use study::plan::PlanError;
use study::{Failure, FailureCause, HostFacts, Journal, Kind, Measurements, Sample};

/// A kind of study with samples and nothing else.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sampled {}

impl Kind for Sampled {
    const NAME: &'static str = "sampled";
    type Trial = Sample;

    fn check(&self) -> Result<(), PlanError> {
        Ok(())
    }
}

/// Text of any letters, and what has a meaning in names of metrics, in JSON or in SQL.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), string_regex("[a-z_:'\"\\\\\u{0}%, ]{0,12}").unwrap(), Just(String::new())]
}

fn metric() -> impl Strategy<Value = Metric> {
    let by = prop_oneof![
        Just(None),
        text().prop_map(|cause| Some(By::Cause(cause.into()))),
        text().prop_map(|level| Some(By::Distance(level.into()))),
        text().prop_map(|end| Some(By::End(end.into()))),
    ];
    let unit = prop::sample::select(vec![
        Unit::Count,
        Unit::Ms,
        Unit::Us,
        Unit::Cpus,
        Unit::Fraction,
        Unit::Index,
        Unit::PerSecond,
        Unit::PerMs,
        Unit::PerThousand,
    ]);
    let better = prop::sample::select(vec![Better::Lower, Better::Higher, Better::Neither]);
    // Few names, so that metrics differ in one thing only at times.
    let name = prop_oneof![Just("misses".to_owned()), text()];
    (name, by, unit, better, prop::option::of(text())).prop_map(|(name, by, unit, better, job)| Metric {
        name: name.into(),
        by,
        unit,
        better,
        job,
    })
}

fn finite() -> impl Strategy<Value = f64> {
    any::<f64>().prop_filter("a number", |value| value.is_finite())
}

fn result() -> impl Strategy<Value = Result<Measurements, Failure>> {
    let counts = prop::collection::vec((finite(), any::<u64>()), 0..4);
    let measurements = (
        finite().prop_map(f64::abs),
        prop::collection::btree_map(metric(), finite(), 0..6),
        prop::collection::btree_map(metric(), counts, 0..3),
        prop::collection::vec(text(), 0..3),
    );
    let causes =
        vec![FailureCause::ExitCode, FailureCause::NotStarted, FailureCause::Unreadable, FailureCause::Unknown];
    prop_oneof![
        3 => measurements.prop_map(|(makespan_s, metrics, histograms, notes)| {
            Ok(Measurements { makespan_s, metrics, histograms, notes })
        }),
        1 => (prop::sample::select(causes), text()).prop_map(|(cause, what)| Err(Failure { cause, what })),
    ]
}

/// The samples of a study as its journal gives them back.
fn read_back(samples: &[Sample]) -> Vec<Sample> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.stayput");
    let mut journal = Journal::open(&path).unwrap();
    journal.begin_study(&Sampled {}, &serde_json::json!({}), &HostFacts::default()).unwrap();
    samples.iter().for_each(|sample| journal.add(sample).unwrap());
    journal.close().unwrap();
    Journal::<Sampled>::read(&path).unwrap().trials
}

#[test]
fn metrics_that_differ_in_one_thing_are_different_ones() {
    let base = Metric::lower("misses", Unit::Count);
    let metrics = [
        Metric { better: Better::Neither, ..base.clone() },
        Metric { unit: Unit::PerMs, ..base.clone() },
        Metric { name: "misses:".into(), ..base.clone() },
        base.of_job(""),
        base.by(By::Cause("reload".into())),
        base.by(By::End("reload".into())),
        base,
    ];
    let metrics: BTreeMap<Metric, f64> = metrics.into_iter().zip((0_u8..).map(f64::from)).collect();
    let result = Ok(Measurements { metrics, ..Measurements::default() });
    let sample =
        Sample { sequence: 0, replicate: 0, subject: String::new(), policy: String::new(), started_s: 0.0, result };
    let samples = [sample.clone(), Sample { sequence: 1, replicate: 1, ..sample }];
    assert_eq!(read_back(&samples), samples);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn samples_are_read_back_as_they_were_written(
        drawn in prop::collection::vec((text(), text(), finite(), result()), 1..5),
    ) {
        let samples: Vec<Sample> = (0..)
            .zip(drawn)
            .map(|(number, (subject, policy, started_s, result))| {
                let started_s = started_s.abs();
                Sample { sequence: number, replicate: number, subject, policy, started_s, result }
            })
            .collect();
        prop_assert_eq!(read_back(&samples), samples);
    }
}
