//! Words by which launchers of MPI programs bind ranks, or start another number of them.

use super::Mpi;
use super::misconfigurations::is_launcher_variable;

/// Options that bind ranks, without the dashes before them: from mpirun(1), mpiexec of Hydra and srun(1).
const BINDING: [&str; 16] = [
    "bind-to",
    "bind-to-core",
    "bind-to-socket",
    "binding",
    "cpu-set",
    "cpu-list",
    "cpu-bind",
    "cpu_bind",
    "cpus-per-proc",
    "cpus-per-rank",
    "rankfile",
    "rf",
    "map-by",
    "hint",
    "extra-node-info",
    "threads-per-core",
];

/// Options that set a parameter or a variable, whose name comes next.
const SETTING: [&str; 6] = ["mca", "gmca", "prtemca", "env", "genv", "x"];

/// Options that say how many ranks there are, how many CPUs each has, or on how many nodes.
const COUNTING: [&str; 8] = ["n", "np", "c", "N", "ntasks", "cpus-per-task", "nodes", "ntasks-per-core"];

/// The options among a launcher's words, each with its name without dashes, and what follows it: behind an equals sign, or as the next word.
fn options(words: &[String]) -> impl Iterator<Item = (&String, &str, Option<&str>)> {
    words.iter().enumerate().filter(|(_, word)| word.starts_with('-')).map(|(at, word)| {
        let (name, value) = word.split_once('=').map_or((word.as_str(), None), |(name, value)| (name, Some(value)));
        (word, name.trim_start_matches('-'), value.or(words.get(at + 1).map(String::as_str)))
    })
}

/// Whether an option binds; that it shall bind nothing is no binding.
fn binds(name: &str, value: Option<&str>) -> bool {
    let sets = || value.is_some_and(|value| is_launcher_variable(value.split('=').next().unwrap_or(value)));
    BINDING.contains(&name) && value != Some("none") || SETTING.contains(&name) && sets()
}

impl Mpi {
    /// The option among these by which a launcher is asked to bind ranks.
    pub(crate) fn asks_to_bind(words: &[String]) -> Option<&String> {
        options(words).find(|(_, name, value)| binds(name, *value)).map(|(word, ..)| word)
    }

    /// Why these words can't stand beside ranks that somebody else places and counts: the one that binds, or says how many there are.
    pub fn conflict(words: &[String]) -> Option<String> {
        let is_count = |name: &str| {
            // Also `-n4`, as srun has it.
            let letters = name.trim_end_matches(|digit: char| digit.is_ascii_digit());
            COUNTING.contains(&name) || letters.len() == 1 && letters != name && COUNTING.contains(&letters)
        };
        options(words).find_map(|(word, name, value)| {
            if binds(name, value) {
                let word = if SETTING.contains(&name) { value.unwrap_or(word) } else { word };
                return Some(format!("`{word}` binds ranks"));
            }
            is_count(name)
                .then(|| format!("`{word}` says how many ranks there are, or how many CPUs or nodes they have"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(String::from).collect()
    }

    #[test]
    fn options_that_ask_for_a_binding_are_known() {
        let asks = |text: &str| Mpi::asks_to_bind(&words(text)).is_some();
        assert!(asks("--bind-to core") && asks("--cpu-bind=cores") && asks("--map-by slot:PE=2"));
        assert!(asks("--mca hwloc_base_binding_policy core") && asks("-genv I_MPI_PIN_DOMAIN socket"));
        assert!(!asks("--bind-to none") && !asks("--cpu-bind=none") && !asks("--oversubscribe"));
        assert!(!asks("--mca pml ob1") && !asks("-genv OMP_STACKSIZE 1g"));
    }

    #[test]
    fn what_fights_a_placement_is_named_and_the_rest_is_let_be() {
        let conflict = |text: &str| Mpi::conflict(&words(text));
        assert_eq!(conflict("--mca pml ob1 --bind-to core").unwrap(), "`--bind-to` binds ranks");
        assert_eq!(
            conflict("--mca rmaps_base_mapping_policy numa").unwrap(),
            "`rmaps_base_mapping_policy` binds ranks"
        );
        assert_eq!(
            conflict("-x OMPI_MCA_hwloc_base_cpu_list=0").unwrap(),
            "`OMPI_MCA_hwloc_base_cpu_list=0` binds ranks"
        );
        assert!(conflict("-np 4").unwrap().starts_with("`-np` says how many ranks"));
        assert!(conflict("--mpi=pmix -c4").unwrap().starts_with("`-c4` says how many"));
        for text in ["--mpi=pmix", "--mca pml ob1 --bind-to none", "-x NAME=3", "-genv FI_PROVIDER tcp", "--tag-output"]
        {
            assert_eq!(conflict(text), None, "{text}");
        }
    }
}
