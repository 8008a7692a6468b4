//! The report's applications as they were profiled on this machine: its Tables II, III and IV by today's numbers, each application as it is
//! simulated from its own profile, and what 1995 had otherwise.

use crate::interval::exactly;
use crate::printed::PrintedReport;
use crate::reproduction::{LiveStudy, ReproducedCell, ReproducedRow, ReproducedTable};
use simulation::Estimated;
use std::path::{Path, PathBuf};
use study::{Ending, HostFacts};

/// Columns of Table II.
pub const BINS: usize = 7;
/// Columns of Table III.
pub const CAUSES: usize = 6;

/// A difference of a share from a printed one that is told, in percentage points.
const TOLD_POINTS: f64 = 3.0;

/// The report's applications as programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveApplication {
    /// The report's name for it.
    pub name: &'static str,
    /// The program in its place, of a class that does something for some seconds.
    pub builtin: &'static str,
    /// What the processes are called that are looked at, in 15 bytes at most; all of them where there is no such name: a compilation is
    /// many programs.
    pub process: Option<&'static str>,
}

/// The five, in the report's order.
pub const LIVE_APPLICATIONS: [LiveApplication; 5] = [
    LiveApplication { name: "Matrix", builtin: "affinity:matrix.B", process: Some("affinity-matrix") },
    LiveApplication { name: "Cholesky", builtin: "affinity:cholesky.B", process: Some("affinity-choles") },
    LiveApplication { name: "Mp3d", builtin: "affinity:mp3d.A", process: Some("affinity-mp3d") },
    LiveApplication { name: "Pmake", builtin: "affinity:pmake.W", process: None },
    LiveApplication { name: "Oracle", builtin: "affinity:oltp.S", process: Some("postgres") },
];

impl LiveApplication {
    /// The application of that name.
    pub fn named(name: &str) -> Option<Self> {
        LIVE_APPLICATIONS.into_iter().find(|application| application.name == name)
    }
}

/// Where in `folder` the profile of an application, or of a workload, is kept.
pub fn profile_of(name: &str, folder: &Path) -> PathBuf {
    folder.join(format!("profile-{}.json", name.to_lowercase().replace('+', "-")))
}

/// What an application was seen to do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profiled {
    /// How many dispatch intervals there were of it.
    pub intervals: u64,
    /// Their median, in ms.
    pub interval_median_ms: Option<f64>,
    /// Shares of them in the bins of Table II, in percent; shorter ones are in the first, longer ones in the last.
    pub intervals_percent: [f64; BINS],
    /// What ended them, by the columns of Table III, in percent.
    pub ends_percent: [f64; CAUSES],
    /// What system calls waited for, most often first, with their share of those that waited, in percent.
    pub calls_percent: Vec<(String, f64)>,
    /// The median of its effective time slices, in ms.
    pub slice_median_ms: Option<f64>,
    /// What affinity can gain, in the report's word, and the share of CPU time that reloads take at most, in percent.
    pub potential: (String, Option<f64>),
}

impl Profiled {
    /// Share of intervals after which it was blocked, in percent.
    fn blocked_percent(&self) -> f64 {
        let [_, semaphore, _, system_call, fault, other] = self.ends_percent;
        semaphore + system_call + fault + other
    }
}

/// An application as it is simulated from its own profile under the kernel's own scheduler.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnSimulation {
    /// Shares of its intervals in the bins of Table II, in percent.
    pub intervals_percent: [f64; BINS],
    /// Share that the quantum or a preemption ended, that blocking did, that a yield did, in percent.
    pub ends_percent: [f64; 3],
    /// The same as they were measured.
    pub measured_percent: [f64; 3],
    /// The largest difference of the distributions of intervals, from 0 to 1.
    pub distance: f64,
    /// The largest difference of these shares, in percentage points.
    pub points: f64,
    /// Whether both are within the bounds of `stayput profile --check`.
    pub agrees: bool,
}

/// What was profiled on this machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveProfiles {
    /// The slice that the kernel gives, in ms, where it is known.
    slice_ms: Option<f64>,
    applications: Vec<(&'static str, Profiled, Option<OwnSimulation>)>,
    /// Of each application in each workload.
    shares: Vec<(String, Profiled)>,
}

