//! The cache-affinity report's seven workloads as programs: their studies, and what these measured on this machine and in a virtual one.

use crate::live_numbers::LiveNumbers;
use crate::live_profiles::LiveProfiles;
use crate::live_space::LiveSpace;
use crate::reproduction::{LiveStudies, LiveStudy};
use serde::{Deserialize, Serialize};
use sim::Policy;
use simulation::Estimated;
use stats::Pair;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use study::preparation::Variable;
use study::study_file::{StopTable, StudyFile};
use study::{
    Analysis, Comparison, Ending, GuestMachine, Journal, JournalError, Record, Site, Status, Trial, comparison_analysis,
};

/// The machine whose caches and CPUs the virtual one has: the report's.
const GUEST_MACHINE: &str = "sgi-4d340";
/// Its topology.
const GUEST_TOPOLOGY: &str = "1x4";

/// How threads are scheduled in the virtual machine, the reference first: the report's standard, light, heavy and complex schedulers,
/// and Linux's own without and with cache-aware balancing. (`stayput sched` without boosts is the report's standard scheduler.)
const IN_GUEST: [&str; 6] = ["phi=0:0", "light", "heavy", "phi=6:6:complex", "default", "cache-aware=on"];
/// Those of them that the small size has.
const IN_SMALL_GUEST: [&str; 4] = ["phi=0:0", "light", "heavy", "default"];
/// So often each is played there: as few as have an interval.
const PLAYS: u32 = 5;
/// So often each is played on this machine at the small size.
const SMALL_BLOCKS: u32 = 6;

/// What programs are asked for there, of those that consist of processes: an emulated CPU takes minutes for all of a compilation.
const PART_IN_GUEST: &str = "STAYPUT_PART=1/8";
/// What the page says of that.
const PART_SAID: &str = "In the virtual machine Pmake's files and Oracle's tables have an eighth of their lines and accounts, and there are an eighth \
                         of Oracle's transactions.";

pub(crate) const ATTACHED: &str = "attached";
pub(crate) const LONG_SLICE: &str = "slice=100ms";

/// What is counted in the virtual machine, whose only large cache is the second.
pub(crate) const ALL_MISSES: &str = "l2_misses_per_1000";
pub(crate) const RELOAD_MISSES: &str = "l2_reload_misses_per_1000";

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

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// What ends within half an hour on two CPUs: fewer plays, and in the virtual machine fewer schedulers and what fits.
    Small,
    /// As the studies' files say, and in the virtual machine all workloads under all schedulers.
    Full,
}

