//! Where the memory of a program was, and in which pages: read back before its processes end.
//!
//! Each process is read where it is about to end, and all of them are summed. What a process had before it became another program is
//! gone and doesn't count; what processes still share after a fork counts in each, but memory that they share by name counts once.

use crate::huge_pages::HugePages;
use crate::memory::{MemoryPolicy, NodeSet};
use crate::{Launch, Observe};
use machine::CpuSet;
use machine::linux::memory::{self, Backing, NodeMemory};
use machine::linux::{Pid, Tid};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

/// What was seen of a program's memory, before it ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryObservation {
    /// How many of its processes were read back.
    pub processes: u32,
    /// Its own memory and what it shares with other processes, in bytes by NUMA node.
    pub bytes_by_node: BTreeMap<u32, u64>,
    /// The same of files that it maps, which may have been in memory before it began: no policy of its moves them.
    pub file_bytes_by_node: BTreeMap<u32, u64>,
    /// What of its memory is in transparent huge pages, in bytes.
    pub huge_bytes: u64,
    /// What is in huge pages that the program asked for by hugetlbfs, in bytes; no setting of ours is about them.
    pub hugetlb_bytes: u64,
    /// The share of `bytes_by_node` on nodes that have none of the CPUs of the placement (0.01 = 1 %); none without a placement.
    ///
    /// Remote is what is far from *every* thread. Where threads have CPUs of all nodes it is 0, although a thread may well use
    /// memory of a node that is another thread's; which thread uses which page the kernel doesn't tell.
    pub remote_share: Option<f64>,
    /// The shares of `bytes_by_node` under another policy than the one asked for, by what the kernel calls it (`bind:1`): the
    /// program has set that itself.
    pub own_policy_shares: BTreeMap<String, f64>,
    /// Whether what was asked for has been followed; none where nothing was, or pages can't tell, as of `local`.
    pub followed: Option<bool>,
    /// How long it took to read all of this, in seconds. What the command itself was stopped for it isn't in its time.
    pub read_s: f64,
}

/// Shares of memory that are no matter: what is there before a program's first instruction, for one (0.01 = 1 %).
const NO_MATTER: f64 = 0.01;
/// How far from its share a node may be, of those in turn; less memory than this can't tell.
const UNEVEN: f64 = 0.05;
const ENOUGH_BYTES: u64 = 4 << 20;
/// A node is full that has no more free than what the kernel wants to be, and this share of it all.
const FULL: f64 = 0.02;

/// Between looks at processes that aren't stopped: at least this, and so many times as long as a look takes.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);
const LOOKS_APART: u32 = 50;

/// Bytes by node.
type Bytes = BTreeMap<u32, u64>;

fn add(to: &mut Bytes, bytes: &Bytes) {
    for (node, bytes) in bytes {
        *to.entry(*node).or_default() += bytes;
    }
}

