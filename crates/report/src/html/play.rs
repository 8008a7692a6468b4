//! The page of a study of plays.

use super::figures::{figure, table};
use super::sheet;
use crate::chart::{Bar, Chart, Histogram, Hue, Interval};
use crate::number;
use crate::play::PlayView;
use crate::sentences;
use crate::simulation::Sheet;
use crate::words::{count, plain};
use maud::{Markup, html};
use study::play::{Beside, L2_MISSES, PlayedPolicy, Quantity};
use study::simulation::TimeBin;

/// What a page shows above its data.
pub(super) fn body(play: &PlayView) -> Markup {
    let sheet = play.sheet();
    html! {
        (answer(play))
        main {
            (beside(&sheet))
            @if play.result.is_simulated { (agreement(play)) }
            (slices(play))
            (replicates(play))
            (sheet::model(&sheet, play.machine.as_ref(), play.record))
            (guide(play))
        }
    }
}

/// The page's title.
pub(super) fn title(play: &PlayView) -> String {
    format!("{}: what a kernel's schedulers do", play.workload())
}

fn answer(play: &PlayView) -> Markup {
    let mut verdicts = sentences::all(play.analysis);
    let first = verdicts.next().map_or("Nothing was played.".into(), |first| first.below(&play.workload()));
    html! {
        header {
            div.bar {
                h1 { "Stayput play in Linux " (plain(&play.result.kernel.release)) ", " (plain(&play.result.kernel.place)) }
                button.script-only #theme type="button" hidden { "Dark" }
            }
            div.answers {
                article.answer {
                    h2 { (play.workload()) }
                    (headline(play))
                    div {
                        p.verdict { (first) }
                        ul.verdicts { @for verdict in verdicts { li { (plain(&verdict.to_string())) } } }
                    }
                }
            }
            @if !play.analysis.warnings.is_empty() {
                div.notice { ul { @for warning in sentences::warnings(play.analysis) { li { (plain(&warning)) } } } }
            }
            nav aria-label="Sections" {
                a href="#worlds" { "Both worlds" }
                @if play.result.is_simulated { a href="#agreement" { "Agreement" } }
                a href="#slices" { "Effective slices" } a href="#replicates" { "Replicates" }
                a href="#model" { "Model" } a href="#reading" { "How to read" }
            }
        }
    }
}

/// The largest figure: on how many of the judged figures the two worlds agree.
fn headline(play: &PlayView) -> Markup {
    let agreements = &play.result.agreements;
    let (within, beyond) = agreements
        .iter()
        .fold((0, 0), |(within, beyond), agreement| (within + agreement.within.len(), beyond + agreement.beyond.len()));
    if within + beyond == 0 {
        let policies = play.result.policies.iter().filter(|policy| policy.plays > 0).count();
        return html! { div { p.figure.words { (count(policies, "policy")) " played" } p.doubt { "nothing to compare them with" } } };
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
fn agreement(play: &PlayView) -> Markup {
    html! {
        section #agreement {
            h2 { "Agreement" }
            p { "How many times as much the kernel has as the simulator; bars are 95 % intervals. Between 0.80 and 1.25 they agree within 25 %." }
            div.charts {
                @for quantity in play.quantities().filter(|quantity| !ratios(play, quantity).is_empty()) {
                    @let chart = Chart {
                        title: format!("{}: kernel over simulator", plain(quantity.words)),
                        description: format!("One row a policy, {}.", count(play.result.policies.len(), "policy")),
                    };
                    @let drawn = chart.intervals(&ratios(play, quantity), "less", "more in the kernel", false);
                    (figure(&chart, drawn, "neither world has both figures", ratio_table(play, quantity)))
                }
            }
        }
    }
}

fn each<'a>(play: &PlayView<'a>, quantity: &Quantity) -> impl Iterator<Item = (usize, &'a PlayedPolicy, &'a Beside)> {
    let policies = play.result.policies.iter().enumerate();
    policies.filter_map(move |(at, policy)| Some((at, policy, policy.beside(quantity.metric)?)))
}

