//! Programs that wake one another, as a client and its server do: one asks, the other answers.
//!
//! A profile sees wake-ups, not messages: who is asked while it still runs is woken by nobody, and goes on. So what is written is the
//! messages, as many as either of the two is known to have posted, and who sleeps for how long comes of that.

use crate::histogram::{Histogram, TimeBin};
use crate::kinds::{KindOfThreads, Work};
use crate::profile::Program;
use crate::survival::{Distribution, gcd, product_limit};

/// Wake-ups in each direction below which two programs have no dialogue.
const LEAST_WAKES: u64 = 200;

/// Share of a program's times of blocking, from 0 to 1, that the other one ends at least.
const LEAST_SHARE: f64 = 0.25;

/// The one that is woken less often is woken for at least such a share of the messages, from 0 to 1: else it does many at a time, and its
/// bursts are no messages.
const LEAST_ANSWERED: f64 = 0.25;

/// The same where both have one thread: how many messages are under way at once is not known then, unless it is one.
const LEAST_ANSWERED_ALONE: f64 = 0.75;

/// Share of a program's times of blocking, from 0 to 1, that are all of them.
const LEAST_ALL: f64 = 0.95;

/// Other blocking than for messages is left out where there is less of it for each message.
const LEAST_OTHERS: f64 = 0.02;

/// The most messages of a round, of which some are with other blocking, and how far the share of these may be off.
const MOST_IN_ROUND: u64 = 40;
const ROUND_ERROR: f64 = 0.05;

/// Two programs that wake one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dialogue {
    /// Positions of who asks and who answers.
    pub asks: usize,
    pub answers: usize,
    /// How many questions there were, each with its answer.
    pub messages: u64,
}

/// What each thread of a kind does in a dialogue.
pub(crate) struct Part {
    /// How often it asks first, where it is the one that does: the questions that are under way at once.
    pub opening: Option<u64>,
    /// The semaphores at which it waits, and that it posts.
    pub wait: String,
    pub post: String,
    pub order: Order,
    /// How many messages it gets.
    pub messages: u64,
    /// Work from a message that it gets to its own, and from there until it waits.
    pub before: Distribution,
    pub after: Distribution,
    /// How it blocks for anything but messages, before it sends its own; none where it hardly does.
    pub others: Option<Others>,
}

/// What comes first of a message, and whom it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// It waits, and posts for anybody.
    WaitPost,
    /// It waits, and replies to whoever it went on from.
    WaitReply,
    /// It posts, and waits for the reply.
    PostAwait,
}

/// Blocking for anything but messages.
pub(crate) struct Others {
    /// So many times, for so many messages.
    pub times: u64,
    pub messages: u64,
    /// Work up to it, and how long it is blocked.
    pub work: Distribution,
    pub block: Distribution,
}

/// The dialogues among programs, of which so many `threads` each may take part: each has one at most, with the one that it has the most
/// wake-ups with.
pub(crate) fn dialogues(programs: &[&Program], threads: &[u64]) -> Vec<Dialogue> {
    let mut pairs = Vec::new();
    for (first, one) in programs.iter().enumerate() {
        for (second, other) in programs.iter().enumerate().skip(first + 1) {
            let (of_one, of_other) = (wakes(one, other), wakes(other, one));
            let least = if threads[first].max(threads[second]) > 1 { LEAST_ANSWERED } else { LEAST_ANSWERED_ALONE };
            let is_one_to_one = of_one.min(of_other) as f64 >= least * of_one.max(of_other) as f64;
            let speaks = |wakes, program: &Program| is_much(wakes, program) && wakes >= wakes_by_itself(program);
            if is_one_to_one && speaks(of_one, one) && speaks(of_other, other) {
                // Who asks has less to do for a message.
                let (asks, answers) = if one.cpu_s <= other.cpu_s { (first, second) } else { (second, first) };
                let messages = posts(one, other).max(posts(other, one));
                pairs.push(Dialogue { asks, answers, messages });
            }
        }
    }
    pairs.sort_by_key(|pair| std::cmp::Reverse(pair.messages));
    let mut taken: Vec<Dialogue> = Vec::new();
    for pair in pairs {
        let is_free = |at| taken.iter().all(|other| other.asks != at && other.answers != at);
        if is_free(pair.asks) && is_free(pair.answers) {
            taken.push(pair);
        }
    }
    taken
}

