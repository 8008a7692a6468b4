//! `stayput doctor`: what this machine can and can't measure, what disturbs it, and what would help.

use machine::{CpuState, Kind, Machine};
use profile::Means;
use profile::collector::Right;
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
    help: &'static str,
}

impl Finding {
    fn new(topic: &'static str, grade: Grade, found: impl Into<String>, help: &'static str) -> Self {
        Self { topic, grade, found: found.into(), help }
    }

    fn good(topic: &'static str, found: impl Into<String>) -> Self {
        Self::new(topic, Grade::Good, found, "")
    }
}

/// How long the machine is watched for load and steal.
const WATCH: Duration = Duration::from_millis(300);

/// Prints the findings.
pub fn run(args: &DoctorArgs) -> anyhow::Result<()> {
    let findings = findings();
    let text = match args.format {
        Format::Json => terminal::printable_json(&serde_json::to_string_pretty(&findings)?).into_owned() + "\n",
        Format::Text => text(&findings),
    };
    crate::print(&text)
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
    let machine = Machine::host();
    let cpus = machine.as_ref().map_or(1, |machine| machine.usable_cpus().len());
    let mut findings = match &machine {
        Ok(machine) => machine_findings(machine),
        Err(error) => {
            let help = "policies need it; CPU lists such as --place 0,1 work without";
            vec![Finding::new("topology", Grade::Missing, error.to_string(), help)]
        }
    };
    findings.extend(tool_findings());
    findings.extend(disturbances(&before, &after, cpus));
    findings
}

/// Which CPUs there are, and which of them can't be used.
fn machine_findings(machine: &Machine) -> Vec<Finding> {
    let usable = machine.usable_cpus();
    let topology = format!(
        "{} usable CPUs ({usable}) on {} cores, {} L3, {} NUMA nodes, {} packages",
        usable.len(),
        machine.count(Kind::Core),
        machine.count(Kind::Cache(3)),
        machine.numa_nodes().len(),
        machine.count(Kind::Package)
    );
    let mut findings = vec![Finding::good("topology", topology)];
    let states = machine.pus().iter().map(|pu| (pu.cpu, machine.state(pu.cpu)));
    let barred = states.filter(|(_, state)| *state != CpuState::Usable);
    let barred: Vec<String> = barred.map(|(cpu, state)| format!("CPU {cpu}: {state}")).collect();
    if !barred.is_empty() || !machine.offline_cpus().is_empty() {
        let mut found = barred.join("; ");
        if !machine.offline_cpus().is_empty() {
            found.push_str(&format!(" offline: {}", machine.offline_cpus()));
        }
        let help = "placements leave these CPUs out; widen the mask to use them";
        findings.push(Finding::new("other CPUs", Grade::Limited, found, help));
    }
    if usable.len() == 1 {
        let help = "study it where there are more, or on a preset with `stayput place --machine`";
        let found = "with one usable CPU there is only one placement";
        findings.push(Finding::new("placement", Grade::Missing, found, help));
    }
    findings
}

/// What Stayput measures and schedules with, and whether it works here.
fn tool_findings() -> [Finding; 5] {
    let tool = |topic, found: Result<String, String>, otherwise, help| match found {
        Ok(found) => Finding::good(topic, found),
        Err(reason) => Finding::new(topic, otherwise, reason, help),
    };
    let traced = launch::trace_available();
    let polled = |reason| format!("threads are bound by looking for them, so short ones can be missed: {reason}");
    [
        tool(
            "binding",
            traced
                .map(|()| "every thread can be bound at birth and read back at its end (ptrace)".into())
                .map_err(polled),
            Grade::Limited,
            "allow ptrace (containers: --cap-add SYS_PTRACE, or a seccomp profile that has it)",
        ),
        tool(
            "migrations",
            launch::migrations_available().map(|how| format!("counted through {how}")),
            Grade::Missing,
            "needs /proc/PID/sched (CONFIG_SCHED_DEBUG) or perf events",
        ),
        tool(
            "hardware counters",
            launch::counters_available().map(|()| "cycles, instructions, cache and branch misses".into()),
            Grade::Missing,
            "times, switches and migrations are measured all the same",
        ),
        tool(
            "affinity scheduler",
            crate::sched::check(),
            Grade::Missing,
            "`stayput sched` needs it; `stayput run --place` and `stayput simulate` work without",
        ),
        profile_finding(&Means::find()),
    ]
}

