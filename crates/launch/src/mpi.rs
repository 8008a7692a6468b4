//! Launchers of MPI programs: how each is called, what its ranks find in their environment, and what goes wrong between the two.
//!
//! A launcher starts as many processes as it is told, and may bind them. [`Mpi::command`] calls it such that it doesn't;
//! [`misconfigurations`] says of ranks that were seen what their launcher, or the environment, did to them.

use crate::openmp::{BINDING_VARIABLES, Dynamic, part_of_libc, system_dirs};
use machine::CpuSet;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use strum::{Display, EnumString, IntoStaticStr, VariantArray};

/// A launcher of MPI programs.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumString, IntoStaticStr, VariantArray, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase", parse_err_ty = UnknownMpi, parse_err_fn = unknown)]
pub enum Mpi {
    /// Open MPI's mpirun.
    OpenMpi,
    /// MPICH's, Intel MPI's and MVAPICH's mpiexec (Hydra).
    Mpich,
    /// Slurm's srun.
    Srun,
}

/// A text that names no launcher.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no MPI launcher: choose one of {all}", all = Mpi::VARIANTS.iter().map(<&str>::from).collect::<Vec<_>>().join(", "))]
pub struct UnknownMpi(String);

fn unknown(text: &str) -> UnknownMpi {
    UnknownMpi(text.into())
}

impl Mpi {
    /// The launcher's program: the name that Debian gives it where both are installed, else the one that all share.
    pub fn program(self) -> &'static str {
        let first_of = |names: [&'static str; 2]| {
            names.into_iter().find(|name| crate::executable_path(name.as_ref()).is_ok()).unwrap_or(names[1])
        };
        match self {
            Self::OpenMpi => first_of(["mpirun.openmpi", "mpirun"]),
            Self::Mpich => first_of(["mpiexec.hydra", "mpiexec"]),
            Self::Srun => "srun",
        }
    }

    /// The command that starts `ranks` processes of what follows it. Without `options` of the caller's, it binds none of them.
    pub fn command(self, ranks: usize, threads: usize, options: Option<&[String]>) -> Vec<OsString> {
        let mut words = vec![self.program().to_owned(), "-n".into(), ranks.to_string()];
        if self == Self::Srun {
            // Since 22.05 a step doesn't inherit how many CPUs a task has.
            words.extend(["-c".into(), threads.to_string()]);
        }
        match (options, self) {
            (Some(options), _) => words.extend(options.iter().cloned()),
            (None, Self::OpenMpi) => words.extend(["--bind-to", "none", "--oversubscribe"].map(String::from)),
            (None, Self::Mpich) => words.extend(["-bind-to", "none"].map(String::from)),
            // Our own CPUs are those of one node, and there may be fewer of them than threads.
            (None, Self::Srun) => words.extend(["-N1", "--overcommit", "--cpu-bind=none"].map(String::from)),
        }
        words.into_iter().map(OsString::from).collect()
    }

    /// Whether these options of a launcher ask it to bind ranks.
    fn asks_to_bind(options: &[String]) -> Option<&String> {
        let binds = ["--bind-to", "-bind-to", "--cpu-set", "--cpu-list", "--cpu-bind", "--rankfile", "-rf", "--map-by"];
        options.iter().enumerate().find_map(|(at, option)| {
            let name = option.split_once('=').map_or(option.as_str(), |(name, _)| name);
            let value = option.split_once('=').map(|(_, value)| value).or(options.get(at + 1).map(String::as_str));
            (binds.contains(&name) && value != Some("none")).then_some(option)
        })
    }
}

/// Which process of an MPI program this one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankIdentity {
    /// Its rank among all.
    pub rank: usize,
    /// Its place among the ranks of its node: which CPUs it gets is a question of that.
    pub local_rank: usize,
}

/// The variables by which launchers tell a process its rank and its place on its node. Slurm's come last: below an mpirun inside
/// of a job they are those of the step, the same for all ranks of a node.
const IDENTITIES: [(&str, &str); 4] = [
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("PMI_RANK", "MPI_LOCALRANKID"),
    ("PMIX_RANK", "PMIX_LOCAL_RANK"),
    ("SLURM_PROCID", "SLURM_LOCALID"),
];

