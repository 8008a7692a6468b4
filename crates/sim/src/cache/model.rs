//! The caches of a machine under one set of processes.

mod cut;
mod tasks;

pub use tasks::TaskCaches;

use super::bus::{Bus, Demand};
use super::decay::Decay;
use super::fit::{Fit, Lines};
use super::footprint::{Footprint, Order};
use super::hierarchy::{Hierarchy, HierarchyError, MAX_DEPTH, Path, Stage};
use super::pressure::Pressure;
use super::residency::{Residencies, Residency};
use super::stall::{Span, Stall};
use super::survival::Survival;
use super::timing::Timing;
use super::traffic::{SetIndex, Team, Traffic};
use crate::index::{CpuIndex, ProcessIndex};
use crate::memory::{Memory, Misses, Ran};
use crate::workload::Workload;
use machine::Machine;

/// One process of a simulation, as far as caches are concerned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Member {
    /// What it does to caches.
    pub footprint: Footprint,
    /// Position of its job, from 0; processes of one job share lines.
    pub job: u32,
}

/// How a footprint's lines are used.
#[derive(Clone, Copy, Debug, Default)]
struct Behaviour {
    order: Order,
    pass_ns: f64,
    /// Passes a ns of work.
    passes_per_ns: f64,
    shared_lines: f64,
    writes_per_ns: f64,
}

/// A process.
#[derive(Clone, Copy, Debug)]
struct Process {
    behaviour: u32,
    /// Its job, when it shares lines.
    sharing_job: Option<u32>,
    /// Where it was dispatched last.
    cpu: Option<CpuIndex>,
    /// The node of its memory: where it ran first.
    home: u32,
}

/// The processes of a job that share lines.
#[derive(Clone, Copy, Debug, Default)]
struct Job {
    /// Writes to its shared lines so far.
    written: f64,
    /// How many of its processes run.
    running: u32,
}

/// What one CPU does at present: all of a process that a run needs, so that it is read in one place.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Cpu {
    process: Option<ProcessIndex>,
    /// As of the process.
    behaviour: u32,
    home: u32,
    sharing_job: Option<u32>,
    /// Whether the next run goes on with the last one.
    goes_on: bool,
    /// When all its lines are about, all were used, and nobody can displace them: a run then adds steady misses.
    settled: Option<Settled>,
    /// How much it uses the bus at its process's home.
    demand: Demand,
    /// In blocked order, the share of a pass until all that is missing has been met.
    pass_left: f64,
    /// Of the lines that its outermost cache lacks, how many a writer took.
    taken: f64,
    /// By depth, what it does to caches that others use as well.
    pressure: [Pressure; MAX_DEPTH],
}

/// A run of a process that has all its lines in caches of its CPU alone.
#[derive(Clone, Copy, Debug)]
struct Settled {
    /// Stalled time a ns of work by misses that an outer cache serves.
    inner_per_ns: f64,
    /// Misses of the outermost cache a ns of work, and what each costs without a wait.
    steady_per_ns: f64,
    memory_ns: f64,
    /// Whether any are of fresh lines, which displace others.
    brings_fresh: bool,
}

impl Cpu {
    /// It had so many misses, which hold the bus for `bus_ns` each, in time of which `wall_ns` were not spent waiting for it.
    #[inline]
    fn ask(&mut self, bus: &mut Bus, misses: f64, bus_ns: f64, wall_ns: f64) {
        let demand = Demand::new(misses * bus_ns / wall_ns.max(1.0));
        bus.replace(std::mem::replace(&mut self.demand, demand), demand);
    }
}

/// What a run meets at one depth of caches. Rates are a ns of work.
#[derive(Clone, Copy, Debug, Default)]
struct Depth {
    /// Lines that can be there and aren't.
    missing: f64,
    /// Misses with nobody about.
    steady_per_ns: f64,
    /// Reload misses that neighbours cause.
    contention_per_ns: f64,
    /// Misses that writers elsewhere cause.
    invalidation_per_ns: f64,
}

