//! The page of a study of replays.

use super::figure::{bin_table, figure, median_ms, or_dash, table};
use super::page::{self, Section, heading};
use super::sheet;
use crate::chart::{self, Heights, Histogram, Hue, Interval};
use crate::json::{self, Metrics};
use crate::number;
use crate::replay::ReplayView;
use crate::sentences;
use crate::simulation::Sheet;
use crate::words::{count, plain};
use ::simulation::metrics::SLICE_MEDIAN;
use ::simulation::replays::{Beside, Quantity};
use ::simulation::{Estimated, ReplayedPolicy};
use maud::{Markup, html};
use stats::Metric;

/// Replays as one HTML file.
pub(crate) fn page(study: &ReplayView) -> String {
    let sheet = study.sheet();
    let mut sections = vec![beside(&sheet)];
    sections.extend(study.result.is_simulated.then(|| agreement(study)));
    sections.extend([
        slices(study),
        replicates(study),
        sheet::model(&sheet, study.machine.as_ref(), &study.record.sessions),
        guide(study),
    ]);
    let title = format!("{}: what a kernel's schedulers do", study.workload());
    let head = answer(study, &sections);
    page::study_page(&study.record.host, &title, &head, &sections, &json::replay(study, Metrics::Summarised))
}

fn answer(study: &ReplayView, sections: &[Section]) -> Markup {
    let kernel = &study.result.kernel;
    sheet::answer(
        html! { "Stayput replay in Linux " (plain(&kernel.release)) ", " (plain(&kernel.place)) },
        &study.workload(),
        headline(study),
        sentences::of_replay(study.analysis),
        "Nothing was replayed.",
        &study.analysis.warnings,
        sections,
    )
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
fn beside(sheet: &Sheet) -> Section {
    heading("worlds", "Both worlds", "Both worlds").above(html! {
        p { (sheet.key) }
        (sheet::whole(&sheet.table, "Both worlds"))
    })
}

/// How many times as much the kernel has as the simulator, quantity by quantity.
fn agreement(study: &ReplayView) -> Section {
    let of_quantity = |quantity: Quantity| {
        let ratios = ratios(study, &quantity);
        let drawn = figure(
            &format!("{}: kernel over simulator", plain(quantity.words)),
            &format!("One row a policy, {}.", count(study.result.policies.len(), "policy")),
            chart::intervals(&ratios, "less", "more in the kernel", false),
            "neither world has both figures",
            ratio_table(study, &quantity),
        );
        (!ratios.is_empty()).then_some(drawn)
    };
    heading("agreement", "Agreement", "Agreement").above(html! {
        p { "How many times as much the kernel has as the simulator; bars are 95 % intervals. Between 0.80 and 1.25 they agree within 25 %." }
        div.charts { @for drawn in study.quantities().filter_map(of_quantity) { (drawn) } }
    })
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
    table(
        &["policy", "kernel", "simulated", "ratio"],
        each(study, quantity).map(|(_, policy, beside)| {
            let figures = [beside.kernel, beside.simulator, beside.ratio];
            let [kernel, simulator, ratio] = figures.map(|figure| or_dash(figure, |e| number::seconds(e.value)));
            [plain(&policy.policy), kernel, simulator, ratio]
        }),
    )
}

/// How long effective slices last under each policy in both worlds.
fn slices(study: &ReplayView) -> Section {
    let rows: Vec<Histogram> = study.result.policies.iter().enumerate().flat_map(worlds).collect();
    // A policy that isn't simulated has bins, but nothing in them.
    let is_drawn = |row: &&Histogram| row.bins.iter().any(|bin| bin.count > 0.0);
    let drawn: Vec<Histogram> = rows.iter().filter(is_drawn).cloned().collect();
    let drawn = figure(
        "How long effective slices last",
        "Histograms of effective time slices, one row a policy and world.",
        chart::histograms(&drawn, Heights::Own),
        "no slice ended",
        bin_table(&rows, ["policy", "slices a replicate", "% of its own"]),
    );
    heading("slices", "Effective slices", "Effective time slices").above(html! {
        p { "Time on a CPU with no other process of the workload in between, in percent of the policy's own. The last bar holds all that are longer." }
        div.charts.large { (drawn) }
    })
}

/// The slices of a policy in the kernel, and then in the simulator.
fn worlds<'a>((at, policy): (usize, &'a ReplayedPolicy)) -> impl Iterator<Item = Histogram<'a>> {
    let median = policy.beside(&SLICE_MEDIAN);
    let name = plain(&policy.policy);
    let simulated = format!("{name}, simulated");
    let worlds = [
        (name, &policy.slices, median.and_then(|beside| beside.kernel)),
        (simulated, &policy.simulated_slices, median.and_then(|beside| beside.simulator)),
    ];
    let histogram = move |(label, bins, median): (String, &'a Vec<_>, Option<Estimated>)| Histogram {
        label,
        figure: median_ms(median.map(|median| median.value)),
        hue: Hue::Series(at),
        bins,
        counted: Some("slices"),
        median: None,
    };
    worlds.into_iter().map(histogram)
}

/// Every replay and every simulated replicate.
fn replicates(study: &ReplayView) -> Section {
    let metrics: Vec<(Metric, &str)> =
        study.quantities().map(|quantity| (quantity.metric.clone(), quantity.words)).collect();
    sheet::replicates(
        "Each draws the workload anew, the same under every policy and in both worlds.",
        &study.record.trials,
        ["world", "policy"],
        |sample| [study.world(sample).to_owned(), sample.policy.clone()],
        &metrics,
        true,
    )
}

fn guide(study: &ReplayView) -> Section {
    page::reading(page::entries(study.glossary()))
}
