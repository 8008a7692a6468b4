//! Programs that run already: their threads, old and new, are bound for a while, read back, and given back what they had.

use crate::LaunchError;
use crate::Unit;
use crate::observation::{ConditionsObservation, Exit, Observation, ThreadObservation};
use crate::restorer::{Former, Restorer, may_bind};
use crate::roles::{Named, Occupancy, Roles, SlotRule};
use machine::linux::affinity::{self, Mask};
use machine::linux::process::SchedulerTimes;
use machine::linux::{Pid, Tid};
use machine::{CpuSet, Placement};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often one looks for threads that were born.
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// Where control groups are.
const GROUPS: &str = "/sys/fs/cgroup";

/// A program that runs already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A process with all that descend from it. It is the one that began at this tick of the kernel's.
    Process {
        /// Its number.
        pid: i32,
        /// When it began.
        started: u64,
    },
    /// All processes of a control group, and of those below it.
    Group(PathBuf),
}

impl Target {
    /// The process with this number.
    ///
    /// # Errors
    /// Why it can't be bound, in a sentence.
    pub fn process(pid: i32) -> Result<Self, String> {
        let process = Pid(pid);
        let Some(started) = process.thread_started(process.main_thread()).filter(|_| !process.is_zombie()) else {
            return Err(format!("there is no process {pid}"));
        };
        let own = std::process::id() as i32;
        let ancestors = std::iter::successors(Some(Pid(own)), |pid| pid.parent().filter(|parent| parent.0 > 0));
        if pid == 1 || ancestors.into_iter().any(|ancestor| ancestor.0 == pid) {
            return Err(format!("process {pid} is stayput itself or what it was started by; name another one"));
        }
        let has_no_file = fs::read_link(process.executable()).is_err();
        if has_no_file && fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.is_empty()) {
            return Err(format!("process {pid} is a thread of the kernel, whose places are the kernel's own"));
        }
        if !may_bind(process) {
            return Err(format!("process {pid} is another user's; only root may bind it"));
        }
        Ok(Self::Process { pid, started })
    }

    /// The control group at `path`, from the root of control groups unless it is absolute.
    ///
    /// # Errors
    /// Why it can't be bound, in a sentence.
    pub fn group(path: &Path) -> Result<Self, String> {
        let path = if path.is_absolute() { path.to_owned() } else { Path::new(GROUPS).join(path) };
        if !path.join("cgroup.procs").is_file() {
            return Err(format!("{} is no control group; name one below {GROUPS}", path.display()));
        }
        let target = Self::Group(path);
        let processes = target.processes();
        let own = Pid(std::process::id() as i32);
        match processes.first() {
            None => Err(format!("{target} has no process")),
            Some(_) if processes.contains(&own) => Err(format!("stayput itself is in {target}; name another one")),
            Some(_) => match processes.iter().find(|pid| !may_bind(**pid)) {
                Some(other) => Err(format!("process {} in {target} is another user's; only root may bind it", other.0)),
                None => Ok(target),
            },
        }
    }

    /// Its processes that exist now, the oldest first.
    pub fn processes(&self) -> Vec<Pid> {
        let mut found: Vec<Pid> = match self {
            Self::Process { pid, started } => {
                let process = Pid(*pid);
                if process.thread_started(process.main_thread()) != Some(*started) || process.is_zombie() {
                    return Vec::new();
                }
                let mut all = process.descendants();
                all.push(process);
                all
            }
            Self::Group(path) => processes_of(path),
        };
        found.sort_by_key(|pid| (pid.thread_started(pid.main_thread()), pid.0));
        found.dedup();
        found
    }

    /// The file of its first process; a group's own path.
    pub fn program(&self) -> PathBuf {
        match self {
            Self::Process { pid, .. } => fs::read_link(Pid(*pid).executable()).unwrap_or_default(),
            Self::Group(path) => path.clone(),
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Process { pid, .. } => write!(f, "process {pid}"),
            Self::Group(path) => write!(f, "control group {}", path.display()),
        }
    }
}

fn processes_of(group: &Path) -> Vec<Pid> {
    let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    let mut found: Vec<Pid> = text.lines().filter_map(|line| line.trim().parse().ok().map(Pid)).collect();
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(processes_of(&entry.path()));
        }
    }
    found
}

/// How the threads of a program that runs are bound.
#[derive(Clone, Debug, Default)]
pub struct Attachment {
    /// Where they go; none leaves them as they are.
    pub placement: Option<Placement>,
    /// What takes a slot.
    pub unit: Unit,
    /// Threads or processes, as `unit` says, that are left alone, by their order from 0.
    pub skip: Vec<u32>,
    /// Who takes which slot by what it is called; what no rule names takes the next one.
    pub roles: Vec<SlotRule>,
}

