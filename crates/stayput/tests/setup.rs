//! `setup.sh` brings a Rust that is new enough, by Debian's rustup, or by rustup's installer, or by a rustup that is there. Nothing is
//! installed here: every program that could do so is a script that writes down its call.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// A machine on which only what a test puts there can be called.
struct BareMachine {
    root: TempDir,
}

impl BareMachine {
    /// A machine with every package but a Rust.
    fn new() -> Self {
        let machine = Self { root: tempfile::tempdir().unwrap() };
        fs::create_dir_all(machine.path("bin")).unwrap();
        for tool in [
            "cat", "chmod", "cut", "dirname", "env", "grep", "head", "mkdir", "mktemp", "rm", "sed", "seq", "sh",
            "sort",
        ] {
            let found =
                ["/usr/bin", "/bin"].iter().map(|folder| Path::new(folder).join(tool)).find(|path| path.exists());
            symlink(found.unwrap_or_else(|| panic!("there is no {tool} here")), machine.path("bin").join(tool))
                .unwrap();
        }
        machine.script("id", "case $1 in -u) echo 0 ;; *) echo root ;; esac");
        machine.script("dpkg-query", "printf installed");
        machine.script("clang", "echo 16.0.0");
        for present in ["make", "gcc"] {
            machine.script(present, ":");
        }
        machine.script("apt-get", "");
        machine.script("apt-cache", "echo '  Candidate: (none)'");
        machine
    }

    fn path(&self, below: &str) -> PathBuf {
        self.root.path().join(below)
    }

