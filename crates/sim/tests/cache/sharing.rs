//! Lines and caches that several use, by line and by model.

use crate::lines::LineCache;
use crate::program::{Program, Stream};
use crate::{DIRECT_MAPPED, Geometry, applications, caches, characterise};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use sim::cache::{CacheModel, Footprint, Member, Order};
use sim::{CpuIndex, Memory, ProcessIndex};

const SLICE_NS: u64 = 10_000_000;

fn matrix() -> Stream {
    applications(Order::Random)[0]
}

fn assert_close(what: &str, by_line: f64, modelled: f64, percent: f64) {
    println!("{what}: {by_line:.0} by line, {modelled:.0} by model");
    assert!((modelled / by_line - 1.0).abs() <= percent / 100.0, "{what}: {by_line} by line, {modelled} by model");
}

/// Two processes of one job take turns with one of another job.
#[test]
fn what_one_process_of_a_job_loaded_another_finds() {
    let [matrix, .., oracle] = applications(Order::Random);
    let shared_lines = 2_000;
    let mut cache = LineCache::new(DIRECT_MAPPED.0, DIRECT_MAPPED.1);
    let shared = Program::new(matrix, &cache, 9, 9).lines(shared_lines);
    let mut programs = [
        Program::sharing(matrix, &cache, 0, 0, &shared),
        Program::sharing(matrix, &cache, 1, 1, &shared),
        Program::new(oracle, &cache, 2, 2),
    ];
    let job = Footprint { shared_lines: shared_lines as f64, ..characterise(matrix, DIRECT_MAPPED) };
    let members = [
        Member { footprint: job, job: 0 },
        Member { footprint: job, job: 0 },
        Member { footprint: characterise(oracle, DIRECT_MAPPED), job: 1 },
    ];
    let mut model = CacheModel::new(caches("sgi-4d340", DIRECT_MAPPED), &members);
    let mut sums = [(0.0, 0.0); 3];
    for turn in 0..60 {
        let program = turn as usize % 3;
        let (misses, _) = programs[program].run(&mut cache, SLICE_NS as f64);
        model.dispatch(ProcessIndex(program as u32), CpuIndex(0), turn * SLICE_NS);
        let ran = model.run(ProcessIndex(program as u32), CpuIndex(0), turn * SLICE_NS, u64::MAX, SLICE_NS);
        if turn >= 6 {
            sums[program].0 += f64::from(misses);
            sums[program].1 += ran.misses.total();
        }
    }
    for (program, (by_line, modelled)) in sums.into_iter().enumerate() {
        assert_close(["first", "second", "other job"][program], by_line, modelled, 5.0);
    }
}

/// Two processes of one job on two CPUs, which write to the lines that they share.
#[test]
fn writers_elsewhere_cost_invalidation_misses() {
    let shared_lines = 1_000;
    for writes_per_ms in [20.0, 200.0] {
        let mut by_line = vec![LineCache::new(DIRECT_MAPPED.0, DIRECT_MAPPED.1); 2];
        let shared = Program::new(matrix(), &by_line[0], 9, 9).lines(shared_lines);
        let mut programs =
            [0, 1].map(|number| Program::sharing(matrix(), &by_line[0], number, u64::from(number), &shared));
        let footprint = Footprint {
            shared_lines: shared_lines as f64,
            shared_writes_per_ms: writes_per_ms,
            ..characterise(matrix(), DIRECT_MAPPED)
        };
        let mut model = CacheModel::new(caches("sgi-4d340", DIRECT_MAPPED), &[Member { footprint, job: 0 }; 2]);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
        let (mut line_misses, mut model_misses, mut invalidations) = (0.0, 0.0, 0.0);
        let mut due = [0.0; 2];
        let step_ns = 10_000;
        for step in 0..10_000 {
            let now_ns = step * step_ns;
            for cpu in 0..2 {
                let (misses, work_ns) = programs[cpu].run(&mut by_line[cpu], step_ns as f64);
                due[cpu] += work_ns * 1e-6 * writes_per_ms;
                while due[cpu] >= 1.0 {
                    due[cpu] -= 1.0;
                    by_line[1 - cpu].invalidate(shared[random.random_range(0..shared.len())]);
                }
                let (process, on) = (ProcessIndex(cpu as u32), CpuIndex(cpu as u32));
                model.dispatch(process, on, now_ns);
                let ran = model.run(process, on, now_ns, u64::MAX, step_ns);
                if step >= 2_000 {
                    line_misses += f64::from(misses);
                    model_misses += ran.misses.total();
                    invalidations += ran.misses.invalidation;
                }
            }
        }
        assert_close(&format!("{writes_per_ms} writes a ms"), line_misses, model_misses, 5.0);
        assert!(invalidations > 0.05 * model_misses);
    }
}

