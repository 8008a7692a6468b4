//! A model file is refused with a line that it has, or makes a model of a small plan or says why not.
#![no_main]

use libfuzzer_sys::fuzz_target;
use machine::Machine;
use std::sync::LazyLock;
use std::time::Duration;
use study::model_file::ModelFile;
use study::{Plan, Subject, Treatment};

static MACHINE: LazyLock<Machine> =
    LazyLock::new(|| Machine::named("pack:2 core:2 pu:2").expect("the synthetic string is right"));

fuzz_target!(|text: &str| {
    match ModelFile::parse(text) {
        Err((line, what)) => {
            assert!(!what.is_empty());
            assert!((1..=text.split('\n').count()).contains(&line), "line {line}");
        }
        Ok(file) => {
            let plan = Plan {
                subjects: vec![Subject { name: file.name.clone(), ..Subject::default() }],
                threads: vec![1.into(), 4.into()],
                treatments: vec![Treatment::unbound()],
                warmup_blocks: 0,
                timeout: Duration::from_secs(600),
                seed: 1,
                ..Plan::default()
            };
            match file.for_plan(&plan, &MACHINE) {
                Err(what) => assert!(!what.is_empty()),
                Ok(model) => assert!(model.times.iter().all(|time| time.mean_s.is_finite() && time.mean_s > 0.0)),
            }
        }
    }
});
