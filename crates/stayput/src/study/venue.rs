//! Where the programs of a study run: here, or in a virtual machine that is booted for it.

use crate::UsageError;
use anyhow::Context;
use machine::Machine;
use std::cell::RefCell;
use std::ffi::OsString;
use study::plan::PlanError;
use study::{Boot, CacheModel, GuestMachine, GuestRunner, Host, HostFacts, Line, Plan, Site};
use vm::{HostProgram, Plugin, Vm};

/// Memory of a virtual machine, in MiB: also what is written instead of the host's files is there.
const MEMORY_MIB: u32 = 4096;

/// An instruction takes 8 ns of the guest's time: what it does must not depend on how much a model slows it down.
const ICOUNT_SHIFT: u8 = 3;

/// Where programs run.
pub(super) enum Venue {
    /// On this machine.
    Here,
    /// In a virtual one, of which this is known.
    Guest(Box<HostFacts>, RefCell<GuestRunner>),
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
        }
    }

    /// Why conditions can't be brought about there, in a sentence.
    pub(super) fn lacking(&self, conditions: &launch::Conditions) -> Result<Option<String>, PlanError> {
        match self {
            Self::Here => Ok(conditions.lacking()),
            Self::Guest(_, runner) => {
                runner.borrow_mut().lacking(conditions).map_err(|error| PlanError(error.to_string()))
            }
        }
    }

    /// What part that machine has in the study of `plan`; a model's has none.
    pub(super) fn host(&self, plan: &Plan) -> Host {
        match self {
            _ if plan.subjects.iter().any(|subject| subject.model.is_some()) => Host::Modelled,
            Self::Here => Host::Real,
            Self::Guest(facts, _) => Host::Guest(facts.clone()),
        }
    }
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
        let arguments =
            [format!("machine={}", tree.display()), format!("out={}", report.display()), "tasks=on".to_owned()];
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
