//! The model against one that keeps everything that ever happened and searches it: lists of lines instead of frames with
//! notes, no shortcuts for repeated accesses, no memory of uses, losses and runs but the log itself.

use crate::guest::{self, Data, Guest, LINE};
use machine::{CpuId, Kind, Level, Machine};
use misses::report::{Causes, Counts, OtherCounts, Section};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// An access as it happened.
#[derive(Clone, Copy, Debug)]
struct Access {
    cpu: u32,
    data: Data,
    line: u64,
    is_store: bool,
}

struct NaiveCache {
    kind: Kind,
    cpus: Vec<u32>,
    ways: usize,
    /// Each from the line used last.
    sets: Vec<Vec<u64>>,
}

impl NaiveCache {
    fn set(&mut self, line: u64) -> &mut Vec<u64> {
        let sets = self.sets.len() as u64;
        &mut self.sets[(line % sets) as usize]
    }

    fn hit(&mut self, line: u64) -> bool {
        let set = self.set(line);
        let position = set.iter().position(|&other| other == line);
        if let Some(position) = position {
            let line = set.remove(position);
            set.insert(0, line);
        }
        position.is_some()
    }

    fn load(&mut self, line: u64) -> Option<u64> {
        let ways = self.ways;
        let set = self.set(line);
        set.insert(0, line);
        if set.len() > ways { set.pop() } else { None }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Displaced(Option<u32>),
    Invalidated,
}

struct Oracle {
    machine: Machine,
    caches: Vec<NaiveCache>,
    /// When, which cache, which line, how.
    losses: Vec<(usize, usize, u64, Fate)>,
    log: Vec<Access>,
    /// After each access, the CPU of each process that runs.
    running: Vec<HashMap<u32, u32>>,
    /// By process, the caches around the CPU where it first ran, for it alone.
    alone: HashMap<u32, Vec<NaiveCache>>,
    section: Section,
}

impl Oracle {
    fn new(machine: Machine) -> Self {
        let caches = (machine.objects())
            .filter(|(_, object)| matches!(object.kind, Kind::Cache(_)))
            .map(|(index, object)| {
                let cache = object.cache.unwrap();
                let Some(machine::tree::Associativity::Ways(ways)) = cache.associativity else { panic!("no ways") };
                let lines = cache.size_bytes.unwrap().get() / LINE;
                NaiveCache {
                    kind: object.kind,
                    cpus: machine.cpus_of(index).iter().map(|cpu| cpu.0).collect(),
                    ways: ways as usize,
                    sets: vec![Vec::new(); (lines / u64::from(ways)) as usize],
                }
            })
            .collect();
        let cpus = machine.pus().len();
        let mut oracle = Self {
            machine,
            caches,
            losses: Vec::new(),
            log: Vec::new(),
            running: Vec::new(),
            alone: HashMap::new(),
            section: Section::default(),
        };
        let Counts { misses, causes, .. } = oracle.nothing();
        oracle.section.instructions = vec![Default::default(); cpus];
        oracle.section.other.misses = misses.clone();
        (oracle.section.all.misses, oracle.section.all.causes) = (misses, causes);
        oracle
    }

    fn levels(&self) -> Vec<Kind> {
        let mut levels: Vec<Kind> = self.caches.iter().map(|cache| cache.kind).collect();
        levels.sort();
        levels.dedup();
        levels
    }

    /// Zeros for all levels.
    fn nothing(&self) -> Counts {
        let levels = self.levels();
        let explained = levels.iter().filter(|&&kind| kind != Kind::Cache(1) || levels.len() == 1);
        Counts {
            causes: explained.map(|&kind| (kind, Causes::default())).collect(),
            misses: levels.iter().map(|&kind| (kind, 0)).collect(),
            ..Counts::default()
        }
    }

    fn cache(&self, cpu: u32, kind: Kind) -> usize {
        self.caches.iter().position(|cache| cache.kind == kind && cache.cpus.contains(&cpu)).unwrap()
    }

    /// Notes an access, and who runs where after it.
    fn note(&mut self, access: Access) {
        let mut running = self.running.last().cloned().unwrap_or_default();
        if let Data::Own(process, _) = access.data {
            running.retain(|&other, &mut cpu| other == process || cpu != access.cpu);
            running.insert(process, access.cpu);
        }
        self.log.push(access);
        self.running.push(running);
    }

    fn user(&self, time: usize) -> Option<u32> {
        let access = self.log[time];
        match access.data {
            Data::Own(process, _) => Some(process),
            Data::Shared(..) => {
                self.running[time].iter().find(|&(_, &cpu)| cpu == access.cpu).map(|(&process, _)| process)
            }
            Data::Other(_) => None,
        }
    }

