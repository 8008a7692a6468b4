//! `stayput advise`: which treatments are worth trying for a program that was profiled, as simulated; with `--prove`, whether it held.

use crate::profile::inferred_file;
use crate::simulate::kernel::{Kernel, with_kernel};
use crate::{Arguments, Command, FAILURE, SUCCESS, UsageError, shell};
use ::profile::agreement::InferredProgram;
use ::profile::{Inferred, caching, potential};
use anyhow::Context;
use clap::Parser;
use machine::Machine;
use sim::{Parameters, Policy, Workload};
use simulation::metrics::MAKESPAN;
use simulation::{Change, RunError, Simulation, SimulationPlan, simulation_analysis};
use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use study::verdict::{Difference, Verdict};
use study::{Comparison, Host, Journal, Session, comparison_analysis};

/// Say which treatments of a profiled program are worth trying, by simulating it on this machine
///
/// Each treatment is simulated against the kernel's own scheduler, as if nothing were reloaded and as if as much were as was measured, or
/// may be. With --prove the study is run that shows whether the prediction holds.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  stayput profile --workload make.toml -- make -j4
  stayput advise make.toml                         what would be worth trying?
  stayput advise make.toml --prove make.stayput    and is it so?")]
pub struct AdviseArgs {
    /// A workload that `stayput profile --workload` wrote
    #[arg(value_name = "FILE", add = shell::files("toml"))]
    file: PathBuf,
    /// Run the study of what is worth trying, keep it in JOURNAL, and say whether the predictions held; exit code 1 where one didn't
    #[arg(long, value_name = "JOURNAL", add = shell::files("stayput"))]
    prove: Option<PathBuf>,
    /// How often each treatment is simulated
    #[arg(long, value_name = "R", default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=1000))]
    replicates: u32,
    /// Where the draws start
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
}

/// A treatment: its name in studies, where these have it, and the policy that simulates it.
struct Treatment {
    name: &'static str,
    policy: Policy,
    /// Whether it takes the affinity scheduler in the kernel.
    needs_scheduler: bool,
}

/// The slice that programs are given for longer ones, in ms.
const SLICE_MS: f64 = 30.0;

const TREATMENTS: [Treatment; 4] = [
    Treatment { name: "attached", policy: Policy::EevdfAttached, needs_scheduler: false },
    Treatment { name: "slice=30", policy: Policy::EevdfLongSlice, needs_scheduler: false },
    Treatment { name: "light", policy: Policy::Light, needs_scheduler: true },
    Treatment { name: "heavy", policy: Policy::Heavy, needs_scheduler: true },
];

/// The first kernel that grants slices.
const SLICES_SINCE: (u32, u32) = (6, 12);

/// A gain below this isn't worth a study, in percent: studies of usual length don't see it.
const LEAST_GAIN_PERCENT: f64 = 1.0;

/// Shorter profiles are no ground for predictions, in s and dispatch intervals.
const LEAST_SECONDS: f64 = 0.5;
const LEAST_INTERVALS: u64 = 100;

/// Where fewer intervals than this end by the quantum or a preemption, in percent, and waits are shorter, in ms, nobody waits for
/// a CPU.
const LEAST_QUANTUM_PERCENT: f64 = 1.0;
const LEAST_WAIT_MS: f64 = 0.1;

/// What is predicted of a treatment: by which percentage its time differs from that under the kernel's own scheduler.
struct Prediction<'a> {
    treatment: &'a Treatment,
    /// Where nothing is reloaded, and where as much is as may be.
    changes: [Change; 2],
}

impl Prediction<'_> {
    /// From the lowest end of both intervals to the highest.
    fn percent(&self) -> (f64, f64) {
        let ends = self.changes.iter().flat_map(|Change { percent, .. }| {
            [percent.low.unwrap_or(percent.value), percent.high.unwrap_or(percent.value)]
        });
        ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), end| (low.min(end), high.max(end)))
    }

    /// Whether it may gain enough to be seen.
    fn is_worth_trying(&self) -> bool {
        self.percent().0 <= -LEAST_GAIN_PERCENT
    }
}