impl RankIdentity {
    /// What a launcher has said in the environment; none where none has.
    pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let number = |name: &str| variable(name)?.parse::<usize>().ok();
        IDENTITIES.iter().find_map(|(rank, local)| {
            let rank = number(rank)?;
            Some(Self { rank, local_rank: number(local).unwrap_or(rank) })
        })
    }
}

/// The MPI library that a program links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MpiLibrary {
    /// Its file name.
    pub soname: String,
    /// Whether it is Open MPI; else it is MPICH or one with its interface.
    pub is_open_mpi: bool,
}

/// The MPI library that `executable` links, itself or through its libraries.
pub fn linked_mpi(executable: &Path) -> Option<MpiLibrary> {
    let (mut waiting, mut seen, system) = (vec![executable.to_path_buf()], HashSet::new(), system_dirs());
    let mut found: Option<(String, PathBuf)> = None;
    while let Some(path) = waiting.pop() {
        let Some(dynamic) = Dynamic::read(&path) else { continue };
        for needed in &dynamic.needed {
            let name = needed.to_string_lossy().into_owned();
            if part_of_libc(&name) || !seen.insert(name.clone()) {
                continue;
            }
            let Some(file) = dynamic.find(needed, &system) else { continue };
            if name.starts_with("libmpi.so") || name.starts_with("libmpich.so") {
                found.get_or_insert((name, file));
            } else {
                waiting.push(file);
            }
        }
    }
    // Open MPI's libmpi needs its own libopen-pal; nobody else's does.
    let (soname, file) = found?;
    let needed = Dynamic::read(&file).map(|dynamic| dynamic.needed).unwrap_or_default();
    let is_open_mpi = needed.iter().any(|name| name.to_string_lossy().starts_with("libopen-"));
    Some(MpiLibrary { soname, is_open_mpi })
}

/// What was seen of one rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenRank {
    /// Its number.
    pub rank: usize,
    /// Where its launcher let it run, before we bound anything.
    pub inherited: CpuSet,
    /// Where each of its threads was read back, helper threads aside.
    pub threads: Vec<CpuSet>,
    /// Whether we bound its threads.
    pub bound: bool,
}

/// What ranks were started with.
#[derive(Clone, Debug)]
pub struct RankContext {
    /// The launcher.
    pub mpi: Mpi,
    /// What the caller said to it; none where we had it bind nothing.
    pub options: Option<Vec<String>>,
    /// How many ranks there should be.
    pub ranks: usize,
    /// Where the launcher itself was let run.
    pub allowed: CpuSet,
    /// The library that the program links.
    pub library: Option<MpiLibrary>,
    /// Variables of our environment that say how many threads there are, or bind them.
    pub variables: BTreeMap<String, String>,
    /// Whether the launcher was started by root.
    pub is_root: bool,
}

/// Open MPI's mpirun starts nothing as root unless both are set.
const ROOT_VARIABLES: [&str; 2] = ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"];

impl RankContext {
    /// So many ranks that a launcher is to start in the environment of this process, where it may run on `allowed`, without options
    /// of the caller's.
    pub fn of_caller(mpi: Mpi, ranks: usize, allowed: CpuSet) -> Self {
        let names = BINDING_VARIABLES
            .into_iter()
            .chain(["OMP_NUM_THREADS", "SLURM_CPUS_PER_TASK", "SRUN_CPUS_PER_TASK", "SLURM_JOB_ID"])
            .chain(ROOT_VARIABLES);
        let variables = names.filter_map(|name| Some((name.to_owned(), env::var(name).ok()?))).collect();
        let is_root = nix::unistd::geteuid().is_root();
        Self { mpi, options: None, ranks, allowed, library: None, variables, is_root }
    }

    /// Whether Open MPI's mpirun refuses to start ranks for this user.
    fn is_refused_root(&self) -> bool {
        let is_allowed = ROOT_VARIABLES.iter().all(|name| self.variables.get(*name).is_some_and(|value| value == "1"))
            || self.options.iter().flatten().any(|option| option.trim_start_matches('-') == "allow-run-as-root");
        self.mpi == Mpi::OpenMpi && self.is_root && !is_allowed
    }
}

