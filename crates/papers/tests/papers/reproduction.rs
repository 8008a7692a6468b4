//! What the cache-affinity report prints, beside what is simulated; and what the papers contradict themselves in.

use machine::Machine;
use papers::paper::Paper;
use papers::reproduction::{Against, JudgedClaim, ReproducedCell, ReproducedTable, Reproduction, Verdict};
use papers::{cache_affinity, placement};
use sim::{Parameters, Policy, Release, WorkloadFile};
use simulation::metrics::{MAKESPAN, MISSES};
use simulation::{RunError, Simulation, SimulationPlan};
use std::sync::LazyLock;
use study::Record;
use study::session::{Host, Session};

/// As `stayput reproduce cache-affinity` does it by default.
fn reproduction() -> &'static Reproduction {
    static ONCE: LazyLock<Reproduction> =
        LazyLock::new(|| cache_affinity(10, 1, None, &mut |_| {}).expect("the report's workloads can be simulated"));
    &ONCE
}

fn table(name: &str) -> &'static ReproducedTable {
    reproduction().tables.iter().find(|table| table.name == name).unwrap()
}

/// Every number of a table that is both printed and ours: row, column, printed, difference.
fn differences(name: &str) -> Vec<(String, String, f64, f64)> {
    let table = table(name);
    let cells = table.rows.iter().flat_map(|row| row.cells.iter().zip(&table.columns).map(move |cell| (row, cell)));
    cells
        .filter_map(|(row, (cell, column))| match cell {
            ReproducedCell::Number { printed: Some(printed), difference: Some(difference), .. } => {
                Some((row.label.clone(), column.clone(), printed.value, *difference))
            }
            _ => None,
        })
        .collect()
}

fn claim(says: &str) -> &'static JudgedClaim {
    reproduction().claims.iter().find(|claim| claim.statement.contains(says)).unwrap_or_else(|| panic!("{says}"))
}

#[test]
fn most_known_cells_of_table_v_are_within_four_points() {
    let cells = differences("table-5");
    assert_eq!(cells.len(), 8, "the report's text repeats eight");
    let near = cells.iter().filter(|(.., difference)| difference.abs() <= 4.0).count();
    assert!(near >= 6, "{cells:?}");
}

/// A workload's replicates under a policy, simulated by themselves: misses and times, in the order of the draws.
fn misses_and_times(workload: &str, policy: Policy) -> Vec<(f64, f64)> {
    let machine = Machine::named("sgi-4d340").unwrap();
    let WorkloadFile { workload, parameters, .. } = WorkloadFile::named(workload).unwrap();
    let parameters = Parameters { replicates: 10, seed: 1, ..parameters };
    let plan = SimulationPlan::new(vec![Simulation::new(workload, parameters)], &[policy], &machine);
    let mut session = Session::open(None, &plan, &machine, &Host::Modelled, &[]).unwrap();
    let ending = simulation::simulate(&mut session, &machine, &mut || ());
    let record: Record<SimulationPlan> = session.end::<RunError>(ending).unwrap();
    let samples = record.trials.iter();
    samples.map(|sample| (sample.value(&MISSES).unwrap(), sample.value(&MAKESPAN).unwrap())).collect()
}

#[test]
fn table_v_says_what_affinity_changes_against_todays_kernel() {
    let table = table("table-5");
    let kernel = format!("Linux {}", Release::default());
    let heads = table.columns.iter().filter(|head| head.ends_with(&format!(", against {kernel}"))).count();
    assert_eq!((heads, table.columns.len()), (6, 12), "{:?}", table.columns);
    assert!(table.about.contains(&kernel), "{}", table.about);
    for row in &table.rows {
        for (head, cell) in table.columns.iter().zip(&row.cells).skip(6) {
            let ReproducedCell::Number { printed: None, ours: Some(ours), difference: None, .. } = cell else {
                panic!("{}, {head}: {cell:?}", row.label)
            };
            assert!(ours.low.unwrap() <= ours.value && ours.value <= ours.high.unwrap(), "{}, {head}", row.label);
        }
    }
    // Cells as they come of simulations of one policy each: the geometric mean of the ratios of equal draws.
    let cell = |workload: &str, column: &str| {
        let column = table.columns.iter().position(|head| *head == format!("{column}, against {kernel}")).unwrap();
        let row = table.rows.iter().find(|row| row.label == workload).unwrap();
        let ReproducedCell::Number { ours: Some(ours), .. } = row.cells[column] else { panic!("{workload}") };
        ours.value
    };
    let percent = |ratios: Vec<f64>| {
        let number = ratios.len() as f64;
        100.0 * (ratios.into_iter().map(f64::ln).sum::<f64>() / number).exp_m1()
    };
    for (workload, policy) in [("Matrix+Matrix", Policy::Light), ("Oracle", Policy::Heavy)] {
        let (eevdf, ours) = (misses_and_times(workload, Policy::Eevdf), misses_and_times(workload, policy));
        let pairs = || ours.iter().zip(&eevdf);
        let (misses, time): (Vec<f64>, Vec<f64>) = pairs().map(|(a, b)| (a.0 / b.0, a.1 / b.1)).unzip();
        for (column, computed) in [("misses", percent(misses)), ("whole workload", percent(time))] {
            let told = cell(workload, &format!("{column}, {policy}"));
            assert!((told - computed).abs() < 0.01, "{workload}, {column}, {policy}: {told}, computed {computed}");
        }
    }
}

