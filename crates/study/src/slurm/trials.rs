//! A block of trials as a task runs it: with the study's own code, on the CPUs of its node.

use super::block_result::BlockWriter;
use super::task::{self, Task, TaskEnd, TaskError, take_all_cpus};
use crate::comparison::Comparison;
use crate::engine::{DISTURBED_TO_END, Runner, Turn, disturbed_too_often};
use crate::factors;
use crate::guest::{Assigned, Assignment};
use crate::model_runner::ModelRunner;
use crate::plan::{Plan, Subject, UNBOUND};
use crate::runner::ProgramRunner;
use crate::trial::{Status, Trial};
use machine::{Machine, Policy, RankPolicy};
use serde_json::Value;
use std::path::Path;

/// Runs the block of trials of this task of the submission `number` in `folder`.
pub fn run_trials(folder: &Path, number: u32) -> TaskEnd {
    // Blocks are the same in races.
    task::run_task::<Comparison>(folder, number, run_block)
}

fn run_block(task: &Task<Turn>, writer: &mut BlockWriter<Trial>) -> Result<(), TaskError> {
    let assigned = Assignment::read(task.folder.path()).map_err(|error| task.wrong("can't read the study", &error))?;
    let is_modelled = assigned.plan.subjects.iter().any(|subject| subject.model.is_some());
    let (plan, mut runner): (Plan, Box<dyn Runner>) = if is_modelled {
        (assigned.plan, Box::new(ModelRunner::default()))
    } else {
        let has_whole_node = assigned.plan.site.slurm().is_some_and(|site| site.cpus.is_none());
        if has_whole_node {
            take_all_cpus();
        }
        let (plan, inputs) = on_this_node(assigned, task.node)?;
        let runner = ProgramRunner::new(&plan, inputs)?;
        (plan, Box::new(runner))
    };
    if task.turns.iter().any(|turn| !turn.cell.is_of(&plan)) {
        return Err(TaskError::here(format!("block {} is of another plan by now", task.block)));
    }
    let warmup_runs = plan.site.slurm().map_or(0, |site| site.warmup_runs);
    let ran = warm_up(&plan, runner.as_mut(), task.turns, if is_modelled { 0 } else { warmup_runs }).and_then(|()| {
        task.turns.iter().try_for_each(|turn| run_turn(&plan, runner.as_mut(), turn, task.node, writer))
    });
    // Whatever ended it, what was set up is cleaned up; to an interruption nothing is added.
    let cleaned = if launch::interruption().is_none() { runner.finish(&plan).map_err(TaskError::from) } else { Ok(()) };
    ran.and(cleaned)
}

/// Runs each program uncounted, as the first that runs on a node has files to read that the others find in memory.
fn warm_up(plan: &Plan, runner: &mut dyn Runner, turns: &[Turn], runs: u32) -> Result<(), TaskError> {
    let mut seen = Vec::new();
    for turn in turns {
        if !seen.contains(&turn.cell.subject) {
            seen.push(turn.cell.subject);
            for _ in 0..runs {
                // How it goes is the counted run's to say.
                runner.run(plan, &Turn { warmup: true, ..*turn })?;
            }
        }
    }
    Ok(())
}

fn run_turn(
    plan: &Plan,
    runner: &mut dyn Runner,
    turn: &Turn,
    node: &str,
    writer: &mut BlockWriter<Trial>,
) -> Result<(), TaskError> {
    let cannot_write = |error| TaskError::here(format!("{node} can't write what it has measured: {error}"));
    for disturbed in 1.. {
        let mut trial = runner.run(plan, turn)?;
        trial.more.get_or_insert_default().node = Some(node.to_owned());
        if trial.status != Status::Disturbed {
            return writer.add(trial).map_err(cannot_write);
        }
        let cause = trial.cause.clone();
        writer.add_disturbed(trial).map_err(cannot_write)?;
        if disturbed == DISTURBED_TO_END {
            return Err(TaskError::here(disturbed_too_often(&cause)));
        }
    }
    Ok(())
}

/// The plan on this node, by the same policies: where it is another machine than the one that the plan was made on, each place is found anew.
fn on_this_node(assigned: Assigned, node: &str) -> Result<(Plan, crate::input::Inputs), TaskError> {
    let Assigned { mut plan, inputs, machine: planned, .. } = assigned;
    let here = Machine::host().map_err(|error| TaskError::here(format!("{node}: {error}")))?;
    if let Some(planned) = planned.filter(|planned| !is_same_for_placements(planned, &here)) {
        place_anew(&mut plan, &planned, &here).map_err(|what| TaskError::lasting(format!("node {node} {what}")))?;
    }
    // A program that is there as a copy may be another one there.
    let now = plan.clone().identified();
    if let Some(change) = plan.changes(&now).first() {
        return Err(TaskError::lasting(format!(
            "node {node} has another program than the study was begun with: {change}"
        )));
    }
    Ok((plan, inputs))
}

