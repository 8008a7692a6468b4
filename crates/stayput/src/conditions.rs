//! What `stayput run` runs a program under, besides its place: flags, words for people, and JSON.

use crate::UsageError;
use crate::run::grouped;
use launch::{
    Company, CompanyObservation, Conditions, ConditionsObservation, HugePages, MemoryObservation, MemoryPolicy,
    ParseCompanyError, Scheduling, SchedulingObservation,
};
use machine::CpuSet;
use serde::Serialize;
use study::treatment::NO_COMPANY;

/// Each is as it would be anyway, or as the study says whose file `--place` names, unless it is given.
#[derive(clap::Args)]
pub(crate) struct ConditionArgs {
    /// From which NUMA nodes its memory comes: default, local, bind:NODES, preferred:NODES, interleave, interleave:NODES or
    /// weighted-interleave, with NODES such as 0 or 0-1; what came of it is read back
    #[arg(long, value_name = "POLICY")]
    memory: Option<MemoryPolicy>,

    /// Whether its memory is in transparent huge pages: default, never, or always, which sets the whole machine to it while
    /// the program runs and takes root; how much is in them is read back
    #[arg(long, value_name = "WHICH")]
    huge_pages: Option<HugePages>,

    /// Who schedules it, and how: batch, idle, nice=N, slice=MS, attached (each process on one CPU for life), cache-aware=on or
    /// =off, the affinity scheduler by light, heavy or phi=P:T[:graded][:complex], ext:COMMAND for a sched_ext scheduler that
    /// COMMAND loads, or default
    #[arg(long, value_name = "WHICH")]
    sched: Option<Scheduling>,

    /// What runs beside it for as long as it does: a command such as 'stress-ng --cache 2', of which nothing is left
    /// afterwards, or none
    #[arg(long, value_name = "COMMAND", value_parser = beside)]
    beside: Option<Beside>,
}

/// Company, or none.
#[derive(Clone)]
struct Beside(Option<Company>);

fn beside(text: &str) -> Result<Beside, ParseCompanyError> {
    if text.trim() == NO_COMPANY { Ok(Beside(None)) } else { text.parse().map(|company| Beside(Some(company))) }
}

impl ConditionArgs {
    /// What was asked for, and what `found` says of the rest, if that can be brought about here.
    ///
    /// # Errors
    /// What this machine or its kernel lacks.
    pub(crate) fn over(&self, found: Conditions) -> anyhow::Result<Conditions> {
        let conditions = Conditions {
            memory: self.memory.clone().unwrap_or(found.memory),
            huge_pages: self.huge_pages.unwrap_or(found.huge_pages),
            scheduling: self.sched.clone().unwrap_or(found.scheduling),
            company: self.beside.clone().map_or(found.company, |beside| beside.0),
        };
        match conditions.lacking() {
            Some(why) => Err(UsageError::from(why)),
            None => Ok(conditions),
        }
    }

    /// Whether its memory is to be read back whatever its policy is.
    pub(crate) fn ask_of_memory(&self) -> bool {
        self.memory.is_some() || self.huge_pages.is_some()
    }
}

/// What `--json` says of conditions; each only where there is something to tell.
#[derive(Serialize)]
pub(crate) struct ConditionsReport<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<MemoryReport<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sched: Option<&'a SchedulingObservation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    beside: Option<BesideReport<'a>>,
}

#[derive(Serialize)]
struct MemoryReport<'a> {
    policy: &'a MemoryPolicy,
    huge_pages: HugePages,
    #[serde(flatten)]
    seen: &'a MemoryObservation,
}

#[derive(Serialize)]
struct BesideReport<'a> {
    command: &'a Company,
    #[serde(flatten)]
    seen: &'a CompanyObservation,
}

impl<'a> ConditionsReport<'a> {
    /// What was asked for with what was seen of it.
    pub(crate) fn new(asked: &'a Conditions, seen: &'a ConditionsObservation) -> Self {
        let (policy, huge_pages) = (&asked.memory, asked.huge_pages);
        let company = asked.company.as_ref().zip(seen.company.as_ref());
        Self {
            memory: seen.memory.as_ref().map(|seen| MemoryReport { policy, huge_pages, seen }),
            sched: seen.scheduling.as_deref(),
            beside: company.map(|(command, seen)| BesideReport { command, seen }),
        }
    }
}

