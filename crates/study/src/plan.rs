//! The plan of a study: what is run, where, how often, and when it is enough.

use crate::attached_runner::Running;
use crate::binding::{Binding, Unit};
use crate::bounds::{MOST_JOBS, check_count, compiled, repeated};
use crate::extension::Extension;
use crate::identity::{Change, Identity};
use crate::input::InputFacts;
use crate::metric::{Clock, Metric};
use crate::mix::Mix;
use crate::model::SubjectModel;
use crate::preparation::Preparation;
use crate::ranks::RankStart;
use crate::redaction::{Redaction, SecretsHash, Unkept, without};
use crate::server::{Server, signal_number};
use crate::shape::Shape;
use crate::site::Site;
pub use crate::treatment::{SamePlacement, Treatment, UNBOUND};
use crate::trial::Trial;
use crate::variant::Variant;
use launch::Conditions;
use launch::mpi::Mpi;
use machine::{CpuSet, Placement};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

/// What is run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Subject {
    /// How the report calls it: `npb:cg.W`, or the command line.
    pub name: String,
    /// Program and arguments, as they are kept: without secret values.
    pub argv: Vec<String>,
    /// Of the values that were left out, where there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets: Option<SecretsHash>,
    /// What is run of it.
    #[serde(skip)]
    pub unkept: Unkept,
    /// What its runs are compared by.
    #[serde(default)]
    pub metric: Metric,
    /// A regular expression whose first group is the program's own time in seconds; else wall time counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_regex: Option<String>,
    /// A regular expression that the output of a right result matches; else the exit code alone decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified_regex: Option<String>,
    /// How its threads get their places, and how they are noticed.
    #[serde(default, skip_serializing_if = "Binding::is_default")]
    pub binding: Binding,
    /// What a built-in program says of itself: `npb-ep 0.1.0 (gcc 12.2.0)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
    /// What every run reads from its standard input; none is nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<InputFacts>,
    /// What its files were when the study began. Journals used not to keep it, and models have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    /// The most threads for which a built-in program has work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub useful_threads: Option<u64>,
    /// The model that stands in for a program: nothing is run, times are drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<SubjectModel>,
    /// What runs at once, where it is more than one program: each of them is a subject of its own, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mix: Option<Mix>,
    /// Where it is run only by itself, to tell how much slower it is in a mix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone: Option<Alone>,
    /// What else is told of its runs, besides what they are compared by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<Metric>,
    /// What is run around its runs, and with which variables.
    #[serde(default, skip_serializing_if = "Preparation::is_none")]
    pub preparation: Preparation,
    /// The server that its command puts a load on, where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<Server>,
    /// The program that runs already on which its command puts a load, where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<Running>,
    /// How its ranks are started, where it is an MPI program; then every shape of the plan says how many there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks: Option<RankStart>,
    /// Its commands, where several are compared with one another; its own is the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<Variant>,
}

/// A subject that is run under the reference alone, by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alone {
    /// Its own thread count, as it has in the mix; none is that of the cell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
}

/// What stands for the thread count in a command; of a program with ranks, for that of each.
const THREADS_WORD: &str = "{threads}";

/// What stands for the number of ranks in the command of a program that has any.
const RANKS_WORD: &str = "{ranks}";

fn in_block(words: Vec<String>, block: u32) -> Vec<String> {
    words.into_iter().map(|word| word.replace(BLOCK_WORD, &block.to_string())).collect()
}

/// A word of a command, or the name of a file, as it is for a run of that shape in `block`.
pub(crate) fn word_of_run(word: &str, threads: Shape, block: u32) -> String {
    word_of_shape(word, threads).replace(BLOCK_WORD, &block.to_string())
}

/// What a word says of a shape, filled in: the threads, of each rank where there are any, and how many ranks.
fn word_of_shape(word: &str, shape: Shape) -> String {
    let word = word.replace(THREADS_WORD, &shape.threads().to_string());
    shape.ranks().map_or(word.clone(), |ranks| word.replace(RANKS_WORD, &ranks.to_string()))
}

/// What stands for the number of the block in a command, such as a seed of its draws.
const BLOCK_WORD: &str = "{block}";

impl Subject {
    /// Program and arguments with `threads` threads, as they are kept; as in the first block.
    pub fn argv_for(&self, threads: Shape) -> Vec<String> {
        in_block(with_threads(&self.argv, threads), 0)
    }

    /// The command that is run in `block`, with values that aren't kept. All treatments of a block are given the same.
    pub(crate) fn command_in(&self, treatment: &str, threads: Shape, block: u32) -> Vec<String> {
        match self.variant(treatment) {
            None => in_block(self.command_for(threads), block),
            Some(variant) => in_block(with_threads(&variant.argv, threads), block),
        }
    }

