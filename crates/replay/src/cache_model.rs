//! What the caches of a virtual machine would have missed in its replays, by the plugin that models them.

use crate::output::{ReplayOutput, RunFailure};
use crate::series::SeriesError;
use misses::Report;
use misses::window::SECTIONS;
use std::fs;
use std::path::{Path, PathBuf};
use vm::{Plugin, Vm};

/// The metrics that say how many of 1,000 references to the workload's data missed the L2 and the L3.
pub const L2_MISSES: &str = "l2_misses_per_1000";
/// See [`L2_MISSES`].
pub const L3_MISSES: &str = "l3_misses_per_1000";

/// An instruction takes 2 ns of the guest's time: what it does must not depend on how much a model slows it down. Of 8 ns, the end of a process of
/// 4 MB and the birth of another took 15 to 40 ms, in which the kernel evens the others out over its CPUs.
const ICOUNT_SHIFT: u8 = 1;

/// A model of the caches of a virtual machine. Each replay is a section of its report, numbered from 1.
pub(crate) struct CacheModel {
    /// Where the plugin writes its report, on this host.
    out: PathBuf,
}

impl CacheModel {
    /// Whether so many replays can be told apart in one boot.
    pub(crate) fn check(count: usize) -> Result<(), SeriesError> {
        let most = SECTIONS as usize - 1;
        if count > most { Err(SeriesError::TooMany { count, most }) } else { Ok(()) }
    }

    /// Lets the plugin `library` watch `vm`. Its caches are those of the machine described in the file `machine`.
    pub(crate) fn watching(vm: &mut Vm, library: &Path, machine: &Path, out: PathBuf) -> Self {
        let arguments = vec![format!("machine={}", machine.display()), format!("out={}", out.display())];
        vm.plugin = Some(Plugin { library: library.into(), arguments });
        vm.icount_shift = Some(ICOUNT_SHIFT);
        Self { out }
    }

    /// Text for the shell that counts a command by itself; `replay` is its position in the boot.
    pub(crate) fn marked(replay: usize, command: &[String]) -> String {
        let mark = |section: usize| format!("stayput-guest mark {section} > /dev/null");
        format!("{} && {}; code=$?; {}; exit $code", mark(replay + 1), command.join(" "), mark(0))
    }

    /// Adds what the replay missed to what it showed.
    pub(crate) fn with_misses(&self, mut output: ReplayOutput, replay: usize) -> Result<ReplayOutput, RunFailure> {
        let unread = |cause: &dyn std::fmt::Display| RunFailure::UnreadableMisses(cause.to_string());
        let text = fs::read_to_string(&self.out).map_err(|error| unread(&error))?;
        let report: Report = serde_json::from_str(&text).map_err(|error| unread(&error))?;
        let section =
            report.sections.get(&(replay as u32 + 1)).ok_or_else(|| unread(&"the plugin saw no such replay"))?;
        if section.all.accesses == 0 {
            output.notes.push("the workload uses no memory, so that there was nothing to miss".into());
        }
        output.metrics.extend(section.all.per_1000());
        Ok(output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::Kind;
    use misses::report::{Causes, Counts, Section};
    use std::collections::BTreeMap;

    #[test]
    fn a_replay_gets_what_its_own_section_missed_of_a_thousand_references() {
        assert!(L3_MISSES.replace("l3", "l2") == L2_MISSES);
        let causes = Causes { cold: 9, steady: 1, reload: 4, migration: 2, contention: 3, invalidation: 0 };
        let all = Counts { accesses: 2_000, causes: BTreeMap::from([(Kind::Cache(2), causes)]), ..Counts::default() };
        let report = Report {
            machine: String::new(),
            caches: Vec::new(),
            line_bytes: 64,
            assumptions: Vec::new(),
            others: true,
            sections: BTreeMap::from([(1, Section::default()), (2, Section { all, ..Section::default() })]),
        };
        let folder = tempfile::tempdir().unwrap();
        let model = CacheModel { out: folder.path().join("misses.json") };
        assert!(
            model
                .with_misses(ReplayOutput::default(), 0)
                .unwrap_err()
                .to_string()
                .starts_with("what its caches missed can't be read: ")
        );
        fs::write(&model.out, serde_json::to_string(&report).unwrap()).unwrap();
        let output = model.with_misses(ReplayOutput::default(), 1).unwrap();
        assert_eq!((output.metrics[L2_MISSES], output.metrics["l2_cold_misses_per_1000"]), (5.0, 4.5));
        assert_eq!((output.metrics["l2_reload_misses_per_1000"], output.notes.len()), (2.0, 0));
        let idle = model.with_misses(ReplayOutput::default(), 0).unwrap();
        assert_eq!((idle.metrics.len(), idle.notes.len()), (0, 1));
        assert!(
            model
                .with_misses(ReplayOutput::default(), 2)
                .unwrap_err()
                .to_string()
                .ends_with("the plugin saw no such replay")
        );
    }

    #[test]
    fn a_marked_replay_ends_with_its_own_code() {
        let text = CacheModel::marked(4, &["/bin/replay".into(), "scenario.json".into()]);
        let mark = "stayput-guest mark";
        let expected =
            format!("{mark} 5 > /dev/null && /bin/replay scenario.json; code=$?; {mark} 0 > /dev/null; exit $code");
        assert_eq!(text, expected);
    }
}
