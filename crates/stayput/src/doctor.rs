//! `stayput doctor`: what this machine can and can't measure, what disturbs it, and what would help.

use machine::{CpuState, Kind, Machine};
use serde::Serialize;
use std::time::Duration;
use study::host::{LOAD_TO_TELL, STEAL_TO_TELL};
use study::{HostFacts, HostState};

/// Say what this machine can and can't measure, what disturbs it, and what would help
#[derive(clap::Args)]
pub struct DoctorArgs {
    /// The form of the findings
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

/// How good a finding is.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Grade {
    /// As one would wish.
    Good,
    /// Works, with a limit or a disturbance.
    Limited,
    /// Isn't there.
    Missing,
}

#[derive(Serialize)]
struct Finding {
    topic: &'static str,
    grade: Grade,
    /// What was found, and where.
    found: String,
    /// What would help; empty when nothing needs to.
    help: String,
}

/// How long the machine is watched for load and steal.
const WATCH: Duration = Duration::from_millis(300);

/// Prints the findings.
pub fn run(args: &DoctorArgs) -> anyhow::Result<u8> {
    let findings = findings();
    let text = match args.format {
        Format::Json => serde_json::to_string_pretty(&findings)? + "\n",
        Format::Text => text(&findings),
    };
    crate::print(&text)?;
    Ok(crate::SUCCESS)
}

/// A line a finding, and one below it where something would help.
fn text(findings: &[Finding]) -> String {
    let widest = findings.iter().map(|finding| finding.topic.len()).max().unwrap_or(0);
    let mut text = String::new();
    for Finding { topic, grade, found, help } in findings {
        let mark = match grade {
            Grade::Good => "ok",
            Grade::Limited => "!",
            Grade::Missing => "-",
        };
        text.push_str(&format!("{mark:2} {topic:widest$}  {found}\n"));
        if !help.is_empty() {
            text.push_str(&format!("   {:widest$}  {help}\n", ""));
        }
    }
    text
}

fn findings() -> Vec<Finding> {
    let before = HostState::read();
    std::thread::sleep(WATCH);
    let after = HostState::read();
    let facts = HostFacts::read();
    let mut findings = Vec::new();
    let mut add = |topic, grade, found: String, help: &str| {
        findings.push(Finding { topic, grade, found, help: help.to_owned() });
    };

    let cpus = match Machine::host() {
        Ok(machine) => {
            let usable = machine.usable_cpus();
            add(
                "topology",
                Grade::Good,
                format!(
                    "{} usable CPUs ({usable}) on {} cores, {} L3, {} NUMA nodes, {} packages",
                    usable.len(),
                    machine.count(Kind::Core),
                    machine.count(Kind::Cache(3)),
                    machine.numa_nodes().len(),
                    machine.count(Kind::Package)
                ),
                "",
            );
            let barred: Vec<String> = machine
                .pus()
                .iter()
                .filter_map(|pu| match machine.state(pu.cpu) {
                    CpuState::Usable => None,
                    state => Some(format!("CPU {}: {state}", pu.cpu)),
                })
                .collect();
            if !barred.is_empty() || !machine.offline_cpus().is_empty() {
                let mut found = barred.join("; ");
                if !machine.offline_cpus().is_empty() {
                    found.push_str(&format!(" offline: {}", machine.offline_cpus()));
                }
                add("other CPUs", Grade::Limited, found, "placements leave these CPUs out; widen the mask to use them");
            }
            if usable.len() == 1 {
                add(
                    "placement",
                    Grade::Missing,
                    "with one usable CPU there is only one placement".into(),
                    "study it where there are more, or on a preset with `stayput place --machine`",
                );
            }
            usable.len()
        }
        Err(error) => {
            add(
                "topology",
                Grade::Missing,
                error.to_string(),
                "policies need it; CPU lists such as --place 0,1 work without",
            );
            1
        }
    };

    match launch::trace_available() {
        Ok(()) => add(
            "binding",
            Grade::Good,
            "every thread can be bound at birth and read back at its end (ptrace)".into(),
            "",
        ),
        Err(reason) => add(
            "binding",
            Grade::Limited,
            format!("threads are bound by looking for them, so short ones can be missed: {reason}"),
            "allow ptrace (containers: --cap-add SYS_PTRACE, or a seccomp profile that has it)",
        ),
    }
    match launch::migrations_available() {
        Ok(how) => add("migrations", Grade::Good, format!("counted through {how}"), ""),
        Err(reason) => {
            add("migrations", Grade::Missing, reason, "needs /proc/PID/sched (CONFIG_SCHED_DEBUG) or perf events")
        }
    }
    match launch::counters_available() {
        Ok(()) => add("hardware counters", Grade::Good, "cycles, instructions, cache and branch misses".into(), ""),
        Err(reason) => {
            add("hardware counters", Grade::Missing, reason, "times, switches and migrations are measured all the same")
        }
    }

    match crate::sched::check() {
        Ok(found) => add("affinity scheduler", Grade::Good, found, ""),
        Err(reason) => add(
            "affinity scheduler",
            Grade::Missing,
            reason,
            "`stayput sched` needs it; `stayput run --place` and `stayput simulate` work without",
        ),
    }

    let load = after.load_average.map(|load| load[0]);
    match load {
        Some(load) if load > LOAD_TO_TELL * cpus as f64 => add(
            "load",
            Grade::Limited,
            format!("load average {load:.2} over the last minute on {cpus} CPUs (/proc/loadavg)"),
            "something else runs; stop it, or let studies take more blocks",
        ),
        Some(load) => add("load", Grade::Good, format!("load average {load:.2}"), ""),
        None => add("load", Grade::Missing, "/proc/loadavg can't be read".into(), ""),
    }
    if let Some(hypervisor) = &facts.hypervisor {
        add(
            "hypervisor",
            Grade::Limited,
            format!("this is a virtual machine ({hypervisor}): its CPUs may share real cores with others, and move"),
            "read differences of a few percent with care; bare metal is better",
        );
    }
    match after.steal_since(&before) {
        Some(steal) if steal > STEAL_TO_TELL => add(
            "steal",
            Grade::Limited,
            format!("the hypervisor took {:.1} % of CPU time just now (/proc/stat)", steal * 100.0),
            "the host is busy; measure at another time",
        ),
        Some(steal) => add("steal", Grade::Good, format!("{:.1} % of CPU time", steal * 100.0), ""),
        None => {}
    }
    match after.governors.as_slice() {
        [] => add("frequency", Grade::Limited, "no governor to see (/sys/devices/system/cpu/cpufreq)".into(), ""),
        [only] if only == "performance" => add("frequency", Grade::Good, "governor performance".into(), ""),
        others => add(
            "frequency",
            Grade::Limited,
            format!("governor {}", others.join(", ")),
            "`cpupower frequency-set -g performance` steadies the clock",
        ),
    }
    match after.smt_active {
        Some(true) => add(
            "SMT",
            Grade::Limited,
            "several hardware threads a core are online".into(),
            "scatter and balanced use one a core first; compact fills cores",
        ),
        Some(false) => add("SMT", Grade::Good, "one hardware thread a core".into(), ""),
        None => {}
    }
    if let Some(limit) = after.cgroup_cpu_limit {
        let grade = if limit < cpus as f64 { Grade::Limited } else { Grade::Good };
        let help =
            if limit < cpus as f64 { "more threads than that are throttled; raise cpu.max or use fewer" } else { "" };
        add("control group", grade, format!("CPU time limited to {limit:.2} CPUs"), help);
    }
    findings
}
