//! What stands behind the figures: placements, CPUs, failures, the machine and the plan.

use crate::chart::Hue;
use crate::number;
use crate::study_view::{StudyView, cpu_line, program_threads};
use crate::words::{count, ending, plain, stop_rule};
use machine::{Machine, Placement};
use maud::{Markup, PreEscaped, html};
use std::collections::BTreeSet;
use study::{HostState, Session, Summary, Trial};

/// Most rows of a list that can grow with the study; the rest is in the data.
const ROWS: usize = 40;

/// Each placement on the topology.
pub(super) fn placements(study: &StudyView) -> Markup {
    html! {
        section #placements {
            h2 { "Placements on the machine" }
            @match &study.machine {
                None => p.muted { "The record holds no topology that this version can read." }
                Some(machine) => { (pictures(study, machine)) }
            }
        }
    }
}

fn pictures(study: &StudyView, machine: &Machine) -> Markup {
    let bound: Vec<_> = study.record.plan.treatments.iter().filter(|t| !t.placements.is_empty()).collect();
    html! {
        @if bound.is_empty() {
            p { "Nothing was bound." }
            div.charts.placements { figure { figcaption { "The machine" } (PreEscaped(crate::picture::svg(machine, None))) } }
        }
        @for threads in pictured_counts(study, machine) {
            h3 { (count(threads as usize, "thread")) }
            div.charts.placements {
                @let mut shown: Vec<(&str, &Placement)> = Vec::new();
                @for treatment in &bound {
                    @if let Some(placement) = study.placement(&treatment.name, threads) {
                        @let hue = Hue::Series(study.treatment_index(&treatment.name));
                        figure {
                            figcaption { span class=(hue.class()) aria-hidden="true" { (hue.glyph()) } " " (plain(&treatment.name)) }
                            @if let Some((twin, _)) = shown.iter().find(|(_, earlier)| earlier.slots == placement.slots) {
                                p.muted { "The very same as " (plain(twin)) "." }
                            } @else {
                                (PreEscaped(crate::picture::svg(machine, Some(placement))))
                            }
                        }
                        ({ shown.push((&treatment.name, placement)); "" })
                    }
                }
            }
        }
        p.muted { "The CPUs of every thread count are listed below." }
    }
}

/// Thread counts whose placements are pictured: each subject's best, and the largest that leaves a CPU free, where
/// policies differ most visibly.
fn pictured_counts(study: &StudyView, machine: &Machine) -> BTreeSet<u32> {
    let usable = machine.usable_cpus().len();
    let partial = study.record.plan.threads.iter().copied().filter(|&threads| (threads as usize) < usable).max();
    study.analysis.best.iter().map(|best| best.threads).chain(partial).collect()
}

/// Where threads were meant to be, and where they were.
pub(super) fn cpus(study: &StudyView) -> Markup {
    let rows: Vec<&Summary> = study.analysis.summaries.iter().filter(|s| study.trials(s).next().is_some()).collect();
    let strayed: Vec<(&Trial, String)> = study.record.trials.iter().flat_map(strays).collect();
    html! {
        section #cpus {
            h2 { "Intended and actual CPUs" }
            p { "In the order in which threads were created. Each thread's CPUs were read back from the kernel while it ran." }
            div.scroll tabindex="0" role="region" aria-label="Intended and actual CPUs" {
                table.dense.wrap {
                    thead { tr { th { "subject" } th.n { "threads" } th { "placement" } th { "intended CPUs" } th { "read back" } } }
                    tbody {
                        @for summary in rows {
                            tr {
                                td { (plain(&summary.subject)) } td.n { (summary.threads) } td { (plain(&summary.placement)) }
                                td {
                                    @match study.placement(&summary.placement, summary.threads) {
                                        Some(placement) => code { (cpu_line(&placement.slots)) }
                                        None => { "free" }
                                    }
                                }
                                td { (read_back(study, summary)) }
                            }
                        }
                    }
                }
            }
            @if !strayed.is_empty() {
                h3 { "Threads read back elsewhere" }
                div.scroll tabindex="0" role="region" aria-label="Threads read back elsewhere" {
                    table.dense {
                        thead { tr { th.n { "trial" } th { "subject" } th { "placement" } th { "thread, intended and actual CPUs" } } }
                        tbody {
                            @for (trial, words) in strayed.iter().take(ROWS) {
                                tr { td.n { (trial.sequence) } td { (plain(&trial.subject)) } td { (plain(&trial.placement)) } td { (words) } }
                            }
                        }
                    }
                }
                @if strayed.len() > ROWS { p.muted { "And " (strayed.len() - ROWS) " more, in the data." } }
            }
        }
    }
}

