//! What stands behind the figures: programs, placements, CPUs, failures, the machine and the plan.

use super::figure::{or_dash, scrolled, swatch, table};
use super::grouped;
use super::page::{Section, heading};
use crate::metric;
use crate::mix_table::{job_name, mixes};
use crate::number;
use crate::programs::{self, BuiltinProgram, KEY};
use crate::ranking::cut_off;
use crate::sentences;
use crate::setting;
use crate::study_view::{StudyView, cpu_line, program_threads};
use crate::words::shape_in_words;
use crate::words::{count, plain};
use machine::{CpuSet, Machine, Placement};
use maud::{Markup, PreEscaped, html};
use study::Shape;
use study::crowding::Crowd;
use study::model::{DRIFT_RUNS, Noise, Slow};
use study::{Cell, HostState, Job, PastSession, Subject, SubjectModel, Trial};

/// Most rows of a list that can grow with the study; the rest is in the data.
const ROWS: usize = 40;

/// What the built-in programs need, and the rates that they reached; none for a study without any.
pub(super) fn programs(study: &StudyView) -> Option<Section> {
    let programs = BuiltinProgram::all(study);
    let needs = |subject: &str| {
        let program = programs.iter().find(|program| program.subject == subject);
        html! { (subject) " " small.muted { (program.map_or_else(String::new, BuiltinProgram::needs)) } }
    };
    let title = "Programs and the rates they reached";
    let section = heading("programs", "Programs", title).above(html! {
        dl {
            @for program in &programs {
                dt { (program.subject) }
                dd { (program.title) br; span.muted { "stresses " (program.stresses) } }
            }
        }
        (grouped(title, "Rate", &programs::table(&programs, &study.plan.threads), needs, |row| html! { (row.labels[1]) }))
        p.muted { (KEY) }
        details {
            summary { "What they compute, how they are verified, where they are defined" }
            dl.wide {
                @for program in &programs {
                    dt { (program.subject) }
                    dd {
                        (program.description) br; "verified: " (program.verification) br; span.muted { (program.definition) }
                    }
                }
            }
        }
    });
    (!programs.is_empty()).then_some(section)
}

/// Each placement on the topology.
pub(super) fn placements(study: &StudyView) -> Section {
    heading("placements", "Placements", "Placements on the machine").above(html! {
        @match &study.machine {
            None => p.muted { "The record holds no topology that this version can read." }
            Some(machine) => { (pictures(study, machine)) }
        }
    })
}

fn pictures(study: &StudyView, machine: &Machine) -> Markup {
    // Side by side they must stay legible.
    let broad = machine.usable_cpus().len() > 16;
    html! {
        div.charts.placements.broad[broad] {
            @match pictured(study, machine) {
                pictured if pictured.is_empty() => {
                    figure { figcaption { "Nothing was bound" } (picture(machine, None)) }
                }
                pictured => {
                    @for (threads, names, placement) in pictured {
                        figure {
                            figcaption {
                                @for (index, name) in names.iter().enumerate() {
                                    @if index > 0 { " and " }
                                    (swatch(study.series(name), " ")) (plain(name))
                                }
                                ", " (shape_in_words(threads))
                            }
                            (picture(machine, Some(placement)))
                        }
                    }
                }
            }
        }
        p.muted { "The CPUs of every " (study.column_noun()) " are listed below." }
    }
}

pub(super) fn picture(machine: &Machine, placement: Option<&Placement>) -> Markup {
    scrolled("Picture of the machine", false, PreEscaped(crate::picture::svg(machine, placement)))
}

/// Which placements are pictured, under all their names: each treatment at the largest thread count that leaves a CPU
/// free, where policies differ most visibly, and whatever is shown to be the best of a subject.
fn pictured<'a>(study: &StudyView<'a>, machine: &Machine) -> Vec<(Shape, Vec<&'a str>, &'a Placement)> {
    let (plan, usable) = (&study.plan, machine.usable_cpus().len());
    let all = || plan.threads.iter().copied();
    let partial = all().filter(|&threads| (threads.total() as usize) < usable).max().or(all().max());
    let typical = plan.treatments.iter().filter_map(|treatment| Some((partial?, treatment.name.as_str())));
    let best = study.analysis.best.iter().filter(|best| best.shown).filter_map(|best| study.best_summary(best));
    let best = best
        .flat_map(|cell| std::iter::once(&cell.placement).chain(&cell.also).map(|name| (cell.threads, name.as_str())));
    let mut pictured: Vec<(Shape, Vec<&str>, &Placement)> = Vec::new();
    for (threads, name) in typical.chain(best) {
        let Some(placement) = study.placement(name, threads) else { continue };
        match pictured.iter_mut().find(|(count, _, earlier)| *count == threads && earlier.slots == placement.slots) {
            Some((_, names, _)) if names.contains(&name) => {}
            Some((_, names, _)) => names.push(name),
            None => pictured.push((threads, vec![name], placement)),
        }
    }
    pictured
}