    /// Puts a program there that writes its call into `calls` and then does what `body` says.
    fn script(&self, name: &str, body: &str) -> &Self {
        let path = self.path("bin").join(name);
        let calls = self.path("calls");
        fs::write(&path, format!("#!/bin/sh\necho \"{name} $*\" >> {}\n{body}\n", calls.display())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    /// A rustup whose toolchain is `version` once it has installed it, as text of a script.
    fn rustup(&self, version: &str) -> String {
        let cargo = self.path("bin/cargo");
        format!(
            "case $1 in toolchain) printf '#!/bin/sh\\necho cargo {version}\\n' > {0}; chmod +x {0} ;; esac",
            cargo.display()
        )
    }

    /// What setup says and does here, and the calls that it made of rustup, apt-get and curl.
    fn setup(&self) -> (Output, Vec<String>) {
        let (output, calls) = self.setup_for("build");
        let installs = |call: &String| ["rustup ", "apt-get ", "curl "].iter().any(|name| call.starts_with(name));
        (output, calls.into_iter().filter(installs).collect())
    }

    /// What setup says and does here for a purpose, and every call of a program that writes it down.
    fn setup_for(&self, purpose: &str) -> (Output, Vec<String>) {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        let output = Command::new(workspace.join("setup.sh"))
            .arg(purpose)
            .env_clear()
            .env("PATH", self.path("bin"))
            .env("HOME", self.path("home"))
            .env("TMPDIR", self.root.path())
            .output()
            .unwrap();
        let calls = fs::read_to_string(self.path("calls")).unwrap_or_default();
        (output, calls.lines().map(str::to_owned).collect())
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const TOOLCHAIN: [&str; 2] = [
    "rustup toolchain install stable --profile minimal --component clippy --component rustfmt --no-self-update",
    "rustup override set stable",
];

#[test]
fn a_rust_that_is_new_enough_is_left_alone() {
    let machine = BareMachine::new();
    machine.script("cargo", "echo 'cargo 1.89.0 (made up)'");
    let (output, calls) = machine.setup();
    assert_eq!(text(&output.stdout), "setup: nothing to install for build\n");
    assert!(output.status.success() && calls.is_empty(), "{calls:?}");
}

#[test]
fn a_rustup_with_an_old_toolchain_brings_a_new_one_for_this_directory_only() {
    let machine = BareMachine::new();
    machine.script("cargo", "echo 'cargo 1.88.1'").script("rustup", &machine.rustup("1.95.0"));
    let (output, calls) = machine.setup();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(
        text(&output.stdout).contains("Rust 1.89 or later is missing (this one is 1.88.1)"),
        "{}",
        text(&output.stdout)
    );
    assert_eq!(calls, TOOLCHAIN);
}

#[test]
fn debian_s_rustup_is_taken_where_there_is_one() {
    let machine = BareMachine::new();
    machine.script("apt-cache", "echo '  Candidate: 1.27.1-3'");
    let rustup = machine.path("bin/rustup");
    let body = machine.rustup("1.95.0");
    let calls_file = machine.path("calls");
    machine.script(
        "apt-get",
        &format!(
            "[ $1 = update ] || cat > {0} <<'END'\n#!/bin/sh\necho \"rustup $*\" >> {1}\n{body}\nEND\n[ $1 = update ] || chmod +x {0}",
            rustup.display(),
            calls_file.display(),
        ),
    );
    let (output, calls) = machine.setup();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("setup: installing rustup\n"), "{}", text(&output.stdout));
    assert_eq!(calls[1], "apt-get install -y -qq --no-install-recommends rustup");
    assert_eq!(calls[2..], TOOLCHAIN);
}

#[test]
fn under_sudo_no_package_asks_a_question() {
    let machine = BareMachine::new();
    machine.script("cargo", "echo 'cargo 1.95.0'");
    machine.script("id", "case $1 in -u) echo 1000 ;; *) echo somebody ;; esac");
    machine.script("dpkg-query", "");
    // As sudo is configured almost everywhere: nothing of the caller's environment is passed on.
    machine.script("sudo", "exec env -i PATH=\"$PATH\" \"$@\"");
    machine
        .script("apt-get", &format!("echo \"apt-get sees $DEBIAN_FRONTEND\" >> {}", machine.path("calls").display()));
    let (output, calls) = machine.setup();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let install = calls.iter().position(|call| call.starts_with("apt-get install")).unwrap();
    assert_eq!(calls[install + 1], "apt-get sees noninteractive");
}

#[test]
fn elsewhere_rustup_s_own_installer_is_and_debian_s_old_cargo_stays() {
    let machine = BareMachine::new();
    let installed = machine.path("home/.cargo/bin");
    let body = machine.rustup("1.95.0");
    // Debian's rustup would remove this cargo.
    machine.script("cargo", "echo 'cargo 1.85.0'").script("apt-cache", "echo '  Candidate: 1.27.1-3'");
    machine.script(
        "curl",
        &format!(
            "while [ \"$1\" != -o ]; do shift; done\ncat > \"$2\" <<'OUTER'\nmkdir -p {0}\ncat > {0}/rustup <<'END'\n#!/bin/sh\n\
             echo \"rustup $*\" >> {1}\n{body}\nEND\nchmod +x {0}/rustup\nOUTER",
            installed.display(),
            machine.path("calls").display(),
        ),
    );
    let (output, calls) = machine.setup();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    let said = text(&output.stdout);
    assert!(said.contains("setup: installing rustup for root, in ") && said.contains("rustup-init.sh"), "{said}");
    assert!(calls[0].starts_with("curl --proto =https"), "{calls:?}");
    assert_eq!(calls[1..], TOOLCHAIN);
}

#[test]
fn a_rust_that_stays_too_old_is_an_error() {
    let machine = BareMachine::new();
    machine.script("cargo", "echo 'cargo 1.60.0'").script("rustup", &machine.rustup("1.61.0"));
    let (output, _) = machine.setup();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stderr), "setup: Rust is 1.61.0 even so; 1.89 or later is needed\n");
}

#[test]
fn servers_for_tests_are_installed_and_not_left_running() {
    let machine = BareMachine::new();
    machine.script("cargo", "echo 'cargo 1.95.0'");
    machine.script("id", "case $1 in -u) echo 1000 ;; *) echo somebody ;; esac");
    // All but the servers is there, and what root would do is written down alone.
    machine.script("dpkg-query", "case $4 in redis-server | memcached) ;; *) printf installed ;; esac");
    machine.script("sudo", "cat > /dev/null").script("systemctl", "");
    let (output, calls) = machine.setup_for("test");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let at = |call: &str| {
        let found = calls.iter().position(|made| made.starts_with(&format!("sudo {call}")));
        found.unwrap_or_else(|| panic!("{call}: {calls:?}"))
    };
    let install = at("env DEBIAN_FRONTEND=noninteractive apt-get install");
    assert!(calls[install].ends_with(" redis-server memcached"), "{}", calls[install]);
    // A script that keeps packages from starting anything, where there is none.
    if !Path::new("/usr/sbin/policy-rc.d").exists() {
        assert!(at("tee /usr/sbin/policy-rc.d") < install && at("rm -f /usr/sbin/policy-rc.d") > install, "{calls:?}");
    }
    for service in ["redis-server", "memcached"] {
        assert!(at(&format!("systemctl --quiet disable {service}")) > install, "{calls:?}");
        assert!(text(&output.stdout).contains(&format!("{service} is not started as a service")));
    }
}
