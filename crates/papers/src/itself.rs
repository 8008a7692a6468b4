//! Whether the report's claims follow from its own numbers: each by a computation on what it prints.
//!
//! A printed number stands for all that are rounded to it; where the text says "about", the range is told.

use crate::case::{ABOUT_POINTS, Case, LESS, all, every};
use crate::interval::{exactly, less, negated, over, plus, rounded, times};
use crate::printed::{PrintedReport, Row};
use crate::references;
use crate::verdict::{Judgement, Verdict, undecidable};
use machine::{Kind, Machine};
use sim::rule::{self, LOAD_ONE};
use sim::{Decay, Policy};
use simulation::Estimated;

/// The workloads of which the text tells the misses removed, with its number of their misses' share of time.
const TOLD: [(&str, &str); 3] = [
    ("Matrix+Matrix", "scientific-miss-percent"),
    ("Matrix+Cholesky", "scientific-miss-percent"),
    ("Oracle", "oracle-miss-percent"),
];

/// The programs that the report calls scientific.
const SCIENTIFIC: [&str; 3] = ["Matrix", "Cholesky", "Mp3d"];

/// Clock ticks that a process which has run for long has accumulated, and a young one: a second's, and a few.
const LONG_TICKS: u32 = 100;
const YOUNG_TICKS: u32 = 10;

/// Bytes of a KB as caches are measured.
const KIB: f64 = 1024.0;

/// Judges by the check of that name, if it asks the report about itself.
pub(super) fn judge(check: &str, report: &PrintedReport) -> Option<Judgement> {
    Some(match check {
        "causes-are-shares" => every(report.table("table-3").rows.iter().map(sum_of_shares)),
        "quantum-in-last-bin" => quantum_in_last_bin(report),
        "slices-hold-intervals" => slices_hold_intervals(report),
        "stall-of-a-slice" => stall_of_a_slice(report),
        "saved-time" => every(TOLD.map(|(workload, share)| saved_time(report, workload, report.numbers[share]))),
        "up-to-ten" => up_to_ten(report),
        "decay-favours-young" => every(report.decays.iter().copied().map(favour_of_young)),
        "most-of-potential" => every(TOLD.map(|(workload, _)| share_of_potential(report, workload))),
        "whole-quanta" => whole_quanta(report),
        "reload-bytes" => reload_bytes(report),
        "only-moderate" => only_moderate(report),
        "captions-have-data" => {
            let tables = report.tables.iter().filter(|table| !table.is_lost).map(|table| table.title.as_str());
            let figures = report.figures.iter().filter(|figure| !figure.is_lost).map(|figure| figure.title.as_str());
            references::captioned_have_data(&report.references, &tables.chain(figures).collect::<Vec<_>>())
        }
        _ => return None,
    })
}

/// A cell that has a number, and all that are printed like it.
fn cell(report: &PrintedReport, table: &str, row: &str, column: &str) -> Estimated {
    rounded(report.cell(table, row, column).expect("a test judges every claim"))
}

/// A cell of Table IV for an application, from the first workload that has it.
fn application_cell(report: &PrintedReport, application: &str, column: &str) -> Estimated {
    let mut rows = report.table("table-4").rows.iter();
    let row = rows.find(|row| row.label.ends_with(&format!(", {application}")));
    cell(report, "table-4", &row.expect("a test judges every claim").label, column)
}

/// What a cell of Table V says is gained by it, in percent.
fn gain(report: &PrintedReport, workload: &str, column: &str) -> Option<Estimated> {
    report.cell("table-5", workload, column).map(|change| negated(rounded(change)))
}

/// The share of misses that light removes from a workload, in percent.
fn removed_misses(report: &PrintedReport, workload: &str) -> Estimated {
    gain(report, workload, "misses, light").expect("a test judges every claim")
}

/// The shares of a row add up to 100 %, as far as rounding each allows.
fn sum_of_shares(row: &Row) -> Case {
    let shares = row.printed.iter().filter_map(|digits| Some(rounded(digits.parse().ok()?)));
    let sum = shares.reduce(plus);
    let slack = sum.and_then(|sum| Some(sum.high? - sum.value)).unwrap_or_default();
    let label = format!("{}'s add up, where rounding explains {slack:.1} either way, to", row.label);
    Case::near(label, sum.map(|sum| exactly(sum.value)), 100.0, slack, " %")
}

/// What a quantum ends has lasted one, so that Table II counts it in its last bin.
fn quantum_in_last_bin(report: &PrintedReport) -> Judgement {
    let last = report.table("table-2").columns.last().map_or("", String::as_str);
    every(report.table("table-3").rows.iter().map(|row| {
        let ended = cell(report, "table-3", &row.label, "quantum");
        let counted = cell(report, "table-2", &row.label, last);
        let label = format!("{}: {} % less {} % is", row.label, ended.value, counted.value);
        Case::new(label, less(ended, counted), LESS, " points")
    }))
}

