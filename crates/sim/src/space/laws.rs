//! Laws that every run of space sharing obeys, and the report's rules said again in the plainest way.

use super::allocator::Allocator;
use super::book::{NONE, Seat, State};
use super::engine::{Engine, Next};
use super::experiment::Experiment;
use super::graph::{Graph, Listed, Stage, Tasks};
use super::mix::{Kind, Mix};
use super::outcome::{Change, Event, Outcome};
use super::policy::{Parameters, Policy};
use crate::cache::Footprint;
use crate::index::{CpuIndex, ProcessIndex};
use crate::memory::{Misses, NoMemory, Ran, Stopped, TaskMemory};
use crate::workload::Distribution;
use machine::Machine;
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;

fn tasks() -> impl Strategy<Value = Tasks> {
    prop_oneof![
        (1..40_u32).prop_map(Tasks::Independent),
        (1..8_u32, 1..8_u32).prop_map(|(rows, columns)| Tasks::Wavefront { rows, columns }),
        // Each may be after any before it.
        prop::collection::vec(any::<u16>(), 1..16).prop_map(|before| {
            let task = |(number, mask): (usize, &u16)| Listed {
                name: number.to_string(),
                work_ms: (mask % 3 == 0).then_some(Distribution::Constant(f64::from(mask % 7 + 1))),
                after: (0..number).filter(|other| mask >> other & 1 == 1).map(|other| other.to_string()).collect(),
            };
            Tasks::Listed(before.iter().enumerate().map(task).collect())
        }),
    ]
}

fn graph(name: String) -> impl Strategy<Value = Graph> {
    let work = prop_oneof![
        (1..20_u32).prop_map(|ms| Distribution::Constant(f64::from(ms))),
        Just(Distribution::Exponential(5.0)),
        Just(Distribution::Uniform(0.5, 9.0)),
    ];
    let stage = (tasks(), work).prop_map(|(tasks, work_ms)| Stage {
        name: "stage".into(),
        tasks,
        work_ms,
        memory: Footprint::default(),
        kept: 0.5,
    });
    (prop::collection::vec(stage, 1..4), 1..4_u32).prop_map(move |(stages, rounds)| Graph {
        name: name.clone(),
        about: String::new(),
        source: String::new(),
        rounds,
        stages,
    })
}

fn mix() -> impl Strategy<Value = Mix> {
    let kind = |name: &str| (graph(name.into()), 1..4_u32).prop_map(|(graph, count)| Kind { graph, count });
    let all = (kind("a"), kind("b"), kind("c"), 1..4_usize);
    all.prop_map(|(a, b, c, kinds)| Mix { name: "mix".into(), kinds: [a, b, c].into_iter().take(kinds).collect() })
}

fn parameters() -> impl Strategy<Value = Parameters> {
    let gap = prop_oneof![Just(None), (1..60_u32).prop_map(|ms| Some(Distribution::Exponential(f64::from(ms))))];
    (gap, 0..1_000_u32, 1..5_u32, 0..8_u32, any::<bool>(), 0..1_000_u64).prop_map(
        |(gap_ms, switch_us, history, delay, stops, seed)| Parameters {
            gap_ms,
            switch_us: f64::from(switch_us),
            history,
            yield_delay_ms: f64::from(delay),
            horizon_ms: stops.then_some(120.5),
            replicates: 1,
            seed,
            ..Parameters::default()
        },
    )
}

fn machine(cpus: u32) -> Machine {
    Machine::named(&format!("pack:1 l3:1 core:{cpus} pu:1")).unwrap()
}

/// Caches of which every worker loses a fixed time's worth: more on another CPU than on its own.
#[derive(Clone, Default)]
struct Fixed {
    last: BTreeMap<ProcessIndex, CpuIndex>,
    on: BTreeMap<CpuIndex, ProcessIndex>,
    owed_ns: BTreeMap<ProcessIndex, u64>,
}

const HERE_NS: u64 = 300_000;
const ELSEWHERE_NS: u64 = 900_000;