impl Depth {
    fn per_ns(&self) -> f64 {
        self.steady_per_ns + self.contention_per_ns + self.invalidation_per_ns
    }
}

/// What a run meets, before it is known how long it will be.
#[derive(Clone, Copy, Debug, Default)]
struct Meeting {
    behaviour: Behaviour,
    stall: Stall,
    outermost: Depth,
    /// What a miss of the outermost cache costs without a wait, and the wait.
    memory_ns: f64,
    wait_ns: f64,
}

impl Meeting {
    /// A run with all lines about, under caches of its CPU alone, when each miss waits for the bus.
    #[inline]
    fn settled(settled: Settled, wait_ns: f64) -> Self {
        let Settled { inner_per_ns, steady_per_ns, memory_ns, .. } = settled;
        Self {
            stall: Stall::steady(inner_per_ns + steady_per_ns * (memory_ns + wait_ns)),
            outermost: Depth { steady_per_ns, ..Depth::default() },
            memory_ns,
            wait_ns,
            ..Self::default()
        }
    }

    /// The bus hears of the misses.
    #[inline]
    fn ask(&self, hierarchy: &Hierarchy, cpu: &mut Cpu, bus: &mut Bus, span: Span, misses: Misses) {
        let misses = misses.total();
        cpu.ask(bus, misses, hierarchy.timing.bus_ns, span.wall - misses * self.wait_ns);
    }

    /// What a miss costs.
    #[inline]
    fn miss_ns(&self, hierarchy: &Hierarchy, is_outermost: bool) -> f64 {
        if is_outermost { self.memory_ns + self.wait_ns } else { hierarchy.timing.next_cache_ns }
    }

    /// Of `taken` lines that a writer took, those that came back.
    #[inline]
    fn taken_back(&self, taken: f64, span: Span) -> f64 {
        (taken * span.met).min(self.outermost.missing * span.met)
    }

    /// Misses on the way, when a writer had taken so many lines.
    #[inline]
    fn misses(&self, taken: f64, span: Span) -> Misses {
        let taken_back = self.taken_back(taken, span);
        Misses {
            reload: self.outermost.missing * span.met - taken_back + self.outermost.contention_per_ns * span.work,
            steady: self.outermost.steady_per_ns * span.work,
            invalidation: taken_back + self.outermost.invalidation_per_ns * span.work,
        }
    }
}

/// CPUs that are looked at in each run to see whether they have fallen idle: at once all of the report's machine, and of a
/// large one each several times within an interval.
const LOOKED_AT: usize = 4;

/// When a CPU without a process falls idle.
const VACANT: u64 = u64::MAX;

/// The cached state of processes on a machine. It implements [`Memory`]; the [module](super) describes the model.
///
/// Its [`Misses`] are those of the outermost caches: what reaches memory or another package. Misses that an outer cache
/// serves take time and aren't counted.
#[derive(Clone, Debug)]
pub struct CacheModel {
    hierarchy: Hierarchy,
    processes: Vec<Process>,
    cpus: Vec<Cpu>,
    /// By CPU, until when its process runs; [`VACANT`] when it has none.
    until_ns: Vec<u64>,
    buses: Vec<Bus>,
    caches: Caches,
    /// The CPU that was looked at last.
    hand: usize,
    /// By CPU, the run that can be cut off.
    runs: Vec<cut::Run>,
}

/// How each footprint fits into each build of cache.
#[derive(Clone, Debug)]
struct Fits {
    builds: usize,
    /// By behaviour and build.
    all: Vec<Fit>,
}

impl Fits {
    #[inline]
    fn get(&self, behaviour: u32, stage: Stage) -> &Fit {
        &self.all[behaviour as usize * self.builds + usize::from(stage.build)]
    }
}

