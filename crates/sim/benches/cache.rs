//! What cached state costs a dispatch: `cargo bench -p stayput-sim --bench cache`.

use machine::Machine;
use nix::time::{ClockId, clock_gettime};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use sim::cache::{CacheModel, Footprint, Hierarchy, Member, Timing};
use sim::{CpuIndex, Memory, ProcessIndex};
use std::hint::black_box;
use std::time::Duration;

/// Calls that are timed together.
const CALLS: usize = 1 << 20;

/// Time that this thread has run: other work on the machine doesn't count.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from).unwrap_or_else(|error| panic!("{error}"))
}

fn main() {
    let two_levels =
        |packages: u32, cores: u32| format!("pack:{packages} l3:1(size=33554432) l2:{cores}(size=1048576) core:1 pu:1");
    println!("{:>14} {:>6} {:>10} {:>7} {:>22}", "machine", "CPUs", "processes", "caches", "ns a dispatch and run");
    for (name, description, processes) in [
        ("sgi-4d340", "sgi-4d340".to_owned(), 8),
        ("sgi-4d340", "sgi-4d340".to_owned(), 1_000),
        ("L2, L3", two_levels(4, 16), 1_000),
        ("L2, L3", two_levels(64, 64), 100_000),
    ] {
        let machine = Machine::named(&description).unwrap_or_else(|error| panic!("{description}: {error}"));
        let cpus: Vec<_> = machine.usable().collect();
        let hierarchy =
            Hierarchy::new(&machine, &cpus, Timing::for_machine(&machine)).unwrap_or_else(|error| panic!("{error}"));
        let caches = hierarchy.depths();
        // The report's Matrix and Oracle.
        let matrix = Footprint { reload_lines: 3_000.0, steady_misses_per_ms: 125.0, ..Footprint::default() };
        let oracle = Footprint { reload_lines: 2_000.0, steady_misses_per_ms: 260.0, ..Footprint::default() };
        let members: Vec<_> =
            (0..processes).map(|job| Member { footprint: if job % 2 == 0 { matrix } else { oracle }, job }).collect();
        let mut model = CacheModel::new(hierarchy, &members);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        // Mostly, processes come back to where they were.
        let calls: Vec<_> = (0..CALLS)
            .map(|call| {
                let cpu = (call % cpus.len()) as u32;
                let near = random.random_range(0..(processes / cpus.len() as u32).max(1)) * cpus.len() as u32 + cpu;
                let process = if random.random_bool(0.9) { near } else { random.random_range(0..processes) };
                (ProcessIndex(process), CpuIndex(cpu), (call / cpus.len()) as u64 * 5_000_000)
            })
            .collect();
        let best_ns = (0..5)
            .map(|_| {
                let start = cpu_time();
                for &(process, cpu, now_ns) in &calls {
                    model.dispatch(process, cpu, now_ns);
                    black_box(model.run(process, cpu, now_ns, u64::MAX, 5_000_000));
                }
                (cpu_time() - start).as_secs_f64() * 1e9 / CALLS as f64
            })
            .fold(f64::INFINITY, f64::min);
        println!("{name:>14} {:>6} {processes:>10} {caches:>7} {best_ns:>22.1}", cpus.len());
    }
}
