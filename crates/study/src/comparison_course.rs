//! The course of a comparison: what its trials so far come to, and what its next block runs.

use crate::comparison::{Comparison, StopRule, block_order};
use crate::engine::{Course, Failures, Work};
use crate::plan::{Cell, Plan};
use crate::shape_comparison::base_column;
use crate::times::{bootstrap_seed, deciding_cost, deciding_metric};
use crate::trial::Trial;
use stats::{Pair, PairedLooks, RelativeSdLooks};

/// A comparison that goes on.
#[derive(Debug)]
pub struct ComparisonCourse<'a> {
    study: &'a Comparison,
    /// By [`position`]; those that there are no cells for stay empty.
    cells: Vec<CellCourse>,
}

/// What the trials of one cell come to.
#[derive(Clone, Debug, Default)]
struct CellCourse {
    failures: Failures,
    /// Trials but those that warm up, however they went.
    runs: u32,
    /// The costs by which it is decided when it is enough, and the block of each.
    costs: Vec<f64>,
    blocks: Vec<u32>,
    /// Pairs with the reference, or of a reference with that of another shape, and how many times of the other and of this cell were
    /// looked through for them.
    pairs: Vec<Pair>,
    paired: (usize, usize),
    paired_looks: PairedLooks,
    relative_sd_looks: RelativeSdLooks,
}

/// Where a cell stands in a list of all that there could be.
fn position(plan: &Plan, cell: Cell) -> usize {
    (cell.subject * plan.threads.len() + cell.threads) * plan.treatments.len() + cell.treatment
}

impl<'a> ComparisonCourse<'a> {
    pub(crate) fn new(study: &'a Comparison, earlier: &[Trial]) -> Self {
        let plan = &study.plan;
        let cells = plan.subjects.len() * plan.threads.len() * plan.treatments.len();
        let mut course = Self { study, cells: vec![CellCourse::default(); cells] };
        earlier.iter().for_each(|trial| course.note(trial));
        course
    }

    /// Whether `cell` needs a run in `block`, when as many more runs of it as `ahead` are under way.
    fn is_open(&mut self, cell: Cell, block: u32, ahead: u32) -> bool {
        let plan = &self.study.plan;
        let CellCourse { failures, runs, .. } = self.cells[position(plan, cell)];
        if plan.entry_of(cell) > block || failures.give_up() {
            return false;
        }
        let (least, most) = self.study.stop.block_limits();
        let runs = runs.saturating_add(ahead);
        runs < least || (runs < most && !self.is_settled(cell))
    }

    /// What [`Comparison::is_settled`] says.
    fn is_settled(&mut self, cell: Cell) -> bool {
        let plan = &self.study.plan;
        match self.study.stop {
            StopRule::Paired { width, min_blocks, .. } if cell.treatment == 0 => {
                let Some(threads) = base_column(plan, cell.threads) else { return true };
                // The base is the first of its group, and so comes before.
                let (before, from) = self.cells.split_at_mut(position(plan, cell));
                let base = &before[position(plan, Cell { threads, ..cell })];
                if base.failures.give_up() {
                    return true;
                }
                from[0].pair_with(base);
                let CellCourse { pairs, paired_looks, .. } = &mut from[0];
                paired_looks.is_settled(pairs, width, min_blocks as usize, bootstrap_seed(plan, cell))
            }
            _ if deciding_metric(plan, &plan.subjects[cell.subject]).is_none() => {
                self.cells[position(plan, cell)].runs >= self.study.stop.block_limits().0
            }
            StopRule::Paired { width, min_blocks, .. } => {
                // The reference comes first in its group.
                let (before, from) = self.cells.split_at_mut(position(plan, cell));
                let reference = &before[before.len() - cell.treatment];
                from[0].pair_with(reference);
                let CellCourse { pairs, paired_looks, .. } = &mut from[0];
                paired_looks.is_settled(pairs, width, min_blocks as usize, bootstrap_seed(plan, cell))
            }
            StopRule::RelativeSd { relative_sd, min_runs, .. } => {
                let CellCourse { costs, relative_sd_looks, .. } = &mut self.cells[position(plan, cell)];
                relative_sd_looks.is_below(costs, min_runs as usize, relative_sd)
            }
        }
    }
}

