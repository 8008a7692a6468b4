//! What is left of programs that ended, one way or another: nothing. One test, since children belong to the process.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use launch::{Descendants, Exit, Launch, LaunchError, Launched, Observe, Output, launch, trace_available};
use machine::linux::Pid;
use std::time::Duration;

fn trial(script: &str, observe: Observe, timeout: Option<Duration>) -> Launched {
    let argv = ["sh", "-c", script].map(Into::into).to_vec();
    let (output, descendants) = (Output::Capture, Descendants::Kill);
    launch(&Launch { observe, output, descendants, timeout, ..Launch::new(argv) }).unwrap()
}

fn children() -> Vec<Pid> {
    Pid(std::process::id() as i32).children()
}

#[test]
fn nothing_of_a_program_remains_and_what_had_ended_is_no_leftover() {
    // Whether or not ptrace is allowed here, the child on which it was tried is gone.
    let _ = trace_available();
    assert_eq!(children(), []);

    for observe in [Observe::Trace, Observe::Poll] {
        let killed = trial("kill -9 $$", observe, None);
        assert_eq!((killed.observation.exit, children()), (Exit::Signal(9), vec![]), "{observe:?}");

        let late = trial("sleep 60 & sleep 60", observe, Some(Duration::from_millis(50)));
        assert_eq!((late.observation.exit, children()), (Exit::TimedOut, vec![]), "{observe:?}");

        let left = trial("sleep 60 & exit 3", observe, None);
        assert_eq!((left.observation.leftovers, children()), (1, vec![]), "{observe:?}");

        // What its parent never asked about stays a zombie until that parent has ended, but ran no longer than it. awk
        // knows of no child, so it asks about none.
        let script = r#"true & exec awk -v f=/proc/$!/stat 'BEGIN { do { getline < f; close(f) } while ($3 != "Z") }'"#;
        let zombie = trial(script, observe, None);
        assert_eq!((zombie.observation.exit, zombie.observation.leftovers), (Exit::Code(0), 0), "{observe:?}");
        assert_eq!(children(), [], "{observe:?}");

        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        // The child exists by then: only its exec finds out that the interpreter isn't a program.
        std::fs::write(&script, "#!/etc/passwd\n").unwrap();
        std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let refused = launch(&Launch { observe, ..Launch::new(vec![script.into()]) });
        assert!(matches!(refused, Err(LaunchError::NotExecutable { .. })), "{refused:?}");
        assert_eq!(children(), [], "{observe:?}");
    }
}