impl TaskMemory for Fixed {
    fn turn(&mut self, _: ProcessIndex, _: u32, _: f64) {}

    fn start(&mut self, process: ProcessIndex, cpu: CpuIndex, _: u64, work_ns: u64) -> u64 {
        let owed = match self.last.insert(process, cpu) {
            None => 0,
            Some(last) if last != cpu => ELSEWHERE_NS,
            Some(_) if self.on.get(&cpu) != Some(&process) => HERE_NS,
            Some(_) => 0,
        };
        self.on.insert(cpu, process);
        let owed_ns = self.owed_ns.entry(process).or_default();
        *owed_ns += owed;
        *owed_ns + work_ns
    }

    fn stop(&mut self, process: ProcessIndex, _: CpuIndex, _: u64, work_ns: u64, wall_ns: u64) -> Stopped {
        let owed_ns = self.owed_ns.entry(process).or_default();
        let reload_ns = wall_ns.min(*owed_ns);
        *owed_ns -= reload_ns;
        let work_ns = (wall_ns - reload_ns).min(work_ns);
        Stopped { ran: Ran { work_ns, wall_ns, misses: Misses::default() }, reload_ns }
    }
}

fn policies() -> impl Strategy<Value = Policy> {
    prop::sample::select(Policy::ALL.to_vec())
}

fn run(mix: &Mix, parameters: &Parameters, cpus: u32, policy: Policy) -> (Outcome, Vec<Event>) {
    let machine = machine(cpus);
    let experiment = Experiment::new(&machine, mix, parameters).unwrap();
    let mut events = Vec::new();
    let outcome = experiment.run(policy, 0, Fixed::default(), |event| events.push(event));
    (outcome, events)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Work, idle time in hand, switches and reloads are all the time that a job had CPUs: its response time times its mean
    /// allocation, here summed from who was given what.
    #[test]
    fn response_times_add_up(mix in mix(), parameters in parameters(), cpus in 1..12_u32, policy in policies()) {
        let (outcome, events) = run(&mix, &parameters, cpus, policy);
        let end_ns = (outcome.makespan_ms * 1e6).round() as u64;
        let mut held_ns = vec![0_u64; mix.jobs() as usize];
        let mut has: BTreeMap<CpuIndex, (usize, u64)> = BTreeMap::new();
        for event in &events {
            match event.change {
                Change::Given(job) => {
                    let before = has.insert(event.cpu, (job.0 as usize, event.at_ns));
                    prop_assert_eq!(before, None, "given while another has it");
                }
                Change::Taken => {
                    let (job, since_ns) = has.remove(&event.cpu).unwrap();
                    held_ns[job] += event.at_ns - since_ns;
                }
                Change::Seated(worker) => prop_assert_eq!(has[&event.cpu].0, (worker.0 / cpus) as usize),
            }
        }
        has.into_values().for_each(|(job, since_ns)| held_ns[job] += end_ns - since_ns);
        for (job, held_ns) in outcome.jobs.iter().zip(held_ns) {
            let account = job.account;
            prop_assert_eq!(account.total_ns(), held_ns);
            prop_assert_eq!(job.held_ns, held_ns);
            let (affine, other) = (account.all_affine(), account.all_other());
            if let (Some(response_ms), true) = (job.response_ms(), affine.count + other.count > 0) {
                let moves = (affine.count + other.count) as f64;
                let mean_ms = |ns: u64, count: u64| if count == 0 { 0.0 } else { ns as f64 / 1e6 / count as f64 };
                let share = affine.count as f64 / moves;
                let (p_affine, p_other) = (mean_ms(affine.reload_ns, affine.count), mean_ms(other.reload_ns, other.count));
                let switch = mean_ms(account.switch_ns, affine.count + other.count);
                let spent_ms = (account.work_ns + account.idle_ns) as f64 / 1e6
                    + moves * (switch + share * p_affine + (1.0 - share) * p_other);
                let mean_allocation = job.held_ns as f64 / 1e6 / response_ms;
                prop_assert!((spent_ms - response_ms * mean_allocation).abs() < 1e-6 * spent_ms.max(1.0));
            }
        }
        if outcome.completed {
            let tasks: u64 = mix.kinds.iter().map(|kind| kind.graph.tasks() * u64::from(kind.count)).sum();
            prop_assert_eq!(outcome.tasks, tasks);
            // Nobody works more or less for being moved.
            let (alone, _) = run(&mix, &parameters, 1, Policy::Equipartition);
            if alone.completed {
                for (a, b) in outcome.jobs.iter().zip(&alone.jobs) {
                    prop_assert_eq!(a.account.work_ns, b.account.work_ns);
                }
            }
        }
    }

    #[test]
    fn equal_shares_change_with_arrivals_and_departures_alone(mix in mix(), parameters in parameters(), cpus in 1..12_u32) {
        let (outcome, events) = run(&mix, &parameters, cpus, Policy::Equipartition);
        let times: BTreeSet<u64> =
            outcome.jobs.iter().flat_map(|job| [Some(job.arrived_ns), job.ended_ns]).flatten().collect();
        for event in events {
            prop_assert!(matches!(event.change, Change::Seated(_)) || times.contains(&event.at_ns), "{event:?}");
        }
    }

    /// After every step: every CPU, worker and list says the same, no CPU that a job wants is idle, and nobody who asks has two
    /// fewer than another.
    #[test]
    fn every_state_is_whole_and_fair(mix in mix(), parameters in parameters(), cpus in 1..12_u32, policy in policies()) {
        let machine = machine(cpus);
        let experiment = Experiment::new(&machine, &mix, &parameters).unwrap();
        let mut engine = Engine::new(&experiment, policy, 0, NoMemory, |_| {});
        while let Some((at_ns, next)) = engine.next() {
            engine.step(at_ns, next);
            check_whole(&engine);
            check_fair(&engine, policy);
        }
    }

    #[test]
    fn the_report_s_rules_are_followed(mix in mix(), parameters in parameters(), cpus in 1..12_u32, policy in policies()) {
        prop_assume!(policy != Policy::Equipartition);
        let machine = machine(cpus);
        let experiment = Experiment::new(&machine, &mix, &parameters).unwrap();
        let events = RefCell::new(Vec::new());
        let mut engine = Engine::new(&experiment, policy, 0, Fixed::default(), |event| events.borrow_mut().push(event));
        let mut rules = Restated::new(&mix, policy, cpus, &parameters);
        while let Some((at_ns, next)) = engine.next() {
            engine.step(at_ns, next);
            rules.follow(at_ns, next, events.borrow_mut().drain(..));
        }
    }
}

