//! What a user asks to be studied, by flags or by a study file, and the plan that it comes to.

use crate::attached_runner::Running;
use crate::binding::Binding;
use crate::bounds::repeated;
use crate::cache_model::{self, TRIALS_OF_A_BOOT};
use crate::candidates::{self, Among};
use crate::comparison::{Comparison, StopRule};
use crate::departures;
use crate::factors::{self, Factors};
use crate::input::InputFacts;
use crate::kind::Kind;
use crate::list;
use crate::max_loss::MaxLoss;
use crate::metric::primary_and_others;
use crate::mix::{Job, Mix};
use crate::mix_text::{self, JobText};
use crate::model_file::ModelFile;
use crate::plan::{Alone, Plan, PlanError, Subject, Treatment, UNBOUND};
use crate::preparation::Preparation;
use crate::race::{Race, RaceStop};
use crate::ranks::RankStart;
use crate::shape::Shape;
use crate::site::{BLOCKS_OF_A_BOOT, Site};
use crate::study_file::{BeyondMachine, MixTable, Share, StopTable, StudyFile, SubjectTable};
use launch::Conditions;
use launch::mpi::Mpi;
use machine::{Machine, Policy, RankError, RankPolicy};
use stats::RaceRule;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

/// Longest that all trials of a study may take where nothing else is asked for.
pub const DEFAULT_BUDGET: Duration = Duration::from_secs(600);
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);
const DEFAULT_CUT_OFF: f64 = 1.5;
const DEFAULT_PLACEMENTS: [&str; 3] = [UNBOUND, "compact", "scatter"];

/// What is to be studied.
#[derive(Debug, Default)]
pub struct Request {
    /// What a study file says, or flags in the place of one.
    pub study: StudyFile,
    /// Problem class of every built-in program, whatever class it is named with.
    pub class: Option<String>,
    /// A model that is studied instead of programs.
    pub model: Option<ModelFile>,
    /// How the best placement is looked for; without it, every placement is compared with the reference.
    pub race: Option<RaceRequest>,
}

/// How the best placement is to be looked for.
#[derive(Clone, Debug, Default)]
pub struct RaceRequest {
    /// Which placements race besides those that are named.
    pub among: Among,
    /// Whether they race in every order of threads that shares differently.
    pub ordered: bool,
    /// Most runs of each subject's race.
    pub runs: Option<u32>,
    /// How good what is called best is to be; without it, the race halves its field.
    pub guarantee: Option<Guarantee>,
    /// A run is stopped when it has taken this many times as long as the best surely takes.
    pub cut_off: Option<f64>,
    /// The loss that is checked at the end.
    pub max_loss: Option<MaxLoss>,
}

/// With which probability the placement called best is how close to the best.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guarantee {
    epsilon: f64,
    delta: f64,
}

impl FromStr for Guarantee {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let shares = text.split_once(',').map(|(epsilon, delta)| (epsilon.parse::<Share>(), delta.parse::<Share>()));
        match shares {
            Some((Ok(epsilon), Ok(delta))) if epsilon.0 < 1.0 && delta.0 < 1.0 => {
                Ok(Self { epsilon: epsilon.0, delta: delta.0 })
            }
            _ => Err(format!("`{text}` is no guarantee; write two shares such as 0.02,0.05 or 2%,5%")),
        }
    }
}

/// Why a name has no built-in program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoBuiltin {
    /// There is none that could be meant: in a sentence.
    #[error("{0}")]
    Unknown(String),
    /// One is meant, but not written rightly: how, in a sentence.
    #[error("{0}")]
    Wrong(String),
}

/// The plan of a study that runs programs, or models of them.
pub enum CellPlan {
    /// Every placement is compared with the reference.
    Comparison(Comparison),
    /// The best placement is looked for.
    Race(Race),
}

/// Any error as what is wrong with the plan that would come of it.
fn wrong(error: impl Display) -> PlanError {
    PlanError(error.to_string())
}