/// The median of a row of Table II in ms, its times taken as spread evenly within each bin; and the bin's ends.
fn median_interval_ms(report: &PrintedReport, application: &str) -> Option<(f64, (f64, f64))> {
    let columns = &report.table("table-2").columns;
    let shares = columns.iter().map(|column| cell(report, "table-2", application, column).value);
    let shares: Vec<f64> = shares.collect();
    let half = 0.5 * shares.iter().sum::<f64>();
    let mut before = 0.0;
    for (column, share) in columns.iter().zip(shares) {
        if before + share >= half {
            let (from, to) = column.strip_suffix(" ms")?.split_once('-')?;
            let (from, to): (f64, f64) = (from.parse().ok()?, to.parse().ok()?);
            return Some((from + (to - from) * (half - before) / share, (from, to)));
        }
        before += share;
    }
    None
}

/// A time slice holds at least one dispatch interval, so that its median isn't shorter.
fn slices_hold_intervals(report: &PrintedReport) -> Judgement {
    every(report.table("table-2").rows.iter().map(|Row { label: application, .. }| {
        let slice = application_cell(report, application, "median slice, ms");
        let (ms, (from, to)) = median_interval_ms(report, application).expect("a test judges every claim");
        let label = format!(
            "{application}: {} ms of table IV and {ms:.1} ms, in the bin from {from} to {to}, of table II, longer by",
            slice.value
        );
        Case::new(label, less(slice, exactly(ms)), (0.0, f64::INFINITY), " ms")
    }))
}

/// A slice's misses take about the share of it that the text says.
fn stall_of_a_slice(report: &PrintedReport) -> Judgement {
    // By the report's example of a reload.
    let miss_ms = report.numbers["reload-ms"] / report.numbers["reload-misses"];
    every(SCIENTIFIC.map(|application| {
        let thousands = application_cell(report, application, "intervening, thousands");
        let slice_ms = application_cell(report, application, "median slice, ms");
        let share = over(thousands.map(|thousands| thousands * (1e3 * miss_ms)), slice_ms).map(percent);
        Case::near(application, share, report.numbers["scientific-miss-percent"], ABOUT_POINTS, " % of its slice")
    }))
}

fn percent(share: f64) -> f64 {
    share * 100.0
}

/// A workload saves no more time than the removed misses took, of which the text says that all take `about` so many percent.
fn saved_time(report: &PrintedReport, workload: &str, about: f64) -> Case {
    let removed = removed_misses(report, workload);
    let saved = gain(report, workload, "mean job completion, light").expect("a test judges every claim");
    let all = Estimated { value: about, low: Some(about - ABOUT_POINTS), high: Some(about + ABOUT_POINTS) };
    let took = times(removed, all).map(|product| product * 0.01);
    let label = format!(
        "{workload}: {} % of {about} % is {:.1} %, printed {} %, more by",
        removed.value, took.value, saved.value
    );
    Case::new(label, less(saved, took), LESS, " points")
}

/// The largest gain that the conclusion speaks of is one of a workload.
fn up_to_ten(report: &PrintedReport) -> Judgement {
    let jobs = |row: &Row| gain(report, &row.label, "mean job completion, light");
    let whole = |row: &Row| gain(report, &row.label, "whole workload, light");
    let rows = &report.table("table-5").rows;
    // Where the text tells the workload's own gain, the other is that of its jobs.
    let gains = rows.iter().filter_map(|row| Some((row.label.as_str(), whole(row).or_else(|| jobs(row))?)));
    let (label, most) = gains.max_by(|(_, a), (_, b)| a.value.total_cmp(&b.value)).expect("a test judges every claim");
    let label = format!("most is gained by {label},");
    let (verdict, mut why) = all([Case::near(label, most, report.numbers["largest-gain-percent"], 0.5, " %")]);
    for row in rows {
        if let Some((jobs, whole)) = jobs(row).zip(whole(row)) {
            why += &format!(
                "; the mean completion of {}'s jobs gains {} %, the workload {} %",
                row.label, jobs.value, whole.value
            );
        }
    }
    (verdict, why)
}

