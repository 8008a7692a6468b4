//! Rounds of blocks, between which a study decides.
//!
//! What is asked for in a round is a function of the plan and the trials of earlier rounds. So it doesn't matter in which order blocks end,
//! or whether the study command ran meanwhile: whoever comes later takes up the round that is under way.

use super::array::{Cluster, UnderWay};
use super::folder::BlockWork;
use crate::engine::{CellStudy, Course, EngineError, Event, RunnerError, Turn, duration, sum_s};
use crate::guest::Assignment;
use crate::input::Inputs;
use crate::record::Ending;
use crate::session::Session;
use machine::Machine;

/// Runs what is left of the study in `session` on the nodes of a cluster; its programs read `inputs`, and it was planned for `machine`.
///
/// # Errors
/// When the journal can't be written, a signal asks us to end, or the study can't go on. What was measured is kept, in the journal or in
/// the folder; and nothing is left in the queue, unless whoever is logged in has left.
pub fn run_rounds<S: CellStudy>(
    session: &mut Session<S>,
    cluster: &Cluster,
    (inputs, machine): (&Inputs, &Machine),
    watch: &mut dyn FnMut(Event),
) -> Result<Ending, EngineError> {
    let study = session.plan().clone();
    let plan = study.plan();
    let broken = |what: String| EngineError::from(RunnerError::Broken(what));
    let Some(site) = plan.site.slurm() else { return Err(broken("this is no study of a cluster".into())) };
    let path = cluster.folder.path().display();
    let unwritten = |error| broken(format!("cannot write the study for its tasks to {path}: {error}"));
    cluster.folder.make().map_err(unwritten)?;
    Assignment::write(cluster.folder.path(), plan, inputs, Some(machine), &cluster.directory).map_err(unwritten)?;

    let first = session.trials().last().map_or(0, |trial| trial.block + 1).max(plan.first_block());
    let mut start = site.round_of(first, plan.first_block());
    let mut noted = session.trials().partition_point(|trial| trial.block < start);
    let mut course = study.course(&session.trials()[..noted]);
    let mut under_way = UnderWay::new(cluster, &study, site);
    loop {
        // As it was when the round began, so that whoever takes it up decides the same.
        let before = &session.trials()[..noted];
        if plan.budget.is_some_and(|budget| duration(sum_s(before)) >= budget) {
            under_way.end(watch);
            return Ok(Ending::BudgetSpent);
        }
        let mut sequence = before.last().map_or(0, |trial| trial.sequence + 1);
        let mut round = Vec::new();
        for block in start..start.saturating_add(site.round.max(1)) {
            let work = course.work_of_block(block, block - start);
            if work.cells.is_empty() {
                break;
            }
            if block == start {
                watch(Event::Block { block, open: work.open, of: work.of });
            }
            let turn = |cell| {
                let turn = Turn { cell, sequence, block, warmup: false, cut_off: course.cut_off(cell) };
                sequence += 1;
                turn
            };
            round.push(BlockWork { block, turns: work.cells.into_iter().map(turn).collect() });
        }
        if round.is_empty() {
            under_way.end(watch);
            return Ok(Ending::Finished);
        }
        // A round is taken up behind the blocks that are in the journal.
        round.retain(|work| work.block >= first);
        under_way.run(session, round, watch)?;
        session.trials()[noted..].iter().for_each(|trial| course.note(trial));
        noted = session.trials().len();
        start += site.round.max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::super::array::Block;
    use super::super::block_result::{BlockWriter, Header};
    use super::super::folder::Folder;
    use super::super::options::SlurmSite;
    use super::*;
    use crate::comparison::{Comparison, StopRule};
    use crate::host::HostState;
    use crate::plan::{Plan, Subject};
    use crate::session::Host;
    use crate::treatment::Treatment;
    use crate::trial::{Status, Trial};
    use proptest::prelude::*;
    use std::path::PathBuf;
    use std::time::Duration;

    const BLOCKS: u32 = 5;

    fn study() -> Comparison {
        let mut site = SlurmSite { nodes: BLOCKS, round: BLOCKS, ..SlurmSite::default() };
        site.study = "5a".into();
        let plan = Plan {
            subjects: vec![Subject { name: "app".into(), argv: vec!["./app".into()], ..Subject::default() }],
            threads: vec![1.into()],
            treatments: vec![Treatment::unbound(), Treatment::new("free".into(), Vec::new())],
            timeout: Duration::from_secs(60),
            site: crate::site::Site::Slurm(site),
            ..Plan::default()
        };
        Comparison { plan, stop: StopRule::Paired { width: 0.02, min_blocks: BLOCKS, max_blocks: BLOCKS } }
    }

    /// What each block of the first round is to run.
    fn round(study: &Comparison) -> Vec<BlockWork<Turn>> {
        let mut course = study.course(&[]);
        let mut sequence = 0;
        let mut work = |block| {
            let turn = |cell| {
                sequence += 1;
                Turn { cell, sequence: sequence - 1, block, warmup: false, cut_off: None }
            };
            BlockWork { block, turns: course.work_of_block(block, block).cells.into_iter().map(turn).collect() }
        };
        (0..BLOCKS).map(&mut work).collect()
    }

    fn trials(study: &Comparison, work: &BlockWork<Turn>) -> Vec<Trial> {
        let trial = |turn: &Turn| {
            let time_s = Some(1.0 + f64::from(turn.sequence) / 7.0);
            Trial { status: Status::Ok, time_s, ran_s: time_s, ..turn.trial(&study.plan, 1.0) }
        };
        work.turns.iter().map(trial).collect()
    }

    /// What a task may leave of a block.
    #[derive(Clone, Copy, Debug)]
    enum Left {
        Whole,
        CutOff,
        OfAnotherStudy,
        OfAnotherBlock,
        WithATrialLess,
    }

    fn leave(folder: &Folder, study: &Comparison, work: &BlockWork<Turn>, left: Left) {
        let id = if matches!(left, Left::OfAnotherStudy) { "other" } else { "5a" };
        let block = if matches!(left, Left::OfAnotherBlock) { work.block + 1 } else { work.block };
        let header = Header { study: id.into(), block, node: "n1".into(), before: HostState::of_model() };
        let mut writer = BlockWriter::begin(folder.path().join("part"), header).unwrap();
        let mut trials = trials(study, work);
        if matches!(left, Left::WithATrialLess) {
            trials.pop();
        }
        trials.into_iter().for_each(|trial| writer.add(trial).unwrap());
        let whole = folder.result(work.block);
        writer.finish(&whole).unwrap();
        if matches!(left, Left::CutOff) {
            let bytes = std::fs::read(&whole).unwrap();
            std::fs::write(&whole, &bytes[..bytes.len() / 2]).unwrap();
        }
    }

    fn left() -> impl Strategy<Value = (usize, Left)> {
        let what = prop_oneof![
            6 => Just(Left::Whole),
            1 => Just(Left::CutOff),
            1 => Just(Left::OfAnotherStudy),
            1 => Just(Left::OfAnotherBlock),
            1 => Just(Left::WithATrialLess),
        ];
        (0..BLOCKS as usize, what)
    }

    proptest! {
        #[test]
        fn whatever_order_blocks_come_in_the_journal_is_the_same(
            came in prop::collection::vec(left(), 0..40),
            last in Just((0..BLOCKS as usize).collect::<Vec<_>>()).prop_shuffle(),
        ) {
            let study = study();
            let desk = tempfile::tempdir().unwrap();
            let journal = desk.path().join("a.stayput");
            let machine = Machine::named("pack:1 core:2 pu:1").unwrap();
            let folder = Folder::beside(&journal);
            folder.make().unwrap();
            let cluster = Cluster { folder: folder.clone(), program: Vec::new(), directory: PathBuf::new() };
            let mut session = Session::open(Some(&journal), &study, &machine, &Host::Modelled, &[]).unwrap();
            let work = round(&study);
            let site = study.plan.site.slurm().unwrap();
            let mut under_way = UnderWay::new(&cluster, &study, site);
            under_way.blocks = work.iter().cloned().map(Block::new).collect();
            let whole = last.into_iter().map(|block| (block, Left::Whole));
            for (block, left) in came.into_iter().chain(whole) {
                leave(&folder, &study, &work[block], left);
                // One that is lost too often ends a study; here it goes on.
                under_way.blocks.iter_mut().for_each(|block| block.losses = 0);
                under_way.take_in(&mut session, &mut |_| ()).unwrap();
                let taken: Vec<u32> = session.trials().iter().map(|trial| trial.sequence).collect();
                prop_assert!(taken.iter().copied().eq(0..taken.len() as u32) && taken.len().is_multiple_of(2), "whole blocks in order");
            }
            prop_assert!(under_way.blocks.is_empty(), "each of them came whole in the end");
            let record = session.end::<crate::journal::JournalError>(Ok(Ending::Finished)).unwrap();
            let expected: Vec<Trial> = work.iter().flat_map(|work| trials(&study, work)).collect();
            prop_assert_eq!(record.trials, expected);
        }
    }

    /// A model in rounds of any size makes the trials that the engine makes block by block, where nothing is decided on the way.
    #[test]
    fn rounds_of_any_size_run_as_many_blocks_as_were_asked_for() {
        let study = study();
        for round in 1..=7 {
            let (mut blocks, mut start) = (Vec::new(), 0);
            let mut noted: Vec<Trial> = Vec::new();
            loop {
                let mut course = study.course(&noted);
                let before = blocks.len();
                for block in start..start + round {
                    let cells = course.work_of_block(block, block - start).cells;
                    if cells.is_empty() {
                        break;
                    }
                    for cell in cells {
                        let sequence = noted.len() as u32;
                        let turn = Turn { cell, sequence, block, warmup: false, cut_off: None };
                        noted.push(Trial { status: Status::Ok, time_s: Some(1.0), ..turn.trial(&study.plan, 0.0) });
                    }
                    blocks.push(block);
                }
                if blocks.len() == before {
                    break;
                }
                start += round;
            }
            assert_eq!(blocks, (0..BLOCKS).collect::<Vec<_>>(), "in rounds of {round}");
        }
    }
}
