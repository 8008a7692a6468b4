//! Round robin on SimCore, the Rust core of the DSLab simulators: a peer of `benches/dispatch.rs`, which runs it.
//!
//! Arguments: CPUs, processes, how long to simulate and the quantum, both in ms. It prints million dispatches a second of
//! CPU time.

use nix::time::{ClockId, clock_gettime};
use serde::Serialize;
use simcore::{Event, EventHandler, Simulation, SimulationContext, cast};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

#[derive(Clone, Serialize)]
struct QuantumOver {
    cpu: usize,
}

/// The scheduler as SimCore's examples write one: a component that is told of every end of a quantum.
struct RoundRobin {
    context: SimulationContext,
    queue: VecDeque<u32>,
    running: Vec<u32>,
    quantum_ms: f64,
    dispatches: u64,
}

impl RoundRobin {
    fn dispatch(&mut self, cpu: usize) {
        if let Some(process) = self.queue.pop_front() {
            self.running[cpu] = process;
            self.dispatches += 1;
            self.context.emit_self(QuantumOver { cpu }, self.quantum_ms);
        }
    }
}

impl EventHandler for RoundRobin {
    fn on(&mut self, event: Event) {
        cast!(match event.data {
            QuantumOver { cpu } => {
                self.queue.push_back(self.running[cpu]);
                self.dispatch(cpu);
            }
        })
    }
}

fn cpu_s() -> f64 {
    let cpu_time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("Linux has a clock of CPU time");
    Duration::from(cpu_time).as_secs_f64()
}

fn main() {
    let numbers: Vec<f64> = std::env::args().skip(1).filter_map(|number| number.parse().ok()).collect();
    let [cpus, processes, horizon_ms, quantum_ms] = numbers[..] else {
        eprintln!("simcore-peer: give CPUs, processes, and in ms the time to simulate and the quantum");
        std::process::exit(2);
    };
    let mut simulation = Simulation::new(1);
    let context = simulation.create_context("scheduler");
    let scheduler = Rc::new(RefCell::new(RoundRobin {
        context,
        queue: (0..processes as u32).collect(),
        running: vec![0; cpus as usize],
        quantum_ms,
        dispatches: 0,
    }));
    simulation.add_handler("scheduler", scheduler.clone());
    let begin_s = cpu_s();
    (0..cpus as usize).for_each(|cpu| scheduler.borrow_mut().dispatch(cpu));
    simulation.step_until_time(horizon_ms);
    println!("{}", scheduler.borrow().dispatches as f64 / (cpu_s() - begin_s) / 1e6);
}
