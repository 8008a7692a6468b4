//! What each system call waits for, by its number on this architecture.

use crate::intf::{
    CALL_DESCRIPTOR, CALL_DISK, CALL_NETWORK, CALL_OTHER, CALL_POLL, CALL_PROCESS, CALL_SEMAPHORE, CALL_TIMER,
    CALL_YIELD, MAX_CALLS,
};
use libc::c_long;

const SEMAPHORE: &[c_long] =
    &[libc::SYS_futex, libc::SYS_futex_waitv, FUTEX_WAIT, libc::SYS_semop, libc::SYS_semtimedop];

/// Newer than libc's list; the number is the same on all architectures.
const FUTEX_WAIT: c_long = 455;

/// Their first argument is a descriptor.
const DESCRIPTOR: &[c_long] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_preadv2,
    libc::SYS_pwritev2,
    libc::SYS_sendfile,
    libc::SYS_splice,
    libc::SYS_tee,
    libc::SYS_vmsplice,
    libc::SYS_close,
];

const DISK: &[c_long] = &[
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_sync,
    libc::SYS_syncfs,
    libc::SYS_sync_file_range,
    libc::SYS_msync,
    libc::SYS_fallocate,
    libc::SYS_ftruncate,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_getdents64,
    libc::SYS_unlinkat,
    libc::SYS_renameat2,
    libc::SYS_mkdirat,
    libc::SYS_copy_file_range,
    libc::SYS_io_getevents,
    libc::SYS_execve,
    libc::SYS_execveat,
];

const NETWORK: &[c_long] = &[
    libc::SYS_connect,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvmmsg,
    libc::SYS_shutdown,
];

const TIMER: &[c_long] = &[libc::SYS_nanosleep, libc::SYS_clock_nanosleep];

const POLL: &[c_long] = &[libc::SYS_ppoll, libc::SYS_pselect6, libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2];

const PROCESS: &[c_long] = &[libc::SYS_wait4, libc::SYS_waitid];

/// Calls that newer architectures don't have, where this one does.
#[cfg(target_arch = "x86_64")]
const OLDER: &[(&[c_long], u32)] = &[
    (&[libc::SYS_poll, libc::SYS_select, libc::SYS_epoll_wait], CALL_POLL),
    (
        &[libc::SYS_open, libc::SYS_stat, libc::SYS_lstat, libc::SYS_unlink, libc::SYS_rename, libc::SYS_mkdir],
        CALL_DISK,
    ),
    // Its parent waits for a child to execute a program.
    (&[libc::SYS_vfork], CALL_PROCESS),
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[(&[c_long], u32)] = &[];

/// The table by which the kernel's side looks up calls.
pub(crate) fn call_kinds() -> [u8; MAX_CALLS as usize] {
    let mut kinds = [CALL_OTHER as u8; MAX_CALLS as usize];
    let lists = [
        (SEMAPHORE, CALL_SEMAPHORE),
        (DESCRIPTOR, CALL_DESCRIPTOR),
        (DISK, CALL_DISK),
        (NETWORK, CALL_NETWORK),
        (TIMER, CALL_TIMER),
        (POLL, CALL_POLL),
        (PROCESS, CALL_PROCESS),
        // A parent that cloned as vfork does waits here, too.
        (&[libc::SYS_clone, libc::SYS_clone3], CALL_PROCESS),
        (&[libc::SYS_sched_yield], CALL_YIELD),
    ];
    for (calls, kind) in lists.iter().chain(OLDER) {
        for &call in *calls {
            if let Some(entry) = usize::try_from(call).ok().and_then(|call| kinds.get_mut(call)) {
                *entry = *kind as u8;
            }
        }
    }
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_that_is_listed_has_its_kind_in_the_table() {
        let kinds = call_kinds();
        let kind = |call: c_long| u32::from(kinds[usize::try_from(call).unwrap()]);
        assert_eq!(kind(libc::SYS_futex), CALL_SEMAPHORE);
        assert_eq!(kind(libc::SYS_read), CALL_DESCRIPTOR);
        assert_eq!(kind(libc::SYS_sched_yield), CALL_YIELD);
        assert_eq!(kind(libc::SYS_getpid), CALL_OTHER);
        let listed =
            [SEMAPHORE, DESCRIPTOR, DISK, NETWORK, TIMER, POLL, PROCESS].iter().map(|list| list.len()).sum::<usize>();
        let older: usize = OLDER.iter().map(|(list, _)| list.len()).sum();
        // And none is in two lists.
        assert_eq!(kinds.iter().filter(|&&kind| u32::from(kind) != CALL_OTHER).count(), listed + older + 3);
    }
}