impl LiveProfiles {
    /// Nothing as yet, of a machine whose kernel gives slices of `slice_ms`, where that is known.
    pub fn new(slice_ms: Option<f64>) -> Self {
        Self { slice_ms, ..Self::default() }
    }

    /// Adds an application that had the machine for itself, with twice as many threads or processes as CPUs.
    pub fn add(&mut self, application: &LiveApplication, profiled: Profiled, own: Option<OwnSimulation>) {
        self.applications.push((application.name, profiled, own));
    }

    /// Adds an application in a workload.
    pub fn add_share(&mut self, workload: &str, application: &str, profiled: Profiled) {
        self.shares.push((format!("{workload}, {application}"), profiled));
    }

    fn of(&self, application: &str) -> Option<&Profiled> {
        self.applications.iter().find(|(name, ..)| *name == application).map(|(_, profiled, _)| profiled)
    }

    /// What was measured for a cell of Tables II, III or IV, where that is a number.
    pub(super) fn number(&self, table: &str, row: &str, column: usize) -> Option<Estimated> {
        match (table, column) {
            ("table-2", _) => self.of(row)?.intervals_percent.get(column).copied(),
            ("table-3", _) => self.of(row)?.ends_percent.get(column).copied(),
            ("table-4", 1) => self.share(row)?.slice_median_ms,
            _ => None,
        }
        .map(exactly)
    }

    /// What was found for a cell of Table IV of words: whether it blocks at least that share of times, and its potential.
    pub(super) fn words(&self, row: &str, column: usize, blocks_often: f64) -> Option<String> {
        let profiled = self.share(row)?;
        let (word, percent) = &profiled.potential;
        match column {
            2 => Some(if profiled.blocked_percent() >= 100.0 * blocks_often { "yes" } else { "no" }.into()),
            4 => Some(percent.map_or_else(|| word.clone(), |percent| format!("{word}: at most {percent:.1} %"))),
            _ => None,
        }
    }

    fn share(&self, row: &str) -> Option<&Profiled> {
        self.shares.iter().find(|(label, _)| label == row).map(|(_, profiled)| profiled)
    }

    /// How it was done; none where it wasn't.
    pub(super) fn study(&self, folder: &Path) -> Option<LiveStudy> {
        self.applications.first()?;
        let host = HostFacts::read();
        Some(LiveStudy {
            subjects: self.applications.iter().map(|(name, ..)| (*name).to_owned()).collect(),
            elsewhere: None,
            cpu_model: host.cpu_model,
            kernel: host.kernel,
            trials: self.applications.len() + self.shares.len(),
            kept_in: format!("files profile-*.json of the folder {}", folder.display()),
            ending: Some(Ending::Finished),
            departures: Vec::new(),
        })
    }

    /// Tables of its own: each application from its own profile, and why it isn't as in 1995.
    pub(super) fn tables(&self, printed: &PrintedReport) -> Vec<ReproducedTable> {
        if self.applications.is_empty() {
            return Vec::new();
        }
        let table = |name: &str, title: &str, about: &str, columns: Vec<String>, rows| ReproducedTable {
            name: name.into(),
            title: title.into(),
            about: about.into(),
            margin: None,
            corner: "application".into(),
            columns,
            rows,
        };
        let bins = &printed.table("table-2").columns;
        vec![
            table(
                "live-table-2",
                "Table II, from its own profile",
                "durations of the dispatch intervals, in percent of all intervals: as printed, simulated under the kernel's own scheduler from \
                 the application's profile, and as profiled",
                bins.clone(),
                self.rows(|name, profiled, own| {
                    let cell = |bin: usize| {
                        let simulated = own.map(|own| exactly(own.intervals_percent[bin]));
                        ReproducedCell::number(printed.number("table-2", name, bin), simulated)
                            .with_live(Some(exactly(profiled.intervals_percent[bin])))
                    };
                    (0..BINS).map(cell).collect()
                }),
            ),
            table(
                "live-circle",
                "Each application from its own profile",
                "what ends intervals, in percent, simulated under the kernel's own scheduler from the application's profile, and as profiled; how \
                 far apart the distributions of intervals are (Kolmogorov's distance in percent; up to 10 agrees) and these shares (in points; up \
                 to 3 agrees)",
                ["quantum", "blocking", "yield", "distance", "points", "agrees"].map(String::from).into(),
                self.rows(|_, _, own| own.map_or_else(Vec::new, circle)),
            ),
            table(
                "live-why",
                "What 1995 had otherwise",
                &self.about_differences(),
                vec!["what differs".into()],
                self.rows(|name, profiled, _| {
                    let ours = differences(name, profiled, printed).join("; ");
                    vec![ReproducedCell::words("", ours)]
                }),
            ),
        ]
    }

