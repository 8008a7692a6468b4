//! The page of a study of replays.

use super::figures::{bin_table, figure, histogram, table};
use super::sheet;
use crate::chart::{Chart, Heights, Histogram, Hue, Interval};
use crate::number;
use crate::replay::ReplayView;
use crate::sentences;
use crate::simulation::Sheet;
use crate::words::{capital, count, plain};
use ::simulation::metrics::SLICE_MEDIAN;
use ::simulation::replays::{Beside, L2_MISSES, Quantity};
use ::simulation::{ReplayedPolicy, TimeBin};
use maud::{Markup, html};

/// What a page shows above its data.
pub(super) fn body(study: &ReplayView) -> Markup {
    let sheet = study.sheet();
    html! {
        (answer(study))
        main {
            (beside(&sheet))
            @if study.result.is_simulated { (agreement(study)) }
            (slices(study))
            (replicates(study))
            (sheet::model(&sheet, study.machine.as_ref(), &study.record.sessions))
            (guide(study))
        }
    }
}

/// The page's title.
pub(super) fn title(study: &ReplayView) -> String {
    format!("{}: what a kernel's schedulers do", study.workload())
}

fn answer(study: &ReplayView) -> Markup {
    let verdicts = sentences::replay_verdicts(study.analysis);
    let (first, others) = verdicts.split_first().map_or(("Nothing was replayed.", &[][..]), |(f, o)| (f, o));
    let own = format!("{}: ", study.workload());
    html! {
        header {
            div.bar {
                h1 { "Stayput replay in Linux " (plain(&study.result.kernel.release)) ", " (plain(&study.result.kernel.place)) }
                button.script-only #theme type="button" hidden { "Dark" }
            }
            div.answers {
                article.answer {
                    h2 { (study.workload()) }
                    (headline(study))
                    div {
                        p.verdict { (capital(&plain(first.strip_prefix(&own).unwrap_or(first)))) }
                        ul.verdicts { @for verdict in others { li { (capital(&plain(verdict))) } } }
                    }
                }
            }
            @if !study.analysis.warnings.is_empty() {
                div.notice { ul { @for warning in sentences::warnings(&study.analysis.warnings) { li { (plain(&warning)) } } } }
            }
            nav aria-label="Sections" {
                a href="#worlds" { "Both worlds" }
                @if study.result.is_simulated { a href="#agreement" { "Agreement" } }
                a href="#slices" { "Effective slices" } a href="#replicates" { "Replicates" }
                a href="#model" { "Model" } a href="#reading" { "How to read" }
            }
        }
    }
}

/// The largest figure: on how many of the judged figures the two worlds agree.
fn headline(study: &ReplayView) -> Markup {
    let agreements = &study.result.agreements;
    let (within, beyond) = agreements
        .iter()
        .fold((0, 0), |(within, beyond), agreement| (within + agreement.within.len(), beyond + agreement.beyond.len()));
    if within + beyond == 0 {
        let policies = study.result.policies.iter().filter(|policy| policy.replays > 0).count();
        return html! { div { p.figure.words { (policies) @if policies == 1 { " policy" } @else { " policies" } " replayed" } p.doubt { "nothing to compare them with" } } };
    }
    html! {
        div {
            p.figure.better[beyond == 0] { (within) " of " (within + beyond) small { " agree" } }
            p.doubt { "figures of kernel and simulator, within 25 %" }
            p.doubt.muted { "migrations a second and median effective slices, policy by policy" }
        }
    }
}

/// The table of everything.
fn beside(sheet: &Sheet) -> Markup {
    html! {
        section #worlds {
            h2 { "Both worlds" }
            p { (sheet.key) }
            (sheet::whole(&sheet.table, "Both worlds"))
        }
    }
}

/// How many times as much the kernel has as the simulator, quantity by quantity.
fn agreement(study: &ReplayView) -> Markup {
    html! {
        section #agreement {
            h2 { "Agreement" }
            p { "How many times as much the kernel has as the simulator; bars are 95 % intervals. Between 0.80 and 1.25 they agree within 25 %." }
            div.charts {
                @for quantity in study.quantities().filter(|quantity| !ratios(study, quantity).is_empty()) {
                    @let chart = Chart {
                        title: format!("{}: kernel over simulator", plain(quantity.words)),
                        description: format!("One row a policy, {}.", count(study.result.policies.len(), "policy")),
                    };
                    @let drawn = chart.intervals(&ratios(study, &quantity), "less", "more in the kernel", false);
                    (figure(&chart, drawn, "neither world has both figures", ratio_table(study, &quantity)))
                }
            }
        }
    }
}

fn each<'a>(
    study: &ReplayView<'a>,
    quantity: &Quantity,
) -> impl Iterator<Item = (usize, &'a ReplayedPolicy, &'a Beside)> {
    let policies = study.result.policies.iter().enumerate();
    policies.filter_map(move |(at, policy)| Some((at, policy, policy.beside(&quantity.metric)?)))
}

fn ratios(study: &ReplayView, quantity: &Quantity) -> Vec<Interval> {
    let row = |(at, policy, beside): (usize, &ReplayedPolicy, &Beside)| {
        let ratio = beside.ratio.filter(|ratio| ratio.value > 0.0)?;
        let (low, high) = (ratio.low.unwrap_or(ratio.value), ratio.high.unwrap_or(ratio.value));
        let range = ratio.low.zip(ratio.high).map(|(low, high)| format!(" ({low:.2}–{high:.2})")).unwrap_or_default();
        let name = plain(&policy.policy);
        let figure = format!("{:.2}{range}", ratio.value);
        Some(Interval {
            heading: None,
            hover: format!("{name}: {figure}"),
            label: name,
            estimate: (ratio.value, low, high),
            figure,
            hue: Hue::Series(at),
        })
    };
    each(study, quantity).filter_map(row).collect()
}

