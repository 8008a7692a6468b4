//! What goes wrong between a launcher of MPI programs, its options, the environment and the ranks: a sentence each, which says what to do.

use super::{Mpi, MpiLibrary, linked_mpi};
use crate::openmp::BINDING_VARIABLES;
use machine::CpuSet;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::ffi::OsString;
use std::path::Path;

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
    /// What it was told besides, none of which binds.
    pub further: Vec<String>,
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
    /// The CPUs of each core, those that may be used, where some core has several: its hardware threads.
    pub cores: Vec<CpuSet>,
    /// CPU time that the control group allows, in CPUs; none where there is no limit.
    pub cpu_limit: Option<f64>,
}

/// A variable of the environment by which launchers are told to bind ranks, and who heeds it.
struct BindingVariable {
    name: &'static str,
    by: Mpi,
    /// Whether of Hydra's launchers Intel MPI alone does.
    is_intel: bool,
}

const fn by(by: Mpi, name: &'static str) -> BindingVariable {
    BindingVariable { name, by, is_intel: false }
}

const fn by_intel(name: &'static str) -> BindingVariable {
    BindingVariable { name, by: Mpi::Mpich, is_intel: true }
}

/// Such variables: from mpirun(1) and the parameters that `ompi_info` and `prte_info` list, mpiexec of Hydra, Intel MPI's developer
/// reference and srun(1).
const LAUNCHER_VARIABLES: [BindingVariable; 13] = [
    by(Mpi::OpenMpi, "OMPI_MCA_hwloc_base_binding_policy"),
    by(Mpi::OpenMpi, "OMPI_MCA_hwloc_base_cpu_list"),
    by(Mpi::OpenMpi, "OMPI_MCA_hwloc_base_cpu_set"),
    by(Mpi::OpenMpi, "OMPI_MCA_rmaps_base_mapping_policy"),
    by(Mpi::OpenMpi, "OMPI_MCA_orte_rankfile"),
    by(Mpi::OpenMpi, "PRTE_MCA_hwloc_default_binding_policy"),
    by(Mpi::OpenMpi, "PRTE_MCA_hwloc_default_cpu_list"),
    by(Mpi::OpenMpi, "PRTE_MCA_rmaps_default_mapping_policy"),
    by(Mpi::Mpich, "HYDRA_BINDING"),
    by_intel("I_MPI_PIN_DOMAIN"),
    by_intel("I_MPI_PIN_PROCESSOR_LIST"),
    by_intel("I_MPI_PIN"),
    by(Mpi::Srun, "SLURM_CPU_BIND"),
];

/// Whether `name` is such a variable, or the parameter that one of them sets.
pub(super) fn is_launcher_variable(name: &str) -> bool {
    let prefixes = ["OMPI_MCA_", "PRTE_MCA_"];
    let parameter = |variable: &str| prefixes.iter().any(|prefix| variable.strip_prefix(prefix) == Some(name));
    LAUNCHER_VARIABLES.iter().any(|variable| variable.name == name || parameter(variable.name))
}

/// Variables that a process finds which an MPI launcher has started.
const IN_A_RANK: [&str; 2] = ["OMPI_COMM_WORLD_RANK", "PMI_RANK"];

/// Open MPI's mpirun starts nothing as root unless both are set.
const ROOT_VARIABLES: [&str; 2] = ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"];

impl RankContext {
    /// So many ranks that a launcher is to start in the environment of this process, where it may run on `allowed`, without options
    /// of the caller's.
    pub fn of_caller(mpi: Mpi, ranks: usize, allowed: CpuSet) -> Self {
        let names = BINDING_VARIABLES
            .into_iter()
            .chain(["OMP_NUM_THREADS", "SLURM_CPUS_PER_TASK", "SRUN_CPUS_PER_TASK", "SLURM_JOB_ID"])
            .chain(ROOT_VARIABLES)
            .chain(LAUNCHER_VARIABLES.iter().map(|variable| variable.name))
            .chain(IN_A_RANK);
        let variables = names.filter_map(|name| Some((name.to_owned(), env::var(name).ok()?))).collect();
        let is_root = nix::unistd::geteuid().is_root();
        let cores = machine::linux::system::hardware_threads(&allowed);
        let cpu_limit = machine::linux::control_group::cpu_limit();
        let (options, further) = (None, Vec::new());
        Self { mpi, options, further, ranks, allowed, library: None, variables, is_root, cores, cpu_limit }
    }