/// Whether threads are put on the same CPUs of both machines by every policy.
fn is_same_for_placements(one: &Machine, other: &Machine) -> bool {
    let facts = |machine: &Machine| {
        let mut facts = serde_json::to_value(machine).unwrap_or(Value::Null);
        let usable = facts["usable_cpus"].take();
        (crate::session::tree(&facts), usable)
    };
    facts(one) == facts(other)
}

/// Puts the threads of `plan`, which was made on `planned`, on the CPUs of `here`.
///
/// # Errors
/// What of the plan can't be on this node, in words that follow its name.
fn place_anew(plan: &mut Plan, planned: &Machine, here: &Machine) -> Result<(), String> {
    let differs = format!(
        "isn't the kind of machine that the study was planned on ({} usable CPUs, and {} there)",
        here.usable().count(),
        planned.usable().count()
    );
    let kinds = "name nodes of one kind, as by constraint= or nodelist=";
    let has_own_places = |subject: &Subject| {
        let servers = subject.server.iter().map(|server| &server.load_place);
        let loads = servers.chain(subject.running.iter().map(|running| &running.load_place));
        subject.mix.is_some() || loads.into_iter().any(|place| place != UNBOUND)
    };
    if let Some(subject) = plan.subjects.iter().find(|subject| has_own_places(subject)) {
        return Err(format!("{differs}, and the jobs of {} can't be placed anew; {kinds}", subject.name));
    }
    let threads = plan.threads.clone();
    for treatment in plan.treatments.iter_mut().filter(|treatment| !treatment.is_free()) {
        let place = treatment.place().to_owned();
        // Those of threads are policies of ranks, too.
        let names_cpus =
            place.parse().is_ok_and(|policy| matches!(policy, RankPolicy::List(_) | RankPolicy::Row(Policy::List(_))));
        if names_cpus {
            return Err(format!(
                "{differs}, and `{place}` names CPUs of that one; give policies such as scatter, or {kinds}"
            ));
        }
        let placed = factors::placed(&place, &threads, here)
            .map_err(|error| format!("{differs}, and has no `{place}`: {error}; {kinds}"))?;
        for (placement, anew) in treatment.placements.iter_mut().zip(placed.placements) {
            // There is no cell where another treatment was the very same on the machine of the plan.
            if placement.is_some() {
                *placement = anew;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::treatment::Treatment;

    #[test]
    fn policies_are_placed_anew_on_another_machine_and_lists_are_refused() {
        let (planned, here) = ("pack:1 core:4 pu:1", "pack:2 core:4 pu:1");
        let [planned, here] = [planned, here].map(|name| Machine::named(name).unwrap());
        let plan = |places: &[&str]| {
            let placed = |place: &&str| factors::placed(place, &[2.into()], &planned).unwrap();
            let subject = Subject { name: "app".into(), argv: vec!["./app".into()], ..Subject::default() };
            Plan {
                subjects: vec![subject],
                threads: vec![2.into()],
                treatments: std::iter::once(Treatment::unbound()).chain(places.iter().map(placed)).collect(),
                ..Plan::default()
            }
        };
        assert!(is_same_for_placements(&planned, &planned) && !is_same_for_placements(&planned, &here));
        let mut moved = plan(&["compact", "scatter"]);
        place_anew(&mut moved, &planned, &here).unwrap();
        let cpus = |plan: &Plan, treatment: usize| {
            let slots = &plan.treatments[treatment].placement(0).unwrap().slots;
            slots.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!((cpus(&moved, 1), cpus(&moved, 2)), (vec!["0".into(), "1".into()], vec!["0".into(), "4".into()]));
        let error = place_anew(&mut plan(&["scatter", "1,3"]), &planned, &here).unwrap_err();
        assert!(error.contains("8 usable CPUs, and 4 there") && error.contains("`1,3` names CPUs"), "{error}");
        // Ranks, too.
        let place = |place: &str| {
            let mut plan = Plan { threads: vec!["2x1".parse().unwrap()], ..plan(&[]) };
            plan.treatments.push(factors::placed(place, &plan.threads, &planned).unwrap());
            place_anew(&mut plan, &planned, &here).map(|()| cpus(&plan, 1))
        };
        assert_eq!(place("ranks=scatter:package,threads=compact"), Ok(vec!["0".into(), "4".into()]));
        assert!(place("0/2").unwrap_err().contains("`0/2` names CPUs"));
        // Where a set isn't there, the node says so.
        let error = place_anew(&mut plan(&["package:0"]), &here, &Machine::named("pack:1 core:1 pu:1").unwrap());
        assert!(error.is_ok(), "{error:?}");
    }
}
