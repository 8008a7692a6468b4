//! Misses a slice, by line and by model.

use crate::lines::LineCache;
use crate::program::{Program, Stream};
use crate::{DIRECT_MAPPED, Geometry, applications, caches, characterise};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use sim::cache::{CacheModel, Member, Order};
use sim::{CpuIndex, Memory, ProcessIndex};

/// Who runs where next.
#[derive(Clone, Copy, Debug)]
struct Turn {
    program: usize,
    cpu: usize,
}

/// For each program its misses a slice, by line and by model, after `warm_up` turns. By line it is the mean over several
/// places where the programs may lie.
fn misses_a_slice(
    streams: &[Stream],
    geometry: Geometry,
    cpus: usize,
    slice_ms: u32,
    turns: &[Turn],
    warm_up: usize,
) -> Vec<(f64, f64)> {
    let slice_ns = u64::from(slice_ms) * 1_000_000;
    let mut by_line = vec![0.0; streams.len()];
    let places = if slice_ms < 30 { 5 } else { 1 };
    for place in 0..places {
        let mut caches = vec![LineCache::new(geometry.0, geometry.1); cpus];
        let program = |(number, &stream)| Program::new(stream, &caches[0], number, u64::from(number) + 100 * place);
        let mut programs: Vec<_> = (0..).zip(streams).map(program).collect();
        for (number, &Turn { program, cpu }) in turns.iter().enumerate() {
            let (misses, _) = programs[program].run(&mut caches[cpu], slice_ns as f64);
            if number >= warm_up {
                by_line[program] += f64::from(misses) / places as f64;
            }
        }
    }

    let member = |(job, &stream)| Member { footprint: characterise(stream, geometry), job };
    let members: Vec<_> = (0..).zip(streams).map(member).collect();
    let mut model = CacheModel::new(caches("sgi-4d340", geometry), &members);
    let mut modelled = vec![0.0; streams.len()];
    let mut slices = vec![0.0; streams.len()];
    let mut now_ns = 0;
    for (number, &Turn { program, cpu }) in turns.iter().enumerate() {
        let (process, on) = (ProcessIndex(program as u32), CpuIndex(cpu as u32));
        model.dispatch(process, on, now_ns);
        let ran = model.run(process, on, now_ns, u64::MAX, slice_ns);
        now_ns += slice_ns;
        if number >= warm_up {
            modelled[program] += ran.misses.total();
            slices[program] += 1.0;
        }
    }
    (by_line.iter().zip(modelled).zip(slices)).map(|((line, model), slices)| (line / slices, model / slices)).collect()
}

/// How near they are where whole working sets are used, and where parts of them are: in percent, or in misses.
const WHOLE: (f64, f64) = (5.0, 0.0);
const PARTS: (f64, f64) = (17.0, 10.0);

/// Prints a row for each program, and checks that the model is within so many percent, or so few misses.
fn agree(case: &str, streams: &[Stream], slice_ms: u32, misses: &[(f64, f64)], (percent, few): (f64, f64)) {
    for (stream, (by_line, modelled)) in streams.iter().zip(misses) {
        let off = (modelled / by_line - 1.0) * 100.0;
        println!("{case} {slice_ms:4} ms {:8} {by_line:9.0} {modelled:9.0} {off:+6.1} %", stream.name);
        assert!(
            off.abs() <= percent || (modelled - by_line).abs() <= few,
            "{case}, {slice_ms} ms: {} misses {by_line} by line, {modelled} by model",
            stream.name
        );
    }
}

