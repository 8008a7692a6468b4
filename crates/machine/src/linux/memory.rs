//! Memory: its NUMA nodes, whose pages are where, and huge pages.

use super::{Pid, Tid, read_word, value_of};
use crate::cpu::{CpuId, CpuSet, parse_cpu_list};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where sysfs keeps what it says of nodes.
const NODES: &str = "/sys/devices/system/node";

/// Where sysfs keeps how transparent huge pages are used.
const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage";

/// Numbers in the kernel's list format; an empty list is nothing.
fn parse_node_list(list: &str) -> Option<BTreeSet<u32>> {
    if list.is_empty() {
        return Some(BTreeSet::new());
    }
    Some(parse_cpu_list(list).ok()?.into_iter().map(|CpuId(node)| node).collect())
}

/// The NUMA nodes that have memory; empty where the kernel knows no nodes (`CONFIG_NUMA`).
pub fn nodes_with_memory() -> BTreeSet<u32> {
    read_word(Path::new(NODES).join("has_memory")).and_then(|list| parse_node_list(&list)).unwrap_or_default()
}

/// The NUMA nodes that the cpuset of the calling thread lets it take memory from; none where the kernel doesn't tell.
pub fn allowed_nodes() -> Option<BTreeSet<u32>> {
    let status = fs::read_to_string("/proc/thread-self/status").ok()?;
    parse_node_list(value_of(&status, "Mems_allowed_list", ':')?)
}

/// The CPUs of a node, none of a node that is memory only; `None` where there is no such node.
pub fn cpus_of_node(node: u32) -> Option<CpuSet> {
    let list = read_word(Path::new(NODES).join(format!("node{node}/cpulist")))?;
    if list.is_empty() { Some(CpuSet::new()) } else { list.parse().ok() }
}

/// The memory of a node, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeMemory {
    /// All of it.
    pub total_bytes: u64,
    /// What nobody uses, not even as cache.
    pub free_bytes: u64,
    /// What the kernel wants to stay free: while less is, memory that may come from elsewhere does.
    pub kept_bytes: u64,
}

/// How much memory a node has.
pub fn node_memory(node: u32) -> Option<NodeMemory> {
    let text = fs::read_to_string(Path::new(NODES).join(format!("node{node}/meminfo"))).ok()?;
    let bytes = |name: &str| {
        let value = value_of(&text, &format!("Node {node} {name}"), ':')?;
        Some(value.strip_suffix(" kB")?.trim().parse::<u64>().ok()? * 1024)
    };
    let kept_pages = fs::read_to_string("/proc/zoneinfo").map_or(0, |zones| high_watermark_pages(&zones, node));
    Some(NodeMemory {
        total_bytes: bytes("MemTotal")?,
        free_bytes: bytes("MemFree")?,
        kept_bytes: kept_pages * procfs::page_size(),
    })
}

/// The pages that the kernel frees until they are there, over all zones of a node in `/proc/zoneinfo`.
fn high_watermark_pages(zones: &str, node: u32) -> u64 {
    let start = format!("Node {node},");
    let mut is_of_node = false;
    let mut sum = 0;
    for line in zones.lines() {
        if line.starts_with("Node ") {
            is_of_node = line.starts_with(&start);
        } else if is_of_node && let Some(pages) = line.trim_start().strip_prefix("high ") {
            // Those of a CPU's own list are written `high:`.
            sum += pages.trim().parse::<u64>().unwrap_or(0);
        }
    }
    sum
}

/// How many pages in turn each node gives under weighted interleaving; empty before Linux 6.9.
pub fn interleave_weights() -> BTreeMap<u32, u32> {
    let files = fs::read_dir("/sys/kernel/mm/mempolicy/weighted_interleave").into_iter().flatten().flatten();
    let weights = files.filter_map(|file| {
        let node = file.file_name().to_str()?.strip_prefix("node")?.parse().ok()?;
        Some((node, read_word(file.path())?.parse().ok()?))
    });
    weights.collect()
}

/// Whose pages a mapping has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backing {
    /// The process's own: its heap, its stacks, what it has changed of files that it maps for itself.
    Anonymous,
    /// Memory that processes share, by the name that the kernel gives it: `/dev/shm/...`, `/memfd:...`, `/SYSV...`.
    Shared(String),
    /// A file's: the page cache, which others may have filled.
    File,
}

/// A part of a process's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Its first address.
    pub address: u64,
    /// Under which policy its pages come, in the kernel's words: `default`, `bind:0-1`, `weighted interleave:0-1`.
    pub policy: String,
    /// Whose pages it has.
    pub backing: Backing,
    /// Whether the program asked for huge pages by hugetlbfs.
    pub is_hugetlb: bool,
    /// Memory that is there, in bytes by node.
    pub bytes_by_node: BTreeMap<u32, u64>,
}

