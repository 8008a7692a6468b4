//! The processes and threads of the program, the slot that each is bound to, and what was read back.
//!
//! Both observers, the tracer and the poller, report creations, executions and ends here; the registry binds, and keeps a
//! row for each thread. Threads are numbered in order of creation, within their process and anew after each `exec`:
//!
//! ```text
//! creation     main  1  2  3  4        --skip 2: thread 2 is left alone and takes no slot,
//! slot            0  1  -  2  3        the next thread takes the slot that it would have had
//! ```
//!
//! Where [rules](crate::roles) say by name who takes which slot, everybody starts on the union, and is bound when its name is settled.
//!
//! The program starts on the union of all slots, so that runtimes which size their pools by the affinity mask see as
//! many CPUs as there are slots. Its main thread goes to its own slot when the first other thread is created. Bound any
//! sooner, every thread would start on the main thread's CPU and a pool would be sized to one.

use crate::Unit;
use crate::helpers::Helpers;
use crate::observation::ThreadObservation;
use crate::openmp::Runtime;
use crate::roles::{Named, Occupancy, Roles, Slot, SlotRule};
use crate::scheduling::{Attached, SchedulingObservation, SchedulingSeen};
use machine::linux::affinity::{self, Mask};
use machine::linux::{Pid, Tid};
use machine::{CpuId, CpuSet, Placement};
use nix::errno::Errno;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// Who puts the threads where they are meant to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binder {
    /// Nobody: the program is only observed.
    Nobody,
    /// We do, as threads are created.
    Creation,
    /// The OpenMP runtime of the command itself, as its variables say; we verify.
    Runtime(Runtime),
}

/// CPUs with their mask, made once.
struct Place {
    cpus: CpuSet,
    mask: Mask,
}

impl From<CpuSet> for Place {
    fn from(cpus: CpuSet) -> Self {
        let mask = Mask::from(&cpus);
        Self { cpus, mask }
    }
}

/// A placement's slots, and all of them together.
struct Slots {
    each: Vec<Place>,
    union: Place,
}

impl Slots {
    fn new(placement: &Placement) -> Self {
        Self { each: placement.slots.iter().cloned().map(Place::from).collect(), union: placement.union().into() }
    }

    fn get(&self, slot: usize) -> &Place {
        &self.each[slot % self.each.len()]
    }

    /// The place of one that got `slot`, or of one that is left alone.
    fn get_or_union(&self, slot: Option<usize>) -> &Place {
        slot.map_or(&self.union, |slot| self.get(slot))
    }

    /// Whether one place serves every thread.
    fn alike(&self) -> bool {
        self.each.iter().all(|place| place.cpus == self.union.cpus)
    }
}

/// The first binding that the kernel refused.
#[derive(Default)]
struct Refused(Option<(Tid, CpuSet, Errno)>);

impl Refused {
    /// Binds a thread; that it was quicker to end is no refusal.
    fn bind(&mut self, tid: Tid, place: &Place) {
        match place.mask.apply(tid) {
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(errno) => drop(self.0.get_or_insert((tid, place.cpus.clone(), errno))),
        }
    }
}

/// Gives out slots in order of creation.
#[derive(Clone, Debug, Default)]
struct SlotCounter {
    created: u32,
    taken: usize,
}

impl SlotCounter {
    /// The index of the next one created, and its slot unless it is to be left alone.
    fn next(&mut self, skip: &[u32]) -> (u32, Option<usize>) {
        let index = self.created;
        self.created += 1;
        if skip.contains(&index) {
            return (index, None);
        }
        self.taken += 1;
        (index, Some(self.taken - 1))
    }

    /// The index of the next one created, which takes no slot.
    fn next_without_slot(&mut self) -> (u32, Option<usize>) {
        self.created += 1;
        (self.created - 1, None)
    }
}

impl Unit {
    /// The indexes of what is left alone, for things of one kind: `skip` counts those that take slots.
    fn skipped(self, kind: Self, skip: &[u32]) -> &[u32] {
        if self == kind { skip } else { &[] }
    }
}

