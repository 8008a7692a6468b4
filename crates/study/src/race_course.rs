//! The course of a race: what its trials so far come to, what its next block runs, and when a run has lost.

use crate::engine::{Course, Failures, Work};
use crate::plan::Cell;
use crate::race::{Race, SubjectRace};
use crate::trial::Trial;
use stats::RaceUnderWay;
use std::time::Duration;

/// A race that goes on: one for each subject.
#[derive(Debug)]
pub struct RaceCourse<'a> {
    study: &'a Race,
    subjects: Vec<SubjectCourse<'a>>,
    /// The longest that a program was seen from outside on top of its own time, in seconds.
    around_s: f64,
}

#[derive(Debug)]
struct SubjectCourse<'a> {
    field: SubjectRace<'a>,
    under_way: RaceUnderWay,
    /// Of each arm.
    failures: Vec<Failures>,
}

impl<'a> RaceCourse<'a> {
    pub(crate) fn new(study: &'a Race, earlier: &[Trial]) -> Self {
        let course = |subject: usize| {
            let field = SubjectRace::new(study, subject, earlier);
            let under_way = RaceUnderWay::new(&field.race());
            SubjectCourse { under_way, failures: vec![Failures::default(); field.arms.len()], field }
        };
        let subjects = (0..study.plan.compared().count()).map(course).collect();
        let mut course = Self { study, subjects, around_s: 0.0 };
        earlier.iter().for_each(|trial| course.note(trial));
        course
    }
}

impl Course for RaceCourse<'_> {
    fn note(&mut self, trial: &Trial) {
        let plan = &self.study.plan;
        let around_s = trial.ran_s.zip(trial.time_s).map_or(0.0, |(ran_s, time_s)| ran_s - time_s);
        self.around_s = self.around_s.max(around_s);
        for SubjectCourse { field, under_way, failures } in &mut self.subjects {
            let Some(arm) = field.arm(trial) else { continue };
            failures[arm].note(plan, trial);
            if let Some(run) = field.run(trial) {
                under_way.add(&field.race(), run);
            }
        }
    }

    /// A block that warms up runs one cell of each subject, since what is to be warmed is the machine.
    fn work_of_block(&mut self, block: u32, _ahead: u32) -> Work {
        let plan = &self.study.plan;
        let mut groups: Vec<Vec<Cell>> = Vec::new();
        let mut of = 0;
        for SubjectCourse { field, under_way, failures } in &mut self.subjects {
            of += field.arms.len();
            let arms = if block < plan.warmup_blocks {
                vec![0]
            } else {
                let mut arms = under_way.next_block(&field.race()).unwrap_or_default();
                arms.retain(|&arm| !failures[arm].give_up());
                arms
            };
            groups.push(arms.into_iter().map(|arm| field.arms[arm]).collect());
        }
        let open = groups.iter().map(Vec::len).sum();
        let order = stats::block_permutation(plan.seed, block, u32::MAX, groups.len());
        let cells = order.into_iter().flat_map(|subject| {
            let group = &groups[subject];
            let order = stats::block_permutation(plan.seed, block, subject as u32, group.len());
            order.into_iter().map(|position| group[position]).collect::<Vec<_>>()
        });
        Work { cells: cells.collect(), open, of }
    }

    /// The race counts the programs' own times, which may be shorter than what is seen from outside; the most that was seen
    /// on top of them is added.
    fn cut_off(&mut self, cell: Cell) -> Option<Duration> {
        if !self.study.plan.subjects[cell.subject].is_timed() {
            // How long a run takes says nothing of what it will come to.
            return None;
        }
        let SubjectCourse { field, under_way, .. } = self.subjects.get_mut(cell.subject)?;
        let arm = field.arms.iter().position(|other| *other == cell)?;
        let limit_s = under_way.limit_s(&field.race(), arm)?;
        Duration::try_from_secs_f64(limit_s + self.around_s).ok()
    }
}
