//! Trials in a virtual machine whose other end is not what it should be: what it answers is a trial of this turn, or no number.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use machine::Machine;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;
use study::engine::{self, Runner, RunnerError, Turn};
use study::guest::{Answer, Request, answer_requests};
use study::treatment::Treatment;
use study::{
    CacheModel, Cell, Comparison, GuestRunner, Host, HostFacts, Line, Plan, Session, Status, StopRule, Subject,
};

/// What a guest does with a request.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Act {
    /// Answers it, as one does.
    Answer,
    /// Answers the first half of the line.
    Half,
    /// Answers what is no JSON.
    Garbage,
    /// Answers with the trial of another cell.
    Other,
    /// Answers what it is, which nobody asked.
    Astray,
    /// Panics.
    Panic,
    /// Says that it can't.
    Refuse,
}

/// A guest in this process: the code of the other end, behind a line that does to requests to run what is said.
struct Fake {
    acts: Rc<RefCell<VecDeque<Act>>>,
    /// What its end was asked in this boot, all of which is answered anew for each request.
    requests: Vec<u8>,
    /// The sections that runs were to mark, in all boots.
    sections: Rc<RefCell<Vec<Option<u32>>>>,
    answers: VecDeque<Result<String, String>>,
}

impl Line for Fake {
    fn tell(&mut self, _what: &str, line: &str) -> Result<(), String> {
        let request: Request = serde_json::from_str(line).unwrap();
        let is_run = matches!(request, Request::Run(..));
        let unmarked = match request {
            Request::Run(turn, section) => {
                self.sections.borrow_mut().push(section);
                // There is nothing here that marks.
                serde_json::to_string(&Request::Run(turn, None)).unwrap()
            }
            _ => line.to_owned(),
        };
        let line = unmarked.as_str();
        if !is_run {
            self.requests.extend_from_slice(format!("{line}\n").as_bytes());
        }
        let mut answers = Vec::new();
        let asked = [&self.requests[..], if is_run { line.as_bytes() } else { b"" }].concat();
        answer_requests(&asked[..], &mut answers).unwrap();
        let answer = String::from_utf8(answers).unwrap().lines().last().unwrap().to_owned();
        let act = if is_run { self.acts.borrow_mut().pop_front().unwrap_or(Act::Answer) } else { Act::Answer };
        let answered = |answer: &Answer| Ok(serde_json::to_string(answer).unwrap());
        self.answers.push_back(match act {
            Act::Answer => Ok(answer),
            Act::Half => Ok(answer[..answer.len() / 2].to_owned()),
            Act::Garbage => Ok("\u{1b}[31mnonsense".into()),
            Act::Other => match serde_json::from_str(&answer).unwrap() {
                Answer::Trial(mut trial) => {
                    trial.placement = "elsewhere".into();
                    answered(&Answer::Trial(trial))
                }
                other => panic!("{other:?}"),
            },
            Act::Astray => answered(&Answer::Facts(Box::new(HostFacts::of_model()))),
            Act::Panic => Err("the guest's kernel panicked while running it: oops\nthe console's end".into()),
            Act::Refuse => answered(&Answer::Broken("it can't".into())),
        });
        Ok(())
    }

    fn line_within(&mut self, _timeout: Duration) -> Result<Option<String>, String> {
        self.answers.pop_front().transpose()
    }

    fn hung(&self, timeout: Duration) -> String {
        format!("nothing came for {timeout:?}")
    }
}

/// A study of `true` under two treatments of that name.
fn study() -> Comparison {
    let plan = Plan {
        subjects: vec![Subject { name: "true".into(), argv: vec!["true".into()], ..Subject::default() }],
        threads: vec![1.into()],
        treatments: vec![Treatment::unbound(), Treatment::new("other".into(), Vec::new())],
        timeout: Duration::from_secs(60),
        seed: 1,
        site: "vm:1x2".parse().unwrap(),
        ..Plan::default()
    };
    Comparison { plan, stop: StopRule::Paired { width: 0.02, min_blocks: 6, max_blocks: 6 } }
}

/// A runner of `study` whose guests do `acts` to requests to run, one after the other, and how many were booted.
fn runner(study: &Comparison, acts: &[Act]) -> (GuestRunner, Rc<RefCell<u32>>) {
    let (runner, boots, _) = runner_with_model(study, acts, None);
    (runner, boots)
}

