//! Memory on a machine with two NUMA nodes: each policy has it where it must be, by what we read back and by what the kernel tells
//! the program itself (move_pages(2)).

use crate::guest::{self, Results};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use vm::Step;

/// What must hold: a step's name, the arguments of `stayput run`, those of the program, and the share of its memory on node 0.
const CASES: [(&str, &str, &str, f64); 10] = [
    ("bind-0", "--memory bind:0", "", 1.0),
    ("bind-1", "--memory bind:1 --place compact -n 2", "", 0.0),
    ("bind-both", "--memory bind:0-1 --place 4", "", 0.0),
    ("preferred", "--memory preferred:1 --place 0", "", 0.0),
    ("preferred-many", "--memory preferred:0-1 --place 0", "", 1.0),
    ("interleave", "--memory interleave --place compact -n 2", "", 0.5),
    ("interleave-one", "--memory interleave:1 --place scatter -n 2", "", 0.0),
    ("weighted", "--memory weighted-interleave --place scatter -n 2", "", 0.75),
    ("local", "--memory local --place 5", "", 0.0),
    ("own", "--memory bind:0 --place 0", "bind=1", 0.5),
];

/// Compiled for a guest; none where there is no compiler.
fn touch() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("touch");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../launch/tests/memory/touch.c");
    let compiled = Command::new("cc").args(["-O1", "-static", "-pthread", "-o"]).arg(&path).arg(source).status();
    compiled.is_ok_and(|status| status.success()).then_some(path)
}

fn step(name: &str, arguments: &str, program_arguments: &str) -> Step {
    let json = format!("/tmp/{name}.json");
    Step::shell(
        name,
        format!(
            "stayput run {arguments} --quiet --json {json} -- touch {program_arguments} > /tmp/said; cat {json} /tmp/said"
        ),
    )
}

/// What we read back, and what the program said after each name.
struct Seen {
    run: Value,
    said: String,
}

impl Seen {
    fn of(results: &Results, name: &str) -> Self {
        let text = results.output(name);
        let (json, said) = text.split_at(text.find("\n}\n").unwrap_or_else(|| panic!("{text}")) + 3);
        Self { run: serde_json::from_str(json).unwrap(), said: said.into() }
    }

    fn said(&self, name: &str) -> f64 {
        let value = self.said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {name}: {}", self.said)).parse().unwrap()
    }

    /// The share on node 0: as read back, and as the program was told of the memory that it touched.
    fn shares(&self) -> [f64; 2] {
        let share = |[zero, one]: [f64; 2]| zero / (zero + one);
        let bytes = &self.run["memory"]["bytes_by_node"];
        [
            share(["0", "1"].map(|node| bytes[node].as_f64().unwrap_or(0.0))),
            share(["node0_bytes", "node1_bytes"].map(|name| self.said(name))),
        ]
    }

    fn remote(&self) -> Option<f64> {
        self.run["memory"]["remote_share"].as_f64()
    }

    fn notes(&self) -> Vec<&str> {
        // One that creates no thread is free to use its whole placement, which is said.
        let notes = self.run["notes"].as_array().unwrap().iter().map(|note| note.as_str().unwrap());
        notes.filter(|note| !note.starts_with("it created no thread")).collect()
    }
}

#[test]
#[ignore = "boots a virtual machine: make test-kernel"]
fn each_memory_policy_has_memory_where_it_must_be() {
    let Some(mut vm) = guest::vm("nodes") else { return };
    let Some(touch) = touch() else { return eprintln!("skipped: there is no C compiler (cc)") };
    vm.programs = vec![guest::built("stayput"), touch];
    vm.memory_mib = 2048;
    let weights = "cd /sys/kernel/mm/mempolicy/weighted_interleave && echo 3 > node0 && echo 1 > node1";
    let mut steps = vec![Step::shell("weights", weights)];
    // Single pages, so that 64 MiB are enough to tell shares.
    let small = |arguments: &str| format!("{arguments} --huge-pages never");
    steps.extend(CASES.iter().map(|(name, arguments, program, _)| step(name, &small(arguments), program)));
    steps.push(step("scattered", &small("--memory interleave --place scatter -n 2"), ""));
    steps.push(step("seen-only", "--memory default --place 6", ""));
    steps.push(step("huge", "--memory interleave --huge-pages always --place 0", "mib=256"));
    steps.push(step("full", "--memory preferred:1 --place 0", "mib=1150"));
    steps.push(Step::shell("refused", "stayput run --memory bind:0,2 -- touch"));
    let results = guest::run(&vm, "memory", steps);

    results.output("weights");
    for (name, _, _, due) in CASES {
        let seen = Seen::of(&results, name);
        let [read_back, said] = seen.shares();
        eprintln!("{name}: node 0 has {read_back:.4} ({said:.4} by move_pages), remote {:?}", seen.remote());
        assert!(
            (read_back - due).abs() < 0.02 && (said - due).abs() < 0.02,
            "{name}: {read_back} {said} {:#}",
            seen.run
        );
        if name != "own" {
            assert_eq!(seen.notes(), Vec::<&str>::new(), "{name}");
            // Where a page was touched first nobody knows.
            let followed = if name == "local" { Value::Null } else { true.into() };
            assert_eq!(seen.run["memory"]["followed"], followed, "{name}");
        }
    }
    // All of compact's CPUs are of one node, and scatter's of both.
    let near = |name: &str, due: f64| {
        let remote = Seen::of(&results, name).remote().unwrap();
        assert!((remote - due).abs() < 0.02, "{name}: {remote}");
    };
    for (name, due) in [("bind-1", 1.0), ("interleave", 0.5), ("preferred", 1.0), ("local", 0.0), ("own", 0.5)] {
        near(name, due);
    }
    near("scattered", 0.0);
    near("weighted", 0.0);
    near("seen-only", 0.0);
    assert_eq!(Seen::of(&results, "bind-0").remote(), None);

    let own = Seen::of(&results, "own");
    let share = own.run["memory"]["own_policy_shares"]["bind:1"].as_f64().unwrap();
    assert!((share - 0.5).abs() < 0.02, "{share}");
    assert!(own.notes().len() == 1 && own.notes()[0].contains("(bind:1)"), "{:?}", own.notes());

    let seen_only = Seen::of(&results, "seen-only");
    assert!(seen_only.shares().iter().all(|share| *share < 0.02), "{:#}", seen_only.run);

    let huge = Seen::of(&results, "huge");
    assert!(huge.said("huge_bytes") > f64::from(128 << 20), "{}", huge.said);
    assert_eq!(huge.run["memory"]["huge_bytes"].as_f64().unwrap(), huge.said("huge_bytes"));
    assert!(huge.shares().iter().all(|share| (share - 0.5).abs() < 0.02), "{:#}", huge.run);

    let full = Seen::of(&results, "full");
    assert!(full.notes().len() == 1 && full.notes()[0].contains("node 1 was full"), "{:?}", full.notes());
    assert_eq!(full.run["memory"]["followed"], false);

    let refused = results.of("refused");
    assert_eq!(refused.exit, vm::Exit::Code(2));
    assert!(refused.stderr.contains("there is no NUMA node 2"), "{}", refused.stderr);
}