impl Attachment {
    fn named(&self) -> Named {
        if self.unit == Unit::Process { Named::Processes } else { Named::Threads }
    }
}

/// A program whose threads are bound. Dropped, they have back what they had.
pub struct Attached {
    target: Target,
    begun: Instant,
    over: Option<Sender<()>>,
    watcher: Option<JoinHandle<Watched>>,
}

/// What was seen of a program that runs.
#[derive(Clone, Debug)]
pub struct AttachedObservation {
    /// Its threads, and what they used meanwhile.
    pub observation: Observation,
    /// Whether it had ended by then.
    pub has_ended: bool,
}

impl Attached {
    /// Binds what there is of `target` now, and goes on with what is born later.
    ///
    /// # Errors
    /// [`LaunchError`], with everything as it was.
    pub fn begin(target: &Target, attachment: &Attachment) -> Result<Self, LaunchError> {
        let mut watched = Watched::new(target, attachment)?;
        watched.look(true)?;
        if watched.processes.is_empty() {
            return Err(LaunchError::Conditions(format!("{target} has ended")));
        }
        let (over, told) = mpsc::channel();
        let watch = move || {
            while let Err(RecvTimeoutError::Timeout) = told.recv_timeout(BETWEEN_LOOKS) {
                // What can't be bound is read back as it is.
                let _ = watched.look(false);
            }
            let _ = watched.look(false);
            watched.read_back();
            watched
        };
        let watcher =
            thread::Builder::new().name("attached".into()).spawn(watch).map_err(LaunchError::system("clone"))?;
        Ok(Self { target: target.clone(), begun: Instant::now(), over: Some(over), watcher: Some(watcher) })
    }

    /// Reads everything back, and gives back what was had.
    pub fn end(mut self) -> AttachedObservation {
        self.over = None;
        let watched = self.watcher.take().and_then(|watcher| watcher.join().ok());
        let wall_s = self.begun.elapsed().as_secs_f64();
        let threads = watched.map(Watched::finish).unwrap_or_default();
        let cpu_s = threads.iter().filter_map(|thread| thread.cpu_s).sum();
        let observation = Observation {
            exit: Exit::Code(0),
            wall_s,
            user_s: cpu_s,
            system_s: 0.0,
            max_rss_bytes: 0,
            voluntary_switches: 0,
            involuntary_switches: 0,
            migrations: None,
            minor_faults: 0,
            major_faults: 0,
            read_bytes: None,
            written_bytes: None,
            energy_j: None,
            counters: BTreeMap::new(),
            stops: None,
            stops_s: None,
            threads,
            leftovers: 0,
            conditions: ConditionsObservation::default(),
            notes: Vec::new(),
        };
        AttachedObservation { observation, has_ended: self.target.processes().is_empty() }
    }

    /// Whether the program has ended.
    pub fn has_ended(&self) -> bool {
        self.target.processes().is_empty()
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.over = None;
        if let Some(watcher) = self.watcher.take() {
            let _ = watcher.join();
        }
    }
}

/// A thread that is bound.
struct Thread {
    observation: ThreadObservation,
    pid: Pid,
    /// What it had before.
    had: CpuSet,
    /// The slot that it has by its own name.
    slot: Option<usize>,
    /// With rules: whether it is known to have ended.
    has_ended: bool,
    /// What it had used when it was first seen.
    before: Option<SchedulerTimes>,
}

/// Binds a thread, which the one that gives back what it had is told of before; whether it was there to be bound.
fn bind(target: &Target, restorer: Option<&mut Restorer>, former: Former) -> Result<bool, LaunchError> {
    let Some(restorer) = restorer else { return Ok(false) };
    let (tid, given) = (Tid(former.tid), former.given.clone());
    restorer.tell(former).map_err(LaunchError::system("write"))?;
    match Mask::from(&given).apply(tid) {
        Ok(()) => Ok(true),
        Err(nix::errno::Errno::ESRCH) => Ok(false),
        Err(errno) => Err(LaunchError::Conditions(format!(
            "thread {} of {target} can't be bound to CPUs {given}: {}",
            tid.0,
            errno.desc()
        ))),
    }
}

