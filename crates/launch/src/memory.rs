//! From which NUMA nodes a program's memory comes.

use crate::conditions::Part;
use crate::huge_pages::HugePages;
use machine::linux::{memory, system};
use machine::{ParseCpuSetError, parse_cpu_list};
use nix::errno::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::str::FromStr;
use std::{fmt, ptr, thread};

/// NUMA nodes as the kernel numbers them, in its list format: `0-1,4`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeSet(pub BTreeSet<u32>);

impl fmt::Display for NodeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&machine::cpu_list(self.0.iter().copied().map(machine::CpuId)))
    }
}

impl FromStr for NodeSet {
    type Err = ParseCpuSetError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(parse_cpu_list(text)?.into_iter().map(|node| node.0).collect()))
    }
}

/// From which nodes memory comes (set_mempolicy(2)).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum MemoryPolicy {
    /// As it would anyway: usually from the node of the CPU that touches a page first.
    #[default]
    Default,
    /// From the node of the CPU that touches a page first, whatever policy we have ourselves.
    Local,
    /// From these nodes and no other.
    Bind(NodeSet),
    /// From these nodes as long as they have some.
    Preferred(NodeSet),
    /// Page by page in turn from these nodes; none named is all.
    Interleave(Option<NodeSet>),
    /// In turn from all nodes, by the weights of `/sys/kernel/mm/mempolicy/weighted_interleave` (Linux 6.9).
    WeightedInterleave,
}

impl fmt::Display for MemoryPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Local => f.write_str("local"),
            Self::Bind(nodes) => write!(f, "bind:{nodes}"),
            Self::Preferred(nodes) => write!(f, "preferred:{nodes}"),
            Self::Interleave(None) => f.write_str("interleave"),
            Self::Interleave(Some(nodes)) => write!(f, "interleave:{nodes}"),
            Self::WeightedInterleave => f.write_str("weighted-interleave"),
        }
    }
}

impl FromStr for MemoryPolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (word, nodes) =
            text.trim().split_once(':').map_or((text.trim(), None), |(word, nodes)| (word, Some(nodes)));
        let nodes = nodes.map(|nodes| {
            nodes.parse::<NodeSet>().map_err(|_| {
                format!(
                    "`{}` is no list of NUMA nodes; write them as in {word}:0 or {word}:0-1",
                    machine::quoted(nodes)
                )
            })
        });
        match (word, nodes.transpose()?) {
            ("default", None) => Ok(Self::Default),
            ("local", None) => Ok(Self::Local),
            ("bind", Some(nodes)) => Ok(Self::Bind(nodes)),
            ("preferred", Some(nodes)) => Ok(Self::Preferred(nodes)),
            ("interleave", nodes) => Ok(Self::Interleave(nodes)),
            ("weighted-interleave", None) => Ok(Self::WeightedInterleave),
            ("bind" | "preferred", None) => Err(format!("`{word}` needs NUMA nodes; write {word}:0")),
            _ => Err(format!(
                "`{}` is no memory policy; these are default, local, bind:NODES, preferred:NODES, interleave, interleave:NODES and \
                 weighted-interleave",
                machine::quoted(text)
            )),
        }
    }
}

crate::text_in_journals!(MemoryPolicy);

/// Modes of `linux/mempolicy.h` that the `libc` crate lacks.
const MPOL_PREFERRED_MANY: libc::c_int = 5;
const MPOL_WEIGHTED_INTERLEAVE: libc::c_int = 6;

/// Nodes that a mask has room for. The kernel's largest numbers of nodes are 1,024.
const MOST_NODES: usize = 1024;
const WORD_BITS: usize = libc::c_ulong::BITS as usize;