impl Request {
    /// Where its programs run.
    ///
    /// # Errors
    /// When there can be no such study there, in one sentence.
    pub fn site(&self) -> Result<Site, PlanError> {
        let site = self.study.site()?;
        if !site.is_emulated() {
            return Ok(site);
        }
        if self.model.is_some() {
            return Err(wrong("a model runs nowhere; leave out --on"));
        }
        if self.race.is_some() {
            return Err(wrong(
                "a race is decided by times, and those of an emulated machine mean nothing; leave out --on or --best",
            ));
        }
        Ok(site)
    }

    /// The plan on `machine`, where `builtin` gives the subject of a built-in program's name, started as ranks if an MPI is given, and `lacking` says in a sentence why
    /// conditions can't be brought about there.
    ///
    /// # Errors
    /// The first thing that is wrong, in one sentence.
    pub fn plan(
        self,
        machine: &Machine,
        builtin: impl Fn(&str, Option<Mpi>) -> Result<Subject, NoBuiltin>,
        lacking: impl FnMut(&Conditions) -> Result<Option<String>, PlanError>,
    ) -> Result<CellPlan, PlanError> {
        let mut site = self.site()?;
        let Self { mut study, class, model, race } = self;
        let mut departures: Vec<String> = Vec::new();
        if let Some(class) = class {
            departures.extend(replace_classes(&mut study, &class, |name| builtin(name, None).is_ok())?);
        }
        let mut subjects =
            study.subjects.iter().map(|table| subject(table, &builtin)).collect::<Result<Vec<_>, _>>()?;
        let alone = study.mixes.iter().map(|table| mix(table, &builtin, &mut subjects));
        let alone = alone.collect::<Result<Vec<_>, _>>()?;
        for subject in alone.into_iter().flatten() {
            match subjects.iter().find(|other| other.is_program() && other.name == subject.name) {
                None => subjects.push(subject),
                Some(other) if other.preparation.env != subject.preparation.env => {
                    return Err(wrong(format!(
                        "{} has other variables in one mix than elsewhere in this study; give it the same `env` in both, or make \
                         them two studies",
                        subject.name
                    )));
                }
                Some(_) => {}
            }
        }
        subjects.extend(model.iter().map(|model| Subject { name: model.name.clone(), ..Subject::default() }));
        if subjects.is_empty() {
            return Err(wrong(
                "nothing to study: name a built-in such as npb:cg.W, a study file, a program after --, or several with --mix",
            ));
        }
        if let Some(subject) = subjects.iter().find(|subject| !subject.is_timed())
            && race.as_ref().is_some_and(|race| race.cut_off.is_some())
        {
            let metric = &subject.metric.name;
            return Err(wrong(format!(
                "runs that are compared by `{metric}` can't be cut off, since how long they take says nothing of it; leave out --cut-off, or \
                 add --primary time"
            )));
        }
        let usable = machine.usable_cpus().len() as u32;
        let mut threads = list::shapes(&study.threads, usable)?;
        if study.threads.is_empty() && subjects.iter().any(|subject| subject.ranks.is_some()) {
            return Err(wrong(format!(
                "say which ranks x threads are compared, as in -n {}; --mpi starts as many ranks as that says",
                shapes_of_machine(usable)
            )));
        }
        let names_ranks = |name: &&String| name.parse::<Policy>().is_err() && name.parse::<RankPolicy>().is_ok();
        if let Some(name) = list::placement_names(&study.placements).iter().find(names_ranks)
            && let Some(subject) = subjects.iter().find(|subject| subject.ranks.is_none())
        {
            return Err(wrong(format!(
                "`{name}` says where ranks go, and {} has none; add --mpi openmpi, mpich or srun, and -n with ranks x threads such as 2x4",
                subject.name
            )));
        }
        if study.beyond_machine == BeyondMachine::LeaveOut {
            let too_many: Vec<Shape> = threads.extract_if(.., |shape| shape.total() > usable).collect();
            if threads.is_empty() {
                return Err(wrong(format!(
                    "this machine has {}, too few for any thread count of the study; give others with -n",
                    departures::count(usable, "usable CPU")
                )));
            }
            departures.extend(departures::left_out(&too_many, usable));
        }
        let factors = study.levels().factors()?;
        if model.is_some() && !study.levels().is_empty() {
            return Err(wrong(
                "a model has times of places only; leave out --memory, --huge-pages, --sched, --beside and --treatment",
            ));
        }
        let mut named = list::placement_names(&study.placements);
        if named.is_empty() && (factors.vary() || study.compares_commands) {
            named.push(UNBOUND.to_owned());
        }
        let (mut treatments, race_stop) = match race {
            Some(race) => {
                race.field(named, &factors, &threads, machine).map(|(treatments, stop)| (treatments, Some(stop)))?
            }
            None => (treatments(named, &factors, &threads, machine).map_err(wrong)?, None),
        };
        if model.is_none() {
            departures.extend(without_lacking(&mut treatments, study.leave_out, lacking)?);
        }
        if study.paper.is_some() {
            departures.extend(departures::placements(&threads, &treatments, machine));
        }
        // A model's machine needs no warming, and its clock no budget.
        let (warmup_blocks, budget) = if model.is_some() { (0, None) } else { (1, Some(DEFAULT_BUDGET)) };
        for mix in subjects.iter_mut().filter_map(|subject| subject.mix.as_mut()) {
            mix.place(&treatments, &threads, machine).map_err(wrong)?;
        }
        for server in subjects.iter_mut().filter_map(|subject| subject.server.as_mut()) {
            if server.load_place != UNBOUND {
                server.load_placements =
                    factors::placed(&server.load_place, &threads, machine).map_err(wrong)?.placements;
            }
        }
        for running in subjects.iter_mut().filter_map(|subject| subject.running.as_mut()) {
            if running.load_place != UNBOUND {
                running.load_placements =
                    factors::placed(&running.load_place, &threads, machine).map_err(wrong)?.placements;
            }
        }
        let is_bound_running =
            |subject: &&Subject| subject.running.is_some() || subject.server.as_ref().is_some_and(|server| server.keep);
        if let Some(subject) = subjects.iter().find(is_bound_running) {
            let plain = Conditions::default();
            let is_place_alone =
                |treatment: &&Treatment| Conditions { company: None, ..treatment.conditions.clone() } == plain;
            if let Some(treatment) = treatments.iter().find(|treatment| !is_place_alone(treatment)) {
                let what = if subject.running.is_some() { "what runs already" } else { "a server that is kept" };
                return Err(wrong(format!(
                    "{}: {what} has its memory and its scheduler; only its place and its company can vary",
                    treatment.name
                )));
            }
        }
        let mut warmup_blocks = study.warmup_blocks.unwrap_or(warmup_blocks);
        if let Site::Slurm(site) = &mut site {
            // Each node has its own files to read first, and each block may have another node.
            site.warmup_runs = std::mem::take(&mut warmup_blocks);
        }
        let mut plan = Plan {
            subjects,
            treatments,
            threads,
            warmup_blocks,
            timeout: study.timeout.map_or(DEFAULT_TIMEOUT, |span| span.0),
            budget: study.budget.map(|span| span.0).or(budget),
            seed: study.seed.unwrap_or(1),
            site,
            paper: study.paper,
            departures,
            redact: Vec::new(),
            extensions: Vec::new(),
        };
        if plan.site.slurm().is_some() && plan.subjects.iter().any(|subject| subject.running.is_some()) {
            return Err(wrong(
                "what runs already runs here, and not where Slurm puts a block; leave out --pid, --cgroup or --on",
            ));
        }
        if plan.site.guest().is_some() {
            if let Some(metric) = plan.subjects.iter().flat_map(Subject::all_metrics).find(|metric| metric.is_written())
            {
                return Err(wrong(format!(
                    "`{}` of an emulated machine means nothing; leave out --metric or --on",
                    metric.name
                )));
            }
            if plan
                .subjects
                .iter()
                .any(|subject| subject.preparation.setup.is_some() || subject.preparation.cleanup.is_some())
            {
                return Err(wrong(
                    "an emulated machine is started and lost with all in it; leave out --setup, --cleanup or --on",
                ));
            }
            if plan.subjects.iter().any(|subject| subject.server.is_some() || subject.running.is_some()) {
                return Err(wrong(
                    "servers are studied here, and not in an emulated machine; leave out --server or --on",
                ));
            }
            // They are made of times, which mean nothing there.
            plan.subjects.iter_mut().for_each(|subject| subject.metrics.clear());
        }
        if plan.site.guest().is_some_and(|guest| guest.misses.is_some()) {
            // Those of a mix are counted over all of its jobs.
            plan.subjects.iter_mut().for_each(|subject| subject.metrics.extend(cache_model::metrics(machine)));
            let (cells, most) = (plan.cells().count() as u32, TRIALS_OF_A_BOOT / BLOCKS_OF_A_BOOT);
            if cells > most {
                return Err(wrong(format!("with --misses a study has {most} combinations at most, and not {cells}")));
            }
        }
        if study.compares_commands && race_stop.is_none() {
            if let Some(name) = repeated(plan.subjects.iter().map(|subject| subject.name.as_str())) {
                return Err(wrong(format!("two commands are called `{name}`; give them names by --command-name")));
            }
            plan.compare_commands();
        }
        plan.merge_same_placements();
        if let Some(model) = model {
            plan.subjects[0].model = Some(model.for_plan(&plan, machine).map_err(wrong)?);
        }
        Ok(match race_stop {
            Some(stop) => CellPlan::Race(checked(Race { plan, stop })?),
            None => CellPlan::Comparison(checked(Comparison { plan, stop: stop_rule(study.stop)? })?),
        })
    }
}

