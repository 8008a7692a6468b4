//! A program that is ready to be launched, and its run from its first instruction to its end.

use crate::child::{self, Held, Program, executable_path};
use crate::conditions::InForce;
use crate::counters::Counters;
use crate::events::Events;
use crate::interruption::interruption;
use crate::jobs::Among;
use crate::marks::mark;
use crate::observation::{ConditionsObservation, Exit, Observation};
use crate::openmp::{self, BINDING_VARIABLES};
use crate::reaper::Reaper;
use crate::registry::{Binder, ThreadRegistry};
use crate::residence::MemoryReader;
use crate::scheduling::{Attached, Loads, Scheduling, SchedulingSeen};
use crate::signals::{CUT_SHORT, Caught};
use crate::{Descendants, Input, Launch, LaunchError, Launched, Observe, Unit, poller, stop_cost, tracer};
use machine::linux::energy::EnergyReading;
use machine::linux::{Pid, Tid, affinity};
use machine::{CpuSet, Placement};
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What can be known of a launch before anything is started.
pub(crate) struct Prepared<'a> {
    launch: &'a Launch,
    path: PathBuf,
    placement: Option<Placement>,
    binder: Binder,
    program: Program,
    input: Option<File>,
    notes: Vec<String>,
}

/// A run that is over.
pub(crate) struct Run {
    pub(crate) launched: Launched,
    /// When the program began; none where it was cut short before.
    pub(crate) started: Option<Instant>,
    /// Whether it was killed because its mix was over.
    pub(crate) cut_short: bool,
}

impl<'a> Prepared<'a> {
    /// # Errors
    /// [`LaunchError`], when the program can't be launched so.
    pub(crate) fn new(launch: &'a Launch) -> Result<Self, LaunchError> {
        let name = launch.argv.first().ok_or(LaunchError::NoProgram)?;
        let path = executable_path(name)?;
        let placement = launch.placement.as_ref().map(|placement| usable_placement(placement, launch)).transpose()?;
        let mut notes = Vec::new();
        let binder = binder(placement.as_ref(), launch, &path, &mut notes);
        let environment = environment(placement.as_ref(), launch, binder, &mut notes);
        let program = Program::new(&path, &launch.argv, environment)?;
        let input = launch.input.as_ref().map(Input::open).transpose().map_err(LaunchError::Input)?;
        Ok(Self { launch, path, placement, binder, program, input, notes })
    }

