//! The caches of a guest under its accesses, and why processes of interest miss them.

use crate::cache::Line;
use crate::hierarchy::{CacheIndex, Event, Hierarchy, HierarchyError, LevelIndex, Missed};
use crate::loss::{Loss, Losses};
use crate::process::{Process, Use};
use crate::report::{Causes, Instructions, Report};
use crate::sampling::Sampling;
use crate::tally::Tallies;
use crate::tasks::{TaskAddress, Tasks};
use crate::translations::Translations;
use crate::window::{KERNEL, MARKS, Place, ProcessIndex, SectionIndex, WINDOW_BYTES};
use machine::{CpuId, Machine};
use std::collections::BTreeMap;
use std::mem;

/// The access before, in an innermost cache: when the next one is to the same virtual line, nothing needs looking up. What the
/// line stands for can't have changed without the kernel's using others.
#[derive(Clone, Copy, Debug)]
struct Memo {
    cpu: CpuId,
    virtual_line: u64,
    whose: Option<ProcessIndex>,
    /// Whether a store needs nothing more either.
    is_sole: bool,
}

impl Memo {
    const NONE: Self = Self { cpu: CpuId(u32::MAX), virtual_line: u64::MAX, whose: None, is_sole: false };
}

/// The last access to a place of an innermost cache. Lines of one set have one place, also in the caches that a process would have
/// alone. So whoever uses the same line again, in the same run, finds it first in its set in both, and nothing changes but the count.
#[derive(Clone, Copy, Debug)]
struct Last {
    virtual_line: u64,
    line: Line,
    whose: Option<ProcessIndex>,
    /// Number of the run of its CPU.
    run: u32,
    /// Whether a store needs nothing more either.
    is_sole: bool,
}

impl Last {
    const NONE: Self = Self { virtual_line: u64::MAX, line: Line(u64::MAX), whose: None, run: 0, is_sole: false };
}

/// The most places of a cache: as many as the host's own caches hold easily.
const MOST_PLACES: usize = 1024;

/// A cache, and its way to memory, doesn't hold a line any more, or not alone.
fn forget(memos: &mut [Memo], last: &mut [Box<[Last]>], cache: CacheIndex, line: Line) {
    memos[cache.at()] = Memo::NONE;
    let places = &mut last[cache.at()];
    let at = line.0 as usize & (places.len() - 1);
    if places[at].line == line {
        places[at] = Last::NONE;
    }
}

/// What was so before a process used a line.
#[derive(Clone, Copy, Debug)]
struct Past {
    process: ProcessIndex,
    /// The CPU on which it used the line last.
    used_on: Option<CpuId>,
    /// What it would miss if it were alone.
    missed_alone: Missed,
}

/// What a CPU accessed of sets that aren't modelled, since that was last counted to anybody.
#[derive(Clone, Copy, Debug, Default)]
struct Unmodelled {
    /// In user space, and in the kernel's half.
    accesses: [u64; 2],
    /// Those in the kernel's half when the CPU last accessed what is modelled.
    of_kernel_before: u64,
}

/// The caches of a guest machine, with what is remembered of its processes. Time is counted in accesses.
#[derive(Clone, Debug)]
pub struct Model {
    machine: Machine,
    hierarchy: Hierarchy,
    /// Which sets of it are modelled; it knows no others.
    sampling: Sampling,
    /// By CPU, what isn't.
    unmodelled: Vec<Unmodelled>,
    line_shift: u32,
    /// Whether accesses outside the windows are modelled.
    others: bool,
    /// Who the processes of interest are, where the kernel's switches say that and not the windows.
    tasks: Option<Tasks>,
    /// Where pages lie, where all of the kernel's accesses are heard of: with `others`.
    translations: Translations,
    now: u64,
    losses: Losses,
    processes: Vec<Process>,
    /// By CPU, the process of interest that ran there last, unless it has gone elsewhere.
    on_cpu: Vec<Option<ProcessIndex>>,
    /// By cache; used for the innermost.
    memos: Vec<Memo>,
    /// By cache, also used for the innermost, and place: a line's number modulo a power of two that divides all their numbers of sets.
    last: Vec<Box<[Last]>>,
    /// By CPU, the number of its run: another one whenever another process, or none, runs there.
    run: Vec<u32>,
    /// How many there were.
    runs: u32,
    section: SectionIndex,
    tallies: Tallies,
    /// Instructions when the section began.
    instructions: Vec<Instructions>,
    /// Sections that have ended.
    sections: BTreeMap<u32, Tallies>,
}

