//! `stayput profile`: what programs that run do to their time slices and caches.

mod check;

use crate::live::View;
use crate::{FAILURE, SUCCESS, UsageError, shell};
use ::profile::evictor::LostCache;
use ::profile::trace::TraceTo;
use ::profile::watching::profile_and_trace;
use ::profile::{Looks, Potential, Profile, ProfileError, Profiled, Program, Target, reload, text, workload};
use anyhow::Context;
pub(crate) use check::{inferred_file, simulated};
use indicatif::ProgressBar;
use machine::Machine;
use output::{Inputs, ResultFile};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::thread;
use study::Exit;
use study::study_file::Span;

/// Find out why it matters where a program runs: its time slices, what ends them, its waits and moves
///
/// It is counted in the kernel, which takes root; without that a command of your own is profiled by the kernel's records of it.
/// Nothing is changed, unless --reload or --working-set is given: no thread is bound, and nothing stays in the kernel.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  stayput profile -- make -j4                   why would it matter where a build runs?
  sudo stayput profile --pid 4711 --for 10s     the same of a server that runs already
  sudo stayput profile --all --for 5s --json everything.json
  sudo stayput profile --all --live             who has the CPUs, and how long at a time, right now?
  stayput profile --reload -- ./app             and what does it cost to bring back a lost cache?
  stayput profile --working-set -- ./app        and how much does it touch in a time slice?
  stayput profile --workload app.toml -- ./app  and `stayput simulate time-sharing --workload app.toml`
  stayput profile --check app.toml              is the workload like the program?")]
