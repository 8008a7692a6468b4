//! Studies on machines that do something else as well, run through the engine: what they claim says so.

#![expect(clippy::unwrap_used, reason = "what is none or an error fails the test")]

use machine::{CpuId, Machine, Placement};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stats::{Cause, Disturbance, RaceRule};
use std::time::Duration;
use study::engine::{CellStudy, EngineError, Runner, RunnerError, Turn, run_blocks};
use study::verdict::{ComparisonHeadline, Difference, RaceFinding, Verdict};
use study::{
    Comparison, Ending, Host, HostState, Journal, PastSession, Plan, Race, RaceStop, Record, Session, Status, StopRule,
    Subject, SubjectModel, Treatment, Trial, comparison_analysis, race_analysis,
};

/// Runs that take as long as their treatment says, beside a neighbour that makes all of them longer.
struct Beside {
    /// Time of each treatment on a quiet machine, in seconds.
    times_s: Vec<f64>,
    /// How many times as long a run takes at a second of the study.
    slowness: fn(f64) -> f64,
    now_s: f64,
    draws: ChaCha8Rng,
}

impl Beside {
    fn new(times_s: &[f64], slowness: fn(f64) -> f64) -> Self {
        Self { times_s: times_s.to_vec(), slowness, now_s: 0.0, draws: ChaCha8Rng::seed_from_u64(7) }
    }
}

impl Runner for Beside {
    fn run(&mut self, plan: &Plan, turn: &Turn) -> Result<Trial, RunnerError> {
        let mut trial = turn.trial(plan, self.now_s);
        let noise = 1.0 + 0.01 * (self.draws.random::<f64>() - 0.5);
        let time_s = self.times_s[turn.cell.treatment] * noise * (self.slowness)(self.now_s);
        (trial.status, trial.time_s, trial.ran_s) = (Status::Ok, Some(time_s), Some(time_s));
        self.now_s += time_s;
        Ok(trial)
    }
}

/// The machine does nothing else.
const QUIET: fn(f64) -> f64 = |_| 1.0;
/// A neighbour that wants ever more: times double within two minutes.
const EVER_MORE: fn(f64) -> f64 = |now_s| 1.0 + now_s / 120.0;
/// A neighbour that is there for 20 of 40 seconds.
const COMES_AND_GOES: fn(f64) -> f64 = |now_s| if ((now_s / 20.0) as u64).is_multiple_of(2) { 1.0 } else { 1.5 };

fn plan(placements: usize) -> Plan {
    let bound = |number: usize| {
        let cpus = [CpuId(number as u32 % 2), CpuId((number as u32 + 1) % 2)];
        let name = format!("placement {number}");
        Treatment::new(name.clone(), vec![Some(Placement::from_cpus(&name, cpus))])
    };
    Plan {
        subjects: vec![Subject { name: "./app".into(), argv: vec!["./app".into()], ..Subject::default() }],
        threads: vec![2.into()],
        treatments: std::iter::once(Treatment::unbound()).chain((0..placements).map(bound)).collect(),
        warmup_blocks: 0,
        timeout: Duration::from_secs(60),
        seed: 3,
        ..Plan::default()
    }
}

fn whole<S: CellStudy>(study: &S, mut runner: Beside) -> Record<S> {
    let machine = Machine::named("pack:1 core:2 pu:1").unwrap();
    let mut session = Session::open(None, study, &machine, &Host::Modelled, &[]).unwrap();
    let work = run_blocks(&mut session, &mut runner, &mut |_| ());
    session.end::<EngineError>(work).unwrap()
}

/// Unbound against a placement that is 7 % faster and one that is not, for 24 blocks.
fn comparison(slowness: fn(f64) -> f64) -> Record<Comparison> {
    let stop = StopRule::Paired { width: 0.001, min_blocks: 24, max_blocks: 24 };
    whole(&Comparison { plan: plan(2), stop }, Beside::new(&[1.07, 1.0, 1.07], slowness))
}

/// Between two states of the machine others used so many CPUs.
fn session(others_busy_cpus: Option<f64>, load: f64, steal_share: f64) -> PastSession {
    let state = |at_s: f64| HostState {
        unix_s: at_s - 1.0,
        load_average: Some([load, 0.0, 0.0]),
        steal_s: Some(steal_share * 2.0 * at_s),
        total_cpu_s: Some(2.0 * at_s),
        busy_cpu_s: others_busy_cpus.map(|cpus| (cpus + 0.9) * at_s),
        own_cpu_s: Some(0.9 * at_s),
        ..HostState::default()
    };
    PastSession { command_line: Vec::new(), before: state(0.0), after: Some(state(100.0)) }
}

