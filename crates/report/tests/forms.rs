//! Every form of the report: golden texts, and no study that makes any of them fail.

mod fixture;

use stayput_report as report;
use study::{Analysis, Record};

type Form = (&'static str, fn(&Record, &Analysis) -> String);

const FORMS: [Form; 6] = [
    ("terminal", |record, analysis| report::terminal(record, analysis, 80, false)),
    ("html", report::html),
    ("markdown", report::markdown),
    ("latex", report::latex),
    ("csv", report::csv),
    ("json", report::json),
];

#[test]
fn every_form_tells_every_study_the_same_way_twice() {
    for (name, study) in fixture::all() {
        for (form, tell) in FORMS {
            let text = tell(&study.record, &study.analysis);
            assert!(text.ends_with('\n') || form == "html", "{form} of {name} ends with a line end");
            assert_eq!(text, tell(&study.record, &study.analysis), "{form} of {name}");
        }
    }
}
