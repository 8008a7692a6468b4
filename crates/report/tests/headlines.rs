//! Whatever came out, no two sentences of the answer contradict each other, nor the large type beside them, the marks in the tables, or
//! the advice: in the terminal, in Markdown, and on the page.

#![expect(clippy::unwrap_used, reason = "what is none or an error fails the test")]

use machine::{CpuId, Machine, Placement};
use scraper::{Html, Selector};
use stats::RaceRule;
use stayput_report::{Format, Screen, Study};
use std::collections::BTreeSet;
use std::time::Duration;
use study::engine::{CellStudy, EngineError, Runner, RunnerError, Turn, run_blocks};
use study::{
    Comparison, Host, HostState, PastSession, Plan, Race, RaceStop, Record, Session, Status, StopRule, Subject,
    Treatment, Trial,
};

/// What becomes of a placement against the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Gains,
    Loses,
    IsSame,
    /// Its times scatter over many orders of magnitude.
    IsWild,
    /// It takes so long that a race cuts it off.
    Crawls,
    Fails,
}

use Fate::{Crawls, Fails, Gains, IsSame, IsWild, Loses};

/// Runs whose time follows from their cell's fate.
struct Fates {
    /// By thread count, then by treatment; the reference is first.
    fates: Vec<Vec<Fate>>,
    /// By thread count.
    reference_s: Vec<f64>,
    now_s: f64,
}

impl Runner for Fates {
    fn run(&mut self, plan: &Plan, turn: &Turn) -> Result<Trial, RunnerError> {
        let mut trial = turn.trial(plan, self.now_s);
        // As much up as down over two blocks, so that nothing is shown by chance.
        let off = 0.003 * turn.cell.treatment as f64;
        let noise = if turn.block.is_multiple_of(2) { 1.0 + off } else { 1.0 / (1.0 + off) };
        let times = match self.fates[turn.cell.threads][turn.cell.treatment] {
            Gains => 0.8,
            Loses => 1.25,
            IsSame => 1.0,
            IsWild if turn.block.is_multiple_of(2) => 1e6,
            IsWild => 1e-6,
            Crawls => 4.0,
            Fails => f64::NAN,
        };
        let time_s = self.reference_s[turn.cell.threads] * times * noise;
        let cut_off_s = turn.cut_off.map_or(f64::INFINITY, |limit| limit.as_secs_f64());
        (trial.status, trial.time_s, trial.ran_s) = if time_s.is_nan() {
            (trial.cause, trial.output_tail) = ("exit code 3".into(), "the disk is full\n".into());
            (Status::ExitCode, None, Some(0.1))
        } else if time_s > cut_off_s {
            (Status::CutOff, None, Some(cut_off_s))
        } else {
            (Status::Ok, Some(time_s), Some(time_s))
        };
        self.now_s += 1.0;
        Ok(trial)
    }
}

fn whole<S: CellStudy>(study: S, runner: Fates, is_busy: bool) -> Record<S> {
    let machine = Machine::named("pack:1 core:2 pu:1").unwrap();
    let mut session = Session::open(None, &study, &machine, &Host::Modelled, &[]).unwrap();
    let mut runner = runner;
    let work = run_blocks(&mut session, &mut runner, &mut |_| ());
    let record = session.end::<EngineError>(work).unwrap();
    Record { sessions: vec![stretch(if is_busy { 1.2 } else { 0.1 })], ..record }
}

/// A stretch of work during which others used so many CPUs.
fn stretch(others: f64) -> PastSession {
    let state = |at_s: f64| HostState {
        unix_s: at_s,
        total_cpu_s: Some(2.0 * at_s),
        busy_cpu_s: Some((others + 0.9) * at_s),
        own_cpu_s: Some(0.9 * at_s),
        ..HostState::default()
    };
    PastSession { command_line: vec!["stayput".into()], before: state(0.0), after: Some(state(100.0)) }
}

fn plan(threads: Vec<u32>, placements: usize) -> Plan {
    let bound = |number: usize| {
        let name = ["first", "second", "third"][number];
        let placement = |&threads: &u32| {
            let cpus = (0..threads).map(|thread| CpuId((thread + number as u32) % 2));
            Some(Placement::from_cpus(name, cpus))
        };
        Treatment::new(name.into(), threads.iter().map(placement).collect())
    };
    let treatments = std::iter::once(Treatment::unbound()).chain((0..placements).map(bound)).collect();
    Plan {
        subjects: vec![Subject { name: "./app".into(), argv: vec!["./app".into()], ..Subject::default() }],
        threads: threads.into_iter().map(Into::into).collect(),
        treatments,
        warmup_blocks: 0,
        timeout: Duration::from_secs(60),
        seed: 3,
        ..Plan::default()
    }
}