/// How many trials of a cell had every thread where it was meant to be.
fn read_back(study: &StudyView, summary: &Summary) -> Markup {
    let seen: Vec<&Trial> = study.trials(summary).filter(|trial| !program_threads(trial).is_empty()).collect();
    if seen.is_empty() {
        return html! { "nothing was seen" };
    }
    if study.placement(&summary.placement, summary.threads).is_none() {
        let actual: machine::CpuSet =
            seen.iter().flat_map(|trial| program_threads(trial)).flat_map(|thread| thread.actual_cpus.iter()).collect();
        return html! { "free on " code { (actual.to_string()) } };
    }
    let right = seen.iter().filter(|trial| strays(trial).next().is_none()).count();
    html! {
        @if right == seen.len() { "as intended in all " (count(right, "trial")) }
        @else { span.bad { "as intended in " (right) " of " (count(seen.len(), "trial")) } }
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
pub(super) fn failures(study: &StudyView) -> Markup {
    let failures: Vec<&Trial> = study.failures().collect();
    html! {
        section #failures {
            h2 { "Failures" }
            @if failures.is_empty() { p { "None: every trial went well." } }
            @for trial in failures.iter().take(ROWS) {
                h3 { "#" (trial.sequence) " " span.bad { (trial.status) } }
                p {
                    (plain(&trial.subject)) ", " (count(trial.threads as usize, "thread")) ", " (plain(&trial.placement))
                    @if trial.warmup { ", warm-up" } ": " (plain(&trial.cause))
                }
                @if !trial.output_tail.trim().is_empty() {
                    details { summary { "The last of its output" } pre tabindex="0" { (plain(trial.output_tail.trim_end())) } }
                }
            }
            @if failures.len() > ROWS { p.muted { "And " (failures.len() - ROWS) " more, in the data." } }
        }
    }
}

/// The machine, the study on it, and what moved meanwhile.
pub(super) fn machine(study: &StudyView) -> Markup {
    let (record, host, plan) = (study.record, &study.record.host, &study.record.plan);
    let cpus = study.machine.as_ref().map(|machine| machine.usable_cpus());
    html! {
        section #machine {
            h2 { "Machine and study" }
            dl {
                dt { "CPU" } dd { (host.cpu_model.as_deref().unwrap_or("unknown model")) " (" (host.architecture) ")" }
                @if let Some(cpus) = cpus { dt { "usable CPUs" } dd { (cpus.len()) ": " (cpus.to_string()) } }
                dt { "kernel" } dd { "Linux " (host.kernel) @if let Some(name) = &host.distribution { ", " (name) } }
                dt { "hypervisor" } dd { (host.hypervisor.as_deref().unwrap_or("none seen")) }
                dt { "Stayput" } dd { (host.stayput_version) }
                dt { "seed" } dd { (plan.seed) }
                dt { "stop rule" } dd { (stop_rule(plan)) }
                dt { "warm-up" } dd { (count(plan.warmup_blocks as usize, "block")) }
                dt { "timeout" } dd { (number::duration(plan.timeout.as_secs_f64())) " a trial" }
                dt { "ending" } dd { (ending(record)) }
                @for subject in &plan.subjects {
                    dt { "subject" }
                    dd {
                        code { (plain(&shell_words::join(&subject.argv))) }
                        @if let Some(regex) = &subject.time_regex { br; "its own time: " code { (plain(regex)) } }
                        @if let Some(regex) = &subject.verified_regex { br; "verified by: " code { (plain(regex)) } }
                    }
                }
            }
            h3 { "Environment" }
            @if host.environment.is_empty() { p { "No variable that reaches OpenMP runtimes, allocators or the loader was set." } }
            @else {
                dl { @for (name, value) in &host.environment { dt { code { (plain(name)) } } dd { code { (plain(value)) } } } }
            }
            @for (index, session) in record.sessions.iter().enumerate() { (stretch(index, record.sessions.len(), session)) }
        }
    }
}

fn stretch(index: usize, stretches: usize, session: &Session) -> Markup {
    let (before, after) = (&session.before, session.after.as_ref());
    let state_row = |name: &str, read: &dyn Fn(&HostState) -> Option<String>| {
        let cell = |state: Option<&HostState>| state.and_then(read).unwrap_or_else(|| "–".into());
        html! { tr { th scope="row" { (name) } td { (cell(Some(before))) } td { (cell(after)) } } }
    };
    let share = |part: fn(&HostState) -> Option<f64>| {
        let (from, to) = (part(before)?, part(after?)?);
        Some(to - from)
    };
    let steal = share(|state| state.steal_s).zip(share(|state| state.total_cpu_s)).filter(|(_, total)| *total > 0.0);
    html! {
        h3 { @if stretches > 1 { "Stretch " (index + 1) " of " (stretches) } @else { "Before and after" } }
        p { code { (plain(&shell_words::join(&session.command_line))) } }
        div.scroll tabindex="0" role="region" aria-label="The machine before and after" {
            table.dense {
                thead { tr { td {} th scope="col" { "before" } th scope="col" { @if after.is_some() { "after" } @else { "after (interrupted)" } } } }
                tbody {
                    (state_row("time", &|s| Some(number::moment(s.unix_s))))
                    (state_row("load over 1, 5, 15 min", &|s| s.load_average.map(|load| load.map(|l| format!("{l:.2}")).join(" "))))
                    (state_row("frequency governors", &|s| (!s.governors.is_empty()).then(|| plain(&s.governors.join(", ")))))
                    (state_row("several threads a core", &|s| s.smt_active.map(|on| if on { "yes" } else { "no" }.to_owned())))
                    (state_row("CPU limit of the control group", &|s| s.cgroup_cpu_limit.map(|cpus| format!("{cpus:.2} CPUs"))))
                    (state_row("available memory", &|s| s.available_memory_bytes.map(number::bytes)))
                }
            }
        }
        @if let Some((steal, total)) = steal {
            p { "The hypervisor took " (number::percent(steal / total)) " of CPU time in between (steal)." }
        }
    }
}
