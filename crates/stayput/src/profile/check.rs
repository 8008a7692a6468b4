//! `stayput profile --check`: whether a workload file gives back what it was inferred from.

use crate::simulate::kernel::{Kernel, with_kernel};
use crate::{FAILURE, SUCCESS, UsageError};
use ::profile::agreement::{LEAST_JUDGED_SHARE, LEAST_WAIT_MS, MOST_DISTANCE, MOST_POINTS};
use ::profile::{Inferred, Profile, ProgramAgreement, Target, WaitAgreement};
use anyhow::Context;
use machine::Machine;
use sim::{Experiment, Parameters, Policy, WorkloadFile};
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;
use study::toml_file;

/// How often it is simulated.
const REPLICATES: u32 = 5;

/// A replay looks at its CPU time no more often than this, in ms: the kernel would end slices at these looks.
const CHUNK_MS: &str = "50";

/// A replay of so many seconds is over before it does anything.
const SETUP_S: f64 = 0.001;

/// Width of the column of names.
const NAME: usize = 16;

/// The workload in the file at `path`, which must have been inferred on a machine like this one, and what it was inferred from.
pub(crate) fn inferred_file(path: &Path, machine: &Machine) -> anyhow::Result<(WorkloadFile, Inferred)> {
    let parse = |text: &str| Ok((WorkloadFile::parse(text)?, Inferred::parse(text)?));
    let (file, inferred) = toml_file::read("workload file", path, parse).map_err(UsageError::from)?;
    let Some(inferred) = inferred else {
        return Err(UsageError::from(format!(
            "workload file {} has no table `profile`: only files that `stayput profile --workload` wrote say what they were inferred from",
            path.display()
        )));
    };
    let cpus = machine.usable().count();
    if cpus != inferred.cpus as usize {
        return Err(UsageError::from(format!(
            "{} was profiled on {} CPUs, and there are {cpus} here; go where it was profiled",
            path.display(),
            inferred.cpus
        )));
    }
    Ok((file, inferred))
}

/// Simulates and replays the workload in the file at `path` for as long as it was profiled, and compares.
pub(super) fn run(path: &Path, quiet: bool) -> anyhow::Result<u8> {
    let machine = Machine::host()?;
    let (file, inferred) = inferred_file(path, &machine)?;
    let simulated = simulated(&file, &inferred, &machine)?;
    let replayed = replayed(path, &inferred, &machine);
    let mut judged = simulated.iter().filter(|agreement| agreement.is_judged);
    let agrees = judged.all(ProgramAgreement::agrees) && replayed.as_ref().is_ok_and(ProgramAgreement::agrees);
    if !quiet {
        crate::print(&text(path, &inferred, &simulated, replayed.as_ref()))?;
    }
    Ok(if agrees { SUCCESS } else { FAILURE })
}

/// The workload simulated on this machine under its own kernel's scheduler, for as long as it was profiled.
pub(crate) fn simulated(
    file: &WorkloadFile,
    inferred: &Inferred,
    machine: &Machine,
) -> anyhow::Result<Vec<ProgramAgreement>> {
    let parameters = Parameters { horizon_ms: Some(inferred.seconds * 1e3), ..file.parameters.clone() };
    let parameters = with_kernel(parameters, Some(Kernel::Here), &[Policy::Eevdf])?;
    let workload = inferred.beside_others(&file.workload);
    let experiment = Experiment::new(machine, &workload, &parameters).map_err(UsageError::from)?;
    Ok(inferred.simulated(&experiment, &workload, REPLICATES))
}

/// The workload replayed on this machine, and that profiled.
fn replayed(path: &Path, inferred: &Inferred, machine: &Machine) -> anyhow::Result<ProgramAgreement> {
    let setup = profile_of_replay(path, SETUP_S, machine)?;
    Ok(inferred.replayed(&profile_of_replay(path, inferred.seconds, machine)?, &setup))
}