impl Model {
    /// The caches of `machine`, all empty. Without `others`, accesses outside the windows leave no trace.
    ///
    /// # Errors
    /// What the machine doesn't tell of its caches, or has in a way that isn't modelled.
    pub fn new(machine: Machine, others: bool) -> Result<Self, HierarchyError> {
        let hierarchy = Hierarchy::new(&machine)?;
        Ok(Self::of_hierarchy(machine, others, hierarchy, Sampling::all()))
    }

    fn of_hierarchy(machine: Machine, others: bool, hierarchy: Hierarchy, sampling: Sampling) -> Self {
        let places = (0..hierarchy.cpus() as u32).map(|cpu| 1 << hierarchy.innermost_sets(CpuId(cpu)).trailing_zeros());
        let places = places.min().unwrap_or(1).min(MOST_PLACES);
        let tallies = Tallies::new(&hierarchy.kinds, hierarchy.cpus());
        Self {
            sampling,
            unmodelled: vec![Unmodelled::default(); hierarchy.cpus()],
            line_shift: hierarchy.line_bytes.trailing_zeros(),
            others,
            tasks: None,
            translations: Translations::new(hierarchy.cpus()),
            now: 0,
            losses: Losses::new(hierarchy.cache_kinds().into_iter().map(|kind| tallies.explains(kind))),
            processes: Vec::new(),
            on_cpu: vec![None; hierarchy.cpus()],
            memos: vec![Memo::NONE; hierarchy.caches()],
            last: vec![vec![Last::NONE; places].into(); hierarchy.caches()],
            run: vec![0; hierarchy.cpus()],
            runs: 0,
            section: SectionIndex::OUTSIDE,
            tallies,
            instructions: vec![Instructions::default(); hierarchy.cpus()],
            sections: BTreeMap::new(),
            machine,
            hierarchy,
        }
    }

    /// The same for any programs: the processes of interest are the tasks that are born in a section, whatever of user space they use.
    /// Where there are more, a part of the sets is modelled that leaves caches beyond the innermost `least_sets` or somewhat more, and
    /// each miss stands for as many as there are parts.
    ///
    /// # Errors
    /// As for [`Model::new`].
    pub fn of_tasks(machine: Machine, least_sets: u64) -> Result<Self, HierarchyError> {
        let mut hierarchy = Hierarchy::new(&machine)?;
        let sampling = hierarchy.sample(least_sets);
        let model = Self::of_hierarchy(machine, true, hierarchy, sampling);
        Ok(Self { tasks: Some(Tasks::new(model.cpus())), ..model })
    }

    /// The kernel lets a CPU run a task; nothing changes where [tasks](Model::of_tasks) aren't of interest.
    pub fn switch(&mut self, cpu: CpuId, task: TaskAddress) {
        let Some(tasks) = &mut self.tasks else { return };
        let process = tasks.switch(cpu, task, self.section != SectionIndex::OUTSIDE);
        if self.on_cpu[cpu.0 as usize] == process {
            return;
        }
        // The access before is of the run that ends here, and none of the next one.
        self.now += 1;
        self.count_unmodelled(cpu);
        if let Some(before) = self.on_cpu[cpu.0 as usize].take() {
            self.processes[before.at()].end_run(self.now);
        }
        self.end_shortcuts(cpu);
        if let Some(process) = process {
            self.begin_run(process, cpu);
        }
    }

    /// Another process runs on a CPU, or none: what was used before was used in another run.
    fn end_shortcuts(&mut self, cpu: CpuId) {
        self.memos[self.hierarchy.innermost(cpu).at()] = Memo::NONE;
        self.runs += 1;
        self.run[cpu.0 as usize] = self.runs;
    }

