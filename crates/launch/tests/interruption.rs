//! Signals that are held by several at once: in a process of its own, since they are the whole process's.

use launch::{Interruptions, interruption};
use nix::sys::signal::{Signal, raise};

#[test]
fn what_arrived_is_known_until_nobody_holds_and_forgotten_by_the_next() -> Result<(), nix::Error> {
    let first = Interruptions::hold();
    let second = std::thread::spawn(Interruptions::hold).join().ok();
    assert!(second.is_some());
    raise(Signal::SIGTERM)?;
    raise(Signal::SIGINT)?;
    let arrived = Some(Signal::SIGTERM as i32);
    assert_eq!(interruption(), arrived, "the first that arrived");
    drop(first);
    assert_eq!(interruption(), arrived, "it is held still");
    let third = Interruptions::hold();
    assert_eq!(interruption(), arrived, "a holder among others forgets nothing");
    drop((second, third));
    assert_eq!(interruption(), arrived);
    let _next = Interruptions::hold();
    assert_eq!(interruption(), None);
    // As often as nobody held before: the first one of a kind ends nothing.
    raise(Signal::SIGTERM)?;
    assert_eq!(interruption(), arrived);
    Ok(())
}
