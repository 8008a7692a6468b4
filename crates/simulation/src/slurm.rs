//! Simulations on the nodes of a cluster: each task takes some samples, and the study has the same bytes as on one machine.
//!
//! The cluster has no part in the plan, which says what is simulated: a study that was begun on one machine can be gone on with on a cluster,
//! and the other way round. What is of the cluster is in the folder beside the journal as long as the study isn't at its end.

use crate::plan::SimulationPlan;
use crate::run::{RunError, Simulator, machines, some_at_a_time};
use machine::Machine;
use rayon::ThreadPoolBuilder;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use study::engine::{EngineError, Event, RunnerError};
use study::sample::Sample;
use study::session::Session;
use study::slurm::{self, BlockWriter, Cluster, Distributed, Folder, SlurmSite, Task, TaskEnd, TaskError};
use study::{Ending, Journal};

/// A study is cut into so many blocks for each of the nodes that simulate at a time: a node that is quicker than others takes more of them,
/// and what a lost one has done is little.
const BLOCKS_OF_A_NODE: u64 = 4;

/// Slurm takes a thousand tasks as one array where nobody has told it otherwise.
const MOST_BLOCKS: u64 = 1000;

/// What is under way of a study on a cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    /// Where its blocks run.
    pub site: SlurmSite,
    /// What is simulated.
    pub plan: SimulationPlan,
    /// The machine that is.
    pub machine: Machine,
    /// The folder in which the command was given.
    pub directory: PathBuf,
    /// So many samples are a block.
    samples: u32,
    /// The version of this program: another one's samples may be others.
    version: String,
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

impl Assignment {
    /// A new one.
    pub fn new(site: SlurmSite, plan: SimulationPlan, machine: Machine, directory: PathBuf) -> Self {
        let blocks = (u64::from(site.nodes) * BLOCKS_OF_A_NODE).min(MOST_BLOCKS);
        let samples = plan.samples().div_ceil(blocks).max(1) as u32;
        Self { site, plan, machine, directory, samples, version: VERSION.into() }
    }

    /// The one that is under way in `folder`.
    fn read(folder: &Folder) -> io::Result<Self> {
        folder.check()?;
        folder.read(&Self::path(folder))
    }

    fn path(folder: &Folder) -> PathBuf {
        folder.path().join("assignment.json")
    }

    /// What is under way of the journal at `path`, by the journal's name alone.
    ///
    /// # Errors
    /// When that holds no simulation, or nothing of it is under way, in a sentence.
    pub fn attached(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let record = Journal::<SimulationPlan>::read(path).map_err(|error| error.to_string())?;
        let folder = Folder::beside(path);
        match Self::read(&folder) {
            Ok(found) if found.plan == record.plan => Ok(found),
            Ok(_) => Err(format!(
                "{} is of another simulation than {shown}; give the command again that began it",
                folder.path().display()
            )),
            Err(error) => Err(format!(
                "{} doesn't say what is under way of {shown} ({error}); give the command again that began it",
                folder.path().display()
            )),
        }
    }

    /// This one, as it goes on with what is under way in `folder`, if anything is: what is in the queue keeps its name, and its blocks.
    fn gone_on_with(self, folder: &Folder) -> Self {
        match Self::read(folder) {
            Ok(found) if found.plan == self.plan && found.machine == self.machine && found.version == self.version => {
                Self { site: found.site.gone_on_with(&self.site), samples: found.samples, ..self }
            }
            _ => self,
        }
    }

    /// The blocks that the samples from `first` on are in, with those of each; one that was begun elsewhere has what is left of it.
    fn blocks(&self, first: u32) -> impl Iterator<Item = (u32, Vec<u32>)> + use<> {
        let (samples, all) = (self.samples, self.plan.samples() as u32);
        let end = if first < all { all.div_ceil(samples) } else { 0 };
        (first / samples..end).map(move |block| {
            let from = (block * samples).max(first);
            (block, (from..(block + 1).saturating_mul(samples).min(all)).collect())
        })
    }
}

impl Distributed for SimulationPlan {
    /// The position of a sample.
    type Turn = u32;

    const COMMAND: &'static str = "simulate";

    fn is_of(&self, &position: &u32, sample: &Sample) -> bool {
        let (replicate, point, policy) = self.at(position);
        (sample.sequence, sample.replicate, sample.subject.as_str(), sample.policy.as_str())
            == (position, replicate, self.points[point].name.as_str(), policy)
    }

    fn clock_s(samples: &[Sample]) -> f64 {
        let measured = samples.iter().filter_map(Sample::measurements);
        measured.map(|measured| measured.makespan_s).fold(0.0, |a, b| a + b)
    }

    /// As if one had been simulated after the other: the same bytes whenever, and wherever, it is.
    fn put_at(&self, sample: &mut Sample, clock_s: &mut f64) {
        sample.started_s = *clock_s;
        *clock_s += sample.measurements().map_or(0.0, |measured| measured.makespan_s);
    }

    fn ended(_: &Sample) -> Option<Event<'_>> {
        Some(Event::Sample)
    }

    fn disturbed(_: &Sample) -> Option<Event<'_>> {
        None
    }
}

