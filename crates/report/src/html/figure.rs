//! Figures, tables and marks that several sections are made of.

use crate::chart::{Canvas, Heights, Histogram, Hue, histograms};
use crate::number;
use crate::words::plain;
use maud::{Markup, html};

/// A chart under its title, or why there is none, and its data as a table. `description` is for those who can't see it.
pub(crate) fn figure(title: &str, description: &str, drawn: Option<Canvas>, lack: &str, data: Markup) -> Markup {
    html! {
        figure {
            figcaption { (title) }
            @match drawn {
                Some(canvas) => {
                    (canvas.finish(title, description))
                    details { summary { "Data" } (data) }
                }
                None => p.muted { "Nothing to draw: " (lack) "." }
            }
        }
    }
}

/// The data of a chart.
pub(crate) fn table<const N: usize>(heads: &[&str; N], rows: impl IntoIterator<Item = [String; N]>) -> Markup {
    let table = html! {
        table.dense {
            thead { tr { @for head in heads { th scope="col" { (head) } } } }
            tbody { @for row in rows { tr { @for cell in row { td { (cell) } } } } }
        }
    };
    scrolled("Data of the chart", false, table)
}

/// Histograms with their data, whose heads are as [`bin_table`] has them.
pub(crate) fn histogram_figure(
    title: &str,
    description: &str,
    rows: &[Histogram],
    heights: Heights,
    lack: &str,
    heads: [&str; 3],
) -> Markup {
    figure(title, description, histograms(rows, heights), lack, bin_table(rows, heads))
}

/// The bins of histograms. The heads stand above the names of the rows, above how many a bin holds, and above the same in percent.
pub(super) fn bin_table(rows: &[Histogram], [name, counted, percent]: [&str; 3]) -> Markup {
    let bins = rows.iter().flat_map(|row| {
        row.bins.iter().map(|bin| {
            let to = or_dash(bin.to_ms, |to| to.to_string());
            let (from, count) = (bin.from_ms.to_string(), format!("{:.1}", bin.count));
            [plain(&row.label), from, to, count, format!("{:.2}", bin.percent)]
        })
    });
    table(&[name, "from, ms", "to, ms", counted, percent], bins)
}

/// The median beside a histogram; empty without one.
pub(super) fn median_ms(median: Option<f64>) -> String {
    median.map_or_else(String::new, |ms| format!("median {} ms", number::seconds(ms)))
}

/// What histograms show, for those who can't see them.
pub(crate) fn medians(rows: &[Histogram]) -> String {
    rows.iter().map(|row| format!("{}: {}", plain(&row.label), row.figure)).collect::<Vec<_>>().join("; ")
}

/// A table that scrolls by itself where the page is too narrow for it, or where it `is_long` and would push everything else away.
pub(crate) fn scrolled(label: &str, is_long: bool, table: Markup) -> Markup {
    html! { div.scroll.tall[is_long] tabindex="0" role="region" aria-label=(label) { (table) } }
}

/// A field that leaves only those rows of the table called `id` that have its words.
pub(super) fn filter(id: &str) -> Markup {
    html! {
        input.script-only type="search" hidden placeholder="Show only rows with ..." aria-label="Show only rows with these words" data-filters=(id);
    }
}

/// The mark of a series as charts have it, and `space` after it.
pub(super) fn swatch(hue: Hue, space: &str) -> Markup {
    html! { span class=(hue.class()) aria-hidden="true" { (hue.glyph()) (space) } }
}

/// A figure, or a dash where there is none.
pub(super) fn or_dash<T>(figure: Option<T>, write: impl FnOnce(T) -> String) -> String {
    figure.map_or_else(|| "–".into(), write)
}
