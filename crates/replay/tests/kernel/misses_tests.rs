//! What affinity saves: misses of a modelled machine while a real kernel schedules on it.

use crate::guest;
use machine::{Kind, Level, Machine};
use misses::Report;
use misses::report::{Counts, Section};
use replay::ReplayOutput;
use sim::cache::Timing;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;
use vm::{Plugin, Step};

/// Processes that refer to any of 256 KiB of their own, again and again. In a guest whose CPUs take turns on one thread, a process gets
/// to refer for the time of one turn only while each CPU has its own: a pass takes some ten times as long as stated here.
const WALKERS: &str = r#"
name = "24 of 256 KiB"
[[jobs]]
name = "walkers"
processes = 24
[jobs.process.memory]
reload_lines = 4096
line_bytes = 64
pass_us = 1000
steady_misses_per_ms = 0
"#;
const PROCESSES: u32 = 24;

mod long {
    use super::*;

    /// Replayed in all, and how much of it before misses are counted, so that what is counted is not how the caches were filled at
    /// first.
    const SECONDS: u32 = 6;
    const WARM_UP_SECONDS: u32 = 2;

    /// Policies, and how they are brought about: the affinity scheduler's, or the kernel's own, with cache-aware balancing and without.
    const POLICIES: [(&str, Option<&str>, &str); 6] = [
        ("standard", Some("--phi-p 0 --phi-t 0"), ""),
        ("light", Some("--light"), ""),
        ("heavy", Some("--heavy"), ""),
        ("graded", Some("--light --graded"), ""),
        ("eevdf", None, "--cache-balancing off"),
        ("eevdf-llc", None, "--cache-balancing on"),
    ];

    /// How often each policy is replayed. Every other round goes backwards, since on dies misses with affinity rise from replay to replay:
    /// presumably the longer a machine is up the more scattered are the pages that it gives, and more of them meet in the same sets.
    const ROUNDS: u32 = 4;

    /// What was measured of a replay.
    struct Replayed {
        /// Without the warm-up.
        counts: Counts,
        /// Of each process, with the warm-up.
        processes: Vec<Counts>,
        /// What the processes saw of themselves.
        own: ReplayOutput,
        /// What the scheduler saw, where it was ours.
        scheduler: Option<ReplayOutput>,
    }

    impl Replayed {
        fn references(&self) -> u64 {
            self.processes.iter().map(|counts| counts.accesses).sum()
        }

        /// How often a CPU went over to one of the processes, by the plugin.
        fn switches(&self) -> u64 {
            self.processes.iter().map(|counts| counts.runs).sum()
        }

        /// Moves of the processes to other CPUs, by the plugin.
        fn migrations(&self) -> u64 {
            self.processes.iter().flat_map(|counts| counts.migrations.values()).sum()
        }

        /// The same without those to a CPU of the same core.
        fn migrations_off_core(&self) -> u64 {
            let moves = self.processes.iter().flat_map(|counts| &counts.migrations);
            moves.filter(|(level, _)| **level > Level::Core).map(|(_, count)| count).sum()
        }
    }

    /// What was measured under a policy.
    struct Measured {
        policy: &'static str,
        replays: Vec<Replayed>,
        /// The sum of its replays.
        counts: Counts,
    }

    impl Measured {
        fn new(policy: &'static str, replays: Vec<Replayed>) -> Self {
            let mut counts = Counts::default();
            replays.iter().for_each(|replay| counts += &replay.counts);
            Self { policy, replays, counts }
        }

        fn misses(&self, level: u8) -> f64 {
            misses(&self.counts, level)
        }

        /// What misses would cost a reference on a server, in ns: the two levels in one number.
        fn lost_ns(&self) -> f64 {
            let Timing { next_cache_ns, memory_ns, .. } = Timing::SERVER;
            (self.misses(2) * next_cache_ns + self.misses(3) * memory_ns) / 1e3
        }

        fn migrations_off_core(&self) -> u64 {
            self.replays.iter().map(Replayed::migrations_off_core).sum()
        }
    }

    fn per_1000(counts: &Counts, misses: u64) -> f64 {
        misses as f64 / counts.accesses as f64 * 1e3
    }

    /// Misses of a cache, of 1,000 references.
    fn misses(counts: &Counts, level: u8) -> f64 {
        per_1000(counts, counts.misses[&Kind::Cache(level)])
    }

