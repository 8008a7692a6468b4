//! What a process that counts in the kernel may still do.

use caps::{CapSet, Capability};

/// What is kept: reading what was counted, and finding more threads of a control group; real-time bursts beside the program, signals
/// that are passed on to it, and writing into the folder of whoever called sudo.
const KEPT: [Capability; 8] = [
    Capability::CAP_BPF,
    Capability::CAP_PERFMON,
    Capability::CAP_SYS_NICE,
    Capability::CAP_KILL,
    Capability::CAP_DAC_OVERRIDE,
    Capability::CAP_DAC_READ_SEARCH,
    Capability::CAP_FOWNER,
    Capability::CAP_CHOWN,
];

/// Gives up every other capability, for this thread and those that it creates, for good. A program that root starts has all of them again
/// (capabilities(7)): it is the profiler alone that has fewer.
///
/// Where the kernel refuses, all is as it was: nothing depends on it.
pub(crate) fn drop_others() {
    for set in [CapSet::Effective, CapSet::Permitted] {
        let Ok(held) = caps::read(None, set) else { return };
        let kept = held.into_iter().filter(|capability| KEPT.contains(capability)).collect();
        if caps::set(None, set, &kept).is_err() {
            return;
        }
    }
}