    fn rows(
        &self,
        cells: impl Fn(&str, &Profiled, Option<&OwnSimulation>) -> Vec<ReproducedCell>,
    ) -> Vec<ReproducedRow> {
        let row = |(name, profiled, own): &(&'static str, Profiled, Option<OwnSimulation>)| ReproducedRow {
            label: (*name).to_owned(),
            cells: cells(name, profiled, own.as_ref()),
        };
        self.applications.iter().map(row).filter(|row| !row.cells.is_empty()).collect()
    }

    fn about_differences(&self) -> String {
        let slice = self.slice_ms.map_or_else(String::new, |ms| {
            format!("; the report's quantum was 30 ms, and this kernel gives slices of {ms:.1} ms")
        });
        format!(
            "shares of intervals, of which each was printed > profiled, where they are more than {TOLD_POINTS} points apart{slice}"
        )
    }
}

/// The row of an application as it is simulated from its own profile.
fn circle(own: &OwnSimulation) -> Vec<ReproducedCell> {
    let shares = own.ends_percent.iter().zip(own.measured_percent);
    let shares = shares.map(|(simulated, measured)| {
        ReproducedCell::number(None, Some(exactly(*simulated))).with_live(Some(exactly(measured)))
    });
    let agrees = if own.agrees { "yes" } else { "no" };
    // What comes of comparing with this machine is this machine's.
    let apart =
        [100.0 * own.distance, own.points].map(|it| ReproducedCell::number(None, None).with_live(Some(exactly(it))));
    let judged = ReproducedCell::Words { printed: String::new(), ours: String::new(), live: Some(agrees.into()) };
    shares.chain(apart).chain([judged]).collect()
}

