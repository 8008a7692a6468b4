//! The report's applications profiled on this machine, alone and in its workloads, and simulated from their own profiles.

use crate::Interrupted;
use crate::profile::simulated;
use crate::simulate::kernel::{Kernel, with_kernel};
use ::profile::agreement::ProgramAgreement;
use ::profile::profile::{EndsPercent, INTERVAL_EDGES_MS, Potential, Source};
use ::profile::{Inferred, Profile, Program, Target, profile, workload};
use anyhow::Context;
use machine::Machine;
use output::{Inputs, ResultFile};
use papers::LiveWorkloads;
use papers::live_profiles::{
    BINS, CAUSES, LIVE_APPLICATIONS, LiveApplication, LiveProfiles, OwnSimulation, Profiled, profile_of,
};
use papers::live_workloads::LIVE_WORKLOADS;
use sim::{Parameters, Policy, WorkloadFile};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

/// The longest that an application or a workload is watched.
const LONGEST: Duration = Duration::from_secs(60);

/// The environment in which a program finds how many threads it is to have.
const THREADS: &str = "OMP_NUM_THREADS";

/// What is asked of programs that otherwise check more than their own results, which would be most of what they do.
const ONLY_OWN_CHECKS: &str = "STAYPUT_CHECKS=own";

/// Profiles what hasn't been yet, keeps it in files of `folder`, and adds all of it; all programs with `class` where one is given. Each
/// application alone has twice as many threads as there are CPUs, as has each workload.
pub(super) fn conduct_profiles(
    live: &mut LiveWorkloads,
    class: Option<&str>,
    folder: &Path,
    quiet: bool,
) -> anyhow::Result<()> {
    let machine = Machine::host()?;
    let cpus = machine.usable().count();
    let parameters = with_kernel(Parameters::default(), Some(Kernel::Here), &[Policy::Eevdf]);
    let kernel = parameters.ok().and_then(|parameters| parameters.kernel);
    let slice_ms = kernel.map(|kernel| kernel.base_slice_on_ns(cpus) as f64 / 1e6);
    let mut profiles = LiveProfiles::new(slice_ms);
    let alone = LIVE_APPLICATIONS.map(|application| (application.name, vec![application]));
    let together = LIVE_WORKLOADS.map(|workload| {
        (workload.name, workload.name.split('+').filter_map(LiveApplication::named).collect::<Vec<_>>())
    });
    // Oracle is both an application and a workload.
    let together = together.into_iter().filter(|(name, _)| LiveApplication::named(name).is_none());
    let all: Vec<(&str, Vec<LiveApplication>)> = alone.into_iter().chain(together).collect();
    for (number, (name, applications)) in all.iter().enumerate() {
        let lines = match lines(applications, class) {
            Ok(lines) => lines,
            // Of a workload the same was said of its application.
            Err(error) => {
                if applications.len() == 1 {
                    live.leave_out(format!("{name} was not profiled: {error:#}."));
                }
                continue;
            }
        };
        let (path, command) = (profile_of(name, folder), command(&lines, cpus));
        let earlier = earlier(&path, &lines, &command)?;
        if earlier.is_none() && !quiet {
            eprintln!("stayput: profile {} of {}: {name} on this machine", number + 1, all.len());
        }
        let profile = match earlier.map_or_else(|| measured(&command, &path, &machine), |earlier| Ok(Ok(earlier)))? {
            Ok(profile) => profile,
            Err(why) => {
                live.leave_out(format!("{name} was not profiled: {why}."));
                continue;
            }
        };
        for application in distinct(applications) {
            let Some(profiled) = profiled(&profile, &application) else {
                live.leave_out(format!("{name}: its profile has no program of {}.", application.name));
                continue;
            };
            match &applications[..] {
                [_] => {
                    // A database is both an application and a workload.
                    if LIVE_WORKLOADS.iter().any(|workload| workload.name == *name) {
                        profiles.add_share(name, application.name, profiled.clone());
                    }
                    let own = own_simulation(&profile, &application, &machine);
                    if let Err(error) = &own {
                        live.leave_out(format!("{name} is not simulated from its own profile: {error:#}."));
                    }
                    profiles.add(&application, profiled, own.ok().flatten());
                }
                _ => profiles.add_share(name, application.name, profiled),
            }
        }
    }
    live.set_profiles(profiles);
    Ok(())
}

