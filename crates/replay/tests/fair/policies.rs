//! What several schedulers did with a workload in a kernel, and what their models do: under which a process migrates more, runs
//! longer, and misses more.

use super::figures::{self, Figures, WARM_UP_S};
use machine::Machine;
use replay::{Policy, Scenario, Trace, without_warm_up};
use serde::{Deserialize, Serialize};
use sim::cache::Timing;
use sim::{CacheModel, Experiment, Footprint, KernelParameters, Parameters, QuantumEnd, Release, Wake};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

/// What is compared, by their names on the command line.
pub const POLICIES: [&str; 5] = ["eevdf", "eevdf-llc", "standard", "light", "heavy"];

/// What runs: workloads that every policy schedules by what they do, not by what they ask for.
const WORKLOADS: [&str; 8] = ["busy", "busy-uneven", "sleepers", "bursty", "servers", "mixed", "crowd", "pipeline"];

/// Those that run under `eevdf` alone. `short` isn't among them: its processes load their lines for the first time, which the guest's misses leave
/// out and the model's hold.
const UNDER_EEVDF: [&str; 8] =
    ["barriers", "classes", "fewer", "locks", "own-slices", "quiet-servers", "shared", "weights"];

/// All workloads, each with a policy under which it runs.
pub fn runs() -> impl Iterator<Item = (&'static str, &'static str)> {
    let under_all = WORKLOADS.iter().flat_map(|&workload| POLICIES.map(|policy| (workload, policy)));
    under_all.chain(UNDER_EEVDF.map(|workload| (workload, "eevdf")))
}

/// The machine, and of its caches those of which misses are counted.
pub const TOPOLOGY: &str = "2x4";
const CACHES: &str = "pack:2 l2:4(size=512KiB) core:1 pu:1";