    /// The same as it is run, with values that aren't kept.
    pub fn command_for(&self, threads: Shape) -> Vec<String> {
        with_threads(self.unkept.argv.as_ref().unwrap_or(&self.argv), threads)
    }

    /// Leaves out the values that `redaction` hides, of `variables` too; they stay known for as long as this process runs.
    fn redact(&mut self, redaction: &Redaction, variables: &[String]) {
        let (argv, mut values) = redaction.words(&self.argv);
        let is_its_command = self.name == self.argv.join(" ");
        if !values.is_empty() {
            self.unkept.argv = Some(std::mem::replace(&mut self.argv, argv));
        }
        self.name = match is_its_command {
            true => self.argv.join(" "),
            false => without(&redaction.text(&self.name, &mut Vec::new()), &values),
        };
        values.extend_from_slice(variables);
        self.secrets = (!values.is_empty()).then(|| SecretsHash::new(&values));
        self.unkept.values = values;
    }

    /// Leaves out of the names of a mix and its jobs what `kept` does.
    pub(crate) fn redact_mix(&mut self, kept: impl Fn(&str) -> String) {
        if let Some(mix) = &mut self.mix {
            self.name = kept(&self.name);
            mix.jobs.iter_mut().for_each(|job| job.name = kept(&job.name));
        }
    }

    /// Whether it is a program of the user's, and neither a built-in one, nor a model or a mix.
    pub fn is_command(&self) -> bool {
        self.is_program() && self.build.is_none()
    }

    /// Whether it is one program, and neither a model of one nor a mix of several.
    pub fn is_program(&self) -> bool {
        self.model.is_none() && self.mix.is_none()
    }

    /// How many threads its runs in a cell of `threads` are to use; of a mix, each of its jobs without a count of its own.
    pub fn threads_of(&self, threads: Shape) -> Shape {
        self.alone.as_ref().and_then(|alone| alone.threads).map_or(threads, Shape::from)
    }

    /// Program and arguments of what is placed, with `threads` threads, as they are kept: its server's where its command is a load on one.
    pub fn placed_argv(&self, threads: Shape) -> Vec<String> {
        match &self.server {
            Some(server) => in_block(with_threads(&server.argv, threads), 0),
            None => self.argv_for(threads),
        }
    }

    /// The file of the program that runs already, as a command, where there is one.
    fn running_program(&self) -> Option<Vec<String>> {
        let running = self.running.as_ref().filter(|running| running.program.is_file())?;
        Some(vec![running.program.to_string_lossy().into_owned()])
    }

    /// Who takes the time of its runs, or tells what else they are compared by.
    pub fn clock(&self) -> Clock {
        match &self.model {
            Some(_) => Clock::Model,
            None if self.metric.file.is_some() => Clock::File,
            None if self.metric.is_written() || self.time_regex.is_some() => Clock::Program,
            None => Clock::Wall,
        }
    }

    /// What its runs are compared by, and what else is told of them.
    pub fn all_metrics(&self) -> impl Iterator<Item = &Metric> {
        std::iter::once(&self.metric).chain(&self.metrics)
    }

    /// Whether its runs are compared by a time.
    pub fn is_timed(&self) -> bool {
        !self.metric.is_written()
    }

    /// What a run of it is compared by, in the unit of its metric; none where that isn't known.
    pub fn value(&self, trial: &Trial) -> Option<f64> {
        if self.is_timed() {
            return trial.time_s;
        }
        trial.values().find(|(name, _)| *name == self.metric.name).map(|(_, value)| value)
    }

    /// The compiler that a built-in program says it was made by: `gcc 12.2.0`.
    pub fn compiler(&self) -> Option<&str> {
        self.build.as_deref()?.strip_suffix(')')?.rsplit_once('(').map(|(_, compiler)| compiler)
    }
}

fn with_threads(argv: &[String], threads: Shape) -> Vec<String> {
    argv.iter().map(|word| word_of_shape(word, threads)).collect()
}

/// Whether treatment `later` is the very same as `earlier` with so many threads, also for the jobs of `mixes`.
fn is_run_as(mixes: &[&Mix], earlier: &Treatment, later: &Treatment, column: usize, threads: Shape) -> bool {
    let jobs = |mix: &Mix, treatment: &Treatment| mix.placements_of_jobs(&treatment.name, threads);
    earlier.is_run_as(later, column) && mixes.iter().all(|mix| jobs(mix, earlier) == jobs(mix, later))
}

