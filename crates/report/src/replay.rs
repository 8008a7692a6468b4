//! Replays told in every form: what each policy did in a kernel, beside what the simulator says that it does.

use crate::csv::or_empty;
use crate::glossary::{Entry, REPLAYS};
use crate::number;
use crate::sentences;
use crate::simulation::{
    Contract, Sheet, job_in_words, kernel_in_words, means, parameters, put, samples_csv, where_and_how_often,
};
use crate::table::{Cell, Table};
use crate::words::plain;
use ::simulation::replays::{Agreement, Beside, L2_MISSES, QUANTITIES, Quantity};
use ::simulation::{Estimated, ReplayAnalysis, ReplayPlan, ReplayResult, ReplayedPolicy};
use machine::Machine;
use serde_json::{Map, Value, json};
use study::{Claim, Record, Sample};

/// A study of replays as the report sees it.
pub(crate) struct ReplayView<'a> {
    /// What happened.
    pub record: &'a Record<ReplayPlan>,
    /// What it means.
    pub analysis: &'a ReplayAnalysis,
    /// What came of each policy in both worlds.
    pub result: &'a ReplayResult,
    /// The machine, where the record's topology can be read.
    pub machine: Option<Machine>,
}

/// What either world leaves out, in sentences.
const LIMITS: [&str; 4] = [
    "Processes watch themselves: who was away for less than 50 us was not away, and when it was is known to a chunk of work (100 us).",
    "An emulator has one thread for all virtual CPUs: they take turns of a chunk of work each, which is what lateness below a ms consists of.",
    "Other processes of the kernel's run, too: an interruption by them ends no effective slice, but takes time.",
    "Intervals tell how far other replicates would differ, not how far the workload is from a real one.",
];

/// What is left out where the kernel's own scheduler isn't modelled.
const STAND_INS: [&str; 2] = [
    "The simulator's per-cpu and long-quantum have standard's priorities; the kernel's own scheduler shares by deadlines.",
    "In the simulator nothing preempts a process; a kernel may, for a waking one.",
];

/// What is left out of the affinity scheduler where the kernel's own is modelled.
const UNPREEMPTED_RULE: &str =
    "In the simulator nothing preempts a process under the affinity scheduler; a kernel may, for a waking one.";

impl<'a> ReplayView<'a> {
    /// Looks at `record` through `analysis`.
    pub(crate) fn new(record: &'a Record<ReplayPlan>, analysis: &'a ReplayAnalysis) -> Self {
        let machine = serde_json::from_value(record.machine.clone()).ok();
        Self { record, analysis, result: &analysis.result, machine }
    }

    /// The name of the workload.
    pub(crate) fn workload(&self) -> String {
        plain(&self.result.workload)
    }

    /// What is told of both worlds, where either has a figure that isn't 0.
    pub(crate) fn quantities(&self) -> impl Iterator<Item = Quantity> {
        let is_told = |quantity: &Quantity| {
            let worlds = self.result.policies.iter().filter_map(|policy| policy.beside(&quantity.metric));
            let mut figures = worlds.flat_map(|beside| [beside.kernel, beside.simulator]).flatten();
            figures.any(|figure| figure.value != 0.0)
        };
        QUANTITIES.into_iter().filter(is_told)
    }

    /// What stands below every table.
    pub(crate) fn key(&self) -> String {
        let means = means(self.record.plan.replicates);
        match self.result.is_simulated {
            true => format!(
                "{means}. Ratios of replicates with the same draws; one beyond 25 % is marked where both worlds follow the same rule."
            ),
            false => format!("{means}."),
        }
    }

    /// One row a quantity and world, and the ratio of both.
    pub(crate) fn table(&self) -> Table {
        let heads = self.result.policies.iter().map(|policy| plain(&policy.policy)).collect();
        let mut table = Table::of_policies(String::new(), heads);
        for quantity in self.quantities() {
            let mut row = |label: &str, cell: &dyn Fn(&ReplayedPolicy, &Beside) -> Cell| {
                let policies = self.result.policies.iter();
                let cells = policies.map(|policy| Some(cell(policy, policy.beside(&quantity.metric)?)));
                let cells: Vec<Cell> = cells.map(Option::unwrap_or_default).collect();
                let is_heading = !label.starts_with(' ');
                if is_heading || cells.iter().any(|cell| !cell.text.is_empty()) {
                    table.push(label.to_owned(), cells);
                }
            };
            row(quantity.words, &|_, beside| figure(beside.kernel));
            row("  simulated", &|_, beside| figure(beside.simulator));
            row("  kernel over simulated", &|policy, beside| ratio(beside, quantity.is_judged && policy.is_same_rule));
        }
        table
    }

    /// What was replayed, in one sentence.
    pub(crate) fn setting(&self) -> String {
        let plan = &self.record.plan;
        let beside = if self.result.is_simulated { " and in the simulator" } else { "" };
        format!(
            "Replayed: {} in Linux {} ({}){beside}, {}",
            self.workload(),
            plain(&self.result.kernel.release),
            plain(&self.result.kernel.place),
            where_and_how_often(self.machine.as_ref(), plan.cpus, plan.replicates, plan.seed, &self.record.host)
        )
    }

    /// What the words of its table mean.
    pub(crate) fn glossary(&self) -> impl Iterator<Item = Entry> + use<> {
        let has_misses = self.quantities().any(|quantity| quantity.metric == L2_MISSES);
        REPLAYS.into_iter().filter(move |entry| entry.0 != "misses, modelled" || has_misses)
    }