/// What is said of a comparison: whether placement matters, and how each placement differs.
fn verdict(record: &Record<Comparison>) -> (ComparisonHeadline, Vec<(Difference, Vec<Disturbance>)>) {
    let analysis = comparison_analysis(record);
    let [Verdict::Comparison(verdict)] = &analysis.verdicts[..] else { panic!("{:?}", analysis.verdicts) };
    assert_eq!(analysis.verdicts[0].disturbances(), verdict.headline.disturbances());
    let placements = verdict.placements.iter().map(|shown| (shown.difference, shown.disturbances.clone()));
    (verdict.headline.clone(), placements.collect())
}

fn causes(disturbances: &[Disturbance]) -> Vec<Cause> {
    disturbances.iter().map(|disturbance| disturbance.cause).collect()
}

fn causes_of(record: &Record<Comparison>) -> Vec<Cause> {
    let (headline, placements) = verdict(record);
    assert!(matches!(headline, ComparisonHeadline::Matters { .. }), "{headline:?}");
    assert!(matches!(placements[0].0, Difference::Faster { .. }), "{placements:?}");
    assert_eq!(placements[0].1, headline.disturbances());
    assert_eq!(placements[1].1, [], "nothing is shown of it that could be qualified");
    causes(headline.disturbances())
}

#[test]
fn a_difference_on_a_quiet_machine_is_shown_plainly() {
    assert_eq!(causes_of(&comparison(QUIET)), []);
    let mut record = comparison(QUIET);
    record.sessions = vec![session(Some(0.05), 0.05, 0.0)];
    assert_eq!(causes_of(&record), []);
    assert!(!serde_json::to_string(&comparison_analysis(&record).verdicts).unwrap().contains("disturbances"));
}

#[test]
fn a_difference_beside_a_neighbour_is_measured_on_a_busy_machine() {
    assert_eq!(causes_of(&comparison(EVER_MORE)), [Cause::DriftingTimes, Cause::ChangingTimes]);
    assert_eq!(causes_of(&comparison(COMES_AND_GOES)), [Cause::ChangingTimes]);
    let json = serde_json::to_value(comparison_analysis(&comparison(COMES_AND_GOES)).verdicts).unwrap();
    assert_eq!(json[0]["headline"]["disturbances"][0]["cause"], "changing-times");
    assert_eq!(json[0]["placements"][0]["disturbances"], json[0]["headline"]["disturbances"]);
}

#[test]
fn a_large_difference_is_shown_plainly_beside_a_small_neighbour() {
    let stop = StopRule::Paired { width: 0.001, min_blocks: 24, max_blocks: 24 };
    let study = Comparison { plan: plan(2), stop };
    let record = whole(&study, Beside::new(&[3.0, 1.0, 3.0], |now_s| 1.0 + now_s / 600.0));
    assert_eq!(causes_of(&record), []);
}

#[test]
fn the_machine_s_own_numbers_tell_of_load_and_of_steal_time() {
    let with = |sessions: Vec<PastSession>| {
        let mut record = comparison(QUIET);
        record.sessions = sessions;
        causes_of(&record)
    };
    let [Cause::Load { busy_cpus }] = with(vec![session(Some(1.2), 0.0, 0.0)])[..] else { panic!("no load") };
    assert!((busy_cpus - 1.2).abs() < 1e-9);
    assert_eq!(with(vec![session(Some(0.1), 2.0, 0.0)]), [], "the load was over when the study began");
    let [Cause::Steal { share }] = with(vec![session(Some(0.1), 0.0, 0.08)])[..] else { panic!("no steal time") };
    assert!((share - 0.08).abs() < 1e-9);
}

