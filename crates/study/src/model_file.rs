//! The model file: how long a program takes under each class of placement, and how its times scatter, in TOML.
//!
//! ```toml
//! name = "bt.B"
//!
//! [noise]
//! lognormal = "2 %"                              # relative standard deviation
//! drift = "5 %"                                  # by which times have grown after 100 runs
//! outliers = { share = "3 %", factor = 1.5 }     # runs that take so many times as long
//!
//! [[time]]
//! placement = "unbound"
//! mean_s = 60.5
//! slow = { share = "40 %", factor = 1.6 }        # two modes
//!
//! [[time]]
//! placement = "balanced"                         # a policy or CPU list: stands for its whole class
//! threads = 8                                    # without it, any number
//! mean_s = 46.3
//!
//! [others]                                       # every class that no [[time]] names
//! mean_s = 50.0
//! spread = "30 %"                                # drawn evenly between mean_s and 30 % more
//! ```

use crate::bounds::check_count;
use crate::model::{CellTime, Noise, Slow, SubjectModel};
use crate::plan::{Cell, Plan, UNBOUND};
use crate::shape::Shape;
use crate::study_file::Share;
use crate::toml_file::{self, FileError};
use machine::{CpuId, CpuSet, Distinct, Machine, Policy};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;
use sim::toml_text::{self, Mistake, line_at};
use std::collections::BTreeMap;
use std::path::Path;

/// More tables of times than anybody writes; each may list as many CPUs as a placement has.
const MOST_TIMES: usize = 1000;

