//! A workload that was inferred from a profile, with what its programs do to caches: as much work as was measured, and reloads of a
//! given length.

use crate::agreement::Inferred;
use crate::potential::{LINE_BYTES, LINE_NS};
use machine::Machine;
use sim::cache::{HierarchyError, Timing};
use sim::{
    CacheModel, Distribution, Experiment, ExperimentError, Footprint, Intervals, Parameters, Policy, Step, Workload,
};

/// Why a workload has no caches.
#[derive(Debug, thiserror::Error)]
pub enum CachingError {
    /// It can't be simulated.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// The machine doesn't tell enough of its caches.
    #[error(transparent)]
    Caches(#[from] HierarchyError),
}

/// How many times as fast as the simulator's own guess the next cache is, so that a line takes [`LINE_NS`].
pub fn cache_speed_factor(machine: &Machine) -> f64 {
    Timing::for_machine(machine).next_cache_ns / LINE_NS as f64
}

/// `workload` whose processes reload what they reuse in `reload_us` for each program of `inferred`, in us, after others have displaced
/// all of it.
///
/// What was profiled contains the reloads that there were under the kernel's own scheduler. They are taken out of the work by
/// their share there, as simulated twice: what it is is found with the work as measured, and then with less.
///
/// # Errors
/// [`CachingError`]
pub fn with_reloads(
    workload: &Workload,
    inferred: &Inferred,
    reload_us: &[f64],
    machine: &Machine,
    parameters: &Parameters,
) -> Result<Workload, CachingError> {
    let mut cached = workload.clone();
    let mut jobs = cached.jobs.iter_mut();
    for (program, us) in inferred.programs.iter().zip(reload_us) {
        for job in jobs.by_ref().take(program.jobs) {
            job.process.memory = Footprint {
                line_bytes: LINE_BYTES as f64,
                reload_lines: (us * 1e3 / LINE_NS as f64).max(0.0),
                ..Footprint::default()
            };
        }
    }
    if reload_us.iter().all(|us| *us <= 0.0) {
        return Ok(cached);
    }
    let measured = cached.clone();
    let timing = Timing::for_machine(machine).faster(cache_speed_factor(machine), 1.0);
    for _ in 0..2 {
        let experiment = Experiment::new(machine, &cached, parameters)?;
        let caches = CacheModel::for_machine(machine, timing, &cached)?;
        let outcome = experiment.run(Policy::Eevdf, 0, caches, |_| {});
        let work = |job: &sim::JobOutcome| if job.cpu_ms > 0.0 { job.work_ms / job.cpu_ms } else { 1.0 };
        let shares: Vec<f64> = outcome.jobs.iter().map(work).collect();
        cached = measured.clone();
        for (job, share) in cached.jobs.iter_mut().zip(shares) {
            job.process.work_ms.iter_mut().for_each(|work_ms| scale(work_ms, share));
            if let Some(Intervals::Bursts { length_ms, .. }) = &mut job.process.intervals {
                scale(length_ms, share);
            }
            for step in job.process.phases.iter_mut().flat_map(|phase| &mut phase.steps) {
                if let Step::Work(length_ms) | Step::Single(length_ms) = step {
                    scale(length_ms, share);
                }
            }
        }
    }
    Ok(cached)
}

/// CPU time for a reference, at least, in ns, of an emulator that models caches, for each of its CPUs: they take turns, in which the clock of
/// all of them goes on.
const LEAST_REFERENCE_NS: f64 = 100.0;

/// `workload` whose processes refer at random to as many lines as they touch in a slice, each once on average in the CPU time in which they
/// were seen to, or so slowly that an emulator of `cpus` CPUs keeps up; none where that isn't known of any of its programs. It is for counting misses:
/// what these cost is in the work that was measured.
///
/// Programs refer to their lines more often, and to some more than to others.
pub fn with_touched(workload: &Workload, inferred: &Inferred, cpus: u32) -> Option<Workload> {
    let least_ns = LEAST_REFERENCE_NS * f64::from(cpus);
    let mut touching = workload.clone();
    let mut jobs = touching.jobs.iter_mut();
    for program in &inferred.programs {
        let of_program = jobs.by_ref().take(program.jobs);
        let Some(kib) = program.touched_kib else {
            of_program.for_each(drop);
            continue;
        };
        let reload_lines = (kib * 1024.0 / LINE_BYTES as f64).round();
        let pass_us = program.touched_ms.map_or(0.0, |ms| ms * 1e3).max(reload_lines * least_ns / 1e3);
        for job in of_program {
            if reload_lines == 0.0 {
                continue;
            }
            job.process.memory =
                Footprint { line_bytes: LINE_BYTES as f64, reload_lines, pass_us, ..Footprint::default() };
        }
    }
    touching.jobs.iter().any(|job| job.process.memory.reload_lines > 0.0).then_some(touching)
}

fn scale(lengths: &mut Distribution, factor: f64) {
    match lengths {
        Distribution::Constant(ms) | Distribution::Exponential(ms) => *ms *= factor,
        Distribution::Uniform(from, to) => {
            *from *= factor;
            *to *= factor;
        }
        Distribution::Histogram { edges_ms, .. } => edges_ms.iter_mut().for_each(|edge| *edge *= factor),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Profile, Program};
    use sim::WorkloadFile;

    #[test]
    fn whoever_touches_much_refers_to_as_many_lines_in_that_time() {
        let text = "name = \"w\"\n[[jobs]]\nname = \"a\"\nprocesses = 1\n[jobs.process]\nwork_ms = { constant = 9 }\n[[jobs]]\nname = \"b\"\nprocesses = 1\n\
                    [jobs.process]\nwork_ms = { constant = 9 }\n[[jobs]]\nname = \"b\"\nprocesses = 1\n[jobs.process]\nwork_ms = { constant = 9 }\n";
        let workload = WorkloadFile::parse(text).unwrap().workload;
        let programs = ["a", "b"].map(|name| Program { name: name.into(), ..Program::default() });
        let profile = Profile { programs: programs.into(), ..Profile::default() };
        let mut inferred = Inferred::new(&profile, &[&profile.programs[0], &profile.programs[1]], &[1, 2]);
        assert_eq!(with_touched(&workload, &inferred, 1), None);
        (inferred.programs[1].touched_kib, inferred.programs[1].touched_ms) = (Some(512.0), Some(1.0));
        inferred.programs[0].touched_kib = Some(1_024.0);
        let footprints = |cpus: u32| {
            let touching = with_touched(&workload, &inferred, cpus).unwrap();
            let of_job = |job: &sim::Job| (job.process.memory.reload_lines, job.process.memory.pass_us);
            touching.jobs.iter().map(of_job).collect::<Vec<_>>()
        };
        assert_eq!(footprints(1), [(16_384.0, 1_638.4), (8_192.0, 1_000.0), (8_192.0, 1_000.0)]);
        // By turns, each goes slower.
        assert_eq!(footprints(2), [(16_384.0, 3_276.8), (8_192.0, 1_638.4), (8_192.0, 1_638.4)]);
        inferred.programs.iter_mut().for_each(|program| program.touched_kib = Some(0.0));
        assert_eq!(with_touched(&workload, &inferred, 1), None);
    }

    #[test]
    fn reloads_are_taken_out_of_the_work_that_was_measured() {
        let machine = Machine::named("pack:1 l3:1(size=16MiB) l2:2(size=1MiB) core:1 pu:1").unwrap();
        let text =
            "name = \"w\"\n[[jobs]]\nname = \"app\"\nprocesses = 6\n[jobs.process]\nwork_ms = { constant = 1000 }\n";
        let workload = WorkloadFile::parse(text).unwrap().workload;
        let program = Program { name: "app".into(), ..Program::default() };
        let profile = Profile {
            target: "app".into(),
            kernel: "7.3".into(),
            cpus: 2,
            seconds: 3.0,
            programs: vec![program],
            ..Profile::default()
        };
        let inferred = Inferred::new(&profile, &[&profile.programs[0]], &[1]);
        let parameters = Parameters::default();
        let cpu_ms = |us: f64| {
            let cached = with_reloads(&workload, &inferred, &[us], &machine, &parameters).unwrap();
            let timing = Timing::for_machine(&machine).faster(cache_speed_factor(&machine), 1.0);
            let experiment = Experiment::new(&machine, &cached, &parameters).unwrap();
            let caches = CacheModel::for_machine(&machine, timing, &cached).unwrap();
            let outcome = experiment.run(Policy::Eevdf, 1, caches, |_| {});
            (outcome.jobs[0].cpu_ms, outcome.jobs[0].work_ms)
        };
        assert_eq!(cpu_ms(0.0), (6_000.0, 6_000.0));
        // With reloads there is as much CPU time as was measured, and less of it is work.
        let (cpu, work) = cpu_ms(300.0);
        assert!((cpu / 6_000.0 - 1.0).abs() < 0.03 && work < 0.97 * cpu, "{cpu} {work}");
    }
}