fn ratio_table(study: &ReplayView, quantity: &Quantity) -> Markup {
    let told = |figure: Option<f64>| figure.map_or_else(|| "–".into(), number::seconds);
    table(
        &["policy", "kernel", "simulated", "ratio"],
        each(study, quantity).map(|(_, policy, beside)| {
            let figures = [beside.kernel, beside.simulator, beside.ratio].map(|figure| told(figure.map(|e| e.value)));
            let [kernel, simulator, ratio] = figures;
            [plain(&policy.policy), kernel, simulator, ratio]
        }),
    )
}

/// How long effective slices last under each policy in both worlds.
fn slices(study: &ReplayView) -> Markup {
    let chart = Chart {
        title: "How long effective slices last".into(),
        description: "Histograms of effective time slices, one row a policy and world.".into(),
    };
    html! {
        section #slices {
            h2 { "Effective time slices" }
            p { "Time on a CPU with no other process of the workload in between, in percent of the policy's own. The last bar holds all that are longer." }
            div.charts.large { (figure(&chart, chart.histograms(&histograms(study), Heights::Own, " ms"), "no slice ended", bins_of(study))) }
        }
    }
}

/// The bins of each policy in the kernel, and then in the simulator.
fn worlds<'a>(study: &ReplayView<'a>) -> impl Iterator<Item = (usize, String, &'a [TimeBin], Option<f64>)> {
    study.result.policies.iter().enumerate().flat_map(|(at, policy)| {
        let median = policy.beside(&SLICE_MEDIAN);
        let kernel = median.and_then(|beside| Some(beside.kernel?.value));
        let simulator = median.and_then(|beside| Some(beside.simulator?.value));
        let name = plain(&policy.policy);
        let simulated = format!("{name}, simulated");
        [(at, name, policy.slices.as_slice(), kernel), (at, simulated, policy.simulated_slices.as_slice(), simulator)]
    })
}

fn histograms(study: &ReplayView) -> Vec<Histogram> {
    let row = |(at, label, bins, median): (usize, String, &[TimeBin], Option<f64>)| Histogram {
        figure: median.map_or_else(String::new, |ms| format!("median {} ms", number::seconds(ms))),
        ..histogram(&label, Hue::Series(at), bins, Some("slices"))
    };
    worlds(study).filter(|(_, _, bins, _)| bins.iter().any(|bin| bin.count > 0.0)).map(row).collect()
}

fn bins_of(study: &ReplayView) -> Markup {
    let heads = ["policy", "from, ms", "to, ms", "slices a replicate", "% of its own"];
    bin_table(&heads, worlds(study).map(|(_, label, bins, _)| (label, bins)))
}

/// Every replay and every simulated replicate.
fn replicates(study: &ReplayView) -> Markup {
    let quantities: Vec<Quantity> = study.quantities().collect();
    html! {
        section #replicates {
            h2 { "Replicates" }
            p { "Each draws the workload anew, the same under every policy and in both worlds." }
            details {
                summary { "All " (count(study.record.trials.len(), "replicate")) " as a table" }
                div.scroll.tall tabindex="0" role="region" aria-label="All replicates" {
                    table.dense.sortable {
                        thead { tr {
                            th { "world" } th { "policy" } th.n { "replicate" } th { "went" }
                            @for quantity in &quantities { th.n { (quantity.words) } }
                        } }
                        tbody {
                            @for sample in &study.record.trials {
                                tr {
                                    td { (study.world(sample)) } td { (plain(&sample.policy)) } td.n { (sample.replicate) }
                                    td { @match &sample.result { Ok(_) => { "ok" } Err(failure) => (plain(&failure.what)), } }
                                    @for quantity in &quantities {
                                        @let value = sample.value(&quantity.metric);
                                        td.n { (value.map_or_else(|| "–".into(), number::seconds)) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// What modelled misses are.
const MISSES: (&str, &str) = (
    "misses, modelled",
    "References to the workload's own data that the caches of the machine would have missed, by a model of them under every access of the guest. Lines that a process had never used before don't count. The data of this page has them by cause.",
);

fn guide(study: &ReplayView) -> Markup {
    let mut entries = vec![
        (
            "replay",
            "The workload once, with a real process for each simulated one: it works until it has had so much CPU time, sleeps, and waits for locks and barriers, as the simulated process of its number does.",
        ),
        (
            "kernel over simulated",
            "The geometric mean of the ratios of replicates with the same draws. Marked where the two worlds should agree and differ by more than 25 %.",
        ),
        ("effective slice", "Time on a CPU with no other process of the workload in between."),
        ("migration", "A process goes on on another CPU than where it last was."),
        ("lateness", "From when a process that slept was to wake until it had a CPU."),
        ("longest wait", "The longest that a process that could run had no CPU."),
        (
            "CPU time, least over most",
            "CPU time of the process that had least, over that of the one that had most, of those that do the same and arrived together: 1 is perfectly fair.",
        ),
    ];
    if study.quantities().any(|quantity| quantity.metric == L2_MISSES) {
        entries.push(MISSES);
    }
    sheet::reading(&entries)
}
