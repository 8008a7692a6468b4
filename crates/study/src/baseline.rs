//! A study held against an earlier one of the same cells: what was lost since then, and whether that is more than allowed.
//!
//! Runs of two studies are in no common blocks, so that what changed around them in the meantime counts as the program's. Side by side
//! in one study is surer.

use crate::comparison::Comparison;
use crate::metric::Metric;
use crate::plan::{Cell, Plan};
use crate::record::Record;
use crate::shape::Shape;
use crate::times::counted_costs;
use crate::verdict::Interval;
use serde::Serialize;

/// A study beside an earlier one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BaselineComparison {
    /// When the earlier one was begun, in seconds since 1970.
    pub baseline_began_unix_s: Option<f64>,
    /// Every cell that both have, in the order of this study.
    pub cells: Vec<BaselineCell>,
    /// What differs around them, as sentences.
    pub differences: Vec<String>,
    /// The most that may be lost, in percent; none where nothing is limited.
    pub max_percent: Option<f64>,
}

/// A cell beside the same of an earlier study.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BaselineCell {
    /// Name of the subject.
    pub subject: String,
    /// Thread count.
    pub threads: Shape,
    /// Name of the treatment.
    pub placement: String,
    /// What both are compared by.
    pub metric: Metric,
    /// Runs of the earlier study that count.
    pub baseline_runs: u32,
    /// Runs that count.
    pub runs: u32,
    /// Median of the earlier study, in the unit of the metric.
    pub baseline_median: Option<f64>,
    /// Median, likewise.
    pub median: Option<f64>,
    /// How much worse it is than before: above 1 is worse, whichever way the metric goes. None with too few runs.
    pub loss: Option<Interval>,
}

/// What is shown of a loss that is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LossFound {
    /// It is more than allowed.
    Exceeded,
    /// It is not.
    Within,
    /// Neither is shown.
    NotShown,
    /// There are too few runs to tell.
    TooFew,
}

impl BaselineCell {
    /// Whether more than `max_percent` was lost.
    pub fn found(&self, max_percent: f64) -> LossFound {
        let limit = 1.0 + max_percent / 100.0;
        match &self.loss {
            None => LossFound::TooFew,
            Some(loss) if loss.low > limit => LossFound::Exceeded,
            Some(loss) if loss.high <= limit => LossFound::Within,
            Some(_) => LossFound::NotShown,
        }
    }
}

impl BaselineComparison {
    /// `now` beside `earlier`, of the treatment called `placement` alone, if one is.
    ///
    /// # Errors
    /// Why nothing can be compared, in one sentence.
    pub fn new(
        earlier: &Record<Comparison>,
        now: &Record<Comparison>,
        placement: Option<&str>,
        max_percent: Option<f64>,
    ) -> Result<Self, String> {
        let common = common_cells(&earlier.plan.plan, &now.plan.plan, placement)?;
        let cells = common.into_iter().map(|(then, cell)| BaselineCell::new(earlier, then, now, cell)).collect();
        let baseline_began_unix_s = earlier.sessions.first().map(|session| session.before.unix_s);
        Ok(Self { baseline_began_unix_s, cells, differences: differences(earlier, now), max_percent })
    }

    /// Whether more than is allowed is shown to be lost in any cell.
    pub fn is_exceeded(&self) -> bool {
        let exceeds = |max: f64| self.cells.iter().any(|cell| cell.found(max) == LossFound::Exceeded);
        self.max_percent.is_some_and(exceeds)
    }
}

impl BaselineCell {
    fn new(earlier: &Record<Comparison>, then: Cell, now: &Record<Comparison>, cell: Cell) -> Self {
        let plan = &now.plan.plan;
        let subject = &plan.subjects[cell.subject];
        let theirs = counted_costs(&earlier.plan.plan, &earlier.trials, then);
        let ours = counted_costs(plan, &now.trials, cell);
        let loss = stats::unpaired_ratio(&ours, &theirs);
        // Turned around once more, a cost is the number that it was made of.
        let median = |costs: &[f64]| stats::quantile(costs, 0.5).map(|cost| subject.metric.cost(cost));
        Self {
            subject: subject.name.clone(),
            threads: plan.threads[cell.threads],
            placement: plan.treatments[cell.treatment].name.clone(),
            metric: subject.metric.clone(),
            baseline_runs: theirs.len() as u32,
            runs: ours.len() as u32,
            baseline_median: median(&theirs),
            median: median(&ours),
            loss: loss.map(|loss| Interval { value: loss.ratio, low: loss.low, high: loss.high }),
        }
    }
}