#[test]
fn what_affinity_comes_to_against_todays_kernel_is_what_table_v_says() {
    let against = reproduction().against_kernel.as_ref().unwrap();
    assert_eq!((against.kernel, against.machine.as_str(), against.replicates), (Release::default(), "sgi-4d340", 10));
    let policies: Vec<&str> = against.policies.iter().map(|effects| effects.policy.as_str()).collect();
    assert_eq!(policies, ["light", "heavy"]);
    let table = table("table-5");
    for effects in &against.policies {
        let column = |quantity: &str| {
            let head = format!("{quantity}, {}, against Linux {}", effects.policy, against.kernel);
            table.columns.iter().position(|column| *column == head).unwrap()
        };
        assert_eq!(effects.workloads.len(), table.rows.len());
        for (effect, row) in effects.workloads.iter().zip(&table.rows) {
            assert_eq!(effect.workload, row.label);
            for (quantity, change) in [("misses", effect.misses), ("whole workload", effect.time)] {
                let ReproducedCell::Number { ours, .. } = row.cells[column(quantity)] else { panic!("{}", row.label) };
                assert_eq!(change.map(|change| change.percent), ours, "{}, {quantity}", row.label);
            }
        }
    }
}

#[test]
fn what_goes_in_comes_out() {
    for (row, column, printed, difference) in differences("table-2").into_iter().chain(differences("table-3")) {
        // An interval has the work of the printed one but not its misses, since others run beside it; so ends shift a little.
        assert!(difference.abs() < 8.0, "{row}, {column}: {printed} {difference:+}");
    }
    for (row, column, printed, difference) in differences("table-4") {
        if column != "median slice, ms" {
            // Oracle's steady misses were chosen for the time that they take in all, which 2,500 a slice don't.
            let within = if row == "Oracle, Oracle" { 0.4 * printed } else { 0.2 * printed + 0.05 };
            assert!(difference.abs() <= within, "{row}, {column}: {printed} {difference:+}");
        }
    }
}

#[test]
fn the_ranges_and_orderings_of_the_text_hold() {
    for says in [
        "removes 7 to 36 %",
        "removes 8 to 39 %",
        "reduces execution time by 1 to 10 %",
        "heavy affinity removes more misses",
        "gains hardly any time",
        "does not affect Oracle's slices",
        "Mp3d has nothing to gain",
        "Pmake has little to gain",
        "isn't unfair",
        "processes attached to processors miss less",
        "a longer quantum has no effect",
        "neither attaching nor a longer quantum",
        "light affinity makes slices of about 240 ms",
        "a process migrates only if",
    ] {
        let claim = claim(says);
        assert_eq!(claim.verdict, Verdict::Holds, "{}: {}", claim.statement, claim.why);
    }
}

#[test]
fn every_claim_is_computed_and_says_why() {
    for claim in &reproduction().claims {
        println!("{:12?} {}: {}. {}", claim.verdict, claim.place, claim.statement, claim.why);
        assert!(claim.why.contains(|c: char| c.is_ascii_digit()), "{}: {}", claim.statement, claim.why);
        assert!(!claim.why.contains("not known"), "{}: {}", claim.statement, claim.why);
    }
}