impl RaceRequest {
    /// The treatments that race, `named` ones among them, and how.
    fn field(
        self,
        mut named: Vec<String>,
        factors: &Factors,
        threads: &[Shape],
        machine: &Machine,
    ) -> Result<(Vec<Treatment>, RaceStop), PlanError> {
        let kept = self.max_loss.map(|max| {
            let first = || named.iter().find(|name| *name != UNBOUND).map_or(UNBOUND, String::as_str).to_owned();
            max.placement.unwrap_or_else(first)
        });
        if kept.is_some() && threads.len() > 1 {
            return Err(wrong("--max-loss compares at one thread count; give one with -n"));
        }
        named.extend(kept.clone());
        let places = candidates::treatments(self.among, self.ordered, &named, threads, machine).map_err(wrong)?;
        let treatments = factors.treatments(&places, threads, machine).map_err(wrong)?;
        // A placement that another is run for has no cell of its own.
        let run_as = |name: String| {
            let treatment = treatments.iter().find(|treatment| treatment.name == name);
            treatment.and_then(|treatment| treatment.same_placement(threads[0])).map_or(name, str::to_owned)
        };
        let kept = kept.map(run_as);
        let cells: usize = treatments
            .iter()
            .map(|t| if t.is_free() { threads.len() } else { t.placements.iter().flatten().count() })
            .sum();
        let search = match self.guarantee {
            Some(Guarantee { epsilon, delta }) => {
                RaceRule::Guarantee { epsilon, delta, max_runs: self.runs.unwrap_or(100 * cells as u32 + 1000) }
            }
            None => RaceRule::Halving { runs: self.runs.unwrap_or(2 * cells as u32 + 40) },
        };
        Ok((treatments, RaceStop { search, cut_off: self.cut_off.unwrap_or(DEFAULT_CUT_OFF), kept }))
    }
}

