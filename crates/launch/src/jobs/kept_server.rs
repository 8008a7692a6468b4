//! A server that is started once and goes on from load to load.
//!
//! It is bound nowhere by its start: what is done with it meanwhile is done as with [what runs already](crate::attach). A
//! [supervisor](crate::supervisor) ends it with all that it started, also when we are gone.

use super::service::{Probe, Ready, ServiceFailure, Stop, listens};
use crate::attach::Target;
use crate::capture::Captured;
use crate::interruption::interruption;
use crate::log::Log;
use crate::supervisor::{Charge, Supervisor};
use crate::{LaunchError, executable_path};
use std::ffi::OsString;
use std::fmt;
use std::io::{self, PipeReader, Read};
use std::os::fd::AsRawFd;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How often one looks whether it is ready.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// How long is waited at most for what a server that has ended wrote last.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// How a server is started that is kept.
#[derive(Clone, Debug)]
pub struct KeptServerStart {
    /// Program and arguments.
    pub argv: Vec<OsString>,
    /// Variables on top of ours.
    pub env: Vec<(OsString, OsString)>,
    /// When it is ready.
    pub ready: Ready,
    /// How long it may take until then.
    pub ready_timeout: Duration,
    /// How it is asked to stop.
    pub stop: Stop,
}

/// Why there is no server.
#[derive(Debug)]
pub enum NoServer {
    /// It could not be launched, or we were interrupted.
    Launch(LaunchError),
    /// It was not there when a load could have begun: why, how it ended if it did, and the end of what it wrote.
    Failure(ServiceFailure, Option<String>, String),
}

impl From<LaunchError> for NoServer {
    fn from(error: LaunchError) -> Self {
        Self::Launch(error)
    }
}

/// A server that runs. Dropped, it is killed with all that it started.
pub struct KeptServer {
    supervisor: Supervisor,
    stop: Stop,
    written: Arc<Mutex<Captured>>,
    /// How long it took until it was ready, in seconds.
    pub ready_s: f64,
    /// What there is to bind.
    pub target: Target,
}

impl fmt::Debug for KeptServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptServer").field("target", &self.target).finish_non_exhaustive()
    }
}

impl KeptServer {
    /// Starts it, and returns when it is ready.
    ///
    /// # Errors
    /// [`NoServer`]; nothing of it is left.
    pub fn start(start: &KeptServerStart) -> Result<Self, NoServer> {
        if let Ready::Port(port) = start.ready
            && listens(port)
        {
            return Err(NoServer::Failure(ServiceFailure::PortInUse(port), None, String::new()));
        }
        let path = executable_path(start.argv.first().ok_or(LaunchError::NoProgram)?)?;
        let (output, theirs) = io::pipe().map_err(LaunchError::system("pipe"))?;
        let log = Log::new().map_err(LaunchError::system("memfd_create"))?;
        let (written, closed) = keep(output, log.clone()).map_err(LaunchError::system("clone"))?;
        let begun = Instant::now();
        let charge = Charge::Logged(path, start.argv.clone(), start.env.clone(), theirs.as_raw_fd());
        let mut supervisor = Supervisor::start(charge)?;
        drop(theirs);
        let failure = |supervisor: Supervisor, why: ServiceFailure, how: Option<String>| {
            // What it wrote last may still be on its way; with all that it started, whatever could write more is gone.
            drop(supervisor);
            let _ = closed.recv_timeout(LAST_WORDS);
            let written = written.lock().unwrap_or_else(PoisonError::into_inner);
            NoServer::Failure(why, how, written.text().into_owned())
        };
        let mut probe = Probe::default();
        loop {
            if let Some(signal) = interruption() {
                return Err(LaunchError::Interrupted { signal }.into());
            }
            if let Some(how) = supervisor.ended_within(BETWEEN_LOOKS).map(|ended| ended.how()) {
                return Err(failure(supervisor, ServiceFailure::EndedBeforeReady, Some(how)));
            }
            if probe.is_ready(&start.ready, Some(&log)) {
                break;
            }
            if begun.elapsed() >= start.ready_timeout {
                return Err(failure(supervisor, ServiceFailure::NotReady, None));
            }
        }
        let Ok(target) = Target::process(supervisor.first().0) else {
            return Err(failure(supervisor, ServiceFailure::EndedBeforeReady, None));
        };
        Ok(Self { supervisor, stop: start.stop.clone(), written, ready_s: begun.elapsed().as_secs_f64(), target })
    }

