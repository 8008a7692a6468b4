//! What was measured on a busy machine says so in every form, above all where a number stands in large type.

#![expect(clippy::unwrap_used, reason = "what is none or an error fails the test")]

use machine::{CpuId, Machine, Placement};
use scraper::{Html, Selector};
use serde_json::Value;
use stats::RaceRule;
use stayput_report::{Format, Screen, Study};
use std::path::Path;
use std::time::Duration;
use study::engine::{CellStudy, EngineError, Runner, RunnerError, Turn, run_blocks};
use study::{
    Comparison, Host, HostState, PastSession, Plan, Race, RaceStop, Record, Session, Status, StopRule, Subject,
    Treatment, Trial,
};

/// Runs that take as long as their treatment says, times what a neighbour makes of a second of the study.
struct Beside {
    times_s: Vec<f64>,
    slowness: fn(f64) -> f64,
    now_s: f64,
}

impl Runner for Beside {
    fn run(&mut self, plan: &Plan, turn: &Turn) -> Result<Trial, RunnerError> {
        let mut trial = turn.trial(plan, self.now_s);
        // Knuth's multiplicative hash of the run's number, for up to 1 %.
        let noise = 1.0 + 0.01 * f64::from((turn.sequence + 1).wrapping_mul(2_654_435_769)) / f64::from(u32::MAX);
        let time_s = self.times_s[turn.cell.treatment] * noise * (self.slowness)(self.now_s);
        (trial.status, trial.time_s, trial.ran_s) = (Status::Ok, Some(time_s), Some(time_s));
        self.now_s += time_s;
        Ok(trial)
    }
}

const QUIET: fn(f64) -> f64 = |_| 1.0;
const EVER_MORE: fn(f64) -> f64 = |now_s| 1.0 + now_s / 60.0;

fn whole<S: CellStudy>(new: impl Fn(Plan) -> S, times_s: &[f64], slowness: fn(f64) -> f64) -> Record<S> {
    let bound = |number: u32| {
        let cpus = [CpuId(number % 2), CpuId((number + 1) % 2)];
        let name = ["compact", "scatter", "0,1"][number as usize];
        Treatment::new(name.into(), vec![Some(Placement::from_cpus(name, cpus))])
    };
    let study = new(Plan {
        subjects: vec![Subject { name: "./app".into(), argv: vec!["./app".into()], ..Subject::default() }],
        threads: vec![2.into()],
        treatments: std::iter::once(Treatment::unbound())
            .chain((1..times_s.len() as u32).map(|n| bound(n - 1)))
            .collect(),
        warmup_blocks: 0,
        timeout: Duration::from_secs(60),
        seed: 3,
        ..Plan::default()
    });
    let machine = Machine::named("pack:1 core:2 pu:1").unwrap();
    let mut session = Session::open(None, &study, &machine, &Host::Modelled, &[]).unwrap();
    let work = run_blocks(&mut session, &mut Beside { times_s: times_s.to_vec(), slowness, now_s: 0.0 }, &mut |_| ());
    session.end::<EngineError>(work).unwrap()
}

/// Others used so many CPUs, and the hypervisor took so much of all.
fn session(others_busy_cpus: f64, steal_share: f64) -> PastSession {
    let state = |at_s: f64| HostState {
        unix_s: at_s,
        steal_s: Some(steal_share * 2.0 * at_s),
        total_cpu_s: Some(2.0 * at_s),
        busy_cpu_s: Some((others_busy_cpus + 0.9) * at_s),
        own_cpu_s: Some(0.9 * at_s),
        ..HostState::default()
    };
    PastSession { command_line: vec!["stayput".into()], before: state(0.0), after: Some(state(100.0)) }
}

/// A placement that is 7 % faster, and one that is as fast as unbound.
fn comparison(slowness: fn(f64) -> f64, sessions: &[PastSession]) -> Study {
    let stop = StopRule::Paired { width: 0.0001, min_blocks: 20, max_blocks: 20 };
    let record = whole(|plan| Comparison { plan, stop: stop.clone() }, &[1.07, 1.0, 1.07], slowness);
    Record { sessions: sessions.to_vec(), ..record }.into()
}

fn race(sessions: &[PastSession]) -> Study {
    let stop = RaceStop { search: RaceRule::Halving { runs: 60 }, cut_off: 1.5, kept: None };
    let record = whole(|plan| Race { plan, stop: stop.clone() }, &[1.07, 1.0, 1.05, 1.04], QUIET);
    Record { sessions: sessions.to_vec(), ..record }.into()
}

fn written(study: &Study, format: Format) -> String {
    study.write(format, Screen { width: 1000, colour: false })
}

fn json(study: &Study) -> Value {
    serde_json::from_str(&written(study, Format::Json)).unwrap()
}