impl Pid {
    /// Its mappings that have memory, by one of its threads that has not ended; none when that has, isn't ours to look at, or the kernel
    /// knows no nodes. A mapping without a policy of its own has that of the thread.
    ///
    /// The kernel looks at every page for this, which takes tens of milliseconds for each GiB in small pages.
    pub fn mappings(self, tid: Tid) -> Option<Vec<Mapping>> {
        let text = fs::read(format!("/proc/{}/task/{}/numa_maps", self.0, tid.0)).ok()?;
        // One that has no memory any more has no mapping.
        (!text.is_empty()).then(|| String::from_utf8_lossy(&text).lines().filter_map(parse_mapping).collect())
    }

    /// Clears the kernel's marks at pages that it has touched (`CONFIG_PROC_PAGE_MONITOR`), and those at pages that it has written.
    ///
    /// A CPU marks a page as it looks for its address in tables, and not where it has that in its TLB. Only clearing the second marks empties
    /// TLBs: without, a program that goes over 4 MiB was told to touch 0.2.
    ///
    /// # Errors
    /// It has ended, or is another user's.
    pub fn clear_references(self) -> io::Result<()> {
        let file = format!("/proc/{}/clear_refs", self.0);
        ["1", "4"].into_iter().try_for_each(|kind| fs::write(&file, kind))
    }

    /// Its memory that was touched since these marks were cleared, in bytes, page by page: of a huge page it is all.
    pub fn referenced_bytes(self) -> Option<u64> {
        bytes_of(&fs::read_to_string(format!("/proc/{}/smaps_rollup", self.0)).ok()?, "Referenced")
    }

    /// Its memory that is in transparent huge pages, in bytes, by one of its threads that has not ended.
    pub fn huge_page_bytes(self, tid: Tid) -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{}/task/{}/smaps_rollup", self.0, tid.0)).ok()?;
        let bytes = |name| bytes_of(&text, name);
        let others = ["ShmemPmdMapped", "FilePmdMapped"].into_iter().filter_map(bytes).sum::<u64>();
        Some(bytes("AnonHugePages")? + others)
    }
}

/// One of the sums of smaps_rollup.
fn bytes_of(text: &str, name: &str) -> Option<u64> {
    let value: u64 = value_of(text, name, ':')?.strip_suffix(" kB")?.trim().parse().ok()?;
    Some(value * 1024)
}

/// A line of numa_maps(5); none for one without memory.
fn parse_mapping(line: &str) -> Option<Mapping> {
    let (address, rest) = line.split_once(' ')?;
    // The only policies whose names have a blank.
    let name =
        ["weighted interleave", "prefer (many)"].into_iter().find(|name| rest.starts_with(name)).unwrap_or_default();
    let end = rest[name.len()..].find(' ').map_or(rest.len(), |blank| name.len() + blank);
    let (policy, rest) = rest.split_at(end);
    let words: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |name: &str| words.iter().find_map(|word| word.strip_prefix(name)?.parse::<u64>().ok());
    let page_bytes = number("kernelpagesize_kB=")? * 1024;
    let pages: BTreeMap<u32, u64> = (words.iter())
        .filter_map(|word| {
            let (node, pages) = word.strip_prefix('N')?.split_once('=')?;
            Some((node.parse().ok()?, pages.parse().ok()?))
        })
        .collect();
    let total: u64 = pages.values().sum();
    if total == 0 {
        return None;
    }
    let file = words.iter().find_map(|word| word.strip_prefix("file="));
    let backing = match file {
        _ if number("anon=").is_some_and(|anonymous| anonymous >= total) => Backing::Anonymous,
        Some(name) if is_shared_memory(name) => Backing::Shared(name.into()),
        Some(_) => Backing::File,
        None => Backing::Anonymous,
    };
    Some(Mapping {
        address: u64::from_str_radix(address, 16).ok()?,
        policy: policy.into(),
        backing,
        is_hugetlb: words.contains(&"huge"),
        bytes_by_node: pages.into_iter().map(|(node, pages)| (node, pages.saturating_mul(page_bytes))).collect(),
    })
}

fn is_shared_memory(name: &str) -> bool {
    ["/dev/shm/", "/memfd:", "/SYSV", "/dev/zero", "/anon_hugepage"].iter().any(|start| name.starts_with(start))
}

/// The bytes of the huge pages that the kernel can give without being asked; none where it can't.
pub fn huge_page_size_bytes() -> Option<u64> {
    read_word(Path::new(HUGE_PAGES).join("hpage_pmd_size"))?.parse().ok()
}

/// A setting of the whole machine, which is one word among those that the kernel knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its file.
    pub path: PathBuf,
    /// The word that it is set to.
    pub word: String,
}

impl Setting {
    /// Reads a file such as `always [madvise] never`.
    fn read(path: PathBuf) -> Option<Self> {
        let text = read_word(&path)?;
        let word = text.split_ascii_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))?.to_owned();
        Some(Self { path, word })
    }

    /// What it is set to now.
    pub fn now(&self) -> Option<String> {
        Some(Self::read(self.path.clone())?.word)
    }
}

/// For whom the kernel uses huge pages: `always`, `madvise` or `never`; none where it has none.
pub fn huge_pages() -> Option<Setting> {
    Setting::read(Path::new(HUGE_PAGES).join("enabled"))
}

