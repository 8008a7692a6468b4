//! A trace of every event, in Perfetto's format, which ui.perfetto.dev and its trace processor open.
//!
//! It is written while programs run, so that memory stays bounded, into a file whose name ends in `.incomplete`. At the end, that
//! gets its own name. What a killed profile leaves is a trace up to its last whole packet, and called incomplete.

mod perfetto;
mod seconds;
mod timeline;

use crate::collector::{Collector, Refused};
use libbpf_rs::{RingBuffer, RingBufferBuilder};
use machine::linux::{Pid, Tid, system};
use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use timeline::Timeline;

pub use seconds::CpuTimeline;

/// What is to be traced to where.
#[derive(Clone, Copy, Debug)]
pub struct TraceTo<'a> {
    /// The file.
    pub path: &'a Path,
    /// Room in the kernel for events that are not yet written, in bytes: a power of two, and a page at least.
    pub ring_bytes: u32,
}

impl<'a> TraceTo<'a> {
    /// With room for 500,000 events.
    pub fn file(path: &'a Path) -> Self {
        Self { path, ring_bytes: 16 << 20 }
    }
}

/// How many events are kept until they are written, and how often that is done before one looks whether it is over.
const EVENTS_AT_ONCE: usize = 32_768;
const MOST_ROUNDS: u32 = 32;

/// What a trace has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceSums {
    /// Switches and wake-ups.
    pub events: u64,
    /// Those that are missing, since they came faster than they could be written. The profile counts them all the same.
    pub lost_events: u64,
    /// Size of the file.
    pub bytes: u64,
}

/// A trace can't be written.
#[derive(Debug, thiserror::Error)]
#[error("the trace can't be written to {}", path.display())]
pub struct TraceError {
    /// To which file.
    pub path: PathBuf,
    /// What the system says.
    pub source: io::Error,
}

/// Where a trace is written.
#[derive(Debug)]
pub struct TraceFile {
    path: PathBuf,
    incomplete: PathBuf,
    file: File,
}

impl TraceFile {
    /// Begins a file beside `path`, to which that name is given at the end. What a profile left there that was killed is gone.
    ///
    /// # Errors
    /// [`TraceError`], where no file can be created.
    pub fn create(path: &Path) -> Result<Self, TraceError> {
        let mut name = path.as_os_str().to_owned();
        name.push(".incomplete");
        let incomplete = PathBuf::from(name);
        let failed = |source| TraceError { path: incomplete.clone(), source };
        match fs::remove_file(&incomplete) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => (),
        }
        let file = OpenOptions::new().write(true).create_new(true).open(&incomplete).map_err(failed)?;
        Ok(Self { path: path.to_owned(), incomplete, file })
    }
}

/// Writes what a collector tells.
pub(crate) struct Tracer {
    file: TraceFile,
    ring: RingBuffer<'static>,
    timeline: Rc<RefCell<Timeline>>,
    bytes: u64,
    lost: u64,
    failed: Option<io::Error>,
}

impl Tracer {
    /// Writes what `collector` tells from now on.
    pub fn new(collector: &Collector<'_>, file: TraceFile) -> Result<Self, Refused> {
        let refused = |error: libbpf_rs::Error| Refused(format!("the kernel doesn't let events be read: {error}"));
        let now_ns = |clock| clock_gettime(clock).map_or(0, |now| Duration::from(now).as_nanos() as u64);
        let timeline = Rc::new(RefCell::new(Timeline::new(
            now_ns(ClockId::CLOCK_MONOTONIC),
            now_ns(ClockId::CLOCK_BOOTTIME),
            now_ns(ClockId::CLOCK_REALTIME),
            &system::kernel_release().unwrap_or_default(),
        )));
        let mut builder = RingBufferBuilder::new();
        let told = Rc::clone(&timeline);
        let added = builder.add(collector.events(), move |bytes| {
            told.borrow_mut().take(bytes);
            0
        });
        added.map_err(refused)?;
        let ring = builder.build().map_err(refused)?;
        Ok(Self { file, ring, timeline, bytes: 0, lost: 0, failed: None })
    }

    /// Writes what was told since the last time.
    pub fn take(&mut self, collector: &Collector<'_>) {
        // Whoever reads as fast as others write would never come to an end.
        for _ in 0..MOST_ROUNDS {
            if self.failed.is_some() || self.take_some(collector) < EVENTS_AT_ONCE {
                return;
            }
        }
    }

    /// Writes the next events, and says how many.
    fn take_some(&mut self, collector: &Collector<'_>) -> usize {
        let taken = usize::try_from(self.ring.consume_raw_n(EVENTS_AT_ONCE)).unwrap_or(0);
        let mut timeline = self.timeline.borrow_mut();
        self.lost = collector.untold_events();
        timeline.lose(self.lost);
        let bytes = timeline.bytes();
        match self.file.file.write_all(&bytes) {
            Ok(()) => self.bytes += bytes.len() as u64,
            Err(error) => self.failed = Some(error),
        }
        taken
    }

    /// Writes the rest, once `collector` has stopped.
    pub fn take_all(&mut self, collector: &Collector<'_>) {
        while self.failed.is_none() && self.take_some(collector) > 0 {}
        // What threads have called themselves meanwhile.
        let living: Vec<(u32, u32)> = self.timeline.borrow().living().collect();
        for (tid, tgid) in living {
            if let (Some(name), _) = Pid(tgid as i32).name_and_migrations(Tid(tid as i32)) {
                self.timeline.borrow_mut().name_thread(tid, tgid, &name);
            }
        }
        self.take(collector);
    }

    /// Gives the file its name. A second of it comes along that stands for all, where anybody had a CPU.
    pub fn finish(self) -> Result<(TraceSums, Option<CpuTimeline>), TraceError> {
        let TraceFile { path, incomplete, file } = self.file;
        if let Some(source) = self.failed {
            return Err(TraceError { path: incomplete, source });
        }
        file.sync_all()
            .and_then(|()| fs::rename(&incomplete, &path))
            .map_err(|source| TraceError { path: path.clone(), source })?;
        let mut timeline = self.timeline.borrow_mut();
        let sums = TraceSums { events: timeline.events, lost_events: self.lost, bytes: self.bytes };
        Ok((sums, timeline.representative_second()))
    }

    /// Removes the file, since there was nothing to be traced.
    pub fn discard(self) {
        // That it stays does no harm.
        let _ = fs::remove_file(&self.file.incomplete);
    }
}
