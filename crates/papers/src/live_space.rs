//! The report's mixes of section 5 as jobs that ran, among which CPUs of this machine were shared out.

use crate::case::{Case, LESS, MORE, every};
use crate::reproduction::{LiveStudy, LiveVerdict};
use crate::verdict::{Judgement, Verdict};
use share::{JobOutcome, Outcome, Results, paired_with};
use sim::space::Policy;
use sim::space::mix::REPORT_MIXES;
use simulation::{Estimated, MATTERS_PERCENT};
use std::path::{Path, PathBuf};
use study::{Ending, HostFacts};

/// The policies, equal shares first.
pub const SPACE_POLICIES: [Policy; 3] = [Policy::Equipartition, Policy::Dynamic, Policy::DynamicAffinity];

/// So often each mix is played under each policy: as few as have an interval.
pub const SPACE_BLOCKS: u32 = 5;

/// The class of its programs: jobs that run a second or so, many times as long as it takes to move a CPU.
pub const SPACE_CLASS: &str = "W";

/// Seed of the bootstrap.
const SEED: u64 = 1;

/// The jobs of a mix of the report: `mva.W + matrix.W` for `MVA+MATRIX`.
pub fn jobs_of(mix: &str, class: &str) -> String {
    let job = |job: &str| format!("{}.{class}", job.to_lowercase());
    mix.split('+').map(job).collect::<Vec<_>>().join(" + ")
}

/// The file in `folder` of what became of the jobs of a mix.
pub fn results_of(mix: &str, folder: &Path) -> PathBuf {
    folder.join(format!("space-{}.json", mix.to_lowercase().replace('*', "x").replace('+', "-")))
}

