//! What the kernel's own scheduler does with the workloads of `tests/fair`, beside the model of it.

use crate::guest;
use machine::Machine;
use misses::Report;
use replay::ReplayOutput;
use replay::counting_clock::{ICOUNT_SHIFT, count_instructions, told_search_costs};
use serde::Serialize;
use sim::{CpuIndex, End, Interval, ProcessIndex};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use vm::{Plugin, Step, Vm};

#[path = "../fair/experiments.rs"]
mod experiments;
#[path = "../fair/figures.rs"]
mod figures;
#[path = "../fair/policies.rs"]
mod policies;

use figures::{Figures, MEASURED_S, WARM_UP_S};

/// The machines: two packages, one, two NUMA nodes, and two dies of cores with two threads.
const TOPOLOGIES: [&str; 4] = ["2x4", "1x8", "nodes", "dies"];

/// With a model of caches, which takes most of a host's time: half as fast.
const ICOUNT_SHIFT_WITH_CACHES: u8 = 1;

/// Where chance decides much, a workload is replayed this many times; otherwise once.
const BY_CHANCE: [&str; 9] =
    ["bursty", "classes", "groups", "nested", "own-slices", "shared", "short", "sleepers", "weights"];
const REPLICATES_BY_CHANCE: u32 = 4;

/// Replicates of each workload under each policy.
const POLICY_REPLICATES: u32 = 4;

/// Guests with models of caches that run side by side: each takes a host's CPU.
const AT_ONCE: usize = 2;

/// How often a workload is replayed.
fn replicates(workload: &str) -> u32 {
    if BY_CHANCE.contains(&workload) { REPLICATES_BY_CHANCE } else { 1 }
}

/// Whether a workload is measured: all are, or with `STAYPUT_WORKLOADS` those that it names, separated by commas.
fn is_wanted(name: &str) -> bool {
    let named = std::env::var("STAYPUT_WORKLOADS").ok();
    named.is_none_or(|named| named.split(',').any(|wanted| wanted == name))
}

/// The workloads by name, and their files.
fn workloads() -> Vec<(String, PathBuf)> {
    let files = fs::read_dir(figures::workload_folder()).unwrap();
    let of = |path: PathBuf| (path.file_stem().unwrap().to_str().unwrap().to_owned(), path);
    let mut workloads: Vec<(String, PathBuf)> =
        files.map(|file| of(file.unwrap().path())).filter(|(name, _)| is_wanted(name)).collect();
    workloads.sort();
    workloads
}

/// Text for the shell that tells during a replay's warm-up what searches cost.
fn warm_up() -> String {
    format!("(for time in 1 2 3; do sleep 0.3; {}; done) &", told_search_costs())
}

/// A replay.
fn replay(workload: &str, replicate: u32) -> Step {
    let seconds = WARM_UP_S + MEASURED_S;
    let warm_up = warm_up();
    let text = format!(
        "{warm_up} stayput-replay /fair/{workload}.toml --machine /fair/machine.json --seconds {seconds} \
             --warm-up {WARM_UP_S} --replicate {replicate} --cache-balancing off --brief"
    );
    Step::shell(format!("{workload} {replicate}"), text)
}

/// A machine that knows its own tree.
fn vm(topology: &str) -> Option<Vm> {
    let mut vm = guest::vm(topology)?;
    vm.programs = vec![guest::optimised("stayput-replay")];
    count_instructions(&mut vm, ICOUNT_SHIFT);
    let machine = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fair-{topology}.json"));
    fs::write(&machine, serde_json::to_string(&vm.topology.machine().unwrap()).unwrap()).unwrap();
    vm.files = vec![(machine, "/fair/machine.json".into())];
    Some(vm)
}

/// The figures of every workload on a machine, and the kernel's release.
fn measured(topology: &str) -> Option<(String, BTreeMap<String, Vec<Figures>>)> {
    let mut vm = vm(topology)?;
    vm.files.extend(workloads().into_iter().map(|(name, path)| (path, format!("/fair/{name}.toml").into())));
    let runs = || {
        workloads().into_iter().flat_map(|(name, _)| (0..replicates(&name)).map(move |number| (name.clone(), number)))
    };
    // The first after a boot moves processes that later ones leave alone: nobody looks at it.
    let settling = runs().take(1).map(|(name, number)| Step { name: "settling".into(), ..replay(&name, number) });
    let steps = settling.chain(runs().map(|(name, number)| replay(&name, number)));
    let results = guest::run_within(guest::LONG_TIMEOUT, &vm, &format!("fair-{topology}"), steps.collect());
    let mut kernel = String::new();
    let mut of_replicate = |name: &str, number: u32| {
        let text = results.output(&format!("{name} {number}"));
        let output: ReplayOutput = serde_json::from_str(text).unwrap();
        kernel = output.kernel;
        figures::figures(&output.metrics)
    };
    let by_name = workloads().into_iter().map(|(name, _)| {
        let all = (0..replicates(&name)).map(|number| of_replicate(&name, number)).collect();
        (name, all)
    });
    let by_name = by_name.collect();
    Some((kernel, by_name))
}