/// The decay raises the priority of a process with much accumulated time less than that of a young one, by each rule that the
/// report's words allow: asked of the rule that the simulator and the kernel scheduler run.
fn favour_of_young(decay: Decay) -> Case {
    // For each CPU two processes, as the report says there are at least.
    let load = 2 * LOAD_ONE;
    let raised = |ticks: u32| {
        let argument = if let Decay::Subtract(taken) = decay { taken } else { load };
        // Priorities are in half units, and low is first.
        f64::from(rule::prio(0, ticks) - rule::prio(0, rule::decay(ticks, decay, argument))) / 2.0
    };
    let (long, young) = (raised(LONG_TICKS), raised(YOUNG_TICKS));
    let called = match decay {
        Decay::None => "without decay".into(),
        Decay::Half => "halved, as in System V,".into(),
        Decay::Bsd => "by 2L / (2L + 1), as in 4.3BSD,".into(),
        Decay::Subtract(ticks) => format!("less {ticks} ticks"),
    };
    let label =
        format!("{called} {LONG_TICKS} ticks raise priority by {long:.1} and {YOUNG_TICKS} by {young:.1}, more by");
    Case::new(label, exactly(long - young), (f64::NEG_INFINITY, -f64::MIN_POSITIVE), "")
}

/// More than half of the misses that affinity could remove, reloads of what slices fetch, are removed.
fn share_of_potential(report: &PrintedReport, workload: &str) -> Case {
    let rows = &report.table("table-4").rows;
    let sum = |column: &str| {
        let rows = rows.iter().filter(|row| workload_name(row) == Some(workload));
        rows.map(|row| cell(report, "table-4", &row.label, column)).reduce(plus).expect("a test judges every claim")
    };
    let potential = over(sum("reload, thousands"), sum("intervening, thousands")).map(percent);
    let removed = removed_misses(report, workload);
    let label = format!("{workload}: removed {} of at most {:.0} % of misses,", removed.value, potential.value);
    Case::new(label, over(removed, potential).map(percent), (50.0, 100.0), " % of its potential")
}

/// The workload of a row of Table IV, which is of an application in it.
fn workload_name(row: &Row) -> Option<&str> {
    row.label.split_once(", ").map(|(workload, _)| workload)
}

/// Slices of processes that don't block are whole quanta.
fn whole_quanta(report: &PrintedReport) -> Judgement {
    every([(Policy::Light, "light-slice-ms"), (Policy::Heavy, "heavy-slice-ms")].map(|(policy, name)| {
        let slice = report.numbers[name];
        let quanta = slice / report.numbers["quantum-ms"];
        let label = format!("{policy}: {slice} ms are {quanta:.2} quanta, beside a whole number by");
        Case::new(label, exactly((quanta - quanta.round()).abs()), (0.0, 1e-9), "")
    }))
}

/// The misses of a reload are as many KB as the text says, by the line of the machine's cache.
fn reload_bytes(report: &PrintedReport) -> Judgement {
    let machine = Machine::named(&report.machine).expect("the report's machine is a preset");
    let cache = machine.objects().find(|(_, object)| object.kind == Kind::Cache(2));
    let line = cache.and_then(|(_, object)| object.cache.as_ref()?.line_bytes).expect("the preset has an L2");
    every(["Matrix", "Cholesky"].map(|application| {
        let name = application.to_lowercase();
        let bytes = report.numbers[&format!("{name}-reload-misses")] * line.get() as f64;
        let about = report.numbers[&format!("{name}-reload-kb")];
        let label = format!("{application}: {bytes} bytes, said to be {about} KB, are");
        // As far as the text's whole KB are rounded.
        Case::near(label, exactly(bytes / KIB), about, 0.5, " KiB")
    }))
}