/// Why what was seen isn't the program that was asked for: fewer ranks than asked for, or each a world of its own; none where it is.
pub fn other_world(context: &RankContext, ranks: &[SeenRank]) -> Option<String> {
    [other_library, refused_root, fewer_ranks].iter().find_map(|check| check(context, ranks))
}

/// What went wrong between a launcher, its options, the environment and the ranks, each in a sentence that says what to do.
pub fn misconfigurations(context: &RankContext, ranks: &[SeenRank]) -> Vec<String> {
    let checks = [
        other_library,
        refused_root,
        fewer_ranks,
        ignored_mask,
        not_bound,
        narrow_rank,
        same_place,
        stacked_threads,
        threads_by_default,
        oversubscribed,
        several_parts,
    ];
    checks.iter().filter_map(|check| check(context, ranks)).collect()
}

fn launcher(context: &RankContext) -> &'static str {
    match context.mpi {
        Mpi::OpenMpi => "Open MPI's mpirun",
        Mpi::Mpich => "MPICH's mpiexec",
        Mpi::Srun => "srun",
    }
}

/// How `mpi` is told to give each rank so many CPUs.
fn remedy(context: &RankContext, threads: usize) -> String {
    match context.mpi {
        Mpi::OpenMpi => format!("say --bind-to none, or --map-by slot:PE={threads}"),
        Mpi::Mpich => format!("say -bind-to none, or -bind-to hwthread:{threads}"),
        Mpi::Srun => format!("say --cpu-bind=none, or -c {threads} to srun itself"),
    }
}

/// Why `mpi` can't start `executable` as ranks, in a sentence that says what to do, where that is known before it is tried; `set` are
/// variables that it is started with besides those of this process.
pub fn obstacle(mpi: Mpi, executable: &Path, set: &[(OsString, OsString)]) -> Option<String> {
    let mut context =
        RankContext { library: linked_mpi(executable), ..RankContext::of_caller(mpi, 0, CpuSet::default()) };
    let text = |word: &OsString| word.to_string_lossy().into_owned();
    context.variables.extend(set.iter().map(|(name, value)| (text(name), text(value))));
    other_library(&context, &[]).or_else(|| refused_root(&context, &[]))
}

/// The program is linked to one MPI and started by another: each process is then a rank 0 of a world of its own.
fn other_library(context: &RankContext, _: &[SeenRank]) -> Option<String> {
    let library = context.library.as_ref()?;
    let (is, starts) = match (library.is_open_mpi, context.mpi) {
        (true, Mpi::Mpich) => ("Open MPI", "MPICH's mpiexec"),
        (false, Mpi::OpenMpi) => ("MPICH or a library like it", "Open MPI's mpirun"),
        _ => return None,
    };
    let other = if library.is_open_mpi { Mpi::OpenMpi } else { Mpi::Mpich };
    Some(format!(
        "the program links {is} ({}), and {starts} starts it: each of its processes takes itself for rank 0 of 1; say --mpi {other}",
        library.soname
    ))
}

/// Open MPI doesn't serve root, and ends before it has started anything.
fn refused_root(context: &RankContext, ranks: &[SeenRank]) -> Option<String> {
    (ranks.is_empty() && context.is_refused_root()).then(|| {
        format!(
            "{} starts nothing as root; run it as another user, or, where root is all there is, as in a container, set {}",
            launcher(context),
            ROOT_VARIABLES.map(|name| format!("{name}=1")).join(" and ")
        )
    })
}

fn fewer_ranks(context: &RankContext, ranks: &[SeenRank]) -> Option<String> {
    let is_told = ranks.is_empty() && context.is_refused_root();
    (ranks.len() < context.ranks && !is_told).then(|| {
        // Outside of a job srun asks for one, on whatever node is free.
        let elsewhere = match context.mpi == Mpi::Srun && !context.variables.contains_key("SLURM_JOB_ID") {
            true => "; outside of a job srun starts ranks on a node of Slurm's choice: give the command in a job, by sbatch or salloc",
            false => "",
        };
        format!(
            "{} of {} ranks were started, or came to their end: {} printed why{elsewhere}",
            ranks.len(),
            context.ranks,
            launcher(context)
        )
    })
}