    /// How it ended, if it has, or does `within` so long.
    pub fn ending(&mut self, within: Duration) -> Option<String> {
        self.supervisor.ended_within(within).map(|ended| ended.how())
    }

    /// What it has written so far: the beginning and the end.
    pub fn written(&self) -> String {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).text().into_owned()
    }

    /// Asks it to stop and returns when it has, or is killed because it didn't; sentences that say what was wrong with that.
    pub fn stop(mut self) -> Vec<String> {
        let mut told = Vec::new();
        if self.ending(Duration::ZERO).is_some() {
            return told;
        }
        told.extend(self.stop.ask(self.supervisor.first()).err());
        if self.supervisor.ended_within(self.stop.timeout).is_none() {
            told.push(format!("the server did not stop within {:?} of being asked, and was killed", self.stop.timeout));
        }
        told
    }
}

/// Keeps what comes by a pipe until it closes; a receiver that fails from then on.
fn keep(mut pipe: PipeReader, log: Log) -> io::Result<(Arc<Mutex<Captured>>, Receiver<()>)> {
    let (open, closed) = mpsc::channel();
    let written = Arc::new(Mutex::new(Captured::default()));
    let kept = Arc::clone(&written);
    thread::Builder::new().name("server's output".into()).spawn(move || {
        let _open = open;
        let mut buffer = vec![0; 64 << 10];
        loop {
            match pipe.read(&mut buffer) {
                Ok(0) => return,
                Ok(length) => {
                    log.push(&buffer[..length]);
                    kept.lock().unwrap_or_else(PoisonError::into_inner).push(&buffer[..length]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    })?;
    Ok((written, closed))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that fails says where")]
mod tests {
    use super::*;
    use crate::{Attached, Attachment};
    use std::path::Path;

    fn start(script: &str, stop: Stop) -> Result<KeptServer, NoServer> {
        KeptServer::start(&KeptServerStart {
            argv: ["sh", "-c", script].map(Into::into).into(),
            env: vec![("GREETING".into(), "at your service".into())],
            ready: Ready::Log(Arc::new(|text| text.contains("service"))),
            ready_timeout: Duration::from_secs(20),
            stop,
        })
    }

    fn by(signal: i32, timeout_ms: u64) -> Stop {
        Stop { signal, command: None, timeout: Duration::from_millis(timeout_ms) }
    }

    #[test]
    fn it_goes_on_while_it_is_bound_and_let_go_and_stops_when_it_is_asked_to() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("stopped");
        let script = format!(
            "trap 'echo bye; touch {}; exit' TERM; echo $GREETING; while :; do sleep 0.01; done",
            mark.display()
        );
        let mut server = start(&script, by(libc::SIGTERM, 20_000)).unwrap();
        for _ in 0..2 {
            let attached = Attached::begin(&server.target, &Attachment::default()).unwrap();
            assert!(!attached.end().has_ended);
        }
        assert_eq!((server.ending(Duration::ZERO), server.written().as_str()), (None, "at your service\n"));
        assert!(!mark.exists());
        assert_eq!(server.stop(), Vec::<String>::new());
        assert!(mark.exists());
    }

    #[test]
    fn one_that_is_deaf_is_killed_with_what_it_started_and_one_that_ends_is_told() {
        let server =
            start("trap '' TERM; setsid sleep 1000 & echo $! $GREETING; wait; wait", by(libc::SIGTERM, 100)).unwrap();
        let helper = server.written().split_whitespace().next().unwrap().to_owned();
        assert!(server.stop()[0].contains("did not stop within 100ms"));
        assert!(!Path::new("/proc").join(helper).exists());
        match start("echo no disk; exit 7", by(libc::SIGTERM, 100)) {
            Err(NoServer::Failure(ServiceFailure::EndedBeforeReady, Some(how), written)) => {
                assert_eq!((how.as_str(), written.as_str()), ("with exit code 7", "no disk\n"));
            }
            other => panic!("{other:?}"),
        }
    }
}
