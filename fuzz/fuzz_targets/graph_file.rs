//! A graph file is refused with a line that it has, or can be simulated, and is the same again from its own TOML.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sim::space::{Graph, Kind, Mix};

fuzz_target!(|text: &str| {
    match Graph::parse(text) {
        Err((line, what)) => {
            assert!(!what.is_empty());
            assert!((1..=text.split('\n').count()).contains(&line), "line {line}");
        }
        Ok(graph) => {
            let (span_ms, work_ms) = (graph.span_ms(), graph.work_ms());
            assert!(graph.tasks() > 0 && span_ms > 0.0, "{} tasks, {span_ms} ms", graph.tasks());
            assert!(span_ms <= work_ms * (1.0 + 1e-9), "{span_ms} of {work_ms} ms one after the other");
            let again = toml::to_string(&graph).expect("a graph is TOML");
            assert_eq!(Graph::parse(&again).as_ref(), Ok(&graph));
            Mix { name: "fuzzed".into(), kinds: vec![Kind { graph, count: 2 }] }.check().expect("it was checked");
        }
    }
});