/// Times beyond all that a simulation can last end it, and wrap around nowhere.
#[test]
fn what_takes_for_ever_never_ends() {
    let mix = Mix::named("MVA+MATRIX+GRAVITY", |_| Err(super::mix::MixError::Unknown(String::new()))).unwrap();
    let never = Parameters { speed: 1e-6, gap_ms: None, switch_us: 0.0, ..Parameters::default() };
    let year_ms = crate::parameters::LONGEST_MS;
    for parameters in [
        Parameters { gap_ms: Some(Distribution::Constant(year_ms)), ..never.clone() },
        Parameters { switch_us: 1e9, ..never.clone() },
        Parameters { yield_delay_ms: year_ms, ..never },
    ] {
        for policy in Policy::ALL {
            let (outcome, _) = run(&mix, &parameters, 5, policy);
            for job in &outcome.jobs {
                assert_eq!(job.account.total_ns(), job.held_ns);
                assert!(job.ended_ns.is_none_or(|ended_ns| ended_ns >= job.arrived_ns));
            }
            let ended = outcome.jobs.iter().filter(|job| job.ended_ns.is_some()).count();
            assert_eq!(outcome.completed, ended == 3, "{policy}");
        }
    }
}

fn check_whole<M: TaskMemory, W: FnMut(Event)>(engine: &Engine<M, W>) {
    let book = engine.book();
    let mut seated = BTreeSet::new();
    for (number, cpu) in book.cpus.iter().enumerate() {
        let number = number as u32;
        assert_eq!(book.free.contains(&number), cpu.state == State::Free);
        assert_eq!(book.willing.contains(&number), cpu.state == State::Willing);
        assert_eq!(cpu.job == NONE, cpu.state == State::Free);
        for (owner, job) in book.jobs.iter().enumerate() {
            let has = cpu.job == owner as u32;
            assert_eq!(job.cpus.contains(&number), has);
            assert_eq!(job.idle_cpus.contains(&number), has && cpu.state != State::Running);
        }
        if cpu.worker != NONE {
            assert!(seated.insert(cpu.worker));
            assert_eq!(book.workers[cpu.worker as usize].seat, Seat::OnCpu);
            assert_eq!(book.workers[cpu.worker as usize].cpu, number);
        }
        assert!(cpu.worker != NONE || cpu.state != State::Running);
    }
    for (owner, job) in book.jobs.iter().enumerate() {
        assert!(job.workers as usize <= book.cpus.len());
        if book.active.contains(&(owner as u32)) {
            for worker in job.first_worker..job.first_worker + job.workers {
                let places = [seated.contains(&worker), job.idle.contains(&worker), job.stopped.contains(&worker)];
                assert_eq!(places.iter().filter(|place| **place).count(), 1, "worker {worker}");
                let seat = [Seat::OnCpu, Seat::Idle, Seat::Stopped].into_iter().zip(places).find(|(_, is)| *is);
                assert_eq!(seat.map(|(seat, _)| seat), Some(book.workers[worker as usize].seat));
            }
        } else {
            assert!(job.cpus.is_empty());
        }
    }
}