/// Open MPI binds to what it finds in the machine, whatever mask it was started with.
fn ignored_mask(context: &RankContext, ranks: &[SeenRank]) -> Option<String> {
    let outside = ranks.iter().find(|rank| !rank.inherited.difference(&context.allowed).is_empty())?;
    Some(format!(
        "{} ignored the affinity mask that it was started with (CPUs {}, by taskset or a parent): rank {} got CPUs {}; bind by --place, \
         or confine it by a cpuset, which is respected",
        launcher(context),
        context.allowed,
        outside.rank,
        outside.inherited
    ))
}

/// Options asked for a binding, and there is none.
fn not_bound(context: &RankContext, ranks: &[SeenRank]) -> Option<String> {
    let option = Mpi::asks_to_bind(context.options.as_ref()?)?;
    let is_free = |rank: &&SeenRank| rank.inherited == context.allowed;
    let free = ranks.iter().filter(is_free).count();
    (free == ranks.len() && free > 0 && context.allowed.len() > 1).then(|| {
        format!(
            "{} was asked to bind ({option}) and bound nothing: every rank could run on all of CPUs {}; it gives up without a word where \
             there are more ranks than it counts slots, and some options cancel each other",
            launcher(context),
            context.allowed
        )
    })
}

/// The launcher's binding was left on, by cores, for a rank of several threads.
fn narrow_rank(context: &RankContext, ranks: &[SeenRank]) -> Option<String> {
    let narrow = |rank: &&SeenRank| {
        let is_narrowed = rank.inherited != context.allowed;
        !rank.bound && is_narrowed && rank.threads.len() > rank.inherited.len()
    };
    let all: Vec<&SeenRank> = ranks.iter().filter(narrow).collect();
    let first = all.first()?;
    let slurm = context.variables.get("SLURM_CPUS_PER_TASK").filter(|_| context.mpi == Mpi::Srun);
    let misled =
        slurm.map(|count| format!(" (SLURM_CPUS_PER_TASK={count} is not inherited by srun)")).unwrap_or_default();
    Some(format!(
        "rank {} has {} threads, and {} gave it {} alone{misled}, so that they take turns{}; {}",
        first.rank,
        first.threads.len(),
        launcher(context),
        cpus(&first.inherited),
        if all.len() > 1 { format!("; so have {} ranks in all", all.len()) } else { String::new() },
        remedy(context, first.threads.len())
    ))
}

fn cpus(set: &CpuSet) -> String {
    let plural = if set.len() == 1 { "" } else { "s" };
    format!("CPU{plural} {set}")
}

/// Several ranks were bound by their launcher to the same few CPUs while others have none.
fn same_place(context: &RankContext, ranks: &[SeenRank]) -> Option<String> {
    let mut places: BTreeMap<String, Vec<&SeenRank>> = BTreeMap::new();
    for rank in ranks.iter().filter(|rank| !rank.bound && rank.inherited != context.allowed) {
        places.entry(rank.inherited.to_string()).or_default().push(rank);
    }
    let used: CpuSet = ranks.iter().flat_map(|rank| rank.inherited.iter()).collect();
    let idle = context.allowed.difference(&used);
    let shared = places.into_values().find(|of| of.len() > of[0].inherited.len())?;
    (!idle.is_empty()).then(|| {
        format!(
            "{} put ranks {} on {}, and none on {}: two launchers on one node count from the same core, and so do ranks that each \
             start a launcher; give each its own CPUs by --place",
            launcher(context),
            numbers(shared.iter().map(|rank| rank.rank)),
            cpus(&shared[0].inherited),
            cpus(&idle)
        )
    })
}

fn numbers(ranks: impl Iterator<Item = usize>) -> String {
    let texts: Vec<String> = ranks.map(|rank| rank.to_string()).collect();
    texts.split_last().map_or_else(String::new, |(last, rest)| match rest {
        [] => last.clone(),
        rest => format!("{} and {last}", rest.join(", ")),
    })
}