/// The caches, of a page for each way: a line can go wherever others are used least, whatever pages the kernel gave. In sets of fewer ways
/// they meet by chance, which is not what schedulers differ by.
pub fn caches() -> Machine {
    let text = serde_json::to_string(&Machine::named(CACHES).unwrap()).unwrap();
    let size = r#""size_bytes":524288,"#;
    assert!(text.contains(size));
    serde_json::from_str(&text.replace(size, &format!(r#"{size}"associativity":{{"ways":128}},"#))).unwrap()
}

/// After the warm-up.
pub const MEASURED_S: f64 = 1.5;

/// Each process refers at random to lines of its own that fill half of its L2: two leave each other in peace, three don't.
const LINES: f64 = 4_096.0;
const PASS_US: f64 = 4_000.0;

/// Misses of the L2 of 1,000 references, but for the first of each line.
pub const MISSES: &str = "l2_misses_per_1000";
const COMPARED: [&str; 3] = ["migrations_per_s", "effective_slice_mean_ms", MISSES];

/// By workload and policy, the figures of each replicate.
pub type ByPolicy = BTreeMap<String, BTreeMap<String, Vec<Figures>>>;

/// What a kernel did.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Measured {
    /// The kernel's release.
    pub kernel: String,
    pub figures: ByPolicy,
}

/// Where it is kept.
pub fn measured_path() -> PathBuf {
    figures::measured_path().with_file_name("policies.json")
}

/// A workload whose processes have memory.
pub fn scenario(name: &str) -> Scenario {
    let mut file = figures::workload(name);
    for job in &mut file.workload.jobs {
        job.process.memory =
            Footprint { reload_lines: LINES, line_bytes: 64.0, pass_us: PASS_US, ..Footprint::default() };
    }
    Scenario { workload: file.workload, parameters: file.parameters }
}

/// The kernel's tick, in ms: a quantum ends with the first after it is over.
const TICK_MS: f64 = 4.0;

/// What the model of a policy does with a workload in one replicate.
fn modelled(machine: &Machine, kernel: &KernelParameters, name: &str, policy: Policy, replicate: u32) -> Figures {
    let Scenario { workload, parameters } = scenario(name);
    let caches = caches();
    // Misses take no time in the guest: its clock counts instructions.
    let timing =
        Timing { next_cache_ns: 1e-3, memory_ns: 1e-3, other_node_ns: 1e-3, other_package_ns: 1e-3, bus_ns: 0.0 };
    let run = |horizon_s: f64| {
        let parameters = Parameters {
            horizon_ms: Some(horizon_s * 1e3),
            kernel: Some(kernel.clone()),
            jitter_us: 1.0,
            quantum_ms: (parameters.quantum_ms / TICK_MS).ceil() * TICK_MS,
            quantum_end: QuantumEnd::Elapsed,
            wake: Wake::Nearest,
            ..parameters.clone()
        };
        let experiment = Experiment::new(machine, &workload, &parameters).unwrap();
        let memory = CacheModel::for_machine(&caches, timing, &workload).unwrap();
        let mut intervals = Vec::new();
        let outcome = experiment.run(policy.simulated_by(), replicate, memory, |interval| intervals.push(interval));
        (outcome, intervals)
    };
    let (outcome, intervals) = run(WARM_UP_S + MEASURED_S);
    let (before, _) = run(WARM_UP_S);
    let warm_up_ns = (WARM_UP_S * 1e9) as u64;
    let (intervals, processes) = without_warm_up(warm_up_ns, &intervals, &outcome.processes);
    let trace = Trace {
        workload: &workload,
        machine,
        intervals: &intervals,
        processes: &processes,
        until_ns: ((outcome.makespan_ms * 1e6) as u64).saturating_sub(warm_up_ns),
    };
    let work_ms = |outcome: &sim::Outcome| outcome.jobs.iter().map(|job| job.cpu_ms).sum::<f64>();
    let references = (work_ms(&outcome) - work_ms(&before)) * 1e3 / PASS_US * LINES;
    let misses = outcome.misses().total() - before.misses().total();
    of_run(&trace.measurements().metrics, misses / references * 1e3)
}

/// The figures of one run.
pub fn of_run(metrics: &BTreeMap<String, f64>, misses_per_1000: f64) -> Figures {
    let of = |name: &&str| Some(((*name).to_owned(), *metrics.get(*name)?));
    COMPARED.iter().filter_map(of).chain([(MISSES.into(), misses_per_1000)]).collect()
}

/// What the models do with every workload.
fn all_modelled(kernel: &KernelParameters, replicates: u32) -> ByPolicy {
    let machine = TOPOLOGY.parse::<vm::Topology>().unwrap().machine().unwrap();
    let mut models = ByPolicy::new();
    for (workload, policy) in runs() {
        let replicate = |number| modelled(&machine, kernel, workload, policy.parse().unwrap(), number);
        let figures = (0..replicates).map(replicate).collect();
        models.entry(workload.into()).or_default().insert(policy.into(), figures);
    }
    models
}

/// Two policies of which the kernel showed that one has more of something.
#[derive(Debug)]
pub struct Order {
    text: String,
    pub is_the_models: bool,
}

/// What is less apart is not told apart: migrations a second as in `figures.rs`, misses of 1,000.
const RESOLUTION: f64 = 2.0;

/// One is shown to have more if each of its replicates has more than each of the other's, and their means are a tenth apart, and by
/// more than what can be told apart.
fn is_shown(figure: &str, less: &[f64], more: &[f64]) -> bool {
    let most = less.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let least = more.iter().copied().fold(f64::INFINITY, f64::min);
    let resolution = if figure.ends_with("_ms") { 0.0 } else { RESOLUTION };
    least > most && mean(more) > (1.1 * mean(less)).max(mean(less) + resolution)
}

fn mean(all: &[f64]) -> f64 {
    all.iter().sum::<f64>() / all.len() as f64
}

/// What a kernel did beside what the models do.
pub struct Compared {
    pub orders: Vec<Order>,
    /// Misses by policy and workload: the kernel's, and the model's.
    pub misses: Vec<(&'static str, &'static str, [f64; 2])>,
    pub table: String,
}

impl Compared {
    /// On how many workloads the kernel's misses are within 25 % of the model's, or not told apart, under some policies.
    fn near_misses(&self, is_one: impl Fn(&str) -> bool) -> usize {
        let is_near = |[kernel, model]: [f64; 2]| {
            (kernel - model).abs() <= RESOLUTION || (0.8..=1.25).contains(&(kernel / model))
        };
        self.misses.iter().filter(|(policy, _, misses)| is_one(policy) && is_near(*misses)).count()
    }
}

/// Replicates of the models.
const REPLICATES: u32 = 4;

/// Compares every figure of every workload under every policy.
pub fn compared(measured: &Measured) -> Compared {
    let kernel = KernelParameters::of(Release::modelling(&measured.kernel).unwrap());
    let models = all_modelled(&kernel, REPLICATES);
    let of = |all: &ByPolicy, workload: &str, policy: &str, figure: &str| -> Vec<f64> {
        let replicates = all[workload].get(policy).into_iter().flatten();
        replicates.map(|figures| figures[figure]).collect()
    };
    let mut compared = Compared { orders: Vec::new(), misses: Vec::new(), table: String::new() };
    let header = POLICIES.map(|policy| format!("{policy:>18}")).concat();
    let _ = writeln!(compared.table, "kernel/model{:28}{header}", "");
    for workload in WORKLOADS {
        for figure in COMPARED {
            let beside = POLICIES.map(|policy| {
                (policy, of(&measured.figures, workload, policy, figure), of(&models, workload, policy, figure))
            });
            let cells = beside.iter().map(|(_, kernel, model)| format!("{:9.2}/{:8.2}", mean(kernel), mean(model)));
            let _ = writeln!(compared.table, "{workload:14}{figure:26}{}", cells.collect::<String>());
            for (one, one_kernel, one_model) in &beside {
                for (other, other_kernel, other_model) in &beside {
                    if is_shown(figure, one_kernel, other_kernel) {
                        let is_the_models = mean(one_model) < mean(other_model);
                        let text = format!("{workload}: {figure}: {one} less than {other}");
                        compared.orders.push(Order { text, is_the_models });
                    }
                }
            }
        }
    }
    for (workload, policy) in runs() {
        let misses = [&measured.figures, &models].map(|all| mean(&of(all, workload, policy, MISSES)));
        compared.misses.push((policy, workload, misses));
    }
    for (policy, workload, [kernel, model]) in compared.misses.iter().filter(|(policy, ..)| *policy == "eevdf") {
        let _ = writeln!(
            compared.table,
            "{workload:14}misses under {policy}: {kernel:9.2}/{model:8.2} {:6.2}",
            kernel / model
        );
    }
    let agreeing = compared.orders.iter().filter(|order| order.is_the_models).count();
    let _ = writeln!(
        compared.table,
        "{agreeing} of {} orders that the kernel shows are the models'; misses within 25 %: {} of {} under eevdf, {} of {} under all",
        compared.orders.len(),
        compared.near_misses(|policy| policy == "eevdf"),
        compared.misses.iter().filter(|(policy, ..)| *policy == "eevdf").count(),
        compared.near_misses(|_| true),
        compared.misses.len(),
    );
    for order in compared.orders.iter().filter(|order| !order.is_the_models) {
        let _ = writeln!(compared.table, "not so in the models: {}", order.text);
    }
    compared
}

/// Every order that the kernel shows is the models', and so are most misses: those of `barriers`, `locks` and `classes` are few, and come of the migrations
/// in which they differ.
pub fn check(compared: &Compared) {
    let agreeing = compared.orders.iter().filter(|order| order.is_the_models).count();
    assert_eq!(agreeing, compared.orders.len(), "{}", compared.table);
    let under_eevdf = compared.misses.iter().filter(|(policy, ..)| *policy == "eevdf").count();
    assert!(compared.near_misses(|policy| policy == "eevdf") * 4 >= under_eevdf * 3, "{}", compared.table);
    assert!(compared.near_misses(|_| true) * 4 >= compared.misses.len() * 3, "{}", compared.table);
}