/// Where threads were meant to be, and where they were.
pub(super) fn cpus(study: &StudyView) -> Section {
    let plan = &study.plan;
    if study.is_of_mixes() {
        return cpus_of_jobs(study);
    }
    let is_long = plan.treatments.len() * plan.threads.len() > ROWS;
    let usable = study.machine.as_ref().map(|machine| machine.usable_cpus()).unwrap_or_default();
    heading("cpus", "CPUs", "Intended and actual CPUs").above(html! {
        p { "In the order in which threads were created. Each thread's CPUs were read back from the kernel while it ran." }
        (scrolled("Intended and actual CPUs", is_long, html! {
            table.dense.wrap {
                thead { tr { th { "placement" } th.n { "threads" } th { "intended CPUs" } th { "read back, over all subjects" } } }
                tbody {
                    @for (index, treatment) in plan.treatments.iter().enumerate() {
                        @let names = |threads| plan.names(Cell { subject: 0, threads, treatment: index }).collect::<Vec<_>>().join(" = ");
                        @let trials = |threads: Option<Shape>| study.trials.iter().filter(move |trial| {
                            trial.placement == treatment.name && threads.is_none_or(|threads| threads == trial.threads)
                        });
                        @if treatment.placements.is_empty() {
                            tr { td { (plain(&treatment.name)) } td.n { "all" } td { "free" } td { (roamed(trials(None))) } }
                        }
                        @for (column, (&threads, placement)) in plan.threads.iter().zip(&treatment.placements).enumerate() {
                            @if let Some(placement) = placement { tr {
                                td { (plain(&names(column))) } td.n { (threads) } td { code { (cpu_line(&placement.slots)) } }
                                td { (read_back(trials(Some(threads)), &usable)) }
                            } }
                        }
                    }
                }
            }
        }))
        (elsewhere(study))
    })
}

/// Where the jobs of mixes were meant to be.
fn cpus_of_jobs(study: &StudyView) -> Section {
    let rows: Vec<[String; 4]> = mixes(study)
        .flat_map(|(_, mix)| mix.placements.iter().map(move |placement| (mix, placement)))
        .flat_map(|(mix, placement)| {
            let row = move |(job, place): (&Job, &Option<Placement>)| {
                let cpus = place.as_ref().map_or_else(|| "free".into(), |place| cpu_line(&place.slots));
                [plain(&placement.treatment), placement.threads.to_string(), plain(&job.name), cpus]
            };
            mix.jobs.iter().zip(&placement.jobs).map(row)
        })
        .collect();
    heading("cpus", "CPUs", "Intended and actual CPUs").above(html! {
        p { "Where each job's threads were put, in the order in which they were created. What isn't listed was left alone. Each thread's CPUs were read back from the kernel while it ran; those that were elsewhere stand below." }
        @if rows.is_empty() { p.muted { "No job was put anywhere." } }
        @else { (table(&["placement", "threads", "job", "intended CPUs"], rows)) }
        (elsewhere(study))
    })
}

/// The threads that were read back on other CPUs than intended.
fn elsewhere(study: &StudyView) -> Markup {
    let strayed: Vec<(&Trial, String)> = study.trials.iter().flat_map(strays).collect();
    html! {
        @if !strayed.is_empty() {
            h3 { "Threads read back elsewhere" }
            (scrolled("Threads read back elsewhere", false, html! {
                table.dense {
                    thead { tr { th.n { "trial" } th { "subject" } th { "placement" } th { "thread, intended and actual CPUs" } } }
                    tbody {
                        @for (trial, words) in strayed.iter().take(ROWS) {
                            tr { td.n { (trial.sequence) } td { (plain(&trial.subject)) } td { (plain(&trial.placement)) } td { (words) } }
                        }
                    }
                }
            }))
            (more(strayed.len()))
        }
    }
}

/// How many rows of a list are left out.
fn more(rows: usize) -> Markup {
    html! { @if rows > ROWS { p.muted { "And " (rows - ROWS) " more, in the data." } } }
}

/// Where the threads of unbound trials were allowed to be.
fn roamed<'t>(trials: impl Iterator<Item = &'t Trial>) -> Markup {
    let actual: CpuSet = trials.flat_map(program_threads).flat_map(|thread| thread.actual_cpus.iter()).collect();
    html! { @if actual.is_empty() { "nothing was seen" } @else { "free on " code { (actual.to_string()) } } }
}