/// Where an application isn't as the report printed it, and by what: of each share that is far off, both numbers.
fn differences(name: &str, profiled: &Profiled, printed: &PrintedReport) -> Vec<String> {
    let far = |table: &str, column: usize, measured: f64| {
        let printed = printed.number(table, name, column)?.value;
        ((measured - printed).abs() > TOLD_POINTS).then_some(printed)
    };
    let mut told = Vec::new();
    let [.., longest] = profiled.intervals_percent;
    if let Some(printed) = far("table-2", BINS - 1, longest) {
        let median = profiled.interval_median_ms.map_or_else(String::new, |ms| format!(", median {ms:.2} ms"));
        told.push(format!("intervals of 25 ms and more {printed} > {longest:.1} %{median}"));
    }
    let calls: Vec<String> =
        profiled.calls_percent.iter().take(2).map(|(kind, percent)| format!("{kind} {percent:.0} %")).collect();
    let calls = if calls.is_empty() { String::new() } else { format!(", of which {}", calls.join(", ")) };
    // Of each cause what is said where there is more of it, and where there is less.
    let causes: [(&str, [&str; 2]); CAUSES] = [
        ("the quantum or a preemption", ["", ""]),
        (
            "a semaphore",
            [
                ": threads that wait for one another sleep on a futex",
                ": of those that wait, these wait in system calls",
            ],
        ),
        ("synchronisation", ["", ": locks and barriers that spun and yielded have become such that sleep"]),
        ("a system call", [&calls, &calls]),
        ("a TLB fault", ["", ": hardware fills the TLB today, and what is counted are page faults that had to wait"]),
        ("anything else", ["", ""]),
    ];
    for (column, (cause, whys)) in causes.into_iter().enumerate() {
        let measured = profiled.ends_percent[column];
        if let Some(printed) = far("table-3", column, measured) {
            let why = whys[usize::from(measured < printed)];
            told.push(format!("ended by {cause} {printed} > {measured:.1} %{why}"));
        }
    }
    if told.is_empty() {
        told.push(format!("nothing by more than {TOLD_POINTS} points"));
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profiled() -> Profiled {
        Profiled {
            intervals: 1_000,
            interval_median_ms: Some(4.0),
            intervals_percent: [99.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            ends_percent: [95.0, 4.0, 0.0, 1.0, 0.0, 0.0],
            calls_percent: vec![("disk".into(), 80.0), ("pipe".into(), 20.0)],
            slice_median_ms: Some(4.0),
            potential: ("low".into(), Some(2.04)),
        }
    }

    #[test]
    fn what_was_profiled_stands_in_the_reports_cells_and_what_differs_is_told_by_both_numbers() {
        let printed = PrintedReport::cache_affinity();
        let mut profiles = LiveProfiles::new(Some(1.4));
        assert_eq!(profiles.tables(printed), []);
        let own = OwnSimulation {
            intervals_percent: [98.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            ends_percent: [94.0, 6.0, 0.0],
            measured_percent: [95.0, 5.0, 0.0],
            distance: 0.04,
            points: 1.0,
            agrees: true,
        };
        profiles.add(&LIVE_APPLICATIONS[0], profiled(), Some(own));
        profiles.add(&LIVE_APPLICATIONS[1], profiled(), None);
        profiles.add_share("Matrix+Mp3d", "Mp3d", profiled());
        let number = |table, row, column| profiles.number(table, row, column).map(|number| number.value);
        assert_eq!(number("table-2", "Matrix", 0), Some(99.0));
        assert_eq!(number("table-3", "Cholesky", 1), Some(4.0));
        assert_eq!(number("table-4", "Matrix+Mp3d, Mp3d", 1), Some(4.0));
        assert_eq!(number("table-4", "Matrix+Mp3d, Matrix", 1), None, "it wasn't profiled");
        assert_eq!(profiles.words("Matrix+Mp3d, Mp3d", 2, 0.25).as_deref(), Some("no"));
        assert_eq!(profiles.words("Matrix+Mp3d, Mp3d", 4, 0.25).as_deref(), Some("low: at most 2.0 %"));
        let tables = profiles.tables(printed);
        let rows: Vec<usize> = tables.iter().map(|table| table.rows.len()).collect();
        assert_eq!(rows, [2, 1, 2], "what wasn't simulated has no row in the circle");
        assert!(tables.iter().all(|table| table.rows.iter().all(|row| row.cells.len() == table.columns.len())));
        assert!(tables[2].about.contains("slices of 1.4 ms"), "{}", tables[2].about);
        let why = |row: usize| match &tables[2].rows[row].cells[0] {
            ReproducedCell::Words { ours, .. } => ours.clone(),
            cell => panic!("{cell:?}"),
        };
        assert_eq!(why(0), "intervals of 25 ms and more 93 > 0.0 %, median 4.00 ms");
        assert!(why(1).contains("synchronisation 47.9 > 0.0 %: locks"), "{}", why(1));
    }

    #[test]
    fn every_application_and_workload_has_a_file_of_its_own() {
        let names = printed_names();
        let files: std::collections::BTreeSet<PathBuf> =
            names.iter().map(|name| profile_of(name, Path::new("f"))).collect();
        assert_eq!(files.len(), names.len() - 1, "Oracle is both an application and a workload");
        assert!(files.contains(Path::new("f/profile-matrix-mp3d.json")));
    }

    fn printed_names() -> Vec<&'static str> {
        let workloads = sim::workload_file::REPORT_WORKLOADS.iter().map(|(name, _)| *name);
        LIVE_APPLICATIONS.iter().map(|application| application.name).chain(workloads).collect()
    }
}