/// How often a program was woken by another.
fn wakes(program: &Program, by: &Program) -> u64 {
    let wakers = program.wakers.iter().flatten();
    wakers.filter(|waker| waker.program == by.name).map(|waker| waker.count).sum()
}

/// How often a program is known to have posted for another: it woke it, or ended a burst in which it woke nobody. The other was still busy then. That is
/// told where it blocks for the other alone: bursts between a question and a disk wake nobody either.
fn posts(program: &Program, to: &Program) -> u64 {
    let histograms = &program.histograms;
    let is_all = wakes(program, to) as f64 >= LEAST_ALL * histograms.block.count as f64;
    wakes(to, program) + if is_all { histograms.burst_alone.count } else { 0 }
}

/// How often a program's own threads woke one another: who waits for its peers above all, at locks that they share, has no dialogue that
/// would tell how long.
fn wakes_by_itself(program: &Program) -> u64 {
    wakes(program, program)
}

fn is_much(wakes: u64, program: &Program) -> bool {
    wakes >= LEAST_WAKES && wakes as f64 >= LEAST_SHARE * program.histograms.block.count as f64
}

impl Dialogue {
    /// What the two do, who asks first: of each program the kind of threads that blocks most often.
    pub fn parts(&self, programs: &[&Program], kinds: [&KindOfThreads; 2]) -> [Part; 2] {
        let [asking, answering] = kinds.map(|kind| kind.threads);
        let [asks, answers] = [programs[self.asks], programs[self.answers]];
        let question = format!("{} asks {}", asks.name, answers.name);
        let answer = format!("{} answers {}", answers.name, asks.name);
        let part = |program: &Program, other, kind: &KindOfThreads, opening: Option<u64>, wait: &str, post: &str| {
            let [before, after] = work(program, kind);
            Part {
                opening,
                wait: wait.to_owned(),
                post: post.to_owned(),
                order: Order::WaitPost,
                messages: 0,
                before,
                after,
                others: others(program, kind, wakes(program, other), self.messages),
            }
        };
        let open = asking.max(answering).div_ceil(asking);
        let mut parts = [
            part(asks, answers, kinds[0], Some(open), &answer, &question),
            part(answers, asks, kinds[1], None, &question, &answer),
        ];
        // Whoever opens does that once, and has no rounds.
        parts[0].others = None;
        // All threads of either kind get as many, in whole rounds, so that nobody is left waiting.
        let round = parts[1].others.as_ref().map_or(1, |others| others.messages);
        let shared = lcm(asking, answering * round);
        let times = (self.messages as f64 / shared as f64).round().max(1.0) as u64;
        parts[0].messages = times * shared / asking;
        parts[1].messages = times * shared / answering;
        // Where many speak with one, none of them gets what is meant for another.
        let orders = match (asking, answering) {
            (1, 2..) => Some([Order::WaitReply, Order::PostAwait]),
            (2.., 1) => Some([Order::PostAwait, Order::WaitReply]),
            _ => None,
        };
        for (part, order) in parts.iter_mut().zip(orders.into_iter().flatten()) {
            (part.opening, part.order) = (None, order);
        }
        let [first, second] = parts;
        [first.with_work_of(kinds[0]), second.with_work_of(kinds[1])]
    }
}

impl Part {
    /// The same with as much CPU time in all as the threads of a kind had. Who wakes others than the one it speaks with, as servers do that
    /// hold a lock, had more of it than is told by the times up to its first wake-up.
    fn with_work_of(mut self, kind: &KindOfThreads) -> Self {
        let Work::Constant(all_ms) = kind.work else { return self };
        let others = self.others.as_ref();
        let others_ms = others.map_or(0.0, |it| it.work.mean_ms() * it.times as f64 / it.messages as f64);
        let each_ms = all_ms / self.messages as f64 - self.after.mean_ms();
        let factor = each_ms / (self.before.mean_ms() + others_ms);
        if factor.is_finite() && factor > 0.0 {
            self.before = self.before.scaled(factor);
            self.others = self.others.map(|others| Others { work: others.work.scaled(factor), ..others });
        }
        self
    }
}

