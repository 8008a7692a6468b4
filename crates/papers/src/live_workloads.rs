//! The cache-affinity report's seven workloads as programs: their studies, and what these measured on this machine and in a virtual one.

use crate::case::{Case, LESS, MORE, every};
use crate::evidence::Evidence;
use crate::printed::PrintedReport;
use crate::reproduction::{LiveStudies, LiveStudy, LiveVerdict, ReproducedCell, ReproducedRow, ReproducedTable};
use crate::simulated::Simulated;
use crate::verdict::Judgement;
use serde::{Deserialize, Serialize};
use sim::Policy;
use simulation::Estimated;
use simulation::metrics::{MAKESPAN, MEAN_COMPLETION, MISSES};
use stats::{By, Metric};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use study::mix::MEAN_COMPLETION as MEAN_COMPLETION_NAME;
use study::study_file::{StopTable, StudyFile};
use study::{
    Analysis, Comparison, Ending, GuestMachine, Journal, JournalError, Record, Site, Summary, comparison_analysis,
};

/// The machine whose caches and CPUs the virtual one has: the report's.
const GUEST_MACHINE: &str = "sgi-4d340";
/// Its topology.
const GUEST_TOPOLOGY: &str = "1x4";

/// How threads are scheduled in the virtual machine, the reference first: the report's standard, light, heavy and complex schedulers,
/// and Linux's own without and with cache-aware balancing. (`stayput sched` without boosts is the report's standard scheduler.)
const IN_GUEST: [&str; 6] = ["phi=0:0", "light", "heavy", "phi=6:6:complex", "default", "cache-aware=on"];
/// So often each is played there: as few as have an interval.
const PLAYS: u32 = 5;

const ATTACHED: &str = "attached";
const LONG_SLICE: &str = "slice=100ms";

/// What is counted in the virtual machine, whose only large cache is the second.
const ALL_MISSES: &str = "l2_misses_per_1000";
const RELOAD_MISSES: &str = "l2_reload_misses_per_1000";

/// Policies that are simulated besides, to stand beside what is measured.
pub(super) const SIMULATED_BESIDES: [Policy; 4] =
    [Policy::ComplexLight, Policy::EevdfLlc, Policy::EevdfAttached, Policy::EevdfLongSlice];

/// One of the report's workloads as programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveWorkload {
    /// The report's name for it.
    pub name: &'static str,
    /// What its files are called.
    pub stem: &'static str,
    text: &'static str,
}

macro_rules! workload {
    ($name:literal, $stem:literal) => {
        LiveWorkload {
            name: $name,
            stem: $stem,
            text: include_str!(concat!("../../../papers/cache-affinity/", $stem, ".toml")),
        }
    };
}

/// The seven, in the report's order.
pub const LIVE_WORKLOADS: [LiveWorkload; 7] = [
    workload!("Matrix+Matrix", "matrix-matrix"),
    workload!("Matrix+Cholesky", "matrix-cholesky"),
    workload!("Matrix+Mp3d", "matrix-mp3d"),
    workload!("Pmake+Matrix", "pmake-matrix"),
    workload!("Pmake+Cholesky", "pmake-cholesky"),
    workload!("Pmake+Pmake", "pmake-pmake"),
    workload!("Oracle", "oracle"),
];

/// Where a workload is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// On this machine, by times, under its kernel's own scheduler.
    Here,
    /// In a virtual machine, by misses, under all schedulers.
    Vm,
}

impl Place {
    /// What it is called within a sentence.
    pub fn phrase(self) -> &'static str {
        match self {
            Self::Here => "on this machine",
            Self::Vm => "in a virtual machine",
        }
    }
}

impl LiveWorkload {
    /// Its study in `place`. Only when it ends is another in the virtual machine than in its file, and what is compared.
    pub fn study_file(&self, place: Place) -> StudyFile {
        let file = StudyFile::parse(self.text, &[]).expect("a test reads every workload's file");
        match place {
            Place::Here => file,
            Place::Vm => StudyFile {
                on: Some(Site::Vm(GuestMachine {
                    topology: GUEST_TOPOLOGY.parse().expect("a test makes every study"),
                    misses: None,
                })),
                misses: Some(GUEST_MACHINE.into()),
                sched: IN_GUEST.map(str::to_owned).into(),
                stop: StopTable { min_runs: Some(PLAYS), max_runs: Some(PLAYS), ..StopTable::default() },
                // Each boot begins with a run of each workload that doesn't count.
                warmup_blocks: Some(0),
                ..file
            },
        }
    }