/// The texts of all elements that `selector` finds in the page, with plain spaces.
fn texts(study: &Study, selector: &str) -> Vec<String> {
    let page = Html::parse_document(&written(study, Format::Html));
    let selector = Selector::parse(selector).unwrap();
    let all = page.select(&selector).map(|element| element.text().collect::<String>());
    all.map(|text| text.replace('\u{a0}', " ")).collect()
}

const FORMS: [Format; 5] = [Format::Terminal, Format::Html, Format::Markdown, Format::Latex, Format::Json];

#[test]
fn what_was_measured_on_a_quiet_machine_is_told_plainly() {
    for study in [comparison(QUIET, &[session(0.1, 0.0)]), race(&[session(0.1, 0.0)])] {
        for form in FORMS {
            let text = written(&study, form);
            assert!(!text.contains("busy machine") && !text.contains("disturbances"), "{form:?}: {text}");
        }
        let [figure] = &texts(&study, ".figure")[..] else { panic!("one subject has one figure") };
        assert!(figure.starts_with("1.0") && figure.ends_with("× as fast"), "{figure}");
    }
}

#[test]
fn the_headline_of_a_comparison_says_that_the_machine_was_busy_and_what_to_do() {
    let study = comparison(EVER_MORE, &[session(1.2, 0.0)]);
    let verdicts = json(&study)["verdicts"].clone();
    assert_eq!(
        verdicts[0],
        "./app: measured on a busy machine (others used 1.2 CPUs, its times drifted by 169 %): where its threads run seems \
         to matter, by up to 6.2 %; best here: compact with 2 threads; stop what else runs and study again."
    );
    assert_eq!(
        verdicts[1],
        "./app, 2 threads: compact is 1.062x faster than unbound (95 % interval 1.034-1.092, 20 pairs); measured on a busy \
         machine."
    );
    assert!(verdicts[2].as_str().unwrap().contains("no difference shown"), "{verdicts}");
    assert!(!verdicts[2].as_str().unwrap().contains("busy"), "{verdicts}");
}

#[test]
fn every_form_says_that_the_machine_was_busy() {
    for study in [comparison(QUIET, &[session(1.2, 0.0)]), race(&[session(1.2, 0.0)])] {
        for form in FORMS {
            // LaTeX and HTML write the percent sign in their own way, so the words before it are compared.
            let text = written(&study, form).replace('\u{a0}', " ");
            let headline = match form {
                Format::Html => {
                    "Measured on a busy machine (others used 1.2 CPUs): where its threads run seems to matter"
                }
                _ => "./app: measured on a busy machine (others used 1.2 CPUs): where its threads run seems to matter",
            };
            assert!(text.contains(headline), "{form:?}: {text}");
            assert!(text.contains("stop what else runs and study again"), "{form:?}: {text}");
        }
        let caption = written(&study, Format::Latex);
        let caption = caption.lines().find(|line| line.starts_with("\\caption")).unwrap();
        assert!(caption.contains("Measured on a busy machine."), "{caption}");
        assert_eq!(json(&study)["findings"]["verdicts"][0]["subject"], "./app");
        assert!(written(&study, Format::Json).contains(r#""cause":"load","busy_cpus":1.2"#));
    }
}

#[test]
fn no_number_stands_in_large_type_as_an_answer_from_a_busy_machine() {
    for study in [comparison(QUIET, &[session(1.2, 0.0)]), race(&[session(1.2, 0.0)])] {
        assert_eq!(texts(&study, ".figure"), ["Busy machine"]);
        let doubts = texts(&study, ".answer .doubt");
        assert_eq!(doubts[0], "Others used 1.2 CPUs: stop what else runs and study again.");
        assert!(doubts[1].starts_with("As measured: 1.0") && doubts[1].ends_with("× as fast"), "{doubts:?}");
        assert!(doubts[2].starts_with("compact"), "{doubts:?}");
    }
}

#[test]
fn the_line_to_paste_says_that_the_machine_was_busy() {
    let study = comparison(QUIET, &[session(0.1, 0.05)]);
    let advice = "paste one of these; it was measured on a busy machine (the hypervisor took 5.0 % of CPU time), so study \
                  again before you rely on it:";
    for form in [Format::Terminal, Format::Markdown, Format::Html] {
        let text = written(&study, form).replace('\u{a0}', " ");
        assert!(text.contains(advice), "{form:?}: {text}");
        assert!(text.contains("study again at another time or on another host"), "{form:?}: {text}");
    }
}

#[test]
fn of_the_older_journals_those_that_found_a_load_say_so() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/journals");
    let mut busy: Vec<String> = Vec::new();
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "stayput") {
            let study = Study::read(&path).unwrap();
            let cells =
                study.cells().filter(|cells| cells.verdicts.iter().any(|verdict| !verdict.disturbances().is_empty()));
            busy.extend(cells.map(|_| path.file_stem().unwrap().to_string_lossy().into_owned()));
        }
    }
    busy.sort();
    // Two CPUs, and load averages of 4.9, 5.1 and 7.5 when these began.
    assert_eq!(busy, ["lists", "race-lists", "version-1-lists"]);
}