struct Watched {
    target: Target,
    attachment: Attachment,
    restorer: Option<Restorer>,
    begun: Instant,
    /// In the order in which they were noticed, with when they began.
    processes: Vec<(Pid, u64)>,
    /// By number and birth.
    threads: BTreeMap<(i32, u64), Thread>,
    /// How many threads each process has had so far.
    born: BTreeMap<i32, u32>,
    /// What the main thread of each process had.
    had: BTreeMap<i32, CpuSet>,
    /// Who takes which slot by name; none where only the order says it.
    roles: Option<Roles>,
    /// The slots that are held by name: by processes, or by the threads of each.
    occupancy: BTreeMap<Option<i32>, Occupancy>,
    /// The slots that processes have by name.
    of_process: BTreeMap<i32, Option<usize>>,
}

impl Watched {
    fn new(target: &Target, attachment: &Attachment) -> Result<Self, LaunchError> {
        let binds = attachment.placement.is_some();
        let restorer = binds.then(Restorer::start).transpose().map_err(LaunchError::system("fork"))?;
        Ok(Self {
            target: target.clone(),
            attachment: attachment.clone(),
            restorer,
            begun: Instant::now(),
            processes: Vec::new(),
            threads: BTreeMap::new(),
            born: BTreeMap::new(),
            had: BTreeMap::new(),
            roles: attachment.placement.as_ref().and_then(|_| Roles::new(&attachment.roles, attachment.named())),
            occupancy: BTreeMap::new(),
            of_process: BTreeMap::new(),
        })
    }

    /// Binds what is new.
    ///
    /// # Errors
    /// When something can't be bound that was there at first.
    fn look(&mut self, is_first: bool) -> Result<(), LaunchError> {
        for pid in self.target.processes() {
            let Some(began) = pid.thread_started(pid.main_thread()) else { continue };
            let position = self.processes.iter().position(|known| *known == (pid, began)).unwrap_or_else(|| {
                self.processes.push((pid, began));
                self.processes.len() - 1
            });
            for tid in pid.threads() {
                let Some(started) = pid.thread_started(tid) else { continue };
                if !self.threads.contains_key(&(tid.0, started)) {
                    let bound = self.bind(position as u32, pid, tid, started, is_first);
                    if is_first {
                        bound?;
                    }
                }
            }
        }
        self.forget_ended();
        let named = self.heed_names();
        if is_first { named } else { Ok(()) }
    }

    /// Binds whoever's name says that it takes another slot.
    fn heed_names(&mut self) -> Result<(), LaunchError> {
        let (Some(roles), Some(placement)) = (&mut self.roles, &self.attachment.placement) else { return Ok(()) };
        let by_process = self.attachment.unit == Unit::Process;
        let (slots, union) = (placement.slots.clone(), placement.union());
        // One that is alone stays free to make a pool as large as the placement.
        let is_alone = |pid: Pid, tid: Tid| !by_process && tid == pid.main_thread() && pid.threads().len() <= 1;
        let changes = roles.look(is_alone);
        for (pid, tid, slot) in changes {
            let is_meant = |thread: &Thread| thread.pid == pid && (by_process || thread.observation.tid == tid.0);
            let meant: Vec<(i32, u64)> =
                self.threads.iter().filter(|(_, thread)| is_meant(thread)).map(|(key, _)| *key).collect();
            let Some(first) = meant.first() else { continue };
            let had =
                if by_process { self.of_process.get(&pid.0).copied().flatten() } else { self.threads[first].slot };
            let occupancy = self.occupancy.entry((!by_process).then_some(pid.0)).or_default();
            let taken = occupancy.take(slot, had, slots.len());
            if by_process {
                self.of_process.insert(pid.0, taken);
            }
            for key in meant {
                self.give(key, taken.map(|taken| slots[taken].clone()), &union)?;
                self.threads.entry(key).and_modify(|thread| thread.slot = taken.filter(|_| !by_process));
            }
        }
        Ok(())
    }

    /// Gives a known thread a place, or all of the placement's CPUs.
    fn give(&mut self, key: (i32, u64), place: Option<CpuSet>, union: &CpuSet) -> Result<(), LaunchError> {
        let Some(thread) = self.threads.get_mut(&key) else { return Ok(()) };
        let given = place.as_ref().unwrap_or(union).clone();
        let former = Former { pid: thread.pid.0, tid: key.0, started: key.1, had: thread.had.clone(), given };
        thread.observation.intended_cpus = place;
        bind(&self.target, self.restorer.as_mut(), former).map(drop)
    }

    /// Slots of those that have ended are free.
    fn forget_ended(&mut self) {
        let Some(roles) = &mut self.roles else { return };
        for ((tid, started), thread) in &mut self.threads {
            if thread.has_ended || thread.pid.thread_started(Tid(*tid)) == Some(*started) {
                continue;
            }
            thread.has_ended = true;
            roles.remove(Tid(*tid));
            if *tid == thread.pid.0 {
                self.occupancy.entry(None).or_default().release(self.of_process.remove(tid).flatten());
            }
            self.occupancy.entry(Some(thread.pid.0)).or_default().release(thread.slot.take());
        }
    }

