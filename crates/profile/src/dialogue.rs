//! Programs that wake one another, as a client and its server do: one asks, the other answers.
//!
//! A profile sees wake-ups, not messages: who is asked while it still runs is woken by nobody, and goes on. So what is written is the
//! messages, as often as the one of the two was woken that was woken more often, and who sleeps for how long comes of that.

use crate::histogram::{Histogram, TimeBin};
use crate::kinds::KindOfThreads;
use crate::profile::Program;
use crate::survival::{Distribution, product_limit};

/// Wake-ups in each direction below which two programs have no dialogue.
const LEAST_WAKES: u64 = 200;

/// Share of a program's times of blocking, from 0 to 1, that the other one ends at least.
const LEAST_SHARE: f64 = 0.25;

/// Other blocking than for messages is left out where there is less of it for each message.
const LEAST_OTHERS: f64 = 0.01;

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
    /// How many messages it gets.
    pub messages: u64,
    /// Work from a message that it gets to its own, and from there until it waits.
    pub before: Distribution,
    pub after: Distribution,
    /// Mean work, in ms, between other blocking, and how long that is; none where there is next to none.
    pub others: Option<(f64, Distribution)>,
}

/// The dialogues among programs: each has one at most, with the one that it has the most wake-ups with.
pub(crate) fn dialogues(programs: &[&Program]) -> Vec<Dialogue> {
    let mut pairs = Vec::new();
    for (first, one) in programs.iter().enumerate() {
        for (second, other) in programs.iter().enumerate().skip(first + 1) {
            let (of_one, of_other) = (wakes(one, other), wakes(other, one));
            if is_much(of_one, one) && is_much(of_other, other) {
                // Who asks has less to do for a message.
                let (asks, answers) = if one.cpu_s <= other.cpu_s { (first, second) } else { (second, first) };
                pairs.push(Dialogue { asks, answers, messages: of_one.max(of_other) });
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
        // All threads of either kind get as many, so that nobody is left waiting.
        let shared = asking * answering / gcd(asking, answering);
        let times = (self.messages as f64 / shared as f64).round().max(1.0) as u64;
        let open = asking.max(answering).div_ceil(asking);
        let part = |program, other, kind: &KindOfThreads, opening, wait: &str, post: &str| {
            let messages = times * shared / kind.threads;
            let [before, after] = self.work(program, kind);
            Part {
                opening,
                wait: wait.to_owned(),
                post: post.to_owned(),
                messages,
                before,
                after,
                others: others(program, kind, wakes(program, other)),
            }
        };
        [
            part(asks, answers, kinds[0], Some(open), &answer, &question),
            part(answers, asks, kinds[1], None, &question, &answer),
        ]
    }

    /// Work before and after its own message, which together take for all messages as long as the kind ran.
    fn work(&self, program: &Program, kind: &KindOfThreads) -> [Distribution; 2] {
        let none = Histogram::default();
        let histograms = &program.histograms;
        let before = product_limit(&histograms.before_wake, &none);
        let after = product_limit(&histograms.after_wake, &none);
        let factor = (kind.cpu_ms / self.messages as f64) / (before.mean_ms() + after.mean_ms());
        let factor = if factor.is_finite() { factor } else { 1.0 };
        [before.scaled(factor), after.scaled(factor)]
    }
}

/// Blocking of a kind for anything else than messages, of which `answered` ended.
fn others(program: &Program, kind: &KindOfThreads, answered: u64) -> Option<(f64, Distribution)> {
    let histograms = &program.histograms;
    let count = kind.voluntary_ends - answered as f64;
    if count < LEAST_OTHERS * kind.voluntary_ends {
        return None;
    }
    let mut rest = without(&histograms.block, &histograms.block_by_thread);
    if rest.count == 0 {
        rest = histograms.block.clone();
    }
    Some((kind.cpu_ms / count, product_limit(&rest, &Histogram::default())))
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

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a.max(1) } else { gcd(b, a % b) }
}