/// Divisions of so many CPUs into ranks and threads, as an example: `1x8,2x4,4x2,8x1`.
fn shapes_of_machine(cpus: u32) -> String {
    let ranks = (1..=cpus).filter(|ranks| cpus.is_multiple_of(*ranks));
    let all: Vec<String> = ranks.map(|ranks| format!("{ranks}x{}", cpus / ranks)).collect();
    // Many CPUs have many divisors; those of the middle are what people run.
    let middle = all.len().saturating_sub(4) / 2;
    all[middle..].iter().take(4).map(String::as_str).collect::<Vec<_>>().join(",")
}

fn checked<K: Kind>(study: K) -> Result<K, PlanError> {
    study.check()?;
    Ok(study)
}

/// Gives every built-in program of a study, those of its mixes among them, the class `class`, and keeps one of the subjects that are
/// then the same. Gives the sentence that says so.
fn replace_classes(
    study: &mut StudyFile,
    class: &str,
    is_builtin: impl Fn(&str) -> bool,
) -> Result<Option<String>, PlanError> {
    let mut replaced: Vec<String> = Vec::new();
    let mut of_class = |name: &str| {
        let (program, old) = name.rsplit_once('.').unwrap_or((name, class));
        if old != class && !replaced.iter().any(|other| other == old) {
            replaced.push(old.to_owned());
        }
        format!("{program}.{class}")
    };
    let mut are_replaced = false;
    for name in study.subjects.iter_mut().filter_map(|table| table.builtin.as_mut()) {
        (*name, are_replaced) = (of_class(name), true);
    }
    for table in &mut study.mixes {
        for job in mix_text::jobs(&table.text())? {
            let [name] = &job.words[..] else { continue };
            if is_builtin(name) {
                let new = of_class(name);
                table.jobs.iter_mut().for_each(|job| *job = with_word(job, name, &new));
                are_replaced = true;
            }
        }
    }
    if !are_replaced {
        return Err(wrong(format!("--class {class} is for built-in programs, and there is none here")));
    }
    let tables = &mut study.subjects;
    let (mut names, before) = (BTreeSet::new(), tables.len());
    tables.retain(|table| match &table.builtin {
        Some(name) if table.name.is_none() => names.insert(name.clone()),
        _ => true,
    });
    let once = match before - tables.len() {
        0 => String::new(),
        _ => format!("; what differs in nothing else is run once, so that {before} subjects become {}", tables.len()),
    };
    let sentence = || format!("Class {class} takes the place of {}{once}.", departures::list(&replaced));
    Ok((!replaced.is_empty()).then(sentence))
}