/// One cell of the plan, by positions in its lists: a subject with so many threads under one treatment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cell {
    /// Position in `plan.subjects`.
    pub subject: usize,
    /// Position in `plan.threads`.
    pub threads: usize,
    /// Position in `plan.treatments`.
    pub treatment: usize,
}

/// The cells of a study that runs programs, and how each is run: what comparisons and races have in common.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// What is run.
    pub subjects: Vec<Subject>,
    /// Thread counts, or ranks x threads, in the order of the report's columns.
    pub threads: Vec<Shape>,
    /// Where; the first is the reference of every ratio (`unbound` unless it was left out).
    pub treatments: Vec<Treatment>,
    /// Blocks run first and never counted.
    pub warmup_blocks: u32,
    /// Longest that one trial may take.
    pub timeout: Duration,
    /// Longest that the whole study may take; none is no limit.
    pub budget: Option<Duration>,
    /// Seed of the order of trials and of the bootstrap.
    pub seed: u64,
    /// Where.
    #[serde(default, skip_serializing_if = "Site::is_here")]
    pub site: Site,
    /// The paper whose study this is, by its name in the crate `papers`: the report sets its tables beside ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paper: Option<String>,
    /// Where this isn't what was asked for, and why: sentences, told at the start and in every report.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub departures: Vec<String>,
    /// Patterns of names whose values are left out, besides those that always are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redact: Vec<String>,
    /// What changed while the study was under way, in the order in which it did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<Extension>,
}

impl Cell {
    /// Whether `plan` has such positions.
    pub(crate) fn is_of(self, plan: &Plan) -> bool {
        self.subject < plan.subjects.len()
            && self.threads < plan.threads.len()
            && self.treatment < plan.treatments.len()
    }

    /// Whether `trial` is of this cell.
    pub fn has_trial(self, plan: &Plan, trial: &Trial) -> bool {
        trial.threads == plan.threads[self.threads]
            && trial.placement == plan.treatments[self.treatment].name
            && trial.subject == plan.subjects[self.subject].name
    }
}

/// What is wrong with a plan, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PlanError(pub String);

/// Whether `pattern` is a regular expression.
pub(crate) fn check_regex(pattern: &str) -> Result<(), PlanError> {
    compiled(pattern).map(drop)
}

/// Whether `pattern` is a regular expression that has a group for the seconds.
pub(crate) fn check_time_regex(pattern: &str) -> Result<(), PlanError> {
    if compiled(pattern)?.captures_len() < 2 {
        return Err(PlanError(format!("`{pattern}` has no group; put the seconds in parentheses")));
    }
    Ok(())
}

