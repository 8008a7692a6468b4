//! The papers' studies and printed tables: typed again here from what the papers say, and checked against themselves.

use machine::{Kind, Machine, Policy};
use papers::paper::{Paper, Printed, PrintedRow, PrintedTable, Quantity};
use std::path::Path;
use std::time::Duration;
use study::study_file::{BeyondMachine, StudyFile};

fn study_file(name: &str) -> StudyFile {
    let papers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../papers");
    StudyFile::read(&papers.join(format!("{name}.toml")), &[name]).unwrap()
}

fn paper(name: &str) -> &'static Paper {
    Paper::named(name).unwrap()
}

/// Threads, placements, subjects, fewest and most runs, and the relative standard deviation to reach.
type Design<'a> = (&'a [u32], &'a [&'a str], Vec<String>, (u32, u32), Option<f64>);

fn holds(name: &str, (threads, placements, subjects, runs, relative_sd): Design) {
    let file = study_file(name);
    assert_eq!(file.paper.as_deref(), Some(name));
    assert_eq!(file.threads, threads.iter().map(u32::to_string).collect::<Vec<_>>());
    assert_eq!(file.placements, placements);
    assert_eq!(file.subjects.iter().map(|s| s.builtin.clone().unwrap()).collect::<Vec<_>>(), subjects);
    assert_eq!((file.stop.min_runs.unwrap(), file.stop.max_runs.unwrap()), runs);
    assert_eq!((file.stop.relative_sd.map(|share| share.0), file.stop.width), (relative_sd, None));
    assert_eq!(file.beyond_machine, BeyondMachine::LeaveOut);
    // The slowest printed run fits, and so do all of them.
    let printed =
        || paper(name).tables.iter().flat_map(|table| &table.rows).filter(|row| row.quantity == Quantity::Time);
    let times = || printed().flat_map(|row| &row.printed).flatten().map(|time| time.value);
    assert!(file.timeout.unwrap().0 > Duration::from_secs_f64(times().fold(0.0, f64::max)));
    assert!(file.budget.unwrap().0 > Duration::from_secs_f64(times().sum::<f64>() * f64::from(runs.0 + 1)));
}

fn of_class(programs: &[&str], class: &str) -> Vec<String> {
    programs.iter().map(|program| format!("{program}.{class}")).collect()
}

#[test]
fn the_study_files_hold_the_papers_designs() {
    let six = ["npb:bt", "npb:cg", "npb:ep", "npb:ft", "npb:lu", "npb:sp"];
    let subjects = of_class(&six, "B");
    holds("pires-2016", (&[1, 2, 4, 8], &["unbound", "compact", "scatter"], subjects, (5, 10), Some(0.019)));
    let five = ["npb:bt", "npb:cg", "npb:ep", "npb:ft", "npb:sp"];
    let subjects = [of_class(&five, "A"), of_class(&five, "C")].concat();
    holds("pires-2017", (&[1, 2, 4, 8, 16, 32, 64], &["unbound", "scatter"], subjects, (5, 20), Some(0.05)));
    let mappings = ["unbound", "balanced", "semi-balanced", "unbalanced"];
    holds("weber-2010", (&[1, 2, 4, 8], &mappings, of_class(&["climate"], "B"), (10, 10), None));
}

#[test]
fn every_table_is_whole() {
    for (name, cells) in [("pires-2016", vec![48, 24]), ("pires-2017", vec![105, 105]), ("weber-2010", vec![3])] {
        let paper = paper(name);
        let printed = |table: &PrintedTable| table.rows.iter().flat_map(|row| &row.printed).flatten().count();
        assert_eq!(paper.tables.iter().map(printed).collect::<Vec<_>>(), cells, "{name}");
        for row in paper.tables.iter().flat_map(|table| table.rows.iter().map(move |row| (table, row))) {
            let (table, row) = row;
            assert_eq!(row.printed.len(), table.threads.len(), "{name}, {}: {row:?}", table.title);
            assert!(paper.programs.contains_key(&row.benchmark), "{name}: {}", row.benchmark);
            assert!(row.printed.iter().flatten().all(|cell| cell.value > 0.0), "{row:?}");
        }
        assert!(!paper.claims.is_empty(), "{name}");
    }
    assert_eq!(Paper::names().count(), 3);
    assert_eq!(Paper::named("pires"), None);
}

