//! Tables of what became of the jobs of mixes, and of metrics besides the one that runs are compared by.

use crate::metric;
use crate::number::{self, Ratio};
use crate::ranking;
use crate::study_view::StudyView;
use crate::table::{Cell, Row, Table};
use crate::wording;
use crate::words::shape_in_words;
use crate::words::{compared, names};
use stats::Better;
use study::Shape;
use study::{Claim, Job, JobSummary, Metric, MetricSummary, Mix, Subject, Summary};

/// How a table of jobs is to be read.
pub(crate) const JOBS_KEY: &str = "Jobs: the median time of a job's first run in the mix. Slowdown: its time over that by itself in the \
     same block (the mean over its runs in a trial, the median over trials, with the 95 % interval of that median), so 1 is as fast as \
     by itself. By itself: its median time under the reference, with nothing beside it. Where that isn't known, there is no slowdown.";

/// The same where nothing is run by itself.
pub(crate) const RACED_JOBS_KEY: &str = "Jobs: the median time of a job's first run in the mix. A race runs no job by itself, so that \
     how much each is slowed isn't known; a study that compares the treatments tells.";

/// How a table of metrics is to be read.
pub(crate) const METRICS_KEY: &str = "Metrics: what else was measured, as medians. Ratio: how much better than under the reference, \
     whichever way the metric goes, so above 1 is better, from pairs of the same block, with its 95 % interval; what is shown allows for \
     the number of these comparisons. Numbers that are 0 have no ratio, and a race compares by nothing else than what it is about.";

/// The same of what was counted in an emulated machine.
pub(crate) const COUNTED_KEY: &str = "What was counted, as medians. Ratio: how much less it is than under the reference, so above 1 is better, \
     from pairs of the same block, with its 95 % interval; what is shown allows for the number of these comparisons. Numbers that are 0 \
     have no ratio; cold and steady misses describe the program, and are compared with nothing.";

/// What the metrics of a mix are.
pub(crate) const MIX_METRICS_KEY: &str = "Mean completion time: from when a job is to start to the end of its first run. ANTT: the mean \
     slowdown. STP: the sum of each job's progress against by itself. Jain's index: 1 where all jobs are slowed alike, one over their \
     number where one gets everything.";

/// What is told of metrics below their table.
pub(crate) fn metrics_key(study: &StudyView) -> String {
    if study.is_emulated() {
        return COUNTED_KEY.to_owned();
    }
    let has_mix = study.compared().any(|subject| subject.mix.is_some());
    if has_mix { format!("{METRICS_KEY} {MIX_METRICS_KEY}") } else { METRICS_KEY.to_owned() }
}

/// What is told of jobs below their table.
pub(crate) fn jobs_key(study: &StudyView) -> &'static str {
    if study.is_race() { RACED_JOBS_KEY } else { JOBS_KEY }
}

/// The mixes of a study.
pub(crate) fn mixes<'a>(study: &StudyView<'a>) -> impl Iterator<Item = (&'a Subject, &'a Mix)> + use<'a> {
    study.compared().filter_map(|subject| Some((subject, subject.mix.as_ref()?)))
}

/// The cells of a subject of which more is told: of a race, those that its ranking shows.
pub(crate) fn cells<'a>(study: &StudyView<'a>, subject: &str) -> Vec<&'a Summary> {
    match study.ranking(subject) {
        None => study.summaries(subject).collect(),
        Some(ranking) => {
            let shown = ranking.top_and_tied(ranking::MOST_ROWS);
            let of = |entrant: &study::Entrant| study.summary(subject, entrant.threads, &entrant.placement);
            shown.into_iter().filter_map(|place| of(place.entrant)).collect()
        }
    }
}

/// The treatment of a cell, with its thread count where the study has several.
pub(crate) fn treatment(study: &StudyView, summary: &Summary) -> String {
    match study.plan.threads.len() {
        1 => names(summary),
        _ => format!("{}, {}", names(summary), shape_in_words(summary.threads)),
    }
}

/// What a job is called, and where it isn't run once from the beginning, how else.
pub(crate) fn job_name(job: &Job) -> String {
    let late = job.start.as_secs_f64();
    let late = (late > 0.0).then(|| format!("from {} on", number::duration(late)));
    let how: Vec<String> = late.into_iter().chain(job.repeat.then(|| "repeated".to_owned())).collect();
    if how.is_empty() { job.name.clone() } else { format!("{} ({})", job.name, how.join(", ")) }
}

/// The median time of a job by itself, under the reference.
pub(crate) fn alone_s(study: &StudyView, job: &Job, threads: Shape) -> Option<f64> {
    study.summary(&job.subject, threads, study.reference())?.median_s
}

/// A slowdown with its interval.
pub(crate) fn slowdown(job: &JobSummary) -> Option<Ratio> {
    Some(Ratio::new(job.slowdown?, job.slowdown_low, job.slowdown_high))
}

/// A number of any metric with four significant digits.
pub(crate) fn figure(value: f64) -> String {
    if value < 0.0 { format!("-{}", number::seconds(-value)) } else { number::seconds(value) }
}