impl Course for ComparisonCourse<'_> {
    fn note(&mut self, trial: &Trial) {
        let plan = &self.study.plan;
        let Some(cell) = plan.cell(&trial.subject, trial.threads, &trial.placement) else { return };
        let course = &mut self.cells[position(plan, cell)];
        course.failures.note(plan, trial);
        course.runs += u32::from(!trial.warmup);
        if let Some(cost) = deciding_cost(plan, &plan.subjects[cell.subject], trial) {
            course.costs.push(cost);
            course.blocks.push(trial.block);
        }
    }

    fn work_of_block(&mut self, block: u32, ahead: u32) -> Work {
        let plan = &self.study.plan;
        let mut open: Vec<Cell> = plan.cells().filter(|&cell| self.is_open(cell, block, ahead)).collect();
        // What is run by itself is run for mixes, as long as they are.
        let is_alone = |cell: &Cell| plan.subjects[cell.subject].alone.is_some();
        let mixes: Vec<usize> = open.iter().filter(|cell| !is_alone(cell)).map(|cell| cell.threads).collect();
        open.retain(|cell| !is_alone(cell));
        let alone = plan.cells().filter(|cell| is_alone(cell) && mixes.contains(&cell.threads));
        open.extend(alone.filter(|&cell| !self.cells[position(plan, cell)].failures.give_up()));
        let mut groups: Vec<(usize, usize)> = open.iter().map(|cell| (cell.subject, cell.threads)).collect();
        // Shapes of ranks need what they are compared with in the same block.
        let bases = open.iter().filter(|cell| cell.treatment == 0);
        groups.extend(bases.filter_map(|cell| Some((cell.subject, base_column(plan, cell.threads)?))));
        groups.sort_unstable();
        groups.dedup();
        let mut cells = block_order(plan, &groups, block);
        // Before a study is extended, what is settled runs beside what isn't; then only the reference does, which all need.
        let rests = plan.is_extended_in(block);
        cells.retain(|&cell| {
            plan.entry_of(cell) <= block
                && !self.cells[position(plan, cell)].failures.give_up()
                && (!rests || cell.treatment == 0 || open.contains(&cell))
        });
        Work { cells, open: groups.len(), of: plan.subjects.len() * plan.threads.len() }
    }
}