    /// Runs it in what is `in_force` around it, which ends with it, or among others. The caller sees to it that it is the only
    /// run of this process.
    ///
    /// # Errors
    /// [`LaunchError`]; in each case nothing of the program is left running.
    pub(crate) fn run(self, in_force: Option<InForce>, among: Option<Among>) -> Result<Run, LaunchError> {
        let Self { launch, path, placement, binder, program, input, mut notes } = self;
        let (mut hold, over, loads) = match among {
            Some(Among { hold, over, loads }) => (Some(hold), Some(over), Some(loads)),
            None => (None, None, None),
        };
        let attached = (launch.conditions.scheduling == Scheduling::Attached).then(|| {
            let cpus = attachable_cpus(placement.as_ref(), &mut notes)?;
            let loads = loads.map_or_else(|| Loads::new(&cpus), Ok).map_err(LaunchError::system("mmap"))?;
            Ok::<_, LaunchError>(Attached::new(&cpus, loads))
        });
        let attached = attached.transpose()?;
        mark(launch.marks.as_ref(), |marks| &marks.begin)?;
        let reaper = (launch.descendants == Descendants::Kill).then(Reaper::new);
        let caught = Caught::new(launch.descendants == Descendants::Detach).map_err(LaunchError::system("pipe"))?;
        // From here on a signal arrives in `caught`; one that came before, while the program could still be left alone, is heeded now.
        if let Some(signal) = interruption() {
            return Err(LaunchError::Interrupted { signal });
        }
        let mut held = Held::start(program, launch.output, input, caught.inherited(), launch.conditions.for_child())?;
        let mut events = Events::new(caught, held.pipes.take(), over);
        launch.log.iter().for_each(|log| events.log_to(log));
        let mut registry = ThreadRegistry::new(placement.as_ref(), binder, launch.unit, &launch.skip);
        registry.take_slots_by(&launch.roles);
        if launch.free_mpi_helpers {
            registry.free_mpi_helpers();
        }
        registry.watch_scheduling(SchedulingSeen::new(&launch.conditions.scheduling));
        if let Some(attached) = attached {
            registry.attach_processes(attached);
        }
        registry.add_process(held.pid);
        let counters = Counters::attach(held.pid);
        let observe = attach(launch.observe, &path, held.pid, &mut notes);
        if let Some(hold) = &mut hold {
            hold();
        }
        let energy = EnergyReading::now();
        if let Err(cause) = held.release() {
            tracer::reap(held.pid.main_thread());
            return Err(LaunchError::system("write")(cause));
        }
        let mut memory = MemoryReader::new(launch, placement.as_ref().map(Placement::union).as_ref());
        let mut ended = match observe {
            Observe::Trace => tracer::watch(&mut held, &mut registry, &mut events, launch, memory.as_mut()),
            Observe::Poll | Observe::End => {
                if let Some(error) = held.failure(&path) {
                    tracer::reap(held.pid.main_thread());
                    return Err(error);
                }
                let looks = observe == Observe::Poll;
                poller::watch(&mut held, looks.then_some(&mut registry), &mut events, launch, memory.as_mut())
            }
        };
        let energy_j = energy.and_then(|before| EnergyReading::now()?.joules_since(&before));
        let marked = mark(launch.marks.as_ref(), |marks| &marks.end);
        let around = in_force.map(InForce::end).unwrap_or_default();
        if let Some(reaper) = reaper {
            ended.leftovers += reaper.sweep();
        }
        if ended.started.is_none()
            && let Some(error) = held.failure(&path)
        {
            return Err(error);
        }
        let cut_short = ended.interrupted == Some(CUT_SHORT);
        if let Some(signal) = ended.interrupted.filter(|_| !cut_short) {
            return Err(LaunchError::Interrupted { signal });
        }
        marked?;
        let standstill = events.standstill();
        if launch.descendants == Descendants::Detach {
            notes.extend(standstill.map(|standstill| format!("{standstill}, which the time above contains")));
        }
        let [stdout, stderr] = events.finish();
        let findings = registry.finish();
        notes.extend(ended.notes);
        notes.extend(findings.notes);
        let mut conditions = ConditionsObservation::default();
        if let Some(memory) = memory {
            let (seen, of_memory) = memory.finish(observe);
            conditions.memory = Some(Box::new(seen));
            notes.extend(of_memory);
        }
        let usage = ended.usage;
        let (counters, counted_migrations) = counters.read();
        // The held child was in our memory, whose size counts as peak memory of the program that it became. What is not
        // larger than that is ours, and the program's own peak is what it had at its end.
        let max_rss_bytes = if usage.max_rss_bytes > ended.before.max_rss_bytes || findings.peak_rss_bytes == 0 {
            usage.max_rss_bytes.max(findings.peak_rss_bytes)
        } else {
            findings.peak_rss_bytes
        };
        let exit = ended.exit.expect("an observer returns when the command has ended");
        let observation = Observation {
            exit: if ended.timed_out { Exit::TimedOut } else { exit },
            wall_s: ended.wall.unwrap_or_default().as_secs_f64(),
            user_s: usage.user.as_secs_f64(),
            system_s: usage.system.as_secs_f64(),
            max_rss_bytes,
            voluntary_switches: usage.voluntary_switches,
            involuntary_switches: usage.involuntary_switches,
            migrations: findings.migrations.or(counted_migrations),
            minor_faults: usage.minor_faults,
            major_faults: usage.major_faults,
            read_bytes: Some(usage.read_bytes),
            written_bytes: Some(usage.written_bytes),
            energy_j,
            counters,
            threads: findings.threads,
            stops: Some(ended.stops),
            stops_s: Some((stop_cost::of(ended.stops) + ended.reading).as_secs_f64()),
            leftovers: if ended.timed_out || cut_short { 0 } else { ended.leftovers },
            conditions: ConditionsObservation {
                company: around.company.map(Box::new),
                scheduling: findings.scheduling.map(|seen| Box::new(seen.with_around(around.scheduling))),
                ..conditions
            },
            notes,
        };
        let launched = Launched { observation, stdout, stderr, standstill, not_in_force: around.not_in_force };
        Ok(Run { launched, started: ended.started, cut_short })
    }
}

/// The placement as long as the thread count asks, on CPUs that we may use.
fn usable_placement(placement: &Placement, launch: &Launch) -> Result<Placement, LaunchError> {
    let empty = |thread| LaunchError::EmptySlot { policy: placement.policy.clone(), thread };
    if placement.slots.is_empty() {
        return Err(empty(0));
    }
    let length = match (launch.unit, launch.threads) {
        (Unit::Thread, Some(threads)) => (threads as usize).max(1),
        _ => placement.slots.len(),
    };
    let placement =
        Placement { policy: placement.policy.clone(), slots: (0..length).map(|i| placement.slot(i).clone()).collect() };
    if let Some(thread) = placement.slots.iter().position(CpuSet::is_empty) {
        return Err(empty(thread));
    }
    let allowed = affinity::allowed(Tid::CALLER).map_err(LaunchError::system("sched_getaffinity"))?;
    let forbidden = placement.union().difference(&allowed);
    if !forbidden.is_empty() {
        return Err(LaunchError::ForbiddenCpus { forbidden, allowed });
    }
    Ok(placement)
}