/// A workload under a policy, and the section of its report in which the plugin counts after the warm-up.
fn under(policy: &str, workload: &str, replicate: u32, section: usize) -> Step {
    let options = match policy {
        "eevdf" => "--cache-balancing off",
        "eevdf-llc" => "--cache-balancing on",
        _ => "",
    };
    let seconds = WARM_UP_S + policies::MEASURED_S;
    let warm_up = warm_up();
    let replay = format!(
        "{warm_up} stayput-replay /fair/{workload}.json --machine /fair/machine.json --seconds {seconds} \
             --warm-up {WARM_UP_S} --replicate {replicate} --section {section} --brief --json /tmp/replay.json {options}"
    );
    let boosts = match policy {
        "light" => "--light",
        "heavy" => "--heavy",
        _ => "",
    };
    let text = match policy {
        "standard" | "light" | "heavy" => {
            format!("stayput-sched -q {boosts} --as-root --decay half --max-wait-ms 60000 --exact -- sh -c '{replay}'")
        }
        _ => replay,
    };
    Step::shell(format!("{workload} {policy}"), format!("({text}) >&2; cat /tmp/replay.json; rm -f /tmp/replay.json"))
        .within(Duration::from_secs(300))
}

/// One replicate of every workload under every policy, all in one boot.
fn under_policies(replicate: u32) -> Option<policies::Measured> {
    let mut vm = vm(policies::TOPOLOGY)?;
    let name = format!("policies-{replicate}");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(&name);
    fs::create_dir_all(&folder).unwrap();
    let [file, out] = ["caches.json", "misses.json"].map(|file| folder.join(file));
    fs::write(&file, serde_json::to_string(&policies::caches()).unwrap()).unwrap();
    // What the kernel itself refers to is not in the model.
    let arguments =
        vec![format!("machine={}", file.display()), format!("out={}", out.display()), "others=off".to_owned()];
    vm.icount_shift = Some(ICOUNT_SHIFT_WITH_CACHES);
    vm.plugin = Some(Plugin { library: guest::plugin(), arguments });
    vm.programs.push(guest::optimised("stayput-sched"));
    for workload in policies::runs().map(|(workload, _)| workload).collect::<BTreeSet<_>>() {
        let path = folder.join(format!("{workload}.json"));
        fs::write(&path, serde_json::to_string(&policies::scenario(workload)).unwrap()).unwrap();
        vm.files.push((path, format!("/fair/{workload}.json").into()));
    }
    let runs: Vec<(usize, (&str, &str))> = (1..).zip(policies::runs()).collect();
    // As above.
    let settling = Step { name: "settling".into(), ..under("eevdf", "busy", replicate, runs.len() + 1) };
    let steps = runs.iter().map(|&(section, (workload, policy))| under(policy, workload, replicate, section));
    let results = guest::run_within(guest::LONG_TIMEOUT, &vm, &name, std::iter::once(settling).chain(steps).collect());
    let report: Report = serde_json::from_str(&fs::read_to_string(&out).unwrap()).unwrap();
    let mut measured = policies::Measured::default();
    for (section, (workload, policy)) in runs {
        let output: ReplayOutput = serde_json::from_str(results.output(&format!("{workload} {policy}"))).unwrap();
        measured.kernel = output.kernel;
        let section = &report.sections[&(section as u32)];
        let misses: BTreeMap<_, _> = section.all.per_1000().into_iter().collect();
        let figures = policies::of_run(&output.metrics, misses[policies::MISSES]);
        measured.figures.entry(workload.into()).or_default().insert(policy.into(), vec![figures]);
    }
    Some(measured)
}

/// The stays that a replay wrote.
fn stays(machine: &Machine, text: &str) -> Vec<Interval> {
    let cpus: Vec<String> = machine.usable().map(|cpu| cpu.to_string()).collect();
    let stay = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |at: usize| fields[at].parse::<u64>().unwrap();
        let is_end = |end: &End| serde_json::to_value(end).unwrap().as_str() == Some(fields[5]);
        Interval {
            process: ProcessIndex(number(0) as u32),
            cpu: CpuIndex(cpus.iter().position(|cpu| cpu == fields[1]).unwrap() as u32),
            runnable_ns: number(2),
            from_ns: number(3),
            until_ns: number(4),
            end: End::ALL.into_iter().find(is_end).unwrap(),
        }
    };
    text.lines().skip(1).map(stay).collect()
}

