//! A synthetic string is refused with a sentence that quotes it or how it begins, or describes a machine that comes back the same from
//! its JSON. hwloc, which reads it, never ends the process.
#![no_main]

use libfuzzer_sys::fuzz_target;
use machine::{Machine, Source};

fuzz_target!(|text: &str| {
    match Machine::read(&Source::Synthetic(text.into())) {
        Err(error) => {
            let begin: String = text.chars().take(200).collect();
            assert!(error.to_string().contains(&begin));
        }
        Ok(machine) => {
            assert!(!machine.pus().is_empty());
            assert!(!machine.to_text(None).is_empty());
            let json = serde_json::to_string(&machine).expect("a machine has a JSON form");
            assert_eq!(serde_json::from_str::<Machine>(&json).expect("our own JSON is read"), machine);
        }
    }
});
