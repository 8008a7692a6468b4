//! The commands of a subject that are compared with one another, as treatments are.

use crate::plan::{Plan, PlanError, Subject};
use crate::preparation::Preparation;
use crate::shape::Shape;
use crate::treatment::Treatment;
use serde::{Deserialize, Serialize};

/// A command that stands for the subject's own under the treatment of its name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    /// The name of the treatment, which is that of the command.
    pub treatment: String,
    /// Program and arguments, as for [`Subject::argv`]; it holds no secret value.
    pub argv: Vec<String>,
    /// What is run around its runs.
    #[serde(default, skip_serializing_if = "Preparation::is_none")]
    pub preparation: Preparation,
}

impl Subject {
    /// Its command under the treatment of that name, where that has one of its own.
    pub(crate) fn variant(&self, treatment: &str) -> Option<&Variant> {
        self.variants.iter().find(|variant| variant.treatment == treatment)
    }

    /// Program and arguments under the treatment of that name, with `threads` threads, as they are kept.
    pub fn argv_under(&self, treatment: &str, threads: Shape) -> Vec<String> {
        let own = self.variant(treatment).map(|variant| &variant.argv);
        own.map_or_else(
            || self.argv_for(threads),
            |argv| Self { argv: argv.clone(), ..Self::default() }.argv_for(threads),
        )
    }

    /// What is run around its runs under the treatment of that name.
    pub(crate) fn preparation_under(&self, treatment: &str) -> &Preparation {
        self.variant(treatment).map_or(&self.preparation, |variant| &variant.preparation)
    }
}

impl Plan {
    /// Whether commands are compared with one another.
    pub fn compares_commands(&self) -> bool {
        self.subjects.iter().any(|subject| !subject.variants.is_empty())
    }

    /// Makes one subject of all, whose commands are compared under the only treatment that there is; nothing where there are several, or
    /// one subject alone.
    pub(crate) fn compare_commands(&mut self) {
        let ([treatment], true) = (&self.treatments[..], self.subjects.len() > 1) else { return };
        let treatment_of = |subject: &Subject| {
            let place = treatment.place().to_owned();
            Treatment { name: subject.name.clone(), place, ..treatment.clone() }
        };
        let treatments = self.subjects.iter().map(treatment_of).collect();
        let variant = |subject: &Subject| Variant {
            treatment: subject.name.clone(),
            argv: subject.argv.clone(),
            preparation: subject.preparation.clone(),
        };
        let variants: Vec<Variant> = self.subjects.iter().map(variant).collect();
        let name = common_name(&self.subjects);
        let mut one = self.subjects.swap_remove(0);
        (one.name, one.variants) = (name, variants);
        (self.subjects, self.treatments) = (vec![one], treatments);
    }

    /// Whether every command is one, and holds no secret value.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub(crate) fn check_variants(&self, subject: &Subject) -> Result<(), PlanError> {
        let redaction = self.redaction();
        for variant in &subject.variants {
            if variant.argv.first().is_none_or(String::is_empty) {
                return Err(PlanError(format!("command `{}` names no program", variant.treatment)));
            }
            if !redaction.words(&variant.argv).1.is_empty() {
                return Err(PlanError(format!(
                    "command {} holds a secret value, and journals keep commands that are compared as they are run; give the value by a \
                     file or a variable",
                    1 + subject.variants.iter().take_while(|other| *other != variant).count()
                )));
            }
            variant.preparation.check(&redaction)?;
        }
        let names_all = self.treatments.iter().all(|treatment| subject.variant(&treatment.name).is_some());
        match subject.variants.is_empty() || names_all {
            true => Ok(()),
            false => Err(PlanError("a treatment has none of the commands that are compared".into())),
        }
    }
}

/// What commands are called together: by their program, where that is one.
fn common_name(subjects: &[Subject]) -> String {
    let program = |subject: &Subject| subject.argv.first().cloned().unwrap_or_default();
    let first = subjects.first().map(program).unwrap_or_default();
    let is_common = subjects.iter().all(|subject| program(subject) == first);
    match is_common && !matches!(first.as_str(), "sh" | "bash" | "env") {
        true => format!("{first}, {} commands", subjects.len()),
        false => format!("{} commands", subjects.len()),
    }
}
