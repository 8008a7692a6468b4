//! A real Slurm of three nodes on this machine, over loopback, for the tests that need a cluster.
//!
//! A controller and three daemons of nodes run from one temporary folder, as whoever runs the tests and without munge. All of them, and
//! whatever jobs start, have the path of this cluster's configuration as `SLURM_CONF` in their environment: by that they are found again
//! and ended, whichever session or parent they have by then.

pub mod desk;

use std::fs;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The programs of Slurm that a cluster is made of, and those by which it is asked.
const PROGRAMS: [&str; 7] = ["slurmctld", "slurmd", "sbatch", "squeue", "sinfo", "scontrol", "scancel"];

/// The nodes of a cluster.
pub const NODES: [&str; 3] = ["n1", "n2", "n3"];

/// So long everything that a test waits for may take: three nodes were seen idle after 0.1 to 1.2 s, on a machine that did nothing else.
const PATIENCE: Duration = Duration::from_secs(60);

/// So often it is looked whether something has come about.
const LOOK: Duration = Duration::from_millis(50);

/// A Slurm that runs; it ends, with all its jobs, when this is dropped.
pub struct Cluster {
    folder: tempfile::TempDir,
    controller: Option<Child>,
    /// The daemon of each node of [`NODES`].
    daemons: Vec<Option<Child>>,
}

/// Why there can be no cluster on this machine, in words.
pub fn lacking() -> Option<String> {
    let missing: Vec<&str> = PROGRAMS.into_iter().filter(|program| path_of(program).is_none()).collect();
    match missing[..] {
        [] => None,
        _ => Some(format!("there is no {} (Debian: slurmctld, slurmd, slurm-client)", missing.join(", "))),
    }
}

/// Where a program is: Debian's daemons are where an ordinary user's `PATH` doesn't look.
fn path_of(program: &str) -> Option<PathBuf> {
    ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"]
        .into_iter()
        .map(|folder| Path::new(folder).join(program))
        .find(|path| path.is_file())
}

/// Waits until `is_so`.
///
/// # Panics
/// When it isn't within [`PATIENCE`]; `what` says what was waited for.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}: not within {} s", PATIENCE.as_secs());
        sleep(LOOK);
    }
}

impl Cluster {
    /// Starts a cluster, and waits until its nodes are idle.
    ///
    /// # Panics
    /// When there is none in time, with the end of what its controller wrote.
    pub fn start() -> Self {
        Self::with_tasks("task/none")
    }

    /// The same with another plugin that says where tasks may run; `task/affinity` binds them.
    ///
    /// # Panics
    /// Likewise.
    pub fn with_tasks(plugin: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("stayput-slurm-").tempdir().unwrap();
        for name in ["state", "spool", "run", "log"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        fs::write(folder.path().join("slurm.conf"), configuration(folder.path(), plugin)).unwrap();
        let mut cluster = Self { folder, controller: None, daemons: NODES.map(|_| None).into() };
        cluster.start_controller();
        (0..NODES.len()).for_each(|node| cluster.start_node(node));
        cluster.wait_for_idle_nodes();
        cluster
    }

    /// The folder of everything that is this cluster's.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Starts the controller, which takes up what an earlier one has left.
    pub fn start_controller(&mut self) {
        self.controller = Some(self.daemon("slurmctld", &[]));
    }

    /// Starts the daemon of a node, by its position in [`NODES`].
    pub fn start_node(&mut self, node: usize) {
        self.daemons[node] = Some(self.daemon("slurmd", &["-N", NODES[node]]));
    }

    /// Kills the controller, which has no time to write anything.
    pub fn kill_controller(&mut self) {
        self.controller.take().iter_mut().for_each(kill);
    }

    /// Kills the daemon of a node; jobs that run there do so on.
    pub fn kill_node(&mut self, node: usize) {
        self.daemons[node].take().iter_mut().for_each(kill);
    }

    /// Kills whatever jobs run on a node, as if it had lost its power.
    pub fn kill_processes_of(&self, node: &str) {
        let wanted = format!("SLURMD_NODENAME={node}");
        for pid in self.processes() {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            if environment.split(|&byte| byte == 0).any(|variable| variable == wanted.as_bytes()) {
                let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
            }
        }
    }

    /// Sends a signal to the daemon of a node.
    pub fn signal_node(&self, node: usize, signal: nix::sys::signal::Signal) {
        let daemon = self.daemons[node].as_ref().expect("it runs");
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(daemon.id() as i32), signal).unwrap();
    }

