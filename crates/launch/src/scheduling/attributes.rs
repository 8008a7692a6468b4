//! How the kernel's own scheduler treats one thread: class, nice value and slice (sched_setattr(2)), set and read back.
//!
//! All three are inherited by threads, by fork and by exec, the slice too, as long as nobody sets `SCHED_FLAG_RESET_ON_FORK`.

use super::Scheduling;
use crate::conditions::Part;
use machine::linux::Tid;
use nix::errno::Errno;
use std::fmt;
use std::mem::size_of;

/// `struct sched_attr` of linux/sched/types.h in its first version, which every kernel with these calls takes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    /// In nanoseconds; of an ordinary thread its slice, since Linux 6.12.
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// A scheduling class, by its number in linux/sched.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class(u32);

impl Class {
    const OTHER: Self = Self(libc::SCHED_OTHER as u32);
    const BATCH: Self = Self(libc::SCHED_BATCH as u32);
    const IDLE: Self = Self(libc::SCHED_IDLE as u32);

    /// Whether nice values are of effect in it.
    fn has_nice(self) -> bool {
        self == Self::OTHER || self == Self::BATCH
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("other"),
            1 => f.write_str("fifo"),
            2 => f.write_str("rr"),
            3 => f.write_str("batch"),
            5 => f.write_str("idle"),
            6 => f.write_str("deadline"),
            7 => f.write_str("ext"),
            number => write!(f, "class {number}"),
        }
    }
}

/// What the kernel says of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attributes {
    pub(super) class: Class,
    pub(super) nice: i32,
    /// In microseconds; 0 where the kernel doesn't tell, which it does of ordinary threads since Linux 6.12.
    pub(super) slice_us: u32,
}

impl Attributes {
    /// Those of the thread `tid`, as long as it isn't reaped.
    ///
    /// # Errors
    /// `ESRCH` when it is gone.
    pub(super) fn of(tid: Tid) -> Result<Self, Errno> {
        let mut read = SchedAttr::default();
        // SAFETY: the kernel writes at most as many bytes as it is told that there is room for.
        let result = unsafe {
            libc::syscall(libc::SYS_sched_getattr, tid.0, &raw mut read, size_of::<SchedAttr>() as libc::c_uint, 0)
        };
        Errno::result(result)?;
        let class = Class(read.policy);
        let is_fair = class.has_nice() || class == Class::IDLE;
        let slice_us = if is_fair { read.runtime / 1000 } else { 0 };
        Ok(Self { class, nice: read.nice, slice_us: u32::try_from(slice_us).unwrap_or(u32::MAX) })
    }
}

impl fmt::Display for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.class)?;
        if self.class.has_nice() {
            write!(f, ", nice {}", self.nice)?;
        }
        if self.slice_us > 0 {
            write!(f, ", slice {} ms", f64::from(self.slice_us) / 1e3)?;
        }
        Ok(())
    }
}

/// What is asked for of each thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    class: Class,
    nice: Option<i32>,
    slice_us: Option<u32>,
}

impl Asked {
    /// What this way of scheduling asks of threads; none where it asks nothing of them.
    pub(super) fn of(scheduling: &Scheduling) -> Option<Self> {
        let ordinary = Self { class: Class::OTHER, nice: None, slice_us: None };
        match scheduling {
            Scheduling::Batch => Some(Self { class: Class::BATCH, ..ordinary }),
            Scheduling::Idle => Some(Self { class: Class::IDLE, ..ordinary }),
            Scheduling::Nice(nice) => Some(Self { nice: Some(*nice), ..ordinary }),
            Scheduling::SliceUs(us) => Some(Self { slice_us: Some(*us), ..ordinary }),
            _ => None,
        }
    }

    /// Whether a thread with these attributes is as asked.
    pub(super) fn is(self, read: Attributes) -> bool {
        self.class == read.class
            && self.nice.is_none_or(|nice| nice == read.nice)
            && self.slice_us.is_none_or(|us| us == read.slice_us)
    }

    /// Sets it for the calling thread, whose nice value stays unless another is asked for. Without a slice that is asked for it
    /// has the kernel's.
    ///
    /// # Errors
    /// What the kernel says.
    pub(super) fn apply(self) -> Result<(), Errno> {
        let nice = match self.nice {
            Some(nice) => nice,
            None => Attributes::of(Tid::CALLER)?.nice,
        };
        let set = SchedAttr {
            size: size_of::<SchedAttr>() as u32,
            policy: self.class.0,
            nice,
            runtime: self.slice_us.map_or(0, |us| u64::from(us) * 1000),
            ..SchedAttr::default()
        };
        // SAFETY: the kernel only reads as many bytes as `size` says that there are.
        Errno::result(unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const set, 0) }).map(drop)
    }

    /// Sets it for a thread that ends at once, and gives what the kernel made of it.
    ///
    /// # Errors
    /// What the kernel says.
    pub(super) fn tried(self) -> Result<Attributes, Errno> {
        let tried = std::thread::spawn(move || self.apply().and_then(|()| Attributes::of(Tid::CALLER)));
        tried.join().unwrap_or(Err(Errno::EAGAIN))
    }
}

/// What the child does for it.
pub(crate) struct SchedulingForChild(Option<Asked>);

impl SchedulingForChild {
    pub(super) fn new(scheduling: &Scheduling) -> Self {
        Self(Asked::of(scheduling))
    }

    /// # Safety
    /// As of [`ForChild::apply`](crate::conditions::ForChild::apply).
    pub(crate) unsafe fn apply(&self) -> Result<(), (Part, Errno)> {
        let Some(asked) = self.0 else { return Ok(()) };
        asked.apply().map_err(|errno| (Part::Scheduling, errno))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_is_read_back_of_a_thread_and_of_no_other() {
        let before = Attributes::of(Tid::CALLER).unwrap();
        let batch = Asked::of(&Scheduling::Batch).unwrap();
        let tried = batch.tried().unwrap();
        assert!(batch.is(tried) && tried.class == Class::BATCH, "{tried}");
        assert_eq!(tried.nice, before.nice);
        assert!(!batch.is(before));
        assert_eq!(Attributes::of(Tid::CALLER).unwrap(), before);
        let nicer = Asked::of(&Scheduling::Nice(before.nice.min(18) + 1)).unwrap();
        assert!(nicer.is(nicer.tried().unwrap()) && !nicer.is(tried));
    }

    #[test]
    fn one_that_is_gone_has_no_attributes() {
        assert_eq!(Attributes::of(Tid(libc::pid_t::MAX)), Err(Errno::ESRCH));
    }

    #[test]
    fn attributes_are_told_as_far_as_they_matter() {
        let read = Attributes { class: Class::OTHER, nice: -3, slice_us: 3500 };
        assert_eq!(read.to_string(), "other, nice -3, slice 3.5 ms");
        assert_eq!(Attributes { class: Class::IDLE, ..read }.to_string(), "idle, slice 3.5 ms");
        assert_eq!(Attributes { class: Class(1), nice: 0, slice_us: 0 }.to_string(), "fifo");
    }
}