/// `text` with `new` where `old` is a word, or one with a number of jobs after it.
fn with_word(text: &str, old: &str, new: &str) -> String {
    let is_it = |word: &str| word.split('*').next() == Some(old);
    let replaced = |word: &str| if is_it(word) { word.replacen(old, new, 1) } else { word.to_owned() };
    text.split(' ').map(replaced).collect::<Vec<_>>().join(" ")
}

fn stop_rule(table: StopTable) -> Result<StopRule, PlanError> {
    let (least, most) = (table.min_runs, table.max_runs);
    table.check().map_err(|(_, what)| wrong(what))?;
    let most = most.unwrap_or(stats::DEFAULT_MAX_BLOCKS.max(least.unwrap_or(0)));
    Ok(match table.relative_sd {
        Some(share) => StopRule::RelativeSd {
            relative_sd: share.0,
            min_runs: least.unwrap_or(stats::PAPERS_MIN_RUNS).min(most),
            max_runs: most,
        },
        None => StopRule::Paired {
            width: table.width.map_or(stats::DEFAULT_WIDTH, |share| share.0),
            min_blocks: least.unwrap_or(stats::DEFAULT_MIN_BLOCKS).min(most),
            max_blocks: most,
        },
    })
}

/// Adds the mix of `table` to `subjects`; gives the programs of its jobs as subjects that are run by themselves.
fn mix(
    table: &MixTable,
    builtin: &impl Fn(&str, Option<Mpi>) -> Result<Subject, NoBuiltin>,
    subjects: &mut Vec<Subject>,
) -> Result<Vec<Subject>, PlanError> {
    let text = table.text();
    let (mut mix, mut alone) = (Mix::default(), Vec::<Subject>::new());
    let texts = mix_text::jobs(&text)?;
    for text in &texts {
        let command = || Subject { name: text.words.join(" "), argv: text.words.clone(), ..Subject::default() };
        let program = match &text.words[..] {
            [name] => builtin(name, None).or_else(|error| match error {
                NoBuiltin::Unknown(_) => Ok(command()),
                NoBuiltin::Wrong(what) => Err(wrong(what)),
            })?,
            _ => command(),
        };
        let name = match text.threads {
            Some(threads) => format!("{}, {}", program.name, departures::count(threads, "thread")),
            None => program.name.clone(),
        };
        let called = text.name.clone().unwrap_or_else(|| program.name.clone());
        if alone.iter().all(|other| other.name != name) {
            let alone_as = Some(Alone { threads: text.threads });
            let preparation = Preparation { env: table.env.clone(), ..Preparation::default() };
            alone.push(Subject { name: name.clone(), alone: alone_as, preparation, ..program });
        }
        let JobText { start, repeat, threads, .. } = *text;
        let job = Job { name: called, subject: name, start, repeat, threads, own: text.own.clone() };
        mix.jobs.extend(std::iter::repeat_n(job, text.count));
    }
    number_alike(&mut mix.jobs);
    let name = table.name.clone().unwrap_or_else(|| text.split_whitespace().collect::<Vec<_>>().join(" "));
    subjects.push(Subject {
        name,
        metric: Mix::metric(),
        metrics: Mix::metrics(),
        mix: Some(mix),
        ..Subject::default()
    });
    Ok(alone)
}

