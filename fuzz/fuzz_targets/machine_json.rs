//! A machine in our JSON, as it stands in journals, is refused with a sentence, or is a machine that can be shown in every form.
#![no_main]

use libfuzzer_sys::fuzz_target;
use machine::Machine;

fuzz_target!(|text: &str| {
    match serde_json::from_str::<Machine>(text) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(machine) => {
            assert!(!machine.pus().is_empty());
            assert!(!machine.to_text(None).is_empty());
            let json = serde_json::to_string(&machine).expect("a machine has a JSON form");
            assert_eq!(serde_json::from_str::<Machine>(&json).expect("our own JSON is read"), machine);
            let _ = machine.to_xml();
        }
    }
});