/// What is in which cache.
#[derive(Clone, Debug)]
struct Caches {
    behaviours: Vec<Behaviour>,
    fits: Fits,
    /// By build, in random and in blocked order.
    survivals: Vec<[Survival; 2]>,
    /// Those that share lines.
    jobs: Vec<Job>,
    processes: usize,
    /// By cache.
    traffic: Vec<Traffic>,
    /// By cache.
    pressure: Vec<Pressure>,
    residencies: Residencies,
    decay: Decay,
}

impl CacheModel {
    /// The caches around all usable CPUs of a machine, empty, with the processes of a workload.
    ///
    /// # Errors
    /// The machine doesn't tell enough of its caches.
    pub fn for_machine(machine: &Machine, timing: Timing, workload: &Workload) -> Result<Self, HierarchyError> {
        let cpus: Vec<_> = machine.usable().collect();
        let member = |job: usize| Member { footprint: workload.jobs[job].process.memory, job: job as u32 };
        let members: Vec<_> = workload.job_of_processes().map(member).collect();
        Ok(Self::new(Hierarchy::new(machine, &cpus, timing)?, &members))
    }

    /// Empty caches and nothing running. Footprints are taken to be within their limits ([`Footprint::limits`]).
    pub fn new(hierarchy: Hierarchy, members: &[Member]) -> Self {
        let mut kinds: Vec<Footprint> = Vec::new();
        let mut sharing = Vec::new();
        let mut processes = Vec::with_capacity(members.len());
        for Member { footprint, job } in members {
            let behaviour = kinds.iter().rposition(|kind| kind == footprint).unwrap_or_else(|| {
                kinds.push(*footprint);
                kinds.len() - 1
            });
            let sharing_job = (footprint.shared_lines > 0.0).then_some(*job);
            if sharing_job.is_some() {
                sharing.resize(sharing.len().max(*job as usize + 1), 0);
                sharing[*job as usize] += 1;
            }
            processes.push(Process { behaviour: behaviour as u32, sharing_job, cpu: None, home: 0 });
        }
        let mut model = Self::with(hierarchy, &kinds, processes, &sharing);
        model.remember_parts();
        model
    }

    /// Follows how much of each set was used when, in caches of several ways. Under workers that turn to other lines it isn't.
    fn remember_parts(&mut self) {
        for stage in self.hierarchy.paths.iter().flat_map(Path::stages) {
            if self.hierarchy.builds[usize::from(stage.build)].ways != Some(1) {
                self.caches.traffic[stage.cache.at()] = Traffic::with_history();
            }
        }
    }

    /// The same, with processes that behave as footprints of some `kinds` do; `sharing` tells for each job how many of
    /// its processes may share lines.
    fn with(hierarchy: Hierarchy, kinds: &[Footprint], processes: Vec<Process>, sharing: &[usize]) -> Self {
        let survivals: Vec<_> = (hierarchy.builds.iter())
            .map(|build| [Order::Random, Order::Blocked].map(|order| Survival::new(build.frames, build.ways, order)))
            .collect();
        let fits = |kind: &Footprint| {
            let builds = hierarchy.builds.iter().zip(&survivals);
            builds.map(|(build, survivals)| Fit::new(kind, build, &survivals[kind.order as usize])).collect::<Vec<_>>()
        };
        let caches = Caches {
            behaviours: (kinds.iter())
                .map(|kind| Behaviour {
                    order: kind.order,
                    pass_ns: kind.pass_us * 1e3,
                    passes_per_ns: 1e-3 / kind.pass_us,
                    shared_lines: kind.shared_lines,
                    writes_per_ns: kind.shared_writes_per_ms * 1e-6,
                })
                .collect(),
            fits: Fits { builds: hierarchy.builds.len(), all: kinds.iter().flat_map(fits).collect() },
            survivals,
            jobs: vec![Job::default(); sharing.len()],
            processes: processes.len(),
            traffic: vec![Traffic::new(); hierarchy.caches()],
            pressure: vec![Pressure::default(); hierarchy.caches()],
            residencies: Residencies::new(processes.len(), sharing, hierarchy.depths(), hierarchy.caches()),
            decay: Decay::new(),
        };
        Self {
            processes,
            cpus: vec![Cpu::default(); hierarchy.paths.len()],
            until_ns: vec![VACANT; hierarchy.paths.len()],
            buses: vec![Bus::default(); hierarchy.nodes],
            caches,
            hand: 0,
            runs: vec![cut::Run::default(); hierarchy.paths.len()],
            hierarchy,
        }
    }

