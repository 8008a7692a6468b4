//! Simulations on a real Slurm of three nodes, which each test starts for itself: the same bytes as here, whatever becomes of tasks and of
//! the command.

use crate::cluster::desk::{Desk, one_sentence, text};
use crate::cluster::{NODES, lacking, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Command};
use std::time::Duration;

/// A sweep of two points under two policies.
const SWEEP: &str = "time-sharing --quiet --workload Matrix+Cholesky --policy standard,light --sweep quantum_ms=20,30";

impl Desk {
    fn simulate(&self, words: &str) -> Command {
        self.stayput(&format!("simulate {words}"))
    }

    /// What it prints when all goes well.
    fn told(&self, words: &str) -> String {
        let output = self.simulate(words).output().unwrap();
        assert!(output.status.success(), "{words}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    fn begin_simulation(&self, words: &str) -> Child {
        self.begin(&format!("simulate {words}"))
    }

    /// All that a journal says, samples to the last bit, but for when and by which commands it was worked on.
    fn said(&self, journal: &str) -> String {
        let output = self.stayput(&format!("report --format json {journal}")).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let said = text(&output.stdout);
        let (before, sessions) = said.split_once("\"sessions\": [").unwrap();
        before.to_owned() + sessions.split_once("\n]").unwrap().1
    }

    /// Two journals say the same.
    fn check_same(&self, journal: &str, other: &str) {
        // Without what differs: that is pages.
        assert!(self.said(journal) == self.said(other), "{journal} says something else than {other}");
    }

    /// Processes that take samples.
    fn tasks(&self) -> Vec<Pid> {
        let is_task = |pid: &i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words: Vec<&[u8]> = line.split(|&byte| byte == 0).collect();
            words.get(1..3) == Some(&[b"task", b"--simulation"])
        };
        self.cluster.processes().into_iter().filter(is_task).map(Pid::from_raw).collect()
    }
}

#[test]
fn a_sweep_on_a_cluster_has_the_same_bytes_as_here() {
    if let Some(why) = lacking() {
        return println!("skipped: {why}");
    }
    let desk = Desk::new();
    let space = "space-sharing --quiet --mix GRAVITY,MATRIX --replicates 2";
    for (name, words) in [("sweep", format!("{SWEEP} --replicates 5")), ("space", space.to_owned())] {
        let here = desk.told(&format!("{words} --format csv --out {name}-here.stayput"));
        let on_slurm = format!("{words} --format csv --out {name}.stayput --on slurm:nodes=3");
        assert_eq!(desk.told(&on_slurm), here, "{name}");
        desk.check_nothing_left(&format!("{name}.stayput"));
        // The journals have the same samples, and a study goes on wherever it was begun.
        desk.check_same(&format!("{name}.stayput"), &format!("{name}-here.stayput"));
        assert_eq!(desk.told(&on_slurm), here, "nothing is left to do");
        assert_eq!(desk.told(&format!("{words} --format csv --out {name}.stayput")), here);
    }
    // One that was begun here is gone on with there, from within a block.
    let mut begun = desk.begin_simulation(&format!("{SWEEP} --replicates 40 --out both.stayput"));
    std::thread::sleep(Duration::from_millis(700));
    begun.kill().unwrap();
    begun.wait().unwrap();
    let there =
        desk.told(&format!("{SWEEP} --replicates 40 --format csv --out both.stayput --on slurm:nodes=2,cpus=1"));
    assert_eq!(there, desk.told(&format!("{SWEEP} --replicates 40 --format csv")));
    desk.check_nothing_left("both.stayput");
}

#[test]
fn cancelled_and_requeued_tasks_are_run_again_and_the_bytes_are_the_same() {
    if let Some(why) = lacking() {
        return println!("skipped: {why}");
    }
    let desk = Desk::new();
    let words = format!("{SWEEP} --replicates 300 --out stopped.stayput --on slurm:nodes=3").replace("--quiet", "");
    let study = desk.begin_simulation(&words);
    // Tasks stand still as they begin, so that whatever is to happen does so while they run.
    let mut stopped = BTreeSet::new();
    wait_until("a task runs on each node", || {
        desk.tasks().into_iter().for_each(|task| {
            let _ = kill(task, Signal::SIGSTOP);
            stopped.insert(task);
        });
        desk.running().len() == NODES.len() && stopped.len() >= NODES.len()
    });
    let running = desk.running();
    desk.control("scancel", &[&running[0].0]);
    // Slurm's administrator may requeue what asks not to be.
    desk.control("scontrol", &["update", &format!("JobId={}", running[1].0), "Requeue=1"]);
    desk.control("scontrol", &["requeue", &running[1].0]);
    wait_until("two tasks end", || !desk.running().iter().any(|task| running[..2].contains(task)));
    stopped.into_iter().for_each(|task| {
        let _ = kill(task, Signal::SIGCONT);
    });
    let output = study.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.success() && said.contains("is submitted again: Slurm says CANCELLED"), "{said}");
    desk.told(&format!("{SWEEP} --replicates 300 --out here.stayput"));
    desk.check_same("stopped.stayput", "here.stayput");
    desk.check_nothing_left("stopped.stayput");
}