    /// `NAME=VALUE` of the variables among `names` that are set.
    fn set<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Vec<String> {
        names.into_iter().filter_map(|name| Some(format!("{name}={}", self.variables.get(name)?))).collect()
    }

    /// The variables that tell the launcher to bind, as `NAME=VALUE`, where nothing on its command line says how.
    fn telling_variables(&self) -> Vec<String> {
        if self.options.as_ref().is_some_and(|options| Mpi::asks_to_bind(options).is_some()) {
            return Vec::new();
        }
        let heeded = LAUNCHER_VARIABLES.iter().filter(|variable| variable.by == self.mpi);
        self.set(heeded.map(|variable| variable.name))
    }

    /// Whether Open MPI's mpirun refuses to start ranks for this user.
    fn is_refused_root(&self) -> bool {
        let is_allowed = ROOT_VARIABLES.iter().all(|name| self.variables.get(*name).is_some_and(|value| value == "1"))
            || self
                .options
                .iter()
                .flatten()
                .chain(&self.further)
                .any(|option| option.trim_start_matches('-') == "allow-run-as-root");
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
        bound_by_variable,
        variable_of_another,
        same_core,
        stacked_threads,
        piled_threads,
        threads_by_default,
        oversubscribed,
        several_parts,
        throttled,
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
/// variables that it is started with besides those of this process, `further` the words that it is told.
pub fn obstacle(mpi: Mpi, executable: &Path, set: &[(OsString, OsString)], further: &[String]) -> Option<String> {
    let caller = RankContext::of_caller(mpi, 0, CpuSet::default());
    let mut context = RankContext { library: linked_mpi(executable), further: further.to_vec(), ..caller };
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
    let around = context.variables.contains_key(IN_A_RANK[0]) && context.mpi == Mpi::OpenMpi;
    if ranks.is_empty() && around && !is_told {
        return Some(format!(
            "{} starts nothing within a program that it has itself started ({} is set): let stayput start the whole program, and not each \
             rank start one",
            launcher(context),
            IN_A_RANK[0]
        ));
    }
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
    let told = context.telling_variables();
    let misled = match slurm {
        Some(count) => format!(" (SLURM_CPUS_PER_TASK={count} is not inherited by srun)"),
        None if told.is_empty() => String::new(),
        None => format!(" (by {} in the environment)", told.join(" and ")),
    };
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
    let told = context.telling_variables();
    let why = match told.is_empty() {
        true => "two launchers on one node count from the same core, and so do ranks that each start a launcher; give each its own CPUs \
                 by --place"
            .to_owned(),
        false => format!("{} in the environment says so; unset it, or give each its own CPUs by --place", told.join(" and ")),
    };
    (!idle.is_empty()).then(|| {
        format!(
            "{} put ranks {} on {}, and none on {}: {why}",
            launcher(context),
            numbers(shared.iter().map(|rank| rank.rank)),
            cpus(&shared[0].inherited),
            cpus(&idle)
        )
    })
}

/// A variable made the launcher bind, which nobody may remember having set; where it did harm, that is told by others.
fn bound_by_variable(context: &RankContext, ranks: &[SeenRank]) -> Option<String> {
    let told = context.telling_variables();
    let narrowed = ranks.iter().find(|rank| !rank.bound && rank.inherited != context.allowed)?;
    let is_told = narrow_rank(context, ranks).is_some() || same_place(context, ranks).is_some();
    (!told.is_empty() && !is_told).then(|| {
        format!(
            "{} bound ranks (rank {} to {}) by {} in the environment, and nothing on its command line asks for it; unset it, or bind by --place",
            launcher(context),
            narrowed.rank,
            cpus(&narrowed.inherited),
            told.join(" and ")
        )
    })
}

/// A variable was to bind ranks that another MPI heeds.
fn variable_of_another(context: &RankContext, ranks: &[SeenRank]) -> Option<String> {
    // MPICH and Intel MPI share the name of their library, but for Debian's MPICH.
    let is_intel = context.mpi == Mpi::Mpich
        && context.library.as_ref().is_none_or(|library| library.soname.starts_with("libmpi.so"));
    let is_of_another = |variable: &&BindingVariable| variable.by != context.mpi || (variable.is_intel && !is_intel);
    let others = LAUNCHER_VARIABLES.iter().filter(is_of_another).filter(|variable| variable.by != Mpi::Srun);
    let set = context.set(others.map(|variable| variable.name));
    let is_free = !ranks.is_empty() && ranks.iter().all(|rank| !rank.bound && rank.inherited == context.allowed);
    (is_free && !set.is_empty() && context.allowed.len() > 1).then(|| {
        format!(
            "{} is for another MPI, and {} doesn't heed it: every rank could run on all of CPUs {}; bind by --place",
            set.join(" and "),
            launcher(context),
            context.allowed
        )
    })
}

/// The launcher put ranks on hardware threads of one core while other cores have none.
fn same_core(context: &RankContext, ranks: &[SeenRank]) -> Option<String> {
    let cores = &context.cores;
    let core_of = |rank: &SeenRank| cores.iter().position(|core| rank.inherited.difference(core).is_empty());
    let mut ranks_of: BTreeMap<usize, Vec<&SeenRank>> = BTreeMap::new();
    for rank in ranks.iter().filter(|rank| !rank.bound && rank.inherited.len() < context.allowed.len()) {
        if let Some(core) = core_of(rank) {
            ranks_of.entry(core).or_default().push(rank);
        }
    }
    let used: CpuSet = ranks.iter().flat_map(|rank| rank.inherited.iter()).collect();
    let idle = cores.iter().filter(|core| core.difference(&used) == **core).count();
    let shared = ranks_of
        .values()
        .find(|ranks| ranks.len() > 1 && ranks.windows(2).any(|two| two[0].inherited != two[1].inherited))?;
    let of_core: CpuSet = shared.iter().flat_map(|rank| rank.inherited.iter()).collect();
    (idle > 0).then(|| {
        format!(
            "{} put ranks {} on hardware threads of one core ({}), while {idle} core{} nobody; say --place ranks=scatter:core,threads=compact",
            launcher(context),
            numbers(shared.iter().map(|rank| rank.rank)),
            cpus(&of_core),
            if idle == 1 { " has" } else { "s have" }
        )
    })
}

/// The control group gives less CPU time than threads want.
fn throttled(context: &RankContext, ranks: &[SeenRank]) -> Option<String> {
    let threads: usize = ranks.iter().map(|rank| rank.threads.len()).sum();
    let limit = context.cpu_limit.filter(|limit| *limit < threads as f64 && *limit < context.allowed.len() as f64)?;
    Some(format!(
        "the control group allows {limit:.2} CPUs' worth of time, and {} ranks have {threads} threads: they are stopped again and again, \
         wherever they run; ask for more CPUs of the job or the container, or start fewer",
        ranks.len()
    ))
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
    let variables = context.set(BINDING_VARIABLES);
    if variables.is_empty() {
        return None;
    }
    let mut ranks_of: BTreeMap<u32, BTreeSet<usize>> = BTreeMap::new();
    for rank in ranks.iter().filter(|rank| !rank.bound) {
        for cpu in rank.threads.iter().filter_map(CpuSet::only).filter(|_| rank.inherited.len() > 1) {
            ranks_of.entry(cpu.0).or_default().insert(rank.rank);
        }
    }
    let (cpu, sharing) = ranks_of.iter().find(|(_, ranks)| ranks.len() > 1)?;
    Some(format!(
        "threads of ranks {} were bound to CPU {cpu}, by {}, which is the same for every rank; unset it, or let --place bind them",
        numbers(sharing.iter().copied()),
        variables.join(" and ")
    ))
}

/// All threads of a rank were bound to one CPU by variables, though it has several.
fn piled_threads(context: &RankContext, ranks: &[SeenRank]) -> Option<String> {
    let variables = context.set(BINDING_VARIABLES);
    let is_piled = |rank: &&SeenRank| {
        let first = rank.threads.first().and_then(CpuSet::only);
        let is_alone = first.is_some() && rank.threads.iter().all(|cpus| cpus.only() == first);
        !rank.bound && rank.threads.len() > 1 && rank.inherited.len() > 1 && is_alone
    };
    let piled = ranks.iter().find(is_piled).filter(|_| !variables.is_empty())?;
    // Where it happens to several ranks they are on the same CPU.
    stacked_threads(context, ranks).is_none().then(|| {
        format!(
            "all {} threads of rank {} were bound to {} of {}, by {}; unset it, say OMP_PROC_BIND=close, or let --place bind them",
            piled.threads.len(),
            piled.rank,
            cpus(&piled.threads[0]),
            piled.inherited,
            variables.join(" and ")
        )
    })
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
        let (cores, cpu_limit) = (Vec::new(), None);
        let (options, further) = (None, Vec::new());
        RankContext {
            mpi,
            options,
            further,
            ranks,
            allowed,
            library: None,
            variables,
            is_root: false,
            cores,
            cpu_limit,
        }
    }

    fn told(context: &RankContext, ranks: &[SeenRank]) -> String {
        let told = misconfigurations(context, ranks);
        assert_eq!(told.len(), 1, "one cause is told once: {told:?}");
        told[0].clone()
    }

    fn with(mpi: Mpi, name: &str, value: &str) -> RankContext {
        let mut context = context(mpi, 2);
        context.variables.insert(name.into(), value.into());
        context
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
    fn variables_by_which_launchers_bind_are_named_with_what_they_did() {
        let free = [rank(0, "0-3", &["0-3"]), rank(1, "0-3", &["0-3"])];
        let apart = [rank(0, "0", &["0"]), rank(1, "1", &["1"])];
        let narrow = [rank(0, "0", &["0", "0"]), rank(1, "1", &["1", "1"])];
        let same = [rank(0, "0", &["0"]), rank(1, "0", &["0"])];
        for (mpi, name) in [
            (Mpi::OpenMpi, "OMPI_MCA_hwloc_base_binding_policy"),
            (Mpi::OpenMpi, "PRTE_MCA_hwloc_default_binding_policy"),
            (Mpi::Mpich, "HYDRA_BINDING"),
            (Mpi::Srun, "SLURM_CPU_BIND"),
        ] {
            let context = RankContext { options: Some(Vec::new()), ..with(mpi, name, "core") };
            let by = format!("by {name}=core in the environment");
            assert!(told(&context, &apart).contains(&by) && told(&context, &apart).contains("rank 0 to CPU 0"));
            assert!(told(&context, &narrow).contains(&by));
            assert!(told(&context, &same).contains(&format!("{name}=core in the environment says so")));
            assert_eq!(misconfigurations(&context, &free), Vec::<String>::new(), "it did nothing");
            let asked = RankContext { options: Some(vec!["--bind-to".into(), "core".into()]), ..context };
            assert_eq!(misconfigurations(&asked, &apart), Vec::<String>::new(), "that was asked for");
        }
    }

    #[test]
    fn a_variable_of_another_mpi_is_told_where_it_was_to_bind() {
        let free = [rank(0, "0-3", &["0-3"]), rank(1, "0-3", &["0-3"])];
        let mut context = with(Mpi::Mpich, "I_MPI_PIN_DOMAIN", "socket");
        let library = |soname: &str| Some(MpiLibrary { soname: soname.into(), is_open_mpi: false });
        context.library = library("libmpich.so.12");
        let sentence = "I_MPI_PIN_DOMAIN=socket is for another MPI, and MPICH's mpiexec doesn't heed it";
        assert!(told(&context, &free).starts_with(sentence), "{}", told(&context, &free));
        // It may be Intel MPI, which our -bind-to none overrules.
        context.library = library("libmpi.so.12");
        assert_eq!(misconfigurations(&context, &free), Vec::<String>::new());
        let open_mpi = with(Mpi::OpenMpi, "I_MPI_PIN", "1");
        assert!(told(&open_mpi, &free).contains("Open MPI's mpirun doesn't heed it"));
        let bound = free.map(|rank| SeenRank { bound: true, ..rank });
        assert!(misconfigurations(&open_mpi, &bound).iter().all(|told| !told.contains("heed")));
    }

    /// Two packages of two cores with two hardware threads each, as Linux numbers them.
    #[test]
    fn ranks_on_the_hardware_threads_of_one_core_are_told_where_cores_are_idle() {
        let cores = ["0,4", "1,5", "2,6", "3,7"].map(|cpus| cpus.parse().unwrap()).to_vec();
        let smt = RankContext { cores, allowed: "0-7".parse().unwrap(), ..context(Mpi::Mpich, 2) };
        let siblings = [rank(0, "0", &["0"]), rank(1, "4", &["4"])];
        let sentence = told(&smt, &siblings);
        assert!(
            sentence
                .contains("put ranks 0 and 1 on hardware threads of one core (CPUs 0,4), while 3 cores have nobody"),
            "{sentence}"
        );
        let apart = [rank(0, "0", &["0"]), rank(1, "1", &["1"])];
        assert_eq!(misconfigurations(&smt, &apart), Vec::<String>::new());
        let all: Vec<SeenRank> = (0..8).map(|cpu| rank(cpu, &cpu.to_string(), &[&cpu.to_string()])).collect();
        assert_eq!(
            misconfigurations(&RankContext { ranks: 8, ..smt.clone() }, &all),
            Vec::<String>::new(),
            "no core is idle"
        );
        let bound = siblings.map(|rank| SeenRank { bound: true, ..rank });
        assert_eq!(misconfigurations(&smt, &bound), Vec::<String>::new(), "that was asked for");
    }

    #[test]
    fn threads_of_a_rank_that_variables_pile_on_one_cpu_are_told() {
        let mut context = with(Mpi::OpenMpi, "OMP_PROC_BIND", "master");
        context.variables.insert("OMP_PLACES".into(), "threads".into());
        context.ranks = 1;
        let sentence = told(&context, &[rank(0, "0-3", &["0", "0"])]);
        assert!(
            sentence.contains(
                "all 2 threads of rank 0 were bound to CPU 0 of 0-3, by OMP_PLACES=threads and OMP_PROC_BIND=master"
            ),
            "{sentence}"
        );
        assert_eq!(misconfigurations(&context, &[rank(0, "0-3", &["0", "1"])]), Vec::<String>::new());
    }

    #[test]
    fn a_limit_of_the_control_group_is_told_that_is_less_than_threads_want() {
        let seen = [rank(0, "0-1", &["0", "1"]), rank(1, "2-3", &["2", "3"])];
        let limited = |limit| RankContext { cpu_limit: Some(limit), ..context(Mpi::OpenMpi, 2) };
        assert!(told(&limited(1.5), &seen).contains("allows 1.50 CPUs' worth of time, and 2 ranks have 4 threads"));
        assert_eq!(misconfigurations(&limited(4.0), &seen), Vec::<String>::new());
    }

    #[test]
    fn open_mpi_within_open_mpi_is_told_as_that() {
        let sentence = told(&with(Mpi::OpenMpi, "OMPI_COMM_WORLD_RANK", "0"), &[]);
        assert!(sentence.contains("starts nothing within a program that it has itself started"), "{sentence}");
        assert!(told(&with(Mpi::Mpich, "OMPI_COMM_WORLD_RANK", "0"), &[]).starts_with("0 of 2 ranks were started"));
    }
}
