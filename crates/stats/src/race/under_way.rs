//! A race under way: what the runs so far come to, so that one more run costs little however many there were.
//!
//! What it says is a function of the race and the runs alone.

use super::course::Course;
use super::{Race, Run, Standings};
use crate::paired::{UPPER, student};
use statrs::distribution::ContinuousCDF;

/// Standard deviation of log times that is assumed while no arm has run twice: the papers ran on until it was less.
const UNKNOWN_NOISE: f64 = 0.05;

/// Standard errors by which a time is taken to be off at most while the noise isn't known.
const UNKNOWN_CRITICAL: f64 = 2.0;

/// A race with its runs. Each call is given the same [`Race`].
#[derive(Clone, Debug)]
pub struct RaceUnderWay {
    runs: Vec<Run>,
    course: Course,
    /// Where the runs of the last block begin.
    block_from: usize,
    /// Whether the course has decided on the last block.
    is_decided: bool,
    /// For each arm the sum of its log times, and how many there are.
    logs: Vec<(f64, f64)>,
    /// Which arms have run.
    have_run: Vec<bool>,
}

impl RaceUnderWay {
    /// `race` before its first run.
    pub fn new(race: &Race) -> Self {
        Self {
            runs: Vec::new(),
            course: Course::start(race),
            block_from: 0,
            is_decided: true,
            logs: vec![(0.0, 0.0); race.arms],
            have_run: vec![false; race.arms],
        }
    }

    /// `race` after `runs`.
    pub(super) fn after(race: &Race, runs: &[Run]) -> Self {
        let mut under_way = Self::new(race);
        runs.iter().for_each(|&run| under_way.add(race, run));
        under_way
    }

    /// Adds a run that has ended. A later block exists only because the one before it was decided on.
    pub fn add(&mut self, race: &Race, run: Run) {
        if self.runs.last().is_none_or(|last| last.block != run.block) {
            self.decide(race);
            self.course.admit(race, &self.runs, run.block);
            (self.block_from, self.is_decided) = (self.runs.len(), false);
        }
        if let (Some((sum, count)), Some(log_s)) = (self.logs.get_mut(run.arm), run.log_s()) {
            *sum += log_s;
            *count += 1.0;
        }
        if let Some(has_run) = self.have_run.get_mut(run.arm) {
            *has_run = true;
        }
        self.runs.push(run);
    }

    /// As [`Race::next_block`].
    pub fn next_block(&mut self, race: &Race) -> Option<Vec<usize>> {
        self.decide_if_whole(race);
        let mut course = self.course.clone();
        course.admit(race, &self.runs, u32::MAX);
        Some(course.next).filter(|next| !next.is_empty())
    }

    /// As [`Race::limit_s`].
    pub fn limit_s(&mut self, race: &Race, arm: usize) -> Option<f64> {
        self.decide_if_whole(race);
        let again = race.reference_of(arm) == Some(arm) && self.have_run.get(arm) == Some(&true);
        if race.kept.contains(&arm) || again {
            return None;
        }
        let (sd, critical) = match self.course.noise {
            Some(noise) => (noise.sd, student(noise.freedom).inverse_cdf(UPPER)),
            None => (UNKNOWN_NOISE, UNKNOWN_CRITICAL),
        };
        let timed = self.logs.iter().filter(|(_, count)| *count > 0.0);
        let uppers = timed.map(|(sum, count)| sum / count + critical * sd / f64::sqrt(*count));
        let limit_s = race.cut_off * uppers.min_by(f64::total_cmp)?.exp();
        (race.cut_off >= 1.0 && limit_s.is_finite() && limit_s > 0.0).then_some(limit_s)
    }

    /// As [`Race::standings`].
    pub fn standings(&mut self, race: &Race) -> Standings {
        self.decide_if_whole(race);
        race.standings_of(&self.course, &self.runs)
    }

    /// Decides on the last block unless some of its arms haven't run yet.
    fn decide_if_whole(&mut self, race: &Race) {
        let block = &self.runs[self.block_from..];
        if self.course.next.iter().all(|&arm| block.iter().any(|run| run.arm == arm)) {
            self.decide(race);
        }
    }

    fn decide(&mut self, race: &Race) {
        if !std::mem::replace(&mut self.is_decided, true) {
            self.course.advance(race, &self.runs);
        }
    }
}