struct Process {
    index: u32,
    exec: u32,
    /// What its threads inherit under [`Unit::Process`].
    slot: Option<usize>,
    /// The CPU that it has for life.
    attached: Option<CpuId>,
    threads: SlotCounter,
    /// The main thread's row, and the slot that it is bound to once there is another thread.
    main_row: usize,
    main_slot: Option<usize>,
    /// Whether any thread of its present program was bound by us to something narrower than the union.
    narrowed: bool,
    /// Its threads that have not ended.
    living: u32,
    /// With rules: the slots that its threads hold, and which each holds.
    occupancy: Occupancy,
    held: HashMap<Tid, usize>,
}

/// What has to be done at the birth of a thread, before its first instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Births {
    /// Each has a slot of its own.
    BindThreads,
    /// Each process has a slot of its own, which its threads inherit.
    BindProcesses,
    /// Nothing: what a thread inherits is right, or somebody else binds it.
    Leave,
}

/// Everything seen of the program's threads.
pub(crate) struct ThreadRegistry {
    slots: Option<Slots>,
    binder: Binder,
    unit: Unit,
    skip: Vec<u32>,
    /// Who takes which slot by name; none where only the order of creation says it.
    roles: Option<Roles>,
    /// With rules for processes: the slots that they hold.
    occupancy: Occupancy,
    started: SlotCounter,
    processes: HashMap<Pid, Process>,
    /// When the launch began, from which the lives of threads are counted.
    launched: Instant,
    /// Living threads: their process and their row.
    living: HashMap<Tid, (Pid, usize)>,
    rows: Vec<ThreadObservation>,
    /// Migrations of the command's main thread from before it was the program.
    migrations_before: u64,
    peak_rss_bytes: u64,
    refused: Refused,
    /// What is read back of how threads are scheduled; none where nothing is asked for.
    scheduling: Option<SchedulingSeen>,
    /// What gives each process a CPU for life, in place of slots.
    attached: Option<Attached>,
    /// Threads of an MPI library, where they are told apart.
    helpers: Option<Helpers>,
}

/// What a [`ThreadRegistry`] holds in the end.
pub(crate) struct Findings {
    pub(crate) threads: Vec<ThreadObservation>,
    pub(crate) migrations: Option<u64>,
    pub(crate) peak_rss_bytes: u64,
    pub(crate) scheduling: Option<SchedulingObservation>,
    pub(crate) notes: Vec<String>,
}

impl ThreadRegistry {
    pub(crate) fn new(placement: Option<&Placement>, binder: Binder, unit: Unit, skip: &[u32]) -> Self {
        Self {
            slots: placement.map(Slots::new),
            binder,
            unit,
            skip: skip.to_vec(),
            roles: None,
            occupancy: Occupancy::default(),
            started: SlotCounter::default(),
            processes: HashMap::new(),
            launched: Instant::now(),
            living: HashMap::new(),
            rows: Vec::new(),
            migrations_before: 0,
            peak_rss_bytes: 0,
            refused: Refused::default(),
            scheduling: None,
            attached: None,
            helpers: None,
        }
    }

    /// From now on threads of MPI libraries are left free.
    pub(crate) fn free_mpi_helpers(&mut self) {
        self.helpers = Some(Helpers::default());
    }

    /// A thread is being born, of which it is looked whether an MPI library starts it. `creator` is stopped as it creates it.
    pub(crate) fn look_for_helper(&mut self, new: Tid, creator: Option<Tid>) {
        let Some(helpers) = &mut self.helpers else { return };
        let of_creator = creator.and_then(|creator| self.living.get(&creator)).map(|(pid, _)| *pid);
        let pid = of_creator.or_else(|| self.processes.keys().copied().find(|pid| pid.has_thread(new)));
        pid.into_iter().for_each(|pid| helpers.look(new, creator, pid));
    }