    /// What either world leaves out.
    pub(crate) fn limits(&self) -> Vec<String> {
        let kernel = self.record.plan.simulated.as_ref().and_then(|simulated| simulated.kernel.as_ref());
        let own = match kernel {
            Some(_) => vec![
                UNPREEMPTED_RULE.to_owned(),
                kernel_in_words(kernel.map_or_else(sim::Release::default, |kernel| kernel.release)),
            ],
            None => STAND_INS.map(str::to_owned).to_vec(),
        };
        let [first @ .., last] = LIMITS.map(str::to_owned);
        first.into_iter().chain(own).chain([last]).collect()
    }

    /// The jobs of the workload, a line each.
    pub(crate) fn jobs(&self) -> Vec<String> {
        self.record.plan.workload.jobs.iter().map(job_in_words).collect()
    }

    /// The parameters that the kernel was given; in brackets the simulator's, where they differ.
    pub(crate) fn parameters(&self) -> Vec<(String, String)> {
        let plan = &self.record.plan;
        let simulated = plan.simulated.as_ref().map(parameters).unwrap_or_default();
        let beside = |(name, value): (String, String)| {
            let other = simulated.iter().find(|(other, _)| *other == name).filter(|(_, other)| *other != value);
            let value = other.map_or(value.clone(), |(_, other)| format!("{value} (simulated: {other})"));
            (name, value)
        };
        parameters(&plan.parameters).into_iter().map(beside).collect()
    }

    /// The replays as the forms that are text alone say it.
    pub(crate) fn sheet(&self) -> Sheet<'a> {
        Sheet {
            verdicts: sentences::replay_verdicts(self.analysis),
            warnings: &self.analysis.warnings,
            table: self.table(),
            key: self.key(),
            setting: self.setting(),
            jobs: self.jobs(),
            parameters: self.parameters(),
            limits_of: "What both worlds leave out",
            limits: self.limits(),
        }
    }

    /// The world of a sample: `kernel` or `simulator`.
    pub(crate) fn world(&self, sample: &Sample) -> &'static str {
        if sample.subject == self.record.plan.simulator_subject() { "simulator" } else { "kernel" }
    }

    /// One row a replay or simulated replicate, in the order in which they were run: workload, world, policy, replicate, how it
    /// went, and every metric, whose units stand in their names. What it lacks is empty.
    pub(crate) fn csv(&self) -> String {
        let heads = ["workload", "world", "policy", "replicate", "status", "cause"].map(String::from);
        samples_csv(&self.record.trials, heads.into(), |sample| {
            let failure = sample.result.as_ref().err();
            vec![
                self.result.workload.clone(),
                self.world(sample).into(),
                sample.policy.clone(),
                sample.replicate.to_string(),
                failure.map_or_else(|| "ok".into(), |failure| failure.cause.to_string()),
                or_empty(failure.map(|failure| &failure.what)),
            ]
        })
    }

    /// The keys that studies of replays have besides those of every study: `workload` and `parameters` as they were replayed, `kernel`
    /// (`release`, `place`), `agreements`, and `policies`, one object each: `replays`, `failed`, `simulated_by`, `is_same_rule`, and for every metric
    /// its value in the `kernel` and in the `simulator` and their `ratio`, each with the ends of its 95 % interval in `_low` and
    /// `_high`; null where there is none.
    pub(crate) fn contract(&self) -> Contract {
        let plan = &self.record.plan;
        let agreement = |agreement: &Agreement| {
            let Agreement { metric, within, beyond, pairs, same_order } = agreement;
            let beyond: Vec<&str> = beyond.iter().map(|beyond| beyond.policy.as_str()).collect();
            json!({"metric": metric.to_string(), "within": within, "beyond": beyond, "pairs": pairs, "same_order": same_order})
        };
        let values = vec![
            ("workload", json!(plan.workload)),
            ("parameters", json!(plan.parameters)),
            ("kernel", json!(self.result.kernel)),
            ("agreements", self.result.agreements.iter().map(agreement).collect()),
        ];
        let policy = |policy: &ReplayedPolicy| {
            let metrics: Map<String, Value> =
                policy.metrics.iter().map(|(metric, beside)| (metric.to_string(), of_worlds(beside))).collect();
            json!({
                "policy": policy.policy,
                "simulated_by": policy.simulated_by,
                "is_same_rule": policy.is_same_rule,
                "replays": policy.replays,
                "failed": policy.failed,
                "metrics": metrics,
                "effective_slice_histogram": policy.slices,
                "simulated_effective_slice_histogram": policy.simulated_slices,
            })
        };
        Contract { values, lists: vec![("policies", self.result.policies.iter().map(policy).collect())] }
    }
}

fn of_worlds(beside: &Beside) -> Value {
    let mut fields = Map::new();
    for (name, estimate) in [("kernel", beside.kernel), ("simulator", beside.simulator), ("ratio", beside.ratio)] {
        put(&mut fields, name, estimate.as_ref());
    }
    Value::Object(fields)
}

fn figure(estimate: Option<Estimated>) -> Cell {
    let Some(Estimated { value, low, high }) = estimate else { return Cell::default() };
    let interval = low.zip(high).map(|(low, high)| (number::seconds(low), number::seconds(high)));
    Cell { text: number::seconds(value), interval: interval.filter(|(low, high)| low != high), ..Cell::default() }
}

/// How many times as much the kernel has; claimed where the two should agree and don't.
fn ratio(beside: &Beside, is_judged: bool) -> Cell {
    let Some(Estimated { value, low, high }) = beside.ratio else { return Cell::default() };
    let write = |ratio: f64| format!("{ratio:.*}", if ratio < 10.0 { 2 } else { 0 });
    let interval = low.zip(high).map(|(low, high)| (write(low), write(high)));
    let claim = (is_judged && beside.agrees() == Some(false)).then_some(Claim::Slower);
    Cell { text: write(value), interval: interval.filter(|(low, high)| low != high), claim, is_busy: false }
}