/// Gives each of several jobs of the same name a number.
fn number_alike(jobs: &mut [Job]) {
    let names: Vec<String> = jobs.iter().map(|job| job.name.clone()).collect();
    for (position, job) in jobs.iter_mut().enumerate() {
        let alike = |names: &[String]| names.iter().filter(|name| **name == job.name).count();
        let (all, before) = (alike(&names), alike(&names[..position]));
        if all > 1 {
            job.name = format!("{} {}", job.name, before + 1);
        }
    }
}

fn subject(
    table: &SubjectTable,
    builtin: &impl Fn(&str, Option<Mpi>) -> Result<Subject, NoBuiltin>,
) -> Result<Subject, PlanError> {
    let mut subject = match (&table.builtin, &table.command) {
        (Some(name), _) => builtin(name, table.mpi).map_err(wrong)?,
        (None, Some(command)) => Subject {
            name: command.join(" "),
            argv: command.clone(),
            input: table.input.clone().map(InputFacts::unread),
            ..Subject::default()
        },
        (None, None) => return Err(wrong("a subject needs `builtin` or `command`")),
    };
    if let Some(server) = &table.server {
        // What is placed stands first.
        subject.name = format!("{} under {}", server.join(" "), subject.name);
    }
    if let Some(target) = &table.target {
        let program = target.program();
        // A file may have several names, of which links are resolved: redis-server's is redis-check-rdb.
        let comm = match target {
            launch::Target::Process { pid, .. } => std::fs::read_to_string(format!("/proc/{pid}/comm")).ok(),
            launch::Target::Group(_) => None,
        };
        let called = comm.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
        let called = called.or_else(|| Some(program.file_name()?.to_string_lossy().into_owned()));
        let called = called.unwrap_or_else(|| target.to_string());
        subject.name = format!("running {called} under {}", subject.name);
        let load_place = table.load_place.clone().unwrap_or_else(|| UNBOUND.into());
        subject.running = Some(Running { program, load_place, load_placements: Vec::new() });
        subject.unkept.target = Some(target.clone());
    }
    if let Some(name) = &table.name {
        subject.name.clone_from(name);
    }
    subject.time_regex = table.time_regex.clone().or(subject.time_regex);
    subject.verified_regex = table.verified_regex.clone().or(subject.verified_regex);
    subject.server = table.server()?;
    subject.preparation = table.preparation();
    let args = || table.mpi_args.clone().unwrap_or_default();
    subject.ranks = table.mpi.map(|mpi| RankStart { mpi, args: args(), bind_helpers: table.bind_mpi_helpers });
    subject.binding = Binding::new(table.unit, table.skip.clone(), table.observe).with_slots(table.slots.clone());
    (subject.metric, subject.metrics) = primary_and_others(table.metrics.clone(), table.primary.as_deref())?;
    Ok(subject)
}

