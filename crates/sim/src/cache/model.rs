//! The caches of a machine under one set of processes.

use super::bus::{Bus, Demand};
use super::decay::Decay;
use super::fit::{Fit, Lines};
use super::footprint::{Footprint, Order};
use super::hierarchy::{CacheIndex, Hierarchy, HierarchyError, MAX_DEPTH};
use super::pressure::Pressure;
use super::residency::Residencies;
use super::stall::Stall;
use super::survival::{Intruders, Survival};
use super::timing::Timing;
use super::traffic::{Mark, SetIndex, Team, Traffic};
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
#[derive(Clone, Copy, Debug)]
struct Behaviour {
    order: Order,
    pass_ns: f64,
    /// Passes a ns of work.
    passes_per_ns: f64,
    shared_lines: f64,
    writes_per_ns: f64,
}

/// A process at present.
#[derive(Clone, Copy, Debug)]
struct Process {
    behaviour: u32,
    /// Its job, when it shares lines.
    sharing_job: Option<u32>,
    /// Where it was dispatched last.
    cpu: Option<CpuIndex>,
    /// The node of its memory: where it ran first.
    home: u32,
    /// Whether its next run goes on with its last one.
    goes_on: bool,
    /// In blocked order, the share of a pass until all that is missing has been met.
    pass_left: f64,
    /// Of the lines that its outermost cache lacks, how many a writer took.
    taken: f64,
}

/// The processes of a job that share lines.
#[derive(Clone, Copy, Debug, Default)]
struct Job {
    /// Writes to its shared lines so far.
    written: f64,
    /// How many of its processes run.
    running: u32,
}

/// What one CPU does at present.
#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    process: Option<ProcessIndex>,
    /// Until when, in ns.
    until_ns: u64,
    /// The bus that it uses, and how much.
    bus: u32,
    demand: Demand,
    /// By depth, what it does to caches that others use as well.
    pressure: [Pressure; MAX_DEPTH],
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

/// What a run did.
#[derive(Clone, Copy, Debug)]
struct Trace {
    work_ns: f64,
    wall_ns: f64,
    /// The share of missing lines that came in.
    filled: f64,
    /// The share of all reused lines that was used.
    used: f64,
}

/// CPUs that are looked at in each run to see whether they have fallen idle: at once all of the report's machine, and of a
/// large one each several times within an interval.
const LOOKED_AT: usize = 4;

/// The cached state of processes on a machine. It implements [`Memory`]; the [module](super) describes the model.
///
/// Its [`Misses`] are those of the outermost caches: what reaches memory or another package. Misses that an outer cache
/// serves take time and aren't counted.
#[derive(Clone, Debug)]
pub struct CacheModel {
    hierarchy: Hierarchy,
    behaviours: Vec<Behaviour>,
    /// By behaviour and build.
    fits: Vec<Fit>,
    /// By build, in random and in blocked order.
    survivals: Vec<[Survival; 2]>,
    processes: Vec<Process>,
    jobs: Vec<Job>,
    cpus: Vec<Cpu>,
    buses: Vec<Bus>,
    /// By cache.
    traffic: Vec<Traffic>,
    /// By cache.
    pressure: Vec<Pressure>,
    residencies: Residencies,
    decay: Decay,
    /// The CPU that was looked at last.
    hand: usize,
}

