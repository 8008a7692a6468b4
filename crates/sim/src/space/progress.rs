//! How far a job is with its graph.

use super::experiment::Stage;
use crate::random::Draws;
use std::collections::VecDeque;

/// A job's tasks: which are ready, and what becomes ready when one is done.
pub(super) struct Progress<'a> {
    stages: &'a [Stage],
    rounds: u32,
    round: u32,
    /// Position of the present stage.
    stage: usize,
    /// Tasks of it that are not done.
    left: u32,
    /// Where tasks are independent, the first that has not begun.
    next: u32,
    /// Otherwise, for how many each still waits, and those that are ready, the oldest first.
    waits_for: Vec<u32>,
    ready: VecDeque<u32>,
    draws: Draws,
}

/// A task that a worker is to do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    pub task: u32,
    pub work_ns: u64,
    /// As of its stage.
    pub footprint: u32,
    pub kept: f64,
}

impl<'a> Progress<'a> {
    /// Nothing is done. What tasks draw depends on `draws` and on which task it is, not on who asks first.
    pub fn new(stages: &'a [Stage], rounds: u32, draws: Draws) -> Self {
        let mut progress = Self {
            stages,
            rounds,
            round: 0,
            stage: 0,
            left: 0,
            next: 0,
            waits_for: Vec::new(),
            ready: VecDeque::new(),
            draws,
        };
        progress.begin_stage();
        progress
    }

    fn begin_stage(&mut self) {
        let stage = &self.stages[self.stage];
        (self.left, self.next) = (stage.tasks, 0);
        if let Some(order) = &stage.order {
            self.waits_for.clear();
            self.waits_for.extend_from_slice(order.waits_for());
            let first = (0..stage.tasks).filter(|&task| order.waits_for()[task as usize] == 0);
            self.ready.extend(first);
        }
    }

    /// How many tasks could begin now.
    #[inline]
    pub fn ready(&self) -> u32 {
        let stage = &self.stages[self.stage];
        if stage.order.is_none() { stage.tasks - self.next } else { self.ready.len() as u32 }
    }

    /// Begins the task that has been ready longest, or the `newest`; one must be ready. `speed` divides work.
    #[inline]
    pub fn begin(&mut self, newest: bool, speed: f64) -> Begun {
        let stage = &self.stages[self.stage];
        let task = if stage.order.is_none() {
            self.next += 1;
            self.next - 1
        } else if newest {
            self.ready.pop_back().expect("a task is ready")
        } else {
            self.ready.pop_front().expect("a task is ready")
        };
        let lengths = stage.works.get(task as usize).and_then(Option::as_ref).unwrap_or(&stage.work);
        let number = (u64::from(self.round) << 44) ^ ((self.stage as u64) << 32) ^ u64::from(task);
        let drawn_ns = lengths.draw_ns(&mut self.draws.numbered(number));
        let work_ns = if speed == 1.0 { drawn_ns } else { (drawn_ns as f64 / speed).round() as u64 };
        Begun { task, work_ns: work_ns.max(1), footprint: stage.footprint, kept: stage.kept }
    }

    /// A task is done: how many became ready in its place.
    #[inline]
    pub fn done(&mut self, task: u32) -> u32 {
        self.left -= 1;
        if self.left == 0 {
            return self.go_on();
        }
        let Some(order) = &self.stages[self.stage].order else { return 0 };
        let mut newly = 0;
        for &next in order.successors(task) {
            let waits_for = &mut self.waits_for[next as usize];
            *waits_for -= 1;
            if *waits_for == 0 {
                self.ready.push_back(next);
                newly += 1;
            }
        }
        newly
    }

    /// All tasks of a stage are done: how many of the next one are ready.
    fn go_on(&mut self) -> u32 {
        self.stage += 1;
        if self.stage == self.stages.len() {
            self.round += 1;
            if self.round == self.rounds {
                self.stage -= 1;
                return 0;
            }
            self.stage = 0;
        }
        self.begin_stage();
        self.ready()
    }

    /// Whether all is done.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.round == self.rounds
    }
}