/// What the kernel answers to each question about a machine.
fn answers(topology: &str, questions: &[&experiments::Question]) -> Option<experiments::Answers> {
    let mut vm = vm(topology)?;
    let file = |question: &&experiments::Question| (question.path(), format!("/fair/{}.toml", question.name).into());
    vm.files.extend(questions.iter().map(file));
    let ask = |name: &str, replicate: u32| {
        let text = format!(
            "stayput-replay /fair/{name}.toml --machine /fair/machine.json --seconds {} --replicate {replicate} \
                 --cache-balancing off --brief --json /tmp/replay.json --stays /tmp/stays >&2; \
             cat /proc/sys/kernel/osrelease /tmp/stays; rm -f /tmp/stays",
            experiments::SECONDS
        );
        Step::shell(format!("{name} {replicate}"), format!("{}\n{text}", warm_up()))
    };
    // As above.
    let settling = questions.iter().take(1).map(|question| Step { name: "settling".into(), ..ask(question.name, 0) });
    let runs =
        || questions.iter().flat_map(|question| (0..experiments::REPLICATES).map(move |number| (question, number)));
    let steps = settling.chain(runs().map(|(question, number)| ask(question.name, number)));
    let results = guest::run_within(guest::LONG_TIMEOUT, &vm, &format!("experiments-{topology}"), steps.collect());
    let (mut all, machine) = (experiments::Answers::default(), vm.topology.machine().unwrap());
    for (question, number) in runs() {
        let (kernel, text) = results.output(&format!("{} {number}", question.name)).split_once('\n').unwrap();
        all.kernel = kernel.into();
        all.answers.entry(question.name.into()).or_default().push(question.answer_of(&machine, stays(&machine, text)));
    }
    Some(all)
}

mod long {
    use super::*;

    /// Keeps what was measured in the target folder; with `STAYPUT_WRITE_MEASURED` also where `tests/fair` looks for it.
    fn keep(measured: &impl Serialize, name: &str, path: &Path) {
        let text = serde_json::to_string_pretty(measured).unwrap();
        fs::write(Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("kernel").join(name), &text).unwrap();
        if std::env::var_os("STAYPUT_WRITE_MEASURED").is_some() {
            fs::write(path, text).unwrap();
        }
    }

    /// Prints kernel beside model.
    #[test]
    #[ignore = "boots a virtual machine: make test-kernel"]
    fn the_model_of_the_kernels_scheduler_does_what_the_kernel_does() {
        // Of workloads that aren't measured now, what is known stays.
        let mut all = figures::measured();
        let topologies = std::env::var("STAYPUT_TOPOLOGIES").ok();
        let is_wanted =
            |name: &&str| topologies.as_ref().is_none_or(|named| named.split(',').any(|wanted| wanted == *name));
        for topology in TOPOLOGIES.into_iter().filter(is_wanted) {
            let Some((kernel, figures)) = measured(topology) else { return };
            all.kernel = kernel;
            all.figures.entry(topology.into()).or_default().extend(figures);
        }
        keep(&all, "fair.json", &figures::measured_path());
        let compared = figures::compared(&all);
        eprintln!("{}", figures::table(&compared));
        figures::check(&compared);
    }

    /// One decision each.
    #[test]
    #[ignore = "boots virtual machines: make test-kernel"]
    fn the_model_answers_as_the_kernel_does() {
        // Of questions that aren't asked now, what is known stays.
        let text = fs::read_to_string(experiments::answers_path()).unwrap();
        let mut all: experiments::Answers = serde_json::from_str(&text).unwrap();
        let asked = || experiments::QUESTIONS.iter().filter(|question| is_wanted(question.name));
        for topology in asked().map(|question| question.topology).collect::<BTreeSet<_>>() {
            let of = asked().filter(|question| question.topology == topology);
            let Some(answers) = answers(topology, &of.collect::<Vec<_>>()) else { return };
            all.kernel = answers.kernel;
            all.answers.extend(answers.answers);
        }
        keep(&all, "experiments.json", &experiments::answers_path());
        let (table, unexpected) = experiments::compared(&all);
        eprintln!("{table}");
        assert!(unexpected.is_empty(), "not as is known: {unexpected:?}");
    }

    /// The same for the policies: each replicate has a machine of its own.
    #[test]
    #[ignore = "boots virtual machines: make test-kernel"]
    fn the_models_of_policies_are_in_the_kernels_order() {
        let replicates: Vec<u32> = (0..POLICY_REPLICATES).collect();
        let side_by_side = |replicates: &[u32]| -> Vec<_> {
            std::thread::scope(|scope| {
                let boots: Vec<_> =
                    replicates.iter().map(|&replicate| scope.spawn(move || under_policies(replicate))).collect();
                boots.into_iter().map(|boot| boot.join().unwrap()).collect()
            })
        };
        let boots: Vec<_> = replicates.chunks(AT_ONCE).flat_map(side_by_side).collect();
        let mut all = policies::Measured::default();
        for boot in boots {
            let Some(policies::Measured { kernel, figures }) = boot else { return };
            all.kernel = kernel;
            for (workload, by_policy) in figures {
                let all = all.figures.entry(workload).or_default();
                by_policy.into_iter().for_each(|(policy, figures)| all.entry(policy).or_default().extend(figures));
            }
        }
        keep(&all, "policies.json", &policies::measured_path());
        let compared = policies::compared(&all);
        eprintln!("{}", compared.table);
        policies::check(&compared);
    }
}