    /// From now on slots are taken as these rules say, as far as there are any and threads are bound by us.
    pub(crate) fn take_slots_by(&mut self, rules: &[SlotRule]) {
        let named = if self.unit == Unit::Process { Named::Processes } else { Named::Threads };
        let slots_differ = self.slots.as_ref().is_some_and(|slots| !slots.alike());
        self.roles = Roles::new(rules, named).filter(|_| slots_differ && self.binder == Binder::Creation);
    }

    /// How long it is until names are to be looked at; none where they don't matter.
    pub(crate) fn to_next_names(&self) -> Option<Duration> {
        self.roles.as_ref().map(Roles::to_next_look)
    }

    /// Binds whoever's name says that it takes another slot, if it is time to look.
    pub(crate) fn heed_names(&mut self) {
        let Some(roles) = &mut self.roles else { return };
        let by_process = self.unit == Unit::Process;
        // Bound any sooner, a pool would be sized to one CPU.
        let is_alone = |pid: Pid, tid: Tid| {
            let threads = self.processes.get(&pid).map_or(1, |process| process.threads.created);
            !by_process && tid == pid.main_thread() && threads <= 1
        };
        for (pid, tid, slot) in roles.look(is_alone) {
            if by_process {
                self.process_takes(pid, slot);
            } else {
                self.thread_takes(pid, tid, slot);
            }
        }
    }

    fn process_takes(&mut self, pid: Pid, slot: Slot) {
        let (Some(slots), Some(process)) = (&self.slots, self.processes.get_mut(&pid)) else { return };
        process.slot = self.occupancy.take(slot, process.slot, slots.each.len());
        let place = slots.get_or_union(process.slot);
        for (tid, (_, row)) in self.living.iter().filter(|(_, (of, _))| *of == pid) {
            self.refused.bind(*tid, place);
            self.rows[*row].intended_cpus = process.slot.map(|_| place.cpus.clone());
        }
    }

    fn thread_takes(&mut self, pid: Pid, tid: Tid, slot: Slot) {
        let (Some(slots), Some(process)) = (&self.slots, self.processes.get_mut(&pid)) else { return };
        let Some((_, row)) = self.living.get(&tid) else { return };
        let taken = process.occupancy.take(slot, process.held.remove(&tid), slots.each.len());
        let place = slots.get_or_union(taken);
        process.held.extend(taken.map(|taken| (tid, taken)));
        process.narrowed |= taken.is_some();
        self.refused.bind(tid, place);
        self.rows[*row].intended_cpus = taken.map(|_| place.cpus.clone());
    }

    /// Whether and what to read back of how threads are scheduled.
    pub(crate) fn watch_scheduling(&mut self, seen: Option<SchedulingSeen>) {
        self.scheduling = seen;
    }

    /// From now on each process gets a CPU of its own, as far as there are some, and no thread a slot.
    pub(crate) fn attach_processes(&mut self, attached: Attached) {
        self.attached = Some(attached);
    }

    /// What has to be done at births.
    pub(crate) fn births(&self) -> Births {
        if self.attached.is_some() {
            return Births::BindProcesses;
        }
        match (&self.slots, self.binder, self.unit) {
            (Some(slots), Binder::Creation, _) if slots.alike() => Births::Leave,
            // What is born is to be free at first, and inherits a slot.
            _ if self.roles.is_some() => Births::BindThreads,
            (Some(_), Binder::Creation, Unit::Thread) => Births::BindThreads,
            (Some(_), Binder::Creation, Unit::Process) => Births::BindProcesses,
            _ => Births::Leave,
        }
    }

    /// How many threads have to be bound by the runtime of the command; that they were is for us to verify.
    pub(crate) fn to_verify(&self) -> usize {
        match (&self.slots, self.binder) {
            (Some(slots), Binder::Runtime(_)) => slots.each.len(),
            _ => 0,
        }
    }

    /// Threads that have not ended.
    pub(crate) fn living(&self) -> Vec<Tid> {
        self.living.keys().copied().collect()
    }

