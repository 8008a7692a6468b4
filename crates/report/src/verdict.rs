//! The verdicts of a study, parted by subject so that the answer isn't lost among them.

use crate::sentences::{self, Sentence};
use crate::study_view::StudyView;
use study::Subject;

/// With more comparisons than these, those that show no difference step back.
const MOST: usize = 4;

/// What is said of one subject, each sentence without the subject's name, which stands above.
pub(crate) struct Verdicts {
    /// Whether placement matters for it.
    pub headline: Option<String>,
    /// The comparisons to be shown at once.
    pub comparisons: Vec<String>,
    /// The comparisons without a difference shown, when there are too many of them.
    pub quiet: Vec<String>,
}

impl Verdicts {
    /// The verdicts on `subject`.
    pub(crate) fn on(study: &StudyView, subject: &Subject) -> Self {
        let mut headline = None;
        let mut details: Vec<(bool, String)> = Vec::new();
        for sentence in sentences::of_cells(study) {
            match sentence {
                Sentence::Headline { subject: name, text } if name == subject.name => headline = Some(text),
                Sentence::Detail { subject: name, text, is_shown } if name == subject.name => {
                    details.push((is_shown, text));
                }
                _ => {}
            }
        }
        // Beside a paper's table, which has every one of them, none needs saying but those that show something.
        let few = details.len() <= MOST && study.plan.paper.is_none();
        let (comparisons, quiet): (Vec<_>, Vec<_>) = details.into_iter().partition(|(is_shown, _)| *is_shown || few);
        let texts = |details: Vec<(bool, String)>| details.into_iter().map(|(_, text)| text).collect();
        Self { headline, comparisons: texts(comparisons), quiet: texts(quiet) }
    }
}
