//! Workload files: the built-in ones say what the report prints, bad ones are refused with one sentence and its line.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use proptest::prelude::*;
use sim::workload_file::{REPORT_WORKLOADS, WorkloadFile};
use sim::{Distribution, Footprint, Intervals, Job, Parameters};

/// The example in the docs of the format.
fn example() -> String {
    let lines = include_str!("../../../docs/workload-files.md").lines().skip_while(|line| *line != "```toml").skip(1);
    lines.take_while(|line| *line != "```").map(|line| line.to_owned() + "\n").collect()
}

fn application(name: &str) -> Job {
    WorkloadFile::named(name).unwrap().workload.jobs.remove(0)
}

#[test]
fn the_example_in_the_docs_is_a_workload_file() {
    let file = WorkloadFile::parse(&example()).unwrap();
    assert_eq!(file.parameters.quantum_ms, 20.0);
    let jobs: Vec<(&str, f64, u32)> =
        file.workload.jobs.iter().map(|job| (job.name.as_str(), job.arrival_ms, job.processes)).collect();
    assert_eq!(jobs, [("Pmake", 500.0, 24), ("solver", 0.0, 4), ("server", 0.0, 8)]);
    let steps = &file.workload.jobs[1].process.phases[0].steps;
    assert_eq!(steps.len(), 5);
}

#[test]
fn every_built_in_workload_can_be_simulated_and_ends() {
    for (name, about) in REPORT_WORKLOADS {
        let file = WorkloadFile::named(name).unwrap();
        file.workload.check().unwrap_or_else(|error| panic!("{name}: {error}"));
        file.parameters.check().unwrap();
        assert!(file.workload.jobs.iter().all(|job| job.process.work_ms.is_some()), "{name} never ends");
        assert_eq!((file.workload.name.as_str(), file.about.as_str()), (name, about));
    }
    for name in WorkloadFile::applications() {
        assert_eq!(application(name).name, name);
    }
}

#[test]
fn jobs_of_one_application_have_names_of_their_own() {
    let names = |name: &str| -> Vec<String> {
        WorkloadFile::named(name).unwrap().workload.jobs.into_iter().map(|job| job.name).collect()
    };
    assert_eq!(names("Matrix+Matrix"), ["Matrix", "Matrix 2"]);
    assert_eq!(names("Matrix+Mp3d+Matrix"), ["Matrix", "Mp3d", "Matrix 2"]);
}