    /// Empties the caches around a CPU, as the report does before an interval to see what a process reuses.
    pub fn flush(&mut self, cpu: CpuIndex) {
        self.vacate(cpu);
        for stage in self.hierarchy.paths[cpu.at()].stages() {
            let frames = self.hierarchy.builds[usize::from(stage.build)].frames;
            // As if so many fresh lines had come by that nothing is left in any frame.
            self.caches.traffic[stage.cache.at()].bring_fresh(1_000.0 * frames);
        }
    }

    /// Of the lines that a process uses again and again, how many the outermost cache around `cpu` has for it, as of its last
    /// dispatch or run there.
    pub fn resident_lines(&self, process: ProcessIndex, cpu: CpuIndex) -> f64 {
        let Some((depth, stage)) = self.hierarchy.paths[cpu.at()].stages().iter().enumerate().next_back() else {
            return 0.0;
        };
        let job = self.processes[process.at()].sharing_job;
        self.caches.residencies.lines(process, job, depth, stage.cache)
    }

    /// Work after which a process has all its lines about, in ns.
    pub(super) fn settling_ns(&self, process: ProcessIndex) -> u64 {
        // exp(-40) of a million million lines is none.
        (40.0 * self.caches.behaviours[self.processes[process.at()].behaviour as usize].pass_ns) as u64
    }

    /// Nothing runs on the CPU any more.
    fn vacate(&mut self, index: CpuIndex) {
        let cpu = &mut self.cpus[index.at()];
        if cpu.process.take().is_none() {
            return;
        }
        self.until_ns[index.at()] = VACANT;
        if let Some(job) = cpu.sharing_job {
            self.caches.jobs[job as usize].running -= 1;
        }
        // What it asked of the bus and did to its neighbours ends with it.
        self.buses[cpu.home as usize].replace(cpu.demand, Demand::default());
        cpu.demand = Demand::default();
        for (stage, pressure) in self.hierarchy.paths[index.at()].stages().iter().zip(&mut cpu.pressure) {
            if stage.is_shared {
                self.caches.pressure[stage.cache.at()] -= std::mem::take(pressure);
            }
        }
    }

    /// A process begins to run on a CPU where another did, or nothing.
    #[inline(never)]
    fn begin(&mut self, process: ProcessIndex, index: CpuIndex, now_ns: u64) {
        let member = &mut self.processes[process.at()];
        let before = member.cpu.replace(index);
        // As Linux places memory: on the node of the CPU that first touches it.
        if before.is_none() {
            member.home = self.hierarchy.node_of[index.at()];
        }
        let member = *member;
        if let Some(before) = before
            && before != index
            && self.cpus[before.at()].process == Some(process)
        {
            self.vacate(before);
        }
        self.vacate(index);
        if let Some(job) = member.sharing_job {
            self.caches.jobs[job as usize].running += 1;
        }
        self.until_ns[index.at()] = now_ns;
        let taken = self.caches.settle(&self.hierarchy, process, member, index);
        let cpu = &mut self.cpus[index.at()];
        (cpu.process, cpu.behaviour) = (Some(process), member.behaviour);
        (cpu.home, cpu.sharing_job) = (member.home, member.sharing_job);
        (cpu.goes_on, cpu.settled, cpu.taken, cpu.pass_left) = (false, None, taken, 1.0);
    }