fn check_fair<M: TaskMemory, W: FnMut(Event)>(engine: &Engine<M, W>, policy: Policy) {
    let book = engine.book();
    let most = book.active.iter().map(|&job| book.has(job)).max().unwrap_or(0);
    for &number in &book.active {
        let (job, useful) = (&book.jobs[number as usize], engine.useful(number));
        if policy == Policy::Equipartition {
            assert!(job.cpus.len() + 1 >= most);
            assert!(useful == 0 || job.idle_cpus.is_empty());
            continue;
        }
        assert_eq!(job.asks_since_ns != u64::MAX, useful > 0, "who wants for CPUs asks");
        if useful > 0 {
            assert!(book.free.is_empty() && book.willing.is_empty() && job.idle_cpus.is_empty());
            assert!(policy == Policy::DynamicAffinityNoPriority || job.cpus.len() + 1 >= most);
        }
    }
}

/// The rules as the report has them, with sets that are searched from one end to the other. It is told what happened, and holds
/// each decision of the engine against those that the rules allow.
struct Restated<'a> {
    affinity: bool,
    priority: bool,
    delays: bool,
    history: usize,
    cpus: Vec<PlainCpu>,
    jobs: Vec<PlainJob<'a>>,
    arrived: Vec<usize>,
    /// Where each worker ran last.
    last: BTreeMap<u32, usize>,
    time: u64,
    step: u64,
}

#[derive(Clone, Default)]
struct PlainCpu {
    owner: Option<usize>,
    worker: Option<u32>,
    /// Its owner has nothing for it; since which step, and whether others may have it.
    idle: Option<u64>,
    willing: bool,
    history: Vec<u32>,
}

struct PlainJob<'a> {
    graph: &'a Graph,
    round: u32,
    stage: usize,
    done: BTreeSet<usize>,
    ready: Vec<usize>,
    begun: BTreeMap<u32, usize>,
    workers: u32,
    idle: Vec<u32>,
    stopped: Vec<u32>,
    asks_since: Option<u64>,
}