/// In how many of the trials every thread was where it was meant to be.
fn read_back<'t>(trials: impl Iterator<Item = &'t Trial>, usable: &CpuSet) -> Markup {
    let seen: Vec<&Trial> = trials.filter(|trial| !program_threads(trial).is_empty()).collect();
    let right = seen.iter().filter(|trial| strays(trial).next().is_none()).count();
    let crowded = seen.iter().filter(|trial| Crowd::in_trial(trial, usable).is_some()).count();
    html! {
        @if seen.is_empty() { "nothing was seen" }
        @else if right == seen.len() { "as intended in all " (count(right, "trial")) }
        @else { span.bad { "as intended in " (right) " of " (count(seen.len(), "trial")) } }
        @if crowded > 0 { "; " span.bad { "in " (crowded) " several processes took turns on one CPU" } }
    }
}

fn strays(trial: &Trial) -> impl Iterator<Item = (&Trial, String)> {
    let threads = trial.observation.iter().flat_map(|seen| &seen.threads).filter(|thread| thread.strayed());
    threads.map(move |thread| {
        let intended = thread.intended_cpus.as_ref().map_or_else(String::new, ToString::to_string);
        let process = if thread.process == 0 { String::new() } else { format!(" of process {}", thread.process) };
        (trial, format!("thread {}{process}: intended {intended}, actual {}", thread.thread, thread.actual_cpus))
    })
}

/// Every failed trial with its cause and the last of its output.
pub(super) fn failures(study: &StudyView) -> Section {
    let failures: Vec<&Trial> = study.failures().collect();
    let cut_off = cut_off(study.trials);
    heading("failures", "Failures", "Failures").above(html! {
        @if failures.is_empty() { p { "None: no trial went wrong." } }
        @if cut_off > 0 {
            p { (count(cut_off, "trial")) " more cut off, having lost the race by then: counted as lost, not as failed." }
        }
        @for trial in failures.iter().take(ROWS) {
            h3 { "#" (trial.sequence) " " span.bad { (trial.status) } }
            p {
                (plain(&trial.subject)) ", " (shape_in_words(trial.threads)) ", " (plain(&trial.placement))
                @if trial.warmup { ", warm-up" } ": " (plain(&trial.cause))
            }
            @if !trial.output_tail.trim().is_empty() {
                details { summary { "The last of its output" } pre tabindex="0" { (plain(trial.output_tail.trim_end())) } }
            }
        }
        (more(failures.len()))
    })
}

/// The jobs of a mix, each with the subject that it is a run of where that is called otherwise.
fn jobs_of(subject: &Subject) -> String {
    let name = |job: &Job| match job_name(job) {
        name if job.name == job.subject => plain(&name),
        name => format!("{}, which is {}", plain(&name), plain(&job.subject)),
    };
    subject.mix.iter().flat_map(|mix| &mix.jobs).map(name).collect::<Vec<_>>().join("; ")
}