fn ratios(play: &PlayView, quantity: &Quantity) -> Vec<Interval> {
    let row = |(at, policy, beside): (usize, &PlayedPolicy, &Beside)| {
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
    each(play, quantity).filter_map(row).collect()
}

fn ratio_table(play: &PlayView, quantity: &Quantity) -> Markup {
    let told = |figure: Option<f64>| figure.map_or_else(|| "–".into(), number::seconds);
    table(
        &["policy", "kernel", "simulated", "ratio"],
        each(play, quantity).map(|(_, policy, beside)| {
            let figures = [beside.kernel, beside.simulator, beside.ratio].map(|figure| told(figure.map(|e| e.value)));
            let [kernel, simulator, ratio] = figures;
            [plain(&policy.policy), kernel, simulator, ratio]
        }),
    )
}

/// How long effective slices last under each policy in both worlds.
fn slices(play: &PlayView) -> Markup {
    let chart = Chart {
        title: "How long effective slices last".into(),
        description: "Histograms of effective time slices, one row a policy and world.".into(),
    };
    html! {
        section #slices {
            h2 { "Effective time slices" }
            p { "Time on a CPU with no other process of the workload in between, in percent of the policy's own. The last bar holds all that are longer." }
            div.charts.large { (figure(&chart, chart.histograms(&histograms(play), " ms"), "no slice ended", bin_table(play))) }
        }
    }
}

/// The bins of each policy in the kernel, and then in the simulator.
fn worlds<'a>(play: &PlayView<'a>) -> impl Iterator<Item = (usize, String, &'a [TimeBin], Option<f64>)> {
    play.result.policies.iter().enumerate().flat_map(|(at, policy)| {
        let median = policy.beside("effective_slice_median_ms");
        let kernel = median.and_then(|beside| Some(beside.kernel?.value));
        let simulator = median.and_then(|beside| Some(beside.simulator?.value));
        let name = plain(&policy.policy);
        let simulated = format!("{name}, simulated");
        [(at, name, policy.slices.as_slice(), kernel), (at, simulated, policy.simulated_slices.as_slice(), simulator)]
    })
}

fn histograms(play: &PlayView) -> Vec<Histogram> {
    let row = |(at, label, bins, median): (usize, String, &[TimeBin], Option<f64>)| {
        let width = bins.first().and_then(|bin| Some(bin.to_ms? - bin.from_ms)).unwrap_or(1.0);
        let bar = |bin: &TimeBin| {
            let until = bin.to_ms.map_or_else(|| "on".into(), |to| format!("to {to} ms"));
            let hover = format!("{label}, {} ms {until}: {:.2} %, {:.1} slices", bin.from_ms, bin.percent, bin.count);
            Bar { from: bin.from_ms, to: bin.to_ms.unwrap_or(bin.from_ms + width), percent: bin.percent, hover }
        };
        let bars = bins.iter().map(bar).collect();
        let figure = median.map_or_else(String::new, |ms| format!("median {} ms", number::seconds(ms)));
        Histogram { figure, hue: Hue::Series(at), bars, label }
    };
    worlds(play).filter(|(_, _, bins, _)| bins.iter().any(|bin| bin.count > 0.0)).map(row).collect()
}

fn bin_table(play: &PlayView) -> Markup {
    let rows = worlds(play).flat_map(|(_, label, bins, _)| {
        bins.iter().map(move |bin| {
            let to = bin.to_ms.map_or_else(|| "–".into(), |to| to.to_string());
            [label.clone(), bin.from_ms.to_string(), to, format!("{:.1}", bin.count), format!("{:.2}", bin.percent)]
        })
    });
    table(&["policy", "from, ms", "to, ms", "slices a replicate", "% of its own"], rows)
}

/// Every play and every simulated replicate.
fn replicates(play: &PlayView) -> Markup {
    let quantities: Vec<&Quantity> = play.quantities().collect();
    html! {
        section #replicates {
            h2 { "Replicates" }
            p { "Each draws the workload anew, the same under every policy and in both worlds." }
            details {
                summary { "All " (count(play.record.trials.len(), "replicate")) " as a table" }
                div.scroll.tall tabindex="0" role="region" aria-label="All replicates" {
                    table.dense.sortable {
                        thead { tr {
                            th { "world" } th { "policy" } th.n { "replicate" } th { "went" }
                            @for quantity in &quantities { th.n { (quantity.words) } }
                        } }
                        tbody {
                            @for trial in &play.record.trials {
                                tr {
                                    td { (play.world(trial)) } td { (plain(&trial.placement)) } td.n { (trial.block) }
                                    td { @if trial.cause.is_empty() { (trial.status) } @else { (plain(&trial.cause)) } }
                                    @for quantity in &quantities {
                                        @let value = trial.observation.as_ref().and_then(|seen| seen.metrics.get(quantity.metric));
                                        td.n { (value.map_or_else(|| "–".into(), |value| number::seconds(*value))) }
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

fn guide(play: &PlayView) -> Markup {
    let mut entries = vec![
        (
            "play",
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
    if play.quantities().any(|quantity| quantity.metric == L2_MISSES) {
        entries.push(MISSES);
    }
    sheet::reading(&entries)
}