    fn bind(&mut self, process: u32, pid: Pid, tid: Tid, started: u64, is_first: bool) -> Result<(), LaunchError> {
        // One that has ended meanwhile is none.
        let Ok(now) = affinity::allowed(tid) else { return Ok(()) };
        let number = self.born.get(&pid.0).copied().unwrap_or(0);
        let by_name = self.roles.is_some();
        let intended = self.slot(process, number).cloned().filter(|_| !by_name);
        let inherited = self.of_process.get(&pid.0).copied().flatten();
        let placement = self.attachment.placement.as_ref();
        let by_name = placement.filter(|_| by_name).map(|placement| {
            // Its process has a slot, or it is free until its own name is known.
            inherited.map_or_else(|| placement.union(), |slot| placement.slot(slot).clone())
        });
        let intended = intended.or_else(|| by_name.clone().filter(|_| inherited.is_some()));
        // What is born later inherits what we gave its maker.
        let of_maker = self.had.get(&pid.0).or_else(|| self.had.get(&pid.parent()?.0)).filter(|_| !is_first);
        let had = of_maker.cloned().unwrap_or_else(|| now.clone());
        self.had.entry(pid.0).or_insert_with(|| had.clone());
        let given = if let Some(given) = by_name.or_else(|| intended.clone()) {
            let former = Former { pid: pid.0, tid: tid.0, started, had: had.clone(), given: given.clone() };
            // One that ended before it was bound never had a place; at first, it was never seen while others had theirs.
            match bind(&self.target, self.restorer.as_mut(), former)? {
                true => Some(given),
                false if is_first && self.restorer.is_some() => return Ok(()),
                false => None,
            }
        } else {
            None
        };
        *self.born.entry(pid.0).or_default() += 1;
        if self.attachment.unit == Unit::Thread || tid == pid.main_thread() {
            let enter = if is_first { Roles::found } else { Roles::born };
            self.roles.iter_mut().for_each(|roles| enter(roles, pid, tid));
        }
        let observation = ThreadObservation {
            process,
            exec: 0,
            thread: number,
            tid: tid.0,
            name: pid.name_and_migrations(tid).0,
            intended_cpus: intended.filter(|_| given.is_some()),
            actual_cpus: affinity::allowed(tid).ok().or(given).unwrap_or(now),
            last_cpu: pid.last_cpu(tid),
            migrations: None,
            cpu_s: None,
            waited_s: None,
            is_helper: false,
            began_s: Some(self.begun.elapsed().as_secs_f64()),
            ended_s: None,
        };
        let before = pid.scheduler_times(tid);
        let thread = Thread { observation, pid, had, slot: None, has_ended: false, before };
        self.threads.insert((tid.0, started), thread);
        Ok(())
    }

    /// The slot of a thread, by its process's number and its own.
    fn slot(&self, process: u32, thread: u32) -> Option<&CpuSet> {
        let Attachment { placement, unit, skip, .. } = &self.attachment;
        let number = if *unit == Unit::Process { process } else { thread };
        let slots = &placement.as_ref()?.slots;
        let before = skip.iter().filter(|skipped| **skipped < number).count();
        (!skip.contains(&number)).then(|| &slots[(number as usize - before) % slots.len()])
    }

    /// Reads back what is still there.
    fn read_back(&mut self) {
        let now_s = self.begun.elapsed().as_secs_f64();
        for ((tid, started), thread) in &mut self.threads {
            let tid = Tid(*tid);
            if thread.pid.thread_started(tid) != Some(*started) {
                continue;
            }
            let seen = &mut thread.observation;
            if let Ok(actual) = affinity::allowed(tid) {
                seen.actual_cpus = actual;
            }
            let times = thread.before.zip(thread.pid.scheduler_times(tid));
            seen.cpu_s = times.map(|(before, now)| now.cpu_s - before.cpu_s);
            seen.waited_s = times.and_then(|(before, now)| Some(now.waited_s? - before.waited_s?));
            seen.last_cpu = thread.pid.last_cpu(tid);
            seen.name = thread.pid.name_and_migrations(tid).0.or(seen.name.take());
            seen.ended_s = Some(now_s);
        }
    }

    /// Its threads by process and number; what they had is given back.
    fn finish(self) -> Vec<ThreadObservation> {
        drop(self.restorer);
        let mut threads: Vec<ThreadObservation> = self.threads.into_values().map(|thread| thread.observation).collect();
        threads.sort_by_key(|thread| (thread.process, thread.thread));
        threads
    }
}