impl PlainJob<'_> {
    /// Tasks that a task of the present stage waits for.
    fn before(&self, task: usize) -> Vec<usize> {
        match &self.graph.stages[self.stage].tasks {
            Tasks::Independent(_) => Vec::new(),
            Tasks::Wavefront { columns, .. } => {
                let columns = *columns as usize;
                let above = task.checked_sub(columns);
                let left = (!task.is_multiple_of(columns)).then(|| task - 1);
                above.into_iter().chain(left).collect()
            }
            Tasks::Listed(tasks) => {
                let place = |name: &String| tasks.iter().position(|task| task.name == *name).unwrap();
                tasks[task].after.iter().map(place).collect()
            }
        }
    }

    fn count(&self) -> usize {
        self.graph.stages[self.stage].tasks.count() as usize
    }

    /// Adds what became ready, in order of number; how much that is.
    fn look(&mut self) -> usize {
        let known: BTreeSet<usize> = self.ready.iter().chain(self.begun.values()).chain(&self.done).copied().collect();
        let is_ready =
            |task: &usize| !known.contains(task) && self.before(*task).iter().all(|before| self.done.contains(before));
        let newly: Vec<usize> = (0..self.count()).filter(is_ready).collect();
        self.ready.extend(&newly);
        newly.len()
    }

    /// A worker is done with its task: how many became ready, none when all is over.
    fn end(&mut self, worker: u32) -> Option<usize> {
        self.done.insert(self.begun.remove(&worker).unwrap());
        if self.done.len() == self.count() {
            self.done.clear();
            self.stage += 1;
            if self.stage == self.graph.stages.len() {
                (self.stage, self.round) = (0, self.round + 1);
                if self.round == self.graph.rounds {
                    return None;
                }
            }
        }
        Some(self.look())
    }

    fn begin(&mut self, worker: u32, newest: bool) {
        let task = if newest { self.ready.pop().unwrap() } else { self.ready.remove(0) };
        self.begun.insert(worker, task);
    }

    fn useful(&self) -> usize {
        self.ready.len() + self.stopped.len()
    }
}

impl<'a> Restated<'a> {
    fn new(mix: &'a Mix, policy: Policy, cpus: u32, parameters: &Parameters) -> Self {
        let job = |graph| PlainJob {
            graph,
            round: 0,
            stage: 0,
            done: BTreeSet::new(),
            ready: Vec::new(),
            begun: BTreeMap::new(),
            workers: 0,
            idle: Vec::new(),
            stopped: Vec::new(),
            asks_since: None,
        };
        let graphs = mix.kinds.iter().flat_map(|kind| (0..kind.count).map(|_| &kind.graph));
        Self {
            affinity: policy != Policy::Dynamic,
            priority: policy != Policy::DynamicAffinityNoPriority,
            delays: policy == Policy::DynamicAffinityDelay && parameters.yield_delay_ms > 0.0,
            history: parameters.history as usize,
            cpus: vec![PlainCpu::default(); cpus as usize],
            jobs: graphs.map(job).collect(),
            arrived: Vec::new(),
            last: BTreeMap::new(),
            time: 0,
            step: 0,
        }
    }

    fn follow(&mut self, at_ns: u64, next: Next, events: impl Iterator<Item = Event>) {
        let mut events = events.map(|event| (event.cpu.0 as usize, event.change)).peekable();
        (self.time, self.step) = (at_ns, self.step + 1);
        match next {
            Next::Arrival(job) => {
                let job = job as usize;
                self.arrived.push(job);
                self.jobs[job].look();
                self.ask(job, &mut events);
            }
            Next::GivesUp(cpu) => {
                self.cpus[cpu as usize].willing = true;
                self.offer(cpu as usize, &mut events);
            }
            Next::Done(cpu) => self.done(cpu as usize, &mut events),
        }
        assert_eq!(events.next(), None, "the engine does more than the rules say");
        for job in &mut self.jobs {
            job.asks_since = if job.useful() > 0 { job.asks_since.or(Some(at_ns)) } else { None };
        }
    }

