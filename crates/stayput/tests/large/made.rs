//! Studies of any size without a program: their trials are made here, and kept by the study crate as those of programs are.

use machine::{CpuId, CpuSet, Machine, Placement};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use study::engine::{CellStudy, Runner, RunnerError, Turn, run_blocks};
use study::{
    Comparison, Exit, Host, Observation, Plan, Race, RaceStop, Session, Status, StopRule, Subject, ThreadObservation,
    Treatment, Trial,
};

/// Threads of each trial.
const THREADS: u32 = 2;

/// A plan of so many cells, the first of them unbound.
fn plan(cells: u32) -> Plan {
    let bound = (1..cells).map(|cell| {
        let cpus = (0..THREADS).map(|thread| CpuId((cell + thread) % 8));
        Treatment::new(format!("p{cell}"), vec![Some(Placement::from_cpus("list", cpus))])
    });
    Plan {
        subjects: vec![Subject { name: "app".into(), argv: vec!["app".into()], ..Subject::default() }],
        threads: vec![THREADS.into()],
        treatments: std::iter::once(Treatment::unbound()).chain(bound).collect(),
        warmup_blocks: 0,
        timeout: Duration::from_secs(60),
        budget: Some(Duration::from_secs(1 << 30)),
        seed: 1,
        ..Plan::default()
    }
}

/// A comparison that is never narrow enough, and so makes `trials` in all.
pub fn comparison(cells: u32, trials: u32) -> Comparison {
    let stop = StopRule::Paired { width: 1e-9, min_blocks: 10, max_blocks: trials / cells };
    Comparison { plan: plan(cells), stop }
}

/// A race that never tells its arms apart, and so makes `trials` in all.
pub fn race(cells: u32, trials: u32) -> Race {
    let search = stats::RaceRule::Guarantee { epsilon: 1e-9, delta: 0.05, max_runs: trials };
    Race { plan: plan(cells), stop: RaceStop { search, cut_off: 3.0, kept: None } }
}

/// Makes the study of `plan` in a journal, or goes on with it; gives how many trials it has.
///
/// # Panics
/// When the journal can't be written.
pub fn make<S: CellStudy>(study: &S, journal: &Path) -> usize {
    let machine = Machine::named("pack:1 core:8 pu:1").unwrap();
    let mut session = Session::open(Some(journal), study, &machine, &Host::Modelled, &["stayput".into()]).unwrap();
    let ending = run_blocks(&mut session, &mut Maker { draw: 1 }, &mut |_| ());
    session.end(ending).unwrap().trials.len()
}

/// Makes trials whose times scatter by 2 %.
struct Maker {
    draw: u64,
}

impl Maker {
    /// Evenly from 0 to 1 (Knuth's linear congruential generator).
    fn draw(&mut self) -> f64 {
        self.draw = self.draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.draw >> 11) as f64 / (1_u64 << 53) as f64
    }
}

impl Runner for Maker {
    fn run(&mut self, plan: &Plan, turn: &Turn) -> Result<Trial, RunnerError> {
        let time_s = 0.05 * (1.0 + 0.02 * (self.draw() + self.draw() + self.draw() - 1.5));
        let intended = plan.placement(turn.cell).map(|placement| placement.slots.clone());
        let thread = |thread: u32| {
            let slot = intended.as_ref().map(|slots| slots[thread as usize].clone());
            ThreadObservation {
                process: 0,
                exec: 0,
                thread,
                tid: 1000 + thread as i32,
                name: Some("app".into()),
                actual_cpus: slot.clone().unwrap_or_else(|| (0..8).map(CpuId).collect::<CpuSet>()),
                intended_cpus: slot,
                last_cpu: Some(CpuId(thread)),
                migrations: Some(1),
                cpu_s: Some(time_s),
                waited_s: Some(0.0),
                is_helper: false,
                began_s: Some(0.0),
                ended_s: Some(time_s),
            }
        };
        let counters = ["cycles", "instructions", "cache_misses"];
        let observation = Observation {
            exit: Exit::Code(0),
            wall_s: time_s,
            user_s: time_s,
            system_s: 0.001,
            max_rss_bytes: 1 << 20,
            voluntary_switches: 3,
            involuntary_switches: 1,
            migrations: Some(2),
            minor_faults: 100,
            major_faults: 0,
            read_bytes: None,
            written_bytes: None,
            energy_j: None,
            counters: counters.map(|name| (name.to_owned(), 1_000_000)).into_iter().collect::<BTreeMap<_, _>>(),
            stops: Some(4),
            stops_s: Some(1e-5),
            threads: (0..THREADS).map(thread).collect(),
            leftovers: 0,
            conditions: Default::default(),
            notes: Vec::new(),
        };
        let started_unix_s = 1.7e9 + 0.06 * f64::from(turn.sequence);
        Ok(Trial {
            status: Status::Ok,
            time_s: Some(time_s),
            ran_s: Some(time_s),
            observation: Some(observation),
            more: None,
            output_tail: "It is done.\n".into(),
            ..turn.trial(plan, started_unix_s)
        })
    }
}