/// Tables II to IV and sections 3.1.1 and 3.2.2, typed from the report once more: percent of intervals by bin; ends by quantum,
/// semaphore, synchronisation, system call, TLB fault, other; reload misses, misses a slice, median slice in ms.
#[test]
fn applications_say_what_the_report_prints() {
    type Printed = (&'static str, [f64; 7], [f64; 6], [f64; 3]);
    const PRINTED: [Printed; 5] = [
        ("Matrix", [3.0, 1.0, 0.0, 1.0, 1.0, 1.0, 93.0], [94.6, 2.2, 0.0, 2.2, 0.0, 1.2], [3_000.0, 6_000.0, 30.0]),
        ("Cholesky", [19.0, 9.0, 5.0, 5.0, 5.0, 8.0, 49.0], [46.2, 2.3, 47.9, 2.1, 0.2, 2.3], [1_000.0, 5_000.0, 25.0]),
        ("Mp3d", [17.0, 9.0, 8.0, 5.0, 14.0, 11.0, 36.0], [26.2, 10.1, 60.7, 2.0, 0.2, 0.8], [0.0, 18_000.0, 20.0]),
        // The median of 5 ms is shorter than its intervals; 12.42 ms is the mean of those.
        ("Pmake", [40.0, 11.0, 8.0, 6.0, 7.0, 8.0, 20.0], [21.5, 47.5, 0.0, 14.8, 10.3, 5.9], [500.0, 1_500.0, 12.42]),
        // The median of 3 ms doesn't go with misses that are 60 % of the time; the slice that does has 2,500 us / 0.6.
        (
            "Oracle",
            [67.0, 32.0, 1.0, 0.0, 0.0, 0.0, 0.0],
            [1.1, 39.2, 21.9, 37.6, 0.0, 0.2],
            [2_000.0, 2_500.0, 2.5 / 0.6],
        ),
    ];
    const MISS_MS: f64 = 1e-3;
    for (name, bins, [quantum, semaphore, synchronization, system_call, tlb_fault, other], [reload, slice, ms]) in
        PRINTED
    {
        let process = application(name).process;
        let Some(Intervals::Observed { edges_ms, percent, quantum_ms, stalled, ends }) = process.intervals else {
            panic!("{name} has no observed intervals");
        };
        assert_eq!((percent, quantum_ms), (bins.to_vec(), 30.0), "{name}");
        assert_eq!(edges_ms, [1.0, 5.0, 9.0, 13.0, 17.0, 21.0, 25.0, 30.0], "{name}");
        let shares = [ends.quantum, ends.semaphore, ends.synchronization, ends.system_call, ends.tlb_fault, ends.other];
        assert_eq!(shares, [quantum, semaphore, synchronization, system_call, tlb_fault, other], "{name}");
        let Footprint { reload_lines, steady_misses_per_ms, .. } = process.memory;
        assert_eq!(reload_lines, reload, "{name}");
        assert!((stalled - slice * MISS_MS / ms).abs() < 1e-4, "{name}: {stalled} of the time are misses");
        let work_ms = ms - slice * MISS_MS;
        if name == "Oracle" {
            assert!(steady_misses_per_ms * work_ms < slice, "{name}: the chosen ones leave nothing to reload");
        } else {
            let steady = (slice - reload) / work_ms;
            assert!(
                (steady_misses_per_ms / steady - 1.0).abs() < 0.002,
                "{name}: {steady_misses_per_ms}, not {steady}"
            );
        }
    }
    let pmake = application("Pmake");
    assert_eq!((pmake.processes, pmake.at_once), (24, Some(8)));
}

/// The lines of `choices.toml` with what they choose: whoever adds one says so here.
#[test]
fn nothing_is_chosen_but_what_the_report_leaves_open() {
    const OPEN: [&str; 3] = ["processes", "process.work_ms.", "process.block_ms."];
    let text = include_str!("../workloads/choices.toml");
    let mut section = "";
    for line in text.lines().map(|line| line.split('#').next().unwrap_or_default().trim()) {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
        } else if !line.is_empty() && section != "parameters" {
            // Of Oracle's misses it isn't told how many are reload, but what share of its time they take in all.
            let is_oracles = section == "Oracle" && line.starts_with("process.memory.steady_misses_per_ms");
            assert!(is_oracles || OPEN.iter().any(|key| line.starts_with(key)), "[{section}] {line}");
        }
    }
    for (name, _) in REPORT_WORKLOADS {
        let parameters = WorkloadFile::named(name).unwrap().parameters;
        assert_eq!((parameters.tick_ms, parameters.quantum_ms), (10.0, 30.0), "{name}: the report's");
    }
}

#[test]
fn spin_has_so_many_processes_and_no_misses() {
    let file = WorkloadFile::named("spin:8").unwrap();
    let job = &file.workload.jobs[0];
    assert_eq!((job.processes, job.process.memory), (8, Footprint::default()));
    assert_eq!(file.parameters, Parameters::default());
    for name in ["spin:", "spin:0", "spin:-1", "spin:x", "spin:99999999999", "matrices", "", "Matrix+", "Matrix+Matrx"]
    {
        let told = WorkloadFile::named(name).unwrap_err().to_string();
        assert!(told.starts_with(&format!("`{name}` is no built-in workload")), "{told}");
    }
}