/// Work before a program's own message, and after it. Where most of its messages wake nobody, they are of the bursts in which it
/// wakes nobody, whose end is the same. Longer parts than the kind's bursts are of others: of what set a server up.
fn work(program: &Program, kind: &KindOfThreads) -> [Distribution; 2] {
    let none = Histogram::default();
    let histograms = &program.histograms;
    let of_kind = |part: &Histogram| product_limit(&kind.own(part), &none);
    // What came after a peer was woken may well have had the message in it.
    let after_message = Some(without(&histograms.after_wake, &histograms.after_waking_peer));
    let after_message = after_message.filter(|it| it.count > 0).unwrap_or_else(|| histograms.after_wake.clone());
    let after = of_kind(&after_message);
    if histograms.burst_alone.count > histograms.before_wake.count {
        let less_ms = after.quantile_ms(0.5);
        return [of_kind(&histograms.burst_alone).shortened(less_ms), after];
    }
    [of_kind(&histograms.before_wake), after]
}

/// Blocking of a kind for anything else than `messages`, of which `answered` woke it.
fn others(program: &Program, kind: &KindOfThreads, answered: u64, messages: u64) -> Option<Others> {
    let histograms = &program.histograms;
    let ratio = (kind.voluntary_ends - answered as f64) / messages as f64;
    if ratio < LEAST_OTHERS {
        return None;
    }
    let (times, messages) = fraction(ratio);
    let by_itself = without(&histograms.block, &without(&histograms.block_by_thread, &histograms.block_by_peer));
    let mut rest = kind.own_blocks(&by_itself);
    if rest.count == 0 {
        rest = kind.own_blocks(&histograms.block);
    }
    let alone = if histograms.burst_alone.count > 0 { &histograms.burst_alone } else { &histograms.burst };
    let none = Histogram::default();
    Some(Others { times, messages, work: product_limit(&kind.own(alone), &none), block: product_limit(&rest, &none) })
}

/// The simplest fraction that is about this number, above 0.
fn fraction(number: f64) -> (u64, u64) {
    let over = |under: u64| (((number * under as f64).round() as u64).max(1), under);
    let is_near = |&(over, under): &(u64, u64)| (over as f64 / under as f64 / number - 1.0).abs() <= ROUND_ERROR;
    (1..=MOST_IN_ROUND).map(over).find(is_near).unwrap_or_else(|| over(MOST_IN_ROUND))
}

/// A histogram without another of which all is in it.
fn without(all: &Histogram, part: &Histogram) -> Histogram {
    let of_part = |bin: &TimeBin| {
        let same = part.bins.iter().find(|other| other.from_us.total_cmp(&bin.from_us).is_eq());
        same.map_or(0, |other| other.count)
    };
    let bins = all.bins.iter().map(|bin| TimeBin { count: bin.count.saturating_sub(of_part(bin)), ..*bin });
    let bins: Vec<TimeBin> = bins.filter(|bin| bin.count > 0).collect();
    Histogram { count: bins.iter().map(|bin| bin.count).sum(), bins, ..Histogram::default() }
}