impl MemoryPolicy {
    /// Why this machine or kernel can't follow it, in a sentence.
    pub fn lacking(&self) -> Option<String> {
        if *self == Self::Default {
            return None;
        }
        let with_memory = memory::nodes_with_memory();
        if with_memory.is_empty() {
            return Some(format!("`{self}` takes a kernel that knows NUMA nodes (CONFIG_NUMA), and this one doesn't"));
        }
        if let Some(node) = self.named_nodes().iter().find(|node| !with_memory.contains(node)) {
            return Some(format!(
                "there is no NUMA node {node} with memory here for `{self}`; those that there are: {}",
                NodeSet(with_memory)
            ));
        }
        let usable = usable_nodes();
        if let Some(node) = self.named_nodes().iter().find(|node| !usable.contains(node)) {
            return Some(format!(
                "no memory of NUMA node {node} may be used here, as `{self}` would: the cpuset allows {} (Mems_allowed)",
                NodeSet(usable)
            ));
        }
        // A policy is the thread's alone, so one that does nothing else can tell whether the kernel takes it.
        let mode = ModeAndNodes::of(self)?;
        let set = thread::spawn(move || {
            // SAFETY: the policy that is set ends with this thread.
            unsafe { mode.set() }
        });
        match set.join().unwrap_or(Ok(())) {
            Ok(()) => None,
            Err(Errno::EINVAL) if *self == Self::WeightedInterleave => Some(format!(
                "`{self}` takes Linux 6.9 or later, and this is {}",
                system::kernel_release().unwrap_or_else(|| "another".into())
            )),
            Err(Errno::EINVAL) if self.named_nodes().len() > 1 && matches!(self, Self::Preferred(_)) => {
                Some(format!("`{self}` takes Linux 5.15 or later; prefer one node"))
            }
            Err(errno) => Some(format!("memory policies cannot be set here: {} (set_mempolicy)", errno.desc())),
        }
    }

    /// The nodes that its text names.
    fn named_nodes(&self) -> &BTreeSet<u32> {
        static NONE: BTreeSet<u32> = BTreeSet::new();
        match self {
            Self::Bind(nodes) | Self::Preferred(nodes) | Self::Interleave(Some(nodes)) => &nodes.0,
            _ => &NONE,
        }
    }

    /// The nodes that memory is to come from; empty where it may be any.
    pub(crate) fn nodes(&self) -> NodeSet {
        match self {
            Self::Interleave(None) | Self::WeightedInterleave => NodeSet(usable_nodes()),
            _ => NodeSet(self.named_nodes().clone()),
        }
    }

    /// What the kernel calls it in `numa_maps`; none where our own policy, which the program inherits, is unknown or has nodes.
    pub(crate) fn kernel_text(&self) -> Option<String> {
        let nodes = self.nodes();
        Some(match self {
            Self::Default => inherits_none().then(|| "default".into())?,
            Self::Local => "local".into(),
            Self::Bind(_) => format!("bind:{nodes}"),
            Self::Preferred(_) if nodes.0.len() > 1 => format!("prefer (many):{nodes}"),
            Self::Preferred(_) => format!("prefer:{nodes}"),
            Self::Interleave(_) => format!("interleave:{nodes}"),
            Self::WeightedInterleave => format!("weighted interleave:{nodes}"),
        })
    }
}

/// The nodes with memory that our cpuset lets us use.
fn usable_nodes() -> BTreeSet<u32> {
    let with_memory = memory::nodes_with_memory();
    match memory::allowed_nodes() {
        Some(allowed) => with_memory.intersection(&allowed).copied().collect(),
        None => with_memory,
    }
}

/// Whether the calling thread has no policy of its own.
fn inherits_none() -> bool {
    let mut mode: libc::c_int = -1;
    let none = ptr::null_mut::<libc::c_ulong>();
    // SAFETY: the call fills `mode`; without a mask and an address it has nothing else to fill or read.
    let result = unsafe { libc::syscall(libc::SYS_get_mempolicy, &raw mut mode, none, 0, none, 0) };
    result == 0 && mode == libc::MPOL_DEFAULT
}

/// What set_mempolicy(2) takes.
struct ModeAndNodes {
    mode: libc::c_int,
    /// A bit for each node; empty for none.
    mask: Vec<libc::c_ulong>,
}