impl CacheModel {
    /// The caches around all usable CPUs of a machine, empty, with the processes of a workload.
    ///
    /// # Errors
    /// The machine doesn't tell enough of its caches.
    pub fn of(machine: &Machine, workload: &Workload) -> Result<Self, HierarchyError> {
        let cpus: Vec<_> = machine.usable().collect();
        let member = |job: usize| Member { footprint: workload.jobs[job].process.memory, job: job as u32 };
        let members: Vec<_> = workload.job_of_processes().map(member).collect();
        Ok(Self::new(Hierarchy::new(machine, &cpus, Timing::of(machine))?, &members))
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
            let behaviour = behaviour as u32;
            processes.push(Process {
                behaviour,
                sharing_job,
                cpu: None,
                home: 0,
                goes_on: false,
                pass_left: 1.0,
                taken: 0.0,
            });
        }
        let caches = hierarchy.build_of.len();
        Self {
            behaviours: (kinds.iter())
                .map(|kind| Behaviour {
                    order: kind.order,
                    pass_ns: kind.pass_us * 1e3,
                    passes_per_ns: 1e-3 / kind.pass_us,
                    shared_lines: kind.shared_lines,
                    writes_per_ns: kind.shared_writes_per_ms * 1e-6,
                })
                .collect(),
            fits: (kinds.iter()).flat_map(|kind| hierarchy.builds.iter().map(|build| Fit::new(kind, build))).collect(),
            survivals: (hierarchy.builds.iter())
                .map(|build| {
                    [Order::Random, Order::Blocked].map(|order| Survival::new(build.frames, build.ways, order))
                })
                .collect(),
            residencies: Residencies::new(processes.len(), &sharing, hierarchy.depths(), caches),
            processes,
            jobs: vec![Job::default(); sharing.len()],
            cpus: vec![Cpu::default(); hierarchy.paths.len()],
            buses: vec![Bus::default(); hierarchy.nodes],
            traffic: vec![Traffic::new(); caches],
            pressure: vec![Pressure::default(); caches],
            decay: Decay::new(),
            hand: 0,
            hierarchy,
        }
    }

    /// Empties the caches around a CPU, as the report does before an interval to see what a process reuses.
    pub fn flush(&mut self, cpu: CpuIndex) {
        self.vacate(cpu);
        for &cache in self.hierarchy.paths[cpu.at()].caches() {
            let frames = self.hierarchy.builds[self.hierarchy.build(cache)].frames;
            // As if so many fresh lines had come by that nothing is left in any frame.
            self.traffic[cache.at()].bring_fresh(1_000.0 * frames);
        }
    }

    /// Of the lines that a process uses again and again, how many the outermost cache around `cpu` has for it, as of its last
    /// dispatch or run there.
    pub fn resident_lines(&self, process: ProcessIndex, cpu: CpuIndex) -> f64 {
        let Some((depth, &cache)) = self.hierarchy.paths[cpu.at()].caches().iter().enumerate().next_back() else {
            return 0.0;
        };
        let job = self.processes[process.at()].sharing_job;
        self.residencies.lines(process, job, depth, cache)
    }

    /// Work after which a process has all its lines about, in ns.
    pub(super) fn settling_ns(&self, process: ProcessIndex) -> u64 {
        // exp(-40) of a million million lines is none.
        (40.0 * self.behaviours[self.processes[process.at()].behaviour as usize].pass_ns) as u64
    }

    fn shared_set(&self, job: u32) -> SetIndex {
        SetIndex(self.processes.len() as u32 + job)
    }

    fn fit(&self, behaviour: u32, cache: CacheIndex) -> &Fit {
        &self.fits[behaviour as usize * self.hierarchy.builds.len() + self.hierarchy.build(cache)]
    }

    fn survival(&self, cache: CacheIndex, order: Order) -> &Survival {
        &self.survivals[self.hierarchy.build(cache)][order as usize]
    }

    /// Nothing runs on the CPU any more.
    fn vacate(&mut self, cpu: CpuIndex) {
        let state = &mut self.cpus[cpu.at()];
        let Some(process) = state.process.take() else {
            return;
        };
        if let Some(job) = self.processes[process.at()].sharing_job {
            self.jobs[job as usize].running -= 1;
        }
        self.buses[state.bus as usize].replace(state.demand, Demand::default());
        state.demand = Demand::default();
        for (cache, pressure) in self.hierarchy.paths[cpu.at()].caches().iter().zip(&mut state.pressure) {
            self.pressure[cache.at()] -= std::mem::take(pressure);
        }
    }

    /// Vacates CPUs whose run is over and on which nothing was dispatched since: some are looked at in each run, in turn.
    #[inline]
    fn look_for_idle(&mut self, now_ns: u64) {
        for _ in 0..LOOKED_AT.min(self.cpus.len()) {
            self.hand = if self.hand + 1 < self.cpus.len() { self.hand + 1 } else { 0 };
            if self.cpus[self.hand].until_ns < now_ns {
                self.vacate(CpuIndex(self.hand as u32));
            }
        }
    }

    /// What a CPU asks of a bus.
    #[inline]
    fn own_demand(&self, cpu: CpuIndex, bus: u32) -> Demand {
        let state = &self.cpus[cpu.at()];
        if state.bus == bus { state.demand } else { Demand::default() }
    }

    /// A CPU asks so much of a bus, and nothing of others.
    #[inline]
    fn ask(&mut self, cpu: CpuIndex, bus: u32, demand: Demand) {
        let state = &mut self.cpus[cpu.at()];
        self.buses[state.bus as usize].replace(state.demand, Demand::default());
        self.buses[bus as usize].replace(Demand::default(), demand);
        (state.bus, state.demand) = (bus, demand);
    }

    /// Of `lines` that a set had in a cache at `mark`, how many are left.
    #[inline]
    fn left(&self, lines: f32, mark: Mark, set: SetIndex, team: Option<Team>, cache: CacheIndex, order: Order) -> f64 {
        let lines = f64::from(lines);
        if lines == 0.0 {
            return 0.0;
        }
        let intruders = self.traffic[cache.at()].since(mark, set, team);
        if intruders.lines == 0.0 {
            lines
        } else {
            self.survival(cache, order).surviving(&self.decay, lines, intruders)
        }
    }

    /// Settles what is left of a process's lines in the caches around a CPU.
    fn settle(&mut self, process: ProcessIndex, cpu: CpuIndex) {
        let Process { behaviour, sharing_job, .. } = self.processes[process.at()];
        let Behaviour { order, shared_lines, .. } = self.behaviours[behaviour as usize];
        let team = |is_shared| sharing_job.map(|job| Team { job, is_shared });
        let (mut taken, mut inner_own, mut inner_shared) = (0.0, 0.0, 0.0);
        for depth in 0..self.hierarchy.paths[cpu.at()].caches().len() {
            let cache = self.hierarchy.paths[cpu.at()].caches()[depth];
            let mark = self.traffic[cache.at()].now();
            let Fit { own: own_fit, shared: shared_fit, scale, .. } = *self.fit(behaviour, cache);
            let own = *self.residencies.own(process, depth, cache);
            let left = self.left(own.lines, own.mark, SetIndex(process.0), team(false), cache, order);
            // What an inner cache has needn't be fetched.
            let lines = left.max(inner_own * scale).min(own_fit.attainable);
            inner_own = lines / scale;
            let own = self.residencies.own(process, depth, cache);
            (own.lines, own.mark) = (lines as f32, mark);
            if let Some(job) = sharing_job {
                let written = self.jobs[job as usize].written;
                let shared = *self.residencies.shared(job, depth, cache);
                let left = self.left(shared.lines, shared.mark, self.shared_set(job), team(true), cache, order);
                let writes = (written - shared.written) * self.hierarchy.outside(cache);
                let lines = left * self.decay.left(writes / shared_lines);
                taken = left - lines;
                let lines = lines.max(inner_shared * scale).min(shared_fit.attainable);
                inner_shared = lines / scale;
                let shared = self.residencies.shared(job, depth, cache);
                (shared.lines, shared.mark, shared.written) = (lines as f32, mark, written);
            }
        }
        let state = &mut self.processes[process.at()];
        (state.goes_on, state.taken, state.pass_left) = (false, taken, 1.0);
    }

    /// What a run on a CPU meets at one depth.
    #[inline]
    fn met(&mut self, process: ProcessIndex, cpu: CpuIndex, depth: usize) -> Depth {
        let Process { behaviour, sharing_job, .. } = self.processes[process.at()];
        let cache = self.hierarchy.paths[cpu.at()].caches()[depth];
        let Fit { own, shared, steady_per_ns, scale, .. } = *self.fit(behaviour, cache);
        let mut attainable = own.attainable;
        let mut resident = f64::from(self.residencies.own(process, depth, cache).lines);
        let mut met = Depth { steady_per_ns, ..Depth::default() };
        let behaviour = &self.behaviours[behaviour as usize];
        if let Some(job) = sharing_job {
            attainable += shared.attainable;
            resident += f64::from(self.residencies.shared(job, depth, cache).lines);
            let writers = f64::from(self.jobs[job as usize].running.saturating_sub(1)) * self.hierarchy.outside(cache);
            let taken_per_ns = writers * behaviour.writes_per_ns;
            // A line written twice before it is used again is missed once.
            met.invalidation_per_ns =
                scale * taken_per_ns / (1.0 + taken_per_ns * behaviour.pass_ns / behaviour.shared_lines);
        }
        met.missing = (attainable - resident).max(0.0);
        let others = self.pressure[cache.at()] - self.cpus[cpu.at()].pressure[depth];
        if !others.is_none() && attainable > 0.0 {
            let of_mates = sharing_job
                .map_or(0.0, |job| shared.intruding * (1.0 - 1.0 / f64::from(self.jobs[job as usize].running.max(1))));
            // What neighbours use between two uses of a line of ours: in random order, lines used as often as ours come by in
            // half of the cases; in blocked order, always once.
            let come_by = if behaviour.order == Order::Random { 0.5 } else { 1.0 };
            let reused = (others.reused_lines() - of_mates).max(0.0);
            let lines = others.fresh_lines(behaviour.pass_ns) + come_by * reused;
            let intruders = Intruders { lines, squares: 0.0 };
            let lost = attainable - self.survival(cache, behaviour.order).surviving(&self.decay, attainable, intruders);
            met.contention_per_ns = lost * behaviour.passes_per_ns;
        }
        met
    }

    /// A run leaves its trace at one depth.
    #[inline]
    fn leave(&mut self, process: ProcessIndex, cpu: CpuIndex, depth: usize, trace: Trace) {
        let Trace { work_ns, wall_ns, filled, used } = trace;
        let Process { behaviour, sharing_job, goes_on, .. } = self.processes[process.at()];
        let cache = self.hierarchy.paths[cpu.at()].caches()[depth];
        let Fit { own, shared, fresh_per_ns, .. } = *self.fit(behaviour, cache);
        let fill = |resident: &mut f32, lines: Lines| {
            let missing = (lines.attainable - f64::from(*resident)).max(0.0);
            *resident = (lines.attainable - missing * (1.0 - filled)) as f32;
        };
        let team = |is_shared| sharing_job.map(|job| Team { job, is_shared });
        let shared_set = sharing_job.map(|job| (job, self.shared_set(job)));

        let traffic = &mut self.traffic[cache.at()];
        traffic.bring_fresh(fresh_per_ns * work_ns);
        if let Some((_, set)) = shared_set {
            traffic.use_set(set, team(true), shared.intruding, used, goes_on);
        }
        if own.intruding > 0.0 {
            traffic.use_set(SetIndex(process.0), team(false), own.intruding, used, goes_on);
        }
        let mark = traffic.now();
        let residency = self.residencies.own(process, depth, cache);
        residency.mark = mark;
        fill(&mut residency.lines, own);
        let mut reused = own.intruding;
        if let Some((job, _)) = shared_set {
            let Job { written, running } = self.jobs[job as usize];
            let residency = self.residencies.shared(job, depth, cache);
            (residency.mark, residency.written) = (mark, written);
            fill(&mut residency.lines, shared);
            reused += shared.intruding / f64::from(running.max(1));
        }
        if self.hierarchy.is_shared(cache) && wall_ns > 0.0 {
            let pressure = Pressure::new(fresh_per_ns * work_ns / wall_ns, reused);
            let before = std::mem::replace(&mut self.cpus[cpu.at()].pressure[depth], pressure);
            self.pressure[cache.at()] -= before;
            self.pressure[cache.at()] += pressure;
        }
    }
}

