//! The model of the kernel's own scheduler, held against what a kernel did: `measured.json`, which the test of the same name below
//! `tests/kernel` measures in virtual machines.

#![allow(clippy::unwrap_used, reason = "in a test, a failed unwrap is a failed test")]

mod experiments;
mod figures;
mod policies;

#[test]
fn the_model_of_the_kernels_scheduler_does_what_the_kernel_did() {
    let compared = figures::compared(&figures::measured());
    eprintln!("{}", figures::table(&compared));
    figures::check(&compared);
}

/// Where a kernel shows that one policy lets processes migrate more, run longer or miss more than another, the models say so, too.
#[test]
fn the_models_of_policies_are_in_the_kernels_order() {
    let text = std::fs::read_to_string(policies::measured_path()).unwrap();
    let measured: policies::Measured = serde_json::from_str(&text).unwrap();
    let compared = policies::compared(&measured);
    eprintln!("{}", compared.table);
    policies::check(&compared);
}

/// Each decision by itself: what `tests/kernel` asked a kernel.
#[test]
fn the_model_answers_as_the_kernel_did() {
    let text = std::fs::read_to_string(experiments::answers_path()).unwrap();
    let (table, unexpected) = experiments::compared(&serde_json::from_str(&text).unwrap());
    eprintln!("{table}");
    assert!(unexpected.is_empty(), "not as is known: {unexpected:?}\n{table}");
}