#[test]
fn a_mistake_is_told_with_its_line() {
    const PROCESS: &str = "[jobs.process]\n";
    let cases = [
        // Each file, the line of its mistake, and part of the sentence.
        ("name = \"x\"\n", 1, "`jobs`: it is empty"),
        ("name = \"x\"\nprocesses = 3\n", 2, "unknown field `processes`"),
        ("[[jobs]]\nname = \"a\"\nprocesses = 1\n", 1, "missing field"),
        ("name = \"x\"\n[[jobs]]\nname = \"a\"\nprocesses = 0\nprocess = {}\n", 4, "0 is not a number from 1"),
        ("name = \"x\"\n[[jobs]]\nname = \"a\"\nprocesses = 4000000000\nprocess = {}\n", 4, "is not a number from 1"),
        (
            "name = \"x\"\n[[jobs]]\nname = \"a\"\narrival_ms = -5\nprocesses = 1\nprocess = {}\n",
            4,
            "-5 is not a number from 0",
        ),
        ("name = \"x\"\n\n[[applications]]\napplication = \"matrices\"\n", 4, "`matrices` is no built-in application"),
        (
            "name = \"x\"\n[[applications]]\napplication = \"Matrix\"\n[[applications]]\napplication = \"Oracle\"\nprocesses = 0\n",
            6,
            "`applications[1].processes`: 0",
        ),
        ("name = \"x\"\n[parameters]\nquantum_ms = 0\n", 3, "`quantum_ms` is 0"),
        ("name = \"x\"\n[parameters]\ntick_ms = 5\nquantum = 10\n", 4, "unknown field `quantum`"),
        ("name = \"x\"\n[parameters]\ntick_ms = 5\ndecay = \"slow\"\n", 4, "unknown variant `slow`"),
        ("name = \" \"\n[[jobs]]\nname = \"a\"\nprocesses = 1\nprocess = {}\n", 1, "the name is empty"),
        ("name = \"x\"\n[[jobs]]\nname = \"\"\nprocesses = 1\nprocess = {}\n", 3, "the name is empty"),
        (
            "name = \"x\"\n[[jobs]]\nname = \"a\"\nprocesses = 1000\ngap_ms = { constant = 1e9 }\nprocess = {}\n",
            5,
            "1000000000 is not a number from 0",
        ),
    ];
    for (text, line, part) in cases {
        let (told_line, told) = WorkloadFile::parse(text).unwrap_err();
        assert!(told_line == line && told.contains(part), "{text}\nis told as line {told_line}: {told}");
    }
    let locks = |text: &str| {
        let taken: Vec<&str> = ["\"l\"", "\"m\""].into_iter().filter(|lock| text.contains(lock)).collect();
        format!("locks = [{}]\n", taken.join(", "))
    };
    let in_process = [
        ("work_ms = { constant = -1 }\n", 7, "-1 is not a number from 0"),
        ("work_ms = { uniform = [3, 2] }\n", 7, "2 is not a number from 3"),
        ("work_ms = { gaussian = 3 }\n", 7, "unknown variant `gaussian`"),
        (
            "intervals = { bursts = { length_ms = { constant = 3 }, ends = { disk = 100 } } }\n",
            7,
            "unknown field `disk`",
        ),
        (
            "[jobs.process.intervals.bursts]\nlength_ms = { constant = 3 }\nends = { other = 90 }\n",
            9,
            "sum to 90, not to 100",
        ),
        (
            "[jobs.process.intervals.bursts]\nlength_ms = { constant = 3 }\nends = { semaphore = 100 }\n",
            9,
            "`block_ms`",
        ),
        ("[[jobs.process.phases]]\nsteps = [{ acquire = \"n\" }, { release = \"n\" }]\n", 8, "no lock `n`"),
        (
            "[[jobs.process.phases]]\nsteps = [{ acquire = \"l\" }, { work = { constant = 1 } }]\n",
            7,
            "`l` is still held",
        ),
        ("[[jobs.process.phases]]\nsteps = [\n{ acquire = \"l\" },\n{ acquire = \"l\" },\n]\n", 10, "wait for itself"),
        ("[[jobs.process.phases]]\nsteps = [\n{ acquire = \"l\" },\n\"barrier\",\n]\n", 10, "can deadlock"),
        (
            "phases = [\n{ steps = [{ acquire = \"l\" }, { acquire = \"m\" }, { work = { constant = 1 } }, { release = \"m\" }, { release = \"l\" }] },\n\
             { steps = [{ acquire = \"m\" }, { acquire = \"l\" }, { work = { constant = 1 } }, { release = \"l\" }, { release = \"m\" }] },\n]\n",
            7,
            "a deadlock",
        ),
        ("memory = { reload_lines = -3 }\n", 7, "-3 is not a number from 0"),
        ("memory = { reload_lines = nan }\n", 7, "NaN is not a number from 0"),
        (
            "work_ms = { constant = 5 }\nphases = [{ steps = [{ work = { constant = 1e-9 } }] }]\n",
            8,
            "less than a microsecond",
        ),
        ("[[jobs.process.phases]]\nsteps = [\"barrier\"]\n", 7, "less than a microsecond"),
        (
            "[jobs.process.intervals.bursts]\nends = { other = 100 }\nlength_ms = { exponential = 1e-8 }\n",
            9,
            "less than a microsecond",
        ),
    ];
    for (text, line, part) in in_process {
        let head = format!("name = \"x\"\n[[jobs]]\nname = \"a\"\nprocesses = 2\n{}{PROCESS}", locks(text));
        let (told_line, told) = WorkloadFile::parse(&format!("{head}{text}")).unwrap_err();
        assert!(told_line == line && told.contains(part), "{text}\nis told as line {told_line}: {told}");
    }
}