impl CellCourse {
    /// Pairs the times of whole blocks that came since it was last asked.
    fn pair_with(&mut self, reference: &Self) {
        let (theirs, ours) = &mut self.paired;
        while let (Some(their_block), Some(block)) = (reference.blocks.get(*theirs), self.blocks.get(*ours)) {
            if their_block == block {
                self.pairs.push(Pair { reference_s: reference.costs[*theirs], treatment_s: self.costs[*ours] });
            }
            let (their_next, next) = (their_block <= block, block <= their_block);
            *theirs += usize::from(their_next);
            *ours += usize::from(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::CellStudy;
    use crate::metric::Metric;
    use crate::plan::{Subject, Treatment};
    use crate::times::{deciding_pairs, deciding_pairs_to};
    use crate::trial::{More, Status};
    use machine::{CpuId, Placement};
    use stats::Better;
    use std::time::Duration;

    fn study(stop: StopRule) -> Comparison {
        let treatment =
            |cpu| Treatment::new(format!("p{cpu}"), vec![Some(Placement::from_cpus("list", [CpuId(cpu)])); 2]);
        let plan = Plan {
            subjects: vec![Subject { name: "app".into(), argv: vec!["./app".into()], ..Subject::default() }],
            threads: vec![1.into(), 2.into()],
            treatments: vec![Treatment::unbound(), treatment(1), treatment(2)],
            warmup_blocks: 1,
            timeout: Duration::from_secs(60),
            seed: 1,
            ..Plan::default()
        };
        Comparison { plan, stop }
    }

    /// A trial that fails now and then; with two threads times scatter by 6 %, and else by half of that.
    fn trial(plan: &Plan, cell: Cell, sequence: u32, block: u32) -> Trial {
        let draw = (sequence.wrapping_mul(2_654_435_761) >> 8) % 1_000;
        let turn = crate::engine::Turn { cell, sequence, block, warmup: block < plan.warmup_blocks, cut_off: None };
        let status = if draw < 50 { Status::ExitCode } else { Status::Ok };
        let scatter = f64::from(draw) / 8_000.0 * (cell.threads + 1) as f64;
        let time_s = (draw >= 50).then_some(1.0 + scatter);
        // What is counted goes as the time does, so that the same numbers decide; where it decides, the time goes wild.
        let values = [("cold".to_owned(), 1.0), ("misses".to_owned(), time_s.unwrap_or(1.0))].into();
        let more = More { values, ..More::default() }.boxed();
        let time_s = time_s.map(|time_s| if !plan.site.is_emulated() { time_s } else { f64::from(draw) });
        Trial { status, time_s, more, ran_s: Some(1.0), ..turn.trial(plan, 0.0) }
    }

    #[test]
    fn what_is_kept_up_says_what_all_trials_say() {
        let paired = StopRule::Paired { width: 0.0266, min_blocks: 8, max_blocks: 400 };
        let papers = StopRule::RelativeSd { relative_sd: 0.04, min_runs: 5, max_runs: 400 };
        let counted = |mut study: Comparison| {
            let metric = |name, better| Metric::new(name, None, better);
            study.plan.site = "vm".parse().unwrap();
            study.plan.subjects[0].metrics = vec![metric("cold", Better::Neither), metric("misses", Better::Lower)];
            study
        };
        let emulated = [counted(study(paired.clone())), counted(study(papers.clone()))];
        let mut ranks = study(paired.clone());
        ranks.plan.threads = ["1x2", "2x1"].map(|shape| shape.parse().unwrap()).to_vec();
        let studies = [study(paired), study(papers), ranks].into_iter().chain(emulated);
        std::thread::scope(|scope| studies.for_each(|study| drop(scope.spawn(move || check_what_is_kept_up(&study)))));
    }

    /// After each block of a study, to its end.
    fn check_what_is_kept_up(study: &Comparison) {
        let plan = &study.plan;
        let mut course = study.course(&[]);
        let mut trials: Vec<Trial> = Vec::new();
        let mut narrower = false;
        for block in 0.. {
            let work = course.work_of_block(block, 0);
            let anew = study.course(&trials).work_of_block(block, 0);
            assert_eq!((&work.cells, work.open), (&anew.cells, anew.open), "block {block}");
            narrower |= (1..work.of).contains(&work.open);
            for cell in plan.cells() {
                assert_eq!(course.is_settled(cell), study.is_settled(&trials, cell), "{cell:?} in block {block}");
                let cells = &course.cells[position(plan, cell)];
                if matches!(study.stop, StopRule::Paired { .. }) {
                    let base = base_column(plan, cell.threads).map(|threads| Cell { threads, ..cell });
                    let pairs = match base {
                        _ if cell.treatment > 0 => deciding_pairs(plan, &trials, cell),
                        Some(base) if !study.is_given_up(&trials, base) => deciding_pairs_to(plan, &trials, base, cell),
                        _ => cells.pairs.clone(),
                    };
                    assert_eq!(cells.pairs, pairs);
                }
                assert_eq!(cells.failures.give_up(), study.is_given_up(&trials, cell));
            }
            if work.cells.is_empty() {
                break;
            }
            for cell in work.cells {
                trials.push(trial(plan, cell, trials.len() as u32, block));
                course.note(&trials[trials.len() - 1]);
            }
        }
        // Shapes of ranks end together.
        let has_ranks = plan.threads[0].ranks().is_some();
        assert!(narrower || has_ranks, "one group ends before the other");
        assert!(trials.last().is_some_and(|trial| trial.block > 150), "{}", trials.len());
    }
}
