//! A workload file is refused with a line that it has, or can be simulated, and is the same again from its own TOML.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sim::WorkloadFile;

fuzz_target!(|text: &str| {
    match WorkloadFile::parse(text) {
        Err((line, what)) => {
            assert!(!what.is_empty());
            assert!((1..=text.split('\n').count()).contains(&line), "line {line}");
        }
        Ok(file) => {
            file.workload.check().expect("it was checked");
            file.parameters.check().expect("they were checked");
            let again = toml::to_string(&file.workload).expect("a workload is TOML");
            assert_eq!(WorkloadFile::parse(&again).map(|file| file.workload), Ok(file.workload));
        }
    }
});
