//! The line to paste: the best placement of each subject in three syntaxes, when it is shown to be better.

use crate::sentences::on_a_busy_machine;
use crate::study_view::{StudyView, cpu_line};
use crate::words::compared;
use crate::words::shape_in_words;
use machine::{Machine, Placement, RankPlacement, RankShape, RankSyntax, Syntax};
use strum::IntoEnumIterator;
use study::Shape;
use study::binding::{Binding, Observe, Unit};
use study::redaction::REDACTED;
use study::{Best, Factor, Job, Mpi, Subject, Treatment, Varied};

/// What to do about one subject.
pub(crate) struct Advice {
    /// The advice in words.
    pub sentence: String,
    /// Commands that follow it; empty when nothing needs to be done.
    pub lines: Vec<Line>,
}

/// A command that runs the subject under the best placement.
pub(crate) struct Line {
    /// What takes the command, and what it keeps.
    pub tool: &'static str,
    /// The whole command, quoted for a shell.
    pub command: String,
}

/// The advice for every subject of the study.
pub(crate) fn advice(study: &StudyView) -> Vec<Advice> {
    study.compared().map(|subject| for_subject(study, subject)).collect()
}

fn for_subject(study: &StudyView, subject: &Subject) -> Advice {
    let nothing = |sentence: String| Advice { sentence, lines: Vec::new() };
    let name = &subject.name;
    let reference = study.reference();
    if subject.model.is_some() {
        return nothing(format!("{name}: there is nothing to paste, since it is a model and no program."));
    }
    if study.plan.site.is_emulated() {
        return nothing(format!("{name}: there is nothing to paste, since times of an emulated machine mean nothing."));
    }
    if study.analysis.is_refused(name) {
        return nothing(format!("{name}: there is nothing to paste, since what it reports can't be its time."));
    }
    let Some(best) = study.analysis.best.iter().find(|best| best.subject == *name) else {
        return nothing(format!("{name}: there is nothing to paste, since no trial went well."));
    };
    if subject.running.is_some() {
        let best = study.treatment(&best.placement, best.threads).filter(|_| best.shown);
        return nothing(best.filter(|best| !best.is_unbound()).map_or_else(
            || format!("{name}: nothing needs pasting. No {} is shown to be better than {reference}.", compared(study.analysis.varied)),
            |best| format!("{name}: {} is best. `stayput run --pid PID --place {}` binds what runs to it; start it so the next time.", best.name, best.place()),
        ));
    }
    if study.analysis.varied == Varied::Commands {
        return nothing(match best.shown {
            true => format!(
                "{name}: {} is best: {}",
                best.placement,
                shell_words::join(subject.argv_under(&best.placement, best.threads))
            ),
            false => format!("{name}: nothing needs pasting. No command is shown to be better than {reference}."),
        });
    }
    let threads = shape_in_words(best.threads);
    let doubt = match study.disturbances(name) {
        [] => String::new(),
        disturbances => format!("; it was {}, so study again before you rely on it", on_a_busy_machine(disturbances)),
    };
    let lacks_values = subject.argv_for(best.threads).iter().any(|word| word.contains(REDACTED));
    let put_back = if lacks_values { ", with the values that were left out instead of [redacted]" } else { "" };
    let wording = study.wording(name);
    match study.treatment(&best.placement, best.threads) {
        // No command runs a mix as it was run here: started by hand its programs begin apart, and end in another company.
        Some(treatment) if best.shown && !treatment.is_unbound() && subject.mix.is_some() => nothing(format!(
            "{name}: there is no line to paste, since it is several programs at once. Its makespan is shortest under {} with {threads}{}{doubt}.",
            best.placement,
            places_of_jobs(subject, best)
        )),
        Some(treatment) if best.shown && !treatment.is_unbound() => Advice {
            sentence: format!(
                "{name}: to run it under {} with {threads}, paste one of these{put_back}{doubt}:",
                best.placement
            ),
            lines: lines(subject, treatment, study.placement(&best.placement, best.threads), best.threads, study),
        },
        _ if study.has_nothing_to_compare(name) => {
            nothing(format!("{name}: nothing needs pasting. {reference} was compared with nothing."))
        }
        _ if study.ranking(name).is_some_and(|ranking| !ranking.has_reference()) => nothing(format!(
            "{name}: nothing needs pasting. Unbound with {threads} was not in the race, so that nothing is known to beat it."
        )),
        _ if study.ranking(name).is_some_and(|ranking| ranking.race.timed_reference().is_none()) => nothing(format!(
            "{name}: nothing needs pasting. No run of unbound with {threads} went well, so that nothing is known to beat it; {} is best.",
            best.placement
        )),
        _ => nothing(format!(
            "{name}: nothing needs pasting. No {} is shown to {} than {reference} with {threads}, its {} {}.",
            compared(study.analysis.varied),
            wording.infinitive(true),
            wording.superlative(),
            study.column_noun()
        )),
    }
}

/// Where the jobs of a mix are put under its best treatment, where any is put anywhere: `: cg on CPUs 0 2; ep is left alone`.
fn places_of_jobs(subject: &Subject, best: &Best) -> String {
    let Some(mix) = &subject.mix else { return String::new() };
    let places = mix.placements_of_jobs(&best.placement, best.threads);
    if places.iter().all(Option::is_none) {
        return String::new();
    }
    let place = |(job, place): (&Job, &Option<Placement>)| match place {
        Some(place) => format!("{} on CPUs {}", job.name, cpu_line(&place.slots)),
        None => format!("{} is left alone", job.name),
    };
    let places: Vec<String> = mix.jobs.iter().zip(&places).map(place).collect();
    format!(": {}", places.join("; "))
}

