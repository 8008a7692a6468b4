//! Studies of programs that report something else than their time, run through the engine: nothing is claimed of them.

#![expect(clippy::unwrap_used, reason = "what is none or an error fails the test")]

use machine::{CpuId, Machine, Placement};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stats::RaceRule;
use std::time::Duration;
use study::engine::{CellStudy, EngineError, Runner, RunnerError, Turn, run_blocks};
use study::max_loss::LossVerdict;
use study::{
    Claim, Comparison, Host, Metric, Plan, Race, RaceStop, Record, Session, Status, StopRule, Subject, Treatment,
    Trial, Verdict, Warning, comparison_analysis, race_analysis,
};

/// Seconds of a run that are timed, and those of the rest, in each treatment.
const PARTS_S: [(f64, f64); 3] = [(1.3, 0.4), (1.0, 0.4), (1.2, 0.4)];

/// A program with a part that is timed and another, which reports a number of them.
struct Reporting {
    parts_s: [(f64, f64); 3],
    reported: fn(timed_s: f64) -> f64,
    draws: ChaCha8Rng,
}

impl Runner for Reporting {
    fn run(&mut self, plan: &Plan, turn: &Turn) -> Result<Trial, RunnerError> {
        let mut noise = || 1.0 + 0.04 * (self.draws.random::<f64>() - 0.5);
        let (timed_s, rest_s) = self.parts_s[turn.cell.treatment];
        let (timed_s, rest_s) = (timed_s * noise(), rest_s * noise());
        let mut trial = turn.trial(plan, f64::from(turn.sequence));
        trial.status = Status::Ok;
        (trial.time_s, trial.ran_s) = (Some((self.reported)(timed_s)), Some(timed_s + rest_s));
        Ok(trial)
    }
}

fn plan(time_regex: Option<&str>) -> Plan {
    let bound = |name: &str, cpus: [u32; 2]| {
        Treatment::new(name.into(), vec![Some(Placement::from_cpus(name, cpus.map(CpuId)))])
    };
    let subject = Subject {
        name: "./stream".into(),
        argv: vec!["./stream".into()],
        time_regex: time_regex.map(str::to_owned),
        ..Subject::default()
    };
    Plan {
        subjects: vec![subject],
        threads: vec![2.into()],
        treatments: vec![Treatment::unbound(), bound("compact", [0, 1]), bound("0,0", [0, 0])],
        warmup_blocks: 0,
        timeout: Duration::from_secs(60),
        seed: 3,
        ..Plan::default()
    }
}

fn whole<S: CellStudy>(study: &S, parts_s: [(f64, f64); 3], reported: fn(f64) -> f64) -> Record<S> {
    let machine = Machine::named("pack:1 core:2 pu:1").unwrap();
    let mut session = Session::open(None, study, &machine, &Host::Modelled, &[]).unwrap();
    let mut runner = Reporting { parts_s, reported, draws: ChaCha8Rng::seed_from_u64(5) };
    let work = run_blocks(&mut session, &mut runner, &mut |_| ());
    session.end::<EngineError>(work).unwrap()
}

fn comparison(time_regex: Option<&str>, parts_s: [(f64, f64); 3], reported: fn(f64) -> f64) -> study::Analysis {
    let stop = StopRule::Paired { width: 0.001, min_blocks: 12, max_blocks: 12 };
    comparison_analysis(&whole(&Comparison { plan: plan(time_regex), stop }, parts_s, reported))
}

const REGEX: Option<&str> = Some("([0-9.]+)");

/// Gigabytes a second, fewer than the seconds of the run.
const RATE: fn(f64) -> f64 = |timed_s| 1.0 / timed_s;

#[test]
fn a_rate_that_is_read_as_a_time_is_refused() {
    let analysis = comparison(REGEX, PARTS_S, RATE);
    let [Verdict::Refused(refused)] = analysis.verdicts.as_slice() else { panic!("{:?}", analysis.verdicts) };
    assert!(refused.correlation < -0.8 && refused.runs == 36, "{refused:?}");
    assert!(analysis.is_refused("./stream"));
    assert_eq!(analysis.best, []);
    for summary in &analysis.summaries {
        assert_eq!((summary.claim, summary.ratio, summary.trials), (Claim::Refused, None, 12));
    }
}

#[test]
fn a_time_of_a_part_is_believed_and_so_is_the_wall_clock() {
    let time = comparison(REGEX, PARTS_S, |timed_s| timed_s);
    assert!(matches!(time.verdicts.as_slice(), [Verdict::Comparison(_)]), "{:?}", time.verdicts);
    assert_eq!(time.summaries[1].claim, Claim::Faster);
    // Without a regular expression the number is wall time, whatever a runner of tests makes of it.
    assert!(!comparison(None, PARTS_S, RATE).is_refused("./stream"));
}

#[test]
fn a_placement_that_helps_only_what_is_timed_is_told_with_a_warning() {
    let analysis = comparison(REGEX, [(0.13, 3.0), (0.10, 4.0), (0.12, 3.3)], |timed_s| timed_s);
    assert!(!analysis.is_refused("./stream"));
    let is_told =
        |warning: &Warning| matches!(warning, Warning::AgainstWallTime { subject, .. } if subject == "./stream");
    assert!(analysis.warnings.iter().any(is_told), "{:?}", analysis.warnings);
}

#[test]
fn a_race_by_rates_has_no_best_and_passes_no_check() {
    let stop = RaceStop { search: RaceRule::Halving { runs: 60 }, cut_off: 100.0, kept: Some("compact".into()) };
    let record = whole(&Race { plan: plan(REGEX), stop }, PARTS_S, RATE);
    let analysis = race_analysis(&record);
    assert!(matches!(analysis.cells.verdicts.as_slice(), [Verdict::Refused(_)]), "{:?}", analysis.cells.verdicts);
    assert!(analysis.races.is_empty() && analysis.cells.best.is_empty());
    let losses = LossVerdict::all(&record.plan, &analysis, 5.0);
    assert_eq!(losses.iter().map(LossVerdict::is_exceeded).collect::<Vec<_>>(), [Some(true)]);
}

#[test]
fn a_journal_from_before_metrics_had_names_is_of_times() {
    let subject: Subject = serde_json::from_str(r#"{"name":"./app","argv":["./app"]}"#).unwrap();
    assert_eq!(subject.metric, Metric::default());
}