    /// Vacates CPUs whose run is over and on which nothing was dispatched since: some are looked at in each run, in turn.
    #[inline]
    fn look_for_idle(&mut self, now_ns: u64) {
        let mut hand = self.hand;
        for _ in 0..LOOKED_AT {
            hand = if hand + 1 < self.until_ns.len() { hand + 1 } else { 0 };
            if self.until_ns[hand] < now_ns {
                self.vacate(CpuIndex(hand as u32));
            }
        }
        self.hand = hand;
    }

    /// A run with all lines about, under caches of its CPU alone: it has steady misses and no others.
    #[inline]
    fn run_settled(
        &mut self,
        settled: Settled,
        process: ProcessIndex,
        index: CpuIndex,
        work_ns: u64,
        wall_ns: u64,
    ) -> Ran {
        let cpu = &mut self.cpus[index.at()];
        let bus = &mut self.buses[cpu.home as usize];
        let bus_ns = self.hierarchy.timing.bus_ns;
        let wait_ns = bus_ns * bus.wait_services(cpu.demand);
        let slope = 1.0 + (settled.inner_per_ns + settled.steady_per_ns * (settled.memory_ns + wait_ns));
        let span = Span::steady(slope, work_ns, wall_ns);
        let misses = settled.steady_per_ns * span.work;
        cpu.ask(bus, misses, bus_ns, span.wall - misses * wait_ns);
        if settled.brings_fresh {
            self.caches.pass_through(cpu, process, &self.hierarchy.paths[index.at()], span.work);
        }
        Ran { work_ns: span.work_ns, wall_ns: span.wall_ns, misses: Misses { steady: misses, ..Misses::default() } }
    }

    /// A run that meets and leaves whatever there may be.
    #[inline(never)]
    fn run_unsettled(&mut self, process: ProcessIndex, index: CpuIndex, work_ns: u64, wall_ns: u64) -> Ran {
        let Self { hierarchy, cpus, buses, caches, .. } = self;
        let cpu = &mut cpus[index.at()];
        let bus = &mut buses[cpu.home as usize];
        // Rates are as of the beginning of the run: what neighbours do meanwhile is seen by the next one.
        let meeting = caches.meet(hierarchy, cpu, bus, process, index);
        let span = meeting.stall.span(&caches.decay, work_ns, wall_ns);
        let misses = meeting.misses(cpu.taken, span);
        caches.leave(hierarchy, cpu, process, index, &meeting, span);
        meeting.ask(hierarchy, cpu, bus, span, misses);
        let path = &hierarchy.paths[index.at()];
        if path.is_shared {
            caches.press(cpu, path, span);
        }
        Ran { work_ns: span.work_ns, wall_ns: span.wall_ns, misses }
    }
}

impl Caches {
    /// Settles what is left of a process's lines in the caches around a CPU; the lines of its outermost cache that writers took.
    fn settle(&mut self, hierarchy: &Hierarchy, process: ProcessIndex, member: Process, index: CpuIndex) -> f64 {
        let Process { behaviour, sharing_job, .. } = member;
        let Behaviour { order, shared_lines, .. } = self.behaviours[behaviour as usize];
        let (mut taken, mut inner_own, mut inner_shared) = (0.0, 0.0, 0.0);
        for (depth, &stage) in hierarchy.paths[index.at()].stages().iter().enumerate() {
            let traffic = &self.traffic[stage.cache.at()];
            let survival = &self.survivals[usize::from(stage.build)][order as usize];
            let fit = self.fits.get(behaviour, stage);
            let left = |residency: &Residency, set, team| {
                let lines = f64::from(residency.lines);
                if lines == 0.0 {
                    return 0.0;
                }
                let intruders = traffic.since(residency.mark, set, team);
                if intruders.lines == 0.0 {
                    return lines;
                }
                // In blocked order it is by whole passes that lines come and go; shared lines others use as well.
                let is_own = set == SetIndex::own(process) && order == Order::Random;
                let by_use = || traffic.found(set, team, fit.own.attainable, survival, &self.decay);
                is_own.then(by_use).flatten().unwrap_or_else(|| survival.surviving(&self.decay, lines, intruders))
            };
            let own = self.residencies.own(process, depth, stage.cache);
            // What an inner cache has needn't be fetched.
            let lines = left(own, SetIndex::own(process), sharing_job.map_or(Team::NONE, Team::own))
                .max(inner_own * fit.scale)
                .min(fit.own.attainable);
            inner_own = lines / fit.scale;
            (own.lines, own.mark) = (lines as f32, traffic.now());
            if let Some(job) = sharing_job {
                let set = SetIndex::shared(job, self.processes);
                let written = self.jobs[job as usize].written;
                let shared = self.residencies.shared(job, depth, stage.cache);
                let left = left(&shared.residency, set, Team::shared(job));
                // Each line escapes a write with the same probability, independently of the others.
                let writes = (written - shared.written) * hierarchy.outside(stage.cache);
                let lines = left * self.decay.left(writes / shared_lines);
                taken = left - lines;
                let lines = lines.max(inner_shared * fit.scale).min(fit.shared.attainable);
                inner_shared = lines / fit.scale;
                (shared.residency.lines, shared.residency.mark) = (lines as f32, traffic.now());
                shared.written = written;
            }
        }
        taken
    }