    /// Whether the thread has been entered and has not ended.
    pub(crate) fn contains_thread(&self, tid: Tid) -> bool {
        self.living.contains_key(&tid)
    }

    /// Whether the process has been entered and has not ended.
    pub(crate) fn contains_process(&self, pid: Pid) -> bool {
        self.processes.contains_key(&pid)
    }

    /// The process of a living thread.
    pub(crate) fn process_of(&self, tid: Tid) -> Option<Pid> {
        self.living.get(&tid).map(|(pid, _)| *pid)
    }

    /// Processes that have not ended.
    pub(crate) fn processes(&self) -> Vec<Pid> {
        self.processes.keys().copied().collect()
    }

    /// Enters a thread whose process the kernel has to be asked for; `likely` is tried first.
    pub(crate) fn add_task(&mut self, tid: Tid, likely: Option<Pid>) {
        // A tracer is told ids only, and reading /proc for each would take longer: one system call says whether a thread is
        // in a process, and nearly always it is in its creator's.
        let process = likely.into_iter().chain(self.processes.keys().copied()).find(|pid| pid.has_thread(tid));
        match process {
            Some(pid) => self.add_thread(pid, tid),
            None => self.add_process(Pid(tid.0)),
        }
    }

    /// Enters a thread that was not stopped at its birth by `creator`, and so can't be bound any more. What it inherited stands
    /// for where it may run until it is read back.
    pub(crate) fn add_recorded(&mut self, pid: Pid, tid: Tid, creator: Tid) {
        let Some((_, row)) = self.living.get(&creator) else { return };
        let inherited = Some(self.rows[*row].actual_cpus.clone());
        if tid == pid.main_thread() {
            self.enter_process(pid, inherited)
        } else {
            self.enter_thread(pid, tid, inherited)
        }
    }

    /// Enters a process with its main thread. The first is the command.
    pub(crate) fn add_process(&mut self, pid: Pid) {
        self.enter_process(pid, None);
    }

    /// Enters a further thread of a process and puts it, and with the first one the main thread, on its slot.
    pub(crate) fn add_thread(&mut self, pid: Pid, tid: Tid) {
        self.enter_thread(pid, tid, None);
    }

    /// Enters a process, and binds it unless it is known by what it `inherited`.
    fn enter_process(&mut self, pid: Pid, inherited: Option<CpuSet>) {
        let to_bind = inherited.is_none();
        let (index, slot) = self.started.next(self.unit.skipped(Unit::Process, &self.skip));
        let mut threads = SlotCounter::default();
        let (_, main_slot) = threads.next(self.unit.skipped(Unit::Thread, &self.skip));
        let tid = pid.main_thread();
        // One that was not stopped at its birth stays where its parent is.
        let attached = self.attached.as_mut().filter(|_| to_bind).and_then(|attached| attached.give(pid, index));
        let intended = match (&self.slots, self.binder, self.unit) {
            _ if self.attached.is_some() => attached.map(|cpu| {
                let place = Place::from(CpuSet::from(cpu));
                self.refused.bind(tid, &place);
                place.cpus
            }),
            (Some(slots), Binder::Creation, _) if self.roles.is_some() => {
                self.refused.bind(tid, &slots.union);
                None
            }
            (Some(slots), Binder::Creation, Unit::Process) => {
                let place = slots.get_or_union(slot);
                if to_bind {
                    self.refused.bind(tid, place);
                }
                slot.map(|_| place.cpus.clone())
            }
            (Some(slots), Binder::Creation, Unit::Thread) => {
                if to_bind {
                    self.refused.bind(tid, &slots.union);
                }
                main_slot.map(|_| slots.union.cpus.clone())
            }
            (Some(slots), Binder::Runtime(_), _) if index == 0 => {
                self.refused.bind(tid, &slots.union);
                Some(slots.get(0).cpus.clone())
            }
            _ => None,
        };
        self.processes.insert(
            pid,
            Process {
                index,
                exec: 0,
                slot: slot.filter(|_| self.roles.is_none()),
                attached,
                threads,
                main_row: self.rows.len(),
                main_slot,
                narrowed: false,
                living: 0,
                occupancy: Occupancy::default(),
                held: HashMap::new(),
            },
        );
        self.roles.iter_mut().for_each(|roles| roles.born(pid, tid));
        self.enter(pid, tid, [index, 0, 0], intended, inherited);
    }

