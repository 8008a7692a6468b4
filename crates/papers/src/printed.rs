//! What a paper of simulated schedulers prints: `papers/printed/cache-affinity.toml`, embedded.

use crate::paper::{Printed, PrintedClaim, References};
use serde::Deserialize;
use sim::Decay;
use std::collections::BTreeMap;
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
    pub claims: Vec<PrintedClaim>,
    /// Which of its tables and figures have at least a caption.
    pub references: References,
    /// Numbers of its text, by what they are of and their unit.
    pub numbers: BTreeMap<String, f64>,
    /// Rules by which accumulated time may be decayed that its words allow.
    pub decays: Vec<Decay>,
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
    /// Whether only its caption has come down to us, and its cells are what the text repeats.
    #[serde(default)]
    pub is_lost: bool,
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
    /// Whether only its caption has come down to us.
    #[serde(default)]
    pub is_lost: bool,
}

impl PrintedReport {
    pub fn cache_affinity() -> &'static Self {
        static READ: LazyLock<PrintedReport> = LazyLock::new(|| {
            let text = include_str!("../../../papers/printed/cache-affinity.toml");
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

    /// The number printed in the column of that name; none where there is none.
    pub fn cell(&self, table: &str, row: &str, column: &str) -> Option<Printed> {
        let column = self.table(table).columns.iter().position(|other| other == column)?;
        self.number(table, row, column)
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

    #[test]
    fn the_bins_of_table_ii_hold_all_intervals() {
        for row in &PrintedReport::cache_affinity().table("table-2").rows {
            let sum: f64 = row.printed.iter().map(|digits| digits.parse::<Printed>().unwrap().value).sum();
            assert_eq!(sum, 100.0, "{}", row.label);
        }
    }

    #[test]
    fn claims_have_checks_of_their_own() {
        let claims = &PrintedReport::cache_affinity().claims;
        let checks: BTreeSet<_> = claims.iter().map(|claim| claim.check.as_str()).collect();
        assert_eq!(checks.len(), claims.len());
    }
}