#[test]
fn killed_at_any_moment_a_simulation_goes_on_with_what_is_in_the_queue() {
    if let Some(why) = lacking() {
        return println!("skipped: {why}");
    }
    let desk = Desk::new();
    let words = format!("{SWEEP} --replicates 60 --out killed.stayput --on slurm:nodes=3");
    let mut random = 0x5EED_u64;
    for _ in 0..5 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut running = desk.begin_simulation(&words);
        std::thread::sleep(Duration::from_micros(100_000 + (random >> 40) % 1_500_000));
        running.kill().unwrap();
        running.wait().unwrap();
    }
    // By the journal's name alone, if something is under way.
    let words = match desk.path("killed.stayput.slurm/assignment.json").exists() {
        true => "--quiet --attach killed.stayput".to_owned(),
        false => words,
    };
    desk.told(&words);
    desk.told(&format!("{SWEEP} --replicates 60 --out here.stayput"));
    desk.check_same("killed.stayput", "here.stayput");
    desk.check_nothing_left("killed.stayput");
}

#[test]
fn interrupted_a_simulation_leaves_nothing_in_the_queue_and_a_log_out_does() {
    if let Some(why) = lacking() {
        return println!("skipped: {why}");
    }
    let desk = Desk::new();
    let words = format!("{SWEEP} --replicates 300 --out ended.stayput --on slurm:nodes=3").replace("--quiet", "");
    for signal in [Signal::SIGINT, Signal::SIGHUP] {
        let study = desk.begin_simulation(&words);
        wait_until("tasks are in the queue", || !desk.queue().is_empty());
        kill(Pid::from_raw(study.id() as i32), signal).unwrap();
        let said = text(&study.wait_with_output().unwrap().stderr);
        let is_logout = signal == Signal::SIGHUP;
        assert_eq!(said.contains("`stayput simulate --attach"), is_logout, "{said}");
        assert_eq!(said.contains("taken out of Slurm's queue"), !is_logout, "{said}");
        if !is_logout {
            wait_until("the queue empties", || desk.queue().is_empty());
        }
    }
    // What is there would be simulated twice.
    let here = desk.simulate(&format!("{SWEEP} --replicates 300 --out ended.stayput")).output().unwrap();
    assert_eq!(here.status.code(), Some(2));
    assert!(one_sentence(&here).contains("is under way on Slurm; `stayput simulate --attach ended.stayput`"));
    desk.told("--quiet --attach ended.stayput");
    desk.told(&format!("{SWEEP} --replicates 300 --out here.stayput"));
    desk.check_same("ended.stayput", "here.stayput");
    desk.check_nothing_left("ended.stayput");
}

#[test]
fn what_cannot_be_is_said_in_one_sentence() {
    if let Some(why) = lacking() {
        return println!("skipped: {why}");
    }
    let desk = Desk::new();
    let told = |words: &str, code: i32, part: &str| {
        let output = desk.simulate(words).output().unwrap();
        let said = one_sentence(&output);
        assert!(output.status.code() == Some(code) && said.contains(part), "{words}: {:?} {said}", output.status);
    };
    told(&format!("{SWEEP} --on slurm"), 2, "name one with --out");
    told(&format!("{SWEEP} --out x.stayput --on slurm:round=2"), 2, "leave out `round`");
    told(&format!("{SWEEP} --out x.stayput --on vm"), 2, "simulations run here or on slurm");
    told(&format!("{SWEEP} --out x.stayput --on slurm:partition=nosuch"), 1, "partition");
    told("--attach nosuch.stayput", 2, "nosuch.stayput");
    desk.told(&format!("{SWEEP} --replicates 1 --out done.stayput"));
    told("--attach done.stayput", 2, "give the command again that began it");
    told("--attach done.stayput time-sharing", 2, "`time-sharing` can't be given with `--attach`");
    let study = desk.stayput("study --attach done.stayput").output().unwrap();
    assert!(one_sentence(&study).contains("done.stayput holds a simulation; `stayput simulate --attach"), "{study:?}");
    let nowhere =
        desk.simulate(&format!("{SWEEP} --out y.stayput --on slurm")).env("PATH", "/nonexistent").output().unwrap();
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(one_sentence(&nowhere).contains("there is no sbatch here"));
    wait_until("the queue empties", || desk.queue().is_empty());
}