    /// The kernel makes a task where another one was, which is gone for good.
    pub fn birth(&mut self, task: TaskAddress) {
        let gone = self.tasks.as_mut().and_then(|tasks| tasks.birth(task));
        if let Some(process) = gone.and_then(|process| self.processes.get_mut(process.at())) {
            process.forget();
        }
    }

    /// Whether a store there may make a task: most can't.
    #[inline]
    pub fn may_be_task(&self, task: TaskAddress) -> bool {
        self.tasks.as_ref().is_some_and(|tasks| tasks.may_be_one(task))
    }

    /// Whether an access in a section is one of sets that aren't modelled, and counted by this.
    ///
    /// This is asked of every access, and cheap: most of what is accessed goes no further.
    #[inline]
    pub fn is_unmodelled(&mut self, cpu: CpuId, address: u64) -> bool {
        let is_mark = address.wrapping_sub(MARKS) < WINDOW_BYTES;
        if self.sampling.has(address >> self.line_shift) || is_mark {
            return false;
        }
        self.unmodelled[cpu.0 as usize].accesses[usize::from(address >= KERNEL)] += 1;
        true
    }

    /// Counts to whoever runs on a CPU what it accessed of sets that aren't modelled.
    fn count_unmodelled(&mut self, cpu: CpuId) {
        let Unmodelled { accesses: [user, kernel], .. } = mem::take(&mut self.unmodelled[cpu.0 as usize]);
        self.tallies.tally(self.on_cpu[cpu.0 as usize]).accesses += user;
        self.tallies.tally(None).accesses += kernel;
        self.translations.kernel_ran(cpu);
        self.memos[self.hierarchy.innermost(cpu).at()] = Memo::NONE;
    }

    /// How many CPUs it has, numbered from 0.
    pub fn cpus(&self) -> usize {
        self.hierarchy.cpus()
    }

    /// A CPU loads from, or stores to, a virtual address. `physical` is asked for the physical one only when it's needed; none
    /// stands for a device, which no cache holds. An access belongs to the line of its first byte.
    ///
    /// Returns the section that a store marks.
    #[inline]
    pub fn access(
        &mut self,
        cpu: CpuId,
        address: u64,
        is_store: bool,
        physical: impl FnOnce() -> Option<u64>,
    ) -> Option<SectionIndex> {
        if self.section == SectionIndex::OUTSIDE {
            return if is_store { Place::at(address).marked() } else { None };
        }
        let unmodelled = &mut self.unmodelled[cpu.0 as usize];
        if unmodelled.accesses[1] != unmodelled.of_kernel_before {
            unmodelled.of_kernel_before = unmodelled.accesses[1];
            self.translations.kernel_ran(cpu);
            self.memos[self.hierarchy.innermost(cpu).at()] = Memo::NONE;
        }
        let virtual_line = address >> self.line_shift;
        let memo = self.memos[self.hierarchy.innermost(cpu).at()];
        if memo.virtual_line == virtual_line && memo.cpu == cpu && (memo.is_sole || !is_store) {
            self.now += 1;
            self.tallies.tally(memo.whose).accesses += 1;
            return None;
        }
        self.access_line(cpu, address, is_store, physical)
    }

    /// The same in a section, where it isn't the line of the access before.
    #[inline(never)]
    fn access_line(
        &mut self,
        cpu: CpuId,
        address: u64,
        is_store: bool,
        physical: impl FnOnce() -> Option<u64>,
    ) -> Option<SectionIndex> {
        let virtual_line = address >> self.line_shift;
        let mut place = Place::at(address);
        if self.tasks.is_some() && place.marked().is_none() {
            place = if address < KERNEL { Place::User } else { Place::Other };
        }
        match place {
            Place::Mark(section) => return is_store.then_some(section),
            Place::Other if !self.others => return None,
            _ => {}
        }
        let physical = if self.others { self.translations.physical(cpu, address, physical) } else { physical() };
        // An access of sets that aren't modelled was counted before, or is one of whom that wasn't asked.
        let Some(line) = self.sampling.line(physical? >> self.line_shift) else {
            self.unmodelled[cpu.0 as usize].accesses[usize::from(address >= KERNEL)] += 1;
            return None;
        };
        self.now += 1;
        let whose = self.user(cpu, place);
        let innermost = self.hierarchy.innermost(cpu).at();
        let run = self.run[cpu.0 as usize];
        let places = &self.last[innermost];
        let at = line.0 as usize & (places.len() - 1);
        let last = places[at];
        let is_again = (last.line, last.virtual_line, last.whose, last.run) == (line, virtual_line, whose, run);
        let is_sole = if is_again && (last.is_sole || !is_store) {
            self.tallies.tally(whose).accesses += 1;
            last.is_sole
        } else {
            self.use_line(cpu, place, line, whose, is_store);
            let is_sole = self.hierarchy.is_sole(cpu, line);
            self.last[innermost][at] = Last { virtual_line, line, whose, run, is_sole };
            is_sole
        };
        self.memos[innermost] = Memo { cpu, virtual_line, whose, is_sole };
        None
    }

