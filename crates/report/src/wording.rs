//! How differences are said, by what runs are compared by: a program is faster, a mix finishes sooner, a rate is higher.

use crate::study_view::StudyView;
use stats::Better;
use study::mix::{ANTT, JAIN_INDEX, MAKESPAN, MEAN_COMPLETION, STP};
use study::{Claim, Metric, Varied};

/// How a difference by one metric is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wording<'m> {
    /// By the time of a program.
    Time,
    /// By the time until every job of a mix has ended once.
    Makespan,
    /// By any other metric.
    Other(&'m Metric),
    /// By several metrics at once.
    Several,
}

impl<'m> Wording<'m> {
    /// How a difference by `metric` is said.
    pub(crate) fn new(metric: &'m Metric) -> Self {
        match metric.name.as_str() {
            "time" => Self::Time,
            MAKESPAN => Self::Makespan,
            _ => Self::Other(metric),
        }
    }

    /// That of all of a study's subjects.
    pub(crate) fn of_study(study: &StudyView<'m>) -> Self {
        let mut all = study.compared().map(|subject| Self::new(&subject.metric));
        let first = all.next().unwrap_or(Self::Time);
        if all.all(|other| other == first) { first } else { Self::Several }
    }

    /// What is better, or worse, said of a number: `faster`, `sooner`, `higher rate`.
    pub(crate) fn comparative(self, is_better: bool) -> String {
        match (self, is_better) {
            (Self::Time, true) => "faster".into(),
            (Self::Time, false) => "slower".into(),
            (Self::Makespan, true) => "sooner".into(),
            (Self::Makespan, false) => "later".into(),
            (Self::Several, true) => "better".into(),
            (Self::Several, false) => "worse".into(),
            (Self::Other(metric), _) => match metric.better {
                Better::Neither => format!("other {}", name(metric)),
                better if (better == Better::Higher) == is_better => format!("higher {}", name(metric)),
                _ => format!("lower {}", name(metric)),
            },
        }
    }

    /// The same with its verb: `is 1.18x faster`, `has 1.18x higher rate`.
    pub(crate) fn predicate(self, ratio: &str, is_better: bool) -> String {
        let verb = match self {
            Self::Time | Self::Several => "is",
            Self::Makespan => "finishes",
            Self::Other(_) => "has",
        };
        format!("{verb} {ratio}x {}", self.comparative(is_better))
    }

    /// The same after a name and a comma: `1.18x faster`, `which finishes 1.18x sooner`.
    pub(crate) fn apposition(self, ratio: &str) -> String {
        match self {
            Self::Time => format!("{ratio}x faster"),
            _ => format!("which {}", self.predicate(ratio, true)),
        }
    }

    /// The same after `is shown to`: `be faster`, `finish sooner`, `have higher rate`.
    pub(crate) fn infinitive(self, is_better: bool) -> String {
        let verb = match self {
            Self::Time | Self::Several => "be",
            Self::Makespan => "finish",
            Self::Other(_) => "have",
        };
        format!("{verb} {}", self.comparative(is_better))
    }