    /// Policies by the number of the replay, from which its sections follow.
    fn in_order() -> impl Iterator<Item = (u32, (&'static str, Option<&'static str>, &'static str))> {
        let rounds = (0..ROUNDS).flat_map(|round| {
            let mut policies = POLICIES;
            if round % 2 == 1 {
                policies.reverse();
            }
            policies
        });
        (0..).zip(rounds)
    }

    /// Replays under each policy, all in one boot.
    fn measured(topology: &str, tree: &str) -> Option<Vec<Measured>> {
        let mut vm = guest::vm(topology)?;
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("misses-{topology}"));
        fs::create_dir_all(&folder).unwrap();
        let (machine, workload, out) =
            (folder.join("machine.json"), folder.join("walkers.toml"), folder.join("misses.json"));
        let tree = Machine::named(tree).unwrap();
        fs::write(&machine, serde_json::to_string(&tree).unwrap()).unwrap();
        fs::write(&workload, WALKERS).unwrap();
        vm.programs = guest::loaders();
        vm.programs.push(env!("CARGO_BIN_EXE_stayput-replay").into());
        vm.files = vec![(workload, "/walkers.toml".into())];
        let arguments = vec![format!("machine={}", machine.display()), format!("out={}", out.display())];
        vm.plugin = Some(Plugin { library: guest::plugin(), arguments });
        vm.icount_shift = Some(3);
        let steps = in_order().map(|(number, (policy, scheduler, options))| {
            let [warm_up, counted] = sections(number);
            let marks =
                format!("stayput-guest mark {warm_up}; (sleep {WARM_UP_SECONDS}; stayput-guest mark {counted}) &");
            let replay = format!("stayput-replay /walkers.toml --seconds {SECONDS} --json /tmp/replay.json {options}");
            let scheduler =
                scheduler.map(|options| format!("stayput-sched -q {options} --json /tmp/scheduler.json --"));
            let collect =
                "cat /tmp/replay.json; test ! -e /tmp/scheduler.json || cat /tmp/scheduler.json; rm -f /tmp/*.json";
            let marked =
                format!("{} sh -c '{marks} {replay}; stayput-guest mark 0'", scheduler.as_deref().unwrap_or_default());
            Step::shell(step(number, policy), format!("({marked}) >&2 && {{ {collect}; }}"))
                .within(Duration::from_secs(600))
        });
        let results = guest::run_within(guest::LONG_TIMEOUT, &vm, &format!("misses-{topology}"), steps.collect());
        let report: Report = serde_json::from_str(&fs::read_to_string(&out).unwrap()).unwrap();
        let mut replays: BTreeMap<&str, Vec<Replayed>> = BTreeMap::new();
        for (number, (policy, ..)) in in_order() {
            let output =
                serde_json::Deserializer::from_str(results.output(&step(number, policy))).into_iter::<ReplayOutput>();
            let mut output = output.collect::<Result<Vec<_>, _>>().unwrap().into_iter();
            let [warm_up, counted] = sections(number).map(|section| &report.sections[&section]);
            replays.entry(policy).or_default().push(Replayed {
                counts: counted.all.clone(),
                processes: of_processes(warm_up, counted),
                own: output.next().unwrap(),
                scheduler: output.next(),
            });
        }
        let measured = POLICIES.map(|(policy, ..)| Measured::new(policy, replays.remove(policy).unwrap()));
        eprintln!("{}", table(topology, &measured));
        measured.iter().for_each(check);
        Some(measured.into())
    }

    fn step(number: u32, policy: &str) -> String {
        format!("{policy}-{number}")
    }

    /// The sections in which a replay warms up and is counted.
    fn sections(replay: u32) -> [u32; 2] {
        [2 * replay + 1, 2 * replay + 2]
    }

    /// What each process did in both sections. There are no others.
    fn of_processes(warm_up: &Section, counted: &Section) -> Vec<Counts> {
        let mut processes = warm_up.processes.clone();
        for (&process, counts) in &counted.processes {
            *processes.entry(process).or_default() += counts;
        }
        assert!(processes.keys().copied().eq(0..PROCESSES), "processes {:?}", processes.keys());
        processes.into_values().collect()
    }

    fn row(name: &str, cells: impl IntoIterator<Item = String>) -> String {
        cells.into_iter().fold(format!("{name:10}"), |row, cell| format!("{row}{cell:>14}")) + "\n"
    }