/// Threads of several ranks were bound to one CPU by variables that are the same for all ranks.
fn stacked_threads(context: &RankContext, ranks: &[SeenRank]) -> Option<String> {
    let variable = BINDING_VARIABLES.into_iter().find(|name| context.variables.contains_key(*name))?;
    let mut ranks_of: BTreeMap<u32, BTreeSet<usize>> = BTreeMap::new();
    for rank in ranks.iter().filter(|rank| !rank.bound) {
        for cpu in rank.threads.iter().filter_map(CpuSet::only).filter(|_| rank.inherited.len() > 1) {
            ranks_of.entry(cpu.0).or_default().insert(rank.rank);
        }
    }
    let (cpu, sharing) = ranks_of.iter().find(|(_, ranks)| ranks.len() > 1)?;
    Some(format!(
        "threads of ranks {} were bound to CPU {cpu}, by {variable}={}, which is the same for every rank; unset it, or let --place bind them",
        numbers(sharing.iter().copied()),
        context.variables.get(variable).map(String::as_str).unwrap_or_default()
    ))
}

/// Nobody said how many threads a rank has, so that each has as many as there are CPUs.
fn threads_by_default(context: &RankContext, ranks: &[SeenRank]) -> Option<String> {
    let threads: usize = ranks.iter().map(|rank| rank.threads.len()).sum();
    let each_takes_all = ranks.iter().all(|rank| !rank.bound && rank.threads.len() >= context.allowed.len());
    (ranks.len() > 1 && context.allowed.len() > 1 && each_takes_all && !context.variables.contains_key("OMP_NUM_THREADS"))
        .then(|| {
            format!(
                "each of {} ranks started {} threads, one for each CPU that it saw: {threads} on {} CPUs; say how many by -n RANKSxTHREADS \
                 or OMP_NUM_THREADS",
                ranks.len(),
                ranks[0].threads.len(),
                context.allowed.len()
            )
        })
}

/// More threads that are bound than CPUs for them.
fn oversubscribed(_: &RankContext, ranks: &[SeenRank]) -> Option<String> {
    let threads: usize = ranks.iter().map(|rank| rank.threads.len()).sum();
    let used: CpuSet = ranks.iter().flat_map(|rank| rank.threads.iter().flat_map(CpuSet::iter)).collect();
    let all_bound = !ranks.is_empty() && ranks.iter().all(|rank| rank.bound);
    (all_bound && threads > used.len()).then(|| {
        format!(
            "{threads} threads of {} ranks were placed on {}: ranks that wait in MPI take the time of those that work",
            ranks.len(),
            cpus(&used)
        )
    })
}