/// Every place in every combination of conditions, then named treatments; the reference comes first.
fn treatments(
    mut names: Vec<String>,
    factors: &Factors,
    threads: &[Shape],
    machine: &Machine,
) -> Result<Vec<Treatment>, RankError> {
    if names.is_empty() {
        // Named treatments are compared with one another; a single one with what is there without it.
        names = match factors.named.len() {
            0 => DEFAULT_PLACEMENTS.map(str::to_owned).to_vec(),
            1 => vec![UNBOUND.to_owned()],
            _ => Vec::new(),
        };
    }
    let mut places: Vec<Treatment> = Vec::new();
    for name in names {
        if places.iter().any(|treatment| treatment.name == name) {
            continue;
        }
        let at = if name == UNBOUND { 0 } else { places.len() };
        places.insert(at, factors::placed(&name, threads, machine)?);
    }
    factors.treatments(&places, threads, machine)
}

/// Takes those out of `treatments` that this machine or its kernel lacks, where they may be left out; gives the sentences that say so.
fn without_lacking(
    treatments: &mut Vec<Treatment>,
    leave_out: bool,
    mut lacking: impl FnMut(&Conditions) -> Result<Option<String>, PlanError>,
) -> Result<Vec<String>, PlanError> {
    let (mut kept, mut sentences) = (Vec::new(), Vec::new());
    for treatment in treatments.drain(..) {
        let Some(what) = lacking(&treatment.conditions)? else {
            kept.push(treatment);
            continue;
        };
        let name = treatment.name;
        if !leave_out {
            return Err(wrong(format!("{name}: {what}; with --leave-out the study goes on without it")));
        }
        sentences.push(format!("{name} is left out: {what}."));
    }
    *treatments = kept;
    if treatments.is_empty() {
        return Err(wrong("no treatment is left to study"));
    }
    Ok(sentences)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::factors::Levels;

    #[test]
    fn a_class_replaces_those_of_built_in_programs_and_only_theirs() {
        let builtin = |name: &str| SubjectTable { builtin: Some(name.into()), ..SubjectTable::default() };
        let command = SubjectTable { command: Some(vec!["./app.A".into()]), ..SubjectTable::default() };
        let mut subjects = ["npb:bt.A", "npb:cg.A", "npb:bt.C", "npb:cg.W", "npb:ep"].map(builtin).to_vec();
        subjects.push(command.clone());
        let jobs = ["[at=2s] npb:cg.A*2 + ./app.A".into(), "npb:ft.S".into(), "./npb:ft.S x".into()];
        let mixes = vec![MixTable { name: None, jobs: jobs.into(), env: Vec::new() }];
        let mut study = StudyFile { subjects, mixes, ..StudyFile::default() };
        let to_w = |study: &mut StudyFile| replace_classes(study, "W", |name| name.starts_with("npb:"));
        assert_eq!(
            to_w(&mut study).unwrap().unwrap(),
            "Class W takes the place of A, C and S; what differs in nothing else is run once, so that 6 subjects become 4."
        );
        let mut expected = ["npb:bt.W", "npb:cg.W", "npb:ep.W"].map(builtin).to_vec();
        expected.push(command.clone());
        assert_eq!(study.subjects, expected);
        assert_eq!(study.mixes[0].jobs, ["[at=2s] npb:cg.W*2 + ./app.A", "npb:ft.W", "./npb:ft.S x"]);
        assert_eq!(to_w(&mut study).unwrap(), None, "nothing is replaced");
        let mut commands = StudyFile { subjects: vec![command], ..StudyFile::default() };
        let error = to_w(&mut commands).unwrap_err().to_string();
        assert_eq!(error, "--class W is for built-in programs, and there is none here");
    }

    #[test]
    fn variables_of_a_mix_are_those_of_each_of_its_jobs_and_of_nobody_elses() {
        let machine = Machine::named("package:1 core:2 pu:1").unwrap();
        let table = |jobs: &str, env: &[&str]| MixTable {
            jobs: vec![jobs.into()],
            env: env.iter().map(|variable| variable.parse().unwrap()).collect(),
            ..MixTable::default()
        };
        let plan = |mixes: Vec<MixTable>| {
            let request = Request { study: StudyFile { mixes, ..StudyFile::default() }, ..Request::default() };
            request.plan(&machine, |name, _| Err(NoBuiltin::Unknown(name.into())), |_| Ok(None))
        };
        let study = match plan(vec![table("./a + ./b", &["X=1"]), table("./c + ./d", &[])]) {
            Ok(CellPlan::Comparison(study)) => study,
            Ok(CellPlan::Race(_)) => panic!("it is no race"),
            Err(error) => panic!("{error}"),
        };
        let env_of = |name: &str| {
            let subject = study.plan.subjects.iter().find(|subject| subject.name == name).unwrap();
            subject.preparation.variables()
        };
        let x = vec![("X".into(), "1".into())];
        assert_eq!([env_of("./a"), env_of("./b"), env_of("./c")], [x.clone(), x, Vec::new()]);
        let both = vec![table("./a + ./b", &["X=1"]), table("./b + ./c", &["X=2"])];
        let error = plan(both).err().unwrap().to_string();
        assert!(error.starts_with("./b has other variables in one mix than elsewhere in this study"), "{error}");
    }

    #[test]
    fn the_loss_of_a_placement_that_another_is_run_for_is_that_ones() {
        let machine = Machine::named("package:1 core:2 pu:1").unwrap();
        let race =
            RaceRequest { among: Among::Named, max_loss: Some("scatter=5".parse().unwrap()), ..RaceRequest::default() };
        let factors = Levels::default().factors().unwrap();
        let (treatments, stop) = race.field(vec!["compact".into()], &factors, &[2.into()], &machine).unwrap();
        assert_eq!(stop.kept.as_deref(), Some("compact"), "two threads fill the machine either way");
        let names: Vec<&str> = treatments.iter().map(|treatment| treatment.name.as_str()).collect();
        assert_eq!(names, [UNBOUND, "compact", "scatter"]);
        assert_eq!(treatments[2].same_placement(2.into()), Some("compact"));
    }

    #[test]
    fn flags_beat_the_study_file_and_defaults_fill_the_rest() {
        let file = StudyFile {
            threads: vec!["1".into()],
            placements: vec!["compact".into()],
            stop: StopTable { relative_sd: Some(Share(0.05)), max_runs: Some(9), ..StopTable::default() },
            seed: Some(7),
            subjects: vec![SubjectTable { command: Some(vec!["./app".into()]), ..SubjectTable::default() }],
            ..StudyFile::default()
        };
        let flags = StudyFile {
            threads: vec!["2".into()],
            stop: StopTable { width: Some(Share(0.01)), ..StopTable::default() },
            ..StudyFile::default()
        };
        let machine = Machine::named("xeon-e5620").unwrap();
        let request = Request { study: file.with(flags), ..Request::default() };
        let CellPlan::Comparison(study) =
            request.plan(&machine, |_, _| Err(NoBuiltin::Unknown("none".into())), |_| Ok(None)).unwrap()
        else {
            panic!("no race is asked for");
        };
        let rule = StopRule::Paired { width: 0.01, min_blocks: stats::DEFAULT_MIN_BLOCKS.min(9), max_blocks: 9 };
        assert_eq!((study.plan.threads, study.plan.seed, study.stop), (vec![2.into()], 7, rule));
        assert_eq!(study.plan.treatments[0].name, "compact");
        assert_eq!((study.plan.budget, study.plan.warmup_blocks), (Some(DEFAULT_BUDGET), 1));
    }
}