/// A process comes back to a CPU whose cache kept its lines, but for those that others wrote to elsewhere.
#[test]
fn what_was_written_while_away_is_fetched_again() {
    let footprint =
        Footprint { reload_lines: 1_000.0, shared_lines: 1_000.0, shared_writes_per_ms: 100.0, ..Footprint::default() };
    let mut model = CacheModel::new(caches("sgi-4d340", DIRECT_MAPPED), &[Member { footprint, job: 0 }; 2]);
    let (first, second) = (ProcessIndex(0), ProcessIndex(1));
    model.dispatch(first, CpuIndex(0), 0);
    model.run(first, CpuIndex(0), 0, SLICE_NS, u64::MAX);
    model.dispatch(second, CpuIndex(1), 50_000_000);
    model.run(second, CpuIndex(1), 50_000_000, SLICE_NS, u64::MAX);
    model.dispatch(first, CpuIndex(0), 100_000_000);
    let ran = model.run(first, CpuIndex(0), 100_000_000, SLICE_NS, u64::MAX);
    // 1,000 writes to 1,000 lines leave exp(-1) of them.
    assert!((ran.misses.invalidation - 1_000.0 * (1.0 - (-1.0f64).exp())).abs() < 0.1, "{ran:?}");
    assert!(ran.misses.reload < 0.1);
}

/// Two programs at once under a cache that they share, of the Xeon E5405's pairs.
#[test]
fn neighbours_under_a_cache_displace_each_other() {
    // The last is three quarters full with what the two use again and again: the model is to see that it gets worse.
    for (geometry, percent) in [((16_384, 1), 5.0), ((16_384, 4), 10.0), ((8_192, 8), 30.0)] {
        let (by_line, by_model) = at_once(matrix(), geometry);
        assert_close(&format!("{geometry:?} at once"), by_line, by_model, percent);
    }
}

/// Misses of two programs at once, by line and by model.
fn at_once(stream: Stream, geometry: Geometry) -> (f64, f64) {
    let mut cache = LineCache::new(geometry.0, geometry.1);
    let mut programs = [0, 1].map(|number| Program::new(stream, &cache, number, u64::from(number)));
    let footprint = characterise(stream, geometry);
    let members = [0, 1].map(|job| Member { footprint, job });
    let mut model = CacheModel::new(caches("xeon-e5405", geometry), &members);
    let (mut line_misses, mut model_misses) = (0.0, 0.0);
    let step_ns = 10_000;
    for step in 0..4_000 {
        for (cpu, program) in programs.iter_mut().enumerate() {
            let (misses, _) = program.run(&mut cache, step_ns as f64);
            let (process, on) = (ProcessIndex(cpu as u32), CpuIndex(cpu as u32));
            model.dispatch(process, on, step * step_ns);
            let ran = model.run(process, on, step * step_ns, u64::MAX, step_ns);
            if step >= 1_000 {
                line_misses += f64::from(misses);
                model_misses += ran.misses.total();
            }
        }
    }
    (line_misses, model_misses)
}
