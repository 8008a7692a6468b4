//! Where the programs of a study run: here, in a virtual machine that is booted for it, or on the nodes of a cluster.

use crate::UsageError;
use anyhow::Context;
use launch::Interruptions;
use machine::Machine;
use std::cell::RefCell;
use std::ffi::OsString;
use std::path::PathBuf;
use study::engine::CellStudy;
use study::plan::PlanError;
use study::slurm::{self, QueueError, SlurmSite, Survey};
use study::{Boot, CacheModel, GuestMachine, GuestRunner, Host, HostFacts, Line, Plan, Record, Site};
use vm::{HostProgram, Plugin, Vm};

/// Memory of a virtual machine, in MiB: also what is written instead of the host's files is there.
const MEMORY_MIB: u32 = 4096;

/// An instruction takes 8 ns of the guest's time: what it does must not depend on how much a model slows it down.
const ICOUNT_SHIFT: u8 = 3;

/// Of caches with more sets a part is modelled, of so many. That told of a compilation what all sets tell within 5 %.
const LEAST_SETS: u64 = 2048;

/// Where programs run.
pub(super) enum Venue {
    /// On this machine.
    Here,
    /// In a virtual one, of which this is known.
    Guest(Box<HostFacts>, RefCell<GuestRunner>),
    /// On the nodes of a cluster.
    Cluster(Nodes),
}

/// The nodes of a cluster.
pub(super) struct Nodes {
    /// What is known of one of them.
    facts: Box<HostFacts>,
    /// What can be asked for more of it, where it was asked.
    survey: RefCell<Option<Survey>>,
    /// The folder in which programs run.
    pub(super) directory: PathBuf,
}

impl Nodes {
    fn new(facts: HostFacts, survey: Option<Survey>) -> anyhow::Result<Self> {
        let directory = std::env::current_dir().context("there is no current folder to run programs in")?;
        Ok(Self { facts: facts.into(), survey: survey.into(), directory })
    }
}

impl Venue {
    /// That of `site`, with the machine that it is. A virtual one is booted for it.
    pub(super) fn of(site: &Site) -> anyhow::Result<(Self, Machine)> {
        match site {
            Site::Here => Ok((Self::Here, Machine::host().context("cannot read this machine's topology")?)),
            Site::Vm(guest) => {
                let machine = guest.machine().map_err(UsageError::from)?;
                let (boot, misses) = boot(guest, &machine)?;
                let mut runner = GuestRunner::new(boot, misses);
                let facts = runner.facts().context("no study can be run in a virtual machine")?;
                Ok((Self::Guest(Box::new(facts), runner.into()), machine))
            }
            Site::Slurm(site) => Self::surveyed(site),
        }
    }

    /// The nodes of `site`, with the machine that one of them is, which Slurm chooses.
    fn surveyed(site: &SlurmSite) -> anyhow::Result<(Self, Machine)> {
        let no_study = "no study can be run on Slurm";
        slurm::check().context(no_study)?;
        let held = Interruptions::hold();
        let program = [std::env::current_exe()?.into(), OsString::from("guest")];
        let asked = Survey::begin(site, &program).and_then(|mut survey| {
            let facts = survey.facts(&mut |what| eprintln!("stayput: {what}"))?;
            Ok((survey, facts))
        });
        drop(held);
        if let (Err(QueueError::Interrupted { .. }), Some(signal)) = (&asked, launch::interruption()) {
            launch::die_by(signal);
        }
        let (survey, (facts, machine)) = asked.context(no_study)?;
        Ok((Self::Cluster(Nodes::new(as_exported(facts), Some(survey))?), machine))
    }

    /// The nodes on which the study of `record` was begun, with the machine that it was planned on: Slurm isn't asked for another one.
    pub(super) fn cluster_again<S: CellStudy>(record: &Record<S>) -> anyhow::Result<(Self, Machine)> {
        slurm::check().context("no study can be gone on with on Slurm")?;
        let machine = serde_json::from_value(record.machine.clone()).context("cannot read the journal's machine")?;
        Ok((Self::Cluster(Nodes::new(as_exported(record.host.clone()), None)?), machine))
    }