/// Where a workload is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// On this machine, or nodes of a cluster in its place, by times, under the kernel's own scheduler.
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
    /// Its study in `place`. In the virtual machine it ends otherwise than in its file, compares other things, and programs that consist
    /// of processes are smaller.
    pub fn study_file(&self, place: Place, size: Size) -> StudyFile {
        let mut file = StudyFile::parse(self.text, &[]).expect("a test reads every workload's file");
        if place == Place::Vm {
            let part: Variable = PART_IN_GUEST.parse().expect("a test makes every study");
            file.mixes.iter_mut().for_each(|mix| mix.env.push(part.clone()));
            file.subjects.iter_mut().for_each(|subject| subject.env.push(part.clone()));
        }
        let blocks = |blocks| StopTable { min_runs: Some(blocks), max_runs: Some(blocks), ..StopTable::default() };
        let in_guest = if size == Size::Small { &IN_SMALL_GUEST[..] } else { &IN_GUEST };
        match place {
            Place::Here if size == Size::Small => StudyFile { stop: blocks(SMALL_BLOCKS), ..file },
            Place::Here => file,
            Place::Vm => StudyFile {
                on: Some(Site::Vm(GuestMachine {
                    topology: GUEST_TOPOLOGY.parse().expect("a test makes every study"),
                    misses: None,
                })),
                misses: Some(GUEST_MACHINE.into()),
                sched: in_guest.iter().map(|scheduling| (*scheduling).to_owned()).collect(),
                stop: blocks(PLAYS),
                // Each boot begins with a run of each workload that doesn't count.
                warmup_blocks: Some(0),
                ..file
            },
        }
    }

    /// The journal of that study in `folder`.
    pub fn journal(&self, place: Place, size: Size, folder: &Path) -> PathBuf {
        let of = if place == Place::Vm { ".vm" } else { "" };
        let size = if size == Size::Small { ".small" } else { "" };
        folder.join(format!("{}{of}{size}.stayput", self.stem))
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
    /// What jobs did that shared CPUs in space.
    pub(super) space: LiveSpace,
    /// What its applications were seen to do.
    pub(super) profiles: LiveProfiles,
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

    /// Adds what became of the jobs of one of the report's mixes among which CPUs were shared out.
    pub fn add_space(&mut self, mix: &'static str, results: share::Results) {
        self.space.add(mix, results);
    }

    /// Sets what its applications were seen to do.
    pub fn set_profiles(&mut self, profiles: LiveProfiles) {
        self.profiles = profiles;
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
            let part_said = (place == Place::Vm).then(|| PART_SAID.to_owned());
            Some(LiveStudy {
                subjects: named.filter(|name| self.measured.contains_key(&(place, *name))).map(str::to_owned).collect(),
                elsewhere: elsewhere(&first.plan.plan.site),
                cpu_model: first.host.cpu_model.clone(),
                kernel: first.host.kernel.clone(),
                trials: ours().map(|(_, (record, _))| record.trials.len()).sum(),
                kept_in: format!("journals of the folder {}", self.folder.display()),
                ending: match () {
                    () if endings().any(|ending| ending.is_none()) => None,
                    () if endings().all(|ending| ending == Some(Ending::Finished)) => Some(Ending::Finished),
                    () => Some(Ending::BudgetSpent),
                },
                departures: departures.into_iter().cloned().chain(part_said).collect(),
            })
        };
        LiveStudies {
            studies: [Place::Here, Place::Vm]
                .into_iter()
                .filter_map(of_place)
                .chain(self.space.study(&self.folder))
                .chain(self.profiles.study(&self.folder))
                .collect(),
            left_out: self.left_out.clone(),
        }
    }

    /// All that was measured of the workloads, as numbers.
    pub(super) fn numbers(&self) -> LiveNumbers {
        let mut numbers = LiveNumbers::default();
        for ((place, name), (record, analysis)) in &self.measured {
            numbers.add(*place, name, record, analysis);
        }
        numbers
    }

    /// By how many percent runs of a workload under `scheduling` miss more or less than under `reference` in the virtual machine, from
    /// pairs of the same block; `among` such intervals hold at once. None where that wasn't measured often enough.
    pub(super) fn misses_against(
        &self,
        workload: &str,
        scheduling: &str,
        reference: &str,
        among: usize,
    ) -> Option<Estimated> {
        let (_, (record, _)) =
            self.measured.iter().find(|((place, name), _)| (*place, *name) == (Place::Vm, workload))?;
        let of = |scheduling| {
            let trials = good_trials(record, workload, scheduling)?;
            let misses = |trial: &Trial| trial.values().find(|(name, _)| *name == ALL_MISSES).map(|(_, value)| value);
            Some(trials.filter_map(|trial| Some((trial.block, misses(trial)?))).collect::<BTreeMap<u32, f64>>())
        };
        paired_change(&of(reference)?, &of(scheduling)?, record.plan.plan.seed, among)
    }
}

/// Where studies at `site` ran, within a sentence; none where that is this machine.
pub(super) fn elsewhere(site: &Site) -> Option<String> {
    match site {
        Site::Here => None,
        Site::Vm(GuestMachine { topology, misses: Some(machine) }) => {
            Some(format!("in vm:{topology} with the caches of {machine}"))
        }
        Site::Vm(GuestMachine { topology, misses: None }) => Some(format!("in vm:{topology}")),
        Site::Slurm(site) => Some(format!("on nodes of {site}, which are what is called this machine")),
    }
}

/// Those runs of a workload under a scheduling that count; none where it wasn't to be run under that.
pub(super) fn good_trials<'a>(
    record: &'a Record<Comparison>,
    workload: &'a str,
    scheduling: &str,
) -> Option<impl Iterator<Item = &'a Trial>> {
    let treatments = &record.plan.plan.treatments;
    let treatment = treatments.iter().find(|it| it.conditions.scheduling.to_string() == scheduling)?;
    let counts = |trial: &&Trial| !trial.warmup && trial.status == Status::Ok;
    let is_its = move |trial: &&Trial| trial.subject == workload && trial.placement == treatment.name;
    Some(record.trials.iter().filter(counts).filter(is_its))
}