    /// What the next run on a CPU meets, however long it is.
    #[inline(always)]
    fn meet(&mut self, hierarchy: &Hierarchy, cpu: &Cpu, bus: &Bus, process: ProcessIndex, index: CpuIndex) -> Meeting {
        let behaviour = self.behaviours[cpu.behaviour as usize];
        let stages = hierarchy.paths[index.at()].stages();
        let Timing { bus_ns, next_cache_ns, .. } = hierarchy.timing;
        let wait_ns = bus_ns * bus.wait_services(cpu.demand);
        let memory_ns = hierarchy.memory_ns[index.at() * hierarchy.nodes + cpu.home as usize];

        let passes_per_ns = match behaviour.order {
            Order::Random => behaviour.passes_per_ns,
            // The rest of the pass; nothing is missing after it.
            Order::Blocked => behaviour.passes_per_ns / cpu.pass_left.max(1e-9),
        };
        let mut stall = Stall { per_ns: 0.0, reload_ns: 0.0, passes_per_ns, order: behaviour.order };
        let mut outermost = Depth::default();
        for (depth, &stage) in stages.iter().enumerate() {
            outermost = self.met(hierarchy, cpu, process, depth, stage);
            let miss_ns = if depth + 1 < stages.len() { next_cache_ns } else { memory_ns + wait_ns };
            stall.per_ns += outermost.per_ns() * miss_ns;
            stall.reload_ns += outermost.missing * miss_ns;
        }
        Meeting { behaviour, stall, outermost, memory_ns, wait_ns }
    }

    /// A run on a CPU leaves its traces.
    #[inline(always)]
    fn leave(
        &mut self,
        hierarchy: &Hierarchy,
        cpu: &mut Cpu,
        process: ProcessIndex,
        index: CpuIndex,
        meeting: &Meeting,
        span: Span,
    ) {
        let Behaviour { order, passes_per_ns, writes_per_ns, .. } = meeting.behaviour;
        let path = &hierarchy.paths[index.at()];
        let stages = path.stages();
        let Span { work, met: filled, .. } = span;
        let used = match order {
            Order::Random => filled,
            Order::Blocked => (work * passes_per_ns).min(1.0),
        };
        if let Some(job) = cpu.sharing_job {
            self.jobs[job as usize].written += writes_per_ns * work;
        }
        for (depth, &stage) in stages.iter().enumerate() {
            self.leave_at(cpu, process, depth, stage, span, used);
        }
        // From here on nothing can be missing: later runs of the process skip the caches altogether.
        if filled == 1.0 && used == 1.0 && !path.is_shared && cpu.sharing_job.is_none() {
            let fits = || stages.iter().map(|&stage| self.fits.get(cpu.behaviour, stage));
            let next_cache_ns = hierarchy.timing.next_cache_ns;
            cpu.settled = Some(Settled {
                inner_per_ns: fits().rev().skip(1).rev().fold(0.0, |sum, fit| sum + fit.steady_per_ns * next_cache_ns),
                steady_per_ns: meeting.outermost.steady_per_ns,
                memory_ns: meeting.memory_ns,
                brings_fresh: fits().any(|fit| fit.fresh_per_ns > 0.0),
            });
        }
        cpu.goes_on = true;
        cpu.taken -= meeting.taken_back(cpu.taken, span);
        cpu.pass_left = (cpu.pass_left - work * passes_per_ns).max(0.0);
    }

