//! Caches under workers that can be cut off at any time and turn from one task to the next.
//!
//! Runs are taken apart as in [`super::cut`].
//!
//! # What a worker lost
//!
//! When a worker stops, the caches around its CPU hold some of its lines. When it starts again, there or elsewhere, they hold
//! fewer, depth by depth: the difference, at most what is missing, it lost by being away. As a run meets what is missing, it
//! meets the same share of what was lost, and that costs what its misses cost; what it didn't meet stays lost. A turn to
//! other lines makes those that were lost useless as it does those that are cached. Lines that it shares count as well, but
//! for those that writers took or would have taken had it stayed.
//!
//! In blocked order, a worker that comes back within its first pass wants the lines first that it never had. Here it meets
//! what it lost and what it never had evenly, as if a pass began: both have been met when a pass is over.
//!
//! What a worker used in a cache before a turn displaces what others have there, as fresh lines do, if nobody's reused lines
//! were used there between its last stop and the turn. Otherwise it no longer counts once the worker uses that cache again.

use super::{
    CacheModel, Caches, Cpu, Footprint, Hierarchy, HierarchyError, MAX_DEPTH, Meeting, Process, SetIndex, Timing,
};
use crate::cache::residency::part_of;
use crate::index::{CpuIndex, ProcessIndex};
use crate::memory::{Ran, Stopped, TaskMemory};
use machine::Machine;

/// The cached state of workers on a machine. It implements [`TaskMemory`]; the [module](crate::cache) describes the model.
///
/// Workers of one job that share lines share one set of them, which no turn changes: footprints that a job's workers
/// turn to must agree on `shared_lines`, or share nothing.
#[derive(Clone, Debug)]
pub struct TaskCaches {
    model: CacheModel,
    workers: Vec<Worker>,
    /// By CPU, what it takes to bring back all that the worker under way lost.
    lost_ns: Vec<f64>,
    /// Whether work already holds the misses that a task has anyway.
    measured: bool,
}

/// Lines of one depth.
#[derive(Clone, Copy, Debug, Default)]
struct Lines {
    own: f32,
    shared: f32,
}

/// A worker, as far as it lost anything.
#[derive(Clone, Copy, Debug)]
struct Worker {
    job: u32,
    /// Writes to its job's shared lines by its last stop.
    written: f64,
    /// By depth, what the caches around its CPU held for it then, as far as still of use.
    had: [Lines; MAX_DEPTH],
    /// By depth, what it lost and didn't meet yet.
    lost: [Lines; MAX_DEPTH],
}

impl TaskCaches {
    /// The caches around all usable CPUs of a machine, empty; otherwise as [`TaskCaches::new`].
    ///
    /// # Errors
    /// The machine doesn't tell enough of its caches.
    pub fn for_machine(
        machine: &Machine,
        timing: Timing,
        footprints: &[Footprint],
        jobs: &[u32],
    ) -> Result<Self, HierarchyError> {
        let cpus: Vec<_> = machine.usable().collect();
        Ok(Self::new(Hierarchy::new(machine, &cpus, timing)?, footprints, jobs))
    }

    /// Empty caches and nothing running. `footprints` are those that workers turn to, within their limits
    /// ([`Footprint::limits`]); until its first turn, a worker never misses. `jobs` tells for each worker the position of its
    /// job, from 0.
    pub fn new(hierarchy: Hierarchy, footprints: &[Footprint], jobs: &[u32]) -> Self {
        let mut kinds = footprints.to_vec();
        kinds.push(Footprint::default());
        let worker = |&job| Worker { job, written: 0.0, had: Default::default(), lost: Default::default() };
        let process = Process { behaviour: footprints.len() as u32, sharing_job: None, cpu: None, home: 0 };
        let mut sharing = Vec::new();
        if footprints.iter().any(|footprint| footprint.shared_lines > 0.0) {
            sharing.resize(jobs.iter().max().map_or(0, |&last| last as usize + 1), 0);
            jobs.iter().for_each(|&job| sharing[job as usize] += 1);
        }
        let lost_ns = vec![0.0; hierarchy.paths.len()];
        let model = CacheModel::with(hierarchy, &kinds, vec![process; jobs.len()], &sharing);
        Self { model, workers: jobs.iter().map(worker).collect(), lost_ns, measured: false }
    }

    /// Under tasks whose work was measured on a CPU that they had to themselves: the misses that they had there, the steady ones
    /// and the first of lines that they never had, are in it. They displace what others cached and keep the bus busy, but take
    /// no more time; what was lost does.
    pub fn under_measured_work(mut self) -> Self {
        self.measured = true;
        self
    }

    /// As [`CacheModel::resident_lines`], as of the worker's last start or stop.
    pub fn resident_lines(&self, process: ProcessIndex, cpu: CpuIndex) -> f64 {
        self.model.resident_lines(process, cpu)
    }
}

impl Worker {
    /// Settles what it lost since it stopped, as it starts on a CPU: what it takes to bring that back, in ns.
    fn lose(
        &mut self,
        caches: &mut Caches,
        hierarchy: &Hierarchy,
        cpu: &Cpu,
        process: ProcessIndex,
        index: CpuIndex,
        meeting: &Meeting,
    ) -> f64 {
        let stages = hierarchy.paths[index.at()].stages();
        let lost =
            |lost: f32, had: f32, has: f32, attainable: f64| (had - has + lost).min(attainable as f32 - has).max(0.0);
        let mut lost_ns = 0.0;
        for (depth, &stage) in stages.iter().enumerate() {
            let own = caches.residencies.latest(process)[depth].lines;
            let (had, before) = (self.had[depth], self.lost[depth]);
            let mut now = Lines {
                own: lost(before.own, had.own, own, caches.fits.get(cpu.behaviour, stage).own.attainable),
                shared: 0.0,
            };
            if let Some(job) = cpu.sharing_job {
                let writes = (caches.jobs[job as usize].written - self.written) * hierarchy.outside(stage.cache);
                let unwritten = caches.decay.left(writes / meeting.behaviour.shared_lines);
                let shared = caches.residencies.shared(job, depth, stage.cache).residency.lines;
                let attainable = caches.fits.get(cpu.behaviour, stage).shared.attainable;
                now.shared = lost(before.shared, part_of(had.shared, unwritten), shared, attainable);
            }
            self.lost[depth] = now;
            lost_ns += f64::from(now.own + now.shared) * meeting.miss_ns(hierarchy, depth + 1 == stages.len());
        }
        lost_ns
    }