/// Table IV calls no other workload's potential moderate than those that the text names.
fn only_moderate(report: &PrintedReport) -> Judgement {
    let table = report.table("table-4");
    let Some(column) = table.columns.iter().position(|column| column == "potential") else {
        return undecidable("no potential is printed");
    };
    let moderate = table.rows.iter().filter(|row| row.printed[column] == "moderate");
    let others = moderate.filter(|row| TOLD.iter().all(|(workload, _)| workload_name(row) != Some(workload)));
    let others: Vec<&str> = others.map(|row| row.label.as_str()).collect();
    match others.as_slice() {
        [] => (Verdict::Holds, "table IV calls no other moderate".into()),
        others => (Verdict::Fails, format!("table IV calls {} moderate too: {}", others.len(), others.join("; "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(check: &str) -> (Verdict, String) {
        judge(check, PrintedReport::cache_affinity()).unwrap()
    }

    /// The verdict when a cell is printed otherwise.
    fn with_cell(check: &str, cells: &[(&str, &str, &str, &str)]) -> Verdict {
        let mut report = PrintedReport::cache_affinity().clone();
        for (table, row, column, digits) in cells {
            let table = report.tables.iter_mut().find(|other| other.name == *table).unwrap();
            let at = table.columns.iter().position(|other| other == column).unwrap();
            let row = table.rows.iter_mut().find(|other| other.label == *row).unwrap();
            row.printed[at] = (*digits).into();
        }
        judge(check, &report).unwrap().0
    }

    /// The verdict when a number of the text is another.
    fn with_number(check: &str, name: &str, value: f64) -> Verdict {
        let mut report = PrintedReport::cache_affinity().clone();
        assert!(report.numbers.insert(name.into(), value).is_some(), "{name} is printed");
        judge(check, &report).unwrap().0
    }

    #[test]
    fn what_the_report_contradicts_fails_with_the_numbers_that_do() {
        for (check, deciding) in [
            (
                "causes-are-shares",
                "not so in 1 of 5: Cholesky's add up, where rounding explains 0.3 either way, to 101",
            ),
            ("quantum-in-last-bin", "not so in 3 of 5: Matrix: 94.6 % less 93 % is 1.6"),
            ("slices-hold-intervals", "not so in 2 of 5: Pmake: 5 ms of table IV and 8.6 ms"),
            ("stall-of-a-slice", "not so in 1 of 3: Mp3d 90.0"),
            ("saved-time", "not so in 2 of 3: Matrix+Cholesky: 13 % of 20 % is 2.6 %, printed 4 %"),
            ("up-to-ten", "most is gained by Oracle, 8.0"),
            ("decay-favours-young", "not so in 2 of 2"),
            ("most-of-potential", "not so in 1 of 3: Oracle: removed 7 of at most 80 %"),
            ("whole-quanta", "heavy: 640 ms are 21.33 quanta"),
            ("reload-bytes", "Matrix: 48000 bytes, said to be 48 KB, are 46.9 KiB"),
            ("only-moderate", "Matrix+Mp3d, Matrix"),
            ("captions-have-data", "4 of 8 have a caption and no data: Table V, Figure 1, Figure 2, Figure 3"),
        ] {
            let (verdict, why) = verdict(check);
            assert_eq!(verdict, Verdict::Fails, "{check}: {why}");
            assert!(why.contains(deciding), "{check}: {why}");
        }
    }

    #[test]
    fn other_numbers_would_be_judged_otherwise() {
        let holds = |verdict: Verdict, what: &str| assert_eq!(verdict, Verdict::Holds, "{what}");
        holds(with_cell("causes-are-shares", &[("table-3", "Cholesky", "quantum", "45.2")]), "sums to 100.0");
        holds(
            with_cell(
                "quantum-in-last-bin",
                &[
                    ("table-2", "Matrix", "25-30 ms", "96"),
                    ("table-2", "Pmake", "25-30 ms", "23"),
                    ("table-2", "Oracle", "25-30 ms", "2"),
                ],
            ),
            "as many as the quantum ends",
        );
        holds(
            with_cell("stall-of-a-slice", &[("table-4", "Matrix+Mp3d, Mp3d", "intervening, thousands", "4")]),
            "20 %",
        );
        holds(with_number("whole-quanta", "heavy-slice-ms", 660.0), "22 quanta");
        holds(with_number("reload-bytes", "matrix-reload-kb", 47.0), "46.9 KiB, rounded");
        holds(with_number("up-to-ten", "largest-gain-percent", 8.0), "Oracle's");
        holds(
            with_cell("only-moderate", &[("table-4", "Matrix+Mp3d, Matrix", "potential", "low")]),
            "as the text says",
        );
        assert_eq!(
            with_cell(
                "saved-time",
                &[
                    ("table-5", "Matrix+Cholesky", "mean job completion, light", "-2"),
                    ("table-5", "Oracle", "mean job completion, light", "-4"),
                ]
            ),
            Verdict::Undecidable,
            "as much as the misses took, give or take what `about` allows"
        );
        assert_eq!(
            with_number("stall-of-a-slice", "reload-ms", 0.3),
            Verdict::Fails,
            "misses of 0.1 us cost too little"
        );
    }

    #[test]
    fn a_decay_that_takes_as_much_from_all_raises_none_more() {
        let mut report = PrintedReport::cache_affinity().clone();
        report.decays = vec![Decay::Subtract(5)];
        let (verdict, why) = judge("decay-favours-young", &report).unwrap();
        assert!(verdict == Verdict::Fails && why.contains("raise priority by 2.5 and 10 by 2.5, more by 0"), "{why}");
    }

    #[test]
    fn a_table_that_was_found_has_data() {
        let mut report = PrintedReport::cache_affinity().clone();
        report.tables.iter_mut().for_each(|table| table.is_lost = false);
        let (_, why) = judge("captions-have-data", &report).unwrap();
        assert_eq!(why, "2 of 8 have a caption and no data: Figure 1, Figure 2");
    }
}