    /// What a run on a CPU meets at one depth.
    #[inline(never)]
    fn met(&mut self, hierarchy: &Hierarchy, cpu: &Cpu, process: ProcessIndex, depth: usize, stage: Stage) -> Depth {
        let mut resident = f64::from(self.residencies.latest(process)[depth].lines);
        let mut attainable = self.fits.get(cpu.behaviour, stage).own.attainable;
        let (mut invalidation_per_ns, mut of_mates) = (0.0, 0.0);
        if let Some(job) = cpu.sharing_job {
            resident += f64::from(self.residencies.shared(job, depth, stage.cache).residency.lines);
            let Fit { shared, scale, .. } = self.fits.get(cpu.behaviour, stage);
            attainable += shared.attainable;
            // Of mates on other CPUs under this cache, lines that are ours as well displace none of ours.
            let running = self.jobs[job as usize].running;
            of_mates = shared.intruding * (1.0 - 1.0 / f64::from(running.max(1)));
            let behaviour = &self.behaviours[cpu.behaviour as usize];
            let writers = f64::from(running.saturating_sub(1)) * hierarchy.outside(stage.cache);
            let taken_per_ns = writers * behaviour.writes_per_ns;
            // A line written twice before it is used again is missed once.
            invalidation_per_ns =
                scale * taken_per_ns / (1.0 + taken_per_ns * behaviour.pass_ns / behaviour.shared_lines);
        }
        let fit = self.fits.get(cpu.behaviour, stage);
        let mut contention_per_ns = 0.0;
        if stage.is_shared && attainable > 0.0 {
            let others = self.pressure[stage.cache.at()] - cpu.pressure[depth];
            if !others.is_none() {
                let behaviour = &self.behaviours[cpu.behaviour as usize];
                // What neighbours use between two uses of a line of ours: in random order, lines used as often as ours come by in
                // half of the cases; in blocked order, always once.
                let come_by = if behaviour.order == Order::Random { 0.5 } else { 1.0 };
                let reused = (others.reused_lines() - of_mates).max(0.0);
                let lines = others.fresh_lines(behaviour.pass_ns) + come_by * reused;
                contention_per_ns = (attainable - fit.crowd.left(&self.decay, lines)) * behaviour.passes_per_ns;
            }
        }
        Depth {
            missing: (attainable - resident).max(0.0),
            steady_per_ns: fit.steady_per_ns,
            contention_per_ns,
            invalidation_per_ns,
        }
    }

    /// A run with all lines about leaves its trace on the way from its CPU to memory.
    #[inline]
    fn pass_through(&mut self, cpu: &Cpu, process: ProcessIndex, path: &Path, work_ns: f64) {
        for (depth, &stage) in path.stages().iter().enumerate() {
            let traffic = &mut self.traffic[stage.cache.at()];
            traffic.bring_fresh(self.fits.get(cpu.behaviour, stage).fresh_per_ns * work_ns);
            traffic.go_on(SetIndex::own(process));
            self.residencies.latest(process)[depth].mark = traffic.now();
        }
    }