    fn table(topology: &str, measured: &[Measured]) -> String {
        let header = |cells: &[&str]| row("", cells.iter().map(|&cell| cell.into()));
        let mut table = format!(
            "{topology}: misses per 1,000 references of {PROCESSES} processes to 256 KiB each, in {ROUNDS} replays, and ns lost by one\n"
        );
        let causes = ["reload", "migration", "contention"];
        let of_level = |name| [name, "each replay"].into_iter().chain(causes);
        table += &header(&of_level("L2").chain(of_level("L3")).chain(["ns/reference"]).collect::<Vec<_>>());
        for of in measured {
            let rates = [2, 3].map(|level| {
                let of_replays = of.replays.iter().map(|replay| misses(&replay.counts, level));
                let (least, most) = (of_replays.clone().fold(f64::INFINITY, f64::min), of_replays.fold(0.0, f64::max));
                let causes = of.counts.causes[&Kind::Cache(level)];
                let causes = [causes.reload, causes.migration, causes.contention];
                let causes = causes.map(|misses| format!("{:.1}", per_1000(&of.counts, misses)));
                [format!("{:.1}", of.misses(level)), format!("{least:.1}-{most:.1}")].into_iter().chain(causes)
            });
            table += &row(of.policy, rates.into_iter().flatten().chain([format!("{:.2}", of.lost_ns())]));
        }
        table += "\nreferences, switches and migrations that the plugin saw; what the processes and the scheduler saw themselves\n";
        table += &header(&[
            "references",
            "switches",
            "processes'",
            "scheduler's",
            "migrations",
            "processes'",
            "scheduler's",
            "off the core",
        ]);
        for (of, replay) in measured.iter().flat_map(|of| of.replays.iter().map(move |replay| (of, replay))) {
            let own = |name: &str| replay.own.metrics[name].to_string();
            let scheduler =
                |name: &str| replay.scheduler.as_ref().map_or("-".into(), |output| output.metrics[name].to_string());
            table += &row(
                of.policy,
                [
                    replay.references().to_string(),
                    replay.switches().to_string(),
                    own("switches"),
                    scheduler("switches"),
                    replay.migrations().to_string(),
                    own("migrations"),
                    scheduler("migrations"),
                    replay.migrations_off_core().to_string(),
                ],
            );
        }
        table
    }

    /// The plugin sees addresses, from which it concludes who runs where. Those who ran, and the scheduler, must agree.
    fn check(measured: &Measured) {
        let near = |what: &str, ours: u64, theirs: &ReplayOutput, more: u32, part: f64| {
            let (ours, theirs) = (ours as f64, theirs.metrics[what]);
            let apart = (ours - theirs).abs();
            assert!(apart <= f64::from(more) + part * theirs, "{}: {ours} {what}, not {theirs}", measured.policy);
        };
        for replay in &measured.replays {
            let (switches, migrations) = (replay.switches(), replay.migrations());
            // A process can be moved, and switched to, before its first reference and after its last. It sees how long it was away when
            // it compares clocks, a few times in the slice of the kernel's own scheduler, and away twice in between is away once.
            near("migrations", migrations, &replay.own, PROCESSES, 0.05);
            near("switches", switches, &replay.own, PROCESSES, 0.2);
            // The scheduler has the shell and the own too, and sees each process as it is forked, gets ready, begins and ends.
            if let Some(scheduler) = &replay.scheduler {
                near("migrations", migrations, scheduler, 5 * PROCESSES, 0.05);
                near("switches", switches, scheduler, 5 * PROCESSES, 0.05);
            }
        }
    }

    fn of<'a>(measured: &'a [Measured], policy: &str) -> &'a Measured {
        measured.iter().find(|of| of.policy == policy).unwrap()
    }

    #[test]
    #[ignore = "boots a virtual machine: make test-kernel"]
    fn affinity_saves_two_fifths_of_the_misses() {
        let Some(measured) = measured("2x4", "pack:2 l3:1(size=4MiB) l2:4(size=512KiB) l1d:1(size=32KiB) core:1 pu:1")
        else {
            return;
        };
        let [standard, peer] = ["standard", "eevdf-llc"].map(|policy| of(&measured, policy));
        for affine in ["light", "heavy"].map(|policy| of(&measured, policy)) {
            for level in [2, 3] {
                assert!(affine.misses(level) <= 0.6 * standard.misses(level), "{} at L{level}", affine.policy);
            }
            assert!(affine.misses(2) <= peer.misses(2), "{} at L2", affine.policy);
            assert!(affine.lost_ns() <= peer.lost_ns(), "{} in ns", affine.policy);
            // Who leaves no socket misses the L3 by luck only: by how the pages of the twelve processes there, on average 12 of 16
            // ways, happen to fall on its sets. Replays under one policy differ by as much.
            assert!(affine.misses(3) <= peer.misses(3) + 5.0, "{} at L3", affine.policy);
        }
    }

    #[test]
    #[ignore = "boots a virtual machine: make test-kernel"]
    fn graded_affinity_is_no_worse_than_simple_on_dies() {
        let tree = "pack:1 die:2 l3:1(size=4MiB) l2:4(size=512KiB) l1d:1(size=32KiB) core:1 pu:2";
        let Some(measured) = measured("dies", tree) else { return };
        let [simple, graded] = ["light", "graded"].map(|policy| of(&measured, policy));
        assert!(graded.migrations_off_core() <= simple.migrations_off_core());
        // Who moves within a core finds the same L2 there, so that only luck tells the two apart; by who stays on its die they differ.
        assert!(graded.misses(2) <= 1.1 * simple.misses(2));
        assert!(graded.misses(3) <= simple.misses(3));
        assert!(graded.lost_ns() <= simple.lost_ns());
    }
}
