//! The best placement out of a study's journal, for `stayput run --place FILE.stayput`.

use crate::UsageError;
use launch::Conditions;
use machine::Placement;
use std::path::Path;
use study::identity::Change;
use study::{Analysis, Best, Binding, Identity, Plan};

/// Where a study found a program fastest.
pub struct BestPlacement {
    /// None when binding nothing was best.
    pub placement: Option<Placement>,
    /// What else it ran under.
    pub conditions: Conditions,
    /// The thread count that goes with it.
    pub threads: u32,
    /// How the study bound the program's threads.
    pub binding: Binding,
    /// How the program differs from the one that was studied.
    pub changes: Vec<Change>,
}

/// The best placement of `argv`'s program, from the journal at `path`: of the subject with the same program, or of the only
/// subject.
///
/// # Errors
/// When the journal can't be read, is unfinished, or holds no such subject.
pub fn best_placement(path: &Path, argv: &[String]) -> anyhow::Result<BestPlacement> {
    let study = report::Study::read(path).map_err(UsageError::from)?;
    let (plan, Analysis { best, .. }) = match &study {
        report::Study::Comparison(record, analysis) => (&record.plan.plan, analysis),
        report::Study::Race(record, analysis) => (&record.plan.plan, &analysis.cells),
        report::Study::Simulation(..) | report::Study::Replay(..) => {
            return Err(UsageError::from(format!("journal {} holds no study of placements", path.display())));
        }
    };
    let chosen = match best.as_slice() {
        [] => {
            return Err(UsageError::from(format!("journal {} has no answer to go by; `stayput report` on it says why", path.display())));
        }
        [only] => only,
        several => several.iter().find(|best| runs_program(plan, best, argv)).ok_or_else(|| {
            let names: Vec<&str> = several.iter().map(|best| best.subject.as_str()).collect();
            UsageError::from(format!(
                "journal {} has several subjects ({}), none of which is this program; give --place a policy or CPU list",
                path.display(),
                names.join(", ")
            ))
        })?,
    };
    if chosen.threads.ranks().is_some() {
        return Err(UsageError::from(format!(
            "journal {} is of ranks, which --mpi starts; say what was best there: -n {} --place {}",
            path.display(),
            chosen.threads,
            chosen.placement
        )));
    }
    let treatment = plan.treatments.iter().find(|treatment| treatment.name == chosen.placement);
    let column = plan.threads.iter().position(|threads| *threads == chosen.threads);
    let placement = treatment.zip(column).and_then(|(treatment, column)| treatment.placement(column).cloned());
    let conditions = treatment.map(|treatment| treatment.conditions.clone()).unwrap_or_default();
    let subject = plan.subjects.iter().find(|subject| subject.name == chosen.subject);
    let binding = subject.map(|subject| subject.binding.clone()).unwrap_or_default();
    // Under another name it may be another program, of which nothing is claimed.
    let then = subject.and_then(|subject| subject.identity.as_ref());
    let then = then.filter(|then| then.files.first().map(|file| &file.name) == argv.first());
    let now = then.and_then(|_| Identity::of_commands(&[argv.to_vec()]));
    let changes = then.zip(now).map(|(then, now)| then.changes(&now)).unwrap_or_default();
    Ok(BestPlacement { placement, conditions, threads: chosen.threads.total(), binding, changes })
}

fn runs_program(plan: &Plan, best: &Best, argv: &[String]) -> bool {
    let file_name = |program: &str| Path::new(program).file_name().map(ToOwned::to_owned);
    let ours = plan.subjects.iter().filter(|subject| subject.name == best.subject);
    // The same arguments too where that tells two subjects apart.
    let same_program = |subject: &&study::Subject| {
        subject.placed_argv(1.into()).first().and_then(|p| file_name(p)) == argv.first().and_then(|p| file_name(p))
    };
    let rivals = plan.subjects.iter().filter(same_program).count();
    ours.filter(same_program).any(|subject| rivals == 1 || subject.placed_argv(1.into())[1..] == argv[1..])
}