    /// A run leaves its trace at one depth, having used so large a share of all reused lines.
    #[inline(never)]
    fn leave_at(&mut self, cpu: &Cpu, process: ProcessIndex, depth: usize, stage: Stage, span: Span, used: f64) {
        let fit = self.fits.get(cpu.behaviour, stage);
        let fill = |resident: &mut f32, lines: Lines| {
            let missing = (lines.attainable - f64::from(*resident)).max(0.0);
            *resident = (lines.attainable - missing * (1.0 - span.met)) as f32;
        };
        let traffic = &mut self.traffic[stage.cache.at()];
        traffic.bring_fresh(fit.fresh_per_ns * span.work);
        if let Some(job) = cpu.sharing_job {
            let set = SetIndex::shared(job, self.processes);
            traffic.use_set(set, Team::shared(job), fit.shared.intruding, used, cpu.goes_on);
        }
        if fit.own.intruding > 0.0 {
            let team = cpu.sharing_job.map_or(Team::NONE, Team::own);
            traffic.use_set(SetIndex::own(process), team, fit.own.intruding, used, cpu.goes_on);
        }
        let own = &mut self.residencies.latest(process)[depth];
        own.mark = traffic.now();
        fill(&mut own.lines, fit.own);
        if let Some(job) = cpu.sharing_job {
            let written = self.jobs[job as usize].written;
            let shared = self.residencies.shared(job, depth, stage.cache);
            (shared.residency.mark, shared.written) = (traffic.now(), written);
            fill(&mut shared.residency.lines, fit.shared);
        }
    }

    /// Neighbours under caches that a CPU shares hear what its run does to them.
    #[inline(never)]
    fn press(&mut self, cpu: &mut Cpu, path: &Path, span: Span) {
        if span.wall <= 0.0 {
            return;
        }
        for (depth, &stage) in path.stages().iter().enumerate().filter(|(_, stage)| stage.is_shared) {
            let fit = self.fits.get(cpu.behaviour, stage);
            let mut reused = fit.own.intruding;
            if let Some(job) = cpu.sharing_job {
                reused += fit.shared.intruding / f64::from(self.jobs[job as usize].running.max(1));
            }
            let pressure = Pressure::new(fit.fresh_per_ns * span.work / span.wall, reused);
            let all = &mut self.pressure[stage.cache.at()];
            *all -= std::mem::replace(&mut cpu.pressure[depth], pressure);
            *all += pressure;
        }
    }
}

impl Memory for CacheModel {
    #[inline]
    fn dispatch(&mut self, process: ProcessIndex, index: CpuIndex, now_ns: u64) {
        // When it goes on, what neighbours do meanwhile is part of its run.
        if self.cpus[index.at()].process != Some(process) || now_ns > self.until_ns[index.at()] {
            self.begin(process, index, now_ns);
        }
    }

    #[inline]
    fn run(&mut self, process: ProcessIndex, index: CpuIndex, now_ns: u64, work_ns: u64, wall_ns: u64) -> Ran {
        if self.cpus[index.at()].process != Some(process) {
            self.begin(process, index, now_ns);
        }
        self.look_for_idle(now_ns);
        let ran = match self.cpus[index.at()].settled {
            Some(settled) => self.run_settled(settled, process, index, work_ns, wall_ns),
            None => self.run_unsettled(process, index, work_ns, wall_ns),
        };
        self.until_ns[index.at()] = now_ns.saturating_add(ran.wall_ns);
        ran
    }
    #[inline]
    fn start(&mut self, process: ProcessIndex, index: CpuIndex, now_ns: u64, work_ns: u64) -> u64 {
        let meeting = self.meeting(process, index, now_ns);
        self.begin_run(index, now_ns, work_ns, meeting)
    }

    #[inline]
    fn stop(&mut self, process: ProcessIndex, index: CpuIndex, now_ns: u64, work_ns: u64, wall_ns: u64) -> Ran {
        let (span, misses, _) = self.end_run(process, index, now_ns, work_ns, wall_ns);
        Ran { work_ns: span.work_ns, wall_ns: span.wall_ns, misses }
    }
}
