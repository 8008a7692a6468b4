//! The model of a virtual machine's caches: what it wrote, and the metrics that come of it.

use crate::metric::Metric;
use crate::trial::Trial;
use machine::{Kind, Machine};
use misses::Report;
use misses::report::Causes;
use misses::window::SECTIONS;
use stats::Better;
use std::fs;
use std::path::PathBuf;

/// A model of the caches of a virtual machine, one for all boots.
#[derive(Debug)]
pub struct CacheModel {
    /// Where the plugin of qemu writes its report, on this host.
    pub report: PathBuf,
}

/// As many trials can be told apart in one boot.
pub(crate) const TRIALS_OF_A_BOOT: u32 = SECTIONS - 1;

impl CacheModel {
    /// Adds what was missed in section `number` to a trial that went well.
    ///
    /// # Errors
    /// In words, when that isn't known.
    pub(crate) fn counted(&self, mut trial: Trial, number: u32) -> Result<Trial, String> {
        let unread = |cause: &dyn std::fmt::Display| format!("what its caches missed can't be read: {cause}");
        let text = fs::read_to_string(&self.report).map_err(|error| unread(&error))?;
        let report: Report = serde_json::from_str(&text).map_err(|error| unread(&error))?;
        let section = report.sections.get(&number).ok_or_else(|| unread(&"the plugin saw no such run"))?;
        if section.all.accesses == 0 {
            return Err(unread(&"the plugin saw no task of the program"));
        }
        trial.more.get_or_insert_default().values.extend(section.all.per_1000());
        Ok(trial)
    }
}

/// What is counted in caches of `machine`: misses of 1,000 references by level, from L2 outwards, and by cause. Those that no placement
/// or scheduler is expected to change only describe.
pub fn metrics(machine: &Machine) -> Vec<Metric> {
    let levels = (2..=4_u8).filter(|&level| machine.count(Kind::Cache(level)) > 0);
    let of_level = |level: u8| {
        let causes = Causes::default().by_name().map(|(cause, _)| (format!("{cause}_misses"), cause));
        let all = std::iter::once(("misses".to_owned(), "all")).chain(causes);
        all.map(move |(what, cause)| {
            let describes = matches!(cause, "cold" | "steady");
            let better = if describes { Better::Neither } else { Better::Lower };
            Metric::new(format!("l{level}_{what}_per_1000"), None, better)
        })
    };
    levels.flat_map(of_level).collect()
}