/// Each application of a workload once.
fn distinct(applications: &[LiveApplication]) -> impl Iterator<Item = LiveApplication> {
    let is_first = |at: usize| applications[..at].iter().all(|other| *other != applications[at]);
    (0..applications.len()).filter(move |&at| is_first(at)).map(|at| applications[at])
}

/// The programs of applications, each with its arguments.
fn lines(applications: &[LiveApplication], class: Option<&str>) -> anyhow::Result<Vec<Vec<String>>> {
    let line = |application: &LiveApplication| {
        let (program, own) = application.builtin.rsplit_once('.').context("an application has a class")?;
        let builtin = workloads::resolve(&format!("{program}.{}", class.unwrap_or(own)))?;
        anyhow::Ok(std::iter::once(builtin.path()?).chain(builtin.args).collect::<Vec<String>>())
    };
    applications.iter().map(line).collect()
}

/// The words of a command that runs programs at once, with twice as many threads as CPUs in all.
fn command(lines: &[Vec<String>], cpus: usize) -> Vec<String> {
    let threads = (2 * cpus).div_ceil(lines.len().max(1));
    // What programs say of themselves is in nobody's interest here, and each has to end well.
    let begun = lines.iter().map(|words| format!("{} > /dev/null & jobs=\"$jobs $!\"", shell_words::join(words)));
    let begun = begun.collect::<Vec<_>>().join("; ");
    let ended = "for job in $jobs; do wait \"$job\" || exit 1; done";
    vec![
        "env".into(),
        format!("{THREADS}={threads}"),
        ONLY_OWN_CHECKS.into(),
        "sh".into(),
        "-c".into(),
        format!("{begun}; {ended}"),
    ]
}

/// The profile of that command that is kept in a file; none where there is none, or one of its programs has changed since.
fn earlier(path: &Path, lines: &[Vec<String>], command: &[String]) -> anyhow::Result<Option<Profile>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let profile: Profile =
        serde_json::from_str(&text).with_context(|| format!("{} is no profile; delete it", path.display()))?;
    let modified = |path: &Path| std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    let is_older =
        lines.iter().filter_map(|words| words.first()).all(|program| modified(program.as_ref()) <= modified(path));
    Ok((profile.command == command && is_older).then_some(profile))
}

/// Profiles the command, and keeps that in the file. The inner error says why there is no profile.
fn measured(command: &[String], path: &Path, machine: &Machine) -> anyhow::Result<Result<Profile, String>> {
    let target = Target::Command(command.iter().map(OsString::from).collect());
    let _held = launch::Interruptions::hold();
    let profiled = profile(&target, Some(LONGEST), machine);
    if let Some(signal) = launch::interruption() {
        return Err(Interrupted { signal, kept_in: path.parent().unwrap_or(path).to_owned() }.into());
    }
    let profiled = match profiled {
        Ok(profiled) => profiled,
        Err(error) => return Ok(Err(error.to_string())),
    };
    if let Some(refused) = profiled.refused {
        return Ok(Err(refused.to_string()));
    }
    if !profiled.launched.is_some_and(|launched| launched.observation.exit == study::Exit::Code(0)) {
        return Ok(Err("it did not end well".into()));
    }
    if profiled.profile.source != Source::Bpf {
        return Ok(Err(
            "records don't tell why its threads block, only BPF does; `stayput doctor` says what that needs".into(),
        ));
    }
    let text = serde_json::to_string_pretty(&profiled.profile).context("the profile can't be written as JSON")?;
    ResultFile::named(path, Inputs::default())?.write(format!("{}\n", terminal::printable_json(&text)))?;
    Ok(Ok(profiled.profile))
}

