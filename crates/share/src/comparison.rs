//! What the same jobs took under several policies, compared play by play.

use crate::conduct::Outcome;
use serde::{Deserialize, Serialize};
use sim::space::Policy;
use stats::{Claim, Pair, PairedRatio, claims, paired_ratio};

/// What a policy makes of a job's response time, beside the policy that others are compared with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The policy.
    pub policy: Policy,
    /// The job; none is the mean response time of all jobs of a play.
    pub job: Option<String>,
    /// The response time under it over that under the reference, and the ends of its 95 % interval: below 1 it answers sooner. None for
    /// fewer than [`stats::MIN_PAIRS`] plays of both in which it didn't fail.
    pub ratio: Option<Ratio>,
    /// What may be claimed among all the comparisons.
    pub claim: Option<Claim>,
    /// Pairs of plays.
    pub pairs: usize,
}

/// A ratio with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The estimate.
    pub ratio: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl From<PairedRatio> for Ratio {
    /// The other way round: time over time of the reference.
    fn from(paired: PairedRatio) -> Self {
        Self { ratio: 1.0 / paired.ratio(), low: 1.0 / paired.high(), high: 1.0 / paired.low() }
    }
}

/// Each policy with `policies[0]`: first the mean of all jobs, then job by job. `plays` are whole blocks, in each of which every policy
/// was played once; `seed` is that of the bootstrap.
pub fn comparisons(policies: &[Policy], plays: &[Outcome], seed: u64) -> Vec<Comparison> {
    let Some((_, others)) = policies.split_first() else { return Vec::new() };
    let jobs = plays.first().map_or(0, |play| play.jobs.len());
    let mut compared: Vec<(Comparison, Option<PairedRatio>)> = Vec::new();
    for &policy in others {
        for job in std::iter::once(None).chain((0..jobs).map(Some)) {
            let time_s = |play: &Outcome| match job {
                Some(job) => play.jobs[job].response_s,
                None => mean_response_s(play),
            };
            let (pairs, paired) = pairs_with(policies, policy, plays, &time_s, seed);
            let name = job.map(|job| plays[0].jobs[job].name.clone());
            let ratio = paired.map(Ratio::from);
            compared.push((Comparison { policy, job: name, ratio, claim: None, pairs }, paired));
        }
    }
    let ratios: Vec<PairedRatio> = compared.iter().filter_map(|(_, paired)| *paired).collect();
    let mut claims = claims(&ratios).into_iter();
    let with_claim = |(mut comparison, paired): (Comparison, Option<PairedRatio>)| {
        comparison.claim = paired.and_then(|_| claims.next());
        comparison
    };
    compared.into_iter().map(with_claim).collect()
}

/// A policy with `policies[0]` by the number that `of_play` makes of a play: how many pairs of the same block there are, and the ratio. A block
/// that isn't whole makes a pair where it has both.
fn pairs_with(
    policies: &[Policy],
    policy: Policy,
    plays: &[Outcome],
    of_play: &dyn Fn(&Outcome) -> Option<f64>,
    seed: u64,
) -> (usize, Option<PairedRatio>) {
    let pair = |block: &[Outcome]| {
        let under = |policy| block.iter().find(|play| play.policy == policy).and_then(of_play);
        Some(Pair { reference_s: under(*policies.first()?)?, treatment_s: under(policy)? })
    };
    let pairs: Vec<Pair> = plays.chunks(policies.len().max(1)).filter_map(pair).collect();
    (pairs.len(), paired_ratio(&pairs, seed))
}

/// By how much the number that `of_play` makes of a play is larger under a policy than under `policies[0]`; none of fewer than
/// [`stats::MIN_PAIRS`] pairs, and where the number isn't positive. `plays` are those of [`comparisons`].
pub fn paired_with(
    policies: &[Policy],
    policy: Policy,
    plays: &[Outcome],
    of_play: &dyn Fn(&Outcome) -> Option<f64>,
    seed: u64,
) -> Option<Ratio> {
    pairs_with(policies, policy, plays, of_play, seed).1.map(Ratio::from)
}

/// The mean response time of a play's jobs, in seconds; none where one failed.
pub fn mean_response_s(play: &Outcome) -> Option<f64> {
    let times: Option<Vec<f64>> = play.jobs.iter().map(|job| job.response_s).collect();
    times.filter(|times| !times.is_empty()).map(|times| times.iter().sum::<f64>() / times.len() as f64)
}
