//! The runner of models: nothing is started, and times are drawn.

use crate::engine::{Runner, RunnerError, Turn};
use crate::plan::Plan;
use crate::trial::{Status, Trial};

/// Runs models: nothing is started, and no time passes but the model's own.
#[derive(Debug, Default)]
pub struct ModelRunner {
    clock_s: f64,
}

impl ModelRunner {
    /// A runner that goes on after `done`.
    pub fn after(done: &[Trial]) -> Self {
        Self { clock_s: done.iter().filter_map(|trial| trial.ran_s).sum() }
    }
}

impl Runner for ModelRunner {
    fn run(&mut self, plan: &Plan, turn: &Turn) -> Result<Trial, RunnerError> {
        if let Some(signal) = launch::interruption() {
            return Err(RunnerError::Interrupted { signal });
        }
        let mut trial = turn.trial(plan, self.clock_s);
        let model = plan.subjects[turn.cell.subject].model.as_ref();
        let drawn_s =
            model.and_then(|m| m.draw_s(plan.seed, trial.threads, &trial.placement, turn.block, turn.sequence));
        let Some(time_s) = drawn_s else {
            return Err(RunnerError::Broken(format!(
                "the model has no time for {} with {} threads",
                trial.placement, trial.threads
            )));
        };
        let limit = turn.limit(plan);
        let ran_s = time_s.min(limit.longest.as_secs_f64());
        if ran_s < time_s {
            (trial.status, trial.cause) = limit.exceeded();
        } else {
            (trial.status, trial.time_s) = (Status::Ok, Some(time_s));
        }
        self.clock_s += ran_s;
        trial.ran_s = Some(ran_s);
        Ok(trial)
    }
}