/// The CPUs that processes may be attached to: those of the placement, whose slots are then given to nobody, else all that we may
/// use.
fn attachable_cpus(placement: Option<&Placement>, notes: &mut Vec<String>) -> Result<CpuSet, LaunchError> {
    let Some(placement) = placement else {
        return affinity::allowed(Tid::CALLER).map_err(LaunchError::system("sched_getaffinity"));
    };
    let union = placement.union();
    if placement.slots.iter().any(|slot| *slot != union) {
        notes.push(format!(
            "attached: each process has one of CPUs {union} of placement {} for life, and no thread has a place of its own",
            placement.policy
        ));
    }
    Ok(union)
}

/// Who binds the threads. Variables can't skip a thread or bind processes; and when all slots are alike, the mask that
/// the program starts with does all that is needed.
fn binder(placement: Option<&Placement>, launch: &Launch, path: &Path, notes: &mut Vec<String>) -> Binder {
    let Some(placement) = placement.filter(|_| launch.conditions.scheduling != Scheduling::Attached) else {
        return Binder::Nobody;
    };
    let alike = placement.slots.iter().all(|slot| *slot == placement.slots[0]);
    if launch.unit == Unit::Process || !launch.skip.is_empty() || !launch.roles.is_empty() || alike {
        return Binder::Creation;
    }
    let linked = Vec::from_iter(openmp::linked_runtimes(path));
    if linked.len() > 1 {
        notes.push(
            "it links both libgomp and libomp, whose variables would work against each other: its threads were bound in \
             order of creation instead"
                .into(),
        );
    }
    if let [only] = linked[..] { Binder::Runtime(only) } else { Binder::Creation }
}

/// Our environment, with the variables that bind OpenMP threads being ours alone.
fn environment(
    placement: Option<&Placement>,
    launch: &Launch,
    binder: Binder,
    notes: &mut Vec<String>,
) -> Vec<(OsString, OsString)> {
    const OMP_NUM_THREADS: &str = "OMP_NUM_THREADS";
    let attached = launch.conditions.scheduling == Scheduling::Attached;
    let mut environment: Vec<(OsString, OsString)> = env::vars_os().collect();
    let mut set = |name: &OsStr, value: OsString| {
        environment.retain(|(other, _)| other != name);
        environment.push((name.into(), value));
    };
    if launch.unit == Unit::Thread {
        let threads = match (launch.threads, placement) {
            (Some(threads), _) => Some(threads as usize),
            (None, Some(placement)) if !attached && env::var_os(OMP_NUM_THREADS).is_none() => {
                Some(placement.slots.len())
            }
            _ => None,
        };
        if let Some(threads) = threads {
            set(OMP_NUM_THREADS.as_ref(), threads.to_string().into());
        }
    }
    for (name, value) in &launch.env {
        set(name, value.clone());
    }
    if placement.is_some() || attached || !launch.keep_binding_variables {
        let is_binding = |(name, _): &(OsString, OsString)| BINDING_VARIABLES.iter().any(|binding| name == binding);
        let removed: Vec<_> = environment.extract_if(.., |variable| is_binding(variable)).collect();
        if !removed.is_empty() {
            let names = removed.iter().map(|(name, _)| name.to_string_lossy()).collect::<Vec<_>>().join(", ");
            notes.push(format!("removed from the program's environment, because they bind threads: {names}"));
        }
    }
    if let (Binder::Runtime(runtime), Some(placement)) = (binder, placement) {
        let asked = environment
            .iter()
            .find(|(name, _)| name == OMP_NUM_THREADS)
            .and_then(|(_, value)| value.to_str()?.split(',').next()?.trim().parse().ok());
        let length = placement.slots.len().max(asked.unwrap_or(0));
        let slots: Vec<CpuSet> = (0..length).map(|i| placement.slot(i).clone()).collect();
        environment.extend(runtime.variables(&slots).into_iter().map(|(name, value)| (name.into(), value.into())));
    }
    environment
}

/// Attaches to the held child if it is to be traced and can be, else notes why it is polled; returns which it is.
fn attach(wanted: Observe, path: &Path, pid: Pid, notes: &mut Vec<String>) -> Observe {
    let polled_because = match wanted {
        Observe::End => return Observe::End,
        Observe::Poll => "asked for".into(),
        Observe::Trace if child::gains_rights(path) => {
            "a traced program would not get its owner's rights (setuid, setgid)".into()
        }
        Observe::Trace => match tracer::seize(pid) {
            Ok(()) => return Observe::Trace,
            Err(errno) => format!("ptrace is refused here: {}", errno.desc()),
        },
    };
    notes.push(format!("polled ({polled_because}): {}", poller::LIMITS));
    Observe::Poll
}