    fn done(&mut self, cpu: usize, events: &mut Peekable<impl Iterator<Item = (usize, Change)>>) {
        let (owner, worker) = (self.cpus[cpu].owner.unwrap(), self.cpus[cpu].worker.unwrap());
        let Some(newly) = self.jobs[owner].end(worker) else {
            self.arrived.retain(|&job| job != owner);
            let mut freed = Vec::new();
            while let Some((cpu, _)) = events.next_if(|(_, change)| *change == Change::Taken) {
                assert_eq!(self.cpus[cpu].owner, Some(owner));
                let history = std::mem::take(&mut self.cpus[cpu].history);
                self.cpus[cpu] = PlainCpu { history, ..PlainCpu::default() };
                freed.push(cpu);
            }
            assert!(self.cpus.iter().all(|cpu| cpu.owner != Some(owner)));
            return freed.into_iter().for_each(|cpu| self.offer(cpu, events));
        };
        let job = &mut self.jobs[owner];
        if !job.ready.is_empty() {
            job.begin(worker, newly > 0);
        } else if !job.stopped.is_empty() {
            job.idle.push(worker);
            self.cpus[cpu].worker = None;
            self.seated(cpu, owner, None, events);
        } else {
            self.cpus[cpu].idle = Some(self.step);
            self.cpus[cpu].willing = !self.delays;
        }
        if newly > 1 {
            self.use_own(owner);
            self.ask(owner, events);
        }
        if self.cpus[cpu].willing {
            self.offer(cpu, events);
        }
    }

    /// Those of a job's idle CPUs that fell idle last go on first, with the workers that stand by.
    fn use_own(&mut self, owner: usize) {
        loop {
            let idle = self.cpus.iter().enumerate().filter(|(_, cpu)| cpu.owner == Some(owner) && cpu.idle.is_some());
            let Some((last, _)) = idle.max_by_key(|(_, cpu)| cpu.idle) else { return };
            if self.jobs[owner].ready.is_empty() {
                return;
            }
            let cpu = &mut self.cpus[last];
            (cpu.idle, cpu.willing) = (None, false);
            self.jobs[owner].begin(cpu.worker.unwrap(), false);
        }
    }

    fn ask(&mut self, owner: usize, events: &mut Peekable<impl Iterator<Item = (usize, Change)>>) {
        while self.jobs[owner].useful() > 0 && self.cpus.iter().any(|cpu| cpu.owner != Some(owner)) {
            let critical = self.critical(owner);
            let desired = self.last.get(&critical[0]).copied().filter(|_| self.affinity);
            let free = self.which(|cpu| cpu.owner.is_none());
            let willing = self.which(|cpu| cpu.willing);
            let (allowed, worker) = match desired {
                Some(desired) if free.contains(&desired) || willing.contains(&desired) => {
                    (vec![desired], Some(critical[0]))
                }
                _ if !free.is_empty() => (free, None),
                _ if !willing.is_empty() => (willing, None),
                _ => {
                    let has = |job: usize| self.which(|cpu| cpu.owner == Some(job));
                    let most = self.arrived.iter().map(|&job| has(job).len()).max().unwrap_or(0);
                    if most <= has(owner).len() + 1 {
                        return;
                    }
                    let victim = *self.arrived.iter().find(|&&job| has(job).len() == most).unwrap();
                    let kept = self.which(|cpu| cpu.owner == Some(victim) && cpu.idle.is_some());
                    let worst = if kept.is_empty() { has(victim) } else { kept };
                    match desired {
                        Some(desired) if worst.contains(&desired) => (vec![desired], Some(critical[0])),
                        _ => (worst, None),
                    }
                }
            };
            let cpu = self.handed_over(owner, events);
            assert!(allowed.contains(&cpu), "{cpu} of {allowed:?}");
            self.seated(cpu, owner, worker, events);
        }
    }

    fn offer(&mut self, cpu: usize, events: &mut Peekable<impl Iterator<Item = (usize, Change)>>) {
        let has = |job: usize| self.which(|cpu| cpu.owner == Some(job)).len();
        let asking: Vec<usize> = self.arrived.iter().copied().filter(|&job| self.jobs[job].useful() > 0).collect();
        let since = |job: usize| self.jobs[job].asks_since.unwrap_or(self.time);
        let Some(&first) = asking.iter().min_by_key(|&&job| (has(job), since(job))) else { return };
        let last_task = self.remembered(cpu).into_iter().find(|&worker| self.could_run(worker));
        let last_task = last_task.filter(|&worker| {
            let fewest = asking.iter().map(|&job| has(job)).min().unwrap();
            !self.priority || has(self.job_of(worker)) <= fewest
        });
        let owner = last_task.map_or(first, |worker| self.job_of(worker));
        assert_eq!(self.handed_over(owner, events), cpu);
        self.seated(cpu, owner, last_task, events);
    }

