//! The same jobs under several policies, block by block: each policy once in each block, in random order.

use crate::conduct::{Outcome, Play, ShareError};
use crate::cpuset::Cpusets;
use crate::decision::Decisions;
use crate::job::JobCommand;
use machine::CpuSet;
use sim::space::Policy;
use stats::block_permutation;
use std::time::Duration;

/// What is to be played.
#[derive(Debug)]
pub struct Series<'a> {
    /// The policies, each once.
    pub policies: &'a [Policy],
    /// How often the jobs are played under each.
    pub blocks: u32,
    /// The CPUs that are shared out: at least one, and no others than this process may use.
    pub cpus: &'a CpuSet,
    /// The jobs, in the order of their arrival; at least one.
    pub jobs: &'a [JobCommand],
    /// From one job's arrival to the next.
    pub gap: Duration,
    /// How many workers a CPU remembers.
    pub history: u32,
    /// The seed of what chance decides, and of the order of policies.
    pub seed: u64,
    /// How long a job may take from its start; one that takes longer is killed.
    pub limit: Option<Duration>,
    /// Where jobs get cpusets; none binds threads and nothing else.
    pub cpusets: Option<&'a Cpusets>,
    /// What jobs write goes to standard error.
    pub shown: bool,
}

impl Series<'_> {
    /// Plays what is left after `plays`, which are those of the same series in order, and appends to them. After each one calls
    /// `on_play` with all that there are. Gives the signal that ended it before its end, if one did: the play that it cut short isn't
    /// among them.
    ///
    /// # Errors
    /// [`ShareError`] says why it could not go on.
    pub fn conduct(
        &self,
        plays: &mut Vec<Outcome>,
        decisions: &mut Decisions,
        on_play: &mut dyn FnMut(&[Outcome]) -> Result<(), ShareError>,
    ) -> Result<Option<i32>, ShareError> {
        let before = plays.len();
        let orders = (0..self.blocks).flat_map(|block| {
            let order = block_permutation(self.seed, block, 0, self.policies.len());
            order.into_iter().map(move |at| (block, at))
        });
        for (block, at) in orders.skip(before) {
            let play = Play {
                number: plays.len() as u32,
                policy: self.policies[at],
                cpus: self.cpus,
                jobs: self.jobs,
                gap: self.gap,
                history: self.history,
                seed: self.seed.wrapping_add(u64::from(block)),
                limit: self.limit,
                cpusets: self.cpusets,
                shown: self.shown,
            };
            let outcome = play.conduct(decisions)?;
            if let Some(signal) = outcome.interrupted_by {
                return Ok(Some(signal));
            }
            plays.push(outcome);
            on_play(plays)?;
        }
        Ok(None)
    }
}