/// Advises, and proves.
pub fn run(args: &AdviseArgs) -> anyhow::Result<u8> {
    let machine = Machine::host()?;
    let (file, inferred) = inferred_file(&args.file, &machine)?;
    if let Some(why) = refusal(&inferred, &machine) {
        return Err(UsageError::from(format!("nothing can be predicted of {}: {why}", args.file.display())));
    }
    let parameters = Parameters {
        replicates: args.replicates,
        seed: args.seed,
        long_quantum_ms: SLICE_MS,
        horizon_ms: None,
        ..file.parameters.clone()
    };
    let parameters = with_kernel(parameters, Some(Kernel::Here), &[Policy::Eevdf])?;
    let reloads_us = reloads_us(&inferred, &machine);
    let [low, high] = reloads_us.each_ref().map(|us| changes(&file.workload, &inferred, us, &machine, &parameters));
    let (low, high) = (low?, high?);
    let has_threads = has_threads(&file.workload);
    let predictions: Vec<Prediction<'_>> = TREATMENTS
        .iter()
        .zip(low.into_iter().zip(high))
        .filter(|(treatment, _)| !(has_threads && treatment.policy == Policy::EevdfAttached))
        .filter_map(|(treatment, (low, high))| Some(Prediction { treatment, changes: [low?, high?] }))
        .collect();
    let study = study_words(&inferred, &predictions);
    let mut advice = text(&args.file, &inferred, &reloads_us, &predictions, has_threads, study.as_deref());
    if let Some(words) = replay_words(&args.file, &inferred, &predictions, &machine) {
        let _ = writeln!(
            advice,
            "\nHow many misses each saves, in a virtual machine with a model of its caches\n  stayput {}",
            shell_words::join(words)
        );
    }
    crate::print(&advice)?;
    match (&args.prove, study) {
        (None, _) => Ok(SUCCESS),
        (Some(_), None) => {
            eprintln!("stayput: there is nothing to prove");
            Ok(SUCCESS)
        }
        (Some(journal), Some(words)) => prove(journal, &words, &predictions),
    }
}

/// Whether any program is a process of several threads. In studies, `attached` binds processes, each with all its threads; the simulator
/// has no processes but its jobs' own, and binds each thread.
fn has_threads(workload: &Workload) -> bool {
    workload.jobs.iter().any(|job| job.threads)
}

/// Why nothing can be predicted, in a sentence.
fn refusal(inferred: &Inferred, machine: &Machine) -> Option<String> {
    let intervals: u64 = inferred.programs.iter().map(|program| program.dispatch_intervals).sum();
    let waits = inferred.programs.iter().any(|program| {
        program.ends_percent.quantum >= LEAST_QUANTUM_PERCENT
            || program.wait_median_ms().is_some_and(|ms| ms >= LEAST_WAIT_MS)
    });
    if machine.usable().count() < 2 {
        Some("this machine has one CPU, so that there are no places to choose from".into())
    } else if inferred.seconds < LEAST_SECONDS || intervals < LEAST_INTERVALS {
        Some(format!("{intervals} dispatch intervals in {:.3} s are too few; profile it for longer", inferred.seconds))
    } else if !waits {
        Some(
            "none of its threads waited for a CPU, so that who gets one and when changes nothing; where threads run may still matter: \
             stayput study --place unbound,compact,scatter -- CMD"
                .into(),
        )
    } else {
        None
    }
}

/// The longest that the reload of what a program touches takes, in us, where that is known and is less than `longest`: of the whole cache.
fn longest_of_touched_us(program: &InferredProgram, longest: f64) -> Option<f64> {
    program.touched_kib.map(potential::longest_reload_of_us).filter(|us| *us < longest)
}

/// The shortest and the longest reload of each program, in us.
fn reloads_us(inferred: &Inferred, machine: &Machine) -> [Vec<f64>; 2] {
    let longest = potential::longest_reload_us(machine);
    let unmeasured = |program: &InferredProgram| longest_of_touched_us(program, longest).unwrap_or(longest);
    // Where no reload was shown, the upper end is noise: no more than all of the cache is believed of it.
    let highest = |reload: ::profile::profile::ReloadUs| {
        if reload.low > 0.0 { reload.high } else { reload.high.clamp(0.0, longest) }
    };
    let programs = inferred.programs.iter();
    [
        programs.clone().map(|program| program.reload_us.map_or(0.0, |reload| reload.low.max(0.0))).collect(),
        programs.map(|program| program.reload_us.map_or_else(|| unmeasured(program), highest)).collect(),
    ]
}

/// What each of [`TREATMENTS`] changes of the time, in percent, with such reloads; none where some replicate didn't end.
fn changes(
    workload: &Workload,
    inferred: &Inferred,
    reload_us: &[f64],
    machine: &Machine,
    parameters: &Parameters,
) -> anyhow::Result<Vec<Option<Change>>> {
    let workload = caching::with_reloads(workload, inferred, reload_us, machine, parameters)?;
    let simulation = Simulation {
        cache_speed_factor: caching::cache_speed_factor(machine),
        ..Simulation::new(workload, parameters.clone())
    };
    let policies: Vec<Policy> = std::iter::once(Policy::Eevdf).chain(TREATMENTS.map(|it| it.policy)).collect();
    let plan = SimulationPlan::new(vec![simulation], &policies, machine).compared_with(Policy::Eevdf.name());
    study::Kind::check(&plan).map_err(UsageError::from)?;
    let mut session = Session::open(None, &plan, machine, &Host::Modelled, &crate::command_line())?;
    let progress = crate::progress_bar(plan.samples(), false);
    let ending = simulation::simulate(&mut session, machine, &mut || progress.inc(1));
    progress.finish_and_clear();
    let analysis = simulation_analysis(&session.end::<RunError>(ending)?);
    let point = analysis.points.first().context("nothing was simulated")?;
    let change = |treatment: &Treatment| {
        point.policy(treatment.policy.name())?.changes.get(&MAKESPAN).copied().map(Change::from)
    };
    Ok(TREATMENTS.iter().map(change).collect())
}