#[test]
fn cells_stand_where_the_papers_print_them() {
    let time = |name, benchmark, class, placement, threads| {
        paper(name).time_s(benchmark, Some(class), placement, threads).map(|time| time.to_string())
    };
    for (placement, threads, printed) in
        [("unbound", 1, "307.1"), ("unbound", 8, "95.6"), ("compact", 4, "87.8"), ("scatter", 4, "80.1")]
    {
        assert_eq!(time("pires-2016", "BT", "B", placement, threads).as_deref(), Some(printed));
    }
    assert_eq!(time("pires-2016", "SP", "B", "scatter", 8).as_deref(), Some("49.6"));
    assert_eq!(time("pires-2016", "SP", "B", "scatter", 16), None);
    assert_eq!(time("pires-2016", "SP", "A", "scatter", 8), None);
    assert_eq!(time("pires-2017", "CG", "A", "unbound", 64).as_deref(), Some("0.41"));
    assert_eq!(time("pires-2017", "FT", "C", "unbound", 1).as_deref(), Some("362.00"));
    assert_eq!(time("pires-2017", "SP", "C", "scatter", 64).as_deref(), Some("421.29"));
    let text = &paper("weber-2010").tables[0].rows[4];
    assert_eq!((text.placement.as_deref(), text.quantity), (None, Quantity::SpeedUp));
    assert_eq!(
        text.printed.iter().map(|cell| cell.map(|cell| cell.value)).collect::<Vec<_>>(),
        [None, Some(2.0), Some(3.5), Some(5.0)]
    );
}

/// Whether two intervals have a point in common.
fn meet((low, high): (f64, f64), (other_low, other_high): (f64, f64)) -> bool {
    low <= other_high && other_low <= high
}

#[test]
fn printed_ratios_agree_with_printed_times_as_far_as_rounding_goes() {
    let paper = paper("pires-2017");
    let mut ratios = 0;
    let mut otherwise = Vec::new();
    for table in &paper.tables {
        let class = table.class.as_deref();
        for row in table.rows.iter().filter(|row| row.quantity == Quantity::Ratio) {
            let PrintedRow { benchmark, placement, .. } = row;
            for (&threads, ratio) in table.threads.iter().zip(row.printed.iter().flatten()) {
                let time = |placement| paper.time_s(benchmark, class, placement, threads).unwrap();
                let (no, yes) = (time("unbound"), time(placement.as_deref().unwrap()));
                let possible = (no.bounds().0 / yes.bounds().1, no.bounds().1 / yes.bounds().0);
                assert!(meet(possible, ratio.bounds()), "{benchmark} {class:?} {threads}: {ratio} of {no} and {yes}");
                ratios += 1;
                let computed = Printed { value: no.value / yes.value, decimals: 2 };
                if computed.to_string() != ratio.to_string() {
                    otherwise.push(format!("{}/{benchmark}/{threads} {ratio} ({computed})", class.unwrap()));
                }
            }
        }
    }
    assert_eq!(ratios, 70);
    // Made by the authors from times with more digits than they print.
    let expected = [
        "A/CG/4 1.01 (1.00)",
        "A/CG/32 1.05 (1.06)",
        "A/CG/64 1.83 (1.86)",
        "A/EP/32 1.08 (1.07)",
        "A/FT/4 1.03 (1.04)",
    ];
    assert_eq!(otherwise, expected);
}

#[test]
fn compact_and_scatter_are_equal_where_every_core_or_one_is_used() {
    // What the paper's section 4 says of its Table 2 against Table 1.
    let paper = paper("pires-2016");
    let equal = |threads| {
        paper.programs.keys().all(|benchmark| {
            let time = |placement| paper.time_s(benchmark, Some("B"), placement, threads).unwrap().value;
            time("compact") == time("scatter")
        })
    };
    assert_eq!([1, 2, 4, 8].map(equal), [true, false, false, true]);
}

#[test]
fn the_presets_are_the_papers_machines() {
    for (name, packages, cores) in [("pires-2016", 2, 8), ("pires-2017", 4, 64), ("weber-2010", 2, 8)] {
        let machine = Machine::named(&paper(name).machine).unwrap();
        assert_eq!((machine.count(Kind::Package), machine.count(Kind::Core)), (packages, cores), "{name}");
        let most = paper(name).tables.iter().flat_map(|table| &table.threads).max().copied();
        assert_eq!(most, Some(cores as u32), "{name}");
        let rows = || paper(name).tables.iter().flat_map(|table| &table.rows);
        for placement in rows().filter_map(|row| row.placement.as_deref()).filter(|&name| name != "unbound") {
            assert!(placement.parse::<Policy>().is_ok(), "{name}: {placement}");
        }
    }
}