/// How many were booted, and the sections that runs were to mark.
type Seen = (GuestRunner, Rc<RefCell<u32>>, Rc<RefCell<Vec<Option<u32>>>>);

/// The same with a model of caches, and the sections that runs were to mark.
fn runner_with_model(study: &Comparison, acts: &[Act], misses: Option<CacheModel>) -> Seen {
    let sections = Rc::new(RefCell::new(Vec::new()));
    let told = Rc::clone(&sections);
    let (acts, boots) = (Rc::new(RefCell::new(acts.iter().copied().collect())), Rc::new(RefCell::new(0)));
    let counted = Rc::clone(&boots);
    let boot = move || {
        *counted.borrow_mut() += 1;
        let (acts, sections) = (Rc::clone(&acts), Rc::clone(&told));
        let fake = Fake { acts, sections, requests: Vec::new(), answers: VecDeque::new() };
        Ok(Box::new(fake) as Box<dyn Line>)
    };
    let mut runner = GuestRunner::new(Box::new(boot), misses);
    runner.begin(&study.plan, &study.plan.subjects.iter().map(|_| None).collect()).unwrap();
    (runner, boots, sections)
}

#[test]
fn where_misses_are_counted_each_program_is_first_run_in_each_boot_without_being_counted() {
    let mut study = study();
    study.plan.subjects.push(Subject { name: "other".into(), argv: vec!["true".into()], ..Subject::default() });
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("misses.json");
    let counts = misses::report::Counts { accesses: 1000, ..Default::default() };
    let section = misses::report::Section { all: counts, ..Default::default() };
    let sections = (1..=4).map(|number| (number, section.clone())).collect();
    let written = misses::Report {
        machine: "m".into(),
        caches: Vec::new(),
        line_bytes: 64,
        assumptions: Vec::new(),
        others: true,
        sections,
    };
    std::fs::write(&report, serde_json::to_vec(&written).unwrap()).unwrap();
    // The fifth block is of another boot; there the warm-up is lost, and so the trial is.
    let acts = [vec![Act::Answer; 5], vec![Act::Panic]].concat();
    let (mut runner, boots, marked) = runner_with_model(&study, &acts, Some(CacheModel { report }));
    let mut status = |block, subject| {
        let mut turn = turn(block);
        turn.cell.subject = subject;
        runner.run(&study.plan, &turn).unwrap().status
    };
    let seen = [(0, 0), (0, 1), (1, 0), (4, 0), (5, 0)].map(|(block, subject)| status(block, subject));
    assert_eq!(seen, [Status::Ok, Status::Ok, Status::Ok, Status::MachineLost, Status::Ok]);
    assert_eq!(*marked.borrow(), [None, Some(1), None, Some(2), Some(3), None, None, Some(1)]);
    assert_eq!(*boots.borrow(), 3);
}

fn turn(block: u32) -> Turn {
    let cell = Cell { subject: 0, threads: 0, treatment: 1 };
    Turn { cell, sequence: 7, block, warmup: false, cut_off: None }
}

#[test]
fn what_is_no_answer_to_this_turn_is_no_number_and_costs_the_block() {
    let study = study();
    for (act, cause) in [
        (Act::Half, "the virtual machine's answer can't be read: "),
        (Act::Garbage, "the virtual machine's answer can't be read: "),
        (Act::Other, "the virtual machine answers something that it wasn't asked"),
        (Act::Astray, "the virtual machine answers something that it wasn't asked"),
        (Act::Panic, "the guest's kernel panicked while running it: oops"),
        (Act::Refuse, "it can't"),
    ] {
        let (mut runner, boots) = runner(&study, &[Act::Answer, act, Act::Answer]);
        let good = runner.run(&study.plan, &turn(0)).unwrap();
        assert_eq!((good.status, good.placement.as_str(), good.sequence), (Status::Ok, "other", 7));
        assert!(good.time_s.is_some() && !runner.has_lost_block());
        let lost = runner.run(&study.plan, &turn(0)).unwrap();
        assert_eq!((lost.status, lost.time_s), (Status::MachineLost, None), "{act:?}");
        assert!(lost.cause.starts_with(cause) && !lost.cause.contains('\n'), "{act:?}: {}", lost.cause);
        assert_eq!(lost.output_tail, if act == Act::Panic { "the console's end" } else { "" });
        assert!(runner.has_lost_block());
        let again = runner.run(&study.plan, &turn(1)).unwrap();
        assert_eq!((again.status, *boots.borrow()), (Status::Ok, 2), "another machine goes on: {act:?}");
        assert!(!runner.has_lost_block());
    }
}

