//! Guests that stay up with this host's file system.

use crate::guest;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use vm::{Guest, HostProgram, Vm, VmError};

/// A guest in which a shell runs each line that it is sent, and answers with a line.
pub fn shell(topology: &str) -> Option<Guest> {
    if let Err(skip) = vm::can_share_files(&|what| eprintln!("{what}")) {
        eprintln!("kernel test skipped: {skip}");
        return None;
    }
    Some(booted(&guest::vm(topology)?))
}

fn booted(vm: &Vm) -> Guest {
    let say = |what: &str| eprintln!("{what}");
    let (overlay, config) = (vm.kernel.overlay_module(&say).unwrap(), vm.kernel.config(&say));
    let answers = "while read line; do eval \"$line\" 2>&1 | tr '\\n' ' '; echo; done";
    let argv = ["/bin/sh", "-c", answers].map(Into::into).to_vec();
    let environment = vec![("PATH".into(), "/usr/bin:/bin:/usr/sbin:/sbin".into())];
    vm.boot(HostProgram { argv, folder: "/tmp".into(), environment }, overlay, config).unwrap()
}

/// What the guest answers to a line, waited for as long as any test may take.
pub fn answer(guest: &mut Guest, line: &str) -> Result<String, VmError> {
    let deadline = Instant::now() + guest::TIMEOUT;
    guest.tell(line, line)?;
    loop {
        if let Some(answer) = guest.line_within(Duration::from_millis(100))? {
            return Ok(answer.trim().to_owned());
        }
        if Instant::now() > deadline {
            return Err(guest.hung(guest::TIMEOUT));
        }
    }
}

#[test]
#[ignore = "boots a virtual machine: make test-kernel"]
fn a_guest_has_all_files_of_the_host_and_writes_none_of_them() {
    let Some(mut guest) = shell("2x4") else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "from the host").unwrap();
    let mut ask = |line: &str| answer(&mut guest, line).unwrap();
    assert_eq!(ask("nproc"), "8");
    assert_eq!(ask(&format!("cat {}", file.display())), "from the host");
    assert_eq!(ask(&format!("echo changed > {0}; cat {0}", file.display())), "changed");
    assert_eq!(ask("touch /etc/stayput-was-here && ls /etc/stayput-was-here"), "/etc/stayput-was-here");
    // Around the overlay, as the guest's root, it is read-only as well.
    let around = format!(
        "mkdir -p /mnt/x && mount -t virtiofs root /mnt/x && cat /mnt/x{0} && echo changed > /mnt/x{0} || echo refused",
        file.display()
    );
    assert!(ask(&around).starts_with("from the host"), "it can be read there");
    assert!(ask(&around).ends_with("refused"));
    assert_eq!(ask("cat /sys/kernel/sched_ext/state"), "disabled");
    // Where libbpf looks for it.
    assert_eq!(ask("grep -h ^CONFIG_SCHED_CLASS_EXT= /boot/config-$(uname -r)"), "CONFIG_SCHED_CLASS_EXT=y");
    guest.end();
    assert_eq!(fs::read_to_string(&file).unwrap(), "from the host");
    assert!(!Path::new("/etc/stayput-was-here").exists());
}

#[test]
#[ignore = "boots a virtual machine: make test-kernel"]
fn why_a_guest_has_ended_is_told_in_its_own_words() {
    let Some(mut panicking) = shell("1x2") else { return };
    assert_eq!(answer(&mut panicking, "echo up").unwrap(), "up");
    let error = answer(&mut panicking, "echo c > /proc/sysrq-trigger; sleep 60").unwrap_err();
    assert!(matches!(&error, VmError::Panicked { cause, .. } if cause.contains("sysrq")), "{error}");
    let Some(mut leaving) = shell("1x2") else { return };
    let error = answer(&mut leaving, "kill -9 $$").unwrap_err();
    assert!(error.to_string().contains("killed by SIGKILL"), "{error}");
}