    /// The process of interest that uses a place by a CPU.
    fn user(&mut self, cpu: CpuId, place: Place) -> Option<ProcessIndex> {
        if let Place::Own(process, _) = place
            && self.tasks.is_none()
            && self.on_cpu[cpu.0 as usize] != Some(process)
        {
            self.begin_run(process, cpu);
        }
        match place {
            Place::Own(..) | Place::Shared(..) | Place::User => self.on_cpu[cpu.0 as usize],
            _ => None,
        }
    }

    /// A line is used, and counted.
    fn use_line(&mut self, cpu: CpuId, place: Place, line: Line, process: Option<ProcessIndex>, is_store: bool) {
        let past = process.map(|process| self.remember(process, place, cpu, line));
        let missed = self.hierarchy.look_up(cpu, line);
        self.tallies.tally(process).accesses += 1;
        if missed != Missed::NONE {
            for level in missed.levels() {
                let kind = self.hierarchy.kinds[level.at()];
                *self.tallies.tally(process).misses.entry(kind).or_default() += 1;
                if let Some(past) = past.filter(|_| self.tallies.explains(kind)) {
                    let cause = self.cause(past, cpu, level, line);
                    *cause(self.tallies.tally(process).causes.entry(kind).or_default()) += 1;
                }
            }
            self.hierarchy.load(cpu, line, missed, |event| match event {
                Event::Displaced(cache, line) => {
                    self.losses.lost(cache, line, Loss::Displaced { time: self.now, by: process });
                }
                Event::Shared(cache) => forget(&mut self.memos, &mut self.last, cache, line),
            });
        }
        if is_store {
            self.hierarchy.store(cpu, line, |cache| {
                forget(&mut self.memos, &mut self.last, cache, line);
                self.losses.lost(cache, line, Loss::Invalidated);
            });
        }
    }

    /// A process is seen on a CPU where it wasn't.
    fn begin_run(&mut self, process: ProcessIndex, cpu: CpuId) {
        if process.at() >= self.processes.len() {
            self.processes.resize_with(process.at() + 1, Process::default);
        }
        if let Some(before) = self.on_cpu[cpu.0 as usize].replace(process) {
            self.processes[before.at()].end_run(self.now);
        }
        if let Some(left) = self.processes[process.at()].cpu() {
            self.count_unmodelled(left);
        }
        let this = &mut self.processes[process.at()];
        let last_cpu = this.last_cpu();
        if let Some(left) = this.cpu() {
            this.end_run(self.now);
            self.on_cpu[left.0 as usize] = None;
            self.end_shortcuts(left);
        }
        self.end_shortcuts(cpu);
        let this = &mut self.processes[process.at()];
        this.begin_run(cpu, self.now);
        this.alone.get_or_insert_with(|| self.hierarchy.alone(cpu));
        let shared = last_cpu.filter(|&last| last != cpu).and_then(|last| self.machine.sharing(last, cpu));
        let tally = self.tallies.tally(Some(process));
        tally.runs += 1;
        if let Some(level) = shared {
            *tally.migrations.entry(level).or_default() += 1;
        }
    }

