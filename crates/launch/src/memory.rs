//! From which NUMA nodes a program's memory comes, and in which pages.

use crate::conditions::Part;
use machine::{ParseCpuSetError, parse_cpu_list};
use nix::errno::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

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

/// Whether memory is in huge pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum HugePages {
    /// As it would anyway.
    #[default]
    Default,
    /// Wherever the kernel can.
    Always,
    /// Nowhere.
    Never,
}

impl fmt::Display for HugePages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default => "default",
            Self::Always => "always",
            Self::Never => "never",
        })
    }
}

impl FromStr for HugePages {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "default" => Ok(Self::Default),
            "always" => Ok(Self::Always),
            "never" => Ok(Self::Never),
            _ => {
                Err(format!("`{}` is no use of huge pages; these are default, always and never", machine::quoted(text)))
            }
        }
    }
}

crate::text_in_journals!(MemoryPolicy, HugePages);

impl MemoryPolicy {
    /// Why this machine or kernel can't follow it, in a sentence.
    pub fn lacking(&self) -> Option<String> {
        None
    }
}

impl HugePages {
    /// Why this kernel can't do so, in a sentence.
    pub fn lacking(self) -> Option<String> {
        None
    }
}

/// What was seen of a program's memory, before it ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryObservation {}

/// What the child does for it.
pub(crate) struct MemoryForChild {}

impl MemoryForChild {
    pub(crate) fn new(_policy: &MemoryPolicy, _huge_pages: HugePages) -> Self {
        Self {}
    }

    /// # Safety
    /// As of [`ForChild::apply`](crate::conditions::ForChild::apply).
    pub(crate) unsafe fn apply(&self) -> Result<(), (Part, Errno)> {
        Ok(())
    }
}