    /// Waits until every node is idle.
    pub fn wait_for_idle_nodes(&self) {
        let begun = Instant::now();
        loop {
            let states = self.said("sinfo", &["--noheader", "--Node", "--format=%T"]);
            if states.lines().count() == NODES.len() && states.lines().all(|state| state == "idle") {
                return;
            }
            let log = || fs::read_to_string(self.folder().join("log/slurmctld")).unwrap_or_default();
            assert!(begun.elapsed() < PATIENCE, "nodes are {states:?}\n{}", log());
            sleep(LOOK);
        }
    }

    /// A program that sees this cluster, and no other one.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        // A test that itself runs as a job must not be taken for one of this cluster.
        for (name, _) in std::env::vars_os() {
            if ["SLURM", "SBATCH", "SRUN", "SQUEUE", "SINFO"].iter().any(|p| name.to_string_lossy().starts_with(p)) {
                command.env_remove(name);
            }
        }
        command.env("SLURM_CONF", self.folder().join("slurm.conf"));
        command
    }

    /// What a client of Slurm prints; nothing where it fails, as every one does while the controller is away.
    pub fn said(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.command(program).args(arguments).output().unwrap();
        if output.status.success() { String::from_utf8(output.stdout).unwrap() } else { String::new() }
    }

    /// The ids of processes that belong to this cluster: daemons, steps, and programs of jobs.
    pub fn processes(&self) -> Vec<i32> {
        let wanted = format!("SLURM_CONF={}", self.folder().join("slurm.conf").display());
        let is_ours = |pid: &i32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|&byte| byte == 0).any(|variable| variable == wanted.as_bytes())
        };
        let entries = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_ours).collect()
    }

    fn daemon(&self, program: &str, arguments: &[&str]) -> Child {
        let path = path_of(program).expect("whoever starts a cluster has asked what is lacking");
        let log = fs::OpenOptions::new().create(true).append(true).open(self.folder().join("log/daemons")).unwrap();
        // In a group of its own, so that Ctrl-C on the tests is no end of it before theirs.
        self.command(path)
            .args(["-D", "-f"])
            .arg(self.folder().join("slurm.conf"))
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .process_group(0)
            .spawn()
            .unwrap()
    }
}

fn kill(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

impl Drop for Cluster {
    /// Kills at once: nothing that this cluster could still write is of any use to anyone.
    fn drop(&mut self) {
        self.kill_controller();
        (0..NODES.len()).for_each(|node| self.kill_node(node));
        // A process may start another one while they are looked for.
        let begun = Instant::now();
        loop {
            let left = self.processes();
            if left.is_empty() || begun.elapsed() > PATIENCE {
                return;
            }
            for pid in left {
                let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
            }
            sleep(LOOK);
        }
    }
}

/// Ports that nothing listens on at this moment.
fn free_ports<const N: usize>() -> [u16; N] {
    // All are held until all are known, so that none comes twice.
    let held = [(); N].map(|()| TcpListener::bind(("127.0.0.1", 0)).unwrap());
    held.each_ref().map(|listener| listener.local_addr().unwrap().port())
}

fn configuration(folder: &Path, plugin: &str) -> String {
    let user = Command::new("id").arg("-un").output().unwrap().stdout;
    let user = String::from_utf8(user).unwrap();
    let user = user.trim();
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let host = host.trim().split('.').next().unwrap();
    let cpus = std::thread::available_parallelism().unwrap().get();
    let folder = folder.display();
    let [controller, ports @ ..] = free_ports::<4>();
    let mut text = format!(
        "ClusterName=stayput
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
AuthInfo=cred_expire=5
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/%n.pid
SlurmctldLogFile={folder}/log/slurmctld
SlurmdLogFile={folder}/log/%n
ProctrackType=proctrack/linuxproc
TaskPlugin={plugin}
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_min_interval=2000,bf_interval=1
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/log/jobcomp
MpiDefault=none
ReturnToService=2
SlurmdTimeout=2
KillWait=5
MinJobAge=300
PropagateResourceLimits=NONE
"
    );
    for (node, port) in NODES.iter().zip(ports) {
        text += &format!(
            "NodeName={node} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs={cpus} CoresPerSocket={cpus} RealMemory=1000\n"
        );
    }
    text + "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE\n"
}