    /// A CPU is taken from whoever has it, and given to a job: which one it is.
    fn handed_over(&mut self, to: usize, events: &mut Peekable<impl Iterator<Item = (usize, Change)>>) -> usize {
        let (cpu, mut change) = events.next().expect("a CPU is given");
        if let Some(owner) = self.cpus[cpu].owner {
            assert_eq!(change, Change::Taken);
            change = events.next().unwrap().1;
            let worker = self.cpus[cpu].worker.take().unwrap();
            let job = &mut self.jobs[owner];
            if self.cpus[cpu].idle.is_some() {
                job.idle.push(worker);
            } else {
                job.stopped.push(worker);
                job.asks_since = job.asks_since.or(Some(self.time));
            }
        }
        assert_eq!(change, Change::Given(super::outcome::JobIndex(to as u32)));
        let history = std::mem::take(&mut self.cpus[cpu].history);
        self.cpus[cpu] = PlainCpu { owner: Some(to), history, ..PlainCpu::default() };
        cpu
    }

    /// A worker begins on a CPU: `expected`, or the last of its job's to have run there, or else a critical one.
    fn seated(
        &mut self,
        cpu: usize,
        owner: usize,
        expected: Option<u32>,
        events: &mut Peekable<impl Iterator<Item = (usize, Change)>>,
    ) {
        let (at, Change::Seated(worker)) = events.next().expect("a worker begins") else { panic!("no worker begins") };
        let own = |worker: &u32| self.job_of(*worker) == owner && self.could_run(*worker);
        let last = self.remembered(cpu).into_iter().find(own);
        let allowed = expected.or(last).map_or_else(|| self.critical(owner), |worker| vec![worker]);
        assert!(at == cpu && allowed.contains(&worker.0), "{worker:?} of {allowed:?} on {cpu}");
        let (worker, job) = (worker.0, &mut self.jobs[owner]);
        if job.stopped.contains(&worker) {
            job.stopped.retain(|&other| other != worker);
        } else {
            job.workers += u32::from(!job.idle.contains(&worker));
            job.idle.retain(|&other| other != worker);
            job.begin(worker, false);
        }
        self.last.insert(worker, cpu);
        let cpu = &mut self.cpus[cpu];
        cpu.worker = Some(worker);
        cpu.history.retain(|&other| other != worker);
        cpu.history.insert(0, worker);
    }

    fn which(&self, is: impl Fn(&PlainCpu) -> bool) -> Vec<usize> {
        (0..self.cpus.len()).filter(|&cpu| is(&self.cpus[cpu])).collect()
    }

    fn job_of(&self, worker: u32) -> usize {
        worker as usize / self.cpus.len()
    }

    fn could_run(&self, worker: u32) -> bool {
        let job = &self.jobs[self.job_of(worker)];
        job.stopped.contains(&worker) || job.idle.contains(&worker) && !job.ready.is_empty()
    }

    fn remembered(&self, cpu: usize) -> Vec<u32> {
        let length = if self.affinity { self.history } else { 0 };
        self.cpus[cpu].history.iter().copied().take(length).collect()
    }

    /// The workers that may be the most critical one.
    fn critical(&self, owner: usize) -> Vec<u32> {
        let job = &self.jobs[owner];
        match (job.stopped.first(), job.idle.last()) {
            (Some(&stopped), _) => vec![stopped],
            (None, None) => vec![owner as u32 * self.cpus.len() as u32 + job.workers],
            (None, Some(&last)) if self.affinity => vec![last],
            (None, Some(_)) => job.idle.clone(),
        }
    }
}
