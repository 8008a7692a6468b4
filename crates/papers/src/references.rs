//! Whether the tables and figures that a paper speaks of are there.

use crate::paper::References;
use crate::verdict::{Judgement, Verdict, undecidable};

/// Each table and figure that the text refers to is one that the paper has.
pub(super) fn cited_exist(references: &References) -> Judgement {
    let (cited, captioned) = (&references.cited, &references.captioned);
    let missing: Vec<&str> = cited.iter().filter(|name| !captioned.contains(name)).map(String::as_str).collect();
    let idle: Vec<&str> = captioned.iter().filter(|name| !cited.contains(name)).map(String::as_str).collect();
    let mut why = format!("the text refers to {}", list(cited.iter().map(String::as_str)));
    if !missing.is_empty() {
        why += &format!(", but there is no {}", missing.join(", no "));
    }
    if !idle.is_empty() {
        why += &format!("; to {} it never refers", list(idle.into_iter()));
    }
    let verdict = match (cited.is_empty(), missing.is_empty()) {
        (true, _) => Verdict::Undecidable,
        (_, true) => Verdict::Holds,
        (_, false) => Verdict::Fails,
    };
    (verdict, why)
}

/// Each table and figure that the paper has a caption of is among those `with_data`.
pub(super) fn captioned_have_data(references: &References, with_data: &[&str]) -> Judgement {
    let captioned = &references.captioned;
    let bare: Vec<&str> = captioned.iter().map(String::as_str).filter(|name| !with_data.contains(name)).collect();
    match (captioned.len(), bare.len()) {
        (0, _) => undecidable("no caption is known"),
        (all, 0) => (Verdict::Holds, format!("all {all} have data")),
        (all, number) => {
            (Verdict::Fails, format!("{number} of {all} have a caption and no data: {}", list(bare.into_iter())))
        }
    }
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn references(cited: &[&str], captioned: &[&str]) -> References {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        References { cited: owned(cited), captioned: owned(captioned) }
    }

    #[test]
    fn what_is_cited_must_be_there() {
        let verdict = |cited: &[&str]| cited_exist(&references(cited, &["Table 1", "Figure 1"]));
        assert_eq!(verdict(&["Table 1", "Figure 1"]).0, Verdict::Holds);
        assert_eq!(
            verdict(&["Table 1", "Figure 4"]),
            (
                Verdict::Fails,
                "the text refers to Table 1, Figure 4, but there is no Figure 4; to Figure 1 it never refers".into()
            )
        );
        assert_eq!(verdict(&[]).0, Verdict::Undecidable);
    }

    #[test]
    fn a_caption_alone_is_no_data() {
        let references = references(&[], &["Table V", "Figure 1"]);
        assert_eq!(captioned_have_data(&references, &["Table V", "Figure 1"]).0, Verdict::Holds);
        let (verdict, why) = captioned_have_data(&references, &["Figure 1"]);
        assert_eq!((verdict, why.as_str()), (Verdict::Fails, "1 of 2 have a caption and no data: Table V"));
    }
}
