//! What is watched while it is being looked at: profiles of the time so far, and of the last period.

use crate::collector::{Collector, Counted, Refused};
use crate::period;
use crate::profile::Profile;
use crate::watching::{BETWEEN_SEARCHES, ProfileError, Profiled, Start, Target, counted_profile};
use launch::{Interruptions, interruption};
use machine::Machine;
use std::io;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

/// What there is to see at one moment.
#[derive(Clone, Debug)]
pub struct Look {
    /// All since the beginning.
    pub whole: Profile,
    /// What happened since the look before; potentials are those of the whole, which has more to judge by.
    pub period: Profile,
}

/// A target that is being watched in the kernel.
pub struct Live<'a> {
    target: &'a Target,
    machine: &'a Machine,
    collector: Option<Collector<'a>>,
    start: Option<Start>,
    at_most: Option<Duration>,
    begun: Instant,
    searched: Instant,
    /// What the last look saw.
    before: Counted,
    /// What was counted in all, once that is over.
    end: Option<Counted>,
}

/// Watches `target` in the kernel while `view` looks at it, which returns when it has seen enough. The profile is that of the
/// time until the target ended, `at_most` was over, or the view returned; `between` runs then, before a command's end is awaited.
///
/// # Errors
/// [`ProfileError`]; what the view itself failed by is beside the profile.
pub fn profile(
    target: &Target,
    at_most: Option<Duration>,
    machine: &Machine,
    view: impl FnOnce(&mut Live<'_>) -> io::Result<()>,
    between: impl FnOnce(&dyn Fn() -> bool),
) -> Result<(Profiled, io::Result<()>), ProfileError> {
    let mut memory = MaybeUninit::uninit();
    let mut collector = Collector::load(&mut memory, target.watched()).map_err(ProfileError::Live)?;
    let _held = Interruptions::hold();
    if let Target::Running(running) = target {
        collector.watch(&running.processes())?;
    }
    let start = match target {
        Target::Command(command) => Some(Start::new(command.clone())),
        _ => None,
    };
    let before = collector.snapshot()?;
    if let Some(start) = &start {
        start.go();
    }
    let begun = Instant::now();
    let mut live =
        Live { target, machine, collector: Some(collector), start, at_most, begun, searched: begun, before, end: None };
    let seen = view(&mut live);
    live.stop()?;
    if let Some(start) = &live.start {
        between(&|| start.is_over());
    }
    let Live { start, before, end, .. } = live;
    let launched = start.map(Start::end).transpose()?;
    let profile = counted_profile(target, machine, end.unwrap_or(before));
    Ok((Profiled { profile, launched, refused: None, trace_failure: None }, seen))
}

impl Live<'_> {
    /// The machine that it runs on.
    pub fn machine(&self) -> &Machine {
        self.machine
    }

    /// Whether somebody asked this process to end, by a signal.
    pub fn is_interrupted(&self) -> bool {
        interruption().is_some()
    }

    /// Why nothing more is counted, if that is so: the target has ended, or the time is over.
    ///
    /// # Errors
    /// [`Refused`], where the kernel's counters can't be read.
    pub fn ending(&mut self) -> Result<Option<&'static str>, Refused> {
        let is_late = self.at_most.is_some_and(|at_most| self.begun.elapsed() >= at_most);
        let over = match (&self.start, self.target) {
            (Some(start), _) if start.is_over() => Some("the command has ended"),
            (None, Target::Running(running)) if running.processes().is_empty() => Some("what was watched has ended"),
            _ if is_late => Some("the time of --for is over"),
            _ => None,
        };
        if over.is_some() {
            self.stop()?;
        }
        // What is moved into a control group meanwhile.
        if let (Target::Running(running @ launch::Target::Group(_)), Some(collector)) =
            (self.target, &mut self.collector)
            && self.searched.elapsed() >= BETWEEN_SEARCHES
        {
            collector.watch(&running.processes())?;
            self.searched = Instant::now();
        }
        Ok(over)
    }

    /// What there is to see now.
    ///
    /// # Errors
    /// [`Refused`], where the kernel's counters can't be read.
    pub fn look(&mut self) -> Result<Look, Refused> {
        let now = match (&self.collector, &self.end) {
            (Some(collector), _) => collector.snapshot()?,
            (None, Some(end)) => end.clone(),
            (None, None) => self.before.clone(),
        };
        let period = period::between(&self.before, &now);
        self.before = now.clone();
        let whole = counted_profile(self.target, self.machine, now);
        let mut period = counted_profile(self.target, self.machine, period);
        for program in &mut period.programs {
            if let Some(judged) = whole.programs.iter().find(|judged| judged.name == program.name) {
                program.potential = judged.potential;
                program.potential_reason.clone_from(&judged.potential_reason);
                program.potential_percent = judged.potential_percent;
            }
        }
        Ok(Look { whole, period })
    }

    /// Counts no more.
    fn stop(&mut self) -> Result<(), Refused> {
        if let Some(collector) = self.collector.take() {
            self.end = Some(collector.finish()?);
        }
        Ok(())
    }
}