    /// Enters a thread, and binds it unless it is known by what it `inherited`.
    fn enter_thread(&mut self, pid: Pid, tid: Tid, inherited: Option<CpuSet>) {
        let to_bind = inherited.is_none();
        let Some(process) = self.processes.get_mut(&pid) else {
            return;
        };
        let skip = self.unit.skipped(Unit::Thread, &self.skip);
        let is_helper = self.helpers.as_mut().is_some_and(|helpers| helpers.take(tid));
        let (thread, slot) = if is_helper { process.threads.next_without_slot() } else { process.threads.next(skip) };
        let (index, exec) = (process.index, process.exec);
        let intended = match (&self.slots, self.binder, self.unit) {
            _ if self.attached.is_some() => process.attached.map(CpuSet::from),
            // It inherits the place of the thread that initialises MPI, which a runtime may have bound already.
            (Some(slots), Binder::Creation | Binder::Runtime(_), _) if is_helper => {
                self.refused.bind(tid, &slots.union);
                None
            }
            (Some(slots), Binder::Creation, Unit::Thread) if self.roles.is_some() => {
                self.refused.bind(tid, &slots.union);
                self.roles.iter_mut().for_each(|roles| roles.born(pid, tid));
                None
            }
            (Some(slots), Binder::Creation, Unit::Thread) if !to_bind => slot.map(|slot| slots.get(slot).cpus.clone()),
            (Some(slots), Binder::Creation, Unit::Thread) => {
                if !process.narrowed && !slots.alike() {
                    process.narrowed = true;
                    if let Some(main_slot) = process.main_slot {
                        let place = slots.get(main_slot);
                        self.refused.bind(pid.main_thread(), place);
                        self.rows[process.main_row].intended_cpus = Some(place.cpus.clone());
                    }
                }
                // One that is left alone must not inherit the place of the thread that created it.
                let place = slots.get_or_union(slot);
                self.refused.bind(tid, place);
                slot.map(|_| place.cpus.clone())
            }
            (Some(slots), Binder::Creation, Unit::Process) => process.slot.map(|slot| slots.get(slot).cpus.clone()),
            // What a runtime does with one that was not stopped may be over before it is read back.
            (Some(slots), Binder::Runtime(_), _) if index == 0 && exec == 0 && to_bind => {
                slot.map(|slot| slots.get(slot).cpus.clone())
            }
            _ => None,
        };
        self.enter(pid, tid, [index, exec, thread], intended, inherited);
        if let Some(row) = self.rows.last_mut() {
            row.is_helper = is_helper;
        }
    }

    /// A main thread has ended, and with it its process: the kernel tells tracers of main threads last. Its row stays until what
    /// it did is known.
    pub(crate) fn process_ended(&mut self, pid: Pid) {
        if let Some(attached) = &mut self.attached {
            attached.end(pid);
        }
        if let (Some(roles), Some(process)) = (&mut self.roles, self.processes.get_mut(&pid)) {
            roles.remove(pid.main_thread());
            self.occupancy.release(process.slot.take());
        }
    }

