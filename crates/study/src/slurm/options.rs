//! What is said to Slurm about a study: where its blocks run, how many at a time, and how many of them decide together.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// An array has at most so many tasks here; Slurm's own default (`MaxArraySize`) is 1001.
const MOST_BLOCKS: u32 = 1000;

/// Options of `sbatch` that are ours to give, or would break what we give.
const OWN_OPTIONS: [&str; 24] = [
    "array",
    "batch",
    "begin",
    "bell",
    "chdir",
    "clusters",
    "cpu-bind",
    "dependency",
    "error",
    "export",
    "export-file",
    "help",
    "hold",
    "input",
    "job-name",
    "nodes",
    "no-requeue",
    "ntasks",
    "open-mode",
    "output",
    "parsable",
    "requeue",
    "wait",
    "wrap",
];

/// A Slurm cluster as a study sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlurmSite {
    /// Options of `sbatch` as they are given, by their long names: a partition, an account, a time limit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<(String, String)>,
    /// At most so many blocks run at a time, each on a node.
    pub nodes: u32,
    /// So many blocks decide together: they run what was open when the first of them began.
    pub round: u32,
    /// So many CPUs of a node are asked for, and others may have the rest; none is the whole node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// So often each program is run on a node before a block of it, uncounted.
    #[serde(default)]
    pub warmup_runs: u32,
    /// Names this study in Slurm's queue and in the files of its blocks, whatever numbers Slurm gives. Drawn when the study begins.
    #[serde(default)]
    pub study: String,
}

impl Default for SlurmSite {
    fn default() -> Self {
        let study = format!("{:016x}", rand::random::<u64>());
        Self { options: Vec::new(), nodes: 1, round: 1, cpus: None, warmup_runs: 1, study }
    }
}

/// A text that says nothing to Slurm, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("slurm: {0}")]
pub struct ParseSlurmError(String);

impl FromStr for SlurmSite {
    type Err = ParseSlurmError;

    /// Options with commas between them: `partition=p,nodes=4,exclusive`.
    fn from_str(text: &str) -> Result<Self, ParseSlurmError> {
        let mut site = Self::default();
        let (mut is_exclusive, mut round) = (false, None);
        let wrong = |what: String| Err(ParseSlurmError(what));
        for word in text.split(',').filter(|_| !text.is_empty()) {
            let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
            let number = || {
                let number = value.and_then(|value| value.parse().ok()).filter(|n| (1..=MOST_BLOCKS).contains(n));
                number.ok_or_else(|| ParseSlurmError(format!("`{name}` is a number from 1 to {MOST_BLOCKS}")))
            };
            match name {
                "nodes" => site.nodes = number()?,
                "round" => round = Some(number()?),
                "cpus" => site.cpus = Some(number()?),
                "exclusive" if value.is_none() => is_exclusive = true,
                _ if OWN_OPTIONS.contains(&name) => return wrong(format!("`{name}` is Stayput's own to say")),
                _ if name.is_empty() || !name.chars().all(|c| c.is_ascii_lowercase() || c == '-') => {
                    let quoted = machine::quoted(word);
                    return wrong(format!("`{quoted}` is no option; write them as in partition=p,nodes=4,exclusive"));
                }
                _ if site.options.iter().any(|(other, _)| other == name) => {
                    return wrong(format!("`{name}` is given twice; give it once"));
                }
                _ => match value.filter(|value| !value.is_empty()) {
                    Some(value) => site.options.push((name.to_owned(), value.to_owned())),
                    None => return wrong(format!("`{}` has no value", machine::quoted(name))),
                },
            }
        }
        if is_exclusive && site.cpus.is_some() {
            return wrong("`exclusive` has all CPUs of a node, and `cpus` some; give one".into());
        }
        site.round = round.unwrap_or(site.nodes);
        Ok(site)
    }
}

impl fmt::Display for SlurmSite {
    /// As it is asked for.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("slurm")?;
        let mut words: Vec<String> = self.options.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if self.nodes != 1 {
            words.push(format!("nodes={}", self.nodes));
        }
        if self.round != self.nodes {
            words.push(format!("round={}", self.round));
        }
        words.extend(self.cpus.map(|cpus| format!("cpus={cpus}")));
        if words.is_empty() { Ok(()) } else { write!(f, ":{}", words.join(",")) }
    }
}

impl SlurmSite {
    /// What is said to whatever asks for a node, `sbatch` or `srun`.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["--nodes=1".to_owned(), "--ntasks=1".to_owned()];
        arguments.push(match self.cpus {
            Some(cpus) => format!("--cpus-per-task={cpus}"),
            None => "--exclusive".to_owned(),
        });
        arguments.extend(self.options.iter().map(|(name, value)| format!("--{name}={value}")));
        arguments
    }

    /// What the job is called by which a node is asked what machine it is.
    pub(crate) fn survey_name(&self) -> String {
        format!("stayput-{}-look", self.study)
    }

    /// `asked` as a study goes on by it that began by this: where its blocks run may change, but not its name, nor how many decide together.
    #[must_use]
    pub fn gone_on_with(&self, asked: &Self) -> Self {
        Self { round: self.round, warmup_runs: self.warmup_runs, study: self.study.clone(), ..asked.clone() }
    }

    /// The first block of the round that `block` belongs to, in a plan that runs from `first_block` on.
    pub(crate) fn round_of(&self, block: u32, first_block: u32) -> u32 {
        let round = self.round.max(1);
        first_block + block.saturating_sub(first_block) / round * round
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_shown_as_they_are_asked_for() {
        for (text, shown) in [
            ("", "slurm"),
            ("exclusive", "slurm"),
            ("partition=p,nodes=4,exclusive", "slurm:partition=p,nodes=4"),
            ("nodes=4,round=8,cpus=16", "slurm:nodes=4,round=8,cpus=16"),
            ("time=2:00:00,account=a", "slurm:time=2:00:00,account=a"),
        ] {
            let site: SlurmSite = text.parse().unwrap();
            assert_eq!(site.to_string(), shown);
            let json = serde_json::to_string(&site).unwrap();
            assert_eq!(serde_json::from_str::<SlurmSite>(&json).unwrap(), site, "{json}");
        }
        assert_eq!("nodes=4".parse::<SlurmSite>().unwrap().round, 4, "as many as run at a time");
        assert_ne!(SlurmSite::default().study, SlurmSite::default().study, "every study has a name of its own");
        for (text, part) in [
            ("nodes=0", "`nodes` is a number from 1 to 1000"),
            ("nodes", "`nodes` is a number"),
            ("array=1-3", "`array` is Stayput's own to say"),
            ("partition", "`partition` has no value"),
            ("qos=a,qos=b", "`qos` is given twice"),
            ("a b=c", "`a b=c` is no option"),
            ("cpus=2,exclusive", "give one"),
        ] {
            let error = text.parse::<SlurmSite>().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn rounds_lie_side_by_side_from_the_first_block_on() {
        let site: SlurmSite = "nodes=3".parse().unwrap();
        let rounds: Vec<u32> = (0..7).map(|block| site.round_of(block, 0)).collect();
        assert_eq!(rounds, [0, 0, 0, 3, 3, 3, 6]);
        let rounds: Vec<u32> = (4..9).map(|block| site.round_of(block, 4)).collect();
        assert_eq!(rounds, [4, 4, 4, 7, 7]);
    }
}
