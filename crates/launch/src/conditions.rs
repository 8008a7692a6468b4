//! Under which conditions a program runs, besides where its threads go: its memory, its scheduler, its company.
//!
//! They are brought about in this order, and undone in the reverse one: the scheduler of the whole machine, its use of huge
//! pages, company, and then, in the child before it becomes the program, what it inherits of memory policy and scheduling class. Each is read back; where one
//! was not in force for all of the run, the run says why ([`Launched::not_in_force`](crate::Launched::not_in_force)).

use crate::LaunchError;
use crate::company::{Company, CompanyInForce, CompanyObservation};
use crate::huge_pages::{HugePages, HugePagesInForce};
use crate::memory::{MemoryForChild, MemoryPolicy};
use crate::scheduling::{Scheduling, SchedulingForChild, SchedulingInForce, SchedulingObservation};
use nix::errno::Errno;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a run is under, besides its placement; each is as it would be anyway unless something else is said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Conditions {
    /// From which NUMA nodes its memory comes.
    pub memory: MemoryPolicy,
    /// Whether its memory is in huge pages.
    pub huge_pages: HugePages,
    /// Who schedules its threads, and how.
    #[serde(rename = "sched")]
    pub scheduling: Scheduling,
    /// What runs beside it; none is nothing.
    #[serde(rename = "beside")]
    pub company: Option<Company>,
}

impl Conditions {
    /// Whether nothing is asked for.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The commands that run for it beside the program, each as words: its company, and the loader of its scheduler.
    pub fn commands(&self) -> Vec<Vec<String>> {
        let loader = match &self.scheduling {
            Scheduling::Ext(command) => shell_words::split(command).ok(),
            _ => None,
        };
        self.company.as_ref().map(Company::argv).into_iter().chain(loader).collect()
    }

    /// These of one of several programs, with what is said of all of them where it says nothing itself.
    pub(crate) fn within(&self, all: &Self) -> Self {
        fn or<T: Clone + Default + PartialEq>(own: &T, of_all: &T) -> T {
            if *own == T::default() { of_all.clone() } else { own.clone() }
        }
        Self {
            memory: or(&self.memory, &all.memory),
            huge_pages: or(&self.huge_pages, &all.huge_pages),
            scheduling: or(&self.scheduling, &all.scheduling),
            company: None,
        }
    }

    /// What of them concerns the whole machine, and so can't be one program's among several whose `all` is another, as its level.
    pub(crate) fn of_whole_machine(&self, all: &Self) -> Option<String> {
        let company = self.company.as_ref().filter(|_| self.company != all.company);
        let huge_pages = Some(self.huge_pages).filter(|level| *level == HugePages::Always && *level != all.huge_pages);
        let scheduling =
            Some(&self.scheduling).filter(|level| level.is_of_whole_machine() && **level != all.scheduling);
        (company.map(|company| format!("company '{company}'")))
            .or_else(|| huge_pages.map(|level| format!("huge-pages={level}")))
            .or_else(|| scheduling.map(|level| format!("sched={level}")))
    }

    /// Why this machine or its kernel can't bring them about, in a sentence; none when it can as far as can be told beforehand.
    pub fn lacking(&self) -> Option<String> {
        (self.memory.lacking())
            .or_else(|| self.huge_pages.lacking())
            .or_else(|| self.scheduling.lacking())
            .or_else(|| self.company.as_ref().and_then(Company::lacking))
    }

    /// Brings about what is around the program, for as long as the answer lives.
    ///
    /// # Errors
    /// [`LaunchError`], when it can't be; nothing is left of it then.
    pub(crate) fn begin(&self) -> Result<InForce, LaunchError> {
        let scheduling = self.scheduling.begin()?;
        let huge_pages = self.huge_pages.begin()?;
        let company = self.company.as_ref().map(Company::begin).transpose()?;
        Ok(InForce { company, huge_pages, scheduling })
    }

    /// What the child does to itself before it becomes the program.
    pub(crate) fn for_child(&self) -> ForChild {
        ForChild { memory: MemoryForChild::new(&self.memory, self.huge_pages), scheduling: self.scheduling.for_child() }
    }
}

/// A part of the conditions that the child sets for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The memory policy.
    Memory = 1,
    /// The use of huge pages.
    HugePages = 2,
    /// The scheduling class, nice value or slice.
    Scheduling = 3,
}

impl Part {
    pub(crate) const ALL: [Self; 3] = [Self::Memory, Self::HugePages, Self::Scheduling];
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "the memory policy",
            Self::HugePages => "the use of huge pages",
            Self::Scheduling => "how it is to be scheduled",
        })
    }
}

/// What is around the program while it runs. It ends with this, company first.
pub(crate) struct InForce {
    company: Option<CompanyInForce>,
    huge_pages: HugePagesInForce,
    scheduling: SchedulingInForce,
}

impl InForce {
    /// Ends it when the program has ended, and says what was seen of it until then.
    pub(crate) fn end(mut self) -> Around {
        let company = self.company.as_ref().map(CompanyInForce::observation);
        let scheduling = self.scheduling.observation();
        let lost = self.scheduling.lost();
        let not_in_force =
            lost.or(self.huge_pages.lost()).or_else(|| self.company.as_mut().and_then(CompanyInForce::lost));
        Around { company, scheduling, not_in_force }
    }
}

/// What was seen of what was around a program until it had ended.
#[derive(Default)]
pub(crate) struct Around {
    pub(crate) company: Option<CompanyObservation>,
    pub(crate) scheduling: SchedulingObservation,
    /// Why it was not in force until then, in a sentence, if it wasn't.
    pub(crate) not_in_force: Option<String>,
}

/// What the child does to itself: made before it starts, since it must not allocate memory.
pub(crate) struct ForChild {
    memory: MemoryForChild,
    scheduling: SchedulingForChild,
}

impl ForChild {
    /// Whether the child changes its memory, which then must not be ours.
    pub(crate) fn changes_memory(&self) -> bool {
        self.memory.changes_memory()
    }

    /// Sets all of it for the calling thread.
    ///
    /// # Errors
    /// The first that the kernel refused, and what it said.
    ///
    /// # Safety
    /// It makes system calls only, so a child that shares our memory may call it, unless it [changes](Self::changes_memory) that; no other
    /// may.
    pub(crate) unsafe fn apply(&self) -> Result<(), (Part, Errno)> {
        // SAFETY: as for this function.
        unsafe {
            self.memory.apply()?;
            self.scheduling.apply()
        }
    }
}