/// The same for those of [`huge_page_size_bytes`] alone, `inherit` where [`huge_pages`] says it; none before Linux 6.8.
pub fn huge_pages_of_size() -> Option<Setting> {
    let size_kib = huge_page_size_bytes()? / 1024;
    Setting::read(Path::new(HUGE_PAGES).join(format!("hugepages-{size_kib}kB/enabled")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(line: &str) -> Mapping {
        parse_mapping(line).unwrap()
    }

    #[test]
    fn lines_of_numa_maps_tell_policy_backing_and_bytes() {
        let heap =
            mapping("7f12a0000000 interleave:0-1 heap anon=300 dirty=300 active=0 N0=100 N1=200 kernelpagesize_kB=4");
        assert_eq!(
            (heap.address, &*heap.policy, heap.backing),
            (0x7f12_a000_0000, "interleave:0-1", Backing::Anonymous)
        );
        assert_eq!(heap.bytes_by_node, BTreeMap::from([(0, 100 << 12), (1, 200 << 12)]));
        for (policy, rest) in [("weighted interleave:0-1", ""), ("prefer (many):0,2", ""), ("bind=static:1", " stack")]
        {
            let seen = mapping(&format!("a0 {policy}{rest} anon=1 dirty=1 N1=1 kernelpagesize_kB=4"));
            assert_eq!((&*seen.policy, seen.bytes_by_node[&1]), (policy, 4096));
        }
    }

    #[test]
    fn what_a_node_keeps_is_the_sum_over_its_zones() {
        let zones = "Node 0, zone      DMA\n  pages free     3840\n        min      68\n        high     102\n\
                     Node 1, zone   Normal\n  pages free     9\n        high     7\n  pagesets\n    cpu: 0\n              high:  5\n\
                     Node 0, zone   Normal\n        high     900\nNode 10, zone Normal\n        high     4\n";
        assert_eq!([0, 1, 10, 2].map(|node| high_watermark_pages(zones, node)), [1002, 7, 4, 0]);
    }

    #[test]
    fn shared_memory_is_told_from_files_and_from_changed_pages_of_files() {
        let backing = |rest: &str| mapping(&format!("a0 default {rest} kernelpagesize_kB=4")).backing;
        assert_eq!(backing("file=/usr/bin/cat mapped=5 N0=5"), Backing::File);
        assert_eq!(backing("file=/usr/bin/cat anon=1 dirty=1 active=0 N0=1"), Backing::Anonymous);
        assert_eq!(backing("file=/usr/bin/cat mapped=5 anon=1 dirty=1 N0=5"), Backing::File);
        assert_eq!(
            backing("file=/dev/zero\\040(deleted) dirty=8 N0=8"),
            Backing::Shared("/dev/zero\\040(deleted)".into())
        );
        // A name is no field, even one that looks like it.
        assert_eq!(mapping("a0 default file=/N7=9 mapped=5 N0=5 kernelpagesize_kB=4").bytes_by_node.len(), 1);
    }

    #[test]
    fn pages_of_hugetlbfs_are_as_large_as_they_are_and_a_line_without_memory_is_none() {
        let seen =
            mapping("a0 default file=/anon_hugepage\\040(deleted) huge anon=2 dirty=2 N0=2 kernelpagesize_kB=2048");
        assert_eq!((seen.is_hugetlb, seen.bytes_by_node[&0]), (true, 4 << 20));
        for line in
            ["", "a0", "a0 default", "a0 default file=/x", "g0 default N0=1 kernelpagesize_kB=4", "a0 default N0=1"]
        {
            assert_eq!(parse_mapping(line), None, "{line}");
        }
    }

    #[test]
    fn this_machine_has_memory_somewhere_and_we_have_some_of_it() {
        let nodes = nodes_with_memory();
        if nodes.is_empty() {
            return println!("skipped: this kernel knows no NUMA nodes");
        }
        assert!(allowed_nodes().unwrap().iter().any(|node| nodes.contains(node)));
        for node in &nodes {
            let memory = node_memory(*node).unwrap();
            assert!(memory.free_bytes < memory.total_bytes, "{memory:?}");
            assert!(cpus_of_node(*node).is_some());
        }
        assert_eq!(cpus_of_node(u32::MAX), None);
        let own = Pid(std::process::id() as libc::pid_t);
        let own = own.mappings(own.main_thread()).unwrap();
        assert!(own.iter().any(|mapping| mapping.backing == Backing::Anonymous));
        assert!(own.iter().all(|mapping| mapping.bytes_by_node.keys().all(|node| nodes.contains(node))));
    }

    #[test]
    fn a_setting_is_the_word_in_brackets() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("enabled");
        fs::write(&path, "always [madvise] never\n").unwrap();
        let setting = Setting::read(path.clone()).unwrap();
        assert_eq!(setting.word, "madvise");
        fs::write(&path, "[always] madvise never\n").unwrap();
        assert_eq!(setting.now().as_deref(), Some("always"));
        fs::write(&path, "always\n").unwrap();
        assert_eq!(Setting::read(path), None);
    }
}