/// A comparison with 1 and 2 threads, of which one is four times as fast.
fn comparison(fates: &[Vec<Fate>; 2], fast: usize, blocks: u32, is_busy: bool) -> Study {
    let stop = StopRule::Paired { width: 1e-9, min_blocks: blocks, max_blocks: blocks };
    let mut reference_s = vec![4.0, 4.0];
    reference_s[fast] = 1.0;
    let study = Comparison { plan: plan(vec![1, 2], fates[0].len() - 1), stop };
    whole(study, Fates { fates: fates.to_vec(), reference_s, now_s: 0.0 }, is_busy).into()
}

fn race(fates: &[Fate], runs: u32, is_busy: bool) -> Study {
    let stop = RaceStop { search: RaceRule::Halving { runs }, cut_off: 1.5, kept: None };
    let study = Race { plan: plan(vec![2], fates.len() - 1), stop };
    whole(study, Fates { fates: vec![fates.to_vec()], reference_s: vec![1.0], now_s: 0.0 }, is_busy).into()
}

/// What a form says at its top, and what it advises, each text by itself.
struct Told {
    /// The answer's sentences; on the page its large type, too.
    answer: Vec<String>,
    /// Everything that is read, on the page without the data in it.
    whole: String,
}

fn told(study: &Study, form: Format) -> Told {
    let text = study.write(form, Screen { width: 1000, colour: false });
    if form != Format::Html {
        let answer = text.lines().take_while(|line| !line.is_empty()).map(str::to_owned).collect();
        return Told { answer, whole: text };
    }
    let page = Html::parse_document(&text);
    let texts = |selector: &str| -> Vec<String> {
        let selector = Selector::parse(selector).unwrap();
        let all = page.select(&selector).map(|element| element.text().collect::<String>());
        all.map(|text| text.replace('\u{a0}', " ")).collect()
    };
    let answer = texts(".answer .figure, .answer .doubt, .answer .verdict, .answer li");
    let body = Selector::parse("body section").unwrap();
    let whole =
        page.select(&body).flat_map(|section| section.text()).collect::<Vec<_>>().join(" ").replace('\u{a0}', " ");
    Told { answer, whole }
}

/// Whether any of `phrases` is said in `texts`.
fn says(texts: &[String], phrases: &[&str]) -> bool {
    texts.iter().any(|text| phrases.iter().any(|phrase| text.contains(phrase)))
}

/// That where threads run matters, or that nothing shows it.
const MATTERS: [&str; 2] = ["its threads run matters", "its threads run seems to matter"];
const NOT_SHOWN_TO_MATTER: [&str; 9] = [
    "no placement is shown to differ",
    "no difference shown among",
    "No difference shown",
    "nothing to compare",
    "Nothing to compare",
    "Too few pairs to tell",
    "Too few runs to tell",
    "too few runs",
    "No answer",
];
/// That the best is faster than the reference with as many threads, or that nothing shows it.
const GAIN: [&str; 2] = ["× as fast", "paste one of these"];
const NO_GAIN: [&str; 9] = [
    "none is shown to beat",
    "No placement is shown to be faster",
    "no placement beats",
    "not shown to be faster",
    "not beaten",
    "Leave it",
    "Only losses",
    "every other is shown to be slower",
    "nothing needs pasting",
];

/// What must be so of every study, whatever came out: `matters` and `gain` are what its fates come to, where they are known.
///
/// Gives the words in large type.
fn check(study: &Study, case: &str, matters: Option<bool>, gain: Option<bool>, is_busy: bool) -> String {
    let mut large = String::new();
    for form in [Format::Terminal, Format::Markdown, Format::Html] {
        let Told { answer, whole } = told(study, form);
        let all = || answer.iter().cloned().chain([whole.clone()]).collect::<Vec<_>>();
        let advice = || whole.lines().find(|line| line.contains("past")).unwrap_or_default().to_owned();
        let context = || format!("{case}, {form:?}:\n{}\n{:.300}", answer.join("\n"), advice());
        let (yes, no) = (says(&answer, &MATTERS), says(&answer, &NOT_SHOWN_TO_MATTER));
        assert!(!(yes && no), "it matters and it doesn't: {}", context());
        assert!(yes || no || says(&answer, &["nothing to say"]), "nothing is said: {}", context());
        assert!(matters.is_none_or(|matters| matters == yes), "whether it matters: {}", context());
        let gains = says(&all(), &GAIN);
        assert!(!(gains && says(&answer, &NO_GAIN)), "a gain and none: {}", context());
        assert!(!(gains && says(&all(), &["nothing needs pasting"])), "to paste and not: {}", context());
        assert!(!gains || yes, "a gain where nothing matters: {}", context());
        assert!(gain.is_none_or(|gain| gain == gains), "whether there is a gain: {}", context());
        if says(&answer, &["no difference shown among", "No difference shown"]) {
            assert!(!whole.contains("at least +"), "no difference above a row that has one: {}", context());
            assert!(!whole.replace("seemed slower", "").contains("slower, block"), "shown and not: {}", context());
        }
        // A headline from a busy machine has no plain mark below it, and one from a quiet machine no other.
        let busy = says(&answer, &["busy machine", "Busy machine"]);
        assert!(!busy || is_busy && yes, "{}", context());
        assert!(busy || !is_busy || matters != Some(true), "who else ran is not said: {}", context());
        let marks: &[&str] = match (form, busy) {
            (Format::Terminal, true) => &["0*", "1*", "2*", "3*", "4*", "5*", "6*", "7*", "8*", "9*"],
            (Format::Markdown, true) => &["| **"],
            (_, true) => &["▲ 0", "▲ 1", "▼ 0", "▼ 1"],
            (Format::Terminal, false) => &["0~", "1~", "2~", "3~", "4~", "5~", "6~", "7~", "8~", "9~"],
            (Format::Markdown, false) => &["| *0", "| *1"],
            (_, false) => &["~ 0", "~ 1"],
        };
        assert!(!says(std::slice::from_ref(&whole), marks), "marks: {}", context());
        let digits = whole.split(|c: char| !c.is_ascii_digit()).map(str::len).max();
        assert!(digits.is_none_or(|digits| digits < 12), "a number that nobody can read: {}", context());
        assert!(!whole.contains("(0 of "), "{}", context());
        if form == Format::Html {
            large = answer[0].trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').to_owned();
        }
    }
    large
}