#[test]
fn figures_are_normalised_to_the_standard_schedulers_slices() {
    for figure in &reproduction().figures {
        assert_eq!(figure.panels.len(), 7, "{}", figure.title);
        for panel in &figure.panels {
            let sum: f64 = panel.bins.iter().map(|bin| bin.percent).sum();
            let as_expected = if figure.name == "figure-1" { (sum - 100.0).abs() < 1e-6 } else { sum < 100.0 };
            assert!(as_expected, "{}, {}: {sum}", figure.title, panel.label);
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let bytes = || format!("{:?}", cache_affinity(2, 5, None, &mut |_| {}).unwrap());
    assert_eq!(bytes(), bytes());
}

/// What the papers contradict themselves in, as it was found by reading them: paper, where, what, and what is computed of it.
/// Some of these are no contradictions after all, and some the numbers leave open.
const FOUND: [(&str, &str, &str, &str, Verdict); 33] = [
    ("1", "pires-2016", "section 4", "FT gains about 1 %", Verdict::Fails),
    ("1", "pires-2016", "section 4", "slightly above the deviation", Verdict::Fails),
    ("2", "pires-2016", "section 4", "in general well above", Verdict::Fails),
    ("3", "pires-2016", "tables 1 and 2", "of other runs", Verdict::Fails),
    ("4", "pires-2016", "section 4", "refers to are there", Verdict::Fails),
    ("5", "pires-2016", "section 2", "UMA", Verdict::Fails),
    ("5", "pires-2016", "section 5", "distributed shared memory", Verdict::Holds),
    ("6", "pires-2016", "table 1", "no benchmark takes longer", Verdict::Fails),
    ("7", "pires-2017", "tables 1 and 2", "ratios are those of the printed times", Verdict::Holds),
    ("8", "pires-2017", "section 4", "class A, which needs less memory", Verdict::Fails),
    ("9", "pires-2017", "section 4", "most with 32 and 64", Verdict::Fails),
    ("9", "pires-2017", "section 5", "no gain is notable but SP's", Verdict::Fails),
    ("10", "pires-2017", "section 5", "with 64 threads too", Verdict::Fails),
    ("11", "pires-2017", "footnote 1", "strategy compact", Verdict::Fails),
    ("12", "pires-2017", "section 4", "improbable that two share", Verdict::Fails),
    ("13", "pires-2017", "section 2", "UMA", Verdict::Fails),
    ("13", "pires-2017", "section 5", "distributed shared memory", Verdict::Holds),
    ("13", "pires-2017", "section 3.2", "sixteen cores share", Verdict::Fails),
    ("14", "pires-2017", "section 4", "fits into L1", Verdict::Fails),
    ("15", "weber-2010", "Metodologia", "CPUs for each mapping", Verdict::Fails),
    ("16", "weber-2010", "Metodologia", "runs that the text has told of", Verdict::Fails),
    ("16", "weber-2010", "figure 2", "tells the speed-up of each mapping", Verdict::Fails),
    ("17", "cache-affinity", "table III", "in percent of all intervals", Verdict::Fails),
    ("18", "cache-affinity", "tables II and III", "end with the quantum", Verdict::Fails),
    ("19", "cache-affinity", "tables II and IV", "no shorter than a median dispatch interval", Verdict::Fails),
    ("20", "cache-affinity", "table IV, sections 3.1.2 and 4", "about 20 % of the time", Verdict::Fails),
    ("21", "cache-affinity", "section 4, first and second bullets", "no more time than", Verdict::Fails),
    ("22", "cache-affinity", "section 6", "by up to 10 %", Verdict::Fails),
    ("23", "cache-affinity", "sections 2 and 4, third bullet", "less than those of young", Verdict::Fails),
    ("24", "cache-affinity", "section 6", "most of their potential", Verdict::Fails),
    ("25", "cache-affinity", "section 4", "whole quanta", Verdict::Fails),
    ("26", "cache-affinity", "section 3.1.1", "48 KB", Verdict::Fails),
    ("27", "cache-affinity", "tables and figures", "is there", Verdict::Fails),
];

#[test]
fn each_contradiction_that_was_found_by_reading_is_found_by_computation() {
    let mut papers = vec![reproduction().clone()];
    papers.extend(Paper::names().map(|name| placement(Paper::named(name).unwrap(), None).unwrap()));
    for (number, name, place, says, verdict) in FOUND {
        let paper = papers.iter().find(|paper| paper.paper == name).unwrap();
        let mut claims = paper.claims.iter().filter(|claim| claim.place == place && claim.statement.contains(says));
        let claim = claims.next().unwrap_or_else(|| panic!("{number}: {name}, {place}: {says}"));
        assert!(claims.next().is_none(), "{number}: one claim");
        println!("{number:>2} {name}, {place}: {}: {:?}: {}", claim.statement, claim.verdict, claim.why);
        assert_eq!(
            (claim.verdict, claim.against),
            (verdict, Against::Itself),
            "{number}: {}: {}",
            claim.statement,
            claim.why
        );
    }
    let numbers = FOUND.map(|(number, ..)| number.parse::<u32>().unwrap());
    assert!((1..=27).all(|number| numbers.contains(&number)));
}