#[test]
fn a_machine_that_cannot_be_booted_ends_the_work_in_a_sentence() {
    let study = study();
    let mut runner = GuestRunner::new(Box::new(|| Err("qemu is gone".into())), None);
    runner.begin(&study.plan, &vec![None]).unwrap();
    let Err(RunnerError::Broken(cause)) = runner.run(&study.plan, &turn(0)) else { panic!("it ran") };
    assert!(cause.starts_with("the virtual machine can't be had: qemu is gone\n"), "{cause}");
    assert!(cause.ends_with("the same command goes on"), "{cause}");
}

#[test]
fn blocks_of_a_boot_are_run_forth_and_back_and_a_block_that_lost_its_machine_is_left() {
    let study = study();
    let machine = Machine::named("pack:1 core:2 pu:1").unwrap();
    let host = Host::Elsewhere(Box::new(HostFacts::of_model()));
    let mut session = Session::open(None, &study, &machine, &host, &[]).unwrap();
    // The first of block 2 is lost, so that its second isn't run.
    let acts = [Act::Answer, Act::Answer, Act::Answer, Act::Answer, Act::Panic];
    let (mut runner, boots) = runner(&study, &acts);
    engine::run_blocks(&mut session, &mut runner, &mut |_| ()).unwrap();
    let ran: Vec<(u32, &str)> = session.trials().iter().map(|trial| (trial.block, trial.placement.as_str())).collect();
    let of = |block: u32| ran.iter().filter(|trial| trial.0 == block).map(|trial| trial.1).collect::<Vec<_>>();
    let reversed = |block: u32| of(block).into_iter().rev().collect::<Vec<_>>();
    assert_eq!((of(0).len(), of(2).len()), (2, 1));
    assert_eq!((of(1), of(5)), (reversed(0), reversed(4)));
    assert_eq!(of(3).len(), 2);
    // Blocks 0 to 2, block 3, and the rest.
    assert_eq!(*boots.borrow(), 3);
    let lost = session.trials().iter().filter(|trial| trial.status == Status::MachineLost).count();
    assert_eq!(lost, 1);
}

#[test]
fn a_block_that_was_begun_in_another_boot_is_left_when_a_study_goes_on() {
    let study = study();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.stayput");
    let machine = Machine::named("pack:1 core:2 pu:1").unwrap();
    let host = Host::Elsewhere(Box::new(HostFacts::of_model()));
    let open = || Session::open(Some(&path), &study, &machine, &host, &["stayput".into()]).unwrap();
    let mut session = open();
    let first = Turn { sequence: 0, ..turn(0) };
    let (mut one, _) = runner(&study, &[]);
    session.add(one.run(&study.plan, &first).unwrap()).unwrap();
    let ended: Result<_, engine::EngineError> = session.end(Err(RunnerError::Interrupted { signal: 15 }.into()));
    assert!(ended.is_err());
    let mut session = open();
    let (mut two, boots) = runner(&study, &[]);
    engine::run_blocks(&mut session, &mut two, &mut |_| ()).unwrap();
    let blocks: Vec<u32> = session.trials().iter().map(|trial| trial.block).collect();
    assert_eq!(blocks[..3], [0, 1, 1], "what is left of block 0 isn't run");
    assert_eq!(*boots.borrow(), 2);
}

#[test]
fn a_request_that_is_none_is_answered_in_a_sentence() {
    let asked = |line: &str| {
        let mut answers = Vec::new();
        answer_requests(line.as_bytes(), &mut answers).unwrap();
        serde_json::from_slice::<Answer>(&answers).unwrap()
    };
    for (line, part) in [
        ("nonsense\n", "a request can't be read: "),
        ("{\"begin\":\"/no/such/folder\"}\n", "cannot take the study: "),
        (
            "{\"run\":[{\"cell\":{\"subject\":9,\"threads\":0,\"treatment\":0},\"sequence\":0,\"block\":0,\"warmup\":false,\"cut_off\":null},null]}\n",
            "no study was begun",
        ),
    ] {
        let answer = asked(line);
        assert!(matches!(&answer, Answer::Broken(cause) if cause.starts_with(part)), "{line}: {answer:?}");
    }
}
