//! What affinity saves: misses of a modelled machine while a real kernel schedules on it.

use crate::guest;
use kernel::play::window;
use kernel::vm::{Plugin, Step};
use machine::{Kind, Machine};
use misses::{Report, window as modelled};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// 24 processes that go through 256 KiB of their own again and again.
const WALKERS: &str = r#"
name = "24 of 256 KiB"
[[jobs]]
name = "walkers"
processes = 24
[jobs.process.memory]
reload_lines = 4096
line_bytes = 64
pass_us = 2000
steady_misses_per_ms = 0
"#;

#[test]
fn player_and_plugin_agree_on_addresses() {
    assert_eq!(window::MARKS_START as u64, modelled::MARKS);
    assert_eq!(window::SHARED_START as u64, modelled::SHARED);
    assert_eq!(window::PRIVATE_START as u64, modelled::OWN);
    assert_eq!(window::SPAN_BYTES as u64, modelled::WINDOW_BYTES);
}

mod long {
    use super::*;

    /// Policies, and how they are brought about: the affinity scheduler's, or the kernel's own, with cache-aware balancing and without.
    const POLICIES: [(&str, &str, &str); 6] = [
        ("standard", "stayput-sched -q --phi-p 0 --phi-t 0 --", ""),
        ("light", "stayput-sched -q --light --", ""),
        ("heavy", "stayput-sched -q --heavy --", ""),
        ("graded", "stayput-sched -q --light --graded --", ""),
        ("eevdf", "", "--cache-balancing off"),
        ("eevdf-llc", "", "--cache-balancing on"),
    ];

    /// Misses per access in percent, by policy, in L2 and in L3.
    fn rates(topology: &str, tree: &str) -> Option<Vec<(&'static str, [f64; 2])>> {
        let mut vm = guest::vm(topology)?;
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("misses-{topology}"));
        fs::create_dir_all(&folder).unwrap();
        let (machine, workload, out) =
            (folder.join("machine.json"), folder.join("walkers.toml"), folder.join("misses.json"));
        let tree = Machine::named(tree).unwrap();
        fs::write(&machine, serde_json::to_string(&tree).unwrap()).unwrap();
        fs::write(&workload, WALKERS).unwrap();
        vm.programs = guest::loaders();
        vm.programs.push(env!("CARGO_BIN_EXE_stayput-play").into());
        vm.files = vec![(workload, "/walkers.toml".into())];
        let arguments = vec![format!("machine={}", machine.display()), format!("out={}", out.display())];
        vm.plugin = Some(Plugin { library: guest::plugin(), arguments });
        vm.icount_shift = Some(3);
        let steps = (0..).zip(POLICIES).map(|(number, (name, scheduler, options))| {
            // Two seconds in a section of their own, so that what is counted is not how the caches were filled at first.
            let (warm_up, counted) = (2 * number + 1, 2 * number + 2);
            let marks = format!("stayput-guest mark {warm_up}; (sleep 2; stayput-guest mark {counted}) &");
            let play = format!("stayput-play /walkers.toml --seconds 8 --json /tmp/told.json {options}");
            let marked = format!("{scheduler} sh -c '{marks} {play}; stayput-guest mark 0'");
            Step::shell(name, marked).within(Duration::from_secs(600))
        });
        let results = guest::run_within(guest::LONG_TIMEOUT, &vm, &format!("misses-{topology}"), steps.collect());
        let report: Report = serde_json::from_str(&fs::read_to_string(&out).unwrap()).unwrap();
        let mut table = format!("{topology}: misses per 1,000 accesses of 24 processes of 256 KiB\n");
        let _ = writeln!(
            table,
            "{:10} {:>8} {:>8} {:>12} {:>12} {:>10}",
            "", "L2", "L3", "L2 reload", "L2 migration", "migrations"
        );
        let mut rates = Vec::new();
        for (number, (name, ..)) in (0..).zip(POLICIES) {
            results.output(name);
            let counts = &report.sections[&(2 * number + 2)].all;
            let of = |misses: u64| misses as f64 / counts.accesses as f64 * 1e3;
            let [l2, l3] = [2, 3].map(|level| of(counts.misses[&Kind::Cache(level)]));
            let causes = counts.causes[&Kind::Cache(2)];
            let moves: u64 = counts.migrations.values().sum();
            let (reload, migration) = (of(causes.reload), of(causes.migration));
            let _ = writeln!(
                table,
                "{name:10} {l2:8.3} {l3:8.3} {reload:12.3} {migration:12.3} {:8.3} {moves:10} {:8}",
                of(causes.cold),
                counts.runs
            );
            rates.push((name, [l2, l3]));
        }
        eprintln!("{table}");
        Some(rates)
    }

    fn of(rates: &[(&str, [f64; 2])], policy: &str) -> f64 {
        rates.iter().find(|(name, _)| *name == policy).unwrap().1[0]
    }

    #[test]
    #[ignore = "boots a virtual machine: make test-kernel"]
    fn affinity_saves_two_fifths_of_the_misses() {
        let Some(rates) = rates("2x4", "pack:2 l3:1(size=4MiB) l2:4(size=512KiB) l1d:1(size=32KiB) core:1 pu:1") else {
            return;
        };
        let [standard, light, heavy] = ["standard", "light", "heavy"].map(|policy| of(&rates, policy));
        assert!(light <= 0.6 * standard && heavy <= 0.6 * standard, "{rates:?}");
        let peer = of(&rates, "eevdf-llc");
        assert!(light <= peer && heavy <= peer, "{rates:?}");
    }

    #[test]
    #[ignore = "boots a virtual machine: make test-kernel"]
    fn graded_affinity_is_no_worse_than_simple_on_dies() {
        let tree = "pack:1 die:2 l3:1(size=4MiB) l2:4(size=512KiB) l1d:1(size=32KiB) core:1 pu:2";
        let Some(rates) = rates("dies", tree) else { return };
        // Equal but for what the host's other work does to a guest's timing.
        assert!(of(&rates, "graded") <= 1.1 * of(&rates, "light"), "{rates:?}");
    }
}
