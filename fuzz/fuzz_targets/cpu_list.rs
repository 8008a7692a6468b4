//! A CPU list is refused with a sentence that quotes what is wrong, or comes back the same from its own text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use machine::CpuSet;
use machine::cpu::parse_cpu_list;

fuzz_target!(|text: &str| {
    match parse_cpu_list(text) {
        Err(error) => {
            let said = error.to_string();
            let begin: String = text.trim().chars().take(200).collect();
            assert!(said.len() < 4000 && (said.contains(&begin) || said.contains("entries at most")), "{said}");
        }
        Ok(cpus) => {
            let set: CpuSet = cpus.iter().copied().collect();
            assert!(!set.is_empty());
            assert_eq!(text.parse(), Ok(set.clone()));
            assert_eq!(set.to_string().parse(), Ok(set));
        }
    }
});