/// The machine, the study on it, and what moved meanwhile.
pub(super) fn machine(study: &StudyView) -> Section {
    let (host, plan) = (study.host, study.plan);
    let cpus = study.machine.as_ref().map(|machine| machine.usable_cpus());
    let simulated = study.is_simulated();
    let title = if simulated { "Model and study" } else { "Machine and study" };
    heading("machine", "Machine", title).above(html! {
        dl {
            @if simulated { dt { "machine" } dd { (plain(&setting::machine(study))) ", modelled" } }
            @else { dt { "CPU" } dd { (host.cpu_model.as_deref().unwrap_or("unknown model")) " (" (host.architecture) ")" } }
            @if let Some(cpus) = cpus { dt { "usable CPUs" } dd { (cpus.len()) ": " (cpus.to_string()) } }
            @if !simulated {
                dt { "kernel" } dd { "Linux " (host.kernel) @if let Some(name) = &host.distribution { ", " (name) } }
                dt { "hypervisor" } dd { (host.hypervisor.as_deref().unwrap_or("none seen")) }
            }
            dt { "Stayput" } dd { (host.stayput_version) }
            dt { "seed" } dd { (plan.seed) }
            dt { "stop rule" } dd { (setting::stop_rule(study)) }
            dt { "warm-up" } dd { (count(plan.warmup_blocks as usize, "block")) }
            dt { "timeout" } dd { (number::duration(plan.timeout.as_secs_f64())) " a trial" }
            dt { "stopped" } dd { (sentences::stop(&study.analysis.stop)) }
            @for subject in &plan.subjects {
                dt { "subject" }
                dd {
                    @match &subject.model {
                        Some(model) => { (plain(&subject.name)) ": " (modelled(model)) }
                        None if subject.mix.is_some() => { (plain(&subject.name)) ", at once: " (jobs_of(subject)) }
                        None if !subject.variants.is_empty() => {
                            @for variant in &subject.variants {
                                (plain(&variant.treatment)) ": " code { (plain(&shell_words::join(&variant.argv))) } br;
                            }
                        }
                        None => code { (plain(&shell_words::join(&subject.argv))) }
                    }
                    @if let Some(running) = &subject.running {
                        br; "is a load, " (plain(&running.load_place)) ", on what runs already, which is placed: " code { (plain(&running.program.to_string_lossy())) }
                    }
                    @if let Some(server) = &subject.server {
                        br; "is a load, " (plain(&server.load_place)) ", on the server " code { (plain(&shell_words::join(&server.argv))) }
                        ", which is placed, " @if server.keep { "started once a block, " } "and ready by " code { (plain(&server.ready.to_string())) }
                    }
                    @if let Some(build) = &subject.build { br; "which says it is " (plain(build)) }
                    @if let Some(input) = &subject.input {
                        br; "each run reads " (plain(&input.file.as_ref().map_or("standard input".into(), |f| f.display().to_string())))
                        ", " (number::bytes(input.bytes)) ", SHA-256 " code { (&input.sha256) }
                    }
                    @for file in subject.identity.iter().flat_map(|identity| &identity.files) {
                        br; code { (plain(&file.path.to_string_lossy())) } ", " (number::bytes(file.size_bytes)) ", SHA-256 "
                        code { (file.sha256.get(..16).unwrap_or(&file.sha256)) } "…"
                    }
                    br; @if subject.alone.is_some() { "run by itself alone, " }
                    @if study.is_emulated() { (metric::counted(subject)) } @else { "compared by " (metric::of_subject(subject)) }
                    @if let Some(regex) = &subject.time_regex { br; "its own time: " code { (plain(regex)) } }
                    @if let Some(regex) = &subject.verified_regex { br; "verified by: " code { (plain(regex)) } }
                }
            }
        }
        @if !simulated {
            h3 { "Environment" }
            @if host.environment.is_empty() { p { "No variable that reaches OpenMP runtimes, allocators or the loader was set." } }
            @else {
                dl { @for (name, value) in &host.environment { dt { code { (plain(name)) } } dd { code { (plain(value)) } } } }
            }
            @for (index, session) in study.sessions.iter().enumerate() { (stretch(index, study.sessions.len(), session)) }
        }
    })
}

/// How a model draws its times.
fn modelled(model: &SubjectModel) -> String {
    let Noise { lognormal, drift, outliers } = model.noise;
    let mut words = format!(
        "a model, {} with lognormal noise of {}",
        count(model.times.len(), "mean time"),
        number::percent(lognormal)
    );
    if drift != 0.0 {
        words.push_str(&format!(", drifting by {} in {DRIFT_RUNS} runs", number::change(drift)));
    }
    if let Some(Slow { share, factor }) = outliers {
        words.push_str(&format!(", {} of runs {factor} times as long", number::percent(share)));
    }
    words
}

fn stretch(index: usize, stretches: usize, session: &PastSession) -> Markup {
    type Fact = (&'static str, fn(&HostState) -> Option<String>);
    let facts: [Fact; 6] = [
        ("time", |s| Some(number::moment(s.unix_s))),
        ("load over 1, 5, 15 min", |s| s.load_average.map(|load| load.map(|l| format!("{l:.2}")).join(" "))),
        ("frequency governors", |s| (!s.governors.is_empty()).then(|| plain(&s.governors.join(", ")))),
        ("several threads a core", |s| s.smt_active.map(|on| if on { "yes" } else { "no" }.to_owned())),
        ("CPU limit of the control group", |s| s.cgroup_cpu_limit.map(|cpus| format!("{cpus:.2} CPUs"))),
        ("available memory", |s| s.available_memory_bytes.map(number::bytes)),
    ];
    let (before, after) = (&session.before, session.after.as_ref());
    let grown = |part: fn(&HostState) -> Option<f64>| Some(part(after?)? - part(before)?);
    let steal = grown(|state| state.steal_s).zip(grown(|state| state.total_cpu_s)).filter(|(_, total)| *total > 0.0);
    html! {
        h3 { @if stretches > 1 { "Stretch " (index + 1) " of " (stretches) } @else { "Before and after" } }
        p { code { (plain(&shell_words::join(&session.command_line))) } }
        (scrolled("The machine before and after", false, html! {
            table.dense {
                thead { tr { td {} th scope="col" { "before" } th scope="col" { @if after.is_some() { "after" } @else { "after (interrupted)" } } } }
                tbody {
                    @for (name, fact) in facts {
                        tr { th scope="row" { (name) } td { (or_dash(fact(before), |fact| fact)) } td { (or_dash(after.and_then(fact), |fact| fact)) } }
                    }
                }
            }
        }))
        @if let Some((steal, total)) = steal {
            p { "The hypervisor took " (number::percent(steal / total)) " of CPU time in between (steal)." }
        }
    }
}