    /// The levels that miss an access when the process has them for itself.
    fn misses_alone(&mut self, process: u32, access: Access) -> Vec<Kind> {
        let around: Vec<usize> = self.levels().into_iter().map(|kind| self.cache(access.cpu, kind)).collect();
        let empty = |&cache: &usize| {
            let NaiveCache { kind, ways, ref sets, .. } = self.caches[cache];
            NaiveCache { kind, cpus: Vec::new(), ways, sets: vec![Vec::new(); sets.len()] }
        };
        let caches = self.alone.entry(process).or_insert_with(|| around.iter().map(empty).collect());
        let missed = caches.iter_mut().position(|cache| cache.hit(access.line)).unwrap_or(caches.len());
        for cache in &mut caches[..missed] {
            cache.load(access.line);
        }
        caches[..missed].iter().map(|cache| cache.kind).collect()
    }

    fn access(&mut self, access: Access) {
        let time = self.log.len();
        let before = self.running.last().cloned().unwrap_or_default();
        self.note(access);
        let user = self.user(time);
        let mut counts = Counts { accesses: 1, ..self.nothing() };
        if let Data::Own(process, _) = access.data
            && before.get(&process) != Some(&access.cpu)
        {
            counts.runs = 1;
            let last = self.log[..time].iter().rev().find(|a| matches!(a.data, Data::Own(p, _) if p == process));
            if let Some(last) = last.filter(|last| last.cpu != access.cpu) {
                let level: Level = self.machine.sharing(CpuId(last.cpu), CpuId(access.cpu)).unwrap();
                counts.migrations.insert(level, 1);
            }
        }
        let missed_alone = user.map(|process| self.misses_alone(process, access)).unwrap_or_default();
        let mut loads = Vec::new();
        for kind in self.levels() {
            let cache = self.cache(access.cpu, kind);
            if self.caches[cache].hit(access.line) {
                break;
            }
            loads.push(cache);
            counts.misses.insert(kind, 1);
            if let (Some(process), Some(causes)) = (user, counts.causes.get_mut(&kind)) {
                *causes = self.cause(process, kind, time, missed_alone.contains(&kind));
            }
        }
        for cache in loads {
            if let Some(lost) = self.caches[cache].load(access.line) {
                self.losses.push((time, cache, lost, Fate::Displaced(user)));
            }
        }
        if access.is_store {
            for (index, cache) in self.caches.iter_mut().enumerate() {
                if !cache.cpus.contains(&access.cpu) && cache.set(access.line).contains(&access.line) {
                    cache.set(access.line).retain(|&line| line != access.line);
                    self.losses.push((time, index, access.line, Fate::Invalidated));
                }
            }
        }
        match user {
            Some(process) => {
                self.section.all += &counts;
                *self.section.processes.entry(process).or_default() += &counts;
            }
            None => {
                let OtherCounts { accesses, misses } = &mut self.section.other;
                *accesses += 1;
                counts.misses.into_iter().for_each(|(kind, more)| *misses.entry(kind).or_default() += more);
            }
        }
    }