impl Memory for CacheModel {
    #[inline]
    fn dispatch(&mut self, process: ProcessIndex, cpu: CpuIndex, now_ns: u64) {
        let Process { cpu: before, sharing_job, .. } = self.processes[process.at()];
        let Cpu { process: running, until_ns, .. } = self.cpus[cpu.at()];
        if running == Some(process) && before == Some(cpu) && now_ns <= until_ns {
            return; // It goes on: what neighbours do meanwhile is part of its run.
        }
        if let Some(before) = before
            && before != cpu
            && self.cpus[before.at()].process == Some(process)
        {
            self.vacate(before);
        }
        self.vacate(cpu);
        (self.cpus[cpu.at()].process, self.cpus[cpu.at()].until_ns) = (Some(process), now_ns);
        if let Some(job) = sharing_job {
            self.jobs[job as usize].running += 1;
        }
        if before.is_none() {
            self.processes[process.at()].home = self.hierarchy.node_of[cpu.at()];
        }
        self.processes[process.at()].cpu = Some(cpu);
        self.settle(process, cpu);
    }

    fn run(&mut self, process: ProcessIndex, cpu: CpuIndex, now_ns: u64, work_ns: u64, wall_ns: u64) -> Ran {
        self.look_for_idle(now_ns);
        let Process { behaviour, sharing_job, home, pass_left, taken, .. } = self.processes[process.at()];
        let behaviour = self.behaviours[behaviour as usize];
        let depths = self.hierarchy.paths[cpu.at()].caches().len();
        let timing = &self.hierarchy.timing;
        let wait_ns = timing.bus_ns * self.buses[home as usize].wait_services(self.own_demand(cpu, home));
        let memory_ns = self.hierarchy.memory_ns[cpu.at() * self.hierarchy.nodes + home as usize] + wait_ns;
        let next_cache_ns = timing.next_cache_ns;
        let bus_ns = timing.bus_ns;

        let passes_per_ns = match behaviour.order {
            Order::Random => behaviour.passes_per_ns,
            // The rest of the pass; nothing is missing after it.
            Order::Blocked => behaviour.passes_per_ns / pass_left.max(1e-9),
        };
        let mut stall = Stall { per_ns: 0.0, reload_ns: 0.0, passes_per_ns, order: behaviour.order };
        let mut outermost = Depth::default();
        for depth in 0..depths {
            outermost = self.met(process, cpu, depth);
            let miss_ns = if depth + 1 < depths { next_cache_ns } else { memory_ns };
            stall.per_ns += outermost.per_ns() * miss_ns;
            stall.reload_ns += outermost.missing * miss_ns;
        }

        // All of the work, or what of it fits.
        let (mut work, mut wall) = (work_ns as f64, wall_ns as f64);
        let mut ran = Ran { work_ns, wall_ns, misses: Misses::default() };
        let mut filled = 1.0;
        let mut fits = work * (1.0 + stall.per_ns) <= wall + 1.0;
        if fits {
            filled = stall.met(&self.decay, work);
            let needed = stall.wall_ns(work, filled);
            let needed_ns = ((needed + 0.5) as u64).max(work_ns);
            fits = needed_ns <= wall_ns;
            if fits {
                (wall, ran.wall_ns) = (needed, needed_ns);
            }
        }
        if !fits {
            (work, filled) = stall.within(&self.decay, wall);
            ran.work_ns = ((work + 0.5) as u64).min(work_ns).min(wall_ns);
        }
        let used = match behaviour.order {
            Order::Random => filled,
            Order::Blocked => (work * behaviour.passes_per_ns).min(1.0),
        };

        let reloaded = outermost.missing * filled;
        let taken_back = (taken * filled).min(reloaded);
        ran.misses = Misses {
            reload: reloaded - taken_back + outermost.contention_per_ns * work,
            steady: outermost.steady_per_ns * work,
            invalidation: taken_back + outermost.invalidation_per_ns * work,
        };
        if let Some(job) = sharing_job {
            self.jobs[job as usize].written += behaviour.writes_per_ns * work;
        }
        for depth in 0..depths {
            self.leave(process, cpu, depth, Trace { work_ns: work, wall_ns: wall, filled, used });
        }
        let state = &mut self.processes[process.at()];
        state.goes_on = true;
        state.taken -= taken_back;
        state.pass_left = (pass_left - work * behaviour.passes_per_ns).max(0.0);
        self.ask(cpu, home, Demand::new(ran.misses.total() * bus_ns / (wall - ran.misses.total() * wait_ns).max(1.0)));
        self.cpus[cpu.at()].until_ns = now_ns.saturating_add(ran.wall_ns);
        ran
    }
}