    /// What is said of the one that no other beats.
    pub(crate) fn superlative(self) -> &'static str {
        if self == Self::Time { "fastest" } else { "best" }
    }

    /// What stands beside a ratio in large type.
    pub(crate) fn beside_ratio(self) -> String {
        match self {
            Self::Time => "as fast".into(),
            Self::Makespan => "shorter makespan".into(),
            _ => self.comparative(true),
        }
    }

    /// What is better, or worse, in one word, for scales and claims.
    pub(crate) fn word(self, is_better: bool) -> &'static str {
        match (self, is_better) {
            (Self::Time, true) => "faster",
            (Self::Time, false) => "slower",
            (Self::Makespan, true) => "sooner",
            (Self::Makespan, false) => "later",
            (_, true) => "better",
            (_, false) => "worse",
        }
    }

    /// What is claimed of a treatment against `reference`.
    pub(crate) fn claim(self, claim: Claim, reference: &str) -> String {
        match claim {
            Claim::Reference => "the reference".into(),
            Claim::Faster => format!("{} than {reference}", self.word(true)),
            Claim::Slower => format!("{} than {reference}", self.word(false)),
            Claim::NoneShown => "no difference shown".into(),
            Claim::TooFew => "too few pairs to tell".into(),
            Claim::Emulated => "times mean nothing".into(),
            Claim::Refused => "refused".into(),
        }
    }

    /// What is varied, as the beginning of a sentence: `where its threads run`.
    pub(crate) fn what_varies(self, varied: Varied) -> &'static str {
        match (self, varied) {
            (Self::Makespan, Varied::Places) => "where its jobs run",
            (_, Varied::Places) => "where its threads run",
            (_, Varied::Treatments) => "what it runs under",
            (_, Varied::Commands) => "which command runs",
        }
    }

    /// What that matters for; empty where it goes without saying.
    pub(crate) fn matters_for(self) -> String {
        match self {
            Self::Time | Self::Several => String::new(),
            Self::Makespan => format!(" for its {MAKESPAN}"),
            Self::Other(metric) => format!(" for its {}", name(metric)),
        }
    }

    /// What a ratio of a `noun` to `reference` is: `time of unbound over time of the placement`.
    pub(crate) fn ratio_of(self, reference: &str, noun: &str) -> String {
        let over = |name: &str| format!("{name} of {reference} over {name} of the {noun}");
        match self {
            Self::Time => over("time"),
            Self::Makespan => over(MAKESPAN),
            Self::Several => format!("how much better than {reference} the {noun} is"),
            Self::Other(metric) if metric.better == Better::Higher => {
                let name = name(metric);
                format!("{name} of the {noun} over {name} of {reference}")
            }
            Self::Other(metric) => over(name(metric)),
        }
    }
}

/// A metric's name as people say it.
pub(crate) fn name(metric: &Metric) -> &str {
    said(&metric.name)
}

/// The name of a metric as people say it.
pub(crate) fn said(name: &str) -> &str {
    match name {
        MEAN_COMPLETION => "mean completion time",
        ANTT => "ANTT",
        STP => "STP",
        JAIN_INDEX => "Jain's index",
        "cpu_time" => "CPU time",
        "peak_memory" => "peak memory",
        "voluntary_switches" => "voluntary switches",
        "involuntary_switches" => "involuntary switches",
        "minor_faults" => "minor faults",
        "major_faults" => "major faults",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use study::Mix;

    fn metric(name: &str, better: Better) -> Metric {
        Metric::new(name, None, better)
    }

    #[test]
    fn a_program_is_faster_a_mix_finishes_sooner_and_a_rate_is_higher() {
        let (time, makespan) = (Metric::default(), Mix::metric());
        let (rate, delay) = (metric("throughput", Better::Higher), metric("delay", Better::Lower));
        let told = |metric: &Metric| {
            let wording = Wording::new(metric);
            [wording.predicate("1.2", true), wording.infinitive(false), wording.claim(Claim::Slower, "unbound")]
        };
        assert_eq!(told(&time), ["is 1.2x faster", "be slower", "slower than unbound"]);
        assert_eq!(told(&makespan), ["finishes 1.2x sooner", "finish later", "later than unbound"]);
        assert_eq!(told(&rate), ["has 1.2x higher throughput", "have lower throughput", "worse than unbound"]);
        assert_eq!(told(&delay), ["has 1.2x lower delay", "have higher delay", "worse than unbound"]);
    }

    #[test]
    fn a_ratio_above_1_is_better_whichever_way_the_metric_goes() {
        let (rate, delay) = (metric("rate", Better::Higher), metric("delay", Better::Lower));
        let told = |metric| Wording::new(metric).ratio_of("unbound", "placement");
        assert_eq!(told(&rate), "rate of the placement over rate of unbound");
        assert_eq!(told(&delay), "delay of unbound over delay of the placement");
        assert_eq!(told(&Metric::default()), "time of unbound over time of the placement");
    }

    #[test]
    fn what_only_describes_is_neither_higher_nor_lower() {
        let size = metric("size", Better::Neither);
        assert_eq!(Wording::new(&size).comparative(true), "other size");
    }
}