/// What an application did according to a profile: all of its programs together. None where it isn't in there.
fn profiled(profile: &Profile, application: &LiveApplication) -> Option<Profiled> {
    let is_its = |program: &&Program| match application.process {
        Some(name) => program.name == name,
        // What it is made of, but for its neighbours in a workload.
        None => LIVE_APPLICATIONS.iter().all(|other| other.process != Some(program.name.as_str())),
    };
    let programs: Vec<&Program> = profile.programs.iter().filter(is_its).collect();
    let intervals: u64 = programs.iter().map(|program| program.histograms.dispatch_interval.count).sum();
    if intervals == 0 {
        return None;
    }
    let mean = |number: &dyn Fn(&Program) -> f64| {
        let weighted = programs.iter().map(|it| number(it) * it.histograms.dispatch_interval.count as f64);
        weighted.sum::<f64>() / intervals as f64
    };
    let mut calls: BTreeMap<&'static str, u64> = BTreeMap::new();
    for (kind, count) in programs.iter().flat_map(|program| &program.system_calls) {
        *calls.entry((*kind).into()).or_default() += count;
    }
    let all_calls: u64 = calls.values().sum();
    let percent = |count: u64| 100.0 * count as f64 / all_calls as f64;
    let mut calls_percent: Vec<(String, f64)> =
        calls.iter().filter(|(_, count)| **count > 0).map(|(kind, &count)| ((*kind).into(), percent(count))).collect();
    calls_percent.sort_by(|a, b| b.1.total_cmp(&a.1));
    let busiest = programs.iter().max_by(|a, b| a.cpu_s.total_cmp(&b.cpu_s))?;
    let mut intervals_percent = [0.0; BINS];
    for (bin, share) in intervals_percent.iter_mut().enumerate() {
        *share = mean(&|program| {
            let bins = &program.dispatch_intervals;
            let beyond = if bin == 0 { bins.shorter_percent } else { 0.0 };
            let longer = if bin == BINS - 1 { bins.longer_percent } else { 0.0 };
            bins.percent.get(bin).copied().unwrap_or_default() + beyond + longer
        });
    }
    let ends: [fn(&EndsPercent) -> f64; CAUSES] = [
        |ends| ends.quantum,
        |ends| ends.semaphore,
        |ends| ends.synchronization,
        |ends| ends.system_call,
        |ends| ends.tlb_fault,
        |ends| ends.other,
    ];
    Some(Profiled {
        intervals,
        interval_median_ms: median(&programs, |program| program.histograms.dispatch_interval.quantile_ms(0.5)),
        intervals_percent,
        ends_percent: ends.map(|end| mean(&|program| end(&program.ends_percent))),
        calls_percent,
        slice_median_ms: median(&programs, |program| program.effective_slice_median_ms),
        potential: (potential_word(busiest.potential).to_owned(), busiest.potential_percent),
    })
}

/// The median of the program that had most CPU time.
fn median(programs: &[&Program], of: impl Fn(&Program) -> Option<f64>) -> Option<f64> {
    programs.iter().max_by(|a, b| a.cpu_s.total_cmp(&b.cpu_s)).and_then(|program| of(program))
}

fn potential_word(potential: Potential) -> &'static str {
    potential.into()
}

/// An application as it is simulated from its own profile; none where the profile has nothing that could be simulated.
fn own_simulation(
    profile: &Profile,
    application: &LiveApplication,
    machine: &Machine,
) -> anyhow::Result<Option<OwnSimulation>> {
    let text = workload::workload_file(profile);
    let mistake = |(line, why): (usize, String)| anyhow::anyhow!("line {line} of its workload: {why}");
    let file = WorkloadFile::parse(&text).map_err(mistake)?;
    let Some(inferred) = Inferred::parse(&text).map_err(mistake)? else { return Ok(None) };
    let agreements = simulated(&file, &inferred, machine)?;
    let name = application.process.unwrap_or(ProgramAgreement::ALL);
    // One program is not repeated as all.
    let Some(own) = agreements.iter().find(|agreement| agreement.name == name).or(agreements.last()) else {
        return Ok(None);
    };
    let mut edges_ms = INTERVAL_EDGES_MS;
    (edges_ms[0], edges_ms[BINS]) = (0.0, f64::INFINITY);
    let [_, given_back] = own.percent_between(&edges_ms);
    let mut intervals_percent = [0.0; BINS];
    intervals_percent.copy_from_slice(&given_back);
    let shares = [own.quantum_percent, own.blocked_percent, own.yield_percent];
    Ok(Some(OwnSimulation {
        intervals_percent,
        ends_percent: shares.map(|[_, given_back]| given_back),
        measured_percent: shares.map(|[measured, _]| measured),
        distance: own.distance,
        points: own.points(),
        agrees: own.agrees(),
    }))
}