/// The cells of a study, of the treatment called `placement` alone if one is, that an earlier one has, too: each as it is there, and here.
/// A program that is called otherwise is the same where each study has one.
///
/// # Errors
/// Why there is none, in one sentence.
pub fn common_cells(before: &Plan, plan: &Plan, placement: Option<&str>) -> Result<Vec<(Cell, Cell)>, String> {
    if plan.site.is_emulated() || before.site.is_emulated() {
        return Err("times of an emulated machine mean nothing, and can't be held against others".into());
    }
    if let Some(name) = placement.filter(|name| plan.treatments.iter().all(|treatment| treatment.name != **name)) {
        return Err(format!("there is no placement `{name}` in this study"));
    }
    let is_one = before.compared().count() == 1 && plan.compared().count() == 1;
    let cells = plan.cells().filter(|cell| plan.subjects[cell.subject].alone.is_none());
    let cells = cells.filter(|cell| placement.is_none_or(|name| plan.treatments[cell.treatment].name == *name));
    let beside = |cell: Cell| {
        let subject = &plan.subjects[cell.subject];
        let name = if is_one { &before.compared().next()?.name } else { &subject.name };
        let then = before.cell(name, plan.threads[cell.threads], &plan.treatments[cell.treatment].name)?;
        let is_comparable = before.has(then) && before.subjects[then.subject].metric == subject.metric;
        is_comparable.then_some((then, cell))
    };
    let common: Vec<(Cell, Cell)> = cells.filter_map(beside).collect();
    match common.is_empty() {
        true => Err("it has no program in common with this study that ran with as many threads under the same treatment, compared by \
                     the same metric"
            .into()),
        false => Ok(common),
    }
}

/// What differs around two studies, besides their programs.
fn differences(earlier: &Record<Comparison>, now: &Record<Comparison>) -> Vec<String> {
    let (then, here) = (&earlier.host, &now.host);
    let or_unknown = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".into());
    let facts = [
        ("CPU", or_unknown(&then.cpu_model), or_unknown(&here.cpu_model)),
        ("kernel", then.kernel.clone(), here.kernel.clone()),
        ("hypervisor", or_unknown(&then.hypervisor), or_unknown(&here.hypervisor)),
    ];
    let changed = facts.into_iter().filter(|(_, then, here)| then != here);
    let mut told: Vec<String> = changed.map(|(what, then, here)| format!("{what}: {then} then, {here} now")).collect();
    let (then, here) = (earlier.usable_cpu_set().len(), now.usable_cpu_set().len());
    if then != here {
        told.push(format!("usable CPUs: {then} then, {here} now"));
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(low: f64, high: f64) -> BaselineCell {
        BaselineCell {
            subject: "app".into(),
            threads: 2.into(),
            placement: "unbound".into(),
            metric: Metric::default(),
            baseline_runs: 9,
            runs: 9,
            baseline_median: Some(1.0),
            median: Some(1.05),
            loss: Some(Interval { value: 1.05, low, high }),
        }
    }

    #[test]
    fn a_loss_is_exceeded_only_where_all_of_its_interval_is_beyond_the_limit() {
        assert_eq!(cell(1.04, 1.06).found(3.0), LossFound::Exceeded);
        assert_eq!(cell(1.02, 1.08).found(3.0), LossFound::NotShown);
        assert_eq!(cell(0.98, 1.03).found(3.0), LossFound::Within);
        assert_eq!(BaselineCell { loss: None, ..cell(1.0, 1.0) }.found(3.0), LossFound::TooFew);
        let of = |cells| BaselineComparison {
            baseline_began_unix_s: None,
            cells,
            differences: Vec::new(),
            max_percent: Some(3.0),
        };
        assert!(of(vec![cell(0.9, 1.0), cell(1.04, 1.06)]).is_exceeded());
        assert!(!of(vec![cell(0.9, 1.0), cell(1.02, 1.06)]).is_exceeded());
        assert!(!BaselineComparison { max_percent: None, ..of(vec![cell(1.04, 1.06)]) }.is_exceeded());
    }
}