impl Plan {
    /// Whether it can be carried out: every regular expression compiles, names tell subjects apart, lists aren't empty,
    /// and every treatment has a placement for each thread count or none at all.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), PlanError> {
        let wrong = |what: String| Err(PlanError(what));
        if self.subjects.is_empty() || self.threads.is_empty() || self.treatments.is_empty() {
            return wrong("a study needs at least one subject, one thread count and one placement".into());
        }
        self.check_size()?;
        if let Some(name) = repeated(self.subjects.iter().map(|subject| subject.name.as_str())) {
            return wrong(format!("two subjects are called `{name}`; give one another name"));
        }
        // Races go through what is compared by position.
        if !self.subjects.is_sorted_by_key(|subject| subject.alone.is_some()) || self.compared().next().is_none() {
            return wrong("what is run only by itself comes after what it is compared with".into());
        }
        let (mut times, mut results) = (HashSet::new(), HashSet::new());
        for subject in &self.subjects {
            if subject.is_program() && subject.argv.first().is_none_or(String::is_empty) {
                return wrong(format!("subject `{}` names no program", subject.name));
            }
            if let Some(twice) = repeated(subject.all_metrics().map(|metric| metric.name.as_str())) {
                return wrong(format!("subject `{}` has two metrics that are called `{twice}`", subject.name));
            }
            subject.all_metrics().try_for_each(Metric::check)?;
            subject.preparation.check(&self.redaction())?;
            self.check_variants(subject)?;
            subject.server.as_ref().map_or(Ok(()), |server| self.check_server(server))?;
            if let Some(mix) = &subject.mix {
                self.check_mix(&subject.name, mix)?;
            }
            self.check_ranks(subject)?;
            // Each once: built-in programs share theirs.
            if let Some(pattern) = subject.time_regex.as_deref().filter(|pattern| times.insert(*pattern)) {
                check_time_regex(pattern)?;
            }
            if let Some(pattern) = subject.verified_regex.as_deref().filter(|pattern| results.insert(*pattern)) {
                check_regex(pattern)?;
            }
        }
        for Treatment { name, placements, .. } in &self.treatments {
            if !placements.is_empty() && placements.len() < self.threads.len() {
                return wrong(format!("`{name}` lacks a placement for {} threads", self.threads[placements.len()]));
            }
            if placements.iter().flatten().any(|p| p.slots.is_empty() || p.slots.iter().any(CpuSet::is_empty)) {
                return wrong(format!("`{name}` leaves a thread without a CPU"));
            }
        }
        if let Some(name) = repeated(self.treatments.iter().map(|treatment| treatment.name.as_str())) {
            return wrong(format!("two treatments are called `{name}`"));
        }
        Ok(())
    }

    /// Whether a server can be started and asked to stop, and holds no secret value.
    fn check_server(&self, server: &Server) -> Result<(), PlanError> {
        let redaction = self.redaction();
        let has_secret = !redaction.words(&server.argv).1.is_empty();
        signal_number(&server.stop_signal)?;
        match server.argv.first() {
            None => Err(PlanError("the server names no program".into())),
            Some(name) if name.is_empty() => Err(PlanError("the server names no program".into())),
            Some(_) if has_secret => Err(PlanError(
                "the server's command holds a secret value, and journals keep it as it is run; give the value by a file or a variable".into(),
            )),
            Some(_) => Ok(()),
        }
    }

    /// Whether a subject has ranks where the plan's shapes say how many, and none where they don't; and whether it may have any.
    fn check_ranks(&self, subject: &Subject) -> Result<(), PlanError> {
        let wrong = |what: String| Err(PlanError(what));
        let Some(start) = &subject.ranks else {
            return match self.threads.iter().find(|shape| shape.ranks().is_some()) {
                None => Ok(()),
                Some(shape) => wrong(format!(
                    "{shape} is ranks x threads, and nothing says what starts the ranks of `{}`; add --mpi openmpi, mpich or srun",
                    subject.name
                )),
            };
        };
        if let Some(shape) = self.threads.iter().find(|shape| shape.ranks().is_none()) {
            return wrong(format!(
                "--mpi {} starts ranks, and {shape} is a number of threads; write ranks x threads: {shape}x1 for {shape} ranks of 1 thread \
                 each, or 1x{shape} for one rank of {shape}",
                start.mpi
            ));
        }
        if let Some(conflict) = Mpi::conflict(&start.args) {
            return wrong(format!(
                "{}: {conflict}, which the study's own placements and -n say; leave it out of --mpi-args, or see what it does by \
                 `stayput run --mpi {} --mpi-args`",
                subject.name, start.mpi
            ));
        }
        if !self.redaction().words(&start.args).1.is_empty() {
            return wrong(format!(
                "{}: --mpi-args holds a secret value, and journals keep it as the launcher is told; give the value by a file or a variable",
                subject.name
            ));
        }
        if subject.binding.unit != Unit::Thread {
            return wrong("ranks are bound thread by thread; leave out --unit process, or --mpi".into());
        }
        if !subject.is_program() || subject.server.is_some() || subject.running.is_some() || subject.alone.is_some() {
            return wrong(format!(
                "`{}` has no ranks that --mpi could start: only a program that runs by itself has any; leave out --mpi, or --mix, --server, \
                 --pid and --cgroup",
                subject.name
            ));
        }
        if let Some(treatment) = self.treatments.iter().find(|treatment| !treatment.conditions.is_default()) {
            return wrong(format!(
                "{}: ranks can be placed, and nothing else yet; leave out --memory, --huge-pages, --sched and --beside",
                treatment.name
            ));
        }
        match self.site {
            // Each block's launcher starts them on the block's node.
            Site::Here | Site::Slurm(_) => Ok(()),
            Site::Vm(_) => wrong(
                "ranks run here, and no MPI starts any in an emulated machine; leave out --on vm, or --mpi".into(),
            ),
        }
    }

    /// Whether the jobs of `mix` are told apart, are subjects of the plan by themselves, and one at least ends by itself.
    fn check_mix(&self, name: &str, mix: &Mix) -> Result<(), PlanError> {
        let wrong = |what: String| Err(PlanError(format!("mix `{name}`: {what}")));
        check_count(mix.jobs.len(), MOST_JOBS, "jobs")?;
        if let Some(twice) = repeated(mix.jobs.iter().map(|job| job.name.as_str())) {
            return wrong(format!("two jobs are called `{twice}`; give one another name"));
        }
        for job in &mix.jobs {
            if !self.subjects.iter().any(|subject| subject.is_program() && subject.name == job.subject) {
                return wrong(format!("job `{}` is of no subject", job.name));
            }
        }
        if mix.jobs.iter().all(|job| job.repeat) {
            return wrong("every job repeats; leave out `repeat` of one at least".into());
        }
        let is_one = |jobs: &[Option<Placement>]| jobs.len() == mix.jobs.len();
        if let Some(wrongly) = mix.placements.iter().find(|placement| !is_one(&placement.jobs)) {
            return wrong(format!("`{}` has a place for another number of jobs", wrongly.treatment));
        }
        Ok(())
    }

    /// Every cell that there is: by subject, then threads, then treatment.
    pub fn cells(&self) -> impl Iterator<Item = Cell> + '_ {
        (0..self.subjects.len()).flat_map(move |subject| {
            (0..self.threads.len()).flat_map(move |threads| {
                let all = (0..self.treatments.len()).map(move |treatment| Cell { subject, threads, treatment });
                all.filter(|cell| self.has(*cell))
            })
        })
    }

    /// The subjects that are run under every treatment.
    pub fn compared(&self) -> impl Iterator<Item = &Subject> + Clone {
        self.subjects.iter().filter(|subject| subject.alone.is_none())
    }

    /// Whether there is such a cell: a race tries other placements with every thread count, and what is run only by itself is run
    /// under the reference, and not where times mean nothing.
    pub fn has(&self, cell: Cell) -> bool {
        let is_alone = self.subjects[cell.subject].alone.is_some();
        if is_alone && (cell.treatment != 0 || self.site.guest().is_some()) {
            return false;
        }
        let treatment = &self.treatments[cell.treatment];
        treatment.placements.is_empty() || self.placement(cell).is_some()
    }

    /// The cell of these names.
    pub(crate) fn cell(&self, subject: &str, threads: Shape, treatment: &str) -> Option<Cell> {
        Some(Cell {
            subject: self.subjects.iter().position(|other| other.name == subject)?,
            threads: self.threads.iter().position(|&other| other == threads)?,
            treatment: self.treatments.iter().position(|other| other.name == treatment)?,
        })
    }

    /// Leaves one cell of those that are the same placement with as many threads: the first.
    pub fn merge_same_placements(&mut self) {
        self.merge_same_placements_of(|_, _| true);
    }

    /// The same, where only cells that `may_go`, by their thread count and treatment, are left out.
    pub(crate) fn merge_same_placements_of(&mut self, may_go: impl Fn(Shape, &str) -> bool) {
        if self.compares_commands() {
            return;
        }
        for column in 0..self.threads.len() {
            for at in 1..self.treatments.len() {
                let (earlier, later) = self.treatments.split_at_mut(at);
                let may_go = may_go(self.threads[column], &later[0].name);
                if !may_go || later[0].placement(column).is_none() {
                    continue;
                }
                let threads = self.threads[column];
                let mixes: Vec<&Mix> = self.subjects.iter().filter_map(|subject| subject.mix.as_ref()).collect();
                let is_run_as = |earlier: &&Treatment| is_run_as(&mixes, earlier, &later[0], column, threads);
                if let Some(first) = earlier.iter().find(is_run_as) {
                    let treatment = first.name.clone();
                    later[0].placements[column] = None;
                    later[0].same_as.push(SamePlacement { threads, treatment });
                }
            }
        }
    }

    /// An earlier treatment that runs the very same as this cell.
    pub(crate) fn twin(&self, cell: Cell) -> Option<&Treatment> {
        if self.compares_commands() {
            return None;
        }
        let (earlier, rest) = self.treatments.split_at(cell.treatment);
        let mixes: Vec<&Mix> = self.subjects[cell.subject].mix.iter().collect();
        let threads = self.threads[cell.threads];
        earlier.iter().find(|earlier| is_run_as(&mixes, earlier, &rest[0], cell.threads, threads))
    }

    /// The names of what a cell runs: its treatment's, and those of later treatments that are the very same placement with as many
    /// threads, for which it is run, too.
    pub fn names(&self, cell: Cell) -> impl Iterator<Item = &str> + Clone {
        let (threads, name) = (self.threads[cell.threads], self.treatments[cell.treatment].name.as_str());
        let later = self.treatments.iter().filter(move |later| later.same_placement(threads) == Some(name));
        std::iter::once(name).chain(later.map(|later| later.name.as_str()))
    }

    /// Where the threads of a cell are put; none when unbound.
    pub fn placement(&self, cell: Cell) -> Option<&Placement> {
        self.treatments[cell.treatment].placement(cell.threads)
    }

    /// `asked` without differences that don't make it another study.
    pub(crate) fn aligned(&self, asked: &Self) -> Self {
        let mut asked = asked.clone();
        for (have, want) in self.subjects.iter().zip(&mut asked.subjects) {
            // Other programs are found by `changes`.
            want.build.clone_from(&have.build);
            want.identity.clone_from(&have.identity);
            // Other values are found by `changes`, too.
            want.secrets.clone_from(&have.secrets);
            // The same bytes are the same input, whatever their file is called.
            if let (Some(have), Some(want)) = (&have.input, &mut want.input)
                && (have.bytes, &have.sha256) == (want.bytes, &want.sha256)
            {
                want.file.clone_from(&have.file);
            }
            // Journals used not to keep it.
            want.useful_threads = have.useful_threads;
        }
        for (have, want) in self.treatments.iter().zip(&mut asked.treatments) {
            // Journals used not to keep it.
            if have.place.is_empty() && have.name == want.name {
                want.place.clear();
            }
        }
        // Earlier versions ran equal placements of a comparison each by itself; such a study is gone on with as it was begun.
        let mut merged = self.clone();
        merged.merge_same_placements();
        if merged.treatments == asked.treatments {
            asked.treatments.clone_from(&self.treatments);
        }
        asked.extensions.clone_from(&self.extensions);
        asked.site = self.site.aligned(&asked.site);
        asked
    }

    /// This plan with what the files of its programs are now.
    #[must_use]
    pub fn identified(mut self) -> Self {
        for subject in self.subjects.iter_mut().filter(|subject| subject.is_program()) {
            let counts: Vec<Shape> = self.threads.iter().map(|&threads| subject.threads_of(threads)).collect();
            let counts = counts.into_iter();
            let variants = counts
                .clone()
                .flat_map(|threads| subject.variants.iter().map(move |variant| with_threads(&variant.argv, threads)));
            let commands: Vec<Vec<String>> = counts
                .map(|threads| subject.command_for(threads))
                .chain(variants)
                .chain(subject.server.iter().map(|server| server.argv.clone()))
                .chain(subject.running_program())
                .chain(subject.ranks.iter().map(|start| vec![start.mpi.program().to_owned()]))
                .collect();
            // What a setup builds isn't there yet, or is another one then.
            let is_built =
                subject.preparation.setup.is_some() || subject.variants.iter().any(|v| v.preparation.setup.is_some());
            subject.identity = if is_built { None } else { Identity::of_commands(&commands) };
        }
        self
    }

    /// This plan without the values that it hides, or `redact` does; `variables` are those that a study keeps of its environment.
    #[must_use]
    pub fn redacted(mut self, redact: &[String], variables: &BTreeMap<String, String>) -> Self {
        let names: Vec<String> = self.subjects.iter().map(|subject| subject.name.clone()).collect();
        self.redact = redact.to_vec();
        let redaction = self.redaction();
        let hidden = variables.iter().filter(|(name, _)| redaction.hides(name));
        let variables: Vec<String> = hidden.map(|(name, value)| format!("{name}={value}")).collect();
        for subject in self.subjects.iter_mut().filter(|subject| subject.model.is_none()) {
            subject.redact(&redaction, &variables);
        }
        let values: Vec<String> = self.subjects.iter().flat_map(|subject| subject.unkept.values.clone()).collect();
        for subject in self.subjects.iter_mut() {
            subject.redact_mix(|text| without(&redaction.text(text, &mut Vec::new()), &values));
        }
        self.tell_names_apart();
        self.rename_jobs(&names);
        self
    }

    /// Lets the jobs of mixes find their subjects, which were called `names` before.
    pub(crate) fn rename_jobs(&mut self, names: &[String]) {
        let new: Vec<String> = self.subjects.iter().map(|subject| subject.name.clone()).collect();
        for job in self.subjects.iter_mut().filter_map(|subject| subject.mix.as_mut()).flat_map(|mix| &mut mix.jobs) {
            let position = names.iter().position(|name| *name == job.subject);
            position.inspect(|&position| job.subject.clone_from(&new[position]));
        }
    }

    /// Gives a number to subjects that only values told apart which were left out.
    pub(crate) fn tell_names_apart(&mut self) {
        for position in 1..self.subjects.len() {
            let (earlier, rest) = self.subjects.split_at_mut(position);
            let name = rest[0].name.clone();
            let is_taken = |name: &str| earlier.iter().any(|other| other.name == name);
            let numbered = (2..).map(|number| format!("{name} ({number})")).find(|name| !is_taken(name));
            if let Some(numbered) = numbered.filter(|_| is_taken(&name)) {
                rest[0].name = numbered;
            }
        }
    }

    /// The first treatment whose commands hold a value that is left out: unlike a program's, these are kept as they are run.
    pub fn treatment_with_secret(&self) -> Option<&Treatment> {
        let redaction = self.redaction();
        let has_secret = |words: &Vec<String>| !redaction.words(words).1.is_empty();
        self.treatments.iter().find(|treatment| treatment.conditions.commands().iter().any(has_secret))
    }

    /// What it leaves out.
    pub fn redaction(&self) -> Redaction {
        Redaction::new(&self.redact)
    }

    /// Runs what `asked`, a plan of the same subjects, was asked to run.
    pub(crate) fn take_unkept_of(&mut self, asked: &Self) {
        for subject in &mut self.subjects {
            if let Some(same) = asked.subjects.iter().find(|same| same.name == subject.name) {
                subject.unkept.clone_from(&same.unkept);
            }
        }
    }

    /// Whether it says of every program what its files were.
    pub fn keeps_identity(&self) -> bool {
        self.subjects.iter().all(|subject| !subject.is_program() || subject.identity.is_some())
    }

    /// Which of the programs that `asked` has, too, are other ones there.
    pub(crate) fn changes(&self, asked: &Self) -> Vec<Change> {
        let same =
            |then: &Subject| asked.subjects.iter().find(|now| (&now.name, &now.argv) == (&then.name, &then.argv));
        let pairs = self.subjects.iter().filter_map(|then| Some((then, same(then)?)));
        let changes = pairs.flat_map(|(then, now)| {
            let build = then.build.clone().zip(now.build.clone()).filter(|(then, now)| then != now);
            let build = build.map(|(then, now)| Change::Build { then, now });
            let files = then.identity.as_ref().zip(now.identity.as_ref()).map(|(then, now)| then.changes(now));
            let is_other = then.secrets.as_ref().is_some_and(|secrets| !secrets.is_of(&now.unkept.values));
            let secret = is_other.then(|| Change::Secret { subject: then.name.clone() });
            build.into_iter().chain(files.unwrap_or_default()).chain(secret)
        });
        changes.collect()
    }

    /// Whether any treatment says where memory comes from, or in which pages.
    pub(crate) fn varies_memory(&self) -> bool {
        let plain = Conditions::default();
        let says =
            |conditions: &Conditions| conditions.memory != plain.memory || conditions.huge_pages != plain.huge_pages;
        self.treatments.iter().any(|treatment| says(&treatment.conditions))
    }

    /// The treatment that every ratio is taken against.
    pub fn reference(&self) -> &Treatment {
        &self.treatments[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::warning::Warning;
    use machine::CpuId;
    use proptest::prelude::*;
    use std::slice;

    fn plan() -> Plan {
        Plan {
            subjects: vec![Subject { name: "app".into(), argv: vec!["./app".into()], ..Subject::default() }],
            threads: vec![1.into(), 2.into()],
            treatments: vec![Treatment::unbound()],
            warmup_blocks: 1,
            timeout: Duration::from_secs(60),
            seed: 1,
            ..Plan::default()
        }
    }

    #[test]
    fn a_program_without_work_for_its_threads_is_told_and_no_other_is() {
        let with_work_for = |useful_threads| {
            let mut plan = plan();
            plan.subjects[0].useful_threads = useful_threads;
            Warning::of_plan(&plan)
        };
        let told = Warning::MoreThreadsThanWork { subject: "app".into(), threads: 2, useful: 1 };
        assert_eq!(with_work_for(Some(1)), [told]);
        assert_eq!(with_work_for(Some(2)), []);
        assert_eq!(with_work_for(None), []);
    }

    #[test]
    fn a_study_begun_before_useful_threads_were_kept_is_the_same_study() {
        let begun = plan();
        let mut asked = begun.clone();
        asked.subjects[0].useful_threads = Some(62);
        assert_eq!(begun.aligned(&asked), begun);
    }

    #[test]
    fn a_study_that_ran_equal_placements_each_by_itself_is_the_same_study() {
        let treatment = |name: &str| {
            let slots = |cpus: &[u32]| cpus.iter().map(|&cpu| CpuSet::from(CpuId(cpu))).collect();
            let placement = |cpus: &[u32]| Some(Placement { policy: name.into(), slots: slots(cpus) });
            Treatment::new(
                name.into(),
                vec![placement(&[0]), placement(if name == "list" { &[1, 0] } else { &[0, 1] })],
            )
        };
        let treatments = ["compact", "scatter", "list"].map(treatment);
        let begun = Plan { treatments: [vec![Treatment::unbound()], treatments.to_vec()].concat(), ..plan() };
        let mut asked = begun.clone();
        asked.merge_same_placements();
        assert_ne!(asked, begun);
        assert_eq!(begun.aligned(&asked), begun);
        let other = Plan { treatments: asked.treatments[..3].to_vec(), ..asked.clone() };
        assert_ne!(begun.aligned(&other), begun, "one placement less is another study");
    }

    #[test]
    fn a_plan_that_cannot_be_carried_out_is_refused() {
        let with = |time_regex: &str| {
            let mut plan = plan();
            plan.subjects[0].time_regex = Some(time_regex.into());
            plan.check()
        };
        assert_eq!(with("time: ([0-9.]+)"), Ok(()));
        assert!(with("time: [0-9.]+").unwrap_err().0.contains("no group"));
        assert!(with("(").unwrap_err().0.contains("no regular expression"));
        let mut twice = plan();
        twice.subjects.push(twice.subjects[0].clone());
        assert!(twice.check().unwrap_err().0.contains("two subjects"));
        let placed = |slots: &[&[CpuSet]]| {
            let placements = slots.iter().map(|slots| Some(Placement { policy: "list".into(), slots: slots.to_vec() }));
            let treatment = Treatment::new("list".into(), placements.collect());
            Plan { treatments: vec![treatment], ..plan() }.check()
        };
        let cpu = CpuSet::from(CpuId(0));
        assert_eq!(placed(&[slice::from_ref(&cpu), &[cpu.clone(), cpu.clone()]]), Ok(()));
        assert!(placed(&[slice::from_ref(&cpu)]).unwrap_err().0.contains("lacks a placement for 2 threads"));
        assert!(placed(&[&[cpu], &[]]).unwrap_err().0.contains("without a CPU"));
    }

    /// Plans whose placements are often the same ones: few CPUs, and sometimes no placement at all.
    fn crowded() -> impl Strategy<Value = Plan> {
        let slot = prop::collection::btree_set(0_u32..3, 1..3).prop_map(|cpus| cpus.into_iter().map(CpuId).collect());
        let placement = prop::option::weighted(0.9, prop::collection::vec(slot, 1..3));
        let column_of_each = prop::collection::vec(placement, 3);
        prop::collection::vec(prop::option::weighted(0.9, column_of_each), 1..7).prop_map(|treatments| {
            let treatment = |(number, columns): (usize, Option<Vec<Option<Vec<CpuSet>>>>)| match columns {
                None if number == 0 => Treatment::unbound(),
                None => Treatment::new(format!("free {number}"), Vec::new()),
                Some(columns) => {
                    let policy = format!("policy {number}");
                    let placed = |slots: Option<Vec<CpuSet>>| Some(Placement { policy: policy.clone(), slots: slots? });
                    Treatment::new(policy.clone(), columns.into_iter().map(placed).collect())
                }
            };
            let treatments = treatments.into_iter().enumerate().map(treatment).collect();
            Plan { threads: vec![1.into(), 2.into(), 4.into()], treatments, ..plan() }
        })
    }

    proptest! {
        #[test]
        fn each_placement_is_run_once_and_every_name_says_where(before in crowded()) {
            let mut merged = before.clone();
            merged.merge_same_placements();
            let mut again = merged.clone();
            again.merge_same_placements();
            prop_assert_eq!(&again, &merged, "there is nothing left to merge");

            let name = |treatment: &Treatment| treatment.name.clone();
            prop_assert_eq!(merged.treatments.iter().map(name).collect::<Vec<_>>(),
                before.treatments.iter().map(name).collect::<Vec<_>>());
            for (column, &threads) in before.threads.iter().enumerate() {
                let runs: Vec<&Placement> =
                    merged.treatments.iter().filter_map(|treatment| treatment.placements.get(column)?.as_ref()).collect();
                for (position, placement) in runs.iter().enumerate() {
                    prop_assert!(!runs[..position].iter().any(|other| other.same_slots(placement)));
                }
                for (was, is) in before.treatments.iter().zip(&merged.treatments) {
                    let at = |treatment: &Treatment| treatment.placements.get(column).cloned().flatten();
                    match is.same_placement(threads) {
                        // Unbound and those without a placement among them.
                        None => prop_assert_eq!(at(was), at(is)),
                        Some(other) => {
                            let run = merged.treatments.iter().find(|treatment| treatment.name == other);
                            let run = run.and_then(at);
                            prop_assert!(at(is).is_none() && run.is_some());
                            prop_assert!(at(was).zip(run).is_some_and(|(was, run)| was.same_slots(&run)));
                        }
                    }
                    prop_assert_eq!(was.placements.is_empty(), is.placements.is_empty());
                }
            }
        }
    }
}
