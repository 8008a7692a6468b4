//! What the event loop waits for: signals, output, and the deadline.

use crate::capture::{Captured, Stream};
use crate::log::Log;
use crate::signals::{Arrival, CUT_SHORT, Caught, Inherited, mask_of_waits};
use crate::standstill::{Standstill, Standstills, TICK};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};
use nix::sys::signal::SigSet;
use nix::sys::time::TimeSpec;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Everything that can wake us while the program runs.
pub(crate) struct Events {
    caught: Caught,
    streams: Vec<Stream>,
    deadline: Option<Instant>,
    /// What hangs up when the run is to end; none once it has.
    over: Option<OwnedFd>,
    /// Signals that are blocked while we sleep.
    mask: Option<SigSet>,
    /// Stretches in which nothing went on.
    pub(crate) standstills: Standstills,
}

impl Events {
    pub(crate) fn new(caught: Caught, pipes: Option<[File; 2]>, over: Option<OwnedFd>) -> Self {
        Self {
            caught,
            streams: pipes.into_iter().flatten().map(Stream::new).collect(),
            deadline: None,
            over,
            mask: mask_of_waits(),
            standstills: Standstills::new(),
        }
    }

    /// Writes output to `log` as well.
    pub(crate) fn log_to(&mut self, log: &Log) {
        self.streams.iter_mut().for_each(|stream| stream.log_to(log.clone()));
    }

    /// What a worker is to inherit of signals.
    pub(crate) fn inherited(&self) -> Inherited {
        self.caught.inherited()
    }

    /// Sets the time at which [`Events::overdue`] becomes true.
    pub(crate) fn set_deadline(&mut self, deadline: Option<Instant>) {
        self.deadline = deadline;
    }

    /// Whether the program has run out of time.
    pub(crate) fn overdue(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Sleeps until a child changes its state, a signal or output arrives, the run is to end, one of `others` can be read, the deadline is there,
    /// `at_most` or a [tick](TICK) is over; takes the output and returns the signals.
    pub(crate) fn wait<'a>(
        &'a mut self,
        at_most: Option<Duration>,
        others: impl IntoIterator<Item = BorrowedFd<'a>>,
    ) -> Vec<Arrival> {
        let to_deadline = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let timeout = [to_deadline, at_most].into_iter().flatten().fold(TICK, Duration::min);
        let mut polled = vec![PollFd::new(self.caught.fd(), PollFlags::POLLIN)];
        let streams = self.streams.iter().filter_map(Stream::fd);
        polled.extend(streams.map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        let of_streams = 1..polled.len();
        polled.extend(self.over.iter().map(|over| PollFd::new(over.as_fd(), PollFlags::POLLIN)));
        let of_over = of_streams.end..polled.len();
        polled.extend(others.into_iter().map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        // An interrupted poll is one that a signal woke, which is what it is for.
        let asleep = Instant::now();
        let _: Result<_, Errno> = nix::poll::ppoll(&mut polled, Some(TimeSpec::from(timeout)), self.mask);
        self.standstills.woke(timeout, asleep.elapsed());
        let output = polled[of_streams].iter().any(|fd| fd.any().unwrap_or(true));
        let is_over = polled[of_over].iter().any(|fd| fd.any().unwrap_or(true));
        drop(polled);
        if output {
            self.streams.iter_mut().for_each(Stream::drain);
        }
        let mut arrivals = self.caught.take();
        if is_over {
            self.over = None;
            arrivals.push(Arrival { signal: CUT_SHORT, sent: true });
        }
        if self.caught.take_continued() {
            self.standstills.continued();
        }
        arrivals
    }

    /// Whether the program, which has ended, stood still while it ran.
    pub(crate) fn standstill(&mut self) -> Option<Standstill> {
        // We may have been stopped until the program had ended; other signals were noted when they came.
        self.caught.take();
        if self.caught.take_continued() {
            self.standstills.continued();
        }
        self.standstills.found()
    }

    /// The captured output; empty when it was not captured.
    pub(crate) fn finish(self) -> [Captured; 2] {
        let mut captured = self.streams.into_iter().map(Stream::finish);
        [(); 2].map(|()| captured.next().unwrap_or_default())
    }
}