/// All fates of two placements, in either order.
fn pairs(fates: &[Fate]) -> Vec<Vec<Fate>> {
    (0..fates.len())
        .flat_map(|a| (a..fates.len()).map(move |b| (a, b)))
        .map(|(a, b)| vec![IsSame, fates[a], fates[b]])
        .collect()
}

#[test]
fn no_comparison_contradicts_itself() {
    const FATES: [Fate; 5] = [Gains, Loses, IsSame, IsWild, Fails];
    let at = |fates: &[Fate], fate| fates.contains(&fate);
    let (mut cases, mut large) = (0, BTreeSet::new());
    for best in pairs(&FATES) {
        for other in FATES.map(|fate| vec![IsSame, fate, IsSame]) {
            for (fast, is_busy) in [(0, false), (1, false), (0, true), (1, true)] {
                let mut fates = [best.clone(), other.clone()];
                if fast == 1 {
                    fates.reverse();
                }
                let gain = at(&best, Gains);
                let matters = gain || at(&best, Loses) || at(&other, Gains) || at(&other, Loses);
                let case = format!("{fates:?}, best at {fast}, busy {is_busy}");
                large.insert(check(&comparison(&fates, fast, 8, is_busy), &case, Some(matters), Some(gain), is_busy));
                cases += 1;
            }
        }
    }
    assert_eq!(cases, 15 * 5 * 4);
    let all = [
        "Busy machine",
        "Gain with 1 thread only",
        "Gain with 2 threads only",
        "Leave it unbound",
        "No difference shown",
        "Only losses shown",
        "Too few pairs with 1 thread",
        "Too few pairs with 2 threads",
        "× as fast",
    ];
    assert!(large.iter().eq(&all), "{large:?}");
}

#[test]
fn no_comparison_of_few_runs_or_without_a_reference_contradicts_itself() {
    for best in pairs(&[Gains, Loses, IsSame, Fails]) {
        // One pair, and fewer than an interval takes.
        for blocks in [1, 3] {
            let study = comparison(&[best.clone(), best.clone()], 0, blocks, false);
            check(&study, &format!("{best:?}, {blocks} blocks"), Some(false), Some(false), false);
        }
        let lost: Vec<Fate> = std::iter::once(Fails).chain(best[1..].iter().copied()).collect();
        let study = comparison(&[lost.clone(), lost.clone()], 0, 8, false);
        check(&study, &format!("{lost:?}"), Some(false), Some(false), false);
        // The reference alone.
        check(&comparison(&[vec![best[0]], vec![best[0]]], 0, 8, false), "alone", Some(false), Some(false), false);
    }
}

#[test]
fn no_race_contradicts_itself() {
    const FATES: [Fate; 5] = [Gains, Loses, IsSame, Crawls, Fails];
    let mut large = BTreeSet::new();
    for (others, third) in pairs(&FATES).iter().flat_map(|others| FATES.map(|third| (others, third))) {
        // Which of the placements is which makes no difference.
        if FATES.iter().position(|fate| *fate == third) < FATES.iter().position(|fate| *fate == others[2]) {
            continue;
        }
        for reference in [IsSame, Crawls, Fails] {
            // A single block, and enough to tell who is best.
            for (runs, is_busy) in [(4, false), (30, false), (30, true)] {
                let fates = [reference, others[1], others[2], third];
                let case = format!("{fates:?}, {runs} runs, busy {is_busy}");
                large.insert(check(&race(&fates, runs, is_busy), &case, None, None, is_busy));
            }
        }
    }
    let all = [
        "Busy machine",
        "Leave it unbound",
        "No answer",
        "No difference shown",
        "Too few runs to tell",
        // Where unbound failed, whoever is best.
        "first",
        "second",
        "third",
        "× as fast",
    ];
    assert!(large.iter().eq(&all), "{large:?}");
}
