//! What a paper of simulated schedulers prints: `papers/printed/cache-affinity.toml`, embedded.

use crate::paper::Printed;
use serde::Deserialize;
use std::sync::LazyLock;

/// The paper: its tables, its figures, its claims.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PrintedReport {
    /// What it is called.
    pub short: String,
    /// The full reference.
    pub citation: String,
    /// The preset that describes its machine.
    pub machine: String,
    #[serde(rename = "table")]
    pub tables: Vec<Table>,
    #[serde(rename = "figure")]
    pub figures: Vec<Figure>,
    #[serde(rename = "claim")]
    pub claims: Vec<Claim>,
}

/// A table.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    pub name: String,
    pub title: String,
    pub about: String,
    /// How far ours may be from what is printed, in the table's unit.
    pub margin: Option<f64>,
    pub corner: String,
    pub columns: Vec<String>,
    pub rows: Vec<Row>,
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    pub label: String,
    /// One a column: words, the digits of a number, or nothing.
    pub printed: Vec<String>,
}

/// A figure.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Figure {
    pub name: String,
    pub title: String,
    pub about: String,
}

/// A sentence of the text, in our words.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Claim {
    /// By which check of `claims.rs` it is judged.
    pub check: String,
    #[serde(rename = "where")]
    pub place: String,
    pub says: String,
    /// Told where our numbers say otherwise: what in the report makes it so.
    #[serde(default)]
    pub otherwise: String,
}

impl PrintedReport {
    pub fn cache_affinity() -> &'static Self {
        static READ: LazyLock<PrintedReport> = LazyLock::new(|| {
            let text = include_str!("../../../../papers/printed/cache-affinity.toml");
            toml::from_str(text).expect("a test reads what the report prints")
        });
        &READ
    }

    /// The table of that name.
    pub fn table(&self, name: &str) -> &Table {
        self.tables.iter().find(|table| table.name == name).expect("a test reads every table")
    }

    /// The number printed in one cell; none where there is none.
    pub fn number(&self, table: &str, row: &str, column: usize) -> Option<Printed> {
        let row = self.table(table).rows.iter().find(|other| other.label == row)?;
        row.printed.get(column)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_row_has_a_cell_a_column() {
        for table in &PrintedReport::cache_affinity().tables {
            for row in &table.rows {
                assert_eq!(row.printed.len(), table.columns.len(), "{}, {}", table.title, row.label);
            }
        }
    }

    /// The report's own numbers, as far as they can be checked against one another.
    #[test]
    fn sums_are_what_the_report_prints() {
        let sum = |table: &str, label: &str| -> f64 {
            let row = PrintedReport::cache_affinity().table(table).rows.iter().find(|row| row.label == label).unwrap();
            row.printed.iter().map(|digits| digits.parse::<Printed>().unwrap().value).sum()
        };
        for row in &PrintedReport::cache_affinity().table("table-2").rows {
            assert_eq!(sum("table-2", &row.label), 100.0, "{}", row.label);
        }
        let ends: Vec<f64> = PrintedReport::cache_affinity()
            .table("table-3")
            .rows
            .iter()
            .map(|row| sum("table-3", &row.label))
            .collect();
        for (sum, printed) in ends.iter().zip([100.2, 101.0, 100.0, 100.0, 100.0]) {
            assert!((sum - printed).abs() < 1e-9, "{ends:?}");
        }
    }

    #[test]
    fn claims_have_checks_of_their_own() {
        let claims = &PrintedReport::cache_affinity().claims;
        let checks: BTreeSet<_> = claims.iter().map(|claim| claim.check.as_str()).collect();
        assert_eq!(checks.len(), claims.len());
    }
}