    /// Adds the row of a thread: which it is, where it is meant to run, and where it may if that need not be read back.
    fn enter(
        &mut self,
        pid: Pid,
        tid: Tid,
        [process, exec, thread]: [u32; 3],
        intended_cpus: Option<CpuSet>,
        actual_cpus: Option<CpuSet>,
    ) {
        if self.living.insert(tid, (pid, self.rows.len())).is_none()
            && let Some(process) = self.processes.get_mut(&pid)
        {
            process.living += 1;
        }
        // One that was gone before it could be asked ran where its process may.
        let asked = || affinity::allowed(tid).ok();
        let main_row = self.processes.get(&pid).and_then(|process| self.rows.get(process.main_row));
        let of_process = main_row.or(self.rows.first()).map(|row| row.actual_cpus.clone());
        let actual_cpus = actual_cpus.or_else(asked).or(of_process).unwrap_or_default();
        self.rows.push(ThreadObservation {
            process,
            exec,
            thread,
            tid: tid.0,
            name: None,
            intended_cpus,
            actual_cpus,
            last_cpu: None,
            migrations: None,
            cpu_s: None,
            waited_s: None,
            is_helper: false,
            began_s: Some(self.launched.elapsed().as_secs_f64()),
            ended_s: None,
        });
    }

    /// The held child has become the command: what came before doesn't count.
    pub(crate) fn start_command(&mut self, pid: Pid) {
        self.migrations_before = pid.migrations(pid.main_thread()).unwrap_or(0);
        self.read_back(pid.main_thread(), false);
    }

    /// A process executes another program: all its other threads are gone, and it counts from 0 again. `by` is the
    /// thread that called `exec`, which takes over the id of the main thread.
    pub(crate) fn start_exec(&mut self, pid: Pid, by: Tid) {
        let tid = pid.main_thread();
        let gone: Vec<Tid> =
            self.living.extract_if(|other, (of, _)| *of == pid && *other != tid).map(|(other, _)| other).collect();
        gone.into_iter().for_each(|other| self.forget_name(pid, other));
        let Some(process) = self.processes.get_mut(&pid) else {
            return;
        };
        process.living = u32::from(self.living.contains_key(&tid));
        let skip = self.unit.skipped(Unit::Thread, &self.skip);
        let had_threads = process.threads.created > 1;
        process.exec += 1;
        process.threads = SlotCounter::default();
        process.main_slot = process.threads.next(skip).1;
        let intended = match (&self.slots, self.binder, self.unit) {
            _ if self.attached.is_some() => process.attached.map(CpuSet::from),
            (Some(slots), Binder::Creation, Unit::Thread) if self.roles.is_some() => {
                self.refused.bind(tid, &slots.union);
                (process.narrowed, process.occupancy, process.held) = Default::default();
                self.roles.iter_mut().for_each(|roles| roles.born(pid, tid));
                None
            }
            (Some(slots), Binder::Creation, Unit::Thread) => {
                // `exec` keeps the mask of the thread that called it, which would be all that the new program sees.
                if std::mem::take(&mut process.narrowed) {
                    self.refused.bind(tid, &slots.union);
                }
                process.main_slot.map(|_| slots.union.cpus.clone())
            }
            (Some(slots), Binder::Creation, Unit::Process) => process.slot.map(|slot| slots.get(slot).cpus.clone()),
            _ => None,
        };
        let (index, exec) = (process.index, process.exec);
        // A process that only replaces its program, as `env` and shells do, stays one row; one that had threads is listed
        // with its old and its new ones.
        if had_threads || by != tid || !self.living.contains_key(&tid) {
            process.main_row = self.rows.len();
            self.enter(pid, tid, [index, exec, 0], intended, None);
        } else {
            let row = &mut self.rows[process.main_row];
            row.exec = exec;
            row.intended_cpus = intended;
        }
    }

    /// Reads back where the thread may run; with `details` also where it ran.
    pub(crate) fn read_back(&mut self, tid: Tid, details: bool) {
        let Some((pid, row)) = self.living.get(&tid).copied() else {
            return;
        };
        if let Some(scheduling) = &mut self.scheduling {
            scheduling.read_back(tid, row);
        }
        let row = &mut self.rows[row];
        if let Ok(cpus) = affinity::allowed(tid) {
            row.actual_cpus = cpus;
        }
        if details {
            // One that may run on a single CPU has not been anywhere else: no need to ask.
            row.last_cpu = row.actual_cpus.only().or_else(|| pid.last_cpu(tid)).or(row.last_cpu);
            let (name, migrations) = pid.name_and_migrations(tid);
            row.name = name.or_else(|| row.name.take());
            row.migrations = migrations.or(row.migrations);
            if let Some(times) = pid.scheduler_times(tid) {
                (row.cpu_s, row.waited_s) = (Some(times.cpu_s), times.waited_s);
                row.ended_s = Some(self.launched.elapsed().as_secs_f64());
            }
            if pid.main_thread() == tid {
                self.peak_rss_bytes =
                    pid.peak_rss_bytes().map_or(self.peak_rss_bytes, |peak| peak.max(self.peak_rss_bytes));
            }
        }
    }

