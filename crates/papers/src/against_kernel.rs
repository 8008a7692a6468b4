//! What the cache-affinity report's affinity would change against today's kernel: columns of ours beside its Table V, and what
//! they come to.

use crate::evidence::{Evidence, todays_kernel};
use crate::printed::Table;
use crate::reproduction::ReproducedCell;
use crate::simulated::{EFFECT_POLICIES, Simulated};
use serde::{Serialize, Serializer};
use sim::{Policy, Release};
use simulation::Change;
use simulation::metrics::{MAKESPAN, MISSES};

/// The table of effects, which has the columns.
const TABLE: &str = "table-5";

/// What policies change against a kernel's own scheduler, in simulations of the same workloads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AgainstKernel {
    /// The kernel whose scheduler is modelled.
    #[serde(serialize_with = "number")]
    pub kernel: Release,
    /// The simulated machine.
    pub machine: String,
    /// Replicates of each workload and policy.
    pub replicates: u32,
    /// What each policy changes.
    pub policies: Vec<PolicyEffects>,
}

/// What a policy changes, workload by workload.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PolicyEffects {
    /// The policy.
    pub policy: String,
    /// The workloads, in the order of the table.
    pub workloads: Vec<WorkloadEffect>,
}

/// What a policy changes in a workload.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkloadEffect {
    /// Name of the workload.
    pub workload: String,
    /// Misses for the same work; none where there are none.
    pub misses: Option<Change>,
    /// The time that the whole workload takes; none where it isn't known.
    pub time: Option<Change>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn number<S: Serializer>(release: &Release, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(release.name())
}

impl AgainstKernel {
    /// What light and heavy affinity come to in the report's workloads.
    pub(super) fn new(evidence: &Evidence, machine: &str, replicates: u32) -> Self {
        let effect = |simulated: &Simulated, policy: Policy| {
            let change = |metric| simulated.change_against_kernel(policy, metric).map(Change::from);
            WorkloadEffect { workload: simulated.name().to_owned(), misses: change(&MISSES), time: change(&MAKESPAN) }
        };
        let effects = |policy: Policy| PolicyEffects {
            policy: policy.name().to_owned(),
            workloads: evidence.workloads.iter().map(|simulated| effect(simulated, policy)).collect(),
        };
        Self {
            kernel: todays_kernel(),
            machine: machine.to_owned(),
            replicates,
            policies: EFFECT_POLICIES.map(effects).into(),
        }
    }
}

/// What the columns of ours beside a printed table are called: as its own, with the kernel.
pub(super) fn columns(table: &Table) -> impl Iterator<Item = String> {
    let own = (table.name == TABLE).then_some(&table.columns).into_iter().flatten();
    own.map(|column| format!("{column}, against Linux {}", todays_kernel()))
}

/// What they are, after what a printed table shows; empty of a table without them.
pub(super) fn about(table: &Table) -> String {
    if table.name != TABLE {
        return String::new();
    }
    let (ours, kernel) = (table.columns.len(), todays_kernel());
    format!("; the last {ours} columns are ours alone, the same against Linux {kernel}'s own scheduler (eevdf)")
}

/// Their cells in the row of a workload. Nothing is printed there.
pub(super) fn cells(table: &Table, workload: &str, evidence: &Evidence) -> Vec<ReproducedCell> {
    let ours = |column| evidence.workload(workload).effect_against_kernel(column);
    (0..columns(table).count()).map(|column| ReproducedCell::number(None, ours(column))).collect()
}