/// The flags of `stayput run` that bind as a study did, each with a space before it.
fn flags(Binding { unit, skip, slots, observe }: &Binding) -> String {
    let mut flags = String::new();
    if *unit == Unit::Process {
        flags.push_str(" --unit process");
    }
    if !skip.is_empty() {
        let skip: Vec<String> = skip.iter().map(u32::to_string).collect();
        flags.push_str(&format!(" --skip {}", skip.join(",")));
    }
    slots.iter().for_each(|rule| flags.push_str(&format!(" --slot {}", shell_words::quote(&rule.to_string()))));
    if *observe == Observe::Poll {
        flags.push_str(" --observe poll");
    }
    flags
}

/// The flags of `stayput run` that bring about a treatment, each with a space before it.
fn flags_of_treatment(treatment: &Treatment) -> String {
    let plain = Treatment::unbound();
    let differs = |factor: &Factor| treatment.level(*factor) != plain.level(*factor);
    let flag = |factor: Factor| format!(" --{factor} {}", shell_words::quote(&treatment.level(factor)));
    Factor::iter().filter(differs).map(flag).collect()
}

/// The command that does so within a job of Slurm's, thread by thread.
fn slurm_line(ranks: &RankPlacement, program: &str) -> Line {
    let tool = "Slurm, in a job with a whole node: every thread, where the program uses OpenMP";
    Line { tool, command: format!("{} {program}", machine::srun_line(ranks)) }
}

/// The command by which a launcher itself gives each rank its CPUs, where that is one line.
fn launcher_line(mpi: Mpi, ranks: &RankPlacement, machine: &Machine, program: &str) -> Option<Line> {
    let (syntax, tool) = match mpi {
        // A rankfile has several lines, and `stayput place --as openmpi4` writes it.
        Mpi::OpenMpi => return None,
        Mpi::Mpich => (RankSyntax::Mpich, "MPICH: each rank on its CPUs, among which its threads may move"),
        Mpi::Srun => return Some(slurm_line(ranks, program)),
    };
    let threads = ranks.ranks.first().map_or(1, |rank| rank.slots.len());
    Some(Line { tool, command: format!("OMP_NUM_THREADS={threads} {} {program}", syntax.text(ranks, machine)) })
}

fn lines(
    subject: &Subject,
    treatment: &Treatment,
    placement: Option<&Placement>,
    threads: Shape,
    study: &StudyView,
) -> Vec<Line> {
    let mut program = shell_words::join(subject.placed_argv(threads));
    let input = subject.input.as_ref().filter(|_| subject.server.is_none());
    if let Some(file) = input.and_then(|input| input.file.as_ref()) {
        program.push_str(&format!(" < {}", shell_words::quote(&file.to_string_lossy())));
    }
    let (under, how) = (flags_of_treatment(treatment), flags(&subject.binding));
    let mpi = subject.ranks.as_ref().map_or_else(String::new, |start| {
        let helpers = if start.bind_helpers { " --bind-mpi-helpers" } else { "" };
        let args = match &start.args[..] {
            [] => String::new(),
            args => format!(" --mpi-args {} --mpi-bind-none", shell_words::quote(&shell_words::join(args))),
        };
        format!(" --mpi {}{helpers}{args}", start.mpi)
    });
    let stayput = format!("stayput run -n {threads}{mpi}{under}{how} -- {program}");
    let mut lines = vec![Line { tool: "Stayput: binds any program and reads the binding back", command: stayput }];
    // The other tools know neither threads that are left alone or go by their names nor the processes of a program, and place threads alone.
    let Some(placement) = placement.filter(|_| treatment.conditions.is_default()) else { return lines };
    if let Some((start, shape)) = subject.ranks.as_ref().zip(threads.rank_shape()) {
        let ranks = RankPlacement::of_row(placement, shape);
        lines.extend(study.machine.as_ref().and_then(|machine| launcher_line(start.mpi, &ranks, machine, &program)));
        return lines;
    }
    let Binding { unit, skip, slots, .. } = &subject.binding;
    if *unit != Unit::Thread || !skip.is_empty() || !slots.is_empty() {
        return lines;
    }
    // Threads with several CPUs each need the syntaxes that can hold those.
    let environment = [Syntax::Gomp, Syntax::OmpPlaces].into_iter().find_map(|syntax| syntax.line(placement).ok());
    if let Some(assignments) = environment {
        let command = format!("OMP_NUM_THREADS={threads} {assignments} {program}");
        lines.push(Line { tool: "OpenMP: libgomp and libomp, thread by thread", command });
    }
    let shape = RankShape::new(1, placement.slots.len()).ok().filter(|_| study.plan.site.slurm().is_some());
    lines.extend(shape.map(|shape| slurm_line(&RankPlacement::of_row(placement, shape), &program)));
    let pin = [
        (Syntax::Likwid, "likwid: thread by thread (inside a cpuset it counts CPUs anew)"),
        (Syntax::Taskset, "taskset: the same CPUs, but threads may move among them"),
    ];
    let pinned = pin.into_iter().find_map(|(syntax, tool)| Some((syntax.line(placement).ok()?, tool)));
    if let Some((prefix, tool)) = pinned {
        lines.push(Line { tool, command: format!("OMP_NUM_THREADS={threads} {prefix} {program}") });
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_binds_as_the_study_did() {
        assert_eq!(flags(&Binding::default()), "");
        let binding = Binding::new(Unit::Process, vec![3, 0], Observe::Poll);
        assert_eq!(flags(&binding), " --unit process --skip 0,3 --observe poll");
        let binding = Binding::default().with_slots(vec!["GC Thread* = free".parse().unwrap()]);
        assert_eq!(flags(&binding), " --slot 'GC Thread* = free'");
    }
}