    /// The journal of that study in `folder`.
    pub fn journal(&self, place: Place, folder: &Path) -> PathBuf {
        let of = if place == Place::Vm { ".vm" } else { "" };
        folder.join(format!("{}{of}.stayput", self.stem))
    }

    /// What `journal` holds of it; none where there is no journal yet, or nothing in it.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn earlier(&self, journal: &Path) -> Result<Option<Record<Comparison>>, JournalError> {
        match Journal::<Comparison>::read(journal) {
            Ok(record) => Ok(Some(record)),
            Err(JournalError::Empty { .. }) => Ok(None),
            Err(JournalError::Open { .. }) if !journal.exists() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// What was measured of the report's workloads.
#[derive(Clone, Debug, Default)]
pub struct LiveWorkloads {
    folder: PathBuf,
    measured: BTreeMap<(Place, &'static str), (Record<Comparison>, Analysis)>,
    left_out: Vec<String>,
}

impl LiveWorkloads {
    /// Nothing as yet, of studies whose journals are in `folder`.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.into(), ..Self::default() }
    }

    /// Adds what the study of a workload came to.
    pub fn add(&mut self, workload: &LiveWorkload, place: Place, record: Record<Comparison>) {
        let analysis = comparison_analysis(&record);
        for summary in analysis.summaries.iter().filter(|summary| summary.trials == 0 && summary.failed > 0) {
            let failed = record.trials.iter().rev().find(|trial| {
                trial.status.is_failure() && trial.subject == summary.subject && trial.placement == summary.placement
            });
            let why = failed.map_or("", |trial| trial.cause.as_str());
            self.left_out.push(format!(
                "{} {}: no run of {} under {} went well: {why}.",
                workload.name,
                place.phrase(),
                summary.subject,
                summary.placement
            ));
        }
        self.measured.insert((place, workload.name), (record, analysis));
    }

    /// Keeps in mind that something wasn't run, and why, in a sentence.
    pub fn leave_out(&mut self, sentence: String) {
        self.left_out.push(sentence);
    }

    /// How the studies were run.
    pub(super) fn studies(&self) -> LiveStudies {
        let of_place = |place| {
            let ours = || self.measured.iter().filter(move |((other, _), _)| *other == place);
            let (_, (first, _)) = ours().next()?;
            let named = LIVE_WORKLOADS.iter().map(|workload| workload.name);
            let endings = || ours().map(|(_, (record, _))| record.ending);
            let departures: BTreeSet<&String> =
                ours().flat_map(|(_, (record, _))| &record.plan.plan.departures).collect();
            Some(LiveStudy {
                subjects: named.filter(|name| self.measured.contains_key(&(place, *name))).map(str::to_owned).collect(),
                guest: first.plan.plan.site.guest().map(|guest| match &guest.misses {
                    Some(machine) => format!("vm:{} with the caches of {machine}", guest.topology),
                    None => format!("vm:{}", guest.topology),
                }),
                cpu_model: first.host.cpu_model.clone(),
                kernel: first.host.kernel.clone(),
                trials: ours().map(|(_, (record, _))| record.trials.len()).sum(),
                kept_in: format!("journals of the folder {}", self.folder.display()),
                ending: match () {
                    () if endings().any(|ending| ending.is_none()) => None,
                    () if endings().all(|ending| ending == Some(Ending::Finished)) => Some(Ending::Finished),
                    () => Some(Ending::BudgetSpent),
                },
                departures: departures.into_iter().cloned().collect(),
            })
        };
        LiveStudies {
            studies: [Place::Here, Place::Vm].into_iter().filter_map(of_place).collect(),
            left_out: self.left_out.clone(),
        }
    }

    /// By how many percent a workload's runs under `scheduling` take more or less than under the reference; of `metric`, or of what its
    /// runs are compared by. None where that wasn't measured often enough.
    fn change(&self, place: Place, workload: &str, scheduling: &str, metric: Option<&str>) -> Option<Estimated> {
        let ((_, name), (record, analysis)) =
            self.measured.iter().find(|((of, name), _)| (*of, *name) == (place, workload))?;
        let treatments = &record.plan.plan.treatments;
        let treatment = treatments.iter().find(|it| it.conditions.scheduling.to_string() == scheduling)?;
        let is_its =
            |summary: &&Summary| summary.subject == *name && summary.placement == treatment.name && summary.trials > 0;
        let summary = analysis.summaries.iter().find(is_its)?;
        let own = (summary.ratio, summary.ratio_low, summary.ratio_high);
        let (ratio, low, high) = match metric {
            None => own,
            // Of a workload that is one program.
            Some(MEAN_COMPLETION_NAME) if summary.metrics.is_empty() => own,
            Some(metric) => {
                let metric = summary.metrics.iter().find(|other| other.metric.name == metric)?;
                (metric.ratio, metric.ratio_low, metric.ratio_high)
            }
        };
        // Ratios are of the reference over it.
        let percent = |ratio: f64| 100.0 * (ratio.recip() - 1.0);
        Some(Estimated { value: percent(ratio?), low: high.map(percent), high: low.map(percent) })
    }

    /// What stands in a column of the report's Table V: misses alone, since times of a virtual machine mean nothing.
    pub(super) fn effect(&self, workload: &str, column: usize) -> Option<Estimated> {
        let scheduling = *["light", "heavy"].get(column)?;
        self.change(Place::Vm, workload, scheduling, Some(ALL_MISSES))
    }

    /// Tables of what was measured that the report has none of.
    pub(super) fn tables(&self, evidence: &Evidence) -> Vec<ReproducedTable> {
        let column = |head, policy, simulated: &Metric, scheduling, metric| Column {
            head,
            policy,
            simulated: simulated.clone(),
            scheduling,
            metric,
        };
        let mean = Some(MEAN_COMPLETION_NAME);
        let (attached, long) = (Policy::EevdfAttached, Policy::EevdfLongSlice);
        let times = [
            column("whole workload, attached", attached, &MAKESPAN, ATTACHED, None),
            column("whole workload, long slices", long, &MAKESPAN, LONG_SLICE, None),
            column("mean job completion, attached", attached, &MEAN_COMPLETION, ATTACHED, mean),
            column("mean job completion, long slices", long, &MEAN_COMPLETION, LONG_SLICE, mean),
        ];
        let (all, of_reloads) = (Some(ALL_MISSES), Some(RELOAD_MISSES));
        let reloads = MISSES.by(By::Cause("reload".into()));
        let misses = [
            column("misses, complex", Policy::ComplexLight, &MISSES, "phi=6:6:complex", all),
            column("misses, Linux's own", Policy::Eevdf, &MISSES, "default", all),
            column("misses, cache-aware", Policy::EevdfLlc, &MISSES, "cache-aware=on", all),
            column("of reloads, light", Policy::Light, &reloads, "light", of_reloads),
            column("of reloads, heavy", Policy::Heavy, &reloads, "heavy", of_reloads),
        ];
        let table = |place, name: &str, title: &str, about: &str, columns: &[Column]| {
            let rows = evidence.workloads.iter().map(|simulated| ReproducedRow {
                label: simulated.name().to_owned(),
                cells: columns.iter().map(|column| column.cell(self, place, simulated)).collect(),
            });
            let rows: Vec<ReproducedRow> = rows.collect();
            let is_measured = self.measured.keys().any(|(of, _)| *of == place);
            is_measured.then(|| ReproducedTable {
                name: name.to_owned(),
                title: title.to_owned(),
                about: about.to_owned(),
                margin: None,
                corner: "workload".into(),
                columns: columns.iter().map(|column| column.head.to_owned()).collect(),
                rows,
            })
        };
        let here = "change against the kernel's own scheduler, in percent: simulated on the report's machine under the newest Linux that is \
                    modelled, and measured with programs of today on this machine, of which attached binds each process with all of its threads; the \
                    report has no such table";
        let guest = "change against the standard scheduler, in percent: simulated, where misses are those of the same work, and counted in \
                     the virtual machine, where they are of 1,000 references; the report has no such table";
        let here = table(Place::Here, "live-times", "Times, live", here, &times);
        let guest = table(Place::Vm, "live-misses", "Misses, live", guest, &misses);
        here.into_iter().chain(guest).collect()
    }

    /// What these numbers say of a claim, by its check; none where they don't speak of it.
    pub(super) fn judge(&self, check: &str) -> Option<LiveVerdict> {
        let time = |workload, scheduling| self.change(Place::Here, workload, scheduling, None);
        let misses = |workload, scheduling| self.change(Place::Vm, workload, scheduling, Some(ALL_MISSES));
        let names = || LIVE_WORKLOADS.into_iter().map(|workload| workload.name);
        let each = |case: &dyn Fn(&'static str) -> Case| every(names().map(case));
        let printed = |name: &'static str| {
            let report = PrintedReport::cache_affinity();
            let margin = report.table("table-5").margin.unwrap_or_default();
            let printed = report.number("table-5", name, 0).map_or(f64::NAN, |printed| printed.value);
            Case::near(format!("{name}: printed {printed:.0}, here"), misses(name, "light"), printed, margin, " %")
        };
        let (place, (verdict, why)): (Place, Judgement) = match check {
            "attached" => (Place::Here, each(&|name| Case::new(name, time(name, ATTACHED), MORE, " % time"))),
            "long-quantum" => {
                let near = |name| Case::near(name, time(name, LONG_SLICE), 0.0, 1.0, " % time");
                (Place::Here, every(["Pmake+Pmake", "Oracle"].map(near)))
            }
            "scientific-misses" => (Place::Vm, every(["Matrix+Matrix", "Matrix+Cholesky"].map(printed))),
            "oracle-misses" => (Place::Vm, every([printed("Oracle")])),
            "light-misses-range" => {
                (Place::Vm, each(&|name| Case::new(name, misses(name, "light"), (-36.5, -6.5), " % misses")))
            }
            "heavy-misses-range" => {
                (Place::Vm, each(&|name| Case::new(name, misses(name, "heavy"), (-39.5, -7.5), " % misses")))
            }
            "heavy-misses" => {
                let more = |name| {
                    let [light, heavy] = ["light", "heavy"].map(|scheduling| misses(name, scheduling));
                    let less = light.zip(heavy).map(|(light, heavy)| crate::interval::less(heavy, light));
                    Case::new(name, less, LESS, " points")
                };
                (Place::Vm, each(&more))
            }
            _ => return None,
        };
        self.measured.keys().any(|(of, _)| *of == place).then_some(LiveVerdict { verdict, why })
    }
}

/// A column of a table of what was measured: what is simulated, and what is measured beside it.
struct Column {
    head: &'static str,
    policy: Policy,
    simulated: Metric,
    scheduling: &'static str,
    /// None is what runs are compared by.
    metric: Option<&'static str>,
}

impl Column {
    fn cell(&self, live: &LiveWorkloads, place: Place, simulated: &Simulated) -> ReproducedCell {
        let change = match place {
            Place::Here => Simulated::change_against_kernel,
            Place::Vm => Simulated::change,
        };
        let measured = live.change(place, simulated.name(), self.scheduling, self.metric);
        ReproducedCell::number(None, change(simulated, self.policy, &self.simulated)).with_live(measured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use study::Treatment;
    use study::engine::Turn;
    use study::{HostFacts, Plan, Status, StopRule, Subject, Trial};

    /// A study of Matrix+Matrix whose runs take `times` seconds under default, attached and long slices, in six blocks.
    fn record(times: [f64; 3]) -> Record<Comparison> {
        let treatment = |scheduling: &str| {
            let mut treatment = Treatment { name: format!("sched={scheduling}"), ..Treatment::unbound() };
            treatment.conditions.scheduling = scheduling.parse().unwrap();
            treatment
        };
        let subject = Subject { name: "Matrix+Matrix".into(), argv: vec!["x".into()], ..Subject::default() };
        let plan = Plan {
            subjects: vec![subject],
            threads: vec![2.into()],
            treatments: ["default", ATTACHED, LONG_SLICE].map(treatment).into(),
            timeout: std::time::Duration::from_secs(60),
            seed: 1,
            ..Plan::default()
        };
        let trials = (0..6).flat_map(|block| {
            let trial = |(at, cell)| Trial {
                status: Status::Ok,
                time_s: Some(times[at] * (1.0 + 0.001 * f64::from(block))),
                ..Turn { cell, sequence: block, block, warmup: false, cut_off: None }.trial(&plan, 0.0)
            };
            plan.cells().enumerate().map(trial).collect::<Vec<_>>()
        });
        Record {
            trials: trials.collect(),
            plan: Comparison {
                plan: plan.clone(),
                stop: StopRule::Paired { width: 0.02, min_blocks: 6, max_blocks: 6 },
            },
            machine: serde_json::Value::Null,
            host: HostFacts::of_model(),
            sessions: Vec::new(),
            disturbed: Vec::new(),
            ending: Some(Ending::Finished),
        }
    }

    #[test]
    fn every_workload_has_its_study_in_both_places() {
        for workload in LIVE_WORKLOADS {
            let here = workload.study_file(Place::Here);
            let name = here.mixes.first().and_then(|mix| mix.name.clone());
            let name = name.or_else(|| here.subjects.first().and_then(|subject| subject.name.clone()));
            assert_eq!(name.as_deref(), Some(workload.name));
            assert!(here.sched.iter().eq(["default", ATTACHED, LONG_SLICE]), "{:?}", here.sched);
            let guest = workload.study_file(Place::Vm);
            assert_eq!(guest.site().unwrap().to_string(), "vm:1x4");
            assert_eq!((guest.mixes, guest.subjects), (here.mixes, here.subjects), "the same programs");
        }
        let simulated = sim::workload_file::REPORT_WORKLOADS.iter().map(|(name, _)| *name);
        assert!(simulated.eq(LIVE_WORKLOADS.map(|workload| workload.name)));
    }

    #[test]
    fn changes_are_of_what_runs_take_and_judge_what_the_report_claims() {
        let mut live = LiveWorkloads::new(Path::new("folder"));
        assert_eq!(live.judge("attached"), None, "nothing was measured");
        live.add(&LIVE_WORKLOADS[0], Place::Here, record([1.0, 1.25, 0.8]));
        let change = |scheduling| live.change(Place::Here, "Matrix+Matrix", scheduling, None).unwrap();
        for (scheduling, percent) in [(ATTACHED, 25.0), (LONG_SLICE, -20.0)] {
            let change = change(scheduling);
            assert!((change.value - percent).abs() < 1e-6, "{scheduling}: {change:?}");
            assert!(change.low.unwrap() <= change.value && change.value <= change.high.unwrap(), "{change:?}");
        }
        assert_eq!(live.change(Place::Vm, "Matrix+Matrix", "light", Some(ALL_MISSES)), None);
        assert_eq!(live.change(Place::Here, "Oracle", ATTACHED, None), None);
        // Of seven workloads one was measured.
        let attached = live.judge("attached").unwrap();
        assert_eq!(attached.verdict, crate::verdict::Verdict::Undecidable, "{attached:?}");
        assert_eq!(live.judge("scientific-misses"), None, "it needs the virtual machine");
        assert_eq!(live.judge("thresholds"), None);
        let studies = live.studies();
        assert_eq!((studies.studies.len(), studies.studies[0].trials, studies.left_out.len()), (1, 18, 0));
        assert_eq!(studies.studies[0].subjects, ["Matrix+Matrix"]);
    }

    #[test]
    fn what_never_went_well_is_left_out_in_a_sentence() {
        let mut failed = record([1.0, 1.25, 0.8]);
        for trial in failed.trials.iter_mut().filter(|trial| trial.placement == "sched=attached") {
            (trial.status, trial.time_s, trial.cause) = (Status::NotStarted, None, "no PostgreSQL is here".into());
        }
        let mut live = LiveWorkloads::new(Path::new("folder"));
        live.add(&LIVE_WORKLOADS[0], Place::Here, failed);
        assert_eq!(live.change(Place::Here, "Matrix+Matrix", ATTACHED, None), None);
        let said = "Matrix+Matrix on this machine: no run of Matrix+Matrix under sched=attached went well: no PostgreSQL is here.";
        assert_eq!(live.studies().left_out, [said]);
    }

    #[test]
    fn metrics_that_are_counted_are_those_of_the_machines_caches() {
        let machine = machine::Machine::named(GUEST_MACHINE).unwrap();
        let counted = study::counted_metrics(&machine);
        for name in [ALL_MISSES, RELOAD_MISSES] {
            assert!(counted.iter().any(|metric| metric.name == name), "{name}");
        }
    }
}