/// What became of the mixes.
#[derive(Clone, Debug, Default)]
pub(super) struct LiveSpace(Vec<(&'static str, Results)>);

impl LiveSpace {
    pub fn add(&mut self, mix: &'static str, results: Results) {
        self.0.push((mix, results));
    }

    fn of(&self, mix: &str) -> Option<&Results> {
        self.0.iter().find(|(name, _)| *name == mix).map(|(_, results)| results)
    }

    /// Response times of the jobs of a kind under a policy in percent of those under `reference`; of all jobs without a kind. None where the
    /// mix wasn't played often enough.
    pub fn percent(&self, mix: &str, kind: Option<&str>, policy: Policy, reference: Policy) -> Option<Estimated> {
        let is_its = |job: &JobOutcome| {
            let program = job.name.split_once('.').map_or(job.name.as_str(), |(program, _)| program);
            kind.is_none_or(|kind| program.eq_ignore_ascii_case(kind))
        };
        let response_s = |play: &Outcome| {
            let times = play.jobs.iter().filter(|job| is_its(job)).map(|job| job.response_s);
            let times: Option<Vec<f64>> = times.collect();
            times.filter(|times| !times.is_empty()).map(|times| times.iter().sum::<f64>() / times.len() as f64)
        };
        self.ratio(mix, policy, reference, &response_s)
    }

    /// The number of plays under a policy, in percent of that under `reference`.
    fn ratio(
        &self,
        mix: &str,
        policy: Policy,
        reference: Policy,
        number: &dyn Fn(&Outcome) -> Option<f64>,
    ) -> Option<Estimated> {
        let results = self.of(mix)?;
        // The reference goes first.
        let mut policies = results.policies.clone();
        let place = policies.iter().position(|other| *other == reference)?;
        policies.swap(0, place);
        let ratio = paired_with(&policies, policy, &results.plays, number, SEED)?;
        let percent = |ratio: f64| 100.0 * ratio;
        Some(Estimated { value: percent(ratio.ratio), low: Some(percent(ratio.low)), high: Some(percent(ratio.high)) })
    }

    /// How it was run; none where it wasn't.
    pub fn study(&self, folder: &Path) -> Option<LiveStudy> {
        let (_, first) = self.0.first()?;
        let host = HostFacts::read();
        let plays = self.0.iter().map(|(_, results)| results.plays.len()).sum();
        let is_whole = |results: &Results| results.plays.len() >= SPACE_BLOCKS as usize * results.policies.len();
        let cpus = first.cpus.len();
        let full = self.0.iter().filter(|(_, results)| is_crowded(results)).count();
        let crowded = format!(
            "Figure 3, live, is of {cpus} CPUs. In {full} of {} mixes there are as many jobs as CPUs or more: each keeps one to its end, and until one has ended \
             no policy can differ from another.",
            self.0.len()
        );
        Some(LiveStudy {
            subjects: self.0.iter().map(|(mix, _)| (*mix).to_owned()).collect(),
            elsewhere: None,
            cpu_model: host.cpu_model,
            kernel: host.kernel,
            trials: plays,
            kept_in: format!("files space-*.json of the folder {}", folder.display()),
            ending: self.0.iter().all(|(_, results)| is_whole(results)).then_some(Ending::Finished),
            departures: if full > 0 { vec![crowded] } else { Vec::new() },
        })
    }

    /// What it says of a claim of section 5, by its check; none where it doesn't speak of it.
    pub fn judge(&self, check: &str) -> Option<LiveVerdict> {
        if self.0.is_empty() {
            return None;
        }
        let roomy = |mix: &str| self.of(mix).filter(|results| !is_crowded(results)).is_some();
        if !REPORT_MIXES.iter().any(|(mix, _)| roomy(mix)) {
            let speaks = ["all-sooner", "many-reallocations", "hardly-affinity"].contains(&check);
            let why = "on this machine no mix has fewer jobs than there are CPUs, and else policies can't differ";
            return speaks.then(|| LiveVerdict { verdict: Verdict::Undecidable, why: why.into() });
        }
        let mixes = || REPORT_MIXES.into_iter().map(|(mix, _)| mix);
        let equal = Policy::Equipartition;
        // What crowded mixes took says nothing of policies.
        let change = |mix: &str, percent: Option<Estimated>| {
            percent.filter(|_| roomy(mix)).map(|percent| percent.map(|percent| percent - 100.0))
        };
        let (verdict, why): Judgement = match check {
            "all-sooner" => every(mixes().flat_map(|mix| {
                let kinds = ["MVA", "MATRIX", "GRAVITY"].into_iter().filter(move |kind| mix.contains(*kind));
                kinds.flat_map(move |kind| {
                    SPACE_POLICIES[1..].iter().map(move |&policy| {
                        let change = change(mix, self.percent(mix, Some(kind), policy, equal));
                        Case::new(format!("{policy}, {mix}, {kind}:"), change, LESS, " %")
                    })
                })
            })),
            "many-reallocations" => every(mixes().map(|mix| {
                let moves = |play: &Outcome| Some(play.moves as f64);
                let more = change(mix, self.ratio(mix, Policy::Dynamic, equal, &moves));
                Case::new(format!("{mix}: CPUs that went to a job"), more, MORE, " % more than under equipartition")
            })),
            "hardly-affinity" => every(mixes().map(|mix| {
                let change = change(mix, self.percent(mix, None, Policy::DynamicAffinity, Policy::Dynamic));
                Case::near(format!("{mix}: affinity changes"), change, 0.0, MATTERS_PERCENT, " %")
            })),
            _ => return None,
        };
        Some(LiveVerdict { verdict, why: format!("on this machine: {why}") })
    }
}

/// Whether there are as many jobs as CPUs or more, so that each keeps one and no policy can differ from another until one has ended.
fn is_crowded(results: &Results) -> bool {
    results.jobs.len() >= results.cpus.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Plays of MVA+MATRIX on eight CPUs, whose jobs take so many seconds under each policy.
    fn played(times: [[f64; 2]; 3]) -> Results {
        let job = |name: &str, s: f64| {
            json!({"name": name, "arrived_s": 0.0, "waited_s": 0.0, "response_s": s, "cpu_s": 1.0, "held_s": 1.0, "got": 1, "lost": 0,
                   "capped": 0, "spoke": true, "failure": null, "tail": null, "leftovers": 0, "unbound": 0})
        };
        let plays: Vec<_> = (0..SPACE_BLOCKS)
            .flat_map(|block| SPACE_POLICIES.into_iter().zip(times).map(move |play| (block, play)))
            .map(|(block, (policy, [mva, matrix]))| {
                let noise = 1.0 + 0.001 * f64::from(block);
                json!({"play": block, "policy": policy, "seconds": 2.0, "moves": if policy == Policy::Equipartition { 2 } else { 9 },
                       "jobs": [job("mva.W", mva * noise), job("matrix.W", matrix * noise)], "allocator_cpu_s": 0.1, "interrupted_by": null})
            })
            .collect();
        let cpus: Vec<u32> = (0..8).collect();
        serde_json::from_value(
            json!({"cpus": cpus, "policies": SPACE_POLICIES, "jobs": ["mva.W", "matrix.W"], "comparisons": [],
                                      "plays": plays}),
        )
        .unwrap()
    }

    #[test]
    fn response_times_are_those_of_a_kind_against_the_named_policy() {
        let mut live = LiveSpace::default();
        assert_eq!((live.judge("all-sooner"), live.study(Path::new("f"))), (None, None));
        live.add("MVA+MATRIX", played([[2.0, 4.0], [1.0, 3.0], [1.0, 3.0]]));
        let percent =
            |kind, policy, reference| live.percent("MVA+MATRIX", kind, policy, reference).unwrap().value.round();
        let [equal, dynamic, affinity] = SPACE_POLICIES;
        assert_eq!(percent(Some("MVA"), dynamic, equal), 50.0);
        assert_eq!(percent(Some("MATRIX"), affinity, equal), 75.0);
        assert_eq!(percent(None, dynamic, equal), 67.0);
        assert_eq!(percent(Some("MVA"), affinity, dynamic), 100.0);
        assert_eq!(live.percent("MVA+MATRIX", Some("GRAVITY"), dynamic, equal), None);
        assert_eq!(live.percent("MVA+MVA", None, dynamic, equal), None);
        let study = live.study(Path::new("f")).unwrap();
        assert_eq!((study.trials, study.ending, study.departures.len()), (15, Some(Ending::Finished), 0));
        // Of seven mixes one was played.
        assert_eq!(live.judge("all-sooner").unwrap().verdict, Verdict::Undecidable);
        assert_eq!(live.judge("useless-data"), None);
    }

    #[test]
    fn claims_of_section_5_are_judged_where_all_mixes_were_played() {
        let mut slower = LiveSpace::default();
        let mut sooner = LiveSpace::default();
        for (mix, _) in REPORT_MIXES {
            sooner.add(mix, played([[2.0, 4.0], [1.0, 3.0], [1.0, 3.0]]));
            slower.add(mix, played([[2.0, 4.0], [2.5, 4.5], [2.0, 3.0]]));
        }
        assert_eq!(sooner.judge("many-reallocations").unwrap().verdict, Verdict::Holds);
        assert_eq!(sooner.judge("hardly-affinity").unwrap().verdict, Verdict::Holds);
        assert_eq!(slower.judge("hardly-affinity").unwrap().verdict, Verdict::Fails);
        assert_eq!(slower.judge("all-sooner").unwrap().verdict, Verdict::Fails);
        // Of two CPUs, the same numbers say nothing.
        slower.0.iter_mut().for_each(|(_, results)| results.cpus.truncate(2));
        let crowded = slower.judge("all-sooner").unwrap();
        assert_eq!(crowded.verdict, Verdict::Undecidable, "{}", crowded.why);
        assert!(crowded.why.contains("no mix has fewer jobs than there are CPUs"), "{}", crowded.why);
    }

    #[test]
    fn every_mix_of_the_report_is_jobs_and_has_a_file() {
        assert_eq!(jobs_of("2*MVA+GRAVITY", "W"), "2*mva.W + gravity.W");
        assert_eq!(results_of("2*MVA+GRAVITY", Path::new("f")), Path::new("f/space-2xmva-gravity.json"));
    }
}