/// What was seen of conditions: of each part its label and the words beside it.
pub(crate) fn in_words(seen: &ConditionsObservation) -> Vec<(&'static str, String)> {
    let memory = seen.memory.as_ref().filter(|memory| memory.processes > 0).map(|memory| ("memory", residence(memory)));
    let scheduling = seen.scheduling.as_ref().map(|seen| ("scheduling", scheduled(seen)));
    let company = seen.company.as_ref().map(|seen| ("beside", beside_it(seen)));
    [memory, scheduling, company].into_iter().flatten().collect()
}

/// Where memory was: `96.0 MiB: 75.0 % on node 0, 25.0 % on node 1; 25.0 % remote; 64.0 MiB in huge pages`.
fn residence(memory: &MemoryObservation) -> String {
    let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
    let total: u64 = memory.bytes_by_node.values().sum();
    let nodes = memory.bytes_by_node.iter().filter(|(_, bytes)| **bytes > 0);
    let nodes: Vec<String> =
        nodes.map(|(node, bytes)| format!("{:.1} % on node {node}", *bytes as f64 / total as f64 * 100.0)).collect();
    let remote = memory.remote_share.map(|share| format!("; {:.1} % remote", share * 100.0));
    let hugetlb = (memory.hugetlb_bytes > 0).then(|| format!(", {} in those of hugetlbfs", mib(memory.hugetlb_bytes)));
    format!(
        "{}: {}{}; {} in huge pages{}",
        mib(total),
        nodes.join(", "),
        remote.unwrap_or_default(),
        mib(memory.huge_bytes),
        hugetlb.unwrap_or_default()
    )
}

/// What was read back of who scheduled the program, and how.
fn scheduled(seen: &SchedulingObservation) -> String {
    let mut parts = Vec::from_iter(seen.policy.clone());
    parts.extend(seen.nice.map(|nice| format!("nice {nice}")));
    parts.extend(seen.slice_us.map(|us| format!("slice {} ms", f64::from(us) / 1e3)));
    parts.extend(seen.ops.as_ref().map(|ops| format!("sched_ext scheduler {ops}")));
    parts.extend(seen.cache_aware.map(|on| format!("cache-aware balancing {}", if on { "on" } else { "off" })));
    let cpus: CpuSet = seen.attached.iter().map(|process| process.cpu).collect();
    match seen.attached.len() {
        0 => {}
        1 => parts.push(format!("one process attached, to CPU {cpus}")),
        processes => parts.push(format!("{} processes attached, to CPUs {cpus}", grouped(processes as u64))),
    }
    if parts.is_empty() {
        return "it could not be read back".into();
    }
    parts.join(", ")
}

/// What was seen of its company.
fn beside_it(seen: &CompanyObservation) -> String {
    let processes = match seen.processes {
        0 => "no process at its end".into(),
        1 => "one process".into(),
        several => format!("{} processes", grouped(several.into())),
    };
    format!("{processes}, {:.2} s of CPU time", seen.cpu_s)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn memory_is_told_by_node_with_what_is_far() {
        let memory = MemoryObservation {
            processes: 1,
            bytes_by_node: BTreeMap::from([(0, 72 << 20), (1, 24 << 20), (2, 0)]),
            huge_bytes: 64 << 20,
            remote_share: Some(0.25),
            ..MemoryObservation::default()
        };
        assert_eq!(
            residence(&memory),
            "96.0 MiB: 75.0 % on node 0, 25.0 % on node 1; 25.0 % remote; 64.0 MiB in huge pages"
        );
        let unplaced = MemoryObservation { remote_share: None, hugetlb_bytes: 4 << 20, ..memory };
        assert!(residence(&unplaced).ends_with("on node 1; 64.0 MiB in huge pages, 4.0 MiB in those of hugetlbfs"));
    }
}
