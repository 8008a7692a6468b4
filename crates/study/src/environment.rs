//! What the machine did besides a study, and what of it is large against the effects that the study shows.

use crate::host::PastSession;
use crate::kind::Kind;
use crate::plan::{Cell, Plan};
use crate::record::Record;
use crate::times::pairs_to;
use crate::trial::Trial;
use stats::{Disturbance, Surroundings};
use std::mem::discriminant;

/// Seconds after which the load average over a minute has forgotten what ran before: e^-5 of it is left.
const LOAD_MEMORY_S: f64 = 300.0;

/// A study's trials, and the machine around them.
pub(crate) struct Environment<'a> {
    plan: &'a Plan,
    trials: &'a [Trial],
    /// What is the same for all cells; none for a study of models, which nothing can disturb.
    surroundings: Option<Surroundings>,
}

impl<'a> Environment<'a> {
    pub(crate) fn new<K: Kind<Trial = Trial>>(plan: &'a Plan, record: &'a Record<K>) -> Self {
        let sessions = || record.sessions.iter();
        let steal = sessions().filter_map(|session| session.after.as_ref()?.steal_since(&session.before));
        let surroundings = Surroundings {
            usable_cpus: record.usable_cpus(),
            threads: 1,
            others_busy_cpus: others_busy_cpus(&record.sessions),
            load_average: load_average(&record.sessions, &record.trials),
            steal_share: steal.reduce(f64::max),
        };
        let is_modelled = plan.subjects.iter().any(|subject| subject.model.is_some());
        Self { plan, trials: &record.trials, surroundings: (!is_modelled).then_some(surroundings) }
    }

    /// All that is large against the effect `ratio`, the time of `reference` over that of `cell`.
    pub(crate) fn disturbances(&self, reference: Cell, cell: Cell, ratio: f64) -> Vec<Disturbance> {
        let Some(surroundings) = self.surroundings else { return Vec::new() };
        let threads = self.plan.threads[reference.threads].max(self.plan.threads[cell.threads]).total() as usize;
        let pairs = pairs_to(self.plan, self.trials, reference, cell);
        stats::disturbances(&pairs, ratio, &Surroundings { threads, ..surroundings })
    }
}

/// CPUs that others kept busy while the study was worked on, on average; none unless every session tells.
fn others_busy_cpus(sessions: &[PastSession]) -> Option<f64> {
    let mut others_cpu_s = 0.0;
    let mut passed_s = 0.0;
    for PastSession { before, after, .. } in sessions {
        let after = after.as_ref()?;
        others_cpu_s += after.others_cpu_s_since(before)?;
        passed_s += after.unix_s - before.unix_s;
    }
    (passed_s > 0.0).then_some(others_cpu_s / passed_s)
}

/// The highest load average over a minute before a session. One that began soon after runs of this study counts those.
fn load_average(sessions: &[PastSession], trials: &[Trial]) -> Option<f64> {
    let counts_ours = |began_s: f64| {
        let end_s = |trial: &Trial| trial.started_unix_s + trial.ran_s.unwrap_or(0.0);
        trials.iter().any(|trial| trial.started_unix_s < began_s && end_s(trial) > began_s - LOAD_MEMORY_S)
    };
    let states = sessions.iter().map(|session| &session.before).filter(|before| !counts_ours(before.unix_s));
    states.filter_map(|before| Some(before.load_average?[0])).reduce(f64::max)
}

/// Both, each kind of cause once: the larger of two.
pub(crate) fn merged(mut some: Vec<Disturbance>, others: Vec<Disturbance>) -> Vec<Disturbance> {
    for other in others {
        match some.iter_mut().find(|one| discriminant(&one.cause) == discriminant(&other.cause)) {
            Some(one) if one.relative_change >= other.relative_change => {}
            Some(one) => *one = other,
            None => some.push(other),
        }
    }
    some
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::HostState;
    use crate::trial::Status;
    use stats::Cause;

    /// A session from one second to another, between which others used CPU time.
    fn session(from_s: f64, to_s: f64, others_cpu_s: Option<f64>, load: f64) -> PastSession {
        let state = |unix_s, busy_cpu_s, own_cpu_s| HostState {
            unix_s,
            busy_cpu_s,
            own_cpu_s,
            load_average: Some([load, 0.0, 0.0]),
            ..HostState::default()
        };
        PastSession {
            command_line: Vec::new(),
            before: state(from_s, Some(1000.0), Some(5.0)),
            after: Some(state(to_s, others_cpu_s.map(|others_s| 1010.0 + others_s), Some(15.0))),
        }
    }

    fn trial(started_unix_s: f64, ran_s: f64) -> Trial {
        Trial {
            sequence: 0,
            block: 0,
            warmup: false,
            subject: "app".into(),
            threads: 2.into(),
            placement: "unbound".into(),
            status: Status::Ok,
            cause: String::new(),
            time_s: Some(ran_s),
            started_unix_s,
            ran_s: Some(ran_s),
            intended_cpus: None,
            observation: None,
            more: None,
            output_tail: String::new(),
        }
    }

    #[test]
    fn others_used_what_we_did_not() {
        assert_eq!(others_busy_cpus(&[session(0.0, 20.0, Some(5.0), 0.0)]), Some(0.25));
        let two = [session(0.0, 20.0, Some(5.0), 0.0), session(50.0, 130.0, Some(120.0), 0.0)];
        assert_eq!(others_busy_cpus(&two), Some(1.25), "by their length");
        assert_eq!(others_busy_cpus(&[session(0.0, 20.0, Some(-0.5), 0.0)]), Some(0.0), "ticks aren't exact");
        let older = [session(0.0, 20.0, Some(5.0), 0.0), session(50.0, 130.0, None, 0.0)];
        assert_eq!(others_busy_cpus(&older), None);
        let interrupted = PastSession { after: None, ..session(0.0, 20.0, Some(5.0), 0.0) };
        assert_eq!(others_busy_cpus(&[interrupted]), None);
        assert_eq!(others_busy_cpus(&[session(0.0, 20.0, Some(-10.0), 0.0)]), None, "nothing is counted here");
        assert_eq!(others_busy_cpus(&[]), None);
    }

    #[test]
    fn a_load_that_we_made_is_no_load_of_others() {
        let sessions = |second_s| [session(1000.0, 1100.0, None, 0.1), session(second_s, second_s + 50.0, None, 1.9)];
        let trials = [trial(1001.0, 90.0), trial(1092.0, 5.0)];
        assert_eq!(load_average(&sessions(1130.0), &trials), Some(0.1));
        assert_eq!(load_average(&sessions(1500.0), &trials), Some(1.9));
        assert_eq!(load_average(&[], &trials), None);
    }

    #[test]
    fn the_larger_of_two_disturbances_stays() {
        let found = |cause, relative_change| Disturbance { cause, relative_change };
        let some = vec![found(Cause::Load { busy_cpus: 1.0 }, 0.5), found(Cause::DriftingTimes, 0.1)];
        let others = vec![found(Cause::Load { busy_cpus: 1.0 }, 1.0), found(Cause::ChangingRatio, 0.2)];
        assert_eq!(
            merged(some, others),
            [
                found(Cause::Load { busy_cpus: 1.0 }, 1.0),
                found(Cause::DriftingTimes, 0.1),
                found(Cause::ChangingRatio, 0.2)
            ]
        );
    }
}