    /// The process whose main thread `tid` is had so much memory at most.
    pub(crate) fn saw_peak(&mut self, tid: Tid, bytes: u64) {
        if self.contains_process(Pid(tid.0)) {
            self.peak_rss_bytes = self.peak_rss_bytes.max(bytes);
        }
    }

    /// A thread has ended, and with its last thread its process.
    pub(crate) fn remove(&mut self, tid: Tid) {
        let Some((pid, _)) = self.living.remove(&tid) else { return };
        self.forget_name(pid, tid);
        if let Some(process) = self.processes.get_mut(&pid) {
            process.living -= 1;
            if process.living == 0 {
                self.process_ended(pid);
                self.processes.remove(&pid);
            }
        }
    }

    /// A thread is gone, and with it what it was called and the slot that it had by that.
    fn forget_name(&mut self, pid: Pid, tid: Tid) {
        let Some(roles) = self.roles.as_mut().filter(|_| self.unit == Unit::Thread) else { return };
        roles.remove(tid);
        if let Some(process) = self.processes.get_mut(&pid) {
            let held = process.held.remove(&tid);
            process.occupancy.release(held);
        }
    }

    /// A thread that was not stopped has ended on this CPU.
    pub(crate) fn remove_recorded(&mut self, tid: Tid, cpu: CpuId) {
        if let Some((_, row)) = self.living.get(&tid) {
            self.rows[*row].last_cpu = Some(cpu);
        }
        self.remove(tid);
    }

    /// Only the threads in `there` are left of the process; without any, it has ended.
    pub(crate) fn retain_threads(&mut self, pid: Pid, there: &HashSet<Tid>) {
        let gone: Vec<Tid> =
            self.living.extract_if(|tid, (of, _)| *of == pid && !there.contains(tid)).map(|(tid, _)| tid).collect();
        gone.into_iter().for_each(|tid| self.forget_name(pid, tid));
        if there.is_empty() {
            self.process_ended(pid);
            self.processes.remove(&pid);
        } else if let Some(process) = self.processes.get_mut(&pid) {
            process.living = there.len() as u32;
        }
    }

    /// What was seen, in order of creation, and what the reader should know of it.
    pub(crate) fn finish(mut self) -> Findings {
        let mut notes = Vec::new();
        if let Some((tid, cpus, errno)) = &self.refused.0 {
            notes.push(format!(
                "the kernel refused to bind thread {} to CPUs {cpus}: {} (sched_setaffinity)",
                tid.0,
                errno.desc()
            ));
        }
        self.settle_lone_threads(&mut notes);
        if let Some(command) = self.rows.first_mut() {
            command.migrations = command.migrations.map(|migrations| migrations.saturating_sub(self.migrations_before));
        }
        self.rows.sort_by_key(|row| (row.process, row.exec, row.thread));
        notes.extend(self.strays());
        notes.extend(self.helpers.as_ref().and_then(Helpers::note));
        let (mut scheduling, note) = self.scheduling.map(SchedulingSeen::finish).unzip();
        notes.extend(note.flatten());
        if let (Some(scheduling), Some(attached)) = (&mut scheduling, self.attached) {
            scheduling.attached = attached.finish();
        }
        Findings {
            // A sum over some of them would be taken for one over all.
            migrations: self.rows.iter().map(|row| row.migrations).sum(),
            threads: self.rows,
            peak_rss_bytes: self.peak_rss_bytes,
            scheduling,
            notes,
        }
    }