impl ModeAndNodes {
    /// None where nothing is to be set.
    fn of(policy: &MemoryPolicy) -> Option<Self> {
        let NodeSet(nodes) = policy.nodes();
        let mode = match policy {
            MemoryPolicy::Default => return None,
            MemoryPolicy::Local => libc::MPOL_LOCAL,
            MemoryPolicy::Bind(_) => libc::MPOL_BIND,
            MemoryPolicy::Preferred(_) if nodes.len() > 1 => MPOL_PREFERRED_MANY,
            MemoryPolicy::Preferred(_) => libc::MPOL_PREFERRED,
            MemoryPolicy::Interleave(_) => libc::MPOL_INTERLEAVE,
            MemoryPolicy::WeightedInterleave => MPOL_WEIGHTED_INTERLEAVE,
        };
        let mut mask = vec![0; if nodes.is_empty() { 0 } else { MOST_NODES / WORD_BITS }];
        for node in nodes.into_iter().map(|node| node as usize) {
            // A node beyond the mask is none that there is, which the kernel is to say of the others.
            if let Some(word) = mask.get_mut(node / WORD_BITS) {
                *word |= 1 << (node % WORD_BITS);
            }
        }
        Some(Self { mode, mask })
    }

    /// Sets it for the calling thread.
    ///
    /// # Safety
    /// All memory that the thread touches from now on comes by this policy; it makes a system call only.
    unsafe fn set(&self) -> Result<(), Errno> {
        // The kernel takes one bit less than it is told of.
        let bits = self.mask.len() * WORD_BITS + 1;
        // SAFETY: the mask has as many bits as the kernel reads.
        let result = unsafe { libc::syscall(libc::SYS_set_mempolicy, self.mode, self.mask.as_ptr(), bits) };
        Errno::result(result).map(drop)
    }
}

/// What the child does for it.
pub(crate) struct MemoryForChild {
    policy: Option<ModeAndNodes>,
    huge_pages: HugePages,
}

impl MemoryForChild {
    pub(crate) fn new(policy: &MemoryPolicy, huge_pages: HugePages) -> Self {
        Self { policy: ModeAndNodes::of(policy), huge_pages }
    }

    /// Whether the child changes its memory, which then must not be ours.
    pub(crate) fn changes_memory(&self) -> bool {
        self.huge_pages != HugePages::Default
    }

    /// # Safety
    /// As of [`ForChild::apply`](crate::conditions::ForChild::apply).
    pub(crate) unsafe fn apply(&self) -> Result<(), (Part, Errno)> {
        // SAFETY: as for this function; a policy is the thread's alone, and use of huge pages is changed in a child that has its own
        // memory.
        unsafe {
            if let Some(policy) = &self.policy {
                policy.set().map_err(|errno| (Part::Memory, errno))?;
            }
            self.huge_pages.set().map_err(|errno| (Part::HugePages, errno))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read_back_as_they_are_written() {
        for text in
            ["default", "local", "bind:0", "preferred:0-1,4", "interleave", "interleave:1,3", "weighted-interleave"]
        {
            assert_eq!(text.parse::<MemoryPolicy>().unwrap().to_string(), text);
        }
        for text in ["", "bind", "bind:", "bind:x", "preferred", "local:0", "weighted-interleave:0", "interleaved"] {
            let error = text.parse::<MemoryPolicy>().unwrap_err();
            assert!(error.contains('`') && !error.contains('\n'), "{text}: {error}");
        }
    }

    #[test]
    fn a_policy_is_what_the_system_call_takes() {
        let of = |text: &str| ModeAndNodes::of(&text.parse().unwrap()).map(|policy| (policy.mode, policy.mask));
        assert_eq!(of("default"), None);
        assert_eq!(of("local"), Some((4, vec![])));
        let mut mask = vec![0; MOST_NODES / WORD_BITS];
        mask[0] = 0b1001;
        mask[1] = 1 << (70 - 64);
        assert_eq!(of("bind:0,3,70"), Some((2, mask.clone())));
        assert_eq!(of("preferred:0,3,70").unwrap().0, 5);
        assert_eq!(of("preferred:3").unwrap().0, 1);
        assert_eq!(of("interleave:0,3,70"), Some((3, mask)));
        // More than the kernel can have: nothing is written beyond the mask.
        assert!(of("bind:8000").unwrap().1.iter().all(|word| *word == 0));
    }
}