fn ms() -> impl Strategy<Value = f64> {
    prop_oneof![0.001..1e4, Just(1.0), Just(30.0)]
}

fn distribution() -> impl Strategy<Value = Distribution> {
    prop_oneof![
        ms().prop_map(Distribution::Constant),
        ms().prop_map(Distribution::Exponential),
        (ms(), ms()).prop_map(|(a, b)| Distribution::Uniform(a.min(b), a.max(b))),
    ]
}

proptest! {
    /// What serde writes of a job, a file may hold.
    #[test]
    fn jobs_come_back_as_they_were(
        work in distribution(), gap in proptest::option::of(distribution()), processes in 1_u32..100, base in 0_u32..50,
        reload in 0.0..1e6, interactive: bool,
    ) {
        let mut job = application("Matrix");
        (job.processes, job.gap_ms) = (processes, gap);
        (job.process.work_ms, job.process.base, job.process.interactive) = (Some(work), base, interactive);
        job.process.memory.reload_lines = reload;
        let workload = sim::Workload { name: "x".into(), jobs: vec![job], ..sim::Workload::default() };
        let text = toml::to_string(&workload).unwrap();
        prop_assert_eq!(WorkloadFile::parse(&text).unwrap().workload, workload);
    }

    /// Whatever is done to a file, it is refused with a line that it has, or can be simulated.
    #[test]
    fn a_damaged_file_is_refused_in_words_or_sound(
        damage in proptest::collection::vec((0.0..1.0, 0_usize..12, "[-a-z0-9\\[\\]{}=\", .\n]{0,6}"), 1..4),
    ) {
        let mut text = example();
        for (place, length, replacement) in damage {
            let start = (place * text.len() as f64) as usize;
            let end = (start + length).min(text.len());
            text.replace_range(start..end, &replacement);
        }
        match WorkloadFile::parse(&text) {
            Ok(file) => {
                prop_assert!(file.workload.check().is_ok());
                prop_assert!(file.parameters.check().is_ok());
            }
            Err((line, what)) => {
                prop_assert!(!what.is_empty() && !what.contains('\n'), "{what:?}");
                prop_assert!((1..=text.split('\n').count()).contains(&line), "line {line} of {text:?}");
            }
        }
    }
}