#[command(group = clap::ArgGroup::new("target").args(["pid", "cgroup", "all", "check", "command"]).required(true))]
pub struct ProfileArgs {
    /// Profile this process and all that descends from it, until it ends, for --for, or until Ctrl-C
    #[arg(long, value_name = "PID")]
    pid: Option<i32>,
    /// Profile the processes of this control group, likewise
    #[arg(long, value_name = "PATH", value_hint = clap::ValueHint::DirPath)]
    cgroup: Option<PathBuf>,
    /// Profile everything but the kernel's own threads
    #[arg(long)]
    all: bool,
    /// Simulate and replay a workload that --workload wrote, and compare both with what was profiled; exit code 1 where they differ
    #[arg(long, value_name = "FILE", conflicts_with_all = ["duration", "json", "workload", "html", "trace", "live", "reload"], add = shell::files("toml"))]
    check: Option<PathBuf>,
    /// How long at most; a command goes on to its end unobserved
    #[arg(long = "for", value_name = "DURATION")]
    duration: Option<Span>,
    /// Measure what it costs CMD to bring back a cache that others displaced: it is run many times more, its output unseen
    #[arg(long, value_name = "CACHE", num_args = 0..=1, default_missing_value = "l2", value_parser = ["l2", "l3"])]
    reload: Option<String>,
    /// Look now and then which pages the programs touch, which disturbs them
    #[arg(long, conflicts_with_all = ["live", "check"])]
    working_set: bool,
    /// Write the profile to FILE, as JSON (`-`: standard output)
    #[arg(long, visible_alias = "out", value_name = "FILE", add = shell::files("json"))]
    json: Option<PathBuf>,
    /// Write the programs to FILE as a workload that simulate and replay take (`-`: standard output)
    #[arg(long, value_name = "FILE", add = shell::files("toml"))]
    workload: Option<PathBuf>,
    /// Write the profile to FILE as a page for a browser (`-`: standard output)
    #[arg(long, value_name = "FILE", add = shell::files("html"))]
    html: Option<PathBuf>,
    /// Write every switch, wake-up and move to FILE as a trace that ui.perfetto.dev opens; --html then shows who had
    /// the CPUs over a second
    #[arg(long, value_name = "FILE", add = shell::files("pftrace"))]
    trace: Option<PathBuf>,
    /// Show it on the screen as it comes about; the profile is printed at the end all the same
    #[arg(long, conflicts_with_all = ["quiet", "trace"])]
    live: bool,
    /// Print no tables
    #[arg(short, long)]
    quiet: bool,
    /// The program and its arguments
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Measures the reload of the command that was profiled, and puts it into its profile. Returns how it was measured.
fn measure_reload(args: &ProfileArgs, cache: &str, profile: &mut Profile, machine: &Machine) -> anyhow::Result<String> {
    let lost = LostCache::try_from(cache).context("--reload takes l2 or l3")?;
    let at_most = args.duration.map_or(reload::USUAL_LIMIT, |Span(duration)| duration);
    let progress = ProgressBar::new_spinner();
    let found = reload::measure(&args.command, lost, machine, at_most, &mut |block| {
        progress.set_message(format!("measuring the reload: block {} of 3 runs", block + 1));
        progress.tick();
    });
    progress.finish_and_clear();
    let found = found.context("the reload was not measured")?;
    reload::fill_in(profile, &found, machine);
    Ok(found.how())
}

/// The commands that would prove what the profile judges, where it finds anything to gain.
fn proofs(args: &ProfileArgs, profile: &Profile) -> String {
    let may_gain = |program: &Program| !matches!(program.potential, Potential::Unknown | Potential::None);
    if !profile.programs.iter().any(may_gain) {
        return String::new();
    }
    let study = match (args.pid, &args.cgroup) {
        (Some(pid), _) => format!("--place unbound,compact --pid {pid} -- LOAD"),
        (None, Some(path)) => format!("--place unbound,compact --cgroup {} -- LOAD", quoted(path.as_os_str())),
        (None, None) if args.all => return String::new(),
        (None, None) => {
            let words: Vec<_> = args.command.iter().map(|word| quoted(word)).collect();
            let slices = if crate::advise::slices_obstacle().is_none() { ",slice=30" } else { "" };
            format!("--sched default,attached{slices} -- {}", words.join(" "))
        }
    };
    format!("\nWhat would prove it\n  stayput study {study}\n")
}

/// A trace is a file of its own: it gets its name when it is whole.
fn trace_file(path: &Path, file: ResultFile) -> anyhow::Result<ResultFile> {
    if path == Path::new("-") || path.exists() && !path.is_file() {
        return Err(UsageError::from("a trace needs a file of its own; name one, as in --trace app.pftrace"));
    }
    Ok(file)
}

/// A word as a shell takes it.
fn quoted(word: &OsStr) -> String {
    shell_words::quote(&word.to_string_lossy()).into_owned()
}

/// Profiles, and reports.
pub fn run(args: &ProfileArgs) -> anyhow::Result<u8> {
    if let Some(path) = &args.check {
        return check::run(path, args.quiet);
    }
    let target = match crate::study::target(args.pid, args.cgroup.as_deref())? {
        Some(target) => Target::Running(target),
        None if args.all => Target::All,
        None => Target::Command(args.command.clone()),
    };
    if args.reload.is_some() && !matches!(target, Target::Command(_)) {
        return Err(UsageError::from(
            "--reload runs a command many times, and compares what the same work takes; how far a program that runs already has come \
             isn't known without a counter of instructions: stayput profile --reload -- CMD",
        ));
    }
    // Before anything runs: results that can't be kept are better known at once.
    let inputs = || {
        let mut inputs = Inputs::default();
        let program = args.command.first().and_then(|program| launch::executable_path(program).ok());
        inputs.add_command(program.as_deref(), &args.command);
        inputs
    };
    let file = |path: &PathBuf| ResultFile::named(path, inputs());
    let json = args.json.as_ref().map(file).transpose()?;
    let workload_file = args.workload.as_ref().map(file).transpose()?;
    let page = args.html.as_ref().map(file).transpose()?;
    let named =
        [("--json", &args.json), ("--workload", &args.workload), ("--html", &args.html), ("--trace", &args.trace)];
    for (at, (option, path)) in named.iter().enumerate() {
        let is_same = |(_, other): &&(&str, &Option<PathBuf>)| path.is_some() && other == path;
        if let Some((other, _)) = named[..at].iter().find(is_same) {
            return Err(UsageError::from(format!("{other} and {option} name the same file; give each its own")));
        }
    }
    let trace = args.trace.as_ref().map(|path| trace_file(path, file(path)?)).transpose()?;
    let at_most = args.duration.map(|Span(duration)| duration);
    // Before anything that may begin a thread: it forks.
    let view = args.live.then(View::prepare).transpose()?;
    let machine = Machine::host()?;
    let looks = args.working_set.then(|| Looks::begin(&target));
    let to = trace.as_ref().map(|file| TraceTo::file(file.path()));
    let profile = || match view {
        Some(view) => view.profile(&target, at_most, &machine),
        None => profile_and_trace(&target, at_most, &machine, to).map(|profiled| (profiled, Ok(()))),
    };
    // Whoever counts in the kernel gives up capabilities, and the kernel takes its clocks from a command that has more when it is executed.
    let profiled = match &args.reload {
        Some(_) => {
            let joined = thread::scope(|scope| scope.spawn(profile).join());
            joined.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked))
        }
        None => profile(),
    };
    let (profiled, shown) = profiled.map_err(|error| match error {
        ProfileError::Launch(error) if !args.command.is_empty() => crate::unstartable(error, &args.command[0]),
        error => error.into(),
    })?;
    let Profiled { mut profile, launched, refused, trace_failure } = profiled;
    if let Some(looks) = looks {
        looks.finish(&mut profile, &machine);
    }
    if let Some(refused) = refused {
        eprintln!("stayput: {refused}; this profile is from records, which tell less");
    }
    let is_well = launched.as_ref().is_some_and(|launched| launched.observation.exit == Exit::Code(0));
    // One that can't be measured leaves its profile to be read all the same.
    let mut unmeasured = None;
    match &args.reload {
        Some(cache) if is_well => match measure_reload(args, cache, &mut profile, &machine) {
            Ok(how) => eprintln!("stayput: {how}"),
            Err(error) => unmeasured = Some(error),
        },
        _ => {}
    }
    if !args.quiet {
        let to_stdout =
            [&args.json, &args.workload, &args.html].iter().any(|path| path.as_deref() == Some(Path::new("-")));
        let text = text::terminal(&profile) + &proofs(args, &profile);
        if to_stdout { eprint!("{text}") } else { crate::print(&text)? }
    }
    let text = serde_json::to_string_pretty(&profile).context("the profile can't be written as JSON")?;
    if let Some(json) = json {
        json.write(format!("{}\n", terminal::printable_json(&text)))?;
    }
    if let Some(page) = page {
        page.write(::report::profile_page(&profile, &text, env!("CARGO_PKG_VERSION")))?;
    }
    if let Some(file) = workload_file {
        file.write(workload::workload_file(&profile))?;
    }
    if let Some(failure) = trace_failure {
        let left = format!("what was traced until then is in {}", failure.path.display());
        return Err(anyhow::Error::new(failure).context(left));
    }
    if let Some(error) = unmeasured {
        return Err(error);
    }
    shown.context("the view ended, since the terminal failed")?;
    Ok(match launched.map(|launched| launched.observation.exit) {
        None | Some(Exit::Code(0)) => SUCCESS,
        Some(Exit::Code(code)) => {
            eprintln!("stayput: the command ended with exit code {code}");
            FAILURE
        }
        Some(Exit::Signal(signal)) => {
            eprintln!("stayput: the command was ended by signal {signal}");
            FAILURE
        }
        Some(Exit::TimedOut) => FAILURE,
    })
}