/// Ranks were started with different masks, some of several CPUs and some of all: a rankfile or list that is too short.
fn several_parts(context: &RankContext, ranks: &[SeenRank]) -> Option<String> {
    let free: Vec<usize> =
        ranks.iter().filter(|rank| rank.inherited == context.allowed).map(|rank| rank.rank).collect();
    let is_mixed = !free.is_empty() && free.len() < ranks.len() && context.allowed.len() > 1;
    (context.options.is_some() && is_mixed && ranks.iter().all(|rank| !rank.bound)).then(|| {
        format!(
            "{} bound some ranks, and left rank {} free on all of CPUs {}; a list that names fewer ranks than there are does that",
            launcher(context),
            numbers(free.into_iter()),
            context.allowed
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(rank: usize, inherited: &str, threads: &[&str]) -> SeenRank {
        let threads = threads.iter().map(|cpus| cpus.parse().unwrap()).collect();
        SeenRank { rank, inherited: inherited.parse().unwrap(), threads, bound: false }
    }

    fn context(mpi: Mpi, ranks: usize) -> RankContext {
        let variables = BTreeMap::from([("OMP_NUM_THREADS".to_owned(), "2".to_owned())]);
        let allowed = "0-3".parse().unwrap();
        RankContext { mpi, options: None, ranks, allowed, library: None, variables, is_root: false }
    }

    #[test]
    fn the_rank_of_the_innermost_launcher_counts() {
        let environment = |pairs: &'static [(&str, &str)]| {
            RankIdentity::from_environment(|name| {
                pairs.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned())
            })
        };
        let identity = |rank, local_rank| Some(RankIdentity { rank, local_rank });
        assert_eq!(environment(&[]), None);
        assert_eq!(environment(&[("SLURM_PROCID", "0"), ("PMI_RANK", "3"), ("MPI_LOCALRANKID", "1")]), identity(3, 1));
        assert_eq!(
            environment(&[
                ("OMPI_COMM_WORLD_RANK", "5"),
                ("OMPI_COMM_WORLD_LOCAL_RANK", "2"),
                ("PMIX_RANK", "5"),
                ("SLURM_LOCALID", "0")
            ]),
            identity(5, 2)
        );
        assert_eq!(environment(&[("SLURM_PROCID", "6"), ("SLURM_LOCALID", "2")]), identity(6, 2));
    }

    #[test]
    fn ranks_that_are_where_they_should_be_are_no_cause_for_words() {
        let seen = [rank(0, "0-1", &["0", "1"]), rank(1, "2-3", &["2", "3"])];
        assert_eq!(misconfigurations(&context(Mpi::OpenMpi, 2), &seen), Vec::<String>::new());
        let free = [rank(0, "0-3", &["0-3", "0-3"]), rank(1, "0-3", &["0-3", "0-3"])];
        assert_eq!(misconfigurations(&context(Mpi::OpenMpi, 2), &free), Vec::<String>::new());
    }

    #[test]
    fn what_srun_does_not_inherit_is_told() {
        let mut context = context(Mpi::Srun, 2);
        context.variables.insert("SLURM_CPUS_PER_TASK".into(), "2".into());
        let seen = [rank(0, "0", &["0", "0"]), rank(1, "1", &["1", "1"])];
        let told = misconfigurations(&context, &seen);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0]
                .contains("rank 0 has 2 threads, and srun gave it CPU 0 alone (SLURM_CPUS_PER_TASK=2 is not inherited"),
            "{told:?}"
        );
        assert!(told[0].contains("or -c 2 to srun itself"), "{told:?}");
    }

    #[test]
    fn root_is_told_why_open_mpi_starts_nothing_for_it_and_nobody_else_is() {
        let root = RankContext { is_root: true, ..context(Mpi::OpenMpi, 2) };
        let told = misconfigurations(&root, &[]);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("set OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"), "{told:?}");
        let mut half = root.clone();
        half.variables.insert(ROOT_VARIABLES[0].into(), "1".into());
        assert!(half.is_refused_root());
        let mut allowed = half.clone();
        allowed.variables.insert(ROOT_VARIABLES[1].into(), "1".into());
        let by_option = RankContext { options: Some(vec!["--allow-run-as-root".into()]), ..root.clone() };
        let other = RankContext { mpi: Mpi::Mpich, ..root };
        for context in [allowed, by_option, other, context(Mpi::OpenMpi, 2)] {
            let told = misconfigurations(&context, &[]);
            assert!(told.len() == 1 && told[0].starts_with("0 of 2 ranks were started"), "{told:?}");
        }
    }

    #[test]
    fn ranks_on_one_core_beside_idle_ones_are_told() {
        let told = misconfigurations(&context(Mpi::OpenMpi, 2), &[rank(0, "0", &["0"]), rank(1, "0", &["0"])]);
        assert!(told.iter().any(|told| told.contains("put ranks 0 and 1 on CPU 0, and none on CPUs 1-3")), "{told:?}");
    }

    #[test]
    fn options_that_ask_for_a_binding_are_known() {
        let asks = |text: &str| Mpi::asks_to_bind(&text.split(' ').map(String::from).collect::<Vec<_>>()).is_some();
        assert!(asks("--bind-to core") && asks("--cpu-bind=cores") && asks("--map-by slot:PE=2"));
        assert!(!asks("--bind-to none") && !asks("--cpu-bind=none") && !asks("--oversubscribe"));
    }
}