/// A model file as read.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelFile {
    /// How the report calls the subject.
    pub name: String,
    /// How times scatter.
    #[serde(default)]
    noise: NoiseTable,
    /// Times of classes, in the order in which they are looked up.
    #[serde(default)]
    time: Vec<TimeTable>,
    /// Times of all other classes.
    others: Option<OthersTable>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct NoiseTable {
    lognormal: Option<Share>,
    drift: Option<Share>,
    outliers: Option<SlowTable>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct TimeTable {
    placement: String,
    threads: Option<u32>,
    mean_s: f64,
    slow: Option<SlowTable>,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct SlowTable {
    share: Share,
    factor: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct OthersTable {
    mean_s: f64,
    spread: Option<Share>,
}

impl From<SlowTable> for Slow {
    fn from(SlowTable { share, factor }: SlowTable) -> Self {
        Self { share: share.0, factor }
    }
}

impl ModelFile {
    /// Reads the model file at `path`.
    ///
    /// # Errors
    /// [`FileError`], with the line.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        toml_file::read("model file", path, Self::parse)
    }

    /// Reads a model file's text.
    ///
    /// # Errors
    /// The line, from 1, and what is wrong there.
    pub fn parse(text: &str) -> Result<Self, Mistake> {
        let file: Self = toml_text::parse(text)?;
        let line = |path: &str| line_at(text, path);
        let positive = |value: f64| value.is_finite() && value > 0.0;
        check_count(file.time.len(), MOST_TIMES, "[[time]] tables").map_err(|wrong| (line("time"), wrong.0))?;
        for (index, time) in file.time.iter().enumerate() {
            let table = format!("time[{index}]");
            if !positive(time.mean_s) {
                let what = format!("`mean_s` of `{}` must be above 0 seconds, not {}", time.placement, time.mean_s);
                return Err((line(&table), what));
            }
            if time.placement != UNBOUND {
                time.placement.parse::<Policy>().map_err(|error| (line(&table), error.to_string()))?;
            }
            check_slow(time.slow).map_err(|what| (line(&table), what))?;
        }
        check_slow(file.noise.outliers).map_err(|what| (line("noise.outliers"), what))?;
        if let Some(others) = file.others.filter(|others| !positive(others.mean_s)) {
            return Err((line("others"), format!("`mean_s` must be above 0 seconds, not {}", others.mean_s)));
        }
        Ok(file)
    }

    /// The model for the cells of `plan` on `machine`: each takes the time of the first table that names its placement, or
    /// one of its class.
    ///
    /// # Errors
    /// The first cell that has no time, or a placement that this machine can't make, in one sentence.
    pub fn for_plan(&self, plan: &Plan, machine: &Machine) -> Result<SubjectModel, String> {
        let distinct = Distinct::new(machine).map_err(|error| error.to_string())?;
        let class = |cpus: CpuSet| match distinct.class_of(&cpus) {
            Ok(class) => class.cpus.into_iter().collect(),
            // Threads that share CPUs are a class of their own.
            Err(_) => cpus,
        };
        // The class of each table at each thread count, where the machine can make it.
        let mut named: BTreeMap<(usize, Shape), CpuSet> = BTreeMap::new();
        for (position, time) in self.time.iter().enumerate().filter(|(_, time)| time.placement != UNBOUND) {
            let policy: Policy = time.placement.parse().map_err(|error: machine::PlaceError| error.to_string())?;
            for &threads in plan.threads.iter().filter(|count| time.threads.is_none_or(|only| **count == only)) {
                let placement = policy.place(machine, threads.total() as usize).map_err(|error| error.to_string())?;
                named.insert((position, threads), class(placement.union()));
            }
        }
        let time_of = |cell: Cell| {
            let (threads, name) = (plan.threads[cell.threads], &plan.treatments[cell.treatment].name);
            let here = plan.placement(cell).map(|placement| class(placement.union()));
            let asked = |time: &&TimeTable| time.threads.is_none_or(|only| threads == only);
            let of_class = |(position, time): (usize, &TimeTable)| match &here {
                None => time.placement == UNBOUND,
                Some(here) => named.get(&(position, threads)) == Some(here),
            };
            let by_name = self.time.iter().filter(asked).find(|time| time.placement == *name);
            let by_class = || {
                let all = self.time.iter().enumerate();
                all.filter(|(_, time)| asked(time))
                    .find(|&(position, time)| of_class((position, time)))
                    .map(|(_, time)| time)
            };
            let (mean_s, slow) = match (by_name.or_else(by_class), self.others) {
                (Some(time), _) => (time.mean_s, time.slow),
                (None, Some(others)) => {
                    let spread = others.spread.map_or(0.0, |share| share.0);
                    (others.mean_s * (1.0 + spread * evenly(plan.seed, threads.total(), here.as_ref())), None)
                }
                (None, None) => {
                    return Err(format!(
                        "the model has no time for {name} with {threads} threads; add a [[time]] for it, or [others]"
                    ));
                }
            };
            Ok(CellTime { threads, placement: name.clone(), mean_s, slow: slow.map(Slow::from) })
        };
        let one_subject = plan.cells().filter(|cell| cell.subject == 0);
        Ok(SubjectModel {
            times: one_subject.map(time_of).collect::<Result<_, _>>()?,
            noise: Noise {
                lognormal: self.noise.lognormal.map_or(0.0, |share| share.0),
                drift: self.noise.drift.map_or(0.0, |share| share.0),
                outliers: self.noise.outliers.map(Slow::from),
            },
        })
    }
}

fn check_slow(slow: Option<SlowTable>) -> Result<(), String> {
    match slow {
        Some(SlowTable { factor, .. }) if !(factor.is_finite() && factor >= 1.0) => {
            Err(format!("`factor` must be at least 1, not {factor}"))
        }
        _ => Ok(()),
    }
}

/// A number between 0 and 1 for a class: the same whatever other classes there are.
fn evenly(seed: u64, threads: u32, class: Option<&CpuSet>) -> f64 {
    let start = ChaCha8Rng::seed_from_u64(seed ^ u64::from(threads) << 32);
    let chained =
        |mut draws: ChaCha8Rng, cpu: CpuId| ChaCha8Rng::seed_from_u64(draws.random::<u64>() ^ u64::from(cpu.0));
    class.into_iter().flat_map(CpuSet::iter).fold(start, chained).random()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Subject, Treatment};
    use std::time::Duration;

    fn example() -> String {
        let lines = include_str!("model_file.rs").lines().skip_while(|line| *line != "//! ```toml").skip(1);
        let text = lines.take_while(|line| *line != "//! ```");
        text.map(|line| line.trim_start_matches("//!").trim_start().to_owned() + "\n").collect()
    }

    fn plan(machine: &Machine, threads: u32, lists: &[&str]) -> Plan {
        let listed = |list: &&str| {
            let placement = list.parse::<Policy>().unwrap().place(machine, threads as usize).ok();
            Treatment::new((*list).to_owned(), vec![placement])
        };
        Plan {
            subjects: vec![Subject { name: "app".into(), argv: vec!["app".into()], ..Subject::default() }],
            threads: vec![threads.into()],
            treatments: std::iter::once(Treatment::unbound()).chain(lists.iter().map(listed)).collect(),
            warmup_blocks: 0,
            timeout: Duration::from_secs(600),
            seed: 1,
            ..Plan::default()
        }
    }

    #[test]
    fn the_example_in_the_docs_is_a_model_file() {
        let file = ModelFile::parse(&example()).unwrap();
        let machine = Machine::named("xeon-e5620").unwrap();
        let plan = plan(&machine, 8, &["0-7"]);
        let model = file.for_plan(&plan, &machine).unwrap();
        let times: Vec<(&str, f64)> = model.times.iter().map(|t| (t.placement.as_str(), t.mean_s)).collect();
        assert_eq!(times, [("unbound", 60.5), ("0-7", 46.3)]);
        assert_eq!(model.times[0].slow, Some(Slow { share: 0.4, factor: 1.6 }));
        assert_eq!(
            model.noise,
            Noise { lognormal: 0.02, drift: 0.05, outliers: Some(Slow { share: 0.03, factor: 1.5 }) }
        );
    }

    #[test]
    fn a_time_stands_for_every_placement_of_its_class() {
        let machine = Machine::named("xeon-e5620").unwrap();
        let file = ModelFile::parse(
            "name = \"x\"\n[[time]]\nplacement = \"compact\"\nmean_s = 2.0\n[[time]]\nplacement = \"unbound\"\nmean_s = 3.0\n\
             [others]\nmean_s = 1.0\nspread = \"50 %\"\n",
        )
        .unwrap();
        let means = |lists: &[&str]| -> Vec<f64> {
            let plan = plan(&machine, 2, lists);
            file.for_plan(&plan, &machine).unwrap().times.iter().map(|time| time.mean_s).collect()
        };
        let times = means(&["5,6", "0,4", "3,7"]);
        assert_eq!(times[..2], [3.0, 2.0], "CPUs 5 and 6 are a pair in one package, as compact's are");
        assert!(times[2] == times[3] && (1.0..1.5).contains(&times[2]), "both are pairs across packages: {times:?}");
    }

    #[test]
    fn a_mistake_is_told_with_its_line() {
        let mistake = |text: &str| ModelFile::parse(text).unwrap_err();
        assert_eq!(mistake("name = \"x\"\n\n[[time]]\nplacement = \"scatter\"\nmean_s = -1\n").0, 3);
        let (line, what) = mistake("name = \"x\"\n[[time]]\nplacement = \"scattered\"\nmean_s = 1\n");
        assert!(line == 2 && what.contains("`scattered` is no policy"), "{what}");
        let (line, what) = mistake("name = \"x\"\n[noise]\noutliers = { share = \"3 %\", factor = 0.5 }\n");
        assert_eq!((line, what.as_str()), (3, "`factor` must be at least 1, not 0.5"));
        let commented = "name = \"x\"\n# [[time]], [others] and outliers\n[[time]]\nplacement = \"scatter\"\nmean_s = ";
        assert_eq!(mistake(&format!("{commented}-1\n")).0, 3);
        assert_eq!(mistake(&format!("{commented}1\n[others]\nmean_s = 0\n")).0, 6);
        assert_eq!(mistake(&format!("{commented}1\n[noise]\noutliers = {{ share = \"3 %\", factor = 0.5 }}\n")).0, 7);
        assert_eq!(mistake("[others]\nmean_s = 1\n").1, "missing field `name`");
        let machine = Machine::named("xeon-e5620").unwrap();
        let lacking = ModelFile::parse("name = \"x\"\n").unwrap().for_plan(&plan(&machine, 2, &[]), &machine);
        assert!(lacking.unwrap_err().contains("no time for unbound with 2 threads"));
    }
}
