//! Texts of a megabyte that are made to take long: each has an answer, and soon.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "../../machine/tests/answers/mod.rs"]
mod answers;

use answers::{check, filled, numbered};
use sim::WorkloadFile;
use sim::space::Graph;

fn workload(text: &str) -> Result<(), String> {
    WorkloadFile::parse(text).map(drop).map_err(|(line, what)| format!("{line}: {what}"))
}

fn graph(text: &str) -> Result<(), String> {
    Graph::parse(text).map(drop).map_err(|(line, what)| format!("{line}: {what}"))
}

#[test]
fn workload_files() {
    let named = |jobs: &str| format!("name = \"w\"\n{jobs}");
    let locks: Vec<String> = (0..100).map(|n| format!("\"l{n}\"")).collect();
    let acquired = |order: &mut dyn Iterator<Item = usize>| -> String {
        order.map(|n| format!("{{acquire=\"l{n}\"}},")).collect()
    };
    let released: String = (0..100).map(|n| format!("{{release=\"l{n}\"}},")).collect();
    let job = |steps: &str, number: usize| {
        let locks = locks.join(",");
        format!(
            "[[jobs]]\nname=\"j{number}\"\nprocesses=1\nlocks=[{locks}]\n[jobs.process]\n[[jobs.process.phases]]\nsteps=[{steps}{{work={{constant=1.0}}}}]\n"
        )
    };
    let nested = acquired(&mut (0..100)) + &released;
    let both = nested.clone() + &acquired(&mut (0..100).rev()) + &released;
    let many = numbered(2000, |n| format!("\"l{n}\","));
    check(
        vec![
            (
                "applications",
                named(
                    filled("[[applications]]\napplication=\"Matrix\"\n")
                        .split_at(1_000_012)
                        .0
                        .rsplit_once("[[")
                        .unwrap()
                        .0,
                ),
                Some("is not a number from 1 to 1000"),
            ),
            ("a thousand applications", named(&"[[applications]]\napplication=\"Matrix\"\n".repeat(1000)), None),
            (
                "locks",
                named(&format!("[[jobs]]\nname=\"j\"\nprocesses=1\nlocks=[{many}]\n[jobs.process]\n")),
                Some("is not a number from 0 to 100"),
            ),
            ("nested locks", named(&numbered(20, |n| job(&nested, n))), None),
            ("a deadlock", named(&(numbered(20_000, |n| job(&nested, n)) + &job(&both, 9999))), Some("a deadlock")),
            (
                "phases",
                named(&format!(
                    "[[jobs]]\nname=\"j\"\nprocesses=1\n[jobs.process]\n{}",
                    "[[jobs.process.phases]]\nsteps=[{work={constant=1.0}}]\n".repeat(18_000)
                )),
                None,
            ),
            (
                "bins",
                named(&format!(
                    "[[jobs]]\nname=\"j\"\nprocesses=1\n[jobs.process]\nwork_ms={{histogram={{edges_ms=[{}],percent=[1.0]}}}}\n",
                    numbered(2000, |n| format!("{n}.0,"))
                )),
                Some("rising edges"),
            ),
            ("parameters", named(&numbered(100, |n| format!("parameters.k{n} = 1\n"))), Some("unknown field")),
            ("nested lists", format!("x = {}", filled("[").split_at(1_000_000).0), Some("recurse")),
        ],
        workload,
    );
    // Joined names make workloads, too.
    check(vec![("joined", "Matrix+".repeat(100_000) + "Matrix", Some("is no built-in workload"))], |text| {
        let file = WorkloadFile::named(text).map_err(|error| error.to_string());
        file?.workload.check().map_err(|error| format!("is no built-in workload: {error}"))
    });
}

#[test]
fn graph_files() {
    let stage = |tasks: &str| format!("[[stages]]\nname=\"s\"\nwork_ms={{constant=1.0}}\ntasks={{{tasks}}}\n");
    let head = "name=\"g\"\n";
    let listed = |tasks: String| format!("{head}{}", stage(&format!("listed=[{tasks}]")));
    check(
        vec![
            (
                "a chain",
                listed(numbered(200, |n| {
                    format!(
                        "{{name=\"t{n}\",after=[{}]}},",
                        if n == 0 { String::new() } else { format!("\"t{}\"", n - 1) }
                    )
                })),
                None,
            ),
            (
                "a circle",
                listed(numbered(200, |n| {
                    format!("{{name=\"t{n}\",after=[\"t{}\"]}},", if n == 0 { 9 } else { n - 1 })
                })),
                Some("it could never begin"),
            ),
            (
                "all after all before",
                listed(
                    (0..300)
                        .map(|n| {
                            format!(
                                "{{name=\"{n}\",after=[{}]}},",
                                (0..n).map(|m| format!("\"{m}\",")).collect::<String>()
                            )
                        })
                        .collect(),
                ),
                None,
            ),
            (
                "the same task",
                listed(filled("{name=\"t\"},").split_at(1_000_005).0.rsplit_once('{').unwrap().0.into()),
                Some("is listed twice"),
            ),
            (
                "after the same",
                listed(format!("{{name=\"t\"}},{{name=\"u\",after=[{}]}}", "\"t\",".repeat(200_000))),
                None,
            ),
            (
                "a wavefront",
                format!("{head}{}", stage("wavefront={rows=4294967295,columns=4294967295}")),
                Some("is not a number from 1 to 20000000"),
            ),
            ("a wide wavefront", format!("{head}{}", stage("wavefront={rows=20000000,columns=1}")), None),
            (
                "stages",
                format!("{head}{}", stage("independent=20000000").repeat(14_000)),
                Some("is not a number from 1 to 4000000000"),
            ),
            (
                "rounds",
                format!("{head}rounds=4294967295\n{}", stage("independent=20000000").repeat(14_000)),
                Some("is not a number from 1 to 10000000"),
            ),
            ("nested lists", format!("x = {}", filled("[").split_at(1_000_000).0), Some("recurse")),
        ],
        graph,
    );
}
