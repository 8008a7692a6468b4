//! What the kernel's own scheduler does with the workloads of `tests/fair`, beside the model of it.

use crate::guest;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use vm::Step;

#[path = "../fair/figures.rs"]
mod figures;

use figures::{Figures, MEASURED_S, Measured, WARM_UP_S, mean};

/// The machines: two packages, one, two NUMA nodes, and two dies of cores with two threads.
const TOPOLOGIES: [&str; 4] = ["2x4", "1x8", "nodes", "dies"];

/// An instruction takes a nanosecond, and of eight busy CPUs each executes one in eight: a quarter of what a small real one does.
/// With slower ones the kernel's own work takes so much of a slice that figures are no more those of a machine.
const ICOUNT_SHIFT: u8 = 0;

/// Replicates of each workload.
const REPLICATES: u32 = 1;

/// What a newly idle CPU's search takes at most, in ns. The kernel learns it; in an emulator, where another CPU may take its turn meanwhile,
/// it learns milliseconds while the machine boots, and then such CPUs search no more. So it is told again.
const NEWIDLE_COST_NS: u32 = 20_000;

/// The workloads by name, and their files.
fn workloads() -> Vec<(String, PathBuf)> {
    let files = fs::read_dir(figures::workload_folder()).unwrap();
    let named = |path: PathBuf| (path.file_stem().unwrap().to_str().unwrap().to_owned(), path);
    let mut workloads: Vec<(String, PathBuf)> = files.map(|file| named(file.unwrap().path())).collect();
    workloads.sort();
    workloads
}

/// A replay, and during its warm-up what searches cost.
fn replay(workload: &str, replicate: u32) -> Step {
    let seconds = WARM_UP_S + MEASURED_S;
    let costs = "/sys/kernel/debug/sched/domains/cpu*/*/max_newidle_lb_cost";
    let text = format!(
        "(for time in 1 2 3; do sleep 0.3; for cost in {costs}; do echo {NEWIDLE_COST_NS} > $cost; done; done) &
         stayput-replay /fair/{workload}.toml --machine /fair/machine.json --seconds {seconds} --warm-up {WARM_UP_S} \
             --replicate {replicate} --cache-balancing off --brief"
    );
    Step::shell(format!("{workload} {replicate}"), text)
}

/// The figures of every workload on a machine, and the kernel's release.
fn measured(topology: &str) -> Option<(String, BTreeMap<String, Figures>)> {
    let mut vm = guest::vm(topology)?;
    vm.programs = vec![env!("CARGO_BIN_EXE_stayput-replay").into()];
    vm.icount_shift = Some(ICOUNT_SHIFT);
    // For the folder of what searches cost.
    vm.kernel_arguments = vec!["sched_verbose".into()];
    let machine = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fair-{topology}.json"));
    fs::write(&machine, serde_json::to_string(&vm.topology.machine().unwrap()).unwrap()).unwrap();
    vm.files.push((machine, "/fair/machine.json".into()));
    vm.files.extend(workloads().into_iter().map(|(name, path)| (path, format!("/fair/{name}.toml").into())));
    let steps = workloads().into_iter().flat_map(|(name, _)| (0..REPLICATES).map(move |number| replay(&name, number)));
    let results = guest::run_within(guest::LONG_TIMEOUT, &vm, &format!("fair-{topology}"), steps.collect());
    let mut kernel = String::new();
    let mut of_replicate = |name: &str, number: u32| {
        let text = results.output(&format!("{name} {number}"));
        let output: replay::ReplayOutput = serde_json::from_str(text).unwrap();
        kernel = output.kernel;
        figures::figures(&output.metrics)
    };
    let by_name = workloads().into_iter().map(|(name, _)| {
        let all: Vec<Figures> = (0..REPLICATES).map(|number| of_replicate(&name, number)).collect();
        (name, mean(&all))
    });
    let by_name = by_name.collect();
    Some((kernel, by_name))
}

mod long {
    use super::*;

    /// Prints kernel beside model, and keeps what was measured in the target folder; with `STAYPUT_WRITE_MEASURED` also where
    /// `tests/fair` looks for it.
    #[test]
    #[ignore = "boots a virtual machine: make test-kernel"]
    fn the_model_of_the_kernels_scheduler_does_what_the_kernel_does() {
        let mut all = Measured::default();
        for topology in TOPOLOGIES {
            let Some((kernel, figures)) = measured(topology) else { return };
            all.kernel = kernel;
            all.figures.insert(topology.into(), figures);
        }
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("kernel").join("fair.json");
        let text = serde_json::to_string_pretty(&all).unwrap();
        fs::write(kept, &text).unwrap();
        if std::env::var_os("STAYPUT_WRITE_MEASURED").is_some() {
            fs::write(figures::measured_path(), text).unwrap();
        }
        let compared = figures::compared(&all);
        eprintln!("{}", figures::table(&compared));
        figures::check(&compared);
    }
}