fn lcm(a: u64, b: u64) -> u64 {
    a * b / gcd(a, b).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Histograms, Profile, Waker};
    use crate::workload::workload_file;
    use machine::Machine;
    use proptest::prelude::*;
    use sim::{Courses, Experiment, NoMemory, Parameters, Policy, ProcessIndex, Step, WorkloadFile};

    fn times(us: f64, count: u64) -> Histogram {
        let bin = TimeBin { from_us: us, to_us: us * 1.1, count };
        Histogram { count, total_ms: us * count as f64 / 1e3, longest_ms: us * 1.1 / 1e3, bins: vec![bin] }
    }

    fn row(tid: i32, cpu_s: f64, bursts: u64) -> crate::profile::ThreadRow {
        let bin = |us: f64| vec![TimeBin { from_us: us, to_us: us * 1.4, count: bursts }];
        crate::profile::ThreadRow {
            pid: 1,
            tid,
            name: "t".into(),
            cpu_s,
            switches: bursts,
            migrations: 0,
            wait_s: 0.0,
            block_s: 0.0,
            quantum_percent: 0.0,
            bursts: bin(40.0),
            blocks: bin(100.0),
            last_burst_ms: 0.0,
            began_s: 0.0,
        }
    }

    /// A program of so many threads, which woke up `woken` times by the other and as often as `disk` says by others.
    fn program(name: &str, by: &str, threads: u64, woken: u64, disk: u64, cpu_s: f64) -> Program {
        let each = (woken + disk) / threads;
        Program {
            name: name.into(),
            threads,
            cpu_s,
            wakers: Some(vec![
                Waker { program: by.into(), count: woken },
                Waker { program: Waker::INTERRUPTS.into(), count: disk },
            ]),
            by_thread: (0..threads).map(|at| row(at as i32 + 1, cpu_s / threads as f64, each)).collect(),
            ends_percent: crate::profile::EndsPercent { system_call: 100.0, ..Default::default() },
            histograms: Histograms {
                burst: times(40.0, woken + disk),
                block: times(100.0, woken + disk),
                block_by_thread: times(100.0, woken),
                before_wake: times(30.0, woken),
                after_wake: times(10.0, woken),
                burst_alone: times(20.0, disk),
                ..Histograms::default()
            },
            ..Program::default()
        }
    }

    fn of(programs: Vec<Program>) -> WorkloadFile {
        let profile = Profile { target: "app".into(), seconds: 1.0, programs, ..Profile::default() };
        let text = workload_file(&profile);
        WorkloadFile::parse(&text).unwrap_or_else(|(line, why)| panic!("line {line}: {why}\n{text}"))
    }

    #[test]
    fn a_client_and_its_server_ask_and_answer() {
        let file = of(vec![
            program("server", "client", 4, 10_000, 4_000, 0.6),
            program("client", "server", 2, 10_000, 0, 0.4),
        ]);
        let jobs: Vec<_> = file.workload.jobs.iter().map(|job| (job.name.as_str(), job.process.rounds)).collect();
        // Two of five questions take a disk.
        assert_eq!(jobs, [("server", Some(500)), ("client", None)]);
        assert_eq!(
            file.workload.jobs[1].process.phases[0].repeat, 2,
            "each of two clients has two of four questions under way"
        );
        // They have the CPU time that they were seen to have, whatever their wake-ups tell of it.
        let courses = Courses::new(&file.workload, 1, 0);
        let work_s = |processes: std::ops::Range<u32>| {
            let acts = processes.flat_map(|process| courses.acts(ProcessIndex(process)));
            acts.map(|act| if let sim::Act::Work(ns) = act { ns as f64 / 1e9 } else { 0.0 }).sum::<f64>()
        };
        let (servers_s, clients_s) = (work_s(0..4), work_s(4..6));
        assert!(
            (servers_s / 0.6 - 1.0).abs() < 0.02 && (clients_s / 0.4 - 1.0).abs() < 0.02,
            "{servers_s} {clients_s}"
        );
    }

    #[test]
    fn programs_that_hardly_wake_one_another_block_by_themselves() {
        let file = of(vec![program("a", "b", 2, 100, 9_000, 0.6), program("b", "a", 2, 100, 9_000, 0.4)]);
        assert!(file.workload.jobs.iter().all(|job| job.process.phases.is_empty() && job.process.block_ms.is_some()));
    }

    #[test]
    fn who_waits_for_its_peers_above_all_blocks_by_itself() {
        let mut server = program("server", "client", 4, 4_000, 6_000, 0.6);
        server.wakers.as_mut().unwrap().push(Waker { program: "server".into(), count: 5_000 });
        let file = of(vec![server, program("client", "server", 2, 4_000, 0, 0.4)]);
        assert!(file.workload.jobs.iter().all(|job| job.process.phases.is_empty()), "{:?}", file.workload);
    }

    #[test]
    fn where_many_speak_with_one_none_gets_what_is_meant_for_another() {
        for (servers, clients) in [(4, 1), (1, 4)] {
            let file = of(vec![
                program("server", "client", servers, 10_000, 4_000, 0.6),
                program("client", "server", clients, 10_000, 0, 0.4),
            ]);
            for job in &file.workload.jobs {
                let steps = job.process.phases.iter().flat_map(|phase| &phase.steps);
                let replies = steps.filter(|step| matches!(step, Step::Reply(_))).count();
                assert_eq!(replies > 0, job.processes == 1, "{job:?}");
            }
        }
    }

    #[test]
    fn a_post_that_woke_nobody_is_a_message_too() {
        let clients = |alone: u64| {
            let mut client = program("client", "server", 2, 10_000, 0, 0.4);
            client.histograms.burst_alone = times(20.0, alone);
            let file = of(vec![program("server", "client", 2, 10_000, 0, 0.6), client]);
            let of_client = file.workload.jobs.into_iter().find(|job| job.name == "client").unwrap();
            of_client.process.phases.last().unwrap().repeat
        };
        assert_eq!([clients(0), clients(3_000)], [5_000, 6_500]);
    }

    #[test]
    fn other_blocking_is_that_of_the_threads_that_speak() {
        let mut server = program("server", "client", 4, 10_000, 4_000, 0.6);
        // One in the background sleeps for a second each time, as it does nothing else.
        let sleeps = times(1e6, 50);
        server.histograms.block.count += 50;
        server.histograms.block.bins.extend(&sleeps.bins);
        let file = of(vec![server, program("client", "server", 2, 10_000, 0, 0.4)]);
        let steps = file.workload.jobs[0].process.phases.iter().flat_map(|phase| &phase.steps);
        let blocks = steps.filter_map(|step| match step {
            Step::Block(sim::Distribution::Histogram { edges_ms, .. }) => edges_ms.last().copied(),
            _ => None,
        });
        assert!(blocks.clone().count() > 0 && blocks.into_iter().all(|longest_ms| longest_ms < 1.0));
    }

    #[test]
    fn fractions_are_simple_and_near() {
        assert_eq!(
            [0.5, 0.41, 2.0, 0.02].map(fraction),
            [(1, 2), (2, 5), (2, 1), (1, 48.min(MOST_IN_ROUND))].map(|it| it)
        );
    }

    proptest! {
        #[test]
        fn nobody_is_left_waiting(
            servers in 1_u64..9, clients in 1_u64..9, messages in 300_u64..3_000, disk in 0_u64..600,
        ) {
            let file = of(vec![
                program("server", "client", servers, messages, disk, 0.6),
                program("client", "server", clients, messages, 0, 0.4),
            ]);
            let courses = Courses::new(&file.workload, 1, 0);
            let names = file.workload.semaphores();
            let mut balance = vec![(0_i64, 0_i64); names.len()];
            for process in 0..(servers + clients) as u32 {
                for act in courses.acts(ProcessIndex(process)) {
                    match act {
                        sim::Act::Post(at) | sim::Act::Reply(at) => balance[at].0 += 1,
                        sim::Act::Wait(at) | sim::Act::AwaitReply(at) => balance[at].1 += 1,
                        _ => {}
                    }
                }
            }
            // Each is waited for as often at most as it is posted.
            prop_assert!(balance.iter().all(|&(posts, waits)| posts >= waits && waits > 0), "{balance:?}");
            let waits = |step: &Step| matches!(step, Step::Wait(_));
            prop_assert!(file.workload.jobs.iter().all(|job| job.process.phases.iter().any(|it| it.steps.iter().any(waits))));
            // And so all of them come to their end.
            let parameters = Parameters { horizon_ms: Some(1e6), ..Parameters::default() };
            let machine = Machine::named("pack:1 core:2 pu:1").unwrap();
            let experiment = Experiment::new(&machine, &file.workload, &parameters).unwrap();
            prop_assert!(experiment.run(Policy::Eevdf, 0, NoMemory, |_| ()).completed);
        }
    }
}