    /// Nodes that run models, which have the machine that they are made for.
    pub(super) fn cluster_of_model() -> anyhow::Result<Self> {
        slurm::check().context("no study can be run on Slurm")?;
        Ok(Self::Cluster(Nodes::new(HostFacts::of_model(), None)?))
    }

    /// Why conditions can't be brought about there, in a sentence.
    pub(super) fn lacking(&self, conditions: &launch::Conditions) -> Result<Option<String>, PlanError> {
        match self {
            Self::Here => Ok(conditions.lacking()),
            Self::Guest(_, runner) => {
                runner.borrow_mut().lacking(conditions).map_err(|error| PlanError(error.to_string()))
            }
            Self::Cluster(nodes) => match nodes.survey.borrow_mut().as_mut() {
                Some(survey) => survey.lacking(conditions).map_err(|error| PlanError(error.to_string())),
                // It was asked when the study began.
                None => Ok(None),
            },
        }
    }

    /// What part that machine has in the study of `plan`; a model's has none.
    pub(super) fn host(&self, plan: &Plan) -> Host {
        match self {
            _ if plan.subjects.iter().any(|subject| subject.model.is_some()) => Host::Modelled,
            Self::Here => Host::Real,
            Self::Guest(facts, _) | Self::Cluster(Nodes { facts, .. }) => Host::Elsewhere(facts.clone()),
        }
    }
}

/// What a node is, with the variables that its tasks are given: ours.
fn as_exported(facts: HostFacts) -> HostFacts {
    HostFacts { environment: HostFacts::read().environment, ..facts }
}

/// What boots the machine of `guest`, whose tree is `machine`: this very program answers there. And the model of its caches, where misses
/// are counted.
fn boot(guest: &GuestMachine, machine: &Machine) -> anyhow::Result<(Boot, Option<CacheModel>)> {
    let say = |what: &str| eprintln!("stayput: {what}");
    let kernel = vm::can_share_files(&say).map_err(UsageError::from)?;
    let overlay = kernel.overlay_module(&say).map_err(UsageError::from)?;
    let config = kernel.config(&say);
    let mut vm = Vm::new(kernel, guest.topology.clone(), launch::companion("stayput-guest")?);
    vm.memory_mib = MEMORY_MIB;
    let program = HostProgram {
        argv: vec![std::env::current_exe()?.into(), OsString::from("guest")],
        folder: std::env::current_dir()?,
        environment: std::env::vars_os().collect(),
    };
    // Lives as long as it may be booted.
    let mut folder = None;
    let mut model = None;
    if guest.misses.is_some() {
        let folder = folder.insert(tempfile::tempdir()?);
        let (tree, report) = (folder.path().join("machine.json"), folder.path().join("misses.json"));
        std::fs::write(&tree, serde_json::to_vec(machine)?)?;
        let arguments = [
            format!("machine={}", tree.display()),
            format!("out={}", report.display()),
            "tasks=on".to_owned(),
            format!("least-sets={LEAST_SETS}"),
        ];
        let library = launch::companion("libstayput_misses.so")?;
        vm.plugin = Some(Plugin { library, arguments: arguments.into() });
        vm.icount_shift = Some(ICOUNT_SHIFT);
        model = Some(CacheModel { report });
    }
    let boot = move || {
        // What another boot missed isn't this one's.
        folder.iter().for_each(|folder| drop(std::fs::remove_file(folder.path().join("misses.json"))));
        match vm.boot(program.clone(), overlay.clone(), config.clone()) {
            Ok(guest) => Ok(Box::new(guest) as Box<dyn Line>),
            Err(error) => Err(error.to_string()),
        }
    };
    Ok((Box::new(boot), model))
}
