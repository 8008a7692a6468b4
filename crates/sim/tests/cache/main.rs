//! The cache model against caches simulated line by line, and the laws that it keeps.

#![expect(clippy::unwrap_used, reason = "in a test, a failed unwrap is a failed test")]

mod agreement;
mod laws;
mod lines;
mod program;
mod sharing;
mod tasks;

use lines::LineCache;
use machine::Machine;
use program::{Program, Stream};
use sim::cache::{Footprint, Hierarchy, Order, Timing};

/// A cache's frames and ways.
type Geometry = (usize, usize);

/// The L2 of the report's machine.
const DIRECT_MAPPED: Geometry = (16_384, 1);

/// The caches of a preset with other sizes of L2. The bus is never busy, so that times can be compared.
fn caches(preset: &str, (frames, ways): Geometry) -> Hierarchy {
    let mut machine = serde_json::to_value(Machine::named(preset).unwrap()).unwrap();
    resize(&mut machine, frames * 16, ways);
    let machine: Machine = serde_json::from_value(machine).unwrap();
    let cpus: Vec<_> = machine.usable().collect();
    Hierarchy::new(&machine, &cpus, Timing { bus_ns: 0.0, ..Timing::SGI_4D340 }).unwrap()
}

fn resize(object: &mut serde_json::Value, bytes: usize, ways: usize) {
    match object {
        serde_json::Value::Object(fields) => {
            if fields.get("kind").is_some_and(|kind| kind == "L2") {
                let l2 =
                    serde_json::json!({ "size_bytes": bytes, "line_bytes": 16, "associativity": { "ways": ways } });
                fields.insert("cache".into(), l2);
            }
            fields.values_mut().for_each(|field| resize(field, bytes, ways));
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(|item| resize(item, bytes, ways)),
        _ => {}
    }
}

/// The report's applications. Reused lines are its reload misses R (section 3.1.1). Fresh lines are what else is missed in a
/// slice (D - R, section 3.2.2) over its work: the slice (Table IV; Oracle's mean interval) less 1 us for each of D misses.
/// How fast working sets are gone through is our choice.
fn applications(order: Order) -> [Stream; 5] {
    let stream =
        |name, reused_lines, pass_us, fresh_per_ms| Stream { name, reused_lines, pass_us, order, fresh_per_ms };
    [
        stream("Matrix", 3_000, 500.0, 3_000.0 / 24.0),
        stream("Cholesky", 1_000, 500.0, 4_000.0 / 20.0),
        stream("Mp3d", 1, 500.0, 18_000.0 / 2.0),
        stream("Pmake", 500, 250.0, 1_000.0 / 3.5),
        stream("Oracle", 2_000, 250.0, 500.0 / 1.9),
    ]
}

/// The footprint of a program as the report finds it: by running it alone, with and without flushing. Time stands still
/// during misses, so that both runs make the same references.
fn characterise(stream: Stream, (frames, ways): Geometry) -> Footprint {
    let mut cache = LineCache::new(frames, ways);
    let mut program = Program::new(stream, &cache, 0, 0);
    program.miss_ns = 0.0;
    program.run(&mut cache, 30e6);
    let mut flushed = LineCache::new(frames, ways);
    let (flushed_misses, _) = program.clone().run(&mut flushed, 30e6);
    let (misses, _) = program.run(&mut cache, 30e6);
    let steady_misses_per_ms = f64::from(misses) / 30.0;
    Footprint {
        reload_lines: f64::from(flushed_misses - misses),
        pass_us: stream.pass_us,
        order: stream.order,
        steady_misses_per_ms,
        fresh_share: (stream.fresh_per_ms / steady_misses_per_ms).min(1.0),
        ..Footprint::default()
    }
}
