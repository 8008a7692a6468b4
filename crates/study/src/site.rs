//! Where a study runs its programs: on this machine, in a virtual one that has this machine's files, or on the nodes of a cluster.

use crate::slurm::{ParseSlurmError, SlurmSite};
use machine::{Machine, MachineError};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use vm::{ParseTopologyError, Topology};

/// The machine of `vm` without a topology.
const DEFAULT_TOPOLOGY: &str = "2x4";

/// So many blocks run in one boot of a virtual machine: what is compared with one another has had the same boot.
pub(crate) const BLOCKS_OF_A_BOOT: u32 = 4;

/// Where programs are run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Site {
    /// On this machine.
    #[default]
    Here,
    /// In a virtual machine.
    Vm(GuestMachine),
    /// On the nodes of a cluster, each block as a task of Slurm's.
    Slurm(SlurmSite),
}

/// A virtual machine as studies see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestMachine {
    /// What its kernel sees.
    pub topology: Topology,
    /// The machine whose caches are modelled, by its name, where misses are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misses: Option<String>,
}

/// A text that is no site.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseSiteError {
    /// It begins like none.
    #[error("`{0}` is no place to run; name here, vm, vm:TOPOLOGY, slurm or slurm:OPTIONS")]
    Unknown(String),
    /// It is a virtual machine of no topology.
    #[error(transparent)]
    Topology(#[from] ParseTopologyError),
    /// It is Slurm with options that can't be.
    #[error(transparent)]
    Slurm(#[from] ParseSlurmError),
}

impl FromStr for Site {
    type Err = ParseSiteError;

    fn from_str(text: &str) -> Result<Self, ParseSiteError> {
        let vm = |topology: &str| Ok(Self::Vm(GuestMachine { topology: topology.parse()?, misses: None }));
        let (place, rest) = text.split_once(':').map_or((text, None), |(place, rest)| (place, Some(rest)));
        match (place, rest) {
            ("here", None) => Ok(Self::Here),
            ("vm", topology) => vm(topology.unwrap_or(DEFAULT_TOPOLOGY)),
            ("slurm", options) => Ok(Self::Slurm(options.unwrap_or_default().parse()?)),
            _ => Err(ParseSiteError::Unknown(machine::quoted(text))),
        }
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Here => f.write_str("here"),
            Self::Vm(GuestMachine { topology, .. }) => write!(f, "vm:{topology}"),
            Self::Slurm(site) => site.fmt(f),
        }
    }
}

/// Why there is no machine of a site.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// It can't be read.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// Misses are of another machine.
    #[error("vm:{topology} has {cpus} CPUs, and the machine of --misses {modelled}")]
    OtherCpus {
        /// What the guest's kernel sees.
        topology: Topology,
        /// So many CPUs.
        cpus: usize,
        /// And so many that the machine has whose misses are modelled.
        modelled: usize,
    },
}

impl GuestMachine {
    /// Its tree: that of the caches which are modelled, or what its kernel sees.
    ///
    /// # Errors
    /// [`SiteError`].
    pub fn machine(&self) -> Result<Machine, SiteError> {
        let Some(name) = &self.misses else { return Ok(self.topology.machine()?) };
        let machine = Machine::named(name)?;
        let (cpus, modelled) = (self.topology.cpus() as usize, machine.usable().count());
        match cpus == modelled {
            true => Ok(machine),
            false => Err(SiteError::OtherCpus { topology: self.topology.clone(), cpus, modelled }),
        }
    }
}

impl Site {
    /// Whether it is this machine.
    pub fn is_here(&self) -> bool {
        *self == Self::Here
    }

    /// Whether it is an emulated machine, whose times mean nothing.
    pub fn is_emulated(&self) -> bool {
        self.guest().is_some()
    }

    /// The virtual machine, if it is one.
    pub fn guest(&self) -> Option<&GuestMachine> {
        match self {
            Self::Here | Self::Slurm(_) => None,
            Self::Vm(guest) => Some(guest),
        }
    }

    /// The cluster, if it is one.
    pub fn slurm(&self) -> Option<&SlurmSite> {
        match self {
            Self::Here | Self::Vm(_) => None,
            Self::Slurm(site) => Some(site),
        }
    }

    /// `asked` without what doesn't make a study at it another one than a study here.
    pub(crate) fn aligned(&self, asked: &Self) -> Self {
        match (self, asked) {
            (Self::Slurm(have), Self::Slurm(want)) => Self::Slurm(have.gone_on_with(want)),
            _ => asked.clone(),
        }
    }

    /// Which boot of its virtual machine a block belongs to, from 0; none where there are no boots.
    pub fn boot_of(&self, block: u32) -> Option<u32> {
        self.guest().map(|_| block / BLOCKS_OF_A_BOOT)
    }

    /// The block in whose order `block` runs, and whether from the end: in a boot the order goes back and forth, so that what rises or
    /// falls in it does so for all alike.
    pub(crate) fn order_of(&self, block: u32) -> (u32, bool) {
        match self.guest() {
            Some(_) if block % BLOCKS_OF_A_BOOT % 2 == 1 => (block - 1, true),
            _ => (block, false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sites_are_called_as_they_are_asked_for() {
        for (text, shown) in [
            ("here", "here"),
            ("vm", "vm:2x4"),
            ("vm:dies", "vm:dies"),
            ("vm:1x4x2", "vm:1x4x2"),
            ("slurm", "slurm"),
            ("slurm:nodes=2,qos=q", "slurm:qos=q,nodes=2"),
        ] {
            let site: Site = text.parse().unwrap();
            assert_eq!(site.to_string(), shown);
            let json = serde_json::to_string(&site).unwrap();
            assert_eq!(serde_json::from_str::<Site>(&json).unwrap(), site, "{json}");
        }
        assert_eq!(Site::default(), "here".parse().unwrap());
        for (text, part) in [
            ("there", "`there` is no place to run"),
            ("", "``"),
            ("vm:3", "`3` is no machine"),
            ("slurm:nodes=x", "slurm: `nodes` is a number"),
            ("here:x", "`here:x` is no place"),
        ] {
            let error = text.parse::<Site>().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn misses_are_of_a_machine_with_as_many_cpus() {
        let guest =
            |misses: Option<&str>| GuestMachine { topology: "2x4".parse().unwrap(), misses: misses.map(str::to_owned) };
        assert_eq!(guest(None).machine().unwrap().usable().count(), 8);
        assert_eq!(guest(Some("pack:1 core:8 pu:1")).machine().unwrap().usable().count(), 8);
        let error = guest(Some("pack:1 core:4 pu:1")).machine().unwrap_err().to_string();
        assert_eq!(error, "vm:2x4 has 8 CPUs, and the machine of --misses 4");
    }

    proptest! {
        #[test]
        fn every_order_of_a_boot_is_run_forth_and_back(block in 0_u32..10_000) {
            let vm: Site = "vm".parse().unwrap();
            prop_assert_eq!(Site::Here.order_of(block), (block, false));
            let (order, is_reversed) = vm.order_of(block);
            prop_assert_eq!(vm.boot_of(order), vm.boot_of(block));
            // Its neighbour in the boot runs the same order, the other way.
            let neighbour = if is_reversed { block - 1 } else { block + 1 };
            prop_assert_eq!(vm.order_of(neighbour), (order, !is_reversed));
            prop_assert_eq!(vm.boot_of(neighbour), vm.boot_of(block));
        }
    }
}