fn profile_of_replay(path: &Path, seconds: f64, machine: &Machine) -> anyhow::Result<Profile> {
    let folder = tempfile::tempdir().context("no temporary folder")?;
    let program = launch::companion("stayput-replay")?;
    let words = [
        program.into_os_string(),
        path.into(),
        "--seconds".into(),
        seconds.to_string().into(),
        "--chunk-ms".into(),
        CHUNK_MS.into(),
        "--json".into(),
        folder.path().join("replay.json").into_os_string(),
    ];
    // Its processes end at its horizon; what isn't ready by then hangs.
    let at_most = Duration::from_secs_f64(seconds + 60.0);
    let profiled = ::profile::profile(&Target::Command(words.into()), Some(at_most), machine)?;
    match profiled.launched.map(|launched| launched.observation.exit) {
        Some(study::Exit::Code(0)) => Ok(profiled.profile),
        _ => anyhow::bail!("stayput-replay failed, as it says above"),
    }
}

fn text(
    path: &Path,
    inferred: &Inferred,
    simulated: &[ProgramAgreement],
    replayed: Result<&ProgramAgreement, &anyhow::Error>,
) -> String {
    let mut text = format!(
        "{}: profiled for {:.3} s on {} CPUs, Linux {}\n",
        path.display(),
        inferred.seconds,
        inferred.cpus,
        inferred.kernel
    );
    // Writing to a string can't fail.
    let _ = writeln!(text, "\nSimulated under eevdf, {REPLICATES} times: profiled > given back");
    tables(simulated, REPLICATES, &mut text);
    match replayed {
        Ok(agreement) => {
            let _ = writeln!(text, "\nReplayed by the running kernel, all programs together");
            tables(std::slice::from_ref(agreement), 1, &mut text);
        }
        Err(why) => {
            let _ = writeln!(text, "\nNot replayed: {why:#}");
        }
    }
    let _ = writeln!(
        text,
        "\nAgreement is a distance (Kolmogorov's) of at most {MOST_DISTANCE:.2}, of waits from {LEAST_WAIT_MS} ms on, and shares\nof what \
         ends intervals within {MOST_POINTS} points. Programs with less than {:.0} % of the CPU time are judged\namong all. The exit code is \
         that of intervals and their ends.",
        100.0 * LEAST_JUDGED_SHARE
    );
    text
}

/// Intervals and their ends, then waits, of each program.
fn tables(agreements: &[ProgramAgreement], replicates: u32, text: &mut String) {
    header(text);
    agreements.iter().for_each(|agreement| row(agreement, replicates, text));
    let waits = agreements.iter().filter_map(|agreement| Some((agreement, agreement.waits?)));
    let lines: Vec<String> = waits.map(|(agreement, waits)| waits_line(agreement, &waits)).collect();
    if !lines.is_empty() {
        let _ = writeln!(text, "{:NAME$} {:>21} {:>8} {:>8}", "", "median wait, ms", "distance", "agrees");
        text.push_str(&lines.concat());
    }
}

fn waits_line(agreement: &ProgramAgreement, waits: &WaitAgreement) -> String {
    let [measured, given_back] = waits.median_ms;
    let medians = format!("{measured:.3} > {given_back:.3}");
    let agrees = yes_or_no(waits.agrees());
    format!("{:NAME$} {medians:>21} {:>8.3} {agrees:>8}\n", name(agreement), waits.distance)
}

/// What a program is called in a row.
fn name(agreement: &ProgramAgreement) -> String {
    agreement.name.chars().filter(|c| !c.is_control()).take(NAME).collect()
}

fn yes_or_no(agrees: bool) -> &'static str {
    if agrees { "yes" } else { "no" }
}

fn header(text: &mut String) {
    let _ = writeln!(
        text,
        "{:NAME$} {:>15} {:>8} {:>13} {:>13} {:>8}",
        "", "intervals", "distance", "quantum %", "blocked %", "agrees"
    );
}

fn row(agreement: &ProgramAgreement, replicates: u32, text: &mut String) {
    let [measured, given_back] = agreement.intervals;
    let shares = |[measured, given_back]: [f64; 2]| format!("{measured:.1} > {given_back:.1}");
    let _ = writeln!(
        text,
        "{:NAME$} {:>15} {:>8.3} {:>13} {:>13} {:>8}",
        name(agreement),
        format!("{measured} > {}", given_back / u64::from(replicates)),
        agreement.distance,
        shares(agreement.quantum_percent),
        shares(agreement.blocked_percent),
        yes_or_no(agreement.agrees())
    );
}