/// Why a treatment can't be tried here, where it can't.
fn obstacle(treatment: &Treatment) -> Option<String> {
    if treatment.needs_scheduler {
        return crate::sched::check().err().map(|why| why.to_string());
    }
    if treatment.policy == Policy::EevdfLongSlice {
        return slices_obstacle();
    }
    None
}

/// Why the running kernel grants no slices, where it doesn't.
pub(crate) fn slices_obstacle() -> Option<String> {
    let release = machine::linux::system::kernel_release().unwrap_or_default();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse::<u32>().ok());
    let version = (numbers.next()?, numbers.next()?);
    (version < SLICES_SINCE).then(|| format!("Linux {release} grants no slices; 6.12 and later do"))
}

/// Those that are worth trying, and can be here.
fn tried<'a, 'b>(predictions: &'a [Prediction<'b>]) -> impl Iterator<Item = &'a Prediction<'b>> {
    predictions.iter().filter(|it| it.is_worth_trying() && obstacle(it.treatment).is_none())
}

/// The arguments of the study that would prove it; none where nothing is worth trying here, or what was profiled is no command.
fn study_words(inferred: &Inferred, predictions: &[Prediction<'_>]) -> Option<Vec<String>> {
    let names: Vec<&str> = tried(predictions).map(|prediction| prediction.treatment.name).collect();
    if names.is_empty() || inferred.command.is_empty() {
        return None;
    }
    let mut words = vec!["study".to_owned(), "--sched".into(), format!("default,{}", names.join(",")), "--".into()];
    words.extend(inferred.command.iter().cloned());
    Some(words)
}

/// The arguments of the replay that counts misses in a virtual machine as large as this one; none where it isn't known what programs
/// touch.
fn replay_words(
    path: &Path,
    inferred: &Inferred,
    predictions: &[Prediction<'_>],
    machine: &Machine,
) -> Option<Vec<String>> {
    inferred.programs.iter().find(|program| program.touched_kib.is_some_and(|kib| kib > 0.0))?;
    let simulated: Vec<Policy> = predictions.iter().map(|prediction| prediction.treatment.policy).collect();
    let policies = replay::Policy::all().filter(|policy| simulated.contains(&policy.simulated_by()));
    let names: Vec<&str> = std::iter::once("eevdf").chain(policies.map(|policy| policy.name())).collect();
    let cpus = inferred.cpus;
    let caches = format!("pack:1 l2:{cpus}(size={}KiB) core:1 pu:1", potential::core_cache_kib(machine));
    let words = ["replay", "--on", &format!("vm:1x{cpus}"), "--misses", &caches, "--workload"].map(str::to_owned);
    let rest = [path.display().to_string(), "--policy".into(), names.join(",")];
    Some(words.into_iter().chain(rest).collect())
}

fn text(
    path: &Path,
    inferred: &Inferred,
    reloads_us: &[Vec<f64>; 2],
    predictions: &[Prediction<'_>],
    has_threads: bool,
    study: Option<&[String]>,
) -> String {
    let mut text = format!(
        "{}: profiled for {:.3} s on {} CPUs, Linux {}; simulated on this machine\n",
        path.display(),
        inferred.seconds,
        inferred.cpus,
        inferred.kernel
    );
    // Writing to a string can't fail.
    let _ = write(inferred, reloads_us, predictions, has_threads, study, &mut text);
    text
}

fn write(
    inferred: &Inferred,
    [low_us, high_us]: &[Vec<f64>; 2],
    predictions: &[Prediction<'_>],
    has_threads: bool,
    study: Option<&[String]>,
    text: &mut String,
) -> std::fmt::Result {
    writeln!(text, "\nReload after others have had the caches, in us")?;
    for ((program, low), high) in inferred.programs.iter().zip(low_us).zip(high_us) {
        let how = match program.touched_kib.filter(|kib| *high >= potential::longest_reload_of_us(*kib)) {
            _ if program.reload_us.is_some() => "measured".to_owned(),
            Some(kib) => format!("not measured: none to all of the {kib:.0} KiB that it touches in a slice"),
            None => "not measured: none to all of the L2".into(),
        };
        writeln!(text, "  {:<16} {low:.0} to {high:.0} ({how})", program.name)?;
    }
    writeln!(text, "\nPredicted change of the time, against the kernel's own scheduler, in percent")?;
    writeln!(text, "{:<12} {:>22} {:>22}  worth trying", "", "least reload", "most reload")?;
    for prediction in predictions {
        let [low, high] = prediction.changes.map(|Change { percent, .. }| {
            let ends = percent.low.zip(percent.high).map(|(low, high)| format!(" ({low:.1} to {high:.1})"));
            format!("{:+.1}{}", percent.value, ends.unwrap_or_default())
        });
        let worth = match (prediction.is_worth_trying(), obstacle(prediction.treatment)) {
            (true, None) => "yes".to_owned(),
            (true, Some(why)) => format!("not here: {why}"),
            (false, _) => "no".into(),
        };
        writeln!(text, "{:<12} {low:>22} {high:>22}  {worth}", prediction.treatment.name)?;
    }
    let doubts = doubts(inferred, predictions, has_threads);
    doubts.iter().try_for_each(|doubt| writeln!(text, "\n{doubt}"))?;
    match study {
        Some(words) => {
            writeln!(text, "\nWhat would prove it\n  stayput {}", shell_words::join(words))
        }
        None if predictions.iter().any(Prediction::is_worth_trying) => {
            writeln!(
                text,
                "\nNo study can be named: what was profiled was no command, or what is worth trying can't be tried here."
            )
        }
        None => writeln!(text, "\nNothing is worth a study: no treatment may gain {LEAST_GAIN_PERCENT:.0} % or more."),
    }
}

/// What the reader should doubt.
fn doubts(inferred: &Inferred, predictions: &[Prediction<'_>], has_threads: bool) -> Vec<String> {
    let mut doubts = Vec::new();
    if has_threads {
        doubts.push(
            "Not predicted: attached, which binds each process with all its threads to one CPU, and there is a process of several threads."
                .into(),
        );
    }
    if predictions.len() + usize::from(has_threads) < TREATMENTS.len() {
        doubts.push("Of other treatments that are missing some simulation didn't end.".into());
    }
    if inferred.programs.iter().any(|program| program.reload_us.is_none()) {
        doubts.push(
            "Programs whose reload was measured (stayput profile --reload), or of which is known how little they touch (--working-set), have narrower \
             predictions."
                .into(),
        );
    }
    doubts
}

/// Runs the study, and says which predictions it confirms.
fn prove(journal: &Path, words: &[String], predictions: &[Prediction<'_>]) -> anyhow::Result<u8> {
    let mut all: Vec<OsString> = vec!["stayput".into()];
    let at = words.iter().position(|word| word == "--").unwrap_or(words.len());
    all.extend(words[..at].iter().map(OsString::from));
    all.extend(["--out".into(), journal.into()]);
    all.extend(words[at..].iter().map(OsString::from));
    let Command::Study(study) = Arguments::try_parse_from(all).context("the study can't be asked for")?.command else {
        anyhow::bail!("the study can't be asked for");
    };
    let code = crate::study::run(&study)?;
    if code != SUCCESS {
        return Ok(code);
    }
    let record = Journal::<Comparison>::read(journal)?;
    let analysis = comparison_analysis(&record);
    // They come in the order in which they were asked for, after the one that they are compared with.
    let names: Vec<&str> =
        record.plan.plan.treatments.iter().skip(1).map(|treatment| treatment.name.as_str()).collect();
    let tried: Vec<&Prediction<'_>> = tried(predictions).collect();
    let mut text = String::from("\nPredicted and measured change of the time, in percent\n");
    let mut all_held = true;
    let verdicts = analysis.verdicts.iter().filter_map(|verdict| match verdict {
        Verdict::Comparison(verdict) => Some(&verdict.placements),
        _ => None,
    });
    for verdict in verdicts.flatten() {
        let place = names.iter().position(|name| *name == verdict.configuration.placement);
        let Some(prediction) = place.and_then(|place| tried.get(place)) else { continue };
        let ratio = match verdict.difference {
            Difference::Faster { ratio } | Difference::Slower { ratio } | Difference::NoneShown { ratio, .. } => ratio,
            Difference::TooFew => continue,
        };
        // A ratio is the reference's time over the treatment's.
        let percent = |ratio: f64| 100.0 * (1.0 / ratio - 1.0);
        let (low, high) = prediction.percent();
        let (measured_low, measured_high) = (percent(ratio.high), percent(ratio.low));
        let held = measured_low <= high && low <= measured_high;
        all_held &= held;
        let _ = writeln!(
            text,
            "{:<12} predicted {low:+.1} to {high:+.1}, measured {:+.1} ({measured_low:+.1} to {measured_high:+.1}): {}",
            prediction.treatment.name,
            percent(ratio.value),
            if held { "held" } else { "did not hold" }
        );
    }
    crate::print(&text)?;
    Ok(if all_held { SUCCESS } else { FAILURE })
}