    /// Notes what the caches around its CPU hold for it as it stops, after it met a share of what was missing.
    fn note(
        &mut self,
        caches: &mut Caches,
        hierarchy: &Hierarchy,
        cpu: &Cpu,
        process: ProcessIndex,
        index: CpuIndex,
        met: f64,
    ) {
        for (depth, &stage) in hierarchy.paths[index.at()].stages().iter().enumerate() {
            let shared = |job| caches.residencies.shared(job, depth, stage.cache).residency.lines;
            self.had[depth].shared = cpu.sharing_job.map_or(0.0, shared);
            self.had[depth].own = caches.residencies.latest(process)[depth].lines;
            let lost = &mut self.lost[depth];
            *lost = Lines { own: part_of(lost.own, 1.0 - met), shared: part_of(lost.shared, 1.0 - met) };
        }
        if let Some(job) = cpu.sharing_job {
            self.written = caches.jobs[job as usize].written;
        }
    }
}

impl TaskMemory for TaskCaches {
    fn turn(&mut self, process: ProcessIndex, footprint: u32, kept: f64) {
        let CacheModel { hierarchy, processes, cpus, caches, .. } = &mut self.model;
        let member = &mut processes[process.at()];
        if member.behaviour == footprint && kept == 1.0 {
            return;
        }
        let worker = &mut self.workers[process.at()];
        let shared = member.sharing_job;
        member.behaviour = footprint;
        member.sharing_job = (caches.behaviours[footprint as usize].shared_lines > 0.0).then_some(worker.job);
        caches.residencies.keep(process, kept);
        let depths = caches.residencies.latest(process).len();
        for (had, lost) in worker.had[..depths].iter_mut().zip(&mut worker.lost[..depths]) {
            (had.own, lost.own) = (part_of(had.own, kept), part_of(lost.own, kept));
        }
        let Some(index) = member.cpu else { return };
        for (depth, &stage) in hierarchy.paths[index.at()].stages().iter().enumerate() {
            // What it leaves behind was there beside its other lines, and displaces none of them.
            let left_behind = caches.traffic[stage.cache.at()].renew(SetIndex::own(process), kept);
            if let Some(job) = shared {
                caches.residencies.shared(job, depth, stage.cache).residency.mark.fresh += left_behind;
            }
            let attainable = caches.fits.get(footprint, stage).own.attainable as f32;
            let own = &mut caches.residencies.latest(process)[depth];
            own.mark.fresh += left_behind;
            own.lines = own.lines.min(attainable);
            worker.had[depth].own = worker.had[depth].own.min(attainable);
        }
        let cpu = &mut cpus[index.at()];
        if cpu.process == Some(process) {
            if shared == member.sharing_job {
                (cpu.behaviour, cpu.goes_on, cpu.settled, cpu.pass_left) = (footprint, false, None, 1.0);
            } else {
                self.model.vacate(index);
            }
        }
    }

    fn start(&mut self, process: ProcessIndex, index: CpuIndex, now_ns: u64, work_ns: u64) -> u64 {
        let mut meeting = self.model.meeting(process, index, now_ns);
        let CacheModel { hierarchy, cpus, caches, .. } = &mut self.model;
        let cpu = &cpus[index.at()];
        let lost_ns = match cpu.settled {
            Some(_) => 0.0,
            None => self.workers[process.at()].lose(caches, hierarchy, cpu, process, index, &meeting),
        };
        if self.measured {
            let stages = hierarchy.paths[index.at()].stages();
            let steady = stages.iter().enumerate().map(|(depth, &stage)| {
                let miss_ns = meeting.miss_ns(hierarchy, depth + 1 == stages.len());
                caches.fits.get(cpu.behaviour, stage).steady_per_ns * miss_ns
            });
            let per_ns = match cpu.settled {
                Some(_) => 0.0,
                None => (meeting.stall.per_ns - steady.sum::<f64>()).max(0.0),
            };
            (meeting.stall.per_ns, meeting.stall.reload_ns) = (per_ns, lost_ns);
        }
        self.lost_ns[index.at()] = lost_ns;
        self.model.begin_run(index, now_ns, work_ns, meeting)
    }

    fn stop(&mut self, process: ProcessIndex, index: CpuIndex, now_ns: u64, work_ns: u64, wall_ns: u64) -> Stopped {
        let (span, misses, is_unsettled) = self.model.end_run(process, index, now_ns, work_ns, wall_ns);
        if is_unsettled {
            let CacheModel { hierarchy, cpus, caches, .. } = &mut self.model;
            self.workers[process.at()].note(caches, hierarchy, &cpus[index.at()], process, index, span.met);
        }
        let stalled_ns = span.wall_ns.saturating_sub(span.work_ns);
        let reload_ns = ((self.lost_ns[index.at()] * span.met + 0.5) as u64).min(stalled_ns);
        Stopped { ran: Ran { work_ns: span.work_ns, wall_ns: span.wall_ns, misses }, reload_ns }
    }
}