/// The report's workloads and others, in turns on one CPU.
fn in_turns(geometry: Geometry) {
    for order in [Order::Random, Order::Blocked] {
        let [matrix, cholesky, mp3d, pmake, oracle] = applications(order);
        let cases: [(&[Stream], &[u32]); 13] = [
            (&[matrix; 2], &[3, 30, 240]),
            (&[matrix, cholesky], &[3, 30]),
            (&[matrix, mp3d], &[3, 30]),
            (&[pmake, matrix], &[5, 30]),
            (&[pmake, cholesky], &[5, 30]),
            (&[pmake; 2], &[5, 30, 240]),
            (&[oracle; 2], &[3, 5]),
            (&[matrix; 3], &[3, 30]),
            (&[matrix, cholesky, mp3d], &[3, 30]),
            (&[matrix, oracle, pmake], &[3]),
            (&[matrix; 8], &[3]),
            (&[oracle; 8], &[3, 5]),
            (&[matrix, matrix, cholesky, cholesky, mp3d, pmake, oracle, oracle], &[3]),
        ];
        for (streams, slices_ms) in cases {
            for &slice_ms in slices_ms {
                let n = streams.len();
                let rounds = if slice_ms < 30 { 5 } else { 3 };
                let turns: Vec<_> = (0..rounds * n).map(|turn| Turn { program: turn % n, cpu: 0 }).collect();
                let names: Vec<_> = streams.iter().map(|stream| &stream.name[..2]).collect();
                let case = format!("{geometry:?} {order:?} {:24}", names.join("+"));
                agree(&case, streams, slice_ms, &misses_a_slice(streams, geometry, 1, slice_ms, &turns, 2 * n), WHOLE);
            }
        }
    }
}

#[test]
fn in_turns_on_the_reports_cache() {
    in_turns(DIRECT_MAPPED);
}

#[test]
fn in_turns_with_4_ways() {
    in_turns((16_384, 4));
}

#[test]
fn in_turns_with_16_ways() {
    in_turns((16_384, 16));
}

#[test]
fn in_turns_on_1_mib() {
    in_turns((65_536, 4));
}

/// Any free program next, on the CPU with the earliest end of slice: what a queue without affinity does.
#[test]
fn migrating() {
    for order in [Order::Random, Order::Blocked] {
        let [matrix, cholesky, .., oracle] = applications(order);
        for (streams, slice_ms, geometry) in [
            ([matrix, matrix, matrix, matrix], 30, DIRECT_MAPPED),
            ([matrix, cholesky, matrix, cholesky], 30, DIRECT_MAPPED),
            ([oracle, oracle, oracle, oracle], 4, DIRECT_MAPPED),
            ([matrix, matrix, oracle, oracle], 4, (16_384, 4)),
        ] {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
            let mut running = [0, 1];
            let turns: Vec<_> = (0..if slice_ms < 30 { 200 } else { 60 })
                .map(|turn| {
                    let cpu = turn % 2;
                    running[cpu] = loop {
                        let program = random.random_range(0..streams.len());
                        if program != running[1 - cpu] {
                            break program;
                        }
                    };
                    Turn { program: running[cpu], cpu }
                })
                .collect();
            let misses = misses_a_slice(&streams, geometry, 2, slice_ms, &turns, 8);
            agree(&format!("{geometry:?} {order:?} migrating"), &streams, slice_ms, &misses, WHOLE);
        }
    }
}

/// Programs that use a part of their lines in each slice, as short slices and bursts do: what they find depends on how long ago each line was
/// used.
#[test]
fn in_turns_by_parts() {
    let stream =
        |name, reused_lines, pass_us| Stream { name, reused_lines, pass_us, order: Order::Random, fresh_per_ms: 1.0 };
    let (half, third, small) =
        (stream("half", 4_096, 4_000.0), stream("third", 2_700, 4_000.0), stream("small", 900, 1_000.0));
    for ways in [4, 16] {
        let geometry = (8_192, ways);
        let cases: [(&[Stream], &[u32]); 6] = [
            (&[half; 3], &[1, 3, 8]),
            (&[half, half, small], &[1, 3]),
            (&[third; 4], &[1, 3]),
            (&[half; 6], &[1, 3]),
            (&[third, half, small, small], &[1, 3]),
            (&[third; 12], &[1]),
        ];
        for (streams, slices_ms) in cases {
            for &slice_ms in slices_ms {
                let n = streams.len();
                let turns: Vec<_> = (0..40 * n).map(|turn| Turn { program: turn % n, cpu: 0 }).collect();
                let names: Vec<_> = streams.iter().map(|stream| stream.name).collect();
                let case = format!("{geometry:?} {:24}", names.join("+"));
                agree(&case, streams, slice_ms, &misses_a_slice(streams, geometry, 1, slice_ms, &turns, 20 * n), PARTS);
            }
        }
    }
}
