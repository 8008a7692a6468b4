//! A study file is refused with a line that it has, or is one whose shares and durations are in range.
#![no_main]

use libfuzzer_sys::fuzz_target;
use study::study_file::StudyFile;

fuzz_target!(|text: &str| {
    match StudyFile::parse(text, &[]) {
        Err((line, what)) => {
            assert!(!what.is_empty());
            assert!((1..=text.split('\n').count()).contains(&line), "line {line}");
        }
        Ok(file) => {
            for share in file.stop.width.iter().chain(&file.stop.relative_sd) {
                assert!(share.0 > 0.0 && share.0 <= 1.0);
            }
            assert!(file.subjects.iter().all(|subject| subject.builtin.is_some() != subject.command.is_some()));
        }
    }
});
