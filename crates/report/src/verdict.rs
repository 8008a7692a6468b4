//! The verdicts of a study, parted by subject so that the answer isn't lost among them.

use crate::study_view::StudyView;
use study::{Claim, Subject, Summary};

/// With more comparisons than these, those that show no difference step back.
const MOST: usize = 4;

/// What is said of one subject, each sentence without the subject's name, which stands above.
pub(crate) struct Verdicts<'a> {
    /// Whether placement matters for it.
    pub headlines: Vec<&'a str>,
    /// The comparisons to be shown at once.
    pub comparisons: Vec<&'a str>,
    /// The comparisons without a difference shown, when there are too many of them.
    pub quiet: Vec<&'a str>,
}

impl<'a> Verdicts<'a> {
    /// The verdicts on `subject`: `name: ...` about the subject, `name, ...` about one comparison, the comparisons in
    /// the order of their summaries.
    pub(crate) fn on(study: &StudyView<'a>, subject: &Subject) -> Self {
        let told = |mark: &str| -> Vec<&'a str> {
            study.analysis.verdicts.iter().filter_map(|verdict| after_name(subject, mark, verdict)).collect()
        };
        let (headlines, all) = (told(": "), told(", "));
        let rivals: Vec<&Summary> = study.summaries(&subject.name).filter(|s| s.claim != Claim::Reference).collect();
        // Beside a paper's table, which has every one of them, none needs saying but those that show something.
        let few = all.len() <= MOST && study.record.plan.paper.is_none();
        let (mut comparisons, mut quiet) = (Vec::new(), Vec::new());
        for (index, &sentence) in all.iter().enumerate() {
            let shown = rivals.get(index).is_none_or(|s| matches!(s.claim, Claim::Faster | Claim::Slower));
            if shown || few || all.len() != rivals.len() {
                comparisons.push(sentence);
            } else {
                quiet.push(sentence);
            }
        }
        Self { headlines, comparisons, quiet }
    }

    /// The verdicts that are about no subject in particular.
    pub(crate) fn on_none(study: &StudyView<'a>) -> Vec<&'a str> {
        let named = |verdict: &str| {
            study
                .record
                .plan
                .subjects
                .iter()
                .any(|s| [": ", ", "].iter().any(|mark| after_name(s, mark, verdict).is_some()))
        };
        study.analysis.verdicts.iter().map(String::as_str).filter(|verdict| !named(verdict)).collect()
    }
}

fn after_name<'v>(subject: &Subject, mark: &str, verdict: &'v str) -> Option<&'v str> {
    verdict.strip_prefix(subject.name.as_str())?.strip_prefix(mark)
}
