//! A CPU list is refused with a sentence that quotes it, or comes back the same from its own text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use machine::CpuSet;
use machine::cpu::parse_cpu_list;

fuzz_target!(|text: &str| {
    match parse_cpu_list(text) {
        Err(error) => assert!(text.trim().is_empty() || error.to_string().contains(text.trim())),
        Ok(cpus) => {
            let set: CpuSet = cpus.iter().copied().collect();
            assert!(!set.is_empty());
            assert_eq!(text.parse(), Ok(set.clone()));
            assert_eq!(set.to_string().parse(), Ok(set));
        }
    }
});