fn sum(bytes: &Bytes) -> u64 {
    bytes.values().sum()
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// The memory of processes.
#[derive(Clone, Debug, Default)]
struct Residence {
    processes: u32,
    /// Their own, by policy.
    own: BTreeMap<String, Bytes>,
    /// Shared, by address and name: there may be several of one name, and processes mostly have them at one address.
    shared: BTreeMap<(u64, String), (String, Bytes)>,
    files: Bytes,
    huge_bytes: u64,
    hugetlb_bytes: u64,
}

impl Residence {
    /// That of a process now, by one of its threads; none when it has none, or isn't ours to look at.
    fn of(pid: Pid, tid: Tid) -> Option<Self> {
        let mut seen = Self { processes: 1, ..Self::default() };
        for mapping in pid.mappings(tid)? {
            if mapping.is_hugetlb {
                seen.hugetlb_bytes += sum(&mapping.bytes_by_node);
            }
            match mapping.backing {
                Backing::Anonymous => add(seen.own.entry(mapping.policy).or_default(), &mapping.bytes_by_node),
                Backing::Shared(name) => {
                    seen.shared.insert((mapping.address, name), (mapping.policy, mapping.bytes_by_node));
                }
                Backing::File => add(&mut seen.files, &mapping.bytes_by_node),
            }
        }
        seen.huge_bytes = pid.huge_page_bytes(tid).unwrap_or(0);
        Some(seen)
    }

    fn add(&mut self, other: Self) {
        self.processes += other.processes;
        for (policy, bytes) in &other.own {
            add(self.own.entry(policy.clone()).or_default(), bytes);
        }
        for (key, seen) in other.shared {
            let most = self.shared.entry(key).or_default();
            if sum(&seen.1) > sum(&most.1) {
                *most = seen;
            }
        }
        add(&mut self.files, &other.files);
        self.huge_bytes += other.huge_bytes;
        self.hugetlb_bytes += other.hugetlb_bytes;
    }

    /// Its own and shared memory by policy.
    fn by_policy(&self) -> BTreeMap<String, Bytes> {
        let mut all = self.own.clone();
        for (policy, bytes) in self.shared.values() {
            add(all.entry(policy.clone()).or_default(), bytes);
        }
        all
    }
}

/// Reads back the memory of a program's processes.
pub(crate) struct MemoryReader {
    policy: MemoryPolicy,
    huge_pages: HugePages,
    /// What the kernel calls the policy, if that can be known.
    policy_text: Option<String>,
    /// The nodes that memory is to come from; empty for any.
    nodes: NodeSet,
    /// How many pages each of them gives in turn.
    weights: BTreeMap<u32, u32>,
    /// The nodes that the CPUs of the placement are of.
    local: Option<BTreeSet<u32>>,
    /// Nodes that were full when a process was read.
    full: BTreeMap<u32, NodeMemory>,
    /// What was last seen of processes that may go on.
    living: HashMap<Pid, Residence>,
    ended: Residence,
    /// The last that was read where it ends.
    last_ended: Option<Pid>,
    read: Duration,
    next_look: Instant,
}

impl MemoryReader {
    /// One for a launch that asks for it, by a policy or as such. `cpus` are those of its placement.
    pub(crate) fn new(launch: &Launch, cpus: Option<&CpuSet>) -> Option<Self> {
        let (policy, huge_pages) = (&launch.conditions.memory, launch.conditions.huge_pages);
        let is_asked = launch.read_memory || *policy != MemoryPolicy::Default || huge_pages != HugePages::Default;
        is_asked.then(|| Self {
            policy_text: policy.kernel_text(),
            nodes: policy.nodes(),
            weights: match policy {
                MemoryPolicy::WeightedInterleave => memory::interleave_weights(),
                _ => BTreeMap::new(),
            },
            local: cpus.map(nodes_of),
            policy: policy.clone(),
            huge_pages,
            full: BTreeMap::new(),
            living: HashMap::new(),
            ended: Residence::default(),
            last_ended: None,
            read: Duration::ZERO,
            next_look: Instant::now() + BETWEEN_LOOKS,
        })
    }

    /// Reads a process that is stopped where it ends; how long that took.
    pub(crate) fn read_at_end(&mut self, pid: Pid) -> Duration {
        let began = Instant::now();
        self.living.remove(&pid);
        self.last_ended = Some(pid);
        if let Some(seen) = self.residence(pid, pid.main_thread()) {
            self.ended.add(seen);
        }
        let took = began.elapsed();
        self.read += took;
        took
    }

    /// Reads a process that goes on, by one of its threads; how long that took. One that was just read where it ends doesn't go on.
    pub(crate) fn read_living(&mut self, pid: Pid, tid: Tid) -> Duration {
        if self.last_ended == Some(pid) {
            return Duration::ZERO;
        }
        let began = Instant::now();
        if let Some(seen) = self.residence(pid, tid) {
            self.living.insert(pid, seen);
        }
        let took = began.elapsed();
        self.read += took;
        took
    }

    /// Reads all of them, unless it is too early for that.
    pub(crate) fn look(&mut self, processes: impl FnOnce() -> Vec<Pid>) {
        let began = Instant::now();
        if began >= self.next_look {
            for pid in processes() {
                self.read_living(pid, pid.main_thread());
            }
            self.next_look = began + BETWEEN_LOOKS + LOOKS_APART * began.elapsed();
        }
    }

    fn residence(&mut self, pid: Pid, tid: Tid) -> Option<Residence> {
        for node in &self.nodes.0 {
            let is_full = |memory: &NodeMemory| {
                share(memory.free_bytes.saturating_sub(memory.kept_bytes), memory.total_bytes) < FULL
            };
            if let Some(memory) = memory::node_memory(*node).filter(is_full) {
                self.full.insert(*node, memory);
            }
        }
        Residence::of(pid, tid)
    }

    /// What was seen, and what the reader should know of it.
    pub(crate) fn finish(mut self, observe: Observe) -> (MemoryObservation, Vec<String>) {
        let living: Vec<Residence> = self.living.drain().map(|(_, seen)| seen).collect();
        living.into_iter().for_each(|seen| self.ended.add(seen));
        let by_policy = self.ended.by_policy();
        let mut bytes_by_node = Bytes::new();
        by_policy.values().for_each(|bytes| add(&mut bytes_by_node, bytes));
        let total = sum(&bytes_by_node);
        let remote = |local: &BTreeSet<u32>| {
            let far = bytes_by_node.iter().filter(|(node, _)| !local.contains(node)).map(|(_, bytes)| bytes);
            share(far.sum(), total)
        };
        let is_asked = |policy: &str| self.policy_text.as_deref().is_none_or(|asked| asked == policy);
        let others = by_policy.iter().filter(|(policy, bytes)| !is_asked(policy) && sum(bytes) > 0);
        let own_policy_shares: BTreeMap<String, f64> =
            others.map(|(policy, bytes)| (policy.clone(), share(sum(bytes), total))).collect();
        let mut asked = Bytes::new();
        by_policy.iter().filter(|(policy, _)| is_asked(policy)).for_each(|(_, bytes)| add(&mut asked, bytes));

        let mut notes = Vec::new();
        if self.ended.processes == 0 {
            notes.push(match observe {
                Observe::Trace => {
                    "its memory was not read back: the kernel told of no process of it (numa_maps)".into()
                }
                Observe::Poll => "its memory was not read back: it ended before it was looked at".into(),
                Observe::End => "its memory was not read back: only its end was watched".into(),
            });
        }
        notes.extend(own_policies_note(&own_policy_shares));
        notes.extend(self.misplaced(&asked));
        notes.extend(self.huge_pages_note(total));
        let can_tell = match self.policy {
            MemoryPolicy::Default => self.huge_pages != HugePages::Default,
            // Which CPU touched a page first isn't known: only what others than the kernel did about it is.
            MemoryPolicy::Local => !notes.is_empty(),
            _ => true,
        };
        let observation = MemoryObservation {
            processes: self.ended.processes,
            remote_share: self.local.as_ref().filter(|_| total > 0).map(remote),
            file_bytes_by_node: self.ended.files,
            huge_bytes: self.ended.huge_bytes,
            hugetlb_bytes: self.ended.hugetlb_bytes,
            own_policy_shares,
            followed: (can_tell && self.ended.processes > 0).then_some(notes.is_empty()),
            read_s: self.read.as_secs_f64(),
            bytes_by_node,
        };
        (observation, notes)
    }

    /// What of the memory under the policy isn't where that would have it, in a sentence.
    fn misplaced(&self, bytes: &Bytes) -> Option<String> {
        let NodeSet(nodes) = &self.nodes;
        let total = sum(bytes);
        if nodes.is_empty() || total == 0 {
            return None;
        }
        let outside: u64 = bytes.iter().filter(|(node, _)| !nodes.contains(node)).map(|(_, bytes)| bytes).sum();
        if share(outside, total) > NO_MATTER {
            return Some(format!(
                "{} of its memory is not on node {} as `{}` asks{}",
                percent(share(outside, total)),
                self.nodes,
                self.policy,
                self.full_note()
            ));
        }
        let is_in_turn = matches!(self.policy, MemoryPolicy::Interleave(_) | MemoryPolicy::WeightedInterleave);
        if !is_in_turn || total < ENOUGH_BYTES {
            return None;
        }
        let weight = |node: &u32| f64::from(self.weights.get(node).copied().unwrap_or(1));
        let weights: f64 = nodes.iter().map(weight).sum();
        // Huge pages go to nodes as a whole.
        let one_page = share(memory::huge_page_size_bytes().filter(|_| self.ended.huge_bytes > 0).unwrap_or(0), total);
        let uneven = nodes.iter().find_map(|node| {
            let (seen, due) = (share(bytes.get(node).copied().unwrap_or(0), total), weight(node) / weights);
            ((seen - due).abs() > UNEVEN.max(one_page)).then_some((node, seen, due))
        })?;
        let (node, seen, due) = uneven;
        Some(format!(
            "node {node} has {} of its memory, where `{}` would give it {}{}",
            percent(seen),
            self.policy,
            percent(due),
            self.full_note()
        ))
    }

    fn full_note(&self) -> String {
        let full =
            self.full.iter().map(|(node, memory)| format!("; node {node} was full ({} free)", mib(memory.free_bytes)));
        full.collect()
    }

    fn huge_pages_note(&self, total: u64) -> Option<String> {
        match self.huge_pages {
            HugePages::Never if self.ended.huge_bytes > 0 => {
                Some(format!("{} of its memory was in huge pages nevertheless", mib(self.ended.huge_bytes)))
            }
            HugePages::Always if self.ended.huge_bytes == 0 && total > ENOUGH_BYTES => Some(format!(
                "none of its {} was in huge pages: its mappings are too small for them, or the free memory is in pieces",
                mib(total)
            )),
            _ => None,
        }
    }
}

fn own_policies_note(shares: &BTreeMap<String, f64>) -> Option<String> {
    let all: f64 = shares.values().sum();
    let names: Vec<&str> = shares.keys().map(String::as_str).collect();
    (all > NO_MATTER).then(|| {
        format!(
            "{} of its memory is under a policy that the program set itself ({}), not under the one asked for",
            percent(all),
            names.join(", ")
        )
    })
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// The nodes that CPUs are of.
fn nodes_of(cpus: &CpuSet) -> BTreeSet<u32> {
    let nodes = memory::nodes_with_memory().into_iter();
    nodes
        .filter(|node| memory::cpus_of_node(*node).is_some_and(|of_node| of_node.iter().any(|cpu| cpus.contains(cpu))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of a process with this memory in MiB, of (policy, node).
    fn seen(policy: &str, local: Option<u32>, memory: &[(&str, u32, u64)]) -> (MemoryObservation, Vec<String>) {
        let policy: MemoryPolicy = policy.parse().unwrap();
        let mut ended = Residence { processes: 1, ..Residence::default() };
        for (policy, node, mib) in memory {
            *ended.own.entry((*policy).to_owned()).or_default().entry(*node).or_default() += mib << 20;
        }
        let reader = MemoryReader {
            huge_pages: HugePages::Default,
            policy_text: policy.kernel_text(),
            nodes: policy.nodes(),
            weights: BTreeMap::new(),
            local: local.map(|node| BTreeSet::from([node])),
            policy,
            full: BTreeMap::new(),
            living: HashMap::new(),
            ended,
            last_ended: None,
            read: Duration::ZERO,
            next_look: Instant::now(),
        };
        reader.finish(Observe::Trace)
    }

    #[test]
    fn memory_where_the_policy_wants_it_is_no_matter() {
        for (policy, memory) in [
            ("bind:1", &[("bind:1", 1, 64), ("bind:1", 0, 0)][..]),
            ("interleave:0-1", &[("interleave:0-1", 0, 31), ("interleave:0-1", 1, 33)]),
            ("preferred:0-1", &[("prefer (many):0-1", 0, 60)]),
        ] {
            let (seen, notes) = seen(policy, Some(1), memory);
            assert_eq!((seen.followed, notes), (Some(true), vec![]), "{policy}");
        }
    }

    #[test]
    fn memory_elsewhere_is_said_with_its_share() {
        let (seen_bound, notes) = seen("bind:1", None, &[("bind:1", 1, 48), ("bind:1", 0, 16)]);
        assert_eq!((seen_bound.followed, seen_bound.remote_share), (Some(false), None));
        assert!(notes.len() == 1 && notes[0].contains("25.0 %") && notes[0].contains("bind:1"), "{notes:?}");
        let (_, notes) = seen("interleave:0-1", None, &[("interleave:0-1", 0, 48), ("interleave:0-1", 1, 16)]);
        assert!(notes.len() == 1 && notes[0].contains("75.0 %") && notes[0].contains("50.0 %"), "{notes:?}");
    }

    #[test]
    fn policies_of_the_program_are_said_and_their_memory_is_not_held_against_ours() {
        let (seen, notes) = seen("bind:0", Some(0), &[("bind:0", 0, 48), ("bind:1", 1, 16)]);
        assert_eq!(seen.own_policy_shares, BTreeMap::from([("bind:1".into(), 0.25)]));
        assert_eq!((seen.followed, seen.remote_share), (Some(false), Some(0.25)));
        assert!(notes.len() == 1 && notes[0].contains("25.0 %") && notes[0].contains("(bind:1)"), "{notes:?}");
    }

    #[test]
    fn memory_that_processes_share_counts_once_and_their_own_in_each() {
        let process = |mib: u64| Residence {
            processes: 1,
            own: BTreeMap::from([("default".into(), Bytes::from([(0, 1 << 20)]))]),
            shared: BTreeMap::from([((7, "/dev/shm/x".into()), ("default".into(), Bytes::from([(1, mib << 20)])))]),
            ..Residence::default()
        };
        let mut all = Residence::default();
        [8, 32, 16].into_iter().for_each(|mib| all.add(process(mib)));
        assert_eq!(all.by_policy()["default"], Bytes::from([(0, 3 << 20), (1, 32 << 20)]));
        assert_eq!(all.processes, 3);
    }
}