/// Simulates what is left of the study in `session`, which is kept in the journal at `path`, as `assignment` says; `program` is this one, as
/// nodes find it, with the words that make it a task.
///
/// # Errors
/// When the journal can't be written, the cluster can't go on, or a signal asks us to end.
pub fn simulate_on(
    session: &mut Session<SimulationPlan>,
    path: &Path,
    assignment: Assignment,
    program: Vec<OsString>,
    watch: &mut dyn FnMut(Event),
) -> Result<Ending, RunError> {
    let folder = Folder::beside(path);
    if session.trials().len() as u64 == assignment.plan.samples() && !folder.path().exists() {
        return Ok(Ending::Finished);
    }
    let assignment = assignment.gone_on_with(&folder);
    let unwritten = |error: io::Error| {
        RunError::Cluster(format!("cannot write the study for its tasks to {}: {error}", folder.path().display()))
    };
    folder.make().map_err(unwritten)?;
    folder.write(&Assignment::path(&folder), &assignment).map_err(unwritten)?;
    let blocks = assignment.blocks(session.trials().len() as u32);
    let cluster = Cluster { folder: folder.clone(), program, directory: assignment.directory };
    slurm::run_all(session, &cluster, &assignment.site, blocks, watch).map_err(|error| match error {
        EngineError::Journal(error) => error.into(),
        EngineError::Runner(RunnerError::Interrupted { signal }) => RunError::Interrupted { signal },
        EngineError::Runner(RunnerError::Broken(why)) => RunError::Cluster(why),
    })
}

/// Takes the samples of this task of the submission `number` in `folder`.
pub fn run_task(folder: &Path, number: u32) -> TaskEnd {
    slurm::run_task::<SimulationPlan>(folder, number, run_block)
}

fn run_block(task: &Task<u32>, writer: &mut BlockWriter<Sample>) -> Result<(), TaskError> {
    let assignment = Assignment::read(task.folder).map_err(|error| task.wrong("can't read the study", &error))?;
    if assignment.version != VERSION {
        return Err(TaskError::lasting(format!(
            "node {} has Stayput {VERSION}, and the study was submitted by {}",
            task.node, assignment.version
        )));
    }
    let plan = &assignment.plan;
    if task.turns.iter().any(|&position| u64::from(position) >= plan.samples()) {
        return Err(TaskError::here(format!("block {} is of another plan by now", task.block)));
    }
    let threads = match assignment.site.cpus {
        // Others have the rest of the node, whether or not we are kept from it.
        Some(cpus) => cpus as usize,
        None => {
            slurm::take_all_cpus();
            0
        }
    };
    let pool = ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.map_err(|error| task.wrong("can't start threads", &error))?;
    let failed = |error: RunError| match error {
        RunError::Interrupted { signal } => TaskError::Interrupted { signal },
        other => TaskError::lasting(other.to_string()),
    };
    let machines = machines(plan, &assignment.machine);
    let simulator = Simulator::new(plan, &machines).map_err(|error| failed(error.into()))?;
    pool.install(|| {
        for some in task.turns.chunks(some_at_a_time()) {
            let samples = simulator.samples(some).map_err(failed)?;
            let written = samples.into_iter().try_for_each(|sample| writer.add(sample));
            written.map_err(|error| task.wrong("can't write what it has simulated", &error))?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Simulation;
    use sim::{Parameters, Policy, WorkloadFile};

    /// So many replicates of two points under two policies, on so many nodes.
    fn assignment(replicates: u32, nodes: u32) -> Assignment {
        let machine = Machine::named("sgi-4d340").unwrap();
        let workload = WorkloadFile::named("spin:2").unwrap().workload;
        let simulation = Simulation::new(workload, Parameters { replicates, ..Parameters::default() });
        let points = [10.0, 30.0].map(|ms| simulation.at("quantum_ms", ms).unwrap());
        let plan = SimulationPlan::new(points.into(), &[Policy::Standard, Policy::Light], &machine);
        Assignment::new(SlurmSite { nodes, ..SlurmSite::default() }, plan, machine, PathBuf::new())
    }

    #[test]
    fn blocks_hold_each_sample_once_wherever_a_study_was_left() {
        for (replicates, nodes) in [(1, 1), (1, 8), (7, 3), (100, 4), (1000, 900)] {
            let assignment = assignment(replicates, nodes);
            let all = assignment.plan.samples() as u32;
            for first in [0, 1, all / 3, all - 1, all] {
                let blocks: Vec<(u32, Vec<u32>)> = assignment.blocks(first).collect();
                let samples: Vec<u32> = blocks.iter().flat_map(|(_, samples)| samples.clone()).collect();
                assert_eq!(samples, (first..all).collect::<Vec<_>>(), "{replicates} replicates, {nodes} nodes");
                assert!(blocks.len() as u64 <= MOST_BLOCKS.min(u64::from(nodes) * BLOCKS_OF_A_NODE));
                assert!(blocks.iter().all(|(_, samples)| !samples.is_empty()));
                // A block has the same number, and ends at the same sample, whatever was there before.
                let whole: Vec<(u32, Vec<u32>)> = assignment.blocks(0).collect();
                assert!(blocks.iter().all(|(block, samples)| {
                    whole.iter().any(|(other, of)| other == block && of.last() == samples.last())
                }));
            }
        }
    }

    #[test]
    fn a_sample_is_taken_for_what_it_is_at_its_position_alone() {
        let assignment = assignment(3, 1);
        let machines = machines(&assignment.plan, &assignment.machine);
        let simulator = Simulator::new(&assignment.plan, &machines).unwrap();
        let positions: Vec<u32> = (0..assignment.plan.samples() as u32).collect();
        let samples = simulator.samples(&positions).unwrap();
        for (position, sample) in positions.iter().zip(&samples) {
            let of: Vec<&u32> = positions.iter().filter(|at| assignment.plan.is_of(at, sample)).collect();
            assert_eq!(of, [position]);
            let line = serde_json::to_string(sample).unwrap();
            assert_eq!(serde_json::from_str::<Sample>(&line).unwrap(), *sample, "to the last bit");
        }
        assert_eq!((samples[1].replicate, samples[1].policy.as_str()), (0, "light"));
        assert_eq!((samples[2].subject.as_str(), samples[4].replicate), ("spin:2, quantum_ms 30", 1));
    }
}