/// By how many percent numbers are more or less than those of the same block of the reference, as [`stats::paired_ratio`] has it.
pub(super) fn paired_change(
    reference: &BTreeMap<u32, f64>,
    other: &BTreeMap<u32, f64>,
    seed: u64,
    among: usize,
) -> Option<Estimated> {
    let pair = |(block, treatment_s): (&u32, &f64)| {
        Some(Pair { reference_s: *reference.get(block)?, treatment_s: *treatment_s })
    };
    let pairs: Vec<Pair> = other.iter().filter_map(pair).collect();
    let ratio = stats::paired_ratio(&pairs, seed)?.one_of(among);
    // Ratios are of the reference over it.
    let percent = |ratio: f64| 100.0 * (ratio.recip() - 1.0);
    let (low, high) = (percent(ratio.high()), percent(ratio.low()));
    Some(Estimated { value: percent(ratio.ratio()), low: Some(low), high: Some(high) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live_claims::judge;
    use crate::live_numbers::TIME;
    use study::Treatment;
    use study::engine::Turn;
    use study::{HostFacts, Plan, StopRule, Subject};

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
            let here = workload.study_file(Place::Here, Size::Full);
            let name = here.mixes.first().and_then(|mix| mix.name.clone());
            let name = name.or_else(|| here.subjects.first().and_then(|subject| subject.name.clone()));
            assert_eq!(name.as_deref(), Some(workload.name));
            assert!(here.sched.iter().eq(["default", ATTACHED, LONG_SLICE]), "{:?}", here.sched);
            let small = workload.study_file(Place::Vm, Size::Small);
            assert!(small.sched.iter().all(|name| IN_GUEST.contains(&name.as_str())) && small.sched[0] == IN_GUEST[0]);
            let guest = workload.study_file(Place::Vm, Size::Full);
            assert_eq!(guest.site().unwrap().to_string(), "vm:1x4");
            let (mut mixes, mut subjects) = (guest.mixes, guest.subjects);
            let envs =
                mixes.iter_mut().map(|mix| &mut mix.env).chain(subjects.iter_mut().map(|subject| &mut subject.env));
            envs.for_each(|env| assert_eq!(env.pop().map(String::from).as_deref(), Some(PART_IN_GUEST)));
            assert_eq!((mixes, subjects), (here.mixes, here.subjects), "the same programs");
        }
        let simulated = sim::workload_file::REPORT_WORKLOADS.iter().map(|(name, _)| *name);
        assert!(simulated.eq(LIVE_WORKLOADS.map(|workload| workload.name)));
    }

    #[test]
    fn changes_are_of_what_runs_take_and_judge_what_the_report_claims() {
        let mut live = LiveWorkloads::new(Path::new("folder"));
        assert_eq!(judge("attached", &live.numbers()), None, "nothing was measured");
        live.add(&LIVE_WORKLOADS[0], Place::Here, record([1.0, 1.25, 0.8]));
        let numbers = live.numbers();
        let change = |scheduling| numbers.change(Place::Here, "Matrix+Matrix", scheduling, TIME).unwrap();
        for (scheduling, percent) in [(ATTACHED, 25.0), (LONG_SLICE, -20.0)] {
            let change = change(scheduling);
            assert!((change.value - percent).abs() < 1e-6, "{scheduling}: {change:?}");
            assert!(change.low.unwrap() <= change.value && change.value <= change.high.unwrap(), "{change:?}");
        }
        assert_eq!(numbers.change(Place::Vm, "Matrix+Matrix", "light", ALL_MISSES), None);
        assert_eq!(numbers.change(Place::Here, "Oracle", ATTACHED, TIME), None);
        // Of seven workloads one was measured.
        let attached = judge("attached", &numbers).unwrap();
        assert_eq!(attached.verdict, crate::verdict::Verdict::Undecidable, "{attached:?}");
        assert_eq!(judge("scientific-misses", &numbers), None, "it needs the virtual machine");
        assert_eq!(judge("thresholds", &numbers), None);
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
        assert_eq!(live.numbers().change(Place::Here, "Matrix+Matrix", ATTACHED, TIME), None);
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