/// Whether programs can be profiled, and by what.
fn profile_finding(means: &Means) -> Finding {
    let topic = "profiles";
    match means {
        Means::Kernel(right) => {
            let by = match right {
                Right::Root => "as root",
                Right::Capabilities => "by CAP_BPF and CAP_PERFMON",
            };
            Finding::good(topic, format!("any program, counted in the kernel (BPF, BTF; {by})"))
        }
        Means::Records(refused) => Finding::new(
            topic,
            Grade::Limited,
            format!("one's own commands, by records of switches (perf_event_open): {refused}"),
            "why threads block, who wakes them and what runs in between is told by `sudo stayput profile`",
        ),
        Means::None { kernel, records } => Finding::new(
            topic,
            Grade::Missing,
            format!("{kernel}; and the kernel refuses records of switches (perf_event_open): {records}"),
            "`stayput profile` needs one of the two; containers: --cap-add BPF --cap-add PERFMON --pid=host",
        ),
    }
}

/// What disturbs studies on a machine with so many usable CPUs, seen between two looks at it.
fn disturbances(before: &HostState, after: &HostState, cpus: usize) -> Vec<Finding> {
    let mut findings = vec![match after.load_average.map(|load| load[0]) {
        Some(load) if load > LOAD_TO_TELL * cpus as f64 => Finding::new(
            "load",
            Grade::Limited,
            format!("load average {load:.2} over the last minute on {cpus} CPUs (/proc/loadavg)"),
            "something else runs; stop it, or let studies take more blocks",
        ),
        Some(load) => Finding::good("load", format!("load average {load:.2}")),
        None => Finding::new("load", Grade::Missing, "/proc/loadavg can't be read", ""),
    }];
    if let Some(hypervisor) = HostFacts::read().hypervisor {
        let found =
            format!("this is a virtual machine ({hypervisor}): its CPUs may share real cores with others, and move");
        let help = "read differences of a few percent with care; bare metal is better";
        findings.push(Finding::new("hypervisor", Grade::Limited, found, help));
    }
    findings.extend(after.steal_since(before).map(|steal| match steal * 100.0 {
        percent if steal > STEAL_TO_TELL => Finding::new(
            "steal",
            Grade::Limited,
            format!("the hypervisor took {percent:.1} % of CPU time just now (/proc/stat)"),
            "the host is busy; measure at another time",
        ),
        percent => Finding::good("steal", format!("{percent:.1} % of CPU time")),
    }));
    findings.push(match after.governors.as_slice() {
        [] => Finding::new("frequency", Grade::Limited, "no governor to see (/sys/devices/system/cpu/cpufreq)", ""),
        [only] if only == "performance" => Finding::good("frequency", "governor performance"),
        others => {
            let help = "`cpupower frequency-set -g performance` steadies the clock";
            Finding::new("frequency", Grade::Limited, format!("governor {}", others.join(", ")), help)
        }
    });
    findings.extend(after.smt_active.map(|is_active| match is_active {
        true => {
            let help = "scatter and balanced use one a core first; compact fills cores";
            Finding::new("SMT", Grade::Limited, "several hardware threads a core are online", help)
        }
        false => Finding::good("SMT", "one hardware thread a core"),
    }));
    findings.extend(after.cgroup_cpu_limit.map(|limit| {
        let found = format!("CPU time limited to {limit:.2} CPUs");
        if limit >= cpus as f64 {
            return Finding::good("control group", found);
        }
        let help = "more threads than that are throttled; raise cpu.max or use fewer";
        Finding::new("control group", Grade::Limited, found, help)
    }));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::Refused;

    #[test]
    fn profiles_are_told_by_what_they_are_made() {
        let refused = || Refused("counting in the kernel takes root".into());
        let by_records = profile_finding(&Means::Records(refused()));
        assert_eq!(
            text(&[
                profile_finding(&Means::Kernel(Right::Root)),
                profile_finding(&Means::Kernel(Right::Capabilities)),
                profile_finding(&Means::None {
                    kernel: refused(),
                    records: std::io::ErrorKind::PermissionDenied.into()
                }),
            ]),
            "ok profiles  any program, counted in the kernel (BPF, BTF; as root)\n\
             ok profiles  any program, counted in the kernel (BPF, BTF; by CAP_BPF and CAP_PERFMON)\n\
             -  profiles  counting in the kernel takes root; and the kernel refuses records of switches (perf_event_open): \
             permission denied\n             `stayput profile` needs one of the two; containers: --cap-add BPF --cap-add PERFMON --pid=host\n"
        );
        assert!(by_records.grade == Grade::Limited && by_records.found.ends_with("counting in the kernel takes root"));
    }
}