impl Table {
    /// Each job of each mix: its time, how much it is slowed, and its time by itself. None without mixes.
    pub(crate) fn of_jobs(study: &StudyView) -> Option<Self> {
        let seconds = |s: Option<f64>| s.map_or_else(Cell::default, |s| number::seconds(s).into());
        let is_race = study.is_race();
        let mut rows = Vec::new();
        for (subject, mix) in mixes(study) {
            for summary in cells(study, &subject.name) {
                let row = |(job, told): (&Job, &JobSummary)| {
                    let slowed = slowdown(told).map_or_else(Cell::default, |Ratio { value, interval }| Cell {
                        text: value,
                        interval,
                        ..Cell::default()
                    });
                    let alone = [slowed, seconds(alone_s(study, job, summary.threads))];
                    let cells = std::iter::once(seconds(told.median_s)).chain(alone.into_iter().filter(|_| !is_race));
                    let labels = vec![subject.name.clone(), treatment(study, summary), job_name(job)];
                    Row { labels, cells: cells.collect() }
                };
                rows.extend(mix.jobs.iter().zip(&summary.jobs).map(row));
            }
        }
        let mut heads = vec!["time, s", "slowdown", "by itself, s"];
        heads.truncate(if is_race { 1 } else { 3 });
        let corner = ["subject", compared(study.analysis.varied), "job"].map(String::from).into();
        let heads = heads.into_iter().map(String::from).collect();
        (!rows.is_empty()).then_some(Self { corner, heads, counted: None, is_grouped: true, rows })
    }

    /// Each metric besides the one that runs are compared by: median, ratio, and what is shown. None where there is none.
    pub(crate) fn of_metrics(study: &StudyView) -> Option<Self> {
        let mut rows = Vec::new();
        for subject in study.compared() {
            for (position, metric) in subject.metrics.iter().enumerate() {
                let told = |summary: &&Summary| summary.metrics.get(position).is_some();
                for summary in cells(study, &subject.name).iter().copied().filter(told) {
                    let label = format!("{}{}", metric_label(metric), metric::direction(metric));
                    let labels = vec![subject.name.clone(), label, treatment(study, summary)];
                    let mut cells = metric_cells(&summary.metrics[position], study.is_busy(summary));
                    if study.is_race() {
                        cells[2] = "not compared".to_owned().into();
                    }
                    rows.push(Row { labels, cells: cells.into() });
                }
            }
        }
        let corner = ["subject", "metric", compared(study.analysis.varied)].map(String::from).into();
        let heads = ["median", "ratio", "shown"].map(String::from).into();
        (!rows.is_empty()).then_some(Self { corner, heads, counted: None, is_grouped: true, rows })
    }
}

/// How a table of what runs used is to be read.
pub(crate) const USED_KEY: &str = "Used: what runs used besides, as medians, and how much less than under the reference, so above 1 is \
     less. What is shown allows for the number of these comparisons.";

/// How the same is to be read where only what says something else is told.
pub(crate) const USED_OTHERWISE_KEY: &str = "Used: what runs used besides, as medians, where that is shown to differ and what is \
     compared isn't, or goes the other way; ratio: how much less than under the reference, so above 1 is less. All that runs used is in \
     the other forms of the report.";

impl Table {
    /// What runs used: median, ratio, and what is shown, of what `is_told` of any treatment. None where there is none.
    pub(crate) fn of_used(study: &StudyView, is_told: impl Fn(&Summary, &MetricSummary) -> bool) -> Option<Self> {
        let mut rows = Vec::new();
        for subject in study.compared() {
            let summaries: Vec<&Summary> = study.summaries(&subject.name).collect();
            let most = summaries.iter().map(|summary| summary.used.len()).max().unwrap_or(0);
            for position in 0..most {
                let told = || summaries.iter().filter_map(|summary| Some((*summary, summary.used.get(position)?)));
                if !told().any(|(summary, metric)| is_told(summary, metric)) {
                    continue;
                }
                rows.extend(told().map(|(summary, metric)| Row {
                    labels: vec![subject.name.clone(), metric_label(&metric.metric), treatment(study, summary)],
                    cells: metric_cells(metric, study.is_busy(summary)).into(),
                }));
            }
        }
        let corner = ["subject", "used", compared(study.analysis.varied)].map(String::from).into();
        let heads = ["median", "ratio", "shown"].map(String::from).into();
        (!rows.is_empty()).then_some(Self { corner, heads, counted: None, is_grouped: true, rows })
    }
}

/// Whether a treatment is shown to use more or less, and not to be worse or better by what is compared.
pub(crate) fn says_otherwise(summary: &Summary, used: &MetricSummary) -> bool {
    matches!(used.claim, Claim::Faster | Claim::Slower) && used.claim != summary.claim
}

/// `mean completion time, s`, `STP`.
fn metric_label(metric: &Metric) -> String {
    let unit = metric.unit.iter().map(|unit| format!(", {unit}"));
    std::iter::once(wording::name(metric).to_owned()).chain(unit).collect()
}

fn metric_cells(told: &MetricSummary, is_busy: bool) -> [Cell; 3] {
    let median = told.median.map_or_else(Cell::default, |value| figure(value).into());
    let ratio = told.ratio.map_or_else(Cell::default, |value| {
        let Ratio { value, interval } = Ratio::new(value, told.ratio_low, told.ratio_high);
        let claim = matches!(told.claim, Claim::Faster | Claim::Slower).then_some(told.claim);
        Cell { text: value, interval, claim, is_busy }
    });
    [median, ratio, shown(told).to_owned().into()]
}

/// What is claimed of a metric, in as few words as a column has room for.
fn shown(told: &MetricSummary) -> &'static str {
    match told.claim {
        Claim::Reference => "reference",
        _ if told.metric.better == Better::Neither => "not compared",
        Claim::Faster => "better",
        Claim::Slower => "worse",
        Claim::NoneShown => "none shown",
        // There are pairs, but of numbers that have no ratio.
        Claim::TooFew if told.pairs as usize >= stats::MIN_PAIRS => "no ratio",
        Claim::TooFew => "too few",
        Claim::Emulated => "emulated",
        Claim::Refused => "refused",
    }
}