#[test]
fn journals_that_do_not_tell_what_others_used_are_judged_by_the_load_average() {
    let with = |sessions: Vec<PastSession>| {
        let mut record = comparison(QUIET);
        record.sessions = sessions;
        causes_of(&record)
    };
    assert_eq!(with(vec![session(None, 1.2, 0.0)]), [Cause::LoadBefore { load_average: 1.2 }]);
    assert_eq!(with(vec![session(None, 0.2, 0.0)]), []);
    let unknown = PastSession { after: None, ..session(Some(0.1), 1.5, 0.0) };
    assert_eq!(with(vec![unknown]), [Cause::LoadBefore { load_average: 1.5 }], "it was interrupted");
    let state: HostState = serde_json::from_str(
        r#"{"unix_s":1.0,"load_average":[0.1,0.1,0.1],"steal_s":0.0,"total_cpu_s":9.0,"governors":[],"smt_active":null,
            "cgroup_cpu_limit":null,"available_memory_bytes":null}"#,
    )
    .unwrap();
    assert_eq!((state.busy_cpu_s, state.own_cpu_s), (None, None));
}

#[test]
fn nothing_disturbs_a_model() {
    let mut record = comparison(EVER_MORE);
    record.sessions = vec![session(Some(1.2), 1.2, 0.1)];
    record.plan.plan.subjects[0].model = Some(SubjectModel { times: Vec::new(), noise: Default::default() });
    assert_eq!(causes_of(&record), []);
}

#[test]
fn the_journal_keeps_what_others_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("study.stayput");
    let stop = StopRule::Paired { width: 0.001, min_blocks: 2, max_blocks: 2 };
    let study = Comparison { plan: plan(1), stop };
    let machine = Machine::named("pack:1 core:2 pu:1").unwrap();
    let mut session = Session::open(Some(&path), &study, &machine, &Host::Real, &["stayput".into()]).unwrap();
    let work = run_blocks(&mut session, &mut Beside::new(&[1.0, 1.0], QUIET), &mut |_| ());
    assert!(matches!(work, Ok(Ending::Finished)));
    session.end::<EngineError>(work).unwrap();
    let record = Journal::<Comparison>::read(&path).unwrap();
    let PastSession { before, after, .. } = &record.sessions[0];
    let after = after.as_ref().unwrap();
    assert!(before.busy_cpu_s.unwrap() > 0.0 && before.busy_cpu_s <= after.busy_cpu_s);
    assert!(before.own_cpu_s.is_some() && before.own_cpu_s <= after.own_cpu_s);
}

/// A race of unbound and `gains` placements.
fn race(times_s: &[f64], slowness: fn(f64) -> f64) -> Record<Race> {
    let stop = RaceStop { search: RaceRule::Halving { runs: 80 }, cut_off: 1.5, kept: None };
    whole(&Race { plan: plan(times_s.len() - 1), stop }, Beside::new(times_s, slowness))
}

fn outcome(record: &Record<Race>) -> (RaceFinding, Vec<Cause>) {
    let analysis = race_analysis(record);
    let [Verdict::Race(verdict)] = &analysis.cells.verdicts[..] else { panic!("{:?}", analysis.cells.verdicts) };
    let outcome = verdict.outcome.as_ref().unwrap();
    assert_eq!(analysis.cells.verdicts[0].disturbances(), outcome.disturbances);
    (outcome.finding, causes(&outcome.disturbances))
}

#[test]
fn a_race_beside_a_neighbour_says_so_of_its_gain() {
    let gains = [1.07, 1.0, 1.05, 1.08];
    let (finding, found) = outcome(&race(&gains, QUIET));
    assert!(matches!(finding, RaceFinding::Faster { .. }), "{finding:?}");
    assert_eq!(found, []);
    let mut record = race(&gains, QUIET);
    record.sessions = vec![session(Some(1.5), 0.0, 0.0)];
    let (finding, found) = outcome(&record);
    assert!(matches!(finding, RaceFinding::Faster { .. }), "{finding:?}");
    assert!(matches!(found[..], [Cause::Load { .. }]), "{found:?}");
    let (_, found) = outcome(&race(&gains, EVER_MORE));
    assert!(found.contains(&Cause::DriftingTimes), "{found:?}");
}

#[test]
fn a_race_without_a_gain_is_qualified_by_its_slowest() {
    let mut record = race(&[1.0, 1.05, 1.06, 1.08], QUIET);
    assert_eq!(outcome(&record), (RaceFinding::ReferenceIsBest, vec![]));
    record.sessions = vec![session(Some(1.5), 0.0, 0.0)];
    let (finding, found) = outcome(&record);
    assert_eq!(finding, RaceFinding::ReferenceIsBest);
    assert!(matches!(found[..], [Cause::Load { .. }]), "{found:?}");
}