    /// Why `process` misses the line of the access at `time`: the table in the crate's documentation, row by row.
    fn cause(&self, process: u32, kind: Kind, time: usize, is_missed_alone: bool) -> Causes {
        let access = self.log[time];
        let one = |set: fn(&mut Causes) -> &mut u64| {
            let mut causes = Causes::default();
            *set(&mut causes) = 1;
            causes
        };
        let last_use = (0..time).rev().find(|&t| self.log[t].data == access.data && self.user(t) == Some(process));
        let Some(last_use) = last_use.filter(|&t| self.log[t].line == access.line) else {
            return one(|causes| &mut causes.cold);
        };
        if is_missed_alone {
            return one(|causes| &mut causes.steady);
        }
        let first_use = (0..time).find(|&t| self.log[t].line == access.line && self.user(t).is_some()).unwrap();
        let (there, here) = (self.cache(self.log[last_use].cpu, kind), self.cache(access.cpu, kind));
        let held = &self.caches[there];
        if there != here && held.sets[(access.line % held.sets.len() as u64) as usize].contains(&access.line) {
            return one(|causes| &mut causes.migration);
        }
        let loss = (self.losses.iter().rev())
            .find(|&&(when, cache, line, _)| cache == there && line == access.line && when >= first_use);
        match loss {
            None => one(|causes| &mut causes.cold),
            Some((_, _, _, Fate::Invalidated)) => one(|causes| &mut causes.invalidation),
            Some(&(when, _, _, Fate::Displaced(by))) => match self.running[when].get(&process) {
                None => one(|causes| &mut causes.reload),
                Some(cpu) if !held.cpus.contains(cpu) => one(|causes| &mut causes.migration),
                Some(_) if by == Some(process) => one(|causes| &mut causes.reload),
                Some(_) => one(|causes| &mut causes.contention),
            },
        }
    }
}

/// What happens on a CPU for a while.
#[derive(Clone, Debug)]
struct Burst {
    cpu: u32,
    process: u32,
    /// Which data, and whether it's a store. Small numbers repeat lines; that takes the shortcut.
    accesses: Vec<(u8, u64, bool)>,
    /// Whether the process got other memory before.
    is_remapped: bool,
}

fn bursts(processes: u32) -> impl Strategy<Value = Vec<Burst>> {
    let access = (0..10u8, prop_oneof![0..4u64, 0..40u64], prop::bool::weighted(0.3));
    let burst = (0..8u32, 0..processes, prop::collection::vec(access, 1..40), prop::bool::weighted(0.05));
    let burst = burst.prop_map(|(cpu, process, accesses, is_remapped)| Burst { cpu, process, accesses, is_remapped });
    prop::collection::vec(burst, 1..24)
}

/// The accesses of bursts on a machine of so many CPUs.
fn accesses(bursts: &[Burst], cpus: u32) -> Vec<Access> {
    // On a large machine 32 apart, which makes the caches of some CPUs 64 apart.
    let cpu_of = |cpu: u32| if cpus > 8 { cpu * 32 % cpus } else { cpu % cpus };
    let used: BTreeSet<u32> = bursts.iter().map(|burst| cpu_of(burst.cpu)).collect();
    let mut salts: BTreeMap<u32, u64> = BTreeMap::new();
    let mut accesses = Vec::new();
    for burst in bursts {
        let salt = salts.entry(burst.process).or_default();
        if burst.is_remapped {
            // Only the kernel can do that, and it leaves traces: by the CPU that does it, and by all others, which it interrupts.
            *salt += 0x1000;
            let data = Data::Other(0);
            accesses.extend(used.iter().map(|&cpu| Access { cpu, data, line: data.line(), is_store: true }));
        }
        for &(which, line, is_store) in &burst.accesses {
            let (data, salt) = match which {
                0..6 => (Data::Own(burst.process, line), *salt),
                6..8 => (Data::Shared(burst.process % 2, line), 0),
                _ => (Data::Other(line), 0),
            };
            accesses.push(Access { cpu: cpu_of(burst.cpu), data, line: data.line() + salt, is_store });
        }
    }
    accesses
}

fn compare(machine: Machine, bursts: &[Burst]) -> Section {
    let cpus = machine.pus().len() as u32;
    let (mut guest, mut oracle) = (Guest::new(machine.clone()), Oracle::new(machine));
    for access in accesses(bursts, cpus) {
        oracle.access(access);
        let physical = || Some(access.line * LINE + 5);
        guest.model.access(CpuId(access.cpu), access.data.address() + 5, access.is_store, physical);
    }
    let section = guest.end();
    assert_eq!(section, oracle.section);
    section
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn counts_are_those_of_a_model_that_remembers_everything(bursts in bursts(4), machine in 0..5usize) {
        let machines = [guest::two_by_four, guest::dies_with_smt, guest::pairs, guest::one_level, guest::many];
        let section = compare(machines[machine](), &bursts);
        for (kind, causes) in &section.all.causes {
            prop_assert_eq!(causes.total(), section.all.misses[kind]);
        }
    }

    #[test]
    fn who_is_alone_and_stays_has_its_own_misses_only(mut bursts in bursts(1)) {
        for burst in &mut bursts {
            (burst.cpu, burst.is_remapped) = (3, false);
            burst.accesses.retain(|&(which, ..)| which < 8);
        }
        // Nobody is known to run before the first access to data of its own; what is shared counts as another's until then.
        bursts.insert(0, Burst { cpu: 3, process: 0, accesses: vec![(0, 0, false)], is_remapped: false });
        let section = compare(guest::two_by_four(), &bursts);
        for causes in section.all.causes.values() {
            prop_assert_eq!(causes.cold + causes.steady, causes.total());
        }
    }

    #[test]
    fn who_fits_has_no_steady_misses(mut bursts in bursts(4)) {
        for burst in &mut bursts {
            burst.is_remapped = false;
            // 16 lines side by side fill an L2.
            for (which, line, _) in &mut burst.accesses {
                *line %= 16;
                *which = if *which < 8 { 0 } else { 9 };
            }
        }
        let section = compare(guest::two_by_four(), &bursts);
        prop_assert!(section.all.causes.values().all(|causes| causes.steady == 0), "{:?}", section.all);
    }

    #[test]
    fn nobody_who_stays_misses_by_moving(mut bursts in bursts(8)) {
        for burst in &mut bursts {
            burst.cpu = burst.process;
        }
        let section = compare(guest::two_by_four(), &bursts);
        prop_assert!(section.all.migrations.is_empty());
        prop_assert!(section.all.causes.values().all(|causes| causes.migration == 0), "{:?}", section.all);
    }
}