    /// Notes that a process uses a line of a window, and returns what was so before.
    #[inline]
    fn remember(&mut self, index: ProcessIndex, place: Place, cpu: CpuId, line: Line) -> Past {
        let process = &mut self.processes[index.at()];
        let missed_alone = process.alone.as_mut().map_or(Missed::NONE, |alone| alone.access(line));
        let memory = match place {
            Place::Shared(job, offset) => process.shared[job.0 as usize].at(offset >> self.line_shift),
            Place::Own(_, offset) => process.own.at(offset >> self.line_shift),
            // Where it lies in memory: virtual memory of whole programs is too large.
            Place::User => process.own.at(line.0),
            Place::Mark(_) | Place::Other => return Past { process: index, used_on: None, missed_alone },
        };
        let used_on = memory.cpu_for(line);
        if used_on != Some(cpu) {
            *memory = Use::new(cpu, line);
            if used_on.is_none() {
                self.losses.watch(line);
            }
        }
        Past { process: index, used_on, missed_alone }
    }

    /// Why a process misses a line in the cache of a level: the crate's documentation has the rule.
    fn cause(&self, past: Past, cpu: CpuId, level: LevelIndex, line: Line) -> fn(&mut Causes) -> &mut u64 {
        let Some(used_on) = past.used_on else {
            return |causes| &mut causes.cold;
        };
        if past.missed_alone.has(level) {
            return |causes| &mut causes.steady;
        }
        let cache = self.hierarchy.on_path(used_on, level);
        if cache != self.hierarchy.on_path(cpu, level) && self.hierarchy.contains(cache, line) {
            return |causes| &mut causes.migration;
        }
        match self.losses.last(cache, line) {
            None => |causes| &mut causes.cold,
            Some(Loss::Invalidated) => |causes| &mut causes.invalidation,
            Some(Loss::Displaced { time, by }) => match self.processes[past.process.at()].cpu_at(time) {
                None => |causes| &mut causes.reload,
                Some(there) if self.hierarchy.on_path(there, level) != cache => |causes| &mut causes.migration,
                Some(_) if by == Some(past.process) => |causes| &mut causes.reload,
                Some(_) => |causes| &mut causes.contention,
            },
        }
    }

    /// From now on counts go to `section`; one that is begun again is added to. `instructions` is what each CPU has executed so
    /// far.
    ///
    /// With [`SectionIndex::OUTSIDE`] the processes are over: they are forgotten, since the next ones may have the same numbers,
    /// the caches are emptied, and nothing is modelled until the next section begins.
    pub fn begin_section(&mut self, section: SectionIndex, instructions: &[Instructions]) {
        (0..self.cpus() as u32).for_each(|cpu| self.count_unmodelled(CpuId(cpu)));
        for ((sum, before), &now) in self.tallies.instructions.iter_mut().zip(&mut self.instructions).zip(instructions)
        {
            *sum += now - mem::replace(before, now);
        }
        if self.section != SectionIndex::OUTSIDE {
            self.sections.insert(self.section.0, self.tallies.clone());
        }
        let nothing = || Tallies::new(&self.hierarchy.kinds, self.hierarchy.cpus());
        self.tallies = self.sections.get(&section.0).cloned().unwrap_or_else(nothing);
        self.memos.fill(Memo::NONE);
        self.last.iter_mut().for_each(|places| places.fill(Last::NONE));
        self.translations.forget();
        self.section = section;
        if section == SectionIndex::OUTSIDE {
            self.hierarchy.empty();
            self.losses.forget();
            self.processes.clear();
            self.on_cpu.fill(None);
            self.tasks.iter_mut().for_each(Tasks::end_section);
        }
    }

    /// What was counted in the sections that have ended.
    pub fn report(&self) -> Report {
        Report {
            machine: self.machine.name().to_owned(),
            caches: self.hierarchy.builds.clone(),
            line_bytes: self.hierarchy.line_bytes,
            assumptions: self.hierarchy.assumptions.iter().cloned().chain(self.sampling.sentence()).collect(),
            others: self.others,
            sections: self
                .sections
                .iter()
                .map(|(&section, tallies)| (section, tallies.section(self.sampling.one_of())))
                .collect(),
        }
    }
}