    /// An OpenMP program that never opened a parallel region has not been bound by its runtime, and nothing was meant
    /// to be: it ran on the union, as any program that creates no thread.
    fn settle_lone_threads(&mut self, notes: &mut Vec<String>) {
        let Some(slots) = self.slots.as_ref().filter(|slots| !slots.alike()) else {
            return;
        };
        if self.unit == Unit::Process || self.attached.is_some() || self.rows.iter().any(|row| row.thread > 0) {
            return;
        }
        for row in &mut self.rows {
            if row.intended_cpus.is_some() && row.actual_cpus == slots.union.cpus {
                row.intended_cpus = Some(slots.union.cpus.clone());
                if row.process == 0 {
                    notes.push(format!(
                        "it created no thread, so it was free to use CPUs {}; bind it to one CPU with -n 1",
                        slots.union.cpus
                    ));
                }
            }
        }
    }

    fn strays(&self) -> Option<String> {
        const SHOWN: usize = 3;
        let strayed: Vec<&ThreadObservation> = self.rows.iter().filter(|row| row.strayed()).collect();
        if strayed.is_empty() {
            return None;
        }
        let mut examples: Vec<String> = strayed
            .iter()
            .take(SHOWN)
            .map(|row| {
                let whose = if row.process == 0 { String::new() } else { format!(" of process {}", row.process) };
                let intended = row.intended_cpus.clone().unwrap_or_default();
                let actual = &row.actual_cpus;
                format!("thread {}{whose} was meant for {intended} and was on {actual}", row.thread)
            })
            .collect();
        if strayed.len() > SHOWN {
            examples.push(format!("and {} more", strayed.len() - SHOWN));
        }
        let who = match self.binder {
            Binder::Runtime(runtime) => {
                format!("{} or the program itself did not follow the binding", runtime.library())
            }
            _ => "the program changed its own affinity".into(),
        };
        Some(format!("{} of {} threads strayed: {}; {who}", strayed.len(), self.rows.len(), examples.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_given_in_order_of_creation_and_a_skipped_thread_takes_none() {
        let mut queue = SlotCounter::default();
        let given: Vec<_> = (0..5).map(|_| queue.next(&[2])).collect();
        assert_eq!(given, [(0, Some(0)), (1, Some(1)), (2, None), (3, Some(2)), (4, Some(3))]);
    }

    #[test]
    fn a_main_thread_that_is_skipped_leaves_its_slot_to_the_next() {
        let mut queue = SlotCounter::default();
        assert_eq!(queue.next(&[0]), (0, None));
        assert_eq!(queue.next(&[0]), (1, Some(0)));
    }

    #[test]
    fn a_thread_that_was_gone_before_it_could_be_asked_has_not_strayed() {
        let all = affinity::allowed(Tid::CALLER).unwrap();
        let placement = Placement { policy: "list".into(), slots: vec![all.clone()] };
        let mut registry = ThreadRegistry::new(Some(&placement), Binder::Creation, Unit::Thread, &[]);
        let own = Pid(std::process::id() as libc::pid_t);
        registry.add_process(own);
        registry.add_thread(own, Tid(libc::pid_t::MAX));
        registry.add_process(Pid(libc::pid_t::MAX - 1));
        let found = registry.finish();
        assert_eq!(found.threads.len(), 3);
        assert!(found.threads.iter().all(|thread| thread.actual_cpus == all && !thread.strayed()), "{:?}", found.notes);
    }

    #[test]
    fn threads_beyond_the_slots_start_again_at_the_first() {
        let placement = Placement { policy: "list".into(), slots: vec!["4".parse().unwrap(), "2".parse().unwrap()] };
        let slots = Slots::new(&placement);
        let given: Vec<String> = (0..5).map(|slot| slots.get(slot).cpus.to_string()).collect();
        assert_eq!(given, ["4", "2", "4", "2", "4"]);
        assert_eq!(slots.union.cpus.to_string(), "2,4");
        assert!(!slots.alike());
    }
}
